//! Cell transfer performance (ITU-T I.356): losses, errors, misinsertions, delays and their variation.
//!
//! Cells sent and received are matched in order by their content, when they arrive. Between two matches, a received cell without a match
//! stands for one that was sent: an errored cell. What is left of the sent ones is lost, of the received ones
//! misinserted. Cells are sent when they are handed to the interface, so delays contain the wait there.

use bentpipe_units::Time;

/// Counts and delays of a connection's cells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Assessment {
    /// Cells received as they were sent.
    pub(super) transferred: u64,
    /// Cells received with other content.
    pub(super) errored: u64,
    /// Cells that were not received.
    pub(super) lost: u64,
    /// Received cells that were not sent.
    pub(super) misinserted: u64,
    /// Transfer delays of transferred cells in seconds, in order.
    delays: Vec<f64>,
    /// Arrival times in seconds of transferred cells, and their places among the sent ones.
    arrivals: Vec<(f64, usize)>,
}

impl Assessment {
    /// Assesses cells received against the times of those sent.
    ///
    /// Each has its arrival time and its place among the sent ones, in their order. Cells at the end that may be in flight when
    /// the last one arrives are not assessed.
    pub(super) fn of(sent: &[Time], received: impl Iterator<Item = (Time, Option<usize>)>) -> Assessment {
        let mut found = Assessment::default();
        let (mut next, mut unmatched, mut end) = (0, 0, 0.0);
        for (at, place) in received {
            end = at.as_secs_f64();
            let Some(place) = place else {
                unmatched += 1;
                continue;
            };
            found.between((place - next) as u64, unmatched);
            found.transferred += 1;
            found.delays.push(at.since(sent[place]).as_secs_f64());
            // Cells that are handed over together with the next one, as the first ones of AAL1, have no spacing.
            if sent.get(place + 1).is_none_or(|next| *next > sent[place]) {
                found.arrivals.push((at.as_secs_f64(), place));
            }
            (next, unmatched) = (place + 1, 0);
        }
        let least = found.least().unwrap_or_default();
        let due = sent[next..].iter().filter(|at| at.as_secs_f64() + least < end).count();
        found.between(due as u64, unmatched);
        found
    }

    /// Counts cells sent and received between two matches.
    fn between(&mut self, sent: u64, received: u64) {
        let errored = sent.min(received);
        self.errored += errored;
        self.lost += sent - errored;
        self.misinserted += received - errored;
    }

    fn least(&self) -> Option<f64> {
        self.delays.iter().copied().reduce(f64::min)
    }

    /// Returns the 1-point delay variation of arrivals with a mean interval of `interval_s`.
    ///
    /// It is the largest time by which a cell comes before its reference time. A late cell sets the next reference.
    fn one_point_s(&self, interval_s: f64) -> Option<f64> {
        let &(first, place) = self.arrivals.first()?;
        let (mut due, mut before, mut most) = (first, place, 0.0_f64);
        for (at, place) in &self.arrivals[1..] {
            due += interval_s * (place - before) as f64;
            before = *place;
            most = most.max(due - at);
            due = due.max(*at);
        }
        Some(most)
    }

    /// Returns the measures; `interval_s` is the spacing of a connection with even spacing.
    pub(super) fn measures(&self, interval_s: Option<f64>) -> Vec<(&'static str, &'static str, f64)> {
        let kept = (self.transferred + self.errored) as f64;
        let sent = kept + self.lost as f64;
        let mut all = vec![
            ("cells-lost", "cells", self.lost as f64),
            ("cells-errored", "cells", self.errored as f64),
            ("cells-misinserted", "cells", self.misinserted as f64),
            ("cell-loss-ratio", "ratio", self.lost as f64 / sent.max(1.0)),
            ("cell-error-ratio", "ratio", self.errored as f64 / kept.max(1.0)),
        ];
        if let Some(least) = self.least() {
            let n = self.delays.len() as f64;
            let mean = self.delays.iter().sum::<f64>() / n;
            let most = self.delays.iter().copied().fold(least, f64::max);
            let variance = self.delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / n;
            all.extend([
                ("cell-delay-mean", "s", mean),
                ("cell-delay-deviation", "s", variance.sqrt()),
                ("cell-delay-max", "s", most),
                ("cdv-two-point", "s", most - least),
            ]);
        }
        let one_point = interval_s.and_then(|interval_s| self.one_point_s(interval_s));
        all.extend(one_point.map(|value| ("cdv-one-point", "s", value)));
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::stream::sent::{Kept, Sent};

    /// Times in microseconds and content.
    fn cells(list: &[(u64, u8)]) -> (Vec<Time>, Vec<u8>) {
        list.iter().map(|(micros, content)| (Time::from_nanos(micros * 1000), *content)).unzip()
    }

    fn assessed((times, content): &(Vec<Time>, Vec<u8>), received: &[(u64, u8)]) -> Assessment {
        let mut kept = Kept::of(Arc::new(Sent::new(content.clone(), 1, times.clone())));
        let (came, content) = cells(received);
        came.iter().zip(content.chunks(1)).for_each(|(at, content)| kept.keep(*at, content));
        Assessment::of(times, kept.units().map(|unit| (unit.at, unit.place)))
    }

    fn counts(sent: &(Vec<Time>, Vec<u8>), received: &[(u64, u8)]) -> [u64; 4] {
        let found = assessed(sent, received);
        [found.transferred, found.errored, found.lost, found.misinserted]
    }

    #[test]
    fn outcomes_are_those_of_i_356() {
        let sent = cells(&[(0, 1), (10, 2), (20, 3), (30, 4), (40, 5)]);
        assert_eq!(counts(&sent, &[(100, 1), (110, 2), (120, 3), (130, 4), (140, 5)]), [5, 0, 0, 0]);
        assert_eq!(counts(&sent, &[(100, 1), (110, 2), (130, 4), (140, 5)]), [4, 0, 1, 0]);
        // An unknown cell in the place of a sent one is errored, and one more is misinserted.
        assert_eq!(counts(&sent, &[(100, 1), (110, 9), (120, 3), (130, 4), (140, 5)]), [4, 1, 0, 0]);
        assert_eq!(
            counts(&sent, &[(100, 1), (110, 9), (111, 8), (120, 3), (130, 4), (140, 5)]),
            [4, 1, 0, 1]
        );
        assert_eq!(
            counts(&sent, &[(100, 1), (105, 9), (110, 2), (120, 3), (130, 4), (140, 5)]),
            [5, 0, 0, 1]
        );
        // The last one may be in flight; the one before it is not.
        assert_eq!(counts(&sent, &[(100, 1), (110, 2), (120, 3)]), [3, 0, 0, 0]);
        assert_eq!(counts(&sent, &[(100, 1), (110, 2), (120, 3), (131, 9)]), [3, 1, 0, 0]);
        assert_eq!(counts(&sent, &[]), [0, 0, 0, 0]);
    }

    #[test]
    fn cells_of_the_same_content_are_matched_in_order() {
        let sent = cells(&[(0, 7), (10, 7), (20, 7), (30, 8)]);
        assert_eq!(counts(&sent, &[(100, 7), (110, 7), (120, 7), (130, 8)]), [4, 0, 0, 0]);
        assert_eq!(counts(&sent, &[(100, 7), (120, 7), (130, 8)]), [3, 0, 1, 0]);
    }

    #[test]
    fn variation_is_that_of_both_definitions() {
        let sent = cells(&[(0, 1), (10, 2), (20, 3), (30, 4)]);
        // Delays of 100, 105, 97 and 100 us.
        let found = assessed(&sent, &[(100, 1), (115, 2), (117, 3), (130, 4)]);
        let measures = found.measures(Some(10e-6));
        let value = |name| measures.iter().find(|(known, ..)| *known == name).map(|(.., value)| *value);
        let is =
            |name, expected: f64| assert!((value(name).unwrap_or(-1.0) - expected).abs() < 1e-12, "{name}");
        is("cell-delay-mean", 100.5e-6);
        is("cell-delay-max", 105e-6);
        is("cdv-two-point", 8e-6);
        // References 110, then 125 behind the late one, 135: 8 and 5 us early.
        is("cdv-one-point", 8e-6);
        is("cell-loss-ratio", 0.0);
    }

    #[test]
    fn a_lost_cell_does_not_make_the_next_one_late() {
        let sent = cells(&[(0, 1), (10, 2), (20, 3)]);
        let found = assessed(&sent, &[(100, 1), (119, 3)]);
        assert_eq!(found.one_point_s(10e-6).map(|s| (s * 1e9).round()), Some(1000.0));
    }
}
