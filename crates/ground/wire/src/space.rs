//! Space data links of CCSDS: transfer frames, encapsulation packets, and their coding.
//!
//! *Models* TM frames (132.0-B), AOS frames (732.0-B), frames of Proximity-1 (211.0-B), encapsulation packets (133.1-B), Reed-Solomon code,
//! convolutional code and randomiser (131.0-B). *Does not model* telecommand frames, USLP, frame header error control of AOS, time codes,
//! and security (355.0-B).
//!
//! *References*: the texts of CCSDS were not available. Formats are from memory; each module says what stands against that.

pub mod aos;
pub mod convolutional;
pub mod crc;
pub mod encapsulation;
mod field;
pub mod proximity;
pub mod randomizer;
pub mod reed_solomon;
pub mod tm;

/// Attached sync marker of TM and AOS frames: in front of a frame or codeblock.
pub const SYNC_MARKER: [u8; 4] = [0x1a, 0xcf, 0xfc, 0x1d];
/// Attached sync marker of Proximity-1: in front of a frame.
pub const PROXIMITY_MARKER: [u8; 3] = [0xfa, 0xf3, 0x20];
/// Maximum length in bytes of a frame of any kind.
pub const MAX_FRAME_LEN: usize = 2048;

/// First packet that starts in a data field: the first header pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstHeader {
    /// Offset of its first byte in the data field.
    At(u16),
    /// No packet starts in the data field.
    None,
    /// The data field has idle data alone.
    Idle,
}

impl FirstHeader {
    const NONE: u16 = 0x7ff;
    const IDLE: u16 = 0x7fe;

    fn from_code(code: u16) -> FirstHeader {
        match code & FirstHeader::NONE {
            FirstHeader::NONE => FirstHeader::None,
            FirstHeader::IDLE => FirstHeader::Idle,
            offset => FirstHeader::At(offset),
        }
    }

    /// Panics if the offset is not below 2046.
    fn code(self) -> u16 {
        match self {
            FirstHeader::At(offset) => {
                assert!(offset < FirstHeader::IDLE, "a first header pointer of {offset}");
                offset
            }
            FirstHeader::None => FirstHeader::NONE,
            FirstHeader::Idle => FirstHeader::IDLE,
        }
    }
}
