//! How a link's delay changes.

use std::path::PathBuf;

use bentpipe_net::link::DelayChange;
use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a line's delay changes during the run: as a satellite moves, or a handover takes another one. Before the first change
/// the line has its `delay`, and routes go by that. Nothing overtakes on a line whose delay shrinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DelayChanges {
    /// File of the changes, CSV: a head that names the columns `time` and `delay`, then a line for each change, times
    /// rising. Cells are quantities ("12.5 s", "31 ms"), or numbers where the head names the unit (`time_s,delay_ms`; also
    /// `us`, `ns`). Lines that begin with `#` and other columns are passed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The changes themselves, instead of a file, times rising.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<DelayChange>,
    /// Lets the delay go from each value to the next in a straight line, in steps of this time. Without it, it changes at
    /// once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Span>,
}
