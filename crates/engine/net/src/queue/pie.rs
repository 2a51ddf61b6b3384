//! PIE (RFC 8033): drops of arrivals by a probability that follows the delay.
//!
//! This is its appendix A, where delays are those of packets that leave, with ECN, evened drops and capped steps (5.1, 5.4, 5.5).
//! Not modelled: estimated departure rates (5.2), and switching it on only at a third of the limit (5.3).

use bentpipe_units::{Bytes, RandomStream, Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::codel::{Counts, limits};
use super::tally::Tally;
use super::timed::Timed;
use super::{Discipline, OTHER_KIND, Queue, ecn};
use crate::config::probability;
use crate::queue::metrics;
use crate::{InvalidConfig, Observer, Packet, Why};

/// Bytes up to which nothing is dropped: two packets (RFC 8033, 4.1).
const FEW: u64 = 2 * 1500;

/// Largest rise of a probability that is 0.1 already (5.5).
const MOST_RISE: f64 = 0.02;

/// Sums of probabilities: none is dropped below the first, one is from the second on.
const EVEN: [f64; 2] = [0.85, 8.5];

/// Divisors of the step while the probability is below a bound (4.2).
const DIVISORS: [(f64, f64); 6] =
    [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];

/// PIE with the defaults of RFC 8033.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Delay that is aimed at. Default: "15 ms".
    pub target: Span,
    /// Time between updates of the probability, at least 1 ms. Default: "15 ms".
    pub update: Span,
    /// Change of the probability by a second of delay above `target`, at each update. Default: 0.125.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub alpha: f64,
    /// Change of the probability by a second that the delay grew, at each update. Default: 1.25.
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub beta: f64,
    /// Time without drops after an empty queue. Default: "150 ms".
    pub max_burst: Span,
    /// Maximum number of waiting packets. Default: 1000.
    pub packets: u32,
    /// Maximum number of waiting bytes, counted as IP packets. Default: no limit.
    pub bytes: Option<Bytes>,
    /// Enables ECN marking instead of drops for ECN-capable transports. Default: false.
    pub ecn: bool,
    /// Probability from which on marked packets are dropped, too, 0 to 1. Default: 0.1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub ecn_limit: f64,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            target: Span::from_millis(15),
            update: Span::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            max_burst: Span::from_millis(150),
            packets: super::DEFAULT_PACKETS,
            bytes: None,
            ecn: false,
            ecn_limit: 0.1,
        }
    }
}

impl Config {
    fn validate(&self) -> Result<(), InvalidConfig> {
        let is_weight = |weight: f64| (0.0..=1000.0).contains(&weight);
        InvalidConfig::ensure(!self.target.is_zero(), "target", "more than zero")?;
        InvalidConfig::ensure(self.update >= Span::from_millis(1), "update", "1 ms or more")?;
        InvalidConfig::ensure(is_weight(self.alpha), "alpha", "0 to 1000")?;
        InvalidConfig::ensure(is_weight(self.beta), "beta", "0 to 1000")?;
        probability(self.ecn_limit, "ecn_limit").map(|_| ())
    }
}

/// State of the controller: the variables of RFC 8033, appendix A.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    probability: f64,
    /// Delay of the packet that left last, now and at the last update. Zero of an empty queue.
    delay: Span,
    old_delay: Span,
    /// Time for which arrivals are still safe.
    burst: Span,
}

impl State {
    /// Returns the state after an update (4.2).
    fn updated(self, of: &Config) -> State {
        let [delay, old, target] = [self.delay, self.old_delay, of.target].map(Span::as_secs_f64);
        let step = of.alpha * (delay - target) + of.beta * (delay - old);
        let divisor = DIVISORS.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, by)| *by);
        let mut step = step / divisor;
        if self.probability >= 0.1 {
            step = step.min(MOST_RISE);
        }
        let is_idle = self.delay.is_zero() && self.old_delay.is_zero();
        let decay = if is_idle { 0.98 } else { 1.0 };
        State {
            probability: ((self.probability + step) * decay).clamp(0.0, 1.0),
            delay: self.delay,
            old_delay: self.delay,
            burst: self.burst.saturating_sub(of.update),
        }
    }

    fn is_calm(&self, of: &Config) -> bool {
        let half = of.target.mul_f64(0.5);
        self.delay < half && self.old_delay < half
    }
}

/// A PIE queue.
#[derive(Debug)]
pub struct Pie {
    config: Config,
    state: State,
    /// Sum of the probabilities of arrivals since the last drop.
    sum: f64,
    next_update: Time,
    limits: (usize, u64),
    waiting: Timed,
    tally: Tally,
    counts: Counts,
}

impl Pie {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(config: &Config) -> Result<Pie, InvalidConfig> {
        config.validate()?;
        let (zero, burst) = (Span::ZERO, config.max_burst);
        Ok(Pie {
            config: *config,
            state: State { probability: 0.0, delay: zero, old_delay: zero, burst },
            sum: 0.0,
            next_update: Time::ZERO + config.update,
            limits: limits(config.packets, config.bytes),
            waiting: Timed::default(),
            tally: Tally::default(),
            counts: Counts::default(),
        })
    }

    /// Updates the probability up to now. Nothing that they read changes between two calls.
    fn catch_up(&mut self, now: Time) {
        while self.next_update <= now {
            let state = self.state.updated(&self.config);
            self.next_update += self.config.update;
            if state == self.state && self.next_update <= now {
                // Further updates change nothing.
                let (behind, step) = (now.since(self.next_update).as_nanos(), self.config.update.as_nanos());
                let skipped = Span::from_nanos(behind / step * step);
                self.next_update += skipped + self.config.update;
            }
            self.state = state;
        }
    }

    /// Returns `true` if an arrival is to be dropped or marked (4.1, 5.4).
    fn strikes(&mut self, stream: &mut RandomStream) -> bool {
        let State { probability, old_delay, burst, .. } = self.state;
        let is_low = old_delay < self.config.target.mul_f64(0.5) && probability < 0.2;
        if !burst.is_zero() || is_low || self.tally.bytes() <= FEW {
            return false;
        }
        if probability == 0.0 {
            self.sum = 0.0;
        }
        self.sum += probability;
        let strikes = self.sum >= EVEN[1] || self.sum >= EVEN[0] && stream.unit() < probability;
        if strikes {
            self.sum = 0.0;
        }
        strikes
    }

    fn has_room(&self, len: usize) -> bool {
        self.tally.packets() < self.limits.0 && self.tally.bytes() + len as u64 <= self.limits.1
    }

    /// Restores the time without drops where congestion is over.
    fn arrive(&mut self, now: Time) {
        self.catch_up(now);
        if self.state.probability == 0.0 && self.state.is_calm(&self.config) {
            self.state.burst = self.config.max_burst;
        }
    }
}

impl Queue for Pie {
    fn enqueue(&mut self, mut packet: Packet, now: Time, stream: &mut RandomStream) {
        self.arrive(now);
        if !self.has_room(packet.len()) {
            (self.counts.limit, self.sum) = (self.counts.limit + 1, 0.0);
            return packet.lose(Why::Queue);
        }
        if self.strikes(stream) {
            let may_mark = self.config.ecn && self.state.probability < self.config.ecn_limit;
            if !(may_mark && ecn::mark(&mut packet)) {
                self.counts.aqm += 1;
                return packet.lose(Why::Aqm);
            }
            self.counts.marked += 1;
        }
        self.tally.arrive(packet.len(), now);
        self.waiting.push(packet, now);
    }

    fn pass(&mut self, packet: Packet, now: Time, _: Time, _: &mut RandomStream) -> Option<Packet> {
        self.arrive(now);
        self.state.delay = Span::ZERO;
        Some(packet)
    }

    fn dequeue(&mut self, now: Time) -> Option<Packet> {
        self.catch_up(now);
        let Some((packet, sojourn)) = self.waiting.pop(now) else {
            self.state.delay = Span::ZERO;
            return None;
        };
        self.tally.leave(packet.len(), now);
        self.state.delay = if self.tally.packets() == 0 { Span::ZERO } else { sojourn };
        Some(packet)
    }

    fn packets(&self) -> usize {
        self.tally.packets()
    }

    fn bytes(&self) -> u64 {
        self.tally.bytes()
    }

    /// Changes the parameters and keeps the state of the controller.
    fn set(&mut self, discipline: &Discipline, _now: Time) -> Result<(), InvalidConfig> {
        let Discipline::Pie(config) = discipline else { return Err(OTHER_KIND) };
        config.validate()?;
        (self.config, self.limits) = (*config, limits(config.packets, config.bytes));
        Ok(())
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        self.counts.observe(observer);
        self.tally.observe(now, observer);
        observer.gauge(&metrics::DROP_PROBABILITY, self.state.probability);
    }
}

#[cfg(test)]
mod tests;
