//! Capture files of packets that pass an input.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::{Body, Packet, dama};
use bentpipe_units::Time;
use bentpipe_wire::pcap::{LinkType, Writer};

/// A pcap file being written: raw IP or the MPEG cells of bursts, stamps in nanoseconds from the start of the run.
///
/// It is written beside its place and moved there by [`Capture::finish`]; dropped before, it is gone.
pub struct Capture {
    form: Form,
    path: PathBuf,
    temporary: PathBuf,
    state: Arc<Mutex<State>>,
}

/// What packets are where they are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// IP packets.
    #[default]
    Ip,
    /// A terminal's bursts, of which the MPEG cells are kept, a burst in each record.
    Bursts,
}

struct State {
    /// None once writing has failed.
    writer: Option<Writer<BufWriter<File>>>,
    failed: Option<io::Error>,
    packets: u64,
}

impl Capture {
    /// Starts the file that will be at `path`. Of each packet the first `snap_len` bytes are kept.
    ///
    /// # Errors
    /// As the file system gives.
    pub fn start(path: &Path, form: Form, snap_len: usize) -> io::Result<Capture> {
        let link_type = match form {
            Form::Ip => LinkType::RAW,
            Form::Bursts => LinkType::MPEG_2_TS,
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = BufWriter::with_capacity(1 << 16, File::create(&temporary)?);
        let writer = Writer::with_snap_len(file, link_type, snap_len)?;
        let state = State { writer: Some(writer), failed: None, packets: 0 };
        Ok(Capture { form, path: path.to_owned(), temporary, state: Arc::new(Mutex::new(state)) })
    }

    /// What to tap an input with. Several inputs may share a file.
    pub fn tap(&self) -> impl FnMut(Time, &Packet) + Send + use<> {
        let (state, form) = (Arc::clone(&self.state), self.form);
        move |now, packet| state.lock().unwrap_or_else(PoisonError::into_inner).write(now, packet, form)
    }

    /// Whether writing has failed: the disk may be full.
    pub fn has_failed(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).failed.is_some()
    }

    /// Completes the file and says how many packets are in it.
    ///
    /// # Errors
    /// The first that happened since the start, with the file's name. No file is left then.
    pub fn finish(self) -> io::Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match (state.failed.take(), state.writer.take()) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.into_inner().flush(),
            (None, None) => Ok(()),
        };
        written
            .and_then(|()| fs::rename(&self.temporary, &self.path))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))?;
        Ok(state.packets)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // After `finish` there is nothing to remove; a file that cannot be removed is no reason to fail.
        let _ = fs::remove_file(&self.temporary);
    }
}

impl State {
    fn write(&mut self, now: Time, packet: &Packet, form: Form) {
        let Some(writer) = &mut self.writer else { return };
        let cells = dama::cells_of(packet);
        let written = match packet.body() {
            // A request has none.
            _ if form == Form::Bursts && cells.is_empty() => return,
            _ if form == Form::Bursts => writer.write(now.as_nanos(), cells, 0),
            Body::Zeros(count) => writer.write(now.as_nanos(), packet.header(), *count as usize),
            Body::Bytes(_) => writer.write(now.as_nanos(), &packet.to_vec(), 0),
            Body::Cells(_) => return,
        };
        match written {
            Ok(()) => self.packets += 1,
            Err(error) => {
                self.failed = Some(error);
                self.writer = None;
            }
        }
    }
}
