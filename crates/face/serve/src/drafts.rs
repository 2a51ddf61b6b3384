//! Scenario texts of users: checks, the network, and changes of keys in place.

use bentpipe_agent::job::{self, SitesJob};
use bentpipe_lab::budget::Budget;
use bentpipe_record::NetworkMap;
use bentpipe_scenario::{Document, Scenario};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml_edit::{DocumentMut, Item, Key, Table, TableLike, Value};

use crate::inputs::Inputs;
use crate::problem::{Finding, Problem, Result, findings};
use crate::store::files::Content;

/// Name of a scenario's text in messages.
const NAME: &str = "scenario.toml";

/// Most bytes of a scenario.
pub(crate) const MAX_TEXT: usize = 256 << 10;

/// Changed text.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Edited {
    /// Text, TOML.
    pub(crate) text: String,
    /// Errors of the text.
    pub(crate) problems: Vec<Finding>,
}

/// Checked scenario of a user.
pub(crate) struct Draft {
    /// Scenario of the first point.
    pub(crate) scenario: Scenario,
    /// Number of points of the sweep.
    pub(crate) points: usize,
    /// Budget, as `bentpipe check` prints it.
    pub(crate) budget: Option<Budget>,
    /// Document with access to the files that it names.
    pub(crate) document: Document,
    /// Files that it names.
    pub(crate) files: Vec<Content>,
}

/// Checks a text as `bentpipe check` does. It names files of its user alone, and none of the server.
///
/// # Errors
/// Returns the errors with their lines.
pub(crate) fn check(text: &str, inputs: &Inputs) -> std::result::Result<Draft, Vec<Finding>> {
    let whole = |message: String| vec![Finding { line: 0, column: 0, key: String::new(), message }];
    if text.len() > MAX_TEXT {
        return Err(whole(format!("longer than {MAX_TEXT} bytes")));
    }
    let mut document = Document::parse(NAME, text.as_bytes()).map_err(|error| findings(&error))?;
    let problem = |name: &str| inputs.find(name).is_none().then(|| unknown_file(name, inputs));
    document.check_files(problem).map_err(|error| findings(&error))?;
    let named: Vec<String> = document.named_files().into_iter().collect();
    if !named.is_empty() {
        let access = inputs.access(&named).map_err(|error| whole(error.kind().to_string()))?;
        document = document.with_access(access);
    }
    let checked = bentpipe_lab::check::check(&document).map_err(|error| {
        let mut found = findings(&error.error);
        if !error.settings.is_empty() {
            let at = format!(" (at the point of the sweep with {})", error.settings);
            found.iter_mut().for_each(|finding| finding.message.push_str(&at));
        }
        found
    })?;
    let budget = Budget::with_files(&checked.first, Some(document.access())).ok();
    let files = named.iter().filter_map(|name| inputs.find(name).cloned()).collect();
    Ok(Draft { points: checked.of, scenario: checked.first, budget, document, files })
}

/// Returns the findings of a text whose check cost too much.
///
/// They are at the key that makes most of it.
pub(crate) fn too_costly(text: &str, detail: &str) -> Vec<Finding> {
    let document = Document::parse(NAME, text.as_bytes()).ok();
    let found =
        document.zip(costliest(text)).map(|(document, key)| findings(&document.refusal(&key, detail)));
    let whole = || Finding { line: 0, column: 0, key: "duration".to_owned(), message: detail.to_owned() };
    found.filter(|found| !found.is_empty()).unwrap_or_else(|| vec![whole()])
}

/// Copies of a node or flow that are many.
const MANY: i64 = 100;

/// Returns the key of the most copies, or else of the sweep or the events.
fn costliest(text: &str) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let of = |section: &'static str| {
        let entries = table.get(section).and_then(toml::Value::as_table).into_iter().flatten();
        entries.filter_map(move |(name, entry)| {
            Some((entry.get("count")?.as_integer()?, format!("{section}.{name}.count")))
        })
    };
    let copies = of("node").chain(of("flow")).max().filter(|(count, _)| *count >= MANY);
    let other = || ["sweep", "event"].into_iter().find(|key| table.contains_key(*key)).map(str::to_owned);
    copies.map(|(_, key)| key).or_else(other)
}

/// Returns the problem of a name that no file of the user has.
fn unknown_file(name: &str, inputs: &Inputs) -> String {
    match inputs.names()[..] {
        [] => "files of the server cannot be named: upload yours on the page Files".to_owned(),
        ref known => format!(
            "no uploaded file is called \"{}\": expected one of {}, or upload it on the page Files",
            name.chars().take(60).collect::<String>(),
            known[..known.len().min(20)].join(", ")
        ),
    }
}

/// Checks a text and returns its errors as a problem.
pub(crate) fn checked(text: &str, inputs: &Inputs) -> Result<Draft> {
    check(text, inputs).map_err(|problems| Problem { problems, ..Problem::bad("the scenario has errors") })
}

/// Reads the job file of a job on sites. Its scenario was checked: only its duration is read.
///
/// # Errors
/// Returns the error in words.
pub(crate) fn on_sites(text: &str, scenario: &str) -> std::result::Result<SitesJob, String> {
    let document = Document::parse(NAME, scenario.as_bytes()).map_err(|error| error.to_string())?;
    let duration = document.duration().ok_or("duration: expected that of the scenario, such as \"10 s\"")?;
    job::parse(text, duration.as_secs_f64())
}

/// Returns the network of a text that may have errors elsewhere.
pub(crate) fn network(draft: &Draft) -> NetworkMap {
    bentpipe_lab::run::network_map(&draft.scenario, draft.budget.as_ref())
}

/// Sets or removes a key of a TOML text. Comments and order stay.
///
/// `value` is TOML; a text that is not TOML is taken as a string. `None` removes the key.
///
/// # Errors
/// Returns an error if the text is not TOML, or a part of the key is not a table.
pub(crate) fn edit(text: &str, key: &str, value: Option<&str>) -> Result<String> {
    let mut document = parsed_text(text)?;
    edit_in(&mut document, key, value)?;
    Ok(document.to_string())
}

/// Reads a TOML text.
///
/// # Errors
/// Returns an error if the text is not TOML.
pub(crate) fn parsed_text(text: &str) -> Result<DocumentMut> {
    text.parse().map_err(|error: toml_edit::TomlError| Problem::bad(error.message().to_owned()))
}

/// Sets or removes a key of a document, as [`edit`] does.
///
/// # Errors
/// Returns an error if a part of the key is not a table.
pub(crate) fn edit_in(document: &mut DocumentMut, key: &str, value: Option<&str>) -> Result<()> {
    let parts = parts(key).ok_or_else(|| Problem::bad(format!("\"{key}\" is not a key")))?;
    let (last, path) = parts.split_last().ok_or_else(|| Problem::bad("the key is empty"))?;
    let mut table: &mut dyn TableLike = document.as_table_mut();
    let mut is_inline = false;
    for (n, part) in path.iter().enumerate() {
        if table.get(part).is_none() {
            if value.is_none() {
                return Ok(());
            }
            if n == 0 && is_list(part) {
                return Err(Problem::bad(format!("`{part}` of \"{key}\" is a list: edit the text")));
            }
            let mut new = Table::new();
            new.set_implicit(true);
            table.insert(part, Item::Table(new));
        }
        let item = table.get_mut(part).ok_or_else(Problem::not_found)?;
        is_inline = item.is_inline_table();
        table = match item.as_table_like_mut() {
            Some(table) => table,
            None => return Err(Problem::bad(format!("`{part}` of \"{key}\" is not a table: edit the text"))),
        };
    }
    let entries = table.len();
    match value {
        Some(value) => set(table, last, parsed(value)),
        None => {
            table.remove(last);
        }
    }
    // The space before the brace belongs to the last entry.
    if is_inline && table.len() != entries {
        table.fmt();
    }
    Ok(())
}

/// Returns `true` if a scenario has a list at this key, as of events.
fn is_list(key: &str) -> bool {
    bentpipe_scenario::catalogue::schema()["properties"][key]["type"] == "array"
}

/// Sets a value with the spaces and the comment of the one before.
fn set(table: &mut dyn TableLike, key: &str, mut value: Value) {
    if let Some(Item::Value(old)) = table.get_mut(key) {
        *value.decor_mut() = old.decor().clone();
        *old = value;
    } else {
        table.insert(key, Item::Value(value));
    }
}

fn parsed(text: &str) -> Value {
    let value: Option<Value> = text.trim().parse().ok();
    let mut value = value.filter(|value| !value.is_datetime()).unwrap_or_else(|| Value::from(text));
    value.decor_mut().clear();
    if let Value::InlineTable(table) = &mut value {
        table.fmt();
    }
    value
}

/// Adds an empty table to a section of a TOML text.
///
/// # Errors
/// Returns an error if the text is not TOML, or the section has such an entry.
pub(crate) fn add_table(text: &str, section: &str, name: &str) -> Result<String> {
    let mut document = parsed_text(text)?;
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let item = document.as_table_mut().entry(section).or_insert(Item::Table(implicit));
    let table =
        item.as_table_like_mut().ok_or_else(|| Problem::bad(format!("`{section}` is not a table")))?;
    if table.contains_key(name) {
        return Err(Problem::bad(format!("`{section}.{name}` is there already")));
    }
    let mut new = Table::new();
    new.decor_mut().set_prefix("\n");
    table.insert(name, Item::Table(new));
    Ok(document.to_string())
}

/// Keys that name an entry's place in the network. Presets leave them as they are.
const PLACE: [&str; 4] = ["between", "from", "to", "members"];

/// Returns the keys of an entry as TOML, without those of its place.
pub(crate) fn preset_of(text: &str, [section, name]: [&str; 2]) -> Result<String> {
    let document: DocumentMut = text.parse().map_err(|_| Problem::bad("the text is not TOML"))?;
    let entry = document
        .get(section)
        .and_then(|table| table.as_table_like()?.get(name))
        .and_then(Item::as_table_like);
    let mut preset = DocumentMut::new();
    for (key, item) in entry.ok_or_else(Problem::not_found)?.iter().filter(|(key, _)| !PLACE.contains(key)) {
        let value = item
            .clone()
            .into_value()
            .map_err(|_| Problem::bad(format!("`{key}` cannot be kept in a preset")))?;
        let mut value = value;
        value.decor_mut().clear();
        preset.insert(key, Item::Value(value));
    }
    Ok(preset.to_string())
}

/// Sets the keys of an entry to those of a preset. Equal values stay as they are written.
///
/// It takes time in proportion to the text: keys are removed in one pass, as the removal of one moves all that follow.
pub(crate) fn load_preset(text: &str, [section, name]: [&str; 2], preset: &str) -> Result<String> {
    let preset: DocumentMut = preset.parse().map_err(|_| Problem::bad("the preset is not TOML"))?;
    let mut document: DocumentMut = text.parse().map_err(|_| Problem::bad("the text is not TOML"))?;
    let entry = document.get_mut(section).and_then(|table| table.as_table_like_mut()?.get_mut(name));
    let entry = entry.ok_or_else(Problem::not_found)?;
    let entries = entry.as_table_like().ok_or_else(Problem::not_found)?.len();
    let stays = |key: &str| PLACE.contains(&key) || preset.contains_key(key);
    match entry {
        Item::Table(table) => table.retain(|key, _| stays(key)),
        Item::Value(Value::InlineTable(table)) => table.retain(|key, _| stays(key)),
        _ => return Err(Problem::not_found()),
    }
    let is_inline = entry.is_inline_table();
    let table = entry.as_table_like_mut().ok_or_else(Problem::not_found)?;
    for (key, item) in preset.iter().filter(|(key, _)| !PLACE.contains(key)) {
        match plain(item) {
            Some(new) if table.get(key).and_then(plain).as_ref() != Some(&new) => {
                set(table, key, parsed(&new));
            }
            _ => {}
        }
    }
    if is_inline && table.len() != entries {
        table.fmt();
    }
    Ok(document.to_string())
}

/// Returns a value as TOML without the spaces around it.
fn plain(item: &Item) -> Option<String> {
    let mut value = item.clone().into_value().ok()?;
    value.decor_mut().clear();
    Some(value.to_string())
}

/// Returns `true` if a text is TOML.
pub(crate) fn is_table(text: &str) -> bool {
    text.parse::<DocumentMut>().is_ok()
}

/// Returns a key whose parts are joined by dots, in quotes where they need them.
pub(crate) fn key_of(path: &[String]) -> String {
    let part = |part: &String| Key::new(part).display_repr().into_owned();
    path.iter().map(part).collect::<Vec<_>>().join(".")
}

/// Returns the parts of a dotted key; parts in double quotes may have dots.
fn parts(key: &str) -> Option<Vec<String>> {
    if key.is_empty() || key.len() > 300 {
        return None;
    }
    let parsed = Key::parse(key).ok()?;
    Some(parsed.iter().map(|part| part.get().to_owned()).collect())
}

/// Returns all keys of a text with their values as TOML. A text that is not TOML has none.
pub(crate) fn leaves(text: &str) -> Vec<(String, String)> {
    let document: DocumentMut = text.parse().unwrap_or_default();
    let mut all = Vec::new();
    collect(document.as_table(), "", &mut all);
    all
}

fn collect(table: &dyn TableLike, prefix: &str, into: &mut Vec<(String, String)>) {
    for (name, item) in table.iter() {
        let key = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        match (item.as_table_like(), item.as_str(), item.as_value()) {
            (Some(table), ..) => collect(table, &key, into),
            (_, Some(text), _) => into.push((key, text.to_owned())),
            (_, _, Some(value)) => into.push((key, value.to_string().trim().to_owned())),
            _ => into.push((key, item.to_string())),
        }
    }
}

/// Returns the value of a key as TOML.
pub(crate) fn value_in(document: &DocumentMut, key: &str) -> Option<String> {
    let mut item: &Item = document.as_item();
    for part in parts(key)? {
        item = item.as_table_like()?.get(&part)?;
    }
    Some(item.as_value()?.to_string().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use bentpipe_scenario::files::{is_file_key, names_file};

    use super::*;

    const TEXT: &str = "\
title = \"x\" # the title

# Around the satellite.
[link.satellite]
between = [\"a\", \"b\"]
rate = \"10 Mbit/s\"   # forward and return
queue = { kind = \"drop-tail\", limit = \"20 kB\" }
";

    #[test]
    fn a_change_keeps_comments_order_and_spaces() {
        let edited = edit(TEXT, "link.satellite.rate", Some("\"2 Mbit/s\"")).expect("edited");
        assert_eq!(edited, TEXT.replace("10 Mbit/s", "2 Mbit/s"));
        let edited = edit(TEXT, "link.satellite.queue.limit", Some("40 kB")).expect("edited");
        assert_eq!(edited, TEXT.replace("20 kB", "40 kB"));
        let document = parsed_text(&edited).expect("TOML");
        assert_eq!(value_in(&document, "link.satellite.queue.limit").as_deref(), Some("\"40 kB\""));
    }

    #[test]
    fn keys_are_added_and_removed() {
        let edited = edit(TEXT, "link.satellite.delay", Some("250 ms")).expect("edited");
        assert!(edited.contains("\ndelay = \"250 ms\"\n"), "{edited}");
        assert_eq!(edit(&edited, "link.satellite.delay", None).expect("edited"), TEXT);
        assert_eq!(edit(TEXT, "no.such.key", None).expect("edited"), TEXT);
        let edited = edit(TEXT, "node.new.kind", Some("host")).expect("edited");
        assert!(edited.contains("[node.new]\nkind = \"host\""), "{edited}");
        let list = edit(TEXT, "event.0.file", Some("x.csv")).expect_err("a list").detail;
        assert!(list.contains("`event` of \"event.0.file\" is a list"), "{list}");
        assert!(edit(TEXT, "title.x", Some("1")).is_err() && edit(TEXT, "", Some("1")).is_err());
    }

    #[test]
    fn a_preset_goes_from_one_link_to_another_and_leaves_its_place() {
        let preset = preset_of(TEXT, ["link", "satellite"]).expect("a preset");
        assert!(!preset.contains("between") && preset.contains("20 kB"), "{preset}");
        let other =
            "[link.x]\nbetween = [\"c\", \"d\"] # ends\nrate = \"10 Mbit/s\" # kept\nmtu = \"600 B\"\n";
        let loaded = load_preset(other, ["link", "x"], &preset).expect("loaded");
        assert!(
            loaded.starts_with("[link.x]\nbetween = [\"c\", \"d\"] # ends\nrate = \"10 Mbit/s\" # kept\n"),
            "{loaded}"
        );
        assert!(loaded.contains("drop-tail") && !loaded.contains("mtu"), "{loaded}");
        assert_eq!(load_preset(TEXT, ["link", "satellite"], &preset).expect("loaded"), TEXT);
        assert!(preset_of(TEXT, ["link", "none"]).is_err());
    }

    #[test]
    fn files_of_the_server_are_refused_wherever_they_are_named() {
        for text in [
            "file = \"/etc/shadow\"",
            "[link.a.channel]\nfile = \"../../x\"",
            "[flow.a]\ntraffic = { kind = \"replay\", file = \"x.pcap\" }",
            "[flow.a]\ntraffic = { kind = \"stream\", model = { sizes = \"/etc/shadow\" } }",
            "x = [{ y = [{ file = \"x\" }] }]",
            "[[x]]\nfile = 'x'",
            "[sweep]\n\"link.a.channel.file\" = [\"x\"]",
            "\"fi\\u006ce\" = \"x\"",
            "file = 1",
        ] {
            assert!(check(text, &Inputs::default()).is_err(), "{text}");
        }
        for assignment in
            ["link.a.channel.file=/etc/shadow", "link.a.channel={ file = \"x\" }", "link.a.\"file\" = 'x'"]
        {
            assert!(names_file(assignment), "{assignment}");
        }
        assert!(!names_file("link.a.rate=\"1 Mbit/s\"") && !names_file("flow.f.count='1 to 9'"));
    }

    /// A key for a file that the schema has and this module does not know would open the server's files.
    #[test]
    fn every_key_that_names_a_file_is_known() {
        fn walk(value: &serde_json::Value, found: &mut Vec<(String, String)>) {
            for (key, property) in value["properties"].as_object().into_iter().flatten() {
                let text = property["description"].as_str().unwrap_or_default();
                let text = text.split("\n\n").next().unwrap_or_default();
                let kind = &property["type"];
                let is_text = kind == "string" || kind[0] == "string";
                let words = || text.split(|c: char| !c.is_alphanumeric());
                if is_text && words().any(|word| word.eq_ignore_ascii_case("file")) {
                    found.push((key.clone(), text.to_owned()));
                }
            }
            match value {
                serde_json::Value::Object(table) => table.values().for_each(|value| walk(value, found)),
                serde_json::Value::Array(list) => list.iter().for_each(|value| walk(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        walk(bentpipe_scenario::catalogue::schema(), &mut found);
        assert!(found.len() >= 6, "{found:?}");
        for (key, text) in found {
            assert!(is_file_key(&key), "{key}: {text}");
        }
    }

    #[test]
    fn a_scenario_reads_the_files_of_its_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut receiving = crate::inputs::Receiving::new(folder.path()).expect("a file");
        receiving.add(b"time,delay\n0 s,10 ms\n1 s,20 ms\n").expect("written");
        let content = receiving.keep("leo.csv").expect("kept");
        let inputs = Inputs::new(folder.path(), vec![content.clone()]);
        let text = "title = \"t\"\nduration = \"2 s\"\nnode.a = {}\nnode.b = {}\n[link.l]\nbetween = [\"a\", \"b\"]\n\
                    rate = \"1 Mbit/s\"\ndelay_changes = { file = \"leo.csv\" }\n";
        let draft = check(text, &inputs).map_err(|found| format!("{found:?}")).expect("checked");
        assert_eq!(draft.files, [content]);
        let found = check(&text.replace("leo", "geo"), &inputs).err().expect("refused");
        assert_eq!((found[0].line, &found[0].key[..]), (8, "link.l.delay_changes.file"));
        assert!(found[0].message.contains("\"geo.csv\": expected one of leo.csv"), "{}", found[0].message);
    }
}
