//! Schedule of the next packets of many flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bentpipe_units::Time;

/// The next instant of each flow. Ties go to the lowest flow.
#[derive(Debug)]
pub(super) enum Timetable {
    /// Flows with equal distances: their order never changes, and turning the ring replaces a search.
    Ring { slots: Vec<(Time, u32)>, first: usize },
    /// Each flow has its own distances.
    Heap(BinaryHeap<Reverse<(Time, u32)>>),
}

impl Timetable {
    /// Creates a ring of `slots`, which are (instant, flow).
    pub(super) fn ring(mut slots: Vec<(Time, u32)>) -> Timetable {
        slots.sort_unstable();
        Timetable::Ring { slots, first: 0 }
    }

    /// Creates a heap of `slots`, which are (instant, flow).
    pub(super) fn heap(slots: Vec<(Time, u32)>) -> Timetable {
        Timetable::Heap(slots.into_iter().map(Reverse).collect())
    }

    /// Returns the earliest instant and its flow.
    #[inline]
    pub(super) fn first(&self) -> (Time, u32) {
        match self {
            Timetable::Ring { slots, first } => slots[*first],
            Timetable::Heap(heap) => heap.peek().map_or((Time::NEVER, 0), |first| first.0),
        }
    }

    /// Moves the earliest to `next`. In a ring `next` is later than all others.
    #[inline]
    pub(super) fn advance(&mut self, next: Time) {
        match self {
            Timetable::Ring { slots, first } => {
                slots[*first].0 = next;
                *first = if *first + 1 == slots.len() { 0 } else { *first + 1 };
            }
            Timetable::Heap(heap) => {
                if let Some(mut first) = heap.peek_mut() {
                    first.0.0 = next;
                }
            }
        }
    }
}
