//! Configuration of a received power that changes over time.

use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A received power that wanders between levels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalConfig {
    /// Levels, from the strongest to the weakest. The next level is always a neighbour. No default.
    pub levels: Vec<SignalLevel>,
    /// Received power at which half of the 1000-byte frames are lost, in dBm. At the lowest rate. Default:
    /// -92.
    #[schemars(range(min = -200.0, max = 100.0))]
    #[serde(default = "sensitivity")]
    pub sensitivity_dbm: f64,
    /// Additional power required by each higher rate, in dB. Default: 3.
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(default = "step")]
    pub step_db: f64,
    /// Change of power that changes the odds of a loss e-fold, in dB. Default: 1.
    #[schemars(range(max = 100.0))]
    #[serde(default = "slope")]
    pub slope_db: f64,
}

/// A level of received power.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalLevel {
    /// The power in dBm. No default.
    #[schemars(range(min = -200.0, max = 100.0))]
    pub power_dbm: f64,
    /// Mean holding time. No default.
    pub hold: Span,
}

fn sensitivity() -> f64 {
    -92.0
}

fn step() -> f64 {
    3.0
}

fn slope() -> f64 {
    1.0
}
