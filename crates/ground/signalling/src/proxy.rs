//! Stateful proxy with a registrar (RFC 3261 16).
//!
//! *Models*: loose routing, Record-Route, Max-Forwards, loop detection by a hash in the branch (16.3, 16.6), parallel forking to all
//! contacts with choice of the best response (16.7), CANCEL of the branches that lost, Timer C, digest of INVITE.
//!
//! *Does not model*: strict routers, sequential search, redirection (3xx are returned to the caller), CANCEL after Timer C.

mod context;

use std::collections::HashMap;
use std::net::SocketAddr;

use bentpipe_units::{RandomStream, Time};

use crate::agent::peer_of;
use crate::digest::{Guard, Protected, Refusal};
use crate::registrar::Registrar;
use crate::response::response;
use crate::sip::{Malformed, Message, Method, NameAddr, SipUri, Transport, Uri, Via, name};
use crate::transaction::{ClientId, Event, Peer, ServerId, Stack, Timers, Transmit, host};
use context::{Branch, Context};

/// Settings of a proxy.
#[derive(Debug)]
pub struct Config {
    /// Local address.
    pub local: SocketAddr,
    /// Timer values.
    pub timers: Timers,
    /// Enables Record-Route, so that all requests of a call pass the proxy.
    pub record_route: bool,
    /// Users who may call. Default: all.
    pub guard: Option<Guard>,
}

/// Proxy and registrar of one address.
#[derive(Debug)]
pub struct Proxy {
    config: Config,
    stack: Stack,
    registrar: Registrar,
    contexts: HashMap<ServerId, Context>,
    clients: HashMap<ClientId, ServerId>,
}

/// Place to which a request is forwarded.
struct Target {
    uri: Uri,
    peer: Peer,
}

impl Proxy {
    /// Creates a proxy.
    pub fn new(config: Config, registrar: Registrar, random: RandomStream) -> Proxy {
        let stack = Stack::new(config.local, config.timers, random);
        Proxy { config, stack, registrar, contexts: HashMap::new(), clients: HashMap::new() }
    }

    /// Returns the registrar.
    pub fn registrar(&self) -> &Registrar {
        &self.registrar
    }

    /// Returns the transaction layer.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Returns the number of requests that wait for responses.
    pub fn pending(&self) -> usize {
        self.contexts.len()
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.stack.poll_transmit()
    }

    /// Returns the time of the next timer.
    pub fn deadline(&mut self) -> Time {
        self.stack.deadline()
    }

    /// Receives a datagram.
    pub fn receive(&mut self, now: Time, from: Peer, datagram: &[u8]) {
        self.stack.receive(now, from, datagram);
        self.advance(now);
    }

    /// Receives a message of a stream, or the defect found in its place.
    pub fn receive_message(&mut self, now: Time, from: Peer, message: Result<Message, Box<Malformed>>) {
        self.stack.receive_message(now, from, message);
        self.advance(now);
    }

    /// Handles timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.stack.handle_timeout(now);
        self.advance(now);
    }

    fn advance(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Request { server, message, .. } => self.on_request(now, server, message),
                Event::Ack { message, .. } => self.forward_ack(now, message),
                Event::Response { client, message } => self.on_response(now, client, message),
                Event::Stray(message) => self.forward_stray(message),
                Event::TimedOut(client) | Event::Unreachable { client, .. } => self.on_timed_out(now, client),
                Event::NotConfirmed(_) => {}
            }
        }
    }

    fn on_request(&mut self, now: Time, server: ServerId, mut request: Message) {
        if request.method() == Some(Method::CANCEL) {
            return self.on_cancel(now, server, &request);
        }
        self.pop_own_route(&mut request);
        let is_for_registrar =
            request.uri().and_then(Uri::as_sip).is_some_and(|uri| self.registrar.serves(uri));
        if request.method() == Some(Method::REGISTER) && is_for_registrar {
            let tag = self.stack.unique();
            let answer = self.registrar.register(now, &request, &tag);
            return self.stack.respond(now, server, &answer);
        }
        match self.validate(now, &request).and_then(|()| self.targets(now, &request)) {
            Ok(targets) => self.forward(now, server, &request, targets),
            Err(refusal) => self.stack.respond(now, server, &refusal),
        }
    }

    /// Checks a request (RFC 3261 16.3).
    fn validate(&mut self, now: Time, request: &Message) -> Result<(), Box<Message>> {
        let tag = self.stack.unique();
        let refusal = |status| Box::new(response(request, status, &tag));
        let extensions = request.headers.list(name::PROXY_REQUIRE);
        if !matches!(request.uri(), Some(Uri::Sip(_))) {
            return Err(refusal(416));
        }
        if request.headers.get(name::MAX_FORWARDS).and_then(|text| text.parse::<u32>().ok()) == Some(0) {
            return Err(refusal(483));
        }
        if self.has_looped(request) {
            return Err(refusal(482));
        }
        if !extensions.is_empty() {
            let mut refusal = refusal(420);
            refusal.headers.push(name::UNSUPPORTED, extensions.join(", "));
            return Err(refusal);
        }
        self.authenticate(now, request, &tag)
    }

    /// Asks for credentials of a new call (RFC 3261 22.3).
    fn authenticate(&mut self, now: Time, request: &Message, tag: &str) -> Result<(), Box<Message>> {
        let is_new_call = request.method() == Some(Method::INVITE) && request.tag(name::TO).is_none();
        let Some(guard) = self.config.guard.as_mut().filter(|_| is_new_call) else { return Ok(()) };
        let uri = request.uri().map(ToString::to_string).unwrap_or_default();
        let protected = Protected { method: "INVITE", uri: &uri, body: &request.body };
        match guard.admit(now, request.headers.all(name::PROXY_AUTHORIZATION), protected) {
            Ok(_) => Ok(()),
            Err(Refusal::Forbidden) => Err(Box::new(response(request, 403, tag))),
            Err(Refusal::Challenge(challenge)) => {
                let mut refusal = response(request, 407, tag);
                refusal.headers.push(name::PROXY_AUTHENTICATE, challenge);
                Err(Box::new(refusal))
            }
        }
    }

    /// Returns `true` if the URI names this proxy.
    fn is_own(&self, uri: &Uri) -> bool {
        peer_of(uri).is_some_and(|peer| peer.address == self.config.local)
    }

    /// Removes the topmost Route if it names this proxy (RFC 3261 16.4).
    fn pop_own_route(&self, request: &mut Message) {
        let routes = request.headers.addresses(name::ROUTE).unwrap_or_default();
        if routes.first().is_some_and(|route| self.is_own(&route.uri)) {
            request.headers.pop_item(name::ROUTE);
        }
    }

    /// Returns `true` if the request was here before, unchanged (RFC 3261 16.3).
    fn has_looped(&self, request: &Message) -> bool {
        let mark = mark(request);
        let own = (host(self.config.local), self.config.local.port());
        let vias = request.headers.list(name::VIA).into_iter().filter_map(Via::parse);
        vias.filter(|via| (via.host.as_str(), via.port.unwrap_or(5060)) == (own.0.as_str(), own.1)).any(
            |via| via.branch().and_then(|branch| branch.rsplit_once('.')).is_some_and(|(_, old)| old == mark),
        )
    }

    /// Returns the places to forward to (RFC 3261 16.5).
    fn targets(&mut self, now: Time, request: &Message) -> Result<Vec<Target>, Box<Message>> {
        let tag = self.stack.unique();
        let refusal = |status| Box::new(response(request, status, &tag));
        let uri = request.uri().cloned().ok_or_else(|| refusal(400))?;
        let route = request.headers.addresses(name::ROUTE).and_then(|routes| routes.into_iter().next());
        if let Some(route) = route {
            let peer = peer_of(&route.uri).ok_or_else(|| refusal(480))?;
            return Ok(vec![Target { uri, peer }]);
        }
        let own = uri.as_sip().filter(|sip| self.registrar.serves(sip) && sip.user.is_some());
        let Some(own) = own.filter(|_| !self.leads_elsewhere(&uri)) else {
            let peer =
                peer_of(&uri).filter(|peer| peer.address != self.config.local).ok_or_else(|| refusal(404))?;
            return Ok(vec![Target { uri, peer }]);
        };
        let contacts = self.registrar.lookup(now, own).into_iter();
        let targets: Vec<_> =
            contacts.filter_map(|uri| peer_of(&uri).map(|peer| Target { uri, peer })).collect();
        if targets.is_empty() { Err(refusal(480)) } else { Ok(targets) }
    }

    /// Returns `true` if the URI names another port of this host: a contact.
    fn leads_elsewhere(&self, uri: &Uri) -> bool {
        let has_port = uri.as_sip().is_some_and(|uri| uri.port.is_some());
        has_port && peer_of(uri).is_some_and(|peer| peer.address != self.config.local)
    }

    fn forward(&mut self, now: Time, server: ServerId, request: &Message, targets: Vec<Target>) {
        let mark = mark(request);
        let is_invite = request.method() == Some(Method::INVITE);
        let mut context = Context::new(request.clone());
        for target in targets {
            let copy = self.copy(request, &target);
            let client = self.stack.request_marked(now, copy, target.peer, &mark);
            if is_invite {
                let until = now + self.stack.timers().c;
                self.stack.limit(client, until);
            }
            self.clients.insert(client, server);
            context.branches.push(Branch::new(client));
        }
        self.contexts.insert(server, context);
    }

    /// Returns the request as it is forwarded (RFC 3261 16.6).
    fn copy(&self, request: &Message, target: &Target) -> Message {
        let mut copy = request.clone();
        if let crate::sip::StartLine::Request { uri, .. } = &mut copy.start {
            *uri = target.uri.clone();
        }
        let hops =
            copy.headers.get(name::MAX_FORWARDS).and_then(|text| text.parse::<u32>().ok()).unwrap_or(71);
        copy.headers.set(name::MAX_FORWARDS, hops.saturating_sub(1));
        copy.headers.remove(name::PROXY_AUTHORIZATION);
        let is_dialog_forming = request.method() == Some(Method::INVITE);
        if self.config.record_route && is_dialog_forming {
            copy.headers.push_front(name::RECORD_ROUTE, self.own_route(target.peer.transport));
        }
        copy
    }

    fn own_route(&self, transport: Transport) -> NameAddr {
        let mut uri = SipUri::new(None, &host(self.config.local));
        uri.port = Some(self.config.local.port());
        if transport == Transport::Tcp {
            uri.params.set("transport", Some("tcp"));
        }
        uri.params.set("lr", None);
        NameAddr::new(uri.into())
    }

    /// Forwards the ACK of a 2xx, without a transaction.
    fn forward_ack(&mut self, now: Time, mut ack: Message) {
        self.pop_own_route(&mut ack);
        let has_hops = ack.headers.get(name::MAX_FORWARDS) != Some("0");
        let Ok(targets) = self.targets(now, &ack) else { return };
        if let Some(target) = targets.first().filter(|_| has_hops) {
            let copy = self.copy(&ack, target);
            self.stack.send(copy, target.peer);
        }
    }

    fn on_cancel(&mut self, now: Time, server: ServerId, cancel: &Message) {
        let tag = self.stack.unique();
        let invite = self.stack.cancelled(cancel).filter(|invite| self.contexts.contains_key(invite));
        let status = if invite.is_some() { 200 } else { 481 };
        self.stack.respond(now, server, &response(cancel, status, &tag));
        if let Some(invite) = invite {
            self.cancel_branches(now, invite);
        }
    }

    /// Cancels all branches without a final response, as soon as each has a provisional one.
    fn cancel_branches(&mut self, now: Time, server: ServerId) {
        let Some(context) = self.contexts.get_mut(&server) else { return };
        for branch in context.branches.iter_mut().filter(|branch| branch.is_pending()) {
            branch.is_cancelled = true;
            if branch.is_provisional {
                self.stack.cancel(now, branch.client);
            }
        }
    }

    fn on_response(&mut self, now: Time, client: ClientId, mut message: Message) {
        // The CANCEL of a branch has no context: its response ends here.
        let Some(server) = self.clients.get(&client).copied() else { return };
        let Some(status) = message.status() else { return };
        if !self.contexts.contains_key(&server) {
            return self.forward_stray(message);
        }
        message.headers.pop_item(name::VIA);
        match status {
            100 => self.note_provisional(now, server, client),
            101..=199 => {
                self.note_provisional(now, server, client);
                self.stack.respond(now, server, &message);
            }
            200..=299 => self.on_success(now, server, client, &message),
            _ => self.on_failure(now, server, client, message),
        }
    }

    fn note_provisional(&mut self, now: Time, server: ServerId, client: ClientId) {
        let until = now + self.stack.timers().c;
        self.stack.limit(client, until);
        let Some(branch) = self.contexts.get_mut(&server).and_then(|context| context.branch(client)) else {
            return;
        };
        let is_first = !std::mem::replace(&mut branch.is_provisional, true);
        if is_first && branch.is_cancelled {
            self.stack.cancel(now, client);
        }
    }

    /// Forwards a 2xx at once and cancels the other branches (RFC 3261 16.7, 16.10).
    fn on_success(&mut self, now: Time, server: ServerId, client: ClientId, message: &Message) {
        self.stack.respond(now, server, message);
        let Some(context) = self.contexts.get_mut(&server) else { return };
        context.is_answered = true;
        context.finish(client, None);
        self.cancel_branches(now, server);
        self.conclude(now, server);
    }

    fn on_failure(&mut self, now: Time, server: ServerId, client: ClientId, message: Message) {
        let is_global = message.status() >= Some(600);
        let Some(context) = self.contexts.get_mut(&server) else { return };
        context.finish(client, Some(message));
        if is_global {
            self.cancel_branches(now, server);
        }
        self.conclude(now, server);
    }

    fn on_timed_out(&mut self, now: Time, client: ClientId) {
        let Some(server) = self.clients.get(&client).copied() else { return };
        let tag = self.stack.unique();
        let Some(context) = self.contexts.get_mut(&server) else { return };
        let timeout = response(&context.request, 408, &tag);
        context.finish(client, Some(timeout));
        self.conclude(now, server);
    }

    /// Sends the best failure once all branches have failed, and forgets the context.
    fn conclude(&mut self, now: Time, server: ServerId) {
        let Some(context) = self.contexts.get(&server) else { return };
        if context.branches.iter().any(Branch::is_pending) {
            return;
        }
        if let Some(best) = context.best().filter(|_| !context.is_answered) {
            self.stack.respond(now, server, &best);
        }
        if let Some(context) = self.contexts.remove(&server) {
            context.branches.iter().for_each(|branch| {
                self.clients.remove(&branch.client);
            });
        }
    }

    /// Forwards a response without a context: a late or repeated 2xx.
    fn forward_stray(&mut self, mut message: Message) {
        let is_own =
            |via: &Via| via.host == host(self.config.local) && via.port == Some(self.config.local.port());
        if !message.headers.via().is_some_and(|via| is_own(&via)) {
            return;
        }
        message.headers.pop_item(name::VIA);
        if let Some(to) = message.headers.via().and_then(|via| source_of(&via)) {
            self.stack.resend(message.emit(), to);
        }
    }
}

/// Returns the destination of responses that a Via names (RFC 3261 18.2.2).
fn source_of(via: &Via) -> Option<Peer> {
    let address = via.params.get("received").unwrap_or(&via.host).trim_matches(['[', ']']).parse().ok()?;
    let rport = via.params.get("rport").and_then(|port| port.parse().ok());
    let transport = if via.transport.eq_ignore_ascii_case("TCP") { Transport::Tcp } else { Transport::Udp };
    Some(Peer { transport, address: SocketAddr::new(address, rport.or(via.port).unwrap_or(5060)) })
}

/// Returns a hash of the fields that routing depends on (RFC 3261 16.6, step 8).
fn mark(request: &Message) -> String {
    let mut text = request.uri().map(ToString::to_string).unwrap_or_default();
    for field in [name::FROM, name::TO] {
        text = text + "\n" + &request.tag(field).unwrap_or_default();
    }
    for field in [name::CALL_ID, name::PROXY_REQUIRE, name::ROUTE] {
        request.headers.all(field).for_each(|value| text = format!("{text}\n{value}"));
    }
    text = format!("{text}\n{}", request.cseq().map_or(0, |cseq| cseq.number));
    crate::digest::Algorithm::Md5.hash(text.as_bytes())[..16].to_owned()
}

#[cfg(test)]
mod tests;
