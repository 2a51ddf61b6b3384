//! Lines of the log about what may happen often, at a bounded rate.

use std::collections::HashMap;
use std::fmt::Display;

use bentpipe_units::{Span, Time};

/// Interval of lines about one matter.
const PERIOD: Span = Span::from_secs(30);
/// Maximum number of matters in an interval.
const MAX_MATTERS: usize = 64;
/// Lines about the connections of a host in an interval.
pub(super) const OF_HOST: u32 = 10;

/// Lines about a matter in an interval.
#[derive(Debug)]
struct Matter {
    /// End of the interval.
    until: Time,
    /// Lines that may follow in it.
    left: u32,
    left_out: u64,
    /// The last line that was left out.
    last: String,
}

/// Log of frequent events.
#[derive(Debug, Default)]
pub(super) struct Rare {
    matters: HashMap<String, Matter>,
    /// Lines about matters beyond the maximum.
    others: u64,
    /// End of the interval in which they are counted.
    others_until: Time,
    lines: Vec<String>,
}

impl Rare {
    /// Logs a line, if the last one about the matter is long enough ago.
    pub(super) fn say(&mut self, matter: &str, line: String, now: Time) {
        self.say_some(matter, 1, line, now);
    }

    /// Logs a line, if less than `most` were logged about the matter in the interval.
    pub(super) fn say_some(&mut self, matter: &str, most: u32, line: String, now: Time) {
        self.expire(now);
        if let Some(matter) = self.matters.get_mut(matter) {
            if matter.left == 0 {
                matter.left_out += 1;
                matter.last = line;
                return;
            }
            matter.left -= 1;
        } else if self.matters.len() < MAX_MATTERS {
            let new = Matter { until: now + PERIOD, left: most - 1, left_out: 0, last: String::new() };
            self.matters.insert(matter.to_owned(), new);
        } else {
            if self.others == 0 {
                self.others_until = now + PERIOD;
            }
            self.others += 1;
            return;
        }
        self.lines.push(line);
    }

    /// Ends intervals. One in which lines were left out has the last of them, with their number, and begins again.
    fn expire(&mut self, now: Time) {
        let lines = &mut self.lines;
        self.matters.retain(|_, matter| {
            if matter.until > now {
                return true;
            }
            let left_out = std::mem::take(&mut matter.left_out);
            if left_out > 0 {
                lines.push(more(std::mem::take(&mut matter.last), left_out));
                (matter.until, matter.left) = (now + PERIOD, 0);
            }
            left_out > 0
        });
        if self.others > 0 && self.others_until <= now {
            let others = std::mem::take(&mut self.others);
            lines.push(format!("{others} lines about other matters were left out"));
        }
    }

    /// Removes and returns the lines.
    pub(super) fn take(&mut self, now: Time) -> Vec<String> {
        self.expire(now);
        std::mem::take(&mut self.lines)
    }

    /// Removes and returns all lines, with the last ones that were left out.
    pub(super) fn finish(&mut self) -> Vec<String> {
        self.take(Time::NEVER)
    }
}

fn more(line: impl Display, left_out: u64) -> String {
    match left_out {
        1 => line.to_string(),
        _ => format!("{line} (and {} like it before)", left_out - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matter_has_a_line_an_interval_and_matters_are_bounded() {
        let (mut rare, start) = (Rare::default(), Time::ZERO);
        (0..100).for_each(|_| rare.say("a", "no route".to_owned(), start));
        assert_eq!(rare.take(start), ["no route"]);
        assert_eq!(rare.take(start + PERIOD), ["no route (and 98 like it before)"], "without another event");
        rare.say("a", "no route".to_owned(), start + PERIOD);
        assert_eq!(rare.take(start + PERIOD), [""; 0], "the interval has its line");
        assert_eq!(rare.take(start + PERIOD * 2), ["no route"]);
        assert_eq!(rare.take(start + PERIOD * 3), [""; 0]);
        assert!(rare.matters.is_empty());
        (0..1000).for_each(|n| rare.say(&n.to_string(), "x".to_owned(), start + PERIOD * 4));
        assert_eq!(rare.take(start + PERIOD * 4).len(), MAX_MATTERS);
        let others = format!("{} lines about other matters were left out", 1000 - MAX_MATTERS);
        assert_eq!(rare.finish(), [others]);
    }

    #[test]
    fn a_host_has_some_lines_an_interval() {
        let mut rare = Rare::default();
        (0..50).for_each(|n| rare.say_some("host", OF_HOST, format!("session {n}"), Time::ZERO));
        assert_eq!(rare.take(Time::ZERO).len(), 10);
        assert_eq!(rare.finish(), ["session 49 (and 39 like it before)"]);
    }
}
