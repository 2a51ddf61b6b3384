//! CRC-3, CRC-7 and CRC-8 of headers (RFC 3095 5.9), CRC-32 of units (5.2.5.2).
//!
//! All are reflected (least significant bit first), preset to ones, not inverted, as RFC 4815 2.1 settles; the CRC-32
//! is the FCS-32 of HDLC, which is inverted. The header CRCs read eight octets per step from eight tables
//! ("slicing by eight"): a header CRC is on the path of every packet, and a one-table loop waits for a load per octet.

const SLICES: usize = 8;

/// Header CRC: its tables and its preset.
pub(crate) struct Crc {
    tables: [[u8; 256]; SLICES],
    init: u8,
}

/// The CRC of UO-0 and UO-1 packets: 1 + x + x^3.
pub(crate) static CRC3: Crc = Crc::new(0x06, 0x07);
/// CRC-7 of type 2 and R-0-CRC packets. Its polynomial is 1 + x + x^2 + x^3 + x^6 + x^7.
pub(crate) static CRC7: Crc = Crc::new(0x79, 0x7f);
/// CRC-8 of IR and IR-DYN packets and of feedback. Its polynomial is 1 + x + x^2 + x^8.
pub(crate) static CRC8: Crc = Crc::new(0xe0, 0xff);

impl Crc {
    const fn new(polynomial: u8, init: u8) -> Self {
        let mut tables = [[0u8; 256]; SLICES];
        let mut octet = 0;
        while octet < 256 {
            tables[0][octet] = one_octet(octet as u8, polynomial);
            octet += 1;
        }
        let mut slice = 1;
        while slice < SLICES {
            let mut octet = 0;
            while octet < 256 {
                // No octet of the register survives eight shifts, so one more zero octet is one more look-up.
                tables[slice][octet] = tables[0][tables[slice - 1][octet] as usize];
                octet += 1;
            }
            slice += 1;
        }
        Self { tables, init }
    }

    /// The register before the first octet.
    pub(crate) const fn start(&self) -> u8 {
        self.init
    }

    /// The register after `data`, from register `crc`.
    #[inline]
    pub(crate) fn update(&self, mut crc: u8, data: &[u8]) -> u8 {
        let (chunks, rest) = data.as_chunks::<SLICES>();
        for chunk in chunks {
            crc = self.eight(crc, chunk);
        }
        for &octet in rest {
            crc = self.tables[0][usize::from(crc ^ octet)];
        }
        crc
    }

    #[inline]
    fn eight(&self, crc: u8, chunk: &[u8; SLICES]) -> u8 {
        let [table0, table1, table2, table3, table4, table5, table6, table7] = &self.tables;
        let [a, b, c, d, e, f, g, h] = chunk.map(usize::from);
        // Two halves that do not wait for each other.
        let first = table7[a ^ usize::from(crc)] ^ table6[b] ^ table5[c] ^ table4[d];
        first ^ (table3[e] ^ table2[f] ^ table1[g] ^ table0[h])
    }

    /// The CRC of `data` alone.
    pub(crate) fn of(&self, data: &[u8]) -> u8 {
        self.update(self.start(), data)
    }
}

const fn one_octet(octet: u8, polynomial: u8) -> u8 {
    let mut crc = octet;
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 };
        bit += 1;
    }
    crc
}

/// CRC-3 of values that are given, without a table look-up per octet. Modulo its polynomial x^7 = 1, so bits that
/// are seven apart count alike: the message is folded into seven bits by shifting, and those index one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold3 {
    sum: u64,
    /// Bits added, modulo 7.
    shift: u32,
}

impl Fold3 {
    /// Continues from the register `crc`. At least three bits must follow.
    #[inline]
    pub(crate) const fn from(crc: u8) -> Self {
        // A register is added to the next bits of the message.
        Self { sum: crc as u64, shift: 0 }
    }

    /// Adds the `bits` low bits of `value`, at most 56, octets in little-endian order.
    #[inline]
    #[must_use]
    pub(crate) const fn add(self, value: u64, bits: u32) -> Self {
        Self { sum: self.sum ^ value << self.shift, shift: (self.shift + bits) % 7 }
    }

    /// The register after all of it.
    #[inline]
    pub(crate) const fn finish(self) -> u8 {
        let sum = (self.sum & (u64::MAX >> 1)) ^ self.sum >> 63;
        let sum = (sum ^ sum >> 21 ^ sum >> 42) & 0x1f_ffff;
        let sum = (sum ^ sum >> 7 ^ sum >> 14) & 0x7f;
        // Moved up so that the last bit is where that of a multiple of seven bits would be.
        let up = 7 - self.shift;
        FOLDED3[((sum << up | sum >> self.shift) & 0x7f) as usize]
    }
}

/// Returns the CRC-3 of `data` alone. Words of seven octets add up where they are, as 56 bits are a multiple of
/// seven.
pub(crate) fn crc3(data: &[u8]) -> u8 {
    // The lengths that most headers have are taken without a loop: TCP over IPv4 and IPv6, with and without timestamps.
    match data.len() {
        40 => fixed3::<40>(data),
        52 => fixed3::<52>(data),
        60 => fixed3::<60>(data),
        72 => fixed3::<72>(data),
        _ => any3(data),
    }
}

#[inline]
fn fixed3<const LEN: usize>(data: &[u8]) -> u8 {
    data.first_chunk::<LEN>().map_or(0, |data| any3(data))
}

#[inline(always)]
fn any3(data: &[u8]) -> u8 {
    let (mut sum, mut rest) = (u64::from(CRC3.init), data);
    // Each time eight octets are read, and the last one again with the next seven.
    while let Some(octets) = rest.first_chunk::<8>() {
        sum ^= u64::from_le_bytes(*octets) & (u64::MAX >> 8);
        rest = &rest[7..];
    }
    let bits = 8 * rest.len() as u32;
    let last = match data.last_chunk::<8>() {
        Some(octets) => u64::from_le_bytes(*octets) >> (64 - bits),
        None => rest.iter().rev().fold(0, |word, &octet| word << 8 | u64::from(octet)),
    };
    Fold3 { sum, shift: 0 }.add(last, bits).finish()
}

/// The CRC-3 register after seven bits, from zero.
static FOLDED3: [u8; 128] = folded3();

const fn folded3() -> [u8; 128] {
    let mut table = [0; 128];
    let mut bits = 0;
    while bits < table.len() {
        let (mut crc, mut bit) = (0, 0);
        while bit < 7 {
            let feedback = (crc ^ (bits >> bit) as u8) & 1;
            crc = (crc >> 1) ^ (0x06 * feedback);
            bit += 1;
        }
        table[bits] = crc;
        bits += 1;
    }
    table
}

static CRC32_TABLE: [u32; 256] = crc32_table();

const fn crc32_table() -> [u32; 256] {
    let mut table = [0u32; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut crc = octet as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[octet] = crc;
        octet += 1;
    }
    table
}

/// The FCS-32 of `data`, as it stands (least significant octet first) behind a reconstructed unit.
pub(crate) fn fcs32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc: u32, &octet| (crc >> 8) ^ CRC32_TABLE[usize::from(crc as u8 ^ octet)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bit_by_bit(data: &[u8], polynomial: u8, init: u8) -> u8 {
        data.iter().fold(init, |crc, &octet| one_octet(crc ^ octet, polynomial))
    }

    /// The check values of the catalogue of parametrised CRC algorithms for CRC-3/ROHC, CRC-7/ROHC and CRC-8/ROHC.
    #[test]
    fn catalogue_check_values() {
        assert_eq!(CRC3.of(b"123456789"), 0x06);
        assert_eq!(CRC7.of(b"123456789"), 0x53);
        assert_eq!(CRC8.of(b"123456789"), 0xd0);
        assert_eq!(fcs32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn sliced_equals_bit_by_bit_at_every_length() {
        let data: [u8; 40] = core::array::from_fn(|index| (index * 37 + 11) as u8);
        for length in 0..=data.len() {
            assert_eq!(CRC3.of(&data[..length]), bit_by_bit(&data[..length], 0x06, 0x07), "{length}");
            assert_eq!(crc3(&data[..length]), CRC3.of(&data[..length]), "{length}");
            assert_eq!(CRC7.of(&data[..length]), bit_by_bit(&data[..length], 0x79, 0x7f), "{length}");
            assert_eq!(CRC8.of(&data[..length]), bit_by_bit(&data[..length], 0xe0, 0xff), "{length}");
        }
    }

    #[test]
    fn folding_is_crc3() {
        let mut data = [0u8; 24];
        for round in 0..200u32 {
            data.iter_mut().enumerate().for_each(|(at, octet)| {
                *octet = (round.wrapping_mul(2_654_435_761) >> (at % 23)) as u8 ^ (at as u8).wrapping_mul(73);
            });
            for register in 0..8 {
                for lengths in [&[1usize][..], &[4, 2, 4, 7], &[2, 2, 7], &[7; 3], &[6, 1, 5, 7, 3]] {
                    let (mut fold, mut at) = (Fold3::from(register), 0);
                    for &len in lengths {
                        let mut value = [0; 8];
                        value[..len].copy_from_slice(&data[at..at + len]);
                        fold = fold.add(u64::from_le_bytes(value), 8 * len as u32);
                        at += len;
                    }
                    assert_eq!(fold.finish(), CRC3.update(register, &data[..at]), "{lengths:?}");
                }
            }
        }
    }

    #[test]
    fn a_crc_can_be_computed_in_parts() {
        let data = b"static part, dynamic part";
        let part = CRC7.update(CRC7.start(), &data[..11]);
        assert_eq!(CRC7.update(part, &data[11..]), CRC7.of(data));
    }
}
