//! Tables of a scenario file and their kinds, found by walking the schema.

use serde_json::Value as Json;

use super::describe::{Description, Field, is_changeable, text};
use crate::SCHEMA;
use crate::check::{join, tag};

/// Table of a scenario file, or one of its kinds.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The last part of its key, or its kind: "link", "queue", "red".
    pub name: String,
    /// Dotted key with placeholders in capitals: "link.NAME.queue".
    pub at: String,
    /// The key whose word chooses this kind, if it is one: ("kind", "red").
    pub chosen_by: Option<(String, String)>,
    /// Description.
    pub about: String,
    /// Set if it may change as a whole while an emulation runs.
    changeable: bool,
    fields: Vec<Field>,
}

impl Entry {
    /// Returns the name; for a kind with its place: "red (link.NAME.queue)".
    pub(super) fn title(&self) -> String {
        match &self.chosen_by {
            Some(_) => format!("{} ({})", self.name, self.at),
            None => self.at.clone(),
        }
    }

    /// Returns `true` for a congestion controller. These are listed separately.
    pub(super) fn is_controller(&self) -> bool {
        self.chosen_by.is_some() && self.at.ends_with(".controller")
    }

    /// Returns the keys that it declares.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.key.as_str())
    }

    /// Returns the keys that may change in a table which may not as a whole.
    pub(super) fn changeable(&self) -> impl Iterator<Item = String> {
        let fields = self.fields.iter().filter(|field| field.changeable && !self.changeable);
        fields.map(|field| join(&self.at, &field.key))
    }

    pub(super) fn description(&self) -> Description {
        let Entry { at, chosen_by, about, fields, .. } = self.clone();
        Description { at, chosen_by, about, fields }
    }
}

/// Deeper than the deepest table.
const MAX_DEPTH: usize = 12;

/// Returns all tables and kinds, outermost first. Roles of nodes are last, as they repeat tables of flows.
pub(super) fn entries() -> Vec<Entry> {
    let mut walk = Walk { entries: Vec::new(), changeable: false };
    walk.table(SCHEMA.root(), "scenario", "", None, 0);
    walk.entries.sort_by_key(|entry| entry.at.starts_with("node.NAME.role"));
    walk.entries
}

/// Returns the descriptions of `name`: kinds and tables, or else single fields.
///
/// Of several places with the same keys the first one is shown, a flow's before others.
pub(super) fn find(entries: &[Entry], name: &str) -> Vec<Description> {
    let wanted = plain(name);
    let mut entries: Vec<&Entry> = entries.iter().collect();
    entries.sort_by_key(|entry| !entry.at.starts_with("flow."));
    let whole = entries
        .iter()
        .filter(|entry| entry.name == name || (!entry.at.is_empty() && plain(&entry.at) == wanted));
    // A table with kinds is described by them; the parts in both directions of a link are the same.
    let mut found: Vec<Description> = Vec::new();
    for description in whole.map(|entry| entry.description()) {
        let known = found
            .iter()
            .any(|one| one.chosen_by == description.chosen_by && one.fields == description.fields);
        if !known {
            found.push(description);
        }
    }
    // A key may be a field of one table and a table itself: both are shown.
    let fields =
        fields(&entries, &wanted).into_iter().filter(|field| found.is_empty() || !field.at.is_empty());
    let fields: Vec<Description> = fields.collect();
    found.extend(fields);
    found
}

fn fields(entries: &[&Entry], wanted: &str) -> Vec<Description> {
    let mut found: Vec<Description> = Vec::new();
    for entry in entries {
        let is_meant = |field: &&Field| field.key == wanted || plain(&join(&entry.at, &field.key)) == wanted;
        let meant: Vec<Field> = entry.fields.iter().filter(is_meant).cloned().collect();
        let known = found.iter().any(|one| one.fields == meant);
        if !meant.is_empty() && !known {
            found.push(Description { fields: meant, ..entry.description() });
        }
    }
    found
}

/// Returns a key without the places of names: "link.queue".
fn plain(key: &str) -> String {
    key.split('.').filter(|part| *part != "NAME").collect::<Vec<_>>().join(".")
}

struct Walk {
    entries: Vec<Entry>,
    /// Set inside of a table that may change as a whole while an emulation runs.
    changeable: bool,
}

impl Walk {
    fn table(
        &mut self,
        schema: &Json,
        name: &str,
        at: &str,
        chosen_by: Option<(String, String)>,
        depth: usize,
    ) {
        let resolved = SCHEMA.resolve(schema);
        let about = text(schema).or_else(|| text(resolved)).unwrap_or_default();
        let properties = SCHEMA.properties(schema);
        let own = SCHEMA.properties(resolved);
        let properties = if properties.is_empty() { own } else { properties };
        let required = |key: &str| has(schema, key) || has(resolved, key);
        let fields = properties.iter().filter(|(_, property)| property.get("const").is_none());
        let fields = fields.map(|(key, property)| Field::new(key, property, required(key), self.changeable));
        self.entries.push(Entry {
            name: name.to_owned(),
            at: at.to_owned(),
            chosen_by,
            about,
            changeable: self.changeable,
            fields: fields.collect(),
        });
        if depth < MAX_DEPTH {
            for (key, property) in properties {
                let outer = self.changeable;
                self.changeable |= is_changeable(property);
                self.property(key, property, &join(at, key), depth + 1);
                self.changeable = outer;
            }
        }
    }

    fn property(&mut self, key: &str, schema: &Json, at: &str, depth: usize) {
        let choices = SCHEMA.alternatives(schema);
        let mut tables: Vec<&Json> = choices.iter().copied().filter(|choice| is_table(choice)).collect();
        if tables.is_empty() {
            // The items of a list; a list that may be a single table is described already.
            let items = choices.iter().filter_map(|choice| choice.get("items"));
            tables.extend(items.flat_map(|items| SCHEMA.alternatives(items)).filter(|item| is_table(item)));
        }
        let kinds = tables.len() > 1 || tables.first().is_some_and(|table| tag(table).is_some());
        for table in tables {
            match tag(table).filter(|_| kinds) {
                Some(tag) => {
                    let word = table["properties"][tag]["const"].as_str().unwrap_or_default();
                    self.table(table, word, at, Some((tag.to_owned(), word.to_owned())), depth);
                }
                None => self.named_or_plain(table, key, at, depth, schema),
            }
        }
    }

    /// Visits a table of named tables (`link.NAME`), or a plain one.
    fn named_or_plain(&mut self, table: &Json, key: &str, at: &str, depth: usize, outer: &Json) {
        match table.get("additionalProperties").filter(|inner| inner.get("$ref").is_some()) {
            Some(inner) if SCHEMA.alternatives(inner).iter().any(|choice| tag(choice).is_some()) => {
                self.property(key, inner, &join(at, "NAME"), depth);
            }
            Some(inner) => self.table(inner, key, &join(at, "NAME"), None, depth),
            None if SCHEMA.properties(table).is_empty() => {
                let about = text(outer).or_else(|| text(table)).unwrap_or_default();
                self.entries.push(Entry {
                    name: key.to_owned(),
                    at: at.to_owned(),
                    chosen_by: None,
                    about,
                    changeable: self.changeable,
                    fields: Vec::new(),
                });
            }
            None => self.table(table, key, at, None, depth),
        }
    }
}

fn has(schema: &Json, key: &str) -> bool {
    let required = schema.get("required").and_then(Json::as_array);
    required.is_some_and(|required| required.iter().any(|name| name == key))
}

fn is_table(schema: &Json) -> bool {
    schema.get("type") == Some(&Json::from("object")) || schema.get("properties").is_some()
}
