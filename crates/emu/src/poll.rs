//! Waiting for descriptors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use bentpipe_units::Span;

/// The entry of a descriptor that is waited for until it can be read.
pub(crate) fn entry(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until one of the descriptors can be read, at most `timeout`.
pub(crate) fn wait(entries: &mut [libc::pollfd], timeout: Span) -> io::Result<()> {
    let nanos = timeout.as_nanos();
    let timeout = libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the array and the timespec live for the call, its length is passed with it, and a null signal mask
    // means none.
    let result = unsafe {
        libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, &timeout, std::ptr::null())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
