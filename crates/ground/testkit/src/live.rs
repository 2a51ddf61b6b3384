//! Live tests, which need root and tools.
//!
//! Each has a network, mounts and `/run` of its own.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::thread::UnshareFlags;

use crate::Process;

static TURN: Mutex<()> = Mutex::new(());

thread_local! {
    /// Set once this thread has a place of its own.
    static IS_APART: Cell<bool> = const { Cell::new(false) };
}

/// Turn of a live test: one runs at a time, as they measure real time.
pub type Turn = MutexGuard<'static, ()>;

/// Waits for a live test's turn, and moves its thread to a new place.
///
/// The place is as of [`go_apart`].
///
/// Returns `None`, with a message, where tools are missing or namespaces cannot be made.
///
/// # Panics
/// In CI, where no test may be skipped.
pub fn able_live(tools: &[&str]) -> Option<Turn> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (tools.iter().all(|tool| super::has(tool)) && move_apart()).then_some(turn)
}

/// Returns `true` if the calling thread has a network, mounts and `/run` of its own.
///
/// The first call moves it there: into a network with a loopback alone, and mounts with an empty `/run`.
/// All that the thread starts from there on is in the same place: programs, threads, sockets, and the namespaces that `ip netns`
/// makes. No other test sees them, and this one sees no other's, so its ports and names are free. The place ends with the last of them.
///
/// Where that is not allowed there is a message.
///
/// # Panics
/// In CI, where no test may be skipped.
pub fn go_apart() -> bool {
    IS_APART.get() || move_apart()
}

fn move_apart() -> bool {
    let moved = require_mounted_root().and_then(|()| leave()).and_then(|()| furnish());
    IS_APART.set(moved.is_ok());
    moved.inspect_err(|why| super::skip(why)).is_ok()
}

#[expect(deprecated, reason = "its successor is unsafe for the sake of tables of files, which stay shared")]
fn leave() -> Result<(), String> {
    let flags = UnshareFlags::NEWNET | UnshareFlags::NEWNS;
    rustix::thread::unshare(flags)
        .map_err(|error| format!("namespaces of networks and mounts need root: {error}"))
}

/// Commands that make a new place usable.
const FURNISH: &str = "mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip link set lo up";

fn furnish() -> Result<(), String> {
    let output = Command::new("sh").args(["-c", FURNISH]).output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(format!("`{FURNISH}`: {}", super::text(&output))) }
}

/// Returns an error in a chroot whose root is a plain folder.
///
/// The kernel changes the propagation of mount points alone.
fn require_mounted_root() -> Result<(), String> {
    let mounts =
        std::fs::read_to_string("/proc/self/mountinfo").map_err(|error| format!("/proc: {error}"))?;
    match mounts.lines().any(|line| line.split(' ').nth(4) == Some("/")) {
        true => Ok(()),
        false => Err("the root folder is not a mount point, so mounts cannot be private; help: \
                      `mount --bind FOLDER FOLDER` before `chroot FOLDER`, or use `cargo xtask test`"
            .to_owned()),
    }
}

/// Place as of [`go_apart`] for programs alone.
///
/// They are started by [`Apart::command`]; the calling thread stays where it is.
/// It ends with the value, and with it the namespaces that were made inside.
#[derive(Debug)]
pub struct Apart(Process);

impl Apart {
    /// Creates a place. Returns `None`, with a message, where that is not allowed.
    ///
    /// # Panics
    /// In CI, where no test may be skipped.
    pub fn make() -> Option<Apart> {
        let made = require_mounted_root().and_then(|()| Apart::hold());
        made.inspect_err(|why| super::skip(why)).ok()
    }

    fn hold() -> Result<Apart, String> {
        let script = format!("{FURNISH} && echo made && exec sleep infinity");
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount", "sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let mut holder = Process::new(child);
        let mut line = String::new();
        let output = holder.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).map_err(|error| error.to_string())?;
        if line == "made\n" { Ok(Apart(holder)) } else { Err(format!("unshare: {}", holder.finish().1)) }
    }

    /// Returns a command that runs a program inside, in a folder.
    pub fn command(&self, program: &str, folder: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.0.id().to_string(), "--net", "--mount"]);
        command.arg(format!("--wdns={}", folder.as_ref().display())).args(["--", program]);
        command
    }
}

/// Runs `ip` with words separated by spaces.
///
/// # Panics
/// If it fails.
#[track_caller]
pub fn ip(words: &str) {
    super::succeed(Command::new("ip").args(words.split(' ')));
}

/// Returns the names of all network namespaces that the calling thread sees.
pub fn namespaces() -> Vec<String> {
    let output = Command::new("ip").args(["netns", "list"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Barrier;

    use super::*;

    /// A namespace's name and a port are taken in one place, and free in another.
    #[test]
    fn threads_that_are_apart_do_not_meet() {
        if !super::super::has("ip") {
            return;
        }
        let both = Barrier::new(2);
        let visit = || {
            let is_apart = go_apart();
            both.wait();
            if !is_apart {
                return;
            }
            assert_eq!(namespaces(), [""; 0]);
            let _listener = TcpListener::bind("127.0.0.1:9").expect("no other test is here");
            ip("netns add same");
            assert_eq!(namespaces(), ["same"]);
            // A thread and a program that it starts are where it is, also after another call.
            assert!(go_apart());
            let is_taken = || TcpListener::bind("127.0.0.1:9").is_err();
            assert!(std::thread::scope(|scope| scope.spawn(is_taken).join().expect("no panic")));
            super::super::succeed(Command::new("test").args(["-e", "/run/netns/same"]));
            both.wait();
        };
        std::thread::scope(|scope| {
            scope.spawn(visit);
            scope.spawn(visit);
        });
    }
}
