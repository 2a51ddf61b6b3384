//! Reading octets, and writing octets and bits, most significant bit first.
//!
//! [`Writer`] appends to the caller's buffer.
//! [`Reader`] fails with [`Truncated`], never panics, for any value of a length field.

use alloc::vec::Vec;

/// Returns `true` if two headers agree in the octets that `mask` has ones for.
#[inline]
pub(crate) fn same_under<const LEN: usize>(mask: &[u8; LEN], one: &[u8; LEN], two: &[u8; LEN]) -> bool {
    let word = |octets: &[u8; LEN], at: usize| octets[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    // The last word begins before the end of the one before it where eight octets do not divide the header.
    let starts = (0..LEN - 8).step_by(8).chain([LEN - 8]);
    starts.fold(0, |all, at| all | (word(one, at) ^ word(two, at)) & word(mask, at)) == 0
}

/// There are fewer octets than the format needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncated;

/// A cursor over received octets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, len: bytes.len() }
    }

    /// Octets read.
    pub(crate) const fn consumed(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Returns the octets left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[octet]| octet)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next octet, left where it is.
    pub(crate) fn peek(&self) -> Result<u8, Truncated> {
        self.rest.first().copied().ok_or(Truncated)
    }
}

/// Appends octets and bits to a buffer.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Bits written into the last octet of `out`; 0 or 8 if it is full.
    used_bits: u32,
}

impl<'a> Writer<'a> {
    /// A writer that appends to `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, used_bits: 0 }
    }

    #[inline]
    pub(crate) fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    #[inline]
    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        debug_assert_eq!(self.used_bits % 8, 0, "octets follow a whole number of octets");
        self.out.extend_from_slice(bytes);
    }

    /// Writes the `count` low bits of `value`, at most 32. The first one starts a new octet after octets.
    pub(crate) fn bits(&mut self, value: u32, count: u32) {
        for shift in (0..count).rev() {
            if self.used_bits.is_multiple_of(8) {
                self.out.push(0);
                self.used_bits = 0;
            }
            let bit = (value >> shift & 1) as u8;
            if let Some(last) = self.out.last_mut() {
                *last |= bit << (7 - self.used_bits);
            }
            self.used_bits += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_go_across_octets() {
        let mut out = Vec::from([0xff]);
        let mut writer = Writer::new(&mut out);
        for (value, count) in
            [(0b101, 3), (0xabc, 12), (1, 1), (0xdead_beef, 32), (0, 0), (0x7f, 8), (0b11, 2)]
        {
            writer.bits(value, count);
        }
        assert_eq!(out, [0xff, 0xb5, 0x79, 0xde, 0xad, 0xbe, 0xef, 0x7f, 0xc0]);
    }

    #[test]
    fn a_short_read_leaves_the_reader_where_it_was() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), Ok(0x0102));
        assert_eq!(reader.u32(), Err(Truncated));
        assert_eq!((reader.rest(), reader.consumed()), (&[3u8][..], 2));
    }
}
