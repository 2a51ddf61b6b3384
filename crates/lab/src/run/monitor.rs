//! Whoever watches runs: shows progress, interrupts, and has a clock.

/// Watches runs. All methods are called from several threads.
pub trait Monitor: Sync {
    /// `runs` are to be run, besides `finished` ones that were before.
    fn begin(&self, _runs: usize, _finished: usize) {}

    /// A run went on by this share of it. Each run's shares add up to one.
    fn advance(&self, _share: f64) {}

    /// A run ended; `label` says which.
    fn done(&self, _label: &str) {}

    /// Whether to end. What is finished is kept.
    fn wants_stop(&self) -> bool {
        false
    }

    /// Seconds on a clock that only moves forward, for the time that runs take. No result depends on it.
    fn clock_s(&self) -> f64 {
        0.0
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Monitor for Silent {}
