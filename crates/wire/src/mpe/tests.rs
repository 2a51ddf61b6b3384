use proptest::prelude::*;

use super::*;

const PID: Pid = Pid::NIT;
const DST: MacAddr = MacAddr([0x00, 0x11, 0x22, 0x33, 0x44, 0x55]);

fn section(repr: &Repr, datagram: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; repr.header_len()];
    repr.emit(datagram.len(), &mut bytes);
    bytes.extend(datagram);
    sealed(bytes)
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
    assert_eq!(changed(7, 1), Kind::Unsupported("datagram over several sections"));
    assert_eq!(changed(12, 0x55), Kind::Unsupported("neither SNAP nor IP"));
    assert_eq!(changed(5, 0xc3), Kind::Unsupported("LLC without SNAP"));
    let mut damaged = good.clone();
    damaged[30] ^= 1;
    assert_eq!(Datagram::parse(&damaged).unwrap_err(), Error::checksum(Layer::Mpe, 40));
    assert_eq!(Datagram::parse(&good[..16]).unwrap_err().kind, Kind::Truncated { needed: 17, have: 16 });
    assert_eq!(Datagram::parse(&[]).unwrap_err().kind, Kind::Truncated { needed: 17, have: 0 });
}

#[test]
fn datagrams_for_one_section_only() {
    let plain = Repr::new(DST);
    assert_eq!(plain.check_datagram_len(4080), Ok(()));
    assert_eq!(plain.check_datagram_len(4081), Err(DatagramLength { len: 4081, max: 4080 }));
    assert!(plain.check_datagram_len(0).is_err());
    let snap = Repr { ethertype: Some(EtherType::IPV6), ..plain };
    assert_eq!(snap.check_datagram_len(4073).unwrap_err().max, 4072);
    assert_eq!(section(&plain, &[0x45; 4080]).len(), section::MAX_LEN);
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

proptest! {
    #[test]
    fn round_trip(
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..=1600), 1..12), packing: bool, llc: bool, align: bool,
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
