//! The sending end of a line: streams, each with a queue, in one multiplex.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::bbframe;
use bentpipe_wire::ts::PACKET_LEN;

use super::config::{Config, Encapsulation};
use super::encapsulator::{Encapsulator, Pdu};
use super::framed::Framed;
use super::line::{Frames, Line, Modcod, Timing};
use super::tables::Tables;
use super::unit::{Birth, Unit, digest};
use crate::queue::{Discipline, Queue};
use crate::{Body, Cx, Element, Impossible, Observer, Packet, Port, Unit as Measure};

const PACKET_BITS: f64 = 8.0 * PACKET_LEN as f64;

/// A stream of a multiplex.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// What its counters are reported as: "link/sky/forward".
    pub name: String,
    /// Encapsulation and compression.
    pub dvb: Config,
    /// The MODCOD of its frames, where streams may have their own (VCM).
    pub modcod: Option<Modcod>,
    /// What waits to be encapsulated.
    pub queue: Discipline,
    /// Propagation delay.
    pub delay: Span,
    /// The longest IP packet.
    pub mtu: Bytes,
}

/// Why there is no such multiplex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the stream; `None` if it is the line.
    pub path: Option<usize>,
    /// The part of its configuration: "dvb" or "queue".
    pub part: &'static str,
    /// The key and what was expected.
    pub impossible: Impossible,
}

/// The sending end of a line: input n takes the packets of stream n, output n gives its TS packets or baseband frames at the
/// instants of their arrival, propagation included. Of N streams, input N + n takes feedback to be sent with stream n, and
/// 2 N + n feedback that came for it.
///
/// Streams with something to send take turns. A packet waits in its stream's queue until the encapsulator has nothing left
/// that is ready, so what is dropped are whole packets. PAT and PMT, if the line has them, go before all else, to all
/// outputs. NULL packets and dummy frames are not made, only counted: no work depends on how many there are. But a
/// transport stream in baseband frames has them: a receiver gets the frames with a part of its stream, and all that is in
/// them.
pub struct Sender {
    timing: Timing,
    tables: Option<Tables>,
    /// The transport stream, if it is in frames.
    framed: Option<Framed>,
    rate: Rate,
    paths: Vec<Path>,
    /// Whose turn it is.
    turn: usize,
    /// What is under way, in the order of arrival.
    pipe: VecDeque<(Time, Port, Packet)>,
    /// The least and the most propagation delay.
    nearest: Span,
    farthest: Span,
    sent: u64,
    /// Until when the last slot or frame that was taken lasts.
    busy: Span,
    scratch: Vec<u8>,
}

struct Path {
    name: String,
    encapsulator: Encapsulator,
    queue: Box<dyn Queue>,
    modcod: Option<Modcod>,
    delay: Span,
    mtu: usize,
    /// When the packets that are encapsulated were born, and in which TS packet, or with which byte of all data fields, each
    /// ends.
    births: VecDeque<(u64, Birth)>,
    /// Bytes of all data fields so far.
    consumed: u64,
    /// The most bytes that its next data field can have.
    capacity: usize,
    /// Frames under way that have TS packets of it, and the packets that end in them.
    framed: VecDeque<(u64, Vec<Birth>)>,
    in_flight: u64,
    too_big: u64,
    lost: u64,
    units: u64,
    unit_bytes: u64,
    delivered: u64,
    delivered_bytes: u64,
    /// How long its units were sent, in all.
    busy: Span,
}

impl Sender {
    /// The sending end of a line with these streams.
    ///
    /// # Errors
    /// What is impossible.
    pub fn new(line: &Line, paths: &[PathConfig]) -> Result<Sender, Refusal> {
        let is_gse = |path: &PathConfig| path.dvb.encapsulation == Encapsulation::Gse;
        let in_frames = paths.first().is_some_and(is_gse);
        let varies = paths.iter().any(|path| path.modcod.is_some());
        let of_line = |impossible| Refusal { path: None, part: "", impossible };
        line.check(in_frames, varies).map_err(of_line)?;
        for (n, path) in paths.iter().enumerate() {
            let refusal = |impossible| Refusal { path: Some(n), part: "dvb", impossible };
            let expected = "the same for all streams of a multiplex, or none of them \"gse\"";
            Impossible::unless(is_gse(path) == in_frames, "encapsulation", expected).map_err(refusal)?;
            let is_new = in_frames || paths[..n].iter().all(|other| other.dvb.pid != path.dvb.pid);
            let expected = "another one: a stream of the same multiplex has it";
            Impossible::unless(is_new, "pid", expected).map_err(refusal)?;
        }
        let timing = match line.frames(varies).filter(|_| in_frames) {
            Some(frames) => Timing::Frames(frames),
            None => Timing::Grid(line.grid()),
        };
        let build = |(n, path)| Path::new(path, &timing).map_err(|e| Refusal { path: Some(n), ..e });
        let tables = line.tables().map(|interval| Tables::new(interval, paths.iter().map(|path| &path.dvb)));
        if let (Some(tables), Some(interval)) = (&tables, line.tables()) {
            let share =
                tables.packets() as f64 * PACKET_BITS / interval.as_secs_f64() / line.rate().as_bps() as f64;
            let expected = "a longer interval: tables would take more than half of the line";
            Impossible::unless(share <= 0.5, "tables", expected).map_err(of_line)?;
        }
        Ok(Sender {
            rate: line.rate(),
            tables,
            framed: line.frames(false).filter(|_| !in_frames).map(Framed::new),
            paths: paths.iter().enumerate().map(build).collect::<Result<_, _>>()?,
            timing,
            turn: 0,
            pipe: VecDeque::new(),
            nearest: paths.iter().map(|path| path.delay).min().unwrap_or_default(),
            farthest: paths.iter().map(|path| path.delay).max().unwrap_or_default(),
            sent: 0,
            busy: Span::ZERO,
            scratch: Vec::new(),
        })
    }

    /// Changes what [`Encapsulator::set`] changes of a stream, and the MODCOD of its frames where streams have their own, from
    /// the next packet and frame on.
    ///
    /// # Errors
    /// The key whose value is impossible; nothing is changed then.
    pub fn set_stream(
        &mut self,
        now: Time,
        number: usize,
        dvb: &Config,
        modcod: Option<Modcod>,
    ) -> Result<(), Impossible> {
        self.catch_up(now);
        let Some(path) = self.paths.get_mut(number) else { return Ok(()) };
        path.encapsulator.set(dvb)?;
        path.modcod = modcod;
        Ok(())
    }

    /// Gives a stream's queue other limits. What waits goes on waiting.
    ///
    /// # Errors
    /// The key whose value is impossible; nothing is changed then.
    pub fn set_queue(&mut self, now: Time, number: usize, discipline: &Discipline) -> Result<(), Impossible> {
        self.catch_up(now);
        self.paths.get_mut(number).map_or(Ok(()), |path| path.queue.set(discipline))
    }

    /// Fills every slot and frame that has begun by `now`.
    fn catch_up(&mut self, now: Time) {
        while let Some(ready) = self.ready() {
            let at = self.timing.opens(ready);
            if at > now {
                return;
            }
            self.timing.seek(at);
            if !self.send(at) {
                return;
            }
        }
    }

    /// From when on there is something to send; `None` if there is nothing.
    fn ready(&self) -> Option<Time> {
        let tables = self.tables.as_ref().map(Tables::ready);
        self.paths.iter().filter_map(Path::ready).chain(tables).min()
    }

    /// Sends from the stream whose turn it is, at `at`. False if none has anything after all.
    fn send(&mut self, at: Time) -> bool {
        if let Some(packet) = self.tables.as_mut().and_then(|tables| tables.pop(at)) {
            self.send_table(&packet);
            return true;
        }
        let count = self.paths.len();
        for ahead in 0..count {
            let number = (self.turn + ahead) % count;
            if self.send_from(number, at) {
                self.turn = number + 1;
                self.sent += 1;
                return true;
            }
        }
        false
    }

    fn send_from(&mut self, number: usize, at: Time) -> bool {
        let path = &mut self.paths[number];
        if path.ready().is_none_or(|ready| ready > at) {
            return false;
        }
        let number_of_path = number;
        let sending = match &self.timing {
            Timing::Grid(_) => None,
            Timing::Frames(frames) => Some((frames, frames.sending(at, path.modcod))),
        };
        let unit = match &sending {
            None => path.slot(at, &mut self.scratch),
            Some((frames, sending)) => {
                path.capacity = sending.capacity;
                let adaptation = frames.adaptation(sending.modcod, self.sent);
                let frame = path.frame(at, frames, number, &mut self.scratch);
                frame.map(|frame| Unit { adaptation: Some(adaptation), ..frame })
            }
        };
        let Some(unit) = unit else { return false };
        let sending = sending.map(|(_, sending)| sending);
        let slot = self.timing.next();
        let (end, took) = self.timing.take(sending.as_ref());
        self.busy += took;
        path.busy += took;
        if sending.is_none_or(|sending| sending.is_received) {
            let number = if sending.is_some() { self.sent } else { slot };
            self.remember(slot, &unit);
            self.dispatch(number_of_path, end, Unit { number, ..unit });
        } else {
            path.lost += 1;
        }
        true
    }

    /// Sends a packet of a table, which all receivers get.
    fn send_table(&mut self, packet: &[u8; PACKET_LEN]) {
        let number = self.timing.next();
        let (end, took) = self.timing.take(None);
        self.busy += took;
        self.sent += 1;
        let unit = Unit { number, bytes: packet.to_vec(), ..Unit::default() };
        self.remember(number, &unit);
        (0..self.paths.len()).for_each(|path| self.dispatch(path, end, unit.clone()));
    }

    /// Notes what is in a slot, if frames are made of slots.
    fn remember(&mut self, slot: u64, unit: &Unit) {
        if let (Some(framed), Some(packet)) = (&mut self.framed, unit.ts()) {
            framed.put(slot, packet);
        }
    }

    /// Puts a unit that was received by `end`, without propagation, on its way to a stream's receiver: itself, or the frames
    /// that it is in.
    fn dispatch(&mut self, number: usize, end: Time, unit: Unit) {
        let path = &mut self.paths[number];
        let port = Port(number as u16);
        let Some(framed) = &self.framed else {
            path.in_flight += 1;
            let arrival = end + path.delay;
            return self.put(arrival, port, unit);
        };
        let mut births = unit.births;
        let (frames, last) = (framed.frames_of(unit.number), framed.frame_of_end(unit.number));
        for frame in frames {
            let births = if frame == last { std::mem::take(&mut births) } else { Vec::new() };
            let path = &mut self.paths[number];
            match path.framed.back_mut().filter(|(last, _)| *last == frame) {
                Some((_, ending)) => ending.extend(births),
                None => {
                    path.framed.push_back((frame, births));
                    path.in_flight += 1;
                    let arrival = self.timing.frame_end(frame) + path.delay;
                    self.put(arrival, port, Unit { number: frame, ..Unit::default() });
                }
            }
        }
    }

    /// A frame, as it arrives.
    fn framed(&mut self, port: Port, packet: Packet) -> Packet {
        let (Some(framed), Body::Unit(unit)) = (&self.framed, packet.body()) else { return packet };
        let path = &mut self.paths[usize::from(port.0)];
        let births = path.framed.pop_front().map(|(_, births)| births).unwrap_or_default();
        let (adaptation, bytes) = framed.frame(unit.number);
        Unit { number: unit.number, bytes, adaptation: Some(adaptation), births }.into_packet()
    }

    /// Streams of different delays overtake each other, so what is put in is not always the last to arrive.
    fn put(&mut self, arrival: Time, port: Port, unit: Unit) {
        let behind = self.pipe.iter().rev().take_while(|(other, ..)| *other > arrival).count();
        let at = self.pipe.len() - behind;
        self.pipe.insert(at, (arrival, port, unit.into_packet()));
    }

    /// When to look again: at the next arrival, or no later than when one may come.
    fn deadline(&self) -> Time {
        if let Some((arrival, ..)) = self.pipe.front() {
            return *arrival;
        }
        self.ready().map_or(Time::NEVER, |ready| self.timing.arrives(ready) + self.nearest)
    }
}

impl Path {
    fn new(config: &PathConfig, timing: &Timing) -> Result<Path, Refusal> {
        let refusal = |part| move |impossible| Refusal { path: None, part, impossible };
        let capacity = match timing {
            Timing::Grid(_) => usize::MAX,
            Timing::Frames(frames) => frames.sending(Time::ZERO, config.modcod).capacity,
        };
        Ok(Path {
            name: config.name.clone(),
            encapsulator: Encapsulator::new(&config.dvb).map_err(refusal("dvb"))?,
            queue: config.queue.build().map_err(refusal("queue"))?,
            modcod: config.modcod,
            delay: config.delay,
            mtu: usize::try_from(config.mtu.get()).unwrap_or(usize::MAX),
            births: VecDeque::new(),
            consumed: 0,
            capacity,
            framed: VecDeque::new(),
            in_flight: 0,
            too_big: 0,
            lost: 0,
            units: 0,
            unit_bytes: 0,
            delivered: 0,
            delivered_bytes: 0,
            busy: Span::ZERO,
        })
    }

    /// From when on there is something to send; `None` if there is nothing.
    fn ready(&self) -> Option<Time> {
        if self.encapsulator.is_full(self.capacity) || self.queue.packets() > 0 {
            return Some(Time::ZERO);
        }
        self.encapsulator.due()
    }

    /// Takes a packet: to be encapsulated at once if nothing waits before it.
    fn take(&mut self, packet: Packet, cx: &mut Cx<'_>, scratch: &mut Vec<u8>) {
        let now = cx.now();
        if packet.len() > self.mtu {
            self.too_big += 1;
            return;
        }
        if self.encapsulator.is_full(self.capacity) || self.queue.packets() > 0 {
            self.queue.enqueue(packet, now, cx.stream());
        } else if let Some(packet) = self.queue.pass(packet, now, now, cx.stream()) {
            self.encapsulate(now, packet, scratch);
        }
    }

    /// Encapsulates what waits until a TS packet or a data field is full.
    fn serve(&mut self, now: Time, scratch: &mut Vec<u8>) {
        while !self.encapsulator.is_full(self.capacity) {
            let Some(packet) = self.queue.dequeue(now) else { return };
            self.encapsulate(now, packet, scratch);
        }
    }

    fn encapsulate(&mut self, now: Time, packet: Packet, scratch: &mut Vec<u8>) {
        let (bytes, elided) = match packet.body() {
            Body::Zeros(zeros) => (packet.header(), *zeros as usize),
            _ => {
                scratch.clear();
                packet.write_to(scratch);
                (&scratch[..], 0)
            }
        };
        let len = bytes.len() + elided;
        if self.encapsulator.push(now, &Pdu::ip(bytes).with_zeros(elided)).is_ok() {
            let birth = Birth { digest: digest(bytes, elided), len: len as u32, born: packet.born() };
            let end = match self.encapsulator.waiting_len() as u64 {
                0 => self.encapsulator.filled() - u64::from(!self.encapsulator.is_pending()),
                waiting => self.consumed + waiting,
            };
            self.births.push_back((end, birth));
        }
        packet.recycle();
    }

    /// The next TS packet.
    fn slot(&mut self, at: Time, scratch: &mut Vec<u8>) -> Option<Unit> {
        self.serve(at, scratch);
        let packet = self.encapsulator.pop(at)?;
        let number = self.encapsulator.sent().frames - 1;
        Some(self.unit(packet.to_vec(), number))
    }

    /// The next baseband frame, of the stream's own number among the input streams.
    fn frame(&mut self, at: Time, frames: &Frames, number: usize, scratch: &mut Vec<u8>) -> Option<Unit> {
        self.serve(at, scratch);
        let mut bytes = vec![0; bbframe::HEADER_LEN];
        let before = self.encapsulator.waiting_len();
        let len = self.encapsulator.fill(at, self.capacity, &mut bytes)?;
        self.consumed += (before - self.encapsulator.waiting_len()) as u64;
        let header = bbframe::Repr {
            input: u8::try_from(number).ok().filter(|_| !frames.is_constant || number > 0),
            is_constant: frames.is_constant,
            roll_off: frames.roll_off,
            ..bbframe::Repr::gse(len)
        };
        header.emit(&mut bytes);
        Some(self.unit(bytes, self.consumed))
    }

    /// A unit, with the packets that end in it or before.
    fn unit(&mut self, bytes: Vec<u8>, end: u64) -> Unit {
        self.units += 1;
        self.unit_bytes += bytes.len() as u64;
        let ending = self.births.iter().take_while(|(at, _)| *at <= end).count();
        Unit {
            number: 0,
            bytes,
            adaptation: None,
            births: self.births.drain(..ending).map(|(_, birth)| birth).collect(),
        }
    }

    fn deliver(&mut self, packet: &Packet) {
        self.in_flight -= 1;
        if let Body::Unit(unit) = packet.body() {
            self.delivered += unit.births.len() as u64;
            self.delivered_bytes += unit.births.iter().map(|birth| u64::from(birth.len)).sum::<u64>();
        }
    }

    fn observe(&self, now: Time, observer: &mut dyn Observer) {
        let (sent, rohc) = (self.encapsulator.sent(), self.encapsulator.compression());
        observer.part(&self.name);
        observer.counter("delivered", Measure::Packets, self.delivered);
        observer.counter("delivered-bytes", Measure::Bytes, self.delivered_bytes);
        observer.counter("dropped-too-big", Measure::Packets, self.too_big);
        observer.counter("dropped-by-filter", Measure::Packets, sent.dropped);
        observer.counter("dropped-refused", Measure::Packets, sent.refused);
        observer.counter("units-sent", Measure::Count, self.units);
        observer.counter("units-sent-bytes", Measure::Bytes, self.unit_bytes);
        observer.counter("units-flushed", Measure::Count, sent.flushed);
        observer.counter("units-faded", Measure::Count, self.lost);
        observer.counter("sndus", Measure::Count, sent.pdus + sent.feedback);
        observer.counter("sndu-bytes", Measure::Bytes, sent.sndu_bytes);
        observer.counter("packets-in", Measure::Packets, sent.pdus);
        observer.counter("packets-in-bytes", Measure::Bytes, sent.pdu_bytes);
        observer.counter("compressed", Measure::Packets, sent.compressed);
        observer.counter("headers-in-bytes", Measure::Bytes, rohc.header_in);
        observer.counter("headers-out-bytes", Measure::Bytes, rohc.header_out);
        observer.counter("rohc-irs", Measure::Count, rohc.irs);
        observer.counter("rohc-feedback-sent", Measure::Count, sent.feedback);
        let ratio = |part: u64, whole: u64| part as f64 / whole as f64;
        observer.gauge("rohc-header", Measure::Bytes, ratio(rohc.header_out, rohc.packets));
        observer.gauge("rohc-contexts", Measure::Count, self.encapsulator.contexts() as f64);
        observer.gauge("efficiency", Measure::Ratio, ratio(sent.pdu_bytes, self.unit_bytes));
        observer.gauge("in-flight", Measure::Count, self.in_flight as f64);
        let busy = self.busy.as_secs_f64();
        observer.gauge("busy", Measure::Seconds, busy);
        observer.gauge("utilisation", Measure::Ratio, busy / now.as_secs_f64());
        self.queue.observe(observer);
    }
}

impl Element for Sender {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now);
        self.timing.seek(now);
        let count = self.paths.len();
        let (kind, number) = (usize::from(port.0) / count.max(1), usize::from(port.0) % count.max(1));
        if let Some(path) = self.paths.get_mut(number) {
            match kind {
                0 => path.take(packet, cx, &mut self.scratch),
                1 => path.encapsulator.send_feedback(now, &packet.to_vec()),
                2 => path.encapsulator.feedback(&packet.to_vec()),
                _ => {}
            }
        }
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now);
        while self.pipe.front().is_some_and(|(arrival, ..)| *arrival <= now) {
            let Some((_, port, packet)) = self.pipe.pop_front() else { break };
            let packet = self.framed(port, packet);
            self.paths[usize::from(port.0)].deliver(&packet);
            cx.emit(port, packet);
        }
        if let Some(framed) = &mut self.framed {
            let oldest = Time::from_nanos(now.as_nanos().saturating_sub(self.farthest.as_nanos()));
            framed.forget_before(self.timing.frame_at(oldest).saturating_sub(1));
        }
        self.deadline()
    }

    fn lookahead(&self) -> Span {
        self.timing.shortest() + self.nearest
    }

    fn forwards(&self, from: Port, to: Port) -> bool {
        let count = self.paths.len().max(1);
        usize::from(from.0) % count == usize::from(to.0)
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.catch_up(now);
        let slots = self.timing.slots(now);
        observer.counter("units-sent", Measure::Count, self.sent);
        observer.counter("nulls", Measure::Count, slots.saturating_sub(self.sent));
        observer.gauge("rate", Measure::BitsPerSecond, self.rate.as_bps() as f64);
        observer.gauge("utilisation", Measure::Ratio, self.busy.as_secs_f64() / now.as_secs_f64());
        self.paths.iter().for_each(|path| path.observe(now, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
