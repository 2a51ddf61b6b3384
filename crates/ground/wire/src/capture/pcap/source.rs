//! Bytes of a file with their offset, in a reused, growing buffer.

use std::io::{self, Read};

use super::ReadError;
use crate::{Error, Layer};

/// Bytes read ahead that are kept though they were passed on.
const PASSED: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Source<R> {
    inner: R,
    offset: u64,
    buffer: Vec<u8>,
    /// Bytes that were read ahead, and the number of them that were passed on.
    ahead: Vec<u8>,
    passed: usize,
}

impl<R: Read> Source<R> {
    pub(super) fn new(inner: R) -> Source<R> {
        Source { inner, offset: 0, buffer: Vec::new(), ahead: Vec::new(), passed: 0 }
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
        let ahead = self.pass(len);
        self.buffer.extend_from_slice(&self.ahead[self.passed - ahead..self.passed]);
        self.inner.by_ref().take((len - ahead) as u64).read_to_end(&mut self.buffer)?;
        self.offset += self.buffer.len() as u64;
        Ok(self.buffer.len())
    }

    /// Passes on at most `len` bytes that were read ahead, and returns their number.
    fn pass(&mut self, len: usize) -> usize {
        let ahead = (self.ahead.len() - self.passed).min(len);
        self.passed += ahead;
        ahead
    }

    /// Returns at least `len` of the next bytes, or all.
    ///
    /// They stay the next ones.
    pub(super) fn peek(&mut self, len: usize) -> io::Result<&[u8]> {
        if self.passed >= PASSED {
            self.ahead.drain(..self.passed);
            self.passed = 0;
        }
        let missing = len.saturating_sub(self.ahead.len() - self.passed);
        self.inner.by_ref().take(missing as u64).read_to_end(&mut self.ahead)?;
        Ok(&self.ahead[self.passed..])
    }

    /// Returns the bytes of the buffer to the source.
    pub(super) fn put_back(&mut self) {
        self.ahead.splice(..self.passed, self.buffer.iter().copied());
        self.passed = 0;
        self.offset -= self.buffer.len() as u64;
        self.buffer.clear();
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
        let ahead = self.pass(len);
        let rest = (len - ahead) as u64;
        let have = ahead + io::copy(&mut self.inner.by_ref().take(rest), &mut io::sink())? as usize;
        let start = self.offset();
        self.offset += have as u64;
        if have < len {
            return Err(Error::truncated(layer, start, len, have).into());
        }
        Ok(())
    }
}
