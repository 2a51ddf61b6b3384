//! Putting a value at a dotted key: overrides and sweeps.

use std::sync::LazyLock;

use serde_json::Value as Json;

use super::check::join;
use super::error::Origin;
use super::key;
use super::older;
use super::schema::SCHEMA;
use super::suggest;
use super::tree::{Node, Table, Value};

/// Tables whose keys are names that the author gave: "link", "atm.line".
pub(crate) static NAMED: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut tables = Vec::new();
    collect_named(SCHEMA.root(), "", &mut tables);
    tables
});

fn collect_named(schema: &Json, at: &str, tables: &mut Vec<String>) {
    for (key, property) in SCHEMA.properties(schema) {
        let key = join(at, key);
        let table = SCHEMA.resolve(property);
        match table.get("additionalProperties").filter(|inner| inner.get("$ref").is_some()) {
            Some(_) => tables.push(key),
            // Deeper tables are those of a named one.
            None if at.is_empty() => collect_named(table, &key, tables),
            None => {}
        }
    }
}

/// Sets the value at `key` to `node`.
///
/// Missing tables on the path are created, but no node, link or flow: a misspelt name is rejected. A table
/// that a direction lacks is first copied from its link. The schema decides later whether the key is valid.
pub(crate) fn place(root: &mut Node, key: &str, origin: &Origin, node: Node) -> Result<(), String> {
    let key = key::normal(key);
    let parts: Vec<&str> = key.split('.').collect();
    check_names(root, &parts)?;
    let (parts, node) = older::moved(root, parts, origin, node)?;
    copy_down(root, &parts);
    unfold_kind(root, &parts);
    let (last, way) = parts.split_last().ok_or("no key")?;
    let mut at = root;
    for (n, part) in way.iter().enumerate() {
        at = child(at, part, origin).ok_or_else(|| not_a_table(&parts[..n]))?;
    }
    *child(at, last, origin).ok_or_else(|| not_a_table(way))? = node;
    Ok(())
}

/// Returns `Ok` if a value can be put at `key`, as [`place`] does.
///
/// Of the file the touched entry alone is copied.
pub(crate) fn try_place(root: &Node, key: &str, origin: &Origin, node: Node) -> Result<(), String> {
    let key = key::normal(key);
    let parts: Vec<&str> = key.split('.').collect();
    check_names(root, &parts)?;
    let is_in = |table: &&String| table.split('.').zip(&parts).all(|(of_table, part)| of_table == *part);
    let depth = NAMED.iter().find(is_in).map_or(0, |table| table.split('.').count()) + 1;
    let entry = &parts[..depth.min(parts.len())];
    let found = entry.iter().try_fold(root, |node, part| node.table()?.find(part).map(|(_, node)| node));
    let mut part = Node { value: Value::Table(Table::default()), origin: origin.clone() };
    if let Some(found) = found
        && let Some(copy) = entry.iter().try_fold(&mut part, |node, part| child(node, part, origin))
    {
        copy.clone_from(found);
    }
    place(&mut part, &key, origin, node)
}

/// Removes the value at `key`, and the tables that it leaves empty.
pub(crate) fn remove(root: &mut Node, key: &str) {
    let key = key::normal(key);
    let parts: Vec<&str> = key.split('.').collect();
    // Nodes, links and flows stay.
    for len in (3..=parts.len()).rev() {
        let (last, way) = (parts[len - 1], &parts[..len - 1]);
        let table = way.iter().try_fold(&mut *root, |node, part| node.table_mut()?.find_mut(part));
        let Some(table) = table.and_then(Node::table_mut) else { continue };
        let is_whole = len == parts.len();
        let is_empty = table
            .find(last)
            .is_some_and(|(_, node)| node.table().is_some_and(|of| of.iter().next().is_none()));
        if is_whole || is_empty {
            table.remove(last);
        }
    }
}

/// Copies a table of a link to a direction that lacks it. Only if a key in that table is to be set.
fn copy_down(root: &mut Node, parts: &[&str]) {
    let ["link", name, way @ ("forward" | "return"), table, _, ..] = parts else { return };
    let link = format!("link.{name}");
    let has_own = root.at(&format!("{link}.{way}.{table}")).is_some();
    let Some(shared) = root.at(&format!("{link}.{table}")).filter(|_| !has_own).cloned() else { return };
    let origin = shared.origin.clone();
    let mut own = ["link", name, way, table].into_iter();
    if let Some(own) = own.try_fold(root, |node, part| child(node, part, &origin)) {
        *own = shared;
        unfold(own);
    }
}

/// Unfolds the word of a kind, of which a key is to be set.
fn unfold_kind(root: &mut Node, parts: &[&str]) {
    let Some((_, way)) = parts.split_last() else { return };
    let Some(at) = (2..way.len()).find(|at| older::HAS_KIND.contains(&way[*at])) else { return };
    let node = way[..=at].iter().try_fold(root, |node, part| node.table_mut()?.find_mut(part));
    node.into_iter().for_each(unfold);
}

/// Replaces a word by the table of that kind.
fn unfold(node: &mut Node) {
    if node.text().is_some() {
        let table = Node { value: Value::Table(Table::default()), origin: node.origin.clone() };
        let word = std::mem::replace(node, table);
        node.table_mut().into_iter().for_each(|table| table.put_first("kind", &word.origin, word.clone()));
    }
}

/// Replaces the word at `key` by the table `{ tag = word }`.
pub(crate) fn expand(root: &mut Node, key: &str, tag: &str) {
    let origin = Origin::File(0..0);
    let parts = root.parts(key);
    let Some(node) = parts.iter().try_fold(root, |node, part| child(node, part, &origin)) else { return };
    let word = Node { value: node.value.clone(), origin: node.origin.clone() };
    let mut table = Table::default();
    *table.entry(tag, &node.origin) = word;
    node.value = Value::Table(table);
}

fn not_a_table(way: &[&str]) -> String {
    format!("`{}` is not a table", way.join("."))
}

fn child<'a>(node: &'a mut Node, part: &str, origin: &Origin) -> Option<&'a mut Node> {
    match &mut node.value {
        Value::Table(table) => Some(table.entry(part, origin)),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Checks the names of a key: a section, and a name that exists.
fn check_names(root: &Node, parts: &[&str]) -> Result<(), String> {
    let first = *parts.first().unwrap_or(&"");
    let known = SCHEMA.properties(SCHEMA.root());
    if !known.iter().any(|(name, _)| *name == first) {
        return Err(format!("unknown key: {}", suggest::instead(first, known.iter().map(|(name, _)| *name))));
    }
    let is_in = |table: &str| table.split('.').zip(parts).all(|(of_table, part)| of_table == *part);
    let Some(table) = NAMED.iter().find(|table| is_in(table)) else { return Ok(()) };
    let empty = Table::default();
    let there = root.at(table).and_then(Node::table).unwrap_or(&empty);
    match parts.get(table.split('.').count()) {
        Some(name) if there.find(name).is_some() => Ok(()),
        Some(name) => Err(format!(
            "no {} is called \"{name}\": {}",
            table.replace('.', " "),
            suggest::instead(name, there.keys())
        )),
        None => Err(format!("a whole table cannot be replaced: expected {table}.NAME.KEY")),
    }
}
