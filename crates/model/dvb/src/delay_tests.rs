//! Streams of one carrier whose receivers have other delays.

use bentpipe_net::Packet;
use bentpipe_net::queue::{Discipline, DropTailConfig};
use bentpipe_net::testing::{Harness, MS, ms};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::ip::{self, Protocol};

use super::*;

/// A stream with a PID, and a stream for groups that it shares with others.
fn path(number: u16, delay: Span, encapsulation: Encapsulation) -> PathConfig {
    let stream = |pid| Config {
        pid: DataPid::new(pid).expect("a PID of data"),
        encapsulation,
        packing: Some(ms(1)),
        ..Config::default()
    };
    PathConfig {
        name: format!("link/{number}/forward"),
        dvb: stream(0x200 + number),
        common: (encapsulation == Encapsulation::Ule).then(|| stream(0x300)),
        modcod: None,
        queue: Discipline::DropTail(DropTailConfig { packets: Some(1_000_000), bytes: None }),
        delay,
        mtu: Bytes::new(1500),
    }
}

/// A packet of `len` bytes to a group or to one receiver.
fn packet(len: usize, is_to_group: bool) -> Packet {
    let to = if is_to_group { [239, 0, 0, 1] } else { [10, 0, 0, 2] };
    let mut packet = Packet::new(20, len as u32 - 20);
    ip::Repr::new([10, 0, 0, 1].into(), to.into(), Protocol::UDP, len - 20).emit(packet.header_mut());
    packet
}

/// Receiver of a unit, the time of its sending, its number and its bytes.
type Arrival = (u16, u64, u64, Vec<u8>);

/// Returns the units of all receivers by sending: the times of arrival less the delays.
fn sent(line: &Line, encapsulation: Encapsulation, delays: [Span; 3]) -> Vec<Arrival> {
    let paths = [0, 1, 2].map(|n| path(n, delays[usize::from(n)], encapsulation));
    let mut rig = Harness::new(Sender::new(line, &paths).expect("a possible carrier"));
    for n in 0..300_u16 {
        // With pauses in which nothing waits.
        let at = u64::from(n) * 1_300_007 + u64::from(n / 50) * 400 * MS;
        rig.receive(at, n % 3, packet(60 + usize::from(n) * 4, n % 5 == 0));
        if n == 200 {
            rig.element.set_line(Time::from_nanos(at), &faster(line)).expect("a possible change");
            rig.poke();
        }
    }
    rig.run_until(60_000 * MS);
    let arrival = |(at, port, packet): &(Time, bentpipe_net::Port, Packet)| {
        let unit: &Unit = packet.carried().expect("a unit");
        (port.0, at.as_nanos() - delays[usize::from(port.0)].as_nanos(), unit.number, unit.bytes.clone())
    };
    // Tables go on.
    let mut sent: Vec<Arrival> =
        rig.out.iter().map(arrival).filter(|(_, at, ..)| *at < 10_000 * MS).collect();
    sent.sort();
    sent
}

/// Returns a carrier of more symbols or bits, where it may have them.
fn faster(line: &Line) -> Line {
    match line.clone() {
        Line::TransportStream { group, buffers, tables, .. } => {
            Line::TransportStream { rate: "11 Mbit/s".parse().expect("a rate"), group, buffers, tables }
        }
        other => other,
    }
}

fn s2(input_streams: InputStreams) -> Line {
    Line::DvbS2 {
        symbol_rate: 5_000_000,
        modcod: "QPSK 3/4".parse().expect("a MODCOD"),
        frame: FrameSize::Normal,
        pilots: false,
        roll_off: RollOff::R020,
        steps: Vec::new(),
        es_n0_db: None,
        margin_db: 0.0,
        reaction: Span::ZERO,
        input_streams,
        tables: None,
    }
}

/// Delays change when a unit arrives, neither its content nor when it is sent.
#[test]
fn delays_of_receivers_do_not_change_what_is_sent() {
    let ts = |group, buffers, tables| Line::TransportStream {
        rate: "8 Mbit/s".parse().expect("a rate"),
        group,
        buffers,
        tables,
    };
    let (single, multiple) = (s2(InputStreams::Single), s2(InputStreams::Multiple));
    let cases = [
        (ts(1, 2, None), Encapsulation::Ule),
        (ts(1, 2, Some(ms(100))), Encapsulation::Ule),
        (ts(6, 4, None), Encapsulation::Ule),
        (single.clone(), Encapsulation::Ule),
        (single, Encapsulation::Gse),
        (multiple, Encapsulation::Gse),
    ];
    for (line, encapsulation) in cases {
        let alike = sent(&line, encapsulation, [ms(250); 3]);
        assert!(alike.len() > 50, "{line:?}: {} units", alike.len());
        for delays in [[0, 250, 250], [250, 0, 250], [250, 10, 0], [250, 249, 40_000]] {
            let unlike = sent(&line, encapsulation, delays.map(ms));
            let first = alike.iter().zip(&unlike).find(|(alike, unlike)| alike != unlike);
            let first = first.map(|(alike, unlike)| (&alike.0, alike.1, alike.2, unlike.1, unlike.2));
            assert!(alike.len() == unlike.len() && first.is_none(), "{line:?} {delays:?}: {first:?}");
        }
    }
}
