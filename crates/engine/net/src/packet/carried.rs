//! Content of a packet that only its own technology can read.

use std::any::Any;
use std::fmt::Debug;

use bentpipe_units::Time;

/// Content in the form of one technology: a train of ATM cells, a TS packet.
///
/// Packets and generic elements use it through this contract alone. The technology's own elements get it back with
/// [`Packet::carried`](crate::Packet::carried) and [`Packet::into_carried`](crate::Packet::into_carried).
pub trait Carried: Debug + Send + Any {
    /// Returns the length on the wire in bytes, which stays constant unless [`Carried::truncate`] changes it.
    fn len(&self) -> usize;

    /// Returns `true` if it has no bytes on the wire.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the bytes on the wire to `out`, or nothing if they are never made.
    fn write_to(&self, out: &mut Vec<u8>);

    /// Flips the bit at offset `bit`, most significant bit first. Default: no effect.
    fn flip_bit(&mut self, _bit: u64) {}

    /// Cuts the content to its first `len` bytes. Default: no effect.
    fn truncate(&mut self, _len: usize) {}

    /// Returns a boxed copy, whose packets are in no account.
    fn boxed_clone(&self) -> Box<dyn Carried>;

    /// Returns a boxed copy whose packets are counted as copies. Default: it carries none.
    fn boxed_copy(&self) -> Box<dyn Carried> {
        self.boxed_clone()
    }

    /// Returns the times at which the packets in it were created, of those in accounts. Default: it carries none.
    fn times(&self) -> Vec<Time> {
        Vec::new()
    }

    /// Returns `true` if `other` is of the same type and equal.
    fn same(&self, other: &dyn Carried) -> bool;
}

impl dyn Carried {
    /// Returns the content as its own type; `None` if it is of another.
    #[inline]
    pub fn downcast_ref<T: Carried>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Returns the content as its own type, to change; `None` if it is of another.
    #[inline]
    pub fn downcast_mut<T: Carried>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// Consumes the content and returns it as its own type, or `None`.
    #[inline]
    pub fn downcast<T: Carried>(self: Box<Self>) -> Option<Box<T>> {
        (self as Box<dyn Any>).downcast().ok()
    }
}

impl Clone for Box<dyn Carried> {
    fn clone(&self) -> Box<dyn Carried> {
        (**self).boxed_clone()
    }
}

impl PartialEq for dyn Carried {
    fn eq(&self, other: &dyn Carried) -> bool {
        self.same(other)
    }
}

impl Eq for dyn Carried {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Body, Packet};

    /// Content of numbered bytes.
    #[derive(Clone, Debug, PartialEq)]
    struct Numbers(Vec<u8>);

    impl Carried for Numbers {
        fn len(&self) -> usize {
            self.0.len()
        }
        fn write_to(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.0);
        }
        fn flip_bit(&mut self, bit: u64) {
            self.0[bit as usize / 8] ^= 0x80 >> (bit % 8);
        }
        fn truncate(&mut self, len: usize) {
            self.0.truncate(len);
        }
        fn boxed_clone(&self) -> Box<dyn Carried> {
            Box::new(self.clone())
        }
        fn same(&self, other: &dyn Carried) -> bool {
            other.downcast_ref() == Some(self)
        }
    }

    /// Content without bytes.
    #[derive(Debug)]
    struct Opaque;

    impl Carried for Opaque {
        fn len(&self) -> usize {
            9
        }
        fn write_to(&self, _out: &mut Vec<u8>) {}
        fn boxed_clone(&self) -> Box<dyn Carried> {
            Box::new(Opaque)
        }
        fn same(&self, other: &dyn Carried) -> bool {
            other.downcast_ref::<Opaque>().is_some()
        }
    }

    fn numbers() -> Packet {
        Packet::carrying(2, Box::new(Numbers(vec![1, 2, 3, 4])))
    }

    #[test]
    fn carried_bytes_follow_the_header() {
        let mut packet = numbers();
        assert_eq!((packet.len(), packet.elided(), packet.to_vec()), (6, 0, vec![0, 0, 1, 2, 3, 4]));
        packet.flip_bit(2 * 8 + 15);
        packet.flip_bit(6 * 8);
        assert_eq!(packet.to_vec(), [0, 0, 1, 3, 3, 4]);
        packet.truncate(4);
        assert_eq!((packet.len(), packet.to_vec()), (4, vec![0, 0, 1, 3]));
    }

    #[test]
    fn only_its_own_type_gets_it_back() {
        let packet = numbers();
        assert_eq!(packet.carried::<Numbers>(), Some(&Numbers(vec![1, 2, 3, 4])));
        assert!(packet.carried::<Opaque>().is_none());
        assert!(packet.clone().into_carried::<Opaque>().is_none());
        assert_eq!(packet.into_carried(), Some(Box::new(Numbers(vec![1, 2, 3, 4]))));
        assert!(Packet::new(20, 5).carried::<Numbers>().is_none());
    }

    #[test]
    fn copies_are_equal_and_independent() {
        let (packet, mut copy) = (numbers(), numbers().clone());
        assert_eq!(packet, copy);
        copy.flip_bit(47);
        assert_ne!(packet, copy);
        assert_ne!(packet, Packet::carrying(2, Box::new(Opaque)));
        assert_ne!(packet, Packet::new(2, 0).with_body(Body::Bytes(vec![1, 2, 3, 4])));
    }

    #[test]
    fn without_bytes_only_the_length_counts() {
        let mut packet = Packet::carrying(8, Box::new(Opaque));
        packet.flip_bit(8 * 8 + 3);
        packet.truncate(10);
        assert_eq!((packet.len(), packet.to_vec()), (17, vec![0; 8]));
        assert_eq!(packet, packet.clone());
    }
}
