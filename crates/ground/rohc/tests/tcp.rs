//! Profile 0x0006 where no capture goes: every header that a chain can have, generated flows, broken streams, memory.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{corpus, files, name, read_pcap};
use bentpipe_rohc::{
    CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, PacketType, Profile,
    Refresh,
};
use proptest::prelude::*;

/// A generator for tests: Knuth's MMIX.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }

    fn one_in(&mut self, odds: u32) -> bool {
        self.roll().is_multiple_of(odds)
    }
}

/// A header before TCP.
#[derive(Clone, Debug)]
enum Layer {
    V4 { id_step: u16, swapped: bool },
    V6 { flow_label: u32 },
    HopByHop { len: u8 },
    Destination { len: u8 },
    Routing { len: u8 },
    Ah { icv_words: u8 },
    Gre { flags: u8 },
    Mine { with_source: bool },
}

impl Layer {
    fn is_ip(&self) -> bool {
        matches!(self, Layer::V4 { .. } | Layer::V6 { .. })
    }

    fn protocol(&self) -> u8 {
        match self {
            Layer::V4 { .. } => 4,
            Layer::V6 { .. } => 41,
            Layer::HopByHop { .. } => 0,
            Layer::Destination { .. } => 60,
            Layer::Routing { .. } => 43,
            Layer::Ah { .. } => 51,
            Layer::Gre { .. } => 47,
            Layer::Mine { .. } => 55,
        }
    }
}

/// What of the headers changes from packet to packet.
#[derive(Clone, Debug, Default)]
struct Now {
    number: u32,
    ip_id: u16,
    tos: u8,
    ttl: u8,
    outer_ttl: u8,
    df: bool,
    seq: u32,
    ack: u32,
    window: u16,
    urgent: u16,
    flags: u8,
    reserved: u8,
    options: Vec<u8>,
    payload_len: usize,
    noise: u32,
}

fn ones_complement(bytes: &[u8]) -> u16 {
    let sum: u64 =
        bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

/// Puts `layer` in front of `inside`, whose first header is of type `next`.
fn wrap(layer: &Layer, next: u8, is_inner: bool, now: &Now, inside: &[u8]) -> Vec<u8> {
    let counted = |len: u8| -> Vec<u8> {
        let mut header = vec![next, len];
        header.resize(8 * (usize::from(len) + 1), 0x5a);
        header
    };
    let ttl = if is_inner { now.ttl } else { now.outer_ttl };
    let mut header = match *layer {
        Layer::V4 { id_step, swapped } => {
            let id = now.ip_id.wrapping_mul(id_step);
            let id = if swapped { id.swap_bytes() } else { id };
            let id = if is_inner || id_step == 0 { id } else { now.noise as u16 };
            let mut header = vec![0x45, now.tos, 0, 0, 0, 0, 0, 0, ttl, next, 0, 0];
            header.extend_from_slice(&[10, 0, 0, 1, 192, 168, 7, 9]);
            header[2..4].copy_from_slice(&((20 + inside.len()) as u16).to_be_bytes());
            header[4..6].copy_from_slice(&id.to_be_bytes());
            header[6] = if now.df { 0x40 } else { 0 };
            let checksum = ones_complement(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            header
        }
        Layer::V6 { flow_label } => {
            let mut header = (0x6000_0000 | u32::from(now.tos) << 20 | flow_label).to_be_bytes().to_vec();
            header.extend_from_slice(&(inside.len() as u16).to_be_bytes());
            header.extend_from_slice(&[next, ttl]);
            header.extend_from_slice(&[0x20; 32]);
            header
        }
        Layer::HopByHop { len } | Layer::Destination { len } | Layer::Routing { len } => counted(len),
        Layer::Ah { icv_words } => {
            let mut header = vec![next, icv_words + 1, 0, 0, 1, 2, 3, 4];
            header.extend_from_slice(&now.number.to_be_bytes());
            (0..icv_words)
                .for_each(|word| header.extend_from_slice(&(now.noise ^ u32::from(word)).to_be_bytes()));
            header
        }
        Layer::Gre { flags } => {
            let ether_type = if next == 4 { [0x08, 0x00] } else { [0x86, 0xdd] };
            let mut header = vec![flags, 0, ether_type[0], ether_type[1]];
            if flags & 0x80 != 0 {
                header.extend_from_slice(&[now.noise as u8, (now.noise >> 8) as u8, 0, 0]);
            }
            if flags & 0x20 != 0 {
                header.extend_from_slice(&[9, 8, 7, 6]);
            }
            if flags & 0x10 != 0 {
                header.extend_from_slice(&now.number.to_be_bytes());
            }
            header
        }
        Layer::Mine { with_source } => {
            let mut header = vec![next, u8::from(with_source) << 7, 0, 0, 172, 16, 0, 1];
            if with_source {
                header.extend_from_slice(&[172, 16, 0, 2]);
            }
            let checksum = ones_complement(&header);
            header[2..4].copy_from_slice(&checksum.to_be_bytes());
            header
        }
    };
    header.extend_from_slice(inside);
    header
}

fn packet(layers: &[Layer], now: &Now) -> Vec<u8> {
    let mut bytes = vec![0x9c, 0x40, 0, 80];
    bytes.extend_from_slice(&now.seq.to_be_bytes());
    bytes.extend_from_slice(&now.ack.to_be_bytes());
    bytes.extend_from_slice(&[((20 + now.options.len()) * 4) as u8 | now.reserved, now.flags]);
    bytes.extend_from_slice(&now.window.to_be_bytes());
    bytes.extend_from_slice(&(now.noise >> 16).to_be_bytes()[2..]);
    bytes.extend_from_slice(&now.urgent.to_be_bytes());
    bytes.extend_from_slice(&now.options);
    bytes.resize(bytes.len() + now.payload_len, 0xda);
    let inner = layers.iter().rposition(Layer::is_ip);
    let mut next = 6;
    for (index, layer) in layers.iter().enumerate().rev() {
        bytes = wrap(layer, next, inner == Some(index), now, &bytes);
        next = layer.protocol();
    }
    bytes
}

/// Options as hosts have them, and some that they should not have.
fn options(dice: &mut Dice, now: &Now) -> Vec<u8> {
    let stamp = |out: &mut Vec<u8>| {
        out.extend_from_slice(&[1, 1, 8, 10]);
        out.extend_from_slice(&(1_000_000 + now.number / 3).to_be_bytes());
        out.extend_from_slice(&(77_000 + now.number / 5).to_be_bytes());
    };
    let mut out = Vec::new();
    match dice.roll() % 8 {
        0 => {}
        1 => out.extend_from_slice(&[2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 1, 1]),
        2 => {
            stamp(&mut out);
            out.extend_from_slice(&[1, 1, 5, 10]);
            out.extend_from_slice(&now.ack.wrapping_add(1448).to_be_bytes());
            out.extend_from_slice(&now.ack.wrapping_add(2896 + (now.noise & 0xff)).to_be_bytes());
        }
        3 => out.extend_from_slice(&[30, 8, 0, 1, now.noise as u8, 2, 3, 4]),
        4 => out.extend_from_slice(&[254, 6, 1, 2, 3, 4, 0, 0]),
        _ => stamp(&mut out),
    }
    out
}

/// Moves a flow on by one packet; `wild` flows also change what hosts seldom do.
fn step(dice: &mut Dice, now: &mut Now, wild: bool) {
    now.number += 1;
    now.noise = dice.roll();
    now.ip_id = now.ip_id.wrapping_add(if wild && dice.one_in(9) { 300 } else { 1 });
    now.seq = now.seq.wrapping_add(now.payload_len as u32);
    now.flags = if dice.one_in(4) { 0x18 } else { 0x10 };
    if dice.one_in(6) {
        now.payload_len = [0, 0, 1000, 1448, 7][(dice.roll() % 5) as usize];
    }
    if dice.one_in(3) {
        now.ack = now.ack.wrapping_add(1448 * (dice.roll() % 3));
    }
    if dice.one_in(12) {
        now.window = dice.roll() as u16;
    }
    if dice.one_in(if wild { 4 } else { 1000 }) {
        now.options = options(dice, now);
    } else if now.options.get(..4) == Some(&[1, 1, 8, 10]) {
        now.options[4..8].copy_from_slice(&(1_000_000 + now.number / 3).to_be_bytes());
    }
    if wild && dice.one_in(6) {
        change_the_unusual(dice, now);
    }
}

fn change_the_unusual(dice: &mut Dice, now: &mut Now) {
    let value = dice.roll();
    match dice.roll() % 11 {
        0 => now.tos = value as u8,
        1 => now.ttl = value as u8,
        2 => now.outer_ttl = value as u8,
        3 => now.df = !now.df,
        4 => now.flags = value as u8,
        5 => now.reserved = value as u8 & 0x0f,
        6 => now.urgent = value as u16,
        7 => now.ip_id = value as u16,
        8 => now.seq = value,
        9 => now.ack = value,
        _ => now.number = now.number.wrapping_add(value >> (value & 31)),
    }
}

fn ip_layer() -> impl Strategy<Value = Vec<Layer>> {
    let v4 = (0u16..3, any::<bool>()).prop_map(|(id_step, swapped)| Layer::V4 { id_step, swapped });
    let v6 = prop_oneof![Just(0u32), 1u32..0x10_0000].prop_map(|flow_label| Layer::V6 { flow_label });
    let behind_v4 = prop_oneof![
        3 => Just(None),
        1 => (0u8..4).prop_map(|icv_words| Some(Layer::Ah { icv_words })),
        1 => any::<bool>().prop_map(|with_source| Some(Layer::Mine { with_source })),
    ];
    let behind_v6 = prop_oneof![
        3 => Just(None),
        1 => (0u8..4).prop_map(|icv_words| Some(Layer::Ah { icv_words })),
        1 => (0u8..3).prop_map(|len| Some(Layer::HopByHop { len })),
        1 => (0u8..3).prop_map(|len| Some(Layer::Destination { len })),
        1 => (0u8..3).prop_map(|len| Some(Layer::Routing { len })),
    ];
    prop_oneof![
        (v4, behind_v4).prop_map(|(ip, more)| [Some(ip), more].into_iter().flatten().collect()),
        (v6, behind_v6).prop_map(|(ip, more)| [Some(ip), more].into_iter().flatten().collect()),
    ]
}

/// One to four IP headers, with what may stand behind each; between two of them there may be GRE.
fn chain() -> impl Strategy<Value = Vec<Layer>> {
    let gre = prop_oneof![
        3 => Just(None),
        1 => (0u8..8).prop_map(|bits| Some(((bits & 1) << 7) | ((bits & 2) << 4) | ((bits & 4) << 2))),
    ];
    proptest::collection::vec((ip_layer(), gre), 1..5).prop_map(|levels| {
        let last = levels.len() - 1;
        let mut layers = Vec::new();
        for (index, (level, gre)) in levels.into_iter().enumerate() {
            layers.extend(level);
            layers.extend(gre.filter(|_| index < last).map(|flags| Layer::Gre { flags }));
        }
        layers
    })
}

/// Sends `packets` packets of a flow; every one must be of this profile and come back as it was.
fn send(layers: &[Layer], seed: u64, wild: bool, mode: Mode, most_lost: u32) -> Result<(), TestCaseError> {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let config = DecompressorConfig { mode, ..DecompressorConfig::default() };
    let (mut decompressor, mut dice, mut lost) = (Decompressor::new(config), Dice(seed), 0);
    let mut now = Now { ttl: 64, outer_ttl: 60, df: true, window: 4096, payload_len: 1000, ..Now::default() };
    now.options = options(&mut dice, &now);
    for number in 0..60 {
        step(&mut dice, &mut now, wild);
        let ip = packet(layers, &now);
        let (mut rohc, mut restored, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        let compressed = compressor.compress(Duration::ZERO, &ip, &mut rohc).expect("an IP packet");
        prop_assert_eq!(compressed.profile, Profile::Tcp, "{:?}", layers);
        if lost < most_lost && dice.one_in(3) {
            lost += 1;
            continue;
        }
        lost = 0;
        let result = decompressor.decompress(Duration::ZERO, &rohc, &mut restored);
        prop_assert!(
            restored == ip,
            "packet {number} of {layers:?}: {compressed:?} {result:?}\n{ip:02x?}\n{rohc:02x?}"
        );
        decompressor.take_feedback(&mut feedback);
        compressor.feedback(&feedback);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn generated_flows_come_back(layers in chain(), seed: u64, wild: bool, feedback: bool) {
        let mode = if feedback { Mode::Optimistic } else { Mode::Unidirectional };
        send(&layers, seed, wild, mode, 0)?;
    }

    /// The promise of the optimistic approach: where one of as many packets arrives as every change is repeated, every
    /// packet that arrives is restored.
    #[test]
    fn what_arrives_is_restored(layers in chain(), seed: u64) {
        send(&layers, seed, false, Mode::Unidirectional, 3)?;
    }

    /// Damaged, cut and invented packets: no panic, and what comes out is an IP packet.
    #[test]
    fn damaged_streams_are_survived(layers in chain(), seed: u64, verify: bool, large: bool) {
        let mut channel = bentpipe_rohc::Channel::default();
        if large {
            channel.cids = CidSpace::Large { max_cid: 300 };
        }
        let mut compressor = Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
        let config = DecompressorConfig { channel, mode: Mode::Optimistic, verify, ..DecompressorConfig::default() };
        let (mut decompressor, mut dice) = (Decompressor::new(config), Dice(seed));
        let mut now = Now { payload_len: 8, ..Now::default() };
        for _ in 0..40 {
            step(&mut dice, &mut now, true);
            let (mut rohc, mut out, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            compressor.compress(Duration::ZERO, &packet(&layers, &now), &mut rohc).expect("an IP packet");
            for _ in 0..dice.roll() % 3 {
                let at = dice.roll() as usize % rohc.len();
                rohc[at] ^= dice.roll() as u8;
            }
            if dice.one_in(4) {
                rohc.truncate(dice.roll() as usize % rohc.len());
            }
            // Damage may look like an IR packet of Uncompressed, which carries anything.
            let restored = decompressor.decompress(Duration::ZERO, &rohc, &mut out);
            if restored.is_ok_and(|done| done.is_some_and(|done| done.profile != Profile::Uncompressed)) {
                prop_assert!(out.first().is_some_and(|octet| matches!(octet >> 4, 4 | 6)));
            }
            decompressor.take_feedback(&mut feedback);
            if dice.one_in(3) && !feedback.is_empty() {
                let at = dice.roll() as usize % feedback.len();
                feedback[at] ^= dice.roll() as u8;
            }
            compressor.feedback(&feedback);
        }
    }
}

fn captures() -> Vec<PathBuf> {
    let Some(corpus) = corpus() else { return Vec::new() };
    let folders = [corpus.join("ip"), corpus.join("synthetic/inputs")];
    let has_tcp = |path: &PathBuf| name(path).contains("tcp") || name(path).contains("flows_300");
    folders.iter().flat_map(|folder| files(folder, ".pcap")).filter(has_tcp).collect()
}

/// LTE test equipment of another vendor.
#[test]
fn the_stream_of_another_vendor_is_restored() {
    let Some(corpus) = corpus() else { return };
    let records = read_pcap(&corpus.join("interop/Aeroflex-TM500-2.rohc.pcap"));
    let packets = read_pcap(&corpus.join("interop/Aeroflex-TM500-2.ip.pcap"));
    assert_eq!((records.len(), packets.len()), (15, 15));
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    for (record, packet) in records.iter().zip(&packets) {
        let mut restored = Vec::new();
        let result = decompressor.decompress(record.at, &record.bytes, &mut restored);
        assert!(restored == packet.bytes, "{result:?}");
    }
}

/// As `what_arrives_is_restored`, on captures.
#[test]
fn captures_survive_losses_shorter_than_the_repeats() {
    for path in captures() {
        lose_up_to_three(&path);
    }
}

fn lose_up_to_three(path: &Path) {
    let mut compressor = Compressor::new(CompressorConfig::default());
    let mut decompressor = Decompressor::new(DecompressorConfig::default());
    let (mut dice, mut lost) = (Dice(11), [0u8; 16]);
    for (number, record) in read_pcap(path).iter().enumerate() {
        let (mut rohc, mut restored) = (Vec::new(), Vec::new());
        let Ok(compressed) = compressor.compress(record.at, &record.bytes, &mut rohc) else { continue };
        let lost = &mut lost[usize::from(compressed.cid)];
        if *lost < 3 && dice.one_in(3) {
            *lost += 1;
            continue;
        }
        *lost = 0;
        let result = decompressor.decompress(record.at, &rohc, &mut restored);
        let is_tcp = compressed.profile == Profile::Tcp;
        assert!(
            restored == record.bytes || !is_tcp,
            "{} {}: {compressed:?} {result:?}",
            name(path),
            number + 1
        );
    }
}

/// With feedback, a second connection between two hosts begins with an IR-CR, which is smaller than an IR.
#[test]
fn connections_of_the_same_hosts_are_replicated() {
    let Some(corpus) = corpus() else { return };
    let mut compressor = Compressor::new(CompressorConfig::default());
    let config = DecompressorConfig { mode: Mode::Optimistic, ..DecompressorConfig::default() };
    let mut decompressor = Decompressor::new(config);
    let mut lens = [(0, 0); 2];
    for record in read_pcap(&corpus.join("synthetic/inputs/synth_tcp4_short_conns_same_hosts.pcap")) {
        let (mut rohc, mut restored, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
        let compressed = compressor.compress(record.at, &record.bytes, &mut rohc).expect("an IP packet");
        decompressor.decompress(record.at, &rohc, &mut restored).expect("decompresses");
        assert!(restored == record.bytes);
        decompressor.take_feedback(&mut feedback);
        compressor.feedback(&feedback);
        let which = match compressed.packet_type {
            PacketType::Ir => 0,
            PacketType::IrCr => 1,
            _ => continue,
        };
        lens[which] = (lens[which].0 + 1, lens[which].1 + compressed.header_out);
    }
    let [(irs, ir_len), (replicated, replicated_len)] = lens;
    println!("{irs} IRs of {ir_len} octets, {replicated} IR-CRs of {replicated_len}");
    assert!(replicated > irs, "{irs} {replicated}");
    assert!(replicated_len * irs < ir_len * replicated);
}

/// The numbers of the packets that were IR, of a flow of one context at `cid`.
fn irs(config: CompressorConfig, before: u32) -> Vec<u32> {
    let mut compressor = Compressor::new(config);
    let mut dice = Dice(1);
    let mut found = Vec::new();
    for flow in 0..=before {
        let layers = [Layer::V6 { flow_label: flow }];
        let mut now = Now { payload_len: 100, ..Now::default() };
        for number in 1..=if flow == before { 100 } else { 1 } {
            step(&mut dice, &mut now, false);
            let compressed = compressor.compress(Duration::ZERO, &packet(&layers, &now), &mut Vec::new());
            if flow == before && compressed.is_ok_and(|done| done.packet_type == PacketType::Ir) {
                found.push(number);
            }
        }
    }
    found
}

/// The types of packets of one steady flow of data in U-mode; the hop limit changes with packet 60.
fn kinds(config: CompressorConfig) -> Vec<PacketType> {
    let mut compressor = Compressor::new(config);
    let (mut dice, mut now) = (Dice(1), Now { payload_len: 100, ttl: 64, ..Now::default() });
    let send = |number: u32| {
        now.payload_len = 100;
        now.ttl = if number < 60 { 64 } else { 63 };
        now.flags = 0x10;
        now.number = number;
        now.ip_id = number as u16;
        now.seq = number * 100;
        now.noise = dice.roll();
        let packet = packet(&[Layer::V4 { id_step: 1, swapped: false }], &now);
        let compressed = compressor.compress(Duration::ZERO, &packet, &mut Vec::new());
        compressed.expect("an IP packet").packet_type
    };
    (1..=80).map(send).collect()
}

/// A CRC of 7 bits after eight packets without, an IR-DYN after 32, and eight strong packets from a change of the hop limit
/// on, of which the first four say it.
#[test]
fn confirmations_follow_the_policy() {
    let strong = |kinds: &[PacketType]| -> Vec<usize> {
        let is_strong = |kind: &PacketType| {
            use PacketType::{CoCommon, Ir, IrDyn, Rnd8, Seq8};
            matches!(kind, CoCommon | Ir | IrDyn | Rnd8 | Seq8)
        };
        (1..).zip(kinds).filter(|(_, kind)| is_strong(kind)).map(|(number, _)| number).collect()
    };
    let usual = kinds(CompressorConfig::default());
    let expected = [1, 2, 3, 4, 5, 10, 19, 28, 37, 46, 55, 60, 61, 62, 63, 64, 65, 66, 67, 70, 79];
    assert_eq!(strong(&usual), expected);
    let telling_all = (1..).zip(&usual).filter(|(_, kind)| **kind == PacketType::IrDyn);
    assert_eq!(telling_all.map(|(number, _)| number).collect::<Vec<_>>(), [37, 70]);
    let without = kinds(CompressorConfig { confirm: 0, ..CompressorConfig::default() });
    assert_eq!(strong(&without), [1, 2, 3, 4, 60, 61, 62, 63]);
}

#[test]
fn refreshes_follow_the_policy() {
    let config =
        || CompressorConfig { ir_refresh: Refresh::every_packets(40), ..CompressorConfig::default() };
    assert_eq!(irs(config(), 0), [1, 2, 3, 4, 45, 86]);
    let slowly = irs(CompressorConfig { slow_start: true, ..config() }, 0);
    assert_eq!(slowly, [1, 3, 6, 11, 20, 37, 70]);
    let thrice = CompressorConfig { refresh_repeats: 3, ..config() };
    assert_eq!(irs(thrice, 0), [1, 2, 3, 4, 45, 46, 47, 88, 89, 90]);
    let spread = || CompressorConfig { spread_refreshes: true, ..config() };
    let firsts: Vec<_> = (0..8).map(|before| irs(spread(), before)[4]).collect();
    assert!((0..8).all(|at| !firsts[..at].contains(&firsts[at])), "in unison: {firsts:?}");
}
