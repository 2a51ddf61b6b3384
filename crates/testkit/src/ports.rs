//! Ports of loopback for programs under test.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::Child;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Range of the ports given.
///
/// It is below the ports that the kernel gives to sockets that ask for any.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

/// Number of ports given by this process.
static GIVEN: AtomicU16 = AtomicU16::new(0);

/// Returns a port of 127.0.0.1 that is free for UDP and TCP.
///
/// The one after it is free as well.
/// No other call in this process returns it, and no socket that asks for any port gets it, so that it is still free when
/// a program comes to it a moment later.
///
/// # Panics
/// If every port of the range is taken.
pub fn free_port() -> u16 {
    let pairs = (LAST - FIRST) / 2;
    // Two test programs that run at once begin at different places.
    let start = u16::try_from(std::process::id() % 60).unwrap_or_default() * 100;
    for _ in 0..pairs {
        let port = FIRST + (start + GIVEN.fetch_add(1, Ordering::Relaxed)) % pairs * 2;
        if [port, port + 1].into_iter().all(is_free) {
            return port;
        }
    }
    panic!("no port from {FIRST} to {LAST} is free")
}

/// Returns an address of loopback whose port is free, as [`free_port`] gives it.
///
/// # Panics
/// If every port of the range is taken.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// Waits up to 20 s until a program has a socket at an address' port.
///
/// The program may be in a network namespace. No socket is opened for it, so that the program does not find its port taken.
///
/// # Panics
/// If the address does not end with a port.
pub fn await_socket(program: &Child, address: &str) {
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let end = Instant::now() + Duration::from_secs(20);
    while !has_socket(program.id(), port) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns `true` if the namespace of a process has a socket at a port.
fn has_socket(process: u32, port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["udp", "udp6", "tcp", "tcp6"].into_iter().any(|protocol| {
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{protocol}"));
        let is_local = |line: &str| line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&local));
        table.is_ok_and(|table| table.lines().skip(1).any(is_local))
    })
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::LOCALHOST, port);
    UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_none_is_given_twice() {
        let first = free_port();
        let _taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, first)).expect("free");
        let ports: Vec<u16> = (0..200).map(|_| free_port()).collect();
        assert!(ports.iter().all(|port| *port != first && (FIRST..LAST).contains(port)), "{ports:?}");
        let mut different = ports.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ports.len());
    }

    #[test]
    fn sockets_are_seen_while_they_are_open() {
        let (port, own) = (free_port(), std::process::id());
        assert!(!has_socket(own, port));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("free");
        assert!(has_socket(own, port));
        drop(socket);
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("free");
        assert!(has_socket(own, port) && !has_socket(own, port + 1));
    }
}
