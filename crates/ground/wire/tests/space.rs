//! Frames of space data links: bytes by hand, and what is refused.

use bentpipe_wire::space::encapsulation::{self, Protocol};
use bentpipe_wire::space::tm::Trailer;
use bentpipe_wire::space::{FirstHeader, MAX_FRAME_LEN, aos, proximity, tm};
use bentpipe_wire::{Kind, Layer};

const WHOLE: Trailer = Trailer { has_control: true, has_crc: true };

#[test]
fn fields_of_tm_are_in_their_places() {
    let repr = tm::Repr {
        spacecraft: 0x2ab,
        channel: 5,
        master_count: 0x11,
        channel_count: 0x22,
        first_header: FirstHeader::At(3),
        control: Some(0x0102_0304),
    };
    let mut frame = vec![0xaa; tm::Repr::buffer_len(10, WHOLE)];
    repr.emit(&mut frame, true);
    // Version 00, spacecraft 1010101011, channel 101, control field 1; segment length 11, pointer 3.
    assert_eq!(frame[..6], [0b0010_1010, 0b1011_1011, 0x11, 0x22, 0b0001_1000, 3]);
    assert_eq!((&frame[6..16], &frame[16..20]), (&[0xaa; 10][..], &[1, 2, 3, 4][..]));
    assert_eq!(tm::Repr::parse(&frame, WHOLE), Ok((repr, &frame[6..16])));
    for (first_header, code) in
        [(FirstHeader::None, [0b0001_1111, 0xff]), (FirstHeader::Idle, [0b0001_1111, 0xfe])]
    {
        tm::Repr { first_header, ..repr }.emit(&mut frame, true);
        assert_eq!(frame[4..6], code);
        assert_eq!(tm::Repr::parse(&frame, WHOLE).map(|(repr, _)| repr.first_header), Ok(first_header));
    }
}

#[test]
fn fields_of_aos_are_in_their_places() {
    let repr = aos::Repr {
        spacecraft: 0xab,
        channel: 0x2a,
        count: 0x01_0203,
        is_replay: true,
        cycle: Some(9),
        first_header: FirstHeader::At(0),
        control: None,
    };
    let trailer = Trailer { has_control: false, has_crc: true };
    let mut frame = vec![0; aos::Repr::buffer_len(10, trailer)];
    repr.emit(&mut frame, true);
    // Version 01, spacecraft 10101011, channel 101010; replay 1, cycle used 1, spare 00, cycle 1001.
    assert_eq!(frame[..8], [0b0110_1010, 0b1110_1010, 1, 2, 3, 0b1100_1001, 0, 0]);
    assert_eq!(aos::Repr::parse(&frame, trailer), Ok((repr, &frame[8..18])));
}

#[test]
fn fields_of_proximity_are_in_their_places() {
    let repr = proximity::Repr {
        is_expedited: true,
        is_supervisory: false,
        content: proximity::Content::Segment,
        spacecraft: 0x2ab,
        physical_channel: 1,
        port: 5,
        is_destination: true,
        sequence: 0x33,
        data_len: 20,
    };
    let mut frame = vec![7; repr.buffer_len()];
    repr.emit(&mut frame);
    // Version 10, expedited 1, user data 0, segment 01, spacecraft; channel 1, port 101, destination 1, 25 bytes less one.
    assert_eq!(frame[..5], [0b1010_0110, 0b1010_1011, 0b1101_1000, 24, 0x33]);
    assert_eq!(proximity::Repr::parse(&frame), Ok((repr, &frame[5..25])));
    let segment = proximity::Segment { is_first: true, is_last: false, packet: 5 };
    assert_eq!((segment.byte(), proximity::Segment::from_byte(0x45)), (0x45, segment));
}

#[test]
fn headers_of_encapsulation_have_the_length_that_content_needs() {
    for (len, header) in [(0, 2), (253, 2), (254, 4), (65_531, 4), (65_532, 8), (1 << 20, 8)] {
        let repr = encapsulation::Repr::new(Protocol::Bundle, len);
        let mut bytes = Vec::new();
        repr.put(&mut bytes);
        assert_eq!((bytes.len(), bytes[0] & 0xfc), (header, 0b1111_0000));
        assert_eq!(encapsulation::Repr::parse(&bytes), Ok(Some(repr)));
        assert_eq!(encapsulation::Repr::parse(&bytes[..header - 1]), Ok(None));
    }
    let mut idle = Vec::new();
    encapsulation::Repr::new(Protocol::Idle, 0).put(&mut idle);
    assert_eq!(idle, [encapsulation::IDLE]);
    let refused = [&[0x45][..], &[0xe4], &[0xe5, 1]].map(|bytes| encapsulation::Repr::parse(bytes).is_err());
    assert_eq!(refused, [true; 3]);
}

#[test]
fn damaged_and_foreign_frames_are_refused() {
    let repr = tm::Repr {
        spacecraft: 1,
        channel: 0,
        master_count: 0,
        channel_count: 0,
        first_header: FirstHeader::None,
        control: None,
    };
    let trailer = Trailer { has_control: false, has_crc: true };
    let mut frame = vec![0; 100];
    repr.emit(&mut frame, true);
    for bit in 0..800 {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        let error = tm::Repr::parse(&damaged, trailer).expect_err("damaged");
        assert_eq!((error.layer, error.kind), (Layer::TmFrame, Kind::Checksum), "{bit}");
    }
    for len in 0..9 {
        assert!(tm::Repr::parse(&frame[..len], trailer).is_err());
        assert!(aos::Repr::parse(&frame[..len], trailer).is_err());
        assert!(proximity::Repr::parse(&frame[..len]).is_err());
    }
    assert!(aos::Repr::parse(&frame, trailer).is_err(), "another version");
    assert!(
        tm::Repr::parse(&vec![0; MAX_FRAME_LEN + 1], Trailer { has_control: false, has_crc: false }).is_err()
    );
    // A pointer behind the data field.
    tm::Repr { first_header: FirstHeader::At(92), ..repr }.emit(&mut frame, true);
    assert!(tm::Repr::parse(&frame, trailer).is_err());
}
