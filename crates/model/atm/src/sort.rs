//! Sorting of the cells of several inputs or sources by time.
//!
//! Lines send cells at distances that change little, so a cell's time predicts its place, and few comparisons
//! remain.

use bentpipe_units::Time;

use super::cell::Cell;

/// Number of cells below which comparing is faster.
///
/// It is also faster if more than `CROWD` cells fall into one piece of the time.
const FEW: usize = 24;
const CROWD: u32 = 16;

/// Item with a time.
pub(super) trait Timed: Copy {
    /// Returns the time.
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

/// Sorter of cells by time.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    /// Place of the next cell, for each piece of the time.
    places: Vec<u32>,
}

impl Sorter {
    /// Appends cells in order to cells that are in order and not later. Cells of one instant keep their
    /// order.
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

    /// Returns `true` if each cell was sorted into its piece of the time, after `ordered`.
    ///
    /// Nothing is moved if a piece would get too many cells.
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
        // These values only make room, and are overwritten.
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
