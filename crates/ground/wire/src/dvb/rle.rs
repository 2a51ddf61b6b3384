//! Return Link Encapsulation of DVB-RCS2: packets of any length in bursts of any length. ETSI EN 301 545-2
//! clause 7, TS 103 179.
//!
//! A packet with its protocol type is an ALPDU; an ALPDU goes whole into one PPDU, or in fragments into several, the last of
//! which ends with a sequence number or a CRC-32; PPDUs fill a burst's payload, the frame PDU (FPDU), and zeros what is left
//! of it. An [`Encapsulator`] fills FPDUs, a [`Receiver`] takes them.
//!
//! Here labels of ALPDU, PPDU and FPDU are all of length zero, as on bursts of traffic. Not here: signalling, ALPDUs without a
//! CRC flag whose length has 13 bits, explicit payload header maps, the frame's own checksum, VLAN tags without inner type.

mod encapsulator;
mod receiver;
#[cfg(test)]
mod tests;
mod types;

pub use encapsulator::Encapsulator;
pub use receiver::{Counts, Receiver, Sdu};
pub use types::Types;

use crate::bytes::be16;
use crate::{Error, Layer};

/// Length in bytes of the header of a full, continuation or end PPDU.
pub const HEADER_LEN: usize = 2;
/// Length in bytes of a start PPDU's header.
pub const START_HEADER_LEN: usize = 4;
/// The most bytes of a PPDU behind its first two.
pub const MAX_LENGTH: usize = 0x7ff;
/// The longest ALPDU in fragments: protocol type, packet and trailer.
pub const MAX_TOTAL_LENGTH: usize = 0xfff;
/// Maximum number of fragmented ALPDUs at a time.
pub const FRAG_IDS: u8 = 8;

const START: u8 = 0x80;
const END: u8 = 0x40;

/// Trailer of protocol type and packet of a fragmented ALPDU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protection {
    /// A number of one byte, which counts the ALPDUs in fragments under one Fragment-Id.
    #[default]
    Sequence,
    /// A CRC-32 over the protocol type, of two bytes always, and the packet.
    Crc,
}

impl Protection {
    /// Length in bytes of the trailer.
    pub const fn len(self) -> usize {
        match self {
            Protection::Sequence => 1,
            Protection::Crc => 4,
        }
    }

    /// Returns `true` if there is no trailer, which is never.
    pub const fn is_empty(self) -> bool {
        false
    }
}

/// ALPDU description in a full or start PPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpdu {
    /// Label type: one of four label lengths in the link's configuration; 3 is signalling.
    pub label_type: u8,
    /// Set if the protocol type is left out.
    pub is_suppressed: bool,
}

/// The one kind that is sent: without label.
impl Alpdu {
    const fn traffic(is_suppressed: bool) -> Alpdu {
        Alpdu { label_type: 0, is_suppressed }
    }

    const fn bits(self) -> u8 {
        self.label_type << 1 | self.is_suppressed as u8
    }

    const fn from_bits(bits: u8) -> Alpdu {
        Alpdu { label_type: bits >> 1 & 3, is_suppressed: bits & 1 != 0 }
    }
}

/// A payload-adapted PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ppdu<'a> {
    /// A whole ALPDU, which has no trailer.
    Full {
        /// Description of the ALPDU.
        alpdu: Alpdu,
        /// Protocol type and packet.
        body: &'a [u8],
    },
    /// The first fragment of an ALPDU.
    Start {
        /// Fragment identifier of the ALPDU: under 8.
        frag_id: u8,
        /// Type of its trailer.
        protection: Protection,
        /// Length in bytes of protocol type, packet and trailer.
        total_len: usize,
        /// Description of the ALPDU.
        alpdu: Alpdu,
        /// The protocol type and the start of the packet.
        body: &'a [u8],
    },
    /// More of an ALPDU.
    Continuation {
        /// Fragment identifier of the ALPDU.
        frag_id: u8,
        /// The next part of the packet.
        body: &'a [u8],
    },
    /// The last fragment.
    End {
        /// Fragment identifier of the ALPDU.
        frag_id: u8,
        /// The rest of the packet, and the trailer.
        body: &'a [u8],
    },
}

impl<'a> Ppdu<'a> {
    /// Parses the PPDU at the start of `bytes` and returns its length too. `None` where the rest of an FPDU
    /// is padding.
    ///
    /// # Errors
    /// `Truncated` if the PPDU is longer than `bytes` or shorter than its own header.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Ppdu<'a>, usize)>, Error> {
        let Some(len) = ppdu_len(bytes)? else { return Ok(None) };
        Ok(Some((Ppdu::parse_exact(&bytes[..len])?, len)))
    }

    fn parse_exact(bytes: &'a [u8]) -> Result<Ppdu<'a>, Error> {
        let (low, body) = (bytes[1] & 7, &bytes[HEADER_LEN..]);
        Ok(match (bytes[0] & START != 0, bytes[0] & END != 0) {
            (true, true) => Ppdu::Full { alpdu: Alpdu::from_bits(low), body },
            (true, false) => return start(bytes, low),
            (false, false) => Ppdu::Continuation { frag_id: low, body },
            (false, true) => Ppdu::End { frag_id: low, body },
        })
    }

    /// Length in bytes.
    pub fn buffer_len(&self) -> usize {
        match self {
            Ppdu::Start { body, .. } => START_HEADER_LEN + body.len(),
            Ppdu::Full { body, .. } | Ppdu::Continuation { body, .. } | Ppdu::End { body, .. } => {
                HEADER_LEN + body.len()
            }
        }
    }

    /// Appends the PPDU to `out`.
    ///
    /// # Panics
    /// If it is longer than its length field says, its total length over 4095, its Fragment-Id over 7 or its label type
    /// over 3.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let length = self.buffer_len() - HEADER_LEN;
        assert!(length <= MAX_LENGTH, "a PPDU of {length} bytes");
        let (flags, low, body) = match *self {
            Ppdu::Full { alpdu, body } => (START | END, alpdu.bits(), body),
            Ppdu::Start { frag_id, body, .. } => (START, frag_id, body),
            Ppdu::Continuation { frag_id, body } => (0, frag_id, body),
            Ppdu::End { frag_id, body } => (END, frag_id, body),
        };
        assert!(low < 8, "a Fragment-Id or label type of more bits than it has");
        let [high, middle] = (length as u16).checked_shl(3).expect("11 bits").to_be_bytes();
        out.extend([flags | high, middle | low]);
        if let Ppdu::Start { protection, total_len, alpdu, .. } = *self {
            assert!(total_len <= MAX_TOTAL_LENGTH && alpdu.bits() < 8, "an ALPDU of {total_len} bytes");
            let crc = u16::from(protection == Protection::Crc) << 15;
            out.extend((crc | (total_len as u16) << 3 | u16::from(alpdu.bits())).to_be_bytes());
        }
        out.extend_from_slice(body);
    }
}

fn start(bytes: &[u8], frag_id: u8) -> Result<Ppdu<'_>, Error> {
    let Some((header, body)) = bytes.split_at_checked(START_HEADER_LEN) else {
        return Err(Error::truncated(Layer::Rle, HEADER_LEN, START_HEADER_LEN, bytes.len()));
    };
    let field = be16(header, HEADER_LEN);
    let protection = if field & 0x8000 != 0 { Protection::Crc } else { Protection::Sequence };
    let total_len = usize::from(field >> 3) & MAX_TOTAL_LENGTH;
    Ok(Ppdu::Start { frag_id, protection, total_len, alpdu: Alpdu::from_bits(header[3]), body })
}

/// Returns the length in bytes of the first PPDU, or `None` for padding. Padding is two bytes of zeros, or a single
/// byte, too short for a header.
fn ppdu_len(bytes: &[u8]) -> Result<Option<usize>, Error> {
    match bytes {
        [] | [_] | [0, 0, ..] => Ok(None),
        _ => {
            let len = HEADER_LEN + (usize::from(be16(bytes, 0) >> 3) & MAX_LENGTH);
            if len > bytes.len() {
                Err(Error::truncated(Layer::Rle, 0, len, bytes.len()))
            } else {
                Ok(Some(len))
            }
        }
    }
}

/// Encapsulation profile of a link, the same at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Format of protocol types.
    pub types: Types,
    /// Protection of fragmented packets by the sender. A receiver learns it from each start PPDU.
    pub protection: Protection,
}

impl Profile {
    /// Returns the longest packet of this protocol type.
    pub fn max_sdu(&self, kind: crate::dvb::ule::Type) -> usize {
        MAX_TOTAL_LENGTH - self.types.field(kind).len() - self.protection.len()
    }
}

/// A packet that RLE cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet of {len} bytes, where RLE so carries 1 to {max}")]
pub struct SduLength {
    /// The packet's length in bytes.
    pub len: usize,
    /// The most that fits.
    pub max: usize,
}
