//! ARP for IPv4 over Ethernet (RFC 826).
//!
//! Other hardware and other protocols are unsupported; what follows the message, Ethernet's padding, is not looked at.

use std::net::Ipv4Addr;

use crate::bytes::{array, be16, put16};
use crate::lan::ethernet::{EtherType, MacAddr};
use crate::{Error, Layer};

/// Length in bytes of a message.
pub const LEN: usize = 28;

/// Hardware type of Ethernet.
const ETHERNET: u16 = 1;

/// Offsets of the fields.
mod field {
    pub(super) const HARDWARE: usize = 0;
    pub(super) const PROTOCOL: usize = 2;
    pub(super) const LENGTHS: usize = 4;
    pub(super) const OPERATION: usize = 6;
    pub(super) const SENDER: usize = 8;
    pub(super) const TARGET: usize = 18;
}

/// Bytes in a MAC and in an IPv4 address.
const LENGTHS: [u8; 2] = [6, 4];

/// Operation of a message, by IANA's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation(pub u16);

impl Operation {
    /// Request for the target's address.
    pub const REQUEST: Operation = Operation(1);
    /// The sender has its.
    pub const REPLY: Operation = Operation(2);
}

/// A view of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<T: AsRef<[u8]>> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Packet<T> {
    /// Returns a view of a message at the start of `buffer`.
    ///
    /// # Errors
    /// Returns an error if it is truncated, or of other addresses than Ethernet's and IPv4's.
    pub fn new_checked(buffer: T) -> Result<Packet<T>, Error> {
        let bytes = buffer.as_ref();
        if bytes.len() < LEN {
            return Err(Error::truncated(Layer::Arp, 0, LEN, bytes.len()));
        }
        if be16(bytes, field::HARDWARE) != ETHERNET || be16(bytes, field::PROTOCOL) != EtherType::IPV4.0 {
            return Err(Error::unsupported(Layer::Arp, field::HARDWARE, "other than IPv4 over Ethernet"));
        }
        if array::<2>(bytes, field::LENGTHS) != LENGTHS {
            return Err(Error::malformed(Layer::Arp, field::LENGTHS, "lengths of addresses"));
        }
        Ok(Packet { buffer })
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.as_ref()
    }

    /// Returns the operation.
    pub fn operation(&self) -> Operation {
        Operation(be16(self.bytes(), field::OPERATION))
    }

    /// Returns the sender's addresses.
    pub fn sender(&self) -> (MacAddr, Ipv4Addr) {
        self.pair(field::SENDER)
    }

    /// Returns the target: the address asked for, or the recipient of the answer.
    pub fn target(&self) -> (MacAddr, Ipv4Addr) {
        self.pair(field::TARGET)
    }

    fn pair(&self, at: usize) -> (MacAddr, Ipv4Addr) {
        (MacAddr(array(self.bytes(), at)), Ipv4Addr::from(array::<4>(self.bytes(), at + 6)))
    }
}

/// A message as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Operation.
    pub operation: Operation,
    /// Sender's addresses.
    pub sender: (MacAddr, Ipv4Addr),
    /// Whom it asks for, the MAC address of no meaning; or whom it answers.
    pub target: (MacAddr, Ipv4Addr),
}

impl Repr {
    /// Reads a checked message.
    pub fn parse<T: AsRef<[u8]>>(packet: &Packet<T>) -> Repr {
        Repr { operation: packet.operation(), sender: packet.sender(), target: packet.target() }
    }

    /// Returns the length in bytes.
    pub const fn buffer_len(&self) -> usize {
        LEN
    }

    /// Writes it.
    ///
    /// # Panics
    /// If `buffer` is shorter than 28 bytes.
    pub fn emit(&self, buffer: &mut [u8]) {
        put16(buffer, field::HARDWARE, ETHERNET);
        put16(buffer, field::PROTOCOL, EtherType::IPV4.0);
        buffer[field::LENGTHS..field::OPERATION].copy_from_slice(&LENGTHS);
        put16(buffer, field::OPERATION, self.operation.0);
        for (at, (mac, address)) in [(field::SENDER, self.sender), (field::TARGET, self.target)] {
            buffer[at..at + 6].copy_from_slice(&mac.0);
            buffer[at + 6..at + 10].copy_from_slice(&address.octets());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    #[test]
    fn a_question_and_what_is_none() {
        let repr = Repr {
            operation: Operation::REQUEST,
            sender: (MacAddr([2, 0, 0, 0, 0, 9]), [10, 0, 0, 1].into()),
            target: (MacAddr::default(), [10, 0, 0, 2].into()),
        };
        let mut bytes = [0xff; LEN];
        repr.emit(&mut bytes);
        let expected = [0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2];
        assert_eq!(bytes, expected);
        let kind = |bytes: &[u8]| Packet::new_checked(bytes).unwrap_err().kind;
        assert_eq!(kind(&bytes[..27]), Kind::Truncated { needed: 28, have: 27 });
        bytes[5] = 16;
        assert_eq!(kind(&bytes), Kind::Malformed("lengths of addresses"));
        bytes[1] = 6;
        assert!(matches!(kind(&bytes), Kind::Unsupported(_)));
    }

    proptest! {
        #[test]
        fn round_trip(operation: u16, macs: [[u8; 6]; 2], addresses: [[u8; 4]; 2], padding in 0usize..20) {
            let pair = |at: usize| (MacAddr(macs[at]), Ipv4Addr::from(addresses[at]));
            let repr = Repr { operation: Operation(operation), sender: pair(0), target: pair(1) };
            let mut bytes = vec![0xff; repr.buffer_len() + padding];
            repr.emit(&mut bytes);
            prop_assert_eq!(Repr::parse(&Packet::new_checked(&bytes[..]).unwrap()), repr);
        }
    }
}
