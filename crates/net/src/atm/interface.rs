//! An ATM interface of a host: AAL5, the end systems of its virtual channels, and the line that leads away.
//!
//! Modelled: packets in AAL5 with LLC/SNAP or without, segmented and put together again; sources that keep to ABR's rules
//! or to a fixed rate; several channels on one line, each cell in the order that it may go; [receive buffers](super::receive)
//! that the host empties at its own rate; OAM cells recognised and ignored. Not modelled: signalling, reassembly timers.
//!
//! The interface wakes when a packet is complete, and otherwise once in the delay of its line, however many cells there
//! are: see [`Train`](super::Train).

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::ethernet::EtherType;
use bentpipe_wire::llc;

use super::aal5::{Outcome, Reassembler, Segmenter};
use super::abr::{Choice, EndSystem, Gap};
use super::cell::{Cell, Kind, Vc, Word, unload};
use super::line::{self, Line, cells_per_second};
use super::order::Order;
use super::receive::{self, Buffer};
use super::service::{Class, Content, Encapsulation, Service};
use super::stream::Streams;
use crate::{Cx, Element, Impossible, Observer, Packet, Port, Unit};

mod arrivals;
mod rows;

use arrivals::{Arrivals, Counts, Done};

/// The line's input and output.
pub const LINE: Port = Port(0);

/// One end of a virtual channel.
pub struct Channel {
    /// What its counters and gauges are reported under: "vc/bulk/server".
    pub path: String,
    /// Its number on the line.
    pub vc: Vc,
    /// What it was given.
    pub service: Service,
    /// What it carries.
    pub content: Content,
    /// How many cells of packets may wait to be sent; a packet beyond is refused. None: as many as come.
    pub limit: Option<u32>,
    /// How fast the host takes what it receives. None: at once.
    pub receive: Option<receive::Config>,
}

/// An ATM interface: input and output 0 are the line, 1 and on are the packets of its channels in their order.
pub struct Interface {
    path: String,
    rate: Rate,
    line: Line,
    arrivals: Arrivals,
    /// When each channel may send, if it has something to send.
    order: Order,
    ends: Vec<End>,
    /// For each VCI the channel's place among `ends`.
    places: Vec<Option<u16>>,
    /// Places of those ends whose hosts take their time.
    buffered: Vec<u16>,
    /// All that has to do with sending, and that happens before this, is done.
    reached: Time,
    /// Before this nothing has to go out but complete PDUs, if nothing comes.
    deadline: Time,
}

impl Interface {
    /// An interface without channels, whose line is reported under `path`: "link/access/forward".
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn new(path: impl Into<String>, config: &line::Config) -> Result<Interface, Impossible> {
        Ok(Interface {
            path: path.into(),
            rate: config.rate,
            line: Line::new(config)?,
            arrivals: Arrivals::default(),
            order: Order::new(0),
            ends: Vec::new(),
            places: vec![None; Vc::LAST.index() + 1],
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
    pub fn add(&mut self, channel: Channel) -> Result<Port, Impossible> {
        let place = self.ends.len();
        let taken = self.places[channel.vc.index()].replace(place as u16);
        assert!(taken.is_none(), "two channels with VCI {}", channel.vc.vci());
        self.buffered.extend(channel.receive.is_some().then_some(place as u16));
        self.ends.push(End::new(channel, self.rate)?);
        self.order = Order::new(self.ends.len());
        (0..self.ends.len()).for_each(|place| self.order.set(place, self.ends[place].next(Time::ZERO)));
        Ok(Port(place as u16 + 1))
    }

    /// Changes how fast the host takes what the channel that is reported under `path` receives, from `now` on; whether there is
    /// such a channel, with a receive buffer.
    ///
    /// # Errors
    /// The key whose value is impossible; then nothing changes.
    pub fn set_receive(
        &mut self,
        now: Time,
        path: &str,
        config: &receive::Config,
    ) -> Result<bool, Impossible> {
        self.advance(now);
        let Some(end) = self.ends.iter_mut().find(|end| end.path == path) else { return Ok(false) };
        let Some(buffer) = &mut end.buffer else { return Ok(false) };
        config.check(end.class)?;
        buffer.set(now, config);
        self.deadline = now;
        Ok(true)
    }

    /// Hands each cell over by itself from now on. Nothing else differs; this is for showing that.
    pub fn cell_by_cell(&mut self) {
        self.line.cell_by_cell();
    }

    /// A hash over all cells sent, and when each arrives.
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

    /// Takes the next cell that is looked at when it comes.
    fn arrive(&mut self) {
        let Arrivals { events, cargo, .. } = &mut self.arrivals;
        let Some(cell) = events.pop_front() else { return };
        let Some(place) = self.places[cell.word.vc().index()].map(usize::from) else { return };
        let end = &mut self.ends[place];
        if cell.word.kind() == Kind::Rm {
            end.on_rm(cell.word);
        } else {
            end.on_buffered(cell, cargo);
        }
        self.order.set(place, end.next(cell.at));
    }

    /// Sends cells of the channel that comes first, before `until` and as long as no other one comes first.
    fn depart(&mut self, place: usize, until: Time) {
        let (mut eligible, _) = self.order.first();
        let (rival, other) = self.order.second();
        let rival = rival + Span::from_nanos(u64::from(place < other));
        let (end, line) = (&mut self.ends[place], &mut self.line);
        loop {
            if !line.is_cell_by_cell() {
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

    /// Hands over what is complete.
    #[inline]
    fn complete(&mut self, cx: &mut Cx<'_>) {
        while let Some(Done { place, outcome, .. }) = self.arrivals.pop_done(cx.now()) {
            if let Some(packet) = self.ends[usize::from(place)].count(outcome) {
                cx.emit(Port(place + 1), packet);
            }
        }
    }

    /// Takes a packet to be sent by an end.
    #[inline]
    fn push(&mut self, place: usize, packet: Packet, now: Time) {
        let Some(end) = self.ends.get_mut(place) else { return };
        // Where it is behind others for sure it changes nothing for what is before it, which goes out when it is wanted.
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

    /// Hands over what is due; when to be woken next.
    #[inline]
    fn turn(&mut self, cx: &mut Cx<'_>) -> Time {
        self.complete(cx);
        if self.deadline > cx.now() {
            self.deadline.min(self.arrivals.next_done())
        } else {
            self.hand_over(cx)
        }
    }

    /// Hands over all but complete PDUs.
    fn hand_over(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.advance(now);
        // Data that comes at this instant is in its buffer now; RM cells of this instant come after what the host does at it.
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

    /// When a cell that is sent from `now` on can arrive at the earliest: what is to be sent, or an answer to what comes.
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
            let Some(train) = packet.into_train() else { return self.turn(cx) };
            // So that not more marks are kept than are to come.
            if self.ends.iter().any(End::minds_marks) {
                self.advance(now);
            }
            self.arrivals.announce(train, now, self.reached, &self.places, &mut self.ends);
            let next_event = self.arrivals.next_event();
            self.reached = self.reached.min(next_event);
            // What comes to a receive buffer goes on to the host, other events go out on the line at the earliest.
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

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.advance(now);
        observer.part(&self.path);
        self.line.observe_sent(observer);
        let (Counts { received, unknown, oam }, coming) = self.arrivals.counts(now, &self.places, &self.ends);
        observer.counter("received", Unit::Cells, received);
        observer.counter("unknown-channel", Unit::Cells, unknown);
        observer.counter("oam", Unit::Cells, oam);
        self.line.observe_use(now, observer);
        self.ends.iter().zip(coming).for_each(|(end, coming)| end.observe(now, coming, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// One end of a channel, at work.
struct End {
    path: String,
    vc: Vc,
    pace: Pace,
    carries: Carries,
    class: Class,
    /// What has come and the host has not taken yet, if it takes its time.
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

/// What is wrong with a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Length,
    Crc,
    /// It has no LLC/SNAP header of IP.
    Header,
}

/// At what rate an end sends.
enum Pace {
    Abr(Box<EndSystem>),
    Fixed { gap: Gap, next: Time, carried: u32 },
}

enum Carries {
    Packets { encapsulation: Encapsulation, segmenter: Segmenter, reassembler: Reassembler },
    Payloads(VecDeque<Packet>),
    Streams(Streams),
    Nothing,
}

impl Carries {
    #[inline]
    fn has_data(&self) -> bool {
        match self {
            Carries::Packets { segmenter, .. } => !segmenter.is_empty(),
            Carries::Payloads(payloads) => !payloads.is_empty(),
            Carries::Streams(_) | Carries::Nothing => false,
        }
    }

    /// The next cell of data, and the packet that travels with it.
    #[inline]
    fn next(&mut self, vc: Vc) -> Option<(Word, Option<Packet>)> {
        match self {
            Carries::Packets { segmenter, .. } => {
                let (serial, index, payload) = segmenter.next()?;
                Some((Word::data(vc, serial, index, payload.is_some()), payload))
            }
            Carries::Payloads(payloads) => Some((Word::whole(vc, false), Some(payloads.pop_front()?))),
            Carries::Streams(streams) => streams.pass().then(|| (Word::data(vc, 0, 0, false), None)),
            Carries::Nothing => None,
        }
    }
}

impl End {
    fn new(channel: Channel, line: Rate) -> Result<End, Impossible> {
        let Channel { path, vc, service, content, limit, receive } = channel;
        let class = service.class();
        receive.map_or(Ok(()), |receive| receive.check(class))?;
        let pace = match service {
            Service::Abr(config) => Pace::Abr(Box::new(EndSystem::new(&config, vc, line)?)),
            Service::Cbr { pcr } | Service::Vbr { pcr } | Service::Ubr { pcr } => {
                Impossible::unless(pcr.is_none_or(|pcr| pcr.as_bps() > 0), "pcr", "more than zero")?;
                let gap = Gap::of(cells_per_second(pcr.unwrap_or(line).min(line)));
                Pace::Fixed { gap, next: Time::ZERO, carried: 0 }
            }
        };
        let carries = match content {
            Content::Packets(encapsulation) => {
                let (segmenter, reassembler) = (Segmenter::new(limit), Reassembler::default());
                Carries::Packets { encapsulation, segmenter, reassembler }
            }
            Content::Payloads => Carries::Payloads(Default::default()),
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

    /// When the next cell may go out, not before `now`; never if there is none.
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

    /// Sends the cell that goes out at `start`; none if it was only a rate that changed.
    #[inline]
    fn send(&mut self, start: Time, line: &mut Line) {
        match &mut self.pace {
            Pace::Abr(system) => {
                if let Some(buffer) = &mut self.buffer {
                    system.set_strain(buffer.strain(start));
                }
                if let Choice::Rm(word) = system.choose(start, self.carries.has_data()) {
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

    /// Sends cells of data up to the next RM cell, or those of streams, the first at `eligible` and all as long as they come before
    /// `rival` and are gone before `until`; when the next cell may go out.
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

    /// Takes a packet to be sent.
    fn push(&mut self, mut packet: Packet) {
        let is_taken = match &mut self.carries {
            Carries::Packets { encapsulation, segmenter, .. } => {
                if *encapsulation == Encapsulation::LlcSnap {
                    prepend_llc(&mut packet);
                }
                segmenter.push(packet)
            }
            Carries::Payloads(payloads) if packet.len() == bentpipe_wire::atm::PAYLOAD_LEN => {
                payloads.push_back(packet);
                true
            }
            _ => false,
        };
        self.refused += u64::from(!is_taken);
    }

    /// Whether a packet is behind others once at most so many cells of these are `gone`, and no more wait then than ever did.
    #[inline]
    fn will_wait(&self, packet: &Packet, gone: u64) -> bool {
        matches!(&self.carries, Carries::Packets { segmenter, .. } if segmenter.will_wait(packet.len() + llc::HEADER_LEN, gone))
    }

    fn on_rm(&mut self, word: Word) {
        if let Pace::Abr(system) = &mut self.pace {
            system.on_rm(word);
        }
    }

    /// Takes a cell of data into the buffer, if there is room; tells the source if too many wait.
    fn on_buffered(&mut self, Cell { at, word }: Cell, cargo: &mut VecDeque<Packet>) {
        if self.buffer.as_mut().is_some_and(|buffer| buffer.take(at)) {
            let packet = self.on_data(word, cargo).and_then(|outcome| self.count(outcome));
            if let Some((buffer, packet)) = self.buffer.as_mut().zip(packet) {
                buffer.keep(packet);
            }
        } else {
            unload(cargo, word);
        }
        if let (Pace::Abr(system), Some(buffer)) = (&mut self.pace, &mut self.buffer) {
            system.on_data(word.efci());
            system.set_strain(buffer.strain(at));
            system.make_backward(at);
        }
    }

    /// A cell of data will come, marked or not. All that goes out before `settled` has.
    #[inline]
    fn on_mark(&mut self, settled: Time, cell: Cell) {
        if let Pace::Abr(system) = &mut self.pace {
            system.will_meet(settled, cell.at, cell.word.efci());
        }
    }

    /// Whether marks of congestion are to come.
    fn minds_marks(&self) -> bool {
        matches!(&self.pace, Pace::Abr(system) if system.minds_marks())
    }

    /// Takes a cell of data in the middle of a PDU, and those that follow it there.
    #[inline]
    fn on_middles(&mut self, settled: Time, first: Cell, row: &[Cell]) {
        if let Pace::Abr(_) = &self.pace {
            self.on_mark(settled, first);
            if self.minds_marks() || row.iter().any(|cell| cell.word.efci()) {
                row.iter().for_each(|cell| self.on_mark(settled, *cell));
            }
        }
        if let Carries::Packets { reassembler, .. } = &mut self.carries {
            reassembler.middles(first.word, row);
        }
    }

    /// Takes a cell of data; gives what becomes of the packet that it completes.
    #[inline]
    fn on_data(&mut self, word: Word, cargo: &mut VecDeque<Packet>) -> Option<Result<Packet, Wrong>> {
        let wrong_bits = if word.is_damaged() { cargo.pop_front() } else { None };
        let packet = if word.kind() == Kind::Whole || word.is_last() { cargo.pop_front() } else { None };
        let Carries::Packets { encapsulation, reassembler, .. } = &mut self.carries else {
            return packet.filter(|_| matches!(self.carries, Carries::Payloads(_))).map(Ok);
        };
        if let Some(mask) = wrong_bits {
            reassembler.damage(mask);
        }
        let outcome = match (word.kind(), packet) {
            (Kind::Data, Some(payload)) => reassembler.last(word, payload),
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
                strip_llc(payload).ok_or(Wrong::Header)
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

    /// `coming` cells are known to come and have not before `now`.
    fn observe(&self, now: Time, coming: u64, observer: &mut dyn Observer) {
        observer.part(&self.path);
        observer.counter("cells-sent", Unit::Cells, self.sent);
        observer.counter("cells-received", Unit::Cells, self.received - coming);
        if let Carries::Packets { segmenter, .. } = &self.carries {
            let [queued, most] = segmenter.cells();
            observer.gauge("queue", Unit::Cells, queued as f64);
            observer.gauge("queue-max", Unit::Cells, most as f64);
            observer.gauge("queue-packets", Unit::Packets, segmenter.packets() as f64);
            observer.counter("pdus-sent", Unit::Packets, self.pdus_sent);
            observer.counter("pdus-received", Unit::Packets, self.pdus_received);
            observer.counter("wrong-length", Unit::Packets, self.wrong_length);
            observer.counter("wrong-crc", Unit::Packets, self.wrong_crc);
            observer.counter("wrong-header", Unit::Packets, self.wrong_header);
            observer.counter("refused", Unit::Packets, self.refused);
        }
        if let Some(buffer) = &self.buffer {
            let [most, lost] = buffer.most_and_lost();
            observer.gauge("receive-queue", Unit::Cells, buffer.cells_at(now) as f64);
            observer.gauge("receive-queue-max", Unit::Cells, most as f64);
            observer.counter("receive-lost", Unit::Cells, lost);
        }
        if let Pace::Abr(system) = &self.pace {
            let counts = system.counts;
            observer.gauge("acr", Unit::BitsPerSecond, system.acr() * line::CELL_BITS as f64);
            observer.counter("rm-forward-sent", Unit::Cells, counts.forward_sent);
            observer.counter("rm-backward-sent", Unit::Cells, counts.backward_sent);
            observer.counter("rm-backward-received", Unit::Cells, counts.backward_received);
            observer.counter("rm-out-of-rate-sent", Unit::Cells, counts.out_of_rate_sent);
            observer.counter("rm-overwritten", Unit::Cells, counts.overwritten);
            if self.buffer.is_some() {
                observer.counter("rm-destination-sent", Unit::Cells, counts.destination_sent);
            }
        }
    }
}

/// Puts LLC and SNAP in front of an IP packet (RFC 2684, section 5.1).
fn prepend_llc(packet: &mut Packet) {
    let is_v6 = packet.header().first().is_some_and(|first| first >> 4 == 6);
    let kind = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let mut header = [0; llc::HEADER_LEN];
    llc::Repr::Routed(kind).emit(&mut header);
    packet.prepend_header(&header);
}

/// Takes LLC and SNAP off an IP packet; none if it is anything else.
fn strip_llc(mut payload: Packet) -> Option<Packet> {
    match llc::Repr::parse(payload.header()) {
        Ok(llc::Repr::Routed(EtherType::IPV4 | EtherType::IPV6)) => {
            payload.trim_front(llc::HEADER_LEN);
            Some(payload)
        }
        _ => None,
    }
}
