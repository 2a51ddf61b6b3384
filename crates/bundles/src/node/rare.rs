//! Lines of the log about what may happen often, at a bounded rate.

use std::collections::HashMap;

use bentpipe_units::{Span, Time};

/// Interval of lines about one matter.
const PERIOD: Span = Span::from_secs(30);
/// Maximum number of matters in an interval.
const MAX_MATTERS: usize = 64;

/// Log of frequent events.
#[derive(Debug, Default)]
pub(super) struct Rare {
    /// End of the interval, and the lines left out in it.
    matters: HashMap<String, (Time, u64)>,
    lines: Vec<String>,
}

impl Rare {
    /// Logs a line, if the last one about the matter is long enough ago.
    pub(super) fn say(&mut self, matter: &str, line: String, now: Time) {
        if let Some((until, left_out)) = self.matters.get_mut(matter)
            && *until > now
        {
            *left_out += 1;
            return;
        }
        let left_out = self.matters.remove(matter).map_or(0, |(_, left_out)| left_out);
        if self.matters.len() >= MAX_MATTERS {
            self.matters.retain(|_, (until, _)| *until > now);
        }
        if self.matters.len() < MAX_MATTERS {
            self.matters.insert(matter.to_owned(), (now + PERIOD, 0));
            let more =
                if left_out > 0 { format!(" ({left_out} more since the last line)") } else { String::new() };
            self.lines.push(format!("{line}{more}"));
        }
    }

    /// Removes and returns the lines.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matter_has_a_line_an_interval_and_matters_are_bounded() {
        let mut rare = Rare::default();
        (0..100).for_each(|_| rare.say("a", "no route".to_owned(), Time::ZERO));
        assert_eq!(rare.take(), ["no route"]);
        rare.say("a", "no route".to_owned(), Time::ZERO + PERIOD);
        assert_eq!(rare.take(), ["no route (99 more since the last line)"]);
        (0..1000).for_each(|n| rare.say(&n.to_string(), "x".to_owned(), Time::ZERO + PERIOD));
        assert_eq!(rare.take().len(), MAX_MATTERS - 1);
    }
}
