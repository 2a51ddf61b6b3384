//! Endpoint identifiers of the schemes dtn (RFC 9171, section 4.2.5.1.1) and ipn (RFC 9758).
//!
//! An ipn identifier keeps the number of elements that it was received with, because another form would change the
//! block around it and its CRC. Identifiers compare by value.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use super::cbor::{self, Reader};
use crate::Error;

const DTN: u64 = 1;
const IPN: u64 = 2;
/// Node number of the local node (RFC 9758, section 3.4.2).
pub const LOCAL_NODE: u32 = u32::MAX;

/// Endpoint identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Eid {
    /// The null endpoint, dtn:none.
    None,
    /// Identifier of scheme dtn: what follows "dtn:", slashes included.
    Dtn(Box<str>),
    /// Identifier of scheme ipn.
    Ipn(Ipn),
}

/// Identifier of scheme ipn.
#[derive(Clone, Copy, Debug)]
pub struct Ipn {
    /// Allocator; 0 is the default one.
    pub allocator: u32,
    /// Node number.
    pub node: u32,
    /// Service number.
    pub service: u32,
    /// Set if encoded as three elements.
    pub has_three: bool,
}

impl Ipn {
    /// Creates an identifier of two elements.
    pub fn new(node: u32, service: u32) -> Ipn {
        Ipn { allocator: 0, node, service, has_three: false }
    }

    fn value(&self) -> (u32, u32, u32) {
        (self.allocator, self.node, self.service)
    }

    /// Returns the fully qualified node number.
    pub fn number(&self) -> u64 {
        u64::from(self.allocator) << 32 | u64::from(self.node)
    }
}

impl PartialEq for Ipn {
    fn eq(&self, other: &Ipn) -> bool {
        self.value() == other.value()
    }
}

impl Eq for Ipn {}

impl Hash for Ipn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl PartialOrd for Ipn {
    fn partial_cmp(&self, other: &Ipn) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ipn {
    fn cmp(&self, other: &Ipn) -> std::cmp::Ordering {
        self.value().cmp(&other.value())
    }
}

impl Eid {
    /// Creates ipn:`node`.`service`.
    pub fn ipn(node: u32, service: u32) -> Eid {
        Eid::Ipn(Ipn::new(node, service))
    }

    /// Returns `true` if it is the null endpoint of either scheme.
    ///
    /// Any service of ipn node 0 is (RFC 9758, section 3.4.1).
    pub fn is_null(&self) -> bool {
        match self {
            Eid::None => true,
            Eid::Dtn(_) => false,
            Eid::Ipn(ipn) => ipn.number() == 0,
        }
    }

    /// Returns `true` if it has meaning on its node only.
    pub fn is_local(&self) -> bool {
        matches!(self, Eid::Ipn(ipn) if ipn.allocator == 0 && ipn.node == LOCAL_NODE)
    }

    /// Returns the identifier of the node: its administrative endpoint.
    pub fn node(&self) -> Eid {
        match self {
            Eid::None => Eid::None,
            Eid::Ipn(ipn) => Eid::Ipn(Ipn { service: 0, ..*ipn }),
            Eid::Dtn(name) => Eid::Dtn(name[..2 + node_len(name)].into()).with_service(""),
        }
    }

    /// Returns the identifier of another service at the same node.
    ///
    /// Of scheme ipn the service must be a number, else it is 0.
    #[must_use]
    pub fn with_service(&self, service: &str) -> Eid {
        match self {
            Eid::None => Eid::None,
            Eid::Ipn(ipn) => Eid::Ipn(Ipn { service: service.parse().unwrap_or(0), ..*ipn }),
            Eid::Dtn(name) => Eid::Dtn(format!("{}/{service}", &name[..2 + node_len(name)]).into()),
        }
    }

    /// Returns `true` if both are endpoints of one node.
    pub fn is_at(&self, node: &Eid) -> bool {
        match (self, node) {
            (Eid::Dtn(one), Eid::Dtn(other)) => one[..2 + node_len(one)] == other[..2 + node_len(other)],
            (Eid::Ipn(one), Eid::Ipn(other)) => one.number() == other.number(),
            _ => false,
        }
    }

    /// Reads an identifier.
    ///
    /// # Errors
    /// Returns an error for unknown schemes and forbidden values.
    pub fn read(reader: &mut Reader<'_>) -> Result<Eid, Error> {
        reader.array_of(2, "an endpoint identifier that is not a pair")?;
        let start = *reader;
        match reader.uint()? {
            DTN => read_dtn(reader),
            IPN => read_ipn(reader).map(Eid::Ipn),
            _ => Err(start.malformed("an unknown scheme of endpoint identifiers")),
        }
    }

    /// Appends the identifier.
    pub fn put(&self, out: &mut Vec<u8>) {
        cbor::put_array(out, 2);
        match self {
            Eid::None => out.extend([1, 0]),
            Eid::Dtn(name) => {
                cbor::put_uint(out, DTN);
                cbor::put_text(out, name);
            }
            Eid::Ipn(ipn) => {
                cbor::put_uint(out, IPN);
                put_ipn(ipn, out);
            }
        }
    }
}

fn put_ipn(ipn: &Ipn, out: &mut Vec<u8>) {
    if ipn.has_three {
        cbor::put_array(out, 3);
        cbor::put_uint(out, ipn.allocator.into());
        cbor::put_uint(out, ipn.node.into());
    } else {
        cbor::put_array(out, 2);
        cbor::put_uint(out, ipn.number());
    }
    cbor::put_uint(out, ipn.service.into());
}

/// Returns the length of the node name, from byte 2 to the slash.
fn node_len(name: &str) -> usize {
    name[2..].find('/').unwrap_or(name.len() - 2)
}

/// Returns `true` for "//node/demux": a node name of visible ASCII and a slash after it.
fn is_dtn(name: &str) -> bool {
    let is_visible = name.bytes().all(|byte| byte.is_ascii_graphic());
    let node = name.strip_prefix("//").and_then(|rest| rest.find('/'));
    is_visible && node.is_some_and(|len| len > 0)
}

fn read_dtn(reader: &mut Reader<'_>) -> Result<Eid, Error> {
    let start = *reader;
    if reader.peek() == Some(0) {
        reader.byte()?;
        return Ok(Eid::None);
    }
    let name = reader.text()?;
    if is_dtn(name) {
        Ok(Eid::Dtn(name.into()))
    } else {
        Err(start.malformed("not of the form //node/demux"))
    }
}

fn read_ipn(reader: &mut Reader<'_>) -> Result<Ipn, Error> {
    let start = *reader;
    let count = reader.array()?;
    let narrow = |reader: &mut Reader<'_>| {
        let value = u32::try_from(reader.uint()?);
        value.map_err(|_| start.malformed("an ipn number of more than 32 bits"))
    };
    match count {
        2 => {
            let number = reader.uint()?;
            let (allocator, node) = ((number >> 32) as u32, number as u32);
            Ok(Ipn { allocator, node, service: narrow(reader)?, has_three: false })
        }
        3 => {
            let (allocator, node) = (narrow(reader)?, narrow(reader)?);
            Ok(Ipn { allocator, node, service: narrow(reader)?, has_three: true })
        }
        _ => Err(start.malformed("an ipn identifier of neither two nor three elements")),
    }
}

impl fmt::Display for Eid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Eid::None => f.write_str("dtn:none"),
            Eid::Dtn(name) => write!(f, "dtn:{name}"),
            Eid::Ipn(ipn) => ipn.fmt(f),
        }
    }
}

impl fmt::Display for Ipn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ipn { allocator, node, service, .. } = self;
        match (allocator, *node) {
            (0, LOCAL_NODE) => write!(f, "ipn:!.{service}"),
            (0, node) => write!(f, "ipn:{node}.{service}"),
            (allocator, node) => write!(f, "ipn:{allocator}.{node}.{service}"),
        }
    }
}

/// Error returned when a text is not an endpoint identifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an endpoint identifier as \"ipn:2.1\" or \"dtn://node/service\", got \"{0}\"")]
pub struct InvalidEid(String);

impl FromStr for Eid {
    type Err = InvalidEid;

    fn from_str(text: &str) -> Result<Eid, InvalidEid> {
        let invalid = || InvalidEid(text.to_owned());
        let (scheme, rest) = text.split_once(':').ok_or_else(invalid)?;
        match scheme {
            "dtn" if rest == "none" => Ok(Eid::None),
            "dtn" if is_dtn(rest) => Ok(Eid::Dtn(rest.into())),
            "ipn" => parse_ipn(rest).map(Eid::Ipn).ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }
}

fn parse_ipn(text: &str) -> Option<Ipn> {
    let number = |text: &str| {
        let is_plain = text == "0" || !text.starts_with(['0', '+']);
        text.parse().ok().filter(|_| is_plain)
    };
    let parts: Vec<&str> = text.split('.').collect();
    match parts[..] {
        ["!", service] => Some(Ipn::new(LOCAL_NODE, number(service)?)),
        [node, service] => Some(Ipn::new(number(node)?, number(service)?)),
        [allocator, node, service] => {
            let (allocator, node, service) = (number(allocator)?, number(node)?, number(service)?);
            Some(Ipn { allocator, node, service, has_three: allocator != 0 })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
