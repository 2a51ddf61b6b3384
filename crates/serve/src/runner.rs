//! Execution of jobs as child processes.
//!
//! A child holds a lock on a file of its job for life, as its standard input. So a server that starts again knows which
//! children live, adopts them, and starts no job twice. Children write their progress to a file, which outlives the server;
//! how much of it is in the database changes in the same transaction as the events made of it.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bentpipe_record::Summary;
use rusqlite::Transaction;
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde::Deserialize;
use serde_json::json;

use crate::app::App;
use crate::clock::now_ms;
use crate::store::files::{self, Content};
use crate::store::jobs::{self, Job, MAX_ATTEMPTS};
use crate::store::{Result, StoreError, reservations};
use crate::{inputs, log, nightly, sites, space};

/// Time between two looks at running children.
const TURN: Duration = Duration::from_millis(100);
/// Time between two looks at an empty queue.
const IDLE: Duration = Duration::from_millis(1000);
/// Time that a child has to end after it was interrupted, in milliseconds.
const PATIENCE_MS: i64 = 10_000;
/// Time that a campaign has to end and to gather its finished runs, in milliseconds.
const CAMPAIGN_PATIENCE_MS: i64 = 60_000;
/// Time between two looks for the backup of the day, in milliseconds.
const BACKUP_LOOK_MS: i64 = 600_000;
/// Most running jobs of one user.
const MAX_PER_USER: u32 = 2;
/// Exit code of a study that misses a value, or of failed runs.
const MISSED: i32 = 1;
/// Most bytes of progress that are read in a turn.
const MAX_READ: u64 = 1 << 20;
/// Bytes of a child's last errors that are kept.
const STDERR_TAIL: u64 = 64 << 10;
/// Most files of a job that are listed.
const MAX_FILES: usize = 20_000;
/// Largest file that a child may write, and its address space, in bytes.
const MAX_FILE: u64 = 4 << 30;
const MAX_SPACE: u64 = 16 << 30;
/// Table of a campaign's runs, and the folder of its parts.
const GATHERED: &str = "runs.parquet";
const PARTS: &str = "parts/";
/// Folder of a campaign in that of a job's results.
const CAMPAIGN_FOLDER: &str = "results/campaign";
/// Folder of a job's scenario and of the files that it names.
const INPUT: &str = "input";
const SCENARIO: &str = "input/scenario.toml";
/// Lowered priority of children.
const NICENESS: i32 = 10;

/// Line of a child's progress.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    Start { pid: i32 },
    Begin { runs: i64, finished: i64 },
    Progress { share: f64, finished: Option<i64> },
    Done { label: String },
    End { code: i32, folder: Option<String> },
}

/// Runner of jobs.
pub(crate) struct Runner {
    app: App,
    /// Children that this process started, to be reaped.
    children: HashMap<i64, Child>,
    /// Times at which children were asked to end, in milliseconds.
    interrupted: HashMap<i64, i64>,
    /// Set while the disk has no room for jobs.
    is_short: bool,
}

/// Progress that was read in a turn.
#[derive(Default)]
struct News {
    /// Events: kind and content.
    events: Vec<(&'static str, serde_json::Value)>,
    /// Exit code and folder of results, after the end.
    end: Option<(i32, Option<String>)>,
}

impl Runner {
    pub(crate) fn new(app: App) -> Runner {
        Runner { app, children: HashMap::new(), interrupted: HashMap::new(), is_short: false }
    }

    /// Runs jobs until the channel closes. Children outlive it.
    pub(crate) fn run(mut self, wake: &Receiver<()>) {
        let data = &self.app.settings.folder;
        inputs::clean(data);
        if let Err(error) = space::clean(data, &self.app.store) {
            log::line(&format!("error: jobs: {error}"));
        }
        let places = i64::try_from(self.app.settings.jobs).unwrap_or(i64::MAX);
        if let Err(error) = self.app.store.write(|db| reservations::set_capacity(db, places)) {
            log::line(&format!("error: jobs: {error}"));
        }
        let mut looked = i64::MIN;
        loop {
            if now_ms() >= looked.saturating_add(BACKUP_LOOK_MS) {
                looked = now_ms();
                nightly::back_up(&self.app.store, &self.app.settings.folder);
            }
            let busy = self.turn().unwrap_or_else(|error| {
                log::line(&format!("error: jobs: {error}"));
                false
            });
            match wake.recv_timeout(if busy { TURN } else { IDLE }) {
                Ok(()) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Follows running jobs and starts others. Returns `true` while any runs.
    fn turn(&mut self) -> Result<bool> {
        self.children.retain(|_, child| !matches!(child.try_wait(), Ok(Some(_))));
        let mut running = 0;
        for job in self.app.store.read(jobs::running)? {
            running += usize::from(self.follow(job)?);
        }
        while running < self.app.settings.jobs && self.has_room() {
            let Some(job) = self.app.store.write(|db| jobs::claim(db, MAX_PER_USER))? else { break };
            self.app.announce(job.id);
            self.start(&job)?;
            running += 1;
        }
        Ok(running > 0)
    }

    /// Returns `true` if the disk has room for another job. The log says when that changes.
    fn has_room(&mut self) -> bool {
        let shortage = space::shortage(&self.app.settings);
        match &shortage {
            Some(why) if !self.is_short => log::line(&format!("note: queued jobs wait: {why}")),
            None if self.is_short => log::line("note: the disk has room for jobs again"),
            _ => {}
        }
        self.is_short = shortage.is_some();
        !self.is_short
    }

    /// Updates the database from a child. Returns `true` while it runs.
    fn follow(&mut self, mut job: Job) -> Result<bool> {
        if job.is_on_sites() {
            return self.step(&job);
        }
        // First, as a child that has ended writes no more.
        let lives = self.lives(job.id);
        if lives && job.cancel {
            self.end_child(&job);
        }
        let offset = self.app.store.read(|db| jobs::offset(db, job.id))?;
        let (text, more) = new_text(&progress_file(&self.folder(job.id), job.attempt), offset);
        let news = read_lines(&mut job, &text);
        let is_over = news.end.is_some() || (!lives && !more);
        if news.events.is_empty() && !is_over && text.is_empty() {
            return Ok(true);
        }
        self.app.store.write(|db| {
            for (kind, content) in &news.events {
                jobs::add_event(db, job.id, kind, content)?;
            }
            jobs::set_progress(db, &job, offset + text.len() as u64)?;
            if is_over { self.conclude(db, &job, news.end) } else { Ok(()) }
        })?;
        self.app.announce(job.id);
        if is_over {
            self.interrupted.remove(&job.id);
        }
        Ok(!is_over)
    }

    /// Advances a job on sites. Returns `true` while it runs.
    fn step(&self, job: &Job) -> Result<bool> {
        let Some((state, message)) = sites::step(&self.app, job)? else { return Ok(true) };
        self.app.store.write(|db| {
            self.keep_results(db, job, sites::folder())?;
            jobs::set_state(db, job.id, state, &message)
        })?;
        self.app.announce(job.id);
        Ok(false)
    }

    fn folder(&self, job: i64) -> PathBuf {
        self.app.job_folder(job)
    }

    /// Returns `true` if a child holds the lock of a job.
    fn lives(&self, job: i64) -> bool {
        let Ok(file) = File::open(self.folder(job).join("lock")) else { return false };
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err()
    }

    /// Interrupts a child; kills it if it does not end.
    fn end_child(&mut self, job: &Job) {
        let Some(pid) = pid_of(&self.folder(job.id), job.attempt) else { return };
        let since = self.interrupted.get(&job.id).copied();
        let time_to_end = if job.is_campaign() { CAMPAIGN_PATIENCE_MS } else { PATIENCE_MS };
        let signal = match since {
            None => Signal::INT,
            Some(at) if now_ms() - at > time_to_end => Signal::KILL,
            Some(_) => return,
        };
        self.interrupted.entry(job.id).or_insert_with(now_ms);
        let _ = match signal {
            // A campaign interrupts its own processes. What is killed cannot, so that all of its group is.
            Signal::KILL => rustix::process::kill_process_group(pid, signal),
            _ => rustix::process::kill_process(pid, signal),
        };
    }

    /// Ends a job whose child has ended, as its exit code says. A killed child is started again some times.
    fn conclude(&self, db: &Transaction<'_>, job: &Job, end: Option<(i32, Option<String>)>) -> Result<()> {
        let (code, results) = match end {
            Some((code, results)) => (Some(code), results),
            None => (None, None),
        };
        let results = results.or_else(|| only_folder(&self.folder(job.id).join("results")));
        if let Some(results) = &results {
            self.keep_results(db, job, results)?;
        }
        match code {
            // Interrupted, it ends as always, with what it has.
            Some(_) if job.cancel && job.is_emulation() && results.is_some() => {
                jobs::set_state(db, job.id, "cancelled", "")
            }
            Some(0 | MISSED) if job.is_search() && results.is_some() => {
                let name = results.as_deref().unwrap_or_default();
                let folder = self.folder(job.id).join("results").join(name);
                jobs::set_state(db, job.id, "done", &answer(&folder))
            }
            Some(0) => jobs::set_state(db, job.id, "done", ""),
            Some(MISSED) if job.is_emulation() && results.is_some() => jobs::set_state(
                db,
                job.id,
                "done",
                "a program in the place of a flow failed: its output is in the folder programs",
            ),
            Some(MISSED) if job.study.is_some() && results.is_some() => {
                jobs::set_state(db, job.id, "done", "a published value was missed: see the report")
            }
            Some(MISSED) if job.is_campaign() && results.is_some() && !job.cancel => jobs::set_state(
                db,
                job.id,
                "done",
                "some runs have no result: the column \"error\" of runs.parquet has the reasons",
            ),
            _ if job.cancel => jobs::set_state(db, job.id, "cancelled", ""),
            None if job.attempt < MAX_ATTEMPTS && job.is_emulation() => {
                jobs::set_state(db, job.id, "queued", "its process was killed: it starts again")
            }
            None if job.attempt < MAX_ATTEMPTS => jobs::set_state(
                db,
                job.id,
                "queued",
                "its process was killed: it goes on from the last finished run",
            ),
            None => {
                jobs::set_state(db, job.id, "failed", &format!("its process was killed {MAX_ATTEMPTS} times"))
            }
            Some(_) => jobs::set_state(db, job.id, "failed", &last_errors(&self.folder(job.id))),
        }
    }

    fn keep_results(&self, db: &Transaction<'_>, job: &Job, results: &str) -> Result<()> {
        let folder = self.folder(job.id).join("results").join(results);
        jobs::set_folder(db, job.id, results)?;
        keep_inputs(&self.app.settings.folder, &files::of_job(db, job.id)?, &folder);
        let mut files = Vec::new();
        list_files(&folder, "", &mut files);
        if files.iter().any(|(path, _)| path == GATHERED) {
            files.retain(|(path, _)| !path.starts_with(PARTS));
        }
        files.sort();
        jobs::set_artifacts(db, job.id, &files)?;
        let summary: Option<Summary> =
            fs::read(folder.join("summary.json")).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        summary.map_or(Ok(()), |summary| jobs::set_summary(db, job.id, &summary))?;
        jobs::compare(db, job).map(drop)
    }

    /// Starts the child of a job that was claimed.
    fn start(&mut self, job: &Job) -> Result<()> {
        if job.is_on_sites() {
            return sites::begin(&self.app, job);
        }
        let (text, files) = self
            .app
            .store
            .read(|db| Ok::<_, StoreError>((jobs::text(db, job)?, files::of_job(db, job.id)?)))?;
        match self.spawn(job, &text, &files) {
            Ok(child) => {
                self.children.insert(job.id, child);
                Ok(())
            }
            Err(error) => {
                log::line(&format!("error: job {}: {error}", job.id));
                let message = format!("its process could not be started: {error}");
                self.app.store.write(|db| jobs::set_state(db, job.id, "failed", &message))?;
                self.app.announce(job.id);
                Ok(())
            }
        }
    }

    fn spawn(&self, job: &Job, text: &str, files: &[Content]) -> io::Result<Child> {
        let folder = self.folder(job.id);
        fs::create_dir_all(folder.join("results"))?;
        if job.study.is_none() {
            let input = folder.join(INPUT);
            fs::create_dir_all(&input)?;
            fs::write(input.join("scenario.toml"), text)?;
            let data = &self.app.settings.folder;
            files.iter().try_for_each(|content| inputs::place(data, content, &input))?;
        }
        let lock = OpenOptions::new().create(true).append(true).read(true).open(folder.join("lock"))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("an earlier process of the job still runs"))?;
        let mut command = Command::new(&self.app.settings.program);
        match &job.study {
            Some(study) => {
                let studies = self.app.settings.studies.clone();
                let missing = || io::Error::other("the server has no folder of studies");
                command.args(["reproduce", study, "--studies"]).arg(studies.ok_or_else(missing)?);
                command.args(job.quick.then_some("--quick"));
            }
            None if job.is_emulation() => {
                command.args(["emulate", SCENARIO, "--real-flows", "--out", "results"]);
            }
            None if job.is_search() => {
                command.args(["search", SCENARIO]);
                let question = job.search.clone().unwrap_or_default();
                command.arg(format!("--over={}", question.over));
                command.args(question.conditions.iter().map(|condition| format!("--while={condition}")));
            }
            None if job.is_campaign() => {
                command.args(["campaign", "run", CAMPAIGN_FOLDER, "--scenario", SCENARIO, "--gather"]);
            }
            None => {
                command.args(["run", SCENARIO]);
            }
        }
        if job.is_campaign() {
            command.args(["--jobs", &self.app.settings.campaign_runs.to_string()]);
        } else {
            if !job.is_emulation() {
                command.args(["--out", "results", "--jobs", "1"]);
            }
            command.arg("--live").arg(live_file(Path::new(""), job.attempt));
        }
        command.args(["--quiet", "--progress"]).arg(progress_file(Path::new(""), job.attempt));
        if let Some(seeds) = job.seeds.filter(|_| !job.is_emulation()) {
            command.arg("--seeds").arg(seeds.to_string());
        }
        if let Some(duration) = &job.duration {
            command.arg("--set").arg(format!("duration={}", serde_json::Value::from(duration.as_str())));
        }
        let errors = File::create(folder.join("errors.txt"))?;
        command.current_dir(&folder).process_group(0).env_clear();
        for name in ["PATH", "LANG", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let child = command.stdin(lock).stdout(Stdio::null()).stderr(errors).spawn()?;
        limit(&child, job.is_emulation());
        Ok(child)
    }
}

/// Links the files that a scenario names into the folder of its results.
///
/// An archive has them there.
fn keep_inputs(data: &Path, files: &[Content], folder: &Path) {
    let input = folder.join(INPUT);
    if files.is_empty() || fs::create_dir_all(&input).is_err() {
        return;
    }
    for content in files {
        if let Err(error) = inputs::place(data, content, &input) {
            log::line(&format!("error: {}: {error}", input.join(&content.name).display()));
        }
    }
}

/// Returns the answer of a search, from the file in the folder of its results.
fn answer(folder: &Path) -> String {
    let found: Option<serde_json::Value> =
        fs::read(folder.join("search.json")).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match found.as_ref().and_then(|found| found["last"].as_str()) {
        Some(last) => format!("the last value for which all conditions hold: {last}"),
        None => "the conditions fail at the first value: see the report".to_owned(),
    }
}

/// Limits what a child takes of the machine. One in real time keeps its priority.
fn limit(child: &Child, is_real_time: bool) {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let most = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let _ = rustix::process::prlimit(Some(pid), Resource::Fsize, most(MAX_FILE));
    let _ = rustix::process::prlimit(Some(pid), Resource::As, most(MAX_SPACE));
    if !is_real_time {
        let _ = rustix::process::setpriority_process(Some(pid), NICENESS);
    }
}

fn progress_file(folder: &Path, attempt: i64) -> PathBuf {
    folder.join(format!("progress-{attempt}.jsonl"))
}

/// Returns the file of live samples of a job's attempt.
pub(crate) fn live_file(folder: &Path, attempt: i64) -> PathBuf {
    folder.join(format!("live-{attempt}.jsonl"))
}

/// Returns whole lines from `offset` on, and `true` if there are more.
pub(crate) fn new_text(path: &Path, offset: u64) -> (String, bool) {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(offset))?;
        file.take(MAX_READ).read_to_end(&mut bytes)
    });
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let more = read.is_ok_and(|read| read as u64 == MAX_READ) && whole > 0;
    bytes.truncate(whole);
    (String::from_utf8_lossy(&bytes).into_owned(), more)
}

/// Applies lines of progress to a job. Unknown lines are ignored.
fn read_lines(job: &mut Job, text: &str) -> News {
    let mut news = News::default();
    let mut moved = false;
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Start { .. } => {}
            // A study begins once for each of its scenarios.
            Line::Begin { runs, finished } if job.study.is_some() => {
                (job.runs, job.finished) = (job.runs + runs + finished, job.finished + finished);
                moved = true;
            }
            // A search begins once for each value that it tries; those that it finds finished were counted.
            Line::Begin { runs, .. } if job.is_search() => {
                job.runs = job.runs.max(job.finished) + runs;
                moved = true;
            }
            Line::Begin { runs, finished } => {
                (job.runs, job.finished) = (runs + finished, finished);
                moved = true;
            }
            Line::Progress { share, finished } => {
                job.share = share.clamp(0.0, 1.0);
                // Of a campaign's runs only the number is reported.
                job.finished = finished.map_or(job.finished, |finished| finished.clamp(0, job.runs));
                moved = true;
            }
            Line::Done { label } => {
                job.finished += 1;
                let content = json!({ "label": label, "finished": job.finished, "runs": job.runs });
                news.events.push(("run", content));
            }
            Line::End { code, folder } => {
                news.end = Some((code, folder.filter(|name| is_name(name))));
                if code == 0 {
                    job.share = 1.0;
                }
            }
        }
    }
    // One event for all steps of a turn.
    if moved {
        let content = json!({ "share": job.share, "finished": job.finished, "runs": job.runs });
        news.events.push(("progress", content));
    }
    news
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0'])
}

/// Returns the process of a job's attempt, by the folder of the job.
pub(crate) fn pid_of(folder: &Path, attempt: i64) -> Option<Pid> {
    let (text, _) = new_text(&progress_file(folder, attempt), 0);
    match serde_json::from_str(text.lines().next()?).ok()? {
        Line::Start { pid } if pid > 1 => Pid::from_raw(pid),
        _ => None,
    }
}

/// Returns the name of the only folder in `path`.
fn only_folder(path: &Path) -> Option<String> {
    let mut names = fs::read_dir(path).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.next().filter(|_| names.next().is_none())
}

/// Lists the regular files below `folder` with their sizes. Links are left out.
pub(crate) fn list_files(folder: &Path, prefix: &str, into: &mut Vec<(String, u64)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if into.len() >= MAX_FILES {
            return;
        }
        if kind.is_dir() && path.matches('/').count() < 8 {
            list_files(&entry.path(), &path, into);
        } else if kind.is_file() {
            into.push((path, entry.metadata().map_or(0, |data| data.len())));
        }
    }
}

/// Returns the last errors that a child wrote.
fn last_errors(folder: &Path) -> String {
    let mut bytes = Vec::new();
    let _ = File::open(folder.join("errors.txt")).and_then(|mut file| {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(STDERR_TAIL)))?;
        file.take(STDERR_TAIL).read_to_end(&mut bytes)
    });
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    if text.is_empty() { "its process ended without a reason".to_owned() } else { text }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        StoreError::Sqlite(rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("progress-1.jsonl");
        assert_eq!(new_text(&path, 0), (String::new(), false));
        fs::write(&path, "{\"event\":\"start\",\"pid\":77}\n{\"event\":\"pro").expect("written");
        let (text, _) = new_text(&path, 0);
        assert_eq!(text, "{\"event\":\"start\",\"pid\":77}\n");
        assert_eq!(new_text(&path, text.len() as u64), (String::new(), false));
        assert_eq!(pid_of(folder.path(), 1), Pid::from_raw(77));
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for bad in ["", ".", "..", "a/b", "../x", "/etc", "a\0"] {
            assert!(!is_name(bad), "{bad:?}");
        }
        assert!(is_name("scenario-0123abc"));
    }

    #[test]
    fn links_are_no_results() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("points")).expect("made");
        fs::write(folder.path().join("points/outcome.json"), "{}").expect("written");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("planted")).expect("linked");
        let mut files = Vec::new();
        list_files(folder.path(), "", &mut files);
        assert_eq!(files, [("points/outcome.json".to_owned(), 2)]);
    }
}
