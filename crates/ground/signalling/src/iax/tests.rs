//! Frames of a real peer, round trips, refused frames.

use proptest::prelude::*;

use super::*;

/// Vector of iaxmodem 1.2.0.
#[test]
fn challenges_are_answered_as_iaxmodem_does() {
    assert_eq!(md5_result("123456", "password"), "44bf025d27eea66336e5c1133c3827f7");
}

#[test]
fn a_new_frame_has_the_bytes_of_rfc_5456() {
    let elements = Elements::default()
        .with_u16(Element::VERSION, 2)
        .with(Element::CALLED_NUMBER, b"555")
        .with_u32(Element::FORMAT, format::LINEAR);
    let frame = FullFrame {
        source: 5,
        destination: 0,
        is_repeated: false,
        timestamp: 3,
        outbound: 0,
        inbound: 0,
        kind: Kind::Iax,
        subclass: iax::NEW,
        payload: elements.emit(),
    };
    let bytes = frame.emit();
    assert_eq!(bytes[..12], [0x80, 5, 0, 0, 0, 0, 0, 3, 0, 0, 6, 1]);
    assert_eq!(bytes[12..], [0x0b, 2, 0, 2, 1, 3, b'5', b'5', b'5', 9, 4, 0, 0, 0, 0x40]);
    assert_eq!(Frame::parse(&bytes), Ok(Frame::Full(frame)));
    let read = Elements::parse(&bytes[12..]).expect("well-formed");
    let (number, version) = (read.text(Element::CALLED_NUMBER), read.number(Element::VERSION));
    assert_eq!((number, version, read.number(Element::FORMAT)), (Some("555"), Some(2), Some(0x40)));
}

/// Rates of GSM in trunks, in kbit/s per call at 20 ms over IPv4.
#[test]
fn a_trunk_saves_what_its_headers_say() {
    let rate = |calls: u16, has_timestamps: bool| {
        let call =
            |source| TrunkedCall { source, timestamp: has_timestamps.then_some(7), payload: vec![0; 33] };
        let trunk = Trunk { timestamp: 1, has_timestamps, calls: (1..=calls).map(call).collect() };
        (trunk.emit().len() + 28) as f64 * 8.0 * 50.0 / 1000.0 / f64::from(calls)
    };
    let rounded = |has_timestamps: bool| {
        [1, 5, 10, 20].map(|calls| (rate(calls, has_timestamps) * 10.0).round() / 10.0)
    };
    assert_eq!(rounded(false), [29.2, 17.7, 16.2, 15.5]);
    assert_eq!(rounded(true), [30.0, 18.5, 17.0, 16.3]);
}

#[test]
fn frames_that_are_cut_or_unknown_are_refused() {
    for (bytes, error) in [
        (&[][..], FrameError::Short),
        (&[0, 0, 0], FrameError::Short),
        (&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 6], FrameError::Short),
        (&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 11, 1], FrameError::Kind(11)),
        (&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], FrameError::Kind(0)),
        (&[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0xa0], FrameError::Subclass(32)),
        (&[0, 0, 0x80, 0, 0, 0], FrameError::CallNumber),
        (&[0, 0, 2, 0, 0, 0, 0, 0], FrameError::MetaCommand(2)),
        (&[0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 2, 9], FrameError::Short),
        (&[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 9], FrameError::CallNumber),
    ] {
        assert_eq!(Frame::parse(bytes), Err(error), "{bytes:?}");
    }
    assert_eq!(Elements::parse(&[1, 2, 3]), Err(FrameError::Short));
    assert_eq!(Elements::parse(&[1]), Err(FrameError::Short));
}

proptest! {
    #[test]
    fn frames_survive_a_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(frame) = Frame::parse(&bytes) {
            prop_assert_eq!(Frame::parse(&frame.emit()), Ok(frame));
        }
    }

    #[test]
    fn elements_survive_a_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        if let Ok(elements) = Elements::parse(&bytes) {
            prop_assert_eq!(elements.emit(), bytes);
        }
    }

    #[test]
    fn full_frames_of_any_format_survive_a_round_trip(source in 1_u16..0x8000, exponent in 0_u32..32, timestamp: u32, is_repeated: bool) {
        let (destination, payload) = (source ^ 1, vec![1, 2]);
        let frame = FullFrame { source, destination, is_repeated, timestamp, outbound: 9, inbound: 255, kind: Kind::Voice, subclass: 1 << exponent, payload };
        prop_assert_eq!(Frame::parse(&frame.emit()), Ok(Frame::Full(frame)));
    }
}
