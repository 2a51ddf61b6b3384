use super::*;

#[test]
fn copies_of_a_mirrored_port_are_left_out() {
    let stream = packets(70).concat();
    let pieces = || stream.chunks(1316).zip(0..);
    let twice = |(piece, n): (&[u8], u16)| {
        let (at_us, n) = (u64::from(n) * 7000, n % 4);
        [(at_us, untagged(&identified(n, 64, piece))), (at_us + 10, tagged(5, &identified(n, 63, piece)))]
    };
    let (taken, streams) = taken_at(&pieces().flat_map(twice).collect::<Vec<_>>());
    assert_eq!(taken.packets, [(0..70).collect::<Vec<u8>>()]);
    assert_eq!((streams.account().duplicated(), streams.account().has_damage()), (10, false));
    // Every fragment twice, and nothing is missing.
    let all: Vec<_> = pieces()
        .flat_map(|(piece, n)| {
            fragments::split_at_source(&datagram(piece), 600, n.into()).expect("fragments")
        })
        .zip(0..)
        .flat_map(|(fragment, n)| [(n * 1000, untagged(&fragment)), (n * 1000 + 400, untagged(&fragment))])
        .collect();
    let (fragments, streams) = taken_at(&all);
    assert_eq!(fragments.packets, [(0..70).collect::<Vec<u8>>()]);
    let account = streams.account();
    assert_eq!((account.duplicated(), account.has_damage()), (all.len() as u64 / 2, false), "{account}");
}

/// Packets `late_us` behind one another with `copy` of each, `every_us` apart.
fn mirrored(
    packets: &[Vec<u8>],
    [every_us, late_us]: [u64; 2],
    copy: impl Fn(&[u8]) -> Vec<u8>,
) -> Vec<(u64, Vec<u8>)> {
    let twice = |(packet, n): (&Vec<u8>, u64)| {
        [(n * every_us, untagged(packet)), (n * every_us + late_us, copy(packet))]
    };
    let mut all: Vec<_> = packets.iter().zip(0..).flat_map(twice).collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

#[test]
fn the_stream_decides_whether_a_repeated_content_is_a_copy() {
    // A few packets of a programme among NULL packets, without an identification.
    let null = [0x47, 0x1f, 0xff, 0x10].repeat(47);
    let payload = |n: u16| if n.is_multiple_of(8) { [&[n as u8], &null[1..]].concat() } else { null.clone() };
    let stuffed: Vec<Vec<u8>> = (0..400).map(|n| datagram(&payload(n))).collect();
    let constant = vec![datagram(&[9; 172]); 400];
    let once = |all: &[Vec<u8>], every_us: u64| -> Vec<(u64, Vec<u8>)> {
        all.iter().zip(0..).map(|(packet, n)| (n * every_us, untagged(packet))).collect()
    };
    for every_us in [1, 10, 100, 210, 1000, 5000, 20_000] {
        for packets in [&stuffed, &constant] {
            assert_eq!(distinct(&once(packets, every_us)), [400, 0], "{every_us}");
        }
    }
    // Bursts of five are none of a mirror.
    let burst = |(packet, n): (&Vec<u8>, u64)| (n / 5 * 5000 + n % 5 * 20, untagged(packet));
    assert_eq!(distinct(&stuffed.iter().zip(0..).map(burst).collect::<Vec<_>>()), [400, 0]);
    let hop = |packet: &[u8]| {
        let mut packet = packet.to_vec();
        packet[8] -= 1;
        ipv4::Packet::new_unchecked(&mut packet[..]).fill_checksum();
        untagged(&packet)
    };
    let unfilled = |packet: &[u8]| {
        let mut packet = packet.to_vec();
        packet[26..28].copy_from_slice(&[0x12, 0x34]);
        untagged(&packet)
    };
    for packets in [&stuffed, &constant] {
        for (every_us, late_us) in [(210, 10), (1000, 100), (5000, 700), (20_000, 10), (20_000, 990)] {
            let times = [every_us, late_us];
            assert_eq!(distinct(&mirrored(packets, times, untagged)), [400, 400], "{times:?}");
            assert_eq!(distinct(&mirrored(packets, times, unfilled)), [400, 400], "{times:?}");
            assert_eq!(distinct(&mirrored(packets, times, |packet| tagged(5, packet)))[0], {
                if late_us > 500 { 800 } else { 400 }
            });
        }
        assert_eq!(distinct(&mirrored(packets, [5000, 1500], hop)), [400, 400]);
    }
    // Copies behind a satellite link.
    let numbered: Vec<Vec<u8>> = (0..200_u8).map(|n| datagram(&[&[n][..], &[7; 300]].concat())).collect();
    assert_eq!(distinct(&mirrored(&numbered, [7000, 270_001], hop)), [200, 200]);
    assert_eq!(distinct(&mirrored(&numbered, [7000, 270_001], untagged)), [400, 0]);
}

#[test]
fn packets_that_stay_apart_by_their_identification_have_copies_in_any_number() {
    let packet = |n: u16| identified(n + 1, 64, &[7; 300]);
    let some = |n: u16| {
        let copies = if n.is_multiple_of(3) { 2 } else { 1 };
        (0..copies).map(move |copy| (u64::from(n) * 7000 + copy * 10, untagged(&packet(n))))
    };
    assert_eq!(distinct(&(0..90).flat_map(some).collect::<Vec<_>>()), [90, 30]);
    let thrice = |n: u16| (0..3).map(move |copy| (u64::from(n) * 7000 + copy * 10, untagged(&packet(n))));
    assert_eq!(distinct(&(0..90).flat_map(thrice).collect::<Vec<_>>()), [90, 180]);
    // A sender that does not count repeats itself.
    let constant: Vec<_> = (0..90).map(|n| (n * 10, untagged(&packet(1)))).collect();
    assert_eq!(distinct(&constant), [90, 0]);
}

#[test]
fn a_link_with_the_contents_of_another_is_a_copy_as_a_whole() {
    let null = [0x47, 0x1f, 0xff, 0x10].repeat(47);
    let payload = |n: u32| match n % 3 {
        0 => null.clone(),
        _ => [&n.to_be_bytes(), &null[4..]].concat(),
    };
    let packet = |n: u32| datagram(&payload(n));
    let on_link = |vlan: Option<u16>, n: u32| match vlan {
        Some(vlan) => tagged(vlan, &packet(n)),
        None => untagged(&packet(n)),
    };
    // Arrival on a link `late_us` behind the other one, with a jitter that lets it overtake.
    let late = |n: u32, late_us: u64| u64::from(n) * 2000 + late_us + u64::from(n * 7919 % 40) * 10;
    let both = |first: &dyn Fn(u32) -> bool, second: &dyn Fn(u32) -> bool, late_us: u64| {
        let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
        for n in 0..3000 {
            all.extend(first(n).then(|| (late(n, 0), on_link(None, n))));
            all.extend(second(n).then(|| (late(n + 11, late_us) - 22_000, on_link(Some(7), n))));
        }
        all.sort_by_key(|(at, _)| *at);
        distinct(&all)
    };
    let every = |_: u32| true;
    // Most come within 0.5 ms, or two of three do, or every fourth.
    for late_us in [0, 300, 400] {
        assert_eq!(both(&every, &every, late_us), [3000, 3000], "{late_us}");
    }
    // Later ones are a stream of their own, as a whole.
    for late_us in [700, 3000, 60_000] {
        assert_eq!(both(&every, &every, late_us), [6000, 0], "{late_us}");
    }
    // One link lost a part of them: the other one has them all.
    let lossy = |n: u32| !n.is_multiple_of(10);
    assert_eq!(both(&every, &lossy, 300), [3000, 2700]);
    assert_eq!(both(&lossy, &every, 300), [3000, 2700]);
    // A link that begins earlier, or goes on, has the stream alone meanwhile.
    for [used, copies] in [both(&|n| n >= 1000, &every, 300), both(&|n| n < 2000, &|n| n >= 1000, 300)] {
        let few = used.abs_diff(3000);
        assert!(few <= 6 && used + copies == [5000, 4000][usize::from(copies < 1500)], "{used} {copies}");
    }
    // Different contents on two links are two streams.
    let other = |n: u32| if n.is_multiple_of(2) { untagged(&packet(n)) } else { tagged(7, &packet(n)) };
    let apart: Vec<_> = (0..3000).map(|n| (late(n, 0), other(n))).collect();
    assert_eq!(distinct(&apart), [3000, 0]);
}

#[test]
fn a_chosen_link_is_read_though_others_have_the_same() {
    let packet = |n: u32| datagram(&[&n.to_be_bytes()[..], &[5; 200]].concat());
    let all: Vec<_> = (0..300)
        .flat_map(|n| {
            let at_us = u64::from(n) * 2000;
            [
                (at_us, untagged(&packet(n))),
                (at_us + 90, tagged(7, &packet(n))),
                (at_us + 180, tagged(8, &packet(n))),
            ]
        })
        .collect();
    assert_eq!(distinct(&all), [300, 600]);
    for vlan in [7, 8] {
        let mut packets = Packets::new(Wanted::Distinct, Select { vlan: Some(vlan), ..Select::default() });
        packets.learn(&capture(&all));
        for (at_us, bytes) in &all {
            let (time_ns, link_type) = (Some(at_us * 1000), LinkType::ETHERNET);
            packets.take(&Record { time_ns, link_type, ..record(bytes) }, &mut |_| {});
        }
        assert_eq!((packets.account().used.records, packets.account().duplicated()), (300, 0), "{vlan}");
    }
}

#[test]
fn some_copies_of_single_contents_are_known() {
    let single = |n: u32| datagram(&[&n.to_be_bytes()[..], &[5; 200]].concat());
    for apart in [2, 3, 7] {
        let some = |n: u32| {
            let copies = if n.is_multiple_of(apart) { 2 } else { 1 };
            (0..copies).map(move |copy| (u64::from(n) * 3000 + copy * 600, untagged(&single(n))))
        };
        let copies = u64::from(1000_u32.div_ceil(apart));
        assert_eq!(distinct(&(0..1000).flat_map(some).collect::<Vec<_>>()), [1000, copies], "{apart}");
    }
}

#[test]
fn a_fragment_that_comes_again_behind_its_datagram_is_a_copy() {
    let fragments = |ident: u16| {
        let datagram = identified(ident, 64, &[5; 400]);
        bentpipe_wire::ip::fragments::split_at_source(&datagram, 200, u32::from(ident)).expect("fragments")
    };
    let mut records: Vec<Vec<u8>> = (1..9).flat_map(fragments).collect();
    let first = records[0].clone();
    let last = fragments(9).remove(0);
    records.insert(records.len() / 2, first);
    records.push(last);
    let at = |(n, packet): (u64, Vec<u8>)| (20_000 * n, untagged(&packet));
    let records: Vec<(u64, Vec<u8>)> = (0..).zip(records).map(at).collect();
    let (_, streams) = taken_at(&records);
    let count = |reason: Reason| -> u64 {
        let of = streams.account().left_out().filter(|(found, ..)| *found == reason);
        of.map(|(.., tally)| tally.records).sum()
    };
    assert_eq!((count(Reason::Duplicate), count(Reason::Fragment)), (1, 1), "{}", streams.account());
}

#[test]
fn copies_are_used_by_choice() {
    let stream = packets(70).concat();
    let pieces: Vec<Vec<u8>> =
        stream.chunks(188).zip(0..).map(|(piece, n)| identified(n, 64, piece)).collect();
    let records = mirrored(&pieces, [7000, 10], untagged);
    let (mut taken, mut streams) = (Taken::default(), Streams::default().keeping_copies());
    streams.learn(&capture(&records));
    for (at_us, bytes) in &records {
        let (time_ns, link_type) = (Some(at_us * 1000), LinkType::ETHERNET);
        streams.record(&Record { time_ns, link_type, ..record(bytes) }, &mut taken);
    }
    streams.finish(&mut taken);
    closes(&streams);
    assert_eq!((streams.account().used.records, taken.packets[0].len()), (140, 140));
    let count = |packets: Packets| {
        let mut packets = packets;
        let all = records.iter().filter(|(at_us, bytes)| {
            let (time_ns, link_type) = (Some(at_us * 1000), LinkType::ETHERNET);
            packets.take(&Record { time_ns, link_type, ..record(bytes) }, &mut |_| {}).is_some()
        });
        all.count()
    };
    let packets = || Packets::new(Wanted::Ip, Select::default());
    assert!(count(packets()) < 80);
    assert_eq!(count(packets().keeping_copies()), 140);
}

#[test]
fn contents_that_come_again_are_of_two_captures() {
    let pieces = |idents: u16, round: u8| -> Vec<Vec<u8>> {
        (0..200)
            .map(|n| identified(n % idents + 1, 64, &packets(200)[usize::from(n)].map(|byte| byte ^ round)))
            .collect()
    };
    let echo = |all: &[(u64, Vec<u8>)]| taken_at(all).1.echo();
    let whole = pieces(1000, 0);
    let found = echo(&mirrored(&whole, [5000, 200_300], untagged)).expect("an echo");
    assert!(found.packets > 190 && found.late_ns == 200_300_000, "{found:?}");
    // A mirror, and a stream alone.
    assert_eq!(echo(&mirrored(&whole, [5000, 100], untagged)), None);
    let once: Vec<(u64, Vec<u8>)> =
        whole.iter().zip(0..).map(|(packet, n)| (n * 5000, untagged(packet))).collect();
    assert_eq!(echo(&once), None);
    // Contents that a sender repeats again and again.
    let carousel = (0..1000).map(|n| (n * 5000, untagged(&whole[n as usize % 20])));
    assert_eq!(echo(&carousel.collect::<Vec<_>>()), None);
}
