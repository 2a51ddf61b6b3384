//! Parameters that vary from run to run.

use std::borrow::Cow;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The axes of a sweep by their names, in the order of the file. Every value of one is combined with every value of
/// the others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sweep(pub IndexMap<String, Axis>);

/// Keys that vary together. One value of each makes a point on the axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Axis {
    /// The axis is named by the only key that varies.
    Key(Vec<serde_json::Value>),
    /// Several keys in step; their lists are of one length.
    Together(IndexMap<String, Vec<serde_json::Value>>),
}

impl Sweep {
    /// Returns `true` if no parameter varies.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl JsonSchema for Sweep {
    fn schema_name() -> Cow<'static, str> {
        "Sweep".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let list = json_schema!({ "type": "array", "minItems": 1, "description": "the values, one after the other" });
        let range = json_schema!({
            "type": "string",
            "description": "a range: \"FIRST to LAST by STEP\", or \"FIRST to LAST times FACTOR\"",
            "pattern": " to .+ (by|times) "
        });
        json_schema!({
            "type": "object",
            "description": "What to vary from run to run. Each entry is a dotted key of this file with the list of its values \
                (`\"link.satellite.delay\" = [\"10 ms\", \"270 ms\"]`) or a range of them (`\"flow.call.count\" = \"1 to 20 by 1\"`, \
                `\"link.satellite.rate\" = \"1 to 64 Mbit/s times 2\"`); every value of one is combined with every value of \
                the others. A table `[sweep.NAME]` of such entries varies its keys in step.",
            "additionalProperties": {
                "anyOf": [list, range, { "type": "object", "description": "keys that vary in step, or part of a dotted key" }]
            }
        })
    }
}
