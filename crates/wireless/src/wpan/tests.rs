use std::sync::Arc;

use bentpipe_units::{RandomStream, Span, Time};

use super::phy::{airtime, bit_error_ratio};
use super::*;

fn frame(to: Option<u16>, payload: usize) -> Sending {
    Sending { to, payload: Arc::from(vec![7; payload]), token: 0 }
}

fn stream() -> RandomStream {
    RandomStream::new(1, "cell")
}

/// Runs saturated devices that send to device 0, and returns the frames that arrived.
fn saturated(cell: &mut Cell, payload: usize, seconds: u64) -> u64 {
    let mut stream = stream();
    let count = cell.links().devices() as u16;
    (1..count).for_each(|from| cell.send(from, frame(Some(0), payload), Time::ZERO, &mut stream));
    let (mut arrived, end) = (0, Time::ZERO + Span::from_secs(seconds));
    while cell.next_step() < end {
        let now = cell.step(&mut stream).expect("a step");
        while let Some(event) = cell.poll_event() {
            match event {
                Event::Received { .. } => arrived += 1,
                Event::Done { at, .. } => cell.send(at, frame(Some(0), payload), now, &mut stream),
            }
        }
    }
    arrived
}

#[test]
fn a_lone_device_has_the_throughput_of_the_closed_form() {
    for (payload, cycle) in
        [(25, 3.968e-3), (102, 6.432e-3), (7, 0.112e-2 + 0.000_128 + 0.000_192 * 3.0 + 0.001_120)]
    {
        let mut cell = Cell::new(Mac::default(), Links::complete(2));
        let arrived = saturated(&mut cell, payload, 200) as f64;
        let expected = 200.0 / cycle;
        assert!((arrived / expected - 1.0).abs() < 0.005, "{payload} B: {arrived} of {expected}");
        assert_eq!(cell.counts().busy + cell.counts().collided + cell.counts().unacknowledged, 0);
        assert_eq!(cell.counts().acks, arrived as u64);
    }
}

/// Expected values are frames per second of a separate event simulation.
#[test]
fn saturated_devices_have_the_throughput_of_a_separate_simulation() {
    for (count, expected) in [(2, 251.0), (5, 246.0), (10, 211.1), (20, 142.8), (50, 35.6)] {
        let mut cell = Cell::new(Mac::default(), Links::complete(count + 1));
        let rate = saturated(&mut cell, 25, 100) as f64 / 100.0;
        assert!(
            (rate / expected - 1.0).abs() < 0.04,
            "{count} devices: {rate} of {expected} frames per second"
        );
    }
}

#[test]
fn frames_are_conserved_and_collisions_rise_with_the_number_of_devices() {
    let mut before = 0.0;
    for count in [2, 5, 10, 30, 50] {
        let mut cell = Cell::new(Mac::default(), Links::complete(count + 1));
        let arrived = saturated(&mut cell, 25, 60);
        let counts = cell.counts();
        assert_eq!(arrived, counts.delivered);
        let ratio = counts.collided as f64 / counts.frames as f64;
        assert!(ratio > before, "{count}: {ratio} of the frames collide, {before} with fewer devices");
        before = ratio;
        // Each frame collided or was acknowledged; the last of each device may be in the air. Acknowledgements collide, too.
        let (most, least) = (counts.acks + counts.collided + count as u64, counts.acks);
        assert!((least..=most).contains(&counts.frames), "{counts:?}");
    }
}

#[test]
fn devices_that_do_not_sense_each_other_collide_more() {
    let run = |is_hidden: bool| {
        let mut links = Links::complete(3);
        if is_hidden {
            links = Links::none(3);
            for device in [1, 2] {
                links.set(device, 0, 0.0);
                links.set(0, device, 0.0);
            }
        }
        let mut cell = Cell::new(Mac::default(), links);
        (saturated(&mut cell, 102, 60), cell.counts())
    };
    let ((open, sensed), (hidden, unsensed)) = (run(false), run(true));
    assert!(hidden * 3 < open * 2, "{hidden} of {open} frames");
    assert!(unsensed.collided > 3 * sensed.collided && unsensed.unacknowledged > sensed.unacknowledged);
}

/// Devices that cannot sense each other and send at once: the vulnerable time is known.
#[test]
fn two_hidden_frames_of_one_instant_collide_by_the_difference_of_their_backoffs() {
    let mut links = Links::none(3);
    (1..3).for_each(|device| links.set(device, 0, 0.0));
    let mac = Mac { retries: 0, ..Mac::default() };
    let (mut stream, mut lost, rounds) = (stream(), 0, 20_000);
    for _ in 0..rounds {
        let mut cell = Cell::new(mac, links.clone());
        (1..3).for_each(|from| cell.send(from, frame(Some(0), 25), Time::ZERO, &mut stream));
        while cell.step(&mut stream).is_some() {}
        lost += 2 - cell.counts().delivered;
    }
    // Backoffs are 0 to 7 units of 320 us, and frames last 4.2 units: they overlap if less than 5 units apart.
    let apart = |one: i32, other: i32| (one - other).abs();
    let pairs = (0..8).flat_map(|one| (0..8).map(move |other| apart(one, other)));
    // A frame whose acknowledgement is on the air at its receiver when the other begins is lost as well.
    let ack = airtime(36) + phy::TURNAROUND + airtime(phy::ACK_LEN);
    let expected: f64 = pairs
        .map(|units| {
            let difference = phy::BACKOFF * units as u64;
            match () {
                () if difference < airtime(36) => 2.0,
                () if difference < ack => 1.0,
                () => 0.0,
            }
        })
        .sum::<f64>()
        / 64.0;
    let mean = lost as f64 / f64::from(rounds);
    assert!((mean - expected).abs() < 0.02, "{mean} lost of {expected}");
}

#[test]
fn a_busy_channel_ends_in_an_access_failure_after_five_assessments() {
    let mac = Mac { min_exponent: 0, max_exponent: 0, ..Mac::default() };
    let mut cell = Cell::new(mac, Links::complete(3));
    let mut stream = stream();
    cell.send(1, frame(None, 116), Time::ZERO, &mut stream);
    // The assessment and the turnaround of the first.
    cell.step(&mut stream);
    cell.step(&mut stream);
    cell.send(2, frame(Some(0), 25), Time::ZERO + Span::from_millis(1), &mut stream);
    let mut outcomes = Vec::new();
    while cell.step(&mut stream).is_some() {
        while let Some(event) = cell.poll_event() {
            if let Event::Done { at, outcome, .. } = event {
                outcomes.push((at, outcome));
            }
        }
    }
    assert_eq!(outcomes, [(2, Outcome::AccessFailure), (1, Outcome::Sent)]);
    assert_eq!(cell.counts().busy, 5);
}

#[test]
fn a_link_of_bit_errors_loses_and_repeats_as_computed() {
    let mut links = Links::complete(2);
    links.set(1, 0, 1e-3);
    let expected = (1.0_f64 - 1e-3).powi(8 * 42);
    assert!((links.success(1, 0, 36) - expected).abs() < 1e-6);
    let mut cell = Cell::new(Mac::default(), links);
    let arrived = saturated(&mut cell, 25, 100) as f64;
    let counts = cell.counts();
    assert!((arrived / counts.frames as f64 - expected).abs() < 0.01, "{arrived} of {}", counts.frames);
    let given_up = (1.0 - expected).powi(4);
    let ended = arrived + counts.unacknowledged as f64;
    assert!((counts.unacknowledged as f64 / ended - given_up).abs() < 0.01);
}

#[test]
fn a_lost_acknowledgement_makes_no_duplicate() {
    let mut links = Links::complete(2);
    links.set(0, 1, 0.5);
    let mut cell = Cell::new(Mac::default(), links);
    let mut stream = stream();
    cell.send(1, frame(Some(0), 25), Time::ZERO, &mut stream);
    while cell.step(&mut stream).is_some() {}
    let counts = cell.counts();
    assert_eq!((counts.frames, counts.acks, counts.delivered, counts.unacknowledged), (4, 4, 1, 1));
}

#[test]
fn range_follows_from_sensitivity_and_path_loss() {
    let radio = Radio::default();
    // 0 dBm - 40 dB - 30 log d = -95 dBm at 68 m.
    let places = [[0.0, 0.0], [68.0, 0.0], [0.0, 60.0], [0.0, -90.0]];
    let links = Links::between(&places, &radio, &mut stream());
    assert!((1.0 - links.success(0, 1, 20 - phy::HEADER_LEN) - 0.01).abs() < 0.004);
    assert!(links.success(2, 0, 127) > 0.999 && !links.is_audible(0, 3) && !links.is_audible(0, 0));
    assert!(bit_error_ratio(0.0) > 0.49 && bit_error_ratio(4.0) < 1e-12);
    let shaded = Links::between(&places, &Radio { shadowing: 6.0, ..radio }, &mut stream());
    assert_eq!(shaded.success(1, 0, 50), shaded.success(0, 1, 50));
}

#[test]
fn energy_is_the_time_in_each_state_by_its_current() {
    let mut cell = Cell::new(Mac::default(), Links::complete(2));
    let mut stream = stream();
    let second = Time::ZERO + Span::from_secs(1);
    cell.send(1, frame(Some(0), 25), Time::ZERO, &mut stream);
    while cell.step(&mut stream).is_some() {}
    cell.set_awake(1, false, second);
    let usage = cell.usage(1, second + Span::from_secs(9));
    assert_eq!(usage.sending, airtime(36));
    assert_eq!((usage.sending + usage.listening, usage.asleep), (Span::from_secs(1), Span::from_secs(9)));
    let expected = 3.0 * (1.344e-3 * 17.4e-3 + (1.0 - 1.344e-3) * 18.8e-3 + 9.0 * 20e-6);
    assert!((usage.joules(&Radio::default()) - expected).abs() < 1e-9);
    assert_eq!(cell.usage(0, second).sending, airtime(phy::ACK_LEN));
}

#[test]
fn a_device_that_sleeps_receives_nothing() {
    let mut cell = Cell::new(Mac::default(), Links::complete(2));
    cell.set_awake(0, false, Time::ZERO);
    let mut stream = stream();
    cell.send(1, frame(Some(0), 25), Time::ZERO, &mut stream);
    while cell.step(&mut stream).is_some() {}
    assert_eq!((cell.counts().delivered, cell.counts().unacknowledged), (0, 1));
    (0..130).for_each(|_| cell.send(1, frame(Some(0), 25), Time::ZERO, &mut stream));
    assert_eq!(cell.counts().refused, 2);
}
