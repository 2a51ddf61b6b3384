//! Receiving end: channel, decoder, frames, and packets out of them.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::{Cx, Element, LONGEST_HEADERS, Observer, Packet, Port, Why, ledger};
use bentpipe_units::Time;
use bentpipe_wire::space::encapsulation::{self, Protocol};
use bentpipe_wire::space::{FirstHeader, aos, proximity, tm};
use bentpipe_wire::{Error, Kind};

use crate::channel::{Channel, Decoded};
use crate::config::Frame;
use crate::metrics;
use crate::unit::{CarriedPacket, Unit};

/// Longest encapsulation packet that is waited for.
const MAX_PACKET: usize = 1 << 16;
/// Maximum number of packets whose origin is remembered.
const MEMORY: usize = 100_000;

/// Data field of a frame.
struct Field<'a> {
    /// Count of the frame, and the number of counts.
    count: u32,
    modulus: u32,
    data: &'a [u8],
    /// Offset at which a packet starts.
    start: Option<usize>,
    /// Set if a new packet begins, so that the rest of the last is dropped.
    is_fresh: bool,
}

/// Receiving end of a direction.
#[derive(Debug, Default)]
pub struct Receiver {
    channel: Channel,
    frame: Option<Frame>,
    next_count: Option<u32>,
    /// Bytes of an incomplete packet, and the number of the first in the stream.
    partial: Vec<u8>,
    position: u64,
    is_in_step: bool,
    origins: VecDeque<CarriedPacket>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    frames: u64,
    uncorrectable: u64,
    crc_errors: u64,
    header_errors: u64,
    gaps: u64,
    corrected: u64,
    packets: u64,
    packet_bytes: u64,
    format_errors: u64,
    broken: u64,
    altered: u64,
}

impl Receiver {
    /// Returns the data field of a frame.
    fn parse(unit: &Unit) -> Result<Field<'_>, Error> {
        let offset = |first: FirstHeader| match first {
            FirstHeader::At(offset) => Some(usize::from(offset)),
            FirstHeader::None | FirstHeader::Idle => None,
        };
        let trailer = unit.config.trailer();
        match unit.config.frame {
            Frame::Tm => {
                let (repr, data) = tm::Repr::parse(&unit.bytes, trailer)?;
                let (count, start) = (repr.channel_count.into(), offset(repr.first_header));
                Ok(Field { count, modulus: 1 << 8, data, start, is_fresh: false })
            }
            Frame::Aos => {
                let (repr, data) = aos::Repr::parse(&unit.bytes, trailer)?;
                let start = offset(repr.first_header);
                Ok(Field { count: repr.count, modulus: 1 << 24, data, start, is_fresh: false })
            }
            Frame::Proximity1 => {
                let (repr, data) = proximity::Repr::parse(&unit.bytes)?;
                let (count, modulus) = (repr.sequence.into(), 1 << 8);
                match (repr.content, data.split_first()) {
                    (proximity::Content::Segment, Some((head, data))) => {
                        let is_first = proximity::Segment::from_byte(*head).is_first;
                        Ok(Field { count, modulus, data, start: is_first.then_some(0), is_fresh: is_first })
                    }
                    _ => Ok(Field { count, modulus, data, start: Some(0), is_fresh: true }),
                }
            }
        }
    }

    /// Handles a frame behind the decoder.
    fn take(&mut self, unit: &Unit, cx: &mut Cx<'_>) {
        let field = match Receiver::parse(unit) {
            Ok(field) => field,
            Err(Error { kind: Kind::Checksum, .. }) => return self.counts.crc_errors += 1,
            Err(_) => return self.counts.header_errors += 1,
        };
        if self.frame != Some(unit.config.frame) {
            (self.frame, self.next_count) = (Some(unit.config.frame), None);
            self.lose_step();
        }
        if self.next_count.is_some_and(|next| next != field.count) {
            self.counts.gaps += 1;
            self.lose_step();
        }
        self.next_count = Some((field.count + 1) % field.modulus);
        if field.is_fresh {
            self.lose_step();
        }
        let mut data = field.data;
        if !self.is_in_step {
            let Some(start) = field.start else { return };
            data = &data[start..];
            self.position = unit.offset + start as u64;
            self.is_in_step = true;
        }
        self.partial.extend(data);
        self.decapsulate(cx);
    }

    /// Drops a packet whose next bytes are missing.
    fn lose_step(&mut self) {
        self.counts.broken += u64::from(!self.partial.is_empty());
        self.partial.clear();
        self.is_in_step = false;
    }

    fn decapsulate(&mut self, cx: &mut Cx<'_>) {
        let bytes = std::mem::take(&mut self.partial);
        let mut at = 0;
        let is_right = loop {
            match encapsulation::Repr::parse(&bytes[at..]) {
                Ok(Some(repr)) if repr.len() > MAX_PACKET => break false,
                Ok(Some(repr)) if bytes.len() - at >= repr.len() => {
                    let data = &bytes[at + repr.header_len..at + repr.len()];
                    self.deliver(repr.protocol, data, self.position + at as u64, cx);
                    at += repr.len();
                }
                Ok(_) => break true,
                Err(_) => break false,
            }
        };
        self.partial = bytes;
        self.partial.drain(..at);
        self.position += at as u64;
        if !is_right {
            self.counts.format_errors += 1;
            self.partial.clear();
            self.is_in_step = false;
        }
    }

    fn deliver(&mut self, protocol: Protocol, data: &[u8], start: u64, cx: &mut Cx<'_>) {
        if protocol == Protocol::Idle {
            return;
        }
        while self.origins.front().is_some_and(|origin| origin.start < start) {
            self.origins.pop_front();
        }
        let is_known = self.origins.front().is_some_and(|origin| origin.start == start);
        let origin = if is_known { self.origins.pop_front() } else { None };
        let headers = origin.as_ref().map_or(&[][..], |origin| &origin.headers);
        let bytes = match protocol {
            Protocol::Ip if !data.is_empty() => data[1..].to_vec(),
            Protocol::Ltp | Protocol::Bundle if !headers.is_empty() => [headers, data].concat(),
            // What the sender did not put in has come of errors.
            _ => Vec::new(),
        };
        if bytes.is_empty() {
            self.counts.format_errors += 1;
            return;
        }
        self.counts.packets += 1;
        self.counts.packet_bytes += bytes.len() as u64;
        let mut packet = restore(&bytes);
        match origin {
            Some(carried) => packet.set_origin(carried.origin),
            None => self.counts.altered += 1,
        }
        cx.emit(Port(0), packet);
    }
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
    fn receive(&mut self, _: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let Some(mut unit) = packet.into_carried::<Unit>() else { return Time::NEVER };
        self.counts.frames += 1;
        let ending = unit.carried.len();
        self.origins.extend(unit.carried.drain(..));
        while self.origins.len() > MEMORY {
            self.origins.pop_front();
        }
        let config = unit.config;
        let passed = self.channel.pass(&mut unit.bytes, &config, cx.stream());
        let why = match passed {
            Decoded::Passed(corrected) => {
                self.counts.corrected += corrected;
                ledger::dropping(Why::Restoration, || self.take(&unit, cx));
                Why::Restoration
            }
            Decoded::Lost => {
                self.counts.uncorrectable += 1;
                Why::Channel
            }
        };
        // What did not come out of the frame that it ends in is lost.
        self.origins.iter_mut().rev().take(ending).for_each(|carried| carried.origin.end(why));
        Time::NEVER
    }

    fn wake(&mut self, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        let counts = &self.counts;
        observer.counter(&metrics::FRAMES, counts.frames);
        observer.counter(&metrics::FRAMES_UNCORRECTABLE, counts.uncorrectable);
        observer.counter(&metrics::CRC_ERRORS, counts.crc_errors);
        observer.counter(&metrics::HEADER_ERRORS, counts.header_errors);
        observer.counter(&metrics::SEQUENCE_GAPS, counts.gaps);
        observer.counter(&metrics::SYMBOLS_CORRECTED, counts.corrected);
        observer.counter(&metrics::CHANNEL_SYMBOLS, self.channel.symbols_received);
        observer.counter(&metrics::CHANNEL_ERRORS, self.channel.symbol_errors);
        observer.counter(&metrics::DECAPSULATED, counts.packets);
        observer.counter(&metrics::DECAPSULATED_BYTES, counts.packet_bytes);
        observer.counter(&metrics::FORMAT_ERRORS, counts.format_errors);
        observer.counter(&metrics::PACKETS_BROKEN, counts.broken);
        observer.counter(&metrics::ALTERED, counts.altered);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
