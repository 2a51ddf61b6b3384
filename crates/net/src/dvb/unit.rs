//! What travels from a sender to a receiver: a TS packet or a baseband frame, and what is known of the packets that end in
//! it.

use bentpipe_units::Time;
use bentpipe_wire::bbframe::Adaptation;
use bentpipe_wire::ts::PACKET_LEN;

use crate::{Body, Packet};

/// How many bytes at the front of a packet make it known.
const KNOWN_LEN: usize = 64;

/// A TS packet, or a baseband frame without its padding, as bytes; and of each IP packet that ends in it when its data was
/// handed over by its application, which no byte of it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Its number on the line: of its slot, or of its frame. Frames with GSE are counted as they are sent.
    pub number: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// With what a frame is modulated; `None` of a TS packet.
    pub adaptation: Option<Adaptation>,
    /// The IP packets that end in it, in order.
    pub births: Vec<Birth>,
}

/// Of an IP packet, what it is known by, its length in bytes, and when its data was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    pub(super) digest: u64,
    pub(super) len: u32,
    pub(super) born: Time,
}

impl Unit {
    /// The unit as a packet.
    pub(super) fn into_packet(self) -> Packet {
        Packet::new(0, 0).with_body(Body::Unit(Box::new(self)))
    }

    /// The bytes of a TS packet; `None` if it is a frame.
    pub fn ts(&self) -> Option<&[u8; PACKET_LEN]> {
        self.bytes.as_slice().try_into().ok()
    }
}

/// What an IP packet is known by at the other end: its first bytes and its length (FNV-1a).
pub(super) fn digest(bytes: &[u8], elided: usize) -> u64 {
    let len = bytes.len() + elided;
    let zeros = KNOWN_LEN.min(len).saturating_sub(bytes.len());
    let known = bytes.iter().take(KNOWN_LEN).copied().chain(std::iter::repeat_n(0, zeros));
    let start = 0xcbf2_9ce4_8422_2325 ^ len as u64;
    known.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
