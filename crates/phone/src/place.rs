//! Calls placed at a rate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_signalling::agent::{CallId, Event, Failure};
use bentpipe_signalling::sdp::Capabilities;
use bentpipe_signalling::sip::Uri;
use bentpipe_signalling::transaction::Peer;
use bentpipe_units::{Span, Time};

use crate::schedule::Schedule;
use crate::{Figures, Phone};

/// Calls to place.
#[derive(Clone, Debug)]
pub struct Dialling {
    /// Callee.
    pub target: Uri,
    /// Next hop: the callee or a proxy.
    pub peer: Peer,
    /// Number of calls.
    pub calls: u64,
    /// Interval between calls.
    pub interval: Span,
    /// Time from the answer to the end of a call.
    pub hold: Span,
    /// Longest time that a callee may ring; the call is then cancelled.
    pub ring_limit: Span,
    /// Audio.
    pub capabilities: Capabilities,
}

/// Maximum number of calls placed in one turn, so that responses have theirs.
const BATCH: u64 = 64;

/// Longest time after a stop in which peers may answer.
///
/// It has room for a round trip over a satellite, and one repeated request.
const LEAVE: Span = Span::from_secs(2);

struct Placing<'a> {
    plan: &'a Dialling,
    figures: Figures,
    started: HashMap<CallId, Started>,
    /// Calls in the order in which they end by themselves.
    holding: Schedule,
    ringing: Schedule,
}

struct Started {
    at: Time,
    rang: bool,
    is_up: bool,
}

/// Places calls and waits for their end.
///
/// A stop ends all calls at once. A call whose peer says nothing for two more seconds is given up as cancelled.
pub fn place(
    phone: &mut Phone,
    plan: &Dialling,
    stop: &AtomicBool,
    mut watch: impl FnMut(&Figures),
) -> Figures {
    let (holding, ringing) = (Schedule::default(), Schedule::default());
    let mut placing =
        Placing { plan, figures: Figures::default(), started: HashMap::new(), holding, ringing };
    let (mut next, mut leave) = (phone.now(), Time::NEVER);
    loop {
        if stop.load(Ordering::Relaxed) && leave == Time::NEVER {
            leave = phone.now() + LEAVE;
            placing.hang_up_all(phone);
        }
        if leave == Time::NEVER {
            placing.dial_due(phone, &mut next);
        }
        let is_last = leave < Time::NEVER || placing.figures.calls == plan.calls;
        if phone.now() >= leave {
            placing.give_up();
        }
        if is_last && placing.started.is_empty() {
            break;
        }
        placing.end_due(phone);
        let until = if is_last { leave } else { next }.min(placing.next_end());
        for event in phone.turn(until) {
            placing.note(phone.now(), &event);
        }
        watch(&placing.figures);
    }
    phone.flush();
    let counters = phone.agent().stack().counters();
    (placing.figures.repeated, placing.figures.absorbed) =
        (counters.requests_repeated, counters.requests_absorbed);
    placing.figures
}

impl Placing<'_> {
    fn dial_due(&mut self, phone: &mut Phone, next: &mut Time) {
        for _ in 0..BATCH {
            let now = phone.now();
            if *next > now || self.figures.calls == self.plan.calls {
                break;
            }
            let Dialling { target, peer, capabilities, .. } = self.plan;
            let Some(call) = phone.agent().call(now, target, *peer, capabilities.clone()) else { break };
            self.started.insert(call, Started { at: now, rang: false, is_up: false });
            self.ringing.add(now + self.plan.ring_limit, call);
            self.figures.calls += 1;
            *next += self.plan.interval;
            phone.flush();
        }
    }

    fn next_end(&self) -> Time {
        self.holding.next().min(self.ringing.next())
    }

    fn end_due(&mut self, phone: &mut Phone) {
        let now = phone.now();
        while let Some(call) = self.holding.due(now) {
            phone.agent().hang_up(now, call);
        }
        while let Some(call) = self.ringing.due(now) {
            if self.started.get(&call).is_some_and(|started| !started.is_up) {
                phone.agent().hang_up(now, call);
            }
        }
    }

    fn hang_up_all(&mut self, phone: &mut Phone) {
        let now = phone.now();
        let mut calls: Vec<CallId> = self.started.keys().copied().collect();
        calls.sort_unstable();
        calls.into_iter().for_each(|call| phone.agent().hang_up(now, call));
    }

    /// Counts the calls that are left as cancelled.
    fn give_up(&mut self) {
        for (_, started) in self.started.drain() {
            self.figures.note_failed(Failure::Cancelled, started.is_up);
        }
    }

    fn note(&mut self, now: Time, event: &Event) {
        match event {
            Event::Progress { call, status: 180..=199 } => {
                let Some(started) = self.started.get_mut(call) else { return };
                if !std::mem::replace(&mut started.rang, true) {
                    self.figures.note_ringing(now - started.at);
                }
            }
            Event::Answered { call, .. } => {
                let Some(started) = self.started.get_mut(call) else { return };
                started.is_up = true;
                self.figures.note_established(now - started.at);
                self.holding.add(now + self.plan.hold, *call);
            }
            Event::Ended { call, .. } if self.started.remove(call).is_some() => self.figures.note_ended(),
            Event::Failed { call, failure } => {
                if let Some(started) = self.started.remove(call) {
                    self.figures.note_failed(*failure, started.is_up);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    use bentpipe_signalling::agent::Config;
    use bentpipe_signalling::sdp::{Codec, Direction};
    use bentpipe_signalling::sip::Transport;

    use super::*;

    #[test]
    fn a_stop_gives_up_a_call_that_nobody_answers() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let silent = UdpSocket::bind(local).expect("a socket");
        let address = silent.local_addr().expect("bound");
        let mut phone = Phone::open(Config::new("alice", local), 1).expect("sockets");
        let codecs = vec![Codec::new(0, "PCMU", 8000)];
        let capabilities = Capabilities {
            address: local.ip(),
            port: 4000,
            codecs,
            ptime: 20,
            direction: Direction::SendRecv,
        };
        let plan = Dialling {
            target: format!("sip:bob@{address}").parse().expect("a URI"),
            peer: Peer { transport: Transport::Udp, address },
            calls: 10,
            interval: Span::from_secs(60),
            hold: Span::from_secs(1),
            ring_limit: Span::from_secs(60),
            capabilities,
        };
        let stop = AtomicBool::new(false);
        let started = phone.now();
        let figures = place(&mut phone, &plan, &stop, |_| stop.store(true, Ordering::Relaxed));
        let lasted = phone.now() - started;
        assert!((LEAVE..LEAVE * 3).contains(&lasted), "timer B would end it after 32 s: {lasted}");
        assert_eq!((figures.calls, figures.failed["cancelled"]), (1, 1));
    }
}
