//! Profiles of version 2 on librohc's streams, and over channels that lose and reorder.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

use std::path::{Path, PathBuf};

use crate::support::streams::decompress_all;
use crate::support::{Dice, Ends, Outcome, corpus, files, name, read_pcap};
use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profile,
    Profiles, ReorderRatio,
};

fn channel(cids: CidSpace) -> Channel {
    // Without TCP, whose packets go by IP then: its profile wants them in order.
    Channel { cids, profiles: Profiles::V2.without(Profile::Tcp), mrru_bytes: 0 }
}

fn cids(name: &str) -> CidSpace {
    if name.contains(".large16383") { CidSpace::LARGE } else { CidSpace::SMALL }
}

fn config(name: &str) -> DecompressorConfig {
    let channel = Channel { cids: cids(name), profiles: Profiles::V2, mrru_bytes: 0 };
    DecompressorConfig { channel, ..DecompressorConfig::default() }
}

#[test]
fn librohcs_unidirectional_streams_are_restored_byte_for_byte() {
    decompress_all("v2", config);
}

#[test]
fn librohcs_optimistic_streams_are_restored_byte_for_byte() {
    decompress_all("v2-omode", config);
}

/// Captures of the corpus, or those kept with the tests.
fn captures() -> Vec<PathBuf> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut found: Vec<PathBuf> =
        files(&kept, ".pcap").into_iter().filter(|path| !name(path).ends_with(".rohc.pcap")).collect();
    if let Some(corpus) = corpus() {
        found = files(&corpus.join("ip"), ".pcap");
        found.extend(files(&corpus.join("synthetic/inputs"), ".pcap"));
    }
    found
}

fn ends(mode: Mode, cids: CidSpace, reorder: ReorderRatio) -> Ends {
    let channel = channel(cids);
    let compressor = CompressorConfig { channel, reorder, ..CompressorConfig::default() };
    let decompressor = DecompressorConfig {
        channel,
        mode,
        peer_confirms: compressor.confirms(),
        ..DecompressorConfig::default()
    };
    Ends::new(compressor, decompressor)
}

/// Without loss every capture comes back, in both modes and with every ratio.
#[test]
fn captures_come_back() {
    let mut packets = 0;
    for capture in captures() {
        let records = read_pcap(&capture);
        for (mode, cids, reorder) in [
            (Mode::Unidirectional, CidSpace::SMALL, ReorderRatio::None),
            (Mode::Optimistic, CidSpace::LARGE, ReorderRatio::Quarter),
            (Mode::Optimistic, CidSpace::SMALL, ReorderRatio::Half),
            (Mode::Unidirectional, CidSpace::LARGE, ReorderRatio::ThreeQuarters),
        ] {
            let mut ends = ends(mode, cids, reorder);
            for (number, record) in records.iter().enumerate() {
                let Some(sent) = ends.compress(record.at, &record.bytes) else { continue };
                let result = ends.arrive(record.at, &record.bytes);
                assert!(
                    matches!(result, Ok(Some(_))) && ends.outcome.wrong == 0,
                    "{} packet {} {mode:?} {reorder:?}: {result:?} {sent:?}",
                    name(&capture),
                    number + 1
                );
                ends.answer(|| false);
                packets += 1;
            }
        }
    }
    println!("{packets} packets");
    assert!(packets > 1000);
}

/// An ESP or RTP packet with this number.
fn numbered(number: u16, timestamp: u32, rtp: bool) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    let transport = if rtp {
        let ts = timestamp.to_be_bytes();
        let mut udp = vec![0x13, 0x8a, 0x13, 0x8a, 0, 20, 0, 0, 0x80, 0, high, low];
        udp.extend_from_slice(&[ts[0], ts[1], ts[2], ts[3], 1, 2, 3, 4]);
        udp
    } else {
        vec![0, 0, 0, 9, 0, 0, high, low, 7, 7, 7, 7]
    };
    let mut packet = vec![0x60, 0, 0, 0, 0, transport.len() as u8, if rtp { 17 } else { 50 }, 64];
    packet.resize(40, 1);
    packet.extend_from_slice(&transport);
    packet
}

/// Numbers that step back before the compressor, a little or far, for one packet or for good, cost nothing.
#[test]
fn numbers_that_fall_back_before_the_compressor_come_back() {
    for (seed, ratio) in (0..400).zip([0, 1, 2, 3].into_iter().cycle()) {
        let ratio =
            [ReorderRatio::None, ReorderRatio::Quarter, ReorderRatio::Half, ReorderRatio::ThreeQuarters]
                [ratio];
        let mode = if seed % 8 < 4 { Mode::Unidirectional } else { Mode::Optimistic };
        let mut dice = Dice(seed + 1);
        let mut ends = ends(mode, CidSpace::SMALL, ratio);
        let (mut number, mut ts) = (1000u16, 0u32);
        for _ in 0..60 {
            let step = if dice.percent(75) { 1 } else { dice.below(90) as i16 - 60 };
            number = number.wrapping_add_signed(step);
            ts = ts.wrapping_add_signed(160 * if dice.percent(95) { i32::from(step) } else { 1 });
            let packet = numbered(number, ts, seed % 3 > 0);
            let sent = ends.compress(std::time::Duration::ZERO, &packet);
            let result = ends.arrive(std::time::Duration::ZERO, &packet);
            assert!(
                matches!(result, Ok(Some(_))) && ends.outcome.wrong == 0,
                "{seed} {mode:?} {ratio:?} {number}: {result:?} {sent:?}"
            );
            ends.answer(|| false);
        }
    }
}

/// Every capture over a channel that loses `burst` packets in a row.
fn lossy(mode: Mode, percent: u64, burst: usize, seed: u64) -> Outcome {
    let mut total = Outcome::default();
    for (number, capture) in captures().iter().enumerate() {
        let mut dice = Dice(seed + number as u64);
        let mut ends = ends(mode, CidSpace::SMALL, ReorderRatio::None);
        let mut left = 0;
        for record in read_pcap(capture).iter().filter(|record| !record.bytes.is_empty()) {
            if left == 0 && dice.percent(percent) {
                left = burst;
            }
            ends.send(record.at, &record.bytes, left > 0);
            left = left.saturating_sub(1);
        }
        total.add(ends.outcome);
    }
    total
}

#[test]
fn losses_cost_no_wrong_packet() {
    for mode in [Mode::Unidirectional, Mode::Optimistic] {
        for (percent, burst) in [(5, 1), (10, 1), (2, 3), (1, 12)] {
            let outcome = lossy(mode, percent, burst, 1);
            println!("{mode:?} {percent} % in bursts of {burst}: {outcome:?}");
            assert_eq!(outcome.wrong, 0, "{mode:?} {percent} % in bursts of {burst}: {outcome:?}");
        }
    }
}

/// Sends the packets of a capture, some of them up to `depth` packets late.
fn reordered(capture: &Path, ratio: ReorderRatio, depth: usize, seed: u64) -> Outcome {
    let config =
        CompressorConfig { channel: channel(CidSpace::LARGE), reorder: ratio, ..CompressorConfig::default() };
    let receiver = DecompressorConfig {
        channel: channel(CidSpace::LARGE),
        peer_confirms: config.confirms(),
        ..DecompressorConfig::default()
    };
    let (mut compressor, mut decompressor) = (Compressor::new(config), Decompressor::new(receiver));
    let mut dice = Dice(seed);
    let mut outcome = Outcome::default();
    // Packets on their way, each with the number of the packet behind which it arrives.
    let mut under_way: Vec<(usize, Vec<u8>, Vec<u8>)> = Vec::new();
    let records = read_pcap(capture);
    for (number, record) in records.iter().enumerate() {
        let mut rohc = Vec::new();
        if compressor.compress(record.at, &record.bytes, &mut rohc).is_err() {
            continue;
        }
        outcome.packets += 1;
        let late = if number > 0 && dice.percent(10) { dice.below(depth as u64 + 1) as usize } else { 0 };
        under_way.push((number + late, rohc, record.bytes.clone()));
        while let Some(at) = under_way.iter().position(|(due, ..)| *due <= number) {
            let (_, rohc, packet) = under_way.remove(at);
            let mut ip = Vec::new();
            match decompressor.decompress(record.at, &rohc, &mut ip) {
                Ok(Some(_)) if ip == packet => outcome.right += 1,
                Ok(Some(_)) => outcome.wrong += 1,
                _ => outcome.refused += 1,
            }
        }
    }
    outcome
}

/// On a channel that reorders by as much as the ratio allows nothing is wrong. What is refused is of two captures, whose numbers
/// jump before the compressor or whose chains change; without a ratio also packets that overtake the CRC-7 behind a pause.
#[test]
fn ratios_keep_their_promise() {
    for (ratio, depth, most_refused) in [
        (ReorderRatio::None, 1, 19),
        (ReorderRatio::Quarter, 3, 2),
        (ReorderRatio::Half, 7, 7),
        (ReorderRatio::ThreeQuarters, 11, 5),
    ] {
        let mut total = Outcome::default();
        for (number, capture) in captures().iter().enumerate() {
            let outcome = reordered(capture, ratio, depth, number as u64);
            total.add(outcome);
        }
        println!("{ratio:?}, up to {depth} late: {total:?}");
        assert_eq!(total.wrong, 0, "{ratio:?}: {total:?}");
        assert!(total.refused <= most_refused, "{ratio:?}: {total:?}");
    }
}
