//! Chain of headers of an IP packet to compress.
//!
//! The views of `bentpipe-wire` are not used here: the compressor needs to know not what a header says but whether
//! everything that compressed headers leave out could be put back byte for byte (lengths, checksums, reserved bits),
//! and where a chain must stop otherwise. It also must accept packets of which only the headers are given.

use crate::framework::config::{RtpCandidate, RtpRule};
use crate::framework::octets::Truncated;

/// Maximum number of IP headers in a chain. A deeper one is payload after an explicit end of the chain (RFC 3843
/// 3.1).
pub(crate) const MAX_LEVELS: usize = 8;
/// Octets of extension headers behind one IP header that are compressed.
pub(crate) const MAX_EXTENSION_BYTES: usize = 512;
/// Maximum number of extension headers of an IP header (RFC 3095 5.8.6.1).
pub(crate) const MAX_EXTENSIONS: usize = 15;

/// Protocol numbers.
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const GRE: u8 = 47;
    pub(crate) const ESP: u8 = 50;
    pub(crate) const AH: u8 = 51;
    pub(crate) const MINIMAL: u8 = 55;
    pub(crate) const DESTINATION: u8 = 60;
    pub(crate) const UDP_LITE: u8 = 136;
}

/// IP header with its extension headers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    /// Offset of the IP header.
    pub(crate) at: usize,
    /// 4 or 6.
    pub(crate) version: u8,
    /// Offset behind the IP header: the first extension header, if any.
    pub(crate) extensions_at: usize,
    /// Octets of extension headers that list compression can carry.
    pub(crate) extensions_len: usize,
    /// Type of the first extension header, or of what follows.
    pub(crate) first: u8,
    /// Type of what follows the extension headers.
    pub(crate) next: u8,
}

impl Level {
    /// Creates the level of a single IP header without extension headers.
    #[inline]
    pub(crate) const fn plain(is_ipv4: bool, next: u8) -> Self {
        let (version, extensions_at) = if is_ipv4 { (4, 20) } else { (6, 40) };
        Self { at: 0, version, extensions_at, extensions_len: 0, first: next, next }
    }

    /// Offset behind header and extension headers.
    pub(crate) const fn end(&self) -> usize {
        self.extensions_at + self.extensions_len
    }
}

/// Transport after the last IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    UdpLite,
    Esp,
    Tcp,
    Other,
}

/// A packet and its chain of headers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// The octets given: all headers, and all or none of the payload.
    pub(crate) bytes: &'a [u8],
    /// Length of the packet, octets not given included.
    pub(crate) len: usize,
    levels: [Level; MAX_LEVELS],
    depth: usize,
    /// Transport after the last level, if it is whole.
    pub(crate) transport: Transport,
    /// Set if the UDP or UDP-Lite payload is RTP, by the caller's rule.
    pub(crate) rtp: bool,
    /// The chain stops here although another IP header follows.
    pub(crate) cut: bool,
}

impl<'a> Packet<'a> {
    /// Parses `bytes`, the first octets of a packet of `len` octets.
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8], len: usize, rule: &RtpRule) -> Self {
        let mut packet = Self {
            bytes,
            len,
            levels: [Level::default(); MAX_LEVELS],
            depth: 0,
            transport: Transport::Other,
            rtp: false,
            cut: false,
        };
        packet.find_levels();
        if packet.depth > 0 && !packet.cut {
            packet.find_transport(rule);
        }
        packet
    }

    /// Ends the chain before any list and before a third IP header. RTP with CSRCs becomes UDP.
    pub(crate) fn without_lists(mut self) -> Self {
        let listed = self.levels().iter().position(|level| level.extensions_len > 0);
        let last = listed.unwrap_or(MAX_LEVELS).min(1);
        if listed.is_some_and(|at| at <= last) || self.depth > last + 1 {
            let level = &mut self.levels[last];
            (level.extensions_len, level.next) = (0, level.first);
            self.depth = last + 1;
            self.cut = matches!(level.next, protocol::IPV4 | protocol::IPV6);
            (self.transport, self.rtp) = (Transport::Other, false);
        }
        self.rtp = self.rtp && self.bytes[self.transport_at() + 8] & 0x0f == 0;
        self
    }

    /// The IP headers, outermost first; empty when the first one cannot be compressed.
    pub(crate) fn levels(&self) -> &[Level] {
        &self.levels[..self.depth]
    }

    /// Returns `true` if every inner IP header has the version announced before it.
    pub(crate) fn versions_are_announced(&self) -> bool {
        let version = |next: u8| if next == protocol::IPV4 { 4 } else { 6 };
        self.levels().windows(2).all(|pair| version(pair[0].next) == pair[1].version)
    }

    /// Offset behind the last level.
    pub(crate) fn transport_at(&self) -> usize {
        self.levels().last().map_or(0, Level::end)
    }

    fn find_levels(&mut self) {
        let (mut at, mut next) = (0, None);
        loop {
            if next.is_some() && at == self.len {
                // The packet ends where it announces an IP header: damaged, as in `extended`.
                self.depth = 0;
                return;
            }
            let level = if self.depth == MAX_LEVELS { None } else { level(self.bytes, self.len, at, next) };
            let Some(level) = level else {
                self.cut = next.is_some();
                return;
            };
            self.levels[self.depth] = level;
            self.depth += 1;
            if !matches!(level.next, protocol::IPV4 | protocol::IPV6) {
                return;
            }
            (at, next) = (level.end(), Some(level.next));
        }
    }

    fn find_transport(&mut self, rule: &RtpRule) {
        let at = self.transport_at();
        let octets = &self.bytes[at..];
        let left = self.len - at;
        self.transport = match (self.levels[self.depth - 1].next, octets.first_chunk::<8>()) {
            (protocol::UDP, Some(udp)) if usize::from(u16::from_be_bytes([udp[4], udp[5]])) == left => {
                Transport::Udp
            }
            (protocol::UDP_LITE, Some(_)) => Transport::UdpLite,
            (protocol::ESP, Some(_)) => Transport::Esp,
            (protocol::TCP, Some(_)) => Transport::Tcp,
            _ => Transport::Other,
        };
        if matches!(self.transport, Transport::Udp | Transport::UdpLite) {
            self.rtp = is_rtp(octets, rule);
        }
    }
}

/// Returns `true` if the UDP header at the start of `udp` carries RTP.
#[inline]
pub(crate) fn is_rtp(udp: &[u8], rule: &RtpRule) -> bool {
    let Some(head) = udp.first_chunk::<20>() else { return false };
    head[8] >> 6 == 2
        && udp.len() >= 20 + 4 * usize::from(head[8] & 0x0f)
        && rule.matches(&RtpCandidate {
            source_port: u16::from_be_bytes([head[0], head[1]]),
            destination_port: u16::from_be_bytes([head[2], head[3]]),
            payload: &udp[8..],
        })
}

/// Returns the IP header at `at` if all that is not sent can be inferred.
#[inline]
fn level(bytes: &[u8], len: usize, at: usize, announced: Option<u8>) -> Option<Level> {
    let octets = bytes.get(at..)?;
    let left = len - at;
    let version = octets.first()? >> 4;
    match (version, announced) {
        // Which of the two protocol numbers announced it does not matter: chains keep both number and version.
        (4, None | Some(protocol::IPV4 | protocol::IPV6)) => ipv4(bytes, octets, left, at),
        (6, None | Some(protocol::IPV4 | protocol::IPV6)) => ipv6(bytes, octets, left, at),
        _ => None,
    }
}

fn ipv4(bytes: &[u8], octets: &[u8], left: usize, at: usize) -> Option<Level> {
    let header = octets.first_chunk::<20>()?;
    let whole = header[0] == 0x45 && usize::from(u16::from_be_bytes([header[2], header[3]])) == left;
    // Reserved bit, MF and offset must be zero; DF is sent.
    let unfragmented = u16::from_be_bytes([header[6], header[7]]) & 0xbfff == 0;
    if !whole || !unfragmented || ipv4_sum(header) != 0xffff {
        return None;
    }
    extended(bytes, Level { at, version: 4, extensions_at: at + 20, first: header[9], ..Level::default() })
}

fn ipv6(bytes: &[u8], octets: &[u8], left: usize, at: usize) -> Option<Level> {
    let header = octets.first_chunk::<40>()?;
    if usize::from(u16::from_be_bytes([header[4], header[5]])) != left - 40 {
        return None;
    }
    extended(bytes, Level { at, version: 6, extensions_at: at + 40, first: header[6], ..Level::default() })
}

/// The ones' complement sum of an IPv4 header; 0xffff when its checksum is right.
#[inline]
pub(crate) fn ipv4_sum(header: &[u8; 20]) -> u16 {
    let words = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// Walks the extension headers after `level`. `None` if they are no reason to give up another flow's context. That is
/// so if the packet ends within one, has hop-by-hop options after another (RFC 8200 4: every node discards it), or has
/// more than lists take, so that every packet would bring them whole.
#[inline]
fn extended(bytes: &[u8], mut level: Level) -> Option<Level> {
    level.next = level.first;
    let mut count = 0;
    while let Some((len, next)) = extension(level.next, &bytes[level.end()..]).ok()? {
        let is_misplaced = level.next == protocol::HOP_BY_HOP && count > 0;
        count += 1;
        level.extensions_len += len;
        level.next = next;
        if is_misplaced || count > MAX_EXTENSIONS || level.extensions_len > MAX_EXTENSION_BYTES {
            return None;
        }
    }
    Some(level)
}

/// Returns length and next header of the extension header at the start of `octets`. `Ok(None)`: there is none, or
/// lists cannot carry it.
pub(crate) fn extension(kind: u8, octets: &[u8]) -> Result<Option<(usize, u8)>, Truncated> {
    let fixed = match kind {
        protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION => 8,
        protocol::AH => 12,
        protocol::GRE => 4,
        protocol::MINIMAL => 8,
        _ => return Ok(None),
    };
    if octets.len() < fixed {
        return Err(Truncated);
    }
    let (len, next) = match kind {
        protocol::AH => ((usize::from(octets[1]) + 2) * 4, octets[0]),
        protocol::GRE => match gre(octets) {
            Some(found) => found,
            None => return Ok(None),
        },
        protocol::MINIMAL => (if octets[1] & 0x80 == 0 { 8 } else { 12 }, octets[0]),
        _ => ((usize::from(octets[1]) + 1) * 8, octets[0]),
    };
    if len < fixed || octets.len() < len {
        return Err(Truncated);
    }
    Ok(Some((len, next)))
}

/// Returns the GRE header if lists can carry it (RFC 3095 5.8.4.4). It has no reserved bits, and its EtherType is a
/// protocol number too.
fn gre(octets: &[u8]) -> Option<(usize, u8)> {
    let flags = u16::from_be_bytes([octets[0], octets[1]]);
    if flags & !0xb000 != 0 {
        return None;
    }
    let next = gre_next(u16::from_be_bytes([octets[2], octets[3]]))?;
    let (checksum, key, sequence) = (flags >> 15, flags >> 13 & 1, flags >> 12 & 1);
    let reserved1_is_zero = checksum == 0 || octets.get(6..8).is_some_and(|reserved| reserved == [0, 0]);
    reserved1_is_zero.then_some((4 + 4 * usize::from(checksum + key + sequence), next))
}

/// The protocol number of an Ether type.
pub(crate) const fn gre_next(ether_type: u16) -> Option<u8> {
    match ether_type {
        0x0800 => Some(protocol::IPV4),
        0x86dd => Some(protocol::IPV6),
        _ => None,
    }
}

/// The Ether type of a protocol number.
pub(crate) const fn gre_ether_type(next: u8) -> Option<u16> {
    match next {
        protocol::IPV4 => Some(0x0800),
        protocol::IPV6 => Some(0x86dd),
        _ => None,
    }
}
