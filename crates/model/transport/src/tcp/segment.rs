//! Segments: fields read from arriving ones, fields written to departing ones.

use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{Body, Packet};
use bentpipe_wire::ip::{self, Ecn, Protocol};
use bentpipe_wire::quick_start::{self, Function, Response};
use bentpipe_wire::tcp::{self, Flags, Options, SeqNumber};

/// A segment that came in, its checksum checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) src: SocketAddr,
    pub(super) seq: SeqNumber,
    pub(super) ack: Option<SeqNumber>,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) timestamps: Option<(u32, u32)>,
    /// Full options, if there are others than timestamps.
    pub(super) options: Option<Options>,
    /// Payload in bytes.
    pub(super) len: u32,
    /// Congestion experienced.
    pub(super) congestion: bool,
    /// The answer to the Quick-Start request in its packet, if there is one.
    pub(super) quick_start: Option<Response>,
}

impl Incoming {
    /// Parses a packet; returns `None` unless it has a valid TCP segment to `local`.
    pub(super) fn parse(packet: &Packet, local: SocketAddr) -> Option<Incoming> {
        let (segment, dst) = match packet.body() {
            Body::Zeros(count) => Incoming::read(packet.header(), *count as usize),
            Body::Bytes(_) => Incoming::read(&packet.to_vec(), 0),
            Body::Carried(_) => None,
        }?;
        (dst == local).then_some(segment)
    }

    /// Returns the segment and its destination.
    fn read(bytes: &[u8], elided: usize) -> Option<(Incoming, SocketAddr)> {
        let ip = ip::Packet::new_elided(bytes, elided).ok()?;
        let upper = ip.upper().ok()?;
        if upper.protocol != Protocol::TCP || upper.is_fragment {
            return None;
        }
        let segment = tcp::Segment::new_elided(upper.bytes, upper.elided).ok()?;
        segment.verify_checksum(&upper.pseudo).ok()?;
        let (timestamps, options) = read_options(segment.options())?;
        let dst = SocketAddr::new(ip.dst(), segment.dst_port());
        let request = quick_start::find(bytes).map(|(_, option)| option);
        let request = request.filter(|option| option.function == Function::Request);
        let incoming = Incoming {
            src: SocketAddr::new(ip.src(), segment.src_port()),
            seq: segment.seq(),
            ack: segment.ack(),
            flags: segment.flags(),
            window: segment.window(),
            timestamps,
            options,
            len: segment.payload_len() as u32,
            congestion: ip.traffic_class().ecn() == Ecn::Ce,
            quick_start: request.map(|request| Response::to(&request, ip.hop_limit())),
        };
        Some((incoming, dst))
    }

    #[inline]
    pub(super) fn has(&self, flag: Flags) -> bool {
        self.flags.contains(flag)
    }

    /// Returns all options.
    pub(super) fn options(&self) -> Options {
        self.options.unwrap_or(Options { timestamps: self.timestamps, ..Options::NONE })
    }

    /// Returns the length in sequence space.
    pub(super) fn seq_len(&self) -> u32 {
        self.len + u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN))
    }
}

/// A segment to send, but for what all segments of a connection have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) seq: SeqNumber,
    pub(super) ack: Option<SeqNumber>,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) extras: Extras,
    /// Payload in bytes.
    pub(super) len: u32,
    /// ECN-capable.
    pub(super) ect: bool,
}

/// The options of a segment to send.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::large_enum_variant, reason = "it lives for one call")]
pub(super) enum Extras {
    None,
    Timestamps(u32, u32),
    Other(Options),
}

impl Extras {
    pub(super) fn options(self) -> Options {
        match self {
            Extras::None => Options::NONE,
            Extras::Timestamps(tsval, tsecr) => Options::timestamps(tsval, tsecr),
            Extras::Other(options) => options,
        }
    }
}

/// Timestamps, and all options where there are others too.
type Read = (Option<(u32, u32)>, Option<Options>);

/// Parses the options of a segment; returns `None` if they are malformed.
#[inline]
fn read_options(bytes: &[u8]) -> Option<Read> {
    if bytes.is_empty() {
        return Some((None, None));
    }
    if let Some(timestamps) = Options::timestamps_alone(bytes) {
        return Some((Some(timestamps), None));
    }
    let options = Options::parse(bytes).ok()?;
    Some((options.timestamps, Some(options)))
}

/// Returns the maximum payload next to `header_len` bytes of IP and TCP headers.
pub(super) fn largest_payload(local: IpAddr) -> u64 {
    // IPv6 counts its own header apart, but 65535 is enough for both.
    let ip = if local.is_ipv4() { 20 } else { 0 };
    65_535 - ip - tcp::MAX_HEADER_LEN as u64
}
