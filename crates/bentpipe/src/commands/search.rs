//! `bentpipe search`.

use bentpipe_lab::plan::{Plan, Seeds};
use bentpipe_lab::run::{self, Assembled, Folder, Request};
use bentpipe_lab::search::{self, Checked, Condition};
use bentpipe_record::{Cell, PointSummary, Table};
use bentpipe_report::{quantity, results_page};
use bentpipe_scenario::Document;

use super::{Failure, command_line, document};
use crate::arguments::SearchArguments;
use crate::monitor::Terminal;
use crate::{build, show};

/// Exit code where no value is found.
const NONE: u8 = 1;

/// A value of the key that was run.
struct Trial {
    value: usize,
    checked: Vec<Checked>,
}

impl Trial {
    fn holds(&self) -> bool {
        self.checked.iter().all(|checked| checked.holds)
    }
}

pub(super) fn run(arguments: &SearchArguments) -> Result<u8, Failure> {
    let document = document(&arguments.scenario, &arguments.changes.set)?;
    let conditions: Vec<Condition> = arguments
        .conditions
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()
        .map_err(Failure::bad)?;
    let values = search::values(&document, &arguments.over).map_err(Failure::bad)?;
    let mut trials: Vec<Trial> = Vec::new();
    let found = search::last(values.len(), |value| -> Result<bool, Failure> {
        let point = run_point(arguments, &document, &values[value])?;
        let checked = conditions.iter().map(|condition| condition.check(&point)).collect::<Result<_, _>>();
        let trial = Trial { value, checked: checked.map_err(Failure::bad)? };
        let holds = trial.holds();
        trials.push(trial);
        Ok(holds)
    })?;
    trials.sort_by_key(|trial| trial.value);
    show::out(&show::table(&table(&conditions, &values, &trials)));
    show::out(&conclusion(&values, found));
    Ok(if found == 0 { NONE } else { 0 })
}

/// Runs the scenario with one value, and returns its measures.
fn run_point(arguments: &SearchArguments, document: &Document, set: &str) -> Result<PointSummary, Failure> {
    let mut document = document.clone();
    document.set(set).map_err(Failure::bad)?;
    let seeds = Seeds { first: arguments.changes.seed, count: arguments.changes.seeds };
    let plan = Plan::new(&document, seeds).map_err(Failure::bad)?;
    let name = arguments.scenario.file_stem().unwrap_or_default().to_string_lossy();
    let (build, command) = (build::identity(), command_line());
    let request = Request {
        document: &document,
        plan: &plan,
        folder: Folder::new(&arguments.common.out, &name, &plan),
        jobs: arguments.common.jobs.into(),
        force: arguments.common.force,
        captures: usize::MAX.into(),
        build: &build,
        commit: build::COMMIT,
        command: &command,
    };
    let assembled = Assembled::unfinished(&request).map_err(Failure::bad)?;
    let monitor = Terminal::new(arguments.common.quiet);
    let prepare = |point: &_, seed| assembled.prepare(point, seed);
    let results = run::execute(&request, &prepare, &monitor);
    monitor.clear();
    let mut results = results?;
    let page = results.folder.path().join("report.html");
    results_page(&results.with_texts(&request)).write(&page).map_err(Failure::bad)?;
    Ok(results.summary.points.remove(0))
}

/// Returns the values that were run, with the worst measure of each condition.
fn table(conditions: &[Condition], values: &[String], trials: &[Trial]) -> Table {
    let row = |trial: &Trial| {
        let cell = |checked: &Checked| {
            let estimate = checked.worst.estimate;
            let text = quantity(estimate.mean, estimate.ci95, &checked.worst.unit);
            if checked.holds { Cell::Good(text) } else { Cell::Bad(text) }
        };
        let verdict = if trial.holds() { "holds" } else { "fails" };
        let value = Cell::Text(values[trial.value].clone());
        let cells = trial.checked.iter().map(cell);
        std::iter::once(value).chain(cells).chain([Cell::Text(verdict.to_owned())]).collect()
    };
    let conditions = conditions.iter().map(ToString::to_string);
    let head = std::iter::once("value".to_owned()).chain(conditions).chain(["all".to_owned()]).collect();
    Table { caption: String::new(), head, rows: trials.iter().map(row).collect() }
}

/// Returns the sentence about the value that was found.
fn conclusion(values: &[String], found: usize) -> String {
    match found {
        0 => "\nnone: the conditions fail at the first value\n".to_owned(),
        found if found == values.len() => format!("\nlast: {}, the end of the range\n", values[found - 1]),
        found => format!("\nlast: {}\n", values[found - 1]),
    }
}
