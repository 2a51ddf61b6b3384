//! Session descriptions (RFC 8866), and offer and answer (RFC 3264).
//!
//! [`Session::parse`] keeps what negotiation needs: origin, connection, bandwidth, times, media and all attributes.
//!
//! *Does not model*: repeat times, time zones, and keys, which are read and not written; grouping of media; ICE; SRTP, whose streams
//! are refused.

mod body;
mod offer;
mod parse;

use std::fmt;
use std::net::IpAddr;

pub(crate) use body::{Body, body_of, is_accepted};
pub use offer::{Capabilities, Codec, Direction, Events, Negotiated, Unacceptable, answer, offer, outcome};
pub use parse::SdpError;

/// Media type of session descriptions.
pub const CONTENT_TYPE: &str = "application/sdp";
/// Maximum number of lines of a description.
pub const MAX_LINES: usize = 1024;
/// Maximum number of media of a description.
pub const MAX_MEDIA: usize = 64;

/// Originator of a session (`o=`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// User, or "-".
    pub user: String,
    /// Session identifier.
    pub session: u64,
    /// Version, which grows with each change.
    pub version: u64,
    /// Address, possibly a host name.
    pub address: Address,
}

/// Address of the Internet, by number or name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Set for IP6.
    pub is_v6: bool,
    /// Address, host name, or multicast address with TTL.
    pub text: String,
}

impl Address {
    /// Creates a numeric address.
    pub fn new(address: IpAddr) -> Address {
        Address { is_v6: address.is_ipv6(), text: address.to_string() }
    }

    /// Returns the numeric address. `None` for host names.
    pub fn ip(&self) -> Option<IpAddr> {
        self.text.split('/').next()?.parse().ok().filter(|ip: &IpAddr| ip.is_ipv6() == self.is_v6)
    }
}

/// Attribute (`a=`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Name.
    pub name: String,
    /// Value after the colon.
    pub value: Option<String>,
}

impl Attribute {
    /// Creates an attribute.
    pub fn new(name: &str, value: Option<String>) -> Attribute {
        Attribute { name: name.to_owned(), value }
    }
}

/// Media description (`m=`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Type: "audio".
    pub kind: String,
    /// Port; 0 refuses the media.
    pub port: u16,
    /// Number of consecutive ports.
    pub ports: Option<u16>,
    /// Transport: "RTP/AVP".
    pub protocol: String,
    /// Formats: payload types of RTP.
    pub formats: Vec<String>,
    /// Address, if not that of the session.
    pub connection: Option<Address>,
    /// Bandwidth lines.
    pub bandwidth: Vec<String>,
    /// Attributes.
    pub attributes: Vec<Attribute>,
}

/// Session description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Originator.
    pub origin: Origin,
    /// Name, or "-".
    pub name: String,
    /// Address of media without their own.
    pub connection: Option<Address>,
    /// Bandwidth lines.
    pub bandwidth: Vec<String>,
    /// Start and stop times; 0 0 is a permanent session.
    pub times: Vec<(u64, u64)>,
    /// Attributes of the session.
    pub attributes: Vec<Attribute>,
    /// Media, in the order of their lines.
    pub media: Vec<Media>,
}

impl Media {
    /// Returns the value of the first attribute with the name.
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Returns the values of all attributes with the name.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.attributes.iter().filter(move |attribute| attribute.name == name);
        named.filter_map(|attribute| attribute.value.as_deref())
    }
}

impl Session {
    /// Returns the bytes of the description.
    pub fn emit(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IN {} {}", if self.is_v6 { "IP6" } else { "IP4" }, self.text)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { user, session, version, address } = &self.origin;
        write!(f, "v=0\r\no={user} {session} {version} {address}\r\ns={}\r\n", self.name)?;
        self.connection.iter().try_for_each(|address| write!(f, "c={address}\r\n"))?;
        self.bandwidth.iter().try_for_each(|bandwidth| write!(f, "b={bandwidth}\r\n"))?;
        self.times.iter().try_for_each(|(start, stop)| write!(f, "t={start} {stop}\r\n"))?;
        write_attributes(f, &self.attributes)?;
        self.media.iter().try_for_each(|media| media.fmt(f))
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m={} {}", self.kind, self.port)?;
        self.ports.iter().try_for_each(|ports| write!(f, "/{ports}"))?;
        write!(f, " {} {}\r\n", self.protocol, self.formats.join(" "))?;
        self.connection.iter().try_for_each(|address| write!(f, "c={address}\r\n"))?;
        self.bandwidth.iter().try_for_each(|bandwidth| write!(f, "b={bandwidth}\r\n"))?;
        write_attributes(f, &self.attributes)
    }
}

fn write_attributes(f: &mut fmt::Formatter<'_>, attributes: &[Attribute]) -> fmt::Result {
    attributes.iter().try_for_each(|Attribute { name, value }| match value {
        Some(value) => write!(f, "a={name}:{value}\r\n"),
        None => write!(f, "a={name}\r\n"),
    })
}

#[cfg(test)]
mod tests;
