use proptest::prelude::*;

use super::*;
use crate::Kind;
use crate::ip::checksum::Accumulator;

const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

fn packet(next_header: Protocol, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_LEN];
    Repr::new(SRC, DST, next_header, payload.len()).emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn golden_header() {
    let mut bytes = [0xff; 40];
    let repr = Repr {
        hop_limit: 255,
        traffic_class: TrafficClass(0xb8),
        flow_label: 0xabcde,
        ..Repr::new(SRC, DST, Protocol::UDP, 1024)
    };
    repr.emit(&mut bytes);
    assert_eq!(bytes[..8], [0x6b, 0x8a, 0xbc, 0xde, 4, 0, 17, 255]);
    assert_eq!(bytes[8..24], SRC.octets());
    assert_eq!(Repr::parse(&Packet::new_elided(&bytes[..], 1024).unwrap()), repr);
    assert_eq!(
        Packet::new_elided(&bytes[..], 1023).unwrap_err().kind,
        Kind::Truncated { needed: 1064, have: 1063 }
    );
}

#[test]
fn hop_limit_and_ecn_in_place() {
    let mut bytes = packet(Protocol::UDP, &[]);
    let mut packet = Packet::new_checked(&mut bytes[..]).unwrap();
    packet.mark_ecn(Ecn::Ce);
    assert!(packet.decrement_hop_limit());
    let repr = Repr::parse(&packet);
    assert_eq!((repr.hop_limit, repr.traffic_class.ecn(), repr.flow_label), (63, Ecn::Ce, 0));
    bytes[7] = 1;
    assert!(!Packet::new_checked(&mut bytes[..]).unwrap().decrement_hop_limit());
}

#[test]
fn every_extension_header_is_walked() {
    let mut payload = Vec::new();
    payload.extend([60, 0, 5, 2, 0, 0, 1, 0]); // hop by hop: router alert
    payload.extend([43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // destination options: PadN
    payload.extend([51, 2, 0, 1, 0, 0, 0, 0]); // routing type 0, one segment left
    payload.extend(Ipv6Addr::LOCALHOST.octets());
    payload.extend([44, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]); // AH with a 12-byte ICV
    payload.extend([0; 12]);
    payload.extend([17, 0, 0, 1, 0, 0, 0, 9]); // first fragment
    payload.extend([1, 2, 3, 4, 5, 6, 7, 8]);
    let bytes = packet(Protocol::HOP_BY_HOP, &payload);
    let packet = Packet::new_elided(&bytes[..], 0).unwrap();
    let offsets: Vec<_> = packet.ext_headers().map(|header| header.unwrap().offset).collect();
    assert_eq!(offsets, [0, 8, 24, 48, 72]);
    let chain = ext::walk(packet.next_header(), packet.payload()).unwrap();
    assert_eq!((chain.protocol, chain.len, chain.count), (Protocol::UDP, 80, 5));
    assert_eq!(chain.fragment, Some(ext::Fragment { offset: 0, more: true, ident: 9 }));
    let upper = packet.upper().unwrap();
    assert_eq!((upper.bytes, upper.offset), (&[1, 2, 3, 4, 5, 6, 7, 8][..], 120));
    assert!(upper.is_fragment && !upper.is_later_fragment);
    assert_eq!(upper.pseudo, Pseudo::v6(SRC, Ipv6Addr::LOCALHOST, Protocol::UDP));
}

#[test]
fn a_later_fragment_ends_the_walk() {
    let mut payload = [0; 16];
    ext::Fragment { offset: 1232, more: false, ident: 3 }.emit(Protocol::DESTINATION_OPTIONS, &mut payload);
    payload[8..].fill(0xff); // would be a destination options header beyond the packet
    let bytes = packet(Protocol::FRAGMENT, &payload);
    let upper = Packet::new_checked(&bytes[..]).unwrap().upper().unwrap().is_later_fragment;
    assert!(upper);
}

#[test]
fn elided_bytes_are_counted_behind_extension_headers() {
    let options = ext::OptionsRepr { next: Protocol::UDP, options: &[] };
    let mut bytes = vec![0; HEADER_LEN + 8];
    options.emit(&mut bytes[HEADER_LEN..]);
    Repr::new(SRC, DST, Protocol::DESTINATION_OPTIONS, 8 + 500).emit(&mut bytes);
    let packet = Packet::new_elided(&bytes[..], 500).unwrap();
    let upper = packet.upper().unwrap();
    assert_eq!((upper.protocol, upper.len(), upper.elided), (Protocol::UDP, 500, 500));
}

#[test]
fn bad_chains_are_errors() {
    let refused =
        |next, payload: &[u8]| Packet::new_checked(&packet(next, payload)[..]).unwrap().upper().unwrap_err();
    assert_eq!(
        refused(Protocol::ROUTING, &[17, 1, 0, 0, 0, 0, 0, 0]).kind,
        Kind::Truncated { needed: 16, have: 8 }
    );
    assert_eq!(refused(Protocol::AH, &[17]).kind, Kind::Truncated { needed: 8, have: 1 });
    let late = [0, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(
        refused(Protocol::DESTINATION_OPTIONS, &late).kind,
        Kind::Malformed("hop-by-hop options not first")
    );
    let endless = [60, 0, 1, 4, 0, 0, 0, 0].repeat(ext::MAX_HEADERS + 1);
    assert!(matches!(refused(Protocol::DESTINATION_OPTIONS, &endless).kind, Kind::Unsupported(_)));
    assert!(matches!(refused(Protocol::ROUTING, &[17, 0, 0, 1, 0, 0, 0, 0]).kind, Kind::Malformed(_)));
}

#[test]
fn icmpv6_checksum_of_rfc_style_example() {
    // A hand-made echo request: sum the pseudo-header as RFC 8200 lays it out, field by field.
    let body = [128u8, 0, 0, 0, 0, 1, 0, 1];
    let mut laid_out = [SRC.octets(), DST.octets()].concat();
    laid_out.extend([0, 0, 0, 8, 0, 0, 0, 58]);
    laid_out.extend(body);
    let pseudo = Pseudo::v6(SRC, DST, Protocol::ICMPV6);
    assert_eq!(pseudo.datagram(&body, 0).fold(), Accumulator::ZERO.add_bytes(&laid_out).fold());
}

proptest! {
    #[test]
    fn round_trip(
        src: [u8; 16], dst: [u8; 16], next_header: u8, payload_len in 0usize..=65535, hop_limit: u8,
        class: u8, flow_label in 0u32..1 << 20,
    ) {
        let repr = Repr {
            src: src.into(), dst: dst.into(), next_header: Protocol(next_header), payload_len, hop_limit,
            traffic_class: TrafficClass(class), flow_label,
        };
        let mut bytes = [0xff; HEADER_LEN];
        repr.emit(&mut bytes);
        prop_assert_eq!(Repr::parse(&Packet::new_elided(&bytes[..], payload_len).unwrap()), repr);
    }

    #[test]
    fn options_header_is_walked_back(lens in proptest::collection::vec(0usize..40, 0..6)) {
        let data = [0x55; 40];
        let list: Vec<_> = lens.iter().map(|&len| (0x1e, &data[..len])).collect();
        let options = ext::OptionsRepr { next: Protocol::TCP, options: &list };
        let mut bytes = vec![0xff; options.buffer_len()];
        options.emit(&mut bytes);
        let chain = ext::walk(Protocol::HOP_BY_HOP, &bytes).unwrap();
        prop_assert_eq!((chain.protocol, chain.len), (Protocol::TCP, bytes.len()));
    }

    #[test]
    fn never_panics(next in 0u8..64, payload in proptest::collection::vec(prop_oneof![0u8..4, Just(43), Just(44), Just(51), Just(60), any::<u8>()], 0..200), elided in 0usize..1000) {
        let bytes = packet(Protocol(next), &payload);
        let packet = Packet::new_elided(&bytes[..], elided).unwrap();
        if let Ok(upper) = packet.upper() {
            prop_assert_eq!(upper.offset + upper.bytes.len(), bytes.len());
        }
    }
}
