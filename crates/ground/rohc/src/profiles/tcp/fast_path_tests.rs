//! The short way of TCP against its general way.

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use crate::profiles::fast_path_tests::{Outcome, both_ways, config, slow_starts_are_short};
use crate::{Compressor, CompressorConfig, Decompressor, DecompressorConfig, PacketType};

#[derive(Clone, Copy, Debug)]
enum Ids {
    Counting,
    Swapped,
    Random,
    Zero,
}

/// Direction of a connection.
#[derive(Clone, Copy, Debug)]
struct Flow {
    ipv6: bool,
    ids: Ids,
    timestamps: bool,
    /// Octets of each segment; 0: only acknowledgements.
    segment: u16,
    /// Increment of the acknowledgement number.
    acked: u16,
    from: u32,
}

/// Change that the previous packet did not predict. Most packets have none.
#[derive(Clone, Copy, Debug)]
enum Event {
    Nothing,
    Push,
    /// A segment of another length.
    Short(u16),
    Again,
    Jump(u32),
    Acked(u32),
    Window(u16),
    Ticks(u32),
    Flags(u8),
    Tos(u8),
    Ttl(u8),
    IdJump(u16),
    Urgent(u16),
    Reserved,
    Sack,
    OtherOptions,
    WrongLength,
    WrongIpChecksum,
    NegativeZero,
    Later(u16),
    Outcome(Outcome),
}

#[derive(Clone, Copy, Debug)]
struct Sender {
    flow: Flow,
    seq: u32,
    ack: u32,
    ticks: u32,
    window: u16,
    id: u16,
    tos: u8,
    ttl: u8,
    urgent: u16,
    timestamps: bool,
    /// Octets of the last segment.
    last: u16,
}

impl Sender {
    fn new(flow: Flow) -> Self {
        let Flow { from, timestamps, .. } = flow;
        let (id, ticks) = (from as u16, from.wrapping_mul(7));
        Self {
            flow,
            seq: from,
            ack: !from,
            ticks,
            window: 512,
            id,
            tos: 0,
            ttl: 64,
            urgent: 0,
            timestamps,
            last: 0,
        }
    }

    fn advance(&mut self, event: Event) {
        self.id = self.id.wrapping_add(1);
        self.seq = self.seq.wrapping_add(u32::from(self.last));
        self.ack = self.ack.wrapping_add(u32::from(self.flow.acked));
        self.ticks = self.ticks.wrapping_add(u32::from(self.id.is_multiple_of(3)));
        match event {
            Event::Again => self.seq = self.seq.wrapping_sub(u32::from(self.last)),
            Event::Jump(by) => self.seq = self.seq.wrapping_add(by),
            Event::Acked(by) => self.ack = self.ack.wrapping_add(by),
            Event::Window(window) => self.window = window,
            Event::Ticks(by) => self.ticks = self.ticks.wrapping_add(by),
            Event::Tos(tos) => self.tos = tos,
            Event::Ttl(ttl) => self.ttl = ttl,
            Event::IdJump(by) => self.id = self.id.wrapping_add(by),
            Event::Urgent(urgent) => self.urgent = urgent,
            Event::OtherOptions => self.timestamps ^= true,
            _ => {}
        }
        self.last = if let Event::Short(len) = event { len } else { self.flow.segment };
    }

    fn options(&self, event: Event) -> Vec<u8> {
        let mut options = Vec::new();
        if self.timestamps {
            options.extend_from_slice(&[1, 1, 8, 10]);
            options.extend_from_slice(&self.ticks.to_be_bytes());
            options.extend_from_slice(&(self.ticks / 2).to_be_bytes());
        }
        if matches!(event, Event::Sack) {
            options.extend_from_slice(&[1, 1, 5, 10]);
            options.extend_from_slice(&self.ack.wrapping_add(1000).to_be_bytes());
            options.extend_from_slice(&self.ack.wrapping_add(2000).to_be_bytes());
        }
        options
    }

    fn tcp(&self, event: Event) -> Vec<u8> {
        let options = self.options(event);
        let flags = match event {
            Event::Push => 0x18,
            Event::Flags(flags) => flags,
            _ => 0x10,
        };
        let reserved = u8::from(matches!(event, Event::Reserved));
        let mut tcp = Vec::from([(self.flow.from >> 8) as u8, self.flow.from as u8, 0, 80]);
        tcp.extend_from_slice(&self.seq.to_be_bytes());
        tcp.extend_from_slice(&self.ack.to_be_bytes());
        tcp.extend_from_slice(&[((20 + options.len()) * 4) as u8 | reserved, flags]);
        for word in [self.window, self.id.wrapping_mul(31), self.urgent] {
            tcp.extend_from_slice(&word.to_be_bytes());
        }
        tcp.extend_from_slice(&options);
        tcp.resize(tcp.len() + usize::from(self.last), self.seq as u8);
        tcp
    }

    fn packet(&self, event: Event) -> Vec<u8> {
        let tcp = self.tcp(event);
        let wrong = u16::from(matches!(event, Event::WrongLength));
        if self.flow.ipv6 {
            let length = (tcp.len() as u16 + wrong).to_be_bytes();
            let mut packet =
                Vec::from([0x60 | self.tos >> 4, self.tos << 4, 0, 1, length[0], length[1], 6, self.ttl]);
            packet.extend_from_slice(&[0x20; 32]);
            packet.extend_from_slice(&tcp);
            return packet;
        }
        let length = (tcp.len() as u16 + 20 + wrong).to_be_bytes();
        let mut id = match self.flow.ids {
            Ids::Counting => self.id,
            Ids::Swapped => self.id.swap_bytes(),
            Ids::Random => self.id.wrapping_mul(40_503),
            Ids::Zero => 0,
        };
        let head = |id: u16| {
            let id = id.to_be_bytes();
            let head = [0x45, self.tos, length[0], length[1], id[0], id[1], 0x40, 0, self.ttl, 6];
            let head = [&head[..], &[0, 0, 10, 0, 0, 1, 10, 0, 0, 2]].concat();
            *head.first_chunk::<20>().expect("20 octets")
        };
        if matches!(event, Event::NegativeZero) {
            // The identification for which the checksum is the other zero.
            id = id.wrapping_add(!crate::framework::packet::ipv4_sum(&head(id)));
        }
        let mut packet = Vec::from(head(id));
        let sum = !crate::framework::packet::ipv4_sum(&head(id))
            ^ u16::from(matches!(event, Event::WrongIpChecksum));
        let sum = if matches!(event, Event::NegativeZero) && sum == 0 { 0xffff } else { sum };
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend_from_slice(&tcp);
        packet
    }
}

fn flows() -> impl Strategy<Value = Flow> {
    let ids = prop_oneof![Just(Ids::Counting), Just(Ids::Swapped), Just(Ids::Random), Just(Ids::Zero)];
    let shape = prop_oneof![
        3 => Just((1448u16, 0u16)), 3 => Just((0, 2896)), 1 => Just((0, 1448)), 1 => Just((100, 100)),
        1 => Just((1, 0)), 1 => Just((0, 0)), 1 => (0u16..2000, 0u16..5000)
    ];
    let from = prop_oneof![0u32..4000, any::<u32>(), u32::MAX - 4000..u32::MAX];
    (any::<bool>(), ids, any::<bool>(), shape, from).prop_map(
        |(ipv6, ids, timestamps, (segment, acked), from)| Flow {
            ipv6,
            ids,
            timestamps,
            segment,
            acked,
            from,
        },
    )
}

fn events() -> impl Strategy<Value = Event> {
    let rare = prop_oneof![
        (0u16..2000).prop_map(Event::Short),
        Just(Event::Again),
        any::<u32>().prop_map(Event::Jump),
        (0u32..40_000).prop_map(Event::Acked),
        any::<u16>().prop_map(Event::Window),
        any::<u32>().prop_map(Event::Ticks),
        (0u32..40_000).prop_map(Event::Ticks),
        any::<u8>().prop_map(Event::Flags),
        any::<u8>().prop_map(Event::Tos),
        any::<u8>().prop_map(Event::Ttl),
        (1u16..300).prop_map(Event::IdJump),
        any::<u16>().prop_map(Event::Urgent),
        Just(Event::Reserved),
        Just(Event::Sack),
        Just(Event::OtherOptions),
        Just(Event::WrongLength),
        Just(Event::WrongIpChecksum),
        Just(Event::NegativeZero),
        (1u16..5000).prop_map(Event::Later),
        (any::<u8>(), 1u8..).prop_map(|(at, with)| Event::Outcome(Outcome::Damaged(at, with))),
        Just(Event::Outcome(Outcome::FeedbackLost)),
    ];
    prop_oneof![70 => Just(Event::Nothing), 5 => Just(Event::Push), 4 => Just(Event::Outcome(Outcome::Lost)), 12 => rare]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn both_ways_are_the_same(
        config in config(),
        flows in prop::collection::vec(flows(), 1..4),
        events in prop::collection::vec(events(), 1..400),
    ) {
        let mut senders: Vec<Sender> = flows.iter().copied().map(Sender::new).collect();
        let mut now = Duration::ZERO;
        let packets = events.iter().enumerate().map(|(index, &event)| {
            let sender = &mut senders[index % flows.len()];
            now += Duration::from_millis(if let Event::Later(ms) = event { u64::from(ms) } else { 10 });
            sender.advance(event);
            (now, sender.packet(event), if let Event::Outcome(outcome) = event { outcome } else { Outcome::Delivered })
        });
        both_ways(config, packets);
    }
}

#[test]
fn slow_starts_go_the_short_way() {
    let flow = Flow { ipv6: false, ids: Ids::Counting, timestamps: true, segment: 100, acked: 0, from: 9 };
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
    for (segment, acked, other) in
        [(1448, 0, 1448), (0, 2896, 0), (0, 1001, 0), (100, 100, 100), (1, 0, 1), (900, 0, 333)]
    {
        for ids in [Ids::Counting, Ids::Swapped, Ids::Random, Ids::Zero] {
            for (ipv6, timestamps) in [(false, false), (false, true), (true, false), (true, true)] {
                let flow = Flow { ipv6, ids, timestamps, segment, acked, from: 100 };
                for confirm in [0, CompressorConfig::default().confirm] {
                    kinds.extend(kinds_of_short_way(flow, other, confirm));
                }
            }
        }
    }
    use PacketType::{Rnd1, Rnd2, Rnd3, Rnd4, Rnd8, Seq1, Seq2, Seq4, Seq8};
    for kind in [Rnd1, Rnd2, Rnd3, Rnd4, Rnd8, Seq1, Seq2, Seq4, Seq8] {
        assert!(kinds.contains(&kind), "{kind:?}");
    }
}

/// Sends a flow of alternating lengths and returns the types of its short-way packets. All must but for
/// the first ones, and confirmations that resend all values or that `co_common` carries in less.
fn kinds_of_short_way(flow: Flow, other: u16, confirm: u8) -> Vec<PacketType> {
    let mut kinds = Vec::new();
    let config = CompressorConfig { confirm, ..CompressorConfig::default() };
    let (mut sender, mut compressor) = (Sender::new(flow), Compressor::new(config));
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    for number in 0..60 {
        sender.advance(if number % 2 == 0 { Event::Nothing } else { Event::Short(other) });
        let (packet, mut rohc, mut ip) = (sender.packet(Event::Nothing), Vec::new(), Vec::new());
        let short = compressor.0.step(Duration::ZERO, &packet, packet.len(), &mut rohc);
        let kind = match short {
            Some(short) => {
                rohc.extend_from_slice(&packet[short.header_in..]);
                short.packet_type
            }
            None => compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("a packet").packet_type,
        };
        let is_long = confirm > 0 && matches!(kind, PacketType::IrDyn | PacketType::CoCommon);
        assert!(number < 20 || short.is_some() || is_long, "{flow:?} {number} {kind:?}");
        kinds.extend(short.map(|short| short.packet_type));
        let short = decompressor.0.step(Duration::ZERO, &rohc, rohc.len(), &mut ip);
        assert!(number < 20 || short.is_some() || is_long, "{flow:?} {number} {kind:?}");
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
