//! Capture files of packets that pass an input.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_net::Packet;
use bentpipe_site::{CaptureFormat, Records};
use bentpipe_units::{Span, Time};
use bentpipe_wire::pcap::Writer;

use super::files::WholeFile;
use super::outcome::CaptureFile;
use super::prefix::{ROOM, whole_capture};
use super::ring::{CaptureLimits, Ring};

/// Pcap file being written, in the format of the captured layer.
///
/// Stamps are in nanoseconds from the start of the run. It is a [`WholeFile`]: it exists once
/// [`Capture::finish`] is done, or writing has failed, as on a full disk; dropped before, it is removed. With limits it is a [`Ring`] of files, which exist from the start.
pub struct Capture {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

struct State {
    format: Box<dyn CaptureFormat>,
    file: File,
}

/// Records of the file.
struct File {
    /// Writer; `None` once writing has failed.
    writer: Option<Sink>,
    failed: Option<io::Error>,
    packets: u64,
    /// Time between two flushes. Default: at the end only.
    flush_each: Option<Span>,
    flushed: Time,
}

impl File {
    fn flush(&mut self) {
        let flushed = match &mut self.writer {
            Some(Sink::Whole(writer)) => writer.flush(),
            Some(Sink::Ring(ring)) => ring.flush(),
            None => return,
        };
        if let Err(error) = flushed {
            self.fail(error);
        }
    }

    /// Notes the first error, and keeps the packets that are on disk.
    fn fail(&mut self, error: io::Error) {
        let salvaged = self.writer.take().map_or(Ok(()), Sink::salvage);
        // Without them the first error says enough.
        let note = if salvaged.is_ok() { "; the packets before that are kept" } else { "" };
        self.failed.get_or_insert(io::Error::new(error.kind(), format!("{error}{note}")));
    }

    fn flush_if_due(&mut self, now: Time) {
        if self.flush_each.is_some_and(|interval| now >= self.flushed + interval) {
            self.flushed = now;
            self.flush();
        }
    }
}

enum Sink {
    Whole(Writer<WholeFile>),
    Ring(Ring),
}

impl Sink {
    fn create(path: &Path, format: &dyn CaptureFormat, limits: CaptureLimits) -> io::Result<Sink> {
        let link_type = format.link_type();
        match limits.ring {
            Some(size) => Ring::create(path, link_type, limits.snap_len, size).map(Sink::Ring),
            None => {
                let file = WholeFile::create(path)?;
                Writer::with_snap_len(file, link_type, limits.snap_len).map(Sink::Whole)
            }
        }
    }

    /// Keeps the whole packets on disk, but for the last: the results need room.
    fn salvage(self) -> io::Result<()> {
        match self {
            Sink::Whole(writer) => writer.into_inner().salvage(|file| whole_capture(file, ROOM)),
            Sink::Ring(ring) => ring.salvage(ROOM),
        }
    }

    fn finish(self, path: &Path, packets: u64) -> io::Result<Vec<CaptureFile>> {
        let file = |(path, packets): (PathBuf, u64)| {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            CaptureFile { file, packets }
        };
        match self {
            Sink::Whole(writer) => {
                writer.into_inner().finish()?;
                Ok(vec![file((path.to_owned(), packets))])
            }
            Sink::Ring(ring) => Ok(ring.finish()?.into_iter().map(file).collect()),
        }
    }
}

impl Capture {
    /// Starts the file at `path`, or a ring of files named after it. Limits may be a snapshot length.
    ///
    /// # Errors
    /// As the file system gives.
    pub fn start(
        path: &Path,
        format: Box<dyn CaptureFormat>,
        limits: impl Into<CaptureLimits>,
    ) -> io::Result<Capture> {
        let writer = Sink::create(path, &*format, limits.into())?;
        let file =
            File { writer: Some(writer), failed: None, packets: 0, flush_each: None, flushed: Time::ZERO };
        Ok(Capture { path: path.to_owned(), state: Arc::new(Mutex::new(State { format, file })) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a tap for an input. Several inputs may share a file.
    pub fn tap(&self) -> impl FnMut(Time, &Packet) + Send + use<> {
        let state = Arc::clone(&self.state);
        move |now, packet| {
            let State { format, file } = &mut *state.lock().unwrap_or_else(PoisonError::into_inner);
            if file.is_open() {
                format.write(now, packet, file);
                file.flush_if_due(now);
            }
        }
    }

    /// Writes what is buffered, so that others can read it.
    pub fn flush(&self) {
        self.lock().file.flush();
    }

    /// Writes what is buffered at a packet `interval` after the last time, or later.
    ///
    /// Times are those of packets: it is for captures in real time.
    pub fn flush_each(&self, interval: Span) {
        self.lock().file.flush_each = Some(interval);
    }

    /// Returns `true` if writing has failed, as on a full disk.
    pub fn has_failed(&self) -> bool {
        self.lock().file.failed.is_some()
    }

    /// Completes the files. Returns the number of packets in them.
    ///
    /// # Errors
    /// As [`Capture::finish_files`].
    pub fn finish(self) -> io::Result<u64> {
        Ok(self.finish_files()?.iter().map(|file| file.packets).sum())
    }

    /// Completes the files. Returns them with the number of packets in each.
    ///
    /// # Errors
    /// The first that happened since the start, with the file's name. The file then has the packets before it.
    pub fn finish_files(self) -> io::Result<Vec<CaptureFile>> {
        let mut state = self.lock();
        let State { format, file } = &mut *state;
        format.end(file);
        file.flush();
        let written = match (file.failed.take(), file.writer.take()) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.finish(&self.path, file.packets),
            (None, None) => Ok(Vec::new()),
        };
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Taps may outlive it.
        self.lock().file.writer = None;
    }
}

impl Records for File {
    fn write(&mut self, at: Time, bytes: &[u8], zeros: usize) {
        let Some(writer) = &mut self.writer else { return };
        let written = match writer {
            Sink::Whole(writer) => writer.write(at.as_nanos(), bytes, zeros),
            Sink::Ring(ring) => ring.write(at.as_nanos(), bytes, zeros),
        };
        match written {
            Ok(()) => self.packets += 1,
            Err(error) => self.fail(error),
        }
    }

    fn is_open(&self) -> bool {
        self.writer.is_some()
    }
}
