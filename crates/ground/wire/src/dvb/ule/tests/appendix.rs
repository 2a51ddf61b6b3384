//! RFC 4326, appendices A and B.

use super::*;

/// The header's PUSI bit and the first bytes of the payload of each TS packet.
fn starts(stream: &[u8]) -> Vec<(bool, u8, u16)> {
    cells(stream).iter().map(|cell| (cell[1] & 0x40 != 0, cell[4], be16(cell, 5))).collect()
}

/// PDUs that make SNDUs of these lengths with an address in front, all bytes 0xab.
fn packed(sndu_lens: &[usize]) -> Vec<u8> {
    let pdus: Vec<_> = sndu_lens.iter().map(|len| vec![0xab; len - 14]).collect();
    let stream = encapsulate(Method::Packing, &Repr::new(Type::IPV4).to(NPA), &pdus);
    assert_eq!(receive(&stream).0, pdus);
    stream
}

#[test]
fn a1_two_pdus_of_186_bytes() {
    let stream = packed(&[200, 200]);
    let starts = starts(&stream);
    assert_eq!(starts.len(), 3);
    assert_eq!(starts[0], (true, 0, 0x00c4));
    let second = &cells(&stream)[1];
    assert_eq!((second[4], be16(second, 5 + 17)), (17, 0x00c4));
    assert_eq!((starts[1].0, starts[2].0), (true, false));
    assert_eq!(cells(&stream)[2][4 + 34..], [0xff; 150]);
}

#[test]
fn a2_the_last_byte_of_a_ts_packet() {
    // The RFC prints 0x65 for the last Length; an SNDU of 185 bytes has 185 - 4 = 0xb5.
    let stream = packed(&[183, 182, 181, 185]);
    let all = cells(&stream);
    assert_eq!(starts(&stream)[..3], [(true, 0, 0xb3), (true, 0, 0xb2), (true, 0, 0xb1)]);
    assert_eq!((all.len(), all[1][187], be16(&all[2], 186)), (4, 0xff, 0x00b5));
    assert_eq!((all[3][1] & 0x40, all[3][187]), (0, 0xff));
}

#[test]
fn a3_large_sndus() {
    let stream = packed(&[732, 284]);
    let all = cells(&stream);
    let unit_starts: Vec<_> = starts(&stream).iter().map(|start| start.0).collect();
    assert_eq!(unit_starts, [true, false, false, true, false, false]);
    assert_eq!((be16(&all[0], 5), all[3][4], be16(&all[3], 186)), (0x02d8, 0xb5, 0x0118));
    assert_eq!(all[5][4 + 98..], [0xff; 86]);
}

#[test]
fn a4_the_length_field() {
    let stream = packed(&[200, 60, 60]);
    let second = &cells(&stream)[1];
    assert_eq!((cells(&stream).len(), second[4]), (2, 17));
    assert_eq!([22, 82, 142].map(|at| be16(second, at)), [0x0038, 0x0038, 0xffff]);
}

#[test]
fn a5_three_pdus_of_44_bytes() {
    let stream = encapsulate(Method::Packing, &Repr::new(Type::IPV4), &vec![vec![0xab; 44]; 3]);
    let only = &cells(&stream)[0];
    assert_eq!((stream.len(), only[4]), (188, 0));
    assert_eq!([5, 57, 109, 161].map(|at| be16(only, at)), [0x8030, 0x8030, 0x8030, 0xffff]);
}

#[test]
fn b_a_ping_over_ipv6() {
    let bytes: [u8; 67] = [
        0x00, 0x3f, 0x86, 0xdd, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x60, 0x00, 0x00, 0x00, 0x00,
        0x0d, //
        0x3a, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0x30, 0x08, 0x19, 0x65, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, //
        0x00, 0x01, 0x20, 0x01, 0x0d, 0xb8, 0x25, 0x09, 0x19, 0x62, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, //
        0x00, 0x02, 0x80, 0x00, 0x9d, 0x8c, 0x06, 0x38, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x7c, //
        0x17, 0x17, 0x63,
    ];
    let pdu = &bytes[10..63];
    let read = Sndu::parse(&bytes).unwrap();
    assert_eq!((read.npa, read.payload), (Some(NPA), Payload::Pdu(EtherType::IPV6, pdu)));
    assert_eq!(sndu(&Repr::new(Type::IPV6).to(NPA), pdu), bytes);
    let mut damaged = bytes;
    damaged[20] ^= 4;
    assert_eq!(Sndu::parse(&damaged).unwrap_err(), Error::checksum(Layer::Ule, 63));
}
