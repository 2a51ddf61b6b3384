//! Jobs, their events, measures and artifacts.

use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Result;
use super::people::User;
use super::scenarios::SEEN;
use super::usage;
use crate::clock::now_ms;

mod kind;
mod rows;

pub(crate) use kind::{End, JobKind, JobState, KindName, KindRow, Method, Question};
pub(crate) use rows::{set_rows, write_lines};

/// Attempts after which a job whose child was killed fails.
pub(crate) const MAX_ATTEMPTS: i64 = 3;

/// Job: a version of a scenario to be run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Job {
    /// Number.
    pub(crate) id: i64,
    #[serde(flatten)]
    #[schemars(with = "KindRow")]
    pub(crate) kind: JobKind,
    /// Name of the scenario when the job was launched.
    pub(crate) name: String,
    /// Name of the owner.
    pub(crate) owner: String,
    /// Number of the owner.
    pub(crate) owner_id: i64,
    /// Number of the scenario, unless it is a study.
    pub(crate) scenario: Option<i64>,
    /// Note of the users who may change it. In lists it has its first 300 characters.
    pub(crate) note: String,
    /// Tags, in alphabetical order.
    pub(crate) tags: Vec<String>,
    /// Set if all users see it.
    pub(crate) shared: bool,
    /// State: "queued", "running", "done", "failed" or "cancelled".
    #[schemars(with = "String")]
    pub(crate) state: JobState,
    /// Priority; jobs with a smaller number run first.
    pub(crate) priority: i64,
    /// Number of times that it was started.
    pub(crate) attempt: i64,
    /// Number of seeds, if the scenario's is overridden.
    pub(crate) seeds: Option<u32>,
    /// Duration, if the scenario's is overridden.
    pub(crate) duration: Option<String>,
    /// Set if its end was requested.
    pub(crate) cancel: bool,
    /// Number of runs: points times seeds. Zero until they are counted.
    pub(crate) runs: i64,
    /// Number of finished runs.
    pub(crate) finished: i64,
    /// Finished share of all runs, 0 to 1.
    pub(crate) share: f64,
    /// Reason of a failure. In lists it has its first 1000 characters.
    pub(crate) message: String,
    /// Time of the launch in milliseconds since 1970, UTC.
    pub(crate) created: i64,
    /// Time of the first start in milliseconds since 1970, UTC.
    pub(crate) started: Option<i64>,
    /// Time of the end in milliseconds since 1970, UTC.
    pub(crate) ended: Option<i64>,
    /// Origin, if it was imported.
    pub(crate) origin: Option<Origin>,
    /// Number of the job that it repeats.
    pub(crate) repeats: Option<i64>,
    /// Set if its fingerprints are those of the job that it repeats.
    ///
    /// `null` until it is done, and if the two have none to be compared, as emulations.
    pub(crate) equal: Option<bool>,
}

/// Origin of an imported job. All of it is as its archive states it, but the hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Origin {
    /// Number of the job where it ran.
    pub(crate) job: i64,
    /// Version of bentpipe there.
    pub(crate) program: String,
    /// SHA-256 of the archive in hexadecimal digits.
    pub(crate) sha256: String,
}

impl Job {
    /// Returns the treatment of the scenario, unless the job is a study.
    pub(crate) fn method(&self) -> Option<&Method> {
        self.kind.method()
    }

    /// Returns the job with a short question.
    ///
    /// Of other texts the database gives their beginning alone.
    fn listed(mut self) -> Job {
        if let JobKind::Scenario { method: Method::Search(question), .. } = &mut self.kind {
            question.shorten();
        }
        self
    }

    /// Returns `true` if the job is a campaign.
    pub(crate) fn is_campaign(&self) -> bool {
        self.kind.name() == KindName::Campaign
    }

    /// Returns `true` if the job is an emulation.
    pub(crate) fn is_emulation(&self) -> bool {
        self.kind.name() == KindName::Emulate
    }

    /// Returns the job file, if the job runs on sites.
    pub(crate) fn sites_file(&self) -> Option<&str> {
        match self.method() {
            Some(Method::Sites(file)) => Some(file),
            _ => None,
        }
    }

    /// Returns `true` if the job runs on sites.
    pub(crate) fn is_on_sites(&self) -> bool {
        self.kind.name() == KindName::Sites
    }

    /// Returns `true` if the job will change no more.
    pub(crate) fn is_over(&self) -> bool {
        self.state.is_over()
    }

    /// Returns `true` while the job runs.
    pub(crate) fn is_running(&self) -> bool {
        self.state == JobState::Running
    }
}

/// Event of a job.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Event {
    /// Number, ascending over all jobs.
    pub(crate) id: i64,
    /// Time in milliseconds since 1970, UTC.
    pub(crate) at: i64,
    /// Kind: "state", "progress", "run", "set" or "site".
    pub(crate) kind: String,
    /// Content.
    pub(crate) content: Value,
}

/// Measure of a job's point, averaged over the seeds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct JobMeasure {
    /// Number of the point.
    pub(crate) point: i64,
    /// Name.
    pub(crate) name: String,
    /// Unit.
    pub(crate) unit: String,
    /// Number of seeds.
    pub(crate) n: i64,
    /// Mean.
    pub(crate) mean: Option<f64>,
    /// Half of the 95 % confidence interval.
    pub(crate) half: Option<f64>,
}

/// File that a job left.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Artifact {
    /// Number in the job.
    pub(crate) number: i64,
    /// Path in the folder of results.
    pub(crate) path: String,
    /// Size in bytes.
    pub(crate) bytes: i64,
}

/// Term of a query: start of the attempt of a running job.
pub(super) const ATTEMPT_STARTED: &str =
    "(SELECT max(at) FROM job_event WHERE job_event.job = job.id AND kind = 'state'
    AND json_extract(json, '$.state') = 'running')";
/// Term of a query: length of a job in real time, in milliseconds.
pub(super) const REAL_MS: &str =
    "(SELECT json_extract(json, '$.real_ms') FROM job_event WHERE job_event.job = job.id
    AND kind = 'state' ORDER BY id LIMIT 1)";

/// Texts of a job, and their characters in a list.
const LISTED: [(&str, u32); 3] = [(" message,", 1000), (" note,", 300), (" job.sites,", 1000)];

pub(super) const JOB: &str =
    "job.id, job.name, user.name, job.owner, version.scenario, job.version, job.shared, state, priority,
    attempt, seeds, duration, cancel, runs, finished, share, message, job.created, started, ended, job.kind,
    study, quick, note,
    (SELECT json_group_array(name) FROM (SELECT name FROM tag WHERE tag.job = job.id ORDER BY name)),
    job.search, job.sites, job.origin, job.repeats, job.equal
    FROM job JOIN user ON user.id = job.owner LEFT JOIN version ON version.id = job.version";

pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<Job> {
    Ok(Job {
        id: row.get(0)?,
        name: row.get(1)?,
        owner: row.get(2)?,
        owner_id: row.get(3)?,
        scenario: row.get(4)?,
        shared: row.get(6)?,
        state: row.get(7)?,
        priority: row.get(8)?,
        attempt: row.get(9)?,
        seeds: row.get(10)?,
        duration: row.get(11)?,
        cancel: row.get(12)?,
        runs: row.get(13)?,
        finished: row.get(14)?,
        share: row.get(15)?,
        message: row.get(16)?,
        created: row.get(17)?,
        started: row.get(18)?,
        ended: row.get(19)?,
        kind: kind_of(row)?,
        note: row.get(23)?,
        tags: serde_json::from_str(&row.get::<_, String>(24)?).unwrap_or_default(),
        origin: row.get::<_, Option<String>>(27)?.and_then(|text| serde_json::from_str(&text).ok()),
        repeats: row.get(28)?,
        equal: row.get(29)?,
    })
}

/// Returns the kind of a job. The database refuses rows that are of none.
fn kind_of(row: &Row<'_>) -> rusqlite::Result<JobKind> {
    let kind = KindRow {
        kind: row.get(20)?,
        version: row.get(5)?,
        study: row.get(21)?,
        quick: row.get(22)?,
        search: row.get(25)?,
        sites: row.get(26)?,
    };
    kind.kind().ok_or(rusqlite::Error::InvalidQuery)
}

/// Selection of a list of jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// Jobs before this number.
    pub(crate) before: Option<i64>,
    /// State.
    pub(crate) state: Option<JobState>,
    /// Text in the name or note, or a tag.
    pub(crate) search: Option<String>,
    /// Scenario.
    pub(crate) scenario: Option<i64>,
    /// Most jobs.
    pub(crate) limit: u32,
}

/// Returns the jobs that a user sees, newest first.
pub(crate) fn list(db: &Transaction<'_>, user: &User, selection: &Selection) -> Result<Vec<Job>> {
    let seen = SEEN.replace("owner", "job.owner").replace("shared", "job.shared");
    let mut query = db.prepare(&format!(
        "SELECT {} WHERE {seen} AND job.id < ?3 AND (?4 IS NULL OR state = ?4)
         AND (?5 IS NULL OR instr(lower(job.name), lower(?5)) > 0 OR instr(lower(note), lower(?5)) > 0
           OR EXISTS (SELECT 1 FROM tag WHERE tag.job = job.id AND lower(tag.name) = lower(?5))) AND (?6 IS NULL OR version.scenario = ?6)
         ORDER BY job.id DESC LIMIT ?7",
        LISTED.iter().fold(JOB.to_owned(), |all, (text, most)| {
            all.replace(text, &format!(" substr({}, 1, {most}),", text.trim_matches([' ', ','])))
        })
    ))?;
    let Selection { before, state, search, scenario, limit } = selection;
    let before = before.unwrap_or(i64::MAX);
    let listed = |row: &Row<'_>| job(row).map(Job::listed);
    let rows =
        query.query_map(params![user.id, user.level, before, state, search, scenario, limit], listed)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a job that a user sees.
pub(crate) fn find(db: &Transaction<'_>, user: &User, id: i64) -> Result<Option<Job>> {
    let seen = SEEN.replace("owner", "job.owner").replace("shared", "job.shared");
    let query = format!("SELECT {JOB} WHERE {seen} AND job.id = ?3");
    Ok(db.query_row(&query, params![user.id, user.level, id], job).optional()?)
}

/// Returns all running jobs.
pub(crate) fn running(db: &Transaction<'_>) -> Result<Vec<Job>> {
    let mut query = db.prepare(&format!("SELECT {JOB} WHERE state = 'running' ORDER BY job.id"))?;
    let rows = query.query_map([], job)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Job to be launched.
pub(crate) struct Launch<'a> {
    pub(crate) owner: i64,
    pub(crate) kind: JobKind,
    pub(crate) name: &'a str,
    pub(crate) shared: bool,
    pub(crate) seeds: Option<u32>,
    pub(crate) duration: Option<&'a str>,
    pub(crate) priority: i64,
    /// Key by which a repeated request finds the job of the first one.
    pub(crate) request_key: Option<&'a str>,
    /// Job that it repeats.
    pub(crate) repeats: Option<i64>,
    /// Length in real time in milliseconds, if it is known. Its first event has it.
    pub(crate) real_ms: Option<i64>,
}

/// Adds a job and returns its number.
///
/// An earlier launch with the same request key is returned instead.
pub(crate) fn launch(db: &Transaction<'_>, launch: &Launch<'_>) -> Result<i64> {
    let Launch { owner, kind, name, shared, seeds, duration, priority, request_key, repeats, real_ms } =
        launch;
    let KindRow { kind, version, study, search, sites, quick } = kind.clone().into();
    let earlier = db.query_row(
        "SELECT id FROM job WHERE owner = ?1 AND request_key = ?2",
        params![owner, request_key],
        |row| row.get(0),
    );
    if let Some(id) = earlier.optional()? {
        return Ok(id);
    }
    db.execute(
        "INSERT INTO job(owner, version, name, shared, seeds, duration, priority, request_key, created, kind, study, quick,
           search, sites, repeats)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        params![owner, version, name, shared, seeds, duration, priority, request_key, now_ms(), kind, study, quick, search,
            sites, repeats],
    )?;
    let id = db.last_insert_rowid();
    let content = match real_ms {
        Some(real_ms) => json!({ "state": JobState::Queued, "real_ms": real_ms }),
        None => json!({ "state": JobState::Queued }),
    };
    add_event(db, id, "state", &content)?;
    Ok(id)
}

/// Job that ran elsewhere.
pub(crate) struct Imported<'a> {
    /// Settings.
    pub(crate) launch: Launch<'a>,
    pub(crate) origin: &'a Origin,
    pub(crate) end: End,
    pub(crate) message: &'a str,
    pub(crate) note: &'a str,
    pub(crate) tags: &'a [String],
    /// Number of runs, and of those that are finished.
    pub(crate) runs: (i64, i64),
    /// Start and end in milliseconds since 1970, UTC.
    pub(crate) time: (Option<i64>, Option<i64>),
}

/// Adds a job that ran elsewhere and returns its number.
pub(crate) fn import(db: &Transaction<'_>, imported: &Imported<'_>) -> Result<i64> {
    let Imported { launch, origin, end, message, note, tags, runs, time } = imported;
    let KindRow { kind, version, study, search, sites, quick } = launch.kind.clone().into();
    let (now, state) = (now_ms(), JobState::Over(*end));
    let share = if *end == End::Done { 1.0 } else { 0.0 };
    db.execute(
        "INSERT INTO job(owner, version, name, seeds, duration, kind, study, quick, search, sites, created, started, ended, state,
           message, note, runs, finished, share, origin)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
        params![launch.owner, version, launch.name, launch.seeds, launch.duration, kind, study, quick, search, sites, now,
            time.0, time.1.unwrap_or(now), state, message, note, runs.0, runs.1, share, json!(origin).to_string()],
    )?;
    let id = db.last_insert_rowid();
    set_tags(db, id, tags)?;
    add_event(db, id, "state", &json!({ "state": state, "imported": true }))?;
    Ok(id)
}

/// Returns the size of a user's imported jobs in bytes. Each file has a row.
pub(crate) fn imported_bytes(db: &Transaction<'_>, owner: i64) -> Result<i64> {
    let query = "SELECT coalesce(sum(bytes + ?2), 0) FROM artifact JOIN job ON job.id = artifact.job
        WHERE job.owner = ?1 AND job.origin IS NOT NULL";
    Ok(db.query_row(query, [owner, usage::ROW], |row| row.get(0))?)
}

/// Notes the sites that a job needs.
pub(crate) fn need_sites(db: &Transaction<'_>, id: i64, sites: &[i64]) -> Result<()> {
    for site in sites {
        db.execute("INSERT OR IGNORE INTO job_site(job, site) VALUES (?1, ?2)", [id, *site])?;
    }
    Ok(())
}

/// Compares the fingerprints of a job with those of the job that it repeats.
///
/// Returns whether they are equal, if both have some. Those of emulations are of packets in real time, which no second run repeats.
pub(crate) fn compare(db: &Transaction<'_>, job: &Job) -> Result<Option<bool>> {
    let Some(other) = job.repeats.filter(|_| !job.is_emulation()) else { return Ok(None) };
    let (own, other) = (points(db, job.id)?, points(db, other)?);
    let has_some =
        |all: &[(Value, String)]| all.iter().any(|(_, fingerprints)| !fingerprints.trim().is_empty());
    let equal = (has_some(&own) && has_some(&other)).then(|| own == other);
    db.execute("UPDATE job SET equal = ?2 WHERE id = ?1", params![job.id, equal])?;
    Ok(equal)
}

/// Returns number and size in bytes of a user's jobs that are over.
pub(crate) fn kept_of(db: &Transaction<'_>, owner: i64) -> Result<(i64, i64)> {
    let query = "SELECT count(DISTINCT job.id), coalesce(sum(bytes), 0) FROM job LEFT JOIN artifact ON artifact.job = job.id
        WHERE owner = ?1 AND state NOT IN ('queued', 'running')";
    Ok(db.query_row(query, [owner], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Returns the size of a job's results in bytes.
pub(crate) fn size(db: &Transaction<'_>, id: i64) -> Result<i64> {
    let query = "SELECT coalesce(sum(bytes), 0) FROM artifact WHERE job = ?1";
    Ok(db.query_row(query, [id], |row| row.get(0))?)
}

/// Removes a job, whose tasks are removed, and all that refers to it. Its number is never used again.
pub(crate) fn remove(db: &Transaction<'_>, id: i64) -> Result<()> {
    for table in ["job_event", "point", "measure", "artifact", "tag", "job_file", "job_site"] {
        db.execute(&format!("DELETE FROM {table} WHERE job = ?1"), [id])?;
    }
    db.execute("UPDATE job SET repeats = NULL, equal = NULL WHERE repeats = ?1", [id])?;
    db.execute("DELETE FROM job WHERE id = ?1", [id])?;
    Ok(())
}

/// Returns `true` if there is a job of this number.
pub(crate) fn is_known(db: &Transaction<'_>, id: i64) -> Result<bool> {
    Ok(db.query_row("SELECT EXISTS (SELECT 1 FROM job WHERE id = ?1)", [id], |row| row.get(0))?)
}

/// Returns the number of a user's jobs that are not over.
pub(crate) fn unfinished_of(db: &Transaction<'_>, owner: i64) -> Result<i64> {
    let query = "SELECT count(*) FROM job WHERE owner = ?1 AND state IN ('queued', 'running')";
    Ok(db.query_row(query, [owner], |row| row.get(0))?)
}

/// Returns the numbers of all jobs that are queued or running.
pub(crate) fn unfinished(db: &Transaction<'_>) -> Result<Vec<i64>> {
    let mut query = db.prepare("SELECT id FROM job WHERE state IN ('queued', 'running') ORDER BY id")?;
    let rows = query.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Adds an event.
pub(crate) fn add_event(db: &Transaction<'_>, job: i64, kind: &str, content: &Value) -> Result<()> {
    db.execute(
        "INSERT INTO job_event(job, at, kind, json) VALUES (?1, ?2, ?3, ?4)",
        params![job, now_ms(), kind, content.to_string()],
    )?;
    Ok(())
}

/// Adds an event of which a job may have many. It counts for the owner of the job.
fn add_counted(db: &Transaction<'_>, job: i64, kind: &str, content: &Value) -> Result<()> {
    add_event(db, job, kind, content)?;
    let bytes = content.to_string().len() + rows::OF_CHANGE;
    db.execute("UPDATE job SET rows = rows + ?2 WHERE id = ?1", params![job, bytes as i64])?;
    Ok(())
}

/// Adds the event of a change by a user while the job ran.
pub(crate) fn add_change(db: &Transaction<'_>, job: i64, content: &Value) -> Result<()> {
    add_counted(db, job, "set", content)
}

/// Adds the event of a finished run.
pub(crate) fn add_run(db: &Transaction<'_>, job: i64, content: &Value) -> Result<()> {
    add_counted(db, job, "run", content)
}

/// Adds the event of a job's progress. It replaces the last event, if that was one of progress too: a job has days of them.
pub(crate) fn add_progress(db: &Transaction<'_>, job: i64, content: &Value) -> Result<()> {
    let last = "DELETE FROM job_event WHERE id = (SELECT max(id) FROM job_event WHERE job = ?1) AND kind = 'progress'";
    db.execute(last, [job])?;
    add_event(db, job, "progress", content)
}

/// Returns the events of a job after number `after`.
pub(crate) fn events(db: &Transaction<'_>, job: i64, after: i64, limit: u32) -> Result<Vec<Event>> {
    let mut query = db.prepare(
        "SELECT id, at, kind, json FROM job_event WHERE job = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
    )?;
    let rows = query.query_map(params![job, after, limit], |row| {
        let json: String = row.get(3)?;
        let content = serde_json::from_str(&json).unwrap_or_default();
        Ok(Event { id: row.get(0)?, at: row.get(1)?, kind: row.get(2)?, content })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Sets the state of a job, with its event. The database refuses illegal changes.
pub(crate) fn set_state(db: &Transaction<'_>, id: i64, state: JobState, message: &str) -> Result<()> {
    db.execute(
        "UPDATE job SET state = ?2, message = ?3, ended = CASE WHEN ?4 THEN ?5 END WHERE id = ?1",
        params![id, state, message, state.is_over(), now_ms()],
    )?;
    let content = match message {
        "" => json!({ "state": state }),
        _ => json!({ "state": state, "message": message }),
    };
    add_event(db, id, "state", &content)
}

/// Requests the end of a job. A queued job ends at once. Returns `false` if it was over.
pub(crate) fn cancel(db: &Transaction<'_>, id: i64) -> Result<bool> {
    let state = db.query_row("SELECT state FROM job WHERE id = ?1", [id], |row| row.get(0))?;
    match state {
        JobState::Queued => set_state(db, id, JobState::CANCELLED, "")?,
        JobState::Running => {
            db.execute("UPDATE job SET cancel = 1 WHERE id = ?1", [id])?;
        }
        JobState::Over(_) => return Ok(false),
    }
    Ok(true)
}

/// Returns the number of times that a job was started.
pub(crate) fn attempt(db: &Transaction<'_>, id: i64) -> Result<i64> {
    Ok(db.query_row("SELECT attempt FROM job WHERE id = ?1", [id], |row| row.get(0))?)
}

/// Returns the start of a job's attempt in milliseconds since 1970, UTC.
pub(crate) fn attempt_started(db: &Transaction<'_>, id: i64) -> Result<Option<i64>> {
    let query = format!("SELECT {ATTEMPT_STARTED} FROM job WHERE id = ?1");
    Ok(db.query_row(&query, [id], |row| row.get(0))?)
}

/// Returns how much of a job's progress file is in the database, in bytes.
pub(crate) fn offset(db: &Transaction<'_>, id: i64) -> Result<u64> {
    Ok(db.query_row("SELECT offset FROM job WHERE id = ?1", [id], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// Sets the progress of a job, and the length read of its file.
pub(crate) fn set_progress(db: &Transaction<'_>, job: &Job, offset: u64) -> Result<()> {
    db.execute(
        "UPDATE job SET offset = ?2, runs = ?3, finished = ?4, share = ?5 WHERE id = ?1",
        params![job.id, offset as i64, job.runs, job.finished, job.share],
    )?;
    Ok(())
}

/// Sets the folder of a job's results, relative to the job's own.
pub(crate) fn set_folder(db: &Transaction<'_>, id: i64, folder: &str) -> Result<()> {
    db.execute("UPDATE job SET folder = ?2 WHERE id = ?1", params![id, folder])?;
    Ok(())
}

/// Returns the folder of a job's results, relative to the job's own.
pub(crate) fn folder(db: &Transaction<'_>, id: i64) -> Result<Option<String>> {
    Ok(db.query_row("SELECT folder FROM job WHERE id = ?1", [id], |row| row.get(0))?)
}

/// Number of the row that counts the files which no list has.
const UNLISTED: i64 = -1;

/// Replaces the artifacts of a job. `unlisted` is the size of its other files, which count in quotas.
pub(crate) fn set_artifacts(
    db: &Transaction<'_>,
    id: i64,
    files: &[(String, u64)],
    unlisted: u64,
) -> Result<()> {
    db.execute("DELETE FROM artifact WHERE job = ?1", [id])?;
    let mut add = db.prepare("INSERT INTO artifact(job, number, path, bytes) VALUES (?1, ?2, ?3, ?4)")?;
    for (number, (path, bytes)) in files.iter().enumerate() {
        add.execute(params![id, number as i64, path, *bytes as i64])?;
    }
    if unlisted > 0 {
        add.execute(params![id, UNLISTED, "", unlisted as i64])?;
    }
    Ok(())
}

/// Returns the artifacts of a job.
pub(crate) fn artifacts(db: &Transaction<'_>, id: i64) -> Result<Vec<Artifact>> {
    let mut query = db
        .prepare("SELECT number, path, bytes FROM artifact WHERE job = ?1 AND number > ?2 ORDER BY number")?;
    let rows = query.query_map([id, UNLISTED], |row| {
        Ok(Artifact { number: row.get(0)?, path: row.get(1)?, bytes: row.get(2)? })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the version of the definitions of a job's measures.
pub(crate) fn definitions(db: &Transaction<'_>, id: i64) -> Result<u32> {
    Ok(db.query_row("SELECT definitions FROM job WHERE id = ?1", [id], |row| row.get(0))?)
}

/// Returns the measures of a job whose names contain `text`.
pub(crate) fn measures(db: &Transaction<'_>, id: i64, text: &str) -> Result<Vec<JobMeasure>> {
    let mut query = db.prepare(
        "SELECT point, name, unit, n, mean, half FROM measure WHERE job = ?1 AND instr(name, ?2) > 0
         ORDER BY point, name LIMIT 20000",
    )?;
    let rows = query.query_map(params![id, text], |row| {
        Ok(JobMeasure {
            point: row.get(0)?,
            name: row.get(1)?,
            unit: row.get(2)?,
            n: row.get(3)?,
            mean: row.get(4)?,
            half: row.get(5)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the settings and fingerprints of a job's points.
pub(crate) fn points(db: &Transaction<'_>, id: i64) -> Result<Vec<(Value, String)>> {
    let mut query = db.prepare("SELECT settings, fingerprints FROM point WHERE job = ?1 ORDER BY number")?;
    let rows = query.query_map([id], |row| {
        let settings: String = row.get(0)?;
        Ok((serde_json::from_str(&settings).unwrap_or_default(), row.get(1)?))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Sets the note of a job.
pub(crate) fn set_note(db: &Transaction<'_>, id: i64, note: &str) -> Result<()> {
    db.execute("UPDATE job SET note = ?2 WHERE id = ?1", params![id, note])?;
    Ok(())
}

/// Replaces the tags of a job.
pub(crate) fn set_tags(db: &Transaction<'_>, id: i64, tags: &[String]) -> Result<()> {
    db.execute("DELETE FROM tag WHERE job = ?1", [id])?;
    for tag in tags {
        db.execute("INSERT OR IGNORE INTO tag(job, name) VALUES (?1, ?2)", params![id, tag])?;
    }
    Ok(())
}

/// Returns the scenario of a job; an empty text for a study.
pub(crate) fn text(db: &Transaction<'_>, job: &Job) -> Result<String> {
    job.kind.version().map_or(Ok(String::new()), |version| super::scenarios::text(db, version))
}
