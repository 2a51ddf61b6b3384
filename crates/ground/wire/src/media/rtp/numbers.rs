//! Sequence numbers of one source: losses, duplicates and restarts (RFC 3550, appendix A.1).
//!
//! A source that sends already is joined without probation: its first packet counts.

/// A step ahead of less than this is loss, a larger one a jump.
const MAX_DROPOUT: u16 = 3000;

/// Numbers behind the highest by up to this are late.
const MAX_MISORDER: u16 = 100;

/// Position of a packet relative to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Ahead of all that came before, which this count of missing packets separates it from.
    Ahead(u16),
    /// First of its number, this far behind the highest.
    Late(u16),
    /// Duplicate.
    Duplicate,
    /// Jump too far to belong to the stream. If the next number follows it, the source has restarted.
    Jump,
    /// Second packet of a source that restarted; the last jump was its first.
    Restart,
}

/// State of a source's sequence numbers.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    highest: u16,
    /// Bit i is set if number `highest` - i came.
    recent: u128,
    /// Count of numbers up to the highest, since the source began.
    expected: u64,
    /// Count of different ones received.
    received: u64,
    /// The same of beginnings before.
    past: (u64, u64),
    restarts: u64,
    /// Count of jumps that no other packet followed.
    strays: u64,
    /// Number that would follow the last jump.
    after_jump: Option<u16>,
}

impl Numbers {
    /// Begins with the first packet of a source.
    pub fn begin(seq: u16) -> Numbers {
        let (recent, expected, received, past) = (1, 1, 1, (0, 0));
        Numbers { highest: seq, recent, expected, received, past, restarts: 0, strays: 0, after_jump: None }
    }

    /// Notes that `seq` came.
    pub fn take(&mut self, seq: u16) -> Place {
        let (ahead, behind) = (seq.wrapping_sub(self.highest), self.highest.wrapping_sub(seq));
        if behind < MAX_MISORDER {
            return self.late(behind);
        }
        if ahead < MAX_DROPOUT {
            self.expected += u64::from(ahead);
            self.received += 1;
            self.recent = self.recent.checked_shl(ahead.into()).unwrap_or(0) | 1;
            (self.highest, self.after_jump) = (seq, None);
            return Place::Ahead(ahead - 1);
        }
        if self.after_jump == Some(seq) {
            self.restart(seq);
            return Place::Restart;
        }
        // The same number again does not show a restart, however often it comes.
        if self.after_jump == Some(seq.wrapping_add(1)) {
            return Place::Duplicate;
        }
        self.after_jump = Some(seq.wrapping_add(1));
        self.strays += 1;
        Place::Jump
    }

    fn late(&mut self, behind: u16) -> Place {
        let bit = 1_u128 << behind;
        if self.recent & bit != 0 {
            return Place::Duplicate;
        }
        self.recent |= bit;
        // One from before the first that came makes the beginning earlier.
        self.expected = self.expected.max(u64::from(behind) + 1);
        self.received += 1;
        Place::Late(behind)
    }

    /// Restarts after two consecutive numbers following a jump, with the first of them.
    fn restart(&mut self, seq: u16) {
        let past = (self.past.0 + self.expected, self.past.1 + self.received);
        let began = Numbers::begin(seq);
        let (restarts, strays) = (self.restarts + 1, self.strays - 1);
        *self = Numbers { expected: 2, received: 2, recent: 0b11, past, restarts, strays, ..began };
    }

    /// Returns the number of packets sent from the first to the last received.
    pub fn expected(&self) -> u64 {
        self.past.0 + self.expected
    }

    /// Returns the number of those that were not received.
    pub fn lost(&self) -> u64 {
        self.expected() - (self.past.1 + self.received)
    }

    /// Returns the number of packets with isolated sequence numbers.
    pub fn strays(&self) -> u64 {
        self.strays
    }

    /// Returns the number of restarts of the source.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn taken(numbers: &[u16]) -> (Numbers, Vec<Place>) {
        let mut sequence = Numbers::begin(numbers[0]);
        let places = numbers[1..].iter().map(|&seq| sequence.take(seq)).collect();
        (sequence, places)
    }

    #[test]
    fn losses_are_gaps_also_where_numbers_wrap() {
        let (sequence, places) = taken(&[65_534, 65_535, 1, 2, 5]);
        assert_eq!(places, [0, 1, 0, 2].map(Place::Ahead));
        assert_eq!((sequence.expected(), sequence.lost()), (8, 3));
    }

    #[test]
    fn late_ones_fill_gaps_and_duplicates_do_not() {
        let (sequence, places) = taken(&[10, 12, 11, 12, 11, 9]);
        let twice = Place::Duplicate;
        assert_eq!(places, [Place::Ahead(1), Place::Late(1), twice, twice, Place::Late(3)]);
        assert_eq!((sequence.expected(), sequence.lost()), (4, 0));
    }

    #[test]
    fn a_stray_number_changes_nothing_and_two_in_a_row_begin_anew() {
        let (mut sequence, places) = taken(&[10, 11, 30_000, 12]);
        assert_eq!(places, [Place::Ahead(0), Place::Jump, Place::Ahead(0)]);
        assert_eq!((sequence.expected(), sequence.lost(), sequence.restarts()), (3, 0, 0));
        assert_eq!(
            [40_000, 40_001, 40_003].map(|seq| sequence.take(seq)),
            [Place::Jump, Place::Restart, Place::Ahead(1)]
        );
        assert_eq!((sequence.expected(), sequence.lost(), sequence.restarts()), (7, 1, 1));
    }

    #[test]
    fn a_stray_number_that_comes_again_and_again_is_a_duplicate() {
        let (mut sequence, places) = taken(&[10, 30_000, 30_000, 30_000, 11]);
        let twice = Place::Duplicate;
        assert_eq!(places, [Place::Jump, twice, twice, Place::Ahead(0)]);
        assert_eq!((sequence.strays(), sequence.restarts()), (1, 0));
        // A restarted source may have its first packet doubled on the way.
        let places = [40_000, 40_000, 40_001].map(|seq| sequence.take(seq));
        assert_eq!(places, [Place::Jump, twice, Place::Restart]);
    }

    #[test]
    fn a_long_outage_is_loss() {
        let (sequence, _) = taken(&[0, 2999, 5998]);
        assert_eq!((sequence.expected(), sequence.lost()), (5999, 5996));
    }

    proptest! {
        #[test]
        fn no_numbers_make_more_come_than_were_sent(numbers in vec(any::<u16>(), 1..400)) {
            let (sequence, places) = taken(&numbers);
            prop_assert!(sequence.lost() < sequence.expected());
            let twice = places.iter().filter(|place| **place == Place::Duplicate).count() as u64;
            let came = sequence.expected() - sequence.lost() + twice + sequence.strays();
            prop_assert_eq!(came, numbers.len() as u64);
        }

        #[test]
        fn near_numbers_in_any_order_are_all_there(
            first: u16, order in Just((0..64_u16).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let numbers: Vec<u16> = order.iter().map(|step| first.wrapping_add(*step)).collect();
            let (sequence, _) = taken(&numbers);
            prop_assert_eq!((sequence.expected(), sequence.lost()), (64, 0));
        }
    }
}
