//! Changes of emulations that run, by the sockets at which they accept them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::problem::{Problem, Result};
use crate::runner::pid_of;

/// Time that an emulation has to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 1 << 16;

/// Changes a key of a job's emulation.
///
/// Returns the time of the run in seconds.
///
/// # Errors
/// Returns the emulation's refusal, or an error if it is not there yet, or no more.
pub(crate) fn set(folder: &Path, attempt: i64, assignment: &str) -> Result<f64> {
    let gone = |_| Problem::new(StatusCode::CONFLICT, "the emulation is not ready, or ends: try again");
    let pid = pid_of(folder, attempt).ok_or_else(|| gone(()))?;
    let path = format!("/run/bentpipe/{}.sock", pid.as_raw_nonzero());
    let stream = UnixStream::connect(path).map_err(|_| gone(()))?;
    let ask = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        writeln!(&stream, "{}", json!({ "set": assignment }))?;
        let mut line = String::new();
        BufReader::new(&stream).take(MAX_ANSWER).read_line(&mut line)?;
        Ok::<_, std::io::Error>(line)
    };
    let line = ask().map_err(|_| gone(()))?;
    let answer: Value = serde_json::from_str(&line).map_err(|_| gone(()))?;
    match (answer["error"].as_str(), answer["at"].as_f64()) {
        (Some(refusal), _) => Err(Problem::bad(refusal)),
        (None, Some(at_s)) => Ok(at_s),
        (None, None) => Err(gone(())),
    }
}
