//! ATM cell (ITU-T I.361): header of either interface, HEC, RM and OAM cells.
//!
//! OAM cells are recognised, with their type and function, and checked; their content is not parsed. Cell
//! delineation is not included: cells are passed whole.

use crate::bytes::be32;
use crate::{Error, Layer};

pub mod crc10;
pub mod hec;
pub mod oam;
pub mod rm;

/// Length in bytes of a cell.
pub const CELL_LEN: usize = 53;
/// Length in bytes of a cell's header, HEC included.
pub const HEADER_LEN: usize = 5;
/// Length in bytes of a cell's payload.
pub const PAYLOAD_LEN: usize = 48;
/// The first virtual channel of a path that is not reserved.
pub const FIRST_FREE_VCI: u16 = 32;

/// The header of the cell that fills a line with nothing to send (ITU-T I.432.1).
pub const IDLE: [u8; HEADER_LEN] = [0, 0, 0, 1, 0x52];

/// Type of interface, which determines the first four bits of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interface {
    /// User to network: generic flow control and 8 bits of virtual path.
    Uni,
    /// Network to network: 12 bits of virtual path.
    Nni,
}

/// Payload type of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadType {
    /// User data.
    User {
        /// Set if the cell met congestion (EFCI).
        congested: bool,
        /// SDU type 1: the last cell of an AAL5 CPCS-PDU.
        last: bool,
    },
    /// OAM of a segment of the virtual channel (F5).
    OamSegment,
    /// OAM of the virtual channel from end to end (F5).
    OamEndToEnd,
    /// Resource management.
    ResourceManagement,
    /// Reserved.
    Reserved,
}

impl PayloadType {
    /// Returns the type that three bits mean.
    ///
    /// # Panics
    /// If `bits` is more than 7.
    pub const fn from_bits(bits: u8) -> PayloadType {
        match bits {
            0..=3 => PayloadType::User { congested: bits & 2 != 0, last: bits & 1 != 0 },
            4 => PayloadType::OamSegment,
            5 => PayloadType::OamEndToEnd,
            6 => PayloadType::ResourceManagement,
            7 => PayloadType::Reserved,
            _ => panic!("a payload type has three bits"),
        }
    }

    /// Returns the three bits of the type.
    pub const fn bits(self) -> u8 {
        match self {
            PayloadType::User { congested, last } => (congested as u8) << 1 | last as u8,
            PayloadType::OamSegment => 4,
            PayloadType::OamEndToEnd => 5,
            PayloadType::ResourceManagement => 6,
            PayloadType::Reserved => 7,
        }
    }
}

/// A cell's header as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// The kind of interface.
    pub interface: Interface,
    /// Generic flow control, 4 bits; 0 and unused at a network interface.
    pub gfc: u8,
    /// Virtual path, 8 bits at a user interface, 12 at a network interface.
    pub vpi: u16,
    /// Virtual channel.
    pub vci: u16,
    /// Payload type.
    pub payload_type: PayloadType,
    /// Cell loss priority: whether the cell is dropped before others.
    pub clp: bool,
}

impl Repr {
    /// Creates a user interface header of a user data cell. It is neither last of its PDU nor congested.
    pub const fn new(vpi: u8, vci: u16) -> Repr {
        let payload_type = PayloadType::User { congested: false, last: false };
        Repr { interface: Interface::Uni, gfc: 0, vpi: vpi as u16, vci, payload_type, clp: false }
    }

    /// Reads a header whose HEC is right.
    ///
    /// # Errors
    /// `Truncated` under 5 bytes; `Checksum` if the HEC does not match. [`hec::Receiver`] corrects single bits first.
    pub fn parse(interface: Interface, bytes: &[u8]) -> Result<Repr, Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::truncated(Layer::Atm, 0, HEADER_LEN, bytes.len()));
        }
        if hec::of(be32(bytes, 0)) != bytes[4] {
            return Err(Error::checksum(Layer::Atm, 4));
        }
        Ok(Repr::from_word(interface, be32(bytes, 0)))
    }

    /// Returns the values in a header's first four octets.
    pub const fn from_word(interface: Interface, word: u32) -> Repr {
        let (gfc, vpi) = match interface {
            Interface::Uni => ((word >> 28) as u8, (word >> 20) as u16 & 0xff),
            Interface::Nni => (0, (word >> 20) as u16),
        };
        let payload_type = PayloadType::from_bits((word >> 1) as u8 & 7);
        Repr { interface, gfc, vpi, vci: (word >> 4) as u16, payload_type, clp: word & 1 != 0 }
    }

    /// Returns the header's first four octets, big endian.
    ///
    /// # Panics
    /// If GFC or VPI do not fit their fields.
    pub fn word(&self) -> u32 {
        let vpi_bits = match self.interface {
            Interface::Uni => 8,
            Interface::Nni => 12,
        };
        assert!(self.vpi >> vpi_bits == 0, "a VPI of {} needs more than {vpi_bits} bits", self.vpi);
        assert!(self.gfc >> (12 - vpi_bits) == 0, "a GFC of {} does not fit", self.gfc);
        let path = u32::from(self.gfc) << 28 | u32::from(self.vpi) << 20 | u32::from(self.vci) << 4;
        path | u32::from(self.payload_type.bits()) << 1 | u32::from(self.clp)
    }

    /// Returns the header's length in bytes.
    pub const fn buffer_len(&self) -> usize {
        HEADER_LEN
    }

    /// Writes the header with its HEC.
    ///
    /// # Panics
    /// If `buffer` is shorter than 5 bytes, or GFC or VPI do not fit their fields.
    pub fn emit(&self, buffer: &mut [u8]) {
        let word = self.word();
        buffer[..4].copy_from_slice(&word.to_be_bytes());
        buffer[4] = hec::of(word);
    }

    /// Returns `true` if this is an OAM cell of a path (F4) or channel (F5). F4 has VCI 3 or 4, F5 its
    /// payload type.
    pub const fn is_oam(&self) -> bool {
        let is_f5 = matches!(self.payload_type, PayloadType::OamSegment | PayloadType::OamEndToEnd);
        is_f5 || matches!(self.vci, 3 | 4)
    }
}

#[cfg(test)]
mod tests;
