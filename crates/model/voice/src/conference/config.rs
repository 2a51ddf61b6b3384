//! Settings of bridges and of the legs to their members.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call;

/// Bridge of a conference, which mixes the voice of its members. They are flows of `conference` traffic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline, rename = "ConferenceRole")]
pub struct Role {
    /// Sources of a mix. Default: "loudest".
    #[serde(default)]
    pub mixing: Mixing,
    /// Lists up to 15 sources in the RTP header of a mix (RFC 3550). Default: true.
    #[serde(default = "yes")]
    pub contributors: bool,
}

/// Sources of a mix, of which a member's own voice is never one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mixing {
    /// Sum of all members.
    Linear,
    /// Sum of the three loudest.
    #[default]
    Loudest,
}

impl Mixing {
    /// Returns the maximum number of sources.
    pub fn most(self) -> usize {
        match self {
            Mixing::Linear => usize::MAX,
            Mixing::Loudest => 3,
        }
    }
}

/// Members of a conference at a node, `count` of them, and their bridge at `from`.
///
/// Each has RTP and RTCP from and to the bridge. /// Speech "p59" is one conversation of all members in turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Legs(pub call::Config);

const fn yes() -> bool {
    true
}
