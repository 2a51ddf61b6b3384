//! Neighbour solicitations and advertisements of IPv6 (RFC 4861, sections 4.3 and 4.4) on Ethernet.
//!
//! Of the options only the sender's or the target's link-layer address is read. Router discovery and redirects are not.
//! That the hop limit is 255, which shows that the sender is on the link, is the caller's to check.

use std::net::Ipv6Addr;

use super::{HEADER_LEN, Message};
use crate::bytes::array;
use crate::lan::ethernet::MacAddr;
use crate::{Error, Layer};

/// Hop limit of these messages; others are not accepted (RFC 4861, section 7.1).
pub const HOP_LIMIT: u8 = 255;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

/// Header and target.
const FIXED_LEN: usize = HEADER_LEN + 16;

/// Unit of option lengths, in bytes.
const UNIT: usize = 8;

/// A message as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repr {
    /// Solicitation for an address.
    Solicitation {
        /// The address asked for.
        target: Ipv6Addr,
        /// The sender's address on the link.
        source: Option<MacAddr>,
    },
    /// Advertisement of an address.
    Advertisement {
        /// Set if the sender is a router.
        router: bool,
        /// Set if it answers a solicitation.
        solicited: bool,
        /// Set if it overrides a known address.
        overrides: bool,
        /// Address that the message is about.
        target: Ipv6Addr,
        /// Link-layer address of the target.
        link: Option<MacAddr>,
    },
}

impl Repr {
    /// Parses a message and applies the stateless checks of RFC 4861, section 7.1. The checksum is not
    /// verified.
    ///
    /// # Errors
    /// Returns an error if it is of another type (`Unsupported`) or truncated; if its code is not zero, its
    /// target is a group, or an option has no length or exceeds the message.
    pub fn parse<T: AsRef<[u8]>>(message: &Message<T>) -> Result<Repr, Error> {
        let option = match message.kind() {
            SOLICITATION => SOURCE_ADDRESS,
            ADVERTISEMENT => TARGET_ADDRESS,
            _ => return Err(Error::unsupported(Layer::Icmp, 0, "no neighbour discovery")),
        };
        let body = message.payload();
        if body.len() < FIXED_LEN - HEADER_LEN {
            return Err(Error::truncated(Layer::Icmp, HEADER_LEN, FIXED_LEN, HEADER_LEN + body.len()));
        }
        if message.code() != 0 {
            return Err(Error::malformed(Layer::Icmp, 1, "code of neighbour discovery"));
        }
        let target = Ipv6Addr::from(array::<16>(body, 0));
        if target.is_multicast() {
            return Err(Error::malformed(Layer::Icmp, HEADER_LEN, "neighbour discovery for a group"));
        }
        let link = link_address(&body[FIXED_LEN - HEADER_LEN..], option)?;
        Ok(match message.kind() {
            SOLICITATION => Repr::Solicitation { target, source: link },
            _ => {
                let has = |flag| message.rest_of_header()[0] & flag != 0;
                let (router, solicited, overrides) = (has(ROUTER), has(SOLICITED), has(OVERRIDE));
                Repr::Advertisement { router, solicited, overrides, target, link }
            }
        })
    }

    /// Returns the option with an address on the link, if any.
    const fn link(&self) -> Option<(u8, MacAddr)> {
        match *self {
            Repr::Solicitation { source: Some(mac), .. } => Some((SOURCE_ADDRESS, mac)),
            Repr::Advertisement { link: Some(mac), .. } => Some((TARGET_ADDRESS, mac)),
            _ => None,
        }
    }

    /// Returns the message's length in bytes.
    pub const fn buffer_len(&self) -> usize {
        match self.link() {
            Some(_) => FIXED_LEN + UNIT,
            None => FIXED_LEN,
        }
    }

    /// Writes the message, its checksum zero: see [`Message::fill_checksum`], with the pseudo-header.
    ///
    /// # Panics
    /// If `buffer` is shorter than [`Repr::buffer_len`].
    pub fn emit(&self, buffer: &mut [u8]) {
        let (kind, flags, target) = match *self {
            Repr::Solicitation { target, .. } => (SOLICITATION, 0, target),
            Repr::Advertisement { router, solicited, overrides, target, .. } => {
                let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
                let flags = flag(router, ROUTER) | flag(solicited, SOLICITED) | flag(overrides, OVERRIDE);
                (ADVERTISEMENT, flags, target)
            }
        };
        super::emit(buffer, kind, 0, [flags, 0, 0, 0]);
        buffer[HEADER_LEN..FIXED_LEN].copy_from_slice(&target.octets());
        if let Some((option, mac)) = self.link() {
            buffer[FIXED_LEN..FIXED_LEN + 2].copy_from_slice(&[option, 1]);
            buffer[FIXED_LEN + 2..FIXED_LEN + UNIT].copy_from_slice(&mac.0);
        }
    }
}

/// Returns the address in the first option of this type. RFC 4861, section 4.6.1; RFC 2464, section 6.
fn link_address(mut options: &[u8], wanted: u8) -> Result<Option<MacAddr>, Error> {
    let mut found = None;
    while let Some((&[kind, units], _)) = options.split_first_chunk::<2>() {
        let len = UNIT * usize::from(units);
        if len == 0 || len > options.len() {
            return Err(Error::malformed(Layer::Icmp, FIXED_LEN, "length of an option"));
        }
        if (kind, len) == (wanted, UNIT) {
            found = found.or(Some(MacAddr(array(options, 2))));
        }
        options = &options[len..];
    }
    match options {
        [] => Ok(found),
        _ => Err(Error::malformed(Layer::Icmp, FIXED_LEN, "length of an option")),
    }
}

/// Returns the group that an address's solicitations go to (RFC 4291, section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use proptest::prelude::*;

    fn bytes(repr: &Repr) -> Vec<u8> {
        let mut bytes = vec![0xff; repr.buffer_len()];
        repr.emit(&mut bytes);
        bytes
    }

    fn parsed(bytes: &[u8]) -> Result<Repr, Error> {
        Repr::parse(&Message::new_checked(bytes).unwrap())
    }

    fn solicitation() -> Vec<u8> {
        let target = "fd00::2".parse().unwrap();
        bytes(&Repr::Solicitation { target, source: Some(MacAddr([2, 0, 0, 0, 0, 9])) })
    }

    #[test]
    fn a_solicitation_by_hand() {
        let expected = [
            135, 0, 0, 0, 0, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 2, 0, 0, 0, 0,
            9,
        ];
        assert_eq!(solicitation(), expected);
        assert_eq!(solicited_node("fd00::12:3456".parse().unwrap()).to_string(), "ff02::1:ff12:3456");
    }

    #[test]
    fn what_is_to_be_discarded_is_named() {
        let changed = |at: usize, value: u8| {
            let mut bytes = solicitation();
            bytes[at] = value;
            parsed(&bytes).unwrap_err().kind
        };
        assert_eq!(changed(1, 1), Kind::Malformed("code of neighbour discovery"));
        assert_eq!(changed(8, 0xff), Kind::Malformed("neighbour discovery for a group"));
        assert_eq!(changed(25, 0), Kind::Malformed("length of an option"));
        assert_eq!(changed(25, 2), Kind::Malformed("length of an option"));
        assert!(matches!(changed(0, 133), Kind::Unsupported(_)));
        assert_eq!(parsed(&solicitation()[..23]).unwrap_err().kind, Kind::Truncated { needed: 24, have: 23 });
        assert!(parsed(&solicitation()[..31]).is_err() && parsed(&solicitation()[..25]).is_err());
    }

    #[test]
    fn other_options_are_passed_over() {
        let mut bytes = solicitation();
        let address = bytes.split_off(24);
        bytes.extend([14, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(&address);
        assert_eq!(parsed(&bytes), parsed(&solicitation()));
    }

    proptest! {
        #[test]
        fn round_trip(
            target: u128, mac in proptest::option::of(any::<[u8; 6]>()), is_answer: bool,
            router: bool, solicited: bool, overrides: bool,
        ) {
            let (target, link) = (Ipv6Addr::from(target), mac.map(MacAddr));
            let repr = match is_answer {
                false => Repr::Solicitation { target, source: link },
                true => Repr::Advertisement { router, solicited, overrides, target, link },
            };
            let expected = if target.is_multicast() { None } else { Some(repr) };
            prop_assert_eq!(parsed(&bytes(&repr)).ok(), expected);
        }
    }
}
