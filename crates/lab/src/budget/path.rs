//! The way of a flow: its links, and the lengths of its packets on each.

use bentpipe_units::{Rate, Span};

use super::headers;
use super::medium::Medium;
use crate::build::routes::{Router, number};
use crate::build::{Hop, Problem, Way, direction, path_mtu};
use crate::scenario::{Flow, Ip, Scenario};

/// An ACK without data: headers only.
pub(super) struct Path {
    pub(super) nodes: Vec<String>,
    pub(super) mtu: u64,
    pub(super) payload: u64,
    pub(super) packet: u64,
    ack: u64,
    /// Links with what tunnels add to a packet there.
    there: Vec<(usize, Way, u64)>,
    back: Vec<(usize, Way, u64)>,
}

impl Path {
    /// The way of `flow` to one of its receivers.
    pub(super) fn new(
        scenario: &Scenario,
        router: &mut Router<'_>,
        name: &str,
        flow: &Flow,
        to: &str,
    ) -> Result<Path, Problem> {
        let [from, to] = [&flow.from, to].map(|node| number(&scenario.node, node));
        let at = |problem: Problem| Problem::new(format!("flow.{name}.to"), problem.problem);
        let mtu = path_mtu(scenario, router, from, to, flow.ip).map_err(at)?;
        let there = links(scenario, router, from, to, flow.ip, 0).map_err(at)?;
        let back = if flow.tcp.is_some() || flow.tfrc.is_some() {
            links(scenario, router, to, from, flow.ip, 0).map_err(at)?
        } else {
            Vec::new()
        };
        let headers = headers(flow);
        let longest = match (&flow.tcp, &flow.udp, &flow.video) {
            (Some(config), ..) => config.mss.get() + headers - if config.timestamps { 12 } else { 0 },
            (_, Some(udp), _) => udp.payload.get() + headers,
            (.., Some(video)) => video.payload().get() + headers,
            _ => flow.tfrc.as_ref().map_or(mtu, |tfrc| tfrc.payload.get() + headers),
        };
        let packet = longest.min(mtu);
        let nodes = nodes(scenario, from, &there);
        Ok(Path { nodes, mtu, payload: packet.saturating_sub(headers), packet, ack: headers, there, back })
    }

    /// The length of its packets on a link: data on the way there, ACKs on the way back.
    pub(super) fn packet_on(&self, link: usize, way: Way) -> Option<u64> {
        let on = |hops: &[(usize, Way, u64)], len: u64| {
            let hop = hops.iter().find(|hop| (hop.0, hop.1) == (link, way));
            hop.map(|(_, _, more)| len + more)
        };
        on(&self.there, self.packet).or_else(|| on(&self.back, self.ack))
    }

    /// The link with the least rate of payload, and that rate.
    pub(super) fn bottleneck(&self, scenario: &Scenario) -> ((usize, Way), Rate) {
        let rate = |&(link, way, more): &(usize, Way, u64)| {
            let settings = direction(&scenario.link[link], way);
            let medium = Medium::of(scenario, &scenario.link[link], way);
            let ip = medium.capacity((self.packet + more) as usize);
            let ip = settings.shaper.map_or(ip, |shaper| shaper.rate.min(ip));
            ((link, way), ip.mul_f64(self.payload as f64 / (self.packet + more).max(1) as f64))
        };
        let least = self.there.iter().map(rate).min_by_key(|(_, rate)| *rate);
        least.unwrap_or(((0, Way::Forward), Rate::default()))
    }

    /// Propagation and transmission of a full packet.
    pub(super) fn one_way(&self, scenario: &Scenario) -> Span {
        time(scenario, &self.there, self.packet)
    }

    /// The same, and of an ACK back.
    pub(super) fn min_rtt(&self, scenario: &Scenario) -> Span {
        self.one_way(scenario) + time(scenario, &self.back, self.ack)
    }
}

fn time(scenario: &Scenario, hops: &[(usize, Way, u64)], len: u64) -> Span {
    let hop = |&(link, way, more): &(usize, Way, u64)| {
        let settings = direction(&scenario.link[link], way);
        let medium = Medium::of(scenario, &scenario.link[link], way);
        settings.delay.unwrap_or_default() + medium.time((len + more) as usize)
    };
    hops.iter().map(hop).sum()
}

/// The links from node to node; those that a tunnel runs over with its header.
fn links(
    scenario: &Scenario,
    router: &mut Router<'_>,
    from: usize,
    to: usize,
    ip: Ip,
    more: u64,
) -> Result<Vec<(usize, Way, u64)>, Problem> {
    let mut all = Vec::new();
    for hop in router.path(from, to, ip).map_err(|error| Problem::new("", error.to_string()))? {
        match hop {
            Hop::Link(link, way) => all.push((link, way, more)),
            Hop::Tunnel(tunnel, way) => {
                let ends =
                    scenario.tunnel[tunnel].between.each_ref().map(|name| number(&scenario.node, name));
                let (a, b) = if way == Way::Forward { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
                all.extend(links(scenario, router, a, b, Ip::V4, more + 20)?);
            }
        }
    }
    Ok(all)
}

fn nodes(scenario: &Scenario, from: usize, hops: &[(usize, Way, u64)]) -> Vec<String> {
    let first = scenario.node.get_index(from).map(|(name, _)| name.clone());
    let next = |&(link, way, _): &(usize, Way, u64)| {
        scenario.link[link].between[usize::from(way == Way::Forward)].clone()
    };
    first.into_iter().chain(hops.iter().map(next)).collect()
}
