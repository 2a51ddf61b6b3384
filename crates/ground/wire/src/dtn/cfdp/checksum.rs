//! Checksums of files, and the CRC of PDUs.

use crate::dtn::crc::{Crc, CrcKind};

/// Type of a file's checksum, of the registry of CCSDS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChecksumKind {
    /// Sum of four-byte words.
    #[default]
    Modular = 0,
    /// CRC-32C (Castagnoli).
    Crc32c = 2,
    /// CRC-32 of IEEE 802.3.
    Crc32 = 3,
    /// Zero, for no checksum.
    Null = 15,
}

impl ChecksumKind {
    /// Returns the type of a number; `None` if it is not supported.
    pub fn from_number(number: u8) -> Option<ChecksumKind> {
        let all = [ChecksumKind::Modular, ChecksumKind::Crc32c, ChecksumKind::Crc32, ChecksumKind::Null];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Returns the checksum of a file.
pub fn checksum(kind: ChecksumKind, file: &[u8]) -> u32 {
    match kind {
        ChecksumKind::Modular => modular(file),
        ChecksumKind::Crc32c => Crc::new(CrcKind::Castagnoli).add_bytes(file).value(),
        ChecksumKind::Crc32 => crc32(file),
        ChecksumKind::Null => 0,
    }
}

/// Returns the sum of four-byte words; zeros fill the last.
fn modular(file: &[u8]) -> u32 {
    file.chunks(4).fold(0, |sum: u32, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        sum.wrapping_add(u32::from_be_bytes(word))
    })
}

/// Table of the reflected CRC-32 of polynomial 0x04C11DB7.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut value = n as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[n] = value;
        n += 1;
    }
    table
};

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

/// Returns the CRC-16 of a PDU: polynomial 0x1021, initially ones.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(u16::MAX, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            },
        )
    })
}
