//! In steady state nothing is allocated, and contexts are small.

#![allow(clippy::print_stdout, reason = "says what was measured")]

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profile, RtpRule,
};

#[allow(unreachable_pub, clippy::print_stdout, reason = "shared between test files")]
mod support;

const MODES: [Mode; 3] = [Mode::Unidirectional, Mode::Optimistic, Mode::Reliable];

/// Packets of a capture in rounds, so that each flow goes on; sequence numbers and checksums do not matter.
fn synthetic(name: &str) -> Vec<Vec<u8>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(name);
    support::read_pcap(&path).into_iter().map(|record| record.bytes).collect()
}

/// Both ends of a channel of large CIDs, and room for what goes between them.
struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    rohc: Vec<u8>,
    ip: Vec<u8>,
    feedback: Vec<u8>,
}

impl Ends {
    fn new(mode: Mode) -> Self {
        let channel = Channel { cids: CidSpace::Large { max_cid: 16_383 }, ..Channel::default() };
        let rtp = RtpRule::Likely;
        Self {
            compressor: Compressor::new(CompressorConfig { channel, rtp, ..CompressorConfig::default() }),
            decompressor: Decompressor::new(DecompressorConfig {
                channel,
                mode,
                ..DecompressorConfig::default()
            }),
            rohc: Vec::with_capacity(4096),
            ip: Vec::with_capacity(4096),
            feedback: Vec::with_capacity(256),
        }
    }

    /// Sends a packet, which must come back; its profile, and the octets that each side holds more than before.
    fn send(&mut self, packet: &[u8]) -> (Profile, [i64; 2]) {
        self.rohc.clear();
        self.ip.clear();
        self.feedback.clear();
        let mut profile = Profile::Uncompressed;
        let compressing = allocation_counter::measure(|| {
            profile =
                self.compressor.compress(Duration::ZERO, packet, &mut self.rohc).expect("compresses").profile;
        });
        let decompressing = allocation_counter::measure(|| {
            self.decompressor.decompress(Duration::ZERO, &self.rohc, &mut self.ip).expect("decompresses");
            self.decompressor.take_feedback(&mut self.feedback);
        });
        assert_eq!(self.ip, packet);
        let hearing = allocation_counter::measure(|| self.compressor.feedback(&self.feedback));
        (profile, [compressing.bytes_current + hearing.bytes_current, decompressing.bytes_current])
    }
}

/// Allocations while the second half of `packets` goes through both ends.
fn allocations(packets: &[Vec<u8>], mode: Mode) -> u64 {
    let mut ends = Ends::new(mode);
    let (first, second) = packets.split_at(packets.len() / 2);
    first.iter().for_each(|packet| {
        ends.send(packet);
    });
    allocation_counter::measure(|| {
        second.iter().for_each(|packet| {
            ends.send(packet);
        });
    })
    .count_total
}

#[test]
fn a_steady_flow_allocates_nothing() {
    for capture in [
        "synth_rtp4_voice_csum0_one_way_gsm.pcap",
        "synth_rtp6_g711_wraps.pcap",
        "synth_esp4_gaps.pcap",
        "synth_udplite4_and_6.pcap",
        "synth_rtp_tunnel_6in6.pcap",
        "synth_ip_icmp_ping_both.pcap",
    ] {
        let packets = synthetic(capture);
        assert!(packets.len() >= 200, "{capture}");
        for mode in MODES {
            assert_eq!(allocations(&packets, mode), 0, "{capture} {mode:?}");
        }
    }
}

/// What a flow is made of.
const FLOWS: [(&str, Profile, Make); 9] = [
    ("RTP", Profile::Rtp, |flow, n| ipv4(flow, 17, n, &udp(n, &rtp(n, &[])))),
    ("CSRCs", Profile::Rtp, |flow, n| ipv4(flow, 17, n, &udp(n, &rtp(n, &[1, 2, 3])))),
    ("UDP", Profile::Udp, |flow, n| ipv4(flow, 17, n, &udp(n, b"data"))),
    ("AH", Profile::Udp, |flow, n| ipv4(flow, 51, n, &ah(n, &udp(n, b"behind AH")))),
    ("extension headers", Profile::Udp, |flow, n| {
        ipv6(flow, 0, &[&[60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0], &udp(n, b"6")[..]].concat())
    }),
    ("ESP", Profile::Esp, |flow, n| {
        ipv4(flow, 50, n, &[&[0, 0, 0, 9, 0, 0][..], &n.to_be_bytes(), b"secret"].concat())
    }),
    ("IP", Profile::Ip, |flow, n| ipv4(flow, 253, n, b"unknown")),
    ("four IP headers", Profile::Ip, |flow, n| {
        ipv4(flow, 4, n, &ipv4(flow, 4, n, &ipv4(flow, 17, n, &udp(n, b"deep"))))
    }),
    ("Uncompressed", Profile::Uncompressed, |flow, n| {
        [&flow.to_be_bytes()[..], &n.to_be_bytes(), b"no IP"].concat()
    }),
];

type Make = fn(u16, u16) -> Vec<u8>;

fn ipv4(flow: u16, protocol: u8, id: u16, payload: &[u8]) -> Vec<u8> {
    let [len, id, flow] = [payload.len() as u16 + 20, id, flow].map(u16::to_be_bytes);
    let mut packet = vec![0x45, 0, len[0], len[1], id[0], id[1], 0x40, 0, 64, protocol, 0, 0];
    packet.extend([10, 0, flow[0], flow[1], 10, 0, 0, 2]);
    let sum: u32 = packet.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
    packet.extend(payload);
    packet
}

fn ipv6(flow: u16, next: u8, payload: &[u8]) -> Vec<u8> {
    let [len, flow] = [payload.len() as u16, flow].map(u16::to_be_bytes);
    [&[0x60, 0, flow[0], flow[1], len[0], len[1], next, 64][..], &[0x20; 32], payload].concat()
}

fn udp(n: u16, payload: &[u8]) -> Vec<u8> {
    let [len, sum] = [payload.len() as u16 + 8, n.wrapping_mul(77).max(1)].map(u16::to_be_bytes);
    [&[0x20, 1, 0x20, 2, len[0], len[1], sum[0], sum[1]], payload].concat()
}

fn rtp(n: u16, csrcs: &[u32]) -> Vec<u8> {
    let csrc_octets: Vec<u8> = csrcs.iter().flat_map(|csrc| csrc.to_be_bytes()).collect();
    let head = [&[0x80 | csrcs.len() as u8, 0][..], &n.to_be_bytes(), &(u32::from(n) * 160).to_be_bytes()];
    [&head.concat()[..], &[9; 4], &csrc_octets, &[0x55; 20]].concat()
}

fn ah(n: u16, payload: &[u8]) -> Vec<u8> {
    [&[17, 4, 0, 0, 0, 0, 1, 7, 0, 0][..], &n.to_be_bytes(), &[n as u8; 12], payload].concat()
}

/// 500 flows of each kind: each holds less than 1 kB a side (2 kB with lists), and once it has gone on for a while, in R-mode
/// until there are as many lists to refer to as there may be, takes nothing more.
#[test]
fn contexts_are_small_in_every_profile() {
    const COUNT: u16 = 500;
    for (kind, expected, make) in FLOWS {
        for mode in MODES {
            let mut ends = Ends::new(mode);
            let mut held = [0; 2];
            // Lists take more.
            let has_lists = matches!(kind, "CSRCs" | "AH" | "extension headers" | "four IP headers");
            let most = if has_lists { 2048 } else { 1024 };
            for n in 0..128 {
                let mut allocated = 0;
                for flow in 0..COUNT {
                    let packet = make(flow, n);
                    let mut one = (Profile::Uncompressed, [0; 2]);
                    allocated += allocation_counter::measure(|| one = ends.send(&packet)).count_total;
                    assert_eq!(one.0, expected);
                    held = [held[0] + one.1[0], held[1] + one.1[1]];
                }
                assert!(n < 100 || allocated == 0, "{kind} {mode:?}: {allocated} for packets {n}");
            }
            let each = held.map(|octets| octets / i64::from(COUNT));
            println!("{kind} {mode:?}: {each:?} octets a context");
            assert!(each.iter().all(|octets| *octets < most), "{kind} {mode:?}: {each:?}");
        }
    }
}
