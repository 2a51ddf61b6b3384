//! Log of anomalies: at most one line per kind and second.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;

use bentpipe_net::metric::{Counter, Of};

use crate::Statistics;
use crate::metrics::{Sample, declared};

/// Counters that should not grow.
static ANOMALIES: [&Of<Counter>; 16] = [
    &declared::OUTPUT_DROPPED,
    &declared::OUTPUT_RESTARTS,
    &declared::INPUT_WRONG_LENGTH,
    &declared::INPUT_NO_SYNC,
    &declared::INPUT_NO_RTP,
    &declared::INPUT_UNEXPECTED_SOURCE,
    &declared::INPUT_OVERFLOWS,
    &declared::INPUT_RTP_LOST,
    &declared::INPUT_OUT_OF_ORDER,
    &declared::INPUT_FRAMING_LOSSES,
    &declared::INPUT_ERRORS,
    &declared::LAN_WRITE_ERRORS,
    &declared::QUEUE_DROPPED,
    &declared::CARRIER_SKIPPED,
    &declared::LOOPS_DETECTED,
    &declared::BRIDGE_REFUSED,
];

/// Log.
pub(crate) struct Journal {
    file: Option<File>,
    before: HashMap<String, f64>,
    spoken: bool,
}

impl Journal {
    /// Creates a journal that writes to a file, or to the `messages` of each call.
    pub(crate) fn new(file: Option<File>) -> Journal {
        Journal { file, before: HashMap::new(), spoken: false }
    }

    /// Logs new anomalies.
    pub(crate) fn look(
        &mut self,
        unix_time_s: f64,
        statistics: &Statistics,
        samples: &[Sample],
        messages: &mut dyn Write,
    ) {
        for anomaly in &statistics.anomalies {
            let ago = (statistics.uptime.as_secs_f64() - anomaly.at.as_secs_f64()).max(0.0);
            let times = if anomaly.count == 1 { String::new() } else { format!(", {} times", anomaly.count) };
            let text = format!("{}, PID {:#x}: {}{times}", anomaly.remote, anomaly.pid, anomaly.what);
            self.say(unix_time_s - ago, &text, messages);
        }
        let is_anomaly = |sample: &&Sample| ANOMALIES.iter().any(|metric| metric.is(sample.metric()));
        for sample in samples.iter().filter(is_anomaly) {
            let place = sample.place();
            let before = self.before.insert(place.clone(), sample.value()).unwrap_or(0.0);
            if sample.value() > before {
                let text = format!("{place}: {} more, {}", sample.value() - before, sample.metric().label);
                self.say(unix_time_s, &text, messages);
            }
        }
    }

    /// Writes a line.
    pub(crate) fn say(&mut self, unix_time_s: f64, text: &str, messages: &mut dyn Write) {
        let line = format!("{} {text}\n", stamp(unix_time_s));
        match &mut self.file {
            Some(file) => drop(file.write_all(line.as_bytes())),
            None => {
                self.spoken = true;
                drop(messages.write_all(line.as_bytes()));
            }
        }
    }

    /// Returns `true` if it wrote to `messages` since the last call.
    pub(crate) fn take_spoken(&mut self) -> bool {
        std::mem::take(&mut self.spoken)
    }
}

/// Returns date and time of day, UTC (ISO 8601).
fn stamp(unix_time_s: f64) -> String {
    let millis = (unix_time_s * 1e3).max(0.0) as u64;
    let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
    let (hours, minutes) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (year, month, day) = date(days);
    let seconds = in_day % 60_000;
    format!(
        "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{:02}.{:03}Z",
        seconds / 1000,
        seconds % 1000
    )
}

/// Returns the date of a day since 1970, counted in years that begin with March.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, in_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * in_year + 2) / 153;
    let day = in_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_dates() {
        assert_eq!(stamp(0.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(951_782_400.25), "2000-02-29T00:00:00.250Z");
        assert_eq!(stamp(1_767_225_599.999), "2025-12-31T23:59:59.999Z");
    }
}
