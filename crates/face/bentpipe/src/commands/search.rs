//! `bentpipe search`.

use std::path::{Path, PathBuf};

use bentpipe_lab::plan::{Plan, Points, Seeds};
use bentpipe_lab::run::{self, Assembled, Folder, Monitor, Request, Results};
use bentpipe_lab::search::{self, Checked, Condition};
use bentpipe_record::{Cell, PointSummary, Table, write_json};
use bentpipe_report::{Block, quantity, results_page};
use bentpipe_scenario::Document;
use serde_json::{Value, json};

use super::{Failure, command_line, document};
use crate::arguments::SearchArguments;
use crate::monitor::Terminal;
use crate::progress::Journal;
use crate::{build, show};

/// Exit code where no value is found.
const NONE: u8 = 1;

pub(super) fn run(arguments: &SearchArguments) -> Result<u8, Failure> {
    arguments.files.enforce().map_err(Failure::bad)?;
    let Some(path) = &arguments.progress else {
        return search(arguments, |_, _| Ok(())).map(|(code, _)| code);
    };
    let wrong = |error| Failure::bad(format!("{}: {error}", path.display()));
    let journal = Journal::append(path, arguments.live.as_deref()).map_err(wrong)?;
    let set_up = |terminal: &mut Terminal, most_runs| {
        journal.expect(most_runs);
        terminal.write_to(journal.clone());
        Ok(())
    };
    let (code, folder) = search(arguments, set_up).unwrap_or_else(|failure| {
        show::error(&failure.text);
        (failure.code, PathBuf::new())
    });
    journal.end(code, folder.file_name().and_then(|name| name.to_str()));
    Ok(code)
}

/// Searches, and returns the exit code and the folder of the results.
///
/// `set_up` is called before the first run, with the greatest number of runs.
fn search(
    arguments: &SearchArguments,
    set_up: impl FnOnce(&mut Terminal, usize) -> Result<(), Failure>,
) -> Result<(u8, PathBuf), Failure> {
    let document = document(&arguments.scenario, &arguments.files, &arguments.changes.set)?;
    let conditions: Vec<Condition> = arguments
        .conditions
        .iter()
        .map(|text| text.parse())
        .collect::<Result<_, _>>()
        .map_err(Failure::bad)?;
    let swept = search::swept(&document, &arguments.over).map_err(Failure::bad)?;
    let seeds = Seeds { first: arguments.changes.seed, count: arguments.changes.seeds };
    let mut points = Points::new(&swept, seeds);
    let first = points.at(0).map_err(Failure::bad)?;
    let mut monitor = Terminal::new(arguments.common.quiet);
    set_up(&mut monitor, search::most_tries(points.len()) * first.seeds.len())?;
    let name = arguments.scenario.file_stem().unwrap_or_default().to_string_lossy();
    let folder = Folder::of_search(&arguments.common.out, &name, first.search_hash(&arguments.over));
    let mut searching = Searching {
        arguments,
        document: &swept,
        conditions,
        folder,
        monitor,
        tried: Plan::partial(&swept),
        trials: Vec::new(),
    };
    let count = points.len();
    let found = search::last(count, |value| searching.holds(&mut points, value));
    let found = found.map_err(|failure| searching.keep(failure))?;
    let last = searching.trials.iter().find(|trial| trial.value + 1 == found).map(|trial| &trial.set[..]);
    let results = searching.write(last, &conclusion(last, found == count))?;
    Ok((if found == 0 { NONE } else { 0 }, results))
}

/// A value of the key that was run.
struct Trial {
    /// Place among the values.
    value: usize,
    /// Key and value: `flow.call.count=12`.
    set: String,
    checked: Vec<Checked>,
}

impl Trial {
    fn holds(&self) -> bool {
        self.checked.iter().all(|checked| checked.holds)
    }
}

/// Search with what it has tried, in the order of the values.
struct Searching<'a> {
    arguments: &'a SearchArguments,
    /// The scenario with a sweep over all values.
    document: &'a Document,
    conditions: Vec<Condition>,
    folder: Folder,
    monitor: Terminal,
    tried: Plan,
    trials: Vec<Trial>,
}

impl Searching<'_> {
    /// Runs the scenario with a value. Returns `true` if the conditions hold.
    fn holds(&mut self, points: &mut Points<'_>, value: usize) -> Result<bool, Failure> {
        let point = points.at(value).map_err(Failure::bad)?;
        let settings = point.settings.iter().map(|setting| format!("{}={}", setting.key, setting.value));
        let set = settings.collect::<Vec<_>>().join(" ");
        self.tried.inputs.extend(points.inputs().clone());
        let alone = Plan { points: vec![point.clone()], ..self.tried.clone() };
        let results = self.execute(&alone, self.arguments.common.force, &self.monitor);
        self.monitor.clear();
        let measures = results?.summary.points.remove(0);
        let place = self.tried.points.partition_point(|other| other.index < value);
        self.tried.points.insert(place, point);
        let trial = Trial { value, set, checked: self.check(&measures)? };
        let holds = trial.holds();
        self.trials.insert(place, trial);
        Ok(holds)
    }

    fn check(&self, point: &PointSummary) -> Result<Vec<Checked>, Failure> {
        let checked = self.conditions.iter().map(|condition| condition.check(point));
        checked.collect::<Result<_, _>>().map_err(Failure::bad)
    }

    fn execute(&self, plan: &Plan, force: bool, monitor: &dyn Monitor) -> Result<Results, Failure> {
        let (build, command) = (build::identity(), command_line());
        let request = self.request(plan, force, (&build, &command));
        let assembled = Assembled::unfinished(&request).map_err(Failure::bad)?;
        let prepare = |point: &_, seed| assembled.prepare(point, seed);
        Ok(run::execute(&request, &prepare, monitor)?)
    }

    fn request<'a>(
        &'a self,
        plan: &'a Plan,
        force: bool,
        (build, command): (&'a str, &'a [String]),
    ) -> Request<'a> {
        Request {
            document: self.document,
            plan,
            folder: self.folder.clone(),
            jobs: self.arguments.common.jobs.into(),
            force,
            captures: usize::MAX.into(),
            build,
            commit: build::COMMIT,
            command,
        }
    }

    /// Keeps the results of the values that were run before a failure, such as Ctrl-C.
    ///
    /// Returns the failure.
    fn keep(&self, failure: Failure) -> Failure {
        if !self.trials.is_empty() {
            let said = "not finished: the values that were run; the same command goes on";
            drop(self.write(None, said));
        }
        failure
    }

    /// Writes the results of all values that were run, prints them, and returns their folder.
    fn write(&self, last: Option<&str>, said: &str) -> Result<PathBuf, Failure> {
        // Their runs are finished, so that this only gathers them.
        let results = self.execute(&self.tried, false, &Silent)?;
        let (build, command) = (build::identity(), command_line());
        let request = self.request(&self.tried, false, (&build, &command));
        let mut page = results_page(&results.with_texts(&request));
        let summary = page.blocks.iter().position(|block| *block == Block::Heading("Summary".into()));
        let verdict =
            [Block::Heading("Search".into()), Block::Paragraph(said.to_owned()), Block::Table(self.table())];
        let at = summary.unwrap_or_default();
        page.blocks.splice(at..at, verdict);
        let folder = results.folder.path();
        let wrong = |path: &Path, error| Failure::bad(format!("{}: {error}", path.display()));
        let (file, path) = (folder.join("search.json"), folder.join("report.html"));
        write_json(&file, &self.to_json(last)).map_err(|error| wrong(&file, error))?;
        page.write(&path).map_err(Failure::bad)?;
        if !self.arguments.common.quiet {
            show::out(&show::table(&self.table()));
        }
        show::out(&format!("\n{said}\nreport: {}\n", path.display()));
        Ok(folder.to_owned())
    }

    /// Returns the values that were run, with the worst measure of each condition.
    fn table(&self) -> Table {
        let row = |trial: &Trial| {
            let cell = |checked: &Checked| {
                let estimate = checked.worst.estimate;
                let text = quantity(estimate.mean, estimate.ci95, &checked.worst.unit);
                if checked.holds { Cell::Good(text) } else { Cell::Bad(text) }
            };
            let verdict = if trial.holds() { "holds" } else { "fails" };
            let value = Cell::Text(trial.set.clone());
            let cells = trial.checked.iter().map(cell);
            std::iter::once(value).chain(cells).chain([Cell::Text(verdict.to_owned())]).collect()
        };
        let conditions = self.conditions.iter().map(ToString::to_string);
        let head = std::iter::once("value".to_owned()).chain(conditions).chain(["all".to_owned()]);
        Table { caption: String::new(), head: head.collect(), rows: self.trials.iter().map(row).collect() }
    }

    fn to_json(&self, last: Option<&str>) -> Value {
        let of = |trial: &Trial| {
            let conditions = self.conditions.iter().zip(&trial.checked);
            let conditions: Vec<Value> = conditions
                .map(|(condition, checked)| {
                    let estimate = checked.worst.estimate;
                    json!({
                        "condition": condition.to_string(), "holds": checked.holds, "mean": estimate.mean,
                        "ci95": estimate.ci95, "n": estimate.n, "unit": checked.worst.unit,
                    })
                })
                .collect();
            json!({ "value": trial.set, "holds": trial.holds(), "conditions": conditions })
        };
        let trials: Vec<Value> = self.trials.iter().map(of).collect();
        json!({ "over": self.arguments.over, "last": last, "trials": trials })
    }
}

/// Monitor of what takes no time.
struct Silent;

impl Monitor for Silent {}

/// Returns the sentence about the last value that holds.
fn conclusion(last: Option<&str>, is_end: bool) -> String {
    match last {
        None => "none: the conditions fail at the first value".to_owned(),
        Some(last) if is_end => format!("last: {last}, the end of the range"),
        Some(last) => format!("last: {last}"),
    }
}
