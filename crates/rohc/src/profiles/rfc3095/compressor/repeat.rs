//! Confidence of the compressor that the decompressor has received a change.

use crate::framework::profile::Mode;

/// Something that must reach the decompressor. In U- and O-mode it is sent a number of times or until it is
/// acknowledged (RFC 3095 5.3.1.1.1), in R-mode until it is acknowledged (5.5.1.1.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeat {
    left: u8,
    /// It was sent, and no acknowledgement of a packet with it was received.
    is_unheard: bool,
    /// The first and the last sequence number with it.
    since: u32,
    until: u32,
}

impl Repeat {
    /// To be sent from `sn` on, `times` times.
    #[inline]
    pub(crate) fn start(&mut self, times: u8, sn: u32) {
        *self = Self { left: times.max(1), is_unheard: true, since: sn, until: sn };
    }

    /// To be sent at least `times` more times; keeps counting from an earlier start.
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

    /// It was sent in an updating packet with `sn`.
    #[inline]
    pub(crate) fn sent(&mut self, mode: Mode, sn: u32) {
        if self.left > 0 {
            self.until = sn;
        }
        if mode != Mode::Reliable {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// The packet with `sn` was acknowledged; `distance` is sn's distance from its argument. Whether all packets with it
    /// seem lost: it is not sent any more, and this is the first acknowledgement since, of a packet behind them.
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
