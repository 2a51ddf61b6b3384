//! The command line of bentpipe: run scenarios, check them, reproduce studies.
//!
//! Results go to standard output, progress and errors to standard error. Exit codes: 0 fine, 1 a published value was
//! missed, 2 bad input or a failure, 130 interrupted.

mod arguments;
mod build;
#[cfg(feature = "tools")]
mod campaign;
#[cfg(feature = "tools")]
mod channel;
mod commands;
mod common;
mod confine;
#[cfg(feature = "tools")]
mod dtn;
#[cfg(feature = "tools")]
mod gateway;
#[cfg(feature = "tools")]
mod intake;
mod interrupt;
mod left_out;
mod monitor;
#[cfg(feature = "tools")]
mod pep;
#[cfg(feature = "tools")]
mod phone;
mod progress;
#[cfg(feature = "serve")]
mod remote;
mod results;
#[cfg(feature = "tools")]
mod rohc;
#[cfg(feature = "tools")]
mod rtp;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "tools")]
mod session;
mod show;
#[cfg(feature = "serve")]
mod site;
#[cfg(feature = "tools")]
mod traffic;
#[cfg(feature = "tools")]
mod ts;
#[cfg(feature = "tools")]
mod video;
#[cfg(feature = "tools")]
mod voice;

use std::borrow::Cow;
use std::io::Write;
use std::process::ExitCode;

use bentpipe_emu::plain;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use arguments::Arguments;

fn main() -> ExitCode {
    bentpipe_emu::names::leave_out_modules();
    bentpipe_emu::file_size::fail_at_limit();
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return refuse(&error),
    };
    match commands::run(arguments) {
        // Results that could not be printed are missing.
        Ok(code) => ExitCode::from(if show::has_failed() { code.max(2) } else { code }),
        Err(failure) => {
            show::error(&failure.text);
            ExitCode::from(failure.code)
        }
    }
}

/// Options whose file may be "-" for standard output.
const OUTPUTS: [&str; 5] = ["csv", "json", "left_out", "rates", "report"];

/// Parses the command line. Where a file of results is standard output, texts do not go there.
fn parse() -> Result<Arguments, clap::Error> {
    let mut command = Arguments::command();
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    if writes_to_stdout(&matches) {
        show::leave_stdout_to_results();
    }
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Returns `true` if a file of results is standard output.
fn writes_to_stdout(matches: &ArgMatches) -> bool {
    let is_stdout = |name: &&str| {
        let mut values = matches.try_get_raw(name).ok().flatten().into_iter().flatten();
        values.any(|value| value == "-")
    };
    OUTPUTS.iter().any(is_stdout) || matches.subcommand().is_some_and(|(_, of)| writes_to_stdout(of))
}

/// Prints why a command line is refused, or the help that it asks for.
fn refuse(error: &clap::Error) -> ExitCode {
    match left_out::refusal(error) {
        Some(refusal) => show::error(&refusal),
        None => print(error),
    }
    ExitCode::from(error.exit_code() as u8)
}

/// Prints an error of the command line. It quotes arguments, whose escape sequences it would print too.
fn print(error: &clap::Error) {
    let controls = |text: &str| matches!(plain::line(text), Cow::Owned(_));
    match std::env::args_os().any(|argument| controls(&argument.to_string_lossy())) {
        false => drop(error.print()),
        true => drop(std::io::stderr().write_all(plain::text(&error.render().to_string()).as_bytes())),
    }
}
