//! Bounds of the database: an audit log that is whole, texts that count, turns of jobs.

use rusqlite::Connection;

use super::{launch, store, write};
use crate::store::counts::Counted;
use crate::store::jobs::{JobState, KindName};
use crate::store::{Store, audit, files, jobs, people, presets, scenarios, turns, usage};

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
fn the_end_of_an_audit_log_is_there_and_has_a_code_of_its_key() {
    let (folder, store) = store();
    write(&store, |db| people::add(db, "ann", "x", 3));
    let path = folder.path().join("data.sqlite");
    let add = |store: &Store, object| {
        let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object, outcome: "done" };
        write(store, |db| audit::append(db, &entry));
    };
    let end = folder.path().join("audit.end");
    let read = || std::fs::read_to_string(&end).expect("an end");
    add(&store, "a");
    let first = read();
    ["b", "c"].iter().for_each(|object| add(&store, object));
    drop(store);
    let (key, last) = (std::fs::read_to_string(folder.path().join("audit.key")).expect("a key"), read());
    assert!(key.ends_with(" with-end\n"), "{key}");
    // The log is cut, and what is put in place of its end is not the server's.
    let raw = Connection::open(&path).expect("opens");
    let cut = "DROP TRIGGER audit_is_whole; CREATE TABLE kept AS SELECT * FROM audit; DELETE FROM audit WHERE id > 1";
    raw.execute_batch(cut).expect("cut");
    let refused = |why: &str| {
        let error = Store::open(&path).err().expect("refused").to_string();
        assert!(error.contains(why), "{error}");
    };
    refused("entry 3");
    std::fs::remove_file(&end).expect("removed");
    refused("audit.end: missing");
    let (words, code) = last.trim_end().rsplit_once(' ').expect("a code");
    let rewritten = format!("{} {code}\n", first.rsplit_once(' ').expect("a code").0);
    for text in ["", "\n", "garbage", words, &rewritten, &last[..last.len() - 9], &format!("{last}{last}")] {
        std::fs::write(&end, text).expect("written");
        refused("audit.end: not what the server wrote");
    }
    std::fs::write(&end, &last).expect("written");
    raw.execute_batch("INSERT INTO audit SELECT * FROM kept WHERE id > 1").expect("put back");
    let store = Store::open(&path).expect("opens");
    assert_eq!(write(&store, audit::broken_at), None);
    drop(store);
    std::fs::remove_file(&end).expect("removed");
    let again = Store::open_with(&path, audit::Missing::Replaced).expect("by choice");
    assert_eq!(again.first_after_loss(), Some(4));
    add(&again, "d");
    drop(again);
    assert!(Store::open(&path).is_ok());
}

#[test]
fn the_end_of_the_log_is_written_where_another_file_has_no_room() {
    let (folder, store) = store();
    write(&store, |db| people::add(db, "ann", "x", 3));
    let add = |object: &str| {
        let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object, outcome: "done" };
        write(&store, |db| audit::append(db, &entry));
    };
    add("a");
    // As on a full disk, no file can be made.
    std::fs::create_dir(folder.path().join("audit.end.new")).expect("made");
    (0..12).for_each(|_| add("b"));
    let end = std::fs::read_to_string(folder.path().join("audit.end")).expect("an end");
    assert!(end.starts_with("13 ") && end.lines().count() == 1, "{end}");
    drop(store);
    let path = folder.path().join("data.sqlite");
    let again = Store::open(&path).expect("its end is the log's");
    assert_eq!(write(&again, audit::broken_at), None);
}

#[test]
fn a_database_without_one_of_its_tables_is_damaged() {
    let (folder, store) = store();
    drop(store);
    let path = folder.path().join("data.sqlite");
    assert!(crate::store::check(&path).is_ok() && crate::store::check_backup(&path).is_ok());
    let raw = Connection::open(&path).expect("opens");
    raw.execute_batch("DROP TABLE audit").expect("dropped");
    for error in [crate::store::check(&path), crate::store::check_backup(&path)] {
        let error = error.expect_err("damaged").to_string();
        assert!(error.contains("damaged: the table \"audit\" is missing"), "{error}");
    }
}

#[test]
fn the_end_of_an_older_log_gets_its_code() {
    let (folder, store) = store();
    let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object: "a", outcome: "done" };
    write(&store, |db| audit::append(db, &entry));
    drop(store);
    let [key, end] = ["audit.key", "audit.end"].map(|name| folder.path().join(name));
    let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("read");
    let (older_key, older_end) =
        (read(&key).replace(" with-end", ""), read(&end).rsplit_once(' ').expect("a code").0.to_owned());
    // A key without an end, and an end without a code, as older ones wrote them.
    for older in [Some(format!("{older_end}\n")), Some(String::new()), None] {
        std::fs::write(&key, &older_key).expect("written");
        match older {
            Some(text) => std::fs::write(&end, text).expect("written"),
            None => std::fs::remove_file(&end).expect("removed"),
        }
        drop(Store::open(&folder.path().join("data.sqlite")).expect("opens"));
        assert!(read(&key).ends_with(" with-end\n") && read(&end).split(' ').count() == 3);
    }
}

#[test]
fn rows_of_jobs_count_for_their_owner() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let job = write(&store, |db| launch(db, ann, None));
    let texts = || write(&store, |db| usage::of(db, ann)).0;
    let before = texts();
    let change = serde_json::json!({ "key": "link.l.rate", "value": "9".repeat(9000), "at": 1.0 });
    (0..20).for_each(|_| write(&store, |db| jobs::add_change(db, job, &change)));
    let changed = texts();
    assert!(changed - before >= 180_000, "{changed}");
    let name = "n".repeat(200);
    let lines: String = (0..100)
        .map(|n| {
            let settings = serde_json::json!({ "point": { "settings": { "link.l.rate": "s".repeat(1000) }, "fingerprints": [] } });
            format!("{settings}\n{}\n", serde_json::json!({ "measure": [format!("{name}{n}"), "bit/s", 1, 1.0, null] }))
        })
        .collect();
    // Again and again, as runs of a job do: they replace each other.
    for _ in 0..3 {
        write(&store, |db| jobs::set_rows(db, job, lines.as_bytes()));
        let with_rows = texts() - changed;
        assert!((120_000..160_000).contains(&with_rows), "{with_rows}");
    }
}

#[test]
fn each_thing_that_a_user_makes_has_a_bound() {
    let (_folder, store) = store();
    let [ann, bob] =
        ["ann", "bob"].map(|name| write(&store, |db| people::add(db, name, "x", 1)).expect("added"));
    for counted in Counted::ALL {
        let add = |db: &rusqlite::Transaction<'_>, n: i64| {
            match counted {
                Counted::Token => drop(people::add_token(db, ann, ("x", "read"), 9)?),
                Counted::Preset => {
                    presets::save(db, ann, ("link", &n.to_string()), ("rate = 1", false))?;
                }
            }
            counted.excess(db, ann)
        };
        let refused = write(&store, |db| {
            (0..=counted.most()).map(|n| add(db, n)).collect::<crate::store::Result<Vec<_>>>()
        });
        let first = refused.iter().position(Option::is_some);
        assert_eq!(first, usize::try_from(counted.most()).ok(), "{counted:?}");
        let detail = refused.last().and_then(Option::as_deref).expect("one too many");
        assert!(detail.contains(&counted.most().to_string()), "{detail}");
        assert_eq!(write(&store, |db| counted.excess(db, bob)), None, "{counted:?} of others");
    }
    // Tokens that have expired make room.
    write(&store, |db| Ok(db.execute("UPDATE token SET expires = 1 WHERE id % 2 = 0", [])?));
    assert_eq!(write(&store, |db| Counted::Token.excess(db, ann)), None);
    // What has no number of its own has bytes.
    type Make = fn(&rusqlite::Transaction<'_>, i64) -> crate::store::Result<i64>;
    let makes: [Make; 2] =
        [|db, owner| scenarios::add(db, owner, "x", "", false), |db, owner| launch(db, owner, None)];
    for make in makes {
        let texts = || write(&store, |db| usage::of(db, bob)).0;
        let before = texts();
        write(&store, |db| make(db, bob));
        assert!(texts() >= before + 2 * usage::ROW.unsigned_abs(), "{}", texts());
    }
}

#[test]
fn what_a_job_leaves_has_a_bound_or_counts() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let job = write(&store, |db| launch(db, ann, None));
    let used = || write(&store, |db| usage::of(db, ann));
    let before = used();
    let names: Vec<_> = (0..50).map(|n| format!("file-{n}.csv")).collect();
    let content = |name: &String| files::Content { name: name.clone(), size: 0, sha256: "0".repeat(64) };
    write(&store, |db| files::give(db, job, &names.iter().map(content).collect::<Vec<_>>()));
    let with_files = used().0;
    assert!(with_files >= before.0 + 50 * files::OF_FILE.unsigned_abs(), "{with_files}");
    // Days of progress leave one event, and each finished run another one.
    for finished in 0..100 {
        let run = serde_json::json!({ "label": "r".repeat(100), "finished": finished });
        write(&store, |db| jobs::add_run(db, job, &run));
        for step in 0..10 {
            write(&store, |db| jobs::add_progress(db, job, &serde_json::json!({ "share": step })));
        }
    }
    let events = write(&store, |db| jobs::events(db, job, 0, 10_000));
    let of = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    assert_eq!((of("run"), of("progress")), (100, 100), "the last of each ten");
    let with_runs = used().0;
    assert!(with_runs >= with_files + 100 * 100, "{with_runs}");
    // An archive of empty files has a size.
    let empty: Vec<_> = (0..100).map(|n| (format!("results/{n}"), 0)).collect();
    write(&store, |db| jobs::set_artifacts(db, job, &empty, 0));
    assert_eq!(used().2, before.2 + 100 * usage::ROW.unsigned_abs());
    // The summary of its runs replaces none of it.
    write(&store, |db| jobs::set_rows(db, job, &b""[..]));
    assert_eq!(used().0, with_runs);
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
    assert_eq!(results, 75 + 2 * usage::ROW.unsigned_abs(), "files that no list has count too");
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
