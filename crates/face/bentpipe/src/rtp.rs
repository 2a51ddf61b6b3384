//! `bentpipe rtp`: voice packet streams on real sockets, and their statistics.

mod progress;
mod receive;
mod send;

use std::io::Write;
use std::path::Path;

use bentpipe_record::write_whole;
use clap::Subcommand;
use serde_json::Value;

use crate::interrupt::{self, INTERRUPTED};

/// Voice packets on real sockets.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send any number of streams
    #[command(after_help = SEND_EXAMPLES)]
    Send(send::SendArgs),
    /// Receive streams and print their figures
    #[command(after_help = RECEIVE_EXAMPLES)]
    Receive(receive::ReceiveArgs),
}

const SEND_EXAMPLES: &str = "\
Examples:
  bentpipe rtp send 10.0.0.2:5004 --duration '60 s'                  one GSM stream
  bentpipe rtp send 10.0.0.2:5004 --streams 311 --packets 3000
  bentpipe rtp send '[fd00::2]:5004' --streams 100 --by port --phases aligned
  bentpipe rtp send host:5004 --codec opus --rate '32 kbit/s' --interval '40 ms'
  bentpipe rtp send host:5004 --payload '200 B' --interval '10 ms'
  bentpipe rtp send host:5004 --payload '4 B' --refresh '40 B,30'    the sizes of ROHC

Without --duration or --packets it sends until Ctrl-C. The exit status is 1 if the kernel refused
packets, 2 for a bad command.";

const RECEIVE_EXAMPLES: &str = "\
Examples:
  bentpipe rtp receive 5004                  until Ctrl-C, which prints the figures
  bentpipe rtp receive 5004 --idle '2 s' --csv streams.csv --json all.json
  bentpipe rtp receive '[fd00::2]:5004' --ports 100 --duration '60 s'
  bentpipe rtp receive 5004 --clock 48000    for Opus and others without a payload type

The exit status is 1 if packets were lost or none came, 2 for a bad command.";

/// Runs a command; the exit code, or what was wrong with what was asked.
pub(crate) fn run(command: &Command) -> Result<u8, String> {
    let stop = interrupt::flag();
    match command {
        Command::Send(args) => send::run(args, &stop),
        Command::Receive(args) => receive::run(args, &stop),
    }
}

fn write_json(path: &Path, value: &Value) -> Result<(), String> {
    write(path, &format!("{value:#}\n"))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    write_whole(path, |file| file.write_all(text.as_bytes())).map_err(|error| error.to_string())
}
