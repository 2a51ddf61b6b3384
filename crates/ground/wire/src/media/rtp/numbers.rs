//! Sequence numbers of one source: losses, duplicates and restarts (RFC 3550, appendix A.1).
//!
//! A source that sends already is joined without probation: its first packet counts.

/// A step ahead of less than this is loss, a larger one a jump.
const MAX_DROPOUT: u16 = 3000;

/// Numbers behind the highest by up to this are late.
const MAX_MISORDER: u16 = 100;

/// Numbers by which the time stamps between packets are known.
const KNOWN_STEPS: u64 = 16;

/// Most steps of which the mean is taken; older ones count less.
const MOST_STEPS: u64 = 1 << 12;

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
    /// Second packet behind an outage; the last jump was the first.
    ///
    /// This count of packets is missing in front of it: time stamps went on by as many intervals.
    Outage(u16),
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
    /// Number that would follow the last jump, and the jump's time stamp.
    after_jump: Option<(u16, Option<u32>)>,
    /// Time stamp of the highest number.
    stamp: Option<u32>,
    /// Ticks of time stamps, and the numbers in which they passed.
    pace: (u64, u64),
}

impl Numbers {
    /// Begins with the first packet of a source.
    pub fn begin(seq: u16) -> Numbers {
        let (recent, expected, received, past) = (1, 1, 1, (0, 0));
        let (restarts, strays, after_jump, stamp, pace) = (0, 0, None, None, (0, 0));
        Numbers { highest: seq, recent, expected, received, past, restarts, strays, after_jump, stamp, pace }
    }

    /// Begins with the first packet of a source and its time stamp.
    pub fn begin_at(seq: u16, stamp: u32) -> Numbers {
        Numbers { stamp: Some(stamp), ..Numbers::begin(seq) }
    }

    /// Notes that `seq` came.
    pub fn take(&mut self, seq: u16) -> Place {
        self.note(seq, None)
    }

    /// Notes that `seq` came with a time stamp, which separates an outage from a restart.
    pub fn take_at(&mut self, seq: u16, stamp: u32) -> Place {
        self.note(seq, Some(stamp))
    }

    fn note(&mut self, seq: u16, stamp: Option<u32>) -> Place {
        let (ahead, behind) = (seq.wrapping_sub(self.highest), self.highest.wrapping_sub(seq));
        if behind < MAX_MISORDER {
            return self.late(behind);
        }
        if ahead < MAX_DROPOUT {
            self.expected += u64::from(ahead);
            self.received += 1;
            self.recent = self.recent.checked_shl(ahead.into()).unwrap_or(0) | 1;
            (self.highest, self.after_jump) = (seq, None);
            self.pace(ahead, stamp);
            return Place::Ahead(ahead - 1);
        }
        if let Some((next, of_jump)) = self.after_jump
            && next == seq
        {
            let ahead = ahead - 1;
            if self.is_outage(ahead, of_jump) {
                self.resume(seq, ahead, stamp);
                return Place::Outage(ahead - 1);
            }
            self.restart(seq, stamp);
            return Place::Restart;
        }
        // The same number again does not show a restart, however often it comes.
        if self.after_jump.is_some_and(|(next, _)| next == seq.wrapping_add(1)) {
            return Place::Duplicate;
        }
        self.after_jump = Some((seq.wrapping_add(1), stamp));
        self.strays += 1;
        Place::Jump
    }

    /// Follows the time stamps over some numbers.
    fn pace(&mut self, numbers: u16, stamp: Option<u32>) {
        let before = std::mem::replace(&mut self.stamp, stamp);
        let Some((before, stamp)) = before.zip(stamp) else { return };
        let ticks = stamp.wrapping_sub(before);
        // One that steps back shows nothing.
        if ticks < 1 << 31 {
            self.pace = (self.pace.0 + u64::from(ticks), self.pace.1 + u64::from(numbers));
        }
        if self.pace.1 > MOST_STEPS {
            self.pace = (self.pace.0 / 2, self.pace.1 / 2);
        }
    }

    /// Returns `true` if time stamps went on by as many intervals as numbers.
    ///
    /// They agree to a quarter.
    ///
    /// A source that restarts has a random time stamp (RFC 3550, section 5.1).
    fn is_outage(&self, ahead: u16, stamp: Option<u32>) -> bool {
        let Some((before, stamp)) = self.stamp.zip(stamp) else { return false };
        let (ticks, numbers) = self.pace;
        if numbers < KNOWN_STEPS || ticks == 0 {
            return false;
        }
        let expected = u64::from(ahead) * ticks / numbers;
        u64::from(stamp.wrapping_sub(before)).abs_diff(expected) <= expected / 4
    }

    /// Resumes behind an outage, with the second packet.
    fn resume(&mut self, seq: u16, ahead: u16, stamp: Option<u32>) {
        self.expected += u64::from(ahead) + 1;
        self.received += 2;
        self.strays -= 1;
        (self.highest, self.recent, self.after_jump, self.stamp) = (seq, 0b11, None, stamp);
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
    fn restart(&mut self, seq: u16, stamp: Option<u32>) {
        let past = (self.past.0 + self.expected, self.past.1 + self.received);
        let began = Numbers::begin(seq);
        let (restarts, strays) = (self.restarts + 1, self.strays - 1);
        *self = Numbers { expected: 2, received: 2, recent: 0b11, past, restarts, strays, stamp, ..began };
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

    #[test]
    fn an_outage_and_a_restart_differ_in_time_stamps() {
        for (first, step, gap) in [(65_000_u16, 160_u32, 4501_u16), (7, 94, 3000), (9, 3600, 40_000)] {
            let stamp = |n: u32| n.wrapping_mul(step).wrapping_add(u32::MAX - 5000);
            let seq = |n: u32| first.wrapping_add(n as u16);
            let mut sequence = Numbers::begin_at(seq(0), stamp(0));
            (1..100).for_each(|n| assert_eq!(sequence.take_at(seq(n), stamp(n)), Place::Ahead(0)));
            let after = 100 + u32::from(gap);
            let places = [0, 1, 2].map(|n| sequence.take_at(seq(after + n), stamp(after + n)));
            assert_eq!(places, [Place::Jump, Place::Outage(gap), Place::Ahead(0)], "{step}");
            let counts = (sequence.expected(), sequence.lost(), sequence.restarts(), sequence.strays());
            assert_eq!(counts, (u64::from(after) + 3, gap.into(), 0, 0), "{step}");
            // Another time stamp is of another start, and without any nothing shows an outage.
            let [one, two] = [20_000, 20_001].map(|n| sequence.take_at(seq(after + n), 77 * n));
            assert_eq!((one, two, sequence.restarts()), (Place::Jump, Place::Restart, 1), "{step}");
        }
        let (_, places) = taken(&[1, 2, 10_000, 10_001]);
        assert_eq!(places[1..], [Place::Jump, Place::Restart]);
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
