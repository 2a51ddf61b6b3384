//! Supervisor of a task: a process that starts its program, and ends it in time.
//!
//! It outlives the agent, so that a site that is killed loses neither the task nor its exit code.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bentpipe_units::Bytes;
use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::clock::{monotonic_us, now_us, sleep};
use crate::doctor::PATH;
use crate::names::{END, OUTPUT, PROGRAM, STARTED, STOP, WORK};
use crate::task::{Ended, Prepared, Started, Task};
use crate::{Error, folder};

/// Time between two looks at the program.
const TURN: Duration = Duration::from_millis(50);
/// Number of looks between two at what it wrote.
const TURNS_PER_LOOK: u32 = 20;
/// Time that a program has to end after it was interrupted, in microseconds.
const PATIENCE_US: i64 = 10_000_000;
/// Longest wait for the start, in microseconds: an hour.
const MAX_WAIT_US: i64 = 3_600_000_000;

/// Runs a task in its folder, from an instant of this machine's clock on.
///
/// The instant is in microseconds since 1970. /// The process is the supervisor: its standard input is the lock of the task.
///
/// # Errors
/// Returns an error if the folder cannot be used.
pub fn supervise(path: &Path, at_us: i64) -> Result<(), Error> {
    let task = Task::at(path);
    let prepared = task.prepared()?.ok_or_else(|| Error::settings(path, "no task"))?;
    let ended = match wait(&task, at_us) {
        true => run(&task, &prepared),
        false => Ended { ended_us: now_us(), code: None, why: "stopped".to_owned() },
    };
    folder::write_json(&task.file(END), &ended)
}

/// Returns `true` at the instant of the start, or `false` once the end is requested.
fn wait(task: &Task, at_us: i64) -> bool {
    loop {
        let left_us = (at_us - now_us()).min(MAX_WAIT_US);
        if task.file(STOP).exists() {
            return false;
        }
        if left_us <= 0 {
            return true;
        }
        sleep(TURN.min(Duration::from_micros(left_us.unsigned_abs())));
    }
}

fn run(task: &Task, prepared: &Prepared) -> Ended {
    let failed = |why: String| Ended { ended_us: now_us(), code: None, why };
    if let Err(why) = task.verify(prepared) {
        return failed(why);
    }
    let mut child = match spawn(task, prepared) {
        Ok(child) => child,
        Err(error) => return failed(error.to_string()),
    };
    let started_us = now_us();
    let pid = Pid::from_child(&child);
    let started = Started { started_us, pid: pid.as_raw_nonzero().get() };
    if let Err(error) = folder::write_json(&task.file(STARTED), &started) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        let _ = child.wait();
        return failed(error.to_string());
    }
    let deadline_us = monotonic_us() + i64::from(prepared.most_s) * 1_000_000;
    let mut asked: Option<(i64, String)> = None;
    let mut turns = 0_u32;
    loop {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                // What it left behind, such as a program of its own, goes with it.
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
                let killed = status.signal().map(|signal| format!("killed by signal {signal}"));
                // A write beyond the limit fails, or its signal ends the program.
                let is_full = !status.success() && task.kept_bytes() >= prepared.most_bytes;
                let why = asked.map(|(_, why)| why).or_else(|| is_full.then(|| full(prepared))).or(killed);
                let why = why.unwrap_or_else(|| "ended".to_owned());
                return Ended { ended_us: now_us(), code: status.code(), why };
            }
            Err(error) => return failed(error.to_string()),
        }
        turns = turns.wrapping_add(1);
        let now = monotonic_us();
        match &asked {
            None => {
                asked = reason(task, prepared, now >= deadline_us, turns).map(|why| (now, why));
                if asked.is_some() {
                    let _ = rustix::process::kill_process(pid, Signal::INT);
                }
            }
            Some((at, _)) if now - *at > PATIENCE_US => {
                let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            }
            Some(_) => {}
        }
        sleep(TURN);
    }
}

/// Returns the reason to end a program.
fn reason(task: &Task, prepared: &Prepared, is_late: bool, turns: u32) -> Option<String> {
    if task.file(STOP).exists() {
        return Some("stopped".to_owned());
    }
    if is_late {
        return Some(format!("deadline: the task has at most {} s", prepared.most_s));
    }
    let is_full = || turns.is_multiple_of(TURNS_PER_LOOK) && task.kept_bytes() > prepared.most_bytes;
    is_full().then(|| full(prepared))
}

/// Returns the reason to end a program when the site keeps no more.
fn full(prepared: &Prepared) -> String {
    format!("disk: the site keeps at most {} of all tasks (most_disk)", Bytes::new(prepared.most_bytes))
}

fn spawn(task: &Task, prepared: &Prepared) -> Result<Child, Error> {
    let work = task.file(WORK);
    let [output, errors] = OUTPUT.map(|name| {
        let path = work.join(name);
        File::create(&path).map_err(|error| Error::file(&path, error))
    });
    let lock = folder::lock(&task.file(PROGRAM))?
        .ok_or_else(|| Error::Settings("the program runs already".to_owned()))?;
    let all = prepared.command();
    let (program, arguments) =
        all.split_first().ok_or_else(|| Error::Settings("the task has no program".to_owned()))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&work).process_group(0).env_clear();
    command.env("PATH", PATH).env("LANG", "C.UTF-8");
    command.stdin(Stdio::from(lock)).stdout(output?).stderr(errors?);
    let child = command.spawn().map_err(|error| Error::file(Path::new(program), error))?;
    let left = prepared.most_bytes.saturating_sub(task.kept_bytes()).max(1);
    let most = Rlimit { current: Some(left), maximum: Some(left) };
    let _ = rustix::process::prlimit(Some(Pid::from_child(&child)), Resource::Fsize, most);
    Ok(child)
}
