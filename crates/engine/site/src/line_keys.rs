//! Keys of a line, given in a link, in a direction, or in a medium.

use std::path::PathBuf;

use bentpipe_net::Framing;
use bentpipe_net::link::DelayChange;
use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Line of a rate. Its keys may also be given in the link or direction itself, without `medium`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LineKeys {
    /// Line rate, framing included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub rate: Option<Rate>,
    /// Framing of packets, which determines their wire size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub framing: Option<Framing>,
    /// Changes of the delay during the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_changes: Option<DelayChanges>,
}

/// Changes of a line's delay during the run, by a satellite's movement or handover.
///
/// Before the first change the line has its `delay`, which routes use. Order is preserved when the delay
/// shrinks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DelayChanges {
    /// CSV file of the changes, with columns `time` and `delay`, times rising.
    ///
    /// Cells are quantities ("12.5 s", "31 ms"), or numbers where the head names the unit (`time_s,delay_ms`;
    /// also `us`, `ns`). Lines that begin with `#` and other columns are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// The changes themselves, instead of a file, times rising.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<DelayChange>,
    /// Step of a linear ramp from each value to the next. Default: no ramp, each change is a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Span>,
}

impl LineKeys {
    /// Returns the framing.
    pub fn framing(&self) -> Framing {
        self.framing.unwrap_or_default()
    }
}
