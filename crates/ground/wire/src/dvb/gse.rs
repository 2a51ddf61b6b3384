//! Generic Stream Encapsulation (ETSI TS 102 606-1) of PDUs and fragments in data fields. See
//! [`crate::dvb::bbframe`].
//!
//! Protocol types under 1536 are ULE's extension headers (RFC 4326, RFC 5163), so [`ule::Payload`] is what a PDU is here
//! too. An [`Encapsulator`] fills data fields of the length that each frame's MODCOD gives; a [`Receiver`] reassembles them.
//!
//! Not here: GSE-HEM, GSE-Lite, and the extension headers that the return channel's standards define.

mod encapsulator;
mod receiver;
#[cfg(test)]
mod tests;

use std::fmt;

pub use encapsulator::{Encapsulator, InputStream};
pub use receiver::{Counts, Filter, Pdu, Receiver};

use crate::bytes::{array, be16, put16};
use crate::crc32::Crc32;
use crate::dvb::ule::{self, Type};
use crate::lan::ethernet::MacAddr;
use crate::{Error, Layer};

/// Length in bytes of start and end indicators, label type and GSE Length.
pub const BASE_HEADER_LEN: usize = 2;
/// The largest GSE Length: bytes of a packet behind those two.
pub const MAX_LENGTH: usize = 4095;
/// The largest Total Length: protocol type, label, extension headers and PDU.
pub const MAX_TOTAL_LENGTH: usize = 65_535;
/// Length in bytes of the CRC-32 behind a PDU in fragments.
pub const CRC_LEN: usize = 4;

const FRAG_ID_LEN: usize = 1;
const TOTAL_LENGTH_LEN: usize = 2;
const TYPE_LEN: usize = 2;

const START: u8 = 0x80;
const END: u8 = 0x40;

/// Whom a PDU is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// A receiver by an address of six bytes.
    Six(MacAddr),
    /// A receiver by an address of three bytes.
    Three([u8; 3]),
    /// Any receiver.
    Broadcast,
}

impl Label {
    /// Length in bytes.
    pub const fn len(self) -> usize {
        match self {
            Label::Six(_) => 6,
            Label::Three(_) => 3,
            Label::Broadcast => 0,
        }
    }

    /// Returns `true` if it takes no bytes: broadcast.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    const fn code(self) -> LabelType {
        match self {
            Label::Six(_) => LabelType::Six,
            Label::Three(_) => LabelType::Three,
            Label::Broadcast => LabelType::Broadcast,
        }
    }

    fn emit(self, buffer: &mut [u8]) {
        match self {
            Label::Six(address) => buffer[..6].copy_from_slice(&address.0),
            Label::Three(address) => buffer[..3].copy_from_slice(&address),
            Label::Broadcast => {}
        }
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Six(address) => write!(f, "{address}"),
            Label::Three([a, b, c]) => write!(f, "{a:02x}:{b:02x}:{c:02x}"),
            Label::Broadcast => f.write_str("broadcast"),
        }
    }
}

/// Type of a packet's label, in two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelType {
    Six,
    Three,
    Broadcast,
    /// Label of the previous packet in the frame, and that of continued fragments.
    ReUse,
}

impl LabelType {
    const ALL: [LabelType; 4] = [LabelType::Six, LabelType::Three, LabelType::Broadcast, LabelType::ReUse];

    const fn len(self) -> usize {
        match self {
            LabelType::Six => 6,
            LabelType::Three => 3,
            LabelType::Broadcast | LabelType::ReUse => 0,
        }
    }

    /// Parses the label of `bytes`; `None` for re-use.
    fn label(self, bytes: &[u8]) -> Option<Label> {
        match self {
            LabelType::Six => Some(Label::Six(MacAddr(array(bytes, 0)))),
            LabelType::Three => Some(Label::Three(array(bytes, 0))),
            LabelType::Broadcast => Some(Label::Broadcast),
            LabelType::ReUse => None,
        }
    }
}

/// GSE packet in a data field. A label of `None` is that of the previous packet (re-use).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A whole PDU.
    Complete {
        /// Type of the PDU, or of the first extension header.
        kind: Type,
        /// Whom it is for.
        label: Option<Label>,
        /// Extension headers and PDU.
        body: &'a [u8],
    },
    /// The first fragment of a PDU.
    First {
        /// Fragment identifier of the PDU.
        frag_id: u8,
        /// Length in bytes of protocol type, label, extension headers and PDU.
        total_len: usize,
        /// Type of the PDU, or of the first extension header.
        kind: Type,
        /// Whom it is for.
        label: Option<Label>,
        /// Extension headers and the start of the PDU.
        body: &'a [u8],
    },
    /// More of a PDU.
    Middle {
        /// Fragment identifier of the PDU.
        frag_id: u8,
        /// The next part of the PDU.
        body: &'a [u8],
    },
    /// The last fragment.
    Last {
        /// Fragment identifier of the PDU.
        frag_id: u8,
        /// The rest of the PDU.
        body: &'a [u8],
        /// The CRC-32 over Total Length, protocol type, label, extension headers and PDU.
        crc: u32,
    },
}

impl<'a> Packet<'a> {
    /// Parses the packet at the start of `bytes` and returns its length too. `None` where the rest of a data
    /// field is padding.
    ///
    /// # Errors
    /// `Truncated` if the packet is longer than `bytes` or shorter than its own fields; `Malformed` for a middle or last
    /// fragment with a label. The packet's length is then in the error only if it fits.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Packet<'a>, usize)>, Error> {
        let Some(len) = packet_len(bytes)? else { return Ok(None) };
        let packet = Packet::parse_exact(&bytes[..len])?;
        Ok(Some((packet, len)))
    }

    fn parse_exact(bytes: &'a [u8]) -> Result<Packet<'a>, Error> {
        let flags = bytes[0];
        let (is_start, is_end) = (flags & START != 0, flags & END != 0);
        let label_type = LabelType::ALL[usize::from(flags >> 4 & 3)];
        let mut fields = Fields { bytes, at: BASE_HEADER_LEN };
        if !is_start {
            return fragment(&mut fields, is_end, label_type);
        }
        let fragment =
            if is_end { None } else { Some((fields.take(FRAG_ID_LEN)?[0], fields.take(TOTAL_LENGTH_LEN)?)) };
        let kind = Type(be16(fields.take(TYPE_LEN)?, 0));
        let label = label_type.label(fields.take(label_type.len())?);
        let body = fields.rest();
        Ok(match fragment {
            None => Packet::Complete { kind, label, body },
            Some((frag_id, len)) => {
                Packet::First { frag_id, total_len: be16(len, 0).into(), kind, label, body }
            }
        })
    }

    /// Length in bytes.
    pub fn buffer_len(&self) -> usize {
        let label_len = |label: &Option<Label>| label.map_or(0, Label::len);
        let fields = match self {
            Packet::Complete { label, body, .. } => TYPE_LEN + label_len(label) + body.len(),
            Packet::First { label, body, .. } => {
                FRAG_ID_LEN + TOTAL_LENGTH_LEN + TYPE_LEN + label_len(label) + body.len()
            }
            Packet::Middle { body, .. } => FRAG_ID_LEN + body.len(),
            Packet::Last { body, .. } => FRAG_ID_LEN + body.len() + CRC_LEN,
        };
        BASE_HEADER_LEN + fields
    }

    /// Appends the packet to `out`.
    ///
    /// # Panics
    /// If it is longer than a GSE Length says, or its Total Length over 65,535.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let length = self.buffer_len() - BASE_HEADER_LEN;
        assert!(length <= MAX_LENGTH, "a GSE packet of {length} bytes");
        let (flags, label_type, body) = match *self {
            Packet::Complete { label, body, .. } => {
                (START | END, label.map_or(LabelType::ReUse, Label::code), body)
            }
            Packet::First { label, body, .. } => (START, label.map_or(LabelType::ReUse, Label::code), body),
            Packet::Middle { body, .. } => (0, LabelType::ReUse, body),
            Packet::Last { body, .. } => (END, LabelType::ReUse, body),
        };
        let [high, low] = (length as u16).to_be_bytes();
        out.extend([flags | (label_type as u8) << 4 | high, low]);
        self.emit_fields(out);
        out.extend_from_slice(body);
        if let Packet::Last { crc, .. } = self {
            out.extend(crc.to_be_bytes());
        }
    }

    fn emit_fields(&self, out: &mut Vec<u8>) {
        match *self {
            Packet::Complete { kind, label, .. } => emit_start(kind, label, out),
            Packet::First { frag_id, total_len, kind, label, .. } => {
                out.push(frag_id);
                out.extend(u16::try_from(total_len).expect("Total Length has 16 bits").to_be_bytes());
                emit_start(kind, label, out);
            }
            Packet::Middle { frag_id, .. } | Packet::Last { frag_id, .. } => out.push(frag_id),
        }
    }
}

fn emit_start(kind: Type, label: Option<Label>, out: &mut Vec<u8>) {
    out.extend(kind.0.to_be_bytes());
    if let Some(label) = label {
        let mut bytes = [0; 6];
        label.emit(&mut bytes);
        out.extend_from_slice(&bytes[..label.len()]);
    }
}

fn fragment<'a>(fields: &mut Fields<'a>, is_end: bool, label_type: LabelType) -> Result<Packet<'a>, Error> {
    if label_type != LabelType::ReUse {
        return Err(Error::malformed(Layer::Gse, 0, "label type of a middle or last fragment"));
    }
    let frag_id = fields.take(FRAG_ID_LEN)?[0];
    let rest = fields.rest();
    if !is_end {
        return Ok(Packet::Middle { frag_id, body: rest });
    }
    match rest.split_last_chunk::<CRC_LEN>() {
        Some((body, crc)) => Ok(Packet::Last { frag_id, body, crc: u32::from_be_bytes(*crc) }),
        None => Err(fields.short(CRC_LEN)),
    }
}

/// Returns the length in bytes of the first packet, or `None` for padding. Padding starts with a header of start and
/// end 0 and label type 00, or is a single byte, too short for a header.
fn packet_len(bytes: &[u8]) -> Result<Option<usize>, Error> {
    match bytes {
        [] | [_] | [0..=0x0f, ..] => Ok(None),
        _ => {
            let len = BASE_HEADER_LEN + usize::from(be16(bytes, 0) & 0x0fff);
            if len > bytes.len() {
                Err(Error::truncated(Layer::Gse, 0, len, bytes.len()))
            } else {
                Ok(Some(len))
            }
        }
    }
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let field = self.bytes.get(self.at..self.at + count).ok_or(self.short(count))?;
        self.at += count;
        Ok(field)
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn short(&self, count: usize) -> Error {
        Error::truncated(Layer::Gse, self.at, self.at + count, self.bytes.len())
    }
}

/// Returns the CRC-32 of a fragmented PDU before its extension headers.
fn crc(total_len: usize, kind: Type, label: Option<Label>) -> Crc32 {
    let mut bytes = [0; 10];
    put16(&mut bytes, 0, total_len as u16);
    put16(&mut bytes, 2, kind.0);
    let label_len = label.map_or(0, |label| {
        label.emit(&mut bytes[4..]);
        label.len()
    });
    Crc32::new().add_bytes(&bytes[..4 + label_len])
}

/// A PDU that GSE cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a PDU of {len} bytes, where GSE with these headers carries up to {max}")]
pub struct PduLength {
    /// The PDU's length in bytes.
    pub len: usize,
    /// The most that fits.
    pub max: usize,
}

/// Encapsulation of a PDU as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr<'a> {
    /// Whom it is for.
    pub label: Label,
    /// Optional extension headers, in this order.
    pub extensions: &'a [ule::Extension<'a>],
    /// Type of the PDU, after the extension headers.
    pub kind: Type,
}

impl<'a> Repr<'a> {
    /// Creates a PDU without extension headers.
    pub const fn new(kind: Type, label: Label) -> Repr<'a> {
        Repr { label, extensions: &[], kind }
    }

    /// Length in bytes of the extension headers.
    fn extensions_len(&self) -> usize {
        self.extensions.iter().map(ule::Extension::buffer_len).sum()
    }

    /// Length in bytes of a packet that carries a PDU of `pdu_len` bytes whole.
    pub fn packet_len(&self, pdu_len: usize) -> usize {
        BASE_HEADER_LEN + TYPE_LEN + self.label.len() + self.extensions_len() + pdu_len
    }

    /// Checks that GSE can carry a PDU of `len` bytes, in fragments if need be.
    ///
    /// # Errors
    /// Returns an error if it is too long.
    pub fn check_pdu_len(&self, len: usize) -> Result<(), PduLength> {
        let max = (MAX_TOTAL_LENGTH + BASE_HEADER_LEN).saturating_sub(self.packet_len(0));
        if len <= max { Ok(()) } else { Err(PduLength { len, max }) }
    }
}
