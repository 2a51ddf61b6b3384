//! Processes of jobs and requests: what they may read, whose they are, and what the server believes of what they leave.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use bentpipe_emu::privileges::has_landlock;
use bentpipe_testkit::until_some;
use serde_json::{Value, json};

use super::client::{SCENARIO, Server};

/// User of jobs of a server that root starts.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Does a task in a child of a server, whose working folder is `folder`.
fn work(folder: &Path, task: &Value) -> Value {
    let mut child = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["serve", "work"])
        .current_dir(folder)
        .env("TMPDIR", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    child.stdin.take().expect("piped").write_all(task.to_string().as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    serde_json::from_slice(&output.stdout).expect("an answer")
}

#[test]
fn work_on_a_request_reads_what_its_task_names_and_nothing_else() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let id = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, id, "done");
    let results = server.data().join(format!("jobs/{id}/results"));
    let name = std::fs::read_dir(&results).expect("results").next().expect("one").expect("one").file_name();
    let (summary, folder) =
        (results.join(&name).join("summary.json"), tempfile::tempdir().expect("a folder"));
    let own = folder.path().join("own");
    std::fs::create_dir(&own).expect("made");
    std::fs::copy(&summary, own.join("summary.json")).expect("copied");
    let outside = tempfile::tempdir_in("/var/tmp").expect("a folder");
    std::fs::copy(&summary, outside.path().join("summary.json")).expect("copied");
    let task = |path: &Path| work(folder.path(), &json!({ "Rows": { "results": path } }));
    assert_eq!(task(&own), json!({ "Ok": true }));
    assert_eq!(task(outside.path()), json!({ "Ok": true }), "the task names it");
    // A link leads to a file that it does not name.
    std::fs::remove_file(own.join("summary.json")).expect("removed");
    symlink(outside.path().join("summary.json"), own.join("summary.json")).expect("linked");
    assert_eq!(task(&own), json!({ "Ok": !has_landlock() }));
}

#[test]
fn jobs_of_a_server_of_root_are_anothers_and_their_results_are_there() {
    if !is_root() {
        return;
    }
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &SCENARIO.replace("2 s", "50000 s"));
    for settings in [json!({}), json!({ "campaign": true })] {
        let mut body = settings;
        body["scenario"] = json!(scenario);
        let id = server.launch(&boss, &body);
        server.wait_for(&boss, id, "running");
        let folder = server.data().join(format!("jobs/{id}"));
        let start: Value = until_some("the process says its number", || {
            let text = std::fs::read_to_string(folder.join("progress-1.jsonl")).ok()?;
            serde_json::from_str(text.lines().next()?).ok()
        });
        let status = std::fs::read_to_string(format!("/proc/{}/status", start["pid"])).expect("runs");
        let of =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        let ids: Vec<&str> = of("Uid:").split_whitespace().collect();
        assert!(ids.len() == 4 && ids.iter().all(|id| *id == NOBODY.to_string()), "{status}");
        // CAP_DAC_READ_SEARCH, which Landlock limits.
        assert_eq!([of("CapEff:"), of("Seccomp:"), of("NoNewPrivs:")], ["0000000000000004", "2", "1"]);
        server.api(&boss, "POST", &format!("/jobs/{id}/cancel"), &Value::Null);
        server.wait_for(&boss, id, "cancelled");
    }
    for settings in [json!({}), json!({ "campaign": true })] {
        let mut body = settings;
        (body["scenario"], body["duration"]) = (json!(scenario), json!("1 s"));
        let id = server.launch(&boss, &body);
        server.wait_for(&boss, id, "done");
        let list = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
        assert!(list.as_array().is_some_and(|list| list.len() > 3), "{list}");
        let first = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts/0"), &Value::Null);
        assert_eq!(first.status, 200, "{first:?}");
    }
}

#[test]
fn links_that_a_process_left_lead_the_server_nowhere() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let secret = server.folder.path().join("secret");
    let elsewhere = server.folder.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("made");
    let words = "not for you";
    for path in [&secret, &elsewhere.join("scenario.toml")] {
        std::fs::write(path, words).expect("written");
    }
    // The folders of jobs to come, as processes that were taken over would leave them for the next attempt.
    let links =
        [("errors.txt", &secret), ("input", &elsewhere), ("scratch", &elsewhere), ("results", &elsewhere)];
    for (number, (name, target)) in (1..).zip(links) {
        let folder = server.data().join(format!("jobs/{number}"));
        std::fs::create_dir_all(&folder).expect("made");
        symlink(target, folder.join(name)).expect("linked");
        let id = server.launch(&boss, &json!({ "scenario": scenario }));
        assert_eq!(id, number);
        let job =
            server.wait(&boss, id, |job| ["done", "failed"].contains(&job["state"].as_str().unwrap_or("")));
        assert_eq!(job["state"] == "failed", name == "results", "{name}: {job}");
        assert!(!job.to_string().contains(words), "{job}");
    }
    let folder = server.data().join("jobs/5");
    std::fs::create_dir_all(&folder).expect("made");
    symlink(&secret, folder.join("lock")).expect("linked");
    let id = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, id, "failed");
    for path in [&secret, &elsewhere.join("scenario.toml")] {
        assert_eq!(std::fs::read_to_string(path).expect("read"), words);
    }
    assert_eq!(std::fs::read_dir(&elsewhere).expect("read").count(), 1);
    let owner = std::fs::metadata(&elsewhere).expect("there").uid();
    assert_eq!(owner, std::fs::metadata(&secret).expect("there").uid());
}

#[test]
fn a_doctor_tells_what_is_missing() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_bentpipe")).args(["serve", "doctor"]).output().expect("runs");
    let text = String::from_utf8(output.stdout).expect("text");
    for part in ["files of jobs: ", "user of jobs: ", "emulations: ", "control groups: "] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(text.contains("missing: "), output.status.code() == Some(1), "{text}");
    assert_eq!(text.contains("no Landlock"), !has_landlock(), "{text}");
}
