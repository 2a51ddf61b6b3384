//! `bentpipe channel`: fitting models to loss traces, and making traces.

mod generate;

use std::path::PathBuf;

use bentpipe_net::channel::loss::SequenceField;
use bentpipe_offline::channel::Fit;
use bentpipe_offline::{ExitReason, Outcome};
use clap::{Args, Subcommand};

use crate::intake::IntakeArgs;
use crate::session::Terminal;

/// Models of lossy channels.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Fit loss models to a trace or a capture, and report the goodness of fit
    #[command(after_help = "\
Examples:
  bentpipe channel fit office.trace
  bentpipe channel fit --report office.html office.trace
  bentpipe channel fit --sequence rtp --port 5004 received.pcapng
  bentpipe channel fit --sequence 0:4 --plot fit.svg --json fit.json received.pcap")]
    Fit(Box<FitArgs>),
    /// Write a loss trace: of a model, fitted to another trace, or synthetic
    #[command(
        subcommand,
        after_help = "\
Examples:
  bentpipe channel generate bistable --burst 3 --gap 27 bistable.trace
  bentpipe channel generate synthetic --loss 0.05 office.trace
  bentpipe channel generate fitted office.trace --fit gilbert-elliott made.trace"
    )]
    Generate(generate::Command),
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// Trace (0 received, 1 lost), or with --sequence a capture of received packets
    trace: PathBuf,
    /// Sequence number of captured packets: rtp, probe, ip-id, or OFFSET:BYTES in the UDP payload
    #[arg(long, value_name = "WHERE")]
    sequence: Option<SequenceField>,
    /// Number of transmissions of each packet by a link layer, for the residual loss ratio
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: u32,
    /// Write the figures as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a plot of the lengths of runs of lost frames, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write a page with all figures and plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the trace that was found in a capture
    #[arg(long, value_name = "FILE", requires = "sequence")]
    trace_out: Option<PathBuf>,
    #[command(flatten)]
    intake: IntakeArgs,
}

/// Runs a command, prints its result, and returns the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    let session = Terminal::new("note");
    let result = match command {
        Command::Fit(args) => args.job().run(&session),
        Command::Generate(command) => {
            let made = command.job().run();
            made.map(|text| Outcome { text, reason: ExitReason::Clean })
        }
    };
    session.end(result, false)
}

impl FitArgs {
    fn job(&self) -> Fit {
        Fit {
            trace: self.trace.clone(),
            sequence: self.sequence,
            intake: self.intake.intake(),
            attempts: self.attempts,
            json: self.json.clone(),
            plot: self.plot.clone(),
            report: self.report.clone(),
            trace_out: self.trace_out.clone(),
        }
    }
}
