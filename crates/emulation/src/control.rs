//! Changes of a running emulation: a socket in `/run/bentpipe`, lines of JSON both ways.
//!
//! A request is `{"set": "link.satellite.delay=300 ms"}`, its answer `{"ok": true, "at": 12.5}` or `{"error": "..."}`.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bentpipe_assemble::{Changer, checked};
use bentpipe_emu::Control;
use bentpipe_scenario::{Document, Moment, ScenarioError};
use bentpipe_units::{Span, Time};
use serde_json::{Value, json};

use crate::Error;

const FOLDER: &str = "/run/bentpipe";

/// Maximum length of a request.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// Socket that accepts changes, removed with the value.
pub(crate) struct Server {
    path: PathBuf,
    made: Arc<Mutex<Vec<Made>>>,
}

/// Change that was made at the socket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Made {
    /// Time of the run.
    pub(crate) at: Span,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Maximum number of changes that the report lists.
const MAX_MADE: usize = 10_000;

impl Server {
    pub(crate) fn start(
        document: &Document,
        timeline: Vec<Moment>,
        changer: Changer,
        control: Control,
    ) -> io::Result<Server> {
        fs::create_dir_all(FOLDER)?;
        let path = Path::new(FOLDER).join(format!("{}.sock", std::process::id()));
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        let (document, events) = (document.without_events(), timeline.into());
        let made = Arc::default();
        let log = Arc::clone(&made);
        let mut target = Target { document, events, changer, control, start: Instant::now(), made: log };
        // It ends with the program; one client is served at a time.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = target.serve(&stream);
            }
        });
        Ok(Server { path, made })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the changes that were made, in the order of time.
    pub(crate) fn made(&self) -> Vec<Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the sockets of emulations whose process is gone.
pub(crate) fn remove_orphans() {
    for entry in fs::read_dir(FOLDER).into_iter().flatten().flatten() {
        let path = entry.path();
        let process = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_file(path);
        }
    }
}

struct Target {
    /// The file as it holds now, without events.
    document: Document,
    /// Events to come.
    events: VecDeque<Moment>,
    changer: Changer,
    control: Control,
    start: Instant,
    made: Arc<Mutex<Vec<Made>>>,
}

impl Target {
    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = String::new();
            if (&mut reader).take(MAX_LINE_BYTES).read_line(&mut line)? == 0 {
                return Ok(());
            }
            let answer = match self.answer(&line) {
                Ok(at) => json!({ "ok": true, "at": at.as_secs_f64() }),
                Err(problem) => json!({ "error": problem }),
            };
            let mut stream = stream;
            writeln!(stream, "{answer}")?;
        }
    }

    fn answer(&mut self, line: &str) -> Result<Span, String> {
        let expected = |why: &str| format!("expected {{\"set\": \"KEY=VALUE\"}}{why}");
        let request: Value = serde_json::from_str(line).map_err(|error| expected(&format!(": {error}")))?;
        let assignment = request.get("set").and_then(Value::as_str).ok_or_else(|| expected(""))?;
        let (key, value) = assignment.split_once('=').ok_or_else(|| expected(""))?;
        let (key, value) = (key.trim(), value.trim());
        let at = self.change(assignment, key);
        let at = at.map_err(|problem| format!("cannot set {key} to {value}: {problem}"))?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() < MAX_MADE {
            made.push(Made { at, key: key.to_owned(), value: value.to_owned() });
        }
        Ok(at)
    }

    /// Records the events that have happened.
    fn catch_up(&mut self) -> Result<(), String> {
        let now = self.start.elapsed().as_nanos();
        while self.events.front().is_some_and(|event| u128::from(event.at.as_nanos()) <= now) {
            let Some(event) = self.events.pop_front() else { break };
            for (key, value) in &event.changes {
                match value {
                    Some(value) => {
                        let placed = self.document.set(&format!("{key}={value}"));
                        placed.map_err(|refusal| without_places(&refusal, key))?;
                    }
                    None => self.document.unset(key),
                }
            }
            let after = self.document.scenario().map_err(|refusal| without_places(&refusal, ""))?;
            self.changer.pass(&after).map_err(|problem| problem.problem)?;
        }
        Ok(())
    }

    /// Applies a change, and returns its time.
    fn change(&mut self, assignment: &str, key: &str) -> Result<Span, String> {
        self.catch_up()?;
        let mut document = self.document.clone();
        document.set(assignment).map_err(|refusal| without_places(&refusal, key))?;
        let scenario = checked(&document).map_err(|refusal| without_places(&refusal, key))?;
        let mut changer = self.changer.clone();
        let changes = changer.change(&scenario);
        let changes = changes.map_err(|problem| of_key(&problem.key, &problem.problem, key))?;
        let (done, made) = channel();
        self.control.apply(move |network| {
            let applied = changes.into_iter().try_for_each(|change| change.apply(network));
            let _ = done.send(applied.map(|()| network.now().since(Time::ZERO)));
        });
        let applied = made.recv_timeout(Duration::from_secs(2));
        let applied = applied.map_err(|_| "the emulation did not take it".to_owned())?;
        let at = applied.map_err(|problem| of_key(&problem.key, &problem.problem, key))?;
        (self.document, self.changer) = (document, changer);
        Ok(at)
    }
}

/// Describes the refusal without lines of the file, which lacks the key asked for.
fn without_places(refusal: &ScenarioError, asked: &str) -> String {
    let diagnostics =
        refusal.diagnostics().iter().map(|diagnostic| of_key(&diagnostic.key, &diagnostic.problem, asked));
    diagnostics.collect::<Vec<_>>().join("; ")
}

/// Describes a problem, with its key if that is another than the one asked for.
fn of_key(key: &str, problem: &str, asked: &str) -> String {
    if key.is_empty() || key == asked { problem.to_owned() } else { format!("{key}: {problem}") }
}

/// Changes keys of an emulation that runs, by its process if several do.
///
/// # Errors
/// Returns an error if none runs, or it refuses a change.
pub fn set(assignments: &[String], emulation: Option<u32>) -> Result<(), Error> {
    let path = find(emulation)?;
    let failed = |error: io::Error| Error::other(format!("{}: {error}", path.display()));
    let stream = UnixStream::connect(&path).map_err(failed)?;
    let mut reader = BufReader::new(&stream);
    for assignment in assignments {
        writeln!(&stream, "{}", json!({ "set": assignment })).map_err(failed)?;
        let mut line = String::new();
        reader.read_line(&mut line).map_err(failed)?;
        let answer: Value = serde_json::from_str(&line).map_err(Error::other)?;
        if let Some(problem) = answer.get("error").and_then(Value::as_str) {
            return Err(Error::other(problem));
        }
    }
    Ok(())
}

fn find(emulation: Option<u32>) -> Result<PathBuf, Error> {
    if let Some(process) = emulation {
        return Ok(Path::new(FOLDER).join(format!("{process}.sock")));
    }
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path());
    let found: Vec<PathBuf> = entries.filter(|path| UnixStream::connect(path).is_ok()).collect();
    match &found[..] {
        [path] => Ok(path.clone()),
        [] => Err(Error::other("no emulation runs")),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            Err(Error::other(format!(
                "several emulations run: {}; choose with --emulation",
                names.join(", ")
            )))
        }
    }
}
