use bentpipe_mpeg::stream::testing::stream;
use bentpipe_wire::pes::Stamp;
use bentpipe_wire::ts::restamp;

use super::*;

type Bytes = [u8; PACKET_LEN];

/// Packets of 1.2 s at a constant rate.
///
/// Every tenth has a clock reference; tables are at the start alone.
fn packets() -> Vec<Bytes> {
    stream(4000, 0).to_bytes().as_chunks().0.to_vec()
}

fn measured(packets: &[Bytes], time_ns: impl Fn(u64) -> Option<u64>) -> (Vec<Indicator>, Vec<Clock>) {
    let mut measurement = Measurement::default();
    let numbered = || (0_u64..).zip(packets);
    numbered().for_each(|(n, packet)| _ = measurement.survey(time_ns(n), packet, true));
    let video = Pid::new(0x100).expect("13 bits");
    measurement.choose_clock(BTreeMap::from([(video, video)]));
    numbered().for_each(|(n, packet)| measurement.add(time_ns(n), packet, true));
    (measurement.indicators(0, SyncFaults::default()), measurement.clocks())
}

fn errors(indicators: &[Indicator], item: &str) -> u64 {
    let found = indicators.iter().find(|of| of.item == item).expect("an indicator");
    found.errors.expect("measured")
}

#[test]
fn a_stream_of_constant_rate_has_no_errors_but_rare_tables() {
    let (found, clocks) = measured(&packets(), |_| None);
    assert_eq!((errors(&found, "1.3.a"), errors(&found, "1.5.a")), (1, 1));
    for item in ["1.1", "1.2", "1.4", "1.6", "2.1", "2.2", "2.3a", "2.3b", "2.4", "2.5", "2.6"] {
        assert_eq!(errors(&found, item), 0, "{item}: {found:?}");
    }
    let clock = &clocks[0];
    assert_eq!((clocks.len(), clock.pid, clock.jitter_s), (1, 0x100, None));
    // Ten packets of 8000 ticks.
    assert!(
        (clock.interval_s[0] - 80_000.0 / 27e6).abs() < 1e-12 && clock.accuracy_s < Some(1e-9),
        "{clock:?}"
    );
}

#[test]
fn each_fault_has_its_indicator() {
    let with = |change: fn(&mut Vec<Bytes>)| {
        let mut packets = packets();
        change(&mut packets);
        measured(&packets, |_| None)
    };
    let (lost, _) = with(|packets| {
        packets.remove(1001);
    });
    assert_eq!(errors(&lost, "1.4"), 1);
    let (damaged, _) = with(|packets| packets[1001][1] |= 0x80);
    assert_eq!((errors(&damaged, "2.1"), errors(&damaged, "1.4")), (1, 0));
    let (late, clocks) = with(|packets| restamp(&mut packets[1000], 27));
    assert_eq!(errors(&late, "2.4"), 1);
    assert!(clocks[0].accuracy_s.is_some_and(|error_s| (error_s - 1e-6).abs() < 5e-8), "{clocks:?}");
    let (jump, _) =
        with(|packets| packets[2000..].iter_mut().for_each(|packet| restamp(packet, 270_000_000)));
    assert_eq!((errors(&jump, "2.3b"), errors(&jump, "2.3a")), (1, 0));
    // Half a second further on by their values, and not by their packets.
    let (jump, _) = with(|packets| packets[2000..].iter_mut().for_each(|packet| restamp(packet, 13_500_000)));
    assert_eq!(errors(&jump, "2.3b"), 1);
    assert_eq!(errors(&jump, "2.4"), 0, "{jump:?}");
    // A millisecond is a step of the clock, and the others are on a line behind it.
    let (step, clocks) =
        with(|packets| packets[2000..].iter_mut().for_each(|packet| restamp(packet, 27_000)));
    assert_eq!((errors(&step, "2.3b"), errors(&step, "2.4")), (0, 1), "{step:?}");
    assert!(clocks[0].accuracy_s.is_some_and(|error_s| (error_s - 1e-3).abs() < 1e-6), "{clocks:?}");
    let (back, _) = with(|packets| {
        packets[1000..2000].iter_mut().for_each(|packet| restamp(packet, 27_000));
        packets[2500..].iter_mut().for_each(|packet| restamp(packet, 54_000));
    });
    assert_eq!(errors(&back, "2.4"), 3, "{back:?}");
    assert_eq!(errors(&lost, "2.4"), 0, "{lost:?}");
    let (late, _) = with(|packets| {
        packets.iter_mut().step_by(200).for_each(|packet| restamp(packet, 27));
    });
    assert!(errors(&late, "2.4") > 10, "{late:?}");
    let (empty, _) = with(|packets| {
        let mut packet = packets[1001];
        (packet[3], packet[4], packet[5]) = (0x20 | (packet[3] + 1) & 15, 183, 0);
        packets.insert(1002, packet);
    });
    assert_eq!(errors(&empty, "1.4"), 1);
    let (crc, _) = with(|packets| packets[0][20] ^= 1);
    assert_eq!((errors(&crc, "2.2"), errors(&crc, "1.3.a")), (1, 1));
    let (scrambled, _) = with(|packets| packets[1001][3] |= 0x80);
    assert_eq!(errors(&scrambled, "2.6"), 1);
}

#[test]
fn missing_packets_have_their_places() {
    let all = packets();
    let pid_of = |n: usize| pid_of(&all[n]);
    let null = (1501..).find(|n| pid_of(*n) == Pid::NULL.number()).unwrap_or(1501);
    let measured = |missing: u64| {
        let mut measurement = Measurement::default();
        let pass = |measurement: &mut Measurement, is_first: bool| {
            for (n, packet) in all.iter().enumerate() {
                match n {
                    _ if n == null => measurement.miss(missing),
                    _ if is_first => _ = measurement.survey(None, packet, true),
                    _ => measurement.add(None, packet, true),
                }
            }
        };
        pass(&mut measurement, true);
        measurement.choose_clock(BTreeMap::new());
        pass(&mut measurement, false);
        errors(&measurement.indicators(0, SyncFaults::default()), "2.4")
    };
    // Their number is known of one, and not used of more.
    assert_eq!([1, 7, 1000].map(measured), [0, 0, 0]);
}

#[test]
fn references_may_be_wrong_missing_or_announced_to_jump() {
    let has_pcr = |packet: &Bytes| packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & 0x10 != 0;
    let without = |packets: &mut Vec<Bytes>, range: std::ops::Range<usize>| {
        packets[range].iter_mut().filter(|packet| has_pcr(packet)).for_each(|packet| packet[5] &= !0x10);
    };
    let count = packets().len();
    // One wrong reference of all is one error, and the others stay on their line.
    let mut wrong = packets();
    restamp(wrong.iter_mut().skip(1000).find(|packet| has_pcr(packet)).expect("a reference"), 27_000);
    let (found, _) = measured(&wrong, |_| None);
    assert_eq!(errors(&found, "2.4"), 1, "{found:?}");
    // Without references for 172 ms both their times and their values are too far apart.
    let mut missing = packets();
    without(&mut missing, 1001..1581);
    let (found, _) = measured(&missing, |_| None);
    assert_eq!((errors(&found, "2.3a"), errors(&found, "2.3b")), (1, 1), "{found:?}");
    // So are they after more than a second.
    let mut gone = packets().repeat(8000_usize.div_ceil(count));
    let step = 8000 * count as u64;
    let turns = gone.chunks_mut(count).zip(0_u64..);
    turns.for_each(|(turn, n)| turn.iter_mut().for_each(|packet| restamp(packet, n * step)));
    without(&mut gone, 1001..6001);
    let (found, _) = measured(&gone, |_| None);
    assert_eq!((errors(&found, "2.3a"), errors(&found, "2.3b")), (1, 1), "{found:?}");
    // A jump of half a second that is announced takes no time.
    let mut jump = packets();
    let at = (2000..).find(|n| has_pcr(&jump[*n])).expect("a reference");
    jump[at][5] |= 0x80;
    jump[at..].iter_mut().for_each(|packet| restamp(packet, 13_500_000));
    let (found, _) = measured(&jump, |_| None);
    let (plain, _) = measured(&packets(), |_| None);
    for item in ["1.3.a", "1.5.a", "2.3a", "2.3b", "2.4", "2.5"] {
        assert_eq!(errors(&found, item), errors(&plain, item), "{item} {found:?}");
    }
}

#[test]
fn times_of_a_capture_give_jitter() {
    // 188 bytes in 8000 ticks of 27 MHz, every other reference 10 us late.
    let time = |n: u64| Some(1_000_000_000_000 + n * 8_000_000 / 27 + if n % 20 == 10 { 10_000 } else { 0 });
    let (found, clocks) = measured(&packets(), time);
    let [deviation_s, range_s] = clocks[0].jitter_s.expect("times");
    assert!((deviation_s - 5e-6).abs() < 2e-7 && (range_s - 10e-6).abs() < 2e-7, "{clocks:?}");
    assert_eq!(errors(&found, "2.3a"), 0);
}

/// Returns the remarks on times of a capture.
fn on_times(indicators: &[Indicator]) -> Vec<&str> {
    indicators.iter().filter(|of| of.name == "times of the capture").map(|of| of.remark.as_str()).collect()
}

#[test]
fn intervals_over_a_step_of_the_captures_clock_are_not_judged() {
    let time = |n: u64| 10_000_000_000_000 + n * 8_000_000 / 27;
    let (plain, _) = measured(&packets(), |n| Some(time(n)));
    assert_eq!(on_times(&plain), [""; 0]);
    let duration = |found: &[Indicator]| {
        let of = found.iter().find(|of| of.name == "duration").expect("a duration");
        of.remark.clone()
    };
    for (step_ns, text) in [
        (-3_600_000_000_000, "steps 3600 s back in front of TS packet 2001, at 0.59"),
        (-500_000_000, "steps 0.5000 s back"),
        (3_600_000_000_000, "steps 3600 s forward"),
    ] {
        let stepped = |n: u64| time(n).checked_add_signed(if n > 2000 { step_ns } else { 0 });
        let (found, clocks) = measured(&packets(), stepped);
        for item in ["1.3.a", "1.5.a", "1.6", "2.3a", "2.3b", "2.4", "2.5"] {
            assert_eq!(errors(&found, item), errors(&plain, item), "{item} {step_ns}: {found:?}");
        }
        let [remark] = on_times(&found)[..] else { panic!("one step: {found:?}") };
        assert!(remark.contains(text), "{remark}");
        assert_eq!(duration(&found), duration(&plain), "{found:?}");
        assert!(clocks[0].jitter_s.is_some_and(|[_, range_s]| range_s < 1e-6), "{clocks:?}");
    }
    // A pause of the sender looks the same, and is judged.
    let (paused, _) = measured(&packets(), |n| Some(time(n) + if n > 2000 { 3_000_000_000 } else { 0 }));
    assert_eq!(errors(&paused, "2.3a"), 1, "{paused:?}");
    assert!(on_times(&paused)[0].contains("3.000 s more than clock references"), "{paused:?}");
    // A delayed stream catches up.
    let delayed = |n: u64| Some(if n < 1000 { time(n) } else { time(n).max(time(1000) + 700_000_000 + n) });
    let (delayed, _) = measured(&packets(), delayed);
    assert_eq!((errors(&delayed, "2.3a"), on_times(&delayed).len()), (1, 0), "{delayed:?}");
}

#[test]
fn captures_without_times_are_measured_by_clock_references() {
    let (by_clock, _) = measured(&packets(), |_| None);
    let (found, clocks) = measured(&packets(), |_| Some(0));
    assert_eq!(found[..found.len() - 1], by_clock[..]);
    assert!(on_times(&found)[0].contains("one time for all packets"), "{found:?}");
    assert_eq!(clocks[0].jitter_s, None);
    // Without references times that go back are a step as well.
    let mut plain = packets();
    plain
        .iter_mut()
        .filter(|packet| packet[3] & 0x20 != 0 && packet[4] > 0)
        .for_each(|packet| packet[5] &= !0x10);
    let back = |n: u64| Some(10_000_000_000 + n * 1000 - if n > 2000 { 5_000_000_000 } else { 0 });
    let (found, _) = measured(&plain, back);
    assert!(on_times(&found)[0].contains("steps 5.000 s back"), "{found:?}");
}

#[test]
fn stamps_are_compared_with_the_clock() {
    // Each 100th packet starts a picture that is decoded 200 ms later, and one of them comes too late.
    let mut packets = packets();
    let starts: Vec<usize> = (100..4000).step_by(100).filter(|n| pid_of(&packets[*n]) == 0x100).collect();
    for &n in &starts {
        let clock = n as u64 * 8000 / 300;
        let dts = Stamp::new(clock + if n == 500 { 0 } else { 18_000 } - u64::from(n == 500) * 90);
        let header = pes::Repr::new(0xe0, Some(Stamp::new(dts.ticks() + 3600)), Some(dts));
        // Behind header and adaptation field of the clock reference.
        packets[n][1] |= 0x40;
        header.emit(&mut packets[n][12..]);
    }
    let mut measurement = Measurement::default();
    packets.iter().for_each(|packet| _ = measurement.survey(None, packet, true));
    let video = Pid::new(0x100).expect("13 bits");
    measurement.choose_clock(BTreeMap::from([(video, video)]));
    packets.iter().for_each(|packet| measurement.add(None, packet, true));
    let json = measurement.stamps().map(|(pid, of, longest_s)| stamps::json(pid, of, longest_s)).next();
    let json = json.expect("time stamps");
    let near = |key: &str, expected: f64| {
        let found = json[key].as_f64().unwrap_or(f64::NAN);
        assert!((found - expected).abs() < 2e-5, "{key}: {found}, expected {expected}");
    };
    assert_eq!(json["pts"].as_u64(), Some(starts.len() as u64));
    assert_eq!((json["late"].as_u64(), json["jumps"].as_u64()), (Some(1), Some(1)));
    near("decoder_delay_max_s", 0.2);
    near("decoder_delay_min_s", -0.001);
    near("reordering_max_s", 0.04);
    near("arrival_gap_max_s", 800_000.0 / 27e6);
}

#[test]
fn a_duplicate_counts_its_picture_once() {
    let mut packets = packets();
    assert_eq!(pid_of(&packets[1000]), 0x100);
    packets[1000][1] |= 0x40;
    pes::Repr::new(0xe0, Some(Stamp::new(90_000)), None).emit(&mut packets[1000][12..]);
    let repeated = |copies: usize| {
        let mut measurement = Measurement::default();
        let all = [&packets[..1000], &vec![packets[1000]; copies], &packets[1001..]].concat();
        all.iter().for_each(|packet| _ = measurement.survey(None, packet, true));
        measurement.choose_clock(BTreeMap::new());
        all.iter().for_each(|packet| measurement.add(None, packet, true));
        let json = measurement.stamps().map(|(pid, of, longest_s)| stamps::json(pid, of, longest_s)).next();
        let pictures = json.expect("time stamps")["pts"].as_u64();
        (pictures, errors(&measurement.indicators(0, SyncFaults::default()), "1.4"))
    };
    assert_eq!([1, 2, 3].map(repeated), [(Some(1), 0), (Some(1), 0), (Some(1), 1)]);
}

fn pid_of(packet: &Bytes) -> u16 {
    Packet::new_checked(packet).map_or(0, |packet| packet.pid().number())
}

#[test]
fn noise_and_nothing_are_measured_too() {
    let (found, clocks) = measured(&[], |_| None);
    assert_eq!((errors(&found, "1.4"), clocks.len()), (0, 0));
    let noise: Vec<Bytes> =
        (0..300_u32).map(|n| std::array::from_fn(|i| (n * 31 + i as u32 * 7) as u8)).collect();
    measured(&noise, |n| (n % 3 == 0).then_some(n * 1000));
}
