//! Bounds of the database: an audit log that is whole, texts that count, turns of jobs.

use rusqlite::Connection;

use super::{launch, store, write};
use crate::store::jobs::{JobState, KindName};
use crate::store::{Store, audit, jobs, people, turns, usage};

#[test]
fn an_audit_log_that_was_emptied_or_cut_is_not_whole() {
    let (folder, store) = store();
    write(&store, |db| people::add(db, "ann", "x", 3));
    let add = |store: &Store, object| {
        let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object, outcome: "done" };
        write(store, |db| audit::append(db, &entry));
    };
    ["a", "b", "c"].iter().for_each(|object| add(&store, object));
    let path = folder.path().join("data.sqlite");
    let change = |sql: &str| {
        let raw = Connection::open(&path).expect("opens");
        raw.execute_batch(&format!("DROP TRIGGER IF EXISTS audit_is_whole; {sql}")).expect("changed");
    };
    change("CREATE TABLE kept AS SELECT * FROM audit; DELETE FROM audit WHERE id = 3");
    assert_eq!(write(&store, audit::broken_at), Some(3), "cut");
    // Entries that come do not take its place.
    add(&store, "d");
    assert_eq!(write(&store, audit::broken_at), Some(3));
    drop(store);
    let refused = |why: &str| {
        let error = Store::open(&path).err().expect("refused").to_string();
        assert!(error.contains(why), "{error}");
    };
    refused("audit.end: entry 3 of the audit log is missing or changed");
    change("DELETE FROM audit");
    refused("entry 3");
    for name in ["audit.end", "audit.key"] {
        std::fs::rename(folder.path().join(name), folder.path().join("aside").with_extension(name))
            .expect("moved");
    }
    // A folder with users had entries.
    refused("audit.key: missing");
    for name in ["audit.end", "audit.key"] {
        std::fs::rename(folder.path().join("aside").with_extension(name), folder.path().join(name))
            .expect("moved");
    }
    change("INSERT INTO audit SELECT * FROM kept");
    assert_eq!(write(&Store::open(&path).expect("opens"), audit::broken_at), None);
    change("DELETE FROM audit");
    let again = Store::open_with(&path, audit::Missing::Replaced).expect("by choice");
    add(&again, "e");
    assert_eq!(write(&again, audit::broken_at), None);
    drop(again);
    assert!(Store::open(&path).is_ok());
}

#[test]
fn errors_of_the_database_show_no_statement() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data.sqlite");
    let raw = Connection::open(&path).expect("opens");
    raw.pragma_update(None, "user_version", 3).expect("set");
    drop(raw);
    let error = Store::open(&path).err().expect("no database of bentpipe").to_string();
    assert!(error.starts_with("database: ") && error.len() < 200, "{error}");
    assert!(!["SELECT", "TABLE", "CREATE"].iter().any(|word| error.contains(word)), "{error}");
}

#[test]
fn texts_of_jobs_count_and_lists_have_their_beginnings() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let before = write(&store, |db| usage::of(db, ann)).0;
    let job = write(&store, |db| launch(db, ann, None));
    let (note, file) = ("n".repeat(4000), "f".repeat(200_000));
    write(&store, |db| {
        jobs::set_note(db, job, &note)?;
        jobs::set_artifacts(db, job, &[("a".to_owned(), 5)], 70)?;
        Ok(db.execute(
            "UPDATE job SET kind = 'sites', sites = ?2 WHERE id = ?1",
            rusqlite::params![job, file],
        )?)
    });
    let (texts, _, results) = write(&store, |db| usage::of(db, ann));
    assert!(texts - before >= 204_000, "{texts}");
    assert_eq!(results, 75, "files that no list has count too");
    assert_eq!(write(&store, |db| jobs::artifacts(db, job)).len(), 1);
    let user = write(&store, |db| people::find(db, ann)).expect("exists");
    let selection = jobs::Selection { limit: 9, ..Default::default() };
    let listed = write(&store, |db| jobs::list(db, &user, &selection)).remove(0);
    assert_eq!((listed.note.len(), listed.sites_file().map(str::len)), (300, Some(1000)));
    let whole = write(&store, |db| jobs::find(db, &user, job)).expect("exists");
    assert_eq!((&whole.note, whole.sites_file().map(str::len)), (&note, Some(200_000)));
}

#[test]
fn what_is_queued_behind_an_emulation_starts_if_it_keeps_it_from_nothing() {
    let (_folder, store) = store();
    let [ann, bob, cid] =
        ["ann", "bob", "cid"].map(|name| write(&store, |db| people::add(db, name, "x", 1)).expect("added"));
    const HOUR_MS: i64 = 3_600_000;
    let queued = |owner, kind: KindName, real_ms: i64| {
        let id = write(&store, |db| launch(db, owner, None));
        let content = serde_json::json!({ "state": "queued", "real_ms": real_ms }).to_string();
        write(&store, |db| {
            db.execute(
                "UPDATE job SET kind = ?2, sites = iif(?2 = 'sites', 'x', NULL) WHERE id = ?1",
                rusqlite::params![id, kind],
            )?;
            Ok(db.execute("UPDATE job_event SET json = ?2 WHERE job = ?1", rusqlite::params![id, content])?)
        });
        id
    };
    let claim = || write(&store, |db| turns::claim(db, 9)).map(|job| job.id);
    let end = |id| write(&store, |db| jobs::set_state(db, id, JobState::DONE, ""));
    let running = queued(ann, KindName::Simulate, HOUR_MS);
    assert_eq!(claim(), Some(running));
    // It came first, and began first.
    write(&store, |db| Ok(db.execute("UPDATE job SET started = started - 200 WHERE id = ?1", [running])?));
    let alone = queued(bob, KindName::Emulate, HOUR_MS);
    write(&store, |db| Ok(db.execute("UPDATE job SET created = created - 100 WHERE id = ?1", [alone])?));
    let long = queued(cid, KindName::Simulate, 2 * HOUR_MS);
    let short = queued(cid, KindName::Simulate, HOUR_MS / 2);
    assert_eq!((claim(), claim()), (Some(short), None), "the long one would keep the emulation waiting");
    // Once those have ended that ran when it came, nothing overtakes it.
    end(running);
    let late = queued(ann, KindName::Simulate, 1);
    assert_eq!(claim(), None);
    end(short);
    assert_eq!((claim(), claim()), (Some(alone), None));
    end(alone);
    let mut rest = [claim(), claim(), claim()];
    rest.sort();
    assert_eq!(rest, [None, Some(long), Some(late)]);
    // A job on sites waits for another one, and others do not wait with it.
    [long, late].into_iter().for_each(end);
    let sites = [(); 2].map(|()| queued(ann, KindName::Sites, 1));
    assert_eq!((claim(), claim()), (Some(sites[0]), None));
    let other = queued(bob, KindName::Simulate, 1);
    assert_eq!((claim(), claim()), (Some(other), None));
}
