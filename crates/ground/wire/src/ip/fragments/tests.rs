use super::*;
use crate::ip::Repr;
use crate::ip::ipv6::ext::OptionsRepr;

/// UDP packet of so many bytes of payload between addresses of a version.
fn packet(is_v4: bool, len: usize) -> Vec<u8> {
    let [src, dst]: [IpAddr; 2] = match is_v4 {
        true => [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
        false => ["fd00::1", "fd00::2"].map(|address| address.parse().unwrap()),
    };
    let repr = Repr::new(src, dst, Protocol::UDP, len);
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes.extend((0..len).map(|n| (n / 8) as u8));
    bytes
}

/// The packet as it is after reassembly: IPv4 has the sender's identification, and may be fragmented.
fn reassembled(mut packet: Vec<u8>, ident: u32) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        put16(&mut packet, 4, ident as u16);
        put16(&mut packet, 6, 0);
        ipv4::Packet::new_unchecked(&mut packet[..]).fill_checksum();
    }
    packet
}

fn add_all(reassembler: &mut Reassembler, parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    parts.iter().filter_map(|part| reassembler.add(part, Time::ZERO)).collect()
}

#[test]
fn a_sender_s_fragments_fit_and_make_the_packet_again_in_any_order() {
    for is_v4 in [true, false] {
        let lens = [(1, 1280, 1), (1232, 1280, 1), (3000, 1280, 3), (9000, 1500, 7), (65_000, 1500, 44)];
        for (len, mtu, count) in lens {
            let whole = packet(is_v4, len);
            let mut parts = split_at_source(&whole, mtu, 0x0001_2345).unwrap();
            assert!(count <= parts.len() && parts.len() <= count + 1, "{len} in {mtu}: {}", parts.len());
            assert!(parts.iter().all(|part| part.len() <= mtu));
            let total = parts.iter().map(|part| part.len() as u64).sum();
            let fits = (1, whole.len() as u64);
            let expected = if whole.len() <= mtu { fits } else { (parts.len() as u64, total) };
            assert_eq!(sizes(is_v4, whole.len() as u64, mtu as u64), expected);
            let is_fragment =
                |part: &Vec<u8>| Packet::new_checked(&part[..]).unwrap().upper().unwrap().is_fragment;
            assert!(parts.iter().all(|part| is_fragment(part) == (parts.len() > 1)));
            parts.reverse();
            let mut reassembler = Reassembler::default();
            let twice: Vec<Vec<u8>> =
                parts[1..].iter().chain(&parts[1..]).chain(&parts[..1]).cloned().collect();
            // What is no fragment is complete with IPv4, whose receivers do not hand it in.
            assert_eq!(
                add_all(&mut reassembler, &twice),
                [reassembled(whole, 0x0001_2345)],
                "{len} in {mtu}"
            );
            assert_eq!((reassembler.dropped(), reassembler.waiting()), (0, 0));
        }
    }
}

#[test]
fn headers_up_to_routing_are_in_each_ipv6_fragment_and_later_ones_in_the_first() {
    let mut whole = packet(false, 2000);
    let hop_by_hop = OptionsRepr { next: Protocol::DESTINATION_OPTIONS, options: &[(5, &[0, 0])] };
    let later = OptionsRepr { next: Protocol::UDP, options: &[] };
    let mut headers = vec![0; hop_by_hop.buffer_len() + later.buffer_len()];
    let (first, second) = headers.split_at_mut(hop_by_hop.buffer_len());
    hop_by_hop.emit(first);
    later.emit(second);
    whole[6] = Protocol::HOP_BY_HOP.0;
    whole.splice(ipv6::HEADER_LEN..ipv6::HEADER_LEN, headers);
    put_payload_len(&mut whole);
    let parts = split_at_source(&whole, 1280, 7).unwrap();
    for part in &parts {
        let order: Vec<Protocol> = ext::Headers::new(Protocol(part[6]), &part[ipv6::HEADER_LEN..])
            .map(|header| header.unwrap().protocol)
            .take(2)
            .collect();
        assert_eq!(order, [Protocol::HOP_BY_HOP, Protocol::FRAGMENT]);
    }
    assert_eq!(add_all(&mut Reassembler::default(), &parts), [whole]);
    assert_eq!(split_at_source(&parts[0], 100, 8), None, "a fragment is not fragmented again");
}

#[test]
fn routers_fragment_neither_ipv6_nor_what_forbids_it() {
    assert_eq!(split(&packet(false, 2000), 1280), None);
    assert_eq!(split(&packet(true, 2000), 1280), None, "don't fragment is set");
    assert_eq!(split_at_source(&packet(true, 2000), 27, 1), None, "no room for eight bytes");
    let again = split_at_source(&packet(true, 2000), 1500, 1).unwrap();
    let parts: Vec<Vec<u8>> = again.iter().flat_map(|part| split(part, 300).unwrap()).collect();
    assert_eq!(add_all(&mut Reassembler::default(), &parts), [reassembled(packet(true, 2000), 1)]);
}

#[test]
fn of_two_fragments_of_one_place_the_first_one_stays() {
    for is_v4 in [true, false] {
        let whole = packet(is_v4, 3000);
        let parts = split_at_source(&whole, 1280, 1).unwrap();
        let mut damaged = parts[1].clone();
        *damaged.last_mut().unwrap() ^= 1;
        let mut reassembler = Reassembler::default();
        let order = [parts[0].clone(), parts[1].clone(), damaged.clone(), parts[2].clone()];
        assert_eq!(add_all(&mut reassembler, &order), [reassembled(whole.clone(), 1)]);
        let order = [parts[0].clone(), damaged, parts[1].clone(), parts[2].clone()];
        let [taken] = &add_all(&mut reassembler, &order)[..] else { panic!("one packet") };
        assert!(*taken != reassembled(whole, 1), "its checksum tells");
        assert_eq!(reassembler.dropped(), 0);
    }
}

#[test]
fn an_atomic_fragment_is_whole_and_disturbs_no_other() {
    let (one, two) = (packet(false, 2000), packet(false, 30));
    let [of_one, of_two] = [&one, &two].map(|whole| split_at_source(whole, 1280, 9).unwrap());
    let mut reassembler = Reassembler::default();
    let order = [of_one[0].clone(), of_two[0].clone(), of_one[1].clone()];
    assert_eq!(add_all(&mut reassembler, &order), [two, one]);
}

#[test]
fn incomplete_packets_end_in_time_overlaps_at_once_and_memory_is_bounded() {
    for (is_v4, timeout) in [(true, TIMEOUT_V4), (false, TIMEOUT_V6)] {
        let mut reassembler = Reassembler::default();
        let parts = split_at_source(&packet(is_v4, 3000), 1280, 1).unwrap();
        assert_eq!(reassembler.add(&parts[0], Time::ZERO), None);
        assert_eq!(reassembler.add(&parts[1], Time::ZERO + timeout), None);
        assert_eq!((reassembler.waiting(), reassembler.dropped()), (2, 0));
        reassembler.expire(Time::ZERO + timeout + Span::from_nanos(1));
        assert_eq!((reassembler.waiting(), reassembler.dropped()), (0, 2));
        let others = split_at_source(&packet(is_v4, 3000), 700, 1).unwrap();
        add_all(&mut reassembler, &[parts[0].clone(), others[1].clone()]);
        assert_eq!((reassembler.waiting(), reassembler.dropped()), (0, 4));
        let many = |ident| split_at_source(&packet(is_v4, 3000), 1280, ident).unwrap().remove(0);
        (0..1000).for_each(|ident| drop(reassembler.add(&many(ident), Time::ZERO)));
        assert_eq!((reassembler.waiting(), reassembler.dropped()), (64, 4 + 1000 - 64));
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_taken(
        pieces in proptest::collection::vec((0_u16..40, proptest::bool::ANY, 0_usize..80, 0_u32..3), 1..40),
        noise in proptest::collection::vec(proptest::num::u8::ANY, 0..120),
        is_v4 in proptest::bool::ANY,
    ) {
        let mut reassembler = Reassembler::default();
        for (offset, more, len, ident) in pieces {
            let mut part = split_at_source(&packet(is_v4, len), 1280, ident).unwrap_or_default();
            let Some(part) = part.first_mut() else { continue };
            let (at, word) = if is_v4 {
                (6, offset | if more { MORE_FRAGMENTS } else { 0 })
            } else {
                (ipv6::HEADER_LEN + 2, offset << 3 | u16::from(more))
            };
            put16(part, at, word);
            let _ = reassembler.add(part, Time::ZERO);
        }
        let mut noise = noise;
        if let Some(first) = noise.first_mut() {
            *first = if is_v4 { 0x45 } else { 0x60 };
        }
        let _ = reassembler.add(&noise, Time::ZERO);
        let _ = split_at_source(&noise, 100, 1);
        proptest::prop_assert!(reassembler.waiting() <= 40);
    }
}
