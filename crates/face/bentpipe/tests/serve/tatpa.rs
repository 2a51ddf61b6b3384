//! The TATPA testbed through the interface: router 1 both ways, and figure 17.

use bentpipe_testkit::{Folder, able_live, until};
use serde_json::{Value, json};

use super::client::{Server, User};

fn study(file: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies/tatpa").join(file);
    std::fs::read_to_string(path).expect("a file of the study")
}

/// Sets keys of a scenario as the forms do, and saves it.
fn configure(server: &Server, user: &User, scenario: i64, settings: &[(&str, Value)]) {
    let path = format!("/scenarios/{scenario}");
    let mut text = server.api(user, "GET", &path, &Value::Null).json()["text"].clone();
    for (key, value) in settings {
        let edit = json!({ "text": text, "key": key, "value": value });
        let edited = server.api(user, "POST", "/edit", &edit);
        assert_eq!(edited.status, 200, "{edited:?}");
        text = edited.json()["text"].clone();
    }
    let check = server.api(user, "POST", "/check", &json!({ "text": text })).json();
    assert_eq!(check["problems"], json!([]));
    assert_eq!(server.api(user, "PUT", &path, &json!({ "text": text })).status, 200);
}

fn mean(server: &Server, user: &User, job: i64, name: &str) -> f64 {
    let all = server.api(user, "GET", &format!("/jobs/{job}/measures?search={name}"), &Value::Null).json();
    let found = all.as_array().expect("a list").iter().find(|measure| measure["name"] == name);
    found.and_then(|measure| measure["mean"].as_f64()).unwrap_or_else(|| panic!("no {name} in {all}"))
}

#[test]
fn router_1_is_configured_both_ways() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &study("network.toml"));
    let queue = "link.core.forward.queue";
    let few = json!("[\"newreno\"]");
    let red = [
        ("sweep.\"flow.satellite.traffic.controller\"", few.clone()),
        ("link.core.forward.queue.max", json!("20000 B")),
        ("link.core.forward.queue.probability", json!("0.2")),
    ];
    configure(&server, &boss, scenario, &red);
    let launch = |server: &Server| {
        server.launch(&boss, &json!({ "scenario": scenario, "seeds": 1, "duration": "60 s" }))
    };
    let with_red = launch(&server);
    let drop_tail = [(queue, json!("{ kind = \"drop-tail\", bytes = \"75000 B\" }"))];
    configure(&server, &boss, scenario, &drop_tail);
    let with_drop_tail = launch(&server);
    let [red, tail] = [with_red, with_drop_tail].map(|job| {
        server.wait_for(&boss, job, "done");
        mean(&server, &boss, job, "link.core.forward.queue-mean-bytes")
    });
    assert!((4_000.0..20_000.0).contains(&red), "RED keeps the queue between its thresholds: {red} B");
    assert!(tail > 3.0 * red, "drop tail fills its buffer: {tail} B against {red} B");
}

#[test]
fn the_kernel_s_tcp_meets_simulated_background_traffic_at_router_1() {
    let Some(_turn) = able_live(&["iperf3"]) else { return };
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &study("network.toml"));
    let settings = [
        ("sweep", Value::Null),
        ("node.satellite-sender.real", json!("true")),
        ("node.satellite-receiver.real", json!("true")),
        ("flow.satellite.traffic.controller", json!("\"cubic\"")),
        ("probe.warm_up", json!("\"0 s\"")),
        // The long round trip has its share before losses of both can take it.
        ("flow.background.start", json!("\"4 s\"")),
    ];
    configure(&server, &boss, scenario, &settings);
    let own = json!({ "scenario": scenario, "emulate": true, "duration": "12 s" });
    let id = server.launch(&boss, &own);
    let job = server.wait_for(&boss, id, "done");
    assert_eq!(job["message"], "", "{job}");
    let [satellite, wired] =
        ["flow.satellite.goodput", "flows.goodput"].map(|name| mean(&server, &boss, id, name));
    // Both share the 10 Mbit/s of the line, and the wired connections take what the long round trip leaves.
    assert!(satellite > 1e5 && wired > 3e6 && satellite + wired < 1e7, "{satellite} and {wired} bit/s");
}

#[test]
fn the_curves_of_figure_17_come_back() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &study("figure-17.toml"));
    let job = server.launch(&boss, &json!({ "scenario": scenario }));
    server.wait_for(&boss, job, "done");
    let path = format!(
        "/jobs/{job}/series?select=flow.satellite.sender.cwnd+flow.satellite.sender.ssthresh+\
                        flow.satellite.sender.data-segments-sent"
    );
    let answer = server.api(&boss, "GET", &path, &Value::Null);
    assert_eq!(answer.status, 200, "{answer:?}");
    let head: Vec<&str> = answer.body.lines().next().expect("a head").split(',').collect();
    let column = |name: &str| {
        let place = head.iter().position(|title| title.contains(name)).unwrap_or_else(|| panic!("{head:?}"));
        let cells = answer.body.lines().skip(1).filter_map(move |line| line.split(',').nth(place));
        cells.filter_map(|cell| cell.parse::<f64>().ok()).collect::<Vec<f64>>()
    };
    let (time, cwnd, ssthresh, sent) =
        (column("time"), column("cwnd"), column("ssthresh"), column("data-segments-sent"));
    assert_eq!((time.len(), cwnd.len(), sent.len()), (1001, 1001, 1001));
    // Without a value until the first slow start ends.
    assert!((900..1001).contains(&ssthresh.len()), "{}", ssthresh.len());
    assert_eq!(time.last(), Some(&200.0));
    assert!(sent.windows(2).all(|pair| pair[0] <= pair[1]) && sent[1000] > 20_000.0);
    // After each fall cwnd is back at what it was within five seconds: seven round trips.
    let falls: Vec<usize> = (1..1001).filter(|&n| cwnd[n] < 0.6 * cwnd[n - 1] && time[n] < 195.0).collect();
    assert!(falls.len() >= 5, "{falls:?}");
    for fall in falls {
        let before = cwnd[fall - 1].min(180_000.0);
        assert!(cwnd[fall..fall + 25].iter().any(|&now| now >= 0.9 * before), "at {} s", time[fall]);
    }
    for (select, status) in [("", 422), ("flow.nobody.*", 422)] {
        let answer = server.api(&boss, "GET", &format!("/jobs/{job}/series?select={select}"), &Value::Null);
        assert_eq!(answer.status, status, "{select}");
    }
}

#[test]
fn the_study_runs_every_controller_that_there_is() {
    let output =
        std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe")).arg("list").output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let listed = text.split("Controllers\n").nth(1).expect("a section");
    let names: Vec<&str> = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() >= 7, "{text}");
    let network = study("network.toml");
    let sweep = network.split("[sweep]").nth(1).expect("a sweep");
    for name in names {
        assert!(
            sweep.contains(&format!("\"{name}\"")),
            "{name} is missing in the sweep of studies/tatpa/network.toml"
        );
    }
}

/// Returns `true` if a process has a text in its command line or its folder.
fn runs_with(text: &str) -> bool {
    let all = std::fs::read_dir("/proc").expect("processes").flatten();
    let has = |process: std::path::PathBuf| {
        let line = std::fs::read(process.join("cmdline")).unwrap_or_default();
        let folder = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text) || folder.to_string_lossy().contains(text)
    };
    all.map(|entry| entry.path()).filter(|path| !path.ends_with("self")).any(has)
}

#[test]
fn a_killed_study_leaves_no_server_and_no_jobs() {
    let folder = Folder::new();
    let study = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../studies/tatpa");
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_bentpipe"))
        .args(["reproduce", "--quick", "--quiet", "--out", "runs"])
        .arg(study)
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("started");
    let server = folder.path().join(format!("bentpipe-controller-{}", child.id()));
    until("a job runs", || server.join("jobs/1/progress-1.jsonl").exists());
    child.kill().expect("killed");
    child.wait().expect("reaped");
    until("the server removed its folder", || !server.exists());
    let name = server.display().to_string();
    until("the processes ended", || !runs_with(&name));
}
