//! Running plans, with a network made up for the purpose.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bentpipe_net::Port;
use bentpipe_record::{
    CHECKSUMS_FILE, CaptureLimits, MIN_RING_FILE_BYTES, RingSize, StoredResults, Summary, listed_files,
    verify, verify_folder,
};
use bentpipe_scenario::Document;
use bentpipe_units::RandomStream;
use ticker::network_of;

use super::*;
use crate::plan::{Plan, Point, Seeds};

#[path = "../../../../engine/record/src/ticker.rs"]
mod ticker;

const SWEPT: &str = r#"
title = "a sweep"
duration = "1 s"
node.a = {}
node.b = {}
[link.l]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "1 ms"
[sweep]
"link.l.delay" = ["1 ms", "2 ms", "5 ms"]
"#;

fn document() -> Document {
    Document::parse("sweep.toml", SWEPT.as_bytes()).expect("a file")
}

fn plan(seeds: u32) -> Plan {
    Plan::new(&document(), Seeds { first: None, count: Some(seeds) }).expect("a plan")
}

fn prepare(point: &Point, seed: u64) -> Result<Prepared, String> {
    let network = network_of(seed * 100 + point.index as u64);
    let b = network.ids().nth(1).expect("two elements");
    let capture = CapturePoint {
        name: "b-l".into(),
        inputs: vec![(b, Port(0))],
        format: Box::new(bentpipe_site::RawIp),
    };
    Ok(Prepared {
        network,
        captures: vec![capture],
        artefacts: Vec::new(),
        calls: Vec::new(),
        growing: Vec::new(),
        finish: None,
    })
}

fn run_in(parent: &Path, seeds: u32, jobs: usize, monitor: &dyn Monitor) -> Result<Results, Failure> {
    run_within(96.into(), parent, (seeds, jobs), monitor)
}

fn run_within(
    captures: CaptureLimits,
    parent: &Path,
    (seeds, jobs): (u32, usize),
    monitor: &dyn Monitor,
) -> Result<Results, Failure> {
    let plan = plan(seeds);
    let request = Request {
        document: &document(),
        plan: &plan,
        folder: Folder::new(parent, "a sweep/..", &plan),
        jobs,
        force: false,
        captures,
        build: "test",
        commit: Some("c0ffee"),
        command: &[],
    };
    execute(&request, &prepare, monitor)
}

/// All files below a folder that are to be the same in every run.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            files
                .extend(contents(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else if !["manifest.json", "timing.json", "SHA256SUMS"].contains(&&name[..]) {
            files.insert(name, fs::read(&path).expect("a file"));
        }
    }
    files
}

/// Counts runs, and stops after some.
#[derive(Default)]
struct Counting {
    to_run: AtomicUsize,
    done: AtomicUsize,
    stop_after: Option<usize>,
    ticks: AtomicUsize,
}

impl Monitor for Counting {
    fn begin(&self, runs: usize, _: usize) {
        self.to_run.store(runs, Ordering::SeqCst);
    }
    fn done(&self, _: &str) {
        self.done.fetch_add(1, Ordering::SeqCst);
    }
    fn wants_stop(&self) -> bool {
        self.stop_after.is_some_and(|after| self.done.load(Ordering::SeqCst) >= after)
    }
    fn clock_s(&self) -> f64 {
        self.ticks.fetch_add(1, Ordering::SeqCst) as f64
    }
}

#[test]
fn any_number_of_jobs_gives_the_same_bytes() {
    let (one, four) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let first = run_in(one.path(), 3, 1, &Counting::default()).expect("results");
    let second = run_in(four.path(), 3, 4, &Counting::default()).expect("results");
    let (first, second) = (contents(first.folder.path()), contents(second.folder.path()));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    assert!(
        first.contains_key("points/p002-s3/series.parquet") && first.contains_key("points/p000-s1/b-l.pcap")
    );
    for (name, bytes) in &first {
        assert_eq!(bytes, &second[name], "{name} differs");
    }
}

#[test]
fn what_is_finished_is_not_run_again() {
    let parent = tempfile::tempdir().expect("a folder");
    let interrupted = Counting { stop_after: Some(4), ..Counting::default() };
    let failure = run_in(parent.path(), 2, 1, &interrupted).expect_err("interrupted");
    assert_eq!(failure.to_string(), "interrupted with 4 of 6 runs finished and kept");
    let rest = Counting::default();
    let results = run_in(parent.path(), 2, 1, &rest).expect("results");
    assert_eq!(rest.to_run.load(Ordering::SeqCst), 2);
    assert_eq!(results.runs.iter().filter(|run| run.reused).count(), 4);
    let whole = tempfile::tempdir().expect("a folder");
    let at_once = run_in(whole.path(), 2, 2, &Silent).expect("results");
    assert_eq!(contents(results.folder.path()), contents(at_once.folder.path()));
}

#[test]
fn half_a_run_and_another_build_s_run_are_run_again() {
    let parent = tempfile::tempdir().expect("a folder");
    let results = run_in(parent.path(), 1, 1, &Silent).expect("results");
    let point = |n: usize| results.folder.path().join(format!("points/p00{n}-s1"));
    fs::write(point(0).join("outcome.json"), "{\"hash\": \"").expect("written");
    fs::remove_file(point(1).join("b-l.pcap")).expect("removed");
    fs::write(point(2).join("timing.json"), "{\"build\": \"older\", \"wall_s\": 1}").expect("written");
    let again = Counting::default();
    run_in(parent.path(), 1, 1, &again).expect("results");
    assert_eq!(again.to_run.load(Ordering::SeqCst), 3);
}

#[test]
fn other_limits_of_captures_run_again_and_leave_no_file_of_the_earlier_ones() {
    let parent = tempfile::tempdir().expect("a folder");
    let ring = |files| CaptureLimits {
        snap_len: 96,
        ring: Some(RingSize::new(MIN_RING_FILE_BYTES, files).expect("possible")),
    };
    let captures = |limits: CaptureLimits, expected: &[&str]| {
        let first = Counting::default();
        let results = run_within(limits, parent.path(), (1, 1), &first).expect("results");
        assert_eq!(first.to_run.load(Ordering::SeqCst), 3, "{limits:?}");
        let run = results.folder.path().join("points/p000-s1");
        let mut names = listed_files(&run).expect("a folder");
        names.retain(|name| name.ends_with(".pcap"));
        names.sort();
        assert_eq!(names, expected, "{limits:?}");
        assert_eq!(verify_folder(&run), [""; 0]);
        assert_eq!(results.runs[0].timing.captures, Some(limits));
        let again = Counting::default();
        run_within(limits, parent.path(), (1, 1), &again).expect("results");
        assert_eq!(again.to_run.load(Ordering::SeqCst), 0, "they are finished: {limits:?}");
        let manifest = fs::read_to_string(results.folder.path().join("manifest.json")).expect("a manifest");
        assert_eq!(manifest.contains("\"ring\""), limits.ring.is_some(), "{manifest}");
    };
    captures(96.into(), &["b-l.pcap"]);
    captures(ring(3), &["b-l-1.pcap", "b-l-2.pcap", "b-l-3.pcap"]);
    captures(ring(2), &["b-l-1.pcap", "b-l-2.pcap"]);
    captures(40.into(), &["b-l.pcap"]);
}

/// Flips a bit of a file, and returns its content before.
fn flip(path: &Path, random: &mut RandomStream) -> Vec<u8> {
    let whole = fs::read(path).expect("a file");
    let mut flipped = whole.clone();
    flipped[(random.unit() * whole.len() as f64) as usize] ^= 1 << (random.unit() * 8.0) as u8;
    fs::write(path, flipped).expect("written");
    whole
}

#[test]
fn no_flipped_bit_of_results_is_silent() {
    let parent = tempfile::tempdir().expect("a folder");
    let results = run_in(parent.path(), 1, 1, &Silent).expect("results");
    let (plan, mut random) = (plan(1), RandomStream::new(1, "flips"));
    let point = &plan.points[0];
    let run = results.folder.of_run(point, point.seeds[0]);
    let mut names = listed_files(&run).expect("a folder");
    names.push(CHECKSUMS_FILE.to_owned());
    assert_eq!(names.len(), 9, "{names:?}");
    for name in names.iter().cycle().take(600) {
        let whole = flip(&run.join(name), &mut random);
        let mut named = 0;
        let finished =
            results.folder.finished(point, point.seeds[0], ("test", 96.into()), &mut |_| named += 1);
        // A file that cannot be read is not that of a finished run.
        assert!(finished.is_none() && (named > 0 || name.ends_with(".json")), "{name}");
        fs::write(run.join(name), whole).expect("written");
    }
    for name in super::folder::SUMMARIES.into_iter().cycle().take(100) {
        let whole = flip(&results.folder.path().join(name), &mut random);
        let problem = verify(&results.folder.path().join(name)).expect_err("damaged");
        assert!(problem.contains(name) && problem.contains("damaged"), "{problem}");
        fs::write(results.folder.path().join(name), whole).expect("written");
    }
    flip(&run.join("series.parquet"), &mut random);
    assert!(
        results
            .folder
            .series(point, point.seeds[0])
            .is_err_and(|error| error.to_string().contains("damaged"))
    );
    flip(&run.join("outcome.json"), &mut random);
    assert!(
        StoredResults::read(results.folder.path()).is_err_and(|problem| problem.contains("outcome.json"))
    );
    let again = Counting::default();
    run_in(parent.path(), 1, 1, &again).expect("results");
    assert_eq!(again.to_run.load(Ordering::SeqCst), 1, "the damaged run alone");
    StoredResults::read(results.folder.path()).expect("whole again");
}

#[test]
fn a_summary_has_a_point_for_each_and_its_interval() {
    let parent = tempfile::tempdir().expect("a folder");
    let results = run_in(parent.path(), 3, 0, &Silent).expect("results");
    let summary = results.summary;
    assert_eq!((summary.points.len(), summary.axes), (3, vec!["link.l.delay".to_owned()]));
    assert_eq!(summary.points[2].settings["link.l.delay"], "5 ms");
    let sent = summary.points[1].value("node.a.sent").expect("a total");
    assert!(sent.estimate.n == 3 && sent.estimate.ci95.is_some_and(|half| half > 0.0));
    let json = fs::read(results.folder.path().join("summary.json")).expect("a file");
    let read = serde_json::from_slice::<Summary>(&json).expect("a summary");
    assert_eq!(read.points[1].measures, summary.points[1].measures);
    assert!(!results.folder.path().to_string_lossy().contains(".."));
    let table = fs::read_to_string(results.folder.path().join("measures.csv")).expect("a file");
    assert_eq!(table.lines().next(), Some("point,link.l.delay,seed,measure,unit,value"));
}

#[test]
fn a_failure_to_build_is_passed_on_and_interruption_ends_a_run() {
    let parent = tempfile::tempdir().expect("a folder");
    let plan = plan(1);
    let (document, folder) = (document(), Folder::new(parent.path(), "x", &plan));
    let (jobs, force, captures, build) = (2, false, 96.into(), "test");
    let request = Request {
        document: &document,
        plan: &plan,
        folder,
        jobs,
        force,
        captures,
        build,
        commit: None,
        command: &[],
    };
    let refuse = |_: &Point, _| Err("no such link".to_owned());
    assert!(matches!(execute(&request, &refuse, &Silent), Err(Failure::Build(why)) if why == "no such link"));
    struct Impatient(AtomicBool);
    impl Monitor for Impatient {
        fn advance(&self, _: f64) {
            self.0.store(true, Ordering::SeqCst);
        }
        fn wants_stop(&self) -> bool {
            self.0.load(Ordering::SeqCst)
        }
    }
    let failure = execute(&request, &prepare, &Impatient(AtomicBool::new(false))).expect_err("interrupted");
    assert!(matches!(failure, Failure::Interrupted { finished: 0, runs: 3 }), "{failure}");
}
