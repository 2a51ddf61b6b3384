//! Sites, their invitations, tasks and commands.

use bentpipe_agent::manifest::{self, Entry};
use bentpipe_agent::protocol::{
    Act, Clock, Command, CommandResult, Doctor, GivenFile, MAX_BATCH, Outcome, Poll, Program, TaskReport,
    TaskState,
};
use rusqlite::{OptionalExtension, Row, Transaction, params};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::Result;
use super::files::Content;
use super::jobs::add_event;
use crate::clock::now_ms;

/// Highest number of a site that commands of all sites go on after.
///
/// Sites may lie, and a controller that was taken over may have sent any number.
const MAX_NUMBER: u64 = 1 << 50;

/// Most characters of a site's reasons that are kept.
const MAX_WORDS: usize = 2000;

/// Machine that dials in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Site {
    /// Number.
    pub(crate) id: i64,
    /// Name.
    pub(crate) name: String,
    /// Set while it is connected.
    pub(crate) connected: bool,
    /// Last message in milliseconds since 1970, UTC.
    pub(crate) seen: Option<i64>,
    /// Time of the enrolment in milliseconds since 1970, UTC.
    pub(crate) created: i64,
    /// Version of bentpipe there.
    pub(crate) program: String,
    /// Programs that it permits.
    pub(crate) programs: Vec<String>,
    /// Problems of the machine that would make tasks fail.
    pub(crate) problems: Vec<String>,
    /// Free bytes for results.
    pub(crate) free_bytes: u64,
    /// Number of processors; 0 if it is not known.
    pub(crate) processors: u32,
    /// Difference of its clock from the server's in microseconds, as measured.
    pub(crate) offset_us: Option<f64>,
    /// Bound of that measurement's error in microseconds.
    pub(crate) error_us: Option<f64>,
    /// Source that disciplines its clock: "chrony", or empty.
    pub(crate) source: String,
    /// Error bound that the source states, in microseconds.
    pub(crate) source_error_us: Option<f64>,
}

const SITE: &str = "id, name, seen, created, program, doctor, clock";

fn site(row: &Row<'_>) -> rusqlite::Result<Site> {
    let json = |at| -> rusqlite::Result<String> { row.get(at) };
    let doctor: Doctor = serde_json::from_str(&json(5)?).unwrap_or_default();
    let clock: Clock = serde_json::from_str(&json(6)?).unwrap_or_default();
    Ok(Site {
        id: row.get(0)?,
        name: row.get(1)?,
        connected: false,
        seen: row.get(2)?,
        created: row.get(3)?,
        program: row.get(4)?,
        programs: doctor.programs,
        problems: doctor.problems,
        free_bytes: doctor.free_bytes,
        processors: doctor.processors,
        offset_us: clock.offset_us,
        error_us: clock.error_us,
        source: clock.source,
        source_error_us: clock.source_error_us,
    })
}

/// Returns the sites that were not revoked, by name.
pub(crate) fn list(db: &Transaction<'_>) -> Result<Vec<Site>> {
    let mut query = db.prepare(&format!("SELECT {SITE} FROM site WHERE revoked IS NULL ORDER BY name"))?;
    let rows = query.query_map([], site)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns a site that was not revoked.
pub(crate) fn find(db: &Transaction<'_>, id: i64) -> Result<Option<Site>> {
    let query = format!("SELECT {SITE} FROM site WHERE id = ?1 AND revoked IS NULL");
    Ok(db.query_row(&query, [id], site).optional()?)
}

/// Returns number and key of a site that was not revoked.
pub(crate) fn key(db: &Transaction<'_>, name: &str) -> Result<Option<(i64, Vec<u8>)>> {
    let query = "SELECT id, key FROM site WHERE name = ?1 AND revoked IS NULL";
    Ok(db.query_row(query, [name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

fn digest(secret: &str) -> Vec<u8> {
    Sha256::digest(secret).to_vec()
}

/// Keeps an invitation for a name; an earlier one for it is void.
pub(crate) fn invite(
    db: &Transaction<'_>,
    author: i64,
    (name, secret): (&str, &str),
    expires: i64,
) -> Result<()> {
    db.execute("DELETE FROM site_invitation WHERE expires < ?1 OR name = ?2", params![now_ms(), name])?;
    db.execute(
        "INSERT INTO site_invitation(hash, name, author, expires) VALUES (?1, ?2, ?3, ?4)",
        params![digest(secret), name, author, expires],
    )?;
    Ok(())
}

/// Adds the site of an invitation, which is void then. Returns its name if the invitation is valid.
pub(crate) fn enrol(db: &Transaction<'_>, secret: &str, key: &[u8]) -> Result<Option<String>> {
    let query = "DELETE FROM site_invitation WHERE hash = ?1 RETURNING name, expires";
    let found: Option<(String, i64)> =
        db.query_row(query, [digest(secret)], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((name, _)) = found.filter(|(_, expires)| *expires > now_ms()) else { return Ok(None) };
    let added = db.execute(
        "INSERT INTO site(name, key, created) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![name, key, now_ms()],
    )?;
    Ok((added == 1).then_some(name))
}

/// Revokes a site, whose tasks fail. Returns their jobs.
pub(crate) fn revoke(db: &Transaction<'_>, id: i64) -> Result<Vec<i64>> {
    db.execute("UPDATE site SET revoked = ?2 WHERE id = ?1", params![id, now_ms()])?;
    let open = tasks_where(db, "site = ?1 AND state NOT IN ('home', 'failed')", id)?;
    for task in &open {
        fail(db, task, "the site was revoked")?;
    }
    Ok(open.iter().map(|task| task.job).collect())
}

/// Notes a login. Numbers of commands go on after the last one of the site.
///
/// A database that was restored from a backup has numbers which the site has seen before. It returns the number after which a site goes on
/// whose own is beyond those of any controller.
pub(crate) fn log_in(db: &Transaction<'_>, id: i64, program: &str, last: u64) -> Result<Option<u64>> {
    db.execute("UPDATE site SET seen = ?2, program = ?3 WHERE id = ?1", params![id, now_ms(), program])?;
    if last >= MAX_NUMBER {
        let known = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'site_command'";
        let known = db.query_row(known, [], |row| row.get::<_, i64>(0))? as u64;
        return Ok((last > known).then_some(known));
    }
    let last = last as i64;
    let known = "UPDATE sqlite_sequence SET seq = max(seq, ?1) WHERE name = 'site_command'";
    if db.execute(known, [last])? == 0 {
        db.execute("INSERT INTO sqlite_sequence(name, seq) VALUES ('site_command', ?1)", [last])?;
    }
    Ok(None)
}

/// Notes the state of a site's machine and clock.
pub(crate) fn look(db: &Transaction<'_>, id: i64, poll: &Poll) -> Result<()> {
    use stored::Json;
    db.execute(
        "UPDATE site SET seen = ?2, clock = ?3, doctor = coalesce(?4, doctor) WHERE id = ?1",
        params![id, now_ms(), poll.clock.json(), poll.doctor.as_ref().map(Json::json)],
    )?;
    Ok(())
}

/// Values that are stored as JSON.
mod stored {
    pub(super) trait Json {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap_or_default()
        }
    }
}

/// Task of a job at a site.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// Number.
    pub(crate) id: i64,
    /// Job.
    pub(crate) job: i64,
    /// Site.
    pub(crate) site: i64,
    /// Name of the site.
    pub(crate) site_name: String,
    /// Name in the job file.
    pub(crate) name: String,
    /// Program, without its scenario.
    pub(crate) program: Option<Program>,
    /// Start after the common one in microseconds.
    pub(crate) start_us: i64,
    /// Longest time in seconds.
    pub(crate) most_s: u32,
    /// State.
    pub(crate) state: String,
    /// Reason of its end.
    pub(crate) why: String,
    /// Creation in milliseconds since 1970, UTC.
    pub(crate) created: i64,
    /// Ordered start in microseconds since 1970, by the server's clock.
    pub(crate) at_us: Option<i64>,
    /// Start in microseconds since 1970, by the site's clock.
    pub(crate) started_us: Option<i64>,
    /// End in microseconds since 1970, by the site's clock.
    pub(crate) ended_us: Option<i64>,
    /// Exit code.
    pub(crate) code: Option<i32>,
    /// Site's clock minus the server's at the start, in microseconds.
    pub(crate) offset_us: Option<f64>,
    /// Bound of its error.
    pub(crate) error_us: Option<f64>,
    /// Files that it left.
    pub(crate) files: Option<Vec<Entry>>,
}

impl Task {
    /// Returns `true` if nothing more happens with it.
    pub(crate) fn is_over(&self) -> bool {
        matches!(&self.state[..], "home" | "failed")
    }

    /// Returns `true` if it runs until it is stopped.
    pub(crate) fn is_service(&self) -> bool {
        self.program.as_ref().is_some_and(Program::is_service)
    }
}

const TASK: &str =
    "site_task.id, job, site, site.name, site_task.name, site_task.program, start_us, most_s, state, why,
    site_task.created, at_us, started_us, ended_us, code, offset_us, error_us, files
    FROM site_task JOIN site ON site.id = site_task.site";

fn task(row: &Row<'_>) -> rusqlite::Result<Task> {
    Ok(Task {
        id: row.get(0)?,
        job: row.get(1)?,
        site: row.get(2)?,
        site_name: row.get(3)?,
        name: row.get(4)?,
        program: serde_json::from_str(&row.get::<_, String>(5)?).ok(),
        start_us: row.get(6)?,
        most_s: row.get(7)?,
        state: row.get(8)?,
        why: row.get(9)?,
        created: row.get(10)?,
        at_us: row.get(11)?,
        started_us: row.get(12)?,
        ended_us: row.get(13)?,
        code: row.get(14)?,
        offset_us: row.get(15)?,
        error_us: row.get(16)?,
        files: row.get::<_, Option<String>>(17)?.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

fn tasks_where(db: &Transaction<'_>, condition: &str, value: i64) -> Result<Vec<Task>> {
    let mut query = db.prepare(&format!("SELECT {TASK} WHERE {condition} ORDER BY site_task.id"))?;
    let rows = query.query_map([value], task)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Returns the tasks of a job's latest attempt.
pub(crate) fn tasks(db: &Transaction<'_>, job: i64) -> Result<Vec<Task>> {
    tasks_where(db, "job = ?1 AND attempt = (SELECT attempt FROM job WHERE job.id = ?1)", job)
}

/// Returns a site with open commands for a job's tasks, unless it was revoked.
pub(crate) fn owing(db: &Transaction<'_>, job: i64) -> Result<Option<String>> {
    let query = "SELECT site.name FROM site_command JOIN site_task ON site_task.id = site_command.task
        JOIN site ON site.id = site_command.site
        WHERE site_task.job = ?1 AND answered IS NULL AND revoked IS NULL LIMIT 1";
    Ok(db.query_row(query, [job], |row| row.get(0)).optional()?)
}

/// Removes the tasks of a job.
pub(crate) fn remove_tasks(db: &Transaction<'_>, job: i64) -> Result<()> {
    for table in ["site_command", "site_chunk"] {
        let query = format!("DELETE FROM {table} WHERE task IN (SELECT id FROM site_task WHERE job = ?1)");
        db.execute(&query, [job])?;
    }
    db.execute("DELETE FROM site_task WHERE job = ?1", [job])?;
    Ok(())
}

/// Adds a task with the command that prepares it. `scenario` and `key` are for an emulation.
pub(crate) fn add_task(
    db: &Transaction<'_>,
    (job, attempt, site): (i64, i64, i64),
    planned: &bentpipe_agent::job::SiteTask,
    (scenario, key, files): (&str, &str, &[Content]),
) -> Result<()> {
    use stored::Json;
    let mut program = planned.program.clone();
    if let Program::Emulate { files: given, .. } = &mut program {
        let file = |one: &Content| GivenFile {
            name: one.name.clone(),
            bytes: one.size.unsigned_abs(),
            sha256: one.sha256.clone(),
        };
        *given = files.iter().map(file).collect();
    }
    db.execute(
        "INSERT INTO site_task(job, site, name, attempt, program, start_us, most_s, created)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![job, site, planned.name, attempt, program.json(), planned.start_us, planned.most_s, now_ms()],
    )?;
    let task = db.last_insert_rowid();
    if let Program::Emulate { scenario: text, join, .. } = &mut program {
        scenario.clone_into(text);
        if let Some(join) = join {
            key.clone_into(&mut join.key);
        }
    }
    command(db, site, &Act::Prepare { task: task as u64, program, most_s: planned.most_s }).map(drop)
}

/// Adds a command to those of a site, and returns its number.
pub(crate) fn command(db: &Transaction<'_>, site: i64, act: &Act) -> Result<i64> {
    use stored::Json;
    db.execute(
        "INSERT INTO site_command(site, task, json) VALUES (?1, ?2, ?3)",
        params![site, act.task() as i64, act.json()],
    )?;
    Ok(db.last_insert_rowid())
}

/// Returns the outcome of a command, if its site has answered and it was kept.
pub(crate) fn outcome(db: &Transaction<'_>, command: i64) -> Result<Option<Outcome>> {
    let query = "SELECT outcome FROM site_command WHERE id = ?1";
    let text: Option<String> = db.query_row(query, [command], |row| row.get(0)).optional()?.flatten();
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Withdraws a command that its site has not answered.
pub(crate) fn withdraw(db: &Transaction<'_>, command: i64) -> Result<()> {
    let change = "UPDATE site_command SET answered = ?2 WHERE id = ?1 AND answered IS NULL";
    db.execute(change, params![command, now_ms()])?;
    Ok(())
}

/// Returns the commands that a site has not answered, unless it was revoked.
pub(crate) fn commands(db: &Transaction<'_>, site: i64) -> Result<Option<Vec<Command>>> {
    if find(db, site)?.is_none() {
        return Ok(None);
    }
    let mut query = db.prepare(
        "SELECT id, json FROM site_command WHERE site = ?1 AND answered IS NULL ORDER BY id LIMIT ?2",
    )?;
    let rows = query.query_map(params![site, MAX_BATCH as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rows: Vec<(i64, String)> = rows.collect::<rusqlite::Result<_>>()?;
    let read = |(id, json): (i64, String)| {
        serde_json::from_str(&json).ok().map(|act| Command { id: id.unsigned_abs(), act })
    };
    // Scenarios are long: a message holds some.
    let (mut all, mut bytes) = (Vec::new(), 0);
    for row in rows {
        bytes += row.1.len();
        if bytes > bentpipe_agent::protocol::MAX_MESSAGE / 2 && !all.is_empty() {
            break;
        }
        all.extend(read(row));
    }
    Ok(Some(all))
}

/// Returns the actions for a task that its site has not answered.
pub(crate) fn open_acts(db: &Transaction<'_>, task: i64) -> Result<Vec<Act>> {
    let mut query =
        db.prepare("SELECT json FROM site_command WHERE task = ?1 AND answered IS NULL ORDER BY id")?;
    let rows = query.query_map([task], |row| row.get::<_, String>(0))?;
    let rows: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(rows.iter().filter_map(|json| serde_json::from_str(json).ok()).collect())
}

/// Returns the task of a site.
pub(crate) fn task_of(db: &Transaction<'_>, site: i64, id: u64) -> Result<Option<Task>> {
    let Ok(id) = i64::try_from(id) else { return Ok(None) };
    let found = tasks_where(db, "site_task.id = ?1", id)?;
    Ok(found.into_iter().find(|task| task.site == site))
}

/// Sets the state of a task, with an event of its job.
pub(crate) fn set_state(db: &Transaction<'_>, task: &Task, state: &str, why: &str) -> Result<()> {
    db.execute("UPDATE site_task SET state = ?2, why = ?3 WHERE id = ?1", params![task.id, state, why])?;
    let content =
        serde_json::json!({ "task": task.name, "site": task.site_name, "state": state, "message": why });
    add_event(db, task.job, "site", &content)
}

/// Ends a task that cannot go on. What the site was asked for is withdrawn, and the task stopped and removed.
pub(crate) fn fail(db: &Transaction<'_>, task: &Task, why: &str) -> Result<()> {
    set_state(db, task, "failed", why)?;
    db.execute(
        "UPDATE site_command SET answered = ?2 WHERE task = ?1 AND answered IS NULL",
        params![task.id, now_ms()],
    )?;
    let number = task.id.unsigned_abs();
    command(db, task.site, &Act::Stop { task: number })?;
    command(db, task.site, &Act::Drop { task: number }).map(drop)
}

/// Orders the start of a task.
pub(crate) fn start(db: &Transaction<'_>, task: &Task, at_us: i64, clock: &Clock) -> Result<()> {
    db.execute(
        "UPDATE site_task SET at_us = ?2, offset_us = ?3, error_us = ?4 WHERE id = ?1",
        params![task.id, at_us, clock.offset_us, clock.error_us],
    )?;
    set_state(db, task, "starting", "")?;
    command(db, task.site, &Act::Start { task: task.id.unsigned_abs(), at_us }).map(drop)
}

/// Applies what a site reports. Returns the jobs that changed.
pub(crate) fn apply(db: &Transaction<'_>, site: i64, poll: &Poll) -> Result<Vec<i64>> {
    let mut changed = Vec::new();
    for result in &poll.results {
        changed.extend(answer(db, site, result)?);
    }
    for report in &poll.tasks {
        changed.extend(take_report(db, site, report)?);
    }
    for task in tasks_where(db, "site = ?1 AND state IN ('prepared', 'starting', 'running')", site)? {
        if !poll.tasks.iter().any(|report| report.task == task.id.unsigned_abs()) {
            fail(db, &task, "the site has lost it")?;
            changed.push(task.job);
        }
    }
    changed.sort_unstable();
    changed.dedup();
    Ok(changed)
}

/// Applies the result of a command, once. Returns the job if it changed.
fn answer(db: &Transaction<'_>, site: i64, result: &CommandResult) -> Result<Option<i64>> {
    let query = "UPDATE site_command SET answered = ?3 WHERE id = ?1 AND site = ?2 AND answered IS NULL RETURNING json";
    let Ok(id) = i64::try_from(result.id) else { return Ok(None) };
    let found: Option<String> =
        db.query_row(query, params![id, site, now_ms()], |row| row.get(0)).optional()?;
    let Some(act) = found.and_then(|json| serde_json::from_str::<Act>(&json).ok()) else { return Ok(None) };
    if let Act::Set { .. } = act {
        // A refused change ends no task; who asked for it waits for the outcome.
        use stored::Json;
        let outcome = match &result.outcome {
            Outcome::Refused { why } => Outcome::Refused { why: why.chars().take(MAX_WORDS).collect() },
            outcome => outcome.clone(),
        };
        if matches!(outcome, Outcome::Refused { .. } | Outcome::Set { .. }) {
            db.execute("UPDATE site_command SET outcome = ?2 WHERE id = ?1", params![id, outcome.json()])?;
        }
        return Ok(None);
    }
    let Some(task) = task_of(db, site, act.task())?.filter(|task| !task.is_over()) else { return Ok(None) };
    match (&act, &result.outcome) {
        (Act::Stop { .. } | Act::Drop { .. }, _) => return Ok(None),
        (Act::Prepare { .. }, Outcome::Done {}) if task.state == "preparing" => {
            set_state(db, &task, "prepared", "")?;
        }
        (Act::List { .. }, Outcome::Files { files }) => match manifest::check(files) {
            Ok(()) => {
                use stored::Json;
                db.execute("UPDATE site_task SET files = ?2 WHERE id = ?1", params![task.id, files.json()])?;
            }
            Err(why) => fail(db, &task, &format!("the site's list of files is refused: {why}"))?,
        },
        (Act::Prepare { .. } | Act::Start { .. } | Act::Fetch { .. }, Outcome::Done {}) => {}
        (_, Outcome::Refused { why }) => {
            let why: String = why.chars().take(MAX_WORDS).collect();
            fail(db, &task, &format!("the site refuses: {why}"))?;
        }
        _ => fail(db, &task, "the site answers something else")?,
    }
    Ok(Some(task.job))
}

/// Applies the state of a task. Returns the job if it changed.
fn take_report(db: &Transaction<'_>, site: i64, report: &TaskReport) -> Result<Option<i64>> {
    let Some(task) = task_of(db, site, report.task)? else { return Ok(None) };
    let is_open = matches!(&task.state[..], "starting" | "running" | "prepared");
    match &report.state {
        TaskState::Running { started_us } if task.state == "starting" => {
            db.execute("UPDATE site_task SET started_us = ?2 WHERE id = ?1", params![task.id, started_us])?;
            set_state(db, &task, "running", "")?;
        }
        TaskState::Ended { started_us, ended_us, code, why } if is_open => {
            db.execute(
                "UPDATE site_task SET started_us = ?2, ended_us = ?3, code = ?4 WHERE id = ?1",
                params![task.id, started_us, ended_us, code],
            )?;
            let why: String = why.chars().take(MAX_WORDS).collect();
            set_state(db, &task, "ended", &why)?;
            command(db, site, &Act::List { task: report.task })?;
        }
        _ => return Ok(None),
    }
    Ok(Some(task.job))
}

/// Returns the file that a site was asked for.
pub(crate) fn asked_for(
    db: &Transaction<'_>,
    site: i64,
    (id, file, chunk): (u64, u32, u32),
) -> Result<Option<(Task, Entry)>> {
    let Some(task) = task_of(db, site, id)?.filter(|task| task.state == "ended") else { return Ok(None) };
    let wanted = Act::Fetch { task: id, file, chunk };
    if !open_acts(db, task.id)?.contains(&wanted) {
        return Ok(None);
    }
    let entry = task.files.as_ref().and_then(|files| files.get(file as usize)).cloned();
    Ok(entry.map(|entry| (task, entry)))
}

/// Returns the hash of a file that a site may read.
///
/// That is one which the scenario of a task names, while the task is prepared.
pub(crate) fn given(db: &Transaction<'_>, site: i64, (id, file): (u64, u32)) -> Result<Option<String>> {
    let task = task_of(db, site, id)?.filter(|task| task.state == "preparing");
    let Some(Program::Emulate { files, .. }) = task.and_then(|task| task.program) else { return Ok(None) };
    Ok(files.get(file as usize).map(|file| file.sha256.clone()))
}

/// Notes a chunk that is on disk.
pub(crate) fn add_chunk(db: &Transaction<'_>, task: i64, file: u32, chunk: u32) -> Result<()> {
    let add = "INSERT OR IGNORE INTO site_chunk(task, file, chunk) VALUES (?1, ?2, ?3)";
    db.execute(add, params![task, file, chunk])?;
    Ok(())
}

/// Returns the first chunks of a task's files that are not on disk.
pub(crate) fn missing(db: &Transaction<'_>, task: &Task, most: usize) -> Result<Vec<(u32, u32)>> {
    let mut query = db.prepare("SELECT file, chunk FROM site_chunk WHERE task = ?1")?;
    let rows = query.query_map([task.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let have: std::collections::HashSet<(u32, u32)> = rows.collect::<rusqlite::Result<_>>()?;
    let files = task.files.iter().flatten().zip(0..);
    let all = files.flat_map(|(file, number)| (0..file.chunk_count()).map(move |chunk| (number, chunk)));
    Ok(all.filter(|one| !have.contains(one)).take(most).collect())
}
