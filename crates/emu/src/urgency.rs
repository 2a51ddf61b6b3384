//! What makes a thread wake on time.

use std::io;

use bentpipe_units::Span;

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

/// The processor time that the calling thread took so far.
pub fn cpu_time() -> Span {
    // SAFETY: `timespec` is plain data for which all bytes zero is a value.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: writes one `timespec`, which lives for the call. It cannot fail for this clock.
    let _ = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Span::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
