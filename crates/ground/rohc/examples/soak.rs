//! Feeds both ends packets and feedback that were changed at random.
//!
//! The calls are counted; a panic is a fault.
//!
//! ```text
//! cargo run --release -p bentpipe-rohc --example soak --config profile.release.debug-assertions=true -- 1000000 [SEED]
//! ```
//!
//! The packets are those of the captures in `tests/vectors`. Each round has new ends of one version and kind of CIDs; their contexts live as
//! long as the round, so that changed packets meet the contexts that changed packets left. A call is one packet or feedback that an
//! end is given. Fuzz targets of `fuzz/` look for paths by coverage; this looks at many more calls, along the paths of real streams.

#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profiles,
    ReorderRatio, RtpRule,
};

/// Packets of a round.
const ROUND: usize = 2000;
/// Calls from one line of progress to the next.
const REPORT: u64 = 50_000_000;

/// Generator of Marsaglia's xorshift family.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }

    /// Changes octets at random.
    ///
    /// One bit or octet is changed, doubled or left out, or the end is cut or extended.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        // Most of what is of interest is in front.
        let near = if self.below(4) == 0 { bytes.len() } else { bytes.len().min(24) };
        let at = self.below(near);
        match self.below(8) {
            _ if bytes.is_empty() => bytes.push(self.next() as u8),
            0..=2 => bytes[at] ^= 1 << self.below(8),
            3 => bytes[at] = self.next() as u8,
            4 => bytes.truncate(at),
            5 => bytes.extend((0..self.below(40)).map(|step| (step as u64 * 37) as u8)),
            6 => drop(bytes.remove(at)),
            _ => bytes.insert(at, bytes[at]),
        }
    }
}

/// Packets of all captures of raw IP.
fn packets() -> Result<Vec<Vec<Vec<u8>>>, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut captures = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.to_string_lossy();
        if !name.ends_with(".pcap") || name.contains(".rohc.") {
            continue;
        }
        let file = std::fs::read(&path)?;
        let (mut rest, mut capture) = (file.get(24..).unwrap_or_default(), Vec::new());
        while let Some(len) = rest.get(8..12).and_then(|len| len.first_chunk()) {
            let end = 16 + u32::from_le_bytes(*len) as usize;
            let Some(packet) = rest.get(16..end) else { break };
            capture.push(packet.to_vec());
            rest = &rest[end..];
        }
        captures.push(capture);
    }
    Ok(captures)
}

/// Calls of both ends, and what they gave.
#[derive(Default)]
struct Counts {
    compressed: u64,
    decompressed: u64,
    delivered: u64,
    feedback: u64,
}

impl Counts {
    fn calls(&self) -> u64 {
        self.compressed + self.decompressed + self.feedback
    }
}

/// Runs new ends over packets of a capture.
fn round(random: &mut Random, capture: &[Vec<u8>], counts: &mut Counts) {
    let profiles = if random.below(2) == 0 { Profiles::V1 } else { Profiles::V2 };
    let cids = if random.below(2) == 0 { CidSpace::SMALL } else { CidSpace::Large { max_cid: 300 } };
    let channel = Channel { profiles, cids, mrru_bytes: [0, 4000][random.below(2)] };
    let rtp = if random.below(3) == 0 { RtpRule::Custom(|_| true) } else { RtpRule::Likely };
    let reorder = [ReorderRatio::None, ReorderRatio::Half][random.below(2)];
    let confirm = [0, 8][random.below(2)];
    let config = CompressorConfig { channel, rtp, reorder, confirm, ..CompressorConfig::default() };
    let mut compressor = Compressor::new(config);
    let mode = [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable][random.below(3)];
    let max_contexts = [0, 3][random.below(2)];
    let config = DecompressorConfig {
        channel,
        mode,
        max_contexts,
        peer_confirms: confirm > 0,
        clock_resolution: Duration::from_millis([0, 10][random.below(2)] as u64),
        ..DecompressorConfig::default()
    };
    let mut decompressor = Decompressor::new(config);
    let (changed_in, changed_out) = (random.below(20), 1 + random.below(6));
    let (mut packet, mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let start = random.below(capture.len());
    for (number, original) in capture.iter().cycle().skip(start).take(ROUND).enumerate() {
        let now = Duration::from_millis(20 * number as u64);
        packet.clone_from(original);
        if changed_in > 0 && random.below(changed_in) == 0 {
            random.change(&mut packet);
        }
        rohc.clear();
        let is_sent = compressor.compress(now, &packet, &mut rohc).is_ok();
        counts.compressed += 1;
        // The ROHC packet, and changed copies of it before or behind.
        let mut give = |rohc: &[u8], ip: &mut Vec<u8>| {
            ip.clear();
            counts.decompressed += 1;
            counts.delivered += u64::from(matches!(decompressor.decompress(now, rohc, ip), Ok(Some(_))));
        };
        let copy_first = random.below(2) == 0;
        if is_sent && !copy_first {
            give(&rohc, &mut ip);
        }
        if random.below(changed_out) == 0 {
            let mut changed = rohc.clone();
            (0..=random.below(3)).for_each(|_| random.change(&mut changed));
            give(&changed, &mut ip);
        }
        if is_sent && copy_first {
            give(&rohc, &mut ip);
        }
        feedback.clear();
        if decompressor.take_received_feedback(&mut feedback) {
            compressor.feedback(&feedback);
            counts.feedback += 1;
        }
        feedback.clear();
        if decompressor.take_feedback(&mut feedback) {
            if random.below(4) == 0 {
                random.change(&mut feedback);
            }
            compressor.feedback(&feedback);
            counts.feedback += 1;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let wanted: u64 = arguments.next().ok_or("usage: soak CALLS [SEED]")?.parse()?;
    let seed: u64 = arguments.next().map_or(Ok(1), |seed| seed.parse())?;
    let captures = packets()?;
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut counts, mut reported) = (Counts::default(), 0);
    while counts.calls() < wanted {
        let capture = &captures[random.below(captures.len())];
        // A panic is found again by this state as the generator's.
        let state = random.0;
        let run = std::panic::AssertUnwindSafe(|| round(&mut random, capture, &mut counts));
        if let Err(panic) = std::panic::catch_unwind(run) {
            println!("state {state:#x}, after {} calls", counts.calls());
            std::panic::resume_unwind(panic);
        }
        if counts.calls() / REPORT > reported {
            reported = counts.calls() / REPORT;
            println!("{} million calls", counts.calls() / 1_000_000);
        }
    }
    let Counts { compressed, decompressed, delivered, feedback } = counts;
    println!("seed {seed}: {} calls without a panic", counts.calls());
    println!(
        "{compressed} packets, {decompressed} ROHC packets ({delivered} delivered), {feedback} of feedback"
    );
    Ok(())
}
