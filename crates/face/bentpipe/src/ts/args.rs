//! Options of `bentpipe ts`.

use std::path::PathBuf;

use bentpipe_dvb::{Address, Config, DataPid, Encapsulation, Rohc};
use bentpipe_offline::Select;
use bentpipe_offline::ts::monitor::Limits;
use bentpipe_offline::ts::{Decap, Encap, Inspect, Mux};
use bentpipe_units::{Rate, Span};
use bentpipe_wire::bbframe::{FrameSize, Modcod};
use bentpipe_wire::ts::Pid;
use clap::{Args, ValueEnum};

use super::live::{Live, SCHEME, address};
use crate::intake::{CountedArgs, IntakeArgs, LegsArgs, rohc};
use crate::show;

/// Encapsulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Unidirectional Lightweight Encapsulation (RFC 4326)
    #[default]
    Ule,
    /// Multiprotocol Encapsulation (EN 301 192)
    Mpe,
    /// Generic Stream Encapsulation in DVB-S2 baseband frames (TS 102 606)
    Gse,
}

impl Format {
    fn encapsulation(self) -> Encapsulation {
        match self {
            Format::Ule => Encapsulation::Ule,
            Format::Mpe => Encapsulation::Mpe,
            Format::Gse => Encapsulation::Gse,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct EncapArgs {
    /// Capture of IP packets, pcap or pcapng of any link type; "-" for standard input
    input: PathBuf,
    /// Output: bare TS packets if it ends in ".ts" or is "-", otherwise a capture
    output: PathBuf,
    /// Encapsulation
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// PID of the data
    #[arg(long, value_name = "PID", default_value = "0x201")]
    pid: DataPid,
    /// Packing threshold: maximum wait of a partly filled packet or frame [default: none]
    #[arg(long, value_name = "TIME")]
    packing: Option<Span>,
    /// Receiver address: NPA address (ULE), MAC address (MPE), label (GSE) [default: none, or broadcast]
    #[arg(long, value_name = "MAC")]
    to: Option<Address>,
    /// Compress IP headers with ROHC, also inside bridged frames. Keys as in a stream's `rohc` of scenarios, such as
    /// '{ cid = "large", contexts = 1000 }'; in O- and R-mode a receiver that loses nothing gives feedback
    #[arg(long, value_name = "TABLE", num_args = 0..=1, require_equals = true, default_missing_value = "{}", value_parser = rohc)]
    rohc: Option<Rohc>,
    /// Carry whole Ethernet frames (ULE and GSE)
    #[arg(long)]
    bridge: bool,
    /// Put an LLC/SNAP header into MPE sections, as ROHC needs anyway
    #[arg(long)]
    llc: bool,
    /// No PAT and PMT
    #[arg(long)]
    no_tables: bool,
    /// PID of the PMT
    #[arg(long, value_name = "PID", default_value = "0x200", value_parser = pid)]
    pmt_pid: Pid,
    /// MODCOD of the frames of GSE
    #[arg(long, value_name = "NAME", default_value = "QPSK 3/4")]
    modcod: Modcod,
    /// Short FECFRAMEs
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    intake: CountedArgs,
}

impl EncapArgs {
    /// Returns the job.
    pub(super) fn job(&self) -> Encap {
        Encap {
            input: self.input.clone(),
            output: self.output.clone(),
            stream: self.stream(),
            bridges: self.bridge,
            map_pid: (!self.no_tables).then_some(self.pmt_pid),
            modcod: self.modcod,
            frame_size: if self.short { FrameSize::Short } else { FrameSize::Normal },
            intake: self.intake.intake(),
        }
    }

    /// Returns the sending end of the stream.
    fn stream(&self) -> Config {
        Config {
            pid: self.pid,
            encapsulation: self.format.encapsulation(),
            packing: self.packing,
            to: self.to,
            llc: self.llc,
            rohc: self.rohc.clone(),
            ..Config::default()
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct DecapArgs {
    /// Input: TS packets, bare or in a capture, or captured BBFRAMEs; "-" for standard input
    input: PathBuf,
    /// Output capture: IP packets, or with --bridge Ethernet frames; "-" for standard output
    output: PathBuf,
    /// Read only this PID; may be given several times
    #[arg(long, value_name = "PID", value_parser = pid)]
    pid: Vec<Pid>,
    /// Encapsulation of the PIDs [default: from the PMT, or by CRCs]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Decompress ROHC packets. Keys as those of the sender: CIDs, contexts and profiles have to agree
    #[arg(long, value_name = "TABLE", num_args = 0..=1, require_equals = true, default_missing_value = "{}", value_parser = rohc)]
    rohc: Option<Rohc>,
    /// Write the bridged frames
    #[arg(long)]
    bridge: bool,
    #[command(flatten)]
    intake: CountedArgs,
    #[command(flatten)]
    legs: LegsArgs,
}

impl DecapArgs {
    /// Returns the job.
    pub(super) fn job(&self) -> Decap {
        Decap {
            input: self.input.clone(),
            output: self.output.clone(),
            pids: self.pid.clone(),
            encapsulation: self.format.map(Format::encapsulation),
            rohc: self.rohc.clone(),
            bridges: self.bridge,
            intake: self.legs.with(self.intake.intake()),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// Stream: a file, a capture, "-" for standard input, or udp://ADDRESS:PORT or rtp://ADDRESS:PORT if live
    input: PathBuf,
    /// Write a line for each PID, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write everything as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Describe only this PID; may be given several times. Tables are read of all
    #[arg(long, value_name = "PID", value_parser = pid)]
    pid: Vec<Pid>,
    /// Measure by TR 101 290: indicators of priority 1 and 2, clock references
    #[arg(long)]
    measure: bool,
    /// Write rates over time, by PID and of all, as CSV
    #[arg(long, value_name = "FILE")]
    rates: Option<PathBuf>,
    /// Write a page with all tables and a plot of rates over time
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Interval of rates over time
    #[arg(long, value_name = "TIME", default_value = "100 ms")]
    interval: Span,
    /// Live: duration [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<Span>,
    /// Live: alarm if the rate over a second is lower
    #[arg(long, value_name = "RATE")]
    min_rate: Option<Rate>,
    /// Live: alarm if the rate over a second is higher
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,
    /// Live: alarm if a PID of a PMT has no packets for longer
    #[arg(long, value_name = "TIME", default_value = "5 s")]
    pid_timeout: Span,
    #[command(flatten)]
    intake: IntakeArgs,
    #[command(flatten)]
    legs: LegsArgs,
}

impl InspectArgs {
    /// Returns the observation of a live stream, if the input is one.
    ///
    /// # Errors
    /// Returns an error if an option has no effect there, or none but there.
    pub(super) fn live(&self) -> Result<Option<Live>, String> {
        let Some(address) = address(&self.input)? else {
            let of_live = [
                (self.lasts.is_some(), "--for"),
                (self.min_rate.is_some(), "--min-rate"),
                (self.max_rate.is_some(), "--max-rate"),
            ];
            return match of_live.iter().find(|(is_set, _)| *is_set) {
                Some((_, option)) => Err(format!("{option}: expected a live stream, {SCHEME}ADDRESS:PORT")),
                None => Ok(None),
            };
        };
        let of_files = [
            (self.measure, "--measure", "a live stream is measured always"),
            (self.csv.is_some(), "--csv", "a live stream has --json and --rates"),
            (self.report.is_some(), "--report", "a live stream has --json and --rates"),
        ];
        if let Some((_, option, instead)) = of_files.iter().find(|(is_set, ..)| *is_set) {
            return Err(format!("{option}: expected a file: {instead}"));
        }
        if let Some(option) = self.intake.of_files().or(self.legs.of_files()) {
            return Err(format!("{option}: expected a file"));
        }
        let rate = [self.min_rate, self.max_rate];
        Ok(Some(Live {
            address: address.to_owned(),
            interface: self.intake.interface.clone(),
            lasts: self.lasts,
            limits: Limits { pid: self.pid_timeout, rate, ..Limits::default() },
            rates: self.rates.clone(),
            interval: self.interval,
            json: self.json.clone(),
            pids: self.pid.clone(),
            select: Select { interface: None, ..self.intake.intake().select },
        }))
    }

    /// Returns the job.
    pub(super) fn job(&self) -> Inspect {
        Inspect {
            input: self.input.clone(),
            csv: self.csv.clone(),
            json: self.json.clone(),
            measure: self.measure,
            pids: self.pid.clone(),
            rates: self.rates.clone(),
            report: self.report.clone(),
            interval: self.interval,
            colours: show::coloured(),
            intake: self.legs.with(self.intake.intake()),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct MuxArgs {
    /// Streams to multiplex, bare or in captures, and last the file to write
    #[arg(required = true, num_args = 2.., value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Rate of the multiplex, NULL packets included
    #[arg(long, value_name = "RATE")]
    rate: Rate,
    /// Queue limit of an input in packets; further ones are dropped
    #[arg(long, value_name = "PACKETS", default_value_t = 10_000)]
    queue: usize,
    /// Interval of the tables in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    tables: u64,
    #[command(flatten)]
    intake: CountedArgs,
    #[command(flatten)]
    legs: LegsArgs,
}

impl MuxArgs {
    /// Returns the job.
    pub(super) fn job(&self) -> Mux {
        let (output, inputs) = self.files.split_last().expect("two files at least");
        Mux {
            inputs: inputs.to_vec(),
            output: output.clone(),
            rate: self.rate,
            queue_packets: self.queue,
            tables_ms: self.tables,
            intake: self.legs.with(self.intake.intake()),
        }
    }
}

/// Parses a PID: decimal, or hexadecimal after 0x.
fn pid(text: &str) -> Result<Pid, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    number.and_then(Pid::new).ok_or_else(|| "expected a PID from 0 to 0x1fff".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_are_decimal_or_hexadecimal() {
        assert_eq!(pid("0x101"), Ok(Pid::new(257).unwrap()));
        assert_eq!(pid("8191"), Ok(Pid::NULL));
        assert!(pid("8192").is_err() && pid("x").is_err());
    }
}
