//! Calls before their answer: provisional responses, PRACK (RFC 3262) and UPDATE (RFC 3311).

use bentpipe_units::Time;

use super::call::{Call, Early, Incoming, MAX_BRANCHES, RELIABLE, Reliable, answer_in};
use super::server::{copy_record_route, offer_of};
use super::{Agent, CallId, Capabilities, Event, Failure, Peer, Purpose};
use crate::dialog::Dialog;
use crate::response::response;
use crate::sdp;
use crate::sip::{Message, Method, name};
use crate::transaction::ServerId;

impl Incoming {
    /// Returns `true` if PRACK has come for the answer.
    pub(super) fn is_answered_reliably(&self) -> bool {
        self.answered.is_some() && self.reliable.as_ref().is_some_and(|reliable| reliable.is_acknowledged)
    }

    fn has_option(&self, field: &str) -> bool {
        self.invite.headers.list(field).iter().any(|option| option.eq_ignore_ascii_case(RELIABLE))
    }
}

impl Agent {
    /// Sends 180 Ringing for an incoming call.
    pub fn ring(&mut self, now: Time, id: CallId) {
        let is_reliable = self.asks_for(id, name::REQUIRE);
        self.provide(now, id, 180, is_reliable);
    }

    /// Answers the offer of an incoming call in 183 Session Progress: early media.
    ///
    /// The response is reliable if the caller knows such ones. A call without an offer rings instead. One without a codec in common is
    /// refused with 488.
    pub fn progress(&mut self, now: Time, id: CallId, capabilities: Capabilities) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(offer) = call.incoming.as_ref().and_then(|incoming| incoming.offer.clone()) else {
            return self.ring(now, id);
        };
        let version = call.next_version();
        match sdp::answer(&offer, &capabilities, call.session, version) {
            Err(reason) => self.refuse_media(now, id, reason),
            Ok((answer, media)) => {
                (call.capabilities, call.media) = (capabilities, Some(media.clone()));
                call.incoming.iter_mut().for_each(|of| of.answered = Some((answer.clone(), media.clone())));
                let is_reliable = self.asks_for(id, name::REQUIRE) || self.asks_for(id, name::SUPPORTED);
                self.provide(now, id, 183, is_reliable);
            }
        }
    }

    /// Returns `true` if the caller asks for reliable responses, or supports them.
    fn asks_for(&self, id: CallId, field: &str) -> bool {
        let incoming = self.calls.get(&id).and_then(|call| call.incoming.as_ref());
        self.config.has_extensions && incoming.is_some_and(|incoming| incoming.has_option(field))
    }

    /// Sends a provisional response, with the answer if there is one.
    fn provide(&mut self, now: Time, id: CallId, status: u16, is_reliable: bool) {
        let (contact, allow, t1) = (self.contact(), self.allow(), self.stack.timers().t1);
        let (give_up, drawn) = (self.stack.timers().give_up(), self.stack_number(is_reliable));
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(incoming) = &mut call.incoming else { return };
        let mut provisional = response(&incoming.invite, status, &call.local_tag);
        copy_record_route(&incoming.invite, &mut provisional);
        provisional.headers.push(name::CONTACT, contact);
        if let Some((answer, _)) = incoming.answered.as_ref().filter(|_| status == 183) {
            provisional.headers.push(name::ALLOW, allow);
            provisional.set_body(sdp::CONTENT_TYPE, answer.emit());
        }
        // One at a time: each waits for the PRACK of that before.
        let number = drawn.filter(|_| incoming.reliable.is_none());
        if let Some(number) = number {
            provisional.headers.push(name::REQUIRE, RELIABLE);
            provisional.headers.push(name::RSEQ, number);
        }
        self.stack.respond(now, incoming.server, &provisional);
        if let Some(number) = number {
            incoming.reliable = Some(Reliable {
                response: provisional,
                number,
                interval: t1,
                next: now + t1,
                until: now + give_up,
                is_acknowledged: false,
            });
            self.agenda.add(call.deadline(), id);
        }
    }

    /// Returns the number of a reliable response (RFC 3262 3).
    fn stack_number(&mut self, is_reliable: bool) -> Option<u32> {
        is_reliable.then(|| 1 + self.stack.uniform(f64::from((1_u32 << 31) - 2)) as u32)
    }

    /// Sends a reliable provisional response again, or gives the call up.
    pub(super) fn provisional_timer(&mut self, now: Time, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(incoming) = &mut call.incoming else { return };
        let Some(reliable) = incoming.reliable.as_mut().filter(|reliable| !reliable.is_acknowledged) else {
            return;
        };
        if reliable.until <= now {
            return self.refuse_incoming(now, id, 504, Failure::NoPrack);
        }
        if reliable.next <= now {
            self.stack.repeat_response(now, incoming.server, &reliable.response);
            reliable.interval = reliable.interval * 2;
            reliable.next = now + reliable.interval;
        }
        self.agenda.add(call.deadline(), id);
    }

    /// Handles the acknowledgement of a reliable provisional response.
    pub(super) fn on_prack(&mut self, now: Time, server: ServerId, from: Peer, prack: &Message) {
        let Some(id) = self.in_order(now, server, prack) else { return };
        let Ok(offer) = offer_of(prack) else { return self.refuse(now, server, prack, 400) };
        let Some(incoming) = self.calls.get_mut(&id).and_then(|call| call.incoming.as_mut()) else {
            return self.refuse(now, server, prack, 481);
        };
        let invite = incoming.invite.cseq().map_or(0, |cseq| cseq.number);
        let rack = prack.headers.get(name::RACK).map(|rack| rack.split_ascii_whitespace().collect());
        let is_of = |reliable: &Reliable| {
            let expected = [reliable.number.to_string(), invite.to_string(), "INVITE".to_owned()];
            rack.as_ref().is_some_and(|rack: &Vec<&str>| expected.iter().eq(rack.iter()))
        };
        let reliable = incoming.reliable.as_mut().filter(|reliable| !reliable.is_acknowledged);
        let Some(reliable) = reliable.filter(|reliable| is_of(reliable)) else {
            return self.refuse(now, server, prack, 481);
        };
        reliable.is_acknowledged = true;
        let waits_for_prack = std::mem::take(&mut incoming.waits_for_prack);
        let early = incoming.answered.as_ref().map(|(_, media)| media.clone());
        match offer {
            Some(offer) => self.answer_offer(now, id, server, (prack, &offer)),
            None => self.refuse(now, server, prack, 200),
        }
        self.prove(id, from);
        let Some(call) = self.calls.get(&id) else { return };
        if let Some(media) = call.media.clone().or(early) {
            self.events.push_back(Event::Early { call: id, media });
        }
        let capabilities = call.capabilities.clone();
        if waits_for_prack {
            self.answer(now, id, capabilities);
        }
    }

    /// Handles UPDATE: an offer within a dialog, established or early, or none.
    pub(super) fn on_update(&mut self, now: Time, server: ServerId, update: &Message) {
        let Some(id) = self.in_order(now, server, update) else { return };
        let Ok(offer) = offer_of(update) else { return self.refuse(now, server, update, 400) };
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let Some(dialog) = call.dialog_with(update.tag(name::FROM).as_deref()) {
            dialog.refresh(update);
        }
        match (&offer, call.offer_in_flight()) {
            (None, _) => {}
            (Some(_), Some(500)) => return self.refuse_for_now(now, server, update),
            (Some(_), Some(status)) => return self.refuse(now, server, update, status),
            (Some(offer), None) => return self.answer_offer(now, id, server, (update, offer)),
        }
        let mut ok = self.in_dialog(id, update);
        ok.headers.push(name::CONTACT, self.contact());
        self.stack.respond(now, server, &ok);
    }

    /// Returns the 200 to a request within a dialog.
    fn in_dialog(&self, id: CallId, request: &Message) -> Message {
        let tag = self.calls.get(&id).map_or("", |call| &call.local_tag);
        response(request, 200, tag)
    }

    /// Answers the offer of a request other than INVITE, which takes effect at once.
    fn answer_offer(
        &mut self,
        now: Time,
        id: CallId,
        server: ServerId,
        (request, offer): (&Message, &sdp::Session),
    ) {
        let mut ok = self.in_dialog(id, request);
        ok.headers.push(name::CONTACT, self.contact());
        let Some(call) = self.calls.get_mut(&id) else { return };
        let version = call.next_version();
        match sdp::answer(offer, &call.capabilities, call.session, version) {
            Err(reason) => self.refuse_offer(now, server, request, reason),
            Ok((answer, media)) => {
                call.media = Some(media.clone());
                call.outgoing.iter_mut().for_each(|outgoing| outgoing.answered = Some(media.clone()));
                ok.set_body(sdp::CONTENT_TYPE, answer.emit());
                self.stack.respond(now, server, &ok);
                self.events.push_back(Event::Changed { call: id, media });
            }
        }
    }

    /// Handles a provisional response: ringing, early media, and the need of a PRACK.
    pub(super) fn on_provisional(&mut self, now: Time, id: CallId, response: &Message, status: u16) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(outgoing) = &mut call.outgoing else { return };
        let is_first = !std::mem::replace(&mut outgoing.is_provisional, true);
        if is_first {
            self.cancel_if_possible(now, id);
        }
        let Some(call) = self.calls.get_mut(&id).filter(|_| status > 100) else { return };
        if self.config.has_extensions && !call.acknowledge(response) {
            return;
        }
        if !call.is_up {
            self.events.push_back(Event::Progress { call: id, status });
        }
        self.send_prack(now, id, response);
        let Some(call) = self.calls.get_mut(&id).filter(|call| !call.is_up) else { return };
        let Some(outgoing) = call.outgoing.as_mut().filter(|outgoing| !outgoing.is_cancelled) else { return };
        let answered = answer_in(&outgoing.offer, response);
        if let Some(media) = answered.filter(|media| outgoing.answered.as_ref() != Some(media)) {
            (outgoing.answered, call.media) = (Some(media.clone()), Some(media.clone()));
            self.events.push_back(Event::Early { call: id, media });
        }
    }

    /// Sends the PRACK of a reliable response.
    fn send_prack(&mut self, now: Time, id: CallId, response: &Message) {
        let (Some(number), Some(tag)) = (reliable_number(response), response.tag(name::TO)) else { return };
        let Some(call) = self.calls.get_mut(&id).filter(|_| self.config.has_extensions) else { return };
        let to_invite = call.outgoing.as_ref().and_then(|outgoing| outgoing.invite.cseq());
        let peer = call.peer;
        let (Some(invite), Some(dialog)) = (to_invite, call.dialog_with(Some(&tag))) else { return };
        let mut prack = dialog.request(Method::PRACK);
        prack.headers.push(name::RACK, format!("{number} {} INVITE", invite.number));
        let to = super::peer_of(dialog.next_hop()).unwrap_or(peer);
        let client = self.stack.request(now, prack, to);
        self.clients.insert(client, Purpose::Other);
    }
}

impl Call {
    /// Returns the refusal of an offer while another has no answer (RFC 3311 5.2).
    fn offer_in_flight(&self) -> Option<u16> {
        let own = self.outgoing.as_ref().is_some_and(|outgoing| outgoing.answered.is_none());
        let own = own || self.unacknowledged.as_ref().is_some_and(|waiting| waiting.offer.is_some());
        let theirs = self.incoming.as_ref().is_some_and(|incoming| !incoming.is_answered_reliably());
        match (own, theirs) {
            (true, _) => Some(491),
            (false, true) => Some(500),
            (false, false) => None,
        }
    }

    /// Returns `true` for an unreliable response, or the next reliable one of its branch.
    fn acknowledge(&mut self, response: &Message) -> bool {
        let Some(tag) = response.tag(name::TO).filter(|_| self.dialog.is_none()) else { return true };
        let number = reliable_number(response);
        let invite = self.outgoing.as_ref().map(|outgoing| &outgoing.invite);
        let has_room = self.early.len() < MAX_BRANCHES;
        match self.early.iter_mut().find(|early| early.dialog.remote.tag() == Some(&tag)) {
            Some(early) => {
                let is_next = |last: u32, number: u32| number == last.wrapping_add(1);
                let is_new = early.number.zip(number).is_none_or(|(last, number)| is_next(last, number));
                if is_new {
                    early.number = number.or(early.number);
                    early.dialog.refresh(response);
                }
                is_new
            }
            None if has_room => {
                let dialog = invite.and_then(|invite| Dialog::of_caller(invite, response));
                self.early.extend(dialog.map(|dialog| Early { dialog, number }));
                true
            }
            None => false,
        }
    }
}

/// Returns RSeq of a reliable provisional response.
fn reliable_number(response: &Message) -> Option<u32> {
    let is_reliable =
        response.headers.list(name::REQUIRE).iter().any(|option| option.eq_ignore_ascii_case(RELIABLE));
    response.headers.get(name::RSEQ).filter(|_| is_reliable)?.trim().parse().ok()
}
