//! Connections of the kernel's TCP, by sock_diag(7): congestion window, threshold and timers (TCP_INFO).

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd};

use bentpipe_units::{Bytes, Span};

/// Connection of the kernel's TCP, as its sender has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpConnection {
    /// Own address.
    pub local: SocketAddr,
    /// Address of the other end.
    pub remote: SocketAddr,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold; `None` before the first loss.
    pub ssthresh: Option<Bytes>,
    /// Retransmission timeout.
    pub rto: Span,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Bytes that the other end has acknowledged.
    pub acked: Bytes,
}

/// Reader of the connections of a network namespace.
#[derive(Debug)]
pub struct TcpDiag {
    socket: File,
    buffer: Vec<u8>,
}

const HEADER_LEN: usize = 16;
const REQUEST_LEN: usize = 56;
const MESSAGE_LEN: usize = 72;
const ATTRIBUTE_LEN: usize = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_DUMP: u16 = 0x301;
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// Attribute with the kernel's `tcp_info`.
const INET_DIAG_INFO: u16 = 2;
/// The only state asked for: established.
const ESTABLISHED: u32 = 1 << 1;
/// Length of `tcp_info` up to the bytes acknowledged.
const INFO_LEN: usize = 128;
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// Maximum number of messages of an answer.
const MAX_READS: usize = 4096;

impl TcpDiag {
    /// Opens the reader of the calling thread's network namespace.
    ///
    /// # Errors
    /// Returns an error if the kernel has no sock_diag.
    pub fn open() -> io::Result<TcpDiag> {
        let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: `socket` takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_SOCK_DIAG) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(TcpDiag { socket: File::from(socket), buffer: vec![0; 1 << 16] })
    }

    /// Returns the established connections, of IPv4 and then of IPv6.
    ///
    /// # Errors
    /// Returns an error if the kernel does not answer.
    pub fn connections(&mut self) -> io::Result<Vec<TcpConnection>> {
        let mut found = Vec::new();
        for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
            self.socket.write_all(&request(family))?;
            for _ in 0..MAX_READS {
                let len = self.socket.read(&mut self.buffer)?;
                if !messages(&self.buffer[..len], &mut found)? {
                    break;
                }
            }
        }
        Ok(found)
    }
}

fn request(family: u8) -> [u8; HEADER_LEN + REQUEST_LEN] {
    let mut bytes = [0; HEADER_LEN + REQUEST_LEN];
    bytes[..4].copy_from_slice(&((HEADER_LEN + REQUEST_LEN) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_DUMP.to_ne_bytes());
    let own = &mut bytes[HEADER_LEN..];
    own[0] = family;
    own[1] = libc::IPPROTO_TCP as u8;
    own[2] = 1 << (INET_DIAG_INFO - 1);
    own[4..8].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    bytes
}

/// Adds the connections of an answer, and returns `true` if more comes.
fn messages(mut bytes: &[u8], found: &mut Vec<TcpConnection>) -> io::Result<bool> {
    while bytes.len() >= HEADER_LEN {
        let (len, kind) = (word(bytes, 0) as usize, half(bytes, 4));
        if kind == DONE {
            return Ok(false);
        }
        if kind == ERROR || len < HEADER_LEN || len > bytes.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "sock_diag refused the request"));
        }
        found.extend(connection(&bytes[HEADER_LEN..len]));
        bytes = &bytes[len.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(true)
}

/// Reads a connection, if it has `tcp_info`.
fn connection(bytes: &[u8]) -> Option<TcpConnection> {
    let (message, mut rest) = bytes.split_at_checked(MESSAGE_LEN)?;
    while rest.len() >= ATTRIBUTE_LEN {
        let (len, kind) = (usize::from(half(rest, 0)), half(rest, 2));
        let attribute = rest.get(ATTRIBUTE_LEN..len)?;
        if kind == INET_DIAG_INFO && attribute.len() >= INFO_LEN {
            return Some(of_info(message, attribute));
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
    None
}

fn of_info(message: &[u8], info: &[u8]) -> TcpConnection {
    let port = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let address = |at: usize| -> IpAddr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&message[at..at + 16]);
        if message[0] == libc::AF_INET as u8 {
            Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()
        } else {
            Ipv6Addr::from(octets).into()
        }
    };
    let mss = u64::from(word(info, 16));
    let segments = |at: usize| Bytes::new(u64::from(word(info, at)) * mss);
    let span = |at: usize| Span::from_micros(u64::from(word(info, at)));
    let mut acked = [0; 8];
    acked.copy_from_slice(&info[120..128]);
    TcpConnection {
        local: SocketAddr::new(address(8), port(4)),
        remote: SocketAddr::new(address(24), port(6)),
        cwnd: segments(80),
        ssthresh: (word(info, 76) < INFINITE_SSTHRESH).then(|| segments(76)),
        rto: span(8),
        rtt: span(68),
        retransmitted: word(info, 100),
        acked: Bytes::new(u64::from_ne_bytes(acked)),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// The reference is the program's own connection over loopback.
    #[test]
    fn a_connection_over_loopback_is_seen_as_the_kernel_has_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut near = TcpStream::connect(address).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        near.write_all(&[7; 30_000]).expect("sent");
        far.read_exact(&mut [0; 30_000]).expect("received");
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut diag = TcpDiag::open().expect("the kernel has it");
        let all = diag.connections().expect("an answer");
        let own = near.local_addr().expect("bound");
        let seen = all.iter().find(|seen| seen.local == own && seen.remote == address).expect("it is there");
        // SYN counts as a byte in some kernels.
        assert!((30_000..=30_001).contains(&seen.acked.get()), "{seen:?}");
        assert!(seen.cwnd.get() > 10_000 && seen.rto >= Span::from_millis(200), "{seen:?}");
        assert!(
            seen.rtt > Span::ZERO && seen.rtt < Span::from_secs(1) && seen.ssthresh.is_none(),
            "{seen:?}"
        );
    }

    #[test]
    fn answers_that_are_cut_or_wrong_are_no_connections() {
        let mut found = Vec::new();
        assert!(messages(&[0; 16], &mut found).is_err());
        for len in 0..HEADER_LEN + MESSAGE_LEN + 8 {
            let mut bytes = vec![0xff; len];
            if len >= HEADER_LEN {
                bytes[..4].copy_from_slice(&(len as u32).to_ne_bytes());
                bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            let _ = messages(&bytes, &mut found);
        }
        assert_eq!(found, []);
    }
}
