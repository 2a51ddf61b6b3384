//! Generic routing encapsulation (GRE, RFC 2784).
//!
//! Keys and sequence numbers (RFC 2890) and the routing of RFC 1701 are unsupported; a checksum is verified when read and never
//! written.

use crate::bytes::{be16, put16};
use crate::ip::checksum::Accumulator;
use crate::lan::ethernet::EtherType;
use crate::{Error, Layer};

/// Length in bytes of a header without checksum.
pub const HEADER_LEN: usize = 4;

/// Length in bytes of a header with checksum.
const LONG_HEADER_LEN: usize = 8;

/// Offsets of the fields.
mod field {
    pub(super) const FLAGS: usize = 0;
    pub(super) const PROTOCOL: usize = 2;
}

/// Flag of a checksum.
const CHECKSUM: u16 = 0x8000;
/// Flags that a receiver refuses (RFC 2784, section 2.2), such as that of a key.
const REFUSED: u16 = 0x7c00;
/// Version number.
const VERSION: u16 = 0x0007;

/// A header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Protocol of the payload.
    pub protocol: EtherType,
}

impl Repr {
    /// Reads a header, and returns it with the payload's bytes.
    ///
    /// # Errors
    /// Returns an error if it is truncated, has the wrong checksum, or has fields of other editions than RFC 2784.
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::truncated(Layer::Gre, 0, HEADER_LEN, bytes.len()));
        }
        let flags = be16(bytes, field::FLAGS);
        if flags & VERSION != 0 {
            return Err(Error::unsupported(Layer::Gre, field::FLAGS, "version other than 0"));
        }
        if flags & REFUSED != 0 {
            return Err(Error::unsupported(Layer::Gre, field::FLAGS, "key, sequence number or route"));
        }
        let repr = Repr { protocol: EtherType(be16(bytes, field::PROTOCOL)) };
        if flags & CHECKSUM == 0 {
            return Ok((repr, &bytes[HEADER_LEN..]));
        }
        if bytes.len() < LONG_HEADER_LEN {
            return Err(Error::truncated(Layer::Gre, HEADER_LEN, LONG_HEADER_LEN, bytes.len()));
        }
        if !Accumulator::ZERO.add_bytes(bytes).is_valid() {
            return Err(Error::checksum(Layer::Gre, HEADER_LEN));
        }
        Ok((repr, &bytes[LONG_HEADER_LEN..]))
    }

    /// Returns the length in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes a header without checksum.
    ///
    /// # Panics
    /// If `buffer` is shorter than 4 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        put16(buffer, field::FLAGS, 0);
        put16(buffer, field::PROTOCOL, self.protocol.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn headers_come_back_and_others_are_refused() {
        let repr = Repr { protocol: EtherType::BRIDGED };
        let mut bytes = [0xff; 6];
        repr.emit(&mut bytes);
        assert_eq!(bytes, [0, 0, 0x65, 0x58, 0xff, 0xff]);
        assert_eq!(Repr::parse(&bytes), Ok((repr, &[0xff, 0xff][..])));
        bytes[0] = 0x20;
        assert!(matches!(Repr::parse(&bytes).unwrap_err().kind, Kind::Unsupported(_)));
        bytes[..2].copy_from_slice(&[0, 1]);
        assert!(matches!(Repr::parse(&bytes).unwrap_err().kind, Kind::Unsupported(_)));
        assert!(matches!(Repr::parse(&bytes[..3]).unwrap_err().kind, Kind::Truncated { needed: 4, have: 3 }));
    }

    #[test]
    fn a_checksum_is_verified() {
        let mut bytes = [0x80, 0, 0x08, 0, 0, 0, 0, 0, 0x12, 0x34];
        let sum = Accumulator::ZERO.add_bytes(&bytes).checksum();
        put16(&mut bytes, 4, sum);
        assert_eq!(Repr::parse(&bytes), Ok((Repr { protocol: EtherType::IPV4 }, &[0x12, 0x34][..])));
        bytes[9] ^= 1;
        assert_eq!(Repr::parse(&bytes).unwrap_err().kind, Kind::Checksum);
    }
}
