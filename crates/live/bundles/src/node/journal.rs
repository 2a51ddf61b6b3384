//! Store on disk: a log in segments that survives a crash at any instant.
//!
//! [`Journal::write`] writes all records since the last one as a batch, which has its length and a CRC-32. What was acknowledged
//! before is there after a crash, and of an incomplete batch nothing is: a bundle is not remembered as seen without being
//! stored. A batch is on disk once [`Journal::synced`] has its number. Those that only remove bundles are not waited for: after a
//! loss of power their bundles are there again. The oldest segment is removed once nothing in it
//! is needed; [`Journal::oldest_entries`] are to be written again before that, when the log has grown to twice its content.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::{Deref, Range};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bentpipe_dtn::node::{Memory, Source};
use bentpipe_wire::dtn::bundle::Bundle;
use foldhash::fast::RandomState;
use rustix::fs::{FlockOperation, flock};

use super::sync::Syncer;

/// Maximum length of a segment in bytes, after which the next one begins. On small disks it is a sixteenth of the disk.
const SEGMENT: u64 = 64 << 20;
/// Least length.
const LEAST_SEGMENT: u64 = 64 << 10;
/// Length of the head of a batch: length and CRC.
const HEAD: usize = 8;
/// Length of the head of a record in a batch: its length.
const RECORD_HEAD: usize = 4;
/// Unit of ends of life by which bundles are forgotten, in milliseconds.
const TICK: u64 = 1000;
/// Maximum number of remembered bundles.
const MAX_SEEN: usize = 1_000_000;

/// Place of a bundle in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Slot {
    /// Bundle to be forwarded.
    Waiting(u64),
    /// Bundle, or fragment, for an endpoint of this node.
    Local(u64),
    /// Bytes of a transfer that is not at its end.
    Part(u64),
}

impl Slot {
    /// Returns the kind of its record, and its number.
    fn record(self) -> (u8, u64) {
        match self {
            Slot::Waiting(id) => (STORED, id),
            Slot::Local(id) => (LOCAL, id),
            Slot::Part(id) => (PART, id),
        }
    }
}

/// Bundle that the store had when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Neighbour that it came from; 0 if none.
    pub from: u64,
    /// Arrival in milliseconds since 2000.
    pub arrival: u64,
    /// Encoded bundle.
    pub bundle: Piece,
}

/// Part of a segment that was read.
#[derive(Clone)]
pub struct Piece {
    segment: Arc<Vec<u8>>,
    place: Range<usize>,
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.segment[self.place.clone()]
    }
}

impl PartialEq for Piece {
    fn eq(&self, other: &Piece) -> bool {
        **self == **other
    }
}

impl Eq for Piece {}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Content of a store that was opened.
#[derive(Debug, Default)]
pub struct Content {
    /// Bundles by their place.
    pub kept: BTreeMap<Slot, Kept>,
    /// First number that no bundle has had.
    pub next: u64,
    /// Bytes that were incomplete at the end, as after a loss of power.
    pub lost: u64,
    /// Bytes that were damaged, and the first segment with some.
    pub damaged: Option<(u64, PathBuf)>,
}

#[derive(Debug, Default)]
struct Segment {
    len: u64,
    live: u64,
}

/// Log of a node.
#[derive(Debug)]
pub struct Journal {
    folder: PathBuf,
    file: File,
    /// Keeps other programs out.
    _lock: File,
    current: u64,
    pending: Vec<u8>,
    segments: BTreeMap<u64, Segment>,
    /// Segment and length of each bundle's record.
    index: HashMap<Slot, (u64, u64), RandomState>,
    /// Remembered bundles, their ends of life in milliseconds and the segments that have them. They are forgotten in units of [`TICK`].
    seen: Memory<u128, (u64, u64)>,
    /// Thread that waits for the disk, if something does.
    syncer: Option<Syncer>,
    /// Files with batches that are not ordered to be on disk.
    unsynced: Vec<File>,
    /// Set if a batch is to be on disk that is not ordered.
    is_due: bool,
    /// Set if a record of the batch that waits is to be on disk.
    is_needed: bool,
    /// Number of batches that are to be on disk.
    written: u64,
    /// Number of those that are.
    synced: u64,
    /// Length after which the next segment begins. As much room stays for removals and compaction.
    segment: u64,
    /// Bytes that were free on the disk when they were last measured.
    free: u64,
}

const STORED: u8 = 1;
const LOCAL: u8 = 2;
const REMOVED: u8 = 3;
const REMOVED_LOCAL: u8 = 4;
const SEEN: u8 = 5;
const PART: u8 = 6;
const REMOVED_PART: u8 = 7;

impl Journal {
    /// Opens the store in a folder, which is made if it does not exist.
    ///
    /// With `is_synced` records count as [`Journal::synced`] only once they survive a loss of power.
    ///
    /// # Errors
    /// Returns an error if the folder is in use by another program or cannot be read or written.
    pub fn open(folder: &Path, is_synced: bool, now: u64) -> io::Result<(Journal, Content)> {
        std::fs::create_dir_all(folder)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::other("the store is in use by another program"))?;
        let numbers = segment_numbers(folder)?;
        let current = numbers.last().map_or(1, |last| last + 1);
        let mut journal = Journal {
            file: open_segment(folder, current)?,
            syncer: is_synced.then(Syncer::start).transpose()?,
            unsynced: if is_synced { vec![File::open(folder)?] } else { Vec::new() },
            is_due: false,
            is_needed: false,
            written: 0,
            synced: 0,
            folder: folder.to_owned(),
            _lock: lock,
            current,
            pending: Vec::new(),
            segments: BTreeMap::from([(current, Segment::default())]),
            index: HashMap::default(),
            seen: Memory::new(MAX_SEEN),
            segment: 0,
            free: 0,
        };
        journal.measure();
        let mut content = Content::default();
        for number in numbers {
            journal.replay(number, now, &mut content)?;
        }
        Ok((journal, content))
    }

    /// Reads a segment.
    fn replay(&mut self, number: u64, now: u64, content: &mut Content) -> io::Result<()> {
        let bytes = Arc::new(std::fs::read(path(&self.folder, number))?);
        self.segments.insert(number, Segment { len: bytes.len() as u64, live: 0 });
        let mut at = 0;
        loop {
            let Some(mut batch) = batch(&bytes[at..]) else {
                let Some(len) = damaged(&bytes[at..]) else { break };
                let found = content.damaged.get_or_insert_with(|| (0, path(&self.folder, number)));
                found.0 += len as u64;
                at += len;
                continue;
            };
            at += HEAD + batch.len();
            while let Some((body, rest)) = record(batch) {
                let end = at - rest.len();
                self.apply((number, &bytes), end - body.len()..end, now, content);
                batch = rest;
            }
        }
        content.lost += (bytes.len() - at) as u64;
        Ok(())
    }

    /// Applies the record at a place of a segment.
    fn apply(
        &mut self,
        (segment, bytes): (u64, &Arc<Vec<u8>>),
        place: Range<usize>,
        now: u64,
        content: &mut Content,
    ) {
        let body = &bytes[place.clone()];
        let (Some(kind), id) = (Kind::of(body), word(body, 0)) else { return };
        let (slot, is_stored) = match kind {
            Kind::Stored(slot) => (slot, body.len() > 25),
            Kind::Removed(slot) => (slot, false),
            Kind::Seen(hash, expiry, source) => {
                if expiry > now {
                    self.insert_seen(hash, (expiry, segment), source);
                }
                return;
            }
        };
        content.next = content.next.max(id.saturating_add(1));
        if is_stored {
            self.enter(slot, segment, (RECORD_HEAD + body.len()) as u64);
            let bundle = Piece { segment: bytes.clone(), place: place.start + 25..place.end };
            content.kept.insert(slot, Kept { from: word(body, 1), arrival: word(body, 2), bundle });
        } else {
            self.unindex(slot);
            content.kept.remove(&slot);
        }
    }

    /// Enters a bundle's record, in place of an earlier one.
    fn enter(&mut self, slot: Slot, segment: u64, len: u64) {
        let old = self.index.insert(slot, (segment, len));
        if let Some((old, len)) = old
            && let Some(old) = self.segments.get_mut(&old)
        {
            old.live -= len;
        }
        if let Some(segment) = self.segments.get_mut(&segment) {
            segment.live += len;
        }
    }

    fn unindex(&mut self, slot: Slot) {
        if let Some((segment, len)) = self.index.remove(&slot)
            && let Some(segment) = self.segments.get_mut(&segment)
        {
            segment.live -= len;
        }
    }

    /// Appends a record and returns its length.
    fn append(&mut self, kind: u8, words: &[u64], data: &[u8]) -> u64 {
        self.append_with((kind, words), data.len(), |out| out.extend(data))
    }

    /// Appends a record and returns its length. `put` appends its data, of `len` bytes.
    fn append_with(
        &mut self,
        (kind, words): (u8, &[u64]),
        len: usize,
        put: impl FnOnce(&mut Vec<u8>),
    ) -> u64 {
        let body = 1 + 8 * words.len() + len;
        self.pending.reserve(HEAD + RECORD_HEAD + body);
        if self.pending.is_empty() {
            self.pending.extend([0; HEAD]);
        }
        self.is_needed |= matches!(kind, STORED | LOCAL | SEEN | PART);
        self.pending.extend((body as u32).to_le_bytes());
        self.pending.push(kind);
        words.iter().for_each(|word| self.pending.extend(word.to_le_bytes()));
        let start = self.pending.len();
        put(&mut self.pending);
        debug_assert_eq!(self.pending.len() - start, len, "the data has the length of its record");
        (RECORD_HEAD + body) as u64
    }

    /// Completes the head of the batch that waits.
    fn seal(&mut self) {
        let (head, body) = self.pending.split_at_mut(HEAD);
        head[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }

    /// Notes a bundle, or a part of one, by its bytes.
    pub fn store(&mut self, slot: Slot, from: u64, arrival: u64, bytes: &[u8]) {
        let (kind, id) = slot.record();
        let len = self.append(kind, &[id, from, arrival], bytes);
        self.enter(slot, self.current, len);
    }

    /// Notes a bundle, which is encoded into the batch.
    pub fn store_bundle(&mut self, slot: Slot, from: u64, arrival: u64, bundle: &Bundle) {
        let (kind, id) = slot.record();
        let words = [id, from, arrival];
        let len = self.append_with((kind, &words), bundle.encoded_len() as usize, |out| bundle.emit(out));
        self.enter(slot, self.current, len);
    }

    /// Notes that a bundle is not needed any more.
    pub fn remove(&mut self, slot: Slot) {
        if self.index.contains_key(&slot) {
            self.unindex(slot);
            match slot {
                Slot::Waiting(id) => self.append(REMOVED, &[id], &[]),
                Slot::Local(id) => self.append(REMOVED_LOCAL, &[id], &[]),
                Slot::Part(id) => self.append(REMOVED_PART, &[id], &[]),
            };
        }
    }

    /// Returns `true` if a bundle with this hash has been noted by [`Journal::note_seen`].
    pub fn has_seen(&self, hash: u128) -> bool {
        self.seen.get(&hash).is_some()
    }

    /// Remembers a bundle of a source until its life ends.
    ///
    /// The end is in milliseconds since 2000.
    pub fn note_seen(&mut self, hash: u128, expiry: u64, source: Source) {
        self.append_seen(hash, expiry, source);
        self.insert_seen(hash, (expiry, self.current), source);
    }

    /// Appends a record. Earlier versions read no source.
    fn append_seen(&mut self, hash: u128, expiry: u64, source: Source) {
        self.append(SEEN, &[hash as u64, (hash >> 64) as u64, expiry, source.code()], &[]);
    }

    fn insert_seen(&mut self, hash: u128, (expiry, segment): (u64, u64), source: Source) {
        self.seen.insert(hash, expiry / TICK, source, (expiry, segment));
    }

    /// Forgets bundles whose life has ended, a second later at most.
    pub fn expire(&mut self, now: u64) {
        self.seen.expire_before(now / TICK);
    }

    /// Returns the number of bundles forgotten before their life ended, since the last call.
    pub fn take_forgotten(&mut self) -> u64 {
        self.seen.take_early()
    }

    /// Measures the room on the disk.
    pub fn measure(&mut self) {
        (self.segment, self.free) = (SEGMENT, u64::MAX);
        // File systems without a known size count as large.
        if let Ok(disk) = rustix::fs::fstatvfs(&self.file)
            && disk.f_blocks > 0
        {
            let total = disk.f_blocks.saturating_mul(disk.f_frsize);
            self.segment = (total / 16).clamp(LEAST_SEGMENT, SEGMENT);
            self.free = disk.f_bavail.saturating_mul(disk.f_frsize);
        }
    }

    /// Returns `true` if the disk has room for a record of this length.
    ///
    /// A segment's length is left for removals and for compaction.
    pub fn has_room(&self, len: u64) -> bool {
        self.free >= self.segment.saturating_add(self.pending.len() as u64).saturating_add(len)
    }

    /// Drops records that wait: bundles in `slots`, and memory of bundles with `hashes`.
    ///
    /// The others still wait for [`Journal::write`].
    pub fn give_up(&mut self, slots: &HashSet<Slot>, hashes: &HashSet<u128>) {
        slots.iter().for_each(|slot| self.unindex(*slot));
        hashes.iter().for_each(|hash| self.seen.remove(hash));
        let pending = std::mem::take(&mut self.pending);
        self.is_needed = false;
        let mut rest = pending.get(HEAD..).unwrap_or_default();
        while let Some((body, after)) = record(rest) {
            rest = after;
            let kind = Kind::of(body);
            let is_given_up = match kind {
                Some(Kind::Seen(hash, ..)) => hashes.contains(&hash),
                Some(Kind::Stored(slot) | Kind::Removed(slot)) => slots.contains(&slot),
                None => false,
            };
            if !is_given_up {
                self.append(body[0], &[], &body[1..]);
            }
        }
    }

    /// Writes all records that wait. A crash of the program leaves all of them or none.
    ///
    /// # Errors
    /// Returns an error if the disk does not accept them; then nothing may be acknowledged. If it [is full](is_full) they still wait.
    pub fn write(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.seal();
        let before = self.segments.get(&self.current).map_or(0, |segment| segment.len);
        if let Err(error) = self.file.write_all(&self.pending) {
            // A batch that is incomplete would hide those after it.
            self.file.set_len(before)?;
            self.measure();
            return Err(error);
        }
        self.free = self.free.saturating_sub(self.pending.len() as u64);
        if let Some(segment) = self.segments.get_mut(&self.current) {
            segment.len += self.pending.len() as u64;
        }
        self.pending.clear();
        self.pending.shrink_to(1 << 20);
        if std::mem::take(&mut self.is_needed) {
            self.written += 1;
            self.is_due = true;
        }
        if self.segments.get(&self.current).is_some_and(|segment| segment.len >= self.segment) {
            match self.begin_segment() {
                // The segment grows on.
                Err(error) if is_full(&error) => {}
                result => result?,
            }
        }
        Ok(())
    }

    fn begin_segment(&mut self) -> io::Result<()> {
        let next = open_segment(&self.folder, self.current + 1)?;
        self.current += 1;
        let full = std::mem::replace(&mut self.file, next);
        self.segments.insert(self.current, Segment::default());
        if self.syncer.is_some() {
            self.unsynced.extend([full, File::open(&self.folder)?]);
        }
        self.measure();
        Ok(())
    }

    /// Writes what waits before the program ends. On a full disk that are removals: their bundles are there again at the next start.
    ///
    /// # Errors
    /// Returns an error if the disk has failed.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.commit() {
            Err(error) if is_full(&error) => Ok(()),
            result => result,
        }
    }

    /// Returns the number of batches that are to be on disk.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of batches that are on disk. The thread that waits for it gets its next order.
    ///
    /// # Errors
    /// Returns an error if the disk has failed; then nothing may be acknowledged.
    pub fn synced(&mut self) -> io::Result<u64> {
        let Some(syncer) = &mut self.syncer else { return Ok(self.written) };
        if let Some(synced) = syncer.poll()? {
            self.synced = synced;
        }
        if self.is_due && !syncer.is_busy() {
            let mut files = std::mem::take(&mut self.unsynced);
            files.push(self.file.try_clone()?);
            syncer.order(self.written, files)?;
            self.is_due = false;
        }
        Ok(self.synced)
    }

    /// Returns what is readable once more batches are on disk.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.syncer.as_ref().map(Syncer::descriptor)
    }

    /// Writes all records that wait, and waits until they are on disk.
    ///
    /// # Errors
    /// Returns an error if the disk does not accept them; then nothing may be acknowledged.
    pub fn commit(&mut self) -> io::Result<()> {
        self.write()?;
        while self.synced()? < self.written {
            let Some(syncer) = &mut self.syncer else { break };
            self.synced = syncer.finish()?;
        }
        Ok(())
    }

    /// Returns the bytes on disk, and those that are needed.
    pub fn bytes(&self) -> (u64, u64) {
        let sum = |part: fn(&Segment) -> u64| self.segments.values().map(part).sum();
        (sum(|segment| segment.len), sum(|segment| segment.live))
    }

    /// Returns the bundles of the oldest segment, if it is to be removed; see [`Journal::remove_oldest`].
    pub fn oldest_entries(&self) -> Option<Vec<Slot>> {
        let (number, segment) = self.segments.first_key_value()?;
        if *number == self.current {
            return None;
        }
        let (len, live) = self.bytes();
        // On a disk that is nearly full the space counts, not the work.
        let most = if self.has_room(self.segment) { 2 * live } else { live };
        let is_due = segment.live == 0 || len > most + 4 * self.segment;
        let slots = self.index.iter().filter(|(_, (at, _))| at == number).map(|(slot, _)| *slot);
        is_due.then(|| slots.collect())
    }

    /// Removes the oldest segment, once its bundles are stored again and committed.
    ///
    /// # Errors
    /// Returns an error if the disk does not accept what is still to be remembered.
    pub fn remove_oldest(&mut self) -> io::Result<()> {
        let Some((&number, _)) = self.segments.first_key_value() else { return Ok(()) };
        let (mut again, current) = (Vec::new(), self.current);
        for (hash, _, source, (expiry, segment)) in self.seen.iter_mut() {
            if *segment == number {
                *segment = current;
                again.push((*hash, *expiry, source));
            }
        }
        again.into_iter().for_each(|(hash, expiry, source)| self.append_seen(hash, expiry, source));
        self.commit()?;
        self.segments.remove(&number);
        std::fs::remove_file(path(&self.folder, number))?;
        self.measure();
        Ok(())
    }
}

/// Returns `true` if the error is a full disk, or a full quota.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Kind of a record.
enum Kind {
    Stored(Slot),
    Removed(Slot),
    /// Hash, end of life and source of a bundle.
    Seen(u128, u64, Source),
}

impl Kind {
    /// Returns the kind of a record. `None` for an unknown one.
    fn of(body: &[u8]) -> Option<Kind> {
        let id = word(body, 0);
        Some(match *body.first()? {
            STORED => Kind::Stored(Slot::Waiting(id)),
            LOCAL => Kind::Stored(Slot::Local(id)),
            PART => Kind::Stored(Slot::Part(id)),
            REMOVED => Kind::Removed(Slot::Waiting(id)),
            REMOVED_LOCAL => Kind::Removed(Slot::Local(id)),
            REMOVED_PART => Kind::Removed(Slot::Part(id)),
            SEEN => {
                let hash = u128::from(id) | u128::from(word(body, 1)) << 64;
                Kind::Seen(hash, word(body, 2), Source::from_code(word(body, 3)))
            }
            _ => return None,
        })
    }
}

/// Returns a number of a record; 0 if it is not there.
fn word(body: &[u8], n: usize) -> u64 {
    let bytes = body.get(1 + 8 * n..9 + 8 * n).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

/// Returns the first record of a batch and the rest.
fn record(batch: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = batch.split_at_checked(RECORD_HEAD)?;
    let len = u32::from_le_bytes(head.try_into().ok()?) as usize;
    rest.split_at_checked(len).filter(|(body, _)| !body.is_empty())
}

/// Returns the records of the first batch, if it is whole and undamaged.
fn batch(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let len = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    let body = rest.get(..len).filter(|body| !body.is_empty())?;
    (crc32fast::hash(body).to_le_bytes() == head[4..]).then_some(body)
}

/// Returns the length of a batch that is there, and damaged.
///
/// `None` if they end before it does. Of a damaged length nothing that follows can be read.
fn damaged(bytes: &[u8]) -> Option<usize> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let len = u32::from_le_bytes(head[..4].try_into().ok()?) as usize;
    match rest.get(..len) {
        // Blocks that the disk never had are read as zeros.
        Some(_) if bytes.iter().all(|byte| *byte == 0) => None,
        Some(_) if len > 0 && (rest.len() == len || batch(&rest[len..]).is_some()) => Some(HEAD + len),
        Some(_) => Some(bytes.len()),
        None => None,
    }
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:012}.log"))
}

fn open_segment(folder: &Path, number: u64) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path(folder, number))
}

/// Returns the numbers of the segments in a folder, in their order.
fn segment_numbers(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number: Option<u64> = name.to_str().and_then(|name| name.strip_suffix(".log")?.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use bentpipe_testkit::Folder;

    use super::*;

    fn open(folder: &Path) -> (Journal, Content) {
        Journal::open(folder, false, 100).expect("a store")
    }

    #[test]
    fn content_survives_and_removals_too() {
        let folder = Folder::new();
        let place = folder.file("store");
        let (mut journal, content) = open(&place);
        assert!(content.kept.is_empty());
        journal.store(Slot::Waiting(3), 7, 50, b"three");
        journal.store(Slot::Waiting(4), 0, 51, b"four");
        journal.store(Slot::Local(4), 0, 52, b"local");
        journal.note_seen(1 << 70, 200, Source::default());
        journal.note_seen(2, 90, Source::default());
        journal.remove(Slot::Waiting(3));
        journal.commit().expect("a disk");
        journal.store(Slot::Waiting(9), 0, 53, b"never committed");
        assert!(Journal::open(&place, false, 100).is_err(), "the store is locked");
        drop(journal);
        let (journal, content) = open(&place);
        let kept: Vec<_> = content.kept.iter().map(|(slot, kept)| (*slot, &*kept.bundle)).collect();
        assert_eq!(kept, [(Slot::Waiting(4), &b"four"[..]), (Slot::Local(4), b"local")]);
        assert_eq!((content.next, content.lost), (5, 0));
        assert!(journal.has_seen(1 << 70) && !journal.has_seen(2), "its life has ended");
    }

    #[test]
    fn a_batch_cut_anywhere_is_lost_whole_and_alone() {
        let folder = Folder::new();
        let place = folder.file("store");
        let (mut journal, _) = open(&place);
        journal.store(Slot::Waiting(1), 0, 0, b"first");
        journal.commit().expect("a disk");
        let whole = std::fs::metadata(path(&place, 1)).expect("a file").len();
        // A bundle must not count as seen where it is not stored, or its repetition would be dropped.
        journal.note_seen(77, 1000, Source::default());
        journal.store(Slot::Waiting(2), 0, 0, b"second");
        journal.commit().expect("a disk");
        drop(journal);
        let bytes = std::fs::read(path(&place, 1)).expect("a file");
        for len in whole as usize..bytes.len() {
            let copy = folder.file(format!("cut-{len}"));
            std::fs::create_dir_all(&copy).expect("a folder");
            std::fs::write(path(&copy, 1), &bytes[..len]).expect("a file");
            let (mut journal, content) = open(&copy);
            assert_eq!(content.kept.keys().collect::<Vec<_>>(), [&Slot::Waiting(1)]);
            assert!(!journal.has_seen(77), "cut at {len}");
            assert_eq!(content.lost, (len as u64) - whole);
            // What is written after the cut is read again.
            journal.store(Slot::Waiting(8), 0, 0, b"later");
            journal.commit().expect("a disk");
            drop(journal);
            assert_eq!(open(&copy).1.kept.len(), 2);
        }
    }

    #[test]
    fn a_flipped_bit_is_damage_and_costs_its_batch_alone() {
        let folder = Folder::new();
        let place = folder.file("store");
        let (mut journal, _) = open(&place);
        let mut ends = vec![0];
        for id in 1..4 {
            journal.store(Slot::Waiting(id), 0, 0, b"some bytes of a bundle");
            journal.commit().expect("a disk");
            ends.push(std::fs::metadata(path(&place, 1)).expect("a file").len() as usize);
        }
        drop(journal);
        let bytes = std::fs::read(path(&place, 1)).expect("a file");
        for bit in 0..8 * bytes.len() {
            let copy = folder.file(format!("flip-{bit}"));
            std::fs::create_dir_all(&copy).expect("a folder");
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(path(&copy, 1), &flipped).expect("a file");
            let content = open(&copy).1;
            let hit = ends.iter().rposition(|end| *end <= bit / 8).expect("a batch");
            let is_length = bit / 8 - ends[hit] < 4;
            let kept = |id: u64| content.kept.contains_key(&Slot::Waiting(id));
            assert!((1..=hit as u64).all(kept), "bit {bit}: those before");
            assert!(!kept(hit as u64 + 1), "bit {bit}");
            if !is_length {
                assert!((hit as u64 + 2..4).all(kept), "bit {bit}: those after");
                let len = (ends[hit + 1] - ends[hit]) as u64;
                assert_eq!((content.damaged, content.lost), (Some((len, path(&copy, 1))), 0), "bit {bit}");
            }
            std::fs::remove_dir_all(&copy).expect("a folder");
        }
    }

    #[test]
    fn the_oldest_segment_goes_when_it_is_not_needed() {
        let folder = Folder::new();
        let place = folder.file("store");
        let (mut journal, _) = open(&place);
        let large = vec![1; 40 << 20];
        journal.note_seen(5, 1000, Source::default());
        for id in 0..4 {
            journal.store(Slot::Waiting(id), 0, 0, &large);
            journal.commit().expect("a disk");
        }
        assert_eq!(journal.oldest_entries(), None);
        journal.remove(Slot::Waiting(0));
        journal.remove(Slot::Waiting(1));
        assert_eq!(journal.oldest_entries(), Some(vec![]));
        journal.remove_oldest().expect("a disk");
        let (len, live) = journal.bytes();
        assert!(len < 90 << 20 && live > 80 << 20, "{len} {live}");
        drop(journal);
        let (journal, content) = open(&place);
        assert!(journal.has_seen(5) && content.kept.len() == 2);
    }
}
