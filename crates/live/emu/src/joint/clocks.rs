//! Difference of two machines' clocks, by probes both ways.
//!
//! NTP does the same (RFC 5905, section 8).
//! Of the last probes the one with the shortest round trip counts: it waited least in queues. Half of its round trip bounds the
//! error, which is half of the difference between both ways.

use std::collections::VecDeque;

use bentpipe_units::Span;

/// Probes that are remembered. Fewer follow a drift better, more find a short round trip.
const REMEMBERED: usize = 16;

/// Longest round trip that counts, in nanoseconds.
const LONGEST: i64 = 60_000_000_000;

/// Error of this machine's clock, made for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Skew {
    /// Offset in nanoseconds.
    pub offset_ns: i64,
    /// Frequency error in parts per million.
    pub drift_ppm: f64,
}

/// Path to the other machine, and its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Shortest round trip since the start.
    pub shortest_round_trip: Span,
    /// Median round trip of the last probes. A machine that is late for an instant does not change it.
    pub usual_round_trip: Span,
    /// Longest round trip since the start.
    pub longest_round_trip: Span,
    /// Bound of the error of the clocks' difference: half of a round trip.
    pub clock_error: Span,
    /// Difference of the clocks in nanoseconds: the other's less this one's.
    pub offset_ns: i64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    round_trip: i64,
    offset: i64,
}

/// Estimate of the clocks' difference.
#[derive(Debug)]
pub(super) struct Clocks {
    skew: Skew,
    samples: VecDeque<Sample>,
    count: usize,
    shortest: i64,
    longest: i64,
    error: i64,
}

impl Clocks {
    pub(super) fn new(skew: Skew) -> Clocks {
        Clocks { skew, samples: VecDeque::new(), count: 0, shortest: i64::MAX, longest: 0, error: 0 }
    }

    /// Returns a reading of the clock with the error made for tests.
    pub(super) fn skewed(&self, real: i64) -> i64 {
        real + self.skew.offset_ns + (real as f64 * self.skew.drift_ppm * 1e-6) as i64
    }

    /// Returns the real time of a reading.
    pub(super) fn unskewed(&self, reading: i64) -> i64 {
        ((reading - self.skew.offset_ns) as f64 / (1.0 + self.skew.drift_ppm * 1e-6)) as i64
    }

    /// Records an answered probe, by four stamps.
    ///
    /// This machine sent it at `sent`, the other got it at `got` and answered at `answered`; that came at `came`.
    pub(super) fn record(&mut self, sent: i64, got: i64, answered: i64, came: i64) {
        let (out, back) = (i128::from(got) - i128::from(sent), i128::from(answered) - i128::from(came));
        let offset = i64::try_from((out + back) / 2).ok();
        let round_trip = i64::try_from(out - back).ok().filter(|time| (0..LONGEST).contains(time));
        let Some((round_trip, offset)) = round_trip.zip(offset) else { return };
        if self.samples.len() == REMEMBERED {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { round_trip, offset });
        self.count += 1;
        self.shortest = self.shortest.min(round_trip);
        self.longest = self.longest.max(round_trip);
        self.error = self.error.max(self.best().map_or(0, |best| best.round_trip / 2)).min(self.longest / 2);
        if self.count <= REMEMBERED {
            self.error = self.best().map_or(0, |best| best.round_trip / 2);
        }
    }

    fn best(&self) -> Option<&Sample> {
        self.samples.iter().min_by_key(|sample| sample.round_trip)
    }

    /// Returns the median round trip of the last probes.
    ///
    /// Each stamp is made when a machine gets to it, so a late machine adds its lateness to the probes of that moment.
    fn usual(&self) -> i64 {
        let mut all: Vec<i64> = self.samples.iter().map(|sample| sample.round_trip).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the number of probes recorded.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the other machine's clock less this one's.
    pub(super) fn offset(&self) -> i64 {
        self.best().map_or(0, |best| best.offset)
    }

    pub(super) fn path(&self) -> Path {
        let span = |nanos: i64| Span::from_nanos(u64::try_from(nanos).unwrap_or_default());
        Path {
            shortest_round_trip: span(if self.count == 0 { 0 } else { self.shortest }),
            usual_round_trip: span(self.usual()),
            longest_round_trip: span(self.longest),
            clock_error: span(self.error),
            offset_ns: self.offset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs probes over a path of these one-way times at an offset and a drift, and returns the worst error and its bound.
    fn errors(ways: impl Fn(i64) -> (i64, i64), offset: i64, ppm: i64) -> (i64, i64) {
        let (mut clocks, mut worst) = (Clocks::new(Skew::default()), 0);
        for n in 0..600 {
            let real = n * 100_000_000;
            let other = |real: i64| real + offset + real / 1_000_000 * ppm;
            let (out, back) = ways(n);
            let got = other(real + out);
            clocks.record(real, got, got + 50_000, real + out + 50_000 + back);
            if n > 20 {
                worst = worst.max((clocks.offset() - (other(real) - real)).abs());
            }
        }
        (worst, clocks.path().clock_error.as_nanos() as i64)
    }

    #[test]
    fn the_difference_is_found_within_half_of_a_round_trip() {
        let day = 86_400_000_000_000;
        assert!(errors(|_| (200_000, 200_000), -day, 0).0 <= 1);
        // Both ways differ: the bound is tight where one takes no time.
        let (worst, bound) = errors(|_| (400_000, 0), day, 0);
        assert!(worst <= bound && worst >= 199_999, "{worst} {bound}");
        // Queues on the way, and a crystal that is off by 50 ppm.
        let (worst, bound) =
            errors(|n| (200_000 + n * 7_919 % 3_000_000, 200_000 + n * 104_729 % 5_000_000), day, 50);
        assert!(worst <= bound + 80_000, "{worst} {bound}");
    }

    #[test]
    fn a_late_probe_is_not_the_usual_one() {
        let mut clocks = Clocks::new(Skew::default());
        assert_eq!(clocks.path().usual_round_trip, Span::ZERO);
        // A machine that stands still for 0.7 s is late for the probes of that time.
        for n in 0..20 {
            let late = [0, 650, 550, 450, 350, 250, 150, 50].get(n).copied().unwrap_or_default();
            let (sent, trip) = (n as i64 * 100_000_000, 200_000 + late * 1_000_000);
            clocks.record(sent, sent, sent, sent + trip);
        }
        let path = clocks.path();
        assert_eq!(path.usual_round_trip, Span::from_micros(200), "{path:?}");
        assert_eq!(path.longest_round_trip, Span::from_micros(650_200), "{path:?}");
        // A path that has become longer is known as that after half of the probes that are remembered.
        (0..9).for_each(|_| clocks.record(0, 0, 0, 300_000_000));
        assert_eq!(clocks.path().usual_round_trip, Span::from_millis(300));
    }

    #[test]
    fn impossible_stamps_are_left_out() {
        let mut clocks = Clocks::new(Skew::default());
        clocks.record(0, i64::MAX, i64::MIN, 0);
        clocks.record(i64::MIN, i64::MAX, i64::MAX, i64::MIN);
        clocks.record(10, 5, 50, 10);
        assert_eq!((clocks.offset(), clocks.path().longest_round_trip), (0, Span::ZERO));
    }

    #[test]
    fn a_skewed_clock_reads_back() {
        let clocks = Clocks::new(Skew { offset_ns: -3_600_000_000_000, drift_ppm: 80.0 });
        let reading = clocks.skewed(10_000_000_000);
        assert_eq!(reading, -3_590_000_000_000 + 800_000);
        assert!((clocks.unskewed(reading) - 10_000_000_000).abs() <= 1000);
    }
}
