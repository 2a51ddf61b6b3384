//! Values of a configuration that are written as a text: addresses, prefixes, ranges of ports, protocols.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use bentpipe_wire::ethernet::MacAddr;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::ts::Pid;

/// A text that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {0}")]
pub struct Unreadable(&'static str);

/// The address of a receiver: NPA address of ULE, MAC address of MPE, label of GSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub MacAddr);

impl FromStr for Address {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Address, Unreadable> {
        let bytes: Option<Vec<u8>> = text
            .split(':')
            .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
            .collect();
        let address = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        // RFC 4326 section 4.5 forbids an address of zeros.
        let address = address.filter(|address| *address != [0; 6]).map(MacAddr);
        address.map(Address).ok_or(Unreadable("an address such as \"02:00:00:00:00:01\""))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// IP addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// The addresses whose first `len` bits are those of `address`; `None` if it has not so many.
    pub fn new(address: IpAddr, len: u8) -> Option<Prefix> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (len <= longest).then_some(Prefix { address, len })
    }

    /// Whether `address` is one of them.
    pub fn contains(self, address: IpAddr) -> bool {
        let bits = |address| match address {
            IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
            IpAddr::V6(v6) => Ipv6Addr::to_bits(v6),
        };
        let differing = bits(self.address) ^ bits(address);
        self.address.is_ipv4() == address.is_ipv4() && differing.leading_zeros() >= self.len.into()
    }
}

impl FromStr for Prefix {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Prefix, Unreadable> {
        let (address, len) = text.split_once('/').map_or((text, None), |(address, len)| (address, Some(len)));
        let prefix = address.trim().parse().ok().and_then(|address: IpAddr| {
            let whole = if address.is_ipv4() { 32 } else { 128 };
            Prefix::new(address, len.map_or(Some(whole), |len| len.trim().parse().ok())?)
        });
        prefix.ok_or(Unreadable("addresses such as \"10.1.0.0/16\", \"2001:db8::/32\" or \"10.1.0.5\""))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// A port or a range of ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// From `first` to `last`.
    pub const fn new(first: u16, last: u16) -> Ports {
        Ports { first, last }
    }

    /// Whether `port` is one of them.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

impl FromStr for Ports {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Ports, Unreadable> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ends = first.trim().parse().ok().zip(last.trim().parse().ok());
        let ports = ends.map(|(first, last)| Ports { first, last }).filter(|ports| ports.first <= ports.last);
        ports.ok_or(Unreadable("a port or a range such as \"5004\" or \"5004-5010\""))
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

/// A transport protocol by its name, or by its number.
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
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Transport, Unreadable> {
        let named = NAMES.iter().find(|(name, _)| *name == text).map(|(_, protocol)| *protocol);
        let protocol = named.or_else(|| text.parse().ok().map(Protocol));
        let expected =
            "udp, tcp, icmp, icmpv6, udp-lite, dccp, esp, ah or a protocol's number such as \"47\"";
        protocol.map(Transport).ok_or(Unreadable(expected))
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

/// The PID of a stream of data: none of those that tables and NULL packets have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataPid(Pid);

impl DataPid {
    /// A PID from 0x20 to 0x1ffe; `None` for another one.
    pub const fn new(number: u16) -> Option<DataPid> {
        match Pid::new(number) {
            Some(pid) if number >= 0x20 && number < Pid::NULL.number() => Some(DataPid(pid)),
            _ => None,
        }
    }

    /// The PID `n` numbers higher; `None` if that is none for data.
    pub fn plus(self, n: u32) -> Option<DataPid> {
        let number = u16::try_from(n).ok().and_then(|n| self.0.number().checked_add(n));
        number.and_then(DataPid::new)
    }

    /// The PID.
    pub const fn pid(self) -> Pid {
        self.0
    }
}

impl FromStr for DataPid {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<DataPid, Unreadable> {
        let number = match text.strip_prefix("0x") {
            Some(hex) => u16::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        };
        number.and_then(DataPid::new).ok_or(Unreadable("a PID from \"0x20\" to \"0x1ffe\""))
    }
}

impl fmt::Display for DataPid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0.number())
    }
}

#[cfg(feature = "serde")]
mod form {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::{Address, DataPid, Ports, Prefix, Transport};
    use crate::dvb::Modcod;

    macro_rules! as_text {
        ($($type:ty, $name:literal, $example:literal;)*) => {$(
            impl Serialize for $type {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_str(self)
                }
            }

            impl<'de> Deserialize<'de> for $type {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                    let text = Cow::<'de, str>::deserialize(deserializer)?;
                    text.parse().map_err(de::Error::custom)
                }
            }

            impl JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }
                fn schema_name() -> Cow<'static, str> {
                    $name.into()
                }
                fn json_schema(_: &mut SchemaGenerator) -> Schema {
                    json_schema!({ "type": "string", "examples": [$example] })
                }
            }
        )*};
    }

    as_text! {
        Address, "Address", "02:00:00:00:00:01";
        Prefix, "Prefix", "10.1.0.0/16";
        Ports, "Ports", "5004-5010";
        Transport, "Transport", "udp";
        DataPid, "DataPid", "0x201";
        Modcod, "Modcod", "QPSK 3/4";
    }
}
