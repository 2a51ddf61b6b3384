//! Compresses every capture and decompresses it again, in the three modes, with and without loss.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::{Dice, Ends, Outcome, Record, corpus, files, name, read_pcap};
use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, DecompressError, Decompressor, DecompressorConfig, Mode,
    PacketType, Profiles, RtpRule,
};

/// The ports that the corpus README takes for RTP.
const RTP_PORTS: [u16; 6] = [1234, 36_780, 33_238, 5020, 5002, 5006];

/// The decompressor of this crate's compressor by default.
fn usual(mode: Mode) -> DecompressorConfig {
    DecompressorConfig { mode, peer_confirms: true, ..DecompressorConfig::default() }
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

fn channel(cids: CidSpace) -> Channel {
    Channel { cids, ..Channel::default() }
}

fn run(records: &[Record], cids: CidSpace, mode: Mode, loss: Loss, what: &str) -> Outcome {
    let verify = !matches!(loss, Loss::None);
    // A change must survive a burst: it is repeated more often than packets are lost in a row.
    let repeats = if let Loss::Bursts(length, _) = loss { (length + 1).min(16) as u8 } else { 4 };
    let config = DecompressorConfig { channel: channel(cids), verify, repeats, ..usual(mode) };
    run_with(records, config, loss, 0, what)
}

/// Sends a capture; what is lost, and where, goes by `seed`.
fn run_with(records: &[Record], config: DecompressorConfig, loss: Loss, seed: u64, what: &str) -> Outcome {
    let (cids, mode, repeats) = (config.channel.cids, config.mode, config.repeats);
    // Packets whose own checksum is wrong are refused by `verify` whether anything is lost or not.
    let sound = if config.verify { sound(records, cids) } else { vec![true; records.len()] };
    let compressor = CompressorConfig {
        repeats,
        channel: channel(cids),
        rtp: RtpRule::Ports(RTP_PORTS.to_vec()),
        ..CompressorConfig::default()
    };
    let mut ends = Ends::new(compressor, config);
    let mut dice = Dice(records.len() as u64 + 7 + seed);
    let mut burst = 0;
    for (record, sound) in records.iter().zip(sound) {
        let Some(compressed) = ends.compress(record.at, &record.bytes) else { continue };
        if lose(loss, &mut dice, &mut burst) {
            ends.outcome.lost += 1;
            continue;
        }
        let result = ends.arrive(record.at, &record.bytes);
        let is_right = matches!(result, Ok(Some(_))) && ends.ip == record.bytes;
        if !is_right && std::env::var_os("ROHC_VERBOSE").is_some() {
            let (packet, difference) = (ends.outcome.packets, difference(&ends.ip, &record.bytes));
            println!("{what} {mode:?} {loss:?} packet {packet}: {compressed:?} {result:?} {difference}");
        }
        match result {
            Ok(Some(_)) => {}
            Err(_) if !sound => ends.outcome.unsound += 1,
            _ => {
                ends.outcome.refused += 1;
                let bridged = !matches!(loss, Loss::Bursts(length, _) if length >= u64::from(repeats));
                let packet = ends.outcome.packets;
                assert!(!bridged || result != Err(DecompressError::Truncated), "{what} packet {packet}");
            }
        }
        ends.answer(|| matches!(loss, Loss::Random(percent) if dice.percent(percent)));
    }
    ends.outcome
}

/// Where two packets differ, for whoever looks for the cause.
fn difference(is: &[u8], was: &[u8]) -> String {
    let octets = is.iter().zip(was).enumerate().filter(|(_, (is, was))| is != was).take(12);
    let octets: Vec<_> = octets.map(|(at, (is, was))| format!("{at}: {is:02x} for {was:02x}")).collect();
    format!("{} octets for {}; {}", is.len(), was.len(), octets.join(", "))
}

/// Which packets `verify` lets through when nothing is lost.
fn sound(records: &[Record], cids: CidSpace) -> Vec<bool> {
    let config = CompressorConfig { channel: channel(cids), ..CompressorConfig::default() };
    let mut compressor =
        Compressor::new(CompressorConfig { rtp: RtpRule::Ports(RTP_PORTS.to_vec()), ..config });
    let config = DecompressorConfig { channel: channel(cids), verify: true, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(DecompressorConfig { damage_threshold: (255, 32), ..config });
    let sound = |record: &Record| {
        let (mut rohc, mut ip) = (Vec::new(), Vec::new());
        compressor.compress(record.at, &record.bytes, &mut rohc).is_ok()
            && matches!(decompressor.decompress(record.at, &rohc, &mut ip), Ok(Some(_)))
    };
    records.iter().map(sound).collect()
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
                bytes += outcome.octets;
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

/// The compressor writes packets of every type there is, so that the round trips above are of all of them. One of TCP's
/// comes so seldom that a confirmation may take its place.
#[test]
fn every_packet_type_is_sent() {
    let Some(corpus) = corpus() else { return };
    let mut missing: BTreeSet<PacketType> = PacketType::ALL.iter().copied().collect();
    let confirmations = [CompressorConfig::default().confirm, 0];
    let versions = [Profiles::V1, Profiles::V2];
    let of_mode = |mode| {
        confirmations.into_iter().flat_map(move |confirm| versions.map(|profiles| (mode, confirm, profiles)))
    };
    let streams = MODES.into_iter().flat_map(of_mode);
    for ((mode, confirm, profiles), capture) in
        streams.flat_map(|stream| captures(&corpus).into_iter().map(move |path| (stream, path)))
    {
        let rtp = RtpRule::Ports(RTP_PORTS.to_vec());
        let channel = Channel { profiles, ..Channel::default() };
        let config = CompressorConfig { channel, rtp, confirm, ..CompressorConfig::default() };
        let mut compressor = Compressor::new(config);
        let mut decompressor =
            Decompressor::new(DecompressorConfig { channel, mode, ..DecompressorConfig::default() });
        for record in read_pcap(&capture) {
            let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            let sent = compressor.compress(record.at, &record.bytes, &mut rohc).expect("anything goes");
            missing.remove(&sent.packet_type);
            let _ = decompressor.decompress(record.at, &rohc, &mut ip);
            decompressor.take_feedback(&mut feedback);
            compressor.feedback(&feedback);
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
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
                total.add(outcome);
            }
            println!("{mode:?} {loss:?}: {total:?}");
            // Within what the repeats bridge, only packets that were lost are lost.
            let bridged = matches!(loss, Loss::Random(..=10) | Loss::Bursts(..=3, _));
            let tolerated = total.packets / if bridged { 1000 } else { 80 };
            assert!(total.refused <= tolerated, "{mode:?} {loss:?}: {total:?}");
        }
    }
    assert!(failures.is_empty(), "{} streams with wrong packets:\n{}", failures.len(), failures.join("\n"));
}

/// What comes of all captures in this mode without verification.
fn unverified(captures: &[PathBuf], config: DecompressorConfig, losses: &[Loss], seed: u64) -> Outcome {
    let mut total = Outcome::default();
    for capture in captures {
        let records = read_pcap(capture);
        for &loss in losses {
            total.add(run_with(&records, config, loss, seed, &name(capture)));
        }
    }
    total
}

/// At the losses that the repeats are for, nothing wrong is delivered without verification either, and caution costs
/// next to nothing.
#[test]
fn no_wrong_packet_is_delivered_without_verification() {
    let Some(corpus) = corpus() else { return };
    let losses = [Loss::Random(5), Loss::Random(10), Loss::Random(20), Loss::Bursts(3, 4)];
    for mode in MODES {
        let config = usual(mode);
        let outcome = unverified(&captures(&corpus), config, &losses, 0);
        println!("{mode:?} {outcome:?}");
        assert_eq!(outcome.wrong, 0, "{mode:?}");
        assert!(outcome.refused * 1000 < outcome.packets, "{mode:?} {outcome:?}");
    }
}

/// Bursts longer than the repeats, no verification: what a CRC of three bits lets through, and that nothing wrong is delivered by
/// default.
#[test]
fn caution_refuses_what_losses_put_in_doubt() {
    let Some(corpus) = corpus() else { return };
    let losses = [Loss::Bursts(8, 2), Loss::Bursts(12, 2), Loss::Bursts(40, 1)];
    for (mode, right) in [(Mode::Unidirectional, 45_281), (Mode::Optimistic, 49_512)] {
        let usual = usual(mode);
        let configs = [
            DecompressorConfig { caution: 0, ..usual },
            usual,
            DecompressorConfig { gaps_are_losses: true, ..usual },
            DecompressorConfig { verify: true, ..usual },
            DecompressorConfig { gaps_are_losses: true, caution: u8::MAX, ..usual },
        ];
        let [without, with, strict, verified, patient] =
            configs.map(|config| unverified(&captures(&corpus), config, &losses, 0));
        println!(
            "{mode:?} without caution {without:?}\n{mode:?} with it {with:?}\n{mode:?} strict {strict:?}"
        );
        println!("{mode:?} verified {verified:?}\n{mode:?} patient {patient:?}");
        // `docs/models/rohc.md` has each of them.
        assert!(without.wrong > 20, "{mode:?}: {}", without.wrong);
        for cautious in [with, strict, verified, patient] {
            assert_eq!(cautious.wrong, 0, "{mode:?}: {cautious:?}");
        }
        // Some packets a burst, not the flow.
        assert!(with.right >= right, "{mode:?}: {} of {}", with.right, without.right);
        assert!(strict.right * 100 > without.right * 97, "{mode:?}: {} of {}", strict.right, without.right);
    }
}

/// The same of TCP at other seeds: what its checksum does not cover, and flows whose checksum was wrong before.
#[test]
fn nothing_wrong_of_tcp_passes_at_any_seed() {
    let Some(corpus) = corpus() else { return };
    let captures: Vec<_> = captures(&corpus).into_iter().filter(|path| name(path).contains("tcp")).collect();
    let losses = [5, 6, 8, 12].map(|length| Loss::Bursts(length, 2));
    for (mode, right) in [(Mode::Unidirectional, 113_526), (Mode::Optimistic, 120_734)] {
        let config = usual(mode);
        let mut total = Outcome::default();
        for seed in 0..6 {
            total.add(unverified(
                &captures,
                config,
                &[&losses[..], &[Loss::Bursts(40, 1)]].concat(),
                1000 * seed,
            ));
        }
        println!("TCP {mode:?} {total:?}");
        assert_eq!(total.wrong, 0, "{mode:?} {total:?}");
        assert!(total.right >= right, "{mode:?} {total:?}");
    }
}

/// Sixteen lost packets look like none to four bits of sequence number. The checksum of the flow, or the time, tells, where
/// there is one.
#[test]
fn a_burst_of_a_whole_wrap_is_noticed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let losses = [Loss::Bursts(16, 2), Loss::Bursts(32, 1)];
    let vectors: Vec<_> =
        files(&folder, ".pcap").into_iter().filter(|path| !name(path).contains(".rohc.")).collect();
    let usual = usual(Mode::Unidirectional);
    let [without, with] = [DecompressorConfig { caution: 0, ..usual }, usual]
        .map(|config| unverified(&vectors, config, &losses, 0));
    println!("without caution {without:?}\nwith it {with:?}");
    assert!(with.wrong * 2 < without.wrong, "{} of {}", with.wrong, without.wrong);
}

/// Two octets of every fifth header are changed. The UDP checksum finds what a CRC of three bits lets through.
#[test]
fn verification_refuses_damaged_packets() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let (mut damaged, mut wrong) = (0, [0; 2]);
    for capture in [
        "synth_rtp4_voice_talkspurts.pcap",
        "synth_rtp6_g711_wraps.pcap",
        "synth_rtp4_video_swapped_ipid.pcap",
    ] {
        let records = read_pcap(&folder.join(capture));
        for (verify, wrong) in [false, true].into_iter().zip(&mut wrong) {
            let mut compressor = Compressor::new(CompressorConfig::default());
            let mut decompressor =
                Decompressor::new(DecompressorConfig { verify, ..DecompressorConfig::default() });
            let mut dice = Dice(5);
            for _ in 0..3 {
                for record in &records {
                    let (mut rohc, mut ip) = (Vec::new(), Vec::new());
                    let compressed =
                        compressor.compress(record.at, &record.bytes, &mut rohc).expect("compresses");
                    if dice.percent(20) {
                        for _ in 0..2 {
                            rohc[dice.roll() as usize % compressed.header_out] = dice.roll() as u8;
                        }
                        damaged += 1;
                    }
                    let result = decompressor.decompress(record.at, &rohc, &mut ip);
                    *wrong += usize::from(matches!(result, Ok(Some(_))) && ip != record.bytes);
                }
            }
        }
    }
    println!("{damaged} damaged headers: {} wrong packets without verification, {} with", wrong[0], wrong[1]);
    assert!(damaged > 500 && wrong[0] > 0, "{damaged} damaged, {wrong:?}");
    assert_eq!(wrong[1], 0);
}
