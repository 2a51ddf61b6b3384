//! Packets of which there are copies.
//!
//! A packet is lost with the last of its copies if none arrived, and has arrived with the first
//! that does. In the accounts of [`super`] each copy stays a packet.

use std::collections::{HashMap, VecDeque};

use super::{Book, COPY, Entry, FRAGMENT};

/// Packets that have been copied, by number.
#[derive(Debug, Default)]
pub(super) struct Copies {
    packets: Vec<Copied>,
    /// Numbers that are not in use, in the order in which they became free.
    free: VecDeque<u32>,
}

/// Packet that has been copied.
#[derive(Debug, Default)]
struct Copied {
    /// Tag that it had before.
    of: u32,
    /// Number of copies that have not ended.
    left: u32,
    /// Number of reasons for which there may be further copies.
    holds: u32,
    /// Number of copies that arrived.
    arrived: u32,
    /// Numbers of copies that were delivered, by places.
    delivered: HashMap<u32, u32>,
    /// Element that dropped a copy last.
    dropped_at: Option<u32>,
    /// Set if a copy is on its way at the end.
    remains: bool,
    /// Set once it is lost.
    is_lost: bool,
    /// Set while its number is among the free ones.
    is_free: bool,
    /// Answer to it, which has copies where it has.
    answer: Option<u32>,
    /// Set while the answer may have further copies, because of copies of this one.
    holds_answer: bool,
}

/// Number of packets for which the number of one that ended stays its own. An endpoint may refuse it or answer it.
const KEPT: usize = 4096;

/// Returns `true` for the tag of a packet that has been copied.
pub(super) fn is_copied(tag: u32) -> bool {
    (COPY..FRAGMENT).contains(&tag)
}

impl Book {
    /// Returns what the packet's tag was before it was copied.
    pub(super) fn before_copies(&self, tag: u32) -> u32 {
        self.copies.packets.get((tag - COPY) as usize).map_or(0, |packet| packet.of)
    }

    /// Returns the tag by which a packet's copies are known. The packet is one.
    pub(super) fn known_as_copied(&mut self, of: u32) -> u32 {
        if of == 0 || of >= COPY {
            return of;
        }
        let packet = Copied { of, left: 1, ..Copied::default() };
        while self.copies.free.len() > KEPT {
            let Some(number) = self.copies.free.pop_front() else { break };
            let free = &mut self.copies.packets[number as usize];
            free.is_free = false;
            if free.left + free.holds == 0 {
                *free = packet;
                return COPY + number;
            }
        }
        if self.copies.packets.len() as u32 >= FRAGMENT - COPY {
            return of;
        }
        self.copies.packets.push(packet);
        COPY + self.copies.packets.len() as u32 - 1
    }

    fn copied(&mut self, tag: u32) -> &mut Copied {
        &mut self.copies.packets[(tag - COPY) as usize]
    }

    /// Books a further copy of a packet.
    pub(super) fn add_copy(&mut self, tag: u32, place: u32) {
        self.revive(tag);
        let packet = self.copied(tag);
        packet.left += 1;
        let of = packet.of;
        self.add(of, place, Entry::Copied, 1);
    }

    /// Books the end of a copy.
    pub(super) fn end_copy(&mut self, tag: u32, place: u32, entry: Entry, count: i64) {
        let packet = self.copied(tag);
        packet.left = packet.left.saturating_sub(1);
        let of = packet.of;
        let mut more = None;
        match entry {
            Entry::Dropped(_) => {
                packet.dropped_at = Some(place);
                more = Some(Entry::Spared);
            }
            Entry::TakenOver => {
                packet.arrived += 1;
                more = (packet.arrived > 1).then_some(Entry::Again);
            }
            Entry::Waiting | Entry::InFlight => packet.remains = true,
            Entry::Copied | Entry::Again | Entry::Repeated | Entry::Spared => {}
        }
        self.add(of, place, entry, count);
        more.into_iter().for_each(|more| self.add(of, place, more, 1));
        self.settle_copies(tag);
    }

    /// Notes that a copy was delivered, and returns the tag of the account.
    pub(super) fn deliver_copy(&mut self, tag: u32, place: u32) -> u32 {
        let packet = self.copied(tag);
        packet.left = packet.left.saturating_sub(1);
        packet.arrived += 1;
        let (of, is_again) = (packet.of, packet.arrived > 1);
        let here = packet.delivered.entry(place).or_default();
        *here += 1;
        let is_repeated = *here > 1;
        if is_again {
            self.add(of, place, Entry::Again, 1);
        }
        if is_repeated {
            self.add(of, place, Entry::Repeated, 1);
        }
        self.settle_copies(tag);
        of
    }

    /// Reverts [`Book::deliver_copy`].
    pub(super) fn take_back_copy(&mut self, tag: u32, place: u32) -> u32 {
        let packet = self.copied(tag);
        packet.left += 1;
        packet.arrived = packet.arrived.saturating_sub(1);
        let (of, was_again) = (packet.of, packet.arrived > 0);
        // An endpoint takes back what was delivered to its node. Of several nodes it is the one with most.
        let most = packet.delivered.values_mut().max();
        let was_repeated = most.is_some_and(|most| {
            *most = most.saturating_sub(1);
            *most > 0
        });
        if was_again {
            self.add(of, place, Entry::Again, -1);
        }
        if was_repeated {
            self.add(of, place, Entry::Repeated, -1);
        }
        of
    }

    /// Notes that there may be further copies of a packet.
    pub(super) fn hold_copies(&mut self, tag: u32) {
        if is_copied(tag) {
            self.copied(tag).holds += 1;
        }
    }

    /// Reverts [`Book::hold_copies`]. At the end, what could still become a copy is on its way.
    pub(super) fn release_copies(&mut self, tag: u32, remains: bool) {
        if is_copied(tag) {
            let packet = self.copied(tag);
            packet.holds = packet.holds.saturating_sub(1);
            packet.remains |= remains;
            self.settle_copies(tag);
        }
    }

    /// Returns the tag of an account's answer to a packet that has been copied.
    pub(super) fn answer(&mut self, request: u32, own: u32) -> u32 {
        if let Some(answer) = self.copied(request).answer {
            self.revive(answer);
            self.copied(answer).left += 1;
            return answer;
        }
        let answer = self.known_as_copied(own);
        if is_copied(answer) {
            let request = self.copied(request);
            request.answer = Some(answer);
            // Further copies of the request bring further answers.
            request.holds_answer = request.left + request.holds > 0;
            self.copied(answer).holds = u32::from(request.holds_answer);
        }
        answer
    }

    /// Reverts the loss of a packet of which there is a further copy.
    fn revive(&mut self, tag: u32) {
        let packet = self.copied(tag);
        if std::mem::take(&mut packet.is_lost) {
            let (of, place) = (packet.of, packet.dropped_at.unwrap_or(0));
            self.add(of, place, Entry::Spared, 1);
        }
    }

    /// Decides what became of a packet without further copies.
    fn settle_copies(&mut self, tag: u32) {
        let packet = self.copied(tag);
        if packet.left + packet.holds > 0 {
            return;
        }
        let is_lost = packet.arrived == 0 && !packet.remains && !packet.is_lost;
        let lost_at = packet.dropped_at.filter(|_| is_lost);
        packet.is_lost |= lost_at.is_some();
        let held = std::mem::take(&mut packet.holds_answer);
        let (of, answer) = (packet.of, packet.answer.filter(|_| held));
        let was_free = std::mem::replace(&mut packet.is_free, true);
        if !was_free {
            self.copies.free.push_back(tag - COPY);
        }
        if let Some(place) = lost_at {
            self.add(of, place, Entry::Spared, -1);
        }
        answer.into_iter().for_each(|answer| self.release_copies(answer, false));
    }
}
