//! Outgoing requests of a user agent.

use bentpipe_units::{Span, Time};

use super::call::{Acknowledged, Call, Early, MAX_BRANCHES, Outgoing, RELIABLE, answer_in};
use super::{Agent, CallId, Capabilities, Event, Failure, Peer, Purpose, peer_of};
use crate::dialog::Dialog;
use crate::sdp::{self, Direction, Session};
use crate::sip::{CSeq, Message, Method, NameAddr, Uri, name};

impl Agent {
    /// Calls a URI by way of a peer: a proxy, or the callee itself. `None` if there are too many calls.
    pub fn call(
        &mut self,
        now: Time,
        target: &Uri,
        peer: Peer,
        capabilities: Capabilities,
    ) -> Option<CallId> {
        let user = self.config.user.clone();
        self.call_as(now, &user, (target, peer), capabilities)
    }

    /// Calls a URI by way of a peer, in the name of another user. `None` if there are too many calls.
    pub fn call_as(
        &mut self,
        now: Time,
        user: &str,
        (target, peer): (&Uri, Peer),
        capabilities: Capabilities,
    ) -> Option<CallId> {
        if self.calls.len() >= self.config.max_calls {
            return None;
        }
        let (local_tag, call_id) = (self.stack.unique(), self.stack.unique());
        let mut invite = Message::request(Method::INVITE, target.clone());
        invite.headers.push(name::MAX_FORWARDS, 70);
        invite.headers.push(name::FROM, self.address(user).with_tag(&local_tag));
        invite.headers.push(name::TO, NameAddr::new(target.clone()));
        invite.headers.push(name::CALL_ID, &call_id);
        invite.headers.push(name::CSEQ, CSeq { number: 1, method: Method::INVITE });
        let call = self.add(key(&call_id, &local_tag), local_tag, peer, capabilities);
        self.send_invite(now, call, invite);
        Some(call)
    }

    /// Adds a call without transactions.
    pub(super) fn add(
        &mut self,
        key: String,
        local_tag: String,
        peer: Peer,
        capabilities: Capabilities,
    ) -> CallId {
        self.next += 1;
        let (call, session) = (CallId(self.next), self.next);
        self.by_dialog.insert(key.clone(), call);
        self.calls.insert(
            call,
            Call {
                key,
                merge_key: None,
                local_tag,
                peer,
                dialog: None,
                early: vec![],
                proven: None,
                outgoing: None,
                incoming: None,
                unacknowledged: None,
                acknowledged: vec![],
                capabilities,
                media: None,
                session,
                version: 0,
                is_up: false,
                is_unproven: false,
                is_counted: false,
                is_ending: false,
                is_reported: false,
                client: None,
                bye: None,
                has_bye_credentials: false,
                retry: Time::NEVER,
            },
        );
        call
    }

    /// Adds Contact and an offer to an INVITE and sends it.
    fn send_invite(&mut self, now: Time, id: CallId, mut invite: Message) {
        let (contact, allow) = (self.contact(), self.allow());
        let Some(call) = self.calls.get_mut(&id) else { return };
        let version = call.next_version();
        let offer = sdp::offer(&call.capabilities, call.session, version);
        invite.headers.push(name::CONTACT, contact);
        invite.headers.push(name::ALLOW, allow);
        if self.config.has_extensions {
            invite.headers.push(name::SUPPORTED, RELIABLE);
        }
        invite.set_body(sdp::CONTENT_TYPE, offer.emit());
        self.start_invite(now, id, invite, offer, false);
    }

    fn start_invite(
        &mut self,
        now: Time,
        id: CallId,
        invite: Message,
        offer: Session,
        has_credentials: bool,
    ) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let client = self.stack.request(now, invite.clone(), call.destination());
        call.early.clear();
        self.clients.insert(client, Purpose::Invite(id));
        let is_cancelled = call.outgoing.as_ref().is_some_and(|outgoing| outgoing.is_cancelled);
        let (is_provisional, answered) = (false, None);
        let outgoing =
            Outgoing { client, invite, offer, has_credentials, is_provisional, is_cancelled, answered };
        call.outgoing = Some(outgoing);
        if let Some(old) = call.client.replace(client) {
            self.clients.remove(&old);
        }
    }

    /// Ends a call: by CANCEL, a refusal or BYE, as its state asks.
    pub fn hang_up(&mut self, now: Time, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        if call.is_up || call.unacknowledged.is_some() {
            self.bye(now, id);
        } else if call.incoming.is_some() {
            self.reject(now, id, 486);
        } else if let Some(outgoing) = &mut call.outgoing {
            outgoing.is_cancelled = true;
            self.cancel_if_possible(now, id);
        }
    }

    /// Sends CANCEL once a provisional response came (RFC 3261 9.1).
    pub(super) fn cancel_if_possible(&mut self, now: Time, id: CallId) {
        let Some(outgoing) = self.calls.get(&id).and_then(|call| call.outgoing.as_ref()) else { return };
        if outgoing.is_cancelled && outgoing.is_provisional {
            let cancel = self.stack.cancel(now, outgoing.client);
            self.clients.extend(cancel.map(|client| (client, Purpose::Other)));
        }
    }

    /// Sends BYE, or notes that it follows the ACK that is awaited (RFC 3261 15).
    pub(super) fn bye(&mut self, now: Time, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let is_first = !std::mem::replace(&mut call.is_ending, true);
        if call.unacknowledged.is_none() && is_first {
            self.send_bye(now, id);
        }
        self.note_ending(id);
    }

    pub(super) fn send_bye(&mut self, now: Time, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let to = call.destination();
        let Some(dialog) = &mut call.dialog else { return };
        let client = self.stack.request(now, dialog.request(Method::BYE), to);
        call.bye = Some(client);
        self.clients.insert(client, Purpose::Bye(id));
    }

    /// Returns `true` if a re-INVITE with the direction was sent: hold or resume.
    pub fn reinvite(&mut self, now: Time, id: CallId, direction: Direction) -> bool {
        let Some(call) = self.calls.get_mut(&id) else { return false };
        let is_free = call.outgoing.is_none() && call.incoming.is_none() && call.unacknowledged.is_none();
        if !call.is_up || call.is_ending || !is_free {
            return false;
        }
        let Some(dialog) = &mut call.dialog else { return false };
        call.capabilities.direction = direction;
        call.retry = Time::NEVER;
        let invite = dialog.request(Method::INVITE);
        self.send_invite(now, id, invite);
        true
    }

    pub(super) fn on_invite_response(&mut self, now: Time, id: CallId, response: &Message) {
        let Some(status) = response.status() else { return };
        match status {
            ..=199 => self.on_provisional(now, id, response, status),
            200..=299 => self.on_success(now, id, response),
            _ => self.on_refusal(now, id, response, status),
        }
    }

    /// Handles a 2xx: of the call, repeated, or of another branch of a fork.
    fn on_success(&mut self, now: Time, id: CallId, response: &Message) {
        let (Some(tag), Some(cseq)) = (response.tag(name::TO), response.cseq()) else { return };
        let Some(call) = self.calls.get_mut(&id) else { return };
        let known = call.acknowledged.iter().find(|ack| ack.tag == tag && ack.number == cseq.number);
        if let Some(ack) = known {
            self.stack.resend(ack.bytes.clone(), ack.to);
            return;
        }
        match call.outgoing.take() {
            Some(outgoing) => self.establish(now, id, outgoing, response, &tag),
            None => self.dismiss_branch(now, id, response, &tag),
        }
    }

    fn establish(&mut self, now: Time, id: CallId, outgoing: Outgoing, response: &Message, tag: &str) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        match &mut call.dialog {
            Some(dialog) => dialog.refresh(response),
            None => {
                let early = call.early.drain(..).find(|early| early.dialog.remote.tag() == Some(tag));
                let dialog = Dialog::of_caller(&outgoing.invite, response);
                call.dialog = dialog.map(|dialog| match early {
                    Some(Early { dialog: before, .. }) => dialog.numbered_as(&before),
                    None => dialog,
                });
            }
        }
        let number = outgoing.invite.cseq().map_or(0, |cseq| cseq.number);
        let Some(dialog) = &call.dialog else {
            return self.end(id, Event::Failed { call: id, failure: Failure::Status(400) });
        };
        let (ack, to) = (dialog.ack(number), peer_of(dialog.next_hop()).unwrap_or(call.peer));
        let bytes = self.stack.send(ack, to);
        call.acknowledged.retain(|ack| ack.number == number);
        call.acknowledged.push(Acknowledged { tag: tag.to_owned(), number, bytes, to });
        let media = answer_in(&outgoing.offer, response).or(outgoing.answered);
        let was_up = std::mem::replace(&mut call.is_up, true);
        call.media = media.clone().or(call.media.take());
        let event = match media {
            _ if outgoing.is_cancelled => Event::Failed { call: id, failure: Failure::Cancelled },
            Some(media) if was_up => Event::Changed { call: id, media },
            Some(media) => Event::Answered { call: id, media: Some(media) },
            None => Event::Failed { call: id, failure: Failure::NoCodec },
        };
        let is_failure = matches!(event, Event::Failed { .. });
        call.is_reported = is_failure;
        self.events.push_back(event);
        if is_failure {
            self.bye(now, id);
        }
    }

    /// Acknowledges and ends another branch of a fork (RFC 3261 13.2.2.4).
    fn dismiss_branch(&mut self, now: Time, id: CallId, response: &Message, tag: &str) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(own) = call.dialog.as_ref().filter(|_| call.acknowledged.len() < MAX_BRANCHES) else {
            return;
        };
        let contact =
            response.headers.addresses(name::CONTACT).and_then(|contacts| contacts.into_iter().next());
        let (Some(remote), Some(cseq)) = (response.headers.address(name::TO), response.cseq()) else {
            return;
        };
        let mut routes = response.headers.addresses(name::RECORD_ROUTE).unwrap_or_default();
        routes.reverse();
        let target = contact.map_or_else(|| own.target.clone(), |contact| contact.uri);
        let mut branch = Dialog { remote, routes, target, local_number: cseq.number, ..own.clone() };
        let to = peer_of(branch.next_hop()).unwrap_or(call.peer);
        let bytes = self.stack.send(branch.ack(cseq.number), to);
        call.acknowledged.push(Acknowledged { tag: tag.to_owned(), number: cseq.number, bytes, to });
        let client = self.stack.request(now, branch.request(Method::BYE), to);
        self.clients.insert(client, Purpose::Other);
    }

    fn on_refusal(&mut self, now: Time, id: CallId, response: &Message, status: u16) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let Some(outgoing) = &call.outgoing else { return };
        let (was_up, is_cancelled) = (call.is_up, outgoing.is_cancelled);
        if matches!(status, 401 | 407) && !outgoing.has_credentials && !is_cancelled {
            let (invite, offer) = (outgoing.invite.clone(), outgoing.offer.clone());
            if self.retry_invite(now, id, invite, offer, response) {
                return;
            }
        }
        let Some(call) = self.calls.get_mut(&id) else { return };
        if let Some(outgoing) = call.outgoing.take() {
            self.clients.remove(&outgoing.client);
        }
        let failure = if is_cancelled { Failure::Cancelled } else { Failure::Status(status) };
        match status {
            491 if was_up => self.retry_later(now, id),
            // The dialog is gone on the other side (RFC 3261 12.2.1.2).
            408 | 481 if was_up => self.end(id, Event::Ended { call: id, by_peer: true }),
            _ if was_up => self.events.push_back(Event::NotChanged { call: id, failure }),
            _ => self.end(id, Event::Failed { call: id, failure }),
        }
    }

    /// Returns `true` if the INVITE was sent again with credentials.
    fn retry_invite(
        &mut self,
        now: Time,
        id: CallId,
        mut invite: Message,
        offer: Session,
        response: &Message,
    ) -> bool {
        if !self.authorise(&mut invite, response) {
            return false;
        }
        let Some(cseq) = invite.cseq() else { return false };
        let number = cseq.number + 1;
        invite.headers.set(name::CSEQ, CSeq { number, ..cseq });
        if let Some(dialog) = self.calls.get_mut(&id).and_then(|call| call.dialog.as_mut()) {
            dialog.local_number = number;
        }
        self.start_invite(now, id, invite, offer, true);
        true
    }

    /// Waits before another re-INVITE, as both sides sent one (RFC 3261 14.1).
    fn retry_later(&mut self, now: Time, id: CallId) {
        let drawn = self.stack.uniform(1.0);
        let Some(call) = self.calls.get_mut(&id) else { return };
        let owns_call_id = call.merge_key.is_none();
        let seconds = if owns_call_id { 2.1 + 1.9 * drawn } else { 2.0 * drawn };
        call.retry = now + Span::from_secs_f64((seconds * 100.0).round() / 100.0);
        self.agenda.add(call.deadline(), id);
    }

    pub(super) fn on_invite_timeout(&mut self, id: CallId, failure: Failure) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let failure = match call.outgoing.take() {
            Some(outgoing) if outgoing.is_cancelled => Failure::Cancelled,
            Some(_) => failure,
            None => return,
        };
        if call.is_up {
            // A re-INVITE without an answer ends the call (RFC 3261 12.2.1.2).
            self.end(id, Event::Ended { call: id, by_peer: true });
        } else {
            self.end(id, Event::Failed { call: id, failure });
        }
    }

    pub(super) fn on_bye_response(&mut self, now: Time, id: CallId, response: &Message) {
        let is_challenge = matches!(response.status(), Some(401 | 407));
        if is_challenge && self.bye_with_credentials(now, id, response) {
            return;
        }
        self.end(id, Event::Ended { call: id, by_peer: false });
    }

    fn bye_with_credentials(&mut self, now: Time, id: CallId, response: &Message) -> bool {
        let Some(call) = self.calls.get_mut(&id).filter(|call| !call.has_bye_credentials) else {
            return false;
        };
        call.has_bye_credentials = true;
        let to = call.destination();
        let Some(dialog) = &mut call.dialog else { return false };
        let mut bye = dialog.request(Method::BYE);
        if !self.authorise(&mut bye, response) {
            return false;
        }
        let client = self.stack.request(now, bye, to);
        self.clients.insert(client, Purpose::Bye(id));
        self.calls.get_mut(&id).into_iter().for_each(|call| call.bye = Some(client));
        true
    }

    /// Handles a response without a transaction: a late repeated 2xx gets its ACK again.
    pub(super) fn on_stray(&mut self, response: &Message) {
        let is_success = response.status().is_some_and(|status| (200..300).contains(&status));
        let tags = (response.call_id(), response.tag(name::FROM), response.tag(name::TO));
        let (Some(id), Some(from), Some(to)) = tags else { return };
        if !is_success || response.method() != Some(Method::INVITE) {
            return;
        }
        let Some(call) = self.by_dialog.get(&key(id, &from)).and_then(|call| self.calls.get(call)) else {
            return;
        };
        if let Some(ack) = call.acknowledged.iter().find(|ack| ack.tag == to) {
            self.stack.resend(ack.bytes.clone(), ack.to);
        }
    }

    /// Removes a call and reports its end, once.
    pub(super) fn end(&mut self, id: CallId, event: Event) {
        let Some(call) = self.calls.remove(&id) else { return };
        if call.is_unproven {
            self.unproven.remove(call.peer.address.ip(), id);
        }
        if call.is_counted {
            self.incoming.remove(call.peer.address.ip(), id);
        }
        self.ending.remove(&id);
        self.by_dialog.remove(&call.key);
        call.merge_key.map(|key| self.merged.remove(&key));
        call.incoming.map(|incoming| self.by_server.remove(&incoming.server));
        call.client.map(|client| self.clients.remove(&client));
        if !call.is_reported {
            self.events.push_back(event);
        }
    }
}

/// Returns the key of a dialog's local half.
pub(super) fn key(call_id: &str, local_tag: &str) -> String {
    format!("{call_id} {local_tag}")
}
