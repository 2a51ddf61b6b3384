//! In steady state nothing is allocated, and contexts are small.
//!
//! A program of its own, because its allocator counts.

#![allow(clippy::print_stdout, reason = "says what was measured")]

use std::collections::VecDeque;
use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Profile,
    Refresh, RtpRule,
};

#[allow(dead_code, reason = "the other program uses the rest")]
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
    /// Feedback on its way: it arrives so many packets late.
    late: VecDeque<Vec<u8>>,
    delay: usize,
}

/// What became of one packet.
struct Sent {
    profile: Profile,
    allocations: u64,
    /// The octets that compressor and decompressor hold more than before.
    held: [i64; 2],
}

impl Ends {
    /// `delay`: after how many more packets feedback arrives.
    fn new(mode: Mode, delay: usize, refresh: Refresh) -> Self {
        let channel = Channel { cids: CidSpace::Large { max_cid: 16_383 }, ..Channel::default() };
        let rtp = RtpRule::Likely;
        Self {
            compressor: Compressor::new(CompressorConfig {
                channel,
                rtp,
                ir_refresh: refresh,
                fo_refresh: refresh,
                ..CompressorConfig::default()
            }),
            decompressor: Decompressor::new(DecompressorConfig {
                channel,
                mode,
                ..DecompressorConfig::default()
            }),
            rohc: Vec::with_capacity(4096),
            ip: Vec::with_capacity(4096),
            feedback: Vec::with_capacity(256),
            late: VecDeque::new(),
            delay,
        }
    }

    /// Sends a packet, which must come back.
    fn send(&mut self, packet: &[u8]) -> Sent {
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
        self.late.push_back(self.feedback.clone());
        let arrived = if self.late.len() > self.delay { self.late.pop_front() } else { None };
        let hearing =
            allocation_counter::measure(|| self.compressor.feedback(arrived.as_deref().unwrap_or_default()));
        Sent {
            profile,
            allocations: compressing.count_total + decompressing.count_total + hearing.count_total,
            held: [compressing.bytes_current + hearing.bytes_current, decompressing.bytes_current],
        }
    }
}

/// Allocations while the second half of `packets` goes through both ends.
fn allocations(packets: &[Vec<u8>], mode: Mode) -> u64 {
    let mut ends = Ends::new(mode, 0, Refresh::every_packets(50));
    let (first, second) = packets.split_at(packets.len() / 2);
    first.iter().for_each(|packet| {
        ends.send(packet);
    });
    second.iter().map(|packet| ends.send(packet).allocations).sum()
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

/// What a flow is made of, and the packet from which on it takes nothing more: with lists, once there are as many to refer
/// to as there may be.
const FLOWS: [(&str, Profile, u16, Make); 17] = [
    ("RTP", Profile::Rtp, 20, |flow, n| ipv4(flow, 17, n, &udp(n, &rtp(n, &[])))),
    ("CSRCs", Profile::Rtp, 130, |flow, n| ipv4(flow, 17, n, &udp(n, &rtp(n, &[1, 2, 3])))),
    ("eight CSRCs", Profile::Rtp, 130, |flow, n| {
        ipv4(flow, 17, n, &udp(n, &rtp(n, &[1, 2, 3, 4, 5, 6, 7, 8])))
    }),
    // Two speakers of four, others every eight packets.
    ("CSRCs that change", Profile::Rtp, 130, |flow, n| {
        ipv4(flow, 17, n, &udp(n, &rtp(n, &[u32::from(n / 8 % 4), 9, u32::from(n / 8 % 2)])))
    }),
    ("UDP", Profile::Udp, 20, |flow, n| ipv4(flow, 17, n, &udp(n, b"data"))),
    ("AH", Profile::Udp, 130, |flow, n| ipv4(flow, 51, n, &ah(17, n, &udp(n, b"behind AH")))),
    ("GRE", Profile::Udp, 130, |flow, n| {
        ipv4(flow, 47, n, &[&[0, 0, 8, 0][..], &ipv4(flow, 17, n, &udp(n, b"in GRE"))].concat())
    }),
    ("extension headers", Profile::Udp, 130, |flow, n| {
        ipv6(flow, 0, &[&OPTIONS, &udp(n, b"6")[..]].concat())
    }),
    ("extension headers and CSRCs", Profile::Rtp, 130, |flow, n| {
        ipv6(flow, 60, &[&OPTIONS[8..], &udp(n, &rtp(n, &[1, 2, 3]))[..]].concat())
    }),
    ("UDP-Lite", Profile::UdpLite, 20, |flow, n| ipv4(flow, 136, n, &udp(n, b"lite"))),
    ("RTP/UDP-Lite", Profile::RtpUdpLite, 20, |flow, n| ipv4(flow, 136, n, &udp(n, &rtp(n, &[])))),
    ("ESP", Profile::Esp, 20, |flow, n| {
        ipv4(flow, 50, n, &[&[0, 0, 0, 9, 0, 0][..], &n.to_be_bytes(), b"secret"].concat())
    }),
    ("IP", Profile::Ip, 20, |flow, n| ipv4(flow, 253, n, b"unknown")),
    ("four IP headers", Profile::Ip, 20, |flow, n| {
        ipv4(flow, 4, n, &ipv4(flow, 4, n, &ipv4(flow, 17, n, &udp(n, b"deep"))))
    }),
    ("extension headers behind the second IP header", Profile::Ip, 130, |flow, n| {
        ipv4(flow, 41, n, &ipv6(flow, 0, &[&OPTIONS[..15], &[4, 0, 1, 4, 0, 0, 0, 0][7..], b"?"].concat()))
    }),
    ("AH behind the third IP header", Profile::Ip, 130, |flow, n| {
        ipv4(flow, 4, n, &ipv4(flow, 4, n, &ipv4(flow, 51, n, &ah(17, n, &udp(n, b"deep")))))
    }),
    ("Uncompressed", Profile::Uncompressed, 20, |flow, n| {
        [&flow.to_be_bytes()[..], &n.to_be_bytes(), b"no IP"].concat()
    }),
];

/// Hop-by-hop options, and destination options behind them in front of UDP: PadN in both.
const OPTIONS: [u8; 16] = [60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];

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

fn ah(next: u8, n: u16, payload: &[u8]) -> Vec<u8> {
    [&[next, 4, 0, 0, 0, 0, 1, 7, 0, 0][..], &n.to_be_bytes(), &[n as u8; 12], payload].concat()
}

/// 500 flows of each kind: each holds less than 1 kB a side, and once it has gone on for a while takes nothing more.
#[test]
fn contexts_are_small_in_every_profile() {
    for (kind, expected, settled, make) in FLOWS {
        for mode in MODES {
            // In U- and O-mode only lists that change are remembered.
            let settled = if mode == Mode::Reliable { settled } else { settled.min(70) };
            // Those of more than two IP headers allocate.
            let refresh =
                if kind.contains("IP header") { Refresh::NEVER } else { Refresh::every_packets(17) };
            let each = octets_a_context(&mut Ends::new(mode, 0, refresh), settled, expected, make);
            println!("{kind} {mode:?}: {each:?} octets a context");
            assert!(each.iter().all(|octets| *octets < 1024), "{kind} {mode:?}: {each:?}");
        }
    }
}

/// In R-mode with acknowledgements twenty packets late there are as many references as there may be.
#[test]
fn late_acknowledgements_take_room_for_references() {
    for (kind, expected, _, make) in FLOWS.into_iter().filter(|flow| ["RTP", "IP", "CSRCs"].contains(&flow.0))
    {
        let mut ends = Ends::new(Mode::Reliable, 20 * usize::from(COUNT), Refresh::NEVER);
        let each = octets_a_context(&mut ends, 150, expected, make);
        println!("{kind}, acknowledged late: {each:?} octets a context");
        let most = if kind == "CSRCs" { 1152 } else { 1024 };
        assert!(each[0] > 900 && each.iter().all(|octets| *octets < most), "{kind}: {each:?}");
    }
}

const COUNT: u16 = 500;

fn octets_a_context(ends: &mut Ends, settled: u16, expected: Profile, make: Make) -> [i64; 2] {
    let mut held = [0; 2];
    for n in 0..settled + 20 {
        let mut allocated = 0;
        for flow in 0..COUNT {
            let sent = ends.send(&make(flow, n));
            assert_eq!(sent.profile, expected);
            allocated += sent.allocations;
            held = [held[0] + sent.held[0], held[1] + sent.held[1]];
        }
        assert!(n < settled || allocated == 0, "{expected:?}: {allocated} for packets {n}");
    }
    held.map(|octets| octets / i64::from(COUNT))
}
