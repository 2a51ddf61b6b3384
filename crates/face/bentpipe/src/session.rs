//! Jobs on the terminal: remarks, progress, Ctrl-C, exit codes.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bentpipe_emu::plain;
use bentpipe_offline::{Error, ExitReason, Outcome, Session};
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::{self, INTERRUPTED};
use crate::show;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// Session whose remarks go to standard error.
pub(crate) struct Terminal {
    /// Start of a remark.
    prefix: &'static str,
    bar: RefCell<Option<ProgressBar>>,
}

impl Terminal {
    /// Creates a session that Ctrl-C interrupts.
    pub(crate) fn new(prefix: &'static str) -> Terminal {
        interrupt::watch(|| STOPPED.store(true, Ordering::Relaxed));
        Terminal { prefix, bar: RefCell::new(None) }
    }

    /// Prints a job's result, to standard error if `to_stderr`, and returns the exit code.
    pub(crate) fn end(&self, result: Result<Outcome, Error>, to_stderr: bool) -> u8 {
        match result {
            Ok(outcome) => {
                match to_stderr {
                    true => drop(std::io::stderr().write_all(plain::text(&outcome.text).as_bytes())),
                    false => show::out(&outcome.text),
                }
                exit_code(outcome.reason)
            }
            Err(error) => {
                show::error(&error.to_string());
                2
            }
        }
    }
}

fn exit_code(reason: ExitReason) -> u8 {
    match reason {
        ExitReason::Clean => 0,
        ExitReason::Failed => 1,
        ExitReason::Interrupted => INTERRUPTED,
    }
}

impl Session for Terminal {
    fn note(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{}: {}", self.prefix, plain::text(text));
    }

    fn is_interrupted(&self) -> bool {
        STOPPED.load(Ordering::Relaxed)
    }

    fn track(&self, file: File, len_bytes: u64) -> Box<dyn Read> {
        let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {eta} left");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Box::new(ProgressBar::new(len_bytes).with_style(style).wrap_read(file))
    }

    fn progress(&self, step: &'static str, fraction: Option<f64>) {
        let mut bar = self.bar.borrow_mut();
        let bar = bar.get_or_insert_with(|| match fraction {
            Some(_) => ProgressBar::new(100),
            None => {
                let spinner = ProgressBar::new_spinner().with_message(step);
                spinner.enable_steady_tick(Duration::from_millis(120));
                spinner
            }
        });
        if let Some(fraction) = fraction {
            bar.set_position((fraction * 100.0) as u64);
        }
    }

    fn progress_finished(&self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
