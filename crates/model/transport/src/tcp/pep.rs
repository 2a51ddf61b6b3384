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

mod behind;
pub mod kind;
pub mod metrics;
mod split;

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{Body, Cx, Element, InvalidConfig, Observer, Packet, Port, ledger};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Flags, Segment};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::Config;
pub use behind::{Behind, Leads, Prefixes};
use split::{Ended, Split};

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
    /// MTU of the satellite, which bounds `mss` for either IP version. Default: no bound.
    pub satellite_mtu: Option<Bytes>,
    /// MTU of the ground. Default: no bound.
    pub ground_mtu: Option<Bytes>,
    /// Maximum number of split connections.
    pub connections: usize,
    /// Time without a segment after which a connection is reset. Default: none.
    pub idle: Option<Span>,
    /// Memory for the content of streams. Above it each direction has at most [`RESERVE`], and other data is lost. Default: no bound.
    pub memory: Option<Bytes>,
    /// Hosts at the other end of the satellite. A connection between two of them, or two others, is not split.
    pub behind_satellite: Behind,
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

/// Memory for the content of one direction that no other connection can take.
pub const RESERVE: u64 = 1 << 16;

/// Counts of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PepTotals {
    /// Connections split.
    pub split: u64,
    /// Connections not split because of the limit.
    pub over_limit: u64,
    /// Connections of which both directions ended.
    pub finished: u64,
    /// Connections to servers that refused or did not answer.
    pub refused: u64,
    /// Connections of which one side failed.
    pub broken: u64,
    /// Connections reset after a time without a segment.
    pub idle: u64,
    /// Connections reset by a crash.
    pub cut: u64,
    /// Present connections.
    pub present: u64,
    /// Maximum of present connections.
    pub peak: u64,
    /// Segments dropped for want of memory.
    pub no_memory: u64,
    /// Bytes delivered over the satellite.
    pub to_satellite: u64,
    /// Bytes delivered on the ground.
    pub to_ground: u64,
    /// Bytes acknowledged to their sender and lost.
    pub lost: u64,
    /// Bytes acknowledged to their sender and not delivered.
    pub held: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Totals of connections that are gone.
    gone: PepTotals,
    passed: u64,
    /// Segments that ended in split connections.
    ended: u64,
    /// Segments sent by ended connections.
    made: u64,
    broken: u64,
}

/// TCP-splitting proxy. Port 0, in and out, carries whole IP packets.
pub struct Pep {
    config: PepConfig,
    state: PepState,
    splits: HashMap<Ends, Split>,
    deadlines: BTreeSet<(Time, Ends)>,
    /// Connections of which only TIME-WAIT is left, by its end.
    lingering: BTreeSet<(Time, Ends)>,
    /// Memory of the content of all connections.
    content: usize,
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
        // The first bytes of a packet that arrived whole have all headers, but for long ones.
        Body::Bytes(bytes) => {
            read_bytes(packet.header(), bytes.len()).or_else(|| read_bytes(&packet.to_vec(), 0))
        }
        Body::Carried(_) => read_bytes(&packet.to_vec(), 0),
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
        let (deadlines, lingering) = (BTreeSet::new(), BTreeSet::new());
        Ok(Pep { config, state, splits, deadlines, lingering, content: 0, tally })
    }

    /// Sets the state. A crash happens at the next wake-up.
    pub fn set_state(&mut self, state: PepState) {
        self.state = state;
    }

    /// Returns the number of split connections, those in TIME-WAIT counted.
    pub fn connections(&self) -> usize {
        self.splits.len()
    }

    /// Replaces the hosts at the other end of the satellite, for later connections.
    pub fn set_behind_satellite(&mut self, behind: Behind) {
        self.config.behind_satellite = behind;
    }

    /// Returns the memory of the content of all connections.
    pub fn content(&self) -> usize {
        self.content
    }

    /// Returns all counts.
    pub fn totals(&self) -> PepTotals {
        let gone = self.tally.gone;
        let passed = self.splits.values().map(Split::passed);
        let [to_satellite, to_ground] = passed.fold([0, 0], |sum, new| [sum[0] + new[0], sum[1] + new[1]]);
        PepTotals {
            finished: gone.finished + self.lingering.len() as u64,
            present: (self.splits.len() - self.lingering.len()) as u64,
            to_satellite: gone.to_satellite + to_satellite,
            to_ground: gone.to_ground + to_ground,
            held: self.held(),
            ..gone
        }
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

    /// Returns `Some` if a connection crosses the satellite here. It is `true` if it leads from there to the ground.
    fn crossing(&self, src: IpAddr, dst: IpAddr) -> Option<bool> {
        let PepConfig { behind_satellite, own, .. } = &self.config;
        behind_satellite.crossing(src, dst).filter(|_| !own.contains(&src) && !own.contains(&dst))
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
        let is_behind = self.crossing(client.ip(), server.ip()).filter(|_| self.state == PepState::On);
        let Some(is_behind) = is_behind else { return self.pass(syn, cx) };
        if !self.has_room() {
            self.tally.gone.over_limit += 1;
            return self.pass(syn, cx);
        }
        let split = Split::open(ends, &self.config, is_behind, syn, cx);
        self.tally.gone.split += 1;
        self.tally.ended += 1;
        self.splits.insert(ends, split);
        let present = (self.splits.len() - self.lingering.len()) as u64;
        self.tally.gone.peak = self.tally.gone.peak.max(present);
        self.finish(ends, cx);
    }

    /// Runs a split connection after an event, and removes it at its end.
    fn finish(&mut self, ends: Ends, cx: &mut Cx<'_>) {
        let Some(split) = self.splits.get_mut(&ends) else { return };
        split.run(&self.config.ground, cx);
        let content = split.content();
        self.content = self.content + content - std::mem::replace(&mut split.counted, content);
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
        self.content -= split.counted;
        self.tally.made += split.segments_sent();
        self.tally.broken += u64::from(split.is_broken());
        let [to_satellite, to_ground] = split.passed();
        let gone = &mut self.tally.gone;
        gone.lost += split.held();
        gone.to_satellite += to_satellite;
        gone.to_ground += to_ground;
        match split.ended() {
            Ended::Finished => gone.finished += 1,
            Ended::Refused => gone.refused += 1,
            Ended::Broken => gone.broken += 1,
            Ended::Idle => gone.idle += 1,
            Ended::Cut => gone.cut += 1,
        }
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
                split.cut(cx);
            }
            self.remove(ends);
        }
    }

    /// Returns the maximum number of bytes of content that a direction may hold.
    fn room(&self) -> u64 {
        let limit = self.config.memory.map_or(u64::MAX, Bytes::get);
        if (self.content as u64) < limit { u64::MAX } else { RESERVE }
    }
}

/// Handling.
impl Pep {
    /// Handles a packet.
    fn take(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Time {
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
        let room = self.room();
        match found.and_then(|ends| Some((ends, self.splits.get_mut(&ends)?))) {
            Some((ends, split)) => {
                self.tally.ended += 1;
                let is_stored = split.deliver(packet, ends == (src, dst), room, cx);
                self.tally.gone.no_memory += u64::from(!is_stored);
                self.finish(ends, cx);
            }
            None if is_opening => self.consider((src, dst), packet, cx),
            None => self.pass(packet, cx),
        }
        self.next()
    }

    /// Handles a wake-up.
    fn serve(&mut self, cx: &mut Cx<'_>) -> Time {
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
}

impl Element for Pep {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        ledger::taking_over(|| self.take(packet, cx))
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        ledger::taking_over(|| self.serve(cx))
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let totals = self.totals();
        let made: u64 = self.splits.values().map(Split::segments_sent).sum();
        observer.counter(&metrics::OPENED, totals.split);
        observer.counter(&metrics::OVER_LIMIT, totals.over_limit);
        observer.counter(&metrics::PASSED, self.tally.passed);
        observer.counter(&metrics::ENDED, self.tally.ended);
        observer.counter(&metrics::MADE, self.tally.made + made);
        observer.counter(&metrics::BROKEN, self.tally.broken);
        observer.counter(&metrics::LOST, totals.lost);
        observer.counter(&metrics::RELAYED, totals.to_satellite + totals.to_ground);
        observer.gauge(&metrics::SPLIT, totals.present as f64);
        observer.gauge(&metrics::HELD, totals.held as f64);
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}
