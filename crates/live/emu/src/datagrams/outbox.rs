//! Datagrams to send.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::address::RawAddress;
use super::{BATCH, headers};

/// Datagrams that are sent together. Any number may wait; the kernel gets [`BATCH`] of them at a time.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

struct Entry {
    start: usize,
    len: usize,
    to: RawAddress,
}

/// Result of sending a batch.
#[derive(Debug, Default)]
pub struct Sent {
    /// Datagrams that the kernel took.
    pub sent: usize,
    /// Bytes of payload in them.
    pub bytes: usize,
    /// Datagrams that it did not take. They are dropped.
    pub refused: usize,
    /// Error of the last refusal.
    pub error: Option<io::Error>,
}

impl Outbox {
    /// Creates an empty outbox.
    pub fn new() -> Outbox {
        Outbox::default()
    }

    /// Adds a datagram of `len` bytes, zeros, for the caller to write. `to` is where it goes; none is where the socket is
    /// connected to.
    pub fn datagram(&mut self, to: Option<SocketAddr>, len: usize) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.resize(start + len, 0);
        self.entries.push(Entry { start, len, to: to.map_or_else(RawAddress::none, RawAddress::of) });
        &mut self.bytes[start..]
    }

    /// Returns the number of waiting datagrams.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if no datagram waits.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sends all that wait. A datagram that the kernel refuses is dropped and the next are tried; a socket that does not
    /// block and has no room refuses all that are left.
    pub fn send(&mut self, socket: impl AsFd) -> Sent {
        let (mut result, mut next) = (Sent::default(), 0);
        while next < self.entries.len() {
            match self.send_from(next, &socket) {
                Ok(sent) => {
                    result.bytes +=
                        self.entries[next..next + sent].iter().map(|entry| entry.len).sum::<usize>();
                    result.sent += sent;
                    next += sent;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let is_full = error.kind() == io::ErrorKind::WouldBlock;
                    let refused = if is_full { self.entries.len() - next } else { 1 };
                    result.refused += refused;
                    next += refused;
                    result.error = Some(error);
                }
            }
        }
        self.clear();
        result
    }

    /// Drops what waits.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }

    /// Sends the entries from `first` on by one call. Returns the number sent, at least 1.
    fn send_from(&mut self, first: usize, socket: &impl AsFd) -> io::Result<usize> {
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        let mut headers = headers();
        let entries = &mut self.entries[first..];
        let count = entries.len().min(BATCH);
        for ((entry, vector), header) in entries.iter_mut().zip(&mut vectors).zip(&mut headers) {
            let bytes = &mut self.bytes[entry.start..entry.start + entry.len];
            *vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            (header.msg_hdr.msg_iov, header.msg_hdr.msg_iovlen) = (vector, 1);
            if entry.to.len > 0 {
                header.msg_hdr.msg_name = (&raw mut entry.to.storage).cast();
                header.msg_hdr.msg_namelen = entry.to.len;
            }
        }
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: the first `count` headers point at vectors, bytes and addresses with their lengths, all of which live
        // and stay where they are for the call; the kernel only reads them, and writes `msg_len`.
        let sent = unsafe { libc::sendmmsg(fd, headers.as_mut_ptr(), count as libc::c_uint, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}
