//! Marker: an edge router that writes the DSCP of packets in transit.

use bentpipe_net::node::{Divert, Prefix};
use bentpipe_net::text::{Ports, Transport};
use bentpipe_net::{Element, Marker, Port};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Changes, Ground, Problem, Review, RoleAt, RoleHandle, RoleKind};

/// DSCP marker of an edge router (RFC 2475). Packets in transit get the DSCP of the first rule that they match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Kind {
    /// Rules, of which the first that matches counts. Packets that match none stay as they are.
    #[schemars(length(min = 1, max = 100))]
    pub rules: Vec<Rule>,
}

/// Rule of a marker. A packet must meet every condition that is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "MarkerRule")]
pub struct Rule {
    /// Protocol of the content: "udp", "tcp", "icmp", "icmpv6", "udp-lite", "dccp", "esp", "ah", or a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Transport>,
    /// Source or destination port, or a range. Fragments after the first have neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Ports>,
    /// Destination: a node, or an address prefix such as "10.1.0.0/16".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Link that packets come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// DSCP that packets come with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 63))]
    pub dscp: Option<u8>,
    /// DSCP that packets leave with. No default.
    #[schemars(range(min = 0, max = 63))]
    #[schemars(extend("x-change" = true))]
    pub mark: u8,
}

impl Rule {
    /// Returns the destinations: one prefix, those of a node's addresses, or `None` for any.
    fn destinations(&self, ground: &Ground<'_, '_>) -> Vec<Option<Prefix>> {
        let Some(to) = &self.to else { return vec![None] };
        match ground.addresses(to) {
            Some(addresses) => addresses.map(|address| Some(Prefix::host(address))).to_vec(),
            None => vec![to.parse().ok()],
        }
    }

    /// Returns the interfaces that packets come from, or `None` for any.
    fn interfaces(&self, ground: &Ground<'_, '_>) -> Vec<Option<Port>> {
        let Some(link) = &self.from else { return vec![None] };
        ground.interfaces(link).into_iter().map(Some).collect()
    }

    /// Returns the conditions of which one must hold.
    fn conditions(&self, ground: &Ground<'_, '_>) -> Vec<Divert> {
        let from = self.interfaces(ground);
        let protocol = self.protocol.map(|transport| transport.0);
        let any = Divert { protocol, ports: self.ports, dscp: self.dscp, ..Divert::default() };
        let to = self.destinations(ground);
        to.into_iter().flat_map(|to| from.iter().map(move |from| Divert { to, from: *from, ..any })).collect()
    }
}

impl Kind {
    /// Returns the DSCPs that packets leave with, one a rule.
    fn marks(&self) -> Vec<u8> {
        self.rules.iter().map(|rule| rule.mark).collect()
    }

    /// Returns the rules without their actions.
    fn conditions(&self) -> Vec<Rule> {
        self.rules.iter().map(|rule| Rule { mark: 0, ..rule.clone() }).collect()
    }
}

impl RoleKind for Kind {
    type Shared = ();

    fn check(&self, at: &RoleAt<'_>, (): &(), review: &mut Review<'_>) {
        let problem = "a host forwards no packets: expected a marker at a router or satellite";
        review.ensure(at.forwards, &at.key, problem);
        for (n, rule) in self.rules.iter().enumerate() {
            let key = |key: &str| format!("{}.rules.{n}.{key}", at.key);
            if let Some(to) = rule.to.as_deref().filter(|to| to.parse::<Prefix>().is_err()) {
                review.ensure_node(&key("to"), to);
            }
            if let Some(link) = rule.from.as_deref().filter(|link| !at.links.contains(link)) {
                review.refuse_name(&at.links, "link of this node", &key("from"), link);
            }
        }
    }

    fn plan(&self, (): &(), ground: &mut Ground<'_, '_>) -> Result<Box<dyn Element>, Problem> {
        let mut rules = Vec::new();
        for (n, rule) in self.rules.iter().enumerate() {
            for what in rule.conditions(ground) {
                ground.divert_through(what);
                rules.push(n);
            }
        }
        let marker =
            Marker::new(rules, self.marks()).map_err(|error| Problem::impossible(ground.key(), &error))?;
        Ok(Box::new(marker))
    }

    fn change(&self, after: &Kind, at: &RoleHandle, to: &mut Changes) -> Result<(), Problem> {
        if self.conditions() != after.conditions() {
            let problem = "cannot be changed while it runs: expected the rules of the start, with other values of `mark`";
            return Err(Problem::new(format!("{}.rules", at.key), problem));
        }
        to.set(at.element, format!("{}.rules", at.key), after.marks(), |marker: &mut Marker, _, marks| {
            marker.set(marks)
        });
        Ok(())
    }
}
