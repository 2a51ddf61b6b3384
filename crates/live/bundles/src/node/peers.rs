//! Connections of a node: TCPCL sessions with neighbours and applications, and MTCP.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use bentpipe_dtn::node::Node;
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::mtcp;
use bentpipe_wire::dtn::tcpcl::refusal;
use rustix::event::PollFlags;

use crate::link::{Link, Progress, READ, SessionLink};

/// Shortest and longest wait before a connection is tried again.
pub(super) const RETRY: (Span, Span) = (Span::from_secs(1), Span::from_secs(60));
/// Bytes in flight to a peer.
const MAX_FLIGHT: u64 = 8 << 20;
/// Bundles in flight to a peer.
const MAX_PENDING: usize = 2000;

/// Peer of a TCPCL session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The session is not established.
    Unknown,
    /// Node with a number.
    Neighbour(u64),
    /// Host that says it is a node, without more that speaks for it. It is sent nothing.
    Guest(u64),
    /// Application at a service of this node.
    Application(u32),
}

/// Bundle in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// Bundle of the node's storage, its length, and the bytes in front of its payload.
    Waiting(u64, u64, u64),
    /// Bundle for an application, and its length.
    Local(u64, u64),
}

impl Item {
    fn len(self) -> u64 {
        let (Item::Waiting(_, len, _) | Item::Local(_, len)) = self;
        len
    }
}

/// Answer to what a peer has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A bundle is accepted.
    Accept,
    /// A bundle is refused, with the reason.
    Decline(u8),
    /// Bytes of a transfer are kept even without the rest: its number, and their count.
    Part(u64, u64),
}

/// Bytes of the transfer that arrives, as far as they are in the store.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) transfer: u64,
    /// Number of the neighbour for the store.
    pub(super) from: u64,
    /// Bytes in the store.
    pub(super) len: u64,
    /// Numbers of its pieces in the store, and their places in the transfer.
    pub(super) pieces: Vec<(u64, Range<usize>)>,
    /// Instant of the last piece, or of the first bytes.
    pub(super) since: Time,
}

/// TCPCL session.
pub(super) struct Peer {
    pub(super) connection: SessionLink,
    pub(super) role: Role,
    pub(super) address: SocketAddr,
    /// Configured neighbour that was dialled.
    pub(super) dialled: Option<u64>,
    /// Set if it may be an application.
    pub(super) may_apply: bool,
    pub(super) items: HashMap<u64, Item>,
    flight: u64,
    /// Verdicts on what was received in this turn.
    pub(super) verdicts: Vec<Verdict>,
    /// Verdicts that wait until the store has this number of batches on disk.
    written: VecDeque<(u64, Verdict)>,
    /// Bytes in the store of the transfer that arrives.
    pub(super) part: Option<Part>,
    /// Instant until which the peer has no room.
    pub(super) paused_until: Time,
    /// Reason of the end.
    pub(super) failure: Option<String>,
    /// Number of the turn in which it was read last.
    pub(super) served: u64,
}

impl Peer {
    pub(super) fn new(connection: SessionLink, address: SocketAddr) -> Peer {
        Peer {
            connection,
            role: Role::Unknown,
            address,
            dialled: None,
            may_apply: false,
            items: HashMap::new(),
            flight: 0,
            verdicts: Vec::new(),
            written: VecDeque::new(),
            part: None,
            paused_until: Time::ZERO,
            failure: None,
            served: 0,
        }
    }

    /// Returns `true` if another bundle may be sent.
    pub(super) fn has_room(&self, now: Time) -> bool {
        let session = &self.connection.session;
        session.is_established()
            && now >= self.paused_until
            && self.flight < MAX_FLIGHT
            && session.pending() < MAX_PENDING
    }

    /// Returns `true` if the session accepts a bundle to send.
    pub(super) fn send(&mut self, bytes: Vec<u8>, make: impl FnOnce(u64) -> Item) -> bool {
        let item = make(bytes.len() as u64);
        match self.connection.session.send(bytes) {
            Some(transfer) => {
                self.flight += item.len();
                self.items.insert(transfer, item);
                true
            }
            None => false,
        }
    }

    /// Removes and returns the bundle of a transfer.
    pub(super) fn take(&mut self, transfer: u64) -> Option<Item> {
        let item = self.items.remove(&transfer)?;
        self.flight -= item.len();
        Some(item)
    }

    /// Notes the number of batches of the store that have the bundles of this turn.
    pub(super) fn note_written(&mut self, batches: u64) {
        self.written.extend(self.verdicts.drain(..).map(|verdict| (batches, verdict)));
    }

    /// Refuses the bundles of this turn, which the disk has no room for.
    pub(super) fn refuse_all(&mut self, batches: u64) {
        for verdict in std::mem::take(&mut self.verdicts) {
            let verdict = match verdict {
                Verdict::Accept => Verdict::Decline(refusal::NO_RESOURCES),
                Verdict::Decline(reason) => Verdict::Decline(reason),
                Verdict::Part(..) => continue,
            };
            self.written.push_back((batches, verdict));
        }
    }

    /// Forgets the last piece of an arriving transfer, for which the disk has no room.
    pub(super) fn forget_piece(&mut self, number: u64) {
        if let Some(part) = &mut self.part
            && let Some((_, place)) = part.pieces.pop_if(|(last, _)| *last == number)
        {
            part.len = place.start as u64;
        }
    }

    /// Acknowledges or refuses bundles of which as many batches are on disk.
    pub(super) fn answer(&mut self, synced: u64) {
        while let Some((_, verdict)) = self.written.front().copied().filter(|(batches, _)| *batches <= synced)
        {
            self.written.pop_front();
            match verdict {
                Verdict::Accept => self.connection.session.accept(),
                Verdict::Decline(reason) => self.connection.session.decline(reason),
                Verdict::Part(transfer, len) => self.connection.session.acknowledge(transfer, len),
            }
        }
    }
}

/// Neighbour that is dialled, with the wait after failures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dial {
    pub(super) number: u64,
    pub(super) address: SocketAddr,
    pub(super) next_at: Time,
    /// Set if the next session is to have no announcement of parts.
    pub(super) is_plain: bool,
    wait: Span,
}

impl Dial {
    pub(super) fn new(number: u64, address: SocketAddr) -> Dial {
        Dial { number, address, next_at: Time::ZERO, is_plain: false, wait: RETRY.0 }
    }

    /// Notes a failure, after which the wait doubles.
    pub(super) fn fail(&mut self, now: Time) {
        self.next_at = now + self.wait;
        self.wait = (self.wait * 2).min(RETRY.1);
    }

    /// Notes a session that ended because of its announcement. The next one, at once, has none.
    pub(super) fn speak_plainly(&mut self) {
        self.is_plain = true;
        self.next_at = Time::ZERO;
    }

    /// Notes a connection that works.
    pub(super) fn succeed(&mut self) {
        self.wait = RETRY.0;
    }
}

/// First byte of a bundle: an array of indefinite length (RFC 9171, section 4.1).
const BUNDLE: u8 = 0x9f;

/// Empty strings in a row that may be signs of life.
///
/// dtn7-go sends one after each bundle, and one in 5 s.
const EMPTY: usize = 16;

/// MTCP connection that brings bundles.
pub(super) struct MtcpInput {
    pub(super) link: Link,
    pub(super) address: SocketAddr,
    /// Number of the turn in which it was read last.
    pub(super) served: u64,
    input: Vec<u8>,
    limit: u64,
}

/// Bundles that an MTCP connection has brought.
pub(super) struct Brought {
    pub(super) bundles: Vec<Vec<u8>>,
    pub(super) progress: Progress,
    /// Set if something else than a bundle follows. Nothing after it can be read.
    pub(super) is_foreign: bool,
}

impl MtcpInput {
    pub(super) fn new(link: Link, address: SocketAddr, limit: u64) -> MtcpInput {
        MtcpInput { link, address, served: 0, input: Vec::new(), limit }
    }

    pub(super) fn buffered(&self) -> usize {
        self.input.len()
    }

    /// Reads up to `most` bytes, and returns whole bundles.
    pub(super) fn read(&mut self, most: usize) -> Brought {
        let input = &mut self.input;
        let progress = self.link.read(most, &mut |bytes| {
            input.extend(bytes);
            true
        });
        let (mut bundles, mut at, mut empty, mut is_foreign) = (Vec::new(), 0, 0, false);
        loop {
            match mtcp::read_head(&self.input[at..], self.limit) {
                Ok(Some((len, head))) => {
                    let rest = &self.input[at + head..];
                    // The end of a long string of another kind is not waited for.
                    empty = if len == 0 { empty + 1 } else { 0 };
                    if empty > EMPTY || len > 0 && rest.first().is_some_and(|first| *first != BUNDLE) {
                        is_foreign = true;
                        // It is counted as a malformed bundle, if it is there.
                        bundles.extend(rest.get(..len).filter(|rest| !rest.is_empty()).map(<[u8]>::to_vec));
                        break;
                    }
                    let Some(bundle) = rest.get(..len) else { break };
                    if len > 0 {
                        bundles.push(bundle.to_vec());
                    }
                    at += head + len;
                }
                Ok(None) => break,
                Err(_) => {
                    is_foreign = true;
                    break;
                }
            }
        }
        self.input.drain(..at);
        Brought { bundles, progress: progress.unwrap_or(Progress::Closed), is_foreign }
    }
}

/// MTCP connection to a neighbour.
pub(super) struct MtcpOutput {
    pub(super) dial: Dial,
    pub(super) link: Option<Link>,
    ids: Vec<u64>,
    /// Set if bundles may wait that the connection had no room for.
    has_more: bool,
}

impl MtcpOutput {
    pub(super) fn new(dial: Dial) -> MtcpOutput {
        MtcpOutput { dial, link: None, ids: Vec::new(), has_more: false }
    }

    /// Returns the descriptor and the events to wait for.
    ///
    /// The kernel may have all bytes while bundles are left. No answer of the peer would wake the node then.
    pub(super) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let (fd, flags) = self.link.as_ref()?.interest();
        let more = if self.has_more { PollFlags::OUT } else { PollFlags::empty() };
        Some((fd, flags | more))
    }

    /// Ends the connection. Bundles that are not sent are queued again.
    pub(super) fn give_up(self, node: &mut Node, now: Time) {
        self.ids.into_iter().for_each(|id| node.done(id, false, now));
    }

    /// Sends nothing more for the present, as the contact is closed.
    pub(super) fn rest(&mut self) {
        self.has_more = false;
    }

    /// Sends waiting bundles. Those that the kernel has accepted are sent; those of a broken connection are not.
    pub(super) fn transmit(&mut self, node: &mut Node, now: Time) {
        let is_wanted = self.link.is_none() && node.has_bundle(self.dial.number);
        if is_wanted && now >= self.dial.next_at {
            self.link = Link::connect(self.dial.address).ok();
            if self.link.is_none() {
                self.dial.fail(now);
            }
        }
        self.has_more = false;
        let Some(link) = &mut self.link else { return };
        while !link.is_full()
            && let Some((id, bundle)) = node.poll_transmit(self.dial.number, u64::MAX, now)
        {
            let bytes = bundle.to_vec();
            let mut head = Vec::new();
            mtcp::put_head(&mut head, bytes.len());
            link.put(&head);
            link.put(&bytes);
            self.ids.push(id);
        }
        self.has_more = link.is_full();
        let is_gone = |progress| progress == Progress::Closed;
        let is_broken = link.flush().is_err() || link.read(READ, &mut |_| true).map_or(true, is_gone);
        let is_done = link.backlog() == 0;
        if is_broken {
            self.link = None;
            self.dial.fail(now);
        } else if is_done && !self.ids.is_empty() {
            self.dial.succeed();
        }
        if is_broken || is_done {
            self.ids.drain(..).for_each(|id| node.done(id, is_done && !is_broken, now));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use bentpipe_dtn::node::{Config, Routing};
    use bentpipe_wire::dtn::bundle::{Bundle, Payload, Primary};
    use bentpipe_wire::dtn::eid::Eid;

    use super::*;
    use crate::link::wait;

    #[test]
    fn strings_that_are_not_bundles_end_mtcp_and_signs_of_life_do_not() {
        let bundle = [0x44, BUNDLE, 1, 2, 3];
        for (sent, (bundles, is_foreign)) in [
            (vec![0x40; EMPTY], (0, false)),
            (vec![0x40; EMPTY + 1], (0, true)),
            ([bundle.as_slice(), &[0x40; EMPTY]].concat().repeat(100), (100, false)),
            ([bundle.as_slice(), &[0x41, 0]].concat(), (2, true)),
            ([bundle.as_slice(), &[0x5a, 0, 1, 0, 0, 7]].concat(), (1, true)),
            ([bundle.as_slice(), &[0x5a, 0, 1, 0, 0, BUNDLE]].concat(), (1, false)),
            ([bundle.as_slice(), b"GET / HTTP/1.1"].concat(), (2, true)),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
            let address = listener.local_addr().expect("an address");
            let mut sender = std::net::TcpStream::connect(address).expect("a listener");
            sender.write_all(&sent).expect("a connection");
            drop(sender);
            let (stream, _) = listener.accept().expect("a connection");
            let mut input = MtcpInput::new(Link::new(stream).expect("a socket"), address, 1 << 20);
            let (mut found, mut ended) = (0, false);
            loop {
                let Brought { bundles, progress, is_foreign } = input.read(READ);
                (found, ended) = (found + bundles.len(), ended || is_foreign);
                if progress == Progress::Closed {
                    break;
                }
            }
            assert_eq!((found, ended), (bundles, is_foreign), "{sent:?}");
        }
    }

    #[test]
    fn a_neighbour_over_mtcp_is_sent_to_while_bundles_wait() {
        let routing = Routing::Static { routes: HashMap::new(), default: Some(2) };
        let config =
            Config { eid: Eid::ipn(1, 0), storage: 100_000_000, reports: false, epoch: 0, no_route: None };
        let mut node = Node::new(config, routing);
        node.add_direct(2, Time::ZERO);
        for _ in 0..1000 {
            let stamp = node.timestamp(Time::ZERO);
            let primary = Primary::new(Eid::ipn(1, 1), Eid::ipn(2, 9), stamp, 1_000_000);
            let bundle = Bundle { primary, blocks: vec![], payload: Payload::elided(1000) };
            assert!(node.originate(bundle, Time::ZERO));
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("an address");
        let mut output = MtcpOutput::new(Dial::new(2, address));
        output.transmit(&mut node, Time::ZERO);
        let (mut reader, _) = listener.accept().expect("a connection");
        reader.set_nonblocking(true).expect("a socket");
        let mut buffer = vec![0; 1 << 20];
        while node.has_bundle(2) {
            let (fd, flags) = output.interest().expect("a connection");
            assert!(flags.contains(PollFlags::OUT), "bundles wait, and nothing would wake the node");
            wait([(fd, PollFlags::OUT)], Span::from_millis(100));
            output.transmit(&mut node, Time::ZERO);
            while reader.read(&mut buffer).is_ok() {}
        }
        while node.stored().0 > 0 {
            output.transmit(&mut node, Time::ZERO);
            while reader.read(&mut buffer).is_ok() {}
        }
        assert!(!output.interest().expect("a connection").1.contains(PollFlags::OUT), "none waits");
    }
}
