//! Echo service: bundles that are sent back, and those that are answers themselves.
//!
//! An answer is never answered, or two services would send a bundle to each other indefinitely (RFC 5321, section 4.5.5, has the rule for
//! mail, RFC 1122, section 3.2.2, for ICMP). The source shows it: an echo or discard service, the null endpoint, a node without a
//! service. Of other sources the same payload comes back [`MAX_REPEATS`] times, then once a second: another program may
//! answer at a service that is not known here.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Content, HopCount, Primary, Timestamp};
use bentpipe_wire::dtn::eid::Eid;
use foldhash::quality::RandomState;

/// Services that send each bundle back.
const ECHO: [u32; 2] = [7, 2047];
/// Administrative endpoint of the node (RFC 9758, section 5.7): status reports, and no application.
pub(super) const ADMINISTRATIVE: u32 = 0;
/// Service that drops each bundle.
pub(super) const DISCARD: u32 = 9;
/// Last parts of `dtn` endpoints that answer by themselves.
const ANSWERING: [&str; 5] = ["echo", "ping", "discard", "7", "2047"];
/// Answers to the same payload of the same source before they are paced.
const MAX_REPEATS: u32 = 1000;
/// Interval of answers after that.
const PACE: Span = Span::from_secs(1);
/// Payloads that are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Returns `true` for a service that sends bundles back.
pub(super) fn is_echo(service: u32) -> bool {
    ECHO.contains(&service)
}

/// Returns `true` for a service of the node itself, whose bundles no application gets.
pub(super) fn is_own(service: u32) -> bool {
    matches!(service, ADMINISTRATIVE | DISCARD) || is_echo(service)
}

/// Returns `true` if bundles of an endpoint are answers, or nothing there reads one.
fn is_automatic(source: &Eid) -> bool {
    match source {
        _ if source.is_null() => true,
        Eid::None => true,
        Eid::Ipn(ipn) => is_own(ipn.service),
        Eid::Dtn(name) => {
            let service = name.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            ANSWERING.contains(&service.to_ascii_lowercase().as_str())
        }
    }
}

/// Payloads that were sent back, with their number and the time of the next answer.
#[derive(Debug, Default)]
pub(super) struct Echo {
    known: HashMap<u64, (u32, Time)>,
    /// Key of the hashes: no sender can compute two payloads of one.
    key: RandomState,
}

impl Echo {
    /// Returns the answer to a bundle, if it gets one.
    pub(super) fn answer(
        &mut self,
        bundle: Bundle,
        stamp: impl FnOnce() -> Timestamp,
        now: Time,
    ) -> Option<Bundle> {
        let is_answer = is_automatic(&bundle.primary.source) || bundle.primary.flags.has(BundleFlags::ADMIN);
        if is_answer || !self.may_repeat(&bundle, now) {
            return None;
        }
        let Primary { source, destination, lifetime, .. } = bundle.primary;
        let primary = Primary::new(destination, source, stamp(), lifetime);
        let mut answer = Bundle { primary, blocks: vec![], payload: bundle.payload };
        answer.set(Content::HopCount(HopCount { limit: 64, count: 0 }));
        Some(answer)
    }

    /// Returns `true` if the payload has not come back from its source too often.
    fn may_repeat(&mut self, bundle: &Bundle, now: Time) -> bool {
        if self.known.len() >= MAX_REMEMBERED {
            self.known.retain(|_, (_, next)| *next > now);
            // Few were over: to look at all of them again for each new one costs more than they are worth.
            if self.known.len() > MAX_REMEMBERED / 2 {
                self.known.clear();
            }
        }
        let identity = self.identity(bundle);
        let (count, next) = self.known.entry(identity).or_insert((0, now));
        if *count >= MAX_REPEATS && *next > now {
            return false;
        }
        (*count, *next) = (count.saturating_add(1), now + PACE);
        true
    }

    /// Returns a hash of the source and the payload of a bundle.
    fn identity(&self, bundle: &Bundle) -> u64 {
        let mut text = Vec::new();
        bundle.primary.source.put(&mut text);
        let mut hasher = self.key.build_hasher();
        hasher.write_usize(text.len());
        hasher.write(&text);
        // The zeros at the end are elided, and those within are not: a payload has one form.
        hasher.write(&bundle.payload.bytes);
        hasher.write_u64(bundle.payload.zeros);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::bundle::Payload;

    use super::*;

    fn bundle(source: &str, payload: u8) -> Bundle {
        let stamp = Timestamp { time: 1, sequence: 1 };
        let source = source.parse().expect("an endpoint");
        let primary = Primary::new(source, Eid::ipn(1, 7), stamp, 1000);
        Bundle { primary, blocks: vec![], payload: Payload::new(vec![payload; 10]) }
    }

    fn is_answered(echo: &mut Echo, bundle: &Bundle, now: Time) -> bool {
        echo.answer(bundle.clone(), || Timestamp { time: 2, sequence: 1 }, now).is_some()
    }

    #[test]
    fn answers_are_not_answered() {
        let mut echo = Echo::default();
        let sources = [
            "ipn:1.7",
            "ipn:1.2047",
            "ipn:2.7",
            "ipn:9.2047",
            "ipn:2.9",
            "ipn:3.0",
            "ipn:977000.5.7",
            "dtn:none",
            "dtn://there/echo",
            "dtn://there/ping/",
            "dtn://there/a/ECHO",
            "dtn://there/7",
        ];
        for source in sources {
            assert!(!is_answered(&mut echo, &bundle(source, 1), Time::ZERO), "{source}");
        }
        for source in ["ipn:1.50", "ipn:2.1", "dtn://there/echoes", "dtn://there/bping"] {
            assert!(is_answered(&mut echo, &bundle(source, 1), Time::ZERO), "{source}");
        }
        let mut report = bundle("ipn:2.1", 1);
        report.primary.flags = BundleFlags::ADMIN;
        assert!(!is_answered(&mut echo, &report, Time::ZERO));
    }

    #[test]
    fn a_payload_that_returns_again_and_again_is_paced() {
        let (mut echo, same) = (Echo::default(), bundle("ipn:2.33", 5));
        let mut at = |time: Time, bundle: &Bundle| is_answered(&mut echo, bundle, time);
        let answered = (0..5000).filter(|n| at(Time::ZERO + Span::from_micros(*n), &same)).count();
        assert_eq!(answered as u32, MAX_REPEATS);
        assert!(at(Time::ZERO, &bundle("ipn:2.33", 6)), "another payload");
        let later = Time::ZERO + PACE * 2;
        assert!(at(later, &same) && !at(later, &same), "one a second");
        for n in 0..2 * MAX_REMEMBERED as u32 {
            at(later, &bundle(&format!("ipn:4.{}", 100 + n), 1));
        }
        assert!(echo.known.len() <= MAX_REMEMBERED);
    }
}
