//! Import of jobs from their archives, and repetitions that show whether results are reproduced.

use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::{Body as HttpBody, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use bentpipe_lab::plan::{Plan, Seeds};
use futures_core::Stream;
use rusqlite::Transaction;

use super::body::Ids;
use super::jobs::{self as api, found, tags_of};
use super::people::checked_title;
use crate::app::{App, blocking};
use crate::archive::{self, Description, Input, MAX_PACKED, Unpacked};
use crate::drafts;
use crate::guard::{Caller, log};
use crate::inputs::{self, Inputs, MAX_OWN, Receiving, View};
use crate::problem::{Problem, Result};
use crate::space;
use crate::store::files::{self, Content};
use crate::store::jobs::{self, CAMPAIGN, EMULATION, Imported, Job, Launch, Origin, SEARCH, SITES};
use crate::store::people::User;
use crate::store::scenarios;

/// Most bytes of all imported jobs of a user.
const MAX_IMPORTED: i64 = 4 << 30;
/// Folder of results of an imported job.
const FOLDER: &str = "imported";
/// Kinds of jobs that an archive may have.
const KINDS: [&str; 6] = ["simulate", EMULATION, "study", CAMPAIGN, SEARCH, SITES];

/// Archive that is being received.
pub(crate) struct Arrival {
    receiving: Receiving,
}

impl Arrival {
    /// Begins to receive an archive.
    pub(crate) async fn new(app: &App) -> Result<Arrival> {
        space::check(&app.settings)?;
        let data = app.settings.folder.clone();
        let receiving = blocking(move || Receiving::new(&data).map_err(|error| Problem::internal(&error)));
        Ok(Arrival { receiving: receiving.await? })
    }

    /// Adds a block.
    pub(crate) fn add(&mut self, block: &Bytes) -> Result<()> {
        if self.receiving.size() + block.len() as u64 > MAX_PACKED {
            let detail = format!("an archive has at most {} MiB", MAX_PACKED >> 20);
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        self.receiving.add(block).map_err(|error| Problem::internal(&error))
    }

    /// Reads the archive, checks it, and adds its job.
    pub(crate) async fn import(self, app: &App, caller: &Caller) -> Result<Job> {
        let Ok(turn) = Arc::clone(&app.imports).try_acquire_owned() else {
            let detail = "another archive is being read: try again in a minute";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
        };
        let (kept, user) = (app.clone(), caller.user.clone());
        let id = blocking(move || {
            // Held to the end, also if the client leaves.
            let _turn = turn;
            let data = &kept.settings.folder;
            let sha256 = self.receiving.sha256();
            let mut file = self.receiving.reopen().map_err(|error| Problem::internal(&error))?;
            let staging = inputs::staging(data).map_err(|error| Problem::internal(&error))?;
            let wrong = |why: String| Problem::bad(format!("archive: {why}"));
            let unpacked = archive::unpack(&mut file, staging.path()).map_err(wrong)?;
            drop((file, self));
            check(&unpacked, staging.path(), data)?;
            kept.store.write(|db| add(db, (&kept, &user), (&unpacked, &staging), &sha256))
        })
        .await?;
        app.announce(id);
        log(app, &caller.user.name, &caller.address, ("import job", &id.to_string(), "done")).await?;
        found(app, caller, id).await
    }
}

/// Checks the description of a job, and its results against the scenario.
fn check(unpacked: &Unpacked, folder: &Path, data: &Path) -> Result<()> {
    let job = &unpacked.description;
    let wrong = |key: &str, what: &str| {
        Err(Problem::bad(format!("archive: {}: {key}: expected {what}", archive::NAME)))
    };
    if !KINDS.contains(&&job.kind[..]) {
        return wrong("kind", &format!("one of {}", KINDS.join(", ")));
    }
    if !matches!(&job.state[..], "done" | "failed" | "cancelled") {
        return wrong("state", "one of done, failed, cancelled");
    }
    checked_title(&job.name)?;
    tags_of(&job.tags.join(" "))?;
    let is_named = |wanted: bool, kind: &str| wanted == (job.kind == kind);
    let fits = is_named(job.study.is_some(), "study")
        && is_named(job.scenario.is_none(), "study")
        && is_named(job.search.is_some(), SEARCH)
        && is_named(job.sites.is_some(), SITES);
    if !fits {
        return wrong("kind", "what fits to `scenario`, `study`, `search` and `sites`");
    }
    let lengths = [&job.message, &job.note, job.study.as_ref().unwrap_or(&job.name), &job.program];
    let sites = job.sites.as_ref().map_or(0, String::len);
    if lengths.iter().any(|text| text.len() > 100_000) || sites > drafts::MAX_TEXT {
        return wrong("message", "texts of at most 100,000 bytes");
    }
    if job.seeds.is_some_and(|seeds| !(1..=1000).contains(&seeds)) || job.runs < 0 || job.finished < 0 {
        return wrong("seeds", "1 to 1000, and no negative number of runs");
    }
    let Some(text) = &job.scenario else { return Ok(()) };
    if text.len() > drafts::MAX_TEXT || text.contains('\0') {
        return wrong("scenario", &format!("a text of at most {} bytes", drafts::MAX_TEXT));
    }
    // Another version may neither know the keys nor compute the same.
    if job.program != bentpipe_record::VERSION || job.kind != "simulate" {
        return Ok(());
    }
    check_plan(unpacked, text, (folder, data))
}

/// Checks that the results are those of the plan which this scenario has here.
fn check_plan(unpacked: &Unpacked, text: &str, (folder, data): (&Path, &Path)) -> Result<()> {
    let job = &unpacked.description;
    let view = Inputs::in_folder(data, &folder.join("input"), contents(job));
    let drafts::Draft { mut document, view: _view, .. } = drafts::checked(text, &view)?;
    let refused = |why: &dyn std::fmt::Display| Problem::bad(format!("archive: {}: {why}", archive::NAME));
    if let Some(duration) = &job.duration {
        let assignment = format!("duration={}", serde_json::Value::from(duration.as_str()));
        document.set(&assignment).map_err(|error| refused(&error))?;
    }
    let seeds = Seeds { first: None, count: job.seeds };
    let plan = Plan::new(&document, seeds).map_err(|error| refused(&error))?.hash().to_hex();
    match &unpacked.plan {
        // A job that was cancelled or failed may have none.
        None if job.state != "done" => Ok(()),
        Some(stated) if *stated == plan => Ok(()),
        stated => Err(Problem::bad(format!(
            "archive: manifest.json: hash: expected that of its scenario with its settings, {plan}, found {}: its results \
             are of another scenario, or of another build of bentpipe",
            stated.as_deref().unwrap_or("none").chars().take(64).collect::<String>()
        ))),
    }
}

fn contents(job: &Description) -> Vec<Content> {
    let content = |Input { name, bytes, sha256 }: &Input| Content {
        name: name.clone(),
        size: *bytes as i64,
        sha256: sha256.clone(),
    };
    job.inputs.iter().map(content).collect()
}

/// Adds the job of an archive with its scenario and files, all or nothing.
fn add(
    db: &Transaction<'_>,
    (app, user): (&App, &User),
    (unpacked, staging): (&Unpacked, &View),
    sha256: &str,
) -> Result<i64> {
    let (job, large) =
        (&unpacked.description, |detail: String| Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)));
    let bytes: u64 = job.files.iter().map(|entry| entry.bytes).sum();
    if jobs::imported_bytes(db, user.id)? + bytes as i64 > MAX_IMPORTED {
        return large(format!(
            "your imported jobs have at most {} GiB together: remove some",
            MAX_IMPORTED >> 30
        ));
    }
    let inputs = contents(job);
    let size: u64 = job.inputs.iter().map(|input| input.bytes).sum();
    if files::used(db, user.id)?.1.unsigned_abs() + size > MAX_OWN {
        return large(format!(
            "your files and those of your jobs have at most {} MiB together: remove some",
            MAX_OWN >> 20
        ));
    }
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
    let id = jobs::import(db, &imported(user.id, version, &origin, job))?;
    files::give(db, id, &inputs)?;
    files::save_new(db, user.id, &inputs)?;
    let (data, folder) = (&app.settings.folder, app.job_folder(id));
    let move_in = || {
        fs::create_dir_all(inputs::folder(data))?;
        inputs.iter().try_for_each(|one| inputs::adopt(data, one, &staging.path().join("input")))?;
        // What an import that was cut off left under this number.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("results"))?;
        fs::rename(staging.path(), folder.join("results").join(FOLDER))
    };
    move_in().map_err(|error: std::io::Error| Problem::internal(&error))?;
    jobs::set_folder(db, id, FOLDER)?;
    let mut list: Vec<(String, u64)> =
        job.files.iter().map(|entry| (entry.path.clone(), entry.bytes)).collect();
    list.sort();
    jobs::set_artifacts(db, id, &list)?;
    if let Some(summary) = &unpacked.summary {
        jobs::set_summary(db, id, summary)?;
    }
    Ok(id)
}

fn imported<'a>(owner: i64, version: Option<i64>, origin: &'a Origin, job: &'a Description) -> Imported<'a> {
    let launch = Launch {
        owner,
        kind: &job.kind,
        version,
        study: job.study.as_deref(),
        search: job.search.as_ref(),
        sites: job.sites.as_deref(),
        quick: job.quick,
        name: job.name.trim(),
        shared: false,
        seeds: job.seeds,
        duration: job.duration.as_deref(),
        priority: 0,
        request_key: None,
        repeats: None,
    };
    Imported {
        launch,
        origin,
        state: &job.state,
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
    let mut arrival = Arrival::new(&app).await;
    while let Some(block) = poll_fn(|cx| Pin::new(&mut blocks).poll_next(cx)).await {
        let block = block.map_err(|_| Problem::bad("the body ended early"))?;
        arrival = arrival.and_then(|mut arrival| arrival.add(&block).map(|()| arrival));
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
