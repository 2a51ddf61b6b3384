//! Buffers on synthetic delay traces.

use bentpipe_units::RandomStream;

use super::*;

const MS: i64 = 1_000_000;
const INTERVAL: i64 = 20 * MS;
/// Offset of the clocks; no result depends on it.
const OFFSET: i64 = 7_777 * MS;
const ADAPTIVE: [Playout; 5] = [
    Playout::Exponential,
    Playout::FastRise,
    Playout::Minimum,
    Playout::Spikes,
    Playout::Histogram { window: 10_000, quantile: 0.99 },
];

/// Share of late packets, and mean playout delay in milliseconds.
#[derive(Debug)]
struct Figures {
    late: f64,
    delay_ms: f64,
}

/// Plays spurts of 50 packets with pauses of 50, whose delays in nanoseconds are given by the packet's number.
fn play(playout: Playout, packets: usize, mut delay: impl FnMut(usize) -> i64) -> Figures {
    let mut buffer = Buffer::new(playout);
    let (mut late, mut sum) = (0, 0);
    for n in 0..packets {
        let stamp = (n + n / 50 * 50) as i64 * INTERVAL;
        let at = stamp + delay(n) + OFFSET;
        let played = buffer.arrive(Arrival { stamp, at, begins_spurt: n % 50 == 0 });
        late += usize::from(at > played);
        sum += (played - stamp - OFFSET) / 1000;
    }
    let packets = packets as f64;
    Figures { late: late as f64 / packets, delay_ms: sum as f64 / packets / 1e3 }
}

#[test]
fn a_fixed_buffer_loses_the_tail_of_the_delays() {
    // The first packet takes 280 ms, others 280 ms and an exponential time of mean 20 ms: e^-3 of them exceed 60 ms.
    let mut stream = RandomStream::new(1, "playout");
    let figures = play(Playout::default(), 200_000, |n| match n {
        0 => 280 * MS,
        _ => 280 * MS + (stream.exponential(20.0) * MS as f64) as i64,
    });
    assert!((figures.late / (-3.0_f64).exp() - 1.0).abs() < 0.03, "{figures:?}");
    assert_eq!(figures.delay_ms, 340.0);
}

#[test]
fn constant_delays_are_never_late_and_the_margin_falls() {
    for playout in ADAPTIVE {
        let figures = play(playout, 20_000, |_| 280 * MS);
        assert_eq!(figures.late, 0.0, "{playout:?}");
        let most = match playout {
            Playout::Exponential | Playout::FastRise | Playout::Minimum => 285.0,
            _ => 282.0,
        };
        assert!((280.0..most).contains(&figures.delay_ms), "{playout:?}: {figures:?}");
    }
}

#[test]
fn four_deviations_cover_normal_delays() {
    // The mean deviation of a normal delay is 0.798 s.d., so the margin is 3.19 s.d. and 7e-4 of packets are late.
    let mut stream = RandomStream::new(2, "playout");
    let mut normal = move |_| 280 * MS + (stream.normal_pair().0 * 5.0 * MS as f64) as i64;
    let figures = play(Playout::Exponential, 200_000, &mut normal);
    assert!((2e-4..2e-3).contains(&figures.late), "{figures:?}");
    assert!((figures.delay_ms - 280.0 - 3.19 * 5.0).abs() < 1.0, "{figures:?}");
}

#[test]
fn a_histogram_meets_its_quantile() {
    for quantile in [0.95, 0.99] {
        let mut stream = RandomStream::new(3, "playout");
        let exponential = |_| 280 * MS + (stream.exponential(30.0) * MS as f64) as i64;
        let figures = play(Playout::Histogram { window: 10_000, quantile }, 300_000, exponential);
        assert!((figures.late / (1.0 - quantile) - 1.0).abs() < 0.15, "{quantile}: {figures:?}");
        let expected = 280.0 - 30.0 * (1.0 - quantile).ln();
        assert!((figures.delay_ms - expected).abs() < 4.0, "{quantile}: {figures:?}");
    }
}

/// Delays of a satellite's demand assignment are periodic: the histogram learns them, others overestimate.
#[test]
fn periodic_delays_suit_the_histogram() {
    let periodic = |n: usize| (280 + [0, 20, 40, 60, 80, 10, 30, 50, 70][n % 9]) * MS;
    let delay = |playout| play(playout, 50_000, periodic);
    let (exponential, histogram) = (delay(Playout::Exponential), delay(ADAPTIVE[4]));
    assert!(histogram.late < 0.01 && histogram.delay_ms < 366.0, "{histogram:?}");
    assert!(exponential.delay_ms > histogram.delay_ms + 30.0, "{exponential:?} {histogram:?}");
}

#[test]
fn rising_delays_are_followed_by_the_fast_ones_only() {
    // Congestion for 10 s in 100: from 280 to 480 ms.
    let step = |n: usize| if n % 5000 >= 4500 { 480 * MS } else { 280 * MS };
    let late = |playout| play(playout, 100_000, step).late;
    let slow = late(Playout::Exponential);
    for quick in [Playout::FastRise, Playout::Minimum, Playout::Spikes] {
        assert!(late(quick) < slow, "{quick:?}: {} instead of under {slow}", late(quick));
    }
    assert!(late(Playout::Spikes) < 0.02, "{}", late(Playout::Spikes));
}

#[test]
fn the_minimum_is_that_of_the_last_spurt() {
    let mut moments = Moments::default();
    for (transit, begins) in [(300.0, true), (280.0, false), (290.0, true), (310.0, false)] {
        moments.take(Playout::Minimum, transit * 1e6, begins);
    }
    assert_eq!(moments.delay, 280e6);
    moments.take(Playout::Minimum, 400e6, true);
    assert_eq!(moments.delay, 290e6);
}

#[test]
fn a_spike_is_entered_and_left() {
    let mut moments = Moments::default();
    for _ in 0..200 {
        moments.take(Playout::Spikes, 280e6, false);
    }
    moments.take(Playout::Spikes, 500e6, false);
    assert!(moments.slope.is_some() && moments.delay > 499e6);
    // The spike decays by one interval a packet, as queued packets arrive together.
    let mut transit = 500e6;
    while transit > 280e6 {
        transit -= 20e6;
        moments.take(Playout::Spikes, transit, false);
    }
    for _ in 0..20 {
        moments.take(Playout::Spikes, 280e6, false);
    }
    assert!(moments.slope.is_none() && (moments.delay - 280e6).abs() < 20e6, "{moments:?}");
}

#[test]
fn spurts_do_not_overlap() {
    let mut buffer = Buffer::new(Playout::FastRise);
    let mut last = i64::MIN;
    for n in 0..2000_i64 {
        let delay = if n < 1000 { 900 * MS } else { 280 * MS };
        let stamp = n * INTERVAL;
        let played = buffer.arrive(Arrival { stamp, at: stamp + delay, begins_spurt: n % 5 == 0 });
        assert!(played >= last, "packet {n}");
        last = played;
    }
}

#[test]
fn hostile_stamps_and_impossible_values() {
    for playout in ADAPTIVE.into_iter().chain([Playout::default()]) {
        let mut buffer = Buffer::new(playout);
        for (stamp, at) in [(0, 0), (i64::MAX, 0), (i64::MIN, i64::MAX), (0, i64::MIN), (5, i64::MAX)] {
            buffer.arrive(Arrival { stamp, at, begins_spurt: true });
            buffer.arrive(Arrival { stamp, at, begins_spurt: false });
        }
    }
    assert!(Playout::Histogram { window: 0, quantile: 0.5 }.check().is_err());
    assert!(Playout::Histogram { window: 5, quantile: f64::NAN }.check().is_err());
    assert!(Playout::Fixed { delay: Span::from_secs(61) }.check().is_err());
    assert!(ADAPTIVE.iter().all(|playout| playout.check().is_ok()));
}
