//! Performance-enhancing proxy that splits TCP connections (RFC 3135).
//!
//! Models two connections back to back for each one that opens through the node: one towards the client, with the server's address,
//! and one towards the server, with the client's. Each has its own controller, windows and recovery. A full buffer closes the
//! window of the other side. An end of the stream, a reset and a refusal pass through. A crash resets all connections, as a kernel
//! does for a process that is killed.
//!
//! The content of real hosts' streams passes too; the elided data of simulated ones passes as a length.
//!
//! Does not model path MTU discovery: ICMP errors about the proxy's own segments are not evaluated.

pub mod kind;
pub mod metrics;
mod split;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{Body, Cx, Element, InvalidConfig, Observer, Packet, Port};
use bentpipe_units::Time;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Flags, Segment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::Config;
use split::Split;

/// Only port: packets from and to the node.
pub(super) const NODE: Port = Port(0);

/// Settings of a [`Pep`].
#[derive(Clone, Debug, PartialEq)]
pub struct PepConfig {
    /// Connections over the satellite.
    pub satellite: Config,
    /// Connections on the ground.
    pub ground: Config,
    /// Set if the client is answered before the server has answered.
    pub answers_at_once: bool,
    /// Maximum number of split connections.
    pub connections: usize,
    /// Hosts at the other end of the satellite. A connection between two of them, or two others, is not split.
    pub behind_satellite: HashSet<IpAddr>,
    /// Addresses of the node itself, whose connections are not split.
    pub own: Vec<IpAddr>,
    /// State at the start.
    pub state: PepState,
}

/// State of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PepState {
    /// Splitting of new connections.
    #[default]
    On,
    /// Split connections continue; new ones are not split.
    Draining,
    /// Crash: connections are reset, and the bytes held are lost. All packets are forwarded as they are.
    Down,
}

/// Client and server of a connection.
type Ends = (SocketAddr, SocketAddr);

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    opened: u64,
    over_limit: u64,
    passed: u64,
    /// Segments that ended in split connections.
    ended: u64,
    /// Segments sent by ended connections.
    made: u64,
    broken: u64,
    lost: u64,
    /// Bytes of ended connections that arrived at their other end.
    relayed: u64,
}

/// TCP-splitting proxy. Port 0, in and out, carries whole IP packets.
pub struct Pep {
    config: PepConfig,
    state: PepState,
    splits: HashMap<Ends, Split>,
    deadlines: BTreeSet<(Time, Ends)>,
    /// Connections of which only TIME-WAIT is left, by its end.
    lingering: BTreeSet<(Time, Ends)>,
    tally: Tally,
}

/// Fields of a segment that the proxy reads.
#[derive(Clone, Copy, Debug)]
struct Seen {
    src: SocketAddr,
    dst: SocketAddr,
    flags: Flags,
}

/// Reads a packet; returns `None` if it is not a whole segment.
fn read(packet: &Packet) -> Option<Seen> {
    match packet.body() {
        Body::Zeros(count) => read_bytes(packet.header(), *count as usize),
        _ => read_bytes(&packet.to_vec(), 0),
    }
}

fn read_bytes(bytes: &[u8], elided: usize) -> Option<Seen> {
    let ip = ip::Packet::new_elided(bytes, elided).ok()?;
    let upper = ip.upper().ok()?;
    if upper.protocol != Protocol::TCP || upper.is_fragment {
        return None;
    }
    let segment = Segment::new_elided(upper.bytes, upper.elided).ok()?;
    Some(Seen {
        src: SocketAddr::new(ip.src(), segment.src_port()),
        dst: SocketAddr::new(ip.dst(), segment.dst_port()),
        flags: segment.flags(),
    })
}

impl Pep {
    /// Creates a proxy.
    ///
    /// # Errors
    /// Returns an error if the configuration of a side is invalid.
    pub fn new(config: PepConfig) -> Result<Pep, InvalidConfig> {
        config.satellite.check()?;
        config.ground.check()?;
        let state = config.state;
        let (splits, tally) = (HashMap::new(), Tally::default());
        Ok(Pep { config, state, splits, deadlines: BTreeSet::new(), lingering: BTreeSet::new(), tally })
    }

    /// Sets the state. A crash happens at the next wake-up.
    pub fn set_state(&mut self, state: PepState) {
        self.state = state;
    }

    /// Returns the number of split connections, those in TIME-WAIT counted.
    pub fn connections(&self) -> usize {
        self.splits.len()
    }

    /// Returns the bytes that the proxy has acknowledged and not delivered.
    pub fn held(&self) -> u64 {
        self.splits.values().map(Split::held).sum()
    }

    fn next(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |(deadline, _)| *deadline)
    }

    /// Forwards a packet as it is.
    fn pass(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        self.tally.passed += 1;
        cx.emit(NODE, packet);
    }

    /// Returns `true` if a connection between two hosts crosses the satellite at this node.
    fn is_crossing(&self, src: IpAddr, dst: IpAddr) -> bool {
        let PepConfig { behind_satellite, own, .. } = &self.config;
        behind_satellite.contains(&src) != behind_satellite.contains(&dst)
            && !own.contains(&src)
            && !own.contains(&dst)
    }

    /// Returns `true` if there is room for another connection; one in TIME-WAIT makes place.
    fn has_room(&mut self) -> bool {
        if self.splits.len() >= self.config.connections
            && let Some(&(_, oldest)) = self.lingering.first()
        {
            self.remove(oldest);
        }
        self.splits.len() < self.config.connections
    }

    /// Splits the connection that a SYN opens, if it is to be split.
    fn consider(&mut self, ends: Ends, syn: Packet, cx: &mut Cx<'_>) {
        let (client, server) = ends;
        if self.state != PepState::On || !self.is_crossing(client.ip(), server.ip()) {
            return self.pass(syn, cx);
        }
        if !self.has_room() {
            self.tally.over_limit += 1;
            return self.pass(syn, cx);
        }
        let PepConfig { satellite, ground, behind_satellite, .. } = &self.config;
        let is_behind = behind_satellite.contains(&client.ip());
        let sides = if is_behind { [satellite, ground] } else { [ground, satellite] };
        let split = Split::open(ends, sides, syn, self.config.answers_at_once, cx);
        self.tally.opened += 1;
        self.tally.ended += 1;
        self.splits.insert(ends, split);
        self.finish(ends, cx);
    }

    /// Runs a split connection after an event, and removes it at its end.
    fn finish(&mut self, ends: Ends, cx: &mut Cx<'_>) {
        let Some(split) = self.splits.get_mut(&ends) else { return };
        split.run(&self.config.ground, cx);
        let deadline = split.deadline();
        let place = (std::mem::replace(&mut split.listed_at, deadline), ends);
        self.deadlines.remove(&place);
        self.lingering.remove(&place);
        if split.is_over() {
            return self.remove(ends);
        }
        if split.is_lingering() {
            self.lingering.insert((deadline, ends));
        }
        self.deadlines.insert((deadline, ends));
    }

    fn remove(&mut self, ends: Ends) {
        let Some(split) = self.splits.remove(&ends) else { return };
        self.deadlines.remove(&(split.listed_at, ends));
        self.lingering.remove(&(split.listed_at, ends));
        self.tally.relayed += split.relayed();
        self.tally.made += split.segments_sent();
        self.tally.lost += split.held();
        self.tally.broken += u64::from(split.is_broken());
    }

    /// Returns the split connection of a segment, client first.
    fn find(&self, src: SocketAddr, dst: SocketAddr) -> Option<Ends> {
        [(src, dst), (dst, src)].into_iter().find(|ends| self.splits.contains_key(ends))
    }

    /// Resets and forgets all connections.
    fn crash(&mut self, cx: &mut Cx<'_>) {
        let mut all: Vec<Ends> = self.splits.keys().copied().collect();
        all.sort_unstable();
        for ends in all {
            if let Some(split) = self.splits.get_mut(&ends) {
                split.abort(cx);
            }
            self.remove(ends);
        }
    }
}

impl Element for Pep {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let Some(Seen { src, dst, flags }) = read(&packet) else {
            self.pass(packet, cx);
            return self.next();
        };
        let is_opening = flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK | Flags::RST);
        let mut found = self.find(src, dst);
        // The port numbers of a connection in TIME-WAIT may be used again.
        if let Some(ends) = found.filter(|ends| is_opening && self.splits[ends].is_lingering()) {
            self.remove(ends);
            found = None;
        }
        match found.and_then(|ends| Some((ends, self.splits.get_mut(&ends)?))) {
            Some((ends, split)) => {
                self.tally.ended += 1;
                split.deliver(packet, ends == (src, dst), cx);
                self.finish(ends, cx);
            }
            None if is_opening => self.consider((src, dst), packet, cx),
            None => self.pass(packet, cx),
        }
        self.next()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.state == PepState::Down {
            self.crash(cx);
        }
        while let Some(&(deadline, ends)) = self.deadlines.first()
            && deadline <= cx.now()
        {
            if let Some(split) = self.splits.get_mut(&ends) {
                split.wake(cx);
            }
            self.finish(ends, cx);
        }
        self.next()
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let relayed: u64 = self.splits.values().map(Split::relayed).sum();
        let made: u64 = self.splits.values().map(Split::segments_sent).sum();
        let present = self.splits.len() - self.lingering.len();
        observer.counter(&metrics::OPENED, self.tally.opened);
        observer.counter(&metrics::OVER_LIMIT, self.tally.over_limit);
        observer.counter(&metrics::PASSED, self.tally.passed);
        observer.counter(&metrics::ENDED, self.tally.ended);
        observer.counter(&metrics::MADE, self.tally.made + made);
        observer.counter(&metrics::BROKEN, self.tally.broken);
        observer.counter(&metrics::LOST, self.tally.lost);
        observer.counter(&metrics::RELAYED, self.tally.relayed + relayed);
        observer.gauge(&metrics::SPLIT, present as f64);
        observer.gauge(&metrics::HELD, self.held() as f64);
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
