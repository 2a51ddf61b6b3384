//! Waiting for descriptors to become readable.

use std::io;
use std::os::fd::BorrowedFd;

use bentpipe_units::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// State of the descriptors after a wait.
#[derive(Debug)]
pub struct Ready<'fd>(Vec<PollFd<'fd>>);

impl Ready<'_> {
    /// Returns `true` if the last descriptor can be read, or has failed.
    pub fn is_last(&self) -> bool {
        self.0.last().is_some_and(|fd| !fd.revents().is_empty())
    }
}

/// Waits until one of the descriptors can be read, for at most `timeout`.
///
/// # Errors
/// Returns an error if the wait is interrupted by a signal.
pub fn wait<'fd>(fds: impl IntoIterator<Item = BorrowedFd<'fd>>, timeout: Span) -> io::Result<Ready<'fd>> {
    let nanos = timeout.as_nanos();
    let timeout = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ };
    let mut fds: Vec<_> = fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    poll(&mut fds, Some(&timeout))?;
    Ok(Ready(fds))
}
