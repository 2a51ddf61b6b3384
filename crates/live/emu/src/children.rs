//! Termination of child processes.

use std::process::Child;
use std::time::Duration;

use rustix::io::Result;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Number of checks before a program that was asked to terminate is killed.
const MAX_CHECKS: u32 = 20;

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Interrupts a program that was not waited for, as Ctrl-C does.
pub fn interrupt(child: &Child) {
    let _ = kill_process(Pid::from_child(child), Signal::INT);
}

/// Terminates a program: SIGTERM, and SIGKILL if it still runs after a second.
pub fn end(child: &mut Child) {
    end_by(kill_process, child);
}

/// Terminates a program and the process group that it leads. SIGTERM comes first, and SIGKILL after a second.
pub fn end_group(child: &mut Child) {
    end_by(kill_process_group, child);
}

/// Sends the signals. The child was not waited for yet, so its process identifier is still its own.
fn end_by(kill: fn(Pid, Signal) -> Result<()>, child: &mut Child) {
    let pid = Pid::from_child(child);
    let _ = kill(pid, Signal::TERM);
    for _ in 0..MAX_CHECKS {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    let _ = kill(pid, Signal::KILL);
    let _ = child.wait();
}
