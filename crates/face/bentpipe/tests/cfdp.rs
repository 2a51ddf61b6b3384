//! `bentpipe dtn cfdp`: files over UDP and as bundles, and with cfdp-py (PyPI) at the other end where Python has it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use bentpipe_testkit::{Folder, await_socket, free_address, skip, text};

fn cfdp(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["dtn", "cfdp"]).args(words).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn receiver(at: &str, folder: &Path, count: &str) -> Child {
    let words = ["receive", at, "--entity", "1", "--timeout", "1 s", "--count", count, "--out"];
    let child = cfdp(&words).arg(folder).spawn().expect("bentpipe starts");
    await_socket(&child, at);
    child
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}

fn is_good(output: &Output) -> bool {
    output.status.code() == Some(0)
}

#[test]
fn files_arrive_over_udp_in_both_classes() {
    let folder = Folder::new();
    let (inbox, at) = (folder.file("inbox"), free_address());
    let contents = [pattern(0), pattern(70_000)];
    for (n, content) in contents.iter().enumerate() {
        std::fs::write(folder.file(format!("file-{n}")), content).expect("written");
    }
    let paths = [0, 1].map(|n| folder.file(format!("file-{n}")).display().to_string());
    for (class, word) in [("2", "delivered"), ("1", "sent")] {
        let received = receiver(&at, &inbox, "2");
        let base = ["send", &at, "--entity", "2", "--to", "1", "--timeout", "1 s", "--crc", "--class", class];
        let sent = cfdp(&[&base[..], &[&paths[0], &paths[1]]].concat()).output().expect("bentpipe starts");
        let received = received.wait_with_output().expect("it ends");
        assert!(is_good(&sent) && is_good(&received), "{}{}", text(&sent), text(&received));
        assert_eq!(text(&sent).matches(word).count() - usize::from(word == "sent"), 2, "{}", text(&sent));
        for (n, content) in contents.iter().enumerate() {
            let path = inbox.join(format!("file-{n}"));
            assert_eq!(&std::fs::read(&path).expect("a file"), content);
            std::fs::remove_file(path).expect("removed");
        }
    }
}

#[test]
fn an_entity_sends_again_from_another_port() {
    let folder = Folder::new();
    let (inbox, at) = (folder.file("inbox"), free_address());
    let received = receiver(&at, &inbox, "3");
    // One datagram in the entity's name, from a port that is closed: the end of a file of 1 B.
    let stray = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    stray.send_to(&[0x20, 0, 10, 0, 3, 5, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1], &at).expect("a socket");
    drop(stray);
    for n in 0..3 {
        let path = folder.file(format!("file-{n}"));
        std::fs::write(&path, pattern(3000 + n)).expect("written");
        let words =
            ["send", &at, "--entity", "3", "--to", "1", "--timeout", "1 s", &path.display().to_string()];
        let sent = cfdp(&words).output().expect("bentpipe starts");
        assert!(is_good(&sent) && text(&sent).contains("delivered"), "{}", text(&sent));
    }
    let received = received.wait_with_output().expect("it ends");
    assert!(is_good(&received), "{}", text(&received));
}

#[test]
fn silence_fails_and_bad_options_are_refused() {
    let folder = Folder::new();
    let file = folder.file("a");
    std::fs::write(&file, b"x").expect("written");
    let file = file.display().to_string();
    let words =
        ["send", &free_address(), "--entity", "2", "--to", "1", "--timeout", "100 ms", "--tries", "2", &file];
    let silent = cfdp(&words).output().expect("bentpipe starts");
    assert_eq!(silent.status.code(), Some(1), "{}", text(&silent));
    assert!(text(&silent).contains("failed after 1 B: no acknowledgement"), "{}", text(&silent));
    let missing = cfdp(&["send", &free_address(), "--entity", "2", "--to", "1", "/no/such"]).output();
    assert_eq!(missing.expect("bentpipe starts").status.code(), Some(2));
}

/// Returns a Python that has cfdp-py: that of `BENTPIPE_PYTHON`, or of `cargo xtask python`.
fn python() -> Option<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    let folder = std::env::var("BENTPIPE_PYTHON").unwrap_or_else(|_| format!("{root}/target/python/bin"));
    let python = format!("{folder}/python");
    let found = Command::new(&python).args(["-c", "import cfdppy"]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Some(python);
    }
    skip(&format!("{python} has no cfdp-py; `cargo xtask python` installs it"));
    None
}

fn peer(python: &str, words: &[&str]) -> Child {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/cfdp.py");
    let mut command = Command::new(python);
    command.arg(script).args(words).stdout(Stdio::piped());
    command.spawn().expect("Python starts")
}

#[test]
fn files_cross_to_and_from_cfdp_py() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let content = pattern(20_000);
    let file = folder.file("outgoing").display().to_string();
    std::fs::write(&file, &content).expect("written");
    for class in ["1", "2"] {
        // To it.
        let (at, target) = (free_address(), folder.file("incoming"));
        let port = at.rsplit(':').next().expect("a port").to_owned();
        let mut child = peer(&python, &["receive", &port, &target.display().to_string()]);
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut String::new()).expect("it is ready");
        let name = target.file_name().expect("a name").to_string_lossy().into_owned();
        let words = ["send", &at, "--entity", "1", "--to", "2", "--timeout", "1 s", "--class", class];
        let place = ["--name", &format!("{}/{name}", folder.path().display())].map(str::to_owned);
        let sent = cfdp(&words).args(place).arg(&file).output().expect("bentpipe starts");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut output, &mut said).expect("text");
        child.wait().expect("it ends");
        assert!(is_good(&sent), "{}{said}", text(&sent));
        assert!(said.contains("NO_ERROR"), "{said}");
        assert_eq!(std::fs::read(&target).expect("a file"), content);
        std::fs::remove_file(&target).expect("removed");
        // From it.
        let (at, inbox) = (free_address(), folder.file("inbox"));
        let port = at.rsplit(':').next().expect("a port").to_owned();
        let received = receiver(&at, &inbox, "1");
        let child = peer(&python, &["send", &port, &file, "from-python", class]);
        let said = child.wait_with_output().expect("it ends");
        let received = received.wait_with_output().expect("it ends");
        assert!(is_good(&received), "{}{}", text(&received), text(&said));
        assert_eq!(std::fs::read(inbox.join("from-python")).expect("a file"), content);
        std::fs::remove_file(inbox.join("from-python")).expect("removed");
    }
}
