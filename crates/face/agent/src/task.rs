//! Task of a site: a folder, and the processes that hold its locks.
//!
//! | file | holds |
//! |---|---|
//! | `task.json` | program, arguments and limits, once it is prepared |
//! | `supervisor.lock` | locked by the supervisor for life, as its standard input |
//! | `program.lock` | locked by the program and what it starts, as theirs |
//! | `start.json` | instant of the start, once it was ordered |
//! | `started.json` | start and process of the program |
//! | `stop` | exists once the end was requested |
//! | `end.json` | end of the program |
//! | `live.jsonl` | live samples of an emulation |
//! | `drop` | exists once the task is to be removed after its end |
//! | `work/` | working folder of the program: its files are the results |

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bentpipe_scenario::files::names_file;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::clock::now_us;
use crate::digits::hex;
use crate::job::margin_s;
use crate::manifest::{CHUNK, Entry, MAX_FILES, path_refusal, sha256};
use crate::names::{
    DROP, END, KEY, LIVE, PROGRAM, SCENARIO, START, STARTED, STOP, SUPERVISOR, SUPERVISOR_ERRORS, TASK, WORK,
};
use crate::program;
use crate::protocol::{MAX_SAMPLES, Program, TaskState};
use crate::{Allowed, Error, control, folder};

/// Most bytes of a change.
const MAX_ASSIGNMENT: usize = 20_001;
/// Prepared task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prepared {
    /// Program and arguments, as bytes.
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Time in seconds after which it is ended.
    pub(crate) most_s: u32,
    /// Most bytes of all tasks of the site.
    pub(crate) most_bytes: u64,
    /// Time of the preparation in microseconds since 1970.
    pub(crate) at_us: i64,
    /// Files that the program reads, from the task's folder, and their SHA-256.
    #[serde(default)]
    pub(crate) read: Vec<(String, String)>,
}

/// Start of a task's program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Started {
    pub(crate) started_us: i64,
    pub(crate) pid: i32,
}

/// End of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) ended_us: i64,
    pub(crate) code: Option<i32>,
    pub(crate) why: String,
}

/// Folder of a task.
#[derive(Clone, Debug)]
pub(crate) struct Task(PathBuf);

impl Task {
    pub(crate) fn at(path: &Path) -> Task {
        Task(path.to_owned())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn prepared(&self) -> Result<Option<Prepared>, Error> {
        folder::read_json(&self.file(TASK))
    }

    /// Prepares a program, after the checks of its arguments and of the site's list.
    ///
    /// Files that its scenario names are moved from the folder `inputs`.
    ///
    /// Repeated after a crash, it makes the task again. One that was started stays: a controller whose database was restored
    /// gives its number once more.
    pub(crate) fn prepare(
        &self,
        program: &Program,
        most_s: u32,
        allowed: &Allowed,
        (own, inputs): (&Path, &Path),
    ) -> Result<(), String> {
        allowed.check(program)?;
        program::check(program, inputs)?;
        // What it is given for set-up and report does not count: it ends in time, or is ended.
        let (own_s, permitted_s) = (most_s.saturating_sub(margin_s(program)), allowed.most_s());
        if most_s == 0 || own_s > permitted_s {
            return Err(format!(
                "its time of {own_s} s: expected at most {permitted_s} s, as the site's file says"
            ));
        }
        let arguments = program::arguments(program, allowed, own)?;
        if self.0.exists() {
            let is_new = matches!(self.state(), Ok(TaskState::Prepared {}));
            if !is_new {
                return Err(
                    "the site has another task of this number, with results: remove it there".to_owned()
                );
            }
            self.remove()?;
        }
        // In it are the files that came for the task, too.
        self.check_room(allowed.most_bytes(), folder::size(inputs))?;
        let made = || {
            folder::make(&self.file(WORK))?;
            let mut read = Vec::new();
            if let Program::Emulate { scenario, files, join, .. } = program {
                folder::write(&self.file(WORK).join(SCENARIO), scenario.as_bytes())?;
                read.push((format!("{WORK}/{SCENARIO}"), sha256(scenario.as_bytes())));
                for file in files {
                    let from = inputs.join(&file.name);
                    fs::rename(&from, self.file(WORK).join(&file.name))
                        .map_err(|error| Error::file(&from, error))?;
                    read.push((format!("{WORK}/{}", file.name), file.sha256.to_lowercase()));
                }
                if let Some(join) = join {
                    folder::write(&self.file(KEY), join.key.as_bytes())?;
                    read.push((KEY.to_owned(), sha256(join.key.as_bytes())));
                }
            }
            let prepared = Prepared {
                arguments: arguments.into_iter().map(OsString::into_vec).collect(),
                most_s: most_s.min(permitted_s),
                most_bytes: allowed.most_bytes(),
                at_us: now_us(),
                read,
            };
            folder::write_json(&self.file(TASK), &prepared)
        };
        made().map_err(|error: Error| error.to_string())
    }

    /// Compares the files that the program reads with those that were prepared.
    ///
    /// # Errors
    /// Returns the first that is damaged.
    pub(crate) fn verify(&self, prepared: &Prepared) -> Result<(), String> {
        for (name, hash) in &prepared.read {
            let bytes = fs::read(self.file(name)).map_err(|error| format!("{name}: {error}"))?;
            if sha256(&bytes) != *hash {
                return Err(format!("{name}: damaged: its SHA-256 is not that of the controller"));
            }
        }
        Ok(())
    }

    /// Refuses a task for which the site has no room: all that it keeps counts.
    ///
    /// # Errors
    /// Returns the reason.
    fn check_room(&self, most: u64, further: u64) -> Result<(), String> {
        let kept = self.kept_bytes();
        if kept.saturating_add(further) < most {
            return Ok(());
        }
        Err(format!(
            "the site keeps {kept} bytes of tasks, with {further} further ones, of the {most} that its file permits: remove jobs \
             whose results are there"
        ))
    }

    /// Returns the bytes of all tasks of the site.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.0.parent().map_or(0, folder::size)
    }

    /// Starts the supervisor, which waits for the instant of the site's clock. Repeated, it starts nothing.
    pub(crate) fn start(&self, at_us: i64, own: &Path) -> Result<Option<Child>, String> {
        if self.prepared().map_err(|error| error.to_string())?.is_none() {
            return Err("it was not prepared".to_owned());
        }
        if self.file(START).exists() {
            return Ok(None);
        }
        let spawn = || {
            let path = self.file(SUPERVISOR);
            let Some(lock) = folder::lock(&path)? else { return Ok(None) };
            let errors =
                File::create(self.file(SUPERVISOR_ERRORS)).map_err(|error| Error::file(&path, error))?;
            let mut command = Command::new(own);
            command.args(["site", "task"]).arg(&self.0).arg(at_us.to_string());
            command.process_group(0).stdin(lock).stdout(Stdio::null()).stderr(errors);
            let child = command.spawn().map_err(|error| Error::file(own, error))?;
            folder::write_json(&self.file(START), &at_us)?;
            Ok(Some(child))
        };
        spawn().map_err(|error: Error| error.to_string())
    }

    /// Changes a key of an emulation that runs. Returns the time of the run in seconds.
    pub(crate) fn set(&self, assignment: &str) -> Result<f64, String> {
        if assignment.len() > MAX_ASSIGNMENT || assignment.contains('\n') || names_file(assignment) {
            return Err("expected a key and a value that names no file".to_owned());
        }
        let prepared = self.prepared().map_err(|error| error.to_string())?.ok_or("no such task")?;
        let is_emulation = prepared.arguments.get(1).is_some_and(|word| word == b"emulate");
        let state = self.state().map_err(|error| error.to_string())?;
        // Its lock shows that the number is still that of the program.
        let runs = matches!(state, TaskState::Running { .. }) && folder::is_locked(&self.file(PROGRAM));
        if !is_emulation || !runs {
            return Err("expected an emulation that runs".to_owned());
        }
        let started: Option<Started> =
            folder::read_json(&self.file(STARTED)).map_err(|error| error.to_string())?;
        let pid = started.ok_or("it has not started yet")?.pid;
        control::set(pid, assignment).map_err(|error| error.to_string())
    }

    /// Returns whole lines of live samples from a place in their file on.
    ///
    /// They are at most as many as a message holds.
    pub(crate) fn samples(&self, offset: u64) -> String {
        let mut bytes = Vec::new();
        let read = File::open(self.file(LIVE)).and_then(|mut file| {
            file.seek(SeekFrom::Start(offset))?;
            file.take(MAX_SAMPLES as u64).read_to_end(&mut bytes)
        });
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        bytes.truncate(if read.is_ok() { whole } else { 0 });
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Requests the end.
    pub(crate) fn stop(&self) -> Result<(), String> {
        folder::write(&self.file(STOP), b"").map_err(|error| error.to_string())
    }

    /// Returns the state. What was killed is ended, with the words for it.
    pub(crate) fn state(&self) -> Result<TaskState, Error> {
        if let Some(state) = self.ended()? {
            return Ok(state);
        }
        let started: Option<Started> = folder::read_json(&self.file(STARTED))?;
        let is_supervised = folder::is_locked(&self.file(SUPERVISOR));
        match started {
            Some(started) if is_supervised => Ok(TaskState::Running { started_us: started.started_us }),
            None if is_supervised => Ok(TaskState::Waiting {}),
            None if !self.file(START).exists() => Ok(TaskState::Prepared {}),
            started => self.clean_up(started.as_ref()),
        }
    }

    fn ended(&self) -> Result<Option<TaskState>, Error> {
        let Some(Ended { ended_us, code, why }) = folder::read_json(&self.file(END))? else {
            return Ok(None);
        };
        let started: Option<Started> = folder::read_json(&self.file(STARTED))?;
        let started_us = started.map(|started| started.started_us);
        Ok(Some(TaskState::Ended { started_us, ended_us, code, why }))
    }

    /// Ends a task whose supervisor was killed: the program goes too.
    fn clean_up(&self, started: Option<&Started>) -> Result<TaskState, Error> {
        // Once more: the supervisor may have written it in the meantime.
        if let Some(state) = self.ended()? {
            return Ok(state);
        }
        let pid = started.and_then(|started| Pid::from_raw(started.pid));
        // The lock shows that the number is still that of the program.
        if let Some(pid) = pid.filter(|_| folder::is_locked(&self.file(PROGRAM))) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        let ended = Ended { ended_us: now_us(), code: None, why: "its supervisor was killed".to_owned() };
        folder::write_json(&self.file(END), &ended)?;
        self.ended().map(|state| state.unwrap_or(TaskState::Prepared {}))
    }

    /// Removes the task, or stops it and lets it be removed after its end.
    pub(crate) fn discard(&self) -> Result<(), String> {
        match self.state() {
            Ok(TaskState::Waiting {} | TaskState::Running { .. }) => {
                self.stop()?;
                folder::write(&self.file(DROP), b"").map_err(|error| error.to_string())
            }
            _ => self.remove(),
        }
    }

    /// Returns `true` if the task is to be removed after its end.
    pub(crate) fn is_discarded(&self) -> bool {
        self.file(DROP).exists()
    }

    /// Removes the folder.
    pub(crate) fn remove(&self) -> Result<(), String> {
        match self.state() {
            Ok(TaskState::Waiting {} | TaskState::Running { .. }) => Err("it runs: stop it first".to_owned()),
            Ok(_) => fs::remove_dir_all(&self.0).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns the files that the task left, with their hashes. Links are left out.
    pub(crate) fn files(&self) -> Result<Vec<Entry>, String> {
        let mut paths = Vec::new();
        list(&self.file(WORK), "", &mut paths);
        paths.sort();
        if paths.len() > MAX_FILES {
            return Err(format!("it left over {MAX_FILES} files"));
        }
        paths.into_iter().map(|path| self.entry(path).map_err(|error| error.to_string())).collect()
    }

    fn entry(&self, path: String) -> std::io::Result<Entry> {
        let mut file = File::open(self.file(WORK).join(&path))?;
        let (mut whole, mut chunks, mut bytes) = (Sha256::new(), Vec::new(), 0);
        loop {
            let mut chunk = Vec::new();
            let read = (&mut file).take(CHUNK).read_to_end(&mut chunk)?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            whole.update(&chunk);
            chunks.push(sha256(&chunk));
        }
        if chunks.len() == 1 {
            chunks.clear();
        }
        Ok(Entry { path, bytes, sha256: hex(&whole.finalize()), chunks })
    }

    /// Returns a chunk of a file.
    pub(crate) fn chunk(&self, file: u32, chunk: u32) -> Result<Vec<u8>, String> {
        let mut paths = Vec::new();
        list(&self.file(WORK), "", &mut paths);
        paths.sort();
        let path = paths.get(file as usize).ok_or("no such file")?;
        let read = || {
            let mut file = File::open(self.file(WORK).join(path))?;
            file.seek(SeekFrom::Start(u64::from(chunk) * CHUNK))?;
            let mut bytes = Vec::new();
            file.take(CHUNK).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error: std::io::Error| format!("{path}: {error}"))
    }
}

impl Prepared {
    /// Returns program and arguments.
    pub(crate) fn command(&self) -> Vec<OsString> {
        self.arguments.iter().map(|bytes| std::ffi::OsStr::from_bytes(bytes).to_owned()).collect()
    }
}

/// Lists the regular files below a folder. What a manifest may not name, and links, are left out.
fn list(path: &Path, prefix: &str, into: &mut Vec<String>) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
        let below = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if into.len() > MAX_FILES || path_refusal(&below).is_some() {
            continue;
        }
        if kind.is_dir() {
            list(&entry.path(), &below, into);
        } else if kind.is_file() {
            into.push(below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> (tempfile::TempDir, Task, Allowed) {
        let folder = tempfile::tempdir().expect("a folder");
        let task = Task::at(&folder.path().join("1"));
        let allowed = Allowed::parse("programs = [\"ping\"]\nnetworks = [\"127.0.0.0/8\"]").expect("fine");
        (folder, task, allowed)
    }

    const PING: Program = Program::Ping {
        host: std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        count: 1,
        interval_ms: 1000,
    };

    #[test]
    fn a_task_is_prepared_within_the_limits_of_the_site() {
        let (_folder, task, allowed) = task();
        let own = Path::new("bentpipe");
        assert!(task.start(0, own).is_err_and(|why| why.contains("not prepared")));
        for most_s in [0, 3661] {
            assert!(
                task.prepare(&PING, most_s, &allowed, (own, own))
                    .is_err_and(|why| why.contains("at most 3600 s"))
            );
        }
        // A task counts by its own time, and ends with that of the site.
        let short = Allowed { most_time: Some(bentpipe_units::Span::from_secs(60)), ..allowed.clone() };
        task.prepare(&PING, 63, &short, (own, own)).expect("three packets in a minute");
        assert_eq!(task.prepared().expect("read").expect("prepared").most_s, 60);
        assert!(task.prepare(&PING, 121, &short, (own, own)).is_err());
        task.prepare(&PING, 60, &allowed, (own, own)).expect("prepared");
        assert_eq!(task.state().expect("read"), TaskState::Prepared {});
        task.remove().expect("removed");
        assert!(task.prepared().expect("read").is_none());
    }

    #[test]
    fn a_file_that_is_not_as_it_was_prepared_is_named() {
        let (_folder, task, allowed) = task();
        let own = Path::new("bentpipe");
        task.prepare(&PING, 60, &allowed, (own, own)).expect("prepared");
        let mut prepared = task.prepared().expect("read").expect("prepared");
        let path = task.file(WORK).join(SCENARIO);
        fs::write(&path, b"title = \"x\"").expect("written");
        prepared.read = vec![(format!("{WORK}/{SCENARIO}"), sha256(b"title = \"x\""))];
        task.verify(&prepared).expect("whole");
        fs::write(&path, b"title = \"y\"").expect("written");
        let why = task.verify(&prepared).expect_err("damaged");
        assert!(why.contains("damaged: its SHA-256"), "{why}");
    }

    #[test]
    fn all_tasks_that_a_site_keeps_count_together() {
        let (folder, task, allowed) = task();
        let own = Path::new("bentpipe");
        let allowed = Allowed { most_disk: Some(bentpipe_units::Bytes::new(10_000)), ..allowed };
        task.prepare(&PING, 60, &allowed, (own, own)).expect("prepared");
        fs::write(task.file(WORK).join("a"), vec![0; 9000]).expect("written");
        fs::write(task.file(LIVE), vec![0; 2000]).expect("written");
        let second = Task::at(&folder.path().join("2"));
        let why = second.prepare(&PING, 60, &allowed, (own, own)).expect_err("full");
        assert!(why.contains("of the 10000 that its file permits"), "{why}");
        // The files that come with it count too.
        task.remove().expect("removed");
        let inputs = folder.path().join("inputs");
        fs::create_dir(&inputs).and_then(|()| fs::write(inputs.join("x"), vec![0; 10_000])).expect("written");
        assert!(second.prepare(&PING, 60, &allowed, (own, &inputs)).is_err());
        fs::remove_dir_all(&inputs).expect("removed");
        second.prepare(&PING, 60, &allowed, (own, &inputs)).expect("room again");
    }

    #[test]
    fn a_task_whose_supervisor_was_killed_is_over() {
        let (_folder, task, allowed) = task();
        let own = Path::new("bentpipe");
        task.prepare(&PING, 60, &allowed, (own, own)).expect("prepared");
        let lock = folder::lock(&task.file(SUPERVISOR)).expect("locked");
        folder::write_json(&task.file(START), &5).expect("written");
        assert_eq!(task.state().expect("read"), TaskState::Waiting {});
        assert!(task.remove().is_err_and(|why| why.contains("stop it first")));
        task.discard().expect("asked");
        assert!(task.is_discarded() && task.file(STOP).exists());
        for bad in ["link.l.delay=1 ms", "link.l.channel.file=/etc/shadow"] {
            assert!(task.set(bad).is_err_and(|why| why.starts_with("expected")), "{bad}");
        }
        assert!(task.prepare(&PING, 60, &allowed, (own, own)).is_err_and(|why| why.contains("another task")));
        drop(lock);
        for _ in 0..2 {
            let state = task.state().expect("read");
            assert!(
                matches!(&state, TaskState::Ended { why, code: None, .. } if why.contains("killed")),
                "{state:?}"
            );
        }
    }

    #[test]
    fn files_are_listed_with_their_hashes_and_links_are_not() {
        let (_folder, task, allowed) = task();
        let own = Path::new("bentpipe");
        task.prepare(&PING, 60, &allowed, (own, own)).expect("prepared");
        let work = task.file(WORK);
        fs::create_dir(work.join("sub")).expect("made");
        fs::write(work.join("sub/a"), b"abc").expect("written");
        let large = vec![7_u8; CHUNK as usize + 1];
        fs::write(work.join("b"), &large).expect("written");
        std::os::unix::fs::symlink("/etc/passwd", work.join("planted")).expect("linked");
        let files = task.files().expect("listed");
        crate::manifest::check(&files).expect("as a controller takes it");
        let names: Vec<&str> = files.iter().map(|file| &file.path[..]).collect();
        assert_eq!(names, ["b", "sub/a"]);
        assert_eq!((files[0].bytes, files[0].chunks.len(), files[1].chunks.len()), (CHUNK + 1, 2, 0));
        let last = task.chunk(0, 1).expect("read");
        assert_eq!((last.len(), files[0].chunk_hash(1)), (1, Some(&sha256(&last)[..])));
        assert!(task.chunk(2, 0).is_err());
    }
}
