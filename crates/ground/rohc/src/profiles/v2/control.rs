//! Control fields (RFC 5225 6.3) and the numbers that headers carry of them.

use crate::framework::config::ReorderRatio;
use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};
use crate::framework::profile::Profile;

/// Timestamp stride of a new context (`TS_STRIDE_DEFAULT`).
pub(super) const DEFAULT_TS_STRIDE: u32 = 160;
/// Time stride of a new context (`TIME_STRIDE_DEFAULT`).
pub(super) const DEFAULT_TIME_STRIDE: u32 = 0;

/// Behaviour of the checksum coverage of UDP-Lite, with its number in headers (RFC 5225 6.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Coverage {
    /// The length of the datagram.
    #[default]
    Inferred = 0,
    Static = 1,
    Irregular = 2,
}

impl Coverage {
    pub(super) const fn from_bits(bits: u8) -> Result<Self, DecompressError> {
        match bits & 3 {
            0 => Ok(Self::Inferred),
            1 => Ok(Self::Static),
            2 => Ok(Self::Irregular),
            _ => Err(DecompressError::Malformed("coverage behaviour")),
        }
    }
}

/// Control fields of a context, those of IP headers aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control {
    /// Sequence number of RTP or ESP, or a generated one. Its low 16 bits are the master sequence number.
    pub(super) number: u32,
    pub(super) reorder: ReorderRatio,
    pub(super) ts_stride: u32,
    pub(super) time_stride: u32,
    pub(super) coverage: Coverage,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            number: 0,
            reorder: ReorderRatio::None,
            ts_stride: DEFAULT_TS_STRIDE,
            time_stride: DEFAULT_TIME_STRIDE,
            coverage: Coverage::Inferred,
        }
    }
}

impl Control {
    /// Returns the master sequence number.
    #[inline]
    pub(super) const fn msn(&self) -> u16 {
        self.number as u16
    }
}

/// Mask of the numbers of a profile.
#[inline]
pub(super) const fn mask(profile: Profile) -> u32 {
    if matches!(profile, Profile::EspV2) { u32::MAX } else { 0xffff }
}

/// Returns how far `number` lies ahead of `from`; negative where it lies behind.
#[inline]
pub(super) const fn distance(profile: Profile, from: u32, number: u32) -> i32 {
    let ahead = number.wrapping_sub(from);
    if matches!(profile, Profile::EspV2) { ahead.cast_signed() } else { (ahead as u16).cast_signed() as i32 }
}

/// Offset of the interval for `bits` bits of a value other than the sequence number.
#[inline]
pub(super) const fn value_p(bits: u32) -> u32 {
    (1 << bits) / 4 - 1
}

/// Bits of the forms of variable-length values (`sdvl`), without the whole value.
pub(super) const SDVL_BITS: [u32; 4] = [7, 14, 21, 28];

/// Writes the low `bits` bits of `value`, one of [`SDVL_BITS`]. The whole value in `whole_bits` bits otherwise.
pub(super) fn write_sdvl(out: &mut Writer<'_>, value: u32, bits: u32, whole_bits: u32) {
    match bits {
        7 => out.u8((value & 0x7f) as u8),
        14 => out.u16(0x8000 | (value & 0x3fff) as u16),
        21 => out.bytes(&(0xc0_0000 | value & 0x1f_ffff).to_be_bytes()[1..]),
        28 => out.u32(0xe000_0000 | value & 0x0fff_ffff),
        _ => {
            out.u8(0xff);
            out.bytes(&value.to_be_bytes()[4 - whole_bits as usize / 8..]);
        }
    }
}

/// Writes `value` whole, in the fewest octets.
pub(super) fn write_whole_sdvl(out: &mut Writer<'_>, value: u32) {
    let bits = SDVL_BITS.into_iter().find(|&bits| value >> bits == 0).unwrap_or(32);
    write_sdvl(out, value, bits, 32);
}

/// Low bits of a value and their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) value: u32,
    pub(super) bits: u32,
}

/// Reads a variable-length value whose whole form has `whole_bits` bits.
pub(super) fn read_sdvl(input: &mut Reader<'_>, whole_bits: u32) -> Result<Bits, DecompressError> {
    Ok(match input.peek()? {
        0x00..=0x7f => Bits { value: u32::from(input.u8()?), bits: 7 },
        0x80..=0xbf => Bits { value: u32::from(input.u16()?) & 0x3fff, bits: 14 },
        0xc0..=0xdf => {
            let [high, middle, low] = input.array()?;
            Bits { value: u32::from_be_bytes([0, high & 0x1f, middle, low]), bits: 21 }
        }
        0xe0..=0xef => Bits { value: input.u32()? & 0x0fff_ffff, bits: 28 },
        0xff => {
            input.u8()?;
            let value = if whole_bits == 16 { u32::from(input.u16()?) } else { input.u32()? };
            Bits { value, bits: 32 }
        }
        _ => return Err(DecompressError::Malformed("variable-length value")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn ratios_divide_the_interval() {
        let depths = |bits| {
            [ReorderRatio::None, ReorderRatio::Quarter, ReorderRatio::Half, ReorderRatio::ThreeQuarters]
                .map(|ratio| ratio.depth(bits))
        };
        assert_eq!(depths(4), [1, 3, 7, 11]);
        assert_eq!(depths(8), [1, 63, 127, 191]);
    }

    #[test]
    fn variable_length_values_round_trip_in_every_form() {
        for (value, len) in
            [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (1 << 21, 4), (1 << 28, 5), (u32::MAX, 5)]
        {
            let mut out = Vec::new();
            write_whole_sdvl(&mut Writer::new(&mut out), value);
            assert_eq!(out.len(), len);
            assert_eq!(read_sdvl(&mut Reader::new(&out), 32).map(|read| read.value), Ok(value));
            assert_eq!(read_sdvl(&mut Reader::new(&out[..len - 1]), 32), Err(DecompressError::Truncated));
        }
        let mut out = Vec::new();
        write_sdvl(&mut Writer::new(&mut out), 0xabcd, 32, 16);
        assert_eq!(out, [0xff, 0xab, 0xcd]);
        assert_eq!(read_sdvl(&mut Reader::new(&out), 16), Ok(Bits { value: 0xabcd, bits: 32 }));
        assert!(read_sdvl(&mut Reader::new(&[0xf5, 0, 0, 0, 0]), 32).is_err());
    }
}
