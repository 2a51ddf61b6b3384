use proptest::prelude::*;

use super::*;
use crate::dtn::crc::CrcKind;
use crate::dtn::eid::{Eid, Ipn};
use crate::{Error, Kind};

/// Creation at 2026-01-01T00:00:00 UTC.
const CREATED: Timestamp = Timestamp { time: 820_540_800_000, sequence: 0 };

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn parsed(hex: &str) -> Result<Bundle, Error> {
    Bundle::parse(&bytes(hex))
}

fn eid(text: &str) -> Eid {
    text.parse().unwrap()
}

fn primary(source: &str, destination: &str) -> Primary {
    Primary::new(eid(source), eid(destination), CREATED, 3_600_000)
}

fn block(number: u64, content: Content, crc: CrcKind) -> Block {
    Block { crc, ..Block::new(number, content) }
}

/// Bundles made by pyD3TN 0.15.2 and dissected by tshark 4.0.
#[test]
fn worked_bundles() {
    let crc = CrcKind::X25;
    let hops = Content::HopCount(HopCount { limit: 30, count: 0 });
    let hello = Bundle {
        primary: Primary { report_to: eid("ipn:2.1"), ..primary("ipn:2.1", "ipn:1.2") },
        blocks: vec![block(2, hops, crc), block(3, Content::Age(0), crc)],
        payload: Payload { crc, ..Payload::new(b"hello".to_vec()) },
    };
    let measure =
        Bundle { primary: primary("ipn:2.1", "ipn:1.2"), blocks: vec![], payload: Payload::elided(25) };
    let named = Bundle {
        primary: Primary { crc, ..primary("dtn://node2/a", "dtn://node1/b") },
        blocks: vec![],
        payload: Payload { crc: CrcKind::Castagnoli, ..Payload::new(b"hello".to_vec()) },
    };
    let cases = [
        (
            hello,
            "9f 89 07 00 02 8202820102 8202820201 8202820201 82 1b000000bf0c0afc00 00 1a0036ee80 44 31ac7a15
             86 0a 02 00 01 44 82181e00 42 3d78 86 07 03 00 01 41 00 42 37ed 86 01 01 00 01 45 68656c6c6f 42 4bf3 ff",
        ),
        (
            measure,
            "9f 89 07 00 02 8202820102 8202820201 820100 82 1b000000bf0c0afc00 00 1a0036ee80 44 8eb87965
             85 01 01 00 00 58 19 00000000000000000000000000000000000000000000000000 ff",
        ),
        (
            named,
            "9f 89 07 00 01 82 01 69 2f2f6e6f6465312f62 82 01 69 2f2f6e6f6465322f61 820100 82 1b000000bf0c0afc00 00
             1a0036ee80 42 c835 86 01 01 00 02 45 68656c6c6f 44 21c13f2f ff",
        ),
    ];
    for (bundle, hex) in cases {
        assert_eq!(bundle.to_vec(), bytes(hex));
        assert_eq!(bundle.encoded_len(), bytes(hex).len() as u64);
        let again = parsed(hex).unwrap();
        assert_eq!((again.payload.to_vec(), again.check()), (bundle.payload.to_vec(), Ok(())));
    }
}

#[test]
fn three_elements_stay_three() {
    let hex = "9f890700028202830001028202831a000ee868186401820100821b000000bf0c0afc00001a0036ee804431dce4bd8501010000\
        4568656c6c6fff";
    let bundle = parsed(hex).unwrap();
    assert_eq!(bundle.primary.source.to_string(), "ipn:977000.100.1");
    assert_eq!(bundle.to_vec(), bytes(hex));
}

/// Bundles on which implementations disagree, as the standards have it.
#[test]
fn disputed_bundles() {
    let no_crc = "9f88071844008202820301820100820100821b000000b5998c982b011a000493e0850602100045820282020085070401004218\
        3485010101004454455354ff";
    assert_eq!(parsed(no_crc).unwrap().check(), Err(Breach::UnprotectedPrimary));
    assert_eq!(parsed(no_crc).unwrap().check_received(), Ok(()), "as dtn7 sends them");
    let text = "9f88070000820282020282028201018202820100821b000000bb0e20b4ea001a000927c08507020100410086010100016d48656c\
        6c6f2c20576f726c64214254b3ff";
    assert!(matches!(parsed(text).unwrap_err().kind, Kind::Malformed(_)));
    let unknown = "9f88070000820282030182028201018202820100821b000000bb0e20b4ea001a000927c08508020100410086010100014d486\
        56c6c6f2c20576f726c64214254b3ff";
    let bundle = parsed(unknown).unwrap();
    assert_eq!(bundle.blocks[0].content, Content::Other { code: 8, data: [0].into() });
}

fn with_blocks(blocks: Vec<Block>) -> Bundle {
    Bundle { primary: primary("ipn:2.1", "ipn:1.2"), blocks, payload: Payload::new(vec![1; 100]) }
}

#[test]
fn forbidden_structures_are_refused() {
    let age = |number| Block::new(number, Content::Age(1));
    let other = |number| Block::new(number, Content::Other { code: 192, data: [].into() });
    for blocks in [vec![other(2), other(2)], vec![age(2), age(3)], vec![other(1)], vec![other(0)]] {
        assert!(Bundle::parse(&with_blocks(blocks).to_vec()).is_err());
    }
    let mut flags = other(2);
    flags.flags = BlockFlags(0xf8);
    assert!(Bundle::parse(&with_blocks(vec![flags]).to_vec()).is_ok(), "unassigned flags are kept");
    let crowd = (2..67).map(other).collect();
    assert!(Bundle::parse(&with_blocks(crowd).to_vec()).is_err());
}

#[test]
fn breaches_are_found() {
    let check = |change: &dyn Fn(&mut Bundle)| {
        let mut bundle = with_blocks(vec![]);
        change(&mut bundle);
        bundle.check()
    };
    assert_eq!(check(&|bundle| bundle.primary.timestamp.time = 0), Err(Breach::NoAge));
    assert_eq!(check(&|bundle| bundle.primary.source = Eid::None), Err(Breach::AnonymousFlags));
    let report = BundleFlags::REPORT_DELIVERY;
    assert_eq!(
        check(&|bundle| bundle.primary.flags = report.with(BundleFlags::ADMIN)),
        Err(Breach::ReportedRecord)
    );
    let fragment = |total| Some(Fragment { offset: 50, total });
    assert_eq!(check(&|bundle| bundle.primary.fragment = fragment(149)), Err(Breach::FragmentBeyondEnd));
    assert_eq!(check(&|bundle| bundle.primary.fragment = fragment(150)), Ok(()));
    assert_eq!(check(&|bundle| bundle.primary.destination = eid("ipn:!.1")), Err(Breach::LocalEndpoint));
}

#[test]
fn a_damaged_bit_is_found_where_a_crc_covers() {
    let mut bundle = with_blocks(vec![block(2, Content::Age(9), CrcKind::X25)]);
    bundle.payload.crc = CrcKind::Castagnoli;
    let good = bundle.to_vec();
    for bit in 8..8 * (good.len() - 1) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(Bundle::parse(&bad).is_err(), "bit {bit}");
    }
}

fn eids() -> impl Strategy<Value = Eid> {
    prop_oneof![
        Just(Eid::None),
        "[a-z]{1,9}/[a-z~/]{0,9}".prop_map(|text| Eid::Dtn(format!("//{text}").into())),
        (0u32..3, any::<u32>(), any::<u32>(), any::<bool>()).prop_map(
            |(allocator, node, service, has_three)| { Eid::Ipn(Ipn { allocator, node, service, has_three }) }
        ),
    ]
}

fn crcs() -> impl Strategy<Value = CrcKind> {
    (0u64..3).prop_map(|code| CrcKind::from_code(code).unwrap())
}

fn contents() -> impl Strategy<Value = Content> {
    prop_oneof![
        eids().prop_map(Content::PreviousNode),
        any::<u64>().prop_map(Content::Age),
        (1u8.., any::<u64>()).prop_map(|(limit, count)| Content::HopCount(HopCount { limit, count })),
        (13u64.., proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(code, data)| Content::Other { code, data: data.into() }),
    ]
}

fn bundles() -> impl Strategy<Value = Bundle> {
    let primary =
        (any::<u64>(), crcs(), [eids(), eids(), eids()], any::<[u64; 3]>(), any::<Option<(u32, u32)>>());
    let primary = primary.prop_map(
        |(flags, crc, [destination, source, report_to], [time, sequence, lifetime], fragment)| {
            let flags = BundleFlags(flags & !1);
            let fragment =
                fragment.map(|(offset, total)| Fragment { offset: offset.into(), total: total.into() });
            Primary {
                flags,
                crc,
                destination,
                source,
                report_to,
                timestamp: Timestamp { time, sequence },
                lifetime,
                fragment,
            }
        },
    );
    let blocks = proptest::collection::vec((contents(), crcs(), 0u64..300), 0..5);
    let payload = (crcs(), proptest::collection::vec(any::<u8>(), 0..60), 0u64..600, 0u64..9);
    (primary, blocks, payload).prop_map(|(primary, blocks, (crc, bytes, zeros, flags))| {
        let mut bundle = Bundle {
            primary,
            blocks: vec![],
            payload: Payload { flags: BlockFlags(flags), crc, bytes, zeros },
        };
        for (content, crc, flags) in blocks {
            bundle.set(content.clone());
            let block = bundle.block_mut(content.code()).unwrap();
            (block.crc, block.flags) = (crc, BlockFlags(flags));
        }
        bundle
    })
}

proptest! {
    #[test]
    fn bundles_round_trip(bundle in bundles()) {
        let encoded = bundle.to_vec();
        prop_assert_eq!(encoded.len() as u64, bundle.encoded_len());
        let again = Bundle::parse(&encoded).unwrap();
        prop_assert_eq!(again.to_vec(), encoded);
        prop_assert_eq!((again.primary, again.blocks), (bundle.primary, bundle.blocks));
        prop_assert_eq!(again.payload.bytes, bundle.payload.to_vec());
    }

    #[test]
    fn elided_zeros_are_true(bundle in bundles()) {
        let (head, tail) = bundle.to_parts();
        let whole = [head, vec![0; bundle.payload.zeros as usize], tail].concat();
        prop_assert_eq!(bundle.to_vec(), whole);
    }

    #[test]
    fn fragments_reassemble(bundle in bundles(), limit in 200u64..500, twice in 0usize..9) {
        let bundle = Bundle { primary: Primary { fragment: None, ..bundle.primary }, ..bundle };
        let Ok(mut parts) = bundle.clone().fragments(limit) else { return Ok(()) };
        prop_assert!(parts.iter().all(|part| part.encoded_len() <= limit));
        if parts.len() == 1 {
            prop_assert_eq!(&parts[0], &bundle);
            return Ok(());
        }
        prop_assert_eq!(Bundle::reassemble(&parts[1..]), None);
        // A fragment of a fragment, out of order and doubled.
        let last = parts.pop().unwrap();
        let middle = last.payload.len() / 2;
        match last.clone().split(middle) {
            Ok(halves) => parts.extend(halves),
            Err(_) => parts.push(last),
        }
        parts.reverse();
        parts.push(parts[twice % parts.len()].clone());
        let whole = Bundle::reassemble(&parts).unwrap();
        prop_assert_eq!(whole.payload.to_vec(), bundle.payload.to_vec());
        prop_assert_eq!((whole.primary, whole.blocks), (bundle.primary, bundle.blocks));
    }

    #[test]
    fn a_bundle_cut_anywhere_is_a_fragment_up_to_there(bundle in bundles(), cut in 0u64..700, promise in 0u64..700) {
        let bundle = Bundle { primary: Primary { fragment: None, ..bundle.primary }, ..bundle };
        let (encoded, start) = (bundle.to_vec(), bundle.payload_start());
        let cut = cut.min(encoded.len() as u64);
        let part = Bundle::parse_part(&encoded[..cut as usize]);
        let may = bundle.is_divisible() && bundle.check_received().is_ok() && !bundle.payload.is_empty();
        prop_assert_eq!(part.is_some(), may && cut > start);
        let Some(part) = part else { return Ok(()) };
        prop_assert_eq!(Bundle::parse(&part.to_vec()), Ok(part.clone()));
        let arrived = (cut - start).min(bundle.payload.len());
        prop_assert_eq!(part.payload.len(), arrived);
        // The sender starts at what was acknowledged, which is not more than what arrived.
        let known = promise.min(arrived).min(bundle.payload.len() - 1);
        let parts = match bundle.clone().split(known) {
            Ok([_, rest]) => [part, rest],
            Err(_) => [part, bundle.clone()],
        };
        if known > 0 {
            let whole = Bundle::reassemble(&parts).expect("no gap");
            prop_assert_eq!(whole.to_vec(), encoded);
        }
    }
}

#[test]
fn bundles_that_must_stay_whole_have_no_part() {
    let mut bundle = with_blocks(vec![]);
    bundle.payload = Payload::new(vec![7; 5000]);
    let part = |bundle: &Bundle| Bundle::parse_part(&bundle.to_vec()[..2000]);
    let found = part(&bundle).expect("a part");
    assert_eq!(found.primary.fragment, Some(Fragment { offset: 0, total: 5000 }));
    // A part of a fragment is a fragment of the same bundle.
    let [_, rest] = bundle.clone().split(1000).expect("a fragment");
    let part_of_rest = part(&rest).expect("a part");
    assert_eq!(part_of_rest.primary.fragment, Some(Fragment { offset: 1000, total: 5000 }));
    let mut whole = bundle.clone();
    whole.primary.flags = BundleFlags(whole.primary.flags.0 | BundleFlags::WHOLE.0);
    assert_eq!(part(&whole), None, "the bundle forbids it");
    // Whatever the target: a signature of the payload fails over a part of it, and RFC 9172 forbids fragments of others too.
    for content in [Content::Integrity([0x80].into()), Content::Confidentiality([0x80].into())] {
        let mut secured = bundle.clone();
        secured.set(content);
        assert_eq!(part(&secured), None);
    }
    let mut damaged = bundle.to_vec();
    damaged[20] ^= 1;
    assert_eq!(Bundle::parse_part(&damaged[..2000]), None, "the CRC of the primary block");
    let mut beyond = rest;
    beyond.primary.fragment = Some(Fragment { offset: 1001, total: 5000 });
    assert_eq!(part(&beyond), None, "a fragment beyond the end, although its part is not");
}

/// Returns the encoding of a bundle with a block that is replaced by other bytes.
fn with_data(bundle: &Bundle, code: u64, data: &[u8]) -> Vec<u8> {
    let mut changed = bundle.clone();
    let place = changed.blocks.iter_mut().find(|block| block.content.code() == code).expect("a block");
    // The type of the block with any data: written as such, and read as its type.
    place.content = Content::Other { code, data: data.into() };
    changed.to_vec()
}

#[test]
fn what_is_left_of_a_malformed_bundle_names_it() {
    let hops = Content::HopCount(HopCount { limit: 30, count: 0 });
    let whole = Bundle {
        primary: primary("ipn:2.1", "ipn:1.2"),
        blocks: vec![
            block(2, hops, CrcKind::Castagnoli),
            block(3, Content::Age(0), CrcKind::X25),
            block(4, Content::PreviousNode(eid("ipn:7.0")), CrcKind::None),
        ],
        payload: Payload { crc: CrcKind::X25, ..Payload::new(b"hello".to_vec()) },
    };
    assert_eq!(Bundle::receive(&whole.to_vec()), Ok(whole.clone()));
    let malformed = [
        with_data(&whole, code::HOP_COUNT, b"\xff\xff"),
        with_data(&whole, code::HOP_COUNT, b"\x82\x00\x00"),
        with_data(&whole, code::AGE, b"\x61a"),
        with_data(&whole, code::PREVIOUS_NODE, b"\x01"),
    ];
    for bytes in &malformed {
        let found = Bundle::receive(bytes).unwrap_err();
        assert_eq!((found.primary.as_deref(), found.len), (Some(&whole.primary), 5), "{}", found.flaw);
        // Another bundle after it is found.
        let both = [&bytes[..], &whole.to_vec()].concat();
        let (first, len) = Bundle::receive_first(&both);
        assert!(first.is_err() && len == bytes.len());
    }
    // A wrong CRC of the payload block leaves the primary block as it is, and one of the primary block nothing.
    let mut bytes = whole.to_vec();
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    assert_eq!(Bundle::receive(&bytes).unwrap_err().primary.as_deref(), Some(&whole.primary));
    let mut bytes = whole.to_vec();
    // The flags, so that the structure stays as it is.
    bytes[3] ^= 4;
    let found = Bundle::receive(&bytes).unwrap_err();
    assert_eq!((found.primary, found.len), (None, 5));
    // Without a structure nothing but the primary block is there.
    let cut = &whole.to_vec()[..whole.to_vec().len() - 8];
    let found = Bundle::receive(cut).unwrap_err();
    assert_eq!((found.primary.as_deref(), found.len), (Some(&whole.primary), 0));
    let longer = [whole.to_vec(), vec![0]].concat();
    assert!(Bundle::receive(&longer).is_err() && Bundle::receive(&[]).is_err());
}

#[test]
fn blocks_of_records_and_nameless_bundles_ask_for_no_reports() {
    let check = |edit: &dyn Fn(&mut Bundle)| {
        let blocks = vec![block(2, Content::Other { code: 200, data: [1].into() }, CrcKind::None)];
        let mut bundle =
            Bundle { primary: primary("ipn:2.1", "ipn:1.2"), blocks, payload: Payload::new(vec![1]) };
        edit(&mut bundle);
        bundle.check_received()
    };
    let ask = |bundle: &mut Bundle| bundle.blocks[0].flags = BlockFlags::REPORT;
    assert_eq!(check(&ask), Ok(()));
    let nameless = |bundle: &mut Bundle| {
        bundle.primary.source = Eid::None;
        bundle.primary.flags = BundleFlags::WHOLE;
    };
    assert_eq!(check(&nameless), Ok(()));
    let both = |bundle: &mut Bundle| {
        nameless(bundle);
        ask(bundle);
    };
    assert_eq!(check(&both), Err(Breach::ReportedBlock));
    let record = |bundle: &mut Bundle| {
        bundle.primary.flags = BundleFlags::ADMIN;
        bundle.payload.flags = BlockFlags::REPORT;
    };
    assert_eq!(check(&record), Err(Breach::ReportedBlock), "the payload block too");
}
