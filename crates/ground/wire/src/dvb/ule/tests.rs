//! RFC 4326's appendices, the receiver's rules one by one, and round trips.

mod appendix;
mod receiving;

use proptest::prelude::*;

use super::*;
use crate::Kind;
use crate::dvb::ts::Pid;

const PID: Pid = Pid::from_low_bits(0x101);
const NPA: MacAddr = MacAddr([0, 1, 2, 3, 4, 5]);

fn cells(stream: &[u8]) -> &[[u8; PACKET_LEN]] {
    let (cells, rest) = stream.as_chunks();
    assert!(rest.is_empty(), "a part of a TS packet");
    cells
}

/// TS packets of PDUs, those still waiting flushed.
fn encapsulate(method: Method, repr: &Repr<'_>, pdus: &[Vec<u8>]) -> Vec<u8> {
    let (mut encapsulator, mut stream) = (Encapsulator::new(PID, method), Vec::new());
    for pdu in pdus {
        encapsulator.push(repr, pdu, &mut stream).unwrap();
    }
    encapsulator.flush(&mut stream);
    assert!(!encapsulator.is_pending());
    stream
}

/// The PDUs of IPv4 SNDUs in a stream, and what happened.
fn receive(stream: &[u8]) -> (Vec<Vec<u8>>, Counts) {
    let (mut receiver, mut pdus) = (Receiver::new(PID, Filter::All), Vec::new());
    for cell in cells(stream) {
        receiver.push(cell, |sndu| match sndu.payload {
            Payload::Pdu(EtherType::IPV4, pdu) => pdus.push(pdu.to_vec()),
            other => panic!("{other:?}"),
        });
    }
    (pdus, *receiver.counts())
}

/// A whole SNDU.
fn sndu(repr: &Repr<'_>, pdu: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; repr.header_len()];
    repr.emit(pdu.len(), &mut bytes);
    bytes.extend(pdu);
    bytes.extend(Crc32::new().add_bytes(&bytes).register().to_be_bytes());
    bytes
}

#[test]
fn lengths_that_an_sndu_cannot_have() {
    let plain = Repr::new(Type::IPV4);
    assert_eq!(plain.check_pdu_len(0), Err(PduLength { len: 0, min: 1, max: 32_762 }));
    assert_eq!(plain.check_pdu_len(32_763), Err(PduLength { len: 32_763, min: 1, max: 32_762 }));
    assert_eq!(plain.to(NPA).check_pdu_len(0), Ok(()));
    assert_eq!(plain.to(NPA).max_pdu_len(), 32_757);
    let longest = sndu(&plain, &[7; 32_762]);
    assert_eq!((longest.len(), be16(&longest, 0)), (MAX_LEN - 1, 0xfffe));
    assert!(Sndu::parse(&longest).is_ok());
    let message = "a PDU of 0 bytes, where an SNDU with these headers carries 1 to 32762";
    assert_eq!(plain.check_pdu_len(0).unwrap_err().to_string(), message);
}

#[test]
fn a_chain_of_extension_headers() {
    let stamp = 0x1234_5678_u32.to_be_bytes();
    let extensions =
        [Extension::timestamp(&stamp), Extension::padding(2), Extension::new(9, &[1, 2, 3, 4, 5, 6, 7, 8])];
    let repr = Repr { extensions: &extensions, ..Repr::new(Type::IPV6).to(NPA) };
    let bytes = sndu(&repr, b"pdu");
    let expected = [
        0, 31, 3, 1, 0, 1, 2, 3, 4, 5, 0x12, 0x34, 0x56, 0x78, 1, 0, 5, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0x86,
        0xdd, b'p', b'd', b'u',
    ];
    assert_eq!(bytes[..31], expected);
    let read = Sndu::parse(&bytes).unwrap();
    assert_eq!((read.npa, read.payload), (Some(NPA), Payload::Pdu(EtherType::IPV6, b"pdu")));
    assert_eq!(read.extensions.timestamp(), Some(0x1234_5678));
    assert!(read.extensions.into_iter().eq(extensions));
}

#[test]
fn concatenated_pdus() {
    let mut concat = Concat::new(Type::IPV4);
    assert!(concat.is_empty());
    assert!(concat.push(b"one", 14) && concat.push(b"three", 14) && !concat.push(b"", 14));
    let bytes = sndu(&Repr::new(Type::PDU_CONCAT), concat.bytes());
    let Payload::Pdus(pdus) = Sndu::parse(&bytes).unwrap().payload else { panic!() };
    assert_eq!((pdus.kind(), pdus.pdus().collect::<Vec<_>>()), (Type::IPV4, vec![&b"one"[..], b"three"]));
    assert!(
        pdus.payloads().eq([b"one".as_slice(), b"three"].map(|pdu| Ok(Payload::Pdu(EtherType::IPV4, pdu))))
    );
    concat.clear();
    assert_eq!((concat.is_empty(), concat.kind()), (true, Type::IPV4));
}

#[test]
fn concatenations_that_do_not_add_up() {
    let kind = |kind: Type, pdu: &[u8]| Sndu::parse(&sndu(&Repr::new(kind), pdu)).unwrap_err().kind;
    for pdu in [&[8, 0][..], &[8, 0, 0], &[8, 0, 0, 2, 1], &[8, 0, 0, 1, 1, 9]] {
        assert_eq!(kind(Type::PDU_CONCAT, pdu), Kind::Malformed("PDU-Concat size mismatch"));
    }
    assert_eq!(kind(Type::PDU_CONCAT, &[8]), Kind::Truncated { needed: 6, have: 5 });
    assert_eq!(kind(Type::PDU_CONCAT, &[0, 3, 0, 0]), Kind::Malformed("PDU-Concat in PDU-Concat"));
    for len in [1, 187, 189] {
        assert_eq!(kind(Type::TS_CONCAT, &vec![0x47; len]), Kind::Malformed("TS-Concat size mismatch"));
    }
}

#[test]
fn a_common_type_may_be_an_extension_header() {
    // Padding, then what each PDU says: an IPv4 packet, once more a concatenation, and a frame that is cut.
    let pdus = [&[1, 0][..], &[0, 4, 8, 0, 1, 2, 0, 2, 0, 3, 0, 3, 0, 1, 7]].concat();
    let bytes = sndu(&Repr::new(Type::PDU_CONCAT), &pdus);
    let Payload::Pdus(pdus) = Sndu::parse(&bytes).unwrap().payload else { panic!() };
    let kinds: Vec<_> = pdus.payloads().map(|payload| payload.map_err(|error| error.kind)).collect();
    assert_eq!(kinds[0], Ok(Payload::Pdu(EtherType::IPV4, &[1, 2])));
    assert_eq!(kinds[1], Err(Kind::Malformed("PDU-Concat in PDU-Concat")));
    assert_eq!(kinds[2], Err(Kind::Truncated { needed: 16, have: 3 }));
}

#[test]
fn ts_packets_in_an_sndu() {
    let packets = [crate::dvb::ts::NULL_PACKET; 2];
    let bytes = sndu(&Repr::new(Type::TS_CONCAT).to(NPA), packets.as_flattened());
    assert_eq!(Sndu::parse(&bytes).unwrap().payload, Payload::Ts(&packets));
}

#[test]
fn bridged_frames_keep_their_length() {
    let frame = |kind: u16, len: usize| [&[2; 12][..], &kind.to_be_bytes(), &vec![9; len]].concat();
    let parse = |frame: &[u8]| {
        Sndu::parse(&sndu(&Repr::new(Type::BRIDGED), frame)).map_err(|error| error.kind).map(|_| ())
    };
    assert_eq!(parse(&frame(0x0800, 0)), Ok(()));
    assert_eq!(parse(&frame(3, 3)), Ok(()));
    assert_eq!(parse(&frame(3, 46)), Ok(()), "padding that the sender left");
    assert_eq!(parse(&frame(4, 3)), Err(Kind::Truncated { needed: 22, have: 21 }));
    assert_eq!(parse(&[2; 13]), Err(Kind::Truncated { needed: 18, have: 17 }));
}

proptest! {
    #[test]
    fn round_trip(
        pdus in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..600), 1..20), packing: bool, npa: Option<[u8; 6]>,
    ) {
        let repr = Repr { npa: npa.map(MacAddr), ..Repr::new(Type::IPV4) };
        let method = if packing { Method::Packing } else { Method::Padding };
        let stream = encapsulate(method, &repr, &pdus);
        let lens = pdus.iter().map(|pdu| repr.sndu_len(pdu.len()));
        if packing {
            prop_assert!(stream.len() <= lens.map(packets).sum::<usize>() * PACKET_LEN);
        } else {
            prop_assert_eq!(stream.len(), lens.map(packets).sum::<usize>() * PACKET_LEN);
        }
        let (received, counts) = receive(&stream);
        let sndu_bytes = pdus.iter().map(|pdu| repr.sndu_len(pdu.len()) as u64).sum();
        let packets = (stream.len() / PACKET_LEN) as u64;
        prop_assert_eq!(counts, Counts { packets, sndus: pdus.len() as u64, sndu_bytes, ..Counts::default() });
        prop_assert_eq!(received, pdus);
    }

    /// The crate `ule` reassembles what was encapsulated here, reads what was written here, and writes the same bytes.
    #[test]
    fn somebody_else_agrees(
        pdus in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..600), 1..20), packing: bool, npa: Option<[u8; 6]>,
        h_type: u8, words in 0usize..=4, data: [u8; 8],
    ) {
        let extensions = [Extension::new(h_type, &data[..words * 2])];
        let repr = Repr { npa: npa.map(MacAddr), extensions: &extensions, ..Repr::new(Type::IPV6) };
        let stream = encapsulate(if packing { Method::Packing } else { Method::Padding }, &repr, &pdus);
        let mut receiver = ::ule::UleReceiver::new();
        let received: Vec<_> =
            cells(&stream).iter().flat_map(|cell| receiver.push(&cell[4..], cell[1] & 0x40 != 0)).collect();
        prop_assert_eq!(received.len(), pdus.len());
        for (bytes, pdu) in received.iter().zip(&pdus) {
            let theirs = ::ule::Sndu::parse(bytes).unwrap();
            prop_assert_eq!((theirs.pdu(), theirs.dest_address, theirs.payload.final_type.to_u16()), (&pdu[..], npa, 0x86dd));
            prop_assert_eq!((theirs.payload.headers[0].h_type(), theirs.payload.headers.len()), (h_type, 1));
            let mut written = vec![0; theirs.serialized_len()];
            theirs.serialize_into(&mut written).unwrap();
            prop_assert_eq!(&written, &sndu(&repr, pdu));
            prop_assert_eq!(Sndu::parse(&written).unwrap().payload, Payload::Pdu(EtherType::IPV6, pdu));
        }
    }

    #[test]
    fn elided_zeros_are_zeros(head in proptest::collection::vec(any::<u8>(), 1..60), elided in 0usize..2000, packing: bool) {
        let method = if packing { Method::Packing } else { Method::Padding };
        let repr = Repr::new(Type::IPV4).to(NPA);
        let (mut encapsulator, mut stream) = (Encapsulator::new(PID, method), vec![1, 2, 3]);
        encapsulator.push(&repr, &head, &mut stream).unwrap();
        encapsulator.push_elided(&repr, &head, elided, &mut stream).unwrap();
        encapsulator.flush(&mut stream);
        let mut whole = head.clone();
        whole.resize(head.len() + elided, 0);
        prop_assert_eq!(&stream[3..], encapsulate(method, &repr, &[head, whole]));
    }

    #[test]
    fn anything_may_come(stream in proptest::collection::vec(any::<[u8; 32]>(), 0..40), whole: bool) {
        let mut receiver = Receiver::new(PID, Filter::Only(vec![NPA]));
        for (index, start) in stream.iter().enumerate() {
            let mut cell = [start[31]; PACKET_LEN];
            cell[4..36].copy_from_slice(start);
            cell[..4].copy_from_slice(&[0x47, 0x01 | start[30] & 0x40, 0x01, 0x10 | index as u8 & 0x0f]);
            cell[4] &= if whole { 1 } else { 0xff };
            receiver.push(&cell, |_| {});
            prop_assert!(receiver.waiting_len() < MAX_LEN);
        }
    }
}
