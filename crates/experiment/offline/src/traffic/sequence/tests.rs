use std::net::Ipv4Addr;

use bentpipe_wire::ipv4;
use bentpipe_wire::tcp::{Repr, SackBlocks};

use super::*;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A segment from A to B, or back, of which the payload is not captured.
fn at(time_ns: u64, bytes: &[u8], len: usize) -> Packet<'_> {
    Packet { number: 1, link: Link::default(), time_ns, len, bytes, protocol: 0 }
}

fn packet(is_back: bool, repr: &Repr, payload: usize) -> (Vec<u8>, usize) {
    let (src, dst) = if is_back { (B, A) } else { (A, B) };
    let ip = ipv4::Repr::new(src, dst, Protocol::TCP, repr.buffer_len() + payload);
    let mut bytes = vec![0; ip.buffer_len() + repr.buffer_len()];
    ip.emit(&mut bytes);
    repr.emit(&mut bytes[ip.buffer_len()..]);
    let len = bytes.len() + payload;
    (bytes, len)
}

/// A connection whose numbers pass 2^32: SYN, two segments, one lost and sent again, with a SACK block.
fn connection() -> Connections {
    let first = SeqNumber(u32::MAX - 1500);
    let mut found = Connections::default();
    let mut add = |millis: u64, is_back: bool, repr: Repr, payload: usize| {
        let (bytes, len) = packet(is_back, &repr, payload);
        found.packet(&at(1_000_000_000 + millis * 1_000_000, &bytes, len));
    };
    let forth = |seq: u32| Repr { ack: Some(SeqNumber(8)), window: 50, ..Repr::new(1000, 80, first + seq) };
    let back = |ack: u32| Repr { ack: Some(first + ack), window: 500, ..Repr::new(80, 1000, SeqNumber(8)) };
    let scaled = Options { window_scale: Some(2), ..Options::NONE };
    let syn = Repr { flags: Flags::SYN, options: scaled, window: 900, ..Repr::new(1000, 80, first) };
    add(0, false, syn, 0);
    add(10, true, Repr { flags: Flags::SYN, options: scaled, seq: SeqNumber(7), ..back(1) }, 0);
    add(20, false, forth(1), 0);
    add(21, false, forth(1), 1000);
    add(22, false, forth(1001), 1000);
    let mut sack = SackBlocks::NONE;
    sack.push(first + 1001, first + 2001);
    add(32, true, Repr { options: Options { sack, ..Options::NONE }, ..back(1) }, 0);
    add(33, false, forth(1), 1000);
    add(43, true, back(2001), 0);
    found
}

#[test]
fn segments_acknowledgements_and_windows_are_relative() {
    let found = connection();
    let (ends, _, direction) = &found.all[0];
    assert_eq!(named(*ends), "10.0.0.1:1000 to 10.0.0.2:80");
    let ranges: Vec<_> = direction.segments.iter().map(|sent| (sent.range, sent.is_retransmission)).collect();
    let expected = [([0, 1], false), ([1, 1001], false), ([1001, 2001], false), ([1, 1001], true)];
    assert_eq!(ranges, expected);
    let acks: Vec<_> = direction.acks.iter().map(|ack| (ack.ack, ack.edge)).collect();
    // That of the SYN is not scaled; the others are, by four.
    assert_eq!(acks, [(1, 501), (1, 2001), (2001, 4001)]);
    assert_eq!(direction.sacks, [(0.032, [1001, 2001])]);
    assert_eq!((direction.bytes(), direction.retransmissions()), (2000, 1));
    assert!((direction.lasts_s() - 0.043).abs() < 1e-9);
    let part = direction.between([0.0215, 0.0325]);
    assert_eq!((part.segments.len(), part.acks.len(), part.sacks.len()), (1, 1, 1));
}

#[test]
fn graphs_have_every_element() {
    let found = connection();
    let (ends, _, direction) = &found.all[0];
    let plot = plot(*ends, direction);
    let names: Vec<&str> = plot.curves.iter().map(|curve| curve.name.as_str()).collect();
    assert_eq!(names, ["window's edge", "acknowledged", "segments", "retransmissions", "SACK"]);
    // The last edge, 4001, is far above the last byte.
    assert!(plot.note.ends_with("up to 4.001\u{a0}kB"), "{}", plot.note);
    assert!(plot.curves[0].points.iter().all(|point| point.1.is_nan() || point.1 <= 3001.0));
    let text = xplot(*ends, direction);
    assert!(
        text.starts_with("double double\ntitle\n10.0.0.1:1000 to 10.0.0.2:80\n") && text.ends_with("go\n")
    );
    assert!(text.contains("red\nline 0.033000000 1 0.033000000 1001\n"), "{text}");
    assert!(text.contains("purple\nline 0.032000000 1001 0.032000000 2001\n"), "{text}");
    assert!(text.contains("green\nline 0.043000000 1 0.043000000 2001\n"), "{text}");
}

#[test]
fn other_packets_and_noise_are_passed_over() {
    let mut found = Connections::default();
    for bytes in [&[][..], &[0x45; 30], &[0x60; 60], &[0xff; 100]] {
        found.packet(&at(0, bytes, bytes.len() + 7));
    }
    assert!(found.all.is_empty());
}
