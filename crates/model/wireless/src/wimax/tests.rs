use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::testing::{Harness, packet};
use bentpipe_net::{Port, link};
use bentpipe_units::{Bytes, Span, Time};

use bentpipe_net::Packet;
use bentpipe_wire::wman;

use super::*;

mod arq;
mod rohc;

const MS: u64 = 1_000_000;

fn path(station: usize, is_downlink: bool) -> PathConfig {
    PathConfig {
        name: format!("link/{station}/{}", if is_downlink { "forward" } else { "return" }),
        station,
        is_downlink,
        radio: Radio { profile: Some([Profile::Qam64R34, Profile::Qam16R34]), ..Radio::default() },
        flows: Vec::new(),
        queue: Discipline::DropTail(DropTailConfig { packets: Some(10_000), bytes: None }),
        delay: Span::ZERO,
        mtu: Bytes::new(1500),
    }
}

/// Directions of `count` stations: downlink 2n, uplink 2n + 1.
fn paths(count: usize) -> Vec<PathConfig> {
    (0..2 * count).map(|n| path(n / 2, n % 2 == 0)).collect()
}

fn rig(cell: &Cell, paths: &[PathConfig]) -> Harness<Wimax> {
    Harness::new(Wimax::new(cell, paths).expect("possible"))
}

/// Sets the service of the uplink of each station.
fn with_service(count: usize, flow: &ServiceFlow) -> Vec<PathConfig> {
    let mut all = paths(count);
    all.iter_mut().filter(|path| !path.is_downlink).for_each(|path| path.flows = vec![flow.clone()]);
    all
}

/// Cell of the published testbed: 125 symbols of 80 us.
fn testbed() -> Cell {
    Cell { frame: Span::from_millis(10), map_profile: Profile::Qpsk12, ..Cell::default() }
}

/// Delays in ms of packets of `len` bytes sent each 20 ms to a port.
fn delays(rig: &mut Harness<Wimax>, port: u16, len: usize, count: u64) -> Vec<f64> {
    let sent: Vec<u64> = (0..count).map(|n| n * 20 * MS + n * 37_000 % (10 * MS)).collect();
    sent.iter().for_each(|at| rig.receive(*at, port, packet(len)));
    rig.run_until(count * 20 * MS + 2000 * MS);
    let arrived: Vec<u64> =
        rig.out.iter().filter(|(_, out, _)| *out == Port(port)).map(|(at, ..)| at.as_nanos()).collect();
    assert_eq!(arrived.len(), sent.len());
    sent.iter().zip(arrived).map(|(sent, at)| (at - sent) as f64 / MS as f64).collect()
}

fn delivered_bytes(rig: &mut Harness<Wimax>, port: usize) -> f64 {
    let mut seen = Seen(Vec::new());
    let now = Time::from_nanos(1);
    bentpipe_net::Element::observe(&mut rig.element, now, &mut seen);
    seen.0[port]
}

/// Returns the sum of a counter over all connections.
fn total(rig: &mut Harness<Wimax>, name: &'static str) -> f64 {
    let mut seen = Total(name, 0.0);
    bentpipe_net::Element::observe(&mut rig.element, Time::from_nanos(1), &mut seen);
    seen.1
}

struct Total(&'static str, f64);

impl bentpipe_net::Observer for Total {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        if metric.name == self.0 {
            self.1 += total as f64;
        }
    }
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
}

/// Observer of the delivered bytes of each direction.
struct Seen(Vec<f64>);

impl bentpipe_net::Observer for Seen {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        if metric.name == link::metrics::DELIVERED_BYTES.name {
            self.0.push(total as f64);
        }
    }
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
}

/// Sends packets of 1500 bytes to a port for 4 s, more than fit, and returns the rate in Mbit/s.
fn saturated(cell: &Cell, paths: &[PathConfig], ports: &[u16]) -> Vec<f64> {
    let mut rig = rig(cell, paths);
    for n in 0..4000_u64 {
        ports.iter().for_each(|port| rig.receive(n * MS, *port, packet(1500)));
    }
    rig.run_until(4000 * MS);
    ports.iter().map(|port| delivered_bytes(&mut rig, usize::from(*port)) * 8.0 / 4e6).collect()
}

#[test]
fn a_saturated_downlink_carries_what_symbols_allow() {
    let cell = Cell { descriptor_interval: Span::from_secs(100), ..testbed() };
    let found = saturated(&cell, &paths(1), &[0])[0];
    // Of 125 symbols 2 are preamble, 1 FCH. Maps of one burst without allocations: 6 + 8 + 8 and 6 + 7 + 18 bytes, 3
    // symbols of QPSK 1/2. 119 of 108 bytes less the tail; 10 bytes of 1510 are header and CRC.
    let expected = (119.0 * 108.0 - 1.0) * 100.0 * 8.0 / 1e6 * 1500.0 / 1510.0;
    assert!((found / expected - 1.0).abs() < 0.004, "{found} against {expected}");
}

#[test]
fn a_saturated_uplink_carries_what_symbols_allow() {
    let found = saturated(&testbed(), &paths(1), &[1])[0];
    // 8 symbols of ranging, 4 slots of 2, a preamble: 108 of 72 bytes less the tail. A fragment costs a header more.
    let expected = (108.0 * 72.0 - 1.0) * 100.0 * 8.0 / 1e6 * 1500.0 / 1512.0;
    // Request and first grant take some frames of 400.
    assert!((found / expected - 1.0).abs() < 0.015, "{found} against {expected}");
    let whole = Cell { fragmentation: false, ..testbed() };
    let found = saturated(&whole, &paths(1), &[1])[0];
    // Without fragments five packets of 1510 fit into 7775 bytes; until the queue is long, grants are what was asked for.
    let most = 5.0 * 1500.0 * 800.0 / 1e6;
    assert!(found > 0.95 * most && found <= most, "{found}");
    let tdd = Cell { duplex: Duplex::Tdd, ..testbed() };
    let [down, up] = saturated(&tdd, &paths(1), &[0, 1])[..] else { panic!("two") };
    // 122 symbols beside two gaps of 100 us: 61 each.
    assert!(down > 4.3 && down < 4.8 && up > 2.3 && up < 2.6, "{down} {up}");
}

#[test]
fn stations_share_an_uplink_and_the_faster_wins_nothing_by_it() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::ProportionalFair, Scheduler::Deadline] {
        let cell = Cell { scheduler, ..testbed() };
        let found = saturated(&cell, &paths(3), &[1, 3, 5]);
        let total: f64 = found.iter().sum();
        assert!(total > 5.7 && total < 6.3, "{scheduler:?}: {found:?}");
        assert!(found.iter().all(|rate| (rate / total - 1.0 / 3.0).abs() < 0.07), "{scheduler:?}: {found:?}");
    }
}

#[test]
fn a_best_effort_packet_asks_first() {
    let cell = Cell { request_slots: 8, request_backoff: [0, 3], ..testbed() };
    let found = delays(&mut rig(&cell, &paths(1)), 1, 80, 200);
    // Request in the frame after arrival, map in the next, data one later, behind 24 symbols of contention, preamble and
    // two of data: 10 to 20 ms of waiting, then 20 ms.
    let (least, most) =
        (found.iter().copied().fold(f64::MAX, f64::min), found.iter().copied().fold(0.0, f64::max));
    assert!(least > 20.0 && most < 35.0, "{least} to {most}");
    let tdd = Cell { duplex: Duplex::Tdd, frame: Span::from_millis(5), ..cell };
    let found = delays(&mut rig(&tdd, &paths(1)), 1, 80, 200);
    let mean = found.iter().sum::<f64>() / found.len() as f64;
    assert!(mean > 5.0 && mean < 12.0, "{mean}");
}

#[test]
fn ugs_jitter_is_at_most_a_frame_beyond_its_interval() {
    let flow = ServiceFlow { service: Service::Ugs, sdu: Bytes::new(80), ..ServiceFlow::default() };
    for duplex in [Duplex::Fdd, Duplex::Tdd] {
        let cell = Cell { duplex, frame: Span::from_millis(5), ..Cell::default() };
        let mut rig = rig(&cell, &with_service(5, &flow));
        // Arrivals at fixed phases: the delay of each call hardly varies, and is at most an interval and two frames.
        for n in 0..100_u64 {
            (0..5).for_each(|station| {
                rig.receive(n * 20 * MS + station * 1_300_000, 2 * station as u16 + 1, packet(80))
            });
        }
        rig.run_until(4000 * MS);
        for station in 0..5_u64 {
            let port = Port(2 * station as u16 + 1);
            let arrived: Vec<u64> =
                rig.out.iter().filter(|(_, out, _)| *out == port).map(|(at, ..)| at.as_nanos()).collect();
            let delays: Vec<u64> = arrived
                .iter()
                .enumerate()
                .map(|(n, at)| at - n as u64 * 20 * MS - station * 1_300_000)
                .skip(1)
                .collect();
            let (least, most) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
            assert_eq!(arrived.len(), 100);
            assert!(*most <= 30 * MS && most - least <= 5 * MS, "{duplex:?} {station}: {least} to {most}");
        }
    }
}

/// A talker whose clock is 0.4 % fast fills the queue, unless it says so: then the base station grants up to 1 % more.
#[test]
fn the_slip_indicator_empties_the_queue_of_a_fast_clock() {
    let run = |slip_indicator: bool| {
        // 59 bytes and the headers fill a symbol of 72 less the tail.
        let sdu = Bytes::new(if slip_indicator { 59 } else { 61 });
        let flow = ServiceFlow { service: Service::Ugs, sdu, slip_indicator, ..ServiceFlow::default() };
        let cell = Cell { fragmentation: false, frame: Span::from_millis(5), ..Cell::default() };
        let mut rig = rig(&cell, &with_service(1, &flow));
        let (count, interval) = (5000_u64, 19_920_000);
        (0..count).for_each(|n| rig.receive(n * interval, 1, packet(59)));
        rig.run_until(count * interval);
        let last = rig.out.last().expect("packets").2.len();
        assert_eq!(last, 59);
        (count - rig.out.len() as u64, total(&mut rig, "slip-grants"))
    };
    // 5000 packets in 99.6 s, which has 4980 grants.
    let (waiting, extra) = run(false);
    assert!((18..=23).contains(&waiting) && extra == 0.0, "{waiting} {extra}");
    let (waiting, extra) = run(true);
    assert!(waiting <= 3, "{waiting}");
    assert!((15.0..=25.0).contains(&extra) && extra <= 0.01 * 5000.0 + 1.0, "{extra}");
    let other = ServiceFlow { slip_indicator: true, ..ServiceFlow::default() };
    assert_eq!(other.check().expect_err("best effort").key, "slip_indicator");
}

#[test]
fn polls_and_ertps_carry_calls_without_contention() {
    for service in [Service::RtPs, Service::ErtPs] {
        let interval = Some(Span::from_millis(20));
        let flow = ServiceFlow { service, interval, sdu: Bytes::new(80), ..ServiceFlow::default() };
        let mut rig = rig(&testbed(), &with_service(4, &flow));
        let found = delays(&mut rig, 3, 80, 200);
        assert!(found.iter().all(|delay| *delay < 60.0), "{service:?}: {found:?}");
        assert_eq!(total(&mut rig, "bandwidth-requests"), 0.0);
    }
    // Silent ertPS connections get grants for a request only, UGS ones all of theirs.
    let granted = |service| {
        let flow = ServiceFlow { service, sdu: Bytes::new(200), ..ServiceFlow::default() };
        let mut rig = rig(&testbed(), &with_service(1, &flow));
        rig.run_until(10_000 * MS);
        total(&mut rig, "granted-bytes")
    };
    assert!(granted(Service::ErtPs) * 20.0 < granted(Service::Ugs), "shrunk");
}

#[test]
fn packets_are_fragmented_packed_and_come_out_whole_and_in_order() {
    for (fragmentation, packing) in [(true, false), (true, true), (false, true), (false, false)] {
        let cell = Cell { fragmentation, packing, ..testbed() };
        let mut rig = rig(&cell, &paths(2));
        let lens: Vec<usize> = (0..400).map(|n| 40 + n * 37 % 1461).collect();
        for (n, len) in lens.iter().enumerate() {
            (0..4).for_each(|port| rig.receive(n as u64 * 3 * MS, port, packet(*len)));
        }
        rig.run_until(20_000 * MS);
        for port in 0..4 {
            let out: Vec<usize> = rig
                .out
                .iter()
                .filter(|(_, out, _)| *out == Port(port))
                .map(|(.., packet)| packet.len())
                .collect();
            assert_eq!(out, lens, "{fragmentation} {packing} {port}");
        }
        assert_eq!(total(&mut rig, "mac-fragments") > 0.0, fragmentation);
    }
}

#[test]
fn packing_saves_headers() {
    let pdus = |packing| {
        let mut rig = rig(&Cell { packing, ..testbed() }, &paths(1));
        (0..2000).for_each(|n| rig.receive(n * MS, 0, packet(60)));
        rig.run_until(3000 * MS);
        (total(&mut rig, "mac-pdus"), total(&mut rig, "granted-bytes"))
    };
    let ((alone, bytes), (packed, fewer)) = (pdus(false), pdus(true));
    assert_eq!((alone, bytes), (2000.0, 2000.0 * 70.0));
    // Ten packets a frame: two bytes each and ten for all, where they had ten each.
    assert!(packed < 220.0 && (fewer - 2000.0 * 62.0 - packed * 10.0).abs() < 1.0, "{packed} {fewer}");
}

#[test]
fn a_lost_block_loses_the_packets_that_have_bytes_in_it() {
    let mut all = paths(1);
    all[0].radio = Radio { snr: [20.2, 30.0], profile: Some([Profile::Qam64R34; 2]), ..Radio::default() };
    let cell = Cell { fragmentation: false, ..testbed() };
    let mut rig = rig(&cell, &all);
    // One packet a frame: 1310 bytes are 13 blocks, of which a tenth each is lost.
    (0..4000).for_each(|n| rig.receive(n * 10 * MS, 0, packet(1300)));
    rig.run_until(41_000 * MS);
    let expected = 0.9_f64.powi(13);
    let found = rig.out.len() as f64 / 4000.0;
    assert!(
        (found - expected).abs() < 4.0 * (expected * (1.0 - expected) / 4000.0).sqrt(),
        "{found} {expected}"
    );
    assert_eq!(total(&mut rig, "dropped-errors"), 4000.0 - rig.out.len() as f64);
}

#[test]
fn requests_give_up_after_their_attempts() {
    let cell = Cell {
        request_slots: 1,
        request_backoff: [0, 0],
        request_attempts: 3,
        grant_timeout: Span::from_millis(20),
        ..testbed()
    };
    let mut rig = rig(&cell, &paths(2));
    rig.receive(MS, 1, packet(80));
    rig.receive(MS, 3, packet(80));
    rig.run_until(2000 * MS);
    // Two stations in the one slot collide for ever.
    assert!(rig.out.is_empty());
    assert_eq!(
        [total(&mut rig, "bandwidth-requests-collided"), total(&mut rig, "dropped-requests")],
        [6.0, 2.0]
    );
}

#[test]
fn a_processor_limits_packets_per_second() {
    let mut all = paths(1);
    all.iter_mut().for_each(|path| path.radio.packet_rate = Some(500));
    let mut rig = rig(&testbed(), &all);
    for n in 0..4000 {
        rig.receive(n * MS, 0, packet(60));
        rig.receive(n * MS, 1, packet(60));
    }
    rig.run_until(4000 * MS);
    for port in 0..2 {
        let count = rig.out.iter().filter(|(_, out, _)| *out == Port(port)).count();
        assert!((1960..=2000).contains(&count), "{port}: {count}");
    }
}

#[test]
fn classifiers_lead_packets_to_their_service() {
    let voice = ServiceFlow {
        service: Service::Ugs,
        dscp: Some(vec![46]),
        sdu: Bytes::new(80),
        ..ServiceFlow::default()
    };
    let mut all = paths(1);
    all[1].flows = vec![voice, ServiceFlow::default()];
    let mut rig = rig(&testbed(), &all);
    let mut marked = [0; 80];
    (marked[0], marked[1]) = (0x45, 46 << 2);
    for n in 0..500 {
        rig.receive(n * 20 * MS, 1, Packet::from_bytes(&marked));
        (0..40).for_each(|k| rig.receive(n * 20 * MS + k * MS / 4, 1, packet(1500)));
    }
    let mut late = 0;
    rig.run_until(10_100 * MS);
    let voice: Vec<u64> =
        rig.out.iter().filter(|(.., packet)| packet.len() == 80).map(|(at, ..)| at.as_nanos()).collect();
    assert_eq!(voice.len(), 500);
    voice.iter().enumerate().for_each(|(n, at)| late += u64::from(at - n as u64 * 20 * MS > 40 * MS));
    assert_eq!(late, 0, "a full best effort queue does not delay UGS");
}

#[test]
fn what_is_impossible_is_refused() {
    let refused = |cell: Cell| Wimax::new(&cell, &paths(1)).err().expect("refused").impossible.key;
    assert_eq!(refused(Cell { frame: Span::from_millis(7), ..Cell::default() }), "frame");
    assert_eq!(refused(Cell { request_slots: 60, ..Cell::default() }), "request_slots");
    assert_eq!(refused(Cell { request_backoff: [6, 3], ..Cell::default() }), "request_backoff");
    assert_eq!(refused(Cell { downlink_share: 2.0, ..Cell::default() }), "downlink_share");
    let mut all = paths(1);
    all[0].radio = Radio { snr: [10.0, 10.0], profile: Some([Profile::Qam64R34; 2]), ..Radio::default() };
    let error = Wimax::new(&Cell::default(), &all).err().expect("a profile that the SNR does not carry");
    assert_eq!((error.part, error.impossible.key), ("medium", "profile"));
}

/// Packet of zeros with an IP version and a number.
fn numbered(n: u16, len: usize) -> Packet {
    let mut bytes = vec![0; len];
    bytes[0] = 0x45;
    bytes[4..6].copy_from_slice(&n.to_be_bytes());
    Packet::from_bytes(&bytes)
}

/// Sends packets of several lengths in both directions of three stations.
fn traffic(rig: &mut Harness<Wimax>) {
    for n in 0..300 {
        let len = [40, 200, 900, 1500][n % 4];
        rig.receive(n as u64 * 2 * MS, (n % 6) as u16, numbered(n as u16, len));
    }
    rig.run_until(3000 * MS);
}

#[test]
fn bytes_of_bursts_are_those_of_the_packets_and_fill_their_symbols() {
    let record = Some(Record { frames: 2000, ..Record::default() });
    for (packing, duplex, convergence) in [
        (false, Duplex::Fdd, Convergence::Ip),
        (true, Duplex::Tdd, Convergence::Ip),
        (true, Duplex::Fdd, Convergence::EthernetWithoutFcs),
    ] {
        let cell = Cell { packing, duplex, convergence, record, ..Cell::default() };
        let mut rig = rig(&cell, &paths(3));
        let log = AirLog::default();
        rig.element.record(&log);
        traffic(&mut rig);
        assert_eq!(rig.out.len(), 300);
        let frames = log.frames();
        let (mut open, mut whole) = (std::collections::BTreeMap::new(), Vec::<Vec<u8>>::new());
        for burst in frames.iter().flat_map(|frame| &frame.bursts) {
            let pdus = burst.pdus.concat();
            let mut rest = &pdus[..];
            while !rest.is_empty() {
                if let Ok(wman::Header::Request(_)) = wman::Header::parse(rest) {
                    rest = &rest[wman::HEADER_LEN..];
                    continue;
                }
                let pdu = wman::Pdu::new_checked(rest, wman::CrcForm::Ofdma).expect("a PDU");
                for part in pdu.parts() {
                    let part = part.expect("a part");
                    let sdu: &mut Vec<u8> = open.entry(pdu.header.cid).or_default();
                    sdu.extend_from_slice(part.bytes);
                    if matches!(part.fragment, wman::Fragment::Whole | wman::Fragment::Last) {
                        whole.push(std::mem::take(sdu));
                    }
                }
                rest = &rest[pdu.total_len()..];
            }
        }
        let sdu = |n: usize| convergence.sdu(&numbered(n as u16, [40, 200, 900, 1500][n % 4]).to_vec());
        let mut sent: Vec<Vec<u8>> = (0..300).map(sdu).collect();
        sent.sort();
        whole.sort();
        assert!(sent == whole, "packing {packing}: {} SDUs", whole.len());
        // Downlink: areas have the bytes of their bursts.
        let bytes = |frame: &air::Frame| {
            frame
                .bursts
                .iter()
                .filter(|burst| burst.is_downlink)
                .map(|burst| burst.pdus.concat().len())
                .sum::<usize>() as f64
        };
        let area = |area: &air::Area| match area.content {
            air::Content::Burst { profile, .. } => {
                (area.symbols[1] - area.symbols[0]) * profile.bytes() as f64
            }
            _ => 0.0,
        };
        for frame in frames.iter() {
            let used = frame.downlink.iter().map(area).sum::<f64>();
            assert!((used - bytes(frame)).abs() < 1e-6, "{used} of {}", bytes(frame));
            for areas in [&frame.downlink, &frame.uplink] {
                let ends = areas
                    .windows(2)
                    .all(|two| two[0].symbols[1] <= two[1].symbols[0] + 1e-9 || two[1].symbols[0] == 0.0);
                assert!(ends, "areas overlap: {areas:?}");
            }
        }
    }
}

#[test]
fn a_record_changes_nothing() {
    let run = |record: Option<Record>| {
        let mut rig = rig(&Cell { record, ..Cell::default() }, &paths(3));
        let log = AirLog::default();
        rig.element.record(&log);
        traffic(&mut rig);
        let frames = log.frames().len();
        (rig.times(), frames)
    };
    let (plain, none) = run(None);
    let (recorded, frames) = run(Some(Record { from: Span::from_millis(100), frames: 20 }));
    assert_eq!((plain == recorded, none, frames), (true, 0, 20));
}

/// SDU numbers suppressed of IPv4 and UDP: all but length, identification, checksums and UDP length.
fn constant_bytes() -> Phs {
    Phs { bytes: vec![[0, 1], [6, 9], [12, 23]], rules: 16 }
}

/// Sends packets through a cell that suppresses headers. Returns what it counted, and the most rules.
fn suppressed(phs: &Phs, cell: &Cell) -> ([f64; 3], usize) {
    let flow = ServiceFlow { phs: Some(phs.clone()), ..ServiceFlow::default() };
    let mut all = paths(3);
    all.iter_mut().for_each(|path| path.flows = vec![flow.clone()]);
    let record = Some(Record { frames: 2000, ..Record::default() });
    let mut rig = rig(&Cell { record, ..cell.clone() }, &all);
    let log = AirLog::default();
    rig.element.record(&log);
    traffic(&mut rig);
    assert_eq!(rig.out.len(), 300);
    let rules: Vec<_> = rig.element.conns.iter().map(|conn| conn.phs.as_ref().unwrap().rules()).collect();
    let mut restored = Vec::new();
    let mut open = std::collections::BTreeMap::<u16, Vec<u8>>::new();
    for burst in log.frames().iter().flat_map(|frame| &frame.bursts) {
        for bytes in burst.pdus.iter().filter(|pdu| pdu[0] & 0x80 == 0) {
            let pdu = wman::Pdu::new_checked(&bytes[..], wman::CrcForm::Ofdma).expect("a PDU");
            for part in pdu.parts().map(|part| part.expect("a part")) {
                let sdu = open.entry(pdu.header.cid).or_default();
                sdu.extend_from_slice(part.bytes);
                if matches!(part.fragment, wman::Fragment::Whole | wman::Fragment::Last) {
                    let rules = rules[usize::from(pdu.header.cid) - 0x2001];
                    restored.push(wman::phs::restore(rules, &std::mem::take(sdu)).expect("restored"));
                }
            }
        }
    }
    let sdu = |n: usize| cell.convergence.sdu(&numbered(n as u16, [40, 200, 900, 1500][n % 4]).to_vec());
    let mut sent: Vec<Vec<u8>> = (0..300).map(sdu).collect();
    sent.sort();
    restored.sort();
    assert!(sent == restored, "{} SDUs", restored.len());
    let most = rules.iter().map(|rules| rules.len()).max().unwrap_or_default();
    let counts = ["phs-saved-bytes", "phs-unmatched", "mac-fragments"].map(|name| total(&mut rig, name));
    (counts, most)
}

#[test]
fn suppressed_headers_are_restored_and_save_what_the_mask_says() {
    for (packing, convergence) in
        [(false, Convergence::Ip), (true, Convergence::Ip), (true, Convergence::EthernetWithoutFcs)]
    {
        let cell = Cell { packing, convergence, ..Cell::default() };
        // Of Ethernet the header goes too, and the IP header is behind it.
        let (phs, each) = match convergence {
            Convergence::Ip => (constant_bytes(), 18.0),
            _ => (Phs { bytes: vec![[0, 15], [20, 23], [26, 37]], rules: 16 }, 32.0),
        };
        let ([saved, unmatched, fragments], rules) = suppressed(&phs, &cell);
        assert_eq!((saved, unmatched), (300.0 * each, 0.0), "{packing} {convergence:?}");
        assert!(fragments > 0.0 && rules >= 1, "{fragments} {rules}");
    }
}

#[test]
fn packets_without_a_rule_go_whole() {
    // The identification differs from packet to packet, so that each needs a rule of its own.
    let each = Phs { bytes: vec![[0, 7]], rules: 1 };
    let ([saved, unmatched, _], rules) = suppressed(&each, &Cell::default());
    assert_eq!((rules, saved + 8.0 * unmatched), (1, 300.0 * 8.0));
    assert!(unmatched > 0.0, "{unmatched}");
}

#[test]
fn suppression_lets_ugs_grant_less_and_still_carry_each_packet() {
    let phs = Some(constant_bytes());
    let [plain, less] = [None, phs].map(|phs| {
        let sdu = Bytes::new(80);
        let flow = ServiceFlow { service: Service::Ugs, sdu, phs, ..ServiceFlow::default() };
        let mut rig = rig(&testbed(), &with_service(1, &flow));
        let found = delays(&mut rig, 1, 80, 200);
        assert!(found.iter().all(|delay| *delay < 60.0), "{found:?}");
        total(&mut rig, "granted-bytes")
    });
    // Of PDUs of 90 bytes 17 go: 18 are suppressed, and an index is added.
    assert!((less / plain - 73.0 / 90.0).abs() < 1e-9, "{less} of {plain}");
}

#[test]
fn impossible_suppression_is_refused_with_its_key() {
    let refused = |bytes: &[[u8; 2]], rules| {
        let phs = Some(Phs { bytes: bytes.to_vec(), rules });
        ServiceFlow { phs, ..ServiceFlow::default() }.check().expect_err("refused").to_string()
    };
    for bytes in [&[][..], &[[3, 2]], &[[0, 4], [4, 5]], &[[8, 9], [0, 1]], &[[250, 255]]] {
        assert!(refused(bytes, 1).contains("bytes"), "{bytes:?}");
    }
    assert!(refused(&[[0, 1]], 0).contains("rules"));
}
