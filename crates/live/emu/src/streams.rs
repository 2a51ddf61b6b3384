//! Queue lengths, buffers, pacing and urgent data of TCP sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use bentpipe_units::Rate;
use rustix::net::sockopt;

/// Returns the bytes written to a TCP socket and not acknowledged by its peer.
///
/// A FIN that was sent counts as one byte (`SIOCOUTQ`, tcp(7)).
///
/// # Errors
/// Returns an error if the descriptor is not a TCP socket.
pub fn unacknowledged(socket: impl AsFd) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which Linux defines as TIOCOUTQ, writes one `int`, which lives for the call.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ as _, &mut bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(bytes.max(0) as u64) }
}

/// Bounds the kernel's buffers of a TCP socket, and the time that data waits.
///
/// The kernel takes twice as many bytes for each direction, as they count with their headers (socket(7)). Without a bound it takes megabytes.
/// Connections inherit both from the socket that listens.
///
/// # Errors
/// Returns an error if the descriptor is not a TCP socket.
pub fn bound(socket: impl AsFd, bytes: usize, longest: Duration) -> io::Result<()> {
    sockopt::set_socket_send_buffer_size(&socket, bytes)?;
    sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    sockopt::set_tcp_user_timeout(&socket, u32::try_from(longest.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// Resets a TCP connection at its end, which drops what the peer has not taken.
///
/// # Errors
/// Returns an error if the descriptor is not a TCP socket.
pub fn reset_at_end(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Returns `true` if the urgent byte is the next of the stream (sockatmark(3)).
///
/// # Errors
/// Returns an error if the descriptor is not a TCP socket.
pub fn is_at_mark(socket: impl AsFd) -> io::Result<bool> {
    // SAFETY: takes its argument by value.
    let result = unsafe { sockatmark(socket.as_fd().as_raw_fd()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result != 0) }
}

// SAFETY: the declaration of `sys/socket.h` (POSIX), which the `libc` crate lacks.
unsafe extern "C" {
    fn sockatmark(socket: libc::c_int) -> libc::c_int;
}

/// Limits the rate at which a TCP socket sends (`SO_MAX_PACING_RATE`, socket(7)), with headers.
///
/// # Errors
/// Returns an error if the kernel refuses it.
pub fn set_max_pacing_rate(socket: impl AsFd, rate: Rate) -> io::Result<()> {
    let bytes_per_s: u64 = (rate.as_bps() / 8).max(1);
    let len = size_of::<u64>() as libc::socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: reads one `u64`, which lives for the call.
    let result = unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const bytes_per_s).cast(),
            len,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn bytes_count_until_they_are_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
        let (mut far, _) = listener.accept().expect("connected");
        near.set_nonblocking(true).expect("set");
        set_max_pacing_rate(&near, Rate::from_bps(1_000_000_000)).expect("set");
        let mut written = 0;
        while let Ok(len) = near.write(&[7; 65_536]) {
            written += len;
        }
        assert!(unacknowledged(&near).expect("a socket") > 0);
        far.read_exact(&mut vec![0; written]).expect("all of it");
        bentpipe_testkit::until("the last acknowledgement", || unacknowledged(&near).expect("a socket") == 0);
        assert!(unacknowledged(std::io::stdin()).is_err() || cfg!(target_os = "linux"));
    }

    #[test]
    fn connections_inherit_the_bound_of_their_memory() {
        let taken = |is_bound: bool| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            if is_bound {
                bound(&listener, 64 << 10, Duration::from_secs(5)).expect("set");
            }
            let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
            let (mut far, _) = listener.accept().expect("connected");
            far.set_nonblocking(true).expect("set");
            // The kernel grows a buffer as acknowledgements come.
            let mut idle = 0;
            while idle < 20 {
                let is_taken = far.write(&[7; 65_536]).is_ok_and(|len| len > 0);
                idle = if is_taken { 0 } else { idle + 1 };
                std::thread::sleep(Duration::from_millis(if is_taken { 0 } else { 5 }));
            }
            let left = unacknowledged(&far).expect("a socket");
            let limits = (sockopt::socket_send_buffer_size(&far), sockopt::socket_recv_buffer_size(&far));
            drop(near);
            (left, limits)
        };
        let (free, _) = taken(false);
        let (left, limits) = taken(true);
        assert_eq!(limits, (Ok(128 << 10), Ok(128 << 10)));
        // The last piece may go over the limit.
        assert!(left <= 192 << 10 && free > 4 * left, "{left} B of {free} B");
    }
}
