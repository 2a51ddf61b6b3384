//! Observations of the path for the JITTER and LOSS options (RFC 3095 5.7.6.8 and 5.7.6.9).

/// Packets whose arrivals are compared: about the compressor's window.
const WINDOW: usize = 4;
/// Maximum gap in sequence numbers that counts as a loss.
const MAX_LOSS: i32 = 64;

/// Largest values yet, and those reported to the compressor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Report {
    /// Packets lost in a row.
    loss: u8,
    reported_loss: u8,
    /// Max_Jitter, in strides.
    jitter: u8,
    reported_jitter: u8,
    /// Scaled timestamps, and arrivals in milliseconds, of the last packets.
    arrivals: [(u32, u32); WINDOW],
    len: u8,
}

impl Report {
    /// A packet came whose sequence number is `distance` after that of the last one.
    #[inline]
    pub(super) fn note_distance(&mut self, distance: i32) {
        if (2..=MAX_LOSS).contains(&distance) {
            self.loss = self.loss.max((distance - 1) as u8);
        }
    }

    /// Returns `true` if [`Self::note_distance`] would change nothing.
    #[inline]
    pub(super) fn knows_distance(&self, distance: i32) -> bool {
        distance - 1 <= i32::from(self.loss)
    }

    /// A packet with the scaled timestamp `scaled` came at `at_ms`; a stride takes `stride_ms`.
    pub(super) fn note_arrival(&mut self, scaled: u32, at_ms: u32, stride_ms: u32) {
        let deviation = |&(from, arrived): &(u32, u32)| {
            let ticks = at_ms.wrapping_sub(arrived) as i32 / stride_ms.clamp(1, 1 << 20) as i32;
            (scaled.wrapping_sub(from) as i32).wrapping_sub(ticks).unsigned_abs()
        };
        let seen = self.arrivals[..usize::from(self.len)].iter().map(deviation).max().unwrap_or(0);
        self.jitter = self.jitter.max(seen.min(255) as u8);
        self.arrivals.rotate_right(1);
        self.arrivals[0] = (scaled, at_ms);
        self.len = (self.len + 1).min(WINDOW as u8);
    }

    /// Arrivals of before do not count any more: the stride is another one.
    pub(super) fn forget_arrivals(&mut self) {
        self.len = 0;
    }

    /// Returns `true` if there were longer losses or more jitter than the compressor knows of.
    #[inline]
    pub(super) fn has_news(&self) -> bool {
        self.loss > self.reported_loss || self.jitter > self.reported_jitter
    }

    /// JITTER and LOSS, where they exceed the reported ones.
    pub(super) fn take(&mut self) -> (Option<u8>, Option<u8>) {
        let jitter = (self.jitter > self.reported_jitter).then_some(self.jitter);
        let loss = (self.loss > self.reported_loss).then_some(self.loss);
        (self.reported_jitter, self.reported_loss) = (self.jitter, self.loss);
        (jitter, loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_told_once() {
        let mut report = Report::default();
        for distance in [1, 1, 4, 1, 3, -2, 0, 20_000] {
            report.note_distance(distance);
        }
        assert!(report.has_news());
        assert_eq!((report.take(), report.has_news()), ((None, Some(3)), false));
        report.note_distance(2);
        assert_eq!(report.take(), (None, None));
    }

    #[test]
    fn jitter_is_the_largest_deviation_within_the_window() {
        let mut report = Report::default();
        // Strides of 20 ms; the third packet is 70 ms late, and the next ones come right behind it.
        for (scaled, at_ms) in [(10, 1000), (11, 1020), (12, 1110), (13, 1115), (14, 1120)] {
            report.note_arrival(scaled, at_ms, 20);
        }
        assert_eq!(report.take(), (Some(3), None));
    }
}
