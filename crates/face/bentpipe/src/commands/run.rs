//! `bentpipe run`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bentpipe_lab::budget::file_notes;
use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::run::{self, Assembled, ExpectedCaptures, Folder, Request, Results};
use bentpipe_record::{LedgerText, PointSummary};
use bentpipe_report::{flow_notes, flow_table, interval, link_table, notes, results_page};
use bentpipe_scenario::{Document, Scenario};

use super::{Failure, command_line, document};
use crate::arguments::{CaptureArguments, RunArguments};
use crate::monitor::Terminal;
use crate::progress::Journal;
use crate::{build, show};

/// Maximum number of points that are printed; the report shows all.
const MAX_POINTS_SHOWN: usize = 40;

pub(super) fn run(arguments: &RunArguments) -> Result<u8, Failure> {
    arguments.files.enforce().map_err(Failure::bad)?;
    let Some(path) = &arguments.progress else { return run_with(arguments, |_| ()).map(|_| 0) };
    let wrong = |error| Failure::bad(format!("{}: {error}", path.display()));
    let journal = Journal::append(path, arguments.live.as_deref()).map_err(wrong)?;
    let ended = run_with(arguments, |terminal| terminal.write_to(journal.clone()));
    match &ended {
        Ok(folder) => journal.end(0, folder.file_name().and_then(|name| name.to_str())),
        Err(failure) => {
            show::error(&failure.text);
            journal.end(failure.code, None);
            return Ok(failure.code);
        }
    }
    Ok(0)
}

/// Runs a scenario and returns the folder of its results. `set_up` is called with the monitor before the first run.
fn run_with(arguments: &RunArguments, set_up: impl FnOnce(&mut Terminal)) -> Result<PathBuf, Failure> {
    let mut document = document(&arguments.scenario, &arguments.files, &arguments.changes.set)?;
    add_captures(&mut document, &arguments.captures)?;
    record_packets(&mut document, &arguments.packets)?;
    let seeds = Seeds { first: arguments.changes.seed, count: arguments.changes.seeds };
    let plan = Plan::new(&document, seeds).map_err(Failure::bad)?;
    let name = arguments.scenario.file_stem().unwrap_or_default().to_string_lossy();
    let (build, command) = (build::identity(), command_line());
    let request = Request {
        document: &document,
        plan: &plan,
        folder: Folder::new(&arguments.common.out, &name, &plan).with_csv(arguments.csv),
        jobs: arguments.common.jobs.into(),
        force: arguments.common.force,
        captures: arguments.captures.limits(),
        build: &build,
        commit: build::COMMIT,
        command: &command,
    };
    let assembled = Assembled::unfinished(&request).map_err(Failure::bad)?;
    if !arguments.common.quiet {
        ExpectedCaptures::new(&request).iter().for_each(|expected| show::note(&expected.to_string()));
    }
    let mut monitor = Terminal::new(arguments.common.quiet);
    set_up(&mut monitor);
    let prepare = |point: &_, seed| assembled.prepare(point, seed);
    let results = run::execute(&request, &prepare, &monitor);
    monitor.clear();
    let results = results?;
    let page = results.folder.path().join("report.html");
    results_page(&results.with_texts(&request)).write(&page).map_err(Failure::bad)?;
    if !arguments.common.quiet {
        show::out(&shown(&results));
        let late = request.plan.points.first().and_then(|point| late_events(&point.scenario));
        show::out(&noted(late));
        let files = request.plan.points.first().map(|point| file_notes(&point.scenario, document.access()));
        show::out(&noted(files.unwrap_or_default()));
    }
    show::out(&format!("report: {}\n", page.display()));
    Ok(results.folder.path().to_owned())
}

/// Returns a note on events that lie behind the end of the run.
fn late_events(scenario: &Scenario) -> Option<String> {
    let (all, end) = (scenario.event.len(), scenario.duration);
    let late = scenario.event.iter().filter(|event| event.instants(end).all(|at| at >= end)).count();
    (late > 0).then(|| {
        format!("{late} of {all} events are at the end of the run or behind it: they change nothing")
    })
}

/// Adds the flows of `--packets` to those whose packets the scenario records.
fn record_packets(document: &mut Document, flows: &[String]) -> Result<(), Failure> {
    if flows.is_empty() {
        return Ok(());
    }
    let mut all = document.scenario().map_err(Failure::bad)?.probe.packets;
    all.extend(flows.iter().filter(|flow| !all.contains(flow)).cloned().collect::<Vec<_>>());
    let option = format!("--packets {}", flows.join(" --packets "));
    document.set_by(&option, &format!("probe.packets={}", serde_json::json!(all))).map_err(Failure::bad)
}

/// Adds what `--pcap` asks for to what the scenario captures.
///
/// # Errors
/// Returns an error if a point does not exist, or a ring is asked for and nothing is captured.
pub(super) fn add_captures(document: &mut Document, captures: &CaptureArguments) -> Result<(), Failure> {
    let points = &captures.pcap;
    if points.is_empty() && captures.capture_ring.is_none() {
        return Ok(());
    }
    let mut all = document.scenario().map_err(Failure::bad)?.probe.capture;
    if points.is_empty() {
        let nothing = "--capture-ring: nothing is captured; help: name a point by `--pcap NODE:LINK`";
        return if all.is_empty() { Err(Failure::bad(nothing)) } else { Ok(()) };
    }
    all.extend(points.iter().filter(|point| !all.contains(point)).cloned().collect::<Vec<_>>());
    let list: Vec<String> =
        all.iter().map(|point| serde_json::Value::from(point.as_str()).to_string()).collect();
    let option = format!("--pcap {}", points.join(" --pcap "));
    document.set_by(&option, &format!("probe.capture=[{}]", list.join(", "))).map_err(Failure::bad)
}

/// Returns the text printed at the end.
fn shown(results: &Results) -> String {
    let summary = &results.summary;
    let mut text = format!("{}\n\n", summary.title);
    match &summary.points[..] {
        [point] => text.push_str(&tables(point)),
        points => {
            for point in points.iter().take(MAX_POINTS_SHOWN) {
                let settings: Vec<String> =
                    point.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                text.push_str(&format!("{}\n", settings.join(", ")));
                text.push_str(&flow_table(point).map(|table| show::table(&table)).unwrap_or_default());
                text.push_str(&noted(flow_notes(point)));
                text.push_str(&show::lost(point));
            }
            let intervals: BTreeSet<String> = points.iter().filter_map(interval).collect();
            text.push_str(&noted(intervals));
            let more = points.len().saturating_sub(MAX_POINTS_SHOWN);
            if more > 0 {
                text.push_str(&format!("and {more} points more, in the report\n"));
            }
        }
    }
    text.push('\n');
    text.push_str(&fingerprints(results));
    text
}

fn tables(point: &PointSummary) -> String {
    let tables = [flow_table(point), link_table(point)];
    let tables = tables.into_iter().flatten().map(|table| show::table(&table)).collect::<Vec<_>>().join("\n");
    tables + &noted(notes(point))
}

/// Returns a line for each note on what the tables do not cover.
fn noted(notes: impl IntoIterator<Item = String>) -> String {
    notes.into_iter().map(|note| format!("note: {note}\n")).collect()
}

fn fingerprints(results: &Results) -> String {
    let reused = results.runs.iter().filter(|run| run.reused).count();
    let again = if reused > 0 { format!(" ({reused} finished before)") } else { String::new() };
    match (&results.runs[..], &results.summary.points[..]) {
        ([run], [point]) => {
            let accounts = LedgerText { rows: &point.ledger, runs: 1, has_warm_up: !point.warm_up.is_zero() };
            let units = show::lost_units(point);
            format!("{accounts}{units}fingerprint: {}{again}\n", run.outcome.fingerprint)
        }
        (runs, points) => {
            // Of a sweep they are with each point.
            let lost = if let [point] = points { show::lost(point) } else { String::new() };
            format!("{lost}runs: {}{again}\n", runs.len()) + no_effect(results)
        }
    }
}

fn no_effect(results: &Results) -> &'static str {
    if results.summary.is_seed_without_effect() {
        "note: the runs of all seeds are the same: nothing that happened was random\n"
    } else {
        ""
    }
}
