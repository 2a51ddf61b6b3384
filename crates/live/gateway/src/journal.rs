//! Log of anomalies: at most one line per kind and second.
//!
//! An unexpected PID has one line, and an input from which nothing comes one at the beginning and one at the end.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Write;

use bentpipe_emu::plain;
use bentpipe_net::metric::{Counter, Of};
use time::{SignedDuration, UtcDateTime};

use bentpipe_units::Span;

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
    /// PIDs that were named.
    named: HashSet<u16>,
    inputs: Vec<Arrivals>,
    spoken: bool,
}

/// Time without a packet after which an input is named.
const SILENCE: Span = Span::from_secs(2);

/// Packets of an input up to a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    count: u64,
    /// Uptime at which the last ones were seen.
    last: Span,
    is_silent: bool,
}

impl Journal {
    /// Creates a journal that writes to a file, or to the `messages` of each call.
    pub(crate) fn new(file: Option<File>) -> Journal {
        Journal { file, before: HashMap::new(), named: HashSet::new(), inputs: Vec::new(), spoken: false }
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
        self.name_pids(unix_time_s, statistics, messages);
        self.name_silent_inputs(unix_time_s, statistics, messages);
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

    fn name_pids(&mut self, unix_time_s: f64, statistics: &Statistics, messages: &mut dyn Write) {
        for pid in &statistics.unexpected {
            if self.named.insert(*pid) {
                let text =
                    format!("PID or input stream {pid:#x}: not expected, no remote site has it in `receive`");
                self.say(unix_time_s, &text, messages);
            }
        }
    }

    fn name_silent_inputs(&mut self, unix_time_s: f64, statistics: &Statistics, messages: &mut dyn Write) {
        self.inputs.resize(statistics.inputs.len(), Arrivals::default());
        for (n, input) in statistics.inputs.iter().enumerate() {
            let count = input.datagrams.datagrams + input.datagrams.packets;
            let Arrivals { count: before, last, is_silent } = self.inputs[n];
            let since = statistics.uptime.saturating_sub(last);
            if count != before {
                self.inputs[n] = Arrivals { count, last: statistics.uptime, is_silent: false };
                if is_silent {
                    let text = format!("input.{n}: packets come, after {:.0} s without", since.as_secs_f64());
                    self.say(unix_time_s, &text, messages);
                }
            } else if !is_silent && since >= SILENCE {
                self.inputs[n].is_silent = true;
                let text = format!("input.{n}: nothing has come for {:.0} s", since.as_secs_f64());
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
    fn silence_and_unexpected_pids_have_a_line_each() {
        let (mut journal, mut lines) = (Journal::new(None), Vec::<u8>::new());
        let mut look = |uptime: u64, packets: u64, unexpected: &[u16]| {
            let mut input = crate::InputCounts::default();
            input.datagrams.packets = packets;
            let statistics = Statistics {
                uptime: Span::from_secs(uptime),
                inputs: vec![input],
                unexpected: unexpected.to_vec(),
                ..Statistics::default()
            };
            journal.look(0.0, &statistics, &[], &mut lines);
        };
        let rows: [(u64, u64, &[u16]); 8] = [
            (1, 0, &[]),
            (2, 0, &[]),
            (3, 0, &[]),
            (4, 7, &[0x105]),
            (5, 8, &[0x105]),
            (6, 8, &[0x105, 0x106]),
            (7, 8, &[0x105]),
            (9, 8, &[]),
        ];
        rows.into_iter().for_each(|(uptime, packets, pids)| look(uptime, packets, pids));
        let text = String::from_utf8(lines).expect("text");
        let said: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
        let pid =
            |pid| format!("PID or input stream {pid}: not expected, no remote site has it in `receive`");
        assert_eq!(
            said,
            [
                "input.0: nothing has come for 2 s",
                &pid("0x105"),
                "input.0: packets come, after 4 s without",
                &pid("0x106"),
                "input.0: nothing has come for 2 s",
            ]
        );
    }

    #[test]
    fn stamps_are_dates() {
        assert_eq!(stamp(0.0), "1970-01-01T00:00:00.000Z");
        assert_eq!(stamp(951_782_400.25), "2000-02-29T00:00:00.250Z");
        assert_eq!(stamp(1_767_225_599.999), "2025-12-31T23:59:59.999Z");
    }
}
