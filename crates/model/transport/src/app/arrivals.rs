//! A sink for packets of any kind: counts them and measures their delay.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_units::{Span, Time};

use crate::app::metrics;

/// Receiver of packets without sequence numbers, such as a video stream's. It only counts them.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    packets: u64,
    bytes: u64,
    /// The last packet's one-way delay.
    delay: Option<Span>,
    delay_sum_ns: u128,
    last: Option<Time>,
}

impl Arrivals {
    /// Creates a receiver without arrivals.
    pub fn new() -> Arrivals {
        Arrivals::default()
    }

    /// Returns the number of received packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the number of received bytes, of whole packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the arrival time of the last packet.
    pub fn last(&self) -> Option<Time> {
        self.last
    }

    /// Returns the mean time from [`Packet::created_at`] to arrival, if any packet arrived.
    pub fn mean_delay(&self) -> Option<Span> {
        let mean = self.delay_sum_ns.checked_div(self.packets.into())?;
        Some(Span::from_nanos(mean as u64))
    }
}

impl Element for Arrivals {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let delay = cx.now().since(packet.created_at());
        self.packets += 1;
        self.bytes += packet.len() as u64;
        self.delay_sum_ns += u128::from(delay.as_nanos());
        (self.delay, self.last) = (Some(delay), Some(cx.now()));
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::PACKETS, self.packets);
        observer.counter(&metrics::DELIVERED_BYTES, self.bytes);
        observer.counter(&metrics::ARRIVED_BYTES, self.bytes);
        observer.gauge(&metrics::DELAY, self.delay.map_or(f64::NAN, Span::as_secs_f64));
        observer.gauge(&metrics::DELAY_MEAN, self.mean_delay().map_or(f64::NAN, Span::as_secs_f64));
        observer.last_arrival(self.last);
        observer.gauge(&metrics::LAST_ARRIVAL, self.last.map_or(f64::NAN, Time::as_secs_f64));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_net::testing::{Harness, MS, packet};

    #[test]
    fn everything_is_counted() {
        let mut rig = Harness::new(Arrivals::new());
        rig.receive(3 * MS, 0, packet(100));
        rig.receive(5 * MS, 0, packet(50));
        assert_eq!((rig.value("packets"), rig.value("delivered-bytes")), (2.0, 150.0));
        assert_eq!(rig.element.mean_delay(), Some(Span::from_millis(4)));
        assert_eq!(rig.element.last(), Some(Time::from_nanos(5 * MS)));
    }
}
