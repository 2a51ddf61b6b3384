//! Classes by DSCP with guaranteed rates, ceilings, priorities and weights.
//!
//! They are what Linux's `htb`, `prio` and `drr` have apart. Modelled: the leaves of HTB under one root. A class within its rate is served before those that exceed theirs; these share
//! what is left up to their ceilings, by priority and then by deficit round robin. Each class has a discipline. Not modelled:
//! classes within classes, HTB's hysteresis and its limit of events per call.
//!
//! References: M. Devera, "HTB user guide" (2002); M. Shreedhar and G. Varghese, "Efficient fair queueing using deficit round
//! robin" (SIGCOMM 1995); RFC 2474.

use std::collections::{BTreeSet, VecDeque};

use bentpipe_units::{Bytes, RandomStream, Rate, Time};
use bentpipe_wire::ip;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tally::Tally;
use super::{Discipline, Dscps, Leaf, OTHER_KIND, Queue};
use crate::queue::metrics;
use crate::{InvalidConfig, Observer, Packet};

mod bucket;

use bucket::Bucket;

/// Most classes of a queue.
pub const MOST_CLASSES: usize = 16;

/// Number of priorities, 0 first.
const PRIORITIES: usize = 8;

/// Bytes of a turn of a class of weight 1: a full packet.
const QUANTUM: i64 = 1500;

/// Classes by DSCP with rates, ceilings, priorities and weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Classes, 1 to 16. One has no `dscp`: it takes the packets of no other.
    #[schemars(length(min = 1, max = 16))]
    pub class: Vec<Class>,
    /// Ceiling of all classes together, counted as IP packets. Default: none, as much as the line takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceil: Option<Rate>,
    /// Bytes that all classes may send at once after a pause. Default: "1600 B".
    #[serde(default = "default_burst")]
    pub cburst: Bytes,
}

/// Class of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Class {
    /// Name under which it is reported: a letter, then letters, digits, `-` and `_`.
    pub name: String,
    /// DSCPs of its packets. Default: those of no other class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dscp: Option<Dscps>,
    /// Priority from 0 to 7; 0 is served first. Default: 0.
    #[serde(default)]
    #[schemars(range(min = 0, max = 7))]
    pub priority: u8,
    /// Share of what classes of one priority send beyond their rates, relative to the others. Default: 1.
    /// It is the number of full packets (1500 B) of a turn.
    #[serde(default = "default_weight")]
    #[schemars(range(min = 1, max = 1000))]
    pub weight: u32,
    /// Guaranteed rate, counted as IP packets.
    /// Up to it the class is served before those that exceed theirs.
    /// Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Ceiling, counted as IP packets, even while the line is idle. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceil: Option<Rate>,
    /// Bytes that it may send within its rate at once after a pause. Default: "1600 B".
    #[serde(default = "default_burst")]
    pub burst: Bytes,
    /// Bytes that it may send within its ceiling at once after a pause. Default: "1600 B".
    #[serde(default = "default_burst")]
    pub cburst: Bytes,
    /// Discipline of its packets. Default: drop tail of 1000 packets.
    #[serde(default)]
    pub queue: Leaf,
}

fn default_weight() -> u32 {
    1
}

fn default_burst() -> Bytes {
    Bytes::new(1600)
}

impl Class {
    /// Creates a class of this name and these codepoints, with defaults for the rest.
    pub fn new(name: &str, dscp: Option<Dscps>) -> Class {
        Class {
            name: name.to_owned(),
            dscp,
            priority: 0,
            weight: 1,
            rate: None,
            ceil: None,
            burst: default_burst(),
            cburst: default_burst(),
            queue: Leaf::default(),
        }
    }

    fn validate(&self) -> Result<(), InvalidConfig> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let is_name =
            self.name.starts_with(|c: char| c.is_ascii_alphabetic()) && self.name.chars().all(is_word);
        InvalidConfig::ensure(is_name, "name", "a letter, then letters, digits, \"-\" and \"_\"")?;
        let has_priority = usize::from(self.priority) < PRIORITIES;
        InvalidConfig::ensure(has_priority, "priority", "0 to 7; 0 is served first")?;
        InvalidConfig::ensure((1..=1000).contains(&self.weight), "weight", "1 to 1000")?;
        let is_rate = |rate: Option<Rate>| rate.is_none_or(|rate| rate.as_bps() > 0);
        InvalidConfig::ensure(is_rate(self.rate), "rate", "more than zero")?;
        InvalidConfig::ensure(is_rate(self.ceil), "ceil", "more than zero")?;
        let is_above = self.ceil.is_none_or(|ceil| self.rate.is_none_or(|rate| rate <= ceil));
        InvalidConfig::ensure(is_above, "ceil", "at least `rate`")
    }
}

impl Config {
    /// Returns the class of packets with a DSCP.
    pub fn class_of(&self, dscp: u8) -> Option<&Class> {
        let own = self.class.iter().find(|class| class.dscp.is_some_and(|dscps| dscps.contains(dscp)));
        own.or_else(|| self.class.iter().find(|class| class.dscp.is_none()))
    }

    /// Returns the sum of the guaranteed rates.
    pub fn guaranteed(&self) -> Rate {
        let rates = self.class.iter().filter_map(|class| class.rate);
        Rate::from_bps(rates.fold(0, |sum, rate| rate.as_bps().saturating_add(sum)))
    }

    fn validate(&self) -> Result<(), InvalidConfig> {
        let is_number = (1..=MOST_CLASSES).contains(&self.class.len());
        InvalidConfig::ensure(is_number, "class", "1 to 16 classes")?;
        InvalidConfig::ensure(self.ceil.is_none_or(|ceil| ceil.as_bps() > 0), "ceil", "more than zero")?;
        let others = self.class.iter().filter(|class| class.dscp.is_none()).count();
        InvalidConfig::ensure(others == 1, "class", "one class without `dscp`, for all other packets")?;
        for (n, class) in self.class.iter().enumerate() {
            let at = |error: InvalidConfig| error.inside(n + 1).inside("class");
            class.validate().map_err(at)?;
            let earlier = &self.class[..n];
            let is_new = earlier.iter().all(|other| other.name != class.name);
            InvalidConfig::ensure(is_new, "name", "a name of its own").map_err(at)?;
            let is_apart = |other: &Class| !(0..64).any(|dscp| has(other, dscp) && has(class, dscp));
            InvalidConfig::ensure(earlier.iter().all(is_apart), "dscp", "DSCPs of no other class")
                .map_err(at)?;
        }
        Ok(())
    }

    /// Returns the number of the class of each DSCP.
    fn table(&self) -> [u8; 64] {
        let others = self.class.iter().position(|class| class.dscp.is_none()).unwrap_or(0);
        std::array::from_fn(|dscp| {
            self.class.iter().position(|class| has(class, dscp as u8)).unwrap_or(others) as u8
        })
    }
}

fn has(class: &Class, dscp: u8) -> bool {
    class.dscp.is_some_and(|dscps| dscps.contains(dscp))
}

/// Band of classes that may send, in the order of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Band {
    /// Within the guaranteed rate.
    Rate,
    /// Beyond it, with what others leave.
    Ceil,
}

const BANDS: [Band; 2] = [Band::Rate, Band::Ceil];

/// Rights of a class at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// Empty queue, or ceiling exceeded.
    Out,
    /// Up to the ceiling.
    Ceil,
    /// Within the guaranteed rate, and up to the ceiling.
    Rate,
}

impl Standing {
    /// Returns `true` if the class is in the rings of a band.
    ///
    /// A class within its rate keeps its place among those that borrow.
    fn is_in(self, band: Band) -> bool {
        match band {
            Band::Rate => self == Standing::Rate,
            Band::Ceil => self != Standing::Out,
        }
    }
}

/// A class at work.
struct Member {
    name: String,
    leaf: Leaf,
    queue: Box<dyn Queue>,
    priority: usize,
    quantum: i64,
    /// Guaranteed rate and ceiling.
    rate: Option<Bucket>,
    ceil: Option<Bucket>,
    /// Bytes that it may still send in its turn, in each band.
    credits: [i64; 2],
    standing: Standing,
    /// Instant at which its standing changes by itself.
    timer: Time,
    /// Instant at which its last packet left.
    idle_since: Time,
    arrived: u64,
    sent: u64,
    sent_bytes: u64,
}

impl Member {
    fn new(class: &Class) -> Result<Member, InvalidConfig> {
        let full = |rate, burst| Bucket::full(rate, burst, Time::ZERO);
        Ok(Member {
            name: class.name.clone(),
            leaf: class.queue,
            queue: class.queue.build().map_err(|error| error.inside("queue"))?,
            priority: class.priority.into(),
            quantum: QUANTUM * i64::from(class.weight),
            rate: class.rate.map(|rate| full(rate, class.burst)),
            ceil: class.ceil.map(|ceil| full(ceil, class.cburst)),
            credits: [0; 2],
            standing: Standing::Out,
            timer: Time::NEVER,
            idle_since: Time::ZERO,
            arrived: 0,
            sent: 0,
            sent_bytes: 0,
        })
    }

    fn load(&self) -> (usize, u64) {
        (self.queue.packets(), self.queue.bytes())
    }

    /// Returns its standing if a packet waits, and the end of that standing.
    fn right(&self, now: Time) -> (Standing, Time) {
        let ready = |bucket: &Option<Bucket>| bucket.as_ref().map_or(Time::NEVER, Bucket::ready);
        let (rate, ceil) = (ready(&self.rate), if self.ceil.is_some() { ready(&self.ceil) } else { now });
        if ceil > now {
            (Standing::Out, ceil)
        } else if rate > now {
            (Standing::Ceil, rate)
        } else {
            (Standing::Rate, Time::NEVER)
        }
    }

    /// Pays for a packet. What a class borrows does not reduce what it is guaranteed.
    fn pay(&mut self, len: usize, band: Band, now: Time) {
        if let Some(rate) = self.rate.as_mut().filter(|_| band == Band::Rate) {
            rate.take(len, now);
        }
        if let Some(ceil) = &mut self.ceil {
            ceil.take(len, now);
        }
        self.idle_since = now;
        self.sent += 1;
        self.sent_bytes += len as u64;
    }

    fn dropped(&self) -> u64 {
        self.arrived - self.sent - self.queue.packets() as u64
    }
}

/// A queue of classes.
pub struct Classes {
    members: Vec<Member>,
    /// Number of the class of each DSCP.
    table: [u8; 64],
    /// Class of packets that are not IP.
    others: u8,
    root: Option<Bucket>,
    /// Classes that may send, by band and priority.
    rings: [[VecDeque<u8>; PRIORITIES]; 2],
    /// Number of classes in the rings.
    able: usize,
    /// Classes with packets that get into another ring, with the instant.
    timers: BTreeSet<(Time, u8)>,
    tally: Tally,
}

impl Classes {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<Classes, InvalidConfig> {
        config.validate()?;
        let build = |(n, class): (usize, &Class)| {
            Member::new(class).map_err(|error| error.inside(n + 1).inside("class"))
        };
        let others = config.class.iter().position(|class| class.dscp.is_none());
        Ok(Classes {
            members: config.class.iter().enumerate().map(build).collect::<Result<_, _>>()?,
            table: config.table(),
            others: others.unwrap_or(0) as u8,
            root: config.ceil.map(|ceil| Bucket::full(ceil, config.cburst, Time::ZERO)),
            rings: Default::default(),
            able: 0,
            timers: BTreeSet::new(),
            tally: Tally::default(),
        })
    }

    /// Returns the number of a packet's class.
    fn class(&self, packet: &Packet) -> u8 {
        let elided = packet.len() - packet.header().len();
        let ip = ip::Packet::new_elided(packet.header(), elided);
        ip.map_or(self.others, |ip| self.table[usize::from(ip.traffic_class().dscp())])
    }

    /// Sets the standing of a class, and its timer.
    fn place(&mut self, n: u8, now: Time) {
        let member = &mut self.members[usize::from(n)];
        let (standing, timer) = if member.queue.packets() > 0 {
            member.right(now)
        } else {
            member.credits = member.credits.map(|credits| credits.min(0));
            (Standing::Out, Time::NEVER)
        };
        self.set_timer(n, timer);
        self.set_standing(n, standing);
    }

    fn set_timer(&mut self, n: u8, timer: Time) {
        let member = &mut self.members[usize::from(n)];
        if member.timer == timer {
            return;
        }
        if !member.timer.is_never() {
            self.timers.remove(&(member.timer, n));
        }
        if !timer.is_never() {
            self.timers.insert((timer, n));
        }
        member.timer = timer;
    }

    fn set_standing(&mut self, n: u8, standing: Standing) {
        let member = &mut self.members[usize::from(n)];
        let before = std::mem::replace(&mut member.standing, standing);
        if before == standing {
            return;
        }
        self.able = self.able + usize::from(standing != Standing::Out) - usize::from(before != Standing::Out);
        for band in BANDS {
            let ring = &mut self.rings[band as usize][member.priority];
            match (before.is_in(band), standing.is_in(band)) {
                (true, false) => ring.retain(|other| *other != n),
                // A turn that was interrupted goes on.
                (false, true) if member.credits[band as usize] > 0 => ring.push_front(n),
                (false, true) => ring.push_back(n),
                _ => {}
            }
        }
    }

    /// Moves the classes whose standing has changed by now.
    fn catch_up(&mut self, now: Time) {
        while let Some((_, n)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.place(n, now);
        }
    }

    /// Returns the class whose turn it is, with its band. It is the first of its ring.
    ///
    /// A turn begins with a quantum, and ends without credits. One that begins with a large debt is left out.
    fn turn(&mut self) -> Option<(u8, Band)> {
        for band in BANDS {
            let rings = &mut self.rings[band as usize];
            let Some(ring) = rings.iter_mut().find(|ring| !ring.is_empty()) else { continue };
            while let Some(n) = ring.front().copied() {
                let member = &mut self.members[usize::from(n)];
                let credits = &mut member.credits[band as usize];
                if *credits <= 0 {
                    *credits += member.quantum;
                }
                if *credits > 0 {
                    return Some((n, band));
                }
                ring.rotate_left(1);
            }
        }
        None
    }

    /// Pays for a packet of a turn, and ends a turn without credits.
    fn send(&mut self, n: u8, band: Band, len: usize, now: Time) {
        let member = &mut self.members[usize::from(n)];
        member.pay(len, band, now);
        let credits = &mut member.credits[band as usize];
        *credits -= len as i64;
        if *credits <= 0 {
            self.rings[band as usize][member.priority].rotate_left(1);
        }
        self.pay_root(len, now);
    }

    fn pay_root(&mut self, len: usize, now: Time) {
        if let Some(root) = &mut self.root {
            root.take(len, now);
        }
    }

    fn root_ready(&self) -> Time {
        self.root.as_ref().map_or(Time::ZERO, Bucket::ready)
    }

    /// Changes the disciplines of all classes, or of none if one refuses.
    fn set_leaves(&mut self, config: &Config, now: Time) -> Result<(), InvalidConfig> {
        for (n, class) in config.class.iter().enumerate() {
            let Err(error) = self.members[n].queue.set(&class.queue.into(), now) else { continue };
            for member in &mut self.members[..n] {
                member.queue.set(&member.leaf.into(), now)?;
            }
            return Err(error.inside("queue").inside(n + 1).inside("class"));
        }
        for (member, class) in self.members.iter_mut().zip(&config.class) {
            member.leaf = class.queue;
        }
        Ok(())
    }

    /// Enqueues an arrival in its class.
    fn put(&mut self, n: u8, packet: Packet, now: Time, stream: &mut RandomStream) {
        let member = &mut self.members[usize::from(n)];
        let before = member.load();
        member.arrived += 1;
        member.queue.enqueue(packet, now, stream);
        let after = member.load();
        self.tally.change(before, after, now);
        if (before.0 == 0) != (after.0 == 0) {
            self.place(n, now);
        }
    }
}

impl Queue for Classes {
    fn enqueue(&mut self, packet: Packet, now: Time, stream: &mut RandomStream) {
        self.put(self.class(&packet), packet, now, stream);
    }

    fn pass(
        &mut self,
        packet: Packet,
        now: Time,
        idle_since: Time,
        stream: &mut RandomStream,
    ) -> Option<Packet> {
        let n = self.class(&packet);
        let is_held = self.root_ready() > now;
        let member = &mut self.members[usize::from(n)];
        let band = match member.right(now).0 {
            Standing::Rate if !is_held => Band::Rate,
            Standing::Ceil if !is_held => Band::Ceil,
            _ => {
                self.put(n, packet, now, stream);
                return None;
            }
        };
        member.arrived += 1;
        let packet = member.queue.pass(packet, now, member.idle_since.min(idle_since), stream)?;
        member.pay(packet.len(), band, now);
        self.pay_root(packet.len(), now);
        Some(packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        if self.root_ready() > now {
            return None;
        }
        self.catch_up(now);
        while let Some((n, band)) = self.turn() {
            let member = &mut self.members[usize::from(n)];
            let before = member.load();
            let packet = member.queue.dequeue(now);
            let after = member.load();
            self.tally.change(before, after, now);
            if let Some(packet) = &packet {
                self.send(n, band, packet.len(), now);
            }
            self.place(n, now);
            // A discipline may drop all that waits.
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    fn ready(&self) -> Time {
        let class = if self.able > 0 { Some(Time::ZERO) } else { self.timers.first().map(|(at, _)| *at) };
        class.map_or(Time::NEVER, |class| class.max(self.root_ready()))
    }

    fn packets(&self) -> usize {
        self.tally.packets()
    }

    fn bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Changes the parameters of the same classes. Debts stay, and tokens up to the new bursts.
    fn set(&mut self, discipline: &Discipline, now: Time) -> Result<(), InvalidConfig> {
        let Discipline::Classes(config) = discipline else { return Err(OTHER_KIND) };
        config.validate()?;
        let names = self.members.iter().map(|member| &member.name);
        let is_same = names.eq(config.class.iter().map(|class| &class.name));
        InvalidConfig::ensure(is_same, "class", "the classes that the queue has, by their names")?;
        self.set_leaves(config, now)?;
        for (member, class) in self.members.iter_mut().zip(&config.class) {
            member.quantum = QUANTUM * i64::from(class.weight);
            set_bucket(&mut member.rate, class.rate, class.burst, now);
            set_bucket(&mut member.ceil, class.ceil, class.cburst, now);
        }
        set_bucket(&mut self.root, config.ceil, config.cburst, now);
        self.table = config.table();
        for (n, class) in config.class.iter().enumerate() {
            self.set_standing(n as u8, Standing::Out);
            self.members[n].priority = class.priority.into();
            self.place(n as u8, now);
        }
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        let dropped = self.members.iter().map(Member::dropped).sum();
        observer.counter(&metrics::DROPPED_QUEUE, dropped);
        self.tally.observe(now, observer);
    }

    fn observe_classes(&self, now: Time, observer: &mut dyn Observer) {
        for member in &self.members {
            observer.class(&member.name);
            observer.counter(&metrics::SENT, member.sent);
            observer.counter(&metrics::SENT_BYTES, member.sent_bytes);
            member.queue.observe(now, observer);
        }
    }
}

fn set_bucket(bucket: &mut Option<Bucket>, rate: Option<Rate>, depth: Bytes, now: Time) {
    match (bucket.as_mut(), rate) {
        (Some(bucket), Some(rate)) => bucket.set(rate, depth, now),
        (_, rate) => *bucket = rate.map(|rate| Bucket::full(rate, depth, now)),
    }
}

#[cfg(test)]
mod tests;
