//! Work on a thread of its own, watched by the calling thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bentpipe_lab::run::Monitor;
use pyo3::prelude::*;

use crate::errors;

/// Time between two looks for signals.
const STEP: Duration = Duration::from_millis(50);

/// Work that can be ended, and may have progress.
pub(crate) trait Stop: Sync {
    /// Requests the end.
    fn stop(&self);

    /// Calls a function with the progress, if there is any.
    fn show(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = progress;
        Ok(())
    }
}

/// Progress of runs, and the wish to end them.
pub(crate) struct Watch {
    stop: AtomicBool,
    /// Number of runs, with those finished before.
    runs: AtomicUsize,
    finished: AtomicUsize,
    /// Finished runs, and the shares of those that are running.
    gone: Mutex<f64>,
    started: Instant,
}

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "how long runs take is shown and no result depends on it")]
    pub(crate) fn new() -> Watch {
        let (runs, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Watch { stop: AtomicBool::new(false), runs, finished, gone: Mutex::new(0.0), started: Instant::now() }
    }
}

impl Stop for Watch {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Calls a function with the progress.
    ///
    /// Its arguments are the share of the whole, the number of finished runs, and of all.
    fn show(&self, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        let (runs, finished) = (self.runs.load(Ordering::Relaxed), self.finished.load(Ordering::Relaxed));
        let gone = *self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        // The shares of a run add up to one but for rounding.
        let share = if finished == runs { 1.0 } else { (gone / runs as f64).clamp(0.0, 1.0) };
        let has_begun = runs > 0;
        if has_begun { progress.call1((share, finished, runs)).map(drop) } else { Ok(()) }
    }
}

impl Monitor for Watch {
    fn begin(&self, runs: usize, finished: usize) {
        self.runs.store(runs + finished, Ordering::Relaxed);
        self.finished.store(finished, Ordering::Relaxed);
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = finished as f64;
    }

    fn advance(&self, share: f64) {
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) += share;
    }

    fn done(&self, _: &str) {
        self.finished.fetch_add(1, Ordering::Relaxed);
    }

    fn wants_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Attaches the thread to the interpreter once, and detaches it.
    ///
    /// A state of the thread made at each call of a class would take longer than the call.
    fn thread(&self, work: &mut (dyn FnMut() + Send)) {
        Python::attach(|py| py.detach(work));
    }

    fn clock_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

/// Does `work` on a thread of its own, without the interpreter's lock.
///
/// The calling thread looks for signals and calls `progress`. An exception of either ends the work and is raised, and so is one that ends
/// the work as the payload of a panic (see [`controller`](crate::controller)).
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    watch: &dyn Stop,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    std::thread::scope(|scope| {
        let (ended, receiver) = channel::<()>();
        let worker = scope.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            drop(ended);
            result
        });
        let raised = look(py, watch, progress, receiver);
        let result = py.detach(|| worker.join());
        raised?;
        result.and_then(|result| result).map_err(|payload| match payload.downcast::<PyErr>() {
            Ok(error) => *error,
            Err(_) => errors::named(py, "InternalError", "bentpipe failed: see the message on stderr"),
        })
    })
}

/// Checks for signals until the work has ended. Returns the first exception.
fn look(
    py: Python<'_>,
    watch: &dyn Stop,
    progress: Option<&Bound<'_, PyAny>>,
    mut receiver: Receiver<()>,
) -> PyResult<()> {
    let mut raised = Ok(());
    loop {
        let waited;
        (receiver, waited) = py.detach(move || {
            let waited = receiver.recv_timeout(STEP);
            (receiver, waited)
        });
        if raised.is_ok() {
            raised = py.check_signals().and_then(|()| progress.map_or(Ok(()), |call| watch.show(call)));
            if raised.is_err() {
                watch.stop();
            }
        }
        if waited != Err(RecvTimeoutError::Timeout) {
            return raised;
        }
    }
}
