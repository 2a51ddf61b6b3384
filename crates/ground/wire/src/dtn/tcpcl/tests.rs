use super::*;
use proptest::prelude::*;

fn emitted(message: &Message<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    message.emit(&mut out);
    out
}

/// SESS_INIT of dtn7 0.21, and lengths of RFC 9174.
#[test]
fn worked_messages() {
    let init = SessionInit {
        keepalive: 30,
        segment_mru: 64_000,
        transfer_mru: 64_000,
        node: "dtn://node2/",
        extensions: &[],
    };
    let bytes = [
        &[7, 0, 0x1e][..],
        &[0, 0, 0, 0, 0, 0, 0xfa, 0, 0, 0, 0, 0, 0, 0, 0xfa, 0, 0, 0x0c],
        b"dtn://node2/",
        &[0, 0, 0, 0],
    ];
    assert_eq!(emitted(&Message::Init(init)), bytes.concat());
    let flags = SegmentFlags(3);
    let segment = Message::Segment { flags, transfer: 0, extensions: &[], data: &[9; 72] };
    assert_eq!(emitted(&segment).len(), 22 + 72);
    assert_eq!(emitted(&Message::Ack { flags, transfer: 0, len: 72 }).len(), ACK_LEN);
    assert_eq!(emitted(&Message::Keepalive), [4]);
}

#[test]
fn lengths_are_refused_before_the_bytes_arrive() {
    let mut head = Vec::new();
    put_segment_head(&mut head, SegmentFlags(3), 0, &[], u64::MAX);
    assert!(Message::parse(&head, 64_000).is_err());
    let long = [&[1, 2][..], &[0; 8], &[0xff; 4]].concat();
    assert!(Message::parse(&long, 64_000).is_err());
    assert!(Message::parse(&[8], 10).is_err());
}

#[test]
fn contact_headers() {
    assert_eq!(parse_contact(b"dtn!\x04\x01"), Ok(Some((4, 1))));
    assert_eq!(parse_contact(b"dtn"), Ok(None));
    assert!(parse_contact(b"HTTP").is_err());
}

#[test]
fn extension_items_round_trip() {
    let item = Extension { is_critical: true, code: TRANSFER_LENGTH, value: &[0; 8] };
    let mut out = Vec::new();
    item.put(&mut out);
    item.put(&mut out);
    assert_eq!(Extension::parse_all(&out), Ok(vec![item; 2]));
    assert!(Extension::parse_all(&out[..out.len() - 1]).is_err());
}

proptest! {
    #[test]
    fn messages_round_trip_at_any_cut(
        code in 1u8..8, flags in 0u8..4, transfer: u64, len: u64, reason: u8,
        data in proptest::collection::vec(any::<u8>(), 0..40), cut in 0usize..100,
    ) {
        let flags = SegmentFlags(flags);
        let message = match code {
            1 => Message::Segment { flags, transfer, extensions: if flags.is_start() { &data } else { &[] }, data: &data },
            2 => Message::Ack { flags, transfer, len },
            3 => Message::Refuse { reason, transfer },
            4 => Message::Keepalive,
            5 => Message::Terminate { is_reply: reason & 1 != 0, reason },
            6 => Message::Reject { reason, header: reason },
            _ => Message::Init(SessionInit { keepalive: 7, segment_mru: len, transfer_mru: transfer, node: "ipn:2.0", extensions: &data }),
        };
        let bytes = emitted(&message);
        prop_assert_eq!(Message::parse(&bytes, 100), Ok(Read::Whole(message, bytes.len())));
        if cut < bytes.len() {
            let is_incomplete = matches!(Message::parse(&bytes[..cut], 100), Ok(Read::Incomplete(needed)) if needed > cut);
            prop_assert!(is_incomplete);
        }
    }
}
