//! Receive buffer of an ATM interface: cells that have arrived and wait for the host.
//!
//! Modelled: an adapter that passes the cells of a channel to its host at a given maximum rate, in order;
//! cells wait up to a limit, and those beyond are lost. A PDU reaches the host with its last cell. The
//! adapter handles RM cells itself, without delay. Not modelled: a host that takes whole PDUs at a time, a
//! buffer shared by channels.

use std::collections::VecDeque;

use bentpipe_net::{InvalidConfig, Observer, Packet, Peak};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::atm::rm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::abr::CongestionSignal;
use super::line::{CELL_BITS, cells_per_second};
use super::service::Class;
use crate::metrics;

/// Receive rate of the host for a channel, and size of its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The rate at which the host takes cells of data, counted with their headers.
    pub rate: Rate,
    /// Maximum number of waiting cells, 1 to 1000000; cells beyond are lost.
    pub limit: u32,
    /// Number of waiting cells that counts as congestion, up to `limit`. The ABR destination then signals it
    /// to the source. Default: no signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congested: Option<u32>,
    /// Enables feedback of the host's `rate` (ER) to the source, in place of CI. Default: false.
    #[serde(default)]
    pub explicit_rate: bool,
}

/// The most cells that a buffer may have room for.
const MAX_LIMIT: u32 = 1_000_000;

impl Config {
    /// Checks that a channel of this category can have such a buffer.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn check(&self, class: Class) -> Result<(), InvalidConfig> {
        let fastest = CELL_BITS * 1_000_000_000;
        let rate = self.rate.as_bps();
        InvalidConfig::ensure((1..=fastest).contains(&rate), "rate", "above zero and at most 424 Gbit/s")?;
        InvalidConfig::ensure((1..=MAX_LIMIT).contains(&self.limit), "limit", "from 1 to 1000000")?;
        let is_signalled = self.congested.is_some();
        let in_buffer = self.congested.is_none_or(|cells| (1..=self.limit).contains(&cells));
        InvalidConfig::ensure(in_buffer, "congested", "from 1 to limit")?;
        let can_signal = !is_signalled || class == Class::Abr;
        InvalidConfig::ensure(can_signal, "congested", "none, as only ABR signals congestion")?;
        let says = is_signalled || !self.explicit_rate;
        InvalidConfig::ensure(says, "explicit_rate", "false, or `congested` set as well")
    }
}

/// Work of one cell: bits in units of 1e-9. A nanosecond at any rate is then a whole number.
const CELL_WORK: u64 = CELL_BITS * 1_000_000_000;

/// The buffer at work.
#[derive(Debug)]
pub(crate) struct Buffer {
    config: Config,
    /// Work left of the cells that have arrived, at the instant `at`.
    work: u64,
    at: Time,
    /// Cells that were let in.
    accepted: u64,
    /// PDUs put together, each with how many cells were let in up to its last.
    whole: VecDeque<(u64, Packet)>,
    most: Peak,
    lost: u64,
}

impl Buffer {
    /// Creates an empty buffer from a checked configuration.
    pub(crate) fn new(config: &Config) -> Buffer {
        Buffer {
            config: *config,
            work: 0,
            at: Time::ZERO,
            accepted: 0,
            whole: VecDeque::new(),
            most: Peak::default(),
            lost: 0,
        }
    }

    /// Changes rate and limits from `now` on; waiting cells stay.
    pub(crate) fn set(&mut self, now: Time, config: &Config) {
        self.serve(now);
        self.config = *config;
    }

    /// Returns `true` if a cell that arrives at `now` is accepted.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        self.serve(now);
        if self.cells() >= u64::from(self.config.limit) {
            self.lost += 1;
            return false;
        }
        self.work += CELL_WORK;
        self.accepted += 1;
        self.most.note(self.cells());
        true
    }

    /// Keeps a PDU whose last cell was the last one that was let in.
    pub(crate) fn keep(&mut self, packet: Packet) {
        self.whole.push_back((self.accepted, packet));
    }

    /// Returns the time at which the host has received the first complete PDU.
    pub(crate) fn next(&self) -> Time {
        let Some((last, _)) = self.whole.front() else { return Time::NEVER };
        let behind = (self.accepted - last).saturating_mul(CELL_WORK);
        let before = self.work.saturating_sub(behind);
        self.at + Span::from_nanos(before.div_ceil(self.config.rate.as_bps()))
    }

    /// Removes and returns the first complete PDU, if the host has received it by `now`.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Packet> {
        if self.next() > now {
            return None;
        }
        self.whole.pop_front().map(|(_, packet)| packet)
    }

    /// Returns the congestion signal for the source at `now`, if any.
    pub(crate) fn signal(&mut self, now: Time) -> Option<CongestionSignal> {
        self.serve(now);
        let is_congested = self.config.congested.is_some_and(|cells| self.cells() >= u64::from(cells));
        is_congested.then(|| match self.config.explicit_rate {
            true => {
                CongestionSignal::Rate(rm::Rate::from_cells_per_second(cells_per_second(self.config.rate)))
            }
            false => CongestionSignal::Congestion,
        })
    }

    /// Returns the number of cells waiting at `now`, including the one in transfer.
    pub(crate) fn cells_at(&self, now: Time) -> u64 {
        self.work_at(now).div_ceil(CELL_WORK)
    }

    /// Reports the numbers of waiting cells, now and at most, and of lost ones.
    pub(crate) fn observe(&self, now: Time, observer: &mut dyn Observer) {
        let present = self.cells_at(now);
        observer.gauge(&metrics::RECEIVE_QUEUE, present as f64);
        self.most.observe(&metrics::RECEIVE_QUEUE_MAX, present, observer);
        observer.counter(&metrics::RECEIVE_LOST, self.lost);
    }

    fn cells(&self) -> u64 {
        self.work.div_ceil(CELL_WORK)
    }

    fn work_at(&self, now: Time) -> u64 {
        let done = u128::from(now.since(self.at).as_nanos()) * u128::from(self.config.rate.as_bps());
        self.work.saturating_sub(u64::try_from(done).unwrap_or(u64::MAX))
    }

    fn serve(&mut self, now: Time) {
        if now > self.at {
            (self.work, self.at) = (self.work_at(now), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell takes the host a millisecond.
    const CONFIG: Config =
        Config { rate: Rate::from_bps(424_000), limit: 3, congested: Some(2), explicit_rate: false };

    fn at(micros: u64) -> Time {
        Time::from_nanos(micros * 1000)
    }

    #[test]
    fn cells_wait_for_the_host_and_are_lost_beyond_the_limit() {
        let mut buffer = Buffer::new(&CONFIG);
        assert_eq!((buffer.take(at(0)), buffer.cells_at(at(0)), buffer.signal(at(0))), (true, 1, None));
        assert!(buffer.take(at(100)));
        assert_eq!(buffer.signal(at(100)), Some(CongestionSignal::Congestion));
        buffer.keep(Packet::new(0, 7));
        assert!(buffer.take(at(200)) && !buffer.take(at(300)));
        buffer.keep(Packet::new(0, 8));
        // The first is gone at 1 ms; then there is room for one more.
        assert_eq!([999, 1000, 1999, 2000, 2999, 3000].map(|us| buffer.cells_at(at(us))), [3, 2, 2, 1, 1, 0]);
        assert_eq!((buffer.next(), buffer.pop(at(1999)).is_none()), (at(2000), true));
        assert_eq!(buffer.pop(at(2000)).map(|packet| packet.len()), Some(7));
        assert!(buffer.take(at(2000)) && buffer.take(at(2001)) && !buffer.take(at(2002)));
        assert_eq!((buffer.next(), [buffer.most.get(), buffer.lost]), (at(3000), [3, 2]));
        assert_eq!(buffer.pop(at(9000)).map(|packet| packet.len()), Some(8));
        assert_eq!((buffer.next(), buffer.signal(at(9000))), (Time::NEVER, None));
    }

    #[test]
    fn a_change_holds_for_what_waits() {
        let mut buffer = Buffer::new(&CONFIG);
        assert!(buffer.take(at(0)) && buffer.take(at(0)));
        buffer.keep(Packet::new(0, 7));
        buffer.set(at(500), &Config { rate: Rate::from_bps(4_240_000), explicit_rate: true, ..CONFIG });
        let rate = rm::Rate::from_cells_per_second(10_000.0);
        assert_eq!(buffer.signal(at(500)), Some(CongestionSignal::Rate(rate)));
        // One cell and a half at 0.1 ms each.
        assert_eq!((buffer.next(), buffer.cells_at(at(649)), buffer.cells_at(at(650))), (at(650), 1, 0));
    }

    #[test]
    fn times_are_exact_at_odd_rates() {
        let rate = Rate::from_bps(99_999_989);
        let mut buffer = Buffer::new(&Config { rate, limit: 1000, congested: None, explicit_rate: false });
        (0..1000).for_each(|_| assert!(buffer.take(at(0))));
        buffer.keep(Packet::new(0, 1));
        (0..1000).for_each(|n| assert_eq!(buffer.signal(Time::from_nanos(n * 1711)), None));
        let nanos = (1000 * CELL_WORK).div_ceil(99_999_989);
        assert_eq!(buffer.next(), Time::from_nanos(nanos));
        assert_eq!(buffer.cells_at(Time::from_nanos(nanos - 1)), 1);
    }

    #[test]
    fn impossible_buffers_are_named() {
        let key = |config: Config, class| config.check(class).map_err(|error| error.key);
        assert_eq!(key(CONFIG, Class::Abr), Ok(()));
        assert_eq!(key(CONFIG, Class::Ubr), Err("congested"));
        assert_eq!(key(Config { congested: None, ..CONFIG }, Class::Ubr), Ok(()));
        assert_eq!(key(Config { congested: Some(4), ..CONFIG }, Class::Abr), Err("congested"));
        assert_eq!(key(Config { congested: Some(0), ..CONFIG }, Class::Abr), Err("congested"));
        assert_eq!(key(Config { limit: 0, ..CONFIG }, Class::Abr), Err("limit"));
        assert_eq!(key(Config { limit: MAX_LIMIT + 1, ..CONFIG }, Class::Abr), Err("limit"));
        assert_eq!(key(Config { rate: Rate::from_bps(0), ..CONFIG }, Class::Abr), Err("rate"));
        let unsaid = Config { congested: None, explicit_rate: true, ..CONFIG };
        assert_eq!(key(unsaid, Class::Abr), Err("explicit_rate"));
    }
}
