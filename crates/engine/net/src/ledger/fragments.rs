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
    /// Copies for the branches of a group, in their order.
    branches: Vec<u32>,
    /// Number of branches that the present fragment has copies for.
    branched: usize,
    /// Element that made them.
    branched_at: u32,
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
    /// Number of the fragment in front of a branch, while its packet has a tag.
    of: Option<u32>,
}

/// Returns `true` for the tag of a fragment.
fn is_fragment(tag: u32) -> bool {
    (FRAGMENT..BUNDLE).contains(&tag)
}

impl Book {
    /// Books the end of a fragment.
    ///
    /// It is that of its packet and of its copies for branches, unless there is another copy of the fragment.
    pub(super) fn end_fragment(&mut self, tag: u32, place: u32, entry: Entry, count: i64) {
        let own = tag & NUMBER;
        let Fragment { packet: number, left, lost, .. } = self.fragment_of(tag);
        let is_dropped = matches!(entry, Entry::Dropped(_));
        let copies = self.branched(own);
        if is_dropped && (left > 1 || self.is_held(own) || !copies.is_empty()) {
            self.fragments[own as usize].lost.get_or_insert((place, entry));
        } else if !copies.is_empty() {
            // Branches that lost the copies of it would get another one.
            self.end_branches(&copies, place, entry);
        } else {
            // The packet cannot become whole, or is on its way at the end.
            let (place, entry) = lost.filter(|_| is_dropped).unwrap_or((place, entry));
            self.end_whole(number, place, entry, count);
            self.exclude_repeats(number, !is_dropped);
        }
        self.leave_out(tag);
    }

    /// Books the ends of packets of branches without copies of these fragments. At the end a copy in front of them remains.
    fn end_branches(&mut self, copies: &[u32], place: u32, entry: Entry) {
        for &copy in copies {
            let Fragment { packet: number, left, .. } = self.fragments[copy as usize];
            let further = self.branched(copy);
            if left == 0 && further.is_empty() && matches!(entry, Entry::Waiting | Entry::InFlight) {
                self.end_whole(number, place, entry, 1);
                self.exclude_repeats(number, true);
            }
            self.end_branches(&further, place, entry);
        }
    }

    /// Returns the copies of a fragment for branches.
    fn branched(&self, own: u32) -> Vec<u32> {
        let packet = self.fragments[own as usize].packet;
        let branches = self.fragmented[packet as usize].branches.iter();
        branches.filter_map(|branch| self.copy_in(*branch, own)).collect()
    }

    /// Returns a branch's copy of a fragment.
    fn copy_in(&self, branch: u32, of: u32) -> Option<u32> {
        let mut copies = self.fragmented[branch as usize].fragments.iter().copied();
        copies.find(|copy| self.fragments[*copy as usize].of == Some(of))
    }

    /// Returns `true` if further copies of a branch's fragment may come.
    fn is_held(&self, own: u32) -> bool {
        let of = self.fragments[own as usize].of;
        of.is_some_and(|of| self.fragments[of as usize].left > 0 || self.is_held(of))
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
        if let Some((copy, _)) = copies.next().filter(|_| of == 0) {
            self.end(copy, place, entry, count);
        }
        copies.for_each(|(copy, copied_at)| self.end(copy, copied_at, Entry::Copied, -1));
    }

    /// Removes and returns a packet's copies that have not ended, with the elements that copied.
    ///
    /// An element of which one copy is left of a packet, with its branches, has made none.
    fn take_copies(&mut self, number: u32) -> Vec<(u32, u32)> {
        let Fragmented { branched_at, ref branches, .. } = self.fragmented[number as usize];
        let mut copies = Vec::new();
        for branch in branches.clone() {
            let (first, own) = (copies.len(), self.take_ended(branch));
            copies.extend((own != 0).then_some((own, branched_at)));
            copies.extend(self.take_copies(branch));
            if let Some((_, copied_at)) = copies.get_mut(first) {
                *copied_at = branched_at;
            }
        }
        copies
    }

    pub(super) fn copy_fragment(&mut self, tag: u32, place: u32) -> u32 {
        let Fragment { packet: number, .. } = self.fragment_of(tag);
        if self.fragmented[number as usize].copied_at.is_none() && !self.is_open(number) {
            return 0;
        }
        self.note_copies(number, place);
        self.fragmented[number as usize].left += 1;
        self.fragments[(tag & NUMBER) as usize].left += 1;
        tag
    }

    /// Returns `true` before the end of a packet and of its copies for branches.
    fn is_open(&self, number: u32) -> bool {
        let Fragmented { is_ended, ref branches, .. } = self.fragmented[number as usize];
        !is_ended || branches.iter().any(|branch| self.is_open(*branch))
    }

    /// Notes that there are several copies of a packet's fragment. They reach its branches.
    fn note_copies(&mut self, number: u32, place: u32) {
        if self.fragmented[number as usize].copied_at.is_none() {
            let of = self.known_as_copied(self.fragmented[number as usize].of);
            let packet = &mut self.fragmented[number as usize];
            (packet.of, packet.may_repeat, packet.copied_at) = (of, copies::is_copied(of), Some(place));
            self.hold_copies(of);
        }
        let branches = self.fragmented[number as usize].branches.clone();
        branches.into_iter().for_each(|branch| self.note_copies(branch, place));
    }

    /// Returns the tags of `count` fragments of a tag's packet. It may be a fragment itself.
    pub(super) fn fragments(&mut self, tag: u32, count: usize) -> Vec<u32> {
        if tag == 0 {
            return vec![0; count];
        }
        let number = self.fragment(Fragmented { of: tag, left: count, ..Fragmented::default() });
        let last = if is_fragment(tag) { tag & LAST } else { LAST };
        let mut tags: Vec<u32> = (0..count).map(|_| FRAGMENT | self.add_fragment(number, None)).collect();
        tags.last_mut().into_iter().for_each(|tag| *tag |= last);
        tags
    }

    /// Adds a fragment to a packet, and returns its number.
    fn add_fragment(&mut self, packet: u32, of: Option<u32>) -> u32 {
        let fragment = Fragment { packet, left: 1, lost: None, of };
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
            // Of fragments of a fragment, the copy is that fragment's.
            let copy = if is_fragment(of) { self.branch(of, place) } else { self.copy(&mut of, place) };
            let branch = self.fragment(Fragmented { of: copy, left: 1, ..Fragmented::default() });
            copied_at.into_iter().for_each(|place| self.note_copies(branch, place));
            let packet = self.packet_with(tag);
            packet.of = of;
            packet.branches.push(branch);
            packet.branched_at = place;
        }
        let (branch, own) = (self.packet_with(tag).branches[number], tag & NUMBER);
        self.fragmented[branch as usize].left += 1;
        let known = self.copy_in(branch, own);
        known.into_iter().for_each(|copy| self.fragments[copy as usize].left += 1);
        FRAGMENT | known.unwrap_or_else(|| self.add_fragment(branch, Some(own))) | tag & LAST
    }

    /// Removes a fragment in whose place are its copies for branches.
    pub(super) fn replace(&mut self, tag: u32, place: u32) {
        self.packet_with(tag).branched = 0;
        let of = self.take_packet(tag);
        if is_fragment(of) {
            return self.replace(of, place);
        }
        self.end(of, place, Entry::Copied, -1);
    }

    /// Removes a copy of a fragment. With the last one, a packet that was not completed ends.
    fn leave_out(&mut self, tag: u32) {
        let fragment = &mut self.fragments[(tag & NUMBER) as usize];
        fragment.left -= 1;
        let (number, is_last) = (fragment.packet, fragment.left == 0);
        if is_last {
            self.forget(tag & NUMBER);
        }
        self.leave_out_of(number);
    }

    /// Notes the end of the last copy of a fragment, unless more may come.
    ///
    /// Branches that have lost theirs then lose their packets.
    fn forget(&mut self, own: u32) {
        if self.is_held(own) {
            return;
        }
        let number = self.fragments[own as usize].packet;
        if self.fragmented[number as usize].is_ended {
            self.exclude_repeats(number, false);
        }
        for copy in self.branched(own) {
            let Fragment { packet, left, lost, .. } = self.fragments[copy as usize];
            if left > 0 {
                continue;
            }
            if let Some((place, entry)) = lost.filter(|_| self.branched(copy).is_empty()) {
                self.end_whole(packet, place, entry, 1);
            }
            self.forget(copy);
        }
    }

    fn leave_out_of(&mut self, number: u32) {
        let packet = &mut self.fragmented[number as usize];
        packet.left -= 1;
        if packet.left > 0 {
            return;
        }
        self.exclude_repeats(number, false);
        let packet = std::mem::take(&mut self.fragmented[number as usize]);
        let Fragmented { of, is_ended, branches, fragments, .. } = packet;
        let lost = fragments.iter().find_map(|own| self.fragments[*own as usize].lost);
        for branch in &branches {
            for copy in &self.fragmented[*branch as usize].fragments {
                self.fragments[*copy as usize].of = None;
            }
        }
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
        let fragment = is_fragment(tag).then(|| self.fragment_of(tag))?;
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
