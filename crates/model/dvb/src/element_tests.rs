use bentpipe_net::LONGEST_HEADERS;
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::testing::Harness;
use bentpipe_net::{Channel, Packet, Port, channel};
use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::bbframe;
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::udp;
use bentpipe_wire::{psi, section, ts};

use super::*;

/// A UDP packet of `len` bytes with IPv4 header, its payload elided.
fn packet(n: u16, len: usize) -> Packet {
    let udp = udp::Repr { src_port: 4000, dst_port: n, payload_len: len - 28 };
    let ip = ip::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::UDP, len - 20);
    let mut packet = Packet::new(28, len as u32 - 28);
    ip.emit(packet.header_mut());
    udp.emit(&mut packet.header_mut()[20..]);
    packet.set_created_at(Time::from_nanos(n.into()));
    packet
}

fn path(dvb: Config) -> PathConfig {
    PathConfig {
        common: None,
        name: "link/sky/forward".into(),
        dvb,
        modcod: None,
        // Far more than any test sends.
        queue: Discipline::DropTail(DropTailConfig { packets: Some(1_000_000), bytes: None }),
        delay: Span::from_millis(250),
        mtu: Bytes::new(1500),
    }
}

fn transport_stream(rate: &str, group: u32) -> Line {
    Line::TransportStream { rate: rate.parse().unwrap(), group, buffers: 2, tables: None }
}

fn s2(symbol_rate: u64, modcod: &str, steps: Vec<Step>) -> Line {
    Line::DvbS2 {
        symbol_rate,
        modcod: modcod.parse().unwrap(),
        frame: FrameSize::Normal,
        pilots: false,
        roll_off: RollOff::R020,
        steps,
        es_n0_db: None,
        margin_db: 0.0,
        reaction: Span::ZERO,
        input_streams: InputStreams::Single,
        tables: None,
    }
}

fn gse() -> Config {
    Config { encapsulation: Encapsulation::Gse, ..Config::default() }
}

fn sender(line: &Line, dvb: Config) -> Harness<Sender> {
    Harness::new(Sender::new(line, &[path(dvb)]).unwrap())
}

fn unit(packet: &Packet) -> &Unit {
    packet.carried().expect("a TS packet or a frame")
}

const MS: u64 = 1_000_000;
const DELAY: u64 = 250 * MS;

/// EN 300 421: 2 bits per symbol, the inner code, 188 of 204 bytes. The rates of 27.5 Msymbol/s are in kbit/s.
#[test]
fn dvb_s_has_the_rates_of_its_symbols() {
    let codes = [
        (CodeRate::Half, 25_343),
        (CodeRate::TwoThirds, 33_790),
        (CodeRate::ThreeQuarters, 38_014),
        (CodeRate::FiveSixths, 42_238),
        (CodeRate::SevenEighths, 44_350),
    ];
    for (code_rate, kbps) in codes {
        let line = Line::DvbS { symbol_rate: 27_500_000, code_rate, tables: None };
        assert_eq!(line.rate().as_bps() / 1000, kbps, "{code_rate:?}");
        assert_eq!(line.bandwidth_hz(), Some(37_125_000));
    }
}

/// EN 302 307-1, table 13: spectral efficiency of normal FECFRAMEs without pilots.
#[test]
fn dvb_s2_has_the_efficiencies_of_its_modcods() {
    let table =
        [("QPSK 1/4", 0.490243), ("QPSK 3/4", 1.487473), ("8PSK 2/3", 1.980636), ("32APSK 9/10", 4.453027)];
    for (modcod, efficiency) in table {
        let rate = s2(1_000_000_000, modcod, Vec::new()).rate().as_bps() as f64 / 1e9;
        assert!((rate - efficiency).abs() < 1e-6, "{modcod}: {rate}");
    }
}

#[test]
fn slots_are_exact_and_nulls_cost_nothing() {
    // 188 us a TS packet.
    let mut rig = sender(&transport_stream("8 Mbit/s", 1), Config::default());
    rig.receive(1, 0, packet(1, 100));
    rig.receive(376_000, 0, packet(2, 100));
    let hour = 3_600_000 * MS;
    rig.receive(hour + 1, 0, packet(3, 300));
    rig.run_until(hour + 1000 * MS);
    let slot = |n: u64| n * 188_000 + DELAY;
    // The first slot had begun; one that begins at that instant is free. An hour is 19148936.17 slots.
    let first = hour / 188_000 + 1;
    let at: Vec<u64> = rig.times().iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [slot(2), slot(3), slot(first + 1), slot(first + 2)]);
    assert!(rig.out.iter().all(|(_, _, packet)| packet.len() == 188));
    let slots = (hour + 1000 * MS) / 188_000 + 1;
    assert_eq!((rig.value("nulls"), rig.value("units-sent")), ((slots - 4) as f64, 4.0));
    assert_eq!(rig.value("delivered-bytes"), 500.0);
}

/// Groups of 6 slots of 188 us. With 2B buffers a group is fixed B - 1 groups before it begins.
#[test]
fn a_card_sends_once_half_of_its_buffers_are_full() {
    for (buffers, first) in [(2, 6), (4, 12), (10, 30)] {
        let Line::TransportStream { rate, group, tables, .. } = transport_stream("8 Mbit/s", 6) else {
            unreachable!()
        };
        let mut rig = sender(&Line::TransportStream { rate, group, buffers, tables }, Config::default());
        rig.receive(1, 0, packet(1, 100));
        rig.run_until(1000 * MS);
        let at: Vec<u64> = rig.times().iter().map(|(at, _)| *at).collect();
        assert_eq!(at, [(first + 1) * 188_000 + DELAY], "{buffers} buffers");
    }
    let odd = Line::TransportStream { rate: Rate::from_bps(8_000_000), group: 6, buffers: 3, tables: None };
    assert!(Sender::new(&odd, &[path(Config::default())]).is_err());
}

/// A packet in slot 2 waits for the end of its buffer.
#[test]
fn a_receiver_hands_over_full_buffers() {
    for (packets, end) in [(1, 3), (3, 3), (5, 5), (12, 12)] {
        let line = transport_stream("8 Mbit/s", 1);
        let mut rig = sender(&line, Config::default());
        rig.receive(376_000, 0, packet(1, 100));
        rig.run_until(1000 * MS);
        let (at, _, sent) = rig.out.remove(0);
        let receiver =
            Receiver::new(&Config::default()).expect("possible").behind_card(Slots::new(&line), packets);
        let mut receiver = Harness::new(receiver);
        receiver.receive(at.as_nanos(), 0, sent);
        receiver.run_until(1000 * MS);
        let came: Vec<u64> = receiver.times().iter().map(|(at, _)| *at).collect();
        assert_eq!(came, [end * 188_000 + DELAY], "{packets} TS packets");
    }
}

#[test]
fn a_rate_that_is_no_whole_number_does_not_drift() {
    let line = Line::DvbS { symbol_rate: 27_500_000, code_rate: CodeRate::SevenEighths, tables: None };
    let mut rig = sender(&line, Config::default());
    for n in 0..20_000 {
        rig.receive(0, 0, packet(n, 100));
    }
    rig.run_until(2000 * MS);
    // 816 * 8 / 7 symbols each.
    let exact = |n: u64| (n * 816 * 8 * 1_000_000_000).div_ceil(7 * 27_500_000) + DELAY;
    assert_eq!(rig.out.len(), 20_000);
    for (n, (at, ..)) in rig.out.iter().enumerate() {
        assert_eq!(at.as_nanos(), exact(n as u64 + 1));
    }
}

#[test]
fn streams_take_turns_in_one_multiplex() {
    let with_pid = |pid| Config { pid: DataPid::new(pid).unwrap(), ..Config::default() };
    let near = PathConfig { delay: Span::from_millis(10), ..path(with_pid(0x201)) };
    let paths = [near, path(with_pid(0x202)), path(with_pid(0x203))];
    let mut rig = Harness::new(Sender::new(&transport_stream("8 Mbit/s", 1), &paths).unwrap());
    for n in 0..60 {
        rig.receive(0, n % 2, packet(n, 150));
    }
    rig.run_until(1000 * MS);
    assert_eq!(rig.out.len(), 60);
    assert!(rig.out.is_sorted_by_key(|(at, ..)| *at), "streams of different delay");
    for (at, port, packet) in &rig.out {
        let delay = if port.0 == 0 { 10 * MS } else { DELAY };
        let slot = (at.as_nanos() - delay) / 188_000;
        assert_eq!((at.as_nanos() - delay) % 188_000, 0);
        assert_eq!((slot - 1) % 2, u64::from(port.0), "each other slot, from the first one on");
        let ts = ts::Packet::new_checked(&unit(packet).bytes).unwrap();
        assert_eq!(ts.pid().number(), 0x201 + port.0);
    }
    let same = [path(with_pid(0x201)), path(with_pid(0x201))];
    let refusal = Sender::new(&transport_stream("8 Mbit/s", 1), &same).err().unwrap();
    assert_eq!((refusal.path, refusal.impossible.key), (Some(1), "pid"));
}

#[test]
fn groups_are_fixed_when_they_begin() {
    let mut rig = sender(&transport_stream("8 Mbit/s", 6), Config::default());
    // Groups begin at 0, 1128 us, 2256 us. The second packet misses the second group.
    rig.receive(1000, 0, packet(1, 100));
    rig.receive(1_200_000, 0, packet(2, 100));
    rig.run_until(1000 * MS);
    let at: Vec<u64> = rig.times().iter().map(|(at, _)| *at - DELAY).collect();
    assert_eq!(at, [7 * 188_000, 13 * 188_000]);
}

#[test]
fn a_packing_threshold_delays_a_lone_packet_by_itself_and_a_slot() {
    let threshold = Span::from_millis(1);
    let config = Config { packing: Some(threshold), ..Config::default() };
    let mut rig = sender(&transport_stream("8 Mbit/s", 1), config);
    rig.receive(10, 0, packet(1, 100));
    rig.run_until(1000 * MS);
    // Due after 1,000,010 ns: the slot from 6 x 188 us on.
    assert_eq!(rig.times(), [(7 * 188_000 + DELAY, 188)]);
    assert_eq!(rig.value("units-flushed"), 1.0);
}

/// A saturated line carries what the arithmetic of TS packets gives. Padded, one SNDU takes ceil((S + 1) / 184) TS
/// packets (seed equation 12 is where that jumps). Packed, it takes (S + 1) x 188 / 184 bytes, or S x 188 / 183 while
/// each TS packet has an SNDU's start in it.
#[test]
fn a_saturated_line_carries_what_the_arithmetic_says() {
    for len in [40, 96, 175, 176, 359, 360, 576, 1500] {
        for packing in [None, Some(Span::from_micros(183))] {
            let config = Config { packing, ..Config::default() };
            let mut rig = sender(&transport_stream("8 Mbit/s", 1), config);
            let sndu = len + 8;
            let count = 8_000_000 / 8 / sndu * 2;
            for n in 0..count {
                rig.receive(0, 0, packet(n as u16, len));
            }
            rig.run_until(1000 * MS + DELAY);
            let expected = match packing {
                None => (sndu + 1).div_ceil(184) as f64 * 188.0,
                Some(_) if sndu <= 183 => sndu as f64 * 188.0 / 183.0,
                Some(_) => (sndu + 1) as f64 * 188.0 / 184.0,
            };
            let measured = 1e6 / rig.value("delivered");
            // Rules (ii) and (iii) of RFC 4326 section 6.2 waste a byte now and then.
            assert!(
                (0.99..1.015).contains(&(measured / expected)),
                "{len} {packing:?}: {measured} {expected}"
            );
        }
    }
}

#[test]
fn whole_packets_are_dropped() {
    let queue = Discipline::DropTail(DropTailConfig { packets: Some(10), ..DropTailConfig::default() });
    let paths = [PathConfig { queue, ..path(Config::default()) }];
    let mut rig = Harness::new(Sender::new(&transport_stream("8 Mbit/s", 1), &paths).unwrap());
    for n in 0..100 {
        rig.receive(5, 0, packet(n, 1000));
    }
    rig.receive(6, 0, packet(0, 1501));
    rig.run_until(1000 * MS);
    assert_eq!((rig.value("delivered"), rig.value("dropped-too-big")), (11.0, 1.0));
    assert_eq!(rig.out.len(), 66);
}

#[test]
fn a_receiver_returns_packets_and_their_creation_times() {
    let rohc =
        Config { rohc: Some(Rohc::default()), packing: Some(Span::from_millis(1)), ..Config::default() };
    let in_frames = Config { encapsulation: Encapsulation::Gse, ..rohc.clone() };
    let bridged = Config { bridged: true, ..rohc.clone() };
    let bridged_frames = Config { bridged: true, rohc: None, ..in_frames.clone() };
    let s2 = || s2(5_000_000, "8PSK 3/4", Vec::new());
    let ts = || transport_stream("8 Mbit/s", 1);
    let lines = [(ts(), rohc), (ts(), bridged), (s2(), in_frames), (s2(), bridged_frames)];
    for (line, config) in lines {
        let mut rig = sender(&line, config.clone());
        for n in 0..500 {
            rig.receive(u64::from(n) * 300_000, 0, packet(n, 40 + usize::from(n) % 900));
        }
        rig.run_until(2000 * MS);
        let mut receiver = Harness::new(Receiver::new(&config).unwrap());
        for (at, _, packet) in std::mem::take(&mut rig.out) {
            receiver.receive(at.as_nanos(), 0, packet);
        }
        assert_eq!(receiver.out.len(), 500);
        for (n, (at, _, got)) in (0..).zip(&receiver.out) {
            let sent = packet(n, 40 + usize::from(n) % 900);
            assert_eq!(got.to_vec(), sent.to_vec());
            assert_eq!(
                (got.created_at(), got.elided() > 0),
                (sent.created_at(), sent.len() > LONGEST_HEADERS)
            );
            assert!(*at >= Time::from_nanos(u64::from(n) * 300_000 + DELAY));
        }
        assert_eq!((receiver.value("altered"), receiver.value("rohc-refused")), (0.0, 0.0));
    }
}

/// A bridged packet takes an Ethernet header, ULE's header and its CRC (RFC 4326). They are 14 and 8 bytes.
#[test]
fn a_bridged_packet_takes_the_bytes_of_its_frame() {
    for (is_bridged, overhead) in [(false, 8), (true, 22)] {
        let config = Config { bridged: is_bridged, ..Config::default() };
        let mut rig = sender(&transport_stream("8 Mbit/s", 1), config.clone());
        rig.receive(0, 0, packet(1, 1000));
        rig.run_until(1000 * MS);
        assert_eq!(rig.value("sndu-bytes"), f64::from(1000 + overhead));
        let packed = Config { packing: Some(Span::from_millis(1)), ..config };
        let share = (1000.0 + f64::from(overhead) + 1.0) * 188.0 / 184.0;
        assert_eq!(packed.line_len(1000).get() as f64, share.ceil());
    }
    let mpe = Config { bridged: true, encapsulation: Encapsulation::Mpe, ..Config::default() };
    assert_eq!(mpe.check().expect_err("MPE carries IP").key, "bridged");
}

#[test]
fn creation_times_outlive_lost_units() {
    let config = Config { packing: Some(Span::from_millis(1)), ..Config::default() };
    let mut rig = sender(&transport_stream("8 Mbit/s", 1), config.clone());
    for n in 0..300 {
        rig.receive(0, 0, packet(n, 50 + usize::from(n) % 300));
    }
    rig.run_until(2000 * MS);
    let mut receiver = Harness::new(Receiver::new(&config).unwrap());
    for (n, (at, _, packet)) in std::mem::take(&mut rig.out).into_iter().enumerate() {
        if n % 7 != 3 {
            receiver.receive(at.as_nanos(), 0, packet);
        }
    }
    assert!((100..300).contains(&receiver.out.len()));
    for (_, _, packet) in &receiver.out {
        let port = u16::from_be_bytes(packet.header()[22..24].try_into().unwrap());
        assert_eq!(packet.created_at(), Time::from_nanos(port.into()));
    }
}

#[test]
fn frames_of_one_modcod_stand_on_a_grid() {
    // 32490 symbols of QPSK 3/4: 6498 us at 5 Msymbol/s.
    let mut rig = sender(&s2(5_000_000, "QPSK 3/4", Vec::new()), gse());
    rig.receive(1, 0, packet(1, 1000));
    rig.receive(2, 0, packet(2, 1000));
    rig.run_until(1000 * MS);
    assert_eq!(rig.out.len(), 1);
    let (at, _, frame) = &rig.out[0];
    assert_eq!(at.as_nanos(), 2 * 6_498_000 + DELAY);
    let (header, field) = bbframe::parse(&unit(frame).bytes).unwrap();
    assert!(header.is_constant && field.len() == 2 * 1004);
}

/// A packet in each frame fills a sixth of it. The carrier sends data for that part of the time, and padding counts as
/// sent.
#[test]
fn padding_is_sent_and_is_no_data() {
    let mut rig = sender(&s2(5_000_000, "QPSK 3/4", Vec::new()), gse());
    (0..100).for_each(|n| rig.receive(n * 6_498_000, 0, packet(1, 1000)));
    rig.run_until(100 * 6_498_000);
    let filling = 1004.0 / 6041.0;
    let mut is_near = |name: &str, expected: f64| {
        let value = rig.value(name);
        assert!((value / expected - 1.0).abs() < 0.03, "{name}: {value} {expected}");
    };
    is_near("filling", filling);
    is_near("utilisation", filling);
    is_near("efficiency", 1000.0 / 6051.0);
    assert_eq!(rig.value("units-sent-bytes"), rig.value("packets-in") * 6051.0);
}

/// A fade of 10 dB brings a more robust MODCOD, after some losses.
#[test]
fn modcods_follow_the_signal() {
    let step = |at, es_n0_db| Step { at: Span::from_millis(at), modcod: None, es_n0_db: Some(es_n0_db) };
    let steps = vec![step(0, 11.0), step(500, 1.0), step(700, 11.0)];
    let mut line = s2(5_000_000, "QPSK 1/4", steps);
    let Line::DvbS2 { reaction, .. } = &mut line else { unreachable!() };
    *reaction = Span::from_millis(100);
    let mut rig = sender(&line, gse());
    let (mut n, mut modulations) = (0, Vec::new());
    for at in (0..1000).step_by(2) {
        for _ in 0..4 {
            rig.receive(at * MS, 0, packet(n, 1400));
            n += 1;
        }
        if [400, 550, 650].contains(&at) {
            modulations.push((rig.value("modcod"), rig.value("es-n0")));
        }
    }
    rig.run_until(10_000 * MS);
    assert_eq!(modulations, [(19.0, 11.0), (19.0, 1.0), (4.0, 1.0)], "16APSK 3/4, then QPSK 1/2");
    // Data fields of 6041 bytes, 16,686 symbols of 5 Msymbol/s for a PLFRAME of 16APSK.
    let frame_s =
        f64::from(bbframe::Modcod::new(19).unwrap().frame_symbols(bbframe::FrameSize::Normal, false)) / 5e6;
    assert!((rig.value("line-rate") / (6041.0 * 8.0 / frame_s) - 1.0).abs() < 1e-9);
    // 16APSK 3/4 needs 10.21 dB, 8PSK 9/10 10.98 and carries less; QPSK 1/2 needs 1.00 dB.
    let carried = |from: u64, to: u64| {
        let range = from * MS + DELAY..to * MS + DELAY;
        let arrived = rig.out.iter().filter(|(at, ..)| range.contains(&at.as_nanos()));
        let most = arrived.map(|(_, _, frame)| unit(frame).bytes.len() - bbframe::HEADER_LEN).max();
        most.unwrap_or(0)
    };
    assert_eq!((carried(100, 500), carried(520, 590)), (6041, 0), "unknown to the sender for 100 ms");
    assert_eq!((carried(620, 700), carried(830, 990)), (4016, 6041));
    assert!(rig.value("units-faded") >= 20.0);
}

/// A stream with a MODCOD of its own has frames of its own. Unused time goes as dummy PLFRAMEs of 3330 symbols.
#[test]
fn a_stream_may_have_its_own_modcod() {
    let robust = PathConfig { modcod: Some("QPSK 1/4".parse().unwrap()), ..path(gse()) };
    let line = s2(3_330_000, "32APSK 9/10", Vec::new());
    let mut rig = Harness::new(Sender::new(&line, &[path(gse()), robust]).unwrap());
    rig.receive(1_500_000, 0, packet(1, 100));
    rig.receive(1_500_000, 1, packet(2, 100));
    rig.run_until(1000 * MS);
    let ends: Vec<u64> = rig.out.iter().map(|(at, ..)| at.as_nanos() - DELAY).collect();
    // Dummies to 2 ms, 13050 symbols of 32APSK, 32490 of QPSK.
    let symbols = |count: u64| (count * 1_000_000_000).div_ceil(3_330_000);
    assert_eq!(ends, [symbols(6660 + 13_050), symbols(6660 + 13_050 + 32_490)]);
    let header = bbframe::Repr::parse(&unit(&rig.out[1].2).bytes).unwrap();
    assert_eq!((header.input, header.is_constant), (None, false));
}

/// Twenty calls and a download. Sharing frames, the download has the rest of the carrier, calls wait for a frame or two, and
/// everything arrives where it should. With a stream each, nearly empty frames of calls take the carrier.
#[test]
fn calls_leave_the_rest_of_a_carrier_to_a_download() {
    let mut line = s2(5_000_000, "QPSK 3/4", Vec::new());
    let labels: Vec<_> = (0..21).map(|n| line.label(&gse(), n, 21)).collect();
    let run = |line: &Line| {
        let queue = Discipline::DropTail(DropTailConfig { packets: Some(100), ..DropTailConfig::default() });
        let paths: Vec<_> = (0..21).map(|_| PathConfig { queue: queue.clone(), ..path(gse()) }).collect();
        let mut rig = Harness::new(Sender::new(line, &paths).unwrap());
        // 7.4 Mbit/s of data fields: calls of 60 B each 20 ms, and more than the carrier takes for the download.
        for tick in 0..1000u64 {
            (0..20)
                .for_each(|call| rig.receive(tick * 20 * MS + u64::from(call) * MS, call, packet(call, 60)));
            (0..20).for_each(|_| rig.receive(tick * 20 * MS + 19 * MS, 20, packet(20, 1500)));
        }
        rig.run_until(20_000 * MS);
        rig
    };
    let mut shared = run(&line);
    let mut delivered = vec![Vec::new(); 21];
    let mut receivers: Vec<_> = labels
        .iter()
        .map(|label| Receiver::new(&gse()).unwrap().of_label(label.unwrap()))
        .map(Harness::new)
        .collect();
    for (at, port, packet) in std::mem::take(&mut shared.out) {
        receivers[usize::from(port.0)].receive(at.as_nanos(), 0, packet);
    }
    for (n, receiver) in receivers.iter_mut().enumerate() {
        let expected: Vec<Vec<u8>> = vec![packet(n as u16, if n == 20 { 1500 } else { 60 }).to_vec()];
        assert!(receiver.out.iter().all(|(_, _, got)| got.to_vec() == expected[0]), "stream {n}");
        delivered[n] = receiver.times().iter().map(|(at, _)| *at).collect();
        assert_eq!((receiver.value("continuity-breaks"), receiver.value("altered")), (0.0, 0.0));
    }
    for (call, times) in (0u64..).zip(&delivered[..20]) {
        // A call that comes while a frame is sent goes with the next one.
        let late = (0u64..).zip(times).map(|(tick, at)| at - DELAY - tick * 20 * MS - call * MS).max();
        assert!(times.len() > 985 && late.is_some_and(|late| late <= 2 * 6_498_000), "{call} {late:?}");
    }
    let goodput = delivered[20].len() as f64 * 12_000.0 / (20.0 - 0.25);
    let rest = 7.437e6 - 20.0 * 67.0 * 8.0 / 0.020;
    assert!((0.98..1.0).contains(&(goodput / rest)), "{goodput} of {rest}");
    let Line::DvbS2 { input_streams, .. } = &mut line else { unreachable!() };
    *input_streams = InputStreams::Multiple;
    let mut own = run(&line);
    own.run_until(20_000 * MS);
    let bytes = |port: u16| -> usize {
        own.out.iter().filter(|(_, at, _)| at.0 == port).map(|(_, _, frame)| unit(frame).bytes.len()).sum()
    };
    assert!(bytes(20) as f64 * 8.0 / 19.75 < rest / 10.0, "a frame in 21");
    let header = bbframe::Repr::parse(&unit(&own.out[1].2).bytes).unwrap();
    assert!(header.input.is_some());
}

/// A TS packet in baseband frames is sent with the frame in which it begins. It has arrived with that in which it ends.
#[test]
fn a_transport_stream_in_frames_comes_frame_by_frame() {
    // 48328 bits in 6498 us.
    let mut rig = sender(&s2(5_000_000, "QPSK 3/4", Vec::new()), Config::default());
    for n in 0..100 {
        rig.receive(1, 0, packet(n, 100));
    }
    rig.run_until(1000 * MS);
    let frame = |n: u64| n * 6_498_000 + DELAY;
    let got = received(&mut rig, &Config::default());
    let arrived = |at: u64| got.iter().filter(|(time, ..)| time.as_nanos() == at).count();
    // The second frame begins 1304 bits before a TS packet, and has 31 whole ones then; 1408 bits of the next are in it.
    assert_eq!((arrived(frame(2)), arrived(frame(3)), got.len()), (31, 32, 100));
    assert!((0..).zip(&got).all(|(n, (_, _, got))| got.created_at() == packet(n, 100).created_at()));
    let line = s2(5_000_000, "QPSK 3/4", vec![Step { at: Span::ZERO, modcod: None, es_n0_db: Some(5.0) }]);
    let refusal = Sender::new(&line, &[path(Config::default())]).err().unwrap();
    assert_eq!((refusal.path, refusal.impossible.key), (None, "steps"));
    assert_eq!(
        Sender::new(&transport_stream("1 Mbit/s", 1), &[path(gse())]).err().unwrap().impossible.key,
        "kind"
    );
}

/// Returns all that a receiver of a stream delivers.
fn received(rig: &mut Harness<Sender>, config: &Config) -> Vec<(Time, Port, Packet)> {
    let mut receiver = Harness::new(Receiver::new(config).unwrap());
    for (at, _, packet) in std::mem::take(&mut rig.out) {
        receiver.receive(at.as_nanos(), 0, packet);
    }
    receiver.out
}

/// Each of two receivers gets the frames with its stream or tables, whole. Their streams differ in delay and tables, by
/// hours, and a frame that both get is the same.
#[test]
fn frames_have_the_whole_multiplex() {
    let mut line = s2(5_000_000, "QPSK 3/4", Vec::new());
    let Line::DvbS2 { tables, .. } = &mut line else { unreachable!() };
    *tables = Some(Span::from_secs(1));
    let stream = |pid| Config { pid: DataPid::new(pid).unwrap(), ..Config::default() };
    let near = PathConfig { delay: Span::from_millis(10), ..path(stream(0x201)) };
    let mut rig = Harness::new(Sender::new(&line, &[near, path(stream(0x202))]).unwrap());
    for n in 0..300 {
        rig.receive(u64::from(n) * 1_100_000, n % 2, packet(n, 60 + usize::from(n) * 4));
    }
    rig.receive(3_600_000 * MS, 1, packet(300, 1000));
    rig.run_until(3_601_000 * MS);
    let (mut pids, mut frames) = (Vec::new(), std::collections::BTreeMap::new());
    let mut deframer = bbframe::Deframer::new();
    for (_, port, packet) in &rig.out {
        let unit = unit(packet);
        let (repr, field) = bbframe::parse(&unit.bytes).unwrap();
        assert_eq!(frames.entry(unit.number).or_insert(&unit.bytes), &&unit.bytes, "frame {}", unit.number);
        if port.0 == 1 {
            deframer.push(&repr, field, |packet| pids.push(ts::Packet::new_checked(*packet).unwrap().pid()));
        }
    }
    assert_eq!(deframer.counts().crc_errors, 0);
    let count = |number| pids.iter().filter(|pid| pid.number() == number).count();
    // One stream of three TS packets in the mean, tables each second, the last of them behind the end.
    assert!(count(0x201) > 400 && count(0x202) > 400 && count(0x1fff) > 10_000, "{}", count(0x201));
    assert_eq!((count(0), count(0x20)), (3601, 3601));
    let numbers = |out: &[(Time, Port, Packet)]| -> Vec<u64> {
        out.iter().map(|(_, _, packet)| packet.created_at().as_nanos()).collect()
    };
    let out = std::mem::take(&mut rig.out);
    for (port, expected) in
        [(0, (0..300).step_by(2).collect::<Vec<u64>>()), (1, (1..301).step_by(2).chain([300]).collect())]
    {
        rig.out = out.iter().filter(|(_, at, _)| at.0 == port).cloned().collect();
        assert_eq!(numbers(&received(&mut rig, &stream(0x201 + port))), expected);
    }
}

#[test]
fn a_lost_frame_costs_the_packets_in_it() {
    let config = Config { packing: Some(Span::from_millis(1)), ..Config::default() };
    let mut rig = sender(&s2(5_000_000, "QPSK 3/4", Vec::new()), config.clone());
    for n in 0..1000 {
        rig.receive(u64::from(n) * 100_000, 0, packet(n, 200));
    }
    rig.run_until(1000 * MS);
    rig.out.remove(5);
    let got = received(&mut rig, &config);
    // 6041 bytes are 28 SNDUs of 208 bytes in TS packets, and one at each end.
    assert!((969..=972).contains(&got.len()), "{}", got.len());
    assert!(got.iter().is_sorted_by_key(|(_, _, packet)| packet.created_at()));
}

#[test]
fn tables_name_the_streams() {
    let mut line = transport_stream("1 Mbit/s", 1);
    let Line::TransportStream { tables, .. } = &mut line else { unreachable!() };
    *tables = Some(Span::from_millis(100));
    let stream = |n: u16| Config {
        pid: DataPid::new(0x20 + n).unwrap(),
        encapsulation: if n.is_multiple_of(2) { Encapsulation::Ule } else { Encapsulation::Mpe },
        ..Config::default()
    };
    let paths: Vec<_> = (0..100).map(|n| path(stream(n))).collect();
    let mut rig = Harness::new(Sender::new(&line, &paths).unwrap());
    rig.run_until(1000 * MS);
    let sections = |pid| {
        let (mut receiver, mut sections) = (section::Receiver::new(pid), Vec::new());
        let here = rig.out.iter().filter(|(_, port, _)| port.0 == 63);
        here.for_each(|(_, _, packet)| {
            receiver.push(unit(packet).ts().unwrap(), |bytes| sections.push(bytes.to_vec()));
        });
        assert_eq!(receiver.counts().continuity_errors, 0);
        sections
    };
    let pats = sections(ts::Pid::PAT);
    let pat = psi::Pat::parse(&pats[0]).unwrap();
    assert_eq!((pats.len(), pat.programmes.len()), (8, 2), "one each 100 ms, the last ones on their way");
    let pmts: Vec<_> =
        pat.programmes.iter().map(|one| psi::Pmt::parse(&sections(one.map)[0]).unwrap()).collect();
    let streams: Vec<_> = pmts.iter().flat_map(|pmt| &pmt.streams).collect();
    assert_eq!(streams.len(), 100);
    for (n, found) in (0..).zip(streams) {
        assert_eq!((found.pid.number(), found.is_ule(), found.is_mpe()), (0x20 + n, n % 2 == 0, n % 2 == 1));
    }
    let Line::TransportStream { tables, .. } = &mut line else { unreachable!() };
    *tables = Some(Span::from_millis(20));
    assert_eq!(Sender::new(&line, &paths).err().unwrap().impossible.key, "tables");
}

/// Flipped bits are binomial in number and fall on every byte of the TS packet. Its header is included.
#[test]
fn bit_errors_are_in_the_bytes_of_ts_packets() {
    let ber = 1e-4;
    let mut sender = sender(&transport_stream("8 Mbit/s", 1), Config::default());
    for n in 0..20_000u16 {
        sender.receive(u64::from(n) * 188_000, 0, packet(n, 175));
    }
    sender.run_until(20_000 * MS);
    let before: Vec<Vec<u8>> = sender.out.iter().map(|(.., packet)| packet.to_vec()).collect();
    let mut channel = Harness::new(Channel::new(&channel::Config::BitErrors { ber, crc: false }).unwrap());
    for (at, _, packet) in std::mem::take(&mut sender.out) {
        channel.receive(at.as_nanos(), 0, packet);
    }
    let mut by_byte = [0u32; ts::PACKET_LEN];
    for ((.., packet), before) in channel.out.iter().zip(&before) {
        for (at, (a, b)) in packet.to_vec().iter().zip(before).enumerate() {
            by_byte[at] += (a ^ b).count_ones();
        }
    }
    let trials = 20_000.0 * 1504.0;
    let (mean, flipped) = (trials * ber, f64::from(by_byte.iter().sum::<u32>()));
    assert!((flipped - mean).abs() < 4.0 * (mean * (1.0 - ber)).sqrt(), "{flipped} of {mean}");
    // Chi-squared with 187 degrees of freedom: mean 187, deviation 19.3.
    let each = flipped / 188.0;
    let chi: f64 = by_byte.iter().map(|count| (f64::from(*count) - each).powi(2) / each).sum();
    assert!((110.0..264.0).contains(&chi), "{chi}");
    assert!(by_byte[..4].iter().sum::<u32>() > 0);
}

#[test]
fn rates_that_cannot_be_are_refused() {
    let refused = |line: &Line| Sender::new(line, &[path(Config::default())]).err().unwrap().impossible.key;
    assert_eq!(
        refused(&Line::TransportStream { rate: Rate::from_bps(0), group: 1, buffers: 2, tables: None }),
        "rate"
    );
    assert_eq!(refused(&transport_stream("1 Mbit/s", 0)), "group");
    assert_eq!(
        refused(&Line::DvbS { symbol_rate: 0, code_rate: CodeRate::Half, tables: None }),
        "symbol_rate"
    );
    for (es_n0_db, key) in [(65_536.0, "es_n0_db"), (-31.0, "es_n0_db"), (f64::NAN, "es_n0_db")] {
        let step = Step { at: Span::ZERO, modcod: None, es_n0_db: Some(es_n0_db) };
        let line = s2(1_000_000, "QPSK 3/4", vec![step]);
        assert_eq!(Sender::new(&line, &[path(gse())]).err().unwrap().impossible.key, key);
    }
    let late = Config { packing: Some(Span::from_secs(11)), ..gse() };
    let line = s2(1_000_000, "QPSK 3/4", Vec::new());
    assert_eq!(Sender::new(&line, &[path(late)]).err().unwrap().impossible.key, "packing");
    let mut short = s2(1, "QPSK 9/10", Vec::new());
    let Line::DvbS2 { frame, .. } = &mut short else { unreachable!() };
    *frame = FrameSize::Short;
    assert_eq!(refused(&short), "frame");
}
