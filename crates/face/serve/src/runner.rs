//! Execution of jobs as child processes.
//!
//! A child holds a lock on a file of its job for life, as its standard input. So a server that starts again knows which
//! children live, adopts them, and starts no job twice. Children write their progress to a file, which outlives the server;
//! how much of it is in the database changes in the same transaction as the events made of it.

mod stops;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use bentpipe_record::Summary;
use rusqlite::Transaction;
use rustix::fs::{FlockOperation, OFlags};
use rustix::process::{Pid, Signal};
use serde::Deserialize;
use serde_json::json;

use crate::app::{App, RESULTS};
use crate::children::{self, Excess, Group, JOB, Limits};
use crate::clock::now_ms;
use crate::launch::MAX_RUNS;
use crate::store::files::{self, Content};
use crate::store::jobs::{self, Job, JobKind, JobState, MAX_ATTEMPTS, Method, Question};
use crate::store::{Result, StoreError, people, reservations, turns};
use crate::work::{self, ROWS, Task};
use crate::{hidden, inputs, left, log, nightly, quota, reserve, sites, space};
use stops::Stops;

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
pub(crate) const MAX_PER_USER: u32 = 2;
/// Message of a job whose process wrote no error.
const NO_REASON: &str = "its process ended without a reason";
/// Exit code of a study that misses a value, or of failed runs.
const MISSED: i32 = 1;
/// Most finished runs of a job that have an event, and characters of its label.
pub(crate) const MAX_RUN_EVENTS: i64 = MAX_RUNS as i64;
const MAX_LABEL: usize = 300;
/// Most bytes of progress that are read in a turn.
const MAX_READ: u64 = 1 << 20;
/// Bytes of a child's last errors that are kept.
const STDERR_TAIL: u64 = 64 << 10;
/// Largest summary that is read here; a child reads larger ones.
const MAX_SUMMARY: u64 = 1 << 20;
/// Most processor time in which a child reads a large summary, in seconds.
const MAX_ROWS_S: u64 = 60;
/// Table of a campaign's runs, and the folder of its parts.
const GATHERED: &str = "runs.parquet";
const PARTS: &str = "parts/";
/// Folder of a campaign in that of a job's results.
const CAMPAIGN_FOLDER: &str = "results/campaign";
/// Folder of a job's scenario and of the files that it names.
const INPUT: &str = "input";
const SCENARIO: &str = "input/scenario.toml";
/// File whose lock a child holds, and file of its errors.
const LOCK: &str = "lock";
const ERRORS: &str = "errors.txt";
/// Folder of temporary files, which goes with the end of the job.
const SCRATCH: &str = "scratch";
/// Bytes of a job's file beyond what its owner's quota has left.
const MARGIN: u64 = 64 << 20;
/// Lowered priority of jobs: the server, and work on requests, go first.
const NICENESS: i32 = 15;

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
    /// Control groups of those children.
    groups: HashMap<i64, Group>,
    /// Children that reported their end.
    ending: Vec<Ending>,
    /// Times at which children were asked to end, in milliseconds.
    interrupted: HashMap<i64, i64>,
    /// Jobs that may not go on.
    stops: Stops,
    /// Sizes of files of jobs whose owners' quotas have less left than the limit.
    sizes: HashMap<i64, u64>,
    /// Set while the disk has no room for jobs.
    is_short: bool,
}

/// Child that reported its end.
struct Ending {
    child: Child,
    group: Option<Group>,
    /// Time of the report, in milliseconds.
    since: i64,
}

impl Ending {
    /// Returns `true` once the child has ended. One that goes on for too long is killed, and with it all of its group.
    fn is_over(&mut self) -> bool {
        let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if has_ended {
            self.group.iter().for_each(Group::kill);
        } else if now_ms() - self.since > PATIENCE_MS {
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            pid.map(|pid| rustix::process::kill_process_group(pid, Signal::KILL));
        }
        has_ended
    }
}

/// Progress that was read in a turn.
#[derive(Default)]
struct News {
    /// Events, with `true` for those of finished runs. Others are of progress.
    events: Vec<(bool, serde_json::Value)>,
    /// Exit code and folder of results, after the end.
    end: Option<(i32, Option<String>)>,
}

/// End of a child, and what it left.
struct End {
    /// Exit code that it reported.
    code: Option<i32>,
    /// Name of the folder of results.
    results: Option<String>,
    /// Points and measures of the results, as lines.
    rows: Option<Box<dyn BufRead>>,
    /// Limit that it went over.
    excess: Option<Excess>,
    /// Last errors that it wrote.
    errors: String,
}

impl Runner {
    pub(crate) fn new(app: App) -> Runner {
        Runner {
            app,
            children: HashMap::new(),
            groups: HashMap::new(),
            ending: Vec::new(),
            interrupted: HashMap::new(),
            stops: Stops::default(),
            sizes: HashMap::new(),
            is_short: false,
        }
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
                nightly::back_up(&self.app.settings.folder);
                // It went when the disk was full, and comes back when there is room.
                let _ = reserve::make(&self.app.settings.folder);
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
        self.ending.retain_mut(|ending| !ending.is_over());
        let mut running = 0;
        let all = self.app.store.read(jobs::running)?;
        self.stops.look(&self.app, &all)?;
        for job in all {
            running += usize::from(self.follow(job)?);
        }
        while running < self.app.settings.jobs && self.has_room() {
            let Some(job) = self.app.store.write(|db| turns::claim(db, MAX_PER_USER))? else { break };
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
        if lives && (job.cancel || self.stops.why(job.id).is_some()) {
            self.end_child(&job);
        }
        let offset = self.app.store.read(|db| jobs::offset(db, job.id))?;
        let (text, more) = new_text(&self.folder(job.id), &progress_file(job.attempt), offset);
        let news = read_lines(&mut job, &text);
        let is_over = news.end.is_some() || (!lives && !more);
        if news.events.is_empty() && !is_over && text.is_empty() {
            return Ok(true);
        }
        let end = is_over.then(|| self.end_of(&job, news.end));
        self.app.store.write(|db| {
            for (is_run, content) in &news.events {
                let add = if *is_run { jobs::add_run } else { jobs::add_progress };
                add(db, job.id, content)?;
            }
            jobs::set_progress(db, &job, offset + text.len() as u64)?;
            if let Some(end) = end { self.conclude(db, &job, end) } else { Ok(()) }
        })?;
        self.app.announce(job.id);
        if is_over {
            self.interrupted.remove(&job.id);
            self.stops.forget(&self.app, job.id);
        }
        Ok(!is_over)
    }

    /// Returns how a child ended, with what it left.
    fn end_of(&mut self, job: &Job, end: Option<(i32, Option<String>)>) -> End {
        let (child, group) = (self.children.remove(&job.id), self.groups.remove(&job.id));
        let is_out = group.as_ref().is_some_and(Group::is_out_of_memory);
        let status = match (child, &end) {
            // It has released its lock without a word: it has ended.
            (Some(mut child), None) => {
                group.iter().for_each(Group::kill);
                child.wait().ok()
            }
            (Some(child), Some(_)) => {
                self.ending.push(Ending { child, group, since: now_ms() });
                None
            }
            (None, _) => None,
        };
        let limits = self.limits_of(job);
        if job.is_emulation() && end.is_none() {
            (self.app.settings.sweep)();
        }
        let errors = hidden::without(&last_errors(&self.folder(job.id)), &self.app.settings.folders(job.id));
        let excess = match status {
            Some(status) => Excess::of(status, &errors, &limits, is_out),
            // Of a child of another server only its errors are known.
            None => Excess::of_errors(&errors, &limits),
        };
        let size = self.sizes.remove(&job.id);
        let excess = match (excess, size) {
            (Some(Excess::File { .. }), Some(most)) => {
                let why = format!(
                    "stopped: it wrote a file of more than {}, which is beyond its owner's quota: remove jobs, files or old versions",
                    space::shown(most)
                );
                self.stops.stop(Some(job.id), Some(why));
                None
            }
            (excess, _) => excess,
        };
        let (code, results) = end.unzip();
        let results = results.flatten().or_else(|| only_folder(&self.folder(job.id).join("results")));
        let rows = results.as_ref().and_then(|name| self.rows(job, name));
        End { code, results, rows, excess, errors }
    }

    /// Returns the limits of a job: those of its owner's level.
    fn limits_of(&self, job: &Job) -> Limits {
        let owner = self.app.store.read(|db| people::find(db, job.owner_id)).ok().flatten();
        self.app.settings.limits.of(owner.map_or(0, |owner| owner.level)).job
    }

    /// Returns the points and measures of a job's results as lines.
    ///
    /// A child makes those of a large summary.
    fn rows(&self, job: &Job, results: &str) -> Option<Box<dyn BufRead>> {
        let results = self.app.results(job.id, results).ok()?;
        match left::read(&results, "summary.json", MAX_SUMMARY) {
            Ok(bytes) => {
                let summary: Summary = serde_json::from_slice(&bytes).ok()?;
                let mut lines = Vec::new();
                jobs::write_lines(&summary, &mut lines).ok()?;
                return Some(Box::new(Cursor::new(lines)));
            }
            Err(error) if error.kind() != io::ErrorKind::FileTooLarge => return None,
            Err(_) => {}
        }
        let staging = self.app.staging_now().ok()?;
        // Other jobs wait for this one.
        let limits = self.limits_of(job);
        let limits = Limits { processor_s: limits.processor_s.min(MAX_ROWS_S), ..limits };
        let made =
            work::do_now::<bool>(&self.app.settings, &limits, (&Task::Rows { results }, staging.path()));
        match made {
            // The folder goes, and the file with its last reader.
            Ok(true) => Some(Box::new(BufReader::new(left::file(staging.path(), ROWS).ok()?))),
            Ok(false) => None,
            Err(why) => {
                log::line(&format!("error: job {}: summary.json: {why}", job.id));
                None
            }
        }
    }

    /// Advances a job on sites. Returns `true` while it runs.
    fn step(&mut self, job: &Job) -> Result<bool> {
        let why = self.stops.why(job.id).filter(|_| !job.cancel).map(str::to_owned);
        let asked = Job { cancel: job.cancel || why.is_some(), ..job.clone() };
        let Some((end, message)) = sites::step(&self.app, &asked)? else { return Ok(true) };
        let (end, message) = why.map_or((end, message), |why| (jobs::End::Failed, why));
        let rows = self.rows(job, sites::folder());
        self.app.store.write(|db| {
            self.keep_results(db, job, (sites::folder(), rows))?;
            jobs::set_state(db, job.id, JobState::Over(end), &message)
        })?;
        self.stops.forget(&self.app, job.id);
        self.app.announce(job.id);
        Ok(false)
    }

    fn folder(&self, job: i64) -> PathBuf {
        self.app.job_folder(job)
    }

    /// Returns `true` while the child of a job runs.
    ///
    /// One of an earlier server holds the lock of the job.
    fn lives(&mut self, job: i64) -> bool {
        // A child can remove its lock, but not look as if it had ended.
        let runs = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if self.children.get_mut(&job).is_some_and(runs) {
            return true;
        }
        let Ok(file) = left::file(&self.folder(job), LOCK) else { return false };
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
    fn conclude(&self, db: &Transaction<'_>, job: &Job, end: End) -> Result<()> {
        let End { code, results, rows, excess, errors } = end;
        let _ = fs::remove_dir_all(self.folder(job.id).join(SCRATCH));
        if let Some(results) = &results {
            self.keep_results(db, job, (results, rows))?;
        }
        // Of an interrupted emulation the code does not say that it lacks its end.
        let is_cut = code != Some(0) || (job.is_emulation() && self.interrupted.contains_key(&job.id));
        if let Some(why) = self.stops.why(job.id).filter(|_| is_cut && !job.cancel) {
            return jobs::set_state(db, job.id, JobState::FAILED, why);
        }
        match code {
            // Interrupted, it ends as always, with what it has.
            Some(_) if job.cancel && job.is_emulation() && results.is_some() => {
                jobs::set_state(db, job.id, JobState::CANCELLED, "")
            }
            // Runs of a campaign may be over limits that others keep.
            code if excess.is_some()
                && !job.cancel
                && (code.is_none() || (job.is_emulation() && code != Some(0))) =>
            {
                let why = excess.map(|excess| format!("{excess}. {}", excess.remedy())).unwrap_or_default();
                let errors = errors.as_str().trim_start_matches(NO_REASON);
                let message = format!("over the limits of its owner's jobs: {why}\n{errors}");
                jobs::set_state(db, job.id, JobState::FAILED, message.trim())
            }
            Some(0 | MISSED) if matches!(job.method(), Some(Method::Search(_))) && results.is_some() => {
                let name = results.as_deref().unwrap_or_default();
                jobs::set_state(db, job.id, JobState::DONE, &answer(&self.folder(job.id), name))
            }
            Some(0) => jobs::set_state(db, job.id, JobState::DONE, ""),
            Some(MISSED) if job.is_emulation() && results.is_some() => jobs::set_state(
                db,
                job.id,
                JobState::DONE,
                "a program in the place of a flow failed: its output is in the folder programs",
            ),
            Some(MISSED) if job.method().is_none() && results.is_some() => {
                jobs::set_state(db, job.id, JobState::DONE, "a published value was missed: see the report")
            }
            Some(MISSED) if job.is_campaign() && results.is_some() && !job.cancel => jobs::set_state(
                db,
                job.id,
                JobState::DONE,
                "some runs have no result: the column \"error\" of runs.parquet has the reasons",
            ),
            _ if job.cancel => jobs::set_state(db, job.id, JobState::CANCELLED, ""),
            None if job.attempt < MAX_ATTEMPTS && job.is_emulation() => {
                jobs::set_state(db, job.id, JobState::Queued, "its process was killed: it starts again")
            }
            None if job.attempt < MAX_ATTEMPTS => jobs::set_state(
                db,
                job.id,
                JobState::Queued,
                "its process was killed: it goes on from the last finished run",
            ),
            None => jobs::set_state(
                db,
                job.id,
                JobState::FAILED,
                &format!("its process was killed {MAX_ATTEMPTS} times"),
            ),
            Some(_) => jobs::set_state(db, job.id, JobState::FAILED, &errors),
        }
    }

    fn keep_results(
        &self,
        db: &Transaction<'_>,
        job: &Job,
        (results, rows): (&str, Option<Box<dyn BufRead>>),
    ) -> Result<()> {
        let Ok(folder) = self.app.results(job.id, results) else { return Ok(()) };
        jobs::set_folder(db, job.id, results)?;
        let inputs = files::of_job(db, job.id)?;
        keep_inputs(&self.app.settings.folder, &inputs, (&self.folder(job.id), results));
        let mut files = left::list(&folder);
        let mut unlisted = 0;
        if files.iter().any(|(path, _)| path == GATHERED) {
            let parts = files.extract_if(.., |(path, _)| path.starts_with(PARTS));
            unlisted = parts.map(|(_, bytes)| bytes).sum();
        }
        files.sort();
        jobs::set_artifacts(db, job.id, &files, unlisted)?;
        rows.map_or(Ok(()), |rows| jobs::set_rows(db, job.id, rows))?;
        jobs::compare(db, job).map(drop)
    }

    /// Starts the child of a job that was claimed.
    fn start(&mut self, job: &Job) -> Result<()> {
        if job.attempt == 1 {
            space::put_lost_aside(&self.app.settings.folder, job.id)?;
        }
        if job.is_on_sites() {
            return sites::begin(&self.app, job);
        }
        let (text, files) = self
            .app
            .store
            .read(|db| Ok::<_, StoreError>((jobs::text(db, job)?, files::of_job(db, job.id)?)))?;
        match self.spawn(job, &text, &files) {
            Ok(child) => {
                self.enclose(job, &child);
                self.children.insert(job.id, child);
                Ok(())
            }
            Err(error) => {
                log::line(&format!("error: job {}: {error}", job.id));
                let message = format!("its process could not be started: {error}");
                let message = hidden::without(&message, &self.app.settings.folders(job.id));
                self.app.store.write(|db| jobs::set_state(db, job.id, JobState::FAILED, &message))?;
                self.app.announce(job.id);
                Ok(())
            }
        }
    }

    fn spawn(&self, job: &Job, text: &str, files: &[Content]) -> io::Result<Child> {
        let folder = self.folder(job.id);
        fs::create_dir_all(&folder)?;
        let lock = taken_lock(&folder)?;
        clear(&folder);
        left::make(&folder, ".", RESULTS)?;
        if job.method().is_some() {
            let input = left::make(&folder, ".", INPUT)?;
            fs::write(input.join("scenario.toml"), text)?;
            let data = &self.app.settings.folder;
            files.iter().try_for_each(|content| inputs::place(data, content, &input))?;
        }
        let mut command = Command::new(&self.app.settings.program);
        match &job.kind {
            JobKind::Study { name, quick } => {
                let studies = self.app.settings.studies.clone();
                let missing = || io::Error::other("the server has no folder of studies");
                command.args(["reproduce", name, "--confine", "--studies"]).arg(studies.ok_or_else(missing)?);
                command.args(quick.then_some("--quick"));
            }
            JobKind::Scenario { method, .. } => add_method(&mut command, method),
        }
        if job.is_campaign() {
            command.args(["--jobs", &self.app.settings.campaign_runs.to_string()]);
        } else {
            if !job.is_emulation() {
                command.args(["--out", "results", "--jobs", "1"]);
            }
            command.arg("--live").arg(live_file(job.attempt));
        }
        command.args(["--quiet", "--progress"]).arg(progress_file(job.attempt));
        if let Some(seeds) = job.seeds.filter(|_| !job.is_emulation()) {
            command.arg("--seeds").arg(seeds.to_string());
        }
        if let Some(duration) = &job.duration {
            command.arg("--set").arg(format!("duration={}", serde_json::Value::from(duration.as_str())));
        }
        let errors = File::create_new(folder.join(ERRORS))?;
        command.current_dir(&folder).process_group(0).env_clear();
        for name in ["PATH", "LANG", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if !job.is_emulation() {
            // The job's folder is all that a confined process writes to.
            command.env("TMPDIR", left::make(&folder, ".", SCRATCH)?);
            if let Some(user) = self.app.settings.job_user {
                give(&folder, user)?;
            }
        }
        command.stdin(lock).stdout(Stdio::null()).stderr(errors).spawn()
    }

    /// Lowers the size of files to what the owner's quota has left, with a margin.
    ///
    /// A fast job writes much between two looks at its output.
    fn within_quota(&mut self, job: &Job, limits: Limits) -> Limits {
        let app = &self.app;
        let Ok(used) = app.store.read(|db| quota::stored(db, app, job.owner_id)) else { return limits };
        let most = used.quota.saturating_sub(used.sum()).saturating_add(MARGIN);
        if most < limits.file_size {
            self.sizes.insert(job.id, most);
        }
        Limits { file_size: limits.file_size.min(most), ..limits }
    }

    /// Limits what a child takes of the machine. One in real time keeps its priority.
    fn enclose(&mut self, job: &Job, child: &Child) {
        let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
        let limits = self.within_quota(job, self.limits_of(job));
        children::limit(pid, &limits);
        // A campaign has several processes, each with the memory of a job.
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        let runs = match self.app.settings.campaign_runs {
            _ if !job.is_campaign() => 1,
            0 => all as u64,
            runs => runs as u64,
        };
        let of_all = Limits { memory: limits.memory.saturating_mul(runs), ..limits };
        let group = self.app.groups.enclose(&format!("{JOB}{}-", job.id), pid, &of_all);
        if let Some(group) = group {
            self.groups.insert(job.id, group);
        }
        if !job.is_emulation() {
            let _ = rustix::process::setpriority_process(Some(pid), NICENESS);
        }
    }
}

/// Opens the lock of a job, and takes it. What an earlier process put in its place is refused.
fn taken_lock(folder: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    let lock = options.create(true).append(true).read(true).custom_flags(flags).open(folder.join(LOCK))?;
    if !lock.metadata()?.is_file() {
        return Err(io::Error::other("its lock is not a file"));
    }
    rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| io::Error::other("an earlier process of the job still runs"))?;
    Ok(lock)
}

/// Removes what an earlier process of a job may have changed into links.
fn clear(folder: &Path) {
    for name in [INPUT, SCRATCH] {
        let _ = fs::remove_dir_all(folder.join(name));
    }
    let _ = fs::remove_file(folder.join(ERRORS));
}

/// Changes the owner of a job's folder to the user of its process.
///
/// The inputs keep theirs.
fn give(folder: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    std::os::unix::fs::lchown(folder, Some(uid), Some(gid))?;
    [RESULTS, SCRATCH].iter().try_for_each(|name| left::give(&folder.join(name), (uid, gid)))
}

/// Adds the command that treats a job's scenario.
fn add_method(command: &mut Command, method: &Method) {
    match method {
        Method::Simulate => command.args(["run", SCENARIO, "--inputs", INPUT, "--confine"]),
        Method::Emulate => {
            command.args(["emulate", SCENARIO, "--inputs", INPUT, "--real-flows", "--out", "results"])
        }
        Method::Campaign => {
            command.args(["campaign", "run", CAMPAIGN_FOLDER, "--scenario", SCENARIO, "--gather"]);
            command.args(["--inputs", INPUT, "--confine"])
        }
        Method::Search(Question { over, conditions }) => {
            command.args(["search", SCENARIO, "--inputs", INPUT, "--confine"]).arg(format!("--over={over}"));
            command.args(conditions.iter().map(|condition| format!("--while={condition}")))
        }
        // Its programs are started by the agents of its sites.
        Method::Sites(_) => command,
    };
}

/// Links the files that a scenario names into the folder of its results.
///
/// An archive has them there.
fn keep_inputs(data: &Path, files: &[Content], (folder, results): (&Path, &str)) {
    if files.is_empty() {
        return;
    }
    let Ok(input) = left::make(folder, &format!("{RESULTS}/{results}"), INPUT) else { return };
    for content in files {
        if let Err(error) = inputs::place(data, content, &input) {
            log::line(&format!("error: {}: {error}", input.join(&content.name).display()));
        }
    }
}

/// Returns the answer of a search, from the file in the folder of its results.
fn answer(folder: &Path, results: &str) -> String {
    let bytes = left::read(folder, &format!("{RESULTS}/{results}/search.json"), MAX_SUMMARY).ok();
    let found: Option<serde_json::Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    match found.as_ref().and_then(|found| found["last"].as_str()) {
        Some(last) => format!("the last value for which all conditions hold: {last}"),
        None => "the conditions fail at the first value: see the report".to_owned(),
    }
}

fn progress_file(attempt: i64) -> String {
    format!("progress-{attempt}.jsonl")
}

/// Returns the name of the file of live samples of a job's attempt.
pub(crate) fn live_file(attempt: i64) -> String {
    format!("live-{attempt}.jsonl")
}

/// Returns whole lines of a job's file from `offset` on.
///
/// Returns `true` too if there are more.
pub(crate) fn new_text(folder: &Path, name: &str, offset: u64) -> (String, bool) {
    let mut bytes = Vec::new();
    let read = left::file(folder, name).and_then(|mut file| {
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
            Line::Begin { runs, finished } if job.method().is_none() => {
                (job.runs, job.finished) = (job.runs + runs + finished, job.finished + finished);
                moved = true;
            }
            // A search begins once for each value that it tries; those that it finds finished were counted.
            Line::Begin { runs, .. } if matches!(job.method(), Some(Method::Search(_))) => {
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
                // A child that was taken over states any number of runs.
                if job.finished <= MAX_RUN_EVENTS {
                    let label: String = label.chars().take(MAX_LABEL).collect();
                    let content = json!({ "label": label, "finished": job.finished, "runs": job.runs });
                    news.events.push((true, content));
                }
            }
            Line::End { code, folder } => {
                news.end = Some((code, folder.filter(|name| is_name(name))));
                if code == 0 {
                    job.share = 1.0;
                }
                // Its only run has no line of its own.
                if job.is_emulation() && [0, MISSED].contains(&code) {
                    job.finished = job.runs;
                }
            }
        }
    }
    // One event for all steps of a turn.
    if moved {
        let content = json!({ "share": job.share, "finished": job.finished, "runs": job.runs });
        news.events.push((false, content));
    }
    news
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0'])
}

/// Returns the process of a job's attempt, by the folder of the job.
///
/// It is one that has the lock of the job as its standard input: what a child states could be any process.
pub(crate) fn pid_of(folder: &Path, attempt: i64) -> Option<Pid> {
    let (text, _) = new_text(folder, &progress_file(attempt), 0);
    let pid = match serde_json::from_str(text.lines().next()?).ok()? {
        Line::Start { pid } if pid > 1 => Pid::from_raw(pid),
        _ => None,
    };
    let lock = left::file(folder, LOCK).and_then(|file| file.metadata()).ok()?;
    let has_lock = |pid: &Pid| {
        let input = fs::metadata(format!("/proc/{}/fd/0", pid.as_raw_nonzero()));
        input.is_ok_and(|input| (input.dev(), input.ino()) == (lock.dev(), lock.ino()))
    };
    pid.filter(has_lock)
}

/// Returns the name of the only folder in `path`.
fn only_folder(path: &Path) -> Option<String> {
    let mut names = fs::read_dir(path).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.next().filter(|_| names.next().is_none())
}

/// Returns the last errors that a child wrote.
fn last_errors(folder: &Path) -> String {
    let text = left::end(folder, ERRORS, STDERR_TAIL);
    if text.is_empty() { NO_REASON.to_owned() } else { text }
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
        let new_text = |offset| new_text(folder.path(), "progress-1.jsonl", offset);
        assert_eq!(new_text(0), (String::new(), false));
        fs::write(&path, "{\"event\":\"start\",\"pid\":77}\n{\"event\":\"pro").expect("written");
        let (text, _) = new_text(0);
        assert_eq!(text, "{\"event\":\"start\",\"pid\":77}\n");
        assert_eq!(new_text(text.len() as u64), (String::new(), false));
    }

    #[test]
    fn a_child_that_states_another_process_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let start = |pid: u32| {
            let line = format!("{{\"event\":\"start\",\"pid\":{pid}}}\n");
            fs::write(folder.path().join("progress-1.jsonl"), line).expect("written");
            pid_of(folder.path(), 1)
        };
        let lock = File::create(folder.path().join(LOCK)).expect("made");
        let own = std::process::id();
        let mut child = Command::new("sleep").arg("60").stdin(lock).spawn().expect("started");
        assert_eq!(start(child.id()), i32::try_from(child.id()).ok().and_then(Pid::from_raw));
        for other in [own, 1, 0] {
            assert_eq!(start(other), None);
        }
        // A link to what another process reads does not count.
        fs::remove_file(folder.path().join(LOCK)).expect("removed");
        std::os::unix::fs::symlink(format!("/proc/{own}/fd/0"), folder.path().join(LOCK)).expect("linked");
        assert_eq!((start(own), start(child.id())), (None, None));
        child.kill().and_then(|()| child.wait()).expect("ended");
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for bad in ["", ".", "..", "a/b", "../x", "/etc", "a\0"] {
            assert!(!is_name(bad), "{bad:?}");
        }
        assert!(is_name("scenario-0123abc"));
    }
}
