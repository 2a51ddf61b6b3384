//! Datagrams that came.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use super::address::RawAddress;
use super::{BATCH, headers};

/// Room for the kernel's remarks on a datagram, in words. They are a time stamp and a count of drops, each with its
/// header. Words are aligned as a `cmsghdr` must be.
const CONTROL_WORDS: usize = 16;

/// Up to [`BATCH`] datagrams that were taken from a socket.
pub struct Inbox {
    datagram_len: usize,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    drops: Option<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    len: usize,
    is_truncated: bool,
    from: RawAddress,
    arrived_ns: Option<u64>,
}

/// A datagram that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Payload.
    pub bytes: &'a [u8],
    /// Set if the datagram was longer than the inbox. The rest is lost.
    pub is_truncated: bool,
    /// Sender, as far as the socket knows it.
    pub from: Option<SocketAddr>,
    /// Arrival time at the kernel, in nanoseconds since 1970 by the machine's clock. `None` unless
    /// [`super::stamp_arrivals`] requested it.
    pub arrived_ns: Option<u64>,
}

impl Inbox {
    /// Room for datagrams of up to `datagram_len` bytes of payload.
    pub fn new(datagram_len: usize) -> Inbox {
        let bytes = vec![0; datagram_len * BATCH];
        Inbox { datagram_len, bytes, entries: Vec::with_capacity(BATCH), drops: None }
    }

    /// Receives the datagrams that wait at `socket`, at most [`BATCH`], and returns their number. Never blocks.
    ///
    /// # Errors
    /// Returns the error of the socket, such as an ICMP error for an earlier datagram. Nothing is received then.
    pub fn receive(&mut self, socket: impl AsFd) -> io::Result<usize> {
        self.entries.clear();
        self.drops = None;
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        let mut controls = [[0_u64; CONTROL_WORDS]; BATCH];
        let mut names = [RawAddress::none(); BATCH];
        let mut headers = headers();
        for (at, header) in headers.iter_mut().enumerate() {
            let bytes = &mut self.bytes[at * self.datagram_len..(at + 1) * self.datagram_len];
            vectors[at] = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let header = &mut header.msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (&raw mut vectors[at], 1);
            header.msg_name = (&raw mut names[at].storage).cast();
            header.msg_namelen = RawAddress::SIZE;
            header.msg_control = controls[at].as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&controls[at]) as _;
        }
        let (fd, count) = (socket.as_fd().as_raw_fd(), BATCH as libc::c_uint);
        let (flags, forever) = (libc::MSG_DONTWAIT, std::ptr::null_mut());
        // SAFETY: each header points at a vector, bytes, an address and room for remarks, with their lengths; all live and
        // stay where they are for the call, and nothing else refers to them meanwhile.
        let taken = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), count, flags as _, forever) };
        let Ok(taken) = usize::try_from(taken) else { return nothing_waits(io::Error::last_os_error()) };
        for (header, name) in headers.iter().zip(names).take(taken) {
            let remarks = Remarks::of(&header.msg_hdr);
            self.drops = remarks.drops.or(self.drops);
            self.entries.push(Entry {
                len: (header.msg_len as usize).min(self.datagram_len),
                is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
                from: RawAddress { len: header.msg_hdr.msg_namelen, ..name },
                arrived_ns: remarks.arrived_ns,
            });
        }
        Ok(taken)
    }

    /// The datagrams that are here.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.entries.iter().enumerate().map(|(at, entry)| Datagram {
            bytes: &self.bytes[at * self.datagram_len..][..entry.len],
            is_truncated: entry.is_truncated,
            from: entry.from.get(),
            arrived_ns: entry.arrived_ns,
        })
    }

    /// Number of datagrams that the kernel dropped for want of room in the receive buffer. None if they do not:
    /// nothing was dropped yet, nothing is here, or [`super::stamp_arrivals`] did not ask for it.
    pub fn drops(&self) -> Option<u32> {
        self.drops
    }
}

fn nothing_waits(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

/// Control messages of the kernel for a datagram.
#[derive(Default)]
struct Remarks {
    arrived_ns: Option<u64>,
    drops: Option<u32>,
}

impl Remarks {
    fn of(header: &libc::msghdr) -> Remarks {
        let mut remarks = Remarks::default();
        // SAFETY: the kernel filled the header's control bytes and set their length; they are aligned, and live.
        let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
        // SAFETY: not null, it points at a whole `cmsghdr` within the control bytes, by the macros' contract.
        while let Some(remark) = unsafe { next.as_ref() } {
            // SAFETY: the data follow the header; `read_unaligned` below needs no alignment of them.
            let data = unsafe { libc::CMSG_DATA(remark) };
            match (remark.cmsg_level, remark.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    // SAFETY: this remark holds a `timespec`.
                    let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                    remarks.arrived_ns = nanos(time);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    // SAFETY: this remark holds 32 bits.
                    remarks.drops = Some(unsafe { data.cast::<u32>().read_unaligned() });
                }
                _ => {}
            }
            // SAFETY: as for the first.
            next = unsafe { libc::CMSG_NXTHDR(header, next) };
        }
        remarks
    }
}

fn nanos(time: libc::timespec) -> Option<u64> {
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}
