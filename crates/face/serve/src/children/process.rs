//! Start of a child, its limits, and what ended it.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use bentpipe_units::Bytes;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::cgroup::{Group, Groups, WORK};
use super::limits::Limits;
use crate::problem::{Problem, Result};

/// Longest answer of a child.
const MAX_ANSWER: u64 = 8_000_000;
/// Unit in which an excess is stated.
const MB: u64 = 1_000_000;
/// Words of the system for a write beyond the limit of file sizes: EFBIG. No child is ended by SIGXFSZ.
const TOO_LARGE: &str = "(os error 27)";
/// Bytes of a child's errors that are read.
const MAX_ERRORS: u64 = 64 << 10;
/// Lowered priority of children: the server answers others first. Jobs have a lower one.
const NICENESS: i32 = 10;
/// Priority of short work, of which others wait for the end.
const SHORT_NICENESS: i32 = 5;
/// Seconds between SIGXCPU and SIGKILL of a process over its processor time.
const GRACE_S: u64 = 2;

/// Limit that a child went over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// Memory, and the bytes that it asked for last.
    Memory {
        most: u64,
        asked: Option<u64>,
    },
    Processor {
        most_s: u64,
    },
    File {
        most: u64,
    },
    Answer,
    Time {
        most_s: u64,
    },
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Memory { most, asked } => {
                write!(f, "it needs more than {} of memory", Bytes::new(*most))?;
                let rounded = |asked: u64| Bytes::new(asked.div_ceil(MB).saturating_mul(MB));
                asked.map_or(Ok(()), |asked| {
                    write!(f, ": it asked for {} on top of what it had", rounded(asked))
                })
            }
            Excess::Processor { most_s } => write!(f, "it needs more than {most_s} s of processor time"),
            Excess::File { most } => write!(f, "it writes a file of more than {}", Bytes::new(*most)),
            Excess::Answer => write!(f, "its answer has more than {}", Bytes::new(MAX_ANSWER)),
            Excess::Time { most_s } => write!(f, "it was not done after {most_s} s"),
        }
    }
}

impl Excess {
    /// Returns the step that helps.
    pub(crate) fn remedy(&self) -> String {
        let key = match self {
            Excess::Memory { .. } => "memory",
            Excess::Processor { .. } => "processor_time",
            Excess::File { .. } => "file_size",
            Excess::Time { .. } => "real_time",
            Excess::Answer => return "Make it smaller".to_owned(),
        };
        format!("Make it smaller, or ask the administrator for another `{key}` in limits.toml")
    }

    /// Returns the limit that ended a process, by its status and its standard error.
    pub(crate) fn of(
        status: ExitStatus,
        errors: &str,
        limits: &Limits,
        is_out_of_memory: bool,
    ) -> Option<Excess> {
        let signal = status.signal().and_then(Signal::from_named_raw);
        match signal {
            Some(Signal::XCPU) => Some(Excess::Processor { most_s: limits.processor_s }),
            Some(Signal::XFSZ) => Some(Excess::File { most: limits.file_size }),
            _ if is_out_of_memory => Some(Excess::Memory { most: limits.memory, asked: None }),
            _ => Excess::of_errors(errors, limits),
        }
    }

    /// Returns the excess that a program states on its standard error.
    pub(crate) fn of_errors(errors: &str, limits: &Limits) -> Option<Excess> {
        let is_file = errors.contains(TOO_LARGE).then_some(Excess::File { most: limits.file_size });
        Excess::of_memory(errors, limits).or(is_file)
    }

    fn of_memory(errors: &str, limits: &Limits) -> Option<Excess> {
        let (_, rest) = errors.rsplit_once("memory allocation of ")?;
        let (bytes, _) = rest.split_once(" bytes failed")?;
        Some(Excess::Memory { most: limits.memory, asked: bytes.parse().ok() })
    }
}

/// Failure of a child.
pub(crate) enum Failure {
    Excess(Excess),
    Other(Problem),
}

impl Failure {
    fn internal(error: &dyn fmt::Display) -> Failure {
        Failure::Other(Problem::internal(&format!("work: {error}")))
    }
}

/// Limits what a process takes of the machine.
pub(crate) fn limit(pid: Pid, limits: &Limits) {
    let most = |value| Rlimit { current: Some(value), maximum: Some(value) };
    let set = |resource, limit| {
        let _ = rustix::process::prlimit(Some(pid), resource, limit);
    };
    set(Resource::Core, most(0));
    set(Resource::Fsize, most(limits.file_size));
    set(Resource::Data, most(limits.memory));
    let hard = limits.processor_s.saturating_add(GRACE_S);
    set(Resource::Cpu, Rlimit { current: Some(limits.processor_s), maximum: Some(hard) });
}

/// Child of this program, before its start.
pub(crate) struct Child<'a> {
    pub(crate) program: &'a Path,
    /// Arguments that make it read a task and write its answer.
    pub(crate) arguments: &'a [&'a str],
    /// Working folder.
    pub(crate) folder: &'a Path,
    pub(crate) limits: Limits,
    /// Set for work in a place for short work, which goes before others.
    pub(crate) is_short: bool,
}

impl Child<'_> {
    fn niceness(&self) -> i32 {
        if self.is_short { SHORT_NICENESS } else { NICENESS }
    }

    /// Returns the command, with little of the server's environment.
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.arguments).current_dir(self.folder).process_group(0).env_clear();
        for name in ["PATH", "LANG"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // A confined process writes to no other folder.
        command.env("TMPDIR", self.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Does a task, and returns its answer.
    ///
    /// The task is written after the limits are set, so that none of it is done without them.
    pub(crate) async fn run<T: DeserializeOwned>(
        &self,
        groups: &Groups,
        task: Vec<u8>,
    ) -> std::result::Result<T, Failure> {
        let (command, groups, limits) = (self.command(), groups.clone(), self.limits);
        let niceness = self.niceness();
        // Threads that serve requests do not wait until it runs.
        let spawned = tokio::task::spawn_blocking(move || spawn(command, &groups, (&limits, niceness))).await;
        let spawned = spawned.map_err(|error| Failure::internal(&error))?;
        let (mut child, group) = spawned.map_err(|error| Failure::internal(&error))?;
        let (mut input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let written = async move {
            if let Some(input) = &mut input {
                // A child that ended before it read all is seen by its status.
                let _ = input.write_all(&task).await;
            }
            drop((input, task));
            read(output, MAX_ANSWER + 1).await
        };
        let ended = async {
            let (answer, errors) = tokio::join!(written, read(errors, MAX_ERRORS));
            let is_long = answer.len() as u64 > MAX_ANSWER;
            if is_long {
                let _ = child.start_kill();
            }
            child.wait().await.map(|status| (status, answer, errors, is_long))
        };
        // However little processor time it took.
        let most_s = self.limits.real_s;
        let Ok(ended) = tokio::time::timeout(Duration::from_secs(most_s), ended).await else {
            return Err(Failure::Excess(Excess::Time { most_s }));
        };
        let (status, answer, errors, is_long) = ended.map_err(|error| Failure::internal(&error))?;
        if is_long {
            return Err(Failure::Excess(Excess::Answer));
        }
        let is_out = group.is_some_and(|group| group.is_out_of_memory());
        outcome(status, (&answer, &errors), (&self.limits, is_out))
    }

    /// Does a task as [`Child::run`], and waits for its end. It is for threads that may block.
    pub(crate) fn run_to_end<T: DeserializeOwned>(&self, task: &[u8]) -> std::result::Result<T, Failure> {
        let ended = || -> io::Result<std::process::Output> {
            let mut child = self.command().spawn()?;
            if let Some(pid) = pid_of(Some(child.id())) {
                limit(pid, &self.limits);
                let _ = rustix::process::setpriority_process(Some(pid), self.niceness());
            }
            if let Some(mut input) = child.stdin.take() {
                let _ = input.write_all(task);
            }
            child.wait_with_output()
        };
        let output = ended().map_err(|error| Failure::internal(&error))?;
        outcome(output.status, (&output.stdout, &output.stderr), (&self.limits, false))
    }
}

/// Starts a child with limits. It ends with the result.
fn spawn(
    command: Command,
    groups: &Groups,
    (limits, niceness): (&Limits, i32),
) -> io::Result<(tokio::process::Child, Option<Group>)> {
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let Some(pid) = pid_of(child.id()) else { return Ok((child, None)) };
    let group = groups.enclose(WORK, pid, limits);
    limit(pid, limits);
    let _ = rustix::process::setpriority_process(Some(pid), niceness);
    Ok((child, group))
}

fn pid_of(id: Option<u32>) -> Option<Pid> {
    id.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw)
}

async fn read(pipe: Option<impl tokio::io::AsyncRead + Unpin>, most: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let _ = pipe.take(most).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Returns the answer of a child that ended, or what ended it.
fn outcome<T: DeserializeOwned>(
    status: ExitStatus,
    (answer, errors): (&[u8], &[u8]),
    (limits, is_out): (&Limits, bool),
) -> std::result::Result<T, Failure> {
    let errors = String::from_utf8_lossy(errors);
    if status.success() {
        let answer: Result<T> = serde_json::from_slice(answer).map_err(|error| Failure::internal(&error))?;
        // The reason of a failure is for the server's log alone.
        if answer.as_ref().is_err_and(|problem| problem.code().is_server_error()) {
            if let Some(excess) = Excess::of_errors(&errors, limits) {
                return Err(Failure::Excess(excess));
            }
            crate::log::often(&format!("error: work: {}", errors.trim()));
        }
        return answer.map_err(Failure::Other);
    }
    match Excess::of(status, &errors, limits, is_out) {
        Some(excess) => Err(Failure::Excess(excess)),
        None => Err(Failure::internal(&format!("{status}: {}", errors.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { memory: 500_000_000, processor_s: 7, real_s: 8, file_size: 5_000_000_000, processes: 9 };

    fn of_signal(signal: Signal, errors: &str) -> Option<String> {
        let status = ExitStatus::from_raw(signal.as_raw());
        Excess::of(status, errors, &LIMITS, false).map(|excess| excess.to_string())
    }

    #[test]
    fn a_user_is_told_the_limit_and_the_excess() {
        let asked = "memory allocation of 3200000000 bytes failed\n";
        for (signal, errors, words) in [
            (Signal::XCPU, "", "it needs more than 7 s of processor time"),
            (Signal::XFSZ, "", "it writes a file of more than 5 GB"),
            (
                Signal::TERM,
                "error: x.pcap: File too large (os error 27)\n",
                "it writes a file of more than 5 GB",
            ),
            (
                Signal::ABORT,
                asked,
                "it needs more than 500 MB of memory: it asked for 3.2 GB on top of what it had",
            ),
        ] {
            assert_eq!(of_signal(signal, errors).as_deref(), Some(words));
        }
        assert_eq!(of_signal(Signal::SEGV, ""), None);
        let killed = Excess::of(ExitStatus::from_raw(9), "", &LIMITS, true);
        assert_eq!(killed, Some(Excess::Memory { most: 500_000_000, asked: None }));
    }
}
