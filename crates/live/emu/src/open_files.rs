//! Limit of open files (RLIMIT_NOFILE), and connections within it.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns the number of connections that the limit allows, at most `most`.
///
/// Each takes `each` descriptors, and the process has `others`. The limit is raised for them as far as the process may: that of a shell,
/// 1024, is there for programs that use select(2).
pub fn allow(most: usize, each: u64, others: u64) -> usize {
    let limit = raise(most as u64 * each + others);
    most.min((limit.saturating_sub(others) / each) as usize)
}

/// Raises the limit to `wanted` unless it is higher, and returns it.
fn raise(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= wanted);
    if is_enough(limit.current) {
        return wanted;
    }
    let maximum = if is_enough(limit.maximum) { limit.maximum } else { Some(wanted) };
    // Above the hard limit it needs CAP_SYS_RESOURCE.
    let tries = [Rlimit { current: Some(wanted), maximum }, Rlimit { current: limit.maximum, ..limit }];
    let _ = tries.into_iter().find(|limit| setrlimit(Resource::Nofile, *limit).is_ok());
    getrlimit(Resource::Nofile).current.unwrap_or(wanted)
}

/// Returns `true` if a descriptor was refused, as too many are in use.
pub fn is_exhausted(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| code == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    /// Runs in a process of its own, which has the limit.
    #[test]
    fn connections_keep_to_a_hard_limit_and_raise_a_soft_one() {
        const LIMITS: &str = "BENTPIPE_LIMITS_OF_FILES";
        if let Ok(limits) = std::env::var(LIMITS) {
            let is_root = rustix::process::geteuid().is_root();
            let allowed = allow(1000, 2, 100);
            match limits.as_str() {
                "soft" => assert_eq!(allowed, 1000),
                // One that may raise it has all.
                _ => assert!(allowed == 150 || is_root && allowed == 1000, "{allowed}"),
            }
            assert_eq!(allow(10, 2, 100), 10);
            return;
        }
        if !bentpipe_testkit::may_open(400) {
            return;
        }
        let own = std::env::current_exe().expect("a program");
        let name = "open_files::tests::connections_keep_to_a_hard_limit_and_raise_a_soft_one";
        for (limits, command) in [("soft", "ulimit -Sn 400"), ("hard", "ulimit -n 400")] {
            let limited = format!("{command}; exec \"$0\" \"$1\" --exact");
            let output = std::process::Command::new("bash")
                .args([OsStr::new("-c"), limited.as_ref(), own.as_os_str(), name.as_ref()])
                .env(LIMITS, limits)
                .output();
            let output = output.expect("bash runs");
            assert!(output.status.success(), "{limits}: {output:?}");
        }
    }

    #[test]
    fn a_refused_descriptor_is_not_any_error() {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert!(is_exhausted(&error(Errno::MFILE)) && is_exhausted(&error(Errno::NFILE)));
        assert!(!is_exhausted(&error(Errno::AGAIN)));
    }
}
