//! Self-describing variable-length values of 7, 14, 21 or 29 bits (RFC 3095 4.5.6).

use crate::framework::octets::{Reader, Truncated, Writer};

/// The largest value that four octets can hold.
pub(crate) const MAX: u32 = (1 << 29) - 1;

/// Octets that `value` takes; `None` when it is larger than [`MAX`].
#[cfg(test)]
pub(crate) const fn len(value: u32) -> Option<usize> {
    match value {
        0..=0x7f => Some(1),
        0x80..=0x3fff => Some(2),
        0x4000..=0x1f_ffff => Some(3),
        0x20_0000..=MAX => Some(4),
        _ => None,
    }
}

/// Writes the `bits` low bits of `value`, rounded up to 7, 14, 21 or 29.
pub(crate) fn write_bits(writer: &mut Writer<'_>, value: u32, bits: u32) {
    match bits {
        0..=7 => writer.u8((value & 0x7f) as u8),
        8..=14 => writer.u16(0x8000 | (value & 0x3fff) as u16),
        15..=21 => writer.bytes(&(0xc0_0000 | value & 0x1f_ffff).to_be_bytes()[1..]),
        _ => writer.u32(0xe000_0000 | value & MAX),
    }
}

/// Writes `value` in as few octets as possible. Values above [`MAX`] lose their upper bits.
pub(crate) fn write(writer: &mut Writer<'_>, value: u32) {
    write_bits(writer, value, 32 - value.leading_zeros());
}

/// Reads a value and says how many bits were sent.
pub(crate) fn read(reader: &mut Reader<'_>) -> Result<(u32, u32), Truncated> {
    match reader.peek()? {
        0x00..=0x7f => Ok((u32::from(reader.u8()?), 7)),
        0x80..=0xbf => Ok((u32::from(reader.u16()?) & 0x3fff, 14)),
        0xc0..=0xdf => {
            let [high, middle, low] = reader.array()?;
            Ok((u32::from_be_bytes([0, high & 0x1f, middle, low]), 21))
        }
        0xe0..=0xff => Ok((reader.u32()? & MAX, 29)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_boundary_round_trips_in_the_shortest_form() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, MAX] {
            let mut out = Vec::new();
            write(&mut Writer::new(&mut out), value);
            assert_eq!(Some(out.len()), len(value));
            assert_eq!(read(&mut Reader::new(&out)).map(|(read, _)| read), Ok(value));
            assert_eq!(read(&mut Reader::new(&out[..out.len() - 1])), Err(Truncated));
        }
        assert_eq!(len(MAX + 1), None);
    }
}
