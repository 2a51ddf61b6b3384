//! Transfer frames of Proximity-1 (CCSDS 211.0-B). They are as long as their content: whole packets, or a segment of one.
//!
//! *Against memory*: the lengths of the fields add up to the five bytes of the header; no decoder was there to ask.

use super::{MAX_FRAME_LEN, crc};
use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// Length in bytes of the header.
pub const HEADER_LEN: usize = 5;
/// Length in bytes of the header of a segment.
pub const SEGMENT_HEADER_LEN: usize = 1;

/// Content of a frame's data field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Whole packets.
    Packets,
    /// Segment of a packet, behind a header of one byte.
    Segment,
    /// User-defined data.
    Other,
}

/// Place of a segment in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Set for the first segment of a packet.
    pub is_first: bool,
    /// Set for the last segment of a packet.
    pub is_last: bool,
    /// Pseudo packet identifier, 6 bits: that of all segments of a packet.
    pub packet: u8,
}

impl Segment {
    /// Reads the header of a segment.
    ///
    /// Flags: 01 the first, 00 one in the middle, 10 the last, 11 the only one.
    pub const fn from_byte(byte: u8) -> Segment {
        Segment { is_first: byte & 0x40 != 0, is_last: byte & 0x80 != 0, packet: byte & 0x3f }
    }

    /// Returns the header of a segment.
    pub const fn byte(self) -> u8 {
        (self.is_last as u8) << 7 | (self.is_first as u8) << 6 | self.packet & 0x3f
    }
}

/// A frame's header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Set if the frame is expedited: not repeated if lost.
    pub is_expedited: bool,
    /// Set if the frame has directives or status reports in place of user data.
    pub is_supervisory: bool,
    /// Content of the data field.
    pub content: Content,
    /// Spacecraft identifier, 10 bits.
    pub spacecraft: u16,
    /// Physical channel, 1 bit.
    pub physical_channel: u8,
    /// Port, 3 bits.
    pub port: u8,
    /// Set if the identifier is that of the destination.
    pub is_destination: bool,
    /// Sequence number.
    pub sequence: u8,
    /// Length of the data field in bytes.
    pub data_len: usize,
}

impl Repr {
    /// Reads a frame with its CRC-32, and returns its header and data field.
    ///
    /// # Errors
    /// Returns an error if it is truncated or too long, its length or CRC is wrong, or its content is reserved.
    pub fn parse(bytes: &[u8]) -> Result<(Repr, &[u8]), Error> {
        let layer = Layer::ProximityFrame;
        let least = HEADER_LEN + 1 + crc::PROXIMITY_LEN;
        if bytes.len() < least {
            return Err(Error::truncated(layer, 0, least, bytes.len()));
        }
        let (first, second) = (be16(bytes, 0), be16(bytes, 2));
        let len = usize::from(second & 0x7ff) + 1;
        if len < HEADER_LEN + 1 || len + crc::PROXIMITY_LEN != bytes.len() {
            return Err(Error::malformed(layer, 2, "frame length"));
        }
        if crc::proximity(bytes) != 0 {
            return Err(Error::checksum(layer, len));
        }
        if first >> 14 != 2 {
            return Err(Error::malformed(layer, 0, "version of another frame"));
        }
        let content = match first >> 10 & 3 {
            0 => Content::Packets,
            1 => Content::Segment,
            3 => Content::Other,
            _ => return Err(Error::malformed(layer, 0, "reserved construction of the data field")),
        };
        let repr = Repr {
            is_expedited: first >> 13 & 1 == 1,
            is_supervisory: first >> 12 & 1 == 1,
            content,
            spacecraft: first & 0x3ff,
            physical_channel: (second >> 15) as u8,
            port: (second >> 12 & 7) as u8,
            is_destination: second >> 11 & 1 == 1,
            sequence: bytes[4],
            data_len: len - HEADER_LEN,
        };
        Ok((repr, &bytes[HEADER_LEN..len]))
    }

    /// Returns the length of the frame with its CRC-32.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN + self.data_len + crc::PROXIMITY_LEN
    }

    /// Writes header and CRC around the data field, which is in place already.
    ///
    /// # Panics
    /// Panics if the buffer has another length, or a value does not fit its field.
    pub fn emit(&self, bytes: &mut [u8]) {
        assert!(bytes.len() == self.buffer_len(), "a buffer of {} bytes", bytes.len());
        assert!(
            (1..=MAX_FRAME_LEN - HEADER_LEN).contains(&self.data_len),
            "a data field of {}",
            self.data_len
        );
        assert!(
            self.spacecraft < 1 << 10 && self.port < 8 && self.physical_channel < 2,
            "identifiers that do not fit"
        );
        let content = match self.content {
            Content::Packets => 0,
            Content::Segment => 1,
            Content::Other => 3,
        };
        let flags = u16::from(self.is_expedited) << 13 | u16::from(self.is_supervisory) << 12;
        put16(bytes, 0, 2 << 14 | flags | content << 10 | self.spacecraft);
        let ports = u16::from(self.physical_channel) << 15 | u16::from(self.port) << 12;
        let len = (HEADER_LEN + self.data_len - 1) as u16;
        put16(bytes, 2, ports | u16::from(self.is_destination) << 11 | len);
        bytes[4] = self.sequence;
        let end = bytes.len() - crc::PROXIMITY_LEN;
        let register = crc::proximity(&bytes[..end]);
        bytes[end..].copy_from_slice(&register.to_be_bytes());
    }
}
