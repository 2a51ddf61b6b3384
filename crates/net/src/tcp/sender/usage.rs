//! How much of the congestion window is really used (RFC 7661).

use bentpipe_units::Span;

/// For how long an unused window is kept (RFC 7661 4.4.2).
pub(super) const VALID_FOR: Span = Span::from_secs(300);

/// How many round trips `pipeACK` looks back on (RFC 7661 4.2).
const ROUNDS: usize = 3;

/// `pipeACK`: the most that was acknowledged in one of the last round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    rounds: [u64; ROUNDS],
    this_round: u64,
    round_end: u64,
    known: bool,
}

impl Usage {
    /// `acked` bytes were acknowledged up to `una` while `high` had been sent.
    #[inline]
    pub(super) fn on_ack(&mut self, acked: u64, una: u64, high: u64) {
        self.this_round += acked;
        if una >= self.round_end {
            self.rounds.rotate_right(1);
            (self.rounds[0], self.this_round, self.round_end) = (self.this_round, 0, high);
            self.known = true;
        }
    }

    /// The estimate, once there is one.
    pub(super) fn pipe_ack(&self) -> Option<u64> {
        self.known.then(|| self.rounds.into_iter().fold(0, u64::max))
    }

    /// Whether half of `cwnd` is used, as far as is known.
    pub(super) fn validates(&self, cwnd: u64) -> bool {
        self.pipe_ack().is_none_or(|used| used.saturating_mul(2) >= cwnd)
    }
}
