//! Round trips derived from acknowledgements alone.

use crate::Ack;

/// Counts round trips: one ends when what was outstanding at its start has been acknowledged.
///
/// SND.NXT is what has been acknowledged plus what is in flight, so no sequence numbers are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rounds {
    acked: u64,
    end: u64,
}

impl Rounds {
    /// Returns `true` if `ack`, which it records, begins a new round.
    #[inline]
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> bool {
        self.acked = self.acked.saturating_add(ack.acked);
        let begins = ack.acked > 0 && self.acked > self.end;
        if begins {
            self.end = self.acked.saturating_add(ack.flight);
        }
        begins
    }
}
