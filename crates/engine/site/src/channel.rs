//! Faults of a direction as files write them.

use bentpipe_net::channel::Config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Impairments of packets: one fault, several in a row, or the word `none`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Channel {
    /// Single fault.
    One(Config),
    /// Several, in the order that packets meet them.
    Several(Vec<Config>),
    /// No fault.
    No(NoFault),
}

/// Word for a channel without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoFault {
    /// No fault.
    None,
}

impl Channel {
    /// Returns the faults in the order that packets meet them.
    pub fn faults(&self) -> &[Config] {
        match self {
            Channel::One(fault) => std::slice::from_ref(fault),
            Channel::Several(faults) => faults,
            Channel::No(NoFault::None) => &[],
        }
    }
}
