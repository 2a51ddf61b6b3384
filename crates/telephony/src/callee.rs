//! Calls answered.

use std::any::Any;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_signalling::agent::{CallId, Event};
use bentpipe_units::Time;

use crate::config::Config;
use crate::metrics;
use crate::station::Station;

/// Called end of a flow. Port 0, in and out, carries whole IP packets.
#[derive(Debug)]
pub struct Callee {
    config: Config,
    local: SocketAddr,
    station: Option<Station>,
    /// Calls in the order of their answers.
    ringing: VecDeque<(Time, CallId)>,
    up: BTreeSet<CallId>,
    received: u64,
    established: u64,
    ended: u64,
    failed: u64,
}

impl Callee {
    /// Creates a callee at `local`.
    pub fn new(config: &Config, local: SocketAddr) -> Callee {
        let (ringing, up) = (VecDeque::new(), BTreeSet::new());
        let station = None;
        Callee {
            config: *config,
            local,
            station,
            ringing,
            up,
            received: 0,
            established: 0,
            ended: 0,
            failed: 0,
        }
    }

    /// Acts on all that is due, sends, and returns the next time.
    fn turn(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        let Some(station) = &mut self.station else { return Time::NEVER };
        while let Some(event) = station.event() {
            match event {
                Event::Incoming { call, .. } => {
                    self.received += 1;
                    station.agent.ring(now, call);
                    self.ringing.push_back((now + self.config.ring, call));
                }
                Event::Confirmed { call, .. } => {
                    self.established += 1;
                    self.up.insert(call);
                }
                Event::Ended { call, .. } if self.up.remove(&call) => self.ended += 1,
                Event::Ended { .. } | Event::Failed { .. } => self.failed += 1,
                _ => {}
            }
        }
        while let Some((_, call)) = self.ringing.front().copied().filter(|(time, _)| *time <= now) {
            self.ringing.pop_front();
            let capabilities = station.capabilities();
            station.agent.answer(now, call, capabilities);
        }
        station.send(cx);
        let answer = self.ringing.front().map_or(Time::NEVER, |(time, _)| *time);
        station.agent.deadline().min(answer).max(now)
    }
}

impl Element for Callee {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if let Some(station) = &mut self.station {
            station.receive(&packet, now);
        }
        self.turn(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        match &mut self.station {
            Some(station) => station.agent.handle_timeout(now),
            None => self.station = Some(Station::new(&self.config, "callee", self.local, cx.stream())),
        }
        self.turn(cx)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::CALLS, self.received);
        observer.counter(&metrics::CALLS_ESTABLISHED, self.established);
        observer.counter(&metrics::CALLS_ENDED, self.ended);
        observer.counter(&metrics::CALLS_FAILED, self.failed);
        Station::observe(self.station.as_ref(), observer);
        observer.gauge(&metrics::CALLS_UP, self.up.len() as f64);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
