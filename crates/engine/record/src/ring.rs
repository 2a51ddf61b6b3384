//! Captures of bounded size: files that are used in turn.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use bentpipe_wire::pcap::{LinkType, MAX_RECORD_LEN, Writer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::prefix::{HEADER_LEN, RECORD_HEADER_LEN, whole_capture, whole_records};

/// Number and size of the files of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RingSize {
    /// Maximum length of a file in bytes.
    pub file_bytes: u64,
    /// Number of files.
    pub files: usize,
}

/// Limits of captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureLimits {
    /// Maximum number of bytes of each packet.
    pub snap_len: usize,
    /// Size of the ring of files of each capture. Default: one file without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingSize>,
}

impl CaptureLimits {
    /// Returns the names of the files of a capture.
    pub fn file_names(&self, name: &str) -> Vec<String> {
        match self.ring {
            Some(ring) => (1..=ring.files).map(|n| file_name(name, n)).collect(),
            None => vec![format!("{name}.pcap")],
        }
    }
}

impl From<usize> for CaptureLimits {
    fn from(snap_len: usize) -> CaptureLimits {
        CaptureLimits { snap_len, ring: None }
    }
}

/// Minimum length of a file of a ring in bytes: the longest packet fits.
pub const MIN_RING_FILE_BYTES: u64 = MAX_RECORD_LEN as u64 + HEADER_LEN as u64 + RECORD_HEADER_LEN as u64;

/// Maximum number of files of a ring. Each is open.
pub const MAX_RING_FILES: usize = 100;

/// Bytes that wait to be written together.
const BATCH: usize = 64 << 10;

/// Error returned when a ring's size is not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingSizeError {
    /// A file is too short.
    #[error("files of {0} B: expected {MIN_RING_FILE_BYTES} B or more, so that any packet fits")]
    Short(u64),
    /// The number of files is out of range.
    #[error("{0} files: expected 2 to {MAX_RING_FILES}")]
    Files(usize),
}

impl RingSize {
    /// Creates the size of a ring.
    ///
    /// # Errors
    /// Returns an error if a file is too short for a packet, or there are too few or too many.
    pub fn new(file_bytes: u64, files: usize) -> Result<RingSize, RingSizeError> {
        if file_bytes < MIN_RING_FILE_BYTES {
            return Err(RingSizeError::Short(file_bytes));
        }
        if !(2..=MAX_RING_FILES).contains(&files) {
            return Err(RingSizeError::Files(files));
        }
        Ok(RingSize { file_bytes, files })
    }
}

/// Interval of stamps in nanoseconds within which packets are written together.
const BATCH_NS: u64 = 10_000_000;

/// Pcap files that are used in turn, the oldest for the latest packets.
///
/// All are opened at the start, so a process that may not open files later can write them. Each is a valid capture at any time:
/// records are written whole. The last ones of a burst wait for the next packet, or the end.
#[derive(Debug)]
pub struct Ring(Writer<Turns>);

impl Ring {
    /// Opens the files of a ring for captures at `path`.
    ///
    /// `NAME.pcap` becomes `NAME-1.pcap`, `NAME-2.pcap` and so on.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub fn create(path: &Path, link_type: LinkType, snap_len: usize, size: RingSize) -> io::Result<Ring> {
        let files = (1..=size.files).map(|n| Turn::create(path, n)).collect::<io::Result<Vec<_>>>()?;
        let turns = Turns {
            files,
            current: 0,
            size,
            header: Vec::new(),
            record: Vec::new(),
            batch: Vec::new(),
            batched_ns: 0,
        };
        Writer::with_snap_len(turns, link_type, snap_len).map(Ring)
    }

    /// Writes a packet of `bytes` and then `elided` zeros, at `time_ns` nanoseconds.
    ///
    /// # Errors
    /// Returns the error of the file system, or of the format.
    pub fn write(&mut self, time_ns: u64, bytes: &[u8], elided: usize) -> io::Result<()> {
        self.0.write(time_ns, bytes, elided)
    }

    /// Writes the packets that wait.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// Ends the ring after an error, without `room` bytes of the latest file.
    ///
    /// It keeps half of that file.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub(crate) fn salvage(self, room: u64) -> io::Result<()> {
        let turns = self.0.into_inner();
        let file = &turns.files[turns.current].file;
        file.set_len(whole_capture(file, room)?)
    }

    /// Writes the packets that wait. Returns the files with the number of packets in each, the oldest first.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub fn finish(self) -> io::Result<Vec<(PathBuf, u64)>> {
        let mut turns = self.0.into_inner();
        turns.write_batch()?;
        let (next, count) = (turns.current + 1, turns.files.len());
        let oldest_first = (0..count).map(|n| &turns.files[(next + n) % count]);
        Ok(oldest_first.map(|turn| (turn.path.clone(), turn.packets)).collect())
    }
}

/// Returns the name of a file of a ring, from 1.
fn file_name(name: &str, n: usize) -> String {
    format!("{name}-{n}.pcap")
}

/// File of a ring.
#[derive(Debug)]
struct Turn {
    path: PathBuf,
    file: File,
    len: u64,
    packets: u64,
}

impl Turn {
    fn create(path: &Path, n: usize) -> io::Result<Turn> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let path = path.with_file_name(file_name(&name, n));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(Turn { path, file, len: 0, packets: 0 })
    }

    /// Empties the file, apart from its header.
    fn begin(&mut self, header: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(header)?;
        (self.len, self.packets) = (header.len() as u64, 0);
        Ok(())
    }
}

/// Sink of a writer. Its first bytes are the header of each file, the others are records.
#[derive(Debug)]
struct Turns {
    files: Vec<Turn>,
    current: usize,
    size: RingSize,
    header: Vec<u8>,
    /// Record that is not yet whole.
    record: Vec<u8>,
    /// Records for the present file that wait to be written together.
    batch: Vec<u8>,
    /// Stamp of the first of them.
    batched_ns: u64,
}

impl Turns {
    /// Returns the length of the record that has begun, once its header is there.
    fn record_len(&self) -> usize {
        self.word(2).map_or(RECORD_HEADER_LEN, |kept| RECORD_HEADER_LEN + kept as usize)
    }

    /// Returns a word of the header of the record that has begun.
    fn word(&self, n: usize) -> Option<u32> {
        let header = self.record.get(..RECORD_HEADER_LEN)?;
        header.as_chunks().0.get(n).map(|word| u32::from_be_bytes(*word))
    }

    /// Adds the record that is whole.
    fn commit(&mut self) -> io::Result<()> {
        let stamp_ns =
            self.word(0).zip(self.word(1)).map_or(0, |(s, ns)| u64::from(s) * 1_000_000_000 + u64::from(ns));
        if self.files[self.current].len + self.record.len() as u64 > self.size.file_bytes {
            self.write_batch()?;
            self.current = (self.current + 1) % self.files.len();
            self.files[self.current].begin(&self.header)?;
        }
        if self.batch.is_empty() {
            self.batched_ns = stamp_ns;
        }
        self.batch.extend_from_slice(&self.record);
        let turn = &mut self.files[self.current];
        turn.len += self.record.len() as u64;
        turn.packets += 1;
        self.record.clear();
        match self.batch.len() >= BATCH || stamp_ns.abs_diff(self.batched_ns) >= BATCH_NS {
            true => self.write_batch(),
            false => Ok(()),
        }
    }

    /// Writes the records that wait. After an error the file has those that fitted whole.
    fn write_batch(&mut self) -> io::Result<()> {
        let file = &mut self.files[self.current].file;
        let start = file.stream_position()?;
        let batch = std::mem::take(&mut self.batch);
        if let Err(error) = file.write_all(&batch) {
            let written = file.metadata()?.len().saturating_sub(start) as usize;
            file.set_len(start + whole_records(&batch, written) as u64)?;
            return Err(error);
        }
        self.batch = batch;
        self.batch.clear();
        Ok(())
    }
}

impl Write for Turns {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.header.len() < HEADER_LEN {
            let len = bytes.len().min(HEADER_LEN - self.header.len());
            self.header.extend_from_slice(&bytes[..len]);
            if self.header.len() == HEADER_LEN {
                self.files.iter_mut().try_for_each(|turn| turn.begin(&self.header))?;
            }
            return Ok(len);
        }
        let len = bytes.len().min(self.record_len() - self.record.len());
        self.record.extend_from_slice(&bytes[..len]);
        if self.record.len() >= RECORD_HEADER_LEN && self.record.len() == self.record_len() {
            self.commit()?;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_batch()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bentpipe_testkit::Folder;
    use bentpipe_wire::pcap::Reader;

    fn packets(path: &Path) -> Vec<(u64, usize)> {
        let file = std::fs::File::open(path).expect("it is there");
        let mut reader = Reader::new(io::BufReader::new(file)).expect("a capture");
        let mut found = Vec::new();
        while let Some(record) = reader.next_record().expect("whole records") {
            found.push((record.time_ns.expect("a stamp"), record.original_len));
        }
        found
    }

    #[test]
    fn the_latest_packets_are_kept_within_the_size() {
        let folder = Folder::new();
        let size = RingSize::new(MIN_RING_FILE_BYTES, 3).expect("possible");
        let mut ring = Ring::create(&folder.file("lan.pcap"), LinkType::RAW, 1500, size).expect("a folder");
        let names = ["lan-1.pcap", "lan-2.pcap", "lan-3.pcap"];
        assert_eq!(folder.names(), names);
        let all = |folder: &Folder| -> Vec<(u64, usize)> {
            names.iter().flat_map(|name| packets(&folder.file(name))).collect()
        };
        assert!(all(&folder).is_empty(), "each is a capture from the start");
        let packet = [0x45; 1000];
        for n in 0..2000 {
            ring.write(n * 1_000_000, &packet, 0).expect("written");
            // At any time, every file is whole.
            if n % 97 == 0 {
                all(&folder);
            }
            let lens = names.map(|name| std::fs::metadata(folder.file(name)).expect("there").len());
            assert!(lens.iter().all(|len| *len <= size.file_bytes), "{lens:?}");
        }
        let files = ring.finish().expect("written");
        let mut kept = all(&folder);
        kept.sort_unstable();
        // A file has room for 258 packets; two files are full, and the third has the rest of 2000.
        let count = 2 * 258 + 2000 % 258;
        assert_eq!(kept.len(), count);
        let expected: Vec<_> = (2000 - count as u64..2000).map(|n| (n * 1_000_000, 1000)).collect();
        assert_eq!(kept, expected);
        assert_eq!(files.iter().map(|(_, packets)| packets).sum::<u64>(), count as u64);
        assert_eq!(packets(&files[0].0)[0], expected[0], "the oldest comes first");
    }

    #[test]
    fn a_ring_that_fails_makes_room_and_keeps_whole_packets() {
        let folder = Folder::new();
        let size = RingSize::new(MIN_RING_FILE_BYTES, 2).expect("possible");
        let mut ring = Ring::create(&folder.file("lan.pcap"), LinkType::RAW, 1500, size).expect("a folder");
        (0..100).for_each(|n| ring.write(n * 1_000_000, &[0x45; 1000], 0).expect("written"));
        ring.flush().expect("written");
        ring.salvage(20_000).expect("a file");
        // 20,000 B are 19.7 records of 1016.
        assert_eq!(packets(&folder.file("lan-1.pcap")).len(), 80);
        assert!(packets(&folder.file("lan-2.pcap")).is_empty());
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(RingSize::new(1000, 3).is_err_and(|error| error.to_string().contains("any packet fits")));
        assert_eq!(RingSize::new(1 << 20, 1), Err(RingSizeError::Files(1)));
        assert_eq!(RingSize::new(1 << 20, 101), Err(RingSizeError::Files(101)));
    }
}
