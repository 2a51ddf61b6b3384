//! Files that a scenario names.
//!
//! Those of the machine that runs it are not its author's to read.

use bentpipe_scenario::{Document, Scenario};
use toml_edit::{DocumentMut, Item, TableLike, Value};

/// Keys whose texts are names of files.
const FILE_KEYS: [&str; 3] = ["file", "samples", "sizes"];

/// File keys that have numbers elsewhere, such as sizes of pictures.
const NUMBERS_TOO: [&str; 2] = ["samples", "sizes"];

/// Returns all names of files in a TOML text, each with its key.
///
/// A value other than a text stands for a name that no file has.
pub fn named_files(text: &str) -> Vec<(String, String)> {
    let document: DocumentMut = text.parse().unwrap_or_default();
    let mut found = Vec::new();
    files_in(document.as_table(), "", &mut found);
    found
}

/// Returns `true` if a key's value is the name of a file. A sweep has whole keys, with their dots in quotes.
pub fn is_file_key(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key).trim_matches(['"', '\'', ' ']);
    FILE_KEYS.contains(&last)
}

fn files_in(table: &dyn TableLike, prefix: &str, found: &mut Vec<(String, String)>) {
    for (key, item) in table.iter() {
        let whole = format!("{prefix}{key}");
        match item.as_value().filter(|_| is_file_key(key)) {
            Some(value) => file_names(key, &whole, value, found),
            None => files_in_item(item, &whole, found),
        }
    }
}

fn file_names(key: &str, whole: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(name) => found.push((whole.to_owned(), name.value().clone())),
        Value::Array(list) => list.iter().for_each(|value| file_names(key, whole, value, found)),
        Value::InlineTable(table) => files_in(table, &format!("{whole}."), found),
        _ if !NUMBERS_TOO.contains(&key) => found.push((whole.to_owned(), String::new())),
        _ => {}
    }
}

fn files_in_item(item: &Item, key: &str, found: &mut Vec<(String, String)>) {
    match item {
        Item::Value(value) => files_in_value(value, key, found),
        Item::ArrayOfTables(list) => {
            list.iter().for_each(|table| files_in(table, &format!("{key}."), found));
        }
        other => {
            if let Some(table) = other.as_table_like() {
                files_in(table, &format!("{key}."), found);
            }
        }
    }
}

fn files_in_value(value: &Value, key: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::InlineTable(table) => files_in(table, &format!("{key}."), found),
        Value::Array(list) => list.iter().for_each(|value| files_in_value(value, key, found)),
        _ => {}
    }
}

/// Most bytes of the name of a file that a scenario names.
const MAX_NAME: usize = 100;

/// Returns `true` if scenarios can name a file so.
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(plain)
        && !name.eq_ignore_ascii_case("scenario.toml")
}

/// Returns `true` if an assignment of a key names a file.
pub fn names_file(assignment: &str) -> bool {
    let key = assignment.split_once('=').map_or(assignment, |(key, _)| key);
    is_file_key(key) || !named_files(assignment).is_empty()
}

/// Returns `true` if a scenario names another file than these.
///
/// Older names of keys are read too.
pub fn has_other_file(scenario: &Scenario, names: &[String]) -> bool {
    is_in(&scenario.to_json().unwrap_or_default(), names)
}

fn is_in(value: &serde_json::Value, names: &[String]) -> bool {
    match value {
        serde_json::Value::Object(table) => {
            let is_other = |name: &str| !names.iter().any(|known| known == name);
            let named = FILE_KEYS.iter().filter_map(|key| table.get(*key)?.as_str());
            named.into_iter().any(is_other) || table.values().any(|value| is_in(value, names))
        }
        serde_json::Value::Array(list) => list.iter().any(|value| is_in(value, names)),
        _ => false,
    }
}

/// Checks a scenario that came from a controller.
///
/// # Errors
/// Returns its errors, or the key by which it names a file that was not given.
pub(crate) fn check_scenario(text: &str, given: &[String]) -> Result<(), String> {
    if let Some((key, _)) = named_files(text).iter().find(|(_, name)| !given.contains(name)) {
        return Err(format!("scenario: {key}: files of the site cannot be named"));
    }
    let document = Document::parse("scenario.toml", text.as_bytes()).map_err(|error| error.to_string())?;
    let scenario = document.scenario().map_err(|error| error.to_string())?;
    match has_other_file(&scenario, given) {
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
            "a = { model = { sizes = \"x\" } }",
        ] {
            assert!(!named_files(bad).is_empty(), "{bad}");
        }
        assert!(named_files("[node.file]\nkind = \"host\"").is_empty());
        assert!(
            check_scenario("[link.l]\nfile = \"/etc/shadow\"", &[])
                .is_err_and(|why| why.contains("link.l.file"))
        );
    }
}
