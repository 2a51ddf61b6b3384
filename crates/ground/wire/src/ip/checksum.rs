//! The Internet checksum: RFC 1071, updated in place by RFC 1624.
//!
//! Payload that a packet only counts (elided zeros) adds nothing to the sum, so it costs nothing here; its length
//! enters through the [`Pseudo`] header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ip::fields::Protocol;

/// A one's complement sum in progress.
///
/// Held in 64 bits with end-around carry: 2^64 - 1 is a multiple of 2^16 - 1, so folding at the end gives the same
/// 16-bit sum as adding 16-bit words one at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accumulator(u64);

impl Accumulator {
    /// The empty sum.
    pub const ZERO: Accumulator = Accumulator(0);

    /// Adds a number of up to 64 bits that ends at a 16-bit word.
    #[inline]
    #[must_use]
    pub const fn add(self, value: u64) -> Accumulator {
        let (sum, carry) = self.0.overflowing_add(value);
        Accumulator(sum + carry as u64)
    }

    /// Adds bytes, eight at a time. Only the last slice added may be of odd length.
    #[inline]
    #[must_use]
    pub fn add_bytes(self, bytes: &[u8]) -> Accumulator {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let sum = chunks.iter().fold(self, |sum, chunk| sum.add(u64::from_be_bytes(*chunk)));
        sum.add_tail(rest)
    }

    #[inline]
    fn add_tail(mut self, mut rest: &[u8]) -> Accumulator {
        if let Some((head, tail)) = rest.split_first_chunk::<4>() {
            self = self.add(u64::from(u32::from_be_bytes(*head)));
            rest = tail;
        }
        if let Some((head, tail)) = rest.split_first_chunk::<2>() {
            self = self.add(u64::from(u16::from_be_bytes(*head)));
            rest = tail;
        }
        if let [last] = rest { self.add(u64::from(*last) << 8) } else { self }
    }

    /// Returns the 16-bit one's complement sum.
    #[inline]
    pub const fn fold(self) -> u16 {
        let sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        let sum = (sum >> 16) + (sum & 0xffff);
        ((sum >> 16) + (sum & 0xffff)) as u16
    }

    /// Returns the checksum: the complement of the sum. It is written into a header whose field was zero.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Returns `true` if a sum that included the checksum field says that nothing changed.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

/// Returns the checksum of `bytes`, whose checksum field is zero.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Accumulator::ZERO.add_bytes(bytes).checksum()
}

/// Returns `checksum` after one covered 16-bit word changed from `old` to `new`. RFC 1624, equation 3.
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Accumulator(!checksum as u64).add(!old as u64).add(new as u64).checksum()
}

/// Contribution of the IP header to a transport checksum: addresses and protocol, summed once.
///
/// Both ends of a connection keep one and add the length of each segment, so a checksum costs the header's bytes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pseudo {
    sum: Accumulator,
    is_v6: bool,
}

impl Pseudo {
    /// Returns the IPv4 pseudo-header (RFC 9293, section 3.1).
    #[inline]
    pub fn v4(src: Ipv4Addr, dst: Ipv4Addr, protocol: Protocol) -> Pseudo {
        let sum =
            Accumulator::ZERO.add(src.to_bits().into()).add(dst.to_bits().into()).add(protocol.0.into());
        Pseudo { sum, is_v6: false }
    }

    /// Returns the IPv6 pseudo-header (RFC 8200, section 8.1). With a routing header, `dst` is the final
    /// destination.
    #[inline]
    pub fn v6(src: Ipv6Addr, dst: Ipv6Addr, protocol: Protocol) -> Pseudo {
        let sum = Accumulator::ZERO.add_bytes(&src.octets()).add_bytes(&dst.octets()).add(protocol.0.into());
        Pseudo { sum, is_v6: true }
    }

    /// Returns the pseudo-header of either version.
    ///
    /// # Panics
    /// If the addresses are of different versions.
    pub fn new(src: IpAddr, dst: IpAddr, protocol: Protocol) -> Pseudo {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Pseudo::v4(src, dst, protocol),
            (IpAddr::V6(src), IpAddr::V6(dst)) => Pseudo::v6(src, dst, protocol),
            _ => panic!("addresses of different IP versions: {src}, {dst}"),
        }
    }

    /// Returns `true` if this is IPv6's, where a UDP checksum is not optional.
    #[inline]
    pub const fn is_v6(&self) -> bool {
        self.is_v6
    }

    /// Returns the sum with the length in bytes of transport header and payload. Elided bytes are included.
    #[inline]
    pub const fn sum(&self, len_bytes: usize) -> Accumulator {
        self.sum.add(len_bytes as u64)
    }

    /// Returns the sum over the pseudo-header and a datagram of `bytes` and `elided` zero bytes.
    #[inline]
    pub fn datagram(&self, bytes: &[u8], elided: usize) -> Accumulator {
        self.sum(bytes.len() + elided).add_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Computes the sum by RFC 1071's text: 16 bits at a time.
    fn plain(bytes: &[u8]) -> u16 {
        let sum: u32 =
            bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0))).sum();
        let sum = (sum >> 16) + (sum & 0xffff);
        ((sum >> 16) + sum) as u16
    }

    #[test]
    fn rfc_1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Accumulator::ZERO.add_bytes(&bytes).fold(), 0xddf2);
    }

    #[test]
    fn rfc_1624_example() {
        // The corner case of section 4, where RFC 1141's equation gave 0xffff.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn eight_at_a_time_is_two_at_a_time(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Accumulator::ZERO.add_bytes(&bytes).fold(), plain(&bytes));
        }

        #[test]
        fn update_is_recompute(mut bytes in proptest::collection::vec(any::<u8>(), 20), new: u16) {
            bytes[10..12].fill(0);
            bytes[0] = 0x45;
            let before = checksum(&bytes);
            let old = u16::from_be_bytes([bytes[8], bytes[9]]);
            bytes[8..10].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update(before, old, new), checksum(&bytes));
        }

        #[test]
        fn elided_zeros_are_zeros(bytes in proptest::collection::vec(any::<u8>(), 0..64), elided in 0usize..2000) {
            let pseudo = Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::TCP);
            let mut whole = bytes.clone();
            whole.resize(bytes.len() + elided, 0);
            prop_assert_eq!(pseudo.datagram(&bytes, elided).fold(), pseudo.datagram(&whole, 0).fold());
        }
    }
}
