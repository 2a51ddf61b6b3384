//! Numbers that a run gave.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measured number of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// Name: "flow.cubic.goodput".
    pub name: String,
    /// Unit: "bit/s".
    pub unit: String,
    /// Value, always finite.
    pub value: f64,
}

impl Measure {
    /// Creates a measure; returns `None` if its value is not finite.
    pub fn new(name: impl Into<String>, unit: &str, value: f64) -> Option<Measure> {
        value.is_finite().then(|| Measure { name: name.into(), unit: unit.to_owned(), value })
    }
}
