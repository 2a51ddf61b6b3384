//! What channels do, as a UDP receiver sees it: losses have their statistics, and nothing else is lost.
//!
//! Which packets are lost is drawn from the scenario's seed by their number, so these figures are the same on every
//! machine; only how many packets there are varies.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use bentpipe_net::channel::{Channel, Config};
use bentpipe_net::link;
use bentpipe_units::Span;

use crate::bench::{Bench, able, holds, on_time, undisturbed};

const PACKETS: u64 = 20_000;

/// Sends numbered datagrams, 10 000 a second.
fn send(socket: &UdpSocket) {
    on_time();
    let (start, mut number) = (Instant::now(), 0_u64);
    while number < PACKETS {
        // After a pause no more at once than the queues of devices and sockets take.
        let due = ((start.elapsed().as_secs_f64() * 1e4) as u64).min(PACKETS).min(number + 30);
        (number..due).for_each(|number| assert!(socket.send(&number.to_be_bytes()).is_ok()));
        number = due;
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// For each packet that was sent whether it was lost, and whether all that came were in order.
fn losses(config: &Config) -> (Vec<bool>, bool) {
    let channel = Channel::new(config).expect("a possible channel");
    let delay = Span::from_millis(3);
    let bench =
        Bench::with_channel(&link::Config { delay, ..link::Config::default() }, Some(Box::new(channel)));
    let [from, to] = bench.sockets();
    let arrived = std::thread::scope(|scope| {
        scope.spawn(|| send(&from));
        let receiver = scope.spawn(|| {
            on_time();
            let (mut buffer, mut arrived) = ([0; 64], Vec::new());
            // Ends when none has come for a while.
            while let Ok(8) = to.recv(&mut buffer) {
                arrived.push(u64::from_be_bytes(*buffer.first_chunk().expect("eight bytes")));
            }
            arrived
        });
        receiver.join().expect("no panic")
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
    undisturbed(|| {
        let (lost, in_order) = losses(&Config::PacketErrors { loss: 0.0 });
        assert!(in_order);
        holds(share(&lost) == 0.0, || format!("{} lost", share(&lost)))
    });
}

#[test]
fn independent_losses_have_their_rate_and_no_memory() {
    let Some(_turn) = able() else { return };
    let p = 0.05;
    undisturbed(|| {
        let (lost, in_order) = losses(&Config::PacketErrors { loss: p });
        assert!(in_order);
        let ((after, trials), share) = (after_loss(&lost), share(&lost));
        eprintln!("lost {share}, after a loss {after}");
        let is_rate = (share - p).abs() < half_width(p, PACKETS as f64);
        holds(is_rate && (after - p).abs() < half_width(p, trials), || {
            format!("{share} lost, {after} after a loss")
        })
    });
}

#[test]
fn losses_in_bursts_have_their_rate_and_length() {
    let Some(_turn) = able() else { return };
    let (p, r) = (0.01, 0.2);
    let (rate, memory) = (p / (p + r), 1.0 - p - r);
    // Losses follow each other, so fewer of the trials are independent.
    let independent = PACKETS as f64 * (1.0 - memory) / (1.0 + memory);
    undisturbed(|| {
        let (lost, in_order) = losses(&Config::GilbertElliott { p, r, loss_good: 0.0, loss_bad: 1.0 });
        assert!(in_order);
        let ((after, trials), share) = (after_loss(&lost), share(&lost));
        eprintln!("lost {share} of {rate}, bursts of {} for {}", 1.0 / (1.0 - after), 1.0 / r);
        let is_rate = (share - rate).abs() < half_width(rate, independent);
        holds(is_rate && (after - (1.0 - r)).abs() < half_width(r, trials), || {
            format!("{share} of {rate} lost, {after} after a loss")
        })
    });
}
