//! Frame on the channel, with the packets that end in it.

use bentpipe_net::{Carried, Origin, Packet};

use crate::config::Config;

/// Transfer frame before coding, as bytes.
///
/// It has the settings that it was sent with, which the receiver's decoder goes by, and of each packet that ends in it what its bytes have not.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Frame, of Proximity-1 with its CRC.
    pub bytes: Vec<u8>,
    pub(crate) config: Config,
    /// Number of the data field's first byte in the stream of data fields.
    pub(crate) offset: u64,
    pub(crate) carried: Vec<CarriedPacket>,
}

/// Packet that ends in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CarriedPacket {
    /// Number of its first byte in the stream.
    pub(crate) start: u64,
    pub(crate) origin: Origin,
    /// Headers that are not sent.
    pub(crate) headers: Vec<u8>,
}

impl Unit {
    pub(crate) fn into_packet(self) -> Packet {
        Packet::carrying(0, Box::new(self))
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
        let mut copy = self.clone();
        for (copy, carried) in copy.carried.iter_mut().zip(&self.carried) {
            copy.origin = carried.origin.copy();
        }
        Box::new(copy)
    }

    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}
