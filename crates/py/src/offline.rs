//! Jobs on captures and traces.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_offline::channel::Fit;
use bentpipe_offline::rohc::{Outputs, Sending, Stats};
use bentpipe_offline::{Error, Session};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::errors;
use crate::rohc::{compressor, decompressor};
use crate::watch::{Stop, watched};

/// Session that keeps remarks and ends on an exception.
#[derive(Default)]
struct Kept {
    stop: AtomicBool,
    notes: Mutex<Vec<String>>,
}

impl Session for Kept {
    fn note(&self, text: &str) {
        self.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(text.to_owned());
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Stop for Kept {
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn raised(error: Error) -> PyErr {
    match error {
        Error::Usage(text) => errors::value(text),
        other => PyOSError::new_err(other.to_string()),
    }
}

/// Compresses a capture, and returns the text of `bentpipe rohc stats`, and remarks.
#[pyfunction]
pub(crate) fn rohc_stats(
    py: Python<'_>,
    input: PathBuf,
    profiles: &str,
    max_cid: u16,
    flows: Option<usize>,
) -> PyResult<(String, Vec<String>)> {
    let sending =
        Sending { compressor: compressor(profiles, max_cid)?, mtu_bytes: None, reservations: Vec::new() };
    let outputs = Outputs { flows, skip_other: true, ..Outputs::default() };
    let job = Stats { input, sending, decompressor: decompressor(profiles, max_cid)?, outputs };
    let session = Kept::default();
    let outcome = watched(py, &session, None, || job.run(&session))?.map_err(raised)?;
    Ok((outcome.text, session.notes.into_inner().unwrap_or_default()))
}

/// Fits loss models to a trace and returns the figures as JSON.
///
/// With `sequence` the file is a capture of received packets.
#[pyfunction]
pub(crate) fn fit_losses(
    py: Python<'_>,
    trace: PathBuf,
    sequence: Option<&str>,
    port: Option<u16>,
    attempts: u32,
) -> PyResult<String> {
    let sequence = sequence.map(str::parse).transpose().map_err(errors::value)?;
    let (json, plot, report, trace_out) = (None, None, None, None);
    let job = Fit { trace, sequence, port, ssrc: None, attempts, json, plot, report, trace_out };
    py.detach(|| job.figures()).map_err(raised)
}
