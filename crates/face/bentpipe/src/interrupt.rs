//! Ctrl-C: the first requests the end of a command. Another after a second exits at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_emu::signals::EndRequests;
use bentpipe_record::remove_unfinished;

/// Exit status of an interrupted command, as shells report it for SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;

/// Calls `ask` at Ctrl-C. Another one, a second or more later, ends the program, which may be waiting for something.
/// Unfinished files, namespaces and the programs inside are removed first.
///
/// A script's background inherits that SIGINT is ignored. It is handled all the same: its sender wants the results.
///
/// There is one handler: one that was set before stays. Where none can be set Ctrl-C just ends the program.
pub(crate) fn watch(ask: impl Fn() + Send + 'static) {
    let requests = EndRequests::new();
    let _ = ctrlc::set_handler(move || {
        if requests.is_insistent() {
            crate::show::error("ended at once, as it was asked for again: what was not finished is not kept");
            remove_unfinished();
            bentpipe_emu::clean_up_of(std::process::id());
            std::process::exit(INTERRUPTED.into());
        }
        ask();
    });
}

/// Returns the flag that the first Ctrl-C sets; see [`watch`].
pub(crate) fn flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    watch(move || asked.store(true, Ordering::SeqCst));
    stop
}
