//! IPv6 (RFC 8200): the fixed header, and a bounded walk over extension headers ([`ext`]).
//!
//! Not read: jumbograms (RFC 2675). Fragments are recognised; reassembly: [`fragments`](super::fragments).

use std::net::Ipv6Addr;

use crate::bytes::{array, be16, be32, put16, put32};
use crate::ip::checksum::Pseudo;
use crate::ip::fields::{Ecn, Protocol, TrafficClass};
use crate::ip::upper::Upper;
use crate::{Error, Layer};

pub mod ext;

/// Length in bytes of the fixed header.
pub const HEADER_LEN: usize = 40;

/// Byte ranges of the fields.
mod field {
    use std::ops::Range;
    pub(super) const VER_TC_FLOW: usize = 0;
    pub(super) const PAYLOAD_LEN: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SRC: Range<usize> = 8..24;
    pub(super) const DST: Range<usize> = 24..40;
}

const FLOW_LABEL_MASK: u32 = 0x000f_ffff;

/// A view of an IPv6 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Returns a view without any check: accessors panic if the header is not all there.
    #[inline]
    pub const fn new_unchecked(buffer: T) -> Packet<T> {
        Packet { buffer }
    }

    /// Creates a view of a packet whose bytes are all there. Bytes after the payload length are ignored.
    ///
    /// # Errors
    /// Returns an error if header or payload is truncated, or the version is not 6. Extension headers are not
    /// looked at: see [`Packet::upper`].
    #[inline]
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        Packet::new_elided(buffer, 0)
    }

    /// Creates a view of a packet that ends with `elided` zero bytes, not in `buffer`.
    ///
    /// # Errors
    /// Returns the errors of [`Packet::new_checked`].
    #[inline]
    pub fn new_elided(buffer: T, elided: usize) -> Result<Packet<T>, Error> {
        let packet = Packet { buffer };
        packet.check(elided)?;
        Ok(packet)
    }

    #[inline]
    fn check(&self, elided: usize) -> Result<(), Error> {
        let have = self.bytes().len();
        if have < HEADER_LEN {
            return Err(Error::truncated(Layer::Ipv6, 0, HEADER_LEN, have));
        }
        if self.bytes()[0] >> 4 != 6 {
            return Err(Error::malformed(Layer::Ipv6, field::VER_TC_FLOW, "version is not 6"));
        }
        let have = have.saturating_add(elided);
        if self.total_len() > have {
            return Err(Error::truncated(Layer::Ipv6, field::PAYLOAD_LEN, self.total_len(), have));
        }
        Ok(())
    }

    /// Returns the buffer.
    #[inline]
    pub fn into_inner(self) -> T {
        self.buffer
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Returns DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> TrafficClass {
        TrafficClass((be16(self.bytes(), field::VER_TC_FLOW) >> 4) as u8)
    }

    /// Returns the flow label, 20 bits (RFC 6437).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32(self.bytes(), field::VER_TC_FLOW) & FLOW_LABEL_MASK
    }

    /// Returns the payload length field, in bytes: extension headers and everything after them.
    #[inline]
    pub fn payload_len(&self) -> usize {
        be16(self.bytes(), field::PAYLOAD_LEN).into()
    }

    /// Returns the length of fixed header and payload, in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + self.payload_len()
    }

    /// Returns the protocol after the fixed header.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.bytes()[field::NEXT_HEADER])
    }

    /// Returns the hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.bytes()[field::HOP_LIMIT]
    }

    /// Returns the source address.
    #[inline]
    pub fn src(&self) -> Ipv6Addr {
        array::<16>(self.bytes(), field::SRC.start).into()
    }

    /// Returns the destination address in the fixed header.
    #[inline]
    pub fn dst(&self) -> Ipv6Addr {
        array::<16>(self.bytes(), field::DST.start).into()
    }

    /// Returns the payload's bytes that are there, extension headers first.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let end = self.total_len().min(self.bytes().len());
        &self.bytes()[HEADER_LEN..end]
    }

    /// Returns the extension headers in order.
    #[inline]
    pub fn ext_headers(&self) -> ext::Headers<'_> {
        ext::Headers::new(self.next_header(), self.payload())
    }

    /// Returns the content of the packet after its extension headers.
    ///
    /// # Errors
    /// Returns an error if an extension header is truncated or malformed, or there are more than
    /// [`ext::MAX_HEADERS`].
    #[inline]
    pub fn upper(&self) -> Result<Upper<'_>, Error> {
        let chain = if ext::is_ext_header(self.next_header()) {
            ext::walk(self.next_header(), self.payload())?
        } else {
            ext::Chain { protocol: self.next_header(), ..ext::Chain::default() }
        };
        let bytes = &self.payload()[chain.len..];
        let dst = chain.final_destination.unwrap_or_else(|| self.dst());
        Ok(Upper {
            protocol: chain.protocol,
            bytes,
            elided: self.payload_len() - chain.len - bytes.len(),
            offset: HEADER_LEN + chain.len,
            is_later_fragment: chain.fragment.is_some_and(|fragment| fragment.offset != 0),
            is_fragment: chain.fragment.is_some_and(|fragment| !fragment.is_atomic()),
            pseudo: Pseudo::v6(self.src(), dst, chain.protocol),
        })
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Packet<T> {
    /// Returns `true` unless the hop limit, which it decrements, has expired. Unchanged if it was 0 or 1:
    /// drop the packet.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> bool {
        if self.hop_limit() <= 1 {
            return false;
        }
        self.buffer.as_mut()[field::HOP_LIMIT] -= 1;
        true
    }

    /// Writes the ECN codepoint.
    #[inline]
    pub fn mark_ecn(&mut self, ecn: Ecn) {
        self.set_traffic_class(self.traffic_class().with_ecn(ecn));
    }

    /// Writes DSCP and ECN codepoint.
    #[inline]
    pub fn set_traffic_class(&mut self, class: TrafficClass) {
        let word = be16(self.bytes(), field::VER_TC_FLOW) & 0xf00f | u16::from(class.0) << 4;
        put16(self.buffer.as_mut(), field::VER_TC_FLOW, word);
    }

    /// Returns the payload's bytes that are there, to be written.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LEN..self.total_len().min(self.bytes().len());
        &mut self.buffer.as_mut()[range]
    }
}

/// An IPv6 fixed header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Protocol after the fixed header.
    pub next_header: Protocol,
    /// Length in bytes of all that follows the fixed header, elided bytes included.
    pub payload_len: usize,
    /// Hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: TrafficClass,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Repr {
    /// Creates a plain header: default traffic class, no flow label, 64 hops.
    #[inline]
    pub fn new(src: Ipv6Addr, dst: Ipv6Addr, next_header: Protocol, payload_len: usize) -> Repr {
        let traffic_class = TrafficClass::default();
        Repr { src, dst, next_header, payload_len, hop_limit: 64, traffic_class, flow_label: 0 }
    }

    /// Reads the fixed header of a checked packet.
    #[inline]
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr {
            src: packet.src(),
            dst: packet.dst(),
            next_header: packet.next_header(),
            payload_len: packet.payload_len(),
            hop_limit: packet.hop_limit(),
            traffic_class: packet.traffic_class(),
            flow_label: packet.flow_label(),
        }
    }

    /// Returns the header's length in bytes.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header at the start of `buffer`.
    ///
    /// # Panics
    /// If `buffer` is shorter than 40 bytes, the payload length does not fit in 16 bits, or the flow label in 20.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) {
        assert!(self.flow_label <= FLOW_LABEL_MASK, "a flow label has 20 bits");
        let header = &mut buffer[..HEADER_LEN];
        let payload_len = u16::try_from(self.payload_len).expect("an IPv6 payload has at most 65535 bytes");
        put32(header, field::VER_TC_FLOW, 6 << 28 | u32::from(self.traffic_class.0) << 20 | self.flow_label);
        put16(header, field::PAYLOAD_LEN, payload_len);
        header[field::NEXT_HEADER] = self.next_header.0;
        header[field::HOP_LIMIT] = self.hop_limit;
        header[field::SRC].copy_from_slice(&self.src.octets());
        header[field::DST].copy_from_slice(&self.dst.octets());
    }
}

#[cfg(test)]
mod tests;
