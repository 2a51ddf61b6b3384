//! FQ-CoDel (RFC 8290): CoDel in each of many flows, which take turns.
//!
//! Not modelled: Linux's `ce_threshold` and `memory_limit`; a flow that arrives inside a tunnel is that of the tunnel.

use std::collections::VecDeque;
use std::hash::Hasher;
use std::net::IpAddr;

use bentpipe_units::{Bytes, RandomStream, Span, Time};
use bentpipe_wire::ip;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Counts, Law, Parameters, Serving, limits};
use super::tally::Tally;
use super::timed::Timed;
use super::{Discipline, OTHER_KIND, Queue};
use crate::hash::{Map, Mixer};
use crate::node::ports;
use crate::{InvalidConfig, Observer, Packet, Why};

/// Most packets that a full queue drops at once (RFC 8290, 4.1).
const BATCH: usize = 64;

/// Most flows that a queue has.
const MOST_FLOWS: u32 = 65_536;

/// FQ-CoDel with the defaults of RFC 8290 and of Linux's `tc fq_codel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Number of flows, by a hash of addresses, protocol and ports. Default: 1024.
    #[schemars(range(min = 1, max = 65_536))]
    pub flows: u32,
    /// Bytes that a flow may send in its turn. Default: "1500 B", a full packet; Linux's 1514 B count Ethernet's header.
    pub quantum: Bytes,
    /// Sojourn time that may persist in a flow. At least the time of a packet on the line. Default: "5 ms".
    pub target: Span,
    /// Time above `target` before the first drop, about the longest round trip.
    /// Default: "100 ms".
    pub interval: Span,
    /// Maximum number of waiting packets of all flows. Default: 10240.
    pub packets: u32,
    /// Maximum number of waiting bytes of all flows, counted as IP packets. Default: no limit.
    pub bytes: Option<Bytes>,
    /// Enables ECN marking instead of drops for ECN-capable transports. Default: true.
    pub ecn: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            flows: 1024,
            quantum: Bytes::new(1500),
            target: Span::from_millis(5),
            interval: Span::from_millis(100),
            packets: 10_240,
            bytes: None,
            ecn: true,
        }
    }
}

impl Config {
    fn law(&self) -> Result<Parameters, InvalidConfig> {
        InvalidConfig::ensure((1..=MOST_FLOWS).contains(&self.flows), "flows", "1 to 65536")?;
        let is_quantum = (1..=1 << 24).contains(&self.quantum.get());
        InvalidConfig::ensure(is_quantum, "quantum", "1 B to 16 MiB")?;
        Parameters::new(self.target, self.interval, self.ecn)
    }
}

/// List in which a flow takes its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    None,
    New,
    Old,
}

/// Packets of the flows with one hash.
#[derive(Debug, Default)]
struct Flow {
    waiting: Timed,
    law: Law,
    list: List,
    /// Bytes that it may still send in this turn.
    credits: i64,
}

/// An FQ-CoDel queue.
#[derive(Debug)]
pub struct FqCoDel {
    parameters: Parameters,
    quantum: i64,
    hashes: u32,
    limits: (usize, u64),
    flows: Vec<Flow>,
    /// Places of flows by their hash. A flow takes room from its first packet on.
    places: Map<u32, u32>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    tally: Tally,
    counts: Counts,
    largest: u64,
}

impl FqCoDel {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<FqCoDel, InvalidConfig> {
        Ok(FqCoDel {
            parameters: config.law()?,
            quantum: config.quantum.get() as i64,
            hashes: config.flows,
            limits: limits(config.packets, config.bytes),
            flows: Vec::new(),
            places: Map::default(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            tally: Tally::default(),
            counts: Counts::default(),
            largest: 0,
        })
    }

    /// Returns the place of a packet's flow.
    fn place(&mut self, packet: &Packet) -> u32 {
        let hash = (hash(packet) % u64::from(self.hashes)) as u32;
        let flows = &mut self.flows;
        *self.places.entry(hash).or_insert_with(|| {
            flows.push(Flow::default());
            flows.len() as u32 - 1
        })
    }

    /// Drops half of the longest flow, 64 packets at most.
    ///
    /// Several at once, since all flows are looked at for the longest.
    fn make_room(&mut self, now: Time) {
        let Some(longest) = self.flows.iter_mut().max_by_key(|flow| flow.waiting.bytes()) else { return };
        for _ in 0..longest.waiting.packets().div_ceil(2).min(BATCH) {
            let Some((packet, _)) = longest.waiting.pop(now) else { return };
            self.tally.leave(packet.len(), now);
            self.counts.limit += 1;
            packet.lose(Why::Queue);
        }
    }

    fn is_full(&self) -> bool {
        self.tally.packets() > self.limits.0 || self.tally.bytes() > self.limits.1
    }

    /// Returns the flow whose turn it is, and gives those without credits their next quantum.
    fn turn(&mut self) -> Option<u32> {
        loop {
            let list = if self.new.is_empty() { &mut self.old } else { &mut self.new };
            let place = *list.front()?;
            let flow = &mut self.flows[place as usize];
            if flow.credits > 0 {
                return Some(place);
            }
            flow.credits += self.quantum;
            flow.list = List::Old;
            list.pop_front();
            self.old.push_back(place);
        }
    }

    /// Ends the turn of a flow of which nothing waits.
    ///
    /// A new one is kept among the old for a round: otherwise its packets, at the right rate, would always go first (RFC 8290, 4.2).
    fn end_turn(&mut self, place: u32) {
        let flow = &mut self.flows[place as usize];
        if flow.list == List::New {
            self.new.pop_front();
            if !self.old.is_empty() {
                flow.list = List::Old;
                return self.old.push_back(place);
            }
        } else {
            self.old.pop_front();
        }
        flow.list = List::None;
    }
}

/// Returns the hash of addresses, protocol and ports. Packets that are not IP have one in common.
fn hash(packet: &Packet) -> u64 {
    let header = packet.header();
    let elided = packet.len() - header.len();
    let Ok(ip) = ip::Packet::new_elided(header, elided) else { return 0 };
    let mut mixer = Mixer::default();
    for address in [ip.src(), ip.dst()] {
        match address {
            IpAddr::V4(address) => mixer.write_u32(address.into()),
            IpAddr::V6(address) => mixer.write_u128(address.into()),
        }
    }
    let Ok(upper) = ip.upper() else { return mixer.finish() };
    // Fragments are one flow of their addresses, since later ones have no ports.
    let (from, to) = ports(upper.protocol, upper.bytes, upper.is_fragment);
    mixer.write_u64(u64::from(upper.protocol.0) << 32 | u64::from(from) << 16 | u64::from(to));
    mixer.finish()
}

impl Queue for FqCoDel {
    fn enqueue(&mut self, packet: Packet, now: Time, _stream: &mut RandomStream) {
        let (len, place) = (packet.len(), self.place(&packet));
        self.largest = self.largest.max(len as u64);
        self.tally.arrive(len, now);
        let flow = &mut self.flows[place as usize];
        flow.waiting.push(packet, now);
        if flow.list == List::None {
            (flow.list, flow.credits) = (List::New, self.quantum);
            self.new.push_back(place);
        }
        while self.is_full() {
            self.make_room(now);
        }
    }

    fn pass(&mut self, packet: Packet, _: Time, _: Time, _: &mut RandomStream) -> Option<Packet> {
        Some(packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        loop {
            let place = self.turn()?;
            let flow = &mut self.flows[place as usize];
            let (waiting, tally, counts) = (&mut flow.waiting, &mut self.tally, &mut self.counts);
            // As in Linux, the bytes that may always wait are compared with those of all flows.
            let mut serving = Serving { now, waiting, tally, counts, largest: self.largest };
            match flow.law.serve(&self.parameters, &mut serving) {
                Some(packet) => {
                    flow.credits -= packet.len() as i64;
                    return Some(packet);
                }
                None => self.end_turn(place),
            }
        }
    }

    fn packets(&self) -> usize {
        self.tally.packets()
    }

    fn bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Changes the parameters. Waiting packets stay with their flows, so the number of these may not change.
    fn set(&mut self, discipline: &Discipline, _now: Time) -> Result<(), InvalidConfig> {
        let Discipline::FqCoDel(config) = discipline else { return Err(OTHER_KIND) };
        InvalidConfig::ensure(config.flows == self.hashes, "flows", "the number that the queue has")?;
        self.parameters = config.law()?;
        self.quantum = config.quantum.get() as i64;
        self.limits = limits(config.packets, config.bytes);
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        self.counts.observe(observer);
        self.tally.observe(now, observer);
    }
}

#[cfg(test)]
mod tests;
