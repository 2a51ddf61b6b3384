//! Longest prefix match, with a cache of recent destinations.

use std::net::IpAddr;
use std::sync::Arc;

use super::Prefix;
use crate::Port;
use crate::hash::{Map, Set};

/// Next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Via {
    /// Endpoints of this node.
    Local,
    /// Out of an interface.
    Interface(Port),
    /// Into the tunnel of that number.
    Tunnel(u16),
    /// Multicast group of this number.
    Group(u16),
    /// Multicast group without branches and members.
    NoGroup,
    /// Nowhere.
    Nowhere,
}

impl Via {
    /// First in order.
    pub(super) const FIRST: Via = Via::Local;
    /// Last in order.
    pub(super) const LAST: Via = Via::Nowhere;
}

/// Address of either version as a number. IPv4 addresses are mapped as in RFC 4291, section 2.5.5.2.
pub(super) type Key = u128;

/// The key of an address.
#[inline]
pub(super) fn key(address: IpAddr) -> Key {
    match address {
        IpAddr::V4(address) => 0xffff_0000_0000 | Key::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// Returns `true` if the key is that of an IPv4 address.
#[inline]
pub(super) fn is_v4(key: Key) -> bool {
    key >> 32 == 0xffff
}

/// Addresses that many nodes have a route to.
#[derive(Clone, Debug, Default)]
pub struct Destinations(Set<Key>);

impl FromIterator<IpAddr> for Destinations {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Destinations {
        Destinations(addresses.into_iter().map(key).collect())
    }
}

const CACHE_BITS: u32 = 6;

/// Length of a whole address as a key.
const HOST: u8 = 128;

/// Routes by prefix.
#[derive(Debug)]
pub(super) struct Routes {
    /// Next hops by prefix length and masked key.
    table: Map<(u8, Key), Via>,
    /// Next hops of addresses that the table lacks.
    shared: Vec<(Arc<Destinations>, Via)>,
    /// The lengths of prefixes there are, longest first.
    lengths: Vec<u8>,
    /// Recent destinations, each in the one place its hash gives.
    cache: Box<[(Key, Via); 1 << CACHE_BITS]>,
}

/// Key that no packet has. A mapped address is never on the wire in an IPv6 header, and this one is not
/// IPv4's.
const EMPTY: (Key, Via) = (Key::MAX, Via::Nowhere);

impl Routes {
    pub(super) fn new() -> Routes {
        let cache = Box::new([EMPTY; 1 << CACHE_BITS]);
        Routes { table: Map::default(), shared: Vec::new(), lengths: Vec::new(), cache }
    }

    /// Sets the route of each of these addresses that has none of its own.
    pub(super) fn share(&mut self, destinations: Arc<Destinations>, via: Via) {
        self.shared.push((destinations, via));
        self.cache.fill(EMPTY);
    }

    /// Sets the route of `prefix` to `via`, replacing a previous one.
    pub(super) fn insert(&mut self, prefix: Prefix, via: Via) {
        let (length, masked) = place(prefix);
        self.table.insert((length, masked), via);
        if let Err(at) = self.lengths.binary_search_by(|have| length.cmp(have)) {
            self.lengths.insert(at, length);
        }
        self.cache.fill(EMPTY);
    }

    /// Removes the route of exactly this prefix.
    pub(super) fn remove(&mut self, prefix: Prefix) {
        self.table.remove(&place(prefix));
        self.cache.fill(EMPTY);
    }

    /// Returns the next hop of exactly this prefix.
    pub(super) fn exact(&self, prefix: Prefix) -> Option<Via> {
        self.table.get(&place(prefix)).copied()
    }

    /// Returns the next hop of `destination`.
    #[inline(always)]
    pub(super) fn find(&mut self, destination: Key) -> Via {
        let slot = &mut self.cache[slot(destination)];
        if slot.0 == destination {
            return slot.1;
        }
        let via = longest(&self.table, &self.shared, &self.lengths, destination);
        *slot = (destination, via);
        via
    }
}

#[inline]
fn slot(key: Key) -> usize {
    let folded = key as u64 ^ (key >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE_BITS)) as usize
}

fn longest(
    table: &Map<(u8, Key), Via>,
    shared: &[(Arc<Destinations>, Via)],
    lengths: &[u8],
    destination: Key,
) -> Via {
    if !shared.is_empty() && !table.contains_key(&(HOST, destination)) {
        let mut of_all = shared.iter().filter(|(of, _)| of.0.contains(&destination));
        if let Some((_, via)) = of_all.next() {
            return *via;
        }
    }
    // IPv6 prefixes shorter than the mapped range would cover it.
    let floor = if is_v4(destination) { 96 } else { 0 };
    let lengths = lengths.iter().filter(|&&length| length >= floor);
    let mut found = lengths.filter_map(|&length| table.get(&(length, mask(destination, length))));
    found.next().copied().unwrap_or(Via::Nowhere)
}

/// Returns the key of a prefix in the table.
fn place(prefix: Prefix) -> (u8, Key) {
    let longer = if prefix.address.is_ipv4() { 96 } else { 0 };
    let length = prefix.len + longer;
    (length, mask(key(prefix.address), length))
}

fn mask(key: Key, length: u8) -> Key {
    if length == 0 { 0 } else { key & Key::MAX << (128 - u32::from(length)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(routes: &mut Routes, address: &str) -> Via {
        routes.find(key(address.parse().expect("an address")))
    }

    #[test]
    fn the_longest_prefix_wins_and_versions_are_apart() {
        let mut routes = Routes::new();
        let out = |port| Via::Interface(Port(port));
        for (prefix, port) in [
            ("0.0.0.0/0", 0),
            ("10.0.0.0/8", 1),
            ("10.1.0.0/16", 2),
            ("10.1.2.3/32", 3),
            ("2001:db8::/32", 4),
        ] {
            routes.insert(prefix.parse().expect("a prefix"), out(port));
        }
        for _ in 0..2 {
            assert_eq!(find(&mut routes, "192.0.2.1"), out(0));
            assert_eq!(find(&mut routes, "10.9.9.9"), out(1));
            assert_eq!(find(&mut routes, "10.1.9.9"), out(2));
            assert_eq!(find(&mut routes, "10.1.2.3"), out(3));
            assert_eq!(find(&mut routes, "2001:db8::1"), out(4));
            assert_eq!(find(&mut routes, "2001:db9::1"), Via::Nowhere);
        }
        let mut only_v6 = Routes::new();
        only_v6.insert("::/0".parse().expect("a prefix"), out(5));
        assert_eq!(find(&mut only_v6, "10.0.0.1"), Via::Nowhere);
        assert_eq!(find(&mut only_v6, "fe80::1"), out(5));
    }

    #[test]
    fn a_shared_route_counts_where_the_address_has_none_of_its_own() {
        let mut routes = Routes::new();
        let out = |port| Via::Interface(Port(port));
        routes.insert("10.0.0.1/32".parse().expect("a prefix"), Via::Local);
        routes.insert("10.0.0.0/24".parse().expect("a prefix"), out(1));
        assert_eq!(find(&mut routes, "10.0.0.2"), out(1));
        let known = ["10.0.0.1", "10.0.0.2", "fd00::2"].map(|text| text.parse().expect("an address"));
        routes.share(Arc::new(known.into_iter().collect()), out(2));
        assert_eq!(find(&mut routes, "10.0.0.1"), Via::Local);
        assert_eq!(find(&mut routes, "10.0.0.2"), out(2), "an address is longer than a prefix");
        assert_eq!(find(&mut routes, "10.0.0.3"), out(1), "no other address is meant");
        assert_eq!(find(&mut routes, "fd00::2"), out(2));
        assert_eq!(find(&mut routes, "fd00::3"), Via::Nowhere);
    }

    #[test]
    fn a_new_route_is_seen_at_once() {
        let mut routes = Routes::new();
        assert_eq!(find(&mut routes, "10.0.0.1"), Via::Nowhere);
        routes.insert("10.0.0.0/24".parse().expect("a prefix"), Via::Local);
        assert_eq!(find(&mut routes, "10.0.0.1"), Via::Local);
    }
}
