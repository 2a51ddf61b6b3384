//! Trunk frames: voice of several calls in one datagram (RFC 5456 8.1.3.2).

use super::field::{FrameError, call_number, word};

/// Meta command of trunks.
const TRUNK: u8 = 1;
/// Flag of trunks whose calls have timestamps of their own.
const TIMESTAMPS: u8 = 1;

/// Voice of one call in a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkedCall {
    /// Call number of the sender.
    pub source: u16,
    /// Timestamp of its own, in all calls of a trunk or in none.
    pub timestamp: Option<u16>,
    /// Voice.
    pub payload: Vec<u8>,
}

/// Meta trunk frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// Time of transmission in ms.
    pub timestamp: u32,
    /// Set if each call has a timestamp of its own.
    pub has_timestamps: bool,
    /// Calls.
    pub calls: Vec<TrunkedCall>,
}

pub(super) fn parse(bytes: &[u8]) -> Result<Trunk, FrameError> {
    let head: &[u8; 8] = bytes.first_chunk().ok_or(FrameError::Short)?;
    if head[2] != TRUNK {
        return Err(FrameError::MetaCommand(head[2]));
    }
    let has_timestamps = head[3] & TIMESTAMPS != 0;
    let timestamp = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    let (mut rest, mut calls) = (&bytes[8..], vec![]);
    while !rest.is_empty() {
        let (call, len) = parse_call(rest, has_timestamps)?;
        calls.push(call);
        rest = &rest[len..];
    }
    Ok(Trunk { timestamp, has_timestamps, calls })
}

fn parse_call(bytes: &[u8], has_timestamp: bool) -> Result<(TrunkedCall, usize), FrameError> {
    let (first, second) = (word(bytes, 0)?, word(bytes, 2)?);
    let (len, source, timestamp, head) =
        if has_timestamp { (first, second, Some(word(bytes, 4)?), 6) } else { (second, first, None, 4) };
    let end = head + usize::from(len);
    let payload = bytes.get(head..end).ok_or(FrameError::Short)?.to_vec();
    Ok((TrunkedCall { source: call_number(source)?, timestamp, payload }, end))
}

impl Trunk {
    /// Returns the bytes of the frame.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, TRUNK, if self.has_timestamps { TIMESTAMPS } else { 0 }];
        bytes.extend(self.timestamp.to_be_bytes());
        for TrunkedCall { source, timestamp, payload } in &self.calls {
            let len = payload.len() as u16;
            let head: &[u16] =
                if self.has_timestamps { &[len, *source, timestamp.unwrap_or(0)] } else { &[*source, len] };
            head.iter().for_each(|word| bytes.extend(word.to_be_bytes()));
            bytes.extend(payload);
        }
        bytes
    }
}
