//! Lengths of runs of lost and of acknowledged frames.

use bentpipe_net::Observer;
use bentpipe_units::Span;

use super::metrics::{self, CLASSES};

/// Runs of lost and of acknowledged frames, as counted by the sender.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Kind of the present run, its length, and its air time.
    present: Option<(bool, u64, Span)>,
    /// Number of completed runs by kind (acknowledged, lost) and class of length.
    ended: [[u64; CLASSES]; 2],
    /// Frames in them.
    frames: [u64; 2],
    /// Time on the air of these frames.
    on_air: [Span; 2],
}

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
        let kinds = [
            (&metrics::GAP_MEAN, &metrics::GAP_MEAN_TIME, &metrics::GAPS),
            (&metrics::BURST_MEAN, &metrics::BURST_MEAN_TIME, &metrics::BURSTS),
        ];
        for (lost, (mean, time, classes)) in kinds.into_iter().enumerate() {
            let ended: u64 = self.ended[lost].iter().sum();
            observer.gauge(mean, self.frames[lost] as f64 / ended as f64);
            observer.gauge(time, self.on_air[lost].as_secs_f64() / ended as f64);
            let counts = classes.iter().zip(self.ended[lost]);
            counts.for_each(|(metric, count)| observer.counter(metric, count));
        }
    }
}

/// Returns the class of a length. The classes are 1, 2, 3 to 4, 5 to 8, ...
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
