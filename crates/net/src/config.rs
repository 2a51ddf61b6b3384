//! What is wrong with a configuration that has the right form.

/// A value that an element cannot be built with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}")]
pub struct Impossible {
    /// The key that holds the value, as in a scenario file.
    pub key: &'static str,
    /// What would be right.
    pub expected: &'static str,
}

impl Impossible {
    /// Nothing if `holds`, otherwise what was expected of `key`.
    pub(crate) fn unless(holds: bool, key: &'static str, expected: &'static str) -> Result<(), Impossible> {
        if holds { Ok(()) } else { Err(Impossible { key, expected }) }
    }
}

/// Refuses what is not a probability.
pub(crate) fn probability(value: f64, key: &'static str) -> Result<f64, Impossible> {
    Impossible::unless((0.0..=1.0).contains(&value), key, "a probability from 0 to 1").map(|()| value)
}
