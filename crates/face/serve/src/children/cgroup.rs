//! Control groups of children (cgroup v2), where the server may make some.
//!
//! A service manager delegates a group to the server and starts it in a group below, as systemd does with `Delegate=` and
//! `DelegateSubgroup=`. Groups of children are next to that of the server: a group with controllers has no processes of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::limits::Limits;
use crate::clock::secret;

/// Mount point of the hierarchy.
const ROOT: &str = "/sys/fs/cgroup";
/// Controllers that limits need.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// Beginnings of the names of groups: of work on requests, and of jobs.
pub(crate) const WORK: &str = "work-";
pub(crate) const JOB: &str = "job-";

/// Place of the groups of children, where the server may make some.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups(Option<PathBuf>);

/// Group of a child. It is removed with it, once the child has ended.
#[derive(Debug)]
pub(crate) struct Group(PathBuf);

impl Groups {
    /// Finds out where the server may make groups.
    ///
    /// # Errors
    /// Returns the reason why it may not.
    pub(crate) fn find() -> Result<Groups, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        Groups::next_to(&Path::new(ROOT).join(own))
    }

    /// Removes groups that an earlier server left.
    pub(crate) fn swept(self) -> Groups {
        self.0.iter().for_each(|above| sweep(above));
        self
    }

    /// Prepares groups next to the one of the server.
    fn next_to(own: &Path) -> Result<Groups, String> {
        let above = own.parent().filter(|above| above.starts_with(ROOT) || cfg!(test));
        let above = above.ok_or_else(|| "the server is in no control group of its own".to_owned())?;
        let read = |name: &str| fs::read_to_string(above.join(name)).unwrap_or_default();
        let known = read("cgroup.controllers");
        let has =
            |text: &str| CONTROLLERS.iter().all(|name| text.split_whitespace().any(|word| word == *name));
        if !has(&known) {
            return Err(
                "the control group of the server has no controllers of memory and processes (cgroup v2)"
                    .to_owned(),
            );
        }
        if !read("cgroup.procs").trim().is_empty() {
            return Err(
                "the server is in no subgroup of a delegated control group (`DelegateSubgroup=`)".to_owned()
            );
        }
        let asked = CONTROLLERS.map(|name| format!("+{name}")).join(" ");
        if !has(&read("cgroup.subtree_control")) {
            let set = fs::write(above.join("cgroup.subtree_control"), asked);
            set.map_err(|error| format!("its control group is not delegated: {error}"))?;
        }
        Ok(Groups(Some(above.to_owned())))
    }

    /// Moves a process into a new group with limits.
    ///
    /// Without groups the process has its own limits alone.
    pub(crate) fn enclose(&self, name: &str, pid: Pid, limits: &Limits) -> Option<Group> {
        let folder = self.0.as_ref()?.join(format!("{name}{}", &secret()[..12]));
        let made = || -> io::Result<()> {
            fs::create_dir(&folder)?;
            let set = |name: &str, value: &str| fs::write(folder.join(name), value);
            set("memory.max", &limits.memory.to_string())?;
            // Swap would hide an excess, and slow down the machine.
            let _ = set("memory.swap.max", "0");
            let _ = set("memory.oom.group", "1");
            set("pids.max", &limits.processes.to_string())?;
            set("cgroup.procs", &Pid::as_raw(Some(pid)).to_string())
        };
        let made = made();
        if let Err(error) = &made {
            crate::log::line(&format!("error: {}: {error}", folder.display()));
        }
        made.ok().map(|()| Group(folder))
    }
}

/// Returns the use of control groups by a server started like this process.
///
/// # Errors
/// Returns the reason why it may not make any.
pub fn may_make_groups() -> Result<String, String> {
    Groups::find().map(|_| "one for each request and job".to_owned())
}

/// Removes groups that an earlier server left. Those with processes stay.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = [WORK, JOB].iter().any(|start| name.to_string_lossy().starts_with(start));
        if is_ours {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

impl Group {
    /// Returns `true` if the kernel killed a process of the group for its memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        let events = fs::read_to_string(self.0.join("memory.events")).unwrap_or_default();
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        killed.is_some_and(|count| count.trim() != "0")
    }

    /// Kills the processes that are left, however they were started.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A group with processes stays; those of jobs outlive the server.
        let _ = fs::remove_dir(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a group, as far as they are read.
    fn group(controllers: &str, processes: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("cgroup.controllers"), controllers).expect("written");
        fs::write(folder.path().join("cgroup.procs"), processes).expect("written");
        folder
    }

    #[test]
    fn groups_are_made_next_to_the_servers_where_it_may() {
        let above = group("cpu memory pids\n", "");
        let groups = Groups::next_to(&above.path().join("server")).expect("delegated");
        let asked = fs::read_to_string(above.path().join("cgroup.subtree_control")).expect("set");
        assert_eq!(asked, "+memory +pids");
        let limits = Limits { memory: 1234, processor_s: 1, real_s: 1, file_size: 1, processes: 7 };
        let pid = Pid::from_raw(77).expect("a number");
        let made = groups.enclose(WORK, pid, &limits).expect("made");
        let read = |name: &str| fs::read_to_string(made.0.join(name)).expect("written");
        assert_eq!([read("memory.max"), read("pids.max"), read("cgroup.procs")], ["1234", "7", "77"]);
        assert!(!made.is_out_of_memory());
        made.kill();
        assert_eq!(read("cgroup.kill"), "1");
        fs::write(made.0.join("memory.events"), "oom 1\noom_kill 1\n").expect("written");
        assert!(made.is_out_of_memory());
    }

    #[test]
    fn groups_that_are_not_delegated_are_left_alone() {
        for (controllers, processes, word) in
            [("cpu", "", "controllers"), ("memory pids", "12\n", "DelegateSubgroup")]
        {
            let above = group(controllers, processes);
            let error = Groups::next_to(&above.path().join("server")).expect_err("not delegated");
            assert!(error.contains(word), "{error}");
        }
        let pid = Pid::from_raw(77).expect("a number");
        let limits = Limits { memory: 1, processor_s: 1, real_s: 1, file_size: 1, processes: 1 };
        assert!(Groups::default().enclose(WORK, pid, &limits).is_none());
    }
}
