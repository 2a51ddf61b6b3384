//! Describing a table: every field with its type and unit, default and meaning.

use std::fmt;

use serde::Serialize;
use serde_json::Value as Json;

use crate::SCHEMA;
use crate::check::{quantity, range, tag, types, words_of};

/// A table of a scenario file, or one of its kinds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// Dotted key: "link.NAME.queue".
    pub at: String,
    /// The key and the word that choose it.
    pub chosen_by: Option<(String, String)>,
    /// Description.
    pub about: String,
    /// Keys.
    pub fields: Vec<Field>,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Field {
    /// The key.
    pub key: String,
    /// Type of the value, with its unit. Examples: "time", "rate", "size", "true or false", "from 0 to 1",
    /// `"a" or "b"`.
    pub value: String,
    /// An example, for a quantity.
    pub example: Option<String>,
    /// Default value as in a file, if there is one.
    pub default: Option<String>,
    /// Set if the key is required.
    pub required: bool,
    /// Set if it may change while an emulation runs.
    pub changeable: bool,
    /// Meaning.
    pub meaning: String,
}

impl Field {
    /// Creates the field of a key. `inherited`: the table may change as a whole.
    pub(super) fn new(key: &str, schema: &Json, required: bool, inherited: bool) -> Field {
        let changeable = inherited || is_changeable(schema);
        let choices = SCHEMA.alternatives(schema);
        let example = choices.iter().find(|choice| quantity(choice).is_some());
        let example = example.and_then(|choice| Some(format!("\"{}\"", choice["examples"][0].as_str()?)));
        let default = schema.get("default").filter(|default| !default.is_null()).map(toml_text);
        let meaning = text(schema).or_else(|| text(SCHEMA.resolve(schema))).unwrap_or_default();
        let (key, value) = (key.to_owned(), sorts(schema));
        Field { key, value, example, default, required, changeable, meaning }
    }
}

/// Returns the possible types of a value, each once.
fn sorts(schema: &Json) -> String {
    let mut sorts: Vec<String> = Vec::new();
    for sort in SCHEMA.alternatives(schema).iter().map(|choice| sort(choice)).filter(|sort| !sort.is_empty())
    {
        if !sorts.contains(&sort) {
            sorts.push(sort);
        }
    }
    sorts.join(" or ")
}

/// Returns the type of a value in a few words.
fn sort(schema: &Json) -> String {
    let words = words_of(schema);
    if !words.is_empty() {
        return words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" or ");
    }
    match quantity(schema) {
        Some("Span") => return "time".to_owned(),
        Some("Rate") => return "rate".to_owned(),
        Some("Bytes") => return "size".to_owned(),
        _ => {}
    }
    let range = range(schema);
    let number = |sort: &str| if range.is_empty() { sort.to_owned() } else { format!("{sort} {range}") };
    match types(schema).first().copied() {
        Some("string") => "text".to_owned(),
        Some("integer") if schema.get("enum").is_some() => {
            let numbers = schema["enum"].as_array().into_iter().flatten().map(Json::to_string);
            numbers.collect::<Vec<_>>().join(" or ")
        }
        Some("integer") => number("whole number"),
        Some("number") => number("number"),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => format!("list of {}", schema.get("items").map_or_else(String::new, sorts)),
        // A kind is named in the table's own description.
        _ => tag(schema).map_or_else(|| "table".to_owned(), |tag| format!("table with `{tag}`")),
    }
}

/// Returns a default as a scenario file would write it.
fn toml_text(value: &Json) -> String {
    match value {
        Json::Object(table) if table.is_empty() => "{}".to_owned(),
        Json::Object(table) => {
            let entries = table.iter().filter(|(_, value)| !value.is_null());
            let entries = entries.map(|(key, value)| format!("{key} = {}", toml_text(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Json::Array(items) => format!("[{}]", items.iter().map(toml_text).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// The width that texts are wrapped to.
const WIDTH: usize = 100;

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "the scenario file" } else { &self.at };
        match &self.chosen_by {
            Some((key, word)) => writeln!(f, "{at} = {{ {key} = \"{word}\" }}")?,
            None => writeln!(f, "{at}")?,
        }
        wrap(f, &self.about, 2)?;
        self.fields.iter().try_for_each(|field| write!(f, "\n{field}"))
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let example = self.example.as_ref().map_or_else(String::new, |example| format!(" such as {example}"));
        let default = match (&self.default, self.required) {
            (_, true) => "required".to_owned(),
            (Some(default), _) => format!("default {default}"),
            (None, _) => "optional".to_owned(),
        };
        let changeable = if self.changeable { "; changeable" } else { "" };
        wrap(f, &format!("{}: {}{example}; {default}{changeable}", self.key, self.value), 2)?;
        wrap(f, &self.meaning, 6)
    }
}

/// Writes words on lines of [`WIDTH`], each indented.
fn wrap(f: &mut fmt::Formatter<'_>, text: &str, indent: usize) -> fmt::Result {
    let mut column = 0;
    for word in text.split_whitespace() {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > WIDTH {
            writeln!(f)?;
            column = 0;
        }
        let gap = if column == 0 { indent } else { 1 };
        write!(f, "{:gap$}{word}", "")?;
        column += gap + len;
    }
    if column > 0 { writeln!(f) } else { Ok(()) }
}

/// Returns a schema's description on one line.
pub(super) fn text(schema: &Json) -> Option<String> {
    Some(schema.get("description")?.as_str()?.replace('\n', " "))
}

/// Returns `true` if a key may change while an emulation runs.
pub(super) fn is_changeable(schema: &Json) -> bool {
    schema.get("x-change") == Some(&Json::Bool(true))
}
