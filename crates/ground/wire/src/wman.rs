//! IEEE 802.16-2004 with the OFDM-256 PHY: MAC PDUs, maps and channel descriptors.
//!
//! *Models*: the generic and the bandwidth request header with their HCS, the subheaders of fragmentation, packing and grant
//! management, CRC-32, the downlink frame prefix, DL-MAP, UL-MAP, DCD, UCD, ARQ feedback, rules of payload header suppression, and the Ethernet envelope
//! (`m2m`) in which Wireshark reads bursts. *Does not model*: mesh, PKM, messages of ranging and registration, and the OFDMA
//! maps of 802.16e.
//!
//! *References*: IEEE 802.16-2004, clauses 6.3.2 and 8.3. Its text was not available: layouts agree with Wireshark's
//! dissector, which the tests call, apart from maps and descriptors, which that dissector reads as OFDMA's.

pub mod arq;
pub mod channel;
mod header;
pub mod m2m;
mod map;
mod pdu;
pub mod phs;
mod subheader;
#[cfg(test)]
mod tests;

pub use header::{Generic, HEADER_LEN, Header, MAX_PDU_LEN, Request, Urgency, hcs};
pub use map::{DlElement, DlMap, FCH_LEN, Fch, FchBurst, UlElement, UlMap};
pub use pdu::{CRC_LEN, CrcForm, Layout, Part, Parts, Pdu, Repr};
pub use subheader::{Fragment, Grant, Numbers};

use crate::{Error, Layer};

/// Connection identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cid(pub u16);

impl Cid {
    /// Initial ranging.
    pub const INITIAL_RANGING: Cid = Cid(0);
    /// Padding: a burst has nothing more.
    pub const PADDING: Cid = Cid(0xfffe);
    /// Broadcast: maps, descriptors, and request regions open to all.
    pub const BROADCAST: Cid = Cid(0xffff);
}

/// Type of a MAC management message, its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageType(pub u8);

impl MessageType {
    /// Uplink channel descriptor.
    pub const UCD: MessageType = MessageType(0);
    /// Downlink channel descriptor.
    pub const DCD: MessageType = MessageType(1);
    /// Downlink map.
    pub const DL_MAP: MessageType = MessageType(2);
    /// Uplink map.
    pub const UL_MAP: MessageType = MessageType(3);
    /// Ranging request.
    pub const RNG_REQ: MessageType = MessageType(4);
    /// Ranging response.
    pub const RNG_RSP: MessageType = MessageType(5);
    /// ARQ feedback.
    pub const ARQ_FEEDBACK: MessageType = MessageType(33);
    /// ARQ discard.
    pub const ARQ_DISCARD: MessageType = MessageType(34);
}

/// Checks the type of a management message and its minimum length.
fn message(bytes: &[u8], wanted: MessageType, min: usize) -> Result<(), Error> {
    need(bytes, min)?;
    if bytes[0] == wanted.0 {
        Ok(())
    } else {
        Err(Error::malformed(Layer::Wman, 0, "type of another management message"))
    }
}

/// Checks that there are `len` bytes.
fn need(bytes: &[u8], len: usize) -> Result<(), Error> {
    if bytes.len() < len { Err(Error::truncated(Layer::Wman, 0, len, bytes.len())) } else { Ok(()) }
}
