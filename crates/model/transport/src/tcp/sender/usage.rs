//! Used part of the congestion window (RFC 7661).

use bentpipe_units::Span;

/// Time for which an unused window is kept (RFC 7661 4.4.2).
pub(super) const VALID_FOR: Span = Span::from_secs(300);

/// Number of round trips covered by `pipeACK` (RFC 7661 4.2).
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
    /// Records the ACK of `acked` bytes up to `una`, while `high` had been sent.
    #[inline]
    pub(super) fn on_ack(&mut self, acked: u64, una: u64, high: u64) {
        self.this_round += acked;
        if una >= self.round_end {
            self.rounds.rotate_right(1);
            (self.rounds[0], self.this_round, self.round_end) = (self.this_round, 0, high);
            self.known = true;
        }
    }

    /// Returns the estimate, once there is one.
    pub(super) fn pipe_ack(&self) -> Option<u64> {
        self.known.then(|| self.rounds.into_iter().fold(0, u64::max))
    }

    /// Returns `true` if half of `cwnd` is used, as far as is known.
    pub(super) fn validates(&self, cwnd: u64) -> bool {
        self.pipe_ack().is_none_or(|used| used.saturating_mul(2) >= cwnd)
    }
}
