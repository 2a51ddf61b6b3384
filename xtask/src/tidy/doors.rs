//! Places where files are opened on behalf of a scenario.
//!
//! The controller and the agent read scenarios of others. What they use opens a scenario's files through its `Access`, and
//! nothing else by a path but these sources, which write results or run ffmpeg in folders of their own. Questions whether a
//! file is there count too, and programs and connections, which could open files for them.

use std::path::Path;

use super::source::{Token, is_test, tokens, without_tests};
use crate::{files, floors, root};

/// Crates that a scenario passes through, from its text to its results.
const CRATES: [&str; 18] = [
    "scenario",
    "assemble",
    "lab",
    "site",
    "sim",
    "net",
    "units",
    "transport",
    "mpeg",
    "dtn",
    "dvb",
    "atm",
    "wireless",
    "space",
    "sensor",
    "voice",
    "telephony",
    "signalling",
];

/// Sources that may use the file system.
const OPENERS: [&str; 9] = [
    "crates/experiment/scenario/src/files.rs",
    "crates/experiment/assemble/src/cards.rs",
    "crates/experiment/assemble/src/ffmpeg.rs",
    "crates/experiment/assemble/src/scratch.rs",
    "crates/experiment/lab/src/run/execute.rs",
    "crates/experiment/lab/src/run/folder.rs",
    "crates/experiment/lab/src/run/follow.rs",
    "crates/experiment/lab/src/video/judge.rs",
    "crates/experiment/lab/src/video/quality.rs",
];

/// Words of what opens files, connections or results by itself: modules, types and functions.
const WORDS: [&str; 12] = [
    "fs",
    "OpenOptions",
    "from_path",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "read_series",
    "read_frame",
    "StoredResults",
    "file_hash",
];

/// Methods of a path that ask the file system.
const QUESTIONS: [&str; 7] =
    ["exists", "try_exists", "canonicalize", "read_dir", "read_link", "symlink_metadata", "is_symlink"];

/// Lists sources that use the file system and are not among those that may.
pub(super) fn breaches() -> Vec<String> {
    let sources = CRATES
        .iter()
        .filter_map(|name| floors::folder_of(name))
        .flat_map(|folder| files(&root().join(folder).join("src"), ".rs"));
    let shown = |path: &Path| path.strip_prefix(root()).unwrap_or(path).display().to_string();
    sources
        .filter(|path| !is_test(path.strip_prefix(root()).unwrap_or(path)))
        .filter(|path| !OPENERS.contains(&&shown(path)[..]))
        .filter(|path| std::fs::read_to_string(path).is_ok_and(|text| uses_files(without_tests(&text))))
        .map(|path| format!("{} uses the file system: expected the Access of the document", shown(&path)))
        .collect()
}

/// Returns `true` if a source opens a file, asks for one, or starts a program.
fn uses_files(source: &str) -> bool {
    let all = tokens(source);
    let opens = |window: &[Token<'_>]| match window {
        [Token::Word("File"), Token::Path, Token::Word(of)] => {
            ["open", "options", "create", "create_new"].contains(of)
        }
        [Token::Word("process"), Token::Path, Token::Word("Command") | Token::Mark('{' | '*')] => true,
        [Token::Mark('.'), Token::Word(method), Token::Mark('(')] => QUESTIONS.contains(method),
        _ => false,
    };
    let is_word = |token: &Token<'_>| matches!(token, Token::Word(word) if WORDS.contains(word));
    all.iter().any(is_word) || all.windows(3).any(opens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_opens_files_is_found() {
        for source in [
            "fn f() { std::fs::read(p); }",
            "use std::fs;",
            "use std :: { fs, io };",
            "fn f() { File::open(p); }",
            "fn f() { OpenOptions::new(); }",
            "fn f() { File :: create (p); }",
            "use rustix::{fs as files};",
            "fn f(p: &Path) -> bool { p.exists() }",
            "fn f(p: &Path) { p\n.read_dir(); }",
            "use std::process::{Command, Stdio};",
            "fn f() { std::process::Command::new(\"cat\"); }",
            "use std::process::*;",
            "fn f() { csv::Reader::from_path(p); }",
            "fn f() { bentpipe_record::read_series(p, |_, _| true); }",
            "fn f() { std::os::unix::net::UnixStream::connect(p); }",
        ] {
            assert!(uses_files(source), "{source}");
        }
        for source in [
            "// std::fs::read\nfn f() { access.open(\"fs::read\"); }",
            "fn f() -> u32 { std::process::id() }",
            "fn f(known: &Set) { known.exists_at(1); Command::Join; }",
        ] {
            assert!(!uses_files(source), "{source}");
        }
    }
}
