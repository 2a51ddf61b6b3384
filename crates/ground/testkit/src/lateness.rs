//! Lateness of the machine, which tests of real time judge against.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

/// Interval between the instants that a watch sleeps to.
const STEP: Duration = Duration::from_millis(1);

/// Watch on the lateness of the machine.
///
/// On each processor a thread sleeps to instants a millisecond apart, and records how late it wakes. It has the usual priority, as have
/// the programs of a test. What the emulator or a gateway does to a packet does not touch it, so that a fault of theirs widens no bound.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Duration>>>,
}

impl Watch {
    /// Starts a watch.
    pub fn start() -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let count = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let watch_one = |processor| {
            let asked = Arc::clone(&stop);
            std::thread::spawn(move || watch(processor, &asked))
        };
        Watch { threads: (0..count).map(watch_one).collect(), stop }
    }

    /// Ends the watch and returns its record.
    ///
    /// # Panics
    /// If a thread of it has panicked.
    pub fn end(mut self) -> Lateness {
        self.stop.store(true, Ordering::Relaxed);
        let lists = self.threads.drain(..).map(|thread| thread.join().expect("no panic"));
        let mut late = lists.collect::<Vec<_>>().concat();
        late.sort_unstable();
        Lateness(late)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn watch(processor: usize, stop: &AtomicBool) -> Vec<Duration> {
    let mut own = CpuSet::new();
    own.set(processor);
    // Where a processor may not be chosen, the thread watches those that it gets.
    let _ = sched_setaffinity(None, &own);
    let (start, mut late, mut due) = (Instant::now(), Vec::new(), STEP);
    loop {
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let now = start.elapsed();
        late.push(now.saturating_sub(due));
        // Instants that have passed meanwhile are part of this lateness.
        due = now + STEP;
        if stop.load(Ordering::Relaxed) {
            return late;
        }
    }
}

/// Record of a watch: the lateness of each wake-up, in ascending order.
#[derive(Clone)]
pub struct Lateness(Vec<Duration>);

impl Lateness {
    /// Returns a quantile of the lateness: 0.5 is the median.
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    /// Returns the greatest lateness.
    pub fn worst(&self) -> Duration {
        self.quantile(1.0)
    }
}

impl std::fmt::Debug for Lateness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [median, p99] = [0.5, 0.99].map(|share| self.quantile(share));
        write!(f, "machine late by p50 {median:?}, p99 {p99:?}, at most {:?}", self.worst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_wake_ups() {
        let record = Lateness([0, 0, 0, 1, 11].map(Duration::from_millis).to_vec());
        assert_eq!((record.quantile(0.5), record.worst()), (Duration::ZERO, Duration::from_millis(11)));
        assert_eq!(Lateness(Vec::new()).worst(), Duration::ZERO);
    }

    #[test]
    fn a_watch_wakes_all_the_time() {
        let (watch, start) = (Watch::start(), Instant::now());
        std::thread::sleep(Duration::from_millis(100));
        let processors = watch.threads.len() as u32;
        let record = watch.end();
        // Each wake-up is a step and its lateness after the one before.
        let whole: Duration = record.0.iter().map(|late| *late + STEP).sum();
        assert!(whole >= processors * STEP && whole <= processors * start.elapsed(), "{record:?}");
    }
}
