//! Offline work on captures and streams.
//!
//! Each job is a struct of its settings with a `run` method: header compression of captures ([`rohc`]), encapsulation of
//! captures in transport streams and DVB-S2 frames, and back ([`ts`]), loss models of traces and captures ([`channel`]), real
//! transport streams through ATM ([`video`]), speech through calls ([`voice`]), statistics of rates ([`traffic`]). A job reads and writes files, reports to its [`Session`], and returns an
//! [`Outcome`]; it prints nothing.

pub mod capture;
pub mod channel;
pub mod rohc;
pub mod traffic;
pub mod ts;
pub mod video;
pub mod voice;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bentpipe_dvb::Rohc;
pub use bentpipe_intake::{Interface, Select};
use bentpipe_scenario::Document;
use bentpipe_wire::pcap::ReadError;

/// Returns the scenario of a file, or `default` where there is none, with assignments KEY=VALUE.
///
/// # Errors
/// Returns an error if the file cannot be read, or a key or value is wrong.
pub(crate) fn document(path: Option<&Path>, default: &str, set: &[String]) -> Result<Document, String> {
    let mut document = match path {
        Some(path) => bentpipe_paths::document(path).map_err(|error| error.to_string())?,
        None => Document::parse("satellite", default.as_bytes())
            .map_err(|error| error.to_string())?
            .with_access(bentpipe_paths::any_file(Path::new(""))),
    };
    let done = set.iter().try_for_each(|assignment| document.set(assignment));
    done.map_err(|error| error.to_string())?;
    Ok(document)
}

/// Choice of the streams of an input, and a file for the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intake {
    /// Selection of streams.
    pub select: Select,
    /// pcapng file for the records that are left out, with their reasons as comments.
    pub left_out: Option<PathBuf>,
    /// Decompressor of captured ROHC packets, where IP packets are read. Default: records are IP.
    pub rohc: Option<Rohc>,
    /// Enables merging of streams of RTP on several legs (SMPTE ST 2022-7).
    pub hitless: bool,
    /// Uses copies of packets too, such as those of a mirrored port. Default: they are left out.
    pub keeps_copies: bool,
    /// JSON file of the counts and the account, for jobs without figures in another one.
    pub counts: Option<PathBuf>,
}

/// Caller of a job: receives its remarks and progress, and may interrupt it.
pub trait Session {
    /// Receives a remark on the input or on the results.
    fn note(&self, text: &str);

    /// Returns `true` once the job is to end before its next packet.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Wraps the reading of a long file, so that progress can be shown.
    fn track(&self, file: File, len_bytes: u64) -> Box<dyn Read> {
        let _ = len_bytes;
        Box::new(file)
    }

    /// Callback invoked with a step's name, and its completed fraction if known.
    fn progress(&self, step: &'static str, fraction: Option<f64>) {
        let _ = (step, fraction);
    }

    /// Called at the end of a long step.
    fn progress_finished(&self) {}
}

/// Session without a listener.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Session for Unattended {
    fn note(&self, _: &str) {}
}

/// Manner in which a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// Complete success.
    Clean,
    /// A packet failed.
    Failed,
    /// The session interrupted the job. The files written are whole up to there.
    Interrupted,
}

/// Result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Result as text for a terminal; empty if the job has only files and remarks.
    pub text: String,
    /// Manner in which the job ended.
    pub reason: ExitReason,
}

impl Outcome {
    fn new(text: String, session: &dyn Session, has_failures: bool) -> Outcome {
        let reason = match has_failures {
            _ if session.is_interrupted() => ExitReason::Interrupted,
            true => ExitReason::Failed,
            false => ExitReason::Clean,
        };
        Outcome { text, reason }
    }
}

/// Error returned when a job cannot do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be opened.
    #[error("{}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file is not a capture.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reader's error.
        source: ReadError,
    },
    /// A record of a capture cannot be read.
    #[error("{}: record {number}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The record's number, from 1.
        number: u64,
        /// The reader's error.
        source: ReadError,
    },
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// Settings contradict one another or the input; the text says what was expected.
    #[error("{0}")]
    Usage(String),
}
