//! Dual-queue coupled PI2 (RFC 9332, appendix A).
//!
//! L4S and classic traffic share a line by coupled marks. Modelled: the pseudocode of appendix A.2 with its overload protection, and what Linux's `dualpi2` adds: a step or a ramp
//! on sojourn times, a threshold in packets judged at arrival, credits of a weighted round robin, no coupled marks while less
//! than two packets wait. Not modelled: random marks (Linux draws them, the RFC evens them), a step in packets alone,
//! estimated delay behind the head.

use bentpipe_units::{Bytes, RandomStream, Span, Time};
use bentpipe_wire::ip::{self, Ecn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Counts, limits};
use super::tally::Tally;
use super::timed::Timed;
use super::{Discipline, OTHER_KIND, Queue, ecn};
use crate::histogram::Histogram;
use crate::queue::metrics;
use crate::{InvalidConfig, Observer, Packet, Why};

/// Length of a full packet in bytes.
const FULL: i64 = 1500;

/// Bytes below which nothing is marked or dropped by the probability: two full packets.
const FEW: u64 = 2 * FULL as u64;

/// Dual-queue coupled PI2 with the defaults of RFC 9332 and of Linux's `tc dualpi2`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Delay that is aimed at in the classic queue. Default: "15 ms".
    pub target: Span,
    /// Time between updates of the base probability, at least 1 ms. Default: "16 ms".
    pub tupdate: Span,
    /// Change of the probability by a second of delay above `target`, at each update. Default: 0.16.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub alpha: f64,
    /// Change of the probability by a second that the delay grew, at each update. Default: 3.2.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub beta: f64,
    /// Coupling factor k: L4S packets are marked with k p, classic ones with p squared.
    /// Default: 2.
    #[schemars(range(min = 1, max = 255))]
    pub coupling_factor: u32,
    /// Sojourn time of L4S packets above which they are marked. Default: "1 ms".
    pub step_thresh: Span,
    /// Width of a ramp of marks above `step_thresh`.
    /// The ramp of RFC 9332 is 400 us from 800 us on. Default: "0 s", a step as in Linux.
    pub step_range: Span,
    /// L4S packets that wait when one arrives that `step_thresh` may mark. Default: 0.
    pub min_qlen_step: u32,
    /// Enables coupled marks and drops of arrivals, and not of departures. Default: false.
    pub drop_early: bool,
    /// Enables drops of L4S packets once all are marked, and of ECN-capable classic ones.
    /// Without it the probability ends where all L4S packets are marked. Default: true.
    pub drop_overload: bool,
    /// Share of the line in percent that classic packets have at least. Default: 10.
    #[schemars(range(min = 0, max = 100))]
    pub c_protection: u32,
    /// Maximum number of waiting packets of both queues. Default: 10000.
    pub packets: u32,
    /// Maximum number of waiting bytes of both queues, counted as IP packets. Default: no limit.
    pub bytes: Option<Bytes>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target: Span::from_millis(15),
            tupdate: Span::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling_factor: 2,
            step_thresh: Span::from_millis(1),
            step_range: Span::ZERO,
            min_qlen_step: 0,
            drop_early: false,
            drop_overload: true,
            c_protection: 10,
            packets: 10_000,
            bytes: None,
        }
    }
}

impl Config {
    fn validate(&self) -> Result<(), InvalidConfig> {
        let is_gain = |gain: f64| (0.0..=1000.0).contains(&gain);
        InvalidConfig::ensure(!self.target.is_zero(), "target", "more than zero")?;
        InvalidConfig::ensure(self.tupdate >= Span::from_millis(1), "tupdate", "1 ms or more")?;
        InvalidConfig::ensure(is_gain(self.alpha), "alpha", "0 to 1000")?;
        InvalidConfig::ensure(is_gain(self.beta), "beta", "0 to 1000")?;
        let is_factor = (1..=255).contains(&self.coupling_factor);
        InvalidConfig::ensure(is_factor, "coupling_factor", "1 to 255")?;
        InvalidConfig::ensure(self.c_protection <= 100, "c_protection", "0 to 100 percent")
    }

    fn coupling(&self) -> f64 {
        f64::from(self.coupling_factor)
    }

    /// Returns the highest base probability.
    fn most(&self) -> f64 {
        if self.drop_overload { 1.0 } else { 1.0 / self.coupling() }
    }

    /// Returns the probability of native L4S marks for a sojourn time (figure 5).
    fn native(&self, sojourn: Span) -> f64 {
        let above = sojourn.saturating_sub(self.step_thresh);
        if above.is_zero() {
            0.0
        } else if above >= self.step_range {
            1.0
        } else {
            above.as_secs_f64() / self.step_range.as_secs_f64()
        }
    }

    /// Returns the credits of an idle line: L4S packets go first.
    fn credits(&self) -> i64 {
        FULL * (i64::from(self.c_protection) - self.l_weight())
    }

    fn l_weight(&self) -> i64 {
        100 - i64::from(self.c_protection)
    }
}

/// The two queues, in the order of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    L4s,
    Classic,
}

impl Side {
    /// Returns the queue of a packet. That of L4S has ECT(1) and CE (RFC 9331, 5.1).
    fn of(packet: &Packet) -> Side {
        let elided = packet.len() - packet.header().len();
        let ip = ip::Packet::new_elided(packet.header(), elided);
        match ip.map(|ip| ip.traffic_class().ecn()) {
            Ok(Ecn::Ect1 | Ecn::Ce) => Side::L4s,
            _ => Side::Classic,
        }
    }
}

/// State of the PI controller (figure 8).
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    /// Base probability p'.
    probability: f64,
    /// Delay at the last update.
    old_delay: Span,
}

impl State {
    fn updated(self, delay: Span, of: &Config) -> State {
        let [now, old, target] = [delay, self.old_delay, of.target].map(Span::as_secs_f64);
        let step = of.alpha * (now - target) + of.beta * (now - old);
        State { probability: (self.probability + step).clamp(0.0, of.most()), old_delay: delay }
    }
}

/// Waiting packets of one of the queues.
#[derive(Debug, Default)]
struct Lane {
    /// Each packet, and whether the step may mark it.
    waiting: Timed<bool>,
    /// Sum of the likelihoods since the last strike.
    sum: f64,
    counts: Counts,
    delays: Histogram,
}

impl Lane {
    /// Returns `true` once for each whole sum of likelihoods (`recur` of figure 4).
    ///
    /// A sum of one strikes here, else the first of packets that are all to be marked would not be.
    fn recurs(&mut self, likelihood: f64) -> bool {
        self.sum += likelihood;
        let strikes = self.sum >= 1.0;
        if strikes {
            self.sum -= 1.0;
        }
        strikes
    }

    fn mark(&mut self, packet: &mut Packet) -> bool {
        let is_marked = ecn::mark(packet);
        self.counts.marked += u64::from(is_marked);
        is_marked
    }
}

/// A queue of dual-queue coupled PI2.
#[derive(Debug)]
pub struct DualPi2 {
    config: Config,
    state: State,
    next_update: Time,
    limits: (usize, u64),
    lanes: [Lane; 2],
    tally: Tally,
    l4s_tally: Tally,
    /// Credits of the round robin: an L4S packet goes first while they are not positive.
    credits: i64,
}

impl DualPi2 {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<DualPi2, InvalidConfig> {
        config.validate()?;
        Ok(DualPi2 {
            config: *config,
            state: State { probability: 0.0, old_delay: Span::ZERO },
            next_update: Time::ZERO + config.tupdate,
            limits: limits(config.packets, config.bytes),
            lanes: Default::default(),
            tally: Tally::default(),
            l4s_tally: Tally::default(),
            credits: config.credits(),
        })
    }

    /// Returns the longer of the delays of both queues: the age of its first packet.
    fn delay(&self, now: Time) -> Span {
        let [l4s, classic] = [0, 1].map(|lane: usize| self.lanes[lane].waiting.age(now));
        l4s.max(classic)
    }

    /// Updates the probability up to now. The first packets stay the same between two calls.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let delay = self.delay(self.next_update);
            let state = self.state.updated(delay, &self.config);
            // An empty queue has the same delay at each update, and one that is stuck the highest probability.
            let is_stuck = delay > self.config.target && state.probability >= self.config.most();
            let is_idle = self.tally.packets() == 0 && self.state.old_delay.is_zero();
            let is_settled = state.probability == self.state.probability && (is_stuck || is_idle);
            if is_settled {
                let step = self.config.tupdate.as_nanos();
                let further = now.since(self.next_update).as_nanos() / step;
                self.next_update += Span::from_nanos(further * step);
            }
            self.state = State { old_delay: self.delay(self.next_update), ..state };
            self.next_update += self.config.tupdate;
        }
    }

    /// Returns `true` if a packet stays, perhaps with a mark. Else it is to be dropped.
    ///
    /// `native` is the probability of L4S marks by the L4S queue itself.
    fn judge(&mut self, side: Side, packet: &mut Packet, native: f64, is_coupled: bool) -> bool {
        let is_coupled = is_coupled && self.tally.bytes() >= FEW;
        let base = if is_coupled { self.state.probability } else { 0.0 };
        let (linear, square) = (base * self.config.coupling(), base * base);
        let (is_overload, lane) = (linear > 1.0, &mut self.lanes[side as usize]);
        match side {
            Side::Classic => !lane.recurs(square) || !is_overload && lane.mark(packet),
            // Marks cannot rise any further, so packets are dropped as classic ones.
            Side::L4s if is_overload => !lane.recurs(square) && lane.mark(packet),
            Side::L4s => !lane.recurs(native.max(linear)) || lane.mark(packet),
        }
    }

    /// Returns the queue that is served next, with the credits of its bytes.
    fn turn(&self) -> Option<(Side, i64)> {
        let [has_l4s, has_classic] = [0, 1].map(|lane: usize| self.lanes[lane].waiting.packets() > 0);
        match (has_l4s, has_classic) {
            (false, false) => None,
            (true, false) => Some((Side::L4s, 0)),
            (false, true) => Some((Side::Classic, 0)),
            (true, true) if self.credits <= 0 => Some((Side::L4s, i64::from(self.config.c_protection))),
            (true, true) => Some((Side::Classic, -self.config.l_weight())),
        }
    }

    fn pop(&mut self, side: Side, now: Time) -> Option<(Packet, Span, bool)> {
        let popped = self.lanes[side as usize].waiting.pop_noted(now)?;
        self.tally.leave(popped.0.len(), now);
        if side == Side::L4s {
            self.l4s_tally.leave(popped.0.len(), now);
        }
        Some(popped)
    }

    fn has_room(&self, len: usize) -> bool {
        self.tally.packets() < self.limits.0 && self.tally.bytes() + len as u64 <= self.limits.1
    }
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, mut packet: Packet, now: Time, _stream: &mut RandomStream) {
        self.catch_up(now);
        let (side, len) = (Side::of(&packet), packet.len());
        if !self.has_room(len) {
            self.lanes[side as usize].counts.limit += 1;
            return packet.lose(Why::Queue);
        }
        if self.config.drop_early && !self.judge(side, &mut packet, 0.0, true) {
            self.lanes[side as usize].counts.aqm += 1;
            return packet.lose(Why::Aqm);
        }
        let ahead = self.lanes[side as usize].waiting.packets();
        self.tally.arrive(len, now);
        if side == Side::L4s {
            self.l4s_tally.arrive(len, now);
        }
        let steps = ahead >= self.config.min_qlen_step as usize;
        self.lanes[side as usize].waiting.push_noted(packet, now, steps);
    }

    fn pass(&mut self, packet: Packet, now: Time, _: Time, _: &mut RandomStream) -> Option<Packet> {
        self.catch_up(now);
        self.credits = self.config.credits();
        self.lanes[Side::of(&packet) as usize].delays.record(Span::ZERO);
        Some(packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        self.catch_up(now);
        loop {
            let Some((side, charge)) = self.turn() else {
                self.credits = self.config.credits();
                return None;
            };
            let (mut packet, sojourn, steps) = self.pop(side, now)?;
            let native = if steps && side == Side::L4s { self.config.native(sojourn) } else { 0.0 };
            if self.judge(side, &mut packet, native, !self.config.drop_early) {
                self.credits += charge * packet.len() as i64;
                self.lanes[side as usize].delays.record(sojourn);
                return Some(packet);
            }
            self.lanes[side as usize].counts.aqm += 1;
            packet.lose(Why::Aqm);
        }
    }

    fn packets(&self) -> usize {
        self.tally.packets()
    }

    fn bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Changes the parameters and keeps the state of the controller.
    fn set(&mut self, discipline: &Discipline, _now: Time) -> Result<(), InvalidConfig> {
        let Discipline::DualPi2(config) = discipline else { return Err(OTHER_KIND) };
        config.validate()?;
        (self.config, self.limits) = (*config, limits(config.packets, config.bytes));
        self.state.probability = self.state.probability.min(config.most());
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        let [l4s, classic] = &self.lanes;
        l4s.counts.plus(classic.counts).observe(observer);
        self.tally.observe(now, observer);
        observer.gauge(&metrics::BASE_PROBABILITY, self.state.probability);
        observer.counter(&metrics::DROPPED_L4S, l4s.counts.limit + l4s.counts.aqm);
        observer.counter(&metrics::MARKED_L4S, l4s.counts.marked);
        observer.gauge(&metrics::L4S_BYTES, self.l4s_tally.bytes() as f64);
        self.l4s_tally.observe_most_bytes(&metrics::L4S_MAX_BYTES, observer);
        observer.histogram(&metrics::L4S_DELAYS, &l4s.delays);
        observer.histogram(&metrics::CLASSIC_DELAYS, &classic.delays);
    }
}

#[cfg(test)]
mod tests;
