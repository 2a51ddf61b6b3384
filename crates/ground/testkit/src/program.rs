//! Programs under test.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Runs a program in a folder, without colours and without input.
///
/// # Panics
/// If it does not start.
pub fn run<I: AsRef<OsStr>>(program: &str, folder: impl AsRef<Path>, arguments: &[I]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").stdin(Stdio::null());
    command.output().unwrap_or_else(|error| panic!("{program} does not start: {error}"))
}

/// Returns what a program printed, standard output first.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Returns what a program printed.
///
/// # Panics
/// If it ended with another exit code than `code`.
#[track_caller]
pub fn said(output: &Output, code: i32) -> String {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    text
}

/// Runs a command and returns its output.
///
/// # Panics
/// If it does not start or fails.
#[track_caller]
pub fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    output
}

/// Program that runs until it is ended, and ends with the value.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Creates the guard of a child.
    pub fn new(child: Child) -> Process {
        Process(child)
    }

    /// Starts a command.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(command: &mut Command) -> Process {
        Process(command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}")))
    }

    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Returns `true` while it runs.
    ///
    /// # Panics
    /// If the system does not know it.
    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("it is a child").is_none()
    }

    /// Sends a signal, as `kill` names it: "-INT".
    ///
    /// # Panics
    /// If it cannot be sent.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.id().to_string()]).status();
        assert!(sent.expect("kill starts").success(), "signal {signal}");
    }

    /// Ends it as Ctrl-C does, and returns its exit code and standard error.
    ///
    /// # Panics
    /// As [`Process::finish`].
    pub fn end(&mut self) -> (Option<i32>, String) {
        self.signal("-INT");
        self.finish()
    }

    /// Kills it if a signal has not ended it after some seconds. It may ignore SIGINT, as programs do that a shell starts in its background.
    fn end_by_force(&mut self) {
        for _ in 0..1000 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Waits for its end and returns its exit code, with standard error if piped.
    ///
    /// # Panics
    /// If it has not ended after a minute.
    #[track_caller]
    pub fn finish(&mut self) -> (Option<i32>, String) {
        let event = format!("end of process {}", self.id());
        super::until(&event, || !self.is_running());
        let code = self.0.wait().expect("it has ended").code();
        let mut errors = String::new();
        if let Some(mut pipe) = self.0.stderr.take() {
            let _ = pipe.read_to_string(&mut errors);
        }
        (code, errors)
    }
}

impl std::ops::Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A test that failed must not leave it behind.
        if let Ok(None) = self.0.try_wait() {
            let _ = Command::new("kill").args(["-INT", &self.id().to_string()]).status();
            self.end_by_force();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_by_a_signal_and_with_its_value() {
        // A runner in the background of a shell ignores SIGINT, which would be inherited.
        let mut command = Command::new("env");
        let mut sleeper = Process::start(command.args(["--default-signal=INT", "sleep", "60"]));
        assert!(sleeper.is_running());
        assert_eq!(sleeper.end(), (None, String::new()));
        let id = Process::start(command.arg("60")).id();
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn output_is_text_with_a_code() {
        let output = run("sh", ".", &["-c", "echo out; echo err >&2; exit 3"]);
        assert_eq!(said(&output, 3), "out\nerr\n");
    }
}
