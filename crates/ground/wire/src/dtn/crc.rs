//! CRCs of bundles: CRC-16/X-25 and CRC-32C (RFC 9171, section 4.2.1), both reflected.
//!
//! CRC-32C of bytes is by `crc32c`, with the processor's instructions where it has them. Runs of elided zeros are jumped over in
//! logarithmic time.

/// CRC of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CrcKind {
    /// No CRC.
    None,
    /// CRC-16/X-25.
    X25,
    /// CRC-32C.
    #[default]
    Castagnoli,
}

impl CrcKind {
    /// Returns the kind with a CRC type code, if one has it.
    pub fn from_code(code: u64) -> Option<CrcKind> {
        [CrcKind::None, CrcKind::X25, CrcKind::Castagnoli].get(usize::try_from(code).ok()?).copied()
    }

    /// Returns the CRC type code.
    pub fn code(self) -> u64 {
        self as u64
    }

    /// Returns the length of the CRC in bytes.
    pub fn len(self) -> usize {
        self as usize * 2
    }

    /// Returns `true` if a block has none.
    pub fn is_empty(self) -> bool {
        self == CrcKind::None
    }
}

/// Reflected polynomials with the width of their registers.
const X25: (u32, u32) = (0x8408, 16);
const CASTAGNOLI: (u32, u32) = (0x82f6_3b78, 32);

static X25_TABLE: [u32; 256] = table(X25.0);

const fn step(mut register: u32, polynomial: u32) -> u32 {
    let mut bit = 0;
    while bit < 8 {
        register = register >> 1 ^ if register & 1 == 1 { polynomial } else { 0 };
        bit += 1;
    }
    register
}

const fn table(polynomial: u32) -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = step(byte as u32, polynomial);
        byte += 1;
    }
    table
}

/// Returns the product of two reflected polynomials of `width` bits over GF(2), modulo the CRC's.
const fn multiply(a: u32, mut b: u32, (polynomial, width): (u32, u32)) -> u32 {
    let mut product = 0;
    let mut bit = width;
    while bit > 0 {
        bit -= 1;
        if a >> bit & 1 == 1 {
            product ^= b;
        }
        b = b >> 1 ^ if b & 1 == 1 { polynomial } else { 0 };
    }
    product
}

/// CRC in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc {
    kind: CrcKind,
    register: u32,
}

impl Crc {
    /// Returns the register at the start.
    pub fn new(kind: CrcKind) -> Crc {
        Crc { kind, register: if kind == CrcKind::X25 { 0xffff } else { u32::MAX } }
    }

    /// Updates the register with bytes.
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Crc {
        let register = match self.kind {
            CrcKind::None => self.register,
            CrcKind::X25 => {
                bytes.iter().fold(self.register, |register, byte| step_by(&X25_TABLE, register, *byte))
            }
            // The library takes and returns values, which are inverted registers.
            CrcKind::Castagnoli => !crc32c::crc32c_append(!self.register, bytes),
        };
        Crc { register, ..self }
    }

    /// Updates the register with `count` zero bytes, in time logarithmic in `count`.
    #[must_use]
    pub fn add_zeros(self, mut count: u64) -> Crc {
        const FEW: [u8; 64] = [0; 64];
        // The CRC's own place in a block: squaring polynomials takes longer.
        if let Some(zeros) = usize::try_from(count).ok().and_then(|count| FEW.get(..count)) {
            return self.add_bytes(zeros);
        }
        let field = match self.kind {
            CrcKind::None => return self,
            CrcKind::X25 => X25,
            CrcKind::Castagnoli => CASTAGNOLI,
        };
        let mut power = 1 << (field.1 - 1 - 8);
        let mut register = self.register;
        while count != 0 {
            if count & 1 == 1 {
                register = multiply(register, power, field);
            }
            power = multiply(power, power, field);
            count >>= 1;
        }
        Crc { register, ..self }
    }

    /// Returns the CRC.
    pub fn value(self) -> u32 {
        match self.kind {
            CrcKind::None => 0,
            CrcKind::X25 => self.register ^ 0xffff,
            CrcKind::Castagnoli => !self.register,
        }
    }

    /// Appends the CRC in network byte order.
    pub fn put(self, out: &mut Vec<u8>) {
        out.extend(&self.value().to_be_bytes()[4 - self.kind.len()..]);
    }
}

fn step_by(table: &[u32; 256], register: u32, byte: u8) -> u32 {
    register >> 8 ^ table[usize::from(register as u8 ^ byte)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn catalogue_check_values() {
        let check = |kind| Crc::new(kind).add_bytes(b"123456789").value();
        assert_eq!([check(CrcKind::X25), check(CrcKind::Castagnoli)], [0x906e, 0xe306_9283]);
    }

    proptest! {
        #[test]
        fn zeros_are_zeros(bytes in proptest::collection::vec(any::<u8>(), 0..40), count in 0u64..5000, wide: bool) {
            let kind = if wide { CrcKind::Castagnoli } else { CrcKind::X25 };
            let crc = Crc::new(kind).add_bytes(&bytes);
            prop_assert_eq!(crc.add_zeros(count), crc.add_bytes(&vec![0; count as usize]));
            prop_assert_eq!(crc.add_zeros(count % 70), crc.add_bytes(&vec![0; count as usize % 70]));
        }
    }
}
