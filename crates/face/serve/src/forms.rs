//! Forms of scenario sections, generated from the JSON Schema. Changes go into the text in place.

mod fields;
mod outline;
mod submit;

pub(crate) use fields::{Branch, Field, Kind};
pub(crate) use outline::{Outline, columns, outline};
pub(crate) use submit::apply;

use toml_edit::{DocumentMut, Item};

/// Sections of a scenario that have a form for each of their entries.
pub(crate) const SECTIONS: &[(&str, &str)] = &[
    ("node", "Node"),
    ("link", "Link"),
    ("carrier", "Return-link carrier"),
    ("dvb", "DVB carrier"),
    ("cell", "WiMAX cell"),
    ("dtn", "Network of bundles"),
    ("tunnel", "Tunnel"),
    ("group", "Multicast group"),
    ("flow", "Flow"),
];

/// Tables of a scenario that have one form.
pub(crate) const SINGLE: &[(&str, &str)] = &[("atm", "ATM network"), ("probe", "Recorded data")];

/// Returns `true` if a form has this path.
pub(crate) fn is_path(path: &[String]) -> bool {
    let is_in = |list: &[(&str, &str)], name: &str| list.iter().any(|(known, _)| *known == name);
    match path {
        [] => true,
        [table] => is_in(SINGLE, table),
        [section, name] => is_in(SECTIONS, section) && !name.is_empty() && name.len() <= 100,
        _ => false,
    }
}

/// Returns the names of a section's entries, in the order of the text.
fn names(document: &DocumentMut, section: &str) -> Vec<String> {
    let table = document.get(section).and_then(Item::as_table_like);
    table.map(|table| table.iter().map(|(name, _)| name.to_owned()).collect()).unwrap_or_default()
}

/// Returns a value of the text as a short text for tables.
fn short(document: &DocumentMut, path: &[&str]) -> String {
    let mut item: &Item = document.as_item();
    for part in path {
        match item.as_table_like().and_then(|table| table.get(part)) {
            Some(next) => item = next,
            None => return String::new(),
        }
    }
    if let Some(kind) = item.as_table_like().and_then(|table| table.get("kind")?.as_str()) {
        return kind.to_owned();
    }
    let words: Option<Vec<&str>> =
        item.as_array().map(|list| list.iter().filter_map(|one| one.as_str()).collect());
    match (item.as_str(), words) {
        (Some(text), _) => text.to_owned(),
        (None, Some(words)) if !words.is_empty() => words.join(", "),
        _ => item.as_value().map(|value| value.to_string().trim().to_owned()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
