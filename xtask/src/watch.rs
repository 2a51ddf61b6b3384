//! Watch over a running test program: its output, and the end of tests that hang.
//!
//! The harness itself reports a test that has run for a minute. Time alone does not show that it hangs, as a busy machine
//! slows every test: from then on, a program hangs whose processes use next to no processor and wait for none, and in any
//! case one that has run for ten minutes. While it waits for a processor, its minutes are those of the processor.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::processes::{self, Usage};

/// Time between two looks at the processes of a slow test.
const LOOK: Duration = Duration::from_secs(5);
/// Looks in a row without work that show that a test hangs.
const IDLE_LOOKS: u32 = 3;
/// Share of a processor below which processes do no work.
const IDLE: f64 = 0.05;
/// Time after the harness's report when a test ends in any case.
const MOST: Duration = Duration::from_secs(540);
/// Beginnings of the names of tests that wait in real time for longer than a minute: the time alone ends them.
const PATIENT: &[&str] = &["documentation::", "the_package_passes_its_tests"];
/// Words with which the harness reports a test that has run for a minute.
const SLOW: &str = " has been running for over ";

/// End of a test program.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Everything that it printed, and the stacks of tests that hung.
    pub(crate) text: String,
}

/// Runs a test program to its end, and ends it if a test hangs.
///
/// # Errors
/// Returns an error if it does not start.
pub(crate) fn run(command: &mut Command) -> Result<Ended> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("{command:?} does not start"))?;
    let (lines, errors) = (lines(&mut child)?, errors(&mut child)?);
    let mut watch = Watch::new(child.id());
    watch.follow(&lines);
    let status = child.wait()?;
    Ok(Ended { status, text: watch.text + &errors.join().unwrap_or_default() })
}

fn lines(child: &mut Child) -> Result<Receiver<String>> {
    let output = child.stdout.take().context("an output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
        let mut texts = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
        texts.try_for_each(|line| sender.send(line))
    });
    Ok(receiver)
}

fn errors(child: &mut Child) -> Result<JoinHandle<String>> {
    let mut errors = child.stderr.take().context("an output of errors")?;
    Ok(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = errors.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }))
}

/// What is known of a running program.
struct Watch {
    pid: u32,
    text: String,
    /// Tests that have run for a minute, and their time since the harness reported them.
    slow: Vec<(String, Duration)>,
    /// Usage at the last look.
    last: Option<(Instant, Usage)>,
    idle_looks: u32,
}

impl Watch {
    fn new(pid: u32) -> Self {
        Self { pid, text: String::new(), slow: Vec::new(), last: None, idle_looks: 0 }
    }

    /// Reads lines until the program closes its output.
    fn follow(&mut self, lines: &Receiver<String>) {
        loop {
            match lines.recv_timeout(LOOK) {
                Ok(line) => self.read(&line),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn read(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
        self.idle_looks = 0;
        if let Some(name) = slow(line) {
            self.slow.push((name.to_owned(), Duration::ZERO));
        }
        self.slow.retain(|(name, _)| ended(line) != Some(name));
    }

    /// Looks at the processes of slow tests, and ends the program if they hang.
    #[allow(clippy::disallowed_methods, reason = "a share of a processor is over real time")]
    fn look(&mut self) {
        if self.slow.is_empty() {
            return;
        }
        let is_patient = |name: &str| PATIENT.iter().any(|start| name.starts_with(start));
        let may_wait = self.slow.iter().all(|(name, _)| is_patient(name));
        let (now, usage) = (Instant::now(), processes::usage(self.pid));
        let mut is_idle = false;
        if let Some((then, before)) = self.last {
            let (took, used) = (now - then, usage.since(&before));
            is_idle = !may_wait && used / took.as_secs_f64() < IDLE && !usage.waits_for_processor;
            let own = own(took, used, usage.waits_for_processor);
            self.slow.iter_mut().for_each(|(_, time)| *time += own);
        }
        self.idle_looks = if is_idle { self.idle_looks + 1 } else { 0 };
        let is_over = self.slow.first().is_some_and(|(_, time)| *time > MOST);
        self.last = Some((now, usage));
        if is_over || self.idle_looks >= IDLE_LOOKS {
            self.end();
        }
    }

    fn end(&mut self) {
        let names: Vec<&str> = self.slow.iter().map(|(name, _)| name.as_str()).collect();
        self.text += &format!("\nhung: {}\n{}", names.join(", "), processes::stacks(self.pid));
        processes::end(self.pid);
        self.slow.clear();
    }
}

/// Returns the time that counts as a program's own, of a time in which it used so many processor seconds.
///
/// One that waits for a processor has the time that it got: a busy machine takes none of it away.
fn own(took: Duration, used: f64, waits_for_processor: bool) -> Duration {
    if waits_for_processor { took.min(Duration::from_secs_f64(used)) } else { took }
}

/// Returns the test that a line of the harness reports as slow.
fn slow(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.split_once(SLOW).map(|(name, _)| name)
}

/// Returns the test whose result a line of the harness has.
fn ended(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.split_once(" ... ").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_s_lines_are_read() {
        let mut watch = Watch::new(0);
        watch.read("test links::waits has been running for over 60 seconds");
        watch.read("test links::passes ... ok");
        assert_eq!(watch.slow[0].0, "links::waits");
        watch.read("test links::waits ... ok");
        assert!(watch.slow.is_empty() && watch.text.lines().count() == 3);
    }

    #[test]
    fn a_busy_machine_takes_no_time_from_a_test() {
        let took = Duration::from_secs(5);
        assert_eq!(own(took, 0.5, true), Duration::from_millis(500));
        // On two free processors, or asleep, it is the clock's.
        assert_eq!([own(took, 9.9, true), own(took, 0.1, false)], [took; 2]);
    }

    /// A program that prints the harness's line and then sleeps stands for a test that waits for what never comes.
    #[test]
    fn a_program_that_hangs_ends_with_the_test_s_name() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test a::b has been running for over 60 seconds'; sleep 300 & wait"]);
        let ended = run(&mut command).expect("starts");
        assert!(!ended.status.success());
        assert!(ended.text.contains("hung: a::b") && ended.text.contains("sleep 300"), "{}", ended.text);
    }

    #[test]
    fn what_a_program_prints_is_kept() {
        let ended = run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).expect("starts");
        assert_eq!((ended.text.as_str(), ended.status.code()), ("out\nerr\n", Some(3)));
    }
}
