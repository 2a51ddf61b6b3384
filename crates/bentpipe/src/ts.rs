//! `bentpipe ts`: what DVB makes of captures, and back.
//!
//! A transport stream is a file of 188-byte packets, or a capture of link type 243 with one packet a record, which keeps
//! times too; captures of UDP with TS packets or baseband frames in it are read as well, and transport streams in such frames. GSE comes as a capture of
//! baseband frames behind mode adaptation headers L.3, in UDP.

mod decap;
mod encap;
mod files;
mod inspect;
mod mux;
mod survey;

use clap::{Subcommand, ValueEnum};

use bentpipe_net::dvb::Encapsulation;
use bentpipe_wire::ts::Pid;

use crate::{interrupt, rohc};

/// IP in transport streams and DVB-S2 frames.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Encapsulate the packets of a capture
    #[command(after_help = ENCAP_EXAMPLES)]
    Encap(encap::EncapArgs),
    /// Take the packets out of a stream
    #[command(after_help = DECAP_EXAMPLES)]
    Decap(decap::DecapArgs),
    /// List what is in a stream, PID by PID
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(inspect::InspectArgs),
    /// Multiplex streams into one of constant rate
    #[command(after_help = MUX_EXAMPLES)]
    Mux(mux::MuxArgs),
}

const ENCAP_EXAMPLES: &str = "\
Examples:
  bentpipe ts encap voice.pcap voice.ts
  bentpipe ts encap --packing '1 ms' --rohc voice.pcap voice.ts.pcap
  bentpipe ts encap --format mpe --to 02:00:00:00:00:01 --pid 0x220 lan.pcapng out.ts
  bentpipe ts encap --bridge lan.pcap out.ts
  bentpipe ts encap --format gse --modcod '8PSK 3/4' --packing '5 ms' lan.pcap frames.pcap
  tshark -r frames.pcap -d udp.port==5001,dvb-s2_modeadapt -o dvb-s2_modeadapt.decode_df:TRUE

An output that ends in .ts, or \"-\", is bare packets; another one is a capture with their times. The exit status is 1 if
a packet could not be encapsulated, 2 for a bad command or file.";

const DECAP_EXAMPLES: &str = "\
Examples:
  bentpipe ts decap voice.ts voice.pcap
  bentpipe ts decap --pid 0x201 --format ule --rohc in.ts.pcap out.pcap
  bentpipe ts decap --bridge in.ts frames.pcap

Without --pid every PID that carries data is read, as the PMT says or as the CRCs bear out. The exit status is 1 if
something was lost or wrong, 2 for a bad command or file.";

const INSPECT_EXAMPLES: &str = "\
Examples:
  bentpipe ts inspect recording.ts
  bentpipe ts inspect udp-multicast.pcap
  ffmpeg -i film.mp4 -f mpegts - | bentpipe ts inspect -
  bentpipe ts inspect --csv pids.csv --json all.json recording.ts

A transport stream in baseband frames is taken out of them. Efficiency is bytes of PDUs for each byte of the PID's TS packets.";

const MUX_EXAMPLES: &str = "\
Examples:
  bentpipe ts mux --rate '8 Mbit/s' film.ts voice.ts out.ts
  bentpipe ts mux --rate '38.015 Mbit/s' a.ts.pcap b.ts.pcap out.ts.pcap

Captures are sent at their times, a stream with clock references by those, another one as fast as it fits. One PAT names
the programmes of all. The exit status is 1 if packets were dropped because the rate did not suffice.";

/// An encapsulation.
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

/// Runs a command and says how it went; the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    interrupt::watch(rohc::ask_to_end);
    rohc::exit_code(match command {
        Command::Encap(args) => encap::run(args),
        Command::Decap(args) => decap::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Mux(args) => mux::run(args),
    })
}

/// Reads a PID: decimal, or hexadecimal behind 0x.
fn pid(text: &str) -> Result<Pid, String> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u16::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    number.and_then(Pid::new).ok_or_else(|| "expected a PID from 0 to 0x1fff".into())
}

/// A share of a whole in per cent, with one decimal.
fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.1} %", 100.0 * part as f64 / whole as f64) }
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

    #[test]
    fn shares() {
        assert_eq!((percent(1, 3), percent(0, 0)), ("33.3 %".to_owned(), "-".to_owned()));
    }
}
