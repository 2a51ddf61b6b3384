//! Voice streams of a study file that real programs send and receive.

use std::path::PathBuf;

use bentpipe_units::Span;
use serde::Deserialize;

/// GSM streams from one network namespace to another.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveStreams {
    /// Number of streams.
    pub streams: u32,
    /// IP version.
    #[serde(default = "four")]
    pub ip: u8,
    /// Duration.
    pub duration: Span,
    /// Duration with `--quick`.
    pub quick: Span,
    /// Site files of the gateways at both ends, in the study's folder. Default: none, and both ends of one veth pair.
    #[serde(default)]
    pub gateways: Vec<PathBuf>,
}

const fn four() -> u8 {
    4
}

impl LiveStreams {
    /// Checks its numbers.
    ///
    /// # Errors
    /// Returns an error that names the key with an impossible value.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=4096).contains(&self.streams) {
            return Err("streams: expected 1 to 4096".to_owned());
        }
        if ![4, 6].contains(&self.ip) {
            return Err("ip: expected 4 or 6".to_owned());
        }
        if ![0, 2].contains(&self.gateways.len()) {
            return Err("gateways: expected two site files, or none".to_owned());
        }
        let is_possible = |span: Span| !span.is_zero() && span <= Span::from_secs(600);
        match is_possible(self.duration) && is_possible(self.quick) {
            true => Ok(()),
            false => Err("duration, quick: expected above zero, up to 600 s".to_owned()),
        }
    }
}
