//! Content of an aggregate, with the origins of its packets.

use bentpipe_net::{Carried, Origin, Packet};
use bentpipe_units::Time;

/// Subframes of an aggregate, with the origins of their packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subframes {
    pub(super) bytes: Vec<u8>,
    pub(super) origins: Vec<Origin>,
    /// Number of the frame. A line reports frames that are missing, by their check sequence.
    pub(super) number: u64,
}

impl Carried for Subframes {
    fn len(&self) -> usize {
        self.bytes.len()
    }
    fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.bytes);
    }
    fn flip_bit(&mut self, bit: u64) {
        if let Some(byte) = self.bytes.get_mut((bit / 8) as usize) {
            *byte ^= 0x80 >> (bit % 8);
        }
    }
    fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }
    fn boxed_clone(&self) -> Box<dyn Carried> {
        Box::new(self.clone())
    }
    fn boxed_copy(&self) -> Box<dyn Carried> {
        let origins = self.origins.iter().map(Origin::copy).collect();
        Box::new(Subframes { bytes: self.bytes.clone(), origins, number: self.number })
    }
    fn times(&self) -> Vec<Time> {
        let own = self.origins.iter().filter(|origin| origin.is_accounted());
        own.map(|origin| origin.created_at).collect()
    }
    fn same(&self, other: &dyn Carried) -> bool {
        other.downcast_ref() == Some(self)
    }
}

/// Origins of the packets in an aggregate, in order.
pub(super) struct Origins {
    rest: std::vec::IntoIter<Origin>,
    /// Set if each subframe has one. Otherwise subframes of feedback have none.
    is_exact: bool,
    /// Origin of the present subframe.
    present: Option<Origin>,
    /// Time of packets whose own is not known.
    default: Time,
}

impl Origins {
    /// Removes the origins of what a packet carries.
    pub(super) fn of(packet: &mut Packet) -> Origins {
        let subframes = packet.carried_mut::<Subframes>();
        let own = subframes.map(|subframes| std::mem::take(&mut subframes.origins));
        let (is_exact, default) = (own.is_some(), packet.created_at());
        let rest = own.unwrap_or_else(|| packet.take_origin().split()).into_iter();
        Origins { rest, is_exact, present: None, default }
    }

    /// Begins a subframe.
    pub(super) fn begin(&mut self) {
        if self.is_exact {
            self.present = self.rest.next();
        }
    }

    /// Returns the origin of the packet in the present subframe.
    pub(super) fn take(&mut self) -> Origin {
        let rest = if self.is_exact { None } else { self.rest.next() };
        self.present.take().or(rest).unwrap_or_else(|| Origin::at(self.default))
    }
}
