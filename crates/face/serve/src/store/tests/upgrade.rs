//! Upgrades: all rows of a database of each schema are there after them.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value;

use super::{MIGRATIONS, SCHEMAS, Store, jobs, people, scenarios, write};

/// Row by its columns.
type Row = BTreeMap<String, Value>;

/// Rows that each schema takes: a person with all that people have, and jobs in all states.
const ROWS: &str = "
INSERT INTO user(id, name, hash, level, disabled, created) VALUES (7, 'bob', 'argon-of-bob', 2, 1, 1001);
INSERT INTO session VALUES (7, x'07aa', 7, 1, 2, 3000, '192.0.2.7', 'browser');
INSERT INTO token VALUES (7, x'0755', 7, 'nightly', 'run', 1, 4000, 9), (8, x'0856', 7, 'for ever', 'read', 1, 99999999999999, NULL);
INSERT INTO scenario(id, owner, name, shared, archived, created) VALUES (7, 7, 'old', 1, 1, 2);
INSERT INTO version(id, scenario, parent, author, toml, hash, created)
    VALUES (7, 7, NULL, 7, 'title = \"one\"', 'h7', 1), (8, 7, 7, 7, 'title = \"two\"', 'h8', 2);
INSERT INTO job(id, owner, version, name, shared, priority, state, attempt, seeds, duration, cancel, offset, runs, finished, share,
        message, folder, request_key, created, started, ended)
    VALUES (71, 7, 7, 'q', 0, -3, 'queued', 0, NULL, NULL, 0, 0, 0, 0, 0.0, '', NULL, 'k-71', 1, NULL, NULL),
        (72, 7, 8, 'r', 1, 0, 'running', 2, 5, '3 s', 1, 77, 10, 4, 0.45, '', NULL, NULL, 1, 2, NULL),
        (73, 7, 8, 'd', 0, 5, 'done', 1, 5, '3 s', 0, 99, 10, 10, 1.0, 'fine', 'd-0123', 'k-73', 1, 2, 3),
        (74, 7, 8, 'f', 0, 0, 'failed', 3, NULL, NULL, 0, 9, 1, 0, 0.5, 'killed', NULL, NULL, 1, 2, 3),
        (75, 7, 8, 'c', 0, 0, 'cancelled', 1, NULL, NULL, 1, 9, 1, 0, 0.5, '', NULL, NULL, 1, 2, 3);
INSERT INTO job_event(id, job, at, kind, json) VALUES (701, 73, 5, 'state', '{\"state\":\"done\"}');
INSERT INTO point VALUES (73, 0, '{\"link.l.rate\":\"1 Mbit/s\"}', 'f00d'), (73, 1, '{}', 'beef f00d');
INSERT INTO measure VALUES (73, 1, 'goodput', 'bit/s', 5, 1.5e6, 0.25), (73, 1, 'none', '', 0, NULL, NULL);
INSERT INTO artifact VALUES (73, 0, 'points/p001-s1/outcome.json', 123456789012);
INSERT INTO preset(id, owner, shared, section, name, toml, created) VALUES (7, 7, 1, 'link', 'fast', 'rate = \"1 Gbit/s\"', 4);
";

/// Rows of tables that later schemas have, and that are empty in their files.
const LATER: [(&str, &str); 3] = [
    ("site_invitation", "INSERT INTO site_invitation VALUES (x'07', 'west', 7, 5000)"),
    ("site_chunk", "INSERT INTO site_chunk SELECT id, 3, 4 FROM site_task"),
    (
        "recovery_code",
        "INSERT INTO recovery_code(user, hash) VALUES (7, x'0777'); UPDATE user SET totp = x'0707', totp_step = 70 WHERE id = 7",
    ),
];

/// Adds rows to every table of a database.
fn fill(path: &Path) {
    let raw = Connection::open(path).expect("opens");
    raw.execute_batch(ROWS).expect("written");
    let has = |table: &str| {
        let query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1)";
        raw.query_row(query, [table], |row| row.get::<_, bool>(0)).expect("an answer")
    };
    for (_, sql) in LATER.iter().filter(|(table, _)| has(table)) {
        raw.execute_batch(sql).expect("written");
    }
}

fn rows(path: &Path) -> BTreeMap<String, Vec<Row>> {
    let raw = Connection::open(path).expect("opens");
    let mut tables = raw
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        .expect("a query");
    let names = tables.query_map([], |row| row.get::<_, String>(0)).expect("rows");
    let read = |name: String| {
        let mut all = raw.prepare(&format!("SELECT * FROM {name}")).expect("a query");
        let columns: Vec<String> = all.column_names().map(str::to_owned).collect();
        let row = |row: &rusqlite::Row<'_>| {
            columns.iter().map(|column| Ok((column.clone(), row.get(&column[..])?))).collect()
        };
        let all = all.query_map([], row).expect("rows").collect::<Result<Vec<Row>, _>>().expect("values");
        (name, all)
    };
    names.map(|name| read(name.expect("a name"))).collect()
}

/// Returns `true` if a row has the values of an earlier one. Tokens may end earlier.
fn keeps(after: &Row, before: &Row) -> bool {
    before.iter().all(|(column, value)| match (column.as_str(), value, after.get(column)) {
        ("expires", Value::Integer(before), Some(Value::Integer(after))) => after <= before,
        (_, value, after) => after == Some(value),
    })
}

#[test]
fn no_row_and_no_value_is_lost_on_the_way_from_any_schema() {
    for (version, committed) in SCHEMAS.iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.sqlite");
        std::fs::write(&path, committed).expect("written");
        fill(&path);
        let before = rows(&path);
        let is_empty = |(table, rows): &(&String, &Vec<Row>)| rows.is_empty() && *table != "login_failure";
        assert_eq!(before.iter().find(is_empty), None, "schema {}", version + 1);
        // The committed ones have no keys.
        let store = Store::open_with(&path, super::audit::Missing::Replaced).expect("migrated");
        let after = rows(&path);
        for (table, earlier) in &before {
            // Failures of logins are counted in memory, and the places of jobs are set at each start.
            if table == "login_failure" || table == "capacity" {
                continue;
            }
            let later = after.get(table).unwrap_or_else(|| panic!("schema {}: {table} is gone", version + 1));
            assert_eq!(later.len(), earlier.len(), "schema {}: {table}", version + 1);
            for row in earlier {
                let is_kept = later.iter().any(|later| keeps(later, row));
                assert!(is_kept, "schema {}: {table}: {row:?} in {later:?}", version + 1);
            }
        }
        let bob = write(&store, |db| people::find(db, 7)).expect("a user");
        assert_eq!(write(&store, |db| scenarios::find_archived(db, &bob, 7)).expect("there").version, 8);
        let job = write(&store, |db| jobs::find(db, &bob, 73)).expect("a job");
        assert_eq!((job.seeds, job.duration.as_deref(), &job.message[..]), (Some(5), Some("3 s"), "fine"));
        assert_eq!(write(&store, |db| jobs::points(db, 73)).len(), 2);
        // The number of a job is not used again.
        let next = write(&store, |db| super::launch(db, 1, None));
        assert!(next > 75, "{next}");
    }
    assert_eq!(SCHEMAS.len(), MIGRATIONS.len());
}
