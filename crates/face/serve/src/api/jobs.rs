//! Operations on jobs.

use std::fs::File;

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use bentpipe_scenario::files::names_file;
use rustix::thread::CapabilitySet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

use super::access::may_change;
use super::body::{Body, Ids, Search};
use super::scenarios::Page;
use crate::app::{App, RESULTS, blocking};
use crate::audited::log;
use crate::control;
use crate::guard::Caller;
use crate::inputs::Inputs;
use crate::launch::LaunchSettings;
use crate::left;
use crate::problem::{Problem, Result};
use crate::quota::{self, Added};
use crate::real_time::{self, SITE_MARGIN_MS};
use crate::space;
use crate::store::files::{self, Content};
use crate::store::jobs::{
    self, Artifact, Event, Job, JobKind, JobMeasure, JobState, KindRow, Launch, Method, Question, Selection,
};
use crate::store::people::User;
use crate::store::scenarios;
use crate::whole::{self, Sums};
use crate::work::{PlannedTask, SELECTED, Task};

/// Most jobs of a user that are queued or running.
pub(crate) const MAX_UNFINISHED: i64 = 100;

/// Most characters of a note.
const MAX_NOTE: usize = 4000;

/// Most bytes of a question's texts.
const MAX_QUESTION: usize = 20_000;

/// Most bytes of files whose series are selected from.
const MAX_SERIES: i64 = 64 << 20;

/// Bytes of a download that are read at a time.
const CHUNK: usize = 64 << 10;

/// Job to be launched.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewJob {
    /// Number of the scenario. Exactly one of `scenario` and `study` is given.
    #[serde(default)]
    pub(crate) scenario: Option<i64>,
    /// Name of the study.
    #[serde(default)]
    pub(crate) study: Option<String>,
    /// Set for shorter runs of a study, with one seed. Default: `false`.
    #[serde(default)]
    pub(crate) quick: bool,
    /// Set to run the scenario's sweep as a campaign.
    ///
    /// It has up to 1,000,000 runs, of which tables are kept and no series. Default: `false`.
    #[serde(default)]
    pub(crate) campaign: bool,
    /// Set to emulate the scenario in real time.
    ///
    /// Its flows between real hosts are carried by the kernel: iperf3 and ping stand for them. An emulation runs alone, and
    /// starts when others have ended. Default: `false`.
    #[serde(default)]
    pub(crate) emulate: bool,
    /// Question of a search: how many fit, or how little suffices.
    ///
    /// The scenario has no sweep.
    #[serde(default)]
    pub(crate) search: Option<Question>,
    /// Job file, TOML: which sites run what.
    ///
    /// An emulation in it is of the scenario. Default: all runs on the server.
    #[serde(default)]
    pub(crate) sites: Option<String>,
    /// Number of the version. Default: the newest.
    #[serde(default)]
    pub(crate) version: Option<i64>,
    /// Number of seeds, 1 to 1000. Default: the scenario's.
    #[serde(default)]
    pub(crate) seeds: Option<u32>,
    /// Simulated time with its unit. Default: the scenario's.
    #[serde(default)]
    pub(crate) duration: Option<String>,
    /// Priority, -100 to 100; smaller numbers run first, and negative ones need level 2. Default: 0.
    #[serde(default)]
    pub(crate) priority: i64,
}

/// Launches a job of the caller after a check of its scenario.
pub(crate) async fn start(app: &App, caller: &Caller, new: NewJob, key: Option<String>) -> Result<Job> {
    if new.seeds.is_some_and(|seeds| !(1..=1000).contains(&seeds)) {
        return Err(Problem::bad("seeds: expected 1 to 1000"));
    }
    if !(-100..=100).contains(&new.priority) {
        return Err(Problem::bad("priority: expected -100 to 100"));
    }
    if new.priority < 0 && caller.user.level < 2 {
        return Err(Problem::forbidden("a priority below 0 needs level 2"));
    }
    new.search.as_ref().map_or(Ok(()), checked_question)?;
    let subject = match (new.scenario, &new.study) {
        (Some(id), None) => of_scenario(app, caller, id, &new).await?,
        (None, Some(name)) => of_study(app, name, &new)?,
        _ => return Err(Problem::bad("expected one of `scenario` and `study`")),
    };
    queue(app, caller, (new, subject), (key, None)).await
}

/// Launches a job with the settings and files of another.
pub(super) async fn launch_again(
    app: &App,
    caller: &Caller,
    job: &Job,
    (text, inputs): (String, Inputs),
) -> Result<Job> {
    let KindRow { study, search, sites, quick, .. } = job.kind.clone().into();
    let new = NewJob {
        study,
        quick,
        campaign: job.is_campaign(),
        emulate: job.is_emulation(),
        search,
        sites,
        seeds: job.seeds,
        duration: job.duration.clone(),
        ..NewJob::default()
    };
    let subject = match &job.kind {
        JobKind::Study { name, .. } => of_study(app, name, &new)?,
        JobKind::Scenario { version, .. } => {
            let name = (job.name.clone(), job.shared);
            of_text((app, &caller.user), &new, (*version, text), (name, inputs)).await?
        }
    };
    queue(app, caller, (new, subject), (None, Some(job.id))).await
}

/// Queues a job. It may repeat another.
async fn queue(
    app: &App,
    caller: &Caller,
    (new, subject): (NewJob, Subject),
    (key, repeats): (Option<String>, Option<i64>),
) -> Result<Job> {
    space::check(&app.settings)?;
    let (user, kept) = (caller.user.clone(), app.clone());
    let job = app
        .write(move |db| {
            let launch = Launch {
                owner: user.id,
                kind: subject.kind,
                name: &subject.name,
                shared: subject.shared,
                seeds: new.seeds,
                duration: new.duration.as_deref(),
                priority: new.priority,
                request_key: key.as_deref(),
                repeats,
                real_ms: subject.real_ms,
            };
            quota::admit(db, &kept, user.id, Added::Results(0))?;
            // Its row, of which launches that are cancelled leave one each.
            quota::admit(db, &kept, user.id, Added::Text(0))?;
            let id = jobs::launch(db, &launch)?;
            files::give(db, id, &subject.files)?;
            jobs::need_sites(db, id, &subject.sites)?;
            if jobs::unfinished_of(db, user.id)? > MAX_UNFINISHED {
                let detail =
                    format!("you have {MAX_UNFINISHED} unfinished jobs: wait for them, or cancel some");
                return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, detail));
            }
            jobs::find(db, &user, id)?.ok_or_else(Problem::not_found)
        })
        .await?;
    app.announce(job.id);
    log(app, &caller.user.name, &caller.address, ("launch job", &job.id.to_string(), "done")).await?;
    Ok(job)
}

/// Scenario or study of a job.
struct Subject {
    kind: JobKind,
    name: String,
    shared: bool,
    /// Files that the scenario names.
    files: Vec<Content>,
    /// Numbers of the sites that it needs.
    sites: Vec<i64>,
    /// Length in real time in milliseconds, if it is known.
    real_ms: Option<i64>,
}

async fn of_scenario(app: &App, caller: &Caller, id: i64, new: &NewJob) -> Result<Subject> {
    if new.quick {
        return Err(Problem::bad("quick: only a study has shorter runs"));
    }
    let (user, wanted) = (caller.user.clone(), new.version);
    let (scenario, version, text) = app
        .read(move |db| {
            let scenario = scenarios::find(db, &user, id)?.ok_or_else(Problem::not_found)?;
            let version = wanted.unwrap_or(scenario.version);
            if version != scenario.version && !scenarios::versions(db, id)?.iter().any(|v| v.id == version) {
                return Err(Problem::not_found());
            }
            Ok((scenario, version, scenarios::text(db, version)?))
        })
        .await?;
    let inputs = app.inputs(caller.user.id).await?;
    of_text((app, &caller.user), new, (version, text), ((scenario.name, scenario.shared), inputs)).await
}

/// Checks a scenario's text with the settings of a job.
async fn of_text(
    (app, user): (&App, &User),
    new: &NewJob,
    (version, text): (i64, String),
    ((name, shared), inputs): ((String, bool), Inputs),
) -> Result<Subject> {
    let scenario = new.sites.is_some().then(|| text.clone());
    let NewJob { duration, seeds, campaign, emulate, search, .. } = new.clone();
    let settings = LaunchSettings { duration, seeds, campaign, emulate, search };
    let findings = app.check(user, (text, inputs), Some(settings)).await?;
    let refused = |problems| Problem { problems, ..Problem::bad("the scenario has errors") };
    let checked = findings.map_err(refused)?;
    let (files, mut real_ms) = (checked.files, checked.real_ms);
    let limits = app.settings.limits.of(user.level).job;
    real_time::check("emulate", real_ms, &limits, user.level)?;
    if new.emulate {
        may_emulate()?;
    }
    // The scenario is read with its files before any other check of it.
    let mut sites = Vec::new();
    if let Some(scenario) = scenario {
        (sites, real_ms) = check_sites((app, user), new, scenario).await?;
        real_time::check("sites", real_ms, &limits, user.level)?;
    }
    let kind = JobKind::Scenario { version, method: method(new) };
    Ok(Subject { kind, name, shared, files, sites, real_ms })
}

/// Returns the treatment of a scenario that a request asks for. Its settings were checked.
fn method(new: &NewJob) -> Method {
    match (&new.search, &new.sites) {
        _ if new.campaign => Method::Campaign,
        _ if new.emulate => Method::Emulate,
        (Some(question), _) => Method::Search(question.clone()),
        (None, Some(file)) => Method::Sites(file.clone()),
        (None, None) => Method::Simulate,
    }
}

fn of_study(app: &App, name: &str, new: &NewJob) -> Result<Subject> {
    let all = crate::studies::list(app.settings.studies.as_deref());
    if all.is_empty() {
        let detail = "study: this server has no folder of studies; start it with `--studies FOLDER`";
        return Err(Problem::bad(detail));
    }
    if !all.iter().any(|(known, _)| known == name) {
        let names: Vec<&str> = all.iter().map(|(name, _)| &name[..]).collect();
        return Err(Problem::bad(format!("study: expected one of {}", names.join(", "))));
    }
    if new.campaign || new.emulate || new.search.is_some() {
        return Err(Problem::bad(
            "`campaign`, `emulate` and `search` are of scenarios: a study has several runs of its own",
        ));
    }
    if new.version.is_some() || new.seeds.is_some() || new.duration.is_some() {
        return Err(Problem::bad("`version`, `seeds` and `duration` are of scenarios: a study has its own"));
    }
    Ok(Subject {
        kind: JobKind::Study { name: name.to_owned(), quick: new.quick },
        name: format!("study {name}"),
        shared: true,
        files: Vec::new(),
        sites: Vec::new(),
        real_ms: None,
    })
}

/// Checks a job file, and that its sites are connected with the same version.
///
/// Returns their numbers, and the length of the job in real time in milliseconds.
async fn check_sites(
    (app, user): (&App, &User),
    new: &NewJob,
    scenario: String,
) -> Result<(Vec<i64>, Option<i64>)> {
    if new.campaign || new.emulate || new.search.is_some() || new.seeds.is_some() || new.duration.is_some() {
        return Err(Problem::bad(
            "sites: a job on sites has no `campaign`, `emulate`, `search`, `seeds` or `duration`: its file says what runs",
        ));
    }
    let file = new.sites.clone().unwrap_or_default();
    let planned: Vec<PlannedTask> = app.work(user, Task::Sites { file, scenario }).await?;
    let known = super::sites::all(app).await?;
    let mut needed = Vec::new();
    for task in &planned {
        let site = known.iter().find(|site| site.name == task.site);
        let wrong =
            |why: &str| Err(Problem::bad(format!("sites: task.{}.site: {} {why}", task.name, task.site)));
        match site {
            None => return wrong("is not a site of this server"),
            Some(site) if !site.connected => return wrong("is not connected"),
            Some(site) if site.program != env!("CARGO_PKG_VERSION") => {
                return wrong(&format!(
                    "runs bentpipe {}, this server {}",
                    site.program,
                    env!("CARGO_PKG_VERSION")
                ));
            }
            Some(site) if !site.programs.contains(&task.program) => {
                return wrong(&format!("does not permit {}", task.program));
            }
            Some(site) => needed.push(site.id),
        }
    }
    Ok((needed, planned.iter().map(|task| task.real_ms - SITE_MARGIN_MS).max()))
}

/// Checks that this server may start an emulation.
fn may_emulate() -> Result<()> {
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    let has = rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    match has {
        true => Ok(()),
        false => Err(Problem::new(
            StatusCode::CONFLICT,
            "emulate: this server runs without CAP_NET_ADMIN and CAP_SYS_ADMIN, which network namespaces need",
        )),
    }
}

pub(crate) async fn launch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(body): Body<NewJob>,
) -> Result<impl IntoResponse> {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    if key.is_some_and(|key| key.is_empty() || key.len() > 200) {
        return Err(Problem::bad("Idempotency-Key: expected 1 to 200 characters"));
    }
    let job = start(&app, &caller, body, key.map(str::to_owned)).await?;
    Ok((StatusCode::CREATED, Json(job)))
}

/// Selection of the list.
#[derive(Deserialize)]
pub(crate) struct JobSearch {
    pub(crate) before: Option<i64>,
    pub(crate) limit: Option<u32>,
    pub(crate) state: Option<String>,
    pub(crate) search: Option<String>,
    pub(crate) scenario: Option<i64>,
}

impl TryFrom<JobSearch> for Selection {
    type Error = Problem;

    fn try_from(search: JobSearch) -> Result<Selection> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let unknown = || {
            let words = JobState::ALL.map(JobState::word).join(", ");
            Problem::bad(format!("state: expected one of {words}"))
        };
        let state = filled(search.state).map(|word| JobState::of_word(&word).ok_or_else(unknown));
        Ok(Selection {
            before: search.before,
            state: state.transpose()?,
            search: filled(search.search),
            scenario: search.scenario,
            limit: search.limit.unwrap_or(100).clamp(1, 1000),
        })
    }
}

pub(crate) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Search(search): Search<JobSearch>,
) -> Result<Json<Vec<Job>>> {
    let selection = Selection::try_from(search)?;
    Ok(Json(app.read(move |db| Ok(jobs::list(db, &caller.user, &selection)?)).await?))
}

/// Returns a job that the caller sees.
pub(crate) async fn found(app: &App, caller: &Caller, id: i64) -> Result<Job> {
    let user = caller.user.clone();
    app.read(move |db| jobs::find(db, &user, id)?.ok_or_else(Problem::not_found)).await
}

pub(crate) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Json<Job>> {
    Ok(Json(found(&app, &caller, id).await?))
}

/// Requests the end of a job.
pub(crate) async fn stop(app: &App, caller: &Caller, id: i64) -> Result<Job> {
    let job = found(app, caller, id).await?;
    may_change(&caller.user, job.owner_id)?;
    let is_stopped = app.write(move |db| Ok(jobs::cancel(db, id)?)).await?;
    if !is_stopped {
        return Err(Problem::new(StatusCode::CONFLICT, "the job is over"));
    }
    app.announce(id);
    log(app, &caller.user.name, &caller.address, ("cancel job", &id.to_string(), "done")).await?;
    found(app, caller, id).await
}

pub(crate) async fn cancel(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Json<Job>> {
    Ok(Json(stop(&app, &caller, id).await?))
}

/// Change of a key while an emulation runs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    /// Key of the scenario, such as `link.satellite.delay`.
    pub(crate) key: String,
    /// Value, such as `300 ms`, as in the scenario or without its quotation marks.
    pub(crate) value: String,
}

/// Change that was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Changed {
    /// Time of the run in seconds.
    at: f64,
}

/// Most bytes of a key, and of a value.
const MAX_CHANGE: usize = 10_000;

/// Changes a key of an emulation that runs, and records it.
pub(crate) async fn change(app: &App, caller: &Caller, id: i64, change: Change) -> Result<Changed> {
    let job = found(app, caller, id).await?;
    may_change(&caller.user, job.owner_id)?;
    if !(job.is_emulation() || job.is_on_sites()) || !job.is_running() {
        return Err(Problem::new(StatusCode::CONFLICT, "expected an emulation that runs"));
    }
    let Change { key, value } = change;
    let is_short = key.len() <= MAX_CHANGE && value.len() <= MAX_CHANGE;
    if key.trim().is_empty() || key.contains(['=', '\n']) || !is_short {
        return Err(Problem::bad("key: expected a key such as link.satellite.delay"));
    }
    let folder = app.job_folder(id);
    let assignment = format!("{}={}", key.trim(), value.trim());
    if names_file(&assignment) {
        return Err(Problem::bad("value: files cannot be named while a job runs"));
    }
    let (owner, bytes, state) = (job.owner_id, assignment.len() + 64, app.clone());
    app.read(move |db| quota::admit(db, &state, owner, Added::Text(bytes))).await?;
    let at_s = match job.is_on_sites() {
        true => control::set_on_sites(app, &job, &assignment).await?,
        false => blocking(move || control::set(&folder, job.attempt, &assignment)).await?,
    };
    let content = serde_json::json!({ "key": key.trim(), "value": value.trim(), "at": at_s });
    app.write(move |db| Ok(jobs::add_change(db, id, &content)?)).await?;
    app.announce(id);
    log(app, &caller.user.name, &caller.address, ("change job", &id.to_string(), "done")).await?;
    Ok(Changed { at: at_s })
}

pub(crate) async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Body(body): Body<Change>,
) -> Result<Json<Changed>> {
    Ok(Json(change(&app, &caller, id, body).await?))
}

pub(crate) async fn events(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(page): Search<Page>,
) -> Result<Json<Vec<Event>>> {
    found(&app, &caller, id).await?;
    let (after, limit) = (page.after.unwrap_or(0), page.limit());
    Ok(Json(app.read(move |db| Ok(jobs::events(db, id, after, limit)?)).await?))
}

/// Study that a job can reproduce.
#[derive(Serialize, JsonSchema)]
pub(crate) struct StudyEntry {
    /// Name.
    name: String,
    /// Title.
    title: String,
}

pub(crate) async fn studies(State(app): State<App>) -> Result<Json<Vec<StudyEntry>>> {
    let all = blocking(move || Ok(crate::studies::list(app.settings.studies.as_deref()))).await?;
    Ok(Json(all.into_iter().map(|(name, title)| StudyEntry { name, title }).collect()))
}

/// Note and tags of a job.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Remarks {
    /// Note, at most 4000 characters. Default: unchanged.
    #[serde(default)]
    pub(crate) note: Option<String>,
    /// Tags, separated by spaces. They replace the old ones.
    ///
    /// At most 20 of at most 40 letters, digits, "-", "_", "." and ":". Default: unchanged.
    #[serde(default)]
    pub(crate) tags: Option<String>,
}

/// Returns the tags of a text.
pub(super) fn tags_of(text: &str) -> Result<Vec<String>> {
    let is_tag = |tag: &str| {
        tag.chars().count() <= 40 && tag.chars().all(|c| c.is_alphanumeric() || "-_.:".contains(c))
    };
    let all: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    match all.len() <= 20 && all.iter().all(|tag| is_tag(tag)) {
        true => Ok(all),
        false => Err(Problem::bad(
            "tags: expected at most 20 of at most 40 letters, digits, \"-\", \"_\", \".\" and \":\"",
        )),
    }
}

/// Refuses a note that is too long.
pub(super) fn checked_note(note: &str) -> Result<()> {
    match note.chars().count() > MAX_NOTE {
        true => Err(Problem::bad(format!("note: expected at most {MAX_NOTE} characters"))),
        false => Ok(()),
    }
}

/// Refuses a question that is too long.
pub(super) fn checked_question(question: &Question) -> Result<()> {
    match question.len() > MAX_QUESTION {
        true => Err(Problem::bad(format!("search: expected texts of at most {MAX_QUESTION} bytes"))),
        false => Ok(()),
    }
}

/// Sets note and tags of a job.
pub(crate) async fn remark(app: &App, caller: &Caller, id: i64, remarks: Remarks) -> Result<Job> {
    let job = found(app, caller, id).await?;
    may_change(&caller.user, job.owner_id)?;
    let note = remarks.note.map(|note| note.replace("\r\n", "\n"));
    note.as_deref().map_or(Ok(()), checked_note)?;
    let tags = remarks.tags.as_deref().map(tags_of).transpose()?;
    let kept = app.clone();
    app.write(move |db| {
        let more = note.as_ref().map_or(0, |note| note.len().saturating_sub(job.note.len()));
        if more > 0 {
            quota::admit(db, &kept, job.owner_id, Added::Text(more))?;
        }
        note.map_or(Ok(()), |note| jobs::set_note(db, id, &note))?;
        tags.map_or(Ok(()), |tags| jobs::set_tags(db, id, &tags))?;
        Ok::<(), Problem>(())
    })
    .await?;
    found(app, caller, id).await
}

pub(crate) async fn annotate(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Body(body): Body<Remarks>,
) -> Result<Json<Job>> {
    Ok(Json(remark(&app, &caller, id, body).await?))
}

/// Text searched for.
#[derive(Deserialize)]
pub(crate) struct TextSearch {
    search: Option<String>,
}

pub(crate) async fn measures(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(search): Search<TextSearch>,
) -> Result<Json<Vec<JobMeasure>>> {
    found(&app, &caller, id).await?;
    let text = search.search.unwrap_or_default();
    Ok(Json(app.read(move |db| Ok(jobs::measures(db, id, &text)?)).await?))
}

pub(crate) async fn artifacts(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Result<Json<Vec<Artifact>>> {
    found(&app, &caller, id).await?;
    Ok(Json(app.read(move |db| Ok(jobs::artifacts(db, id)?)).await?))
}

/// Opens a file of a job that the caller sees. Its path comes from the database, and no link in it is followed.
///
/// Of a job that is over it is as it was written.
pub(crate) async fn open_artifact(
    app: &App,
    caller: &Caller,
    id: i64,
    number: i64,
) -> Result<(Artifact, File)> {
    let is_over = found(app, caller, id).await?.is_over();
    let (artifact, folder) = app
        .read(move |db| {
            let all = jobs::artifacts(db, id)?;
            let found = all.into_iter().find(|artifact| artifact.number == number);
            Ok((found.ok_or_else(Problem::not_found)?, jobs::folder(db, id)?.unwrap_or_default()))
        })
        .await?;
    let kept = app.clone();
    app.reading(caller.user.id, move |gone| {
        let missing = |_| Problem::not_found();
        let root = left::folder(&kept.job_folder(id), &format!("{RESULTS}/{folder}")).map_err(missing)?;
        let mut file = left::file_in(&root, &artifact.path).map_err(missing)?;
        if is_over {
            whole::check((&kept.file_hashes, gone), &mut Sums::new(&root), (&artifact.path, &mut file))
                .map_err(whole::problem)?;
        }
        Ok((artifact, file))
    })
    .await
}

/// Patterns of series.
#[derive(Deserialize)]
pub(crate) struct SeriesSearch {
    select: Option<String>,
}

/// Returns the selected series of a finished job as CSV.
pub(crate) async fn series(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(search): Search<SeriesSearch>,
) -> Result<Response> {
    found(&app, &caller, id).await?;
    let patterns: Vec<String> =
        search.select.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    if patterns.is_empty() || patterns.len() > 20 {
        return Err(Problem::bad("select: expected 1 to 20 patterns such as flow.*.sender.cwnd"));
    }
    let (artifacts, folder) =
        app.read(move |db| Ok((jobs::artifacts(db, id)?, jobs::folder(db, id)?))).await?;
    let is_series = |artifact: &&Artifact| artifact.path.ends_with("series.parquet");
    let bytes: i64 = artifacts.iter().filter(is_series).map(|artifact| artifact.bytes).sum();
    if bytes > MAX_SERIES {
        let detail = "the series of this job have over 64 MB: download the files of the runs you need";
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
    }
    let folder = folder.ok_or_else(Problem::not_found)?;
    let root = app.results(id, &folder).map_err(|_| Problem::not_found())?;
    let staging = app.staging().await?;
    let task = Task::Select { results: root, patterns };
    app.work_in::<()>(&caller.user, (&task, staging.path())).await?;
    // The folder goes while the file is sent: it is open.
    let file = left::file(staging.path(), SELECTED).map_err(|error| Problem::internal(&error))?;
    let bytes = file.metadata().map_err(|error| Problem::internal(&error))?.len();
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
    ];
    Ok((headers, streamed(file, bytes)).into_response())
}

pub(crate) async fn artifact(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids((id, number)): Ids<(i64, i64)>,
) -> Result<Response> {
    let (artifact, file) = open_artifact(&app, &caller, id, number).await?;
    let name = artifact.path.rsplit('/').next().unwrap_or_default();
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        (header::CONTENT_LENGTH, artifact.bytes.to_string()),
    ];
    Ok((headers, streamed(file, artifact.bytes.unsigned_abs())).into_response())
}

/// Returns the first `bytes` bytes of a file as a streamed body.
pub(crate) fn streamed(file: File, bytes: u64) -> HttpBody {
    let (mut sender, receiver) = tokio::io::duplex(CHUNK);
    tokio::spawn(async move {
        let mut file = tokio::fs::File::from_std(file).take(bytes);
        let _ = tokio::io::copy(&mut file, &mut sender).await;
    });
    HttpBody::from_stream(Chunks(receiver))
}

/// Stream of what is read from a pipe.
struct Chunks(tokio::io::DuplexStream);

impl futures_core::Stream for Chunks {
    type Item = std::io::Result<Vec<u8>>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use tokio::io::AsyncRead;
        let mut bytes = vec![0; CHUNK];
        let mut buffer = tokio::io::ReadBuf::new(&mut bytes);
        let read = std::pin::Pin::new(&mut self.0).poll_read(context, &mut buffer);
        let filled = buffer.filled().len();
        read.map(|result| match result {
            Ok(()) if filled == 0 => None,
            Ok(()) => {
                bytes.truncate(filled);
                Some(Ok(bytes))
            }
            Err(error) => Some(Err(error)),
        })
    }
}
