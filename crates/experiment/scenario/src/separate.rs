//! Settings of single copies: `[link.access.3]` next to `[link.access]`.
//!
//! A table with the number of a copy becomes an entry of its own, "access.3": the settings of all copies, and over them those
//! of this one.

use std::collections::HashMap;

use super::error::Origin;
use super::tree::{Node, Table, Value};

/// Tables whose entries may have copies.
const TABLES: [&str; 3] = ["node", "link", "flow"];

/// Nodes with copies, and the number of these.
pub(crate) type Counts = HashMap<String, u32>;

/// Separates the copies that have settings of their own.
pub(crate) fn separate(root: &mut Node) {
    let counts = counts(root);
    separate_by(root, &counts);
}

/// Separates the copies that have settings of their own, where a tree may lack nodes.
pub(crate) fn separate_by(root: &mut Node, counts: &Counts) {
    for name in TABLES {
        let Some(table) = root.table_mut().and_then(|root| root.find_mut(name)).and_then(Node::table_mut)
        else {
            continue;
        };
        let own: Vec<(String, Origin, Node)> =
            table.values_mut().flat_map(|(entry, node)| take(name, entry, node, counts)).collect();
        for (key, origin, node) in own {
            if table.find(&key).is_none() {
                *table.entry(&key, &origin) = node;
            }
        }
    }
}

/// Returns nodes with copies, and how many these are.
pub(crate) fn counts(root: &Node) -> Counts {
    let nodes = root.at("node").and_then(Node::table).into_iter().flat_map(Table::iter);
    let counted = nodes.filter_map(|(name, _, node)| match node.at("count")?.value {
        Value::Integer(count) => {
            Some((name.to_owned(), u32::try_from(count).ok().filter(|count| *count > 1)?))
        }
        _ => None,
    });
    counted.collect()
}

/// Removes the copies' own settings from an entry. Returns each copy with all of its settings.
fn take(table: &str, name: &str, entry: &mut Node, counts: &Counts) -> Vec<(String, Origin, Node)> {
    let ends: Vec<String> = match table {
        "node" => vec![name.to_owned()],
        "link" => texts(entry.at("between")),
        _ => ["from", "to"].iter().flat_map(|end| texts(entry.at(end))).collect(),
    };
    let Some(copies) = ends.iter().filter_map(|end| counts.get(end)).copied().max() else {
        return Vec::new();
    };
    let Some(settings) = entry.table_mut() else { return Vec::new() };
    let numbers: Vec<String> =
        settings.keys().filter(|key| is_copy(key, copies)).map(str::to_owned).collect();
    let own: Vec<(String, Origin, Node)> = numbers
        .into_iter()
        .filter_map(|number| {
            let origin = settings.find(&number)?.0.clone();
            Some((number.clone(), origin, settings.remove(&number)?))
        })
        .collect();
    settings.shrink();
    let merge = |(number, origin, own): (String, Origin, Node)| {
        let mut whole = entry.clone();
        overlay(&mut whole, own);
        point_ends(table, &mut whole, &number, counts);
        (format!("{name}.{number}"), origin, whole)
    };
    own.into_iter().map(merge).collect()
}

/// Returns `true` for the number of one of several copies.
fn is_copy(key: &str, copies: u32) -> bool {
    let is_plain = !key.starts_with(['0', '+']);
    key.parse::<u32>().is_ok_and(|number| is_plain && number <= copies)
}

/// Returns a text, or the texts of a list.
fn texts(node: Option<&Node>) -> Vec<String> {
    match node.map(|node| &node.value) {
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(items)) => items.iter().filter_map(Node::text).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Overwrites values by others, tables key by key.
fn overlay(under: &mut Node, over: Node) {
    let Node { value, origin } = over;
    let are_tables = under.table().is_some() && matches!(value, Value::Table(_));
    match value {
        Value::Table(own) if are_tables => {
            let Some(table) = under.table_mut() else { return };
            for (key, origin, node) in own.into_entries() {
                overlay(table.entry(&key, &origin), node);
            }
        }
        value => *under = Node { value, origin },
    }
}

/// Sets the ends of a copy to copies of nodes. The copy of a node becomes a single one.
fn point_ends(table: &str, node: &mut Node, number: &str, counts: &Counts) {
    let Some(settings) = node.table_mut() else { return };
    if table == "node" {
        settings.remove("count");
        return;
    }
    let numbered = |node: &mut Node| {
        if let Value::String(name) = &mut node.value
            && counts.contains_key(name.as_str())
        {
            *name = format!("{name}.{number}");
        }
    };
    for key in ["between", "from", "to"] {
        let Some(node) = settings.find_mut(key) else { continue };
        match &mut node.value {
            Value::Array(ends) => ends.iter_mut().for_each(&numbered),
            _ => numbered(node),
        }
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    /// Each clone of a table has its room: that of all copies would make them take room in proportion to their square.
    #[test]
    fn a_copy_has_no_room_for_the_others() {
        let own: String = (1..=1000).map(|n| format!("[link.l.{n}]\ndelay = \"{n} ms\"\n")).collect();
        let text = format!("[node.a]\n[node.b]\ncount = 1000\n[link.l]\nbetween = [\"a\", \"b\"]\n{own}");
        let table = DeTable::parse(&text).expect("TOML");
        let Ok(table) = Table::from_toml(table.get_ref()) else { panic!("a number does not fit") };
        let mut root = Node { value: Value::Table(table), origin: Origin::File(0..0) };
        separate(&mut root);
        let links = root.at("link").and_then(Node::table).expect("links");
        assert_eq!(links.keys().count(), 1001);
        let room = links.iter().filter_map(|(_, _, link)| Some(link.table()?.room())).max();
        assert!(room.is_some_and(|room| room < 20), "{room:?}");
    }
}
