//! Loss events and the intervals between them (RFC 5348, section 5).

use std::collections::VecDeque;

use bentpipe_units::{Span, Time};

use super::{Params, Revision};

/// Later packets that make a missing one lost (RFC 5348, section 5.1, `NDUPACK`).
const LATER_PACKETS: u8 = 3;
/// Number of closed intervals that count (RFC 5348, section 5.4).
const INTERVALS: usize = 8;
/// Weights of the intervals, newest first.
const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// Maximum number of loss events counted between two packets. More do not matter to eight intervals.
const EVENTS_A_GAP: u32 = 64;

/// A data packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time of arrival.
    pub now: Time,
    /// Sequence number, without wrapping.
    pub sequence: u64,
    /// Sender's window counter without wrapping, in quarters of a round trip (RFC 4342, section 8.1). Used
    /// only with [`LossEventRule::Counter`].
    pub quarters: u64,
    /// Set if a router marked it (ECN): it arrived and counts as lost.
    pub is_marked: bool,
}

/// Rule that separates two loss events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossEventRule {
    /// Time of more than a round trip between the nominal arrivals of the lost packets. RFC 5348, section
    /// 5.2.
    Rtt(Span),
    /// More than four steps of the window counter (RFC 4342, section 10.2).
    Counter,
}

/// Place in the sequence of packets, on the scale that separates events.
#[derive(Clone, Copy, Debug)]
struct Place {
    sequence: u64,
    at: Time,
    quarters: u64,
}

/// Packets missing between two that arrived.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    /// The first sequence number that is not missing.
    end: u64,
    before: Place,
    after: Place,
    /// Number of later packets that arrived.
    later: u8,
}

/// The interval that the last loss event began.
#[derive(Clone, Copy, Debug)]
struct Open {
    first: u64,
    /// Position of its event on the scale of the [`LossEventRule`].
    stamp: u64,
    losses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Closed {
    packets: f64,
    discount: f64,
}

/// The receiver's loss history.
#[derive(Clone, Debug)]
pub struct LossHistory {
    params: Params,
    highest: Option<Place>,
    gaps: Vec<Gap>,
    open: Option<Open>,
    /// The newest first, at most [`INTERVALS`].
    closed: VecDeque<Closed>,
}

impl LossHistory {
    /// Creates a history without packets.
    pub fn new(params: Params) -> LossHistory {
        LossHistory { params, highest: None, gaps: Vec::new(), open: None, closed: VecDeque::new() }
    }

    /// Returns `true` if the packet, which it records, revealed a new loss event. The interval before the
    /// very first event is `before_first` packets long (RFC 5348, section 6.3.1).
    pub fn arrive(&mut self, arrival: &Arrival, by: LossEventRule, before_first: impl Fn() -> f64) -> bool {
        let place = Place { sequence: arrival.sequence, at: arrival.now, quarters: arrival.quarters };
        self.fill(place.sequence);
        self.advance(place);
        let mut events = 0;
        for gap in std::mem::take(&mut self.gaps) {
            if gap.later >= LATER_PACKETS || arrival.is_marked && gap.end <= place.sequence {
                events += self.lose(&gap, by, &before_first);
            } else {
                self.gaps.push(gap);
            }
        }
        if arrival.is_marked {
            events += u32::from(self.lose_one(place.sequence, stamp(&place, by), by, &before_first));
        }
        events > 0
    }

    /// Returns `true` if there was a loss event.
    pub fn is_empty(&self) -> bool {
        self.open.is_none()
    }

    /// Returns the loss event rate p at `now`, zero before the first loss event. Includes the present
    /// interval if that lowers it. The small-packet variant leaves the present interval out up to a length of
    /// two round trips.
    pub fn loss_event_rate(&self, now: Time, by: LossEventRule) -> f64 {
        let (Some(open), Some(highest)) = (self.open, self.highest) else { return 0.0 };
        let present = (highest.sequence + 1).saturating_sub(open.first).max(1) as f64;
        let discount = self.general_discount(present);
        let (mut total, mut weight) = (present * WEIGHTS[0], WEIGHTS[0]);
        for (interval, w) in self.closed.iter().zip(&WEIGHTS[1..]) {
            let w = w * interval.discount * discount;
            (total, weight) = (total + w * interval.packets, weight + w);
        }
        let (closed_total, closed_weight) = self.closed_sum();
        let without = closed_weight / closed_total;
        let here = Place { at: now, ..highest };
        if self.params.small_packets && is_short(open.stamp, stamp(&here, by), by) {
            return without.min(1.0);
        }
        without.min(weight / total).min(1.0)
    }

    /// Returns weighted packets and weights of the closed intervals.
    fn closed_sum(&self) -> (f64, f64) {
        let add = |(total, weight), (interval, w): (&Closed, &f64)| {
            let w = w * interval.discount;
            (total + w * interval.packets, weight + w)
        };
        self.closed.iter().zip(&WEIGHTS).fold((0.0, 0.0), add)
    }

    /// Returns the discount of the closed intervals for a present one of `present` packets. RFC 5348, section
    /// 5.5.
    fn general_discount(&self, present: f64) -> f64 {
        if !self.params.discounting {
            return 1.0;
        }
        let least = if self.params.revision == Revision::Rfc3448 { 0.5 } else { 0.25 };
        let (total, weight) = self.closed_sum();
        let mean = total / weight;
        if present > 2.0 * mean { (2.0 * mean / present).max(least) } else { 1.0 }
    }

    /// Removes a late packet from the missing ones.
    fn fill(&mut self, sequence: u64) {
        let Some(at) = self.gaps.iter().position(|gap| (gap.first..gap.end).contains(&sequence)) else {
            return;
        };
        let gap = self.gaps.remove(at);
        let parts = [Gap { end: sequence, ..gap }, Gap { first: sequence + 1, ..gap }];
        self.gaps.extend(parts.into_iter().filter(|part| part.first < part.end));
    }

    /// Counts the packet for earlier missing ones, and records those missing just before it.
    fn advance(&mut self, place: Place) {
        for gap in self.gaps.iter_mut().filter(|gap| gap.end <= place.sequence) {
            gap.later = gap.later.saturating_add(1);
        }
        match self.highest {
            Some(before) if place.sequence <= before.sequence => {}
            Some(before) => {
                let first = before.sequence + 1;
                if first < place.sequence {
                    self.gaps.push(Gap { first, end: place.sequence, before, after: place, later: 1 });
                }
                self.highest = Some(place);
            }
            None => self.highest = Some(place),
        }
    }

    /// Packets are lost: counts loss events among them.
    fn lose(&mut self, gap: &Gap, by: LossEventRule, before_first: &impl Fn() -> f64) -> u32 {
        let (mut events, mut next) = (0, gap.first);
        while next < gap.end && events < EVENTS_A_GAP {
            events += u32::from(self.lose_one(next, gap.stamp(next, by), by, before_first));
            let same = self.open.map_or(next + 1, |open| gap.first_beyond(open.stamp, by).max(next + 1));
            let more = same.min(gap.end) - next - 1;
            self.open.iter_mut().for_each(|open| open.losses += more);
            next = same;
        }
        events
    }

    /// Returns `true` if a lost packet, which is recorded, begins a loss event.
    fn lose_one(
        &mut self,
        sequence: u64,
        stamp: u64,
        by: LossEventRule,
        before_first: &impl Fn() -> f64,
    ) -> bool {
        let fresh = Open { first: sequence, stamp, losses: 1 };
        match &mut self.open {
            None => {
                self.closed.push_front(Closed { packets: before_first().max(1.0), discount: 1.0 });
                self.open = Some(fresh);
                true
            }
            Some(open) if sequence < open.first || stamp <= open.stamp.saturating_add(by.threshold()) => {
                open.losses += 1;
                false
            }
            Some(open) => {
                let was = *open;
                self.close(was, &fresh, by);
                self.open = Some(fresh);
                true
            }
        }
    }

    /// Closes the interval `open` where `next` begins.
    fn close(&mut self, open: Open, next: &Open, by: LossEventRule) {
        let packets = (next.first - open.first) as f64;
        let discount = self.general_discount(packets);
        self.closed.iter_mut().for_each(|interval| interval.discount *= discount);
        let is_short = self.params.small_packets && is_short(open.stamp, next.stamp, by);
        let packets = if is_short { packets / open.losses.max(1) as f64 } else { packets };
        self.closed.push_front(Closed { packets: packets.max(1.0), discount: 1.0 });
        self.closed.truncate(INTERVALS);
    }
}

/// Returns `true` for an interval of at most two round trips (RFC 4828, section 3).
fn is_short(from: u64, to: u64, by: LossEventRule) -> bool {
    to.saturating_sub(from) <= by.threshold().saturating_mul(2)
}

impl LossEventRule {
    /// Returns the exclusive minimum difference between the stamps of two events.
    fn threshold(self) -> u64 {
        match self {
            LossEventRule::Rtt(rtt) => rtt.as_nanos(),
            LossEventRule::Counter => 4,
        }
    }
}

fn stamp(place: &Place, by: LossEventRule) -> u64 {
    match by {
        LossEventRule::Rtt(_) => place.at.as_nanos(),
        LossEventRule::Counter => place.quarters,
    }
}

impl Gap {
    /// Returns the nominal arrival of a missing packet (RFC 5348, section 5.2). With counters, the counter of
    /// the packet before the gap (RFC 4342, section 10.2).
    fn stamp(&self, sequence: u64, by: LossEventRule) -> u64 {
        let before = stamp(&self.before, by);
        match by {
            LossEventRule::Counter => before,
            LossEventRule::Rtt(_) => {
                let span = u128::from(self.span(by)) * u128::from(sequence - self.before.sequence);
                before + (span / u128::from(self.after.sequence - self.before.sequence)) as u64
            }
        }
    }

    fn span(&self, by: LossEventRule) -> u64 {
        stamp(&self.after, by).saturating_sub(stamp(&self.before, by))
    }

    /// Returns the first missing packet that does not belong to an event at `event`.
    fn first_beyond(&self, event: u64, by: LossEventRule) -> u64 {
        let end = event.saturating_add(by.threshold());
        if self.stamp(self.end - 1, by) <= end {
            return self.end;
        }
        // The smallest step whose share of the span, rounded down, is more than what lies before the end.
        let more = u128::from(end.saturating_sub(stamp(&self.before, by))) + 1;
        let steps = more * u128::from(self.after.sequence - self.before.sequence);
        self.before.sequence + steps.div_ceil(u128::from(self.span(by).max(1))) as u64
    }
}

#[cfg(test)]
impl LossHistory {
    /// Returns the closed intervals' lengths, the newest first.
    pub(super) fn lengths(&self) -> Vec<f64> {
        self.closed.iter().map(|interval| interval.packets).collect()
    }

    /// Returns the packet that began the last loss event.
    pub(super) fn first_of_open(&self) -> Option<u64> {
        self.open.map(|open| open.first)
    }
}
