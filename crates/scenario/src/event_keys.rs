//! Keys of an event.

use std::path::PathBuf;

use bentpipe_units::Span;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Change of settings at a time of the run, at once or along a ramp.
///
/// It takes the keys that `bentpipe set` takes. Packets in flight are not affected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Event {
    /// Time of the change or of its ramp's start. It counts from the start of the run. No default.
    pub at: Span,
    /// New values by dotted key: `{ "link.satellite.rate" = "2 Mbit/s" }`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(schema_with = "values_by_key")]
    pub set: IndexMap<String, serde_json::Value>,
    /// Amounts to add to the values at that time, by dotted key.
    ///
    /// They may be negative: `{ "link.satellite.delay" = "-20 ms" }`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(schema_with = "values_by_key")]
    pub add: IndexMap<String, serde_json::Value>,
    /// Factors for the values at that time, by dotted key: `{ "link.satellite.rate" = 0.5 }`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(schema_with = "values_by_key")]
    pub scale: IndexMap<String, serde_json::Value>,
    /// CSV file of values in time, in place of `set`, `add` and `scale`.
    ///
    /// The path is relative to the scenario's folder. Its first column is `time_s`, seconds from `at`; the others have a key each. A line sets all of them, an empty field nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Duration of a linear ramp to the new values. Default: none, the change is a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Span>,
    /// Time between the steps of the ramp. Default: a twentieth of `over`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Span>,
    /// Holding time of the new values, after which the old ones return. Default: the new ones stay.
    ///
    /// With `over`, they return along a ramp as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Span>,
}

impl Event {
    /// Returns the starts and ends of its changes.
    pub fn times(&self) -> impl Iterator<Item = Span> + use<> {
        let over = self.over.unwrap_or(Span::ZERO);
        let reached = self.at + over;
        let back = self.hold.map(|hold| [reached + hold, reached + hold + over]);
        [self.at, reached].into_iter().chain(back.into_iter().flatten())
    }
}

/// Returns the schema of a table of dotted keys and values.
fn values_by_key(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "additionalProperties": {
            "anyOf": [
                { "type": "string" }, { "type": "number" }, { "type": "boolean" }, { "type": "array" },
                { "type": "object", "description": "a table as value, or part of a dotted key" }
            ]
        }
    })
}
