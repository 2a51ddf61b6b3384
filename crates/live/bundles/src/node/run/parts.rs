//! Reactive fragmentation: parts of bundles whose transfer on TCPCL was cut.
//!
//! What is acknowledged of a transfer that goes on is in the store first, in pieces, so that a crash loses none of it: the neighbour
//! sends it again nowhere. Each second there is another piece; a transfer that ends before that has none. In the
//! batch of the store that has the bundle, or the fragment that is left of it, the pieces are removed.

use std::collections::BTreeMap;

use bentpipe_dtn::node::{Arrival, Share};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::{Bundle, Content};

use super::super::journal::{Kept, Slot};
use super::super::peers::{Item, Part, Peer, Role, Verdict};
use super::Daemon;
use super::accept::Origin;
use crate::clock::dtn_time;

/// Time from piece to piece. A cut transfer loses no more than what arrived in it.
const PERIOD: Span = Span::from_secs(1);
/// Bytes of a transfer in which its payload has to begin.
const FRONT: usize = 1 << 16;
/// Bytes of a piece's record in front of its data.
///
/// They are the number of the first piece and the place in the transfer.
const HEAD: usize = 16;

impl Daemon {
    /// Stores what has arrived of transfers that go on, to acknowledge it.
    pub(super) fn store_parts(&mut self, now: Time) {
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            if let Some(gone) = self.peers.get_mut(&id).and_then(abandoned) {
                self.drop_pieces(&gone);
            }
            self.store_part(id, now);
        }
    }

    fn store_part(&mut self, id: u64, now: Time) {
        let Some(peer) = self.peers.get(&id) else { return };
        let Role::Neighbour(number) = peer.role else { return };
        let from = self.sender_of(Some(number), self.share_of(peer));
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some((transfer, data)) = peer.connection.session.incoming() else { return };
        let part =
            peer.part.get_or_insert_with(|| Part { transfer, from, len: 0, pieces: vec![], since: now });
        let (start, len) = (part.len, data.len() as u64);
        if len == start || now < part.since + PERIOD {
            return;
        }
        part.since = now;
        let Some(front) = Bundle::parse_part(&data[..data.len().min(FRONT)]) else { return };
        let has_room = match front.primary.destination.is_at(&self.file.eid) {
            true => self.mailboxes.has_room(len),
            false => self.node.has_room(len),
        };
        if !has_room || !self.journal.has_room(len - start) {
            return;
        }
        let piece = start as usize..data.len();
        part.pieces.push((self.next_local, piece.clone()));
        part.len = len;
        let record = record(part, &piece, data);
        self.journal.store(Slot::Part(self.next_local), from, dtn_time(), &record);
        self.fresh.slots.push(Slot::Part(self.next_local));
        self.next_local += 1;
        peer.verdicts.push(Verdict::Part(transfer, len));
    }

    /// Stores a piece again whose segment is to be removed.
    pub(super) fn rewrite_part(&mut self, id: u64) {
        for peer in self.peers.values() {
            let Some((part, (_, data))) = peer.part.as_ref().zip(peer.connection.session.incoming()) else {
                continue;
            };
            if let Some((_, place)) = part.pieces.iter().find(|(number, _)| *number == id) {
                let record = record(part, place, data);
                return self.journal.store(Slot::Part(id), part.from, dtn_time(), &record);
            }
        }
    }

    fn drop_pieces(&mut self, part: &Part) {
        part.pieces.iter().for_each(|(piece, _)| self.journal.remove(Slot::Part(*piece)));
    }

    /// Accepts a bundle of a neighbour, or returns the reason for which it is refused.
    pub(super) fn take_whole(
        &mut self,
        id: u64,
        bytes: &[u8],
        (from, share): (u64, Share),
        now: Time,
    ) -> Result<(), u8> {
        let part = self.peers.get_mut(&id).and_then(|peer| peer.part.take());
        let arrival = Arrival::Refusable.or_promised(is_promised(part.as_ref()));
        let result = self.take(bytes, Origin { from, is_own: false, share, arrival }, now);
        part.iter().for_each(|part| self.drop_pieces(part));
        result
    }

    /// Keeps the first bytes of a bundle whose transfer was cut, as a fragment.
    pub(super) fn take_part(&mut self, id: u64, bytes: &[u8], now: Time) {
        let Some(share) = self.peers.get(&id).map(|peer| self.share_of(peer)) else { return };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let (Role::Neighbour(from), part) = (peer.role, peer.part.take()) else { return };
        let arrival = Arrival::Final.or_promised(is_promised(part.as_ref()));
        self.keep_part(bytes, Origin { from, is_own: false, share, arrival }, 0, now);
        part.iter().for_each(|part| self.drop_pieces(part));
    }

    fn keep_part(&mut self, bytes: &[u8], origin: Origin, resided: u64, now: Time) {
        let Some(mut bundle) = Bundle::parse_part(bytes) else { return };
        if let Some(age) = bundle.age() {
            bundle.set(Content::Age(age.saturating_add(resided)));
        }
        let bytes = bundle.to_vec();
        // The sender has gone, so that a refusal has no answer.
        if self.accept(bundle, &bytes, origin, now).is_ok() {
            self.counters.parts += 1;
        }
    }

    /// Notes that the transfer of a bundle was cut. The peer keeps `kept` bytes of it.
    pub(super) fn fail(&mut self, id: u64, transfer: u64, kept: u64, now: Time) {
        let peer = self.peers.get_mut(&id);
        match peer.and_then(|peer| peer.items.get(&transfer).copied().map(|item| (peer, item))) {
            Some((peer, Item::Waiting(bundle, _, start))) => {
                peer.take(transfer);
                self.node.cut(bundle, kept.saturating_sub(start), now);
            }
            _ => self.finish(id, transfer, false, now),
        }
    }

    /// Keeps parts of transfers in which the node crashed, as fragments.
    pub(super) fn restore_parts(&mut self, pieces: BTreeMap<Slot, Kept>, today: u64, now: Time) {
        let mut parts: BTreeMap<u64, BTreeMap<u64, &Kept>> = BTreeMap::new();
        for kept in pieces.values() {
            if let Some((group, offset, _)) = read(&kept.bundle) {
                parts.entry(group).or_default().insert(offset, kept);
            }
        }
        for part in parts.values() {
            let Some(first) = part.values().next() else { continue };
            let mut bytes = Vec::new();
            for (offset, kept) in part {
                if *offset == bytes.len() as u64 {
                    bytes.extend(&kept.bundle[HEAD..]);
                }
            }
            let resided = today.saturating_sub(first.arrival);
            let share = self.share_of_kept(first.from);
            let origin = Origin { from: first.from, is_own: false, share, arrival: Arrival::Promised };
            self.counters.restored += 1;
            self.keep_part(&bytes, origin, resided, now);
        }
        pieces.keys().for_each(|slot| self.journal.remove(*slot));
    }
}

/// Returns `true` if bytes of a transfer are acknowledged.
fn is_promised(part: Option<&Part>) -> bool {
    part.is_some_and(|part| part.len > 0)
}

/// Removes and returns the part of a transfer that is not kept any more.
fn abandoned(peer: &mut Peer) -> Option<Part> {
    let present = peer.connection.session.incoming().map(|(transfer, _)| transfer);
    peer.part.take_if(|part| Some(part.transfer) != present)
}

/// Returns the record of a piece of a transfer.
fn record(part: &Part, place: &std::ops::Range<usize>, data: &[u8]) -> Vec<u8> {
    let group = part.pieces.first().map_or(0, |(first, _)| *first);
    [&group.to_le_bytes(), &(place.start as u64).to_le_bytes(), &data[place.clone()]].concat()
}

/// Returns the first piece, the place in the transfer, and the data of a record.
fn read(record: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (group, rest) = record.split_first_chunk::<8>()?;
    let (offset, data) = rest.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*group), u64::from_le_bytes(*offset), data))
}
