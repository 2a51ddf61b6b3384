//! Received frames.

use super::*;
use crate::iax::element::md5_result;
use crate::iax::leg::Receipt;

/// Cause codes (RFC 5456 8.6.33).
const REJECTED: u8 = 21;
const NO_FORMAT: u8 = 58;

impl Endpoint {
    pub(super) fn receive_mini(&mut self, from: SocketAddr, frame: MiniFrame) {
        let number = self.by_peer.get(&(from, frame.source)).copied();
        self.deliver(number, frame.timestamp, frame.payload);
    }

    /// Delivers the voice of a trunk. Without timestamps of their own, calls have that of the trunk.
    pub(super) fn receive_trunk(&mut self, from: SocketAddr, trunk: Trunk) {
        for TrunkedCall { source, timestamp, payload } in trunk.calls {
            let number = self.by_peer.get(&(from, source)).copied();
            self.deliver(number, timestamp.unwrap_or(trunk.timestamp as u16), payload);
        }
    }

    fn deliver(&mut self, number: Option<u16>, timestamp: u16, payload: Vec<u8>) {
        let Some(number) = number.filter(|number| self.calls.contains_key(number)) else {
            self.counters.stray += 1;
            return;
        };
        let Some(call) = self.calls.get_mut(&number) else { return };
        let id = call.id;
        match call.widen(timestamp) {
            _ if call.state != State::Up => self.counters.stray += 1,
            Some(timestamp) => self.events.push_back(Event::Voice { call: id, timestamp, payload }),
            None => {
                // Voice before its full frame: the peer sends that again.
                let vnak = call.leg.uncounted(iax::VNAK, 0);
                self.transmit(number, &vnak);
            }
        }
    }

    pub(super) fn receive_full(&mut self, now: Time, from: SocketAddr, frame: FullFrame) {
        match self.leg_of(now, from, &frame) {
            Some(number) => self.receive_on(now, number, frame),
            None => self.answer_stray(from, &frame),
        }
    }

    /// Returns the leg of a frame, which NEW and REGREQ create.
    fn leg_of(&mut self, now: Time, from: SocketAddr, frame: &FullFrame) -> Option<u16> {
        let known = self.by_peer.get(&(from, frame.source)).copied();
        if frame.destination != 0 {
            let call = self.calls.get_mut(&frame.destination).filter(|call| call.leg.peer == from)?;
            if call.leg.destination == 0 {
                call.leg.destination = frame.source;
                self.by_peer.insert((from, frame.source), frame.destination);
            }
            return (call.leg.destination == frame.source).then_some(frame.destination);
        }
        let starts = frame.kind == Kind::Iax && [iax::NEW, iax::REGREQ].contains(&frame.subclass);
        let is_first = frame.outbound == 0 && frame.inbound == 0;
        match known {
            None if starts && is_first && frame.source != 0 => {
                // The state is set by the frame, which is the first of the leg.
                self.add(now, (from, frame.source), State::Linked)
            }
            _ => known,
        }
    }

    /// Answers POKE, and refuses frames without a call.
    fn answer_stray(&mut self, from: SocketAddr, frame: &FullFrame) {
        let quiet = [iax::INVAL, iax::ACK, iax::PONG, iax::LAGRP];
        let subclass = match (frame.kind, frame.subclass) {
            (Kind::Iax, iax::POKE) => iax::PONG,
            (Kind::Iax, other) if quiet.contains(&other) => return,
            _ => iax::INVAL,
        };
        let source = if subclass == iax::PONG { LAST_NUMBER + 1 } else { frame.destination };
        let answer = FullFrame {
            source,
            destination: frame.source,
            is_repeated: false,
            timestamp: frame.timestamp,
            outbound: frame.inbound,
            inbound: frame.outbound.wrapping_add(1),
            kind: Kind::Iax,
            subclass,
            payload: vec![],
        };
        self.transmits.push_back((from, answer.emit()));
    }

    fn receive_on(&mut self, now: Time, number: u16, frame: FullFrame) {
        let timers = self.config.timers;
        let Some(call) = self.calls.get_mut(&number) else { return };
        let receipt = call.leg.receive(now, &frame, &timers);
        let deadline = call.deadline();
        self.agenda.add(deadline, number);
        match receipt {
            Receipt::New => self.handle(now, number, frame),
            Receipt::Repeated => {
                self.counters.absorbed += 1;
                self.acknowledge(number, frame.timestamp);
            }
            Receipt::Gap => self.reply(number, iax::VNAK, frame.timestamp),
        }
        self.settle(number);
    }

    /// Reports the confirmation of an answer, and forgets a leg whose last frame is acknowledged.
    fn settle(&mut self, number: u16) {
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.leg.is_settled()) else { return };
        match call.state {
            State::Ending => self.remove(number),
            State::Up if !call.is_caller && !std::mem::replace(&mut call.is_confirmed, true) => {
                self.events.push_back(Event::Confirmed { call: call.id });
            }
            _ => {}
        }
    }

    fn acknowledge(&mut self, number: u16, timestamp: u32) {
        self.reply(number, iax::ACK, timestamp);
    }

    fn reply(&mut self, number: u16, subclass: u32, timestamp: u32) {
        let Some(call) = self.calls.get(&number) else { return };
        let frame = call.leg.uncounted(subclass, timestamp);
        self.transmit(number, &frame);
    }

    fn handle(&mut self, now: Time, number: u16, frame: FullFrame) {
        match (frame.kind, frame.subclass) {
            (Kind::Iax, subclass) => self.handle_iax(now, number, subclass, &frame),
            (Kind::Control, subclass) => {
                self.acknowledge(number, frame.timestamp);
                self.handle_control(now, number, subclass);
            }
            (Kind::Voice, format) => {
                self.acknowledge(number, frame.timestamp);
                self.handle_voice(number, format, frame);
            }
            (Kind::ComfortNoise, level) => {
                self.acknowledge(number, frame.timestamp);
                let call = self.calls.get(&number).filter(|call| call.state == State::Up);
                let noise = call.map(|call| Event::Noise {
                    call: call.id,
                    timestamp: frame.timestamp,
                    level: level.min(127) as u8,
                });
                self.events.extend(noise);
            }
            _ => self.acknowledge(number, frame.timestamp),
        }
    }

    fn handle_voice(&mut self, number: u16, format: u32, frame: FullFrame) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if call.state != State::Up || format != call.format {
            return;
        }
        call.last_voice = Some(frame.timestamp);
        let (call, timestamp) = (call.id, frame.timestamp);
        self.events.push_back(Event::Voice { call, timestamp, payload: frame.payload });
    }

    fn handle_control(&mut self, now: Time, number: u16, subclass: u32) {
        let ping = now + self.config.timers.ping;
        let Some(call) = self.calls.get_mut(&number) else { return };
        let (id, is_waiting) = (call.id, call.is_caller && call.state == State::Linked);
        match subclass {
            control::RINGING if is_waiting => self.events.push_back(Event::Ringing { call: id }),
            control::ANSWER if is_waiting => {
                (call.state, call.ping) = (State::Up, ping);
                self.agenda.add(call.deadline(), number);
                self.events.push_back(Event::Answered { call: id });
            }
            control::BUSY | control::CONGESTION if is_waiting => {
                let cause = if subclass == control::BUSY { 17 } else { 34 };
                self.finish(now, number, iax::HANGUP, cause);
                let failure = Failure::Rejected(Some(cause));
                self.report_end(number, Event::Failed { call: id, failure });
            }
            control::HANGUP => self.fail(number, Failure::Rejected(None)),
            _ => {}
        }
    }

    fn handle_iax(&mut self, now: Time, number: u16, subclass: u32, frame: &FullFrame) {
        let elements = Elements::parse(&frame.payload).unwrap_or_default();
        match subclass {
            iax::ACK => {}
            iax::NEW => self.on_new(now, number, &elements),
            iax::REGREQ => self.on_registration(now, number, &elements),
            iax::AUTHREP => self.on_credentials(now, number, &elements),
            iax::AUTHREQ => self.on_challenge(now, number, &elements),
            iax::REGAUTH => self.on_registration_challenge(now, number, &elements),
            iax::REGACK | iax::REGREJ => {
                self.acknowledge(number, frame.timestamp);
                self.on_registration_answer(now, number, subclass == iax::REGACK, &elements);
            }
            iax::ACCEPT => {
                self.acknowledge(number, frame.timestamp);
                self.on_accept(number, &elements);
            }
            iax::REJECT | iax::HANGUP => {
                self.acknowledge(number, frame.timestamp);
                let cause = elements.number(Element::CAUSE_CODE).map(|code| code as u8);
                self.fail(number, Failure::Rejected(cause));
            }
            iax::INVAL => self.fail(number, Failure::Unknown),
            iax::VNAK => self.send_again(number),
            iax::PING => self.echo(now, number, iax::PONG, frame.timestamp),
            iax::LAGRQ => self.echo(now, number, iax::LAGRP, frame.timestamp),
            iax::PONG => {
                self.acknowledge(number, frame.timestamp);
                self.on_pong(now, number, frame.timestamp);
            }
            iax::LAGRP | iax::UNSUPPORT => self.acknowledge(number, frame.timestamp),
            other => {
                let elements = Elements::default().with(Element::UNKNOWN, &[other as u8]);
                self.send(now, number, (Kind::Iax, iax::UNSUPPORT), elements);
            }
        }
    }

    /// Sends a frame of the sequence with the timestamp of the one that it answers.
    ///
    /// A leg that is ending acknowledges only: the peer may have forgotten it, and would acknowledge no further frame.
    fn echo(&mut self, now: Time, number: u16, subclass: u32, timestamp: u32) {
        let timers = self.config.timers;
        let Some(call) = self.calls.get_mut(&number) else { return };
        if call.state == State::Ending {
            return self.acknowledge(number, timestamp);
        }
        let frame = call.leg.send_at(now, timestamp, (Kind::Iax, subclass), vec![], &timers);
        self.transmit(number, &frame);
    }

    fn send_again(&mut self, number: u16) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let again = call.leg.again();
        self.counters.repeated += again.len() as u64;
        again.iter().for_each(|frame| self.transmit(number, frame));
    }

    fn on_pong(&mut self, now: Time, number: u16, timestamp: u32) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        if let Some((_, at)) = call.pinged.take_if(|(pinged, _)| *pinged == timestamp) {
            call.leg.note_round_trip(now.since(at));
        }
    }

    fn on_new(&mut self, now: Time, number: u16, elements: &Elements) {
        let text =
            |element| elements.text(element).unwrap_or_default().trim_end_matches(['\r', '\n']).to_owned();
        let (called, user) = (text(Element::CALLED_NUMBER), text(Element::USERNAME));
        let caller = Some(text(Element::CALLING_NUMBER)).filter(|caller| !caller.is_empty());
        if let Some(call) = self.calls.get_mut(&number) {
            call.caller = caller;
        }
        let Some(format) = self.choose(elements) else { return self.refuse(now, number, NO_FORMAT) };
        if self.config.users.is_empty() {
            return self.accept(now, number, called, (!user.is_empty()).then_some(user), format);
        }
        let challenge = self.challenge();
        let request = self.challenge_elements(&user, &challenge);
        self.send(now, number, (Kind::Iax, iax::AUTHREQ), request);
        self.set_state(number, State::Challenged { user, challenge, new: Some((called, format)) });
    }

    /// Returns the format of a call: the caller's preferred, or the first common one.
    fn choose(&self, elements: &Elements) -> Option<u32> {
        let preferred = elements.number(Element::FORMAT).unwrap_or_default();
        let capability = elements.number(Element::CAPABILITY).unwrap_or_default() | preferred;
        let own = &self.config.formats;
        let first = own.iter().find(|format| **format == preferred);
        first.or_else(|| own.iter().find(|format| capability & **format != 0)).copied()
    }

    pub(super) fn challenge_elements(&self, user: &str, challenge: &str) -> Elements {
        Elements::default()
            .with_u16(Element::AUTH_METHODS, MD5)
            .with(Element::CHALLENGE, challenge.as_bytes())
            .with(Element::USERNAME, user.as_bytes())
    }

    /// Returns `true` if the answer to a challenge is that of the user.
    pub(super) fn is_answered(&self, user: &str, challenge: &str, elements: &Elements) -> bool {
        let Some(password) = self.config.users.get(user) else { return false };
        let expected = md5_result(challenge, password);
        elements.text(Element::MD5_RESULT).is_some_and(|answer| answer.eq_ignore_ascii_case(&expected))
    }

    fn on_credentials(&mut self, now: Time, number: u16, elements: &Elements) {
        let state = self.calls.get(&number).map(|call| call.state.clone());
        let Some(State::Challenged { user, challenge, new: Some((called, format)) }) = state else {
            return self.refuse(now, number, REJECTED);
        };
        if self.is_answered(&user, &challenge, elements) {
            self.accept(now, number, called, Some(user), format);
        } else {
            self.refuse(now, number, REJECTED);
        }
    }

    fn accept(&mut self, now: Time, number: u16, called: String, user: Option<String>, format: u32) {
        let elements = Elements::default().with_u32(Element::FORMAT, format);
        self.send(now, number, (Kind::Iax, iax::ACCEPT), elements);
        self.set_state(number, State::Linked);
        let Some(call) = self.calls.get_mut(&number) else { return };
        (call.format, call.is_reported) = (format, true);
        let caller = call.caller.take();
        self.events.push_back(Event::Incoming { call: call.id, number: called, user, caller });
    }

    fn refuse(&mut self, now: Time, number: u16, cause: u8) {
        self.finish(now, number, iax::REJECT, cause);
    }

    fn on_challenge(&mut self, now: Time, number: u16, elements: &Elements) {
        let is_calling = self.calls.get(&number).is_some_and(|call| call.state == State::Calling);
        if !is_calling {
            return;
        }
        let Some((password, challenge)) =
            self.config.password.as_ref().zip(elements.text(Element::CHALLENGE))
        else {
            self.finish(now, number, iax::HANGUP, REJECTED);
            let Some(call) = self.calls.get(&number).map(|call| call.id) else { return };
            return self.report_end(number, Event::Failed { call, failure: Failure::NoPassword });
        };
        let answer = md5_result(challenge, password);
        let reply = Elements::default().with(Element::MD5_RESULT, answer.as_bytes());
        self.send(now, number, (Kind::Iax, iax::AUTHREP), reply);
    }

    fn on_accept(&mut self, number: u16, elements: &Elements) {
        let Some(call) = self.calls.get_mut(&number).filter(|call| call.state == State::Calling) else {
            return;
        };
        let preferred = self.config.formats.first().copied().unwrap_or_default();
        call.format = elements.number(Element::FORMAT).unwrap_or(preferred);
        call.state = State::Linked;
        self.events.push_back(Event::Accepted { call: call.id, format: call.format });
    }

    pub(super) fn set_state(&mut self, number: u16, state: State) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.state = state;
        }
    }
}
