//! The site: it asks for commands, executes each once, and reports its tasks.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::clock::{self, Difference, Exchange, now_us};
use crate::digits::hex;
use crate::link::{problem, refusal};
use crate::memory::{Memory, Recalled};
use crate::protocol::{
    Act, Command, CommandResult, GivenFile, Held, MAX_BATCH, MAX_MESSAGE, MAX_TASKS, Outcome, PIECE, Poll,
    Program, Samples, TaskReport, TaskState, Turn, check_turn, parse,
};
use crate::session::Session;
use crate::task::Task;
use crate::{Allowed, Enrolment, Error, doctor, folder, program};

/// Longest wait of an answer in milliseconds: while no task runs, and while one does.
const IDLE_MS: u32 = 10_000;
const BUSY_MS: u32 = 200;
/// The same while live samples are sent: ten pictures a second.
const LIVE_MS: u32 = 100;
/// Least time of a turn. A controller that answers at once keeps no processor busy.
const TURN: Duration = Duration::from_millis(20);
/// Time between two examinations of the machine, in microseconds.
const EXAMINE_US: i64 = 30_000_000;
/// Shortest and longest wait before the next connection.
const RETRY: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// Longest wait after the controller refused the site, which only its administrator can change.
const REFUSED: Duration = Duration::from_secs(60);
/// Time without a controller after which prepared tasks are removed, in microseconds.
const ORPHAN_US: i64 = 60_000_000;

/// Settings of a site.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of the site: its key, its memory, its tasks.
    pub folder: PathBuf,
    /// File of what it permits.
    pub allowed: PathBuf,
    /// Program that runs tasks: this one.
    pub program: PathBuf,
    /// Version of bentpipe.
    pub version: String,
}

/// A site.
pub struct Agent {
    settings: Settings,
    enrolment: Enrolment,
    memory: Memory,
    allowed: Allowed,
    difference: Difference,
    /// Supervisors that this process started, to be reaped.
    children: HashMap<u64, Child>,
    /// Results that the controller has not confirmed.
    results: Vec<CommandResult>,
    /// Bytes of live samples that the controller has, by task. `None` if it wants no more.
    samples: HashMap<u64, Option<u64>>,
    examined_us: i64,
    chrony_us: Option<f64>,
    /// Time of the last answer of the controller.
    answered_us: i64,
    /// Lock that ends with the process.
    _lock: fs::File,
}

impl Agent {
    /// Opens the folder of an enrolled site.
    ///
    /// # Errors
    /// Returns an error if it is not enrolled, its files are wrong, or another process runs it.
    pub fn open(settings: Settings) -> Result<Agent, Error> {
        let enrolment = Enrolment::read(&settings.folder)?;
        let allowed = Allowed::read(&settings.allowed)?;
        let lock = folder::lock(&settings.folder.join("lock"))?
            .ok_or_else(|| Error::settings(&settings.folder, "another process runs this site"))?;
        let memory = Memory::open(&settings.folder.join("memory.jsonl"))?;
        folder::make(&settings.folder.join("tasks"))?;
        Ok(Agent {
            settings,
            enrolment,
            memory,
            allowed,
            difference: Difference::default(),
            children: HashMap::new(),
            results: Vec::new(),
            samples: HashMap::new(),
            examined_us: i64::MIN,
            chrony_us: None,
            answered_us: now_us(),
            _lock: lock,
        })
    }

    /// Returns the enrolment.
    pub fn enrolment(&self) -> &Enrolment {
        &self.enrolment
    }

    /// Serves the controller until `stop` is set. A connection that ends is made again.
    ///
    /// `note` receives lines about the connection. Tasks go on when the site ends.
    pub fn run(&mut self, stop: &Arc<AtomicBool>, note: &dyn Fn(&str)) {
        let mut wait = RETRY[0];
        while !stop.load(Ordering::SeqCst) {
            let (was, before) = (self.answered_us, wait);
            let error = match self.connect(note).and_then(|mut session| self.serve(&mut session, stop)) {
                Ok(()) => return,
                Err(error) => error,
            };
            // A connection that worked is tried again soon.
            wait = if self.answered_us > was { RETRY[0] } else { (before * 2).min(RETRY[1]) };
            if matches!(error, Error::Refused(_)) {
                wait = REFUSED;
            }
            note(&format!("{error}; next try in {:.1} s", wait.as_secs_f64()));
            self.remove_orphans();
            let mut left = wait;
            while !left.is_zero() && !stop.load(Ordering::SeqCst) {
                let step = left.min(Duration::from_millis(100));
                clock::sleep(step);
                left -= step;
            }
        }
    }

    fn connect(&mut self, note: &dyn Fn(&str)) -> Result<Session, Error> {
        // Its administrator may have changed the file.
        self.allowed = Allowed::read(&self.settings.allowed)?;
        let session = Session::log_in(&self.settings.folder, |hello| {
            hello.program.clone_from(&self.settings.version);
            hello.last = self.memory.last();
        })?;
        note(&format!("connected as {} to {}", self.enrolment.name, self.enrolment.controller));
        if let Some(after) = session.after.filter(|after| *after < self.memory.last()) {
            note(&format!("commands go on after number {after}: none reaches {}", self.memory.last()));
            self.memory.go_on_after(after)?;
        }
        self.examined_us = i64::MIN;
        self.difference = Difference::default();
        self.samples.clear();
        Ok(session)
    }

    fn serve(&mut self, session: &mut Session, stop: &Arc<AtomicBool>) -> Result<(), Error> {
        while !stop.load(Ordering::SeqCst) {
            let began = clock::monotonic_us();
            let tasks = self.tasks()?;
            let is_busy = |report: &TaskReport| {
                matches!(report.state, TaskState::Waiting {} | TaskState::Running { .. })
            };
            // The first exchange measures the clock, and reports the state of the machine, at once.
            let waits = self.results.is_empty() && self.examined_us != i64::MIN;
            let wait_ms = match tasks.iter().any(is_busy) {
                _ if !waits => 0,
                true if self.samples.values().any(Option::is_some) => LIVE_MS,
                true => BUSY_MS,
                false => IDLE_MS,
            };
            let sent = now_us();
            let doctor = (sent >= self.examined_us.saturating_add(EXAMINE_US)).then(|| {
                self.chrony_us = clock::chrony_error_us();
                doctor::examine(&self.settings.folder, &self.allowed)
            });
            if doctor.is_some() {
                self.examined_us = sent;
            }
            let results = batch(&self.results);
            let confirmed = results.len();
            let clock = self.difference.stated(sent, self.chrony_us);
            self.send_samples(session, &tasks)?;
            let sent = now_us();
            let answer = session.send("poll", &Poll { wait_ms, results, tasks, clock, doctor })?;
            let arrived = now_us();
            let turn: Turn = parse(&answer).map_err(Error::Connection)?;
            check_turn(&turn).map_err(Error::Connection)?;
            self.answered_us = arrived;
            self.results.drain(..confirmed);
            self.difference.add(Exchange {
                sent,
                received: turn.received_us,
                answered: turn.sent_us,
                arrived,
            });
            for command in &turn.commands {
                let outcome = self.execute(session, command)?;
                self.results.push(CommandResult { id: command.id, outcome });
            }
            self.children.retain(|_, child| !matches!(child.try_wait(), Ok(Some(_))));
            let took = Duration::from_micros(clock::monotonic_us().abs_diff(began));
            clock::sleep(TURN.saturating_sub(took));
        }
        Ok(())
    }

    /// Sends new live samples of tasks that run, as far as the controller wants them.
    fn send_samples(&mut self, session: &mut Session, tasks: &[TaskReport]) -> Result<(), Error> {
        let runs = |report: &&TaskReport| matches!(report.state, TaskState::Running { .. });
        let running: Vec<u64> = tasks.iter().filter(runs).map(|report| report.task).collect();
        self.samples.retain(|task, _| running.contains(task));
        for task in running {
            let held = self.samples.get(&task).copied().unwrap_or(Some(0));
            let Some(offset) = held else { continue };
            let text = self.task(task).samples(offset);
            if text.is_empty() {
                continue;
            }
            let answer = session.send("live", &Samples { task, offset, text })?;
            let held: Held = parse(&answer).map_err(Error::Connection)?;
            self.samples.insert(task, held.wanted.then_some(held.bytes));
        }
        Ok(())
    }

    fn execute(&mut self, session: &mut Session, command: &Command) -> Result<Outcome, Error> {
        if command.act.is_reading() {
            return self.read(session, command);
        }
        if let Recalled::Known(outcome) = self.memory.recall(command) {
            return Ok(outcome);
        }
        let outcome = match &command.act {
            Act::Set { task, assignment } => {
                self.task(*task).set(assignment).map(|at_s| Outcome::Set { at_s })
            }
            Act::Prepare { task, program: program @ Program::Emulate { files, .. }, .. } => {
                let received = self.receive(session, *task, (program, files))?;
                let done = received.and_then(|()| self.change(&command.act)).map(|()| Outcome::Done {});
                // Those of a task that was refused belong to no task.
                let _ = fs::remove_dir_all(self.inputs());
                done
            }
            act => self.change(act).map(|()| Outcome::Done {}),
        };
        let outcome = outcome.unwrap_or_else(|why| Outcome::Refused { why: shortened(&why) });
        self.memory.remember(command, &outcome)?;
        Ok(outcome)
    }

    /// Receives the files of a scenario into a folder, once the program is permitted.
    ///
    /// The inner error is the reason to refuse the command.
    fn receive(
        &self,
        session: &mut Session,
        task: u64,
        (program, files): (&Program, &[GivenFile]),
    ) -> Result<Result<(), String>, Error> {
        if let Err(why) = self.allowed.check(program).and_then(|()| program::check_names(program)) {
            return Ok(Err(why));
        }
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let kept = folder::size(&self.settings.folder.join("tasks"));
        if kept.saturating_add(bytes) > self.allowed.most_bytes() {
            let why =
                format!("files of {bytes} bytes, and {kept} that the site keeps: more than its file permits");
            return Ok(Err(why));
        }
        let folder = self.inputs();
        let _ = fs::remove_dir_all(&folder);
        folder::make(&folder)?;
        for (number, file) in (0..).zip(files) {
            let path = folder.join(&file.name);
            let lost = |error| Error::file(&path, error);
            let mut target = fs::File::create_new(&path).map_err(lost)?;
            let (mut hash, mut left) = (Sha256::new(), file.bytes);
            for piece in 0.. {
                if left == 0 {
                    break;
                }
                let bytes = match session.piece((task, number, piece))? {
                    Ok(bytes) => bytes,
                    Err(why) => return Ok(Err(format!("{}: {why}", file.name))),
                };
                if bytes.len() as u64 != left.min(PIECE) {
                    return Ok(Err(format!("{}: a piece of another size than expected", file.name)));
                }
                left -= bytes.len() as u64;
                hash.update(&bytes);
                target.write_all(&bytes).map_err(lost)?;
            }
            if hex(&hash.finalize()) != file.sha256 {
                return Ok(Err(format!("{}: another hash than the controller stated", file.name)));
            }
        }
        Ok(Ok(()))
    }

    /// Returns the folder of files until their task is prepared.
    fn inputs(&self) -> PathBuf {
        self.settings.folder.join("inputs")
    }

    fn read(&mut self, session: &mut Session, command: &Command) -> Result<Outcome, Error> {
        let task = self.task(command.act.task());
        let refused = |why: String| Ok(Outcome::Refused { why: shortened(&why) });
        match command.act {
            Act::List { .. } => match task.files() {
                Ok(files) => Ok(Outcome::Files { files }),
                Err(why) => refused(why),
            },
            Act::Fetch { task: number, file, chunk } => {
                let bytes = match task.chunk(file, chunk) {
                    Ok(bytes) => bytes,
                    Err(why) => return refused(why),
                };
                let (status, body) = session.send_chunk((number, file, chunk), &bytes)?;
                match status {
                    200..=299 => Ok(Outcome::Done {}),
                    409 | 413 | 422 => refused(problem(&body)),
                    status => Err(refusal(&self.enrolment.controller, status, &body)),
                }
            }
            _ => refused("not a command that reads".to_owned()),
        }
    }

    fn change(&mut self, act: &Act) -> Result<(), String> {
        let task = self.task(act.task());
        let own = self.settings.program.clone();
        match act {
            Act::Prepare { program, most_s, .. } => {
                let count = self.tasks().map_err(|error| error.to_string())?.len();
                if count >= MAX_TASKS {
                    return Err(format!("the site has {count} tasks: remove some"));
                }
                task.prepare(program, *most_s, &self.allowed, (&own, &self.inputs()))
            }
            Act::Start { task: number, at_us } => {
                let offset_us = self.difference.at(now_us()).map_or(0.0, |(offset, _)| offset);
                let child = task.start(at_us.saturating_add(offset_us.round() as i64), &own)?;
                self.children.extend(child.map(|child| (*number, child)));
                Ok(())
            }
            Act::Stop { .. } => match task.prepared() {
                Ok(Some(_)) => task.stop(),
                _ => Err("no such task".to_owned()),
            },
            Act::Drop { .. } => match task.prepared() {
                Ok(Some(_)) => task.discard(),
                _ => Ok(()),
            },
            Act::List { .. } | Act::Fetch { .. } | Act::Set { .. } => {
                Err("not a command of tasks".to_owned())
            }
        }
    }

    fn task(&self, number: u64) -> Task {
        Task::at(&self.settings.folder.join("tasks").join(number.to_string()))
    }

    /// Returns the tasks with their states.
    fn tasks(&self) -> Result<Vec<TaskReport>, Error> {
        let mut all = Vec::new();
        for number in numbers(&self.settings.folder.join("tasks")) {
            let task = self.task(number);
            // One that was not prepared to the end is not there.
            if task.prepared()?.is_none() {
                continue;
            }
            let state = task.state()?;
            if matches!(state, TaskState::Ended { .. }) && task.is_discarded() {
                let _ = task.remove();
                continue;
            }
            all.push(TaskReport { task: number, state });
        }
        all.truncate(MAX_TASKS);
        Ok(all)
    }

    /// Removes prepared tasks that no controller has started in time.
    fn remove_orphans(&self) {
        if now_us() - self.answered_us < ORPHAN_US {
            return;
        }
        for report in self.tasks().unwrap_or_default() {
            if report.state == (TaskState::Prepared {}) {
                let _ = self.task(report.task).remove();
            }
        }
    }
}

/// Returns the first results, as many as a message holds. Lists of files are long.
fn batch(results: &[CommandResult]) -> Vec<CommandResult> {
    let mut left = MAX_MESSAGE / 2;
    let fits = |result: &&CommandResult| {
        let bytes = serde_json::to_vec(result).map_or(0, |text| text.len());
        let fits = bytes <= left;
        left = left.saturating_sub(bytes);
        fits
    };
    let mut first: Vec<CommandResult> = results.iter().take(MAX_BATCH).take_while(fits).cloned().collect();
    if first.is_empty() {
        first.extend(results.first().cloned());
    }
    first
}

/// Returns the numbers that name folders, ascending.
fn numbers(path: &Path) -> Vec<u64> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut all: Vec<u64> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// Returns a reason of at most 2000 characters.
fn shortened(why: &str) -> String {
    why.chars().take(2000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Entry, sha256};

    #[test]
    fn a_message_holds_as_many_results_as_fit() {
        let done = |id| CommandResult { id, outcome: Outcome::Done {} };
        assert_eq!(batch(&[]), []);
        let many: Vec<_> = (0..100).map(done).collect();
        assert_eq!(batch(&many).len(), MAX_BATCH);
        let entry = |n: usize| Entry {
            path: format!("{n}-{}", "x".repeat(190)),
            bytes: 1,
            sha256: sha256(b"x"),
            chunks: Vec::new(),
        };
        let files: Vec<Entry> = (0..crate::manifest::MAX_FILES).map(entry).collect();
        let long = CommandResult { id: 7, outcome: Outcome::Files { files } };
        let text = serde_json::to_vec(&long).expect("JSON");
        assert!(text.len() > MAX_MESSAGE / 2 && text.len() + 65_536 < MAX_MESSAGE, "{}", text.len());
        let ids = |results: &[CommandResult]| batch(results).iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(ids(&[done(1), long.clone(), done(2)]), [1]);
        assert_eq!(ids(&[long.clone(), long]), [7]);
    }
}
