//! `bentpipe rohc`: header compression of captures, and what it saves.
//!
//! IP packets are read from any capture, ROHC packets are one record each of linktype USER0 (147), with nothing before
//! or behind them, and what was decompressed is written as raw IP (101). A packet of which a snapshot kept only the
//! start is compressed all the same; the record of its ROHC packet is cut by as much.

mod args;
pub(crate) mod capture;
mod ends;
mod flows;
mod ledger;
mod path;
mod run;
mod series;
mod tally;
mod weather;

use std::path::PathBuf;

use bentpipe_wire::pcap::ReadError;
use clap::Subcommand;

use crate::{interrupt, show};

/// Robust Header Compression of captures.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compress the IP packets of a capture
    #[command(after_help = COMPRESS_EXAMPLES)]
    Compress(run::CompressArgs),
    /// Decompress a capture of ROHC packets
    #[command(after_help = DECOMPRESS_EXAMPLES)]
    Decompress(run::DecompressArgs),
    /// Compress and decompress, with losses in between, and compare
    #[command(after_help = ROUNDTRIP_EXAMPLES)]
    Roundtrip(run::RoundtripArgs),
    /// What ROHC would save on a capture
    #[command(after_help = STATS_EXAMPLES)]
    Stats(run::StatsArgs),
}

const COMPRESS_EXAMPLES: &str = "\
Examples:
  bentpipe rohc compress voice.pcap voice.rohc.pcap
  bentpipe rohc compress --cid large --mode o --feedback back.pcap trunk.pcapng trunk.rohc.pcap
  tcpdump -w - port 5004 | bentpipe rohc compress --rtp-ports 5004 - out.rohc.pcap

The exit status is 1 if a packet could not be compressed, 2 for a bad command or file.";

const DECOMPRESS_EXAMPLES: &str = "\
Examples:
  bentpipe rohc decompress voice.rohc.pcap voice.pcap
  bentpipe rohc decompress --cid large --max-cid 500 --verify --csv packets.csv in.rohc.pcap out.pcap

CID space, MRRU and profiles must be those of the compressor. The exit status is 1 if a packet could not be
decompressed, 2 for a bad command or file.";

const ROUNDTRIP_EXAMPLES: &str = "\
Examples:
  bentpipe rohc roundtrip capture.pcap
  bentpipe rohc roundtrip --mode r --loss 10 --burst 4 capture.pcap
  bentpipe rohc roundtrip --damage 5 --verify --csv fates.csv capture.pcap

The exit status is 1 if a packet came out wrong, or if one was refused although nothing was lost or damaged.";

const STATS_EXAMPLES: &str = "\
Examples:
  bentpipe rohc stats capture.pcap
  bentpipe rohc stats --rtp-ports likely --cid large --plot headers.svg capture.pcapng
  bentpipe rohc stats --mode o --profiles ip,udp capture.pcap
  bentpipe rohc stats --flows capture.pcap          and the flows with the most header bytes";

/// Runs a command and says how it went; the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    interrupt::watch(ask_to_end);
    exit_code(match command {
        Command::Compress(args) => run::compress(args),
        Command::Decompress(args) => run::decompress(args),
        Command::Roundtrip(args) => run::roundtrip(args),
        Command::Stats(args) => run::stats(args),
    })
}

/// Ends the command before its next packet.
pub(crate) fn ask_to_end() {
    run::ask_to_end();
}

/// Whether Ctrl-C was pressed.
pub(crate) fn is_interrupted() -> bool {
    run::is_interrupted()
}

/// The exit code of a command, whose error is shown.
pub(crate) fn exit_code(verdict: Result<Verdict, Error>) -> u8 {
    match verdict {
        Ok(Verdict::Clean) => 0,
        Ok(Verdict::Failed) => 1,
        Ok(Verdict::Interrupted) => interrupt::INTERRUPTED,
        Err(error) => {
            show::error(&error.to_string());
            2
        }
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Clean,
    /// A packet failed.
    Failed,
    /// By the user. What was written is whole up to there.
    Interrupted,
}

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{}: {source}", path.display())]
    Open { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: ReadError },
    #[error("{}: record {number}: {source}", path.display())]
    Record { path: PathBuf, number: u64, source: ReadError },
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{0}")]
    Usage(String),
}
