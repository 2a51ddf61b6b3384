//! Which controller, with which parameters: what a scenario file says.

use std::fmt;
use std::str::FromStr;

use crate::{Connection, Controller, hybla, new_reno};

/// Every controller's name and what it is in a line.
pub const NAMES: &[(&str, &str)] = &[
    ("newreno", "the standard law (RFC 5681): one segment more in a round trip, half after a loss"),
    ("hybla", "the growth of a short path on a long one (Caini & Firrincieli 2004)"),
];

/// A controller and its parameters. In files a name (`"cubic"`), or a table with the name and what differs from the
/// defaults (`{ name = "cubic", fast_convergence = false }`).
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "name", rename_all = "lowercase"))]
pub enum Choice {
    /// New Reno.
    NewReno(new_reno::Params),
    /// Hybla.
    Hybla(hybla::Params),
}

impl Default for Choice {
    fn default() -> Choice {
        Choice::NewReno(new_reno::Params::default())
    }
}

impl Choice {
    /// The controller of one connection.
    pub fn build(&self, connection: &Connection) -> Box<dyn Controller> {
        match self {
            Choice::NewReno(params) => Box::new(params.build(connection)),
            Choice::Hybla(params) => Box::new(params.build(connection)),
        }
    }

    /// The name as in [`NAMES`].
    pub fn name(&self) -> &'static str {
        match self {
            Choice::NewReno(_) => "newreno",
            Choice::Hybla(_) => "hybla",
        }
    }
}

/// A name that is not in [`NAMES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String);

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown congestion controller \"{}\": expected one of ", self.0)?;
        for (i, (name, _)) in NAMES.iter().enumerate() {
            write!(f, "{}{name}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownName {}

impl FromStr for Choice {
    type Err = UnknownName;

    /// The controller of that name with its defaults.
    fn from_str(name: &str) -> Result<Choice, UnknownName> {
        match name {
            "newreno" => Ok(Choice::NewReno(Default::default())),
            "hybla" => Ok(Choice::Hybla(Default::default())),
            // The text is somebody's file: an error shows no more than a line of it.
            _ => Err(UnknownName(name.chars().take(60).collect())),
        }
    }
}
