//! Sender of a DVB carrier: streams with a queue each, in one multiplex.

mod common;
mod path;
mod pipe;

use std::any::Any;
use std::sync::Arc;

use bentpipe_net::link::metrics as link_metrics;
use bentpipe_net::queue::Discipline;
use bentpipe_net::{Busy, Cx, Element, InvalidConfig, Observer, Packet, Port, Why};
use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::ts::PACKET_LEN;
use bentpipe_wire::{bbframe, gse};

use super::config::{Config, Encapsulation};
use super::framed::Framed;
use super::line::{InputStreams, Line, Modcod};
use super::multiplex::{Fields, Multiplex, Origin};
use super::tables::{self, Tables};
use super::timing::{Frames, Slots, Timing};
use super::unit::Unit;
use crate::metrics;
use common::Common;
use path::Path;
use pipe::{Pipe, Receivers};

/// Refusal of a change of a stream that the multiplex does not have.
const NO_STREAM: InvalidConfig = InvalidConfig::new("line", "the multiplex of the stream");

const PACKET_BITS: f64 = 8.0 * PACKET_LEN as f64;

/// A stream of a multiplex.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// Name under which counters are reported, such as "link/sky/forward".
    pub name: String,
    /// Encapsulation and compression.
    pub dvb: Config,
    /// Stream for groups, which receivers of other streams with the same one get as well.
    pub common: Option<Config>,
    /// MODCOD of its frames, where streams may have their own (VCM).
    pub modcod: Option<Modcod>,
    /// Queue of packets to be encapsulated.
    pub queue: Discipline,
    /// Propagation delay.
    pub delay: Span,
    /// Maximum length of an IP packet.
    pub mtu: Bytes,
}

impl PathConfig {
    /// Returns `true` if it is a stream for groups itself.
    fn is_common(&self) -> bool {
        self.common.as_ref().is_some_and(|common| common.pid == self.dvb.pid)
    }
}

/// Error returned when a multiplex is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Number of the stream; `None` for the carrier.
    pub path: Option<usize>,
    /// Part of its configuration: "dvb" or "queue".
    pub part: &'static str,
    /// Key and expected value.
    pub impossible: InvalidConfig,
}

/// Sender of a DVB carrier, an element.
///
/// Input n takes the packets of stream n, and output n emits its TS packets or BBFRAMEs at the instants of their arrival,
/// propagation included. Of N streams, input N + n takes feedback to be sent with stream n, and 2 N + n feedback received
/// for it.
///
/// TS packets of streams leave in turn; BBFRAMEs with GSE have PDUs of all streams of a MODCOD. Packets wait in the queue of
/// their stream before they are encapsulated, so whole packets are dropped. PAT and PMT are sent first, and reach all
/// outputs. NULL packets and dummy frames are counted, not made, so that no work depends on their number. A transport stream
/// in BBFRAMEs does have them: a receiver gets the frames with a part of its stream, whole.
pub struct Sender {
    /// Carrier as it is.
    line: Line,
    timing: Timing,
    /// Slots for those that go by them as well.
    slots: Slots,
    multiplex: Multiplex,
    /// Data fields of GSE.
    fields: Option<Fields>,
    /// Transport stream in BBFRAMEs.
    framed: Option<Framed>,
    rate: Rate,
    /// Streams of one receiver, and then those for groups.
    paths: Vec<Path>,
    common: Common,
    /// Result of [`Sender::ready`], kept until a stream changes.
    ///
    /// An arrival changes none, and with thousands of receivers there are thousands of arrivals for a packet.
    known_ready: Option<Option<Time>>,
    /// Set if a queue may hold packets back.
    may_hold: bool,
    /// Units in flight.
    pipe: Pipe,
    /// Receivers of each stream for groups, and of tables.
    listeners: Vec<Receivers>,
    /// Minimum and maximum propagation delay.
    nearest: Span,
    farthest: Span,
    sent: u64,
    /// Time taken by slots and frames with data.
    busy: Busy,
    /// Bytes of GSE packets in data fields, and of the data fields.
    filled_bytes: u64,
    field_bytes: u64,
}

impl Sender {
    /// Creates the sender of a carrier with these streams.
    ///
    /// # Errors
    /// Returns an error if the carrier or a stream is not possible.
    pub fn new(line: &Line, paths: &[PathConfig]) -> Result<Sender, Refusal> {
        let common = Common::new(paths);
        let paths = &*common.all(paths);
        let is_gse = |path: &PathConfig| path.dvb.encapsulation == Encapsulation::Gse;
        let in_frames = paths.first().is_some_and(is_gse);
        let varies = paths.iter().any(|path| path.modcod.is_some());
        let of_line = |impossible| Refusal { path: None, part: "", impossible };
        line.check(in_frames, varies).map_err(of_line)?;
        let placed =
            |refusal: Refusal| Refusal { path: refusal.path.map(|n| common.receivers(n)[0]), ..refusal };
        check_streams(line, paths, in_frames).map_err(placed)?;
        let timing = match line.frames(varies).filter(|_| in_frames) {
            Some(frames) => Timing::Frames(frames),
            None => Timing::Grid(line.grid()),
        };
        let build = |(n, path): (usize, &PathConfig)| {
            let label = line.label(&path.dvb, n, paths.len());
            Path::new(path, label).map_err(|e| Refusal { path: Some(n), ..e })
        };
        let mut built = paths.iter().enumerate().map(build).collect::<Result<Vec<_>, _>>()?;
        let fields =
            if let Timing::Frames(frames) = &timing { Some(fields(frames, &mut built)) } else { None };
        let listeners = common.lists().map(|list| by_delay(&list, paths)).collect();
        let programmes = tables::programmes(paths.iter().map(|path| &path.dvb));
        let tables = line.tables().map(|interval| Tables::new(interval, 1, programmes));
        check_tables(line, tables.as_ref()).map_err(of_line)?;
        Ok(Sender {
            line: line.clone(),
            slots: Slots::new(line),
            rate: line.rate(),
            common,
            multiplex: Multiplex::new(tables),
            framed: line.frames(false).filter(|_| !in_frames).map(Framed::new),
            paths: built,
            fields,
            timing,
            known_ready: None,
            may_hold: paths.iter().any(|path| path.queue.may_hold()),
            pipe: Pipe::default(),
            listeners,
            nearest: paths.iter().map(|path| path.delay).min().unwrap_or_default(),
            farthest: paths.iter().map(|path| path.delay).max().unwrap_or_default(),
            sent: 0,
            busy: Busy::default(),
            filled_bytes: 0,
            field_bytes: 0,
        })
    }

    /// Returns the slots of the carrier, which follow its changes.
    pub fn slots(&self) -> Slots {
        self.slots.clone()
    }

    /// Changes rate, symbol rate, code rate, MODCOD or signal of the carrier.
    ///
    /// The change holds from the first slot or frame on that has not begun.
    ///
    /// # Errors
    /// Returns the key whose value is not possible; nothing is changed then.
    pub fn set_line(&mut self, now: Time, line: &Line) -> Result<(), InvalidConfig> {
        self.catch_up(now);
        self.known_ready = None;
        let in_frames = matches!(self.timing, Timing::Frames(_));
        line.check(in_frames, self.paths.iter().any(|path| path.modcod.is_some()))?;
        if let Some(key) = self.line.fixed_key(line, in_frames) {
            return Err(InvalidConfig::new(key, "what the line started with"));
        }
        check_tables(line, self.multiplex.tables_mut().map(|tables| &*tables))?;
        self.timing.set(now, line);
        self.slots.set(now, line);
        (self.line, self.rate) = (line.clone(), line.rate());
        if let (Timing::Frames(frames), Some(fields)) = (&self.timing, &mut self.fields) {
            set_capacities(now, frames, &mut self.paths, fields);
        }
        Ok(())
    }

    /// Changes a stream's encapsulation settings, and its MODCOD if it has its own. The change holds from the next
    /// packet and frame on.
    ///
    /// # Errors
    /// Returns the key whose value is not possible; nothing is changed then.
    pub fn set_stream(
        &mut self,
        now: Time,
        number: usize,
        dvb: &Config,
        modcod: Option<Modcod>,
    ) -> Result<(), InvalidConfig> {
        self.catch_up(now);
        self.known_ready = None;
        let path = self.paths.get_mut(number).ok_or(NO_STREAM)?;
        path.encapsulator.set(dvb)?;
        path.is_bridged = dvb.bridged;
        path.modcod = modcod;
        if let (Timing::Frames(frames), Some(fields)) = (&self.timing, &mut self.fields) {
            let modcods: Vec<_> = self.paths.iter().map(|path| path.modcod).collect();
            fields.regroup(groups(frames, &modcods));
            set_capacities(now, frames, &mut self.paths, fields);
        }
        Ok(())
    }

    /// Changes the limits of a stream's queue. Waiting packets stay.
    ///
    /// # Errors
    /// Returns the key whose value is not possible; nothing is changed then.
    pub fn set_queue(
        &mut self,
        now: Time,
        number: usize,
        discipline: &Discipline,
    ) -> Result<(), InvalidConfig> {
        self.catch_up(now);
        self.known_ready = None;
        self.paths.get_mut(number).ok_or(NO_STREAM)?.queue.set(discipline, now)
    }

    /// Fills every slot and frame that has begun by `now`.
    fn catch_up(&mut self, now: Time) {
        while let Some(ready) = self.ready() {
            let at = self.timing.opens(ready);
            if at > now {
                return;
            }
            self.timing.seek(at);
            // Of a queue that held packets back, those released may wait for more to be packed with.
            if !self.send(at) && (!self.may_hold || self.ready() == Some(ready)) {
                return;
            }
        }
    }

    /// Returns the time from which on there is something to send, if there is.
    fn ready(&mut self) -> Option<Time> {
        if let Some(known) = self.known_ready {
            return known;
        }
        let ready = match &self.fields {
            Some(fields) => (0..fields.groups()).filter_map(|group| fields.ready(group, &self.paths)).min(),
            None => {
                let tables = Some(self.multiplex.tables_due()).filter(|due| !due.is_never());
                self.paths.iter().filter_map(Path::ready).chain(tables).min()
            }
        };
        self.known_ready = Some(ready);
        ready
    }

    /// Returns `true` if a slot or frame at `at` was sent, with data.
    fn send(&mut self, at: Time) -> bool {
        self.known_ready = None;
        if self.fields.is_some() {
            return self.send_frame(at);
        }
        match self.multiplex.pop(at, &mut self.paths) {
            Some((Origin::Table, packet)) => self.send_table(at, &packet),
            Some((Origin::Source(number), packet)) => self.send_packet(at, number, packet),
            None => return false,
        }
        true
    }

    /// Sends a TS packet of a stream.
    fn send_packet(&mut self, at: Time, number: usize, packet: [u8; PACKET_LEN]) {
        let slot = self.timing.next();
        let (end, line) = self.timing.take(None);
        let path = &mut self.paths[number];
        self.busy.add(at, line);
        path.busy.add(at, line);
        self.sent += 1;
        let unit = Unit { number: slot, ..path.ts_unit(packet) };
        self.remember(slot, &unit);
        if number < self.common.streams() {
            return self.dispatch(number, end, unit);
        }
        self.dispatch_to_all(number - self.common.streams(), end, unit);
    }

    /// Returns `true` if a BBFRAME of one group of streams was sent, with data.
    fn send_frame(&mut self, at: Time) -> bool {
        let (Timing::Frames(frames), Some(fields)) = (&self.timing, &mut self.fields) else { return false };
        set_capacities(at, frames, &mut self.paths, fields);
        self.paths.iter_mut().for_each(|path| path.release(at));
        let Some(group) = fields.next_group(at, &self.paths) else { return false };
        let lead = fields.members(group)[0];
        let sending = frames.sending(at, self.paths[lead].modcod);
        let mut bytes = vec![0; bbframe::HEADER_LEN];
        let Some(len) = fields.fill(at, group, &mut self.paths, &mut bytes) else { return false };
        frames.header(lead, len).emit(&mut bytes);
        let adaptation = Some(frames.adaptation(sending.modcod, self.sent));
        let (end, line) = self.timing.take(Some(&sending));
        let took = line[1].since(line[0]);
        self.busy.add_share(at, line, share_of(took, len, sending.capacity));
        self.filled_bytes += len as u64;
        self.field_bytes += sending.capacity as u64;
        self.sent += 1;
        let number = self.sent - 1;
        for (source, share) in fields.shares().to_vec() {
            let path = &mut self.paths[source];
            path.busy.add_share(at, line, share_of(took, share, sending.capacity));
            path.account_frame(share, len, sending.capacity);
            let unit = Unit { number, adaptation, ..path.frame_unit(bytes.clone()) };
            if sending.is_received {
                self.dispatch(source, end, unit);
            } else {
                path.fade(&unit);
                unit.into_packet().lose(Why::Fade);
            }
        }
        true
    }

    /// Sends a packet of a table to all receivers.
    fn send_table(&mut self, at: Time, packet: &[u8; PACKET_LEN]) {
        let number = self.timing.next();
        let (end, line) = self.timing.take(None);
        self.busy.add(at, line);
        self.sent += 1;
        let unit = Unit { number, bytes: packet.to_vec(), ..Unit::default() };
        self.remember(number, &unit);
        self.dispatch_to_all(self.listeners.len() - 1, end, unit);
    }

    /// Sends a unit, or its frames, to all receivers of a list.
    fn dispatch_to_all(&mut self, list: usize, end: Time, unit: Unit) {
        let receivers = Arc::clone(&self.listeners[list]);
        if self.framed.is_some() {
            let [others @ .., (_, last)] = &receivers[..] else {
                return unit.into_packet().lose(Why::NoMember);
            };
            others.iter().for_each(|(_, number)| self.dispatch(*number, end, unit.copy()));
            return self.dispatch(*last, end, unit);
        }
        receivers.iter().for_each(|(_, number)| self.paths[*number].in_flight += 1);
        self.pipe.put_for_all(end, receivers, unit);
    }

    /// Records the packet of a slot, if frames are made of slots.
    fn remember(&mut self, slot: u64, unit: &Unit) {
        if let (Some(framed), Some(packet)) = (&mut self.framed, unit.ts()) {
            framed.put(slot, packet);
        }
    }

    /// Sends a unit, or its frames, to the receiver of a stream. Its transmission ends at `end`, without propagation.
    fn dispatch(&mut self, number: usize, end: Time, unit: Unit) {
        let path = &mut self.paths[number];
        let Some(framed) = &self.framed else {
            path.in_flight += 1;
            return self.pipe.put(end + path.delay, number, unit);
        };
        let mut carried_packets = unit.carried_packets;
        let (frames, last) = (framed.frames_of(unit.number), framed.frame_of_end(unit.number));
        for frame in frames {
            let carried_packets =
                if frame == last { std::mem::take(&mut carried_packets) } else { Vec::new() };
            let path = &mut self.paths[number];
            match path.framed.back_mut().filter(|(last, _)| *last == frame) {
                Some((_, ending)) => ending.extend(carried_packets),
                None => {
                    path.framed.push_back((frame, carried_packets));
                    path.in_flight += 1;
                    let arrival = self.timing.frame_end(frame) + path.delay;
                    self.pipe.put(arrival, number, Unit { number: frame, ..Unit::default() });
                }
            }
        }
    }

    /// Returns the frame that a unit in flight stands for, or the unit.
    fn framed(&mut self, number: usize, unit: Unit) -> Unit {
        let Some(framed) = &self.framed else { return unit };
        let carried_packets = self.paths[number].framed.pop_front();
        let carried_packets = carried_packets.map(|(_, carried_packets)| carried_packets).unwrap_or_default();
        let (adaptation, bytes) = framed.frame(unit.number);
        Unit { number: unit.number, bytes, adaptation: Some(adaptation), carried_packets }
    }

    /// Returns the next wake-up time, no later than the earliest possible arrival.
    fn deadline(&mut self) -> Time {
        let arrival = self.pipe.next();
        // With one delay no unit overtakes those in flight, so that slots and frames are filled on demand.
        if let Some(arrival) = arrival.filter(|_| self.nearest == self.farthest) {
            return arrival;
        }
        let sent = self.ready().map_or(Time::NEVER, |ready| self.timing.arrives(ready) + self.nearest);
        arrival.map_or(sent, |arrival| arrival.min(sent))
    }
}

impl Line {
    /// Returns the label of GSE packets of the `number`-th of `streams` streams.
    ///
    /// It is `None` if no other stream is in its frames, so that no label is needed.
    pub fn label(&self, stream: &Config, number: usize, streams: usize) -> Option<gse::Label> {
        let is_shared = matches!(self, Line::DvbS2 { input_streams: InputStreams::Single, .. })
            && stream.encapsulation == Encapsulation::Gse
            && streams > 1;
        let [.., high, middle, low] = (number as u32 + 1).to_be_bytes();
        let own = || gse::Label::Three([high, middle, low]);
        is_shared.then(|| stream.to.map_or_else(own, |address| gse::Label::Six(address.0)))
    }
}

/// Returns receivers in the order in which they get a unit.
fn by_delay(receivers: &[usize], paths: &[PathConfig]) -> Receivers {
    let mut receivers: Vec<_> = receivers.iter().map(|number| (paths[*number].delay, *number)).collect();
    receivers.sort_unstable();
    receivers.into()
}

/// Checks that tables leave half of the line.
fn check_tables(line: &Line, tables: Option<&Tables>) -> Result<(), InvalidConfig> {
    let (Some(tables), Some(interval)) = (tables, line.tables()) else { return Ok(()) };
    let share = tables.packets() as f64 * PACKET_BITS / interval.as_secs_f64() / line.rate().as_bps() as f64;
    InvalidConfig::ensure(
        share <= 0.5,
        "tables",
        "a longer interval: tables would take more than half of the line",
    )
}

/// Returns `part / whole` of a time.
fn share_of(time: Span, part: usize, whole: usize) -> Span {
    let nanos = u128::from(time.as_nanos()) * part as u128 / whole.max(1) as u128;
    Span::from_nanos(nanos as u64)
}

/// Checks that streams can be in one multiplex, and that its receivers can separate them.
fn check_streams(line: &Line, paths: &[PathConfig], in_frames: bool) -> Result<(), Refusal> {
    for (n, path) in paths.iter().enumerate() {
        let (dvb, before) = (&path.dvb, &paths[..n]);
        let refusal = |impossible| Refusal { path: Some(n), part: "dvb", impossible };
        let is_alike = (dvb.encapsulation == Encapsulation::Gse) == in_frames;
        let expected = "the same for all streams of a multiplex, or none of them \"gse\"";
        InvalidConfig::ensure(is_alike, "encapsulation", expected).map_err(refusal)?;
        let is_new = in_frames || before.iter().all(|other| other.dvb.pid != dvb.pid);
        let expected = "another one: a stream of the same multiplex has it";
        let key = if path.is_common() { "multicast" } else { "pid" };
        InvalidConfig::ensure(is_new, key, expected).map_err(refusal)?;
        let is_shared = line.label(dvb, n, paths.len()).is_some();
        let is_new = dvb.to.is_none() || before.iter().all(|other| other.dvb.to != dvb.to);
        let expected =
            "another address: a stream in the same frames has it (or `input_streams = \"multiple\"`)";
        InvalidConfig::ensure(!is_shared || is_new, "to", expected).map_err(refusal)?;
    }
    Ok(())
}

/// Returns the multiplexer of the frames of these streams.
fn fields(frames: &Frames, paths: &mut [Path]) -> Fields {
    let modcods: Vec<_> = paths.iter().map(|path| path.modcod).collect();
    let mut fields = Fields::new(paths.len(), groups(frames, &modcods));
    set_capacities(Time::ZERO, frames, paths, &mut fields);
    fields
}

/// Returns the groups of streams that share frames, with their input streams. A group has one MODCOD; without sharing
/// each stream is a group.
fn groups(frames: &Frames, modcods: &[Option<Modcod>]) -> Vec<(Vec<usize>, usize)> {
    if frames.input_streams == InputStreams::Multiple {
        return (0..modcods.len()).map(|n| (vec![n], n)).collect();
    }
    let mut groups: Vec<(Vec<usize>, usize)> = Vec::new();
    for (n, modcod) in modcods.iter().enumerate() {
        match groups.iter_mut().find(|(members, _)| modcods[members[0]] == *modcod) {
            Some((members, _)) => members.push(n),
            None => groups.push((vec![n], 0)),
        }
    }
    groups
}

/// Sets the lengths of the data fields that begin at `at`.
fn set_capacities(at: Time, frames: &Frames, paths: &mut [Path], fields: &mut Fields) {
    for group in 0..fields.groups() {
        let modcod = paths[fields.members(group)[0]].modcod;
        fields.set_capacity(group, frames.sending(at, modcod).capacity);
        fields.members(group).iter().for_each(|n| paths[*n].backlog = fields.backlog(group));
    }
}

impl Element for Sender {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        self.catch_up(now);
        self.known_ready = None;
        self.timing.seek(now);
        let count = self.common.streams().max(1);
        let (kind, stream) = (usize::from(port.0) / count, usize::from(port.0) % count);
        let number = if kind == 0 { self.common.path_of(stream, &packet) } else { stream };
        if let Some(path) = self.paths.get_mut(number) {
            match kind {
                0 => path.take(packet, cx),
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
        while let Some((number, unit)) = self.pipe.arrived(now) {
            let unit = self.framed(number, unit);
            self.paths[number].deliver(&unit);
            cx.emit(Port(number as u16), unit.into_packet());
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
        let count = self.common.streams().max(1);
        self.common.are_joined(usize::from(from.0) % count, usize::from(to.0))
    }

    fn alike(&self, from: Port) -> Port {
        Port(from.0 % u16::try_from(self.common.streams().max(1)).unwrap_or(u16::MAX))
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.catch_up(now);
        let slots = self.timing.slots(now);
        if self.fields.is_some() {
            observer.gauge(&metrics::FILLING, self.filled_bytes as f64 / self.field_bytes as f64);
        }
        observer.counter(&metrics::UNITS_SENT, self.sent);
        observer.counter(&metrics::NULLS, slots.saturating_sub(self.sent));
        observer.gauge(&metrics::RATE, self.rate.as_bps() as f64);
        observer.gauge(&link_metrics::UTILISATION, self.busy.until(now).as_secs_f64() / now.as_secs_f64());
        for path in &self.paths {
            path.observe(now, observer);
            if let Some(modulation) = self.timing.modulation(now, path.modcod) {
                observer.gauge(&metrics::MODCOD, modulation.modcod.into());
                observer.gauge(&metrics::ES_N0, modulation.es_n0_db);
                observer.gauge(&metrics::LINE_RATE, modulation.rate_bps);
            }
            path.queue.observe_classes(now, observer);
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
