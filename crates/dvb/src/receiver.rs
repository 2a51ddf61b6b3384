//! Receiver of a stream.

use std::any::Any;

use bentpipe_net::LONGEST_HEADERS;
use bentpipe_net::{Cx, Element, InvalidConfig, Observer, Packet, Port};
use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Deframer};
use bentpipe_wire::{ethernet, gse};

use super::config::Config;
use super::decapsulator::{Decapsulator, Event};
use super::unit::{CarriedPacket, Unit, digest};
use crate::metrics;

/// Receiver of the TS packets or BBFRAMEs of one stream, at input 0.
///
/// IP packets leave at output 0 at once, feedback for the other end at output 1, and feedback received from there at output 2.
#[derive(Debug)]
pub struct Receiver {
    decapsulator: Decapsulator,
    deframer: Deframer,
    packets: Vec<Packet>,
    feedback: Vec<u8>,
    /// BBFRAMEs with header errors.
    frame_errors: u64,
    /// Packets delivered with undetected errors.
    altered: u64,
}

impl Receiver {
    /// Creates the receiver of a stream for any address.
    ///
    /// # Errors
    /// Returns the key whose value is not possible.
    pub fn new(config: &Config) -> Result<Receiver, InvalidConfig> {
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

    /// Receives PDUs with this label alone from frames that streams share.
    #[must_use]
    pub fn of_label(self, label: gse::Label) -> Receiver {
        Receiver { decapsulator: self.decapsulator.of_label(label), ..self }
    }

    fn unit(&mut self, now: Time, unit: &Unit) {
        let Receiver { decapsulator, deframer, packets, frame_errors, altered, .. } = self;
        let mut carried_packets = &unit.carried_packets[..];
        let mut sink = |event: Event<'_>| {
            let bytes = match event {
                Event::Ip(bytes) => Some(bytes),
                Event::Ethernet(frame) => frame.get(ethernet::HEADER_LEN..),
                _ => None,
            };
            packets.extend(bytes.map(|bytes| created_at(bytes, &mut carried_packets, altered)));
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

/// Returns a decapsulated packet with the creation time of the packet that was sent.
///
/// Of the packets that end in the unit, those before it were lost. An unknown one was altered in flight, and counts as the next.
fn created_at(bytes: &[u8], carried_packets: &mut &[CarriedPacket], altered: &mut u64) -> Packet {
    let known = digest(bytes, 0);
    let found = carried_packets.iter().position(|carried| carried.digest == known);
    *altered += u64::from(found.is_none());
    let at = found.unwrap_or(0);
    let mut packet = restore(bytes);
    if let Some(carried) = carried_packets.get(at) {
        packet.set_created_at(carried.created_at);
        *carried_packets = &carried_packets[at + 1..];
    }
    packet
}

/// Returns a packet of these bytes, with a payload of zeros elided.
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
        if let Some(unit) = packet.carried::<Unit>() {
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
        observer.counter(&metrics::UNITS, received.frames);
        observer.counter(&metrics::SNDUS_RECEIVED, received.sndus);
        observer.counter(&metrics::DELIVERED, received.pdus);
        observer.counter(&metrics::DELIVERED_BYTES, received.pdu_bytes);
        observer.counter(&metrics::DAMAGED_UNITS, received.damaged + self.frame_errors);
        observer.counter(&metrics::CONTINUITY_BREAKS, received.continuity_errors);
        observer.counter(&metrics::CRC_ERRORS, received.crc_errors);
        observer.counter(&metrics::FORMAT_ERRORS, received.format_errors);
        observer.counter(&metrics::RESYNCHRONISED, received.resynchronised);
        observer.counter(&metrics::ALTERED, self.altered);
        observer.counter(&metrics::ROHC_REFUSED, received.rohc.refused);
        observer.counter(&metrics::ROHC_CRC_FAILURES, received.rohc.crc_failures);
        observer.counter(&metrics::ROHC_CHECKSUM_FAILURES, received.rohc.checksum_failures);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
