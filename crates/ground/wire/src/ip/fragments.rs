//! Fragments of IP packets, and their reassembly.
//!
//! IPv4: RFC 791, section 3.2. IPv6: RFC 8200, section 4.5; atomic fragments: RFC 6946. Fragments that overlap drop
//! their packet in both versions (RFC 5722; Linux does so for IPv4 too). One of the same place as another is its duplicate, and is dropped
//! alone (RFC 8200, section 4.5): the first one that came stays, as in Linux, which does not compare their bytes either. A damaged
//! one is found by the checksum of the whole packet.

use std::collections::VecDeque;
use std::net::IpAddr;

use bentpipe_units::{Span, Time};

use super::ipv6::ext;
use super::{Packet, Protocol, ipv4, ipv6};
use crate::bytes::put16;

/// Time after which an incomplete IPv4 packet is dropped (Linux `ipfrag_time`).
pub const TIMEOUT_V4: Span = Span::from_secs(30);
/// Time after which an incomplete IPv6 packet is dropped (RFC 8200, section 4.5).
pub const TIMEOUT_V6: Span = Span::from_secs(60);
/// Maximum number of incomplete packets; the oldest is dropped for another one.
pub const MAX_OPEN: usize = 64;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Returns a packet's fragments of at most `mtu` bytes, as a router makes them.
///
/// Returns `None` for what routers leave whole: IPv6, IPv4 with the don't-fragment flag, an MTU without room for eight bytes.
pub fn split(packet: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let ip = ipv4::Packet::new_checked(packet).ok()?;
    if ip.dont_fragment() {
        return None;
    }
    let (header, payload) = packet[..ip.total_len()].split_at(ip.header_len());
    let later = later_header(header);
    let (first, more) = (ip.fragment_offset(), ip.more_fragments());
    pieces(payload, mtu.checked_sub(header.len())?, |offset, is_last, piece| {
        let header = if offset == 0 { header } else { &later[..] };
        emit_v4(header, first + offset, !is_last || more, piece)
    })
}

/// Returns the fragments that fit in `mtu` bytes, as the packet's sender makes them.
///
/// They have `ident` as their identification, of which IPv4 takes the lower half, and no don't-fragment flag. Returns
/// `None` for a malformed packet, or an MTU without room for eight bytes.
pub fn split_at_source(packet: &[u8], mtu: usize, ident: u32) -> Option<Vec<Vec<u8>>> {
    match Packet::new_checked(packet).ok()? {
        Packet::V4(_) => {
            let mut packet = packet.to_vec();
            put16(&mut packet, 4, ident as u16);
            packet[6] &= !((DONT_FRAGMENT >> 8) as u8);
            split(&packet, mtu)
        }
        Packet::V6(ip) => split_v6(packet, &ip, mtu, ident),
    }
}

fn split_v6(packet: &[u8], ip: &ipv6::Packet<&[u8]>, mtu: usize, ident: u32) -> Option<Vec<Vec<u8>>> {
    let whole = &packet[..ip.total_len()];
    let (len, at) = per_fragment(whole)?;
    let (header, payload) = whole.split_at(len);
    pieces(payload, mtu.checked_sub(len + ext::FRAGMENT_LEN)?, |offset, is_last, piece| {
        let mut bytes = [header, &[0; ext::FRAGMENT_LEN], piece].concat();
        ext::Fragment { offset, more: !is_last, ident }.emit(Protocol(header[at]), &mut bytes[len..]);
        bytes[at] = Protocol::FRAGMENT.0;
        put_payload_len(&mut bytes);
        bytes
    })
}

/// Returns number and total length in bytes of a packet's fragments.
///
/// The packet has `len` bytes without options or extension headers. It is the only one if it fits in `mtu` bytes.
pub fn sizes(is_v4: bool, len: u64, mtu: u64) -> (u64, u64) {
    let (whole, part) = if is_v4 { (20, 20) } else { (40, 48) };
    let unit = mtu.saturating_sub(part) / 8 * 8;
    if len <= mtu || unit == 0 {
        return (1, len);
    }
    let payload = len - whole;
    let count = payload.div_ceil(unit);
    (count, payload + count * part)
}

/// Calls `make` with offset, "is last" and bytes of each piece.
///
/// Pieces have at most `most` bytes.
fn pieces<T>(payload: &[u8], most: usize, make: impl Fn(usize, bool, &[u8]) -> T) -> Option<Vec<T>> {
    if payload.is_empty() {
        return Some(vec![make(0, true, payload)]);
    }
    let unit = most / 8 * 8;
    let count = payload.len().div_ceil(unit.max(1));
    let each = |(n, piece): (usize, &[u8])| make(n * unit, n + 1 == count, piece);
    (unit > 0).then(|| payload.chunks(unit).enumerate().map(each).collect())
}

/// Returns the length of each fragment's headers, and the place of their last next-header octet.
///
/// They are the fixed header, hop-by-hop options, and all up to a routing header (RFC 8200, section 4.5). Returns `None`
/// for malformed headers and for what is a fragment already.
fn per_fragment(packet: &[u8]) -> Option<(usize, usize)> {
    let (mut len, mut at) = (ipv6::HEADER_LEN, 6);
    for header in ext::Headers::new(Protocol(packet[6]), &packet[ipv6::HEADER_LEN..]) {
        let header = header.ok()?;
        let start = ipv6::HEADER_LEN + header.offset;
        match header.protocol {
            Protocol::FRAGMENT => return None,
            Protocol::HOP_BY_HOP | Protocol::ROUTING => (len, at) = (start + header.bytes.len(), start),
            _ => {}
        }
    }
    Some((len, at))
}

/// Returns the header of IPv4 fragments after the first, with copied options alone.
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

/// Creates a fragment at `offset` with an IPv4 header's other fields.
fn emit_v4(header: &[u8], offset: usize, more: bool, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [header, payload].concat();
    let len = bytes.len() as u16;
    put16(&mut bytes, 2, len);
    put16(&mut bytes, 6, (offset / 8) as u16 | if more { MORE_FRAGMENTS } else { 0 });
    ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    bytes
}

fn put_payload_len(packet: &mut [u8]) {
    let len = packet.len() - ipv6::HEADER_LEN;
    put16(packet, 4, len as u16);
}

/// Identity of a packet: source, destination, identification, and IPv4's protocol.
type Identity = (IpAddr, IpAddr, u32, Option<Protocol>);

/// Fragment of a packet of either version.
struct Piece<'a> {
    identity: Identity,
    offset: usize,
    more: bool,
    /// Header of the whole packet but for its length; of use in the first fragment.
    header: Vec<u8>,
    payload: &'a [u8],
}

/// Incomplete packet.
#[derive(Debug)]
struct Open<T> {
    identity: Identity,
    since: Time,
    /// Header of the whole packet, from the first fragment.
    header: Option<Vec<u8>>,
    /// Offset and bytes of the pieces, by offset.
    pieces: Vec<(usize, Vec<u8>)>,
    /// Length of the payload, once the last fragment is there.
    len: Option<usize>,
    /// Attachments of its fragments.
    attached: Vec<T>,
}

/// Whole packet, with the attachments of its fragments in the order of their arrival.
pub type Whole<T> = (Vec<u8>, Vec<T>);

/// Incomplete packets of one receiver, at most [`MAX_OPEN`]. Fragments have attachments of type `T`.
#[derive(Debug)]
pub struct Reassembler<T = ()> {
    /// Packets, the oldest first.
    open: VecDeque<Open<T>>,
    /// Fragments of packets that were dropped.
    dropped: u64,
}

impl<T> Default for Reassembler<T> {
    fn default() -> Reassembler<T> {
        Reassembler { open: VecDeque::new(), dropped: 0 }
    }
}

impl Reassembler {
    /// Adds a fragment and returns the packet that it completes.
    ///
    /// A fragment that contradicts others drops their packet. A malformed packet is dropped alone.
    pub fn add(&mut self, packet: &[u8], now: Time) -> Option<Vec<u8>> {
        self.add_with(packet, now, ()).map(|(whole, _)| whole)
    }
}

impl<T> Reassembler<T> {
    /// Adds a fragment with an attachment, as [`Reassembler::add`] does.
    ///
    /// It returns the packet that is complete, with the attachments of its fragments. Those of a packet that is dropped are
    /// destroyed.
    pub fn add_with(&mut self, packet: &[u8], now: Time, attached: T) -> Option<Whole<T>> {
        self.expire(now);
        let whole = match Packet::new_checked(packet) {
            Ok(Packet::V4(ip)) => self.add_v4(&ip, now, attached),
            Ok(Packet::V6(ip)) => self.add_v6(packet, &ip, now, attached),
            Err(_) => Err(()),
        };
        whole.unwrap_or_else(|()| {
            self.dropped += 1;
            None
        })
    }

    fn add_v4(&mut self, ip: &ipv4::Packet<&[u8]>, now: Time, attached: T) -> Result<Option<Whole<T>>, ()> {
        let identity = (ip.src().into(), ip.dst().into(), ip.ident().into(), Some(ip.protocol()));
        let header = ip.into_inner()[..ip.header_len()].to_vec();
        let (offset, more) = (ip.fragment_offset(), ip.more_fragments());
        Ok(self.take(&Piece { identity, offset, more, header, payload: ip.payload() }, now, attached))
    }

    fn add_v6(
        &mut self,
        packet: &[u8],
        ip: &ipv6::Packet<&[u8]>,
        now: Time,
        attached: T,
    ) -> Result<Option<Whole<T>>, ()> {
        let whole = &packet[..ip.total_len()];
        let (start, at, fragment) = fragment_header(whole).ok_or(())?;
        let mut header = whole[..start].to_vec();
        header[at] = whole[start];
        let identity = (ip.src().into(), ip.dst().into(), fragment.ident, None);
        let payload = &whole[start + ext::FRAGMENT_LEN..];
        let ext::Fragment { offset, more, .. } = fragment;
        match fragment.is_atomic() {
            true => Ok(whole_of(&header, &[(0, payload.to_vec())]).map(|whole| (whole, vec![attached]))),
            false => Ok(self.take(&Piece { identity, offset, more, header, payload }, now, attached)),
        }
    }

    fn take(&mut self, piece: &Piece<'_>, now: Time, attached: T) -> Option<Whole<T>> {
        let n = self.open.iter().position(|open| open.identity == piece.identity);
        let n = n.unwrap_or_else(|| self.begin(piece.identity, now));
        self.open[n].attached.push(attached);
        if !self.open[n].add(piece) {
            self.drop_packet(n);
            return None;
        }
        let whole = self.open[n].whole()?;
        self.open.remove(n).map(|open| (whole, open.attached))
    }

    /// Begins a packet and returns its place.
    ///
    /// The oldest is dropped if there are too many.
    fn begin(&mut self, identity: Identity, now: Time) -> usize {
        if self.open.len() == MAX_OPEN {
            self.drop_packet(0);
        }
        let (header, pieces, attached) = (None, Vec::new(), Vec::new());
        self.open.push_back(Open { identity, since: now, header, pieces, len: None, attached });
        self.open.len() - 1
    }

    fn drop_packet(&mut self, n: usize) {
        self.dropped += self.open.remove(n).map_or(0, |open| open.pieces.len() as u64);
    }

    /// Drops the packets whose time is up.
    pub fn expire(&mut self, now: Time) {
        let is_late = |open: &Open<T>| {
            let most = if open.identity.0.is_ipv4() { TIMEOUT_V4 } else { TIMEOUT_V6 };
            now.since(open.since) > most
        };
        while let Some(n) = self.open.iter().position(is_late) {
            self.drop_packet(n);
        }
    }

    /// Returns the number of fragments of packets that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of fragments that wait for others.
    pub fn waiting(&self) -> u64 {
        self.open.iter().map(|open| open.pieces.len() as u64).sum()
    }
}

/// Returns start and fields of an IPv6 packet's fragment header.
///
/// Last is the place of the next-header octet before it.
fn fragment_header(packet: &[u8]) -> Option<(usize, usize, ext::Fragment)> {
    let mut before = 6;
    for header in ext::Headers::new(Protocol(packet[6]), &packet[ipv6::HEADER_LEN..]) {
        let header = header.ok()?;
        let start = ipv6::HEADER_LEN + header.offset;
        if header.protocol == Protocol::FRAGMENT {
            return Some((start, before, ext::Fragment::read(header.bytes)));
        }
        before = start;
    }
    None
}

impl<T> Open<T> {
    /// Returns `true` if the fragment, which is added, agrees with others. A duplicate of one that came is left out.
    fn add(&mut self, piece: &Piece<'_>) -> bool {
        let (offset, payload) = (piece.offset, piece.payload);
        let end = offset + payload.len();
        if self.pieces.iter().any(|(at, bytes)| (*at, bytes.len()) == (offset, payload.len())) {
            return true;
        }
        let overlaps = self.pieces.iter().any(|(at, bytes)| *at < end && offset < at + bytes.len());
        let is_odd = piece.more && (payload.is_empty() || !payload.len().is_multiple_of(8));
        let wrong_end = match (piece.more, self.len) {
            (_, Some(len)) => end > len || !piece.more && end != len,
            (false, None) => self.pieces.iter().any(|(at, bytes)| at + bytes.len() > end),
            (true, None) => false,
        };
        let at = self.pieces.partition_point(|(at, _)| *at < offset);
        self.pieces.insert(at, (offset, payload.to_vec()));
        if !piece.more {
            self.len = Some(end);
        }
        if offset == 0 {
            self.header = Some(piece.header.clone());
        }
        !(overlaps || is_odd || wrong_end || end > usize::from(u16::MAX))
    }

    /// Returns the packet if nothing is missing.
    fn whole(&self) -> Option<Vec<u8>> {
        let (header, len) = (self.header.as_ref()?, self.len?);
        let have: usize = self.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        if have != len {
            return None;
        }
        whole_of(header, &self.pieces)
    }
}

/// Creates a packet of a header and all pieces.
///
/// Returns `None` if its length field cannot hold the length.
fn whole_of(header: &[u8], pieces: &[(usize, Vec<u8>)]) -> Option<Vec<u8>> {
    let payload: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes).copied().collect();
    let most = usize::from(u16::MAX);
    if header[0] >> 4 == 4 {
        return (header.len() + payload.len() <= most).then(|| emit_v4(header, 0, false, &payload));
    }
    let mut bytes = [header, &payload].concat();
    (bytes.len() - ipv6::HEADER_LEN <= most).then(|| {
        put_payload_len(&mut bytes);
        bytes
    })
}

#[cfg(test)]
mod tests;
