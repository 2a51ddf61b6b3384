use super::*;

/// Intake of RTP packets on legs, by group, microsecond, number and payload.
fn merged(packets: &[(u8, u64, u16, Vec<u8>)]) -> (Taken, Streams) {
    let (mut taken, mut streams) = (Taken::default(), Streams::default().hitless());
    let mut all = packets.to_vec();
    all.sort_by_key(|(_, at_us, ..)| *at_us);
    for (group, at_us, seq, payload) in all {
        let packet = datagram_to([239, 1, 1, group], 4000, &rtp(33, seq, &payload));
        streams.record(&Record { time_ns: Some(at_us * 1000), ..record(&packet) }, &mut taken);
    }
    streams.finish(&mut taken);
    closes(&streams);
    (taken, streams)
}

#[test]
fn legs_of_one_stream_are_merged_by_choice() {
    let payload = |n: u16| {
        let mut bytes = packets(7);
        bytes.iter_mut().for_each(|packet| packet[1] = n as u8);
        bytes.concat()
    };
    let leg = |group: u8, late_us: u64, is_lost: &dyn Fn(u16) -> bool| -> Vec<(u8, u64, u16, Vec<u8>)> {
        let all = (0..400_u16).filter(|n| !is_lost(*n));
        all.map(|n| (group, u64::from(n) * 2000 + late_us, n.wrapping_add(65_400), payload(n))).collect()
    };
    let in_order: Vec<u8> = (0..400_u16).flat_map(|n| [n as u8; 7]).collect();
    for late_us in [0, 10, 60_000, 400_000] {
        let first = leg(1, 0, &|n| n % 10 == 3 || n % 10 == 5);
        let second = leg(2, late_us, &|n| n % 7 == 4);
        let (taken, streams) = merged(&[first, second].concat());
        let lost = |n: u16| (n % 10 == 3 || n % 10 == 5) && n % 7 == 4;
        let expected: Vec<u8> = (0..400).filter(|n| !lost(*n)).flat_map(|n| [n as u8; 7]).collect();
        assert_eq!(taken.packets, std::slice::from_ref(&expected), "{late_us}");
        let entry = streams.entry(0).expect("a stream");
        let missing: Vec<u64> = streams.legs(0).iter().map(|leg| leg.missing).collect();
        let count = (0..400).filter(|n| lost(*n)).count() as u64;
        assert_eq!(
            (entry.missing, &missing[..], taken.missing),
            (count, &[80, 57][..], 7 * count),
            "{late_us}"
        );
        assert_eq!(streams.entries().count(), 1);
    }
    // Without the choice they are two.
    let whole = |_: u16| false;
    let records = [leg(1, 0, &whole), leg(2, 5, &whole)].concat();
    let datagrams = records
        .iter()
        .map(|(group, _, seq, payload)| datagram_to([239, 1, 1, *group], 4000, &rtp(33, *seq, payload)));
    assert_eq!(taken(&datagrams.collect::<Vec<_>>()).1.entries().count(), 2);
    // A leg that ends, and one that begins late.
    let (taken, streams) = merged(&[leg(1, 0, &|n| n >= 250), leg(2, 3000, &|n| n < 150)].concat());
    assert_eq!((taken.packets, streams.legs(0).len()), (vec![in_order], 2));
    // Other contents under the same source are another stream.
    let mut other = leg(2, 5, &whole);
    other.iter_mut().for_each(|(.., payload)| payload[2] ^= 0x55);
    let (taken, streams) = merged(&[leg(1, 0, &whole), other].concat());
    assert_eq!((taken.packets[0].len(), streams.entries().count(), streams.legs(0).len()), (2800, 2, 0));
    assert_eq!((taken.packets[1].len(), streams.account().left_out_sum().records), (2800, 0));
}

#[test]
fn a_packet_behind_its_place_on_all_legs_is_not_missing() {
    let payload = |n: u16| {
        let mut bytes = packets(7);
        bytes.iter_mut().for_each(|packet| packet[1] = n as u8);
        bytes.concat()
    };
    let leg = |group: u8, late_us: u64, lost: &[u16]| -> Vec<(u8, u64, u16, Vec<u8>)> {
        let all = (0..2000_u16).filter(|n| !lost.contains(n));
        all.map(|n| (group, u64::from(n) * 2000 + late_us, n, payload(n))).collect()
    };
    // Three seconds between legs are more than a receiver waits. One of ten packets is missing on both.
    let first = leg(1, 0, &[100, 101, 102, 103, 104, 105, 106, 107, 108, 1200]);
    let (_, streams) = merged(&[first, leg(2, 3_000_000, &[104])].concat());
    let entry = streams.entry(0).expect("a stream");
    assert_eq!((entry.missing, entry.late), (1, 9));
    let detail = streams.account().left_out().find(|(_, detail, _)| detail.contains("behind their place"));
    assert_eq!(detail.map(|(.., tally)| tally.records), Some(9));
}
