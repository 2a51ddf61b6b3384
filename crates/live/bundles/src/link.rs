//! TCP connection that does not block, and the TCPCL session over it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bentpipe_dtn::session::{Config, Session, Tls};
use bentpipe_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::tls::{Policy, Secure};

/// Bytes read of a connection before others have their turn.
pub(crate) const READ: usize = 1 << 20;
/// Bytes read of a connection at a time.
const PIECE: usize = 1 << 16;
/// Bytes of answers that wait for a peer before no more is read of it.
///
/// A node of this project has 2,000 bundles and 8 MiB on their way, of which the acknowledgements have 54 kB: two of them never wait for each other.
const UNANSWERED: usize = 1 << 17;
/// Bytes that wait for the kernel before more are made.
const ENOUGH: usize = 1 << 18;

/// Bytes that the kernel takes of a connection before it can send them.
const UNSENT: u32 = 256 << 10;

/// Connection that does not block.
pub(crate) struct Link {
    stream: TcpStream,
    waiting: Vec<u8>,
    /// Bytes of `waiting` that the kernel has.
    written: usize,
    /// Bytes that the kernel has taken since the beginning.
    taken: u64,
}

/// State of a connection after reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The input is empty, or many answers wait.
    Idle,
    /// More may have arrived.
    More,
    /// The peer has closed the connection.
    Closed,
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        let _ = stream.set_nodelay(true);
        // What is on its way has the room that its path needs; the rest waits here, where it is bounded.
        SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT)?;
        Ok(Link { stream, waiting: Vec::new(), written: 0, taken: 0 })
    }

    /// Starts a connection without waiting for it.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Link> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&SockAddr::from(address)) {
            Err(error) if !is_pending(&error) => Err(error),
            _ => Link::new(socket.into()),
        }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// Returns the number of bytes that wait for the kernel.
    pub(crate) fn backlog(&self) -> usize {
        self.waiting.len() - self.written
    }

    pub(crate) fn is_full(&self) -> bool {
        self.backlog() >= ENOUGH
    }

    /// Writes waiting bytes, as many as the kernel accepts.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.written < self.waiting.len() {
            match self.stream.write(&self.waiting[self.written..]) {
                Ok(len) => {
                    self.written += len;
                    self.taken += len as u64;
                }
                Err(error) if is_wait(&error) => {
                    self.compact();
                    return self.stream.take_error()?.map_or(Ok(()), Err);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.waiting.clear();
        self.waiting.shrink_to(ENOUGH);
        self.written = 0;
        Ok(())
    }

    /// Removes written bytes once they are the larger part.
    ///
    /// A receiver that is slower than its sender never takes all: they would stay until the end of the connection.
    fn compact(&mut self) {
        if self.written >= ENOUGH && self.written >= self.backlog() {
            self.waiting.drain(..self.written);
            self.waiting.shrink_to(2 * ENOUGH);
            self.written = 0;
        }
    }

    /// Reads what has arrived, up to `most` bytes, and while `take` returns `true`.
    pub(crate) fn read(&mut self, most: usize, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<Progress> {
        let mut buffer = [0; PIECE];
        let mut total = 0;
        while total < most {
            match self.stream.read(&mut buffer[..PIECE.min(most - total)]) {
                Ok(0) => return Ok(Progress::Closed),
                Ok(len) => {
                    total += len;
                    if !take(&buffer[..len]) {
                        return Ok(Progress::Idle);
                    }
                }
                Err(error) if is_wait(&error) => return Ok(Progress::Idle),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Progress::More)
    }

    /// Returns the descriptor and the events to wait for.
    pub(crate) fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        self.interest_in(true)
    }

    /// Returns the descriptor and the events to wait for, with or without reading.
    pub(crate) fn interest_in(&self, is_reading: bool) -> (BorrowedFd<'_>, PollFlags) {
        let when = |holds: bool, flag| if holds { flag } else { PollFlags::empty() };
        (self.stream.as_fd(), when(is_reading, PollFlags::IN) | when(self.backlog() > 0, PollFlags::OUT))
    }

    /// Ends the connection by a reset when it is dropped.
    ///
    /// After an ordinary end its peer would take what it has for the whole.
    pub(crate) fn reset(&self) {
        // A connection that is gone needs no reset.
        let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
    }

    /// Ends the direction of writing.
    pub(crate) fn shut(&self) {
        // A connection that is gone has ended too.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
}

/// Returns `true` if the error says that a connection is being made.
fn is_pending(error: &io::Error) -> bool {
    error.kind() == ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error())
}

/// Session over its connection, in TLS once that is agreed on.
pub(crate) struct SessionLink {
    pub(crate) session: Session,
    pub(crate) link: Link,
    secure: Option<Secure>,
    /// Set while the owner has no room for more.
    pub(crate) is_held: bool,
    /// Bytes that the kernel had taken when it last took some, and that instant.
    taken: (u64, Time),
}

impl SessionLink {
    /// Creates a session over a connection that has just been made, or is being made.
    ///
    /// Without credentials in `secure` no TLS is offered.
    pub(crate) fn new(
        config: Config,
        policy: Policy,
        link: Link,
        secure: Option<Secure>,
        now: Time,
    ) -> SessionLink {
        let tls = if secure.is_some() { policy.into() } else { Tls::Off };
        SessionLink {
            session: Session::new(Config { tls, ..config }, now),
            link,
            secure,
            is_held: false,
            taken: (0, now),
        }
    }

    /// Returns `true` if the session was to be in TLS, or is.
    pub(crate) fn concerns_tls(&self) -> bool {
        self.secure.as_ref().is_some_and(Secure::is_begun) || self.session.refusal().is_some()
    }

    /// Returns `true` if a certificate names the node that the peer says it is.
    pub(crate) fn proves_node(&self) -> bool {
        self.session.is_established() && self.secure.as_ref().is_some_and(Secure::proves_node)
    }

    /// Returns `true` if a certificate without nodes is of a host.
    pub(crate) fn proves_host(&self, name: Option<&str>, address: Option<IpAddr>) -> bool {
        self.secure.as_ref().is_some_and(|secure| secure.proves_host(name, address))
    }

    /// Reads up to `most` bytes, and fewer of a peer for which many answers wait.
    pub(crate) fn read(&mut self, most: usize, now: Time) -> Result<Progress, String> {
        if !self.is_reading() {
            return Ok(Progress::Idle);
        }
        let SessionLink { session, link, secure, .. } = self;
        let mut refused = None;
        let progress = link.read(most, &mut |bytes| {
            match secure {
                Some(secure) if secure.is_begun() => {
                    if refused.is_none() {
                        refused = secure.receive(bytes, session, now).err();
                    }
                }
                _ => session.handle_bytes(bytes, now),
            }
            session.unanswered() < UNANSWERED
        });
        match (refused, session.refusal()) {
            (Some(problem), _) => Err(problem),
            (None, Some(refusal)) => Err(refusal.to_string()),
            (None, None) => progress.map_err(|error| error.to_string()),
        }
    }

    /// Returns `true` unless many answers wait for the peer, or its owner has no room.
    ///
    /// Each message has one. A peer that reads none of them is not read either, as its own connection says then.
    fn is_reading(&self) -> bool {
        !self.is_held && self.session.unanswered() < UNANSWERED
    }

    /// Returns the descriptor and the events to wait for.
    pub(crate) fn interest(&self) -> (BorrowedFd<'_>, PollFlags) {
        self.link.interest_in(self.is_reading())
    }

    /// Returns the instant since which the peer takes no waiting bytes.
    ///
    /// `None` if no bytes wait.
    pub(crate) fn unread_since(&mut self, now: Time) -> Option<Time> {
        if self.link.backlog() == 0 || self.link.taken > self.taken.0 {
            self.taken = (self.link.taken, now);
        }
        (self.link.backlog() > 0).then_some(self.taken.1)
    }

    /// Writes the session's output as far as the kernel accepts it.
    pub(crate) fn write(&mut self, now: Time) -> Result<(), String> {
        self.session.handle_timeout(now);
        loop {
            self.link.flush().map_err(|error| error.to_string())?;
            if self.link.is_full() {
                return Ok(());
            }
            let output = self.session.poll_output(now);
            let is_more = match &mut self.secure {
                Some(secure) => {
                    let is_plain = !secure.is_begun();
                    if is_plain {
                        self.link.put(&output);
                    } else {
                        secure.send(&output)?;
                    }
                    if is_plain && self.session.wants_tls() {
                        secure.begin()?;
                        let early = self.session.take_input();
                        secure.receive(&early, &mut self.session, now)?;
                    }
                    if self.session.is_ended() {
                        secure.close();
                    }
                    secure.transmit(&mut self.link.waiting)
                }
                None => {
                    self.link.put(&output);
                    false
                }
            };
            if output.is_empty() && !is_more {
                return Ok(());
            }
        }
    }
}

/// Waits until a descriptor is ready, for at most `timeout`.
pub(crate) fn wait<'fd>(interests: impl IntoIterator<Item = (BorrowedFd<'fd>, PollFlags)>, timeout: Span) {
    let nanos = timeout.as_nanos();
    let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ };
    let mut fds: Vec<_> =
        interests.into_iter().map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
    // An interrupted wait is a short one.
    let _ = poll(&mut fds, Some(&timeout));
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use bentpipe_wire::dtn::tcpcl::{Message, SegmentFlags};

    use super::*;

    /// Returns a session, and the socket of its peer, which has sent its SESS_INIT.
    fn established() -> (SessionLink, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let link = Link::new(listener.accept().expect("a connection").0).expect("a socket");
        let config = Config::new("ipn:1.0");
        let mut connection = SessionLink::new(config, Policy::Off, link, None, Time::ZERO);
        let mut of_peer = Session::new(Config::new("ipn:2.0"), Time::ZERO);
        while !connection.session.is_established() {
            peer.write_all(&of_peer.poll_output(Time::ZERO)).expect("a connection");
            connection.write(Time::ZERO).expect("a connection");
            let mut buffer = [0; 100];
            let len = peer.read(&mut buffer).expect("an answer");
            of_peer.handle_bytes(&buffer[..len], Time::ZERO);
            wait([connection.interest()], Span::from_millis(50));
            connection.read(READ, Time::ZERO).expect("a connection");
        }
        (connection, peer)
    }

    #[test]
    fn a_link_that_is_never_empty_keeps_little() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut peer = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let mut link = Link::new(listener.accept().expect("a connection").0).expect("a socket");
        let mut buffer = vec![0; PIECE];
        // The kernel's buffers are filled first: the peer reads once something waits here.
        while link.taken < 64 << 20 {
            while !link.is_full() {
                link.put(&[7; PIECE]);
            }
            link.flush().expect("a connection");
            if link.backlog() > 0 {
                let len = peer.read(&mut buffer).expect("a connection");
                assert!(len > 0);
            }
            assert!(link.waiting.len() <= 4 * ENOUGH, "{} B are kept", link.waiting.len());
        }
    }

    /// Returns `count` segments of one byte.
    fn segments(count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..count {
            let segment =
                Message::Segment { flags: SegmentFlags(0), transfer: 0, extensions: &[], data: &[7] };
            segment.emit(&mut bytes);
        }
        bytes
    }

    #[test]
    fn a_peer_that_reads_nothing_is_read_no_more_and_seen() {
        let (mut connection, mut peer) = established();
        let mut start = Vec::new();
        Message::Segment { flags: SegmentFlags(2), transfer: 0, extensions: &[], data: &[7] }
            .emit(&mut start);
        peer.write_all(&start).expect("a connection");
        peer.set_write_timeout(Some(Duration::from_millis(200))).expect("a socket");
        let bytes = segments(10_000);
        let sender = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < 64 << 20 && peer.write_all(&bytes).is_ok() {
                sent += bytes.len();
            }
            (sent, peer)
        });
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        while !sender.is_finished() {
            wait([connection.interest()], Span::from_millis(20));
            connection.read(READ, at(1)).expect("a connection");
            connection.write(at(1)).expect("a connection");
            assert!(connection.session.unanswered() < 2 * UNANSWERED, "answers are bounded");
        }
        let (sent, mut peer) = sender.join().expect("no panic");
        assert!(sent < 64 << 20, "the peer has to wait");
        assert!(connection.link.backlog() > 0);
        assert!(!connection.interest().1.contains(PollFlags::IN), "nothing would be read");
        let since = connection.unread_since(at(2));
        assert_eq!(connection.unread_since(at(40)), since, "it has taken nothing");
        // It reads again, and is read again.
        peer.set_nonblocking(true).expect("a socket");
        let mut buffer = vec![0; 1 << 16];
        while connection.unread_since(at(50)).is_some() {
            while peer.read(&mut buffer).is_ok_and(|len| len > 0) {}
            connection.write(at(50)).expect("a connection");
        }
        assert!(connection.interest().1.contains(PollFlags::IN));
    }
}
