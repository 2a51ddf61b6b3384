//! Packets through compressor and decompressor, with and without losses between them.

use std::time::Duration;

use crate::support::{Segment, ip, rtp, sum, transfer, udp};
use bentpipe_hc::{Compressor, Config, Decompressor, Error, Kind, Scheme};
use proptest::prelude::*;

const SCHEMES: [Scheme; 3] = [Scheme::VanJacobson, Scheme::Iphc, Scheme::Crtp];

/// Both ends of a link.
struct Ends {
    compressor: Compressor,
    decompressor: Decompressor,
    now: Duration,
}

impl Ends {
    fn new(config: Config) -> Ends {
        Ends {
            compressor: Compressor::new(config),
            decompressor: Decompressor::new(config),
            now: Duration::ZERO,
        }
    }

    /// Sends a packet; it is lost on the way if `is_lost`.
    fn carry(&mut self, packet: &[u8], is_lost: bool) -> (Kind, usize, Option<Result<Vec<u8>, Error>>) {
        self.now += Duration::from_millis(20);
        let (mut frame, mut restored) = (Vec::new(), Vec::new());
        let sent = self.compressor.compress(self.now, packet, &mut frame);
        assert_eq!(packet.len() - sent.header_in, frame.len() - sent.header_out);
        if is_lost {
            return (sent.kind, frame.len(), None);
        }
        let result = self.decompressor.decompress(sent.kind, &frame, &mut restored);
        (sent.kind, frame.len(), Some(result.map(|_| restored)))
    }

    /// Sends a packet that must come out as it went in.
    fn exact(&mut self, packet: &[u8]) -> (Kind, usize) {
        let (kind, len, result) = self.carry(packet, false);
        assert_eq!(result, Some(Ok(packet.to_vec())), "{kind:?}");
        (kind, len)
    }
}

/// What a capture cut comes back as far as it is there, and a checksum over the rest does not matter.
#[test]
fn packets_that_a_capture_cut_come_back_as_far_as_they_are_there() {
    for scheme in SCHEMES {
        let config = Config::new(scheme);
        let (mut compressor, mut decompressor) = (Compressor::new(config), Decompressor::new(config));
        let (mut frame, mut restored) = (Vec::new(), Vec::new());
        for n in 0..40u16 {
            let packet = match n % 2 {
                0 => transfer(4, u32::from(n / 2), false).packet(),
                _ => udp(4, 1, n / 2, 5004, true, &[&rtp(n / 2, 160, false, 3, &[])[..], &[7; 160]].concat()),
            };
            let kept = &packet[..60];
            let sent = compressor.compress_cut(Duration::ZERO, kept, packet.len(), &mut frame);
            let len = packet.len() - sent.header_in + sent.header_out;
            let lengths = decompressor.decompress_cut(sent.kind, &frame, len, &mut restored);
            let lengths = lengths.expect("nothing is lost");
            assert_eq!((restored.as_slice(), lengths.header_in), (kept, sent.header_out), "{scheme:?} {n}");
            assert_eq!(lengths.header_out, sent.header_in);
        }
        // A list of sources that the snapshot cut.
        for n in 40..44 {
            let packet = udp(4, 1, n, 5004, true, &rtp(n, 160, false, 2, &[5, 6]));
            let sent = compressor.compress_cut(Duration::ZERO, &packet[..44], packet.len(), &mut frame);
            let len = packet.len() - sent.header_in + sent.header_out;
            decompressor.decompress_cut(sent.kind, &frame, len, &mut restored).expect("nothing is lost");
            assert_eq!(restored, packet[..44], "{scheme:?} {n}");
        }
        // Less than the header.
        let cut = decompressor.decompress_cut(Kind::CompressedTcp, &[0, 2], 100, &mut restored);
        assert!(cut.is_err() && restored.is_empty());
        let long = decompressor.decompress_cut(Kind::Ipv4, &[0x45], usize::MAX, &mut restored);
        assert_eq!(long, Err(Error::Malformed));
    }
}

#[test]
fn headers_have_the_published_lengths() {
    // A transfer: mask and checksum (RFC 1144 5), with the connection's number (RFC 2507 6).
    for (scheme, kind, len) in
        [(Scheme::VanJacobson, Kind::VjCompressed, 3), (Scheme::Iphc, Kind::CompressedTcp, 4)]
    {
        let mut ends = Ends::new(Config::new(scheme));
        let sent: Vec<_> = (0..10).map(|n| ends.exact(&transfer(4, n, false).packet())).collect();
        assert_eq!(sent[9], (kind, 1000 + len), "{scheme:?}");
    }
    // Options that change: Van Jacobson's scheme has no form for them, IPHC sends all 12 bytes.
    let mut ends = Ends::new(Config::new(Scheme::VanJacobson));
    assert!((0..10).all(|n| ends.exact(&transfer(4, n, true).packet()).0 == Kind::VjUncompressed));
    let mut ends = Ends::new(Config::new(Scheme::Iphc));
    let sent: Vec<_> = (0..10).map(|n| ends.exact(&transfer(6, n, true).packet())).collect();
    assert_eq!(sent[9], (Kind::CompressedTcp, 1000 + 16));
    // UDP: identifier, generation, identification and checksum of IPv4.
    let mut ends = Ends::new(Config::new(Scheme::Iphc));
    let sent: Vec<_> = (0..10).map(|n| ends.exact(&udp(4, 1, n, 5001, true, &[7; 20]))).collect();
    assert_eq!(sent[9], (Kind::CompressedNonTcp, 20 + 6));
    // RTP: 2 bytes without a checksum, 4 with one (RFC 2508 1).
    for (version, has_checksum, len) in [(4, false, 2), (4, true, 4), (6, true, 4)] {
        let mut ends = Ends::new(Config::new(Scheme::Crtp));
        let call =
            |n: u16| udp(version, 1, n, 5004, has_checksum, &rtp(n, 160 * u32::from(n), false, 3, &[]));
        let sent: Vec<_> = (0..10).map(|n| ends.exact(&call(n))).collect();
        assert_eq!(sent[9], (Kind::CompressedRtp { long: false }, 33 + len));
    }
}

#[test]
fn full_headers_come_in_slow_start_and_in_periods() {
    let mut ends = Ends::new(Config { max_period: 16, ..Config::new(Scheme::Iphc) });
    let sent: Vec<Kind> = (0..64).map(|n| ends.exact(&udp(6, 1, n, 5001, true, &[7; 20])).0).collect();
    let full: Vec<usize> = (0..64).filter(|n| sent[*n] == Kind::FullHeader).collect();
    // After one compressed header, then 2, 4, 8, 16, and each 16 (RFC 2507 3.3.1).
    assert_eq!(full, [0, 2, 5, 10, 19, 36, 53]);
    ends.now += Duration::from_secs(6);
    assert_eq!(ends.exact(&udp(6, 1, 64, 5001, true, &[7; 20])).0, Kind::FullHeader);
}

#[test]
fn a_lost_frame_of_rtp_is_found_and_repaired_by_a_request() {
    let mut ends = Ends::new(Config::new(Scheme::Crtp));
    let call = |n: u16| udp(4, 1, n, 5004, true, &rtp(n, 160 * u32::from(n), false, 3, &[]));
    (0..5).for_each(|n| {
        ends.exact(&call(n));
    });
    ends.carry(&call(5), true);
    assert_eq!(ends.carry(&call(6), false).2, Some(Err(Error::Gap)));
    assert_eq!(ends.carry(&call(7), false).2, Some(Err(Error::NoContext)));
    let states = ends.decompressor.take_context_states(ends.now);
    assert_eq!(states.len(), 1);
    assert_eq!(states[0][..3], [1, 1, 0]);
    // Another one waits.
    assert_eq!(ends.carry(&call(8), false).2, Some(Err(Error::NoContext)));
    assert!(ends.decompressor.take_context_states(ends.now).is_empty());
    ends.compressor.context_state(&states[0]);
    assert_eq!(ends.exact(&call(8)).0, Kind::FullHeader);
    assert_eq!(ends.exact(&call(9)).0, Kind::CompressedRtp { long: false });
}

#[test]
fn a_lost_segment_is_repaired_by_its_difference_or_a_request() {
    let mut ends = Ends::new(Config::new(Scheme::Iphc));
    (0..5).for_each(|n| {
        ends.exact(&transfer(4, n, false).packet());
    });
    ends.carry(&transfer(4, 5, false).packet(), true);
    ends.exact(&transfer(4, 6, false).packet());
    assert_eq!(ends.decompressor.repaired(), 1);
    // A difference unlike the next one does not repair.
    ends.carry(&Segment { data: 300, ..transfer(4, 7, false) }.packet(), true);
    let odd = |n: u32| Segment { sequence: 12_300 + 777 * (n - 7), ..transfer(4, n, false) }.packet();
    assert_eq!(ends.carry(&odd(8), false).2, Some(Err(Error::Checksum)));
    let states = ends.decompressor.take_context_states(ends.now);
    assert_eq!(states, [[3, 1, 0]]);
    ends.compressor.context_state(&states[0]);
    assert_eq!(ends.exact(&odd(9)).0, Kind::FullHeader);
}

#[test]
fn connections_beyond_the_contexts_share_them() {
    for scheme in SCHEMES {
        let config = Config { tcp_contexts: 3, contexts: 3, ..Config::new(scheme) };
        let mut ends = Ends::new(config);
        for n in 0..200u32 {
            let host = (n * 7 % 10) as u8;
            ends.exact(&Segment { host, ..transfer(4, n, false) }.packet());
            let payload = rtp(n as u16, 160 * n, n.is_multiple_of(9), 3, &[]);
            ends.exact(&udp(4, host, n as u16, 5004, true, &payload));
        }
    }
}

#[test]
fn identifiers_of_16_bits_are_for_many_flows() {
    for scheme in [Scheme::Iphc, Scheme::Crtp] {
        let mut ends = Ends::new(Config { contexts: 1000, ..Config::new(scheme) });
        for n in 0..4000u32 {
            let (flow, n) = (n % 700, n / 700);
            let payload = rtp(n as u16, 160 * n, false, 3, &[]);
            let (kind, _) = ends.exact(&udp(6, 1, 0, 4000 + 2 * flow as u16, true, &payload));
            let expected = if scheme == Scheme::Iphc {
                Kind::CompressedNonTcp
            } else {
                Kind::CompressedRtp { long: true }
            };
            assert!(n == 0 || kind == Kind::FullHeader || kind == expected || n == 1, "{kind:?}");
        }
    }
}

#[test]
fn what_cannot_be_restored_passes_as_it_is() {
    for scheme in SCHEMES {
        let mut ends = Ends::new(Config::new(scheme));
        let mut packet = transfer(4, 1, false).packet();
        packet[10] ^= 1;
        assert_eq!(ends.exact(&packet).0, Kind::Ipv4, "a wrong checksum");
        let mut packet = transfer(6, 1, false).packet();
        packet.push(0);
        assert_eq!(ends.exact(&packet).0, Kind::Ipv6, "padding behind the packet");
        assert_eq!(
            ends.exact(&Segment { flags: 0x02, ..transfer(4, 1, false) }.packet()).0,
            Kind::Ipv4,
            "a SYN"
        );
        let mut packet = transfer(4, 1, false).packet();
        packet[50] ^= 1;
        let kind = ends.exact(&packet).0;
        assert!(scheme == Scheme::VanJacobson || kind == Kind::Ipv4, "a wrong TCP checksum");
        ends.exact(&[0x45]);
        ends.exact(&[]);
    }
}

/// Any packet of few flows, with fields that change little or much.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![Just(0u32), Just(1), Just(160), Just(1000), 0..0x2_0000u32, any::<u32>()];
    let version = prop_oneof![Just(4u8), Just(6)];
    let segment = (
        (version.clone(), 0..2u8, 0..4u8, 0..3u16),
        (small.clone(), small.clone(), prop_oneof![Just(0x10u16), Just(0x18), Just(0x30), 0..0x1000u16]),
        (0..3u16, 0..2u16, proptest::option::of(0..3u32), 0..4usize),
    );
    let segment = segment.prop_map(
        |((version, host, class, id), (sequence, ack, flags), (window, urgent, timestamp, data))| {
            Segment {
                version,
                host,
                class,
                id,
                sequence,
                ack,
                flags,
                window,
                urgent,
                timestamp,
                data: data * 500,
            }
            .packet()
        },
    );
    let call = (
        (version, 0..2u8, 0..3u16, any::<bool>()),
        (0..4u16, small, any::<bool>(), 0..2u8),
        0..3usize,
        any::<bool>(),
    );
    let call = call.prop_map(
        |((version, host, id, checksum), (sequence, timestamp, marker, kind), sources, is_rtp)| {
            let payload =
                if is_rtp { rtp(sequence, timestamp, marker, kind, &vec![3; sources]) } else { vec![1; 20] };
            udp(version, host, id, 5004, checksum || version == 6, &payload)
        },
    );
    let other = (0..2u8, any::<u16>()).prop_map(|(host, id)| ip(4, host, 0, id, 1, vec![8, 0, 1, 2], None));
    prop_oneof![4 => segment, 4 => call, 1 => other]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_packets_come_out_as_they_went_in(packets in proptest::collection::vec(any_packet(), 1..60)) {
        for scheme in SCHEMES {
            let mut ends = Ends::new(Config { contexts: 4, tcp_contexts: 4, ..Config::new(scheme) });
            packets.iter().for_each(|packet| {
                ends.exact(packet);
            });
        }
    }

    /// Behind losses a TCP segment may be wrong, but then its checksum is; packets of UDP are right or refused while
    /// fewer than 16 frames in a row are lost.
    #[test]
    fn losses_leave_no_wrong_packet_unseen(
        packets in proptest::collection::vec((any_packet(), proptest::bool::weighted(0.2)), 1..60),
    ) {
        for scheme in SCHEMES {
            let mut ends = Ends::new(Config { contexts: 4, tcp_contexts: 4, ..Config::new(scheme) });
            for (packet, is_lost) in &packets {
                let (kind, _, result) = ends.carry(packet, *is_lost);
                let Some(Ok(restored)) = result else { continue };
                if restored != *packet {
                    let is_tcp = packet[if packet[0] >> 4 == 4 { 9 } else { 6 }] == 6;
                    prop_assert!(is_tcp, "{scheme:?}: {kind:?}");
                    if scheme == Scheme::VanJacobson {
                        let segment = &restored[20..];
                        let pseudo = [&restored[12..20], &[0, 6], &(segment.len() as u16).to_be_bytes()].concat();
                        let is_wrong = sum(&[&pseudo[..], segment].concat()) != 0xffff;
                        let id_alone = restored[20..] == packet[20..];
                        prop_assert!(is_wrong || id_alone, "{kind:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_restored(
        frames in proptest::collection::vec((0..13usize, proptest::collection::vec(any::<u8>(), 0..80)), 1..40),
        contexts in 1..600u16,
    ) {
        let mut decompressor = Decompressor::new(Config { contexts, ..Config::new(Scheme::Crtp) });
        let mut out = Vec::new();
        for (kind, frame) in &frames {
            let _ = decompressor.decompress(Kind::ALL[*kind], frame, &mut out);
            decompressor.take_context_states(Duration::ZERO);
        }
    }
}
