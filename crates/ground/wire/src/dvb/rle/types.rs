//! Protocol types, of two bytes, one or none.

use crate::bytes::be16;
use crate::dvb::ule::Type;
use crate::{Error, Layer};

/// Format of protocol types in ALPDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Types {
    /// Omitted for IPv4 and IPv6, which their first bits identify; otherwise `Compressed`.
    #[default]
    Suppressed,
    /// Single byte for types listed in EN 301 545-2, otherwise three.
    Compressed,
    /// Two bytes.
    Full,
}

/// EN 301 545-2, table 7-3: protocol types by their value of one byte, from 0.
const COMPRESSED: [u16; 27] = [
    0x0000, 0x0001, 0x0002, 0x0003, 0x00c8, 0x0100, 0x0200, 0x0300, 0x0301, 0x03c3, 0x0400, 0x04c2, 0x0500,
    0x0800, 0x0806, 0x8100, 0x22f1, 0x86dd, 0x8809, 0x8847, 0x8848, 0x8863, 0x8864, 0x888e, 0x8906, 0x88a8,
    0x9100,
];
/// IPv4 or IPv6, as the packet's first four bits say.
const IP: u8 = 0x30;
/// Two bytes of protocol type follow.
const ESCAPE: u8 = 0xff;

/// Protocol type field of an ALPDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    bytes: [u8; 3],
    len: usize,
}

impl Field {
    fn new(bytes: &[u8]) -> Field {
        let mut field = Field { bytes: [0; 3], len: bytes.len() };
        field.bytes[..bytes.len()].copy_from_slice(bytes);
        field
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Types {
    pub(super) fn field(self, kind: Type) -> Field {
        let [high, low] = kind.0.to_be_bytes();
        match self {
            Types::Full => Field::new(&[high, low]),
            Types::Suppressed if matches!(kind, Type::IPV4 | Type::IPV6) => Field::new(&[]),
            Types::Suppressed | Types::Compressed => {
                match COMPRESSED.iter().position(|other| *other == kind.0) {
                    Some(value) => Field::new(&[value as u8]),
                    None => Field::new(&[ESCAPE, high, low]),
                }
            }
        }
    }

    /// Returns the protocol type of `body`, written or omitted, and its length in bytes. At least a byte follows it.
    ///
    /// # Errors
    /// `Truncated` if there is not; `Unsupported` for a value of one byte without meaning here, `Malformed` if it was left
    /// out and the packet is not IP.
    pub(super) fn read(self, is_suppressed: bool, body: &[u8]) -> Result<(Type, usize), Error> {
        let byte = |at: usize| body.get(at).ok_or(Error::truncated(Layer::Rle, 0, at + 1, body.len()));
        if is_suppressed {
            return Ok((ip(*byte(0)?, 0)?, 0));
        }
        if self == Types::Full {
            byte(2)?;
            return Ok((Type(be16(body, 0)), 2));
        }
        match *byte(0)? {
            ESCAPE => {
                byte(3)?;
                Ok((Type(be16(body, 1)), 3))
            }
            IP => Ok((ip(*byte(1)?, 1)?, 1)),
            value => {
                let kind = COMPRESSED.get(usize::from(value));
                byte(1)?;
                Ok((Type(*kind.ok_or(Error::unsupported(Layer::Rle, 0, "compressed protocol type"))?), 1))
            }
        }
    }
}

fn ip(first: u8, at: usize) -> Result<Type, Error> {
    match first >> 4 {
        4 => Ok(Type::IPV4),
        6 => Ok(Type::IPV6),
        _ => Err(Error::malformed(Layer::Rle, at, "version of IP without a protocol type")),
    }
}
