//! Runs of losses: burst ratio (G.107) and bursts and gaps (RFC 3611, section 4.7.2).
//!
//! *Models*: the definitions of both texts on packets in order. The example of RFC 3611 deviates from its own rules, as
//! does the code in its appendix A.2; the definitions count here.
//! *References*: RFC 3611; ITU-T G.107, section 7.5.

/// Number of consecutive packets played that separates bursts (RFC 3611, section 4.7.2).
pub const GMIN: u8 = 16;

/// Least lengths of the classes of runs of losses, in packets.
pub const RUN_CLASSES: [u64; 5] = [1, 2, 3, 6, 11];

/// Returns the class of a run.
fn class_of(run: u64) -> usize {
    RUN_CLASSES.iter().rposition(|least| *least <= run).unwrap_or(0)
}

/// Outcome of a packet at the playout buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Packet played.
    Played,
    /// Packet that did not arrive.
    Lost,
    /// Packet discarded because it came after its playout time, or before there was room.
    Late,
}

/// Counts of packets and of their runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Packets played.
    pub played: u64,
    /// Packets lost in the network.
    pub lost: u64,
    /// Packets that came late.
    pub late: u64,
    /// Runs of consecutive packets lost or late.
    runs: u64,
    /// Runs by class, the present one included.
    by_length: [u32; RUN_CLASSES.len()],
    /// Length of the present run; 0 if the last packet was played.
    run: u64,
    /// Length of the run in front of the first packet played.
    lead: u64,
    bursts: Periods,
    gaps: Periods,
    open: Option<Open>,
    /// Packets played since the last loss, or since the start.
    good: u64,
    /// Set if the period before the open one is a gap.
    follows_gap: bool,
}

/// Losses that may become a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    packets: u64,
    lost: u64,
}

/// Sum of periods of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Periods {
    /// Number of periods.
    pub count: u64,
    /// Packets in them.
    pub packets: u64,
    /// Packets lost or late in them.
    pub lost: u64,
}

impl Periods {
    /// Returns the density of losses in the units of RFC 3611: 256ths, at most 255.
    pub fn density(&self) -> u8 {
        let share = (256 * self.lost).checked_div(self.packets).unwrap_or(0);
        share.min(255) as u8
    }

    /// Returns the mean length in packets.
    pub fn mean_packets(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.packets as f64 / self.count as f64 }
    }
}

impl Losses {
    /// Counts the next packet.
    pub fn push(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Played => self.played += 1,
            Outcome::Lost => self.lost += 1,
            Outcome::Late => self.late += 1,
        }
        if outcome == Outcome::Played {
            (self.run, self.good) = (0, self.good + 1);
            return;
        }
        self.runs += u64::from(self.run == 0);
        self.lengthen(1);
        self.extend();
    }

    /// Adds packets to the present run, and moves it to the class of its length.
    fn lengthen(&mut self, packets: u64) {
        if self.run > 0 {
            // The run may have been removed meanwhile, as its packets came late.
            let class = &mut self.by_length[class_of(self.run)];
            *class = class.saturating_sub(1);
        }
        self.run += packets;
        self.lead += if self.played == 0 { packets } else { 0 };
        self.by_length[class_of(self.run)] += 1;
    }

    /// Returns the number of runs of losses in each of [`RUN_CLASSES`], since the start.
    pub fn runs_by_length(&self) -> [u32; RUN_CLASSES.len()] {
        self.by_length
    }

    /// Counts `packets` consecutive packets with the same outcome.
    pub fn push_run(&mut self, outcome: Outcome, packets: u64) {
        if packets == 0 {
            return;
        }
        self.push(outcome);
        let more = packets - 1;
        match outcome {
            Outcome::Played => (self.played, self.good) = (self.played + more, self.good + more),
            Outcome::Lost => self.lost += more,
            Outcome::Late => self.late += more,
        }
        if outcome != Outcome::Played && more > 0 {
            self.lengthen(more);
        }
        if let (true, Some(open)) = (outcome != Outcome::Played, &mut self.open) {
            (open.packets, open.lost) = (open.packets + more, open.lost + more);
        }
    }

    /// Returns the counts up to now, and begins at zero with the next packet.
    ///
    /// A run that goes on is one of both parts. Bursts and gaps go on.
    pub fn cut(&mut self) -> Losses {
        let before = *self;
        (self.played, self.lost, self.late) = (0, 0, 0);
        (self.runs, self.by_length, self.run, self.lead) = (0, [0; RUN_CLASSES.len()], 0, 0);
        before
    }

    /// Returns the counts of these packets and of the ones that follow.
    ///
    /// A run that was cut is one run. Bursts and gaps are those of `next`.
    #[must_use]
    pub fn followed_by(&self, next: &Losses) -> Losses {
        let is_one = self.run > 0 && next.lead > 0;
        let mut by_length = self.by_length;
        by_length.iter_mut().zip(next.by_length).for_each(|(sum, runs)| *sum += runs);
        if is_one {
            for run in [self.run, next.lead] {
                let class = &mut by_length[class_of(run)];
                *class = class.saturating_sub(1);
            }
            by_length[class_of(self.run + next.lead)] += 1;
        }
        Losses {
            played: self.played + next.played,
            lost: self.lost + next.lost,
            late: self.late + next.late,
            runs: (self.runs + next.runs).saturating_sub(u64::from(is_one)),
            by_length,
            run: next.run + if next.played == 0 { self.run } else { 0 },
            lead: self.lead + if self.played == 0 { next.lead } else { 0 },
            ..*next
        }
    }

    /// Counts `packets` consecutive packets behind the last, of which some are lost: `lost` in all.
    ///
    /// The rest of them is on its way. A packet that was thought lost before may have come since, or be on its way as well.
    pub fn lose_last(&mut self, packets: u64, lost: u64) {
        let excess = (self.lost + packets).saturating_sub(lost);
        self.push_run(Outcome::Lost, packets.saturating_sub(excess));
        self.lost = lost;
    }

    /// Counts a packet that was thought lost as what it is.
    pub fn revise(&mut self, outcome: Outcome) {
        self.lost = self.lost.saturating_sub(1);
        match outcome {
            Outcome::Played => self.played += 1,
            Outcome::Lost => self.lost += 1,
            Outcome::Late => self.late += 1,
        }
    }

    /// Counts a packet of a run thought lost as what it is.
    ///
    /// `run` is the length of the run in packets. With `is_edge` the packet is its first or last one.
    pub fn revise_in(&mut self, run: u64, is_edge: bool, outcome: Outcome) {
        self.revise(outcome);
        // A late one stays in its run, as one lost does.
        if outcome != Outcome::Played {
            return;
        }
        self.remove_run(run);
        match (run, is_edge) {
            (0 | 1, _) => {}
            (_, true) => self.add_run(run - 1),
            (_, false) => {
                self.add_run(run / 2);
                self.add_run(run - 1 - run / 2);
            }
        }
    }

    fn add_run(&mut self, packets: u64) {
        self.runs += 1;
        self.by_length[class_of(packets)] += 1;
    }

    /// Removes a run of packets thought lost.
    pub fn remove_run(&mut self, packets: u64) {
        self.runs = self.runs.saturating_sub(1);
        let class = &mut self.by_length[class_of(packets)];
        *class = class.saturating_sub(1);
    }

    /// Adds a loss to the open period, or closes that and opens another one.
    fn extend(&mut self) {
        match &mut self.open {
            Some(open) if self.good < u64::from(GMIN) => {
                (open.packets, open.lost) = (open.packets + self.good + 1, open.lost + 1);
            }
            _ => {
                self.close();
                self.open = Some(Open { packets: 1, lost: 1 });
            }
        }
        self.good = 0;
    }

    /// Counts the open period, and the packets played after it, as what they are.
    fn close(&mut self) {
        match self.open.take() {
            Some(burst) if burst.lost > 1 => {
                self.bursts.count += 1;
                self.bursts.packets += burst.packets;
                self.bursts.lost += burst.lost;
                self.follows_gap = false;
            }
            Some(single) => self.gap(single.packets, single.lost),
            None => {}
        }
        self.gap(self.good, 0);
        self.good = 0;
    }

    fn gap(&mut self, packets: u64, lost: u64) {
        if packets == 0 {
            return;
        }
        self.gaps.count += u64::from(!self.follows_gap);
        self.gaps.packets += packets;
        self.gaps.lost += lost;
        self.follows_gap = true;
    }

    /// Returns the number of packets.
    pub fn expected(&self) -> u64 {
        self.played + self.lost + self.late
    }

    /// Returns the share of packets lost or late; NaN without packets.
    pub fn ratio(&self) -> f64 {
        (self.lost + self.late) as f64 / self.expected() as f64
    }

    /// Returns the burst ratio: the mean run of losses over that of independent losses.
    ///
    /// It is 1 without losses.
    pub fn burst_ratio(&self) -> f64 {
        let packets = self.lost + self.late;
        let runs = self.runs.min(packets);
        if runs == 0 {
            return 1.0;
        }
        let run = packets as f64 / runs as f64;
        (run * (1.0 - self.ratio())).max(f64::MIN_POSITIVE)
    }

    /// Returns bursts and gaps as if the stream ended here.
    pub fn periods(&self) -> (Periods, Periods) {
        let mut ended = *self;
        ended.close();
        (ended.bursts, ended.gaps)
    }

    /// Returns the counts since `earlier`, for the loss over time. Bursts and gaps are those since the start.
    #[must_use]
    pub fn since(&self, earlier: &Losses) -> Losses {
        Losses {
            played: self.played.saturating_sub(earlier.played),
            // What counted as lost at the time may have come since.
            lost: self.lost.saturating_sub(earlier.lost),
            late: self.late.saturating_sub(earlier.late),
            runs: self.runs.saturating_sub(earlier.runs),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pattern: &str) -> Losses {
        let mut losses = Losses::default();
        for symbol in pattern.chars() {
            losses.push(match symbol {
                '1' => Outcome::Played,
                '0' => Outcome::Lost,
                _ => Outcome::Late,
            });
        }
        losses
    }

    /// The pattern that RFC 3611, section 4.7.2, prints, with its figures by the definitions.
    #[test]
    fn the_example_of_the_rfc() {
        let losses = of("11110111111111111111111X111X1011110111111111111111111X111111111");
        assert_eq!((losses.expected(), losses.lost, losses.late), (63, 3, 3));
        let (bursts, gaps) = losses.periods();
        assert_eq!(bursts, Periods { count: 1, packets: 12, lost: 4 });
        assert_eq!(gaps, Periods { count: 2, packets: 51, lost: 2 });
        assert_eq!((bursts.density(), gaps.density()), (85, 10));
        assert_eq!((bursts.mean_packets() * 10.0, gaps.mean_packets() * 10.0), (120.0, 255.0));
    }

    #[test]
    fn single_losses_are_gaps_and_close_ones_bursts() {
        let spaced = |good: usize| format!("1{}0{}0{}", "1".repeat(20), "1".repeat(good), "1".repeat(20));
        let (bursts, gaps) = of(&spaced(16)).periods();
        assert_eq!((bursts, gaps), (Periods::default(), Periods { count: 1, packets: 59, lost: 2 }));
        let (bursts, gaps) = of(&spaced(15)).periods();
        assert_eq!((bursts, gaps.count), (Periods { count: 1, packets: 17, lost: 2 }, 2));
        let (bursts, gaps) = of("000").periods();
        assert_eq!(
            (bursts, bursts.density(), gaps),
            (Periods { count: 1, packets: 3, lost: 3 }, 255, Periods::default())
        );
        assert_eq!(Losses::default().periods(), (Periods::default(), Periods::default()));
    }

    #[test]
    fn runs_are_counted_like_single_packets() {
        let mut losses = Losses::default();
        [
            (Outcome::Played, 5),
            (Outcome::Lost, 3),
            (Outcome::Played, 2),
            (Outcome::Late, 1),
            (Outcome::Lost, 0),
        ]
        .into_iter()
        .for_each(|(outcome, packets)| losses.push_run(outcome, packets));
        assert_eq!(losses, of("1111100011X"));
    }

    #[test]
    fn runs_have_classes_of_length() {
        let lengths = [1, 1, 2, 3, 5, 6, 10, 11, 40];
        let mut pattern = String::new();
        for length in lengths {
            pattern.push('1');
            pattern.push_str(&"0X".repeat(20)[..length]);
        }
        assert_eq!(of(&pattern).runs_by_length(), [2, 1, 2, 2, 2]);
        let mut at_once = Losses::default();
        for length in lengths {
            at_once.push(Outcome::Played);
            at_once.push_run(Outcome::Lost, length as u64);
        }
        assert_eq!(at_once.runs_by_length(), [2, 1, 2, 2, 2]);
        assert_eq!(of("000").runs_by_length(), [0, 0, 1, 0, 0], "a run that has not ended");
    }

    #[test]
    fn a_run_that_is_cut_is_one_of_each_part_and_one_of_both() {
        for (first, second) in [("1100", "0011"), ("1100", "1100"), ("", "00"), ("00", "00"), ("000", "00X")]
        {
            let both = format!("{first}{second}");
            let mut losses = of(&both[..first.len()]);
            let before = losses.cut();
            second.chars().for_each(|symbol| {
                losses.push(match symbol {
                    '1' => Outcome::Played,
                    '0' => Outcome::Lost,
                    _ => Outcome::Late,
                });
            });
            let alone = of(second);
            assert_eq!((losses.burst_ratio(), losses.runs), (alone.burst_ratio(), alone.runs), "{both}");
            assert_eq!(losses.runs_by_length(), alone.runs_by_length(), "{both}");
            assert_eq!(before.followed_by(&losses), of(&both));
        }
    }

    #[test]
    fn losses_that_nothing_followed_count_as_one_run() {
        let mut losses = of("001110111");
        losses.lose_last(10, 8);
        assert_eq!((losses.lost, losses.played, losses.runs), (8, 6, 3), "five of ten are on their way");
        assert_eq!(losses.runs_by_length(), [1, 1, 1, 0, 0]);
        let mut losses = of("11100");
        losses.lose_last(3, 1);
        assert_eq!((losses.lost, losses.runs), (1, 1), "one of the two came later");
        let mut losses = of("11");
        losses.lose_last(0, 0);
        assert_eq!((losses.lost, losses.runs), (0, 0));
    }

    #[test]
    fn burst_ratios_are_those_of_two_state_chains() {
        // Independent losses have 1; a chain with probabilities p (to loss) and q (back) has 1 / (p + q).
        let mut stream = bentpipe_units::RandomStream::new(1, "losses");
        for (p, q) in [(0.1, 0.9), (0.02, 0.5), (0.05, 0.25)] {
            let (mut losses, mut is_lost) = (Losses::default(), false);
            for _ in 0..400_000 {
                is_lost = if is_lost { !stream.chance(q) } else { stream.chance(p) };
                losses.push(if is_lost { Outcome::Lost } else { Outcome::Played });
            }
            let (found, expected) = (losses.burst_ratio(), 1.0 / (p + q));
            assert!((found / expected - 1.0).abs() < 0.02, "{p} {q}: {found} instead of {expected}");
        }
        assert_eq!((Losses::default().burst_ratio(), of("111").burst_ratio()), (1.0, 1.0));
        assert!(Losses::default().ratio().is_nan());
    }
}
