//! Checks on `bentpipe-net`: whatever the bytes of a trace file, they are frames or refused with a place; whatever TS packets
//! and data fields a receiver of DVB gets, it goes on, and what a sender takes comes out at the other end.

use bentpipe_net::channel::{Trace, TraceError};
use bentpipe_net::dvb::{Config, Decapsulator, Encapsulation, Encapsulator, Event, Pdu, Rohc, RohcMode};
use bentpipe_units::{Span, Time};
use bentpipe_wire::ts;

/// Reads a trace, and writes and reads it again.
pub fn fuzz_trace(data: &[u8]) {
    match Trace::parse(data) {
        Ok(trace) => {
            let digits = data.iter().filter(|byte| matches!(byte, b'0' | b'1')).count() as u64;
            assert!((1..=digits).contains(&trace.frames()));
            assert_eq!(trace.losses(), trace.iter().filter(|lost| *lost).count() as u64);
            assert_eq!(Trace::parse(trace.to_text("again").as_bytes()), Ok(trace));
        }
        Err(TraceError::Character { byte, offset, line }) => {
            assert_eq!(data[offset], byte);
            assert_eq!(line, 1 + data[..offset].iter().filter(|byte| **byte == b'\n').count());
        }
        Err(TraceError::Empty) => {}
        Err(TraceError::TooLong) => assert!(data.len() as u64 > bentpipe_net::channel::MAX_FRAMES),
    }
}

/// The first byte says how both ends are configured, the second what the rest is: TS packets, data fields, or packets to
/// be encapsulated.
pub fn fuzz_dvb(data: &[u8]) {
    let [first, second, rest @ ..] = data else { return };
    let config = dvb_config(*first);
    match second % 3 {
        0 => fuzz_dvb_receiver(&config, rest, ts::PACKET_LEN),
        1 => fuzz_dvb_receiver(&config, rest, 1 + usize::from(*second) * 4),
        // A wrong checksum would be refused at the other end.
        _ => fuzz_dvb_sender(&dvb_config(first & !0x20), rest),
    }
}

fn dvb_config(bits: u8) -> Config {
    let encapsulation = [Encapsulation::Ule, Encapsulation::Mpe, Encapsulation::Gse, Encapsulation::Ule];
    let mode = [RohcMode::Unidirectional, RohcMode::Optimistic][usize::from(bits >> 4 & 1)];
    Config {
        encapsulation: encapsulation[usize::from(bits & 3)],
        packing: (bits & 4 != 0).then_some(Span::from_millis(1)),
        rohc: (bits & 8 != 0).then(|| Rohc { mode, verify: bits & 0x20 != 0, ..Rohc::default() }),
        ..Config::default()
    }
}

fn fuzz_dvb_receiver(config: &Config, data: &[u8], field_len: usize) {
    let mut receiver = Decapsulator::new(config, Default::default()).expect("a possible configuration");
    let (mut packets, mut feedback) = (0, Vec::new());
    let mut sink = |event: Event<'_>| packets += u64::from(!matches!(event, Event::Trouble(_)));
    for (n, chunk) in data.chunks(field_len).enumerate() {
        let now = Time::from_nanos(n as u64 * 1_000_000);
        match <&[u8; ts::PACKET_LEN]>::try_from(chunk) {
            Ok(packet) => receiver.push(now, packet, &mut sink),
            Err(_) => receiver.push_field(now, chunk, &mut sink),
        }
        feedback.clear();
        receiver.take_feedback(&mut feedback);
        receiver.take_received_feedback(&mut feedback);
        assert!(feedback.len() <= 16_384);
    }
    assert_eq!(receiver.received().pdus, packets);
}

/// Each packet begins with a byte that says how long it is.
fn fuzz_dvb_sender(config: &Config, mut data: &[u8]) {
    let mut sender = Encapsulator::new(config).expect("a possible configuration");
    let mut receiver = Decapsulator::new(config, Default::default()).expect("a possible configuration");
    let (late, mut received) = (Time::from_nanos(1 << 50), 0);
    let mut sink = |event: Event<'_>| match event {
        Event::Trouble(trouble) => panic!("{trouble} on a line without errors"),
        Event::Ip(_) | Event::Ethernet(_) => received += 1,
    };
    while let [len, rest @ ..] = data {
        let (bytes, behind) = rest.split_at(rest.len().min(usize::from(*len) * 4));
        let pdu = if len & 1 == 0 { Pdu::ip(bytes) } else { Pdu::ethernet(bytes) };
        let _ = sender.push(Time::ZERO, &pdu.with_zeros(usize::from(*len)));
        data = behind;
    }
    while let Some(packet) = sender.pop(late) {
        receiver.push(late, &packet, &mut sink);
    }
    let mut field = Vec::new();
    while sender.fill(late, 1991, &mut field).is_some() {
        receiver.push_field(late, &field, &mut sink);
        field.clear();
    }
    assert_eq!(sender.sent().pdus, received);
}
