//! Cells of a category at an output: the waiting ones, then those still to arrive.

use bentpipe_net::{Observer, Peak};
use bentpipe_units::Time;

use crate::cell::Cell;
use crate::metrics;
use crate::sort::Sorter;

/// Cells of a category, each from its entry until it is sent.
///
/// A cell that finds few waiting is admitted unchanged and needs no examination: its time indicates whether
/// it has arrived. Where one finds more, all that have arrived by then are examined, each at its own instant,
/// and the admitted ones close up.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Cells in the order of arrival.
    cells: Vec<Cell>,
    /// Later cells, in the order of their entry.
    entered: Vec<Cell>,
    /// Up to where they are gone. From there on those that were looked at and let in, up to `admitted`; from `seen` on those that
    /// were not looked at; and up to where ERICA has counted.
    gone: usize,
    admitted: usize,
    seen: usize,
    counted: usize,
    /// Input of the cells, while it is the only one. Cells of one input are in order.
    input: Option<u16>,
    is_merged: bool,
    /// Number of waiting cells from which on each arrival is examined.
    free: usize,
    limit: usize,
    /// Peak queue length, number of admitted cells, and number of cells dropped without room.
    most: Peak,
    pub(super) arrived: u64,
    pub(super) dropped_full: u64,
}

/// Cells that matter at their arrival: they raise the peak, or must be examined. None of them was examined
/// yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct News<'a> {
    cells: &'a [Cell],
    /// Distance after the first cell that is not sent.
    ahead: usize,
    seen: usize,
}

impl News<'_> {
    /// Returns the place of the first, once cells are sent up to `gone`.
    #[inline]
    fn place(&self, gone: usize) -> usize {
        (gone + self.ahead).max(self.seen)
    }

    /// Returns the time of the first, once cells are sent up to `gone`. It never falls as `gone` grows.
    #[inline]
    pub(super) fn next(&self, gone: usize) -> Time {
        self.cells.get(self.place(gone)).map_or(Time::NEVER, |cell| cell.at)
    }
}

impl Waiting {
    /// Creates an empty queue. Arrivals are examined once `free` cells wait, or `limit`.
    pub(super) fn new(limit: Option<u32>, free: Option<u32>) -> Waiting {
        let cells = |cells: Option<u32>| cells.map_or(usize::MAX, |cells| cells as usize);
        Waiting {
            cells: Vec::new(),
            entered: Vec::new(),
            gone: 0,
            admitted: 0,
            seen: 0,
            counted: 0,
            input: None,
            is_merged: false,
            free: cells(limit).min(cells(free)),
            limit: cells(limit),
            most: Peak::default(),
            arrived: 0,
            dropped_full: 0,
        }
    }

    /// Cells may come by this input.
    pub(super) fn add_input(&mut self, input: u16) {
        self.is_merged |= *self.input.get_or_insert(input) != input;
    }

    /// Enqueues a cell that arrives after all cells that are in order.
    #[inline]
    pub(super) fn enqueue(&mut self, cell: Cell) {
        self.entered.push(cell);
    }

    /// Returns the number of cells that are not yet in order.
    #[inline]
    pub(super) fn unsorted(&self) -> usize {
        self.entered.len()
    }

    /// Sorts the enqueued cells; those of one instant keep their order.
    #[inline]
    pub(super) fn sort(&mut self, sorter: &mut Sorter) {
        if self.unsorted() > 0 {
            self.sort_in(sorter);
        }
    }

    fn sort_in(&mut self, sorter: &mut Sorter) {
        self.arrived += self.entered.len() as u64;
        // Moves no more than has gone.
        if self.gone >= self.cells.len() - self.gone {
            self.cells.drain(..self.gone);
            for place in [&mut self.admitted, &mut self.seen, &mut self.counted] {
                *place = place.saturating_sub(self.gone);
            }
            self.gone = 0;
        }
        sorter.append(&mut self.entered, &mut self.cells);
    }

    /// Returns the cells in order that ERICA has not counted.
    #[inline]
    pub(super) fn uncounted(&self) -> &[Cell] {
        &self.cells[self.counted..]
    }

    /// Marks the next `cells` cells as counted by ERICA.
    #[inline]
    pub(super) fn count(&mut self, cells: usize) {
        self.counted += cells;
    }

    /// Returns the place up to which cells are counted.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    /// Returns the cells that matter at their arrival.
    #[inline]
    pub(super) fn news(&self) -> News<'_> {
        let ahead = self.most().min(self.free) + (self.seen - self.admitted);
        News { cells: &self.cells, ahead, seen: self.seen }
    }

    /// Returns the time of the first cell to be handled before anything is sent.
    #[inline]
    pub(super) fn next_news(&self) -> Time {
        self.news().next(self.gone)
    }

    /// Returns `true` if a cell that arrives at an empty queue needs no examination.
    ///
    /// That excludes the very first cell, queues that examine each cell, and a second cell of the same
    /// instant.
    #[inline]
    pub(super) fn can_skip_first(&self) -> bool {
        !self.is_merged && self.most().min(self.free) > 0
    }

    /// Returns the cells that can be sent without further examination.
    #[inline]
    pub(super) fn row(&self) -> &[Cell] {
        if self.admitted == self.seen { &self.cells } else { &self.cells[..self.admitted] }
    }

    /// Returns the place up to which cells are sent.
    #[inline]
    pub(super) fn gone(&self) -> usize {
        self.gone
    }

    /// Marks the cells up to `gone` as sent.
    #[inline]
    pub(super) fn send_up_to(&mut self, gone: usize) {
        self.gone = gone;
        self.close_up();
    }

    /// Returns `true` if the cell in this place was examined.
    #[inline]
    pub(super) fn is_seen(&self, place: usize) -> bool {
        place < self.admitted
    }

    /// Returns the place up to which cells have arrived, by `has_come`.
    pub(super) fn up_to(&self, has_come: impl Fn(&Cell) -> bool) -> usize {
        let news = self.news().place(self.gone).min(self.cells.len());
        match self.cells[news..].iter().take_while(|cell| has_come(cell)).count() {
            0 => self.seen + self.cells[self.seen..news].partition_point(has_come),
            count => news + count,
        }
    }

    /// Returns the place after the last cell.
    pub(super) fn end(&self) -> usize {
        self.cells.len()
    }

    /// Returns the queue length with arrivals up to `come`. Each cell that needs it was examined.
    pub(super) fn len_at(&self, come: usize) -> usize {
        self.len() + come.saturating_sub(self.seen)
    }

    /// Returns the number of waiting cells among the examined ones.
    pub(super) fn len(&self) -> usize {
        self.admitted - self.gone
    }

    /// Returns `true` if each arrival must be examined now.
    pub(super) fn looks_at_each(&self) -> bool {
        self.len() >= self.free
    }

    /// Returns `true` if a cell up to `come` must be examined. If not, records the queue length.
    pub(super) fn needs_inspection(&mut self, come: usize) -> bool {
        let len = self.len_at(come);
        let needs_inspection = len > self.free && come > self.seen;
        if !needs_inspection {
            self.most.note(len as u64);
        }
        needs_inspection
    }

    /// Returns the next cell to be examined, of those up to `come`.
    pub(super) fn look(&mut self, come: usize) -> Option<Cell> {
        if self.seen >= come {
            self.close_up();
            return None;
        }
        self.seen += 1;
        Some(self.cells[self.seen - 1])
    }

    /// Admits the cell that was examined last.
    pub(super) fn admit(&mut self, cell: Cell) {
        self.cells[self.admitted] = cell;
        self.admitted += 1;
        self.most.note(self.len() as u64);
    }

    #[inline]
    fn most(&self) -> usize {
        self.most.get() as usize
    }

    /// Reports the present and the peak length.
    pub(super) fn observe(&self, category: usize, observer: &mut dyn Observer) {
        let present = self.len_at(self.end());
        observer.gauge(&metrics::CATEGORY_QUEUE[category], present as f64);
        self.most.observe(&metrics::CATEGORY_QUEUE_MAX[category], present as u64, observer);
    }

    /// Does not let in the cell that was looked at last.
    pub(super) fn refuse(&mut self) {
        self.arrived -= 1;
    }

    /// Admits a cell that was never enqueued. All arrivals were examined.
    pub(super) fn insert(&mut self, cell: Cell) {
        self.is_merged = true;
        if self.admitted == self.seen {
            self.cells.insert(self.seen, cell);
            self.seen += 1;
            self.counted += 1;
        }
        self.arrived += 1;
        self.admit(cell);
    }

    /// Returns `true` if one more cell may wait, and counts a drop if not.
    pub(super) fn has_room(&mut self) -> bool {
        let has_room = self.len() < self.limit;
        self.dropped_full += u64::from(!has_room);
        has_room
    }

    /// Returns `true` if no cell waits or is to arrive.
    pub(super) fn is_over(&self) -> bool {
        self.gone == self.cells.len() && self.entered.is_empty()
    }

    /// Returns the arrival time of the first waiting cell, or else of the next one.
    #[inline]
    pub(super) fn head(&self) -> Time {
        self.cells.get(self.gone).map_or(Time::NEVER, |cell| cell.at)
    }

    /// Moves to the unexamined cells if no examined one waits.
    fn close_up(&mut self) {
        if self.gone >= self.admitted {
            self.gone = self.gone.max(self.seen);
            (self.admitted, self.seen) = (self.gone, self.gone);
        }
    }
}
