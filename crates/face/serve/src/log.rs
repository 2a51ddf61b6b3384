//! Log lines on standard error.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use bentpipe_emu::plain;

use crate::clock::{now_ms, shown};

/// Interval in which lines of a kind are counted, in milliseconds.
const PERIOD_MS: i64 = 60_000;
/// Lines of a kind in an interval.
const MOST: u64 = 10;
/// Interval of lines of which there is one.
const SELDOM_MS: i64 = 30_000;
/// Kinds of lines, by their first characters.
const KINDS: usize = 64;
/// Characters of a kind.
const LEN: usize = 24;

/// Writes a line with the time. Characters that control a terminal are replaced, so that one event is one line.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{} {}", shown(now_ms()), plain::line(text));
}

/// Writes a line about what clients can bring about at will.
///
/// There are ten of a kind in a minute. The first one after that states how many were left out.
pub(crate) fn often(text: &str) {
    static SEEN: Mutex<Seen> = Mutex::new(Seen(BTreeMap::new()));
    let left_out = SEEN.lock().unwrap_or_else(PoisonError::into_inner).note(text, now_ms());
    match left_out {
        Some(0) => line(text),
        Some(count) => line(&format!("{text} (and {count} like it before)")),
        None => {}
    }
}

/// Writes a line about what each request may bring about, such as a full disk. There is one of a kind in 30 s.
pub(crate) fn seldom(text: &str) {
    static SEEN: Mutex<Seen> = Mutex::new(Seen(BTreeMap::new()));
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner).note_some(text, (SELDOM_MS, 1), now_ms());
    match seen {
        Some(0) => line(text),
        Some(count) => line(&format!("{text} (and {count} like it before)")),
        None => {}
    }
}

/// Kinds of lines: the end of the interval, and the lines in it.
struct Seen(BTreeMap<String, (i64, u64)>);

impl Seen {
    /// Returns the number of lines that were left out before this one. `None` if it is left out too.
    fn note(&mut self, text: &str, now_ms: i64) -> Option<u64> {
        self.note_some(text, (PERIOD_MS, MOST), now_ms)
    }

    /// Does as [`Seen::note`] with another number of lines in a period.
    fn note_some(&mut self, text: &str, (period, most): (i64, u64), now_ms: i64) -> Option<u64> {
        // Numbers name jobs and users.
        let kind: String = text.chars().filter(|c| !c.is_numeric()).take(LEN).collect();
        let is_new = !self.0.contains_key(&kind);
        if is_new && self.0.len() >= KINDS {
            self.0.retain(|_, (until, _)| *until > now_ms);
        }
        let kind = if is_new && self.0.len() >= KINDS { String::new() } else { kind };
        let (until, count) = self.0.entry(kind).or_insert((now_ms + period, 0));
        let mut left_out = 0;
        if *until <= now_ms {
            left_out = count.saturating_sub(most);
            (*until, *count) = (now_ms + period, 0);
        }
        *count += 1;
        (*count <= most).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_kind_are_ten_in_a_minute_and_the_rest_is_counted() {
        let mut seen = Seen(BTreeMap::new());
        let written = (0..100).filter(|n| seen.note(&format!("note: archive of job {n}"), 5).is_some());
        assert_eq!(written.count(), 10);
        assert_eq!(seen.note("error: accept", 5), Some(0), "another kind");
        assert_eq!(seen.note("note: archive of job 7", 5 + PERIOD_MS), Some(90));
        assert_eq!(seen.note("note: archive of job 8", 6 + PERIOD_MS), Some(0));
        let kind = |n: u8| String::from_utf8(vec![b'a' + n / 26, b'a' + n % 26]).expect("ASCII");
        let written = (0..100).filter(|n| seen.note(&kind(*n), 9).is_some()).count();
        assert!(written <= KINDS + 10, "{written}");
        assert!(seen.0.len() <= KINDS + 1);
    }

    #[test]
    fn a_full_disk_has_a_line_in_30_s() {
        let mut seen = Seen(BTreeMap::new());
        let mut note = |now: i64| seen.note_some("note: end of the audit log: full", (SELDOM_MS, 1), now);
        assert_eq!((0..1000).filter_map(&mut note).collect::<Vec<_>>(), [0]);
        assert_eq!((note(SELDOM_MS), note(SELDOM_MS + 1)), (Some(999), None));
    }
}
