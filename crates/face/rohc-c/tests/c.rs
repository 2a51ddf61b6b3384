//! A C program over the libraries: captures there and back, misuse, and hostile input, under the address sanitizer where the compiler
//! has it.
#![expect(clippy::tests_outside_test_module, reason = "an integration test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use bentpipe_testkit::{Folder, has, run, said, skip, succeed};

/// Returns the folder with the libraries that Cargo built for this test.
fn built() -> PathBuf {
    std::env::current_exe().expect("the test's path").parent().expect("deps").to_owned()
}

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles the program; with the shared library, or the static one.
fn compiled(folder: &Folder, shared: bool) -> PathBuf {
    let (libraries, program) = (built(), folder.file(if shared { "shared" } else { "static" }));
    let compile = |sanitizer: &[&str]| {
        let mut command = Command::new("cc");
        command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g"]).args(sanitizer);
        command.arg("-I").arg(crate_folder().join("include")).arg(crate_folder().join("tests/channel.c"));
        command.arg("-o").arg(&program);
        match shared {
            true => {
                command.arg("-L").arg(&libraries).arg("-lbentpipe_rohc_c");
                command.arg(format!("-Wl,-rpath,{}", libraries.display()));
            }
            false => {
                command.arg(libraries.join("libbentpipe_rohc_c.a")).args(["-lpthread", "-ldl", "-lm"]);
            }
        }
        command
    };
    let sanitized = compile(&["-fsanitize=address,undefined"]).output();
    if !sanitized.is_ok_and(|output| output.status.success()) {
        succeed(&mut compile(&[]));
    }
    program
}

/// Returns the number behind a word of what the program printed.
fn number(text: &str, word: &str) -> u64 {
    let mut words = text.split_whitespace().skip_while(|it| *it != word).skip(1);
    words.next().and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no {word} in {text}"))
}

#[test]
fn a_c_program_compresses_and_restores_captures() {
    if !has("cc") {
        return skip("no C compiler");
    }
    let folder = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let programs = [true, false].map(|shared| compiled(&folder, shared).display().to_string());
    let vectors = crate_folder().join("../../ground/rohc/tests/vectors");
    let captures =
        ["synth_rtp4_voice_talkspurts.pcap", "synth_tcp4_interactive.pcap", "synth_esp4_gaps.pcap"];
    for capture in captures {
        let path = vectors.join(capture).display().to_string();
        let of = |program: &str, options: &[&str]| {
            let words: Vec<&str> = [&path[..]].iter().chain(options).copied().collect();
            said(&run(program, &folder, &words), 0)
        };
        let text = of(&programs[0], &[]);
        assert_eq!(text, of(&programs[1], &[]), "{capture}: both libraries");
        let (sent, delivered) = (number(&text, "packets"), number(&text, "delivered"));
        assert!(
            sent > 0 && delivered == sent && text.starts_with(env!("CARGO_PKG_VERSION")),
            "{capture}: {text}"
        );
        let mut headers = text.split_whitespace().skip_while(|it| *it != "headers").skip(1);
        let mut next = || headers.next().and_then(|it| it.parse::<u64>().ok()).expect("a number");
        let (before, after) = (next(), next());
        assert!(after * 2 < before, "{capture}: {text}");
        let lossy = of(&programs[0], &["lossy", "large", "v2"]);
        let lost = number(&lossy, "lost");
        assert!(
            lost > 0 && number(&lossy, "delivered") + lost <= number(&lossy, "packets"),
            "{capture}: {lossy}"
        );
        assert!(lossy.contains("wrong 0"), "{capture}: {lossy}");
    }
}

#[test]
fn the_header_declares_what_the_library_has() {
    let header = std::fs::read_to_string(crate_folder().join("include/bentpipe_rohc.h")).expect("the header");
    let source = std::fs::read_to_string(crate_folder().join("src/lib.rs")).expect("the source");
    let names = |text: &str, before: &str| -> std::collections::BTreeSet<String> {
        let of = text.split(before).skip(1).map(|rest| rest.split('(').next().unwrap_or_default());
        of.map(|name| name.trim().trim_start_matches('*').to_owned()).collect()
    };
    let exported = names(&source, "extern \"C\" fn ");
    assert!(exported.len() > 15);
    for name in &exported {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
    let library = std::fs::read(built().join("libbentpipe_rohc_c.so")).expect("the shared library");
    for name in &exported {
        let is_there = library.windows(name.len()).any(|window| window == name.as_bytes());
        assert!(is_there, "{name} is not in the library");
    }
}
