//! Campaigns as jobs: their tables, a cancellation, and processes that are killed on the way.

use serde_json::{Value, json};

use super::client::{SCENARIO, Server, User};

/// Sweep of 20 points, with a channel that makes the seed matter. `duration` is in seconds.
fn swept(duration: u32) -> String {
    let channel = "channel = { kind = \"packet-errors\", loss = 1e-3 }\n[flow.f]";
    let scenario = SCENARIO.replace("2 s", &format!("{duration} s")).replace("[flow.f]", channel);
    scenario + "[sweep]\n\"link.l.delay\" = \"1 to 20 ms by 1\"\n"
}

fn server() -> Server {
    Server::with(&["--campaign-runs", "2"])
}

fn files(server: &Server, user: &User, job: i64) -> Vec<String> {
    let all = server.api(user, "GET", &format!("/jobs/{job}/artifacts"), &Value::Null).json();
    let names = all.as_array().expect("a list").iter();
    names.map(|file| file["path"].as_str().expect("a path").to_owned()).collect()
}

fn measures(server: &Server, user: &User, job: i64) -> Value {
    server.api(user, "GET", &format!("/jobs/{job}/measures?search=goodput"), &Value::Null).json()
}

/// Returns the number of rows of a campaign's table of runs.
fn rows(server: &Server, job: i64) -> usize {
    let folder = server.data().join(format!("jobs/{job}/results/campaign"));
    let frame =
        bentpipe_record::read_frame(&folder.join("runs.parquet"), |title| title == "run").expect("read");
    match &frame.columns[0].values {
        bentpipe_record::FrameValues::Integers(runs) => runs.len(),
        other => panic!("numbers of runs: {other:?}"),
    }
}

#[test]
fn a_campaign_gives_the_measures_of_a_job_and_leaves_its_tables() {
    let server = server();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &swept(2));
    let campaign = server.launch(&boss, &json!({ "scenario": scenario, "seeds": 2, "campaign": true }));
    let plain = server.launch(&boss, &json!({ "scenario": scenario, "seeds": 2 }));
    let job = server.wait_for(&boss, campaign, "done");
    assert_eq!((job["kind"].as_str(), job["message"].as_str()), (Some("campaign"), Some("")), "{job}");
    assert_eq!((job["runs"].as_i64(), job["finished"].as_i64()), (Some(40), Some(40)));
    assert_eq!(job["share"].as_f64(), Some(1.0));
    let names = files(&server, &boss, campaign);
    for name in ["runs.parquet", "summary.csv", "summary.json", "report.html", "manifest.json"] {
        assert!(names.iter().any(|file| file == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|file| file.starts_with("parts/")), "the tables have what the parts have");
    assert_eq!(rows(&server, campaign), 40);
    let plain_job = server.wait_for(&boss, plain, "done");
    assert_eq!(plain_job["kind"], "simulate");
    let of_campaign = measures(&server, &boss, campaign);
    // Mean and median of each point.
    assert_eq!(of_campaign.as_array().map(Vec::len), Some(40));
    assert_eq!(of_campaign, measures(&server, &boss, plain));
    // Its runs are counted, and have no event each.
    let events =
        server.api(&boss, "GET", &format!("/jobs/{campaign}/events?limit=1000"), &Value::Null).json();
    assert!(!events.as_array().expect("a list").iter().any(|event| event["kind"] == "run"), "{events}");
    // The parts are there still, and count.
    let usage = server.api(&boss, "GET", "/me/usage", &Value::Null).json();
    let listed = |job: i64| {
        let all = server.api(&boss, "GET", &format!("/jobs/{job}/artifacts"), &Value::Null).json();
        all.as_array().expect("a list").iter().filter_map(|file| file["bytes"].as_u64()).sum::<u64>()
    };
    assert!(usage["results"].as_u64() > Some(listed(campaign) + listed(plain)), "{usage}");
    let report = server.send(&boss, ("GET", &format!("/jobs/{campaign}/report")), &[], "");
    assert!(report.body.contains("Differences, seed by seed") && report.body.contains("Convergence"));
    let page = server.send(&boss, ("GET", &format!("/jobs/{campaign}")), &[], "");
    assert!(page.body.contains("Campaign #") && page.body.contains("runs.parquet"), "{page:?}");
}

#[test]
fn a_cancelled_campaign_gathers_what_is_finished() {
    let server = server();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &swept(4000));
    let id = server.launch(&boss, &json!({ "scenario": scenario, "seeds": 50, "campaign": true }));
    server.wait(&boss, id, |job| job["finished"].as_i64() > Some(2));
    assert_eq!(server.api(&boss, "POST", &format!("/jobs/{id}/cancel"), &Value::Null).status, 200);
    let job = server.wait_for(&boss, id, "cancelled");
    let (rows, finished) = (rows(&server, id), job["finished"].as_i64().expect("a number"));
    assert!(rows as i64 >= finished && (3..1000).contains(&rows), "{rows} rows, {job}");
    assert!(files(&server, &boss, id).iter().any(|file| file == "summary.csv"));
}

#[test]
fn a_killed_campaign_goes_on_and_runs_nothing_twice() {
    let mut server = server();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &swept(1000));
    let id = server.launch(&boss, &json!({ "scenario": scenario, "seeds": 2, "campaign": true }));
    server.wait(&boss, id, |job| job["finished"].as_i64() > Some(2));
    server.kill_and_restart();
    server.wait(&boss, id, |job| job["finished"].as_i64() > Some(5) && job["attempt"] == 1);
    let progress = server.data().join(format!("jobs/{id}/progress-1.jsonl"));
    let first = std::fs::read_to_string(progress).expect("read");
    let first: Value = serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
    // The driver with the processes of its parts, as a shortage of memory ends a group.
    let group = format!("-{}", first["pid"]);
    let killed = std::process::Command::new("kill").args(["-KILL", "--", &group]).status().expect("runs");
    assert!(killed.success());
    let job = server.wait_for(&boss, id, "done");
    assert_eq!((job["finished"].as_i64(), job["runs"].as_i64()), (Some(40), Some(40)));
    assert!(job["attempt"].as_i64() >= Some(2) && rows(&server, id) == 40, "{job}");
}

#[test]
fn a_campaign_has_room_where_a_job_has_none_and_is_of_a_scenario() {
    let server = server();
    let boss = server.boss();
    let many = swept(2).replace("1 to 20 ms by 1", "1 to 20000 us by 1");
    let scenario = server.scenario(&boss, &many);
    let refused = server.api(&boss, "POST", "/jobs", &json!({ "scenario": scenario }));
    assert!(refused.status == 422 && refused.body.contains("or a campaign"), "{refused:?}");
    let more = json!({ "scenario": scenario, "seeds": 100, "campaign": true });
    let refused = server.api(&boss, "POST", "/jobs", &more);
    assert!(refused.status == 422 && refused.body.contains("2000000 runs"), "{refused:?}");
    let id = server.launch(&boss, &json!({ "scenario": scenario, "campaign": true }));
    assert_eq!(server.api(&boss, "POST", &format!("/jobs/{id}/cancel"), &Value::Null).status, 200);
    server.wait_for(&boss, id, "cancelled");
    for bad in [json!({ "campaign": true }), json!({ "campaign": 1, "scenario": scenario })] {
        assert_eq!(server.api(&boss, "POST", "/jobs", &bad).status, 422, "{bad}");
    }
}
