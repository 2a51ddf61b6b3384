//! Emulations as jobs: real packets, changes while they run, kills and cancellation.

use std::time::{Duration, Instant};

use bentpipe_testkit::{able_live, namespaces};
use serde_json::{Value, json};

use super::client::{SCENARIO, Server, User, initialised};

/// Scenario of some seconds in real time, with a transfer and echo requests. Its far host has a name of its own.
fn scenario(seconds: u32, host: &str) -> String {
    let flows =
        "[flow.echo]\nfrom = \"a\"\nto = \"b\"\ntraffic = { kind = \"ping\", interval = \"200 ms\" }\n";
    let queue = "delay = \"10 ms\"\nqueue = { kind = \"drop-tail\", bytes = \"30 kB\" }";
    let text = SCENARIO.replace("2 s", &format!("{seconds} s")).replace("delay = \"10 ms\"", queue) + flows;
    text.replace("node.b", &format!("node.{host}")).replace("\"b\"", &format!("\"{host}\""))
}

fn set(server: &Server, user: &User, job: i64, key: &str, value: &str) -> (u16, Value) {
    let answer =
        server.api(user, "POST", &format!("/jobs/{job}/set"), &json!({ "key": key, "value": value }));
    (answer.status, answer.json())
}

/// Changes a key as soon as the emulation takes it.
fn set_when_ready(server: &Server, user: &User, job: i64, key: &str, value: &str) -> f64 {
    let begin = Instant::now();
    loop {
        match set(server, user, job, key, value) {
            (200, answer) => return answer["at"].as_f64().expect("a time"),
            (409, _) if begin.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(50))
            }
            other => panic!("{other:?}"),
        }
    }
}

fn left(host: &str) -> Vec<String> {
    namespaces().into_iter().filter(|name| name.ends_with(&format!("-{host}"))).collect()
}

#[test]
fn an_emulation_is_changed_while_it_runs_and_leaves_the_kernel_s_figures() {
    let Some(_turn) = able_live(&["iperf3", "ping"]) else { return };
    let server = Server::new();
    let boss = server.boss();
    let own = server.scenario(&boss, &scenario(5, "served"));
    let id = server.launch(&boss, &json!({ "scenario": own, "emulate": true }));
    let at_s = set_when_ready(&server, &boss, id, "link.l.delay", "100 ms");
    let (status, refusal) = set(&server, &boss, id, "link.l.mtu", "1200 B");
    assert!(
        status == 422 && refusal["detail"].as_str().is_some_and(|text| text.contains("link.l.mtu")),
        "{refusal}"
    );
    for bad in ["", "link.l.delay=5", "x\ny"] {
        assert_eq!(set(&server, &boss, id, bad, "1 ms").0, 422, "{bad:?}");
    }
    let ann = server.user(&boss, "ann", 1);
    assert_eq!(set(&server, &ann, id, "link.l.delay", "1 ms").0, 404, "it is not hers");
    let page = server.send(&boss, ("GET", &format!("/jobs/{id}")), &[], "").body;
    assert!(page.contains("link.l.delay = 100 ms") && page.contains("Set while it runs"), "{page}");
    let job = server.wait_for(&boss, id, "done");
    let counts = [&job["runs"], &job["finished"]].map(Value::as_i64);
    assert_eq!((job["kind"].as_str(), counts), (Some("emulate"), [Some(1); 2]), "{job}");
    let events = server.api(&boss, "GET", &format!("/jobs/{id}/events?limit=1000"), &Value::Null).json();
    let made: Vec<&Value> =
        events.as_array().expect("a list").iter().filter(|one| one["kind"] == "set").collect();
    assert_eq!(made.len(), 1);
    assert_eq!(made[0]["content"], json!({ "key": "link.l.delay", "value": "100 ms", "at": at_s }));
    let all = server.api(&boss, "GET", &format!("/jobs/{id}/measures"), &Value::Null).json();
    let value = |name: &str| {
        let found = all.as_array().expect("a list").iter().find(|one| one["name"] == name);
        found.and_then(|one| one["mean"].as_f64()).unwrap_or_else(|| panic!("no {name} in {all}"))
    };
    assert!((5e5..1e6).contains(&value("flow.f.goodput")), "of 1 Mbit/s");
    assert!(value("flow.echo.rtt-max") > 0.2);
    let files = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
    for name in ["report.html", "programs/f.json", "programs/echo.txt"] {
        assert!(files.as_array().expect("a list").iter().any(|file| file["path"] == name), "{files}");
    }
    assert_eq!(set(&server, &boss, id, "link.l.delay", "1 ms").0, 409, "it is over");
    assert!(left("served").is_empty());
    // Packets in real time come at other instants each time.
    let again = server.api(&boss, "POST", &format!("/jobs/{id}/repeat"), &Value::Null).json();
    let again = again["id"].as_i64().expect("a number");
    let job = server.wait_for(&boss, again, "done");
    assert_eq!((&job["repeats"], &job["equal"]), (&json!(id), &Value::Null), "{job}");
    let page = server.send(&boss, ("GET", &format!("/jobs/{again}")), &[], "").body;
    assert!(page.contains("Not compared") && page.contains("1 of 1"), "{page}");
}

#[test]
fn a_killed_emulation_starts_again_and_a_cancelled_one_keeps_its_report() {
    let Some(_turn) = able_live(&["iperf3", "ping"]) else { return };
    let server = Server::new();
    let boss = server.boss();
    let short = server.scenario(&boss, &scenario(3, "killed"));
    let killed = server.launch(&boss, &json!({ "scenario": short, "emulate": true }));
    set_when_ready(&server, &boss, killed, "link.l.delay", "20 ms");
    super::jobs::signal(super::jobs::pid_of(&server, killed, 1), "-KILL");
    let job = server.wait_for(&boss, killed, "done");
    assert_eq!(job["attempt"].as_i64(), Some(2), "{job}");
    let long = server.scenario(&boss, &scenario(100, "ended"));
    let id = server.launch(&boss, &json!({ "scenario": long, "emulate": true, "duration": "90 s" }));
    // A simulation waits until the emulation is over.
    let after = server.launch(&boss, &json!({ "scenario": short }));
    set_when_ready(&server, &boss, id, "link.l.delay", "20 ms");
    let waiting = server.api(&boss, "GET", &format!("/jobs/{after}"), &Value::Null).json();
    assert_eq!(waiting["state"], "queued", "{waiting}");
    assert_eq!(server.api(&boss, "POST", &format!("/jobs/{id}/cancel"), &Value::Null).status, 200);
    let job = server.wait_for(&boss, id, "cancelled");
    let files = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
    assert!(
        files.as_array().expect("a list").iter().any(|file| file["path"] == "report.html"),
        "{job} {files}"
    );
    server.wait_for(&boss, after, "done");
    assert!(left("killed").is_empty() && left("ended").is_empty());
}

#[test]
fn an_emulation_beyond_the_real_time_of_its_owner_is_refused() {
    let folder = initialised();
    let limits = "[level.1.job]\nreal_time = \"1 min\"\n";
    std::fs::write(folder.path().join("data/limits.toml"), limits).expect("written");
    let server = Server::in_folder(folder, &[]);
    let ann = server.user(&server.boss(), "ann", 1);
    let sampled = format!("{SCENARIO}[probe]\ninterval = \"1 min\"\n");
    let [year, second] =
        ["31536000 s", "1 s"].map(|length| server.scenario(&ann, &sampled.replace("2 s", length)));
    for body in [
        json!({ "scenario": year, "emulate": true }),
        json!({ "scenario": second, "emulate": true, "duration": "61 s" }),
    ] {
        let refused = server.api(&ann, "POST", "/jobs", &body);
        let is_told = refused.body.contains("in real time: expected at most 60 s at level 1");
        assert!(refused.status == 422 && is_told, "{refused:?}");
    }
    // A simulation of as much takes no real time.
    let simulated = server.launch(&ann, &json!({ "scenario": year }));
    assert_eq!(server.api(&ann, "POST", &format!("/jobs/{simulated}/cancel"), &Value::Null).status, 200);
}

#[test]
fn others_know_when_an_emulation_ends_and_it_ends_when_its_owner_may_have_no_more() {
    let Some(_turn) = able_live(&["iperf3", "ping"]) else { return };
    let mut server = Server::new();
    let boss = server.boss();
    let long = server.scenario(&boss, &scenario(200, "overdue"));
    let id = server.launch(&boss, &json!({ "scenario": long, "emulate": true }));
    set_when_ready(&server, &boss, id, "link.l.delay", "20 ms");
    let started = server.job(&boss, id)["started"].as_i64().expect("a time");
    // One that is queued before has its own length.
    let next = server.launch(&boss, &json!({ "scenario": long, "emulate": true, "duration": "50 s" }));
    let last = server.launch(&boss, &json!({ "scenario": long }));
    let expected = |job: i64| {
        let place = server.api(&boss, "GET", &format!("/jobs/{job}/queue"), &Value::Null).json();
        (place["expected"].as_i64().expect("a time") - started) / 1000
    };
    assert_eq!([next, last].map(expected), [200, 250]);
    for job in [next, last] {
        assert_eq!(server.api(&boss, "POST", &format!("/jobs/{job}/cancel"), &Value::Null).status, 200);
    }
    std::fs::write(server.data().join("limits.toml"), "[level.3.job]\nreal_time = \"1 s\"\n")
        .expect("written");
    server.kill_and_restart();
    let boss = server.boss();
    let job = server.wait_for(&boss, id, "failed");
    let said = job["message"].as_str().unwrap_or_default();
    assert!(said.contains("it ran for more than 1 s of real time"), "{job}");
    assert!(left("overdue").is_empty());
}

#[test]
fn an_emulation_over_the_size_of_files_ends_with_the_limit_and_one_that_is_killed_leaves_no_namespaces() {
    let Some(_turn) = able_live(&["iperf3", "ping"]) else { return };
    let folder = initialised();
    std::fs::write(folder.path().join("data/limits.toml"), "[level.3.job]\nfile_size = \"400 kB\"\n")
        .expect("written");
    let server = Server::in_folder(folder, &[]);
    let boss = server.boss();
    let large = scenario(8, "large") + "[probe]\ncapture = [\"a:l\"]\n";
    let large = server.scenario(&boss, &large);
    let id = server.launch(&boss, &json!({ "scenario": large, "emulate": true }));
    let job = server.wait_for(&boss, id, "failed");
    let said = job["message"].as_str().unwrap_or_default();
    assert!(said.contains("it writes a file of more than 400 kB"), "{job}");
    assert!(job["attempt"] == 1 && left("large").is_empty(), "{job}");
    let long = server.scenario(&boss, &scenario(100, "swept"));
    let id = server.launch(&boss, &json!({ "scenario": long, "emulate": true }));
    for attempt in 1..=3 {
        server.wait(&boss, id, |job| job["attempt"] == attempt && job["state"] == "running");
        set_when_ready(&server, &boss, id, "link.l.delay", "20 ms");
        assert!(!left("swept").is_empty());
        super::jobs::signal(super::jobs::pid_of(&server, id, attempt), "-KILL");
    }
    server.wait_for(&boss, id, "failed");
    assert!(left("swept").is_empty());
}

#[test]
fn what_cannot_be_emulated_is_refused_at_the_launch() {
    let server = Server::new();
    let boss = server.boss();
    let swept = SCENARIO.to_owned() + "[sweep]\n\"link.l.delay\" = \"1 to 3 ms by 1\"\n";
    let (one, several) = (server.scenario(&boss, SCENARIO), server.scenario(&boss, &swept));
    for (bad, why) in [
        (json!({ "scenario": several, "emulate": true }), "leave out the sweep"),
        (json!({ "scenario": one, "emulate": true, "seeds": 2 }), "leave out the sweep, and `seeds`"),
        (json!({ "scenario": one, "emulate": true, "campaign": true }), "expected one of"),
        (json!({ "study": "tatpa", "emulate": true }), "study"),
    ] {
        let answer = server.api(&boss, "POST", "/jobs", &bad);
        assert!(answer.status == 422 && answer.body.contains(why), "{bad}: {answer:?}");
    }
    let simulated = server.launch(&boss, &json!({ "scenario": one }));
    server.wait_for(&boss, simulated, "done");
    assert_eq!(set(&server, &boss, simulated, "link.l.delay", "1 ms").0, 409);
}
