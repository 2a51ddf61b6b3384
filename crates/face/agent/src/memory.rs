//! Memory of commands: each has its effect once, however often it arrives.
//!
//! A line has a record, and behind a tab its hash. Those of earlier versions have no hash. Damage is named: of a forgotten command the effect would come again.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::manifest::sha256;
use crate::protocol::{Command, Outcome};
use crate::{Error, folder};

/// Results that are remembered.
const REMEMBERED: usize = 1000;

/// Result of a command, and the command's hash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Record {
    id: u64,
    hash: String,
    outcome: Outcome,
}

/// Memory of the latest commands in a file.
#[derive(Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    file: File,
    records: VecDeque<Record>,
    last: u64,
    /// Lines of the file.
    lines: usize,
}

/// Answer of the memory to a command.
#[derive(Debug, PartialEq)]
pub(crate) enum Recalled {
    /// Command is new.
    New,
    /// Command was executed, or must not be.
    Known(Outcome),
}

fn hash(command: &Command) -> String {
    sha256(&serde_json::to_vec(command).unwrap_or_default())
}

impl Memory {
    /// Opens the memory in a file, or starts one.
    pub(crate) fn open(path: &Path) -> Result<Memory, Error> {
        let wrap = |error| Error::file(path, error);
        let mut records = VecDeque::new();
        let (mut lines, mut damaged) = (0, None);
        if let Ok(file) = File::open(path) {
            for line in BufReader::new(file).split(b'\n') {
                let line = line.map_err(wrap)?;
                lines += 1;
                let Some(record) = parse(&line) else {
                    damaged.get_or_insert(lines);
                    continue;
                };
                push(&mut records, record);
            }
        }
        // The last line may be torn: its command was not answered, and comes again.
        let is_torn = damaged == Some(lines) && !ends_a_line(path);
        if let Some(line) = damaged.filter(|_| !is_torn) {
            let why = format!(
                "damaged in line {line}: commands may have had their effect that are not known; help: end the tasks of this site, and remove the file"
            );
            return Err(Error::settings(path, why));
        }
        let last = records.iter().map(|record: &Record| record.id).max().unwrap_or(0);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(wrap)?;
        let mut memory = Memory { path: path.to_owned(), file, records, last, lines };
        // It cuts a torn line, behind which nothing would be read.
        memory.compact()?;
        Ok(memory)
    }

    /// Returns the highest number of a command that was executed.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Returns what is known of a command that changes something.
    pub(crate) fn recall(&self, command: &Command) -> Recalled {
        let refused = |why: &str| Recalled::Known(Outcome::Refused { why: why.to_owned() });
        match self.records.iter().find(|record| record.id == command.id) {
            Some(record) if record.hash == hash(command) => Recalled::Known(record.outcome.clone()),
            Some(_) => refused("another command had this number"),
            None if command.id <= self.last => refused("an old command"),
            None => Recalled::New,
        }
    }

    /// Remembers the outcome of a command; it is on disk when this returns.
    pub(crate) fn remember(&mut self, command: &Command, outcome: &Outcome) -> Result<(), Error> {
        let record = Record { id: command.id, hash: hash(command), outcome: outcome.clone() };
        let line = line(&record);
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| Error::file(&self.path, error))?;
        self.last = self.last.max(command.id);
        push(&mut self.records, record);
        self.lines += 1;
        if self.lines > 3 * REMEMBERED { self.compact() } else { Ok(()) }
    }

    /// Forgets commands of higher numbers: others go on after this one.
    ///
    /// A controller that was taken over may have sent the highest number, after which no other would be new.
    pub(crate) fn go_on_after(&mut self, number: u64) -> Result<(), Error> {
        self.records.retain(|record| record.id <= number);
        self.last = self.last.min(number);
        self.compact()
    }

    fn compact(&mut self) -> Result<(), Error> {
        folder::write(&self.path, self.records.iter().map(line).collect::<String>().as_bytes())?;
        let open = OpenOptions::new().append(true).open(&self.path);
        self.file = open.map_err(|error| Error::file(&self.path, error))?;
        self.lines = self.records.len();
        Ok(())
    }
}

/// Returns the line of a record.
fn line(record: &Record) -> String {
    let text = serde_json::to_string(record).unwrap_or_default();
    format!("{text}\t{}\n", sha256(text.as_bytes()))
}

/// Returns the record of a line. `None` if it is torn or damaged.
fn parse(line: &[u8]) -> Option<Record> {
    let (text, hash) = match line.iter().position(|byte| *byte == b'\t') {
        Some(tab) => (&line[..tab], Some(&line[tab + 1..])),
        None => (line, None),
    };
    let is_whole = hash.is_none_or(|hash| hash == sha256(text).as_bytes());
    serde_json::from_slice(text).ok().filter(|_| is_whole)
}

/// Returns `true` if the last byte of a file ends a line.
fn ends_a_line(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.last() == Some(&b'\n'))
}

fn push(records: &mut VecDeque<Record>, record: Record) {
    records.push_back(record);
    if records.len() > REMEMBERED {
        records.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Act;

    fn stop(id: u64, task: u64) -> Command {
        Command { id, act: Act::Stop { task } }
    }

    #[test]
    fn a_command_has_its_effect_once_and_an_old_one_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory.jsonl");
        let mut memory = Memory::open(&path).expect("opens");
        assert_eq!(memory.recall(&stop(5, 1)), Recalled::New);
        memory.remember(&stop(5, 1), &Outcome::Done {}).expect("written");
        for _ in 0..2 {
            let memory = Memory::open(&path).expect("opens");
            assert_eq!(memory.recall(&stop(5, 1)), Recalled::Known(Outcome::Done {}));
            let refused = |why: &str| Recalled::Known(Outcome::Refused { why: why.to_owned() });
            assert_eq!(memory.recall(&stop(5, 2)), refused("another command had this number"));
            assert_eq!(memory.recall(&stop(4, 1)), refused("an old command"));
            assert_eq!(memory.last(), 5);
        }
    }

    #[test]
    fn the_highest_number_does_not_block_commands_for_good() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory.jsonl");
        let mut memory = Memory::open(&path).expect("opens");
        memory.remember(&stop(7, 1), &Outcome::Done {}).expect("written");
        memory.remember(&stop(u64::MAX, 1), &Outcome::Done {}).expect("written");
        assert_ne!(memory.recall(&stop(8, 1)), Recalled::New);
        memory.go_on_after(7).expect("written");
        for memory in [memory, Memory::open(&path).expect("opens")] {
            assert_eq!((memory.last(), memory.recall(&stop(8, 1))), (7, Recalled::New));
            assert_eq!(memory.recall(&stop(7, 1)), Recalled::Known(Outcome::Done {}));
        }
    }

    #[test]
    fn a_torn_line_is_forgotten_and_the_file_stays_short() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory.jsonl");
        let mut memory = Memory::open(&path).expect("opens");
        memory.remember(&stop(1, 1), &Outcome::Done {}).expect("written");
        drop(memory);
        let whole = std::fs::read(&path).expect("read");
        std::fs::write(&path, [&whole[..], b"{\"id\":2,\"ha"].concat()).expect("written");
        let mut memory = Memory::open(&path).expect("opens");
        assert_eq!((memory.last(), memory.recall(&stop(2, 1))), (1, Recalled::New));
        for id in 2..2 + 1100 {
            push(&mut memory.records, Record { id, hash: String::new(), outcome: Outcome::Done {} });
        }
        memory.compact().expect("written");
        let memory = Memory::open(&path).expect("opens");
        assert_eq!((memory.records.len(), memory.last()), (REMEMBERED, 1101));
    }

    #[test]
    fn a_flipped_bit_is_named_as_a_forgotten_command_would_come_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory.jsonl");
        let mut memory = Memory::open(&path).expect("opens");
        for id in [5, 6] {
            memory.remember(&stop(id, 1), &Outcome::Done {}).expect("written");
        }
        let whole = std::fs::read(&path).expect("read");
        // The end of the last line flipped is as if it were torn.
        for bit in 0..8 * (whole.len() - 1) {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &flipped).expect("written");
            let why = Memory::open(&path).expect_err("damaged").to_string();
            assert!(why.contains("memory.jsonl: damaged in line"), "{bit}: {why}");
        }
        let old = "{\"id\":5,\"hash\":\"a\",\"outcome\":{\"done\":{}}}\n";
        let text = serde_json::to_string(&Outcome::Done {}).expect("JSON");
        let old = old.replace("{\"done\":{}}", &text);
        std::fs::write(&path, old).expect("written");
        assert_eq!(Memory::open(&path).expect("of an earlier version").last(), 5);
    }
}
