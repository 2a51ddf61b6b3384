//! Address translator: a router that hides the hosts of some links behind its own address.

use std::net::IpAddr;

use bentpipe_net::nat::{Config, PROTOCOLS};
use bentpipe_net::node::{Divert, Prefix};
use bentpipe_net::{Element, Nat};
use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Ground, IpVersion, Problem, Review, RoleAt, RoleKind};

/// Network address and port translation (NAPT, RFC 3022) of IPv4. UDP, TCP and ICMP echo from inside leave with the node's address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Kind {
    /// Links to the inside, whose hosts are hidden.
    #[schemars(length(min = 1, max = 100))]
    pub inside: Vec<String>,
    /// Number of port numbers of each protocol, and so of simultaneous mappings. Default: 1000.
    #[serde(default = "ports")]
    #[schemars(range(min = 1, max = 20_000))]
    pub ports: u16,
    /// Filtering of packets from outside. Default: "none".
    #[serde(default)]
    pub filtering: Filtering,
    /// Idle time after which a UDP mapping ends. Default: "300 s".
    #[serde(default = "udp")]
    pub udp_timeout: Span,
    /// Idle time after which the mapping of an established TCP connection ends. Default: "7440 s".
    #[serde(default = "tcp")]
    pub tcp_timeout: Span,
    /// Idle time after which the mapping of an opening or closing TCP connection ends. Default: "240 s".
    #[serde(default = "transitory")]
    pub tcp_transitory_timeout: Span,
    /// Idle time after which a mapping of ICMP echo ends. Default: "60 s".
    #[serde(default = "icmp")]
    pub icmp_timeout: Span,
}

/// Filtering of packets from outside (RFC 4787, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "NatFiltering")]
pub enum Filtering {
    /// Endpoint-independent: packets from any address pass to a mapping.
    #[default]
    None,
    /// Address-dependent: only packets from addresses that the mapping sent to pass.
    Address,
}

const fn ports() -> u16 {
    1000
}

const fn udp() -> Span {
    Span::from_secs(300)
}

const fn tcp() -> Span {
    Span::from_secs(7440)
}

const fn transitory() -> Span {
    Span::from_secs(240)
}

const fn icmp() -> Span {
    Span::from_secs(60)
}

impl RoleKind for Kind {
    type Shared = ();

    fn check(&self, at: &RoleAt<'_>, (): &(), review: &mut Review<'_>) {
        let problem = "a host forwards no packets: expected a translator at a router or satellite";
        review.ensure(at.forwards, &at.key, problem);
        for (n, link) in self.inside.iter().enumerate().filter(|(_, link)| !at.links.contains(&link.as_str()))
        {
            review.refuse_name(&at.links, "link of this node", &format!("{}.inside.{n}", at.key), link);
        }
        let is_outside = |link: &&str| !self.inside.iter().any(|inside| inside == link);
        let has_outside = at.links.iter().any(is_outside);
        review.ensure(
            has_outside,
            &format!("{}.inside", at.key),
            "all links of the node: expected one outside",
        );
        for (key, timeout) in [
            ("udp_timeout", self.udp_timeout),
            ("tcp_timeout", self.tcp_timeout),
            ("tcp_transitory_timeout", self.tcp_transitory_timeout),
            ("icmp_timeout", self.icmp_timeout),
        ] {
            review.ensure(!timeout.is_zero(), &format!("{}.{key}", at.key), "expected more than no time");
        }
    }

    fn plan(&self, (): &(), ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        let addresses = ground.addresses(ground.name());
        let Some(IpAddr::V4(outside)) = addresses.into_iter().flatten().find(IpAddr::is_ipv4) else {
            return Err(Problem::new(ground.key(), "the node has no IPv4 address: expected one"));
        };
        let any: Option<Prefix> = "0.0.0.0/0".parse().ok();
        let mut inside = 0;
        for link in &self.inside {
            for from in ground.interfaces(link) {
                ground.divert(Divert { from: Some(from), to: any, ..Divert::default() });
                ground.hide(from);
                inside += 1;
            }
        }
        // What comes from outside has no mapping if it is for a host itself.
        for link in &self.inside {
            for into in ground.interfaces(link) {
                ground.divert(Divert { into: Some(into), to: any, ..Divert::default() });
            }
        }
        let mut first = [0; 3];
        for (first, protocol) in first.iter_mut().zip(PROTOCOLS) {
            (_, *first) = ground.bind(protocol, self.ports)?;
        }
        ground.advertise(IpVersion::V4);
        let timeouts = [self.udp_timeout, self.tcp_timeout, self.tcp_transitory_timeout, self.icmp_timeout];
        let is_filtered = self.filtering == Filtering::Address;
        let config = Config { outside, first, count: self.ports, timeouts, is_filtered };
        Ok(Box::new(Nat::new(config, inside)))
    }
}
