//! TCP connection that does not block, and the TCPCL session over it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use bentpipe_dtn::session::Session;
use bentpipe_units::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};

/// Bytes read of a connection before others have their turn.
const READ: usize = 1 << 20;
/// Bytes that wait for the kernel before more are made.
const ENOUGH: usize = 1 << 18;

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

/// Session over its connection.
pub(crate) struct SessionLink {
    pub(crate) session: Session,
    pub(crate) link: Link,
}

impl SessionLink {
    /// Reads, and returns the reason if the connection has ended.
    pub(crate) fn read(&mut self, now: Time) -> Result<(), String> {
        let session = &mut self.session;
        let result = self.link.read(&mut |bytes| session.handle_bytes(bytes, now));
        match result {
            Ok(true) => Ok(()),
            Ok(false) => Err("closed by the peer".to_owned()),
            Err(error) => Err(error.to_string()),
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
            if output.is_empty() {
                return Ok(());
            }
            self.link.put(&output);
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
