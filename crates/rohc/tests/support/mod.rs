//! The corpus of captures and reference streams, and a reader for classic pcap files.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One record of a capture.
#[derive(Clone, Debug)]
pub struct Record {
    pub at: Duration,
    pub bytes: Vec<u8>,
}

/// Reads a classic little-endian pcap file; records that were cut off end it.
pub fn read_pcap(path: &Path) -> Vec<Record> {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_pcap(&file)
}

pub fn parse_pcap(file: &[u8]) -> Vec<Record> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four octets"));
    let mut records = Vec::new();
    let mut at = 24;
    while at + 16 <= file.len() {
        let len = word(at + 8) as usize;
        let when = Duration::new(u64::from(word(at)), word(at + 4).saturating_mul(1000));
        let Some(bytes) = file.get(at + 16..at + 16 + len) else { break };
        records.push(Record { at: when, bytes: bytes.to_vec() });
        at += 16 + len;
    }
    records
}

/// The corpus, in a folder `shared` beside the repository or above it, or where `BENTPIPE_SHARED` says. In CI it must
/// be there.
pub fn corpus() -> Option<PathBuf> {
    let candidates = std::env::var_os("BENTPIPE_SHARED")
        .map(PathBuf::from)
        .into_iter()
        .chain(Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|ancestor| ancestor.join("shared")));
    let found = candidates.map(|shared| shared.join("corpus/rohc")).find(|corpus| corpus.is_dir());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "the ROHC corpus must be there in CI");
        println!("skipped: no folder shared/corpus/rohc beside or above the repository");
    }
    found
}

/// Files of `folder` whose name ends with `suffix`, sorted.
pub fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder that can be read").path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    found.sort();
    found
}

/// zlib's CRC-32.
pub fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, &octet| {
        (0..8).fold(
            crc ^ u32::from(octet),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

/// A row of a reference stream's table.
#[derive(Clone, Debug)]
pub struct Row {
    /// From 1; `None` when the compressor refused the packet.
    pub record: Option<usize>,
    pub ip_len: usize,
    pub ip_crc32: u32,
    pub rohc_len: usize,
    pub profile: String,
    pub packet_type: String,
}

pub fn read_rows(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        Row {
            record: fields[0].parse().ok(),
            ip_len: fields[3].parse().unwrap_or(0),
            ip_crc32: u32::from_str_radix(fields[4], 16).unwrap_or(0),
            rohc_len: fields[5].parse().unwrap_or(0),
            profile: fields[9].to_owned(),
            packet_type: fields[10].to_owned(),
        }
    };
    text.lines().skip(1).map(parse).collect()
}

/// The file name without folder.
pub fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
