//! Low-power listening: looks at the channel, and trains of copies that last until one.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phy;

/// Low-power listening: radios look at the channel at an interval.
///
/// A radio stays on if it is busy. A sender repeats its frame until the receiver acknowledges it, or for longer than an interval. Devices wake at
/// instants that are spread evenly over the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WpanListen")]
pub struct Listen {
    /// Interval of wake-ups, 5 ms to 60 s.
    pub interval: Span,
    /// Time for which a radio looks at the channel, more than the gap between copies. Default: 2.5 ms.
    #[serde(default = "check")]
    pub check: Span,
}

const fn check() -> Span {
    Span::from_micros(2500)
}

/// Bounds of the interval.
const INTERVALS: (Span, Span) = (Span::from_millis(5), Span::from_secs(60));

impl Listen {
    /// Checks the times.
    ///
    /// # Errors
    /// Returns an error if a look is not longer than the gap between copies, or not shorter than the interval.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let is_interval = (INTERVALS.0..=INTERVALS.1).contains(&self.interval);
        InvalidConfig::ensure(is_interval, "listen.interval", "5 ms to 60 s")?;
        let is_check = self.check >= phy::ACK_WAIT + phy::CCA && self.check < self.interval;
        InvalidConfig::ensure(is_check, "listen.check", "992 us or more, and less than `interval`")
    }

    /// Returns the part of an interval after which a device wakes.
    fn phase(&self, device: u16) -> Span {
        // Multiples of the golden ratio are spread evenly.
        let turn = u64::from(device).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Span::from_nanos(((u128::from(self.interval.as_nanos()) * u128::from(turn)) >> 32) as u64)
    }

    /// Returns the first wake-up of a device whose look ends after an instant.
    pub(super) fn wake_up(&self, device: u16, at: Time) -> Time {
        let first = Time::ZERO + self.phase(device);
        if at < first + self.check {
            return first;
        }
        let intervals = (at - (first + self.check)).as_nanos() / self.interval.as_nanos() + 1;
        first + self.interval * intervals
    }

    /// Returns the time of a device's looks at the channel up to an instant.
    pub(super) fn looks_until(&self, device: u16, now: Time) -> Span {
        let since = now.since(Time::ZERO + self.phase(device));
        let (whole, rest) =
            (since.as_nanos() / self.interval.as_nanos(), since.as_nanos() % self.interval.as_nanos());
        self.check * whole + Span::from_nanos(rest).min(self.check)
    }

    /// Returns the number of copies that outlast an interval and a look.
    pub(super) fn copies(&self, period: Span) -> u32 {
        ((self.interval + self.check).as_nanos().div_ceil(period.as_nanos()) + 1) as u32
    }
}

/// Copies of a frame, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Train {
    pub(super) number: u32,
    pub(super) start: Time,
    /// Time on the air of a copy.
    pub(super) copy: Span,
    /// Time from copy to copy.
    pub(super) period: Span,
    pub(super) count: u32,
}

impl Train {
    /// Returns the start of a copy.
    pub(super) fn start_of(&self, copy: u32) -> Time {
        self.start + self.period * u64::from(copy)
    }

    /// Returns the end of a copy.
    pub(super) fn end_of(&self, copy: u32) -> Time {
        self.start_of(copy) + self.copy
    }

    /// Returns the first copy that starts at or after an instant, if there is one.
    pub(super) fn copy_from(&self, at: Time) -> Option<u32> {
        let copy = at.since(self.start).as_nanos().div_ceil(self.period.as_nanos());
        (copy < u64::from(self.count)).then_some(copy as u32)
    }

    /// Returns the copy that ends at an instant.
    pub(super) fn copy_until(&self, end: Time) -> u32 {
        (end.since(self.start + self.copy).as_nanos() / self.period.as_nanos()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen() -> Listen {
        Listen { interval: Span::from_millis(100), check: Span::from_micros(2500) }
    }

    #[test]
    fn wake_ups_are_periodic_and_spread() {
        let listen = listen();
        for device in 0..200 {
            let first = listen.wake_up(device, Time::ZERO);
            assert!(first < Time::ZERO + listen.interval);
            assert_eq!(listen.wake_up(device, first + Span::from_micros(2499)), first);
            assert_eq!(listen.wake_up(device, first + listen.check), first + listen.interval);
            assert_eq!(listen.looks_until(device, first + Span::from_micros(2000)), Span::from_micros(2000));
            assert_eq!(listen.looks_until(device, first + Span::from_secs(1)), listen.check * 10);
        }
        let mean = (0..200).map(|device| listen.phase(device).as_secs_f64()).sum::<f64>() / 200.0;
        assert!((mean - 0.05).abs() < 1e-3, "{mean}");
    }

    #[test]
    fn trains_outlast_an_interval_and_a_look() {
        let period = Span::from_micros(2208);
        let count = listen().copies(period);
        let copy = Span::from_micros(1344);
        let train = Train { number: 0, start: Time::from_nanos(7), copy, period, count };
        let end = train.start + listen().interval + listen().check;
        assert!(train.start_of(count - 1) >= end && train.start_of(count - 2) < end);
        assert_eq!(train.copy_from(Time::from_nanos(7)), Some(0));
        assert_eq!(train.copy_from(Time::from_nanos(8)), Some(1));
        assert_eq!(train.copy_from(train.start_of(count - 1) + Span::from_nanos(1)), None);
        assert_eq!(train.copy_until(train.end_of(5)), 5);
    }

    #[test]
    fn times_are_checked() {
        assert!(listen().check().is_ok());
        for (interval, look) in [(1, 900), (100, 900), (100, 100_000), (100_000, 2500)] {
            let wrong = Listen { interval: Span::from_millis(interval), check: Span::from_micros(look) };
            assert!(wrong.check().is_err());
        }
    }
}
