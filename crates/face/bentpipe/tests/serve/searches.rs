//! Searches as jobs: their answer, their page, what they refuse, and kills.

use serde_json::{Value, json};

use super::client::{SCENARIO, Server};
use super::jobs::{pid_of, signal};

/// Conditions that hold for rates of 600 kbit/s and more.
const FAST: &str = "flow.f.goodput >= 500 kbit/s";

fn question(over: &str, condition: &str) -> Value {
    json!({ "over": over, "while": [condition] })
}

#[test]
fn a_search_answers_with_the_last_value_that_holds() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let search = question("link.l.rate='1000 to 100 kbit/s by 100'", FAST);
    let id = server.launch(&boss, &json!({ "scenario": scenario, "seeds": 2, "search": search }));
    let job = server.wait_for(&boss, id, "done");
    assert_eq!((&job["kind"], &job["search"]), (&json!("search"), &search), "{job}");
    let message = job["message"].as_str().expect("a message");
    assert!(message.ends_with("link.l.rate=600 kbit/s"), "{message}");
    // Of ten values the first, the last, and at most four between them.
    let (runs, finished) = (job["runs"].as_i64(), job["finished"].as_i64());
    assert!(runs == finished && (6..=12).contains(&runs.unwrap_or_default()), "{job}");
    let files = server.api(&boss, "GET", &format!("/jobs/{id}/artifacts"), &Value::Null).json();
    for name in ["search.json", "report.html", "summary.json", "manifest.json"] {
        assert!(files.as_array().expect("a list").iter().any(|file| file["path"] == name), "{files}");
    }
    let measures = server.api(&boss, "GET", &format!("/jobs/{id}/measures"), &Value::Null).json();
    let goodputs = measures.as_array().expect("a list").iter().filter(|one| one["name"] == "flow.f.goodput");
    let goodputs: Vec<f64> = goodputs.filter_map(|one| one["mean"].as_f64()).collect();
    assert_eq!(goodputs.len() as i64 * 2, runs.unwrap_or_default());
    assert!(goodputs.is_sorted_by(|a, b| a > b), "in the order of the values: {goodputs:?}");
    let report = server.send(&boss, ("GET", &format!("/jobs/{id}/report")), &[], "").body;
    assert!(report.contains("last: link.l.rate=600 kbit/s") && report.contains("fails"), "{report}");
    let page = server.send(&boss, ("GET", &format!("/jobs/{id}")), &[], "").body;
    assert!(page.contains("Search #") && page.contains(&FAST.replace('>', "&gt;")), "{page}");
    let none = question("link.l.rate=[\"400 kbit/s\", \"300 kbit/s\"]", FAST);
    let id = server.launch(&boss, &json!({ "scenario": scenario, "search": none }));
    let message = server.wait_for(&boss, id, "done")["message"].clone();
    assert!(message.as_str().is_some_and(|text| text.contains("fail at the first value")), "{message}");
}

#[test]
fn a_killed_search_goes_on() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, &SCENARIO.replace("2 s", "400 s"));
    let search = question("link.l.rate='1000 to 100 kbit/s by 1'", FAST);
    let id = server.launch(&boss, &json!({ "scenario": scenario, "search": search }));
    server.wait(&boss, id, |job| job["finished"].as_i64() > Some(1));
    signal(pid_of(&server, id, 1), "-KILL");
    let job = server.wait_for(&boss, id, "done");
    assert!(job["attempt"].as_i64() > Some(1), "{job}");
    let (runs, finished) = (job["runs"].as_i64(), job["finished"].as_i64());
    assert!(runs >= finished && (8..=14).contains(&finished.unwrap_or_default()), "{job}");
}

#[test]
fn a_wrong_question_is_refused_before_it_runs() {
    let server = Server::new();
    let boss = server.boss();
    let scenario = server.scenario(&boss, SCENARIO);
    let over = "link.l.rate='1000 to 100 kbit/s by 100'";
    let refused = |search: &Value, why: &str| {
        let launch = json!({ "scenario": scenario, "search": search });
        let answer = server.api(&boss, "POST", "/jobs", &launch);
        assert!(answer.status == 422 && answer.body.contains(why), "{search}: {answer:?}");
    };
    refused(&question(over, "goodput > 1"), "search.while");
    refused(&question("link.none.rate=[1]", FAST), "search.over");
    refused(&question("link.l.rate='1 to 2 fortnights by 1'", FAST), "search.over");
    refused(&question("--out=/tmp", FAST), "search.over");
    refused(&question("flow.f.count='1 to 1000000000 by 1'", FAST), "search.over");
    refused(&json!({ "over": over, "while": [] }), "1 to 20 conditions");
    let both = json!({ "scenario": scenario, "search": question(over, FAST), "campaign": true });
    assert_eq!(server.api(&boss, "POST", "/jobs", &both).status, 422);
}
