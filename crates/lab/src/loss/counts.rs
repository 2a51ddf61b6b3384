//! What a trace says, counted.

use bentpipe_net::channel::Trace;

/// The lengths of runs, and how often each came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths(std::collections::BTreeMap<u64, u64>);

impl Lengths {
    fn note(&mut self, len: u64) {
        *self.0.entry(len).or_default() += 1;
    }

    /// How many runs there are.
    pub fn runs(&self) -> u64 {
        self.0.values().sum()
    }

    /// How many frames are in them.
    pub fn frames(&self) -> u64 {
        self.0.iter().map(|(len, count)| len * count).sum()
    }

    /// Their mean length; nothing without any.
    pub fn mean(&self) -> Option<f64> {
        (self.runs() > 0).then(|| self.frames() as f64 / self.runs() as f64)
    }

    /// The longest; 0 without any.
    pub fn longest(&self) -> u64 {
        self.0.keys().next_back().copied().unwrap_or(0)
    }

    /// The share of runs that are longer than each length that occurs, in rising order of length.
    pub fn beyond(&self) -> Vec<(u64, f64)> {
        let (all, mut seen) = (self.runs() as f64, 0);
        let step = |(len, count): (&u64, &u64)| {
            seen += count;
            (*len, 1.0 - seen as f64 / all)
        };
        self.0.iter().map(step).collect()
    }

    /// How often runs have a length within each of the classes 1, 2, 3 to 4, 5 to 8, ...: the class's last length, and the
    /// number of runs.
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
    /// How many frames.
    pub frames: u64,
    /// How many of them were lost.
    pub losses: u64,
    /// Runs of lost frames.
    pub bursts: Lengths,
    /// Runs of received frames.
    pub gaps: Lengths,
    /// How often a lost frame follows a lost one.
    pub pairs: u64,
    /// How often three lost frames follow each other, and how often two lost ones have one received between them.
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

    /// The share of frames that were lost.
    pub fn loss(&self) -> f64 {
        self.losses as f64 / self.frames.max(1) as f64
    }

    /// The share of packets lost behind a link layer that sends each up to `attempts` times, if each transmission takes the
    /// next frame of the trace.
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
