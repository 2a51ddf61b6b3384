//! The command line of bentpipe: run scenarios, check them, reproduce studies.
//!
//! Results go to standard output, progress and errors to standard error. Exit codes: 0 fine, 1 a published value was
//! missed, 2 bad input or a failure, 130 interrupted.

mod arguments;
mod build;
mod campaign;
mod channel;
mod commands;
mod common;
mod confine;
mod dtn;
mod gateway;
mod interrupt;
mod monitor;
mod pep;
mod phone;
mod progress;
#[cfg(feature = "serve")]
mod remote;
mod results;
mod rohc;
mod rtp;
#[cfg(feature = "serve")]
mod serve;
mod session;
mod show;
#[cfg(feature = "serve")]
mod site;
mod traffic;
mod ts;
mod video;
mod voice;

use std::process::ExitCode;

use clap::Parser;

use arguments::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match commands::run(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            show::error(&failure.text);
            ExitCode::from(failure.code)
        }
    }
}
