//! Calls answered.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use bentpipe_net::{Cx, Observer};
use bentpipe_units::{Span, Time};

use crate::config::Calls;
use crate::metrics;
use crate::party::{Party, Role};
use crate::protocol::{Happening, Protocol};
use crate::station::Station;

/// Called end of a flow.
pub type Callee<P> = Party<P, Answering<P>>;

/// Answers of calls.
#[derive(Debug)]
pub struct Answering<P: Protocol> {
    ring: Span,
    /// Calls in the order of their answers.
    ringing: VecDeque<(Time, P::Call)>,
    up: BTreeSet<P::Call>,
    received: u64,
    established: u64,
    ended: u64,
    failed: u64,
}

impl<P: Protocol> Party<P, Answering<P>> {
    /// Creates a callee at `local`.
    pub fn new(calls: &Calls, settings: P::Settings, local: SocketAddr) -> Callee<P> {
        let (ringing, up) = (VecDeque::new(), BTreeSet::new());
        let (received, established, ended, failed) = (0, 0, 0, 0);
        let role = Answering { ring: calls.ring, ringing, up, received, established, ended, failed };
        Party::with_role(settings, calls.dscp, local, role)
    }
}

impl<P: Protocol> Answering<P> {
    fn note(&mut self, now: Time, call: P::Call, happening: Happening, station: &mut Station<P>) {
        match happening {
            Happening::Incoming => {
                self.received += 1;
                station.protocol.ring(now, call);
                self.ringing.push_back((now + self.ring, call));
            }
            Happening::Confirmed => {
                self.established += 1;
                self.up.insert(call);
            }
            Happening::Ended if self.up.remove(&call) => self.ended += 1,
            Happening::Ended | Happening::TimedOut | Happening::Failed(_) => self.failed += 1,
            Happening::Ringing | Happening::Answered => {}
        }
    }
}

impl<P: Protocol> Role<P> for Answering<P> {
    const USER: &'static str = "callee";

    fn act(&mut self, station: &mut Station<P>, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        while let Some((call, happening)) = station.event() {
            if happening.is_last() {
                station.settle(cx);
                station.protocol.finish(call);
            }
            self.note(now, call, happening, station);
        }
        while let Some((_, call)) = self.ringing.front().copied().filter(|(time, _)| *time <= now) {
            self.ringing.pop_front();
            station.protocol.answer(now, call);
        }
        self.ringing.front().map_or(Time::NEVER, |(time, _)| *time)
    }

    fn observe(&self, observer: &mut dyn Observer) {
        observer.counter(&metrics::CALLS, self.received);
        observer.counter(&metrics::CALLS_ESTABLISHED, self.established);
        observer.counter(&metrics::CALLS_ENDED, self.ended);
        observer.counter(&metrics::CALLS_FAILED, self.failed);
        observer.gauge(&metrics::CALLS_UP, self.up.len() as f64);
    }
}
