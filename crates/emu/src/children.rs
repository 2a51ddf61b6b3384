//! Programs that were started, and end with what started them.

use std::process::Child;
use std::time::Duration;

/// How long a program has to end when it is asked to.
const PATIENCE: u32 = 20;

/// Asks a program to end, and ends it if it does not within a second.
pub(crate) fn end(child: &mut Child) {
    end_at(child, child.id() as libc::pid_t);
}

/// Asks a program that leads a process group, and all it started in that group, to end; ends it if it does not within a
/// second.
pub fn end_group(child: &mut Child) {
    end_at(child, -(child.id() as libc::pid_t));
}

/// The signals go to `whom`: a process, or, negative, a process group.
fn end_at(child: &mut Child, whom: libc::pid_t) {
    // SAFETY: sends a signal to a child that was not waited for yet, so its number is still its own.
    let _ = unsafe { libc::kill(whom, libc::SIGTERM) };
    for _ in 0..PATIENCE {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: as above.
    let _ = unsafe { libc::kill(whom, libc::SIGKILL) };
    let _ = child.wait();
}
