//! TCP options, in a struct of fixed size.
//!
//! They are written in the order and alignment most hosts use: MSS; SACK-permitted and timestamps; window scale; SACK
//! blocks; the rest. Segments with timestamps alone, nearly all of a long transfer, take a short cut both ways.

use super::SeqNumber;
use crate::bytes::{be16, be32, put16, put32};
use crate::{Error, Layer};

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

const MSS_LEN: usize = 4;
const WINDOW_SCALE_LEN: usize = 3;
const SACK_PERMITTED_LEN: usize = 2;
const SACK_BLOCK_LEN: usize = 8;
const TIMESTAMPS_LEN: usize = 10;

/// NOP, NOP, and the timestamps option's kind and length (RFC 7323, appendix A).
const TIMESTAMPS_ONLY: u32 = 0x0101_080a;
const TIMESTAMPS_ONLY_LEN: usize = 12;

/// The options of one header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size in bytes (RFC 9293, section 3.7.1).
    pub mss: Option<u16>,
    /// Window scale shift count as received; over 14 counts as 14 (RFC 7323, section 2.3).
    pub window_scale: Option<u8>,
    /// Set if SACK is permitted (RFC 2018, section 2).
    pub sack_permitted: bool,
    /// TSval and TSecr (RFC 7323, section 3.2).
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks (RFC 2018, section 3).
    pub sack: SackBlocks,
    /// Options of other kinds.
    pub unknown: Unknown,
}

impl Options {
    /// Length in bytes of the longest options field.
    pub const MAX_LEN: usize = 40;
    /// No options.
    pub const NONE: Options = Options {
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: SackBlocks::NONE,
        unknown: Unknown::NONE,
    };

    /// Timestamps and nothing else.
    #[inline]
    pub const fn timestamps(tsval: u32, tsecr: u32) -> Options {
        Options { timestamps: Some((tsval, tsecr)), ..Options::NONE }
    }

    /// Reads the options field of a header. Of an option that comes twice the last one counts.
    ///
    /// # Errors
    /// Returns an error if an option is longer than the field, shorter than its own kind and length octets,
    /// or not of the length its kind has; if the field is longer than 40 bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Options, Error> {
        if bytes.is_empty() {
            Ok(Options::NONE)
        } else if let Some((tsval, tsecr)) = Options::timestamps_alone(bytes) {
            Ok(Options::timestamps(tsval, tsecr))
        } else {
            Options::parse_any(bytes)
        }
    }

    /// Returns the timestamps of an options field without other options, the common case.
    #[inline]
    pub fn timestamps_alone(bytes: &[u8]) -> Option<(u32, u32)> {
        let alone = bytes.len() == TIMESTAMPS_ONLY_LEN && be32(bytes, 0) == TIMESTAMPS_ONLY;
        alone.then(|| (be32(bytes, 4), be32(bytes, 8)))
    }

    fn parse_any(bytes: &[u8]) -> Result<Options, Error> {
        if bytes.len() > Options::MAX_LEN {
            return Err(error(0, "options over 40 bytes"));
        }
        let mut options = Options::NONE;
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                END => break,
                NOP => at += 1,
                _ => at += options.read_one(bytes, at)?,
            }
        }
        Ok(options)
    }

    /// Reads the option at `at` and returns its length.
    fn read_one(&mut self, bytes: &[u8], at: usize) -> Result<usize, Error> {
        let len = usize::from(*bytes.get(at + 1).ok_or(error(at, "option without length"))?);
        let option = bytes.get(at..at + len).filter(|_| len >= 2).ok_or(error(at + 1, "option length"))?;
        match (option[0], len) {
            (MSS, MSS_LEN) => self.mss = Some(be16(option, 2)),
            (WINDOW_SCALE, WINDOW_SCALE_LEN) => self.window_scale = Some(option[2]),
            (SACK_PERMITTED, SACK_PERMITTED_LEN) => self.sack_permitted = true,
            (TIMESTAMPS, TIMESTAMPS_LEN) => self.timestamps = Some((be32(option, 2), be32(option, 6))),
            (SACK, _) if len % SACK_BLOCK_LEN == 2 => self.sack.read(&option[2..]),
            (MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS, _) => {
                return Err(error(at + 1, "option length is not its kind's"));
            }
            _ => self.unknown.append(option),
        }
        Ok(len)
    }

    /// Returns the number of SACK blocks that fit with the other options. Up to 4, or 3 with timestamps.
    pub fn sack_room(&self) -> usize {
        let others = Options { sack: SackBlocks::NONE, ..*self }.len(Alignment::Words).next_multiple_of(4);
        (Options::MAX_LEN.saturating_sub(others + 4) / SACK_BLOCK_LEN).min(SackBlocks::MAX)
    }

    /// Returns the length in bytes of the options field, padding included. Padding is to a multiple of 4.
    ///
    /// # Panics
    /// Panics if the options take more than 40 bytes. Parsed options never do, nor do SACK blocks within
    /// [`Options::sack_room`].
    #[inline]
    pub fn buffer_len(&self) -> usize {
        if self.has_timestamps_at_most() {
            if self.timestamps.is_some() { TIMESTAMPS_ONLY_LEN } else { 0 }
        } else {
            self.len(self.alignment()).next_multiple_of(4)
        }
    }

    #[inline]
    fn has_timestamps_at_most(&self) -> bool {
        self.sack.is_empty()
            && self.mss.is_none()
            && self.window_scale.is_none()
            && !self.sack_permitted
            && self.unknown.is_empty()
    }

    /// Returns the alignment: words where they fit, otherwise packed, as a received full field.
    fn alignment(&self) -> Alignment {
        if self.len(Alignment::Words) <= Options::MAX_LEN {
            return Alignment::Words;
        }
        assert!(self.len(Alignment::Packed) <= Options::MAX_LEN, "TCP options take at most 40 bytes");
        Alignment::Packed
    }

    /// Returns the length in bytes without the padding at the end.
    fn len(&self, alignment: Alignment) -> usize {
        let nops = |count: usize| if alignment == Alignment::Words { count } else { 0 };
        let mut len = self.unknown.as_bytes().len();
        if self.mss.is_some() {
            len += MSS_LEN;
        }
        len += match (self.sack_permitted, self.timestamps.is_some()) {
            (true, true) => SACK_PERMITTED_LEN + TIMESTAMPS_LEN,
            (true, false) => nops(2) + SACK_PERMITTED_LEN,
            (false, true) => nops(2) + TIMESTAMPS_LEN,
            (false, false) => 0,
        };
        if self.window_scale.is_some() {
            len += nops(1) + WINDOW_SCALE_LEN;
        }
        if !self.sack.is_empty() {
            len += nops(2) + 2 + SACK_BLOCK_LEN * self.sack.len();
        }
        len
    }

    /// Fills a buffer of exactly [`Options::buffer_len`] bytes.
    #[inline]
    pub(super) fn emit(&self, buffer: &mut [u8]) {
        match self.timestamps {
            Some((tsval, tsecr)) if self.has_timestamps_at_most() => {
                put32(buffer, 0, TIMESTAMPS_ONLY);
                put32(buffer, 4, tsval);
                put32(buffer, 8, tsecr);
            }
            None if buffer.is_empty() => {}
            _ => self.emit_any(buffer),
        }
    }

    fn emit_any(&self, buffer: &mut [u8]) {
        let mut writer = Writer { buffer, at: 0, alignment: self.alignment() };
        if let Some(mss) = self.mss {
            put16(writer.option(MSS, MSS_LEN), 0, mss);
        }
        self.emit_sack_permitted_and_timestamps(&mut writer);
        if let Some(shift) = self.window_scale {
            writer.nops(1);
            writer.option(WINDOW_SCALE, WINDOW_SCALE_LEN)[0] = shift;
        }
        if !self.sack.is_empty() {
            writer.nops(2);
            self.sack.emit(writer.option(SACK, 2 + SACK_BLOCK_LEN * self.sack.len()));
        }
        writer.raw(self.unknown.as_bytes());
        writer.finish();
    }

    fn emit_sack_permitted_and_timestamps(&self, writer: &mut Writer<'_>) {
        if self.sack_permitted != self.timestamps.is_some() {
            writer.nops(2);
        }
        if self.sack_permitted {
            writer.option(SACK_PERMITTED, SACK_PERMITTED_LEN);
        }
        if let Some((tsval, tsecr)) = self.timestamps {
            let data = writer.option(TIMESTAMPS, TIMESTAMPS_LEN);
            put32(data, 0, tsval);
            put32(data, 4, tsecr);
        }
    }
}

/// Alignment of options: on word boundaries with NOPs, or packed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alignment {
    Words,
    Packed,
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
    alignment: Alignment,
}

impl Writer<'_> {
    fn nops(&mut self, count: usize) {
        if self.alignment == Alignment::Words {
            self.buffer[self.at..self.at + count].fill(NOP);
            self.at += count;
        }
    }

    /// Writes kind and length and returns the space for the data.
    fn option(&mut self, kind: u8, len: usize) -> &mut [u8] {
        let start = self.at;
        self.at += len;
        self.buffer[start] = kind;
        self.buffer[start + 1] = len as u8;
        &mut self.buffer[start + 2..start + len]
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn finish(self) {
        self.buffer[self.at..].fill(END);
    }
}

/// Set of up to four SACK blocks. Each goes from its left edge to its last byte plus one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SackBlocks {
    len: u8,
    blocks: [(SeqNumber, SeqNumber); SackBlocks::MAX],
}

impl SackBlocks {
    /// Number of blocks that fit in a header.
    pub const MAX: usize = 4;
    /// No blocks.
    pub const NONE: SackBlocks =
        SackBlocks { len: 0, blocks: [(SeqNumber(0), SeqNumber(0)); SackBlocks::MAX] };

    /// Returns `true` if the block was appended, `false` if there are four.
    #[inline]
    pub fn push(&mut self, left: SeqNumber, right: SeqNumber) -> bool {
        let Some(block) = self.blocks.get_mut(usize::from(self.len)) else { return false };
        *block = (left, right);
        self.len += 1;
        true
    }

    /// Returns the blocks, the one of the latest segment first (RFC 2018, section 4).
    #[inline]
    pub fn as_slice(&self) -> &[(SeqNumber, SeqNumber)] {
        &self.blocks[..self.len.into()]
    }

    /// Returns the blocks in order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> + '_ {
        self.as_slice().iter().copied()
    }

    /// Returns the number of blocks.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns `true` if there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn read(&mut self, data: &[u8]) {
        for block in data.chunks_exact(SACK_BLOCK_LEN) {
            // The options field has room for four blocks, so none is turned away.
            self.push(SeqNumber(be32(block, 0)), SeqNumber(be32(block, 4)));
        }
    }

    fn emit(&self, data: &mut [u8]) {
        for ((left, right), block) in self.iter().zip(data.chunks_exact_mut(SACK_BLOCK_LEN)) {
            put32(block, 0, left.0);
            put32(block, 4, right.0);
        }
    }
}

impl FromIterator<(SeqNumber, SeqNumber)> for SackBlocks {
    /// Creates a set of the first four.
    fn from_iter<I: IntoIterator<Item = (SeqNumber, SeqNumber)>>(blocks: I) -> SackBlocks {
        let mut out = SackBlocks::NONE;
        for (left, right) in blocks.into_iter().take(SackBlocks::MAX) {
            out.push(left, right);
        }
        out
    }
}

impl std::fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Options of kinds this module does not read, carried as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Unknown {
    len: u8,
    bytes: [u8; Options::MAX_LEN],
}

impl Unknown {
    /// No such options.
    pub const NONE: Unknown = Unknown { len: 0, bytes: [0; Options::MAX_LEN] };

    /// Adds an option.
    ///
    /// # Panics
    /// If the options together would take more than 40 bytes, or `kind` is one [`Options`] has a field for.
    pub fn push(&mut self, kind: u8, data: &[u8]) {
        let is_known = matches!(kind, END | NOP | MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | TIMESTAMPS);
        assert!(!is_known, "TCP option {kind} has its own field");
        let start = self.len();
        let option = &mut self.bytes[start..start + 2 + data.len()];
        option[0] = kind;
        option[1] = 2 + data.len() as u8;
        option[2..].copy_from_slice(data);
        self.len += option[1];
    }

    fn append(&mut self, option: &[u8]) {
        let start = self.len();
        self.bytes[start..start + option.len()].copy_from_slice(option);
        self.len += option.len() as u8;
    }

    /// Returns kind and data of each option.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        let mut rest = self.as_bytes();
        std::iter::from_fn(move || {
            let len = usize::from(*rest.get(1)?);
            let (option, tail) = rest.split_at(len);
            rest = tail;
            Some((option[0], &option[2..]))
        })
    }

    /// Returns the options' bytes, kinds and lengths included.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    /// Returns their length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns `true` if there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Default for Unknown {
    fn default() -> Unknown {
        Unknown::NONE
    }
}

impl std::fmt::Debug for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn error(at: usize, what: &'static str) -> Error {
    Error::malformed(Layer::Tcp, super::HEADER_LEN + at, what)
}
