//! Agenda of the elements' wake-ups: a tree of tournaments.

use bentpipe_units::Time;

/// Members of one tournament. A small network is one group, and one of 512 elements three levels.
const WIDTH: usize = 8;

/// Bits of a member's number in its group.
const BITS: u32 = WIDTH.ilog2();

/// Deadlines of a fixed number of elements, the earliest first. Ties go to the lowest number. A deadline
/// beyond 2^61 ns, 73 years, counts as never.
///
/// Elements are in groups, groups in groups, up to one that holds all. Moving one deadline costs one
/// tournament per level.
#[derive(Debug)]
pub struct Agenda {
    /// The elements' groups first. The groups of one level are the members of the next; the last level is one group.
    levels: Vec<Vec<Group>>,
}

impl Agenda {
    /// Creates an agenda of `count` elements without deadlines.
    pub fn new(count: usize) -> Agenda {
        let mut levels = Vec::new();
        let mut members = count;
        loop {
            members = members.div_ceil(WIDTH).max(1);
            levels.push(vec![Group::default(); members]);
            if members == 1 {
                return Agenda { levels };
            }
        }
    }

    /// Returns the earliest deadline and its element.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        let (mut time, mut member) = (Time::NEVER, 0);
        for level in self.levels.iter().rev() {
            let first = level[member].first;
            (time, member) = (first.time(), member * WIDTH + first.member());
        }
        (time, member)
    }

    /// Sets the deadline of `element`.
    ///
    /// # Panics
    /// Panics if the element does not exist.
    pub fn set(&mut self, element: usize, time: Time) {
        let (mut member, mut entry) = (element, Entry::new(time));
        for level in &mut self.levels {
            entry = level[member / WIDTH].set(member % WIDTH, entry);
            member /= WIDTH;
        }
    }
}

/// Deadline with the number of the member in its lowest bits.
///
/// One comparison, without an unpredictable branch, finds the earlier of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u64);

impl Entry {
    const LAST: u64 = u64::MAX >> BITS;

    #[inline]
    fn new(time: Time) -> Entry {
        Entry(time.as_nanos().min(Entry::LAST) << BITS)
    }

    /// Returns the same deadline for another member.
    #[inline]
    fn of(self, member: usize) -> Entry {
        Entry(self.0 >> BITS << BITS | member as u64)
    }

    #[inline]
    fn member(self) -> usize {
        self.0 as usize % WIDTH
    }

    #[inline]
    fn time(self) -> Time {
        let nanos = self.0 >> BITS;
        if nanos == Entry::LAST { Time::NEVER } else { Time::from_nanos(nanos) }
    }
}

/// The deadlines of its members.
#[derive(Clone, Debug)]
struct Group {
    entries: [Entry; WIDTH],
    first: Entry,
}

impl Default for Group {
    fn default() -> Group {
        let never = Entry::new(Time::NEVER);
        Group { entries: std::array::from_fn(|member| never.of(member)), first: never }
    }
}

impl Group {
    /// Moves one deadline; returns the earliest.
    #[inline]
    fn set(&mut self, member: usize, entry: Entry) -> Entry {
        self.entries[member] = entry.of(member);
        let [a, b, c, d, e, f, g, h] = self.entries;
        // By pairs, so that the comparisons do not wait for each other.
        self.first = a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)));
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wins_and_ties_go_to_the_lowest() {
        let mut agenda = Agenda::new(5);
        assert_eq!(agenda.first().0, Time::NEVER);
        for (element, nanos) in [(3, 20), (1, 10), (4, 10), (0, 30)] {
            agenda.set(element, Time::from_nanos(nanos));
        }
        let mut order = Vec::new();
        while !agenda.first().0.is_never() {
            let (time, element) = agenda.first();
            order.push((time.as_nanos(), element));
            agenda.set(element, Time::NEVER);
        }
        assert_eq!(order, [(10, 1), (10, 4), (20, 3), (30, 0)]);
    }

    #[test]
    fn agrees_with_a_scan_over_all() {
        let (mut agenda, mut plain) = (Agenda::new(37), vec![u64::MAX; 37]);
        let mut state = 1_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (element, time) = ((state >> 33) as usize % 37, (state >> 40) % 50);
            agenda.set(element, Time::from_nanos(time));
            plain[element] = time;
            let expected = (0..37).min_by_key(|&e| (plain[e], e)).expect("some");
            assert_eq!(agenda.first(), (Time::from_nanos(plain[expected]), expected));
        }
    }
}
