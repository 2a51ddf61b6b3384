//! What a socket is asked to do.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Asks for the kernel's time of arrival of each datagram, and for the number of those that found the receive buffer full
/// (socket(7), `SO_TIMESTAMPNS`, `SO_RXQ_OVFL`).
///
/// # Errors
/// As the kernel says.
pub fn stamp_arrivals(socket: impl AsFd) -> io::Result<()> {
    set(&socket, libc::SO_TIMESTAMPNS, 1)?;
    set(&socket, libc::SO_RXQ_OVFL, 1)
}

/// Gives the socket a receive buffer of `bytes` if it may (`CAP_NET_ADMIN`), otherwise of what the machine lets everybody
/// have, `net.core.rmem_max`. What it has then, as the kernel counts: headers of its own with it.
///
/// # Errors
/// As the kernel says.
pub fn grow_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    let wanted = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(&socket, libc::SO_RCVBUFFORCE, wanted).or_else(|_| set(&socket, libc::SO_RCVBUF, wanted))?;
    read(&socket, libc::SO_RCVBUF).map(|bytes| bytes.max(0) as usize)
}

fn set(socket: &impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: reads one `c_int`, which lives for the call, and its length is passed with it.
    match unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const value).cast(), len) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn read(socket: &impl AsFd, option: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let (fd, mut len) = (socket.as_fd().as_raw_fd(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: writes one `c_int`, which lives for the call, and its length is passed with it.
    match unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, (&raw mut value).cast(), &mut len) } {
        0 => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
