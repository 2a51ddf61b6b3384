//! Monitor of runs: shows progress, interrupts, and has a clock.

use bentpipe_record::Series;
use bentpipe_units::Span;

/// Watches runs. All methods are called from several threads.
pub trait Monitor: Sync {
    /// Begins `runs` runs, in addition to `finished` earlier ones.
    fn begin(&self, _runs: usize, _finished: usize) {}

    /// Reports a damaged file of a finished run, which is run again.
    fn damaged(&self, _problem: &str) {}

    /// Records progress of a run by this share of it. Each run's shares add up to one.
    fn advance(&self, _share: f64) {}

    /// Shows the samples taken of the run `label`, now and then.
    fn sampled(&self, _label: &str, _series: &Series) {}

    /// Returns `true` if a reader may look at the run's files now.
    ///
    /// Captures and rows of queries are then written as far as they are.
    fn is_watched(&self) -> bool {
        false
    }

    /// Starts the run `label` in real time. All runs of the batch take `left` from now on.
    fn started(&self, _label: &str, _left: Span) {}

    /// Ends the run `label`.
    fn done(&self, _label: &str) {}

    /// Returns `true` to stop. Finished runs are kept.
    fn wants_stop(&self) -> bool {
        false
    }

    /// Calls `work`, all that a thread of runs does.
    ///
    /// A monitor whose runs need something of their thread makes it here, once instead of at each use.
    fn thread(&self, work: &mut (dyn FnMut() + Send)) {
        work();
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
