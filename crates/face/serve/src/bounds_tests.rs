//! Bounds of what users make: tables of the database, and the one of the book.

use crate::api::{jobs, reservations};
use crate::store::counts::Counted;
use crate::store::{Result, Store, people};
use crate::{app, inputs, runner};

/// Tables whose rows users do not make, or in which they have one.
const OF_OTHERS: [&str; 5] = ["capacity", "site", "site_invitation", "sqlite_sequence", "user"];

/// Each table of the database is in "What a user makes" of the book.
#[test]
fn the_book_has_the_bound_of_each_table_that_users_fill() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/serve.md");
    let page = std::fs::read_to_string(path).expect("a page");
    let section = page.split_once("### What a user makes").expect("a section").1;
    let rows: Vec<Vec<&str>> = section
        .lines()
        .skip_while(|line| !line.starts_with("|--"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut listed: Vec<&str> =
        rows.iter().flat_map(|row| row[1].split('`').skip(1).step_by(2)).chain(OF_OTHERS).collect();
    listed.sort_unstable();
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("data.sqlite")).expect("opens");
    let names = |db: &rusqlite::Transaction<'_>| -> Result<Vec<String>> {
        let mut query = db.prepare("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")?;
        let names = query.query_map([], |row| row.get(0))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    };
    let tables = store.write(names).expect("read");
    assert_eq!(listed, tables, "a table of the database without a bound in {path}");
    let numbers = [
        ("sessions", i64::from(people::MAX_SESSIONS)),
        ("tokens", Counted::Token.most()),
        ("presets", Counted::Preset.most()),
        ("files", inputs::MAX_FILES as i64),
        ("reservations", reservations::MAX_OWN as i64),
        ("reservations", reservations::MAX_COUNTED as i64),
        ("jobs and searches", jobs::MAX_UNFINISHED),
        ("events of a job", runner::MAX_RUN_EVENTS),
        ("tasks of a job on sites", bentpipe_agent::job::MAX_TASKS as i64),
        ("streams", app::STREAMS.0 as i64),
    ];
    for (what, number) in numbers {
        let row = rows.iter().find(|row| row[0] == what).unwrap_or_else(|| panic!("no row \"{what}\""));
        let plain = row[2].replace(',', "");
        let has = plain.split(|c: char| !c.is_ascii_digit()).any(|word| word == number.to_string());
        assert!(has, "{what}: {} without {number}", row[2]);
    }
}
