//! TM transfer frames (CCSDS 132.0-B), without secondary header: fixed length, packets across frames.
//!
//! *Against memory*: the lengths of the fields add up to the six bytes of the header; no decoder was there to ask.

use super::field::{CONTROL_LEN, check, fill_crc};
use super::{FirstHeader, crc};
use crate::bytes::{be16, put16};
use crate::{Error, Layer};

/// Length in bytes of the primary header.
pub const HEADER_LEN: usize = 6;

/// Fields that all frames of a physical channel have or have not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Set if frames have an operational control field.
    pub has_control: bool,
    /// Set if frames have a frame error control field.
    pub has_crc: bool,
}

impl Trailer {
    /// Returns its length in bytes.
    pub const fn len(self) -> usize {
        let control = if self.has_control { CONTROL_LEN } else { 0 };
        control + if self.has_crc { crc::FRAME_LEN } else { 0 }
    }

    /// Returns `true` if frames have neither.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// A frame's header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Spacecraft identifier, 10 bits.
    pub spacecraft: u16,
    /// Virtual channel, 3 bits.
    pub channel: u8,
    /// Count of frames of the master channel.
    pub master_count: u8,
    /// Count of frames of the virtual channel.
    pub channel_count: u8,
    /// First packet that starts in the data field.
    pub first_header: FirstHeader,
    /// Operational control field, if frames have one.
    pub control: Option<u32>,
}

impl Repr {
    /// Reads a frame and returns its header and data field.
    ///
    /// # Errors
    /// Returns an error if it is truncated or too long, its CRC is wrong, or its data are not packets.
    pub fn parse(bytes: &[u8], trailer: Trailer) -> Result<(Repr, &[u8]), Error> {
        let least = HEADER_LEN + 1 + if trailer.has_control { CONTROL_LEN } else { 0 };
        let mut end = check(bytes, least, trailer.has_crc, Layer::TmFrame)?;
        let (first, status) = (be16(bytes, 0), be16(bytes, 4));
        if first >> 14 != 0 {
            return Err(Error::malformed(Layer::TmFrame, 0, "version of another frame"));
        }
        if (first & 1 == 1) != trailer.has_control {
            return Err(Error::malformed(Layer::TmFrame, 1, "flag of the operational control field"));
        }
        if status >> 15 == 1 {
            return Err(Error::unsupported(Layer::TmFrame, 4, "secondary header"));
        }
        if status >> 14 & 1 == 1 {
            return Err(Error::unsupported(Layer::TmFrame, 4, "data other than packets"));
        }
        if status >> 11 & 7 != 3 {
            return Err(Error::malformed(Layer::TmFrame, 4, "packet order or segment length"));
        }
        let control = trailer.has_control.then(|| {
            end -= CONTROL_LEN;
            u32::from_be_bytes([bytes[end], bytes[end + 1], bytes[end + 2], bytes[end + 3]])
        });
        let data = &bytes[HEADER_LEN..end];
        let first_header = FirstHeader::from_code(status);
        if matches!(first_header, FirstHeader::At(offset) if usize::from(offset) >= data.len()) {
            return Err(Error::malformed(Layer::TmFrame, 4, "first header pointer behind the data field"));
        }
        let repr = Repr {
            spacecraft: first >> 4 & 0x3ff,
            channel: (first >> 1 & 7) as u8,
            master_count: bytes[2],
            channel_count: bytes[3],
            first_header,
            control,
        };
        Ok((repr, data))
    }

    /// Returns the length of a frame whose data field has `data` bytes.
    pub const fn buffer_len(data: usize, trailer: Trailer) -> usize {
        HEADER_LEN + data + trailer.len()
    }

    /// Writes header, control field and CRC around the data field, which is in place already.
    ///
    /// # Panics
    /// Panics if the buffer has no room for them, or a value does not fit its field.
    pub fn emit(&self, bytes: &mut [u8], has_crc: bool) {
        assert!(self.spacecraft < 1 << 10 && self.channel < 8, "identifiers that do not fit");
        let flag = u16::from(self.control.is_some());
        put16(bytes, 0, self.spacecraft << 4 | u16::from(self.channel) << 1 | flag);
        bytes[2] = self.master_count;
        bytes[3] = self.channel_count;
        put16(bytes, 4, 3 << 11 | self.first_header.code());
        let end = bytes.len() - if has_crc { crc::FRAME_LEN } else { 0 };
        if let Some(control) = self.control {
            bytes[end - CONTROL_LEN..end].copy_from_slice(&control.to_be_bytes());
        }
        if has_crc {
            fill_crc(bytes);
        }
    }
}
