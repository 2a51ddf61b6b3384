//! Changes of a running emulation: a socket in `/run/bentpipe`, lines of JSON both ways.
//!
//! A request is `{"set": "link.satellite.delay=300 ms"}`, or `{"set": [...]}` with several that hold from one instant on. Its
//! answer is `{"ok": true, "at": 12.5, "notes": []}` or `{"error": "..."}`. That of `{"show": "link.satellite"}` has a `value`.
//! Notes name the directions whose own value a link's has replaced.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bentpipe_assemble::{Changer, Refused, Settings, checked, set_all};
use bentpipe_emu::Control;
use bentpipe_scenario::{Document, Moment, ScenarioError};
use bentpipe_units::{Span, Time};
use serde_json::{Value, json};

use crate::Error;

const FOLDER: &str = "/run/bentpipe";

/// Maximum length of a request.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// Returns the message that a request is not as it should be.
fn expected(why: &str) -> String {
    format!("expected {{\"set\": \"KEY=VALUE\"}}, with several in a list, or {{\"show\": \"KEY\"}}{why}")
}

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

/// Removes the socket of an emulation that was killed.
pub fn remove_socket(process: u32) {
    let _ = fs::remove_file(Path::new(FOLDER).join(format!("{process}.sock")));
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
            let answer = self.answer(&line).unwrap_or_else(|problem| json!({ "error": problem }));
            let mut stream = stream;
            writeln!(stream, "{answer}")?;
        }
    }

    fn answer(&mut self, line: &str) -> Result<Value, String> {
        let request: Value = serde_json::from_str(line).map_err(|error| expected(&format!(": {error}")))?;
        let at =
            |(at, notes): (Span, Vec<String>)| json!({ "ok": true, "at": at.as_secs_f64(), "notes": notes });
        match (&request["set"], &request["show"]) {
            (Value::String(one), Value::Null) => self.set(&[one]).map(at),
            (Value::Array(several), Value::Null) => {
                let texts: Option<Vec<&str>> = several.iter().map(Value::as_str).collect();
                self.set(&texts.filter(|texts| !texts.is_empty()).ok_or_else(|| expected(""))?).map(at)
            }
            (Value::Null, Value::String(key)) => {
                let value = self.show(key)?;
                let now = Span::from_secs_f64(self.start.elapsed().as_secs_f64());
                Ok(json!({ "ok": true, "at": now.as_secs_f64(), "value": value }))
            }
            _ => Err(expected("")),
        }
    }

    /// Sets several keys at one instant, all or none. Returns its time, and the values of directions that were replaced.
    fn set<T: AsRef<str>>(&mut self, assignments: &[T]) -> Result<(Span, Vec<String>), String> {
        let parts = assignments.iter().map(|assignment| {
            let parts = assignment.as_ref().split_once('=');
            let parts = parts.ok_or_else(|| expected(&format!(", not {:?}", assignment.as_ref())))?;
            Ok((parts.0.trim(), parts.1.trim()))
        });
        let parts = parts.collect::<Result<Vec<(&str, &str)>, String>>()?;
        let (at, done) = self.change(&parts)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_MADE.saturating_sub(made.len());
        made.extend(done.made.into_iter().take(room).map(|(key, value)| Made { at, key, value }));
        drop(made);
        Ok((at, done.notes))
    }

    /// Returns the present scenario, defaults too.
    fn whole(&self, key: &str) -> Result<Value, String> {
        let scenario = checked(&self.document).map_err(|refusal| without_places(&refusal, key))?;
        let mut whole = serde_json::to_value(&scenario).map_err(|error| error.to_string())?;
        whole["link"].as_object_mut().into_iter().flatten().for_each(|(_, link)| name_no_channel(link));
        Ok(whole)
    }

    /// Returns the present value of a key with all that is in it, defaults too. The empty key is the whole scenario.
    fn show(&mut self, key: &str) -> Result<Value, String> {
        self.catch_up()?;
        let whole = self.whole(key)?;
        let parts: Vec<&str> = key.split('.').filter(|part| !part.is_empty()).collect();
        let find = |parts: &[&str]| {
            parts.iter().try_fold(&whole, |value, part| match value {
                Value::Array(items) => items.get(part.parse::<usize>().ok()?),
                _ => value.get(part),
            })
        };
        // A direction has what its link says, unless it says its own.
        let of_link = match &parts[..] {
            ["link", name, "forward" | "return", rest @ ..] => Some([&["link", *name], rest].concat()),
            _ => None,
        };
        let value = find(&parts).or_else(|| of_link.as_deref().and_then(find));
        value.cloned().ok_or_else(|| {
            format!("{key}: the scenario has no such key, or no value there and no default: expected a key such as link.NAME")
        })
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

    /// Applies changes, and returns their time.
    fn change(&mut self, parts: &[(&str, &str)]) -> Result<(Span, Settings), String> {
        self.catch_up()?;
        let refused =
            |key: &str, value: &str, problem: String| format!("cannot set {key} to {value}: {problem}");
        let mut document = self.document.clone();
        let settings = set_all(&mut document, parts).map_err(|Refused { key, value, refusal }| {
            refused(&key, &value, without_places(&refusal, &key))
        })?;
        let (key, value) = match parts {
            [(key, value)] => ((*key).to_owned(), (*value).to_owned()),
            several => (join(several.iter().map(|part| part.0)), join(several.iter().map(|part| part.1))),
        };
        let refused = |problem: String| refused(&key, &value, problem);
        let scenario = checked(&document).map_err(|refusal| refused(without_places(&refusal, &key)))?;
        let mut changer = self.changer.clone();
        let changes = changer.change(&scenario);
        let changes = changes.map_err(|problem| refused(of_key(&problem.key, &problem.problem, &key)))?;
        let (done, made) = channel();
        self.control.apply(move |network| {
            let applied = changes.into_iter().try_for_each(|change| change.apply(network));
            let _ = done.send(applied.map(|()| network.now().since(Time::ZERO)));
        });
        let applied = made.recv_timeout(Duration::from_secs(2));
        let applied = applied.map_err(|_| refused("the emulation did not take it".to_owned()))?;
        let at = applied.map_err(|problem| refused(of_key(&problem.key, &problem.problem, &key)))?;
        (self.document, self.changer) = (document, changer);
        Ok((at, settings))
    }
}

/// Shows a link without faults as it can be set: with the channel "none".
fn name_no_channel(link: &mut Value) {
    let is_empty = |channel: Option<&Value>| match channel {
        None | Some(Value::Null) => true,
        Some(channel) => channel.as_array().is_some_and(Vec::is_empty),
    };
    if let Some(link) = link.as_object_mut().filter(|link| is_empty(link.get("channel"))) {
        link.insert("channel".to_owned(), json!("none"));
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.collect::<Vec<_>>().join(", ")
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

/// Changes keys of an emulation that runs, all at one instant or none of them. `emulation` is its process, if several run.
///
/// Returns notes on values of directions that were replaced.
///
/// # Errors
/// Returns an error if none runs, or it refuses a change.
pub fn set(assignments: &[String], emulation: Option<u32>) -> Result<Vec<String>, Error> {
    let answer = ask(&json!({ "set": assignments }), emulation)?;
    let notes = answer["notes"].as_array().into_iter().flatten();
    Ok(notes.filter_map(|note| note.as_str().map(str::to_owned)).collect())
}

/// Returns the present value of a key of an emulation that runs.
///
/// # Errors
/// Returns an error if none runs, or it has no such key.
pub fn show(key: &str, emulation: Option<u32>) -> Result<Value, Error> {
    ask(&json!({ "show": key }), emulation).map(|mut answer| answer["value"].take())
}

fn ask(request: &Value, emulation: Option<u32>) -> Result<Value, Error> {
    let path = find(emulation)?;
    let failed = |error: io::Error| Error::other(format!("{}: {error}", path.display()));
    let line = request.to_string();
    if line.len() as u64 >= MAX_LINE_BYTES {
        return Err(Error::other(format!("too much at once: expected less than {MAX_LINE_BYTES} bytes")));
    }
    let stream = UnixStream::connect(&path).map_err(failed)?;
    writeln!(&stream, "{line}").map_err(failed)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(failed)?;
    let answer: Value = serde_json::from_str(&line).map_err(Error::other)?;
    match answer.get("error").and_then(Value::as_str) {
        Some(problem) => Err(Error::other(problem)),
        None => Ok(answer),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_without_faults_has_the_channel_none() {
        for mut link in [json!({}), json!({ "channel": null }), json!({ "channel": [] })] {
            name_no_channel(&mut link);
            assert_eq!(link["channel"], "none");
        }
        let mut link = json!({ "channel": [{ "kind": "duplication" }] });
        name_no_channel(&mut link);
        assert_eq!(link["channel"][0]["kind"], "duplication");
    }
}
