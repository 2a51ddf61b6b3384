//! Lateness of the machine: the time by which it wakes a sleeping thread too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two wake-ups.
const STEP: Duration = Duration::from_millis(5);

/// A thread that sleeps and measures how late it is woken.
pub(crate) struct Probe {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Probe {
    /// Starts to measure.
    pub(crate) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let is_over = is_over.clone();
            move || lateness(&is_over)
        });
        Self { is_over, thread }
    }

    /// Ends the measurement and returns its figures.
    pub(crate) fn end(self) -> String {
        self.is_over.store(true, Ordering::Relaxed);
        let mut late = self.thread.join().unwrap_or_default();
        late.sort_unstable();
        let ms = |share: f64| quantile(&late, share).as_secs_f64() * 1e3;
        format!(
            "woken late by {:.2} ms (median), {:.2} ms (99 %), {:.1} ms (most)",
            ms(0.5),
            ms(0.99),
            ms(1.0)
        )
    }
}

#[allow(clippy::disallowed_methods, reason = "measures real time")]
fn lateness(is_over: &AtomicBool) -> Vec<Duration> {
    let mut late = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let start = Instant::now();
        std::thread::sleep(STEP);
        late.push(start.elapsed().saturating_sub(STEP));
    }
    late
}

/// Returns the value below which a share of sorted values lies.
fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((share * last).round() as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_sorted_values() {
        let values: Vec<Duration> = (0..=100).map(Duration::from_millis).collect();
        let at = [0.0, 0.5, 0.99, 1.0].map(|share| quantile(&values, share).as_millis());
        assert_eq!(at, [0, 50, 99, 100]);
        assert_eq!(quantile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn a_probe_states_its_figures() {
        assert!(Probe::start().end().starts_with("woken late by "));
    }
}
