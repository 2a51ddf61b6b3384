//! Contention for request slots: truncated binary exponential backoff (802.16-2004, 6.3.8).
//!
//! A station counts the slots of request regions, so its backoff does not freeze while others send.

use bentpipe_units::{RandomStream, Time};

/// Contention of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Contention {
    /// No packet to ask for.
    #[default]
    Idle,
    /// Slots to let pass before the request.
    Backoff(Attempt, u32),
    /// Request sent, without a grant until now.
    Waiting(Attempt, Time),
}

/// Attempt of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// Window as a power of two.
    pub(super) window: u8,
    /// Number of attempts before.
    pub(super) tries: u32,
}

impl Attempt {
    /// Returns the first attempt.
    pub(super) const fn first(backoff: [u8; 2]) -> Attempt {
        Attempt { window: backoff[0], tries: 0 }
    }

    /// Returns the attempt after a failure, with twice the window up to the last.
    pub(super) fn next(self, backoff: [u8; 2]) -> Attempt {
        Attempt { window: (self.window + 1).min(backoff[1]), tries: self.tries + 1 }
    }

    /// Draws the number of slots to let pass.
    pub(super) fn draw(self, stream: &mut RandomStream) -> u32 {
        let window = 1_u32 << self.window;
        ((stream.unit() * f64::from(window)) as u32).min(window - 1)
    }
}

impl Contention {
    /// Counts the slots of a region down and returns that of the request, if any.
    pub(super) fn pass(&mut self, slots: u32) -> Option<(Attempt, u32)> {
        let Contention::Backoff(attempt, left) = self else { return None };
        if *left < slots {
            return Some((*attempt, *left));
        }
        *left -= slots;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probability that a slot has one request, of `n` connections that always ask.
    fn theory(n: i32, backoff: [u8; 2]) -> f64 {
        let tau = |p: f64| {
            // The last window repeats; its weight is the rest of the geometric series.
            let steps = i32::from(backoff[1] - backoff[0]);
            let (mut over, mut under) = (0.0, 0.0);
            for step in 0..=steps {
                let weight = p.powi(step) / if step == steps { 1.0 - p } else { 1.0 };
                over += weight;
                under += weight * (f64::from(1 << (backoff[0] + step as u8)) + 1.0) / 2.0;
            }
            over / under
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..60 {
            let p = (low + high) / 2.0;
            if 1.0 - (1.0 - tau(p)).powi(n - 1) > p { low = p } else { high = p }
        }
        let tau = tau(low);
        f64::from(n) * tau * (1.0 - tau).powi(n - 1)
    }

    /// Share of slots with one request, where all connections learn of it at once.
    fn simulated(n: usize, backoff: [u8; 2]) -> f64 {
        let mut stream = RandomStream::new(7, "contention");
        let start =
            |stream: &mut RandomStream, attempt: Attempt| Contention::Backoff(attempt, attempt.draw(stream));
        let mut all: Vec<Contention> = (0..n).map(|_| start(&mut stream, Attempt::first(backoff))).collect();
        let (mut successes, slots) = (0, 100_000);
        for _ in 0..slots {
            let sent: Vec<(usize, Attempt)> =
                all.iter_mut().enumerate().filter_map(|(n, one)| Some((n, one.pass(1)?.0))).collect();
            let alone = sent.len() == 1;
            successes += u32::from(alone);
            for (n, attempt) in sent {
                let next = if alone { Attempt::first(backoff) } else { attempt.next(backoff) };
                all[n] = start(&mut stream, next);
            }
        }
        f64::from(successes) / f64::from(slots)
    }

    #[test]
    fn success_per_slot_is_that_of_theory() {
        for (n, published) in [(5, 0.359), (10, 0.382), (20, 0.370), (50, 0.266)] {
            let expected = theory(n, [3, 6]);
            assert!((expected - published).abs() < 0.02, "{n}: {expected}");
            let found = simulated(n as usize, [3, 6]);
            assert!((found / expected - 1.0).abs() < 0.03, "{n}: {found} against {expected}");
        }
    }

    #[test]
    fn windows_double_up_to_the_last() {
        let windows = std::iter::successors(Some(Attempt::first([3, 6])), |one| Some(one.next([3, 6])));
        let windows: Vec<(u8, u32)> = windows.take(6).map(|one| (one.window, one.tries)).collect();
        assert_eq!(windows, [(3, 0), (4, 1), (5, 2), (6, 3), (6, 4), (6, 5)]);
        let mut stream = RandomStream::new(1, "windows");
        let drawn: Vec<u32> = (0..2000).map(|_| Attempt::first([3, 6]).draw(&mut stream)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&0), Some(&7)));
    }

    #[test]
    fn a_backoff_passes_over_regions_of_slots() {
        let attempt = Attempt::first([3, 6]);
        let mut one = Contention::Backoff(attempt, 9);
        assert_eq!([one.pass(4), one.pass(4)], [None, None]);
        assert_eq!(one.pass(4), Some((attempt, 1)));
        assert_eq!(Contention::Idle.pass(4), None);
    }
}
