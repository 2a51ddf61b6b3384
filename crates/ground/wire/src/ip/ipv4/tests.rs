use proptest::prelude::*;

use super::*;
use crate::Kind;

/// The header in Wikipedia's and many lectures' checksum example.
const GOLDEN: [u8; 20] = [
    0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00, 0x01, 0xc0,
    0xa8, 0x00, 0xc7,
];

fn golden() -> Repr {
    Repr::new([192, 168, 0, 1].into(), [192, 168, 0, 199].into(), Protocol::UDP, 95)
}

#[test]
fn golden_header_both_ways() {
    let packet = Packet::new_elided(&GOLDEN[..], 95).unwrap();
    packet.verify_checksum().unwrap();
    assert_eq!(Repr::parse(&packet), Ok(golden()));
    let mut bytes = [0xff; 20];
    golden().emit(&mut bytes);
    assert_eq!(bytes, GOLDEN);
}

#[test]
fn the_upper_layer_of_an_elided_packet() {
    let packet = Packet::new_elided(&GOLDEN[..], 95).unwrap();
    let upper = packet.upper();
    assert_eq!((upper.protocol, upper.bytes.len(), upper.elided, upper.len()), (Protocol::UDP, 0, 95, 95));
    assert!(!upper.is_fragment);
}

#[test]
fn link_padding_is_not_payload() {
    let mut bytes = [GOLDEN.as_slice(), &[7; 26]].concat();
    Repr { payload_len: 10, ..golden() }.emit(&mut bytes);
    let packet = Packet::new_checked(&bytes[..]).unwrap();
    assert_eq!(packet.payload(), [7; 10]);
}

#[test]
fn lengths_and_version_are_checked() {
    let kind = |bytes: &[u8], elided| Packet::new_elided(bytes, elided).unwrap_err().kind;
    assert_eq!(kind(&GOLDEN[..19], 200), Kind::Truncated { needed: 20, have: 19 });
    assert_eq!(kind(&GOLDEN, 94), Kind::Truncated { needed: 115, have: 114 });
    let with = |at: usize, value| {
        let mut bytes = GOLDEN;
        bytes[at] = value;
        kind(&bytes, 95)
    };
    assert_eq!(with(0, 0x65), Kind::Malformed("version is not 4"));
    assert_eq!(with(0, 0x44), Kind::Malformed("header length under 20"));
    assert_eq!(with(0, 0x46), Kind::Truncated { needed: 24, have: 20 });
    assert_eq!(with(3, 19), Kind::Malformed("total length under header length"));
}

#[test]
fn a_hop_less_keeps_the_checksum_right_until_the_packet_dies() {
    let mut bytes = GOLDEN;
    for ttl in (1..64).rev() {
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        assert!(packet.decrement_ttl());
        assert_eq!(packet.ttl(), ttl);
        packet.verify_checksum().unwrap();
    }
    let before = bytes;
    assert!(!Packet::new_unchecked(&mut bytes[..]).decrement_ttl());
    assert_eq!(bytes, before);
}

#[test]
fn options_are_read_one_by_one() {
    let field = [1, 148, 4, 0, 0, 7, 7, 4, 1, 2, 3, 4];
    let options = Options::parse(&field).unwrap();
    let items: Vec<_> = options.iter().collect();
    assert_eq!(
        items,
        [
            OptionItem { kind: OptionItem::ROUTER_ALERT, data: &[0, 0] },
            OptionItem { kind: OptionItem::RECORD_ROUTE, data: &[4, 1, 2, 3, 4] }
        ]
    );
    for bad in [[7, 0, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7]] {
        assert!(Options::parse(&bad).is_err(), "{bad:?}");
    }
}

prop_compose! {
    fn any_repr()(
        src: [u8; 4], dst: [u8; 4], protocol: u8, payload_len in 0usize..65000, ttl: u8, tos: u8, ident: u16,
        dont_fragment: bool, more_fragments: bool, units in 0usize..8192,
        options in prop_oneof![Just(vec![]), Just(vec![148, 4, 0, 0]), Just(vec![7, 40].into_iter().chain([4; 38]).collect::<Vec<u8>>())],
    ) -> Repr {
        Repr {
            src: src.into(), dst: dst.into(), protocol: Protocol(protocol), payload_len, ttl,
            traffic_class: TrafficClass(tos), ident, dont_fragment, more_fragments, fragment_offset: units * 8,
            options: Options::parse(&options).unwrap(),
        }
    }
}

proptest! {
    #[test]
    fn round_trip(repr in any_repr()) {
        let mut bytes = vec![0xff; repr.buffer_len()];
        repr.emit(&mut bytes);
        let packet = Packet::new_elided(&bytes[..], repr.payload_len).unwrap();
        prop_assert!(packet.verify_checksum().is_ok());
        prop_assert_eq!(packet.header_len(), repr.buffer_len());
        prop_assert_eq!(Repr::parse(&packet), Ok(repr));
    }

    #[test]
    fn changes_in_place_keep_the_checksum(repr in any_repr(), ident: u16) {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut bytes);
        let mut packet = Packet::new_unchecked(&mut bytes[..]);
        packet.mark_ecn(Ecn::Ce);
        packet.update_ident(ident);
        packet.decrement_ttl();
        prop_assert!(packet.verify_checksum().is_ok());
        let traffic_class = repr.traffic_class.with_ecn(Ecn::Ce);
        let ttl = if repr.ttl > 1 { repr.ttl - 1 } else { repr.ttl };
        let packet = Packet::new_elided(&bytes[..], repr.payload_len).unwrap();
        prop_assert_eq!(Repr::parse(&packet), Ok(Repr { traffic_class, ident, ttl, ..repr }));
    }

    #[test]
    fn never_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..90), elided in 0usize..70000) {
        if let Some(first) = bytes.first_mut() {
            *first = 0x40 | *first & 0x0f;
        }
        if let Ok(packet) = Packet::new_elided(&bytes[..], elided) {
            let _ = (Repr::parse(&packet), packet.upper(), packet.verify_checksum());
        }
    }
}
