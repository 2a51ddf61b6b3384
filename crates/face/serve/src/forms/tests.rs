use std::path::Path;

use toml_edit::{DocumentMut, Item, TableLike};

use super::fields::fields;
use super::*;
use crate::drafts::key_of;

fn shipped() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let files = std::fs::read_dir(folder).expect("scenarios").map(|file| file.expect("a file").path());
    let scenarios = files.filter(|path| path.extension().is_some_and(|end| end == "toml"));
    scenarios.map(|path| (path.display().to_string(), std::fs::read_to_string(path).expect("read"))).collect()
}

/// Returns the keys of all values below a table.
fn keys(table: &dyn TableLike, path: &[String], into: &mut Vec<String>) {
    for (name, item) in table.iter() {
        let path = [path, &[name.to_owned()]].concat();
        match item.as_table_like() {
            Some(table) => keys(table, &path, into),
            None => into.push(key_of(&path)),
        }
    }
}

fn shown(fields: &[Field], into: &mut Vec<String>) {
    for field in fields {
        match &field.kind {
            Kind::Group { fields, .. } => shown(fields, into),
            Kind::Kinds { chosen, branches } => {
                if !chosen.is_empty() {
                    into.push(field.key.clone());
                    into.push(format!("{}.kind", field.key));
                }
                branches
                    .iter()
                    .filter(|(name, ..)| name == chosen)
                    .for_each(|(.., fields)| shown(fields, into));
            }
            Kind::Text { value, .. }
            | Kind::Number { value }
            | Kind::Choice { value, .. }
            | Kind::Switch { value } => {
                if !value.is_empty() {
                    into.push(field.key.clone());
                }
            }
            Kind::Toml { value } => {
                if !value.is_empty() {
                    into.push(format!("{}\u{0}", field.key));
                }
            }
        }
    }
}

fn paths(document: &DocumentMut) -> Vec<Vec<String>> {
    let entries = SECTIONS.iter().flat_map(|(section, _)| {
        names(document, section).into_iter().map(|name| vec![(*section).to_owned(), name])
    });
    let single = SINGLE.iter().map(|(table, _)| vec![(*table).to_owned()]);
    std::iter::once(Vec::new()).chain(single).chain(entries).collect()
}

#[test]
fn every_key_of_the_shipped_scenarios_has_a_form() {
    for (name, text) in shipped() {
        let document: DocumentMut = text.parse().expect("TOML");
        let mut forms = Vec::new();
        paths(&document).iter().for_each(|path| shown(&fields(&document, path), &mut forms));
        let mut all = Vec::new();
        keys(document.as_table(), &[], &mut all);
        assert!(all.len() > 10);
        for key in all {
            // A field with TOML has the keys below it.
            let has = forms.iter().any(|form| match form.strip_suffix('\u{0}') {
                Some(table) => key == table || key.starts_with(&format!("{table}.")),
                None => *form == key,
            });
            // Older spellings are edited in the text.
            let older = bentpipe_scenario::current_key(&key) != key;
            assert!(has || older, "{name}: {key}");
        }
    }
}

/// Returns what a browser sends if nothing is changed.
fn untouched(fields: &[Field], branch: &str, into: &mut Vec<(String, String)>) {
    for field in fields {
        let name = format!("{}{branch}", field.key);
        match &field.kind {
            Kind::Group { fields, .. } => untouched(fields, branch, into),
            Kind::Kinds { chosen, branches } => {
                into.push((format!("{}.kind{branch}", field.key), chosen.clone()));
                for (kind, _, fields) in branches {
                    untouched(fields, &format!("{branch}@{kind}"), into);
                }
            }
            Kind::Text { value, .. }
            | Kind::Number { value }
            | Kind::Choice { value, .. }
            | Kind::Switch { value }
            | Kind::Toml { value } => into.push((name, value.clone())),
        }
    }
}

#[test]
fn a_form_sent_without_changes_changes_nothing_that_is_read() {
    for (name, text) in shipped() {
        let document: DocumentMut = text.parse().expect("TOML");
        for path in paths(&document) {
            let mut sent = Vec::new();
            untouched(&fields(&document, &path), "", &mut sent);
            let applied = apply(&text, &path, &sent).expect("applied");
            assert_eq!(applied, text, "{name}: {path:?}");
        }
    }
}

#[test]
fn a_router_gets_every_parameter_of_red_in_place() {
    let text = "title = \"x\"\n# The bottleneck.\n[link.r1]\nbetween = [\"a\", \"b\"]\nqueue = { kind = \"drop-tail\", bytes = \"2000 B\" } # small\n";
    let path = ["link".to_owned(), "r1".to_owned()];
    let values = [
        ("link.r1.queue.kind", "red"),
        ("link.r1.queue.limit@red", "75000 B"),
        ("link.r1.queue.min@red", "7500 B"),
        ("link.r1.queue.max@red", "22500 B"),
        ("link.r1.queue.probability@red", "0.1"),
        ("link.r1.queue.average_packet@red", "1500 B"),
        ("link.r1.queue.burst@red", "12"),
        ("link.r1.queue.bandwidth@red", "10 Mbit/s"),
        ("link.r1.queue.bytes@drop-tail", "2000 B"),
    ];
    let sent: Vec<_> = values.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let edited = apply(text, &path, &sent).expect("applied");
    assert!(edited.starts_with("title = \"x\"\n# The bottleneck.\n[link.r1]\n"), "{edited}");
    let document: DocumentMut = edited.parse().expect("TOML");
    let queue = document["link"]["r1"]["queue"].as_table_like().expect("a table");
    assert_eq!(queue.len(), 8);
    assert_eq!(queue.get("burst").and_then(Item::as_integer), Some(12));
    assert_eq!(queue.get("probability").and_then(Item::as_float), Some(0.1));
    assert_eq!(queue.get("max").and_then(Item::as_str), Some("22500 B"));
}

#[test]
fn a_word_becomes_a_table_when_it_gets_keys_and_an_emptied_field_goes() {
    let text = "[link.r1]\nqueue = \"drop-tail\"\ndelay = \"5 ms\"\n";
    let path = ["link".to_owned(), "r1".to_owned()];
    let sent = [("link.r1.queue.packets@drop-tail", "50"), ("link.r1.delay", " ")];
    let sent: Vec<_> = sent.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
    let edited = apply(text, &path, &sent).expect("applied");
    assert_eq!(edited, "[link.r1]\nqueue = { kind = \"drop-tail\", packets = 50 }\n");
}
