//! Convergence layers over connections.

use std::net::IpAddr;

use bentpipe_net::{Cx, Observer, Packet};
use bentpipe_transport::tcp;
use bentpipe_units::Time;

use super::Neighbour;
use super::sessions::Sessions;
use crate::metrics;
use crate::node::Node;

/// Connections of a node with its neighbours.
pub struct Bearer(Kind);

enum Kind {
    /// No connections: datagrams carry bundles or LTP segments.
    Datagrams,
    Sessions(Box<Sessions>),
}

impl Bearer {
    /// Creates no connections: datagrams carry bundles or LTP segments.
    pub fn datagrams() -> Bearer {
        Bearer(Kind::Datagrams)
    }

    /// Creates TCPCL sessions of the node `own`, whose connections it opens from `first_port` on.
    pub fn sessions(
        own: (u64, String),
        at: (IpAddr, u16),
        tcp: &tcp::Config,
        neighbours: &[Neighbour],
    ) -> Bearer {
        Bearer(Kind::Sessions(Box::new(Sessions::new(own, at, tcp.clone(), neighbours))))
    }

    /// Returns `true` if connections carry bundles.
    pub(super) fn has_connections(&self) -> bool {
        !matches!(self.0, Kind::Datagrams)
    }

    /// Notes whether both directions to a neighbour are open.
    pub(super) fn set_reachable(&mut self, n: usize, neighbour: &Neighbour, node: &mut Node, now: Time) {
        if let Kind::Sessions(sessions) = &mut self.0 {
            sessions.set_reachable(n, neighbour.is_reachable(now), node, now);
        }
    }

    /// Handles a packet for a connection.
    pub(super) fn receive(
        &mut self,
        packet: Packet,
        neighbours: &[Neighbour],
        node: &mut Node,
        cx: &mut Cx<'_>,
    ) {
        if let Kind::Sessions(sessions) = &mut self.0 {
            sessions.receive(&packet, neighbours, node, cx);
        }
        packet.recycle();
    }

    /// Runs the connections with a neighbour after an event.
    pub(super) fn run(&mut self, n: usize, neighbour: &Neighbour, node: &mut Node, cx: &mut Cx<'_>) {
        if let Kind::Sessions(sessions) = &mut self.0 {
            sessions.run(n, neighbour, node, cx);
        }
    }

    /// Returns the next instant at which [`Bearer::run`] has something to do.
    pub(super) fn deadline(&self, n: usize, has_bundle: bool, now: Time) -> Time {
        match &self.0 {
            Kind::Datagrams => Time::NEVER,
            Kind::Sessions(sessions) => sessions.deadline(n, has_bundle, now),
        }
    }

    /// Returns the number of packets that belong to no connection.
    pub(super) fn strays(&self) -> u64 {
        match &self.0 {
            Kind::Datagrams => 0,
            Kind::Sessions(sessions) => sessions.counts().strays,
        }
    }

    pub(super) fn observe(&self, observer: &mut dyn Observer) {
        if let Kind::Sessions(sessions) = &self.0 {
            let counts = sessions.counts();
            observer.counter(&metrics::SESSIONS, counts.sessions);
            observer.counter(&metrics::UNFINISHED, counts.unfinished);
            observer.counter(&metrics::TCP_REPEATED, sessions.repeated());
        }
    }
}
