//! What channels do, as a UDP receiver sees it: losses have their statistics, and nothing else is lost.
//!
//! Which packets are lost is drawn from the scenario's seed by their number, so these figures are the same on every
//! machine.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU64, Ordering};

use bentpipe_net::channel::{Channel, Config};
use bentpipe_net::link;
use bentpipe_testkit::until;
use bentpipe_units::Span;

use super::bench::{Bench, able};

const PACKETS: u64 = 20_000;

/// Datagrams that may be ahead of the latest that was received. It is less than the queues of devices and sockets hold, so that a pause
/// of the machine loses none, and more than a burst of losses has.
const WINDOW: u64 = 1000;

/// Sends numbered datagrams, and goes on after the last one until the receiver is past it.
fn send(socket: &UdpSocket, latest: &AtomicU64) {
    let latest = || latest.load(Ordering::Relaxed);
    for number in 0_u64.. {
        if number >= latest() + WINDOW {
            until("an arrival", || number < latest() + WINDOW);
        }
        if latest() >= PACKETS {
            return;
        }
        assert!(socket.send(&number.to_be_bytes()).is_ok());
    }
}

/// Returns the numbers that arrived.
fn receive(socket: &UdpSocket, latest: &AtomicU64) -> Vec<u64> {
    let (mut buffer, mut arrived) = ([0; 64], Vec::new());
    loop {
        assert_eq!(socket.recv(&mut buffer).expect("an arrival"), 8);
        let number = u64::from_be_bytes(*buffer.first_chunk().expect("eight bytes"));
        latest.store(number, Ordering::Relaxed);
        if number >= PACKETS {
            return arrived;
        }
        arrived.push(number);
    }
}

/// For each packet that was sent whether it was lost, and whether all that came were in order.
fn losses(config: &Config) -> (Vec<bool>, bool) {
    let channel = Channel::new(config).expect("a possible channel");
    let delay = Span::from_millis(3);
    let bench =
        Bench::with_channel(&link::Config { delay, ..link::Config::default() }, Some(Box::new(channel)));
    let ([from, to], latest) = (bench.sockets(), AtomicU64::new(0));
    let arrived = std::thread::scope(|scope| {
        scope.spawn(|| send(&from, &latest));
        receive(&to, &latest)
    });
    bench.finish();
    let mut lost = vec![true; PACKETS as usize];
    arrived.iter().for_each(|number| lost[*number as usize] = false);
    (lost, arrived.is_sorted_by(|a, b| a < b))
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
}

/// How often a loss follows a loss, and how many losses have a successor.
fn after_loss(lost: &[bool]) -> (f64, f64) {
    let after: Vec<bool> = lost.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
    (share(&after), after.len() as f64)
}

/// The 99.9 % confidence interval's half width of a share `p` in `n` independent trials.
fn half_width(p: f64, n: f64) -> f64 {
    3.29 * (p * (1.0 - p) / n).sqrt()
}

#[test]
fn without_a_fault_nothing_is_lost_or_reordered() {
    let Some(_turn) = able() else { return };
    let (lost, in_order) = losses(&Config::PacketErrors { loss: 0.0 });
    assert!(in_order);
    assert_eq!(share(&lost), 0.0);
}

#[test]
fn independent_losses_have_their_rate_and_no_memory() {
    let Some(_turn) = able() else { return };
    let p = 0.05;
    let (lost, in_order) = losses(&Config::PacketErrors { loss: p });
    assert!(in_order);
    let ((after, trials), share) = (after_loss(&lost), share(&lost));
    eprintln!("lost {share}, after a loss {after}");
    assert!((share - p).abs() < half_width(p, PACKETS as f64), "{share} lost");
    assert!((after - p).abs() < half_width(p, trials), "{after} after a loss");
}

#[test]
fn losses_in_bursts_have_their_rate_and_length() {
    let Some(_turn) = able() else { return };
    let (p, r) = (0.01, 0.2);
    let (rate, memory) = (p / (p + r), 1.0 - p - r);
    // Losses follow each other, so fewer of the trials are independent.
    let independent = PACKETS as f64 * (1.0 - memory) / (1.0 + memory);
    let (lost, in_order) = losses(&Config::GilbertElliott { p, r, loss_good: 0.0, loss_bad: 1.0 });
    assert!(in_order);
    let ((after, trials), share) = (after_loss(&lost), share(&lost));
    eprintln!("lost {share} of {rate}, bursts of {} for {}", 1.0 / (1.0 - after), 1.0 / r);
    assert!((share - rate).abs() < half_width(rate, independent), "{share} of {rate} lost");
    assert!((after - (1.0 - r)).abs() < half_width(r, trials), "{after} after a loss");
}
