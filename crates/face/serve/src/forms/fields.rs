//! Fields of a form: a walk through the schema along the values of the text.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use toml_edit::{DocumentMut, Item, TableLike, Value};

use crate::drafts::key_of;

/// Deepest tables whose keys have fields of their own; deeper ones are written as TOML.
const MAX_DEPTH: usize = 5;

/// Field of a form, or a group of fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Field {
    /// Key, its parts joined by dots.
    pub(crate) key: String,
    /// Last part of the key.
    pub(crate) name: String,
    /// Description of the key.
    pub(crate) description: String,
    /// Value without the key; may be empty.
    pub(crate) default: String,
    /// Set if the text must have it.
    pub(crate) required: bool,
    /// Content.
    pub(crate) kind: Kind,
}

/// Content of a field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Text, perhaps a quantity with its unit.
    Text { value: String, example: String },
    /// Number.
    Number { value: String },
    /// Word of a list.
    Choice { value: String, words: Vec<String>, is_number: bool },
    /// True or false.
    Switch { value: String },
    /// Value as TOML: arrays and tables without a form of their own.
    Toml { value: String },
    /// Table of fields.
    Group { is_there: bool, fields: Vec<Field> },
    /// Table of one of several kinds. Each has its fields; those of kinds that are not chosen have no values.
    Kinds { chosen: String, branches: Vec<Branch> },
}

/// Kind of a table: name, description and fields.
pub(crate) type Branch = (String, String, Vec<Field>);

/// Walk through the schema.
struct Walk<'a> {
    definitions: &'a Json,
}

/// Returns the fields of the table at `path`.
pub(crate) fn fields(document: &DocumentMut, path: &[String]) -> Vec<Field> {
    let root = bentpipe_scenario::catalogue::schema();
    let walk = Walk { definitions: &root["$defs"] };
    let mut schema = root;
    let mut item = Some(document.as_item());
    for part in path {
        let table = walk.plain(schema);
        schema = table["properties"].get(part).unwrap_or(&table["additionalProperties"]);
        item = item.and_then(|item| item.as_table_like()?.get(part));
    }
    let table = walk.plain(schema);
    if let Some(branches) = walk.branches(table) {
        let kind = walk.kinds(&branches, item, path, 0);
        let name = path.last().cloned().unwrap_or_default();
        let description = table["description"].as_str().unwrap_or_default().to_owned();
        return vec![Field {
            key: key_of(path),
            name,
            description,
            default: String::new(),
            required: false,
            kind,
        }];
    }
    let mut all = walk.properties(table, item.and_then(Item::as_table_like), path, 0);
    if path.is_empty() {
        let has_form =
            |name: &str| super::SECTIONS.iter().chain(super::SINGLE).any(|(section, _)| *section == name);
        all.retain(|field| !has_form(&field.name));
    }
    all
}

impl<'a> Walk<'a> {
    /// Follows references, and alternatives to null.
    fn plain(&self, schema: &'a Json) -> &'a Json {
        let mut schema = schema;
        loop {
            if let Some(reference) = schema["$ref"].as_str() {
                schema = &self.definitions[reference.trim_start_matches("#/$defs/")];
                continue;
            }
            let others: Vec<&Json> = schema["anyOf"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|one| one["type"] != "null")
                .collect();
            match others[..] {
                [only] => schema = only,
                _ => return schema,
            }
        }
    }

    /// Returns the alternative that fits a value: one table, or a list of them.
    fn alternative(&self, schema: &'a Json, item: Option<&Item>) -> &'a Json {
        let all = schema["anyOf"].as_array().into_iter().flatten().map(|one| self.plain(one));
        let fits = |one: &&Json| match item {
            None => !has_type(one, "array"),
            Some(item) if item.is_str() => has_type(one, "string") || self.branches(one).is_some(),
            Some(item) if item.is_table_like() => has_type(one, "object") || self.branches(one).is_some(),
            Some(_) => false,
        };
        all.into_iter().find(fits).unwrap_or(schema)
    }

    fn properties(
        &self,
        schema: &'a Json,
        table: Option<&dyn TableLike>,
        path: &[String],
        depth: usize,
    ) -> Vec<Field> {
        let required = |name: &str| {
            schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
        };
        let properties = schema["properties"].as_object().into_iter().flatten();
        let field = |(name, schema): (&String, &'a Json)| {
            let item = table.and_then(|table| table.get(name));
            let mut path = path.to_vec();
            path.push(name.clone());
            self.field(schema, item, &path, required(name), depth)
        };
        properties.map(field).collect()
    }

    fn field(
        &self,
        schema: &'a Json,
        item: Option<&Item>,
        path: &[String],
        required: bool,
        depth: usize,
    ) -> Field {
        let plain = self.plain(schema);
        let text = |name: &str| schema[name].as_str().or_else(|| plain[name].as_str()).unwrap_or_default();
        let default = match schema.get("default").or_else(|| plain.get("default")) {
            None | Some(Json::Null | Json::Object(_)) => String::new(),
            Some(Json::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        Field {
            key: key_of(path),
            name: path.last().cloned().unwrap_or_default(),
            description: text("description").to_owned(),
            default,
            required,
            kind: self.kind(plain, item, path, depth),
        }
    }

    fn kind(&self, schema: &'a Json, item: Option<&Item>, path: &[String], depth: usize) -> Kind {
        let schema = self.alternative(schema, item);
        let toml = || Kind::Toml { value: item.and_then(as_toml).unwrap_or_default() };
        // A value that does not fit its field, as a list where one table is usual, is shown as it is.
        let is = |kind: &str| has_type(schema, kind);
        let table = item.and_then(Item::as_table_like);
        if let Some(words) = words(schema) {
            let is_number = schema["enum"].as_array().is_some_and(|list| list.iter().all(Json::is_number));
            return match value_in(item, &words) {
                Some(value) => Kind::Choice { value, words, is_number },
                None => toml(),
            };
        }
        if let Some(branches) = self.branches(schema)
            && depth < MAX_DEPTH
            && item.is_none_or(|item| item.is_table_like() || item.is_str())
        {
            return self.kinds(&branches, item, path, depth);
        }
        let fits = item.is_none() || item.is_some_and(|item| item.is_table_like());
        if is("object") && schema["properties"].is_object() && depth < MAX_DEPTH && fits {
            return Kind::Group {
                is_there: table.is_some(),
                fields: self.properties(schema, table, path, depth + 1),
            };
        }
        if is("boolean") && item.is_none_or(Item::is_bool) {
            return Kind::Switch { value: item.and_then(as_toml).unwrap_or_default() };
        }
        if (is("integer") || is("number")) && item.is_none_or(|item| item.is_integer() || item.is_float()) {
            return Kind::Number { value: item.and_then(as_toml).unwrap_or_default() };
        }
        if is("string") && item.is_none_or(Item::is_str) {
            let example = schema["examples"][0].as_str().unwrap_or_default().to_owned();
            let value = item.and_then(Item::as_str).unwrap_or_default().to_owned();
            return Kind::Text { value, example };
        }
        toml()
    }

    /// Returns the kinds of a table: their names and schemas.
    fn branches(&self, schema: &'a Json) -> Option<Vec<(String, &'a Json)>> {
        let list = schema["oneOf"].as_array()?;
        let tables = list.iter().map(|one| self.plain(one)).filter(|one| one["properties"].is_object());
        let named = |one: &'a Json| Some((one["properties"]["kind"]["const"].as_str()?.to_owned(), one));
        let branches: Vec<_> = tables.map(named).collect::<Option<_>>()?;
        (!branches.is_empty()).then_some(branches)
    }

    fn kinds(
        &self,
        branches: &[(String, &'a Json)],
        item: Option<&Item>,
        path: &[String],
        depth: usize,
    ) -> Kind {
        let table = item.and_then(Item::as_table_like);
        let word = item.and_then(Item::as_str).or_else(|| table?.get("kind")?.as_str());
        let chosen = word.unwrap_or_default().to_owned();
        // A table without a kind is shown, not lost.
        if item.is_some() && !branches.iter().any(|(name, _)| *name == chosen) {
            return Kind::Toml { value: item.and_then(as_toml).unwrap_or_default() };
        }
        let branch = |(name, schema): &(String, &'a Json)| {
            let is_chosen = *name == chosen;
            let mut fields = match is_chosen || depth == 0 {
                true => self.properties(schema, table.filter(|_| is_chosen), path, depth + 2),
                false => Vec::new(),
            };
            fields.retain(|field| field.name != "kind");
            (name.clone(), schema["description"].as_str().unwrap_or_default().to_owned(), fields)
        };
        Kind::Kinds { branches: branches.iter().map(branch).collect(), chosen }
    }
}

fn has_type(schema: &Json, kind: &str) -> bool {
    schema["type"] == kind || schema["type"].as_array().is_some_and(|list| list.iter().any(|one| one == kind))
}

/// Returns the words that a schema allows, if it allows nothing else.
fn words(schema: &Json) -> Option<Vec<String>> {
    let shown = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(list) = schema["enum"].as_array() {
        return Some(list.iter().filter(|one| !one.is_null()).map(shown).collect());
    }
    let list = schema["oneOf"].as_array()?;
    let word = |one: &Json| match one.get("const") {
        Some(word) => Some(vec![shown(word)]),
        None => one["enum"]
            .as_array()
            .filter(|_| one.get("x-shorthand").is_none())
            .map(|list| list.iter().map(shown).collect()),
    };
    Some(list.iter().map(word).collect::<Option<Vec<_>>>()?.concat())
}

/// Returns the word that is chosen, empty for none.
///
/// A value that is not among the words gives `None`.
fn value_in(item: Option<&Item>, words: &[String]) -> Option<String> {
    let Some(item) = item else { return Some(String::new()) };
    let word = item.as_str().map(str::to_owned).or_else(|| Some(item.as_integer()?.to_string()))?;
    words.contains(&word).then_some(word)
}

/// Returns a value as TOML in one line.
fn as_toml(item: &Item) -> Option<String> {
    let value = item.clone().into_value().ok()?;
    let value = match value {
        Value::Array(mut list) => {
            list.fmt();
            Value::Array(list)
        }
        other => other,
    };
    Some(value.to_string().trim().to_owned())
}
