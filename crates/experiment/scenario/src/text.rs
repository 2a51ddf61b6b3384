//! Scenarios as text of files.
//!
//! The crates above take it from here: a serialiser is compiled for each type of a scenario, several hundred, where it is called.

use serde_json::Value;

use crate::Scenario;

impl Scenario {
    /// Returns the scenario as JSON.
    ///
    /// # Errors
    /// Returns an error if a value has no form in JSON.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(self)
    }

    /// Returns the text of a scenario file.
    ///
    /// # Errors
    /// Returns an error if a value has no form in TOML, such as an integer of more than 63 bits.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        let mut value = self.to_json().map_err(<toml::ser::Error as serde::ser::Error>::custom)?;
        remove_nulls(&mut value);
        toml::to_string_pretty(&value)
    }
}

/// Removes keys without a value, which TOML cannot have.
fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(table) => {
            table.retain(|_, value| !value.is_null());
            table.values_mut().for_each(remove_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_without_a_value_are_left_out() {
        let mut value = json!({ "a": null, "b": [{ "c": null, "d": 1.0 }], "e": "null" });
        remove_nulls(&mut value);
        assert_eq!(value, json!({ "b": [{ "d": 1.0 }], "e": "null" }));
    }
}
