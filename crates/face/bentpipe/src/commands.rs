//! Implementation of the commands.

mod run;
mod search;
#[cfg(feature = "tools")]
mod tools;

use std::path::Path;

use bentpipe_lab::budget::Budget;
use bentpipe_lab::run::Failure as RunFailure;
use bentpipe_lab::run::Manifest;
use bentpipe_record::compare::{Comparison, Variant, difference_frame};
use bentpipe_record::{Catalogue, Form, Outcome, Selection, Summary};
use bentpipe_report::{comparison_page, difference_table};
use bentpipe_scenario::Document;
use bentpipe_scenario::catalogue;
use schemars::schema_for;

use crate::arguments::{Arguments, CaptureArguments, Command, SchemaOf};
use crate::common::Inputs;
use crate::interrupt::INTERRUPTED;
use crate::{results, show};

/// Error returned when a command ends without a result.
pub(crate) struct Failure {
    pub(crate) text: String,
    pub(crate) code: u8,
}

/// Bad input, or something that went wrong.
const BAD: u8 = 2;

impl Failure {
    fn bad(problem: impl std::fmt::Display) -> Failure {
        Failure { text: problem.to_string(), code: BAD }
    }
}

impl From<RunFailure> for Failure {
    fn from(failure: RunFailure) -> Failure {
        match failure {
            RunFailure::Interrupted { .. } => {
                let text = format!("{failure}; the same command goes on from there");
                Failure { text, code: INTERRUPTED }
            }
            other => Failure::bad(other),
        }
    }
}

/// Does what was asked; the exit code.
pub(crate) fn run(arguments: Arguments) -> Result<u8, Failure> {
    match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        #[cfg(feature = "tools")]
        Command::RealTime(command) => tools::in_real_time(&command),
        Command::Check { scenario, set, files, captures } => check(&scenario, &files, (&set[..], &captures)),
        Command::Compare { first, second, measure, format, page } => {
            compare((&first, &second), measure.as_deref().unwrap_or_default(), format, page.as_deref())
        }
        Command::Series { results, select, wide, constant, out } => {
            let selection = Selection { patterns: select, keeps_constant: constant };
            series(&results, &selection, if wide { Form::Wide } else { Form::Long }, out.as_deref())
        }
        Command::Results(command) => results::run(&command).map_err(Failure::bad),
        Command::Search(arguments) => search::run(&arguments),
        #[cfg(feature = "tools")]
        Command::Tool(command) => tools::run(&command),
        #[cfg(feature = "serve")]
        Command::Serve(arguments) => crate::serve::run(arguments).map_err(Failure::bad),
        #[cfg(feature = "serve")]
        Command::Remote(arguments) => crate::remote::run(&arguments).map_err(Failure::bad),
        #[cfg(feature = "serve")]
        Command::Site(arguments) => crate::site::run(arguments).map_err(Failure::bad),
        Command::List => print(&bentpipe_paths::list(Path::new(".")).to_string()),
        Command::Describe { name } => describe(&name),
        Command::Schema { of } => schema(of),
        #[cfg(feature = "tools")]
        Command::Packaging(command) => tools::package(command),
    }
}

fn print(text: &str) -> Result<u8, Failure> {
    show::out(text.trim_end());
    show::out("\n");
    Ok(0)
}

/// A scenario file with its overrides.
fn document(path: &Path, files: &Inputs, set: &[String]) -> Result<Document, Failure> {
    let mut document = files.read(path).map_err(Failure::bad)?;
    set.iter().try_for_each(|assignment| document.set(assignment)).map_err(Failure::bad)?;
    Ok(document)
}

fn compare(
    (first, second): (&str, &str),
    text: &str,
    format: results::Format,
    page: Option<&Path>,
) -> Result<u8, Failure> {
    let (first, second) =
        (Variant::read(first).map_err(Failure::bad)?, Variant::read(second).map_err(Failure::bad)?);
    let comparison = Comparison::of(&first, &second).about(text).map_err(Failure::bad)?;
    let common = first.runs.keys().filter(|seed| second.runs.contains_key(*seed)).count();
    let is_text = format == results::Format::Text;
    if is_text {
        show::out(&format!("first: {}\nsecond: {}\ncommon seeds: {common}\n\n", first.name(), second.name()));
    }
    match format {
        results::Format::Csv => {
            show::write(None, |mut out| difference_frame(&comparison.differences).write_csv(&mut out))
                .map_err(Failure::bad)?
        }
        _ => show::out(&format.of(&difference_table(&comparison.differences))),
    }
    let notes = [comparison.note(), comparison.alone(), comparison.intervals(), comparison.common_seeds()];
    notes.iter().flatten().for_each(|note| show::note(note));
    if let Some(path) = page {
        comparison_page(&first, &second, &comparison).write(path).map_err(Failure::bad)?;
        if is_text {
            show::out(&format!("\npage: {}\n", path.display()));
        }
    }
    Ok(0)
}

/// Writes the selected series of a folder of results.
fn series(results: &Path, selection: &Selection, form: Form, out: Option<&Path>) -> Result<u8, Failure> {
    let selected = selection.read(results).map_err(Failure::bad)?;
    show::write(out, |mut file| selected.write_csv(form, &mut file)).map_err(Failure::bad)?;
    Ok(0)
}

fn check(
    path: &Path,
    files: &Inputs,
    (set, captures): (&[String], &CaptureArguments),
) -> Result<u8, Failure> {
    files.enforce().map_err(Failure::bad)?;
    let mut document = document(path, files, set)?;
    run::add_captures(&mut document, captures)?;
    let checked = bentpipe_lab::check::check(&document).map_err(Failure::bad)?;
    let budget = Budget::with_files(&checked.first, Some(document.access()));
    let mut budget =
        budget.map_err(|problem| Failure::bad(document.refusal(&problem.key, problem.problem)))?;
    budget.captures = budget.captures.into_iter().map(|file| file.within(captures.limits())).collect();
    document.notes().iter().for_each(|note| crate::show::note(note));
    checked.coverage().iter().for_each(|note| crate::show::note(note));
    print(&budget.to_string())
}

fn describe(name: &str) -> Result<u8, Failure> {
    let found = catalogue::describe(name).map_err(Failure::bad)?;
    print(&found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn schema(of: SchemaOf) -> Result<u8, Failure> {
    let schema = match of {
        SchemaOf::Scenario => catalogue::schema().clone(),
        SchemaOf::Summary => schema_for!(Summary).to_value(),
        SchemaOf::Outcome => schema_for!(Outcome).to_value(),
        SchemaOf::Manifest => schema_for!(Manifest<'static>).to_value(),
        SchemaOf::Metrics => schema_for!(Catalogue).to_value(),
    };
    print(&serde_json::to_string_pretty(&schema).map_err(Failure::bad)?)
}

/// The command line as it was given, for manifests and reports.
fn command_line() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(first) = words.first_mut() {
        "bentpipe".clone_into(first);
    }
    words.into_iter().map(|word| quoted(&word)).collect()
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
