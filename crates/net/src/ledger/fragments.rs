//! Packets in fragments: which loss of a fragment is the end of its packet.

use super::{BUNDLE, Book, Entry, FRAGMENT, LAST, NUMBER, copies};

/// Packet in fragments.
#[derive(Debug, Default)]
pub(super) struct Fragmented {
    /// Tag of the packet.
    of: u32,
    /// Set once the end of the packet is booked, or goes with another tag.
    is_ended: bool,
    /// Number of fragments with a tag. A branch has one more while its packet has some.
    left: usize,
    /// Numbers of its fragments.
    fragments: Vec<u32>,
    /// Element at which a fragment was duplicated. Then the loss of one need not be the packet's.
    copied_at: Option<u32>,
    /// Set while duplicates may complete the packet again.
    may_repeat: bool,
    /// First loss of a fragment of a packet with duplicates and branches.
    lost: Option<(u32, Entry)>,
    /// Copies for the branches of a group, in their order.
    branches: Vec<u32>,
    /// Number of branches that the present fragment has copies for.
    branched: usize,
    /// Element that made them.
    branched_at: u32,
    /// Set for a copy for a branch.
    is_branch: bool,
}

/// Fragment of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    /// Number of its packet among those in fragments.
    packet: u32,
    /// Number of its copies that have not ended.
    left: u32,
    /// First loss of a copy.
    lost: Option<(u32, Entry)>,
}

impl Book {
    /// Books the end of a fragment.
    ///
    /// It is that of its packet and of its copies for branches, unless there is a duplicate of the fragment.
    pub(super) fn end_fragment(&mut self, tag: u32, place: u32, entry: Entry, count: i64) {
        let Fragment { packet: number, left, lost } = self.fragment_of(tag);
        let packet = &mut self.fragmented[number as usize];
        let is_dropped = matches!(entry, Entry::Dropped(_));
        let is_apart = packet.is_branch || !packet.branches.is_empty();
        if packet.copied_at.is_some() && is_apart && entry != Entry::TakenOver {
            packet.lost.get_or_insert((place, entry));
        } else if is_dropped && left > 1 {
            self.fragments[(tag & NUMBER) as usize].lost.get_or_insert((place, entry));
        } else {
            // The packet cannot become whole, or is on its way at the end.
            let (place, entry) = lost.filter(|_| is_dropped).unwrap_or((place, entry));
            self.end_whole(number, place, entry, count);
            self.exclude_repeats(number, !is_dropped);
        }
        self.leave_out(tag);
    }

    fn fragment_of(&self, tag: u32) -> Fragment {
        self.fragments[(tag & NUMBER) as usize]
    }

    fn packet_with(&mut self, tag: u32) -> &mut Fragmented {
        let Fragment { packet, .. } = self.fragment_of(tag);
        &mut self.fragmented[packet as usize]
    }

    /// Notes that a packet cannot be completed again. At the end it is on its way if it could.
    fn exclude_repeats(&mut self, number: u32, remains: bool) {
        let packet = &mut self.fragmented[number as usize];
        if std::mem::take(&mut packet.may_repeat) {
            let of = packet.of;
            self.release_copies(of, remains);
        }
    }

    /// Books the end of a packet in fragments.
    ///
    /// In front of the place where it is copied for branches, it ends once: copies that other fragments have were not made.
    fn end_whole(&mut self, number: u32, place: u32, entry: Entry, count: i64) {
        let of = self.take_ended(number);
        self.end(of, place, entry, count);
        let mut copies = self.take_copies(number).into_iter();
        if let Some((copy, _)) = copies.next() {
            self.end(copy, place, entry, count);
        }
        copies.for_each(|(copy, copied_at)| self.end(copy, copied_at, Entry::Copied, -1));
    }

    /// Removes and returns a packet's copies that have not ended, with their makers.
    fn take_copies(&mut self, number: u32) -> Vec<(u32, u32)> {
        let Fragmented { branched_at, ref branches, .. } = self.fragmented[number as usize];
        let mut copies = Vec::new();
        for branch in branches.clone() {
            let copy = self.take_ended(branch);
            copies.extend((copy != 0).then_some((copy, branched_at)));
            copies.extend(self.take_copies(branch));
        }
        copies
    }

    pub(super) fn copy_fragment(&mut self, tag: u32, place: u32) -> u32 {
        let Fragment { packet: number, .. } = self.fragment_of(tag);
        let packet = &self.fragmented[number as usize];
        if packet.is_ended && packet.copied_at.is_none() {
            return 0;
        }
        if packet.copied_at.is_none() {
            let of = self.known_as_copied(packet.of);
            let packet = &mut self.fragmented[number as usize];
            (packet.of, packet.may_repeat) = (of, copies::is_copied(of));
            packet.copied_at = Some(place);
            self.hold_copies(of);
        }
        self.fragmented[number as usize].left += 1;
        self.fragments[(tag & NUMBER) as usize].left += 1;
        tag
    }

    /// Returns the tags of `count` fragments of a tag's packet. It may be a fragment itself.
    pub(super) fn fragments(&mut self, tag: u32, count: usize) -> Vec<u32> {
        if tag == 0 {
            return vec![0; count];
        }
        let number = self.fragment(Fragmented { of: tag, left: count, ..Fragmented::default() });
        let is_fragment = (FRAGMENT..BUNDLE).contains(&tag);
        let last = if is_fragment { tag & LAST } else { LAST };
        let mut tags: Vec<u32> = (0..count).map(|_| FRAGMENT | self.add_fragment(number)).collect();
        tags.last_mut().into_iter().for_each(|tag| *tag |= last);
        tags
    }

    /// Adds a fragment to a packet, and returns its number.
    fn add_fragment(&mut self, packet: u32) -> u32 {
        let fragment = Fragment { packet, left: 1, lost: None };
        let number = match self.free_fragments.pop() {
            Some(number) => {
                self.fragments[number as usize] = fragment;
                number
            }
            None => {
                self.fragments.push(fragment);
                self.fragments.len() as u32 - 1
            }
        };
        self.fragmented[packet as usize].fragments.push(number);
        number
    }

    fn fragment(&mut self, packet: Fragmented) -> u32 {
        match self.free_fragmented.pop() {
            Some(number) => {
                self.fragmented[number as usize] = packet;
                number
            }
            None => {
                self.fragmented.push(packet);
                self.fragmented.len() as u32 - 1
            }
        }
    }

    /// Returns the tag of a fragment's copy for the next branch.
    ///
    /// The packet's copy is booked with that of its first fragment.
    pub(super) fn branch(&mut self, tag: u32, place: u32) -> u32 {
        let packet = self.packet_with(tag);
        let (number, copied_at, mut of) = (packet.branched, packet.copied_at, packet.of);
        packet.branched += 1;
        if packet.branches.len() <= number {
            if packet.is_ended {
                return 0;
            }
            let copy = self.copy(&mut of, place);
            let branch =
                Fragmented { of: copy, left: 1, copied_at, is_branch: true, ..Fragmented::default() };
            let branch = self.fragment(branch);
            let packet = self.packet_with(tag);
            packet.of = of;
            packet.branches.push(branch);
            packet.branched_at = place;
        }
        let branch = self.packet_with(tag).branches[number];
        self.fragmented[branch as usize].left += 1;
        FRAGMENT | self.add_fragment(branch) | tag & LAST
    }

    /// Removes a fragment in whose place are its copies for branches.
    pub(super) fn replace(&mut self, tag: u32, place: u32) {
        self.packet_with(tag).branched = 0;
        let of = self.take_packet(tag);
        self.end(of, place, Entry::Copied, -1);
    }

    /// Removes a fragment. With the last one, a packet that was not completed ends.
    fn leave_out(&mut self, tag: u32) {
        let fragment = &mut self.fragments[(tag & NUMBER) as usize];
        fragment.left -= 1;
        let (number, is_last) = (fragment.packet, fragment.left == 0);
        if is_last && self.fragmented[number as usize].is_ended {
            self.exclude_repeats(number, false);
        }
        self.leave_out_of(number);
    }

    fn leave_out_of(&mut self, number: u32) {
        let packet = &mut self.fragmented[number as usize];
        packet.left -= 1;
        if packet.left > 0 {
            return;
        }
        self.exclude_repeats(number, false);
        let packet = std::mem::take(&mut self.fragmented[number as usize]);
        let Fragmented { of, is_ended, lost, branches, fragments, .. } = packet;
        self.free_fragments.extend(fragments);
        self.free_fragmented.push(number);
        if let Some((place, entry)) = lost.filter(|_| !is_ended) {
            self.end(of, place, entry, 1);
        }
        branches.into_iter().for_each(|branch| self.leave_out_of(branch));
    }

    /// Removes a fragment, and returns the tag of its packet. The others have none then.
    fn take_packet(&mut self, tag: u32) -> u32 {
        let Fragment { packet, .. } = self.fragment_of(tag);
        let of = self.take_ended(packet);
        self.leave_out(tag);
        of
    }

    /// Returns the tag of a packet in fragments, whose end is booked now.
    ///
    /// It is zero if it was booked before.
    fn take_ended(&mut self, number: u32) -> u32 {
        let packet = &mut self.fragmented[number as usize];
        if std::mem::replace(&mut packet.is_ended, true) { 0 } else { packet.of }
    }

    /// Returns the packet that is completed after its end, and the place of its copy.
    ///
    /// Duplicates of its fragments complete it again, or fragments of several copies do together.
    pub(super) fn again(&self, tag: u32, place: u32) -> Option<(u32, u32)> {
        let fragment = (FRAGMENT..BUNDLE).contains(&tag).then(|| self.fragment_of(tag))?;
        let packet = &self.fragmented[fragment.packet as usize];
        let copied_at = packet.copied_at.or(copies::is_copied(packet.of).then_some(place));
        let is_alone = packet.is_ended && packet.of < FRAGMENT;
        copied_at.filter(|_| is_alone).map(|place| (packet.of, place))
    }

    /// Returns the tag of a fragment's packet, or that of a whole packet.
    pub(super) fn packet_of(&mut self, tag: u32) -> u32 {
        match tag {
            FRAGMENT..BUNDLE => {
                let of = self.take_packet(tag);
                self.packet_of(of)
            }
            whole => whole,
        }
    }

    /// Returns the tag of the packet that is delivered with a fragment: with the last.
    pub(super) fn accept_fragment(&mut self, tag: u32) -> u32 {
        if tag & LAST != 0 {
            return self.packet_of(tag);
        }
        self.leave_out(tag);
        0
    }
}
