use bentpipe_agent::protocol::{Act, CommandResult, Outcome, Poll, TaskReport, TaskState};
use rusqlite::Connection;

use super::jobs::{JobKind, JobState, KindName, Method};
use super::reservations::{Reservation, What};
use super::{
    MIGRATIONS, Store, StoreError, audit, files, jobs, people, queue, reservations, scenarios, sites, turns,
};

mod bounds;
mod upgrade;

/// Databases of all schemas, the first one of schema 1.
const SCHEMAS: &[&[u8]] = &[
    include_bytes!("../../tests/schema-1.sqlite"),
    include_bytes!("../../tests/schema-2.sqlite"),
    include_bytes!("../../tests/schema-3.sqlite"),
    include_bytes!("../../tests/schema-4.sqlite"),
    include_bytes!("../../tests/schema-5.sqlite"),
    include_bytes!("../../tests/schema-6.sqlite"),
    include_bytes!("../../tests/schema-7.sqlite"),
    include_bytes!("../../tests/schema-8.sqlite"),
    include_bytes!("../../tests/schema-9.sqlite"),
    include_bytes!("../../tests/schema-10.sqlite"),
];

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("data.sqlite")).expect("opens");
    (folder, store)
}

fn write<T>(store: &Store, change: impl FnOnce(&rusqlite::Transaction<'_>) -> super::Result<T>) -> T {
    store.write(change).expect("written")
}

fn launch(db: &rusqlite::Transaction<'_>, owner: i64, key: Option<&str>) -> super::Result<i64> {
    let scenario = scenarios::add(db, owner, "geo", "title = \"x\"", false)?;
    let user = people::find(db, owner)?.expect("exists");
    let version = scenarios::find(db, &user, scenario)?.expect("exists").version;
    let launch = jobs::Launch {
        owner,
        kind: JobKind::Scenario { version, method: Method::Simulate },
        name: "geo",
        shared: false,
        seeds: None,
        duration: None,
        priority: 0,
        request_key: key,
        repeats: None,
        real_ms: None,
    };
    jobs::launch(db, &launch)
}

#[test]
fn a_later_schema_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("data.sqlite");
    let raw = Connection::open(&path).expect("opens");
    raw.pragma_update(None, "user_version", MIGRATIONS.len() as i64 + 1).expect("set");
    drop(raw);
    let error = Store::open(&path).err().expect("refused");
    assert!(matches!(error, StoreError::Newer { .. }) && error.to_string().contains("later version"));
}

#[test]
fn states_change_only_along_their_arrows_and_each_change_has_an_event() {
    let (_folder, store) = store();
    let owner = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let id = write(&store, |db| launch(db, owner, None));
    assert_eq!(write(&store, |db| turns::claim(db, 1)).expect("queued").id, id);
    assert!(write(&store, |db| turns::claim(db, 1)).is_none(), "it is taken once");
    write(&store, |db| jobs::set_state(db, id, JobState::DONE, ""));
    for state in [JobState::Queued, JobState::Running, JobState::FAILED] {
        let result: super::Result<()> = store.write(|db| jobs::set_state(db, id, state, ""));
        assert!(result.is_err(), "done -> {state:?}");
    }
    let events = write(&store, |db| jobs::events(db, id, 0, 100));
    let states: Vec<&str> = events.iter().filter_map(|event| event.content["state"].as_str()).collect();
    assert_eq!(states, ["queued", "running", "done"]);
}

#[test]
fn a_repeated_request_launches_nothing() {
    let (_folder, store) = store();
    let owner = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let first = write(&store, |db| launch(db, owner, Some("k")));
    assert_eq!(write(&store, |db| launch(db, owner, Some("k"))), first);
    assert_ne!(write(&store, |db| launch(db, owner, None)), first);
}

#[test]
fn users_see_their_own_and_shared_scenarios() {
    let (_folder, store) = store();
    let [ann, bob, boss] = [("ann", 1), ("bob", 1), ("boss", 2)].map(|(name, level)| {
        let id = write(&store, |db| people::add(db, name, "x", level)).expect("added");
        write(&store, |db| people::find(db, id)).expect("exists")
    });
    write(&store, |db| scenarios::add(db, ann.id, "own", "", false));
    write(&store, |db| scenarios::add(db, ann.id, "shared", "", true));
    let seen = |user| write(&store, |db| scenarios::list(db, user, 0, 10)).len();
    assert_eq!([seen(&ann), seen(&bob), seen(&boss)], [2, 1, 2]);
}

#[test]
fn the_audit_chain_shows_a_changed_row() {
    let (folder, store) = store();
    for object in ["a", "b\r\nc", "d"] {
        let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object, outcome: "done" };
        write(&store, |db| audit::append(db, &entry));
    }
    assert_eq!(write(&store, audit::broken_at), None);
    assert!(!write(&store, |db| audit::list(db, i64::MAX, 9)).iter().any(|row| row.object.contains('\n')));
    for forbidden in ["UPDATE audit SET outcome = 'x'", "DELETE FROM audit"] {
        let result: super::Result<()> = store.write(|db| Ok(db.execute(forbidden, []).map(drop)?));
        assert!(result.is_err(), "{forbidden}");
    }
    let raw = Connection::open(folder.path().join("data.sqlite")).expect("opens");
    raw.execute_batch("DROP TRIGGER audit_is_kept; UPDATE audit SET outcome = 'x' WHERE id = 2")
        .expect("forged");
    assert_eq!(write(&store, audit::broken_at), Some(2));
}

#[test]
fn who_has_the_database_alone_cannot_make_the_audit_chain_again() {
    let (folder, store) = store();
    let entry = |object: &str| {
        let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object, outcome: "done" };
        write(&store, |db| audit::append(db, &entry));
    };
    ["a", "b", "c"].into_iter().for_each(entry);
    let end = write(&store, audit::end).expect("an entry");
    // Elsewhere, with a key of its own, the same is done again without the second entry.
    let elsewhere = tempfile::tempdir().expect("a folder");
    let forged = Store::open(&elsewhere.path().join("data.sqlite")).expect("opens");
    for object in ["a", "c"] {
        let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object, outcome: "done" };
        write(&forged, |db| audit::append(db, &entry));
    }
    assert_eq!(write(&forged, audit::broken_at), None);
    let raw = Connection::open(folder.path().join("data.sqlite")).expect("opens");
    let from = elsewhere.path().join("data.sqlite");
    raw.execute("ATTACH ?1 AS forged", [from.to_string_lossy()]).expect("attached");
    let forge =
        "DROP TRIGGER audit_is_whole; DELETE FROM audit; INSERT INTO audit SELECT * FROM forged.audit";
    raw.execute_batch(forge).expect("forged");
    assert_eq!(write(&store, audit::broken_at), Some(1));
    assert_ne!(write(&store, audit::end), Some(end), "the journal has the end that is missing");
}

#[test]
fn a_log_whose_key_is_missing_is_refused_until_a_new_one_is_asked_for() {
    let (folder, store) = store();
    let entry = |store: &Store, object: &str| {
        let entry = audit::Entry { user: "ann", address: "::1", action: "log in", object, outcome: "done" };
        write(store, |db| audit::append(db, &entry));
    };
    ["a", "b"].into_iter().for_each(|object| entry(&store, object));
    drop(store);
    let (path, key) = (folder.path().join("data.sqlite"), folder.path().join("audit.key"));
    let kept = std::fs::read(&key).expect("a key");
    std::fs::remove_file(&key).expect("removed");
    let error = Store::open(&path).err().expect("refused").to_string();
    assert!(error.contains("audit.key: missing") && error.contains("up to 2"), "{error}");
    assert!(!key.exists(), "nothing is made in its place");
    std::fs::write(&key, kept).expect("written");
    assert_eq!(write(&Store::open(&path).expect("opens"), audit::broken_at), None);
    std::fs::remove_file(&key).expect("removed");
    let replaced = Store::open_with(&path, audit::Missing::Replaced).expect("opens");
    entry(&replaced, "c");
    entry(&replaced, "d");
    assert_eq!(write(&replaced, audit::broken_at), None);
    assert_eq!(write(&replaced, audit::first_after_loss), Some(3));
    drop(replaced);
    // The mark stays, and what comes after it is verified.
    let again = Store::open(&path).expect("opens");
    assert_eq!(again.first_after_loss(), Some(3));
    let raw = Connection::open(&path).expect("opens");
    raw.execute_batch("DROP TRIGGER audit_is_kept; UPDATE audit SET outcome = 'x' WHERE id = 4")
        .expect("forged");
    assert_eq!(write(&again, audit::broken_at), Some(4));
}

#[test]
fn a_copy_made_under_writes_is_whole() {
    let (folder, store) = store();
    write(&store, |db| people::add(db, "ann", "x", 3));
    let copy = folder.path().join("copy.sqlite");
    super::back_up(&folder.path().join("data.sqlite"), &copy).expect("copied");
    let copy = Store::open(&copy).expect("opens");
    assert_eq!(write(&copy, people::count), 1);
    assert_eq!(write(&copy, audit::broken_at), None);
}

#[test]
fn sessions_end_with_a_new_level_and_secrets_are_not_stored() {
    let (folder, store) = store();
    let id = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let secret = write(&store, |db| people::start_session(db, id, "::1", "test"));
    let (_, token) = write(&store, |db| people::add_token(db, id, ("ci", "run"), 1));
    assert!(write(&store, |db| people::session(db, &secret)).is_some());
    write(&store, |db| people::set_level(db, id, 2));
    assert!(write(&store, |db| people::session(db, &secret)).is_none());
    assert!(write(&store, |db| people::token(db, &token)).is_some());
    drop(store);
    for file in std::fs::read_dir(folder.path()).expect("a folder") {
        let bytes = std::fs::read(file.expect("a file").path()).expect("read");
        let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!has(&secret) && !has(&token));
    }
}

#[test]
fn a_database_of_every_schema_opens_and_answers() {
    assert_eq!(SCHEMAS.len(), MIGRATIONS.len(), "a schema has no committed database");
    for committed in SCHEMAS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.sqlite");
        std::fs::write(&path, committed).expect("written");
        // The committed ones have no keys.
        let store = Store::open_with(&path, audit::Missing::Replaced).expect("migrated");
        let ann = write(&store, |db| people::find(db, 1)).expect("a user");
        assert_eq!(write(&store, |db| scenarios::list(db, &ann, 0, 9)).len(), 1);
        let job = write(&store, |db| jobs::find(db, &ann, 1)).expect("a job");
        assert!(job.is_over() && job.kind.name() == KindName::Simulate);
        assert_eq!(write(&store, |db| jobs::measures(db, 1, "goodput"))[0].mean, Some(1e6));
        assert_eq!(write(&store, audit::broken_at), None);
        write(&store, |db| launch(db, 1, None));
        let reserved = write(&store, |db| reservations::after(db, 0));
        assert!(reserved.len() < 5);
        assert_eq!(reserved.first().map_or("testbed".to_owned(), Reservation::words), "testbed");
        let origins =
            write(&store, |db| jobs::list(db, &ann, &jobs::Selection { limit: 9, ..Default::default() }));
        let origins: Vec<_> = origins.iter().filter_map(|job| job.origin.as_ref().zip(job.repeats)).collect();
        assert!(origins.iter().all(|(origin, repeats)| (origin.job, *repeats) == (7, 1)));
        let files = write(&store, |db| files::list(db, &ann, 0, 9));
        assert_eq!(files.len(), write(&store, |db| files::of_job(db, 1)).len());
        for site in write(&store, sites::list) {
            let command = Act::Drop { task: 1 };
            write(&store, |db| sites::command(db, site.id, &command));
            let open = write(&store, |db| sites::commands(db, site.id)).expect("not revoked");
            assert!(open.len() == 1 && open[0].id > 1 && open[0].act == command);
        }
    }
}

#[test]
fn reservations_overlap_exactly_where_minutes_do_and_the_database_refuses_it() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    // A model of 60 minutes, each of which is taken or not.
    let mut taken = [false; 60];
    let mut state = 7_u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    for _ in 0..300 {
        let start = next(55);
        let end = start + 1 + next(5);
        let minutes = start as usize..end as usize;
        let is_free = !taken[minutes.clone()].contains(&true);
        let time = (i64::from(start), i64::from(end));
        assert_eq!(write(&store, |db| reservations::clash(db, What::Testbed, time)).is_none(), is_free);
        let added = store.write(|db| reservations::add(db, ann, What::Testbed, time, "test"));
        assert_eq!(added.is_ok(), is_free, "{time:?}");
        if is_free {
            taken[minutes].fill(true);
        }
    }
    let moved: super::Result<()> =
        store.write(|db| Ok(db.execute("UPDATE reservation SET start = start - 1", []).map(drop)?));
    assert!(moved.is_err());
}

#[test]
fn while_the_testbed_is_reserved_only_its_owner_starts() {
    let (_folder, store) = store();
    let [ann, bob] =
        ["ann", "bob"].map(|name| write(&store, |db| people::add(db, name, "x", 1)).expect("added"));
    let first = write(&store, |db| launch(db, ann, None));
    let second = write(&store, |db| launch(db, bob, None));
    let now = crate::clock::now_ms();
    let reservation = write(&store, |db| {
        reservations::add(db, bob, What::Testbed, (now - 1000, now + 3_600_000), "campaign")
    });
    assert_eq!(write(&store, |db| turns::claim(db, 9)).expect("queued").id, second);
    assert!(write(&store, |db| turns::claim(db, 9)).is_none());
    write(&store, |db| reservations::remove(db, reservation));
    assert_eq!(write(&store, |db| turns::claim(db, 9)).expect("queued").id, first);
}

#[test]
fn capabilities_clash_exactly_where_their_use_does_and_the_database_refuses_it() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 3)).expect("added");
    let later = crate::clock::now_ms() + 60_000;
    let [east, west] = ["east", "west"].map(|name| {
        write(&store, |db| sites::invite(db, ann, (name, name), later));
        let key = [name.as_bytes()[0]; 32];
        write(&store, |db| sites::enrol(db, name, &key));
        write(&store, |db| sites::key(db, name)).expect("enrolled").0
    });
    write(&store, |db| reservations::set_capacity(db, 4));
    // A model of 60 minutes: who has the testbed, emulations, each site, and how many processors.
    let mut minutes = [(false, false, false, false, 0_i64); 60];
    let mut state = 11_u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut added = [0; 5];
    for _ in 0..600 {
        let start = next(55);
        let end = start + 1 + next(5);
        let count = i64::from(next(4)) + 1;
        let kind = [0, 1, 2, 3, 4, 4, 4][next(7) as usize];
        let what =
            [What::Testbed, What::Emulation, What::Site(east), What::Site(west), What::Processors(count)]
                [kind];
        let is_free = minutes[start as usize..end as usize].iter().all(
            |&(all, emulation, first, second, processors)| {
                !all && match kind {
                    0 => !emulation && !first && !second && processors == 0,
                    1 => !emulation && processors == 0,
                    2 => !first,
                    3 => !second,
                    _ => !emulation && processors + count <= 4,
                }
            },
        );
        let time = (i64::from(start), i64::from(end));
        let (found, (_, free)) =
            write(&store, |db| Ok((reservations::clash(db, what, time)?, reservations::free(db, time)?)));
        let has_room = !matches!(what, What::Processors(_)) || count <= free;
        assert_eq!(found.is_none() && has_room, is_free, "{what:?} {time:?}");
        let result = store.write(|db| reservations::add(db, ann, what, time, "test"));
        assert_eq!(result.is_ok(), is_free, "{what:?} {time:?}");
        if is_free {
            added[kind] += 1;
            for minute in &mut minutes[start as usize..end as usize] {
                match kind {
                    0 => minute.0 = true,
                    1 => minute.1 = true,
                    2 => minute.2 = true,
                    3 => minute.3 = true,
                    _ => minute.4 += count,
                }
            }
        }
        // Now and then something is given back.
        if next(3) == 0 {
            let all = write(&store, |db| reservations::after(db, 0));
            let gone = &all[next(u32::try_from(all.len()).expect("few").max(1)) as usize % all.len()];
            write(&store, |db| reservations::remove(db, gone.id));
            for minute in &mut minutes[gone.start as usize..gone.end as usize] {
                match (&gone.what[..], gone.site.as_deref()) {
                    ("testbed", _) => minute.0 = false,
                    ("emulate", _) => minute.1 = false,
                    (_, Some("east")) => minute.2 = false,
                    (_, Some(_)) => minute.3 = false,
                    _ => minute.4 -= gone.processors,
                }
            }
        }
    }
    assert!(added.iter().all(|&count| count > 5), "{added:?}");
}

#[test]
fn what_is_reserved_is_kept_for_its_owner_and_the_rest_is_not() {
    let (_folder, store) = store();
    let [ann, bob] =
        ["ann", "bob"].map(|name| write(&store, |db| people::add(db, name, "x", 1)).expect("added"));
    write(&store, |db| reservations::set_capacity(db, 3));
    let now = crate::clock::now_ms();
    let reserve = |owner, what| {
        write(&store, |db| reservations::add(db, owner, what, (now - 1000, now + 3_600_000), "test"))
    };
    let queue = |owner, kind: KindName| {
        let id = write(&store, |db| launch(db, owner, None));
        write(&store, |db| {
            Ok(db.execute("UPDATE job SET kind = ?2 WHERE id = ?1", rusqlite::params![id, kind])?)
        });
        id
    };
    let claim = || write(&store, |db| turns::claim(db, 9)).map(|job| job.id);
    let end = |id| write(&store, |db| jobs::set_state(db, id, JobState::DONE, ""));
    // Emulations of bob wait; his simulations do not.
    let reservation = reserve(ann, What::Emulation);
    let (waiting, simulation) = (queue(bob, KindName::Emulate), queue(bob, KindName::Simulate));
    assert_eq!((claim(), claim()), (Some(simulation), None));
    end(simulation);
    write(&store, |db| reservations::remove(db, reservation));
    assert_eq!(claim(), Some(waiting));
    end(waiting);
    // Of three processors two are ann's: bob has one, and his campaign, which takes all, waits.
    let reservation = reserve(ann, What::Processors(2));
    let campaign = queue(bob, KindName::Campaign);
    let [first, second] = [(); 2].map(|()| queue(bob, KindName::Simulate));
    assert_eq!((claim(), claim()), (Some(first), None));
    let [third, fourth] = [(); 2].map(|()| queue(ann, KindName::Simulate));
    assert_eq!((claim(), claim(), claim()), (Some(third), Some(fourth), None));
    end(first);
    assert_eq!((claim(), claim()), (Some(second), None));
    write(&store, |db| reservations::remove(db, reservation));
    assert_eq!(claim(), Some(campaign));
}

#[test]
fn a_job_on_sites_waits_for_those_that_others_reserved() {
    let (_folder, store) = store();
    let (site, task) = task_at_site(&store);
    let bob = write(&store, |db| people::add(db, "bob", "x", 1)).expect("added");
    write(
        &store,
        |db| Ok(db.execute("UPDATE job SET kind = 'sites', sites = '' WHERE id = ?1", [task.job])?),
    );
    write(&store, |db| jobs::need_sites(db, task.job, &[site, site]));
    let now = crate::clock::now_ms();
    let time = (now - 1000, now + 3_600_000);
    let reservation = write(&store, |db| reservations::add(db, bob, What::Site(site), time, "test"));
    assert!(write(&store, |db| turns::claim(db, 9)).is_none());
    write(&store, |db| reservations::remove(db, reservation));
    assert_eq!(write(&store, |db| turns::claim(db, 9)).map(|job| job.id), Some(task.job));
}

#[test]
fn jobs_are_found_by_note_and_tag() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let user = write(&store, |db| people::find(db, ann)).expect("exists");
    let id = write(&store, |db| launch(db, ann, None));
    write(&store, |db| launch(db, ann, None));
    write(&store, |db| jobs::set_note(db, id, "with the long Queue"));
    write(&store, |db| jobs::set_tags(db, id, &["red".to_owned(), "fig-17".to_owned(), "red".to_owned()]));
    let found = |text: &str| {
        let selection =
            jobs::Selection { search: Some(text.to_owned()), limit: 9, ..jobs::Selection::default() };
        write(&store, |db| jobs::list(db, &user, &selection)).len()
    };
    assert_eq!(["long queue", "RED", "re", "geo", "green"].map(found), [1, 1, 0, 2, 0]);
    assert_eq!(write(&store, |db| jobs::find(db, &user, id)).expect("exists").tags, ["fig-17", "red"]);
}

#[test]
fn a_page_of_ten_thousand_jobs_is_found_by_its_indexes() {
    let (_folder, store) = store();
    let owner = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let user = write(&store, |db| people::find(db, owner)).expect("exists");
    write(&store, |db| {
        let first = launch(db, owner, None)?;
        let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
            INSERT INTO job(owner, version, name, created) SELECT owner, version, name, i FROM job, n WHERE job.id = ?1";
        Ok(db.execute(many, [first])?)
    });
    let selection = jobs::Selection { before: Some(5000), limit: 100, ..jobs::Selection::default() };
    let page = write(&store, |db| jobs::list(db, &user, &selection));
    assert_eq!((page.len(), page[0].id), (100, 4999));
}

#[test]
fn an_invitation_makes_one_site_in_its_time() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 3)).expect("added");
    let later = crate::clock::now_ms() + 60_000;
    write(&store, |db| sites::invite(db, ann, ("east", "s1"), later));
    assert_eq!(write(&store, |db| sites::enrol(db, "s2", &[1; 32])), None, "another code");
    assert_eq!(write(&store, |db| sites::enrol(db, "s1", &[1; 32])).as_deref(), Some("east"));
    assert_eq!(write(&store, |db| sites::enrol(db, "s1", &[2; 32])), None, "it was used");
    write(&store, |db| sites::invite(db, ann, ("west", "s3"), crate::clock::now_ms() - 1));
    assert_eq!(write(&store, |db| sites::enrol(db, "s3", &[2; 32])), None, "it is old");
    write(&store, |db| sites::invite(db, ann, ("north", "s4"), later));
    write(&store, |db| sites::invite(db, ann, ("north", "s5"), later));
    assert_eq!(write(&store, |db| sites::enrol(db, "s4", &[3; 32])), None, "a later one took its place");
    let (id, key) = write(&store, |db| sites::key(db, "east")).expect("enrolled");
    assert_eq!(key, [1; 32]);
    write(&store, |db| sites::revoke(db, id));
    assert!(write(&store, |db| sites::key(db, "east")).is_none());
    assert!(write(&store, |db| sites::commands(db, id)).is_none());
    write(&store, |db| sites::invite(db, ann, ("east", "s6"), later));
    assert_eq!(write(&store, |db| sites::enrol(db, "s6", &[1; 32])), None, "a revoked key never comes back");
    write(&store, |db| sites::invite(db, ann, ("east", "s7"), later));
    assert_eq!(write(&store, |db| sites::enrol(db, "s7", &[4; 32])).as_deref(), Some("east"));
}

/// Adds a site, and a job of one task there. Returns the site and the task.
fn task_at_site(store: &Store) -> (i64, sites::Task) {
    let ann = write(store, |db| people::add(db, "ann", "x", 3)).expect("added");
    let later = crate::clock::now_ms() + 60_000;
    write(store, |db| sites::invite(db, ann, ("east", "s"), later));
    write(store, |db| sites::enrol(db, "s", &[1; 32]));
    let (site, _) = write(store, |db| sites::key(db, "east")).expect("enrolled");
    let job = write(store, |db| launch(db, ann, None));
    let file = "[task.echo]\nsite = \"east\"\nprogram = \"ping\"\nhost = \"10.0.0.1\"";
    let planned = bentpipe_agent::job::parse(file, 1.0).expect("fine");
    write(store, |db| sites::add_task(db, (job, 0, site), &planned.tasks[0], ("", "", &[])));
    (site, write(store, |db| sites::tasks(db, job)).remove(0))
}

fn poll(results: Vec<CommandResult>, tasks: Vec<TaskReport>) -> Poll {
    Poll { results, tasks, ..Poll::default() }
}

#[test]
fn results_of_a_site_count_once_and_what_it_lost_has_failed() {
    let (_folder, store) = store();
    let (site, task) = task_at_site(&store);
    let open = write(&store, |db| sites::commands(db, site)).expect("not revoked");
    assert!(open.len() == 1 && matches!(open[0].act, Act::Prepare { .. }));
    let done = |id| CommandResult { id, outcome: Outcome::Done {} };
    let number = task.id.unsigned_abs();
    let report = |state| vec![TaskReport { task: number, state }];
    let state = || write(&store, |db| sites::tasks(db, task.job)).remove(0).state;
    let first = poll(vec![done(open[0].id)], report(TaskState::Prepared {}));
    for changed in [1, 0] {
        assert_eq!(write(&store, |db| sites::apply(db, site, &first)).len(), changed);
        assert_eq!(state(), "prepared");
    }
    assert!(write(&store, |db| sites::commands(db, site)).expect("not revoked").is_empty());
    let unasked = poll(vec![done(99)], report(TaskState::Prepared {}));
    assert!(write(&store, |db| sites::apply(db, site, &unasked)).is_empty());
    write(&store, |db| sites::apply(db, site, &poll(Vec::new(), Vec::new())));
    assert_eq!(state(), "failed");
    let left: Vec<Act> = write(&store, |db| sites::commands(db, site))
        .expect("not revoked")
        .into_iter()
        .map(|one| one.act)
        .collect();
    assert_eq!(left, [Act::Stop { task: number }, Act::Drop { task: number }]);
}

#[test]
fn numbers_of_commands_go_on_after_the_last_one_of_a_site() {
    let (_folder, store) = store();
    let (site, _) = task_at_site(&store);
    for (last, after) in [(5000, None), (3, None), (u64::MAX, Some(5000)), (1 << 50, Some(5000))] {
        assert_eq!(write(&store, |db| sites::log_in(db, site, "0.1.0", last)), after);
    }
    write(&store, |db| sites::command(db, site, &Act::Stop { task: 1 }));
    let open = write(&store, |db| sites::commands(db, site)).expect("not revoked");
    assert_eq!(open.last().map(|command| command.id), Some(5001));
}

#[test]
fn a_user_has_so_many_sessions_and_the_oldest_one_ends() {
    let (_folder, store) = store();
    let [ann, bob] =
        ["ann", "bob"].map(|name| write(&store, |db| people::add(db, name, "x", 1)).expect("added"));
    let start = |user| write(&store, |db| people::start_session(db, user, "::1", "test"));
    let lasts = |secret: &str| write(&store, |db| people::session(db, secret)).is_some();
    let other = start(bob);
    let all: Vec<String> = (0..=people::MAX_SESSIONS).map(|_| start(ann)).collect();
    assert!(!lasts(&all[0]) && all[1..].iter().all(|one| lasts(one)) && lasts(&other));
}

#[test]
fn users_take_turns_however_many_jobs_one_of_them_has_queued() {
    let (_folder, store) = store();
    let owners =
        ["ann", "bob", "cid"].map(|name| write(&store, |db| people::add(db, name, "x", 1)).expect("added"));
    let [ann, bob, cid] = owners;
    let queue = |owner| write(&store, |db| launch(db, owner, None));
    let of_ann: Vec<i64> = (0..50).map(|_| queue(ann)).collect();
    let of_bob: Vec<i64> = (0..2).map(|_| queue(bob)).collect();
    let of_cid = queue(cid);
    let order: Vec<i64> = write(&store, turns::order).into_iter().map(|(id, _)| id).collect();
    assert_eq!(order[..5], [of_ann[0], of_bob[0], of_cid, of_ann[1], of_bob[1]]);
    let claim = |most| write(&store, |db| turns::claim(db, most)).map(|job| job.id);
    let end = |id| write(&store, |db| jobs::set_state(db, id, JobState::DONE, ""));
    // One at a time: whose last start is the longest ago is next.
    for expected in [of_ann[0], of_bob[0], of_cid, of_ann[1], of_bob[1], of_ann[2]] {
        assert_eq!(claim(9), Some(expected));
        end(expected);
    }
    // Several at a time: who has the fewest that run, and never more than a user may have.
    assert_eq!([claim(2), claim(2), claim(2)], [Some(of_ann[3]), Some(of_ann[4]), None]);
    let late = queue(cid);
    let urgent = queue(bob);
    write(&store, |db| Ok(db.execute("UPDATE job SET priority = -1 WHERE id = ?1", [urgent])?));
    assert_eq!([claim(9), claim(9), claim(9)], [Some(urgent), Some(late), Some(of_ann[5])]);
}

#[test]
fn a_queued_job_is_expected_when_those_before_it_have_ended() {
    let (_folder, store) = store();
    let owner = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let queued = |method: Method, real_ms: Option<i64>| {
        write(&store, |db| {
            let id = launch(db, owner, None)?;
            let user = people::find(db, owner)?.expect("exists");
            let version = jobs::find(db, &user, id)?.and_then(|job| job.kind.version()).expect("a version");
            let kind = JobKind::Scenario { version, method: method.clone() };
            let job = jobs::Launch {
                owner,
                kind,
                name: "x",
                shared: false,
                seeds: None,
                duration: None,
                priority: 0,
                request_key: None,
                repeats: None,
                real_ms,
            };
            jobs::cancel(db, id)?;
            jobs::launch(db, &job)
        })
    };
    const DAY_MS: i64 = 86_400_000;
    let room = queue::Room { places: 2, most_of_user: 9 };
    let expected =
        |job: i64, now: i64| write(&store, |db| queue::place(db, job, room, now)).expect("queued").expected;
    let running = queued(Method::Emulate, Some(DAY_MS));
    assert_eq!(write(&store, |db| turns::claim(db, 9)).expect("queued").id, running);
    let started = write(&store, |db| jobs::attempt_started(db, running)).expect("it runs");
    let [first, second, third] = [
        queued(Method::Simulate, Some(DAY_MS / 2)),
        queued(Method::Emulate, Some(DAY_MS)),
        queued(Method::Simulate, None),
    ];
    let now = started + 1000;
    // Beside an emulation no place is free, and none overtakes it.
    assert_eq!(expected(first, now), Some(started + DAY_MS));
    assert_eq!(expected(second, now), Some(started + DAY_MS + DAY_MS / 2));
    assert_eq!(expected(third, now), Some(started + 2 * DAY_MS + DAY_MS / 2));
    assert_eq!(expected(first, started + 2 * DAY_MS), Some(started + 2 * DAY_MS), "it is about to end");
    // The mean of those that have ended stands for the third one.
    let fourth = queued(Method::Simulate, None);
    write(&store, |db| jobs::set_state(db, running, JobState::FAILED, ""));
    assert!(expected(fourth, now).is_some());
}

#[test]
fn what_was_used_of_a_released_reservation_counts_on() {
    let (_folder, store) = store();
    let ann = write(&store, |db| people::add(db, "ann", "x", 1)).expect("added");
    let add = |time| write(&store, |db| reservations::add(db, ann, What::Testbed, time, "test"));
    let (begun, ahead) = (add((100, 500)), add((500, 900)));
    for id in [begun, ahead] {
        write(&store, |db| reservations::release(db, id, 300));
    }
    assert_eq!(write(&store, |db| reservations::times(db, ann, 0)), [(100, 300)]);
    assert!(write(&store, |db| reservations::after(db, 300)).is_empty());
    add((300, 900));
    assert_eq!(write(&store, |db| reservations::times(db, ann, 300)), [(300, 900)]);
}
