//! Clock of a site: its difference from the controller's, with a bound of the error.

use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::protocol::Clock;

/// Growth of a measurement's bound, as both oscillators drift apart: 100 ppm.
const DRIFT: f64 = 100e-6;

/// Returns the microseconds since 1970, UTC.
#[expect(clippy::disallowed_methods, reason = "tasks start at an instant of the wall clock")]
pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the microseconds of a clock that is never set.
pub(crate) fn monotonic_us() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1000)
}

/// Waits.
#[expect(clippy::disallowed_methods, reason = "a site waits for its controller and its tasks")]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Times of an exchange in microseconds, as in NTP (RFC 5905, section 8).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// Departure of the request by the site's clock.
    pub(crate) sent: i64,
    /// Arrival of the request by the controller's clock.
    pub(crate) received: i64,
    /// Departure of the answer by the controller's clock.
    pub(crate) answered: i64,
    /// Arrival of the answer by the site's clock.
    pub(crate) arrived: i64,
}

/// Difference of two clocks, measured over a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Difference {
    best: Option<Measured>,
}

#[derive(Clone, Copy, Debug)]
struct Measured {
    at: i64,
    offset_us: f64,
    error_us: f64,
}

impl Measured {
    fn error_at(&self, now: i64) -> f64 {
        self.error_us + (now - self.at).max(0) as f64 * DRIFT
    }
}

impl Difference {
    /// Adds an exchange. The one with the least error counts.
    ///
    /// The error is at most half of the round trip, less the time at the controller: by this both ways may differ.
    pub(crate) fn add(&mut self, exchange: Exchange) {
        let Exchange { sent, received, answered, arrived } = exchange;
        let round_us = (arrived - sent) - (answered - received);
        // A clock was set in the meantime, or the controller states nonsense.
        if arrived < sent || answered < received || round_us < 0 {
            return;
        }
        let offset_us = -((received - sent) as f64 + (answered - arrived) as f64) / 2.0;
        let new = Measured { at: arrived, offset_us, error_us: round_us as f64 / 2.0 };
        let is_better = self.best.is_none_or(|best| {
            let is_apart = (best.offset_us - offset_us).abs() > best.error_at(arrived) + new.error_us;
            // Bounds that exclude each other: a clock was set.
            is_apart || new.error_us <= best.error_at(arrived)
        });
        if is_better {
            self.best = Some(new);
        }
    }

    /// Returns the site's clock minus the controller's, and the bound of its error, in microseconds.
    pub(crate) fn at(&self, now: i64) -> Option<(f64, f64)> {
        self.best.map(|best| (best.offset_us, best.error_at(now)))
    }

    /// Returns the statement of the site.
    pub(crate) fn stated(&self, now: i64, source_error_us: Option<f64>) -> Clock {
        let (offset_us, error_us) = self.at(now).unzip();
        let source = if source_error_us.is_some() { "chrony" } else { "" };
        Clock { offset_us, error_us, source: source.to_owned(), source_error_us }
    }
}

/// Returns the error bound that chrony states, in microseconds, if it runs and is synchronised.
pub(crate) fn chrony_error_us() -> Option<f64> {
    let mut command = Command::new("chronyc");
    command.args(["-c", "tracking"]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    tracked(&String::from_utf8_lossy(&output.stdout))
}

/// Reads the line of `chronyc -c tracking`.
///
/// The bound is the offset, the root dispersion, and half of the root delay.
fn tracked(line: &str) -> Option<f64> {
    let fields: Vec<&str> = line.trim().split(',').collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok().filter(|value| value.is_finite());
    let is_synchronised = number(2)? > 0.0 && *fields.get(13)? != "Not synchronised";
    let bound_s = number(4)?.abs() + number(11)? + number(10)? / 2.0;
    is_synchronised.then_some(bound_s * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exchange with a site's clock ahead by `offset`, ways of the given lengths, and a stay at the controller.
    fn exchange(start: i64, offset: i64, there: i64, stay: i64, back: i64) -> Exchange {
        let received = start + there;
        let answered = received + stay;
        Exchange { sent: start + offset, received, answered, arrived: answered + back + offset }
    }

    #[test]
    fn the_error_is_within_its_bound() {
        for (there, back) in [(100, 100), (50, 900), (3000, 10), (0, 0)] {
            let mut difference = Difference::default();
            difference.add(exchange(1_000_000, 250_000, there, 7000, back));
            let (offset, error) = difference.at(1_000_000).expect("measured");
            assert!((offset - 250_000.0).abs() <= error, "{there} {back}: {offset} {error}");
            assert_eq!(error, (there + back) as f64 / 2.0);
        }
    }

    #[test]
    fn the_best_exchange_counts_until_it_is_old_or_a_clock_is_set() {
        let mut difference = Difference::default();
        difference.add(exchange(0, 1000, 100, 0, 100));
        difference.add(exchange(1000, 1000, 5000, 0, 10));
        assert_eq!(difference.at(0).map(|(offset, _)| offset), Some(1000.0));
        let (_, error) = difference.at(60_000_000).expect("measured");
        assert!((error - 100.0 - 6000.0).abs() < 1.0, "{error}");
        difference.add(exchange(60_000_000, 1400, 400, 0, 400));
        assert_eq!(difference.at(60_001_000).map(|(offset, _)| offset), Some(1400.0));
        difference.add(exchange(61_000_000, 9_000_000, 800, 0, 800));
        assert_eq!(difference.at(61_001_000).map(|(offset, _)| offset), Some(9_000_000.0), "it was set");
        difference.add(Exchange { sent: 5, received: 9, answered: 8, arrived: 7 });
        assert_eq!(difference.at(61_001_000).map(|(offset, _)| offset), Some(9_000_000.0));
    }

    #[test]
    fn chrony_states_its_bound() {
        let line = "A29FC87B,time.example.org,3,1795595787.123,0.000012,-0.000004,0.000020,-12.3,0.001,0.02,0.011,0.0008,64.2,Normal\n";
        let bound = tracked(line).expect("synchronised");
        assert!((bound - (12.0 + 800.0 + 5500.0)).abs() < 1e-6, "{bound}");
        assert_eq!(tracked(&line.replace("Normal", "Not synchronised")), None);
        assert_eq!(
            (tracked(""), tracked("a,b"), tracked(&line.replace("0.0008", "nan"))),
            (None, None, None)
        );
    }
}
