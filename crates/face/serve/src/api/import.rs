//! Import of jobs from their archives, and repetitions that show whether results are reproduced.

use std::fs;
use std::future::poll_fn;
use std::io::BufReader;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body as HttpBody, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use futures_core::Stream;
use rusqlite::Transaction;

use super::body::Ids;
use super::jobs::{self as api, checked_note, checked_question, found, tags_of};
use super::people::checked_title;
use crate::app::{App, blocking};
use crate::archive::{self, Arrived, Description, MAX_PACKED};
use crate::audited::log;
use crate::drafts;
use crate::guard::Caller;
use crate::inputs::{self, Inputs, Receiving, Staging};
use crate::left;
use crate::problem::{Problem, Result};
use crate::promised::Promise;
use crate::quota::{self, Added};
use crate::space;
use crate::store::files;
use crate::store::jobs::{self, Imported, Job, JobKind, KindRow, Launch, Origin, Question};
use crate::store::people::User;
use crate::store::scenarios;
use crate::work::{ROWS, Task};

/// Most bytes of all imported jobs of a user.
const MAX_IMPORTED: i64 = 4 << 30;
/// Most bytes of the archives that a user is sending, until they are imported.
const MAX_ARRIVING: u64 = 2 * MAX_PACKED;
/// Most bytes of the reason of a failure.
const MAX_MESSAGE: usize = 100_000;
/// Most bytes of the name of a study or version, and of a duration.
const MAX_NAME: usize = 200;
/// Folder of results of an imported job.
const FOLDER: &str = "imported";

/// Archive that is being received.
pub(crate) struct Arrival {
    receiving: Receiving,
    /// Bytes that count among those of all archives of the user.
    counted: inputs::Arrival,
}

impl Arrival {
    /// Begins to receive an archive.
    pub(crate) async fn new(app: &App, caller: &Caller) -> Result<Arrival> {
        space::check(&app.settings)?;
        let data = app.settings.folder.clone();
        let receiving = blocking(move || Receiving::new(&data).map_err(|error| Problem::internal(&error)));
        let counted = inputs::Arrival::new(&app.importing, caller.user.id);
        Ok(Arrival { receiving: receiving.await?, counted })
    }

    /// Adds a block.
    pub(crate) fn add(&mut self, app: &App, block: &Bytes) -> Result<()> {
        let (before, bytes) = (self.receiving.size(), block.len() as u64);
        if before + bytes > MAX_PACKED {
            let detail = format!("an archive has at most {} MiB", MAX_PACKED >> 20);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        if self.counted.add(bytes) > MAX_ARRIVING {
            let most = MAX_ARRIVING >> 20;
            let detail =
                format!("archives that you send have at most {most} MiB together: send one after the other");
            return Err(Problem { detail, ..Problem::later(30) });
        }
        space::check_growth(&app.settings, before, bytes)?;
        self.receiving.add(block).map_err(|error| Problem::internal(&error))
    }

    /// Reads the archive, checks it, and adds its job.
    pub(crate) async fn import(self, app: &App, caller: &Caller) -> Result<Job> {
        let (kept, user) = (app.clone(), caller.user.clone());
        // On its own, so that it goes on to the end if the client leaves.
        let added = tokio::spawn(async move {
            let staging = Arc::new(kept.staging().await?);
            let added = self.add_job(&kept, &user, &staging).await;
            // Thousands of files may be left.
            let gone = blocking(move || {
                drop((staging, self));
                Ok(())
            });
            gone.await.and(added)
        });
        let id = added.await.map_err(|error| Problem::internal(&error))??;
        app.announce(id);
        log(app, &caller.user.name, &caller.address, ("import job", &id.to_string(), "done")).await?;
        found(app, caller, id).await
    }

    async fn add_job(&self, app: &App, user: &User, staging: &Arc<Staging>) -> Result<i64> {
        let archive = self.receiving.path().to_owned();
        let _room = room(app, user, (Task::Weigh { archive: archive.clone() }, staging)).await?;
        let task = Task::Import { archive };
        let arrived: Arrived = app.work_in(user, (&task, staging.path())).await?;
        check(&arrived.description)?;
        let (kept, user, staging) = (app.clone(), user.clone(), Arc::clone(staging));
        let sha256 = self.receiving.sha256();
        app.write(move |db| add(db, (&kept, &user), (&arrived, staging.path()), &sha256)).await
    }
}

/// Promises room on the disk for an unpacked archive, within the quota of its user.
async fn room(app: &App, user: &User, (weigh, staging): (Task, &Staging)) -> Result<Promise> {
    let bytes: u64 = app.work_in(user, (&weigh, staging.path())).await?;
    let (kept, id) = (app.clone(), user.id);
    app.read(move |db| quota::admit(db, &kept, id, Added::Results(bytes))).await?;
    space::promise(&app.settings, &app.promised, bytes)
}

/// End of the year 9999 in milliseconds since 1970.
const MAX_TIME: i64 = 253_402_300_799_999;

/// Checks the description of a job. A child compared its results with the scenario.
fn check(job: &Description) -> Result<()> {
    let wrong = |key: &str, what: &str| {
        Err(Problem::bad(format!("archive: {}: {key}: expected {what}", archive::NAME)))
    };
    checked_title(&job.name)?;
    tags_of(&job.tags.join(" "))?;
    // Of which version it is follows when the scenario is added.
    if kind_of(job, job.scenario.as_ref().map(|_| 0)).is_none() {
        return wrong("kind", "what fits to `scenario`, `study`, `search` and `sites`");
    }
    checked_note(&job.note)?;
    job.search.as_ref().map_or(Ok(()), checked_question)?;
    let names = [
        ("study", job.study.as_deref()),
        ("program", Some(&job.program)),
        ("duration", job.duration.as_deref()),
    ];
    if let Some((key, _)) = names.iter().find(|(_, name)| name.is_some_and(|name| name.len() > MAX_NAME)) {
        return wrong(key, &format!("at most {MAX_NAME} bytes"));
    }
    if job.message.len() > MAX_MESSAGE || job.sites.as_ref().is_some_and(|file| file.len() > drafts::MAX_TEXT)
    {
        return wrong(
            "message",
            &format!("at most {MAX_MESSAGE} bytes, and {} of `sites`", drafts::MAX_TEXT),
        );
    }
    if job.seeds.is_some_and(|seeds| !(1..=1000).contains(&seeds)) || job.runs < 0 || job.finished < 0 {
        return wrong("seeds", "1 to 1000, and no negative number of runs");
    }
    let times = [("created", Some(job.created)), ("started", job.started), ("ended", job.ended)];
    let is_wrong = |time: &Option<i64>| time.is_some_and(|time| !(0..=MAX_TIME).contains(&time));
    if let Some((key, _)) = times.iter().find(|(_, time)| is_wrong(time)) {
        return wrong(key, "milliseconds since 1970, to the year 9999");
    }
    if job.job < 0 {
        return wrong("job", "no negative number");
    }
    let Some(text) = &job.scenario else { return Ok(()) };
    if text.len() > drafts::MAX_TEXT || text.contains('\0') {
        return wrong("scenario", &format!("a text of at most {} bytes", drafts::MAX_TEXT));
    }
    Ok(())
}

/// Returns the kind of a job, with the version of its scenario here.
fn kind_of(job: &Description, version: Option<i64>) -> Option<JobKind> {
    let (study, search, sites) = (job.study.clone(), job.search.clone(), job.sites.clone());
    KindRow { kind: job.kind, version, study, search, sites, quick: job.quick }.kind()
}

/// Adds the job of an archive with its scenario and files, all or nothing.
fn add(
    db: &Transaction<'_>,
    (app, user): (&App, &User),
    (arrived, staging): (&Arrived, &Path),
    sha256: &str,
) -> Result<i64> {
    let (job, large) =
        (&arrived.description, |detail: String| Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)));
    let bytes: u64 = job.files.iter().map(|entry| entry.bytes).sum();
    if jobs::imported_bytes(db, user.id)? + bytes as i64 > MAX_IMPORTED {
        return large(format!(
            "your imported jobs have at most {} GiB together: remove some",
            MAX_IMPORTED >> 30
        ));
    }
    let inputs = archive::contents(job);
    let size: u64 = job.inputs.iter().map(|input| input.bytes).sum();
    quota::admit(db, app, user.id, Added::Files(size))?;
    quota::admit(db, app, user.id, Added::Results(size + bytes))?;
    quota::admit(db, app, user.id, Added::Text(texts(job)))?;
    let version = match &job.scenario {
        Some(text) => Some(match scenarios::version_of(db, user.id, text)? {
            Some(version) => version,
            None => {
                let scenario = scenarios::add(db, user.id, &job.name, text, false)?;
                scenarios::find(db, user, scenario)?.ok_or_else(Problem::not_found)?.version
            }
        }),
        None => None,
    };
    let origin = Origin { job: job.job, program: job.program.clone(), sha256: sha256.to_owned() };
    let kind = kind_of(job, version).ok_or_else(|| Problem::bad("archive: a kind without its scenario"))?;
    let id = jobs::import(db, &imported(user.id, kind, &origin, job))?;
    if arrived.has_summary {
        let rows = left::file(staging, ROWS).map_err(|error| Problem::internal(&error))?;
        jobs::set_rows(db, id, BufReader::new(rows))?;
        // Rows count as texts, once they are there.
        quota::admit(db, app, user.id, Added::Text(0))?;
    }
    files::give(db, id, &inputs)?;
    files::save_new(db, user.id, &inputs)?;
    let (data, folder, unpacked) =
        (&app.settings.folder, app.job_folder(id), staging.join(archive::UNPACKED));
    let move_in = || {
        // They are the server's from here on.
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        app.settings.job_user.map_or(Ok(()), |_| left::give(&unpacked, own))?;
        fs::create_dir_all(inputs::folder(data))?;
        inputs.iter().try_for_each(|one| inputs::adopt(data, one, &unpacked.join("input")))?;
        // What an import that was cut off left under this number.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("results"))?;
        left::root(&unpacked)?;
        fs::rename(&unpacked, folder.join("results").join(FOLDER))
    };
    move_in().map_err(|error: std::io::Error| Problem::internal(&error))?;
    jobs::set_folder(db, id, FOLDER)?;
    let mut list: Vec<(String, u64)> =
        job.files.iter().map(|entry| (entry.path.clone(), entry.bytes)).collect();
    list.sort();
    jobs::set_artifacts(db, id, &list, 0)?;
    Ok(id)
}

/// Returns the length of all texts that are kept of a job.
fn texts(job: &Description) -> usize {
    let all = [Some(&job.message), Some(&job.note), job.sites.as_ref(), job.scenario.as_ref()];
    let search = job.search.as_ref().map_or(0, Question::len);
    all.into_iter().flatten().map(String::len).sum::<usize>() + search
}

fn imported<'a>(owner: i64, kind: JobKind, origin: &'a Origin, job: &'a Description) -> Imported<'a> {
    let launch = Launch {
        owner,
        kind,
        name: job.name.trim(),
        shared: false,
        seeds: job.seeds,
        duration: job.duration.as_deref(),
        priority: 0,
        request_key: None,
        repeats: None,
        real_ms: None,
    };
    Imported {
        launch,
        origin,
        end: job.state,
        message: &job.message,
        note: &job.note,
        tags: &job.tags,
        runs: (job.runs, job.finished),
        time: (job.started, job.ended),
    }
}

pub(crate) async fn import(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    body: HttpBody,
) -> Result<impl IntoResponse> {
    let mut blocks = body.into_data_stream();
    let mut arrival = Arrival::new(&app, &caller).await;
    while let Some(block) = poll_fn(|cx| Pin::new(&mut blocks).poll_next(cx)).await {
        let block = block.map_err(|_| Problem::bad("the body ended early"))?;
        arrival = arrival.and_then(|mut arrival| arrival.add(&app, &block).map(|()| arrival));
        if arrival.is_err() {
            break;
        }
    }
    Ok((StatusCode::CREATED, Json(arrival?.import(&app, &caller).await?)))
}

/// Launches a job again as it was, with the same files.
pub(crate) async fn again(app: &App, caller: &Caller, id: i64) -> Result<Job> {
    let job = found(app, caller, id).await?;
    if !job.is_over() {
        return Err(Problem::new(StatusCode::CONFLICT, "the job is not over: wait for its end"));
    }
    let asked = job.clone();
    let (text, inputs) =
        app.read(move |db| Ok((jobs::text(db, &asked)?, files::of_job(db, asked.id)?))).await?;
    let inputs = Inputs::new(&app.settings.folder, inputs);
    api::launch_again(app, caller, &job, (text, inputs)).await
}

pub(crate) async fn repeat(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<impl IntoResponse> {
    Ok((StatusCode::CREATED, Json(again(&app, &caller, id).await?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_an_archive_have_the_limits_of_others() {
        let whole = serde_json::json!({
            "format": 1, "program": "1.0.0", "job": 7, "kind": "study", "name": "x", "state": "done", "message": "",
            "study": "rohc-ule", "quick": false, "search": null, "sites": null, "seeds": null, "duration": null, "note": "",
            "tags": [], "runs": 1, "finished": 1, "created": 1, "started": 1, "ended": 1, "scenario": null, "inputs": [],
            "points": [], "files": [],
        });
        let checked = |key: &str, text: String| {
            let mut changed = whole.clone();
            changed[key] = text.into();
            check(&serde_json::from_value(changed).expect("a description")).map_err(|problem| problem.detail)
        };
        assert_eq!(checked("note", "n".repeat(4000)), Ok(()));
        assert_eq!(checked("message", "n".repeat(MAX_MESSAGE)), Ok(()));
        for (key, most) in [
            ("note", 4000),
            ("message", MAX_MESSAGE),
            ("program", MAX_NAME),
            ("study", MAX_NAME),
            ("duration", MAX_NAME),
        ] {
            let refused = checked(key, "n".repeat(most + 1)).expect_err(key);
            assert!(refused.contains(key), "{refused}");
        }
    }

    #[test]
    fn times_and_numbers_of_an_archive_can_be_shown() {
        let job = |key: &str, value: i64| {
            let mut whole = serde_json::json!({
                "format": 1, "program": "1.0.0", "job": 7, "kind": "study", "name": "x", "state": "done", "message": "",
                "study": "rohc-ule", "quick": false, "search": null, "sites": null, "seeds": null, "duration": null,
                "note": "", "tags": [], "runs": 1, "finished": 1, "created": 1, "started": 1, "ended": 1,
                "scenario": null, "inputs": [], "points": [], "files": [],
            });
            whole[key] = value.into();
            check(&serde_json::from_value(whole).expect("a description")).map_err(|problem| problem.detail)
        };
        for key in ["created", "started", "ended"] {
            assert_eq!((job(key, 0), job(key, MAX_TIME)), (Ok(()), Ok(())));
            for wrong in [-1, i64::MIN, MAX_TIME + 1, i64::MAX] {
                let refused = job(key, wrong).expect_err(key);
                assert!(refused.contains(&format!("{key}: expected milliseconds")), "{refused}");
            }
        }
        assert!(job("job", -1).is_err());
    }
}
