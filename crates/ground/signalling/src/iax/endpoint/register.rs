//! Registration (RFC 5456 6.1), as registrant and as registrar.

use super::*;
use crate::iax::element::md5_result;

/// Registration of a user without one, in seconds (RFC 5456 6.1.1).
const DEFAULT_REFRESH: u16 = 60;
/// Maximum number of registered users.
const MAX_USERS: usize = 1_000_000;

/// Registration of this endpoint's user.
#[derive(Debug)]
pub(super) struct Registration {
    peer: SocketAddr,
    seconds: u16,
    pub(super) refresh: Time,
}

impl Endpoint {
    /// Registers the user for a number of seconds.
    ///
    /// It is renewed at half of the time.
    pub fn register(&mut self, now: Time, registrar: SocketAddr, seconds: u16) {
        self.registration = Some(Registration { peer: registrar, seconds, refresh: now });
        self.registration_timer(now);
    }

    pub(super) fn registration_timer(&mut self, now: Time) {
        let Some(own) = self.registration.as_mut().filter(|own| own.refresh <= now) else { return };
        own.refresh = Time::NEVER;
        let (peer, seconds) = (own.peer, own.seconds);
        let Some(number) = self.add(now, (peer, 0), State::Registering) else {
            return self.fail_registration(Failure::TimedOut);
        };
        let request = self.request(seconds);
        self.send(now, number, (Kind::Iax, iax::REGREQ), request);
    }

    fn request(&self, seconds: u16) -> Elements {
        let user = self.config.user.as_bytes();
        Elements::default().with(Element::USERNAME, user).with_u16(Element::REFRESH, seconds)
    }

    pub(super) fn on_registration_challenge(&mut self, now: Time, number: u16, elements: &Elements) {
        let is_open = self.calls.get(&number).is_some_and(|call| call.state == State::Registering);
        let Some(own) = self.registration.as_ref().filter(|_| is_open) else { return };
        let request = self.request(own.seconds);
        match self.config.password.as_ref().zip(elements.text(Element::CHALLENGE)) {
            Some((password, challenge)) => {
                let answer = md5_result(challenge, password);
                let request = request.with(Element::MD5_RESULT, answer.as_bytes());
                self.send(now, number, (Kind::Iax, iax::REGREQ), request);
            }
            None => self.fail(number, Failure::NoPassword),
        }
    }

    pub(super) fn on_registration_answer(
        &mut self,
        now: Time,
        number: u16,
        is_accepted: bool,
        elements: &Elements,
    ) {
        let is_open = self.calls.get(&number).is_some_and(|call| call.state == State::Registering);
        if !is_open {
            return;
        }
        if !is_accepted {
            let cause = elements.number(Element::CAUSE_CODE).map(|code| code as u8);
            return self.fail(number, Failure::Rejected(cause));
        }
        let seconds = elements.number(Element::REFRESH).map_or(DEFAULT_REFRESH, |seconds| seconds as u16);
        if let Some(own) = &mut self.registration {
            own.refresh = now + Span::from_secs(u64::from(seconds).div_ceil(2).max(1));
        }
        self.remove(number);
        self.events.push_back(Event::Registered(seconds));
    }

    pub(super) fn fail_registration(&mut self, failure: Failure) {
        self.registration = None;
        self.events.push_back(Event::NotRegistered(failure));
    }

    /// Handles REGREQ: challenges the user, or checks the answer.
    pub(super) fn on_registration(&mut self, now: Time, number: u16, elements: &Elements) {
        let user = elements.text(Element::USERNAME).unwrap_or_default().to_owned();
        let state = self.calls.get(&number).map(|call| call.state.clone());
        match state {
            Some(State::Challenged { user: known, challenge, new: None }) if known == user => {
                if self.is_answered(&user, &challenge, elements) {
                    self.bind(now, number, user, elements);
                } else {
                    self.finish(now, number, iax::REGREJ, 29);
                }
            }
            Some(State::Linked) if !self.config.users.is_empty() => {
                let challenge = self.challenge();
                let request = self.challenge_elements(&user, &challenge);
                self.send(now, number, (Kind::Iax, iax::REGAUTH), request);
                self.set_state(number, State::Challenged { user, challenge, new: None });
            }
            _ => self.finish(now, number, iax::REGREJ, 29),
        }
    }

    fn bind(&mut self, now: Time, number: u16, user: String, elements: &Elements) {
        let Some(address) = self.calls.get(&number).map(|call| call.leg.peer) else { return };
        let asked = elements.number(Element::REFRESH).map_or(DEFAULT_REFRESH, |seconds| seconds as u16);
        let seconds = asked.clamp(1, 3600);
        self.registrar.retain(|_, (_, until)| *until > now);
        if self.registrar.len() >= MAX_USERS {
            return self.finish(now, number, iax::REGREJ, 34);
        }
        self.registrar.insert(user.clone(), (address, now + Span::from_secs(seconds.into())));
        let answer = Elements::default()
            .with(Element::USERNAME, user.as_bytes())
            .with(Element::APPARENT_ADDRESS, &apparent(address))
            .with_u16(Element::REFRESH, seconds);
        self.send(now, number, (Kind::Iax, iax::REGACK), answer);
        self.set_state(number, State::Ending);
        self.events.push_back(Event::Bound { user, address });
    }
}

/// Returns an address as Linux's `sockaddr` (RFC 5456 8.6.17).
fn apparent(address: SocketAddr) -> Vec<u8> {
    match address {
        SocketAddr::V4(address) => {
            [&2_u16.to_le_bytes()[..], &address.port().to_be_bytes(), &address.ip().octets(), &[0; 8]]
                .concat()
        }
        SocketAddr::V6(address) => [
            &10_u16.to_le_bytes()[..],
            &address.port().to_be_bytes(),
            &address.flowinfo().to_be_bytes(),
            &address.ip().octets(),
            &address.scope_id().to_le_bytes(),
        ]
        .concat(),
    }
}
