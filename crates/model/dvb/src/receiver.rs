//! Receiver of a stream.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::{Cx, Element, InvalidConfig, LONGEST_HEADERS, Observer, Packet, Port, Why, ledger};
use bentpipe_units::Time;
use bentpipe_wire::bbframe::{self, Deframer};
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::{ethernet, gse};

use super::config::Config;
use super::decapsulator::{Decapsulator, Event, Received};
use super::timing::Slots;
use super::unit::{CarriedPacket, Unit, digest};
use crate::metrics;

/// Receiver of the TS packets or BBFRAMEs of one stream, at input 0.
///
/// IP packets leave at output 0 at once, feedback for the other end at output 1, and feedback received from there at output 2.
#[derive(Debug)]
pub struct Receiver {
    decapsulator: Decapsulator,
    /// Decapsulator of what goes to groups, which other receivers get as well.
    common: Option<Decapsulator>,
    card: Option<Card>,
    deframer: Deframer,
    packets: Vec<Packet>,
    feedback: Vec<u8>,
    /// BBFRAMEs with header errors.
    frame_errors: u64,
    /// Packets delivered with undetected errors.
    altered: u64,
    /// Packets in accounts that were not restored.
    not_restored: u64,
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
            common: None,
            card: None,
            deframer,
            packets: Vec::new(),
            feedback: Vec::new(),
            frame_errors: 0,
            altered: 0,
            not_restored: 0,
        })
    }

    /// Receives PDUs with this label alone from frames that streams share.
    #[must_use]
    pub fn of_label(self, label: gse::Label) -> Receiver {
        Receiver { decapsulator: self.decapsulator.of_label(label), ..self }
    }

    /// Receives a second stream of the same multiplex, which others receive as well. It gives no feedback.
    ///
    /// # Errors
    /// Returns the key whose value is not possible.
    pub fn hearing(self, common: &Config) -> Result<Receiver, InvalidConfig> {
        Ok(Receiver { common: Some(Decapsulator::new(common, ethernet::Filter::All)?), ..self })
    }

    /// Receives through a card that delivers full buffers of `packets` of these slots.
    #[must_use]
    pub fn behind_card(self, slots: Slots, packets: u32) -> Receiver {
        let card = Card { slots, packets: packets.max(1).into(), waiting: VecDeque::new() };
        Receiver { card: Some(card), ..self }
    }

    /// Returns a count of both streams.
    fn received(&self, of: impl Fn(&Received) -> u64) -> u64 {
        of(&self.decapsulator.received()) + self.common.as_ref().map_or(0, |common| of(&common.received()))
    }

    fn unit(&mut self, now: Time, unit: &mut Unit) {
        let Receiver { decapsulator, common, deframer, packets, frame_errors, altered, .. } = self;
        let mut carried_packets = VecDeque::from(std::mem::take(&mut unit.carried_packets));
        let mut sink = |event: Event<'_>| {
            let bytes = match event {
                Event::Ip(bytes) => Some(bytes),
                Event::Ethernet(frame) => frame.get(ethernet::HEADER_LEN..),
                _ => None,
            };
            packets.extend(bytes.map(|bytes| restored(bytes, &mut carried_packets, altered)));
        };
        let mut push = |packet: &[u8; PACKET_LEN]| {
            decapsulator.push(now, packet, &mut sink);
            if let Some(common) = &mut *common {
                common.push(now, packet, &mut sink);
            }
        };
        match (unit.ts(), bbframe::parse(&unit.bytes)) {
            (Some(packet), _) => push(packet),
            (None, Ok((repr, field))) if repr.stream == bbframe::Stream::Transport => {
                deframer.push(&repr, field, push);
            }
            (None, Ok((_, field))) => decapsulator.push_field(now, field, sink),
            (None, Err(_)) => *frame_errors += 1,
        }
    }
}

/// Buffer of the receiver's card.
#[derive(Debug)]
struct Card {
    slots: Slots,
    packets: u64,
    /// TS packets, and when the buffer with them is full.
    waiting: VecDeque<(Time, Packet)>,
}

impl Card {
    fn take(&mut self, now: Time, packet: Packet) {
        let number = packet.carried::<Unit>().map_or(0, |unit| unit.number);
        let rest = self.slots.with(|grid| grid.fills(number, self.packets).since(grid.closes(number)));
        self.waiting.push_back((now + rest, packet));
    }

    fn pop(&mut self, now: Time) -> Option<Packet> {
        if self.due() > now {
            return None;
        }
        self.waiting.pop_front().map(|(_, packet)| packet)
    }

    fn due(&self) -> Time {
        self.waiting.front().map_or(Time::NEVER, |(due, _)| *due)
    }
}

impl Receiver {
    /// Decapsulates a unit, and emits its packets and feedback.
    fn process(&mut self, mut packet: Packet, cx: &mut Cx<'_>) {
        let (now, unit) = (cx.now(), packet.carried_mut::<Unit>());
        // What is not restored now is lost: it ends in this unit.
        let restore = || unit.into_iter().for_each(|unit| self.unit(now, unit));
        let ((), lost) = ledger::dropping_counted(Why::Restoration, restore);
        self.not_restored += lost;
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
    }
}

/// Returns a decapsulated packet with the origin of the packet that was sent.
///
/// Of the packets that end in the unit, those before it were lost. An unknown one was altered in flight, and counts as the next.
fn restored(bytes: &[u8], carried_packets: &mut VecDeque<CarriedPacket>, altered: &mut u64) -> Packet {
    let known = digest(bytes, 0);
    let found = carried_packets.iter().position(|carried| carried.digest == known);
    *altered += u64::from(found.is_none());
    let at = found.unwrap_or(0);
    let mut packet = restore(bytes);
    if let Some(carried) = carried_packets.drain(..(at + 1).min(carried_packets.len())).next_back() {
        packet.set_origin(carried.origin);
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
        match &mut self.card {
            Some(card) => card.take(cx.now(), packet),
            None => self.process(packet, cx),
        }
        self.wake(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some(packet) = self.card.as_mut().and_then(|card| card.pop(cx.now())) {
            self.process(packet, cx);
        }
        self.card.as_ref().map_or(Time::NEVER, Card::due)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::UNITS, self.received(|received| received.frames));
        observer.counter(&metrics::SNDUS_RECEIVED, self.received(|received| received.sndus));
        observer.counter(&metrics::DELIVERED, self.received(|received| received.pdus));
        observer.counter(&metrics::DELIVERED_BYTES, self.received(|received| received.pdu_bytes));
        observer
            .counter(&metrics::DAMAGED_UNITS, self.received(|received| received.damaged) + self.frame_errors);
        observer.counter(&metrics::CONTINUITY_BREAKS, self.received(|received| received.continuity_errors));
        observer.counter(&metrics::CRC_ERRORS, self.received(|received| received.crc_errors));
        observer.counter(&metrics::FORMAT_ERRORS, self.received(|received| received.format_errors));
        observer.counter(&metrics::RESYNCHRONISED, self.received(|received| received.resynchronised));
        observer.counter(&metrics::ALTERED, self.altered);
        observer.counter(&metrics::NOT_RESTORED, self.not_restored);
        observer.counter(&metrics::ROHC_REFUSED, self.received(|received| received.rohc.refused));
        observer.counter(&metrics::ROHC_CRC_FAILURES, self.received(|received| received.rohc.crc_failures));
        observer.counter(
            &metrics::ROHC_CHECKSUM_FAILURES,
            self.received(|received| received.rohc.checksum_failures),
        );
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
