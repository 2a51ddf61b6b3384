use proptest::prelude::*;

use super::*;
use crate::Kind;
use crate::ip::Protocol;

fn pseudo() -> Pseudo {
    Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::TCP)
}

fn data_segment() -> Repr {
    Repr {
        ack: Some(SeqNumber(77)),
        flags: Flags::PSH | Flags::ECE,
        window: 4096,
        options: Options::timestamps(1, 2),
        ..Repr::new(40000, 80, SeqNumber(u32::MAX))
    }
}

#[test]
fn a_syn_as_linux_sends_it() {
    let syn = Repr {
        flags: Flags::SYN,
        window: 64240,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((0x0102_0304, 0)),
            ..Options::NONE
        },
        ..Repr::new(0xd431, 443, SeqNumber(0x1122_3344))
    };
    let mut bytes = [0xff; 40];
    assert_eq!(syn.buffer_len(), 40);
    syn.emit(&mut bytes);
    let expected = [
        0xd4, 0x31, 0x01, 0xbb, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0,
        0, // header
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(Repr::parse(&Segment::new_checked(&bytes[..]).unwrap()), Ok(syn));
}

#[test]
fn elided_payload_counts_in_length_and_checksum() {
    let repr = data_segment();
    let mut whole = vec![0; 32 + 1448];
    repr.emit(&mut whole);
    let mut header = whole[..32].to_vec();
    Segment::new_checked(&mut whole[..]).unwrap().fill_checksum(&pseudo());
    let mut segment = Segment::new_elided(&mut header[..], 1448).unwrap();
    segment.fill_checksum(&pseudo());
    segment.verify_checksum(&pseudo()).unwrap();
    assert_eq!((segment.payload_len(), segment.segment_len()), (1448, 1448));
    assert_eq!(header, whole[..32]);
}

#[test]
fn a_changed_bit_breaks_the_checksum() {
    let mut bytes = [0; 32];
    data_segment().emit(&mut bytes);
    Segment::new_checked(&mut bytes[..]).unwrap().fill_checksum(&pseudo());
    bytes[5] ^= 0x10;
    let error = Segment::new_checked(&bytes[..]).unwrap().verify_checksum(&pseudo()).unwrap_err();
    assert_eq!(error, Error { layer: Layer::Tcp, offset: 16, kind: Kind::Checksum });
}

#[test]
fn three_sack_blocks_fit_beside_timestamps_and_four_without() {
    assert_eq!(Options::timestamps(1, 2).sack_room(), 3);
    assert_eq!(Options::NONE.sack_room(), 4);
    let blocks = (0..3).map(|i| (SeqNumber(i * 100), SeqNumber(i * 100 + 50)));
    let options = Options { sack: blocks.collect(), ..Options::timestamps(1, 2) };
    assert_eq!(options.buffer_len(), 40);
}

#[test]
#[should_panic(expected = "at most 40 bytes")]
fn options_that_do_not_fit_are_a_misuse() {
    let sack = [(SeqNumber(1), SeqNumber(2)); 4].into_iter().collect();
    Options { sack, ..Options::timestamps(1, 2) }.buffer_len();
}

#[test]
fn impossible_option_lengths_are_errors() {
    for (bytes, offset) in [
        (&[2, 0, 0, 0][..], 21), // zero length
        (&[2, 1, 0, 0], 21),     // shorter than itself
        (&[1, 1, 1, 8], 23),     // no length octet
        (&[8, 10, 0, 0], 21),    // longer than the field
        (&[2, 3, 0, 0], 21),     // not an MSS option's length
        (&[5, 4, 0, 0], 21),     // half a SACK block
    ] {
        let error = Options::parse(bytes).unwrap_err();
        assert_eq!((error.layer, error.offset), (Layer::Tcp, offset), "{bytes:?}");
    }
}

#[test]
fn a_packed_field_of_forty_bytes_is_written_packed() {
    let mut bytes = [0; 40];
    bytes[..5].copy_from_slice(&[3, 3, 7, 4, 2]);
    bytes[5..39].copy_from_slice(&[[254, 34].as_slice(), &[9; 32]].concat());
    let options = Options::parse(&bytes).unwrap();
    assert_eq!(options.unknown.iter().collect::<Vec<_>>(), [(254, &[9; 32][..])]);
    assert_eq!(options.buffer_len(), 40);
    let mut out = [0xff; 40];
    options.emit(&mut out);
    assert_eq!(Options::parse(&out).unwrap(), options);
}

#[test]
fn lengths_are_checked() {
    assert_eq!(Segment::new_checked(&[0; 19]).unwrap_err().kind, Kind::Truncated { needed: 20, have: 19 });
    let mut bytes = [0; 20];
    bytes[12] = 0x40;
    assert_eq!(Segment::new_checked(&bytes).unwrap_err().kind, Kind::Malformed("data offset under 5"));
    bytes[12] = 0x60;
    let error = Segment::new_elided(&bytes, 100).unwrap_err();
    assert_eq!(error.to_string(), "TCP at byte 20: truncated: 24 bytes needed, 20 there");
}

#[test]
fn sequence_numbers_wrap() {
    let (old, new) = (SeqNumber(u32::MAX - 9), SeqNumber(10));
    assert!(old.before(new) && new.after(old) && old.at_or_before(old) && !old.after(old));
    assert_eq!((new.since(old), new.delta(old), old.delta(new)), (20, 20, -20));
    assert_eq!((old.max(new), old.min(new)), (new, old));
    assert_eq!((old + 20, new - 20), (new, old));
    assert!(new.is_within(old, 21) && !new.is_within(old, 20) && !old.is_within(new, 1000));
}

prop_compose! {
    fn any_options()(
        mss: Option<u16>, window_scale: Option<u8>, sack_permitted: bool, timestamps: Option<(u32, u32)>,
        sack in proptest::collection::vec(any::<(u32, u32)>(), 0..4),
        unknown in proptest::option::of((9u8..=255, proptest::collection::vec(any::<u8>(), 0..6))),
    ) -> Options {
        let mut options = Options { mss, window_scale, sack_permitted, timestamps, ..Options::NONE };
        if let Some((kind, data)) = unknown {
            options.unknown.push(kind, &data);
        }
        let room = options.sack_room();
        options.sack = sack.into_iter().take(room).map(|(l, r)| (SeqNumber(l), SeqNumber(r))).collect();
        options
    }
}

prop_compose! {
    fn any_repr()(
        src_port: u16, dst_port: u16, seq: u32, ack: Option<u32>, flags: u16, window: u16, urgent: Option<u16>,
        options in any_options(),
    ) -> Repr {
        let flags = Flags::from_bits(flags).without(Flags::ACK | Flags::URG);
        let (seq, ack) = (SeqNumber(seq), ack.map(SeqNumber));
        Repr { src_port, dst_port, seq, ack, flags, window, urgent, options }
    }
}

proptest! {
    #[test]
    fn round_trip(repr in any_repr(), elided in 0usize..2000) {
        let mut bytes = vec![0xff; repr.buffer_len()];
        repr.emit(&mut bytes);
        let mut segment = Segment::new_elided(&mut bytes[..], elided).unwrap();
        segment.fill_checksum(&pseudo());
        prop_assert!(segment.verify_checksum(&pseudo()).is_ok());
        prop_assert_eq!(segment.header_len(), repr.buffer_len());
        prop_assert_eq!(segment.payload_len(), elided);
        prop_assert_eq!(Repr::parse(&segment), Ok(repr));
    }

    #[test]
    fn whatever_is_read_is_written_as_it_was_understood(bytes in proptest::collection::vec(0u8..12, 0..=40)) {
        if let Ok(options) = Options::parse(&bytes) {
            let mut out = vec![0xff; options.buffer_len()];
            options.emit(&mut out);
            prop_assert_eq!(Options::parse(&out), Ok(options));
        }
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), elided in 0usize..70000) {
        if let Ok(segment) = Segment::new_elided(&bytes[..], elided) {
            let _ = (Repr::parse(&segment), segment.payload(), segment.verify_checksum(&pseudo()));
        }
    }
}

#[test]
fn a_header_as_values_stays_small() {
    // It is copied on the way of every segment.
    assert!(size_of::<Repr>() <= 120, "{}", size_of::<Repr>());
}
