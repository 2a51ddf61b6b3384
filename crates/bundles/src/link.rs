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
const READ: usize = 1 << 20;
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
}

impl Link {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Link> {
        stream.set_nonblocking(true)?;
        let _ = stream.set_nodelay(true);
        // What is on its way has the room that its path needs; the rest waits here, where it is bounded.
        SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT)?;
        Ok(Link { stream, waiting: Vec::new(), written: 0 })
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
                Ok(len) => self.written += len,
                Err(error) if is_wait(&error) => return self.stream.take_error()?.map_or(Ok(()), Err),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.waiting.clear();
        self.waiting.shrink_to(ENOUGH);
        self.written = 0;
        Ok(())
    }

    /// Reads what has arrived. Returns `false` at the end of the connection.
    pub(crate) fn read(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        let mut buffer = [0; 1 << 16];
        let mut total = 0;
        while total < READ {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(len) => {
                    total += len;
                    take(&buffer[..len]);
                }
                Err(error) if is_wait(&error) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
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
        SessionLink { session: Session::new(Config { tls, ..config }, now), link, secure }
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

    /// Reads. Returns `false` if the peer has closed the connection.
    pub(crate) fn read(&mut self, now: Time) -> Result<bool, String> {
        let SessionLink { session, link, secure } = self;
        let mut refused = None;
        let is_open = link.read(&mut |bytes| match secure {
            Some(secure) if secure.is_begun() => {
                if refused.is_none() {
                    refused = secure.receive(bytes, session, now).err();
                }
            }
            _ => session.handle_bytes(bytes, now),
        });
        match (refused, session.refusal()) {
            (Some(problem), _) => Err(problem),
            (None, Some(refusal)) => Err(refusal.to_string()),
            (None, None) => is_open.map_err(|error| error.to_string()),
        }
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
