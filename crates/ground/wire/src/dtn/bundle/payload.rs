//! Payload block: always number 1 and last.

use super::super::cbor;
use super::super::crc::{Crc, CrcKind};
use super::block::{BlockFlags, Head};
use super::code;

/// Payload block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// Flags.
    pub flags: BlockFlags,
    /// Kind of CRC.
    pub crc: CrcKind,
    /// First bytes of the payload.
    pub bytes: Vec<u8>,
    /// Number of elided zero bytes after them.
    pub zeros: u64,
}

impl Payload {
    /// Creates a payload of bytes, without a CRC.
    pub fn new(bytes: Vec<u8>) -> Payload {
        Payload { bytes, crc: CrcKind::None, ..Payload::default() }
    }

    /// Creates a payload of elided zeros, without a CRC.
    pub fn elided(zeros: u64) -> Payload {
        Payload { zeros, crc: CrcKind::None, ..Payload::default() }
    }

    /// Returns the length in bytes, elided ones included.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.zeros
    }

    /// Returns `true` if the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all bytes, elided zeros written out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = self.bytes.clone();
        out.resize(self.len() as usize, 0);
        out
    }

    /// Elides the zeros at the end of the bytes.
    pub fn elide(&mut self) {
        let used = self.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        self.zeros += (self.bytes.len() - used) as u64;
        self.bytes.truncate(used);
        self.bytes.shrink_to_fit();
    }

    /// Returns a part of the payload with the same flags.
    ///
    /// # Panics
    /// Panics if the part ends after the payload.
    #[must_use]
    pub fn part(&self, offset: u64, len: u64) -> Payload {
        assert!(offset + len <= self.len(), "a part within the payload");
        let present = self.bytes.len() as u64;
        let (from, to) = (offset.min(present), (offset + len).min(present));
        let bytes = self.bytes[from as usize..to as usize].to_vec();
        Payload { flags: self.flags, crc: self.crc, zeros: len - bytes.len() as u64, bytes }
    }

    fn head(&self) -> Head {
        Head { code: code::PAYLOAD, number: 1, flags: self.flags, crc: self.crc }
    }

    /// Returns the length of the encoded block.
    pub(super) fn encoded_len(&self) -> u64 {
        let mut head = Vec::with_capacity(16);
        self.head().put(&mut head);
        cbor::put_bytes_head(&mut head, self.len());
        let crc = if self.crc.is_empty() { 0 } else { 1 + self.crc.len() };
        self.len() + (head.len() + crc) as u64
    }

    /// Appends the block up to the elided zeros.
    pub(super) fn emit_head(&self, out: &mut Vec<u8>) {
        self.emit_front(out);
        out.extend(&self.bytes);
    }

    /// Appends the block up to its data.
    pub(super) fn emit_front(&self, out: &mut Vec<u8>) {
        self.head().put(out);
        cbor::put_bytes_head(out, self.len());
    }

    /// Appends the block after the elided zeros: its CRC.
    pub(super) fn emit_tail(&self, out: &mut Vec<u8>) {
        if self.crc.is_empty() {
            return;
        }
        let mut head = Vec::new();
        self.head().put(&mut head);
        cbor::put_bytes_head(&mut head, self.len());
        let crc = Crc::new(self.crc).add_bytes(&head).add_bytes(&self.bytes).add_zeros(self.zeros);
        cbor::put_bytes_head(out, self.crc.len() as u64);
        crc.add_bytes(&[0x40 | self.crc.len() as u8]).add_zeros(self.crc.len() as u64).put(out);
    }
}
