//! Programs inside an emulation: one that determines its duration, and others in the background.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bentpipe_emu::SetupError;
use bentpipe_units::Span;

use crate::Error;
use crate::hosts::Hosts;

/// Interval between checks of the programs.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Number of checks after Ctrl-C until a program that goes on is killed: two seconds.
const MAX_CHECKS: u32 = 100;

/// Programs to run at real hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramSettings {
    /// Command with its arguments; the emulation ends with it, and with its exit code. Default: none.
    pub command: Vec<String>,
    /// Real host that the command runs at. Default: the first.
    pub on: Option<String>,
    /// Commands of the shell that run at other hosts, HOST=COMMAND. Without a command the emulation ends when all have.
    pub background: Vec<String>,
    /// Time that the emulation goes on after the programs' end, for packets in flight. Default: one round trip.
    pub linger: Option<Span>,
}

impl ProgramSettings {
    /// Returns `true` without any program.
    pub fn is_empty(&self) -> bool {
        self.command.is_empty() && self.background.is_empty()
    }
}

/// Programs that are not yet started.
pub(crate) struct Programs {
    /// Command that determines the duration.
    main: Option<(String, Command)>,
    /// Background programs, in their order.
    background: Vec<(String, Command)>,
    linger: Duration,
}

impl Programs {
    /// Prepares the programs at their hosts.
    ///
    /// # Errors
    /// Returns an error if a host is not real, or a background program is not HOST=COMMAND.
    pub(crate) fn new(settings: &ProgramSettings, hosts: &Hosts) -> Result<Programs, Error> {
        let main = settings.command.split_first().map(|(program, args)| {
            // The shell exits with 127 where the program is missing, and is replaced by it otherwise.
            let mut command = hosts.command(settings.on.as_deref(), "sh")?;
            command.args(["-c", "exec \"$0\" \"$@\"", program]).args(args);
            Ok::<_, String>((program.clone(), command))
        });
        let background = settings.background.iter().map(|assignment| background(assignment, hosts));
        let background = background.collect::<Result<_, _>>().map_err(Error::Other)?;
        let linger = Duration::from_nanos(settings.linger.unwrap_or_default().as_nanos());
        Ok(Programs { main: main.transpose().map_err(Error::Other)?, background, linger })
    }

    /// Starts the programs, background ones first, and a thread. Once the command has ended, or without one all programs, and
    /// packets in flight had time to arrive, it sets `stop`. Once `stop` is set it ends the others.
    ///
    /// # Errors
    /// Returns an error if a program cannot be started.
    pub(crate) fn start(self, stop: Arc<AtomicBool>) -> Result<Started, String> {
        let mut running = Running { main: None, background: Vec::new(), linger: self.linger };
        let spawn = |(name, mut command): (String, Command)| {
            command.spawn().map_err(|error: io::Error| format!("{name}: {error}"))
        };
        for program in self.background {
            running.background.push(BackgroundProgram { child: spawn(program)?, code: None });
        }
        running.main = self.main.map(spawn).transpose()?;
        Ok(Started(std::thread::spawn(move || running.follow(&stop))))
    }
}

/// Prepares HOST=COMMAND in a process group of its own. All that the shell starts ends with it.
fn background(assignment: &str, hosts: &Hosts) -> Result<(String, Command), String> {
    let (host, command) = assignment.split_once('=').ok_or_else(|| {
        format!("--background {assignment}: expected HOST=COMMAND, such as server='iperf3 -s -1'")
    })?;
    let mut shell = hosts.command(Some(host), "sh")?;
    shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
    Ok((command.to_owned(), shell))
}

/// Returns an error with the Debian package of a program that is not there.
pub(crate) fn require(program: &'static str, package: &'static str) -> Result<(), SetupError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if is_there { Ok(()) } else { Err(SetupError::Missing { program, package }) }
}

/// Programs that run.
pub(crate) struct Started(pub(crate) JoinHandle<u8>);

impl Started {
    /// Waits for the end and returns the command's exit code. Without a command it is the first that is not 0.
    pub(crate) fn code(self) -> Option<u8> {
        self.0.join().ok()
    }
}

/// Program that runs in the background.
struct BackgroundProgram {
    child: Child,
    /// Exit code, once it has ended.
    code: Option<u8>,
}

impl Drop for BackgroundProgram {
    fn drop(&mut self) {
        if self.code.is_none() {
            bentpipe_emu::end_group(&mut self.child);
        }
    }
}

struct Running {
    main: Option<Child>,
    background: Vec<BackgroundProgram>,
    linger: Duration,
}

impl Running {
    fn follow(mut self, stop: &AtomicBool) -> u8 {
        let mut checks_left = MAX_CHECKS;
        let code = loop {
            if let Some(code) = self.ended() {
                break code;
            }
            if stop.load(Ordering::SeqCst) {
                checks_left -= 1;
                if self.main.is_none() {
                    break 0;
                }
            }
            if checks_left == 0 {
                self.main.as_mut().map(Child::kill);
            }
            std::thread::sleep(CHECK_INTERVAL);
        };
        let end = Instant::now() + self.linger;
        while !stop.load(Ordering::SeqCst) && Instant::now() < end {
            std::thread::sleep(CHECK_INTERVAL.min(end.saturating_duration_since(Instant::now())));
        }
        stop.store(true, Ordering::SeqCst);
        code
    }

    /// Returns the exit code once the command, or without one all programs, have ended.
    fn ended(&mut self) -> Option<u8> {
        for program in self.background.iter_mut().filter(|program| program.code.is_none()) {
            program.code = code(&mut program.child);
        }
        match &mut self.main {
            Some(main) => code(main),
            None => {
                let codes =
                    self.background.iter().map(|program| program.code).collect::<Option<Vec<u8>>>()?;
                Some(codes.into_iter().find(|code| *code != 0).unwrap_or(0))
            }
        }
    }
}

/// Returns a child's exit code once it has ended.
///
/// As in a shell, it is 128 and the number of a signal that ended it.
fn code(child: &mut Child) -> Option<u8> {
    match child.try_wait() {
        Ok(None) => None,
        Ok(Some(status)) => {
            let of_signal = status.signal().map_or(1, |signal| 128 + signal);
            Some(status.code().unwrap_or(of_signal) as u8)
        }
        Err(_) => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        assert!(require("sh", "dash").is_ok());
        let problem = require("iperf3-of-no-folder", "iperf3").expect_err("missing").to_string();
        assert!(problem.contains("install the package `iperf3`"), "{problem}");
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        for (script, expected) in [("exit 3", 3), ("kill -KILL $$", 137), ("exec /nowhere/program", 127)] {
            let mut child =
                Command::new("sh").args(["-c", script]).stderr(Stdio::null()).spawn().expect("sh");
            let _ = child.wait();
            assert_eq!(code(&mut child), Some(expected), "{script}");
        }
    }
}
