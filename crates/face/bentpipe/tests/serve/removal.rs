//! Jobs that are removed with their results, and a disk without room for more.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::client::{Answer, SCENARIO, Server, User};

fn remove(server: &Server, user: &User, job: i64) -> Answer {
    server.api(user, "DELETE", &format!("/jobs/{job}"), &Value::Null)
}

#[test]
fn jobs_that_are_over_are_removed_with_their_results_by_those_who_may() {
    let server = Server::new();
    let boss = server.boss();
    let (ann, bob) = (server.user(&boss, "ann", 1), server.user(&boss, "bob", 1));
    let csv = ("content-type", "application/octet-stream");
    let uploaded = server.send(
        &ann,
        ("POST", "/api/v1/files?name=leo.csv"),
        &[csv, ("sec-fetch-site", "same-origin")],
        "time,delay\n0 s,9 ms\n1 s,10 ms\n",
    );
    assert_eq!(uploaded.status, 201, "{uploaded:?}");
    let text = SCENARIO.replace("delay = \"10 ms\"", "delay_changes = { file = \"leo.csv\" }");
    let scenario = server.scenario(&ann, &text);
    let first = server.launch(&ann, &json!({ "scenario": scenario }));
    server.wait_for(&ann, first, "done");
    let again = server.api(&ann, "POST", &format!("/jobs/{first}/repeat"), &Value::Null).json();
    let again = again["id"].as_i64().expect("a number");
    assert_eq!(server.wait_for(&ann, again, "done")["equal"], true);
    // Its content is that of the two jobs alone from now on.
    let file = format!("/files/{}", uploaded.json()["id"]);
    assert_eq!(server.api(&ann, "DELETE", &file, &Value::Null).status, 204);
    let contents = || std::fs::read_dir(server.data().join("files")).expect("a folder").count();
    assert_eq!(contents(), 1);
    assert_eq!(remove(&server, &bob, first).status, 404, "others do not see it");
    assert_eq!(remove(&server, &ann, first).status, 204);
    assert_eq!(remove(&server, &ann, first).status, 404);
    assert!(!server.data().join(format!("jobs/{first}")).exists());
    let left = server.job(&ann, again);
    assert_eq!(
        (&left["repeats"], &left["equal"], &left["state"]),
        (&Value::Null, &Value::Null, &json!("done"))
    );
    assert_eq!(contents(), 1, "the other job has it still");
    let long = server.scenario(&ann, &SCENARIO.replace("2 s", "100000 s"));
    let running = server.launch(&ann, &json!({ "scenario": long }));
    server.wait_for(&ann, running, "running");
    // All or none: the second cannot be removed.
    let form = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let both = format!("job={again}&job={running}");
    let asked = server.send(&ann, ("GET", &format!("/jobs/remove?{both}")), &[], "");
    assert!(
        asked.body.contains("Remove 1 job (") && asked.body.contains("the job is running: cancel it first"),
        "{asked:?}"
    );
    let refused = server.send(&ann, ("POST", "/jobs/remove"), &form, &both);
    assert!(
        refused.status == 409 && refused.body.contains(&format!("job {running}: the job is running")),
        "{refused:?}"
    );
    assert_eq!(server.job(&ann, again)["state"], "done");
    assert!(server.data().join(format!("jobs/{again}/results")).exists());
    assert_eq!(server.api(&ann, "POST", &format!("/jobs/{running}/cancel"), &Value::Null).status, 200);
    server.wait_for(&ann, running, "cancelled");
    let account = server.send(&ann, ("GET", "/account"), &[], "").body;
    assert!(account.contains("2, with "), "{account}");
    let removed = server.send(&boss, ("POST", "/jobs/remove"), &form, &both);
    assert_eq!(removed.status, 303, "{removed:?}");
    assert_eq!((server.job(&ann, again)["status"].as_i64(), contents()), (Some(404), 0));
    assert_eq!(std::fs::read_dir(server.data().join("jobs")).expect("a folder").count(), 0);
    let next = server.launch(&ann, &json!({ "scenario": long }));
    assert!(next > running, "a number is never used again");
    let audit = server.api(&boss, "GET", "/audit", &Value::Null).json();
    let logged = audit.as_array().expect("a list").iter().filter(|entry| entry["action"] == "remove job");
    assert_eq!(logged.count(), 3);
    server.api(&ann, "POST", &format!("/jobs/{next}/cancel"), &Value::Null);
    server.wait_for(&ann, next, "cancelled");
}

#[test]
fn an_archived_scenario_returns_to_the_list_of_those_who_may_archive_it() {
    let server = Server::new();
    let boss = server.boss();
    let (ann, bob) = (server.user(&boss, "ann", 1), server.user(&boss, "bob", 1));
    let id = server.scenario(&ann, SCENARIO);
    let listed = |user: &User, query: &str| {
        let all = server.api(user, "GET", &format!("/scenarios{query}"), &Value::Null).json();
        all.as_array().expect("a list").iter().any(|scenario| scenario["id"] == id)
    };
    let path = format!("/scenarios/{id}");
    let restore = |user: &User| server.api(user, "POST", &format!("{path}/restore"), &Value::Null);
    assert_eq!(restore(&ann).status, 404, "it is in the list");
    assert_eq!(server.api(&ann, "DELETE", &path, &Value::Null).status, 204);
    assert_eq!([&ann, &bob, &boss].map(|user| listed(user, "?archived=true")), [true, false, true]);
    assert!(!listed(&ann, "") && server.send(&ann, ("GET", "/"), &[], "").body.contains("Restore Test"));
    assert_eq!((restore(&bob).status, restore(&ann).status, restore(&ann).status), (404, 200, 404));
    assert!(listed(&ann, "") && !listed(&ann, "?archived=true"));
    assert_eq!(server.api(&ann, "GET", &path, &Value::Null).json()["text"], SCENARIO);
}

#[test]
fn a_full_disk_takes_no_jobs_and_says_why() {
    let server = Server::with(&["--keep-free", "1000000 GB"]);
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let words = "keeps 1000000.0 GB: remove jobs to make room";
    let launched = server.api(&boss, "POST", "/jobs", &json!({ "scenario": scenario }));
    assert!(launched.status == 507 && launched.body.contains(words), "{launched:?}");
    let csv = [("content-type", "application/octet-stream"), ("sec-fetch-site", "same-origin")];
    let uploaded = server.send(&boss, ("POST", "/api/v1/files?name=a.csv"), &csv, "a");
    assert!(uploaded.status == 507 && uploaded.body.contains(words), "{uploaded:?}");
    assert!(server.send(&boss, ("GET", "/jobs"), &[], "").body.contains(words));
}

#[test]
fn an_unknown_operation_is_refused_in_the_form_of_the_interface() {
    let server = Server::new();
    for (method, path, status) in
        [("GET", "/api/v1/job", 404), ("PUT", "/api/v1/jobs", 405), ("GET", "/job", 404)]
    {
        let answer = server.send(&server.boss(), (method, path), &[("sec-fetch-site", "same-origin")], "");
        let kind =
            if path.starts_with("/api") { "application/problem+json" } else { "text/html; charset=utf-8" };
        assert_eq!((answer.status, answer.header("content-type")), (status, Some(kind)), "{answer:?}");
        assert!(path == "/job" || answer.body.contains("/api/v1/openapi.json describes all"), "{answer:?}");
        assert!(
            status != 405 || answer.header("allow").is_some_and(|all| all.contains("POST")),
            "{answer:?}"
        );
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let server = Server::new();
    let mut remote = Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["remote", "--server", &format!("http://{}", server.host), "get-openapi"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    drop(remote.stdout.take());
    let ended = remote.wait_with_output().expect("ends");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn a_job_whose_number_was_used_before_a_restored_backup_begins_with_an_empty_folder() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let jobs = server.data().join("jobs");
    let first = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, first, "done");
    // As a job left it that the database does not have.
    let next = jobs.join((first + 1).to_string());
    std::fs::create_dir_all(next.join("results/other")).expect("made");
    std::fs::write(next.join("results/other/summary.json"), "secret").expect("written");
    let second = server.launch(&boss, &json!({ "scenario": scenario }));
    assert_eq!(second, first + 1);
    server.wait_for(&boss, second, "done");
    assert!(!next.join("results/other").exists() && next.join("results").exists());
    let names = std::fs::read_dir(&jobs).expect("a folder").flatten();
    let lost: Vec<_> = names.filter(|entry| entry.file_name().to_string_lossy().contains(".lost-")).collect();
    assert_eq!(lost.len(), 1);
    assert!(lost[0].path().join("results/other/summary.json").exists());
}
