//! Ports of loopback for programs under test.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Mutex, PoisonError};

/// State of a TCP socket that listens, as proc(5) has it.
const LISTENS: &str = "0A";

/// Range of the ports given.
///
/// It is below the ports that the kernel gives to sockets that ask for any.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

/// Ports in a block. A test program has a block to itself while it runs.
const BLOCK: u16 = 200;
/// Pairs of ports in a block that are given.
const PAIRS: u16 = BLOCK / 2 - 1;

/// Block of this process, and the number of pairs of ports given.
static OWN: Mutex<Option<Block>> = Mutex::new(None);

/// Block of ports. Its last one listens, which keeps off test programs of any user.
struct Block {
    first: u16,
    given: u16,
    _held: TcpListener,
}

impl Block {
    fn claim() -> Block {
        let free = (FIRST..LAST).step_by(BLOCK.into()).find_map(|first| {
            let held = TcpListener::bind((Ipv4Addr::LOCALHOST, first + BLOCK - 1)).ok()?;
            Some(Block { first, given: 0, _held: held })
        });
        free.unwrap_or_else(|| panic!("no block of {BLOCK} ports from {FIRST} to {LAST} is free"))
    }

    fn next(&mut self) -> u16 {
        self.given += 1;
        self.first + (self.given - 1) % PAIRS * 2
    }
}

/// Returns a port of 127.0.0.1 that is free for UDP and TCP.
///
/// The one after it is free as well.
/// No other call in this process returns it soon, no other test program gets it, and no socket that asks for any port. So it is
/// still free when a program comes to it a moment later.
///
/// # Panics
/// If every port of this program is taken.
pub fn free_port() -> u16 {
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let block = own.get_or_insert_with(Block::claim);
    let mut ports = (0..PAIRS).map(|_| block.next());
    let free = ports.find(|port| [*port, port + 1].into_iter().all(is_free));
    free.unwrap_or_else(|| panic!("no port from {} on is free", block.first))
}

/// Returns an address of loopback whose port is free, as [`free_port`] gives it.
///
/// # Panics
/// If every port of this program is taken.
pub fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// Waits until a program has a socket at an address' port, or has ended.
///
/// The program may be in a network namespace. No socket is opened for it, so that the program does not find its port taken.
///
/// # Panics
/// If the address does not end with a port, or after a minute.
#[track_caller]
pub fn await_socket(program: &Child, address: &str) {
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    super::until(&format!("socket at {address}"), || {
        has_socket(program.id(), port) || has_ended(program.id())
    });
}

/// Waits until a program has emptied its UDP socket of IPv4.
///
/// # Panics
/// If the address does not end with a port, or after a minute.
#[track_caller]
pub fn await_read(program: &Child, address: &str) {
    let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    super::until(&format!("empty socket at {address}"), || unread_bytes(program.id(), port) == Some(0));
}

/// Returns the bytes that wait in a UDP socket (proc(5)).
fn unread_bytes(process: u32, port: u16) -> Option<u64> {
    let table = std::fs::read_to_string(format!("/proc/{process}/net/udp")).ok()?;
    let local = format!(":{port:04X}");
    let row = table.lines().map(|row| row.split_whitespace().collect::<Vec<_>>());
    let row = row.into_iter().find(|row| row.get(1).is_some_and(|at| at.ends_with(&local)))?;
    u64::from_str_radix(row.get(4)?.split_once(':')?.1, 16).ok()
}

/// Returns `true` if a child has ended that is not yet waited for.
fn has_ended(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name in parentheses may contain spaces.
    status.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Returns `true` if a process sees a socket at a port.
///
/// One of TCP has to listen there.
fn has_socket(process: u32, port: u16) -> bool {
    let local = format!(":{port:04X}");
    ["udp", "udp6", "tcp", "tcp6"].into_iter().any(|protocol| {
        let table = std::fs::read_to_string(format!("/proc/{process}/net/{protocol}"));
        let is_local = |line: &str| {
            let mut words = line.split_whitespace().skip(1);
            let is_at_port = words.next().is_some_and(|at| at.ends_with(&local));
            // TCP keeps ports of connections that have ended.
            is_at_port && (protocol.starts_with("udp") || words.nth(1) == Some(LISTENS))
        };
        table.is_ok_and(|table| table.lines().skip(1).any(is_local))
    })
}

/// Returns `true` if a program has a socket of TCP or UDP.
///
/// Programs that it started count as well.
pub fn has_sockets(process: u32) -> bool {
    let inodes = ["udp", "udp6", "tcp", "tcp6"].map(|protocol| {
        std::fs::read_to_string(format!("/proc/{process}/net/{protocol}")).unwrap_or_default()
    });
    let inodes = inodes.concat();
    let is_socket = |file: &Path| {
        let target = std::fs::read_link(file).unwrap_or_default().to_string_lossy().into_owned();
        let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(&format!(" {inode} ")))
    };
    entries(&format!("/proc/{process}/fd")).any(|file| is_socket(&file)) || children(process).any(has_sockets)
}

fn children(process: u32) -> impl Iterator<Item = u32> {
    let threads = entries(&format!("/proc/{process}/task"));
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.join("children")).ok());
    let numbers: Vec<u32> = lists
        .flat_map(|list| list.split(' ').filter_map(|number| number.parse().ok()).collect::<Vec<_>>())
        .collect();
    numbers.into_iter()
}

fn entries(folder: &str) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_free(port: u16) -> bool {
    let at = (Ipv4Addr::LOCALHOST, port);
    UdpSocket::bind(at).is_ok() && TcpListener::bind(at).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn ports_are_free_and_none_is_given_twice() {
        let first = free_port();
        let _taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, first)).expect("free");
        let ports: Vec<u16> = (0..50).map(|_| free_port()).collect();
        assert!(ports.iter().all(|port| *port != first && (FIRST..LAST).contains(port)), "{ports:?}");
        let mut different = ports.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), ports.len());
    }

    #[test]
    fn programs_have_blocks_of_their_own() {
        let blocks = [Block::claim(), Block::claim(), Block::claim()];
        assert!(blocks[0].first != blocks[1].first && blocks[1].first != blocks[2].first);
        assert!(blocks.iter().all(|block| !is_free(block.first + BLOCK - 1)));
    }

    #[test]
    fn sockets_are_seen_while_they_are_open() {
        let (port, own) = (free_port(), std::process::id());
        assert!(!has_socket(own, port));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("free");
        assert!(has_socket(own, port) && unread_bytes(own, port) == Some(0));
        socket.send_to(&[1], (Ipv4Addr::LOCALHOST, port)).expect("sent");
        assert!(unread_bytes(own, port) > Some(0));
        drop(socket);
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("free");
        assert!(has_socket(own, port) && !has_socket(own, port + 1));
        assert!(has_sockets(own));
        // A descriptor that a program inherits is one of its own.
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("free");
        let mut with = std::process::Command::new("sleep");
        let with = crate::Process::start(with.arg("60").stdin(OwnedFd::from(socket)));
        let without = crate::Process::start(std::process::Command::new("sleep").arg("60"));
        assert!(has_sockets(with.id()) && !has_sockets(without.id()));
    }
}
