//! `bentpipe emulate`, `shell` and `set`: scenarios in real time.

use std::io::{ErrorKind, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use bentpipe_emu::{SetupError, terminal_size};
use bentpipe_emulation::{
    Console, Display, Emulation, Error, Pace, ProgramSettings, Report, Samples, control, namespace_of,
    prepare_attachments,
};

use crate::arguments::tools::{EmulateArguments, PaceName, SetArguments};
use crate::commands::run::add_captures;
use crate::commands::tools::survivor::Survivor;
use crate::commands::{Failure, command_line, document};
use crate::progress::Journal;
use crate::{build, interrupt, show};

/// Standard output and error.
pub(super) struct Streams;

impl Console for Streams {
    fn note(&self, text: &str) {
        show::note(text);
    }

    fn print(&self, text: &str) {
        show::out(text);
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Run(failure) => failure.into(),
            other => Failure::bad(other),
        }
    }
}

/// Size assumed for a terminal that reports none.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Returns the display of a live view on standard error.
pub(super) fn display() -> Display {
    let size = || terminal_size(std::io::stderr().as_fd()).unwrap_or(DEFAULT_SIZE);
    let is_terminal = std::io::stderr().is_terminal();
    Display {
        output: Box::new(std::io::stderr()),
        terminal_size: is_terminal.then(|| Box::new(size) as Box<dyn Fn() -> (usize, usize) + Send>),
    }
}

/// Emulates a scenario, and returns the exit code of the command that ran in it.
pub(super) fn emulate(arguments: &EmulateArguments) -> Result<u8, Failure> {
    if arguments.files.confine {
        return Err(Failure::bad(
            "--confine: an emulation makes namespaces, which a confined process cannot",
        ));
    }
    let Some(path) = &arguments.progress else {
        return emulate_with(arguments, None).map(|report| code(&report));
    };
    let wrong = |error| Failure::bad(format!("{}: {error}", path.display()));
    let journal = Journal::append(path, arguments.live.as_deref()).map_err(wrong)?;
    journal.begin(1, 0);
    match emulate_with(arguments, Some(samples(journal.clone()))) {
        Ok(report) => {
            let folder = report.page.parent().and_then(|folder| folder.file_name()?.to_str());
            journal.end(code(&report), folder);
            Ok(code(&report))
        }
        Err(failure) => {
            show::error(&failure.text);
            journal.end(failure.code, None);
            Ok(failure.code)
        }
    }
}

fn code(report: &Report) -> u8 {
    report.exit_code.unwrap_or(0)
}

/// Returns the receiver that writes samples and progress to a journal.
fn samples(journal: Journal) -> Samples {
    let mut gone = 0.0;
    Box::new(move |series, share| {
        // The run keeps to real time.
        let now_s = series.times.last().map_or(0.0, |time| time.as_secs_f64());
        journal.advance(share - gone, now_s);
        gone = share;
        journal.sampled("emulation", series, now_s);
    })
}

/// Emulates a scenario, and returns its report.
fn emulate_with(arguments: &EmulateArguments, samples: Option<Samples>) -> Result<Report, Failure> {
    let mut document = document(&arguments.scenario, &arguments.files, &arguments.set)?;
    add_captures(&mut document, &arguments.captures)?;
    prepare_attachments(&mut document, &arguments.attach)?;
    let (build, command) = (build::identity(), command_line());
    let programs = arguments.programs();
    // A program that prints on the same terminal would be drawn over.
    let shares_terminal = !programs.is_empty() && std::io::stdout().is_terminal();
    let emulation = Emulation {
        document: &document,
        seed: arguments.seed,
        attachments: &arguments.attach,
        programs,
        runs_flows: arguments.real_flows,
        pace: match arguments.pace {
            PaceName::Precise => Pace::Precise,
            PaceName::LowPower => Pace::LowPower,
        },
        is_timed: arguments.timed,
        max_lateness: arguments.max_lateness,
        out: &arguments.out,
        name: &arguments.scenario.file_stem().unwrap_or_default().to_string_lossy(),
        captures: arguments.captures.limits(),
        build: &build,
        commit: build::COMMIT,
        command: &command,
        stop: interrupt::flag(),
        console: &Streams,
        prometheus: arguments.prometheus,
        join: arguments.join.join(),
        display: (!arguments.quiet && !shares_terminal).then(display),
        samples,
    };
    let survivor = Survivor::start();
    let report = emulation.run();
    drop(survivor);
    let report = report?;
    if let Some(real_time) = &report.real_time {
        show::out(&real_time.to_string());
        // The output of a job leads nowhere.
        let failed = real_time.notices.iter().filter(|notice| notice.starts_with("the capture "));
        failed.for_each(|notice| show::error(notice));
    }
    show::out(&format!("report: {}\n", report.page.display()));
    Ok(report)
}

impl EmulateArguments {
    fn programs(&self) -> ProgramSettings {
        let (command, on) = (self.command.clone(), self.on.clone());
        ProgramSettings { command, on, background: self.background.clone(), linger: self.linger }
    }
}

/// Replaces this program by a shell or command at a real host.
pub(super) fn shell(host: &str, emulation: Option<u32>, command: &[String]) -> Result<u8, Failure> {
    let namespace = namespace_of(host, emulation)?;
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
    let words = if command.is_empty() { vec![shell] } else { command.to_vec() };
    bentpipe_emu::enter_group(&namespace);
    let error = Command::new("ip").args(["netns", "exec", &namespace]).args(words).exec();
    Err(match error.kind() {
        ErrorKind::NotFound => {
            let missing = SetupError::Missing { program: "ip", package: "iproute2" };
            Failure::bad(missing)
        }
        _ => Failure::bad(format!("ip: {error}")),
    })
}

/// Changes an emulation that runs, or shows keys of it.
pub(super) fn set(arguments: &SetArguments) -> Result<u8, Failure> {
    let SetArguments { assignments, file, show, emulation } = arguments;
    if let Some(key) = show {
        let value = control::show(key, *emulation)?;
        show::out(&format!("{}\n", serde_json::to_string_pretty(&value).map_err(Failure::bad)?));
        return Ok(0);
    }
    // What is typed holds over what the file says.
    let mut all = file.as_deref().map_or(Ok(Vec::new()), assignments_of)?;
    all.extend(assignments.iter().cloned());
    control::set(&all, *emulation)?.iter().for_each(|said| show::note(said));
    Ok(0)
}

/// Largest file of changes.
const MAX_CHANGES_BYTES: u64 = 1 << 16;

/// Returns a line without its comment.
///
/// It begins with `#`, first in the line or behind a space, outside of quotes.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') if before.is_whitespace() => return line[..at].trim_end(),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), letter) if letter == open && before != '\\' => quote = None,
            _ => {}
        }
        before = letter;
    }
    line
}

/// Returns the lines `KEY=VALUE` of a file. Empty lines are none, and a comment begins with `#`.
fn assignments_of(file: &Path) -> Result<Vec<String>, Failure> {
    let failed = |error: std::io::Error| Failure::bad(format!("{}: {error}", file.display()));
    let mut text = String::new();
    let mut reader = std::fs::File::open(file).map_err(failed)?.take(MAX_CHANGES_BYTES + 1);
    reader.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_CHANGES_BYTES {
        let problem = format!("{}: over {MAX_CHANGES_BYTES} bytes of changes", file.display());
        return Err(Failure::bad(problem));
    }
    let mut assignments = Vec::new();
    for (n, line) in text.lines().map(|line| without_comment(line.trim())).enumerate() {
        if line.is_empty() {
            continue;
        }
        if !line.contains('=') {
            let problem = format!("{}:{}: expected KEY=VALUE, not {line:?}", file.display(), n + 1);
            return Err(Failure::bad(problem));
        }
        assignments.push(line.to_owned());
    }
    if assignments.is_empty() {
        let problem = format!("{}: has no changes: expected lines of KEY=VALUE", file.display());
        return Err(Failure::bad(problem));
    }
    Ok(assignments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_stand_alone_or_behind_a_value() {
        for (line, expected) in [
            ("# all", ""),
            ("link.a.delay=300 ms # as measured", "link.a.delay=300 ms"),
            ("a={kind='trace',file='#1 x.csv'}", "a={kind='trace',file='#1 x.csv'}"),
            (r##"a="x # y" # z"##, r##"a="x # y""##),
            ("a=b#c", "a=b#c"),
        ] {
            assert_eq!(without_comment(line), expected);
        }
    }
}
