//! Confidence: how a compressor knows that the decompressor has heard something.

use crate::profile::Mode;

/// Something that must reach the decompressor. In U- and O-mode it is sent a number of times or until it is
/// acknowledged (RFC 3095 5.3.1.1.1), in R-mode until it is acknowledged (5.5.1.1.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeat {
    left: u8,
    /// The first sequence number with it.
    since: u32,
}

impl Repeat {
    /// To be sent from `sn` on, `times` times.
    #[inline]
    pub(crate) fn start(&mut self, times: u8, sn: u32) {
        *self = Self { left: times.max(1), since: sn };
    }

    /// To be sent at least `times` more times; keeps counting from an earlier start.
    pub(crate) fn ensure(&mut self, times: u8, sn: u32) {
        if self.left < times {
            let since = if self.left > 0 { self.since } else { sn };
            *self = Self { left: times, since };
        }
    }

    #[inline]
    pub(crate) const fn is_active(&self) -> bool {
        self.left > 0
    }

    /// It was sent in an updating packet.
    #[inline]
    pub(crate) fn sent(&mut self, mode: Mode) {
        if mode != Mode::Reliable {
            self.left = self.left.saturating_sub(1);
        }
    }

    /// The packet with `sn` was acknowledged; `distance` is sn's distance from its argument.
    pub(crate) fn acknowledged(&mut self, distance: impl Fn(u32) -> i32) {
        if distance(self.since) >= 0 {
            self.left = 0;
        }
    }

    pub(crate) fn stop(&mut self) {
        self.left = 0;
    }
}
