//! Which of some inputs or channels comes first: a winner tree.
//!
//! The engine's agenda is made for deadlines that rarely become the last of their group. Where streams of cells are merged, the
//! first one always moves back behind others, and a tree of pairs is the shorter way.

use bentpipe_units::Time;

/// A time for each of a fixed number of inputs, and the earliest of them; ties go to the lowest number.
#[derive(Debug)]
pub(crate) struct Order {
    /// Each inner node has the earlier of its two children; the root is first, the leaves are last.
    nodes: Vec<(Time, u32)>,
    leaves: usize,
}

impl Order {
    /// An order of `count` inputs, none of which ever comes.
    pub(crate) fn new(count: usize) -> Order {
        let leaves = count.next_power_of_two();
        let mut nodes = vec![(Time::NEVER, 0); 2 * leaves];
        (0..leaves).for_each(|input| nodes[leaves + input].1 = input as u32);
        (1..leaves).rev().for_each(|node| nodes[node] = nodes[2 * node]);
        Order { nodes, leaves }
    }

    /// The earliest time, and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        let (time, input) = self.nodes[1];
        (time, input as usize)
    }

    /// Sets an input's time.
    #[inline]
    pub(crate) fn set(&mut self, input: usize, time: Time) {
        let mut node = self.leaves + input;
        let mut winner = (time, input as u32);
        self.nodes[node] = winner;
        while node > 1 {
            let other = self.nodes[node ^ 1];
            // Numbers grow from left to right, so of equals the left one wins.
            let keeps = if node & 1 == 0 { winner.0 <= other.0 } else { winner.0 < other.0 };
            winner = if keeps { winner } else { other };
            node /= 2;
            self.nodes[node] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_scan_over_all() {
        for count in [0, 1, 2, 3, 17, 37] {
            let (mut order, mut plain) = (Order::new(count), vec![u64::MAX; count]);
            assert!(order.first().0.is_never());
            let mut state = 1_u64;
            for _ in 0..5000 * count.min(1) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (input, time) = ((state >> 33) as usize % count, (state >> 40) % 50);
                order.set(input, Time::from_nanos(time));
                plain[input] = time;
                let expected = (0..count).min_by_key(|&input| (plain[input], input)).expect("some");
                assert_eq!(order.first(), (Time::from_nanos(plain[expected]), expected));
            }
        }
    }
}
