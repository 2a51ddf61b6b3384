//! Ports of loopback for programs under test.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

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
}
