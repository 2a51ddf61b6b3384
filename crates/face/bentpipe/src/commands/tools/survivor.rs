//! A process that outlives an emulation, and ends its programs if it is killed.
//!
//! SIGKILL leaves no time to end what runs in the namespaces. Ends of parents reach children alone, and these may start others:
//! the programs are found by their namespace.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use super::Failure;

/// Line that says that an emulation has ended by itself.
const ENDED: &[u8] = b"ended\n";

/// Process that waits for the end of this one. Dropping it says that nothing is left to do.
pub(super) struct Survivor(Child);

impl Survivor {
    /// Starts it. `None` where no process can be started: the next emulation removes what is left.
    pub(super) fn start() -> Option<Survivor> {
        let program = std::env::current_exe().ok()?;
        let mut command = Command::new(program);
        command.args(["survive", &std::process::id().to_string()]).stdin(Stdio::piped());
        // A terminal's Ctrl-C is for the emulation, and a reader of its output must not wait for this process.
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().ok().map(Survivor)
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(ENDED);
        }
        let _ = self.0.wait();
    }
}

/// Waits for the end of standard input. Cleans up if the emulation was killed.
pub(super) fn survive(process: u32) -> Result<u8, Failure> {
    let mut said = Vec::new();
    let _ = std::io::stdin().take(ENDED.len() as u64).read_to_end(&mut said);
    if said == ENDED {
        return Ok(0);
    }
    bentpipe_emu::clean_up_after_kill(process);
    bentpipe_emulation::control::remove_socket(process);
    Ok(0)
}
