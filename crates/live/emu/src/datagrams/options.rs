//! Socket options.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Requests the kernel's arrival time of each datagram, and the count of dropped ones. Those found the receive buffer
/// full (socket(7), `SO_TIMESTAMPNS`, `SO_RXQ_OVFL`).
///
/// # Errors
/// Returns the error of the kernel.
pub fn stamp_arrivals(socket: impl AsFd) -> io::Result<()> {
    set(&socket, libc::SO_TIMESTAMPNS, 1)?;
    set(&socket, libc::SO_RXQ_OVFL, 1)
}

/// Requests the kernel's reports of datagrams that a host refused (ip(7), `IP_RECVERR`).
///
/// A socket has them without being connected.
/// [`super::refusals`] takes them; as long as one waits, the socket is in a state of error.
///
/// # Errors
/// Returns the error of the kernel.
pub fn report_refusals(socket: impl AsFd, is_v6: bool) -> io::Result<()> {
    let (level, option) = match is_v6 {
        true => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        false => (libc::IPPROTO_IP, libc::IP_RECVERR),
    };
    set_at(&socket, level, option, 1)
}

/// Sets the receive buffer of a socket to `bytes`, and returns its size. Without `CAP_NET_ADMIN` it is at most
/// `net.core.rmem_max`. The size is as the kernel counts: headers of its own with it.
///
/// # Errors
/// Returns the error of the kernel.
pub fn grow_receive_buffer(socket: impl AsFd, bytes: usize) -> io::Result<usize> {
    let wanted = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set(&socket, libc::SO_RCVBUFFORCE, wanted).or_else(|_| set(&socket, libc::SO_RCVBUF, wanted))?;
    read(&socket, libc::SO_RCVBUF).map(|bytes| bytes.max(0) as usize)
}

/// Returns the number of datagrams that the kernel dropped at the socket, modulo 2^32. Its receive buffer was full, or
/// a checksum was wrong. `None` if the kernel does not report it (`SO_MEMINFO`, Linux 4.12).
pub fn receive_drops(socket: impl AsFd) -> Option<u32> {
    let mut info = [0_u32; libc::SK_MEMINFO_DROPS as usize + 1];
    let (fd, mut len) = (socket.as_fd().as_raw_fd(), size_of_val(&info) as libc::socklen_t);
    let into = (&raw mut info).cast();
    // SAFETY: writes at most as many bytes as the array has, which live for the call.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, into, &mut len) };
    (result == 0 && len as usize >= size_of_val(&info)).then(|| info[libc::SK_MEMINFO_DROPS as usize])
}

fn set(socket: &impl AsFd, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_at(socket, libc::SOL_SOCKET, option, value)
}

fn set_at(socket: &impl AsFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let (fd, len) = (socket.as_fd().as_raw_fd(), size_of_val(&value) as libc::socklen_t);
    // SAFETY: reads one `c_int`, which lives for the call, and its length is passed with it.
    match unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), len) } {
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
