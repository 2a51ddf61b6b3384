//! Joint of two emulators that each run one part of a network, over UDP.
//!
//! A [`Joint`] greets the other machine ([`Joint::meet`]), measures path and clocks, agrees on the instant of the start
//! ([`Joint::agree_on_start`]), and then carries packets with the instants that they are due. All datagrams are authenticated by a
//! key that both have; `frame` has their form.

mod clocks;
pub mod frame;
mod replay;
mod settings;

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bentpipe_net::Packet;
use bentpipe_units::{Span, Time};

use crate::Monotonic;
use crate::datagrams::{Inbox, Outbox, grow_receive_buffer};
use clocks::Clocks;
pub use clocks::{Path, Skew};
use frame::{Frame, Hello, Key, Probe, Sealed, Session};
use replay::Window;
pub use settings::{JoinError, Joining, read_key};

/// Time between probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Number of answered probes after which the path counts as measured.
const PROBES: usize = 20;

/// Silence of the other machine that ends the emulation.
pub const MAX_SILENCE: Duration = Duration::from_secs(30);

/// Silence of the other machine before the start, while it builds its network.
const MAX_PREPARATION: Duration = Duration::from_secs(300);

/// Time between the agreement on a start and the start.
const LEAD: Duration = Duration::from_millis(500);

/// Longest datagram: an IP packet and the frame around it.
const MAX_DATAGRAM: usize = 65_507;

/// Receive buffer of the socket in bytes.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Counts of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub received: u64,
    /// Datagrams that the kernel did not take, and packets that are too long for one.
    pub refused: u64,
    /// Datagrams that are not of this protocol.
    pub malformed: u64,
    /// Datagrams with another key.
    pub forged: u64,
    /// Datagrams received twice, or too old to know.
    pub replayed: u64,
    /// Packets of the other machine that have not come.
    pub missing: u64,
}

/// Joint with the emulator of the other part.
pub struct Joint {
    socket: UdpSocket,
    key: Key,
    joining: Joining,
    nonce: [u8; 32],
    session: Option<Session>,
    window: Window,
    /// Instant that this machine's timestamps count from.
    epoch: Instant,
    clocks: Clocks,
    next_probe: Instant,
    last_contact: Instant,
    /// Last probe of the other machine, and when it came.
    last: Option<(Probe, i64)>,
    is_measured: bool,
    is_ready: bool,
    /// Start of the run, by this machine's timestamps.
    start: Option<i64>,
    counts: Counts,
    /// Datagrams before the run that were not read.
    unread: u64,
    inbox: Inbox,
    outbox: Outbox,
    arrived: VecDeque<(u64, Time, Packet)>,
    stop: Arc<AtomicBool>,
    ended: Option<Ending>,
}

/// Reason for the end of a joint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The other machine has ended its part.
    ByOther,
    /// Silence of the other machine.
    Silence,
}

impl Joint {
    /// Greets the other machine until it answers, and measures the path. `stop` ends it early.
    ///
    /// # Errors
    /// Returns an error if the socket cannot be opened, the other machine emulates something else, or the wait is stopped.
    pub fn meet(joining: Joining, key: Key, stop: Arc<AtomicBool>) -> Result<Joint, JoinError> {
        let socket = UdpSocket::bind(joining.bind).map_err(|error| JoinError::Socket(joining.bind, error))?;
        let of_peer = |error| JoinError::Socket(joining.peer, error);
        socket.connect(joining.peer).map_err(of_peer)?;
        socket.set_nonblocking(true).map_err(of_peer)?;
        let _ = grow_receive_buffer(&socket, RECEIVE_BUFFER);
        let mut nonce = [0; 32];
        getrandom::fill(&mut nonce).map_err(|_| JoinError::NoRandomness)?;
        let now = Instant::now();
        let mut joint = Joint {
            socket,
            key,
            nonce,
            session: None,
            window: Window::default(),
            epoch: now,
            clocks: Clocks::new(joining.skew),
            next_probe: now,
            last_contact: now,
            last: None,
            is_measured: false,
            is_ready: false,
            start: None,
            counts: Counts::default(),
            unread: 0,
            inbox: Inbox::new(MAX_DATAGRAM),
            outbox: Outbox::new(),
            arrived: VecDeque::new(),
            stop,
            ended: None,
            joining,
        };
        joint.wait_for(|joint| {
            joint.is_measured = joint.clocks.count() >= PROBES;
            joint.is_measured && joint.last.is_some_and(|(probe, _)| probe.is_measured)
        })?;
        // The other machine needs to know it too, and a datagram may be lost.
        (0..3).for_each(|_| joint.probe());
        Ok(joint)
    }

    /// Returns what is known of the path.
    pub fn path(&self) -> Path {
        self.clocks.path()
    }

    /// Waits until both machines are ready, and returns the clock of the run. It is zero until the start.
    ///
    /// # Errors
    /// Returns an error if the other machine is silent, or the wait is stopped.
    pub fn agree_on_start(&mut self) -> Result<Monotonic, JoinError> {
        // What came while the network was built waited in the socket, and measures that.
        self.discard()?;
        self.is_ready = true;
        self.last_contact = Instant::now();
        let leads = self.joining.side == 0;
        self.wait_for(|joint| {
            let Some((last, _)) = joint.last else { return false };
            match (leads, joint.start) {
                (true, None) if last.is_ready => {
                    joint.start = Some(joint.stamp() + LEAD.as_nanos() as i64);
                    joint.probe();
                    false
                }
                (true, Some(_)) => last.start.is_some(),
                (false, None) => {
                    joint.start = last.start.map(|start| start - joint.clocks.offset());
                    joint.probe();
                    joint.start.is_some()
                }
                _ => false,
            }
        })?;
        self.unread = self.window.missing();
        let start = self.start.unwrap_or_default();
        let real = self.clocks.unskewed(start).max(0) as u64;
        Ok(Monotonic::from_instant(self.epoch + Duration::from_nanos(real))
            .skewed(self.joining.skew.drift_ppm))
    }

    /// Serves the socket until `done` is true.
    fn wait_for(&mut self, mut done: impl FnMut(&mut Joint) -> bool) -> Result<(), JoinError> {
        let begin = Instant::now();
        loop {
            self.exchange(None)?;
            if done(self) {
                return Ok(());
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(JoinError::Stopped);
            }
            if self.session.is_some() && self.last_contact.elapsed() > MAX_PREPARATION {
                return Err(JoinError::Silent(self.joining.peer));
            }
            if self.session.is_none() && begin.elapsed() > self.joining.max_wait {
                return Err(self.no_answer());
            }
            let _ = crate::poll::wait([std::os::fd::AsFd::as_fd(&self.socket)], Span::from_millis(5));
        }
    }

    fn no_answer(&self) -> JoinError {
        match self.counts.forged {
            0 => JoinError::NoAnswer(self.joining.peer),
            forged => JoinError::OtherKey(self.joining.peer, forged),
        }
    }

    /// Drops the datagrams that wait.
    fn discard(&mut self) -> Result<(), JoinError> {
        while self.inbox.receive(&self.socket).map_err(|error| JoinError::Socket(self.joining.peer, error))?
            > 0
        {}
        Ok(())
    }

    /// Nanoseconds of this machine's clock.
    fn stamp(&self) -> i64 {
        self.clocks.skewed(i64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(i64::MAX))
    }

    /// Receives what waits and sends what is due.
    fn exchange(&mut self, now: Option<Time>) -> Result<(), JoinError> {
        match self.inbox.receive(&self.socket) {
            Ok(0) => {}
            Ok(_) => self.open_all(now)?,
            // No socket listens there yet, or for a while.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(_) => self.counts.malformed += 1,
        }
        if self.next_probe <= Instant::now() {
            self.next_probe = Instant::now() + PROBE_INTERVAL;
            self.probe();
        }
        Ok(())
    }

    /// Sends a greeting, or a probe within a session.
    fn probe(&mut self) {
        let stamp = self.stamp();
        match self.session.as_mut() {
            None => self.greet([0; 32]),
            Some(session) => {
                let echo = self.last.map(|(probe, came)| (probe.stamp, came));
                let (is_measured, is_ready, start) = (self.is_measured, self.is_ready, self.start);
                let probe = Probe { stamp, echo, is_measured, is_ready, start };
                let frame = session.seal(&Frame::Probe(probe));
                self.send_now(&frame);
            }
        }
    }

    fn greet(&mut self, echo: [u8; 32]) {
        let Joining { side, fingerprint, .. } = self.joining;
        let hello = Hello { side, fingerprint, nonce: self.nonce, echo };
        let frame = hello.seal(&self.key);
        self.send_now(&frame);
    }

    fn send_now(&mut self, frame: &[u8]) {
        self.outbox.datagram(None, frame.len()).copy_from_slice(frame);
        self.send_waiting();
    }

    fn send_waiting(&mut self) {
        let sent = self.outbox.send(&self.socket);
        self.counts.refused += sent.refused as u64;
    }

    /// Opens the datagrams of the inbox.
    fn open_all(&mut self, now: Option<Time>) -> Result<(), JoinError> {
        let inbox = std::mem::replace(&mut self.inbox, Inbox::new(0));
        let opened = inbox.iter().try_for_each(|datagram| self.open(datagram.bytes, now));
        self.inbox = inbox;
        opened
    }

    fn open(&mut self, bytes: &[u8], now: Option<Time>) -> Result<(), JoinError> {
        match frame::parse(bytes) {
            None => self.counts.malformed += 1,
            Some(Sealed::Hello(hello)) => return self.answer(&hello),
            Some(Sealed::Of(sealed)) => {
                let Some(session) = &self.session else { return Ok(()) };
                match session.open(&sealed) {
                    None => self.counts.forged += 1,
                    Some(_) if !self.window.accept(sealed.number) => self.counts.replayed += 1,
                    Some(frame) => self.take(frame, sealed.number, now),
                }
            }
        }
        Ok(())
    }

    /// Answers a greeting. One that has this machine's number of use is fresh, and begins the session.
    fn answer(&mut self, hello: &frame::SealedHello<'_>) -> Result<(), JoinError> {
        let Some(hello) = hello.open(&self.key) else {
            self.counts.forged += 1;
            return Ok(());
        };
        let is_fresh = hello.echo == self.nonce;
        if self.session.is_none() {
            if hello.nonce == self.nonce {
                // Its own, sent back.
                self.counts.replayed += 1;
                return Ok(());
            }
            if is_fresh {
                if let Err(refusal) = self.compare(&hello) {
                    // The other machine refuses too once it knows that this greeting is fresh; a datagram may be lost.
                    (0..3).for_each(|_| self.greet(hello.nonce));
                    return Err(refusal);
                }
                self.session = Some(Session::new(&self.key, self.nonce, hello.nonce));
                self.last_contact = Instant::now();
                self.next_probe = Instant::now();
            }
        } else if is_fresh && self.session.as_ref().is_some_and(|session| session.is_of(hello.nonce)) {
            // The other machine did not get the answer to its greeting yet.
        } else if is_fresh {
            self.counts.replayed += 1;
            return Ok(());
        }
        if !is_fresh || self.last.is_none() {
            self.greet(hello.nonce);
        }
        Ok(())
    }

    fn compare(&self, hello: &Hello) -> Result<(), JoinError> {
        if hello.fingerprint != self.joining.fingerprint {
            return Err(JoinError::OtherScenario(self.joining.peer));
        }
        if hello.side == self.joining.side {
            return Err(JoinError::SamePart(self.joining.peer));
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame<'_>, number: u64, now: Option<Time>) {
        self.last_contact = Instant::now();
        match frame {
            Frame::Probe(probe) => {
                let came = self.stamp();
                if let Some((mine, theirs)) = probe.echo {
                    self.clocks.record(mine, theirs, probe.stamp, came);
                }
                self.last = Some((probe, came));
            }
            Frame::Data { due, packet } => {
                let (Some(start), Some(now)) = (self.start, now) else { return };
                self.counts.received += 1;
                let due = due.saturating_sub(self.clocks.offset()).saturating_sub(start);
                // An instant far from now is a clock's fault, and would keep the packet for good.
                let latest = now.since(Time::ZERO).as_nanos() as i64 + 3_600_000_000_000;
                let due = Time::from_nanos(due.clamp(0, latest) as u64);
                self.arrived.push_back((number, due, Packet::from_bytes(packet)));
            }
            Frame::Bye => self.end(Ending::ByOther),
        }
    }

    fn end(&mut self, ending: Ending) {
        self.ended.get_or_insert(ending);
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Receives packets, each with its number and due time.
    pub(crate) fn receive(&mut self, now: Time) -> impl Iterator<Item = (u64, Time, Packet)> + '_ {
        // Errors of greetings do not end a run.
        let _ = self.exchange(Some(now));
        if self.last_contact.elapsed() > MAX_SILENCE {
            self.end(Ending::Silence);
        }
        self.arrived.drain(..)
    }

    /// Sends a packet that is due at `due` of the run.
    pub(crate) fn send(&mut self, due: Time, packet: &[u8]) {
        let (Some(start), Some(session)) = (self.start, self.session.as_mut()) else { return };
        let due = start.saturating_add(i64::try_from(due.since(Time::ZERO).as_nanos()).unwrap_or(i64::MAX));
        let frame = Frame::Data { due, packet };
        let len = frame.sealed_len();
        if len > MAX_DATAGRAM {
            self.counts.refused += 1;
            return;
        }
        session.seal_into(&frame, self.outbox.datagram(None, len));
        self.counts.sent += 1;
    }

    /// Sends the packets that wait to be sent together.
    pub(crate) fn flush(&mut self) {
        if !self.outbox.is_empty() {
            self.send_waiting();
        }
    }

    /// Returns the counts of datagrams.
    pub fn counts(&self) -> Counts {
        Counts { missing: self.window.missing().saturating_sub(self.unread), ..self.counts }
    }

    /// Returns why the joint has ended, if it has.
    pub fn ended(&self) -> Option<Ending> {
        self.ended
    }

    /// Returns the socket, to wait for datagrams.
    pub(crate) fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// Returns the other machine's address.
    pub fn peer(&self) -> SocketAddr {
        self.joining.peer
    }
}

impl Drop for Joint {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            // One may be lost on the way.
            for _ in 0..3 {
                let frame = session.seal(&Frame::Bye);
                let _ = self.socket.send(&frame);
            }
        }
    }
}

#[cfg(test)]
mod tests;
