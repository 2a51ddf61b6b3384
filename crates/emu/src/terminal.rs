//! How large the terminal is.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Columns and rows of the terminal that `fd` is; none if it is no terminal or does not know.
pub fn terminal_size(fd: BorrowedFd<'_>) -> Option<(usize, usize)> {
    // SAFETY: `winsize` is plain data for which all bytes zero is a value.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes one `winsize`, which lives for the call; the descriptor is open for it.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}
