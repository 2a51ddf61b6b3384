//! Full, mini and video frames (RFC 5456 8.1).

use super::field::{FrameError, TOP, call_number, word};
use super::trunk::{self, Trunk};

/// Type of a full frame (RFC 5456 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// DTMF digit.
    Dtmf,
    /// Voice, whose subclass is the format.
    Voice,
    /// Video.
    Video,
    /// Control of the call: [`control`].
    Control,
    /// Null.
    Null,
    /// Control of the protocol: [`iax`].
    Iax,
    /// Text.
    Text,
    /// Image.
    Image,
    /// HTML.
    Html,
    /// Comfort noise.
    ComfortNoise,
}

const KINDS: [Kind; 10] = [
    Kind::Dtmf,
    Kind::Voice,
    Kind::Video,
    Kind::Control,
    Kind::Null,
    Kind::Iax,
    Kind::Text,
    Kind::Image,
    Kind::Html,
    Kind::ComfortNoise,
];

macro_rules! numbers {
    ($(#[$doc:meta])* $module:ident: $($name:ident = $value:expr;)+) => {
        $(#[$doc])*
        pub mod $module {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: u32 = $value;)+
        }
    };
}

numbers! {
    /// Subclasses of control frames (RFC 5456 8.3).
    control: HANGUP = 1; RINGING = 3; ANSWER = 4; BUSY = 5; CONGESTION = 8; FLASH = 9; PROGRESS = 0x0e; PROCEEDING = 0x0f;
    HOLD = 0x10; UNHOLD = 0x11;
}

numbers! {
    /// Subclasses of IAX frames (RFC 5456 8.4).
    iax: NEW = 1; PING = 2; PONG = 3; ACK = 4; HANGUP = 5; REJECT = 6; ACCEPT = 7; AUTHREQ = 8; AUTHREP = 9; INVAL = 0x0a;
    LAGRQ = 0x0b; LAGRP = 0x0c; REGREQ = 0x0d; REGAUTH = 0x0e; REGACK = 0x0f; REGREJ = 0x10; REGREL = 0x11; VNAK = 0x12;
    POKE = 0x1e; UNSUPPORT = 0x21;
}

numbers! {
    /// Media formats (RFC 5456 8.7).
    format: G723 = 1; GSM = 2; PCMU = 4; PCMA = 8; G726 = 0x10; LINEAR = 0x40; LPC10 = 0x80; G729 = 0x100; SPEEX = 0x200;
    ILBC = 0x400; H261 = 0x0004_0000; H263 = 0x0008_0000;
}

/// Full frame: reliable, with sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullFrame {
    /// Call number of the sender, 1 to 32,767; 0 in the INVAL of no call.
    pub source: u16,
    /// Call number of the receiver; 0 if unknown.
    pub destination: u16,
    /// Set if the frame is sent again.
    pub is_repeated: bool,
    /// Time since the start of the call in ms.
    pub timestamp: u32,
    /// Number of this frame.
    pub outbound: u8,
    /// Number of the next frame expected.
    pub inbound: u8,
    /// Type.
    pub kind: Kind,
    /// Subclass: below 128, or a power of two.
    pub subclass: u32,
    /// Media or information elements.
    pub payload: Vec<u8>,
}

/// Mini frame: voice in the format of the last full frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MiniFrame {
    /// Call number of the sender.
    pub source: u16,
    /// Lower 16 bits of the timestamp in ms.
    pub timestamp: u16,
    /// Voice.
    pub payload: Vec<u8>,
}

/// Meta video frame: video in the format of the last full frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoFrame {
    /// Call number of the sender.
    pub source: u16,
    /// Mark, and the lower 15 bits of the timestamp.
    pub timestamp: u16,
    /// Video.
    pub payload: Vec<u8>,
}

/// Frame of IAX2: one datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Full frame.
    Full(FullFrame),
    /// Mini frame.
    Mini(MiniFrame),
    /// Meta video frame.
    Video(VideoFrame),
    /// Meta trunk frame.
    Trunk(Trunk),
}

impl Frame {
    /// Parses a datagram.
    ///
    /// # Errors
    /// Returns an error if a header is cut, or has a value that RFC 5456 does not have.
    pub fn parse(bytes: &[u8]) -> Result<Frame, FrameError> {
        let (first, second) = (word(bytes, 0)?, word(bytes, 2)?);
        match first {
            0 if second & TOP != 0 => {
                let source = call_number(second)?;
                Ok(Frame::Video(VideoFrame {
                    source,
                    timestamp: word(bytes, 4)?,
                    payload: bytes[6..].to_vec(),
                }))
            }
            0 => trunk::parse(bytes).map(Frame::Trunk),
            _ if first & TOP != 0 => parse_full(bytes).map(Frame::Full),
            _ => {
                Ok(Frame::Mini(MiniFrame { source: first, timestamp: second, payload: bytes[4..].to_vec() }))
            }
        }
    }

    /// Returns the bytes of the frame.
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Frame::Full(frame) => frame.emit(),
            Frame::Mini(frame) => frame.emit(),
            Frame::Video(frame) => {
                let head = [0, frame.source | TOP, frame.timestamp];
                [&head.map(u16::to_be_bytes).concat()[..], &frame.payload].concat()
            }
            Frame::Trunk(trunk) => trunk.emit(),
        }
    }
}

fn parse_full(bytes: &[u8]) -> Result<FullFrame, FrameError> {
    let head: &[u8; 12] = bytes.first_chunk().ok_or(FrameError::Short)?;
    let (source, destination) = (word(head, 0)? & !TOP, word(head, 2)?);
    let kind = KINDS.get(usize::from(head[10]).wrapping_sub(1)).ok_or(FrameError::Kind(head[10]))?;
    Ok(FullFrame {
        source,
        destination: destination & !TOP,
        is_repeated: destination & TOP != 0,
        timestamp: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        outbound: head[8],
        inbound: head[9],
        kind: *kind,
        subclass: parse_subclass(head[11])?,
        payload: bytes[12..].to_vec(),
    })
}

/// Returns the value of a subclass: with the first bit, a power of two.
fn parse_subclass(byte: u8) -> Result<u32, FrameError> {
    match byte {
        0..=0x7f => Ok(byte.into()),
        0x80..=0x9f => Ok(1 << (byte & 0x1f)),
        _ => Err(FrameError::Subclass(byte & 0x7f)),
    }
}

fn emit_subclass(subclass: u32) -> u8 {
    match u8::try_from(subclass) {
        Ok(small @ 0..=0x7f) => small,
        _ => 0x80 | subclass.trailing_zeros() as u8,
    }
}

impl FullFrame {
    /// Returns the bytes of the frame.
    pub fn emit(&self) -> Vec<u8> {
        let destination = self.destination | if self.is_repeated { TOP } else { 0 };
        let mut bytes = Vec::with_capacity(12 + self.payload.len());
        bytes.extend((self.source | TOP).to_be_bytes());
        bytes.extend(destination.to_be_bytes());
        bytes.extend(self.timestamp.to_be_bytes());
        let kind = KINDS.iter().position(|kind| *kind == self.kind).map_or(0, |at| at as u8 + 1);
        bytes.extend([self.outbound, self.inbound, kind, emit_subclass(self.subclass)]);
        bytes.extend(&self.payload);
        bytes
    }
}

impl MiniFrame {
    /// Returns the bytes of the frame.
    pub fn emit(&self) -> Vec<u8> {
        [&[self.source, self.timestamp].map(u16::to_be_bytes).concat()[..], &self.payload].concat()
    }
}
