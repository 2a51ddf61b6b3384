//! External port: entry and exit of packets of the real world.

pub mod metrics;

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;

use bentpipe_units::{Span, Time};

use crate::{Cx, Element, Observer, Packet, Port, Why};

/// External port: represents a real host outside the network, after a network interface.
///
/// Packets from the network wait, each with its arrival time, until the emulator takes them. Packets from
/// outside are injected at [`ExternalPort::OUTSIDE`] and enter the network immediately.
#[derive(Debug, Default)]
pub struct ExternalPort {
    leaving: VecDeque<(Time, Packet)>,
    entered: Tally,
    left: Tally,
    refused_packets: u64,
    /// Path of the host's connections, if they are reported here.
    connections: Option<String>,
    known: [Option<HostConnection>; MAX_CONNECTIONS],
    /// Number of the account of the host's packets.
    account: u32,
}

/// Maximum number of connections of a host that are reported.
pub const MAX_CONNECTIONS: usize = 4;

/// TCP connection of a real host, as its kernel has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostConnection {
    /// Congestion window in bytes.
    pub cwnd_bytes: f64,
    /// Slow-start threshold in bytes; NaN before the first loss.
    pub ssthresh_bytes: f64,
    /// Retransmission timeout.
    pub rto: Span,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// Segments sent again.
    pub retransmitted: u64,
}

#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
}

impl Tally {
    fn add(&mut self, packet: &Packet) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
    }
}

/// Maximum number of waiting packets; further ones are refused and counted.
const MAX_WAITING: usize = 1 << 16;

impl ExternalPort {
    /// The side towards the network.
    pub const NETWORK: Port = Port(0);
    /// The input at which packets from outside are injected.
    pub const OUTSIDE: Port = Port(1);

    /// Creates the port of a host whose TCP connections are reported as parts of `path`.
    pub fn reporting(path: impl Into<String>) -> ExternalPort {
        ExternalPort { connections: Some(path.into()), ..ExternalPort::default() }
    }

    /// Sets what the host's kernel has of its connections at present.
    pub fn set_connections(&mut self, known: [Option<HostConnection>; MAX_CONNECTIONS]) {
        self.known = known;
    }

    /// Removes and returns the first waiting packet, with its arrival time.
    pub fn take(&mut self) -> Option<(Time, Packet)> {
        self.leaving.pop_front()
    }
}

impl Element for ExternalPort {
    fn receive(&mut self, port: Port, mut packet: Packet, cx: &mut Cx<'_>) -> Time {
        if port == ExternalPort::OUTSIDE {
            self.entered.add(&packet);
            cx.offer(&mut packet, self.account);
            cx.emit(ExternalPort::NETWORK, packet);
        } else if self.leaving.len() < MAX_WAITING {
            self.left.add(&packet);
            cx.accept(&mut packet);
            self.leaving.push_back((cx.now(), packet));
        } else {
            self.refused_packets += 1;
            packet.lose(Why::Queue);
        }
        Time::NEVER
    }

    fn wake(&mut self, _: &mut Cx<'_>) -> Time {
        Time::NEVER
    }

    fn forwards(&self, from: Port, _: Port) -> bool {
        from == ExternalPort::OUTSIDE
    }

    fn alike(&self, from: Port) -> Port {
        from
    }

    fn open_accounts(&mut self, first: u32) -> Option<Range<u16>> {
        self.account = first;
        Some(0..0)
    }

    fn leads_outside(&self) -> bool {
        true
    }

    fn observe(&mut self, _: Time, observer: &mut dyn Observer) {
        observer.counter(&metrics::PACKETS_ENTERED, self.entered.packets);
        observer.counter(&metrics::BYTES_ENTERED, self.entered.bytes);
        observer.counter(&metrics::PACKETS_LEFT, self.left.packets);
        observer.counter(&metrics::BYTES_LEFT, self.left.bytes);
        observer.counter(&metrics::PACKETS_REFUSED, self.refused_packets);
        let Some(path) = &self.connections else { return };
        for (n, known) in self.known.iter().enumerate() {
            observer.part(&format!("{path}/{}", n + 1));
            let of = |part: fn(&HostConnection) -> f64| known.as_ref().map_or(f64::NAN, part);
            observer.gauge(&metrics::HOST_CWND, of(|known| known.cwnd_bytes));
            observer.gauge(&metrics::HOST_SSTHRESH, of(|known| known.ssthresh_bytes));
            observer.gauge(&metrics::HOST_RTO, of(|known| known.rto.as_secs_f64()));
            observer.gauge(&metrics::HOST_RTT, of(|known| known.rtt.as_secs_f64()));
            observer.gauge(&metrics::HOST_RETRANSMITTED, of(|known| known.retransmitted as f64));
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
