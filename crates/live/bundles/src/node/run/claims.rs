//! Claims of peers on TCPCL to be a node.
//!
//! An identifier is what a peer says of itself. Bundles leave on a session only if more than that speaks for it, where the node file has more.

use std::net::SocketAddr;

use bentpipe_units::Time;
use bentpipe_wire::dtn::eid::Eid;

use super::super::echo::{ADMINISTRATIVE, is_own};
use super::super::file::{Neighbour, NodeId, NodeLayer};
use super::super::local::service;
use super::super::names::shown;
use super::super::peers::{Dial, Peer, Role};
use super::{Daemon, layer_name};
use crate::tls::Policy;

/// Returns `true` if an identifier names a node, and no service of it.
fn is_node(eid: &Eid) -> bool {
    match eid {
        Eid::Ipn(ipn) => ipn.service == 0,
        _ => eid.to_string().trim_end_matches('/') == eid.node().to_string().trim_end_matches('/'),
    }
}

/// Returns `true` if a peer has the address.
pub(super) fn is_there(peer: &Peer, at: SocketAddr) -> bool {
    at.ip().to_canonical() == peer.address.ip().to_canonical()
}

/// Returns `true` if a certificate speaks for a peer that says it is a neighbour.
///
/// It names the node, or no node and the host of the neighbour (RFC 9174, section 4.4.4).
pub(super) fn is_proven(peer: &Peer, neighbour: &Neighbour) -> bool {
    let address = neighbour.at.map(|at| at.ip());
    peer.connection.proves_node() || peer.connection.proves_host(neighbour.name.as_deref(), address)
}

/// Returns `true` for a service whose bundles the node answers or drops.
fn serves_itself(service: u32) -> bool {
    service != ADMINISTRATIVE && is_own(service)
}

impl Daemon {
    /// Notes who the peer is.
    pub(super) fn establish(&mut self, id: u64, node: &str, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let address = peer.address;
        let (eid, mut doubt) = (node.parse::<Eid>(), None);
        let role = match &eid {
            // One that only sends gives the node's own ID, as nodes do (RFC 9174, section 4.6): it gets no bundle.
            Ok(eid) if eid.is_at(&self.file.eid) && serves_itself(service(eid)) => {
                let service = service(eid);
                peer.connection.session.end(4);
                let line = format!(
                    "{address}: refused an application at service {service}, which the node serves itself"
                );
                return self.say_of(address, line, now);
            }
            Ok(eid) if eid.is_at(&self.file.eid) && peer.may_apply => Role::Application(service(eid)),
            _ => {
                let claim = eid.as_ref().ok().filter(|eid| !eid.is_at(&self.file.eid));
                match claim.and_then(|eid| Some((eid, NodeId::of(eid)?))) {
                    Some((eid, node)) if self.know_stated(&node, address.ip()) => {
                        let Some(peer) = self.peers.get(&id) else { return };
                        let (role, why) = self.role_of(peer, eid, node.number);
                        doubt = why;
                        role
                    }
                    _ => return self.refuse_peer(id, node, now),
                }
            }
        };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.role = role;
        let is_reactive =
            |number: u64| self.file.neighbour(number).is_none_or(|neighbour| neighbour.reactive);
        if !matches!(role, Role::Neighbour(number) if is_reactive(number)) {
            peer.connection.session.keep_whole();
        }
        match role {
            Role::Neighbour(number) => {
                self.say_of(address, format!("neighbour {} connected, {address}", self.name_of(number)), now);
                self.dials.iter_mut().filter(|dial| dial.number == number).for_each(Dial::succeed);
                if self.schedule.as_ref().is_none_or(|schedule| !schedule.contacts.contains_key(&number)) {
                    self.node.add_direct(number, now);
                }
            }
            Role::Application(service) => {
                self.say_of(address, format!("application at service {service} connected"), now);
            }
            Role::Guest(number) => {
                let why = doubt.unwrap_or_default();
                let name = self.name_of(number);
                self.say_of(
                    address,
                    format!("{address} connected as {name} and is sent nothing: {why}"),
                    now,
                );
            }
            Role::Unknown => {}
        }
    }

    /// Returns the role of a peer with the identifier, and why it is a guest.
    pub(super) fn role_of(&self, peer: &Peer, eid: &Eid, number: u64) -> (Role, Option<String>) {
        // What the node has connected to itself may name a service, as a program that receives does.
        let doubt = match is_node(eid) || peer.dialled == Some(number) {
            true => self.doubt(peer, number),
            false => Some(format!("{} is not the identifier of a node", shown(&eid.to_string()))),
        };
        match doubt {
            None => (Role::Neighbour(number), None),
            doubt => (Role::Guest(number), doubt),
        }
    }

    /// Returns the reason for which a peer gets no bundles of the node.
    pub(super) fn doubt(&self, peer: &Peer, number: u64) -> Option<String> {
        let name = self.name_of(number);
        let Some(neighbour) = self.file.neighbour(number) else {
            let is_destination = |to: &String| to.parse().is_ok_and(|node: NodeId| node.number == number);
            if self.file.routes.keys().any(is_destination) {
                return Some(format!("the node file has a route to {name}"));
            }
            let is_elsewhere = self.schedule.as_ref().is_some_and(|schedule| {
                let mut ends = schedule.plan.contacts.iter().flat_map(|contact| [contact.from, contact.to]);
                !schedule.contacts.contains_key(&number) && ends.any(|end| end == number)
            });
            if is_elsewhere {
                return Some(format!("the contact plan has {name} elsewhere"));
            }
            return self.doubt_unlisted(peer, &name);
        };
        if neighbour.layer != NodeLayer::Tcpcl {
            return Some(format!("{name} is a neighbour on {}", layer_name(neighbour.layer)));
        }
        if peer.dialled == Some(number) || is_proven(peer, neighbour) {
            return None;
        }
        let other = neighbour.at.filter(|at| !is_there(peer, *at))?;
        Some(format!("{name} is at {}", other.ip()))
    }

    /// Returns the reason for which an unlisted node gets no bundles.
    ///
    /// With a default route or copies the node file says where bundles for all nodes go. Without, a session is the only way to such a node.
    fn doubt_unlisted(&self, peer: &Peer, name: &str) -> Option<String> {
        if peer.connection.proves_node() {
            return None;
        }
        let why = match (&self.file.routing, self.file.routes.contains_key("default")) {
            (Some(_), _) => "copies go to neighbours in the node file",
            (None, true) => "the node file has a default route",
            (None, false) => return None,
        };
        Some(format!("{why}, and {name} is not a neighbour in it"))
    }

    /// Ends sessions with peers that are not believed any more.
    pub(super) fn doubt_again(&mut self) {
        let doubted = |(id, peer): (&u64, &Peer)| match peer.role {
            Role::Neighbour(number) => self.doubt(peer, number).map(|_| *id),
            _ => None,
        };
        for id in self.peers.iter().filter_map(doubted).collect::<Vec<_>>() {
            self.peers.get_mut(&id).into_iter().for_each(|peer| peer.connection.session.end(0));
        }
    }

    /// Logs the neighbours that any host can claim to be.
    pub(super) fn note_claims(&mut self) {
        let is_open = |policy| self.security.with_policy(policy).policy() != Policy::Required;
        let mut listeners = self.file.listen.iter().filter(|listen| listen.layer == NodeLayer::Tcpcl);
        let open: Vec<String> = listeners
            .clone()
            .filter(|listen| is_open(listen.tls))
            .map(|listen| listen.at.to_string())
            .collect();
        let why = match open.is_empty() {
            false => format!("TLS is not required at {}", open.join(", ")),
            true if listeners.next().is_some() && !self.security.requires_nodes() => {
                "certificates need not name a node".to_owned()
            }
            true => return,
        };
        for neighbour in &self.file.neighbour {
            if neighbour.layer == NodeLayer::Tcpcl && neighbour.at.is_none() {
                self.log.push(format!(
                    "neighbour {} has no `at`, and {why}: any host that connects with its identifier gets its bundles",
                    neighbour.node
                ));
            }
        }
    }
}
