//! IPv4 options (RFC 791, section 3.1; RFC 2113).

use crate::{Error, Layer};

const END: u8 = 0;
const NOP: u8 = 1;

/// Options of a header: up to 40 bytes with checked lengths. Padded to a multiple of 4.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Options {
    len: u8,
    bytes: [u8; Options::MAX_LEN],
}

impl Options {
    /// Length in bytes of the longest options field.
    pub const MAX_LEN: usize = 40;
    /// No options.
    pub const EMPTY: Options = Options { len: 0, bytes: [0; Options::MAX_LEN] };

    /// Parses the options field of a header.
    ///
    /// # Errors
    /// Returns an error if an option is longer than the field, or shorter than its own type and length
    /// octets; `Truncated` if there are more than 40 bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Options, Error> {
        if bytes.is_empty() { Ok(Options::EMPTY) } else { Options::parse_some(bytes) }
    }

    fn parse_some(bytes: &[u8]) -> Result<Options, Error> {
        if bytes.len() > Options::MAX_LEN {
            return Err(Error::malformed(Layer::Ipv4, super::HEADER_LEN, "options over 40 bytes"));
        }
        for item in (OptionItems { bytes, at: 0 }) {
            item?;
        }
        let mut options = Options::EMPTY;
        options.bytes[..bytes.len()].copy_from_slice(bytes);
        options.len = bytes.len().next_multiple_of(4) as u8;
        Ok(options)
    }

    /// Returns the bytes, padding included.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }

    /// Returns the options one by one, without padding.
    pub fn iter(&self) -> impl Iterator<Item = OptionItem<'_>> {
        OptionItems { bytes: self.as_bytes(), at: 0 }.filter_map(Result::ok)
    }

    /// Returns the length in bytes, a multiple of 4.
    #[inline]
    pub const fn buffer_len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(super) fn emit(&self, buffer: &mut [u8]) {
        if self.len != 0 {
            buffer.copy_from_slice(self.as_bytes());
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// IPv4 option: its type octet and the bytes after the length octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionItem<'a> {
    /// Copied flag, class and number in one octet.
    pub kind: u8,
    /// The data.
    pub data: &'a [u8],
}

#[allow(missing_docs, reason = "the names are the registry's")]
impl OptionItem<'_> {
    pub const RECORD_ROUTE: u8 = 7;
    pub const TIMESTAMP: u8 = 68;
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    pub const ROUTER_ALERT: u8 = 148;
}

impl OptionItem<'_> {
    /// Returns `true` if fragments after the first carry it too.
    pub const fn is_copied(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// Iterator over an options field. It ends at the end-of-list octet, at the end of the field, or after an
/// error.
#[derive(Clone, Debug)]
pub struct OptionItems<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Iterator for OptionItems<'a> {
    type Item = Result<OptionItem<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.bytes.get(self.at) == Some(&NOP) {
            self.at += 1;
        }
        let start = self.at;
        let kind = *self.bytes.get(start)?;
        if kind == END {
            return None;
        }
        self.at = self.bytes.len();
        let Some(len) = self.bytes.get(start + 1).map(|&len| usize::from(len)) else {
            return Some(Err(error(start, "option without length")));
        };
        if len < 2 || start + len > self.bytes.len() {
            return Some(Err(error(start + 1, "option length")));
        }
        self.at = start + len;
        Some(Ok(OptionItem { kind, data: &self.bytes[start + 2..start + len] }))
    }
}

fn error(at: usize, what: &'static str) -> Error {
    Error::malformed(Layer::Ipv4, super::HEADER_LEN + at, what)
}
