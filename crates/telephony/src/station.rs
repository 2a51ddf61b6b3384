//! End of calls behind a port of a node.

use std::net::SocketAddr;

use bentpipe_net::{Cx, Observer, Packet, Port};
use bentpipe_units::{RandomStream, Time};

use crate::datagram::{self, Refusal};
use crate::metrics;
use crate::protocol::{Happening, Protocol, RTP_DSCP, Repeats};

/// The only port: packets from and to the node.
const NODE: Port = Port(0);

/// Protocol with its UDP port.
#[derive(Debug)]
pub struct Station<P> {
    pub(crate) protocol: P,
    local: SocketAddr,
    dscp: u8,
    messages: u64,
    bytes: u64,
    bad_checksum: u64,
    unexpected: u64,
}

impl<P: Protocol> Station<P> {
    pub(crate) fn new(
        settings: &P::Settings,
        dscp: u8,
        (user, local): (&str, SocketAddr),
        stream: &mut RandomStream,
    ) -> Station<P> {
        let seed = (stream.unit() * (1_u64 << 53) as f64) as u64;
        let protocol = P::new(settings, user, local, seed);
        Station { protocol, local, dscp, messages: 0, bytes: 0, bad_checksum: 0, unexpected: 0 }
    }

    pub(crate) fn receive(&mut self, packet: Packet, cx: &mut Cx<'_>) {
        let taken = datagram::read(&packet).and_then(|(from, port, bytes)| {
            let now = cx.now();
            if port == self.local.port() {
                self.protocol.receive(now, from, &bytes);
            } else if !self.protocol.receive_voice(now, from, port, &bytes) {
                return Err(Refusal::Unexpected);
            }
            Ok(())
        });
        match taken {
            Ok(()) => packet.recycle(),
            Err(refusal) => {
                *refusal.of(&mut self.bad_checksum, &mut self.unexpected) += 1;
                cx.refuse(packet, refusal.why());
            }
        }
    }

    /// Returns the next event.
    pub(crate) fn event(&mut self) -> Option<(P::Call, Happening)> {
        self.protocol.event()
    }

    /// Sends all messages, and returns the time of the next timer.
    pub(crate) fn send(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some((to, bytes)) = self.protocol.transmit() {
            let Some(mut packet) = datagram::packet(self.local, to, self.dscp, &bytes) else { continue };
            packet.set_created_at(cx.now());
            self.messages += 1;
            self.bytes += bytes.len() as u64;
            cx.emit(NODE, packet);
        }
        while let Some((port, to, bytes)) = self.protocol.transmit_voice() {
            let from = SocketAddr::new(self.local.ip(), port);
            let Some(mut packet) = datagram::packet(from, to, RTP_DSCP, &bytes) else { continue };
            packet.set_created_at(cx.now());
            cx.emit(NODE, packet);
        }
        self.protocol.deadline()
    }

    /// Reports the counters, which are zero before the start.
    pub(crate) fn observe(settings: &P::Settings, station: Option<&Station<P>>, observer: &mut dyn Observer) {
        let Repeats { sent, absorbed } =
            station.map(|station| station.protocol.repeats()).unwrap_or_default();
        let own = |value: fn(&Station<P>) -> u64| station.map_or(0, value);
        observer.counter(P::MESSAGES, own(|station| station.messages));
        observer.counter(P::BYTES, own(|station| station.bytes));
        observer.counter(&metrics::REQUESTS_REPEATED, sent);
        observer.counter(&metrics::REQUESTS_ABSORBED, absorbed);
        observer.counter(&metrics::DROPPED_BAD_CHECKSUM, own(|station| station.bad_checksum));
        observer.counter(&metrics::DROPPED_UNEXPECTED, own(|station| station.unexpected));
        P::observe(settings, station.map(|station| &station.protocol), observer);
    }
}
