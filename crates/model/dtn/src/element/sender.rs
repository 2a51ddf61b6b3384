//! Application that sends bundles at a fixed interval.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_transport::app::metrics;
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::Bundle;

use super::STAMP;
use crate::carry::Carry;

/// Times at which a sender makes bundles.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// First bundle.
    pub start: Span,
    /// End of sending.
    pub stop: Option<Span>,
    /// Time from bundle to bundle.
    pub interval: Span,
    /// Maximum number of bundles.
    pub bundles: u64,
}

/// Sender of bundles at port 0, which is its node's.
#[derive(Debug)]
pub struct Sender {
    template: Bundle,
    interval: Span,
    next: Time,
    stop: Time,
    left: u64,
    sent: u64,
    len: u64,
}

impl Sender {
    /// Creates a sender of copies of a bundle. Their payloads get number and time.
    pub fn new(template: Bundle, timing: Timing) -> Sender {
        Sender {
            len: template.payload.len(),
            template,
            interval: timing.interval,
            next: Time::ZERO + timing.start,
            stop: timing.stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            left: timing.bundles,
            sent: 0,
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        let mut bundle = self.template.clone();
        let mut stamp = (self.sent as u32).to_be_bytes().to_vec();
        stamp.extend(cx.now().as_nanos().to_be_bytes());
        bundle.payload.bytes = stamp;
        bundle.payload.zeros = self.len - STAMP as u64;
        cx.emit(Port(0), Packet::carrying(0, Box::new(Carry(bundle))));
        self.sent += 1;
        self.left -= 1;
    }
}

impl Element for Sender {
    fn receive(&mut self, _port: Port, _packet: Packet, _cx: &mut Cx<'_>) -> Time {
        self.next
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while self.next <= cx.now() && !self.next.is_never() {
            if self.next >= self.stop || self.left == 0 {
                self.next = Time::NEVER;
                break;
            }
            self.send(cx);
            self.next += self.interval;
        }
        self.next
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        false
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&crate::metrics::SENT, self.sent);
        observer.counter(&metrics::SENT_BYTES, self.sent * self.len);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
