//! ATM interface of a host: AAL5, end systems of its virtual channels, outgoing line.
//!
//! Modelled: packets in AAL5 with or without LLC/SNAP, segmentation and reassembly; sources that follow ABR's
//! rules or a fixed rate; several channels on one line, each cell in the order of its earliest time; [receive
//! buffers](super::receive) that the host empties at its own rate; OAM cells recognised and ignored. Not
//! modelled: signalling, reassembly timers.
//!
//! The interface wakes when a packet is complete, and otherwise once per delay of its line, independent of
//! the number of cells: see [`Train`](super::Train).

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::{Cx, Element, InvalidConfig, Observer, Packet, Port, Why, ledger};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::llc;

use super::aal5::{Outcome, Reassembler, Segmenter};
use super::abr::{EndSystem, Gap, NextCell};
use super::cell::{Cell, Kind, Train, Vc, Word, unload};
use super::line::{self, Line, cells_per_second};
use super::order::Order;
use super::places::Places;
use super::receive::{self, Buffer};
use super::service::{Class, Content, Encapsulation, Service};
use super::stream::Streams;
use crate::metrics;

mod arrivals;
mod rows;

use arrivals::{Arrivals, Counts, Done};

/// The line's input and output.
pub const LINE: Port = Port(0);

/// Configuration of one end of a virtual channel.
pub struct Channel {
    /// Path under which counters and gauges are reported: "vc/bulk/server".
    pub path: String,
    /// VCI on the line.
    pub vc: Vc,
    /// Service category and rates.
    pub service: Service,
    /// Traffic of the channel.
    pub content: Content,
    /// Maximum number of waiting cells; packets beyond are dropped. None: no limit.
    pub limit: Option<u32>,
    /// Receive buffer. None: the host accepts cells immediately.
    pub receive: Option<receive::Config>,
}

/// ATM interface. Port 0 is the line, ports 1 and up are its channels in order.
pub struct Interface {
    path: String,
    rate: Rate,
    line: Line,
    arrivals: Arrivals,
    /// Earliest sending time of each channel with something to send.
    order: Order,
    ends: Vec<End>,
    /// Index among `ends`, for each VCI.
    places: Places,
    /// Places of those ends whose hosts take their time.
    buffered: Vec<u16>,
    /// Time up to which all events of sending are processed.
    reached: Time,
    /// Time before which only complete PDUs are output, unless cells arrive.
    deadline: Time,
}

impl Interface {
    /// Creates an interface without channels; its line is reported under `path`: "link/access/forward".
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value.
    pub fn new(path: impl Into<String>, config: &line::Config) -> Result<Interface, InvalidConfig> {
        Ok(Interface {
            path: path.into(),
            rate: config.rate,
            line: Line::new(config)?,
            arrivals: Arrivals::default(),
            order: Order::new(0),
            ends: Vec::new(),
            places: Places::default(),
            buffered: Vec::new(),
            reached: Time::ZERO,
            deadline: Time::ZERO,
        })
    }

    /// Adds a channel; its packets come and go at the port returned.
    ///
    /// # Errors
    /// The key whose value is impossible.
    ///
    /// # Panics
    /// If the line has a channel of this number already.
    pub fn add(&mut self, channel: Channel) -> Result<Port, InvalidConfig> {
        let place = self.ends.len();
        self.places.add(channel.vc, place);
        self.buffered.extend(channel.receive.is_some().then_some(place as u16));
        self.ends.push(End::new(channel, self.rate)?);
        self.order = Order::new(self.ends.len());
        (0..self.ends.len()).for_each(|place| self.order.set(place, self.ends[place].next(Time::ZERO)));
        Ok(Port(place as u16 + 1))
    }

    /// Changes the receive buffer of the channel reported under `path` from `now` on.
    ///
    /// Returns `true` if there is such a channel and it has a receive buffer.
    ///
    /// # Errors
    /// Returns an error that names the key with an invalid value; then nothing changes.
    pub fn set_receive(
        &mut self,
        now: Time,
        path: &str,
        config: &receive::Config,
    ) -> Result<bool, InvalidConfig> {
        self.advance(now);
        let Some(end) = self.ends.iter_mut().find(|end| end.path == path) else { return Ok(false) };
        let Some(buffer) = &mut end.buffer else { return Ok(false) };
        config.check(end.class)?;
        buffer.set(now, config);
        self.deadline = now;
        Ok(true)
    }

    /// Delivers each cell in its own event: the oracle for trains.
    #[cfg(any(test, feature = "testing"))]
    pub fn disable_batching(&mut self) {
        self.line.disable_batching();
    }

    /// Returns a hash over all sent cells and their arrival times.
    pub fn digest(&self) -> u64 {
        self.line.digest()
    }

    /// Does all that happens before `until`, each thing at its own instant.
    #[inline]
    fn advance(&mut self, until: Time) {
        if self.reached < until {
            self.reached = until;
            self.advance_to(until);
        }
    }

    fn advance_to(&mut self, until: Time) {
        loop {
            let (eligible, place) = self.order.first();
            let start = if eligible.is_never() { eligible } else { eligible.max(self.line.free_at()) };
            let next_event = self.arrivals.next_event();
            if next_event <= start {
                if next_event >= until {
                    return;
                }
                self.arrive();
            } else if start < until {
                self.depart(place, until.min(next_event));
            } else {
                return;
            }
        }
    }

    /// Processes the next cell that is examined at its arrival.
    fn arrive(&mut self) {
        let Arrivals { events, cargo, .. } = &mut self.arrivals;
        let Some(cell) = events.pop_front() else { return };
        let Some(place) = self.places.of(cell.word.vc()).map(usize::from) else { return };
        let end = &mut self.ends[place];
        if cell.word.kind() == Kind::Rm {
            end.on_rm(cell.word);
        } else {
            end.on_buffered(cell, cargo);
        }
        self.order.set(place, end.next(cell.at));
    }

    /// Sends cells of the first channel before `until`, while no other one precedes it.
    fn depart(&mut self, place: usize, until: Time) {
        let (mut eligible, _) = self.order.first();
        let (rival, other) = self.order.second();
        let rival = rival + Span::from_nanos(u64::from(place < other));
        let (end, line) = (&mut self.ends[place], &mut self.line);
        loop {
            if !line.is_batching_disabled() {
                eligible = end.send_row(eligible, rival, until, line);
            }
            let start = eligible.max(line.free_at());
            if eligible >= rival || start >= until {
                break;
            }
            end.send(start, line);
            eligible = end.next(start);
        }
        self.order.set(place, eligible);
    }

    /// Delivers complete PDUs.
    #[inline]
    fn complete(&mut self, cx: &mut Cx<'_>) {
        while let Some(Done { place, outcome, .. }) = self.arrivals.pop_done(cx.now()) {
            if let Some(packet) = self.ends[usize::from(place)].count(outcome) {
                cx.emit(Port(place + 1), packet);
            }
        }
    }

    /// Accepts a packet to be sent by an end.
    #[inline]
    fn push(&mut self, place: usize, packet: Packet, now: Time) {
        let Some(end) = self.ends.get_mut(place) else { return };
        // A packet that certainly waits after others changes nothing for earlier cells, which are sent on
        // demand.
        let gone = self.line.most_in(now.since(self.reached));
        if end.will_wait(&packet, gone) {
            end.push(packet);
            return;
        }
        self.advance(now);
        let end = &mut self.ends[place];
        let is_behind = end.carries.has_data();
        end.push(packet);
        self.order.set(place, end.next(now));
        if !is_behind {
            self.deadline = self.deadline.min(self.next_sent(now));
        }
    }

    /// Emits due cells and PDUs and returns the next wake-up time.
    #[inline]
    fn turn(&mut self, cx: &mut Cx<'_>) -> Time {
        self.complete(cx);
        if self.deadline > cx.now() {
            self.deadline.min(self.arrivals.next_done())
        } else {
            self.flush_due(cx)
        }
    }

    /// Emits due cells, without complete PDUs, and returns the next wake-up time.
    fn flush_due(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.advance(now);
        // Data cells of this instant are in their buffers by then; RM cells of this instant come after the
        // host's actions at it.
        while self.arrivals.events.front().is_some_and(|cell| cell.at == now && cell.word.kind() != Kind::Rm)
        {
            self.arrive();
        }
        let mut next = Time::NEVER;
        for &place in &self.buffered {
            let Some(buffer) = &mut self.ends[usize::from(place)].buffer else { continue };
            while let Some(packet) = buffer.pop(now) {
                cx.emit(Port(place + 1), packet);
            }
            next = next.min(buffer.next());
        }
        if !self.buffered.is_empty() {
            next = next.min(self.arrivals.next_cargo().max(now));
        }
        while self.line.due() <= now
            && let Some(train) = self.line.take(now)
        {
            cx.emit(LINE, train);
        }
        self.deadline = next.min(self.line.due()).min(self.next_sent(now));
        self.deadline.min(self.arrivals.next_done())
    }

    /// Returns the earliest arrival of any cell sent from `now` on, answers to arrivals included.
    #[inline]
    fn next_sent(&self, now: Time) -> Time {
        let event = self.order.first().0.min(self.arrivals.next_event());
        if event.is_never() { event } else { event.max(now) + self.line.shortest() }
    }
}

impl Element for Interface {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        if port == LINE {
            let Some(train) = Train::from_packet(packet) else { return self.turn(cx) };
            // So that not more marks are kept than are to come.
            if self.ends.iter().any(End::observes_efci) {
                self.advance(now);
            }
            self.arrivals.announce(train, now, self.reached, &self.places, &mut self.ends);
            let next_event = self.arrivals.next_event();
            self.reached = self.reached.min(next_event);
            // Arrivals in a receive buffer are passed to the host; other events lead to output on the line at
            // the earliest.
            let is_buffered = !self.buffered.is_empty();
            self.deadline = if is_buffered { now } else { self.deadline.min(self.next_sent(now)) };
        } else {
            self.push(usize::from(port.0) - 1, packet, now);
        }
        self.turn(cx)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.turn(cx)
    }

    fn lookahead(&self) -> Span {
        // From the line to a packet it takes no time, but a packet takes a cell's time to the line.
        Span::ZERO
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        from == LINE && to != LINE
    }

    fn alike(&self, from: Port) -> Port {
        if from == LINE { LINE } else { Port(LINE.0 + 1) }
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.advance(now);
        observer.part(&self.path);
        self.line.observe_sent(observer);
        let (Counts { received, unknown, oam }, coming) = self.arrivals.counts(now, &self.places, &self.ends);
        observer.counter(&metrics::RECEIVED, received);
        observer.counter(&metrics::UNKNOWN_CHANNEL, unknown);
        observer.counter(&metrics::OAM, oam);
        self.line.observe_use(now, observer);
        self.ends.iter().zip(coming).for_each(|(end, coming)| end.observe(now, coming, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// State of one end of a channel.
struct End {
    path: String,
    vc: Vc,
    pace: Pace,
    carries: Carries,
    class: Class,
    /// Receive buffer, if the host limits its rate.
    buffer: Option<Box<Buffer>>,
    sent: u64,
    /// Cells that have come, or are known to.
    received: u64,
    pdus_sent: u64,
    pdus_received: u64,
    wrong_length: u64,
    wrong_crc: u64,
    wrong_header: u64,
    refused: u64,
}

/// Error in a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Length,
    Crc,
    /// Missing LLC/SNAP header of IP.
    Header,
}

/// Returns a payload and its mark, if it has the length of one.
fn unmarked(mut packet: Packet, marked: bool) -> Option<(bool, Packet)> {
    let is_last = marked && packet.header().first() == Some(&1);
    if marked && !packet.is_empty() {
        packet.trim_front(1);
    }
    (packet.len() == bentpipe_wire::atm::PAYLOAD_LEN).then_some((is_last, packet))
}

/// Returns a payload behind its mark.
fn mark(mut payload: Packet, is_last: bool) -> Packet {
    payload.prepend_header(&[u8::from(is_last)]);
    payload
}

/// Rate control of an end.
enum Pace {
    Abr(Box<EndSystem>),
    Fixed { gap: Gap, next: Time, carried: u32 },
}

enum Carries {
    Packets {
        encapsulation: Encapsulation,
        segmenter: Segmenter,
        reassembler: Reassembler,
    },
    /// Payloads, each with the mark of a PDU's last cell. `marked`: packets have the mark.
    Payloads {
        waiting: VecDeque<(bool, Packet)>,
        marked: bool,
        /// Maximum number of waiting payloads; further ones are dropped.
        limit: usize,
    },
    Streams(Streams),
    Nothing,
}

impl Carries {
    #[inline]
    fn has_data(&self) -> bool {
        match self {
            Carries::Packets { segmenter, .. } => !segmenter.is_empty(),
            Carries::Payloads { waiting, .. } => !waiting.is_empty(),
            Carries::Streams(_) | Carries::Nothing => false,
        }
    }

    /// Returns the next data cell, and the packet that travels with it.
    #[inline]
    fn next(&mut self, vc: Vc) -> Option<(Word, Option<Packet>)> {
        match self {
            Carries::Packets { segmenter, .. } => {
                let (serial, index, payload) = segmenter.next()?;
                Some((Word::data(vc, serial, index, payload.is_some()), payload))
            }
            Carries::Payloads { waiting, .. } => {
                let (is_last, payload) = waiting.pop_front()?;
                Some((Word::whole(vc, is_last), Some(payload)))
            }
            Carries::Streams(streams) => streams.pass().then(|| (Word::data(vc, 0, 0, false), None)),
            Carries::Nothing => None,
        }
    }
}

impl End {
    fn new(channel: Channel, line: Rate) -> Result<End, InvalidConfig> {
        let Channel { path, vc, service, content, limit, receive } = channel;
        let class = service.class();
        receive.map_or(Ok(()), |receive| receive.check(class))?;
        let pace = match service {
            Service::Abr(config) => Pace::Abr(Box::new(EndSystem::new(&config, vc, line)?)),
            Service::Cbr { pcr } | Service::Vbr { pcr } | Service::Ubr { pcr } => {
                InvalidConfig::ensure(pcr.is_none_or(|pcr| pcr.as_bps() > 0), "pcr", "more than zero")?;
                let gap = Gap::of(cells_per_second(pcr.unwrap_or(line).min(line)));
                Pace::Fixed { gap, next: Time::ZERO, carried: 0 }
            }
        };
        let carries = match content {
            Content::Packets(encapsulation) => {
                let (segmenter, reassembler) = (Segmenter::new(limit), Reassembler::default());
                Carries::Packets { encapsulation, segmenter, reassembler }
            }
            Content::Payloads | Content::Cells => Carries::Payloads {
                waiting: VecDeque::new(),
                marked: matches!(content, Content::Cells),
                limit: limit.map_or(usize::MAX, |cells| cells as usize),
            },
            Content::Streams(rates) => Carries::Streams(Streams::new(rates)),
            Content::Sink => Carries::Nothing,
        };
        Ok(End {
            path,
            vc,
            pace,
            carries,
            class,
            buffer: receive.map(|receive| Box::new(Buffer::new(&receive))),
            sent: 0,
            received: 0,
            pdus_sent: 0,
            pdus_received: 0,
            wrong_length: 0,
            wrong_crc: 0,
            wrong_header: 0,
            refused: 0,
        })
    }

    /// Returns the earliest time of the next cell, from `now` on. Never if there is none.
    #[inline]
    fn next(&self, now: Time) -> Time {
        let due = match (&self.carries, &self.pace) {
            (Carries::Streams(streams), _) => streams.next(),
            (carries, Pace::Abr(system)) if carries.has_data() || system.has_turn() => system.next(),
            (carries, Pace::Fixed { next, .. }) if carries.has_data() => *next,
            _ => return Time::NEVER,
        };
        due.max(now)
    }

    /// Sends the cell due at `start`, or nothing if only a rate changed.
    #[inline]
    fn send(&mut self, start: Time, line: &mut Line) {
        match &mut self.pace {
            Pace::Abr(system) => {
                if let Some(buffer) = &mut self.buffer {
                    system.set_congestion(buffer.signal(start));
                }
                if let NextCell::Rm(word) = system.choose(start, self.carries.has_data()) {
                    self.sent += 1;
                    line.transmit(word, start);
                    return;
                }
            }
            Pace::Fixed { gap, next, carried } => {
                if *next != start {
                    *carried = 0;
                }
                *next = gap.after(start, carried);
            }
        }
        let Some((word, payload)) = self.carries.next(self.vc) else { return };
        self.sent += 1;
        line.transmit(word, start);
        if let Some(payload) = payload {
            self.pdus_sent += u64::from(word.is_last());
            line.put(payload);
        }
    }

    /// Sends back-to-back data cells and returns the earliest time of the next cell.
    ///
    /// The row ends at the next RM cell; stream cells count as data. The first cell is sent at `eligible`,
    /// all others before `rival` and `until`.
    #[inline]
    fn send_row(&mut self, eligible: Time, rival: Time, until: Time, line: &mut Line) -> Time {
        let (sent, last) = match (&mut self.pace, &mut self.carries) {
            (Pace::Abr(system), Carries::Packets { segmenter, .. }) => {
                let mut row = system.row(eligible, rival, until);
                self.pdus_sent += rows::send_data(self.vc, segmenter, &mut row, line);
                system.end_row(&row)
            }
            (Pace::Fixed { .. }, Carries::Streams(streams)) => {
                rows::send_streams(self.vc, streams, (eligible, rival, until), line)
            }
            _ => return eligible,
        };
        self.sent += u64::from(sent);
        if sent > 0 { self.next(last) } else { eligible }
    }

    /// Enqueues a packet.
    fn push(&mut self, mut packet: Packet) {
        let is_taken = match &mut self.carries {
            Carries::Packets { encapsulation, segmenter, .. } => {
                if *encapsulation == Encapsulation::LlcSnap {
                    prepend_llc(&mut packet);
                }
                segmenter.push(packet)
            }
            Carries::Payloads { waiting, marked, limit } => {
                let cell = unmarked(packet, *marked).filter(|_| waiting.len() < *limit);
                let is_taken = cell.is_some();
                waiting.extend(cell);
                is_taken
            }
            _ => false,
        };
        self.refused += u64::from(!is_taken);
    }

    /// Returns `true` if a packet would wait after others and change no maximum.
    ///
    /// At most `gone` of the waiting cells are sent by then.
    #[inline]
    fn will_wait(&self, packet: &Packet, gone: u64) -> bool {
        matches!(&self.carries, Carries::Packets { segmenter, .. } if segmenter.will_wait(packet.len() + llc::HEADER_LEN, gone))
    }

    fn on_rm(&mut self, word: Word) {
        if let Pace::Abr(system) = &mut self.pace {
            system.on_rm(word);
        }
    }

    /// Stores a data cell in the receive buffer, and signals congestion if too many wait.
    fn on_buffered(&mut self, Cell { at, word }: Cell, cargo: &mut VecDeque<Packet>) {
        if self.buffer.as_mut().is_some_and(|buffer| buffer.take(at)) {
            let packet = self.on_data(word, cargo).and_then(|outcome| self.count(outcome));
            if let Some((buffer, packet)) = self.buffer.as_mut().zip(packet) {
                buffer.keep(packet);
            }
        } else {
            unload(cargo, word, Why::Queue);
        }
        if let (Pace::Abr(system), Some(buffer)) = (&mut self.pace, &mut self.buffer) {
            system.on_data(word.efci());
            system.set_congestion(buffer.signal(at));
            system.make_backward(at);
        }
    }

    /// Announces a data cell, marked or not. All cells to be sent before `settled` have been sent.
    #[inline]
    fn on_mark(&mut self, settled: Time, cell: Cell) {
        if let Pace::Abr(system) = &mut self.pace {
            system.will_meet(settled, cell.at, cell.word.efci());
        }
    }

    /// Returns `true` if relevant congestion marks are still to arrive.
    fn observes_efci(&self) -> bool {
        matches!(&self.pace, Pace::Abr(system) if system.observes_efci())
    }

    /// Accepts a data cell in the middle of a PDU, and its successors.
    #[inline]
    fn on_middles(&mut self, settled: Time, first: Cell, row: &[Cell]) {
        if let Pace::Abr(_) = &self.pace {
            self.on_mark(settled, first);
            if self.observes_efci() || row.iter().any(|cell| cell.word.efci()) {
                row.iter().for_each(|cell| self.on_mark(settled, *cell));
            }
        }
        if let Carries::Packets { reassembler, .. } = &mut self.carries {
            reassembler.middles(first.word, row);
        }
    }

    /// Accepts a data cell and returns the result of the packet that it completes.
    #[inline]
    fn on_data(&mut self, word: Word, cargo: &mut VecDeque<Packet>) -> Option<Result<Packet, Wrong>> {
        let wrong_bits = if word.is_damaged() { cargo.pop_front() } else { None };
        let packet = if word.kind() == Kind::Whole || word.is_last() { cargo.pop_front() } else { None };
        let Carries::Packets { encapsulation, reassembler, .. } = &mut self.carries else {
            let Carries::Payloads { marked, .. } = self.carries else { return None };
            return packet.map(|packet| Ok(if marked { mark(packet, word.is_last()) } else { packet }));
        };
        if let Some(mask) = wrong_bits {
            reassembler.damage(mask);
        }
        let outcome = match (word.kind(), packet) {
            (Kind::Data, Some(payload)) => {
                ledger::dropping(Why::Restoration, || reassembler.last(word, payload))
            }
            (Kind::Data, None) => {
                reassembler.middle(word);
                return None;
            }
            _ if word.is_last() => reassembler.end_foreign(),
            _ => {
                reassembler.foreign();
                return None;
            }
        };
        Some(match outcome {
            Outcome::Whole(payload) if *encapsulation == Encapsulation::LlcSnap => {
                ledger::dropping(Why::Malformed, || strip_llc(payload)).ok_or(Wrong::Header)
            }
            Outcome::Whole(payload) => Ok(payload),
            Outcome::WrongLength => Err(Wrong::Length),
            Outcome::WrongCrc => Err(Wrong::Crc),
        })
    }

    /// Counts a PDU whose last cell has come; the packet, if it is one.
    #[inline]
    fn count(&mut self, outcome: Result<Packet, Wrong>) -> Option<Packet> {
        match outcome {
            Err(Wrong::Length) => self.wrong_length += 1,
            Err(Wrong::Crc) => self.wrong_crc += 1,
            Err(Wrong::Header) => {
                self.pdus_received += 1;
                self.wrong_header += 1;
            }
            Ok(_) => self.pdus_received += 1,
        }
        outcome.ok()
    }

    /// Reports the counters; `coming` cells are announced but arrive at `now` or later.
    fn observe(&self, now: Time, coming: u64, observer: &mut dyn Observer) {
        observer.part(&self.path);
        observer.counter(&metrics::CELLS_SENT, self.sent);
        observer.counter(&metrics::CELLS_RECEIVED, self.received - coming);
        if let Carries::Packets { segmenter, .. } = &self.carries {
            segmenter.observe(observer);
            observer.gauge(&metrics::QUEUE_PACKETS, segmenter.packets() as f64);
            observer.counter(&metrics::PDUS_SENT, self.pdus_sent);
            observer.counter(&metrics::PDUS_RECEIVED, self.pdus_received);
            observer.counter(&metrics::WRONG_LENGTH, self.wrong_length);
            observer.counter(&metrics::WRONG_CRC, self.wrong_crc);
            observer.counter(&metrics::WRONG_HEADER, self.wrong_header);
            observer.counter(&metrics::REFUSED, self.refused);
        }
        if matches!(&self.carries, Carries::Payloads { limit, .. } if *limit != usize::MAX) {
            observer.counter(&metrics::REFUSED, self.refused);
        }
        if let Some(buffer) = &self.buffer {
            buffer.observe(now, observer);
        }
        if let Pace::Abr(system) = &self.pace {
            let counts = system.counts;
            observer.gauge(&metrics::ACR, system.acr() * line::CELL_BITS as f64);
            observer.counter(&metrics::RM_FORWARD_SENT, counts.forward_sent);
            observer.counter(&metrics::RM_BACKWARD_SENT, counts.backward_sent);
            observer.counter(&metrics::RM_BACKWARD_RECEIVED, counts.backward_received);
            observer.counter(&metrics::RM_OUT_OF_RATE_SENT, counts.out_of_rate_sent);
            observer.counter(&metrics::RM_OVERWRITTEN, counts.overwritten);
            if self.buffer.is_some() {
                observer.counter(&metrics::RM_DESTINATION_SENT, counts.destination_sent);
            }
        }
    }
}

/// Prepends LLC and SNAP to an IP packet (RFC 2684, section 5.1).
fn prepend_llc(packet: &mut Packet) {
    let is_v6 = packet.header().first().is_some_and(|first| first >> 4 == 6);
    let kind = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let mut header = [0; llc::HEADER_LEN];
    llc::Repr::Routed(kind).emit(&mut header);
    packet.prepend_header(&header);
}

/// Removes LLC and SNAP from an IP packet; returns `None` for anything else.
fn strip_llc(mut payload: Packet) -> Option<Packet> {
    match llc::Repr::parse(payload.header()) {
        Ok(llc::Repr::Routed(EtherType::IPV4 | EtherType::IPV6)) => {
            payload.trim_front(llc::HEADER_LEN);
            Some(payload)
        }
        _ => None,
    }
}
