//! The page of a run or sweep.

use std::fs;
use std::io::BufReader;

use indexmap::IndexMap;

use super::axis::Axis;
use super::numbers::{number, quantity};
use super::page::{Block, Cell, Page, Table};
use super::plot::{Curve, Plot};
use super::{plan, swept, timed};
use crate::budget::Budget;
use crate::plan::{Plan, Point, VERSION};
use crate::record::read_plan;
use crate::run::{Averaged, CarrierPoint, PointSummary, RealTime, Request, Results};

/// Tables of ATM lines and channels with more rows than this are folded away.
const MAX_ROWS: usize = 12;

/// The most measures of one kind that a diagram of a sweep shows: those that reach highest.
const MAX_SHOWN: usize = 8;

/// Of more points than this not all are shown over time.
const MAX_TIMED: usize = 12;

/// What sweeps are plotted of, in this order: what a measure's name ends with, and what it is called.
const SWEPT: [(&str, &str); 13] = [
    ("goodput", "Goodput"),
    ("retransmitted", "Retransmitted segments"),
    ("loss", "Loss"),
    ("rtt", "Mean round-trip time"),
    ("delay-mean", "Mean one-way delay"),
    ("utilisation", "Link utilisation"),
    ("queue-mean-bytes", "Mean queue"),
    ("drop-ratio", "Share dropped"),
    ("vbr-queue-max", "Longest VBR queue"),
    ("abr-queue-max", "Longest ABR queue"),
    ("ubr-queue-max", "Longest UBR queue"),
    ("cell-loss-ratio", "Cell loss ratio"),
    ("wrong-crc", "PDUs of wrong CRC"),
];

/// The page: a summary with confidence intervals, plots, the scenario, its budget, and how to get the same again.
pub fn results_page(results: &Results, request: &Request<'_>) -> Page {
    let plan = request.plan;
    let scenario = &plan.points[0].scenario;
    let mut blocks: Vec<Block> = real_time_of(results).map(real_time_block).into_iter().collect();
    blocks.push(Block::Heading("Summary".into()));
    match &results.summary.points[..] {
        [point] => {
            blocks.extend([flow_table(point), link_table(point)].into_iter().flatten().map(Block::Table));
            blocks.extend(
                [("ATM lines", line_table(point)), ("Ends of virtual channels", end_table(point))]
                    .into_iter()
                    .filter_map(|(title, table)| Some(long(title, table?))),
            );
            blocks.extend(timed_blocks(results, plan));
        }
        points => {
            blocks.push(Block::Plots(swept_plots(plan, points)));
            blocks.push(Block::Folded("All points".into(), vec![Block::Table(point_table(points))]));
            blocks.push(Block::Heading("Over time".into()));
            blocks.extend(timed_blocks(results, plan));
        }
    }
    blocks.push(Block::Heading("How".into()));
    blocks.extend(how(results, request));
    let facts = facts(results, plan);
    // Lines of the file are no lines of the page.
    let lead = scenario.description.split_whitespace().collect::<Vec<_>>().join(" ");
    Page { title: scenario.title.clone(), lead, facts, blocks }
}

/// What real time did, if the run was an emulation.
fn real_time_of(results: &Results) -> Option<&RealTime> {
    results.runs.first()?.timing.real_time.as_ref()
}

/// How late packets were, and what else a reader of an emulation has to know.
fn real_time_block(real_time: &RealTime) -> Block {
    Block::Verbatim(format!("emulated in real time, with real hosts\n{real_time}").trim_end().to_owned())
}

fn facts(results: &Results, plan: &Plan) -> Vec<(String, String)> {
    let scenario = &plan.points[0].scenario;
    let events: u64 = results.runs.iter().map(|run| run.outcome.events()).sum();
    let wall_s: f64 = results.runs.iter().map(|run| run.timing.wall_s).sum();
    let seeds = &plan.points[0].seeds;
    let seed = match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(only), _) => only.to_string(),
        _ => String::new(),
    };
    let mut facts = vec![
        (
            if real_time_of(results).is_some() { "time" } else { "simulated time" },
            scenario.duration.to_string(),
        ),
        ("seed", seed),
    ];
    if plan.points.len() > 1 {
        facts.push(("points", plan.points.len().to_string()));
    }
    match &results.runs[..] {
        [run] => facts.push(("fingerprint", run.outcome.fingerprint.clone())),
        runs => facts.push(("runs", runs.len().to_string())),
    }
    facts.push(("events", quantity(events as f64, None, "count")));
    if wall_s > 0.0 {
        facts.push(("events a second", number(events as f64 / wall_s)));
        facts.push(("computing time", quantity(wall_s, None, "s")));
    }
    facts.push(("version", VERSION.to_owned()));
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn how_repeatable(results: &Results) -> &'static str {
    match real_time_of(results) {
        None => "The same command with the same file and version gives the same numbers, to the byte:",
        Some(_) => "Real programs and real time give other numbers each time. The command was:",
    }
}

fn how(results: &Results, request: &Request<'_>) -> Vec<Block> {
    let command = request.command.join(" ");
    let command =
        if command.is_empty() { format!("bentpipe run {}", request.document.name()) } else { command };
    let mut blocks = vec![
        Block::Paragraph(how_repeatable(results).into()),
        Block::Verbatim(command),
        Block::Folded("Scenario".into(), vec![Block::Verbatim(request.document.text().to_owned())]),
    ];
    let scenario = &request.plan.points[0].scenario;
    if let Ok(budget) = Budget::new(scenario) {
        blocks.push(Block::Folded("Budget".into(), vec![Block::Verbatim(budget.to_string())]));
    }
    if let [point] = &results.summary.points[..] {
        blocks.push(Block::Folded("All measures".into(), vec![Block::Table(measure_table(point))]));
    }
    blocks.push(Block::Folded(
        "Fingerprints".into(),
        vec![Block::Table(fingerprint_table(results, request.plan))],
    ));
    blocks
}

fn fingerprint_table(results: &Results, plan: &Plan) -> Table {
    let row = |run: &crate::run::RunResult| {
        let label = plan.points[run.point].label();
        vec![
            Cell::Text(if label.is_empty() { "\u{2013}".to_owned() } else { label }),
            Cell::Number(run.outcome.seed.to_string()),
            Cell::Text(run.outcome.fingerprint.clone()),
            Cell::Number(quantity(run.outcome.events() as f64, None, "count")),
            Cell::Text(run.outcome.interval.to_string()),
        ]
    };
    let head = ["point", "seed", "fingerprint", "events", "sampled every"].map(String::from).to_vec();
    Table { caption: String::new(), head, rows: results.runs.iter().map(row).collect() }
}

/// What each flow achieved; none without flows.
pub fn flow_table(point: &PointSummary) -> Option<Table> {
    let columns = [
        ("goodput", "goodput"),
        ("retransmitted", "retransmitted"),
        ("timeouts", "timeouts"),
        ("loss", "loss"),
        ("rtt", "mean RTT"),
        ("delay-mean", "mean delay"),
        ("delay-p95", "delay, 95 %"),
        ("ts-loss", "TS packets lost"),
        ("pictures-lost", "pictures lost"),
        ("psnr", "PSNR"),
        ("pcr-jitter", "PCR jitter"),
    ];
    table("flow", "flow.", &columns, point)
}

/// What each direction of each link carried; none without links.
pub fn link_table(point: &PointSummary) -> Option<Table> {
    let columns = [
        ("utilisation", "utilisation"),
        ("rate", "IP rate"),
        ("queue-mean-bytes", "mean queue"),
        ("queue-max-bytes", "longest queue"),
        ("dropped", "dropped"),
    ];
    table("link", "link.", &columns, point)
}

/// What each direction of each ATM line carried.
fn line_table(point: &PointSummary) -> Option<Table> {
    let columns = [
        ("utilisation", "utilisation"),
        ("rate", "cell rate"),
        ("cbr-queue-max", "longest CBR queue"),
        ("vbr-queue-max", "longest VBR queue"),
        ("abr-queue-mean", "mean ABR queue"),
        ("abr-queue-max", "longest ABR queue"),
        ("ubr-queue-mean", "mean UBR queue"),
        ("ubr-queue-max", "longest UBR queue"),
        ("dropped", "dropped"),
        ("cells-lost", "lost on it"),
        ("cells-damaged", "damaged"),
        ("cells-misinserted", "misinserted"),
    ];
    table("line", "line.", &columns, point)
}

/// What each end of each virtual channel sent and received.
fn end_table(point: &PointSummary) -> Option<Table> {
    let columns = [
        ("cells-sent", "sent"),
        ("pdus-sent", "PDUs sent"),
        ("pdus-received", "received"),
        ("wrong-length", "wrong length"),
        ("wrong-crc", "wrong CRC"),
        ("refused", "refused"),
        ("acr-mean", "mean ACR"),
        ("queue-mean", "mean queue"),
        ("queue-max", "longest queue"),
        ("lost", "lost"),
        ("receive-queue-mean", "mean queue for the host"),
        ("receive-queue-max", "longest"),
        ("receive-lost", "lost there"),
        ("rm-destination-sent", "RM cells made"),
    ];
    table("channel.end", "vc.", &columns, point)
}

/// A table, folded away if it is long.
fn long(title: &str, table: Table) -> Block {
    if table.rows.len() <= MAX_ROWS {
        return Block::Table(table);
    }
    Block::Folded(title.to_owned(), vec![Block::Table(table)])
}

/// A row for each thing whose measures begin with `prefix`, with those of `columns` that any of them has.
fn table(what: &str, prefix: &str, columns: &[(&str, &str)], point: &PointSummary) -> Option<Table> {
    let mut things: IndexMap<&str, IndexMap<&str, &Averaged>> = IndexMap::new();
    for (name, averaged) in &point.measures {
        if let Some((thing, measure)) = name.strip_prefix(prefix).and_then(|rest| rest.rsplit_once('.')) {
            things.entry(thing).or_default().insert(measure, averaged);
        }
    }
    let used = |(measure, _): &&(&str, &str)| things.values().any(|measures| measures.contains_key(measure));
    let columns: Vec<&(&str, &str)> = columns.iter().filter(used).collect();
    let cell = |averaged: Option<&&Averaged>| {
        let text = averaged.map(|a| quantity(a.estimate.mean, a.estimate.ci95, &a.unit));
        Cell::Number(text.unwrap_or_default())
    };
    let row = |(thing, measures): (&&str, &IndexMap<&str, &Averaged>)| {
        let cells = columns.iter().map(|(measure, _)| cell(measures.get(measure)));
        std::iter::once(Cell::Text((*thing).to_owned())).chain(cells).collect()
    };
    let head =
        std::iter::once(what).chain(columns.iter().map(|(_, title)| *title)).map(String::from).collect();
    let rows: Vec<Vec<Cell>> = things.iter().map(row).collect();
    (!rows.is_empty()).then_some(Table { caption: String::new(), head, rows })
}

fn measure_table(point: &PointSummary) -> Table {
    let row = |(name, a): (&String, &Averaged)| {
        vec![Cell::Text(name.clone()), Cell::Number(quantity(a.estimate.mean, a.estimate.ci95, &a.unit))]
    };
    let rows = point.measures.iter().map(row).collect();
    Table { caption: String::new(), head: vec!["measure".into(), "value".into()], rows }
}

/// A row for each point: its settings, and the goodput of its flows.
fn point_table(points: &[PointSummary]) -> Table {
    let settings: Vec<&String> =
        points.first().map(|point| point.settings.keys().collect()).unwrap_or_default();
    let measures: Vec<&String> = points
        .first()
        .map(|point| point.measures.keys().filter(|name| name.ends_with(".goodput")).take(8).collect())
        .unwrap_or_default();
    let row = |point: &PointSummary| {
        let set = point.settings.values().map(|value| Cell::Text(value.clone()));
        let value =
            |name: &&String| point.value(name).map(|a| quantity(a.estimate.mean, a.estimate.ci95, &a.unit));
        let values = measures.iter().map(|name| Cell::Number(value(name).unwrap_or_default()));
        set.chain(values).collect()
    };
    let short = |name: &&String| name.strip_prefix("flow.").unwrap_or(name).replace(".goodput", ": goodput");
    let head = settings.iter().map(|key| (*key).clone()).chain(measures.iter().map(short)).collect();
    Table { caption: String::new(), head, rows: points.iter().map(row).collect() }
}

/// For each point the diagrams over time of its first seed; folded away if there are several points.
fn timed_blocks(results: &Results, plan: &Plan) -> Vec<Block> {
    let several = plan.points.len() > 1;
    let step = plan.points.len().div_ceil(MAX_TIMED);
    let block = |point: &Point| {
        let seed = *point.seeds.first()?;
        let series = results.folder.series(point, seed).ok()?;
        let mut plots = timed::plots(&series);
        plots.extend(plan_plots(results, point, seed));
        let plots = Block::Plots(plots);
        Some(if several { Block::Folded(point.label(), vec![plots]) } else { plots })
    };
    plan.points.iter().step_by(step.max(1)).filter_map(block).collect()
}

/// The burst time plans of a run's carriers.
fn plan_plots(results: &Results, point: &Point, seed: u64) -> Vec<Plot> {
    let folder = results.folder.of_run(point, seed);
    let plots = |name: &String| {
        let file = fs::File::open(folder.join(CarrierPoint::file(name))).ok()?;
        Some(plan::plots(name, &read_plan(BufReader::new(file))))
    };
    point.scenario.carrier.keys().filter_map(plots).flatten().collect()
}

/// For each measure a diagram against the axis with the most values; a curve for each flow or link, and for each
/// combination of the other axes.
fn swept_plots(plan: &Plan, points: &[PointSummary]) -> Vec<Plot> {
    let Some(axis) = longest_axis(plan) else { return Vec::new() };
    SWEPT.iter().filter_map(|(measure, title)| swept_plot(plan, points, axis, measure, title)).collect()
}

/// The axis with the most values.
fn longest_axis(plan: &Plan) -> Option<usize> {
    let values = |axis: usize| {
        let mut values: Vec<&str> = plan.points.iter().filter_map(|point| setting(point, axis)).collect();
        values.sort_unstable();
        values.dedup();
        values.len()
    };
    (0..plan.axes.len()).rev().max_by_key(|axis| values(*axis))
}

/// The value that an axis sets at a point; of several keys in step the first.
fn setting(point: &Point, axis: usize) -> Option<&str> {
    point.settings.iter().find(|setting| setting.axis == axis).map(|setting| &setting.value[..])
}

fn swept_plot(plan: &Plan, points: &[PointSummary], axis: usize, measure: &str, title: &str) -> Option<Plot> {
    let label =
        plan.points[0].settings.iter().find(|setting| setting.axis == axis)?.short_key().replace('_', " ");
    let values: Vec<&str> = plan.points.iter().filter_map(|point| setting(point, axis)).collect();
    let (x, places) = swept::axis(&label, &values);
    let mut groups: IndexMap<String, Vec<usize>> = IndexMap::new();
    for (number, point) in plan.points.iter().enumerate() {
        groups.entry(others(point, axis)).or_default().push(number);
    }
    let ending = format!(".{measure}");
    let names: Vec<&String> = points[0].measures.keys().filter(|name| name.ends_with(&ending)).collect();
    let mut shown: Vec<&String> = names.iter().copied().filter(|name| matters(name, points)).collect();
    if shown.len() > MAX_SHOWN {
        shown.sort_by(|a, b| most(b, points).total_cmp(&most(a, points)));
        shown.truncate(MAX_SHOWN);
    }
    let mut curves: Vec<Curve> = Vec::new();
    for name in &shown {
        for (group, numbers) in &groups {
            let places: Vec<f64> = numbers.iter().map(|n| places[*n]).collect();
            let of_group: Vec<&PointSummary> = numbers.iter().map(|n| &points[*n]).collect();
            let called = called(name, &ending, shown.len() > 1, group);
            curves.push(swept::curve(called, curves.len(), &places, &of_group, name));
        }
    }
    let unit = points.iter().find_map(|point| Some(point.value(shown.first()?)?.unit.clone()))?;
    let (label, unit) = if unit == "ratio" { ("share", "") } else { (measure, &unit[..]) };
    let mut plot = Plot::new(title, x, Axis::new(label.replace("-mean", "").replace("-bytes", ""), unit));
    plot.curves = curves;
    Some(swept::spread(plot)).filter(|plot| !plot.is_empty())
}

/// Whether a measure is above zero anywhere.
fn matters(name: &str, points: &[PointSummary]) -> bool {
    most(name, points) > 0.0
}

/// The greatest value of a measure.
fn most(name: &str, points: &[PointSummary]) -> f64 {
    let values = points.iter().filter_map(|point| point.value(name));
    values.map(|averaged| averaged.estimate.mean).fold(0.0, f64::max)
}

/// What the other axes set, in a line.
fn others(point: &Point, axis: usize) -> String {
    let others = point.settings.iter().filter(|setting| setting.axis != axis);
    others.map(|s| format!("{} {}", s.short_key(), s.value)).collect::<Vec<_>>().join(", ")
}

/// What a curve's legend says: whose measure it is, if there are several, and the group.
fn called(name: &str, ending: &str, several: bool, group: &str) -> String {
    let thing = name.strip_suffix(ending).unwrap_or(name);
    let thing =
        ["flow.", "link.", "line.", "vc."].iter().find_map(|of| thing.strip_prefix(of)).unwrap_or(thing);
    match (several || group.is_empty(), group.is_empty()) {
        (true, true) => thing.to_owned(),
        (true, false) => format!("{thing}, {group}"),
        (false, _) => group.to_owned(),
    }
}
