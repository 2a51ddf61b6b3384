//! Entries and values of a text, as pages show them. A child makes them: a tree takes far more memory than its text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fields::{Field, fields};
use super::{SECTIONS, names, short};
use crate::drafts;

/// Most entries of a section that a page lists.
pub(crate) const MAX_ENTRIES: usize = 2000;
/// Most characters of a value in a list, and of a sweep.
const MAX_VALUE: usize = 60;
const MAX_SWEEP: usize = 20_000;

/// Outline of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outline {
    /// Entries of each section that has some.
    pub(crate) sections: BTreeMap<String, Entries>,
    /// Names of the tables and keys of the text.
    pub(crate) keys: Vec<String>,
    /// Sweep as TOML; may be empty.
    pub(crate) sweep: String,
    /// Fields of the form that was asked for.
    ///
    /// `None` if the text has no such entry.
    pub(crate) fields: Option<Vec<Field>>,
}

/// Entries of a section.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entries {
    /// Names of the first ones with their values in the [`columns`] of the section.
    pub(crate) first: Vec<(String, Vec<String>)>,
    /// Number of all.
    pub(crate) count: usize,
}

/// Returns the keys whose values a section's list shows.
pub(crate) fn columns(section: &str) -> &'static [&'static str] {
    match section {
        "node" => &["kind", "role"],
        "link" => &["between", "rate", "delay", "queue"],
        "flow" => &["from", "to", "traffic"],
        _ => &["kind"],
    }
}

/// Returns the outline of a text, and the fields of a form. A text that is not TOML has none.
pub(crate) fn outline(text: &str, form: Option<&[String]>) -> Outline {
    let document = drafts::parsed_text(text).unwrap_or_default();
    let entries = |section: &str| {
        let names = names(&document, section);
        let values = |name: &String| {
            let short = |column: &&str| shortened(&short(&document, &[section, name, column]), MAX_VALUE);
            (name.clone(), columns(section).iter().map(short).collect())
        };
        Entries { count: names.len(), first: names.iter().take(MAX_ENTRIES).map(values).collect() }
    };
    let is_there = |path: &[String]| match path {
        [section, name] => names(&document, section).contains(name),
        _ => true,
    };
    let sections = SECTIONS.iter().map(|(section, _)| ((*section).to_owned(), entries(section)));
    Outline {
        sections: sections.filter(|(_, entries)| entries.count > 0).collect(),
        keys: document.iter().map(|(key, _)| key.to_owned()).take(MAX_ENTRIES).collect(),
        sweep: shortened(&document.get("sweep").map(ToString::to_string).unwrap_or_default(), MAX_SWEEP),
        fields: form.filter(|path| is_there(path)).map(|path| fields(&document, path)),
    }
}

fn shortened(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most - 1).chain(['\u{2026}']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outline_has_what_pages_show_and_is_short() {
        let text = "title = \"x\"\n[node.a]\n[node.b]\n[link.l]\nbetween = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\n\
                    [sweep]\n\"link.l.rate\" = [1]\n";
        let form = ["link".to_owned(), "l".to_owned()];
        let found = outline(text, Some(&form));
        assert_eq!(
            found.sections["link"].first,
            [("l".to_owned(), ["a, b", "1 Mbit/s", "", ""].map(str::to_owned).to_vec())]
        );
        assert_eq!(
            (found.sections["node"].count, &found.keys[..]),
            (2, &["title", "node", "link", "sweep"].map(str::to_owned)[..])
        );
        assert!(found.sweep.contains("link.l.rate") && found.fields.is_some_and(|fields| !fields.is_empty()));
        assert_eq!(outline(text, Some(&["link".to_owned(), "m".to_owned()])).fields, None);
        assert_eq!(outline("x = ", None), Outline::default());
        let many: String =
            (0..5000).map(|n| format!("[node.n{n}]\nkind = \"{}\"\n", "k".repeat(n / 50))).collect();
        let long = outline(&many, None);
        assert_eq!((long.sections["node"].count, long.sections["node"].first.len()), (5000, MAX_ENTRIES));
        assert!(long.sections["node"].first.iter().all(|(_, values)| values[0].chars().count() <= MAX_VALUE));
    }
}
