//! Streams made here, without ffmpeg: their time, cells and back, multiplexing.

use bentpipe_units::Rate;

use super::*;
use crate::stream::cells::{Cell, Received, Receiver, cell, sent};
use crate::stream::testing::{TICKS, stream};
use crate::stream::{Adaptation, mux};

const ADAPTATIONS: [Adaptation; 3] = [Adaptation::Aal5, Adaptation::Aal1, Adaptation::Aal1Fec];

fn received(cells: &[(Span, Cell)], adaptation: Adaptation) -> Received {
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
    let mut random = bentpipe_units::RandomStream::new(1, "cells");
    for adaptation in ADAPTATIONS {
        let mut receiver = Receiver::new(adaptation, 2, true);
        for n in 0..20_000_u64 {
            let mut cell = cell(&[0; 48], random.chance(0.1));
            let start = if random.chance(0.9) { 1 } else { 0 };
            cell[start..].iter_mut().for_each(|byte| *byte = (random.unit() * 256.0) as u8);
            receiver.cell(Time::from_nanos(n), &cell[..if random.chance(0.01) { 20 } else { 49 }]);
        }
        let received = receiver.finish(Time::ZERO);
        assert_eq!(received.packets.len(), received.times.len());
    }
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
    let mut random = bentpipe_units::RandomStream::new(1, "hostile");
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

#[test]
fn the_rate_between_references_leaves_out_null_packets() {
    let stream = crate::stream::testing::stream(4000, 0);
    let pieces = stream.rate_pieces().unwrap();
    let (span, bits) = pieces.iter().fold((0.0, 0.0), |(span, bits), piece| (span + piece.0, bits + piece.1));
    let times = stream.times().unwrap();
    let clock = stream.programmes[0].clock;
    let references = stream.references(clock);
    let (first, last) = (references[0].0, references[references.len() - 1].0);
    assert!((span - (times[last] - times[first]).as_secs_f64()).abs() < 1e-6);
    let is_null = |n: usize| pid(&stream.packets[n]) == Some(Pid::NULL);
    let data = (first..last).filter(|n| !is_null(*n)).count();
    assert!(data < last - first);
    assert_eq!(bits, data as f64 * 1504.0);
    // Every third packet becomes a NULL packet.
    let mut packets = stream.packets.clone();
    let is_reference = |n: usize| references.iter().any(|(of, _)| *of == n);
    let mut nulls = 0;
    for n in (first..last).step_by(3).filter(|n| !is_reference(*n) && !is_null(*n)) {
        (packets[n][1], packets[n][2], nulls) = (0x1f, 0xff, nulls + 1);
    }
    assert!(nulls > 500);
    let thinned = TransportStream { packets, ..stream.clone() };
    let left: f64 = thinned.rate_pieces().unwrap().iter().map(|(_, bits)| bits).sum();
    assert_eq!(left, bits - f64::from(nulls) * 1504.0);
    let none = TransportStream { packets: stream.packets[..1].to_vec(), ..stream };
    assert!(none.rate_pieces().is_err());
}
