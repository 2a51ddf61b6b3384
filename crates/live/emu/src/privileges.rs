//! Loss of privileges: user, capabilities, files and system calls that a process keeps.
//!
//! A process confines itself once it has opened what it needs root for. What an attacker of its decoders then gets is a user
//! without files, capabilities or system calls that the process itself does not use.
//!
//! References: capabilities(7), prctl(2) `PR_SET_NO_NEW_PRIVS`, landlock(7), seccomp(2).

mod calls;
mod files;

use std::fmt;
use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};

pub use calls::Calls;
pub use files::{Files, has_landlock};

/// Account that a process changes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name, or the number in decimal.
    pub name: String,
    /// User identifier.
    pub uid: u32,
    /// Group identifier.
    pub gid: u32,
}

/// Number of the user without files, the kernel's `overflowuid`.
pub const OVERFLOW_USER: &str = "65534";

impl User {
    /// Finds a user by name or number in `/etc/passwd`. A number need not be listed; its group then has the same number.
    ///
    /// # Errors
    /// Returns an error if the user is unknown or root.
    pub fn find(name: &str) -> io::Result<User> {
        let list = std::fs::read("/etc/passwd").unwrap_or_default();
        let user = find(&String::from_utf8_lossy(&list), name);
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let user = user.ok_or_else(|| wrong(format!("unknown user \"{name}\"")))?;
        match user.uid {
            0 => Err(wrong(format!("user \"{name}\" is root: expected one without privileges"))),
            _ => Ok(user),
        }
    }
}

fn find(list: &str, name: &str) -> Option<User> {
    let number: Option<u32> = name.parse().ok().filter(|number| *number != u32::MAX);
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let (called, uid, gid) = (fields.next()?, fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        (called == name || Some(uid) == number).then(|| User { name: called.to_owned(), uid, gid })
    };
    let listed = list.lines().find_map(of_line);
    listed.or_else(|| number.map(|id| User { name: name.to_owned(), uid: id, gid: id }))
}

/// Privileges that a process keeps.
#[derive(Clone, Debug)]
pub struct Confinement {
    /// User to change to; `None` keeps the present one.
    pub user: Option<User>,
    /// Capabilities that stay permitted and effective, for programs that it starts too.
    pub capabilities: CapabilitySet,
    /// Files that can be opened; `None` leaves that to the owner and mode of each.
    pub files: Option<Files>,
    /// System calls that can be made.
    pub calls: Calls,
}

/// Privileges that are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confined {
    user: Option<User>,
    capabilities: CapabilitySet,
    has_files: bool,
    is_landlocked: bool,
    calls: Option<usize>,
    has_programs: bool,
}

impl Confinement {
    /// Drops the other privileges, for good. The process must have one thread; later threads inherit the rest.
    ///
    /// # Errors
    /// Returns an error if there are other threads, or the kernel refuses. Some privileges may be gone already.
    pub fn apply(&self) -> io::Result<Confined> {
        require_one_thread()?;
        bound_capabilities(self.capabilities)?;
        if let Some(user) = &self.user {
            change_user(user, self.capabilities)?;
        }
        limit_capabilities(self.capabilities)?;
        if self.user.is_some() {
            hand_on(self.capabilities)?;
        }
        thread::set_no_new_privs(true)?;
        let is_landlocked = self.files.as_ref().map_or(Ok(false), Files::restrict)?;
        let calls = self.calls.restrict()?;
        Ok(Confined {
            user: self.user.clone(),
            capabilities: self.capabilities,
            has_files: self.files.is_some(),
            is_landlocked,
            calls,
            has_programs: self.calls == Calls::OfPrograms,
        })
    }
}

/// Returns `true` if this process is root's.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns `true` if this process has capabilities.
pub fn has_capabilities(capabilities: CapabilitySet) -> bool {
    thread::capabilities(None).is_ok_and(|own| own.effective.contains(capabilities))
}

/// Returns an error if other threads run: credentials are those of each thread.
pub(crate) fn require_one_thread() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    match threads {
        1 => Ok(()),
        _ => Err(io::Error::other(format!("{threads} threads run: expected one, before any other starts"))),
    }
}

fn change_user(user: &User, kept: CapabilitySet) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    thread::set_keep_capabilities(!kept.is_empty())?;
    thread::set_thread_groups(&[])?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    Ok(thread::set_thread_res_uid(uid, uid, uid)?)
}

/// Removes the other capabilities from the bounding set, if that is allowed. Programs then never get them.
fn bound_capabilities(kept: CapabilitySet) -> io::Result<()> {
    if !thread::capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for capability in CapabilitySet::all().difference(kept).iter() {
        // A kernel may not have the latest ones.
        let _ = thread::remove_capability_from_bounding_set(capability);
    }
    Ok(())
}

/// Removes the other capabilities from the permitted, effective and inheritable sets.
fn limit_capabilities(kept: CapabilitySet) -> io::Result<()> {
    let kept = kept & thread::capabilities(None)?.permitted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    Ok(thread::set_capabilities(None, sets)?)
}

/// Adds the capabilities that are left to the ambient set.
///
/// Programs that the process starts have them. Those of root get them anyway.
fn hand_on(kept: CapabilitySet) -> io::Result<()> {
    let kept = kept & thread::capabilities(None)?.permitted;
    kept.iter().try_for_each(|one| Ok(thread::configure_capability_in_ambient_set(one, true)?))
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(f, "user {} ({})", user.name, user.uid)?,
            None => f.write_str("same user")?,
        }
        match self.capabilities.is_empty() {
            true => f.write_str(", no capabilities, no new privileges")?,
            false => write!(f, ", capabilities {:?}, no new privileges", self.capabilities)?,
        }
        f.write_str(match (self.has_files, self.is_landlocked) {
            (_, true) => ", files and TCP limited by Landlock",
            (true, false) => ", files not limited (this kernel has no Landlock)",
            (false, false) => ", files not limited",
        })?;
        match (self.calls, self.has_programs) {
            (Some(count), false) => write!(f, ", {count} system calls allowed by seccomp"),
            (Some(count), true) => write!(f, ", {count} system calls refused by seccomp"),
            (None, _) => f.write_str(", system calls not limited (no filter for this processor)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "root:x:0:0:root:/root:/bin/bash\nbroken:x:1\nnobody:x:65534:65533:nobody:/:/sbin/nologin\nsat:x:998:997::/:/bin/sh\n";

    #[test]
    fn users_are_found_by_name_and_number() {
        let user = |name: &str, uid, gid| Some(User { name: name.to_owned(), uid, gid });
        assert_eq!(find(LIST, "nobody"), user("nobody", 65_534, 65_533));
        assert_eq!(find(LIST, "998"), user("sat", 998, 997));
        assert_eq!(find(LIST, "4711"), user("4711", 4711, 4711));
        assert_eq!(find(LIST, OVERFLOW_USER), user("nobody", 65_534, 65_533));
        assert_eq!(find("", OVERFLOW_USER), user("65534", 65_534, 65_534));
        for name in ["broken", "sa", "", "4294967295", "-1"] {
            assert_eq!(find(LIST, name), None, "{name}");
        }
        assert!(User::find("0").is_err_and(|error| error.to_string().contains("is root")));
        assert!(User::find("no such user").is_err_and(|error| error.to_string().contains("unknown user")));
    }

    #[test]
    fn a_process_with_other_threads_is_refused() {
        // The test harness runs each test in a thread.
        let confinement = Confinement {
            user: None,
            capabilities: CapabilitySet::empty(),
            files: None,
            calls: Calls::OfPackets,
        };
        let error = confinement.apply().expect_err("threads run");
        assert!(error.to_string().contains("expected one"), "{error}");
    }
}
