//! Lengths of runs of lost and of acknowledged frames.

use bentpipe_units::Span;

use crate::{Observer, Unit};

/// Classes of lengths: 1, 2, 3 to 4, 5 to 8, ... and the last everything beyond.
const CLASSES: usize = 13;

/// Runs of frames that went wrong and of those that were acknowledged, as their sender counts them.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// What the present run is of, its length, and how long its frames were on the air.
    present: Option<(bool, u64, Span)>,
    /// By what they are of (acknowledged, lost): how many runs have ended, by the class of their length.
    ended: [[u64; CLASSES]; 2],
    /// Frames in them.
    frames: [u64; 2],
    /// Time on the air of these frames.
    on_air: [Span; 2],
}

const RECEIVED: [&str; CLASSES] = [
    "gaps-of-1",
    "gaps-to-2",
    "gaps-to-4",
    "gaps-to-8",
    "gaps-to-16",
    "gaps-to-32",
    "gaps-to-64",
    "gaps-to-128",
    "gaps-to-256",
    "gaps-to-512",
    "gaps-to-1024",
    "gaps-to-2048",
    "gaps-beyond",
];
const LOST: [&str; CLASSES] = [
    "bursts-of-1",
    "bursts-to-2",
    "bursts-to-4",
    "bursts-to-8",
    "bursts-to-16",
    "bursts-to-32",
    "bursts-to-64",
    "bursts-to-128",
    "bursts-to-256",
    "bursts-to-512",
    "bursts-to-1024",
    "bursts-to-2048",
    "bursts-beyond",
];

impl Runs {
    #[inline]
    pub(super) fn note(&mut self, lost: bool, on_air: Span) {
        match &mut self.present {
            Some((of, len, time)) if *of == lost => (*len, *time) = (*len + 1, *time + on_air),
            present => {
                if let Some((of, len, time)) = present.replace((lost, 1, on_air)) {
                    self.ended[usize::from(of)][class(len)] += 1;
                    self.frames[usize::from(of)] += len;
                    self.on_air[usize::from(of)] += time;
                }
            }
        }
    }

    pub(super) fn observe(&self, observer: &mut dyn Observer) {
        let kinds = [("gap-mean", "gap-mean-time", RECEIVED), ("burst-mean", "burst-mean-time", LOST)];
        for (lost, (mean, time, names)) in kinds.into_iter().enumerate() {
            let ended: u64 = self.ended[lost].iter().sum();
            observer.gauge(mean, Unit::Packets, self.frames[lost] as f64 / ended as f64);
            observer.gauge(time, Unit::Seconds, self.on_air[lost].as_secs_f64() / ended as f64);
            let classes = names.into_iter().zip(self.ended[lost]);
            classes.for_each(|(name, count)| observer.counter(name, Unit::Count, count));
        }
    }
}

/// The class of a length: of 1, 2, 3 to 4, 5 to 8, ...
fn class(len: u64) -> usize {
    (64 - (len - 1).leading_zeros() as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_when_they_end() {
        let mut runs = Runs::default();
        for len in [1, 2, 3, 4, 5, 4096, 4097] {
            (0..len).for_each(|_| runs.note(true, Span::from_micros(10)));
            runs.note(false, Span::from_micros(1));
        }
        assert_eq!(runs.ended[1], [1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!((runs.ended[0][0], runs.frames), (6, [6, 8208]));
        assert_eq!(runs.on_air, [Span::from_micros(6), Span::from_micros(82_080)]);
        assert_eq!((class(2048), class(2049)), (11, 12));
    }
}
