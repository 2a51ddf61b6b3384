//! BBR on a path with a FIFO bottleneck.

#![allow(clippy::print_stdout)] // Figures for docs/explanation/congestion-control-validation.md.

use crate::path::{Bottleneck, SMSS, at, connection};
use bentpipe_cc::{Ack, ControllerConfig, Loss, bbr};
use bentpipe_units::Span;

const RATE: f64 = 1000.0;
const RTT: f64 = 0.55;

fn path() -> Bottleneck {
    Bottleneck::new(ControllerConfig::Bbr(bbr::Params::default()), &connection(10, None), RATE, RTT)
}

/// Part of the rate used from `start` on, for `secs`, with `each` called for every ACK.
fn utilisation(path: &mut Bottleneck, start: f64, secs: f64, mut each: impl FnMut(&mut Bottleneck)) -> f64 {
    path.run_until(start);
    let (sent, began) = (path.sent_segments, path.now);
    while path.now < start + secs {
        path.ack();
        each(path);
    }
    (path.sent_segments - sent) as f64 / (path.now - began) / RATE
}

#[test]
fn startup_finds_the_rate_and_drains() {
    let mut path = path();
    // Doubling for 6 rounds of 0.55 s, then 3 rounds of up to 2.885 times that, then 1.3 s of Drain.
    path.run_until(8.0);
    assert!((0.9..1.1).contains(&(path.queued() / (1.885 * RATE * RTT))), "{}", path.queued());
    path.run_until(14.0);
    let estimate = path.cc.state().bandwidth.unwrap().as_bps() as f64 / f64::from(8 * SMSS);
    println!("BBR, estimate {estimate:.1} of {RATE} segments/s after 14 s, queue {:.0}", path.queued());
    assert!((estimate / RATE - 1.0).abs() < 0.02, "{estimate}");
    assert!(path.queued() < 0.3 * RATE * RTT, "not drained: {}", path.queued());
    let window = path.segments() / (RATE * RTT);
    assert!((1.9..2.2).contains(&window), "{window} bandwidth-delay products");
}

#[test]
fn probe_rtt_empties_the_path_after_startup() {
    let mut path = path();
    let (mut smallest, mut lowest_flight) = (f64::MAX, u64::MAX);
    path.run_until(10.0);
    while path.now < 13.0 {
        path.ack();
        smallest = smallest.min(path.segments());
        lowest_flight = lowest_flight.min(path.flight());
    }
    assert_eq!(smallest, 4.0);
    assert!(lowest_flight <= 4 * u64::from(SMSS));
}

#[test]
fn probe_rtt_ends_in_loss_recovery() {
    let mut path = path();
    while path.segments() > 4.0 {
        path.ack();
    }
    // Much is outstanding, as SACKed and lost, and two segments are in the network.
    let bytes = u64::from(SMSS);
    let srtt = Some(Span::from_millis(550));
    for n in 1..20 {
        path.cc.on_ack(&Ack {
            now: at(path.now + 0.1 * f64::from(n)),
            acked: 0,
            delivered: bytes,
            flight: 10_000 * bytes,
            pipe: 2 * bytes,
            rtt: None,
            srtt,
            min_rtt: srtt,
            cwnd_limited: true,
            in_recovery: true,
        });
    }
    assert!(path.segments() > 20.0, "{} segments", path.segments());
}

#[test]
fn recovery_sends_what_is_in_the_network() {
    let mut path = path();
    path.run_until(14.0);
    let (now, flight) = (at(path.now), path.flight());
    path.cc.on_loss(&Loss { now, flight, pipe: flight / 2, min_rtt: None });
    assert_eq!(path.cc.window(), flight / 2);
}

#[test]
fn the_link_is_full_and_the_queue_short() {
    let mut longest = 0.0_f64;
    let used = utilisation(&mut path(), 14.0, 100.0, |path| longest = longest.max(path.queued()));
    println!("BBR, {:.1} % of the link over 100 s, queue up to {longest:.0} segments", 100.0 * used);
    // Paced at 0.99 of the rate in six phases of eight, 1.25 and 0.75 in the others: about 0.9925.
    assert!((0.98..0.995).contains(&used), "{used}");
    // The phase at 1.25 adds a quarter of the bandwidth-delay product.
    assert!((0.2..0.3).contains(&(longest / (RATE * RTT))), "{longest}");
}

#[test]
fn random_loss_is_no_signal() {
    let mut count = 0;
    let used = utilisation(&mut path(), 14.0, 100.0, |path| {
        count += 1;
        if count % 100 == 0 {
            let (now, flight) = (at(path.now), path.flight());
            path.cc.on_loss(&Loss { now, flight, pipe: flight, min_rtt: None });
        }
    });
    println!("BBR, {:.1} % of the link at a loss of 1 %", 100.0 * used);
    assert!(used > 0.95, "{used}");
}
