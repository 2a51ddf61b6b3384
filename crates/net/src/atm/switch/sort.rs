//! Cells of several inputs in the order of their coming.
//!
//! Lines send cells at distances that change little, so where a cell belongs can be reckoned from its time, and hardly anything
//! is left to compare.

use super::arrival::Arrival;

/// Below this many comparing is quicker, and so it is if more than `CROWD` come in one piece of the time.
const FEW: usize = 24;
const CROWD: u32 = 16;

/// Sorts what has come to an output.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    /// For each piece of the time where its next cell goes.
    places: Vec<u32>,
    unsorted: Vec<Arrival>,
}

impl Sorter {
    /// Sorts cells by their moments, where of those of one instant the one by the lowest input is first already, and stays so.
    pub(super) fn sort(&mut self, arrivals: &mut [Arrival]) {
        if arrivals.is_sorted_by_key(|arrival| arrival.at) {
            return;
        }
        if arrivals.len() < FEW || !self.distribute(arrivals) {
            arrivals.sort_by_key(|arrival| arrival.at);
            return;
        }
        insert(arrivals);
    }

    /// Puts each cell into the piece of the time that it comes in, of which there are as many as cells at most; does not if one
    /// would be crowded.
    fn distribute(&mut self, arrivals: &mut [Arrival]) -> bool {
        let nanos = |arrival: &Arrival| arrival.at.as_nanos();
        let range = |(first, last): (u64, u64), nanos: u64| (first.min(nanos), last.max(nanos));
        let (first, last) = arrivals.iter().map(nanos).fold((u64::MAX, 0), range);
        let per_piece = (last - first) / arrivals.len() as u64 + 1;
        let shift = per_piece.next_power_of_two().ilog2();
        let piece = |arrival: &Arrival| ((nanos(arrival) - first) >> shift) as usize;
        self.places.clear();
        self.places.resize(arrivals.len(), 0);
        arrivals.iter().for_each(|arrival| self.places[piece(arrival)] += 1);
        let (mut sum, mut most) = (0, 0);
        for place in &mut self.places {
            let count = std::mem::replace(place, sum);
            sum += count;
            most = count.max(most);
        }
        if most > CROWD {
            return false;
        }
        self.unsorted.clear();
        self.unsorted.extend_from_slice(arrivals);
        for arrival in &self.unsorted {
            let place = &mut self.places[piece(arrival)];
            arrivals[*place as usize] = *arrival;
            *place += 1;
        }
        true
    }
}

/// Sorts cells that are nearly where they belong.
fn insert(arrivals: &mut [Arrival]) {
    for n in 1..arrivals.len() {
        let mut place = n;
        while place > 0 && arrivals[place].at < arrivals[place - 1].at {
            arrivals.swap(place, place - 1);
            place -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atm::cell::{Vc, Word};
    use crate::atm::service::Class;
    use crate::atm::switch::arrival::Origin;
    use bentpipe_units::Time;
    use proptest::prelude::*;

    fn arrival(nanos: u64, input: u16) -> Arrival {
        let origin = Origin::new(input, 0, Class::Abr);
        Arrival { at: Time::from_nanos(nanos), word: Word::data(Vc::FIRST, 0, 0, false), origin }
    }

    proptest! {
        /// Evenly spread, all in a few places, or far from one another.
        #[test]
        fn cells_come_out_by_their_moments(
            rows in prop::collection::vec(prop::collection::vec(0_u64..1000, 0..60), 0..8),
            scale in prop::sample::select(vec![1_u64, 1000, 1 << 50]),
            power in 1_u32..6,
        ) {
            let mut arrivals = Vec::new();
            for (input, row) in rows.into_iter().enumerate() {
                let mut row: Vec<u64> = row.into_iter().map(|n| (n * scale).checked_pow(power).unwrap_or(n)).collect();
                row.sort_unstable();
                arrivals.extend(row.into_iter().map(|nanos| arrival(nanos, input as u16)));
            }
            let mut expected: Vec<_> = arrivals.iter().map(Arrival::moment).collect();
            expected.sort_unstable();
            Sorter::default().sort(&mut arrivals);
            prop_assert_eq!(arrivals.iter().map(Arrival::moment).collect::<Vec<_>>(), expected);
        }
    }
}
