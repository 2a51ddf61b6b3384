//! Endpoint of calls: a phone, a PABX or a registrar, on one UDP port.

mod receive;
mod register;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use bentpipe_units::{RandomStream, Span, Time};
use rand::RngCore;

use super::call::{Call, CallId, Event, Failure, State};
use super::element::{Element, Elements};
use super::frame::{Frame, FullFrame, Kind, MiniFrame, control, iax};
use super::leg::{Leg, Timers};
use super::trunk::{Trunk, TrunkedCall};
use crate::transaction::Agenda;
use register::Registration;

/// Version of the protocol (RFC 5456 8.6.10).
const VERSION: u16 = 2;
/// Authentication by MD5 (RFC 5456 8.6.13).
const MD5: u16 = 2;
/// Largest call number of legs; 32,767 answers POKE.
const LAST_NUMBER: u16 = 0x7ffe;
/// Maximum number of bytes of the calls in a trunk frame.
pub const TRUNK_BYTES: usize = 1200;

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// Own user name.
    pub user: String,
    /// Answer to challenges.
    pub password: Option<String>,
    /// Formats of voice, preferred first.
    pub formats: Vec<u32>,
    /// Users who may call and register, with their passwords. Default: all may call, and none register.
    pub users: BTreeMap<String, String>,
    /// Timer values.
    pub timers: Timers,
    /// Period in which voice to one peer is gathered into a trunk frame. Default: mini frames.
    pub trunk: Option<Span>,
    /// Maximum number of calls and registrations at a time, 32,766 at most.
    pub max_calls: usize,
}

impl Config {
    /// Creates the settings of a user, with the default timers and without a password.
    pub fn new(user: &str, formats: Vec<u32>) -> Config {
        let (users, timers) = (BTreeMap::new(), Timers::default());
        Config { user: user.into(), password: None, formats, users, timers, trunk: None, max_calls: 32_766 }
    }
}

/// Counts of frames of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Full frames sent again.
    pub repeated: u64,
    /// Repeated full frames received.
    pub absorbed: u64,
    /// Datagrams that cannot be parsed.
    pub malformed: u64,
    /// Mini frames and trunked calls without a call.
    pub stray: u64,
}

/// Endpoint of calls.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    random: RandomStream,
    calls: HashMap<u16, Call>,
    numbers: HashMap<CallId, u16>,
    /// Own call numbers by the peer's address and call number.
    by_peer: HashMap<(SocketAddr, u16), u16>,
    next_number: u16,
    next_id: u64,
    agenda: Agenda<u16>,
    registration: Option<Registration>,
    registrar: BTreeMap<String, (SocketAddr, Time)>,
    /// Voice that waits for its trunk frame, with the time of that.
    trunks: BTreeMap<SocketAddr, (Time, usize, Vec<TrunkedCall>)>,
    start: Option<Time>,
    transmits: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<Event>,
    counters: Counters,
}

impl Endpoint {
    /// Creates an endpoint without calls.
    pub fn new(config: Config, random: RandomStream) -> Endpoint {
        Endpoint {
            config,
            random,
            calls: HashMap::new(),
            numbers: HashMap::new(),
            by_peer: HashMap::new(),
            next_number: 0,
            next_id: 0,
            agenda: Agenda::new(),
            registration: None,
            registrar: BTreeMap::new(),
            trunks: BTreeMap::new(),
            start: None,
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Returns the number of legs that exist.
    pub fn legs(&self) -> usize {
        self.calls.len()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the address of a registered user.
    pub fn lookup(&self, now: Time, user: &str) -> Option<SocketAddr> {
        self.registrar.get(user).filter(|(_, until)| *until > now).map(|(address, _)| *address)
    }

    /// Returns the next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.transmits.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the next timer.
    pub fn deadline(&mut self) -> Time {
        let calls = &self.calls;
        let leg = self.agenda.next(|number| calls.get(&number).map(Call::deadline));
        let trunk = self.trunks.values().map(|(at, ..)| *at).min().unwrap_or(Time::NEVER);
        let registration = self.registration.as_ref().map_or(Time::NEVER, |own| own.refresh);
        leg.min(trunk).min(registration)
    }

    /// Calls a number at a peer. `None` if there are too many calls.
    pub fn call(&mut self, now: Time, peer: SocketAddr, number: &str) -> Option<CallId> {
        let user = self.config.user.clone();
        self.call_as(now, peer, (&user, number))
    }

    /// Calls a number at a peer for the caller with another number. `None` if there are too many calls.
    pub fn call_as(&mut self, now: Time, peer: SocketAddr, (caller, number): (&str, &str)) -> Option<CallId> {
        let source = self.add(now, (peer, 0), State::Calling)?;
        let capability = self.config.formats.iter().fold(0, |all, format| all | format);
        let preferred = self.config.formats.first().copied().unwrap_or_default();
        let elements = Elements::default()
            .with_u16(Element::VERSION, VERSION)
            .with(Element::CALLED_NUMBER, number.as_bytes())
            .with(Element::CALLING_NUMBER, caller.as_bytes())
            .with(Element::USERNAME, self.config.user.as_bytes())
            .with_u32(Element::FORMAT, preferred)
            .with_u32(Element::CAPABILITY, capability);
        self.send(now, source, (Kind::Iax, iax::NEW), elements);
        let call = self.calls.get_mut(&source)?;
        call.is_reported = true;
        Some(call.id)
    }

    /// Reports to the caller that the callee rings.
    pub fn ring(&mut self, now: Time, call: CallId) {
        if let Some(number) = self.in_state(call, &State::Linked) {
            self.send(now, number, (Kind::Control, control::RINGING), Elements::default());
        }
    }

    /// Answers an incoming call.
    pub fn answer(&mut self, now: Time, call: CallId) {
        let Some(number) = self.in_state(call, &State::Linked) else { return };
        self.send(now, number, (Kind::Control, control::ANSWER), Elements::default());
        let ping = now + self.config.timers.ping;
        if let Some(call) = self.calls.get_mut(&number) {
            (call.state, call.ping) = (State::Up, ping);
            self.agenda.add(call.deadline(), number);
        }
    }

    /// Ends a call in any state, with normal clearing.
    pub fn hang_up(&mut self, now: Time, id: CallId) {
        let Some(number) = self.numbers.get(&id).copied() else { return };
        let Some(call) = self.calls.get(&number).filter(|call| call.state != State::Ending) else { return };
        let event = match call.state {
            State::Up => Event::Ended { call: id, by_peer: false },
            _ => Event::Failed { call: id, failure: Failure::Rejected(None) },
        };
        self.finish(now, number, iax::HANGUP, 16);
        self.report_end(number, event);
    }

    /// Refuses an incoming call with a cause code (RFC 5456 8.6.33).
    pub fn reject(&mut self, now: Time, id: CallId, cause: u8) {
        let Some(number) = self.in_state(id, &State::Linked) else { return };
        self.finish(now, number, iax::HANGUP, cause);
        self.report_end(number, Event::Failed { call: id, failure: Failure::Rejected(Some(cause)) });
    }

    /// Returns the format of a call's voice, once it is agreed.
    pub fn format(&self, call: CallId) -> Option<u32> {
        let number = self.numbers.get(&call)?;
        Some(self.calls.get(number)?.format).filter(|format| *format != 0)
    }

    /// Sends voice of an answered call.
    ///
    /// The timestamp is in ms since the start of the call.
    /// The first voice, and the first of each 65.536 s, goes in a full frame; the rest in mini frames or in trunk frames.
    pub fn send_voice(&mut self, now: Time, id: CallId, timestamp: u32, payload: Vec<u8>) {
        let Some(number) = self.in_state(id, &State::Up) else { return };
        let timers = self.config.timers;
        let Some(call) = self.calls.get_mut(&number) else { return };
        let (peer, high) = (call.leg.peer, (timestamp >> 16) as u16);
        if call.sent_high != Some(high) {
            call.sent_high = Some(high);
            let frame = call.leg.send_at(now, timestamp, (Kind::Voice, call.format), payload, &timers);
            return self.transmit(number, &frame);
        }
        match self.config.trunk {
            Some(period) => self.gather(
                now,
                period,
                peer,
                TrunkedCall { source: number, timestamp: Some(timestamp as u16), payload },
            ),
            None => {
                let mini = MiniFrame { source: number, timestamp: timestamp as u16, payload };
                self.transmits.push_back((peer, mini.emit()));
            }
        }
    }

    /// Sends comfort noise of an answered call, at the start of a pause.
    ///
    /// The timestamp is in ms since the start of the call, the level in decibels below the overload point.
    pub fn send_noise(&mut self, now: Time, id: CallId, timestamp: u32, level: u8) {
        let Some(number) = self.in_state(id, &State::Up) else { return };
        let timers = self.config.timers;
        let Some(call) = self.calls.get_mut(&number) else { return };
        let kind = (Kind::ComfortNoise, level.into());
        let frame = call.leg.send_at(now, timestamp, kind, Vec::new(), &timers);
        self.transmit(number, &frame);
    }

    /// Returns the milliseconds since the start of a call.
    pub fn elapsed(&self, now: Time, id: CallId) -> Option<u32> {
        self.numbers.get(&id).and_then(|number| self.calls.get(number)).map(|call| call.leg.elapsed(now))
    }

    fn gather(&mut self, now: Time, period: Span, peer: SocketAddr, voice: TrunkedCall) {
        let len = voice.payload.len() + 6;
        let is_full = self.trunks.get(&peer).is_some_and(|(_, bytes, _)| bytes + len > TRUNK_BYTES);
        if is_full {
            self.send_trunk(now, peer);
        }
        let (_, bytes, calls) = self.trunks.entry(peer).or_insert((now + period, 0, vec![]));
        *bytes += len;
        calls.push(voice);
    }

    fn send_trunk(&mut self, now: Time, peer: SocketAddr) {
        let Some((_, _, calls)) = self.trunks.remove(&peer) else { return };
        let timestamp = (now.since(self.start.unwrap_or(now)).as_nanos() / 1_000_000) as u32;
        let trunk = Trunk { timestamp, has_timestamps: true, calls };
        self.transmits.push_back((peer, trunk.emit()));
    }

    /// Handles timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(peer) = self.trunks.iter().find(|(_, (at, ..))| *at <= now).map(|(peer, _)| *peer) {
            self.send_trunk(now, peer);
        }
        loop {
            let calls = &self.calls;
            let Some(number) = self.agenda.due(now, |number| calls.get(&number).map(Call::deadline)) else {
                break;
            };
            self.on_time(now, number);
        }
        self.registration_timer(now);
    }

    fn on_time(&mut self, now: Time, number: u16) {
        let timers = self.config.timers;
        let Some(call) = self.calls.get_mut(&number) else { return };
        let Some(again) = call.leg.on_time(now, &timers) else { return self.fail(number, Failure::TimedOut) };
        self.counters.repeated += again.len() as u64;
        again.iter().for_each(|frame| self.transmit(number, frame));
        let Some(call) = self.calls.get_mut(&number) else { return };
        if call.ping > now {
            return self.agenda.add(call.deadline(), number);
        }
        call.ping = now + timers.ping;
        let ping = call.leg.send(now, (Kind::Iax, iax::PING), vec![], &timers);
        call.pinged = Some((ping.timestamp, now));
        self.transmit(number, &ping);
    }

    /// Adds a leg and returns its number. `None` if there are too many.
    fn add(&mut self, now: Time, (peer, destination): (SocketAddr, u16), state: State) -> Option<u16> {
        self.start.get_or_insert(now);
        if self.calls.len() >= self.config.max_calls.min(LAST_NUMBER.into()) {
            return None;
        }
        loop {
            self.next_number = if self.next_number >= LAST_NUMBER { 1 } else { self.next_number + 1 };
            if !self.calls.contains_key(&self.next_number) {
                break;
            }
        }
        self.next_id += 1;
        let (number, id) = (self.next_number, CallId(self.next_id));
        self.numbers.insert(id, number);
        if destination != 0 {
            self.by_peer.insert((peer, destination), number);
        }
        self.calls.insert(number, Call::new(id, Leg::new(now, peer, (number, destination)), state));
        Some(number)
    }

    /// Sends a frame of the sequence.
    fn send(&mut self, now: Time, number: u16, kind: (Kind, u32), elements: Elements) {
        let timers = self.config.timers;
        let Some(call) = self.calls.get_mut(&number) else { return };
        let frame = call.leg.send(now, kind, elements.emit(), &timers);
        self.transmit(number, &frame);
    }

    fn transmit(&mut self, number: u16, frame: &FullFrame) {
        let Some(call) = self.calls.get(&number) else { return };
        self.transmits.push_back((call.leg.peer, frame.emit()));
        self.agenda.add(call.deadline(), number);
    }

    /// Sends the last frame of a leg; it is forgotten with the acknowledgement.
    fn finish(&mut self, now: Time, number: u16, subclass: u32, cause: u8) {
        let elements = Elements::default().with(Element::CAUSE_CODE, &[cause]);
        self.send(now, number, (Kind::Iax, subclass), elements);
        if let Some(call) = self.calls.get_mut(&number) {
            (call.state, call.ping) = (State::Ending, Time::NEVER);
            self.agenda.add(call.deadline(), number);
        }
    }

    /// Reports the end of a call once, if the application knows it.
    fn report_end(&mut self, number: u16, event: Event) {
        let is_known = self.calls.get_mut(&number).is_some_and(|call| std::mem::take(&mut call.is_reported));
        if is_known {
            self.events.push_back(event);
        }
    }

    /// Forgets a leg.
    fn remove(&mut self, number: u16) {
        if let Some(call) = self.calls.remove(&number) {
            self.numbers.remove(&call.id);
            self.by_peer.remove(&(call.leg.peer, call.leg.destination));
        }
    }

    /// Ends a leg without a further frame.
    fn fail(&mut self, number: u16, failure: Failure) {
        let Some(call) = self.calls.get(&number) else { return };
        let id = call.id;
        match call.state {
            State::Up => self.report_end(number, Event::Ended { call: id, by_peer: true }),
            State::Registering => self.fail_registration(failure),
            _ => self.report_end(number, Event::Failed { call: id, failure }),
        }
        self.remove(number);
    }

    fn in_state(&self, id: CallId, state: &State) -> Option<u16> {
        let number = *self.numbers.get(&id)?;
        self.calls.get(&number).filter(|call| call.state == *state).map(|_| number)
    }

    /// Returns a random challenge of nine digits.
    fn challenge(&mut self) -> String {
        format!("{:09}", self.random.next_u64() % 1_000_000_000)
    }

    /// Receives a datagram.
    pub fn receive(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        self.start.get_or_insert(now);
        match Frame::parse(datagram) {
            Ok(Frame::Full(frame)) => self.receive_full(now, from, frame),
            Ok(Frame::Mini(frame)) => self.receive_mini(from, frame),
            Ok(Frame::Trunk(trunk)) => self.receive_trunk(from, trunk),
            Ok(Frame::Video(_)) => self.counters.stray += 1,
            Err(_) => self.counters.malformed += 1,
        }
    }
}

#[cfg(test)]
mod tests;
