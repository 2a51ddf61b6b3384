//! Confidence of the compressor that the decompressor has received a change.

use crate::framework::profile::Mode;

/// Something that must reach the decompressor. In U- and O-mode it is sent a number of times or until it is
/// acknowledged (RFC 3095 5.3.1.1.1), in R-mode until it is acknowledged (5.5.1.1.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeat {
    left: u8,
    /// Set if it was sent, but no packet with it was acknowledged.
    is_unheard: bool,
    /// The first and the last sequence number with it.
    since: u32,
    until: u32,
}

impl Repeat {
    /// Starts `times` transmissions from `sn` on.
    #[inline]
    pub(crate) fn start(&mut self, times: u8, sn: u32) {
        *self = Self { left: times.max(1), is_unheard: true, since: sn, until: sn };
    }

    /// Ensures at least `times` more transmissions, counted from an earlier start if there is one.
    pub(crate) fn ensure(&mut self, times: u8, sn: u32) {
        if self.left < times {
            let since = if self.left > 0 { self.since } else { sn };
            *self = Self { left: times, is_unheard: true, since, until: sn };
        }
    }

    #[inline]
    pub(crate) const fn is_active(&self) -> bool {
        self.left > 0
    }

    /// Records a transmission in an updating packet with `sn`.
    #[inline]
    pub(crate) fn sent(&mut self, mode: Mode, sn: u32) {
        if self.left > 0 {
            self.until = sn;
        }
        if mode != Mode::Reliable {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Returns `true` if all packets with it seem lost, now that `sn` was acknowledged. Then it is not sent
    /// any more, and this is the first acknowledgement since, of a packet after them. `distance` is sn's distance from
    /// its argument.
    pub(crate) fn acknowledged(&mut self, distance: impl Fn(u32) -> i32) -> bool {
        if distance(self.since) < 0 {
            return false;
        }
        let is_lost = self.is_unheard && self.left == 0 && distance(self.until) > 0;
        (self.left, self.is_unheard) = (0, false);
        is_lost
    }

    /// Returns `true` if it starts again at `sn`, as no acknowledgement shows that it arrived. In R-mode it is then sent
    /// until one does.
    pub(crate) fn resume(&mut self, sn: u32) -> bool {
        let is_resumed = self.is_unheard;
        if is_resumed {
            self.start(self.left, sn);
        }
        is_resumed
    }

    pub(crate) fn stop(&mut self) {
        (self.left, self.is_unheard) = (0, false);
    }
}
