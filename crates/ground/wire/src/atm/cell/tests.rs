use super::*;
use proptest::prelude::*;

fn user(last: bool) -> PayloadType {
    PayloadType::User { congested: false, last }
}

#[test]
fn known_headers() {
    let free = Repr::new(0, 32);
    let cases = [
        (Repr::new(0, 0), [0, 0, 0, 0, 0x55]),
        (Repr { clp: true, ..Repr::new(0, 0) }, IDLE),
        (Repr::new(0, 5), [0, 0, 0, 0x50, 0xe2]),
        (free, [0, 0, 2, 0, 0x7f]),
        (Repr { payload_type: user(true), ..free }, [0, 0, 2, 2, 0x71]),
        (Repr { payload_type: PayloadType::ResourceManagement, ..free }, [0, 0, 2, 0x0c, 0x5b]),
        (
            Repr { payload_type: PayloadType::ResourceManagement, clp: true, ..Repr::new(1, 100) },
            [0, 0x10, 6, 0x4d, 0x6d],
        ),
    ];
    for (repr, expected) in cases {
        let mut bytes = [0; HEADER_LEN];
        repr.emit(&mut bytes);
        assert_eq!(bytes, expected, "{repr:?}");
        assert_eq!(Repr::parse(Interface::Uni, &bytes), Ok(repr));
    }
    assert_eq!(hec::of(u32::MAX), 0x8b);
}

#[test]
fn interfaces_differ_in_their_first_bits() {
    let bytes = [0x12, 0x30, 0x06, 0x40];
    let word = u32::from_be_bytes(bytes);
    let (uni, nni) = (Repr::from_word(Interface::Uni, word), Repr::from_word(Interface::Nni, word));
    assert_eq!((uni.gfc, uni.vpi, uni.vci), (1, 0x23, 100));
    assert_eq!((nni.gfc, nni.vpi, nni.vci), (0, 0x123, 100));
}

#[test]
fn oam_is_recognised_at_both_levels() {
    assert!(Repr::new(1, 3).is_oam() && Repr::new(1, 4).is_oam());
    assert!(Repr { payload_type: PayloadType::OamEndToEnd, ..Repr::new(1, 100) }.is_oam());
    assert!(!Repr::new(1, 100).is_oam());
}

#[test]
fn wrong_headers_are_refused() {
    assert_eq!(Repr::parse(Interface::Uni, &[0; 4]), Err(Error::truncated(Layer::Atm, 0, 5, 4)));
    assert_eq!(Repr::parse(Interface::Uni, &[0; 5]), Err(Error::checksum(Layer::Atm, 4)));
}

proptest! {
    #[test]
    fn round_trip(nni: bool, word: u32) {
        let interface = if nni { Interface::Nni } else { Interface::Uni };
        let repr = Repr::from_word(interface, word);
        prop_assert_eq!(repr.word(), word);
        let mut bytes = [0xff; HEADER_LEN];
        repr.emit(&mut bytes);
        prop_assert_eq!(Repr::parse(interface, &bytes), Ok(repr));
    }
}
