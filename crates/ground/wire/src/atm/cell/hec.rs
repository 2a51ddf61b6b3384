//! Header error control (ITU-T I.432.1): a CRC-8 over a header's first four octets. It finds most errors and
//! corrects any single one.

use crate::atm::HEADER_LEN;
use crate::bytes::be32;

/// x^8 + x^2 + x + 1.
const POLYNOMIAL: u8 = 0x07;
/// Added to the remainder, so that headers of zeros keep their boundaries apart.
const COSET_LEADER: u8 = 0x55;

/// Register after each byte.
static TABLE: [u8; 256] = table();

/// Bit of the header that explains each syndrome, most significant first; 40 if none.
static SINGLE: [u8; 256] = single_errors();

const NO_SINGLE: u8 = 8 * HEADER_LEN as u8;

const fn table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = byte as u8;
        let mut bit = 0;
        while bit < 8 {
            let carry = if register & 0x80 != 0 { POLYNOMIAL } else { 0 };
            register = register << 1 ^ carry;
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

const fn single_errors() -> [u8; 256] {
    let mut single = [NO_SINGLE; 256];
    let mut bit = 0;
    while bit < NO_SINGLE {
        let syndrome = if bit < 32 { remainder(1 << (31 - bit)) } else { 0x80 >> (bit - 32) };
        single[syndrome as usize] = bit;
        bit += 1;
    }
    single
}

const fn remainder(word: u32) -> u8 {
    let [a, b, c, d] = word.to_be_bytes();
    let register = TABLE[a as usize];
    let register = TABLE[(register ^ b) as usize];
    let register = TABLE[(register ^ c) as usize];
    TABLE[(register ^ d) as usize]
}

/// Returns the HEC of a header's first four octets.
#[inline]
pub const fn of(word: u32) -> u8 {
    remainder(word) ^ COSET_LEADER
}

/// Status of a header's HEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HecStatus {
    /// No error detected.
    Good,
    /// Single wrong bit, corrected.
    Corrected,
    /// Wrong, and not to be corrected.
    Bad,
}

/// Compares a header with its HEC and puts a single wrong bit right.
pub fn correct(header: &mut [u8; HEADER_LEN]) -> HecStatus {
    let syndrome = of(be32(header, 0)) ^ header[4];
    match SINGLE[usize::from(syndrome)] {
        _ if syndrome == 0 => HecStatus::Good,
        NO_SINGLE => HecStatus::Bad,
        bit => {
            header[usize::from(bit / 8)] ^= 0x80 >> (bit % 8);
            HecStatus::Corrected
        }
    }
}

/// Header receiver that corrects a single wrong bit after a good header. After a bad one it only detects
/// errors until the next good header, since errors occur in bursts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receiver {
    detecting: bool,
}

impl Receiver {
    /// Creates a receiver that has just seen a good header.
    pub const fn new() -> Receiver {
        Receiver { detecting: false }
    }

    /// Judges the next header: the cell is dropped if it is [`HecStatus::Bad`].
    pub fn receive(&mut self, header: &mut [u8; HEADER_LEN]) -> HecStatus {
        let was_detecting = std::mem::replace(&mut self.detecting, true);
        let mut put_right = *header;
        match correct(&mut put_right) {
            HecStatus::Good => {
                self.detecting = false;
                HecStatus::Good
            }
            HecStatus::Corrected if !was_detecting => {
                *header = put_right;
                HecStatus::Corrected
            }
            _ => HecStatus::Bad,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_error_is_corrected_once_in_a_row() {
        let good = [0x00, 0x10, 0x06, 0x4d, 0x6d];
        for bit in 0..40 {
            let mut receiver = Receiver::new();
            let mut header = good;
            header[bit / 8] ^= 0x80 >> (bit % 8);
            let damaged = header;
            assert_eq!((receiver.receive(&mut header), header), (HecStatus::Corrected, good));
            let mut again = damaged;
            assert_eq!((receiver.receive(&mut again), again), (HecStatus::Bad, damaged));
            assert_eq!(receiver.receive(&mut good.clone()), HecStatus::Good);
            assert_eq!(receiver.receive(&mut damaged.clone()), HecStatus::Corrected);
        }
    }

    #[test]
    fn pairs_of_errors_are_never_taken_for_good() {
        let good = [0x00, 0x00, 0x02, 0x02, 0x71];
        let mut miscorrected = 0;
        for (first, second) in (0..40).flat_map(|first| (0..first).map(move |second| (first, second))) {
            let mut header = good;
            header[first / 8] ^= 0x80 >> (first % 8);
            header[second / 8] ^= 0x80 >> (second % 8);
            match correct(&mut header) {
                HecStatus::Good => panic!("bits {first} and {second}"),
                HecStatus::Corrected => miscorrected += 1,
                HecStatus::Bad => assert_ne!(header, good),
            }
        }
        // The code has distance 4: two errors are seen as two.
        assert_eq!(miscorrected, 0);
    }
}
