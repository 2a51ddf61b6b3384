//! Programs inside a network namespace.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Number of checks before programs asked to terminate are killed. It is also the number until they are gone.
const MAX_CHECKS: u32 = 20;

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Identity of a namespace: device and inode of its file. `/proc/PID/ns/net` of every program inside has the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    /// Returns the identity of the namespace that a file stands for.
    pub(crate) fn of_file(path: &Path) -> Option<Identity> {
        fs::metadata(path).ok().map(|file| Identity(file.dev(), file.ino()))
    }

    /// Returns the identity of a namespace that is open. No other namespace gets it as long as it is.
    pub(crate) fn of_open(file: &File) -> Option<Identity> {
        file.metadata().ok().map(|file| Identity(file.dev(), file.ino()))
    }
}

/// Terminates all programs inside a namespace: SIGTERM and SIGHUP, and SIGKILL after a second.
///
/// Shells ignore SIGTERM when they are interactive, and end at SIGHUP as when their terminal closes.
pub(crate) fn end_all(namespace: &Identity) {
    let _ = ends_by(namespace, &[Signal::TERM, Signal::HUP]) || ends_by(namespace, &[Signal::KILL]);
}

/// Returns `true` if all programs inside end within a second of these signals.
fn ends_by(namespace: &Identity, signals: &[Signal]) -> bool {
    let mut asked: Vec<Pid> = Vec::new();
    for _ in 0..MAX_CHECKS {
        let inside = inside(namespace);
        if inside.is_empty() {
            return true;
        }
        // A program that was started meanwhile is asked as well.
        let new: Vec<Pid> = inside.into_iter().filter(|pid| !asked.contains(pid)).collect();
        for pid in &new {
            for signal in signals {
                // A program that has just ended needs no signal.
                let _ = kill_process(*pid, *signal);
            }
        }
        asked.extend(new);
        std::thread::sleep(CHECK_INTERVAL);
    }
    false
}

/// Returns the programs inside a namespace, without this one.
fn inside(namespace: &Identity) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let others = numbers.filter_map(Pid::from_raw).filter(|pid| *pid != rustix::process::getpid());
    let is_inside = |pid: &Pid| {
        let file = format!("/proc/{}/ns/net", pid.as_raw_nonzero());
        Identity::of_file(Path::new(&file)).as_ref() == Some(namespace)
    };
    others.filter(is_inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// Starts a program in a network namespace of its own, and returns it with the namespace's file.
    fn in_new_namespace() -> Option<(Child, File)> {
        let own = Identity::of_file(Path::new("/proc/self/ns/net"));
        let mut child = Command::new("unshare").args(["--net", "sleep", "60"]).spawn().ok()?;
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(10));
            let file = File::open(format!("/proc/{}/ns/net", child.id())).ok()?;
            if Identity::of_open(&file) != own {
                return Some((child, file));
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        None
    }

    fn end((mut child, file): (Child, File)) -> File {
        child.kill().expect("killed");
        child.wait().expect("ended");
        file
    }

    #[test]
    fn programs_of_a_namespace_that_has_gone_are_not_those_of_a_new_one() {
        let Some(first) = in_new_namespace() else {
            assert!(std::env::var_os("CI").is_none(), "no namespaces in CI");
            return;
        };
        let held = end(first);
        let gone = Identity::of_open(&held).expect("an identity");
        // The kernel gives the lowest free number, which would be that of the first one.
        for _ in 0..5 {
            let (mut child, file) = in_new_namespace().expect("a namespace");
            assert_ne!(Identity::of_open(&file), Some(gone));
            end_all(&gone);
            assert!(child.try_wait().expect("a state").is_none(), "it was ended");
            drop(end((child, file)));
        }
    }
}
