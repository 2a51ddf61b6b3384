//! Log of anomalies: at most one line per kind and second.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;

use bentpipe_emu::plain;
use bentpipe_net::metric::{Counter, Of};
use time::{SignedDuration, UtcDateTime};

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
        let line = format!("{} {}\n", stamp(unix_time_s), plain::line(text));
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
    let since = SignedDuration::milliseconds((unix_time_s * 1e3).max(0.0) as i64);
    let at = UtcDateTime::UNIX_EPOCH.saturating_add(since);
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second, millis) = at.as_hms_milli();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z", u8::from(month))
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
