//! Refusals with the key that they are about.

use bentpipe_net::InvalidConfig;

/// Error returned when a network cannot be built: a scenario key and its problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct Problem {
    /// Dotted key.
    pub key: String,
    /// Description of the error and of the expected value.
    pub problem: String,
}

impl Problem {
    /// Creates the refusal of the value at `key`.
    pub fn new(key: impl Into<String>, problem: impl Into<String>) -> Problem {
        Problem { key: key.into(), problem: problem.into() }
    }

    /// Creates the refusal that an element gives of its configuration at `key`.
    pub fn impossible(key: &str, impossible: &InvalidConfig) -> Problem {
        Problem::new(format!("{key}.{}", impossible.path()), format!("expected {}", impossible.expected))
    }
}
