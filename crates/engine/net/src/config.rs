//! Validation of configurations that have the right form.

use std::borrow::Cow;
use std::fmt;

/// A value that an element cannot be built with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: expected {expected}", self.path())]
pub struct InvalidConfig {
    /// The key that holds the value, as in a scenario file.
    pub key: &'static str,
    /// Expected value.
    pub expected: &'static str,
    /// Keys of the tables and lists around it, dotted.
    outer: String,
}

impl InvalidConfig {
    /// Creates the refusal of the value of `key`.
    pub const fn new(key: &'static str, expected: &'static str) -> InvalidConfig {
        InvalidConfig { key, expected, outer: String::new() }
    }

    /// Returns the same refusal, for a configuration in the table or list `outer`.
    #[must_use]
    pub fn inside(self, outer: impl fmt::Display) -> InvalidConfig {
        let dot = if self.outer.is_empty() { "" } else { "." };
        InvalidConfig { outer: format!("{outer}{dot}{}", self.outer), ..self }
    }

    /// Returns the dotted path of the key: "rohc.contexts", "filter.2.dscp".
    pub fn path(&self) -> Cow<'static, str> {
        match self.outer.as_str() {
            "" => Cow::Borrowed(self.key),
            outer => Cow::Owned(format!("{outer}.{}", self.key)),
        }
    }

    /// Checks a condition on the value of `key`.
    ///
    /// # Errors
    /// Returns an error if the condition does not hold.
    #[inline]
    pub fn ensure(holds: bool, key: &'static str, expected: &'static str) -> Result<(), InvalidConfig> {
        if holds { Ok(()) } else { Err(InvalidConfig::new(key, expected)) }
    }
}

/// Checks that the value of `key` is a probability and returns it.
///
/// # Errors
/// Returns an error if it is not between 0 and 1.
#[inline]
pub fn probability(value: f64, key: &'static str) -> Result<f64, InvalidConfig> {
    InvalidConfig::ensure((0.0..=1.0).contains(&value), key, "a probability from 0 to 1").map(|()| value)
}

#[cfg(test)]
mod tests {
    use super::InvalidConfig;

    #[test]
    fn a_nested_key_has_the_keys_around_it() {
        let refusal = InvalidConfig::new("dscp", "0 to 63");
        assert_eq!((refusal.path().as_ref(), refusal.key), ("dscp", "dscp"));
        let refusal = refusal.inside(2).inside("filter");
        assert_eq!((refusal.path().as_ref(), refusal.key), ("filter.2.dscp", "dscp"));
        assert_eq!(refusal.to_string(), "filter.2.dscp: expected 0 to 63");
    }
}
