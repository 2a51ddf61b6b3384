//! Values of a configuration that are written as text: prefixes, ranges of ports, protocols.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use bentpipe_wire::ip::Protocol;

/// Error returned when a text does not have the expected form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct TextError(pub &'static str);

/// Address prefix such as 10.1.0.0/16 or 2001:db8::/32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    pub(crate) address: IpAddr,
    pub(crate) len: u8,
}

impl Prefix {
    /// Creates the prefix of the first `len` bits, or `None` if there are fewer.
    pub fn new(address: IpAddr, len: u8) -> Option<Prefix> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (len <= longest).then_some(Prefix { address, len })
    }

    /// Creates the prefix of a single address.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, len: if address.is_ipv4() { 32 } else { 128 } }
    }

    /// Returns `true` if `address` has this prefix.
    pub fn contains(self, address: IpAddr) -> bool {
        let bits = |address| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
        };
        let differing = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4() && differing.leading_zeros() >= self.len.into()
    }

    /// Returns `true` if some address has both prefixes.
    pub fn overlaps(self, other: Prefix) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

impl FromStr for Prefix {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Prefix, TextError> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let prefix = address.trim().parse().ok().and_then(|address: IpAddr| {
            let whole = if address.is_ipv4() { 32 } else { 128 };
            Prefix::new(address, len.map_or(Some(whole), |len| len.trim().parse().ok())?)
        });
        prefix.ok_or(TextError("addresses such as \"10.1.0.0/16\", \"2001:db8::/32\" or \"10.1.0.5\""))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Creates the range from `first` to `last`.
    pub const fn new(first: u16, last: u16) -> Ports {
        Ports { first, last }
    }

    /// Returns `true` if `port` is in the range.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }

    /// Returns `true` if some port is in both ranges.
    pub const fn overlaps(self, other: Ports) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl FromStr for Ports {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Ports, TextError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ends = first.trim().parse().ok().zip(last.trim().parse().ok());
        let ports = ends.map(|(first, last)| Ports { first, last }).filter(|ports| ports.first <= ports.last);
        ports.ok_or(TextError("a port or a range such as \"5004\" or \"5004-5010\""))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first.fmt(f);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Transport protocol by its name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport(pub Protocol);

const NAMES: [(&str, Protocol); 8] = [
    ("udp", Protocol::UDP),
    ("tcp", Protocol::TCP),
    ("icmp", Protocol::ICMP),
    ("icmpv6", Protocol::ICMPV6),
    ("udp-lite", Protocol::UDP_LITE),
    ("dccp", Protocol::DCCP),
    ("esp", Protocol::ESP),
    ("ah", Protocol::AH),
];

impl FromStr for Transport {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Transport, TextError> {
        let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, protocol)| *protocol);
        let protocol = named.or_else(|| text.parse().ok().map(Protocol));
        let expected =
            "udp, tcp, icmp, icmpv6, udp-lite, dccp, esp, ah or a protocol's number such as \"47\"";
        protocol.map(Transport).ok_or(TextError(expected))
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, protocol)| *protocol == self.0) {
            Some((name, _)) => f.write_str(name),
            None => self.0.0.fmt(f),
        }
    }
}

/// Implements serde and JSON Schema for types that are written as text.
///
/// A row is the type, its name in schemas, and an example.
#[macro_export]
macro_rules! as_text {
    ($($type:ty, $name:literal, $example:literal;)*) => {$(
        impl ::serde::Serialize for $type {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $type {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = <::std::borrow::Cow<'de, str> as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        impl ::schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                ::schemars::json_schema!({ "type": "string", "examples": [$example] })
            }
        }
    )*};
}

crate::as_text! {
    Prefix, "Prefix", "10.1.0.0/16";
    Ports, "Ports", "5004-5010";
    Transport, "Transport", "udp";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_and_wrong_ones_are_refused() {
        for text in ["10.1.0.0/16", "2001:db8::/32", "10.1.0.5/32"] {
            assert_eq!(text.parse::<Prefix>().expect("a prefix").to_string(), text);
        }
        assert_eq!("10.1.0.5".parse::<Prefix>(), Ok(Prefix::host([10, 1, 0, 5].into())));
        for text in ["", "10.1.0.0/33", "2001:db8::/129", "10.1.0.0/", "host"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
        assert_eq!("5004-5010".parse(), Ok(Ports::new(5004, 5010)));
        assert!("5010-5004".parse::<Ports>().is_err() && "65536".parse::<Ports>().is_err());
        assert_eq!(
            ("udp".parse(), "47".parse()),
            (Ok(Transport(Protocol::UDP)), Ok(Transport(Protocol(47))))
        );
        assert!("256".parse::<Transport>().is_err());
    }

    #[test]
    fn a_prefix_has_the_addresses_of_its_version_alone() {
        let has = |prefix: &str, address: &str| {
            prefix.parse::<Prefix>().expect("a prefix").contains(address.parse().expect("an address"))
        };
        assert!(has("10.1.0.0/16", "10.1.255.1") && !has("10.1.0.0/16", "10.2.0.1"));
        assert!(has("0.0.0.0/0", "192.0.2.1") && !has("0.0.0.0/0", "2001:db8::1"));
        assert!(has("2001:db8::/33", "2001:db8::1") && !has("2001:db8::/33", "2001:db8:8000::1"));
    }
}
