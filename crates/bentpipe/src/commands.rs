//! What each command does.

mod emulate;
mod reproduce;
mod run;

use std::path::Path;

use bentpipe_lab::budget::Budget;
use bentpipe_lab::catalogue;
use bentpipe_lab::run::Failure as RunFailure;
use bentpipe_lab::scenario::Document;
use clap::CommandFactory;

use crate::arguments::{Arguments, Command};
use crate::interrupt::INTERRUPTED;
use crate::{channel, gateway, rohc, rtp, show, ts, video};

/// Why a command ended without a result.
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
        Command::Emulate(arguments) => emulate::emulate(&arguments),
        Command::Shell { host, emulation, command } => emulate::shell(&host, emulation, &command),
        Command::Set { assignments, emulation } => emulate::set(&assignments, emulation),
        Command::Check { scenario, set } => check(&scenario, &set),
        Command::Reproduce(arguments) => reproduce::reproduce(&arguments),
        Command::Rohc(command) => Ok(rohc::run(&command)),
        Command::Channel(command) => print(&channel::run(&command).map_err(Failure::bad)?),
        Command::Ts(command) => Ok(ts::run(&command)),
        Command::Rtp(command) => rtp::run(&command).map_err(Failure::bad),
        Command::Video(command) => Ok(video::run(&command)),
        Command::Gateway(arguments) => gateway::run(&arguments).map_err(Failure::bad),
        Command::List => print(&catalogue::list(Path::new(".")).to_string()),
        Command::Describe { name } => describe(&name),
        Command::Schema => schema(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "bentpipe", &mut std::io::stdout());
            Ok(0)
        }
    }
}

fn print(text: &str) -> Result<u8, Failure> {
    show::out(text.trim_end());
    show::out("\n");
    Ok(0)
}

/// A scenario file with its overrides.
fn document(path: &Path, set: &[String]) -> Result<Document, Failure> {
    let mut document = Document::read(path).map_err(Failure::bad)?;
    set.iter().try_for_each(|assignment| document.set(assignment)).map_err(Failure::bad)?;
    Ok(document)
}

fn check(path: &Path, set: &[String]) -> Result<u8, Failure> {
    let document = document(path, set)?;
    let scenario = document.scenario().map_err(Failure::bad)?;
    let budget = Budget::new(&scenario);
    let budget = budget.map_err(|problem| Failure::bad(document.refusal(&problem.key, problem.problem)))?;
    print(&budget.to_string())
}

fn describe(name: &str) -> Result<u8, Failure> {
    let found = catalogue::describe(name).map_err(Failure::bad)?;
    print(&found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

fn schema() -> Result<u8, Failure> {
    print(&serde_json::to_string_pretty(catalogue::schema()).map_err(Failure::bad)?)
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
