//! Periodic refreshes (RFC 3095 5.3.1.1.2).

use core::time::Duration;

use crate::framework::arrival::nanoseconds;
use crate::framework::config::Refresh;

/// Counts packets and time since the last refresh.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefreshClock {
    pub(crate) packets: u32,
    since_ns: i64,
}

/// Returns the phase of a CID in a period, in units of 2^-32. Multiples of the golden ratio fall evenly into it.
pub(crate) const fn phase(cid: u16) -> u32 {
    (cid as u32).wrapping_mul(0x9e37_79b9)
}

impl RefreshClock {
    /// Returns `true` if one of the criteria is met, after counting a packet.
    #[inline]
    pub(crate) fn is_due(&mut self, refresh: Refresh, now: Duration) -> bool {
        let due = self.is_next_due(refresh, now);
        self.tick();
        due
    }

    /// Returns `true` if the next packet meets one of the criteria.
    #[inline]
    pub(crate) fn is_next_due(&self, refresh: Refresh, now: Duration) -> bool {
        (refresh.packets != 0 && self.packets >= refresh.packets)
            || (refresh.interval != Duration::ZERO
                && signed_ns(now).saturating_sub(self.since_ns) >= signed_ns(refresh.interval))
    }

    /// Returns `true` if the next packet is beyond the `gap` of a slow start. 0: there is no slow start.
    #[inline]
    pub(crate) const fn is_next_beyond(&self, gap: u32) -> bool {
        gap > 0 && self.packets >= gap
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn tick(&mut self) {
        self.packets = self.packets.saturating_add(1);
    }

    #[inline]
    pub(crate) fn restart(&mut self, now: Duration) {
        self.packets = 0;
        self.since_ns = signed_ns(now);
    }

    /// Restarts as if the part `phase` of the periods of `refresh` had passed already.
    pub(crate) fn restart_at(&mut self, phase: u32, refresh: Refresh, now: Duration) {
        let part = |whole: u64| ((u128::from(whole) * u128::from(phase)) >> 32) as u64;
        self.packets = part(u64::from(refresh.packets)) as u32;
        self.since_ns = signed_ns(now).saturating_sub_unsigned(part(nanoseconds(refresh.interval)));
    }
}

/// Nanoseconds, up to 292 years.
#[inline]
fn signed_ns(time: Duration) -> i64 {
    i64::try_from(nanoseconds(time)).unwrap_or(i64::MAX)
}
