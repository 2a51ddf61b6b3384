use proptest::prelude::*;

use super::*;
use crate::crc32::Crc32;
use crate::dvb::ts::{Method, Pid};
use crate::lan::ethernet::Filter;
use crate::{Error, Kind, Layer};

const PID: Pid = Pid::NIT;
const DST: MacAddr = MacAddr([0x00, 0x11, 0x22, 0x33, 0x44, 0x55]);

fn section(repr: &Repr, datagram: &[u8]) -> Vec<u8> {
    let (mut encapsulator, mut stream) = (Encapsulator::new(PID, Method::Padding), Vec::new());
    encapsulator.push(repr, datagram, &mut stream).unwrap();
    sections_of(&stream).remove(0)
}

fn sections_of(stream: &[u8]) -> Vec<Vec<u8>> {
    let (mut receiver, mut sections) = (section::Receiver::new(PID), Vec::new());
    for packet in stream.as_chunks().0 {
        receiver.push(packet, |section| sections.push(section.to_vec()));
    }
    sections
}

/// The datagrams of sections in this order, and what happened.
fn received(sections: &[&[u8]]) -> (Vec<Vec<u8>>, Counts) {
    let (mut encapsulator, mut stream) = (section::Encapsulator::new(PID, Method::Packing), Vec::new());
    sections.iter().for_each(|section| encapsulator.push(section, &mut stream));
    encapsulator.flush(&mut stream);
    let (mut receiver, mut datagrams) = (Receiver::new(PID, Filter::All), Vec::new());
    for packet in stream.as_chunks().0 {
        receiver.push(packet, |datagram| datagrams.push(datagram.bytes.to_vec()));
    }
    (datagrams, *receiver.counts())
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(Crc32::new().add_bytes(&bytes).register().to_be_bytes());
    bytes
}

#[test]
fn a_section_that_tshark_read_too() {
    let expected = [
        0x3e, 0xb0, 0x29, 0x55, 0x44, 0xc1, 0x00, 0x00, 0x33, 0x22, 0x11,
        0x00, // header, address from the end
        0x45, 0x00, 0x00, 0x1c, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x66, 0xce, 0x0a, 0x00, 0x00, 0x01, 0x0a,
        0x00, 0x00, 0x02, 0x13, 0x88, 0x13, 0x89, 0x00, 0x08, 0x00, 0x00, // IPv4 and UDP
        0x48, 0xab, 0x7a, 0x61,
    ];
    assert_eq!(section(&Repr::new(DST), &expected[12..40]), expected);
    let read = Datagram::parse(&expected).unwrap();
    assert_eq!(
        (read.dst, read.ethertype, read.has_llc, read.bytes),
        (DST, EtherType::IPV4, false, &expected[12..40])
    );
}

#[test]
fn with_llc_and_snap() {
    let repr = Repr { ethertype: Some(EtherType::ROHC), ..Repr::new(DST) };
    let bytes = section(&repr, b"rohc");
    assert_eq!((bytes.len(), bytes[5]), (12 + 8 + 4 + 4, 0xc3));
    assert_eq!(bytes[12..20], [0xaa, 0xaa, 3, 0, 0, 0, 0x22, 0xf1]);
    let read = Datagram::parse(&bytes).unwrap();
    assert_eq!((read.ethertype, read.has_llc, read.bytes), (EtherType::ROHC, true, &b"rohc"[..]));
}

#[test]
fn what_is_not_read_says_why() {
    let good = section(&Repr::new(DST), &[0x45; 28]);
    let changed = |at: usize, value: u8| {
        let mut bytes = good[..good.len() - 4].to_vec();
        bytes[at] = value;
        Datagram::parse(&sealed(bytes)).unwrap_err().kind
    };
    assert_eq!(changed(0, 0x3f), Kind::Unsupported("table other than datagram_section"));
    assert_eq!(changed(1, 0x70), Kind::Unsupported("checksum in place of CRC-32"));
    assert_eq!(changed(2, 0x2a), Kind::Truncated { needed: 45, have: 44 });
    assert_eq!(changed(2, 0x28), Kind::Malformed("section length"));
    assert_eq!(changed(5, 0xd1), Kind::Unsupported("scrambled section"));
    assert_eq!(changed(7, 1), Kind::Unsupported("part of a datagram"));
    assert_eq!(changed(6, 1), Kind::Malformed("section beyond the last"));
    assert_eq!(changed(12, 0x55), Kind::Unsupported("neither SNAP nor IP"));
    assert_eq!(changed(5, 0xc3), Kind::Unsupported("LLC without SNAP"));
    let mut damaged = good.clone();
    damaged[30] ^= 1;
    assert_eq!(Datagram::parse(&damaged).unwrap_err(), Error::checksum(Layer::Mpe, 40));
    assert_eq!(Datagram::parse(&good[..16]).unwrap_err().kind, Kind::Truncated { needed: 17, have: 16 });
    assert_eq!(Datagram::parse(&[]).unwrap_err().kind, Kind::Truncated { needed: 17, have: 0 });
}

#[test]
fn how_many_sections_a_datagram_takes() {
    let plain = Repr::new(DST);
    let snap = Repr { ethertype: Some(EtherType::IPV6), ..plain };
    let sections = |repr: &Repr, len| (repr.sections(len), repr.section_len(len));
    assert_eq!(sections(&plain, 4080), (1, section::MAX_LEN));
    assert_eq!(sections(&plain, 4081), (2, section::MAX_LEN + 17));
    assert_eq!(sections(&snap, 4072), (1, section::MAX_LEN));
    assert_eq!(sections(&snap, 4073), (2, section::MAX_LEN + 17));
    assert_eq!(sections(&plain, 9000), (3, 9048));
    assert_eq!(plain.check_datagram_len(65_576), Err(DatagramLength { len: 65_576 }));
    assert!(plain.check_datagram_len(65_575).is_ok() && plain.check_datagram_len(0).is_err());
}

/// A datagram of 9000 bytes that says so, and its three sections.
fn jumbo() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut datagram: Vec<u8> = (0..9000).map(|at| (at % 251) as u8).collect();
    datagram[0] = 0x45;
    let repr = Repr { ethertype: Some(EtherType::IPV4), ..Repr::new(DST) };
    let (mut encapsulator, mut stream) = (Encapsulator::new(PID, Method::Packing).aligned(), Vec::new());
    encapsulator.push_elided(&repr, &datagram[..8000], 1000, &mut stream).unwrap();
    encapsulator.flush(&mut stream);
    datagram[8000..].fill(0);
    (datagram, sections_of(&stream))
}

#[test]
fn a_datagram_over_several_sections() {
    let (datagram, sections) = jumbo();
    let numbers: Vec<_> = sections.iter().map(|section| (section[6], section[7], section.len())).collect();
    // The first has the LLC/SNAP header; only the last is stuffed, here by nothing.
    assert_eq!(numbers, [(0, 2, 4096), (1, 2, 4096), (2, 2, 9008 - 2 * 4080 + 16)]);
    assert_eq!(sections[0][12..20], [0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    assert_eq!(sections[1][12..], [&datagram[4072..8152], &sections[1][4092..]].concat());
    let all: Vec<&[u8]> = sections.iter().map(Vec::as_slice).collect();
    let (datagrams, counts) = received(&all);
    assert_eq!(datagrams, [datagram]);
    assert_eq!((counts.datagrams, counts.section_bytes), (1, 9008 + 48));
}

#[test]
fn a_datagram_of_which_a_section_is_missing() {
    let (datagram, sections) = jumbo();
    let [first, second, third] = [0, 1, 2].map(|n| sections[n].as_slice());
    let other = section(&Repr::new(DST), &[0x45; 28]);
    let errors = |sections: &[&[u8]], whole: usize| {
        let (datagrams, counts) = received(sections);
        assert_eq!(datagrams.iter().filter(|bytes| **bytes == datagram).count(), whole);
        (counts.abandoned, counts.orphans)
    };
    assert_eq!(errors(&[first, third, first, second, third], 1), (1, 1));
    assert_eq!(errors(&[second, third], 0), (0, 2));
    assert_eq!(errors(&[first, first, second, third], 1), (1, 0));
    assert_eq!(errors(&[first, second, &other, third], 0), (1, 1));
    assert_eq!(received(&[first, second, &other]).0, [[0x45; 28]]);
}

#[test]
fn a_datagram_without_end() {
    let (_, sections) = jumbo();
    let endless: Vec<Vec<u8>> = (0..=255)
        .map(|number| {
            let mut bytes = sections[1][..4092].to_vec();
            (bytes[6], bytes[7]) = (number, 255);
            sealed(bytes)
        })
        .collect();
    let (datagrams, counts) = received(&endless.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_eq!((datagrams.len(), counts.length_errors, counts.orphans), (0, 1, 255 - 16));
}

#[test]
fn others_datagrams_are_not_ours() {
    let (mut encapsulator, mut stream) = (Encapsulator::new(PID, Method::Packing), Vec::new());
    for dst in [DST, MacAddr([9; 6]), MacAddr::BROADCAST] {
        encapsulator.push(&Repr::new(dst), &[0x60; 40], &mut stream).unwrap();
    }
    encapsulator.flush(&mut stream);
    let (mut receiver, mut seen) = (Receiver::new(PID, Filter::Only(vec![DST])), Vec::new());
    receiver.push(stream.first_chunk().unwrap(), |datagram| seen.push(datagram.dst));
    assert_eq!((seen, receiver.counts().others), (vec![DST, MacAddr::BROADCAST], 1));
}

#[test]
fn sections_of_other_tables_are_no_errors() {
    let datagram = section(&Repr::new(DST), &[0x45; 40]);
    // A section of DSM-CC's download messages, one without a CRC-32, and one that is damaged.
    let dsm_cc = sealed([&[0x3b, 0xb0, 15][..], &[0, 1, 0xc1, 0, 0], &[9; 6]].concat());
    let private = [&[0x80, 0x30, 6][..], &[7; 6]].concat();
    let mut damaged = dsm_cc.clone();
    damaged[9] ^= 1;
    let (datagrams, counts) = received(&[&dsm_cc, &datagram, &private, &damaged, &datagram]);
    assert_eq!(datagrams.len(), 2);
    assert_eq!((counts.other_tables, counts.unsupported, counts.crc_errors), (2, 0, 1));
}

proptest! {
    #[test]
    fn round_trip(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..=6000), 1..8), packing: bool, llc: bool, align: bool,
    ) {
        let repr = Repr { ethertype: llc.then_some(EtherType(0x1234)), ..Repr::new(DST) };
        let mut encapsulator = Encapsulator::new(PID, if packing { Method::Packing } else { Method::Padding });
        if align {
            encapsulator = encapsulator.aligned();
        }
        let (mut stream, mut receiver, mut received) = (Vec::new(), Receiver::new(PID, Filter::All), Vec::new());
        let datagrams: Vec<_> = datagrams.into_iter().map(|mut datagram| { datagram[0] = datagram[0] & 0x2f | 0x40; datagram }).collect();
        for datagram in &datagrams {
            let zeros = datagram.iter().rev().take_while(|&&byte| byte == 0).count().min(datagram.len() - 1);
            encapsulator.push_elided(&repr, &datagram[..datagram.len() - zeros], zeros, &mut stream).unwrap();
        }
        encapsulator.flush(&mut stream);
        for packet in stream.as_chunks().0 {
            receiver.push(packet, |datagram| received.push(datagram.bytes.to_vec()));
        }
        prop_assert_eq!(received.len(), datagrams.len());
        for (received, datagram) in received.iter().zip(&datagrams) {
            prop_assert_eq!(&received[..datagram.len()], datagram);
            let most = if align { 3 } else { 0 };
            prop_assert!(received.len() <= datagram.len() + most);
        }
        prop_assert_eq!(receiver.counts().datagrams, datagrams.len() as u64);
    }

    #[test]
    fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80), right_length: bool) {
        let mut bytes = [&[TABLE_ID, 0xb0][..], &bytes].concat();
        if right_length && bytes.len() > 3 {
            bytes[2] = (bytes.len() + 1) as u8;
        }
        let _ = Datagram::parse(&sealed(bytes));
    }
}
