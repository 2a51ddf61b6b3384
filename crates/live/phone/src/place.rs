//! Calls placed at a rate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_signalling::agent::{CallId, Event, Failure};
use bentpipe_signalling::sdp::Capabilities;
use bentpipe_signalling::sip::Uri;
use bentpipe_signalling::transaction::{Limits, Peer};
use bentpipe_units::{RandomStream, Span, Time};

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
    /// Audio of calls without voice.
    pub capabilities: Capabilities,
    /// Time after which calls that are left are hung up, and none is placed. Default: none.
    pub duration: Option<Span>,
    /// Seed of exponentially distributed intervals and lengths. Default: all are as given.
    pub random: Option<u64>,
}

/// Maximum number of calls placed in one turn, so that responses have theirs.
const BATCH: u64 = 64;

/// Longest time after a stop in which peers may answer.
///
/// It has room for a round trip over a satellite, and one repeated request.
const LEAVE: Span = Span::from_secs(2);

/// Limits of peers. A phone that places calls takes none, and keeps no state of them.
const LIMITS: Limits = Limits { calls: 0, unproven: 0, transactions: 4000 };

struct Placing<'a> {
    plan: &'a Dialling,
    figures: Figures,
    started: HashMap<CallId, Started>,
    /// Calls in the order in which they end by themselves.
    holding: Schedule,
    ringing: Schedule,
    random: Option<RandomStream>,
    /// Set once all calls are hung up at the end.
    is_over: bool,
}

struct Started {
    at: Time,
    rang: bool,
    is_up: bool,
}

/// Places calls and waits for their end.
///
/// A stop, or the end of the duration, ends all calls at once. Calls of peers that say nothing for two more seconds are given up.
pub fn place(
    phone: &mut Phone,
    plan: &Dialling,
    stop: &AtomicBool,
    mut watch: impl FnMut(&Figures),
) -> Figures {
    phone.agent().limit_peers(LIMITS);
    let (holding, ringing) = (Schedule::default(), Schedule::default());
    let mut placing = Placing {
        plan,
        figures: Figures::default(),
        started: HashMap::new(),
        holding,
        ringing,
        random: None,
        is_over: false,
    };
    placing.random = plan.random.map(|seed| RandomStream::new(seed, "calls"));
    let (mut next, mut leave) = (phone.now(), Time::NEVER);
    let end = plan.duration.map_or(Time::NEVER, |duration| next + duration);
    if placing.random.is_some() {
        next += placing.drawn(plan.interval);
    }
    loop {
        if (stop.load(Ordering::Relaxed) || phone.now() >= end) && leave == Time::NEVER {
            leave = phone.now() + LEAVE;
            placing.is_over = true;
            placing.hang_up_all(phone);
        }
        if leave == Time::NEVER {
            placing.dial_due(phone, &mut next);
        }
        let is_last = leave < Time::NEVER || placing.figures.calls == plan.calls;
        if phone.now() >= leave {
            placing.give_up(phone);
        }
        if is_last && placing.started.is_empty() {
            break;
        }
        placing.end_due(phone);
        let until = if is_last { leave } else { next }.min(end.max(phone.now())).min(placing.next_end());
        for event in phone.turn(until) {
            placing.note(phone.now(), &event);
        }
        watch(&placing.figures);
    }
    phone.flush();
    let counters = phone.agent().stack().counters();
    (placing.figures.repeated, placing.figures.absorbed) =
        (counters.requests_repeated, counters.requests_absorbed);
    placing.figures.voice = phone.voice();
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
            match phone.dial(target, *peer, capabilities) {
                Some(call) => {
                    self.started.insert(call, Started { at: now, rang: false, is_up: false });
                    self.ringing.add(now + self.plan.ring_limit, call);
                }
                None => self.figures.note_busy(),
            }
            self.figures.calls += 1;
            *next += self.drawn(self.plan.interval);
            phone.flush();
        }
    }

    /// Returns a mean time, or one drawn with it.
    fn drawn(&mut self, mean: Span) -> Span {
        let draw = |random: &mut RandomStream| Span::from_secs_f64(random.exponential(mean.as_secs_f64()));
        self.random.as_mut().map_or(mean, draw)
    }

    fn next_end(&self) -> Time {
        self.holding.next().min(self.ringing.next())
    }

    fn end_due(&mut self, phone: &mut Phone) {
        let now = phone.now();
        while let Some(call) = self.holding.due(now) {
            phone.hang_up(call);
        }
        while let Some(call) = self.ringing.due(now) {
            if self.started.get(&call).is_some_and(|started| !started.is_up) {
                phone.hang_up(call);
            }
        }
    }

    /// Counts a failed call. One that the end of the run cancels is cut off.
    fn note_failed(&mut self, failure: Failure, was_up: bool) {
        match (self.is_over, failure) {
            (true, Failure::Cancelled) if !was_up => self.figures.note_cut_off(),
            _ => self.figures.note_failed(failure, was_up),
        }
    }

    fn hang_up_all(&mut self, phone: &mut Phone) {
        let mut calls: Vec<CallId> = self.started.keys().copied().collect();
        calls.sort_unstable();
        calls.into_iter().for_each(|call| phone.hang_up(call));
    }

    /// Counts the calls that are left: as ended if up, else as cut off.
    fn give_up(&mut self, phone: &mut Phone) {
        for (call, started) in self.started.drain() {
            phone.forget(call);
            match started.is_up {
                true => self.figures.note_ended(),
                false => self.figures.note_cut_off(),
            }
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
                let hold = self.drawn(self.plan.hold);
                self.holding.add(now + hold, *call);
            }
            Event::Ended { call, .. } if self.started.remove(call).is_some() => self.figures.note_ended(),
            Event::Failed { call, failure } => {
                if let Some(started) = self.started.remove(call) {
                    self.note_failed(*failure, started.is_up);
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

    fn plan(address: SocketAddr) -> Dialling {
        let codecs = vec![Codec::new(0, "PCMU", 8000)];
        let capabilities = Capabilities {
            address: address.ip(),
            port: 4000,
            codecs,
            ptime: 20,
            direction: Direction::SendRecv,
        };
        Dialling {
            target: format!("sip:bob@{address}").parse().expect("a URI"),
            peer: Peer { transport: Transport::Udp, address },
            calls: 10,
            interval: Span::from_secs(60),
            hold: Span::from_secs(1),
            ring_limit: Span::from_secs(60),
            capabilities,
            duration: None,
            random: None,
        }
    }

    /// Each of them stayed as a call that rings until its caller gave up.
    #[test]
    fn calls_of_others_are_refused_without_state() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let [silent, other] = [0; 2].map(|_| UdpSocket::bind(local).expect("a socket"));
        let mut phone = Phone::open(Config::new("alice", local), 1).expect("sockets");
        let (here, there) = (phone.sockets().local(), other.local_addr().expect("bound"));
        for number in 0..50 {
            let invite = format!(
                "INVITE sip:alice@{here} SIP/2.0\r\nVia: SIP/2.0/UDP {there};branch=z9hG4bK{number}\r\nMax-Forwards: 70\r\n\
                 From: <sip:a@{there}>;tag={number}\r\nTo: <sip:alice@{here}>\r\nCall-ID: {number}@{there}\r\n\
                 CSeq: 1 INVITE\r\nContact: <sip:a@{there}>\r\nContent-Length: 0\r\n\r\n"
            );
            other.send_to(invite.as_bytes(), here).expect("sent");
        }
        let stop = AtomicBool::new(false);
        let watch = |_: &Figures| stop.store(true, Ordering::Relaxed);
        place(&mut phone, &plan(silent.local_addr().expect("bound")), &stop, watch);
        other.set_nonblocking(true).expect("set");
        let mut bytes = [0; 2000];
        let mut refused = 0;
        while let Ok(len) = other.recv(&mut bytes) {
            assert!(bytes[..len].starts_with(b"SIP/2.0 503 "), "{}", String::from_utf8_lossy(&bytes[..len]));
            refused += 1;
        }
        assert_eq!(refused, 50);
    }

    #[test]
    fn a_stop_gives_up_a_call_that_nobody_answers() {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let silent = UdpSocket::bind(local).expect("a socket");
        let address = silent.local_addr().expect("bound");
        let mut phone = Phone::open(Config::new("alice", local), 1).expect("sockets");
        let plan = plan(address);
        let stop = AtomicBool::new(false);
        let started = phone.now();
        let figures = place(&mut phone, &plan, &stop, |_| stop.store(true, Ordering::Relaxed));
        let lasted = phone.now() - started;
        assert!((LEAVE..LEAVE * 3).contains(&lasted), "timer B would end it after 32 s: {lasted}");
        assert_eq!((figures.calls, figures.failed["cut off at the end"]), (1, 1));
    }
}
