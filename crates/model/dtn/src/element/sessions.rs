//! TCPCL sessions of a node of the simulator, over the project's own TCP.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{Cx, Packet, Port, Why};
use bentpipe_transport::tcp::{self, State, Stream};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::BUNDLE_PORT;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::dtn::tcpcl::refusal;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Flags, Segment};

use super::Neighbour;
use crate::node::{Arrival, Node};
use crate::session::{self, Event, Session};

/// Port of the element for the listener.
const LISTENER: Port = Port(0);
/// Port of the element for connections that it opens.
const CALLER: Port = Port(1);
/// Port numbers that connections take in turn.
pub(crate) const CALLER_PORTS: u16 = 64;
/// Time until a connection is opened again, or a neighbour without room gets another bundle.
const PAUSE: Span = Span::from_secs(1);

/// Counts of sessions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Sessions established.
    pub(super) sessions: u64,
    /// Bundles that were not known to have arrived when their session ended.
    pub(super) unfinished: u64,
    /// Parts kept of bundles whose transfer was cut.
    pub(super) parts: u64,
    /// TCP segments repeated, by connections that are gone.
    repeated: u64,
    /// Packets that belong to no connection.
    pub(super) strays: u64,
}

/// Connections with all neighbours.
pub(super) struct Sessions {
    eid: String,
    address: IpAddr,
    first_port: u16,
    calls: u16,
    tcp: tcp::Config,
    /// Set if parts of cut transfers are kept, with neighbours that keep them too.
    is_reactive: bool,
    lines: Vec<Line>,
    counts: Counts,
}

/// Connection with a neighbour.
struct Line {
    number: u64,
    /// Set if this end opens it.
    is_caller: bool,
    light_time: Span,
    is_reachable: bool,
    stream: Option<Stream>,
    session: Option<Session>,
    /// Bytes of the session that the connection has not taken.
    unsent: Vec<u8>,
    /// Bundles of transfers, and the bytes in front of their payloads.
    transfers: HashMap<u64, (u64, u64)>,
    /// Set if bytes of the transfer that arrives are acknowledged.
    is_promised: bool,
    /// Instant from which the connection may be opened.
    call_at: Time,
    paused_until: Time,
}

/// Addresses of a segment, and whether it opens a connection.
struct Seen {
    source: SocketAddr,
    destination: SocketAddr,
    is_opening: bool,
}

fn read(packet: &Packet) -> Option<Seen> {
    let bytes = packet.to_vec();
    let ip = ip::Packet::new_checked(&bytes[..]).ok()?;
    let upper = ip.upper().ok()?;
    if upper.protocol != Protocol::TCP || upper.is_fragment {
        return None;
    }
    let segment = Segment::new_checked(upper.bytes).ok()?;
    Some(Seen {
        source: SocketAddr::new(ip.src(), segment.src_port()),
        destination: SocketAddr::new(ip.dst(), segment.dst_port()),
        is_opening: segment.flags().contains(Flags::SYN) && !segment.flags().intersects(Flags::ACK),
    })
}

impl Line {
    fn new(own: u64, neighbour: &Neighbour) -> Line {
        Line {
            number: neighbour.number,
            is_caller: own < neighbour.number,
            light_time: neighbour.light_time(),
            is_reachable: false,
            stream: None,
            session: None,
            unsent: Vec::new(),
            transfers: HashMap::new(),
            is_promised: false,
            call_at: Time::ZERO,
            paused_until: Time::ZERO,
        }
    }

    /// Returns the settings of a session whose timers allow for the light time.
    fn config(&self, eid: &str, is_reactive: bool) -> session::Config {
        let config = session::Config::new(eid);
        let (late, keepalive) = (self.light_time * 2, Span::from_secs(config.keepalive.into()));
        let seconds = (keepalive + late).as_nanos().div_ceil(1_000_000_000);
        session::Config {
            keepalive: u16::try_from(seconds).unwrap_or(u16::MAX),
            handshake: config.handshake + late * 2,
            is_deferred: true,
            parts: is_reactive.then_some(session::LEAST_PART),
            is_passive: !self.is_caller,
            ..config
        }
    }

    /// Acknowledges the bytes of the transfer that arrives, if the node has room for them.
    ///
    /// They are kept even if the rest does not arrive.
    fn promise(&mut self, node: &Node) {
        let Some(session) = &mut self.session else { return };
        if let Some((transfer, len)) =
            session.incoming().map(|(transfer, data)| (transfer, data.len() as u64))
            && node.has_room(len)
        {
            session.acknowledge(transfer, len);
            self.is_promised = true;
        }
    }

    fn is_established(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_established)
    }

    /// Returns `true` if the session takes another bundle. The congestion window then has room for it.
    fn has_room(&self, now: Time) -> bool {
        let session =
            self.session.as_ref().filter(|session| session.is_established() && !session.has_unsent());
        session.is_some()
            && now >= self.paused_until
            && self.unsent.is_empty()
            && self.stream.as_ref().is_some_and(|stream| stream.writable() > 0)
    }
}

impl Sessions {
    /// Creates the connections of the node `own` at `address`, which opens them from `first_port` on.
    pub(super) fn new(
        (own, eid): (u64, String),
        (address, first_port): (IpAddr, u16),
        (tcp, is_reactive): (tcp::Config, bool),
        neighbours: &[Neighbour],
    ) -> Sessions {
        let lines = neighbours.iter().map(|neighbour| Line::new(own, neighbour)).collect();
        let counts = Counts::default();
        Sessions { eid, address, first_port, calls: 0, tcp, is_reactive, lines, counts }
    }

    /// Returns `true` if parts of cut transfers are kept.
    pub(super) fn is_reactive(&self) -> bool {
        self.is_reactive
    }

    /// Returns the counts.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of TCP segments repeated.
    pub(super) fn repeated(&self) -> u64 {
        let present: u64 =
            self.lines.iter().filter_map(|line| line.stream.as_ref()).map(Stream::retransmissions).sum();
        self.counts.repeated + present
    }

    /// Notes whether both directions to a neighbour are open. Without them its connection is forgotten.
    pub(super) fn set_reachable(&mut self, n: usize, is_reachable: bool, node: &mut Node, now: Time) {
        let line = &mut self.lines[n];
        if std::mem::replace(&mut line.is_reachable, is_reachable) && !is_reachable {
            self.forget(n, node, now);
        }
        if is_reachable {
            self.lines[n].call_at = now;
        }
    }

    /// Forgets a connection. Bundles that are not acknowledged are routed again.
    fn forget(&mut self, n: usize, node: &mut Node, now: Time) {
        if let Some(session) = &mut self.lines[n].session {
            session.disconnect();
        }
        self.handle_events(n, node, now);
        let line = &mut self.lines[n];
        let stream = line.stream.take();
        self.counts.repeated += stream.map_or(0, |stream| stream.retransmissions());
        (line.session, line.call_at) = (None, now + PAUSE);
        line.unsent.clear();
        line.transfers.clear();
        line.is_promised = false;
    }

    /// Handles a packet of a connection.
    ///
    /// # Errors
    /// Returns why it is of none.
    pub(super) fn receive(
        &mut self,
        packet: &Packet,
        neighbours: &[Neighbour],
        node: &mut Node,
        cx: &mut Cx<'_>,
    ) -> Result<(), Why> {
        let found = read(packet).ok_or(Why::Malformed).and_then(|seen| {
            let n = neighbours.iter().position(|neighbour| neighbour.address == seen.source.ip());
            // Outside its contacts a neighbour has no connection here.
            let reachable = n.filter(|n| self.lines[*n].is_reachable);
            reachable.map(|n| (n, seen)).ok_or(Why::NoListener)
        });
        let (n, seen) = found.inspect_err(|_| self.counts.strays += 1)?;
        let is_present = |stream: &Stream| {
            stream.local() == seen.destination && stream.remote().is_none_or(|remote| remote == seen.source)
        };
        if !self.lines[n].stream.as_ref().is_some_and(is_present) {
            if !seen.is_opening || seen.destination.port() != BUNDLE_PORT || self.lines[n].is_caller {
                self.counts.strays += 1;
                return Err(Why::NoListener);
            }
            // The neighbour begins again.
            self.forget(n, node, cx.now());
            let stream = Stream::listen(self.tcp.clone(), seen.destination, LISTENER);
            self.lines[n].stream = Some(stream);
        }
        let is_segment = self.lines[n].stream.as_mut().is_some_and(|stream| stream.receive(packet, cx));
        if is_segment { Ok(()) } else { Err(Why::Checksum) }
    }

    /// Opens the connection to a neighbour, if that is this end's to do.
    fn call(&mut self, n: usize, neighbour: &Neighbour, cx: &mut Cx<'_>) {
        let line = &mut self.lines[n];
        if line.is_caller && line.stream.is_none() && line.call_at <= cx.now() {
            let local = SocketAddr::new(self.address, self.first_port + self.calls % CALLER_PORTS);
            let remote = SocketAddr::new(neighbour.address, BUNDLE_PORT);
            line.stream = Some(Stream::connect(self.tcp.clone(), local, remote, CALLER, cx));
            self.calls = self.calls.wrapping_add(1);
        }
    }

    /// Runs the connection with a neighbour after an event.
    pub(super) fn run(&mut self, n: usize, neighbour: &Neighbour, node: &mut Node, cx: &mut Cx<'_>) {
        let now = cx.now();
        if !self.lines[n].is_reachable {
            return;
        }
        self.call(n, neighbour, cx);
        if let Some(stream) = self.lines[n].stream.as_mut().filter(|stream| stream.deadline() <= now) {
            stream.wake(cx);
        }
        if let Some(session) = &mut self.lines[n].session {
            session.handle_timeout(now);
        }
        self.exchange(n, node, cx);
        let line = &mut self.lines[n];
        let Some(stream) = &mut line.stream else { return };
        let is_over = line.session.as_ref().is_some_and(Session::is_ended) && line.unsent.is_empty();
        if is_over || stream.is_read_out() {
            stream.close();
        }
        stream.output(cx);
        if matches!(stream.state(), State::Closed | State::TimeWait) {
            self.forget(n, node, now);
        }
    }

    /// Moves bytes between session and connection, and bundles between session and node.
    fn exchange(&mut self, n: usize, node: &mut Node, cx: &mut Cx<'_>) {
        let now = cx.now();
        loop {
            let line = &mut self.lines[n];
            let Some(stream) = &mut line.stream else { return };
            if line.session.is_none() && matches!(stream.state(), State::Established | State::CloseWait) {
                let is_reactive = self.is_reactive && !node.makes_copies();
                line.session = Some(Session::new(line.config(&self.eid, is_reactive), now));
            }
            let line = &mut self.lines[n];
            let (Some(stream), Some(session)) = (&mut line.stream, &mut line.session) else { return };
            let arrived = stream.read();
            if !arrived.is_empty() {
                session.handle_bytes(&arrived, now);
            }
            self.handle_events(n, node, now);
            self.lines[n].promise(node);
            let is_loaded = self.load(n, node, now);
            let line = &mut self.lines[n];
            let (Some(stream), Some(session)) = (&mut line.stream, &mut line.session) else { return };
            if line.unsent.is_empty() {
                line.unsent = session.poll_output(now);
            }
            let count = stream.write(&line.unsent);
            line.unsent.drain(..count);
            // What was written may leave at once, and make room.
            stream.output(cx);
            if count == 0 && !is_loaded && stream.readable() == 0 {
                return self.handle_events(n, node, now);
            }
        }
    }

    /// Returns `true` if there was a bundle to send.
    fn load(&mut self, n: usize, node: &mut Node, now: Time) -> bool {
        let line = &mut self.lines[n];
        if !line.has_room(now) {
            return false;
        }
        let Some(session) = &mut line.session else { return false };
        let Some((id, bundle)) = node.poll_transmit(line.number, session.transfer_limit(), now) else {
            return false;
        };
        match session.send(bundle.to_vec()) {
            Some(transfer) => {
                line.transfers.insert(transfer, (id, bundle.payload_start()));
            }
            None => {
                line.paused_until = now + PAUSE;
                node.done(id, false, now);
            }
        }
        true
    }

    fn handle_events(&mut self, n: usize, node: &mut Node, now: Time) {
        let line = &mut self.lines[n];
        while let Some(event) = line.session.as_mut().and_then(Session::poll_event) {
            let (transfer, is_sent) = match event {
                Event::Established(_) => {
                    self.counts.sessions += 1;
                    continue;
                }
                Event::Received(bytes) => {
                    let arrival = Arrival::Refusable.or_promised(std::mem::take(&mut line.is_promised));
                    let verdict = take(&bytes, line.number, arrival, node, now);
                    if let Some(session) = &mut line.session {
                        match verdict {
                            Ok(()) => session.accept(),
                            Err(reason) => session.decline(reason),
                        }
                    }
                    continue;
                }
                Event::Cut(bytes) => {
                    if let Some(part) = Bundle::parse_part(&bytes) {
                        self.counts.parts += 1;
                        let arrival = Arrival::Final.or_promised(std::mem::take(&mut line.is_promised));
                        node.receive(part, line.number, arrival, now);
                    }
                    continue;
                }
                Event::Ended => continue,
                Event::Sent(transfer) => (transfer, true),
                // Sending again would be refused again.
                Event::Refused(transfer, refusal::COMPLETED | refusal::NOT_ACCEPTABLE) => (transfer, true),
                Event::Refused(transfer, _) => {
                    line.paused_until = now + PAUSE;
                    (transfer, false)
                }
                Event::Failed(transfer, kept) => {
                    self.counts.unfinished += 1;
                    if let Some((id, start)) = line.transfers.remove(&transfer) {
                        node.cut(id, kept.saturating_sub(start), now);
                    }
                    continue;
                }
            };
            if let Some((id, _)) = line.transfers.remove(&transfer) {
                node.done(id, is_sent, now);
            }
        }
    }

    /// Returns the next instant at which [`Sessions::run`] has something to do.
    pub(super) fn deadline(&self, n: usize, has_bundle: bool, now: Time) -> Time {
        let line = &self.lines[n];
        if !line.is_reachable {
            return Time::NEVER;
        }
        let Some(stream) = &line.stream else {
            return if line.is_caller { line.call_at } else { Time::NEVER };
        };
        let session = line.session.as_ref().map_or(Time::NEVER, Session::next_timeout);
        let waits = has_bundle && line.is_established() && line.paused_until > now;
        let paused = if waits { line.paused_until } else { Time::NEVER };
        stream.deadline().min(session).min(paused)
    }
}

/// Stores a bundle in the node, or returns the reason for refusing it.
fn take(bytes: &[u8], from: u64, arrival: Arrival, node: &mut Node, now: Time) -> Result<(), u8> {
    let bundle = Bundle::receive(bytes).map_err(|malformed| {
        node.reject(&malformed, now);
        refusal::NOT_ACCEPTABLE
    })?;
    let refused = node.counts().refused;
    match node.receive(bundle, from, arrival, now) {
        true => Ok(()),
        false if node.counts().refused > refused => Err(refusal::NO_RESOURCES),
        false => Err(refusal::NOT_ACCEPTABLE),
    }
}
