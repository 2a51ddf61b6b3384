use proptest::prelude::*;

use super::*;
use crate::crc32::Crc32;
use crate::dvb::ule::Type;

const ARP: Type = Type(0x0806);
const ROHC: Type = Type(0x22f1);
const ALL_TYPES: [Types; 3] = [Types::Suppressed, Types::Compressed, Types::Full];
const BOTH: [Protection; 2] = [Protection::Sequence, Protection::Crc];

fn profile(types: Types, protection: Protection) -> Profile {
    Profile { types, protection }
}

/// A packet of IPv4, by its first four bits.
fn ip(len: usize) -> Vec<u8> {
    (0..len).map(|n| if n == 0 { 0x45 } else { n as u8 }).collect()
}

/// FPDUs of this capacity until all is sent.
fn fpdus(encapsulator: &mut Encapsulator, capacity: usize) -> Vec<Vec<u8>> {
    let mut fpdus = Vec::new();
    while !encapsulator.is_empty() {
        let mut fpdu = Vec::new();
        assert_eq!(encapsulator.fill(capacity, &mut fpdu), fpdu.len());
        assert!(!fpdu.is_empty() && fpdu.len() <= capacity, "no progress");
        fpdus.push(fpdu);
    }
    assert_eq!(encapsulator.waiting_len(), 0);
    fpdus
}

fn encapsulate(profile: Profile, sdus: &[(Type, Vec<u8>)], capacity: usize) -> Vec<Vec<u8>> {
    let mut encapsulator = Encapsulator::new(profile);
    sdus.iter().for_each(|(kind, sdu)| encapsulator.push(*kind, sdu).unwrap());
    fpdus(&mut encapsulator, capacity)
}

fn receive(profile: Profile, fpdus: &[Vec<u8>]) -> (Vec<(Type, Vec<u8>)>, Counts) {
    let (mut receiver, mut sdus) = (Receiver::new(profile), Vec::new());
    fpdus.iter().for_each(|fpdu| receiver.push(fpdu, |sdu| sdus.push((sdu.kind, sdu.bytes.to_vec()))));
    (sdus, *receiver.counts())
}

fn ppdus(fpdu: &[u8]) -> Vec<Ppdu<'_>> {
    let (mut rest, mut ppdus) = (fpdu, Vec::new());
    while let Some((ppdu, len)) = Ppdu::parse(rest).unwrap() {
        ppdus.push(ppdu);
        rest = &rest[len..];
    }
    ppdus
}

/// Bit by bit: S, E, length of 11; then label type of 2 and T, or Fragment-Id of 3; a start has C, total length of 12, label
/// type of 2 and T behind it.
fn bits(fields: &[(u32, u32)]) -> Vec<u8> {
    let (value, len) = fields.iter().fold((0u64, 0), |(value, len), (field, width)| {
        assert!(u64::from(*field) < 1 << width);
        (value << width | u64::from(*field), len + width)
    });
    value.to_be_bytes()[8 - len as usize / 8..].to_vec()
}

#[test]
fn headers_bit_by_bit() {
    let body = [7; 200];
    for (suppressed, label_type) in [(false, 0), (true, 0), (true, 2), (false, 3)] {
        let alpdu = Alpdu { label_type, is_suppressed: suppressed };
        let low = [(label_type.into(), 2), (suppressed.into(), 1)];
        let full = [&[(1, 1), (1, 1), (200, 11)][..], &low].concat();
        same(Ppdu::Full { alpdu, body: &body }, &[&bits(&full)[..], &body].concat());
        for (protection, crc) in [(Protection::Sequence, 0), (Protection::Crc, 1)] {
            let start = [&[(1, 1), (0, 1), (202, 11), (5, 3), (crc, 1), (3210, 12)][..], &low].concat();
            let ppdu = Ppdu::Start { frag_id: 5, protection, total_len: 3210, alpdu, body: &body };
            same(ppdu, &[&bits(&start)[..], &body].concat());
        }
    }
    let low = |end| bits(&[(0, 1), (end, 1), (200, 11), (6, 3)]);
    same(Ppdu::Continuation { frag_id: 6, body: &body }, &[&low(0)[..], &body].concat());
    same(Ppdu::End { frag_id: 6, body: &body }, &[&low(1)[..], &body].concat());
}

fn same(ppdu: Ppdu<'_>, bytes: &[u8]) {
    let mut out = Vec::new();
    ppdu.emit(&mut out);
    assert_eq!((out.as_slice(), ppdu.buffer_len()), (bytes, bytes.len()));
    assert_eq!(Ppdu::parse(bytes), Ok(Some((ppdu, bytes.len()))));
}

#[test]
fn a_packet_whole_in_hexadecimal() {
    let sdu = ip(20);
    for (types, header) in [
        (Types::Suppressed, &[0xc0, 0xa1][..]),
        (Types::Compressed, &[0xc0, 0xa8, 0x0d]),
        (Types::Full, &[0xc0, 0xb0, 0x08, 0x00]),
    ] {
        let fpdus = encapsulate(profile(types, Protection::Sequence), &[(Type::IPV4, sdu.clone())], 100);
        assert_eq!(fpdus, [[header, &sdu].concat()], "{types:?}");
    }
}

#[test]
fn a_packet_over_three_bursts() {
    for (protection, trailer) in [(Protection::Sequence, 1), (Protection::Crc, 4)] {
        let (profile, sdu) = (profile(Types::Suppressed, protection), ip(250));
        let fpdus = encapsulate(profile, &[(Type::IPV4, sdu.clone())], 100);
        let alpdu = Alpdu::traffic(true);
        let total_len = 250 + trailer;
        let start = Ppdu::Start { frag_id: 0, protection, total_len, alpdu, body: &sdu[..96] };
        assert_eq!(ppdus(&fpdus[0]), [start]);
        assert_eq!(ppdus(&fpdus[1]), [Ppdu::Continuation { frag_id: 0, body: &sdu[96..194] }]);
        let crc = Crc32::new().add_bytes(&[0x08, 0x00]).add_bytes(&sdu).register().to_be_bytes();
        let end = [&sdu[194..], if trailer == 1 { &[0] } else { &crc[..] }].concat();
        assert_eq!(ppdus(&fpdus[2]), [Ppdu::End { frag_id: 0, body: &end }]);
        assert_eq!(receive(profile, &fpdus).0, [(Type::IPV4, sdu)]);
    }
}

#[test]
fn sequence_numbers_are_of_each_fragment_id() {
    let sdus: Vec<_> = (0..20).map(|_| (Type::IPV4, ip(150))).collect();
    let fpdus = encapsulate(Profile::default(), &sdus, 100);
    let ends = fpdus.iter().flat_map(|fpdu| ppdus(fpdu)).filter_map(|ppdu| match ppdu {
        Ppdu::End { frag_id, body } => Some((frag_id, *body.last().unwrap())),
        _ => None,
    });
    let expected: Vec<_> = (0..20).map(|n| (n % 8, n / 8)).collect();
    assert_eq!(ends.take(8).collect::<Vec<_>>(), expected[..8]);
    assert_eq!(receive(Profile::default(), &fpdus).0, sdus);
}

#[test]
fn protocol_types_that_have_no_short_form_are_written_out() {
    for (kind, header) in [(ARP, &[0x0e][..]), (ROHC, &[0x10]), (Type(0x88cc), &[0xff, 0x88, 0xcc])] {
        let profile = Profile::default();
        let fpdus = encapsulate(profile, &[(kind, vec![7; 30])], 100);
        let body = [header, &[7; 30]].concat();
        assert_eq!(ppdus(&fpdus[0]), [Ppdu::Full { alpdu: Alpdu::traffic(false), body: &body }]);
        assert_eq!(receive(profile, &fpdus).0, [(kind, vec![7; 30])]);
    }
}

#[test]
fn padding_ends_an_fpdu() {
    let mut fpdu = encapsulate(Profile::default(), &[(Type::IPV4, ip(20))], 100).remove(0);
    for padding in 0..5 {
        let (sdus, counts) = receive(Profile::default(), std::slice::from_ref(&fpdu));
        assert_eq!((sdus.len(), counts.length_errors, counts.ppdus), (1, 0, 1), "{padding} bytes");
        fpdu.push(0);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for (types, protection, max) in [
        (Types::Suppressed, Protection::Sequence, 4094),
        (Types::Compressed, Protection::Crc, 4090),
        (Types::Full, Protection::Crc, 4089),
    ] {
        let profile = profile(types, protection);
        let mut encapsulator = Encapsulator::new(profile);
        assert_eq!(encapsulator.push(Type::IPV4, &ip(max + 1)), Err(SduLength { len: max + 1, max }));
        assert_eq!(encapsulator.push(Type::IPV4, &[]), Err(SduLength { len: 0, max }));
        encapsulator.push(Type::IPV4, &ip(max)).unwrap();
        // In one burst, but a PPDU has at most 2049 bytes.
        let fpdus = fpdus(&mut encapsulator, 5000);
        assert_eq!((fpdus.len(), ppdus(&fpdus[0]).len()), (1, 3));
        assert_eq!(receive(profile, &fpdus).0, [(Type::IPV4, ip(max))]);
    }
}

#[test]
fn a_lost_burst_costs_two_packets_and_with_numbers_two_more() {
    for (protection, received, wrong) in [(Protection::Sequence, 36, 2), (Protection::Crc, 38, 0)] {
        let profile = profile(Types::Suppressed, protection);
        let sdus: Vec<_> = (0..40).map(|n| (Type::IPV4, ip(150 + n))).collect();
        let mut fpdus = encapsulate(profile, &sdus, 160);
        // The end of one and the start of another: the next under the same number shows that one is missing.
        let of_two = |fpdu: &Vec<u8>| matches!(ppdus(fpdu)[..], [Ppdu::End { .. }, Ppdu::Start { .. }]);
        let at = 20 + fpdus[20..].iter().position(of_two).unwrap();
        fpdus.remove(at);
        let (got, counts) = receive(profile, &fpdus);
        assert!(got.iter().all(|sdu| sdus.contains(sdu)), "nothing is made up");
        assert_eq!(
            (got.len(), counts.sequence_errors, counts.crc_errors),
            (received, wrong, 0),
            "{counts:?}"
        );
        assert_eq!(counts.abandoned, 1);
        assert!(counts.orphans > 0, "{counts:?}");
    }
}

#[test]
fn fragments_of_two_packets_are_not_joined() {
    for (protection, expected) in [(Protection::Sequence, (1, 0)), (Protection::Crc, (0, 1))] {
        let profile = profile(Types::Suppressed, protection);
        let mut encapsulator = Encapsulator::new(profile);
        let of_packet: Vec<Vec<Vec<u8>>> = (0..17)
            .map(|n| {
                encapsulator.push(Type::IPV4, &[0x45, n].repeat(60)).unwrap();
                fpdus(&mut encapsulator, 100)
            })
            .collect();
        // All have one length, and these three one Fragment-Id.
        let bursts =
            [&of_packet[0][0], &of_packet[0][1], &of_packet[8][0], &of_packet[16][1]].map(Clone::clone);
        let (got, counts) = receive(profile, &bursts);
        assert_eq!((got.len(), counts.sequence_errors, counts.crc_errors), (1, expected.0, expected.1));
    }
}

#[test]
fn what_is_not_traffic_is_counted() {
    let alpdu = |label_type, is_suppressed| Alpdu { label_type, is_suppressed };
    for (ppdu, what) in [
        (Ppdu::Full { alpdu: alpdu(3, false), body: &[1, 2, 3] }, "labels"),
        (Ppdu::Full { alpdu: alpdu(0, true), body: &[0x55, 2, 3] }, "type_errors: 1"),
        (Ppdu::Full { alpdu: alpdu(0, false), body: &[0x77, 2, 3] }, "type_errors: 1"),
        (Ppdu::Full { alpdu: alpdu(0, false), body: &[0x0d] }, "length_errors: 1"),
        (Ppdu::Full { alpdu: alpdu(0, true), body: &[] }, "length_errors: 1"),
        (Ppdu::End { frag_id: 3, body: &[1, 2] }, "orphans: 1"),
    ] {
        let mut bytes = Vec::new();
        ppdu.emit(&mut bytes);
        let (sdus, counts) = receive(Profile::default(), &[bytes]);
        assert!(sdus.is_empty() && format!("{counts:?}").contains(what), "{ppdu:?}: {counts:?}");
    }
}

proptest! {
    #[test]
    fn any_packets_in_any_bursts(
        lens in proptest::collection::vec(1usize..4089, 1..12),
        capacity in 12usize..3000,
        types in 0usize..3,
        crc in any::<bool>(),
    ) {
        let profile = profile(ALL_TYPES[types], BOTH[usize::from(crc)]);
        let kinds = [Type::IPV4, ARP, Type(0x88cc)];
        let sdus: Vec<_> = lens.iter().enumerate().map(|(n, len)| (kinds[n % 3], ip(*len - *len / 1000))).collect();
        let fpdus = encapsulate(profile, &sdus, capacity);
        // All but the last are full but for the few bytes that no fragment fits into.
        for fpdu in fpdus.iter().rev().skip(1) {
            prop_assert!(capacity - fpdu.len() <= 8, "{} of {capacity}", fpdu.len());
        }
        let (got, counts) = receive(profile, &fpdus);
        prop_assert_eq!(&got, &sdus);
        prop_assert_eq!(counts, Counts { fpdus: counts.fpdus, ppdus: counts.ppdus, sdus: counts.sdus, ..Counts::default() });
    }

    #[test]
    fn bursts_lost_at_random_make_nothing_up(
        lens in proptest::collection::vec(20usize..900, 40..80),
        lost in proptest::collection::vec(proptest::bool::weighted(0.2), 200),
    ) {
        let profile = profile(Types::Suppressed, Protection::Crc);
        let sdus: Vec<_> = lens.iter().map(|len| (Type::IPV4, ip(*len))).collect();
        let fpdus = encapsulate(profile, &sdus, 200);
        let kept: Vec<_> =
            fpdus.into_iter().enumerate().filter(|(n, _)| !lost[n % lost.len()]).map(|(_, fpdu)| fpdu).collect();
        let (got, _) = receive(profile, &kept);
        prop_assert!(got.iter().all(|sdu| sdus.contains(sdu)));
    }
}
