//! Calls placed at random times.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use bentpipe_net::{Cx, Element, Histogram, InvalidConfig, Observer, Packet, Port};
use bentpipe_signalling::agent::{CallId, Event, Failure};
use bentpipe_signalling::sip::{SipUri, Transport};
use bentpipe_signalling::transaction::Peer;
use bentpipe_units::{Span, Time};

use crate::config::Config;
use crate::metrics;
use crate::station::Station;

/// Calling end of a flow. Port 0, in and out, carries whole IP packets.
#[derive(Debug)]
pub struct Caller {
    config: Config,
    local: SocketAddr,
    remote: SocketAddr,
    start: Time,
    stop: Time,
    station: Option<Station>,
    next: Time,
    calls: BTreeMap<CallId, Placed>,
    /// Times at which calls end by this side.
    ends: BTreeSet<(Time, CallId)>,
    placed: u64,
    established: u64,
    ended: u64,
    timed_out: u64,
    failed: u64,
    up: u64,
    post_dial: Histogram,
    set_up: Histogram,
}

#[derive(Debug)]
struct Placed {
    at: Time,
    rang: bool,
    is_up: bool,
    end: Time,
}

impl Caller {
    /// Creates a caller from `local` to `remote`, which places calls from `start` to `stop`.
    ///
    /// # Errors
    /// Returns an error if a setting is impossible.
    pub fn new(
        config: &Config,
        (local, remote): (SocketAddr, SocketAddr),
        start: Span,
        stop: Option<Span>,
    ) -> Result<Caller, InvalidConfig> {
        config.ensure()?;
        Ok(Caller {
            config: *config,
            local,
            remote,
            start: Time::ZERO + start,
            stop: stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            station: None,
            next: Time::NEVER,
            calls: BTreeMap::new(),
            ends: BTreeSet::new(),
            placed: 0,
            established: 0,
            ended: 0,
            timed_out: 0,
            failed: 0,
            up: 0,
            post_dial: Histogram::default(),
            set_up: Histogram::default(),
        })
    }

    /// Draws the time of the next call.
    fn draw_next(&mut self, from: Time, cx: &mut Cx<'_>) {
        let gap = Span::from_secs_f64(cx.stream().exponential(self.config.interval.as_secs_f64()));
        let next = from + gap;
        let is_over = next >= self.stop || self.config.calls.is_some_and(|most| self.placed >= most);
        self.next = if is_over { Time::NEVER } else { next };
    }

    fn place(&mut self, now: Time, cx: &mut Cx<'_>) {
        let Some(station) = &mut self.station else { return };
        let mut target = SipUri::new(Some("callee"), &host(self.remote));
        target.port = Some(self.remote.port());
        let peer = Peer { transport: Transport::Udp, address: self.remote };
        let capabilities = station.capabilities();
        if let Some(call) = station.agent.call(now, &target.into(), peer, capabilities) {
            let end = now + self.config.ring_limit;
            self.calls.insert(call, Placed { at: now, rang: false, is_up: false, end });
            self.ends.insert((end, call));
            self.placed += 1;
        }
        self.draw_next(now, cx);
    }

    /// Acts on all that is due, sends, and returns the next time.
    fn turn(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        while self.next <= now {
            self.place(now, cx);
        }
        while let Some((_, call)) = self.ends.first().copied().filter(|(time, _)| *time <= now) {
            self.ends.pop_first();
            if let Some(station) = &mut self.station {
                station.agent.hang_up(now, call);
            }
        }
        while let Some(event) = self.station.as_mut().and_then(Station::event) {
            self.note(now, &event, cx);
        }
        let Some(station) = &mut self.station else { return Time::NEVER };
        station.send(cx);
        let end = self.ends.first().map_or(Time::NEVER, |(time, _)| *time);
        station.agent.deadline().min(self.next).min(end).max(now)
    }

    fn note(&mut self, now: Time, event: &Event, cx: &mut Cx<'_>) {
        match event {
            Event::Progress { call, status: 180..=199 } => {
                let Some(placed) = self.calls.get_mut(call) else { return };
                if !std::mem::replace(&mut placed.rang, true) {
                    self.post_dial.record(now - placed.at);
                }
            }
            Event::Answered { call, .. } => {
                let Some(placed) = self.calls.get_mut(call) else { return };
                placed.is_up = true;
                self.established += 1;
                self.up += 1;
                self.set_up.record(now - placed.at);
                self.ends.remove(&(placed.end, *call));
                placed.end =
                    now + Span::from_secs_f64(cx.stream().exponential(self.config.hold.as_secs_f64()));
                self.ends.insert((placed.end, *call));
            }
            Event::Ended { call, .. } => self.ended += u64::from(self.forget(*call)),
            Event::Failed { call, failure } => {
                self.forget(*call);
                match failure {
                    Failure::TimedOut => self.timed_out += 1,
                    _ => self.failed += 1,
                }
            }
            _ => {}
        }
    }

    /// Returns `true` if the call was established, and removes it.
    fn forget(&mut self, call: CallId) -> bool {
        let Some(placed) = self.calls.remove(&call) else { return false };
        self.ends.remove(&(placed.end, call));
        self.up -= u64::from(placed.is_up);
        placed.is_up
    }
}

/// Returns the host of an address as URIs write it.
fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

impl Element for Caller {
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
            None => {
                self.station = Some(Station::new(&self.config, "caller", self.local, cx.stream()));
                self.draw_next(self.start.max(now), cx);
            }
        }
        self.turn(cx)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::CALLS, self.placed);
        observer.counter(&metrics::CALLS_ESTABLISHED, self.established);
        observer.counter(&metrics::CALLS_ENDED, self.ended);
        observer.counter(&metrics::CALLS_TIMED_OUT, self.timed_out);
        observer.counter(&metrics::CALLS_FAILED, self.failed);
        Station::observe(self.station.as_ref(), observer);
        observer.gauge(&metrics::CALLS_UP, self.up as f64);
        observer.histogram(&metrics::POST_DIAL_DELAYS, &self.post_dial);
        observer.histogram(&metrics::SET_UP_TIMES, &self.set_up);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
