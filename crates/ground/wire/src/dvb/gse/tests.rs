use proptest::prelude::*;

use super::*;
use crate::dvb::bbframe;
use crate::dvb::ule::Payload;
use crate::lan::ethernet::EtherType;

const LABEL: Label = Label::Six(MacAddr([0x02, 0x00, 0x48, 0x55, 0x4c, 0x4b]));
const ROUTED: Repr<'_> = Repr::new(Type::IPV4, LABEL);

/// Data fields of these capacities, by turns, until all is sent.
fn fields(encapsulator: &mut Encapsulator, capacities: &[usize]) -> Vec<Vec<u8>> {
    let mut fields = Vec::new();
    for &capacity in capacities.iter().cycle() {
        if encapsulator.is_empty() {
            break;
        }
        let mut field = Vec::new();
        assert_eq!(encapsulator.fill(capacity, &mut field), field.len());
        assert!(field.len() <= capacity);
        fields.push(field);
        assert!(fields.len() < 10_000, "no progress");
    }
    assert_eq!(encapsulator.waiting_len(), 0);
    fields
}

fn encapsulate(repr: &Repr<'_>, pdus: &[Vec<u8>], capacities: &[usize]) -> Vec<Vec<u8>> {
    let mut encapsulator = Encapsulator::new();
    pdus.iter().for_each(|pdu| encapsulator.push(repr, pdu).unwrap());
    fields(&mut encapsulator, capacities)
}

fn receive(fields: &[Vec<u8>]) -> (Vec<Vec<u8>>, Counts) {
    let (mut receiver, mut pdus) = (Receiver::new(Filter::All), Vec::new());
    for field in fields {
        receiver.push(field, |pdu| match pdu.payload {
            Payload::Pdu(_, bytes) => pdus.push(bytes.to_vec()),
            other => panic!("{other:?}"),
        });
    }
    (pdus, *receiver.counts())
}

fn packets(field: &[u8]) -> Vec<Packet<'_>> {
    let (mut rest, mut packets) = (field, Vec::new());
    while let Some((packet, len)) = Packet::parse(rest).unwrap() {
        packets.push(packet);
        rest = &rest[len..];
    }
    packets
}

#[test]
fn headers_that_others_wrote() {
    let complete = [&[0xc0, 0x5c, 0x08, 0x00, 0x02, 0x00, 0x48, 0x55, 0x4c, 0x4b][..], &[7; 84]].concat();
    let (packet, len) = Packet::parse(&complete).unwrap().unwrap();
    assert_eq!(
        (packet, len),
        (Packet::Complete { kind: Type::IPV4, label: Some(LABEL), body: &[7; 84] }, 94)
    );
    let first =
        [&[0x80, 0x5c, 0x17, 0x01, 0x23, 0x08, 0x00, 0x02, 0x00, 0x48, 0x55, 0x4c, 0x4b][..], &[7; 81]]
            .concat();
    let expected =
        Packet::First { frag_id: 0x17, total_len: 291, kind: Type::IPV4, label: Some(LABEL), body: &[7; 81] };
    assert_eq!(packets(&first), [expected]);
    let middle = [&[0x30, 0x5c, 0x17][..], &[8; 91]].concat();
    assert_eq!(packets(&middle), [Packet::Middle { frag_id: 0x17, body: &[8; 91] }]);
    let last = [&[0x70, 0x5c, 0x17][..], &[9; 91]].concat();
    assert_eq!(packets(&last), [Packet::Last { frag_id: 0x17, body: &[9; 87], crc: 0x0909_0909 }]);
    for bytes in [complete, first, middle, last] {
        let mut written = Vec::new();
        packets(&bytes)[0].emit(&mut written);
        assert_eq!(written, bytes);
    }
}

#[test]
fn a_pdu_over_three_frames() {
    let pdu = vec![5; 1000];
    let fields = encapsulate(&ROUTED, std::slice::from_ref(&pdu), &[400]);
    assert_eq!(fields.iter().map(Vec::len).collect::<Vec<_>>(), [400, 400, 3 + 216 + 4]);
    let first =
        Packet::First { frag_id: 0, total_len: 1008, kind: Type::IPV4, label: Some(LABEL), body: &[5; 387] };
    assert_eq!(packets(&fields[0]), [first]);
    assert_eq!(packets(&fields[1]), [Packet::Middle { frag_id: 0, body: &[5; 397] }]);
    assert_eq!(receive(&fields).0, [pdu]);
}

#[test]
fn a_pdu_longer_than_a_packet_in_one_frame() {
    let pdu = vec![5; 6000];
    let fields = encapsulate(&ROUTED, std::slice::from_ref(&pdu), &[7264]);
    assert_eq!((fields.len(), packets(&fields[0]).len()), (1, 2));
    assert_eq!(receive(&fields).0, [pdu]);
}

#[test]
fn labels_are_re_used_within_a_frame() {
    let mut encapsulator = Encapsulator::new().re_using_labels();
    let other = Label::Three([1, 2, 3]);
    for label in [LABEL, LABEL, other, other, Label::Broadcast, LABEL, LABEL] {
        encapsulator.push(&Repr::new(Type::IPV4, label), &[7; 50]).unwrap();
    }
    let fields = fields(&mut encapsulator, &[60 + 54 + 57 + 54 + 54 + 60]);
    let shown = |field: &[u8]| -> Vec<_> {
        packets(field)
            .iter()
            .map(|packet| if let Packet::Complete { label, .. } = packet { *label } else { panic!() })
            .collect()
    };
    assert_eq!(
        shown(&fields[0]),
        [Some(LABEL), None, Some(other), None, Some(Label::Broadcast), Some(LABEL)]
    );
    assert_eq!(shown(&fields[1]), [Some(LABEL)]);
    let (mut receiver, mut labels) = (Receiver::new(Filter::Only(vec![other])), Vec::new());
    fields.iter().for_each(|field| receiver.push(field, |pdu| labels.push(pdu.label)));
    assert_eq!((labels, receiver.counts().others), (vec![other, other, Label::Broadcast], 4));
}

#[test]
fn padding_ends_a_field() {
    let mut field = encapsulate(&ROUTED, &[vec![7; 20]], &[100]).remove(0);
    for padding in 0..5 {
        let (pdus, counts) = receive(std::slice::from_ref(&field));
        assert_eq!((pdus.len(), counts.length_errors, counts.packets), (1, 0, 1), "{padding} bytes");
        field.push(0);
    }
}

#[test]
fn extension_headers_stay_with_the_first_fragment() {
    let stamp = [1, 2, 3, 4];
    let extensions = [ule::Extension::timestamp(&stamp), ule::Extension::padding(8)];
    let repr = Repr { extensions: &extensions, ..Repr::new(Type::ROHC, LABEL) };
    let mut encapsulator = Encapsulator::new();
    encapsulator.push(&ROUTED, &[1; 40]).unwrap();
    encapsulator.push(&repr, &[2; 100]).unwrap();
    // Behind the first packet there is room for a header of 13 bytes and the 14 of the extensions, but for no more.
    let fields = fields(&mut encapsulator, &[50 + 13 + 14, 60]);
    assert_eq!(fields[0].len(), 50);
    let (mut receiver, mut seen) = (Receiver::new(Filter::All), 0);
    for field in &fields {
        receiver.push(field, |pdu| {
            if pdu.payload == Payload::Pdu(EtherType::ROHC, &[2; 100]) {
                assert_eq!(
                    (pdu.extensions.timestamp(), pdu.extensions.into_iter().count()),
                    (Some(0x0102_0304), 2)
                );
                seen += 1;
            }
        });
    }
    assert_eq!((seen, receiver.counts().pdus), (1, 2));
}

#[test]
fn lengths_that_gse_cannot_carry() {
    assert_eq!(ROUTED.check_pdu_len(65_527), Ok(()));
    assert_eq!(ROUTED.check_pdu_len(65_528), Err(PduLength { len: 65_528, max: 65_527 }));
    let pdus = [vec![1; 65_527]];
    assert_eq!(receive(&encapsulate(&ROUTED, &pdus, &[7264])).0, pdus);
}

/// Fragments of one PDU: first, middle, last.
fn three() -> [Vec<u8>; 3] {
    let fields = encapsulate(&ROUTED, &[vec![5; 1000]], &[400]);
    fields.try_into().unwrap()
}

#[test]
fn fragments_that_do_not_fit_together() {
    let [first, middle, last] = three();
    let counts =
        |fields: &[&Vec<u8>]| receive(&fields.iter().map(|&field| field.clone()).collect::<Vec<_>>()).1;
    assert_eq!(counts(&[&middle, &last]).orphans, 2);
    assert_eq!(counts(&[&first, &last]).total_length_errors, 1);
    assert_eq!(counts(&[&first, &middle, &middle]).total_length_errors, 1);
    let again = counts(&[&first, &first, &middle, &last]);
    assert_eq!((again.abandoned, again.pdus), (1, 1));
    let mut wrong = last.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(counts(&[&first, &middle, &wrong]).crc_errors, 1);
    let mut labelled = middle.clone();
    labelled[0] &= 0xcf;
    labelled[0] |= 0x10;
    assert_eq!(counts(&[&first, &labelled]).label_errors, 1);
}

#[test]
fn a_pdu_that_takes_too_long() {
    let [first, middle, last] = three();
    for (empty, expected) in [(253, (1, 0)), (254, (0, 1))] {
        let idle = vec![Vec::new(); empty];
        let fields = [vec![first.clone(), middle.clone()], idle, vec![last.clone()]].concat();
        let (pdus, counts) = receive(&fields);
        assert_eq!((pdus.len(), counts.orphans), expected);
    }
}

#[test]
fn fragments_of_several_pdus_interleaved() {
    let streams: Vec<_> = (0..4u8)
        .map(|number| {
            let mut encapsulator = Encapsulator::new();
            for _ in 0..number {
                // Each stream gets fragment numbers of its own by sending some before.
                encapsulator.push(&ROUTED, &[9; 80]).unwrap();
                assert!(
                    encapsulator.fill(60, &mut Vec::new()) > 0 && encapsulator.fill(60, &mut Vec::new()) > 0
                );
            }
            encapsulator.push(&ROUTED, &vec![number; 500]).unwrap();
            fields(&mut encapsulator, &[200])
        })
        .collect();
    let interleaved: Vec<_> =
        (0..3).flat_map(|index| streams.iter().map(move |stream| stream[index].clone())).collect();
    let (pdus, counts) = receive(&interleaved);
    assert_eq!(pdus, (0..4).map(|number| vec![number; 500]).collect::<Vec<_>>());
    assert_eq!(counts, Counts { frames: 12, packets: 12, pdus: 4, ..Counts::default() });
}

#[test]
fn what_is_no_packet() {
    let count = |field: &[u8]| receive(&[field.to_vec()]).1;
    assert_eq!(count(&[0xc0, 20, 8, 0, 1]).length_errors, 1, "longer than the field");
    assert_eq!(count(&[0xc0, 3, 8, 0, 1]).length_errors, 1, "shorter than its label");
    assert_eq!(count(&[0xf0, 3, 8, 0, 1]).label_errors, 1, "re-use of no label");
    assert_eq!(count(&[0xc0, 9, 8, 0, 0, 0, 0, 0, 0, 0, 1]).label_errors, 1, "a label of zeros");
    assert_eq!(count(&[0x70, 4, 0, 1, 2, 3]).length_errors, 1, "no room for a CRC");
    assert_eq!(count(&[0xe0, 3, 0, 0x81, 1]).type_errors, 1, "an unknown mandatory extension header");
    assert_eq!(count(&[0xe0, 4, 3, 0, 1, 1]).length_errors, 1, "a chain that ends early");
    assert_eq!(count(&[0xe0, 3, 0, 2, 1]).concat_errors, 1, "a part of a TS packet");
    assert_eq!(count(&[0xe0, 3, 0, 0, 1]).tests, 1);
    assert_eq!(count(&[0xa0, 6, 1, 0, 2, 8, 0, 7]).total_length_errors, 1, "a fragment longer than the PDU");
}

fn any_label() -> impl Strategy<Value = Label> {
    prop_oneof![
        any::<[u8; 6]>()
            .prop_filter("zeros", |label| *label != [0; 6])
            .prop_map(|label| Label::Six(MacAddr(label))),
        any::<[u8; 3]>().prop_map(Label::Three),
        Just(Label::Broadcast),
    ]
}

proptest! {
    #[test]
    fn round_trip(
        pdus in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..3000), 1..12), label in any_label(),
        capacities in proptest::collection::vec(20usize..7264, 1..5), re_use: bool, words in 0usize..=4, has_extension: bool,
    ) {
        prop_assume!(!has_extension || capacities.iter().any(|&capacity| capacity > 40));
        let extensions = [ule::Extension::new(7, &[1, 2, 3, 4, 5, 6, 7, 8][..words * 2])];
        let repr = Repr { extensions: if has_extension { &extensions } else { &[] }, ..Repr::new(Type::IPV6, label) };
        let mut encapsulator = if re_use { Encapsulator::new().re_using_labels() } else { Encapsulator::new() };
        for pdu in &pdus {
            let zeros = pdu.iter().rev().take_while(|&&byte| byte == 0).count();
            encapsulator.push_elided(&repr, &pdu[..pdu.len() - zeros], zeros).unwrap();
        }
        let fields = fields(&mut encapsulator, &capacities);
        let (received, counts) = receive(&fields);
        prop_assert_eq!(&received, &pdus);
        let packets = fields.iter().map(|field| packets(field).len() as u64).sum();
        prop_assert_eq!(counts, Counts { frames: fields.len() as u64, packets, pdus: pdus.len() as u64, ..Counts::default() });
        if !has_extension {
            prop_assert_eq!(theirs(&fields), pdus);
        }
    }

    #[test]
    fn anything_may_come(fields in proptest::collection::vec(proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..8, Just(0x80)], 0..60), 0..20)) {
        let mut receiver = Receiver::new(Filter::Only(vec![LABEL]));
        fields.iter().for_each(|field| receiver.push(field, |_| {}));
    }
}

/// What the crate `dvb-gse` makes of data fields.
fn theirs(fields: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut defrag = ::dvb_gse::gsepacket::GSEPacketDefrag::new();
    fields
        .iter()
        .flat_map(|field| {
            let mut frame = vec![0; bbframe::HEADER_LEN];
            bbframe::Repr::gse(field.len()).emit(&mut frame);
            frame.extend(field);
            let pdus: Vec<_> = defrag.defragment(&frame.into()).unwrap().collect();
            pdus.into_iter().map(|pdu| {
                assert_eq!(pdu.protocol_type(), 0x86dd);
                pdu.data().to_vec()
            })
        })
        .collect()
}
