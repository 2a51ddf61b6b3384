//! Application that receives bundles and measures loss and delay.

use std::any::Any;

use bentpipe_net::ledger::Accounts;
use bentpipe_net::{Cx, Element, Histogram, Observer, Packet, Port};
use bentpipe_transport::app::metrics;
use bentpipe_units::{Span, Time};

use super::STAMP;
use crate::carry::Carry;
use crate::metrics as own;
use crate::node::{Gone, Holdings};

/// Maximum number of bundles of which duplicates are detected.
const MAX_NUMBERS: usize = 1 << 26;

/// Receiver of bundles at port 0.
#[derive(Debug, Default)]
pub struct Sink {
    packets: u64,
    bytes: u64,
    duplicates: u64,
    /// Numbers received, a bit each.
    seen: Vec<u64>,
    expected: u64,
    delay: Span,
    delays: Histogram,
    last: Time,
    /// Whereabouts of the flow's other bundles.
    holdings: Option<Holdings>,
}

impl Sink {
    /// Creates a receiver.
    pub fn new() -> Sink {
        Sink::default()
    }

    /// Returns it with the whereabouts of the flow's bundles.
    #[must_use]
    pub fn with_holdings(self, holdings: Holdings) -> Sink {
        Sink { holdings: Some(holdings), ..self }
    }

    /// Reports the bundles of the flow that have not arrived.
    fn observe_others(&self, now: Time, observer: &mut dyn Observer) {
        let Some(holdings) = &self.holdings else { return };
        let others = holdings.whereabouts(now);
        observer.gauge(&own::BUNDLES_WAITING, others.waiting as f64);
        observer.gauge(&own::BUNDLES_LOST, others.gone() as f64);
        if !observer.counts_units() {
            return;
        }
        observer.gauge(&own::BUNDLES_IN_FLIGHT, others.in_flight as f64);
        let places = holdings.places(now);
        for (node, bundles) in places.waiting {
            observer.units_at(&own::BUNDLES_STORED, &node, bundles);
        }
        for ((why, node), bundles) in places.gone {
            let metric = match why {
                Gone::Lost => &own::BUNDLES_LOST_ON_THE_WAY,
                Gone::Expired => &own::BUNDLES_EXPIRED,
                Gone::NoRoom => &own::BUNDLES_WITHOUT_ROOM,
                Gone::Deleted => &own::BUNDLES_DELETED,
            };
            observer.units_at(metric, &node, bundles);
        }
    }

    fn take(&mut self, carry: &Carry, now: Time) {
        let payload = &carry.0.payload;
        let mut stamp = payload.bytes.clone();
        stamp.resize(STAMP.max(stamp.len()), 0);
        let number = u32::from_be_bytes(*stamp.first_chunk().expect("12 bytes"));
        let created = u64::from_be_bytes(*stamp[4..].first_chunk().expect("8 bytes"));
        self.packets += 1;
        if self.is_new(number) {
            self.bytes += payload.len();
            self.delay = if created <= now.as_nanos() { now - Time::from_nanos(created) } else { Span::ZERO };
            self.delays.record(self.delay);
            self.last = now;
        } else {
            self.duplicates += 1;
        }
    }

    fn is_new(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, number % 64);
        if word >= MAX_NUMBERS / 64 {
            return true;
        }
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        self.expected = self.expected.max(u64::from(number) + 1);
        let is_new = self.seen[word] >> bit & 1 == 0;
        self.seen[word] |= 1 << bit;
        is_new
    }
}

impl Element for Sink {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if let Some(carry) = packet.into_carried::<Carry>() {
            self.take(&carry, cx.now());
        }
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn settle(&mut self, accounts: &Accounts) {
        self.holdings.iter().for_each(|holdings| holdings.settle(accounts));
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        let unique = self.packets - self.duplicates;
        let or_nan = |span: Option<Span>| span.map_or(f64::NAN, Span::as_secs_f64);
        observer.counter(&metrics::PACKETS, self.packets);
        observer.counter(&metrics::DELIVERED_BYTES, self.bytes);
        observer.counter(&metrics::ARRIVED_BYTES, self.bytes);
        observer.last_arrival((self.packets > self.duplicates).then_some(self.last));
        observer.counter(&metrics::DUPLICATES, self.duplicates);
        observer.counter(&own::ARRIVED, unique);
        self.observe_others(now, observer);
        observer.counter(&metrics::EXPECTED, self.expected);
        observer.gauge(&metrics::DELAY, or_nan((unique > 0).then_some(self.delay)));
        observer.gauge(&metrics::DELAY_MEAN, or_nan(self.delays.mean()));
        observer.gauge(&metrics::DELAY_MAX, or_nan(self.delays.range().map(|range| range.1)));
        observer.histogram(&metrics::DELAYS, &self.delays);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
