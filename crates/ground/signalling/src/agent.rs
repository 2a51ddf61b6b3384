//! User agents (RFC 3261 8, 10, 12 to 15): client and server, sans-I/O.
//!
//! An [`Agent`] places and answers calls with one audio stream, registers, and answers digest challenges. Feed it with
//! [`Agent::receive`] and [`Agent::handle_timeout`]; send what [`Agent::poll_transmit`] returns; read [`Agent::poll_event`].
//!
//! *Models*: retransmitted 2xx until ACK (13.3.1.4), 2xx of several branches of a fork (the first one is kept, the others get ACK and
//! BYE), CANCEL after a provisional response, re-INVITE both ways with 491, merged requests (8.2.2.2), offers in INVITE or in 2xx,
//! descriptions as a part of multipart bodies. With [`Config::has_extensions`]: answers in provisional responses, reliable
//! ones with PRACK (RFC 3262), and UPDATE (RFC 3311).
//!
//! A callee's requests go to the Contact of a caller only if the INVITE or its ACK came from that host. Others go to the source of the
//! INVITE.
//!
//! *Does not model*: names of hosts other than those of the caller's peer (no DNS), REFER, which is refused with 405, session timers.

mod call;
mod client;
mod early;
mod registration;
mod server;
mod sources;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bentpipe_units::{RandomStream, Time};

use crate::digest::{Account, Challenge, Guard, Protected};
use crate::registrar::Registrar;
use crate::sdp::{Capabilities, Negotiated};
use crate::sip::{Malformed, Message, NameAddr, SipUri, Transport, Uri, name};
use crate::transaction::{
    Agenda, ClientId, Event as Transaction, Limits, Peer, Stack, Timers, Transmit, host,
};

use call::Call;
pub use call::CallId;
use registration::Registration;
use sources::Sources;

/// Settings of a user agent.
#[derive(Clone, Debug)]
pub struct Config {
    /// Local address; named in Via and Contact.
    pub local: SocketAddr,
    /// Transport named in Contact.
    pub transport: Transport,
    /// User part of its address.
    pub user: String,
    /// Domain of its address. Default: the local address.
    pub domain: Option<String>,
    /// User and password for challenges.
    pub account: Option<Account>,
    /// Timer values.
    pub timers: Timers,
    /// Maximum number of calls at a time; more are refused with 486.
    pub max_calls: usize,
    /// Enables reliable provisional responses and UPDATE (RFC 3262, 3311). Default: false.
    pub has_extensions: bool,
}

impl Config {
    /// Creates the settings of a user at a local address, with the default timers.
    pub fn new(user: &str, local: SocketAddr) -> Config {
        Config {
            local,
            transport: Transport::Udp,
            user: user.to_owned(),
            domain: None,
            account: None,
            timers: Timers::default(),
            max_calls: 100_000,
            has_extensions: false,
        }
    }
}

/// Reason for the failure of a call or registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Final response.
    Status(u16),
    /// No final response (Timers B and F).
    TimedOut,
    /// The peer's port is closed.
    Refused,
    /// No route leads to the peer, or its connection broke (RFC 3261 18.4).
    Unreachable,
    /// The 2xx was not acknowledged within 64 T1.
    NotAcknowledged,
    /// No codec in common.
    NoCodec,
    /// The offer has SRTP alone.
    Encrypted,
    /// A reliable provisional response was not acknowledged within 64 T1 (RFC 3262 3).
    NoPrack,
    /// The caller cancelled.
    Cancelled,
}

/// Report of a user agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call comes in. Answer it by [`Agent::ring`], [`Agent::answer`] or [`Agent::reject`].
    Incoming {
        /// Call.
        call: CallId,
        /// Caller.
        from: NameAddr,
        /// Address called.
        to: Uri,
    },
    /// A provisional response came: 180 Ringing.
    Progress {
        /// Call.
        call: CallId,
        /// Status.
        status: u16,
    },
    /// Media may flow before the call is answered.
    ///
    /// A provisional response has the answer to the offer; on the callee's side its PRACK came.
    Early {
        /// Call.
        call: CallId,
        /// Audio.
        media: Negotiated,
    },
    /// The callee answered, and the ACK is sent.
    Answered {
        /// Call.
        call: CallId,
        /// Audio, if negotiated.
        media: Option<Negotiated>,
    },
    /// The ACK of an answered incoming call came.
    Confirmed {
        /// Call.
        call: CallId,
        /// Audio, if negotiated.
        media: Option<Negotiated>,
    },
    /// A re-INVITE or UPDATE of either side changed the session.
    Changed {
        /// Call.
        call: CallId,
        /// Audio.
        media: Negotiated,
    },
    /// A re-INVITE of this side was refused; the session is as before.
    NotChanged {
        /// Call.
        call: CallId,
        /// Reason.
        failure: Failure,
    },
    /// The call is over.
    Ended {
        /// Call.
        call: CallId,
        /// Set if the peer ended it.
        by_peer: bool,
    },
    /// The call was not established.
    Failed {
        /// Call.
        call: CallId,
        /// Reason.
        failure: Failure,
    },
    /// The registrar accepted the contact for this number of seconds.
    Registered(u32),
    /// The registration failed.
    NotRegistered(Failure),
}

/// Transaction of the agent, by its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Invite(CallId),
    Bye(CallId),
    Register,
    /// Request without consequences: CANCEL, BYE of a superfluous branch.
    Other,
}

/// Methods that an agent answers.
const ALLOW: &str = "INVITE, ACK, BYE, CANCEL, OPTIONS";
/// The same with PRACK and UPDATE.
const ALLOW_WITH_EXTENSIONS: &str = "INVITE, ACK, BYE, CANCEL, OPTIONS, PRACK, UPDATE";

/// User agent.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    stack: Stack,
    next: u64,
    calls: HashMap<CallId, Call>,
    by_dialog: HashMap<String, CallId>,
    by_server: HashMap<crate::transaction::ServerId, CallId>,
    merged: HashMap<String, CallId>,
    clients: HashMap<ClientId, Purpose>,
    agenda: Agenda<CallId>,
    registration: Option<Registration>,
    registrar: Option<Registrar>,
    gate: Option<Gate>,
    /// Incoming calls without an ACK from hosts that have not proved their address.
    unproven: Sources,
    /// Incoming calls that this side has not ended, where there are limits.
    incoming: Sources,
    /// Calls that this side has ended, whose BYE has no answer yet.
    ending: BTreeSet<CallId>,
    displaced: u64,
    events: VecDeque<Event>,
}

/// Protection of incoming calls.
#[derive(Debug)]
struct Gate {
    guard: Guard,
    /// Peers that need no password.
    trusted: Vec<IpAddr>,
}

impl Agent {
    /// Creates an agent without calls.
    pub fn new(config: Config, random: RandomStream) -> Agent {
        Agent {
            stack: Stack::new(config.local, config.timers, random),
            config,
            next: 0,
            calls: HashMap::new(),
            by_dialog: HashMap::new(),
            by_server: HashMap::new(),
            merged: HashMap::new(),
            clients: HashMap::new(),
            agenda: Agenda::new(),
            registration: None,
            registrar: None,
            gate: None,
            unproven: Sources::default(),
            incoming: Sources::default(),
            ending: BTreeSet::new(),
            displaced: 0,
            events: VecDeque::new(),
        }
    }

    /// Has the agent answer REGISTER with a registrar.
    pub fn serve(&mut self, registrar: Registrar) {
        self.registrar = Some(registrar);
    }

    /// Has the agent challenge callers, who may use their own name only. Those at trusted addresses need no password.
    pub fn protect(&mut self, guard: Guard, trusted: Vec<IpAddr>) {
        self.gate = Some(Gate { guard, trusted });
    }

    /// Sets limits, for an agent that anyone may call. More calls are refused with 503, and no state is kept of them.
    pub fn limit_peers(&mut self, limits: Limits) {
        self.stack.limit_peers(limits);
    }

    /// Returns the registrar that the agent has.
    pub fn registrar(&self) -> Option<&Registrar> {
        self.registrar.as_ref()
    }

    /// Returns the peer that a URI with a numeric host leads to.
    pub fn peer_of(uri: &Uri) -> Option<Peer> {
        peer_of(uri)
    }

    /// Returns the transaction layer.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Returns the audio of a call as it is negotiated.
    ///
    /// An incoming call has it from its answer on, before the ACK.
    pub fn media(&self, call: CallId) -> Option<&Negotiated> {
        self.calls.get(&call)?.media.as_ref()
    }

    /// Returns the peer that messages of a call go to, unless a route leads elsewhere.
    pub fn peer(&self, call: CallId) -> Option<Peer> {
        Some(self.calls.get(&call)?.peer)
    }

    /// Returns the source of the INVITE of a call that came in.
    pub fn caller(&self, call: CallId) -> Option<Peer> {
        self.calls.get(&call).filter(|call| call.merge_key.is_some()).map(|call| call.peer)
    }

    /// Returns the number of calls that exist.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the number of calls that were ended for one of a host with fewer.
    pub fn displaced(&self) -> u64 {
        self.displaced
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.stack.poll_transmit()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the next timer.
    pub fn deadline(&mut self) -> Time {
        let calls = &self.calls;
        let own = self.agenda.next(|call| calls.get(&call).map(Call::deadline));
        let registration =
            self.registration.as_ref().map_or(Time::NEVER, |registration| registration.refresh);
        own.min(registration).min(self.stack.deadline())
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

    /// Reports that a peer cannot be reached.
    ///
    /// Its port is closed (`is_refused`), no route leads there, or the connection broke.
    pub fn unreachable(&mut self, now: Time, peer: Peer, is_refused: bool) {
        self.stack.unreachable(peer, is_refused);
        self.advance(now);
    }

    /// Handles timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.stack.handle_timeout(now);
        self.advance(now);
        loop {
            let calls = &self.calls;
            let Some(call) = self.agenda.due(now, |call| calls.get(&call).map(Call::deadline)) else { break };
            self.call_timer(now, call);
        }
        self.registration_timer(now);
    }

    fn advance(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Transaction::Request { server, from, message } => {
                    self.on_request(now, server, from, &message)
                }
                Transaction::Ack { from, message } => self.on_ack(now, from, &message),
                Transaction::Response { client, message } => self.on_response(now, client, &message),
                Transaction::Stray(message) => self.on_stray(&message),
                Transaction::TimedOut(client) => self.on_timed_out(client, Failure::TimedOut),
                Transaction::Unreachable { client, is_refused: true } => {
                    self.on_timed_out(client, Failure::Refused)
                }
                Transaction::Unreachable { client, is_refused: false } => {
                    self.on_timed_out(client, Failure::Unreachable)
                }
                Transaction::NotConfirmed(_) => {}
            }
        }
    }

    fn on_response(&mut self, now: Time, client: ClientId, response: &Message) {
        let is_final = response.status().is_some_and(|status| status >= 200);
        let Some(purpose) = self.clients.get(&client).copied() else { return };
        match purpose {
            Purpose::Invite(call) => self.on_invite_response(now, call, response),
            _ if !is_final => {}
            Purpose::Bye(call) => self.on_bye_response(now, call, response),
            Purpose::Register => self.on_register_response(now, response),
            Purpose::Other => {}
        }
        // The branches of a fork answer in the same transaction.
        if is_final && !matches!(purpose, Purpose::Invite(_)) {
            self.clients.remove(&client);
        }
    }

    /// Ends a transaction without a final response.
    fn on_timed_out(&mut self, client: ClientId, failure: Failure) {
        match self.clients.remove(&client) {
            Some(Purpose::Invite(call)) => self.on_invite_timeout(call, failure),
            Some(Purpose::Bye(call)) => self.end(call, Event::Ended { call, by_peer: false }),
            Some(Purpose::Register) => self.fail_registration(failure),
            Some(Purpose::Other) | None => {}
        }
    }

    /// Returns the address of a user of this agent.
    fn address(&self, user: &str) -> NameAddr {
        let domain = self.config.domain.clone().unwrap_or_else(|| host(self.config.local));
        NameAddr::new(SipUri::new(Some(user), &domain).into())
    }

    /// Returns the methods that this agent answers.
    fn allow(&self) -> &'static str {
        if self.config.has_extensions { ALLOW_WITH_EXTENSIONS } else { ALLOW }
    }

    /// Returns the Contact of this agent.
    fn contact(&self) -> NameAddr {
        let mut uri = SipUri::new(Some(&self.config.user), &host(self.config.local));
        uri.port = Some(self.config.local.port());
        if self.config.transport == Transport::Tcp {
            uri.params.set("transport", Some("tcp"));
        }
        NameAddr::new(uri.into())
    }

    /// Returns `true` if credentials for the challenges of a response were added.
    fn authorise(&mut self, request: &mut Message, response: &Message) -> bool {
        let cnonce = self.stack.unique();
        let Some(account) = &self.config.account else { return false };
        let fields = match response.status() {
            Some(401) => (name::WWW_AUTHENTICATE, name::AUTHORIZATION),
            _ => (name::PROXY_AUTHENTICATE, name::PROXY_AUTHORIZATION),
        };
        let challenges = response.headers.all(fields.0).filter_map(Challenge::parse);
        let Some(challenge) = challenges.max_by_key(|challenge| challenge.algorithm) else { return false };
        let (Some(method), Some(uri)) = (request.method(), request.uri().map(ToString::to_string)) else {
            return false;
        };
        let protected = Protected { method: method.as_str(), uri: &uri, body: &request.body };
        let credentials = challenge.answer(account, protected, &cnonce, 1);
        request.headers.set(fields.1, credentials);
        true
    }
}

/// Returns the peer that a URI with a numeric host leads to.
pub(crate) fn peer_of(uri: &Uri) -> Option<Peer> {
    let uri = uri.as_sip()?;
    let text = uri.params.get("maddr").unwrap_or(&uri.host);
    let ip: IpAddr = text.trim_matches(['[', ']']).parse().ok()?;
    let transport = match uri.params.get("transport") {
        Some(text) if text.eq_ignore_ascii_case("tcp") => Transport::Tcp,
        _ => Transport::Udp,
    };
    Some(Peer { transport, address: SocketAddr::new(ip, uri.port.unwrap_or(5060)) })
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_early;
#[cfg(test)]
mod tests_of_limits;
