//! The chain of headers before TCP: IP headers, extension headers and tunnels (RFC 6846 6.2).
//!
//! A [`Chain`] says where each header of a packet lies; the octets themselves stay in the packet, or in the reference
//! header of a context. Each kind of header has a static, a dynamic, a replicate and an irregular item, in
//! [`super::ip`] for the IP headers and in [`super::extension`] for the rest; a chain is its items one after the other.

use alloc::vec::Vec;

use super::extension;
use super::ip::{self, IpId, Irregular};
use super::kind::{Kind, Next, PROTO_TCP};
use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};

/// Maximum number of headers, a bound on hostile static chains.
const MAX_LINKS: usize = 64;

/// Header of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) kind: Kind,
    /// Behaviour of the IP-ID, for IPv4 only.
    pub(super) ip_id: IpId,
    /// Octets from the start of the packet.
    pub(super) at: u16,
    pub(super) len: u16,
}

impl Link {
    pub(super) fn range(&self) -> core::ops::Range<usize> {
        usize::from(self.at)..usize::from(self.at) + usize::from(self.len)
    }
}

/// The headers before TCP, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) links: Vec<Link>,
    /// Index of the innermost IP header.
    inner: u8,
    /// Octets before the TCP header.
    pub(super) len: u16,
}

impl Chain {
    pub(super) fn clear(&mut self) {
        self.links.clear();
        self.len = 0;
    }

    /// Returns `true` if this is the innermost IP header.
    pub(super) const fn is_inner(&self, index: usize) -> bool {
        self.inner as usize == index
    }

    pub(super) fn inner(&self) -> &Link {
        &self.links[usize::from(self.inner)]
    }

    /// The headers between the innermost IP header and TCP.
    pub(super) fn behind_inner(&self) -> &[Link] {
        &self.links[usize::from(self.inner) + 1..]
    }

    pub(super) fn inner_mut(&mut self) -> &mut Link {
        &mut self.links[usize::from(self.inner)]
    }

    pub(super) fn tcp_at(&self) -> usize {
        usize::from(self.len)
    }

    /// Finds the headers up to TCP of a packet of `len` octets. `octets` are its first ones. `None`: it is not TCP,
    /// or the profile cannot carry it.
    pub(super) fn parse(&mut self, octets: &[u8], len: usize) -> Option<()> {
        self.clear();
        let mut next = Next::Ip;
        while next != Next::Protocol(PROTO_TCP) {
            let at = self.tcp_at();
            let rest = octets.get(at..)?;
            let kind = kind_after(next, rest.first()? >> 4)?;
            let (header_len, after) = parse_header(kind, rest, len - at)?;
            self.push(kind, header_len)?;
            next = after;
        }
        Some(())
    }

    /// Compares a packet's headers with those of this chain. `None` if the packet is for a lower profile. It reads as
    /// [`Chain::parse`] does, but stores nothing, and most packets of a flow pass.
    pub(super) fn describes(&self, octets: &[u8], len: usize) -> Option<bool> {
        let mut next = Next::Ip;
        for link in &self.links {
            let at = usize::from(link.at);
            let rest = octets.get(at..)?;
            if kind_after(next, rest.first()? >> 4) != Some(link.kind) {
                return Some(false);
            }
            let (header_len, after) = parse_header(link.kind, rest, len - at)?;
            if header_len != usize::from(link.len) {
                return Some(false);
            }
            next = after;
        }
        Some(next == Next::Protocol(PROTO_TCP))
    }

    fn push(&mut self, kind: Kind, len: usize) -> Option<()> {
        let end = u16::try_from(self.tcp_at() + len).ok()?;
        if self.links.len() == MAX_LINKS || (self.links.is_empty() && !kind.is_ip()) {
            return None;
        }
        if kind.is_ip() {
            self.inner = self.links.len() as u8;
        }
        self.links.push(Link { kind, ip_id: IpId::Random, at: self.len, len: end - self.len });
        self.len = end;
        Some(())
    }

    /// Appends the static chain, but for TCP's item.
    pub(super) fn write_static(&self, packet: &[u8], out: &mut Writer<'_>) {
        for link in &self.links {
            let header = &packet[link.range()];
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 => ip::write_static(header, out),
                _ => extension::write_static(link.kind, header, out),
            }
        }
    }

    /// Reads the static chain but for TCP's item. `headers` is filled with headers whose other fields are zero.
    pub(super) fn read_static(
        &mut self,
        input: &mut Reader<'_>,
        headers: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        self.clear();
        headers.clear();
        let mut next = Next::Ip;
        while next != Next::Protocol(PROTO_TCP) {
            let version = if input.peek()? >> 7 == 0 { 4 } else { 6 };
            let kind = kind_after(next, version)
                .ok_or(DecompressError::Malformed("TCP: header not of the profile"))?;
            let at = headers.len();
            next = match kind {
                Kind::Ipv4 | Kind::Ipv6 => ip::read_static(kind, input, headers)?,
                _ => extension::read_static(kind, input, headers)?,
            };
            self.push(kind, headers.len() - at).ok_or(DecompressError::TooLarge)?;
        }
        Ok(())
    }

    /// Appends the dynamic chain, but for TCP's item.
    pub(super) fn write_dynamic(&self, packet: &[u8], out: &mut Writer<'_>) {
        for link in &self.links {
            let header = &packet[link.range()];
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 => ip::write_dynamic(link.ip_id, header, out),
                _ => extension::write_dynamic(link.kind, header, out),
            }
        }
    }

    /// Reads the dynamic chain but for TCP's item into `headers`.
    pub(super) fn read_dynamic(
        &mut self,
        input: &mut Reader<'_>,
        headers: &mut [u8],
    ) -> Result<(), DecompressError> {
        for link in &mut self.links {
            let header = &mut headers[link.range()];
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 => link.ip_id = ip::read_dynamic(input, header)?,
                _ => extension::read_dynamic(link.kind, input, header)?,
            }
        }
        Ok(())
    }

    /// Appends the replicate chain, but for TCP's item; `base` has the same chain.
    pub(super) fn write_replicate(&self, packet: &[u8], base: &[u8], out: &mut Writer<'_>) {
        for link in &self.links {
            let (header, base) = (&packet[link.range()], &base[link.range()]);
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 => ip::write_replicate(link.ip_id, header, base, out),
                _ => extension::write_replicate(link.kind, header, base, out),
            }
        }
    }

    /// Reads the replicate chain but for TCP's item over the base's `headers`.
    pub(super) fn read_replicate(
        &mut self,
        input: &mut Reader<'_>,
        headers: &mut [u8],
    ) -> Result<(), DecompressError> {
        for link in &mut self.links {
            let header = &mut headers[link.range()];
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 => link.ip_id = ip::read_replicate(link.ip_id, input, header)?,
                _ => extension::read_replicate(link.kind, input, header)?,
            }
        }
        Ok(())
    }

    /// Appends the irregular chain, but for TCP's item.
    pub(super) fn write_irregular(&self, packet: &[u8], flags: Irregular, out: &mut Writer<'_>) {
        for (index, link) in self.links.iter().enumerate() {
            let header = &packet[link.range()];
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 if self.is_inner(index) => {
                    ip::write_inner_irregular(flags.inner_ip_id, header, out);
                }
                Kind::Ipv4 | Kind::Ipv6 => ip::write_outer_irregular(link.ip_id, header, flags, out),
                _ => extension::write_irregular(link.kind, header, flags, out),
            }
        }
    }

    /// Reads the irregular chain but for TCP's item over the reference `headers`.
    pub(super) fn read_irregular(
        &self,
        input: &mut Reader<'_>,
        headers: &mut [u8],
        flags: Irregular,
    ) -> Result<(), DecompressError> {
        for (index, link) in self.links.iter().enumerate() {
            let header = &mut headers[link.range()];
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 if self.is_inner(index) => {
                    ip::read_inner_irregular(flags.inner_ip_id, input, header)?;
                }
                Kind::Ipv4 | Kind::Ipv6 => ip::read_outer_irregular(link.ip_id, input, header, flags)?,
                _ => extension::read_irregular(link.kind, input, header)?,
            }
        }
        Ok(())
    }

    /// Sets the inferred lengths and checksums, for `payload_len` octets after the headers.
    ///
    /// # Errors
    /// A length does not fit its field: no compressor made this.
    pub(super) fn infer(&self, headers: &mut [u8], payload_len: usize) -> Result<(), DecompressError> {
        let total = headers.len() + payload_len;
        for link in &self.links {
            let rest = total - usize::from(link.at);
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 => ip::infer(&mut headers[link.range()], rest)?,
                Kind::MinimalEncapsulation => extension::infer_mine(&mut headers[link.range()]),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the length of the header at the start of `octets`, and the next header. `len` octets of packet start there.
fn parse_header(kind: Kind, octets: &[u8], len: usize) -> Option<(usize, Next)> {
    match kind {
        Kind::Ipv4 | Kind::Ipv6 => ip::parse(kind, octets, len),
        _ => extension::parse(kind, octets),
    }
}

fn kind_after(next: Next, version: u8) -> Option<Kind> {
    match (next, version) {
        (Next::Protocol(protocol), _) => Kind::of_protocol(protocol),
        (Next::Ip, 4) => Some(Kind::Ipv4),
        (Next::Ip, 6) => Some(Kind::Ipv6),
        _ => None,
    }
}
