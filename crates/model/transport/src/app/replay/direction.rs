//! Direction of a capture that is replayed.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Direction of a capture that is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Direction {
    /// The one with more bytes, of each two addresses.
    #[default]
    Data,
    /// Both, each by its end.
    Both,
    /// Both, by the sender.
    All,
    /// That of packets from an address.
    From(IpAddr),
}

impl TryFrom<String> for Direction {
    type Error = String;

    fn try_from(text: String) -> Result<Direction, String> {
        match &*text {
            "data" => Ok(Direction::Data),
            "both" => Ok(Direction::Both),
            "all" => Ok(Direction::All),
            other => {
                let expected =
                    || format!("expected \"data\", \"both\", \"all\" or an address, got \"{other}\"");
                other.parse().map(Direction::From).map_err(|_| expected())
            }
        }
    }
}

impl From<Direction> for String {
    fn from(direction: Direction) -> String {
        match direction {
            Direction::Data => "data".to_owned(),
            Direction::Both => "both".to_owned(),
            Direction::All => "all".to_owned(),
            Direction::From(source) => source.to_string(),
        }
    }
}
