//! Path of one bundle, by the status reports of the nodes on it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_units::Span;
use bentpipe_wire::dtn::admin::{Record, Status, StatusReport, reason};
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Timestamp};
use bentpipe_wire::dtn::eid::Eid;

use crate::client::{Access, Client, HEADERS, Letter};

/// Time for reports of earlier nodes that arrive after that of the delivery.
const LINGER: Span = Span::from_millis(500);

/// Settings of a trace.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// Address of the node.
    pub node: Access,
    /// Endpoint of this program.
    pub from: Eid,
    /// Destination, such as the discard service ipn:NODE.9.
    pub to: Eid,
    /// Length of the payload.
    pub size: usize,
    /// Hop limit.
    pub hops: u8,
    /// Lifetime of the bundle and of the reports.
    pub lifetime: Span,
    /// Wait for the report of the delivery.
    pub wait: Span,
}

/// Event of a bundle at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The node has received it.
    Received,
    /// The node has forwarded it.
    Forwarded,
    /// The node has delivered it to the endpoint.
    Delivered,
    /// The node has deleted it.
    Deleted,
}

/// Event that a node reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Node that reports.
    pub node: Eid,
    /// Event.
    pub step: Step,
    /// Reason code of the report (RFC 9171, section 9.5).
    pub reason: u64,
    /// Time of the event by the node's clock, in milliseconds after the creation. A clock may be behind.
    pub clock_ms: Option<i64>,
    /// Time from sending until the report arrived.
    pub after: Span,
    /// Offset and length of the payload, if the bundle was a fragment there.
    pub fragment: Option<(u64, u64)>,
}

impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            Step::Received => "received",
            Step::Forwarded => "forwarded",
            Step::Delivered => "delivered",
            Step::Deleted => "deleted",
        };
        write!(f, "{} {step}", self.node)?;
        if let Some((offset, len)) = self.fragment {
            write!(f, " bytes {offset} to {}", offset.saturating_add(len))?;
        }
        if self.reason != reason::NONE {
            write!(f, " ({})", reason_text(self.reason))?;
        }
        if let Some(ms) = self.clock_ms {
            write!(f, " at {:.3} s by its clock", ms as f64 / 1e3)?;
        }
        write!(f, ", reported after {:.3} s", self.after.as_secs_f64())
    }
}

/// Returns the words of a reason code.
fn reason_text(code: u64) -> String {
    let text = match code {
        reason::EXPIRED => "lifetime expired",
        reason::UNIDIRECTIONAL => "forwarded over a unidirectional link",
        reason::CANCELLED => "transmission cancelled",
        reason::STORAGE => "storage is full",
        reason::UNAVAILABLE => "destination unavailable",
        reason::NO_ROUTE => "no route",
        reason::NO_CONTACT => "no timely contact",
        reason::UNINTELLIGIBLE => "block unintelligible",
        reason::HOP_LIMIT => "hop limit exceeded",
        reason::PARED => "traffic pared",
        reason::UNSUPPORTED => "block unsupported",
        _ => return format!("reason {code}"),
    };
    text.to_owned()
}

/// Returns `true` if a bundle that it sends is reported as delivered.
///
/// The bundle asks for all reports. `seen` gets each event as its report arrives.
///
/// # Errors
/// Returns an error if the node cannot be reached, refuses the bundle, or ends the session.
pub fn trace(tracing: &Tracing, stop: &AtomicBool, seen: &mut dyn FnMut(&Sighting)) -> Result<bool, String> {
    // Reports have the length of their blocks.
    let mut client = Client::connect_for(&tracing.node, &tracing.from, HEADERS)?;
    let flags = BundleFlags::ANY_REPORT.with(BundleFlags::REPORT_TIME);
    let lifetime = (tracing.lifetime.as_nanos() / 1_000_000).max(1);
    let letter = Letter { to: tracing.to.clone(), lifetime, hops: tracing.hops, flags };
    let sent_at = client.now();
    let stamp = client.send(&letter, vec![0; tracing.size])?;
    let (mut until, mut is_delivered) = (sent_at + tracing.wait, false);
    while !stop.load(Ordering::Relaxed) && client.now() < until {
        client.turn((until - client.now()).min(Span::from_millis(50)))?;
        while let Some(bundle) = client.receive() {
            let now = client.now();
            for sighting in sightings(&bundle, &tracing.from, stamp, now - sent_at) {
                seen(&sighting);
                // Fragments are delivered when all of them are there, which is reported without a place.
                if sighting.step == Step::Delivered && !is_delivered {
                    is_delivered = true;
                    until = until.min(now + LINGER);
                }
            }
        }
    }
    client.close();
    Ok(is_delivered)
}

/// Returns the events that a status report states of the bundle.
fn sightings(bundle: &Bundle, from: &Eid, stamp: Timestamp, after: Span) -> Vec<Sighting> {
    if !bundle.primary.flags.has(BundleFlags::ADMIN) {
        return Vec::new();
    }
    let Ok(Record::Status(report)) = Record::parse(&bundle.payload.to_vec()) else { return Vec::new() };
    if report.source != *from || report.timestamp != stamp {
        return Vec::new();
    }
    let StatusReport { received, forwarded, delivered, deleted, reason, fragment, .. } = report;
    let steps = [
        (received, Step::Received),
        (forwarded, Step::Forwarded),
        (delivered, Step::Delivered),
        (deleted, Step::Deleted),
    ];
    let sighting = |(Status { time, .. }, step)| Sighting {
        node: bundle.primary.source.clone(),
        step,
        reason,
        clock_ms: time.map(|time| time.wrapping_sub(stamp.time) as i64),
        after,
        fragment,
    };
    steps.into_iter().filter(|(status, _)| status.is_asserted).map(sighting).collect()
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::bundle::{Payload, Primary};

    use super::*;

    #[test]
    fn a_report_names_its_events_and_others_do_not_count() {
        let (from, stamp) = (Eid::ipn(1, 60), Timestamp { time: 5000, sequence: 1 });
        let mut report = StatusReport::new(from.clone(), stamp, None, 0);
        report.received = Status { is_asserted: true, time: Some(4900) };
        report.deleted = Status { is_asserted: true, time: None };
        report.reason = reason::HOP_LIMIT;
        let mut primary = Primary::new(Eid::ipn(3, 0), from.clone(), stamp, 1000);
        primary.flags = BundleFlags::ADMIN;
        let payload = Payload::new(Record::Status(report).to_vec());
        let mut bundle = Bundle { primary, blocks: vec![], payload };
        let seen = sightings(&bundle, &from, stamp, Span::from_millis(1500));
        let text: Vec<String> = seen.iter().map(Sighting::to_string).collect();
        assert_eq!(
            text,
            [
                "ipn:3.0 received (hop limit exceeded) at -0.100 s by its clock, reported after 1.500 s",
                "ipn:3.0 deleted (hop limit exceeded), reported after 1.500 s",
            ]
        );
        let other = Timestamp { sequence: 2, ..stamp };
        assert_eq!(sightings(&bundle, &from, other, Span::ZERO), []);
        bundle.primary.flags = BundleFlags::default();
        assert_eq!(sightings(&bundle, &from, stamp, Span::ZERO), [], "not a record");
    }
}
