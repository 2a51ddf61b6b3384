//! Application at a bundle node: a TCPCL session whose node identifier is the application's endpoint.
//!
//! A node of this project hands it the bundles of its endpoint, and keeps them while it is away. To other nodes it is a neighbour.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use bentpipe_dtn::session::{Config, Event};
use bentpipe_emu::{Clock, Monotonic};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::{Bundle, BundleFlags, Content, HopCount, Payload, Primary, Timestamp};
use bentpipe_wire::dtn::crc::CrcKind;
use bentpipe_wire::dtn::eid::Eid;
use bentpipe_wire::dtn::tcpcl::refusal;

use rustix::event::PollFlags;

use crate::clock::dtn_time;
use crate::link::{Link, Progress, READ, SessionLink, wait};
use crate::tls::Security;
use crate::{host, resolve};

/// Longest wait at a time for the next millisecond of the clock.
const TICK: Span = Span::from_micros(200);
/// Longest bundle that is taken by default, as in a node file without `max_bundle`.
pub const LONGEST: u64 = 64_000_000;
/// Time within which the session must be established.
const SET_UP: Span = Span::from_secs(10);

/// Room for the blocks of a bundle in addition to its payload.
pub(crate) const HEADERS: u64 = 1 << 16;

/// Options of bundles that an application sends.
#[derive(Clone, Debug)]
pub struct Letter {
    /// Destination endpoint.
    pub to: Eid,
    /// Lifetime in milliseconds.
    pub lifetime: u64,
    /// Hop limit.
    pub hops: u8,
    /// Flags, such as the reports asked for.
    pub flags: BundleFlags,
}

/// Address of a node, and TLS of the sessions with it.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Address, as "HOST:PORT".
    pub place: String,
    /// TLS. An application has the certificate of its node.
    pub security: Security,
}

impl<T: Into<String>> From<T> for Access {
    fn from(place: T) -> Access {
        Access { place: place.into(), security: Security::default() }
    }
}

/// Returns the words for a reason of a refusal (RFC 9174, section 5.2.4).
fn refused(reason: u8) -> String {
    let text = match reason {
        refusal::COMPLETED => "it has the bundle already",
        refusal::NO_RESOURCES => "its storage is full",
        refusal::RETRANSMIT => "expected it to be sent again",
        refusal::NOT_ACCEPTABLE => "expected a source endpoint at the node, such as ipn:1.50 at ipn:1.0",
        refusal::EXTENSION => "an extension that it does not know",
        refusal::TERMINATING => "the session ends",
        _ => return format!("reason {reason}"),
    };
    text.to_owned()
}

/// Returns `true` if a guest brought a bundle to the node.
///
/// What it states of its source is a claim then. A node of this project says so by the block of the previous node, and stands for others itself.
pub(crate) fn is_of_guest(bundle: &Bundle) -> bool {
    bundle.previous_node() == Some(Eid::None)
}

/// Application at a node.
pub struct Client {
    connection: SessionLink,
    endpoint: Eid,
    clock: Monotonic,
    sequence: u64,
    received: VecDeque<Bundle>,
    acknowledged: u64,
    lost: Option<String>,
    /// Bundles that came and are not acknowledged, if that is deferred.
    unaccepted: Option<usize>,
}

impl Client {
    /// Connects to a node, and waits until the session is established. Bundles of up to [`LONGEST`] bytes are taken.
    ///
    /// # Errors
    /// Returns an error if the node does not answer, or not in time.
    pub fn connect(node: &Access, endpoint: &Eid) -> Result<Client, String> {
        Client::open(node, endpoint, false, LONGEST)
    }

    /// Connects as [`Client::connect`], and takes no bundle longer than `longest` bytes.
    ///
    /// # Errors
    /// Returns an error if the node does not answer, or not in time.
    pub fn connect_for(node: &Access, endpoint: &Eid, longest: u64) -> Result<Client, String> {
        Client::open(node, endpoint, false, longest)
    }

    /// Connects as [`Client::connect_for`]. A bundle is acknowledged when [`Client::accept`] is called for it.
    ///
    /// # Errors
    /// Returns an error if the node does not answer, or not in time.
    pub fn connect_deferred(node: &Access, endpoint: &Eid, longest: u64) -> Result<Client, String> {
        Client::open(node, endpoint, true, longest)
    }

    fn open(node: &Access, endpoint: &Eid, is_deferred: bool, longest: u64) -> Result<Client, String> {
        let Access { place, security } = node;
        let begun = dtn_time();
        let address: SocketAddr = resolve(place)?;
        let wrong = |error: std::io::Error| format!("{place}: {error}");
        let link = Link::connect(address).map_err(wrong)?;
        let clock = Monotonic::start();
        let secure = security.active(host(place), address.ip());
        let config = Config { is_deferred, transfer_mru: longest, ..Config::new(endpoint.to_string()) };
        let mut client = Client {
            connection: SessionLink::new(config, security.policy(), link, secure, clock.now()),
            endpoint: endpoint.clone(),
            clock,
            sequence: 0,
            received: VecDeque::new(),
            acknowledged: 0,
            lost: None,
            unaccepted: is_deferred.then_some(0),
        };
        while !client.connection.session.is_established() {
            client.turn(Span::from_millis(50)).map_err(|problem| format!("{place}: {problem}"))?;
            if client.now() > Time::ZERO + SET_UP {
                return Err(format!("{place}: no answer in {} s", SET_UP.as_secs_f64()));
            }
        }
        // A client before this one may have sent from the same endpoint in this millisecond, and numbers begin again.
        while dtn_time() <= begun {
            client.turn(TICK).map_err(|problem| format!("{place}: {problem}"))?;
        }
        Ok(client)
    }

    /// Returns the time since the connection began.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the number of sent bundles that the node has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the number of sent bundles that the node has not acknowledged.
    pub fn pending(&self) -> usize {
        self.connection.session.pending()
    }

    /// Returns a creation timestamp that no other bundle of the application has.
    fn timestamp(&mut self) -> Timestamp {
        self.sequence += 1;
        Timestamp { time: dtn_time(), sequence: self.sequence }
    }

    /// Sends a payload and returns the creation timestamp of its bundle.
    ///
    /// # Errors
    /// Returns an error if the node accepts no bundle of this length.
    pub fn send(&mut self, letter: &Letter, payload: Vec<u8>) -> Result<Timestamp, String> {
        let stamp = self.timestamp();
        let mut primary = Primary::new(self.endpoint.clone(), letter.to.clone(), stamp, letter.lifetime);
        primary.flags = letter.flags;
        if letter.flags.has(BundleFlags::ANY_REPORT) {
            primary.report_to = self.endpoint.clone();
        }
        let payload = Payload { crc: CrcKind::Castagnoli, ..Payload::new(payload) };
        let mut bundle = Bundle { primary, blocks: vec![], payload };
        bundle.set(Content::HopCount(HopCount { limit: letter.hops, count: 0 }));
        let bytes = bundle.to_vec();
        let len = bytes.len();
        match self.connection.session.send(bytes) {
            Some(_) => Ok(stamp),
            None => Err(format!("the node accepts no bundle of {len} B")),
        }
    }

    /// Writes, and waits until the session or another descriptor is ready, for at most `longest`.
    pub(crate) fn wait_with<'fd>(
        &'fd mut self,
        others: impl IntoIterator<Item = (BorrowedFd<'fd>, PollFlags)>,
        longest: Span,
    ) {
        let now = self.now();
        self.write(now);
        if self.received.is_empty() {
            wait([self.connection.interest()].into_iter().chain(others), longest);
        }
    }

    /// Sends and receives for at most `longest`.
    ///
    /// # Errors
    /// Returns an error if the session has ended.
    pub fn turn(&mut self, longest: Span) -> Result<(), String> {
        let now = self.now();
        self.write(now);
        if self.received.is_empty() {
            wait([self.connection.interest()], longest);
        }
        let now = self.now();
        match self.connection.read(READ, now) {
            Ok(Progress::Idle | Progress::More) => {}
            Ok(Progress::Closed) => {
                self.lost.get_or_insert("closed by the peer".to_owned());
            }
            Err(problem) => {
                self.lost.get_or_insert(problem);
            }
        }
        while let Some(event) = self.connection.session.poll_event() {
            match event {
                Event::Received(bytes) => {
                    self.unaccepted.iter_mut().for_each(|count| *count += 1);
                    self.received.extend(Bundle::parse(&bytes).ok());
                }
                Event::Sent(_) => self.acknowledged += 1,
                Event::Refused(_, reason) => {
                    self.lost.get_or_insert(format!("the node refused a bundle: {}", refused(reason)));
                }
                Event::Ended => {
                    // A node ends the session of an endpoint that is not its own, before it accepts a bundle.
                    let is_early = self.acknowledged == 0 && now < Time::ZERO + SET_UP;
                    let text = if is_early {
                        "the node has ended the session at once: expected an endpoint at the node that no service of its own has, such as ipn:1.50 at ipn:1.0"
                    } else {
                        "the session has ended"
                    };
                    self.lost.get_or_insert(text.to_owned());
                }
                Event::Established(_) | Event::Cut(_) | Event::Failed(..) => {}
            }
        }
        self.write(now);
        self.lost.clone().map_or(Ok(()), Err)
    }

    fn write(&mut self, now: Time) {
        if let Err(problem) = self.connection.write(now) {
            self.lost.get_or_insert(problem);
        }
    }

    /// Removes and returns the next received bundle.
    pub fn receive(&mut self) -> Option<Bundle> {
        self.received.pop_front()
    }

    /// Sets if nothing more is read of the node.
    pub(crate) fn hold(&mut self, is_held: bool) {
        self.connection.is_held = is_held;
    }

    /// Acknowledges the first of the bundles that came, if that is deferred.
    pub fn accept(&mut self) {
        if let Some(count) = self.unaccepted.as_mut().filter(|count| **count > 0) {
            *count -= 1;
            self.connection.session.accept();
        }
    }

    /// Ends the session in order, for at most a second. The node keeps bundles that are not acknowledged.
    pub fn close(mut self) {
        for _ in 0..self.unaccepted.take().unwrap_or(0) {
            self.connection.session.decline(refusal::NO_RESOURCES);
        }
        self.connection.session.end(0);
        let until = self.now() + Span::from_secs(1);
        while self.turn(Span::from_millis(50)).is_ok() && self.now() < until {}
    }
}
