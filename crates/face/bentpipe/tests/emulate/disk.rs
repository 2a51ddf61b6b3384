//! A disk that is full.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;

use bentpipe_wire::pcap::Reader;

use super::rig::Running;

/// A file system of 1 MB, in memory; it goes with the value.
struct Small(tempfile::TempDir);

impl Small {
    fn mount() -> Option<Small> {
        // It ends with the test's own mounts, also if that is killed.
        if !super::rig::go_apart() {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(folder.path());
        mount.status().is_ok_and(|status| status.success()).then_some(Small(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

#[test]
fn a_full_disk_ends_a_capture_and_the_emulation_goes_on_and_says_so() {
    let Some(small) = Small::mount() else {
        assert!(std::env::var_os("CI").is_none(), "no tmpfs can be mounted in CI");
        eprintln!("skipped: no tmpfs can be mounted");
        return;
    };
    let out = small.path();
    let Some(mut running) = Running::start_with("full", Some(out), &["--pcap", "left:hop"]) else { return };
    assert_eq!(running.set("link.hop.delay=5 ms").0, Some(0));
    // 1000 pings and their echoes of 1428 bytes are more than fits.
    let ping = ["ping", "-q", "-n", "-c", "1000", "-i", "0.002", "-s", "1400", "10.0.0.2"];
    let output = running.shell("left", &ping).output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(" 1000 received"), "the capture stops no packet: {text}");
    let (code, errors) = running.end();
    assert_eq!(code, Some(1), "{errors}");
    // The end of the capture makes room for the report, which says so.
    let timing = Running::timing(out);
    assert!(
        timing.contains("the capture left-hop.pcap failed") && timing.contains("No space left"),
        "{timing}"
    );
    let capture =
        std::fs::read_dir(out).expect("a folder").flatten().map(|entry| entry.path().join("left-hop.pcap"));
    let capture = capture.into_iter().find(|path| path.exists()).expect("its beginning is kept");
    let mut reader = Reader::new(BufReader::new(File::open(capture).expect("a file"))).expect("a capture");
    let mut count = 0;
    while reader.next_record().expect("whole records").is_some() {
        count += 1;
    }
    assert!(count > 100, "{count} packets");
    assert_eq!(running.left(), [""; 0]);
}
