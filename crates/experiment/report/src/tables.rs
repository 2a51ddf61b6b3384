//! Tables of measures.

use std::collections::HashMap;

use bentpipe_record::compare::Difference;
use bentpipe_record::stats::Estimate;
use bentpipe_record::{
    Averaged, Cell, FinalValues, MeasureName, PointSummary, Subject, SubjectKind, Table, group_of, pattern,
};
use indexmap::IndexMap;

use super::accounts::{self, interval};
use super::numbers::quantity;

/// Maximum number of copies that have a row each; of more there is their mean.
const MAX_COPIES: usize = 12;

/// Number of rows above which all copies of a flow or link share a row.
const MAX_ROWS: usize = 12;

/// Measures of a flow and their titles.
const FLOW: &[(&str, &str)] = &[
    ("copies", "flows together"),
    ("goodput", "goodput"),
    ("completion", "completion time"),
    ("burst-completion-p50", "median burst completion"),
    ("burst-completion-p95", "95th-percentile burst completion"),
    ("retransmitted", "retransmitted"),
    ("timeouts", "timeouts"),
    ("loss", "loss"),
    ("voice-loss", "loss, with late packets"),
    ("talker-loss", "talkers' loss"),
    ("r", "R"),
    ("mos", "MOS"),
    ("mouth-to-ear", "mouth to ear"),
    ("good-calls", "good calls"),
    ("calls-left-out", "calls with nothing in the window"),
    ("calls-offered", "calls offered"),
    ("blocked-ratio", "blocked"),
    ("calls", "placed"),
    ("calls-established", "established"),
    ("calls-rejected", "refused"),
    ("calls-timed-out", "timed out"),
    ("post-dial-p50", "median post-dial delay"),
    ("set-up-p50", "median set-up time"),
    ("rtt", "mean RTT"),
    ("rtt-mean", "mean RTT of pings"),
    ("rtt-p95", "95th-percentile RTT of pings"),
    ("unanswered", "pings unanswered"),
    ("delay-mean", "mean delay"),
    ("delay-p95", "95th-percentile delay"),
    ("ts-loss", "TS packets lost"),
    ("pictures-lost", "pictures lost"),
    ("psnr", "PSNR"),
    ("pcr-jitter", "PCR jitter"),
    ("clock-lock-time", "lock time of the clock"),
    ("clock-jitter", "jitter of the recovered clock"),
    ("rows", "rows of the query"),
    ("response", "response time"),
    ("row-delay-mean", "mean delay of a row"),
    ("row-delay-p95", "95th-percentile delay of a row"),
];

/// Returns what each flow achieved, many copies in the mean.
pub fn flow_table(point: &PointSummary) -> Option<Table> {
    grouped("flow", SubjectKind::Flow, FLOW, point)
}

/// Returns what each flow achieved, copies too.
pub(super) fn all_flows_table(point: &PointSummary) -> Option<Table> {
    table("flow", SubjectKind::Flow, FLOW, point)
}

/// Returns the table of link directions, or `None` without links.
pub fn link_table(point: &PointSummary) -> Option<Table> {
    let mut columns = vec![
        ("utilisation", "utilisation"),
        ("rate", "IP rate"),
        ("queue-mean-bytes", "mean queue"),
        ("queue-max-bytes", "peak queue"),
        ("dropped", "dropped"),
        ("channel-lost", "lost in the channel"),
        ("channel-damaged", "damaged in it"),
        ("not-restored", "not restored behind it"),
        ("shaper-queue-mean-bytes", "mean queue of the shaper"),
        ("shaper-queue-max-bytes", "its peak"),
        ("shaper-dropped", "dropped there"),
        ("line-rate", "mean line rate"),
    ];
    let mut measures = point.measures.iter();
    let is_damaged = |(name, of): (&String, &Averaged)| {
        let found = MeasureName::of(name).map(|it| (it.kind, it.measure));
        found == Some((SubjectKind::Link, "channel-damaged")) && of.estimate.mean > 0.0
    };
    if !measures.any(is_damaged) {
        columns.retain(|(name, _)| *name != "channel-damaged");
    }
    grouped("link", SubjectKind::Link, &columns, point)
}

/// Returns the table of ATM line directions.
pub(super) fn line_table(point: &PointSummary) -> Option<Table> {
    let columns = [
        ("utilisation", "utilisation"),
        ("rate", "cell rate"),
        ("cbr-queue-max", "peak CBR queue"),
        ("vbr-queue-max", "peak VBR queue"),
        ("abr-queue-mean", "mean ABR queue"),
        ("abr-queue-max", "peak ABR queue"),
        ("ubr-queue-mean", "mean UBR queue"),
        ("ubr-queue-max", "peak UBR queue"),
        ("dropped", "dropped"),
        ("cells-lost", "lost on it"),
        ("cells-damaged", "damaged"),
        ("cells-misinserted", "misinserted"),
    ];
    grouped("line", SubjectKind::Line, &columns, point)
}

/// Returns the table of the ends of virtual channels, without those that carried nothing.
pub(super) fn end_table(point: &PointSummary) -> Option<Table> {
    let columns = [
        ("cells-sent", "cells sent"),
        ("cells-received", "received"),
        ("pdus-sent", "PDUs sent"),
        ("pdus-received", "received"),
        ("wrong-length", "wrong length"),
        ("wrong-crc", "wrong CRC"),
        ("refused", "refused"),
        ("acr-mean", "mean ACR"),
        ("queue-mean", "mean queue"),
        ("queue-max", "peak queue"),
        ("lost", "lost"),
        ("receive-queue-mean", "mean queue for the host"),
        ("receive-queue-max", "its peak"),
        ("receive-lost", "lost there"),
        ("rm-destination-sent", "RM cells made"),
    ];
    let mut ends = things(SubjectKind::Channel, point);
    ends.retain(|_, measures| measures.values().any(|measure| measure.averaged.estimate.mean != 0.0));
    collected("channel.end", ends, &columns, point)
}

/// Measures of each thing, by its name.
type Things<'a> = IndexMap<String, IndexMap<&'a str, Shown>>;

/// Measure of a thing, or the mean over a group of things.
#[derive(Clone)]
struct Shown {
    averaged: Averaged,
    /// Number of values that it is the mean of, if it is not the row's.
    n: Option<f64>,
    /// Number of runs with a value, and of all, if some have none.
    runs: Option<(u64, usize)>,
}

impl Shown {
    fn text(&self) -> String {
        let n = self.n.map(|n| format!(" (of {})", quantity(n, None, "count"))).unwrap_or_default();
        format!("{}{n}{}", text(&self.averaged), of_runs(self.runs))
    }
}

/// Returns the number of runs with a value and of all, in words.
fn of_runs(runs: Option<(u64, usize)>) -> String {
    runs.map(|(n, all)| format!(" ({n} of {all} runs)")).unwrap_or_default()
}

/// Returns the number of runs with a value and of all, if some have none.
fn runs_of(averaged: &Averaged, point: &PointSummary) -> Option<(u64, usize)> {
    let (n, all) = (averaged.estimate.n, point.seeds.len());
    (n < all as u64).then_some((n, all))
}

/// Returns the measures of the things of a kind.
fn things(kind: SubjectKind, point: &PointSummary) -> Things<'_> {
    let mut things = Things::new();
    for (name, averaged) in &point.measures {
        if let Some(of) = MeasureName::of(name).filter(|of| of.kind == kind) {
            let shown = Shown { averaged: averaged.clone(), n: None, runs: runs_of(averaged, point) };
            things.entry(of.thing.to_owned()).or_default().insert(of.measure, shown);
        }
    }
    things
}

/// Returns a row for each thing of a kind.
fn table(what: &str, kind: SubjectKind, columns: &[(&str, &str)], point: &PointSummary) -> Option<Table> {
    rows(what, columns, &things(kind, point))
}

/// Returns the same with one row for copies, if they are many.
fn grouped(what: &str, kind: SubjectKind, columns: &[(&str, &str)], point: &PointSummary) -> Option<Table> {
    collected(what, things(kind, point), columns, point)
}

/// Returns a row for each thing, one for copies if they are many.
fn collected(
    what: &str,
    things: Things<'_>,
    columns: &[(&str, &str)],
    point: &PointSummary,
) -> Option<Table> {
    let mut copies: HashMap<String, usize> = HashMap::new();
    things.keys().for_each(|thing| *copies.entry(pattern(thing)).or_default() += 1);
    let most = if things.len() > MAX_ROWS { 2 } else { MAX_COPIES };
    let mut shown = Things::new();
    for (thing, measures) in things {
        let copies_of = pattern(&thing);
        match copies[&copies_of] {
            count if count > most => {
                let (n, name) = counted(&copies_of, count, point);
                let name = format!("{copies_of}, mean of {name}");
                shown.entry(name).or_insert_with(|| of_group((&copies_of, n), columns, point));
            }
            _ => {
                shown.insert(thing, measures);
            }
        }
    }
    rows(what, columns, &shown)
}

/// Returns the number of copies that a mean is of.
///
/// That is the number of a run, in the mean over the seeds. With it comes its text, with the number that the scenario has if some have no value. `count` is the number with a value in any run.
fn counted(copies: &str, count: usize, point: &PointSummary) -> (f64, String) {
    // Both directions of a call are of one flow.
    let group = group(copies.strip_suffix(".back").unwrap_or(copies));
    let value = |what: &str| group_value(&group, what, point);
    let n = value("n").unwrap_or(count as f64);
    let text = quantity(n, None, "count");
    match value("of") {
        Some(of) if of > n => (n, format!("{text} of {}", quantity(of, None, "count"))),
        _ => (n, text),
    }
}

/// Returns the name of the group of copies: "access.forward" of "access.*.forward".
fn group(copies: &str) -> String {
    group_of(copies).unwrap_or_else(|| copies.to_owned())
}

fn group_value(group: &str, what: &str, point: &PointSummary) -> Option<f64> {
    Some(point.measures.get(&format!("group.{group}.{what}"))?.estimate.mean)
}

/// Returns notes on flows, on units of links, and on the interval.
pub fn notes(point: &PointSummary) -> Vec<String> {
    let of_links = fragments(point).into_iter().chain(interval(point));
    [flow_notes(point), good_calls(point), of_links.collect()].concat()
}

/// Returns notes on copies that never start, and on flows without goodput or account.
pub fn flow_notes(point: &PointSummary) -> Vec<String> {
    let of_flows = accounts::silent(point).into_iter().chain(accounts::carried(point));
    copies_left_out(point).into_iter().chain(of_flows).collect()
}

/// Returns the criterion of good calls of each flow. Copies have one.
fn good_calls(point: &PointSummary) -> Vec<String> {
    let flows = named(SubjectKind::Flow, "good-loss", point);
    let mut notes: IndexMap<String, String> = IndexMap::new();
    for flow in flows.filter(|flow| !flow.ends_with(".back")) {
        let value = |name: &str| point.measures.get(&format!("flow.{flow}.{name}")).map(text);
        let (Some(loss), Some(delay)) = (value("good-loss"), value("good-delay")) else { continue };
        let r = value("good-r").map(|r| format!(", R of {r} or more")).unwrap_or_default();
        let criterion = format!("at most {loss} lost or late, mouth to ear at most {delay}{r}");
        notes.entry(pattern(flow)).or_insert(criterion);
    }
    notes.into_iter().map(|(flow, criterion)| format!("good calls of {flow}: {criterion}")).collect()
}

/// Returns a note on the units of links, if nodes made fragments.
fn fragments(point: &PointSummary) -> Option<String> {
    let mut totals = point.totals.iter().flat_map(FinalValues::iter);
    let made = |(subject, name, _, value): (&str, &str, &str, f64)| {
        name == "fragments"
            && matches!(Subject::of_name(subject), Some((Subject::Node(_), "")))
            && value > 0.0
    };
    let note = "links count fragments, each as a packet; flows and accounts count whole packets";
    totals.any(made).then(|| note.to_owned())
}

/// Returns the things of a kind that have a measure.
fn named<'a>(
    kind: SubjectKind,
    measure: &'static str,
    point: &'a PointSummary,
) -> impl Iterator<Item = &'a str> {
    let is_it = move |of: &MeasureName<'_>| of.kind == kind && of.measure == measure;
    point.measures.keys().filter_map(|name| MeasureName::of(name)).filter(is_it).map(|of| of.thing)
}

/// Returns the numbers of copies that never begin, which measures leave out.
fn copies_left_out(point: &PointSummary) -> Vec<String> {
    let groups = named(SubjectKind::Group, "of", point);
    let note = |group: &str| {
        let value = |what: &str| group_value(group, what, point);
        let [n, of] = [value("n")?, value("of")?];
        let text = |count: f64| quantity(count, None, "count");
        // Versions without these numbers had one cause.
        let known = value("after-end").zip(value("after-stop"));
        let (after_end, after_stop) = known.unwrap_or((of - n, 0.0));
        let causes = [(after_end, "after the end"), (after_stop, "after their stop")];
        let causes: Vec<String> = causes
            .iter()
            .filter(|(count, _)| *count > 0.0)
            .map(|(count, when)| format!("{} would start {when}", text(*count)))
            .collect();
        let mean = if point.seeds.len() > 1 { ", in the mean of the runs" } else { "" };
        let begun = of - after_end - after_stop;
        let note =
            || format!("{group}: {} of {} copies begin; {}{mean}", text(begun), text(of), causes.join(", "));
        (!causes.is_empty()).then(note)
    };
    groups.filter_map(note).collect()
}

/// Returns the means over the copies of a group of `count`.
///
/// Copies without a delivery have no delay, and others never time out: each measure is of those that have it.
fn of_group<'a>(
    (copies, count): (&str, f64),
    columns: &[(&'a str, &str)],
    point: &PointSummary,
) -> IndexMap<&'a str, Shown> {
    let group = group(copies);
    let mean = |measure: &str| {
        let averaged = point.measures.get(&format!("group.{group}.{measure}.mean"))?.clone();
        let n = group_value(&group, &format!("{measure}.n"), point).filter(|n| *n != count);
        let runs = runs_of(&averaged, point);
        Some(Shown { averaged, n, runs })
    };
    columns.iter().filter_map(|(measure, _)| Some((*measure, mean(measure)?))).collect()
}

fn rows(what: &str, columns: &[(&str, &str)], things: &Things<'_>) -> Option<Table> {
    let used = |(measure, _): &&(&str, &str)| things.values().any(|measures| measures.contains_key(measure));
    let columns: Vec<&(&str, &str)> = columns.iter().filter(used).collect();
    let cell = |shown: Option<&Shown>| Cell::Number(shown.map(Shown::text).unwrap_or_default());
    let row = |(thing, measures): (&String, &IndexMap<&str, Shown>)| {
        let cells = columns.iter().map(|(measure, _)| cell(measures.get(measure)));
        std::iter::once(Cell::Text(thing.clone())).chain(cells).collect()
    };
    let head =
        std::iter::once(what).chain(columns.iter().map(|(_, title)| *title)).map(String::from).collect();
    let rows: Vec<Vec<Cell>> = things.iter().map(row).collect();
    let has_cells = !rows.is_empty() && !columns.is_empty();
    has_cells.then_some(Table { caption: String::new(), head, rows })
}

/// Returns a mean with its interval.
pub(super) fn text(averaged: &Averaged) -> String {
    quantity(averaged.estimate.mean, averaged.estimate.ci95, &averaged.unit)
}

/// Returns the spread of each measure over the copies of each group.
pub fn group_table(point: &PointSummary) -> Option<Table> {
    let columns = [
        ("n", "copies"),
        ("of", "of"),
        ("after-end", "after the end"),
        ("after-stop", "after their stop"),
        ("mean", "mean"),
        ("sd", "standard deviation"),
        ("p5", "5 %"),
        ("p50", "median"),
        ("p95", "95 %"),
        ("sum", "sum"),
        ("jain", "fairness"),
    ];
    let mut table = table("group", SubjectKind::Group, &columns, point)?;
    table.caption = "Copies of a flow or link; fairness is Jain's index over them".into();
    Some(table)
}

/// Returns a mean of a comparison. The number of its runs is there if others have no value.
pub(super) fn compared(estimate: &Estimate, unit: &str, runs: usize) -> String {
    let fewer = (estimate.n < runs as u64).then_some((estimate.n, runs));
    format!("{}{}", quantity(estimate.mean, estimate.ci95, unit), of_runs(fewer))
}

/// Returns the measures of two variants side by side, with their difference over common seeds.
pub fn difference_table(differences: &[Difference]) -> Table {
    let row = |difference: &Difference| {
        let Difference { name, unit, first, second, paired, runs } = difference;
        let paired_text = paired.map(|paired| compared(&paired, unit, runs[0])).unwrap_or_default();
        // A share of what is shown as zero, such as the rounding of an equal delay, says nothing.
        let is_zero = !quantity(first.mean, None, unit).contains(|digit: char| ('1'..='9').contains(&digit));
        let share = paired.filter(|_| !is_zero).map(|paired| paired.mean / first.mean);
        let share = share.map(|share| quantity(share, None, "ratio")).unwrap_or_default();
        let cells = [compared(first, unit, runs[0]), compared(second, unit, runs[1]), paired_text, share];
        let mut row = vec![Cell::Text(name.clone())];
        row.extend(cells.map(Cell::Number));
        row.push(Cell::Text(if difference.is_clear() { "clear".to_owned() } else { String::new() }));
        row
    };
    let head = ["measure", "first", "second", "difference", "of first", ""].map(String::from).to_vec();
    Table { caption: String::new(), head, rows: differences.iter().map(row).collect() }
}

/// Returns all measures, those of copies only where they are few.
pub(super) fn measure_table(point: &PointSummary) -> Table {
    let mut copies: HashMap<String, usize> = HashMap::new();
    point.measures.keys().for_each(|name| *copies.entry(pattern(name)).or_default() += 1);
    let shown = point.measures.iter().filter(|(name, _)| copies[&pattern(name)] <= MAX_COPIES);
    let row = |(name, a): (&String, &Averaged)| vec![Cell::Text(name.clone()), Cell::Number(text(a))];
    let rows = shown.map(row).collect();
    let caption = interval(point).map(|text| format!("Here {text}.")).unwrap_or_default();
    Table { caption, head: vec!["measure".into(), "value".into()], rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(copies: usize) -> PointSummary {
        let averaged =
            |mean| Averaged { unit: "bit/s".into(), estimate: Estimate { n: 1, mean, ci95: None } };
        let mut measures: IndexMap<String, Averaged> =
            (1..=copies).map(|n| (format!("flow.a.{n}.goodput"), averaged(n as f64 * 1e6))).collect();
        measures.insert("flow.single.goodput".into(), averaged(5e6));
        measures.insert("group.a.goodput.mean".into(), averaged(7e6));
        measures.insert("group.a.goodput.jain".into(), averaged(0.9));
        PointSummary {
            settings: IndexMap::new(),
            seeds: vec![1],
            fingerprints: vec![String::new()],
            measures,
            totals: Vec::new(),
            ledger: Vec::new(),
            units: Vec::new(),
            flow_notes: IndexMap::new(),
            warm_up: bentpipe_units::Span::ZERO,
        }
    }

    fn first_column(table: Option<Table>) -> Vec<String> {
        table.expect("a table").rows.iter().map(|row| row[0].text().to_owned()).collect()
    }

    #[test]
    fn many_copies_are_one_row_and_few_have_their_own() {
        let many = point(13);
        assert_eq!(first_column(flow_table(&many)), ["a.*, mean of 13", "single"]);
        assert_eq!(first_column(all_flows_table(&many)).len(), 14);
        assert_eq!(first_column(flow_table(&point(2))), ["a.1", "a.2", "single"]);
        assert_eq!(first_column(group_table(&many)), ["a.goodput"]);
        assert_eq!(notes(&many), [""; 0]);
        assert_eq!(measure_table(&many).rows.len(), 3);
    }

    #[test]
    fn means_of_fewer_copies_than_the_row_name_their_number() {
        let mut point = point(13);
        for (name, mean) in [("goodput.n", 13.0), ("delay-mean.mean", 0.3), ("delay-mean.n", 5.0)] {
            let unit = if name.ends_with(".n") { "count" } else { "s" };
            let averaged = Averaged { unit: unit.into(), estimate: Estimate { n: 1, mean, ci95: None } };
            point.measures.insert(format!("group.a.{name}"), averaged);
        }
        point
            .measures
            .insert("flow.a.1.delay-mean".into(), point.measures["group.a.delay-mean.mean"].clone());
        let table = flow_table(&point).expect("a table");
        let cells: Vec<&str> = table.rows[0].iter().map(Cell::text).collect();
        assert_eq!(cells, ["a.*, mean of 13", "7.000\u{a0}Mbit/s", "300.0\u{a0}ms (of 5)"]);
    }

    #[test]
    fn a_mean_of_fewer_runs_says_of_how_many() {
        let mut point = point(0);
        point.seeds = vec![1, 2, 3, 4, 5];
        let estimate = Estimate { n: 2, mean: 0.3, ci95: None };
        point.measures.insert("flow.late.delay-mean".into(), Averaged { unit: "s".into(), estimate });
        let table = flow_table(&point).expect("a table");
        let cells: Vec<&str> = table.rows.iter().flatten().map(Cell::text).collect();
        assert!(cells.contains(&"300.0\u{a0}ms (2 of 5 runs)"), "{cells:?}");
    }

    #[test]
    fn a_difference_of_fewer_runs_says_of_how_many() {
        let estimate = |n, mean| Estimate { n, mean, ci95: None };
        let difference = |n, runs| Difference {
            name: "flow.a.completion".into(),
            unit: "s".into(),
            first: estimate(n, 0.3),
            second: estimate(2, 0.4),
            paired: None,
            runs,
        };
        let cells = |difference: Difference| -> Vec<String> {
            difference_table(&[difference]).rows[0].iter().map(|cell| cell.text().to_owned()).collect()
        };
        let fewer = cells(difference(1, [2, 2]));
        assert_eq!(fewer[1..3], ["300.0\u{a0}ms (1 of 2 runs)", "400.0\u{a0}ms"]);
        let all = cells(difference(1, [1, 5]));
        assert_eq!(all[1..3], ["300.0\u{a0}ms", "400.0\u{a0}ms (2 of 5 runs)"]);
    }

    #[test]
    fn copies_that_never_start_are_counted_apart() {
        let mut point = point(13);
        for (what, mean) in [("n", 13.0), ("of", 500.0)] {
            let estimate = Estimate { n: 1, mean, ci95: None };
            let counted = Averaged { unit: "count".into(), estimate };
            point.measures.insert(format!("group.a.{what}"), counted);
        }
        assert_eq!(first_column(flow_table(&point)), ["a.*, mean of 13 of 500", "single"]);
        assert_eq!(notes(&point), ["a: 13 of 500 copies begin; 487 would start after the end"]);
        let counted = |mean| Averaged { unit: "count".into(), estimate: Estimate { n: 1, mean, ci95: None } };
        point.measures.insert("group.a.after-end".into(), counted(480.0));
        point.measures.insert("group.a.after-stop".into(), counted(5.0));
        let note = "a: 15 of 500 copies begin; 480 would start after the end, 5 would start after their stop";
        assert_eq!(notes(&point), [note], "two begin and have no value");
        let table = group_table(&point).expect("a table");
        let cells = |row: usize| table.rows[row][..3].iter().map(Cell::text).collect::<Vec<_>>();
        assert_eq!((cells(0), cells(1)), (vec!["a.goodput", "", ""], vec!["a", "13", "500"]));
    }

    #[test]
    fn what_a_channel_loses_is_in_the_row_of_its_link() {
        let mut point = point(0);
        let mean = |mean| Averaged { unit: "packets".into(), estimate: Estimate { n: 1, mean, ci95: None } };
        for (measure, packets) in [("dropped", 3.0), ("channel-lost", 50.0)] {
            point.measures.insert(format!("link.sat.forward.{measure}"), mean(packets));
        }
        let table = link_table(&point).expect("a table");
        assert_eq!(table.head, ["link", "dropped", "lost in the channel"]);
        for (damaged, columns) in [(0.0, 3), (7.0, 4)] {
            point.measures.insert("link.sat.forward.channel-damaged".to_owned(), mean(damaged));
            assert_eq!(link_table(&point).expect("a table").head.len(), columns);
        }
        assert_eq!(
            table.rows[0].iter().map(Cell::text).collect::<Vec<_>>(),
            ["sat.forward", "3\u{a0}packets", "50\u{a0}packets"]
        );
    }

    #[test]
    fn good_calls_have_their_criterion_in_a_note() {
        let mut point = point(0);
        for (measure, unit, mean) in
            [("good-loss", "ratio", 0.05), ("good-delay", "s", 0.4), ("good-r", "count", 60.0)]
        {
            for call in ["call.1", "call.2", "call.2.back"] {
                let averaged = Averaged { unit: unit.into(), estimate: Estimate { n: 1, mean, ci95: None } };
                point.measures.insert(format!("flow.{call}.{measure}"), averaged);
            }
        }
        let notes = notes(&point).join("\n").replace('\u{a0}', " ");
        assert!(notes.starts_with("good calls of call.*: at most 5.000 % lost or late"), "{notes}");
        assert!(notes.ends_with("R of 60 or more"), "{notes}");
    }

    #[test]
    fn ends_of_channels_that_carried_nothing_have_no_row() {
        let mut point = point(0);
        let mean = |mean| Averaged { unit: "cells".into(), estimate: Estimate { n: 1, mean, ci95: None } };
        for (end, cells) in [("a.x", 5.0), ("a.y", 0.0)] {
            point.measures.insert(format!("vc.{end}.cells-sent"), mean(cells));
            point.measures.insert(format!("vc.{end}.cells-received"), mean(0.0));
        }
        let table = end_table(&point).expect("a table");
        assert_eq!(
            (&table.head[..], table.rows.len()),
            (&["channel.end", "cells sent", "received"].map(String::from)[..], 1)
        );
    }
}
