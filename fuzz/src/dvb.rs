//! Checks on `bentpipe-dvb`: whatever TS packets and data fields a receiver gets, it continues, and what a sender accepts is
//! output at the other end; whatever the bursts of a return link, the receiver continues and the plan fits the frame.

use std::sync::Arc;

use bentpipe_dvb::dama::{self, Contract, ControlCentre, Frame, Receiver};
use bentpipe_dvb::{Config, Decapsulator, Encapsulation, Encapsulator, Event, Pdu, Rohc, RohcMode};
use bentpipe_net::{Body, Cx, Element, Outbox, Packet, Port, Wire};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::crc32::Crc32;
use bentpipe_wire::ts;

/// An element under test.
pub type Target = fn(&[u8]);

/// Every target by the name of its corpus.
pub const TARGETS: &[(&str, Target)] = &[("stream", fuzz_stream), ("burst", fuzz_burst)];

/// The first byte says how both ends are configured, the second what the rest is: TS packets, data fields, or packets to
/// be encapsulated.
pub fn fuzz_stream(data: &[u8]) {
    let [first, second, rest @ ..] = data else { return };
    let config = dvb_config(*first);
    match second % 3 {
        0 => fuzz_receiver(&config, rest, ts::PACKET_LEN),
        1 => fuzz_receiver(&config, rest, 1 + usize::from(*second) * 4),
        // A wrong checksum would be refused at the other end.
        _ => fuzz_sender(&dvb_config(first & !0x20), rest),
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

fn fuzz_receiver(config: &Config, data: &[u8], field_len: usize) {
    let mut receiver = Decapsulator::new(config, Default::default()).expect("a possible configuration");
    let (mut packets, mut feedback) = (0, Vec::new());
    let mut sink = |event: Event<'_>| packets += u64::from(!matches!(event, Event::Anomaly(_)));
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
fn fuzz_sender(config: &Config, mut data: &[u8]) {
    let mut sender = Encapsulator::new(config).expect("a possible configuration");
    let mut receiver = Decapsulator::new(config, Default::default()).expect("a possible configuration");
    let (mut late, mut received) = (Time::from_nanos(1 << 50), 0);
    let mut sink = |event: Event<'_>| match event {
        Event::Anomaly(trouble) => panic!("{trouble} on a line without errors"),
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
        // What is left of a full frame has begun to wait.
        late += Span::from_secs(1);
    }
    assert_eq!(sender.sent().pdus, received);
}

/// The first byte says what packets are put into and whether the heads' CRCs are made right. Then bursts of a return link: the
/// length of the head, that of what is behind it in two bytes, and both. What the receiver makes of their requests goes to a
/// control centre.
pub fn fuzz_burst(data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else { return };
    let frame = Arc::new(Frame::new(&dama::Config::default(), 4).expect("the preset"));
    let contract = Contract { fca: first & 0x40 != 0, ..Contract::default() };
    let mut centre = ControlCentre::new(&frame, &[contract; 4]).expect("nothing is promised");
    let mut receiver = Receiver::new(BURSTS[usize::from(first & 0x3f) % BURSTS.len()]);
    while let Some((burst, behind)) = burst(rest, first & 0x80 == 0) {
        let _ = dama::PlanEntry::parse(&burst);
        assert!(dama::cells_of(&burst).len() <= burst.len());
        let parts = call(&mut receiver, Time::ZERO, Some(burst));
        for (port, packet) in parts {
            if port == 1 {
                call(&mut centre, Time::ZERO, Some(packet));
            } else {
                assert!(!packet.is_empty(), "an IP packet of no bytes");
            }
        }
        rest = behind;
    }
    for n in 0..3 {
        let plan = call(&mut centre, frame.superframe_start(n), None);
        let slots = plan.iter().map(|(_, part)| dama::PlanEntry::parse(part).expect("a plan").slots.len());
        assert!(slots.sum::<usize>() <= frame.units() as usize);
    }
}

const BURSTS: [dama::Encapsulation; 5] = [
    dama::Encapsulation::Ule,
    dama::Encapsulation::Mpe,
    dama::Encapsulation::Gse,
    dama::Encapsulation::Rle,
    dama::Encapsulation::RleCrc,
];

fn burst(data: &[u8], is_sealed: bool) -> Option<(Packet, &[u8])> {
    let [head_len, low, high, rest @ ..] = data else { return None };
    let (head, rest) = rest.split_at(rest.len().min(usize::from(*head_len)));
    let (body, rest) = rest.split_at(rest.len().min(usize::from(u16::from_le_bytes([*low, *high]))));
    let mut packet = Packet::from_bytes(head).with_body(Body::Bytes(body.to_vec()));
    if let (true, Some((fields, crc))) = (is_sealed, packet.header_mut().split_last_chunk_mut::<4>()) {
        *crc = Crc32::new().add_bytes(fields).register().to_be_bytes();
    }
    Some((packet, rest))
}

/// Calls an element as the engine would; what it sends, and at which of its first four outputs.
fn call(element: &mut dyn Element, now: Time, packet: Option<Packet>) -> Vec<(u32, Packet)> {
    let wires: Vec<Wire> = (0..4).map(|port| Wire::new(port, Port(0))).collect();
    let (mut outbox, mut stream) = (Outbox::default(), RandomStream::new(7, "fuzz-burst"));
    let mut cx = Cx::new(now, &wires, &mut outbox, &mut stream);
    match packet {
        Some(packet) => element.receive(Port(0), packet, &mut cx),
        None => element.wake(&mut cx),
    };
    std::iter::from_fn(|| outbox.pop()).map(|(wire, packet)| (wire.to(), packet)).collect()
}
