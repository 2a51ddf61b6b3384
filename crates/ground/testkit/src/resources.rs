//! Resources of the machine that a test takes: open files and processor time.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::skip;

/// Returns `true` if this process may have `count` files open.
///
/// The soft limit is raised for that. Shells have soft limits of 1024, some of 256, and tests of many clients open more.
///
/// # Panics
/// In CI, if the hard limit is below.
pub fn may_open(count: u64) -> bool {
    let limit = getrlimit(Resource::Nofile);
    let is_enough = |limit: Option<u64>| limit.is_none_or(|limit| limit >= count);
    if is_enough(limit.current) {
        return true;
    }
    let raised = Rlimit { current: Some(count), maximum: limit.maximum };
    let may = is_enough(limit.maximum) && setrlimit(Resource::Nofile, raised).is_ok();
    if !may {
        let hard = limit.maximum.unwrap_or_default();
        skip(&format!("the hard limit of open files is {hard}, expected at least {count} (`ulimit -Hn`)"));
    }
    may
}

/// Returns the processor time that this thread has had.
///
/// A bound of computing is one of this time: what other programs take of the machine does not count.
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Command;

    use super::*;

    /// Runs in a process of its own, which has the limit.
    #[test]
    fn a_soft_limit_is_raised_and_a_hard_one_skips() {
        const LIMITS: &str = "BENTPIPE_TESTKIT_FILES";
        if let Ok(limits) = std::env::var(LIMITS) {
            let open =
                |count: usize| (0..count).map(|_| File::open("/dev/null")).collect::<Result<Vec<_>, _>>();
            assert!(open(200).is_err());
            assert_eq!(may_open(300), limits == "soft");
            assert_eq!(open(200).is_ok(), limits == "soft");
            return;
        }
        let own = std::env::current_exe().expect("a program");
        let name = "resources::tests::a_soft_limit_is_raised_and_a_hard_one_skips";
        for (limits, command) in [("soft", "ulimit -Sn 100"), ("hard", "ulimit -n 100")] {
            let mut limited = Command::new("bash");
            limited.arg("-c").arg(format!("{command}; exec \"$0\" \"$1\" --exact")).arg(&own).arg(name);
            let output = limited.env(LIMITS, limits).env_remove("CI").output().expect("bash runs");
            assert!(output.status.success(), "{limits}: {output:?}");
        }
    }

    #[test]
    fn a_thread_that_sleeps_has_no_processor_time() {
        let start = processor_time();
        std::thread::sleep(Duration::from_millis(20));
        let asleep = processor_time() - start;
        assert!(asleep < Duration::from_millis(20), "{asleep:?}");
        while processor_time() - start < asleep + Duration::from_millis(5) {}
    }
}
