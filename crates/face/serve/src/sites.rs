//! Steps of a job on sites: prepare, start together, bring the files home.
//!
//! All of it is in the database, so that a server that was killed goes on where it was.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use bentpipe_agent::digits::hex;
use bentpipe_agent::manifest::Entry;
use bentpipe_agent::program::RESULTS;
use bentpipe_agent::protocol::{Act, Program};
use rusqlite::Transaction;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::app::App;
use crate::clock::{now_ms, now_us, secret};
use crate::drafts;
use crate::store::files;
use crate::store::jobs::{self, End, Job, JobState};
use crate::store::sites::{self, Task};
use crate::store::{Result, StoreError};

/// Time that sites have to prepare, in milliseconds.
const PREPARE_MS: i64 = 30_000;
/// Rate at which a site receives files at least, in bytes a millisecond.
const SLOWEST_BYTES_MS: u64 = 100;
/// Time from the order to the common start, in microseconds. Every site must have the order by then.
const AHEAD_US: i64 = 2_000_000;
/// Absence of a site after the longest time of its task, in microseconds. One that is connected has it for its last answers.
const AWAY_US: i64 = 300_000_000;
/// Time that a connected site has to end a task of a cancelled job.
///
/// In milliseconds. The list of its files comes in that time too.
const STOP_MS: i64 = 60_000;
/// The same once the job was cancelled.
const AWAY_CANCELLED_US: i64 = 15_000_000;
/// Most chunks of a task that are asked for at a time.
const AT_ONCE: usize = 16;
/// Folder of the results, and of those of single tasks in it.
const FOLDER: &str = "run";
const TASKS: &str = "tasks";

/// Returns the file into which that of a task is received.
pub(crate) fn incoming(app: &App, task: &Task, file: u32) -> PathBuf {
    app.job_folder(task.job).join("incoming").join(task.id.to_string()).join(file.to_string())
}

/// Adds the tasks of a job that was claimed.
pub(crate) fn begin(app: &App, job: &Job) -> Result<()> {
    app.store.write(|db| {
        let text = jobs::text(db, job)?;
        let planned = match drafts::on_sites(job.sites_file().unwrap_or_default(), &text) {
            Ok(planned) => planned,
            Err(why) => return jobs::set_state(db, job.id, JobState::FAILED, &why),
        };
        let (known, key, files) = (sites::list(db)?, secret(), files::of_job(db, job.id)?);
        for task in &planned.tasks {
            let Some(site) = known.iter().find(|site| site.name == task.site) else {
                let why = format!("task {}: no site {}", task.name, task.site);
                return jobs::set_state(db, job.id, JobState::FAILED, &why);
            };
            sites::add_task(db, (job.id, job.attempt, site.id), task, (&text, &key, &files))?;
        }
        Ok(())
    })?;
    app.announce(job.id);
    app.sites.wake();
    Ok(())
}

/// Advances a job. Returns its end once it is over: state and message.
pub(crate) fn step(app: &App, job: &Job) -> Result<Option<(End, String)>> {
    let tasks = app.store.read(|db| sites::tasks(db, job.id))?;
    if tasks.is_empty() {
        // The server was killed between the claim and the tasks.
        begin(app, job)?;
        return Ok(None);
    }
    if tasks.iter().all(Task::is_over) {
        return conclude(app, job, &tasks).map(Some);
    }
    let changed = app.store.write(|db| {
        let changed =
            give_up(app, db, job, &tasks)? || start(app, db, job, &tasks)? || stop(db, job, &tasks)?;
        Ok::<_, StoreError>(fetch(db, &tasks)? || changed)
    })?;
    let mut brought = false;
    let is_emulation = |task: &&Task| matches!(task.program, Some(Program::Emulate { .. }));
    let first = tasks.iter().find(is_emulation).map(|task| task.id);
    for task in &tasks {
        brought |= bring_home(app, task, first == Some(task.id))?;
    }
    if changed || brought {
        count(app, job)?;
        app.announce(job.id);
        app.sites.wake();
    }
    Ok(None)
}

/// Notes how many tasks are home.
fn count(app: &App, job: &Job) -> Result<()> {
    app.store.write(|db| {
        let tasks = sites::tasks(db, job.id)?;
        let (runs, finished) = (tasks.len(), tasks.iter().filter(|task| task.state == "home").count());
        let share = finished as f64 / runs.max(1) as f64;
        let content = json!({ "share": share, "finished": finished, "runs": runs });
        jobs::add_progress(db, job.id, &content)?;
        let job = Job { runs: runs as i64, finished: finished as i64, share, ..job.clone() };
        jobs::set_progress(db, &job, 0)
    })
}

/// Returns the time that a site has to prepare a task, in milliseconds.
///
/// It receives its files in that time.
fn prepare_ms(task: &Task) -> i64 {
    let bytes: u64 = match &task.program {
        Some(Program::Emulate { files, .. }) => files.iter().map(|file| file.bytes).sum(),
        _ => 0,
    };
    PREPARE_MS + (bytes / SLOWEST_BYTES_MS) as i64
}

/// Ends tasks that cannot be waited for. Returns `true` if there were any.
fn give_up(app: &App, db: &Transaction<'_>, job: &Job, tasks: &[Task]) -> Result<bool> {
    let has_failed = tasks.iter().any(|task| task.state == "failed");
    let mut changed = false;
    for task in tasks.iter().filter(|task| !task.is_over()) {
        let is_away = !app.sites.is_connected(task.site);
        let end_us = end_us(task);
        let is_slow = latest_us(task).is_some_and(|end| now_us() > end)
            || job.cancel && !before_start(task) && is_slow_to_stop(app, task);
        let before_start = before_start(task);
        let why = match () {
            () if before_start && job.cancel => "cancelled before its start".to_owned(),
            () if before_start && has_failed => "not started, as another task failed".to_owned(),
            () if task.state == "preparing" && now_ms() - task.created > prepare_ms(task) => match is_away {
                true => format!("site {} is not connected", task.site_name),
                false => format!("site {} does not answer", task.site_name),
            },
            () if is_away
                && job.cancel
                && now_us() > task.ended_us.unwrap_or(0).saturating_add(AWAY_CANCELLED_US) =>
            {
                format!("site {} is away", task.site_name)
            }
            () if is_away && end_us.is_some_and(|end| now_us() > end) => {
                format!("site {} did not come back", task.site_name)
            }
            () if is_slow && task.state == "ended" => {
                format!("site {} did not send its files in time", task.site_name)
            }
            () if is_slow => format!("site {} did not end it in time", task.site_name),
            () => continue,
        };
        sites::fail(db, task, &why)?;
        changed = true;
    }
    Ok(changed)
}

fn before_start(task: &Task) -> bool {
    matches!(&task.state[..], "preparing" | "prepared")
}

/// Returns the time until which a site may be away, in microseconds since 1970.
///
/// Its own word for the end of the task makes it shorter, and not longer.
fn end_us(task: &Task) -> Option<i64> {
    let most_us = task.at_us.map(|at| at + i64::from(task.most_s) * 1_000_000 + AWAY_US);
    let stated_us = task.ended_us.map(|ended| ended.saturating_add(AWAY_US));
    most_us.into_iter().chain(stated_us).min()
}

/// Returns the time until which a connected site is waited for.
///
/// In microseconds since 1970. A site that never ends a task, or sends a chunk now and then, would keep the job for good.
fn latest_us(task: &Task) -> Option<i64> {
    let most_us = task.at_us? + i64::from(task.most_s) * 1_000_000 + AWAY_US;
    Some(most_us.saturating_add(transfer_ms(task).saturating_mul(1000)))
}

/// Returns the time for the files of a task, in milliseconds.
fn transfer_ms(task: &Task) -> i64 {
    let bytes: u64 = task.files.iter().flatten().map(|entry| entry.bytes).fold(0, u64::saturating_add);
    i64::try_from(bytes / SLOWEST_BYTES_MS).unwrap_or(i64::MAX)
}

/// Returns `true` if a task of a cancelled job should be over.
fn is_slow_to_stop(app: &App, task: &Task) -> bool {
    let since = app.sites.stopping_since(task.id);
    now_ms().saturating_sub(since) > STOP_MS.saturating_add(transfer_ms(task))
}

/// Orders the common start once all are prepared. Returns `true` if something changed.
fn start(app: &App, db: &Transaction<'_>, job: &Job, tasks: &[Task]) -> Result<bool> {
    if job.cancel || !tasks.iter().all(|task| task.state == "prepared") {
        return Ok(false);
    }
    let text = jobs::text(db, job)?;
    let most_us =
        drafts::on_sites(job.sites_file().unwrap_or_default(), &text).map_or(0.0, |job| job.clock_error_us);
    let mut known = Vec::new();
    for task in tasks {
        known.push((app.sites.clock(task.site).unwrap_or_default(), &task.site_name));
    }
    let waited_ms = now_ms() - tasks.iter().map(|task| task.created).min().unwrap_or(0);
    for (task, (clock, site)) in tasks.iter().zip(&known) {
        let why = match clock.error_us {
            Some(error_us) if error_us <= most_us => continue,
            // A better exchange may come.
            _ if waited_ms < tasks.iter().map(prepare_ms).max().unwrap_or(PREPARE_MS) => return Ok(false),
            Some(error_us) => format!(
                "the clock of site {} is known to {:.1} ms only: the job wants {:.1} ms",
                site,
                error_us / 1e3,
                most_us / 1e3
            ),
            None => format!("the clock of site {site} is not known"),
        };
        sites::fail(db, task, &why)?;
        return Ok(true);
    }
    let at_us = now_us() + AHEAD_US;
    for (task, (clock, _)) in tasks.iter().zip(&known) {
        sites::start(db, task, at_us + task.start_us, clock)?;
    }
    Ok(true)
}

/// Stops tasks that have nothing more to do. Returns `true` if there were any.
fn stop(db: &Transaction<'_>, job: &Job, tasks: &[Task]) -> Result<bool> {
    let has_ended = |task: &Task| matches!(&task.state[..], "ended" | "home" | "failed");
    let is_done = tasks.iter().filter(|task| !task.is_service()).all(has_ended);
    let has_failed = tasks.iter().any(|task| task.state == "failed");
    let mut changed = false;
    for task in tasks.iter().filter(|task| matches!(&task.state[..], "starting" | "running")) {
        let is_wanted = job.cancel || has_failed || (task.is_service() && is_done);
        let act = Act::Stop { task: task.id.unsigned_abs() };
        if is_wanted && task.why != "stopping" {
            sites::set_state(db, task, &task.state, "stopping")?;
            sites::command(db, task.site, &act)?;
            changed = true;
        }
    }
    Ok(changed)
}

/// Asks for chunks that are missing. Returns `true` if there are any.
fn fetch(db: &Transaction<'_>, tasks: &[Task]) -> Result<bool> {
    let mut changed = false;
    for task in tasks.iter().filter(|task| task.state == "ended" && task.files.is_some()) {
        let open = sites::open_acts(db, task.id)?;
        if open.iter().any(|act| matches!(act, Act::Fetch { .. })) {
            continue;
        }
        for (file, chunk) in sites::missing(db, task, AT_ONCE)? {
            changed = true;
            sites::command(db, task.site, &Act::Fetch { task: task.id.unsigned_abs(), file, chunk })?;
        }
    }
    Ok(changed)
}

/// Moves the files of a task into the results once all are there. Returns `true` if the task is home, or failed.
fn bring_home(app: &App, task: &Task, is_first: bool) -> Result<bool> {
    let Some(files) = task.files.as_ref().filter(|_| task.state == "ended") else { return Ok(false) };
    if !app.store.read(|db| sites::missing(db, task, 1))?.is_empty() {
        return Ok(false);
    }
    let moved =
        files.iter().zip(0..).try_for_each(|(entry, number)| receive(app, (task, is_first), entry, number));
    app.store.write(|db| match moved {
        Ok(()) => {
            let exit = task.code.map_or(String::new(), |code| format!(" ({code})"));
            sites::set_state(db, task, "home", &task.why)?;
            let content =
                json!({ "label": format!("{} at {}: {}{exit}", task.name, task.site_name, task.why) });
            jobs::add_run(db, task.job, &content)?;
            // Only now may the site forget it.
            sites::command(db, task.site, &Act::Drop { task: task.id.unsigned_abs() }).map(drop)
        }
        Err(why) => sites::fail(db, task, &why),
    })?;
    Ok(true)
}

/// Verifies a whole file and moves it into the results. Repeated, it finds it there.
fn receive(
    app: &App,
    (task, is_first): (&Task, bool),
    entry: &Entry,
    number: u32,
) -> std::result::Result<(), String> {
    let (from, to) = (incoming(app, task, number), place(app, task, is_first, entry));
    let wrong = |error: std::io::Error| format!("file {:?}: {error}", entry.path);
    fs::create_dir_all(to.parent().unwrap_or(&to)).map_err(wrong)?;
    if entry.bytes == 0 {
        return File::create(&to).map(drop).map_err(wrong);
    }
    let is_whole = |path: &Path| {
        hash(path).is_ok_and(|(hash, bytes)| bytes == entry.bytes && hash == entry.sha256.to_lowercase())
    };
    if is_whole(&to) && !from.exists() {
        return Ok(());
    }
    match is_whole(&from) {
        true => fs::rename(&from, &to).map_err(wrong),
        false => Err(format!("file {:?}: its chunks do not make the whole that the site stated", entry.path)),
    }
}

fn hash(path: &Path) -> std::io::Result<(String, u64)> {
    let (mut file, mut whole, mut bytes) = (File::open(path)?, Sha256::new(), 0);
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block)? {
            0 => return Ok((hex(&whole.finalize()), bytes)),
            read => {
                whole.update(&block[..read]);
                bytes += read as u64;
            }
        }
    }
}

/// Returns the place of a file in the results.
///
/// Those of the first emulation are those of the job.
fn place(app: &App, task: &Task, is_first: bool, entry: &Entry) -> PathBuf {
    let results = app.job_folder(task.job).join("results").join(FOLDER);
    let of_run = entry.path.strip_prefix(RESULTS).and_then(|rest| rest.strip_prefix('/')?.split_once('/'));
    match of_run.filter(|(_, path)| is_first && !path.starts_with(TASKS)) {
        Some((_, path)) => results.join(path),
        None => results.join(TASKS).join(&task.name).join(&entry.path),
    }
}

/// Ends a job whose tasks are over.
fn conclude(app: &App, job: &Job, tasks: &[Task]) -> Result<(End, String)> {
    app.sites.forget_stopping(tasks.iter().map(|task| task.id));
    let results = app.job_folder(job.id).join("results").join(FOLDER);
    let all: Vec<_> = tasks
        .iter()
        .map(|task| {
            json!({
                "task": task.name, "site": task.site_name, "program": task.program, "state": task.state,
                "why": task.why, "code": task.code, "ordered_us": task.at_us, "started_us": task.started_us,
                "ended_us": task.ended_us, "clock_offset_us": task.offset_us, "clock_error_us": task.error_us,
            })
        })
        .collect();
    let text = serde_json::to_string_pretty(&json!({ "tasks": all })).unwrap_or_default() + "\n";
    fs::create_dir_all(&results)?;
    fs::write(results.join("sites.json"), text)?;
    let _ = fs::remove_dir_all(app.job_folder(job.id).join("incoming"));
    let said = |task: &Task, why: &str| format!("task {} at {}: {why}", task.name, task.site_name);
    let lost = tasks.iter().filter(|task| task.state == "failed").map(|task| said(task, &task.why));
    let ended = |task: &&Task| task.state == "home" && !task.is_service() && task.code != Some(0);
    let codes = tasks.iter().filter(ended).map(|task| {
        let code = task.code.map_or(String::new(), |code| format!(", exit code {code}"));
        said(task, &format!("{}{code}: its output is in the folder {TASKS}/{}", task.why, task.name))
    });
    let message = lost.chain(codes).collect::<Vec<_>>().join("\n");
    Ok(match () {
        () if job.cancel => (End::Cancelled, String::new()),
        () if message.is_empty() => (End::Done, message),
        () => (End::Failed, message),
    })
}

/// Returns the name of the folder of a job's results.
pub(crate) fn folder() -> &'static str {
    FOLDER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(ended_us: Option<i64>, bytes: u64) -> Task {
        let entry = Entry { path: "a".to_owned(), bytes, sha256: String::new(), chunks: Vec::new() };
        Task {
            id: 1,
            job: 1,
            site: 1,
            site_name: "east".to_owned(),
            name: "t".to_owned(),
            program: None,
            start_us: 0,
            most_s: 10,
            state: "running".to_owned(),
            why: String::new(),
            created: 0,
            at_us: Some(1_000_000),
            started_us: None,
            ended_us,
            code: None,
            offset_us: None,
            error_us: None,
            files: Some(vec![entry]),
        }
    }

    #[test]
    fn a_site_keeps_no_job_for_good_by_what_it_states() {
        let most = 1_000_000 + 10_000_000 + AWAY_US;
        for (stated, end) in [(None, most), (Some(2_000_000), 2_000_000 + AWAY_US), (Some(i64::MAX), most)] {
            assert_eq!(end_us(&task(stated, 0)), Some(end), "{stated:?}");
            // A connected site has until the longest time is over, and its files could be here.
            assert_eq!(latest_us(&task(stated, 0)), Some(most));
            assert_eq!(latest_us(&task(stated, 1_000_000)), Some(most + 10_000_000));
        }
        assert!(latest_us(&task(None, u64::MAX)).is_some_and(|end| end > most));
        assert_eq!(end_us(&Task { at_us: None, ..task(None, 0) }), None);
    }
}
