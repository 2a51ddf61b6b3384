//! Backlog that a terminal includes in its requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Waiting bytes that a request for a rate (RBDC) includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backlog {
    /// Bytes that earlier requests do not cover.
    Unasked,
    /// The entire backlog.
    Whole,
    /// No waiting bytes: the request is the arrival rate.
    Ignored,
}
