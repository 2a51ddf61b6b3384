//! Disks: quotas that are counted atomically, versions that are removed, and a disk without a free byte.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;

use bentpipe_testkit::skip;
use serde_json::{Value, json};

use super::client::{PASSWORD, SCENARIO, Server, User};

/// Comments that make a scenario large.
fn large(n: usize, bytes: usize) -> String {
    format!("# {n}\n# {}\n{SCENARIO}", "x".repeat(bytes))
}

fn save(server: &Server, user: &User, scenario: i64, text: &str) -> u16 {
    server.api(user, "PUT", &format!("/scenarios/{scenario}"), &json!({ "text": text })).status
}

fn usage(server: &Server, user: &User) -> Value {
    server.api(user, "GET", "/me/usage", &Value::Null).json()
}

#[test]
fn uploads_at_once_stay_within_the_quota() {
    let server = Server::with(&["--quota", "3 MB"]);
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let upload = |n: usize| {
        let path = format!("/api/v1/files?name=f{n}");
        let content = format!("{n}{}", "x".repeat(999_990));
        server.send(&ann, ("POST", &path), &[("sec-fetch-site", "same-origin")], &content).status
    };
    let codes: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|n| scope.spawn(move || upload(n))).collect();
        all.into_iter().map(|one| one.join().expect("answered")).collect()
    });
    assert!(codes.iter().all(|code| matches!(code, 201 | 413)), "{codes:?}");
    let kept = usage(&server, &ann)["files"].as_u64().expect("a size");
    assert!(kept <= 3_000_000, "{kept}");
    // One after the other there is room for three, whichever came first.
    for n in 10..14 {
        upload(n);
    }
    assert_eq!(upload(99), 413);
    assert_eq!(server.api(&boss, "GET", "/me", &Value::Null).status, 200);
}

#[test]
fn versions_have_a_limit_and_are_removed() {
    let server = Server::with(&["--quota", "1 MB"]);
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let scenario = server.scenario(&ann, SCENARIO);
    let saved = (0..9).take_while(|n| save(&server, &ann, scenario, &large(*n, 200_000)) == 200).count();
    assert_eq!(saved, 4);
    let versions = server.api(&ann, "GET", &format!("/scenarios/{scenario}/versions"), &Value::Null).json();
    let number = |n: usize| versions[n]["id"].as_i64().expect("a number");
    let remove = |version: i64| {
        server.api(&ann, "DELETE", &format!("/scenarios/{scenario}/versions/{version}"), &Value::Null).status
    };
    // The newest one stays, and so does one that a job has.
    assert_eq!(remove(number(0)), 409);
    let job = server.launch(&ann, &json!({ "scenario": scenario, "version": number(4) }));
    assert_eq!(remove(number(4)), 409);
    assert_eq!(remove(number(2)), 204);
    assert_eq!(remove(number(2)), 404);
    assert_eq!(save(&server, &ann, scenario, &large(10, 200_000)), 200);
    let left = server.api(&ann, "GET", &format!("/scenarios/{scenario}/versions"), &Value::Null).json();
    assert_eq!(left[2]["parent"].as_i64(), Some(number(3)), "{left}");
    // A scenario goes for good when it is archived and no job is of it.
    let path = format!("/scenarios/{scenario}/archived");
    let discard = || server.api(&ann, "DELETE", &path, &Value::Null).status;
    assert_eq!(discard(), 404);
    assert_eq!(server.api(&ann, "DELETE", &format!("/scenarios/{scenario}"), &Value::Null).status, 204);
    assert_eq!(discard(), 409);
    server.wait_for(&ann, job, "done");
    assert_eq!(server.api(&ann, "DELETE", &format!("/jobs/{job}"), &Value::Null).status, 204);
    assert_eq!(discard(), 204);
    assert_eq!(usage(&server, &ann)["texts"], 0);
}

#[test]
fn at_no_free_byte_people_log_in_and_remove_and_the_database_is_copied() {
    let Some(server) = Server::on_disk("24m", &["--keep-free", "1 MB"]) else {
        return skip("a disk of its own needs root and a mount namespace");
    };
    let boss = server.boss();
    let ann = server.user(&boss, "ann", 1);
    let scenario = server.scenario(&ann, SCENARIO);
    let saved = (0..100).take_while(|n| save(&server, &ann, scenario, &large(*n, 230_000)) == 200).count();
    assert!((20..100).contains(&saved), "{saved}");
    assert_eq!(save(&server, &ann, scenario, &large(200, 230_000)), 507);
    // What jobs write does not ask.
    let mut fill = File::create(server.data().join("fill")).expect("created");
    for size in [1 << 20, 4096, 1] {
        while fill.write_all(&vec![1; size]).is_ok() {}
    }
    let again = server.log_in("ann", PASSWORD).expect("logged in");
    assert_eq!(server.api(&server.boss(), "GET", "/users", &Value::Null).status, 200);
    let copy = server.folder.path().join("copy.sqlite");
    let backup = server
        .beside(&["serve", "backup", &copy.display().to_string(), "--data"])
        .arg(server.folder.path().join("disk/data"))
        .output()
        .expect("runs");
    assert!(backup.status.success() && copy.exists(), "{backup:?}");
    let versions = server.api(&again, "GET", &format!("/scenarios/{scenario}/versions"), &Value::Null).json();
    for version in &versions.as_array().expect("a list")[1..] {
        let path = format!("/scenarios/{scenario}/versions/{}", version["id"]);
        assert_eq!(server.api(&again, "DELETE", &path, &Value::Null).status, 204);
    }
    // The room that they left in the database is used again, though the disk is full.
    assert_eq!(save(&server, &again, scenario, &large(300, 230_000)), 200);
}

#[test]
fn a_running_job_stops_with_the_reason_when_the_disk_has_no_room() {
    let Some(server) = Server::on_disk("40m", &["--keep-free", "20 MB"]) else {
        return skip("a disk of its own needs root and a mount namespace");
    };
    let boss = server.boss();
    let scenario = server.scenario(&boss, &SCENARIO.replace("2 s", "999999 s"));
    let job = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, job, "running");
    let fill = server.data().join("fill");
    std::fs::write(&fill, vec![1; 16 << 20]).expect("written");
    let stopped = server.wait_for(&boss, job, "failed");
    let message = stopped["message"].as_str().unwrap_or_default();
    assert!(message.contains("stopped") && message.contains("keeps 20.0 MB"), "{stopped}");
    std::fs::remove_file(&fill).expect("removed");
    let scenario = server.scenario(&boss, SCENARIO);
    let next = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, next, "done");
}

#[test]
fn what_a_running_job_writes_counts_and_its_owner_alone_is_stopped() {
    let server = Server::with(&["--quota", "20 MB", "--jobs", "2"]);
    let boss = server.boss();
    let (greedy, calm) = (server.user(&boss, "uno", 1), server.user(&boss, "eins", 1));
    let captured = format!("{SCENARIO}[probe]\ncapture = [\"a:l\"]\n");
    let flood = captured.replace("2 s", "99999 s").replace("1 Mbit/s", "100 Mbit/s");
    let flood = server.scenario(&greedy, &flood);
    let own = server.scenario(&calm, &SCENARIO.replace("2 s", "300 s"));
    let flood = server.launch(&greedy, &json!({ "scenario": flood }));
    let other = server.launch(&calm, &json!({ "scenario": own }));
    let seen = Cell::new(0);
    let stopped = server.wait(&greedy, flood, |job| {
        seen.set(seen.get().max(usage(&server, &greedy)["results"].as_u64().unwrap_or_default()));
        job["state"] == "failed"
    });
    let said = stopped["message"].as_str().unwrap_or_default();
    assert!(said.contains("stopped: with its output") && said.contains("20.0 MB at most"), "{stopped}");
    assert!(seen.get() > 0, "it counts while it runs");
    server.wait_for(&calm, other, "done");
}

/// Returns the size of files that the jobs of a server may write.
fn file_sizes(server: &Server) -> Vec<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.id())).expect("it runs");
    let children = tasks.flat_map(|task| {
        let path = task.expect("an entry").path().join("children");
        let list = std::fs::read_to_string(path).unwrap_or_default();
        list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let size = |pid: String| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits.lines().find_map(|line| line.strip_prefix("Max file size"))?.to_owned();
        line.split_whitespace().next()?.parse().ok()
    };
    children.filter_map(size).collect()
}

#[test]
fn a_file_of_a_job_ends_soon_after_the_quota_of_its_owner() {
    let server = Server::with(&["--quota", "60 MB"]);
    let boss = server.boss();
    let scenario = server.scenario(&boss, &SCENARIO.replace("2 s", "999999 s"));
    let job = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, job, "running");
    // Its limits are set just after its start.
    server.wait(&boss, job, |_| {
        file_sizes(&server).iter().any(|size| (60_000_000..130_000_000).contains(size))
    });
    server.api(&boss, "POST", &format!("/jobs/{job}/cancel"), &Value::Null);
}

#[test]
fn an_archive_is_refused_before_it_is_unpacked_where_the_disk_has_no_room() {
    let here = Server::new();
    let boss = here.boss();
    let scenario = here.scenario(&boss, SCENARIO);
    let job = here.launch(&boss, &json!({ "scenario": scenario }));
    here.wait_for(&boss, job, "done");
    let path = format!("/api/v1/jobs/{job}/archive");
    let small = here.bytes(&boss, &path);
    // Some kilobytes as they are sent.
    here.fill_report(job, 100_000_000, false);
    let large = here.bytes(&boss, &path);
    assert!(large.len() < 1_000_000, "{}", large.len());
    let Some(there) = Server::on_disk("120m", &["--keep-free", "50 MB"]) else {
        skip("the right to mount a disk");
        return;
    };
    let import = |archive: &[u8]| {
        let user = there.boss();
        let headers: String = user.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "POST /api/v1/jobs/import HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nsec-fetch-site: same-origin\r\n\
             content-length: {}\r\n{headers}\r\n",
            there.host,
            archive.len()
        );
        there.raw(&[head.as_bytes(), archive].concat())
    };
    let refused = import(&large);
    assert!(
        refused.status == 507 && refused.body.contains("100.") && refused.body.contains("unpacked"),
        "{refused:?}"
    );
    assert_eq!(import(&small).status, 201);
    let left = std::fs::read_dir(there.data().join("files")).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left of what was refused");
}
