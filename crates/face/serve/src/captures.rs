//! Captures of jobs: the files, also while they are written, and their packets in lines.
//!
//! What was captured is hostile: the decoders of `wire` read it, and only their words leave this module.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bentpipe_wire::outline;
use bentpipe_wire::pcap::{Reader, Record};
use schemars::JsonSchema;
use serde::Serialize;

use crate::clock::now_ms;
use crate::gone::Gone;
use crate::left;

/// Most packets of a list.
pub(crate) const MAX_PACKETS: usize = 1000;
/// Most captures that are named.
const MAX_NAMED: usize = 100;
/// Length of the header of a capture, and of that of a packet, in bytes.
const HEADER: u64 = 24;
const RECORD_HEADER: u64 = 16;
/// Time between two looks for another file, in milliseconds.
const LOOK_MS: i64 = 1000;
/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;
/// Most bytes that are read for the next packets of a capture that is followed.
///
/// A run may write faster than they are read.
const STEP: u64 = 32 << 20;

/// Packet of a capture, in a line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Packet {
    /// Number in the capture, from 1.
    pub(crate) number: u64,
    /// Time since the start of the run in seconds.
    pub(crate) time: f64,
    /// Address of the sender; empty if it has none.
    pub(crate) source: String,
    /// Address of the receiver; empty if it has none.
    pub(crate) destination: String,
    /// Innermost protocol that was recognised.
    pub(crate) protocol: String,
    /// Length on the link in bytes.
    pub(crate) length: u64,
    /// Values of its header, or why it cannot be read.
    pub(crate) info: String,
}

/// The last packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Packets {
    /// Captures of the job that `capture` can name.
    pub(crate) captures: Vec<String>,
    /// File that the packets are from; empty if there is none.
    pub(crate) capture: String,
    /// Set while it is written.
    pub(crate) growing: bool,
    /// Number of packets until now.
    pub(crate) total: u64,
    /// Last packets, or those that are new.
    pub(crate) packets: Vec<Packet>,
}

/// File of a capture.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    /// Path below the folder of results.
    path: String,
    /// Name that it has when it is whole.
    name: String,
    is_growing: bool,
    changed: SystemTime,
}

impl Found {
    fn new(path: &str, changed: SystemTime) -> Option<Found> {
        let (_, last) = path.rsplit_once('/').unwrap_or(("", path));
        let growing = last.strip_prefix('.').and_then(|rest| rest.strip_suffix(".part"));
        let growing = growing.and_then(|rest| rest.rsplit_once('.')).map(|(name, _)| name);
        let name = growing.unwrap_or(last).to_owned();
        let is_capture = name.ends_with(".pcap") && !name.starts_with('.');
        is_capture.then_some(Found { path: path.to_owned(), name, is_growing: growing.is_some(), changed })
    }

    /// Returns the name that is shown.
    ///
    /// In a job that is over it is the path in the folder of results.
    fn shown(&self, is_over: bool) -> String {
        let (_, path) = self.path.split_once('/').unwrap_or(("", &self.path));
        if is_over { path.to_owned() } else { self.name.clone() }
    }
}

/// Returns the captures below a folder, those that were changed last first.
fn find(results: &Path) -> Vec<Found> {
    let files = left::list(results);
    let changed = |path: &str| fs::symlink_metadata(results.join(path)).and_then(|data| data.modified()).ok();
    let mut all: Vec<Found> = files.iter().filter_map(|(path, _)| Found::new(path, changed(path)?)).collect();
    all.sort_by(|a, b| (b.is_growing, b.changed, &a.path).cmp(&(a.is_growing, a.changed, &b.path)));
    all
}

/// Returns the names with which captures are asked for.
fn names(all: &[Found], is_over: bool) -> Vec<String> {
    let mut names: Vec<String> = all.iter().map(|found| found.shown(is_over)).collect();
    names.sort();
    names.dedup();
    names.truncate(MAX_NAMED);
    names
}

/// Returns the capture of a path or name; of several of a name the latest. Without one: the latest of all.
fn choose<'a>(all: &'a [Found], wanted: &str) -> Option<&'a Found> {
    let of_path = all.iter().find(|found| !found.is_growing && found.shown(true) == wanted);
    of_path.or_else(|| all.iter().find(|found| wanted.is_empty() || found.name == wanted))
}

/// Reader of a file that may grow.
struct Scanner {
    file: File,
    header: [u8; HEADER as usize],
    offset: u64,
    count: u64,
}

impl Scanner {
    /// Returns `None` while the file has no header.
    fn new(mut file: File) -> Option<Scanner> {
        let mut header = [0; HEADER as usize];
        file.read_exact(&mut header).ok()?;
        Reader::new(&header[..]).ok()?;
        Some(Scanner { file, header, offset: HEADER, count: 0 })
    }

    /// Calls `each` for the whole records between two offsets, with its own. Returns where they end.
    fn walk(
        &mut self,
        (offset, until): (u64, u64),
        gone: &Gone,
        mut each: impl FnMut(u64, &Record<'_>),
    ) -> u64 {
        let mut at = offset;
        if self.file.seek(SeekFrom::Start(offset)).is_err() {
            return at;
        }
        let content = (&self.file).take(until.saturating_sub(offset));
        let source = (&self.header[..]).chain(BufReader::with_capacity(CHUNK, content));
        let Ok(mut reader) = Reader::new(source) else { return at };
        // A record that is not whole yet ends it.
        while !gone.is_set() {
            let Ok(Some(record)) = reader.next_record() else { break };
            each(at, &record);
            at += RECORD_HEADER + record.bytes.len() as u64;
        }
        at
    }

    /// Returns `true` if a whole step may be left.
    fn is_behind(&self) -> bool {
        self.file.metadata().is_ok_and(|data| data.len() >= self.offset + STEP)
    }

    /// Returns the last new packets, at most `most`, of those in the next `bytes`.
    fn read(&mut self, most: usize, bytes: u64, gone: &Gone) -> Vec<Packet> {
        // What is written meanwhile is for the next time.
        let len = self.file.metadata().map_or(0, |data| data.len());
        let until = len.min(self.offset.saturating_add(bytes));
        let mut last: VecDeque<u64> = VecDeque::with_capacity(most + 1);
        let mut count = self.count;
        let end = self.walk((self.offset, until), gone, |at, _| {
            count += 1;
            last.push_back(at);
            if last.len() > most {
                last.pop_front();
            }
        });
        let mut packets = Vec::with_capacity(last.len());
        if let Some(&first) = last.front() {
            let before = count - last.len() as u64;
            self.walk((first, end), gone, |_, record| {
                packets.push(line(before + packets.len() as u64 + 1, record));
            });
        }
        (self.offset, self.count) = (end, count);
        packets
    }
}

fn line(number: u64, record: &Record<'_>) -> Packet {
    let outline = outline::outline(record.link_type, record.bytes, record.original_len);
    Packet {
        number,
        time: record.time_ns.unwrap_or_default() as f64 / 1e9,
        source: outline.source,
        destination: outline.destination,
        protocol: outline.protocol,
        length: record.original_len as u64,
        info: outline.info,
    }
}

/// Captures of a job that are followed.
pub(crate) struct Tail {
    results: PathBuf,
    wanted: String,
    is_over: bool,
    most: usize,
    /// Most bytes of a step.
    bytes: u64,
    current: Option<(Found, Scanner)>,
    looked: Option<i64>,
    /// Device and number of the file that was read to its end.
    ended: Option<(u64, u64)>,
    named: Vec<String>,
}

impl Tail {
    /// Begins with a file of `wanted` name or path, or the latest.
    pub(crate) fn new(results: PathBuf, wanted: String, is_over: bool, most: usize) -> Tail {
        let (named, bytes) = (Vec::new(), u64::MAX);
        Tail { results, wanted, is_over, most, bytes, current: None, looked: None, ended: None, named }
    }

    /// Sets whether a long capture is read in several steps.
    pub(crate) fn set_in_steps(&mut self, is_in_steps: bool) {
        self.bytes = if is_in_steps { STEP } else { u64::MAX };
    }

    /// Returns the path of the file that is read, below the folder of all results.
    pub(crate) fn path(&self) -> Option<&str> {
        self.current.as_ref().map(|(found, _)| &found.path[..])
    }

    /// Returns what is new; `None` if nothing is.
    ///
    /// A run that ended is followed by the next one with a capture of this name. For a request that is given up it reads no further.
    pub(crate) fn step(&mut self, gone: &Gone) -> Option<Packets> {
        let mut is_new = false;
        if self.current.is_none() && self.looked.is_none_or(|looked| now_ms() - looked >= LOOK_MS) {
            self.looked = Some(now_ms());
            is_new = self.look();
        }
        let Some((found, scanner)) = &mut self.current else {
            return is_new.then(|| Packets { captures: self.named.clone(), ..Packets::default() });
        };
        let is_there = self.results.join(&found.path).exists();
        let packets = scanner.read(self.most, self.bytes, gone);
        let news = (is_new || !packets.is_empty() || !is_there).then(|| Packets {
            captures: self.named.clone(),
            capture: found.shown(self.is_over),
            growing: found.is_growing && is_there,
            total: scanner.count,
            packets,
        });
        if !is_there && !scanner.is_behind() {
            self.ended = identity(&scanner.file);
            self.current = None;
        }
        news
    }

    /// Returns `true` if it finds a file, or others than before can be named.
    fn look(&mut self) -> bool {
        let all = find(&self.results);
        let names = names(&all, self.is_over);
        let has_others = names != self.named;
        self.named = names;
        let Some(found) = choose(&all, &self.wanted) else { return has_others };
        let opened = left::root(&self.results).and_then(|root| left::file_in(&root, &found.path)).ok();
        let opened = opened.filter(|file| self.ended.is_none() || identity(file) != self.ended);
        self.current = opened.and_then(Scanner::new).map(|scanner| (found.clone(), scanner));
        has_others || self.current.is_some()
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|data| (data.dev(), data.ino()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use bentpipe_wire::pcap::{LinkType, Writer};

    use super::*;

    fn tail(folder: &Path, wanted: &str) -> Tail {
        Tail::new(folder.to_owned(), wanted.to_owned(), false, 3)
    }

    fn packet(n: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, n, 10, 0, 0, 99];
        bytes.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn a_capture_is_followed_while_it_grows_and_into_the_next_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = folder.path().join("plan/points/p000-s1");
        fs::create_dir_all(&run).expect("made");
        let mut followed = tail(folder.path(), "b-l.pcap");
        assert_eq!(followed.step(&Gone::default()), None);
        let part = run.join(".b-l.pcap.77.part");
        let mut writer = Writer::new(File::create(&part).expect("made"), LinkType::RAW).expect("a header");
        for n in 1..=5 {
            writer.write(u64::from(n) * 1_500_000_000, &packet(n), 0).expect("written");
        }
        followed.looked = None;
        let news = followed.step(&Gone::default()).expect("packets");
        let numbers: Vec<u64> = news.packets.iter().map(|packet| packet.number).collect();
        assert_eq!((numbers, news.total, news.growing), (vec![3, 4, 5], 5, true));
        assert_eq!((&news.capture[..], news.captures), ("b-l.pcap", vec!["b-l.pcap".to_owned()]));
        let last = news.packets.last().expect("packets");
        assert_eq!((last.time, &last.source[..], &last.protocol[..]), (7.5, "10.0.0.5", "UDP"));
        assert_eq!(followed.step(&Gone::default()), None);
        // Half of a packet is none.
        let mut half = writer.into_inner();
        half.write_all(&[&[0; 8][..], &[0, 0, 0, 28, 0, 0, 0, 28, 0x45]].concat()).expect("written");
        assert_eq!(followed.step(&Gone::default()), None);
        fs::rename(&part, run.join("b-l.pcap")).expect("renamed");
        assert!(!followed.step(&Gone::default()).expect("the end").growing);
        followed.looked = None;
        assert_eq!(followed.step(&Gone::default()), None, "it was read");
        let next = folder.path().join("plan/points/p001-s1");
        fs::create_dir_all(&next).expect("made");
        let mut writer =
            Writer::new(File::create(next.join(".b-l.pcap.77.part")).expect("made"), LinkType::RAW)
                .expect("a header");
        writer.write(1, &packet(9), 0).expect("written");
        followed.looked = None;
        assert_eq!(followed.step(&Gone::default()).expect("the next run").packets.len(), 1);
    }

    /// A run that writes as fast as its packets are read does not hold up what is shown.
    #[test]
    fn a_long_capture_is_read_in_steps() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = File::create(folder.path().join("b-l.pcap")).expect("made");
        let mut writer = Writer::new(std::io::BufWriter::new(file), LinkType::RAW).expect("a header");
        let (long, count) = ([&packet(1)[..], &[0; 60_000]].concat(), 2 * STEP / 60_000);
        for n in 0..count {
            writer.write(n, &long, 0).expect("written");
        }
        writer.into_inner().flush().expect("written");
        let mut followed = tail(folder.path(), "");
        followed.set_in_steps(true);
        let first = followed.step(&Gone::default()).expect("packets").total;
        assert!(first > 0 && first < count, "{first} of {count}");
        followed.set_in_steps(false);
        let last = followed.step(&Gone::default()).expect("packets");
        assert_eq!((last.total, last.packets.last().map(|packet| packet.number)), (count, Some(count)));
    }

    #[test]
    fn files_that_are_none_and_links_are_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.pcap"), [7; 4000]).expect("written");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("b.pcap")).expect("linked");
        let named = tail(folder.path(), "").step(&Gone::default()).expect("a name");
        assert_eq!((named.captures, named.packets.len()), (vec!["a.pcap".to_owned()], 0));
        assert_eq!(
            tail(folder.path(), "../../etc/passwd").step(&Gone::default()).map(|news| news.capture),
            Some(String::new())
        );
        for name in [".pcap", ".x.part", "..pcap.1.part", "x.pcap.1.part/y", "a"] {
            assert_eq!(Found::new(name, SystemTime::UNIX_EPOCH).map(|found| found.name), None, "{name}");
        }
    }
}
