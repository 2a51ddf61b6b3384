//! Signals as something to wait for: end (SIGINT, SIGTERM) and reload (SIGHUP).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use bentpipe_units::Span;

use crate::poll;

/// Set by a signal that asks the program to end.
static END: AtomicBool = AtomicBool::new(false);
/// Set by a signal that asks for the settings to be read again.
static RELOAD: AtomicBool = AtomicBool::new(false);
/// What a signal makes readable; -1 if nobody waits.
static WAKER: AtomicI32 = AtomicI32::new(-1);

/// Wakes whoever waits for it.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// One that nobody woke yet.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: takes its arguments by value and gives a new descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        Ok(Waker(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Wakes it.
    pub fn wake(&self) {
        wake(self.0.as_raw_fd());
    }

    /// Waits until it is woken, at most `timeout`.
    pub fn wait(&self, timeout: Span) {
        // A wait that fails is a short one.
        let _ = poll::wait(&mut [poll::entry(self.0.as_fd())], timeout);
        self.clear();
    }

    /// Takes note of having been woken.
    pub(super) fn clear(&self) {
        let mut count = 0u64;
        // SAFETY: reads at most eight bytes into a variable of that size.
        let _ = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Also called in a signal handler: nothing but a system call that may be made there (signal-safety(7)).
fn wake(fd: libc::c_int) {
    let one = 1u64;
    // SAFETY: writes eight bytes of a variable of that size; an eventfd that is full is awake already.
    let _ = unsafe { libc::write(fd, (&raw const one).cast(), size_of::<u64>()) };
}

extern "C" fn handle(signal: libc::c_int) {
    match signal {
        libc::SIGHUP => RELOAD.store(true, Ordering::SeqCst),
        // Whoever asks twice does not want to wait.
        _ if END.swap(true, Ordering::SeqCst) => {
            // SAFETY: ends the program without anything that a signal handler may not do.
            unsafe { libc::_exit(130) }
        }
        _ => {}
    }
    let fd = WAKER.load(Ordering::SeqCst);
    if fd >= 0 {
        wake(fd);
    }
}

/// From now on the signals SIGINT and SIGTERM ask to end, SIGHUP to reload, and wake `waker`, which is kept for good.
/// Programs that are started get the usual handling again (execve(2)).
///
/// # Errors
/// If the system refuses.
pub fn watch(waker: &'static Waker) -> io::Result<()> {
    WAKER.store(waker.0.as_raw_fd(), Ordering::SeqCst);
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: `sigaction` is plain data for which all bytes zero is a value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: reads one `sigaction` that lives for the call; the handler does only what a handler may.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Whether a signal asked to end.
pub fn asked_to_end() -> bool {
    END.load(Ordering::SeqCst)
}

/// Whether a signal asked to reload since this was asked last.
pub fn asked_to_reload() -> bool {
    RELOAD.swap(false, Ordering::SeqCst)
}
