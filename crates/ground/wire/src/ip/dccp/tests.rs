use proptest::prelude::*;

use super::*;
use crate::ip::Protocol;
use crate::ip::quick_start::{RateCode, Response};

fn pseudo() -> Pseudo {
    Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::DCCP)
}

fn header(kind: Type) -> Repr {
    let (ack, extra) = (
        if kind.acknowledges() { 0x1234_5678_9abc } else { 0 },
        if kind.extra_len() > 0 { 0x7465_7374 } else { 0 },
    );
    let mut options = Options::default();
    assert!(options.push_receive_rate(123_456) && options.push_loss_event_rate(0.01));
    assert!(options.push_elapsed_ns(1_234_567_000));
    assert!(options.push_quick_start(&Response { rate: RateCode::from_bits(4), ttl_diff: 9, nonce: 77 }));
    Repr { src_port: 5001, dst_port: 5002, kind, ccval: 9, sequence: 0xffff_0000_0001, ack, extra, options }
}

#[test]
fn headers_of_every_type_are_read_as_written() {
    for kind in Type::ALL {
        let repr = header(kind);
        let mut bytes = vec![0; repr.buffer_len() + 10];
        repr.emit(&mut bytes);
        let mut packet = Packet::new_elided(&mut bytes[..], 90).expect("a packet");
        packet.fill_checksum(&pseudo());
        packet.verify_checksum(&pseudo()).expect("its checksum");
        assert_eq!(Repr::parse(&packet), Ok(repr.clone()), "{kind:?}");
        assert_eq!((packet.payload_len(), packet.header_len()), (100, repr.buffer_len()));
        assert_eq!(packet.ack().is_some(), kind.acknowledges());
    }
}

#[test]
fn values_of_options_come_back() {
    let options = header(Type::Ack).options;
    assert_eq!(options.receive_rate(), Some(123_456));
    assert_eq!(options.loss_event_rate(), Some(0.01));
    assert_eq!(options.elapsed_ns(), Some(1_234_560_000));
    assert_eq!(options.quick_start().map(|response| response.ttl_diff), Some(9));
    let mut none = Options::default();
    none.push_loss_event_rate(0.0);
    assert_eq!(none.loss_event_rate(), Some(0.0));
    // Rounded up: an interval of 66.7 packets is 67.
    let mut rounded = Options::default();
    rounded.push_loss_event_rate(0.015);
    assert_eq!(rounded.loss_event_rate(), Some(1.0 / 67.0));
}

#[test]
fn short_sequence_numbers_are_read() {
    let bytes = [0x13, 0x89, 0x13, 0x8a, 4, 0, 0, 0, 0x06, 1, 2, 3, 0, 4, 5, 6];
    let packet = Packet::new_checked(&bytes[..]).expect("an acknowledgement");
    assert_eq!((packet.kind(), packet.sequence(), packet.ack()), (Type::Ack, 0x01_0203, Some(0x04_0506)));
}

#[test]
fn what_is_wrong_is_said() {
    let mut bytes = vec![0; header(Type::Ack).buffer_len()];
    header(Type::Ack).emit(&mut bytes);
    let wrong = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        Packet::new_checked(bytes).map(|_| ()).map_err(|error| error.to_string())
    };
    assert!(wrong(8, 0x17).unwrap_err().contains("reserved packet type"));
    assert!(wrong(8, 0x00).unwrap_err().contains("short sequence number"));
    assert!(wrong(4, 5).unwrap_err().contains("inside the header"));
    assert!(wrong(4, 255).unwrap_err().contains("truncated"));
    assert!(Packet::new_checked(&bytes[..11]).is_err());
    let mut damaged = bytes.clone();
    damaged[24 + 1] = 1;
    assert!(Repr::parse(&Packet::new_checked(damaged).expect("a header")).is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), elided in 0..1000usize) {
        if let Ok(packet) = Packet::new_elided(&bytes[..], elided) {
            let _ = packet.verify_checksum(&pseudo());
            prop_assert!(packet.payload_len() >= elided);
            if let Ok(repr) = Repr::parse(&packet) {
                let mut again = vec![0; repr.buffer_len()];
                repr.emit(&mut again);
                let packet = Packet::new_checked(&again[..]).expect("what was written");
                prop_assert_eq!(Repr::parse(&packet), Ok(repr));
            }
        }
    }
}
