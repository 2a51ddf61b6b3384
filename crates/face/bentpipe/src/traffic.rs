//! `bentpipe traffic`: statistics of rates.

use std::path::PathBuf;

use bentpipe_offline::traffic::{Describe, Sequence};
use bentpipe_units::Span;
use clap::{Args, Subcommand};

use crate::intake::{CountedArgs, IntakeArgs};
use crate::session::Terminal;
use crate::show;

/// Statistics of traffic.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Describe the rate of traffic: distribution, autocorrelation, Hurst parameter
    #[command(after_help = "\
Examples:
  bentpipe traffic describe video.ts
  bentpipe traffic describe --interval '10 ms' --report lan.html lan.pcapng
  bentpipe traffic describe --source television scenarios/video.toml

The rate of a transport stream is that between its clock references, without NULL packets; that of
a capture is of its IP packets. A scenario's video source runs for the scenario's duration.")]
    Describe(DescribeArgs),
    /// Draw time-sequence graphs of the TCP connections of a capture
    #[command(after_help = "\
Examples:
  bentpipe traffic sequence download.pcap
  bentpipe traffic sequence --report download.html download.pcap
  bentpipe traffic sequence --connection 2 --from 10 --to 30 --xplot download.xpl download.pcap

A graph has segments, retransmissions, acknowledgements, the window's edge and SACK blocks. For a
simulated flow, capture at its sender: bentpipe run geo.toml --pcap server:lan --snap-len 128")]
    Sequence(SequenceArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SequenceArgs {
    /// Capture of IP packets
    input: PathBuf,
    /// Number of the connection to draw; default: the one with the most bytes
    #[arg(long, value_name = "N")]
    connection: Option<usize>,
    /// First time to draw, in seconds from the first packet
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    from: f64,
    /// Last time to draw, in seconds from the first packet
    #[arg(long, value_name = "SECONDS", default_value_t = f64::INFINITY, hide_default_value = true)]
    to: f64,
    /// Write a page with the graph
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the graph for xplot
    #[arg(long, value_name = "FILE")]
    xplot: Option<PathBuf>,
    #[command(flatten)]
    intake: CountedArgs,
}

impl SequenceArgs {
    fn job(&self) -> Sequence {
        Sequence {
            input: self.input.clone(),
            connection: self.connection,
            range_s: [self.from, self.to],
            report: self.report.clone(),
            xplot: self.xplot.clone(),
            colours: show::coloured(),
            intake: self.intake.intake(),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// Capture ("-" for standard input), transport stream, or scenario file (.toml)
    input: PathBuf,
    /// Interval over which the rate is averaged
    #[arg(long, value_name = "TIME", default_value = "40 ms")]
    interval: Span,
    /// Flow or ATM stream of a scenario
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Seed of a scenario's source
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the figures and the rates as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with all figures and plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    #[command(flatten)]
    intake: IntakeArgs,
}

/// Runs a command, prints its result, and returns the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    let session = Terminal::new("note");
    let result = match command {
        Command::Describe(args) => args.job().run(&session),
        Command::Sequence(args) => args.job().run(&session),
    };
    session.end(result, false)
}

impl DescribeArgs {
    fn job(&self) -> Describe {
        Describe {
            input: self.input.clone(),
            interval: self.interval,
            source: self.source.clone(),
            seed: self.seed,
            json: self.json.clone(),
            report: self.report.clone(),
            colours: show::coloured(),
            intake: self.intake.intake(),
        }
    }
}
