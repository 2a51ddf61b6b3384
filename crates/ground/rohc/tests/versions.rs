//! Profiles of version 2 cost little more than those of version 1.

#![allow(clippy::print_stdout, reason = "says what was measured")]
#![allow(clippy::disallowed_methods, reason = "a ratio of two times, taken in turns")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bentpipe_rohc::{
    Channel, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Profile, Profiles, RtpRule,
};

/// Packets that are timed together.
const PIECE: usize = 32;
/// Pieces, of which the fastest counts.
const PIECES: usize = 400;
/// Most that version 2 may take of version 1's time.
const BOUND: f64 = 1.3;

/// Both ends with the profiles of one version.
struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    stream: Vec<u8>,
    ends: Vec<usize>,
    restored: Vec<u8>,
    /// Fastest pieces of the compressor and of the decompressor.
    fastest: [Duration; 2],
    profile: Profile,
}

impl Ends {
    fn new(profiles: Profiles, profile: Profile) -> Self {
        let channel = Channel { profiles, ..Channel::default() };
        // The only flow, without what the settings add now and then.
        let config =
            CompressorConfig { channel, confirm: 0, rtp: RtpRule::Likely, ..CompressorConfig::default() };
        let decompressor =
            DecompressorConfig { channel, peer_confirms: false, ..DecompressorConfig::default() };
        Self {
            compressor: Compressor::new(config),
            decompressor: Decompressor::new(decompressor),
            stream: Vec::with_capacity(PIECE * 256),
            ends: Vec::with_capacity(PIECE),
            restored: Vec::with_capacity(256),
            fastest: [Duration::MAX; 2],
            profile,
        }
    }

    fn carry(&mut self, packets: &[Vec<u8>]) {
        self.stream.clear();
        self.ends.clear();
        let start = Instant::now();
        for packet in packets {
            let sent = self.compressor.compress(Duration::ZERO, black_box(packet), &mut self.stream);
            assert_eq!(sent.expect("compresses").profile, self.profile);
            self.ends.push(self.stream.len());
        }
        self.fastest[0] = self.fastest[0].min(start.elapsed());
        let mut from = 0;
        let start = Instant::now();
        for &end in &self.ends {
            self.restored.clear();
            let unit = black_box(&self.stream[from..end]);
            self.decompressor.decompress(Duration::ZERO, unit, &mut self.restored).expect("decompresses");
            from = end;
        }
        self.fastest[1] = self.fastest[1].min(start.elapsed());
        assert_eq!(Some(&self.restored), packets.last());
    }
}

/// Packet `number` of an IPv4 flow of RTP, UDP or ESP with 20 octets of payload and sequential IP-IDs.
fn packet(profile: Profile, number: usize) -> Vec<u8> {
    let protocol = if profile == Profile::Esp { 50 } else { 17 };
    let mut packet = vec![0x45, 0, 0, 60];
    packet.extend_from_slice(&(number as u16).to_be_bytes());
    packet.extend_from_slice(&[0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 1, 0, 1]);
    let sum: u32 = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    match profile {
        Profile::Esp => {
            packet.extend_from_slice(&[1, 2, 3, 4]);
            packet.extend_from_slice(&(number as u32 + 1).to_be_bytes());
        }
        Profile::Udp => packet.extend_from_slice(&[0x4e, 0x21, 0, 53, 0, 40, 0x12, number as u8]),
        _ => {
            packet.extend_from_slice(&[0x4e, 0x20, 0x4e, 0x22, 0, 40, 0x12, number as u8, 0x80, 0]);
            packet.extend_from_slice(&(number as u16).to_be_bytes());
            packet.extend_from_slice(&(number as u32 * 160).to_be_bytes());
            packet.extend_from_slice(&[9, 9, 9, 9]);
        }
    }
    packet.resize(60, number as u8);
    packet
}

/// The fast path of each profile of version 2 within 1.3 of version 1's. Versions take turns with the same packets, and the fastest
/// of many pieces counts, so that neither another program nor a refresh is measured.
#[test]
fn version_2_takes_at_most_a_third_more() {
    let pairs =
        [(Profile::Rtp, Profile::RtpV2), (Profile::Udp, Profile::UdpV2), (Profile::Esp, Profile::EspV2)];
    for (v1, v2) in pairs {
        let mut ends = [Ends::new(Profiles::V1, v1), Ends::new(Profiles::V2, v2)];
        for piece in 0..PIECES {
            let packets: Vec<_> = (0..PIECE).map(|number| packet(v1, piece * PIECE + number)).collect();
            ends.iter_mut().for_each(|ends| ends.carry(&packets));
        }
        let [compress, decompress] =
            [0, 1].map(|end| ends[1].fastest[end].as_secs_f64() / ends[0].fastest[end].as_secs_f64());
        println!("{v2}: {compress:.2} of {v1}'s time to compress, {decompress:.2} to decompress");
        assert!(
            compress < BOUND && decompress < BOUND,
            "{v2}: {compress:.2}, {decompress:.2} of {v1}'s time"
        );
    }
}
