//! Token bucket that may go into debt by a packet, as those of Linux's HTB.

use bentpipe_units::{Bytes, Rate, Span, Time};

/// Tokens of a byte. A nanosecond at a whole number of bits per second adds a whole number.
const PER_BYTE: i128 = 8_000_000_000;

/// Bucket of a rate. A packet may leave unless there is a debt, and is paid for afterwards.
#[derive(Debug)]
pub(super) struct Bucket {
    rate_bps: u64,
    depth: i128,
    level: i128,
    /// Time at which `level` was measured.
    at: Time,
}

impl Bucket {
    pub(super) fn full(rate: Rate, depth: Bytes, now: Time) -> Bucket {
        let depth = i128::from(depth.get()) * PER_BYTE;
        Bucket { rate_bps: rate.as_bps(), depth, level: depth, at: now }
    }

    /// Changes rate and depth from `now` on.
    pub(super) fn set(&mut self, rate: Rate, depth: Bytes, now: Time) {
        self.fill(now);
        (self.rate_bps, self.depth) = (rate.as_bps(), i128::from(depth.get()) * PER_BYTE);
        self.level = self.level.min(self.depth);
    }

    #[inline]
    fn fill(&mut self, now: Time) {
        let grown = i128::from(self.rate_bps) * i128::from(now.since(self.at).as_nanos());
        (self.level, self.at) = ((self.level + grown).min(self.depth), now);
    }

    /// Pays for `len_bytes` at `now`.
    #[inline]
    pub(super) fn take(&mut self, len_bytes: usize, now: Time) {
        self.fill(now);
        self.level -= len_bytes as i128 * PER_BYTE;
    }

    /// Returns the time from which on a packet may leave, zero without a debt.
    #[inline]
    pub(super) fn ready(&self) -> Time {
        if self.level >= 0 {
            return Time::ZERO;
        }
        let nanos = (-self.level + i128::from(self.rate_bps) - 1) / i128::from(self.rate_bps.max(1));
        self.at + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_are_paid_to_the_nanosecond() {
        let at = Time::from_nanos;
        let mut bucket = Bucket::full(Rate::from_bps(8_000_000), Bytes::new(1000), at(0));
        assert_eq!(bucket.ready(), at(0));
        bucket.take(1000, at(0));
        assert_eq!(bucket.ready(), at(0), "no debt yet");
        bucket.take(1500, at(0));
        assert_eq!(bucket.ready(), at(1_500_000), "a byte is a microsecond");
        bucket.take(500, at(1_000_000));
        assert_eq!(bucket.ready(), at(2_000_000));
        bucket.set(Rate::from_bps(3), Bytes::new(1000), at(1_999_999));
        assert_eq!(bucket.ready(), at(1_999_999 + 2_666_667), "8 million tokens at 3 a nanosecond");
        // A pause fills it, and no more than that.
        bucket.take(1000, at(1_000_000_000_000_000));
        assert_eq!(bucket.ready(), at(0));
        bucket.take(1, at(1_000_000_000_000_000));
        assert!(bucket.ready() > at(1_000_000_000_000_000));
    }
}
