//! Vectors are of `spacepackets` 0.27 (PyPI).

use proptest::prelude::*;

use super::*;

/// Returns the bytes that hexadecimal digits are.
fn hex(text: &str) -> Vec<u8> {
    let digit = |n: usize| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).expect("two digits");
    (0..text.len() / 2).map(digit).collect()
}

fn common() -> Common {
    Common::new(Transaction { source: 1, number: 7 }, 2)
}

fn metadata(wants_closure: bool, checksum: u8, size: u64, names: [&'static [u8]; 2]) -> Content<'static> {
    let [source, destination] = names;
    Content::Metadata(Metadata { wants_closure, checksum, size, source, destination, options: &[] })
}

#[test]
fn vectors_of_another_implementation_are_written_and_read() {
    let wide = Common { entity_len: 2, number_len: 4, is_acknowledged: false, ..common() };
    let large = Common { has_crc: true, is_large: true, ..common() };
    let end = |condition| Content::EndOfFile { condition, checksum: 0x1122_3344, size: 250 };
    let finished = |condition, is_complete, status| Content::Finished { condition, is_complete, status };
    let vectors = [
        (
            common(),
            metadata(false, 3, 250, [b"a.txt", b"b.txt"]),
            "200012000107020703000000fa05612e74787405622e747874",
        ),
        (wide, metadata(true, 0, 3, [b"x", b"y"]), "24000a13000100000007000207400000000301780179"),
        (common(), Content::Data(100, b"hello"), "300009000107020000006468656c6c6f"),
        (large, Content::Data(5_000_000_000, b"hello"), "33000f00010702000000012a05f20068656c6c6fd1d5"),
        (common(), end(Condition::NoError), "20000a00010702040011223344000000fa"),
        (common(), end(Condition::Cancelled), "20000a0001070204f011223344000000fa"),
        (common(), finished(Condition::NoError, true, FileStatus::Retained), "280002000107020502"),
        (common(), finished(Condition::FileChecksum, false, FileStatus::Discarded), "280002000107020554"),
        (common(), Content::AckEndOfFile(Condition::NoError, Status::Active), "28000300010702064001"),
        (common(), Content::AckFinished(Condition::NoError, Status::Terminated), "20000300010702065102"),
        (
            common(),
            Content::Nak { start: 0, end: 250, requests: vec![(0, 0), (100, 200)] },
            "280019000107020800000000000000fa000000000000000000000064000000c8",
        ),
        (common(), Content::Prompt(true), "200002000107020980"),
        // By the standard's text: that implementation writes the number in the machine's order.
        (common(), Content::KeepAlive(150), "280005000107020c00000096"),
    ];
    for (common, content, text) in vectors {
        let pdu = Pdu { common, content };
        assert_eq!(pdu.to_vec(), hex(text), "{pdu:?}");
        assert_eq!(Pdu::parse(&hex(text)).expect("a PDU"), pdu);
    }
}

#[test]
fn what_is_wrong_is_refused() {
    let malformed = [
        ("00000a00010702040011223344000000fa", "another version"),
        ("20000a00010702040011223344000000", "cut"),
        ("20000a0001070204c011223344000000fa", "a reserved condition"),
        ("28000a00010702040011223344000000fa", "the wrong direction"),
        ("20000200010702ff80", "an undefined directive"),
        ("28000300010702067001", "an acknowledgement of metadata"),
        ("28000300010702050200", "an option that is cut"),
        ("33000f00010702000000012a05f20068656c6c6fd1d4", "a wrong CRC"),
        ("2200010001070209", "no room for the CRC"),
        ("28000c00010702080000000000000005000000", "half a request"),
    ];
    for (text, problem) in malformed {
        assert!(Pdu::parse(&hex(text)).is_err(), "{problem}");
    }
}

#[test]
fn checksums_are_those_of_the_registry() {
    let file = b"123456789";
    assert_eq!(checksum(ChecksumKind::Crc32, file), 0xcbf4_3926);
    assert_eq!(checksum(ChecksumKind::Crc32c, file), 0xe306_9283);
    assert_eq!(checksum(ChecksumKind::Null, file), 0);
    // 0x31323334 + 0x35363738 + 0x39000000.
    assert_eq!(checksum(ChecksumKind::Modular, file), 0x9f68_6a6c);
    assert_eq!(ChecksumKind::from_number(3), Some(ChecksumKind::Crc32));
    assert_eq!(ChecksumKind::from_number(1), None);
}

proptest! {
    #[test]
    fn data_of_any_shape_is_read_as_written(
        numbers in (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>()),
        flags in any::<[bool; 2]>(),
        data in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let (source, number, destination, offset) = numbers;
        let common = Common::new(Transaction { source, number }, destination);
        let common = Common { has_crc: flags[0], is_large: flags[1], ..common };
        let pdu = Pdu { common, content: Content::Data(offset.into(), &data) };
        let bytes = pdu.to_vec();
        prop_assert_eq!(Pdu::parse(&bytes).expect("a PDU"), pdu);
        if flags[0] && !data.is_empty() {
            let mut damaged = bytes.clone();
            let last = damaged.len() - 3;
            damaged[last] ^= 1;
            prop_assert!(Pdu::parse(&damaged).is_err());
        }
    }
}
