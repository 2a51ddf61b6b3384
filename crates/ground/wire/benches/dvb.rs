//! Nanoseconds a packet and Mbit/s of ULE, MPE and GSE, packing, there and back; the crate `ule` beside them, which makes
//! SNDUs but no TS packets, and reassembles SNDUs from TS payloads.
//!
//! `cargo bench -p bentpipe-wire --bench dvb`. Takes the fastest of many short rounds, which a busy machine disturbs least.
//! Mbit/s are of TS packets or data fields, on one core.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::hint::black_box;
use std::time::Instant;

use bentpipe_wire::crc32::Crc32;
use bentpipe_wire::ethernet::{Filter, MacAddr};
use bentpipe_wire::ts::{Method, PACKET_LEN, Pid};
use bentpipe_wire::{gse, mpe, ule};

const ROUNDS: usize = 400;
/// Packets of a round.
const COUNT: usize = 500;
/// The longest data field of DVB-S2.
const FIELD_LEN: usize = 7264;

/// Nanoseconds a packet of the fastest round.
fn fastest(mut round: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / COUNT as f64
    };
    (0..ROUNDS).map(time).fold(f64::INFINITY, f64::min)
}

fn print(what: &str, pdu_len: usize, ns: f64, stream_len: usize) {
    let mbps = stream_len as f64 * 8.0 * 1000.0 / (ns * COUNT as f64);
    println!("{what:30} {pdu_len:5} B {ns:8.1} ns {:8.2} Mpackets/s {mbps:8.0} Mbit/s", 1000.0 / ns);
}

fn main() {
    for pdu_len in [64, 1500] {
        let pdu: Vec<u8> = (0..pdu_len).map(|index| index as u8 | 0x40).collect();
        let ns = fastest(|| {
            for _ in 0..COUNT {
                black_box(Crc32::new().add_bytes(black_box(&pdu)));
            }
        });
        print("CRC-32 alone", pdu_len, ns, pdu_len * COUNT);
        let stream = ule(&pdu);
        peer(&pdu, &stream);
        mpe(&pdu);
        gse(&pdu);
    }
}

fn pid() -> Pid {
    Pid::new(0x101).expect("13 bits")
}

fn ule(pdu: &[u8]) -> Vec<u8> {
    let repr = ule::Repr::new(ule::Type::IPV4);
    let (mut encapsulator, mut stream) = (ule::Encapsulator::new(pid(), Method::Packing), Vec::new());
    let ns = fastest(|| {
        stream.clear();
        (0..COUNT).for_each(|_| encapsulator.push(&repr, black_box(pdu), &mut stream).expect("fits"));
        encapsulator.flush(&mut stream);
    });
    print("ULE encapsulate", pdu.len(), ns, stream.len());
    let (mut receiver, mut seen) = (ule::Receiver::new(pid(), Filter::All), 0);
    let ns = fastest(|| {
        receiver = ule::Receiver::new(pid(), Filter::All);
        black_box(&stream).as_chunks::<PACKET_LEN>().0.iter().for_each(|packet| {
            receiver.push(packet, |sndu| {
                black_box(sndu);
                seen += 1;
            });
        });
    });
    assert_eq!(seen, ROUNDS * COUNT);
    print("ULE decapsulate", pdu.len(), ns, stream.len());
    stream
}

/// The crate `ule` on the same PDUs and TS packets.
fn peer(pdu: &[u8], stream: &[u8]) {
    let mut out = vec![0; pdu.len() + 8];
    let ns = fastest(|| {
        for _ in 0..COUNT {
            let sndu = ::ule::Sndu::new(::ule::TypeField::EtherType(0x0800), None, black_box(pdu));
            sndu.serialize_into(&mut out).expect("fits");
        }
    });
    print("crate ule: SNDU, no TS", pdu.len(), ns, out.len() * COUNT);
    let mut seen = 0;
    let ns = fastest(|| {
        let mut receiver = ::ule::UleReceiver::new();
        for packet in stream.as_chunks::<PACKET_LEN>().0 {
            for sndu in receiver.push(black_box(&packet[4..]), packet[1] & 0x40 != 0) {
                black_box(::ule::Sndu::parse(&sndu).expect("a right CRC"));
                seen += 1;
            }
        }
    });
    assert_eq!(seen, ROUNDS * COUNT);
    print("crate ule: decapsulate", pdu.len(), ns, stream.len());
}

fn mpe(pdu: &[u8]) {
    let repr = mpe::Repr::new(MacAddr([2, 0, 0, 0, 0, 1]));
    let (mut encapsulator, mut stream) = (mpe::Encapsulator::new(pid(), Method::Packing), Vec::new());
    let ns = fastest(|| {
        stream.clear();
        (0..COUNT).for_each(|_| encapsulator.push(&repr, black_box(pdu), &mut stream).expect("fits"));
        encapsulator.flush(&mut stream);
    });
    print("MPE encapsulate", pdu.len(), ns, stream.len());
    let mut seen = 0;
    let ns = fastest(|| {
        let mut receiver = mpe::Receiver::new(pid(), Filter::All);
        for packet in black_box(&stream).as_chunks::<PACKET_LEN>().0 {
            receiver.push(packet, |datagram| {
                black_box(datagram);
                seen += 1;
            });
        }
    });
    assert_eq!(seen, ROUNDS * COUNT);
    print("MPE decapsulate", pdu.len(), ns, stream.len());
}

fn gse(pdu: &[u8]) {
    let repr = gse::Repr::new(ule::Type::IPV4, gse::Label::Broadcast);
    let (mut encapsulator, mut fields, mut lens) = (gse::Encapsulator::new(), Vec::new(), Vec::new());
    let ns = fastest(|| {
        fields.clear();
        lens.clear();
        for _ in 0..COUNT {
            encapsulator.push(&repr, black_box(pdu)).expect("fits");
            if encapsulator.waiting_len() >= FIELD_LEN {
                lens.push(encapsulator.fill(FIELD_LEN, &mut fields));
            }
        }
        while !encapsulator.is_empty() {
            lens.push(encapsulator.fill(FIELD_LEN, &mut fields));
        }
    });
    print("GSE encapsulate", pdu.len(), ns, fields.len());
    let mut seen = 0;
    let ns = fastest(|| {
        let (mut receiver, mut rest) = (gse::Receiver::new(gse::Filter::All), &fields[..]);
        for &len in &lens {
            let (field, behind) = rest.split_at(len);
            receiver.push(black_box(field), |pdu| {
                black_box(pdu);
                seen += 1;
            });
            rest = behind;
        }
    });
    assert_eq!(seen, ROUNDS * COUNT);
    print("GSE decapsulate", pdu.len(), ns, fields.len());
}
