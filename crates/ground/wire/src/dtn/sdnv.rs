//! Self-delimiting numeric values (RFC 6256).
//!
//! Octets carry seven bits each, and the last has no high bit.

use crate::{Error, Layer};

/// Maximum length in bytes of a value of 64 bits.
pub const MAX_LEN: usize = 10;

/// Reads the value at the start of `bytes` and returns it with its length.
///
/// Leading zero bits are accepted within ten octets (RFC 6256, section 2).
///
/// # Errors
/// Returns an error if the value is cut or longer than 64 bits.
pub fn read(bytes: &[u8]) -> Result<(u64, usize), Error> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().take(MAX_LEN).enumerate() {
        if value >> 57 != 0 {
            break;
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok((value, at + 1));
        }
    }
    match bytes.len() < MAX_LEN && value >> 57 == 0 {
        true => Err(Error::truncated(Layer::Ltp, 0, bytes.len() + 1, bytes.len())),
        false => Err(Error::unsupported(Layer::Ltp, 0, "an SDNV of more than 64 bits")),
    }
}

/// Returns the length of a value in bytes.
pub fn len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a value.
pub fn put(out: &mut Vec<u8>, value: u64) {
    for at in (1..len(value)).rev() {
        out.push(0x80 | (value >> (7 * at)) as u8);
    }
    out.push(value as u8 & 0x7f);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_of_the_standard() {
        for (value, octets) in [
            (0xabc, &[0x95, 0x3c][..]),
            (0x1234, &[0xa4, 0x34]),
            (0x4234, &[0x81, 0x84, 0x34]),
            (0x7f, &[0x7f]),
        ] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!((&out[..], read(octets)), (octets, Ok((value, octets.len()))));
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        assert!(read(&[0xff; 9]).is_err());
        assert!(read(&[0xff; 12]).is_err());
        let mut most = Vec::new();
        put(&mut most, u64::MAX);
        assert_eq!(read(&most), Ok((u64::MAX, MAX_LEN)));
    }

    proptest! {
        #[test]
        fn values_round_trip(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(out.len(), len(value));
            prop_assert_eq!(read(&out), Ok((value, out.len())));
        }
    }
}
