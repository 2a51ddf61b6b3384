use proptest::prelude::*;

use super::*;

const PID: Pid = Pid::PAT;

/// A private section of `len` bytes in all.
fn section(len: usize) -> Vec<u8> {
    let length = (len - HEADER_LEN) as u16;
    let [high, low] = length.to_be_bytes();
    let mut bytes = vec![0x80, 0x70 | high, low];
    bytes.resize(len, len as u8);
    bytes
}

fn encapsulate(method: Method, lens: &[usize]) -> Vec<u8> {
    let (mut encapsulator, mut stream) = (Encapsulator::new(PID, method), Vec::new());
    lens.iter().for_each(|&len| encapsulator.push(&section(len), &mut stream));
    encapsulator.flush(&mut stream);
    stream
}

fn receive(stream: &[u8]) -> (Vec<usize>, Counts) {
    let (mut receiver, mut lens) = (Receiver::new(PID), Vec::new());
    for packet in stream.as_chunks().0 {
        receiver.push(packet, |bytes| {
            assert_eq!(bytes, section(bytes.len()));
            lens.push(bytes.len());
        });
    }
    (lens, *receiver.counts())
}

#[test]
fn the_pointer_is_where_the_first_new_section_starts() {
    let stream = encapsulate(Method::Packing, &[200, 100, 50, 30]);
    let second = &stream[188..];
    assert_eq!((stream[4], second[1] & 0x40, second[4]), (0, 0x40, 17));
    assert_eq!(receive(&stream).0, [200, 100, 50, 30]);
}

#[test]
fn a_header_may_be_split_over_packets() {
    for room in 1..=3 {
        let lens = [183 - room, 50];
        let stream = encapsulate(Method::Packing, &lens);
        assert_eq!((receive(&stream).0, stream.len()), (lens.to_vec(), 376));
    }
}

#[test]
fn a_lost_packet_costs_the_sections_in_it() {
    let mut stream = encapsulate(Method::Packing, &[400, 400, 400]);
    stream.drain(188..376);
    let (lens, counts) = receive(&stream);
    assert_eq!((lens, counts.continuity_errors), (vec![400, 400], 1));
}

#[test]
fn a_pointer_elsewhere_starts_anew() {
    for (pointer, expected) in [(5, vec![]), (67, vec![200, 50])] {
        let mut stream = encapsulate(Method::Packing, &[200, 50, 50]);
        stream[188 + 4] = pointer;
        let (lens, counts) = receive(&stream);
        assert_eq!((lens, counts.pointer_errors), (expected, 1));
    }
    let mut stream = encapsulate(Method::Padding, &[50]);
    stream[4] = 183;
    assert_eq!(receive(&stream).1.pointer_errors, 1);
}

#[test]
fn too_long_and_unannounced_sections_are_errors() {
    let mut stream = encapsulate(Method::Padding, &[50]);
    (stream[6], stream[7]) = (0x7f, 0xfe);
    assert_eq!(receive(&stream).1.length_errors, 1);
    let mut stream = encapsulate(Method::Padding, &[200]);
    stream[188 + 4 + 17] = 0x80;
    let (lens, counts) = receive(&stream);
    assert_eq!((lens, counts.delimiting_errors), (vec![200], 1));
}

proptest! {
    #[test]
    fn round_trip(lens in proptest::collection::vec(3usize..=MAX_LEN, 1..20), packing: bool) {
        let stream = encapsulate(if packing { Method::Packing } else { Method::Padding }, &lens);
        let (received, counts) = receive(&stream);
        prop_assert_eq!(&received, &lens);
        let section_bytes = lens.iter().sum::<usize>() as u64;
        let packets = (stream.len() / PACKET_LEN) as u64;
        prop_assert_eq!(counts, Counts { packets, sections: lens.len() as u64, section_bytes, ..Counts::default() });
    }

    #[test]
    fn anything_may_come(stream in proptest::collection::vec(any::<[u8; 32]>(), 0..40)) {
        let mut receiver = Receiver::new(PID);
        for (index, start) in stream.iter().enumerate() {
            let mut packet = [start[31]; PACKET_LEN];
            packet[4..36].copy_from_slice(start);
            packet[..4].copy_from_slice(&[0x47, start[30] & 0x40, 0, 0x10 | index as u8 & 0x0f]);
            packet[4] %= 20;
            receiver.push(&packet, |bytes| assert!(bytes.len() <= MAX_LEN));
            prop_assert!(receiver.waiting_len() < MAX_LEN);
        }
    }
}
