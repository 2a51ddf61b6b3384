//! Streams made here, without ffmpeg: their time, cells and back, multiplexing.

use super::*;
use crate::scenario::Direction;
use crate::video::cells::{Received, Receiver, sent};
use crate::video::config::{Adaptation, Stream};
use crate::video::journey::{Journey, Way};
use crate::video::mux;
use bentpipe_units::Rate;
use bentpipe_wire::psi::{Elementary, Programme};
use bentpipe_wire::section::Encapsulator;
use bentpipe_wire::ts::{Adaptation as Field, Method, Repr};

const ADAPTATIONS: [Adaptation; 3] = [Adaptation::Aal5, Adaptation::Aal1, Adaptation::Aal1Fec];
/// Of one packet, in ticks: 188 bytes at 5.076 Mbit/s.
const TICKS: u64 = 8000;

/// A programme of `count` packets: tables, a clock reference in every tenth packet, NULL packets, payload that counts.
pub(in crate::video) fn stream(count: usize, base: u64) -> TransportStream {
    let pid = |number| Pid::new(number).expect("13 bits");
    let (video, map) = (pid(0x100), pid(0x1000));
    let programmes = vec![Programme { number: 1, map }];
    let pat = Pat { stream_id: 1, programmes, ..Pat::default() };
    let elementary = Elementary { kind: 2, pid: video, descriptors: Vec::new() };
    let pmt = Pmt { number: 1, version: 0, clock: video, descriptors: Vec::new(), streams: vec![elementary] };
    let mut bytes = Vec::new();
    Encapsulator::new(Pid::PAT, Method::Padding).push(&pat.to_section(), &mut bytes);
    Encapsulator::new(map, Method::Padding).push(&pmt.to_section(), &mut bytes);
    let mut packets: Vec<Bytes> = bytes.as_chunks().0.to_vec();
    let mut continuity = 0;
    while packets.len() < count {
        let n = packets.len();
        if n % 7 == 6 && !n.is_multiple_of(10) {
            packets.push(ts::NULL_PACKET);
            continue;
        }
        let pcr = n.is_multiple_of(10).then(|| Pcr::new(base + n as u64 * TICKS));
        let adaptation = pcr.map(|pcr| Field { len_bytes: 7, pcr: Some(pcr), ..Field::default() });
        let repr = Repr { adaptation, ..Repr::new(video, continuity) };
        continuity = (continuity + 1) % 16;
        let mut packet: Bytes = std::array::from_fn(|i| (i * n) as u8);
        repr.emit(&mut packet);
        packets.push(packet);
    }
    TransportStream::read(&packets.concat()).expect("a stream")
}

fn received(cells: &[(Span, [u8; 53])], adaptation: Adaptation) -> Received {
    let mut receiver = Receiver::new(adaptation, 2, false);
    cells.iter().for_each(|(at, cell)| receiver.cell(Time::ZERO + *at, cell));
    receiver.finish(Time::ZERO)
}

#[test]
fn packets_are_read_with_parity_behind_and_times_before_them() {
    let sent = stream(500, 0);
    let stored = |before: usize, behind: usize| {
        let one = |packet: &Bytes| [&vec![0x11; before][..], packet, &vec![0x22; behind]].concat();
        sent.packets.iter().flat_map(one).collect::<Vec<u8>>()
    };
    for (before, behind) in [(0, 0), (0, 16), (4, 0)] {
        assert_eq!(TransportStream::read(&stored(before, behind)), Ok(sent.clone()), "{before} {behind}");
    }
    // With something before the first packet, and the last one cut.
    for (before, behind) in [(0, 0), (0, 16), (4, 0)] {
        let bytes =
            [&[0x11; 30][..], &stored(before, behind), &vec![0x11; before], &sent.packets[0][..73]].concat();
        let read = TransportStream::read(&bytes).expect("a stream");
        assert_eq!(read.packets, sent.packets);
        let remark = "bytes left out: 30 before the first packet, 73 of one that is cut at the end";
        assert_eq!(read.remark().as_deref(), Some(remark));
    }
    assert_eq!(sent.remark(), None);
    // From the middle of a packet on, and cut off.
    let parity = stored(0, 16);
    let rest = TransportStream::read(&parity[204 * 20 - 60..204 * 400 + 100]);
    assert!(rest.is_err_and(|error| error.to_string().contains("no programme")), "the tables come first");
    let say = TransportStream::read(&[0x11; 2000]).unwrap_err().to_string();
    assert_eq!(say, "no transport stream: no packets of 188, 204 or 192 bytes");
}

#[test]
fn times_follow_the_clock() {
    // Over a wrap of the clock, too.
    for base in [0, Pcr::MODULUS - 100 * TICKS] {
        let times = stream(500, base).times().expect("a clock");
        for (n, time) in times.iter().enumerate() {
            let expected = n as f64 * TICKS as f64 / 27e6;
            assert!((time.as_secs_f64() - expected).abs() < 1e-9, "{n}");
        }
    }
}

#[test]
fn what_is_no_stream_is_refused() {
    let problem = |bytes: &[u8]| TransportStream::read(bytes).expect_err("refused").to_string();
    assert!(problem(&[0; 1000]).contains("no packets of 188, 204 or 192 bytes"));
    assert!(problem(&[ts::NULL_PACKET; 9].concat()).contains("no programme"));
    let mut bytes = stream(100, 0).to_bytes();
    bytes[188 * 50] = 0;
    assert!(problem(&bytes).contains("no sync byte at byte 9400"));
    assert!(
        stream(10, 0)
            .times()
            .expect_err("one reference")
            .to_string()
            .contains("no two clock references (PCR)")
    );
}

#[test]
fn cells_give_the_stream_back() {
    let stream = stream(31 * 20 + 3, 0);
    let times = stream.times().expect("a clock");
    for (adaptation, cells) in ADAPTATIONS.into_iter().zip([311 * 8 + 5, 623 * 4, 21 * 128]) {
        let sent = sent(&stream.packets, &times, adaptation, 2);
        assert_eq!(sent.len(), cells, "{adaptation:?}");
        assert!(sent.is_sorted_by_key(|(at, _)| *at));
        let received = received(&sent, adaptation);
        assert_eq!(received.packets[..stream.len()], stream.packets);
        // FEC fills its last matrix with zeros, which are no packets.
        assert_eq!(received.packets.len(), stream.len(), "{adaptation:?}");
    }
}

#[test]
fn one_lost_cell_costs_a_pdu_or_a_packet_or_nothing() {
    let stream = stream(310, 0);
    let times = stream.times().expect("a clock");
    for (adaptation, lost) in ADAPTATIONS.into_iter().zip([2, 0, 0]) {
        let mut cells = sent(&stream.packets, &times, adaptation, 2);
        // The last payload of a packet; not the last cell of a PDU.
        cells.remove(83);
        let received = received(&cells, adaptation);
        assert_eq!(received.packets.len() + lost, stream.len(), "{adaptation:?}");
        let wrong = received.stats.marked + received.stats.bad_pdus;
        assert_eq!(wrong, u64::from(adaptation != Adaptation::Aal1Fec), "{adaptation:?}");
    }
}

#[test]
fn a_lost_last_cell_takes_the_next_pdu_with_it() {
    let stream = stream(100, 0);
    let mut cells = sent(&stream.packets, &stream.times().expect("a clock"), Adaptation::Aal5, 2);
    cells.remove(15);
    let received = received(&cells, Adaptation::Aal5);
    assert_eq!((received.packets.len(), received.stats.bad_pdus), (96, 1));
}

#[test]
fn any_cells_are_taken() {
    let mut random = bentpipe_units::Stream::new(1, "cells");
    for adaptation in ADAPTATIONS {
        let mut receiver = Receiver::new(adaptation, 2, true);
        for n in 0..20_000_u64 {
            let mut cell = super::super::cells::cell(&[0; 48], random.chance(0.1));
            let start = if random.chance(0.9) { 5 } else { 0 };
            cell[start..].iter_mut().for_each(|byte| *byte = (random.unit() * 256.0) as u8);
            receiver.cell(Time::from_nanos(n), &cell[..if random.chance(0.01) { 20 } else { 53 }]);
        }
        let received = receiver.finish(Time::ZERO);
        assert_eq!(received.packets.len(), received.times.len());
    }
}

fn link(faults: &str) -> Direction {
    let text = format!("rate = \"149.76 Mbit/s\"\ndelay = \"270 ms\"\nchannel = [{faults}]");
    toml::from_str(&text).expect("a link")
}

fn journey(stream: &TransportStream, setup: &Stream, faults: &str) -> crate::video::Arrived {
    let link = link(faults);
    let way = Way { name: "tv", start: Span::ZERO, link: &link, seed: 1 };
    Journey::new(stream, setup, &way).expect("possible").run(|_| true)
}

#[test]
fn delay_variation_of_cells_is_jitter_of_the_clock() {
    // Cells far apart: a PDU is complete when its last cell comes, each cell delayed by itself, uniform over m.
    let stream = stream(20_000, 0);
    let jitter = "{ kind = \"jitter\", law = { kind = \"uniform\", max = \"200 us\" } }";
    for (adaptation, expected) in [
        // The eight cells of a PDU leave within 23 us; the last to be released is the latest of eight: for
        // delays much longer than that, s.d. m sqrt(8/(81 10)) = 0.0994 m. The PDU's second packet waits for none, its first
        // for the second: references in first and second places, 296 us apart.
        (Adaptation::Aal5, None),
        // Four cells 74 us apart, kept in order: the last is held back by those before it now and then.
        (Adaptation::Aal1, Some(200e-6 / 12_f64.sqrt())),
    ] {
        let setup = Stream { adaptation, ..Stream::new() };
        let clean = journey(&stream, &setup, "");
        let clean = ClockJitter::of(&clean.stream(), &clean.received.times).expect("references");
        let moved = journey(&stream, &setup, jitter);
        assert_eq!(moved.received.packets.len(), stream.len());
        let moved = ClockJitter::of(&moved.stream(), &moved.received.times).expect("references");
        match expected {
            Some(expected) => {
                assert!(clean.deviation_s < 1e-7, "{clean:?}");
                let ratio = moved.deviation_s / expected;
                assert!((0.85..1.05).contains(&ratio), "{moved:?}, not {expected}");
            }
            None => {
                let own = 200e-6 * (8.0_f64 / 810.0).sqrt();
                let expected = (clean.deviation_s.powi(2) + own.powi(2)).sqrt();
                assert!((moved.deviation_s / expected - 1.0).abs() < 0.1, "{moved:?}, not {expected}");
            }
        }
    }
}

#[test]
fn strangers_are_told_by_crc_and_numbers() {
    let stream = stream(8000, 0);
    for adaptation in ADAPTATIONS {
        let setup = Stream { adaptation, misinsertion: 1e-3, ..Stream::new() };
        let arrived = journey(&stream, &setup, "");
        let strangers = arrived.received.stats.cells - arrived.cells_sent;
        assert!((10..70).contains(&strangers), "{strangers}");
        let stats = arrived.received.stats;
        let same = mux::same(&stream, &arrived.stream());
        match adaptation {
            Adaptation::Aal5 => assert!(stats.bad_pdus >= strangers * 3 / 4 && same > 0.97 && same < 1.0),
            // A stranger that shows the number expected passes, one in eight; what follows is then out of step.
            Adaptation::Aal1 => {
                assert!(stats.aal1.misinserted >= strangers / 2 && same > 0.97, "{stats:?} {same}")
            }
            Adaptation::Aal1Fec => assert!(same > 0.98, "{stats:?} {same}"),
        }
    }
}

#[test]
fn damaged_cells_are_dropped_or_marked_or_repaired() {
    let stream = stream(8000, 0);
    let errors = "{ kind = \"bit-errors\", ber = 1e-6 }";
    let share = |adaptation| {
        let arrived = journey(&stream, &Stream { adaptation, ..Stream::new() }, errors);
        mux::same(&stream, &arrived.stream())
    };
    let [aal5, aal1, fec] = ADAPTATIONS.map(share);
    // About 14 damaged packets of 8000; AAL5 loses both packets of a PDU, AAL1 passes damage on, FEC repairs it.
    assert!(aal5 < aal1 && aal1 < 1.0 && aal5 > 0.99, "{aal5} {aal1}");
    assert_eq!(fec, 1.0);
}

#[test]
fn multiplexed_streams_come_apart_bit_by_bit() {
    let parts = [stream(3000, 0), stream(2500, Pcr::MODULUS - 5_000_000)];
    let multiplex = mux::multiplex(&parts, None).expect("fits");
    assert_eq!(multiplex.programmes(), [1, 2]);
    for (number, part) in (1..).zip(&parts) {
        let apart = mux::demultiplex(&multiplex, number).expect("there");
        assert_eq!(mux::same(part, &apart), 1.0);
        assert_eq!(apart.programmes(), [1]);
    }
    assert!(mux::demultiplex(&multiplex, 3).expect_err("no such").to_string().contains("one of [1, 2]"));
    let slow = mux::multiplex(&parts, Some(Rate::from_bps(4_000_000)));
    assert!(slow.expect_err("too slow").to_string().contains("does not carry the inputs"));
}

#[test]
fn clock_references_are_right_where_they_stand() {
    let parts = [stream(3000, 77_000_000), stream(3000, 5)];
    let multiplex = mux::multiplex(&parts, Some(Rate::from_bps(12_000_000))).expect("fits");
    for (map, part) in multiplex.programmes.iter().zip(&parts) {
        let stamped = multiplex.references(map.clock);
        let originals = part.references(part.programmes[0].clock);
        assert_eq!(stamped.len(), originals.len());
        let (first, start) = stamped[0];
        for (n, reference) in &stamped {
            // 188 bytes at 12 Mbit/s are 3384 ticks.
            let expected = (*n - first) as u64 * 3384;
            assert!(reference.since(start).abs_diff(expected) <= 1, "packet {n}");
        }
        // The clock runs as the input's: a packet waits for its slot and for others, less than a millisecond here.
        for ((_, stamped), (_, original)) in stamped.iter().zip(&originals) {
            assert!(stamped.since(*original) < 27_000, "{stamped:?} {original:?}");
        }
    }
}

/// Bytes changed at random, tables repaired so that they are read: nothing panics or grows beyond bounds.
#[test]
fn hostile_streams_are_read_or_refused() {
    let mut random = bentpipe_units::Stream::new(1, "hostile");
    let mut read = 0;
    for n in 0..400_u64 {
        let mut bytes = stream(150, n * 1_000_003).to_bytes();
        for _ in 0..1 + n % 40 {
            let at = (random.unit() * bytes.len() as f64) as usize;
            let kept = at.is_multiple_of(ts::PACKET_LEN);
            bytes[at] = if kept { ts::SYNC } else { (random.unit() * 256.0) as u8 };
        }
        let Ok(stream) = TransportStream::read(&bytes) else { continue };
        read += 1;
        let _ = stream.times();
        if let Ok(multiplex) = mux::multiplex(&[stream.clone(), stream.clone()], None) {
            assert!(multiplex.len() < 1 << 23);
            let _ = mux::demultiplex(&multiplex, 2);
        }
        stream.programmes().iter().for_each(|number| drop(mux::demultiplex(&stream, *number)));
    }
    assert!(read > 300, "{read}");
}
