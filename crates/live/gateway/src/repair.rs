//! Repair of an input's lost datagrams by parity that comes on two more ports.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use bentpipe_emu::datagrams::{Datagram, Inbox};
use socket2::Socket;

use super::fec::{Counts, Decoder, Direction};
use super::socket::{self, Listen, is_wanted};

/// Maximum number of senders whose datagrams are remembered.
const MAX_SENDERS: usize = 16;

/// Maximum length of a parity packet.
const LONGEST_PACKET: usize = 2048;

/// Sockets of parity, and a decoder for each sender.
pub(crate) struct Repair {
    sockets: [Socket; 2],
    inbox: Inbox,
    /// Decoders by the addresses of their senders, the most recent first. Parity does not name the source that it is for.
    decoders: Vec<(IpAddr, Decoder)>,
    /// Counters of decoders that were given up.
    past: Counts,
}

impl Repair {
    /// Opens the sockets of parity of the datagrams at another socket.
    pub(crate) fn open(listen: &Listen) -> io::Result<Repair> {
        let open = |direction: Direction| {
            let mut listen = listen.clone();
            let port = listen.at.port().checked_add(direction.port_offset());
            listen.at.set_port(port.ok_or(io::ErrorKind::InvalidInput)?);
            socket::listener(&listen)
        };
        let sockets = [open(Direction::Column)?, open(Direction::Row)?];
        Ok(Repair {
            sockets,
            inbox: Inbox::new(LONGEST_PACKET),
            decoders: Vec::new(),
            past: Counts::default(),
        })
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = self.past;
        self.decoders.iter().for_each(|(_, decoder)| counts += decoder.counts());
        counts
    }

    /// Remembers a datagram that arrived, and calls `sink` with those that can then be repaired.
    pub(crate) fn push(&mut self, datagram: &Datagram<'_>, sink: impl FnMut(&[u8])) {
        if let Some(sender) = datagram.from {
            decoder(&mut self.decoders, &mut self.past, sender.ip()).push(datagram.bytes, sink);
        }
    }

    /// Reads a batch of parity, and calls `sink` with the datagrams that can be repaired.
    ///
    /// Returns the number of packets, and that of packets from unexpected senders.
    pub(crate) fn read_parity(&mut self, from: &[IpAddr], mut sink: impl FnMut(&[u8])) -> (usize, u64) {
        let Repair { sockets, inbox, decoders, past } = self;
        let (mut count, mut unexpected) = (0, 0);
        for socket in sockets {
            // An error is that of an earlier datagram, and the next look finds what waits.
            count += inbox.receive(&*socket).unwrap_or(0);
            for packet in inbox.iter() {
                match packet.from.filter(|_| is_wanted(&packet, from)) {
                    Some(sender) => decoder(decoders, past, sender.ip()).push_parity(packet.bytes, &mut sink),
                    None => unexpected += 1,
                }
            }
        }
        (count, unexpected)
    }
}

/// Returns the decoder of a sender. The least recent one is given up for a new one.
fn decoder<'a>(
    decoders: &'a mut Vec<(IpAddr, Decoder)>,
    past: &mut Counts,
    sender: IpAddr,
) -> &'a mut Decoder {
    let at = decoders.iter().position(|(address, _)| *address == sender).unwrap_or_else(|| {
        if decoders.len() == MAX_SENDERS
            && let Some((_, gone)) = decoders.pop()
        {
            *past += gone.counts();
        }
        decoders.push((sender, Decoder::default()));
        decoders.len() - 1
    });
    decoders[..=at].rotate_right(1);
    &mut decoders[0].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoders_of_a_flood_of_senders_are_bounded_and_counted() {
        let (mut decoders, mut past) = (Vec::new(), Counts::default());
        for n in 0..=255 {
            decoder(&mut decoders, &mut past, [192, 0, 2, n].into()).push_parity(&[], |_| {});
            decoder(&mut decoders, &mut past, [198, 51, 100, 1].into()).push_parity(&[], |_| {});
        }
        assert_eq!(decoders.len(), MAX_SENDERS);
        let kept: u64 = decoders.iter().map(|(_, decoder)| decoder.counts().malformed).sum();
        assert_eq!(past.malformed + kept, 512);
        assert!(decoders.iter().any(|(sender, _)| *sender == IpAddr::from([198, 51, 100, 1])));
    }
}
