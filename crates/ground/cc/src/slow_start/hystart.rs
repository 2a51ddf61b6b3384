//! Hybrid slow start as in Linux: two signs of a full pipe set ssthresh. Either sets it to the window.
//! Reference: Ha & Rhee, "Hybrid Slow Start for High-Bandwidth and Long-Distance Networks", PFLDnet 2008.
//!
//! The ACK train sign is that of an unpaced sender (half the lowest RTT).

use bentpipe_units::{Span, Time};

use crate::round::Rounds;
use crate::{Ack, Window};

/// Below this window nothing is judged.
const LOW_WINDOW_SEGMENTS: f64 = 16.0;
/// ACKs no further apart than this belong to one train.
const TRAIN_GAP: Span = Span::from_millis(2);
/// RTT samples of a round that are taken before it is judged.
const SAMPLES: u32 = 8;
/// Bounds of the rise of delay that counts, lowest RTT / 8 between them.
const RISE_MIN: Span = Span::from_millis(4);
const RISE_MAX: Span = Span::from_millis(16);
/// RTT samples are ignored for so long after a loss.
const QUIET: Span = Span::from_secs(1);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hystart {
    rounds: Rounds,
    round_start: Time,
    last_ack: Time,
    /// The lowest RTT of the round, of all samples up to now.
    round_min: Option<Span>,
    samples: u32,
    quiet_until: Time,
}

impl Hystart {
    pub(super) fn on_ack(&mut self, ack: &Ack, window: &mut Window) {
        if self.rounds.on_ack(ack) {
            self.begin_round(ack.now);
        }
        let Some(min_rtt) = ack.min_rtt else { return };
        if !window.in_slow_start() || window.segments() < LOW_WINDOW_SEGMENTS {
            return;
        }
        let found = self.long_train(ack.now, min_rtt) | self.risen_delay(ack, min_rtt);
        if found {
            window.set_ssthresh(window.cwnd());
        }
    }

    fn begin_round(&mut self, now: Time) {
        (self.round_start, self.last_ack) = (now, now);
        (self.round_min, self.samples) = (None, 0);
    }

    /// Returns `true` if the train of closely spaced ACKs is longer than half the path. As much again is then
    /// in flight.
    fn long_train(&mut self, now: Time, min_rtt: Span) -> bool {
        if now.since(self.last_ack) > TRAIN_GAP {
            return false;
        }
        self.last_ack = now;
        now.since(self.round_start) > min_rtt / 2
    }

    /// Returns `true` if the round's lowest RTT is above the connection's by a bound. The bound is min RTT /
    /// 8, within limits. Judged from the ninth sample on.
    fn risen_delay(&mut self, ack: &Ack, min_rtt: Span) -> bool {
        let Some(rtt) = ack.rtt.filter(|_| ack.now >= self.quiet_until) else { return false };
        let round_min = self.round_min.map_or(rtt, |min| min.min(rtt));
        self.round_min = Some(round_min);
        self.samples = self.samples.saturating_add(1);
        self.samples > SAMPLES && round_min > min_rtt + (min_rtt / 8).clamp(RISE_MIN, RISE_MAX)
    }

    pub(super) fn pause(&mut self, now: Time) {
        *self = Hystart { rounds: self.rounds, quiet_until: now + QUIET, ..Hystart::default() };
        self.begin_round(now);
    }
}
