//! Ctrl-C: the first asks a command to end, a second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_lab::run::remove_unfinished;

/// The exit status of what was interrupted, as shells say for a program ended by Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// Calls `ask` at the first Ctrl-C. A second one ends the program, which may be waiting for something; no half of a file is left.
///
/// There is one handler: where somebody set one before, that does. Where none can be set Ctrl-C just ends the program.
pub(crate) fn watch(ask: impl Fn() + Send + 'static) {
    let is_asked = AtomicBool::new(false);
    let _ = ctrlc::set_handler(move || {
        if is_asked.swap(true, Ordering::SeqCst) {
            remove_unfinished();
            std::process::exit(INTERRUPTED.into());
        }
        ask();
    });
}

/// What the first Ctrl-C sets; see [`watch`].
pub(crate) fn flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    watch(move || asked.store(true, Ordering::SeqCst));
    stop
}
