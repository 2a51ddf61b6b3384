//! A multiplex as a whole, out of what its receivers get of it: streams in the order of their slots, each unit once, NULL
//! packets between.

use std::collections::BTreeMap;

use bentpipe_net::dvb::{Idle, Unit};
use bentpipe_units::{Span, Time};

/// The multiplex that the inputs of a capture are parts of.
#[derive(Clone, Debug)]
pub struct Multiplex {
    /// What its line sends where nothing waits.
    pub idle: Idle,
    /// How long it takes to the receiver whose times the capture has.
    pub delay: Span,
    /// How long it takes to the farthest one.
    pub farthest: Span,
    /// Whether what is sent where nothing waits is written.
    pub nulls: bool,
}

/// Puts units of several receivers in order.
#[derive(Debug)]
pub(super) struct Merge {
    multiplex: Multiplex,
    waiting: BTreeMap<u64, Unit>,
    /// The number of the next unit to be written.
    next: u64,
    /// When the last unit came.
    now: Time,
}

impl Merge {
    pub(super) fn new(multiplex: Multiplex) -> Merge {
        Merge { multiplex, waiting: BTreeMap::new(), next: 0, now: Time::ZERO }
    }

    /// Takes a unit, which may have come to another receiver before.
    pub(super) fn add(&mut self, now: Time, unit: &Unit) {
        self.now = now;
        self.waiting.entry(unit.number).or_insert_with(|| unit.clone());
    }

    /// The next unit that is certain: whatever was sent before it has come to the farthest receiver; with its time. `is_end`:
    /// nothing will come any more.
    pub(super) fn pop(&mut self, is_end: bool) -> Option<(Time, Unit)> {
        let Multiplex { idle, delay, farthest, nulls } = &self.multiplex;
        let first = *self.waiting.first_key_value()?.0;
        let came = idle.ends(first) + *farthest;
        if came > self.now || (came == self.now && !is_end) {
            return None;
        }
        let is_idle = *nulls && self.next < first;
        let unit = if is_idle { idle.unit(self.next) } else { self.waiting.pop_first()?.1 };
        self.next = unit.number + 1;
        Some((idle.ends(unit.number) + *delay, unit))
    }
}
