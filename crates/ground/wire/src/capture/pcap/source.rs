//! Bytes of a file with their offset, in a reused, growing buffer.

use std::io::{self, Read};

use super::ReadError;
use crate::{Error, Layer};

#[derive(Debug)]
pub(super) struct Source<R> {
    inner: R,
    offset: u64,
    buffer: Vec<u8>,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Source<R> {
        Source { inner, offset: 0, buffer: Vec::new() }
    }

    /// Returns the number of bytes that have been read.
    pub(super) fn offset(&self) -> usize {
        usize::try_from(self.offset).unwrap_or(usize::MAX)
    }

    /// Returns the bytes that the last [`Source::fill`] read.
    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads `len` bytes into the buffer. The caller bounds `len`; a false length takes no memory, since the
    /// buffer only grows by the bytes read.
    pub(super) fn fill(&mut self, layer: Layer, len: usize) -> Result<&[u8], ReadError> {
        let have = self.read_up_to(len)?;
        if have < len {
            return Err(Error::truncated(layer, self.offset() - have, len, have).into());
        }
        Ok(&self.buffer)
    }

    fn read_up_to(&mut self, len: usize) -> io::Result<usize> {
        self.buffer.clear();
        let have = self.inner.by_ref().take(len as u64).read_to_end(&mut self.buffer)?;
        self.offset += have as u64;
        Ok(have)
    }

    /// Reads an array of `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, layer: Layer) -> Result<[u8; N], ReadError> {
        self.fill(layer, N)?;
        Ok(crate::bytes::array(&self.buffer, 0))
    }

    /// Reads an array of `N` bytes, or nothing at the end of the file.
    pub(super) fn array_or_end<const N: usize>(
        &mut self,
        layer: Layer,
    ) -> Result<Option<[u8; N]>, ReadError> {
        match self.read_up_to(N)? {
            0 => Ok(None),
            have if have < N => Err(Error::truncated(layer, self.offset() - have, N, have).into()),
            _ => Ok(Some(crate::bytes::array(&self.buffer, 0))),
        }
    }

    /// Reads `len` bytes and forgets them.
    pub(super) fn skip(&mut self, layer: Layer, len: usize) -> Result<(), ReadError> {
        let have = io::copy(&mut self.inner.by_ref().take(len as u64), &mut io::sink())? as usize;
        let start = self.offset();
        self.offset += have as u64;
        if have < len {
            return Err(Error::truncated(layer, start, len, have).into());
        }
        Ok(())
    }
}
