//! Sixteen short header formats as tables of their fields (RFC 6846 8.2).
//!
//! None is longer than 56 bits, so a header is built in and taken from one 64-bit word. The seventeenth format,
//! `co_common`, has optional octets and is in [`super::common`].

use crate::framework::error::DecompressError;
use crate::framework::octets::{Reader, Writer};
use crate::framework::profile::PacketType;

/// Content of a part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Seq,
    Ack,
    SeqScaled,
    AckScaled,
    Window,
    IpId,
    Ttl,
    Msn,
    Psh,
    Rsf,
    EcnUsed,
    ListPresent,
    Crc,
}

/// Number of fields.
#[cfg(test)]
const FIELDS: usize = Field::Crc as usize + 1;

/// Part of a format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) field: Field,
    pub(super) bits: u32,
    /// Offset of the LSB interval, for those that are LSB-coded.
    pub(super) p: u32,
}

/// Parts of a format that are relative to references, at most.
const MAX_RELATIVE: usize = 4;

const fn lsb(field: Field, bits: u32, p: u32) -> Part {
    Part { field, bits, p }
}

const fn plain(field: Field, bits: u32) -> Part {
    Part { field, bits, p: 0 }
}

const MSN: Part = lsb(Field::Msn, 4, 4);
const PSH: Part = plain(Field::Psh, 1);
const CRC3: Part = plain(Field::Crc, 3);
const CRC7: Part = plain(Field::Crc, 7);
const SEQ_SCALED: Part = lsb(Field::SeqScaled, 4, 7);
const ACK_SCALED: Part = lsb(Field::AckScaled, 4, 3);
const TTL: Part = lsb(Field::Ttl, 3, 3);
const RSF: Part = plain(Field::Rsf, 2);
const LIST: Part = plain(Field::ListPresent, 1);
const ECN_USED: Part = plain(Field::EcnUsed, 1);

/// Header format.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) packet_type: PacketType,
    /// Octets, without a list of options.
    pub(super) len: usize,
    discriminator: u8,
    discriminator_bits: u32,
    pub(super) parts: &'static [Part],
    /// Returns the parts that are relative to references, except the master sequence number.
    relative: [Part; MAX_RELATIVE],
    relatives: u8,
    /// Bit n: has the field of that number.
    carries: u32,
    /// Changes covered, like `carries`, with a scaled number counting as the number.
    pub(super) covers: u32,
}

impl Format {
    const fn new(
        packet_type: PacketType,
        discriminator: u8,
        discriminator_bits: u32,
        parts: &'static [Part],
    ) -> Format {
        let (mut bits, mut carries, mut at) = (discriminator_bits, 0, 0);
        let (mut relative, mut relatives) = ([MSN; MAX_RELATIVE], 0);
        while at < parts.len() {
            bits += parts[at].bits;
            carries |= 1 << parts[at].field as u32;
            if parts[at].p > 0 && parts[at].field as u32 != Field::Msn as u32 {
                relative[relatives] = parts[at];
                relatives += 1;
            }
            at += 1;
        }
        let covers = carries
            | (carries >> Field::SeqScaled as u32 & 1) << Field::Seq as u32
            | (carries >> Field::AckScaled as u32 & 1) << Field::Ack as u32;
        assert!(bits % 8 == 0 && bits <= 56, "a format is whole octets, seven at most");
        Format {
            packet_type,
            len: bits as usize / 8,
            discriminator,
            discriminator_bits,
            parts,
            relative,
            relatives: relatives as u8,
            carries,
            covers,
        }
    }

    #[inline]
    pub(super) fn relative(&self) -> &[Part] {
        self.relative.get(..usize::from(self.relatives)).unwrap_or_default()
    }

    pub(super) const fn has(&self, field: Field) -> bool {
        self.carries & 1 << field as u32 != 0
    }

    /// Returns `true` if the CRC is the one of seven bits.
    pub(super) const fn has_crc7(&self) -> bool {
        self.has(Field::EcnUsed)
    }

    /// Packs the header, with each field's `value` cut to its bits, into a word's top.
    #[inline]
    pub(super) fn pack(&self, value: impl Fn(Field) -> u32) -> u64 {
        let mut word = u64::from(self.discriminator);
        for part in self.parts {
            let value = u64::from(value(part.field)) & ((1 << part.bits) - 1);
            word = word << part.bits | value;
        }
        word << (64 - 8 * self.len)
    }

    /// Writes the header but for its first octet.
    #[inline]
    pub(super) fn write_rest(&self, word: u64, out: &mut Writer<'_>) {
        out.bytes(&word.to_be_bytes()[1..self.len]);
    }

    /// Reads a header of this format, and hands each field to `each`.
    #[inline]
    pub(super) fn read(
        &self,
        first: u8,
        input: &mut Reader<'_>,
        mut each: impl FnMut(&'static Part, u32) -> Result<(), DecompressError>,
    ) -> Result<(), DecompressError> {
        let rest = input.take(self.len - 1)?;
        let mut word = rest.iter().fold(u64::from(first), |word, &octet| word << 8 | u64::from(octet));
        word <<= 64 - 8 * self.len as u32 + self.discriminator_bits;
        for part in self.parts {
            each(part, (word >> (64 - part.bits)) as u32)?;
            word <<= part.bits;
        }
        Ok(())
    }
}

/// The formats for an IP-ID that does not count, or for IPv6, shortest first.
pub(super) static RANDOM: [Format; 8] = [
    Format::new(PacketType::Rnd2, 0b1100, 4, &[SEQ_SCALED, MSN, PSH, CRC3]),
    Format::new(PacketType::Rnd4, 0b1101, 4, &[ACK_SCALED, MSN, PSH, CRC3]),
    Format::new(PacketType::Rnd3, 0b0, 1, &[lsb(Field::Ack, 15, 8191), MSN, PSH, CRC3]),
    Format::new(PacketType::Rnd1, 0b10_1110, 6, &[lsb(Field::Seq, 18, 65_535), MSN, PSH, CRC3]),
    Format::new(PacketType::Rnd6, 0b1010, 4, &[CRC3, PSH, lsb(Field::Ack, 16, 16_383), MSN, SEQ_SCALED]),
    Format::new(
        PacketType::Rnd5,
        0b100,
        3,
        &[PSH, MSN, CRC3, lsb(Field::Seq, 14, 8191), lsb(Field::Ack, 15, 8191)],
    ),
    Format::new(
        PacketType::Rnd7,
        0b10_1111,
        6,
        &[lsb(Field::Ack, 18, 65_535), plain(Field::Window, 16), MSN, PSH, CRC3],
    ),
    Format::new(
        PacketType::Rnd8,
        0b1_0110,
        5,
        &[RSF, LIST, CRC7, MSN, PSH, TTL, ECN_USED, lsb(Field::Seq, 16, 65_535), lsb(Field::Ack, 16, 16_383)],
    ),
];

/// The formats for an IP-ID that counts, shortest first.
pub(super) static SEQUENTIAL: [Format; 8] = [
    Format::new(PacketType::Seq4, 0b0, 1, &[ACK_SCALED, lsb(Field::IpId, 3, 1), MSN, PSH, CRC3]),
    Format::new(PacketType::Seq2, 0b1_1010, 5, &[lsb(Field::IpId, 7, 3), SEQ_SCALED, MSN, PSH, CRC3]),
    Format::new(
        PacketType::Seq1,
        0b1010,
        4,
        &[lsb(Field::IpId, 4, 3), lsb(Field::Seq, 16, 32_767), MSN, PSH, CRC3],
    ),
    Format::new(
        PacketType::Seq3,
        0b1001,
        4,
        &[lsb(Field::IpId, 4, 3), lsb(Field::Ack, 16, 16_383), MSN, PSH, CRC3],
    ),
    Format::new(
        PacketType::Seq6,
        0b1_1011,
        5,
        &[SEQ_SCALED, lsb(Field::IpId, 7, 3), lsb(Field::Ack, 16, 16_383), MSN, PSH, CRC3],
    ),
    Format::new(
        PacketType::Seq5,
        0b1000,
        4,
        &[lsb(Field::IpId, 4, 3), lsb(Field::Ack, 16, 16_383), lsb(Field::Seq, 16, 32_767), MSN, PSH, CRC3],
    ),
    Format::new(
        PacketType::Seq7,
        0b1100,
        4,
        &[
            lsb(Field::Window, 15, 16_383),
            lsb(Field::IpId, 5, 3),
            lsb(Field::Ack, 16, 32_767),
            MSN,
            PSH,
            CRC3,
        ],
    ),
    Format::new(
        PacketType::Seq8,
        0b1011,
        4,
        &[
            lsb(Field::IpId, 4, 3),
            LIST,
            CRC7,
            MSN,
            PSH,
            TTL,
            ECN_USED,
            lsb(Field::Ack, 15, 8191),
            RSF,
            lsb(Field::Seq, 14, 8191),
        ],
    ),
];

/// The first octet of `co_common` but for its last bit.
pub(super) const COMMON: u8 = 0b1111_1010;

/// Place of the format that each first octet announces. 8 stands for none.
type Announced = [u8; 256];

const fn announced(set: &[Format; 8]) -> Announced {
    let mut places = [8; 256];
    let mut at = 0;
    while at < set.len() {
        let free = 8 - set[at].discriminator_bits;
        let (mut octet, end) =
            ((set[at].discriminator as usize) << free, (set[at].discriminator as usize + 1) << free);
        while octet < end {
            places[octet] = at as u8;
            octet += 1;
        }
        at += 1;
    }
    places
}

static ANNOUNCED_RANDOM: Announced = announced(&RANDOM);
static ANNOUNCED_SEQUENTIAL: Announced = announced(&SEQUENTIAL);

/// The format that a first octet announces where the IP-ID counts, or does not.
#[inline]
pub(super) fn by_first_octet(is_sequential: bool, first: u8) -> Option<&'static Format> {
    let (set, announced) =
        if is_sequential { (&SEQUENTIAL, &ANNOUNCED_SEQUENTIAL) } else { (&RANDOM, &ANNOUNCED_RANDOM) };
    set.get(usize::from(announced[usize::from(first)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn sizes_are_those_of_the_rfc_and_ascend() {
        let sizes = |set: &'static [Format; 8]| set.iter().map(|format| format.len).collect::<Vec<_>>();
        assert_eq!(sizes(&RANDOM), [2, 2, 3, 4, 4, 5, 6, 7]);
        assert_eq!(sizes(&SEQUENTIAL), [2, 3, 4, 4, 5, 6, 6, 7]);
    }

    /// Every type octet announces at most one format of a set.
    #[test]
    fn discriminators_are_prefix_free() {
        for (set, is_sequential) in [(&RANDOM, false), (&SEQUENTIAL, true)] {
            for first in 0..=u8::MAX {
                let matching =
                    |format: &&Format| first >> (8 - format.discriminator_bits) == format.discriminator;
                assert!(set.iter().filter(matching).count() <= 1, "{first:08b}");
                let found = by_first_octet(is_sequential, first).map(|format| format.packet_type);
                assert_eq!(found, set.iter().find(matching).map(|format| format.packet_type));
                assert!(first < 0b1110_0000 || found.is_none());
            }
        }
    }

    #[test]
    fn every_format_reads_what_it_packs() {
        for format in RANDOM.iter().chain(&SEQUENTIAL) {
            let mut values = [0; FIELDS];
            for (index, part) in format.parts.iter().enumerate() {
                values[part.field as usize] =
                    0x2a5a_9f33_u32.rotate_left(index as u32) & ((1 << part.bits) - 1);
            }
            let word = format.pack(|field| values[field as usize]);
            let mut out = Vec::new();
            format.write_rest(word, &mut Writer::new(&mut out));
            let first = (word >> 56) as u8;
            let mut read = [0; FIELDS];
            let done = format.read(first, &mut Reader::new(&out), |part, value| {
                read[part.field as usize] = value;
                Ok(())
            });
            assert!(done.is_ok() && read == values, "{}", format.packet_type);
            assert_eq!(out.len() + 1, format.len);
        }
    }
}
