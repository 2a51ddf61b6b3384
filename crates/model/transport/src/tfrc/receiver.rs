//! Receiving end of TFRC, with its measurements.

use std::any::Any;
use std::collections::VecDeque;
use std::net::SocketAddr;

use bentpipe_cc::tfrc::{Arrival, Receiver as Control};
use bentpipe_net::{Cx, Element, Histogram, Observer, Packet, Port, Why};
use bentpipe_units::{Bytes, Span, Time};
use bentpipe_wire::quick_start::Response;

use super::dccp::{Incoming, Server, UNSPECIFIED};
use super::waits::Waits;
use super::{Config, MeanLength, Report, Transport, udp};
use crate::app::FlowStats;
use crate::app::delays;
use crate::app::metrics as app_metrics;
use crate::datagram::{Path, Refusal};
use crate::tfrc::metrics;

/// The only port: packets from and to the node.
const NODE: Port = Port(0);

/// The receiving end of a TFRC flow. Port 0, in and out, carries whole IP packets.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    local: SocketAddr,
    control: Control,
    wire: Wire,
    /// Service code of DCCP.
    service: u32,
    /// Data of packets, if it is kept.
    inbox: Option<VecDeque<Vec<u8>>>,
    /// Mean length of messages, if they are kept.
    mean: MeanLength,
    /// Response of the routers, until it is reported.
    response: Option<Response>,
    stats: FlowStats,
    delays: Histogram,
    /// Delay of the last packet, and that with its wait at the sender.
    delay: Option<Span>,
    /// Arrival of the last new packet.
    last: Option<Time>,
    with_wait: Option<Span>,
    waits: Waits,
    reports: u64,
    bad_checksum: u64,
    unexpected: u64,
}

#[derive(Debug)]
enum Wire {
    /// No packet has arrived.
    Unopened,
    Udp {
        peer: Option<SocketAddr>,
        highest: u64,
    },
    Dccp(Server),
}

impl Receiver {
    /// Creates a receiver at `local` for a sender with the same configuration.
    pub fn new(config: &Config, local: SocketAddr) -> Receiver {
        let control = match config.transport {
            Transport::Udp => Control::new(config.control, config.payload),
            Transport::Dccp => Control::with_counter(config.control, config.payload),
        };
        Receiver {
            config: *config,
            local,
            control,
            wire: Wire::Unopened,
            service: UNSPECIFIED,
            inbox: None,
            mean: MeanLength::default(),
            response: None,
            stats: FlowStats::NONE,
            delays: Histogram::default(),
            delay: None,
            last: None,
            with_wait: None,
            waits: Waits::default(),
            reports: 0,
            bad_checksum: 0,
            unexpected: 0,
        }
    }

    /// Adds the sender's log of waits.
    pub(super) fn with_waits(self, waits: Waits) -> Receiver {
        Receiver { waits, ..self }
    }

    /// Creates the receiving end of messages of a DCCP service.
    pub fn of_messages(segment: Bytes, local: SocketAddr, service: u32) -> Receiver {
        let inbox = Some(VecDeque::new());
        Receiver { service, inbox, ..Receiver::new(&Config::of_messages(segment), local) }
    }

    /// Removes and returns the next message.
    pub fn take_message(&mut self) -> Option<Vec<u8>> {
        self.inbox.as_mut()?.pop_front()
    }

    fn path(&self, peer: SocketAddr) -> Option<Path> {
        Path::new(self.local, peer, self.config.dscp).ok()
    }

    fn read(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        match self.config.transport {
            Transport::Udp => self.read_udp(packet, cx),
            Transport::Dccp => self.read_dccp(packet, cx),
        }
    }

    fn read_udp(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if matches!(self.wire, Wire::Unopened) {
            self.wire = Wire::Udp { peer: None, highest: 0 };
        }
        let Wire::Udp { peer, highest } = &mut self.wire else { return Err(Refusal::Unexpected) };
        let (data, port, arrived) = udp::Data::read(packet, *highest)?;
        let from = SocketAddr::new(arrived.source, port);
        if peer.is_some_and(|known| known != from) {
            return Err(Refusal::Unexpected);
        }
        *peer = Some(from);
        *highest = data.sequence.max(*highest);
        self.response = arrived.quick_start_response().or(self.response);
        let arrival = Arrival { now: cx.now(), sequence: data.sequence, quarters: 0, is_marked: false };
        let is_due = self.control.on_data(&arrival, data.payload_len as u64, data.rtt);
        self.count(packet, (data.sequence, data.sequence as u32), data.payload_len, cx);
        // The response to a request is immediate (RFC 5634, section 2.2).
        if is_due || self.response.is_some() {
            self.report(cx);
        }
        Ok(())
    }

    fn read_dccp(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        if matches!(self.wire, Wire::Unopened) {
            self.wire = Wire::Dccp(Server::new(cx.stream(), self.service));
        }
        let (local, dscp) = (self.local, self.config.dscp);
        let Wire::Dccp(server) = &mut self.wire else { return Err(Refusal::Unexpected) };
        let incoming = server.read(cx.now(), packet, |peer| Path::new(local, peer, dscp).ok())?;
        if let Some(rtt) = server.rtt() {
            self.control.on_handshake(rtt);
        }
        let (sequence, quarters, payload_len, end, response) = match incoming {
            Incoming::Answer(answer) => {
                cx.emit(NODE, answer);
                return Ok(());
            }
            Incoming::Nothing => return Ok(()),
            Incoming::Data { sequence, quarters, payload_len, end, response } => {
                (sequence, quarters, payload_len, end, response)
            }
        };
        if let Some(inbox) = &mut self.inbox {
            inbox.push_back(packet.to_vec()[end - payload_len..end].to_vec());
            self.control.set_segment(self.mean.with(payload_len));
        }
        self.response = response.or(self.response);
        let number = sequence.saturating_sub(server.first_data()) as u32;
        let arrival = Arrival { now: cx.now(), sequence, quarters, is_marked: false };
        let is_due = self.control.on_data(&arrival, payload_len as u64, None);
        self.count(packet, (sequence, number), payload_len, cx);
        // The response to a request is immediate (RFC 5634, section 2.2).
        if is_due || self.response.is_some() {
            self.report(cx);
        }
        Ok(())
    }

    fn count(
        &mut self,
        packet: &Packet,
        (sequence, number): (u64, u32),
        payload_len: usize,
        cx: &mut Cx<'_>,
    ) {
        let delay = cx.now().since(packet.created_at());
        if self.stats.take(number, 32, payload_len, (delay, cx.now())) {
            self.last = Some(cx.now());
            self.delays.record(delay);
        } else {
            cx.note_duplicate(packet);
        }
        self.delay = Some(delay);
        self.with_wait = self.waits.of(sequence).map(|wait| delay + wait);
    }

    fn report(&mut self, cx: &mut Cx<'_>) {
        let Some(report) = self.control.report(cx.now()) else { return };
        let report = Report {
            sequence: report.sequence,
            receive_rate: report.receive_rate,
            loss_event_rate: report.loss_event_rate,
            delay: report.delay,
            response: self.response.take(),
        };
        let peer = match &self.wire {
            Wire::Unopened => None,
            Wire::Udp { peer, .. } => *peer,
            Wire::Dccp(server) => server.peer(),
        };
        let Some(path) = peer.and_then(|peer| self.path(peer)) else { return };
        let packet = match &mut self.wire {
            Wire::Unopened => return,
            Wire::Udp { .. } => report.udp_packet(&path),
            Wire::Dccp(server) => server.report(&report, &path),
        };
        self.reports += 1;
        cx.emit(NODE, packet);
    }
}

impl Element for Receiver {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match self.read(&packet, cx) {
            Ok(()) => packet.recycle(),
            Err(Refusal::BadChecksum) => {
                self.bad_checksum += 1;
                cx.refuse(packet, Why::Checksum);
            }
            Err(Refusal::Unexpected) => {
                self.unexpected += 1;
                cx.refuse(packet, Why::NoListener);
            }
        }
        self.control.deadline().max(cx.now())
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.control.on_timer(cx.now()) {
            self.report(cx);
        }
        self.control.deadline().max(cx.now())
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let (lost, expected) = (self.stats.lost(), self.stats.expected());
        observer.counter(&app_metrics::PACKETS, self.stats.packets);
        observer.counter(&app_metrics::DELIVERED_BYTES, self.stats.bytes);
        observer.counter(&app_metrics::ARRIVED_BYTES, self.stats.arrived_bytes);
        observer.last_arrival(self.last);
        observer.counter(&metrics::REPORTS, self.reports);
        observer.counter(&app_metrics::DUPLICATES, self.stats.duplicates);
        observer.counter(&app_metrics::REORDERED, self.stats.reordered);
        observer.counter(&app_metrics::DROPPED_BAD_CHECKSUM, self.bad_checksum);
        observer.counter(&app_metrics::DROPPED_UNEXPECTED, self.unexpected);
        observer.counter(&app_metrics::EXPECTED, expected);
        observer.gauge(&app_metrics::LOST, lost as f64);
        observer.gauge(&app_metrics::LOSS_RATIO, lost as f64 / expected as f64);
        observer.gauge(&metrics::LOSS_EVENT_RATE, self.control.loss_event_rate());
        observer.gauge(&app_metrics::DELAY, self.delay.map_or(f64::NAN, Span::as_secs_f64));
        let with_wait = self.with_wait.map_or(f64::NAN, Span::as_secs_f64);
        observer.gauge(&metrics::DELAY_WITH_WAIT, with_wait);
        delays::observe_as(&metrics::DELAYS, &self.delays, observer);
        let jitter = if self.stats.packets > 1 { self.stats.jitter_ns / 1e9 } else { f64::NAN };
        observer.gauge(&app_metrics::JITTER, jitter);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
