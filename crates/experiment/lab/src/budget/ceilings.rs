//! Ceilings of classes of queues over the run.
//!
//! An event changes the values of the classes that a queue has, and adds none.

use std::collections::HashMap;

use bentpipe_net::queue::ClassesConfig;
use bentpipe_scenario::{Layout, Moment, Queue, Scenario, Side, Way};
use bentpipe_units::{Bytes, Rate, Span};

use super::moments;

/// Class of packets with a codepoint, by its number, and the codepoint. Behind the last class all of them.
pub(super) type ClassOf = (usize, Option<u8>);

/// Ceilings of all classes, by directions.
#[derive(Default)]
pub(super) struct Ceilings {
    /// Classes from their times on. The first are those of the file.
    of: HashMap<(usize, Way), Vec<(Span, ClassesConfig)>>,
}

impl Ceilings {
    /// Finds the ceilings of a scenario and of its events.
    pub(super) fn new(scenario: &Scenario, layout: &Layout<'_>) -> Ceilings {
        let mut ceilings = Ceilings::default();
        for at in (0..scenario.link.len()).flat_map(|link| Way::BOTH.map(|way| (link, way))) {
            let classes = of_side(layout.side(at.0, at.1));
            ceilings.of.extend(classes.map(|classes| (at, vec![(Span::ZERO, classes.clone())])));
        }
        moments(scenario).for_each(|moment| ceilings.follow(scenario, moment));
        ceilings
    }

    /// Enters the classes that an event changes.
    fn follow(&mut self, scenario: &Scenario, moment: &Moment) {
        for (name, link) in &moment.difference.link {
            // Copies that get settings of their own later are not among the links of the file.
            let Some(number) = scenario.link.get_index_of(name) else { continue };
            for way in Way::BOTH {
                let Some(all) = self.of.get_mut(&(number, way)) else { continue };
                let side = link.side(name, way);
                let new = of_side(&side).filter(|new| all.last().is_none_or(|(_, last)| last != *new));
                all.extend(new.map(|new| (moment.at, new.clone())));
            }
        }
    }

    fn all(&self, at: (usize, Way)) -> &[(Span, ClassesConfig)] {
        self.of.get(&at).map_or(&[], Vec::as_slice)
    }

    /// Returns the classes whose ceilings packets of a codepoint have at any time.
    ///
    /// They are numbered as in the file.
    pub(super) fn numbers(&self, at: (usize, Way), dscp: Option<u8>) -> Vec<usize> {
        let count = self.all(at).first().map_or(0, |(_, classes)| classes.class.len());
        let is_held = |number: &usize| {
            self.all(at).iter().any(|(_, classes)| ceiling(classes, (*number, dscp)).is_some())
        };
        (0..=count).filter(is_held).collect()
    }

    /// Returns `true` if a class of a direction has a ceiling at some time.
    pub(super) fn has_any(&self, at: (usize, Way)) -> bool {
        let has = |classes: &ClassesConfig| classes.class.iter().any(|class| class.ceil.is_some());
        self.all(at).iter().any(|(_, classes)| has(classes))
    }

    /// Returns the ceiling of the file in bit/s, or no bound.
    pub(super) fn in_file(&self, at: (usize, Way), class: ClassOf) -> f64 {
        let first = self.all(at).first().and_then(|(_, classes)| ceiling(classes, class));
        first.map_or(f64::INFINITY, |(rate, _)| rate.as_bps() as f64)
    }

    /// Returns the mean ceiling between two times in bit/s. Infinite without one for a part of them.
    pub(super) fn mean(&self, at: (usize, Way), class: ClassOf, [from, to]: [Span; 2]) -> f64 {
        let seconds = to.saturating_sub(from).as_secs_f64();
        let all = self.all(at);
        let ends = all.iter().skip(1).map(|(begin, _)| *begin).chain([Span::MAX]);
        let bits = all.iter().zip(ends).map(|((begin, classes), end)| {
            let lasts = end.min(to).saturating_sub((*begin).max(from)).as_secs_f64();
            let rate = ceiling(classes, class).map_or(f64::INFINITY, |(rate, _)| rate.as_bps() as f64);
            if lasts > 0.0 { lasts * rate } else { 0.0 }
        });
        let bits: f64 = bits.sum();
        if seconds > 0.0 && bits > 0.0 { bits / seconds } else { f64::INFINITY }
    }

    /// Returns the bytes that pass at once beyond a ceiling. One that an event brings has a full bucket.
    pub(super) fn burst(&self, at: (usize, Way), class: ClassOf) -> Bytes {
        let bursts = self.all(at).iter().map(|(_, classes)| ceiling(classes, class).map(|(_, burst)| burst));
        let (mut sum, mut last) = (0_u64, 0);
        for burst in bursts {
            let burst = burst.map_or(0, Bytes::get);
            sum = sum.saturating_add(burst.saturating_sub(last));
            last = burst;
        }
        Bytes::new(sum)
    }

    /// Returns `true` if an event changes the classes of a direction.
    pub(super) fn changes(&self, at: (usize, Way)) -> bool {
        self.all(at).len() > 1
    }
}

/// Returns the classes of a direction's queue.
fn of_side(side: &Side) -> Option<&ClassesConfig> {
    match &side.common.queue {
        Some(Queue::Classes(classes)) => Some(classes),
        _ => None,
    }
}

/// Returns ceiling and burst of a class that has the packets of a codepoint.
fn ceiling(classes: &ClassesConfig, (number, dscp): ClassOf) -> Option<(Rate, Bytes)> {
    let Some(class) = classes.class.get(number) else { return Some((classes.ceil?, classes.cburst)) };
    let own = classes.class_of(dscp?)?;
    (own.name == class.name).then_some((class.ceil?, class.cburst))
}
