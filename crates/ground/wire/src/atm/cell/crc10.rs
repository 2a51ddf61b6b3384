//! CRC-10 of RM and OAM cells (ITU-T I.610). x^10 + x^9 + x^5 + x^4 + x + 1, most significant bit first,
//! register zero at the start, not complemented.

use crate::atm::PAYLOAD_LEN;

const POLYNOMIAL: u16 = 0x233;

/// Register after each value of its upper eight bits.
static TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u16) << 2;
        let mut bit = 0;
        while bit < 8 {
            register = shift(register);
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

const fn shift(register: u16) -> u16 {
    let carry = if register & 0x200 != 0 { POLYNOMIAL } else { 0 };
    (register << 1 & 0x3ff) ^ carry
}

/// Returns the remainder of whole bytes.
pub fn of(bytes: &[u8]) -> u16 {
    bytes
        .iter()
        .fold(0, |register, &byte| (register << 8 & 0x3ff) ^ TABLE[usize::from((register >> 2) as u8 ^ byte)])
}

/// Returns `true` if a payload that ends in its CRC-10 is as it was sent.
pub fn verify(payload: &[u8]) -> bool {
    of(payload) == 0
}

/// Writes the CRC-10 into the last ten bits of a cell's payload.
///
/// # Panics
/// If `payload` is not 48 bytes.
pub fn fill(payload: &mut [u8]) {
    assert!(payload.len() == PAYLOAD_LEN, "a cell's payload has 48 bytes");
    // Six bits of the last octet but one belong to the protected part.
    let reserved = payload[46] & 0xfc;
    let register = (0..6).fold(of(&payload[..46]) ^ u16::from(reserved) << 2, |register, _| shift(register));
    let [high, low] = register.to_be_bytes();
    payload[46] = reserved | high;
    payload[47] = low;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_check_value() {
        // CRC-10/ATM's check value is the register after as many zero bits more as the register is long.
        let bits =
            b"123456789".iter().flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1)));
        let register = bits.chain([0; 10]).fold(0_u16, |register, bit| {
            let carry = if register & 0x200 != 0 { POLYNOMIAL } else { 0 };
            (register << 1 & 0x3ff | bit) ^ carry
        });
        assert_eq!((register, of(b"123456789")), (0x199, 0x199));
    }

    #[test]
    fn a_filled_payload_is_right_and_no_pair_of_errors_escapes() {
        let mut payload: Vec<u8> = (0..48).collect();
        fill(&mut payload);
        assert!(verify(&payload));
        for first in 0..384 {
            for second in first..384 {
                let mut damaged = payload.clone();
                damaged[first / 8] ^= 0x80 >> (first % 8);
                if second != first {
                    damaged[second / 8] ^= 0x80 >> (second % 8);
                }
                assert!(!verify(&damaged), "bits {first} and {second}");
            }
        }
    }
}
