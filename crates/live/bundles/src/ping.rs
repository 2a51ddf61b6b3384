//! Round trips of bundles to an echo service.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::BundleFlags;
use bentpipe_wire::dtn::eid::Eid;

use crate::client::{Access, Client, HEADERS, Letter};
use crate::clock::dtn_time;

/// Bits of the numbers below the time of the first bundle in milliseconds.
const NUMBER_BITS: u32 = 20;

/// Settings of a ping.
#[derive(Clone, Debug)]
pub struct Pinging {
    /// Address of the node.
    pub node: Access,
    /// Endpoint of this program.
    pub from: Eid,
    /// Echo service: ipn:NODE.7 or ipn:NODE.2047.
    pub to: Eid,
    /// Number of bundles.
    pub count: u64,
    /// Interval between bundles.
    pub interval: Span,
    /// Length of the payload, at least 8 B.
    pub size: usize,
    /// Wait for answers after the last bundle, and lifetime.
    pub wait: Span,
}

/// Result of a ping.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoundTrips {
    /// Bundles sent.
    pub sent: u64,
    /// Round-trip times of the answers.
    pub times: Vec<Span>,
    /// Answers that came more than once.
    pub duplicates: u64,
}

impl fmt::Display for RoundTrips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let received = self.times.len() as u64;
        let loss = 100.0 * (self.sent - received.min(self.sent)) as f64 / self.sent.max(1) as f64;
        write!(f, "{} sent, {received} received, {loss:.0} % lost", self.sent)?;
        if self.duplicates > 0 {
            write!(f, ", {} duplicates", self.duplicates)?;
        }
        let mut times: Vec<f64> = self.times.iter().map(|time| 1e3 * time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let (Some(first), Some(last)) = (times.first(), times.last()) else { return writeln!(f) };
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let middle = times.len() / 2;
        let median = if times.len().is_multiple_of(2) {
            (times[middle - 1] + times[middle]) / 2.0
        } else {
            times[middle]
        };
        writeln!(
            f,
            "\nround trip min {first:.3} ms, mean {mean:.3} ms, median {median:.3} ms, max {last:.3} ms"
        )
    }
}

/// Sends bundles to an echo service and returns the round trips.
///
/// `answered` gets the number and time of each answer.
///
/// # Errors
/// Returns an error if the node cannot be reached or ends the session.
pub fn ping(
    pinging: &Pinging,
    stop: &AtomicBool,
    answered: &mut dyn FnMut(u64, Span),
) -> Result<RoundTrips, String> {
    // No more than an answer is taken.
    let longest = pinging.size as u64 + HEADERS;
    let mut client = Client::connect_for(&pinging.node, &pinging.from, longest)?;
    let lifetime = (pinging.wait.as_nanos() / 1_000_000).max(1);
    let letter = Letter { to: pinging.to.clone(), lifetime, hops: 64, flags: BundleFlags::default() };
    let (start, mut found) = (client.now(), RoundTrips::default());
    // Numbers begin with the time, so that a late answer to an earlier run from this endpoint does not count here.
    let first = dtn_time() << NUMBER_BITS;
    let mut waiting: HashMap<u64, Time> = HashMap::new();
    let mut last = start;
    while !stop.load(Ordering::Relaxed) {
        let now = client.now();
        let due = start + pinging.interval * found.sent;
        if found.sent < pinging.count && now >= due {
            let mut payload = vec![0; pinging.size.max(8)];
            payload[..8].copy_from_slice(&first.wrapping_add(found.sent).to_be_bytes());
            client.send(&letter, payload)?;
            waiting.insert(found.sent, now);
            found.sent += 1;
            last = now;
        }
        let is_over = found.sent == pinging.count && (waiting.is_empty() || now > last + pinging.wait);
        if is_over {
            break;
        }
        let next =
            if found.sent < pinging.count { start + pinging.interval * found.sent } else { Time::NEVER };
        client.turn((next - client.now()).min(Span::from_millis(50)))?;
        while let Some(bundle) = client.receive() {
            let payload = bundle.payload.to_vec();
            let number = payload.first_chunk().map(|bytes| u64::from_be_bytes(*bytes).wrapping_sub(first));
            let Some(number) = number.filter(|number| *number < found.sent) else { continue };
            match waiting.remove(&number) {
                Some(sent_at) => {
                    let time = client.now() - sent_at;
                    found.times.push(time);
                    answered(number, time);
                }
                None => found.duplicates += 1,
            }
        }
    }
    client.close();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        let found = |times: &[u64]| {
            let times = times.iter().map(|ms| Span::from_millis(*ms)).collect::<Vec<_>>();
            RoundTrips { sent: times.len() as u64, times, duplicates: 0 }.to_string()
        };
        assert!(found(&[10, 20]).contains("median 15.000 ms"), "{}", found(&[10, 20]));
        assert!(found(&[10, 40, 20, 30]).contains("median 25.000 ms"));
        assert!(found(&[10, 40, 20]).contains("median 20.000 ms"));
    }
}
