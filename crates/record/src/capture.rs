//! Capture files of packets that pass an input.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bentpipe_net::Packet;
use bentpipe_site::{CaptureFormat, Records};
use bentpipe_units::Time;
use bentpipe_wire::pcap::Writer;

use super::files::WholeFile;

/// Pcap file being written, in the format of the captured layer.
///
/// Stamps are in nanoseconds from the start of the run. It is a [`WholeFile`]: it exists once
/// [`Capture::finish`] is done; dropped before, it is removed.
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
    writer: Option<Writer<WholeFile>>,
    failed: Option<io::Error>,
    packets: u64,
}

impl Capture {
    /// Starts the file that will be at `path`. Of each packet the first `snap_len` bytes are kept.
    ///
    /// # Errors
    /// As the file system gives.
    pub fn start(path: &Path, format: Box<dyn CaptureFormat>, snap_len: usize) -> io::Result<Capture> {
        let writer = Writer::with_snap_len(WholeFile::create(path)?, format.link_type(), snap_len)?;
        let file = File { writer: Some(writer), failed: None, packets: 0 };
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
            }
        }
    }

    /// Returns `true` if writing has failed, as on a full disk.
    pub fn has_failed(&self) -> bool {
        self.lock().file.failed.is_some()
    }

    /// Completes the file and says how many packets are in it.
    ///
    /// # Errors
    /// The first that happened since the start, with the file's name. No file is left then.
    pub fn finish(self) -> io::Result<u64> {
        let mut state = self.lock();
        let State { format, file } = &mut *state;
        format.end(file);
        let written = match (file.failed.take(), file.writer.take()) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.into_inner().finish(),
            (None, None) => Ok(()),
        };
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))?;
        let packets = file.packets;
        drop(state);
        Ok(packets)
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
        match writer.write(at.as_nanos(), bytes, zeros) {
            Ok(()) => self.packets += 1,
            Err(error) => {
                self.failed = Some(error);
                self.writer = None;
            }
        }
    }

    fn is_open(&self) -> bool {
        self.writer.is_some()
    }
}
