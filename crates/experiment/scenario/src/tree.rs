//! A scenario before it has types: values that know where they were written.

use std::ops::Range;

use indexmap::IndexMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Origin;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    /// A date or time: no key takes one.
    Datetime,
    Array(Vec<Node>),
    Table(Table),
}

/// Keys, where they were written, and their values, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(IndexMap<String, (Origin, Node)>);

/// A number that TOML allows and that does not fit.
#[derive(Debug)]
pub(crate) struct OutOfRange(pub(crate) Range<usize>);

impl Node {
    /// Converts a value of the TOML parser.
    pub(crate) fn from_toml(value: &Spanned<DeValue<'_>>) -> Result<Node, OutOfRange> {
        let range = value.span();
        let out_of_range = || OutOfRange(value.span());
        let value = match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Integer(integer) => Value::Integer(
                i64::from_str_radix(integer.as_str(), integer.radix()).map_err(|_| out_of_range())?,
            ),
            DeValue::Float(float) => Value::Float(finite(float.as_str()).ok_or_else(out_of_range)?),
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::Datetime(_) => Value::Datetime,
            DeValue::Array(items) => {
                Value::Array(items.iter().map(Node::from_toml).collect::<Result<_, _>>()?)
            }
            DeValue::Table(table) => Value::Table(Table::from_toml(table)?),
        };
        Ok(Node { value, origin: Origin::File(range) })
    }

    /// Returns a value from outside of a file: TOML if it parses, else text.
    pub(crate) fn of_text(text: &str, origin: &Origin) -> Node {
        let node = DeValue::parse(text).ok().and_then(|value| Node::from_toml(&value).ok());
        let node = node.filter(|node| !matches!(node.value, Value::Datetime));
        let mut node = node.unwrap_or(Node { value: Value::String(text.to_owned()), origin: origin.clone() });
        node.set_origin(origin);
        node
    }

    /// Returns the kind of value, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::String(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Boolean(_) => "true or false",
            Value::Datetime => "a date or time",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
        }
    }

    /// Returns the table, if it is one.
    pub(crate) fn table(&self) -> Option<&Table> {
        if let Value::Table(table) = &self.value { Some(table) } else { None }
    }

    /// Returns the table, if it is one, to be changed.
    pub(crate) fn table_mut(&mut self) -> Option<&mut Table> {
        if let Value::Table(table) = &mut self.value { Some(table) } else { None }
    }

    /// Returns the text, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::String(text) = &self.value { Some(text) } else { None }
    }

    /// Returns the node at a dotted key; numbers are list indices.
    pub(crate) fn at(&self, key: &str) -> Option<&Node> {
        self.parts(key).iter().try_fold(self, |node, part| node.child(part))
    }

    fn child(&self, part: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(table) => table.find(part).map(|(_, node)| node),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Returns the number of values in it.
    pub(crate) fn values(&self) -> usize {
        match &self.value {
            Value::Table(table) => table.iter().map(|(.., node)| node.values()).sum(),
            Value::Array(items) => items.iter().map(Node::values).sum(),
            _ => 1,
        }
    }

    /// Returns the parts of a dotted key. A copy with settings of its own is one part: "access.3".
    pub(crate) fn parts(&self, key: &str) -> Vec<String> {
        let (mut node, mut found) = (Some(self), Vec::new());
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            let copy = parts.peek().filter(|next| next.parse::<u32>().is_ok());
            let copy = copy.map(|number| format!("{part}.{number}"));
            let copy = copy.filter(|copy| {
                node.is_some_and(|node| node.table().is_some_and(|table| table.find(copy).is_some()))
            });
            if copy.is_some() {
                parts.next();
            }
            let part = copy.unwrap_or_else(|| part.to_owned());
            node = node.and_then(|node| node.child(&part));
            found.push(part);
        }
        found
    }

    /// Returns the origin of `key`, or of the longest existing part of it.
    ///
    /// It is that of the value, or for a table that of its key.
    pub(crate) fn nearest_origin(&self, key: &str) -> Origin {
        let (mut node, mut origin) = (self, &self.origin);
        for part in key.split('.') {
            let next = match &node.value {
                Value::Table(table) => table.find(part),
                Value::Array(items) => {
                    part.parse::<usize>().ok().and_then(|n| items.get(n)).map(|n| (&n.origin, n))
                }
                _ => None,
            };
            let Some((key_origin, next)) = next else {
                // A copy is written where its original is: "access.2".
                if node.table().is_some() && part.parse::<u32>().is_ok() {
                    continue;
                }
                break;
            };
            origin = if next.table().is_some() { key_origin } else { &next.origin };
            node = next;
        }
        if std::ptr::eq(node, self) { Origin::File(0..0) } else { origin.clone() }
    }

    /// Returns the dotted key of the only text in it that a message quotes.
    pub(crate) fn quoted_in(&self, message: &str) -> Option<String> {
        let join =
            |key: &str, part: &str| if key.is_empty() { part.to_owned() } else { format!("{key}.{part}") };
        let mut waiting = vec![(String::new(), self)];
        let mut found = Vec::new();
        while let Some((key, node)) = waiting.pop() {
            match &node.value {
                Value::Table(table) => {
                    waiting.extend(table.iter().map(|(name, _, inner)| (join(&key, name), inner)));
                }
                Value::Array(items) => {
                    waiting.extend(
                        items.iter().enumerate().map(|(n, inner)| (join(&key, &n.to_string()), inner)),
                    );
                }
                Value::String(text) if message.contains(&format!("\"{text}\"")) => found.push(key),
                _ => {}
            }
        }
        found.pop().filter(|key| found.is_empty() && !key.is_empty())
    }

    /// Says of the value and all in it that it was written at `origin`.
    pub(crate) fn set_origin(&mut self, origin: &Origin) {
        self.origin = origin.clone();
        match &mut self.value {
            Value::Array(items) => items.iter_mut().for_each(|item| item.set_origin(origin)),
            Value::Table(Table(entries)) => entries.values_mut().for_each(|(named, node)| {
                *named = origin.clone();
                node.set_origin(origin);
            }),
            _ => {}
        }
    }

    /// Returns the value as a file writes it, strings without quotes.
    pub(crate) fn shown(&self) -> String {
        match self.to_toml() {
            toml::Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Converts to TOML, for deserialisation.
    pub(crate) fn to_toml(&self) -> toml::Value {
        match &self.value {
            Value::String(text) => toml::Value::String(text.clone()),
            Value::Integer(integer) => toml::Value::Integer(*integer),
            Value::Float(float) => toml::Value::Float(*float),
            Value::Boolean(boolean) => toml::Value::Boolean(*boolean),
            Value::Datetime => toml::Value::String("a date or time".to_owned()),
            Value::Array(items) => toml::Value::Array(items.iter().map(Node::to_toml).collect()),
            Value::Table(table) => table
                .iter()
                .map(|(key, _, node)| (key.to_owned(), node.to_toml()))
                .collect::<toml::Table>()
                .into(),
        }
    }
}

/// Parses a TOML float without underscores; `None` for infinities and NaN, which no key accepts.
fn finite(text: &str) -> Option<f64> {
    text.replace('_', "").parse().ok().filter(|float: &f64| float.is_finite())
}

impl Table {
    /// Converts a table of the TOML parser, in the order of the file.
    pub(crate) fn from_toml(table: &DeTable<'_>) -> Result<Table, OutOfRange> {
        let entries = table.iter().map(|(key, value)| {
            let node = Node::from_toml(value)?;
            Ok((key.get_ref().to_string(), (Origin::File(key.span()), node)))
        });
        let mut entries: Vec<(String, (Origin, Node))> = entries.collect::<Result<_, _>>()?;
        let start = |origin: &Origin| if let Origin::File(range) = origin { range.start } else { 0 };
        entries.sort_by_key(|(_, (origin, _))| start(origin));
        Ok(Table(entries.into_iter().collect()))
    }

    /// Returns all entries.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (String, Origin, Node)> {
        self.0.into_iter().map(|(key, (origin, node))| (key, origin, node))
    }

    /// Keys, where they are, and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Origin, &Node)> {
        self.0.iter().map(|(key, (origin, node))| (key.as_str(), origin, node))
    }

    /// Returns all keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the origin of the key, and its value.
    pub(crate) fn find(&self, key: &str) -> Option<(&Origin, &Node)> {
        self.0.get(key).map(|(origin, node)| (origin, node))
    }

    /// Returns the value of `key`, to change, creating an empty table if necessary.
    pub(crate) fn entry(&mut self, key: &str, origin: &Origin) -> &mut Node {
        let empty = || Node { value: Value::Table(Table::default()), origin: origin.clone() };
        &mut self.0.entry(key.to_owned()).or_insert_with(|| (origin.clone(), empty())).1
    }

    /// Returns the value of a key, to be changed.
    pub(crate) fn find_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.0.get_mut(key).map(|(_, node)| node)
    }

    /// Renames a key, which keeps its place and its origin. The new name must be free.
    pub(crate) fn rename(&mut self, key: &str, to: &str) {
        if let Some((place, _, entry)) = self.0.shift_remove_full(key) {
            self.0.shift_insert(place, to.to_owned(), entry);
        }
    }

    /// Inserts a key in front of all others, unless it exists.
    pub(crate) fn put_first(&mut self, key: &str, origin: &Origin, node: Node) {
        if self.find(key).is_none() {
            self.0.shift_insert(0, key.to_owned(), (origin.clone(), node));
        }
    }

    /// Returns all values, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = (&str, &mut Node)> {
        self.0.iter_mut().map(|(key, (_, node))| (key.as_str(), node))
    }

    /// Returns the number of entries that it has room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.0.capacity()
    }

    /// Frees the room of removed entries, which each clone would have too.
    pub(crate) fn shrink(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Node> {
        self.0.shift_remove(key).map(|(_, node)| node)
    }
}
