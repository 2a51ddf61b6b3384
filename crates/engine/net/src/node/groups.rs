//! Packets for groups: copies for members and branches.

use std::collections::BTreeSet;

use super::fragments::is_fragment;
use super::routes::{Key, key};
use super::{Drop, Group, Node, Origin, Target, Via, is_link_local_group, take_hop, target, view};
use crate::{Cx, Packet, Port};

impl Node {
    /// Copies a packet to a group's members and branches, except where it came from.
    #[inline(never)]
    pub(super) fn distribute(
        &mut self,
        mut packet: Packet,
        via: Via,
        origin: Origin,
        destination: Key,
        cx: &mut Cx<'_>,
    ) {
        let Via::Group(group) = via else { return self.refuse(packet, Drop::NoMember, cx) };
        if self.is_echo(&packet, origin) {
            return self.refuse(packet, Drop::NoMember, cx);
        }
        let group = usize::from(group);
        let is_here = origin == Origin::Here;
        let end = self.end_of_group(group, origin, destination);
        let members = if !is_here && is_fragment(&packet) && !self.groups[group].members.is_empty() {
            let goes_on = end.is_none() && take_hop(&mut packet.clone());
            self.give_whole(packet.branch(), group, goes_on, cx);
            1
        } else {
            match self.give_members(&packet, group, origin, cx) {
                Ok(members) => members,
                Err(cause) => return self.refuse(packet, cause, cx),
            }
        };
        let has_hops = |packet: &mut Packet| is_here || take_hop(packet);
        match end.or_else(|| (!has_hops(&mut packet)).then_some(Drop::HopLimit)) {
            Some(_) if members > 0 => return packet.replaced(),
            Some(cause) => return self.refuse(packet, cause, cx),
            None => {}
        }
        for branch in 0..self.groups[group].branches.len() {
            let via = self.groups[group].branches[branch];
            if origin != Origin::Elsewhere(via) {
                self.send(packet.branch(), via, cx);
            }
        }
        if !self.groups[group].shared.is_empty() {
            self.distribute_once(&packet, group, origin, cx);
        }
        packet.replaced();
    }

    /// Returns the cause for which a group's packet goes on to no branch.
    fn end_of_group(&self, group: usize, origin: Origin, destination: Key) -> Option<Drop> {
        let Group { members, branches, shared } = &self.groups[group];
        if !members.is_empty() && branches.is_empty() && shared.is_empty() {
            return Some(Drop::NoListener);
        }
        let has_onward = branches.iter().any(|via| origin != Origin::Elsewhere(*via))
            || shared.values().any(|ports| goes_on(ports, origin));
        let stays = origin != Origin::Here && is_link_local_group(destination);
        (stays || !has_onward).then_some(Drop::NoMember)
    }

    /// Keeps a fragment for a group's members, and gives them the packet that it completes.
    ///
    /// A packet that no member takes ends here, unless it goes on to branches.
    #[cold]
    #[inline(never)]
    fn give_whole(&mut self, fragment: Packet, group: usize, goes_on: bool, cx: &mut Cx<'_>) {
        let Some(whole) = self.whole(fragment, cx.now()) else { return };
        match self.copy_to_members(&whole, group, cx) {
            Ok(0) if !goes_on => self.refuse(whole, Drop::NoListener, cx),
            Err(cause) if !goes_on => self.refuse(whole, cause, cx),
            _ => whole.replaced(),
        }
    }

    /// Sends a packet once into each stream for groups.
    #[cold]
    #[inline(never)]
    fn distribute_once(&mut self, packet: &Packet, group: usize, origin: Origin, cx: &mut Cx<'_>) {
        let streams = self.groups[group].shared.iter().filter(|(_, ports)| goes_on(ports, origin));
        let streams: Vec<Port> = streams.map(|(stream, _)| *stream).collect();
        streams.into_iter().for_each(|stream| self.send(packet.branch(), Via::Interface(stream), cx));
    }

    /// Returns `true` for a packet that a stream for groups brings back.
    fn is_echo(&mut self, packet: &Packet, origin: Origin) -> bool {
        let (Some(multicast), Origin::Elsewhere(Via::Interface(port))) = (&self.multicast, origin) else {
            return false;
        };
        if !multicast.receives_stream(port) {
            return false;
        }
        let Ok(source) = view(packet).map(|ip| ip.src()) else { return false };
        match self.routes.find(key(source)) {
            Via::Interface(towards) => towards != port && multicast.is_enabled(towards),
            _ => false,
        }
    }

    /// Copies a packet from elsewhere to a group's members and returns the number of copies.
    fn give_members(
        &mut self,
        packet: &Packet,
        group: usize,
        origin: Origin,
        cx: &mut Cx<'_>,
    ) -> Result<usize, Drop> {
        if origin == Origin::Here {
            return Ok(0);
        }
        self.copy_to_members(packet, group, cx)
    }

    fn copy_to_members(&mut self, packet: &Packet, group: usize, cx: &mut Cx<'_>) -> Result<usize, Drop> {
        let Target::Service(service, _) = target(packet)? else { return Err(Drop::BadHeader) };
        let members = self.groups[group].members.iter().filter(|(wanted, _)| *wanted == service);
        let mut give = |endpoint: Port| {
            let mut copy = packet.copy();
            cx.accept(&mut copy);
            cx.emit(endpoint, copy);
        };
        let count = members.map(|(_, endpoint)| give(*endpoint)).count();
        self.counts.delivered += count as u64;
        Ok(count)
    }
}

/// Returns `true` if an interface other than a packet's own has members.
fn goes_on(ports: &BTreeSet<Port>, origin: Origin) -> bool {
    match origin {
        Origin::Elsewhere(Via::Interface(from)) => ports.len() > 1 || !ports.contains(&from),
        _ => true,
    }
}
