//! Child process that keeps a privilege which its parent gives up.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, WaitOptions, waitpid};

use crate::privileges::require_one_thread;

/// Maximum length of a request and of an answer.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// Connection to a helper. It ends with the last one.
#[derive(Clone, Debug)]
pub struct Helper(Arc<Mutex<Child>>);

#[derive(Debug)]
struct Child {
    stream: Option<BufReader<UnixStream>>,
    pid: Pid,
}

impl Helper {
    /// Starts a helper, which answers lines by `serve` until its parent ends. The process must have one thread.
    ///
    /// `prepare` runs first in the helper, which ends if it fails. Signals that end the parent do not end the helper.
    ///
    /// # Errors
    /// Returns an error if there are other threads, or no process can be made.
    pub fn start(
        prepare: impl FnOnce() -> io::Result<()>,
        mut serve: impl FnMut(&str) -> String,
    ) -> io::Result<Helper> {
        require_one_thread()?;
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the process has one thread, so that no lock is held by one which the child lacks.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                let code = match isolate(&theirs).and_then(|()| prepare()) {
                    Ok(()) => i32::from(answer(&theirs, &mut serve).is_err()),
                    Err(_) => 2,
                };
                // SAFETY: ends the child without running what its parent has registered for its own end.
                unsafe { libc::_exit(code) }
            }
            pid => {
                let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
                Ok(Helper(Arc::new(Mutex::new(Child { stream: Some(BufReader::new(ours)), pid }))))
            }
        }
    }

    /// Returns the helper's process identifier.
    pub fn pid(&self) -> i32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pid.as_raw_nonzero().get()
    }

    /// Sends a request, a line, and returns the answer.
    ///
    /// # Errors
    /// Returns an error if the helper has ended.
    pub fn ask(&self, request: &str) -> io::Result<String> {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = child.stream.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(stream.get_mut(), "{request}")?;
        read_line(stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stream = None;
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Closes the parent's other files in the child, and ignores signals from the terminal.
fn isolate(stream: &UnixStream) -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: ignoring a signal needs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let kept = stream.as_raw_fd();
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > 2 && *fd != kept) {
        // SAFETY: the child never uses its parent's descriptors again; that of the listing is closed already.
        unsafe { libc::close(fd) };
    }
    // Its messages are answers; it must not keep a reader of its parent's output waiting.
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null")?.into();
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

fn answer(stream: &UnixStream, serve: &mut impl FnMut(&str) -> String) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(request) = read_line(&mut reader)? {
        writeln!(writer, "{}", serve(&request))?;
    }
    Ok(())
}

/// Reads a line; `None` at the end.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    io::Read::take(reader, MAX_LINE_BYTES).read_line(&mut line)?;
    Ok((!line.is_empty()).then(|| line.trim_end_matches('\n').to_owned()))
}
