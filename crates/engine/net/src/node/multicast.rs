//! Membership of real hosts in multicast groups: a router's side of IGMP and MLD.
//!
//! Each interface keeps the groups that hosts behind it have joined (RFC 3376, RFC 3810), asks for them as the querier, and
//! forgets them after their time. Routers report the groups of their other interfaces to each other as a host would (RFC 4605),
//! so a group is forwarded along a tree of routers to all its members. A tunnel is an interface of IPv6 (RFC 4213). Not modelled: source lists (all sources are forwarded),
//! election of a querier, timers for hosts of older versions.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use bentpipe_units::{Span, Time};
use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::membership::{self, Change, Family, Record, Repr};
use bentpipe_wire::{ipv4, ipv6};

use super::routes::key;
use super::{Node, Via, is_link_local_group, view};
use crate::{Cx, Packet, Port};

/// Interval between general queries.
const QUERY_INTERVAL: Span = Span::from_secs(125);
/// Interval between the first two general queries.
const STARTUP_QUERY_INTERVAL: Span = Span::from_millis(31_250);
/// Time that hosts have to answer a general query.
const RESPONSE_INTERVAL: Span = Span::from_secs(10);
/// Interval between group-specific queries, and between the two reports of a change.
const LAST_MEMBER_INTERVAL: Span = Span::from_secs(1);
/// Number of times that a message about a change is sent.
const ROBUSTNESS: u64 = 2;
/// Lifetime of a membership without a report.
const MEMBERSHIP_INTERVAL: Span = Span::from_secs(260);
/// Maximum number of memberships of a node.
const MAX_MEMBERSHIPS: usize = 4096;
/// Maximum number of records in a report, which then fits every link's MTU.
const MAX_RECORDS: usize = 50;

/// Neighbours of an interface with multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// A real host, or several.
    Hosts,
    /// A router, to which the other interfaces' groups are reported.
    Router,
}

/// Interface or tunnel with multicast, of one IP version.
#[derive(Clone, Copy, Debug)]
struct Interface {
    via: Via,
    family: Family,
    neighbour: Neighbour,
    is_started: bool,
}

/// Task at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// General query at the interface of this number.
    Query(usize),
    /// Query for the last members of a group.
    QueryGroup(Via, IpAddr),
    /// Report of a group's state to a router.
    Report(Via, IpAddr),
    /// End of a membership that was not refreshed.
    Expire(Via, IpAddr),
}

/// Memberships of all interfaces.
#[derive(Debug, Default)]
pub(super) struct Multicast {
    interfaces: Vec<Interface>,
    /// Ends of memberships, by interface and group.
    memberships: BTreeMap<(IpAddr, Via), Time>,
    agenda: BTreeSet<(Time, Task)>,
    /// Interfaces with a common stream for groups, each with the first of them.
    streams: BTreeMap<Port, Port>,
    /// Interfaces at which such a stream arrives.
    streamed: BTreeSet<Port>,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) refused: u64,
}

impl Multicast {
    /// Returns the time of the next task.
    pub(super) fn deadline(&self) -> Time {
        self.agenda.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Returns the first interface of an interface's stream for groups, if there is one.
    pub(super) fn stream(&self, port: Port) -> Option<Port> {
        self.streams.get(&port).copied()
    }

    /// Returns `true` if packets of a stream for groups arrive at an interface.
    pub(super) fn receives_stream(&self, port: Port) -> bool {
        self.streamed.contains(&port)
    }

    /// Returns `true` if multicast is enabled at an interface.
    pub(super) fn is_enabled(&self, port: Port) -> bool {
        self.interfaces.iter().any(|at| at.via == Via::Interface(port))
    }

    /// Returns the number of memberships.
    pub(super) fn len(&self) -> usize {
        self.memberships.len()
    }

    /// Returns the interfaces at which a group has members.
    fn of_group(&self, group: IpAddr) -> impl Iterator<Item = Via> {
        self.memberships.range((group, Via::FIRST)..=(group, Via::LAST)).map(|((_, at), _)| *at)
    }

    /// Returns `true` if a group has a member at an interface other than `via`.
    fn is_member_elsewhere(&self, group: IpAddr, via: Via) -> bool {
        self.of_group(group).any(|at| at != via)
    }

    /// Returns the groups of a family with members at interfaces other than `via`.
    fn groups_elsewhere(&self, family: Family, via: Via) -> BTreeSet<IpAddr> {
        let keys = self.memberships.keys().filter(|(group, at)| *at != via && family_of(*group) == family);
        keys.map(|(group, _)| *group).collect()
    }

    /// Schedules a message about a change as often as it is sent.
    fn repeat(&mut self, now: Time, task: Task) {
        self.agenda.extend((0..ROBUSTNESS).map(|n| (now + LAST_MEMBER_INTERVAL * n, task)));
    }

    /// Schedules reports of a change at `via` to the routers at other interfaces.
    fn announce(&mut self, group: IpAddr, via: Via, now: Time) {
        let routers: Vec<Via> = self.routers(family_of(group)).filter(|at| *at != via).collect();
        // A router knows the group already, or needs it still, because of a third interface.
        let others = |at: &Via| !self.of_group(group).any(|third| third != *at && third != via);
        let changed: Vec<Via> = routers.into_iter().filter(others).collect();
        changed.into_iter().for_each(|at| self.repeat(now, Task::Report(at, group)));
    }

    fn routers(&self, family: Family) -> impl Iterator<Item = Via> {
        let routers = self.interfaces.iter();
        let routers = routers.filter(move |at| at.neighbour == Neighbour::Router && at.family == family);
        routers.map(|at| at.via)
    }

    fn has(&self, via: Via, family: Family) -> Option<Neighbour> {
        let found = self.interfaces.iter().find(|at| at.via == via && at.family == family);
        found.map(|at| at.neighbour)
    }
}

fn family_of(group: IpAddr) -> Family {
    if group.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// Setting up.
impl Node {
    /// Enables IGMP or MLD at an interface, where this node is the querier.
    pub fn enable_multicast(&mut self, interface: Port, family: Family, neighbour: Neighbour) {
        self.enable_multicast_via(Via::Interface(interface), family, neighbour);
    }

    /// Enables MLD in a tunnel, whose other end is a router.
    pub fn enable_tunnel_multicast(&mut self, tunnel: u16) {
        self.enable_multicast_via(Via::Tunnel(tunnel), Family::V6, Neighbour::Router);
    }

    fn enable_multicast_via(&mut self, via: Via, family: Family, neighbour: Neighbour) {
        let multicast = self.multicast.get_or_insert_default();
        multicast.agenda.insert((Time::ZERO, Task::Query(multicast.interfaces.len())));
        multicast.interfaces.push(Interface { via, family, neighbour, is_started: false });
    }

    /// Sets interfaces that have a stream for groups in common: one transmission reaches all.
    pub fn share_multicast(&mut self, interfaces: &[Port]) {
        let multicast = self.multicast.get_or_insert_default();
        let Some(first) = interfaces.first() else { return };
        multicast.streams.extend(interfaces.iter().map(|interface| (*interface, *first)));
    }

    /// Enables dropping of packets for groups whose source is behind another interface.
    ///
    /// They are this node's own, which a stream for groups returns.
    pub fn refuse_echoes(&mut self, interface: Port) {
        self.multicast.get_or_insert_default().streamed.insert(interface);
    }

    /// Adds a member at an interface that never leaves. Multicast is enabled there.
    pub fn add_member(&mut self, interface: Port, group: IpAddr) {
        self.add_membership(Via::Interface(interface), group, (Time::ZERO, Time::NEVER));
    }
}

/// Membership.
impl Node {
    /// Returns `true` if the packet was a membership message, after handling it.
    pub(super) fn take_membership(&mut self, packet: &Packet, via: Via, cx: &mut Cx<'_>) -> bool {
        let Ok(ip) = view(packet) else { return false };
        let Ok(upper) = ip.upper() else { return false };
        let Some(family) = Family::of(&upper) else { return false };
        let Some(multicast) = &mut self.multicast else { return false };
        let Some(neighbour) = multicast.has(via, family) else { return false };
        let Ok(message) = family.parse(upper.bytes, &upper.pseudo) else { return false };
        multicast.received += 1;
        match message {
            Repr::Report(records) => {
                records.iter().for_each(|record| self.change_membership(*record, via, cx.now()));
            }
            Repr::Query { group } if neighbour == Neighbour::Router => {
                self.answer_query(via, family, group, cx);
            }
            Repr::Query { .. } => {}
        }
        self.run_multicast(cx);
        true
    }

    fn change_membership(&mut self, record: Record, via: Via, now: Time) {
        let group = record.group;
        if !group.is_multicast() || is_link_local_group(key(group)) {
            return;
        }
        match record.change {
            Change::Join => self.add_membership(via, group, (now, now + MEMBERSHIP_INTERVAL)),
            Change::Leave => self.question_membership(via, group, now),
        }
    }

    fn add_membership(&mut self, via: Via, group: IpAddr, (now, until): (Time, Time)) {
        let Some(multicast) = &mut self.multicast else { return };
        if let Some(end) = multicast.memberships.get_mut(&(group, via)) {
            *end = until.max(*end);
            return;
        }
        if multicast.memberships.len() >= MAX_MEMBERSHIPS {
            multicast.refused += 1;
            return;
        }
        multicast.announce(group, via, now);
        multicast.memberships.insert((group, via), until);
        multicast.agenda.insert((until, Task::Expire(via, group)));
        self.add_group_via(group, via);
    }

    /// Asks whether a group has members left at an interface.
    fn question_membership(&mut self, via: Via, group: IpAddr, now: Time) {
        let Some(multicast) = &mut self.multicast else { return };
        let Some(end) = multicast.memberships.get_mut(&(group, via)) else { return };
        let soon = now + LAST_MEMBER_INTERVAL * ROBUSTNESS;
        if !end.is_never() && soon < *end {
            *end = soon;
            multicast.repeat(now, Task::QueryGroup(via, group));
            multicast.agenda.insert((soon, Task::Expire(via, group)));
        }
    }

    /// Ends a membership, unless it was refreshed.
    fn expire(&mut self, via: Via, group: IpAddr, now: Time) {
        let Some(multicast) = &mut self.multicast else { return };
        let Some(&end) = multicast.memberships.get(&(group, via)) else { return };
        if end > now {
            multicast.agenda.insert((end, Task::Expire(via, group)));
            return;
        }
        multicast.memberships.remove(&(group, via));
        multicast.announce(group, via, now);
        self.remove_group_via(group, via);
    }

    /// Does what is due.
    pub(super) fn run_multicast(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        while let Some(task) = self.multicast.as_mut().and_then(|multicast| {
            let (at, task) = *multicast.agenda.first().filter(|(at, _)| *at <= now)?;
            multicast.agenda.remove(&(at, task));
            Some(task)
        }) {
            match task {
                Task::Query(number) => self.query(number, cx),
                Task::QueryGroup(via, group) => {
                    let repr = Repr::Query { group: Some(group) };
                    self.send_membership(via, group, &repr, LAST_MEMBER_INTERVAL, cx);
                }
                Task::Report(via, group) => {
                    let is_member =
                        self.multicast.as_ref().is_some_and(|own| own.is_member_elsewhere(group, via));
                    let change = if is_member { Change::Join } else { Change::Leave };
                    self.send_report(via, family_of(group), &[Record { group, change }], cx);
                }
                Task::Expire(via, group) => self.expire(via, group, now),
            }
        }
    }

    fn query(&mut self, number: usize, cx: &mut Cx<'_>) {
        let Some(multicast) = &mut self.multicast else { return };
        let interface = &mut multicast.interfaces[number];
        let first = !std::mem::replace(&mut interface.is_started, true);
        let next = if first { STARTUP_QUERY_INTERVAL } else { QUERY_INTERVAL };
        let Interface { via, family, .. } = *interface;
        multicast.agenda.insert((cx.now() + next, Task::Query(number)));
        if let Via::Interface(port) = via
            && multicast.stream(port).is_some_and(|first| first != port)
        {
            // The query of another interface reaches all.
            return;
        }
        let to = match family {
            Family::V4 => membership::IGMP_HOSTS.into(),
            Family::V6 => membership::MLD_HOSTS.into(),
        };
        self.send_membership(via, to, &Repr::Query { group: None }, RESPONSE_INTERVAL, cx);
    }

    fn answer_query(&mut self, via: Via, family: Family, group: Option<IpAddr>, cx: &mut Cx<'_>) {
        let Some(multicast) = &self.multicast else { return };
        let mut groups = multicast.groups_elsewhere(family, via);
        groups.retain(|own| group.is_none_or(|group| group == *own));
        let record = |group| Record { group, change: Change::Join };
        let records: Vec<Record> = groups.into_iter().map(record).collect();
        records.chunks(MAX_RECORDS).for_each(|records| self.send_report(via, family, records, cx));
    }

    fn send_report(&mut self, via: Via, family: Family, records: &[Record], cx: &mut Cx<'_>) {
        let to = match family {
            Family::V4 => membership::IGMP_ROUTERS.into(),
            Family::V6 => membership::MLD_ROUTERS.into(),
        };
        self.send_membership(via, to, &Repr::Report(records.to_vec()), Span::ZERO, cx);
    }

    fn send_membership(&mut self, via: Via, to: IpAddr, repr: &Repr, within: Span, cx: &mut Cx<'_>) {
        let Some(own) = self.address(to) else { return };
        let within_ms = u16::try_from(within.as_nanos() / 1_000_000).unwrap_or(u16::MAX);
        if let Some(multicast) = &mut self.multicast {
            multicast.sent += 1;
            let mut packet = packet(own, to, repr, within_ms);
            cx.offer(&mut packet, self.account);
            match via {
                Via::Interface(port) => cx.emit(port, packet),
                Via::Tunnel(tunnel) => self.send_through(packet, tunnel, cx),
                Via::Local | Via::Group(_) | Via::NoGroup | Via::Nowhere => {}
            }
        }
    }

    /// Adds an interface or tunnel to a multicast group.
    fn add_group_via(&mut self, group: IpAddr, via: Via) {
        match via {
            Via::Tunnel(tunnel) => self.add_group_tunnel(group, tunnel),
            Via::Interface(interface) => self.add_group_interface(group, interface),
            Via::Local | Via::Group(_) | Via::NoGroup | Via::Nowhere => {}
        }
    }

    /// Removes an interface or tunnel from a multicast group, and an empty group.
    fn remove_group_via(&mut self, group: IpAddr, via: Via) {
        let prefix = super::Prefix::host(group);
        let Some(Via::Group(number)) = self.routes.exact(prefix) else { return };
        let own = &mut self.groups[usize::from(number)];
        if let Via::Interface(interface) = via {
            let stream = self.multicast.as_ref().and_then(|multicast| multicast.stream(interface));
            if let Some(ports) = stream.and_then(|stream| own.shared.get_mut(&stream)) {
                ports.remove(&interface);
                own.shared.retain(|_, ports| !ports.is_empty());
            }
        }
        if let Some(at) = own.branches.iter().position(|branch| *branch == via) {
            own.branches.remove(at);
        }
        if own.branches.is_empty() && own.shared.is_empty() && own.members.is_empty() {
            self.routes.remove(prefix);
            self.free_groups.push(number);
        }
    }
}

/// Creates the packet of a message. It lasts one hop and has the router alert option (RFC 2113, RFC 2711).
fn packet(own: IpAddr, to: IpAddr, repr: &Repr, within_ms: u16) -> Packet {
    const ALERT_V4: [u8; 4] = [0x94, 4, 0, 0];
    const ALERT_V6: [u8; 8] = [Protocol::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0];
    let bytes = match (own, to) {
        (IpAddr::V4(own), IpAddr::V4(to)) => {
            let pseudo = Pseudo::v4(own, to, Protocol::IGMP);
            let message = repr.message(Family::V4, within_ms, &pseudo);
            let options = ipv4::Options::parse(&ALERT_V4).unwrap_or(ipv4::Options::EMPTY);
            let plain = ipv4::Repr::new(own, to, Protocol::IGMP, message.len());
            let repr = ipv4::Repr { ttl: 1, options, ..plain };
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut bytes);
            [bytes, message].concat()
        }
        (IpAddr::V6(own), IpAddr::V6(to)) => {
            let own = link_local(own);
            let message = repr.message(Family::V6, within_ms, &Pseudo::v6(own, to, Protocol::ICMPV6));
            let len = ALERT_V6.len() + message.len();
            let repr = ipv6::Repr { hop_limit: 1, ..ipv6::Repr::new(own, to, Protocol::HOP_BY_HOP, len) };
            let mut bytes = vec![0; ipv6::HEADER_LEN];
            repr.emit(&mut bytes);
            [&bytes[..], &ALERT_V6, &message].concat()
        }
        _ => unreachable!("both of one IP version"),
    };
    Packet::from_bytes(&bytes)
}

/// Returns the link-local address with the interface identifier of another address.
///
/// Hosts ignore queries from any other source (RFC 3810, section 5.1.14).
fn link_local(own: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(own.to_bits() as u64))
}

#[cfg(test)]
mod tests;
