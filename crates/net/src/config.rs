//! Validation of configurations that have the right form.

/// A value that an element cannot be built with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}")]
pub struct Impossible {
    /// The key that holds the value, as in a scenario file.
    pub key: &'static str,
    /// Expected value.
    pub expected: &'static str,
}

impl Impossible {
    /// Checks a condition on the value of `key`.
    ///
    /// # Errors
    /// Returns an error if the condition does not hold.
    #[inline]
    pub fn unless(holds: bool, key: &'static str, expected: &'static str) -> Result<(), Impossible> {
        if holds { Ok(()) } else { Err(Impossible { key, expected }) }
    }
}

/// Checks that the value of `key` is a probability and returns it.
///
/// # Errors
/// Returns an error if it is not between 0 and 1.
#[inline]
pub fn probability(value: f64, key: &'static str) -> Result<f64, Impossible> {
    Impossible::unless((0.0..=1.0).contains(&value), key, "a probability from 0 to 1").map(|()| value)
}
