//! Compresses every capture and decompresses it again, in the three modes, with and without loss.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

#[allow(unreachable_pub, reason = "shared between test files")]
mod support;

use std::path::{Path, PathBuf};

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, Mode,
    RtpRule,
};
use support::{Record, corpus, files, name, read_pcap};

/// The ports that the corpus README takes for RTP.
const RTP_PORTS: [u16; 6] = [1234, 36_780, 33_238, 5020, 5002, 5006];

/// A small generator; what is lost is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.roll() % 100 < percent
    }
}

/// What is lost on the way.
#[derive(Clone, Copy, Debug)]
enum Loss {
    None,
    /// Percent of packets, and of feedback.
    Random(u64),
    /// Runs of so many packets, in so many percent of positions.
    Bursts(u64, u64),
}

/// Counts of one stream.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    packets: usize,
    lost: usize,
    right: usize,
    refused: usize,
    wrong: usize,
    bytes_out: usize,
}

fn channel(cids: CidSpace) -> Channel {
    Channel { cids, ..Channel::default() }
}

fn run(records: &[Record], cids: CidSpace, mode: Mode, loss: Loss, what: &str) -> Outcome {
    // A change must survive a burst: it is repeated more often than packets are lost in a row.
    let repeats = if let Loss::Bursts(length, _) = loss { (length + 1).min(16) as u8 } else { 4 };
    let config = CompressorConfig {
        repeats,
        channel: channel(cids),
        rtp: RtpRule::Ports(RTP_PORTS.to_vec()),
        ..CompressorConfig::default()
    };
    let mut compressor = Compressor::new(config);
    let verify = !matches!(loss, Loss::None);
    let config = DecompressorConfig { channel: channel(cids), mode, verify, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    let mut outcome = Outcome::default();
    let mut dice = Dice(records.len() as u64 + 7);
    let mut burst = 0;
    let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
    for record in records {
        rohc.clear();
        ip.clear();
        feedback.clear();
        let Ok(compressed) = compressor.compress(record.at, &record.bytes, &mut rohc) else { continue };
        outcome.packets += 1;
        outcome.bytes_out += rohc.len();
        if lose(loss, &mut dice, &mut burst) {
            outcome.lost += 1;
            continue;
        }
        match decompressor.decompress(record.at, &rohc, &mut ip) {
            Ok(Some(_)) if ip == record.bytes => outcome.right += 1,
            Ok(Some(restored)) => {
                outcome.wrong += 1;
                if std::env::var_os("ROHC_VERBOSE").is_some() {
                    println!(
                        "{what} {mode:?} {loss:?} packet {}: wrong {compressed:?} {restored:?}",
                        outcome.packets
                    );
                }
            }
            result => {
                outcome.refused += 1;
                if std::env::var_os("ROHC_VERBOSE").is_some() {
                    println!(
                        "{what} {mode:?} {loss:?} packet {}: {result:?} {compressed:?}",
                        outcome.packets
                    );
                }
                assert_ne!(result, Err(DecompressError::Truncated), "{what} packet {}", outcome.packets);
            }
        }
        if decompressor.take_feedback(&mut feedback)
            && !matches!(loss, Loss::Random(percent) if dice.percent(percent))
        {
            compressor.feedback(&feedback);
        }
    }
    outcome
}

fn lose(loss: Loss, dice: &mut Dice, burst: &mut u64) -> bool {
    match loss {
        Loss::None => false,
        Loss::Random(percent) => dice.percent(percent),
        Loss::Bursts(length, percent) => {
            if *burst == 0 && dice.percent(percent) {
                *burst = length;
            }
            let lost = *burst > 0;
            *burst = burst.saturating_sub(1);
            lost
        }
    }
}

fn captures(corpus: &Path) -> Vec<PathBuf> {
    let mut captures = files(&corpus.join("ip"), ".pcap");
    captures.extend(files(&corpus.join("synthetic/inputs"), ".pcap"));
    captures
}

const SPACES: [CidSpace; 2] = [CidSpace::Small { max_cid: 15 }, CidSpace::Large { max_cid: 16_383 }];
const MODES: [Mode; 3] = [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable];

#[test]
fn every_capture_comes_back_in_every_mode() {
    let Some(corpus) = corpus() else { return };
    let mut failures = Vec::new();
    for mode in MODES {
        let (mut packets, mut bytes) = (0, 0);
        for capture in captures(&corpus) {
            let records = read_pcap(&capture);
            for cids in SPACES {
                let outcome = run(&records, cids, mode, Loss::None, &name(&capture));
                packets += outcome.right;
                bytes += outcome.bytes_out;
                if outcome.right != outcome.packets {
                    failures.push(format!("{} {mode:?} {cids:?}: {outcome:?}", name(&capture)));
                }
            }
        }
        println!("{mode:?}: {packets} packets right, {bytes} octets");
        assert!(packets > 30_000, "{packets}");
    }
    assert!(failures.is_empty(), "{} streams fail:\n{}", failures.len(), failures.join("\n"));
}

/// No wrong packet is ever delivered, whatever is lost.
#[test]
fn no_wrong_packet_is_delivered_under_loss() {
    let Some(corpus) = corpus() else { return };
    let losses =
        [Loss::Random(5), Loss::Random(10), Loss::Random(20), Loss::Bursts(3, 4), Loss::Bursts(12, 2)];
    let mut failures = Vec::new();
    for mode in MODES {
        for loss in losses {
            let mut total = Outcome::default();
            for capture in captures(&corpus) {
                let outcome = run(&read_pcap(&capture), SPACES[0], mode, loss, &name(&capture));
                if outcome.wrong > 0 {
                    failures.push(format!("{} {mode:?} {loss:?}: {outcome:?}", name(&capture)));
                }
                total.packets += outcome.packets;
                total.lost += outcome.lost;
                total.right += outcome.right;
                total.refused += outcome.refused;
            }
            println!("{mode:?} {loss:?}: {total:?}");
        }
    }
    assert!(failures.is_empty(), "{} streams with wrong packets:\n{}", failures.len(), failures.join("\n"));
}
