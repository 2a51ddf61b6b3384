//! Routes: the longest prefix of a destination, and its remote sites.

use std::collections::HashMap;
use std::net::IpAddr;

/// Prefix of addresses, such as `10.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

/// Error returned when a text is not a prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoPrefix(String);

impl Prefix {
    /// Creates the prefix of the first `len` bits of `address`, if the others are zero.
    pub fn new(address: IpAddr, len: u8) -> Option<Prefix> {
        let (bits, width) = bits(address);
        let prefix = Prefix { address, len };
        (len <= width && bits & !mask(len, width) == 0).then_some(prefix)
    }

    /// Returns the first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of fixed bits.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Returns `true` if it has every address of its family.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns `true` if it has this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((start, width), (other, other_width)) = (bits(self.address), bits(address));
        width == other_width && other & mask(self.len, width) == start
    }

    /// Returns `true` if its addresses are multicast groups.
    pub fn is_multicast(&self) -> bool {
        self.address.is_multicast()
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl std::str::FromStr for Prefix {
    type Err = NoPrefix;

    fn from_str(text: &str) -> Result<Prefix, NoPrefix> {
        let expected = || NoPrefix("expected a network such as \"10.0.2.0/24\" or \"fd00:2::/64\"".into());
        let (address, len) = text.split_once('/').ok_or_else(expected)?;
        let address: IpAddr = address.parse().map_err(|_| expected())?;
        let len: u8 = len.parse().map_err(|_| expected())?;
        let (bits, width) = bits(address);
        if len > width {
            return Err(NoPrefix(format!("a prefix of {len} bits: this address has {width}")));
        }
        let start = address_of(bits & mask(len, width), width);
        Prefix::new(address, len).ok_or_else(|| NoPrefix(format!("did you mean \"{start}/{len}\"?")))
    }
}

/// Returns an address as a number with its width in bits.
fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u32::from(v4).into(), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

fn address_of(bits: u128, width: u8) -> IpAddr {
    if width == 32 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(bits.into()) }
}

/// Returns the first `len` of `width` bits.
fn mask(len: u8, width: u8) -> u128 {
    let host = u32::from(width - len);
    let all = u128::MAX >> (128 - u32::from(width));
    if host == 128 { 0 } else { all >> host << host }
}

/// Prefixes with the sites behind them.
///
/// A look-up costs one hash for each length of prefix.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// Prefixes by length, the longest first; IPv4, IPv6.
    by_len: [Vec<(u8, Starts)>; 2],
}

/// Sites behind each prefix of one length, by its first address.
type Starts = HashMap<u128, Vec<usize>>;

impl Routes {
    /// Adds a network behind a site. A multicast prefix may be behind several.
    pub(crate) fn add(&mut self, prefix: Prefix, site: usize) {
        let (start, width) = bits(prefix.address);
        let lens = &mut self.by_len[usize::from(width == 128)];
        let at = match lens.binary_search_by(|(len, _)| prefix.len.cmp(len)) {
            Ok(at) => at,
            Err(at) => {
                lens.insert(at, (prefix.len, Starts::new()));
                at
            }
        };
        lens[at].1.entry(start).or_default().push(site);
    }

    /// Returns the sites of a destination, in any number.
    pub(crate) fn find(&self, destination: IpAddr) -> &[usize] {
        let (address, width) = bits(destination);
        let lens = &self.by_len[usize::from(width == 128)];
        let found = lens.iter().find_map(|(len, starts)| starts.get(&(address & mask(*len, width))));
        found.map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().expect("a prefix")
    }

    #[test]
    fn the_longest_prefix_wins() {
        let mut routes = Routes::default();
        for (text, site) in [("0.0.0.0/0", 0), ("10.0.0.0/8", 1), ("10.0.2.0/24", 2), ("10.0.2.7/32", 3)] {
            routes.add(prefix(text), site);
        }
        routes.add(prefix("::/0"), 4);
        routes.add(prefix("fd00:2::/64"), 5);
        routes.add(prefix("ff00::/8"), 1);
        routes.add(prefix("ff00::/8"), 2);
        let find = |text: &str| routes.find(text.parse().expect("an address"));
        assert_eq!((find("192.0.2.1"), find("10.1.1.1"), find("10.0.2.1")), (&[0][..], &[1][..], &[2][..]));
        assert_eq!((find("10.0.2.7"), find("fd00:2::9"), find("fd00:3::9")), (&[3][..], &[5][..], &[4][..]));
        assert_eq!(find("ff02::1"), [1, 2]);
        assert!(Routes::default().find("10.0.0.1".parse().expect("an address")).is_empty());
    }

    #[test]
    fn texts_that_are_none_say_what_would_be_right() {
        let said = |text: &str| text.parse::<Prefix>().expect_err("none").to_string();
        assert_eq!(said("10.0.2.1/24"), "did you mean \"10.0.2.0/24\"?");
        assert_eq!(said("fd00::1/0"), "did you mean \"::/0\"?");
        assert_eq!(said("10.0.2.0/33"), "a prefix of 33 bits: this address has 32");
        assert!(said("10.0.2.0").starts_with("expected a network such as"));
        assert_eq!(prefix("fd00:2::/64").to_string(), "fd00:2::/64");
    }
}
