use proptest::prelude::*;

use super::arq::{Ack, Feedback};
use super::channel::{Dcd, Profile, Ucd};
use super::*;
use crate::Kind;

fn part(fragment: Fragment, number: u16, bytes: &[u8]) -> Part<'_> {
    Part { fragment, number, bytes }
}

#[test]
fn headers_have_the_published_check_sequences() {
    let generic = Generic { crc: true, len: 58, cid: 0x2001, ..Generic::default() };
    let mut bytes = [0; HEADER_LEN];
    generic.emit(&mut bytes);
    assert_eq!(bytes, [0x00, 0x40, 0x3a, 0x20, 0x01, 0x54]);
    assert_eq!(Header::parse(&bytes), Ok(Header::Generic(generic)));
    let request = Request { kind: Urgency::Incremental, bytes: 300, cid: Cid(0x2001) };
    request.emit(&mut bytes);
    assert_eq!(bytes, [0x80, 0x01, 0x2c, 0x20, 0x01, 0x91]);
    assert_eq!(Header::parse(&bytes), Ok(Header::Request(request)));
    bytes[2] ^= 1;
    assert_eq!(Header::parse(&bytes).unwrap_err().kind, Kind::Checksum);
}

#[test]
fn both_crcs_have_the_catalogue_s_check_values() {
    assert_eq!(CrcForm::Ofdm.of(b"123456789"), 0xcbf4_3926_u32.to_le_bytes());
    assert_eq!(CrcForm::Ofdma.of(b"123456789"), 0xfc89_1918_u32.to_be_bytes());
}

#[test]
fn overheads_are_the_standard_s() {
    let repr = Repr { crc: Some(CrcForm::Ofdma), grant: Some(5), ..Repr::new(Cid(1)) };
    assert_eq!(repr.overhead(1), 6 + 2 + 4);
    let overhead = |layout, numbers, parts| Repr { layout, numbers, ..Repr::new(Cid(1)) }.overhead(parts) - 6;
    assert_eq!(overhead(Layout::Fragment, Numbers::Short, 1), 1);
    assert_eq!(overhead(Layout::Fragment, Numbers::Extended, 1), 2);
    assert_eq!(overhead(Layout::Packed, Numbers::Short, 3), 6);
    assert_eq!(overhead(Layout::Packed, Numbers::Extended, 3), 9);
}

#[test]
fn maps_have_the_standard_s_sizes() {
    let element = DlElement { cid: Cid::BROADCAST, diuc: 1, preamble: false, start: 9 };
    let end = DlElement { cid: Cid(0), diuc: DlElement::END, preamble: false, start: 118 };
    let map = DlMap { dcd_count: 7, base_station: [1, 2, 3, 4, 5, 6], elements: vec![element, end] };
    let mut bytes = Vec::new();
    map.emit(&mut bytes);
    assert_eq!(bytes, [2, 7, 1, 2, 3, 4, 5, 6, 0xff, 0xff, 0x10, 9, 0, 0, 0xe0, 118]);
    assert_eq!(DlMap::parse(&bytes), Ok(map));
    let request = UlElement {
        cid: Cid::BROADCAST,
        start: 8,
        subchannel: 16,
        uiuc: UlElement::REQUEST,
        duration: 8,
        midamble: 0,
    };
    let map = UlMap { ucd_count: 3, allocation_start: 2500, elements: vec![request] };
    bytes.clear();
    map.emit(&mut bytes);
    // Start 8, subchannel 16, UIUC 2, duration 8: 11, 5, 4 and 10 bits, then 2 of midambles.
    assert_eq!(bytes, [3, 0, 3, 0, 0, 0x09, 0xc4, 0xff, 0xff, 0x01, 0x10, 0x20, 0x20]);
    assert_eq!(UlMap::parse(&bytes), Ok(map));
    assert!(matches!(UlMap::parse(&bytes[..12]).unwrap_err().kind, Kind::Truncated { needed: 13, .. }));
}

#[test]
fn a_frame_prefix_fills_a_symbol_of_bpsk() {
    let burst = FchBurst { profile: 6, preamble: true, symbols: 0x123 };
    let fch = Fch {
        base_station: 1,
        frame: 2,
        configuration: 3,
        bursts: [burst, FchBurst::default(), burst, burst],
    };
    let mut bytes = [0; FCH_LEN];
    fch.emit(&mut bytes);
    // 11 bytes and the byte of the FEC's tail: the 12 of BPSK 1/2.
    assert_eq!(bytes[..4], [0x12, 0x30, 0x69, 0x23]);
    assert_eq!(Fch::parse(&bytes), Ok(fch));
    bytes[1] ^= 0x10;
    assert_eq!(Fch::parse(&bytes).unwrap_err().kind, Kind::Checksum);
}

#[test]
fn descriptors_keep_their_profiles() {
    let robust = Profile { code: 1, fec: 0, exit: Some(12), entry: Some(20) };
    let fast = Profile { code: 7, fec: 6, exit: None, entry: None };
    let dcd = Dcd {
        channel: 1,
        count: 9,
        frame_code: 4,
        frame: 0x12_3456,
        gaps: [50, 20],
        profiles: vec![robust, fast],
    };
    let mut bytes = Vec::new();
    dcd.emit(&mut bytes);
    assert_eq!(Dcd::parse(&bytes), Ok(dcd));
    let ucd = Ucd { count: 9, ranging_backoff: [3, 6], request_backoff: [3, 6], profiles: vec![fast] };
    bytes.clear();
    ucd.emit(&mut bytes);
    assert_eq!(bytes[..7], [0, 9, 3, 6, 3, 6, 1]);
    assert_eq!(Ucd::parse(&bytes), Ok(ucd));
}

#[test]
fn lengths_of_tlvs_have_up_to_two_more_bytes() {
    for len in [0, 1, 127, 128, 255, 256, 3000] {
        let mut bytes = Vec::new();
        channel::Tlv { kind: 9, value: &vec![7; len] }.emit(&mut bytes);
        let read: Vec<_> = channel::Tlvs::new(&bytes).collect::<Result<_, _>>().unwrap();
        assert_eq!((read.len(), read[0].value.len()), (1, len));
    }
    for bad in [&[9, 0x80][..], &[9, 0x83, 0, 0, 0], &[9, 2, 0], &[9]] {
        assert!(channel::Tlvs::new(bad).any(|tlv| tlv.is_err()), "{bad:?}");
    }
}

fn parts() -> impl Strategy<Value = (Repr, Vec<(u8, u16, Vec<u8>)>)> {
    let layout = prop_oneof![Just(Layout::Whole), Just(Layout::Fragment), Just(Layout::Packed)];
    let numbers = prop_oneof![Just(Numbers::Short), Just(Numbers::Extended)];
    let crc = prop_oneof![Just(None), Just(Some(CrcForm::Ofdm)), Just(Some(CrcForm::Ofdma))];
    let repr = (any::<u16>(), any::<Option<u16>>(), layout, numbers, crc);
    let repr = repr.prop_map(|(cid, grant, layout, numbers, crc)| Repr {
        cid: Cid(cid),
        grant,
        layout,
        numbers,
        arq_feedback: false,
        crc,
    });
    let part = (0u8..4, 0u16..2048, proptest::collection::vec(any::<u8>(), 1..90));
    (repr, proptest::collection::vec(part, 1..8))
}

proptest! {
    #[test]
    fn pdus_come_back((repr, mut parts) in parts()) {
        if repr.layout != Layout::Packed {
            parts.truncate(1);
        }
        let sent: Vec<Part<'_>> = parts.iter().map(|(fc, number, bytes)| match repr.layout {
            Layout::Whole => part(Fragment::Whole, 0, bytes),
            _ => part(Fragment::from_bits(*fc), number % repr.numbers.modulus(), bytes),
        }).collect();
        let mut bytes = Vec::new();
        repr.emit(&sent, &mut bytes);
        prop_assert_eq!(bytes.len(), repr.buffer_len(&sent));
        let form = repr.crc.unwrap_or_default();
        let pdu = Pdu::new_checked(&bytes, form).unwrap();
        prop_assert_eq!((pdu.header.cid, pdu.grant, pdu.total_len()), (repr.cid.0, repr.grant, bytes.len()));
        let back: Vec<Part<'_>> = pdu.parts().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(back, sent);
        if repr.crc.is_some() {
            let at = bytes.len() / 2;
            bytes[at] ^= 4;
            prop_assert!(Pdu::new_checked(&bytes, form).is_err());
        }
    }

    #[test]
    fn feedback_comes_back(cid in any::<u16>(), number in 0u16..2048, maps in proptest::collection::vec(any::<u16>(), 1..5)) {
        let acks = [
            Ack::Selective { first: number, maps: maps.clone() },
            Ack::Cumulative(number),
            Ack::CumulativeSelective { up_to: number, maps },
        ];
        let list: Vec<Feedback> = acks.into_iter().enumerate()
            .map(|(n, ack)| Feedback { cid: Cid(cid), last: n == 2, ack }).collect();
        let mut bytes = Vec::new();
        list.iter().for_each(|element| element.emit(&mut bytes));
        prop_assert_eq!(bytes.len(), list.iter().map(Feedback::buffer_len).sum::<usize>());
        prop_assert_eq!(Feedback::parse_list(&bytes).unwrap(), list);
    }

    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Header::parse(&bytes);
        for form in [CrcForm::Ofdm, CrcForm::Ofdma] {
            let _ = Pdu::new_checked(&bytes, form).map(|pdu| pdu.parts().count());
        }
        let _ = (Fch::parse(&bytes), DlMap::parse(&bytes), UlMap::parse(&bytes), Dcd::parse(&bytes), Ucd::parse(&bytes));
        let _ = (Feedback::parse_list(&bytes), m2m::Burst::parse(&bytes));
    }
}
