use proptest::prelude::*;

use super::*;
use crate::Kind;

fn packet(header: [u8; 4], rest: &[u8]) -> [u8; PACKET_LEN] {
    let mut bytes = [STUFFING; PACKET_LEN];
    bytes[..4].copy_from_slice(&header);
    bytes[4..4 + rest.len()].copy_from_slice(rest);
    bytes
}

#[test]
fn the_null_packet() {
    let null = Packet::new_checked(&NULL_PACKET).unwrap();
    assert_eq!((null.pid(), null.has_payload(), null.has_adaptation()), (Pid::NULL, true, false));
    let mut written = [STUFFING; PACKET_LEN];
    Repr::new(Pid::NULL, 0).emit(&mut written);
    assert_eq!(written, NULL_PACKET);
}

#[test]
fn a_clock_reference() {
    // Base 2^32 + 1 at 90 kHz, extension 299.
    let bytes = packet([SYNC, 0x01, 0x00, 0x35], &[7, 0x10, 0x80, 0, 0, 0, 0xff, 0x2b]);
    let packet = Packet::new_checked(&bytes).unwrap();
    let clock = packet.adaptation().unwrap().unwrap().pcr.unwrap();
    assert_eq!(clock.ticks(), ((1 << 32) + 1) * 300 + 299);
    assert_eq!((packet.payload().unwrap().len(), packet.continuity()), (176, 5));
    assert_eq!(clock.plus(Pcr::MODULUS - clock.ticks() + 9), Pcr::new(9));
    assert_eq!(Pcr::new(9).since(clock), Pcr::MODULUS - clock.ticks() + 9);
}

#[test]
fn what_no_packet_has_is_refused() {
    let kind = |bytes: &[u8]| Packet::new_checked(bytes).unwrap_err().kind;
    assert_eq!(kind(&NULL_PACKET[..187]), Kind::Truncated { needed: 188, have: 187 });
    assert_eq!(kind(&packet([0x46, 0, 0, 0x10], &[])), Kind::Malformed("no sync byte"));
    assert_eq!(kind(&packet([SYNC, 0, 0, 0x00], &[])), Kind::Malformed("reserved adaptation field control"));
    for (control, len) in [(0x30, 183), (0x30, 255), (0x20, 182), (0x20, 184), (0x20, 0)] {
        assert_eq!(
            kind(&packet([SYNC, 0, 0, control], &[len])),
            Kind::Malformed("adaptation field's length")
        );
    }
    let adaptation = |rest: &[u8]| {
        let bytes = packet([SYNC, 0, 0, 0x30], rest);
        let packet = Packet::new_checked(&bytes).unwrap();
        packet.adaptation().map(|_| ()).map_err(|error| (error.offset, error.kind))
    };
    assert_eq!(adaptation(&[6, 0x10]), Err((6, Kind::Malformed("part outside the adaptation field"))));
    assert_eq!(adaptation(&[3, 0x02, 2, 0]), Err((7, Kind::Malformed("part outside the adaptation field"))));
    let clock = [7, 0x10, 0, 0, 0, 0, 1, 0x2c];
    assert_eq!(adaptation(&clock), Err((10, Kind::Malformed("clock reference extension over 299"))));
}

#[test]
fn scrambled_and_damaged_payloads_are_refused() {
    let scrambled = packet([SYNC, 0, 5, 0x90], &[]);
    let kind = Packet::new_checked(&scrambled).unwrap().payload().unwrap_err().kind;
    assert_eq!(kind, Kind::Unsupported("scrambled payload"));
    let damaged = packet([SYNC, 0x80, 5, 0x20], &[255]);
    let damaged = Packet::new_checked(&damaged).unwrap();
    assert!(damaged.has_error() && damaged.payload().is_err() && damaged.adaptation().is_err());
    assert!(!damaged.is_discontinuous());
}

#[test]
fn continuity_by_the_book() {
    let mut continuity = Continuity::default();
    let mut follow = |control: u8, rest: &[u8]| {
        continuity.follow(&Packet::new_checked(packet([SYNC, 0, 5, control], rest)).unwrap())
    };
    let full = [183, 0];
    assert_eq!(follow(0x1e, &[]), Step::Unknown);
    assert_eq!(follow(0x1f, &[]), Step::Next);
    assert_eq!(follow(0x10, &[]), Step::Next);
    assert_eq!(follow(0x20, &full), Step::Unknown, "no payload, no count");
    assert_eq!(follow(0x10, &[]), Step::Duplicate);
    assert_eq!(follow(0x10, &[]), Step::Repeated, "three times");
    assert_eq!(follow(0x11, &[]), Step::Next);
    assert_eq!(follow(0x11, &[1]), Step::Gap, "16 packets later");
    assert_eq!(follow(0x11, &[1]), Step::Duplicate);
    assert_eq!(follow(0x12, &[1]), Step::Next, "the payload may stay");
    assert_eq!(follow(0x14, &[]), Step::Gap);
    assert_eq!(follow(0x15, &[]), Step::Next);
    assert_eq!(follow(0x39, &[1, 0x80]), Step::Unknown, "an announced jump");
    assert_eq!(follow(0x39, &[1, 0x80]), Step::Duplicate);
    assert_eq!(follow(0x1a, &[]), Step::Next);
}

#[test]
fn sync_is_found_behind_rubbish() {
    let stream = [&[SYNC; 3][..], &[0, SYNC, 9], &NULL_PACKET, &NULL_PACKET].concat();
    assert_eq!(find_sync(&stream), Some(6));
    assert_eq!(find_sync(&NULL_PACKET), Some(0));
    assert_eq!(find_sync(&NULL_PACKET[1..]), None);
    assert_eq!(find_sync(&[0; 400]), None);
}

fn any_clock() -> impl Strategy<Value = Option<Pcr>> {
    proptest::option::of((0..Pcr::MODULUS).prop_map(Pcr::new))
}

proptest! {
    #[test]
    fn round_trip(
        flags: [bool; 6], pid in 0u16..=0x1fff, scrambling in 0u8..4, continuity in 0u8..16, pcr in any_clock(), opcr in any_clock(),
        splice_countdown: Option<i8>, private in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
        extension in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)), stuffing in 0u8..40, has_payload: bool,
    ) {
        let [unit_start, has_priority, is_discontinuous, random_access, es_priority, has_adaptation] = flags;
        let field = Adaptation {
            len_bytes: 0, is_discontinuous, random_access, has_priority: es_priority, pcr, opcr, splice_countdown,
            private_data: private.as_deref(), extension: extension.as_deref(),
        };
        let parts: usize = 1 + [pcr, opcr].iter().flatten().count() * 6 + usize::from(splice_countdown.is_some())
            + [&private, &extension].iter().copied().flatten().map(|part| 1 + part.len()).sum::<usize>();
        let len_bytes = if has_payload { parts as u8 + stuffing } else { 183 };
        let adaptation = (has_adaptation || !has_payload).then_some(Adaptation { len_bytes, ..field });
        let repr = Repr {
            has_error: false, unit_start, has_priority, pid: Pid::new(pid).unwrap(), scrambling, continuity, adaptation, has_payload,
        };
        let mut bytes = [0xaa; PACKET_LEN];
        repr.emit(&mut bytes);
        let packet = Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(Repr::parse(&packet), Ok(repr));
        if scrambling == 0 {
            let expected = if has_payload { PACKET_LEN - repr.buffer_len() } else { 0 };
            prop_assert_eq!(packet.payload().unwrap(), &vec![0xaa; expected]);
        }
    }

    /// The crate `mpeg2ts-reader` sees the same in a packet that was written here.
    #[test]
    fn somebody_else_agrees(
        unit_start: bool, has_priority: bool, pid in 0u16..=0x1fff, continuity in 0u8..16, pcr in any_clock(), opcr in any_clock(),
        splice_countdown: Option<i8>, private in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)), stuffing in 0u8..40,
    ) {
        let private_data = private.as_deref();
        let parts = 1 + [pcr, opcr].iter().flatten().count() * 6 + usize::from(splice_countdown.is_some()) + private_data.map_or(0, |part| 1 + part.len());
        let len_bytes = parts as u8 + stuffing;
        let adaptation = Adaptation { len_bytes, pcr, opcr, splice_countdown, private_data, ..Adaptation::default() };
        let repr = Repr { unit_start, has_priority, adaptation: Some(adaptation), ..Repr::new(Pid::new(pid).unwrap(), continuity) };
        let mut bytes = [0xaa; PACKET_LEN];
        repr.emit(&mut bytes);
        let theirs = ::mpeg2ts_reader::packet::Packet::new(&bytes);
        prop_assert_eq!(u16::from(theirs.pid()), pid);
        prop_assert_eq!(theirs.payload_unit_start_indicator(), unit_start);
        prop_assert_eq!(theirs.continuity_counter().count(), continuity);
        prop_assert_eq!(theirs.payload().map_or(0, <[u8]>::len), PACKET_LEN - repr.buffer_len());
        let field = theirs.adaptation_field().unwrap();
        let ticks = |clock: Option<Pcr>| clock.map(Pcr::ticks);
        prop_assert_eq!(field.pcr().ok().map(|clock| clock.base() * 300 + u64::from(clock.extension())), ticks(pcr));
        prop_assert_eq!(field.opcr().ok().map(|clock| clock.base() * 300 + u64::from(clock.extension())), ticks(opcr));
        prop_assert_eq!(field.transport_private_data().ok(), private_data);
    }

    #[test]
    fn never_panics(head: [u8; 12], rest in proptest::collection::vec(any::<u8>(), 0..180)) {
        let mut bytes = [&head[..], &rest].concat();
        bytes[0] = SYNC;
        if let Ok(packet) = Packet::new_checked(&bytes) {
            let _ = (packet.payload().is_ok(), Repr::parse(&packet).is_ok(), Continuity::default().follow(&packet));
        }
        let _ = find_sync(&bytes);
    }
}
