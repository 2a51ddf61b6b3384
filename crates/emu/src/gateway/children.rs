//! Programs that were started, and end with the gateway.

use std::process::Child;
use std::time::Duration;

/// How long a program has to end when it is asked to.
const PATIENCE: u32 = 20;

/// Asks a program to end, and ends it if it does not within a second.
pub(super) fn end(child: &mut Child) {
    // SAFETY: sends a signal to a child that was not waited for yet, so its number is still its own.
    let _ = unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
    for _ in 0..PATIENCE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
}
