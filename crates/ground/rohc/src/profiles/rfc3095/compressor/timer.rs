//! Timer-based timestamps (RFC 3095 4.5.4, RFC 4815 4.7), the compressor's side.

use core::time::Duration;

use super::repeat::Repeat;
use super::{Current, Reference};
use crate::framework::arrival::nanoseconds;
use crate::framework::profile::Mode;
use crate::profiles::rfc3095::Job;

/// Strides over which the time of one is measured.
const MEASURE_STRIDES: u32 = 50;

/// Milliseconds, modulo 2^32: only differences matter.
#[inline]
pub(super) const fn milliseconds(time: Duration) -> u32 {
    (time.as_secs() as u32).wrapping_mul(1000).wrapping_add(time.subsec_millis())
}

/// Measures how long a stride takes, and announces it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timer {
    /// TIME_STRIDE in milliseconds; 0: not in use.
    stride_ms: u32,
    pending: Repeat,
    /// Start of the measurement: scaled timestamp, arrival in nanoseconds, and stride. A stride of 0: none.
    began: (u32, u64, u32),
    /// Max_Jitter as the decompressor reported it, in strides.
    reported: u8,
}

impl Timer {
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_active()
    }

    pub(super) fn stride_ms(&self) -> u32 {
        self.stride_ms
    }

    pub(super) fn report(&mut self, jitter: u8) {
        // Smaller reports are ignored, as RFC 3095 5.7.6.8 allows.
        self.reported = self.reported.max(jitter);
    }

    pub(super) fn sent(&mut self, mode: Mode, sn: u32) {
        self.pending.sent(mode, sn);
    }

    /// Returns `true` if the value seems lost, as [`Repeat::acknowledged`] does.
    pub(super) fn acknowledged(&mut self, distance: impl Fn(u32) -> i32) -> bool {
        self.pending.acknowledged(distance)
    }

    /// Starts again if it was not acknowledged, see [`Repeat::resume`].
    pub(super) fn resume(&mut self, sn: u32) {
        self.pending.resume(sn);
    }

    /// Observes a packet. Timers start once a stride's time and the decompressor's clock are known.
    #[inline]
    pub(super) fn observe(&mut self, job: &Job<'_>, mode: Mode, current: &Current, stride: u32, repeats: u8) {
        let wanted = job.config.timer_jitter > Duration::ZERO
            && job.clock_ms.is_some()
            && mode != Mode::Unidirectional;
        if wanted && stride > 1 {
            self.measure(job.now, current, stride, repeats);
        }
    }

    fn measure(&mut self, now: Duration, current: &Current, stride: u32, repeats: u8) {
        let scaled = current.ts / stride;
        let (from, at, of) = self.began;
        if of != stride {
            self.began = (scaled, nanoseconds(now), stride);
            if self.stride_ms != 0 {
                self.stride_ms = 0;
                self.pending.start(repeats, current.sn);
            }
            return;
        }
        let strides = scaled.wrapping_sub(from);
        if self.stride_ms != 0 || !(MEASURE_STRIDES..1 << 24).contains(&strides) {
            return;
        }
        let micros = nanoseconds(now).saturating_sub(at) / 1000 / u64::from(strides);
        let ms = ((micros + 500) / 1000) as u32;
        if (1..60_000).contains(&ms) {
            self.stride_ms = ms;
            self.pending.start(repeats, current.sn);
        }
    }

    /// Bits that the scaled timestamp `scaled` needs, when timers are in use.
    #[inline]
    pub(super) fn bits<'a>(
        &self,
        job: &Job<'_>,
        references: impl Iterator<Item = &'a Reference>,
        scaled: u32,
    ) -> Option<u32> {
        if self.stride_ms == 0 {
            return None;
        }
        let now = milliseconds(job.now);
        let deviation = |reference: &Reference| {
            let ticks = (now.wrapping_sub(reference.arrival_ms) / self.stride_ms) as i32;
            (scaled.wrapping_sub(reference.scaled) as i32).wrapping_sub(ticks).unsigned_abs()
        };
        let before = references.map(deviation).max().unwrap_or(0);
        let clock_ms = u32::from(job.clock_ms.unwrap_or(0));
        let channel_ms = job.config.timer_jitter.as_millis() as u32 + clock_ms;
        let channel = channel_ms.div_ceil(self.stride_ms).max(u32::from(self.reported));
        let jitter = before.saturating_add(channel).saturating_add(2).min(1 << 28);
        Some(32 - (2 * jitter).leading_zeros())
    }
}
