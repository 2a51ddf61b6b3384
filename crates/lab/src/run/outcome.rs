//! What one run gave.

use bentpipe_units::Span;
use serde::{Deserialize, Serialize};

use super::RealTime;
use crate::measure::Measure;

/// What one run gave, apart from its series. The same scenario and seed give the same to the byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The hash of what the result depends on.
    pub hash: String,
    /// The seed.
    pub seed: u64,
    /// The hash over all that happened, in 16 hexadecimal digits.
    pub fingerprint: String,
    /// Packets handed to elements.
    pub deliveries: u64,
    /// Wake-ups of elements.
    pub wakeups: u64,
    /// Packets sent to outputs that lead nowhere.
    pub stray: u64,
    /// The time between samples that was asked for.
    pub interval_asked: Span,
    /// The time between samples that was used: longer if there were too many columns.
    pub interval: Span,
    /// Captures that were made.
    pub captures: Vec<CaptureFile>,
    /// What the flows and links achieved.
    pub measures: Vec<Measure>,
    /// All counters and gauges at the end.
    pub totals: Vec<Measure>,
}

/// A capture file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureFile {
    /// Its name in the run's folder.
    pub file: String,
    /// How many packets it holds.
    pub packets: u64,
}

impl Outcome {
    /// Events that the engine handled.
    pub fn events(&self) -> u64 {
        self.deliveries + self.wakeups
    }
}

/// How a run was made: what its result does not depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// What tells the program that ran it from others: another build may give another result.
    pub build: String,
    /// The time it took, in seconds.
    pub wall_s: f64,
    /// Of an emulation, what real time did to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealTime>,
}
