//! Putting a value at a dotted key: overrides and sweeps.

use super::error::Origin;
use super::schema::SCHEMA;
use super::suggest;
use super::tree::{Node, Table, Value};

/// Tables whose keys are names that the author gave, and what each name is of.
const NAMED: &[(&str, &str)] = &[
    ("atm.switch", "ATM switch"),
    ("atm.line", "ATM line"),
    ("atm.stream", "stream of cells"),
    ("node", "node"),
    ("link", "link"),
    ("carrier", "carrier"),
    ("dvb", "DVB link"),
    ("flow", "flow"),
    ("tunnel", "tunnel"),
    ("group", "group"),
];

/// Puts `node` at `key`, in place of what was there. Tables on the way are made if they are missing, but no node, link or
/// flow: a misspelt name is refused. Whether the key means anything is for the schema to say.
pub(crate) fn place(root: &mut Node, key: &str, origin: &Origin, node: Node) -> Result<(), String> {
    let parts: Vec<&str> = key.split('.').map(|part| part.trim().trim_matches('"')).collect();
    check_names(root, &parts)?;
    let (last, way) = parts.split_last().ok_or("no key")?;
    let mut at = root;
    for (n, part) in way.iter().enumerate() {
        at = child(at, part, origin).ok_or_else(|| not_a_table(&parts[..n]))?;
    }
    *child(at, last, origin).ok_or_else(|| not_a_table(way))? = node;
    Ok(())
}

/// Makes the table `{ tag = word }` of the word at `key`.
pub(crate) fn expand(root: &mut Node, key: &str, tag: &str) {
    let origin = Origin::File(0..0);
    let Some(node) = key.split('.').try_fold(root, |node, part| child(node, part, &origin)) else { return };
    let word = Node { value: node.value.clone(), origin: node.origin.clone() };
    let mut table = Table::default();
    *table.entry(tag, &node.origin) = word;
    node.value = Value::Table(table);
}

fn not_a_table(way: &[&str]) -> String {
    format!("`{}` has no keys: it is no table", way.join("."))
}

fn child<'a>(node: &'a mut Node, part: &str, origin: &Origin) -> Option<&'a mut Node> {
    match &mut node.value {
        Value::Table(table) => Some(table.entry(part, origin)),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    }
}

/// The first part must be a key of a scenario, the second, if it is a name, one that is there.
fn check_names(root: &Node, parts: &[&str]) -> Result<(), String> {
    let first = *parts.first().unwrap_or(&"");
    let known = SCHEMA.properties(SCHEMA.root());
    if !known.iter().any(|(name, _)| *name == first) {
        return Err(format!("unknown key: {}", suggest::instead(first, known.iter().map(|(name, _)| *name))));
    }
    let is_in = |table: &str| table.split('.').zip(parts).all(|(of_table, part)| of_table == *part);
    let Some((table, of)) = NAMED.iter().find(|(table, _)| is_in(table)) else { return Ok(()) };
    let empty = Table::default();
    let there = root.at(table).and_then(Node::table).unwrap_or(&empty);
    match parts.get(table.split('.').count()) {
        Some(name) if there.find(name).is_some() => Ok(()),
        Some(name) => Err(format!("no {of} is called \"{name}\": {}", suggest::instead(name, there.keys()))),
        None => Err(format!("a whole table cannot be replaced: expected {table}.NAME.KEY")),
    }
}
