//! Cells of a category at an output: those that wait to be sent, and behind them those that are still to come.

use bentpipe_units::Time;

use crate::atm::cell::Cell;
use crate::atm::sort::Sorter;

/// Cells of a category, each from when it is put down until it is sent.
///
/// A cell that finds few waiting is let in as it is, so nobody has to look at it when it comes: its time says whether it has.
/// Where one finds more, all that have come by then are looked at, each as of its own instant, and those that are let in close up.
#[derive(Debug)]
pub(super) struct Waiting {
    /// In the order they come.
    cells: Vec<Cell>,
    /// Later than those, as they were put down.
    put_down: Vec<Cell>,
    /// Up to where they are gone. From there on those that were looked at and let in, up to `let_in`; from `seen` on those that
    /// were not looked at; and up to where ERICA has counted.
    gone: usize,
    let_in: usize,
    seen: usize,
    counted: usize,
    /// The input that they come by, and whether they come by others too: those of one are in order.
    input: Option<u16>,
    is_merged: bool,
    /// So many may wait before each that comes has to be looked at.
    free: usize,
    limit: usize,
    /// The most that ever waited, how many were let in, and how many were not as there was no room.
    pub(super) most: usize,
    pub(super) arrived: u64,
    pub(super) dropped_full: u64,
}

/// Cells that are news when they come: they would make more wait than ever did, or have to be looked at. None that was looked at is.
#[derive(Clone, Copy, Debug)]
pub(super) struct News<'a> {
    cells: &'a [Cell],
    /// How far behind the first that is not gone, and none before `seen`.
    ahead: usize,
    seen: usize,
}

impl News<'_> {
    /// The place of the first, once cells are gone up to `gone`.
    #[inline]
    fn place(&self, gone: usize) -> usize {
        (gone + self.ahead).max(self.seen)
    }

    /// When the first comes once cells are gone up to `gone`: not earlier where more are gone.
    #[inline]
    pub(super) fn next(&self, gone: usize) -> Time {
        self.cells.get(self.place(gone)).map_or(Time::NEVER, |cell| cell.at)
    }
}

impl Waiting {
    /// No cells. Before one comes that finds `free` waiting, or `limit`, none has to be looked at.
    pub(super) fn new(limit: Option<u32>, free: Option<u32>) -> Waiting {
        let cells = |cells: Option<u32>| cells.map_or(usize::MAX, |cells| cells as usize);
        Waiting {
            cells: Vec::new(),
            put_down: Vec::new(),
            gone: 0,
            let_in: 0,
            seen: 0,
            counted: 0,
            input: None,
            is_merged: false,
            free: cells(limit).min(cells(free)),
            limit: cells(limit),
            most: 0,
            arrived: 0,
            dropped_full: 0,
        }
    }

    /// Cells may come by this input.
    pub(super) fn add_input(&mut self, input: u16) {
        self.is_merged |= *self.input.get_or_insert(input) != input;
    }

    /// Puts down a cell that is to come later than all that are in order.
    #[inline]
    pub(super) fn put_down(&mut self, cell: Cell) {
        self.put_down.push(cell);
    }

    /// Cells that were put down and are not in order yet.
    #[inline]
    pub(super) fn unsorted(&self) -> usize {
        self.put_down.len()
    }

    /// Brings all that were put down into order, those of one instant as they were.
    #[inline]
    pub(super) fn sort(&mut self, sorter: &mut Sorter) {
        if self.unsorted() > 0 {
            self.sort_in(sorter);
        }
    }

    fn sort_in(&mut self, sorter: &mut Sorter) {
        self.arrived += self.put_down.len() as u64;
        // Moves no more than has gone.
        if self.gone >= self.cells.len() - self.gone {
            self.cells.drain(..self.gone);
            for place in [&mut self.let_in, &mut self.seen, &mut self.counted] {
                *place = place.saturating_sub(self.gone);
            }
            self.gone = 0;
        }
        sorter.append(&mut self.put_down, &mut self.cells);
    }

    /// Those in order that ERICA has not counted.
    #[inline]
    pub(super) fn uncounted(&self) -> &[Cell] {
        &self.cells[self.counted..]
    }

    /// ERICA has counted so many more.
    #[inline]
    pub(super) fn count(&mut self, cells: usize) {
        self.counted += cells;
    }

    /// Up to where they are counted.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    /// What is news.
    #[inline]
    pub(super) fn news(&self) -> News<'_> {
        let ahead = self.most.min(self.free) + (self.seen - self.let_in);
        News { cells: &self.cells, ahead, seen: self.seen }
    }

    /// From when on there is news that has to be seen to before anything is sent.
    #[inline]
    pub(super) fn next_news(&self) -> Time {
        self.news().next(self.gone)
    }

    /// Whether one that finds none waiting is no news: not the first that ever came, nor one of those that all have to be looked at,
    /// and no other comes in its instant.
    #[inline]
    pub(super) fn spares_first(&self) -> bool {
        !self.is_merged && self.most.min(self.free) > 0
    }

    /// Those that can be sent without a look at others, behind those that are gone.
    #[inline]
    pub(super) fn row(&self) -> &[Cell] {
        if self.let_in == self.seen { &self.cells } else { &self.cells[..self.let_in] }
    }

    /// Up to where they are gone.
    #[inline]
    pub(super) fn gone(&self) -> usize {
        self.gone
    }

    /// They are gone up to here.
    #[inline]
    pub(super) fn send_up_to(&mut self, gone: usize) {
        self.gone = gone;
        self.close_up();
    }

    /// Whether the one in this place was looked at.
    #[inline]
    pub(super) fn is_seen(&self, place: usize) -> bool {
        place < self.let_in
    }

    /// Up to where they have come, as `has_come` tells of each.
    pub(super) fn up_to(&self, has_come: impl Fn(&Cell) -> bool) -> usize {
        let news = self.news().place(self.gone).min(self.cells.len());
        match self.cells[news..].iter().take_while(|cell| has_come(cell)).count() {
            0 => self.seen + self.cells[self.seen..news].partition_point(has_come),
            count => news + count,
        }
    }

    /// Up to where there are any.
    pub(super) fn end(&self) -> usize {
        self.cells.len()
    }

    /// How many wait, where they have come up to `come` and each that had to be was looked at.
    pub(super) fn len_at(&self, come: usize) -> usize {
        self.len() + come.saturating_sub(self.seen)
    }

    /// How many wait of those that were looked at.
    pub(super) fn len(&self) -> usize {
        self.let_in - self.gone
    }

    /// Whether each that comes now has to be looked at.
    pub(super) fn looks_at_each(&self) -> bool {
        self.len() >= self.free
    }

    /// Whether one of those up to `come` has to be looked at. If not, notes how many wait.
    pub(super) fn is_crowded(&mut self, come: usize) -> bool {
        let len = self.len_at(come);
        let is_crowded = len > self.free && come > self.seen;
        if !is_crowded {
            self.most = self.most.max(len);
        }
        is_crowded
    }

    /// The next one that is to be looked at, of those up to `come`.
    pub(super) fn look(&mut self, come: usize) -> Option<Cell> {
        if self.seen >= come {
            self.close_up();
            return None;
        }
        self.seen += 1;
        Some(self.cells[self.seen - 1])
    }

    /// Lets in the cell that was looked at last.
    pub(super) fn let_in(&mut self, cell: Cell) {
        self.cells[self.let_in] = cell;
        self.let_in += 1;
        self.most = self.most.max(self.len());
    }

    /// Does not let in the cell that was looked at last.
    pub(super) fn refuse(&mut self) {
        self.arrived -= 1;
    }

    /// Lets in a cell that was never put down, where all that have come were looked at.
    pub(super) fn insert(&mut self, cell: Cell) {
        self.is_merged = true;
        if self.let_in == self.seen {
            self.cells.insert(self.seen, cell);
            self.seen += 1;
            self.counted += 1;
        }
        self.arrived += 1;
        self.let_in(cell);
    }

    /// Whether one more may wait; counts a cell that may not.
    pub(super) fn has_room(&mut self) -> bool {
        let has_room = self.len() < self.limit;
        self.dropped_full += u64::from(!has_room);
        has_room
    }

    /// Whether none waits or is to come.
    pub(super) fn is_over(&self) -> bool {
        self.gone == self.cells.len() && self.put_down.is_empty()
    }

    /// When the first of those that are here comes or came; of those to come if none waits.
    #[inline]
    pub(super) fn head(&self) -> Time {
        self.cells.get(self.gone).map_or(Time::NEVER, |cell| cell.at)
    }

    /// If none of those that were looked at waits, those behind are the first.
    fn close_up(&mut self) {
        if self.gone >= self.let_in {
            self.gone = self.gone.max(self.seen);
            (self.let_in, self.seen) = (self.gone, self.gone);
        }
    }
}
