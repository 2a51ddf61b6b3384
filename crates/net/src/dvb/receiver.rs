//! The receiving end of a stream.

use std::any::Any;

use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Deframer};
use bentpipe_wire::ethernet;

use super::config::Config;
use super::decapsulator::{Decapsulator, Event};
use super::unit::{Birth, Unit, digest};
use crate::packet::LONGEST_HEADERS;
use crate::{Body, Cx, Element, Impossible, Observer, Packet, Port, Unit as Measure};

/// Takes the TS packets or baseband frames of one stream at input 0. IP packets leave at output 0 at once, feedback for the
/// other end at output 1, and feedback that came from there at output 2.
#[derive(Debug)]
pub struct Receiver {
    decapsulator: Decapsulator,
    deframer: Deframer,
    packets: Vec<Packet>,
    feedback: Vec<u8>,
    /// Frames whose header is wrong.
    frame_errors: u64,
    /// Packets that came out and had not gone in so.
    altered: u64,
}

impl Receiver {
    /// The receiving end of a stream, which takes what is for any address.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(config: &Config) -> Result<Receiver, Impossible> {
        let decapsulator = Decapsulator::new(config, ethernet::Filter::All)?;
        let deframer = Deframer::new();
        Ok(Receiver {
            decapsulator,
            deframer,
            packets: Vec::new(),
            feedback: Vec::new(),
            frame_errors: 0,
            altered: 0,
        })
    }

    fn unit(&mut self, now: Time, unit: &Unit) {
        let Receiver { decapsulator, deframer, packets, frame_errors, altered, .. } = self;
        let mut births = &unit.births[..];
        let mut sink = |event: Event<'_>| {
            if let Event::Ip(bytes) = event {
                packets.push(born(bytes, &mut births, altered));
            }
        };
        match (unit.ts(), bbframe::parse(&unit.bytes)) {
            (Some(packet), _) => decapsulator.push(now, packet, sink),
            (None, Ok((repr, field))) if repr.stream == bbframe::Stream::Transport => {
                deframer.push(&repr, field, |packet| decapsulator.push(now, packet, &mut sink));
            }
            (None, Ok((_, field))) => decapsulator.push_field(now, field, sink),
            (None, Err(_)) => *frame_errors += 1,
        }
    }
}

/// A packet that came out, with the birth of the one that went in. Of those that end in the unit the ones before it were
/// lost; one that is not among them was altered on the way, and is taken for the next of them.
fn born(bytes: &[u8], births: &mut &[Birth], altered: &mut u64) -> Packet {
    let known = digest(bytes, 0);
    let found = births.iter().position(|birth| birth.digest == known);
    *altered += u64::from(found.is_none());
    let at = found.unwrap_or(0);
    let mut packet = restore(bytes);
    if let Some(birth) = births.get(at) {
        packet.set_born(birth.born);
        *births = &births[at + 1..];
    }
    packet
}

/// A packet of these bytes, its payload only counted if it is zeros.
fn restore(bytes: &[u8]) -> Packet {
    let (head, rest) = bytes.split_at(bytes.len().min(LONGEST_HEADERS));
    if rest.iter().any(|byte| *byte != 0) {
        return Packet::from_bytes(bytes);
    }
    let mut packet = Packet::new(head.len(), rest.len() as u32);
    packet.header_mut().copy_from_slice(head);
    packet
}

impl Element for Receiver {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if let Body::Unit(unit) = packet.body() {
            self.unit(cx.now(), unit);
        }
        self.packets.drain(..).for_each(|packet| cx.emit(Port(0), packet));
        self.feedback.clear();
        if self.decapsulator.take_feedback(&mut self.feedback) {
            cx.emit(Port(1), Packet::from_bytes(&self.feedback));
            self.feedback.clear();
        }
        if self.decapsulator.take_received_feedback(&mut self.feedback) {
            cx.emit(Port(2), Packet::from_bytes(&self.feedback));
        }
        packet.recycle();
        Time::NEVER
    }

    fn wake(&mut self, _cx: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let received = self.decapsulator.received();
        observer.counter("units", Measure::Count, received.frames);
        observer.counter("sndus", Measure::Count, received.sndus);
        observer.counter("delivered", Measure::Packets, received.pdus);
        observer.counter("delivered-bytes", Measure::Bytes, received.pdu_bytes);
        observer.counter("damaged-units", Measure::Count, received.damaged + self.frame_errors);
        observer.counter("continuity-breaks", Measure::Count, received.continuity_errors);
        observer.counter("crc-errors", Measure::Count, received.crc_errors);
        observer.counter("format-errors", Measure::Count, received.format_errors);
        observer.counter("resynchronised", Measure::Count, received.resynchronised);
        observer.counter("altered", Measure::Packets, self.altered);
        observer.counter("rohc-refused", Measure::Packets, received.rohc.refused);
        observer.counter("rohc-crc-failures", Measure::Packets, received.rohc.crc_failures);
        observer.counter("rohc-checksum-failures", Measure::Packets, received.rohc.checksum_failures);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
