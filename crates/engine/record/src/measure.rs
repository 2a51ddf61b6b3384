//! Numbers that a run gave.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definitions::{first, is_first};

/// Measured number of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// Name: "flow.cubic.goodput".
    pub name: String,
    /// Unit: "bit/s".
    pub unit: String,
    /// Value, always finite.
    pub value: f64,
    /// Version of the definitions with which its present meaning began; 1 if it is absent.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub since: u32,
}

impl Measure {
    /// Creates a measure; returns `None` if its value is not finite.
    pub fn new(name: impl Into<String>, unit: &str, value: f64) -> Option<Measure> {
        let measure = || Measure { name: name.into(), unit: unit.to_owned(), value, since: first() };
        value.is_finite().then(measure)
    }

    /// Returns the measure as one whose meaning began with this version of the definitions.
    #[must_use]
    pub fn since(self, version: u32) -> Measure {
        Measure { since: version, ..self }
    }
}
