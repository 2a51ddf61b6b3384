//! Bundle between an application and the node of its host.

use bentpipe_net::{Carried, Packet};
use bentpipe_wire::dtn::bundle::Bundle;

/// Bundle as the content of a packet that never meets a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Carry(pub(crate) Bundle);

/// Returns the packet of a bundle between an application and its node.
pub fn wrap(bundle: Bundle) -> Packet {
    Packet::carrying(0, Box::new(Carry(bundle)))
}

/// Returns the bundle of a packet of [`wrap`].
pub fn unwrap(packet: Packet) -> Option<Bundle> {
    packet.into_carried::<Carry>().map(|carry| carry.0)
}

impl Carried for Carry {
    fn len(&self) -> usize {
        self.0.encoded_len() as usize
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        self.0.emit(out);
    }

    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }

    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref::<Carry>() == Some(self)
    }
}
