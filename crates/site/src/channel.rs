//! Faults of a direction as files write them.

use bentpipe_net::channel::Config;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Impairments of packets: one fault, or several in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Channel {
    /// Single fault.
    One(Config),
    /// Several, in the order that packets meet them.
    Several(Vec<Config>),
}

impl Channel {
    /// Returns the faults in the order that packets meet them.
    pub fn faults(&self) -> &[Config] {
        match self {
            Channel::One(fault) => std::slice::from_ref(fault),
            Channel::Several(faults) => faults,
        }
    }
}
