//! Cells of several inputs or sources in the order of their times.
//!
//! Lines send cells at distances that change little, so where a cell belongs can be reckoned from its time, and hardly anything
//! is left to compare.

use bentpipe_units::Time;

use super::cell::Cell;

/// Below this many comparing is quicker, and so it is if more than `CROWD` come in one piece of the time.
const FEW: usize = 24;
const CROWD: u32 = 16;

/// What has a time.
pub(super) trait Timed: Copy {
    /// When.
    fn at(&self) -> Time;
}

impl Timed for Cell {
    fn at(&self) -> Time {
        self.at
    }
}

impl Timed for Time {
    fn at(&self) -> Time {
        *self
    }
}

/// Puts cells into the order of their times.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    /// For each piece of the time where its next cell goes.
    places: Vec<u32>,
}

impl Sorter {
    /// Moves cells behind others that are in order and not later, in their order; those of one instant stay as they were.
    pub(super) fn append<T: Timed>(&mut self, cells: &mut Vec<T>, ordered: &mut Vec<T>) {
        let before = ordered.len();
        if cells.is_sorted_by_key(T::at) {
            if before == 0 {
                std::mem::swap(ordered, cells);
            }
            ordered.append(cells);
        } else if cells.len() >= FEW && self.distribute(cells, ordered) {
            insert(&mut ordered[before..]);
            cells.clear();
        } else {
            cells.sort_by_key(T::at);
            ordered.append(cells);
        }
    }

    /// Puts each cell behind others that are in order, into the piece of the time that it comes in; does not if one would be crowded.
    fn distribute<T: Timed>(&mut self, cells: &[T], ordered: &mut Vec<T>) -> bool {
        let nanos = |cell: &T| cell.at().as_nanos();
        let range = |(first, last): (u64, u64), nanos: u64| (first.min(nanos), last.max(nanos));
        let (first, last) = cells.iter().map(nanos).fold((u64::MAX, 0), range);
        let per_piece = (last - first) / cells.len() as u64 + 1;
        let shift = per_piece.next_power_of_two().ilog2();
        let piece = |cell: &T| ((nanos(cell) - first) >> shift) as usize;
        self.places.clear();
        self.places.resize(((last - first) >> shift) as usize + 1, 0);
        cells.iter().for_each(|cell| self.places[piece(cell)] += 1);
        let (mut sum, mut most) = (ordered.len() as u32, 0);
        for place in &mut self.places {
            let count = std::mem::replace(place, sum);
            sum += count;
            most = count.max(most);
        }
        if most > CROWD {
            return false;
        }
        // What is written here makes the room, and is written over.
        ordered.extend_from_slice(cells);
        for cell in cells {
            let place = &mut self.places[piece(cell)];
            ordered[*place as usize] = *cell;
            *place += 1;
        }
        true
    }
}

/// Sorts cells that are nearly where they belong.
fn insert<T: Timed>(cells: &mut [T]) {
    for n in 1..cells.len() {
        let mut place = n;
        while place > 0 && cells[place].at() < cells[place - 1].at() {
            cells.swap(place, place - 1);
            place -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A time, and the input that something comes by.
    impl Timed for (Time, u16) {
        fn at(&self) -> Time {
            self.0
        }
    }

    proptest! {
        /// Evenly spread, all in a few places, or far from one another.
        #[test]
        fn cells_come_out_by_their_moments(
            rows in prop::collection::vec(prop::collection::vec(0_u64..1000, 0..60), 0..8),
            scale in prop::sample::select(vec![1_u64, 1000, 1 << 50]),
            power in 1_u32..6,
        ) {
            let mut cells = Vec::new();
            for (input, row) in (0..).zip(rows) {
                let mut row: Vec<u64> = row.into_iter().map(|n| (n * scale).checked_pow(power).unwrap_or(n)).collect();
                row.sort_unstable();
                cells.extend(row.into_iter().map(|nanos| (Time::from_nanos(nanos), input)));
            }
            let mut expected = cells.clone();
            expected.sort_unstable();
            let mut ordered = Vec::new();
            Sorter::default().append(&mut cells, &mut ordered);
            prop_assert_eq!(ordered, expected);
        }
    }
}
