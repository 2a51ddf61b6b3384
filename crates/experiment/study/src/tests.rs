//! Studies: their files, and verdicts.

use bentpipe_lab::plan::Point;
use bentpipe_record::{RunResult, Setting, Summary, Timing};

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
basis = "two runs"
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
basis = "the axis"
unit = "MB"
source = "fig. 7"
run = "window"
measure = "flow.bulk.goodput"
best = "flow.bulk.tcp.receive_buffer"
quick = false
"#;

fn runs() -> StudyRuns {
    use bentpipe_lab::plan::{Plan, Seeds};
    use bentpipe_scenario::Document;
    let text = r#"
title = "t"
duration = "1 s"
node.a = {}
node.b = {}
link.l = { between = ["a", "b"], rate = "1 Mbit/s", delay = "1 ms" }
"#;
    let document = Document::parse("t", text.as_bytes()).expect("TOML");
    let plan = Plan::new(&document, Seeds::default()).expect("a plan");
    let sizes =
        ["64000 B", "6 MB"].map(|size| ("flow.bulk.traffic.receive_buffer".to_owned(), size.to_owned()));
    let results = [(0, [98e6, 100e6, 102e6]), (1, [109e6, 110e6, 111e6])];
    let results: Vec<RunResult> = results
        .iter()
        .flat_map(|(point, rates)| (1..).zip(rates).map(|(seed, rate)| result(*point, seed, *rate)))
        .collect();
    let settings = sizes.map(|(key, value)| [Setting { axis: 0, key, value }]);
    let axes = ["b".to_owned()];
    let summary = Summary::new("t", &axes, settings.iter().map(|settings| &settings[..]), &results);
    let mut plan = plan;
    plan.points = settings
        .iter()
        .map(|settings| Point { settings: settings.to_vec(), ..plan.points[0].clone() })
        .collect();
    plan.points.iter_mut().for_each(|point| point.seeds = vec![1, 2, 3]);
    let folder = bentpipe_lab::run::Folder::new(std::path::Path::new("."), "t", &plan);
    let window = Finished { folder, plan, summary, results };
    StudyRuns::new([("window".to_owned(), window)].into_iter().collect(), Length::Full)
}

/// A run of one seed with a goodput, and without loss.
fn result(point: usize, seed: u64, goodput: f64) -> RunResult {
    let outcome = serde_json::json!({
        "hash": "", "seed": seed, "fingerprint": "0", "deliveries": 0, "wakeups": 0, "stray": 0,
        "interval_asked": "1 s", "interval": "1 s", "captures": [], "totals": {},
        "measures": [
            {"name": "flow.bulk.goodput", "unit": "bit/s", "value": goodput},
            {"name": "flow.bulk.loss", "unit": "ratio", "value": 0.0},
        ],
    });
    let outcome = serde_json::from_value(outcome).expect("an outcome");
    let timing = Timing { build: String::new(), wall_s: 0.0, real_time: None, captures: None };
    RunResult { point, outcome, timing, reused: false }
}

#[test]
fn rows_are_held_against_runs() {
    let study = parsed(STUDY).expect("a study");
    let comparisons = compare(&study, &runs(), false);
    let shown: Vec<[String; 4]> = comparisons
        .iter()
        .map(|c| [c.expected_text(), c.simulated_text(), c.deviation_text(), c.verdict.to_string()])
        .collect();
    assert_eq!(shown[0], ["113 Mbit/s", "110.0 \u{b1} 2.5 Mbit/s", "-2.7 %", "met"]);
    assert_eq!(shown[1], ["\u{2265} 95 %", "110.0 \u{b1} 3.0 %", "", "met"]);
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
        ("unit = \"Mbit/s\"", "unit = \"MB\"", "the simulated value is in bit/s, not in MB"),
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
        assert!(comparison.simulated_text().starts_with(why), "{}", comparison.simulated_text());
    }
}

#[test]
fn a_run_that_cannot_be_made_loses_its_own_rows_only() {
    let text = STUDY.replacen("[[row]]", "[run.video]\nscenario = \"video.toml\"\n[[row]]", 1);
    let text = text.replacen("run = \"window\"", "run = \"video\"", 1);
    let study = parsed(&text).expect("a study");
    let lost = [("video".to_owned(), "ffmpeg does not start".to_owned())];
    let comparisons = compare(&study, &runs().with_lost(lost.into_iter().collect()), false);
    let verdicts: Vec<Verdict> = comparisons.iter().map(|comparison| comparison.verdict).collect();
    assert_eq!(verdicts, [Verdict::NotJudged, Verdict::Met, Verdict::Met]);
    assert_eq!(comparisons[0].simulated_text(), "run \"video\" was not made: ffmpeg does not start");
}

#[test]
fn a_study_that_makes_no_sense_is_refused() {
    for (from, to, expected) in [
        ("tolerance = 0.05", "", "row K2: expected `tolerance`"),
        ("basis = \"two runs\"", "", "row K2: expected `basis`"),
        (
            "basis = \"two runs\"",
            "basis = \"two runs\"\nmissed = \"why\"",
            "row K2: expected `missed` together with `cause`",
        ),
        (
            "basis = \"two runs\"",
            "basis = \"two runs\"\nmissed = \"unknown\"\ncause = [\"sack\"]",
            "or `missed = \"unknown\"`",
        ),
        (
            "basis = \"two runs\"",
            "basis = \"two runs\"\nmissed = \"why\"\ncause = [\"sack\"]",
            "row K2: cause \"sack\": expected the `key`",
        ),
        ("published = 113", "published = 113\nat_least = 3", "row K2: expected one of `published`"),
        ("run = \"window\"", "run = \"windo\"", "K2: unknown run \"windo\": expected one of window"),
        ("best =", "code = \"x\"\nbest =", "row K5: expected `run` and `measure`"),
        ("title =", "titel =", "unknown field `titel`"),
        ("between = [1, 5.5]", "between = [5.5, 1]", "row K5: expected one of"),
    ] {
        let problem = parsed(&STUDY.replacen(from, to, 1)).expect_err(to);
        assert!(problem.contains(expected), "{problem}");
    }
}

/// A table has measures of runs, or points of computed curves.
#[test]
fn a_table_says_where_its_values_come_from() {
    let table = |column: &str, row: &str| {
        let text = format!(
            "{STUDY}\n[[table]]\ntitle = \"t\"\ncolumn = [{{ name = \"c\", {column} }}]\nrow = [{{ name = \"r\", {row} }}]\n"
        );
        parsed(&text).map(|study| study.tables.len())
    };
    assert_eq!(table("measure = \"m\"", "run = \"window\""), Ok(1));
    assert_eq!(table("code = \"rohc-ule-table-2-share\"", "x = 3, published = [nan]"), Ok(1));
    for (column, row, expected) in [
        ("measure = \"m\"", "x = 3", "table \"t\": r: expected `run`"),
        ("code = \"c\"", "run = \"window\"", "and `x` for columns with `code`"),
        ("measure = \"m\", code = \"c\"", "x = 3", "table \"t\": c: expected either `measure` or `code`"),
        ("code = \"c\"", "x = 3, published = [1, 2]", "expected 1 values in `published`, got 2"),
        ("measure = \"m\"", "run = \"windo\"", "unknown run \"windo\""),
    ] {
        let problem = table(column, row).expect_err(column);
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

/// A mean of several seeds, or an exact value.
fn of(mean: f64, ci95: Option<f64>) -> Simulated {
    let half = ci95.unwrap_or(0.0);
    Simulated { mean, interval: (mean - half, mean + half), next: None }
}

#[test]
fn tolerances_widen_ranges_and_inequalities_have_none() {
    let between = Expected::Between { low: 2.0, high: 3.0, tolerance: 0.1 };
    let exact = |expected: Expected, mean| expected.verdict(&of(mean, None)) == Verdict::Met;
    assert!(exact(between, 1.8) && exact(between, 3.3) && !exact(between, 3.4) && !exact(between, 1.7));
    assert_eq!(between.deviation(2.5), None);
    assert!((between.deviation(3.3).expect("outside") - 0.1).abs() < 1e-12);
    assert!(exact(Expected::AtLeast(5.0), 5.0) && !exact(Expected::AtMost(5.0), 5.1));
    let zero = Expected::Value { value: 0.0, tolerance: 0.1 };
    assert!(exact(zero, 0.0) && !exact(zero, 0.1) && zero.deviation(0.1).is_none());
}

#[test]
fn an_interval_across_the_bound_is_undecided() {
    let verdict = |mean, half| Expected::AtMost(1.0).verdict(&of(mean, Some(half)));
    assert_eq!([verdict(0.9, 0.05), verdict(0.9, 0.2)], [Verdict::Met, Verdict::Undecided]);
    assert_eq!([verdict(1.1, 0.2), verdict(1.1, 0.05)], [Verdict::Undecided, Verdict::Missed]);
    let value = Expected::Value { value: 100.0, tolerance: 0.1 };
    assert_eq!(value.verdict(&of(105.0, Some(20.0))), Verdict::Undecided);
    assert_eq!(value.verdict(&of(f64::NAN, None)), Verdict::Missed);
}

/// A spread of more than the value on both sides cannot miss it, so nothing is decided.
#[test]
fn a_single_published_run_is_compared_with_the_spread_of_runs() {
    let of_next = |low, high| Simulated { next: Some((low, high)), ..of(10.0, Some(2.0)) };
    let verdict = |value, low, high| Expected::OneRun(value).verdict(&of_next(low, high));
    assert_eq!([verdict(14.0, 6.0, 16.0), verdict(17.0, 6.0, 16.0)], [Verdict::Met, Verdict::Missed]);
    assert_eq!([verdict(4.0, 1.0, 11.0), verdict(12.0, 1.0, 11.0)], [Verdict::Undecided, Verdict::Missed]);
    assert_eq!(Expected::OneRun(10.0).verdict(&of(10.0, None)), Verdict::Undecided);
}

/// Single runs of 98, 100 and 102 Mbit/s; the bound of a share stays below its greatest value.
#[test]
fn the_spread_of_runs_is_that_of_the_seeds() {
    let row = |more: &str| {
        let text = STUDY.replacen("tolerance = 0.05\n", more, 1).replacen("\"6 MB\"", "\"64 kB\"", 1);
        compare(&parsed(&text).expect("a study"), &runs(), false).remove(0)
    };
    let found = row("tolerance = \"one-run\"\n");
    let (low, high) = found.band.expect("a spread");
    assert!((low - 90.53).abs() < 0.01 && (high - 110.43).abs() < 0.01, "{low} {high}");
    assert_eq!((found.verdict, found.band_text()), (Verdict::Missed, "90.53 to 110.4".to_owned()));
    let bounded = row("tolerance = \"one-run\"\nmost = 102.5\n");
    let (low, high) = bounded.interval.expect("an interval");
    assert!(low > 80.0 && low < 98.0 && high > 101.0 && high <= 102.5, "{low} {high}");
    assert!(bounded.simulated_text().starts_with("100.0 ("), "{}", bounded.simulated_text());
}

/// Published values in segments, or in shares of a line.
#[test]
fn a_published_unit_has_its_size() {
    let row = |unit: &str| {
        let text = STUDY.replacen("published = 113\nunit = \"Mbit/s\"", unit, 1);
        compare(&parsed(&text).expect("a study"), &runs(), false).remove(0)
    };
    let found = row("published = 0.22\nunit = \"ratio\"\nper = \"500 Mbit/s\"");
    assert_eq!((found.simulated.expect("a value").mean, found.verdict), (0.22, Verdict::Met));
    let wrong = row("published = 0.22\nunit = \"ratio\"\nper = \"1500 B\"").simulated_text();
    assert_eq!(wrong, "`per` is \"1500 B\", and the simulated value is in bit/s");
}

#[test]
fn verdicts_are_counted_by_kind() {
    let comparisons = compare(&parsed(STUDY).expect("a study"), &runs(), true);
    let expected = ["predicted: 1 met", "claims: 1 met, 1 not judged"];
    assert_eq!(summary(&comparisons), expected);
    let inputs = STUDY.replacen("\"predicted\"", "\"input\"", 1).replacen("\"claim\"", "\"own\"", 1);
    let comparisons = compare(&parsed(&inputs).expect("a study"), &runs(), false);
    assert_eq!(summary(&comparisons), ["claims: 1 met", "inputs: 1 met", "own checks, not published: 1 met"]);
}

/// At 64 kB and 6 MB the seeds have 98 and 109, 100 and 110, 102 and 111 Mbit/s: within 15 % of the largest all are best.
#[test]
fn the_best_value_is_the_first_within_a_share_of_the_largest() {
    let best = |within: &str| {
        let text = STUDY.replacen("quick = false", within, 1);
        compare(&parsed(&text).expect("a study"), &runs(), false)[2].simulated_text()
    };
    assert_eq!(best(""), "6.000 MB");
    assert_eq!(best("within = 0.15"), "0.06400 MB");
    assert!(parsed(&STUDY.replacen("quick = false", "within = 1", 1)).is_err());
}

/// Each kind needs what it promises, and refuses what contradicts it.
#[test]
fn a_row_has_what_its_kind_promises() {
    let refused = |kind: &str, published: &str| {
        let text =
            STUDY.replacen("kind = \"predicted\"\npublished", &format!("kind = \"{kind}\"\n{published}"), 1);
        parsed(&text).err().unwrap_or_default()
    };
    assert!(refused("own", "published").contains("`expected` in place of `published`"));
    assert_eq!(refused("own", "expected"), "");
    assert!(refused("predicted", "expected").contains("`published` in place of `expected`"));
    assert!(refused("calibrated", "published").contains("expected `fitted`"));
    assert_eq!(refused("calibrated", "fitted = \"the window, on this row\"\npublished"), "");
    assert!(refused("arithmetic", "fitted = \"x\"\npublished").contains("of calibrated rows"));
}

/// A bound that 0 meets needs a witness that something was sent, and is missed without it.
#[test]
fn a_run_in_which_nothing_happened_meets_no_row() {
    let with = |witness: &str| {
        let text = STUDY.replacen("published = 113", "at_most = 200", 1);
        parsed(&text.replacen("tolerance = 0.05\nbasis = \"two runs\"", witness, 1))
    };
    let verdict = |witness: &str| {
        let comparisons = compare(&with(witness).expect("a study"), &runs(), false);
        (comparisons[0].verdict, comparisons[0].simulated.clone().err())
    };
    assert!(with("").expect_err("refused").contains("expected `witness`"));
    // A quotient of nothing over something is 0, the best of nothing is no point, and something over nothing is no number.
    let quotient = STUDY.replacen("at_least = 95", "at_most = 200", 1);
    assert!(parsed(&quotient).expect_err("refused").contains("row K4: expected `witness`"));
    let of_loss = |from: &str, to: &str| {
        let comparisons = compare(&parsed(&STUDY.replacen(from, to, 1)).expect("a study"), &runs(), false);
        (comparisons[1].verdict, comparisons[2].simulated.clone().err())
    };
    let over = "measure = \"flow.bulk.goodput\", at = { receive_buffer = \"64 kB\"";
    assert_eq!(of_loss(over, &over.replace("goodput", "loss")).0, Verdict::Missed);
    let best = "measure = \"flow.bulk.goodput\"\nbest";
    let why = "flow.bulk.loss is 0 at each point".to_owned();
    assert_eq!(of_loss(best, &best.replace("goodput", "loss")).1, Some(why));
    assert_eq!(verdict("witness = \"flow.bulk.goodput\""), (Verdict::Met, None));
    let why = "flow.bulk.loss is 0: nothing was sent".to_owned();
    assert_eq!(verdict("witness = \"flow.bulk.loss\""), (Verdict::Missed, Some(why)));
}

/// A function of runs has 0 too if nothing was sent. A row of code names no run, so its witness does.
#[test]
fn code_of_a_run_in_which_nothing_happened_meets_no_row() {
    let with = |code: &str, witness: &str| {
        let row = format!("published = 113\ncode = \"{code}\"\n{witness}");
        let text = STUDY.replacen("published = 113", &row.replacen("published = 113", "at_most = 200", 1), 1);
        let text = text.replacen("tolerance = 0.05\nbasis = \"two runs\"", "", 1);
        parsed(&text.replacen(
            "run = \"window\"\nmeasure = \"flow.bulk.goodput\"\nat = { receive_buffer = \"6 MB\" }",
            "",
            1,
        ))
    };
    let of = |measure: &str| format!("witness = {{ run = \"window\", measure = \"flow.bulk.{measure}\" }}");
    let refused = |code: &str, witness: &str| with(code, witness).expect_err("refused");
    let of_row = refused("wimax-voip-loss-65", "witness = \"flow.bulk.goodput\"");
    assert!(of_row.contains("expected `witness = { run = "), "{of_row}");
    let unknown = of("goodput").replace("window", "door");
    assert!(refused("wimax-voip-loss-65", &unknown).contains("unknown run \"door\""));
    let reason = |code: &str, witness: &str| {
        let study = with(code, witness).expect("a study");
        compare(&study, &runs(), false)[0].simulated.clone().expect_err("nothing is computed")
    };
    assert!(reason("wimax-voip-loss-65", "").starts_with("expected `witness`"));
    assert_eq!(reason("wimax-voip-loss-65", &of("loss")), "flow.bulk.loss is 0: nothing was sent");
    assert_eq!(reason("wimax-voip-loss-65", &of("goodput")), "unknown code \"wimax-voip-loss-65\"");
    // Arithmetic reads no run.
    assert_eq!(reason("koreasat-padding", ""), "unknown code \"koreasat-padding\"");
}

#[test]
fn measures_of_several_points_are_reduced() {
    let across = |across: &str| {
        let text = STUDY.replacen("at = { receive_buffer = \"6 MB\" }", across, 1);
        let comparisons = compare(&parsed(&text).expect("a study"), &runs(), false);
        comparisons[0].simulated.clone().map(|estimate| estimate.mean)
    };
    assert_eq!(across("across = \"mean\""), Ok(105.0));
    assert_eq!(across("across = \"greatest\""), Ok(110.0));
    assert_eq!(across("less = \"flow.bulk.goodput\"\nacross = \"median\""), Ok(0.0));
    let several = across("less = \"flow.bulk.goodput\"");
    assert_eq!(several, Err("2 values in run \"window\": expected `across`".to_owned()));
    let pattern = STUDY.replacen(
        "measure = \"flow.bulk.goodput\"\nat",
        "measure = \"flow.*.goodput\"\nacross = \"least\"\nat",
        1,
    );
    let comparison = &compare(&parsed(&pattern).expect("a study"), &runs(), false)[0];
    assert_eq!(comparison.simulated_text(), "110.0 \u{b1} 2.5 Mbit/s");
}

#[test]
fn a_row_has_a_measure_or_a_reduced_series() {
    let refused =
        |row: &str| parsed(&STUDY.replacen("measure = \"flow.bulk.goodput\"", row, 1)).expect_err(row);
    for row in
        ["series = \"flow.bulk.sender.cwnd\"", "reduce = { kind = \"last\" }", "less = \"flow.bulk.loss\""]
    {
        assert!(refused(row).contains("or `series` and `reduce`"), "{}", refused(row));
    }
    let series = "series = \"flow.bulk.sender.cwnd\"\nreduce = { kind = \"last\" }";
    assert!(parsed(&STUDY.replacen("measure = \"flow.bulk.goodput\"", series, 1)).is_ok());
}

/// Emulated networks have measures and words by their rules; what is impossible is named.
#[test]
fn emulated_networks_are_checked() {
    let study = |more: &str| {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\nrow = []\n[[emulated]]\nscenario = \"a.toml\"\nflow = \"call\"\nduration = \"60 s\"\n{more}\n\
             [emulated.way]\na = []\n"
        );
        crate::study::parsed(&text).map(|mut study| study.emulated.remove(0))
    };
    let network = study("").expect("a network");
    assert_eq!((network.measures, network.quick), (vec!["goodput".to_owned()], None));
    let words = "words = [{ word = \"X\", measure = \"set-up-p50\", at_least = 8 }, { word = \"LAGGED\", measure = \"mos\", at_most = 2 }]";
    let network = study(words).expect("words");
    assert!(network.words[0].is_for(8.0) && !network.words[0].is_for(7.9));
    assert!(network.words[1].is_for(2.0) && !network.words[1].is_for(2.1));
    let error = study("words = [{ word = \"X\", measure = \"mos\" }]").expect_err("no rule");
    assert_eq!(error, "emulated call: words: \"X\": expected at_most or at_least");
    let error = study("measures = []").expect_err("nothing to compare");
    assert!(error.contains("measures, way: expected at least one each"), "{error}");
}
