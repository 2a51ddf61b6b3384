//! Damaged files and full disks, as users meet them: nothing is silent.
#![expect(clippy::tests_outside_test_module, reason = "an integration test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bentpipe_campaign::Campaign;
use bentpipe_testkit::{Folder, run as run_program, said};
use bentpipe_units::RandomStream;
use bentpipe_wire::pcap::Reader;

const BENTPIPE: &str = env!("CARGO_BIN_EXE_bentpipe");

const SCENARIO: &str = r#"
title = "A stream"
duration = "2 s"
node.a = {}
node.b = {}
[link.sat]
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "20 ms"
[flow.stream]
from = "a"
to = "b"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "2 ms" }, payload = "1000 B" }
"#;

const SWEEP: &str = "[sweep]\n\"link.sat.rate\" = [\"1 Mbit/s\", \"2 Mbit/s\", \"3 Mbit/s\"]\n";

#[test]
fn each_flipped_bit_of_a_part_is_named() {
    let folder = Folder::new();
    folder.write("swept.toml", format!("{SCENARIO}{SWEEP}"));
    let words =
        ["campaign", "run", "c", "--scenario", "swept.toml", "--seeds", "2", "--jobs", "1", "--gather"];
    said(&run_program(BENTPIPE, &folder, &words), 0);
    let part =
        fs::read_dir(folder.file("c/parts")).expect("a folder").flatten().next().expect("a part").path();
    let (whole, mut random) = (fs::read(&part).expect("a part"), RandomStream::new(1, "flips"));
    let mut below = |bound: usize| (random.unit() * bound as f64) as usize;
    for _ in 0..300 {
        let mut flipped = whole.clone();
        flipped[below(whole.len())] ^= 1 << below(8);
        fs::write(&part, flipped).expect("written");
        let status = Campaign::open(&folder.file("c")).and_then(|campaign| campaign.status(false));
        assert_eq!(status.expect("a status").damaged.len(), 1);
    }
    let text = said(&run_program(BENTPIPE, &folder, &["campaign", "gather", "c"]), 1);
    assert!(text.contains("damaged (its content is not that of the hash in its name)"), "{text}");
    said(&run_program(BENTPIPE, &folder, &["campaign", "run", "c", "--gather"]), 0);
    for name in ["manifest.json", "SHA256SUMS"] {
        let (path, whole) =
            (folder.file("c").join(name), fs::read(folder.file("c").join(name)).expect("a file"));
        for _ in 0..100 {
            let mut flipped = whole.clone();
            // Its first line is that of the manifest.
            let bound = if name == "SHA256SUMS" { 64 } else { whole.len() };
            flipped[below(bound)] ^= 1 << below(8);
            fs::write(&path, flipped).expect("written");
            assert!(Campaign::open(&folder.file("c")).is_err(), "{name}");
        }
        fs::write(&path, whole).expect("written");
    }
}

#[test]
fn a_damaged_run_is_named_and_run_again() {
    let folder = Folder::new();
    folder.write("x.toml", SCENARIO);
    let run = |code: i32| said(&run_program(BENTPIPE, &folder, &["run", "x.toml", "--pcap", "b:sat"]), code);
    run(0);
    let series = run_folder(&folder.file("runs")).join("series.parquet");
    let whole = fs::read(&series).expect("a series");
    let mut flipped = whole.clone();
    let middle = whole.len() / 2;
    flipped[middle] ^= 4;
    fs::write(&series, flipped).expect("written");
    let of = series.parent().expect("a folder").to_owned();
    let read = said(&run_program(BENTPIPE, &folder, &["series", &of.to_string_lossy()]), 2);
    assert!(read.contains("series.parquet: damaged"), "{read}");
    let text = run(0);
    assert!(text.contains("series.parquet: damaged"), "{text}");
    assert_eq!(fs::read(&series).expect("a series"), whole, "it is run again");
    let checked =
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&of).status();
    assert!(checked.is_err() || checked.is_ok_and(|status| status.success()));
}

fn run_folder(runs: &Path) -> PathBuf {
    let found = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    found.into_iter().find(|path| path.is_dir()).unwrap_or_default()
}

/// Small file system on a folder, for as long as this lives.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn on(folder: PathBuf) -> Option<SmallDisk> {
        fs::create_dir_all(&folder).expect("a folder");
        let words = ["-t", "tmpfs", "-o", "size=500k", "none"];
        let mounted = Command::new("mount").args(words).arg(&folder).stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_keeps_the_packets_of_a_capture() {
    let folder = Folder::new();
    folder.write("x.toml", SCENARIO);
    let Some(_disk) = SmallDisk::on(folder.file("small")) else {
        return bentpipe_testkit::skip("a file system cannot be mounted: it needs root");
    };
    let text =
        said(&run_program(BENTPIPE, &folder, &["run", "x.toml", "--pcap", "b:sat", "--out", "small"]), 2);
    assert!(text.contains("No space left") && text.contains("the packets before that are kept"), "{text}");
    let capture = run_folder(&folder.file("small")).join("b-sat.pcap");
    let file = fs::File::open(&capture).expect("the beginning is kept");
    let mut reader = Reader::new(std::io::BufReader::new(file)).expect("a capture");
    let mut count = 0;
    while reader.next_record().expect("whole records").is_some() {
        count += 1;
    }
    assert!((150..400).contains(&count), "{count} packets of 1028 B in 500 kB, of which half make room");
}
