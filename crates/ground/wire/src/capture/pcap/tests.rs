use proptest::prelude::*;

use super::*;
use crate::Kind;

/// Stamp, link type, original length, bytes.
type Read = (Option<u64>, LinkType, usize, Vec<u8>);

fn records(file: &[u8]) -> Result<Vec<Read>, ReadError> {
    let mut reader = Reader::new(file)?;
    let mut out = Vec::new();
    while let Some(record) = reader.next_record()? {
        out.push((record.time_ns, record.link_type, record.original_len, record.bytes.to_vec()));
    }
    Ok(out)
}

fn kind(file: &[u8]) -> (usize, Kind) {
    match records(file) {
        Err(ReadError::Format(error)) => (error.offset, error.kind),
        other => panic!("{other:?}"),
    }
}

fn words(order: Order, words: &[u32]) -> Vec<u8> {
    let bytes = |word: &u32| match order {
        Order::Big => word.to_be_bytes(),
        Order::Little => word.to_le_bytes(),
    };
    words.iter().flat_map(bytes).collect()
}

#[test]
fn both_stamps_in_both_orders() {
    for (order, magic, time_ns) in [
        (Order::Little, 0xa1b2_c3d4, 3_000_005_000),
        (Order::Big, 0xa1b2_c3d4, 3_000_005_000),
        (Order::Little, 0xa1b2_3c4d, 3_000_000_005),
        (Order::Big, 0xa1b2_3c4d, 3_000_000_005),
    ] {
        let version = if order == Order::Little { 0x0004_0002 } else { 0x0002_0004 };
        let mut file = words(order, &[magic, version, 0, 0, 65535, 1, 3, 5, 2, 60]);
        file.extend([7, 8]);
        let expected = (Some(time_ns), LinkType::ETHERNET, 60, vec![7, 8]);
        assert_eq!(records(&file).unwrap(), [expected], "{order:?} {magic:#x}");
    }
}

#[test]
fn records_of_the_modified_format_are_longer() {
    for order in [Order::Little, Order::Big] {
        let version = if order == Order::Little { 0x0004_0002 } else { 0x0002_0004 };
        // Behind each header: interface, protocol, packet type.
        let mut file = words(order, &[0xa1b2_cd34, version, 0, 0, 65535, 1, 3, 5, 2, 60, 4, 0x0800]);
        file.extend([7, 8]);
        file.extend(words(order, &[4, 6, 4, 4, 4, 0x0800, 0x0102_0304]));
        let first = (Some(3_000_005_000), LinkType::ETHERNET, 60, vec![7, 8]);
        let found = records(&file).unwrap();
        assert_eq!((found.len(), &found[0]), (2, &first), "{order:?}");
        assert_eq!(found[1].0, Some(4_000_006_000), "{order:?}");
        assert!(is_capture(*file.first_chunk().unwrap()));
    }
}

#[test]
fn elided_bytes_are_written_as_zeros_and_a_snapshot_cuts_them() {
    let mut writer = Writer::new(Vec::new(), LinkType::RAW).unwrap();
    writer.write(1, &[1, 2], 5000).unwrap();
    let whole = records(&writer.into_inner()).unwrap();
    assert_eq!((whole[0].2, &whole[0].3[..4], whole[0].3.len()), (5002, &[1, 2, 0, 0][..], 5002));
    let mut writer = Writer::with_snap_len(Vec::new(), LinkType::RAW, 3).unwrap();
    writer.write(1, &[1, 2], 5000).unwrap();
    writer.write(2, &[1, 2, 3, 4], 0).unwrap();
    let cut = records(&writer.into_inner()).unwrap();
    assert_eq!(cut[0], (Some(1), LinkType::RAW, 5002, vec![1, 2, 0]));
    assert_eq!(cut[1], (Some(2), LinkType::RAW, 4, vec![1, 2, 3]));
}

#[test]
fn what_has_no_room_in_a_record_is_refused() {
    let mut writer = Writer::new(Vec::new(), LinkType::RAW).unwrap();
    let error = writer.write(u64::MAX, &[], 0).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn errors_name_the_place_in_the_file() {
    assert_eq!(kind(&[1, 2, 3, 4]).0, 0);
    let mut file = words(Order::Big, &[0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, 1, 0, 0, 4, 4, 0]);
    file.extend(words(Order::Big, &[0, 0, 9, 9, 0]));
    assert_eq!(kind(&file), (60, Kind::Truncated { needed: 9, have: 4 }));
    let file = words(Order::Big, &[0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, 1, 0, 0, 0xffff_ffff, 4]);
    assert_eq!(kind(&file), (32, Kind::Unsupported("record over 262144 bytes")));
}

#[test]
fn after_an_error_there_is_nothing_more() {
    let file = words(Order::Big, &[0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, 1, 0, 0, 9, 9, 0]);
    let mut reader = Reader::new(&file[..]).unwrap();
    assert!(reader.next_record().is_err());
    assert!(reader.next_record().unwrap().is_none());
}

fn section(order: Order) -> Vec<u8> {
    let version = if order == Order::Little { 0x0000_0001 } else { 0x0001_0000 };
    words(order, &[ng::SECTION, 28, 0x1a2b_3c4d, version, u32::MAX, u32::MAX, 28])
}

/// Link type and reserved half as one word.
fn interface(order: Order, link_type: u32, options: &[u32]) -> Vec<u8> {
    let len = 20 + 4 * options.len() as u32;
    let link = if order == Order::Little { link_type } else { link_type << 16 };
    words(order, &[&[1, len, link, 0], options, &[len]].concat())
}

fn enhanced(order: Order, interface: u32, stamp: u64, word: u32) -> Vec<u8> {
    words(order, &[6, 36, interface, (stamp >> 32) as u32, stamp as u32, 4, 9, word, 36])
}

#[test]
fn interfaces_of_sections_have_numbers_of_their_own_unless_their_names_agree() {
    let order = Order::Little;
    let named = |name: &[u8; 4]| [0x0004_0002, u32::from_le_bytes(*name), 0];
    let sections: [&[Vec<u8>]; 3] = [
        &[
            interface(order, 1, &named(b"eth0")),
            interface(order, 101, &[]),
            interface(order, 1, &named(b"eth0")),
        ],
        &[
            interface(order, 101, &[]),
            interface(order, 1, &named(b"eth0")),
            interface(order, 1, &named(b"eth1")),
        ],
        &[
            interface(order, 12, &named(b"eth0")),
            interface(order, 1, &named(b"eth1")),
            interface(order, 1, &[]),
        ],
    ];
    let mut file = Vec::new();
    for interfaces in sections {
        file.extend(section(order));
        file.extend(interfaces.concat());
        (0..3).for_each(|n| file.extend(enhanced(order, n, 5, 1)));
    }
    let mut reader = Reader::new(&file[..]).expect("pcapng");
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().expect("whole") {
        found.push((record.interface, record.interface_name.map(str::to_owned)));
    }
    let eth = |n: u32| Some(format!("eth{n}"));
    let right = [
        [(0, eth(0)), (1, None), (2, eth(0))],
        [(3, None), (0, eth(0)), (4, eth(1))],
        [(5, eth(0)), (4, eth(1)), (6, None)],
    ];
    assert_eq!(found, right.concat());
}

#[test]
fn pcapng_of_two_sections_and_orders() {
    let (little, big) = (Order::Little, Order::Big);
    let nanoseconds = [0x0001_0009, 9, 0];
    let mut file = section(little);
    file.extend(interface(little, 1, &[]));
    file.extend(interface(little, 101, &nanoseconds));
    file.extend(words(little, &[5, 16, 0xdead_beef, 16])); // interface statistics: skipped
    file.extend(enhanced(little, 1, 1_000_000_007, 1));
    file.extend(enhanced(little, 0, 2_000_003, 1));
    file.extend(section(big));
    file.extend(interface(big, 12, &[]));
    file.extend(enhanced(big, 0, 5, 0x0102_0304));
    file.extend(words(big, &[3, 20, 4, 0x0506_0708, 20])); // simple packet
    let records = records(&file).unwrap();
    let brief: Vec<_> =
        records.iter().map(|(time, link, len, bytes)| (*time, *link, *len, bytes[0])).collect();
    assert_eq!(
        brief,
        [
            (Some(1_000_000_007), LinkType::RAW, 9, 1),
            (Some(2_000_003_000), LinkType::ETHERNET, 9, 1),
            (Some(5_000), LinkType::RAW, 9, 1),
            (None, LinkType::RAW, 4, 5),
        ]
    );
}

#[test]
fn pcapng_stamps_in_powers_of_two_and_with_an_offset() {
    let order = Order::Big;
    let mut file = section(order);
    let options = [0x0009_0001, 0x9400_0000, 0x000e_0008, 0, 10, 0]; // 2^-20 s, 10 s later
    file.extend(interface(order, 1, &options));
    file.extend(enhanced(order, 0, 3 << 19, 1));
    assert_eq!(records(&file).unwrap()[0].0, Some(11_500_000_000));
}

#[test]
fn impossible_pcapng_is_refused() {
    let order = Order::Big;
    let with = |block: Vec<u8>| kind(&[section(order), block].concat());
    assert_eq!(with(enhanced(order, 0, 0, 0)), (36, Kind::Malformed("packet of an interface not described")));
    assert_eq!(with(words(order, &[6, 8, 8])), (32, Kind::Malformed("block length")));
    assert_eq!(with(words(order, &[6, 0xffff_fffc, 8])), (32, Kind::Unsupported("block too long")));
    assert_eq!(with(words(order, &[9, 0xffff_fffc, 8])).1, Kind::Truncated { needed: 0xffff_fff0, have: 4 });
    assert_eq!(with(interface(order, 1, &[0x0009_0001, 0x7f00_0000])).1, Kind::Malformed("interface option"));
    let lie = words(order, &[6, 36, 0, 0, 0, 5, 9, 0, 36]);
    assert_eq!(with([interface(order, 1, &[]), lie].concat()).1, Kind::Malformed("captured length"));
}

#[test]
fn blocks_with_two_lengths_are_passed_over() {
    for order in [Order::Little, Order::Big] {
        let packet = |n: u32| enhanced(order, 0, 5, n);
        let head = || [section(order), interface(order, 1, &[])].concat();
        let read = |damaged: Vec<u8>| {
            let file = [head(), packet(1), damaged, packet(3), packet(4)].concat();
            let mut reader = Reader::new(&file[..]).unwrap();
            let mut found = Vec::new();
            while let Some(record) = reader.next_record().unwrap() {
                found.push(order.u32(record.bytes, 0));
            }
            (found, reader.damaged().map(|damaged| (damaged.blocks, damaged.first)))
        };
        let first = Some((1, head().len() as u64 + 36));
        let changed = |at: usize, value: u32| {
            let mut block = packet(2);
            block[at..at + 4].copy_from_slice(&order.bytes32(value));
            block
        };
        assert_eq!(read(packet(2)), (vec![1, 2, 3, 4], None));
        // The length after the block, and the one before it: too short, too long, and longer than the file.
        for (at, len) in [(32, 40), (32, 0), (4, 32), (4, 40), (4, 72), (4, 76), (4, 10_000)] {
            assert_eq!(read(changed(at, len)), (vec![1, 3, 4], first), "{at} {len}");
        }
        let mut other = words(order, &[0x8000_0001, 16, 7, 20]);
        assert_eq!(read(other.clone()), (vec![1, 3, 4], first));
        other[12..].copy_from_slice(&order.bytes32(16));
        assert_eq!(read(other), (vec![1, 3, 4], None));
        // A packet of an interface needs its description.
        let mut file = [head(), packet(1)].concat();
        let at = file.len() - 36 - 4;
        file[at] ^= 0x40;
        let mut reader = Reader::new(&file[..]).unwrap();
        assert!(reader.next_record().unwrap().is_some());
        assert_eq!(reader.damaged().map(|damaged| damaged.blocks), Some(1));
        // What a cut leaves of the last block is a cut.
        let file = [head(), packet(1), packet(2)].concat();
        assert!(matches!(kind(&file[..file.len() - 8]).1, Kind::Truncated { .. }));
    }
}

#[test]
fn interfaces_are_bounded() {
    let order = Order::Little;
    let mut file = section(order);
    file.extend(interface(order, 1, &[]).repeat(MAX_INTERFACES + 1));
    assert_eq!(kind(&file).1, Kind::Unsupported("more than 1024 interfaces"));
}

#[test]
fn microseconds_are_written_as_most_programs_do() {
    let mut writer = Writer::with_micros(Vec::new(), LinkType::USER0).unwrap();
    writer.write_kept(3_000_004_999, &[7, 8], 9).unwrap();
    let file = writer.into_inner();
    let expected = words(Order::Little, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 147, 3, 4, 2, 9]);
    assert_eq!(file, [expected, vec![7, 8]].concat());
    assert_eq!(records(&file).unwrap(), [(Some(3_000_004_000), LinkType::USER0, 9, vec![7, 8])]);
}

#[test]
fn pcapng_is_written_as_it_is_read() {
    let mut writer = NgWriter::new(Vec::new()).unwrap();
    let record = |link_type, interface_name: Option<&'static str>, bytes: &'static [u8]| Record {
        time_ns: Some(1_700_000_000_123_456_789),
        interface: u32::from(interface_name.is_none()),
        interface_name,
        link_type,
        original_len: 99,
        bytes,
        options: Options::default(),
    };
    let all = [
        (record(LinkType::ETHERNET, Some("eth0"), &[1, 2, 3]), "of ARP"),
        (record(LinkType::RAW, None, &[0x45]), ""),
        (record(LinkType::ETHERNET, Some("eth0"), &[]), "cut"),
    ];
    all.iter().for_each(|(record, comment)| writer.write(record, comment).unwrap());
    let file = writer.into_inner();
    let mut reader = Reader::new(&file[..]).unwrap();
    for (record, comment) in all {
        let read = reader.next_record().unwrap().unwrap();
        let comments: Vec<_> = read.options.iter().collect();
        assert_eq!(Record { options: Options::default(), ..read }, record);
        let expected = (!comment.is_empty()).then_some((ng::OPTION_COMMENT, comment.as_bytes()));
        assert_eq!(comments, expected.into_iter().collect::<Vec<_>>());
    }
    assert!(reader.next_record().unwrap().is_none());
    assert!(file.windows(6).any(|part| part == b"of ARP"));
}

#[test]
fn options_of_packets_are_kept_in_either_order() {
    for order in [Order::Little, Order::Big] {
        let word = |code: u32, len: u32| {
            if order == Order::Little { len << 16 | code } else { code << 16 | len }
        };
        let options = [word(2, 4), 0x0102_0304, word(1, 2), u32::from_be_bytes(*b"hi\0\0"), 0];
        let mut file = section(order);
        file.extend(interface(order, 1, &[]));
        let text = if order == Order::Little { u32::from_le_bytes(*b"hi\0\0") } else { options[3] };
        let body = [0, 0, 5, 4, 4, 0x0a0b_0c0d, options[0], options[1], options[2], text, options[4]];
        let len = 12 + 4 * body.len() as u32;
        file.extend(words(order, &[&[6, len][..], &body, &[len]].concat()));
        let mut reader = Reader::new(&file[..]).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        let mut writer = NgWriter::new(Vec::new()).unwrap();
        writer.write(&record, "why").unwrap();
        let file = writer.into_inner();
        let mut reader = Reader::new(&file[..]).unwrap();
        let read = reader.next_record().unwrap().unwrap();
        let found: Vec<_> = read.options.iter().collect();
        let expected: [(u16, &[u8]); 3] = [(1, b"why"), (2, &[4, 3, 2, 1]), (1, b"hi")];
        assert_eq!((found, read.bytes.len()), (expected.to_vec(), 4), "{order:?}");
    }
}

/// ERF record of a type at a second, of the link and its length there.
fn erf(kind: u8, second: u32, interface: u8, content: &[u8], wire_len: u16) -> Vec<u8> {
    let len = (16 + content.len()).next_multiple_of(8);
    let mut record =
        [&(1_u32 << 31).to_le_bytes()[..], &second.to_le_bytes(), &[kind, 4 | interface]].concat();
    record.extend([&(len as u16).to_be_bytes()[..], &[0, 0], &wire_len.to_be_bytes(), content].concat());
    record.resize(len, 0);
    record
}

#[test]
fn erf_files_are_known_by_their_records() {
    let second = 1_700_000_000;
    let ip = [0x45, 0, 0, 20, 1, 2];
    let ethernet = [&[0, 0][..], &[2; 12], &[8, 0], &ip].concat();
    let hdlc = [&[0x0f, 0, 8, 0][..], &ip].concat();
    let file = [
        erf(22, second, 0, &ip, 20),
        erf(48, second, 0, &[], 0),
        erf(2, second, 1, &ethernet, 34),
        erf(0x80 | 11, second + 1, 2, &[&[3, 0, 0, 0, 0, 0, 0, 0][..], &ethernet].concat(), 34),
        erf(1, second + 1, 3, &hdlc, 24),
        erf(21, second + 2, 0, &[9; 8], 8),
    ]
    .concat();
    let mut reader = Reader::new(&file[..]).expect("a capture");
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().expect("whole") {
        let network = crate::link::network(record.link_type, record.bytes);
        let offset = network.map_or(0, |network| network.offset);
        found.push((
            record.time_ns.unwrap_or(0) / 500_000_000,
            record.interface,
            record.original_len,
            offset,
        ));
    }
    let at = |seconds: u64| 2 * (u64::from(second) + seconds) + 1;
    let right =
        [(at(0), 0, 36, 16), (at(0), 1, 52, 32), (at(1), 2, 60, 40), (at(1), 3, 40, 20), (at(2), 0, 24, 0)];
    assert_eq!(found, right);
    assert!(matches!(kind(&file[..file.len() - 4]).1, Kind::Truncated { .. }));
    // Neither a transport stream nor text.
    for other in [[0x47, 0x1f, 0xff, 0x10].repeat(470), b"time,loss\n0.1,0\n0.2,1\n".repeat(9), vec![0; 400]]
    {
        assert_eq!(kind(&other), (0, Kind::Unsupported("not a capture file")));
    }
}

#[test]
fn snoop_is_read() {
    let mut file = b"snoop\0\0\0".to_vec();
    file.extend(words(Order::Big, &[2, 4, 60, 3, 28, 0, 7, 5, 0x0102_0300, 2, 2, 28, 0, 8, 0, 0x0900_0000]));
    let ethernet = LinkType::ETHERNET;
    let expected =
        [(Some(7_000_005_000), ethernet, 60, vec![1, 2, 3]), (Some(8_000_000_000), ethernet, 2, vec![9, 0])];
    assert_eq!(records(&file).unwrap(), expected);
    assert!(matches!(kind(&file[..50]).1, Kind::Truncated { .. }));
    file[15] = 8;
    assert_eq!(kind(&file).1, Kind::Unsupported("snoop datalink type other than Ethernet"));
    file[8..12].fill(0);
    assert_eq!(kind(&file).1, Kind::Unsupported("snoop version other than 2"));
    let short = [&b"snoop\0\0\0"[..], &words(Order::Big, &[2, 4, 9, 9, 20, 0, 7, 5])].concat();
    assert_eq!(kind(&short).1, Kind::Malformed("record length"));
}

proptest! {
    #[test]
    fn round_trip(packets in proptest::collection::vec((0u64..4_000_000_000_000_000_000, proptest::collection::vec(any::<u8>(), 0..50), 0usize..100), 0..10)) {
        let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
        for (time_ns, bytes, elided) in &packets {
            writer.write(*time_ns, bytes, *elided).unwrap();
        }
        let file = writer.into_inner();
        let expected: usize = 24 + packets.iter().map(|(_, bytes, elided)| 16 + bytes.len() + elided).sum::<usize>();
        prop_assert_eq!(file.len(), expected);
        for (record, (time_ns, bytes, elided)) in records(&file).unwrap().into_iter().zip(&packets) {
            prop_assert_eq!(record.0, Some(*time_ns));
            prop_assert_eq!(&record.3[..bytes.len()], &bytes[..]);
            prop_assert_eq!(record.2, bytes.len() + elided);
        }
    }

    #[test]
    fn never_panics(body in proptest::collection::vec(prop_oneof![0u32..8, Just(28), any::<u32>()], 0..60), which in 0usize..3) {
        let order = Order::Little;
        let head = match which {
            0 => words(order, &[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]),
            1 => section(order),
            _ => [section(order), interface(order, 1, &[])].concat(),
        };
        let _ = records(&[head, words(order, &body)].concat());
    }
}
