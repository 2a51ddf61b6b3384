//! When something is due again although nothing demands it (RFC 3095 5.3.1.1.2).

use core::time::Duration;

use crate::arrival::nanoseconds;
use crate::config::Refresh;

/// Counts packets and time since the last refresh.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefreshClock {
    pub(crate) packets: u32,
    since_ns: u64,
}

impl RefreshClock {
    /// Counts a packet; whether one of the criteria is met.
    #[inline]
    pub(crate) fn is_due(&mut self, refresh: Refresh, now: Duration) -> bool {
        let due = self.is_next_due(refresh, now);
        self.tick();
        due
    }

    /// Whether the next packet meets one of the criteria.
    #[inline]
    pub(crate) fn is_next_due(&self, refresh: Refresh, now: Duration) -> bool {
        (refresh.packets != 0 && self.packets >= refresh.packets)
            || (refresh.interval != Duration::ZERO
                && nanoseconds(now).saturating_sub(self.since_ns) >= nanoseconds(refresh.interval))
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.packets = self.packets.saturating_add(1);
    }

    #[inline]
    pub(crate) fn restart(&mut self, now: Duration) {
        self.packets = 0;
        self.since_ns = nanoseconds(now);
    }
}
