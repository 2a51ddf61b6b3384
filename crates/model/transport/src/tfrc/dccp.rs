//! Both ends of a DCCP connection with CCID 3, as far as packets go.

use std::net::SocketAddr;

use bentpipe_net::{Body, Packet};
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::dccp::{NUMBER_MASK, Options, Packet as View, Repr, Type, kind};
use bentpipe_wire::ip::Protocol;
use bentpipe_wire::quick_start::{IpOption, Response};
use rand::RngCore;

use super::{Inbound, Report};
use crate::datagram::{Arrived, Path, Refusal};

/// Initial retransmission interval of Request and Close. It doubles each time (RFC 4340, section 8.1.1).
const FIRST_RETRY: Span = Span::from_secs(1);
/// No later than this (RFC 4340, section 8.1.1).
const LAST_RETRY: Span = Span::from_secs(64);
/// Option of Change L(CCID, 3) and Change R(Send Loss Event Rate, 1). These are features 1 and 192.
const CCID: u8 = 1;
const SEND_LOSS_EVENT_RATE: u8 = 192;
/// Service code: unspecified (RFC 4340, section 8.1.2).
pub(super) const UNSPECIFIED: u32 = 0;
/// Reset code 1: closed (RFC 4340, section 5.6).
const CLOSED: u32 = 1 << 24;
/// Initial sequence numbers are below this, so that none wraps in a run.
const INITIAL_MASK: u64 = (1 << 40) - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Requesting,
    PartOpen,
    Open,
    Closing,
    Closed,
}

/// The end that sends data: it opens and closes the connection.
#[derive(Debug)]
pub(super) struct Client {
    state: State,
    next: u64,
    /// The greatest number received.
    received: u64,
    retry: Time,
    wait: Span,
    ccid: u8,
    service: u32,
    counter: Counter,
}

/// The window counter that data carries (RFC 4342, section 8.1).
///
/// That of one packet is at most five more than that of the packet before.
#[derive(Debug, Default)]
struct Counter {
    /// That of the last packet, and the time of the first packet with it.
    value: u64,
    since: Time,
    /// That of the next packet is at least this.
    least: u64,
}

impl Counter {
    fn at(&mut self, now: Time, rtt: Option<Span>) -> u64 {
        let quarter_ns = rtt.map_or(u64::MAX, |rtt| (rtt.as_nanos() / 4).max(1));
        let quarters = now.since(self.since).as_nanos() / quarter_ns;
        let next = (self.value + quarters.min(5)).max(self.least);
        if next > self.value {
            (self.value, self.since) = (next, now);
        }
        self.value
    }

    /// Records the ACK of a packet with counter `value`. Later ones have at least four more.
    fn acknowledge(&mut self, value: u64) {
        self.least = self.least.max(value + 4);
    }
}

impl Client {
    pub(super) fn new(stream: &mut RandomStream, is_small: bool, service: u32) -> Client {
        Client {
            state: State::Requesting,
            next: stream.next_u64() & INITIAL_MASK,
            received: 0,
            retry: Time::ZERO,
            wait: FIRST_RETRY,
            ccid: if is_small { 4 } else { 3 },
            service,
            counter: Counter::default(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::PartOpen | State::Open)
    }

    pub(super) fn is_over(&self) -> bool {
        self.state == State::Closed
    }

    pub(super) fn deadline(&self) -> Time {
        match self.state {
            State::Requesting | State::Closing => self.retry,
            State::PartOpen | State::Open | State::Closed => Time::NEVER,
        }
    }

    /// Returns a Request or Close if one is due. The first request carries `option`.
    pub(super) fn poll(&mut self, now: Time, path: &Path, option: Option<&IpOption>) -> Option<Packet> {
        if self.deadline() > now {
            return None;
        }
        self.retry = now + self.wait;
        self.wait = (self.wait * 2).min(LAST_RETRY);
        let mut options = Options::default();
        if self.state == State::Closing {
            return Some(self.packet(Type::Close, 0, 0, options, Data::Zeros(0), path, None));
        }
        options.push(kind::CHANGE_L, &[CCID, self.ccid]);
        options.push(kind::CHANGE_R, &[SEND_LOSS_EVENT_RATE, 1]);
        Some(self.packet(Type::Request, self.service, 0, options, Data::Zeros(0), path, option))
    }

    /// Ends the connection.
    pub(super) fn close(&mut self, now: Time) {
        if self.is_open() {
            (self.state, self.retry, self.wait) = (State::Closing, now, FIRST_RETRY);
        }
    }

    /// Returns a data packet with its number and window counter.
    pub(super) fn data(
        &mut self,
        now: Time,
        rtt: Option<Span>,
        data: Data<'_>,
        path: &Path,
        option: Option<&IpOption>,
    ) -> (u64, u64, Packet) {
        let (sequence, quarters) = (self.next, self.counter.at(now, rtt));
        let kind = if self.state == State::PartOpen { Type::DataAck } else { Type::Data };
        let packet = self.packet(kind, 0, (quarters % 16) as u8, Options::default(), data, path, option);
        (sequence, quarters, packet)
    }

    /// Returns an acknowledgement of the response, with the report of the approved rate.
    pub(super) fn acknowledge(&mut self, path: &Path, option: Option<&IpOption>) -> Packet {
        self.packet(Type::Ack, 0, 0, Options::default(), Data::Zeros(0), path, option)
    }

    /// Records the report of a packet with window counter `quarters`.
    pub(super) fn reported(&mut self, quarters: u64) {
        self.counter.acknowledge(quarters);
    }

    pub(super) fn read(&mut self, now: Time, packet: &Packet) -> Result<Inbound, Refusal> {
        let arrived = Arrived::read(packet, Protocol::DCCP)?;
        let view = View::new_elided(arrived.bytes, arrived.elided).map_err(|_| Refusal::Unexpected)?;
        let repr = Repr::parse(&view).map_err(|_| Refusal::Unexpected)?;
        let acknowledges_us = repr.ack < self.next;
        if !view.kind().acknowledges() || !acknowledges_us {
            return Err(Refusal::Unexpected);
        }
        self.received = self.received.max(repr.sequence);
        match (repr.kind, self.state) {
            (Type::Response, State::Requesting) => {
                self.state = State::PartOpen;
                self.counter.since = now;
                Ok(Inbound::Established { response: repr.options.quick_start() })
            }
            (Type::Reset, _) => {
                self.state = State::Closed;
                Ok(Inbound::Closed)
            }
            (Type::Ack | Type::DataAck, State::PartOpen | State::Open | State::Closing) => {
                if self.state == State::PartOpen {
                    self.state = State::Open;
                }
                report(&repr).map(Inbound::Report).ok_or(Refusal::Unexpected)
            }
            _ => Err(Refusal::Unexpected),
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a header")]
    fn packet(
        &mut self,
        kind: Type,
        extra: u32,
        ccval: u8,
        options: Options,
        data: Data<'_>,
        path: &Path,
        option: Option<&IpOption>,
    ) -> Packet {
        let sequence = self.next;
        self.next += 1;
        let ack = if kind.acknowledges() { self.received } else { 0 };
        build(path, Repr { kind, ccval, sequence, ack, extra, options, ..header(path) }, data, option)
    }
}

fn report(repr: &Repr) -> Option<Report> {
    Some(Report {
        sequence: repr.ack,
        receive_rate: repr.options.receive_rate()?.into(),
        loss_event_rate: repr.options.loss_event_rate()?,
        delay: Span::from_nanos(repr.options.elapsed_ns()?),
        response: repr.options.quick_start(),
    })
}

fn header(path: &Path) -> Repr {
    Repr {
        src_port: path.local.port(),
        dst_port: path.remote.port(),
        kind: Type::Data,
        ccval: 0,
        sequence: 0,
        ack: 0,
        extra: 0,
        options: Options::default(),
    }
}

/// Data of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data<'a> {
    /// Elided zeros.
    Zeros(u32),
    Bytes(&'a [u8]),
}

fn build(path: &Path, repr: Repr, data: Data<'_>, option: Option<&IpOption>) -> Packet {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    let zeros = match data {
        Data::Zeros(zeros) => zeros as usize,
        Data::Bytes(data) => {
            bytes.extend(data);
            0
        }
    };
    let mut view = View::new_elided(&mut bytes[..], zeros).expect("as written");
    view.fill_checksum(&path.pseudo(Protocol::DCCP));
    match data {
        Data::Zeros(zeros) => path.packet(Protocol::DCCP, option, &bytes, zeros),
        Data::Bytes(data) => {
            let head = bytes.len() - data.len();
            let packet = path.packet(Protocol::DCCP, option, &bytes[..head], data.len() as u32);
            packet.with_body(Body::Bytes(data.to_vec()))
        }
    }
}

/// The end that receives data.
#[derive(Debug)]
pub(super) struct Server {
    next: u64,
    /// The client, once it has asked.
    peer: Option<SocketAddr>,
    first: u64,
    received: u64,
    quarters: u64,
    service: u32,
    /// Number and time of the last response, until it is acknowledged.
    responded: Option<(u64, Time)>,
    rtt: Option<Span>,
}

/// Action of the receiving end.
#[derive(Debug)]
pub(super) enum Incoming {
    /// Send this.
    Answer(Packet),
    /// Data came.
    Data { sequence: u64, quarters: u64, payload_len: usize, end: usize, response: Option<Response> },
    /// No action.
    Nothing,
}

impl Server {
    pub(super) fn new(stream: &mut RandomStream, service: u32) -> Server {
        Server {
            next: stream.next_u64() & INITIAL_MASK,
            peer: None,
            first: 0,
            received: 0,
            quarters: 0,
            service,
            responded: None,
            rtt: None,
        }
    }

    /// Returns the number of the first data packet. The client's request and its acknowledgement of the
    /// response precede it.
    pub(super) fn first_data(&self) -> u64 {
        self.first + 2
    }

    /// Returns the time from a response to its acknowledgement, once it has come.
    pub(super) fn rtt(&self) -> Option<Span> {
        self.rtt
    }

    pub(super) fn read(
        &mut self,
        now: Time,
        packet: &Packet,
        path: impl Fn(SocketAddr) -> Option<Path>,
    ) -> Result<Incoming, Refusal> {
        let arrived = Arrived::read(packet, Protocol::DCCP)?;
        let view = View::new_elided(arrived.bytes, arrived.elided).map_err(|_| Refusal::Unexpected)?;
        let peer = SocketAddr::new(arrived.source, view.src_port());
        if view.kind() != Type::Request && self.peer != Some(peer) || view.sequence() > NUMBER_MASK {
            return Err(Refusal::Unexpected);
        }
        if self.peer.is_some() {
            self.received = self.received.max(view.sequence());
        }
        let path = path(peer).ok_or(Refusal::Unexpected)?;
        if let Some((number, at)) = self.responded
            && view.kind().acknowledges()
            && Repr::parse(&view).is_ok_and(|repr| repr.ack == number)
        {
            (self.responded, self.rtt) = (None, Some(now.since(at)));
        }
        match view.kind() {
            Type::Request if self.peer.is_none_or(|known| known == peer) => {
                (self.peer, self.first, self.received) = (Some(peer), view.sequence(), view.sequence());
                self.responded = Some((self.next, now));
                Ok(Incoming::Answer(self.response(&path, arrived.quick_start_response())))
            }
            Type::Data | Type::DataAck => Ok(Incoming::Data {
                sequence: view.sequence(),
                quarters: self.count(view.ccval()),
                payload_len: view.payload_len(),
                end: arrived.end,
                response: arrived.quick_start_response(),
            }),
            Type::Ack => Ok(Incoming::Nothing),
            Type::Close => {
                let reset = self.packet(Type::Reset, CLOSED, Options::default(), &path);
                Ok(Incoming::Answer(reset))
            }
            _ => Err(Refusal::Unexpected),
        }
    }

    fn response(&mut self, path: &Path, response: Option<Response>) -> Packet {
        let mut options = Options::default();
        options.push(kind::CONFIRM_R, &[CCID, 3]);
        options.push(kind::CONFIRM_L, &[SEND_LOSS_EVENT_RATE, 1]);
        if let Some(response) = response {
            options.push_quick_start(&response);
        }
        self.packet(Type::Response, self.service, options, path)
    }

    pub(super) fn report(&mut self, report: &Report, path: &Path) -> Packet {
        let mut options = Options::default();
        options.push_elapsed_ns(report.delay.as_nanos());
        options.push_receive_rate(report.receive_rate.min(4e9) as u32);
        options.push_loss_event_rate(report.loss_event_rate);
        if let Some(response) = &report.response {
            options.push_quick_start(response);
        }
        self.packet(Type::Ack, 0, options, path)
    }

    /// Returns the destination of reports.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    fn packet(&mut self, kind: Type, extra: u32, options: Options, path: &Path) -> Packet {
        let sequence = self.next;
        self.next += 1;
        build(
            path,
            Repr { kind, sequence, ack: self.received, extra, options, ..header(path) },
            Data::Zeros(0),
            None,
        )
    }

    /// Returns the window counter without wrapping, nearest to the last.
    fn count(&mut self, ccval: u8) -> u64 {
        let ahead = u64::from(ccval).wrapping_sub(self.quarters) & 15;
        if ahead < 8 {
            self.quarters += ahead;
            return self.quarters;
        }
        self.quarters.saturating_sub(16 - ahead)
    }
}
