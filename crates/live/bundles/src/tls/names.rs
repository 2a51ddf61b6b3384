//! Names in a certificate: NODE-ID, DNS-ID and IPADDR-ID (RFC 9174, section 4.4.1).

use std::fmt;
use std::net::IpAddr;

use bentpipe_wire::dtn::eid::Eid;
use x509_parser::asn1_rs::{Any, Class, FromDer, Ia5String, Oid, Tag, oid};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

use super::NamePolicy;

/// Name form id-on-bundleEID.
const BUNDLE_EID: Oid<'static> = oid!(1.3.6.1.5.5.7.8.11);
/// Tag of a name of another form (RFC 5280, section 4.2.1.6).
const OTHER_NAME: Tag = Tag(0);
/// Maximum number of names in a certificate.
const MAX_NAMES: usize = 1000;

/// Names that a certificate authenticates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Node identifiers.
    pub nodes: Vec<Eid>,
    /// Number of other values of form BundleEID, such as endpoints of services. They match no node.
    pub foreign: usize,
    /// Host names.
    pub hosts: Vec<String>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
}

/// Result of a comparison with the names of a certificate (RFC 9174, section 4.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Findings {
    /// The certificate has no such name.
    Absent,
    /// A name matches.
    Success,
    /// There are names, and none matches.
    Failure,
}

impl Findings {
    fn of(count: usize, matches: bool) -> Findings {
        match (count, matches) {
            (0, _) => Findings::Absent,
            (_, true) => Findings::Success,
            (_, false) => Findings::Failure,
        }
    }

    /// Returns `true` if the policy accepts the result.
    pub fn satisfies(self, policy: NamePolicy) -> bool {
        match self {
            Findings::Success => true,
            Findings::Absent => policy != NamePolicy::Required,
            Findings::Failure => policy == NamePolicy::Ignored,
        }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.nodes.iter().map(Eid::to_string);
        let others = self.hosts.iter().cloned().chain(self.addresses.iter().map(IpAddr::to_string));
        let all: Vec<String> = nodes.chain(others).collect();
        match (all.is_empty(), self.foreign) {
            (true, 0) => f.write_str("nothing"),
            (true, _) => f.write_str("endpoints of no node"),
            (false, _) => f.write_str(&all.join(", ")),
        }
    }
}

impl Names {
    /// Reads the names of a certificate in DER.
    ///
    /// An endpoint other than a node is the identifier of no peer. Its certificate is not one without identifiers.
    ///
    /// # Errors
    /// Returns an error if certificate or names are malformed, or if there are more than [`MAX_NAMES`].
    pub fn parse(certificate: &[u8]) -> Result<Names, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("certificate: {error}");
        let (_, parsed) = parse_x509_certificate(certificate).map_err(|error| wrong(&error))?;
        let mut names = Names::default();
        let Some(found) = parsed.subject_alternative_name().map_err(|error| wrong(&error))? else {
            return Ok(names);
        };
        let all = &found.value.general_names;
        if all.len() > MAX_NAMES {
            return Err(wrong(&format!("expected at most {MAX_NAMES} names, found {}", all.len())));
        }
        for name in all {
            match name {
                GeneralName::OtherName(form, value) if *form == BUNDLE_EID => match node(value) {
                    Some(node) => names.nodes.push(node),
                    None => names.foreign += 1,
                },
                // Of another name that cannot be read, the form is unknown.
                GeneralName::Invalid(OTHER_NAME, _) => names.foreign += 1,
                GeneralName::DNSName(host) => names.hosts.push((*host).to_owned()),
                GeneralName::IPAddress(bytes) => names.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(names)
    }

    /// Compares the host name and address of the other side of a connection.
    ///
    /// `host` is the name that was resolved, if one was.
    pub fn network(&self, host: Option<&str>, address: IpAddr) -> Findings {
        let by_address = Findings::of(self.addresses.len(), self.addresses.contains(&address.to_canonical()));
        let by_host = host.map_or(Findings::Absent, |host| {
            Findings::of(self.hosts.len(), self.hosts.iter().any(|name| is_same_host(name, host)))
        });
        match (by_address, by_host) {
            (Findings::Success, _) | (_, Findings::Success) => Findings::Success,
            (Findings::Failure, _) | (_, Findings::Failure) => Findings::Failure,
            (Findings::Absent, Findings::Absent) => Findings::Absent,
        }
    }

    /// Returns `true` if the name or address of a host is among them.
    pub(super) fn is_of(&self, host: Option<&str>, address: Option<IpAddr>) -> bool {
        let has_host = |host: &str| self.hosts.iter().any(|name| is_same_host(name, host));
        let has_address = |address: IpAddr| self.addresses.contains(&address.to_canonical());
        host.is_some_and(has_host) || address.is_some_and(has_address)
    }

    /// Returns `true` if there is a value of form BundleEID, of a node or not.
    pub(super) fn has_node_form(&self) -> bool {
        !self.nodes.is_empty() || self.foreign > 0
    }

    /// Compares the node of an endpoint.
    pub fn node(&self, peer: &Eid) -> Findings {
        Findings::of(self.nodes.len() + self.foreign, self.nodes.iter().any(|node| peer.is_at(node)))
    }
}

/// Returns `true` if host names are equal without regard to case. A name with a wildcard matches nothing, as the standard discourages it.
fn is_same_host(name: &str, host: &str) -> bool {
    let plain = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
    !name.contains('*') && plain(name) == plain(host)
}

/// Reads the value of a name of form BundleEID. It is an IA5String in an explicit tag 0.
fn node(value: &[u8]) -> Option<Eid> {
    let (_, outer) = Any::from_der(value).ok()?;
    if outer.class() != Class::ContextSpecific || outer.tag().0 != 0 {
        return None;
    }
    let (_, text) = Ia5String::from_der(outer.data).ok()?;
    let eid: Eid = text.string().parse().ok()?;
    (eid == eid.node() && !eid.is_null() && !eid.is_local()).then_some(eid)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
