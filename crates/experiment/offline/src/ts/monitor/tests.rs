use bentpipe_intake::Select;
use bentpipe_units::Rate;
use bentpipe_wire::pes::Stamp;
use bentpipe_wire::psi::{Elementary, Programme};
use bentpipe_wire::rtp;
use bentpipe_wire::section::Encapsulator;
use bentpipe_wire::ts::{Adaptation, Method, NULL_PACKET, RTP_PAYLOAD_TYPE, Repr, SYNC};

use super::*;

type Bytes = [u8; PACKET_LEN];

/// Nanoseconds from packet to packet: 188 bytes at 5.076 Mbit/s.
const STEP_NS: u64 = 8_000_000 / 27;

fn pid(number: u16) -> Pid {
    Pid::new(number).expect("13 bits")
}

/// Packets of a programme: tables every 89 ms, clock references every 3 ms, time stamps every 30 ms.
fn packets(count: u64) -> Vec<Bytes> {
    let programmes = vec![Programme { number: 1, map: pid(0x1000) }];
    let pat = Pat { stream_id: 1, programmes, ..Pat::default() }.to_section();
    let streams = vec![Elementary { kind: 2, pid: pid(0x100), descriptors: Vec::new() }];
    let pmt = Pmt { number: 1, version: 0, clock: pid(0x100), descriptors: Vec::new(), streams };
    let mut tables = [
        (Encapsulator::new(Pid::PAT, Method::Padding), pat),
        (Encapsulator::new(pid(0x1000), Method::Padding), pmt.to_section()),
    ];
    let mut continuity = 0;
    let packet = |n: u64| {
        if let Some((encapsulator, section)) = tables.get_mut((n % 300) as usize) {
            let mut bytes = Vec::new();
            encapsulator.push(section, &mut bytes);
            return *bytes.first_chunk().expect("a packet");
        }
        if n % 10 != 5 && n.is_multiple_of(3) {
            return NULL_PACKET;
        }
        let pcr = (n % 10 == 5).then(|| Pcr::new(n * 8000));
        let adaptation = pcr.map(|pcr| Adaptation { len_bytes: 7, pcr: Some(pcr), ..Adaptation::default() });
        let starts = n % 100 == 5;
        let repr = Repr { unit_start: starts, adaptation, ..Repr::new(pid(0x100), continuity) };
        continuity = (continuity + 1) % 16;
        let mut packet = [0; PACKET_LEN];
        repr.emit(&mut packet);
        if starts {
            let stamp = Stamp::new(n * 8000 / 300 + 9000);
            pes::Repr::new(0xe0, Some(stamp), None).emit(&mut packet[repr.buffer_len()..]);
        }
        packet
    };
    (0..count).map(packet).collect()
}

/// Start of the stream in nanoseconds since 1970.
const START_NS: u64 = 1_700_000_000_000_000_000;

/// Passes packets at their times to a monitor, and returns the alarms with their packet's number.
fn alarms(limits: Limits, packets: &[(u64, Bytes)]) -> (Monitor, Vec<(Indicator, bool)>, Vec<Second>) {
    let mut monitor = Monitor::new(limits, START_NS);
    let (mut found, mut seconds) = (Vec::new(), Vec::new());
    let mut sink = |alarm: &Alarm| found.push((alarm.indicator, alarm.is_over));
    let mut tick_ns = START_NS;
    for (at_ns, packet) in packets {
        while tick_ns + 20_000_000 < START_NS + at_ns {
            tick_ns += 20_000_000;
            seconds.extend(monitor.tick(tick_ns, &mut sink));
        }
        monitor.packet(START_NS + at_ns, packet, &mut sink);
    }
    (monitor, found, seconds)
}

fn timed(packets: Vec<Bytes>) -> Vec<(u64, Bytes)> {
    (0..).zip(packets).map(|(n, packet)| (n * STEP_NS, packet)).collect()
}

#[test]
fn a_good_stream_raises_nothing() {
    let (monitor, found, seconds) = alarms(Limits::default(), &timed(packets(20_000)));
    assert!(found.is_empty() && !monitor.has_alarms(), "{found:?}");
    assert_eq!(seconds.len(), 5);
    let rate = seconds[1].bit_per_s() as f64;
    assert!((rate - 5.076e6).abs() < 0.03 * 5.076e6 && seconds[1].pids == 4, "{:?}", seconds[1]);
    assert!(seconds[1].jitter_s.is_some_and(|jitter_s| jitter_s < 1e-6), "{:?}", seconds[1]);
    assert!(monitor.summary(false).contains("programme 1: PMT 0x1000, streams 0x0100"));
}

#[test]
fn each_fault_raises_its_alarm() {
    let only = |keep: &dyn Fn(u64, &Bytes) -> bool| -> Vec<(Indicator, bool)> {
        let mut all = timed(packets(30_000));
        let mut n = 0;
        all.retain(|(_, packet)| {
            n += 1;
            keep(n, packet)
        });
        alarms(Limits::default(), &all).1
    };
    let number = |packet: &Bytes| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
    let within = |n: u64| (5000..10_000).contains(&n);
    let lost = only(&|n, _| n != 5003);
    assert_eq!(lost, [(Indicator::Continuity, false)]);
    let pat = only(&|n, packet| !within(n) || number(packet) != 0);
    assert!(pat[0] == (Indicator::Pat, false) && pat.contains(&(Indicator::Pat, true)), "{pat:?}");
    let pmt = only(&|n, packet| !within(n) || number(packet) != 0x1000);
    assert!(pmt[0] == (Indicator::Pmt, false) && pmt.contains(&(Indicator::Pmt, true)), "{pmt:?}");
    // Without the packets of references and stamps there are gaps of the counter too.
    let pcr = only(&|n, packet| !within(n) || packet[3] & 0x20 == 0);
    assert!(
        pcr.contains(&(Indicator::PcrRepetition, false)) && pcr.contains(&(Indicator::PcrRepetition, true))
    );
    let pts = only(&|n, packet| !within(n) || packet[1] & 0x40 == 0 || number(packet) != 0x100);
    assert!(pts.contains(&(Indicator::Pts, false)) && pts.contains(&(Indicator::Pts, true)), "{pts:?}");
    let gone = only(&|n, packet| n < 5000 || number(packet) != 0x100);
    assert!(
        gone.contains(&(Indicator::Pid, false)) && !gone.contains(&(Indicator::SyncLoss, false)),
        "{gone:?}"
    );
    let mut marked = timed(packets(5000));
    marked[2000].1[1] |= 0x80;
    assert!(alarms(Limits::default(), &marked).1.contains(&(Indicator::Transport, false)));
    let mut wrong = timed(packets(5000));
    wrong[300].1[12] ^= 1;
    assert!(alarms(Limits::default(), &wrong).1.contains(&(Indicator::Crc, false)));
    let mut jump = timed(packets(5000));
    jump[2000..].iter_mut().for_each(|(_, packet)| bentpipe_wire::ts::restamp(packet, 270_000_000));
    assert_eq!(alarms(Limits::default(), &jump).1, [(Indicator::PcrDiscontinuity, false)]);
    // A jump of half a second takes no time.
    let mut jump = timed(packets(5000));
    jump[2000..].iter_mut().for_each(|(_, packet)| bentpipe_wire::ts::restamp(packet, 13_500_000));
    assert_eq!(alarms(Limits::default(), &jump).1, [(Indicator::PcrDiscontinuity, false)]);
    // References that are missing are apart by values and arrivals.
    let mut rare = timed(packets(5000));
    let has_pcr = |packet: &Bytes| packet[3] & 0x20 != 0 && packet[4] > 0;
    rare[2000..2600].iter_mut().filter(|(_, packet)| has_pcr(packet)).for_each(|(_, packet)| packet[5] = 0);
    let found = alarms(Limits::default(), &rare).1;
    assert_eq!(found, [(Indicator::PcrDiscontinuity, false), (Indicator::PcrRepetition, false)]);
}

#[test]
fn alarms_of_other_pids_are_not_raised() {
    let mut all = timed(packets(5000));
    all[2003].1[1] |= 0x80;
    all.remove(1003);
    let raised = |pids: &[Pid]| {
        let mut monitor = Monitor::new(Limits::default(), START_NS).only(pids);
        let mut found = Vec::new();
        for (at_ns, packet) in &all {
            monitor.packet(START_NS + at_ns, packet, &mut |alarm| found.push(alarm.indicator));
        }
        found
    };
    assert!(raised(&[]).contains(&Indicator::Continuity) && raised(&[pid(0x100)]) == raised(&[]));
    assert_eq!(raised(&[pid(0x101)]), []);
}

#[test]
fn silence_is_one_alarm() {
    let mut all = timed(packets(20_000));
    all[10_000..].iter_mut().for_each(|(at_ns, packet)| {
        *at_ns += 2_000_000_000;
        bentpipe_wire::ts::restamp(packet, 54_000_000);
    });
    let (_, found, _) = alarms(Limits::default(), &all);
    let expected =
        [(Indicator::SyncLoss, false), (Indicator::SyncLoss, true), (Indicator::PcrDiscontinuity, false)];
    assert_eq!(found, expected);
}

#[test]
fn a_rate_outside_of_its_band_is_an_alarm_until_it_returns() {
    let limits = Limits {
        rate: [Some(Rate::from_bps(4_000_000)), Some(Rate::from_bps(6_000_000))],
        ..Limits::default()
    };
    let mut all = timed(packets(20_000));
    // NULL packets are left out for two seconds.
    let mut n = 0;
    all.retain(|(_, packet)| {
        n += 1;
        !(4000..11_000).contains(&n) || packet != &NULL_PACKET
    });
    let (_, found, _) = alarms(limits, &all);
    assert_eq!(found, [(Indicator::Rate, false), (Indicator::Rate, true)]);
}

/// Datagrams by the port of their sender, and the alarms with the place of their stream.
fn pushed(
    datagrams: impl Iterator<Item = (u16, Vec<u8>)>,
    gap_ns: u64,
) -> (Monitors, Vec<(usize, Indicator)>) {
    let mut monitors = Monitors::new(Limits::default(), Select::default(), START_NS);
    let mut found = Vec::new();
    for (n, (port, datagram)) in (0..).zip(datagrams) {
        let ends = (([127, 0, 0, 1], port).into(), ([127, 0, 0, 1], 5004).into());
        let mut sink = |place, alarm: &Alarm| found.push((place, alarm.indicator));
        monitors.push(START_NS + n * gap_ns, ends, &datagram, &mut sink);
    }
    (monitors, found)
}

#[test]
fn a_live_input_is_taken_in_as_a_file_is() {
    let stream = packets(4000).concat();
    let pieces: Vec<&[u8]> = stream.chunks(1316).collect();
    let count = pieces.len() as u64;
    // Two senders, and datagrams of others.
    let both = pieces.iter().flat_map(|piece| [(9, piece.to_vec()), (10, piece.to_vec()), (53, vec![1; 30])]);
    let (mut monitors, found) = pushed(both, 7 * STEP_NS / 3);
    monitors.finish(START_NS, &mut |_, _| {}).expect("no file");
    assert_eq!((monitors.all().len(), found), (2, vec![]));
    let json = monitors.json("udp://x");
    assert_eq!(json["streams"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["intake"]["used"]["records"], 2 * count);
    assert_eq!(
        (&json["datagrams_of_no_stream"], &json["streams"][0]["datagrams"]["plain"]),
        (&count.into(), &count.into())
    );
    assert_eq!(monitors.summary(false).matches(" of no stream").count(), 1);
    assert_eq!(json["intake"]["left_out"][0]["detail"], "of UDP without TS packets");
    assert!(monitors.summary(false).contains("127.0.0.1:10 to 127.0.0.1:5004"));
    // RTP with contributing sources, twice, with RTCP in between.
    let rtp = |(n, payload): (usize, &&[u8])| {
        let mut header = [0; rtp::HEADER_LEN];
        rtp::Repr::new(100, n as u16, 0, 1).emit(&mut header);
        header[0] |= 2;
        let packet = [&header[..], &[0; 8], payload].concat();
        [(9, packet.clone()), (9, packet), (9, [&[0x80, 200, 0, 6][..], &[0; 24]].concat())]
    };
    let (mut monitors, found) = pushed(pieces.iter().enumerate().flat_map(rtp), 7 * STEP_NS / 3);
    monitors.finish(START_NS, &mut |_, _| {}).expect("no file");
    assert_eq!((monitors.all().len(), found), (1, vec![]));
    assert_eq!((monitors.account().used.records, monitors.account().duplicated()), (count, count));
    // Packets of 192 bytes, cut anywhere.
    let long: Vec<u8> = packets(4000).iter().flat_map(|packet| [&[7; 4][..], packet].concat()).collect();
    let (monitors, found) = pushed(long.chunks(1472).map(|piece| (9, piece.to_vec())), 1472 * STEP_NS / 192);
    assert_eq!((monitors.all().len(), found), (1, vec![]));
    let packets = monitors.all()[0].pids.values().map(|state| state.packets).sum::<u64>();
    assert!(packets > 3990, "{packets}");
}

#[test]
fn datagrams_may_be_rtp_or_end_within_packets() {
    let stream = packets(4000).concat();
    let run = |datagrams: Vec<Vec<u8>>, gap_ns: u64| {
        let (mut monitors, found) = pushed(datagrams.into_iter().map(|datagram| (9, datagram)), gap_ns);
        monitors.finish(START_NS, &mut |_, _| {}).expect("no file");
        let packets = monitors.all()[0].pids.values().map(|state| state.packets).sum::<u64>();
        let found = found.into_iter().map(|(_, indicator)| indicator).collect::<Vec<_>>();
        assert_eq!(monitors.all().len(), 1);
        (packets, found, monitors.account().used.records)
    };
    let pieces: Vec<Vec<u8>> = stream.chunks(1472).map(<[u8]>::to_vec).collect();
    let count = pieces.len() as u64;
    let (found, raised, datagrams) = run(pieces, 1472 * STEP_NS / 188);
    assert_eq!((found, raised.len(), datagrams), (4000, 0, count));
    let with_rtp = |(n, payload): (usize, &[u8])| {
        let mut header = [0; rtp::HEADER_LEN];
        rtp::Repr::new(RTP_PAYLOAD_TYPE, n as u16, 0, 1).emit(&mut header);
        [&header[..], payload].concat()
    };
    let mut datagrams: Vec<Vec<u8>> = stream.chunks(1316).enumerate().map(with_rtp).collect();
    let (found, raised, _) = run(datagrams.clone(), 7 * STEP_NS);
    assert_eq!((found, raised.len()), (4000, 0));
    datagrams.remove(100);
    let (_, raised, _) = run(datagrams, 7 * STEP_NS);
    assert_eq!(raised, [Indicator::Rtp, Indicator::Continuity]);
}

#[test]
fn hostile_datagrams_cost_bounded_memory_and_lines() {
    let (mut monitor, mut lines) = (Monitors::new(Limits::default(), Select::default(), START_NS), 0_u64);
    let ends = (([127, 0, 0, 1], 9).into(), ([127, 0, 0, 1], 5004).into());
    let mut state = 1_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    for n in 0..40_000_u64 {
        let mut datagram: Vec<u8> = (0..188 * (1 + n % 3) + n % 5).map(|_| next()).collect();
        if n % 2 == 0 {
            datagram.truncate(188);
            datagram[0] = SYNC;
            datagram[3] &= 0x3f;
        }
        monitor.push(START_NS + n * 1000, ends, &datagram, &mut |_, _| lines += 1);
    }
    monitor.tick(START_NS + 500_000_000, &mut |_, _| lines += 1, |_, _| {});
    let one = &monitor.all()[0];
    assert!(lines <= MAX_ALARMS && one.raised.values().sum::<u64>() > 10_000, "{lines}");
    assert!(one.pids.len() <= 1 << 13 && one.maps.len() <= MAX_MAPS);
    assert!(monitor.all().len() <= MAX_MONITORS);
    monitor.finish(START_NS, &mut |_, _| {}).expect("no file");
}

#[test]
fn nothing_at_all_is_an_alarm_at_the_end() {
    let mut monitor = Monitor::new(Limits::default(), START_NS);
    assert!(monitor.tick(START_NS + 5_000_000_000, &mut |_| {}).is_some() && !monitor.has_alarms());
    monitor.finish(START_NS + 5_000_000_000, &mut |_| {}).expect("no file");
    assert!(monitor.has_alarms());
}
