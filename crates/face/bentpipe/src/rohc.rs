//! `bentpipe rohc`: header compression of captures, and its gain.

mod args;

use std::path::{Path, PathBuf};

use bentpipe_offline::rohc::{
    Compress, Decompress, RoundTrip, SchemeCompress, SchemeDecompress, SchemeRoundTrip, Stats,
};
use bentpipe_offline::{Error, Outcome, Session};
use clap::{Args, Subcommand};

use crate::session::Terminal;
use args::{
    CHANNEL_OF_ROHC, ChannelArgs, CompressorArgs, DecompressorArgs, ImpairmentArgs, LinkArgs, OutputArgs,
    Peer, SchemeArgs,
};

/// Robust Header Compression of captures.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compress the IP packets of a capture
    #[command(after_help = COMPRESS_EXAMPLES, mut_arg("scheme", |scheme| of_rohc(
        scheme,
        &["LinkArgs", "CompressorArgs", "DecompressorArgs", "feedback"],
    )))]
    Compress(CompressArgs),
    /// Decompress a capture of ROHC packets
    #[command(after_help = DECOMPRESS_EXAMPLES, mut_arg("scheme", |scheme| of_rohc(
        scheme,
        &["LinkArgs", "DecompressorArgs", "repeats", "confirm", "verify"],
    )))]
    Decompress(DecompressArgs),
    /// Compress and decompress, with losses in between, and compare
    #[command(after_help = ROUNDTRIP_EXAMPLES, mut_arg("scheme", |scheme| of_rohc(
        scheme,
        &["CompressorArgs", "DecompressorArgs", "verify"],
    )))]
    Roundtrip(RoundtripArgs),
    /// Report the savings of ROHC on a capture, by version 1 and 2
    #[command(after_help = STATS_EXAMPLES)]
    Stats(StatsArgs),
}

/// Adds the options that are ROHC's alone to the conflicts of `--scheme`.
fn of_rohc(scheme: clap::Arg, others: &[&'static str]) -> clap::Arg {
    scheme.conflicts_with_all(CHANNEL_OF_ROHC.iter().chain(others).copied())
}

const COMPRESS_EXAMPLES: &str = "\
Examples:
  bentpipe rohc compress voice.pcap voice.rohc.pcap
  bentpipe rohc compress --cid large --mode o --feedback back.pcap trunk.pcapng trunk.rohc.pcap
  bentpipe rohc compress --link ppp voice.pcap voice.ppp.pcap
  bentpipe rohc compress --scheme crtp voice.pcap voice.crtp.pcap
  bentpipe rohc compress --profiles v2 --icv-key 00112233445566778899aabbccddeeff \\
      voice.pcap voice.ipsec.pcap
  tcpdump -w - port 5004 | bentpipe rohc compress --rtp-ports 5004 - out.rohc.pcap

The exit status is 1 if a packet could not be compressed or a record is damaged, 2 if there is no
packet, for a bad command or file.";

const DECOMPRESS_EXAMPLES: &str = "\
Examples:
  bentpipe rohc decompress voice.rohc.pcap voice.pcap
  bentpipe rohc decompress --cid large --contexts 501 --verify --csv packets.csv \\
      in.rohc.pcap out.pcap
  bentpipe rohc decompress --scheme crtp voice.crtp.pcap voice.pcap

CID space, MRRU and profiles must be those of the compressor. The exit status is 1 if a packet
could not be decompressed, 2 for a bad command or file.";

const ROUNDTRIP_EXAMPLES: &str = "\
Examples:
  bentpipe rohc roundtrip capture.pcap
  bentpipe rohc roundtrip --mode r --loss 0.1 --burst 4 capture.pcap
  bentpipe rohc roundtrip --damage 0.05 --verify --csv fates.csv capture.pcap
  bentpipe rohc roundtrip --scheme iphc --loss 0.02 --feedback-delay '540 ms' capture.pcap

The exit status is 1 if a packet came out wrong, or if one was refused although nothing was lost
or damaged.";

const STATS_EXAMPLES: &str = "\
Examples:
  bentpipe rohc stats capture.pcap
  bentpipe rohc stats --rtp-ports likely --cid large --plot headers.svg capture.pcapng
  bentpipe rohc stats --mode o --profiles ip,udp capture.pcap
  bentpipe rohc stats --profiles v2 --reorder half capture.pcap
  bentpipe rohc stats --cid large --cpu capture.pcap
  bentpipe rohc stats --flows capture.pcap          and the flows with the most header bytes";

#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// Capture of IP packets, pcap or pcapng of any link type; "-" for standard input
    input: PathBuf,
    /// Capture to write: ROHC packets, with --scheme frames of PPP; "-" for standard output
    output: PathBuf,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    scheme: SchemeArgs,
    #[command(flatten)]
    channel: ChannelArgs,
    #[command(flatten)]
    compressor: CompressorArgs,
    #[command(flatten)]
    decompressor: DecompressorArgs,
    /// Decompress every packet again, and fail if it is not the same
    #[arg(long)]
    verify: bool,
    /// Write the feedback that produced the stream; seconds of its times are packet numbers
    #[arg(long, value_name = "FILE")]
    feedback: Option<PathBuf>,
    #[command(flatten)]
    out: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DecompressArgs {
    /// Capture of ROHC packets (USER0, PPP) or with --scheme of PPP; "-" for standard input
    input: PathBuf,
    /// Capture of IP packets to write, link type RAW; "-" for standard output
    output: PathBuf,
    #[command(flatten)]
    link: LinkArgs,
    #[command(flatten)]
    scheme: SchemeArgs,
    #[command(flatten)]
    channel: ChannelArgs,
    /// Number of times that the compressor sends a change: the robustness to consecutive losses
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    repeats: u8,
    /// The compressor's --confirm; 0 for one that does not confirm, as all but bentpipe's
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=32))]
    confirm: u8,
    #[command(flatten)]
    decompressor: DecompressorArgs,
    /// Deliver no packet whose UDP, UDP-Lite or TCP checksum is wrong
    #[arg(long)]
    verify: bool,
    /// Write the feedback; the seconds of its stamps are the packet's number
    #[arg(long, value_name = "FILE")]
    feedback: Option<PathBuf>,
    #[command(flatten)]
    out: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RoundtripArgs {
    /// Capture of IP packets; "-" for standard input
    input: PathBuf,
    /// Capture of what comes out, link type RAW
    output: Option<PathBuf>,
    #[command(flatten)]
    scheme: SchemeArgs,
    #[command(flatten)]
    channel: ChannelArgs,
    #[command(flatten)]
    compressor: CompressorArgs,
    #[command(flatten)]
    decompressor: DecompressorArgs,
    #[command(flatten)]
    impairments: ImpairmentArgs,
    /// Deliver no packet whose UDP, UDP-Lite or TCP checksum is wrong
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    out: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Capture of IP packets; "-" for standard input
    input: PathBuf,
    #[command(flatten)]
    channel: ChannelArgs,
    #[command(flatten)]
    compressor: CompressorArgs,
    #[command(flatten)]
    decompressor: DecompressorArgs,
    /// Measure the processor time, by an index of contexts and by a linear search
    #[arg(long)]
    cpu: bool,
    #[command(flatten)]
    out: OutputArgs,
}

impl CompressArgs {
    fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        if let Some(config) = self.scheme.config(&self.channel)? {
            let (input, output, outputs) = (self.input.clone(), self.output.clone(), self.out.outputs());
            return SchemeCompress { input, output, config, verify: self.verify, outputs }.run(session);
        }
        let decompressor = self.decompressor.config(&self.channel, self.compressor.peer(), false)?;
        Compress {
            input: self.input.clone(),
            output: self.output.clone(),
            link: self.link.link(),
            icv: self.link.icv(),
            sending: self.compressor.sending(decompressor.channel),
            decompressor,
            verify: self.verify,
            feedback: self.feedback.clone(),
            outputs: self.out.outputs(),
        }
        .run(session)
    }
}

impl DecompressArgs {
    fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        if let Some(config) = self.scheme.config(&self.channel)? {
            let (input, output, outputs) = (self.input.clone(), self.output.clone(), self.out.outputs());
            let feedback = self.feedback.clone();
            return SchemeDecompress { input, output, config, feedback, outputs }.run(session);
        }
        let peer = Peer { repeats: self.repeats, confirms: self.confirm > 0 };
        Decompress {
            input: self.input.clone(),
            output: self.output.clone(),
            link: self.link.link(),
            icv: self.link.icv(),
            decompressor: self.decompressor.config(&self.channel, peer, self.verify)?,
            feedback: self.feedback.clone(),
            outputs: self.out.outputs(),
        }
        .run(session)
    }
}

impl RoundtripArgs {
    fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        if let Some(config) = self.scheme.config(&self.channel)? {
            let (input, output, outputs) = (self.input.clone(), self.output.clone(), self.out.outputs());
            let impairments = self.impairments.config();
            return SchemeRoundTrip { input, output, config, impairments, outputs }.run(session);
        }
        let decompressor = self.decompressor.config(&self.channel, self.compressor.peer(), self.verify)?;
        RoundTrip {
            input: self.input.clone(),
            output: self.output.clone(),
            sending: self.compressor.sending(decompressor.channel),
            decompressor,
            impairments: self.impairments.config(),
            outputs: self.out.outputs(),
        }
        .run(session)
    }
}

impl StatsArgs {
    fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let decompressor = self.decompressor.config(&self.channel, self.compressor.peer(), false)?;
        Stats {
            input: self.input.clone(),
            sending: self.compressor.sending(decompressor.channel),
            decompressor,
            cpu: self.cpu,
            outputs: self.out.outputs(),
        }
        .run(session)
    }
}

/// Runs a command, prints its result, and returns the exit code.
pub(crate) fn run(command: &Command) -> u8 {
    let session = Terminal::new("bentpipe rohc");
    let (result, out, capture) = match command {
        Command::Compress(args) => (args.run(&session), &args.out, Some(&args.output)),
        Command::Decompress(args) => (args.run(&session), &args.out, Some(&args.output)),
        Command::Roundtrip(args) => (args.run(&session), &args.out, args.output.as_ref()),
        Command::Stats(args) => (args.run(&session), &args.out, None),
    };
    let quiet = |outcome: Outcome| match out.quiet {
        true => Outcome { text: String::new(), ..outcome },
        false => outcome,
    };
    // Standard output may hold the capture.
    session.end(result.map(quiet), capture.is_some_and(|path| path == Path::new("-")))
}
