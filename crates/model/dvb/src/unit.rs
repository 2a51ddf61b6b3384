//! Transmission units: TS packets and BBFRAMEs, with the packets that end in them.

use bentpipe_net::{Carried, Origin, Packet};
use bentpipe_wire::bbframe::Adaptation;
use bentpipe_wire::ts::PACKET_LEN;

/// Number of bytes at the front of a packet that identify it.
const KNOWN_LEN: usize = 64;

/// TS packet, or BBFRAME without its padding, as bytes.
///
/// It also has the origin of each IP packet that ends in it, which is not in its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    /// Number of its slot or frame on the carrier. Frames with GSE are counted as they are sent.
    pub number: u64,
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Modulation of a frame; `None` of a TS packet.
    pub adaptation: Option<Adaptation>,
    /// IP packets that end in it, in order.
    pub carried_packets: Vec<CarriedPacket>,
}

/// Identity, length in bytes and origin of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriedPacket {
    pub(super) digest: u64,
    pub(super) len: u32,
    pub(super) origin: Origin,
}

impl Unit {
    /// Returns a copy for another receiver, with copies of its packets.
    pub(super) fn copy(&self) -> Unit {
        let mut copy = self.clone();
        for (copy, carried) in copy.carried_packets.iter_mut().zip(&self.carried_packets) {
            copy.origin = carried.origin.copy();
        }
        copy
    }

    /// Returns the unit as a packet.
    pub(super) fn into_packet(self) -> Packet {
        Packet::carrying(0, Box::new(self))
    }

    /// Returns the bytes of a TS packet; `None` if it is a frame.
    pub fn ts(&self) -> Option<&[u8; PACKET_LEN]> {
        self.bytes.as_slice().try_into().ok()
    }
}

impl Carried for Unit {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }

    fn flip_bit(&mut self, bit: u64) {
        self.bytes[bit as usize / 8] ^= 0x80 >> (bit % 8);
    }

    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }

    fn boxed_copy(&self) -> Box<dyn Carried> {
        Box::new(self.copy())
    }

    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// Returns the identity of an IP packet. It is a hash (FNV-1a) of its first bytes and length.
pub(super) fn digest(bytes: &[u8], elided: usize) -> u64 {
    let len = bytes.len() + elided;
    let zeros = KNOWN_LEN.min(len).saturating_sub(bytes.len());
    let known = bytes.iter().take(KNOWN_LEN).copied().chain(std::iter::repeat_n(0, zeros));
    let start = 0xcbf2_9ce4_8422_2325 ^ len as u64;
    known.fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
