//! The four commands.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_rohc::{DecompressorConfig, Mode};
use bentpipe_wire::pcap::LinkType;
use clap::Args;

use super::args::{ChannelArgs, CompressorArgs, DecompressorArgs, OutputArgs, WeatherArgs};
use super::capture::{Capture, Content, Output, Packet};
use super::ends::{Received, Receiver, Sender, Sent, Unit};
use super::ledger::{Entry, Ledger, entry, say};
use super::path::{Fate, Path as Way};
use super::tally::Sizes;
use super::weather::Weather;
use super::{Error, Verdict};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends the command before its next packet.
pub(super) fn ask_to_end() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

pub(super) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

#[derive(Debug, Args)]
pub(crate) struct CompressArgs {
    /// Capture of IP packets, pcap or pcapng of any link type; "-" for standard input
    input: PathBuf,
    /// Capture of ROHC packets to write, link type USER0; "-" for standard output
    output: PathBuf,
    #[command(flatten)]
    channel: ChannelArgs,
    #[command(flatten)]
    compressor: CompressorArgs,
    #[command(flatten)]
    decompressor: DecompressorArgs,
    /// Decompress every packet again, and fail if it is not the same
    #[arg(long)]
    verify: bool,
    /// Write the feedback that led to the stream; the seconds of its stamps are the packet's number
    #[arg(long, value_name = "FILE")]
    feedback: Option<PathBuf>,
    #[command(flatten)]
    out: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DecompressArgs {
    /// Capture of ROHC packets, link type USER0; "-" for standard input
    input: PathBuf,
    /// Capture of IP packets to write, link type RAW; "-" for standard output
    output: PathBuf,
    #[command(flatten)]
    channel: ChannelArgs,
    /// How often the compressor sends a change: fewer losses in a row hide none
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    repeats: u8,
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
    channel: ChannelArgs,
    #[command(flatten)]
    compressor: CompressorArgs,
    #[command(flatten)]
    decompressor: DecompressorArgs,
    #[command(flatten)]
    weather: WeatherArgs,
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
    #[command(flatten)]
    out: OutputArgs,
}

/// Compresses a capture. In O- and R-mode a decompressor gives feedback.
pub(super) fn compress(args: &CompressArgs) -> Result<Verdict, Error> {
    let mut input = Capture::open(&args.input, Content::Ip)?;
    let mut way = way(
        &args.compressor,
        args.decompressor.config(&args.channel, args.compressor.repeats(), false),
        args.verify,
    )?;
    let mut ledger = Ledger::new(&args.out, &args.input)?;
    let mut output = Output::create(&args.output, LinkType::USER0, &args.input)?;
    let mut back = feedback_file(args.feedback.as_deref(), &args.input)?;
    input.for_each(|packet| {
        let carried = way.carry(packet);
        for unit in way.sender.units() {
            output.write(packet.time_ns, unit.bytes, unit.len)?;
        }
        write_feedback(&mut back, packet, &way.feedback)?;
        let record = carried.is_ok().then_some(output.records);
        note_carried(&mut ledger, packet, carried, record, true)?;
        Ok(!is_interrupted())
    })?;
    input.check_found()?;
    output.finish()?;
    back.map_or(Ok(()), Output::finish)?;
    end_sending(&way, ledger, &input, is_stdout(&args.output))
}

/// Compresses and decompresses a capture, with losses in between.
pub(super) fn roundtrip(args: &RoundtripArgs) -> Result<Verdict, Error> {
    let mut input = Capture::open(&args.input, Content::Ip)?;
    let (forth, back) = (Weather::new(&args.weather, "forward"), Weather::new(&args.weather, "feedback"));
    let mut way = way(
        &args.compressor,
        args.decompressor.config(&args.channel, args.compressor.repeats(), args.verify),
        true,
    )?
    .with_weather(forth, back);
    let mut ledger = Ledger::new(&args.out, &args.input)?;
    let raw = |path: &Path| Output::create(path, LinkType::RAW, &args.input);
    let mut output = args.output.as_deref().map(raw).transpose()?;
    let is_fair = args.weather.loss == 0.0 && args.weather.damage == 0.0;
    input.for_each(|packet| {
        let carried = way.carry(packet);
        if let (Some(output), Ok((_, Fate::Right | Fate::Wrong))) = (&mut output, &carried) {
            output.write(packet.time_ns, way.ip(), packet.len)?;
        }
        note_carried(&mut ledger, packet, carried, None, is_fair)?;
        Ok(!is_interrupted())
    })?;
    input.check_found()?;
    output.map_or(Ok(()), Output::finish)?;
    end_sending(&way, ledger, &input, args.output.as_deref().is_some_and(is_stdout))
}

/// Compresses a capture for the figures alone.
pub(super) fn stats(args: &StatsArgs) -> Result<Verdict, Error> {
    let mut input = Capture::open(&args.input, Content::Ip)?;
    let mut way = way(
        &args.compressor,
        args.decompressor.config(&args.channel, args.compressor.repeats(), false),
        false,
    )?;
    let mut ledger = Ledger::new(&args.out, &args.input)?;
    input.for_each(|packet| {
        let carried = way.carry(packet);
        note_carried(&mut ledger, packet, carried, None, true)?;
        Ok(!is_interrupted())
    })?;
    end_sending(&way, ledger, &input, false)
}

const OTHER_CHANNEL: &str =
    "no packet could be decompressed: are --cid, --max-cid, --profiles and --mrru those of the compressor?";

/// Decompresses a capture.
pub(super) fn decompress(args: &DecompressArgs) -> Result<Verdict, Error> {
    let mut input = Capture::open(&args.input, Content::Rohc)?;
    let mut receiver = Receiver::new(
        args.decompressor.config(&args.channel, args.repeats, args.verify).map_err(Error::Usage)?,
    );
    let mut ledger = Ledger::new(&args.out, &args.input)?.with_hint(OTHER_CHANNEL);
    let mut output = Output::create(&args.output, LinkType::RAW, &args.input)?;
    let mut back = feedback_file(args.feedback.as_deref(), &args.input)?;
    input.for_each(|packet| {
        let received = receiver.receive(packet.at(), Unit { len: packet.len, bytes: packet.bytes });
        if let Ok(Some(received)) = &received {
            output.write(packet.time_ns, receiver.ip(), received.len)?;
        }
        let status = match &received {
            Ok(Some(_)) => "ok".to_owned(),
            Ok(None) => "without a packet".to_owned(),
            Err(error) => format!("refused: {error}"),
        };
        let is_failure = received.is_err();
        let received = received.ok().flatten();
        let frame = received.is_some().then_some(output.records);
        let entry = Entry {
            record: Some(packet.number),
            frame,
            status: &status,
            ip: received.is_some().then(|| receiver.ip()),
            ip_len: received.map_or(0, |received| received.len),
            rohc_len: packet.len,
            flow: received.map(|received| (received.decompressed.cid, sizes_received(&received, packet.len))),
            ..entry(packet, "", is_failure)
        };
        ledger.note(&entry)?;
        write_feedback(&mut back, packet, receiver.take_feedback())?;
        Ok(!is_interrupted())
    })?;
    input.check_found()?;
    output.finish()?;
    back.map_or(Ok(()), Output::finish)?;
    end(ledger, &input, is_stdout(&args.output))
}

/// Both ends; a receiver if there is feedback to give or something to compare.
fn way(
    compressor: &CompressorArgs,
    decompressor: Result<DecompressorConfig, String>,
    compares: bool,
) -> Result<Way, Error> {
    let config = decompressor.map_err(Error::Usage)?;
    let sender = Sender::new(compressor.config(config.channel), compressor.mtu());
    let sender = sender.with_reservations(compressor.reservations()).map_err(Error::Usage)?;
    let needed = compares || config.mode != Mode::Unidirectional;
    Ok(Way::new(sender, needed.then(|| Receiver::new(config))))
}

fn note_carried(
    ledger: &mut Ledger,
    packet: &Packet<'_>,
    carried: Result<(Sent, Fate), super::ends::Refusal>,
    record: Option<u64>,
    is_fair: bool,
) -> Result<(), Error> {
    let (sent, fate) = match carried {
        Ok((sent, fate)) => (sent, fate),
        Err(refusal) => return ledger.note(&entry(packet, &format!("not compressed: {refusal}"), true)),
    };
    let (status, is_failure) = match fate {
        Fate::Sent | Fate::Right => ("ok".to_owned(), false),
        Fate::Lost => ("lost".to_owned(), false),
        Fate::Refused(error) => (format!("refused: {error}"), is_fair),
        Fate::Nothing => ("without a packet".to_owned(), is_fair),
        Fate::Wrong => ("wrong".to_owned(), true),
    };
    let flow = Some((sent.compressed.cid, sizes_sent(&sent, packet.len)));
    let (rohc_len, state) = (sent.len, sent.state);
    ledger.note(&Entry { record, rohc_len, flow, state, ..entry(packet, &status, is_failure) })
}

fn sizes_sent(sent: &Sent, ip_len: usize) -> Sizes {
    Sizes {
        profile: sent.compressed.profile,
        packet_type: sent.compressed.packet_type,
        ip_len,
        ip_header: sent.compressed.header_in,
        rohc_len: sent.len,
        rohc_header: sent.compressed.header_out,
    }
}

fn sizes_received(received: &Received, rohc_len: usize) -> Sizes {
    Sizes {
        profile: received.decompressed.profile,
        packet_type: received.decompressed.packet_type,
        ip_len: received.len,
        ip_header: received.decompressed.header_out,
        rohc_len,
        rohc_header: received.decompressed.header_in,
    }
}

fn feedback_file(path: Option<&Path>, input: &Path) -> Result<Option<Output>, Error> {
    path.map(|path| Output::create(path, LinkType::USER0, input)).transpose()
}

fn write_feedback(file: &mut Option<Output>, packet: &Packet<'_>, feedback: &[u8]) -> Result<(), Error> {
    match file {
        Some(file) if !feedback.is_empty() => {
            file.write(packet.number * 1_000_000_000, feedback, feedback.len())
        }
        _ => Ok(()),
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Ends a command that compressed.
fn end_sending(way: &Way, ledger: Ledger, input: &Capture, to_stderr: bool) -> Result<Verdict, Error> {
    way.sender.lack_of_cids().iter().for_each(|lack| say(lack));
    end(ledger, input, to_stderr)
}

fn end(ledger: Ledger, input: &Capture, to_stderr: bool) -> Result<Verdict, Error> {
    input.check_found()?;
    let verdict = ledger.finish(input, to_stderr)?;
    Ok(if is_interrupted() { Verdict::Interrupted } else { verdict })
}
