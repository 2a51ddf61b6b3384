use super::*;
use proptest::prelude::*;

const ENGINE: SessionId = SessionId { engine: 2, number: 1 };

fn emitted(content: Content<'_>) -> Vec<u8> {
    Segment::new(ENGINE, content).to_vec()
}

/// Segments that tshark 4.0 dissects as written here.
#[test]
fn worked_segments() {
    let bundle = [0x9f; 72];
    let end =
        Data { checkpoint: Some((77, 0)), ends_red: true, ends_block: true, client: 1, ..Data::default() };
    let data = emitted(Content::Data(end, &bundle));
    assert_eq!((data.len(), &data[..9]), (81, &[3, 2, 1, 0, 1, 0, 0x48, 0x4d, 0][..]));
    let report = Report { serial: 500, checkpoint: 77, upper: 72, lower: 0, claims: vec![(0, 72)] };
    assert_eq!(emitted(Content::Report(report)), [8, 2, 1, 0, 0x83, 0x74, 0x4d, 0x48, 0, 1, 0, 0x48]);
    assert_eq!(emitted(Content::ReportAck(500)), [9, 2, 1, 0, 0x83, 0x74]);
    assert_eq!(emitted(Content::CancelBySender(Reason::Retransmissions)), [12, 2, 1, 0, 2]);
    assert_eq!(emitted(Content::SenderCancelAck), [13, 2, 1, 0]);
    let green = Data { is_green: true, ends_block: true, client: 1, ..Data::default() };
    assert_eq!(emitted(Content::Data(green, &bundle))[..7], [7, 2, 1, 0, 1, 0, 0x48]);
}

#[test]
fn forbidden_segments_are_refused() {
    let refused: [&[u8]; 10] = [
        &[],
        &[0x10, 2, 1, 0, 1, 0, 0],
        &[5, 2, 1, 0, 1, 0, 0],
        &[10, 2, 1, 0],
        &[0, 2, 1, 0, 1, 0, 5, 1],
        &[0, 2, 1, 0, 1, 0, 1, 1, 9],
        &[8, 2, 1, 0, 0, 1, 5, 0, 0],
        &[8, 2, 1, 0, 1, 1, 5, 5, 0],
        &[8, 2, 1, 0, 1, 1, 5, 0, 2, 0, 3, 2, 2],
        &[12, 2, 1, 0, 6],
    ];
    for bytes in refused {
        assert!(Segment::parse(bytes).is_err(), "{bytes:02x?}");
    }
}

#[test]
fn extensions_are_carried() {
    let bytes = [9, 2, 1, 0x12, 0, 2, 7, 7, 0x4d, 1, 0, 0xc0, 1, 9];
    let segment = Segment::parse(&bytes).unwrap();
    assert_eq!((segment.header_extensions, segment.trailer_extensions.0), ((1, &[0, 2, 7, 7][..]), 2));
    assert_eq!(segment.to_vec(), bytes);
}

proptest! {
    #[test]
    fn segments_round_trip(
        engine: u64, number: u64, code in 0u8..16, offset in 0..u64::MAX / 2, serial in 1u64..,
        bytes in proptest::collection::vec(any::<u8>(), 0..40), lens in proptest::collection::vec((1u64..99, 1u64..99), 0..5),
    ) {
        let end = code & 3;
        let data = Data {
            is_green: code & 4 != 0,
            checkpoint: (code & 4 == 0 && end > 0).then_some((serial, offset)),
            ends_red: code & 4 == 0 && end > 1,
            ends_block: end == 3,
            client: 1,
            offset,
        };
        let mut at = 0;
        let claims = lens.iter().map(|(gap, len)| { let from = at + gap; at = from + len; (from, *len) }).collect();
        let report = Report { serial, checkpoint: offset, upper: offset + at + 1, lower: offset, claims };
        let content = match code {
            8 => Content::Report(report),
            9 => Content::ReportAck(serial),
            12 => Content::CancelBySender(Reason::Cycles),
            13 => Content::SenderCancelAck,
            14 => Content::CancelByReceiver(Reason::System),
            15 => Content::ReceiverCancelAck,
            _ => Content::Data(data, &bytes),
        };
        let segment = Segment::new(SessionId { engine, number }, content);
        let encoded = segment.to_vec();
        prop_assert_eq!(Segment::parse(&encoded), Ok(segment));
    }
}
