//! Address prefixes.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address prefix such as 10.1.0.0/16 or 2001:db8::/32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    pub(super) address: IpAddr,
    pub(super) length: u8,
}

/// A text or a length that is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no address prefix: expected an address, or an address and a length such as \"10.1.0.0/16\"")]
pub struct NoPrefix;

impl Prefix {
    /// The first `length` bits of `address`.
    ///
    /// # Errors
    /// If the address has fewer bits.
    pub fn new(address: IpAddr, length: u8) -> Result<Prefix, NoPrefix> {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        if length <= bits { Ok(Prefix { address, length }) } else { Err(NoPrefix) }
    }

    /// This one address.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, length: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Prefix {
    type Err = NoPrefix;

    /// Reads "10.1.0.0/16", or an address alone as the prefix of that one address.
    fn from_str(text: &str) -> Result<Prefix, NoPrefix> {
        let Some((address, length)) = text.split_once('/') else {
            return text.parse().map(Prefix::host).map_err(|_| NoPrefix);
        };
        let length = length.parse().map_err(|_| NoPrefix)?;
        Prefix::new(address.parse().map_err(|_| NoPrefix)?, length)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}
