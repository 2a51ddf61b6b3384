//! Campaigns as their users meet them: parts, workers that die, damaged folders, and the same results as `bentpipe run`.
#![expect(clippy::tests_outside_test_module, reason = "an integration test")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use bentpipe_campaign::{Campaign, Driver, drive};
use bentpipe_lab::run::Silent;
use bentpipe_record::{Frame, FrameWriter, read_frame};
use bentpipe_study::Study;
use bentpipe_testkit::{Folder, Process, run as run_program, said};

const SWEPT: &str = r#"
title = "A file over a lossy line"
duration = "2 s"
seeds = 3
node.a = {}
node.b = {}
[link.sat]
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", bytes = "30 kB" }
channel = { kind = "packet-errors", loss = 1e-3 }
[flow.file]
from = "a"
to = "b"
traffic = { kind = "tcp", controller = "newreno" }
[sweep]
"flow.file.traffic.controller" = ["newreno", "cubic"]
"link.sat.channel.loss" = [1e-3, 1e-2, 3e-2]
"#;

/// Number of runs of the campaign.
const RUNS: u64 = 18;

fn bentpipe(folder: &Folder, words: &[&str]) -> Output {
    run_program(env!("CARGO_BIN_EXE_bentpipe"), folder, words)
}

/// A folder with the scenario, planned as the campaign `c`.
fn planned() -> Folder {
    let folder = Folder::new();
    folder.write("swept.toml", SWEPT);
    let text = said(&bentpipe(&folder, &["campaign", "plan", "swept.toml", "--out", "c"]), 0);
    assert!(text.contains("18 runs: 6 points (all checked) of 3 seeds"), "{text}");
    folder
}

/// Reads the gathered table.
fn gathered(folder: &Folder, code: i32) -> Frame {
    said(&bentpipe(folder, &["campaign", "gather", "c"]), code);
    read_frame(&folder.file("c/runs.parquet"), |_| true).expect("a table")
}

fn texts(frame: &Frame, title: &str) -> Vec<String> {
    let column = frame.column(title).unwrap_or_else(|| panic!("no column {title}"));
    (0..frame.rows()).map(|row| column.values.text(row)).collect()
}

fn parts(folder: &Folder) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.file("c/parts")).expect("a folder");
    entries.map(|entry| entry.expect("readable").path()).collect()
}

#[test]
fn a_campaign_gives_the_rows_of_one_command() {
    let folder = planned();
    let text = said(&bentpipe(&folder, &["campaign", "status", "c"]), 1);
    assert!(text.contains("0 of 18 runs finished") && text.contains("missing: 0..18"), "{text}");
    said(&bentpipe(&folder, &["campaign", "part", "c", "--part", "2/4"]), 0);
    said(&bentpipe(&folder, &["campaign", "part", "c", "--runs", "0..2"]), 0);
    let text = said(&bentpipe(&folder, &["campaign", "status", "c"]), 1);
    assert!(text.contains("7 of 18 runs finished") && text.contains("missing: 2..4, 9..18"), "{text}");
    let text = said(&bentpipe(&folder, &["campaign", "run", "c", "--jobs", "2"]), 0);
    assert!(text.contains("18 of 18 runs finished, 0 of them without a result"), "{text}");

    let frame = gathered(&folder, 0);
    assert_eq!(texts(&frame, "run"), (0..RUNS).map(|run| run.to_string()).collect::<Vec<_>>());
    let run = said(&bentpipe(&folder, &["run", "swept.toml", "--quiet"]), 0);
    let results = folder.file(run.trim().strip_prefix("report: ").expect("a report")).with_file_name("");
    // Fingerprints and measures are those of `run`, digit for digit.
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(results.join("manifest.json")).expect("it")).expect("JSON");
    let one: Vec<&str> = manifest["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .filter_map(|run| run["fingerprint"].as_str())
        .collect();
    assert_eq!(texts(&frame, "fingerprint"), one);
    let measures = fs::read_to_string(results.join("measures.csv")).expect("it");
    let of_run: Vec<&str> = measures.lines().filter(|line| line.contains(",flow.file.goodput,")).collect();
    let of_campaign = texts(&frame, "flow.file.goodput [bit/s]");
    assert_eq!(of_run.len() as u64, RUNS);
    of_run.iter().zip(&of_campaign).for_each(|(line, value)| {
        assert!(line.ends_with(&format!(",{value}")), "{line} for {value}");
    });
    // The means, too: summary.csv of both has the same rows.
    let rows = |path: &Path| -> BTreeMap<String, String> {
        let text = fs::read_to_string(path).expect("it");
        text.lines()
            .map(|line| line.rsplitn(4, ',').collect::<Vec<_>>())
            .map(|row| (row[3].to_owned(), row[..3].join(",")))
            .collect()
    };
    assert_eq!(rows(&folder.file("c/summary.csv")), rows(&results.join("summary.csv")));
}

#[test]
fn parts_whose_measures_have_other_definitions_are_not_mixed() {
    let folder = planned();
    said(&bentpipe(&folder, &["campaign", "part", "c", "--runs", "0..2"]), 0);
    said(&bentpipe(&folder, &["campaign", "part", "c", "--runs", "2..4"]), 0);
    let mut paths = parts(&folder);
    paths.sort();
    // An earlier release had no such column.
    let mut older = read_frame(&paths[0], |_| true).expect("a part");
    older.columns.retain(|column| column.title != "definitions");
    let columns = older.columns.iter().map(|column| (column.title.clone(), column.values.kind())).collect();
    let mut file = fs::File::create(folder.file("c/parts/0-older.parquet")).expect("a file");
    let mut writer = FrameWriter::new(&mut file, "runs", columns).expect("a writer");
    writer.write(&older).expect("written");
    writer.close().expect("whole");
    let text = said(&bentpipe(&folder, &["campaign", "gather", "c"]), 2);
    assert!(text.contains("definitions 1") && text.contains("got 2"), "{text}");
    paths.into_iter().for_each(|path| fs::remove_file(path).expect("there"));
    assert_eq!(gathered(&folder, 1).rows(), 2, "alone it is gathered");
}

#[test]
fn what_is_finished_survives_a_part_that_is_killed() {
    let folder = Folder::new();
    folder.write("swept.toml", SWEPT);
    // Long enough to be killed in its midst.
    said(&bentpipe(&folder, &["campaign", "plan", "swept.toml", "--seeds", "400", "--out", "c"]), 0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["campaign", "run", "c", "--jobs", "1"]).current_dir(folder.path());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut killed = Process::start(&mut command);
    while parts(&folder).is_empty() {
        assert!(killed.is_running() || !parts(&folder).is_empty(), "it ended without a part");
        std::thread::yield_now();
    }
    killed.signal("-KILL");
    let _ = killed.end();
    // Its child may go on until its part is written, as any other process may.
    let text = said(&bentpipe(&folder, &["campaign", "status", "c"]), 1);
    assert!(!text.contains(" 0 of 2400 runs finished"), "{text}");
    said(&bentpipe(&folder, &["campaign", "run", "c"]), 0);
    assert_eq!(gathered(&folder, 0).rows(), 2400);
}

#[test]
fn a_damaged_part_is_named_and_its_runs_are_made_again() {
    let folder = planned();
    said(&bentpipe(&folder, &["campaign", "part", "c", "--runs", "0..6"]), 0);
    said(&bentpipe(&folder, &["campaign", "part", "c", "--runs", "6..18"]), 0);
    let mut all = parts(&folder);
    all.sort();
    let bytes = fs::read(&all[0]).expect("a part");
    fs::write(&all[0], &bytes[..bytes.len() / 2]).expect("cut");
    let name = all[0].file_name().expect("a name").to_string_lossy().into_owned();
    let text = said(&bentpipe(&folder, &["campaign", "status", "c"]), 1);
    assert!(text.contains("missing: 0..6") && text.contains(&format!("{name}: damaged")), "{text}");
    assert_eq!(gathered(&folder, 1).rows(), 12);
    said(&bentpipe(&folder, &["campaign", "run", "c"]), 0);
    assert_eq!(gathered(&folder, 0).rows() as u64, RUNS);
}

/// File system of a few kilobytes on a folder, for as long as this lives.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts it. `None` without the right to do so.
    fn on(folder: PathBuf) -> Option<SmallDisk> {
        let words = ["-t", "tmpfs", "-o", "size=8k", "none"];
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
fn a_full_disk_ends_the_campaign_and_another_one_goes_on() {
    let folder = planned();
    let Some(disk) = SmallDisk::on(folder.file("c/parts")) else {
        return bentpipe_testkit::skip("a file system cannot be mounted: it needs root");
    };
    let text = said(&bentpipe(&folder, &["campaign", "part", "c"]), 2);
    assert!(text.contains("c/parts/000000000-000000017-") && text.contains("No space left"), "{text}");
    let text = said(&bentpipe(&folder, &["campaign", "run", "c", "--jobs", "1"]), 2);
    assert!(text.contains("No space left"), "{text}");
    let text = said(&bentpipe(&folder, &["campaign", "status", "c"]), 1);
    assert!(text.contains(" of 18 runs finished") && !text.contains("damaged"), "{text}");
    assert!(parts(&folder).iter().all(|part| part.extension().is_some_and(|it| it == "parquet")));
    drop(disk);
    said(&bentpipe(&folder, &["campaign", "run", "c"]), 0);
    assert_eq!(gathered(&folder, 0).rows() as u64, RUNS);
}

#[test]
fn two_drivers_of_one_campaign_do_no_harm() {
    let folder = planned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(["campaign", "run", "c", "--jobs", "1"]).current_dir(folder.path());
    let mut other = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a driver");
    said(&bentpipe(&folder, &["campaign", "run", "c", "--jobs", "1"]), 0);
    assert!(other.wait().expect("its end").success());
    assert_eq!(gathered(&folder, 0).rows() as u64, RUNS);
}

#[test]
fn another_build_or_another_input_runs_nothing() {
    let folder = planned();
    let manifest = folder.file("c/manifest.json");
    let text = fs::read_to_string(&manifest).expect("it");
    let build = Campaign::open(&folder.file("c")).expect("it").manifest().build.clone();
    // Edited on purpose: the checksum is made again.
    let write = |text: &str| {
        fs::write(&manifest, text).expect("written");
        bentpipe_record::update_checksums(&folder.file("c"), &["manifest.json"]).expect("written");
    };
    write(&text.replace(&build, "another"));
    let text_of = said(&bentpipe(&folder, &["campaign", "run", "c"]), 2);
    assert!(text_of.contains("planned by build another"), "{text_of}");
    write(&text);
    fs::write(folder.file("c/scenario.toml"), SWEPT.replace("1 Mbit/s", "2 Mbit/s")).expect("written");
    let text_of = said(&bentpipe(&folder, &["campaign", "part", "c"]), 2);
    assert!(text_of.contains("scenario.toml: missing, or not as it was"), "{text_of}");
    let text_of =
        said(&bentpipe(&folder, &["campaign", "plan", "swept.toml", "--seeds", "5", "--out", "c"]), 2);
    assert!(text_of.contains("has another campaign"), "{text_of}");
    assert!(parts(&folder).is_empty());
}

#[test]
fn inputs_travel_with_the_campaign() {
    let folder = Folder::new();
    folder.write("traces/losses", "0001\n".repeat(100));
    let traced =
        SWEPT.replace("kind = \"packet-errors\", loss = 1e-3", "kind = \"trace\", file = \"traces/losses\"");
    let traced = traced.replace("\"link.sat.channel.loss\" = [1e-3, 1e-2, 3e-2]\n", "");
    folder.write("traced.toml", traced);
    said(&bentpipe(&folder, &["campaign", "plan", "traced.toml", "--out", "c"]), 0);
    fs::rename(folder.file("c"), folder.file("moved")).expect("renamed");
    fs::remove_dir_all(folder.file("traces")).expect("removed");
    said(&bentpipe(&folder, &["campaign", "run", "moved"]), 0);
    fs::write(folder.file("moved/traces/losses"), "1\n").expect("written");
    let text = said(&bentpipe(&folder, &["campaign", "part", "moved"]), 2);
    assert!(text.contains("traces/losses: missing, or not as it was"), "{text}");
}

#[test]
fn a_run_that_ends_its_process_is_found_and_the_others_go_on() {
    let folder = planned();
    // Stands for a run without memory: ranges that contain run 11 end by a signal.
    let programs = Folder::within(env!("CARGO_TARGET_TMPDIR"));
    let program = programs.write(
        "deadly.sh",
        format!(
            "#!/bin/sh\nrange=$5\nfirst=${{range%..*}}\nend=${{range#*..}}\n\
             [ $first -le 11 ] && [ $end -gt 11 ] && kill -9 $$\nexec '{}' \"$@\"\n",
            env!("CARGO_BIN_EXE_bentpipe")
        ),
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
    let campaign = Campaign::open(&folder.file("c")).expect("a campaign");
    let build = campaign.manifest().build.clone();
    let driver = Driver { program, jobs: 2, retry: false, build, host: "here".into() };
    drive(&campaign, &driver, &Silent).expect("driven");
    let text = said(&bentpipe(&folder, &["campaign", "status", "c"]), 1);
    assert!(text.contains("18 of 18 runs finished, 1 of them without a result"), "{text}");
    assert!(text.contains("run 11 (point 3, seed 3): killed: signal: 9 (SIGKILL)"), "{text}");
    let frame = gathered(&folder, 0);
    let errors = texts(&frame, "error");
    assert_eq!(errors.iter().filter(|error| !error.is_empty()).count(), 1);
    // What is made again replaces the failure.
    said(&bentpipe(&folder, &["campaign", "run", "c", "--retry"]), 0);
    assert!(texts(&gathered(&folder, 0), "error").iter().all(String::is_empty));
}

#[test]
fn a_run_of_a_study_is_a_campaign() {
    let folder = Folder::new();
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../studies/wichmo");
    let plan = |words: &[&str]| {
        let words = [&["campaign", "plan", study, "--quick"][..], words].concat();
        bentpipe(&folder, &words)
    };
    let text = said(&plan(&["--run", "adapt-slow", "--set", "duration=5 s", "--out", "c"]), 0);
    assert!(text.contains("all checked) of 1 seeds"), "{text}");
    said(&bentpipe(&folder, &["campaign", "run", "c"]), 0);
    let frame = gathered(&folder, 0);
    let mut words =
        vec!["run", concat!(env!("CARGO_MANIFEST_DIR"), "/../../../studies/wichmo/adapt.toml"), "--quiet"];
    let settings = Study::read(Path::new(study)).expect("a study").runs["adapt-slow"].set.clone();
    settings.iter().map(String::as_str).chain(["duration=5 s"]).for_each(|set| words.extend(["--set", set]));
    words.extend(["--seeds", "1"]);
    let run = said(&bentpipe(&folder, &words), 0);
    let results = folder.file(run.trim().strip_prefix("report: ").expect("a report")).with_file_name("");
    let manifest = fs::read_to_string(results.join("manifest.json")).expect("it");
    assert!(texts(&frame, "fingerprint").iter().all(|print| print.len() == 16 && manifest.contains(print)));
    // Without a name: all runs, each in a folder.
    let text = said(&plan(&["--out", "all"]), 0);
    assert!(text.contains("bentpipe campaign run all/hybrid") && text.contains("all/adapt-tcp"), "{text}");
    let text = said(&plan(&["--run", "adopt", "--out", "x"]), 2);
    assert!(text.contains("--run: expected one of hybrid, by-clock, adapt"), "{text}");
    folder.write("swept.toml", SWEPT);
    let text = said(&bentpipe(&folder, &["campaign", "plan", "swept.toml", "--quick", "--out", "x"]), 2);
    assert!(text.contains("--run and --quick are for studies"), "{text}");
}

#[test]
fn a_million_points_are_planned_without_reading_them_all() {
    let folder = Folder::new();
    let many = SWEPT.replace("[1e-3, 1e-2, 3e-2]", "\"0.001 to 0.5 by 0.001\"");
    let many = format!("{many}\"link.sat.rate\" = \"1 Mbit/s to 1000 Mbit/s by 1 Mbit/s\"\n");
    folder.write("many.toml", many);
    let text = said(&bentpipe(&folder, &["campaign", "plan", "many.toml", "--out", "c"]), 0);
    assert!(text.contains("3000000 runs: 1000000 points ("), "{text}");
    said(&bentpipe(&folder, &["campaign", "part", "c", "--runs", "2999998..3000000"]), 0);
    let text = said(&bentpipe(&folder, &["campaign", "status", "c"]), 1);
    assert!(text.contains("2 of 3000000 runs finished") && text.contains("missing: 0..2999998"), "{text}");
    let text = said(&bentpipe(&folder, &["run", "many.toml"]), 2);
    assert!(text.contains("1000000 points: expected at most 100000, or a campaign"), "{text}");
}
