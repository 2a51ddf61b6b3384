//! Bundles in DCCP packets (RFC 7122), whose rate is that of TFRC (CCID 3).
//!
//! Each direction between two nodes has a connection of its own, opened by the node that sends.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{Cx, Element, Packet, Port, Why};
use bentpipe_transport::app::Endpoints;
use bentpipe_transport::tfrc::{Receiver, Sender};
use bentpipe_units::{Bytes, Time};
use bentpipe_wire::dccp;
use bentpipe_wire::dtn::BUNDLE_PORT;
use bentpipe_wire::ip::{self, Protocol};

use super::Neighbour;
use crate::node::Node;

/// Service code of bundles (RFC 7122, section 3.2.1).
const SERVICE: u32 = 1_685_351_985;
/// Port of the element, which the ends of connections share.
const PORT: Port = Port(0);

/// Connections with all neighbours.
pub(super) struct Flows {
    address: IpAddr,
    first_port: u16,
    segment: Bytes,
    lines: Vec<Line>,
    pub(super) strays: u64,
}

/// Connections with a neighbour.
#[derive(Default)]
struct Line {
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    /// Bundles that the sender has and has not sent.
    unsent: VecDeque<u64>,
    /// Instant at which the sender wakes.
    send_at: Option<Time>,
    /// Instant at which the receiver wakes.
    report_at: Option<Time>,
}

fn read(packet: &Packet) -> Option<(IpAddr, u16)> {
    let bytes = packet.to_vec();
    let ip = ip::Packet::new_checked(&bytes[..]).ok()?;
    let upper = ip.upper().ok()?;
    let is_whole = upper.protocol == Protocol::DCCP && !upper.is_fragment;
    let view = dccp::Packet::new_elided(upper.bytes, upper.elided).ok().filter(|_| is_whole)?;
    Some((ip.src(), view.dst_port()))
}

impl Flows {
    /// Creates the connections of a node at `address`, from a port number for each neighbour.
    pub(super) fn new((address, first_port): (IpAddr, u16), segment: Bytes, neighbours: usize) -> Flows {
        let lines = std::iter::repeat_with(Line::default).take(neighbours).collect();
        Flows { address, first_port, segment, lines, strays: 0 }
    }

    /// Opens the connections with a neighbour, or forgets that of its own bundles.
    ///
    /// Bundles that were not sent are routed again. What the neighbour sent before the end of a contact still arrives.
    pub(super) fn set_reachable(&mut self, n: usize, neighbour: &Neighbour, node: &mut Node, now: Time) {
        let line = &mut self.lines[n];
        if !neighbour.is_reachable(now) {
            let gone = std::mem::take(line);
            gone.unsent.into_iter().for_each(|id| node.done(id, false, now));
            line.receiver = gone.receiver;
        } else if line.sender.is_none() {
            let source = SocketAddr::new(self.address, self.first_port + n as u16);
            let destination = SocketAddr::new(neighbour.address, BUNDLE_PORT);
            let ends = Endpoints { source, destination };
            let listener = SocketAddr::new(self.address, BUNDLE_PORT);
            *line = Line {
                // The datagram's length was checked.
                sender: Sender::of_messages(self.segment, ends, SERVICE).ok(),
                receiver: Some(Receiver::of_messages(self.segment, listener, SERVICE)),
                unsent: VecDeque::new(),
                send_at: Some(now),
                report_at: None,
            };
        }
    }

    /// Handles a packet, and returns the bundles that it brings, with their neighbour.
    pub(super) fn receive(
        &mut self,
        packet: Packet,
        neighbours: &[Neighbour],
        cx: &mut Cx<'_>,
    ) -> Vec<(u64, Vec<u8>)> {
        let found = read(&packet).and_then(|(source, port)| {
            let n = neighbours.iter().position(|neighbour| neighbour.address == source)?;
            Some((n, port))
        });
        let Some((n, port)) = found else {
            self.strays += 1;
            cx.refuse(packet, Why::NoListener);
            return Vec::new();
        };
        let line = &mut self.lines[n];
        match (&mut line.sender, &mut line.receiver) {
            (_, Some(receiver)) if port == BUNDLE_PORT => {
                line.report_at = Some(receiver.receive(PORT, packet, cx));
                let messages = std::iter::from_fn(|| receiver.take_message());
                messages.map(|message| (neighbours[n].number, message)).collect()
            }
            (Some(sender), _) => {
                line.send_at = Some(sender.receive(PORT, packet, cx));
                Vec::new()
            }
            // A report on bundles of a contact that has ended.
            (None, Some(_)) => Vec::new(),
            (None, None) => {
                self.strays += 1;
                cx.refuse(packet, Why::NoListener);
                Vec::new()
            }
        }
    }

    /// Runs the connections with a neighbour after an event.
    pub(super) fn run(&mut self, n: usize, neighbour: &Neighbour, node: &mut Node, cx: &mut Cx<'_>) {
        let now = cx.now();
        let line = &mut self.lines[n];
        if let Some(receiver) = line.receiver.as_mut().filter(|_| line.report_at.is_some_and(|at| at <= now))
        {
            line.report_at = Some(receiver.wake(cx));
        }
        let Some(sender) = &mut line.sender else { return };
        let mut is_due = line.send_at.is_some_and(|at| at <= now);
        loop {
            while neighbour.open(now).is_some()
                && sender.wants_message()
                && let Some((id, bundle)) = node.poll_transmit(neighbour.number, self.segment.get(), now)
            {
                sender.push_message(bundle.to_vec(), now);
                line.unsent.push_back(id);
                is_due = true;
            }
            if !std::mem::take(&mut is_due) {
                return;
            }
            line.send_at = Some(sender.wake(cx));
            let sent = line.unsent.len() - sender.waiting();
            line.unsent.drain(..sent).for_each(|id| node.done(id, true, now));
        }
    }

    /// Returns the next instant at which [`Flows::run`] has something to do.
    pub(super) fn deadline(&self, n: usize) -> Time {
        let line = &self.lines[n];
        let report = line.report_at.filter(|_| line.receiver.is_some()).unwrap_or(Time::NEVER);
        line.send_at.filter(|_| line.sender.is_some()).unwrap_or(Time::NEVER).min(report)
    }
}
