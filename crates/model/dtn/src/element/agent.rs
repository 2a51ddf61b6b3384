//! Bundle node on a host of the simulator, over UDP, LTP, TCPCL or DCCP.

use std::any::Any;
use std::net::IpAddr;

use bentpipe_net::ledger::{AccountNumber, SubAccount};
use bentpipe_net::{Cx, Element, Observer, Packet, Port, Why};
use bentpipe_transport::app::{Endpoints, datagram_packet};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::KEEP_ALIVE;
use bentpipe_wire::dtn::bundle::{Bundle, UNIX_OFFSET};
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::udp;

use super::{Bearer, Neighbour};
use crate::blocks::{Aggregation, Blocks, Terms};
use crate::carry::Carry;
use crate::ltp::{self, Engine, Event, Peer};
use crate::metrics;
use crate::network::{Layer, LtpConfig, Network};
use crate::node::{Arrival, Node, Registry};

/// Port of the element for bundles in UDP datagrams, or for connections that others open.
const UDP: Port = Port(0);
/// Port of the element for LTP segments, or for connections that this node opens.
const LTP: Port = Port(1);

/// Bytes of a short block on the link, with all headers.
const SHORT_BLOCK: u64 = 100;
/// Default limits of LTP sessions, for each neighbour if they receive.
const LEAST_SESSIONS: usize = 10_000;
const MOST_SESSIONS: usize = 1_000_000;

/// Bundle node. Ports 0 and 1 are those of the convergence layer, and higher ones applications by service number.
pub struct Agent {
    node: Node,
    engine: Engine,
    neighbours: Vec<Neighbour>,
    bearer: Bearer,
    layer: Layer,
    datagram: usize,
    blocks: Blocks,
    aggregation: Option<Aggregation>,
    refused: u64,
    is_set_up: bool,
    /// Bytes of a packet, to reuse their memory.
    scratch: Vec<u8>,
    /// Account of its datagrams with bundles.
    account: AccountNumber,
}

/// Datagram for a neighbour: port, addresses, payload, and the account of its flow's bundles.
type Outgoing = (Port, Endpoints, Vec<u8>, Option<SubAccount>);

impl Agent {
    /// Creates the node with number `own`.
    pub fn new(
        own: u64,
        mut node: Node,
        (neighbours, bearer): (Vec<Neighbour>, Bearer),
        network: &Network,
    ) -> Agent {
        let datagram = network.datagram.get() as usize;
        let [exports, imports] = session_limits(&neighbours, &network.ltp);
        let config = ltp::Config {
            segment: datagram,
            tries: network.ltp.tries,
            exports,
            imports,
            ..ltp::Config::new(own)
        };
        let mut engine = Engine::new(config);
        for neighbour in &neighbours {
            let peer = Peer { light_time: neighbour.light_time(), margin: network.ltp.margin };
            engine.set_peer(neighbour.number, peer);
            node.meet(neighbour.number);
        }
        Agent {
            node,
            engine,
            neighbours,
            bearer,
            layer: network.layer,
            datagram,
            blocks: Blocks::default(),
            aggregation: network.ltp.aggregate,
            refused: 0,
            is_set_up: false,
            scratch: Vec::new(),
            account: AccountNumber::default(),
        }
    }

    /// Returns it with the account of its datagrams with bundles.
    #[must_use]
    pub fn with_account(self, account: AccountNumber) -> Agent {
        Agent { account, ..self }
    }

    /// Returns the registry of its network, if it has one.
    pub fn registry(&self) -> Option<&Registry> {
        self.node.registry()
    }

    /// Sets the registry of its network.
    pub fn register(&mut self, registry: Registry, name: &str) {
        let light_time = self.neighbours.iter().map(Neighbour::light_time).max();
        self.node.register(registry, name, light_time.unwrap_or(Span::ZERO));
    }

    /// Sends a bundle of an application, with a creation timestamp.
    fn originate(&mut self, mut bundle: Bundle, now: Time) {
        bundle.primary.timestamp = self.node.timestamp(now);
        self.node.originate(bundle, now);
    }

    /// Handles a datagram from another node.
    fn arrive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) {
        let now = cx.now();
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        packet.write_to(&mut bytes);
        match payload(&bytes) {
            Ok((source, payload)) => {
                packet.recycle();
                self.take(port, source, payload, now);
            }
            Err(why) => {
                self.refused += 1;
                cx.refuse(packet, why);
            }
        }
        self.scratch = bytes;
    }

    /// Handles the payload of a datagram.
    fn take(&mut self, port: Port, source: IpAddr, payload: &[u8], now: Time) {
        let from = self.neighbours.iter().find(|neighbour| neighbour.address == source);
        match (from.map(|neighbour| neighbour.number), port) {
            _ if payload == KEEP_ALIVE => {}
            (Some(from), LTP) => {
                self.engine.handle_segment(from, payload, now);
                self.handle_events(now);
            }
            (Some(from), _) => _ = self.receive(payload, from, Arrival::Final, now),
            (None, _) => self.refused += 1,
        }
    }

    /// Returns `true` if the storage has room for the bundles of a datagram or block. They are handled then.
    ///
    /// Without room for all bundles of a block that may be refused none is taken, so that none comes twice.
    fn receive(&mut self, mut bytes: &[u8], from: u64, arrival: Arrival, now: Time) -> bool {
        let mut is_first = true;
        while !bytes.is_empty() {
            let (bundle, len) = Bundle::receive_first(bytes);
            let bundle = match bundle {
                Ok(bundle) => bundle,
                Err(malformed) => {
                    self.refused += 1;
                    self.node.reject(&malformed, now);
                    (is_first, bytes) = (false, &bytes[len..]);
                    continue;
                }
            };
            let is_local = bundle.primary.destination.is_at(self.node.eid());
            let is_alone = is_first && len == bytes.len();
            let must_fit = is_first && !is_alone && !is_local && arrival == Arrival::Refusable;
            if must_fit && !self.node.has_room(bytes.len() as u64) {
                return false;
            }
            let refused = self.node.counts().refused;
            // The sender of a block has no answer for one of its bundles.
            let arrival = if is_alone { arrival } else { Arrival::Final };
            self.node.receive(bundle, from, arrival, now);
            if is_alone && self.node.counts().refused > refused {
                return false;
            }
            is_first = false;
            bytes = &bytes[len..];
        }
        true
    }

    fn handle_events(&mut self, now: Time) {
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::Received { session, data, is_red, .. } => {
                    let arrival = if is_red { Arrival::Refusable } else { Arrival::Final };
                    if !self.receive(&data, session.engine, arrival, now) && is_red {
                        self.engine.refuse(session);
                    }
                }
                event => {
                    self.blocks.end(&event, &mut self.node, now);
                }
            }
        }
    }

    /// Delivers what has arrived, and sends what the connections or transmitters of all neighbours take.
    fn transmit(&mut self, cx: &mut Cx<'_>) {
        // Before sending: a delivery may ask for a report.
        self.deliver(cx);
        for n in 0..self.neighbours.len() {
            if self.bearer.has_connections() {
                self.bearer.run(n, &self.neighbours[n], &mut self.node, cx);
                continue;
            }
            let now = cx.now();
            while let Some(rate) = self.neighbours[n].open(now).filter(|_| self.neighbours[n].is_free(now)) {
                let Some((port, ends, payload, within)) = self.next(n, now) else { break };
                self.neighbours[n].occupy(payload.len(), rate, now);
                let mut packet = datagram_packet(ends, payload);
                packet.set_created_at(now);
                if let Some(within) = within {
                    cx.offer_apart(&mut packet, &self.account, &within);
                }
                cx.emit(port, packet);
            }
        }
        // What connections have received meanwhile.
        self.deliver(cx);
    }

    /// Returns the next datagram for a neighbour.
    fn next(&mut self, n: usize, now: Time) -> Option<Outgoing> {
        let Neighbour { number, bundle_ends, ltp_ends, .. } = self.neighbours[n];
        if self.layer == Layer::Udp {
            let (id, bundle) = self.node.poll_transmit(number, self.datagram as u64, now)?;
            let within = self.node.datagrams_of(id);
            self.node.done(id, true, now);
            return Some((UDP, bundle_ends, bundle.to_vec(), within));
        }
        if !self.engine.has_segment(number) && self.engine.has_session() {
            self.load(n, now);
        }
        let segment = self.engine.poll_transmit(number, now);
        self.handle_events(now);
        segment.map(|segment| (LTP, ltp_ends, segment, None))
    }

    /// Begins a block for a neighbour, if it is time to.
    fn load(&mut self, n: usize, now: Time) {
        let neighbour = &mut self.neighbours[n];
        let Some(contact) = neighbour.contact(now) else { return };
        let terms = Terms {
            to: neighbour.number,
            is_red: self.layer == Layer::Ltp,
            aggregation: self.aggregation,
            end: contact.end,
            rate: contact.rate,
        };
        let begun = self.blocks.begin((&mut self.engine, &mut self.node), &terms, now);
        neighbour.block_at = begun.err().unwrap_or(now);
    }

    /// Delivers bundles to the applications, by their service numbers.
    fn deliver(&mut self, cx: &mut Cx<'_>) {
        while let Some(bundle) = self.node.poll_delivery() {
            if let Eid::Ipn(ipn) = &bundle.primary.destination
                && let Ok(service @ 2..) = u16::try_from(ipn.service)
            {
                self.node.note_delivery(&bundle, cx.now());
                cx.emit(Port(service), Packet::carrying(0, Box::new(Carry(bundle))));
            }
        }
    }

    /// Handles the beginning and end of contacts.
    fn change_contacts(&mut self, now: Time) {
        let mut has_changed = !self.is_set_up;
        for (n, neighbour) in self.neighbours.iter_mut().enumerate() {
            if neighbour.pop_changes(now) || !self.is_set_up {
                has_changed = true;
                self.bearer.set_reachable(n, neighbour, &mut self.node, now);
                match neighbour.is_reachable(now) {
                    true => self.engine.resume(neighbour.number, now),
                    false => self.engine.suspend(neighbour.number, now),
                }
            }
        }
        self.is_set_up = true;
        if has_changed {
            self.node.reroute(now);
        }
    }

    fn next_wake(&self, now: Time) -> Time {
        let waits_until = |neighbour: &Neighbour| match neighbour.number {
            number if self.engine.has_segment(number) => now,
            number if !self.node.has_bundle(number) => Time::NEVER,
            _ if self.layer == Layer::Udp => now,
            _ if self.engine.has_session() => neighbour.block_at,
            _ => Time::NEVER,
        };
        let mut next = self.node.next_timeout().min(self.engine.next_timeout());
        for (n, neighbour) in self.neighbours.iter().enumerate() {
            next = next.min(neighbour.next_change());
            if self.bearer.has_connections() {
                next = next.min(self.bearer.deadline(n, self.node.has_bundle(neighbour.number), now));
            } else {
                next = next.min(waits_until(neighbour).max(neighbour.next_free(now)));
            }
        }
        next
    }
}

/// Returns the maximum numbers of LTP sessions that send and that receive.
///
/// By default they are as many as short blocks fill the round trips to all neighbours.
pub(crate) fn session_limits(neighbours: &[Neighbour], ltp: &LtpConfig) -> [usize; 2] {
    let count = neighbours.len().max(1);
    if let Some(given) = ltp.sessions {
        return [given as usize, given as usize * count];
    }
    let bytes = neighbours.iter().map(|neighbour| neighbour.in_flight(ltp.margin));
    let [own, back] = bytes.fold([0_u64; 2], |sum, bytes| [0, 1].map(|n| sum[n].saturating_add(bytes[n])));
    [(own, 1), (back, count)].map(|(bytes, count)| {
        ((bytes / SHORT_BLOCK) as usize).clamp(LEAST_SESSIONS * count, MOST_SESSIONS * count)
    })
}

/// Returns the source and the payload of a UDP datagram whose checksum is valid.
///
/// # Errors
/// Returns why there is none.
fn payload(bytes: &[u8]) -> Result<(IpAddr, &[u8]), Why> {
    let packet = ip::Packet::new_checked(bytes).map_err(|_| Why::Malformed)?;
    let upper = packet.upper().map_err(|_| Why::Malformed)?;
    if upper.protocol != Protocol::UDP || upper.is_fragment {
        return Err(Why::NoListener);
    }
    let datagram = udp::Datagram::new_checked(upper.bytes).map_err(|_| Why::Malformed)?;
    datagram.verify_checksum(&upper.pseudo).map_err(|_| Why::Checksum)?;
    let start = upper.offset + udp::HEADER_LEN;
    Ok((packet.src(), &bytes[start..start + datagram.payload_len()]))
}

impl Element for Agent {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if port.0 > LTP.0 {
            if let Some(carry) = packet.into_carried::<Carry>() {
                self.originate(carry.0, now);
            }
        } else if self.bearer.has_connections() {
            for (from, bundle) in self.bearer.receive(packet, &self.neighbours, &mut self.node, cx) {
                self.receive(&bundle, from, Arrival::Final, now);
            }
        } else {
            self.arrive(port, packet, cx);
        }
        self.transmit(cx);
        self.next_wake(now)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.change_contacts(now);
        if self.node.next_timeout() <= now {
            self.node.handle_timeout(now);
        }
        if self.engine.next_timeout() <= now {
            self.engine.handle_timeout(now);
            self.handle_events(now);
        }
        self.transmit(cx);
        self.next_wake(now)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let (counts, (stored, bytes)) = (self.node.counts(), self.node.stored());
        observer.gauge(&metrics::STORED, stored as f64);
        observer.gauge(&metrics::STORED_BYTES, bytes as f64);
        observer.counter(&metrics::ORIGINATED, counts.originated);
        observer.counter(&metrics::RECEIVED, counts.received);
        observer.counter(&metrics::FORWARDED, counts.forwarded);
        observer.counter(&metrics::DELIVERED, counts.delivered);
        observer.counter(&metrics::EXPIRED, counts.expired);
        observer.counter(&metrics::EVICTED, counts.evicted);
        observer.counter(&metrics::REFUSED, counts.refused);
        observer.counter(
            &metrics::MALFORMED,
            counts.malformed + counts.unsupported + self.refused + self.bearer.strays(),
        );
        observer.counter(&metrics::HOP_LIMIT, counts.hop_limit);
        observer.counter(&metrics::TOO_LONG, counts.too_long);
        observer.counter(&metrics::REROUTED, counts.rerouted);
        observer.counter(&metrics::FRAGMENTS, counts.fragments);
        observer.counter(&metrics::REPORTS, counts.reports);
        if self.node.makes_copies() {
            observer.counter(&metrics::DUPLICATES, counts.duplicates);
        }
        if self.bearer.has_connections() {
            return self.bearer.observe(&self.node, observer);
        }
        let ltp = self.engine.counts();
        observer.counter(&metrics::LTP_SENT, ltp.data_sent);
        observer.counter(&metrics::LTP_REPEATED, ltp.data_repeated);
        observer.counter(&metrics::LTP_REPORTS, ltp.reports_sent);
        observer.counter(&metrics::LTP_TIMEOUTS, ltp.timeouts);
        observer.counter(&metrics::LTP_FAILED, ltp.failed);
    }

    fn set_date(&mut self, start: Span) {
        self.node.set_epoch((start.as_nanos() / 1_000_000).saturating_sub(UNIX_OFFSET * 1000));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
