//! Contact plans: when which node can send to which, at which rate and delay.
//!
//! Models contacts and ranges in ION's text form and contacts in HDTN's JSON, times to the millisecond.
//! Does not model ION's regions but the first, nor discovered contacts (end 0), which are refused.

mod hdtn;
mod ion;

use bentpipe_units::{Rate, Span, Time};

/// Maximum number of contacts of a plan.
pub const MAX_CONTACTS: usize = 100_000;

/// Period in which a node can send to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contact {
    /// Node that sends.
    pub from: u64,
    /// Node that receives.
    pub to: u64,
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// Rate of transmission.
    pub rate: Rate,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// Light time, one way; `None` if no range covers it.
    pub light_time: Option<Span>,
}

/// Light time from a node to another during a period, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Node that sends.
    pub from: u64,
    /// Node that receives.
    pub to: u64,
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// Light time, one way.
    pub light_time: Span,
}

/// Contact plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Contacts in the order of their starts.
    pub contacts: Vec<Contact>,
    /// Ranges as written.
    pub ranges: Vec<Range>,
}

/// Error returned when a plan cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PlanError {
    /// Line, from 1.
    pub line: usize,
    /// Condition.
    pub problem: String,
}

impl PlanError {
    fn new(line: usize, problem: impl Into<String>) -> PlanError {
        PlanError { line, problem: problem.into() }
    }
}

impl Plan {
    /// Reads a plan in either form: JSON if it begins with a brace, else ION's.
    ///
    /// `start` is the Unix time of instant 0, for absolute times of ION's form.
    ///
    /// # Errors
    /// Returns an error with its line.
    pub fn parse(text: &str, start: f64) -> Result<Plan, PlanError> {
        match text.trim_start().starts_with('{') {
            true => hdtn::parse(text),
            false => ion::parse(text, start),
        }
    }

    /// Returns the plan in ION's form, with times relative to instant 0.
    pub fn to_ion(&self) -> String {
        ion::write(self)
    }

    /// Returns the plan in HDTN's form, and the number of contacts whose times are rounded.
    ///
    /// That form has whole seconds: a contact begins no earlier and ends no later, and light times are longer. Without a whole
    /// second it is left out.
    pub fn to_hdtn(&self) -> (String, usize) {
        hdtn::write(self)
    }

    /// Sorts contacts, checks them and gives them the light times of the ranges.
    fn finish(mut self, lines: &[usize]) -> Result<Plan, PlanError> {
        let mut order: Vec<usize> = (0..self.contacts.len()).collect();
        order.sort_by_key(|n| {
            let contact = &self.contacts[*n];
            (contact.from, contact.to, contact.start)
        });
        for pair in order.windows(2) {
            let [one, other] = [&self.contacts[pair[0]], &self.contacts[pair[1]]];
            if (one.from, one.to) == (other.from, other.to) && other.start < one.end {
                let problem = format!("contact overlaps another one from {} to {}", one.from, one.to);
                return Err(PlanError::new(lines[pair[1]], problem));
            }
        }
        let ranges = &self.ranges;
        for contact in &mut self.contacts {
            contact.light_time = contact.light_time.or_else(|| light_time(ranges, contact));
        }
        self.contacts.sort_by_key(|contact| (contact.start, contact.from, contact.to, contact.end));
        Ok(self)
    }

    /// Returns the contact from a node to another at an instant, if there is one.
    pub fn at(&self, from: u64, to: u64, now: Time) -> Option<&Contact> {
        self.contacts.iter().find(|contact| {
            (contact.from, contact.to) == (from, to) && contact.start <= now && now < contact.end
        })
    }

    /// Returns the contacts from a node to another.
    pub fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &Contact> {
        self.contacts.iter().filter(move |contact| (contact.from, contact.to) == (from, to))
    }

    /// Returns the number of bytes that a pair's contacts carry in all.
    pub fn capacity(&self, from: u64, to: u64) -> u64 {
        let volume = |contact: &Contact| {
            (contact.rate.as_bytes_per_sec() * (contact.end - contact.start).as_secs_f64()) as u64
        };
        self.between(from, to).map(volume).sum()
    }
}

/// Returns the light time at the start of a contact. A range from the lower to the higher node number holds both ways,
/// unless one of the reverse direction says otherwise.
fn light_time(ranges: &[Range], contact: &Contact) -> Option<Span> {
    let find = |from: u64, to: u64| {
        let covers = |range: &&Range| {
            (range.from, range.to) == (from, to) && range.start <= contact.start && contact.start < range.end
        };
        ranges.iter().find(covers).map(|range| range.light_time)
    };
    let own = find(contact.from, contact.to);
    own.or_else(|| if contact.from > contact.to { find(contact.to, contact.from) } else { None })
}

#[cfg(test)]
mod tests;
