//! Units between the sender and its receivers.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use bentpipe_net::Why;
use bentpipe_units::{Span, Time};

use crate::unit::Unit;

/// Receivers of one unit by increasing delay, each with its number.
pub(super) type Receivers = Arc<[(Span, usize)]>;

/// Units in flight. They arrive in the order of their times, and of one instant as they were sent.
///
/// A unit for many receivers is here once, however many there are, and goes from one to the next.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Units for one receiver, by arrival.
    single: VecDeque<(Order, usize, Unit)>,
    common: BinaryHeap<Reverse<Flight>>,
    sent: u64,
}

/// Time of an arrival, and the number of the unit among those that were sent.
type Order = (Time, u64);

/// A unit for many receivers. Flights compare by their next arrivals.
#[derive(Debug)]
struct Flight {
    next: Order,
    /// Time at which the unit arrives without delay.
    end: Time,
    receivers: Receivers,
    /// Number of receivers that have it.
    reached: usize,
    unit: Unit,
}

impl Pipe {
    /// Adds a unit for receiver `number`.
    pub(super) fn put(&mut self, arrival: Time, number: usize, unit: Unit) {
        let order = self.order(arrival);
        // Receivers of different delays overtake each other.
        let behind = self.single.iter().rev().take_while(|(other, ..)| *other > order).count();
        self.single.insert(self.single.len() - behind, (order, number, unit));
    }

    /// Adds a unit for each of the receivers. It arrives at `end` plus the delay of each.
    pub(super) fn put_for_all(&mut self, end: Time, receivers: Receivers, unit: Unit) {
        if let Some((nearest, _)) = receivers.first() {
            let next = self.order(end + *nearest);
            self.common.push(Reverse(Flight { next, end, receivers, reached: 0, unit }));
        } else {
            unit.into_packet().lose(Why::NoMember);
        }
    }

    /// Returns the time of the next arrival.
    pub(super) fn next(&self) -> Option<Time> {
        let single = self.single.front().map(|(order, ..)| *order);
        let common = self.common.peek().map(|flight| flight.0.next);
        single.into_iter().chain(common).min().map(|(arrival, _)| arrival)
    }

    /// Removes and returns the next unit that has arrived, with its receiver's number.
    pub(super) fn arrived(&mut self, now: Time) -> Option<(usize, Unit)> {
        let single = self.single.front().map(|(order, ..)| *order);
        let common = self.common.peek().map(|flight| flight.0.next);
        let next = single.into_iter().chain(common).min().filter(|(arrival, _)| *arrival <= now);
        match next {
            None => None,
            Some(_) if next == common => self.go_on(),
            Some(_) => self.single.pop_front().map(|(_, number, unit)| (number, unit)),
        }
    }

    /// Returns the unit of the next flight for its next receiver.
    fn go_on(&mut self) -> Option<(usize, Unit)> {
        let mut flight = self.common.peek_mut()?;
        let (_, number) = flight.0.receivers[flight.0.reached];
        let Some((delay, _)) = flight.0.receivers.get(flight.0.reached + 1).copied() else {
            return Some((number, PeekMut::pop(flight).0.unit));
        };
        let unit = flight.0.unit.copy();
        let arrival = flight.0.end + delay;
        flight.0.reached += 1;
        flight.0.next.0 = arrival;
        Some((number, unit))
    }

    fn order(&mut self, arrival: Time) -> Order {
        self.sent += 1;
        (arrival, self.sent)
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Flight) -> std::cmp::Ordering {
        self.next.cmp(&other.next)
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Flight) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Flight) -> bool {
        self.next == other.next
    }
}

impl Eq for Flight {}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(number: u64) -> Unit {
        Unit { number, ..Unit::default() }
    }

    /// Against a list of all arrivals that is sorted by time, and keeps the order of one instant.
    #[test]
    fn a_unit_for_many_arrives_as_one_for_each_would() {
        let delays = [7, 3, 3, 12, 0].map(Span::from_millis);
        let mut receivers: Vec<_> = delays.into_iter().zip(0..).collect();
        receivers.sort();
        let receivers: Receivers = receivers.into();
        let (mut pipe, mut expected) = (Pipe::default(), Vec::new());
        for n in 1..40 {
            let end = Time::from_nanos(n * 2_000_000);
            let to = (n * n % 7) as usize;
            if let Some(delay) = delays.get(to) {
                pipe.put(end + *delay, to, unit(n));
                expected.push((end + *delay, to, n));
            } else {
                pipe.put_for_all(end, Arc::clone(&receivers), unit(n));
                expected.extend(receivers.iter().map(|(delay, to)| (end + *delay, *to, n)));
            }
        }
        expected.sort_by_key(|(arrival, ..)| *arrival);
        for (arrival, to, n) in expected {
            assert_eq!(pipe.next(), Some(arrival));
            assert_eq!(pipe.arrived(Time::from_nanos(arrival.as_nanos() - 1)), None);
            assert_eq!(pipe.arrived(arrival), Some((to, unit(n))));
        }
        assert_eq!((pipe.next(), pipe.arrived(Time::NEVER)), (None, None));
    }
}
