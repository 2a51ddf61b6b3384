//! Somebody else's decoders, called from tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bentpipe_wire::pcap::{LinkType, Writer};

/// Whether a tool is there. Without it a test has nothing to compare with; in CI that is a failure.
pub(crate) fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("-version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "{tool} is needed in CI");
    if !found {
        println!("skipped: {tool} is not installed");
    }
    found
}

/// A folder of one test and process, kept if the test fails.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(test: &str) -> Scratch {
        let folder = format!("wire-{test}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

/// Writes frames as a capture, a millisecond apart.
pub(crate) fn capture(scratch: &Scratch, name: &str, link_type: LinkType, frames: &[&[u8]]) -> PathBuf {
    let mut writer = Writer::new(Vec::new(), link_type).unwrap();
    for (index, frame) in frames.iter().enumerate() {
        writer.write(1_000_000_000 + 1_000_000 * index as u64, frame, 0).unwrap();
    }
    let path = scratch.0.join(name);
    fs::write(&path, writer.into_inner()).unwrap();
    path
}

/// A program's output; it has to succeed.
pub(crate) fn output(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// tshark's values of some fields, a row for each frame, several values of a field with commas between.
pub(crate) fn fields(
    path: &Path,
    preferences: &[&str],
    options: &[&str],
    names: &[&str],
) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    preferences.iter().for_each(|preference| {
        command.args(["-o", preference]);
    });
    command.args(options).args(["-n", "-T", "fields", "-E", "occurrence=a", "-r"]).arg(path);
    names.iter().for_each(|name| {
        command.args(["-e", name]);
    });
    let text = String::from_utf8(output(&mut command).stdout).unwrap();
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}
