//! CRC-32 with polynomial 0x04C11DB7, most significant bit first, register all ones at the start. AAL5
//! complements it (CRC-32/BZIP2); MPEG-2 sections and ULE do not (CRC-32/MPEG-2). Ogg begins with zeros.
//!
//! A run of elided zeros is jumped over in logarithmic time.

const POLYNOMIAL: u32 = 0x04c1_1db7;

/// Contribution of byte `b` and `k` zero bytes to the register, `TABLES[k][b]`. Slicing by eight.
static TABLES: [[u32; 256]; 8] = tables();

/// `ZEROS[k]`: x^(8 * 2^k) modulo the polynomial, which multiplies the register over 2^k zero bytes.
static ZEROS: [u32; usize::BITS as usize] = zero_powers();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        tables[0][byte] = times_x8((byte as u32) << 24);
        byte += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut byte = 0;
        while byte < 256 {
            tables[k][byte] = times_x8(tables[k - 1][byte]);
            byte += 1;
        }
        k += 1;
    }
    tables
}

const fn zero_powers() -> [u32; usize::BITS as usize] {
    let mut powers = [1 << 8; usize::BITS as usize];
    let mut k = 1;
    while k < powers.len() {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
}

const fn times_x(register: u32) -> u32 {
    let carry = if register >> 31 == 1 { POLYNOMIAL } else { 0 };
    register << 1 ^ carry
}

const fn times_x8(mut register: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        register = times_x(register);
        bit += 1;
    }
    register
}

/// Returns the product of two polynomials over GF(2), modulo the CRC's.
const fn multiply(a: u32, b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        product = times_x(product);
        if b >> bit & 1 == 1 {
            product ^= a;
        }
    }
    product
}

/// A CRC-32 in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc32(u32);

impl Crc32 {
    /// Returns the register at the start.
    #[inline]
    pub const fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// Returns a register of zeros, as Ogg begins.
    #[inline]
    pub const fn zero() -> Crc32 {
        Crc32(0)
    }

    /// Updates the register with bytes, eight at a time.
    #[inline]
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Crc32 {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let register = chunks.iter().fold(self.0, add_eight);
        Crc32(rest.iter().fold(register, |register, &byte| {
            register << 8 ^ TABLES[0][(register >> 24) as usize ^ usize::from(byte)]
        }))
    }

    /// Updates the register with `count` zero bytes, in time logarithmic in `count`.
    #[must_use]
    pub fn add_zeros(self, mut count: usize) -> Crc32 {
        let mut register = self.0;
        while count != 0 {
            register = multiply(register, ZEROS[count.trailing_zeros() as usize]);
            count &= count - 1;
        }
        Crc32(register)
    }

    /// Returns the register as it is.
    #[inline]
    pub const fn register(self) -> u32 {
        self.0
    }

    /// Returns the register's complement, as AAL5 sends it.
    #[inline]
    pub const fn complement(self) -> u32 {
        !self.0
    }
}

impl Default for Crc32 {
    fn default() -> Crc32 {
        Crc32::new()
    }
}

#[inline]
fn add_eight(register: u32, chunk: &[u8; 8]) -> u32 {
    let [a, b, c, d] = register.to_be_bytes();
    let at = |k: usize, byte: u8| TABLES[k][usize::from(byte)];
    let high = at(7, chunk[0] ^ a) ^ at(6, chunk[1] ^ b) ^ at(5, chunk[2] ^ c) ^ at(4, chunk[3] ^ d);
    let low = at(3, chunk[4]) ^ at(2, chunk[5]) ^ at(1, chunk[6]) ^ at(0, chunk[7]);
    high ^ low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn catalogue_check_values() {
        let crc = Crc32::new().add_bytes(b"123456789");
        assert_eq!((crc.register(), crc.complement()), (0x0376_e6e7, 0xfc89_1918));
    }

    proptest! {
        #[test]
        fn zeros_are_zeros(bytes in proptest::collection::vec(any::<u8>(), 0..40), count in 0usize..5000) {
            let crc = Crc32::new().add_bytes(&bytes);
            prop_assert_eq!(crc.add_zeros(count), crc.add_bytes(&vec![0; count]));
        }

        #[test]
        fn slices_join(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0usize..100) {
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            let bitwise = bytes.iter().fold(u32::MAX, |register, &byte| times_x8(register ^ u32::from(byte) << 24));
            prop_assert_eq!(Crc32::new().add_bytes(head).add_bytes(tail).register(), bitwise);
        }
    }
}
