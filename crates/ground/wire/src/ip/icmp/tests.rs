use proptest::prelude::*;

use super::*;
use crate::Kind;
use crate::ip::Protocol;

#[test]
fn an_echo_request_of_linux_ping() {
    // 56 bytes of payload are cut to 8; the checksum is worked out by hand: 0x0800 + 0x1234 + 0x0001 + the data.
    let mut bytes = [0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17];
    let repr = v4::Repr::EchoRequest { ident: 0x1234, seq: 1 };
    repr.emit(&mut bytes);
    let mut message = Message::new_checked(&mut bytes[..]).unwrap();
    message.fill_checksum(None);
    assert_eq!(message.checksum(), !(0x0800u16 + 0x1234 + 1 + 0x1011 + 0x1213 + 0x1415 + 0x1617));
    assert_eq!(v4::Repr::parse(&message), repr);
    assert_eq!(message.payload(), [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17]);
    bytes[9] ^= 1;
    let error = Message::new_checked(&bytes[..]).unwrap().verify_checksum(None).unwrap_err();
    assert_eq!(error.kind, Kind::Checksum);
}

#[test]
fn icmpv6_needs_its_pseudo_header() {
    let pseudo = Pseudo::v6([1; 16].into(), [2; 16].into(), Protocol::ICMPV6);
    let mut bytes = [0; 8];
    v6::Repr::PacketTooBig { mtu: 1280 }.emit(&mut bytes);
    let mut message = Message::new_elided(&mut bytes[..], 100).unwrap();
    message.fill_checksum(Some(&pseudo));
    message.verify_checksum(Some(&pseudo)).unwrap();
    assert!(message.verify_checksum(None).is_err());
    assert_eq!(message.payload_len(), 100);
    assert_eq!(bytes[..2], [2, 0]);
}

#[test]
fn errors_are_told_from_questions() {
    assert!(v4::Repr::TimeExceeded { code: 0 }.is_error());
    assert!(v4::Repr::Other { kind: 5, code: 0, rest: [0; 4] }.is_error());
    assert!(!v4::Repr::EchoReply { ident: 0, seq: 0 }.is_error());
    assert!(!v6::Repr::Other { kind: 135, code: 0, rest: [0; 4] }.is_error());
    assert!(v6::Repr::Other { kind: 100, code: 0, rest: [0; 4] }.is_error());
}

#[test]
fn short_messages_are_truncated() {
    assert_eq!(Message::new_checked(&[8; 7]).unwrap_err().kind, Kind::Truncated { needed: 8, have: 7 });
}

proptest! {
    #[test]
    fn whatever_is_read_is_written_back(kind in prop_oneof![0u8..16, 128u8..132], bytes: [u8; 7], unused: bool) {
        let mut message = [&[kind], &bytes[..]].concat();
        message[2..4].fill(0);
        if unused {
            message[4..6].fill(0);
        }
        let view = Message::new_checked(&message[..]).unwrap();
        let (mut v4, mut v6) = ([0xff; 8], [0xff; 8]);
        v4::Repr::parse(&view).emit(&mut v4);
        v6::Repr::parse(&view).emit(&mut v6);
        prop_assert_eq!(&v4[..], &message[..]);
        prop_assert_eq!(&v6[..], &message[..]);
    }
}
