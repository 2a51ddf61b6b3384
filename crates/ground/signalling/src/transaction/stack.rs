//! Transaction layer of one element.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use bentpipe_units::{RandomStream, Time};
use rand::RngCore;

use super::client::{self, Client};
use super::guard::{Guard, Limits};
use super::key::ServerKey;
use super::server::{self, Server};
use super::{Agenda, Timers};
use crate::response::response;
use crate::sip::{Malformed, Message, Method, Transport, Via, name};

/// Time after which a refused peer may try again, in seconds.
const RETRY_AFTER_S: u32 = 10;

/// Address of another element: the far end of a datagram or connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Transport.
    pub transport: Transport,
    /// Address and port.
    pub address: SocketAddr,
}

/// Message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Destination.
    pub to: Peer,
    /// Bytes of the message.
    pub bytes: Vec<u8>,
}

/// Client transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// Server transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(u64);

/// Report to the transaction user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A new request, to be answered by [`Stack::respond`].
    Request {
        /// Server transaction.
        server: ServerId,
        /// Sender.
        from: Peer,
        /// Request.
        message: Message,
    },
    /// An ACK of a 2xx, or of no transaction.
    Ack {
        /// Sender.
        from: Peer,
        /// ACK.
        message: Message,
    },
    /// A response to a request.
    Response {
        /// Client transaction.
        client: ClientId,
        /// Response.
        message: Message,
    },
    /// A response without a transaction, such as a 2xx that comes late.
    Stray(Message),
    /// No final response came (Timers B, C and F).
    TimedOut(ClientId),
    /// The peer of a client transaction cannot be reached (RFC 3261 18.4).
    Unreachable {
        /// Client transaction.
        client: ClientId,
        /// Set if the peer's port is closed.
        is_refused: bool,
    },
    /// No ACK came for a failure (Timer H).
    NotConfirmed(ServerId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Client(ClientId),
    Server(ServerId),
}

#[derive(Debug)]
struct ClientEntry {
    machine: Client,
    to: Peer,
    request: Vec<u8>,
    key: (String, Method),
    ack: Option<Vec<u8>>,
}

#[derive(Debug)]
struct ServerEntry {
    machine: Server,
    to: Peer,
    key: ServerKey,
    response: Vec<u8>,
    trying: Vec<u8>,
}

/// Counts of messages of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests sent again by Timers A and E.
    pub requests_repeated: u64,
    /// Final responses to INVITE sent again by Timer G.
    pub responses_repeated: u64,
    /// Repeated requests absorbed.
    pub requests_absorbed: u64,
    /// Malformed messages.
    pub malformed: u64,
    /// Requests refused with 503, as a limit was reached.
    pub turned_away: u64,
    /// Responses not sent again to hosts without proof of their address.
    pub withheld: u64,
}

/// Transaction layer of one element.
#[derive(Debug)]
pub struct Stack {
    local: SocketAddr,
    timers: Timers,
    random: RandomStream,
    next: u64,
    clients: HashMap<ClientId, ClientEntry>,
    branches: HashMap<(String, Method), ClientId>,
    servers: HashMap<ServerId, ServerEntry>,
    keys: HashMap<ServerKey, ServerId>,
    agenda: Agenda<Timer>,
    transmits: VecDeque<Transmit>,
    events: VecDeque<Event>,
    counters: Counters,
    guard: Option<Guard>,
    /// Answered requests whose transactions only absorb repeats, the oldest first, if there are limits.
    answered: VecDeque<ServerId>,
}

impl Stack {
    /// Creates a stack that names itself by its local address in Via.
    pub fn new(local: SocketAddr, timers: Timers, random: RandomStream) -> Stack {
        Stack {
            local,
            timers,
            random,
            next: 0,
            clients: HashMap::new(),
            branches: HashMap::new(),
            servers: HashMap::new(),
            keys: HashMap::new(),
            agenda: Agenda::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            guard: None,
            answered: VecDeque::new(),
        }
    }

    /// Sets limits, for a stack that anyone may send to.
    pub fn limit_peers(&mut self, limits: Limits) {
        self.guard = Some(Guard::new(limits));
    }

    /// Returns the limits, if there are any.
    pub(crate) fn limits(&self) -> Option<Limits> {
        self.guard.as_ref().map(|guard| guard.limits)
    }

    /// Returns `true` if a peer has shown that messages reach it, or need not.
    pub(crate) fn is_proven(&self, peer: Peer) -> bool {
        peer.transport.is_reliable()
            || self.guard.as_ref().is_none_or(|guard| guard.is_proven(peer.address.ip()))
    }

    /// Notes that a peer has received a message of this side.
    pub(crate) fn prove(&mut self, peer: Peer) {
        self.guard.iter_mut().for_each(|guard| guard.prove(peer.address.ip()));
    }

    /// Sends a final response to INVITE again, if its peer may get one.
    pub(crate) fn repeat_response(&mut self, now: Time, server: ServerId, message: &Message) {
        if self.may_repeat(now, server) {
            self.respond(now, server, message);
        }
    }

    /// Returns `true` if a response may be sent again to the peer of a transaction.
    fn may_repeat(&mut self, now: Time, server: ServerId) -> bool {
        let (Some(guard), Some(entry)) = (&mut self.guard, self.servers.get(&server)) else { return true };
        let may = entry.to.transport.is_reliable() || guard.may_repeat(entry.to.address.ip(), now);
        self.counters.withheld += u64::from(!may);
        may
    }

    /// Refuses a request with 503, and forgets its transaction (RFC 3261 8.2.7, 21.5.4).
    pub(crate) fn turn_away(&mut self, server: ServerId, request: &Message) {
        let Some(to) = self.forget(server) else { return };
        self.refuse_busy(to, request);
    }

    /// Forgets a transaction without a word, and returns its peer. A repeated request begins a new one.
    pub(crate) fn forget(&mut self, server: ServerId) -> Option<Peer> {
        let entry = self.servers.remove(&server)?;
        self.keys.remove(&entry.key);
        Some(entry.to)
    }

    /// Notes that the 2xx of a request was acknowledged. Then its transaction only absorbs repeats.
    pub(crate) fn note_acknowledged(&mut self, server: ServerId) {
        if self.guard.is_some() {
            self.answered.push_back(server);
        }
    }

    fn refuse_busy(&mut self, to: Peer, request: &Message) {
        self.counters.turned_away += 1;
        // The same tag for a repeated request, though nothing is kept of it.
        let mut hasher = DefaultHasher::new();
        request.headers.via().and_then(|via| via.branch().map(str::to_owned)).hash(&mut hasher);
        let mut refusal = response(request, 503, &format!("{:016x}", hasher.finish()));
        refusal.headers.push(name::RETRY_AFTER, RETRY_AFTER_S);
        self.transmits.push_back(Transmit { to, bytes: refusal.emit() });
    }

    /// Returns the local address.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the timer values.
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of transactions that exist.
    pub fn transactions(&self) -> usize {
        self.clients.len() + self.servers.len()
    }

    /// Returns a random text of 16 hexadecimal digits, for tags and Call-IDs.
    pub fn unique(&mut self) -> String {
        format!("{:016x}", self.random.next_u64())
    }

    /// Returns a number below `bound`, for waiting times.
    pub fn uniform(&mut self, bound: f64) -> f64 {
        self.random.unit() * bound
    }

    /// Returns the next message to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the next timer.
    pub fn deadline(&mut self) -> Time {
        let (clients, servers) = (&self.clients, &self.servers);
        self.agenda.next(|timer| deadline_of(clients, servers, timer))
    }

    /// Receives a datagram.
    pub fn receive(&mut self, now: Time, from: Peer, datagram: &[u8]) {
        let is_keep_alive = datagram.iter().all(|byte| b"\r\n\0".contains(byte));
        if !is_keep_alive {
            self.receive_message(now, from, Message::parse(datagram));
        }
    }

    /// Receives a message of a stream, or the defect found in its place.
    pub fn receive_message(&mut self, now: Time, from: Peer, message: Result<Message, Box<Malformed>>) {
        match message {
            Err(malformed) => self.refuse(from, &malformed),
            Ok(message) => match message.check() {
                Ok(()) if message.status().is_some() => self.receive_response(now, message),
                Ok(()) => self.receive_request(now, from, message),
                Err(problem) => {
                    let is_response = message.status().is_some() || message.method() == Some(Method::ACK);
                    self.refuse(from, &Malformed { problem, headers: message.headers, is_response });
                }
            },
        }
    }

    /// Answers a malformed request without a transaction; drops other malformed messages.
    fn refuse(&mut self, from: Peer, malformed: &Malformed) {
        self.counters.malformed += 1;
        let is_ack = malformed.headers.get(name::CSEQ).is_some_and(|cseq| cseq.trim_end().ends_with("ACK"));
        let mandatory = [name::VIA, name::CSEQ];
        if malformed.is_response
            || is_ack
            || mandatory.iter().any(|field| malformed.headers.get(field).is_none())
        {
            return;
        }
        let response = Message::response(&malformed.headers, malformed.problem.status());
        self.transmits.push_back(Transmit { to: from, bytes: response.emit() });
    }

    fn receive_request(&mut self, now: Time, from: Peer, mut message: Message) {
        let to = note_source(&mut message, from);
        let Some(key) = ServerKey::of(&message) else { return };
        let is_ack = message.method() == Some(Method::ACK);
        match self.keys.get(&key).copied() {
            Some(server) if is_ack => self.confirm(now, server, from, message),
            Some(server) => self.repeat(server),
            None if is_ack => self.events.push_back(Event::Ack { from, message }),
            None if !self.makes_room() => self.refuse_busy(to, &message),
            None => self.begin(now, to, from, key, message),
        }
    }

    /// Returns `true` if there is room for one more request.
    ///
    /// The oldest answered request gives way: its transaction only absorbs repeats (RFC 3261 17.2), which would be answered again.
    fn makes_room(&mut self) -> bool {
        let Some(guard) = &self.guard else { return true };
        if self.servers.len() < guard.limits.transactions {
            return true;
        }
        while let Some(oldest) = self.answered.pop_front() {
            if self.forget(oldest).is_some() {
                return true;
            }
        }
        false
    }

    fn begin(&mut self, now: Time, to: Peer, from: Peer, key: ServerKey, message: Message) {
        let server = ServerId(self.id());
        let is_invite = message.method() == Some(Method::INVITE);
        let machine = Server::new(now, is_invite, from.transport.is_reliable(), &self.timers);
        self.agenda.add(machine.deadline(), Timer::Server(server));
        let trying = if is_invite { Message::response(&message.headers, 100).emit() } else { vec![] };
        self.keys.insert(key.clone(), server);
        self.servers.insert(server, ServerEntry { machine, to, key, response: vec![], trying });
        self.events.push_back(Event::Request { server, from, message });
    }

    fn repeat(&mut self, server: ServerId) {
        self.counters.requests_absorbed += 1;
        let Some(entry) = self.servers.get(&server) else { return };
        self.guard.iter_mut().for_each(|guard| guard.credit(entry.to.address.ip()));
        if entry.machine.on_repeat() && !entry.response.is_empty() {
            let transmit = Transmit { to: entry.to, bytes: entry.response.clone() };
            self.transmits.push_back(transmit);
        }
    }

    fn confirm(&mut self, now: Time, server: ServerId, from: Peer, message: Message) {
        let Some(entry) = self.servers.get_mut(&server) else { return };
        if entry.machine.on_ack(now, &self.timers) {
            self.events.push_back(Event::Ack { from, message });
        }
        self.settle_server(server);
    }

    fn receive_response(&mut self, now: Time, message: Message) {
        let key = message.headers.via().and_then(|via| Some((via.branch()?.to_owned(), message.method()?)));
        let client = key.and_then(|key| self.branches.get(&key).copied());
        let Some((client, status)) = client.zip(message.status()) else {
            self.events.push_back(Event::Stray(message));
            return;
        };
        let Some(entry) = self.clients.get_mut(&client) else { return };
        let reaction = entry.machine.on_response(now, status, &self.timers);
        if reaction.ack {
            let bytes = entry.ack.get_or_insert_with(|| ack_of_failure(&entry.request, &message)).clone();
            self.transmits.push_back(Transmit { to: entry.to, bytes });
        }
        if entry.machine.state() == client::State::Accepted {
            entry.request = vec![];
        }
        if reaction.deliver {
            self.events.push_back(Event::Response { client, message });
        }
        self.settle_client(client);
    }

    /// Sends a request in a new transaction, with a Via of its own branch.
    pub fn request(&mut self, now: Time, mut message: Message, to: Peer) -> ClientId {
        let branch = format!("z9hG4bK{}", self.unique());
        message.headers.push_front(name::VIA, self.via(to.transport, &branch));
        self.start(now, &message, to, branch)
    }

    /// Sends a request whose branch ends in a dot and a mark.
    pub fn request_marked(&mut self, now: Time, mut message: Message, to: Peer, mark: &str) -> ClientId {
        let branch = format!("z9hG4bK{}.{mark}", self.unique());
        message.headers.push_front(name::VIA, self.via(to.transport, &branch));
        self.start(now, &message, to, branch)
    }

    /// Sends a CANCEL with the branch of its request (RFC 3261 9.1).
    pub fn cancel(&mut self, now: Time, client: ClientId) -> Option<ClientId> {
        let entry = self.clients.get_mut(&client)?;
        let invite = Message::parse(&entry.request).ok()?;
        entry.machine.limit(now + self.timers.give_up());
        let (to, branch, deadline) = (entry.to, entry.key.0.clone(), entry.machine.deadline());
        self.agenda.add(deadline, Timer::Client(client));
        let mut cancel = same_branch(&invite, Method::CANCEL)?;
        cancel.headers.push(name::MAX_FORWARDS, 70);
        Some(self.start(now, &cancel, to, branch))
    }

    /// Sets the latest time of a final response: Timer C of a proxy.
    pub fn limit(&mut self, client: ClientId, until: Time) {
        let Some(entry) = self.clients.get_mut(&client) else { return };
        entry.machine.limit(until);
        self.agenda.add(entry.machine.deadline(), Timer::Client(client));
    }

    fn start(&mut self, now: Time, message: &Message, to: Peer, branch: String) -> ClientId {
        let client = ClientId(self.id());
        let method = message.method().unwrap_or(Method::OPTIONS);
        let machine = Client::new(now, method == Method::INVITE, to.transport.is_reliable(), &self.timers);
        self.agenda.add(machine.deadline(), Timer::Client(client));
        let (request, key) = (message.emit(), (branch, method));
        self.branches.insert(key.clone(), client);
        self.transmits.push_back(Transmit { to, bytes: request.clone() });
        self.clients.insert(client, ClientEntry { machine, to, request, key, ack: None });
        client
    }

    /// Sends a request without a transaction: an ACK of a 2xx. Returns its bytes, to be sent again.
    pub fn send(&mut self, mut message: Message, to: Peer) -> Vec<u8> {
        let branch = format!("z9hG4bK{}", self.unique());
        message.headers.push_front(name::VIA, self.via(to.transport, &branch));
        let bytes = message.emit();
        self.resend(bytes.clone(), to);
        bytes
    }

    /// Sends bytes without a transaction.
    pub fn resend(&mut self, bytes: Vec<u8>, to: Peer) {
        self.transmits.push_back(Transmit { to, bytes });
    }

    /// Sends a response. It is dropped if the transaction has a final one.
    pub fn respond(&mut self, now: Time, server: ServerId, message: &Message) {
        let Some(entry) = self.servers.get_mut(&server) else { return };
        let Some(status) = message.status() else { return };
        if entry.machine.on_answer(now, status, &self.timers) {
            let bytes = message.emit();
            let keeps = entry.machine.state() != server::State::Accepted;
            entry.response = if keeps { bytes.clone() } else { vec![] };
            entry.trying = if status >= 200 { vec![] } else { std::mem::take(&mut entry.trying) };
            self.transmits.push_back(Transmit { to: entry.to, bytes });
            if self.guard.is_some() && entry.machine.state() == server::State::Completed {
                self.answered.push_back(server);
            }
        }
        self.settle_server(server);
    }

    /// Returns the INVITE transaction that a CANCEL is for.
    pub fn cancelled(&self, cancel: &Message) -> Option<ServerId> {
        self.keys.get(&ServerKey::of_cancelled(cancel)?).copied()
    }

    /// Reports that a peer cannot be reached: all its pending requests fail at once.
    pub fn unreachable(&mut self, peer: Peer, is_refused: bool) {
        let pending = |entry: &ClientEntry| {
            entry.to == peer
                && matches!(entry.machine.state(), client::State::Calling | client::State::Proceeding)
        };
        let mut failed: Vec<ClientId> =
            self.clients.iter().filter(|(_, entry)| pending(entry)).map(|(client, _)| *client).collect();
        failed.sort_unstable();
        for client in failed {
            self.drop_client(client);
            self.events.push_back(Event::Unreachable { client, is_refused });
        }
    }

    /// Handles timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        loop {
            let (clients, servers) = (&self.clients, &self.servers);
            match self.agenda.due(now, |timer| deadline_of(clients, servers, timer)) {
                Some(Timer::Client(client)) => self.client_timer(now, client),
                Some(Timer::Server(server)) => self.server_timer(now, server),
                None => break,
            }
        }
    }

    fn client_timer(&mut self, now: Time, client: ClientId) {
        let Some(entry) = self.clients.get_mut(&client) else { return };
        match entry.machine.on_time(now, &self.timers) {
            client::Expiry::Retransmit => {
                self.counters.requests_repeated += 1;
                self.transmits.push_back(Transmit { to: entry.to, bytes: entry.request.clone() });
            }
            client::Expiry::TimedOut => self.events.push_back(Event::TimedOut(client)),
            client::Expiry::Quiet => {}
        }
        self.settle_client(client);
    }

    fn server_timer(&mut self, now: Time, server: ServerId) {
        let Some(entry) = self.servers.get_mut(&server) else { return };
        match entry.machine.on_time(now, &self.timers) {
            server::Expiry::Retransmit => self.repeat_failure(now, server),
            server::Expiry::Trying => {
                entry.response = std::mem::take(&mut entry.trying);
                self.transmits.push_back(Transmit { to: entry.to, bytes: entry.response.clone() });
            }
            server::Expiry::NotConfirmed => self.events.push_back(Event::NotConfirmed(server)),
            server::Expiry::Quiet => {}
        }
        self.settle_server(server);
    }

    fn repeat_failure(&mut self, now: Time, server: ServerId) {
        if self.may_repeat(now, server)
            && let Some(entry) = self.servers.get(&server)
        {
            self.counters.responses_repeated += 1;
            self.transmits.push_back(Transmit { to: entry.to, bytes: entry.response.clone() });
        }
    }

    /// Notes the next timer of a transaction, or removes it.
    fn settle_client(&mut self, client: ClientId) {
        let Some(entry) = self.clients.get(&client) else { return };
        if entry.machine.state() == client::State::Terminated {
            self.drop_client(client);
        } else {
            self.agenda.add(entry.machine.deadline(), Timer::Client(client));
        }
    }

    fn settle_server(&mut self, server: ServerId) {
        let Some(entry) = self.servers.get(&server) else { return };
        if entry.machine.state() == server::State::Terminated {
            self.forget(server);
            while self.answered.front().is_some_and(|oldest| !self.servers.contains_key(oldest)) {
                self.answered.pop_front();
            }
        } else {
            self.agenda.add(entry.machine.deadline(), Timer::Server(server));
        }
    }

    /// Forgets a request. An answer to it is a stray one.
    pub(crate) fn drop_client(&mut self, client: ClientId) {
        self.clients.remove(&client).map(|entry| self.branches.remove(&entry.key));
    }

    fn via(&self, transport: Transport, branch: &str) -> Via {
        Via::new(transport, &host(self.local), self.local.port(), branch)
    }

    fn id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Returns the host of an address as URIs and Via write it.
pub(crate) fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

fn deadline_of(
    clients: &HashMap<ClientId, ClientEntry>,
    servers: &HashMap<ServerId, ServerEntry>,
    timer: Timer,
) -> Option<Time> {
    match timer {
        Timer::Client(client) => clients.get(&client).map(|entry| entry.machine.deadline()),
        Timer::Server(server) => servers.get(&server).map(|entry| entry.machine.deadline()),
    }
}

/// Notes the source in Via and returns the destination of responses (RFC 3581).
fn note_source(message: &mut Message, from: Peer) -> Peer {
    let Some(mut via) = message.headers.via() else { return from };
    let source = from.address.ip().to_string();
    let asks_for_port = via.params.get("rport").is_some();
    if asks_for_port || via.host.trim_matches(['[', ']']) != source {
        via.params.set("received", Some(&source));
    }
    if asks_for_port {
        via.params.set("rport", Some(&from.address.port().to_string()));
    }
    let port = if asks_for_port { from.address.port() } else { via.port.unwrap_or(5060) };
    message.headers.replace_item(name::VIA, via);
    let address =
        if from.transport.is_reliable() { from.address } else { SocketAddr::new(from.address.ip(), port) };
    Peer { address, ..from }
}

/// Returns a request that repeats the identity of another (RFC 3261 9.1, 17.1.1.3).
fn same_branch(request: &Message, method: Method) -> Option<Message> {
    let mut message = Message::request(method.clone(), request.uri()?.clone());
    message.headers.push(name::VIA, request.headers.via()?);
    for field in [name::FROM, name::TO, name::CALL_ID] {
        message.headers.push(field, request.headers.get(field)?);
    }
    message.headers.push(name::CSEQ, format!("{} {method}", request.cseq()?.number));
    for route in request.headers.all(name::ROUTE) {
        message.headers.push(name::ROUTE, route);
    }
    Some(message)
}

/// Returns the ACK of a failure, which has the tag of the response.
fn ack_of_failure(request: &[u8], response: &Message) -> Vec<u8> {
    let ack = Message::parse(request).ok().and_then(|invite| {
        let mut ack = same_branch(&invite, Method::ACK)?;
        ack.headers.set(name::TO, response.headers.get(name::TO)?);
        ack.headers.push(name::MAX_FORWARDS, 70);
        Some(ack.emit())
    });
    ack.unwrap_or_default()
}
