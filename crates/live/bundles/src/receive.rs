//! Bundles received without a node: checked, acknowledged, and given to the caller.

use std::collections::{HashSet, VecDeque};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_dtn::session::{Config, Event};
use bentpipe_emu::{Clock, Monotonic};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::KEEP_ALIVE;
use bentpipe_wire::dtn::bundle::Bundle;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::mtcp;
use bentpipe_wire::dtn::tcpcl::refusal;
use rustix::event::PollFlags;

use crate::Layer;
use crate::client::{Access, Client, is_of_guest};
use crate::link::{Link, Progress, READ, SessionLink, wait};
use crate::stream::{TURN, is_idle, step};
use crate::tls::Security;

/// Settings of a receiver.
#[derive(Clone, Debug)]
pub struct Receiving {
    /// Local address.
    pub at: SocketAddr,
    /// Convergence layer.
    pub layer: Layer,
    /// Endpoint of this node, for TCPCL.
    pub node: Eid,
    /// TLS on TCPCL.
    pub security: Security,
    /// Number of bundles after which it ends.
    pub count: Option<u64>,
    /// Longest bundle that is accepted, in bytes.
    pub longest: u64,
}

/// Arrival at a receiver.
#[derive(Clone, Debug)]
pub enum Arrival<'a> {
    /// Bundle and its encoded length.
    Bundle(&'a Bundle, usize),
    /// Bundle that breaks a rule, with the reason, or a connection that failed.
    Refused(&'a str),
}

/// Receives bundles and returns the number of those refused.
///
/// It ends when the count is reached or `stop` is set. Of many connections the one that is silent for longest gives way.
///
/// # Errors
/// Returns an error if the address cannot be used, or the first that `take` returns.
pub fn receive(
    receiving: &Receiving,
    stop: &AtomicBool,
    take: &mut dyn FnMut(Arrival<'_>) -> Result<(), String>,
) -> Result<u64, String> {
    let mut inbox = Inbox { receiving, stop, take, received: 0, refused: 0 };
    match receiving.layer {
        Layer::Udp => inbox.datagrams()?,
        Layer::Mtcp | Layer::Tcpcl => inbox.connections()?,
    }
    Ok(inbox.refused)
}

/// Connections at once. Each can hold a bundle that is not whole.
const MOST_CONNECTIONS: usize = 16;

/// Bundles that are remembered, to recognise one that a node delivers again after a crash.
const MEMORY: usize = 100_000;

/// Receives the bundles of an endpoint from its node, each once.
///
/// It connects again after a break, and ends when `count` bundles have come or `stop` is set. Bundles of more than `longest` bytes stay at the node.
///
/// # Errors
/// Returns an error if the node cannot be reached at first, or the first that `take` returns.
pub fn receive_via(
    node: &Access,
    endpoint: &Eid,
    (count, longest): (Option<u64>, u64),
    stop: &AtomicBool,
    take: &mut dyn FnMut(Arrival<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut client = Some(Client::connect_deferred(node, endpoint, longest)?);
    let (mut known, mut order) = (HashSet::new(), VecDeque::new());
    let mut received = 0;
    while !stop.load(Ordering::Relaxed) && count.is_none_or(|count| received < count) {
        let Some(connected) = &mut client else {
            std::thread::sleep(4 * TURN);
            client = Client::connect_deferred(node, endpoint, longest).ok();
            continue;
        };
        let ended = connected.turn(Span::from_millis(50)).err();
        while count.is_none_or(|count| received < count)
            && let Some(bundle) = connected.receive()
        {
            // Bundles of the null source have no identity.
            let is_nameless = bundle.primary.source.is_null();
            // A guest can state the identity of a bundle that another one is to bring.
            let key = (bundle.key(), is_of_guest(&bundle));
            if is_nameless || known.insert(key.clone()) {
                order.extend((!is_nameless).then_some(key));
                received += 1;
                take(Arrival::Bundle(&bundle, bundle.encoded_len() as usize))?;
            }
            connected.accept();
            if order.len() > MEMORY
                && let Some(key) = order.pop_front()
            {
                known.remove(&key);
            }
        }
        if ended.is_some() {
            client = None;
        }
    }
    client.into_iter().for_each(Client::close);
    Ok(())
}

struct Inbox<'a> {
    receiving: &'a Receiving,
    stop: &'a AtomicBool,
    take: &'a mut dyn FnMut(Arrival<'_>) -> Result<(), String>,
    received: u64,
    refused: u64,
}

impl Inbox<'_> {
    fn is_over(&self) -> bool {
        self.receiving.count.is_some_and(|count| self.received >= count) || self.stop.load(Ordering::Relaxed)
    }

    /// Checks an encoded bundle and gives it to the caller.
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        match Bundle::receive(bytes) {
            Ok(bundle) => {
                self.received += 1;
                (self.take)(Arrival::Bundle(&bundle, bytes.len()))
            }
            Err(malformed) => {
                self.refused += 1;
                let problem = format!("bundle of {} B refused: {}", bytes.len(), malformed.flaw);
                (self.take)(Arrival::Refused(&problem))
            }
        }
    }

    /// Accepts a bundle, or returns the reason for which it is refused.
    ///
    /// Its sender keeps what comes after the last one that is wanted.
    fn answer(&mut self, bytes: &[u8]) -> Result<Option<u8>, String> {
        if self.is_over() {
            return Ok(Some(refusal::NO_RESOURCES));
        }
        let refused = self.refused;
        self.take(bytes)?;
        Ok((self.refused > refused).then_some(refusal::NOT_ACCEPTABLE))
    }

    fn datagrams(&mut self) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.receiving.at);
        let socket = UdpSocket::bind(self.receiving.at).map_err(wrong)?;
        socket.set_read_timeout(Some(TURN)).map_err(|error| error.to_string())?;
        let mut buffer = vec![0; 1 << 16];
        while !self.is_over() {
            match socket.recv(&mut buffer) {
                Ok(len) if buffer[..len] == KEEP_ALIVE => {}
                Ok(len) => self.take(&buffer[..len])?,
                Err(error) if is_idle(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn connections(&mut self) -> Result<(), String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.receiving.at);
        let listener = TcpListener::bind(self.receiving.at).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        let (clock, mut peers) = (Monotonic::start(), Vec::new());
        // Sessions end in words: what is wanted no more is refused, not lost.
        while !self.is_over() || peers.iter().any(|peer: &Peer| peer.session().is_some()) {
            let door = (!self.is_over()).then(|| (listener.as_fd(), PollFlags::IN));
            wait(door.into_iter().chain(peers.iter().map(Peer::interest)), Span::from_millis(50));
            if !self.is_over() {
                self.admit(&listener, &clock, &mut peers)?;
            }
            let mut kept = Vec::with_capacity(peers.len());
            for mut peer in peers {
                match self.serve(&mut peer, &clock) {
                    Ok(true) => kept.push(peer),
                    Ok(false) => {}
                    // A connection that fails ends itself alone.
                    Err(problem) => (self.take)(Arrival::Refused(&problem))?,
                }
            }
            peers = kept;
        }
        Ok(())
    }

    /// Accepts connections that wait.
    fn admit(
        &mut self,
        listener: &TcpListener,
        clock: &Monotonic,
        peers: &mut Vec<Peer>,
    ) -> Result<(), String> {
        loop {
            let (stream, address) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_idle(&error) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let silent = peers.iter().enumerate().min_by_key(|(_, peer)| peer.last);
            if peers.len() >= MOST_CONNECTIONS
                && let Some((place, _)) = silent
            {
                peers.swap_remove(place);
                (self.take)(Arrival::Refused("a connection gives way: it was silent for longest"))?;
            }
            match self.peer(stream, address.ip(), clock) {
                Ok(peer) => peers.push(peer),
                // It has gone again.
                Err(error) => (self.take)(Arrival::Refused(&error.to_string()))?,
            }
        }
    }

    fn peer(&self, stream: TcpStream, address: IpAddr, clock: &Monotonic) -> std::io::Result<Peer> {
        let (link, now) = (Link::new(stream)?, clock.now());
        let talk = match self.receiving.layer {
            Layer::Tcpcl => {
                let node = self.receiving.node.node().to_string();
                let transfer_mru = self.receiving.longest;
                let config = Config { is_deferred: true, transfer_mru, ..Config::new(node) };
                let security = &self.receiving.security;
                let secure = security.passive(address);
                Talk::Session(Box::new(SessionLink::new(config, security.policy(), link, secure, now)))
            }
            Layer::Mtcp | Layer::Udp => Talk::Mtcp(link, Vec::new()),
        };
        Ok(Peer { talk, last: now })
    }

    /// Receives what a connection brings. Returns `false` at its end.
    fn serve(&mut self, peer: &mut Peer, clock: &Monotonic) -> Result<bool, String> {
        let before = self.received + self.refused;
        let is_open = match &mut peer.talk {
            Talk::Mtcp(link, input) => self.mtcp(link, input),
            Talk::Session(connection) => self.tcpcl(connection, clock),
        };
        if self.received + self.refused > before {
            peer.last = clock.now();
        }
        is_open
    }

    fn mtcp(&mut self, link: &mut Link, input: &mut Vec<u8>) -> Result<bool, String> {
        let take = &mut |bytes: &[u8]| {
            input.extend(bytes);
            true
        };
        let progress = link.read(READ, take).map_err(|error| error.to_string())?;
        while !self.is_over()
            && let Some((len, head)) =
                mtcp::read_head(input, self.receiving.longest).map_err(|error| error.to_string())?
        {
            if input.len() < head + len {
                break;
            }
            // An empty string is a sign of life, as dtn7-go sends it.
            if len > 0 {
                self.take(&input[head..head + len])?;
            }
            input.drain(..head + len);
        }
        Ok(progress != Progress::Closed)
    }

    fn tcpcl(&mut self, connection: &mut SessionLink, clock: &Monotonic) -> Result<bool, String> {
        let is_open = step(connection, clock)?;
        while let Some(event) = connection.session.poll_event() {
            if let Event::Received(bundle) = event {
                match self.answer(&bundle)? {
                    None => connection.session.accept(),
                    Some(reason) => connection.session.decline(reason),
                }
            }
        }
        if self.is_over() {
            connection.session.end(0);
        }
        connection.write(clock.now())?;
        Ok(is_open)
    }
}

/// Connection of a sender.
struct Peer {
    talk: Talk,
    /// Instant of its beginning or of its last bundle.
    last: Time,
}

enum Talk {
    /// MTCP, with the bytes of a bundle that is not whole.
    Mtcp(Link, Vec<u8>),
    Session(Box<SessionLink>),
}

impl Peer {
    fn session(&self) -> Option<&SessionLink> {
        match &self.talk {
            Talk::Mtcp(..) => None,
            Talk::Session(connection) => Some(connection),
        }
    }

    fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        match &self.talk {
            Talk::Mtcp(link, _) => link.interest(),
            Talk::Session(connection) => connection.interest(),
        }
    }
}
