//! Load of bundles between two nodes, measured by their delivery reports, as DTNperf does.
//!
//! *Goodput*: payload bits of the bundles reported as delivered, over the time from the first bundle sent to the last report.
//! *Round trip*: time from sending a bundle to the arrival of its delivery report.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::admin::Record;
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Timestamp};
use bentpipe_wire::dtn::eid::Eid;

use crate::client::{Access, Client, HEADERS, Letter};

/// Control of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Number of bundles without a report.
    Window(usize),
    /// Bundles per second.
    Rate(f64),
}

/// Settings of a load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Address of the node.
    pub node: Access,
    /// Endpoint of this program.
    pub from: Eid,
    /// Destination, such as the discard service ipn:NODE.9.
    pub to: Eid,
    /// Length of each payload.
    pub size: usize,
    /// Control of the load.
    pub control: Control,
    /// End of sending, after this number of bundles.
    pub count: Option<u64>,
    /// End of sending, after this time.
    pub duration: Option<Span>,
    /// Wait for reports after the last bundle.
    pub wait: Span,
    /// Lifetime.
    pub lifetime: Span,
}

/// Figures of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Bundles sent.
    pub sent: u64,
    /// Bundles reported as delivered.
    pub delivered: u64,
    /// Bundles reported as deleted.
    pub deleted: u64,
    /// Payload length in bytes.
    pub size: u64,
    /// Time from the first bundle sent to the last report.
    pub elapsed: Span,
    /// Time of sending. At a rate it is the sum of the intervals.
    ///
    /// With a window it ends with the last bundle sent.
    pub sending: Span,
    /// Round-trip times.
    pub times: Vec<Span>,
}

impl Figures {
    /// Returns the goodput in bits per second, to the last report.
    pub fn goodput(&self) -> f64 {
        let bits = 8.0 * (self.delivered * self.size) as f64;
        if self.elapsed.is_zero() { 0.0 } else { bits / self.elapsed.as_secs_f64() }
    }

    /// Returns the delivered bundles per second.
    pub fn bundle_rate(&self) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { self.delivered as f64 / self.elapsed.as_secs_f64() }
    }

    /// Returns the figures as JSON, in seconds and bits per second.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "sent": self.sent,
            "delivered": self.delivered,
            "deleted": self.deleted,
            "size": self.size,
            "elapsed": self.elapsed.as_secs_f64(),
            "sending": self.sending.as_secs_f64(),
            "goodput": self.goodput(),
            "bundle_rate": self.bundle_rate(),
            "round_trip": { "median": self.quantile(0.5), "p95": self.quantile(0.95), "max": self.quantile(1.0) },
        })
    }

    /// Returns the round-trip time in seconds that a share of the bundles does not exceed.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut times: Vec<f64> = self.times.iter().map(|time| time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let last = times.len().saturating_sub(1);
        times.get((share * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { sent, delivered, deleted, size, elapsed, .. } = self;
        writeln!(
            f,
            "{sent} bundles of {size} B sent, {delivered} delivered, {deleted} deleted in {:.3} s",
            elapsed.as_secs_f64()
        )?;
        writeln!(f, "goodput {:.3} Mbit/s, {:.1} bundles/s", self.goodput() / 1e6, self.bundle_rate())?;
        if self.times.is_empty() {
            return Ok(());
        }
        let ms = |share: f64| 1e3 * self.quantile(share);
        writeln!(
            f,
            "round trip median {:.3} ms, 95th percentile {:.3} ms, max {:.3} ms",
            ms(0.5),
            ms(0.95),
            ms(1.0)
        )
    }
}

/// Sends a load and returns its figures.
///
/// # Errors
/// Returns an error if the node cannot be reached, refuses a bundle, or ends the session.
pub fn perf(load: &Load, stop: &AtomicBool) -> Result<Figures, String> {
    // Reports have the length of their blocks.
    let client = Client::connect_for(&load.node, &load.from, HEADERS)?;
    let flags = BundleFlags::REPORT_DELIVERY.with(BundleFlags::REPORT_DELETION);
    let lifetime = (load.lifetime.as_nanos() / 1_000_000).max(1);
    let letter = Letter { to: load.to.clone(), lifetime, hops: 64, flags };
    let start = client.now();
    let figures = Figures { size: load.size as u64, ..Figures::default() };
    let mut run = Run { load, client, letter, start, last: start, waiting: HashMap::new(), figures };
    while !stop.load(Ordering::Relaxed) && !run.is_over() {
        run.send()?;
        run.client.turn(run.pause())?;
        run.receive();
    }
    run.client.close();
    Ok(run.figures)
}

struct Run<'a> {
    load: &'a Load,
    client: Client,
    letter: Letter,
    start: Time,
    last: Time,
    waiting: HashMap<Timestamp, Time>,
    figures: Figures,
}

impl Run<'_> {
    fn is_sending(&self) -> bool {
        self.load.count.is_none_or(|count| self.figures.sent < count)
            && self.load.duration.is_none_or(|duration| self.client.now() < self.start + duration)
    }

    fn is_over(&self) -> bool {
        let is_late = self.client.now() > self.last + self.load.wait;
        !self.is_sending() && (self.waiting.is_empty() || is_late)
    }

    /// Returns the instant of the next bundle. `None` if the window is full.
    fn next(&self) -> Option<Time> {
        match self.load.control {
            Control::Window(window) => (self.waiting.len() < window).then_some(Time::ZERO),
            Control::Rate(rate) => Some(self.start + Span::from_secs_f64(self.figures.sent as f64 / rate)),
        }
    }

    fn pause(&self) -> Span {
        let longest = Span::from_millis(50);
        let next = self.next().filter(|_| self.is_sending());
        next.map_or(longest, |next| (next - self.client.now()).min(longest))
    }

    fn send(&mut self) -> Result<(), String> {
        // A node that is slower than the rate is not to fill the memory.
        while self.is_sending() && self.client.pending() < 4096 {
            let now = self.client.now();
            if self.next().is_none_or(|next| next > now) {
                return Ok(());
            }
            let stamp = self.client.send(&self.letter, vec![0; self.load.size])?;
            self.waiting.insert(stamp, now);
            self.figures.sent += 1;
            self.last = now;
            self.figures.sending = match self.load.control {
                Control::Window(_) => now - self.start,
                Control::Rate(rate) => Span::from_secs_f64(self.figures.sent as f64 / rate),
            };
        }
        Ok(())
    }

    fn receive(&mut self) {
        while let Some(bundle) = self.client.receive() {
            self.handle(&bundle);
        }
    }

    fn handle(&mut self, bundle: &Bundle) {
        if !bundle.primary.flags.has(BundleFlags::ADMIN) {
            return;
        }
        let Ok(Record::Status(report)) = Record::parse(&bundle.payload.to_vec()) else { return };
        let is_final = report.delivered.is_asserted || report.deleted.is_asserted;
        let Some(sent_at) = self.waiting.remove(&report.timestamp).filter(|_| is_final) else { return };
        let now = self.client.now();
        self.figures.elapsed = now - self.start;
        if report.delivered.is_asserted {
            self.figures.delivered += 1;
            self.figures.times.push(now - sent_at);
        } else {
            self.figures.deleted += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_follow_their_definitions() {
        let times = (1..=20).map(Span::from_millis).collect();
        let (elapsed, sending) = (Span::from_secs(2), Span::from_secs(1));
        let figures = Figures { sent: 20, delivered: 20, deleted: 0, size: 1250, elapsed, sending, times };
        assert_eq!((figures.goodput(), figures.bundle_rate()), (100_000.0, 10.0));
        assert!((figures.quantile(0.95) - 0.019).abs() < 1e-9);
        assert!(figures.to_string().contains("goodput 0.100 Mbit/s, 10.0 bundles/s"), "{figures}");
    }
}
