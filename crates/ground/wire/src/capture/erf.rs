//! Extensible record format of Endace (ERF), a header for link layers without a link type. It carries
//! Ethernet frames, packets over SONET, IP packets, and AAL5 PDUs with their ATM header.
//!
//! Extension headers are skipped on reading, and never written.

use crate::bytes::{array, be16, be32, put16, put32};
use crate::{Error, Layer};

/// Length in bytes of the record header.
pub const HEADER_LEN: usize = 16;
/// Length in bytes of the ATM header in front of an AAL5 PDU: without HEC.
pub const ATM_HEADER_LEN: usize = 4;
/// Length in bytes of the offset and padding in front of an Ethernet frame.
const ETHERNET_PREFIX_LEN: usize = 2;
/// Most extension headers of 8 bytes that are skipped.
const MAX_EXTENSIONS: usize = 16;
const HAS_EXTENSIONS: u8 = 0x80;

/// Content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// A frame of PPP or Cisco's HDLC, as packets over SONET have it.
    Hdlc,
    /// An Ethernet frame, two bytes in front of it.
    Ethernet,
    /// A CPCS-PDU with the header of its ATM cells.
    Aal5(AtmHeader),
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
}

/// The header of an ATM cell at a user-network interface, without HEC (ITU-T I.361).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AtmHeader {
    /// Virtual path, 8 bits.
    pub vpi: u8,
    /// Virtual channel.
    pub vci: u16,
}

impl Content {
    const HDLC: u8 = 1;
    const ETHERNET: u8 = 2;
    const AAL5: u8 = 4;
    const IPV4: u8 = 22;
    const IPV6: u8 = 23;

    const fn kind(self) -> u8 {
        match self {
            Content::Hdlc => Content::HDLC,
            Content::Ethernet => Content::ETHERNET,
            Content::Aal5(_) => Content::AAL5,
            Content::Ipv4 => Content::IPV4,
            Content::Ipv6 => Content::IPV6,
        }
    }

    const fn prefix_len(self) -> usize {
        match self {
            Content::Ethernet => ETHERNET_PREFIX_LEN,
            Content::Aal5(_) => ATM_HEADER_LEN,
            Content::Hdlc | Content::Ipv4 | Content::Ipv6 => 0,
        }
    }
}

/// Record header as values, up to the first byte of the frame, packet or PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Time stamp: seconds since 1970 in 32.32 fixed point.
    pub time_fixed: u64,
    /// Content of the record.
    pub content: Content,
    /// Length in bytes of the frame, packet or PDU.
    pub payload_len: usize,
}

impl Repr {
    /// Creates a header stamped with nanoseconds since 1970.
    pub fn new(time_ns: u64, content: Content, payload_len: usize) -> Repr {
        let time_fixed = ((u128::from(time_ns) << 32) / 1_000_000_000) as u64;
        Repr { time_fixed, content, payload_len }
    }

    /// Parses the header at the start of a record and returns its length too.
    ///
    /// # Errors
    /// Returns an error if it is truncated, the record's length is under its header's, or its type is not one
    /// of [`Content`].
    pub fn parse(bytes: &[u8]) -> Result<(Repr, usize), Error> {
        need(bytes, 0, HEADER_LEN)?;
        let mut len = HEADER_LEN + extensions_len(bytes)?;
        let kind = bytes[8] & !HAS_EXTENSIONS;
        let content = match kind {
            // Some types have the same frames, with a colour or a hash in place of the loss counter.
            Content::HDLC | 10 | 15 | 19 => Content::Hdlc,
            Content::ETHERNET | 11 | 16 | 20 => Content::Ethernet,
            Content::AAL5 => Content::Aal5(atm_header(bytes, len)?),
            Content::IPV4 => Content::Ipv4,
            Content::IPV6 => Content::Ipv6,
            _ => return Err(Error::unsupported(Layer::Erf, 8, "record type")),
        };
        len += content.prefix_len();
        need(bytes, HEADER_LEN, len)?;
        // The record length counts the stored bytes, the wire length the original ones, including the prefix
        // except Ethernet's.
        let wire_len = usize::from(be16(bytes, 14));
        let prefix = if content == Content::Ethernet { 0 } else { content.prefix_len() };
        let payload_len = wire_len.checked_sub(prefix);
        let payload_len =
            payload_len.ok_or(Error::malformed(Layer::Erf, 14, "wire length under header length"))?;
        Ok((Repr { time_fixed: u64::from_le_bytes(array(bytes, 0)), content, payload_len }, len))
    }

    /// Returns the header's length in bytes, up to the frame, packet or PDU.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.content.prefix_len()
    }

    /// Writes the header.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`] or the record does not fit in 65,535 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        let record_len = u16::try_from(self.buffer_len() + self.payload_len)
            .expect("an ERF record has at most 65535 bytes");
        let prefix = if self.content == Content::Ethernet { 0 } else { self.content.prefix_len() };
        buffer[..self.buffer_len()].fill(0);
        buffer[..8].copy_from_slice(&self.time_fixed.to_le_bytes());
        buffer[8] = self.content.kind();
        buffer[9] = VARYING_LENGTH;
        put16(buffer, 10, record_len);
        put16(buffer, 14, (self.payload_len + prefix) as u16);
        if let Content::Aal5(AtmHeader { vpi, vci }) = self.content {
            // The payload type says "last cell", as of a PDU it is the last one's header that is kept.
            put32(buffer, HEADER_LEN, u32::from(vpi) << 20 | u32::from(vci) << 4 | LAST_CELL);
        }
    }
}

/// Flag: records are as long as their packets.
const VARYING_LENGTH: u8 = 0x04;
/// Payload type 1 in an ATM header.
const LAST_CELL: u32 = 1 << 1;

fn need(bytes: &[u8], offset: usize, needed: usize) -> Result<(), Error> {
    match bytes.len() {
        have if have < needed => Err(Error::truncated(Layer::Erf, offset, needed, have)),
        _ => Ok(()),
    }
}

fn atm_header(bytes: &[u8], at: usize) -> Result<AtmHeader, Error> {
    need(bytes, at, at + ATM_HEADER_LEN)?;
    let word = be32(bytes, at);
    Ok(AtmHeader { vpi: (word >> 20) as u8, vci: (word >> 4) as u16 })
}

fn extensions_len(bytes: &[u8]) -> Result<usize, Error> {
    let mut len = 0;
    let mut more = bytes[8] & HAS_EXTENSIONS != 0;
    while more {
        if len == 8 * MAX_EXTENSIONS {
            return Err(Error::unsupported(Layer::Erf, HEADER_LEN + len, "more than 16 extension headers"));
        }
        need(bytes, HEADER_LEN + len, HEADER_LEN + len + 8)?;
        more = bytes[HEADER_LEN + len] & HAS_EXTENSIONS != 0;
        len += 8;
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    #[test]
    fn extension_headers_are_skipped_and_bounded() {
        let mut bytes = vec![0; HEADER_LEN];
        Repr::new(0, Content::Ipv4, 4).emit(&mut bytes);
        bytes[8] |= 0x80;
        bytes.extend([0x83, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0x45]);
        assert_eq!(Repr::parse(&bytes).unwrap().1, 32);
        let endless = [&bytes[..16], &[0xff; 8 * 17]].concat();
        assert!(matches!(Repr::parse(&endless).unwrap_err().kind, Kind::Unsupported(_)));
        assert_eq!(Repr::parse(&bytes[..20]).unwrap_err().kind, Kind::Truncated { needed: 24, have: 20 });
    }

    proptest! {
        #[test]
        fn round_trip(time_ns in 0u64..4_000_000_000_000_000_000, which in 0usize..5, vpi: u8, vci: u16, payload_len in 0usize..65000) {
            let content = [Content::Ethernet, Content::Aal5(AtmHeader { vpi, vci }), Content::Ipv4, Content::Ipv6, Content::Hdlc][which];
            let repr = Repr::new(time_ns, content, payload_len);
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes);
            prop_assert_eq!(Repr::parse(&bytes), Ok((repr, bytes.len())));
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60), kind: u8) {
            let mut bytes = bytes;
            if let Some(slot) = bytes.get_mut(8) {
                *slot = kind & 0x9f;
            }
            let _ = Repr::parse(&bytes);
        }
    }
}
