//! Data in one direction.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bentpipe_emu::streams::unacknowledged;
use rustix::io::{Errno, ioctl_fionread, read, write};
use rustix::net::{Shutdown, shutdown};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use socket2::Socket;

/// Bytes moved in one step: the most that the proxy itself holds in a direction.
const STEP: usize = 128 << 10;

/// Capacity that the pipe is asked for. Each received fragment takes a slot of it, however short.
const CAPACITY: usize = 1 << 20;

/// Steps of a direction before other connections are served.
const STEPS: usize = 8;

/// Pipe through which all data passes without a copy (splice(2)). It is empty between steps.
#[derive(Debug)]
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    pub(crate) fn new() -> io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        // A user's limit of pipe memory leaves the usual capacity.
        let _ = fcntl_setpipe_size(&into, CAPACITY);
        Ok(Pipe { out, into })
    }

    /// Reads what is in it.
    fn take(&self, count: usize) -> io::Result<Vec<u8>> {
        let (mut bytes, mut len) = (vec![0; count], 0);
        while len < count {
            match read(&self.out, &mut bytes[len..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => len += more,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(bytes)
    }
}

/// Data in one direction.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Bytes that the receiver's socket had no room for.
    rest: Vec<u8>,
    /// Bytes of `rest` that it has taken since.
    taken: usize,
    /// Bytes written.
    pub(crate) moved: u64,
    /// Set once the sender has ended its stream.
    is_read_out: bool,
    /// Set once the end has been passed on.
    pub(crate) is_shut: bool,
}

impl Flow {
    /// Moves data from one socket to the other. Returns `true` if there may be more at once.
    pub(crate) fn run(&mut self, from: &Socket, to: &Socket, pipe: &Pipe) -> io::Result<bool> {
        for _ in 0..STEPS {
            if !self.write_rest(to)? || self.is_read_out {
                break;
            }
            if !self.step(from, to, pipe)? {
                return Ok(false);
            }
        }
        if self.is_read_out && self.rest.is_empty() && !self.is_shut {
            shutdown(to, Shutdown::Write)?;
            self.is_shut = true;
        }
        Ok(self.rest.is_empty() && !self.is_shut)
    }

    /// Writes what was left. Returns `true` if nothing is left.
    fn write_rest(&mut self, to: &Socket) -> io::Result<bool> {
        while self.taken < self.rest.len() {
            match write(to, &self.rest[self.taken..]) {
                Ok(bytes) => (self.taken, self.moved) = (self.taken + bytes, self.moved + bytes as u64),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        (self.rest, self.taken) = (Vec::new(), 0);
        Ok(true)
    }

    /// Moves data once. Returns `false` if none has arrived.
    fn step(&mut self, from: &Socket, to: &Socket, pipe: &Pipe) -> io::Result<bool> {
        let Some(mut left) = move_bytes(from, &pipe.into, STEP)? else { return Ok(false) };
        self.is_read_out = left == 0;
        let mut result = Ok(());
        while left > 0 {
            match move_bytes(&pipe.out, to, left) {
                Ok(Some(bytes)) => (left, self.moved) = (left - bytes, self.moved + bytes as u64),
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if left > 0 {
            self.rest = pipe.take(left)?;
        }
        result.map(|()| true)
    }

    /// Returns the bytes acknowledged to the sender and not acknowledged by the receiver.
    pub(crate) fn held(&self, from: &Socket, to: &Socket) -> u64 {
        let unread = if self.is_read_out { 0 } else { ioctl_fionread(from).unwrap_or(0) };
        // An end that was sent counts as a byte.
        let unsent = unacknowledged(to).unwrap_or(0).saturating_sub(self.is_shut.into());
        unread + (self.rest.len() - self.taken) as u64 + unsent.min(self.moved)
    }
}

/// Moves bytes by splice(2); `None` if it would block.
fn move_bytes(from: impl AsFd, to: impl AsFd, max: usize) -> io::Result<Option<usize>> {
    loop {
        match splice(&from, None, &to, None, max, SpliceFlags::MOVE | SpliceFlags::NONBLOCK) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
