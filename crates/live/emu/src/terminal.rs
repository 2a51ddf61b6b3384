//! Terminal size.

use std::os::fd::BorrowedFd;

/// Returns the columns and rows of the terminal `fd`. `None` if it is not a terminal or has no size.
pub fn terminal_size(fd: BorrowedFd<'_>) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(fd).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}
