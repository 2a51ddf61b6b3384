//! ION's text form of contact plans (`ionrc`).

use std::fmt::Write;

use bentpipe_units::{Rate, Span, Time};
use time::Date;

use super::{Contact, MAX_CONTACTS, Plan, PlanError, Range};

/// Reader of a plan, line by line.
struct Reader {
    plan: Plan,
    lines: Vec<usize>,
    /// Instant that relative times count from.
    reference: f64,
    /// Unix time of instant 0.
    start: f64,
    line: usize,
}

pub(super) fn parse(text: &str, start: f64) -> Result<Plan, PlanError> {
    let mut reader = Reader { plan: Plan::default(), lines: Vec::new(), reference: 0.0, start, line: 0 };
    for line in text.lines() {
        reader.line += 1;
        let content = line.split('#').next().unwrap_or_default();
        reader.command(&content.split_whitespace().collect::<Vec<_>>())?;
    }
    reader.plan.finish(&reader.lines)
}

impl Reader {
    fn problem(&self, problem: impl Into<String>) -> PlanError {
        PlanError::new(self.line, problem)
    }

    fn command(&mut self, words: &[&str]) -> Result<(), PlanError> {
        match words {
            [] | ["s"] | ["1", ..] | ["m", ..] => Ok(()),
            ["^", "1"] => Ok(()),
            ["^", ..] => Err(self.problem("expected region 1, got another one")),
            ["@", time] => {
                self.reference = self.time(time)?;
                Ok(())
            }
            ["a", "contact", rest @ ..] => self.contact(rest),
            ["a", "range", rest @ ..] => self.range(rest),
            [word, ..] => {
                Err(self.problem(format!("expected `a contact`, `a range`, `@`, `^` or `m`, got \"{word}\"")))
            }
        }
    }

    /// Reads a time, relative or absolute, as seconds from instant 0.
    fn time(&self, text: &str) -> Result<f64, PlanError> {
        let seconds = match text.strip_prefix('+') {
            Some(relative) => relative.parse::<f64>().ok().map(|relative| self.reference + relative),
            None => calendar(text).map(|unix| unix - self.start),
        };
        // Instants are 64 bits of nanoseconds.
        let seconds = seconds.filter(|seconds| seconds.is_finite() && (0.0..9e9).contains(seconds));
        let expected = || {
            format!(
                "expected a time as \"+3600\" or \"2026/01/01-00:00:00\", not before the start, got \"{text}\""
            )
        };
        seconds.ok_or_else(|| self.problem(expected()))
    }

    fn number<T: std::str::FromStr>(&self, text: &str, what: &str) -> Result<T, PlanError> {
        text.parse().map_err(|_| self.problem(format!("expected {what}, got \"{text}\"")))
    }

    fn period(&self, start: &str, end: &str) -> Result<(Time, Time), PlanError> {
        let (start, end) = (instant(self.time(start)?), instant(self.time(end)?));
        match start < end {
            true => Ok((start, end)),
            false => Err(self.problem("the end is not after the start")),
        }
    }

    fn contact(&mut self, words: &[&str]) -> Result<(), PlanError> {
        let (&[start, end, from, to, rate], rest) = words.split_first_chunk::<5>().map_or_else(
            || Err(self.problem("expected `a contact START END FROM TO BYTES_PER_SECOND`")),
            Ok,
        )?;
        if start == "-1" {
            return Ok(());
        }
        let (start, end) = self.period(start, end)?;
        let (from, to) = (self.number(from, "a node number")?, self.number(to, "a node number")?);
        let rate: u64 = self.number(rate, "bytes per second")?;
        let confidence = match rest {
            [] => 1.0,
            [text] => self.number(text, "a confidence of 0 to 1")?,
            _ => return Err(self.problem("expected nothing after the confidence")),
        };
        if !(0.0..=1.0).contains(&confidence) || from == to {
            return Err(self.problem("expected two nodes, and a confidence of 0 to 1"));
        }
        let rate = rate.checked_mul(8).map(Rate::from_bps);
        let rate = rate.ok_or_else(|| self.problem("expected fewer bytes per second"))?;
        if self.plan.contacts.len() == MAX_CONTACTS {
            return Err(self.problem(format!("expected at most {MAX_CONTACTS} contacts")));
        }
        self.lines.push(self.line);
        self.plan.contacts.push(Contact { from, to, start, end, rate, confidence, light_time: None });
        Ok(())
    }

    fn range(&mut self, words: &[&str]) -> Result<(), PlanError> {
        let &[start, end, from, to, seconds] = words else {
            return Err(self.problem("expected `a range START END FROM TO SECONDS`"));
        };
        let (start, end) = self.period(start, end)?;
        let (from, to) = (self.number(from, "a node number")?, self.number(to, "a node number")?);
        let seconds: f64 = self.number(seconds, "light seconds")?;
        if !(0.0..1e6).contains(&seconds) {
            return Err(self.problem(format!("expected 0 to 1e6 light seconds, got {seconds}")));
        }
        if self.plan.ranges.len() == MAX_CONTACTS {
            return Err(self.problem(format!("expected at most {MAX_CONTACTS} ranges")));
        }
        self.plan.ranges.push(Range { from, to, start, end, light_time: Span::from_secs_f64(seconds) });
        Ok(())
    }
}

fn instant(seconds: f64) -> Time {
    Time::ZERO + Span::from_secs_f64((seconds * 1000.0).round() / 1000.0)
}

/// Returns the Unix time of "yyyy/mm/dd-hh:mm:ss". Seconds may have a fraction.
fn calendar(text: &str) -> Option<f64> {
    let (date, time) = text.split_once('-')?;
    let [year, month, day] = date.split('/').collect::<Vec<_>>().try_into().ok()?;
    let (year, month, day): (i32, u8, u8) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let [hours, minutes, seconds] = time.split(':').collect::<Vec<_>>().try_into().ok()?;
    let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok()?;
    if !(1970..3000).contains(&year) || !(0.0..60.0).contains(&seconds) {
        return None;
    }
    let date = Date::from_calendar_date(year, month.try_into().ok()?, day).ok()?;
    let minute = date.with_hms(hours, minutes, 0).ok()?.as_utc();
    Some(minute.unix_timestamp() as f64 + seconds)
}

fn seconds(time: Time) -> f64 {
    time.as_secs_f64()
}

pub(super) fn write(plan: &Plan) -> String {
    let mut out = String::from("m horizon +0\n");
    for contact in &plan.contacts {
        let Contact { from, to, start, end, rate, confidence, .. } = contact;
        let (start, end) = (seconds(*start), seconds(*end));
        let _ = write!(out, "a contact +{start} +{end} {from} {to} {}", rate.as_bps() / 8);
        if *confidence < 1.0 {
            let _ = write!(out, " {confidence}");
        }
        out.push('\n');
    }
    for range in &plan.ranges {
        let Range { from, to, start, end, light_time } = range;
        let (start, end) = (seconds(*start), seconds(*end));
        let _ = writeln!(out, "a range +{start} +{end} {from} {to} {}", light_time.as_secs_f64());
    }
    out
}
