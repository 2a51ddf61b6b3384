//! Changes of a turn on their way to disk, and arrivals that it refuses.
//!
//! Nothing is acknowledged before it is written. So of a turn that the disk has no room for, what has arrived is given up: TCPCL refuses the
//! transfers, LTP cancels the blocks, and the neighbours keep the bundles. The other changes wait in memory: removals, fragments of
//! bundles that are here, and what was promised.

use std::collections::HashSet;
use std::io;

use bentpipe_dtn::node::Change;
use bentpipe_wire::dtn::ltp::SessionId;

use super::super::journal::{Slot, is_full};
use super::Daemon;
use crate::clock::dtn_time;

/// Room in bytes beyond the reserve at which bundles are accepted again.
const AGAIN: u64 = 64 << 10;

/// Arrivals that are not yet on disk.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    pub(super) slots: Vec<Slot>,
    pub(super) hashes: Vec<u128>,
    /// Sessions of LTP whose blocks were taken.
    pub(super) sessions: Vec<SessionId>,
}

impl Fresh {
    fn clear(&mut self) {
        self.slots.clear();
        self.hashes.clear();
        self.sessions.clear();
    }
}

impl Daemon {
    /// Returns `true` if the disk has room for a bundle. The first that it has none for is logged.
    pub(super) fn has_disk_for(&mut self, len: u64) -> bool {
        let has_room = self.journal.has_room(len);
        if !has_room {
            self.note_full();
        }
        has_room
    }

    fn note_full(&mut self) {
        if !std::mem::replace(&mut self.is_disk_full, true) {
            self.log.push("store: no room on the disk, bundles are refused until there is".to_owned());
        }
    }

    /// Measures the room on the disk, and logs its return.
    pub(super) fn measure_disk(&mut self) {
        self.journal.measure();
        if self.is_disk_full && self.journal.has_room(AGAIN) {
            self.is_disk_full = false;
            self.log.push("store: there is room on the disk again".to_owned());
        }
    }

    /// Writes changes of the storage to the journal.
    ///
    /// Reports of LTP leave with other segments: bundles of blocks are waited for.
    pub(super) fn store(&mut self) -> io::Result<()> {
        for change in self.node.take_changes() {
            match change {
                Change::Removed(id) => self.journal.remove(Slot::Waiting(id)),
                Change::Stored(id) => self.write_waiting(id),
            }
        }
        let written = match std::mem::take(&mut self.has_blocks) {
            true => self.journal.commit(),
            false => self.journal.write(),
        };
        match written {
            Ok(()) => self.note_written(),
            Err(error) if is_full(&error) => {
                self.give_up_arrivals();
                self.without_full(|daemon| daemon.journal.write())?;
            }
            Err(error) => return Err(error),
        }
        self.fresh.clear();
        self.without_full(Daemon::compact)
    }

    /// Runs a step that may wait for room on the disk.
    fn without_full(&mut self, step: impl FnOnce(&mut Daemon) -> io::Result<()>) -> io::Result<()> {
        match step(self) {
            Err(error) if is_full(&error) => {
                self.note_full();
                Ok(())
            }
            result => result,
        }
    }

    fn note_written(&mut self) {
        let written = self.journal.written();
        self.peers.values_mut().for_each(|peer| peer.note_written(written));
    }

    /// Refuses what has arrived in this turn.
    fn give_up_arrivals(&mut self) {
        self.note_full();
        let slots: HashSet<Slot> = self.fresh.slots.iter().copied().collect();
        let hashes: HashSet<u128> = self.fresh.hashes.iter().copied().collect();
        self.journal.give_up(&slots, &hashes);
        for slot in slots {
            match slot {
                Slot::Waiting(id) => self.node.discard(id),
                Slot::Local(id) => {
                    if let Some((bundle, share)) = self.mailboxes.take(id) {
                        self.node.forget_delivery((&bundle, share));
                        self.counters.no_room += 1;
                    }
                }
                Slot::Part(id) => self.peers.values_mut().for_each(|peer| peer.forget_piece(id)),
            }
        }
        self.fresh.sessions.iter().for_each(|session| self.radio.engine.refuse(*session));
        let written = self.journal.written();
        self.peers.values_mut().for_each(|peer| peer.refuse_all(written));
    }

    /// Removes the oldest segment of the journal, if little of it is needed.
    fn compact(&mut self) -> io::Result<()> {
        let Some(entries) = self.journal.oldest_entries() else { return Ok(()) };
        for slot in entries {
            match slot {
                Slot::Waiting(id) => self.write_waiting(id),
                Slot::Local(id) => {
                    if let Some((bundle, share)) = self.mailboxes.bundle(id) {
                        let sender = self.sender_of(None, share);
                        self.journal.store_bundle(slot, sender, dtn_time(), bundle);
                    }
                }
                Slot::Part(id) => self.rewrite_part(id),
            }
        }
        self.journal.remove_oldest()
    }

    fn write_waiting(&mut self, id: u64) {
        // A bundle may be gone again in the turn in which it came.
        if let Some((bundle, from, arrival)) = self.node.bundle(id) {
            let sender = self.sender_of(from, self.node.share(id));
            let arrival = self.node.dtn_time(arrival);
            self.journal.store_bundle(Slot::Waiting(id), sender, arrival, bundle);
        }
    }
}
