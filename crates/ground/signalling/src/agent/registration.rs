//! Registration of the agent's contact (RFC 3261 10.2).

use bentpipe_units::{Span, Time};

use super::{Agent, Event, Failure, Peer, Purpose};
use crate::sip::{CSeq, Message, Method, SipUri, name};

#[derive(Debug)]
pub(super) struct Registration {
    peer: Peer,
    domain: String,
    call_id: String,
    tag: String,
    number: u32,
    expires: u32,
    request: Option<Message>,
    has_credentials: bool,
    pub(super) refresh: Time,
}

impl Agent {
    /// Registers the contact for a number of seconds, and renews it. 0 removes it.
    pub fn register(&mut self, now: Time, domain: &str, peer: Peer, expires: u32) {
        let (call_id, tag) = (self.stack.unique(), self.stack.unique());
        let old = self.registration.take();
        let (call_id, tag, number) = old.map_or((call_id, tag, 0), |old| (old.call_id, old.tag, old.number));
        self.registration = Some(Registration {
            peer,
            domain: domain.to_owned(),
            call_id,
            tag,
            number,
            expires,
            request: None,
            has_credentials: false,
            refresh: Time::NEVER,
        });
        self.send_register(now);
    }

    fn send_register(&mut self, now: Time) {
        let contact = self.contact();
        let user = self.config.user.clone();
        let Some(registration) = &mut self.registration else { return };
        registration.number += 1;
        let registrar = SipUri::new(None, &registration.domain);
        let address = crate::sip::NameAddr::new(SipUri::new(Some(&user), &registration.domain).into());
        let mut request = Message::request(Method::REGISTER, registrar.into());
        request.headers.push(name::MAX_FORWARDS, 70);
        request.headers.push(name::FROM, address.clone().with_tag(&registration.tag));
        request.headers.push(name::TO, address);
        request.headers.push(name::CALL_ID, &registration.call_id);
        request.headers.push(name::CSEQ, CSeq { number: registration.number, method: Method::REGISTER });
        request.headers.push(name::CONTACT, contact);
        request.headers.push(name::EXPIRES, registration.expires);
        (registration.request, registration.refresh, registration.has_credentials) =
            (Some(request.clone()), Time::NEVER, false);
        let client = self.stack.request(now, request, registration.peer);
        self.clients.insert(client, Purpose::Register);
    }

    pub(super) fn on_register_response(&mut self, now: Time, response: &Message) {
        let status = response.status().unwrap_or_default();
        let minimum = response.headers.get(name::MIN_EXPIRES).and_then(|text| text.parse().ok());
        let Some(registration) = &mut self.registration else { return };
        match (status, minimum) {
            (200..=299, _) => self.note_registered(now, response),
            (401 | 407, _) if !registration.has_credentials => self.register_with_credentials(now, response),
            (423, Some(minimum)) if minimum > registration.expires => {
                registration.expires = minimum;
                self.send_register(now);
            }
            _ => self.fail_registration(Failure::Status(status)),
        }
    }

    fn note_registered(&mut self, now: Time, response: &Message) {
        let contact = self.contact();
        let Some(registration) = &mut self.registration else { return };
        let contacts = response.headers.addresses(name::CONTACT).unwrap_or_default();
        let own = contacts.iter().find(|other| other.uri.is_equivalent(&contact.uri));
        let granted = own.and_then(|own| own.params.get("expires")).or(response.headers.get(name::EXPIRES));
        let granted = granted.and_then(|text| text.parse().ok()).unwrap_or(registration.expires);
        // Renewed at half of the time, so that one failure does no harm.
        registration.refresh =
            if granted == 0 { Time::NEVER } else { now + Span::from_secs(u64::from(granted).div_ceil(2)) };
        registration.request = None;
        self.events.push_back(Event::Registered(granted));
    }

    fn register_with_credentials(&mut self, now: Time, response: &Message) {
        let request = self.registration.as_mut().and_then(|registration| registration.request.take());
        let Some(mut request) = request else { return };
        if !self.authorise(&mut request, response) {
            return self.fail_registration(Failure::Status(response.status().unwrap_or_default()));
        }
        let Some(registration) = &mut self.registration else { return };
        registration.number += 1;
        registration.has_credentials = true;
        request.headers.set(name::CSEQ, CSeq { number: registration.number, method: Method::REGISTER });
        let client = self.stack.request(now, request, registration.peer);
        self.clients.insert(client, Purpose::Register);
    }

    pub(super) fn fail_registration(&mut self, failure: Failure) {
        if self.registration.take().is_some() {
            self.events.push_back(Event::NotRegistered(failure));
        }
    }

    pub(super) fn registration_timer(&mut self, now: Time) {
        let is_due = self.registration.as_ref().is_some_and(|registration| registration.refresh <= now);
        if is_due {
            self.send_register(now);
        }
    }
}
