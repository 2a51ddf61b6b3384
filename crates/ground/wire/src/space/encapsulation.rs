//! Encapsulation packets (CCSDS 133.1-B), and IP in them (702.1-B).
//!
//! *Against memory*: identifiers are those of SANA's registry as remembered; no decoder was there to ask.

use crate::{Error, Layer};

/// Length in bytes of the longest header.
pub const MAX_HEADER_LEN: usize = 8;
/// Idle packet of one byte, which fills a data field.
pub const IDLE: u8 = 0xe0;

/// Protocol of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Fill.
    Idle,
    /// Segments of LTP.
    Ltp,
    /// Packets of the Internet behind a header of one byte ([`ip_extension`]).
    Ip,
    /// PDUs of CFDP.
    Cfdp,
    /// Bundles.
    Bundle,
    /// Another number of the registry.
    Other(u8),
}

impl Protocol {
    /// Returns the protocol of a number of 3 bits.
    pub const fn from_code(code: u8) -> Protocol {
        match code & 7 {
            0 => Protocol::Idle,
            1 => Protocol::Ltp,
            2 => Protocol::Ip,
            3 => Protocol::Cfdp,
            4 => Protocol::Bundle,
            other => Protocol::Other(other),
        }
    }

    /// Returns its number.
    pub const fn code(self) -> u8 {
        match self {
            Protocol::Idle => 0,
            Protocol::Ltp => 1,
            Protocol::Ip => 2,
            Protocol::Cfdp => 3,
            Protocol::Bundle => 4,
            Protocol::Other(code) => code & 7,
        }
    }
}

/// Returns the extension header of an IP packet. It is 0x21 of version 4 and 0x57 of version 6.
pub const fn ip_extension(version: u8) -> Option<u8> {
    match version {
        4 => Some(0x21),
        6 => Some(0x57),
        _ => None,
    }
}

/// A packet's header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Protocol of the content.
    pub protocol: Protocol,
    /// Length of the header in bytes: 1, 2, 4 or 8. An idle packet without content has 1.
    pub header_len: usize,
    /// Length of the content in bytes.
    pub data_len: usize,
}

impl Repr {
    /// Creates the shortest header for content of `data_len` bytes.
    ///
    /// # Panics
    /// Panics if the packet is longer than 4 GiB.
    pub fn new(protocol: Protocol, data_len: usize) -> Repr {
        let header_len = match data_len {
            0 if protocol == Protocol::Idle => 1,
            0..=253 => 2,
            254..=65_531 => 4,
            _ => 8,
        };
        assert!(data_len as u64 + 8 <= u64::from(u32::MAX), "content of {data_len} bytes");
        Repr { protocol, header_len, data_len }
    }

    /// Reads the header at the start of `bytes`; `None` if more of it is needed.
    ///
    /// # Errors
    /// Returns an error if version or length is impossible.
    pub fn parse(bytes: &[u8]) -> Result<Option<Repr>, Error> {
        let Some(first) = bytes.first() else { return Ok(None) };
        if first >> 5 != 7 {
            return Err(Error::malformed(Layer::Encapsulation, 0, "version of another packet"));
        }
        let header_len = 1 << (first & 3);
        let protocol = Protocol::from_code(first >> 2);
        if bytes.len() < header_len {
            return Ok(None);
        }
        let len = match header_len {
            1 if protocol == Protocol::Idle => 1,
            1 => return Err(Error::malformed(Layer::Encapsulation, 0, "content without a length")),
            2 => u64::from(bytes[1]),
            4 => u64::from(u16::from_be_bytes([bytes[2], bytes[3]])),
            _ => u64::from(u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]])),
        };
        let Some(data_len) = len.checked_sub(header_len as u64) else {
            return Err(Error::malformed(Layer::Encapsulation, 1, "length below that of the header"));
        };
        Ok(Some(Repr { protocol, header_len, data_len: usize::try_from(data_len).unwrap_or(usize::MAX) }))
    }

    /// Returns the length of the packet.
    pub const fn len(&self) -> usize {
        self.header_len + self.data_len
    }

    /// Returns `true` if the packet has only its header.
    pub const fn is_empty(&self) -> bool {
        self.data_len == 0
    }

    /// Appends the header.
    ///
    /// # Panics
    /// Panics if the length of the header is impossible, or too short for the content.
    pub fn put(&self, out: &mut Vec<u8>) {
        let first = 7 << 5 | self.protocol.code() << 2;
        let len = self.len() as u64;
        match self.header_len {
            1 => {
                assert!(self.protocol == Protocol::Idle && self.data_len == 0, "content without a length");
                out.push(first);
            }
            2 => {
                assert!(len < 1 << 8, "a length of {len} in one byte");
                out.extend([first | 1, len as u8]);
            }
            4 => {
                assert!(len < 1 << 16, "a length of {len} in two bytes");
                out.extend([first | 2, 0]);
                out.extend((len as u16).to_be_bytes());
            }
            8 => {
                assert!(len < 1 << 32, "a length of {len} in four bytes");
                out.extend([first | 3, 0, 0, 0]);
                out.extend((len as u32).to_be_bytes());
            }
            other => panic!("a header of {other} bytes"),
        }
    }
}
