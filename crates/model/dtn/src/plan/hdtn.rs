//! HDTN's JSON form of contact plans.

use bentpipe_units::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

use super::{Contact, MAX_CONTACTS, Plan, PlanError, Range};

#[derive(Serialize, Deserialize)]
struct File {
    contacts: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    contact: u64,
    source: u64,
    dest: u64,
    start_time: f64,
    end_time: f64,
    #[serde(alias = "rate")]
    rate_bits_per_sec: u64,
    #[serde(default)]
    owlt: f64,
}

pub(super) fn parse(text: &str) -> Result<Plan, PlanError> {
    let file: File =
        serde_json::from_str(text).map_err(|error| PlanError::new(error.line(), error.to_string()))?;
    if file.contacts.len() > MAX_CONTACTS {
        return Err(PlanError::new(1, format!("expected at most {MAX_CONTACTS} contacts")));
    }
    let count = file.contacts.len();
    // Other objects than contacts are not of this form, and are looked over.
    let lines = Some(lines(text)).filter(|lines| lines.len() == count).unwrap_or_else(|| vec![1; count]);
    let contacts = file.contacts.iter().zip(&lines).map(contact).collect::<Result<Vec<_>, _>>()?;
    let range = |contact: &Contact| Range {
        from: contact.from,
        to: contact.to,
        start: contact.start,
        end: contact.end,
        light_time: contact.light_time.unwrap_or(Span::ZERO),
    };
    let ranges = contacts.iter().map(range).collect();
    Plan { contacts, ranges }.finish(&lines)
}

fn contact((entry, line): (&Entry, &usize)) -> Result<Contact, PlanError> {
    let problem = |what: &str| PlanError::new(*line, format!("contact {}: {what}", entry.contact));
    let times = [entry.start_time, entry.end_time, entry.owlt];
    if times.iter().any(|time| !(0.0..9e9).contains(time)) {
        return Err(problem("expected times from 0 on, below 9e9 seconds"));
    }
    if times.iter().any(|time| time.fract() != 0.0) {
        return Err(problem("expected times in whole seconds: HDTN reads fractions as 0"));
    }
    if entry.start_time >= entry.end_time || entry.source == entry.dest {
        return Err(problem("expected two nodes, and an end after the start"));
    }
    let instant = |seconds: f64| Time::ZERO + Span::from_secs_f64(seconds);
    Ok(Contact {
        from: entry.source,
        to: entry.dest,
        start: instant(entry.start_time),
        end: instant(entry.end_time),
        // A rate of 0 means no limit in HDTN's sample plans.
        rate: Rate::from_bps(if entry.rate_bits_per_sec == 0 { 1 << 40 } else { entry.rate_bits_per_sec }),
        confidence: 1.0,
        light_time: Some(Span::from_secs_f64(entry.owlt)),
    })
}

/// Returns the plan, and the number of contacts whose times are rounded to whole seconds.
pub(super) fn write(plan: &Plan) -> (String, usize) {
    let mut rounded = 0;
    let mut contacts: Vec<Entry> = Vec::new();
    for contact in &plan.contacts {
        let (start, end) = (contact.start.as_secs_f64(), contact.end.as_secs_f64());
        let light_time = contact.light_time.unwrap_or(Span::ZERO).as_secs_f64();
        rounded += usize::from([start, end, light_time].iter().any(|time| time.fract() != 0.0));
        // Within the contact, and not before the light arrives.
        let (start_time, end_time, owlt) = (start.ceil(), end.floor(), light_time.ceil());
        if start_time < end_time {
            contacts.push(Entry {
                contact: contacts.len() as u64,
                source: contact.from,
                dest: contact.to,
                start_time,
                end_time,
                rate_bits_per_sec: contact.rate.as_bps(),
                owlt,
            });
        }
    }
    (serde_json::to_string_pretty(&File { contacts }).expect("plain values"), rounded)
}

/// Returns the lines at which the contacts begin: the objects in that of the file.
fn lines(text: &str) -> Vec<usize> {
    let (mut lines, mut line, mut depth) = (Vec::new(), 1, 0);
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        line += usize::from(byte == b'\n');
        if is_string {
            is_string = is_escaped || byte != b'"';
            is_escaped = !is_escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => is_string = true,
            b'{' => {
                depth += 1;
                lines.extend((depth == 2).then_some(line));
            }
            b'}' => depth -= 1,
            _ => {}
        }
    }
    lines
}
