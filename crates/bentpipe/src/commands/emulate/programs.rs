//! Programs that run inside an emulation: one that it lasts as long as, and others at other hosts beside it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::Failure;
use super::Hosts;
use crate::arguments::EmulateArguments;

/// How often the programs are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Looks after Ctrl-C until a program that goes on is ended: two seconds.
const PATIENCE: u32 = 100;

/// Programs that were asked for, not yet started.
pub(super) struct Programs {
    /// The command after `--`.
    main: Option<(String, Command)>,
    /// Those of `--at`, in their order.
    beside: Vec<(String, Command)>,
}

impl Programs {
    /// Those that the arguments name, at the hosts that they name.
    ///
    /// # Errors
    /// If a host is not real, or an `--at` is not HOST=COMMAND.
    pub(super) fn new(arguments: &EmulateArguments, hosts: &Hosts) -> Result<Programs, Failure> {
        let main = arguments.command.split_first().map(|(program, args)| {
            let mut command = hosts.command(arguments.on.as_deref(), program)?;
            command.args(args);
            Ok::<_, String>((program.clone(), command))
        });
        let beside = arguments.at.iter().map(|at| beside(at, hosts));
        let beside = beside.collect::<Result<_, _>>().map_err(Failure::bad)?;
        Ok(Programs { main: main.transpose().map_err(Failure::bad)?, beside })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.main.is_none() && self.beside.is_empty()
    }

    /// Starts them, those of `--at` first, and a thread that sets `stop` when the command ended, or, without one, when all
    /// have; and that ends those which run on when `stop` is set.
    ///
    /// # Errors
    /// If one cannot be started.
    pub(super) fn start(self, stop: Arc<AtomicBool>) -> Result<Started, String> {
        let mut running = Running { main: None, beside: Vec::new() };
        let spawn = |(name, mut command): (String, Command)| {
            command.spawn().map_err(|error: io::Error| format!("{name}: {error}"))
        };
        for program in self.beside {
            running.beside.push(Beside { child: spawn(program)?, code: None });
        }
        running.main = self.main.map(spawn).transpose()?;
        Ok(Started(std::thread::spawn(move || running.follow(&stop))))
    }
}

/// HOST=COMMAND, in a process group of its own, so that all that the shell starts ends with it.
fn beside(at: &str, hosts: &Hosts) -> Result<(String, Command), String> {
    let (host, command) = at
        .split_once('=')
        .ok_or_else(|| format!("--at {at}: expected HOST=COMMAND, such as server='iperf3 -s -1'"))?;
    let mut shell = hosts.command(Some(host), "sh")?;
    shell.args(["-c", command]).stdin(Stdio::null()).process_group(0);
    Ok((command.to_owned(), shell))
}

/// Programs that run.
pub(super) struct Started(JoinHandle<u8>);

impl Started {
    /// Waits for their end; the exit code of the command, or, without one, the first of `--at` that is not 0.
    pub(super) fn code(self) -> Option<u8> {
        self.0.join().ok()
    }
}

struct Beside {
    child: Child,
    /// Once it has ended.
    code: Option<u8>,
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.code.is_none() {
            bentpipe_emu::end_group(&mut self.child);
        }
    }
}

struct Running {
    main: Option<Child>,
    beside: Vec<Beside>,
}

impl Running {
    fn follow(mut self, stop: &AtomicBool) -> u8 {
        let mut patience = PATIENCE;
        let code = loop {
            if let Some(code) = self.ended() {
                break code;
            }
            if stop.load(Ordering::SeqCst) {
                patience -= 1;
                if self.main.is_none() {
                    break 0;
                }
            }
            if patience == 0 {
                self.main.as_mut().map(Child::kill);
            }
            std::thread::sleep(LOOK);
        };
        stop.store(true, Ordering::SeqCst);
        code
    }

    /// The exit code, when what the emulation lasts as long as has ended.
    fn ended(&mut self) -> Option<u8> {
        for beside in self.beside.iter_mut().filter(|beside| beside.code.is_none()) {
            beside.code = code(&mut beside.child);
        }
        match &mut self.main {
            Some(main) => code(main),
            None => {
                let codes = self.beside.iter().map(|beside| beside.code).collect::<Option<Vec<u8>>>()?;
                Some(codes.into_iter().find(|code| *code != 0).unwrap_or(0))
            }
        }
    }
}

/// A child's exit code once it has ended; 1 where a signal ended it.
fn code(child: &mut Child) -> Option<u8> {
    match child.try_wait() {
        Ok(None) => None,
        Ok(Some(status)) => Some(status.code().map_or(1, |code| code as u8)),
        Err(_) => Some(1),
    }
}
