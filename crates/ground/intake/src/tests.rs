use std::net::Ipv4Addr;

use bentpipe_wire::bbframe::{self, ADAPTATION_LEN, Adaptation, FrameSize, Modcod};
use bentpipe_wire::ip::{Protocol, fragments};
use bentpipe_wire::pcap::{LinkType, Options, Record, Writer};
use bentpipe_wire::ts::{PACKET_LEN, SYNC};
use bentpipe_wire::{ipv4, rtp, udp};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

mod copies;
mod legs;

type Packet = [u8; PACKET_LEN];

/// Packets with their number in them, and few bytes that look like a sync byte.
fn packets(count: u8) -> Vec<Packet> {
    let packet = |number| {
        let mut packet = [number; PACKET_LEN];
        packet[0] = SYNC;
        packet
    };
    (0..count).map(packet).collect()
}

/// Units and records that came out.
#[derive(Debug, Default)]
struct Taken {
    /// Second byte of each packet by stream.
    packets: Vec<Vec<u8>>,
    frames: usize,
    /// Packets missing by sync bytes or the numbers of RTP.
    missing: u64,
    left_out: Vec<(u64, Reason, String)>,
}

impl Sink for Taken {
    fn unit(&mut self, stream: usize, _: Option<u64>, unit: Unit<'_>) {
        self.packets.resize(self.packets.len().max(stream + 1), Vec::new());
        match unit {
            Unit::Ts(packet) => self.packets[stream].push(packet[1]),
            Unit::Frame(_) => self.frames += 1,
            Unit::Missing(packets) => self.missing += packets,
        }
    }

    fn left_out(&mut self, left_out: &LeftOut<'_>) {
        self.left_out.push((left_out.number, left_out.reason, left_out.detail.to_owned()));
    }
}

const GROUP: [u8; 4] = [239, 1, 1, 1];

fn datagram_to(group: [u8; 4], src_port: u16, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::from(group));
    let ip = ipv4::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload.len());
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
    ip.emit(&mut bytes);
    let udp = udp::Repr { src_port, dst_port: 5004, payload_len: payload.len() };
    udp.emit(&mut bytes[ip.buffer_len()..]);
    bytes.extend(payload);
    bytes
}

fn datagram(payload: &[u8]) -> Vec<u8> {
    datagram_to(GROUP, 4000, payload)
}

fn record(bytes: &[u8]) -> Record<'_> {
    Record {
        time_ns: Some(0),
        interface: 0,
        interface_name: None,
        link_type: LinkType::RAW,
        original_len: bytes.len(),
        bytes,
        options: Options::default(),
    }
}

fn taken_by(select: Select, records: &[Vec<u8>]) -> (Taken, Streams) {
    let (mut taken, mut streams) = (Taken::default(), Streams::new(select));
    for (bytes, n) in records.iter().zip(0..) {
        // Far enough apart to be no copies.
        streams.record(&Record { time_ns: Some(n * 1_000_000), ..record(bytes) }, &mut taken);
    }
    streams.finish(&mut taken);
    closes(&streams);
    (taken, streams)
}

fn taken(records: &[Vec<u8>]) -> (Taken, Streams) {
    taken_by(Select::default(), records)
}

/// What was read is used or left out.
fn closes(streams: &Streams) {
    let (account, out) = (streams.account(), streams.account().left_out_sum());
    let sum = (account.used.records + out.records, account.used.bytes + out.bytes);
    assert_eq!(sum, (account.read.records, account.read.bytes), "{account}");
}

fn rtp(payload_type: u8, seq: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; rtp::HEADER_LEN];
    rtp::Repr::new(payload_type, seq, 0, 7).emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

/// Baseband frame behind its adaptation header.
fn frame(isi: Option<u8>) -> Vec<u8> {
    let mut bytes = vec![0; ADAPTATION_LEN + bbframe::HEADER_LEN + 20];
    let (modcod, size) = (Modcod::new(1), FrameSize::Short);
    Adaptation { modcod, size, has_pilots: false, carrier_to_noise: 0, number: 0 }.emit(&mut bytes);
    bbframe::Repr { input: isi, ..bbframe::Repr::gse(20) }.emit(&mut bytes[ADAPTATION_LEN..]);
    bytes
}

#[test]
fn datagrams_may_cut_packets() {
    let stream = packets(40).concat();
    let (taken, streams) = taken(&stream.chunks(1472).map(datagram).collect::<Vec<_>>());
    assert_eq!(taken.packets, [(0..40).collect::<Vec<u8>>()]);
    assert_eq!((streams.account().outside_bytes, streams.account().repaired(Repair::Joined)), (0, 5));
    assert_eq!(streams.account().to_string(), "6 records, all used (5 that go on with a TS packet)");
}

#[test]
fn the_sender_decides_whether_a_datagram_is_a_baseband_frame() {
    let mut stream = packets(200).repeat(2).concat();
    for len in [100, 187, 1000, 1472] {
        // Each datagram that begins within a packet looks like a frame.
        for at in (0..stream.len()).step_by(len).filter(|at| !at.is_multiple_of(PACKET_LEN) && *at > 10 * len)
        {
            stream[at] = if at.is_multiple_of(3) { 0xb8 } else { stream[at] };
        }
        let (taken, streams) = taken(&stream.chunks(len).map(datagram).collect::<Vec<_>>());
        assert_eq!(taken.packets.first().map(Vec::len), Some(400), "{len}: {}", streams.account());
        assert!(streams.account().left_out().count() == 0, "{len}: {}", streams.account());
    }
    // A sender of frames goes on with frames, and a damaged one is named.
    let mut damaged = frame(None);
    damaged[10] ^= 1;
    let (taken, streams) = taken(&[frame(None), damaged, frame(None)].map(|frame| datagram(&frame)));
    assert_eq!((taken.frames, streams.account().left_out_sum().records), (2, 1));
}

#[test]
fn short_datagrams_go_on_behind_a_loss() {
    let stream = packets(200).concat();
    for len in [100, 187, 300] {
        let mut records: Vec<_> = stream.chunks(len).map(datagram).collect();
        records.remove(40);
        let (taken, streams) = taken(&records);
        let account = streams.account();
        assert!(taken.packets[0].len() >= 197, "{len}: {} {account}", taken.packets[0].len());
        assert_eq!(account.left_out_sum().records, 0, "{len}: {account}");
    }
}

/// Datagram with an identification and a number of hops left.
fn identified(ident: u16, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = datagram(payload);
    bytes[4..6].copy_from_slice(&ident.to_be_bytes());
    (bytes[6], bytes[8]) = (0, ttl);
    ipv4::Packet::new_unchecked(&mut bytes[..]).fill_checksum();
    bytes
}

/// Frame of a VLAN.
fn tagged(vlan: u16, packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[0x81, 0], &vlan.to_be_bytes(), &[8, 0], packet].concat()
}

/// Capture of frames of Ethernet at times in microseconds.
fn capture(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, LinkType::ETHERNET).expect("written");
    records.iter().for_each(|(at_us, frame)| writer.write(at_us * 1000, frame, 0).expect("written"));
    bytes
}

fn untagged(packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &[8, 0], packet].concat()
}

/// Number of packets that are used and of copies that are left out, of frames of Ethernet at times in microseconds.
fn distinct(records: &[(u64, Vec<u8>)]) -> [u64; 2] {
    let mut packets = Packets::new(Wanted::Distinct, Select::default());
    packets.learn(&capture(records));
    for (at_us, bytes) in records {
        let (time_ns, link_type) = (Some(at_us * 1000), LinkType::ETHERNET);
        packets.take(&Record { time_ns, link_type, ..record(bytes) }, &mut |_| {});
    }
    packets.finish(&mut |_| {});
    [packets.account().used.records, packets.account().duplicated()]
}

/// Intake of frames of Ethernet at times in microseconds.
fn taken_at(records: &[(u64, Vec<u8>)]) -> (Taken, Streams) {
    let (mut taken, mut streams) = (Taken::default(), Streams::default());
    streams.learn(&capture(records));
    for (at_us, bytes) in records {
        let (time_ns, link_type) = (Some(at_us * 1000), LinkType::ETHERNET);
        streams.record(&Record { time_ns, link_type, ..record(bytes) }, &mut taken);
    }
    streams.finish(&mut taken);
    closes(&streams);
    (taken, streams)
}

#[test]
fn a_short_datagram_of_text_is_none_of_whole_packets() {
    let whole: Vec<Vec<u8>> = packets(35).chunks(7).map(|seven| datagram(&seven.concat())).collect();
    let mut records = whole.clone();
    records.insert(2, datagram(&[&b"Ghello"[..], &[0x68; 95]].concat()));
    let (taken, streams) = taken(&records);
    assert_eq!(taken.left_out.len(), 1, "{}", streams.account());
    let entry = streams.entries().next().expect("a stream");
    assert_eq!((entry.packets, entry.outside, entry.faults.losses), (35, 0, 0));
}

#[test]
fn equal_ends_of_datagrams_of_two_vlans_stay_apart() {
    let of = |vlan: u16| {
        let payload = [&[vlan as u8; 700][..], &[9; 700]].concat();
        let fragments = fragments::split_at_source(&datagram(&payload), 728, 7).expect("fragments");
        fragments.into_iter().map(move |fragment| tagged(vlan, &fragment)).collect::<Vec<_>>()
    };
    let all = of(5).into_iter().zip(of(6)).flat_map(|(one, other)| [one, other]);
    let records: Vec<(u64, Vec<u8>)> = (0..).step_by(100).zip(all).collect();
    let mut packets = Packets::new(Wanted::Datagrams, Select::default());
    let mut lens = Vec::new();
    for (at_us, bytes) in &records {
        let (time_ns, link_type) = (Some(at_us * 1000), LinkType::ETHERNET);
        let record = Record { time_ns, link_type, ..record(bytes) };
        lens.extend(packets.take(&record, &mut |_| {}).map(|packet| packet.len));
    }
    packets.finish(&mut |_| {});
    assert_eq!(lens, [1428, 1428], "{}", packets.account());
    assert_eq!(packets.account().left_out_sum().records, 0, "{}", packets.account());
}

#[test]
fn a_port_chooses_all_fragments_of_its_datagrams() {
    let of = |port: u16, ident: u32| {
        let datagram = datagram_to(GROUP, port, &[port as u8; 1400]);
        fragments::split_at_source(&datagram, 728, ident).expect("fragments")
    };
    let mut other = datagram_to(GROUP, 4000, &[1; 1400]);
    other[22..24].copy_from_slice(&9_u16.to_be_bytes());
    let other = fragments::split_at_source(&other, 728, 9).expect("fragments");
    let reversed = of(4001, 3).into_iter().rev();
    let all: Vec<Vec<u8>> = of(4000, 1).into_iter().chain(other).chain(reversed).collect();
    for wanted in [Wanted::Ip, Wanted::Network, Wanted::Distinct, Wanted::Datagrams] {
        let mut packets = Packets::new(wanted, Select { port: Some(5004), ..Select::default() });
        let mut count = 0;
        for bytes in &all {
            count += usize::from(packets.take(&record(bytes), &mut |_| {}).is_some());
        }
        packets.finish(&mut |_| {});
        let account = packets.account();
        assert_eq!((count, account.used.records, account.left_out_sum().records), (2, 4, 2), "{account}");
    }
}

#[test]
fn packets_of_any_distance_may_be_cut_by_datagrams() {
    for (lead, behind) in [(4, 0), (0, 16), (0, 20)] {
        let stored = |packet: &Packet| [&vec![0x11; lead][..], packet, &vec![0x22; behind]].concat();
        let stream: Vec<u8> = packets(60).iter().flat_map(stored).collect();
        for len in [1316, 1400, 1472, 1000, 700] {
            let (taken, streams) = taken(&stream.chunks(len).map(datagram).collect::<Vec<_>>());
            let account = streams.account();
            assert_eq!(taken.packets, [(0..60).collect::<Vec<u8>>()], "{lead} {behind} {len} {account}");
            assert!(!account.has_damage(), "{lead} {behind} {len} {account}");
        }
    }
}

#[test]
fn arrival_times_may_look_like_sync_bytes() {
    let stored = |packet: &Packet| [&[SYNC; 4][..], packet].concat();
    let sound: Vec<Packet> = packets(60).into_iter().filter(|packet| packet[3] & 0x30 != 0).collect();
    let stream: Vec<u8> = sound.iter().flat_map(stored).collect();
    for len in [1, 100, 1000, 100_000] {
        let (mut taken, mut streams) = (Taken::default(), Streams::default());
        stream.chunks(len).for_each(|chunk| streams.bytes(chunk, &mut taken));
        streams.finish(&mut taken);
        assert_eq!(taken.packets, [sound.iter().map(|packet| packet[1]).collect::<Vec<_>>()], "{len}");
    }
    let (taken, _) = taken(&stream.chunks(1472).map(datagram).collect::<Vec<_>>());
    assert_eq!(taken.packets[0].len(), sound.len());
}

#[test]
fn each_second_sync_byte_may_be_wrong() {
    let mut stream = packets(40).concat();
    for place in [10, 12, 14, 16, 30, 31] {
        stream[place * PACKET_LEN] = 0x46;
    }
    for len in [1, 100, 188, 1000, 10_000] {
        let (mut taken, mut streams) = (Taken::default(), Streams::default());
        stream.chunks(len).for_each(|chunk| streams.bytes(chunk, &mut taken));
        streams.finish(&mut taken);
        closes(&streams);
        let faults = streams.entries().next().expect("a stream").faults;
        assert_eq!(faults, SyncFaults { sync_bytes: 6, losses: 1 }, "{len}");
        assert_eq!(taken.packets[0].len(), 34, "{len}");
    }
}

#[test]
fn packets_that_the_capture_cut_are_named() {
    let bytes = datagram(&[7; 300]);
    let mut packets = Packets::new(Wanted::Ip, Select::default());
    let record = Record { original_len: bytes.len(), bytes: &bytes[..60], ..record(&bytes) };
    assert!(packets.take(&record, &mut |_| {}).is_some());
    assert_eq!(packets.account().to_string(), "1 records, all used (1 that the capture cut)");
}

#[test]
fn vlans_are_streams_of_their_own() {
    let stream = packets(70).concat();
    let of = |(piece, n): (&[u8], u16)| {
        let at_us = u64::from(n) * 7000;
        [5, 6].map(|vlan| (at_us + u64::from(vlan) * 1000, tagged(vlan, &identified(n, 64, piece))))
    };
    let (taken, streams) = taken_at(&stream.chunks(1316).zip(0..).flat_map(of).collect::<Vec<_>>());
    let all = (0..70).collect::<Vec<u8>>();
    assert_eq!(taken.packets, [all.clone(), all]);
    let names: Vec<String> = streams.entries().map(|entry| entry.id.to_string()).collect();
    assert!(names[0].ends_with(", VLAN 5") && names[1].ends_with(", VLAN 6"), "{names:?}");
}

#[test]
fn a_lost_datagram_costs_the_packets_that_it_had() {
    let stream = packets(40).concat();
    let mut records: Vec<_> = stream.chunks(1472).map(datagram).collect();
    records.remove(2);
    let (taken, streams) = taken(&records);
    let lost: Vec<u8> = (0..40).filter(|number| !taken.packets[0].contains(number)).collect();
    assert_eq!(lost, (15..24).collect::<Vec<u8>>());
    assert_eq!(streams.account().outside_bytes, 2944 - 15 * 188 + 24 * 188 - 4416);
}

#[test]
fn datagrams_of_every_length_have_the_same_packets() {
    let stream = packets(60).concat();
    for len in [100, 188, 500, 639, 640, 900, 1000, 1315, 1316, 1400, 2000] {
        let (taken, streams) = taken(&stream.chunks(len).map(datagram).collect::<Vec<_>>());
        let found = taken.packets.first().map_or(&[][..], |found| found);
        assert_eq!(found, (0..60).collect::<Vec<u8>>(), "{len}: {}", streams.account());
        assert!(!streams.account().has_damage(), "{len}: {}", streams.account());
    }
}

#[test]
fn layouts_are_found() {
    for (lead, behind) in [(0, 0), (0, 16), (4, 0), (0, 20)] {
        let stored = |packet: &Packet| [&vec![0x11; lead][..], packet, &vec![0x22; behind]].concat();
        let stream: Vec<u8> = packets(30).iter().flat_map(stored).collect();
        let (mut taken, mut streams) = (Taken::default(), Streams::default());
        stream.chunks(1000).for_each(|chunk| streams.bytes(chunk, &mut taken));
        streams.finish(&mut taken);
        closes(&streams);
        assert_eq!(taken.packets, [(0..30).collect::<Vec<u8>>()], "{lead} {behind}");
        assert_eq!(streams.account().left_out_sum().bytes, 0, "{}", streams.account());
        let stride = streams.entries().next().and_then(|entry| entry.layout).map(|layout| layout.stride);
        assert_eq!(stride, Some(188 + lead + behind));
        let records: Vec<_> = stream.chunks(7 * (188 + lead + behind)).map(datagram).collect();
        assert_eq!(super::tests::taken(&records).0.packets, [(0..30).collect::<Vec<u8>>()]);
    }
}

#[test]
fn damage_of_a_file_is_skipped() {
    let stream = packets(40).concat();
    let damaged = [b"rubbish", &stream[..1880], b"more rubbish", &stream[1880..], &[SYNC, 1]].concat();
    for len in [1, 100, 187, 188, 1000, 10_000] {
        let (mut taken, mut streams) = (Taken::default(), Streams::default());
        damaged.chunks(len).for_each(|chunk| streams.bytes(chunk, &mut taken));
        streams.finish(&mut taken);
        closes(&streams);
        assert_eq!(taken.packets, [(0..40).collect::<Vec<u8>>()], "{len}");
        assert_eq!(streams.account().left_out_sum().bytes, 21, "{len}");
    }
    let (mut taken, mut streams) = (Taken::default(), Streams::default());
    streams.bytes(&[7; 5000], &mut taken);
    streams.finish(&mut taken);
    closes(&streams);
    assert!(streams.account().is_unused() && streams.entries().count() == 0);
    assert_eq!(
        streams.account().to_string(),
        "5,000 bytes, none used, 5,000 left out: bytes outside packets"
    );
}

#[test]
fn streams_are_kept_apart() {
    let stream = packets(14).concat();
    let records: Vec<Vec<u8>> = stream
        .chunks(1316)
        .flat_map(|piece| {
            [datagram(piece), datagram_to([239, 1, 1, 2], 4000, piece), datagram_to(GROUP, 53, b"dns")]
        })
        .collect();
    let (taken, streams) = taken(&records);
    assert_eq!((taken.packets.len(), taken.packets[0].len(), taken.packets[1].len()), (2, 14, 14));
    assert_eq!(taken.left_out[0], (3, Reason::Content, "of UDP without TS packets".to_owned()));
    let said = "6 records, 4 used, 2 left out: 2 of UDP without TS packets, the first 3";
    assert_eq!((streams.account().to_string(), streams.account().has_damage()), (said.to_owned(), false));
    let select = Select { destination: Some(Ipv4Addr::from([239, 1, 1, 2]).into()), ..Select::default() };
    let (one, streams) = taken_by(select, &records);
    assert_eq!(one.packets.len(), 1);
    let said = "6 records, 2 used, 4 left out: 4 not selected by --dst 239.1.1.2, the first 1";
    assert_eq!(streams.account().to_string(), said);
    let frames = [frame(Some(1)), frame(Some(2)), frame(Some(1))].map(|frame| datagram(&frame));
    let (both, streams) = super::tests::taken(&frames);
    let isis: Vec<_> = streams.entries().map(|entry| (entry.id.isi, entry.frames)).collect();
    assert_eq!((both.frames, isis), (3, vec![(Some(1), 2), (Some(2), 1)]));
    assert_eq!(taken_by(Select { isi: Some(2), ..Select::default() }, &frames).0.frames, 1);
}

#[test]
fn rtp_of_any_type_is_read() {
    let stream = packets(21).concat();
    let pieces: Vec<&[u8]> = stream.chunks(1316).collect();
    let mut records = vec![datagram(&rtp(96, 10, pieces[0])), datagram(&rtp(96, 11, pieces[1]))];
    records.push(records[1].clone());
    let mut padded = rtp(96, 13, pieces[2]);
    padded[0] |= 0x20;
    padded.extend([0, 0, 0, 4]);
    records.push(datagram(&padded));
    records.push(datagram(&rtp(97, 14, &[5; 700])));
    let (taken, streams) = taken(&records);
    assert_eq!(taken.packets, [(0..21).collect::<Vec<u8>>()]);
    let reasons: Vec<(u64, Reason)> = taken.left_out.iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(reasons, [(3, Reason::Duplicate), (5, Reason::Content)]);
    let entry = streams.entries().next().expect("a stream");
    assert_eq!((entry.id.ssrc, entry.missing, streams.account().duplicated()), (Some(7), 1, 1));
    // An extension, contributing sources, and packets that go on in the next datagram.
    let extended = |seq, piece: &[u8]| {
        let mut bytes = rtp(33, seq, &[[9; 4], [0xbe, 0xde, 0, 1], [0; 4]].concat());
        bytes[0] |= 0x11;
        bytes.extend(piece);
        datagram(&bytes)
    };
    let records: Vec<_> = stream.chunks(1400).zip(0..).map(|(piece, seq)| extended(seq, piece)).collect();
    assert_eq!(super::tests::taken(&records).0.packets, [(0..21).collect::<Vec<u8>>()]);
}

#[test]
fn fragments_are_put_together() {
    let stream = packets(14).concat();
    let all: Vec<Vec<u8>> = stream
        .chunks(1316)
        .zip(1..)
        .flat_map(|(piece, ident)| {
            fragments::split_at_source(&datagram(piece), 700, ident).expect("fragments")
        })
        .collect();
    let (taken, streams) = taken(&all);
    assert_eq!(taken.packets, [(0..14).collect::<Vec<u8>>()]);
    assert_eq!((all.len(), streams.account().repaired(Repair::Reassembled)), (4, 4));
    let (some, streams) = super::tests::taken(&all[1..]);
    assert_eq!(some.packets, [(7..14).collect::<Vec<u8>>()]);
    assert_eq!(some.left_out, [(1, Reason::Fragment, "of incomplete fragments".to_owned())]);
    assert!(streams.account().has_damage());
}

#[test]
fn a_length_of_0_is_taken_from_the_record() {
    let mut bytes = datagram(&packets(20).concat());
    bytes[2..4].fill(0);
    bytes[10..12].fill(0);
    bytes[24..26].fill(0);
    let (taken, streams) = taken(&[bytes]);
    assert_eq!((taken.packets[0].len(), streams.account().repaired(Repair::Length)), (20, 1));
}

#[test]
fn memory_is_bounded() {
    let stream = packets(7).concat();
    let mut records: Vec<_> = (0..1010).map(|port| datagram_to(GROUP, 1000 + port, &stream)).collect();
    records.extend((0..300).map(|port| datagram_to(GROUP, 3000 + port, &[1; 60])));
    let (_, streams) = taken(&records);
    let left_out: Vec<_> = streams.account().left_out().map(|(reason, _, of)| (reason, of.records)).collect();
    assert_eq!(
        (streams.entries().count(), left_out),
        (1000, vec![(Reason::Content, 300), (Reason::Streams, 10)])
    );
}

#[test]
fn a_fragment_that_comes_again_and_again_takes_bounded_memory() {
    let fragments = fragments::split_at_source(&datagram(&[1; 2000]), 700, 7).expect("fragments");
    let (mut taken, mut streams) = (Taken::default(), Streams::default());
    let mut most = 0;
    for n in 0..40_000_u64 {
        // Far enough apart to be no copies, and within the time in which they are put together.
        let time_ns = Some(n * 600_000);
        streams.record(&Record { time_ns, ..record(&fragments[n as usize % 2]) }, &mut taken);
        let waiting = streams.account().read.records - streams.account().left_out_sum().records;
        most = most.max(waiting);
    }
    streams.finish(&mut taken);
    closes(&streams);
    assert!((8_000..1 << 14).contains(&most), "{most}");
    assert_eq!(streams.account().left_out_sum().records, 40_000);
}

#[test]
fn packets_that_are_missing_have_their_places() {
    let stream = packets(100).concat();
    let of = |bytes: &[u8]| {
        let (mut taken, mut streams) = (Taken::default(), Streams::default());
        streams.bytes(bytes, &mut taken);
        streams.finish(&mut taken);
        let SyncFaults { sync_bytes, losses } = streams.entry(0).expect("a stream").faults;
        (taken.packets[0].len() as u64, taken.missing, [sync_bytes, losses])
    };
    assert_eq!(of(&[&stream[..1900], &[9], &stream[1900..]].concat()), (100, 0, [0, 1]));
    assert_eq!(of(&[&stream[..1880], &[9], &stream[1880..]].concat()), (100, 0, [0, 1]));
    assert_eq!(of(&[&stream[..1900], &stream[1901..]].concat()), (99, 1, [0, 1]));
    for apart in [2, 3, 4] {
        let mut damaged = stream.clone();
        damaged.chunks_mut(PACKET_LEN).skip(10).step_by(apart).take(20).for_each(|packet| packet[0] = 0);
        assert_eq!(of(&damaged), (80, 20, [20, 0]), "{apart}");
    }
    let lost = [1, 2, 5, 6].map(|seq| datagram(&rtp(33, seq, &stream[..1316])));
    assert_eq!(taken(&lost).0.missing, 14);
}

#[test]
fn details_of_reasons_are_bounded() {
    let mut streams = Streams::default();
    for kind in 0x9000..0x9100_u16 {
        let frame = [&[2; 12][..], &kind.to_be_bytes(), &[0; 40]].concat();
        streams.record(&Record { link_type: LinkType::ETHERNET, ..record(&frame) }, &mut Taken::default());
    }
    closes(&streams);
    assert_eq!(streams.account().left_out().count(), 65);
    let said = streams.account().to_string();
    assert!(said.ends_with("; 244 of other kinds") && said.len() < 900, "{said}");
}

#[test]
fn short_datagrams_may_have_other_bytes_behind_packets() {
    let mut noise = [0; 400];
    (noise[30], noise[218]) = (SYNC, SYNC);
    let stream = [&packets(5).concat()[..], &noise].concat();
    let mut records = [&stream[..370], &stream[370..740], &stream[740..]].map(datagram).to_vec();
    records.push(datagram(&[1; 50]));
    records.push(datagram(&packets(7).concat()));
    let (taken, streams) = taken(&records);
    assert_eq!((taken.packets[0].len(), taken.left_out.len()), (12, 1));
    assert_eq!(streams.account().outside_bytes, 400);
}

#[test]
fn the_account_as_json() {
    let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
    let mut streams = Streams::default();
    let mut taken = Taken::default();
    streams.record(&Record { link_type: LinkType::ETHERNET, ..record(&arp) }, &mut taken);
    streams.record(&record(&datagram(&packets(7).concat())), &mut taken);
    streams.cut(None);
    streams.finish(&mut taken);
    let json = streams.account().json("a.pcap");
    assert_eq!(
        (&json["read"]["records"], &json["used"]["records"], &json["cut_in"]),
        (&2.into(), &1.into(), &3.into())
    );
    assert_eq!(
        (&json["left_out"][0]["reason"], &json["left_out"][0]["first"]),
        (&"protocol".into(), &1.into())
    );
    let said =
        "2 records, 1 used, 1 left out: 1 of EtherType 0x0806 (ARP), record 1, cut short within record 3";
    assert_eq!(streams.account().to_string(), said);
}

proptest! {
    #[test]
    fn what_is_read_is_used_or_left_out(
        records in vec((0..8_u8, vec(prop_oneof![Just(SYNC), Just(0x80), Just(0xb8), any::<u8>()], 0..700), 0..300_usize), 0..60),
    ) {
        let mut taken = Taken::default();
        let mut streams = Streams::default();
        let stream = packets(20).concat();
        for (kind, bytes, at) in &records {
            let bytes = match kind {
                0 => bytes.clone(),
                1 => datagram(bytes),
                2 => datagram(&stream[*at..at + 1400]),
                3 => datagram(&rtp(33, *at as u16, &stream[..1316])),
                4 => datagram(&rtp(96, *at as u16, bytes)),
                5 => datagram(&frame(Some(*at as u8))),
                6 => fragments::split_at_source(&datagram(bytes), 300, *at as u32).unwrap_or_default().concat(),
                _ => datagram(&stream[*at..at + 100]),
            };
            let link_type = if bytes.len() % 7 == 0 { LinkType::ETHERNET } else { LinkType::RAW };
            let original_len = bytes.len() + if at % 9 == 0 { 10 } else { 0 };
            streams.record(&Record { link_type, original_len, ..record(&bytes) }, &mut taken);
        }
        streams.finish(&mut taken);
        closes(&streams);
        prop_assert_eq!(taken.left_out.len() as u64, streams.account().left_out_sum().records);
    }

    #[test]
    fn pieces_of_a_file_do_not_matter(
        cuts in vec(1_usize..3000, 0..30), rubbish in vec(any::<u8>(), 0..300), at in 0..40_usize,
    ) {
        let stream = packets(40).concat();
        let all = [&stream[..188 * at], &rubbish, &stream[188 * at..]].concat();
        let of = |cuts: &[usize]| {
            let (mut taken, mut streams, mut rest) = (Taken::default(), Streams::default(), &all[..]);
            for cut in cuts {
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                streams.bytes(piece, &mut taken);
                rest = more;
            }
            streams.bytes(rest, &mut taken);
            streams.finish(&mut taken);
            closes(&streams);
            taken.packets
        };
        prop_assert_eq!(of(&cuts), of(&[]));
    }
}
