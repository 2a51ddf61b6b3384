//! Multiplexing of streams at a constant rate, with one PAT for all programmes.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use bentpipe_dvb::Tables;
use bentpipe_dvb::multiplex::{Multiplex, TsQueue};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::psi::Pmt;
use bentpipe_wire::ts::{self, PACKET_LEN, Packet, Pcr, Pid};
use serde_json::{Value, json};

use super::files::{Sink, Stream, Summary, Unit, clock};
use super::percent;
use super::survey::{Role, Survey};
use crate::capture::write_counts;
use crate::{Error, Intake, Outcome, Session};

/// Bits of a TS packet.
const PACKET_BITS: u64 = PACKET_LEN as u64 * 8;
/// PIDs under this one are of tables that a multiplex has once.
const FIRST_FREE_PID: u16 = 0x20;
/// Maximum length of a multiplex in bytes: days of any rate.
const MOST_BYTES: u64 = 1 << 40;
/// Number of packets of an input without times that are offered at once.
const OFFERED: usize = 2;

/// Multiplexing of streams at a constant rate, with one PAT for all programmes.
#[derive(Clone, Debug, PartialEq)]
pub struct Mux {
    /// Streams, bare or in captures.
    pub inputs: Vec<PathBuf>,
    /// Output file: bare TS packets for ".ts" and "-", otherwise a capture.
    pub output: PathBuf,
    /// Rate of the multiplex, NULL packets included.
    pub rate: Rate,
    /// Maximum number of packets of an input that wait; more are dropped.
    pub queue_packets: usize,
    /// Interval of the tables in milliseconds.
    pub tables_ms: u64,
    /// Choice of the one stream of each input.
    pub intake: Intake,
}

/// Input stream. Either all packets have a time from the input's start, or none.
struct Input {
    packets: VecDeque<(Option<u64>, [u8; PACKET_LEN])>,
}

/// Slots of the multiplex, and those that stayed empty.
#[derive(Default)]
struct Slots {
    count: u64,
    nulls: u64,
}

impl Mux {
    /// Runs the job.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or the rate does not suffice for the tables.
    pub fn run(&self, session: &dyn Session) -> Result<Outcome, Error> {
        let rate = self.rate.as_bps();
        if rate == 0 {
            return Err(Error::Usage("--rate 0: a multiplex has a rate".into()));
        }
        if self.inputs.len() > 1 && self.intake.left_out.is_some() {
            return Err(Error::Usage("--left-out: expected one input".into()));
        }
        let inputs: Vec<&Path> = self.inputs.iter().map(PathBuf::as_path).collect();
        let Intake { left_out, counts, .. } = &self.intake;
        let outputs = [Some(&*self.output), left_out.as_deref(), counts.as_deref()];
        crate::capture::check_files(&inputs, outputs.into_iter().flatten())?;
        let read = self.inputs.iter().map(|path| Read::new(path, &self.intake, session));
        let mut read: Vec<Read> = read.collect::<Result<_, _>>()?;
        keep_first_tables(&mut read);
        check_length(&read, self.rate)?;
        let tables = tables(&read, Span::from_millis(self.tables_ms), rate)?;
        let has_damage = read.iter().any(|read| read.has_damage);
        let accounts: Vec<Value> = read.iter().map(|read| read.account.clone()).collect();
        let mut queues = vec![TsQueue::new(self.queue_packets).restamping(); read.len()];
        let mut inputs: Vec<Input> = read.into_iter().map(|read| Input { packets: read.packets }).collect();
        let mut sink = Sink::create(&self.output, &self.inputs[0])?;
        let mut multiplex = Multiplex::new(Some(tables));
        let slots = send(&mut multiplex, &mut queues, &mut inputs, rate, &mut sink, session)?;
        sink.finish()?;
        write_counts(&self.intake, self.counts(&slots, &queues), Value::Array(accounts))?;
        Ok(self.report(&slots, &queues, has_damage, session))
    }

    fn counts(&self, slots: &Slots, queues: &[TsQueue]) -> Value {
        let input = |(queue, path): (&TsQueue, &PathBuf)| {
            let path = path.display().to_string();
            json!({ "input": path, "sent": queue.sent(), "dropped": queue.dropped() })
        };
        let inputs: Vec<Value> = queues.iter().zip(&self.inputs).map(input).collect();
        json!({ "packets": slots.count, "null_packets": slots.nulls, "inputs": inputs })
    }

    fn report(&self, slots: &Slots, queues: &[TsQueue], has_damage: bool, session: &dyn Session) -> Outcome {
        let mut dropped = 0;
        for (queue, path) in queues.iter().zip(&self.inputs) {
            dropped += queue.dropped();
            let (path, sent) = (path.display(), queue.sent());
            session.note(&format!("{path}: {sent} packets sent, {} dropped", queue.dropped()));
        }
        let Slots { count, nulls } = slots;
        session.note(&format!("{count} packets in all, {} of them NULL", percent(*nulls, *count)));
        Outcome::new(String::new(), session, dropped > 0 || has_damage)
    }
}

/// Refuses a multiplex of excessive length: times in captures may be anything.
fn check_length(inputs: &[Read], rate: Rate) -> Result<(), Error> {
    for Read { path, packets, .. } in inputs {
        let last = packets.iter().filter_map(|(time, _)| *time).max().map_or(Span::ZERO, Span::from_nanos);
        if rate.bdp(last).get() > MOST_BYTES {
            let shown = path.display();
            let text = format!(
                "{shown}: lasts {last}: at {rate} the multiplex would be longer than {MOST_BYTES} bytes"
            );
            return Err(Error::Usage(text));
        }
    }
    Ok(())
}

/// Sends until no packet is left, and returns the slots taken.
fn send(
    multiplex: &mut Multiplex,
    queues: &mut [TsQueue],
    inputs: &mut [Input],
    rate: u64,
    sink: &mut Sink,
    session: &dyn Session,
) -> Result<Slots, Error> {
    let mut slots = Slots::default();
    let is_left = |(input, queue): (&Input, &TsQueue)| !input.packets.is_empty() || queue.waiting() > 0;
    while inputs.iter().zip(&*queues).any(is_left) && !session.is_interrupted() {
        let bits = u128::from(slots.count * PACKET_BITS);
        let now = (bits * 1_000_000_000 / u128::from(rate)) as u64;
        inputs.iter_mut().zip(&mut *queues).for_each(|(input, queue)| input.offer(queue, now));
        let packet = multiplex.pop(Time::from_nanos(now), queues);
        slots.count += 1;
        slots.nulls += u64::from(packet.is_none());
        sink.write(now, &packet.map_or(ts::NULL_PACKET, |(_, packet)| packet))?;
    }
    Ok(slots)
}

impl Input {
    /// Offers the packets that have come by `now`, each with its own time of arrival.
    fn offer(&mut self, queue: &mut TsQueue, now: u64) {
        while let Some((time, packet)) = self.packets.front() {
            match *time {
                Some(time) if time <= now => queue.push(Time::from_nanos(time), packet),
                None if queue.waiting() < OFFERED => queue.push(Time::from_nanos(now), packet),
                _ => break,
            };
            self.packets.pop_front();
        }
    }
}

/// File that was read.
struct Read {
    path: PathBuf,
    packets: VecDeque<(Option<u64>, [u8; PACKET_LEN])>,
    maps: Vec<(Pid, Pmt)>,
    pids: BTreeSet<Pid>,
    has_damage: bool,
    /// Account as JSON.
    account: Value,
}

impl Read {
    fn new(path: &Path, intake: &Intake, session: &dyn Session) -> Result<Read, Error> {
        let (mut survey, mut packets) = (Survey::new(), VecDeque::new());
        let stream = Stream::open(path, intake, session)?;
        let summary = stream.for_each(session, &mut |place, time, unit| {
            // Several streams are refused below.
            if place == 0 {
                survey.add(unit);
                if let Unit::Ts(packet) = unit {
                    packets.push_back((time, *packet));
                }
            }
            Ok(())
        })?;
        summary.one(path)?;
        if packets.is_empty() {
            return Err(Error::Usage(format!("{}: no TS packets", path.display())));
        }
        if packets[0].0.is_none() {
            time_by_clock(&mut packets);
        }
        from_start(&mut packets);
        let roles = survey.roles();
        let is_carried =
            |pid: &Pid| !matches!(roles.get(pid), None | Some(Role::Pat | Role::Pmt | Role::Null));
        packets
            .retain(|(_, packet)| Packet::new_checked(packet).is_ok_and(|packet| is_carried(&packet.pid())));
        let pids = survey.streams.keys().copied().filter(|pid| is_carried(pid)).collect();
        let maps = survey.maps().map(|(pid, pmt)| (pid, pmt.clone())).collect();
        let Summary { has_damage, account, .. } = summary;
        Ok(Read { path: path.into(), packets, maps, pids, has_damage, account })
    }
}

/// Subtracts an input's first time from all.
fn from_start(packets: &mut VecDeque<(Option<u64>, [u8; PACKET_LEN])>) {
    let start = packets.front().and_then(|(time, _)| *time).unwrap_or(0);
    packets.iter_mut().for_each(|(time, _)| *time = time.map(|time| time.saturating_sub(start)));
}

/// Sets times by the first PID's clock references, interpolated evenly. Before the first, after the last and at a
/// clock jump the adjacent rate is used. Without two references within a second there are no times.
fn time_by_clock(packets: &mut VecDeque<(Option<u64>, [u8; PACKET_LEN])>) {
    let mut clocked = None;
    let mut references: Vec<(usize, Pcr)> = Vec::new();
    for (index, (_, packet)) in packets.iter().enumerate() {
        if let (Some(clock), Ok(packet)) = (clock(packet), Packet::new_checked(packet))
            && *clocked.get_or_insert(packet.pid()) == packet.pid()
        {
            references.push((index, clock));
        }
    }
    let pieces: Vec<(usize, f64)> =
        references.windows(2).filter_map(|pair| piece(pair[0], pair[1])).collect();
    let Some(&(_, mut step)) = pieces.first() else { return };
    let (mut pieces, mut ticks) = (pieces.into_iter().peekable(), 0.0);
    for (index, (time, _)) in packets.iter_mut().enumerate() {
        if index > 0 {
            while pieces.next_if(|(end, _)| *end < index).is_some() {}
            step = pieces.peek().map_or(step, |(_, step)| *step);
            ticks += step;
        }
        *time = Some((ticks * 1000.0 / 27.0) as u64);
    }
}

/// Returns the end of the packets between two references, and the ticks per packet. `None` if the clock jumped.
fn piece((from, first): (usize, Pcr), (to, second): (usize, Pcr)) -> Option<(usize, f64)> {
    let ticks = second.since(first);
    (1..=Pcr::TICKS_PER_S).contains(&ticks).then(|| (to, ticks as f64 / (to - from) as f64))
}

/// Drops tables that an earlier input has on the same PID.
fn keep_first_tables(inputs: &mut [Read]) {
    let mut seen: BTreeSet<Pid> = BTreeSet::new();
    for input in inputs {
        let is_repeated = |pid: Pid| pid.number() < FIRST_FREE_PID && seen.contains(&pid);
        input
            .packets
            .retain(|(_, packet)| Packet::new_checked(packet).is_ok_and(|packet| !is_repeated(packet.pid())));
        seen.extend(&input.pids);
    }
}

/// Returns one PAT for all programmes, and their PMTs. A programme whose number or PMT PID is taken gets another.
fn tables(inputs: &[Read], interval: Span, rate: u64) -> Result<Tables, Error> {
    let mut taken: BTreeSet<Pid> = BTreeSet::new();
    for input in inputs {
        let own = |pid: &&Pid| pid.number() >= FIRST_FREE_PID;
        if let Some(pid) = input.pids.iter().filter(own).find(|&&pid| !taken.insert(pid)) {
            let text = format!("{}: PID {pid} is in another input too", input.path.display());
            return Err(Error::Usage(text));
        }
    }
    let mut maps: Vec<(Pid, Pmt)> = Vec::new();
    for &(pid, ref pmt) in inputs.iter().flat_map(|input| &input.maps) {
        let is_free = |number: &u16| maps.iter().all(|(_, other)| other.number != *number);
        let number = std::iter::once(pmt.number).chain(1..=u16::MAX).find(is_free).unwrap_or(pmt.number);
        let others = (FIRST_FREE_PID..0x1fff).filter_map(Pid::new);
        let map = std::iter::once(pid).chain(others).find(|pid| !taken.contains(pid)).unwrap_or(pid);
        taken.insert(map);
        maps.push((map, Pmt { number, ..pmt.clone() }));
    }
    let tables = Tables::new(interval, 1, maps);
    let (packets, slots) =
        (tables.packets() as u64, Rate::from_bps(rate).bdp(interval).get() * 8 / PACKET_BITS);
    if slots <= packets {
        let text = format!("the tables take {packets} packets each time, and the rate has {slots} between");
        return Err(Error::Usage(format!("{text}: expected a higher --rate, or more --tables milliseconds")));
    }
    Ok(tables)
}
