//! Generated flows come back whole, and no octets whatever do harm.

use std::time::Duration;

use bentpipe_rohc::{
    Channel, CidSpace, Compressor, CompressorConfig, Decompressor, DecompressorConfig, Mode, Refresh,
    RtpRule, segment,
};
use proptest::prelude::*;

/// One packet of a generated flow: what differs from the one before.
#[derive(Clone, Debug)]
struct Step {
    sn: u16,
    ts: u32,
    id: u16,
    tos: Option<u8>,
    ttl: Option<u8>,
    marker: bool,
    payload_type: Option<u8>,
    csrcs: Option<u8>,
    payload: u8,
    lost: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let rarely = |strategy: BoxedStrategy<u8>| prop_oneof![12 => Just(None), 1 => strategy.prop_map(Some)];
    let sn = prop_oneof![20 => Just(1u16), 2 => 0u16..40, 1 => any::<u16>()];
    let ts =
        prop_oneof![20 => Just(160u32), 3 => (0u32..30).prop_map(|frames| frames * 160), 1 => any::<u32>()];
    let id = prop_oneof![20 => Just(1u16), 3 => 0u16..300, 1 => any::<u16>()];
    let tail = (
        any::<bool>(),
        rarely((0u8..128).boxed()),
        rarely((0u8..16).boxed()),
        0u8..40,
        prop::bool::weighted(0.05),
    );
    (sn, ts, id, rarely(any::<u8>().boxed()), rarely(any::<u8>().boxed()), tail).prop_map(
        |(sn, ts, id, tos, ttl, (marker, payload_type, csrcs, payload, lost))| Step {
            sn,
            ts,
            id,
            tos,
            ttl,
            marker,
            payload_type,
            csrcs,
            payload,
            lost,
        },
    )
}

/// The state of a flow, and its packets.
#[derive(Debug)]
struct Flow {
    version: u8,
    protocol: u8,
    tunnel: bool,
    checksum: bool,
    sn: u16,
    ts: u32,
    id: u16,
    tos: u8,
    ttl: u8,
    payload_type: u8,
    csrcs: u8,
}

impl Flow {
    fn packet(&mut self, step: &Step) -> Vec<u8> {
        self.sn = self.sn.wrapping_add(step.sn);
        self.ts = self.ts.wrapping_add(step.ts);
        self.id = self.id.wrapping_add(step.id);
        self.tos = step.tos.unwrap_or(self.tos);
        self.ttl = step.ttl.unwrap_or(self.ttl);
        self.payload_type = step.payload_type.unwrap_or(self.payload_type);
        self.csrcs = step.csrcs.unwrap_or(self.csrcs);
        let mut packet = self.transport(step);
        packet = self.ip(self.version, self.protocol, packet);
        if self.tunnel {
            let inner = if self.version == 4 { 4 } else { 41 };
            packet = self.ip(10 - self.version, inner, packet);
        }
        packet
    }

    fn transport(&self, step: &Step) -> Vec<u8> {
        let payload = vec![step.payload; usize::from(step.payload)];
        if self.protocol == 50 {
            return [&[0, 0, 1, 0][..], &u32::from(self.sn).to_be_bytes(), &payload].concat();
        }
        let mut rtp = vec![0x80 | self.csrcs, u8::from(step.marker) << 7 | self.payload_type];
        rtp.extend_from_slice(&self.sn.to_be_bytes());
        rtp.extend_from_slice(&self.ts.to_be_bytes());
        rtp.extend_from_slice(&[1, 2, 3, 4]);
        (0..self.csrcs).for_each(|csrc| rtp.extend_from_slice(&[9, 9, 9, csrc]));
        rtp.extend_from_slice(&payload);
        let len = (rtp.len() + 8) as u16;
        let checksum: u16 = if self.checksum || self.protocol == 136 { 0x1234 ^ self.sn } else { 0 };
        let coverage = if self.protocol == 136 && step.payload.is_multiple_of(7) { 8 } else { len };
        let ports = [0x20, 0x00, 0x20, 0x02];
        [&ports[..], &coverage.to_be_bytes(), &checksum.to_be_bytes(), &rtp].concat()
    }

    fn ip(&self, version: u8, protocol: u8, payload: Vec<u8>) -> Vec<u8> {
        if version == 6 {
            let len = (payload.len() as u16).to_be_bytes();
            let head = [0x60 | self.tos >> 4, self.tos << 4, 0, 0, len[0], len[1], protocol, self.ttl];
            return [&head[..], &[1; 16], &[2; 16], &payload].concat();
        }
        let len = (payload.len() as u16 + 20).to_be_bytes();
        let id = self.id.to_be_bytes();
        let mut head = [
            0x45, self.tos, len[0], len[1], id[0], id[1], 0, 0, self.ttl, protocol, 0, 0, 1, 1, 1, 1, 2, 2,
            2, 2,
        ];
        let sum: u32 = head.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        head[10..12].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
        [&head[..], &payload].concat()
    }
}

fn flow() -> impl Strategy<Value = Flow> {
    let protocol = prop_oneof![4 => Just(17u8), 1 => Just(50u8), 2 => Just(136u8), 1 => Just(253u8)];
    let version = prop_oneof![Just(4u8), Just(6u8)];
    (version, protocol, any::<bool>(), any::<bool>(), any::<u16>(), any::<u32>(), any::<u16>()).prop_map(
        |(version, protocol, tunnel, checksum, sn, ts, id)| Flow {
            version,
            protocol,
            tunnel,
            checksum,
            sn,
            ts,
            id,
            tos: 0,
            ttl: 64,
            payload_type: 0,
            csrcs: 0,
        },
    )
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Unidirectional), Just(Mode::Optimistic), Just(Mode::Reliable)]
}

fn ends(mode: Mode, rtp: bool, slow_start: bool, large: bool) -> (Compressor, Decompressor) {
    let cids = if large { CidSpace::Large { max_cid: 500 } } else { CidSpace::Small { max_cid: 3 } };
    let channel = Channel { cids, ..Channel::default() };
    let rtp = if rtp { RtpRule::Likely } else { RtpRule::Never };
    let compressor = CompressorConfig {
        channel,
        rtp,
        slow_start,
        ir_refresh: Refresh::every_packets(50),
        ..CompressorConfig::default()
    };
    let decompressor = DecompressorConfig { channel, mode, ..DecompressorConfig::default() };
    (Compressor::new(compressor), Decompressor::new(decompressor))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Without loss every packet comes back; the header length that is reported is what was written.
    #[test]
    fn every_packet_comes_back(
        mut flow in flow(), steps in prop::collection::vec(step(), 1..120), mode in mode(), rtp in any::<bool>(),
        slow_start in any::<bool>(), large in any::<bool>(),
    ) {
        let (mut compressor, mut decompressor) = ends(mode, rtp, slow_start, large);
        for (number, step) in steps.iter().enumerate() {
            let packet = flow.packet(step);
            let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            let compressed = compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
            prop_assert_eq!(rohc.len() - compressed.header_out, packet.len() - compressed.header_in);
            let restored = decompressor.decompress(Duration::ZERO, &rohc, &mut ip);
            prop_assert!(matches!(restored, Ok(Some(_))), "packet {}: {:?} of {:?} {:02x?}", number, restored, compressed, rohc);
            prop_assert_eq!(&ip, &packet, "packet {} {:?}", number, compressed);
            // Headers alone give the same.
            if decompressor.take_feedback(&mut feedback) && !step.lost {
                compressor.feedback(&feedback);
            }
        }
    }

    /// A header without its payload is compressed as with it, and restored so.
    #[test]
    fn payload_may_be_elided(mut flow in flow(), steps in prop::collection::vec(step(), 1..60)) {
        let (mut whole, _) = ends(Mode::Unidirectional, true, false, false);
        let (mut header_only, mut decompressor) = ends(Mode::Unidirectional, true, false, false);
        for step in &steps {
            let packet = flow.packet(step);
            let headers = packet.len() - usize::from(step.payload);
            let (mut one, mut two, mut ip) = (Vec::new(), Vec::new(), Vec::new());
            let compressed = whole.compress(Duration::ZERO, &packet, &mut one).expect("compresses");
            let elided =
                header_only.compress_header(Duration::ZERO, &packet[..headers], packet.len(), &mut two).expect("compresses");
            prop_assert_eq!(compressed, elided);
            prop_assert_eq!(&one[..compressed.header_out], &two[..]);
            two.extend_from_slice(&packet[elided.header_in..headers]);
            let restored = decompressor.decompress_header(Duration::ZERO, &two, one.len(), &mut ip);
            let restored = restored.expect("decompresses").expect("a packet");
            prop_assert_eq!(&ip[..], &packet[..restored.header_out]);
        }
    }

    /// Damaged and invented octets never panic, and never make a packet longer than what came.
    #[test]
    fn damage_is_survived(
        mut flow in flow(), steps in prop::collection::vec(step(), 1..60), mode in mode(),
        damage in prop::collection::vec((any::<u16>(), 0usize..60, any::<u8>()), 1..60), rtp in any::<bool>(),
    ) {
        let (mut compressor, mut decompressor) = ends(mode, rtp, true, false);
        for (step, (chance, at, octet)) in steps.iter().zip(damage.iter().cycle()) {
            let packet = flow.packet(step);
            let (mut rohc, mut ip, mut feedback) = (Vec::new(), Vec::new(), Vec::new());
            compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
            if chance % 3 == 0 {
                let at = at % rohc.len();
                rohc[at] ^= octet;
                rohc.truncate(rohc.len() - usize::from(chance % 2) * at);
            }
            let _ = decompressor.decompress(Duration::from_millis(u64::from(*chance)), &rohc, &mut ip);
            prop_assert!(ip.len() < rohc.len() + 20_000);
            if decompressor.take_feedback(&mut feedback) {
                if chance % 5 == 0 {
                    let at = at % feedback.len();
                    feedback[at] ^= octet;
                }
                compressor.feedback(&feedback);
            }
        }
    }

    /// Invented packets and feedback.
    #[test]
    fn invention_is_survived(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..40)) {
        let (mut compressor, mut decompressor) = ends(Mode::Reliable, true, false, false);
        for packet in &packets {
            let (mut ip, mut rohc) = (Vec::new(), Vec::new());
            let _ = decompressor.decompress(Duration::ZERO, packet, &mut ip);
            compressor.feedback(packet);
            compressor.feedback_data(packet);
            if compressor.compress(Duration::ZERO, packet, &mut rohc).is_ok() {
                ip.clear();
                let (_, mut fresh) = ends(Mode::Unidirectional, true, false, false);
                let _ = fresh.decompress(Duration::ZERO, &rohc, &mut ip);
            }
        }
    }

    /// Segments give the packet back, and only all of them.
    #[test]
    fn segments_give_the_packet_back(mut flow in flow(), step in step(), max_bytes in 2usize..60, drop in 0usize..8) {
        let packet = flow.packet(&step);
        let channel = Channel { mrru_bytes: 2000, ..Channel::default() };
        let mut compressor = Compressor::new(CompressorConfig { channel, ..CompressorConfig::default() });
        let mut rohc = Vec::new();
        compressor.compress(Duration::ZERO, &packet, &mut rohc).expect("compresses");
        let mut segments = Vec::new();
        segment(&rohc, channel.mrru_bytes, max_bytes, |segment| segments.push(segment.to_vec()));
        for dropped in [None, Some(drop % segments.len())] {
            let mut decompressor = Decompressor::new(DecompressorConfig { channel, ..DecompressorConfig::default() });
            let (mut ip, mut whole) = (Vec::new(), false);
            for (_, segment) in segments.iter().enumerate().filter(|(number, _)| Some(*number) != dropped) {
                whole |= matches!(decompressor.decompress(Duration::ZERO, segment, &mut ip), Ok(Some(_)));
            }
            prop_assert_eq!(whole, dropped.is_none());
            prop_assert!(dropped.is_some() || ip == packet);
        }
    }
}
