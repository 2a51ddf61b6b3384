//! The sending end, with its application.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_cc::tfrc::{Feedback, Sender as Control};
use bentpipe_net::{Cx, Element, Histogram, InvalidConfig, Observer, Packet, Port, Why};
use bentpipe_units::{Bytes, Serialiser, Span, Time};
use bentpipe_wire::quick_start::{IpOption, RateCode, Response};

use super::dccp::{Client, Data, UNSPECIFIED};
use super::quick_start::QuickStart;
use super::waits::Waits;
use super::{Config, Inbound, MeanLength, Pauses, Report, Transport, udp};
use crate::app::Endpoints;
use crate::app::metrics as app_metrics;
use crate::datagram::{Path, Refusal};
use crate::tfrc::metrics;

/// The only port: packets from and to the node.
const NODE: Port = Port(0);
/// Maximum number of packets kept until a report covers them.
const REMEMBERED: usize = 1 << 16;

/// The sending end of a TFRC flow. Port 0, in and out, carries whole IP packets.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    path: Path,
    control: Control,
    /// Mean length of messages, if they are sent.
    mean: MeanLength,
    backlog: Backlog,
    wire: Wire,
    quick_start: QuickStart,
    begin: Time,
    stop: Time,
    /// Service code of DCCP.
    service: u32,
    /// Packets not yet reported.
    sent: VecDeque<Sent>,
    /// Times from generation to transmission, and the log for the receiver.
    waits: (Histogram, Waits),
    tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    sequence: u64,
    at: Time,
    quarters: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    reports: u64,
    approved: u64,
    refused: u64,
    bad_checksum: u64,
    unexpected: u64,
}

/// Wire format.
#[derive(Debug)]
enum Wire {
    /// Initial state, until the first wake-up.
    Unopened,
    Udp {
        next: u64,
    },
    Dccp {
        client: Client,
        requested: Option<Time>,
    },
}

impl Sender {
    /// Creates a sender between `start` and `stop`, from the start of the run.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(
        config: &Config,
        endpoints: Endpoints,
        start: Span,
        stop: Option<Span>,
    ) -> Result<Sender, InvalidConfig> {
        let least = if config.transport == Transport::Udp { udp::DATA_HEADER_LEN as u64 } else { 1 };
        let payload = config.payload.get();
        InvalidConfig::ensure(payload >= least, "payload", "at least 8 B over UDP and 1 B over DCCP")?;
        InvalidConfig::ensure(payload <= 65_000, "payload", "at most \"65000 B\"")?;
        InvalidConfig::ensure(config.rate.is_none_or(|rate| rate.as_bps() > 0), "rate", "more than 0")?;
        InvalidConfig::ensure(config.queue > 0, "queue", "at least 1 packet")?;
        config.check_pauses()?;
        let path = Path::new(endpoints.source, endpoints.destination, config.dscp)?;
        let begin = Time::ZERO + start;
        Ok(Sender {
            config: *config,
            path,
            control: Control::new(config.control, config.payload),
            mean: MeanLength::default(),
            backlog: Backlog::new(config, begin),
            wire: Wire::Unopened,
            quick_start: QuickStart::default(),
            begin,
            stop: stop.map_or(Time::NEVER, |stop| Time::ZERO + stop),
            service: UNSPECIFIED,
            sent: VecDeque::new(),
            waits: (Histogram::default(), Waits::default()),
            tally: Tally::default(),
        })
    }

    /// Creates a sender of messages to a DCCP service, which opens its connection at once.
    ///
    /// `segment` is the longest message. The rate of TFRC is computed for the mean length of those that are sent.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn of_messages(segment: Bytes, endpoints: Endpoints, service: u32) -> Result<Sender, InvalidConfig> {
        let sender = Sender::new(&Config::of_messages(segment), endpoints, Span::ZERO, None)?;
        Ok(Sender { service, backlog: Backlog::Messages { waiting: VecDeque::new() }, ..sender })
    }

    /// Returns the log of waits, for the receiver.
    pub(super) fn waits(&self) -> Waits {
        self.waits.1.clone()
    }

    /// Returns `true` if the connection is open and fewer than two messages wait.
    ///
    /// One that waits shows TFRC that its rate is what limits the sender.
    pub fn wants_message(&self) -> bool {
        self.may_send() && self.backlog.len() < 2
    }

    /// Queues a message, for a wake-up at this instant.
    pub fn push_message(&mut self, message: Vec<u8>, now: Time) {
        if let Backlog::Messages { waiting } = &mut self.backlog {
            waiting.push_back((now, message));
        }
    }

    /// Returns the number of messages that have not been sent.
    pub fn waiting(&self) -> usize {
        self.backlog.len()
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if now < self.begin {
            return self.begin;
        }
        self.open(cx);
        if self.control.deadline() <= now {
            self.control.on_timer(now);
        }
        self.hand_shake(cx);
        self.backlog.fill(now.min(self.stop));
        while self.may_send() && !self.backlog.is_empty() && self.control.send_at() <= now {
            self.send(cx);
        }
        self.close(now);
        self.hand_shake(cx);
        self.deadline(now)
    }

    fn open(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.wire, Wire::Unopened) {
            let rate = self.config.quick_start.map(|rate| rate.as_bps());
            self.quick_start = QuickStart::new(cx.now(), rate, self.config.quick_start_interval, cx.stream());
            self.wire = match self.config.transport {
                Transport::Udp => Wire::Udp { next: 0 },
                Transport::Dccp => {
                    let is_small = self.config.control.small_packets;
                    let client = Client::new(cx.stream(), is_small, self.service);
                    Wire::Dccp { client, requested: None }
                }
            };
        }
    }

    /// Stops the application, and closes the connection once all data is sent.
    fn close(&mut self, now: Time) {
        if now < self.stop {
            return;
        }
        if self.config.rate.is_none() {
            self.backlog.clear();
        }
        if let Wire::Dccp { client, .. } = &mut self.wire
            && self.backlog.is_empty()
        {
            client.close(now);
        }
    }

    fn hand_shake(&mut self, cx: &mut Cx<'_>) {
        let Wire::Dccp { client, requested } = &mut self.wire else { return };
        let option = requested.is_none().then_some(self.quick_start.request).flatten();
        if let Some(packet) = client.poll(cx.now(), &self.path, option.as_ref()) {
            requested.get_or_insert(cx.now());
            cx.emit(NODE, packet);
        }
    }

    fn may_send(&self) -> bool {
        match &self.wire {
            Wire::Unopened => false,
            Wire::Udp { .. } => true,
            Wire::Dccp { client, .. } => client.is_open(),
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        let Some((generated_at, message)) = self.backlog.take(now) else { return };
        if let Some(message) = &message {
            self.control.set_segment(self.mean.with(message.len()));
        }
        let (rtt, payload_len) = (self.control.rtt(), self.config.payload.get() as usize);
        let option = self.option(cx);
        let (sequence, quarters, mut packet) = match &mut self.wire {
            Wire::Unopened => return,
            Wire::Dccp { client, .. } => {
                let data = message.as_deref().map_or(Data::Zeros(payload_len as u32), Data::Bytes);
                client.data(now, rtt, data, &self.path, option.as_ref())
            }
            Wire::Udp { next } => {
                let sequence = *next;
                *next += 1;
                let data = udp::Data { sequence, rtt, payload_len };
                (sequence, 0, data.packet(&self.path, option.as_ref()))
            }
        };
        // The delay is the network's; what waits here has a distribution of its own.
        packet.set_created_at(now);
        let wait = now.since(generated_at);
        self.waits.0.record(wait);
        self.waits.1.note(sequence, wait);
        self.tally.packets += 1;
        self.tally.bytes += packet.len() as u64;
        self.control.on_sent(now, sequence, !self.backlog.is_empty());
        self.quick_start.was_limited_by_data = self.backlog.is_empty();
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { sequence, at: now, quarters });
        cx.emit(NODE, packet);
    }

    /// Returns the Quick-Start option for data packets.
    ///
    /// UDP's first data packet has the request; others have a report, or another request.
    fn option(&mut self, cx: &mut Cx<'_>) -> Option<IpOption> {
        if matches!(self.wire, Wire::Udp { next: 0 }) {
            return self.quick_start.request;
        }
        if let Some(report) = self.quick_start.report.take() {
            return Some(report);
        }
        let (state, rtt) = (self.control.state(), self.control.rtt()?);
        let segment = self.config.payload.get() as f64;
        let with_headers = 8.0 * (segment + self.header().get() as f64) / segment;
        let rates = [state.rate, state.equation].map(|rate| rate * with_headers);
        let request = self.quick_start.resume(cx.now(), rtt, rates, cx.stream())?;
        self.control.on_request();
        Some(request)
    }

    /// Headers of IP and transport.
    fn header(&self) -> Bytes {
        let ip = if self.path.local.is_ipv4() { 20 } else { 40 };
        Bytes::new(ip + if self.config.transport == Transport::Udp { 8 } else { 16 })
    }

    fn deadline(&self, now: Time) -> Time {
        let next = match &self.wire {
            Wire::Dccp { client, .. } if client.is_over() => return Time::NEVER,
            Wire::Dccp { client, .. } => client.deadline(),
            Wire::Unopened | Wire::Udp { .. } => Time::NEVER,
        };
        let send = match self.backlog.is_empty() {
            _ if !self.may_send() => Time::NEVER,
            true => self.backlog.next().max(self.control.send_at()),
            false => self.control.send_at(),
        };
        let is_over = now >= self.stop && self.backlog.is_empty();
        let control = if is_over { Time::NEVER } else { self.control.deadline() };
        let end = if now < self.stop { self.stop } else { Time::NEVER };
        let send = if self.backlog.is_empty() && send >= self.stop { Time::NEVER } else { send };
        next.min(send).min(control).min(end).max(now)
    }

    fn accept(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let now = cx.now();
        let inbound = match &mut self.wire {
            Wire::Unopened => return Err(Refusal::Unexpected),
            Wire::Udp { next } => Inbound::Report(Report::read_udp(packet, *next)?),
            Wire::Dccp { client, .. } => client.read(now, packet)?,
        };
        match inbound {
            Inbound::Established { response } => self.established(response, cx),
            Inbound::Report(report) => self.reported(&report, now)?,
            Inbound::Closed => {}
        }
        Ok(())
    }

    fn established(&mut self, response: Option<Response>, cx: &mut Cx<'_>) {
        let now = cx.now();
        if let Wire::Dccp { requested: Some(at), .. } = &self.wire {
            self.control.on_handshake(now, now.since(*at));
        }
        self.consider(response, now);
        let report = self.quick_start.report.take();
        if let Wire::Dccp { client, .. } = &mut self.wire {
            cx.emit(NODE, client.acknowledge(&self.path, report.as_ref()));
        }
    }

    fn reported(&mut self, report: &Report, now: Time) -> Result<(), Refusal> {
        while self.sent.front().is_some_and(|sent| sent.sequence < report.sequence) {
            self.sent.pop_front();
        }
        let sent =
            *self.sent.front().filter(|sent| sent.sequence == report.sequence).ok_or(Refusal::Unexpected)?;
        if let Wire::Dccp { client, .. } = &mut self.wire {
            client.reported(sent.quarters);
        }
        self.control.on_feedback(&Feedback {
            now,
            sent: sent.at,
            delay: report.delay,
            sequence: report.sequence,
            receive_rate: report.receive_rate,
            loss_event_rate: report.loss_event_rate,
        });
        self.tally.reports += 1;
        if report.response.is_some() {
            self.consider(report.response, now);
        }
        Ok(())
    }

    /// Applies the rate approved by routers, and prepares the report.
    fn consider(&mut self, response: Option<Response>, now: Time) {
        let Some(approved) = self.quick_start.answer(response) else { return };
        let rate = approved.bps() as f64 / 8.0;
        if approved > RateCode::NONE && self.control.on_quick_start(now, rate, self.header()) {
            self.tally.approved += 1;
        } else {
            self.tally.refused += 1;
        }
    }
}

/// Data generated by the application and not yet sent.
#[derive(Debug)]
enum Backlog {
    /// There is always more.
    Endless { is_over: bool },
    /// A packet each interval, but for pauses.
    Constant {
        pace: Serialiser,
        pauses: Option<Pauses>,
        begin: Time,
        payload: Bytes,
        next: Time,
        waiting: VecDeque<Time>,
        limit: usize,
        dropped: u64,
    },
    /// Messages of another element, with their times.
    Messages { waiting: VecDeque<(Time, Vec<u8>)> },
}

impl Backlog {
    fn new(config: &Config, begin: Time) -> Backlog {
        match config.rate {
            None => Backlog::Endless { is_over: false },
            Some(rate) => Backlog::Constant {
                pace: Serialiser::new(rate),
                pauses: config.pauses,
                begin,
                payload: config.payload,
                next: begin,
                waiting: VecDeque::new(),
                limit: config.queue as usize,
                dropped: 0,
            },
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Backlog::Endless { is_over } => *is_over,
            Backlog::Constant { waiting, .. } => waiting.is_empty(),
            Backlog::Messages { waiting } => waiting.is_empty(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Backlog::Endless { .. } => 0,
            Backlog::Constant { waiting, .. } => waiting.len(),
            Backlog::Messages { waiting } => waiting.len(),
        }
    }

    fn dropped(&self) -> u64 {
        match self {
            Backlog::Endless { .. } | Backlog::Messages { .. } => 0,
            Backlog::Constant { dropped, .. } => *dropped,
        }
    }

    /// Returns the generation time of the next packet.
    fn next(&self) -> Time {
        match self {
            Backlog::Endless { .. } | Backlog::Messages { .. } => Time::NEVER,
            Backlog::Constant { next, .. } => *next,
        }
    }

    /// Generates the packets due by `now`.
    fn fill(&mut self, now: Time) {
        let Backlog::Constant { pace, pauses, begin, payload, next, waiting, limit, dropped } = self else {
            return;
        };
        while *next <= now {
            if waiting.len() < *limit {
                waiting.push_back(*next);
            } else {
                *dropped += 1;
            }
            *next += pace.transmit(*payload);
            *next = pauses.map_or(*next, |pauses| pauses.resume(*begin, *next));
        }
    }

    /// Removes a packet and returns its generation time. Data that is not zeros is with it.
    fn take(&mut self, now: Time) -> Option<(Time, Option<Vec<u8>>)> {
        match self {
            Backlog::Endless { is_over } => (!*is_over).then_some((now, None)),
            Backlog::Constant { waiting, .. } => waiting.pop_front().map(|at| (at, None)),
            Backlog::Messages { waiting } => waiting.pop_front().map(|(at, data)| (at, Some(data))),
        }
    }

    fn clear(&mut self) {
        if let Backlog::Endless { is_over } = self {
            *is_over = true;
        }
    }
}

impl Element for Sender {
    fn receive(&mut self, _port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        match self.accept(&packet, cx) {
            Ok(()) => packet.recycle(),
            Err(Refusal::BadChecksum) => {
                self.tally.bad_checksum += 1;
                cx.refuse(packet, Why::Checksum);
            }
            Err(Refusal::Unexpected) => {
                self.tally.unexpected += 1;
                cx.refuse(packet, Why::NoListener);
            }
        }
        self.run(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.run(cx)
    }

    fn observe(&mut self, _now: Time, observer: &mut dyn Observer) {
        let (tally, state) = (&self.tally, self.control.state());
        observer.counter(&app_metrics::SENT, tally.packets);
        observer.counter(&app_metrics::SENT_BYTES, tally.bytes);
        observer.counter(&metrics::REPORTS, tally.reports);
        observer.counter(&metrics::DROPPED_BACKLOG, self.backlog.dropped());
        observer.counter(&app_metrics::DROPPED_BAD_CHECKSUM, tally.bad_checksum);
        observer.counter(&app_metrics::DROPPED_UNEXPECTED, tally.unexpected);
        observer.counter(&metrics::QUICK_START_USED, tally.approved);
        observer.counter(&metrics::QUICK_START_REFUSED, tally.refused);
        observer.gauge(&metrics::ALLOWED_RATE, 8.0 * state.rate);
        observer.gauge(&metrics::LOSS_EVENT_RATE, state.loss_event_rate);
        observer.gauge(&metrics::SRTT, state.rtt.map_or(f64::NAN, Span::as_secs_f64));
        observer.gauge(&metrics::BACKLOG, self.backlog.len() as f64);
        observer.histogram(&metrics::WAITS, &self.waits.0);
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
