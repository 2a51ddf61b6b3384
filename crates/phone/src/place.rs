//! Calls placed at a rate.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_signalling::agent::{CallId, Event};
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

/// Places calls and waits for their end. A stop ends all calls at once.
pub fn place(
    phone: &mut Phone,
    plan: &Dialling,
    stop: &AtomicBool,
    mut watch: impl FnMut(&Figures),
) -> Figures {
    let (holding, ringing) = (Schedule::default(), Schedule::default());
    let mut placing =
        Placing { plan, figures: Figures::default(), started: HashMap::new(), holding, ringing };
    let (mut next, mut is_stopping) = (phone.now(), false);
    loop {
        if stop.load(Ordering::Relaxed) && !is_stopping {
            is_stopping = true;
            placing.hang_up_all(phone);
        }
        if !is_stopping {
            placing.dial_due(phone, &mut next);
        }
        let is_last = is_stopping || placing.figures.calls == plan.calls;
        if is_last && placing.started.is_empty() {
            break;
        }
        placing.end_due(phone);
        let until = if is_last { Time::NEVER } else { next }.min(placing.next_end());
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
