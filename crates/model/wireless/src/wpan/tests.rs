use std::sync::Arc;

use bentpipe_units::{RandomStream, Span, Time};

use super::phy::{airtime, bit_error_ratio};
use super::*;

fn frame(to: Option<u16>, payload: usize) -> Sending {
    Sending { to, payload: Arc::from(vec![7; payload]), token: 0, wakes: true }
}

fn stream() -> RandomStream {
    RandomStream::new(1, "cell")
}

/// Runs saturated devices that send to device 0 from one instant on, and returns the frames that arrived.
fn saturated(cell: &mut Cell, payload: usize, seconds: u64) -> u64 {
    saturated_from(cell, payload, seconds, &|_| Time::ZERO)
}

/// Runs saturated devices that begin each at a time of their own.
fn saturated_from(cell: &mut Cell, payload: usize, seconds: u64, start: &dyn Fn(u16) -> Time) -> u64 {
    let mut stream = stream();
    let count = cell.links().devices() as u16;
    (1..count).for_each(|from| cell.send(from, frame(Some(0), payload), start(from), &mut stream));
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

/// Expected values are frames per second of ns-3.37's `lr-wpan` with these rules (`docs/models/wpan.md`), each device with a phase of its own.
#[test]
fn saturated_devices_off_the_grid_have_the_throughput_of_ns_3_with_these_rules() {
    let start = |n: u16| Time::from_nanos(320_000 * u64::from(n) + u64::from(n) * 245_489 % 32_000);
    for (count, expected) in [(2, 254.8), (5, 258.8), (10, 227.4), (20, 161.3), (50, 43.9)] {
        let mut cell = Cell::new(Mac::default(), Links::complete(count + 1));
        let rate = saturated_from(&mut cell, 25, 100, &start) as f64 / 100.0;
        assert!(
            (rate / expected - 1.0).abs() < 0.05,
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

/// Returns the superframes of a network that is active all the time.
fn slotted(order: u8) -> Mac {
    let superframe = Some(Superframe { beacon_order: order, superframe_order: order });
    Mac { superframe, ..Mac::default() }
}

#[test]
fn a_lone_device_in_slots_has_the_throughput_of_the_closed_form() {
    // Units: mean backoff 3.5, two assessments, the frame, its acknowledgement from the next boundary after the turnaround, spacing.
    for (payload, spacing) in [(25, 2), (102, 2), (7, 1)] {
        let end = phy::BACKOFF * 5 + airtime(payload + 11);
        let ack = superframe::boundary(Time::ZERO + end + phy::TURNAROUND) + airtime(phy::ACK_LEN);
        let free = superframe::boundary(ack + phy::spacing(payload + 11)).since(Time::ZERO);
        assert!(free > end + phy::BACKOFF * spacing);
        // The mean of 0 to 7 units, and two assessments in place of five units.
        let cycle = (free + phy::BACKOFF / 2).as_secs_f64();
        let mut cell = Cell::new(slotted(14), Links::complete(2));
        let arrived = saturated(&mut cell, payload, 200) as f64;
        assert!((arrived * cycle / 200.0 - 1.0).abs() < 0.005, "{payload} B: {arrived} in {cycle} s");
        assert_eq!(cell.counts().busy + cell.counts().collided + cell.counts().unacknowledged, 0);
    }
}

/// Units of the frames of the tests in slots: 100 B take 3.2 ms.
const FRAME: usize = 10;
/// Units of the spacing after them.
const SPACING: usize = 2;
/// Backoff windows of the attempts.
const WINDOWS: [usize; 5] = [8, 16, 32, 32, 32];

/// Returns the transitions of a device from each of its states, with an idle and with a busy channel.
///
/// States are backoffs by attempt and counter, second assessments by attempt, units of the frame, and units of spacing.
fn transitions() -> Vec<[Vec<(usize, f64)>; 2]> {
    let first = |attempt: usize| WINDOWS[..attempt].iter().sum::<usize>();
    let (second, frame) = (first(5), first(5) + 5);
    let spacing = frame + FRAME;
    let draw = |attempt: usize| -> Vec<(usize, f64)> {
        let window = WINDOWS[attempt];
        (0..window).map(|counter| (first(attempt) + counter, 1.0 / window as f64)).collect()
    };
    let busy = |attempt: usize| draw((attempt + 1) % 5);
    let mut all = Vec::new();
    for (attempt, window) in WINDOWS.into_iter().enumerate() {
        all.push([vec![(second + attempt, 1.0)], busy(attempt)]);
        all.extend((1..window).map(|counter| {
            let next = vec![(first(attempt) + counter - 1, 1.0)];
            [next.clone(), next]
        }));
    }
    all.extend((0..5).map(|attempt| [vec![(frame, 1.0)], busy(attempt)]));
    for state in frame + 1..=spacing + SPACING {
        let next = if state == spacing + SPACING { draw(0) } else { vec![(state, 1.0)] };
        all.push([next.clone(), next]);
    }
    all
}

/// Returns the frames per second of two saturated devices by the chain of their joint states, unit by unit.
fn rate_of_two() -> f64 {
    let of = transitions();
    let count = of.len();
    let begin = count - FRAME - SPACING;
    let is_sending = |state: usize| (begin..begin + FRAME).contains(&state);
    let mut now = vec![0.0; count * count];
    (0..8).for_each(|one| (0..8).for_each(|other| now[one * count + other] = 1.0 / 64.0));
    let mut starts = 0.0;
    let (warm, counted) = (300, 600);
    for step in 0..warm + counted {
        let mut next = vec![0.0; count * count];
        for (state, share) in now.iter().enumerate().filter(|(_, share)| **share > 1e-12) {
            let (one, other) = (state / count, state % count);
            for (to, chance) in &of[one][usize::from(is_sending(other))] {
                for (beside, luck) in &of[other][usize::from(is_sending(one))] {
                    next[to * count + beside] += share * chance * luck;
                }
            }
        }
        now = next;
        if step >= warm {
            starts += (0..count).map(|other| now[begin * count + other]).sum::<f64>();
        }
    }
    2.0 * starts / f64::from(counted) / phy::BACKOFF.as_secs_f64()
}

/// Returns the frames per second of saturated devices without acknowledgements, by the model of Pollin et al. (2008).
///
/// Each device finds the channel busy at its assessments with probabilities that do not depend on its past.
fn rate_of_many(devices: i32) -> f64 {
    let (mut alpha, mut beta, mut rate) = (0.5_f64, 0.5_f64, 0.0);
    for _ in 0..2000 {
        let busy = alpha + (1.0 - alpha) * beta;
        let idle = (1.0 - alpha) * (1.0 - beta);
        let (mut units, mut first) = (0.0, 0.0);
        for (attempt, window) in WINDOWS.iter().enumerate() {
            let reached = busy.powi(attempt as i32);
            let backoff = (*window as f64 - 1.0) / 2.0;
            units += reached * (backoff + 2.0 - alpha + idle * (FRAME + SPACING) as f64);
            first += reached;
        }
        let tau = first / units;
        rate = tau * idle;
        let others = 1.0 - (1.0 - tau).powi(devices - 1);
        alpha += 0.1 * (FRAME as f64 * others * idle - alpha);
        beta += 0.1 * (others / (2.0 - (1.0 - tau).powi(devices)) - beta);
    }
    f64::from(devices) * rate / phy::BACKOFF.as_secs_f64()
}

#[test]
fn saturated_devices_in_slots_send_at_the_rate_of_markov_chains() {
    for devices in [2, 3, 5, 10, 20] {
        let mut cell = Cell::new(slotted(14), Links::complete(devices as usize + 1));
        let mut stream = stream();
        (1..=devices as u16).for_each(|from| cell.send(from, frame(None, 83), Time::ZERO, &mut stream));
        let end = Time::ZERO + Span::from_secs(200);
        while cell.next_step() < end {
            let now = cell.step(&mut stream).expect("a step");
            while let Some(event) = cell.poll_event() {
                if let Event::Done { at, .. } = event {
                    cell.send(at, frame(None, 83), now, &mut stream);
                }
            }
        }
        let rate = cell.counts().frames as f64 / 200.0;
        let (expected, tolerance) =
            if devices == 2 { (rate_of_two(), 0.01) } else { (rate_of_many(devices), 0.15) };
        assert!(
            (rate / expected - 1.0).abs() < tolerance,
            "{devices}: {rate} of {expected} frames per second"
        );
    }
}

#[test]
fn transactions_stay_within_the_active_part_of_superframes() {
    let superframe = Superframe { beacon_order: 4, superframe_order: 1 };
    let mac = Mac { superframe: Some(superframe), ..Mac::default() };
    let mut cell = Cell::new(mac, Links::complete(6));
    let mut stream = stream();
    (1..6).for_each(|from| cell.send(from, frame(Some(0), 60), Time::ZERO, &mut stream));
    let end = Time::ZERO + superframe.interval() * 200;
    let mut arrived = 0_u32;
    while cell.next_step() < end {
        let now = cell.step(&mut stream).expect("a step");
        let within = Span::from_nanos(now.as_nanos() % superframe.interval().as_nanos());
        while let Some(event) = cell.poll_event() {
            match event {
                Event::Received { .. } => {
                    let (start, end) = superframe.contention();
                    assert!(within > start && within + phy::TURNAROUND + airtime(phy::ACK_LEN) <= end);
                    arrived += 1;
                }
                Event::Done { at, .. } => cell.send(at, frame(Some(0), 60), now, &mut stream),
            }
        }
    }
    assert!(arrived > 200 * 3, "{arrived}");
    // An eighth of the time radios are on; the first device sends beacons and acknowledgements.
    let usage = cell.usage(1, end);
    assert_eq!((usage.sending + usage.listening) * 8, end.since(Time::ZERO));
    let beacons = airtime(13) * 200;
    assert_eq!(cell.usage(0, end).sending, beacons + airtime(phy::ACK_LEN) * cell.counts().acks);
}

/// Returns a network with low-power listening of `interval` ms, in which all devices but the first sleep.
fn listening(interval: u64, devices: usize) -> Cell {
    let listen = Listen { interval: Span::from_millis(interval), check: Span::from_micros(2500) };
    let mut cell = Cell::new(Mac { listen: Some(listen), ..Mac::default() }, Links::complete(devices));
    (1..devices as u16).for_each(|device| cell.set_awake(device, false, Time::ZERO));
    cell
}

/// Sends frames of 25 B one at a time, `gap` after the last one, and returns the end.
fn one_by_one(cell: &mut Cell, to: &dyn Fn(u16) -> Option<u16>, count: u16, gap: Span) -> Time {
    let (mut stream, mut now) = (stream(), Time::ZERO);
    for n in 0..count {
        now += gap.mul_f64(0.5 + stream.unit());
        let devices = cell.links().devices() as u16;
        cell.send(1 + n % (devices - 1), frame(to(n), 25), now, &mut stream);
        while let Some(at) = cell.step(&mut stream) {
            now = now.max(at);
        }
    }
    now + gap
}

#[test]
fn sleeping_devices_look_at_the_channel_at_their_interval() {
    let cell = listening(100, 3);
    let usage = cell.usage(1, Time::ZERO + Span::from_secs(1000));
    assert!((usage.listening.as_secs_f64() - 25.0).abs() < 2.6e-3, "{usage:?}");
    assert_eq!((usage.sending, usage.listening + usage.asleep), (Span::ZERO, Span::from_secs(1000)));
    assert_eq!(cell.usage(0, Time::ZERO + Span::from_secs(9)).listening, Span::from_secs(9));
}

#[test]
fn trains_last_until_the_receiver_wakes() {
    let (mut cell, count) = (listening(200, 3), 4000);
    one_by_one(&mut cell, &|n| Some(2 - n % 2), count, Span::from_millis(400));
    let counts = cell.counts();
    assert_eq!((counts.delivered, counts.collided), (u64::from(count), 0));
    // The receiver looks already, or wakes in half of the rest of an interval; half a period passes until the next copy, which is one.
    let period = (airtime(36) + phy::ACK_WAIT).as_secs_f64();
    let looks = 2.5 / 200.0;
    let copies = looks + (1.0 - looks) * (0.1975 / 2.0 / period + 1.5);
    let mean = counts.frames as f64 / counts.delivered as f64;
    assert!((mean / copies - 1.0).abs() < 0.03, "{mean} copies of {copies}");
}

#[test]
fn frames_to_all_reach_sleeping_devices_in_an_interval() {
    let (mut cell, count) = (listening(100, 11), 200);
    one_by_one(&mut cell, &|_| None, count, Span::from_millis(300));
    let counts = cell.counts();
    assert_eq!((counts.delivered, counts.collided), (u64::from(count) * 10, 0));
    let period = airtime(36) + phy::TURNAROUND;
    let copies = 102.5e-3 / period.as_secs_f64();
    let mean = counts.frames as f64 / f64::from(count);
    assert!(mean >= copies && mean <= copies + 2.0, "{mean} of {copies}");
}

/// The energy of looks falls with the interval and that of trains grows: the sum has its least value where both are equal.
#[test]
fn the_energy_has_its_least_value_at_the_interval_of_the_closed_form() {
    let radio = Radio::default();
    let gap = Span::from_secs(2);
    let power = |interval: u64| {
        // Two devices that send to each other: nobody else overhears.
        let mut cell = listening(interval, 3);
        let end = one_by_one(&mut cell, &|n| Some(2 - n % 2), 1500, gap);
        let joules: f64 = (1..3).map(|device| cell.usage(device, end).joules(&radio)).sum();
        joules / end.as_secs_f64()
    };
    let closed = |interval: f64| {
        let copy = airtime(36).as_secs_f64();
        let share = copy / (copy + phy::ACK_WAIT.as_secs_f64());
        let current = share * radio.sending + (1.0 - share) * radio.listening;
        let looks = 2.0 * (radio.listening - radio.asleep) * 2.5e-3 / interval;
        // The next frame waits until a whole train would have ended.
        let rate = 1.0 / (gap.as_secs_f64() + interval);
        3.0e-3 * (2.0 * radio.asleep + looks + rate * (current * interval / 2.0 + radio.listening * 11e-3))
    };
    for interval in [40, 100, 250, 600] {
        let (found, expected) = (power(interval), closed(interval as f64 / 1000.0));
        assert!((found / expected - 1.0).abs() < 0.1, "{interval} ms: {found} W, {expected} W");
    }
    assert!(power(100) < power(40) && power(100) < power(600));
}

#[test]
fn a_capture_has_the_frames_on_the_air_in_order() {
    let log = AirLog::new(1000, Some(Superframe { beacon_order: 3, superframe_order: 3 }));
    let mut cell = Cell::new(slotted(3), Links::complete(3));
    cell.record(log.clone());
    let arrived = saturated(&mut cell, 25, 1);
    let mut bytes = Vec::new();
    log.write_capture(&mut bytes).expect("memory");
    let counts = cell.counts();
    let (mut at, mut found, mut last) = (24, [0_u64; 3], 0);
    while at < bytes.len() {
        let word =
            |n: usize| u32::from_be_bytes(bytes[at + 4 * n..at + 4 * n + 4].try_into().expect("four bytes"));
        let time = u64::from(word(0)) * 1_000_000_000 + u64::from(word(1));
        assert!(time >= last, "{time} after {last}");
        last = time;
        let len = word(2) as usize;
        let frame = bentpipe_wire::wpan::Frame::new_checked(&bytes[at + 16..at + 16 + len]).expect("a frame");
        found[frame.header().frame_type as usize] += 1;
        at += 16 + len;
    }
    // Beacons of 122.88 ms; the run ends with a frame that is not over.
    assert_eq!(found, [9, counts.frames, counts.acks]);
    assert!(arrived > 100);
}
