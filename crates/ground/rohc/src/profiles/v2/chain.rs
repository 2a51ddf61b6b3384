//! The chain of IP headers, extension headers and tunnels before the transport (RFC 5225 6.5).
//!
//! A [`Chain`] says where each header lies; the octets stay in the packet, or in the last header of a context. IP headers have
//! their items here and in [`super::ip`]; those of the others are [`super::extension`]'s. The static chain marks the
//! innermost IP header, which ends the chain of them: what an IP header announces behind it is payload, unless it is an extension header.

use alloc::vec::Vec;

use super::control::Control;
use super::{extension, ip};
use crate::framework::crc::CRC3;
use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};
use crate::framework::packet::Level;
use crate::framework::profile::Profile;
use crate::profiles::tcp::ip::IpId;
use crate::profiles::tcp::kind::{Kind, Next};
use crate::profiles::tcp::{extension as tcp_extension, ip as tcp_ip};

/// Maximum number of headers.
const MAX_LINKS: usize = 32;
/// Maximum number of octets, a bound on the memory of a context.
const MAX_LEN: usize = 1024;

/// Header of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) kind: Kind,
    /// Behaviour of the IP-ID: `Random` in IPv6.
    pub(super) ip_id: IpId,
    /// Octets from the start of the packet.
    pub(super) at: u16,
    pub(super) len: u16,
}

impl Link {
    #[inline]
    pub(super) fn range(&self) -> core::ops::Range<usize> {
        usize::from(self.at)..usize::from(self.at) + usize::from(self.len)
    }
}

/// The headers before the transport, outermost first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) links: Vec<Link>,
    /// Index of the innermost IP header.
    inner: u8,
    /// Octets of all of them.
    len: u16,
    /// Protocol behind them.
    next: u8,
    /// AH, GRE and minimal encapsulation are payload, as librohc has it.
    is_bare: bool,
}

impl Clone for Chain {
    fn clone(&self) -> Self {
        Self { links: self.links.clone(), ..*self }
    }

    fn clone_from(&mut self, source: &Self) {
        self.links.clone_from(&source.links);
        (self.inner, self.len, self.next, self.is_bare) =
            (source.inner, source.len, source.next, source.is_bare);
    }
}

/// Parts of a packet on which the irregular chain depends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Irregular {
    /// The outer IP headers bring type of service and hop limit.
    pub(super) outer: bool,
    /// The sequence numbers of AH and GRE need 31 bits.
    pub(super) long_sequence: bool,
}

impl Chain {
    /// Sets whether AH, GRE and minimal encapsulation are payload.
    pub(super) const fn set_bare(&mut self, is_bare: bool) {
        self.is_bare = is_bare;
    }

    fn clear(&mut self) {
        self.links.clear();
        (self.inner, self.len, self.next) = (0, 0, 0);
    }

    #[inline]
    pub(super) fn is_inner(&self, index: usize) -> bool {
        usize::from(self.inner) == index
    }

    #[inline]
    pub(super) fn inner(&self) -> &Link {
        &self.links[usize::from(self.inner)]
    }

    pub(super) fn inner_mut(&mut self) -> &mut Link {
        &mut self.links[usize::from(self.inner)]
    }

    /// Octets before the transport.
    #[inline]
    pub(super) const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns `true` if nothing was parsed.
    pub(super) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Returns `true` if there is one IP header and nothing else.
    pub(super) fn is_single(&self) -> bool {
        self.links.len() == 1
    }

    /// Protocol number behind the chain.
    pub(super) const fn next(&self) -> u8 {
        self.next
    }

    /// Finds the headers of a packet of `len` octets, given its first `octets`. `None` if one of them cannot be
    /// rebuilt.
    pub(super) fn parse(&mut self, octets: &[u8], len: usize) -> Option<()> {
        self.clear();
        let mut next = Next::Ip;
        while let Some((kind, header_len, after)) = self.header_after(next, octets, self.len(), len)? {
            self.push(kind, header_len)?;
            next = after;
        }
        self.end(next)
    }

    /// Compares a packet's headers with those of this chain; `None` if one cannot be rebuilt.
    pub(super) fn describes(&self, octets: &[u8], len: usize) -> Option<bool> {
        let mut next = Next::Ip;
        for link in &self.links {
            match self.header_after(next, octets, usize::from(link.at), len)? {
                Some((kind, header_len, after))
                    if kind == link.kind && header_len == usize::from(link.len) =>
                {
                    next = after;
                }
                _ => return Some(false),
            }
        }
        let is_whole = self.header_after(next, octets, self.len(), len)?.is_none();
        Some(is_whole && next == Next::Protocol(self.next))
    }

    /// Returns the header at `at`: its kind, its length and what follows. `Ok(None)`: the chain ends there.
    #[inline]
    fn header_after(
        &self,
        next: Next,
        octets: &[u8],
        at: usize,
        len: usize,
    ) -> Option<Option<(Kind, usize, Next)>> {
        let rest = octets.get(at..)?;
        let Some(kind) = kind_after(next) else { return Some(None) };
        if kind.is_ip() {
            // An IP header that cannot be rebuilt is payload of the one that announces it.
            return ip_header(rest, len - at).map(Some).or_else(|| (next != Next::Ip).then_some(None));
        }
        if self.is_bare && is_tunnel(kind) {
            return Some(None);
        }
        let parsed = tcp_extension::parse(kind, rest);
        if kind == Kind::Gre {
            // GRE is compressed with the IP header that it carries, or is payload.
            let carries = |&(gre_len, _): &(usize, Next)| {
                rest.get(gre_len..).and_then(|carried| ip_header(carried, len - at - gre_len)).is_some()
            };
            return Some(parsed.filter(carries).map(|(gre_len, after)| (kind, gre_len, after)));
        }
        let (header_len, after) = parsed?;
        let is_plain = kind != Kind::Ah || rest[2..4] == [0, 0];
        is_plain.then_some(Some((kind, header_len, after)))
    }

    fn push(&mut self, kind: Kind, len: usize) -> Option<()> {
        let end = self.len() + len;
        if self.links.len() == MAX_LINKS || end > MAX_LEN || (self.links.is_empty() && !kind.is_ip()) {
            return None;
        }
        if kind.is_ip() {
            self.inner = self.links.len() as u8;
        }
        self.links.push(Link { kind, ip_id: IpId::Random, at: self.len, len: len as u16 });
        self.len = end as u16;
        Some(())
    }

    /// Ends the chain before `next`. GRE has no protocol number for what it carries, so it must carry another link.
    fn end(&mut self, next: Next) -> Option<()> {
        let Next::Protocol(protocol) = next else { return None };
        self.next = protocol;
        Some(())
    }

    /// Returns the CRC-3 over the control fields (RFC 5225 6.6.11). `inner` is the behaviour of the innermost IP-ID.
    pub(super) fn control_crc3(&self, control: &Control, profile: Profile, inner: IpId) -> u8 {
        let headers = profile.headers();
        let mut crc = CRC3.update(CRC3.start(), &[control.reorder as u8]);
        if profile.has_rtp() {
            crc = CRC3.update(crc, &control.ts_stride.to_be_bytes());
            crc = CRC3.update(crc, &control.time_stride.to_be_bytes());
        } else if headers != Profile::Esp {
            crc = CRC3.update(crc, &control.msn().to_be_bytes());
        }
        if profile.has_udp_lite() {
            crc = CRC3.update(crc, &[control.coverage as u8]);
        }
        // Erratum 2703: IPv6 headers have no behaviour there.
        let last = self.inner();
        self.links.iter().filter(|link| link.kind == Kind::Ipv4).fold(crc, |crc, link| {
            let behavior = if link.at == last.at { inner } else { link.ip_id };
            CRC3.update(crc, &[behavior as u8])
        })
    }

    /// Returns the innermost IP header and its extension headers, as checksums need them.
    pub(super) fn level(&self, headers: &[u8]) -> Level {
        let inner = self.inner();
        let header = &headers[inner.range()];
        let (version, first) = if inner.kind == Kind::Ipv4 { (4, header[9]) } else { (6, header[6]) };
        let extensions_at = inner.range().end;
        Level {
            at: usize::from(inner.at),
            version,
            extensions_at,
            extensions_len: self.len() - extensions_at,
            first,
            next: self.next,
        }
    }
}

/// Items of the chain.
impl Chain {
    /// Appends the static chain.
    pub(super) fn write_static(&self, packet: &[u8], out: &mut Writer<'_>) {
        for (index, link) in self.links.iter().enumerate() {
            let header = &packet[link.range()];
            if link.kind.is_ip() {
                ip::write_static(header, self.is_inner(index), out);
            } else {
                tcp_extension::write_static(link.kind, header, out);
            }
        }
    }

    /// Reads the static chain; `headers` is filled with headers whose other fields are zero.
    pub(super) fn read_static(
        &mut self,
        input: &mut Reader<'_>,
        headers: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        self.clear();
        headers.clear();
        let (mut next, mut innermost) = (Next::Ip, false);
        while let Some(kind) = kind_of_item(next, innermost, self.is_bare, input)? {
            let at = headers.len();
            if kind.is_ip() {
                (next, innermost) = ip::read_static(kind, input, headers)?;
            } else {
                next = tcp_extension::read_static(kind, input, headers)?;
            }
            self.push(kind, headers.len() - at).ok_or(DecompressError::TooLarge)?;
        }
        self.end(next).ok_or(DecompressError::Malformed("static chain that ends with GRE"))
    }

    /// Appends the dynamic chain. The innermost IP header's item ends with `endpoint` if it ends the packet's chain.
    pub(super) fn write_dynamic(&self, packet: &[u8], endpoint: Option<&Control>, out: &mut Writer<'_>) {
        for (index, link) in self.links.iter().enumerate() {
            let header = &packet[link.range()];
            if link.kind.is_ip() {
                let endpoint = endpoint.filter(|_| self.is_inner(index));
                ip::write_dynamic(link.ip_id, header, endpoint, out);
            } else {
                extension::write_dynamic(link.kind, header, out);
            }
        }
    }

    /// Reads the dynamic chain into `headers`.
    pub(super) fn read_dynamic(
        &mut self,
        input: &mut Reader<'_>,
        headers: &mut [u8],
        mut endpoint: Option<&mut Control>,
    ) -> Result<(), DecompressError> {
        let inner = usize::from(self.inner);
        for (index, link) in self.links.iter_mut().enumerate() {
            let header = &mut headers[link.range()];
            if !link.kind.is_ip() {
                extension::read_dynamic(link.kind, input, header)?;
                continue;
            }
            let is_inner = index == inner;
            link.ip_id = ip::read_dynamic(input, header, endpoint.as_deref_mut().filter(|_| is_inner))?;
            if !is_inner && link.ip_id.is_sequential() {
                return Err(DecompressError::Malformed("IP-ID of an outer header that counts"));
            }
        }
        Ok(())
    }

    /// Appends the irregular chain.
    #[inline]
    pub(super) fn write_irregular(&self, packet: &[u8], flags: Irregular, out: &mut Writer<'_>) {
        for (index, link) in self.links.iter().enumerate() {
            let header = &packet[link.range()];
            if link.kind.is_ip() {
                let with_tos = flags.outer && !self.is_inner(index);
                ip::write_irregular(link.ip_id, header, with_tos, out);
            } else {
                extension::write_irregular(link.kind, header, flags.long_sequence, out);
            }
        }
    }

    /// Reads the irregular chain over the last `headers`. `inner` is the behaviour of the innermost IP-ID.
    #[inline]
    pub(super) fn read_irregular(
        &self,
        input: &mut Reader<'_>,
        headers: &mut [u8],
        inner: IpId,
        outer: bool,
    ) -> Result<(), DecompressError> {
        for (index, link) in self.links.iter().enumerate() {
            let header = &mut headers[link.range()];
            if self.is_inner(index) {
                ip::read_irregular(inner, input, header, false)?;
            } else if link.kind.is_ip() {
                ip::read_irregular(link.ip_id, input, header, outer)?;
            } else {
                extension::read_irregular(link.kind, input, header)?;
            }
        }
        Ok(())
    }

    /// Sets the inferred lengths and checksums, for `payload_len` octets behind the headers.
    ///
    /// # Errors
    /// A length does not fit its field: no compressor made this.
    #[inline]
    pub(super) fn infer(&self, headers: &mut [u8], payload_len: usize) -> Result<(), DecompressError> {
        let total = headers.len() + payload_len;
        for link in &self.links {
            match link.kind {
                Kind::Ipv4 | Kind::Ipv6 => {
                    tcp_ip::infer(&mut headers[link.range()], total - usize::from(link.at))?
                }
                Kind::MinimalEncapsulation => tcp_extension::infer_mine(&mut headers[link.range()]),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns `true` for headers that librohc does not compress with profiles of version 2.
const fn is_tunnel(kind: Kind) -> bool {
    matches!(kind, Kind::Ah | Kind::Gre | Kind::MinimalEncapsulation)
}

/// Returns the IP header at the start of `octets`, if it can be rebuilt. `len` octets of packet start there. Which of the two protocol
/// numbers announced it does not matter.
#[inline]
fn ip_header(octets: &[u8], len: usize) -> Option<(Kind, usize, Next)> {
    let kind = if octets.first()? >> 4 == 6 { Kind::Ipv6 } else { Kind::Ipv4 };
    let (header_len, after) = tcp_ip::parse(kind, octets, len)?;
    Some((kind, header_len, after))
}

/// Returns the kind of header that `next` announces, IP of either version as IPv4.
fn kind_after(next: Next) -> Option<Kind> {
    match next {
        Next::Ip => Some(Kind::Ipv4),
        Next::Protocol(protocol) => {
            Kind::of_protocol(protocol).map(|kind| if kind.is_ip() { Kind::Ipv4 } else { kind })
        }
    }
}

/// Returns the kind of the next item of a static chain. `None` if the chain ends.
fn kind_of_item(
    next: Next,
    innermost: bool,
    is_bare: bool,
    input: &Reader<'_>,
) -> Result<Option<Kind>, DecompressError> {
    match kind_after(next) {
        Some(Kind::Gre) if innermost => Ok(None),
        Some(kind) if innermost && is_bare && is_tunnel(kind) => Ok(None),
        Some(kind) if kind.is_ip() && innermost => Ok(None),
        Some(kind) if kind.is_ip() => Ok(Some(if input.peek()? >> 7 == 0 { Kind::Ipv4 } else { Kind::Ipv6 })),
        None if !innermost => Err(DecompressError::Malformed("static chain without an innermost IP header")),
        kind => Ok(kind),
    }
}
