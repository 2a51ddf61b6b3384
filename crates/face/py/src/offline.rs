//! Jobs on captures and traces.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bentpipe_dvb::{Config, DataPid, Encapsulation, Rohc};
use bentpipe_offline::channel::Fit;
use bentpipe_offline::rohc::{Outputs, Sending, Stats, text};
use bentpipe_offline::ts::{Decap, Encap, Inspect};
use bentpipe_offline::{Error, Intake, Interface, Select, Session};
use bentpipe_rohc::CompressorConfig;
use bentpipe_wire::bbframe::FrameSize;
use bentpipe_wire::ts::Pid;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde::Deserialize;

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
    channel: (String, u16),
    rtp_ports: Option<&str>,
    flows: Option<usize>,
    choice: &str,
    counts: PathBuf,
) -> PyResult<(String, Vec<String>)> {
    let (profiles, max_cid) = (&*channel.0, channel.1);
    let rtp = text::rtp_ports(rtp_ports.unwrap_or(text::RTP_PORTS)).map_err(errors::value)?;
    let compressor = CompressorConfig { rtp, ..compressor(profiles, max_cid)? };
    let sending = Sending { compressor, mtu_bytes: None, reservations: Vec::new() };
    let outputs = Outputs { flows, intake: intake(choice, Some(counts))?, ..Outputs::default() };
    let job = Stats { input, sending, decompressor: decompressor(profiles, max_cid)?, cpu: false, outputs };
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
    attempts: u32,
    choice: &str,
) -> PyResult<String> {
    let sequence = sequence.map(str::parse).transpose().map_err(errors::value)?;
    let (json, plot, report, trace_out) = (None, None, None, None);
    let intake = intake(choice, None)?;
    let job = Fit { trace, sequence, intake, attempts, json, plot, report, trace_out };
    py.detach(|| job.figures()).map_err(raised)
}

/// Returns the encapsulation of a name, as `bentpipe ts` takes it.
fn encapsulation(name: &str) -> PyResult<Encapsulation> {
    match name {
        "ule" => Ok(Encapsulation::Ule),
        "mpe" => Ok(Encapsulation::Mpe),
        "gse" => Ok(Encapsulation::Gse),
        _ => Err(errors::value(format!("format {name:?}: expected \"ule\", \"mpe\" or \"gse\""))),
    }
}

/// Reads ROHC's keys in JSON.
fn rohc_keys(text: Option<&str>) -> PyResult<Option<Rohc>> {
    text.map(serde_json::from_str).transpose().map_err(|error| errors::value(format!("rohc: {error}")))
}

/// Choice of the streams of an input, as Python passes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    interface: Option<String>,
    vlan: Option<u16>,
    src: Option<IpAddr>,
    dst: Option<IpAddr>,
    port: Option<u16>,
    ssrc: Option<u32>,
    isi: Option<u8>,
    from_rohc: Option<Rohc>,
    left_out: Option<PathBuf>,
    #[serde(default)]
    hitless: bool,
    #[serde(default)]
    keep_copies: bool,
}

/// Reads the choice of streams in JSON.
fn intake(text: &str, counts: Option<PathBuf>) -> PyResult<Intake> {
    let choice: Choice = serde_json::from_str(text).map_err(|error| errors::value(error.to_string()))?;
    let Choice {
        vlan, port, ssrc, isi, left_out, hitless, from_rohc: rohc, keep_copies: keeps_copies, ..
    } = choice;
    let (source, destination) = (choice.src, choice.dst);
    let interface = choice.interface.map(Interface);
    let select = Select { interface, vlan, source, destination, port, ssrc, isi };
    Ok(Intake { select, left_out, rohc, hitless, keeps_copies, counts })
}

/// Returns the PIDs of these numbers.
fn numbers(pids: Vec<u16>) -> PyResult<Vec<Pid>> {
    let pid = |number: u16| {
        Pid::new(number).ok_or_else(|| errors::value(format!("pid {number}: expected at most 0x1fff")))
    };
    pids.into_iter().map(pid).collect()
}

/// Does a job and returns its remarks.
fn remarks(
    py: Python<'_>,
    job: impl FnOnce(&Kept) -> Result<bentpipe_offline::Outcome, Error> + Send,
) -> PyResult<Vec<String>> {
    let session = Kept::default();
    watched(py, &session, None, || job(&session))?.map_err(raised)?;
    Ok(session.notes.into_inner().unwrap_or_default())
}

/// Encapsulates a capture in a stream. Returns remarks.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn ts_encap(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    format: &str,
    pid: u16,
    packing: Option<&str>,
    rohc: Option<&str>,
    bridges: bool,
    choice: &str,
    counts: PathBuf,
) -> PyResult<Vec<String>> {
    let stream = Config {
        pid: DataPid::new(pid).ok_or_else(|| errors::value(format!("pid {pid}: expected 0x20 to 0x1ffe")))?,
        encapsulation: encapsulation(format)?,
        packing: packing.map(str::parse).transpose().map_err(errors::value)?,
        rohc: rohc_keys(rohc)?,
        ..Config::default()
    };
    let (map_pid, modcod) = (Pid::new(0x200), "QPSK 3/4".parse().map_err(errors::value)?);
    let (frame_size, intake) = (FrameSize::Normal, intake(choice, Some(counts))?);
    let job = Encap { input, output, stream, bridges, map_pid, modcod, frame_size, intake };
    remarks(py, |session| job.run(session))
}

/// Writes the packets of a stream to a capture. Returns remarks.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn ts_decap(
    py: Python<'_>,
    input: PathBuf,
    output: PathBuf,
    format: Option<&str>,
    pids: Vec<u16>,
    rohc: Option<&str>,
    bridges: bool,
    choice: &str,
    counts: PathBuf,
) -> PyResult<Vec<String>> {
    let (pids, encapsulation) = (numbers(pids)?, format.map(encapsulation).transpose()?);
    let (rohc, intake) = (rohc_keys(rohc)?, intake(choice, Some(counts))?);
    let job = Decap { input, output, pids, encapsulation, rohc, bridges, intake };
    remarks(py, |session| job.run(session))
}

/// Describes a stream in a file of JSON. Returns remarks.
#[pyfunction]
pub(crate) fn ts_inspect(
    py: Python<'_>,
    input: PathBuf,
    json: PathBuf,
    measure: bool,
    pids: Vec<u16>,
    choice: &str,
) -> PyResult<Vec<String>> {
    let (pids, intake) = (numbers(pids)?, intake(choice, None)?);
    let job = Inspect { input, json: Some(json), measure, pids, intake, ..Inspect::default() };
    remarks(py, |session| job.run(session))
}
