//! When each element is to be woken: a winner tree.

use bentpipe_units::Time;

/// A deadline for each of a fixed number of elements, and the earliest of them; ties go to the lowest number.
///
/// A tournament: each inner node holds the earlier of its two children, so moving one deadline costs one comparison
/// a level, and reading the earliest none.
#[derive(Debug)]
pub struct Agenda {
    /// `nodes[1]` is the root, the children of `n` are `2n` and `2n + 1`, the leaves start at `leaves`.
    nodes: Vec<Entry>,
    leaves: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    time: Time,
    element: u32,
}

impl Agenda {
    /// An agenda of `count` elements, none of them with a deadline.
    pub fn new(count: usize) -> Agenda {
        let leaves = count.next_power_of_two().max(2);
        let mut nodes = vec![Entry { time: Time::NEVER, element: 0 }; 2 * leaves];
        for (element, leaf) in nodes[leaves..].iter_mut().enumerate() {
            leaf.element = element as u32;
        }
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node];
        }
        Agenda { nodes, leaves }
    }

    /// The earliest deadline and whose it is.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        (self.nodes[1].time, self.nodes[1].element as usize)
    }

    /// The deadline of `element`.
    #[inline]
    pub fn deadline(&self, element: usize) -> Time {
        self.nodes[self.leaves + element].time
    }

    /// Sets the deadline of `element`.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline]
    pub fn set(&mut self, element: usize, time: Time) {
        let mut node = self.leaves + element;
        // The winner on the way up is at hand; each level looks only at who it meets there.
        let mut winner = Entry { time, element: element as u32 };
        self.nodes[node].time = time;
        while node > 1 {
            let other = self.nodes[node ^ 1];
            if other.comes_before(winner) {
                winner = other;
            }
            node /= 2;
            if self.nodes[node] == winner {
                return;
            }
            self.nodes[node] = winner;
        }
    }
}

impl Entry {
    #[inline]
    fn comes_before(self, other: Entry) -> bool {
        self.time < other.time || self.time == other.time && self.element < other.element
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
