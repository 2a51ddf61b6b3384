//! Progress on the terminal, Ctrl-C, and the clock.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bentpipe_emu::plain;
use bentpipe_lab::run::Monitor;
use bentpipe_record::Series;
use bentpipe_units::Span;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::interrupt;
use crate::progress::Journal;

/// Steps of the bar for each run.
const STEPS: f64 = 1000.0;

/// Seconds between two lines of a monitor of many runs.
#[cfg(feature = "tools")]
const LINE_SPACING_S: u64 = 10;

/// Shows a bar on a terminal, otherwise a line for each finished run.
pub(crate) struct Terminal {
    bar: ProgressBar,
    lines: bool,
    /// Least time from one line to the next in seconds.
    spacing_s: u64,
    /// Time of the next line in seconds from the start.
    due_s: AtomicU64,
    runs: AtomicUsize,
    done: AtomicUsize,
    stop: Arc<AtomicBool>,
    started: Instant,
    /// File that the progress is written to as well.
    journal: Option<Journal>,
}

impl Terminal {
    /// A monitor that Ctrl-C asks to stop; a second Ctrl-C ends the program at once.
    #[expect(clippy::disallowed_methods, reason = "how long runs take is shown and no result depends on it")]
    pub(crate) fn new(quiet: bool) -> Terminal {
        let stop = interrupt::flag();
        let terminal = std::io::stderr().is_terminal();
        let target =
            if quiet || !terminal { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style =
            ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}  {elapsed} gone, {eta} to go");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let (runs, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Terminal {
            bar,
            lines: !quiet && !terminal,
            spacing_s: 0,
            due_s: AtomicU64::new(0),
            runs,
            done,
            stop,
            started: Instant::now(),
            journal: None,
        }
    }

    /// A monitor of many runs.
    ///
    /// Off a terminal it prints a line every ten seconds, and one for the last run.
    #[cfg(feature = "tools")]
    pub(crate) fn of_many(quiet: bool) -> Terminal {
        let due_s = AtomicU64::new(LINE_SPACING_S);
        Terminal { spacing_s: LINE_SPACING_S, due_s, ..Terminal::new(quiet) }
    }

    /// Returns `true` if a line is due after `done` runs.
    fn is_line_due(&self, done: usize) -> bool {
        let gone_s = self.started.elapsed().as_secs();
        let due = |due_s: u64| (gone_s >= due_s).then_some(gone_s + self.spacing_s);
        let is_last = done == self.runs.load(Ordering::Relaxed);
        self.due_s.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok() || is_last
    }

    /// Writes the progress to a file as well.
    pub(crate) fn write_to(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Returns the flag that Ctrl-C sets.
    #[cfg(feature = "tools")]
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn message(&self) -> String {
        let (done, runs) = (self.done.load(Ordering::Relaxed), self.runs.load(Ordering::Relaxed));
        format!("{done} of {runs} runs")
    }
}

impl Monitor for Terminal {
    fn begin(&self, runs: usize, finished: usize) {
        self.runs.store(runs, Ordering::Relaxed);
        if let Some(journal) = &self.journal {
            journal.begin(runs, finished);
        }
        self.done.store(0, Ordering::Relaxed);
        self.bar.reset();
        self.bar.set_length((runs as f64 * STEPS) as u64);
        self.bar.set_message(self.message());
        self.bar.enable_steady_tick(Duration::from_millis(200));
        if self.lines && finished > 0 {
            let _ = writeln!(std::io::stderr(), "{finished} finished before, {runs} to run");
        }
    }

    fn damaged(&self, problem: &str) {
        let shown = format!("{}\n", plain::text(problem));
        self.bar.suspend(|| _ = std::io::stderr().write_all(shown.as_bytes()));
    }

    fn advance(&self, share: f64) {
        self.bar.inc((share * STEPS).round() as u64);
        if let Some(journal) = &self.journal {
            journal.advance(share, self.clock_s());
        }
    }

    fn sampled(&self, label: &str, series: &Series) {
        if let Some(journal) = &self.journal {
            journal.sampled(label, series, self.clock_s());
        }
    }

    fn is_watched(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.is_watched(self.clock_s()))
    }

    fn started(&self, label: &str, left: Span) {
        self.bar.set_message(format!("{}, {}", self.message(), plain::line(label)));
        if self.lines {
            let (done, runs) = (self.done.load(Ordering::Relaxed), self.runs.load(Ordering::Relaxed));
            let _ =
                writeln!(std::io::stderr(), "{done}/{runs}  {}: started, {left} to go", plain::line(label));
        }
    }

    fn done(&self, label: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        self.bar.set_message(self.message());
        if let Some(journal) = &self.journal {
            journal.done(label);
        }
        if self.lines && self.is_line_due(done) {
            let runs = self.runs.load(Ordering::Relaxed);
            let _ = writeln!(std::io::stderr(), "{done}/{runs}  {}", plain::line(label));
        }
    }

    fn wants_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn clock_s(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
