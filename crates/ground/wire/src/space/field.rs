//! Checks that frames have in common.

use super::{MAX_FRAME_LEN, crc};
use crate::{Error, Layer};

/// Length in bytes of the operational control field.
pub(super) const CONTROL_LEN: usize = 4;

/// Checks length and CRC of a frame, and returns where the CRC begins.
pub(super) fn check(bytes: &[u8], least: usize, has_crc: bool, layer: Layer) -> Result<usize, Error> {
    let trailer = if has_crc { crc::FRAME_LEN } else { 0 };
    if bytes.len() < least + trailer {
        return Err(Error::truncated(layer, 0, least + trailer, bytes.len()));
    }
    if bytes.len() > MAX_FRAME_LEN {
        return Err(Error::malformed(layer, 0, "a frame of more than 2048 bytes"));
    }
    if has_crc && crc::frame(bytes) != 0 {
        return Err(Error::checksum(layer, bytes.len() - trailer));
    }
    Ok(bytes.len() - trailer)
}

/// Writes the error control field at the end of a frame.
///
/// # Panics
/// Panics if the frame is shorter than the field.
pub(super) fn fill_crc(bytes: &mut [u8]) {
    let end = bytes.len() - crc::FRAME_LEN;
    let register = crc::frame(&bytes[..end]);
    bytes[end..].copy_from_slice(&register.to_be_bytes());
}
