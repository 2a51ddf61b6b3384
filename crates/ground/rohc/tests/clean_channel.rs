//! What a channel without loss must not cost: duplicates of TCP, and header extensions that the compressor does not announce.

#![allow(clippy::print_stdout, reason = "the shared module says what was skipped")]

use std::time::Duration;

use crate::support::{Dice, Ends};
use bentpipe_rohc::{
    Compressor, CompressorConfig, Decompressor, DecompressorConfig, PacketType, Refresh, RtpRule,
};

fn ones_complement(words: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let mut sum: u32 = words.iter().flat_map(|words| words.chunks(2).map(word)).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ipv4(protocol: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let [high, low] = (payload.len() as u16 + 20).to_be_bytes();
    let [id_high, id_low] = id.to_be_bytes();
    let mut head =
        [0x45, 0, high, low, id_high, id_low, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let sum = ones_complement(&[&head]);
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    [&head[..], payload].concat()
}

/// A segment with the Timestamps option and a right checksum.
fn segment(number: u16, timestamp: u32, data: &[u8]) -> Vec<u8> {
    let mut tcp = vec![0x30, 0, 0, 80];
    tcp.extend_from_slice(&(u32::from(number) * data.len() as u32).to_be_bytes());
    tcp.extend_from_slice(&[0, 0, 0, 9, 0x80, 0x10, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10]);
    tcp.extend_from_slice(&timestamp.to_be_bytes());
    tcp.extend_from_slice(&7_u32.to_be_bytes());
    tcp.extend_from_slice(data);
    let pseudo = [10, 0, 0, 1, 10, 0, 0, 2, 0, 6];
    let sum = ones_complement(&[&pseudo, &(tcp.len() as u16).to_be_bytes(), &tcp]);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    ipv4(6, number.wrapping_mul(3), &tcp)
}

/// Every tenth packet arrives twice. The bits of a timestamp count from the next value, so the duplicate reads as another packet
/// and fails; it damages no context.
#[test]
fn duplicates_of_tcp_cost_no_original() {
    for peer_confirms in [false, true] {
        let decompressor = DecompressorConfig { peer_confirms, ..DecompressorConfig::default() };
        let mut ends = Ends::new(CompressorConfig::default(), decompressor);
        let (mut dice, mut now, mut refused) = (Dice(7), Duration::ZERO, 0);
        for number in 0..3000 {
            now += Duration::from_millis(20);
            let packet = segment(number, now.as_millis() as u32, &[dice.roll() as u8; 40]);
            ends.compress(now, &packet).expect("compresses");
            refused += usize::from(!matches!(ends.arrive(now, &packet), Ok(Some(_))));
            if dice.one_in(10) {
                let _ = ends.arrive(now, &packet);
            }
        }
        assert_eq!((refused, ends.outcome.wrong), (0, 0), "{peer_confirms}");
    }
}

/// RTP without UDP checksum.
fn rtp(number: u16, has_extension: bool, data: &[u8]) -> Vec<u8> {
    let mut rtp = vec![0x80 | u8::from(has_extension) << 4, 96];
    rtp.extend_from_slice(&number.to_be_bytes());
    rtp.extend_from_slice(&u32::from(number).to_be_bytes());
    rtp.extend_from_slice(&[1, 2, 3, 4]);
    rtp.extend_from_slice(data);
    let [high, low] = (rtp.len() as u16 + 8).to_be_bytes();
    ipv4(17, number, &[&[0x20, 0, 0x13, 0x8c, high, low, 0, 0][..], &rtp].concat())
}

/// Restores packets of a compressor that sends IR-DYN packets without RX and means X as it was, as librohc does.
fn restored(data: &[u8], keeps: bool) -> Vec<bool> {
    let config = CompressorConfig {
        rtp: RtpRule::Ports(vec![5004]),
        fo_refresh: Refresh::every_packets(25),
        ..CompressorConfig::default()
    };
    // One compressor announces X = 1; the other has the same flow with X = 0 throughout.
    let (mut announcing, mut silent) = (Compressor::new(config.clone()), Compressor::new(config));
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let mut right = Vec::new();
    for number in 0..40 {
        let now = Duration::from_millis(20 * u64::from(number));
        let [mut with, mut without, mut ip] = [const { Vec::new() }; 3];
        let [packet, cleared] = [true, false].map(|has_extension| rtp(number, has_extension, data));
        announcing.compress(now, &packet, &mut with).expect("compresses");
        let kind = silent.compress(now, &cleared, &mut without).expect("compresses").packet_type;
        let is_silent = number > 20 && kind == PacketType::IrDyn;
        decompressor.decompress(now, if is_silent { &without } else { &with }, &mut ip).expect("restored");
        if is_silent {
            right.push(ip == if keeps { packet } else { cleared });
        }
    }
    right
}

#[test]
fn an_ir_dyn_without_rx_keeps_the_extension_that_is_there() {
    assert_eq!(restored(&[0xbe, 0xde, 0, 1, 0x10, 9, 0, 0, 5, 5, 5, 5], true), [true]);
    assert_eq!(restored(&[0x10, 0x03, 0, 1, 1, 1, 9, 0, 5, 5, 5, 5], true), [true]);
}

/// Where the data does not begin with a whole extension, X = 0 is delivered, as RFC 4815 6.5 says.
#[test]
fn an_ir_dyn_without_rx_clears_x_elsewhere() {
    for data in [&[5; 20][..], &[0xbe, 0xde, 0, 9, 0x10, 9, 0, 0], &[0xbe, 0xde, 0, 0, 5, 5], &[]] {
        assert_eq!(restored(data, false), [true], "{data:?}");
    }
}
