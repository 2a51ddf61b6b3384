//! Profiles of version 2 against the formal notation of RFC 5225, read from the text of the RFC: the compressor's headers are
//! in the relation that the notation defines, bit for bit, and the decompressor's packets are those that it relates them to.

#![allow(clippy::print_stdout, reason = "says what was skipped and measured")]

#[path = "support/notation/mod.rs"]
mod model;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bentpipe_rohc::{
    Channel, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Profile, Profiles, ReorderRatio,
    RtpRule,
};
use model::{Model, Notation};

use crate::support::Dice;

/// The notation, or `None` without the text of the RFC.
fn read() -> Option<Notation> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/rfc/rfc5225.txt");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no text of RFC 5225 at {}", path.display());
        return None;
    };
    // Two slips of the text: RTP's version in the layout of its chain, and a field's name in that of UDP over IPv6.
    let text = text.replace("uncompressed_value(2, 0)", "uncompressed_value(2, 2)");
    let text = text.replace("(ip_id_behavior.UVALUE", "(ip_id_behavior_innermost.UVALUE");
    Some(Notation::of_rfc5225(&text))
}

/// A flow whose fields change now and then.
struct Flow {
    profile: Profile,
    is_v6: bool,
    /// Behaviour of the IP-ID: counts, counts with octets swapped, random, constant zero.
    id: u64,
    msn: u32,
    ts: u32,
    stride: u32,
    tos: u8,
    ttl: u8,
    df: bool,
    payload_type: u8,
    flags: u8,
    has_checksum: bool,
    /// How far numbers step back now and then.
    back: u32,
    /// Coverage of UDP-Lite's checksum: all, the same part, parts that change.
    coverage: u64,
}

impl Flow {
    fn new(profile: Profile, dice: &mut Dice) -> Self {
        Self {
            profile,
            is_v6: dice.percent(30),
            id: dice.below(4),
            msn: dice.below(60_000) as u32,
            ts: dice.below(1 << 30) as u32,
            stride: [0, 160, 240, 3000][dice.below(4) as usize],
            tos: 0,
            ttl: 64,
            df: dice.percent(50),
            payload_type: 96,
            flags: 0,
            has_checksum: dice.percent(60),
            back: if dice.percent(25) { 5 } else { 0 },
            coverage: dice.below(3),
        }
    }

    fn next(&mut self, dice: &mut Dice) -> Vec<u8> {
        let step = if dice.percent(90) { 1 } else { (1 + dice.below(20) as u32).wrapping_sub(self.back) };
        self.msn = self.msn.wrapping_add(step);
        let steps = if dice.percent(93) { step } else { dice.below(99) as u32 };
        self.ts = self.ts.wrapping_add(self.stride.wrapping_mul(steps));
        let is_new = |dice: &mut Dice| dice.percent(2);
        if is_new(dice) {
            self.tos = dice.below(256) as u8;
        }
        if is_new(dice) {
            self.ttl = 1 + dice.below(255) as u8;
        }
        if is_new(dice) {
            self.payload_type = dice.below(128) as u8;
        }
        if is_new(dice) {
            self.flags = [0, 0x10, 0x20, 0x30][dice.below(4) as usize];
        }
        if is_new(dice) {
            self.df = !self.df;
        }
        if is_new(dice) {
            self.ts = self.ts.wrapping_add(dice.below(1000) as u32);
        }
        if dice.below(400) == 0 {
            self.id = dice.below(4);
            self.coverage = dice.below(3);
        }
        self.packet(dice)
    }

    fn packet(&self, dice: &mut Dice) -> Vec<u8> {
        let (transport, protocol) = self.transport(dice);
        let counted = (self.msn as u16).wrapping_add(77);
        let id = match self.id {
            0 => counted,
            1 => counted.swap_bytes(),
            2 => dice.below(65_536) as u16,
            _ => 0,
        };
        let len = transport.len() as u16;
        let mut packet = Vec::new();
        if self.is_v6 {
            packet.extend([0x60 | self.tos >> 4, self.tos << 4, 0, 9]);
            packet.extend(len.to_be_bytes());
            packet.extend([protocol, self.ttl]);
            packet.extend([1; 32]);
        } else {
            packet.extend([0x45, self.tos]);
            packet.extend((len + 20).to_be_bytes());
            packet.extend(id.to_be_bytes());
            packet.extend([
                if self.df { 0x40 } else { 0 },
                0,
                self.ttl,
                protocol,
                0,
                0,
                10,
                0,
                0,
                1,
                10,
                0,
                0,
                2,
            ]);
            shift_id(&mut packet, 0);
        }
        packet.extend(transport);
        packet
    }

    fn transport(&self, dice: &mut Dice) -> (Vec<u8>, u8) {
        let mut payload = Vec::new();
        match self.profile {
            Profile::RtpV2 | Profile::RtpUdpLiteV2 => {
                payload
                    .extend([0x80 | self.flags, self.payload_type | if dice.percent(4) { 0x80 } else { 0 }]);
                payload.extend((self.msn as u16).to_be_bytes());
                payload.extend(self.ts.to_be_bytes());
                payload.extend([1, 2, 3, 4]);
            }
            Profile::EspV2 => {
                payload.extend([0, 0, 0, 9]);
                payload.extend(self.msn.to_be_bytes());
            }
            _ => {}
        }
        payload.extend([7; 6]);
        match self.profile {
            Profile::RtpV2 | Profile::UdpV2 => {
                let checksum = if self.has_checksum { 1 + dice.below(65_535) as u16 } else { 0 };
                let mut udp = vec![0x17, 0x70, 0x17, 0x72];
                udp.extend((payload.len() as u16 + 8).to_be_bytes());
                udp.extend(checksum.to_be_bytes());
                udp.extend(payload);
                (udp, 17)
            }
            Profile::RtpUdpLiteV2 | Profile::UdpLiteV2 => {
                let mut udp = vec![0x17, 0x70, 0x17, 0x72];
                let len = payload.len() as u16 + 8;
                let coverage = [len, 8, 8 + dice.below(12) as u16][self.coverage as usize];
                udp.extend(coverage.to_be_bytes());
                udp.extend((1 + dice.below(65_535) as u16).to_be_bytes());
                udp.extend(payload);
                (udp, 136)
            }
            Profile::EspV2 => (payload, 50),
            _ => (payload, 253),
        }
    }
}

/// Sends a flow: its headers are in the relation. With a bit changed they are not, or mean the same. Counts the formats.
fn agree(notation: &Notation, profile: Profile, seed: u64, formats: &mut BTreeMap<String, usize>) {
    let mut dice = Dice(seed);
    let mut flow = Flow::new(profile, &mut dice);
    let ratios = [ReorderRatio::None, ReorderRatio::Quarter, ReorderRatio::Half, ReorderRatio::ThreeQuarters];
    let channel = Channel { profiles: Profiles::V2, ..Channel::default() };
    let rtp = if matches!(profile, Profile::RtpV2 | Profile::RtpUdpLiteV2) {
        RtpRule::Ports(vec![0x1772])
    } else {
        RtpRule::Never
    };
    let reorder = ratios[dice.below(4) as usize];
    let config = CompressorConfig { channel, rtp, reorder, ..CompressorConfig::default() };
    let receiver =
        DecompressorConfig { channel, peer_confirms: config.confirms(), ..DecompressorConfig::default() };
    let (mut compressor, mut decompressor) = (Compressor::new(config), Decompressor::new(receiver));
    let mut model = Model::new(notation, profile.id());
    for number in 0..150 {
        let packet = flow.next(&mut dice);
        let (mut rohc, mut restored) = (Vec::new(), Vec::new());
        let sent = compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
        assert_eq!(sent.profile, profile);
        decompressor.decompress(Duration::ZERO, &rohc, &mut restored).expect("decompresses");
        assert_eq!(restored, packet);
        let format = sent.packet_type.name();
        let mut before = model.clone();
        let result = model.check(format, &rohc, &packet);
        assert_eq!(
            result,
            Ok(()),
            "{profile} {reorder:?} seed {seed} packet {number}: {format} {rohc:02x?} {packet:02x?}"
        );
        let bit = dice.below(sent.header_out as u64 * 8) as usize;
        rohc[bit / 8] ^= 0x80 >> (bit % 8);
        // Another MSN, which no header has in UDP and IP, may have the same CRC-3.
        let is_same = |before: &Model<'_>| before.memory.global == model.memory.global;
        if before.check(format, &rohc, &packet).is_ok() && is_same(&before) {
            // A bit without meaning here, such as the indicator of an IP-ID that is random.
            restored.clear();
            let result = decompressor.decompress(Duration::ZERO, &rohc, &mut restored);
            assert!(
                result.is_ok() && restored == packet,
                "{profile} {reorder:?} seed {seed} packet {number}: {format} {rohc:02x?} with bit {bit} changed: {result:?} {:?}",
                before.memory.global
            );
            *formats.entry(format!("{profile} {format}, a bit without meaning")).or_default() += 1;
        }
        *formats.entry(format!("{profile} {format}")).or_default() += 1;
    }
}

#[test]
fn compressor_decompressor_and_notation_agree() {
    let Some(notation) = read() else { return };
    let mut formats = BTreeMap::new();
    let profiles = Profile::ALL.into_iter().filter(|profile| profile.id() > 0x100);
    for profile in profiles {
        (1..=30).for_each(|seed| agree(&notation, profile, seed, &mut formats));
    }
    println!("{formats:#?}");
    let of_rtp = formats.keys().filter(|format| format.starts_with("RTP")).count();
    assert!(of_rtp >= 9, "formats of RTP: {formats:#?}");
}

/// `pt_1_seq_id` of RTP and ESP, which this compressor leaves to longer formats: what the notation relates, the decompressor reads.
#[test]
fn formats_that_are_never_sent_are_read() {
    let Some(notation) = read() else { return };
    for (profile, discriminators) in [(Profile::RtpV2, 0x90..=0x9f), (Profile::EspV2, 0xa0..=0xbf)] {
        let mut dice = Dice(5);
        let still = Flow::new(profile, &mut dice);
        let mut flow = Flow { is_v6: false, id: 0, stride: 160, has_checksum: false, ..still };
        let channel = Channel { profiles: Profiles::V2, ..Channel::default() };
        let config =
            CompressorConfig { channel, rtp: RtpRule::Ports(vec![0x1772]), ..CompressorConfig::default() };
        let receiver = DecompressorConfig { channel, ..DecompressorConfig::default() };
        let (mut compressor, mut decompressor) = (Compressor::new(config), Decompressor::new(receiver));
        let mut model = Model::new(&notation, profile.id());
        let step = |flow: &mut Flow, shift: u16| {
            (flow.msn, flow.ts) = (flow.msn + 1, flow.ts + 160);
            let mut packet = flow.packet(&mut Dice(1));
            if profile == Profile::RtpV2 {
                packet[29] &= 0x7f;
            }
            shift_id(&mut packet, shift);
            packet
        };
        for _ in 0..40 {
            let packet = step(&mut flow, 0);
            let (mut rohc, mut restored) = (Vec::new(), Vec::new());
            let sent = compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
            decompressor.decompress(Duration::ZERO, &rohc, &mut restored).expect("decompresses");
            assert_eq!(model.check(sent.packet_type.name(), &rohc, &packet), Ok(()));
        }
        let packet = step(&mut flow, 3);
        let headers = discriminators.flat_map(|first| (0..=255).map(move |second| [first, second]));
        let payload = &packet[packet.len() - 6..];
        let rohc = headers.map(|header| [&header[..], payload].concat());
        let found: Vec<Vec<u8>> =
            rohc.filter(|rohc| model.clone().check("pt_1_seq_id", rohc, &packet).is_ok()).collect();
        assert_eq!(found.len(), 1, "the notation has one header for a packet: {found:02x?}");
        let mut restored = Vec::new();
        decompressor.decompress(Duration::ZERO, &found[0], &mut restored).expect("decompresses");
        assert_eq!(restored, packet);
    }
}

/// Adds to the IP-ID of a packet, and corrects the checksum of its header.
fn shift_id(packet: &mut [u8], by: u16) {
    let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(by);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[10..12].fill(0);
    let words = packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
}
