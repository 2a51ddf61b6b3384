//! Real-time scheduling of the calling thread: timer slack, priority and CPU time.

use std::io;
use std::num::NonZeroU64;

use bentpipe_units::{Span, Time};
use rustix::time::{ClockId, clock_gettime};

/// Sets the calling thread's timer slack to the minimum, one nanosecond. Linux delays timers by up to 50 µs by default, to
/// save wake-ups (prctl(2), `PR_SET_TIMERSLACK`).
pub fn set_min_timer_slack() {
    // It cannot fail for this option, and a thread with slack still works.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Requests real-time priority (`SCHED_FIFO`, sched(7)) for the calling thread. A busy machine then does not delay it.
///
/// # Errors
/// Returns an error if the process may not: it lacks `CAP_SYS_NICE`, or its `RLIMIT_RTPRIO` is zero.
pub fn request_realtime_priority() -> io::Result<()> {
    // Threads and programs that it starts have the usual priority.
    set_scheduler(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1)
}

/// Requests real-time priority that the threads of the calling thread inherit.
///
/// A process that gives up privileges lends it so to a thread: with it, [`request_realtime_priority`] needs no privilege. Then
/// [`end_realtime_priority`] returns the calling thread to the others.
///
/// # Errors
/// As [`request_realtime_priority`].
pub fn lend_realtime_priority() -> io::Result<()> {
    set_scheduler(libc::SCHED_FIFO, 1)
}

/// Returns the calling thread to the usual scheduling class.
pub fn end_realtime_priority() {
    // Giving priority up is not refused.
    let _ = set_scheduler(libc::SCHED_OTHER, 0);
}

/// Returns the calling thread to the usual scheduling class, with the highest priority there.
fn release_realtime_priority() {
    // Giving priority up is not refused.
    let _ = set_scheduler(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0);
    let _ = rustix::process::setpriority_process(None, -20);
}

fn set_scheduler(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: reads one `sched_param`, which lives for the call; zero means the calling thread.
    match unsafe { libc::sched_setscheduler(0, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Interval between looks at a thread's share of a processor.
const LOOK: Span = Span::from_millis(100);
/// Above this share the thread takes a step back.
const MOST: f64 = 0.85;
/// Below this share it takes real-time priority again.
const LITTLE: f64 = 0.7;
/// Below this share it looks at the clock again instead of sleeping.
const LEAST: f64 = 0.4;

/// Measures of a thread to be on time. With real-time priority it may not take a processor nearly whole: of a second
/// of which real-time threads took 95 % the kernel takes the rest from them (`sched_rt_runtime_us`), which is a pause
/// of 50 ms.
#[derive(Debug)]
pub(crate) struct Urgency {
    level: Level,
    /// Time of the last look at the share, and CPU time by then.
    looked: (Time, Span),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Real-time priority, polling the clock before a deadline.
    Awake,
    /// Real-time priority, sleeping until a deadline.
    First,
    /// Among the others.
    Among,
}

impl Urgency {
    /// Requests real-time priority for the calling thread, at `now`.
    ///
    /// # Errors
    /// As [`request_realtime_priority`].
    pub(crate) fn take(now: Time) -> io::Result<Urgency> {
        request_realtime_priority()?;
        Ok(Urgency { level: Level::Awake, looked: (now, cpu_time()) })
    }

    /// Returns `true` if the thread should poll the clock before a deadline instead of sleeping.
    pub(crate) fn is_awake(&self) -> bool {
        self.level == Level::Awake
    }

    /// Moves one step back or forward by the thread's share of a processor. That thread is to call it often.
    pub(crate) fn keep(&mut self, now: Time) {
        let (then, before) = self.looked;
        if now - then < LOOK {
            return;
        }
        let taken = cpu_time();
        let share = (taken - before).as_secs_f64() / (now - then).as_secs_f64();
        self.looked = (now, taken);
        let level = self.level.after(share);
        match (self.level, level) {
            (Level::First, Level::Among) => release_realtime_priority(),
            // Refused, it stays where it is and asks again.
            (Level::Among, Level::First) if request_realtime_priority().is_err() => return,
            _ => {}
        }
        self.level = level;
    }
}

impl Level {
    /// Returns the level of a thread after taking `share` of a processor. It is at most a step away.
    fn after(self, share: f64) -> Level {
        match self {
            Level::Awake if share > MOST => Level::First,
            Level::First if share > MOST => Level::Among,
            Level::First if share < LEAST => Level::Awake,
            Level::Among if share < LITTLE => Level::First,
            same => same,
        }
    }
}

/// Returns the CPU time of the calling thread.
pub fn cpu_time() -> Span {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Span::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The levels of a thread whose share of a processor is these, one after the other.
    fn levels(shares: &[f64]) -> Vec<Level> {
        let step = |level: &mut Level, share: &f64| {
            *level = level.after(*share);
            Some(*level)
        };
        shares.iter().scan(Level::Awake, step).collect()
    }

    #[test]
    fn a_thread_steps_back_from_a_whole_processor_and_comes_forward_again() {
        assert_eq!(levels(&[0.2, 0.8]), [Level::Awake; 2]);
        assert_eq!(levels(&[1.0, 1.0, 1.0]), [Level::First, Level::Among, Level::Among]);
        assert_eq!(levels(&[1.0, 0.6, 0.3]), [Level::First, Level::First, Level::Awake]);
        assert_eq!(levels(&[1.0, 0.9, 0.8, 0.5]), [Level::First, Level::Among, Level::Among, Level::First]);
    }

    #[test]
    fn no_share_that_lasts_lets_a_real_time_thread_take_95_percent() {
        // The worst: a thread that would take a processor whole on every level.
        let mut level = Level::Awake;
        let first = (0..10).filter(|_| {
            let was_first = level != Level::Among;
            level = level.after(1.0);
            was_first
        });
        assert!(first.count() <= 2);
    }
}
