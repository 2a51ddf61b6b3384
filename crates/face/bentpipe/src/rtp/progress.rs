//! Progress of a long run.

use std::cell::Cell;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Interval between lines when standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Progress in packets: a bar on a terminal, otherwise an occasional line.
pub(super) struct Progress {
    bar: ProgressBar,
    lines: bool,
    next_line: Cell<Instant>,
}

impl Progress {
    /// Shows progress towards `all` packets, if their number is known.
    #[expect(clippy::disallowed_methods, reason = "elapsed time is shown")]
    pub(super) fn new(quiet: bool, all: Option<u64>) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        let bar =
            match all {
                _ if quiet || !terminal => ProgressBar::hidden(),
                Some(all) => ProgressBar::new(all)
                    .with_style(style("{bar:32} {percent:>3} %  {pos} packets, {eta} to go")),
                None => ProgressBar::no_length()
                    .with_style(style("{pos} packets  {elapsed} gone, Ctrl-C ends it")),
            };
        Progress { bar, lines: !quiet && !terminal, next_line: Cell::new(Instant::now() + LINE_INTERVAL) }
    }

    #[expect(clippy::disallowed_methods, reason = "elapsed time is shown")]
    pub(super) fn show(&self, packets: u64) {
        self.bar.set_position(packets);
        let now = Instant::now();
        if self.lines && now >= self.next_line.get() {
            let _ = writeln!(std::io::stderr(), "{packets} packets");
            self.next_line.set(now + LINE_INTERVAL);
        }
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
