//! Receiver of a unidirectional link: the sending end of the tunnelled return.

use std::any::Any;
use std::net::Ipv4Addr;

use bentpipe_net::{Cx, Element, Observer, Packet, Port, Why, ledger};
use bentpipe_units::{Span, Time};
use bentpipe_wire::ethernet::{self, EtherType, MacAddr};
use bentpipe_wire::ip::{self, Protocol};
use bentpipe_wire::{gre, ipv4};

use super::{Announced, Ends, Processing, hello_in, mac_of, metrics};

/// Length in bytes of a tunnelled packet's outer headers: IPv4, GRE and Ethernet.
pub const OVERHEAD: usize = ipv4::HEADER_LEN + gre::HEADER_LEN + ethernet::HEADER_LEN;

/// Sending end. Input 0 takes packets for the link, input 1 HELLOs; output 0 has packets of the tunnel.
#[derive(Debug)]
pub struct TunnelEnd {
    ends: Ends,
    announced: Announced,
    processing: Processing,
    ident: u16,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    tunnelled: u64,
    tunnelled_bytes: u64,
    no_tunnel: u64,
    malformed: u64,
    hellos: u64,
    refused: u64,
}

impl TunnelEnd {
    /// Creates the sending end. It knows the feed, but learns the end point of the tunnel from HELLOs.
    pub fn new(ends: Ends, intervals: u8, processing: Span) -> TunnelEnd {
        let (announced, processing) = (Announced::new(ends.feed, intervals), Processing::new(processing));
        TunnelEnd { ends, announced, processing, ident: 0, counts: Counts::default() }
    }

    fn accept_hello(&mut self, packet: &Packet, now: Time) {
        let is_heeded = hello_in(&packet.to_vec()).is_some_and(|hello| self.announced.accept(&hello, now));
        *(if is_heeded { &mut self.counts.hellos } else { &mut self.counts.refused }) += 1;
    }

    fn send(&mut self, packet: Packet, now: Time) {
        let Some(end) = self.announced.end(now) else {
            self.counts.no_tunnel += 1;
            return packet.lose(Why::NoRoute);
        };
        let len = packet.len();
        match ledger::dropping(Why::Malformed, || self.encapsulate(packet, end)) {
            Some(packet) => {
                self.counts.tunnelled += 1;
                self.counts.tunnelled_bytes += len as u64;
                self.processing.push(now, packet);
            }
            None => self.counts.malformed += 1,
        }
    }

    /// Returns the packet as an Ethernet frame in GRE.
    fn encapsulate(&mut self, mut packet: Packet, end: Ipv4Addr) -> Option<Packet> {
        let elided = packet.len() - packet.header().len();
        let inner = ip::Packet::new_elided(packet.header(), elided).ok()?;
        let (class, to) = (inner.traffic_class(), inner.dst());
        let ethertype = if to.is_ipv6() { EtherType::IPV6 } else { EtherType::IPV4 };
        let len = packet.len() + gre::HEADER_LEN + ethernet::HEADER_LEN;
        if len + ipv4::HEADER_LEN > usize::from(u16::MAX) {
            return None;
        }
        let dst = MacAddr::of_group(to).unwrap_or(mac_of(self.ends.feed));
        let frame = ethernet::Repr::new(mac_of(self.ends.receiver), dst, ethertype);
        frame.emit(packet.prepend(ethernet::HEADER_LEN));
        gre::Repr { protocol: EtherType::BRIDGED }.emit(packet.prepend(gre::HEADER_LEN));
        // Fragments are allowed: inner packets may be as long as the MTU of the path.
        let outer = ipv4::Repr {
            ident: self.ident,
            traffic_class: class,
            dont_fragment: false,
            ..ipv4::Repr::new(self.ends.receiver, end, Protocol::GRE, len)
        };
        self.ident = self.ident.wrapping_add(1);
        outer.emit(packet.prepend(ipv4::HEADER_LEN));
        Some(packet)
    }
}

impl Element for TunnelEnd {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match port {
            Port(0) => self.send(packet, cx.now()),
            _ => self.accept_hello(&packet, cx.now()),
        }
        self.processing.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        while let Some(packet) = self.processing.pop(cx.now()) {
            cx.emit(Port(0), packet);
        }
        self.processing.deadline()
    }

    fn lookahead(&self) -> Span {
        self.processing.time
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        let is_known = self.announced.end(now).is_some();
        observer.counter(&metrics::TUNNELLED, self.counts.tunnelled);
        observer.counter(&metrics::TUNNELLED_BYTES, self.counts.tunnelled_bytes);
        observer.counter(&metrics::DROPPED_NO_TUNNEL, self.counts.no_tunnel);
        observer.counter(&metrics::DROPPED_MALFORMED, self.counts.malformed);
        observer.counter(&metrics::HELLOS, self.counts.hellos);
        observer.counter(&metrics::HELLOS_REFUSED, self.counts.refused);
        observer.counter(&metrics::TUNNELS_LOST, self.announced.lost());
        observer.gauge(&metrics::TUNNEL, f64::from(u8::from(is_known)));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
