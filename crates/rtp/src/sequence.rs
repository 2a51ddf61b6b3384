//! Sequence numbers of one source: losses, duplicates and restarts (RFC 3550, appendix A.1).

/// A step ahead of less than this is loss, a larger one a jump.
const MAX_DROPOUT: u16 = 3000;

/// Numbers behind the highest by up to this are late.
const MAX_MISORDER: u16 = 100;

/// Position of a packet relative to those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The first, or ahead of all.
    Ahead,
    /// Later than one that came before.
    Late,
    /// Duplicate.
    Duplicate,
    /// Jump too far to belong to the stream. If the next number follows it, the source has restarted.
    Jump,
}

/// State of a source's sequence numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
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

impl Sequence {
    pub(crate) fn begin(seq: u16) -> Sequence {
        let (recent, expected, received, past) = (1, 1, 1, (0, 0));
        Sequence { highest: seq, recent, expected, received, past, restarts: 0, strays: 0, after_jump: None }
    }

    /// Notes that `seq` came.
    pub(crate) fn take(&mut self, seq: u16) -> Place {
        let (ahead, behind) = (seq.wrapping_sub(self.highest), self.highest.wrapping_sub(seq));
        if behind < MAX_MISORDER {
            return self.late(behind);
        }
        if ahead < MAX_DROPOUT {
            self.expected += u64::from(ahead);
            self.received += 1;
            self.recent = self.recent.checked_shl(ahead.into()).unwrap_or(0) | 1;
            (self.highest, self.after_jump) = (seq, None);
            return Place::Ahead;
        }
        if self.after_jump == Some(seq) {
            self.restart(seq);
            return Place::Ahead;
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
        Place::Late
    }

    /// Restarts after two consecutive numbers following a jump, with the first of them.
    fn restart(&mut self, seq: u16) {
        let past = (self.past.0 + self.expected, self.past.1 + self.received);
        let began = Sequence::begin(seq);
        let (restarts, strays) = (self.restarts + 1, self.strays - 1);
        *self = Sequence { expected: 2, received: 2, recent: 0b11, past, restarts, strays, ..began };
    }

    /// Returns the number of packets sent from the first to the last received.
    pub(crate) fn expected(&self) -> u64 {
        self.past.0 + self.expected
    }

    /// Returns the number of those that were not received.
    pub(crate) fn lost(&self) -> u64 {
        self.expected() - (self.past.1 + self.received)
    }

    /// Returns the number of packets with isolated sequence numbers.
    pub(crate) fn strays(&self) -> u64 {
        self.strays
    }

    /// Returns the number of restarts of the source.
    pub(crate) fn restarts(&self) -> u64 {
        self.restarts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn taken(numbers: &[u16]) -> (Sequence, Vec<Place>) {
        let mut sequence = Sequence::begin(numbers[0]);
        let places = numbers[1..].iter().map(|&seq| sequence.take(seq)).collect();
        (sequence, places)
    }

    #[test]
    fn losses_are_gaps_also_where_numbers_wrap() {
        let (sequence, places) = taken(&[65_534, 65_535, 1, 2, 5]);
        assert_eq!(places, [Place::Ahead; 4]);
        assert_eq!((sequence.expected(), sequence.lost()), (8, 3));
    }

    #[test]
    fn late_ones_fill_gaps_and_duplicates_do_not() {
        let (sequence, places) = taken(&[10, 12, 11, 12, 11, 9]);
        let (late, twice) = (Place::Late, Place::Duplicate);
        assert_eq!(places, [Place::Ahead, late, twice, twice, late]);
        assert_eq!((sequence.expected(), sequence.lost()), (4, 0));
    }

    #[test]
    fn a_stray_number_changes_nothing_and_two_in_a_row_begin_anew() {
        let (mut sequence, places) = taken(&[10, 11, 30_000, 12]);
        assert_eq!(places, [Place::Ahead, Place::Jump, Place::Ahead]);
        assert_eq!((sequence.expected(), sequence.lost(), sequence.restarts()), (3, 0, 0));
        assert_eq!(
            [40_000, 40_001, 40_003].map(|seq| sequence.take(seq)),
            [Place::Jump, Place::Ahead, Place::Ahead]
        );
        assert_eq!((sequence.expected(), sequence.lost(), sequence.restarts()), (7, 1, 1));
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
