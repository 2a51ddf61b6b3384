//! Messages of the TCP convergence layer version 4 (RFC 9174).
//!
//! [`Message::parse`] reads a message from the front of a stream. Limits bound memory before the bytes have arrived.

use crate::bytes::{array, be16, be32};
use crate::{Error, Layer};

/// Contact header's magic and version (RFC 9174, section 4.2).
pub const CONTACT: [u8; 5] = *b"dtn!\x04";
/// Length of a contact header in bytes.
pub const CONTACT_LEN: usize = 6;
/// Flag of a contact header: the node can use TLS.
pub const CAN_TLS: u8 = 1;
/// Length of an acknowledgement in bytes.
pub const ACK_LEN: usize = 18;
/// Longest list of extension items that is accepted, in bytes.
pub const MAX_EXTENSIONS: usize = 4096;

const XFER_SEGMENT: u8 = 1;
const XFER_ACK: u8 = 2;
const XFER_REFUSE: u8 = 3;
const KEEPALIVE: u8 = 4;
const SESS_TERM: u8 = 5;
const MSG_REJECT: u8 = 6;
const SESS_INIT: u8 = 7;

/// Extension type of the length of a transfer (RFC 9174, section 5.2.5.1).
pub const TRANSFER_LENGTH: u16 = 1;
/// Extension type of a session: parts of cut transfers are kept.
///
/// Of the range for private use (RFC 9174, section 8.3). The value is the least length of a part that is kept, in 8 bytes.
pub const KEEPS_PARTS: u16 = 0xbe17;

/// Flags of a transfer segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentFlags(pub u8);

impl SegmentFlags {
    /// Last segment of the transfer.
    pub const END: u8 = 1;
    /// First segment of the transfer.
    pub const START: u8 = 2;

    /// Returns `true` if it is the first segment.
    pub fn is_start(self) -> bool {
        self.0 & Self::START != 0
    }

    /// Returns `true` if it is the last segment.
    pub fn is_end(self) -> bool {
        self.0 & Self::END != 0
    }
}

/// Parameters that a node opens a session with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInit<'a> {
    /// Interval of keepalives in seconds; 0 for none.
    pub keepalive: u16,
    /// Longest segment that it accepts, in bytes.
    pub segment_mru: u64,
    /// Longest transfer that it accepts, in bytes.
    pub transfer_mru: u64,
    /// Endpoint identifier of the node.
    pub node: &'a str,
    /// Extension items.
    pub extensions: &'a [u8],
}

/// Extension item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Set if a node that does not know it must refuse.
    pub is_critical: bool,
    /// Type code.
    pub code: u16,
    /// Value.
    pub value: &'a [u8],
}

/// Message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Part of a bundle.
    Segment {
        /// Flags.
        flags: SegmentFlags,
        /// Number of the transfer.
        transfer: u64,
        /// Extension items; only of a first segment.
        extensions: &'a [u8],
        /// Data.
        data: &'a [u8],
    },
    /// Acknowledgement of a segment.
    Ack {
        /// Flags of the segment.
        flags: SegmentFlags,
        /// Number of the transfer.
        transfer: u64,
        /// Bytes of the transfer received up to here.
        len: u64,
    },
    /// Refusal of a transfer.
    Refuse {
        /// Reason: see [`refusal`].
        reason: u8,
        /// Number of the transfer.
        transfer: u64,
    },
    /// Keepalive.
    Keepalive,
    /// End of the session.
    Terminate {
        /// Set in the answer to the other node's end.
        is_reply: bool,
        /// Reason: see [`termination`].
        reason: u8,
    },
    /// Rejection of a message.
    Reject {
        /// Reason: see [`rejection`].
        reason: u8,
        /// First octet of the message.
        header: u8,
    },
    /// Start of the session.
    Init(SessionInit<'a>),
}

/// Reasons of XFER_REFUSE (RFC 9174, section 5.2.4).
pub mod refusal {
    /// Unspecified.
    pub const UNKNOWN: u8 = 0;
    /// The bundle is there already.
    pub const COMPLETED: u8 = 1;
    /// No resources.
    pub const NO_RESOURCES: u8 = 2;
    /// A problem that sending again may solve.
    pub const RETRANSMIT: u8 = 3;
    /// The bundle cannot be accepted.
    pub const NOT_ACCEPTABLE: u8 = 4;
    /// An unknown critical extension.
    pub const EXTENSION: u8 = 5;
    /// The session is ending.
    pub const TERMINATING: u8 = 6;
}

/// Reasons of SESS_TERM (RFC 9174, section 6.1).
pub mod termination {
    /// Unspecified.
    pub const UNKNOWN: u8 = 0;
    /// No keepalive arrived, or idle.
    pub const IDLE: u8 = 1;
    /// Another version.
    pub const VERSION: u8 = 2;
    /// Busy.
    pub const BUSY: u8 = 3;
    /// The contact or initialisation fails.
    pub const CONTACT_FAILURE: u8 = 4;
    /// Resources exhausted.
    pub const EXHAUSTED: u8 = 5;
}

/// Reasons of MSG_REJECT (RFC 9174, section 5.1.2).
pub mod rejection {
    /// Unknown message type.
    pub const UNKNOWN: u8 = 1;
    /// Unsupported.
    pub const UNSUPPORTED: u8 = 2;
    /// Unexpected in this state.
    pub const UNEXPECTED: u8 = 3;
}

/// Result of reading from the front of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read<'a> {
    /// A message, and its length in bytes.
    Whole(Message<'a>, usize),
    /// More bytes are needed. The known minimum in all.
    Incomplete(usize),
}

/// Reads from a stream whose end is not there yet.
struct Stream<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Reason for which reading stops.
enum Stop {
    Needed(usize),
    Failed(Error),
}

impl<'a> Stream<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Stop> {
        let end = self.at + len;
        let taken = self.bytes.get(self.at..end).ok_or(Stop::Needed(end))?;
        self.at = end;
        Ok(taken)
    }

    fn u8(&mut self) -> Result<u8, Stop> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Result<u16, Stop> {
        self.take(2).map(|bytes| be16(bytes, 0))
    }

    fn u32(&mut self) -> Result<u32, Stop> {
        self.take(4).map(|bytes| be32(bytes, 0))
    }

    fn u64(&mut self) -> Result<u64, Stop> {
        self.take(8).map(|bytes| u64::from_be_bytes(array(bytes, 0)))
    }

    /// Reads the bytes of a length field, up to `most`.
    fn sized(&mut self, len: u64, most: u64, what: &'static str) -> Result<&'a [u8], Stop> {
        match len <= most {
            true => self.take(len as usize),
            false => Err(Stop::Failed(Error::malformed(Layer::Tcpcl, self.at, what))),
        }
    }

    fn extensions(&mut self) -> Result<&'a [u8], Stop> {
        let len = self.u32()?;
        self.sized(len.into(), MAX_EXTENSIONS as u64, "extension items longer than 4096 bytes")
    }

    fn segment(&mut self, segment_mru: u64) -> Result<Message<'a>, Stop> {
        let (flags, transfer) = (SegmentFlags(self.u8()?), self.u64()?);
        let extensions = if flags.is_start() { self.extensions()? } else { &[] };
        let len = self.u64()?;
        let data = self.sized(len, segment_mru, "a segment longer than this node accepts")?;
        Ok(Message::Segment { flags, transfer, extensions, data })
    }

    fn init(&mut self) -> Result<Message<'a>, Stop> {
        let (keepalive, segment_mru, transfer_mru) = (self.u16()?, self.u64()?, self.u64()?);
        let len = self.u16()?;
        let node = self.take(len.into())?;
        let node = std::str::from_utf8(node);
        let node = node
            .map_err(|_| Stop::Failed(Error::malformed(Layer::Tcpcl, self.at, "a node that is not UTF-8")))?;
        Ok(Message::Init(SessionInit {
            keepalive,
            segment_mru,
            transfer_mru,
            node,
            extensions: self.extensions()?,
        }))
    }

    fn message(&mut self, segment_mru: u64) -> Result<Message<'a>, Stop> {
        match self.u8()? {
            XFER_SEGMENT => self.segment(segment_mru),
            XFER_ACK => {
                Ok(Message::Ack { flags: SegmentFlags(self.u8()?), transfer: self.u64()?, len: self.u64()? })
            }
            XFER_REFUSE => Ok(Message::Refuse { reason: self.u8()?, transfer: self.u64()? }),
            KEEPALIVE => Ok(Message::Keepalive),
            SESS_TERM => Ok(Message::Terminate { is_reply: self.u8()? & 1 != 0, reason: self.u8()? }),
            MSG_REJECT => Ok(Message::Reject { reason: self.u8()?, header: self.u8()? }),
            SESS_INIT => self.init(),
            _ => Err(Stop::Failed(Error::unsupported(Layer::Tcpcl, 0, "an unknown message"))),
        }
    }
}

impl<'a> Message<'a> {
    /// Reads the message at the front of a stream. Segments may have up to `segment_mru` bytes of data.
    ///
    /// # Errors
    /// Returns an error if the message is unknown or beyond a limit.
    pub fn parse(bytes: &'a [u8], segment_mru: u64) -> Result<Read<'a>, Error> {
        let mut stream = Stream { bytes, at: 0 };
        match stream.message(segment_mru) {
            Ok(message) => Ok(Read::Whole(message, stream.at)),
            Err(Stop::Needed(len)) => Ok(Read::Incomplete(len)),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// Appends the message.
    ///
    /// # Panics
    /// Panics if a node's identifier or the extensions are longer than their length fields hold.
    pub fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Message::Segment { flags, transfer, extensions, data } => {
                put_segment_head(out, *flags, *transfer, extensions, data.len() as u64);
                out.extend(*data);
            }
            Message::Ack { flags, transfer, len } => {
                out.extend([XFER_ACK, flags.0]);
                out.extend(transfer.to_be_bytes());
                out.extend(len.to_be_bytes());
            }
            Message::Refuse { reason, transfer } => {
                out.extend([XFER_REFUSE, *reason]);
                out.extend(transfer.to_be_bytes());
            }
            Message::Keepalive => out.push(KEEPALIVE),
            Message::Terminate { is_reply, reason } => out.extend([SESS_TERM, u8::from(*is_reply), *reason]),
            Message::Reject { reason, header } => out.extend([MSG_REJECT, *reason, *header]),
            Message::Init(init) => init.put(out),
        }
    }
}

/// Appends all of a segment in front of its data.
pub fn put_segment_head(out: &mut Vec<u8>, flags: SegmentFlags, transfer: u64, extensions: &[u8], len: u64) {
    out.extend([XFER_SEGMENT, flags.0]);
    out.extend(transfer.to_be_bytes());
    if flags.is_start() {
        put_extensions(out, extensions);
    }
    out.extend(len.to_be_bytes());
}

fn put_extensions(out: &mut Vec<u8>, extensions: &[u8]) {
    out.extend(u32::try_from(extensions.len()).expect("short extensions").to_be_bytes());
    out.extend(extensions);
}

impl SessionInit<'_> {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(SESS_INIT);
        out.extend(self.keepalive.to_be_bytes());
        out.extend(self.segment_mru.to_be_bytes());
        out.extend(self.transfer_mru.to_be_bytes());
        out.extend(u16::try_from(self.node.len()).expect("a short identifier").to_be_bytes());
        out.extend(self.node.as_bytes());
        put_extensions(out, self.extensions);
    }
}

impl Extension<'_> {
    /// Appends the item.
    ///
    /// # Panics
    /// Panics if the value is longer than 65,535 bytes.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.is_critical.into());
        out.extend(self.code.to_be_bytes());
        out.extend(u16::try_from(self.value.len()).expect("a short value").to_be_bytes());
        out.extend(self.value);
    }

    /// Reads all items of a list.
    ///
    /// # Errors
    /// Returns an error if one is cut.
    pub fn parse_all(mut bytes: &[u8]) -> Result<Vec<Extension<'_>>, Error> {
        let mut items = Vec::new();
        while !bytes.is_empty() {
            let have = bytes.len();
            let cut = |needed| Error::truncated(Layer::Tcpcl, 0, needed, have);
            let (head, rest) = bytes.split_first_chunk::<5>().ok_or(cut(5))?;
            let len = usize::from(be16(head, 3));
            let value = rest.get(..len).ok_or(cut(5 + len))?;
            items.push(Extension { is_critical: head[0] & 1 != 0, code: be16(head, 1), value });
            bytes = &rest[len..];
        }
        Ok(items)
    }
}

/// Returns the version and flags of a contact header, once it is whole.
///
///  Versions of other protocols have another length.
///
/// # Errors
/// Returns an error if the magic is wrong.
pub fn parse_contact(bytes: &[u8]) -> Result<Option<(u8, u8)>, Error> {
    let known = bytes.len().min(4);
    if bytes[..known] != CONTACT[..known] {
        return Err(Error::malformed(Layer::Tcpcl, 0, "not the magic of a contact header"));
    }
    Ok(bytes.get(..CONTACT_LEN).map(|header| (header[4], header[5])))
}

#[cfg(test)]
mod tests;
