//! A network of two elements that count, for tests of recording and running.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_sim::{Builder, Network};
use bentpipe_units::{Span, Time};

bentpipe_net::metrics! {
    Counter SENT = "sent", Packets, "Packets sent";
    Gauge RECEIVED = "received", Packets, "Packets received";
    Gauge PHASE = "phase", Seconds, "Phase";
}

/// Test element that sends packets at random intervals and counts those that return.
struct Ticker {
    sent: u64,
    received: u64,
}

impl Element for Ticker {
    fn receive(&mut self, _: Port, _: Packet, cx: &mut Cx<'_>) -> Time {
        self.received += 1;
        cx.now() + Span::from_millis(7)
    }
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.sent += 1;
        cx.emit(Port(0), Packet::new(20, 100));
        cx.now() + Span::from_secs_f64(cx.stream().exponential(0.003))
    }
    fn lookahead(&self) -> Span {
        Span::from_millis(1)
    }
    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        observer.counter(&SENT, self.sent);
        observer.gauge(&RECEIVED, self.received as f64);
        observer.gauge(&PHASE, if self.sent.is_multiple_of(2) { f64::NAN } else { now.as_secs_f64() });
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

pub(crate) fn network_of(seed: u64) -> Network {
    let mut builder = Builder::new(seed);
    let a = builder.add("node/a", Ticker { sent: 0, received: 0 });
    let b = builder.add("node/b, \"quoted\"", Ticker { sent: 0, received: 0 });
    builder.connect((a, Port(0)), (b, Port(0)));
    builder.connect((b, Port(0)), (a, Port(0)));
    builder.build().expect("a network")
}
