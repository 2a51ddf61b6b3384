//! Which of some inputs or channels comes first: a winner tree.
//!
//! The engine's agenda is made for deadlines that rarely become the last of their group. Where streams of cells are merged, the
//! first one always moves back behind others, and a tree of pairs is the shorter way.

use std::hint::select_unpredictable;

use bentpipe_units::Time;

/// A time for each of a fixed number of inputs, and the earliest of them; ties go to the lowest number.
#[derive(Debug)]
pub(crate) struct Order {
    /// Each inner node has the earlier of its two children; the root is 1, the leaves are last.
    nodes: Vec<Node>,
    leaves: usize,
}

/// A time, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Node {
    time: Time,
    input: u32,
}

impl Node {
    /// The earlier of two. No branch predictor could foresee here which one it is, so there is no branch.
    #[inline]
    fn or(self, other: Node) -> Node {
        let comes_first = (self.time < other.time) | ((self.time == other.time) & (self.input < other.input));
        Node {
            time: select_unpredictable(comes_first, self.time, other.time),
            input: select_unpredictable(comes_first, self.input, other.input),
        }
    }
}

impl Order {
    /// An order of `count` inputs, none of which ever comes.
    pub(crate) fn new(count: usize) -> Order {
        let leaves = count.next_power_of_two();
        let mut nodes = vec![Node { time: Time::NEVER, input: 0 }; 2 * leaves];
        (0..leaves).for_each(|input| nodes[leaves + input].input = input as u32);
        (1..leaves).rev().for_each(|node| nodes[node] = nodes[2 * node]);
        Order { nodes, leaves }
    }

    /// The earliest time, and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        let Node { time, input } = self.nodes[1];
        (time, input as usize)
    }

    /// The earliest time but for the first one's, and whose it is.
    pub(crate) fn second(&self) -> (Time, usize) {
        let mut place = self.leaves + self.first().1;
        let mut second = Node { time: Time::NEVER, input: u32::MAX };
        while place > 1 {
            second = second.or(self.nodes[place ^ 1]);
            place /= 2;
        }
        (second.time, second.input as usize)
    }

    /// Sets an input's time.
    #[inline]
    pub(crate) fn set(&mut self, input: usize, time: Time) {
        let mut place = self.leaves + input;
        let mut winner = Node { time, input: input as u32 };
        self.nodes[place] = winner;
        while place > 1 {
            winner = winner.or(self.nodes[place ^ 1]);
            place /= 2;
            self.nodes[place] = winner;
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
                let others = (0..count).filter(|&input| input != expected);
                if let Some(next) = others.min_by_key(|&input| (plain[input], input)) {
                    assert_eq!(order.second(), (Time::from_nanos(plain[next]), next));
                }
            }
        }
    }
}
