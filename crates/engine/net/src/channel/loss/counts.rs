//! Counts of a trace.

use crate::channel::Trace;

/// The lengths of runs, and how often each came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths(std::collections::BTreeMap<u64, u64>);

impl Lengths {
    fn note(&mut self, len: u64) {
        *self.0.entry(len).or_default() += 1;
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the number of frames in them.
    pub fn frames(&self) -> u64 {
        self.0.iter().map(|(len, count)| len * count).sum()
    }

    /// Returns their mean length, or `None` without any.
    pub fn mean(&self) -> Option<f64> {
        (self.runs() > 0).then(|| self.frames() as f64 / self.runs() as f64)
    }

    /// Returns the maximum length; 0 without any.
    pub fn longest(&self) -> u64 {
        self.0.keys().next_back().copied().unwrap_or(0)
    }

    /// Returns the share of runs longer than each length that occurs. Lengths are in rising order.
    pub fn beyond(&self) -> Vec<(u64, f64)> {
        let (all, mut seen) = (self.runs() as f64, 0);
        let step = |(len, count): (&u64, &u64)| {
            seen += count;
            (*len, 1.0 - seen as f64 / all)
        };
        self.0.iter().map(step).collect()
    }

    /// Returns the number of runs per class of lengths: 1, 2, 3 to 4, etc.
    ///
    /// Each item is the class's last length, and the number of runs.
    pub fn classes(&self) -> Vec<(u64, u64)> {
        let mut classes: Vec<(u64, u64)> = Vec::new();
        for (len, count) in &self.0 {
            let last = len.next_power_of_two();
            match classes.last_mut() {
                Some((of, runs)) if *of == last => *runs += count,
                _ => classes.push((last, *count)),
            }
        }
        classes
    }
}

/// A trace in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    /// Number of frames.
    pub frames: u64,
    /// Number of lost frames.
    pub losses: u64,
    /// Runs of lost frames.
    pub bursts: Lengths,
    /// Runs of received frames.
    pub gaps: Lengths,
    /// Number of consecutive pairs of lost frames.
    pub pairs: u64,
    /// Numbers of three consecutive lost frames, and of two around a received one.
    pub triples: [u64; 2],
}

impl Counts {
    /// Counts a trace.
    pub fn of(trace: &Trace) -> Counts {
        let mut counts = Counts {
            frames: trace.frames(),
            losses: trace.losses(),
            bursts: Lengths::default(),
            gaps: Lengths::default(),
            pairs: 0,
            triples: [0; 2],
        };
        let (mut last, mut before, mut len) = (None, None, 0);
        for lost in trace.iter() {
            if last.is_some_and(|last| last != lost) {
                counts.run(!lost, len);
                len = 0;
            }
            len += 1;
            counts.pairs += u64::from(lost && last == Some(true));
            if lost && before == Some(true) {
                counts.triples[usize::from(last == Some(false))] += 1;
            }
            (before, last) = (last, Some(lost));
        }
        if let Some(lost) = last {
            counts.run(lost, len);
        }
        counts
    }

    fn run(&mut self, lost: bool, len: u64) {
        if lost { self.bursts.note(len) } else { self.gaps.note(len) }
    }

    /// Returns the share of lost frames.
    pub fn loss(&self) -> f64 {
        self.losses as f64 / self.frames.max(1) as f64
    }

    /// Returns the residual loss ratio after up to `attempts` transmissions of each packet.
    ///
    /// Each transmission takes the next frame of the trace.
    pub fn residual(trace: &Trace, attempts: u32) -> f64 {
        let (mut packets, mut lost_packets, mut failures) = (0_u64, 0_u64, 0);
        for lost in trace.iter() {
            failures = if lost { failures + 1 } else { 0 };
            if !lost || failures == attempts {
                packets += 1;
                lost_packets += u64::from(lost);
                failures = 0;
            }
        }
        lost_packets as f64 / packets.max(1) as f64
    }
}
