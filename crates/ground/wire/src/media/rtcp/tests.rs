use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::Kind;

fn bytes_of(repr: &Repr) -> Vec<u8> {
    let mut bytes = vec![0xff; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes
}

fn words() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<[u8; 4]>(), 0..5).prop_map(|words| words.concat())
}

fn report_block() -> impl Strategy<Value = ReportBlock> {
    (any::<[u32; 5]>(), any::<u8>(), -0x80_0000..=0x7f_ffff_i32).prop_map(|(words, fraction_lost, lost)| {
        let [ssrc, highest_seq, jitter, last_report, since_last_report] = words;
        let cumulative_lost = lost;
        ReportBlock {
            ssrc,
            fraction_lost,
            cumulative_lost,
            highest_seq,
            jitter,
            last_report,
            since_last_report,
        }
    })
}

fn chunk() -> impl Strategy<Value = Chunk> {
    let item = (1..=255_u8, vec(any::<u8>(), 0..20));
    (any::<u32>(), vec(item, 0..4)).prop_map(|(ssrc, items)| Chunk { ssrc, items })
}

fn voip_metrics() -> impl Strategy<Value = VoipMetrics> {
    any::<[u8; 32]>().prop_map(|mut data| {
        data[25] = 0;
        let header = [[7, 0, 0, 8], data[..4].try_into().unwrap()].concat();
        let bytes = [&header[..4], &data[..]].concat();
        match &xr::parse_all(&bytes).unwrap()[..] {
            [Block::VoipMetrics(metrics)] => *metrics,
            other => panic!("{other:?}"),
        }
    })
}

fn block() -> impl Strategy<Value = Block> {
    let dlrr = any::<[u32; 3]>().prop_map(|[ssrc, last_report, since_last_report]| Dlrr {
        ssrc,
        last_report,
        since_last_report,
    });
    prop_oneof![
        any::<u64>().prop_map(|ntp| Block::ReceiverReferenceTime { ntp }),
        vec(dlrr, 0..3).prop_map(Block::Dlrr),
        voip_metrics().prop_map(Block::VoipMetrics),
        (1..=3_u8, any::<u8>(), words())
            .prop_map(|(block_type, specific, data)| { Block::Other { block_type, specific, data } }),
    ]
}

fn report() -> impl Strategy<Value = Repr> {
    let info = (any::<u64>(), any::<[u32; 3]>()).prop_map(|(ntp, [rtp_timestamp, packets, octets])| {
        SenderInfo { ntp, rtp_timestamp, packets, octets }
    });
    prop_oneof![
        (any::<u32>(), info, vec(report_block(), 0..=31), words())
            .prop_map(|(ssrc, info, blocks, extension)| Repr::SenderReport { ssrc, info, blocks, extension }),
        (any::<u32>(), vec(report_block(), 0..=31), words())
            .prop_map(|(ssrc, blocks, extension)| Repr::ReceiverReport { ssrc, blocks, extension }),
    ]
}

fn packet() -> impl Strategy<Value = Repr> {
    prop_oneof![
        report(),
        vec(chunk(), 0..=31).prop_map(Repr::Description),
        (vec(any::<u32>(), 0..=31), proptest::option::of(vec(any::<u8>(), 0..40)))
            .prop_map(|(sources, reason)| Repr::Bye { sources, reason }),
        (any::<u32>(), vec(block(), 0..4)).prop_map(|(ssrc, blocks)| Repr::Extended { ssrc, blocks }),
        (204..=206_u8, 0..32_u8, words()).prop_map(|(packet_type, count, body)| Repr::Other {
            packet_type,
            count,
            body
        }),
    ]
}

proptest! {
    #[test]
    fn round_trip(first in report(), others in vec(packet(), 0..4)) {
        let packets = [vec![first], others].concat();
        let mut bytes = vec![0xff; compound_len(&packets)];
        emit_compound(&packets, &mut bytes);
        prop_assert!(is_rtcp(&bytes));
        prop_assert_eq!(parse_compound(&bytes), Ok(packets));
    }

    #[test]
    fn never_panics(mut bytes in vec(any::<u8>(), 0..120), packet_type in 200..=208_u8) {
        if let [first, second, high, ..] = &mut bytes[..] {
            (*first, *second, *high) = (0x80 | *first & 0x3f, packet_type, 0);
        }
        if let Ok((repr, len)) = Repr::parse(&bytes) {
            prop_assert!(len <= bytes.len() && repr.buffer_len() <= len + 4);
        }
        let _ = parse_compound(&bytes);
    }
}

/// A receiver report by hand: negative total, and a highest sequence number in its second cycle.
#[test]
fn a_receiver_report_has_its_bytes() {
    let block = ReportBlock {
        ssrc: 0x0102_0304,
        fraction_lost: 0x40,
        cumulative_lost: -2,
        highest_seq: 0x0001_0007,
        jitter: 88,
        last_report: 0xaabb_ccdd,
        since_last_report: 0x0001_8000,
    };
    let repr = Repr::ReceiverReport { ssrc: 7, blocks: vec![block], extension: Vec::new() };
    let expected = [
        0x81, 201, 0, 7, 0, 0, 0, 7, 1, 2, 3, 4, 0x40, 0xff, 0xff, 0xfe, 0, 1, 0, 7, 0, 0, 0, 88, 0xaa, 0xbb,
        0xcc, 0xdd, 0, 1, 0x80, 0,
    ];
    assert_eq!(bytes_of(&repr), expected);
    let many = ReportBlock { cumulative_lost: i32::MAX, ..block };
    let repr = Repr::ReceiverReport { ssrc: 7, blocks: vec![many], extension: Vec::new() };
    assert_eq!(bytes_of(&repr)[13..16], [0x7f, 0xff, 0xff]);
}

#[test]
fn errors_name_place_and_reason() {
    let kind = |bytes: &[u8]| parse_compound(bytes).unwrap_err().kind;
    let report = bytes_of(&Repr::ReceiverReport { ssrc: 7, blocks: Vec::new(), extension: Vec::new() });
    let bye = bytes_of(&Repr::Bye { sources: vec![7], reason: Some(b"done".to_vec()) });
    assert_eq!(kind(&[]), Kind::Truncated { needed: 4, have: 0 });
    assert_eq!(kind(&bye), Kind::Malformed("first packet is not an unpadded report"));
    assert_eq!(kind(&[0x40, 201, 0, 0]), Kind::Malformed("version is not 2"));
    assert_eq!(kind(&report[..7]), Kind::Truncated { needed: 8, have: 7 });
    assert_eq!(kind(&[0x81, 201, 0, 1, 0, 0, 0, 7]), Kind::Truncated { needed: 32, have: 8 });
    let padded = [0xa0, 204, 0, 1, 0, 0, 0, 4];
    assert!(parse_compound(&[&report[..], &padded].concat()).is_ok());
    assert_eq!(
        kind(&[&report[..], &padded, &bye].concat()),
        Kind::Malformed("packet after one with padding")
    );
    for padding in [0, 3, 8] {
        let wrong = [0xa0, 204, 0, 1, 0, 0, 0, padding];
        assert_eq!(kind(&[&report[..], &wrong].concat()), Kind::Malformed("padding length"), "{padding}");
    }
    // A source description whose last item has no end, and a BYE whose reason is longer than the packet.
    let error = |bytes: &[u8]| Repr::parse(bytes).unwrap_err();
    assert_eq!(error(&[0x81, 202, 0, 2, 0, 0, 0, 7, 1, 2, 65, 66]).offset, 12);
    assert_eq!(error(&[0x81, 203, 0, 2, 0, 0, 0, 7, 9, 65, 66, 67]).offset, 8);
    // A block of an extended report that is longer than the packet.
    assert_eq!(
        error(&[0x80, 207, 0, 2, 0, 0, 0, 7, 7, 0, 0, 8]).kind,
        Kind::Truncated { needed: 44, have: 12 }
    );
}
