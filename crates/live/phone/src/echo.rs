//! Packets of this side that the other side sends back.

use bentpipe_units::Span;
use hdrhistogram::Histogram;

/// Longest round trip recorded, in microseconds.
const LONGEST_US: u64 = 600_000_000;

/// Packets of one line that came back, by their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returned {
    first: Option<u16>,
    /// Distance of the highest number from the first.
    span: u64,
    highest: u16,
    packets: u64,
    /// Packets of the same stream that are the other side's own.
    others: u64,
}

impl Returned {
    pub(crate) fn note(&mut self, seq: u16) {
        self.packets += 1;
        self.extend(seq);
    }

    /// Notes a packet of the same stream that the other side made. Its number is not missing.
    pub(crate) fn note_other(&mut self, seq: u16) {
        self.others += 1;
        self.extend(seq);
    }

    /// Returns `true` if a packet came back.
    pub(crate) fn is_some(&self) -> bool {
        self.packets > 0
    }

    fn extend(&mut self, seq: u16) {
        if self.first.is_none() {
            (self.first, self.highest) = (Some(seq), seq);
            return;
        }
        let ahead = seq.wrapping_sub(self.highest) as i16;
        if ahead > 0 {
            (self.highest, self.span) = (seq, self.span + ahead as u64);
        }
    }

    /// Returns the numbers that are missing between the first and the last.
    fn lost(&self) -> u64 {
        let expected = if self.first.is_some() { self.span + 1 } else { 0 };
        expected.saturating_sub(self.packets + self.others)
    }
}

/// Packets of all lines that came back.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    round_trip: Histogram<u64>,
}

impl Default for Echo {
    fn default() -> Echo {
        let round_trip =
            Histogram::new_with_bounds(1, LONGEST_US, 3).unwrap_or_else(|_| unreachable!("valid bounds"));
        Echo { packets: 0, lost: 0, round_trip }
    }
}

impl Echo {
    /// Adds the packets of a line whose call is over.
    pub(crate) fn add(&mut self, of: &Returned) {
        self.packets += of.packets;
        self.lost += if of.is_some() { of.lost() } else { 0 };
    }

    /// Notes the time since a packet was sent.
    pub(crate) fn note(&mut self, round_trip: Span) {
        self.round_trip.saturating_record((round_trip.as_nanos() / 1000).max(1));
    }

    /// Returns the median of the round trips in milliseconds, if the packets have their time.
    pub(crate) fn round_trip_ms(&self) -> Option<f64> {
        (!self.round_trip.is_empty()).then(|| self.round_trip.value_at_quantile(0.5) as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_back_is_lost() {
        let mut returned = Returned::default();
        [65_534, 65_535, 2, 1, 5].iter().for_each(|seq| returned.note(*seq));
        let mut echo = Echo::default();
        echo.add(&returned);
        echo.add(&Returned::default());
        // Numbers 0, 3 and 4.
        assert_eq!((echo.packets, echo.lost, echo.round_trip_ms()), (5, 3, None));
        // Numbers of the other side's own packets are not missing.
        let mut mixed = Returned::default();
        mixed.note_other(1);
        mixed.note(2);
        mixed.note(4);
        echo.add(&mixed);
        let mut own = Returned::default();
        own.note_other(1);
        own.note_other(3);
        echo.add(&own);
        assert_eq!((echo.packets, echo.lost), (7, 4));
        echo.note(Span::from_millis(540));
        assert!(echo.round_trip_ms().is_some_and(|ms| (ms - 540.0).abs() < 1.0));
    }
}
