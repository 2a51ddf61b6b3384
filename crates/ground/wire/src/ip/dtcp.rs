//! Dynamic tunnel configuration protocol (DTCP, RFC 3077, section 7): HELLOs of a feed.
//!
//! A feed of a unidirectional link sends them on the link.
//! HELLOs are UDP datagrams to [`GROUP_V4`] and [`PORT`]. Receivers learn from them where the feed takes tunnelled packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{array, be16, put16};
use crate::{Error, Layer};

/// Group of all receivers of unidirectional links.
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 36);
/// UDP port of HELLOs.
pub const PORT: u16 = 652;

/// Length in bytes of a HELLO without addresses.
const HEADER_LEN: usize = 8;
/// Version of the protocol.
const VERSION: u8 = 1;
/// Maximum number of tunnel end points.
pub const MAX_TUNNELS: usize = 255;

/// Offsets of the fields.
mod field {
    pub(super) const VERSION_COMMAND: usize = 0;
    pub(super) const INTERVAL: usize = 1;
    pub(super) const SEQUENCE: usize = 2;
    pub(super) const FLAGS: usize = 4;
    pub(super) const TUNNEL_TYPE: usize = 5;
    pub(super) const TUNNELS: usize = 6;
    pub(super) const RESERVED: usize = 7;
}

/// Flag of a feed that also receives from the link.
const RECEIVES: u8 = 0x10;

/// Command of a HELLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The feed takes tunnelled packets.
    Join,
    /// The feed ends.
    Leave,
}

/// A HELLO as values. All addresses are of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repr {
    /// Command.
    pub command: Command,
    /// Interval of HELLOs in seconds; 0 with [`Command::Leave`].
    pub interval_s: u8,
    /// Sequence number.
    pub sequence: u16,
    /// Set if the feed also receives from the link.
    pub receives: bool,
    /// IP protocol of the tunnels: 47 for GRE.
    pub tunnel_type: u8,
    /// Address of the feed on the unidirectional link (FUIP).
    pub feed: IpAddr,
    /// End points of tunnels at the feed (FBIP), in the order of preference.
    pub tunnels: Vec<IpAddr>,
}

impl Repr {
    /// Reads a HELLO. Bytes after it are not looked at.
    ///
    /// # Errors
    /// Returns an error if it is truncated, or of another version, command or IP version.
    pub fn parse(bytes: &[u8]) -> Result<Repr, Error> {
        if bytes.len() < HEADER_LEN {
            return Err(Error::truncated(Layer::Dtcp, 0, HEADER_LEN, bytes.len()));
        }
        if bytes[field::VERSION_COMMAND] >> 4 != VERSION {
            return Err(Error::unsupported(Layer::Dtcp, field::VERSION_COMMAND, "version other than 1"));
        }
        let command = match bytes[field::VERSION_COMMAND] & 0xf {
            1 => Command::Join,
            2 => Command::Leave,
            _ => {
                return Err(Error::unsupported(
                    Layer::Dtcp,
                    field::VERSION_COMMAND,
                    "command other than 1 or 2",
                ));
            }
        };
        let is_v6 = match bytes[field::FLAGS] & 0xf {
            4 => false,
            6 => true,
            _ => return Err(Error::malformed(Layer::Dtcp, field::FLAGS, "IP version other than 4 or 6")),
        };
        let (count, address_len) = (usize::from(bytes[field::TUNNELS]), if is_v6 { 16 } else { 4 });
        let needed = HEADER_LEN + (1 + count) * address_len;
        if bytes.len() < needed {
            return Err(Error::truncated(Layer::Dtcp, field::TUNNELS, needed, bytes.len()));
        }
        let address = |n: usize| -> IpAddr {
            let at = HEADER_LEN + n * address_len;
            if is_v6 {
                Ipv6Addr::from(array::<16>(bytes, at)).into()
            } else {
                Ipv4Addr::from(array::<4>(bytes, at)).into()
            }
        };
        Ok(Repr {
            command,
            interval_s: bytes[field::INTERVAL],
            sequence: be16(bytes, field::SEQUENCE),
            receives: bytes[field::FLAGS] & RECEIVES != 0,
            tunnel_type: bytes[field::TUNNEL_TYPE],
            feed: address(0),
            tunnels: (1..=count).map(address).collect(),
        })
    }

    /// Returns the length in bytes.
    pub fn buffer_len(&self) -> usize {
        HEADER_LEN + (1 + self.tunnels.len()) * if self.feed.is_ipv6() { 16 } else { 4 }
    }

    /// Writes it; reserved bits are zero.
    ///
    /// # Panics
    /// If `buffer` is too short, there are over 255 tunnels, or an address is of another family than the feed's.
    pub fn emit(&self, buffer: &mut [u8]) {
        assert!(self.tunnels.len() <= MAX_TUNNELS, "{} tunnels", self.tunnels.len());
        let command = match self.command {
            Command::Join => 1,
            Command::Leave => 2,
        };
        buffer[field::VERSION_COMMAND] = VERSION << 4 | command;
        buffer[field::INTERVAL] = self.interval_s;
        put16(buffer, field::SEQUENCE, self.sequence);
        let version = if self.feed.is_ipv6() { 6 } else { 4 };
        buffer[field::FLAGS] = if self.receives { RECEIVES } else { 0 } | version;
        buffer[field::TUNNEL_TYPE] = self.tunnel_type;
        buffer[field::TUNNELS] = self.tunnels.len() as u8;
        buffer[field::RESERVED] = 0;
        let mut at = HEADER_LEN;
        for address in std::iter::once(&self.feed).chain(&self.tunnels) {
            assert_eq!(address.is_ipv6(), self.feed.is_ipv6(), "addresses of one family");
            at += match address {
                IpAddr::V4(address) => write(&mut buffer[at..], &address.octets()),
                IpAddr::V6(address) => write(&mut buffer[at..], &address.octets()),
            };
        }
    }
}

fn write(buffer: &mut [u8], octets: &[u8]) -> usize {
    buffer[..octets.len()].copy_from_slice(octets);
    octets.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hello_of_a_feed_with_one_tunnel() {
        let repr = Repr {
            command: Command::Join,
            interval_s: 5,
            sequence: 0x0102,
            receives: false,
            tunnel_type: 47,
            feed: IpAddr::from([10, 0, 0, 1]),
            tunnels: vec![IpAddr::from([198, 18, 0, 1])],
        };
        let mut bytes = vec![0xff; repr.buffer_len()];
        repr.emit(&mut bytes);
        assert_eq!(bytes, [0x11, 5, 1, 2, 4, 47, 1, 0, 10, 0, 0, 1, 198, 18, 0, 1]);
        assert_eq!(Repr::parse(&bytes), Ok(repr));
        assert!(Repr::parse(&bytes[..15]).is_err());
        for (at, value) in [(0, 0x21), (0, 0x13), (4, 5)] {
            let mut other = bytes.clone();
            other[at] = value;
            assert!(Repr::parse(&other).is_err(), "byte {at} is {value}");
        }
    }

    proptest! {
        #[test]
        fn hellos_come_back(
            is_join: bool,
            interval_s: u8,
            sequence: u16,
            receives: bool,
            tunnel_type: u8,
            is_v6: bool,
            addresses in prop::collection::vec(any::<u128>(), 1..9),
        ) {
            let address = |bits: &u128| -> IpAddr {
                if is_v6 { Ipv6Addr::from_bits(*bits).into() } else { Ipv4Addr::from_bits(*bits as u32).into() }
            };
            let command = if is_join { Command::Join } else { Command::Leave };
            let (feed, tunnels) = (address(&addresses[0]), addresses[1..].iter().map(address).collect());
            let repr = Repr { command, interval_s, sequence, receives, tunnel_type, feed, tunnels };
            let mut bytes = vec![0xff; repr.buffer_len()];
            repr.emit(&mut bytes);
            prop_assert_eq!(Repr::parse(&bytes), Ok(repr));
        }
    }
}
