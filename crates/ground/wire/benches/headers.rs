//! Nanoseconds for what every simulated segment costs: parse and emit of a TCP header with timestamps, its checksum with
//! an elided payload, and one router hop.
//!
//! `cargo bench -p bentpipe-wire`. Prints the fastest of many short rounds, which a busy machine
//! disturbs least, and their median.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::time::Instant;

use bentpipe_wire::checksum::Pseudo;
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::tcp::{Flags, Options, Repr, Segment, SeqNumber};
use bentpipe_wire::{ip, ipv4};

const ROUNDS: usize = 501;
const CALLS: u32 = 10_000;

fn time(name: &str, mut call: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / f64::from(CALLS)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:44} {:6.1} ns, median {:6.1} ns", rounds[0], rounds[ROUNDS / 2]);
}

fn main() {
    let data = Repr {
        ack: Some(SeqNumber(1)),
        flags: Flags::PSH,
        window: 512,
        options: Options::timestamps(7, 8),
        ..Repr::new(1, 2, SeqNumber(9))
    };
    let sack = Options {
        sack: (0..3).map(|i| (SeqNumber(i), SeqNumber(i + 1))).collect(),
        ..Options::timestamps(7, 8)
    };
    let ack = Repr { options: sack, ..data };
    tcp("timestamps", &data);
    tcp("timestamps and 3 SACK blocks", &ack);
    hop(&data);
}

fn tcp(what: &str, repr: &Repr) {
    let pseudo = Pseudo::v4([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::TCP);
    let mut bytes = [0; 60];
    let len = repr.buffer_len();
    time(&format!("TCP emit, {what}"), || black_box(repr).emit(black_box(&mut bytes)));
    time(&format!("TCP checksum, {what}"), || {
        Segment::new_elided(black_box(&mut bytes[..len]), 1448).unwrap().fill_checksum(black_box(&pseudo));
    });
    time(&format!("TCP parse, {what}"), || {
        let segment = Segment::new_elided(black_box(&bytes[..len]), 1448).unwrap();
        black_box(Repr::parse(&segment).unwrap());
    });
}

fn hop(tcp: &Repr) {
    let ip = ipv4::Repr::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), Protocol::TCP, 1480);
    let mut bytes = [0; 52];
    tcp.emit(&mut bytes[20..]);
    time("IPv4 emit", || black_box(&ip).emit(black_box(&mut bytes)));
    time("IPv4 hop: check, decrement TTL", || {
        let mut packet = ip::Packet::new_elided(black_box(&mut bytes[..]), 1448).unwrap();
        packet.decrement_hop_limit();
    });
    time("IPv4 + TCP parse of a received segment", || {
        let packet = ip::Packet::new_elided(black_box(&bytes[..]), 1448).unwrap();
        let upper = packet.upper().unwrap();
        let segment = Segment::new_elided(upper.bytes, upper.elided).unwrap();
        black_box(Repr::parse(&segment).unwrap());
    });
}
