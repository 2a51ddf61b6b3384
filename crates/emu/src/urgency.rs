//! What makes a thread wake on time.

use std::io;

use bentpipe_units::{Span, Time};

/// Lets the calling thread's timers fire when they are due. By default Linux may let them fire 50 microseconds later, to
/// save wake-ups (prctl(2), `PR_SET_TIMERSLACK`).
pub(crate) fn sharpen_timers() {
    const ONE_NANOSECOND: libc::c_ulong = 1;
    // SAFETY: takes its argument by value and changes a property of this thread only. It cannot fail for this option.
    let _ = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ONE_NANOSECOND) };
}

/// Puts the calling thread before all others that have no real-time priority (`SCHED_FIFO`, sched(7)), so that a busy
/// machine does not make it late.
///
/// # Errors
/// If the process may not (it lacks `CAP_SYS_NICE`, or its `RLIMIT_RTPRIO` is zero).
pub fn put_first() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // Threads and programs that it starts are as others again.
    // SAFETY: reads one `sched_param`, which lives for the call; zero means the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &lowest) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Puts the calling thread among the others again, before most of them.
fn step_back() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: as in `put_first`. Giving priority up is not refused.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, &none) };
    // SAFETY: takes its arguments by value; 0 means the calling thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// How often a thread's share of a processor is looked at.
const LOOK: Span = Span::from_millis(100);
/// Above this share the thread takes a step back.
const MOST: f64 = 0.85;
/// Below this share it takes real-time priority again.
const LITTLE: f64 = 0.7;
/// Below this share it looks at the clock again instead of sleeping.
const LEAST: f64 = 0.4;

/// How much the calling thread does to be on time. With real-time priority it may not take a processor nearly whole: of a second
/// of which real-time threads took 95 % the kernel takes the rest from them (`sched_rt_runtime_us`), which is a pause of 50 ms.
#[derive(Debug)]
pub(crate) struct Urgency {
    level: Level,
    /// When the share was last looked at, and the processor time taken by then.
    looked: (Time, Span),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Before all others, and awake before a deadline.
    Awake,
    /// Before all others, and asleep until a deadline.
    First,
    /// Among the others.
    Among,
}

impl Urgency {
    /// Puts the calling thread first, at `now`.
    ///
    /// # Errors
    /// As [`put_first`].
    pub(crate) fn take(now: Time) -> io::Result<Urgency> {
        put_first()?;
        Ok(Urgency { level: Level::Awake, looked: (now, cpu_time()) })
    }

    /// Whether the thread should look at the clock before a deadline instead of sleeping.
    pub(crate) fn is_awake(&self) -> bool {
        self.level == Level::Awake
    }

    /// Takes a step back or forward, as the thread's share of a processor is; to be called often by that thread.
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
            (Level::First, Level::Among) => step_back(),
            // Refused, it stays where it is and asks again.
            (Level::Among, Level::First) if put_first().is_err() => return,
            _ => {}
        }
        self.level = level;
    }
}

impl Level {
    /// The level of a thread that took such a share of a processor on this one: at most a step away.
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

/// The processor time that the calling thread took so far.
pub fn cpu_time() -> Span {
    // SAFETY: `timespec` is plain data for which all bytes zero is a value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: writes one `timespec`, which lives for the call. It cannot fail for this clock.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
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
