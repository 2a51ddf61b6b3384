//! Performance-enhancing proxy that splits TCP connections (RFC 3135).
//!
//! Models two connections back to back for each one that opens through the node: one towards the client, with the server's address,
//! and one towards the server, with the client's. Each has its own controller, windows and recovery. A full buffer closes the
//! window of the other side. An end of the stream, a reset and a refusal pass through. A crash resets all connections, as a kernel
//! does for a process that is killed.
//!
//! The content of real hosts' streams passes too; the elided data of simulated ones passes as a length.
//!
//! Half-open connections are bounded. A SYN beyond them is answered from a SYN cache (RFC 4987, section 3.5), and the server is called when
//! the client has acknowledged the answer. Where clients wait for the server's answer it is forwarded as it is, and its connection is not
//! split: it has no answer but the server's. Memory for content is shared by client.
//!
//! Does not model path MTU discovery: ICMP errors about the proxy's own segments are not evaluated.

mod behind;
pub mod kind;
pub mod metrics;
mod shares;
mod split;
mod syn_cache;
mod totals;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bentpipe_net::{Body, Cx, Element, InvalidConfig, Observer, Packet, Port, Why, ledger};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::tcp::{Flags, Segment, SeqNumber};
use rand::RngCore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::Config;
use super::connection::Connection;
use super::segment::Incoming;
pub use behind::{Behind, Leads, Prefixes};
use shares::Shares;
use split::{Ended, Split, answer_alone};
use syn_cache::{MAX_SYN, SynCache};
pub use totals::{GaveWay, PepTotals};

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
    /// Maximum number of half-open connections. Further SYNs are answered from a SYN cache, or forwarded if the server is to answer
    /// first. Default: no bound.
    pub half_open: Option<HalfOpen>,
    /// Time without a segment after which a connection is reset. Default: none.
    pub idle: Option<Span>,
    /// Memory for the content of streams. A direction of a client that has as much as is free holds at most [`RESERVE`], and other data
    /// is lost. Default: no bound.
    pub memory: Option<Bytes>,
    /// Hosts at the other end of the satellite. A connection between two of them, or two others, is not split.
    pub behind_satellite: Behind,
    /// Addresses of the node itself, whose connections are not split.
    pub own: Vec<IpAddr>,
    /// State at the start.
    pub state: PepState,
}

/// Bounds of half-open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfOpen {
    /// Maximum number with a connection to the server. A client whose SYNs wait for servers has fewer than are free.
    pub connections: usize,
    /// Entries of the SYN cache. When it is full, the oldest of the source with the most gives way.
    pub cached: usize,
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

/// Client and server of a connection, and `true` if it opened.
pub type Change = (Ends, bool);

/// Memory for the content of one direction that no other connection can take.
pub const RESERVE: u64 = 1 << 16;

/// Time in which a direction that holds content delivers [`RESERVE`], unless it is stalled.
pub const STALL: Span = Span::from_secs(60);

/// Time between looks for connections that give way.
const RELIEF_INTERVAL: Span = Span::from_secs(1);

/// Most connections that give way at a look.
const RELIEVED: usize = 8;

/// Most reports of connections that gave way which wait to be read.
const REPORTS: usize = 64;

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
    /// Half-open connections.
    half_open: Shares,
    cache: SynCache,
    memory: Shares,
    /// Time of the last look for connections that give way.
    relieved_at: Time,
    gave_way: VecDeque<GaveWay>,
    /// Connections that opened or ended, if their reader asked for it.
    changes: Option<Vec<Change>>,
    tally: Tally,
}

/// Fields of a segment that the proxy reads.
#[derive(Clone, Copy, Debug)]
struct Seen {
    src: SocketAddr,
    dst: SocketAddr,
    flags: Flags,
    seq: SeqNumber,
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
        seq: segment.seq(),
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
        let cache = SynCache::new(config.half_open.map_or(0, |bound| bound.cached));
        let half_open = Shares::new(config.half_open.map(|bound| bound.connections as u64));
        let memory = Shares::new(config.memory.map(Bytes::get));
        Ok(Pep {
            config,
            state,
            splits: HashMap::new(),
            deadlines: BTreeSet::new(),
            lingering: BTreeSet::new(),
            half_open,
            cache,
            memory,
            relieved_at: Time::ZERO,
            gave_way: VecDeque::new(),
            changes: None,
            tally: Tally::default(),
        })
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
        self.memory.total()
    }

    /// Keeps the connections that open and end, for [`Pep::take_changes`].
    pub fn keep_changes(&mut self) {
        self.changes = Some(Vec::new());
    }

    /// Returns the connections that opened (`true`) and ended since the last call, in their order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note_change(&mut self, ends: Ends, is_present: bool) {
        if let Some(changes) = &mut self.changes {
            changes.push((ends, is_present));
        }
    }

    /// Returns the connections that gave way since the last call, at most the latest 64.
    pub fn take_gave_way(&mut self) -> Vec<GaveWay> {
        self.gave_way.drain(..).collect()
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
            displaced: self.cache.displaced,
            half_open: (self.half_open.total() + self.cache.len()) as u64,
            ..gone
        }
    }

    /// Returns the bytes that the proxy has acknowledged and not delivered.
    pub fn held(&self) -> u64 {
        self.splits.values().map(Split::held).sum()
    }

    fn next(&self) -> Time {
        let first = self.deadlines.first().map_or(Time::NEVER, |(deadline, _)| *deadline);
        first.min(self.cache.deadline())
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
    fn consider(&mut self, ends: Ends, (syn, seq): (Packet, SeqNumber), cx: &mut Cx<'_>) {
        let (client, server) = ends;
        let is_behind = self.crossing(client.ip(), server.ip()).filter(|_| self.state == PepState::On);
        let Some(is_behind) = is_behind else { return self.pass(syn, cx) };
        if !self.has_room() {
            self.tally.gone.over_limit += 1;
            return self.pass(syn, cx);
        }
        let is_crowded = self.is_crowded(client.ip());
        if is_crowded && !self.config.answers_at_once {
            // An answer from the cache would come before the server's.
            self.tally.gone.unsplit += 1;
            return self.pass(syn, cx);
        }
        self.tally.ended += 1;
        if is_crowded || self.cache.contains(&ends) {
            return self.answer(ends, is_behind, (syn, seq), cx);
        }
        let split = Split::open(ends, &self.config, is_behind, syn, cx);
        self.insert(ends, split);
        self.finish(ends, cx);
    }

    /// Returns `true` if a client opens no further half-open connection.
    ///
    /// The cache is for all that come; where it is not used, a host that calls dead addresses leaves places to others.
    fn is_crowded(&self, client: IpAddr) -> bool {
        let is_full = |bound: HalfOpen| self.half_open.total() >= bound.connections;
        match self.config.answers_at_once {
            true => self.config.half_open.is_some_and(is_full),
            false => !self.half_open.has_room(client),
        }
    }

    fn insert(&mut self, ends: Ends, split: Split) {
        self.tally.gone.split += 1;
        self.note_change(ends, true);
        self.splits.insert(ends, split);
        let present = (self.splits.len() - self.lingering.len()) as u64;
        self.tally.gone.peak = self.tally.gone.peak.max(present);
    }

    /// Answers a SYN from the cache. Nothing else is kept until the client acknowledges the answer.
    fn answer(&mut self, ends: Ends, is_behind: bool, (syn, seq): (Packet, SeqNumber), cx: &mut Cx<'_>) {
        if Incoming::parse(&syn, ends.1).is_none() {
            return syn.lose(Why::Checksum);
        }
        // One with data is repeated without (RFC 7413, section 4.1.3).
        if syn.len() > MAX_SYN {
            return syn.lose(Why::Queue);
        }
        let new = cx.stream().next_u32();
        let iss = self.cache.answer(ends, syn.to_vec(), seq, new, cx.now());
        self.tally.gone.cached += 1;
        self.tally.made += 1;
        answer_alone(ends, &self.config, is_behind, (&syn, iss), cx);
        syn.recycle();
    }

    /// Opens the connection of a SYN in the cache.
    ///
    /// A segment that does not acknowledge the answer is dropped.
    fn complete(&mut self, ends: Ends, packet: Packet, cx: &mut Cx<'_>) {
        self.tally.ended += 1;
        let (client, server) = ends;
        let Some(segment) = Incoming::parse(&packet, server) else { return packet.lose(Why::Checksum) };
        let entry = self.cache.complete(&ends, &segment);
        let (Some(entry), Some(is_behind)) = (entry, self.crossing(client.ip(), server.ip())) else {
            return packet.lose(Why::NoListener);
        };
        if !self.has_room() {
            // The client takes itself for connected: a closed connection answers it with a reset.
            self.tally.gone.over_limit += 1;
            self.tally.made += 1;
            Connection::new(self.config.ground.clone(), server, NODE).receive(&packet, cx);
            return packet.recycle();
        }
        let split = Split::resume(ends, &self.config, is_behind, &entry, cx);
        self.insert(ends, split);
        self.deliver(ends, packet, true, cx);
    }

    /// Delivers a segment to its split connection.
    fn deliver(&mut self, ends: Ends, packet: Packet, is_clients: bool, cx: &mut Cx<'_>) {
        let room = if self.memory.has_room(ends.0.ip()) { u64::MAX } else { RESERVE };
        let Some(split) = self.splits.get_mut(&ends) else { return };
        if !split.deliver(packet, is_clients, room, cx) {
            self.tally.gone.no_memory += 1;
            self.make_room(ends.0.ip(), cx);
        }
        self.finish(ends, cx);
    }

    /// Resets stalled connections, after a segment of `client` had no memory.
    ///
    /// They are of the clients with the most content, which have at least as much as this one.
    fn make_room(&mut self, client: IpAddr, cx: &mut Cx<'_>) {
        if cx.now() < self.relieved_at + RELIEF_INTERVAL {
            return;
        }
        self.relieved_at = cx.now();
        let least = self.memory.of(client);
        for _ in 0..RELIEVED {
            let Some((ends, since)) = self.stalled(least, cx.now()) else { return };
            self.give_way(ends, since, cx);
        }
    }

    /// Returns the stalled connection that gives way first, and its last progress.
    fn stalled(&self, least: usize, now: Time) -> Option<(Ends, Time)> {
        let stalled = self.splits.iter().filter_map(|(ends, split)| {
            let share = self.memory.of(ends.0.ip());
            (share >= least).then_some(())?;
            Some((std::cmp::Reverse(share), split.stalled_since(now)?, *ends))
        });
        stalled.min().map(|(_, since, ends)| (ends, since))
    }

    fn give_way(&mut self, ends: Ends, since: Time, cx: &mut Cx<'_>) {
        let Some(split) = self.splits.get_mut(&ends) else { return };
        let (client, server) = ends;
        let report = GaveWay { client, server, bytes: split.content(), stalled: cx.now().since(since) };
        split.give_way(cx);
        self.remove(ends);
        if self.gave_way.len() == REPORTS {
            self.gave_way.pop_front();
        }
        self.gave_way.push_back(report);
    }

    /// Runs a split connection after an event, and removes it at its end.
    fn finish(&mut self, ends: Ends, cx: &mut Cx<'_>) {
        let Some(split) = self.splits.get_mut(&ends) else { return };
        split.run(&self.config.ground, cx);
        let content = split.content();
        self.memory.change(ends.0.ip(), std::mem::replace(&mut split.counted, content), content);
        let is_half_open = split.is_half_open();
        let was_half_open = std::mem::replace(&mut split.is_counted_half_open, is_half_open);
        self.half_open.change(ends.0.ip(), was_half_open.into(), is_half_open.into());
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
        self.note_change(ends, false);
        self.deadlines.remove(&(split.listed_at, ends));
        self.lingering.remove(&(split.listed_at, ends));
        self.memory.change(ends.0.ip(), split.counted, 0);
        self.half_open.change(ends.0.ip(), split.is_counted_half_open.into(), 0);
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
            Ended::Stalled => gone.stalled += 1,
            Ended::Cut => gone.cut += 1,
        }
    }

    /// Returns the split connection of a segment, client first.
    fn find(&self, src: SocketAddr, dst: SocketAddr) -> Option<Ends> {
        [(src, dst), (dst, src)].into_iter().find(|ends| self.splits.contains_key(ends))
    }

    /// Resets and forgets all connections.
    fn crash(&mut self, cx: &mut Cx<'_>) {
        self.cache.clear();
        let mut all: Vec<Ends> = self.splits.keys().copied().collect();
        all.sort_unstable();
        for ends in all {
            if let Some(split) = self.splits.get_mut(&ends) {
                split.cut(cx);
            }
            self.remove(ends);
        }
    }
}

/// Handling.
impl Pep {
    /// Handles a packet.
    fn take(&mut self, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let Some(Seen { src, dst, flags, seq }) = read(&packet) else {
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
        match found {
            Some(ends) => {
                self.tally.ended += 1;
                self.deliver(ends, packet, ends == (src, dst), cx);
            }
            None if is_opening => self.consider((src, dst), (packet, seq), cx),
            None if self.cache.contains(&(src, dst)) => self.complete((src, dst), packet, cx),
            None => self.pass(packet, cx),
        }
        self.next()
    }

    /// Handles a wake-up.
    fn serve(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.state == PepState::Down {
            self.crash(cx);
        }
        self.cache.expire(cx.now());
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
