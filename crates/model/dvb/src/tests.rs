use bentpipe_net::text::{Ports, Prefix, Transport};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ethernet::{self, EtherType, MacAddr};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::rtp;
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::udp;
use proptest::prelude::*;

use super::*;

/// An RTP packet in UDP in IP, the `n`-th of its stream, with a payload of `payload_len` zeros.
fn packet(is_v6: bool, n: u16, payload_len: usize) -> Vec<u8> {
    let rtp_header = [0x80, 3, (n >> 8) as u8, n as u8, 0, 0, (n >> 8) as u8, n as u8, 1, 2, 3, 4];
    let payload = [&rtp_header[..], &vec![0; payload_len]].concat();
    let (src, dst) = if is_v6 {
        ([0x2001u16, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001u16, 0xdb8, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([10, 1, 0, 1].into(), [10, 2, 0, 1].into())
    };
    let udp = udp::Repr { src_port: 5002, dst_port: 5004, payload_len: payload.len() };
    let mut ip = ip::Repr::new(src, dst, Protocol::UDP, udp::HEADER_LEN + payload.len());
    if let ip::Repr::V4(v4) = &mut ip {
        v4.ident = n;
    }
    let mut bytes = vec![0; ip.buffer_len() + udp::HEADER_LEN];
    ip.emit(&mut bytes);
    udp.emit(&mut bytes[ip.buffer_len()..]);
    bytes.extend(payload);
    bytes
}

fn frame(ip: &[u8]) -> Vec<u8> {
    let ethertype = if ip[0] >> 4 == 6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let (src, dst) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    ethernet::Repr::new(src, dst, ethertype).emit(&mut bytes);
    bytes.extend(ip);
    bytes
}

fn config(encapsulation: Encapsulation, packing: Option<Span>, rohc: bool) -> Config {
    Config { encapsulation, packing, rohc: rohc.then(Rohc::default), ..Config::default() }
}

struct Pair {
    sender: Encapsulator,
    receiver: Decapsulator,
    ip: Vec<Vec<u8>>,
    frames: Vec<Vec<u8>>,
    troubles: Vec<Anomaly>,
}

impl Pair {
    fn new(config: &Config) -> Pair {
        Pair {
            sender: Encapsulator::new(config).unwrap(),
            receiver: Decapsulator::new(config, ethernet::Filter::All).unwrap(),
            ip: Vec::new(),
            frames: Vec::new(),
            troubles: Vec::new(),
        }
    }

    /// Brings over what is ready, but for the TS packets or fields of these numbers; how many there were.
    fn carry(&mut self, now: Time, lost: &[usize]) -> usize {
        let Pair { sender, receiver, ip, frames, troubles } = self;
        let mut sink = |event: Event<'_>| match event {
            Event::Ip(bytes) => ip.push(bytes.to_vec()),
            Event::Ethernet(bytes) => frames.push(bytes.to_vec()),
            Event::Anomaly(trouble) => troubles.push(trouble),
        };
        for n in 0.. {
            if let Some(packet) = sender.pop(now) {
                if !lost.contains(&n) {
                    receiver.push(now, &packet, &mut sink);
                }
                continue;
            }
            let mut field = Vec::new();
            if sender.fill(now, 3000, &mut field).is_none() {
                return n;
            }
            if !lost.contains(&n) {
                receiver.push_field(now, &field, &mut sink);
            }
        }
        unreachable!()
    }
}

const LATE: Time = Time::from_nanos(3_600_000_000_000);

#[test]
fn what_goes_in_comes_out() {
    let threshold = [None, Some(Span::from_millis(1))];
    for encapsulation in [Encapsulation::Ule, Encapsulation::Mpe, Encapsulation::Gse] {
        for packing in threshold {
            for rohc in [false, true] {
                let mut pair = Pair::new(&config(encapsulation, packing, rohc));
                let sizes = [0, 33, 160, 1200, 1, 9000].into_iter().cycle();
                let packets: Vec<_> =
                    sizes.zip(0..200).map(|(size, n)| packet(n % 3 == 0, n, size)).collect();
                for bytes in &packets {
                    pair.sender.push(Time::ZERO, &Pdu::ip(bytes)).unwrap();
                    pair.carry(Time::ZERO, &[]);
                }
                pair.carry(LATE, &[]);
                assert!(pair.ip == packets, "{encapsulation:?} {packing:?} {rohc}");
                assert_eq!(pair.troubles, []);
                let (sent, received) = (pair.sender.sent(), pair.receiver.received());
                assert_eq!((sent.pdus, sent.frames), (received.pdus, received.frames));
                assert_eq!(sent.pdu_bytes, received.pdu_bytes);
                assert_eq!(sent.compressed, if rohc { 200 } else { 0 });
            }
        }
    }
}

#[test]
fn frames_are_compressed_behind_their_header() {
    for encapsulation in [Encapsulation::Ule, Encapsulation::Gse] {
        let mut pair = Pair::new(&config(encapsulation, None, true));
        let frames: Vec<_> = (0..50).map(|n| frame(&packet(n % 2 == 0, n / 2, 33))).collect();
        let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[7; 46]].concat();
        for bytes in frames.iter().chain([&arp]) {
            pair.sender.push(Time::ZERO, &Pdu::ethernet(bytes)).unwrap();
            pair.carry(LATE, &[]);
        }
        assert_eq!(pair.frames.len(), 51);
        assert_eq!((&pair.frames[..50], &pair.frames[50]), (&frames[..], &arp));
        assert_eq!(pair.sender.sent().compressed, 50);
    }
    let mut mpe = Encapsulator::new(&config(Encapsulation::Mpe, None, true)).unwrap();
    assert_eq!(mpe.push(Time::ZERO, &Pdu::ethernet(&frame(&packet(false, 0, 9)))), Err(Refused::Bridged));
    assert_eq!(mpe.push(Time::ZERO, &Pdu::ip(&[0x77; 40])), Err(Refused::Unknown));
    assert_eq!(mpe.sent().refused, 2);
    let mut ule = Encapsulator::new(&Config::default()).unwrap();
    assert_eq!(ule.push(Time::ZERO, &Pdu::ip(&packet(true, 0, 33_000))), Err(Refused::TooLong));
    assert_eq!(ule.sent().refused, 1);
}

#[test]
fn an_ipv6_packet_without_a_length_is_refused_or_bridged_whole() {
    let mut jumbo = packet(true, 0, 33);
    jumbo[4..6].fill(0);
    for encapsulation in [Encapsulation::Ule, Encapsulation::Mpe, Encapsulation::Gse] {
        let mut sender = Encapsulator::new(&config(encapsulation, None, true)).unwrap();
        assert_eq!(sender.push(Time::ZERO, &Pdu::ip(&jumbo)), Err(Refused::Jumbo));
    }
    let mut pair = Pair::new(&config(Encapsulation::Ule, None, true));
    pair.sender.push(Time::ZERO, &Pdu::ethernet(&frame(&jumbo))).unwrap();
    pair.carry(LATE, &[]);
    assert_eq!(pair.frames, [frame(&jumbo)]);
}

#[test]
fn padding_of_a_short_frame_is_not_compressed() {
    let mut pair = Pair::new(&config(Encapsulation::Ule, None, true));
    let mut bytes = frame(&packet(false, 0, 2));
    let len = bytes.len();
    bytes.resize(ethernet::MIN_LEN, 0x55);
    pair.sender.push(Time::ZERO, &Pdu::ethernet(&bytes)).unwrap();
    pair.carry(Time::ZERO, &[]);
    assert_eq!(pair.frames, [&bytes[..len]]);
}

#[test]
fn zeros_that_are_only_counted_are_sent() {
    for rohc in [false, true] {
        for encapsulation in [Encapsulation::Ule, Encapsulation::Mpe, Encapsulation::Gse] {
            let mut pair = Pair::new(&config(encapsulation, None, rohc));
            let whole = packet(true, 1, 1000);
            let pdu = Pdu::ip(&whole[..60]).with_zeros(whole.len() - 60);
            pair.sender.push(Time::ZERO, &pdu).unwrap();
            pair.carry(Time::ZERO, &[]);
            assert!(pair.ip == [whole]);
        }
    }
}

#[test]
fn a_packing_threshold_holds_back_what_is_not_full() {
    let threshold = Span::from_micros(183);
    let mut sender = Encapsulator::new(&config(Encapsulation::Ule, Some(threshold), false)).unwrap();
    let at = Time::from_nanos;
    sender.push(at(1000), &Pdu::ip(&packet(false, 0, 33))).unwrap();
    assert_eq!(sender.due(), Some(at(184_000)));
    assert_eq!(sender.pop(at(183_999)), None);
    // 2 x 81 bytes leave 21 of 183: a third one begins in the first TS packet and ends in a second one.
    sender.push(at(2000), &Pdu::ip(&packet(false, 1, 33))).unwrap();
    assert_eq!(sender.due(), Some(at(184_000)));
    sender.push(at(3000), &Pdu::ip(&packet(false, 2, 33))).unwrap();
    assert_eq!((sender.filled(), sender.is_ready(at(3000), 0)), (1, true));
    assert!(sender.pop(at(3000)).is_some());
    assert_eq!(sender.due(), Some(at(186_000)), "the rest has waited since then");
    assert_eq!(sender.pop(at(185_999)), None);
    assert!(sender.pop(at(186_000)).is_some());
    assert_eq!((sender.due(), sender.sent().flushed, sender.sent().frames), (None, 1, 2));
}

#[test]
fn gse_waits_for_a_full_data_field() {
    let threshold = Span::from_millis(5);
    let mut sender = Encapsulator::new(&config(Encapsulation::Gse, Some(threshold), false)).unwrap();
    let mut field = Vec::new();
    for n in 0..3 {
        sender.push(Time::from_nanos(n), &Pdu::ip(&packet(false, n as u16, 460))).unwrap();
    }
    assert_eq!(sender.fill(Time::from_nanos(3), 1600, &mut field), None);
    assert_eq!(sender.fill(Time::from_nanos(3), 1000, &mut field), Some(1000));
    assert_eq!(sender.due(), Some(Time::from_nanos(5_000_003)));
    assert_eq!(sender.fill(Time::from_nanos(5_000_003), 1000, &mut field).map(|len| len < 1000), Some(true));
    assert_eq!(sender.due(), None);
}

/// Packing begins and ends while it goes on, and nothing that waits is lost.
#[test]
fn a_stream_that_packs_pads_from_now_on() {
    for encapsulation in [Encapsulation::Ule, Encapsulation::Mpe, Encapsulation::Gse] {
        let packed = config(encapsulation, Some(Span::from_secs(1)), true);
        let mut pair = Pair::new(&packed);
        let packets: Vec<_> = (0..60).map(|n| packet(false, n, 33)).collect();
        for (n, bytes) in packets.iter().enumerate() {
            let is_packed = n / 10 % 2 == 0;
            pair.sender
                .set(&Config { packing: packed.packing.filter(|_| is_packed), ..packed.clone() })
                .unwrap();
            pair.sender.push(Time::ZERO, &Pdu::ip(bytes)).unwrap();
            pair.carry(Time::ZERO, &[]);
            assert!(is_packed || pair.ip.len() == n + 1, "{encapsulation:?} {n}");
        }
        assert_eq!((pair.ip, pair.troubles), (packets, vec![]));
    }
}

/// Seed equation 12: where the n-th valley of padding mode is, one byte above what n TS packets carry.
#[test]
fn padding_mode_has_its_valleys_where_the_equation_says() {
    let ule = 8;
    for (is_v6, header) in [(false, 20), (true, 40)] {
        for n in 1..=8 {
            let valley = 183 - ule - 14 - header - 8 + 1 + 184 * (n - 1);
            let taken = |udp_payload: usize| {
                let mut sender = Encapsulator::new(&Config::default()).unwrap();
                let bytes = frame(&packet(is_v6, 0, udp_payload - rtp::HEADER_LEN));
                sender.push(Time::ZERO, &Pdu::ethernet(&bytes)).unwrap();
                sender.filled() as usize
            };
            assert_eq!((taken(valley - 1), taken(valley)), (n, n + 1), "valley {n} at {valley}");
        }
    }
}

#[test]
fn what_is_lost_is_named() {
    let mut pair = Pair::new(&config(Encapsulation::Ule, None, true));
    for n in 0..40 {
        pair.sender.push(Time::ZERO, &Pdu::ip(&packet(false, n, 400))).unwrap();
        let lost: &[usize] = if n == 20 { &[1] } else { &[] };
        assert_eq!(pair.carry(Time::ZERO, lost), 3);
    }
    assert_eq!(pair.ip.len(), 39);
    assert_eq!(pair.troubles, [Anomaly::ContinuityBreak, Anomaly::Resynchronised]);
    let received = pair.receiver.received();
    assert_eq!((received.continuity_errors, received.resynchronised, received.frames), (1, 1, 119));
}

#[test]
fn damage_is_seen_by_the_crc() {
    let mut pair = Pair::new(&Config::default());
    let mut seen = Vec::new();
    for bit in [8 * 30, 8 * 100 + 3] {
        pair.sender.push(Time::ZERO, &Pdu::ip(&packet(false, 0, 100))).unwrap();
        let mut packet = pair.sender.pop(Time::ZERO).unwrap();
        packet[bit / 8] ^= 0x80 >> (bit % 8);
        pair.receiver.push(Time::ZERO, &packet, |event| match event {
            Event::Anomaly(trouble) => seen.push(trouble),
            event => panic!("{event:?}"),
        });
    }
    assert_eq!(seen, [Anomaly::Crc, Anomaly::Crc]);
    assert_eq!(pair.receiver.received().crc_errors, 2);
}

#[test]
fn feedback_comes_back_in_rohc_packets() {
    let rohc = Rohc { mode: RohcMode::Optimistic, ..Rohc::default() };
    let config = Config { rohc: Some(rohc), ..Config::default() };
    let [mut near, mut far] = [Pair::new(&config), Pair::new(&config)];
    for n in 0..100 {
        near.sender.push(Time::ZERO, &Pdu::ip(&packet(true, n, 33))).unwrap();
        near.carry(Time::ZERO, &[]);
        let mut elements = Vec::new();
        if near.receiver.take_feedback(&mut elements) {
            far.sender.send_feedback(Time::ZERO, &elements);
            far.carry(Time::ZERO, &[]);
        }
        elements.clear();
        if far.receiver.take_received_feedback(&mut elements) {
            near.sender.feedback(&elements);
        }
    }
    assert_eq!((near.ip.len(), far.ip.len()), (100, 0));
    assert!(far.sender.sent().feedback >= 1);
    // Acknowledged after the first packets, the compressor leaves IR at once.
    let stats = near.sender.compression();
    assert!(stats.irs <= 4 && stats.header_out < 100 * 5, "{stats:?}");
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rule = |change: fn(&mut Rule)| {
        let mut rule = Rule { action: Action::Plain, ..Rule::default() };
        change(&mut rule);
        rule
    };
    let matching = packet(false, 0, 33);
    let judge = |rule: &Rule| Filter { rules: vec![rule.clone()] }.judge(&matching, 0).action;
    let yes: [fn(&mut Rule); 8] = [
        |_| {},
        |rule| rule.src = "10.1.0.0/16".parse().ok(),
        |rule| rule.dst = "10.2.0.1".parse().ok(),
        |rule| rule.dst_port = "5000-5004".parse().ok(),
        |rule| rule.src_port = "5002".parse().ok(),
        |rule| rule.protocol = "udp".parse().ok(),
        |rule| rule.max_size = Some(Bytes::new(73)),
        |rule| (rule.min_size, rule.dscp) = (Some(Bytes::new(73)), Some(0)),
    ];
    let no: [fn(&mut Rule); 8] = [
        |rule| rule.src = "10.1.128.0/17".parse().ok(),
        |rule| rule.dst = "::/0".parse().ok(),
        |rule| rule.dst_port = "5005-6000".parse().ok(),
        |rule| rule.src_port = "5004".parse().ok(),
        |rule| rule.protocol = "6".parse().ok(),
        |rule| rule.max_size = Some(Bytes::new(72)),
        |rule| rule.min_size = Some(Bytes::new(74)),
        |rule| rule.dscp = Some(46),
    ];
    yes.iter().enumerate().for_each(|(n, change)| assert_eq!(judge(&rule(*change)), Action::Plain, "{n}"));
    no.iter().enumerate().for_each(|(n, change)| assert_eq!(judge(&rule(*change)), Action::Compress, "{n}"));
    let (drop, plain) = (Rule { action: Action::Drop, ..Rule::default() }, rule(|_| {}));
    let both = Filter { rules: vec![rule(|rule| rule.dscp = Some(46)), drop, plain] };
    assert_eq!(both.judge(&matching, 0).action, Action::Drop);
}

/// Compressed header bytes of an RTP packet that a rule gives to these profiles.
fn header_with_rule(version: RohcVersion, profiles: &[ProfileName]) -> f64 {
    let rule = Rule { profiles: profiles.to_vec(), ..Rule::default() };
    let rohc = Rohc { profiles: ChannelProfiles::Version(version), ..Rohc::default() };
    let config = Config { filter: Filter { rules: vec![rule] }, ..config(Encapsulation::Ule, None, false) };
    mean_header(&Config { rohc: Some(rohc), ..config }, false)
}

/// Compressed header bytes of 400 RTP packets; every packet must come out as it went in.
fn mean_header(config: &Config, is_v6: bool) -> f64 {
    let mut pair = Pair::new(config);
    let packets: Vec<Vec<u8>> = (0..400).map(|n| packet(is_v6, n, 33)).collect();
    for packet in &packets {
        pair.sender.push(Time::ZERO, &Pdu::ip(packet)).unwrap();
        pair.carry(Time::ZERO, &[]);
    }
    assert!(pair.ip == packets, "every packet comes out as it was");
    let stats = pair.sender.compression();
    stats.header_out as f64 / stats.packets as f64
}

#[test]
fn a_rule_chooses_the_profiles() {
    for version in [RohcVersion::V1, RohcVersion::V2] {
        let only = |profiles| header_with_rule(version, profiles);
        // What IP leaves of UDP and RTP, and UDP of RTP, is payload.
        let (rtp, udp, ip) = (only(&[]), only(&[ProfileName::Udp]), only(&[ProfileName::Ip]));
        assert!(ip < udp && udp < rtp + 3.0, "header lengths {rtp} {udp} {ip}");
        assert_eq!(only(&[ProfileName::Rtp]), rtp, "a rule names the profiles of either version");
    }
    let plain = Rule { action: Action::Plain, max_size: Some(Bytes::new(72)), ..Rule::default() };
    let config = Config { filter: Filter { rules: vec![plain] }, ..config(Encapsulation::Ule, None, true) };
    let mut pair = Pair::new(&config);
    for size in [32, 33, 32] {
        pair.sender.push(Time::ZERO, &Pdu::ip(&packet(false, 0, size))).unwrap();
    }
    assert_eq!((pair.sender.sent().pdus, pair.sender.sent().compressed), (3, 1));
}

#[test]
fn both_versions_carry_what_goes_in_with_like_headers() {
    for is_v6 in [false, true] {
        let with = |profiles, reorder| {
            let rohc = Some(Rohc { profiles, reorder, ..Rohc::default() });
            mean_header(&Config { rohc, ..config(Encapsulation::Ule, None, false) }, is_v6)
        };
        let version = |version, reorder| with(ChannelProfiles::Version(version), reorder);
        let v1 = version(RohcVersion::V1, Reorder::None);
        let v2 = version(RohcVersion::V2, Reorder::None);
        assert!(v1 < 5.0 && (v2 / v1 - 1.0).abs() < 0.25, "header of v1 {v1}, of v2 {v2}");
        // Of 400 packets up to 10 more are IR.
        for reorder in [Reorder::Quarter, Reorder::Half, Reorder::ThreeQuarters] {
            let late = version(RohcVersion::V2, reorder);
            assert!(late >= v2 && late < v2 + 2.0, "header of v2 {v2}, {reorder:?} {late}");
        }
        let listed = with(ChannelProfiles::List(vec![ProfileName::Rtp]), Reorder::None);
        assert_eq!(listed, v1, "a list is of version 1");
    }
}

/// The mean compressed header of each of four flows that take turns, where there are two CIDs.
fn headers_of_four(rule: Rule) -> [f64; 4] {
    let (filter, rohc) = (Filter { rules: vec![rule] }, Rohc { contexts: 2, ..Rohc::default() });
    let config = Config { filter, rohc: Some(rohc), ..config(Encapsulation::Ule, None, true) };
    let mut pair = Pair::new(&config);
    let mut headers = [0; 4];
    for n in 0..400 {
        let (flow, mut bytes) = (usize::from(n % 4), packet(false, n, 33));
        // A source port of its own.
        bytes[20..22].copy_from_slice(&(6000 + n % 4).to_be_bytes());
        let before = pair.sender.compression().header_out;
        pair.sender.push(Time::ZERO, &Pdu::ip(&bytes)).unwrap();
        headers[flow] += pair.sender.compression().header_out - before;
        pair.carry(Time::ZERO, &[]);
    }
    assert_eq!(pair.ip.len(), 400);
    headers.map(|sum| sum as f64 / 100.0)
}

#[test]
fn a_rule_keeps_a_cid_for_its_first_flow() {
    let keep = |src_port: String| {
        headers_of_four(Rule { src_port: src_port.parse().ok(), cid: Some(1), ..Rule::default() })
    };
    let shared = headers_of_four(Rule::default());
    let losers: Vec<usize> = (0..4).filter(|&flow| shared[flow] > 20.0).collect();
    assert_eq!(losers.len(), 3, "{shared:?}");
    for flow in losers {
        let headers = keep((6000 + flow).to_string());
        assert!(
            headers[flow] < 6.0 && headers.iter().filter(|&&header| header > 20.0).count() == 3,
            "{headers:?}"
        );
    }
    // All four meet the rule: the first one has it.
    let headers = keep("6000-6003".to_owned());
    assert!(headers[0] < 6.0 && headers[1..].iter().all(|&header| header > 20.0), "{headers:?}");
}

#[test]
fn impossible_configurations_are_refused() {
    let key = |config: &Config| Encapsulator::new(config).unwrap_err().key;
    let keeping = |cids: &[u16]| {
        let rules = cids.iter().map(|&cid| Rule { cid: Some(cid), ..Rule::default() });
        Filter { rules: rules.collect() }
    };
    let rohc = Some(Rohc { contexts: 2, ..Rohc::default() });
    for cids in [&[2][..], &[0, 0], &[0, 1]] {
        let config = Config { filter: keeping(cids), rohc: rohc.clone(), ..Config::default() };
        assert_eq!(key(&config), "filter", "{cids:?}");
    }
    assert_eq!(key(&Config { filter: keeping(&[0]), ..Config::default() }), "rohc");
    let small = Rohc { contexts: 17, ..Rohc::default() };
    assert_eq!(key(&Config { rohc: Some(small), ..Config::default() }), "contexts");
    assert_eq!(key(&Config { llc: true, ..Config::default() }), "llc");
    let rule = Rule { profiles: vec![ProfileName::Rtp], ..Rule::default() };
    assert_eq!(key(&Config { filter: Filter { rules: vec![rule] }, ..Config::default() }), "rohc");
    let rule = Rule { dscp: Some(64), ..Rule::default() };
    assert_eq!(key(&Config { filter: Filter { rules: vec![rule] }, ..Config::default() }), "dscp");
}

/// Both refreshes go by packets, by time, or by whichever comes first.
#[test]
fn refreshes_are_those_of_the_compressor() {
    let rohc = Rohc {
        refresh: 350,
        refresh_interval: Span::from_millis(5000),
        dynamic_refresh: 0,
        dynamic_refresh_interval: Span::from_millis(1500),
        ..Rohc::default()
    };
    let (ir, fo) = (rohc.compressor().ir_refresh, rohc.compressor().fo_refresh);
    assert_eq!((ir.packets, ir.interval.as_millis()), (350, 5000));
    assert_eq!((fo.packets, fo.interval.as_millis()), (0, 1500));
    let (ir, fo) = (Rohc::default().compressor().ir_refresh, Rohc::default().compressor().fo_refresh);
    assert_eq!(
        (ir.packets, fo.packets, ir.interval.is_zero(), fo.interval.is_zero()),
        (1700, 700, true, true)
    );
}

#[test]
fn texts_are_read_and_written() {
    for text in ["10.1.0.0/16", "2001:db8::/32", "::/0"] {
        assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
    }
    for text in ["10.1.0.0/33", "10.1", "/3", "::/129", ""] {
        assert!(text.parse::<Prefix>().is_err(), "{text}");
    }
    assert_eq!("7".parse::<Ports>().unwrap().to_string(), "7");
    assert!("9-8".parse::<Ports>().is_err() && "65536".parse::<Ports>().is_err());
    assert_eq!("02:00:00:00:00:01".parse::<Address>().unwrap().to_string(), "02:00:00:00:00:01");
    assert!("00:00:00:00:00:00".parse::<Address>().is_err() && "2:0:0:0:0:1".parse::<Address>().is_err());
    assert_eq!("0x201".parse::<DataPid>().unwrap().to_string(), "0x201");
    assert!("0x1f".parse::<DataPid>().is_err() && "8191".parse::<DataPid>().is_err());
    assert_eq!("47".parse::<Transport>().unwrap().to_string(), "47");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever TS packets are lost or damaged, what comes out as IP was sent, if its bytes are under a CRC.
    #[test]
    fn a_damaged_stream_gives_nothing_that_was_not_sent(
        sizes in proptest::collection::vec(0usize..600, 1..40),
        damage in proptest::collection::vec((0usize..200, 0usize..PACKET_LEN * 8), 0..20),
        mpe in any::<bool>(),
        packing in any::<bool>(),
    ) {
        let encapsulation = if mpe { Encapsulation::Mpe } else { Encapsulation::Ule };
        let config = config(encapsulation, packing.then_some(Span::from_millis(1)), false);
        let mut pair = Pair::new(&config);
        let sent: Vec<_> = sizes.iter().zip(0..).map(|(size, n)| packet(false, n, *size)).collect();
        for bytes in &sent {
            pair.sender.push(Time::ZERO, &Pdu::ip(bytes)).unwrap();
        }
        let mut stream = Vec::new();
        while let Some(packet) = pair.sender.pop(LATE) {
            stream.push(packet);
        }
        for (n, bit) in damage {
            if let Some(packet) = stream.get_mut(n) {
                packet[bit / 8] ^= 1 << (bit % 8);
            }
        }
        for packet in &stream {
            pair.receiver.push(LATE, packet, |event| if let Event::Ip(bytes) = event {
                assert!(sent.iter().any(|sent| sent == bytes));
            });
            prop_assert!(pair.receiver.waiting_len() <= bentpipe_wire::ule::MAX_LEN);
        }
    }
}
