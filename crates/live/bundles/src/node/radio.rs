//! UDP and LTP of a node: sockets, engine, and the pace of each neighbour.

use std::io;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bentpipe_dtn::blocks::{Aggregation, Blocks, Terms};
use bentpipe_dtn::ltp::{Config, Engine, Event, Peer};
use bentpipe_dtn::node::Node;
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::dtn::KEEP_ALIVE;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::dtn::ltp::{BUNDLE_PROTOCOL, Reason, Segment, SessionId};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::file::{Neighbour, NodeLayer};
use super::waiting::Waiting;
use crate::host::host_key;

/// Datagrams taken of a socket before others have their turn.
const BATCH: usize = 1024;
/// Buffers of a socket in bytes.
const BUFFER: usize = 4 << 20;
/// Bytes of headers that a datagram has on the line: UDP and IPv4.
const HEADERS: usize = 28;
/// Bytes of LTP blocks in flight to a neighbour.
const MAX_FLIGHT: u64 = 64 << 20;
/// Maximum number of hosts that are noted in a turn.
const MAX_UNKNOWN: usize = 16;
/// Highest first serial number of LTP. It has four bytes in a segment, for which there is room.
const SERIALS: u64 = (1 << 28) - 1;
/// Time for which a neighbour may send in one batch.
const BURST: Span = Span::from_millis(5);

/// Contact at an instant: whether a neighbour can be sent to, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Opening {
    pub(crate) end: Time,
    pub(crate) rate: Rate,
    pub(crate) light_time: Span,
}

struct Target {
    number: u64,
    layer: NodeLayer,
    address: SocketAddr,
    datagram: u64,
    is_red: bool,
    margin: Span,
    aggregation: Option<Aggregation>,
    free_at: Time,
    /// Instant at which the next block of LTP may begin.
    ///
    /// It is found when the link is free, and zero before.
    block_at: Time,
    is_open: bool,
    flight: u64,
}

/// Socket of a layer.
struct Door {
    layer: NodeLayer,
    socket: UdpSocket,
    /// Address that it is connected to; `None` if it listens.
    peer: Option<SocketAddr>,
}

/// Bundle that arrived in a datagram or a block.
pub(crate) struct Arrived {
    /// Neighbour by its address or engine; 0 if unknown.
    pub(crate) from: u64,
    pub(crate) bytes: Vec<u8>,
    /// Session of LTP whose red part had it, and which can be refused.
    pub(crate) session: Option<SessionId>,
}

/// Neighbours and sockets of datagrams.
pub(crate) struct Radio {
    doors: Vec<Door>,
    targets: Vec<Target>,
    /// Datagrams of hosts that are not neighbours.
    pub(crate) waiting: Waiting,
    pub(crate) engine: Engine,
    blocks: Blocks,
    pub(crate) refused: u64,
    /// Blocks that neighbours have cancelled.
    pub(crate) refusals: u64,
    /// Neighbours that sent blocks for a client service that does not exist.
    pub(crate) unserved: Vec<u64>,
    /// Hosts whose datagrams were refused.
    pub(crate) unknown_hosts: Vec<SocketAddr>,
}

/// Returns the target of a neighbour of datagrams, and makes it known to the engine.
fn target(neighbour: &Neighbour, engine: &mut Engine) -> Option<Target> {
    let address = neighbour.at.filter(|_| is_datagram(neighbour.layer))?;
    let peer = Peer { light_time: neighbour.light_time, margin: neighbour.margin };
    engine.set_peer(neighbour.node.number, peer);
    Some(Target {
        number: neighbour.node.number,
        layer: neighbour.layer,
        address,
        datagram: neighbour.datagram.get(),
        is_red: neighbour.red,
        margin: neighbour.margin,
        aggregation: neighbour.aggregate,
        free_at: Time::ZERO,
        block_at: Time::ZERO,
        is_open: true,
        flight: 0,
    })
}

fn new_socket(at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, None)?;
    // Smaller buffers than asked for lose datagrams, as any path does.
    let _ = (socket.set_recv_buffer_size(BUFFER), socket.set_send_buffer_size(BUFFER));
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn open(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = new_socket(at)?;
    socket.bind(&SockAddr::from(at))?;
    Ok(socket.into())
}

/// Opens a socket for a peer alone, at the address of another one.
///
/// The kernel gives them to the socket that is connected to their sender. So they have a buffer that no other host fills. The port is
/// shared for this instant: a second node is to find it in use.
fn open_for(peer: SocketAddr, listening: &UdpSocket) -> io::Result<UdpSocket> {
    let listening = SockRef::from(listening);
    let at = listening.local_addr()?;
    let socket = new_socket(peer)?;
    listening.set_reuse_port(true)?;
    let opened = socket.set_reuse_port(true).and_then(|()| socket.bind(&at));
    listening.set_reuse_port(false)?;
    opened
        .and_then(|()| socket.set_reuse_port(false))
        .and_then(|()| socket.connect(&SockAddr::from(peer)))?;
    Ok(socket.into())
}

impl Radio {
    pub(crate) fn new(
        own: u64,
        (neighbours, blocks): (&[Neighbour], u32),
        (max_bundle, storage): (u64, u64),
        (seed, first): (u64, u64),
    ) -> Radio {
        let segment = neighbours
            .iter()
            .filter(|neighbour| neighbour.layer == NodeLayer::Ltp)
            .map(|neighbour| neighbour.datagram.get() as usize)
            .min();
        let config = Config {
            segment: segment.unwrap_or(1400),
            block: max_bundle + Aggregation::MAX_BYTES.get(),
            incomplete: storage,
            seed,
            first_session: Some(first),
            serials: SERIALS,
            exports: blocks as usize,
            imports: blocks as usize,
            ..Config::new(own)
        };
        let mut engine = Engine::new(config);
        let mut targets = Vec::new();
        targets.extend(neighbours.iter().filter_map(|neighbour| target(neighbour, &mut engine)));
        Radio {
            doors: Vec::new(),
            targets,
            waiting: Waiting::default(),
            engine,
            blocks: Blocks::default(),
            refused: 0,
            refusals: 0,
            unserved: Vec::new(),
            unknown_hosts: Vec::new(),
        }
    }

    /// Adds a neighbour, if it is one of datagrams.
    ///
    /// # Errors
    /// Returns an error if its socket cannot be opened.
    pub(crate) fn add(&mut self, neighbour: &Neighbour) -> io::Result<()> {
        self.targets.extend(target(neighbour, &mut self.engine));
        if neighbour.layer == NodeLayer::Ltp {
            self.engine.limit_segment(neighbour.datagram.get() as usize);
        }
        self.complete()
    }

    /// Removes a neighbour. Its blocks end without success.
    pub(crate) fn remove(&mut self, number: u64) {
        self.targets.retain(|target| target.number != number);
        let targets = &self.targets;
        let is_target =
            |door: &Door, peer| targets.iter().any(|of| of.layer == door.layer && same(of.address, peer));
        self.doors.retain(|door| door.peer.is_none_or(|peer| is_target(door, peer)));
        for session in self.blocks.sessions(number) {
            self.engine.cancel(session, Reason::Client);
        }
    }

    pub(crate) fn listen(&mut self, layer: NodeLayer, at: SocketAddr) -> io::Result<SocketAddr> {
        let socket = open(at)?;
        let local = socket.local_addr()?;
        self.doors.push(Door { layer, socket, peer: None });
        Ok(local)
    }

    /// Opens sockets for neighbours: where no listener has their layer, and for each alone.
    pub(crate) fn complete(&mut self) -> io::Result<()> {
        for n in 0..self.targets.len() {
            let Target { layer, address, .. } = self.targets[n];
            if self.socket(layer, address).is_none() {
                let any: SocketAddr =
                    if address.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
                self.listen(layer, any)?;
            }
            let is_there =
                |door: &Door| door.layer == layer && door.peer.is_some_and(|peer| same(peer, address));
            if !self.doors.iter().any(is_there) {
                // Without a way to it yet, its datagrams come by the socket of all.
                let alone = self.socket(layer, address).and_then(|shared| open_for(address, shared).ok());
                let door = |socket| Door { layer, socket, peer: Some(address) };
                self.doors.extend(alone.map(door));
            }
        }
        Ok(())
    }

    /// Returns the listening socket of a layer.
    fn socket(&self, layer: NodeLayer, to: SocketAddr) -> Option<&UdpSocket> {
        let fits = |socket: &UdpSocket| socket.local_addr().is_ok_and(|at| at.is_ipv4() == to.is_ipv4());
        let mut all = self.doors.iter().filter(|door| door.layer == layer && door.peer.is_none());
        all.find(|door| fits(&door.socket)).map(|door| &door.socket)
    }

    pub(crate) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.doors.iter().map(|door| door.socket.as_fd())
    }

    /// Receives what has arrived, in batches, and returns the bundles of neighbours.
    ///
    /// Those of other hosts wait for their turn: to read a datagram takes a tenth of the time that its bundle does.
    pub(crate) fn receive(&mut self, now: Time) -> Vec<Arrived> {
        let mut bundles = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        for Door { layer, socket, .. } in &self.doors {
            for _ in 0..BATCH {
                let (len, source) = match socket.recv_from(&mut buffer) {
                    Ok(received) => received,
                    // A neighbour that was away: its host has said so.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                    Err(_) => break,
                };
                let bytes = &buffer[..len];
                let from = sender(&self.targets, &self.blocks, (*layer, source), bytes);
                match (layer, from) {
                    _ if bytes == KEEP_ALIVE => {}
                    (NodeLayer::Udp, Some(from)) => {
                        bundles.push(Arrived { from, bytes: bytes.to_vec(), session: None });
                    }
                    (NodeLayer::Udp, None) => self.refused += self.waiting.push(host_key(source.ip()), bytes),
                    (_, Some(from)) => self.engine.handle_segment(from, bytes, now),
                    (_, None) => {
                        self.refused += 1;
                        if self.unknown_hosts.len() < MAX_UNKNOWN {
                            self.unknown_hosts.push(source);
                        }
                    }
                }
            }
        }
        self.engine.handle_timeout(now);
        bundles
    }

    /// Handles events of LTP and returns the bundles that arrived.
    pub(crate) fn events(&mut self, node: &mut Node, now: Time) -> Vec<Arrived> {
        let mut bundles = Vec::new();
        while let Some(event) = self.engine.poll_event() {
            match event {
                Event::Received { session, data, client, is_red } if client == BUNDLE_PROTOCOL => {
                    // Green data has no answer: its sender does not keep it.
                    let kept = is_red.then_some(session);
                    let arrived = |bytes| Arrived { from: session.engine, bytes, session: kept };
                    bundles.extend(split(data).map(arrived));
                }
                Event::Received { .. } => self.refused += 1,
                Event::Cancelled(session, Reason::Unreachable) => self.unserved.push(session.engine),
                event => {
                    let Some(block) = self.blocks.end(&event, node, now) else { continue };
                    if let Some(target) = self.targets.iter_mut().find(|target| target.number == block.to) {
                        target.flight -= block.len;
                    }
                    self.refusals += u64::from(matches!(event, Event::Refused(..)));
                }
            }
        }
        bundles
    }

    /// Sends what the contacts and the pace of all neighbours allow.
    pub(crate) fn transmit(&mut self, node: &mut Node, now: Time, opening: &dyn Fn(u64) -> Option<Opening>) {
        for n in 0..self.targets.len() {
            let open = opening(self.targets[n].number);
            self.follow(n, open, now);
            let Some(open) = open else { continue };
            while self.targets[n].free_at <= now + BURST {
                let Some(bytes) = self.next(n, node, open, now) else { break };
                let Target { layer, address, free_at, .. } = self.targets[n];
                let sent = self.socket(layer, address).map(|socket| socket.send_to(&bytes, address));
                // What the kernel does not take is lost as on any path.
                self.refused += u64::from(!matches!(sent, Some(Ok(_))));
                let seconds = (bytes.len() + HEADERS) as f64 / open.rate.as_bytes_per_sec();
                self.targets[n].free_at = free_at.max(now) + Span::from_secs_f64(seconds);
                self.targets[n].block_at = Time::ZERO;
            }
        }
    }

    /// Suspends or resumes the timers of a neighbour when a contact ends or begins.
    fn follow(&mut self, n: usize, open: Option<Opening>, now: Time) {
        let target = &mut self.targets[n];
        if let Some(open) = open {
            let peer = Peer { light_time: open.light_time, margin: target.margin };
            self.engine.set_peer(target.number, peer);
        }
        if open.is_some() != target.is_open {
            target.is_open = open.is_some();
            match target.is_open {
                true => self.engine.resume(target.number, now),
                false => self.engine.suspend(target.number, now),
            }
        }
    }

    /// Returns the next datagram for a neighbour.
    fn next(&mut self, n: usize, node: &mut Node, open: Opening, now: Time) -> Option<Vec<u8>> {
        let Target { number, layer, datagram, is_red, aggregation, .. } = self.targets[n];
        if layer == NodeLayer::Udp {
            let (id, bundle) = node.poll_transmit(number, datagram, now)?;
            node.done(id, true, now);
            return Some(bundle.to_vec());
        }
        let terms = Terms { to: number, is_red, aggregation, end: open.end, rate: open.rate };
        while !self.engine.has_segment(number) && self.may_start(&self.targets[n]) {
            match self.blocks.begin((&mut self.engine, node), &terms, now) {
                Ok(len) => self.targets[n].flight += len,
                Err(again) => {
                    self.targets[n].block_at = again;
                    break;
                }
            }
        }
        let segment = self.engine.poll_transmit(number, now)?;
        Some(segment)
    }

    /// Returns `true` if a bundle need not wait for the end of another's session.
    fn may_start(&self, target: &Target) -> bool {
        target.layer == NodeLayer::Udp || target.flight < MAX_FLIGHT && self.engine.has_session()
    }

    /// Returns the instant of the next transmission or timer in the present contacts.
    pub(crate) fn next_timeout(&self, node: &Node) -> Time {
        let begins = |target: &Target| match target.number {
            _ if !target.is_open => Time::NEVER,
            number if self.engine.has_segment(number) => target.free_at,
            number if !node.has_bundle(number) || !self.may_start(target) => Time::NEVER,
            _ if target.layer == NodeLayer::Udp => target.free_at,
            _ => target.free_at.max(target.block_at),
        };
        let paced = self.targets.iter().map(begins);
        paced.min().unwrap_or(Time::NEVER).min(self.engine.next_timeout())
    }
}

/// Returns the bundles of a block. ION puts several into one.
///
/// Without a structure to follow, what cannot be read is the last of them.
fn split(mut block: Vec<u8>) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(move || {
        let len = Bundle::receive_first(&block).1;
        let rest = block.split_off(len);
        Some(std::mem::replace(&mut block, rest)).filter(|bundle| !bundle.is_empty())
    })
}

/// Returns the number of an engine's first session, from random bits.
///
/// It is new at each start, and leaves room below 2^32: ION returns longer numbers cut to 32 bits.
pub(crate) fn first_session(random: u64) -> u64 {
    1 + (random >> 33)
}

pub(crate) fn is_datagram(layer: NodeLayer) -> bool {
    matches!(layer, NodeLayer::Udp | NodeLayer::Ltp)
}

/// Returns the neighbour that a datagram comes from, by its address.
///
/// Of UDP only the neighbour's own port counts: other programs of its host may send bundles too.
/// Engines of LTP such as ION's send from a port of their own. Then the host's address counts, and the engine that a segment names if
/// several neighbours have that address.
fn sender(
    targets: &[Target],
    blocks: &Blocks,
    (layer, source): (NodeLayer, SocketAddr),
    bytes: &[u8],
) -> Option<u64> {
    let of_layer = || targets.iter().filter(|target| target.layer == layer);
    if let Some(target) = of_layer().find(|target| same(target.address, source)) {
        return Some(target.number);
    }
    if layer == NodeLayer::Udp {
        return None;
    }
    let at_host: Vec<u64> =
        of_layer().filter(|target| target.address.ip() == source.ip()).map(|target| target.number).collect();
    if at_host.len() < 2 {
        return at_host.first().copied().filter(|_| at_host.len() == 1);
    }
    let session = Segment::parse(bytes).ok()?.session;
    let of_own = blocks.neighbour(session);
    of_own.or(Some(session.engine)).filter(|number| at_host.contains(number))
}

fn same(one: SocketAddr, other: SocketAddr) -> bool {
    (one.ip(), one.port()) == (other.ip(), other.port())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use bentpipe_wire::dtn::bundle::{Payload, Primary, Timestamp};
    use bentpipe_wire::dtn::eid::Eid;

    use super::*;

    fn target(number: u64, at: &str) -> Target {
        Target {
            number,
            layer: NodeLayer::Ltp,
            address: at.parse().expect("an address"),
            datagram: 1400,
            is_red: true,
            margin: Span::ZERO,
            aggregation: None,
            free_at: Time::ZERO,
            block_at: Time::ZERO,
            is_open: true,
            flight: 0,
        }
    }

    /// Returns a node with bundles for a neighbour, by their sequence numbers.
    fn node_with_bundles(to: u64, sequences: &[u64]) -> Node {
        let config = bentpipe_dtn::node::Config {
            eid: Eid::ipn(1, 0),
            storage: 1_000_000,
            reports: false,
            epoch: 800_000_000_000,
            no_route: None,
        };
        let routes = HashMap::from([(to, to)]);
        let mut node = Node::new(config, bentpipe_dtn::node::Routing::Static { routes, default: None });
        for sequence in sequences {
            let stamp = Timestamp { time: 800_000_000_000, sequence: *sequence };
            let primary = Primary::new(Eid::ipn(1, 1), Eid::ipn(to as u32, 5), stamp, 100_000);
            let bundle = Bundle { primary, blocks: vec![], payload: Payload::new(vec![7; 20]) };
            assert!(node.originate(bundle, Time::ZERO));
        }
        node
    }

    #[test]
    fn neighbours_that_send_from_other_ports_are_known_by_host_and_engine() {
        let alone = [target(2, "10.0.0.2:1113"), target(3, "10.0.0.3:1113")];
        let shared = [target(2, "10.0.0.2:1113"), target(3, "10.0.0.2:1114")];
        let mut engine = Engine::new(Config { first_session: Some(70), ..Config::new(1) });
        engine.set_peer(3, Peer { light_time: Span::ZERO, margin: Span::ZERO });
        let (mut node, mut blocks) = (node_with_bundles(3, &[1]), Blocks::default());
        let rate = Rate::from_bps(1_000_000);
        let terms = Terms { to: 3, is_red: true, aggregation: None, end: Time::NEVER, rate };
        assert!(blocks.begin((&mut engine, &mut node), &terms, Time::ZERO).is_ok());
        let from = |targets: &[Target], at: &str, bytes: &[u8]| {
            sender(targets, &blocks, (NodeLayer::Ltp, at.parse().expect("an address")), bytes)
        };
        // Red data of session 5 of engine 2, and an acknowledgement of a report in session 70 of engine 1.
        let (data, report) = ([0, 2, 5, 0, 1, 0, 1, 7], [9, 1, 70, 0, 4]);
        assert_eq!(from(&alone, "10.0.0.2:5000", &data), Some(2));
        assert_eq!(from(&alone, "10.0.0.4:1113", &data), None);
        assert_eq!(from(&shared, "10.0.0.2:1114", &data), Some(3));
        assert_eq!(from(&shared, "10.0.0.2:5000", &data), Some(2));
        assert_eq!(from(&shared, "10.0.0.2:5000", &report), Some(3));
        assert_eq!(from(&shared, "10.0.0.2:5000", &[0, 7, 5, 0, 1, 0, 1, 7]), None);
        assert_eq!(from(&shared, "10.0.0.2:5000", &[]), None);
        let datagrams = [Target { layer: NodeLayer::Udp, ..target(2, "10.0.0.2:4556") }];
        let from =
            |at: &str| sender(&datagrams, &blocks, (NodeLayer::Udp, at.parse().expect("an address")), &[]);
        assert_eq!((from("10.0.0.2:4556"), from("10.0.0.2:5000")), (Some(2), None), "another program");
    }

    #[test]
    fn a_block_may_have_several_bundles() {
        let bundle = |sequence: u64| {
            let stamp = Timestamp { time: 5, sequence };
            let primary = Primary::new(Eid::ipn(2, 1), Eid::ipn(1, 5), stamp, 1000);
            Bundle { primary, blocks: vec![], payload: Payload::new(vec![7; 20]) }.to_vec()
        };
        let block = [bundle(1), bundle(2), bundle(300), b"rest".to_vec()];
        assert_eq!(split(block.concat()).collect::<Vec<_>>(), block);
        assert_eq!(split(bundle(1)).count(), 1);
    }

    #[test]
    fn a_bundle_waits_for_a_block_without_turns_of_the_node() {
        let text = "eid = \"ipn:1.0\"\nstore = \"s\"\n[[listen]]\nlayer = \"ltp\"\nat = \"127.0.0.1:1113\"\n\
            [[neighbour]]\nnode = 2\nlayer = \"ltp\"\nat = \"127.0.0.1:1114\"\n";
        let file = super::super::NodeFile::parse(text).expect("a good file");
        let mut radio = Radio::new(1, (&file.neighbour, 1), (100_000, 1_000_000), (1, 1));
        let mut node = node_with_bundles(2, &[1, 2]);
        let open = Opening { end: Time::NEVER, rate: Rate::from_bps(1_000_000), light_time: Span::ZERO };
        while radio.next(0, &mut node, open, Time::ZERO).is_some() {}
        assert!(node.has_bundle(2), "the second one waits");
        assert!(radio.next_timeout(&node) > Time::ZERO, "until a timer of the first");
    }

    #[test]
    fn session_numbers_keep_to_32_bits() {
        for random in [0, 1, 849_000_000_000, u64::MAX] {
            assert!((1..=1 << 31).contains(&first_session(random)));
        }
    }
}
