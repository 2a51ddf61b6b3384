//! Refusal of files that a scenario names.
//!
//! Those of the machine that runs it are not its author's to read.

use bentpipe_scenario::{Document, Scenario};
use toml_edit::{DocumentMut, Item, TableLike, Value};

/// Returns the first key named `file` in a TOML text.
pub fn named_file(text: &str) -> Option<String> {
    let document: DocumentMut = text.parse().ok()?;
    file_in(document.as_table())
}

fn file_in(table: &dyn TableLike) -> Option<String> {
    table.iter().find_map(|(key, item)| {
        // A sweep has whole keys, with their dots in quotes.
        let is_file = key.rsplit('.').next().is_some_and(|last| last.trim_matches(['"', ' ']) == "file");
        let names = is_file && (item.is_value() && !item.is_inline_table());
        if names { Some(key.to_owned()) } else { file_in_item(item).map(|inner| format!("{key}.{inner}")) }
    })
}

fn file_in_item(item: &Item) -> Option<String> {
    match item {
        Item::Value(value) => file_in_value(value),
        Item::ArrayOfTables(list) => list.iter().find_map(|table| file_in(table)),
        other => file_in(other.as_table_like()?),
    }
}

fn file_in_value(value: &Value) -> Option<String> {
    match value {
        Value::InlineTable(table) => file_in(table),
        Value::Array(list) => list.iter().find_map(file_in_value),
        _ => None,
    }
}

/// Returns `true` if a scenario names a file, by any name of the key.
pub fn has_file(scenario: &Scenario) -> bool {
    in_json(&serde_json::to_value(scenario).unwrap_or_default())
}

fn in_json(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Object(table) => {
            table.get("file").is_some_and(|file| file.is_string()) || table.values().any(in_json)
        }
        serde_json::Value::Array(list) => list.iter().any(in_json),
        _ => false,
    }
}

/// Checks a scenario that came from a controller.
///
/// # Errors
/// Returns its errors, or the key by which it names a file.
pub(crate) fn check_scenario(text: &str) -> Result<(), String> {
    if let Some(key) = named_file(text) {
        return Err(format!("scenario: {key}: files of the site cannot be named"));
    }
    let document = Document::parse("scenario.toml", text.as_bytes()).map_err(|error| error.to_string())?;
    let scenario = document.scenario().map_err(|error| error.to_string())?;
    match has_file(&scenario) {
        true => Err("scenario: files of the site cannot be named".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_every_form() {
        for bad in [
            "[a]\nfile = \"x\"",
            "a = { b = [{ file = \"x\" }] }",
            "[[a]]\nfile = \"x\"",
            "[sweep]\n\"a.file\" = [\"x\", \"y\"]",
            "a.file = \"x\"",
        ] {
            assert!(named_file(bad).is_some(), "{bad}");
        }
        assert_eq!(named_file("[node.file]\nkind = \"host\""), None);
        assert!(
            check_scenario("[link.l]\nfile = \"/etc/shadow\"").is_err_and(|why| why.contains("link.l.file"))
        );
    }
}
