//! Segments as packets: reading those that come in, writing those that go out.

use std::net::{IpAddr, SocketAddr};

use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::{self, Ecn, Protocol, TrafficClass};
use bentpipe_wire::quick_start::{self, Function, IpOption, Response};
use bentpipe_wire::tcp::{self, Flags, Options, SeqNumber};

use super::plain::Plain;
use crate::datagram::Path;
use crate::{Body, Packet};

/// A segment that came in, its checksum checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) src: SocketAddr,
    pub(super) seq: SeqNumber,
    pub(super) ack: Option<SeqNumber>,
    pub(super) flags: Flags,
    pub(super) window: u16,
    pub(super) timestamps: Option<(u32, u32)>,
    /// All options, where there are others than timestamps.
    pub(super) options: Option<Options>,
    /// Payload in bytes.
    pub(super) len: u32,
    /// Congestion experienced.
    pub(super) congestion: bool,
    /// The answer to the Quick-Start request in its packet, if there is one.
    pub(super) quick_start: Option<Response>,
}

impl Incoming {
    /// Reads a packet; `None` if it is not a whole and sound TCP segment to `local`.
    pub(super) fn parse(packet: &Packet, local: SocketAddr) -> Option<Incoming> {
        let (segment, dst) = match packet.body() {
            Body::Zeros(count) => Incoming::read(packet.header(), *count as usize),
            Body::Bytes(_) => Incoming::read(&packet.to_vec(), 0),
            Body::Cells(_) | Body::Unit(_) => None,
        }?;
        (dst == local).then_some(segment)
    }

    /// The segment and where it goes.
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

    /// All its options.
    pub(super) fn options(&self) -> Options {
        self.options.unwrap_or(Options { timestamps: self.timestamps, ..Options::NONE })
    }

    /// The sequence space it takes.
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

/// The options of a segment; `None` if they make no sense.
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

/// What all segments of a connection have in common.
#[derive(Clone, Debug)]
pub(super) struct Template {
    plain: Option<Plain>,
    ident: u16,
    ip: ip::Repr,
    pseudo: Pseudo,
    local: SocketAddr,
    remote: SocketAddr,
}

impl Template {
    /// The headers from `local` to `remote`; `None` if they are of different IP versions.
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> Option<Template> {
        if local.is_ipv4() != remote.is_ipv4() {
            return None;
        }
        let ip = ip::Repr::new(local.ip(), remote.ip(), Protocol::TCP, 0);
        let pseudo = Pseudo::new(local.ip(), remote.ip(), Protocol::TCP);
        Some(Template { plain: None, ident: 0, ip, pseudo, local, remote })
    }

    /// The packet that carries `segment`.
    #[inline]
    pub(super) fn packet(&mut self, segment: &Outgoing) -> Packet {
        self.ident = self.ident.wrapping_add(1);
        match (&self.plain, segment.ack) {
            (Some(plain), Some(ack)) if plain.fits(&segment.extras) => plain.packet(segment, ack, self.ident),
            _ => self.any_packet(segment),
        }
    }

    /// The connection is established: most segments carry `timestamps` and no other option, or none.
    pub(super) fn settle(&mut self, timestamps: bool) {
        let extras = if timestamps { Extras::Timestamps(0, 0) } else { Extras::None };
        let none = SeqNumber(0);
        let blank = Outgoing {
            seq: none,
            ack: Some(none),
            flags: Flags::NONE,
            window: 0,
            extras,
            len: 0,
            ect: false,
        };
        let packet = self.any_packet(&blank);
        self.plain = Some(Plain::new(packet, self.local, self.remote, &self.pseudo));
    }

    /// The segment in a packet of the peer's that looks like most; any other is for [`Incoming::parse`].
    #[inline]
    pub(super) fn read(&self, packet: &Packet) -> Option<Incoming> {
        self.plain.as_ref()?.read(packet)
    }

    /// The packet that carries `segment`, with a Quick-Start option in its IP header.
    pub(super) fn packet_with(&mut self, option: &IpOption, segment: &Outgoing) -> Packet {
        self.ident = self.ident.wrapping_add(1);
        let repr = self.repr(segment);
        let mut tcp = vec![0; repr.buffer_len()];
        repr.emit(&mut tcp);
        self.fill_checksum(&mut tcp, segment.len as usize);
        let path = Path::new(self.local, self.remote, 0).expect("one IP version, and a codepoint there is");
        path.packet(Protocol::TCP, Some(option), &tcp, segment.len)
    }

    /// What a segment with data has beside it, in bytes.
    pub(super) fn header_len(&self, timestamps: bool) -> u64 {
        let options = if timestamps { Options::timestamps(0, 0).buffer_len() } else { 0 };
        (self.ip.buffer_len() + tcp::HEADER_LEN + options) as u64
    }

    fn repr(&self, segment: &Outgoing) -> tcp::Repr {
        tcp::Repr {
            src_port: self.local.port(),
            dst_port: self.remote.port(),
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            urgent: None,
            options: segment.extras.options(),
        }
    }

    fn any_packet(&mut self, segment: &Outgoing) -> Packet {
        let repr = self.repr(segment);
        let tcp_len = repr.buffer_len();
        self.prepare_ip(tcp_len + segment.len as usize, segment.ect);
        let ip_len = self.ip.buffer_len();
        let mut packet = Packet::new(ip_len + tcp_len, segment.len);
        let (ip, tcp) = packet.header_mut().split_at_mut(ip_len);
        self.ip.emit(ip);
        repr.emit(tcp);
        self.fill_checksum(tcp, segment.len as usize);
        packet
    }

    #[inline]
    fn prepare_ip(&mut self, payload_len: usize, ect: bool) {
        let class = TrafficClass::default().with_ecn(if ect { Ecn::Ect0 } else { Ecn::NotEct });
        match &mut self.ip {
            ip::Repr::V4(repr) => {
                repr.payload_len = payload_len;
                repr.traffic_class = class;
                repr.ident = self.ident;
            }
            ip::Repr::V6(repr) => {
                repr.payload_len = payload_len;
                repr.traffic_class = class;
            }
        }
    }

    #[inline]
    fn fill_checksum(&self, tcp: &mut [u8], elided: usize) {
        if let Ok(mut segment) = tcp::Segment::new_elided(tcp, elided) {
            segment.fill_checksum(&self.pseudo);
        }
    }
}

/// The most payload that fits a packet beside `header_len` bytes of IP and TCP headers.
pub(super) fn largest_payload(local: IpAddr) -> u64 {
    // IPv6 counts its own header apart, but 65535 is enough for both.
    let ip = if local.is_ipv4() { 20 } else { 0 };
    65_535 - ip - tcp::MAX_HEADER_LEN as u64
}
