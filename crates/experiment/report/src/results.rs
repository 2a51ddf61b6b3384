//! The page of a run or sweep.

use bentpipe_record::{Cell, FirstPackets, Table};
use bentpipe_record::{EventRow, Point, PointSummary, RealTime, ResultSet, RunResult, VERSION};
use bentpipe_units::Span;
use indexmap::IndexMap;

use super::accounts::{account_table, drop_table, unit_table};
use super::axis::Axis;
use super::captures::capture_table;
use super::numbers::{number, quantity};
use super::page::{Block, Format, Page, Picture};
use super::plot::{Curve, Mark, Plot};
use super::tables::{
    all_flows_table, end_table, flow_table, group_table, line_table, link_table, measure_table, notes,
};
use super::{amount, cdf, plan, points, seeds, swept, timed};

/// Tables of ATM lines and channels with more rows than this are folded away.
const MAX_ROWS: usize = 12;

/// Number of plots before the tables: one row.
const FIRST_PLOTS: usize = 2;

/// Maximum number of measures of one kind in a sweep plot. Those with the largest values are kept.
const MAX_SHOWN: usize = 8;

/// Note where all seeds give the same run.
const NO_EFFECT: &str = "none: the runs of all seeds are the same, as nothing that happened was random";

/// Maximum number of sequence diagrams.
const MAX_SEQUENCES: usize = 8;

/// Maximum number of points all shown over time.
const MAX_TIMED: usize = 12;

/// Returns the page: summary with confidence intervals, plots, scenario, budget, and command to reproduce it.
pub fn results_page(results: &ResultSet<'_>) -> Page {
    let mut blocks = vec![Block::Network(results.network.clone())];
    blocks.extend(results.contact_plans.iter().cloned().map(Block::Contacts));
    blocks.extend(results.real_time().map(real_time_block));
    blocks.push(Block::Heading("Summary".into()));
    match results.summaries() {
        [point] => {
            let mut rest = timed_blocks(results);
            blocks.extend(first_plots(&mut rest));
            blocks.extend(
                flow_table(point).map(|table| with_meaning(table, point)).map(|table| long("Flows", table)),
            );
            blocks.extend(drop_table(results).map(|table| long("Packets dropped", table)));
            blocks.extend(link_table(point).map(|table| long("Links", table)));
            blocks.extend(rest);
            blocks.extend(sequences(results));
            blocks.extend(pictures(results));
            blocks.extend(folded_tables(point));
            let accounts = account_table(point);
            blocks.extend(
                accounts.map(|table| Block::Folded("Accounts of packets".into(), vec![Block::Table(table)])),
            );
            let units = unit_table(point);
            blocks.extend(
                units.map(|table| Block::Folded("Accounts of units".into(), vec![Block::Table(table)])),
            );
        }
        points => {
            blocks.push(Block::Plots(swept_plots(results)));
            blocks.push(Block::Folded("All points".into(), vec![Block::Table(points::chosen(points))]));
            blocks.extend(points::all(points));
            let dropped = drop_table(results);
            blocks.extend(
                dropped.map(|table| Block::Folded("Packets dropped".into(), vec![Block::Table(table)])),
            );
            blocks.extend(seeds::differences(results));
            let timed = timed_blocks(results);
            if !timed.is_empty() {
                blocks.push(Block::Heading("Each point".into()));
                blocks.extend(timed_part(results.points.len()).map(Block::Paragraph));
            }
            blocks.extend(timed);
        }
    }
    blocks.push(Block::Heading("How".into()));
    blocks.extend(how(results));
    // Lines of the file are not lines of the page.
    let lead = results.description.split_whitespace().collect::<Vec<_>>().join(" ");
    Page { title: results.title.to_owned(), lead, facts: facts(results), blocks }
}

/// Returns the sequence diagrams of flows whose packets were recorded, but the first one folded.
fn sequences(results: &ResultSet<'_>) -> Vec<Block> {
    let flows = results.points.first().map(Point::first_packets).unwrap_or_default();
    let diagram = |(n, flow): (usize, FirstPackets)| {
        let title = format!("First packets of {}", flow.flow.name);
        let block = Block::Sequence(flow);
        if n == 0 { block } else { Block::Folded(title, vec![block]) }
    };
    flows.into_iter().take(MAX_SEQUENCES).enumerate().map(diagram).collect()
}

/// Returns the pictures that the run left, such as frames of cells. All but the first one are folded.
fn pictures(results: &ResultSet<'_>) -> Vec<Block> {
    let all = results.points.first().map(Point::pictures).unwrap_or_default();
    let block = |(n, (name, file)): (usize, (String, Vec<u8>))| {
        let title = match (name.strip_prefix("cell-"), name.strip_suffix("-field")) {
            (Some(cell), _) => format!("Frames of cell {cell}"),
            (_, Some(flow)) => format!("Field of {flow}"),
            (None, None) => name.clone(),
        };
        let note = format!("{name}.svg in the folder of the run");
        let block = Block::Picture(Picture { title: title.clone(), note, format: Format::Svg, file });
        if n == 0 { block } else { Block::Folded(title, vec![block]) }
    };
    all.into_iter().enumerate().map(block).collect()
}

/// Returns the first plots and leaves the others.
fn first_plots(blocks: &mut [Block]) -> Option<Block> {
    let Some(Block::Plots(plots)) = blocks.first_mut() else { return None };
    let first = plots.drain(..plots.len().min(FIRST_PLOTS)).collect();
    Some(Block::Plots(first))
}

/// Says what a flow's goodput is over, and which copies are left out.
fn with_meaning(table: Table, point: &PointSummary) -> Table {
    let caption = "Goodput is what arrived for the first time behind the warm-up, over the time from the flow's start to the end of \
                   the run. Of a flow whose data had all been delivered, that ends with its completion; of one that stopped, with its \
                   stop or its last arrival, the later.";
    let meaning = table.head.iter().any(|title| title == "goodput").then(|| caption.to_owned());
    let caption = meaning.into_iter().chain(notes(point).into_iter().map(|note| format!("{note}.")));
    Table { caption: caption.collect::<Vec<_>>().join(" "), ..table }
}

/// Returns the tables that are long, or of interest to some.
fn folded_tables(point: &PointSummary) -> Vec<Block> {
    let flows = all_flows_table(point).filter(|table| table.rows.len() > MAX_ROWS);
    let tables = [
        ("Groups of copies", group_table(point)),
        ("All flows", flows),
        ("ATM lines", line_table(point)),
        ("Ends of virtual channels", end_table(point)),
    ];
    tables.into_iter().filter_map(|(title, table)| Some(long(title, table?))).collect()
}

/// Returns the lateness of packets and other facts of an emulation.
fn real_time_block(real_time: &RealTime) -> Block {
    Block::Verbatim(format!("emulated in real time, with real hosts\n{real_time}").trim_end().to_owned())
}

fn facts(results: &ResultSet<'_>) -> Vec<(String, String)> {
    let events: u64 = results.runs.iter().map(|run| run.outcome.events()).sum();
    let wall_s: f64 = results.runs.iter().map(|run| run.timing.wall_s).sum();
    let seeds = results.points.first().map_or(&[][..], |point| point.seeds);
    let seed = match (seeds.first(), seeds.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(only), _) => only.to_string(),
        _ => String::new(),
    };
    let mut facts = vec![
        (if results.real_time().is_some() { "time" } else { "simulated time" }, results.duration.to_string()),
        ("seed", seed),
    ];
    if results.points.len() > 1 {
        facts.push(("points", results.points.len().to_string()));
    }
    match results.runs {
        [run] => facts.push(("fingerprint", run.outcome.fingerprint.clone())),
        runs => facts.push(("runs", runs.len().to_string())),
    }
    facts.push(("events", quantity(events as f64, None, "count")));
    if wall_s > 0.0 {
        facts.push(("events a second", number(events as f64 / wall_s)));
        facts.push(("computing time", quantity(wall_s, None, "s")));
    }
    if results.summary.is_seed_without_effect() {
        facts.push(("intervals", NO_EFFECT.to_owned()));
    }
    facts.push(("version", VERSION.to_owned()));
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn how_repeatable(results: &ResultSet<'_>) -> &'static str {
    match results.real_time() {
        None => "The same command with the same file and version gives the same numbers, to the byte:",
        Some(_) => "Real programs and real time give other numbers each time. The command was:",
    }
}

fn how(results: &ResultSet<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::Paragraph(how_repeatable(results).into()),
        Block::Verbatim(results.command.clone()),
        Block::Folded("Scenario".into(), vec![Block::Verbatim(results.scenario.to_owned())]),
    ];
    if let Some(events) = event_table(results) {
        blocks.push(Block::Folded("Events".into(), vec![Block::Table(events)]));
    }
    if let Some(captures) = capture_table(results) {
        blocks.push(Block::Folded("Captures".into(), vec![Block::Table(captures)]));
    }
    if let Some(budget) = &results.budget {
        blocks.push(Block::Folded("Budget".into(), vec![Block::Verbatim(budget.clone())]));
    }
    if let [point] = results.summaries() {
        blocks.push(Block::Folded("All measures".into(), vec![Block::Table(measure_table(point))]));
    }
    blocks.push(Block::Folded("Fingerprints".into(), vec![Block::Table(fingerprint_table(results))]));
    blocks
}

fn fingerprint_table(results: &ResultSet<'_>) -> Table {
    let row = |run: &RunResult| {
        let label = &results.points[run.point].label;
        vec![
            Cell::Text(if label.is_empty() { "\u{2013}".to_owned() } else { label.clone() }),
            Cell::Number(run.outcome.seed.to_string()),
            Cell::Text(run.outcome.fingerprint.clone()),
            Cell::Number(quantity(run.outcome.events() as f64, None, "count")),
            Cell::Text(match run.outcome.interval {
                Span::ZERO => "\u{2013}".to_owned(),
                interval => interval.to_string(),
            }),
        ]
    };
    let head = ["point", "seed", "fingerprint", "events", "sampled every"].map(String::from).to_vec();
    Table { caption: String::new(), head, rows: results.runs.iter().map(row).collect() }
}

/// A table, folded away if it is long.
fn long(title: &str, table: Table) -> Block {
    if table.rows.len() <= MAX_ROWS {
        return Block::Table(table);
    }
    Block::Folded(title.to_owned(), vec![Block::Table(table)])
}

/// Returns a note on points that are not shown over time.
fn timed_part(points: usize) -> Option<String> {
    let step = points.div_ceil(MAX_TIMED).max(1);
    let shown = points.div_ceil(step);
    (shown < points).then(|| {
        format!("Shown: {shown} of {points} points, evenly spaced; bentpipe series has the samples of all.")
    })
}

/// Returns the time plots of each point's first seed, collapsed if there are several points.
fn timed_blocks(results: &ResultSet<'_>) -> Vec<Block> {
    let several = results.points.len() > 1;
    let step = results.points.len().div_ceil(MAX_TIMED);
    let block = |(number, point): (usize, &Point<'_>)| {
        // A campaign keeps no series.
        let series = point.series(timed::is_drawn).ok();
        let summary = results.summaries().get(number)?;
        let mut plots = series.as_ref().map_or_else(Vec::new, timed::plots);
        plots.extend(series.as_ref().and_then(|series| seeds::fairness(summary, series)));
        plots.iter_mut().for_each(|plot| plot.curves.extend(event_lines(point)));
        let of_point = results.runs.iter().filter(|run| run.point == number).map(|run| &run.outcome);
        plots.extend(cdf::plot(of_point.clone()));
        plots.extend(point.plans().flat_map(|(carrier, bursts)| plan::plots(carrier, &bursts)));
        let mut blocks = if plots.is_empty() { Vec::new() } else { vec![Block::Plots(plots)] };
        let spread = seeds::spread(point, results.points.len().min(MAX_TIMED));
        if !spread.is_empty() {
            blocks.push(Block::Folded("Over time, over the seeds".into(), vec![Block::Plots(spread)]));
        }
        blocks.extend(seeds::convergence(summary, &of_point.collect::<Vec<_>>()));
        let is_folded = several && !blocks.is_empty();
        Some(if is_folded { vec![Block::Folded(point.label.clone(), blocks)] } else { blocks })
    };
    results.points.iter().enumerate().step_by(step.max(1)).filter_map(block).flatten().collect()
}

/// Returns the times of events as vertical lines.
fn event_lines(point: &Point<'_>) -> Option<Curve> {
    let points: Vec<(f64, f64)> = point.event_times_s.iter().map(|at| (*at, f64::NAN)).collect();
    let curve = Curve { name: "events".into(), points, mark: Mark::Instants, colour: 6, ..Curve::default() };
    (!curve.points.is_empty()).then_some(curve)
}

/// Returns the events of the first point.
fn event_table(results: &ResultSet<'_>) -> Option<Table> {
    let events = &results.points.first()?.events;
    let shown = |(key, value): &(String, String)| format!("{key} = {value}");
    let row = |event: &EventRow| {
        let changes: Vec<String> = event.changes.iter().map(shown).collect();
        vec![Cell::Text(format!("{} s", event.at_s)), Cell::Text(changes.join(", "))]
    };
    let head = vec!["time".to_owned(), "change".to_owned()];
    let table = Table { caption: String::new(), head, rows: events.iter().map(row).collect() };
    (!events.is_empty()).then_some(table)
}

/// Returns a plot of each measure against the axis with the most values. Each flow or link, and each combination of
/// other axes, has a curve.
fn swept_plots(results: &ResultSet<'_>) -> Vec<Plot> {
    let Some(axis) = longest_axis(results) else { return Vec::new() };
    swept::SWEPT.iter().filter_map(|(measure, title)| swept_plot(results, axis, measure, title)).collect()
}

/// Returns the axis of numbers with the most values, or else that of words.
fn longest_axis(results: &ResultSet<'_>) -> Option<usize> {
    let values = |axis: usize| {
        let mut values: Vec<&str> = results.points.iter().filter_map(|point| setting(point, axis)).collect();
        values.sort_unstable();
        values.dedup();
        let are_numbers = values.len() > 1 && values.iter().all(|value| amount::number(value).is_some());
        (are_numbers, values.len())
    };
    (0..results.axes.len()).rev().max_by_key(|axis| values(*axis))
}

/// Returns the value of an axis at a point; of several keys the first.
fn setting<'a>(point: &Point<'a>, axis: usize) -> Option<&'a str> {
    point.settings.iter().find(|setting| setting.axis == axis).map(|setting| &setting.value[..])
}

fn swept_plot(results: &ResultSet<'_>, axis: usize, measure: &str, title: &str) -> Option<Plot> {
    let points = results.summaries();
    let label =
        results.points[0].settings.iter().find(|setting| setting.axis == axis)?.short_key().replace('_', " ");
    let values: Vec<&str> = results.points.iter().filter_map(|point| setting(point, axis)).collect();
    let (x, places) = swept::axis(&label, &values);
    let mut groups: IndexMap<String, Vec<usize>> = IndexMap::new();
    for (number, point) in results.points.iter().enumerate() {
        groups.entry(others(point, axis)).or_default().push(number);
    }
    let ending = format!(".{measure}");
    let names: Vec<&String> = points[0].measures.keys().filter(|name| name.ends_with(&ending)).collect();
    let mut shown: Vec<&String> = names.iter().copied().filter(|name| matters(name, points)).collect();
    let all = shown.len();
    if all > MAX_SHOWN {
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
    let axis = if unit == "ratio" { Axis::share("share") } else { Axis::new(timed::label(title), unit) };
    let mut plot = Plot::new(title, x, axis);
    plot.curves = curves;
    if all > MAX_SHOWN {
        plot.note = format!("Shown: the {MAX_SHOWN} largest of {all}; summary.csv has all.");
    }
    Some(swept::spread(plot)).filter(|plot| !plot.is_empty())
}

/// Returns `true` if a measure is above zero at any point.
fn matters(name: &str, points: &[PointSummary]) -> bool {
    most(name, points) > 0.0
}

/// The greatest value of a measure.
fn most(name: &str, points: &[PointSummary]) -> f64 {
    let values = points.iter().filter_map(|point| point.value(name));
    values.map(|averaged| averaged.estimate.mean).fold(0.0, f64::max)
}

/// Returns the settings of the other axes on one line.
fn others(point: &Point<'_>, axis: usize) -> String {
    let others = point.settings.iter().filter(|setting| setting.axis != axis);
    others.map(|s| format!("{} {}", s.short_key(), s.value)).collect::<Vec<_>>().join(", ")
}

/// Returns the legend of a curve: subject, if there are several, and group.
fn called(name: &str, ending: &str, several: bool, group: &str) -> String {
    let thing = timed::without_kind(name.strip_suffix(ending).unwrap_or(name));
    match (several || group.is_empty(), group.is_empty()) {
        (true, true) => thing.to_owned(),
        (true, false) => format!("{thing}, {group}"),
        (false, _) => group.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::timed_part;

    #[test]
    fn points_that_are_not_shown_are_counted() {
        assert_eq!(timed_part(12), None);
        let note = timed_part(15).expect("a note");
        assert!(note.starts_with("Shown: 8 of 15 points"), "{note}");
    }
}
