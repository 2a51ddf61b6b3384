//! Convergence layers over connections.

use std::net::IpAddr;

use bentpipe_net::{Cx, Observer, Packet};
use bentpipe_transport::tcp;
use bentpipe_units::{Bytes, Time};

use super::Neighbour;
use super::flows::Flows;
use super::sessions::Sessions;
use crate::metrics;
use crate::node::Node;

/// Header bytes of the longest DCCP data packet beyond those of UDP.
const DCCP_HEADER: u64 = 16;

/// Connections of a node with its neighbours.
pub struct Bearer(Kind);

enum Kind {
    /// No connections: datagrams carry bundles or LTP segments.
    Datagrams,
    Sessions(Box<Sessions>),
    Flows(Box<Flows>),
}

impl Bearer {
    /// Creates no connections: datagrams carry bundles or LTP segments.
    pub fn datagrams() -> Bearer {
        Bearer(Kind::Datagrams)
    }

    /// Creates TCPCL sessions of the node `own`, whose connections it opens from `first_port` on.
    ///
    /// With `is_reactive` parts of cut transfers are kept.
    pub fn sessions(
        own: (u64, String),
        at: (IpAddr, u16),
        (tcp, is_reactive): (&tcp::Config, bool),
        neighbours: &[Neighbour],
    ) -> Bearer {
        Bearer(Kind::Sessions(Box::new(Sessions::new(own, at, (tcp.clone(), is_reactive), neighbours))))
    }

    /// Creates DCCP connections of a node, opened from a port number for each neighbour.
    pub fn flows(at: (IpAddr, u16), datagram: Bytes, neighbours: usize) -> Bearer {
        let segment = Bytes::new(datagram.get().saturating_sub(DCCP_HEADER));
        Bearer(Kind::Flows(Box::new(Flows::new(at, segment, neighbours))))
    }

    /// Returns `true` if connections carry bundles.
    pub(super) fn has_connections(&self) -> bool {
        !matches!(self.0, Kind::Datagrams)
    }

    /// Notes whether both directions to a neighbour are open.
    pub(super) fn set_reachable(&mut self, n: usize, neighbour: &Neighbour, node: &mut Node, now: Time) {
        match &mut self.0 {
            Kind::Datagrams => {}
            Kind::Sessions(sessions) => sessions.set_reachable(n, neighbour.is_reachable(now), node, now),
            Kind::Flows(flows) => flows.set_reachable(n, neighbour, node, now),
        }
    }

    /// Handles a packet, and returns the bundles that it brings, with their neighbour.
    pub(super) fn receive(
        &mut self,
        packet: Packet,
        neighbours: &[Neighbour],
        node: &mut Node,
        cx: &mut Cx<'_>,
    ) -> Vec<(u64, Vec<u8>)> {
        match &mut self.0 {
            Kind::Datagrams => Vec::new(),
            Kind::Sessions(sessions) => {
                match sessions.receive(&packet, neighbours, node, cx) {
                    Ok(()) => packet.recycle(),
                    Err(why) => cx.refuse(packet, why),
                }
                Vec::new()
            }
            Kind::Flows(flows) => flows.receive(packet, neighbours, cx),
        }
    }

    /// Runs the connections with a neighbour after an event.
    pub(super) fn run(&mut self, n: usize, neighbour: &Neighbour, node: &mut Node, cx: &mut Cx<'_>) {
        match &mut self.0 {
            Kind::Datagrams => {}
            Kind::Sessions(sessions) => sessions.run(n, neighbour, node, cx),
            Kind::Flows(flows) => flows.run(n, neighbour, node, cx),
        }
    }

    /// Returns the next instant at which [`Bearer::run`] has something to do.
    pub(super) fn deadline(&self, n: usize, has_bundle: bool, now: Time) -> Time {
        match &self.0 {
            Kind::Datagrams => Time::NEVER,
            Kind::Sessions(sessions) => sessions.deadline(n, has_bundle, now),
            Kind::Flows(flows) => flows.deadline(n),
        }
    }

    /// Returns the number of packets that belong to no connection.
    pub(super) fn strays(&self) -> u64 {
        match &self.0 {
            Kind::Datagrams => 0,
            Kind::Sessions(sessions) => sessions.counts().strays,
            Kind::Flows(flows) => flows.strays,
        }
    }

    pub(super) fn observe(&self, node: &Node, observer: &mut dyn Observer) {
        if let Kind::Sessions(sessions) = &self.0 {
            let counts = sessions.counts();
            observer.counter(&metrics::SESSIONS, counts.sessions);
            observer.counter(&metrics::UNFINISHED, counts.unfinished);
            observer.counter(&metrics::TCP_REPEATED, sessions.repeated());
            if sessions.is_reactive() {
                observer.counter(&metrics::PARTS, counts.parts);
                observer.counter(&metrics::RESUMED, node.counts().resumed);
                observer.counter(&metrics::SPARED, node.counts().spared);
            }
        }
    }
}
