//! The corpus of captures and reference streams, a reader for classic pcap files, and both ends of a channel that loses packets.
#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

pub(crate) mod streams;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bentpipe_rohc::{
    Compressed, Compressor, CompressorConfig, DecompressError, Decompressed, Decompressor, DecompressorConfig,
};

/// A small generator (Knuth's MMIX): what is lost is the same in every run.
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// What became of the packets of one stream, or of many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) packets: usize,
    pub(crate) lost: usize,
    pub(crate) right: usize,
    pub(crate) refused: usize,
    /// Refused, as they are without loss: their own checksum is wrong.
    pub(crate) unsound: usize,
    pub(crate) wrong: usize,
    /// Of the ROHC packets, the lost ones too.
    pub(crate) octets: usize,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.lost += other.lost;
        self.right += other.right;
        self.refused += other.refused;
        self.unsound += other.unsound;
        self.wrong += other.wrong;
        self.octets += other.octets;
    }
}

/// Both ends of a channel, and what became of the packets between them.
pub(crate) struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    pub(crate) outcome: Outcome,
    rohc: Vec<u8>,
    /// What the decompressor made of the last packet.
    pub(crate) ip: Vec<u8>,
    /// Packets sent between one and the arrival of its feedback.
    feedback_delay: usize,
    /// Feedback on its way, each with the number of packets sent when it arrives.
    feedback: VecDeque<(usize, Vec<u8>)>,
}

impl Ends {
    pub(crate) fn new(compressor: CompressorConfig, decompressor: DecompressorConfig) -> Self {
        Self {
            compressor: Compressor::new(compressor),
            decompressor: Decompressor::new(decompressor),
            outcome: Outcome::default(),
            rohc: Vec::new(),
            ip: Vec::new(),
            feedback_delay: 0,
            feedback: VecDeque::new(),
        }
    }

    /// Delays feedback by as many packets.
    pub(crate) fn with_feedback_delay(self, packets: usize) -> Self {
        Self { feedback_delay: packets, ..self }
    }

    /// Sends a packet; `None` if it was none.
    pub(crate) fn compress(&mut self, now: Duration, packet: &[u8]) -> Option<Compressed> {
        self.deliver_feedback();
        self.rohc.clear();
        let compressed = self.compressor.compress(now, packet, &mut self.rohc).ok()?;
        self.outcome.packets += 1;
        self.outcome.octets += self.rohc.len();
        Some(compressed)
    }

    /// The packet just sent, which was `packet`, arrives. What is refused is not counted yet.
    pub(crate) fn arrive(
        &mut self,
        now: Duration,
        packet: &[u8],
    ) -> Result<Option<Decompressed>, DecompressError> {
        self.ip.clear();
        let result = self.decompressor.decompress(now, &self.rohc, &mut self.ip);
        let is_restored = matches!(result, Ok(Some(_)));
        self.outcome.right += usize::from(is_restored && self.ip == packet);
        self.outcome.wrong += usize::from(is_restored && self.ip != packet);
        result
    }

    /// Sends the decompressor's feedback, if there is any, unless it is lost.
    pub(crate) fn answer(&mut self, is_lost: impl FnOnce() -> bool) {
        let mut feedback = Vec::new();
        if self.decompressor.take_feedback(&mut feedback) && !is_lost() {
            self.feedback.push_back((self.outcome.packets + self.feedback_delay, feedback));
        }
        self.deliver_feedback();
    }

    fn deliver_feedback(&mut self) {
        while self.feedback.front().is_some_and(|(due, _)| *due <= self.outcome.packets) {
            let (_, feedback) = self.feedback.pop_front().expect("there is one");
            self.compressor.feedback(&feedback);
        }
    }

    /// Sends a packet, which arrives if it is not lost, and answers it.
    pub(crate) fn send(&mut self, now: Duration, packet: &[u8], is_lost: bool) {
        self.compress(now, packet).expect("compresses");
        if is_lost {
            self.outcome.lost += 1;
            return;
        }
        let result = self.arrive(now, packet);
        self.outcome.refused += usize::from(!matches!(result, Ok(Some(_))));
        self.answer(|| false);
    }
}

/// One record of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) at: Duration,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a classic little-endian pcap file; records that were cut off end it.
pub(crate) fn read_pcap(path: &Path) -> Vec<Record> {
    let file = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse_pcap(&file)
}

pub(crate) fn parse_pcap(file: &[u8]) -> Vec<Record> {
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
pub(crate) fn corpus() -> Option<PathBuf> {
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
pub(crate) fn files(folder: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder that can be read").path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    found.sort();
    found
}

/// zlib's CRC-32.
pub(crate) fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, &octet| {
        (0..8).fold(
            crc ^ u32::from(octet),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

/// A row of a reference stream's table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// From 1; `None` when the compressor refused the packet.
    pub(crate) record: Option<usize>,
    pub(crate) ip_len: usize,
    pub(crate) ip_crc32: u32,
    pub(crate) rohc_len: usize,
    pub(crate) profile: String,
    pub(crate) packet_type: String,
}

pub(crate) fn read_rows(path: &Path) -> Vec<Row> {
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
pub(crate) fn name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
