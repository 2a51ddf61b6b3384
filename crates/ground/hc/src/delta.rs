//! Differences between headers.
//!
//! Those of TCP are RFC 1144's (3.2.2), and the numbers of CRTP those of RFC 2508 (3.3.4).

use super::chain::{Chain, put_u16, put_u32, u16_at, u32_at};

/// Bits of a mask of changes.
pub(crate) const URGENT: u8 = 0x01;
pub(crate) const WINDOW: u8 = 0x02;
pub(crate) const ACK: u8 = 0x04;
pub(crate) const SEQUENCE: u8 = 0x08;
pub(crate) const PUSH: u8 = 0x10;
pub(crate) const ID: u8 = 0x20;
/// Connection number follows (RFC 1144), or options follow (RFC 2507).
pub(crate) const NUMBER_OR_OPTIONS: u8 = 0x40;
/// Octet of reserved bits and ECN follows (RFC 2507).
pub(crate) const RESERVED: u8 = 0x80;

/// Masks of both special cases: echoed terminal traffic, and data in one direction.
const ECHOED: u8 = SEQUENCE | WINDOW | URGENT;
const ONE_WAY: u8 = SEQUENCE | ACK | WINDOW | URGENT;

/// Flags of a TCP header.
const FIN_SYN_RST: u8 = 0x07;
const PSH: u8 = 0x08;
const TCP_ACK: u8 = 0x10;
const URG: u8 = 0x20;
/// Flags that only the RESERVED octet has, CWR and ECE.
const UPPER_FLAGS: u8 = 0xc0;

/// Differences of a TCP header from the one before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) mask: u8,
    pub(crate) bytes: Vec<u8>,
}

/// Returns `true` if a TCP header is an ACK without SYN, FIN and RST.
pub(crate) fn is_established(chain: &Chain, header: &[u8]) -> bool {
    header[chain.ip_len + 13] & (FIN_SYN_RST | TCP_ACK) == TCP_ACK
}

/// Returns the reserved bits of a TCP header, six of them.
pub(crate) fn reserved(chain: &Chain, header: &[u8]) -> u8 {
    (header[chain.ip_len + 12] & 0xf) << 2 | header[chain.ip_len + 13] >> 6
}

/// Sets the reserved bits of a TCP header.
pub(crate) fn set_reserved(chain: &Chain, header: &mut [u8], bits: u8) {
    let tcp = chain.ip_len;
    header[tcp + 12] = header[tcp + 12] & 0xf0 | bits >> 2 & 0xf;
    header[tcp + 13] = header[tcp + 13] & !UPPER_FLAGS | bits << 6;
}

/// Returns the differences of a TCP header from the one before. `None`: they cannot be sent.
///
/// The packet before had `data_before` bytes of data. Options and reserved bits are not compared.
pub(crate) fn changes(
    chain: &Chain,
    before: &[u8],
    data_before: usize,
    now: &[u8],
    data: usize,
) -> Option<Changes> {
    let tcp = chain.ip_len;
    let flags = now[tcp + 13];
    let mut changes = Changes::default();
    if flags & URG != 0 {
        changes.mask |= URGENT;
        encode_with_zero(u16_at(now, tcp + 18), &mut changes.bytes);
    } else if u16_at(now, tcp + 18) != u16_at(before, tcp + 18) {
        return None;
    }
    let window = u16_at(now, tcp + 14).wrapping_sub(u16_at(before, tcp + 14));
    changes.add(WINDOW, window);
    let difference = |at: usize| u16::try_from(u32_at(now, at).wrapping_sub(u32_at(before, at))).ok();
    let ack = difference(tcp + 8)?;
    changes.add(ACK, ack);
    let sequence = difference(tcp + 4)?;
    changes.add(SEQUENCE, sequence);
    match changes.mask {
        // Nothing changed: a retransmission, a window probe or a repeated ACK, if it is not the first data behind ACKs.
        0 if data == 0 || data_before != 0 => return None,
        ECHOED | ONE_WAY => return None,
        SEQUENCE if usize::from(sequence) == data_before => {
            changes = Changes { mask: ONE_WAY, bytes: Vec::new() }
        }
        mask if mask == SEQUENCE | ACK && sequence == ack && usize::from(sequence) == data_before => {
            changes = Changes { mask: ECHOED, bytes: Vec::new() };
        }
        _ => {}
    }
    if chain.is_v4 {
        let id = u16_at(now, 4).wrapping_sub(u16_at(before, 4));
        if id != 1 {
            changes.mask |= ID;
            encode_with_zero(id, &mut changes.bytes);
        }
    }
    if flags & PSH != 0 {
        changes.mask |= PUSH;
    }
    Some(changes)
}

impl Changes {
    /// Adds a difference, if it is one.
    fn add(&mut self, bit: u8, difference: u16) {
        if difference != 0 {
            self.mask |= bit;
            encode(difference, &mut self.bytes);
        }
    }
}

/// Applies differences to a header, and returns the number of bytes that they took. `None`: `bytes` end too early.
pub(crate) fn apply(
    chain: &Chain,
    header: &mut [u8],
    data_before: usize,
    mask: u8,
    bytes: &[u8],
) -> Option<usize> {
    let tcp = chain.ip_len;
    let mut rest = bytes;
    let flag = |header: &mut [u8], bit: u8, set: bool| {
        header[tcp + 13] = header[tcp + 13] & !bit | if set { bit } else { 0 };
    };
    let add = |header: &mut [u8], at: usize, value: u32| {
        put_u32(header, at, u32_at(header, at).wrapping_add(value));
    };
    flag(header, PSH, mask & PUSH != 0);
    flag(header, URG, false);
    match mask & ONE_WAY {
        ONE_WAY => add(header, tcp + 4, data_before as u32),
        ECHOED => [4, 8].into_iter().for_each(|at| add(header, tcp + at, data_before as u32)),
        changed => {
            if changed & URGENT != 0 {
                flag(header, URG, true);
                put_u16(header, tcp + 18, decode(&mut rest)?);
            }
            if changed & WINDOW != 0 {
                let window = u16_at(header, tcp + 14).wrapping_add(decode(&mut rest)?);
                put_u16(header, tcp + 14, window);
            }
            if changed & ACK != 0 {
                add(header, tcp + 8, decode(&mut rest)?.into());
            }
            if changed & SEQUENCE != 0 {
                add(header, tcp + 4, decode(&mut rest)?.into());
            }
        }
    }
    let id = if mask & ID != 0 { decode(&mut rest)? } else { 1 };
    if chain.is_v4 {
        put_u16(header, 4, u16_at(header, 4).wrapping_add(id));
    }
    Some(bytes.len() - rest.len())
}

/// Writes a difference other than zero: one byte, or zero and two bytes.
fn encode(value: u16, out: &mut Vec<u8>) {
    match u8::try_from(value) {
        Ok(value) => out.push(value),
        Err(_) => {
            out.push(0);
            out.extend(value.to_be_bytes());
        }
    }
}

/// Writes a difference that may be zero.
fn encode_with_zero(value: u16, out: &mut Vec<u8>) {
    if value == 0 { out.extend([0; 3]) } else { encode(value, out) }
}

/// Reads a difference.
fn decode(rest: &mut &[u8]) -> Option<u16> {
    let (value, after) = match rest {
        [0, high, low, after @ ..] => (u16::from_be_bytes([*high, *low]), after),
        [0, ..] | [] => return None,
        [value, after @ ..] => (u16::from(*value), after),
    };
    *rest = after;
    Some(value)
}

/// Smallest and largest difference that CRTP has.
const NUMBERS: std::ops::RangeInclusive<i32> = -16384..=0x3f_ffff;

/// Returns `true` if it wrote a difference of CRTP. Some are out of range.
pub(crate) fn encode_number(value: i32, out: &mut Vec<u8>) -> bool {
    if !NUMBERS.contains(&value) {
        return false;
    }
    match value {
        0..=127 => out.push(value as u8),
        // Negative values have the forms that smaller positive ones leave free.
        -128..=-1 => out.extend((0x8000 | (value + 128) as u16).to_be_bytes()),
        128..=0x3fff => out.extend((0x8000 | value as u16).to_be_bytes()),
        ..=-129 => out.extend(&(0xc0_0000 | (value + 16384) as u32).to_be_bytes()[1..]),
        _ => out.extend(&(0xc0_0000 | value as u32).to_be_bytes()[1..]),
    }
    true
}

/// Reads a difference of CRTP.
pub(crate) fn decode_number(rest: &mut &[u8]) -> Option<i32> {
    let (value, after) = match rest {
        [first @ 0..=0x7f, after @ ..] => (i32::from(*first), after),
        [first @ 0x80..=0xbf, second, after @ ..] => {
            let value = i32::from(first & 0x3f) << 8 | i32::from(*second);
            (if value < 128 { value - 128 } else { value }, after)
        }
        [first @ 0xc0..=0xff, second, third, after @ ..] => {
            let value = i32::from(first & 0x3f) << 16 | i32::from(*second) << 8 | i32::from(*third);
            (if value < 16384 { value - 16384 } else { value }, after)
        }
        _ => return None,
    };
    *rest = after;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_forms_of_the_table() {
        let table: [(i32, &[u8]); 12] = [
            (-16384, &[0xc0, 0, 0]),
            (-129, &[0xc0, 0x3f, 0x7f]),
            (-128, &[0x80, 0]),
            (-1, &[0x80, 0x7f]),
            (0, &[0]),
            (127, &[0x7f]),
            (128, &[0x80, 0x80]),
            (16383, &[0xbf, 0xff]),
            (16384, &[0xc0, 0x40, 0]),
            (65535, &[0xc0, 0xff, 0xff]),
            (160, &[0x80, 0xa0]),
            (4_194_303, &[0xff, 0xff, 0xff]),
        ];
        for (value, form) in table {
            let mut out = Vec::new();
            assert!(encode_number(value, &mut out));
            assert_eq!(out, form, "{value}");
            let mut rest = form;
            assert_eq!((decode_number(&mut rest), rest.len()), (Some(value), 0));
        }
        assert!(!encode_number(-16385, &mut Vec::new()) && !encode_number(4_194_304, &mut Vec::new()));
        assert_eq!(decode_number(&mut &[0xc0, 0][..]), None);
    }

    #[test]
    fn differences_have_one_or_three_bytes() {
        for (value, form) in [(1, vec![1]), (255, vec![255]), (256, vec![0, 1, 0]), (0, vec![0, 0, 0])] {
            let mut out = Vec::new();
            encode_with_zero(value, &mut out);
            assert_eq!(out, form);
            assert_eq!(decode(&mut &out[..]), Some(value));
        }
        assert_eq!(decode(&mut &[0, 1][..]), None);
    }
}
