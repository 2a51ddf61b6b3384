//! ARQ feedback elements and discard messages (802.16-2004, 6.3.4.2, 6.3.2.3.33 and 6.3.2.3.34).

use super::{Cid, MessageType, message, need};
use crate::bytes::be16;
use crate::{Error, Layer};

/// Acknowledgement in a feedback element. Sequence numbers are those of blocks, 11 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Maps of blocks from a number on; set bits acknowledge. The first block is the most significant bit.
    Selective {
        /// First block of the first map.
        first: u16,
        /// Maps, one to four.
        maps: Vec<u16>,
    },
    /// Blocks up to a number.
    Cumulative(u16),
    /// Blocks up to a number, whose bit is the first of the maps.
    CumulativeSelective {
        /// Last block that is acknowledged with all before it.
        up_to: u16,
        /// Maps, one to four.
        maps: Vec<u16>,
    },
}

impl Ack {
    /// Maximum number of maps.
    pub const MAX_MAPS: usize = 4;

    fn parts(&self) -> (u16, u16, &[u16]) {
        match self {
            Ack::Selective { first, maps } => (0, *first, maps),
            Ack::Cumulative(up_to) => (1, *up_to, &[]),
            Ack::CumulativeSelective { up_to, maps } => (2, *up_to, maps),
        }
    }
}

/// Feedback element of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// Connection.
    pub cid: Cid,
    /// Set at the last element of a list.
    pub last: bool,
    /// Acknowledgement.
    pub ack: Ack,
}

impl Feedback {
    /// Length in bytes without maps.
    pub const LEN: usize = 4;

    /// Returns the length of the element in bytes.
    pub fn buffer_len(&self) -> usize {
        Feedback::LEN + 2 * self.ack.parts().2.len()
    }

    /// Appends the element.
    ///
    /// # Panics
    /// Panics if a selective acknowledgement does not have one to four maps.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (kind, number, maps) = self.ack.parts();
        assert!(kind == 1 || (1..=Ack::MAX_MAPS).contains(&maps.len()), "{} maps", maps.len());
        out.extend(self.cid.0.to_be_bytes());
        let count = maps.len().saturating_sub(1) as u16;
        let field = u16::from(self.last) << 15 | kind << 13 | (number & 0x7ff) << 2 | count;
        out.extend(field.to_be_bytes());
        out.extend(maps.iter().flat_map(|map| map.to_be_bytes()));
    }

    /// Parses the element at the start of `bytes` and returns what follows.
    ///
    /// # Errors
    /// Returns an error if the bytes end early, or the element acknowledges block sequences.
    pub fn parse(bytes: &[u8]) -> Result<(Feedback, &[u8]), Error> {
        need(bytes, Feedback::LEN)?;
        let field = be16(bytes, 2);
        let (kind, number) = (field >> 13 & 3, field >> 2 & 0x7ff);
        let count = if kind == 1 { 0 } else { usize::from(field & 3) + 1 };
        let end = Feedback::LEN + 2 * count;
        need(bytes, end)?;
        let maps = (0..count).map(|n| be16(bytes, Feedback::LEN + 2 * n)).collect();
        let ack = match kind {
            0 => Ack::Selective { first: number, maps },
            1 => Ack::Cumulative(number),
            2 => Ack::CumulativeSelective { up_to: number, maps },
            _ => return Err(Error::unsupported(Layer::Wman, 2, "acknowledgement of block sequences")),
        };
        Ok((Feedback { cid: Cid(be16(bytes, 0)), last: field & 0x8000 != 0, ack }, &bytes[end..]))
    }

    /// Parses a list of elements, up to the one that is marked as the last.
    ///
    /// # Errors
    /// Returns an error if an element is wrong, or none is marked as the last.
    pub fn parse_list(bytes: &[u8]) -> Result<Vec<Feedback>, Error> {
        let (mut list, mut rest) = (Vec::new(), bytes);
        loop {
            let (element, behind) = Feedback::parse(rest)?;
            let last = element.last;
            list.push(element);
            rest = behind;
            if last {
                return Ok(list);
            }
        }
    }
}

/// Discard message: the sender will not send blocks up to a number any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discard {
    /// Connection.
    pub cid: Cid,
    /// Last of the blocks, 11 bits.
    pub up_to: u16,
}

impl Discard {
    /// Length in bytes with the message type.
    pub const LEN: usize = 5;

    /// Appends the message.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(MessageType::ARQ_DISCARD.0);
        out.extend(self.cid.0.to_be_bytes());
        out.extend((self.up_to & 0x7ff).to_be_bytes());
    }

    /// Parses a message.
    ///
    /// # Errors
    /// Returns an error if the bytes end early or are another message.
    pub fn parse(bytes: &[u8]) -> Result<Discard, Error> {
        message(bytes, MessageType::ARQ_DISCARD, Discard::LEN)?;
        Ok(Discard { cid: Cid(be16(bytes, 1)), up_to: be16(bytes, 3) & 0x7ff })
    }
}
