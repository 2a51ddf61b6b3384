//! Axes of a sweep as written, with their places in the file.

use std::collections::HashSet;

use super::error::{Diagnostic, Origin};
use super::key::normal;
use super::older::current_key;
use super::ranges;
use super::schema::SCHEMA;
use super::tree::{Node, Table, Value};

/// The most points of a sweep in one plan, and values of an axis.
pub const MAX_POINTS: usize = 100_000;

/// The most points that a sweep may have; a campaign runs them in parts.
pub const MAX_SWEEP: usize = 1_000_000_000;

/// Keys that vary together and their values.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) name: String,
    keys: Vec<(String, Origin, Vec<Node>)>,
}

impl Axis {
    /// Returns the number of values.
    pub(crate) fn len(&self) -> usize {
        self.keys.first().map_or(0, |(_, _, values)| values.len())
    }

    /// Returns the keys that vary on it, in their normal form.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(key, ..)| key.as_str())
    }

    /// Returns `true` if `key` varies on it.
    pub(crate) fn has(&self, key: &str) -> bool {
        let key = current_key(&normal(key));
        self.keys.iter().any(|(own, ..)| current_key(own) == key)
    }

    /// Returns `true` if a value for `key` ends it, or one for its table.
    ///
    /// What an option sweeps stays swept.
    pub(crate) fn ends_with(&self, key: &str) -> bool {
        let table = current_key(&normal(key));
        let of_file = |origin: &Origin| matches!(origin, Origin::File(_));
        let is_in = |own: &str| is_within(&current_key(own), &table);
        self.has(key) || self.keys.iter().any(|(own, origin, _)| of_file(origin) && is_in(own))
    }

    /// Returns `true` if `key` is in a table that varies on it.
    pub(crate) fn has_table_of(&self, key: &str) -> bool {
        let key = current_key(&normal(key));
        self.keys.iter().any(|(own, ..)| is_within(&key, &current_key(own)))
    }

    /// Returns every value with its key.
    pub(crate) fn all_values(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.keys.iter().flat_map(|(key, _, values)| values.iter().map(move |value| (key.as_str(), value)))
    }

    /// Returns keys, places and values of value number `n`.
    pub(crate) fn values(&self, n: usize) -> impl Iterator<Item = (&str, &Origin, &Node)> {
        self.keys.iter().filter_map(move |(key, origin, values)| Some((key.as_str(), origin, values.get(n)?)))
    }
}

/// Returns `true` if a key is `table`, or in it.
fn is_within(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Removes `[sweep]` from the tree and returns its axes.
pub(crate) fn take(root: &mut Node) -> Result<Vec<Axis>, Vec<Diagnostic>> {
    let Value::Table(table) = &mut root.value else { return Ok(Vec::new()) };
    let Some(sweep) = table.remove("sweep") else { return Ok(Vec::new()) };
    let Some(entries) = sweep.table() else {
        let problem = format!(
            "{}: expected a table of dotted keys with the lists or ranges of their values",
            sweep.kind()
        );
        return Err(vec![Diagnostic { key: "sweep".to_owned(), problem, origin: sweep.origin }]);
    };
    let mut reader = Reader::default();
    for (name, origin, node) in entries.iter() {
        reader.entry(&normal(name), origin, node);
    }
    reader.finish(&sweep.origin)
}

/// Sweeps `key` over the list or range `node`.
///
/// It replaces the key's axis in the file, and those of keys in it.
pub(crate) fn replace(axes: &mut Vec<Axis>, key: &str, origin: &Origin, node: &Node) -> Result<(), String> {
    let key = &normal(key);
    let mut reader = Reader::default();
    let mut keys = Vec::new();
    reader.flatten(key, origin, node, &mut keys);
    reader.axes.extend(axes.iter().filter(|axis| !axis.ends_with(key)).cloned());
    reader.axes.extend(keys.into_iter().map(|key| Axis { name: current_key(&key.0), keys: vec![key] }));
    *axes = reader.finish(origin).map_err(|mut diagnostics| diagnostics.remove(0).problem)?;
    Ok(())
}

#[derive(Default)]
struct Reader {
    axes: Vec<Axis>,
    diagnostics: Vec<Diagnostic>,
}

impl Reader {
    fn report(&mut self, key: &str, origin: &Origin, problem: impl Into<String>) {
        let key = format!("sweep.{key}");
        self.diagnostics.push(Diagnostic { key, problem: problem.into(), origin: origin.clone() });
    }

    fn entry(&mut self, name: &str, origin: &Origin, node: &Node) {
        let is_key =
            |name: &str| SCHEMA.property(SCHEMA.root(), name.split('.').next().unwrap_or("")).is_some();
        match (&node.value, node.table()) {
            // `[sweep.NAME]`: keys in step.
            (_, Some(table)) if !is_key(name) => self.together(name, origin, table),
            // `link.x.rate = [...]` without quotes is a table in a table: the keys are joined again.
            _ => {
                let mut keys = Vec::new();
                self.flatten(name, origin, node, &mut keys);
                self.axes
                    .extend(keys.into_iter().map(|key| Axis { name: current_key(&key.0), keys: vec![key] }));
            }
        }
    }

    fn flatten(
        &mut self,
        key: &str,
        origin: &Origin,
        node: &Node,
        keys: &mut Vec<(String, Origin, Vec<Node>)>,
    ) {
        match &node.value {
            Value::Table(table) => {
                for (part, origin, node) in table.iter() {
                    self.flatten(&format!("{key}.{}", normal(part)), origin, node, keys);
                }
            }
            Value::Array(values) if !values.is_empty() => {
                keys.push((key.to_owned(), origin.clone(), values.clone()))
            }
            Value::Array(_) => {
                self.report(key, &node.origin, "an empty list: expected the values to run with")
            }
            Value::String(text) => match ranges::expand(text, &node.origin, MAX_POINTS) {
                Ok(values) => keys.push((key.to_owned(), origin.clone(), values)),
                Err(problem) => self.report(key, &node.origin, problem),
            },
            _ => {
                let problem = format!("{}: expected a list of values, or a range as text", node.kind());
                self.report(key, &node.origin, problem);
            }
        }
    }

    fn together(&mut self, name: &str, origin: &Origin, table: &Table) {
        let mut keys = Vec::new();
        for (key, origin, node) in table.iter() {
            self.flatten(&normal(key), origin, node, &mut keys);
        }
        let Some(first) = keys.first().map(|(_, _, values)| values.len()) else {
            return self.report(
                name,
                origin,
                "nothing varies in it: expected dotted keys with lists of values",
            );
        };
        if let Some((key, origin, values)) = keys.iter().find(|(_, _, values)| values.len() != first) {
            let problem = format!(
                "{} values, but the first key has {first}: keys swept together need the same number of values",
                values.len()
            );
            return self.report(&format!("{name}.{key}"), origin, problem);
        }
        self.axes.push(Axis { name: name.to_owned(), keys });
    }

    fn finish(mut self, origin: &Origin) -> Result<Vec<Axis>, Vec<Diagnostic>> {
        let points = self.axes.iter().try_fold(1_usize, |points, axis| points.checked_mul(axis.len()));
        if points.is_none_or(|points| points > MAX_SWEEP) {
            let problem = format!("more than {MAX_SWEEP} points");
            self.diagnostics.push(Diagnostic { key: "sweep".to_owned(), problem, origin: origin.clone() });
        }
        let keys: Vec<_> = self.axes.iter().flat_map(|axis| &axis.keys).cloned().collect();
        for (key, origin, _) in keys.iter().filter(|(key, ..)| key.split('.').next() == Some("sweep")) {
            self.report(key, origin, "a sweep in a sweep: expected keys of the scenario");
        }
        self.refuse_replaced(&keys);
        if self.diagnostics.is_empty() { Ok(self.axes) } else { Err(self.diagnostics) }
    }

    /// Reports keys whose values never apply.
    ///
    /// A later axis sets the same key, or a table around it.
    fn refuse_replaced(&mut self, keys: &[(String, Origin, Vec<Node>)]) {
        let mut later = HashSet::new();
        for (key, origin, _) in keys.iter().rev() {
            let current = current_key(key);
            if let Some(table) = tables_around(&current).find(|table| later.contains(*table)) {
                let problem = format!(
                    "\"{table}\" is swept further down, which replaces these values: expected one of them"
                );
                self.report(key, origin, problem);
            }
            later.insert(current);
        }
    }
}

/// Returns a key and the tables around it, such as `link.l.rate`, `link.l`, `link`.
fn tables_around(key: &str) -> impl Iterator<Item = &str> {
    let ends = key.match_indices('.').map(|(end, _)| end).chain([key.len()]);
    ends.map(|end| &key[..end]).collect::<Vec<_>>().into_iter().rev()
}
