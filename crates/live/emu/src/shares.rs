//! Shares of places that peers have in common, such as connections.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that a site has, with all addresses behind them.
const SITE: u32 = 64;

/// Returns the place that gives way to a newcomer, when none is free.
///
/// It is the least of the source that has the most, if that has two more than the newcomer's source. So no source ever has all, and none
/// is driven out by one with as much.
pub fn gives_way<K: Ord>(held: impl IntoIterator<Item = (IpAddr, K)>, newcomer: IpAddr) -> Option<K> {
    let mut by_source: BTreeMap<IpAddr, (usize, Reverse<K>)> = BTreeMap::new();
    for (host, place) in held {
        match by_source.entry(source(host)) {
            Entry::Vacant(entry) => {
                entry.insert((1, Reverse(place)));
            }
            Entry::Occupied(mut entry) => {
                let (count, least) = entry.get_mut();
                *count += 1;
                if place < least.0 {
                    least.0 = place;
                }
            }
        }
    }
    let own = by_source.get(&source(newcomer)).map_or(0, |(count, _)| *count);
    let (most, Reverse(least)) = by_source.into_values().max()?;
    (most > own + 1).then_some(least)
}

/// Returns the address, or the network of a site with IPv6.
pub fn source(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> (128 - SITE) << (128 - SITE)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn the_oldest_of_the_source_with_the_most_gives_way() {
        let held = |hosts: &[&str]| -> Vec<(IpAddr, usize)> {
            hosts.iter().enumerate().map(|(n, at)| (host(at), n)).collect()
        };
        let greedy = held(&["10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.1"]);
        assert_eq!(gives_way(greedy.clone(), host("10.0.0.3")), Some(1));
        assert_eq!(gives_way(greedy.clone(), host("10.0.0.2")), Some(1));
        assert_eq!(gives_way(greedy, host("10.0.0.1")), None, "its own is refused");
        let even = held(&["10.0.0.2", "10.0.0.1", "10.0.0.1"]);
        assert_eq!(gives_way(even, host("10.0.0.2")), None, "it would have more then");
        let site = held(&["2001:db8::1", "2001:db8::2", "::ffff:10.0.0.1"]);
        assert_eq!(gives_way(site.clone(), host("2001:db8::3")), None);
        assert_eq!(gives_way(site, host("2001:db8:0:1::3")), Some(0));
        assert_eq!(gives_way(held(&[]), host("10.0.0.1")), None);
    }
}
