//! `bentpipe channel`: fitting models to loss traces, and making traces.

mod generate;

use std::path::PathBuf;

use bentpipe_net::channel::loss::SequenceField;
use bentpipe_offline::Error;
use bentpipe_offline::channel::Fit;
use clap::{Args, Subcommand};

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
    Fit(FitArgs),
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
    /// Only UDP packets to this port, of a capture
    #[arg(long, requires = "sequence")]
    port: Option<u16>,
    /// Only RTP packets of this synchronisation source, of a capture: 305419896 or 0x12345678
    #[arg(long, requires = "sequence", value_parser = source)]
    ssrc: Option<u32>,
    /// Number of transmissions of each packet by a link layer, for the residual loss ratio
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    attempts: u32,
    /// Write the figures
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
}

/// Runs a command, and returns the text that it prints.
///
/// # Errors
/// Returns what is wrong with its input, or cannot be written.
pub(crate) fn run(command: &Command) -> Result<String, Error> {
    match command {
        Command::Fit(args) => args.job().run(),
        Command::Generate(command) => command.job().run(),
    }
}

impl FitArgs {
    fn job(&self) -> Fit {
        Fit {
            trace: self.trace.clone(),
            sequence: self.sequence,
            port: self.port,
            ssrc: self.ssrc,
            attempts: self.attempts,
            json: self.json.clone(),
            plot: self.plot.clone(),
            report: self.report.clone(),
            trace_out: self.trace_out.clone(),
        }
    }
}

/// Parses a synchronisation source, decimal or hexadecimal.
fn source(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "expected a number of 32 bits, such as 0x12345678".to_owned())
}
