use bentpipe_units::RandomStream;
use bentpipe_wire::rtp::Repr;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MACHINE: u32 = 0xb007;
const MS: u64 = 1_000_000;

/// A GSM packet of a source, with a mark.
fn packet(ssrc: u32, seq: u16, timestamp: u32, sent_ns: u64) -> Vec<u8> {
    let mut bytes = vec![0; 12 + 33];
    Repr::new(3, seq, timestamp, ssrc).emit(&mut bytes);
    Mark::new(MACHINE, sent_ns).emit(&mut bytes[12..]);
    bytes
}

fn reception() -> Reception {
    Reception::new(100, MACHINE, None)
}

/// A stream whose packets arrive at these times in milliseconds; each was sent 1 ms before.
fn heard(arrivals_ms: &[f64]) -> Reception {
    let mut reception = reception();
    for (n, at_ms) in arrivals_ms.iter().enumerate() {
        let at_ns = 1_000_000 * MS + (at_ms * 1e6) as u64;
        reception.take(5004, at_ns, &packet(7, n as u16, 160 * n as u32, at_ns - MS));
    }
    reception
}

fn close(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value - expected).abs() < 1e-6 * expected.abs().max(1.0))
}

#[test]
fn equations_4_and_5_by_hand() {
    let reception = heard(&[0.0, 19.0, 41.0, 60.0]);
    let (_, figures) = reception.streams()[0];
    // Intervals 19, 22 and 19 ms: mean 20, squares 1 + 4 + 1 over n - 1 = 3.
    assert!(close(figures.mean_interval_ns(), 20e6));
    assert!(close(figures.interval_deviation_ns(), 2_f64.sqrt() * 1e6));
    assert_eq!((figures.packets, figures.bytes, figures.lost()), (4, 180, 0));
    assert_eq!(figures.intervals.range(), Some((19e6, 22e6)));
}

#[test]
fn jitter_is_rfc_3550_s() {
    let reception = heard(&[0.0, 19.0, 41.0, 60.0]);
    // |D| = 1, 2 and 1 ms.
    let expected = [1.0, 2.0, 1.0].iter().fold(0.0, |jitter, d| jitter + (d - jitter) / 16.0);
    assert!(close(reception.overall().jitter_ns, expected * 1e6));
}

#[test]
fn a_deviation_is_that_of_the_noise() {
    let mut stream = RandomStream::new(3, "noise");
    let noise = (0..20_000).map(|n| 20.0 * f64::from(n) + 0.03 * stream.normal_pair().0);
    let reception = heard(&noise.collect::<Vec<_>>());
    let deviation = reception.overall().interval_deviation_ns.expect("packets");
    // An interval has the noise of two arrivals.
    let expected = 0.03e6 * 2_f64.sqrt();
    assert!((deviation / expected - 1.0).abs() < 0.02, "{deviation} ns, expected {expected}");
}

#[test]
fn overall_is_the_mean_of_streams_not_of_packets() {
    let mut reception = reception();
    for (ssrc, interval_ms, packets) in [(1, 10, 3), (2, 20, 300)] {
        for n in 0..packets {
            let at_ns = MS * interval_ms * u64::from(n) + 5 * MS;
            reception.take(5004, at_ns, &packet(ssrc, n as u16, 160 * n, at_ns));
        }
    }
    let overall = reception.overall();
    assert!(close(overall.mean_interval_ns, 15e6));
    assert!(close(overall.interval_deviation_ns, 0.0));
    assert_eq!((overall.streams, overall.packets, overall.elapsed_ns), (2, 303, 299 * 20 * MS));
}

#[test]
fn ports_tell_streams_of_one_source_apart() {
    let mut reception = reception();
    for (port, seq) in [(5004, 1), (5006, 1), (5004, 2), (5006, 2)] {
        reception.take(port, MS, &packet(7, seq, 0, MS));
    }
    assert_eq!(reception.streams().iter().map(|(id, _)| id.port).collect::<Vec<_>>(), [5004, 5006]);
}

#[test]
fn delays_are_taken_from_this_machine_s_marks_only() {
    let delay = heard(&[0.0, 20.0, 40.0]).overall().delay_ns.expect("marks");
    assert!(close(Some(delay.mean), 1e6) && close(Some(delay.min), 1e6) && close(Some(delay.max), 1e6));
    assert!((delay.p50 / 1e6 - 1.0).abs() < 2e-3);
    let mut stranger = Reception::new(10, MACHINE + 1, None);
    (0..3).for_each(|seq| stranger.take(5004, 9 * MS, &packet(7, seq, 0, MS)));
    assert_eq!(stranger.overall().delay_ns, None);
}

#[test]
fn the_jitter_of_an_unknown_clock_is_not_guessed() {
    let mut bytes = packet(7, 1, 0, 0);
    for clock_hz in [None, Some(48_000)] {
        let mut reception = Reception::new(10, MACHINE, clock_hz);
        for seq in 0..3_u16 {
            Repr::new(96, seq, 960 * u32::from(seq), 7).emit(&mut bytes);
            reception.take(5004, 20 * MS * u64::from(seq), &bytes);
        }
        assert_eq!(reception.overall().jitter_ns, clock_hz.map(|_| 0.0));
    }
}

#[test]
fn what_is_no_rtp_is_counted_apart() {
    let mut reception = reception();
    reception.take(5004, 0, b"hello");
    reception.take(5004, 0, &[]);
    // A sender report's head.
    reception.take(5004, 0, &[0x80, 200, 0, 6, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    reception.take_truncated();
    let strays = Strays { not_rtp: 3, rtcp: 1, ..Strays::default() };
    assert_eq!((reception.strays(), reception.streams().len()), (strays, 0));
}

#[test]
fn a_flood_of_sources_takes_no_room_from_streams() {
    let (mut reception, mut random) = (reception(), RandomStream::new(1, "flood"));
    for n in 0..100_000_u32 {
        let at_ns = u64::from(n) * MS;
        if random.chance(0.8) {
            reception.take(5004, at_ns, &packet(1_000_000 + n, n as u16, n, 0));
        }
        // Two streams go on meanwhile, and one begins in the midst of it.
        if n.is_multiple_of(50) {
            let streams = if n < 50_000 { 1..3 } else { 1..4 };
            let (seq, timestamp) = ((n / 50) as u16, 400 * (n / 50));
            streams.for_each(|ssrc| reception.take(5004, at_ns, &packet(ssrc, seq, timestamp, 0)));
        }
    }
    assert!(reception.places.len() <= 100 && reception.streams.len() <= 100);
    assert!(reception.probation.len() <= 100);
    let streams = reception.streams();
    assert_eq!(streams.iter().map(|(id, _)| id.ssrc).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(streams[..2].iter().all(|(_, figures)| figures.packets == 2000 && figures.lost() == 0));
    assert!(streams[2].1.packets > 900 && streams[2].1.lost() == 0);
    assert!(reception.strays().forgotten > 5_000 && reception.strays().refused > 50_000);
}

#[test]
fn when_all_room_is_taken_more_streams_are_refused() {
    let mut reception = Reception::new(2, MACHINE, None);
    for seq in 0..300 {
        (1..4).for_each(|ssrc| reception.take(5004, u64::from(seq) * 20 * MS, &packet(ssrc, seq, 0, 0)));
    }
    assert_eq!(reception.streams().iter().map(|(id, _)| id.ssrc).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((reception.packets(), reception.strays().refused), (600, 300));
}

#[test]
fn a_host_that_has_all_places_keeps_half_of_them() {
    let mut reception = Reception::new(8, MACHINE, None);
    let host = |n: u8| Some(IpAddr::from([10, 0, 0, n]));
    let mut take = |from: u8, ssrc: u32, seq: u16| {
        let at_ns = u64::from(seq) * 20 * MS + u64::from(ssrc);
        reception.take_from(host(from), 5004, at_ns, &packet(ssrc, seq, 0, 0));
    };
    for seq in 0..10 {
        (0..20).for_each(|ssrc| take(1, ssrc, seq));
    }
    // Another host, then forged addresses of one stream each.
    for seq in 100..110 {
        (0..8).for_each(|ssrc| take(1, ssrc, seq));
        take(2, 100, seq);
        (3..40).for_each(|n| take(n, 200 + u32::from(n), seq));
    }
    let found: Vec<u32> = reception.streams().iter().map(|(id, _)| id.ssrc).collect();
    assert_eq!(found.iter().filter(|ssrc| **ssrc < 20).count(), 4, "half of the room: {found:?}");
    assert!(found.contains(&100), "the other host has its place: {found:?}");
    let strays = reception.strays();
    assert_eq!(strays.displaced, 4, "{strays:?}");
    let counted = reception.packets() + strays.refused + strays.forgotten + strays.displaced_packets;
    assert_eq!(counted, 10 * 20 + 10 * (8 + 1 + 37));
}

#[test]
fn a_flood_of_single_packets_of_a_host_is_its_own() {
    let mut reception = Reception::new(100, MACHINE, None);
    let host = |n: u8| Some(IpAddr::from([10, 0, 0, n]));
    for n in 0..10_000_u32 {
        reception.take_from(host(1), 5004, u64::from(n), &packet(1_000_000 + n, 0, 0, 0));
    }
    reception.take_from(host(2), 5004, 20_000, &packet(7, 0, 0, 0));
    reception.take_from(host(2), 5004, 20_001, &packet(7, 1, 0, 0));
    assert_eq!(reception.streams().len(), 1, "at once, within a second");
}

proptest! {
    /// Whatever comes: no panic, no more memory than agreed, and every datagram counted once.
    #[test]
    fn hostile_datagrams_are_bounded(
        datagrams in vec((0u16..3, any::<u64>(), vec(any::<u8>(), 0..40), any::<bool>()), 0..300),
    ) {
        let mut reception = Reception::new(8, MACHINE, Some(8000));
        for (port, at_ns, bytes, is_rtp) in &datagrams {
            let mut bytes = bytes.clone();
            // Few sources, or none of them would come twice.
            if *is_rtp && bytes.len() >= 12 {
                (bytes[0], bytes[1]) = (0x80, bytes[1] & 0x3f);
                let source = bytes[11] % 4;
                bytes[8..12].copy_from_slice(&[0, 0, 0, source]);
            }
            reception.take(*port, *at_ns, &bytes);
        }
        prop_assert!(reception.streams.len() <= 8 && reception.probation.len() <= 8);
        let strays = reception.strays();
        let counted = reception.packets() + strays.not_rtp + strays.rtcp + strays.refused + strays.forgotten;
        prop_assert_eq!(counted, datagrams.len() as u64);
        let _ = reception.overall();
    }
}

/// Packets too short for a whole mark have delays once a refresh of their stream had one.
#[test]
fn short_marks_count_after_a_whole_one() {
    let mut reception = reception();
    let sent = |seq: u16| 1_000_000 * MS + u64::from(seq) * 20 * MS;
    let mut take = |seq: u16, payload: usize, delay_ms: u64| {
        let mut bytes = vec![0; 12 + payload];
        Repr::new(96, seq, 160 * u32::from(seq), 7).emit(&mut bytes);
        Mark::new(MACHINE, sent(seq)).emit(&mut bytes[12..]);
        reception.take(5004, sent(seq) + delay_ms * MS, &bytes);
    };
    take(0, 4, 9);
    take(1, 40, 10);
    take(2, 4, 20);
    take(3, 3, 9);
    let delay = reception.overall().delay_ns.expect("marks");
    assert!((delay.mean - 15e6).abs() < 1e3 && (delay.min - 10e6).abs() < 1e3, "{delay:?}");
}

/// Delays by the clock of another machine are there if that is asked for, and are counted.
#[test]
fn other_clocks_are_believed_if_asked() {
    for believes in [false, true] {
        let reception = Reception::new(100, MACHINE + 1, None);
        let mut reception = if believes { reception.believing_others() } else { reception };
        for seq in 0..3 {
            let sent_ns = 1_000_000 * MS + u64::from(seq) * 20 * MS;
            reception.take(5004, sent_ns + 7 * MS, &packet(7, seq, 160 * u32::from(seq), sent_ns));
        }
        let delay = reception.overall().delay_ns.map(|delay| delay.mean);
        assert_eq!(delay, believes.then_some(7e6));
        assert_eq!(reception.others(), if believes { 3 } else { 0 });
    }
}
