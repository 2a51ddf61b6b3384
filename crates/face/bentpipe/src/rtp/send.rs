//! `bentpipe rtp send`.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use bentpipe_offline::capture::check_files;
use bentpipe_rtp::{Codec, Format, Phases, Plan, Refresh, Sender, Streams, Tally, report};
use bentpipe_units::{Bytes, Rate, Span};
use clap::{Args, ValueEnum};

use super::progress::Progress;
use super::{INTERRUPTED, write_json};
use crate::common::check_folders;
use crate::show::{note, out};

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// Destination as HOST:PORT; an IPv6 address goes in brackets
    to: String,
    /// Number of streams
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    streams: u32,
    /// Codec
    #[arg(long, value_enum, default_value_t, conflicts_with = "payload")]
    codec: CodecName,
    /// Codec rate. Default: 16 kbit/s for G.729.1, 12.2 kbit/s for AMR, 20 kbit/s for Opus
    #[arg(long, value_name = "RATE", conflicts_with = "payload")]
    rate: Option<Rate>,
    /// Packet interval of a stream [default: 20 ms]
    #[arg(long, value_name = "TIME")]
    interval: Option<Span>,
    /// Payload length, of no codec in particular
    #[arg(long, alias = "size", value_name = "BYTES")]
    payload: Option<Bytes>,
    /// Longer payload of some packets, and their final distance: BYTES,N. The first is one, then after 1, 2, 3 and so on, as a header
    /// compressor in unidirectional mode sends them
    #[arg(long, value_name = "BYTES,N", value_parser = refresh)]
    refresh: Option<Refresh>,
    /// The clock of the timestamps in Hz, with --payload
    #[arg(long, value_name = "HZ", default_value_t = 8000, requires = "payload")]
    clock: u32,
    /// Identification of streams: by SSRC alone, or also by port in steps of two
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// Phase relation of the streams
    #[arg(long, value_enum, default_value_t)]
    phases: PhasesName,
    /// Differentiated services codepoint
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..64))]
    dscp: u8,
    /// Duration of transmission
    #[arg(long, value_name = "TIME", conflicts_with = "packets")]
    duration: Option<Span>,
    /// Number of packets per stream
    #[arg(long, value_name = "N")]
    packets: Option<u64>,
    /// Seed of SSRCs and of the initial sequence numbers and timestamps [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write what was sent, and how late, as JSON; "-" for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Reads the length of refreshes and their distance.
fn refresh(text: &str) -> Result<Refresh, String> {
    let read = |text: &str| {
        let (payload, every) = text.rsplit_once(',')?;
        Some(Refresh { payload: payload.trim().parse().ok()?, every: every.trim().parse().ok()? })
    };
    let refresh = read(text).filter(|refresh| refresh.check().is_ok());
    refresh
        .ok_or_else(|| "expected BYTES,N with a distance of 1 to 1000000 packets, as \"40 B,30\"".to_owned())
}

/// A codec's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum CodecName {
    /// GSM full rate: 33 bytes each 20 ms
    #[default]
    Gsm,
    /// G.711 mu-law: 160 bytes each 20 ms
    Pcmu,
    /// G.711 A-law
    Pcma,
    /// G.729: 20 bytes each 20 ms
    G729,
    /// G.729.1: 8, or 12 to 32 kbit/s in steps of 2
    #[value(name = "g729.1")]
    G7291,
    /// AMR, bandwidth-efficient: 4.75 to 12.2 kbit/s
    Amr,
    /// AMR, octet-aligned
    AmrOctetAligned,
    /// Opus at a constant 6 to 510 kbit/s, frames of 2.5 to 60 ms
    Opus,
}

impl CodecName {
    fn codec(self) -> Codec {
        match self {
            CodecName::Gsm => Codec::Gsm,
            CodecName::Pcmu => Codec::Pcmu,
            CodecName::Pcma => Codec::Pcma,
            CodecName::G729 => Codec::G729,
            CodecName::G7291 => Codec::G7291,
            CodecName::Amr => Codec::Amr,
            CodecName::AmrOctetAligned => Codec::AmrOctetAligned,
            CodecName::Opus => Codec::Opus,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    /// A single port
    #[default]
    Ssrc,
    /// A port each, from the given one on
    Port,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum PhasesName {
    /// Packets of the streams spread over the interval
    #[default]
    #[value(alias = "spread")]
    Staggered,
    /// Packets of all streams at the same time
    #[value(alias = "unison")]
    Aligned,
}

/// Sends until all is sent or `stop` is set, and returns the exit code.
pub(super) fn run(args: &SendArgs, stop: &AtomicBool) -> Result<u8, String> {
    check_files(&[], args.json.as_deref()).map_err(|error| error.to_string())?;
    check_folders(args.json.as_deref())?;
    let plan = args.plan()?;
    let streams = if args.by == By::Port { Streams::ByPort } else { Streams::BySsrc };
    let seed = args.seed.unwrap_or_else(any_seed);
    let sender =
        Sender::new(plan, (args.address()?, args.dscp), streams, seed).map_err(|error| error.to_string())?;
    let bar = Progress::new(args.quiet, args.is_bounded().then(|| plan.packets()));
    let no_priority = |error: &std::io::Error| {
        if !args.quiet {
            note(&format!("no real-time priority ({error}), so a busy machine makes packets late"));
        }
    };
    let tally = sender.run_with_priority(stop, no_priority, |sent| bar.show(sent));
    bar.clear();
    if !args.quiet {
        out(&report::sent_text(&plan, &tally));
    }
    if let Some(path) = &args.json {
        write_json(path, &report::sent_json(&plan, &sender, &tally))?;
    }
    Ok(match tally {
        Tally { refused: 1.., .. } => 1,
        Tally { is_whole: false, .. } if args.is_bounded() => INTERRUPTED,
        _ => 0,
    })
}

#[expect(clippy::disallowed_methods, reason = "streams of two senders are to differ")]
fn any_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64 ^ u64::from(std::process::id()) << 48
}

impl SendArgs {
    fn is_bounded(&self) -> bool {
        self.duration.is_some() || self.packets.is_some()
    }

    fn plan(&self) -> Result<Plan, String> {
        let format = match self.payload {
            Some(payload) => {
                let payload_len = usize::try_from(payload.get()).unwrap_or(usize::MAX);
                Format::sized(payload_len, self.interval.unwrap_or(Span::from_millis(20)), self.clock)
            }
            None => {
                let format = self.codec.codec().format(self.rate, self.interval);
                format.map_err(|error| error.to_string())?
            }
        };
        let of = |duration: Span| duration.as_nanos().div_ceil(format.interval.as_nanos().max(1));
        let packets = self.packets.or(self.duration.map(of)).unwrap_or(u64::MAX);
        let phases = if self.phases == PhasesName::Aligned { Phases::Aligned } else { Phases::Staggered };
        let plan = Plan::new(format, self.streams, phases, packets);
        let plan =
            plan.and_then(|plan| self.refresh.map_or(Ok(plan), |refresh| plan.with_refreshes(refresh)));
        plan.map_err(|error| error.to_string())
    }

    fn address(&self) -> Result<SocketAddr, String> {
        let wrong = |why: String| format!("{:?} is not a destination: {why}; expected HOST:PORT", self.to);
        let found = self.to.to_socket_addrs().map_err(|error| wrong(error.to_string()))?.next();
        let found = found.ok_or_else(|| wrong("the name has no address".into()))?;
        if found.port() == 0 { Err(wrong("port 0 cannot be a destination".into())) } else { Ok(found) }
    }
}
