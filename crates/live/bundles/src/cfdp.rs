//! Files by the CCSDS File Delivery Protocol, over UDP or as bundles.

use std::collections::{HashMap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_dtn::cfdp::{Entity, Event};
use bentpipe_emu::{Clock, Monotonic};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::dtn::bundle::BundleFlags;
use bentpipe_wire::dtn::cfdp::{Pdu, Transaction};
use bentpipe_wire::dtn::eid::Eid;
use rustix::event::PollFlags;

use crate::client::{Access, Client, HEADERS, Letter, is_of_guest};
use crate::host::host_key;
use crate::link::wait;
use crate::resolve;

/// Longest wait, so that a stop is seen.
const TURN: Span = Span::from_millis(50);

/// Time for which datagrams may leave ahead of the rate.
const BURST: Span = Span::from_millis(2);

/// Bundles that the node has not acknowledged before more are made.
const PENDING: usize = 64;

/// Length that no PDU exceeds: its header has 16 bits for that of its content.
const LONGEST_PDU: u64 = 1 << 17;

/// Transactions whose sender's address is remembered.
const HEARD: usize = 10_000;
/// Key of all guests of a node, as that of a host.
const GUESTS: u64 = u64::MAX;

/// Carrier of PDUs.
pub struct Carrier {
    clock: Monotonic,
    kind: Kind,
    counts: Counts,
}

enum Kind {
    Udp {
        socket: UdpSocket,
        peers: Peers<SocketAddr>,
        rate: Rate,
        /// Time at which the next datagram may leave.
        next_at: Time,
    },
    Bundles {
        client: Box<Client>,
        peers: Peers<Eid>,
        lifetime: u64,
    },
}

/// Counts of PDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// PDUs sent.
    pub sent: u64,
    /// PDUs received.
    pub received: u64,
    /// PDUs that could not be parsed.
    pub refused: u64,
}

impl Carrier {
    /// Opens UDP at a local address. PDUs leave at a rate at most.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub fn udp(at: SocketAddr, rate: Rate) -> Result<Carrier, String> {
        let socket = UdpSocket::bind(at).map_err(|error| format!("{at}: {error}"))?;
        socket.set_nonblocking(true).map_err(|error| error.to_string())?;
        let kind = Kind::Udp { socket, peers: Peers::default(), rate, next_at: Time::ZERO };
        Ok(Carrier { clock: Monotonic::start(), kind, counts: Counts::default() })
    }

    /// Connects to a bundle node as the application at an endpoint. Each PDU is a bundle.
    ///
    /// # Errors
    /// Returns an error if the node does not answer.
    pub fn bundles(node: &Access, endpoint: &Eid, lifetime: Span) -> Result<Carrier, String> {
        let client = Box::new(Client::connect_for(node, endpoint, LONGEST_PDU + HEADERS)?);
        let kind =
            Kind::Bundles { client, peers: Peers::default(), lifetime: lifetime.as_nanos() / 1_000_000 };
        Ok(Carrier { clock: Monotonic::start(), kind, counts: Counts::default() })
    }

    /// Sets the address of an entity: HOST:PORT over UDP, else an endpoint.
    ///
    /// # Errors
    /// Returns an error if it cannot be resolved.
    pub fn set_peer(&mut self, entity: u64, place: &str) -> Result<(), String> {
        match &mut self.kind {
            Kind::Udp { peers, .. } => drop(peers.known.insert(entity, resolve(place)?)),
            Kind::Bundles { peers, .. } => {
                let eid = place.parse().map_err(|error| format!("{place}: {error}"))?;
                peers.known.insert(entity, eid);
            }
        }
        Ok(())
    }

    /// Returns the local address over UDP.
    pub fn local(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Udp { socket, .. } => socket.local_addr().ok(),
            Kind::Bundles { .. } => None,
        }
    }

    /// Returns the time of this carrier's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the counts of PDUs.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Runs an entity until `stop` is set or `take` returns `false`, with each event.
    ///
    /// # Errors
    /// Returns an error if the carrier fails, or the first that `take` returns.
    pub fn run(
        &mut self,
        entity: &mut Entity,
        stop: &AtomicBool,
        take: &mut dyn FnMut(Event) -> Result<bool, String>,
    ) -> Result<(), String> {
        let mut is_open = true;
        while is_open && !stop.load(Ordering::Relaxed) {
            self.turn(entity)?;
            while let Some(event) = entity.poll_event() {
                is_open &= take(event)?;
            }
        }
        // What answers the last event leaves too.
        self.transmit(entity)
    }

    /// Runs what is due, sends, and waits for PDUs for a short time.
    ///
    /// # Errors
    /// Returns an error if the carrier fails.
    pub fn turn(&mut self, entity: &mut Entity) -> Result<(), String> {
        entity.handle_timeout(self.now());
        self.transmit(entity)?;
        self.receive(entity)
    }

    /// Ends a session with a node in order.
    pub fn close(self) {
        if let Kind::Bundles { client, .. } = self.kind {
            client.close();
        }
    }

    fn transmit(&mut self, entity: &mut Entity) -> Result<(), String> {
        while self.has_room()
            && let Some((to, origin, pdu)) = entity.poll_transmit_to(self.clock.now())
        {
            self.counts.sent += 1;
            self.send((to, origin), pdu)?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        match &self.kind {
            Kind::Udp { next_at, .. } => *next_at <= self.clock.now() + BURST,
            Kind::Bundles { client, .. } => client.pending() < PENDING,
        }
    }

    /// Sends a PDU. One to an unknown entity is lost.
    fn send(&mut self, to: (u64, u64), pdu: Vec<u8>) -> Result<(), String> {
        match &mut self.kind {
            Kind::Udp { socket, peers, rate, next_at } => {
                *next_at = (*next_at).max(self.clock.now());
                *next_at += Span::from_secs_f64(8.0 * pdu.len() as f64 / rate.as_bps().max(1) as f64);
                if let Some(peer) = peers.of(to, &pdu) {
                    // A datagram that cannot be sent is lost, and repeated as such.
                    let _ = socket.send_to(&pdu, peer);
                }
                Ok(())
            }
            Kind::Bundles { client, peers, lifetime } => {
                let Some(peer) = peers.of(to, &pdu) else { return Ok(()) };
                let flags = BundleFlags::default();
                let letter = Letter { to: peer.clone(), lifetime: *lifetime, hops: 64, flags };
                client.send(&letter, pdu).map(drop)
            }
        }
    }

    /// Waits for PDUs until the next timeout, and takes them.
    fn receive(&mut self, entity: &mut Entity) -> Result<(), String> {
        let now = self.clock.now();
        let until = entity.next_timeout();
        match &mut self.kind {
            Kind::Udp { socket, peers, next_at, .. } => {
                // Sending goes on once the rate allows it.
                let until = if *next_at > now { until.min(*next_at) } else { until };
                wait([(socket.as_fd(), PollFlags::IN)], (until - now).min(TURN));
                let mut buffer = vec![0; 1 << 16];
                for _ in 0..PENDING {
                    let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
                    let host = Some(host_key(from.ip()));
                    peers.learn(&buffer[..len], host, from);
                    handle(entity, host, &buffer[..len], self.clock.now(), &mut self.counts);
                }
                Ok(())
            }
            Kind::Bundles { client, peers, .. } => {
                client.turn((until - now).min(TURN))?;
                while let Some(bundle) = client.receive() {
                    let pdu = bundle.payload.to_vec();
                    // What guests send in the name of an entity is of other transactions than the entity's.
                    let host = is_of_guest(&bundle).then_some(GUESTS);
                    peers.learn(&pdu, host, bundle.primary.source.clone());
                    handle(entity, host, &pdu, self.clock.now(), &mut self.counts);
                }
                Ok(())
            }
        }
    }
}

fn handle(entity: &mut Entity, host: Option<u64>, pdu: &[u8], now: Time, counts: &mut Counts) {
    counts.received += 1;
    let handled = match host {
        Some(host) => entity.handle_pdu_of(host, pdu, now),
        None => entity.handle_pdu(pdu, now),
    };
    counts.refused += u64::from(handled.is_err());
}

/// Addresses of other entities.
///
/// Those that the user gave stay. Answers to other senders go to where the last PDU of the transaction came from: an entity may send from
/// another port the next time, and one datagram in its name has no say over its other transactions. A transaction is of one host.
#[derive(Debug)]
struct Peers<T> {
    known: HashMap<u64, T>,
    by_transaction: HashMap<(u64, Transaction), T>,
    /// Transactions in the order in which they began.
    order: VecDeque<(u64, Transaction)>,
}

impl<T> Default for Peers<T> {
    fn default() -> Peers<T> {
        Peers { known: HashMap::new(), by_transaction: HashMap::new(), order: VecDeque::new() }
    }
}

impl<T> Peers<T> {
    /// Returns the address for a PDU to an entity.
    fn of(&self, (to, origin): (u64, u64), pdu: &[u8]) -> Option<&T> {
        let key = || Some((origin, Pdu::parse(pdu).ok()?.common.transaction));
        self.known.get(&to).or_else(|| self.by_transaction.get(&key()?))
    }

    /// Notes the address from which a sender's PDU came.
    fn learn(&mut self, pdu: &[u8], host: Option<u64>, from: T) {
        let Ok(pdu) = Pdu::parse(pdu) else { return };
        let transaction = pdu.common.transaction;
        if pdu.content.is_to_sender() || self.known.contains_key(&transaction.source) {
            return;
        }
        let key = (host.unwrap_or(transaction.source), transaction);
        if self.by_transaction.insert(key, from).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > HEARD
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_transaction.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use bentpipe_wire::dtn::cfdp::{Common, Condition, Content};

    use super::*;

    fn end(source: u64, number: u64) -> Vec<u8> {
        let common = Common::new(Transaction { source, number }, 1);
        let content = Content::EndOfFile { condition: Condition::NoError, checksum: 0, size: 0 };
        Pdu { common, content }.to_vec()
    }

    #[test]
    fn answers_go_to_where_the_transaction_came_from() {
        let mut peers = Peers::default();
        peers.learn(&end(3, 1), None, "first");
        peers.learn(&end(3, 2), None, "second");
        assert_eq!(
            (peers.of((3, 3), &end(3, 1)), peers.of((3, 3), &end(3, 2))),
            (Some(&"first"), Some(&"second"))
        );
        peers.learn(&end(3, 1), None, "moved");
        assert_eq!(peers.of((3, 3), &end(3, 1)), Some(&"moved"));
        assert_eq!(peers.of((3, 3), &end(3, 9)), None, "no answer without a PDU");
        peers.learn(&end(3, 1), Some(77), "another host");
        assert_eq!(
            (peers.of((3, 3), &end(3, 1)), peers.of((3, 77), &end(3, 1))),
            (Some(&"moved"), Some(&"another host"))
        );
        peers.known.insert(4, "given");
        peers.learn(&end(4, 1), None, "another");
        assert_eq!(peers.of((4, 4), &end(4, 1)), Some(&"given"));
        for number in 0..2 * HEARD as u64 {
            peers.learn(&end(5, number), None, "many");
        }
        assert!(peers.by_transaction.len() <= HEARD && peers.order.len() <= HEARD);
    }
}
