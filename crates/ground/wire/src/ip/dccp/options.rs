//! DCCP options (RFC 4340, section 5.8): types, lengths and data, and TFRC's values.

use crate::bytes::be32;
use crate::ip::quick_start::{self, Response};
use crate::{Error, Layer};

/// Option types.
pub mod kind {
    /// Padding to the end of a word.
    pub const PADDING: u8 = 0;
    /// A feature's value is asked for by its own end (RFC 4340, section 6.1).
    pub const CHANGE_L: u8 = 32;
    /// The answer to it.
    pub const CONFIRM_R: u8 = 35;
    /// A feature's value at the other end is asked for.
    pub const CHANGE_R: u8 = 34;
    /// The answer to it.
    pub const CONFIRM_L: u8 = 33;
    /// Time since the acknowledged packet arrived, in 10 microseconds (section 13.2).
    pub const ELAPSED_TIME: u8 = 43;
    /// CCID 3: the receiver's loss event rate (RFC 4342, section 8.5).
    pub const LOSS_EVENT_RATE: u8 = 192;
    /// CCID 3: the receiver's rate (RFC 4342, section 8.3).
    pub const RECEIVE_RATE: u8 = 194;
}

/// Types below this have no length and no data.
const FIRST_WITH_LENGTH: u8 = 32;

/// Options of a header, without padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Options {
    len: u8,
    bytes: [u8; Options::MAX_LEN],
}

impl Default for Options {
    fn default() -> Options {
        Options { len: 0, bytes: [0; Options::MAX_LEN] }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(Items::new(self.as_bytes(), 0)).finish()
    }
}

impl Options {
    /// Number of bytes that are held.
    pub const MAX_LEN: usize = 64;

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns `true` if the option was added, `false` without room. Types below 32 have no data.
    pub fn push(&mut self, kind: u8, data: &[u8]) -> bool {
        let start = usize::from(self.len);
        let head: &[u8] = if kind < FIRST_WITH_LENGTH { &[kind] } else { &[kind, data.len() as u8 + 2] };
        let data = if kind < FIRST_WITH_LENGTH { &[] } else { data };
        let end = start + head.len() + data.len();
        if end > Options::MAX_LEN {
            return false;
        }
        self.bytes[start..start + head.len()].copy_from_slice(head);
        self.bytes[start + head.len()..end].copy_from_slice(data);
        self.len = end as u8;
        true
    }

    /// Returns the data of the first option of a type.
    pub fn find(&self, kind: u8) -> Option<&[u8]> {
        Items::new(self.as_bytes(), 0)
            .filter_map(Result::ok)
            .find(|item| item.kind == kind)
            .map(|item| item.data)
    }

    /// Returns the time for which the receiver held the acknowledged packet, in nanoseconds. RFC 4340,
    /// section 13.2.
    pub fn elapsed_ns(&self) -> Option<u64> {
        let ticks = match *self.find(kind::ELAPSED_TIME)? {
            [a, b] => u64::from(u16::from_be_bytes([a, b])),
            [a, b, c, d] => u64::from(u32::from_be_bytes([a, b, c, d])),
            _ => return None,
        };
        Some(ticks * 10_000)
    }

    /// Returns `true` if the elapsed time was added, `false` without room. It is rounded down to 10
    /// microseconds.
    pub fn push_elapsed_ns(&mut self, nanos: u64) -> bool {
        self.push(kind::ELAPSED_TIME, &u32::try_from(nanos / 10_000).unwrap_or(u32::MAX).to_be_bytes())
    }

    /// Returns the receiver's rate in bytes a second.
    pub fn receive_rate(&self) -> Option<u32> {
        self.find(kind::RECEIVE_RATE).and_then(word)
    }

    /// Returns `true` if the option was added, `false` without room.
    pub fn push_receive_rate(&mut self, bytes_per_sec: u32) -> bool {
        self.push(kind::RECEIVE_RATE, &bytes_per_sec.to_be_bytes())
    }

    /// Returns the receiver's loss event rate: zero before the first loss.
    pub fn loss_event_rate(&self) -> Option<f64> {
        let inverse = self.find(kind::LOSS_EVENT_RATE).and_then(word)?;
        Some(if inverse == u32::MAX { 0.0 } else { 1.0 / f64::from(inverse.max(1)) })
    }

    /// Returns `true` if the loss event rate was added, `false` without room. The option has its inverse,
    /// rounded up.
    pub fn push_loss_event_rate(&mut self, p: f64) -> bool {
        let inverse = if p > 0.0 { (1.0 / p).ceil().min(f64::from(u32::MAX - 1)) as u32 } else { u32::MAX };
        self.push(kind::LOSS_EVENT_RATE, &inverse.to_be_bytes())
    }

    /// Returns the answer to a Quick-Start request.
    pub fn quick_start(&self) -> Option<Response> {
        Response::parse(self.find(quick_start::DCCP_OPTION)?).ok()
    }

    /// Returns `true` if the option was added, `false` without room.
    pub fn push_quick_start(&mut self, response: &Response) -> bool {
        self.push(quick_start::DCCP_OPTION, &response.data())
    }
}

fn word(data: &[u8]) -> Option<u32> {
    (data.len() == 4).then(|| be32(data, 0))
}

/// DCCP option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Option type.
    pub kind: u8,
    /// Data after the length; empty for types below 32.
    pub data: &'a [u8],
}

/// Walks options, padding left out; ends at the end or after an error.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    bytes: &'a [u8],
    /// Offset of `bytes` in the header.
    start: usize,
    at: usize,
}

impl<'a> Items<'a> {
    pub(super) fn new(bytes: &'a [u8], start: usize) -> Items<'a> {
        Items { bytes, start, at: 0 }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<Item<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.bytes.get(self.at) == Some(&kind::PADDING) {
            self.at += 1;
        }
        let at = self.at;
        let kind = *self.bytes.get(at)?;
        if kind < FIRST_WITH_LENGTH {
            self.at += 1;
            return Some(Ok(Item { kind, data: &[] }));
        }
        self.at = self.bytes.len();
        let len = self.bytes.get(at + 1).map_or(0, |&len| usize::from(len));
        if len < 2 || at + len > self.bytes.len() {
            return Some(Err(Error::malformed(Layer::Dccp, self.start + at, "option length")));
        }
        self.at = at + len;
        Some(Ok(Item { kind, data: &self.bytes[at + 2..at + len] }))
    }
}
