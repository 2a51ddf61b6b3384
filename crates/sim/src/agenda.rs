//! When each element is to be woken: a tree of tournaments.

use bentpipe_units::Time;

/// How many take part in one tournament. With 16 a small network is one group, and one of 256 elements two levels.
const WIDTH: usize = 16;

/// A deadline for each of a fixed number of elements, and the earliest of them; ties go to the lowest number.
///
/// Elements are in groups, groups in groups, up to one that holds all. Moving one deadline costs one tournament a level
/// at most, and none where the earliest of a group stays what it was.
#[derive(Debug)]
pub struct Agenda {
    /// The elements' groups first. The groups of one level are the members of the next; the last level is one group.
    levels: Vec<Vec<Group>>,
}

/// The deadlines of its members, and which is the earliest.
#[derive(Clone, Debug)]
struct Group {
    times: [Time; WIDTH],
    first: usize,
}

impl Agenda {
    /// An agenda of `count` elements, none of them with a deadline.
    pub fn new(count: usize) -> Agenda {
        let mut levels = Vec::new();
        let mut members = count;
        loop {
            members = members.div_ceil(WIDTH).max(1);
            levels.push(vec![Group { times: [Time::NEVER; WIDTH], first: 0 }; members]);
            if members == 1 {
                return Agenda { levels };
            }
        }
    }

    /// The earliest deadline and whose it is.
    #[inline]
    pub fn first(&self) -> (Time, usize) {
        let (mut time, mut member) = (Time::NEVER, 0);
        for level in self.levels.iter().rev() {
            let group = &level[member];
            (time, member) = (group.earliest(), member * WIDTH + group.first);
        }
        (time, member)
    }

    /// Sets the deadline of `element`.
    ///
    /// # Panics
    /// If there is no such element.
    #[inline]
    pub fn set(&mut self, element: usize, time: Time) {
        let (mut member, mut time) = (element, time);
        for level in &mut self.levels {
            let group = &mut level[member / WIDTH];
            let before = group.earliest();
            time = group.set(member % WIDTH, time);
            if time == before {
                return;
            }
            member /= WIDTH;
        }
    }
}

impl Group {
    #[inline]
    fn earliest(&self) -> Time {
        self.times[self.first % WIDTH]
    }

    /// Moves one deadline; returns the earliest.
    #[inline]
    fn set(&mut self, member: usize, time: Time) -> Time {
        let before = self.earliest();
        self.times[member] = time;
        if member == self.first && time > before {
            self.first = earliest_of(&self.times);
        } else if time < before || time == before && member < self.first {
            self.first = member;
        }
        self.earliest()
    }
}

/// Which of the times is the earliest, the first of equals: by pairs, so that the comparisons do not wait for each
/// other.
#[inline]
fn earliest_of(times: &[Time; WIDTH]) -> usize {
    let mut best: [(Time, usize); WIDTH] = std::array::from_fn(|member| (times[member], member));
    let mut left = WIDTH;
    while left > 1 {
        left /= 2;
        for pair in 0..left {
            let (one, other) = (best[2 * pair], best[2 * pair + 1]);
            best[pair] = if other.0 < one.0 { other } else { one };
        }
    }
    best[0].1
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
