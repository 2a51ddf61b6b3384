//! Studies: their files, and verdicts.

use super::study::parsed;
use super::*;

const STUDY: &str = r#"
title = "A study"
source = "Somebody, 2001"
[run.window]
scenario = "window.toml"
quick = ["duration=5 s"]
[[row]]
id = "K2"
what = "throughput"
kind = "predicted"
published = 113
unit = "Mbit/s"
tolerance = 0.05
source = "fig. 3"
run = "window"
measure = "flow.bulk.goodput"
at = { receive_buffer = "6 MB" }
[[row]]
id = "K4"
what = "of the throughput without delay"
kind = "claim"
at_least = 95
unit = "%"
source = "text"
run = "window"
measure = "flow.bulk.goodput"
at = { receive_buffer = "6 MB" }
over = { run = "window", measure = "flow.bulk.goodput", at = { receive_buffer = "64 kB" } }
[[row]]
id = "K5"
what = "best buffer"
kind = "claim"
between = [1, 5.5]
tolerance = 0.1
unit = "MB"
source = "fig. 7"
run = "window"
measure = "flow.bulk.goodput"
best = "flow.bulk.tcp.receive_buffer"
quick = false
"#;

fn runs() -> StudyRuns {
    use crate::plan::{Plan, Seeds};
    use crate::scenario::Document;
    let text = r#"
title = "t"
duration = "1 s"
node.a = {}
node.b = {}
link.l = { between = ["a", "b"], rate = "1 Mbit/s", delay = "1 ms" }
"#;
    let document = Document::parse("t", text.as_bytes()).expect("TOML");
    let plan = Plan::new(&document, Seeds::default()).expect("a plan");
    let json = r#"{"title": "t", "version": "0", "axes": ["b"], "points": [
        {"settings": {"flow.bulk.tcp.receive_buffer": "64000 B"}, "seeds": [1], "fingerprints": ["0"],
         "measures": {"flow.bulk.goodput": {"unit": "bit/s", "n": 3, "mean": 1.0e8, "ci95": 3.0e6}}, "totals": {}},
        {"settings": {"flow.bulk.tcp.receive_buffer": "6 MB"}, "seeds": [1], "fingerprints": ["0"],
         "measures": {"flow.bulk.goodput": {"unit": "bit/s", "n": 3, "mean": 1.1e8, "ci95": 4.4e6}}, "totals": {}}]}"#;
    let summary = serde_json::from_str(json).expect("a summary");
    let folder = crate::run::Folder::new(std::path::Path::new("."), "t", &plan);
    let window = Finished { folder, plan, summary };
    StudyRuns::new([("window".to_owned(), window)].into_iter().collect(), Length::Full)
}

#[test]
fn rows_are_held_against_runs() {
    let study = parsed(STUDY).expect("a study");
    let comparisons = compare(&study, &runs(), false);
    let shown: Vec<[String; 4]> = comparisons
        .iter()
        .map(|c| [c.published_text(), c.ours_text(), c.deviation_text(), c.verdict.to_string()])
        .collect();
    assert_eq!(shown[0], ["113 Mbit/s", "110.0 \u{b1} 4.400 Mbit/s", "-2.7 %", "met"]);
    assert_eq!(shown[1], ["\u{2265} 95 %", "110.0 \u{b1} 5.500 %", "", "met"]);
    assert_eq!(shown[2], ["1 to 5.5 MB", "6.000 MB", "+9.1 %", "met"]);
    assert_eq!(compare(&study, &runs(), true)[2].verdict, Verdict::NotJudged);
}

#[test]
fn what_cannot_be_found_is_missed_and_says_why() {
    for (from, to, why) in [
        (
            "measure = \"flow.bulk.goodput\"\nat",
            "measure = \"flow.x.goodput\"\nat",
            "no measure \"flow.x.goodput\"",
        ),
        ("unit = \"Mbit/s\"", "unit = \"MB\"", "ours is in bit/s, not in MB"),
        ("at = { receive_buffer = \"6 MB\" }", "", "run \"window\" has 2 points with {}"),
        (
            "at = { receive_buffer = \"6 MB\" }",
            "at = { receive_buffer = \"7 MB\" }",
            "run \"window\" has no point",
        ),
    ] {
        let study = parsed(&STUDY.replacen(from, to, 1)).expect("a study");
        let comparison = &compare(&study, &runs(), false)[0];
        assert_eq!(comparison.verdict, Verdict::Missed);
        assert!(comparison.ours_text().starts_with(why), "{}", comparison.ours_text());
    }
}

#[test]
fn a_study_that_makes_no_sense_is_refused() {
    for (from, to, expected) in [
        ("tolerance = 0.05", "", "row K2: expected `tolerance`"),
        ("published = 113", "published = 113\nat_least = 3", "row K2: expected one of `published`"),
        ("run = \"window\"", "run = \"windo\"", "K2: no run \"windo\": expected one of window"),
        ("best =", "code = \"x\"\nbest =", "row K5: expected `run` and `measure`"),
        ("title =", "titel =", "unknown field `titel`"),
        ("between = [1, 5.5]", "between = [5.5, 1]", "row K5: expected one of"),
    ] {
        let problem = parsed(&STUDY.replacen(from, to, 1)).expect_err(to);
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn the_page_shows_every_row() {
    let study = parsed(STUDY).expect("a study");
    let runs = runs();
    let html = study_page(&study, &compare(&study, &runs, false), &runs, Vec::new()).to_html();
    for row in &study.rows {
        assert!(html.contains(&row.what) && html.contains(&row.source));
    }
    assert_eq!(html.matches("class=\"good\"").count(), 3);
}

#[test]
fn tolerances_widen_ranges_and_inequalities_have_none() {
    let between = Expected::Between { low: 2.0, high: 3.0, tolerance: 0.1 };
    assert!(between.holds(1.8) && between.holds(3.3) && !between.holds(3.4) && !between.holds(1.7));
    assert_eq!(between.deviation(2.5), None);
    assert!((between.deviation(3.3).expect("outside") - 0.1).abs() < 1e-12);
    assert!(Expected::AtLeast(5.0).holds(5.0) && !Expected::AtMost(5.0).holds(5.1));
    let zero = Expected::Value { value: 0.0, tolerance: 0.1 };
    assert!(zero.holds(0.0) && !zero.holds(0.1) && zero.deviation(0.1).is_none());
}
