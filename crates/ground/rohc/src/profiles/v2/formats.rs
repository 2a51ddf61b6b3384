//! The short header formats as tables of their fields (RFC 5225 6.8.2.4).
//!
//! None is longer than 32 bits, so a header is built in one word. `co_common` is in [`super::common`].

use crate::framework::profile::PacketType;

/// Content of a part of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Msn,
    /// Offset of the IP-ID from the master sequence number.
    IdOffset,
    TsScaled,
    Marker,
    Crc,
}

/// Part of a format.
#[derive(Clone, Copy, Debug)]
struct Part {
    field: Field,
    bits: u32,
}

const fn part(field: Field, bits: u32) -> Part {
    Part { field, bits }
}

const fn msn(bits: u32) -> Part {
    part(Field::Msn, bits)
}

const fn id(bits: u32) -> Part {
    part(Field::IdOffset, bits)
}

const fn ts(bits: u32) -> Part {
    part(Field::TsScaled, bits)
}

const MARKER: Part = part(Field::Marker, 1);
const CRC3: Part = part(Field::Crc, 3);
const CRC7: Part = part(Field::Crc, 7);

/// Header format.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) packet_type: PacketType,
    /// Octets.
    pub(super) len: usize,
    discriminator: u32,
    discriminator_bits: u32,
    parts: &'static [Part],
    /// Bits of the master sequence number.
    pub(super) msn_bits: u32,
    /// Bits of the offset of the IP-ID; 0: inferred.
    pub(super) id_bits: u32,
    /// Bits of the scaled timestamp; 0: inferred.
    pub(super) ts_bits: u32,
    pub(super) has_marker: bool,
    pub(super) has_crc7: bool,
}

impl Format {
    const fn new(
        packet_type: PacketType,
        discriminator: u32,
        discriminator_bits: u32,
        parts: &'static [Part],
    ) -> Self {
        let mut format = Self {
            packet_type,
            len: 0,
            discriminator,
            discriminator_bits,
            parts,
            msn_bits: 0,
            id_bits: 0,
            ts_bits: 0,
            has_marker: false,
            has_crc7: false,
        };
        let (mut bits, mut at) = (discriminator_bits, 0);
        while at < parts.len() {
            bits += parts[at].bits;
            match parts[at].field {
                Field::Msn => format.msn_bits = parts[at].bits,
                Field::IdOffset => format.id_bits = parts[at].bits,
                Field::TsScaled => format.ts_bits = parts[at].bits,
                Field::Marker => format.has_marker = true,
                Field::Crc => format.has_crc7 = parts[at].bits == 7,
            }
            at += 1;
        }
        assert!(bits % 8 == 0 && bits <= 32, "a format is whole octets, four at most");
        format.len = bits as usize / 8;
        format
    }

    /// Packs the header at the top of a word, with low bits of each `value`.
    #[inline]
    pub(super) fn pack(&self, value: impl Fn(Field) -> u32) -> u32 {
        let mut word = self.discriminator;
        for part in self.parts {
            word = word << part.bits | value(part.field) & ((1 << part.bits) - 1);
        }
        word << (32 - 8 * self.len)
    }

    /// Returns the fields of the header at the top of `word`.
    #[inline]
    pub(super) fn unpack(&self, word: u32) -> Fields {
        let mut left = word << self.discriminator_bits;
        let mut fields = Fields::default();
        for part in self.parts {
            let value = left >> (32 - part.bits);
            left <<= part.bits;
            match part.field {
                Field::Msn => fields.msn = value,
                Field::IdOffset => fields.id = value,
                Field::TsScaled => fields.ts = value,
                Field::Marker => fields.marker = value == 1,
                Field::Crc => fields.crc = value as u8,
            }
        }
        fields
    }
}

/// Fields of a short header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) msn: u32,
    pub(super) id: u32,
    pub(super) ts: u32,
    pub(super) marker: bool,
    pub(super) crc: u8,
}

use PacketType::{Pt0Crc3, Pt0Crc7, Pt1Rnd, Pt1SeqId, Pt1SeqTs, Pt2Rnd, Pt2SeqBoth, Pt2SeqId, Pt2SeqTs};

/// Formats of RTP with an IP-ID that does not count, shortest first.
static RTP_RND: [Format; 4] = [
    Format::new(Pt0Crc3, 0, 1, &[msn(4), CRC3]),
    Format::new(Pt0Crc7, 0b1000, 4, &[msn(5), CRC7]),
    Format::new(Pt1Rnd, 0b101, 3, &[MARKER, msn(4), ts(5), CRC3]),
    Format::new(Pt2Rnd, 0b110, 3, &[msn(7), ts(6), MARKER, CRC7]),
];

/// Formats of RTP with an IP-ID that counts, shortest first.
static RTP_SEQ: [Format; 7] = [
    Format::new(Pt0Crc3, 0, 1, &[msn(4), CRC3]),
    Format::new(Pt0Crc7, 0b1000, 4, &[msn(5), CRC7]),
    Format::new(Pt1SeqId, 0b1001, 4, &[id(4), msn(5), CRC3]),
    Format::new(Pt1SeqTs, 0b101, 3, &[MARKER, msn(4), ts(5), CRC3]),
    Format::new(Pt2SeqId, 0b11000, 5, &[msn(7), id(5), CRC7]),
    Format::new(Pt2SeqTs, 0b1101, 4, &[msn(7), ts(5), MARKER, CRC7]),
    Format::new(Pt2SeqBoth, 0b11001, 5, &[msn(7), id(5), CRC7, ts(7), MARKER]),
];

/// Formats of the other profiles with an IP-ID that does not count, shortest first.
static OTHER_RND: [Format; 2] =
    [Format::new(Pt0Crc3, 0, 1, &[msn(4), CRC3]), Format::new(Pt0Crc7, 0b100, 3, &[msn(6), CRC7])];

/// Formats of the other profiles with an IP-ID that counts, shortest first.
static OTHER_SEQ: [Format; 4] = [
    Format::new(Pt0Crc3, 0, 1, &[msn(4), CRC3]),
    Format::new(Pt0Crc7, 0b100, 3, &[msn(6), CRC7]),
    Format::new(Pt1SeqId, 0b101, 3, &[CRC3, msn(6), id(4)]),
    Format::new(Pt2SeqId, 0b110, 3, &[id(6), CRC7, msn(8)]),
];

/// Returns the formats of a profile, the shortest first.
#[inline]
pub(super) fn formats(rtp: bool, sequential: bool) -> &'static [Format] {
    match (rtp, sequential) {
        (true, false) => &RTP_RND,
        (true, true) => &RTP_SEQ,
        (false, false) => &OTHER_RND,
        (false, true) => &OTHER_SEQ,
    }
}

/// Returns the format whose discriminator the type octet `first` has.
#[inline]
pub(super) fn format_of(first: u8, rtp: bool, sequential: bool) -> Option<&'static Format> {
    let is_its =
        |format: &&Format| u32::from(first) >> (8 - format.discriminator_bits) == format.discriminator;
    formats(rtp, sequential).iter().find(is_its)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_unpack_to_what_was_packed() {
        for (rtp, sequential) in [(true, true), (true, false), (false, true), (false, false)] {
            for format in formats(rtp, sequential) {
                let word = format.pack(|field| match field {
                    Field::Msn => 0x5a5,
                    Field::IdOffset => 0x33,
                    Field::TsScaled => 0x2d,
                    Field::Marker => 1,
                    Field::Crc => 0x66,
                });
                let first = (word >> 24) as u8;
                let found = format_of(first, rtp, sequential).expect("a format");
                assert!(core::ptr::eq(found, format), "{:?}", format.packet_type);
                let fields = format.unpack(word);
                let low = |value: u32, bits: u32| value & ((1 << bits) - 1);
                assert_eq!((fields.msn, fields.id), (low(0x5a5, format.msn_bits), low(0x33, format.id_bits)));
                assert_eq!((fields.ts, fields.marker), (low(0x2d, format.ts_bits), format.has_marker));
                assert_eq!(fields.crc, if format.has_crc7 { 0x66 } else { 6 });
            }
        }
    }

    #[test]
    fn type_octets_of_the_framework_are_no_formats() {
        for first in 0xe0..=0xff {
            assert!(format_of(first, true, true).is_none() && format_of(first, false, true).is_none());
        }
        assert!(format_of(0xc0, true, false).is_some() && format_of(0x90, true, false).is_none());
    }
}
