//! Cost of valid input: what a user sends may take no more than the limits of the user's level.

use std::time::{Duration, Instant};

use bentpipe_testkit::Watch;
use serde_json::{Value, json};

use super::client::{SCENARIO, Server, User, initialised};

/// Server with limits in its data folder.
fn limited(limits: &str) -> Server {
    let folder = initialised();
    std::fs::write(folder.path().join("data/limits.toml"), limits).expect("written");
    Server::in_folder(folder, &[])
}

/// Scenario of many nodes and links, each written: reading it takes tens of megabytes.
fn long_scenario() -> String {
    let link = |n: usize| {
        format!(
            "[node.n{n}]\n[link.l{n}]\nbetween = [\"a\", \"n{n}\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n"
        )
    };
    (0..2500).map(link).fold(SCENARIO.to_owned(), |text, part| text + &part)
}

/// Most memory that a server has had, in bytes.
pub(super) fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

/// Most memory of a server, whatever is asked.
pub(super) const MAX_SERVER: u64 = 150_000_000;

fn message(answer: &Value) -> &str {
    answer["problems"][0]["message"].as_str().or_else(|| answer["detail"].as_str()).unwrap_or_default()
}

#[test]
fn a_check_that_takes_too_much_is_ended_with_its_limit_and_the_server_goes_on() {
    let server =
        limited("[level.0.request]\nmemory = \"32 MB\"\n[level.1.request]\nprocessor_time = \"1 s\"\n");
    let boss = server.boss();
    let (visitor, user) = (server.user(&boss, "zero", 0), server.user(&boss, "uno", 1));
    let check = |who: &User, text: &str| {
        let answer = server.api(who, "POST", "/check", &json!({ "text": text }));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    };
    let long = long_scenario();
    let said = check(&visitor, &long);
    assert!(message(&said).contains("level 0: it needs more than 32 MB of memory"), "{said}");
    assert_ne!(said["problems"][0]["key"], "", "{said}");
    // The same for an administrator, whose limits are others.
    assert_eq!(check(&boss, &long)["problems"], json!([]));
    let said = check(&user, &slow_scenario());
    assert!(message(&said).contains("level 1: it needs more than 1 s of processor time"), "{said}");
    for who in [&visitor, &user] {
        assert_eq!(check(who, SCENARIO)["problems"], json!([]));
    }
    // A launch and the pages are refused in the same words, and the text can still be edited.
    let id = server.scenario(&user, SCENARIO);
    assert_eq!(server.send(&user, ("GET", &format!("/scenarios/{id}/text")), &[], "").status, 200);
    assert!(peak(&server) < MAX_SERVER, "{}", peak(&server));
    assert!(
        std::fs::read_dir(server.data().join("files")).map_or(0, Iterator::count) == 0,
        "nothing is left"
    );
}

#[test]
fn checks_of_a_user_leave_the_server_to_others() {
    let server = limited("[requests]\nat_once = 2\nper_user = 1\nwaiting = 3\n");
    let boss = server.boss();
    let (greedy, other) = (server.user(&boss, "uno", 1), server.user(&boss, "eins", 1));
    let long = long_scenario();
    std::thread::scope(|scope| {
        let ask = || server.api(&greedy, "POST", "/check", &json!({ "text": long })).status;
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        std::thread::sleep(Duration::from_millis(300));
        let (watch, start) = (Watch::start(), Instant::now());
        assert_eq!(server.api(&other, "GET", "/jobs", &Value::Null).status, 200);
        let (taken, late) = (start.elapsed(), watch.end());
        assert!(taken < Duration::from_secs(2) + 10 * late.quantile(0.99), "{taken:?}, {late:?}");
        assert_eq!(server.api(&other, "POST", "/check", &json!({ "text": SCENARIO })).status, 200);
        let all: Vec<u16> = asked.into_iter().map(|thread| thread.join().expect("answered")).collect();
        assert!(all.iter().all(|status| matches!(status, 200 | 429)), "{all:?}");
        assert!(all.contains(&429), "one runs and three wait: {all:?}");
    });
    assert!(peak(&server) < MAX_SERVER, "{}", peak(&server));
}

/// Sweep that costs some seconds of processor time to be checked.
fn slow_scenario() -> String {
    long_scenario() + "[sweep]\n\"link.l.delay\" = \"1 to 1000 ms by 1 ms\"\n"
}

#[test]
fn long_checks_of_any_number_of_users_leave_a_place_to_short_ones() {
    let server = limited("");
    let boss = server.boss();
    let users: Vec<User> = (0..3).map(|n| server.user(&boss, &format!("user{n}"), 1)).collect();
    let (other, text) = (server.user(&boss, "other", 1), slow_scenario());
    std::thread::scope(|scope| {
        let ask = |user| server.api(user, "POST", "/check", &json!({ "text": text })).status;
        let asked: Vec<_> = users.iter().chain(&users).map(|user| scope.spawn(move || ask(user))).collect();
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..3 {
            let answer = server.api(&other, "POST", "/check", &json!({ "text": SCENARIO }));
            assert_eq!(answer.json()["problems"], json!([]));
        }
        let done = asked.iter().filter(|thread| thread.is_finished()).count();
        assert_eq!(done, 0, "of the six that take long none is done");
        // Those that began again are done too.
        let all: Vec<u16> = asked.into_iter().map(|thread| thread.join().expect("answered")).collect();
        assert_eq!(all, [200; 6]);
    });
}

#[test]
fn a_job_over_its_limits_fails_with_the_limit() {
    let server = limited("[level.1.job]\nprocessor_time = \"1 s\"\n");
    let boss = server.boss();
    let user = server.user(&boss, "uno", 1);
    let long = SCENARIO.replace("2 s", "1 h").replace("1 Mbit/s", "100 Mbit/s");
    let id = server.scenario(&user, &long);
    let job = server.launch(&user, &json!({ "scenario": id }));
    let failed = server.wait_for(&user, job, "failed");
    let said = failed["message"].as_str().unwrap_or_default();
    assert!(said.contains("it needs more than 1 s of processor time"), "{said}");
    assert!(said.ends_with("ask the administrator for another `processor_time` in limits.toml"), "{said}");
    assert_eq!(failed["attempt"], 1, "it is not started again");
}

#[test]
fn limits_that_are_wrong_are_refused_at_the_start() {
    let folder = initialised();
    let data = folder.path().join("data");
    std::fs::write(data.join("limits.toml"), "[level.1.job]\nmemory = \"1 MB\"\n").expect("written");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .output()
        .expect("ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("limits.toml: level.1.job"), "{errors}");
}

#[test]
fn a_preset_is_loaded_into_a_large_entry_at_once() {
    let server = limited("");
    let boss = server.boss();
    let user = server.user(&boss, "uno", 1);
    let keys: String = (0..12_000).map(|n| format!("k{n:x}=1\n")).collect();
    let text = format!("title = \"x\"\n[link.l]\nbetween = [\"a\", \"b\"]\n{keys}");
    let saved = server.api(&user, "POST", "/scenarios", &json!({ "name": "big", "text": text })).json();
    let preset = json!({ "section": "link", "name": "p", "text": "rate = \"1 Mbit/s\"\n" });
    let preset = server.api(&user, "POST", "/presets", &preset).json();
    let form = format!("path=link.l&preset={}", preset["id"]);
    let path = format!("/scenarios/{}/preset/load", saved["id"]);
    let headers = [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
    let (watch, start) = (Watch::start(), Instant::now());
    let loaded = server.send(&user, ("POST", &path), &headers, &form);
    assert_eq!(loaded.status, 303, "{loaded:?}");
    let (taken, late) = (start.elapsed(), watch.end());
    assert!(taken < Duration::from_secs(10) + 10 * late.quantile(0.99), "{taken:?}, {late:?}");
    let text = server.api(&user, "GET", &format!("/scenarios/{}", saved["id"]), &Value::Null).json();
    assert_eq!(text["text"], "title = \"x\"\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n");
    assert!(peak(&server) < MAX_SERVER, "{}", peak(&server));
}
