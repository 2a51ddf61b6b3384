//! Older spellings of keys: names of kinds as keys, and renamed keys.
//!
//! A table that had the name of a kind is now `medium = { kind = .. }`, or `traffic = { kind = .. }`.

use super::error::{Diagnostic, Origin};
use super::tree::{Node, Table, Value};

/// Keys that named kinds: their table, the key, and the key with the kind now.
const OLDER: &[(&str, &str, &str)] = &[
    ("link", "dama", "medium"),
    ("link", "wifi", "medium"),
    ("link", "dvb", "medium"),
    ("link", "vc", "medium"),
    ("flow", "tcp", "traffic"),
    ("flow", "udp", "traffic"),
    ("flow", "video", "traffic"),
    ("flow", "tfrc", "traffic"),
    ("flow", "stream", "traffic"),
    ("flow", "replay", "traffic"),
];

/// Renamed keys of links and flows. Each has its table, the path below the name with the old last part, and the new
/// last part.
const RENAMED: &[(&str, &[&str], &str)] = &[
    ("link", &["carries"], "ip_versions"),
    ("link", &["medium", "cell"], "bss"),
    ("link", &["medium", "rohc", "below"], "max_packet"),
    ("link", &["channel", "stand_in"], "synthetic"),
    ("flow", &["traffic", "unused_window"], "window_validation"),
    ("flow", &["traffic", "control", "edition"], "revision"),
];

/// Keys that have kinds.
pub(crate) const HAS_KIND: [&str; 2] = ["medium", "traffic"];

/// Directions of a link, which have its keys too.
const DIRECTIONS: [&str; 2] = ["forward", "return"];

/// Returns the key that has a kind now, if `key` was that kind in `table`.
fn now(table: &str, key: &str) -> Option<&'static str> {
    OLDER.iter().find(|(of, older, _)| (*of, *older) == (table, key)).map(|(.., now)| *now)
}

/// Returns the number of the part with an older spelling, and its present key.
fn find(parts: &[&str]) -> Option<(usize, &'static str)> {
    let at = if parts.get(2).is_some_and(|part| DIRECTIONS.contains(part)) { 3 } else { 2 };
    Some((at, now(parts.first()?, parts.get(at)?)?))
}

/// Returns the number of the part that was renamed, and its present name.
fn find_renamed(parts: &[&str]) -> Option<(usize, &'static str)> {
    let first = if parts.get(2).is_some_and(|part| DIRECTIONS.contains(part)) { 3 } else { 2 };
    let (table, below) = (parts.first()?, parts.get(first..)?);
    let row = RENAMED.iter().find(|(of, older, _)| of == table && below.starts_with(older))?;
    Some((first + row.1.len() - 1, row.2))
}

/// Returns a dotted key in its present spelling: "flow.bulk.traffic.mss" for "flow.bulk.tcp.mss".
pub fn current_key(key: &str) -> String {
    let mut parts: Vec<&str> = key.split('.').collect();
    if let Some((at, now)) = find(&parts) {
        parts[at] = now;
    }
    if let Some((at, now)) = find_renamed(&parts) {
        parts[at] = now;
    }
    parts.join(".")
}

/// Returns the present spelling and kind of a key that is an older spelling.
///
/// The key may lack names: "flow.traffic.mss" and "tcp" for "flow.tcp.mss".
pub(crate) fn respelt(key: &str) -> Option<(String, &'static str)> {
    let mut parts: Vec<&str> = key.split('.').collect();
    let of = *parts.first()?;
    let is_older = |part: &&str| OLDER.iter().find(|(table, older, _)| (*table, *older) == (of, *part));
    let at = (1..parts.len().min(4)).find(|at| is_older(&parts[*at]).is_some())?;
    let (_, kind, now) = is_older(&parts[at])?;
    parts[at] = now;
    Some((parts.join("."), kind))
}

/// Rewrites older spellings in a file that was read, and notes them.
///
/// # Errors
/// Returns what is given twice.
pub(crate) fn rewrite(root: &mut Node, notes: &mut Vec<String>) -> Result<(), Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let Some(tables) = root.table_mut() else { return Ok(()) };
    for (table, named) in tables.values_mut() {
        let table = table.to_owned();
        if !OLDER.iter().any(|(of, ..)| *of == table) {
            continue;
        }
        for (name, node) in named.table_mut().into_iter().flat_map(Table::values_mut) {
            let at = format!("{table}.{name}");
            rewrite_table(&table, &at, node, notes, &mut diagnostics);
            for (way, node) in node.table_mut().into_iter().flat_map(Table::values_mut) {
                if table == "link" && DIRECTIONS.contains(&way) {
                    rewrite_table(&table, &format!("{at}.{way}"), node, notes, &mut diagnostics);
                }
            }
        }
    }
    rename_below(root, &[], notes, &mut diagnostics);
    if diagnostics.is_empty() { Ok(()) } else { Err(diagnostics) }
}

/// Renames the keys of a node and of all below it. `path` is the path of the node.
fn rename_below(node: &mut Node, path: &[&str], notes: &mut Vec<String>, diagnostics: &mut Vec<Diagnostic>) {
    if path.first().is_some_and(|table| !RENAMED.iter().any(|(of, ..)| of == table)) {
        return;
    }
    let Some(keys) = node.table_mut() else { return };
    let names: Vec<(String, Origin)> =
        keys.iter().map(|(key, origin, _)| (key.to_owned(), origin.clone())).collect();
    for (key, origin) in names {
        let own: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
        let Some((at, now)) = find_renamed(&own).filter(|(at, _)| at + 1 == own.len()) else { continue };
        let (shown, table) = (own.join("."), own[..at].join("."));
        if keys.find(now).is_some() {
            let problem = format!("conflicts with `{now}`: it is the older spelling of that key");
            diagnostics.push(Diagnostic { key: shown, problem, origin });
            continue;
        }
        notes.push(format!("{shown} is an older spelling of {table}.{now}"));
        keys.rename(&key, now);
    }
    for (key, node) in keys.values_mut() {
        let own: Vec<&str> = path.iter().copied().chain([key]).collect();
        rename_below(node, &own, notes, diagnostics);
    }
}

fn rewrite_table(
    table: &str,
    at: &str,
    node: &mut Node,
    notes: &mut Vec<String>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(keys) = node.table_mut() else { return };
    let older: Vec<(String, Origin)> = keys
        .iter()
        .filter(|(key, ..)| now(table, key).is_some())
        .map(|(key, origin, _)| (key.to_owned(), origin.clone()))
        .collect();
    let mut first: Option<&str> = None;
    for (key, origin) in &older {
        let Some(now) = now(table, key) else { continue };
        if let Some(other) = first.or(keys.find(now).map(|_| now)) {
            let of = if table == "link" { "a link has one medium" } else { "a flow sends one thing" };
            let problem = format!("conflicts with `{other}`: {of}");
            diagnostics.push(Diagnostic { key: format!("{at}.{key}"), problem, origin: origin.clone() });
            continue;
        }
        first = Some(key);
        notes.push(format!("{at}.{key} is an older spelling of {at}.{now} = {{ kind = \"{key}\", .. }}"));
        keys.rename(key, now);
        if let Some((_, node)) = keys.values_mut().find(|(name, _)| *name == now) {
            give_kind(node, key, origin);
        }
    }
}

/// Inserts the kind into a table. Other values are left for the schema to reject.
fn give_kind(node: &mut Node, kind: &str, origin: &Origin) {
    let word = Node { value: Value::String(kind.to_owned()), origin: origin.clone() };
    if let Some(table) = node.table_mut() {
        table.put_first("kind", origin, word);
    }
}

/// Returns the parts of a key in their present spelling, and its value.
///
/// # Errors
/// Returns an error if the key is of another kind than the table has, or if the value has a key in both spellings.
pub(crate) fn moved<'a>(
    root: &mut Node,
    parts: Vec<&'a str>,
    origin: &Origin,
    node: Node,
) -> Result<(Vec<&'a str>, Node), String> {
    let (mut parts, mut node) = moved_to_kind(root, parts, origin, node)?;
    if let Some((at, now)) = find_renamed(&parts) {
        parts[at] = now;
    }
    let mut diagnostics = Vec::new();
    rename_below(&mut node, &parts, &mut Vec::new(), &mut diagnostics);
    match diagnostics.pop() {
        Some(Diagnostic { key, problem, .. }) => Err(format!("{key}: {problem}")),
        None => Ok((parts, node)),
    }
}

fn moved_to_kind<'a>(
    root: &mut Node,
    mut parts: Vec<&'a str>,
    origin: &Origin,
    mut node: Node,
) -> Result<(Vec<&'a str>, Node), String> {
    let Some((at, now)) = find(&parts) else { return Ok((parts, node)) };
    let kind = std::mem::replace(&mut parts[at], now);
    if at + 1 == parts.len() {
        give_kind(&mut node, kind, origin);
        return Ok((parts, node));
    }
    let table = parts[..=at].join(".");
    let shared = format!("{}.{now}", parts[..2].join("."));
    match root.at(&table).or_else(|| root.at(&shared)) {
        Some(has) if has.at("kind").unwrap_or(has).text() == Some(kind) => Ok((parts, node)),
        Some(has) => {
            let has = has.at("kind").unwrap_or(has).text().unwrap_or("something else");
            Err(format!(
                "`{table}` is \"{has}\": expected keys of that, or {table} = {{ kind = \"{kind}\", .. }}"
            ))
        }
        // The key is all that is given of its kind.
        None => {
            let mut inner = Node { value: Value::Table(Table::default()), origin: origin.clone() };
            give_kind(&mut inner, kind, origin);
            put(&mut inner, &parts[at + 1..], origin, node);
            parts.truncate(at + 1);
            Ok((parts, inner))
        }
    }
}

/// Sets a value at a key in a table, creating the tables of its path.
fn put(node: &mut Node, parts: &[&str], origin: &Origin, value: Node) {
    let Some((last, way)) = parts.split_last() else { return };
    let mut at = node;
    for part in way.iter().chain([last]) {
        let Some(table) = at.table_mut() else { return };
        at = table.entry(part, origin);
    }
    *at = value;
}
