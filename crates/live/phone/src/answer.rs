//! Calls answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_signalling::agent::{CallId, Event, Failure};
use bentpipe_signalling::sdp::Capabilities;
use bentpipe_signalling::transaction::Limits;
use bentpipe_units::{Span, Time};

use crate::schedule::Schedule;
use crate::{Figures, Phone};

/// Way to answer calls.
#[derive(Clone, Debug)]
pub struct Answering {
    /// Status that refuses all calls.
    pub refuse: Option<u16>,
    /// Time from INVITE to answer.
    pub ring: Span,
    /// Time from the ACK after which this side ends a call. Default: the caller ends it.
    pub hold: Option<Span>,
    /// Maximum number of calls at a time. More are refused with 503.
    pub most: usize,
    /// Number of calls after which to stop.
    pub calls: Option<u64>,
    /// Time after which to stop.
    pub duration: Option<Span>,
    /// Set to answer the offer in 183 Session Progress while the call rings: early media.
    pub early: bool,
    /// Audio of calls without voice.
    pub capabilities: Capabilities,
}

struct Answerer<'a> {
    plan: &'a Answering,
    figures: Figures,
    received: HashMap<CallId, Received>,
    ringing: Schedule,
    holding: Schedule,
}

struct Received {
    at: Time,
    is_up: bool,
}

/// Time for which repeated requests of the last call are still answered.
const LINGER: Span = Span::from_secs(4);

/// Answers calls until the limits of the plan, a stop, or a failed registration.
///
/// # Errors
/// Returns the reason if the registration failed.
pub fn answer(
    phone: &mut Phone,
    plan: &Answering,
    stop: &AtomicBool,
    mut watch: impl FnMut(&Figures),
) -> Result<Figures, Failure> {
    let lines = phone.lines().unwrap_or(usize::MAX);
    phone.agent().limit_peers(limits(plan.most, lines));
    let (ringing, holding) = (Schedule::default(), Schedule::default());
    let mut answerer =
        Answerer { plan, figures: Figures::default(), received: HashMap::new(), ringing, holding };
    let end = plan.duration.map_or(Time::NEVER, |duration| phone.now() + duration);
    let mut last = Time::NEVER;
    let mut is_refused = None;
    while !stop.load(Ordering::Relaxed) && is_refused.is_none() {
        let now = phone.now();
        if plan.calls.is_some_and(|calls| answerer.figures.over() >= calls) {
            last = last.min(now + LINGER.min(end - now));
        }
        if now >= end.min(last) {
            break;
        }
        answerer.act_on_due(phone);
        for event in phone.turn(end.min(last).min(answerer.next_action())) {
            is_refused = is_refused.or(answerer.note(phone, &event));
        }
        watch(&answerer.figures);
    }
    answerer.leave(phone);
    match is_refused {
        Some(failure) => Err(failure),
        None => Ok(answerer.figures),
    }
}

/// Returns the limits of a phone with numbers of calls and of lines.
///
/// A transaction is kept for 32 s: that of an INVITE, and that of the BYE. Callers without proof have half of the lines at most.
fn limits(most: usize, lines: usize) -> Limits {
    Limits { calls: most, unproven: most.min(lines).div_ceil(2), transactions: 4 * most.max(1000) }
}

impl Answerer<'_> {
    fn next_action(&self) -> Time {
        self.ringing.next().min(self.holding.next())
    }

    fn act_on_due(&mut self, phone: &mut Phone) {
        let now = phone.now();
        while let Some(call) = self.ringing.due(now) {
            phone.answer(call, &self.plan.capabilities);
        }
        while let Some(call) = self.holding.due(now) {
            phone.hang_up(call);
        }
        phone.flush();
    }

    /// Acts on an event, and returns the failure of the registration.
    fn note(&mut self, phone: &mut Phone, event: &Event) -> Option<Failure> {
        let now = phone.now();
        match event {
            Event::Incoming { call, .. } => self.greet(phone, *call),
            Event::Confirmed { call, .. } => {
                let received = self.received.get_mut(call)?;
                received.is_up = true;
                self.figures.note_established(now - received.at);
                self.plan.hold.into_iter().for_each(|hold| self.holding.add(now + hold, *call));
            }
            Event::Ended { call, .. } => match self.received.remove(call) {
                Some(Received { is_up: true, .. }) => self.figures.note_ended(),
                Some(_) => self.figures.note_failed(Failure::NotAcknowledged, false),
                None => {}
            },
            Event::Failed { call, failure } => {
                let received = self.received.remove(call)?;
                self.figures.note_failed(*failure, received.is_up);
            }
            Event::NotRegistered(failure) => return Some(*failure),
            _ => {}
        }
        None
    }

    fn greet(&mut self, phone: &mut Phone, call: CallId) {
        let now = phone.now();
        self.figures.calls += 1;
        self.received.insert(call, Received { at: now, is_up: false });
        if let Some(status) = self.plan.refuse {
            return phone.agent().reject(now, call, status);
        }
        if !phone.ring(call, self.plan.early.then_some(&self.plan.capabilities)) {
            return;
        }
        if self.plan.ring.is_zero() {
            phone.answer(call, &self.plan.capabilities);
        } else {
            self.ringing.add(now + self.plan.ring, call);
        }
        phone.flush();
    }

    /// Ends the calls that are left: ended if up, else cut off.
    fn leave(&mut self, phone: &mut Phone) {
        let mut calls: Vec<CallId> = self.received.keys().copied().collect();
        calls.sort_unstable();
        calls.into_iter().for_each(|call| phone.hang_up(call));
        phone.flush();
        for (_, received) in self.received.drain() {
            match received.is_up {
                true => self.figures.note_ended(),
                false => self.figures.note_cut_off(),
            }
        }
        let counters = phone.agent().stack().counters();
        (self.figures.repeated, self.figures.absorbed) =
            (counters.requests_repeated, counters.requests_absorbed);
        self.figures.turned_away = counters.turned_away;
        self.figures.displaced = phone.agent().displaced();
        self.figures.voice = phone.voice();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

    use bentpipe_signalling::agent::Config;
    use bentpipe_signalling::sdp::{Codec, Direction};

    use super::*;

    /// Request of a caller for its call, as text.
    fn request(method: &str, call: &str, (from, to): (SocketAddr, SocketAddr)) -> String {
        format!(
            "{method} sip:bob@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK{call}\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@{from}>;tag={call}\r\nTo: <sip:bob@{to}>\r\nCall-ID: {call}\r\nCSeq: 1 {method}\r\n\
             Contact: <sip:alice@{from}>\r\nContent-Length: 0\r\n\r\n"
        )
    }

    #[test]
    fn calls_that_were_given_up_are_in_the_account() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut phone = Phone::open(Config::new("bob", local), 1).expect("sockets");
        let caller = UdpSocket::bind(local).expect("a socket");
        let between = (caller.local_addr().expect("bound"), phone.sockets().local());
        let send = |method: &str, call: &str| {
            caller.send_to(request(method, call, between).as_bytes(), between.1).expect("sent");
        };
        let plan = Answering {
            refuse: None,
            ring: Span::from_secs(60),
            hold: None,
            most: 100,
            calls: None,
            duration: Some(Span::from_secs(30)),
            early: false,
            capabilities: Capabilities {
                address: local.ip(),
                port: 4000,
                codecs: vec![Codec::new(0, "PCMU", 8000)],
                ptime: 20,
                direction: Direction::SendRecv,
            },
        };
        // Two callers: one cancels, one falls silent.
        send("INVITE", "first");
        send("INVITE", "second");
        let (stop, mut is_cancelled) = (AtomicBool::new(false), false);
        let figures = answer(&mut phone, &plan, &stop, |figures| {
            if figures.calls == 2 && !std::mem::replace(&mut is_cancelled, true) {
                send("CANCEL", "first");
            }
            stop.store(figures.failures() > 0, Ordering::Relaxed);
        })
        .expect("no registration");
        assert_eq!((figures.calls, figures.established, figures.not_established()), (2, 0, 2));
        assert_eq!((figures.failed["cancelled"], figures.failed["cut off at the end"]), (1, 1));
        let shown = figures.to_string();
        assert!(shown.contains("2 calls: 0 established, 2 failed\n"), "{shown}");
    }
}
