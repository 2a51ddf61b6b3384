//! Fragmentation of IPv4 packets (RFC 791, section 3.2) and reassembly at their destination.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use bentpipe_units::{Span, Time};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::ipv4;

use crate::Packet;

/// Time after which an incomplete datagram is dropped (Linux `ipfrag_time`).
const TIMEOUT: Span = Span::from_secs(30);
/// Maximum number of incomplete datagrams; the oldest is dropped for another one.
const MAX_OPEN: usize = 64;
/// Offset of flags and fragment offset in the header.
const FLAGS: usize = 6;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Returns the fragments of an IPv4 packet that fit in `mtu` bytes.
///
/// Returns `None` if the packet must not or cannot be fragmented.
pub(super) fn split(packet: &Packet, mtu: usize) -> Option<Vec<Packet>> {
    let bytes = packet.to_vec();
    let ip = ipv4::Packet::new_checked(&bytes[..]).ok()?;
    let (header, payload) = bytes.split_at(ip.header_len());
    let later = later_header(header);
    let unit = mtu.checked_sub(header.len())? / 8 * 8;
    if ip.dont_fragment() || unit == 0 {
        return None;
    }
    let (first, more) = (ip.fragment_offset(), ip.more_fragments());
    let pieces = payload.chunks(unit).enumerate();
    let fragment = |(n, piece): (usize, &[u8])| {
        let is_last = (n + 1) * unit >= payload.len();
        let head = if n == 0 { header } else { &later[..] };
        let mut packet_of = emit(head, first + n * unit, !is_last || more, piece);
        packet_of.set_created_at(packet.created_at());
        packet_of
    };
    Some(pieces.map(fragment).collect())
}

/// Returns the header of fragments after the first, with copied options alone.
fn later_header(header: &[u8]) -> Vec<u8> {
    let (fixed, mut options) = header.split_at(ipv4::HEADER_LEN);
    let mut later = fixed.to_vec();
    while let [kind, rest @ ..] = options {
        let len = match (kind, rest) {
            (0, _) => break,
            (1, _) => 1,
            (_, [len, ..]) if (2..=options.len()).contains(&usize::from(*len)) => usize::from(*len),
            _ => break,
        };
        if kind & 0x80 != 0 {
            later.extend_from_slice(&options[..len]);
        }
        options = &options[len..];
    }
    later.resize(later.len().next_multiple_of(4), 0);
    later[0] = 0x40 | (later.len() / 4) as u8;
    later
}

/// Creates a packet of a header with the fields of a fragment at `offset`.
fn emit(header: &[u8], offset: usize, more: bool, payload: &[u8]) -> Packet {
    let mut bytes = [header, payload].concat();
    let len = bytes.len() as u16;
    let flags = (offset / 8) as u16 | if more { MORE_FRAGMENTS } else { 0 };
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes[FLAGS..FLAGS + 2].copy_from_slice(&flags.to_be_bytes());
    ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    Packet::from_bytes(&bytes)
}

/// Identity of a datagram (RFC 791): source, destination, protocol and identification.
type Identity = (Ipv4Addr, Ipv4Addr, Protocol, u16);

/// Incomplete datagram.
#[derive(Debug)]
struct Datagram {
    identity: Identity,
    since: Time,
    /// Header of the first fragment.
    header: Option<Vec<u8>>,
    /// Offset and bytes of the pieces, by offset.
    pieces: Vec<(usize, Vec<u8>)>,
    /// Length of the payload, once the last fragment is there.
    len: Option<usize>,
}

/// Incomplete datagrams of a node.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// Datagrams, the oldest first.
    open: VecDeque<Datagram>,
    /// Fragments of datagrams that were dropped.
    dropped: u64,
}

impl Reassembly {
    /// Adds a fragment and returns the packet that it completes. A fragment that contradicts others drops the datagram.
    pub(super) fn add(&mut self, packet: &Packet, now: Time) -> Option<Packet> {
        self.expire(now);
        let bytes = packet.to_vec();
        let ip = ipv4::Packet::new_checked(&bytes[..]).ok()?;
        let identity = (ip.src(), ip.dst(), ip.protocol(), ip.ident());
        let n = self.open.iter().position(|open| open.identity == identity);
        let n = n.unwrap_or_else(|| self.begin(identity, now));
        if !self.open[n].add(&ip) {
            self.drop_datagram(n);
            return None;
        }
        let mut whole = self.open[n].whole()?;
        self.open.remove(n);
        whole.set_created_at(packet.created_at());
        Some(whole)
    }

    /// Begins a datagram and returns its place. The oldest is dropped if there are too many.
    fn begin(&mut self, identity: Identity, now: Time) -> usize {
        if self.open.len() == MAX_OPEN {
            self.drop_datagram(0);
        }
        self.open.push_back(Datagram { identity, since: now, header: None, pieces: Vec::new(), len: None });
        self.open.len() - 1
    }

    fn drop_datagram(&mut self, n: usize) {
        self.dropped += self.open.remove(n).map_or(0, |datagram| datagram.pieces.len() as u64);
    }

    /// Drops the datagrams whose time is up.
    pub(super) fn expire(&mut self, now: Time) {
        while self.open.front().is_some_and(|oldest| now.since(oldest.since) > TIMEOUT) {
            self.drop_datagram(0);
        }
    }

    /// Returns the number of fragments of datagrams that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Datagram {
    /// Returns `true` if the fragment, which is added, agrees with others.
    fn add(&mut self, ip: &ipv4::Packet<&[u8]>) -> bool {
        let (offset, payload) = (ip.fragment_offset(), ip.payload());
        let end = offset + payload.len();
        let is_twin = self.pieces.iter().any(|(at, bytes)| (*at, &bytes[..]) == (offset, payload));
        let overlaps = self.pieces.iter().any(|(at, bytes)| *at < end && offset < at + bytes.len());
        let is_odd = ip.more_fragments() && !payload.len().is_multiple_of(8);
        let wrong_end = match (ip.more_fragments(), self.len) {
            (_, Some(len)) => end > len || !ip.more_fragments() && end != len,
            (false, None) => self.pieces.iter().any(|(at, bytes)| at + bytes.len() > end),
            (true, None) => false,
        };
        let at = self.pieces.partition_point(|(at, _)| *at < offset);
        if !is_twin {
            self.pieces.insert(at, (offset, payload.to_vec()));
        }
        if !ip.more_fragments() {
            self.len = Some(end);
        }
        if offset == 0 {
            self.header = Some(ip.into_inner()[..ip.header_len()].to_vec());
        }
        is_twin || !(overlaps || is_odd || wrong_end || end > usize::from(u16::MAX))
    }

    /// Returns the packet if nothing is missing.
    fn whole(&self) -> Option<Packet> {
        let (header, len) = (self.header.as_ref()?, self.len?);
        let have: usize = self.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        let fits = header.len() + len <= usize::from(u16::MAX);
        let payload = || self.pieces.iter().flat_map(|(_, bytes)| bytes).copied().collect::<Vec<u8>>();
        (have == len && fits).then(|| emit(header, 0, false, &payload()))
    }
}
