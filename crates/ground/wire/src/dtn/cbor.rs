//! Subset of CBOR (RFC 8949) that bundles are made of: integers, strings, arrays and booleans.
//!
//! Heads must be of the shortest form, and strings of definite length, as bundles require (RFC 9171, section 4.1).

use crate::{Error, Layer};

/// Byte that opens an array of indefinite length.
pub const OPEN_ARRAY: u8 = 0x9f;
/// Byte that closes an array of indefinite length.
pub const BREAK: u8 = 0xff;

const UINT: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const FALSE: u8 = 0xf4;
const TRUE: u8 = 0xf5;

/// Reader of CBOR items from bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Offset of the first byte in the whole input, for errors.
    base: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, base: 0 }
    }

    /// Creates a reader of a string's content that starts at `base` of the whole input.
    pub fn nested(bytes: &'a [u8], base: usize) -> Reader<'a> {
        Reader { bytes, at: 0, base }
    }

    /// Returns the offset of the next byte in the whole input.
    pub fn offset(&self) -> usize {
        self.base + self.at
    }

    /// Returns the offset of the next byte from the reader's start.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Returns the next byte without reading it.
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Returns the error of a forbidden value at the next byte.
    pub fn malformed(&self, what: &'static str) -> Error {
        Error::malformed(Layer::Bundle, self.offset(), what)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// Returns an error at the end.
    pub fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    /// Reads `len` bytes.
    ///
    /// # Errors
    /// Returns an error if fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let end = self.at.saturating_add(len);
        let needed = self.base.saturating_add(end);
        let have = self.base + self.bytes.len();
        let taken = self.bytes.get(self.at..end);
        let taken = taken.ok_or(Error::truncated(Layer::Bundle, self.offset(), needed, have))?;
        self.at = end;
        Ok(taken)
    }

    /// Reads a head and returns its major type and value.
    fn head(&mut self) -> Result<(u8, u64), Error> {
        let start = *self;
        let first = self.byte()?;
        let (len, floor) = match first & 0x1f {
            info @ 0..24 => return Ok((first >> 5, info.into())),
            24 => (1, 24),
            25 => (2, 1 << 8),
            26 => (4, 1 << 16),
            27 => (8, 1 << 32),
            31 => return Err(start.malformed("an item of indefinite length")),
            _ => return Err(start.malformed("a reserved head")),
        };
        let value = self.take(len)?.iter().fold(0u64, |value, &byte| value << 8 | u64::from(byte));
        match value < floor {
            true => Err(start.malformed("a head longer than it needs to be")),
            false => Ok((first >> 5, value)),
        }
    }

    fn expect(&mut self, major: u8, what: &'static str) -> Result<u64, Error> {
        let start = *self;
        let (found, value) = self.head()?;
        if found == major { Ok(value) } else { Err(start.malformed(what)) }
    }

    /// Reads an unsigned integer.
    ///
    /// # Errors
    /// Returns an error if the next item is another one.
    pub fn uint(&mut self) -> Result<u64, Error> {
        self.expect(UINT, "not an unsigned integer")
    }

    /// Reads an integer of either sign.
    ///
    /// # Errors
    /// Returns an error if the next item is another one.
    pub fn int(&mut self) -> Result<i128, Error> {
        let start = *self;
        match self.head()? {
            (UINT, value) => Ok(value.into()),
            (NEGATIVE, value) => Ok(-1 - i128::from(value)),
            _ => Err(start.malformed("not an integer")),
        }
    }

    /// Reads the head of an array of definite length and returns its number of items.
    ///
    /// # Errors
    /// Returns an error if the next item is another one.
    pub fn array(&mut self) -> Result<u64, Error> {
        self.expect(ARRAY, "not an array of definite length")
    }

    /// Reads the head of an array of exactly `len` items.
    ///
    /// # Errors
    /// Returns an error if the next item is another one.
    pub fn array_of(&mut self, len: u64, what: &'static str) -> Result<(), Error> {
        let start = *self;
        if self.array()? == len { Ok(()) } else { Err(start.malformed(what)) }
    }

    /// Reads a byte string.
    ///
    /// # Errors
    /// Returns an error if the next item is another one, or cut.
    pub fn bytes(&mut self) -> Result<&'a [u8], Error> {
        let len = self.expect(BYTES, "not a byte string of definite length")?;
        self.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Returns `true` if the next item is a byte string.
    pub fn is_at_bytes(&self) -> bool {
        self.peek().is_some_and(|byte| byte >> 5 == BYTES)
    }

    /// Reads the head of a byte string alone and returns its length.
    ///
    /// # Errors
    /// Returns an error if the next item is another one.
    pub fn bytes_head(&mut self) -> Result<u64, Error> {
        self.expect(BYTES, "not a byte string of definite length")
    }

    /// Reads a text string.
    ///
    /// # Errors
    /// Returns an error if the next item is another one, cut, or not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Error> {
        let start = *self;
        let len = self.expect(TEXT, "not a text string of definite length")?;
        let bytes = self.take(usize::try_from(len).unwrap_or(usize::MAX))?;
        std::str::from_utf8(bytes).map_err(|_| start.malformed("text that is not UTF-8"))
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// Returns an error if the next item is another one.
    pub fn boolean(&mut self) -> Result<bool, Error> {
        let start = *self;
        match self.byte()? {
            FALSE => Ok(false),
            TRUE => Ok(true),
            _ => Err(start.malformed("not a boolean")),
        }
    }

    /// Returns an error unless everything is read.
    ///
    /// # Errors
    /// Returns an error if bytes are left.
    pub fn end(&self) -> Result<(), Error> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.malformed("bytes after the last item")) }
    }
}

fn put_head(out: &mut Vec<u8>, major: u8, value: u64) {
    let major = major << 5;
    match value {
        0..24 => out.push(major | value as u8),
        24..0x100 => out.extend([major | 24, value as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend((value as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend((value as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend(value.to_be_bytes());
        }
    }
}

/// Returns the length in bytes of a head with `value`.
pub fn head_len(value: u64) -> usize {
    match value {
        0..24 => 1,
        24..0x100 => 2,
        0x100..0x1_0000 => 3,
        0x1_0000..0x1_0000_0000 => 5,
        _ => 9,
    }
}

/// Appends an unsigned integer.
pub fn put_uint(out: &mut Vec<u8>, value: u64) {
    put_head(out, UINT, value);
}

/// Appends an integer of either sign.
///
/// # Panics
/// Panics beyond the 65 bits that CBOR has.
pub fn put_int(out: &mut Vec<u8>, value: i128) {
    match value {
        0.. => put_head(out, UINT, u64::try_from(value).expect("64 bits")),
        _ => put_head(out, NEGATIVE, u64::try_from(-1 - value).expect("64 bits")),
    }
}

/// Appends the head of an array of `len` items.
pub fn put_array(out: &mut Vec<u8>, len: usize) {
    put_head(out, ARRAY, len as u64);
}

/// Appends the head of a byte string of `len` bytes.
pub fn put_bytes_head(out: &mut Vec<u8>, len: u64) {
    put_head(out, BYTES, len);
}

/// Appends a byte string.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_bytes_head(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Appends a text string.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_head(out, TEXT, text.len() as u64);
    out.extend(text.as_bytes());
}

/// Appends a boolean.
pub fn put_boolean(out: &mut Vec<u8>, value: bool) {
    out.push(if value { TRUE } else { FALSE });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_longer_than_needed_is_refused() {
        for bytes in
            [&[0x18, 23][..], &[0x19, 0, 255], &[0x1a, 0, 0, 255, 255], &[0x1b, 0, 0, 0, 0, 1, 2, 3, 4]]
        {
            assert!(Reader::new(bytes).uint().is_err(), "{bytes:02x?}");
        }
        assert_eq!(Reader::new(&[0x18, 24]).uint(), Ok(24));
    }

    #[test]
    fn a_string_longer_than_the_input_is_refused() {
        assert!(Reader::new(&[0x5b, 255, 255, 255, 255, 255, 255, 255, 255, 1]).bytes().is_err());
    }

    proptest! {
        #[test]
        fn integers_round_trip(value: u64, negative: bool) {
            let value = if negative { -1 - i128::from(value) } else { value.into() };
            let mut out = Vec::new();
            put_int(&mut out, value);
            prop_assert_eq!(Reader::new(&out).int(), Ok(value));
        }

        #[test]
        fn heads_have_their_length(value: u64) {
            let mut out = Vec::new();
            put_uint(&mut out, value);
            prop_assert_eq!(out.len(), head_len(value));
        }
    }
}
