//! The short way of the RFC 3095 family against its general way.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::profiles::fast_path_tests::{Outcome, both_ways, config, slow_starts_are_short};
use crate::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, PacketType, RtpRule};

/// Protocols of a flow.
#[derive(Clone, Copy, Debug)]
enum Carried {
    Rtp,
    Udp,
    Esp,
    Other,
}

#[derive(Clone, Copy, Debug)]
enum Ids {
    Counting,
    Swapped,
    Random,
    Constant,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    ipv6: bool,
    carried: Carried,
    ids: Ids,
    checksums: bool,
    stride: u32,
    from: u16,
}

/// Change that the previous packet did not predict. Most packets have none.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    /// Packets lost before the compressor.
    Gap(u16),
    Repeated,
    Silence(u32),
    Marker,
    Tos(u8),
    Ttl(u8),
    IdJump(u16),
    OtherChecksum,
    WrongLength,
    WrongIpChecksum,
    PayloadType(u8),
    Csrc,
    /// A damaged ROHC header, a lost one, or lost feedback.
    Damaged(u8, u8),
    Lost,
    FeedbackLost,
    Later(u16),
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    flow: Flow,
    sn: u16,
    ts: u32,
    id: u16,
    tos: u8,
    ttl: u8,
    payload_type: u8,
    checksums: bool,
}

impl Sender {
    fn new(flow: Flow) -> Self {
        let Flow { from, checksums, .. } = flow;
        let ts = u32::from(from) << 16;
        Self { flow, sn: from, ts, id: from, tos: 0, ttl: 64, payload_type: 0, checksums }
    }

    fn advance(&mut self, event: Event) {
        let steps = match event {
            Event::Gap(lost) => 1 + lost,
            Event::Repeated => 0,
            _ => 1,
        };
        self.sn = self.sn.wrapping_add(steps);
        self.ts = self.ts.wrapping_add(u32::from(steps) * self.flow.stride);
        self.id = self.id.wrapping_add(steps);
        match event {
            Event::Silence(strides) => self.ts = self.ts.wrapping_add(strides * self.flow.stride),
            Event::Tos(tos) => self.tos = tos,
            Event::Ttl(ttl) => self.ttl = ttl,
            Event::IdJump(jump) => self.id = self.id.wrapping_add(jump),
            Event::OtherChecksum => self.checksums ^= true,
            Event::PayloadType(payload_type) => self.payload_type = payload_type & 0x7f,
            _ => {}
        }
    }

    fn transport(&self, event: Event) -> (u8, Vec<u8>) {
        let payload = [self.sn as u8; 11];
        match self.flow.carried {
            Carried::Esp => {
                let sequence = u32::from(self.sn).to_be_bytes();
                (50, [&[1, 2, 3, self.flow.from as u8][..], &sequence, &payload].concat())
            }
            Carried::Other => (253, payload.to_vec()),
            Carried::Udp => (17, self.udp(0x2001, &payload)),
            Carried::Rtp => {
                let csrcs: &[u8] = if matches!(event, Event::Csrc) { &[1, 2, 3, 4] } else { &[] };
                let marker = u8::from(matches!(event, Event::Marker)) << 7;
                let mut rtp = Vec::from([0x80 | (csrcs.len() / 4) as u8, marker | self.payload_type]);
                rtp.extend_from_slice(&self.sn.to_be_bytes());
                rtp.extend_from_slice(&self.ts.to_be_bytes());
                rtp.extend_from_slice(&[9, 9, 9, 9]);
                (17, self.udp(0x2002, &[&rtp, csrcs, &payload].concat()))
            }
        }
    }

    fn udp(&self, port: u16, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u16 + 8).to_be_bytes();
        let checksum = if self.checksums { self.sn.wrapping_mul(31).max(1) } else { 0 }.to_be_bytes();
        let ports = [self.flow.from.to_be_bytes(), port.to_be_bytes()].concat();
        [&ports, &length[..], &checksum, payload].concat()
    }

    fn packet(&self, event: Event) -> Vec<u8> {
        let (next, transport) = self.transport(event);
        let wrong = u16::from(matches!(event, Event::WrongLength));
        let mut packet;
        if self.flow.ipv6 {
            let length = (transport.len() as u16 + wrong).to_be_bytes();
            packet =
                Vec::from([0x60 | self.tos >> 4, self.tos << 4, 0, 1, length[0], length[1], next, self.ttl]);
            packet.extend_from_slice(&[0x20; 32]);
        } else {
            let length = (transport.len() as u16 + 20 + wrong).to_be_bytes();
            let id = match self.flow.ids {
                Ids::Counting => self.id,
                Ids::Swapped => self.id.swap_bytes(),
                Ids::Random => self.id.wrapping_mul(40_503),
                Ids::Constant => 0,
            };
            let id = id.to_be_bytes();
            packet = Vec::from([0x45, self.tos, length[0], length[1], id[0], id[1], 0x40, 0, self.ttl, next]);
            packet.extend_from_slice(&[0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            let header = packet.first_chunk().expect("20 octets");
            let sum = !crate::framework::packet::ipv4_sum(header)
                ^ u16::from(matches!(event, Event::WrongIpChecksum));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet.extend_from_slice(&transport);
        packet
    }
}

fn flows() -> impl Strategy<Value = Flow> {
    let carried = prop_oneof![
        4 => Just(Carried::Rtp), 2 => Just(Carried::Udp), 1 => Just(Carried::Esp), 1 => Just(Carried::Other)
    ];
    let ids = prop_oneof![Just(Ids::Counting), Just(Ids::Swapped), Just(Ids::Random), Just(Ids::Constant)];
    let stride = prop_oneof![Just(160u32), Just(1), Just(0), Just(3600)];
    let from = prop_oneof![0u16..40, 65_000u16..65_535, any::<u16>()];
    (any::<bool>(), carried, ids, any::<bool>(), stride, from).prop_map(
        |(ipv6, carried, ids, checksums, stride, from)| Flow { ipv6, carried, ids, checksums, stride, from },
    )
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        60 => Just(Event::Nothing),
        2 => (1u16..40).prop_map(Event::Gap),
        1 => Just(Event::Repeated),
        1 => (1u32..2000).prop_map(Event::Silence),
        1 => Just(Event::Marker),
        1 => any::<u8>().prop_map(Event::Tos),
        1 => any::<u8>().prop_map(Event::Ttl),
        1 => (1u16..100).prop_map(Event::IdJump),
        1 => Just(Event::OtherChecksum),
        1 => Just(Event::WrongLength),
        1 => Just(Event::WrongIpChecksum),
        1 => any::<u8>().prop_map(Event::PayloadType),
        1 => Just(Event::Csrc),
        2 => (any::<u8>(), 1u8..).prop_map(|(at, with)| Event::Damaged(at, with)),
        4 => Just(Event::Lost),
        1 => Just(Event::FeedbackLost),
        1 => (1u16..5000).prop_map(Event::Later),
    ]
}

fn compare(config: (CompressorConfig, DecompressorConfig), flows: &[Flow], events: &[Event]) -> usize {
    let mut senders: Vec<Sender> = flows.iter().copied().map(Sender::new).collect();
    let mut now = Duration::ZERO;
    let packets = events.iter().enumerate().map(|(index, &event)| {
        let sender = &mut senders[index % flows.len()];
        now += Duration::from_millis(if let Event::Later(ms) = event { u64::from(ms) } else { 10 });
        sender.advance(event);
        let outcome = match event {
            Event::Lost => Outcome::Lost,
            Event::Damaged(at, with) => Outcome::Damaged(at, with),
            Event::FeedbackLost => Outcome::FeedbackLost,
            _ => Outcome::Delivered,
        };
        (now, sender.packet(event), outcome)
    });
    both_ways(config, packets)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn both_ways_are_the_same(
        config in config(),
        flows in prop::collection::vec(flows(), 1..4),
        events in prop::collection::vec(events(), 1..400),
    ) {
        compare(config, &flows, &events);
    }
}

#[test]
fn slow_starts_go_the_short_way() {
    let (carried, ids) = (Carried::Udp, Ids::Counting);
    let flow = Flow { ipv6: false, carried, ids, checksums: true, stride: 1, from: 100 };
    let mut sender = Sender::new(flow);
    slow_starts_are_short(|| {
        sender.advance(Event::Nothing);
        sender.packet(Event::Nothing)
    });
}

/// A comparison of two ends that never take the fast path would be worth nothing.
#[test]
fn steady_flows_go_the_short_way() {
    let mut kinds = Vec::new();
    for (carried, stride) in [(Carried::Rtp, 160), (Carried::Udp, 1), (Carried::Esp, 1), (Carried::Other, 1)]
    {
        for ids in [Ids::Counting, Ids::Swapped, Ids::Random, Ids::Constant] {
            for ipv6 in [false, true] {
                let flow = Flow { ipv6, carried, ids, checksums: true, stride, from: 100 };
                for confirm in [0, CompressorConfig::default().confirm] {
                    kinds.extend(kinds_of_short_way(flow, confirm));
                }
            }
        }
    }
    use PacketType::{Uo0, Uor2, Uor2Ts};
    for kind in [Uo0, Uor2, Uor2Ts] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

/// Sends a flow and returns the types of its short-way packets. All packets but the first ones must go it at both ends,
/// and changes of IP headers are resent with three confirmations.
fn kinds_of_short_way(flow: Flow, confirm: u8) -> Vec<PacketType> {
    let mut kinds = Vec::new();
    let rtp = RtpRule::Ports(Vec::from([0x2002]));
    let config = CompressorConfig { confirm, rtp, ..CompressorConfig::default() };
    let (mut sender, mut compressor) = (Sender::new(flow), Compressor::new(config));
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let settled = if confirm > 0 { 48 } else { 12 };
    for number in 0..80 {
        sender.advance(Event::Nothing);
        let (packet, mut rohc, mut ip) = (sender.packet(Event::Nothing), Vec::new(), Vec::new());
        let short = compressor.0.step(Duration::ZERO, &packet, packet.len(), &mut rohc);
        assert!(number < settled || short.is_some(), "{flow:?} {number}");
        kinds.extend(short.map(|short| short.packet_type));
        match short {
            Some(short) => rohc.extend_from_slice(&packet[short.header_in..]),
            None => {
                compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("a packet");
            }
        }
        let short = decompressor.0.step(Duration::ZERO, &rohc, rohc.len(), &mut ip);
        assert!(number < settled || short.is_some(), "{flow:?} {number}");
        match short {
            Some(short) => ip.extend_from_slice(&rohc[short.header_in..]),
            None => {
                decompressor.decompress(Duration::ZERO, &rohc, &mut ip).expect("a ROHC packet");
            }
        }
        assert_eq!(ip, packet);
    }
    kinds
}
