//! Keys of an event.

use std::path::PathBuf;

use bentpipe_units::Span;
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Maximum number of changes of all events, steps of ramps counted.
pub(crate) const MAX_CHANGES: usize = 10_000;

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
    /// Time from one start of the event to the next. Default: none, it happens once.
    ///
    /// `add` and `scale` take the values at each start: `{ "link.satellite.delay" = "1 ms" }` each minute adds up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Span>,
    /// Number of starts with `every`. Default: up to the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub times: Option<u32>,
}

impl Event {
    /// Returns the starts in a run of `duration`, one more than `most` at most.
    ///
    /// # Errors
    /// Returns the key and the problem of a repetition that does not advance or has no period.
    pub(crate) fn starts(
        &self,
        duration: Span,
        most: usize,
    ) -> Result<impl Iterator<Item = Span> + use<>, (&'static str, &'static str)> {
        match (self.every, self.times) {
            (None, Some(_)) => return Err(("times", "expected `every`, the time between two starts")),
            (Some(every), _) if every.is_zero() => return Err(("every", "expected more than no time")),
            _ => {}
        }
        let (at, is_counted) = (self.at, self.times.is_some() || self.every.is_none());
        let count = self.times.map_or(most.saturating_add(1), |times| times as usize);
        let count = if self.every.is_some() { count.min(most.saturating_add(1)) } else { 1 };
        let every = self.every.unwrap_or(Span::ZERO).as_nanos();
        let starts = (0..count as u64)
            .map_while(move |n| every.checked_mul(n)?.checked_add(at.as_nanos()).map(Span::from_nanos));
        Ok(starts.take_while(move |start| is_counted || *start < duration))
    }

    /// Returns the starts and ends of all its changes in a run of `duration`.
    pub fn instants(&self, duration: Span) -> impl Iterator<Item = Span> + use<> {
        let over = self.over.unwrap_or(Span::ZERO);
        let hold = self.hold;
        let of_start = move |at: Span| {
            let reached = at + over;
            let back = hold.map(|hold| [reached + hold, reached + hold + over]);
            [at, reached].into_iter().chain(back.into_iter().flatten())
        };
        self.starts(duration, MAX_CHANGES).into_iter().flatten().flat_map(of_start)
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
