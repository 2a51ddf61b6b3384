//! AOS transfer frames (CCSDS 732.0-B) with multiplexed packets (M_PDU): fixed length, packets across frames.
//!
//! Not here: frame header error control, insert zone, bit streams. *Against memory*: as of [`super::tm`].

use super::field::{CONTROL_LEN, check, fill_crc};
use super::tm::Trailer;
use super::{FirstHeader, crc};
use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// Length in bytes of the primary header.
pub const HEADER_LEN: usize = 6;
/// Length in bytes of the header of multiplexed packets.
pub const MULTIPLEX_LEN: usize = 2;
/// Virtual channel of frames with idle data alone.
pub const IDLE_CHANNEL: u8 = 63;

/// Headers of a frame as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Spacecraft identifier, 8 bits.
    pub spacecraft: u8,
    /// Virtual channel, 6 bits.
    pub channel: u8,
    /// Count of frames of the virtual channel, 24 bits.
    pub count: u32,
    /// Set if the data are replayed from a store.
    pub is_replay: bool,
    /// Number of times that the count went through zero, 4 bits, if that is used.
    pub cycle: Option<u8>,
    /// First packet that starts in the packet zone.
    pub first_header: FirstHeader,
    /// Operational control field, if frames have one.
    pub control: Option<u32>,
}

impl Repr {
    /// Reads a frame and returns its headers and packet zone.
    ///
    /// # Errors
    /// Returns an error if it is truncated or too long, its CRC is wrong, or a pointer leads behind it.
    pub fn parse(bytes: &[u8], trailer: Trailer) -> Result<(Repr, &[u8]), Error> {
        let least = HEADER_LEN + MULTIPLEX_LEN + 1 + if trailer.has_control { CONTROL_LEN } else { 0 };
        let mut end = check(bytes, least, trailer.has_crc, Layer::AosFrame)?;
        let (first, pointer) = (be16(bytes, 0), be16(bytes, HEADER_LEN));
        if first >> 14 != 1 {
            return Err(Error::malformed(Layer::AosFrame, 0, "version of another frame"));
        }
        let control = trailer.has_control.then(|| {
            end -= CONTROL_LEN;
            u32::from_be_bytes([bytes[end], bytes[end + 1], bytes[end + 2], bytes[end + 3]])
        });
        let zone = &bytes[HEADER_LEN + MULTIPLEX_LEN..end];
        let first_header = FirstHeader::from_code(pointer);
        if matches!(first_header, FirstHeader::At(offset) if usize::from(offset) >= zone.len()) {
            return Err(Error::malformed(
                Layer::AosFrame,
                HEADER_LEN,
                "first header pointer behind the packet zone",
            ));
        }
        let repr = Repr {
            spacecraft: (first >> 6) as u8,
            channel: (first & 0x3f) as u8,
            count: u32::from_be_bytes([0, bytes[2], bytes[3], bytes[4]]),
            is_replay: bytes[5] & 0x80 != 0,
            cycle: (bytes[5] & 0x40 != 0).then_some(bytes[5] & 0x0f),
            first_header,
            control,
        };
        Ok((repr, zone))
    }

    /// Returns the length of a frame whose packet zone has `data` bytes.
    pub const fn buffer_len(data: usize, trailer: Trailer) -> usize {
        HEADER_LEN + MULTIPLEX_LEN + data + trailer.len()
    }

    /// Writes headers, control field and CRC around the packet zone, which is in place already.
    ///
    /// # Panics
    /// Panics if the buffer has no room for them, or a value does not fit its field.
    pub fn emit(&self, bytes: &mut [u8], has_crc: bool) {
        assert!(self.channel < 64 && self.count < 1 << 24, "identifiers that do not fit");
        assert!(self.cycle.is_none_or(|cycle| cycle < 16), "a cycle of more than 4 bits");
        put16(bytes, 0, 1 << 14 | u16::from(self.spacecraft) << 6 | u16::from(self.channel));
        bytes[2..5].copy_from_slice(&self.count.to_be_bytes()[1..]);
        bytes[5] = u8::from(self.is_replay) << 7 | self.cycle.map_or(0, |cycle| 0x40 | cycle);
        put16(bytes, HEADER_LEN, self.first_header.code());
        let end = bytes.len() - if has_crc { crc::FRAME_LEN } else { 0 };
        if let Some(control) = self.control {
            bytes[end - CONTROL_LEN..end].copy_from_slice(&control.to_be_bytes());
        }
        if has_crc {
            fill_crc(bytes);
        }
    }
}
