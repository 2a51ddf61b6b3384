//! Sides of hosts, seen from a proxy.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

/// Hosts at the other end of the satellite.
#[derive(Clone, Debug, PartialEq)]
pub enum Behind {
    /// Addresses; all others are on the ground.
    Hosts(HashSet<IpAddr>),
    /// Routes, of which the longest prefix decides.
    Routes(Prefixes),
}

/// Side to which a prefix leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads {
    /// Satellite.
    Satellite,
    /// Terrestrial network.
    Ground,
    /// Neither side, as of an unreachable prefix: its connections are not split.
    Elsewhere,
}

/// Prefixes and the sides to which they lead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prefixes {
    /// Prefixes by their length as that of IPv6, IPv4 mapped.
    by_len: BTreeMap<u8, HashMap<u128, Leads>>,
}

/// Bits of an address as IPv6, IPv4-mapped. The number is of bits in front of an IPv4 prefix.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), 96),
        IpAddr::V6(v6) => (v6.to_bits(), 0),
    }
}

fn mask(len: u8) -> u128 {
    u128::MAX.checked_shl(u32::from(128 - len.min(128))).unwrap_or(0)
}

impl Prefixes {
    /// Adds a prefix of `len` bits. One that is there already stays.
    pub fn add(&mut self, address: IpAddr, len: u8, leads: Leads) {
        let (bits, front) = bits(address);
        let len = len.saturating_add(front).min(128);
        self.by_len.entry(len).or_default().entry(bits & mask(len)).or_insert(leads);
    }

    fn find(&self, address: IpAddr) -> Leads {
        let (bits, _) = bits(address);
        let found = self.by_len.iter().rev().find_map(|(len, prefixes)| prefixes.get(&(bits & mask(*len))));
        found.copied().unwrap_or(Leads::Elsewhere)
    }
}

impl Behind {
    fn leads(&self, address: IpAddr) -> Leads {
        match self {
            Behind::Hosts(hosts) if hosts.contains(&address) => Leads::Satellite,
            Behind::Hosts(_) => Leads::Ground,
            Behind::Routes(prefixes) => prefixes.find(address),
        }
    }

    /// Returns `Some` if a connection crosses the satellite. It is `true` if it leads from there to the ground.
    pub(super) fn crossing(&self, client: IpAddr, server: IpAddr) -> Option<bool> {
        match (self.leads(client), self.leads(server)) {
            (Leads::Satellite, Leads::Ground) => Some(true),
            (Leads::Ground, Leads::Satellite) => Some(false),
            _ => None,
        }
    }
}

impl From<Prefixes> for Behind {
    fn from(prefixes: Prefixes) -> Behind {
        Behind::Routes(prefixes)
    }
}

impl<const N: usize> From<[IpAddr; N]> for Behind {
    fn from(hosts: [IpAddr; N]) -> Behind {
        hosts.into_iter().collect()
    }
}

impl FromIterator<IpAddr> for Behind {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(hosts: I) -> Behind {
        Behind::Hosts(hosts.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_decides() {
        let mut routes = Prefixes::default();
        let entries = [
            ("0.0.0.0", 0, Leads::Satellite),
            ("10.1.0.0", 16, Leads::Ground),
            ("10.1.2.0", 24, Leads::Satellite),
            ("10.1.2.0", 24, Leads::Ground),
            ("::", 0, Leads::Ground),
            ("fd02::", 64, Leads::Satellite),
            ("10.1.2.9", 32, Leads::Elsewhere),
        ];
        for (address, len, leads) in entries {
            routes.add(address.parse().expect("an address"), len, leads);
        }
        let behind = Behind::from(routes);
        let leads = |text: &str| behind.leads(text.parse().expect("an address"));
        for satellite in ["192.0.2.1", "10.1.2.3", "fd02::5"] {
            assert_eq!(leads(satellite), Leads::Satellite);
        }
        assert_eq!([leads("10.1.3.3"), leads("fd03::5")], [Leads::Ground; 2]);
        assert_eq!(leads("10.1.2.9"), Leads::Elsewhere);
        let none = Behind::from(Prefixes::default());
        assert_eq!(none.leads("10.0.0.1".parse().expect("an address")), Leads::Elsewhere);
    }
}
