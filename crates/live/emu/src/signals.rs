//! Signals as events: end (SIGINT, SIGTERM) and reload (SIGHUP).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bentpipe_units::Span;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};

use crate::poll as polling;

/// Requests to end.
static REQUESTS: EndRequests = EndRequests::new();
/// Set by a signal that asks the program to end.
static END: AtomicBool = AtomicBool::new(false);
/// Set by a signal that asks for the settings to be read again.
static RELOAD: AtomicBool = AtomicBool::new(false);
/// Controlling terminal at the start, if there was one that counts.
static TERMINAL: OnceLock<OwnedFd> = OnceLock::new();
/// Event that a signal raises.
static WAKER: OnceLock<&Waker> = OnceLock::new();

/// Requests to end, of which a late second one does not wait.
///
/// `timeout` signals a program and then its process group: two requests within microseconds are one.
#[derive(Debug)]
pub struct EndRequests {
    /// Time of the first request on the monotonic clock in nanoseconds; 0 before it.
    first_ns: AtomicU64,
}

/// Time after the first request from which another one does not wait, in nanoseconds.
const INSISTENCE_NS: u64 = 1_000_000_000;

impl EndRequests {
    /// Creates a record without requests.
    pub const fn new() -> EndRequests {
        EndRequests { first_ns: AtomicU64::new(0) }
    }

    /// Returns `true` if this request comes a second or more after the first. May be called in a signal handler.
    pub fn is_insistent(&self) -> bool {
        let now = clock_gettime(ClockId::Monotonic);
        self.is_insistent_at(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    fn is_insistent_at(&self, now_ns: u64) -> bool {
        let first = self.first_ns.compare_exchange(0, now_ns.max(1), Ordering::SeqCst, Ordering::SeqCst);
        first.is_err_and(|first_ns| now_ns.saturating_sub(first_ns) >= INSISTENCE_NS)
    }
}

impl Default for EndRequests {
    fn default() -> EndRequests {
        EndRequests::new()
    }
}

/// Event that wakes a waiting thread.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Creates an event that is not raised.
    ///
    /// # Errors
    /// Returns an error if the system has no descriptors left.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// Raises the event. Also called in a signal handler, so it is one system call and nothing else (signal-safety(7)).
    pub fn wake(&self) {
        // An event that is raised already may refuse.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Waits until the event is raised, for at most `timeout`, and lowers it.
    pub fn wait(&self, timeout: Span) {
        // A wait that fails is a short one.
        let _ = polling::wait([self.fd()], timeout);
        self.clear();
    }

    /// Lowers the event.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; size_of::<u64>()]);
    }

    /// Returns the descriptor, which can be read while the event is raised.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

extern "C" fn handle(signal: libc::c_int) {
    match signal {
        libc::SIGHUP if has_hung_up() => END.store(true, Ordering::SeqCst),
        libc::SIGHUP => RELOAD.store(true, Ordering::SeqCst),
        _ if REQUESTS.is_insistent() => {
            // SAFETY: ends the program without anything that a signal handler may not do.
            unsafe { libc::_exit(130) }
        }
        _ => END.store(true, Ordering::SeqCst),
    }
    if let Some(waker) = WAKER.get() {
        waker.wake();
    }
}

/// Returns `true` if the terminal that the program was started at is gone. Called in a signal handler.
fn has_hung_up() -> bool {
    TERMINAL.get().is_some_and(|terminal| {
        let mut fds = [PollFd::new(terminal, PollFlags::empty())];
        let is_polled = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok();
        is_polled && fds[0].revents().contains(PollFlags::HUP)
    })
}

/// Keeps the controlling terminal open, to see later that it has hung up.
fn keep_terminal() {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // A service has none.
    if let Ok(terminal) = rustix::fs::open(c"/dev/tty", flags, Mode::empty()) {
        let _ = TERMINAL.set(terminal);
    }
}

/// Installs the handlers: SIGINT and SIGTERM ask to end, SIGHUP to reload.
///
/// SIGHUP of a terminal that has closed asks to end, unless it was ignored when the program started, as `nohup` has it. Each raises `waker`, the first one given for
/// good.
///
/// Programs that are started get the usual handling again (execve(2)).
///
/// # Errors
/// Returns an error if the system refuses a handler.
pub fn watch(waker: &'static Waker) -> io::Result<()> {
    WAKER.get_or_init(|| waker);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: `sigaction` is plain data for which all bytes zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        let mut before = action;
        // SAFETY: reads and writes a `sigaction` that live for the call; the handler does only what a handler may.
        if unsafe { libc::sigaction(signal, &action, &mut before) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if signal == libc::SIGHUP && before.sa_sigaction != libc::SIG_IGN {
            keep_terminal();
        }
    }
    Ok(())
}

/// Returns `true` once a signal has asked to end.
pub fn end_requested() -> bool {
    END.load(Ordering::SeqCst)
}

/// Returns `true` if a signal has asked to reload since the last call.
pub fn take_reload_request() -> bool {
    RELOAD.swap(false, Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_request_counts_after_a_second() {
        let requests = EndRequests::new();
        let asked = [5, 6, 999_999_999, 1_000_000_005, 7].map(|now_ns| requests.is_insistent_at(now_ns));
        assert_eq!(asked, [false, false, false, true, false]);
    }
}
