//! Changes of emulations that run, by the sockets at which they accept them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

/// Time that an emulation has to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of an answer.
const MAX_ANSWER: u64 = 1 << 16;

/// Error returned if a key of an emulation cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// Emulation is not there yet, or no more.
    #[error("the emulation is not ready, or ends: try again")]
    Gone,
    /// Emulation refuses the change.
    #[error("{0}")]
    Refused(String),
}

/// Changes a key of an emulation on this machine, by its process.
///
/// `assignment` is "KEY=VALUE". Returns the time of the run in seconds.
///
/// # Errors
/// Returns the emulation's refusal, or an error if it does not answer.
pub fn set(pid: i32, assignment: &str) -> Result<f64, SetError> {
    let ask = || {
        let stream = UnixStream::connect(format!("/run/bentpipe/{pid}.sock"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        writeln!(&stream, "{}", json!({ "set": assignment }))?;
        let mut line = String::new();
        BufReader::new(&stream).take(MAX_ANSWER).read_line(&mut line)?;
        Ok::<_, io::Error>(line)
    };
    let line = ask().map_err(|_| SetError::Gone)?;
    let answer: Value = serde_json::from_str(&line).map_err(|_| SetError::Gone)?;
    match (answer["error"].as_str(), answer["at"].as_f64()) {
        (Some(refusal), _) => Err(SetError::Refused(refusal.to_owned())),
        (None, Some(at_s)) => Ok(at_s),
        (None, None) => Err(SetError::Gone),
    }
}
