//! The receiver's rules (RFC 4326, section 7), and what once broke other receivers.

use super::*;

fn pdus(lens: &[usize]) -> Vec<Vec<u8>> {
    lens.iter().enumerate().map(|(index, &len)| vec![index as u8; len]).collect()
}

fn stream(method: Method, pdus: &[Vec<u8>]) -> Vec<u8> {
    encapsulate(method, &Repr::new(Type::IPV4), pdus)
}

/// A TS packet with this payload, the rest stuffing.
fn cell(unit_start: bool, continuity: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x47, 0x01 | u8::from(unit_start) << 6, 0x01, 0x10 | continuity];
    bytes.extend(payload);
    assert!(bytes.len() <= PACKET_LEN);
    bytes.resize(PACKET_LEN, 0xff);
    bytes
}

/// Which of the PDUs, each filled with its own number, arrived.
fn arrived(stream: &[u8]) -> (Vec<u8>, Counts) {
    let (pdus, counts) = receive(stream);
    (pdus.iter().map(|pdu| pdu[0]).collect(), counts)
}

#[test]
fn a_lost_packet_costs_the_sndus_in_it() {
    let mut stream = stream(Method::Packing, &pdus(&[400, 400, 400, 400]));
    stream.drain(3 * 188..4 * 188);
    let (arrived, counts) = arrived(&stream);
    assert_eq!(arrived, [0, 2, 3]);
    assert_eq!((counts.continuity_errors, counts.crc_errors, counts.packets), (1, 0, 8));
}

#[test]
fn duplicates_are_dropped() {
    let whole = stream(Method::Padding, &pdus(&[400, 30]));
    let twice: Vec<u8> =
        cells(&whole).iter().flat_map(|cell| [cell, cell, cell]).flatten().copied().collect();
    let (arrived, counts) = arrived(&twice);
    assert_eq!((arrived, counts.duplicates, counts.continuity_errors), (vec![0, 1], 8, 0));
}

#[test]
fn a_transport_error_costs_the_sndu_under_way() {
    let mut stream = stream(Method::Padding, &pdus(&[400, 30]));
    stream[188 + 1] |= 0x80;
    stream[188 + 3] ^= 0x0f;
    let (arrived, counts) = arrived(&stream);
    assert_eq!((arrived, counts.transmission_errors, counts.continuity_errors), (vec![1], 1, 0));
}

#[test]
fn scrambled_packets_and_adaptation_fields_are_not_for_ule() {
    for (bits, expected) in [(0x80, (1, 0)), (0x20, (0, 1))] {
        let mut stream = stream(Method::Padding, &pdus(&[30, 400, 30]));
        stream[2 * 188 + 3] |= bits;
        stream[2 * 188 + 4] = 1;
        let (arrived, counts) = arrived(&stream);
        assert_eq!((arrived, (counts.scrambled, counts.adaptations)), (vec![0, 2], expected));
        assert_eq!(counts.continuity_errors, 1);
    }
}

#[test]
fn a_wrong_crc_costs_the_rest_of_the_packet() {
    let mut stream = stream(Method::Packing, &pdus(&[30, 30, 30, 30, 150, 30]));
    stream[60] ^= 1;
    let (arrived, counts) = arrived(&stream);
    assert_eq!((arrived, counts.crc_errors, counts.reassembly_errors), (vec![0, 5], 1, 0));
}

#[test]
fn a_payload_pointer_elsewhere_starts_anew() {
    let mut stream = stream(Method::Packing, &pdus(&[300, 30, 100]));
    let pointer = &mut stream[188 + 4];
    assert_eq!(*pointer, 125);
    *pointer += 38;
    let (arrived, counts) = arrived(&stream);
    assert_eq!((arrived, counts.reassembly_errors, counts.crc_errors), (vec![2], 1, 0));
}

#[test]
fn a_payload_pointer_over_181() {
    for (pointer, expected) in [(181, (0, 1)), (182, (1, 0)), (255, (1, 0))] {
        let mut payload = vec![0; 184];
        payload[0] = pointer;
        let (_, counts) = receive(&cell(true, 0, &payload));
        assert_eq!((counts.pointer_errors, counts.length_errors), expected);
    }
}

#[test]
fn what_follows_an_sndu_unannounced_is_an_error() {
    // The SNDU takes 200 bytes: 183 and then 17 in a packet without payload pointer.
    let whole = stream(Method::Padding, &pdus(&[192]));
    for (behind, expected) in [(0x00, 1), (0xff, 0)] {
        let mut stream = whole.clone();
        stream[188 + 4 + 17] = behind;
        let (arrived, counts) = arrived(&stream);
        assert_eq!((arrived, counts.delimiting_errors), (vec![0], expected));
    }
    let last_byte = stream(Method::Padding, &pdus(&[174]));
    for (behind, expected) in [(0x00, 1), (0xff, 0)] {
        let mut stream = last_byte.clone();
        stream[187] = behind;
        let (arrived, counts) = arrived(&stream);
        assert_eq!((arrived, counts.delimiting_errors), (vec![0], expected));
    }
}

#[test]
fn others_sndus_are_not_ours() {
    let (mut encapsulator, mut stream) = (Encapsulator::new(PID, Method::Packing), Vec::new());
    let group = MacAddr([1, 0, 0x5e, 1, 2, 3]);
    let to = [
        Some(NPA),
        Some(MacAddr([9; 6])),
        Some(MacAddr::BROADCAST),
        None,
        Some(group),
        Some(MacAddr([1, 0, 0x5e, 0, 0, 1])),
    ];
    for npa in to {
        encapsulator.push(&Repr { npa, ..Repr::new(Type::ROHC) }, b"pdu", &mut stream).unwrap();
    }
    encapsulator.flush(&mut stream);
    let (mut receiver, mut seen) = (Receiver::new(PID, Filter::Only(vec![NPA, group])), Vec::new());
    receiver.push(&cells(&stream)[0], |sndu| {
        assert_eq!(sndu.payload, Payload::Pdu(EtherType::ROHC, b"pdu"));
        seen.push(sndu.npa);
    });
    assert_eq!(seen, [Some(NPA), Some(MacAddr::BROADCAST), None, Some(group)]);
    assert_eq!((receiver.counts().others, receiver.counts().sndus), (2, 4));
}

#[test]
fn other_pids_and_what_is_no_packet() {
    let mut receiver = Receiver::new(PID, Filter::All);
    receiver.push(&crate::dvb::ts::NULL_PACKET, |_| panic!());
    receiver.push(&[0; 188], |_| panic!());
    assert_eq!(*receiver.counts(), Counts { malformed: 1, ..Counts::default() });
}

#[test]
fn test_sndus_are_dropped_and_counted() {
    let payload = [&[0][..], &sndu(&Repr::new(Type::TEST), b"anything")].concat();
    let (pdus, counts) = receive(&cell(true, 0, &payload));
    assert_eq!((pdus.len(), counts.tests, counts.sndus), (0, 1, 0));
}

#[test]
fn damaged_concatenations_are_dropped_whole_and_counted() {
    let payload = [&[0][..], &sndu(&Repr::new(Type::PDU_CONCAT), &[8, 0, 0, 1, 7, 0, 9])].concat();
    let (pdus, counts) = receive(&cell(true, 0, &payload));
    assert_eq!((pdus.len(), counts.concat_errors), (0, 1));
}

/// Linux, `dvb_net.c`: an SNDU length of 0 to 4, or under 10 with an address, made it read before its buffer.
#[test]
fn linux_sndu_length_too_small() {
    for length in [0x8000u16, 0x8001, 0x8003, 0x8004, 0x0000, 0x0004, 0x0009] {
        let payload = [&[0][..], &length.to_be_bytes(), &[8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]].concat();
        let (pdus, counts) = receive(&cell(true, 0, &payload));
        assert_eq!((pdus.len(), counts.length_errors), (0, 1), "{length:#06x}");
    }
    // The shortest that there are: an empty PDU behind an address, and one byte without.
    let shortest =
        [&[0][..], &sndu(&Repr::new(Type::IPV4).to(NPA), b""), &sndu(&Repr::new(Type::IPV4), b"1")].concat();
    assert_eq!(receive(&cell(true, 0, &shortest)).0, [&b""[..], b"1"]);
}

/// Linux: a malformed TS packet left its loop where it was, for good.
#[test]
fn linux_malformed_packet_that_loops() {
    let mut receiver = Receiver::new(PID, Filter::All);
    let broken: [[u8; 4]; 4] = [
        [0x00, 0x41, 0x01, 0x10],
        [0x47, 0x41, 0x01, 0x00],
        [0x47, 0x41, 0x01, 0x30],
        [0x47, 0xc1, 0x01, 0x00],
    ];
    for header in broken {
        let mut packet = [0xff; PACKET_LEN];
        packet[..4].copy_from_slice(&header);
        receiver.push(&packet, |_| panic!());
    }
    assert_eq!((receiver.counts().malformed, receiver.counts().transmission_errors), (3, 1));
    let good = stream(Method::Padding, &pdus(&[40]));
    let mut seen = 0;
    receiver.push(&cells(&good)[0], |_| seen += 1);
    assert_eq!(seen, 1);
}

/// Linux: an SNDU whose header does not fit into the last two or three bytes of a TS packet was read beyond its end.
#[test]
fn linux_sndu_that_starts_in_the_last_bytes() {
    // With a payload pointer in the first packet 183 bytes are left; the second SNDU starts in the last 1, 2, 3 or 4.
    for room in 1..=4 {
        let pdus = pdus(&[183 - room - 8, 100, 60]);
        let stream = stream(Method::Packing, &pdus);
        let (received, counts) = receive(&stream);
        assert_eq!(received, pdus);
        assert_eq!(
            (cells(&stream).len(), counts.length_errors + counts.crc_errors),
            (2, 0),
            "{room} bytes left"
        );
        assert_eq!(cells(&stream)[0][188 - room] == 0xff, room == 1);
    }
    // The same behind the end of an SNDU in a packet that had no payload pointer yet: the pointer takes one byte more.
    for room in 1..=5 {
        let pdus = pdus(&[183 + 184 - room - 8, 100, 60]);
        let stream = stream(Method::Packing, &pdus);
        assert_eq!(receive(&stream).0, pdus);
        assert_eq!(cells(&stream)[1][1] & 0x40 != 0, room >= 3, "{room} bytes left");
    }
}

/// Linux: the handlers of extension headers are in a table, which a type beyond its end was looked up in too.
#[test]
fn linux_extension_header_beyond_the_table() {
    for kind in (4..256).map(Type) {
        let (pdus, counts) =
            receive(&cell(true, 0, &[&[0][..], &sndu(&Repr::new(kind), b"unknown")].concat()));
        assert_eq!((pdus.len(), counts.type_errors), (0, 1), "{kind:?}");
    }
    for h_type in 0..=255 {
        let extensions = [Extension::new(h_type, &[1, 2])];
        let repr = Repr { extensions: &extensions, ..Repr::new(Type::IPV4) };
        let (pdus, _) = receive(&cell(true, 0, &[&[0][..], &sndu(&repr, b"known")].concat()));
        assert_eq!(pdus, [b"known"], "{h_type}");
    }
    // A chain that ends before its next Type field.
    let bytes = sndu(&Repr::new(Type(0x0501)), &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(Sndu::parse(&bytes).unwrap_err().kind, Kind::Truncated { needed: 14, have: 13 });
    let (_, counts) = receive(&cell(true, 0, &[&[0][..], &bytes].concat()));
    assert_eq!(counts.length_errors, 1);
}
