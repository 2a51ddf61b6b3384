//! Sockets that can be read, found without a look at the others.

use std::collections::BTreeMap;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

/// Most ports of one look. The kernel starts the next look after them.
const PORTS: usize = 256;

/// Set of sockets that the kernel watches (epoll(7)).
pub(crate) struct Readable(OwnedFd);

impl Readable {
    /// Creates a set of sockets with their ports. They must not be closed before it.
    pub(crate) fn of(sockets: &BTreeMap<u16, UdpSocket>) -> io::Result<Readable> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (port, socket) in sockets {
            let data = epoll::EventData::new_u64(u64::from(*port));
            epoll::add(&epoll, socket, data, epoll::EventFlags::IN)?;
        }
        Ok(Readable(epoll))
    }

    /// Returns the descriptor of the set.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Returns the ports that can be read now. Those that are not read are found again.
    pub(crate) fn ports(&self) -> impl Iterator<Item = u16> + use<> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(PORTS);
        // An interrupted look finds nothing, and the next one all.
        let _ = epoll::wait(&self.0, spare_capacity(&mut events), Some(&Timespec::default()));
        events.into_iter().map(|event| event.data.u64() as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn only_ports_with_datagrams_are_found() {
        if !bentpipe_testkit::may_open(1000) {
            return;
        }
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let sockets: BTreeMap<u16, UdpSocket> = (0..300)
            .map(|_| open())
            .map(|socket| (socket.local_addr().expect("bound").port(), socket))
            .collect();
        let readable = Readable::of(&sockets).expect("a set");
        assert_eq!(readable.ports().count(), 0);
        let (sender, ports) = (open(), sockets.keys().copied().collect::<Vec<u16>>());
        let send = |port: u16| sender.send_to(b"speech", (Ipv4Addr::LOCALHOST, port)).expect("sent");
        let read = |port: u16| sockets[&port].recv(&mut [0; 8]).expect("a datagram");
        for port in [ports[7], ports[290]] {
            send(port);
            assert_eq!(readable.ports().collect::<Vec<_>>(), [port]);
            // A datagram that is left is found again.
            assert_eq!(readable.ports().collect::<Vec<_>>(), [port]);
            read(port);
            assert_eq!(readable.ports().count(), 0);
        }
        // More than fit into one look all have their turn.
        ports.iter().copied().for_each(|port| assert_eq!(send(port), 6));
        for expected in [PORTS, sockets.len() - PORTS] {
            let found: Vec<u16> = readable.ports().collect();
            assert_eq!(found.len(), expected);
            found.into_iter().for_each(|port| assert_eq!(read(port), 6));
        }
    }
}
