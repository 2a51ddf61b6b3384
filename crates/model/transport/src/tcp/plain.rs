//! Headers of nearly all segments of a long transfer, written once and then patched.
//!
//! They are IP without options or extension headers, and TCP with timestamps as the only option or none.
//! Arriving ones are recognised by their constant part. The checksums of departing ones are computed from the
//! sum of the constant part and the fields that change; nothing is read again.

use std::net::{IpAddr, SocketAddr};

use bentpipe_net::Packet;
use bentpipe_wire::checksum::{Accumulator, Pseudo};
use bentpipe_wire::ip::{Ecn, Protocol, TrafficClass};
use bentpipe_wire::tcp::{Flags, SeqNumber};

use super::segment::{Extras, Incoming, Outgoing};

/// Offsets in the IPv4 header.
mod v4 {
    pub(super) const LEN: usize = 20;
    pub(super) const VERSION_IHL: usize = 0;
    pub(super) const TOS: usize = 1;
    pub(super) const TOTAL_LEN: usize = 2;
    pub(super) const IDENT: usize = 4;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
    pub(super) const ADDRESSES: usize = 12;
}

/// Offsets in the IPv6 header.
mod v6 {
    pub(super) const LEN: usize = 40;
    /// The low bits of the traffic class, ECN lowest, then the flow label.
    pub(super) const CLASS: usize = 1;
    pub(super) const PAYLOAD_LEN: usize = 4;
}

/// Offsets in the TCP header, options included.
mod tcp {
    pub(super) const SEQ: usize = 4;
    pub(super) const ACK: usize = 8;
    pub(super) const OFFSET_FLAGS: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: usize = 14;
    pub(super) const CHECKSUM: usize = 16;
    pub(super) const OPTIONS: usize = 20;
    pub(super) const TSVAL: usize = 24;
    pub(super) const TSECR: usize = 28;
    pub(super) const LEN: usize = 20;
    pub(super) const LEN_WITH_TIMESTAMPS: usize = 32;
}

/// The more-fragments flag and the fragment offset.
const IS_FRAGMENT: u16 = 0x3fff;
/// NOP, NOP, and the timestamps option's kind and length (RFC 7323, appendix A).
const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

/// The lengths of IP header and both headers, of each kind that there is.
const V4: usize = v4::LEN + tcp::LEN;
const V4_TIMESTAMPS: usize = v4::LEN + tcp::LEN_WITH_TIMESTAMPS;
const V6: usize = v6::LEN + tcp::LEN;
const V6_TIMESTAMPS: usize = v6::LEN + tcp::LEN_WITH_TIMESTAMPS;

/// ECT(0).
const ECT0: u8 = 2;

/// Headers to be patched. The fields that change are zero in them, and so are the checksums.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    blank: Packet,
    len: usize,
    remote: SocketAddr,
    /// Source and destination address and port of arriving segments; IPv4 only.
    incoming: [u8; 12],
    ip_sum: u16,
    tcp_sum: u16,
    pseudo_sum: u16,
}

impl Plain {
    /// Creates the headers of segments from `local` to `remote`.
    ///
    /// `blank` is a segment without payload whose numbers, window and timestamps are zero.
    pub(super) fn new(mut blank: Packet, local: SocketAddr, remote: SocketAddr, pseudo: &Pseudo) -> Plain {
        let (len, ip_len) = (blank.len(), if local.is_ipv4() { v4::LEN } else { v6::LEN });
        let changing: &[usize] =
            if ip_len == v4::LEN { &[v4::TOTAL_LEN, v4::IDENT, v4::CHECKSUM] } else { &[v6::PAYLOAD_LEN] };
        let changing = changing.iter().copied().chain([ip_len + tcp::CHECKSUM]);
        changing.for_each(|at| blank.header_mut()[at..at + 2].fill(0));
        let (ip, tcp) = blank.header().split_at(ip_len);
        let (ip_sum, pseudo_sum) = (Accumulator::ZERO.add_bytes(ip).fold(), pseudo.sum(tcp.len()).fold());
        let tcp_sum = pseudo.sum(tcp.len()).add_bytes(tcp).fold();
        Plain { blank, len, remote, incoming: mirror(local, remote), ip_sum, tcp_sum, pseudo_sum }
    }

    /// Returns `true` if these are the headers for a segment with `extras`.
    #[inline]
    pub(super) fn fits(&self, extras: &Extras) -> bool {
        match extras {
            Extras::None => matches!(self.len, V4 | V6),
            Extras::Timestamps(..) => matches!(self.len, V4_TIMESTAMPS | V6_TIMESTAMPS),
            Extras::Other(_) => false,
        }
    }

    /// Returns the packet that carries `segment` with the acknowledgement `ack`.
    #[inline]
    pub(super) fn packet(&self, segment: &Outgoing, ack: SeqNumber, ident: u16) -> Packet {
        let mut packet = self.blank.like(segment.len);
        match self.len {
            V4_TIMESTAMPS => self.patch::<V4_TIMESTAMPS>(&mut packet, segment, ack, ident),
            V4 => self.patch::<V4>(&mut packet, segment, ack, ident),
            V6_TIMESTAMPS => self.patch::<V6_TIMESTAMPS>(&mut packet, segment, ack, ident),
            _ => self.patch::<V6>(&mut packet, segment, ack, ident),
        }
        packet
    }

    /// Patches the segment's own fields into headers of `LEN` bytes.
    #[inline]
    fn patch<const LEN: usize>(&self, packet: &mut Packet, segment: &Outgoing, ack: SeqNumber, ident: u16) {
        let Some(header) = packet.header_end_mut::<LEN>() else { return };
        let tcp = if LEN >= V6 { v6::LEN } else { v4::LEN };
        if tcp == v4::LEN {
            self.patch_v4(header, segment, ident);
        } else {
            header[v6::CLASS] |= if segment.ect { ECT0 << 4 } else { 0 };
            put(header, v6::PAYLOAD_LEN, ((LEN - v6::LEN) as u16 + segment.len as u16).to_be_bytes());
        }
        let flags = (segment.flags | Flags::ACK).bits() as u8;
        // The template has the ACK flag already.
        let flag_change = u32::from(flags) - u32::from(Flags::ACK.bits());
        let mut sum = u64::from(self.tcp_sum) + u64::from(segment.seq.0) + u64::from(ack.0);
        sum += u64::from(flag_change) + u64::from(segment.window) + u64::from(segment.len);
        put(header, tcp + tcp::SEQ, segment.seq.0.to_be_bytes());
        put(header, tcp + tcp::ACK, ack.0.to_be_bytes());
        header[tcp + tcp::FLAGS] = flags;
        put(header, tcp + tcp::WINDOW, segment.window.to_be_bytes());
        if let Extras::Timestamps(tsval, tsecr) = segment.extras
            && LEN == tcp + tcp::LEN_WITH_TIMESTAMPS
        {
            put(header, tcp + tcp::TSVAL, tsval.to_be_bytes());
            put(header, tcp + tcp::TSECR, tsecr.to_be_bytes());
            sum += u64::from(tsval) + u64::from(tsecr);
        }
        put(header, tcp + tcp::CHECKSUM, Accumulator::ZERO.add(sum).checksum().to_be_bytes());
    }

    #[inline]
    fn patch_v4<const LEN: usize>(&self, header: &mut [u8; LEN], segment: &Outgoing, ident: u16) {
        let (total_len, tos) = (LEN as u32 + segment.len, if segment.ect { ECT0 } else { 0 });
        let sum = u64::from(self.ip_sum) + u64::from(total_len) + u64::from(ident) + u64::from(tos);
        header[v4::TOS] = tos;
        put(header, v4::TOTAL_LEN, (total_len as u16).to_be_bytes());
        put(header, v4::IDENT, ident.to_be_bytes());
        put(header, v4::CHECKSUM, Accumulator::ZERO.add(sum).checksum().to_be_bytes());
    }

    /// Returns the segment in a packet with these headers reversed and a correct checksum.
    ///
    /// `None` means that the packet needs the general path.
    #[inline]
    pub(super) fn read(&self, packet: &Packet) -> Option<Incoming> {
        match self.len {
            V4_TIMESTAMPS => self.recognise::<V4_TIMESTAMPS>(packet),
            V4 => self.recognise::<V4>(packet),
            _ => None,
        }
    }

    #[inline]
    fn recognise<const LEN: usize>(&self, packet: &Packet) -> Option<Incoming> {
        let header = packet.header_end::<LEN>().filter(|_| packet.header().len() == LEN)?;
        let len = packet.len() - LEN;
        let ours = header[v4::VERSION_IHL] == 0x45
            && usize::from(word(header, v4::TOTAL_LEN)) == packet.len()
            && word(header, v4::FRAGMENT) & IS_FRAGMENT == 0
            && header[v4::PROTOCOL] == Protocol::TCP.0
            && part(header, v4::ADDRESSES) == self.incoming
            && usize::from(header[v4::LEN + tcp::OFFSET_FLAGS] >> 4) * 4 == LEN - v4::LEN;
        let has_timestamps = LEN == V4_TIMESTAMPS;
        let options_fit = !has_timestamps || part(header, v4::LEN + tcp::OPTIONS) == TIMESTAMPS;
        if !ours || !options_fit || packet.elided() != len {
            return None;
        }
        let sum = Accumulator::ZERO.add(self.pseudo_sum.into()).add(len as u64).add_bytes(&header[v4::LEN..]);
        if !sum.is_valid() {
            return None;
        }
        let flags = Flags::from_bits(word(header, v4::LEN + tcp::OFFSET_FLAGS));
        let number = |at: usize| u32::from_be_bytes(part(header, v4::LEN + at));
        Some(Incoming {
            src: self.remote,
            seq: SeqNumber(number(tcp::SEQ)),
            ack: flags.contains(Flags::ACK).then(|| SeqNumber(number(tcp::ACK))),
            flags,
            window: word(header, v4::LEN + tcp::WINDOW),
            timestamps: has_timestamps.then(|| (number(tcp::TSVAL), number(tcp::TSECR))),
            options: None,
            len: len as u32,
            congestion: TrafficClass(header[v4::TOS]).ecn() == Ecn::Ce,
            quick_start: None,
        })
    }
}

/// Returns addresses and ports of packets from `remote` to `local`, as in their headers.
fn mirror(local: SocketAddr, remote: SocketAddr) -> [u8; 12] {
    let mut out = [0; 12];
    if let (IpAddr::V4(from), IpAddr::V4(to)) = (remote.ip(), local.ip()) {
        put(&mut out, 0, from.octets());
        put(&mut out, 4, to.octets());
        put(&mut out, 8, remote.port().to_be_bytes());
        put(&mut out, 10, local.port().to_be_bytes());
    }
    out
}

#[inline]
fn put<const N: usize>(header: &mut [u8], at: usize, bytes: [u8; N]) {
    header[at..at + N].copy_from_slice(&bytes);
}

#[inline]
fn part<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&header[at..at + N]);
    out
}

#[inline]
fn word(header: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(part(header, at))
}
