//! Captures for tests: a pcap reader, and where the ROHC corpus is.

#![allow(dead_code, clippy::print_stderr, reason = "each test uses a part; a test that skips says so")]

use std::fs;
use std::path::{Path, PathBuf};

/// The corpus, `shared/corpus/rohc` in a folder above this crate; `None`, with a word, where it is absent.
pub(crate) fn folder() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().map(|above| above.join("shared/corpus/rohc")).find(|folder| folder.is_dir());
    if found.is_none() {
        eprintln!("skipped: no shared/corpus/rohc above {}", here.display());
    }
    found
}

/// The records of a classic little-endian pcap with microseconds, as the corpus has them.
pub(crate) fn pcap(path: &Path) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    assert_eq!(u32_at(0), 0xa1b2_c3d4, "{}", path.display());
    let (mut at, mut records) = (24, Vec::new());
    while at + 16 <= bytes.len() {
        let len = u32_at(at + 8) as usize;
        records.push(bytes[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    records
}

/// One row of a reference stream's CSV.
#[derive(Debug)]
pub(crate) struct Row {
    /// Index into the ROHC records; `None` where the compressor refused the packet.
    pub(crate) record: Option<usize>,
    pub(crate) crc32: u32,
    pub(crate) profile: u16,
    pub(crate) packet_type: String,
    pub(crate) header_in: u64,
    pub(crate) header_out: u64,
}

pub(crate) fn rows(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Row {
            record: fields[0].parse::<usize>().ok().map(|number| number - 1),
            crc32: u32::from_str_radix(fields[4], 16).unwrap_or(0),
            profile: u16::from_str_radix(fields[9].trim_start_matches("0x"), 16).unwrap_or(0),
            packet_type: fields[10].to_owned(),
            header_in: fields[6].parse().unwrap_or(0),
            header_out: fields[7].parse().unwrap_or(0),
        }
    };
    text.lines().skip(1).map(row).collect()
}

/// Files of `folder` whose names end in `suffix`, sorted.
pub(crate) fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    files.sort();
    files
}

/// The CRC-32 of zlib.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !data.iter().fold(!0, |crc: u32, &octet| (0..8).fold(crc ^ u32::from(octet), step))
}
