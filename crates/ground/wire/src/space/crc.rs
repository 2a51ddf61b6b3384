//! CRCs of transfer frames.
//!
//! *Against memory*: the check values of both CRCs by PyPI's `crccheck` and by division of polynomials.

/// Length in bytes of the frame error control field of TM and AOS.
pub const FRAME_LEN: usize = 2;
/// Length in bytes of the CRC of a Proximity-1 frame.
pub const PROXIMITY_LEN: usize = 4;

static FRAME_TABLE: [u16; 256] = frame_table();
static PROXIMITY_TABLE: [u32; 256] = proximity_table();

const fn frame_table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            register = register << 1 ^ if register >> 15 == 1 { 0x1021 } else { 0 };
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

const fn proximity_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            register = register << 1 ^ if register >> 31 == 1 { 0x00a0_0805 } else { 0 };
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

/// Returns the frame error control field of TM and AOS. It is 0 over a frame with a right one.
///
/// Polynomial x^16 + x^12 + x^5 + 1, register of ones at the start.
pub fn frame(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |register: u16, byte| {
        register << 8 ^ FRAME_TABLE[usize::from((register >> 8) as u8 ^ byte)]
    })
}

/// Returns the CRC-32 of a Proximity-1 frame. It is 0 over a frame with a right one.
///
/// Polynomial x^32 + x^23 + x^21 + x^11 + x^2 + 1, register of zeros at the start.
pub fn proximity(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |register: u32, byte| {
        register << 8 ^ PROXIMITY_TABLE[usize::from((register >> 24) as u8 ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_are_those_of_the_polynomials() {
        // CRC-16/IBM-3740, in every catalogue.
        assert_eq!(frame(b"123456789"), 0x29b1);
        // By long division in the test itself.
        let mut register: u64 = 0;
        for byte in b"123456789" {
            for bit in (0..8).rev() {
                let carry = (register >> 31 ^ u64::from(byte >> bit)) & 1;
                register = (register << 1 & 0xffff_ffff) ^ if carry == 1 { 0x00a0_0805 } else { 0 };
            }
        }
        assert_eq!(u64::from(proximity(b"123456789")), register);
        for bytes in [&b"a frame"[..], &[0; 40]] {
            let with = [bytes, &frame(bytes).to_be_bytes()].concat();
            assert_eq!(frame(&with), 0);
            let with = [bytes, &proximity(bytes).to_be_bytes()].concat();
            assert_eq!(proximity(&with), 0);
        }
    }
}
