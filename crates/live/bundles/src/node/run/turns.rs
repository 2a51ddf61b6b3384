//! Turns of connections: applications and neighbours first, then guests by host.
//!
//! Known senders are read whole in each turn of the node. Guests have [`GUESTS`] of it together. Their hosts are read in turns, and
//! the connections of a host in turns: a host with many of them, or with much to say, has no more of the time than another. Those that were read
//! least recently come first, so that all have their turn when time is short. The datagrams of guests have the turn of one host, as their
//! addresses can be forged.

use std::collections::{BTreeMap, VecDeque};

use bentpipe_dtn::node::{Arrival, Share};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::tcpcl::refusal;

use super::super::peers::{Peer, Role};
use super::super::radio::Arrived;
use super::Daemon;
use super::accept::{Origin, Refused};
use super::places::Place;
use crate::host::host_key;
use crate::link::{Progress, READ};

/// Time that guests have in a turn of the node.
///
/// What follows of their bundles in the turn takes as much again, and a neighbour that sends meanwhile waits for all of it.
const GUESTS: Span = Span::from_millis(2);
/// Bytes of a guest between two looks at the time.
///
/// They are some 180 bundles of the shortest kind.
const PIECE: usize = 1 << 13;
/// Least length that a datagram counts with.
const DATAGRAM: usize = 256;
/// Time in which a guest has to take some waiting bytes.
const UNREAD_OF_GUESTS: Span = Span::from_secs(30);
/// The same of a neighbour or an application, whose link may have an outage.
const UNREAD: Span = Span::from_secs(120);

/// Returns the order in which connections of guests are read, by host.
///
/// Of each connection the turn of its last reading is given. The least recent come first. Datagrams have no host.
fn order(connections: impl IntoIterator<Item = (Option<u64>, u64, Place)>) -> VecDeque<VecDeque<Place>> {
    let mut by_host: BTreeMap<Option<u64>, Vec<(u64, Place)>> = BTreeMap::new();
    for (host, served, place) in connections {
        by_host.entry(host).or_default().push((served, place));
    }
    let mut hosts: Vec<(u64, Vec<(u64, Place)>)> = by_host
        .into_values()
        .map(|mut places| {
            places.sort_unstable();
            (places.last().map_or(0, |(served, _)| *served), places)
        })
        .collect();
    hosts.sort_by_key(|(served, _)| *served);
    hosts.into_iter().map(|(_, places)| places.into_iter().map(|(_, place)| place).collect()).collect()
}

impl Daemon {
    /// Receives what has arrived, of guests for a limited time.
    pub(super) fn receive(&mut self, now: Time) {
        let sessions = self.peers.iter().map(|(id, peer)| match self.is_guest(peer) {
            true => (Some(host_key(peer.address.ip())), peer.served, Place::Session(*id)),
            false => (None, peer.served, Place::Session(*id)),
        });
        let inputs = self.inputs.iter().map(|(id, input)| match self.share_at(input.address) {
            Share::Known => (None, input.served, Place::Input(*id)),
            _ => (Some(host_key(input.address.ip())), input.served, Place::Input(*id)),
        });
        let (known, guests): (Vec<_>, Vec<_>) = sessions.chain(inputs).partition(|(host, ..)| host.is_none());
        for (_, _, place) in known {
            self.read(place, READ, now);
        }
        self.receive_datagrams(now);
        let waiting = &self.radio.waiting;
        let datagrams = (!waiting.is_empty()).then_some((None, waiting.served, Place::Datagrams));
        self.receive_of_guests(order(guests.into_iter().chain(datagrams)));
    }

    /// Returns `true` if a peer has to wait for known senders.
    ///
    /// A peer that has not said who it is may be an application of this machine, or a neighbour at its address.
    fn is_guest(&self, peer: &Peer) -> bool {
        match peer.role {
            Role::Unknown => {
                let is_own = peer.dialled.is_some() || peer.address.ip().to_canonical().is_loopback();
                !is_own && self.share_at(peer.address).is_guest()
            }
            _ => self.share_of(peer).is_guest(),
        }
    }

    fn receive_of_guests(&mut self, mut hosts: VecDeque<VecDeque<Place>>) {
        let end = self.now() + GUESTS;
        while let Some(mut places) = hosts.pop_front() {
            let now = self.now();
            if now >= end {
                return;
            }
            let Some(place) = places.pop_front() else { continue };
            if self.read(place, PIECE, now) {
                places.push_back(place);
            }
            if !places.is_empty() {
                hosts.push_back(places);
            }
        }
    }

    /// Returns `true` if more may have arrived than was read of a connection.
    fn read(&mut self, place: Place, most: usize, now: Time) -> bool {
        match place {
            Place::Session(id) => self.read_session(id, most, now),
            Place::Input(id) => self.read_input(id, most, now),
            Place::Datagrams => self.read_datagrams(most, now),
        }
    }

    fn read_session(&mut self, id: u64, most: usize, now: Time) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        peer.served = self.turn;
        let (failure, is_more) = match peer.connection.read(most, now) {
            Ok(progress @ (Progress::Idle | Progress::More)) => (None, progress == Progress::More),
            Ok(Progress::Closed) => (Some("closed by the peer".to_owned()), false),
            Err(problem) => (Some(problem), false),
        };
        if failure.is_some() {
            peer.failure = failure;
            peer.connection.session.disconnect();
        }
        self.handle_events(id, now);
        is_more
    }

    /// Returns `true` if more may have arrived than was read of a connection of MTCP.
    ///
    /// It ends at a string that is not a bundle.
    fn read_input(&mut self, id: u64, most: usize, now: Time) -> bool {
        let Some(input) = self.inputs.get_mut(&id) else { return false };
        input.served = self.turn;
        let (brought, address) = (input.read(most), input.address);
        let share = self.share_at(address);
        let mut is_foreign = brought.is_foreign;
        // Nothing is acknowledged on MTCP, so what is refused is lost.
        for bytes in brought.bundles {
            let origin = Origin { from: 0, is_own: false, share, arrival: Arrival::Final };
            if self.take_any(&bytes, origin, now) == Err(Refused::Unreadable) {
                is_foreign = true;
                break;
            }
        }
        if is_foreign {
            self.say_of(
                address,
                format!("{address}: what it sends on MTCP is not a bundle, connection ended"),
                now,
            );
        }
        if is_foreign || brought.progress == Progress::Closed {
            self.inputs.remove(&id);
            return false;
        }
        brought.progress == Progress::More
    }

    /// Receives datagrams, and takes the bundles of neighbours.
    fn receive_datagrams(&mut self, now: Time) {
        let mut arrived = self.radio.receive(now);
        arrived.extend(self.radio.events(&mut self.node, now));
        // Reports of LTP are not to leave before the disk has the bundles. On UDP nothing is acknowledged.
        self.has_blocks |= arrived.iter().any(|arrived| arrived.session.is_some());
        arrived.into_iter().for_each(|arrived| self.take_arrived(arrived, now));
    }

    /// Returns `true` if more datagrams of guests wait than were taken.
    fn read_datagrams(&mut self, most: usize, now: Time) -> bool {
        self.radio.waiting.served = self.turn;
        let mut len = 0;
        while len < most
            && let Some(bytes) = self.radio.waiting.pop()
        {
            len += bytes.len().max(DATAGRAM);
            self.take_arrived(Arrived { from: 0, bytes, session: None }, now);
        }
        !self.radio.waiting.is_empty()
    }

    fn take_arrived(&mut self, Arrived { from, bytes, session }: Arrived, now: Time) {
        let taken = match bytes.len() as u64 > self.file.max_bundle.get() {
            true => {
                self.counters.no_room += 1;
                Err(refusal::NO_RESOURCES)
            }
            false => {
                let arrival = session.map_or(Arrival::Final, |_| Arrival::Refusable);
                let share = if from == 0 { Share::Unproven } else { Share::Known };
                self.take(&bytes, Origin { from, is_own: false, share, arrival }, now)
            }
        };
        // No report has left yet. Of a block of several bundles, those that were taken are known when they come again.
        match (taken, session) {
            (Err(refusal::NO_RESOURCES), Some(session)) => self.radio.engine.refuse(session),
            (Ok(()), Some(session)) => self.fresh.sessions.push(session),
            _ => {}
        }
    }

    /// Ends a session whose peer has read nothing for too long.
    pub(super) fn end_unread(&mut self, id: u64, now: Time) {
        let Some(since) = self.peers.get_mut(&id).and_then(|peer| peer.connection.unread_since(now)) else {
            return;
        };
        let is_guest = self.peers.get(&id).is_some_and(|peer| self.is_guest(peer));
        let longest = if is_guest { UNREAD_OF_GUESTS } else { UNREAD };
        if now >= since + longest
            && let Some(peer) = self.peers.get_mut(&id)
        {
            peer.failure = Some(format!("it has read nothing for {longest}"));
            peer.connection.session.disconnect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_turns_and_so_have_their_connections() {
        let found = order([
            (Some(1), 9, Place::Session(1)),
            (Some(1), 7, Place::Session(2)),
            (Some(1), 8, Place::Input(3)),
            (Some(2), 8, Place::Input(4)),
            (None, 6, Place::Datagrams),
            (Some(3), 5, Place::Session(5)),
        ]);
        let found: Vec<Vec<Place>> = found.into_iter().map(Vec::from).collect();
        let of_first = [Place::Session(2), Place::Input(3), Place::Session(1)];
        assert_eq!(
            found,
            [vec![Place::Session(5)], vec![Place::Datagrams], vec![Place::Input(4)], of_first.to_vec()]
        );
    }
}
