//! Relay between a bundle node and a gateway: queries of bundles, and bundles of rows.

use std::any::Any;

use bentpipe_dtn::carry;
use bentpipe_net::{Cx, Element, Observer, Packet, Port};
use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::bundle::Bundle;

use super::{Log, content};
use crate::message::{MAX_ROWS, Message};

/// Port of the bundle node.
const NODE: Port = Port(0);
/// Port of the gateway.
const FIELD: Port = Port(1);

/// Relay. Port 0 is the bundle node's, port 1 the gateway's.
#[derive(Debug)]
pub struct Relay {
    template: Bundle,
    collect: Span,
    /// Rows that wait to be sent in a bundle.
    waiting: Option<Message>,
    due: Time,
    log: Log,
}

impl Relay {
    /// Creates a relay whose bundles are copies of a template. Rows are collected for a time; the log gets the map.
    pub fn new(template: Bundle, collect: Span, log: Log) -> Relay {
        Relay { template, collect, waiting: None, due: Time::NEVER, log }
    }

    fn send(&self, message: &Message, cx: &mut Cx<'_>) {
        let mut bundle = self.template.clone();
        bundle.payload.bytes = message.to_bytes();
        bundle.payload.zeros = 0;
        cx.emit(NODE, carry::wrap(bundle));
    }

    fn flush(&mut self, cx: &mut Cx<'_>) {
        self.due = Time::NEVER;
        if let Some(message) = self.waiting.take() {
            self.send(&message, cx);
        }
    }

    fn collect(&mut self, message: Message, cx: &mut Cx<'_>) {
        match (&mut self.waiting, message) {
            (Some(Message::Rows { rows, .. }), Message::Rows { rows: more, .. })
                if rows.len() + more.len() <= MAX_ROWS =>
            {
                rows.extend(more);
            }
            (_, message) => {
                self.flush(cx);
                self.waiting = Some(message);
                self.due = cx.now() + self.collect;
            }
        }
    }
}

impl Element for Relay {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if port == NODE {
            if let Some(payload) = carry::unwrap(packet).and_then(content) {
                cx.emit(FIELD, Packet::from_bytes(&payload));
            }
        } else if let Some(message) = Message::parse(&packet.to_vec()) {
            match message {
                Message::Map(places) => self.log.set_map(places),
                Message::Rows { .. } if !self.collect.is_zero() => self.collect(message, cx),
                message => self.send(&message, cx),
            }
        }
        self.due
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.due <= cx.now() {
            self.flush(cx);
        }
        self.due
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        from != to
    }

    fn alike(&self, from: Port) -> Port {
        from
    }

    fn observe(&mut self, _now: Time, _observer: &mut dyn Observer) {}

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
