//! Optional extension headers (RFC 4326, section 5), which a receiver can skip.

use crate::bytes::{array, be16, put16};
use crate::{Error, Layer};

use super::Type;

/// Length in bytes of a Type field.
const TYPE_LEN: usize = 2;
/// Maximum length in bytes of an extension header between Type fields (H-LEN 5).
const MAX_DATA_LEN: usize = 8;

/// An optional extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    h_type: u8,
    data: &'a [u8],
}

impl<'a> Extension<'a> {
    /// H-Type of padding (RFC 4326, section 5.3).
    pub const PADDING: u8 = 0;
    /// H-Type of a time stamp (RFC 5163, section 3.3).
    pub const TIMESTAMP: u8 = 1;

    /// Creates an extension header with `data` between its Type field and the next one.
    ///
    /// # Panics
    /// If `data` has an odd number of bytes, or more than eight.
    pub const fn new(h_type: u8, data: &'a [u8]) -> Extension<'a> {
        assert!(
            data.len() <= MAX_DATA_LEN && data.len().is_multiple_of(2),
            "an extension header has 0, 2, 4, 6 or 8 bytes"
        );
        Extension { h_type, data }
    }

    /// Padding that lengthens the SNDU by 2, 4, 6, 8 or 10 bytes in all.
    ///
    /// # Panics
    /// If `len_bytes` is another number.
    pub const fn padding(len_bytes: usize) -> Extension<'static> {
        assert!(len_bytes >= TYPE_LEN, "padding has a Type field at least");
        let (data, _) = [0; MAX_DATA_LEN].as_slice().split_at(len_bytes - TYPE_LEN);
        Extension::new(Extension::PADDING, data)
    }

    /// Creates a time stamp: microseconds past the hour in Universal Time at encapsulation. 32 bits, most
    /// significant byte first; a receiver with a clock keeps the bytes.
    pub const fn timestamp(microseconds: &'a [u8; 4]) -> Extension<'a> {
        Extension::new(Extension::TIMESTAMP, microseconds)
    }

    /// Returns the extension's number: IANA's less 256.
    pub const fn h_type(&self) -> u8 {
        self.h_type
    }

    /// Returns the bytes between its Type field and the next one.
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Returns the microseconds of a time stamp. `None` for another extension or another length.
    pub fn as_timestamp(&self) -> Option<u32> {
        (self.h_type == Extension::TIMESTAMP && self.data.len() == 4)
            .then(|| u32::from_be_bytes(array(self.data, 0)))
    }

    /// The Type field in front of it: five zeros, H-LEN, H-Type.
    pub(crate) fn kind(&self) -> Type {
        Type(((self.buffer_len() / 2) as u16) << 8 | u16::from(self.h_type))
    }

    /// Length in bytes that it adds to an SNDU.
    pub fn buffer_len(&self) -> usize {
        self.data.len() + TYPE_LEN
    }

    /// Writes its data and the next Type field.
    pub(super) fn emit(&self, next: Type, buffer: &mut [u8]) {
        buffer[..self.data.len()].copy_from_slice(self.data);
        put16(buffer, self.data.len(), next.0);
    }
}

/// The optional extension headers of an SNDU, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extensions<'a> {
    first: Type,
    /// Bytes after the first Type field, or address, through the last extension's next Type.
    chain: &'a [u8],
}

impl<'a> Extensions<'a> {
    /// Parses the extension chain `first` and the Type after it. `offset` is the body's place in the SNDU.
    pub(crate) fn parse(first: Type, body: &'a [u8], offset: usize) -> Result<(Extensions<'a>, Type), Error> {
        let (mut kind, mut at) = (first, 0);
        while let Some(len) = optional_len(kind) {
            if at + len > body.len() {
                return Err(Error::truncated(
                    Layer::Ule,
                    offset + at,
                    offset + at + len,
                    offset + body.len(),
                ));
            }
            at += len;
            kind = Type(be16(body, at - TYPE_LEN));
        }
        Ok((Extensions { first, chain: &body[..at] }, kind))
    }

    /// Length in bytes of the chain.
    pub fn buffer_len(&self) -> usize {
        self.chain.len()
    }

    /// Returns the microseconds of the first time stamp there is.
    pub fn timestamp(&self) -> Option<u32> {
        self.into_iter().find_map(|extension| extension.as_timestamp())
    }
}

impl<'a> IntoIterator for Extensions<'a> {
    type Item = Extension<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        Iter { kind: self.first, chain: self.chain }
    }
}

/// Over the extension headers of an SNDU.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    kind: Type,
    chain: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = Extension<'a>;

    fn next(&mut self) -> Option<Extension<'a>> {
        let (header, rest) = self.chain.split_at_checked(optional_len(self.kind)?)?;
        let (data, next) = header.split_at(header.len() - TYPE_LEN);
        let extension = Extension { h_type: self.kind.0 as u8, data };
        *self = Iter { kind: Type(be16(next, 0)), chain: rest };
        Some(extension)
    }
}

/// Returns the length in bytes of an announced extension header, next Type field included. `None` if the Type
/// field announces a mandatory one or a PDU.
fn optional_len(kind: Type) -> Option<usize> {
    let h_len = usize::from(kind.0 >> 8);
    (kind.is_extension() && h_len != 0).then_some(h_len * 2)
}
