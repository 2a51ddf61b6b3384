//! Jobs from launch to report, with processes killed on the way.

use bentpipe_testkit::until_some;
use serde_json::{Value, json};

use super::client::{SCENARIO, Server, User};

/// Scenario with a sweep of many runs, each of a fraction of a second.
fn swept() -> String {
    SCENARIO.replace("2 s", "2000 s") + "[sweep]\n\"link.l.delay\" = \"1 to 30 ms by 1\"\n"
}

pub(crate) fn pid_of(server: &Server, job: i64, attempt: i64) -> i32 {
    let file = server.data().join(format!("jobs/{job}/progress-{attempt}.jsonl"));
    // The server starts the process, which then writes its first line.
    let text = until_some(&format!("progress in {}", file.display()), || {
        std::fs::read_to_string(&file).ok().filter(|text| text.contains('\n'))
    });
    let first: Value = serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    i32::try_from(first["pid"].as_i64().expect("a number")).expect("a process")
}

pub(crate) fn signal(pid: i32, signal: &str) {
    let killed =
        std::process::Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill runs");
    assert!(killed.success());
}

fn events(server: &Server, user: &User, job: i64) -> Vec<Value> {
    let answer = server.api(user, "GET", &format!("/jobs/{job}/events?limit=1000"), &Value::Null);
    answer.json().as_array().expect("a list").clone()
}

#[test]
fn a_job_runs_from_launch_to_report_and_gives_what_the_command_line_gives() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let id = server.launch(&boss, &json!({ "scenario": scenario, "seeds": 2 }));
    let job = server.wait_for(&boss, id, "done");
    assert_eq!((job["runs"].as_i64(), job["finished"].as_i64()), (Some(2), Some(2)));
    let measures =
        server.api(&boss, "GET", &format!("/jobs/{id}/measures?search=goodput"), &Value::Null).json();
    let goodput = measures[0]["mean"].as_f64().expect("a number");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, SCENARIO).expect("written");
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["run", "--seeds", "2", "--quiet", "--out"])
        .arg(folder.path().join("runs"))
        .arg(&file)
        .output()
        .expect("runs");
    let report = String::from_utf8_lossy(&run.stdout).trim().trim_start_matches("report: ").to_owned();
    let summary = std::path::Path::new(&report).with_file_name("summary.json");
    let summary: Value = serde_json::from_slice(&std::fs::read(summary).expect("read")).expect("JSON");
    let name = measures[0]["name"].as_str().expect("a name");
    assert_eq!(summary["points"][0]["measures"][name]["mean"].as_f64(), Some(goodput));
    let files = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
    let all = files.as_array().expect("a list");
    let page = all.iter().find(|file| file["path"] == "report.html").expect("a report");
    let download = format!("/jobs/{id}/artifacts/{}", page["number"]);
    let html = server.api(&boss, "GET", &download, &Value::Null);
    assert!(html.body.contains("</html>") && html.header("content-disposition").is_some());
    let shown = server.send(&boss, ("GET", &format!("/jobs/{id}/report")), &[], "");
    assert!(shown.header("content-security-policy").is_some_and(|policy| policy.starts_with("sandbox")));
}

#[test]
fn killed_servers_and_processes_lose_nothing_and_run_nothing_twice() {
    let mut server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &swept());
    let id = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait(&boss, id, |job| job["finished"].as_i64() > Some(2));
    // The server alone: its process goes on and is adopted.
    let pid = pid_of(&server, id, 1);
    server.kill_and_restart();
    let job = server.wait(&boss, id, |job| job["finished"].as_i64() > Some(5));
    assert_eq!((job["attempt"].as_i64(), pid_of(&server, id, 1)), (Some(1), pid));
    // The process alone: another one goes on from the last finished run.
    signal(pid, "-KILL");
    let job = server.wait(&boss, id, |job| job["attempt"] == 2 && job["finished"].as_i64() > Some(8));
    assert_eq!(job["state"], "running");
    // Both.
    signal(pid_of(&server, id, 2), "-KILL");
    server.kill_and_restart();
    let job = server.wait_for(&boss, id, "done");
    assert_eq!((job["finished"].as_i64(), job["runs"].as_i64()), (Some(30), Some(30)));
    let all = events(&server, &boss, id);
    let labels: Vec<&str> = all
        .iter()
        .filter(|event| event["kind"] == "run")
        .filter_map(|event| event["content"]["label"].as_str())
        .collect();
    let mut unique = labels.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(labels.len(), unique.len(), "no run is reported twice: {labels:?}");
    let states: Vec<&str> = all.iter().filter_map(|event| event["content"]["state"].as_str()).collect();
    assert_eq!(states, ["queued", "running", "queued", "running", "queued", "running", "done"]);
}

#[test]
fn a_cancelled_job_keeps_its_finished_runs() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &swept());
    let id = server.launch(&boss, &json!({ "scenario": scenario }));
    let waiting = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait(&boss, id, |job| job["finished"].as_i64() > Some(1));
    for job in [waiting, id] {
        assert_eq!(server.api(&boss, "POST", &format!("/jobs/{job}/cancel"), &Value::Null).status, 200);
    }
    server.wait_for(&boss, id, "cancelled");
    assert_eq!(server.job(&boss, waiting)["attempt"], 0);
    let files = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
    let is_outcome = |file: &Value| file["path"].as_str().is_some_and(|path| path.ends_with("outcome.json"));
    assert!(files.as_array().expect("a list").iter().filter(|file| is_outcome(file)).count() >= 2);
    assert_eq!(server.api(&boss, "POST", &format!("/jobs/{id}/cancel"), &Value::Null).status, 409);
}

#[test]
fn a_process_that_is_killed_again_and_again_fails() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &SCENARIO.replace("2 s", "100000 s"));
    let id = server.launch(&boss, &json!({ "scenario": scenario }));
    for attempt in 1..=3 {
        server.wait(&boss, id, |job| {
            let file = server.data().join(format!("jobs/{id}/progress-{attempt}.jsonl"));
            job["attempt"] == attempt && std::fs::read_to_string(file).is_ok_and(|text| text.contains('\n'))
        });
        signal(pid_of(&server, id, attempt), "-KILL");
    }
    let job = server.wait_for(&boss, id, "failed");
    assert!(job["message"].as_str().is_some_and(|text| text.contains("killed 3 times")), "{job}");
}

#[test]
fn two_servers_do_not_share_a_folder() {
    let server = Server::new();
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(server.data())
        .output()
        .expect("runs");
    assert_eq!(second.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another server uses this data folder"));
}

#[test]
fn a_repeated_request_and_a_stale_version_change_nothing() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let body = json!({ "scenario": scenario }).to_string();
    let headers =
        [("content-type", "application/json"), ("sec-fetch-site", "same-origin"), ("idempotency-key", "k1")];
    let ids =
        [0; 2].map(|_| server.send(&boss, ("POST", "/api/v1/jobs"), &headers, &body).json()["id"].clone());
    assert_eq!(ids[0], ids[1]);
    let path = format!("/api/v1/scenarios/{scenario}");
    let tag = server.send(&boss, ("GET", &path), &[], "").header("etag").expect("a tag").to_owned();
    let save = |text: &str| {
        let headers = [("sec-fetch-site", "same-origin"), ("if-match", &tag[..])];
        server.send(&boss, ("PUT", &path), &headers, &json!({ "text": text }).to_string()).status
    };
    assert_eq!([save("title = \"first\""), save("title = \"second\"")], [200, 412]);
}

#[test]
fn a_scenario_with_errors_is_refused_with_their_lines() {
    let server = Server::new();
    let boss = server.boss();
    let text = SCENARIO.replace("1 Mbit/s", "fast");
    let scenario = server.scenario(&boss, &text);
    let answer = server.api(&boss, "POST", "/jobs", &json!({ "scenario": scenario }));
    assert_eq!(answer.status, 422);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = &answer.json()["problems"][0];
    assert_eq!(
        (problem["line"].as_i64(), problem["key"].as_str()),
        (Some(7), Some("link.l.rate")),
        "{problem}"
    );
    let bad =
        server.api(&boss, "POST", "/jobs", &json!({ "scenario": scenario, "duration": "1 s\nseed = 3" }));
    assert_eq!(bad.status, 422);
}

#[test]
fn the_command_line_has_every_operation() {
    let server = Server::new();
    let boss = server.boss();
    let made =
        server.api(&boss, "POST", "/me/tokens", &json!({ "name": "cli", "scope": "admin", "days": 1 }));
    let token = made.json()["secret"].as_str().expect("a secret").to_owned();
    let remote = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
            .arg("remote")
            .args(arguments)
            .args(["--server", &format!("http://{}", server.host)])
            .env("BENTPIPE_TOKEN", &token)
            .output()
            .expect("runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let document = server.api(&boss, "GET", "/openapi.json", &Value::Null).json();
    let (_, help, error) = remote(&["--help"]);
    for operation in document["paths"]
        .as_object()
        .expect("paths")
        .values()
        .flat_map(|path| path.as_object().expect("methods").values())
    {
        let id = operation["operationId"].as_str().expect("a name");
        let command: String = id
            .chars()
            .map(|c| if c.is_uppercase() { format!("-{}", c.to_lowercase()) } else { c.to_string() })
            .collect();
        assert!(help.contains(&format!("  {command}")), "{command}\n{help}{error}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.toml");
    std::fs::write(&file, SCENARIO).expect("written");
    let path = file.display().to_string();
    let (code, text, error) = remote(&["add-scenario", "--name", "Test", "--text", &path]);
    assert_eq!(code, Some(0), "{error}");
    let scenario = serde_json::from_str::<Value>(&text).expect("JSON")["id"].to_string();
    let (code, text, error) = remote(&["launch-job", "--scenario", &scenario]);
    assert_eq!(code, Some(0), "{error}");
    let job = serde_json::from_str::<Value>(&text).expect("JSON")["id"].to_string();
    // The stream ends with the job, and has its states.
    let (_, stream, _) = remote(&["follow-job", &job]);
    let states: Vec<&str> = ["queued", "running", "done"]
        .into_iter()
        .filter(|state| stream.contains(&format!("\"state\":\"{state}\"")))
        .collect();
    assert_eq!(states.len(), 3, "{stream}");
    assert!(stream.contains("event: over"));
    let (code, _, error) = remote(&["launch-job", "--scenario", "999"]);
    assert!(code == Some(2) && error.contains("404"), "{error}");
}

#[test]
fn a_stream_goes_on_after_the_last_event_and_shows_samples_of_a_long_run() {
    use std::io::{BufRead, BufReader, Write};
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &SCENARIO.replace("2 s", "100000 s"));
    let id = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, id, "running");
    let all = events(&server, &boss, id);
    let first = all[0]["id"].as_i64().expect("a number");
    let mut stream = std::net::TcpStream::connect(&server.host).expect("connected");
    let cookie = &boss.0[0].1;
    write!(
        stream,
        "GET /api/v1/jobs/{id}/stream HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\nlast-event-id: {first}\r\n\r\n",
        server.host
    )
    .expect("written");
    let (mut ids, mut has_columns, mut samples) = (Vec::new(), false, 0);
    for line in BufReader::new(stream).lines() {
        let line = line.expect("a line");
        ids.extend(line.strip_prefix("id: ").map(|id| id.parse::<i64>().expect("a number")));
        has_columns |= line.contains("\"event\":\"columns\"") && line.contains("flow.f.sender");
        samples += usize::from(line.contains("\"event\":\"samples\""));
        if has_columns && samples > 3 && ids.len() > 1 {
            break;
        }
    }
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]) && ids[0] > first, "{ids:?}");
    assert_eq!(server.api(&boss, "POST", &format!("/jobs/{id}/cancel"), &Value::Null).status, 200);
    server.wait_for(&boss, id, "cancelled");
}
