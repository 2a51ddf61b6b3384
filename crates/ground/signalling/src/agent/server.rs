//! Incoming requests of a user agent.

use bentpipe_units::Time;

use super::call::{Call, Incoming, RELIABLE, Unacknowledged, answer_in};
use super::client::key;
use super::{Agent, CallId, Capabilities, Event, Failure, Peer};
use crate::dialog::Dialog;
use crate::digest::{Protected, Refusal};
use crate::response::response;
use crate::sdp::{self, Body, Direction, Negotiated, Session, Unacceptable, body_of};
use crate::sip::{Message, Method, SipUri, Uri, name};
use crate::transaction::{ServerId, host};

/// Media types that an agent understands.
const ACCEPT: &str = "application/sdp, multipart/mixed";

impl Agent {
    pub(super) fn on_request(&mut self, now: Time, server: ServerId, from: Peer, request: &Message) {
        if let Some(refusal) = self.inspect(request) {
            return self.stack.respond(now, server, &refusal);
        }
        let Some(method) = request.method() else { return };
        match method.as_str() {
            "INVITE" if request.tag(name::TO).is_none() && self.is_overloaded(now, from) => {
                self.stack.turn_away(server, request);
            }
            "INVITE" if request.tag(name::TO).is_none() => match self.demand(now, from, request) {
                Some(refusal) => self.stack.respond(now, server, &refusal),
                None => self.on_invite(now, server, from, request),
            },
            "INVITE" => self.on_reinvite(now, server, request),
            "BYE" => self.on_bye(now, server, request),
            "CANCEL" => self.on_cancel(now, server, request),
            "OPTIONS" => self.on_options(now, server, request),
            "REGISTER" if self.registrar.is_some() => self.on_register(now, server, request),
            "PRACK" if self.config.has_extensions => self.on_prack(now, server, from, request),
            "UPDATE" if self.config.has_extensions => self.on_update(now, server, request),
            _ => {
                let mut response = self.response(request, if method.is_known() { 405 } else { 501 });
                response.headers.push(name::ALLOW, self.allow());
                self.stack.respond(now, server, &response);
            }
        }
    }

    /// Returns `true` if a limit leaves no room for a call of a peer.
    ///
    /// Where all room is taken, the oldest call gives way, of the source that has the most: first of callers without proof.
    fn is_overloaded(&mut self, now: Time, from: Peer) -> bool {
        let Some(limits) = self.stack.limits() else { return false };
        let is_crowded = self.unproven.len() >= limits.unproven && !self.stack.is_proven(from);
        // Calls that have ended have room of their own, as their peers may never answer.
        let is_full = self.calls.len() - self.ending.len() >= limits.calls;
        if !is_crowded && !is_full {
            return false;
        }
        let host = from.address.ip();
        match (self.unproven.in_the_way_of(host, 0), self.incoming.in_the_way_of(host, 1)) {
            (Some(call), _) => self.give_way(call),
            (None, Some(call)) if !is_crowded => self.displace(now, call),
            _ => return true,
        }
        false
    }

    /// Ends the oldest call of the source that has the most, and returns it.
    ///
    /// That has more than the source of a call that came in, that found none of the lines free.
    pub fn make_room(&mut self, now: Time, id: CallId) -> Option<CallId> {
        let host = self.calls.get(&id)?.peer.address.ip();
        let other = self.incoming.in_the_way_of(host, 0)?;
        self.displace(now, other);
        Some(other)
    }

    /// Ends a call, and reports it before its BYE is answered.
    fn displace(&mut self, now: Time, id: CallId) {
        self.displaced += 1;
        self.hang_up(now, id);
        if let Some(call) = self.calls.get_mut(&id).filter(|call| !call.is_reported) {
            call.is_reported = true;
            self.events.push_back(ended(id, call));
        }
    }

    /// Notes that this side has ended a call. It no longer counts for its source.
    ///
    /// As many as the limit of calls wait for an answer to their BYE.
    pub(super) fn note_ending(&mut self, id: CallId) {
        let (Some(limits), Some(call)) = (self.stack.limits(), self.calls.get_mut(&id)) else { return };
        if std::mem::take(&mut call.is_counted) {
            self.incoming.remove(call.peer.address.ip(), id);
            self.ending.insert(id);
        }
        if self.ending.len() > limits.calls
            && let Some(oldest) = self.ending.first().copied()
        {
            self.give_way(oldest);
        }
    }

    /// Forgets a call of a caller without proof, or one that has ended. Its ACK or the answer to its BYE may never come.
    ///
    /// Its transactions go with it: for 32 s they would fill the room that the call has left.
    fn give_way(&mut self, id: CallId) {
        let Some(call) = self.calls.get(&id) else { return };
        match (&call.incoming, &call.unacknowledged) {
            (Some(incoming), _) => self.stack.turn_away(incoming.server, &incoming.invite),
            (None, Some(answered)) => drop(self.stack.forget(answered.server)),
            (None, None) => {}
        }
        if let Some(bye) = call.bye {
            self.clients.remove(&bye);
            self.stack.drop_client(bye);
        }
        let event = ended(id, call);
        self.end(id, event);
    }

    /// Returns the refusal of a request that this agent cannot process (RFC 3261 8.2).
    fn inspect(&mut self, request: &Message) -> Option<Message> {
        let method = request.method()?;
        let mut required = request.headers.list(name::REQUIRE);
        if self.config.has_extensions && method == Method::INVITE {
            required.retain(|option| !option.eq_ignore_ascii_case(RELIABLE));
        }
        let has_session = [Method::INVITE, Method::UPDATE, Method::PRACK].contains(&method);
        // A sips URI asks for TLS on all hops (RFC 3261 26.2.2), which this agent does not have.
        let is_sip = matches!(request.uri(), Some(Uri::Sip(uri)) if !uri.secure);
        let status = match () {
            () if method.is_known() && !is_sip => 416,
            () if method != Method::CANCEL && !required.is_empty() => 420,
            () if has_session && body_of(request) == Body::Other => 415,
            () if method == Method::INVITE && !accepts_description(request) => 406,
            () => return None,
        };
        let mut response = self.response(request, status);
        match status {
            420 => response.headers.push(name::UNSUPPORTED, required.join(", ")),
            415 => response.headers.push(name::ACCEPT, ACCEPT),
            _ => {}
        }
        Some(response)
    }

    /// Returns the answer to a caller without valid credentials, or in another's name.
    fn demand(&mut self, now: Time, from: Peer, invite: &Message) -> Option<Message> {
        let gate = self.gate.as_mut().filter(|gate| !gate.trusted.contains(&from.address.ip()))?;
        let uri = invite.uri().map(ToString::to_string).unwrap_or_default();
        let protected = Protected { method: "INVITE", uri: &uri, body: &invite.body };
        let caller = invite.headers.address(name::FROM);
        let caller = caller.and_then(|caller| caller.uri.as_sip().and_then(SipUri::user_bytes));
        match gate.guard.admit(now, invite.headers.all(name::AUTHORIZATION), protected) {
            Ok(user) if caller.is_some_and(|caller| caller == user.as_bytes()) => None,
            Ok(_) | Err(Refusal::Forbidden) => Some(self.response(invite, 403)),
            Err(Refusal::Challenge(challenge)) => {
                let mut refusal = self.response(invite, 401);
                refusal.headers.push(name::WWW_AUTHENTICATE, challenge);
                Some(refusal)
            }
        }
    }

    /// Returns a response with a tag in To.
    fn response(&mut self, request: &Message, status: u16) -> Message {
        let tag = self.stack.unique();
        response(request, status, &tag)
    }

    pub(super) fn refuse(&mut self, now: Time, server: ServerId, request: &Message, status: u16) {
        let response = self.response(request, status);
        self.stack.respond(now, server, &response);
    }

    /// Refuses an offer with 500 until another transaction is over.
    ///
    /// See RFC 3261 14.2 and RFC 3311 5.2.
    pub(super) fn refuse_for_now(&mut self, now: Time, server: ServerId, request: &Message) {
        let mut response = self.response(request, 500);
        response.headers.push(name::RETRY_AFTER, self.stack.uniform(10.0) as u32);
        self.stack.respond(now, server, &response);
    }

    /// Refuses an offer of a later request with 488, and the reason.
    pub(super) fn refuse_offer(
        &mut self,
        now: Time,
        server: ServerId,
        request: &Message,
        reason: Unacceptable,
    ) {
        let mut response = self.response(request, 488);
        warn(&mut response, reason, &host(self.config.local));
        self.stack.respond(now, server, &response);
    }

    fn on_register(&mut self, now: Time, server: ServerId, request: &Message) {
        let tag = self.stack.unique();
        if let Some(registrar) = &mut self.registrar {
            let response = registrar.register(now, request, &tag);
            self.stack.respond(now, server, &response);
        }
    }

    fn on_options(&mut self, now: Time, server: ServerId, request: &Message) {
        let mut response = self.response(request, 200);
        response.headers.push(name::ALLOW, self.allow());
        response.headers.push(name::ACCEPT, ACCEPT);
        if self.config.has_extensions {
            response.headers.push(name::SUPPORTED, RELIABLE);
        }
        self.stack.respond(now, server, &response);
    }

    fn on_invite(&mut self, now: Time, server: ServerId, from: Peer, invite: &Message) {
        let offer = match offer_of(invite) {
            Ok(offer) => offer,
            Err(()) => return self.refuse(now, server, invite, 400),
        };
        let identity = (invite.call_id(), invite.tag(name::FROM), invite.cseq());
        let (Some(call_id), remote_tag, Some(cseq)) = identity else { return };
        let merge_key = format!("{call_id} {} {}", remote_tag.unwrap_or_default(), cseq.number);
        if self.merged.contains_key(&merge_key) {
            return self.refuse(now, server, invite, 482);
        }
        if self.calls.len() >= self.config.max_calls {
            return self.refuse(now, server, invite, 486);
        }
        let local_tag = self.stack.unique();
        let Some(dialog) = Dialog::of_callee(invite, &local_tag) else { return };
        let (caller, to) = (dialog.remote.clone(), invite.uri().cloned());
        let call = self.add(key(call_id, &local_tag), local_tag, from, no_capabilities());
        if let Some(state) = self.calls.get_mut(&call) {
            state.dialog = Some(dialog);
            state.merge_key = Some(merge_key.clone());
            state.is_unproven = !self.stack.is_proven(from);
            if state.is_unproven {
                self.unproven.insert(from.address.ip(), call);
            }
            state.is_counted = self.stack.limits().is_some();
            if state.is_counted {
                self.incoming.insert(from.address.ip(), call);
            }
            state.incoming = Some(Incoming::new(server, invite.clone(), offer));
        }
        self.merged.insert(merge_key, call);
        self.by_server.insert(server, call);
        self.events.extend(to.map(|to| Event::Incoming { call, from: caller, to }));
    }

    /// Answers an incoming call. It is refused with 488 if no codec is in common.
    pub fn answer(&mut self, now: Time, id: CallId, capabilities: Capabilities) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(mut incoming) = call.incoming.take() else { return };
        if incoming.answered.is_none() {
            call.capabilities = capabilities;
        }
        // The answer waits for PRACK of what was sent before it (RFC 3262 3).
        if incoming.reliable.as_ref().is_some_and(|reliable| !reliable.is_acknowledged) {
            incoming.waits_for_prack = true;
            call.incoming = Some(incoming);
            return;
        }
        match self.accept(now, id, &incoming) {
            Ok(media) => {
                if let Some(call) = self.calls.get_mut(&id) {
                    (call.media, call.is_up) = (media, true);
                }
                self.by_server.remove(&incoming.server);
            }
            Err(reason) => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.incoming = Some(incoming);
                }
                self.refuse_media(now, id, reason);
            }
        }
    }

    /// Sends the 2xx of an INVITE or re-INVITE, and repeats it until its ACK comes.
    fn accept(
        &mut self,
        now: Time,
        id: CallId,
        incoming: &Incoming,
    ) -> Result<Option<Negotiated>, Unacceptable> {
        let (contact, t1, give_up) = (self.contact(), self.stack.timers().t1, self.stack.timers().give_up());
        let allow = self.allow();
        let Some(call) = self.calls.get_mut(&id) else { return Ok(None) };
        let (description, media) = match (&incoming.answered, &incoming.offer) {
            // What a provisional response has is the answer (RFC 3261 13.2.1). An UPDATE may have changed it since.
            (Some((answer, media)), _) => (answer.clone(), call.media.clone().or(Some(media.clone()))),
            (None, Some(offer)) => {
                let version = call.next_version();
                let (answer, media) = sdp::answer(offer, &call.capabilities, call.session, version)?;
                (answer, Some(media))
            }
            (None, None) => {
                let version = call.next_version();
                (sdp::offer(&call.capabilities, call.session, version), None)
            }
        };
        let mut ok = response(&incoming.invite, 200, &call.local_tag);
        copy_record_route(&incoming.invite, &mut ok);
        ok.headers.push(name::CONTACT, contact);
        ok.headers.push(name::ALLOW, allow);
        if !incoming.is_answered_reliably() {
            ok.set_body(sdp::CONTENT_TYPE, description.emit());
        }
        self.stack.respond(now, incoming.server, &ok);
        let is_first = !call.is_up;
        call.unacknowledged = Some(Unacknowledged {
            server: incoming.server,
            response: ok,
            number: incoming.invite.cseq().map_or(0, |cseq| cseq.number),
            offer: incoming.offer.is_none().then_some(description),
            interval: t1,
            next: now + t1,
            until: now + give_up,
            is_first,
        });
        self.agenda.add(call.deadline(), id);
        Ok(media)
    }

    /// Refuses an incoming call.
    pub fn reject(&mut self, now: Time, id: CallId, status: u16) {
        self.refuse_incoming(now, id, status, Failure::Status(status));
    }

    pub(super) fn refuse_incoming(&mut self, now: Time, id: CallId, status: u16, failure: Failure) {
        self.refuse_call(now, id, status, (failure, None));
    }

    /// Refuses an incoming call whose offer cannot be accepted, with the reason.
    pub(super) fn refuse_media(&mut self, now: Time, id: CallId, reason: Unacceptable) {
        let failure = if reason == Unacceptable::Encrypted { Failure::Encrypted } else { Failure::NoCodec };
        self.refuse_call(now, id, 488, (failure, Some(reason)));
    }

    fn refuse_call(
        &mut self,
        now: Time,
        id: CallId,
        status: u16,
        (failure, reason): (Failure, Option<Unacceptable>),
    ) {
        let host = host(self.config.local);
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(incoming) = call.incoming.take() else { return };
        let mut refusal = response(&incoming.invite, status.max(300), &call.local_tag);
        if let Some(reason) = reason {
            warn(&mut refusal, reason, &host);
        }
        self.by_server.remove(&incoming.server);
        self.stack.respond(now, incoming.server, &refusal);
        self.end(id, Event::Failed { call: id, failure });
    }

    /// Returns the call that a request belongs to.
    fn call_of(&self, request: &Message) -> Option<CallId> {
        let (call_id, tag) = (request.call_id()?, request.tag(name::TO)?);
        self.by_dialog.get(&key(call_id, &tag)).copied()
    }

    /// Returns the call of a request, if its number is in order; else refuses it.
    pub(super) fn in_order(&mut self, now: Time, server: ServerId, request: &Message) -> Option<CallId> {
        let Some(id) = self.call_of(request) else {
            self.refuse(now, server, request, 481);
            return None;
        };
        let tag = request.tag(name::FROM);
        let dialog = self.calls.get_mut(&id).and_then(|call| call.dialog_with(tag.as_deref()));
        let status = match dialog.map(|dialog| dialog.accepts(request)) {
            Some(true) => return Some(id),
            Some(false) => 500,
            None => 481,
        };
        self.refuse(now, server, request, status);
        None
    }

    fn on_reinvite(&mut self, now: Time, server: ServerId, invite: &Message) {
        let Some(id) = self.in_order(now, server, invite) else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        if call.outgoing.is_some() {
            return self.refuse(now, server, invite, 491);
        }
        if call.incoming.is_some() || call.unacknowledged.is_some() || call.is_ending {
            return self.refuse_for_now(now, server, invite);
        }
        let Ok(offer) = offer_of(invite) else { return self.refuse(now, server, invite, 400) };
        if let Some(dialog) = &mut call.dialog {
            dialog.refresh(invite);
        }
        let incoming = Incoming::new(server, invite.clone(), offer);
        match self.accept(now, id, &incoming) {
            Ok(Some(media)) => {
                if let Some(call) = self.calls.get_mut(&id) {
                    call.media = Some(media.clone());
                }
                self.events.push_back(Event::Changed { call: id, media });
            }
            Ok(None) => {}
            Err(reason) => self.refuse_offer(now, server, invite, reason),
        }
    }

    fn on_bye(&mut self, now: Time, server: ServerId, bye: &Message) {
        let Some(id) = self.in_order(now, server, bye) else { return };
        // A callee ends no call before its answer (RFC 3261 15).
        let status = if self.calls.get(&id).is_some_and(|call| call.dialog.is_some()) { 200 } else { 481 };
        self.refuse(now, server, bye, status);
        let Some(call) = self.calls.get_mut(&id).filter(|_| status == 200) else { return };
        if let Some(incoming) = call.incoming.take() {
            let terminated = response(&incoming.invite, 487, &call.local_tag);
            self.stack.respond(now, incoming.server, &terminated);
        }
        self.end(id, Event::Ended { call: id, by_peer: true });
    }

    fn on_cancel(&mut self, now: Time, server: ServerId, cancel: &Message) {
        let Some(invite) = self.stack.cancelled(cancel) else {
            return self.refuse(now, server, cancel, 481);
        };
        self.refuse(now, server, cancel, 200);
        if let Some(call) = self.by_server.get(&invite).copied() {
            self.refuse_incoming(now, call, 487, Failure::Cancelled);
        }
    }

    pub(super) fn on_ack(&mut self, now: Time, from: Peer, ack: &Message) {
        let Some(id) = self.call_of(ack) else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        let number = ack.cseq().map(|cseq| cseq.number);
        let Some(waiting) = call.unacknowledged.take_if(|waiting| Some(waiting.number) == number) else {
            return;
        };
        self.stack.note_acknowledged(waiting.server);
        if let Some(offer) = &waiting.offer {
            let before = call.media.take().filter(|_| !waiting.is_first);
            call.media = answer_in(offer, ack).or(before);
        }
        let (media, is_ending) = (call.media.clone(), call.is_ending);
        match media {
            media if waiting.is_first => self.events.push_back(Event::Confirmed { call: id, media }),
            Some(media) if waiting.offer.is_some() => {
                self.events.push_back(Event::Changed { call: id, media })
            }
            _ => {}
        }
        self.prove(id, from);
        if is_ending {
            self.send_bye(now, id);
        }
    }

    /// Notes the host that acknowledged a message of this side.
    pub(super) fn prove(&mut self, id: CallId, from: Peer) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        // The tag of this side went to the peer of the INVITE alone.
        self.stack.prove(call.peer);
        call.proven = Some(from.address.ip());
        if std::mem::take(&mut call.is_unproven) {
            self.unproven.remove(call.peer.address.ip(), id);
        }
    }

    /// Repeats a response, gives it up, or sends a re-INVITE again.
    pub(super) fn call_timer(&mut self, now: Time, id: CallId) {
        let t2 = self.stack.timers().t2;
        let Some(call) = self.calls.get_mut(&id) else { return };
        if call.retry <= now {
            call.retry = Time::NEVER;
            let direction = call.capabilities.direction;
            self.reinvite(now, id, direction);
        }
        let Some(call) = self.calls.get_mut(&id) else { return };
        match &mut call.unacknowledged {
            Some(waiting) if waiting.until <= now => return self.give_up(now, id),
            Some(waiting) if waiting.next <= now => {
                self.stack.repeat_response(now, waiting.server, &waiting.response);
                waiting.interval = (waiting.interval * 2).min(t2);
                waiting.next = now + waiting.interval;
            }
            _ => {}
        }
        self.agenda.add(call.deadline(), id);
        self.provisional_timer(now, id);
    }

    /// Ends a call whose 2xx was not acknowledged (RFC 3261 13.3.1.4).
    fn give_up(&mut self, now: Time, id: CallId) {
        let mut is_proven = true;
        if let Some(call) = self.calls.get_mut(&id) {
            call.unacknowledged = None;
            call.is_ending = true;
            is_proven = self.stack.is_proven(call.peer);
        }
        // A BYE and its repeats would go to a host that may never have called.
        if is_proven {
            self.send_bye(now, id);
        }
        self.end(id, Event::Failed { call: id, failure: Failure::NotAcknowledged });
    }
}

/// Returns the report of a call that ends for another's sake.
fn ended(call: CallId, state: &Call) -> Event {
    match state.unacknowledged.is_some() || state.incoming.is_some() {
        true => Event::Failed { call, failure: Failure::NotAcknowledged },
        false => Event::Ended { call, by_peer: false },
    }
}

pub(super) fn copy_record_route(request: &Message, response: &mut Message) {
    for route in request.headers.all(name::RECORD_ROUTE) {
        response.headers.push(name::RECORD_ROUTE, route);
    }
}

/// Returns `true` if the sender accepts session descriptions.
fn accepts_description(invite: &Message) -> bool {
    let kinds = invite.headers.list(name::ACCEPT);
    invite.headers.get(name::ACCEPT).is_none() || kinds.iter().any(|kind| sdp::is_accepted(kind))
}

/// Adds the reason of a refusal (RFC 3261 20.43).
fn warn(refusal: &mut Message, reason: Unacceptable, host: &str) {
    let (code, text) = match reason {
        Unacceptable::Encrypted => (302, "SRTP is not supported, offer RTP/AVP"),
        Unacceptable::NoCodec => (305, "No codec in common"),
        Unacceptable::Mismatch => (399, "Streams in another order than before"),
    };
    refusal.headers.push(name::WARNING, format!("{code} {host} \"{text}\""));
}

/// Returns the offer of a request, if it has one.
pub(super) fn offer_of(request: &Message) -> Result<Option<Session>, ()> {
    match body_of(request) {
        Body::Empty => Ok(None),
        Body::Description(bytes) => Session::parse(bytes).map(Some).map_err(|_| ()),
        Body::Other => Err(()),
    }
}

/// Returns the capabilities of a call that is not answered yet.
fn no_capabilities() -> Capabilities {
    Capabilities {
        address: [0, 0, 0, 0].into(),
        port: 0,
        codecs: vec![],
        ptime: 20,
        direction: Direction::Inactive,
    }
}
