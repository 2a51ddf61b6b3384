//! Control groups of the programs inside emulations (cgroup v2), where they can be made.
//!
//! A program may leave the network namespace of its host by `unshare` or `ip netns exec`, and its session by `setsid`. It stays
//! in its control group, which ends as a whole. A group is below that of the emulation, so that limits of that hold.
//!
//! *Does not model* programs that another service starts on request: `systemd-run`, or a container's.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Folder with the places of groups, for a process that cleans up.
const FOLDER: &str = "/run/bentpipe";
/// End of the names of those files.
const END: &str = ".group";
/// Number of checks before programs asked to terminate are killed. It is also the number until they are gone.
const MAX_CHECKS: u32 = 20;
/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Group of the programs at a host. It goes with the value, and all programs inside.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
    record: PathBuf,
}

impl Group {
    /// Creates a group. `None` where none can be made.
    pub(crate) fn create(name: &str) -> Option<Group> {
        let folder = place()?.join(name);
        let record = record(name);
        fs::create_dir_all(FOLDER).ok()?;
        fs::write(&record, folder.to_str()?).ok()?;
        let group = Group { folder, record };
        fs::create_dir(&group.folder).ok()?;
        group.folder.join("cgroup.kill").exists().then_some(group)
    }

    /// Starts a command's program in the group. Where that is not possible it starts all the same.
    pub(crate) fn enclose(&self, command: &mut Command) {
        let Ok(processes) = File::options().write(true).open(self.folder.join("cgroup.procs")) else {
            return;
        };
        let enter = move || {
            let _ = (&processes).write_all(b"0");
            Ok(())
        };
        // SAFETY: writing to a file that is open takes no lock and no memory.
        unsafe { command.pre_exec(enter) };
    }

    /// Terminates all programs inside: SIGTERM and SIGHUP, and SIGKILL after a second. Then it removes the group.
    fn end(&self) {
        self.signal(&[Signal::TERM, Signal::HUP]);
        if !self.is_empty_soon() {
            let _ = fs::write(self.folder.join("cgroup.kill"), "1");
            self.is_empty_soon();
        }
        remove(&self.folder);
        if !self.folder.exists() {
            let _ = fs::remove_file(&self.record);
        }
    }

    fn signal(&self, signals: &[Signal]) {
        let processes = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        for pid in processes.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
            for signal in signals {
                // A program that has just ended needs no signal.
                let _ = kill_process(pid, *signal);
            }
        }
    }

    /// Returns `true` once no program is inside, or in a group below.
    fn is_empty_soon(&self) -> bool {
        for _ in 0..MAX_CHECKS {
            let events = fs::read_to_string(self.folder.join("cgroup.events")).unwrap_or_default();
            if !events.lines().any(|line| line == "populated 1") {
                return true;
            }
            std::thread::sleep(CHECK_INTERVAL);
        }
        false
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Moves this process into the group of an emulation's host, if there is one.
pub fn enter_group(name: &str) {
    if let Some(folder) = recorded(name) {
        let _ = fs::write(folder.join("cgroup.procs"), "0");
    }
}

/// Ends the groups whose names are meant, of emulations that could not do so.
pub(crate) fn end_if(is_meant: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(END).filter(|name| is_meant(name)) else { continue };
        match recorded(name) {
            Some(folder) => drop(Group { folder, record: record(name) }),
            None => _ = fs::remove_file(entry.path()),
        }
    }
}

fn record(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{name}{END}"))
}

/// Returns the folder of a group that was made.
fn recorded(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(fs::read_to_string(record(name)).ok()?);
    let is_group =
        folder.file_name().is_some_and(|last| last == name) && folder.join("cgroup.procs").exists();
    is_group.then_some(folder)
}

/// Removes a group and those that programs inside have made below it.
fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    // One with processes stays.
    let _ = fs::remove_dir(folder);
}

/// Returns the folder of this process's own group.
fn place() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    Some(Path::new(&mount_point(&mounts)?).join(own(&groups)?))
}

/// Returns the mount point of the hierarchy of cgroup v2 (proc(5)). Of one that shows a part of it no use is made.
fn mount_point(mounts: &str) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (after.starts_with("cgroup2 ") && root == "/").then(|| point.to_owned())
    })
}

/// Returns the group of a process in the hierarchy of cgroup v2.
fn own(groups: &str) -> Option<&str> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // A group outside of the part that this process sees has such a path.
    (!own.split('/').any(|part| part == "..")).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_alone_and_next_to_older_ones() {
        let alone = "25 30 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let older = "41 40 0:30 / /sys/fs/cgroup/cpu rw shared:3 - cgroup cgroup rw,cpu\n";
        let hybrid = "42 40 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let part = "43 40 0:31 /a /mnt rw - cgroup2 cgroup2 rw\n";
        assert_eq!(mount_point(alone).as_deref(), Some("/sys/fs/cgroup"));
        assert_eq!(mount_point(&[older, part, hybrid].concat()).as_deref(), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mount_point(older), None);
        assert_eq!(own("4:memory:/x\n0::/user.slice/a.scope\n"), Some("user.slice/a.scope"));
        assert_eq!((own("0::/\n"), own("0::/../b\n"), own("4:memory:/x\n")), (Some(""), None, None));
    }
}
