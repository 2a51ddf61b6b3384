//! The program as its users meet it: commands, files, exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SMALL: &str = r#"
title = "Two flows over a narrow link"
duration = "8 s"
node.a = {}
node.b = {}
[link.sat]
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", bytes = "30 kB" }
[flow.one]
from = "a"
to = "b"
traffic = "tcp"
[flow.two]
from = "a"
to = "b"
start = "1 s"
traffic = { kind = "tcp", controller = "cubic" }
"#;

/// Runs the program in `folder`.
fn bentpipe(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").output().expect("the program")
}

/// A folder with the small scenario in it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("small.toml"), SMALL).expect("written");
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where the report is, as the last line says.
fn report(output: &Output) -> PathBuf {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let path = stdout.lines().last().and_then(|line| line.strip_prefix("report: ")).expect("a report");
    PathBuf::from(path)
}

#[test]
fn a_run_leaves_a_folder_and_says_where() {
    let folder = folder();
    let output =
        bentpipe(folder.path(), &["run", "small.toml", "--csv", "--pcap", "a:sat", "--snap-len", "96"]);
    let page = folder.path().join(report(&output));
    let shown = text(&output.stdout);
    assert!(shown.contains("fingerprint: ") && shown.contains("one") && shown.contains("Mbit/s"), "{shown}");
    assert!(shown.contains("packets of flow.one.sender: ") && shown.contains(" delivered"), "{shown}");
    let run = page.parent().expect("a folder");
    for name in [
        "scenario.toml",
        "scenario.original.toml",
        "manifest.json",
        "series.csv",
        "series.parquet",
        "ledger.csv",
        "ledger.parquet",
        "units.csv",
        "units.parquet",
        "metrics.json",
        "outcome.json",
        "timing.json",
        "summary.json",
        "summary.csv",
        "report.html",
        "a-sat.pcap",
    ] {
        assert!(fs::metadata(run.join(name)).is_ok_and(|file| file.len() > 0), "{name}");
    }
    let html = fs::read_to_string(&page).expect("a page");
    assert!(html.contains("Two flows over a narrow link") && html.matches("class=\"plot\"").count() >= 5);
    let manifest = fs::read_to_string(run.join("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(manifest["inputs"]["small.toml"].as_str().map(str::len), Some(64), "{manifest}");
    let measures = fs::read_to_string(run.join("measures.csv")).expect("a table");
    assert!(measures.contains("\n0,1,flow.one.goodput,bit/s,"), "{measures}");
    assert!(measures.contains("\n0,1,flow.one.dropped-queue,packets,"), "{measures}");
    let sums = fs::read_to_string(run.join("SHA256SUMS")).expect("checksums");
    assert!(sums.contains("ledger.parquet") && sums.contains("ledger.csv"), "{sums}");
    let accounts = fs::read_to_string(run.join("ledger.csv")).expect("a table");
    assert!(accounts.contains("\nflow.one.sender,dropped,link.sat.forward,queue,"), "{accounts}");
    let units = fs::read_to_string(run.join("units.csv")).expect("a table");
    assert!(units.contains("\nflow.one,B,offered,,,"), "{units}");
    let header = fs::read_to_string(run.join("series.csv")).expect("a series");
    assert!(header.starts_with("time_s,") && header.contains("flow.one.sender.cwnd [B]"));
    // The scenario as run can be run, and is the same experiment.
    let again = bentpipe(run, &["run", "scenario.toml", "--quiet"]);
    let again = run.join(report(&again));
    let outcome = |page: &Path| fs::read(page.with_file_name("outcome.json")).expect("an outcome");
    assert_eq!(outcome(&again), outcome(&page));
}

#[test]
fn losses_of_several_runs_have_place_and_reason_and_no_goodput_a_cause() {
    let folder = folder();
    let lossy = |extra: &[&str]| {
        let set = ["run", "small.toml", "--seeds", "2", "--set", "duration=3 s"];
        let output = bentpipe(folder.path(), &[&set[..], extra].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let dropped = |shown: &str, of: &str| {
        let line = format!("packets of flow.{of}.sender in 2 runs: ");
        let found = shown.lines().find(|shown| shown.starts_with(&line)).unwrap_or_else(|| panic!("{shown}"));
        assert!(found.contains(" dropped (queue, link.sat.forward)"), "{found}");
    };
    dropped(&lossy(&[]), "one");
    dropped(&lossy(&["--set", "sweep={\"link.sat.delay\" = [\"20 ms\", \"30 ms\"]}"]), "one");
    let all = "link.sat.forward.channel={kind = \"packet-errors\", loss = 1}";
    let shown = lossy(&["--set", all]);
    let note = "note: one has no goodput: of both its ends ";
    let found = shown.lines().find(|line| line.starts_with(note)).unwrap_or_else(|| panic!("{shown}"));
    assert!(found.contains("dropped (channel, link.sat.forward.channel"), "{found}");
}

#[test]
fn no_goodput_has_the_cause_that_the_scenario_has() {
    let folder = folder();
    let notes = |sets: &[&str]| {
        let sets = sets.iter().flat_map(|set| ["--set", set]);
        let words: Vec<&str> =
            ["run", "small.toml", "--set", "duration=4 s"].into_iter().chain(sets).collect();
        let output = bentpipe(folder.path(), &words);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let has = |sets: &[&str], line: &str| {
        let shown = notes(sets);
        assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
    };
    has(
        &["flow.two.active=false"],
        "note: two did not run: it is turned off for all of its time (active = false)",
    );
    has(
        &["flow.two.application={kind = \"nothing\"}"],
        "note: two has no goodput: its application asks for nothing",
    );
    has(
        &[
            "flow.two.stop=2 s",
            "probe.warm_up=3 s",
            "flow.two.traffic={kind = \"udp\", pattern = {kind = \"constant\", interval = \"1 s\"}, payload = \"100 B\"}",
        ],
        "note: two has nothing to measure: its time ends in the warm-up, which is left out",
    );
    has(
        &["flow.two.count=3", "flow.two.stagger=1 s", "flow.two.stop=2 s"],
        "note: two: 1 of 3 copies begin; 2 would start after their stop",
    );
}

#[test]
fn events_behind_the_end_have_a_note() {
    let folder = folder();
    let event = |at: &str| format!("event=[{{ at = \"{at}\", set = {{ \"link.sat.delay\" = \"50 ms\" }} }}]");
    let shown = |at: &str| {
        let words = ["run", "small.toml", "--set", "duration=2 s", "--set", &event(at)];
        text(&bentpipe(folder.path(), &words).stdout)
    };
    let note = "note: 1 of 1 events are at the end of the run or behind it: they change nothing\n";
    assert!(shown("5 s").contains(note) && !shown("1 s").contains("events are"), "{}", shown("5 s"));
}

/// Two nodes of bundles over a lossless line.
const BUNDLES: &str = r#"
title = "Bundles"
duration = "10 s"
dtn.n = { layer = "udp", plan = "a contact +0 +100 a b 125000\na range +0 +100 a b 0.01" }
node.a = { role = { kind = "dtn", network = "n" } }
node.b = { role = { kind = "dtn", network = "n" } }
link.l = { between = ["a", "b"], rate = "1 Mbit/s", delay = "10 ms" }
[flow.notes]
from = "a"
to = "b"
stop = "5 s"
traffic = { kind = "bundles", payload = "1000 B", interval = "1 s" }
"#;

#[test]
fn flows_whose_data_others_carry_name_them_with_their_packets() {
    let folder = folder();
    fs::write(folder.path().join("bundles.toml"), BUNDLES).expect("written");
    let shown = text(&bentpipe(folder.path(), &["run", "bundles.toml"]).stdout);
    let note = "note: notes has no account of packets of its own: its data are in packets of node.a.dtn: ";
    let found = shown.lines().find(|line| line.starts_with(note)).unwrap_or_else(|| panic!("{shown}"));
    let (_, packets) = found.split_once("node.a.dtn: ").expect("packets");
    let [sent, delivered] = [" sent", " delivered"].map(|what| {
        let number = packets.split(", ").find_map(|part| part.strip_suffix(what)).expect("a number");
        number.parse::<u64>().expect("packets")
    });
    assert!(sent >= 5 && sent == delivered, "{found}");
}

#[test]
fn a_copy_that_would_start_as_the_run_ends_is_in_no_account() {
    let folder = folder();
    let sets = ["--set", "flow.two.count=3", "--set", "flow.two.stagger=1 s", "--set", "duration=3 s"];
    let words: Vec<&str> = ["run", "small.toml", "--csv"].into_iter().chain(sets).collect();
    let output = bentpipe(folder.path(), &words);
    let accounts = fs::read_to_string(folder.path().join(report(&output)).with_file_name("ledger.csv"));
    let accounts = accounts.expect("accounts");
    assert!(accounts.contains("\nflow.two.2.sender,") && !accounts.contains("flow.two.3."), "{accounts}");
    let shown = text(&output.stdout);
    assert!(shown.contains("note: two: 2 of 3 copies begin; 1 would start after the end\n"), "{shown}");
}

#[test]
fn accounts_say_that_they_have_the_warm_up_and_measures_have_not() {
    let folder = folder();
    let output = bentpipe(folder.path(), &["run", "small.toml", "--set", "probe.warm_up=2 s"]);
    let shown = text(&output.stdout);
    for line in [
        "packets of flow.one.sender, warm-up included: ",
        "note: measures leave out the warm-up of 2 s; accounts of packets are of the whole run\n",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let page = fs::read_to_string(folder.path().join(report(&output))).expect("a page");
    assert!(
        page.contains("Here measures leave out the warm-up of 2 s"),
        "the table of measures says so, too"
    );
}

#[test]
fn captures_and_jobs_change_no_number() {
    let folder = folder();
    let sweep = ["run", "small.toml", "--seeds", "2", "--set", "duration=2 s", "--quiet"];
    let outcomes = |extra: &[&str]| {
        let arguments: Vec<&str> = sweep.iter().chain(extra).copied().collect();
        let page = folder.path().join(report(&bentpipe(folder.path(), &arguments)));
        let read = |name: &str| fs::read(page.with_file_name(name)).expect("a file");
        (read("summary.json"), read("summary.csv"))
    };
    let one = outcomes(&["--jobs", "1", "--out", "one"]);
    assert_eq!(one, outcomes(&["--jobs", "2", "--out", "two"]));
    let strip = |bytes: &[u8]| text(bytes);
    assert_eq!(strip(&one.1), strip(&outcomes(&["--pcap", "b:sat", "--out", "three"]).1));
}

#[test]
fn files_of_results_have_what_their_schemas_require() {
    let folder = folder();
    let page = folder.path().join(report(&bentpipe(folder.path(), &["run", "small.toml", "--quiet"])));
    for name in ["summary", "outcome", "manifest", "metrics"] {
        let json = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).expect("JSON");
        let schema = json(&bentpipe(folder.path(), &["schema", name]).stdout);
        let file = json(&fs::read(page.with_file_name(format!("{name}.json"))).expect("a file"));
        let required = schema["required"].as_array().expect("required keys");
        assert!(!required.is_empty(), "{name}");
        for key in required {
            assert!(file.get(key.as_str().expect("a key")).is_some(), "{name}: {key}");
        }
        let known = schema["properties"].as_object().expect("properties");
        assert!(file.as_object().expect("an object").keys().all(|key| known.contains_key(key)), "{name}");
    }
}

#[test]
fn two_points_are_compared_over_their_common_seeds() {
    let folder = folder();
    let sweep = ["run", "small.toml", "--seeds", "2", "--set", "duration=2 s", "--quiet"];
    let page = report(&bentpipe(folder.path(), &sweep));
    let run = page.parent().expect("a folder").display().to_string();
    let shown = text(&bentpipe(folder.path(), &["compare", &run, &run, "--measure", "one.goodput"]).stdout);
    assert!(shown.contains("common seeds: 2") && shown.contains("flow.one.goodput"), "{shown}");
    let written = bentpipe(folder.path(), &["compare", &run, &run, "--page", "both.html"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let html = fs::read_to_string(folder.path().join("both.html")).expect("a page");
    assert!(
        html.contains("Side by side")
            && html.contains("<span>first</span>")
            && html.contains("<span>second</span>")
    );
    let missing = bentpipe(folder.path(), &["compare", &run, &format!("{run}#7")]);
    let error = text(&missing.stderr);
    assert!(!missing.status.success() && error.contains("expected") && error.contains("#0"), "{error}");
}

#[test]
fn series_of_all_runs_are_one_table() {
    let folder = folder();
    let sweep = ["run", "small.toml", "--seeds", "2", "--set", "duration=2 s", "--quiet"];
    let page = report(&bentpipe(folder.path(), &sweep));
    let run = page.parent().expect("a folder").display().to_string();
    let table = |more: &[&str]| {
        let arguments: Vec<&str> = ["series", &run[..]].into_iter().chain(more.iter().copied()).collect();
        let output = bentpipe(folder.path(), &arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let wide = table(&["--select", "flow.*.cwnd", "--wide"]);
    let mut lines = wide.lines();
    let head = lines.next().expect("a head");
    assert!(head.starts_with("point,") && head.contains("seed,time_s,flow.one.sender.cwnd [B]"), "{head}");
    let seed = head.split(',').position(|title| title == "seed").expect("the column");
    let seeds: std::collections::BTreeSet<&str> =
        lines.map(|line| line.split(',').nth(seed).expect("it")).collect();
    assert_eq!(seeds.into_iter().collect::<Vec<_>>(), ["1", "2"]);
    let long = table(&["--select", "flow.one.sender.cwnd"]);
    assert!(
        long.starts_with("point,") && long.lines().nth(1).expect("a row").contains("flow.one.sender,cwnd,B,")
    );
    let none = bentpipe(folder.path(), &["series", &run, "--select", "nothing*"]);
    assert!(!none.status.success() && text(&none.stderr).contains("no series matches nothing*"));
}

#[test]
fn results_have_tables_fairness_and_convergence() {
    let folder = folder();
    let sweep = ["run", "small.toml", "--seeds", "3", "--set", "duration=2 s", "--quiet"];
    let page = report(&bentpipe(folder.path(), &sweep));
    let run = page.parent().expect("a folder").display().to_string();
    let of = |command: &str, more: &[&str]| {
        let arguments: Vec<&str> =
            ["results", command, &run].into_iter().chain(more.iter().copied()).collect();
        let output = bentpipe(folder.path(), &arguments);
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let (latex, ..) = of("tables", &["--format", "latex"]);
    assert!(latex.starts_with("\\begin{tabular}{") && latex.contains(" & "), "{latex}");
    let (csv, ..) = of("tables", &["--format", "csv"]);
    let (plain, ..) = of("tables", &[]);
    let (table, accounts) = plain.split_once("packets of ").expect("accounts behind the tables");
    assert!(csv.contains("one") && table.contains("one") && !table.contains(','), "{csv}{plain}");
    assert!(accounts.lines().all(|line| line.contains(" sent, ")), "{plain}");
    let (fairness, ..) = of("fairness", &["--select", "flow.*.sender.cwnd"]);
    let mut lines = fairness.lines();
    assert!(lines.next().expect("a head").ends_with("seed,time_s,flows,fairness"), "{fairness}");
    let index = |line: &str| line.rsplit(',').next().expect("it").parse::<f64>();
    assert!(lines.all(|line| index(line).is_ok_and(|index| index > 0.0 && index <= 1.0)), "{fairness}");
    let (percentiles, ..) = of("percentiles", &["--select", "flow.*.cwnd", "--shares", "0.5,95 %"]);
    assert!(percentiles.contains("p50 of flow.one.sender.cwnd [B],p95 of"), "{percentiles}");
    let (shares, ..) = of("distributions", &[]);
    assert!(shares.lines().next().expect("a head").ends_with("subject,metric,unit,value,share"), "{shares}");
    let (convergence, ..) = of("convergence", &["flow.one.goodput", "--within", "1 %"]);
    assert!(convergence.contains("mean [bit/s]") && convergence.contains("\u{b1} 1.000 %"), "{convergence}");
    assert_eq!(convergence.lines().filter(|line| line.trim_start().starts_with(['1', '2', '3'])).count(), 3);
    let (_, error, code) = of("tables", &["--point", "9"]);
    assert!(code == Some(2) && error.contains("no point 9: expected 0 to"), "{code:?} {error}");
    let (_, error, code) = of("convergence", &["flow.none.goodput"]);
    assert!(code == Some(2) && error.contains("no measure \"flow.none.goodput\""), "{code:?} {error}");
}

#[test]
fn a_manifest_names_the_commit_of_the_program() {
    let folder = folder();
    let page = folder.path().join(report(&bentpipe(folder.path(), &["run", "small.toml", "--quiet"])));
    let manifest = fs::read(page.with_file_name("manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    // That of the build, of which this test is: the repository may have another by now.
    assert_eq!(manifest["commit"].as_str(), option_env!("BENTPIPE_COMMIT"));
    let Some(commit) = option_env!("BENTPIPE_COMMIT") else { return };
    let commit = commit.trim_end_matches("-modified");
    let own =
        Command::new("git").args(["cat-file", "-t", commit]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    // Git refuses repositories of other users.
    if let Ok(output) = own
        && output.status.success()
    {
        assert_eq!(text(&output.stdout).trim(), "commit");
    }
}

#[test]
fn bad_input_is_refused_with_its_place() {
    let folder = folder();
    for (from, to, expected) in [
        ("rate = \"2 Mbit/s\"", "rate = \"-2 Mbit/s\"", "bad.toml:8:"),
        ("rate = \"2 Mbit/s\"", "rate = 2", "without a unit"),
        ("delay", "dellay", "unknown key"),
        ("to = \"b\"", "to = \"nowhere\"", "nowhere"),
        ("title", "\u{0}title", "bad.toml:2:"),
    ] {
        fs::write(folder.path().join("bad.toml"), SMALL.replacen(from, to, 1)).expect("written");
        for command in ["run", "check"] {
            let output = bentpipe(folder.path(), &[command, "bad.toml"]);
            let shown = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{shown}");
            assert!(shown.starts_with("error: ") && shown.contains(expected), "{shown}");
            assert!(!shown.contains("panicked") && !shown.contains("backtrace"), "{shown}");
        }
    }
    fs::write(folder.path().join("bad.toml"), b"title = \"\xff\"").expect("written");
    for arguments in [
        &["run", "absent.toml"][..],
        &["run", "bad.toml"],
        &["run", "small.toml", "--set", "link.sat.rate"],
        &["run", "small.toml", "--set", "link.sat.rate=fast"],
        &["run", "small.toml", "--pcap", "a:nothing"],
        &["run", "small.toml", "--seeds", "0"],
        &["run", "small.toml", "--out", "small.toml"],
        &["reproduce", "absent"],
        &["describe", "nothing-of-the-kind"],
        &["fly"],
        &[],
    ] {
        let output = bentpipe(folder.path(), arguments);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {shown}");
        // It is the option that was given that is wrong.
        if let ["run", "small.toml", option @ ("--set" | "--pcap"), value] = arguments {
            assert!(shown.starts_with(&format!("error: {option} {value}: ")), "{shown}");
        }
    }
}

#[test]
fn helps_have_examples() {
    let folder = folder();
    let top = text(&bentpipe(folder.path(), &["--help"]).stdout);
    let commands = ["run", "check", "reproduce", "list", "describe", "schema", "completions"];
    for command in commands {
        assert!(top.contains(&format!("\n  {command}")), "{top}");
        let output = bentpipe(folder.path(), &[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains(&format!("Examples:\n  bentpipe {command}")), "{command}");
    }
    for arguments in
        [&["list"][..], &["describe", "link"], &["check", "small.toml"], &["completions", "bash"]]
    {
        let output = bentpipe(folder.path(), arguments);
        assert!(output.status.success() && output.stdout.len() > 100, "{arguments:?}");
    }
    let schema = bentpipe(folder.path(), &["schema"]).stdout;
    assert!(serde_json::from_slice::<serde_json::Value>(&schema).is_ok_and(|schema| schema.is_object()));
}

#[test]
#[cfg(unix)]
fn ctrl_c_keeps_what_is_finished() {
    let folder = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bentpipe"));
    let arguments = ["run", "small.toml", "--seeds", "60", "--set", "duration=120 s", "--jobs", "1"];
    command.args(arguments).current_dir(folder.path()).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("the program");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("a pipe")));
    let first = lines.next().expect("a line").expect("text");
    assert!(first.starts_with("1/60"), "{first}");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().expect("an end").code(), Some(130), "{rest:?}");
    let last = rest.last().expect("an error");
    assert!(last.contains("runs finished and kept; the same command goes on from there"), "{last}");
    let finished: usize = last.split_whitespace().nth(3).and_then(|n| n.parse().ok()).expect("a number");
    assert!((1..60).contains(&finished), "{last}");
    // The same again finds them.
    let again = bentpipe(folder.path(), &["run", "small.toml", "--seeds", "60", "--set", "duration=120 s"]);
    let shown = text(&again.stdout);
    assert!(shown.contains(&format!("runs: 60 ({finished} finished before)")), "{shown}");
}

#[test]
fn a_study_is_reproduced_and_a_missed_value_is_exit_code_one() {
    let folder = folder();
    let study = folder.path().join("studies/narrow");
    fs::create_dir_all(&study).expect("a folder");
    fs::write(study.join("small.toml"), SMALL).expect("written");
    let file = r#"
title = "A narrow link"
source = "Arithmetic"
[run.both]
scenario = "small.toml"
quick = ["duration=4 s"]
[[row]]
id = "N1"
what = "both flows together"
kind = "predicted"
between = [1.0, 2.0]
unit = "Mbit/s"
source = "the line rate"
run = "both"
measure = "flows.goodput"
[[figure]]
title = "Windows"
y_label = "cwnd"
curve = [{ name = "one", run = "both", measure = "flow.one.sender.cwnd" }]
"#;
    fs::write(study.join("study.toml"), file).expect("written");
    let output = bentpipe(folder.path(), &["reproduce", "--quick"]);
    let page = folder.path().join(report(&output));
    assert!(text(&output.stdout).contains("met"));
    let html = fs::read_to_string(page).expect("a page");
    assert!(html.contains("both flows together") && html.matches("class=\"plot\"").count() == 1);
    fs::write(study.join("study.toml"), file.replace("[1.0, 2.0]", "[3.0, 4.0]")).expect("written");
    let output = bentpipe(folder.path(), &["reproduce", "narrow", "--quick"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("missed"));
    fs::write(study.join("study.toml"), file.replace("small.toml", "gone.toml")).expect("written");
    assert_eq!(bentpipe(folder.path(), &["reproduce", "narrow"]).status.code(), Some(2));
    let output = bentpipe(folder.path(), &["reproduce", "wide"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("wide: no such study in studies/"), "{said}");
}

#[test]
fn models_are_fitted_to_traces_that_were_made() {
    let folder = folder();
    let at = folder.path();
    let made =
        ["channel", "generate", "bistable", "--burst", "3", "--gap", "27", "--frames", "50000", "b.trace"];
    let output = bentpipe(at, &made);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let fit = ["channel", "fit", "b.trace", "--json", "b.json", "--plot", "b.svg", "--report", "b.html"];
    let output = bentpipe(at, &fit);
    let shown = text(&output.stdout);
    assert!(shown.contains("50000 frames") && shown.contains("Gilbert-Elliott"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(at.join("b.json")).expect("figures")).expect("JSON");
    let bistable = json["models"].as_array().expect("models").iter().find(|row| row["fit"] == "bistable");
    let r = bistable.expect("it")["model"]["r"].as_f64().expect("r");
    assert!((r * 3.0 - 1.0).abs() < 0.1, "{r}");
    assert!(fs::read_to_string(at.join("b.svg")).expect("a plot").starts_with("<svg"));
    let html = fs::read_to_string(at.join("b.html")).expect("a page");
    assert!(html.matches("class=\"plot\"").count() == 4);
    let like = ["channel", "generate", "fitted", "b.trace", "--fit", "bernoulli", "--frames", "500", "-"];
    let trace = text(&bentpipe(at, &like).stdout);
    assert!(trace.starts_with("# bentpipe channel generate") && trace.contains("fitted to b.trace"));
}

#[test]
fn a_capture_s_missing_numbers_are_a_trace() {
    let folder = folder();
    let at = folder.path();
    let scenario = r#"
title = "Numbered"
duration = "5 s"
node.a = {}
node.b = {}
[link.sat]
between = ["a", "b"]
rate = "2 Mbit/s"
delay = "20 ms"
forward.channel = { kind = "packet-errors", loss = 0.1 }
[flow.voice]
from = "a"
to = "b"
traffic = { kind = "udp", pattern = { kind = "constant", interval = "5 ms" }, payload = "100 B", header = "rtp" }
"#;
    fs::write(at.join("rtp.toml"), scenario).expect("written");
    let page = at.join(report(&bentpipe(at, &["run", "rtp.toml", "--pcap", "b:sat"])));
    let capture = page.with_file_name("b-sat.pcap");
    let capture = capture.to_str().expect("a path");
    let output = bentpipe(at, &["channel", "fit", "--sequence", "rtp", capture, "--trace-out", "out.trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = fs::read_to_string(at.join("out.trace")).expect("a trace");
    let digits: Vec<u8> = trace.lines().filter(|line| !line.starts_with('#')).flat_map(str::bytes).collect();
    let lost = digits.iter().filter(|digit| **digit == b'1').count();
    assert!((980..=1000).contains(&digits.len()) && (60..=140).contains(&lost), "{lost}");
    // A capture that was killed is read up to its end, and it is said.
    let bytes = fs::read(capture).expect("a capture");
    fs::write(at.join("cut.pcap"), &bytes[..bytes.len() - 5]).expect("written");
    let output = bentpipe(at, &["channel", "fit", "--sequence", "rtp", "cut.pcap"]);
    assert!(text(&output.stdout).contains("twice, cut short within record"), "{}", text(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let two = report(&bentpipe(at, &["run", "rtp.toml", "--pcap", "b:sat", "--set", "flow.voice.count=2"]));
    let two = at.join(two).with_file_name("b-sat.pcap");
    let two = two.to_str().expect("a path");
    for (arguments, expected) in [
        (
            &["channel", "fit", "--sequence", "rtp", two][..],
            "2 streams: choose one by --src, --dst, --port, --ssrc, --vlan or --interface: ",
        ),
        (&["channel", "fit", capture], "a capture: expected a trace"),
        (&["channel", "fit", "--sequence", "rtp", "--port", "9", capture], "not selected by --port 9"),
        (&["channel", "fit", "--sequence", "rtp", "--ssrc", "9", capture], "none used, "),
        (&["channel", "fit", "--sequence", "rtp", "--ssrc", "0xg", capture], "such as 0x12345678"),
        (&["channel", "fit", "--sequence", "0:9", capture], "OFFSET:BYTES"),
        (&["channel", "fit", "small.toml"], "line 2: byte 0x74"),
        (&["channel", "fit", "absent"], "absent"),
        (&["channel", "generate", "bernoulli", "--loss", "1.5", "x"], "from 0 to 1"),
    ] {
        let output = bentpipe(at, arguments);
        let shown = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{shown}");
        assert!(shown.contains(expected), "{shown}");
    }
}
