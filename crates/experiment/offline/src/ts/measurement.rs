//! Measurements of a transport stream by ETSI TR 101 290.
//!
//! They are the indicators of first and second priority, and clock references.
//!
//! Time is that of the capture, or without one that of the PID with the most clock references: its rate is constant between two.
//! The accuracy of a reference is its distance from a line through those of its PID over the packets, which has a meaning in streams of
//! constant rate alone; the overall jitter is that from the times of a capture. A line ends where the clock steps, which is one error, and
//! where packets were lost. Packets that are missing have their places. Where the clock of a capture steps and that of the stream does
//! not, intervals over the step are not judged ([`steps`]).
//!
//! *Does not measure*: the loss of synchronisation in bits, CRCs of tables other than PAT, CAT and PMT, buffers (third priority).

mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bentpipe_intake::SyncFaults;
use bentpipe_report::{Cell, Table, number};
use bentpipe_units::Span;
use bentpipe_wire::psi::{Pat, Pmt};
use bentpipe_wire::ts::{Continuity, PACKET_LEN, Packet, Pcr, Pid};
use bentpipe_wire::{pes, section};
use serde_json::{Value, json};

use self::steps::Steps;
use super::stamps::{self, Stamps};

/// Maximum interval of PAT and PMT in seconds (items 1.3.a and 1.5.a).
const TABLES_S: f64 = 0.5;
/// Maximum interval of a PID that a PMT names, in seconds. The document leaves it to the user.
const PID_S: f64 = 5.0;
/// Maximum interval of clock references, in seconds (item 2.3a).
const REFERENCES_S: f64 = 0.1;
/// Maximum interval of presentation time stamps, in seconds (item 2.5).
const STAMPS_S: f64 = 0.7;
/// Maximum error of a clock reference, in seconds (item 2.4).
const ACCURACY_S: f64 = 500e-9;
/// Change of the rate between references, of its mean, from which it is not constant.
const RATE_CHANGE: f64 = 0.01;
/// Conditional access table.
const CAT: u16 = 1;
/// Maximum number of clock references of an input that are kept.
pub(super) const MAX_REFERENCES: usize = 1 << 22;

/// Clock reference at a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reference {
    packet: u64,
    time_s: Option<f64>,
    pcr: Pcr,
    /// Set if the packet announces a jump of the clock.
    is_announced: bool,
    /// Set if the clock has jumped since the reference before.
    is_jump: bool,
    /// Set if the clock of the capture has stepped since the reference before.
    is_behind_step: bool,
}

/// Intervals between events, and those that are too long.
#[derive(Clone, Copy, Debug, Default)]
struct Intervals {
    last_s: Option<f64>,
    longest_s: f64,
    errors: u64,
}

impl Intervals {
    fn note(&mut self, at_s: f64, limit_s: f64) {
        if let Some(last_s) = self.last_s {
            let gap_s = at_s - last_s;
            self.longest_s = self.longest_s.max(gap_s);
            self.errors += u64::from(gap_s > limit_s);
        }
        self.last_s = Some(at_s);
    }

    /// Begins again behind a step of the clock.
    fn restart(&mut self, at_s: f64) {
        self.last_s = self.last_s.map(|_| at_s);
    }

    /// Counts the time to the end of the stream, and a stream without any event.
    fn end(&mut self, end_s: f64, limit_s: f64) {
        let gap_s = end_s - self.last_s.unwrap_or(0.0);
        if gap_s > limit_s {
            self.errors += 1;
            self.longest_s = self.longest_s.max(gap_s);
        }
    }
}

/// Indicator with its errors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Indicator {
    /// Number in the document.
    pub(super) item: &'static str,
    /// Name in the document.
    pub(super) name: &'static str,
    /// Number of errors; `None` if it cannot be measured.
    pub(super) errors: Option<u64>,
    /// Worst value and limit, as text.
    pub(super) remark: String,
}

/// Clock references of a PID.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clock {
    /// PID.
    pub(super) pid: u16,
    /// Number of references.
    pub(super) references: usize,
    /// Mean and maximum interval in seconds.
    pub(super) interval_s: [f64; 2],
    /// Largest distance from a constant rate, in seconds.
    pub(super) accuracy_s: Option<f64>,
    /// Number of references further from a constant rate than the limit.
    inaccurate: usize,
    /// Range of the rates between references, of their mean.
    change: f64,
    /// Standard deviation and range of arrival less reference, in seconds, without drift; in captures.
    pub(super) jitter_s: Option<[f64; 2]>,
}

/// Measurement of a stream in one pass, after a first one for the clock.
#[derive(Debug, Default)]
pub(super) struct Measurement {
    packets: u64,
    references: BTreeMap<Pid, Vec<Reference>>,
    /// Line of packets and seconds between references of the chosen clock.
    line: Vec<(u64, f64)>,
    continuity: BTreeMap<Pid, Continuity>,
    /// Counters of the last packets with a payload.
    counters: BTreeMap<Pid, u8>,
    tables: BTreeMap<Pid, section::Receiver>,
    maps: BTreeSet<Pid>,
    named: BTreeSet<Pid>,
    pat: Intervals,
    pmts: BTreeMap<Pid, Intervals>,
    pids: BTreeMap<Pid, Intervals>,
    /// Intervals between arrivals of time stamps, and the stamps.
    stamps: BTreeMap<Pid, (Intervals, Stamps)>,
    /// PIDs whose errors are counted. Empty: all.
    chosen: Vec<Pid>,
    /// Packets in front of which others were lost, at most one of each interval.
    losses: Vec<u64>,
    /// Set once a reference came behind the last loss.
    is_behind_loss: bool,
    /// PIDs of the clocks of elementary streams.
    clock_of: BTreeMap<Pid, Pid>,
    /// Time of the first packet by the line.
    start_s: f64,
    continuity_errors: u64,
    transport_errors: u64,
    sync_errors: u64,
    pat_errors: u64,
    pmt_errors: u64,
    crc_errors: u64,
    scrambled: u64,
    cats: u64,
    last_s: f64,
    /// Times of the capture.
    steps: Steps,
}

impl Measurement {
    /// Notes a packet's clock reference in the first pass.
    ///
    /// It returns `true` if it keeps one, for which there has to be room. `time_ns` is the time of its capture.
    pub(super) fn survey(&mut self, time_ns: Option<u64>, bytes: &[u8; PACKET_LEN], has_room: bool) -> bool {
        let number = self.packets;
        self.packets += 1;
        if let Some(time_ns) = time_ns {
            self.steps.note(number, time_ns);
        }
        let reference = Packet::new_checked(bytes).ok().and_then(|packet| {
            let pcr = packet.adaptation().ok()??.pcr?;
            Some((packet.pid(), pcr, packet.is_discontinuous()))
        });
        let Some((pid, pcr, is_announced)) = reference.filter(|_| has_room) else { return false };
        let time_s = time_ns.map(|time_ns| self.steps.raw_s(time_ns));
        let (is_jump, is_behind_step) = (is_announced, false);
        let reference = Reference { packet: number, time_s, pcr, is_announced, is_jump, is_behind_step };
        self.references.entry(pid).or_default().push(reference);
        true
    }

    /// Counts the errors of these PIDs alone. Tables are those of the stream.
    pub(super) fn choose(&mut self, pids: &[Pid]) {
        self.chosen = pids.to_vec();
    }

    fn is_chosen(&self, pid: Pid) -> bool {
        self.chosen.is_empty() || self.chosen.contains(&pid)
    }

    /// Leaves room for packets that are missing in front of the next one.
    ///
    /// Both passes need it.
    pub(super) fn miss(&mut self, packets: u64) {
        self.packets = self.packets.saturating_add(packets);
        // Of more than one the number is uncertain: datagrams differ, and bytes may be no packets.
        if packets > 1 {
            self.lose_in_front_of(self.packets);
        }
    }

    /// Notes that packets were lost in front of one. The second pass has their places.
    fn lose_in_front_of(&mut self, packet: u64) {
        if std::mem::take(&mut self.is_behind_loss) {
            self.losses.push(packet);
        }
    }

    /// Ends the first pass: chooses the clock that packets are timed by. `clock_of` has the clocks of elementary streams.
    pub(super) fn choose_clock(&mut self, clock_of: BTreeMap<Pid, Pid>) {
        (self.packets, self.clock_of) = (0, clock_of);
        let clock = self.references.values().max_by_key(|all| all.len());
        self.steps.find(clock.map(Vec::as_slice).unwrap_or_default());
        self.references.values_mut().for_each(|all| self.steps.correct(all));
        self.references.values_mut().for_each(|all| mark_jumps(all));
        let Some(clock) = self.references.values().max_by_key(|all| all.len()) else { return };
        let piece_s = |pair: &[Reference]| {
            steps_s(&pair[0], &pair[1]).map(|gap_s| gap_s / (pair[1].packet - pair[0].packet) as f64)
        };
        // Across a jump the adjacent rate is used.
        let mut step_s = clock.windows(2).find_map(piece_s).unwrap_or(0.0);
        let mut at_s = 0.0;
        for pair in clock.windows(2) {
            if self.line.is_empty() {
                self.line.push((pair[0].packet, 0.0));
            }
            step_s = piece_s(pair).unwrap_or(step_s);
            at_s += step_s * (pair[1].packet - pair[0].packet) as f64;
            self.line.push((pair[1].packet, at_s));
        }
        self.start_s = self.time_s(0);
    }

    /// Returns the time of a packet since the first one, by the clock.
    ///
    /// References are whole ticks, the last one before their time: a packet on a boundary is not before it.
    pub(super) fn since_start(&self, packet: u64) -> Option<Span> {
        const TICK_S: f64 = 1.0 / Pcr::TICKS_PER_S as f64;
        let since_s = || (self.time_s(packet) - self.start_s).max(0.0) + TICK_S;
        (self.line.len() > 1).then(|| Span::from_secs_f64(since_s()))
    }

    /// Returns a time since the first one, without the steps in front.
    ///
    /// Returns `None` if the capture has no times.
    pub(super) fn since_first(&self, time_ns: u64) -> Option<Span> {
        self.steps.has_times().then(|| self.steps.since_first(time_ns))
    }

    /// Returns a line for each step of the capture's clock.
    pub(super) fn steps(&self) -> Vec<String> {
        self.steps.lines()
    }

    /// Returns the clock of an elementary stream at a packet, in ticks.
    ///
    /// It comes with `true` if the clock has just jumped as announced.
    fn clock_at(&self, pid: Pid, packet: u64) -> Option<(f64, bool)> {
        let all = self.references.get(self.clock_of.get(&pid)?)?;
        let place = all.partition_point(|at| at.packet <= packet).clamp(1, all.len().max(2) - 1);
        // Across a jump, and behind the last reference, the rate is that before.
        let usable = |place: usize| {
            let [from, to] = [all.get(place - 1)?, all.get(place)?];
            let ticks = steps_s(from, to)? * Pcr::TICKS_PER_S as f64;
            Some(ticks / (to.packet - from.packet) as f64)
        };
        let step = usable(place).or_else(|| usable(place.checked_sub(1).filter(|place| *place > 0)?))?;
        let from = all[place - 1];
        let ticks = from.pcr.ticks() as f64 + (packet as f64 - from.packet as f64) * step;
        Some((ticks, from.is_announced))
    }

    /// Returns the time of a packet by the line of the clock.
    ///
    /// The line is extended at both ends.
    fn time_s(&self, packet: u64) -> f64 {
        let place = self.line.partition_point(|(number, _)| *number <= packet);
        let place = place.clamp(1, self.line.len().saturating_sub(1).max(1));
        let (Some(&(a, from_s)), Some(&(b, to_s))) = (self.line.get(place - 1), self.line.get(place)) else {
            return 0.0;
        };
        from_s + (packet as f64 - a as f64) * (to_s - from_s) / (b as f64 - a as f64).max(1.0)
    }

    /// Adds a packet in the second pass. Of a PID that is not described it counts the packets alone.
    pub(super) fn add(&mut self, time_ns: Option<u64>, bytes: &[u8; PACKET_LEN], is_described: bool) {
        let number = self.packets;
        let is_behind_step = self.steps.pass(number);
        let since_first = time_ns.and_then(|time_ns| self.since_first(time_ns));
        let at_s = since_first.map_or_else(|| self.time_s(number), |since| since.as_secs_f64());
        if is_behind_step {
            self.restart(at_s);
        }
        self.packets += 1;
        self.last_s = self.last_s.max(at_s);
        let Ok(packet) = Packet::new_checked(bytes) else {
            self.sync_errors += 1;
            return;
        };
        let pid = packet.pid();
        let is_chosen = self.is_chosen(pid);
        self.transport_errors += u64::from(packet.has_error() && is_chosen);
        if packet.has_error() {
            // No other error is derived of such a packet (TR 101 290, 5.2.2).
            if let Some(continuity) = self.continuity.get_mut(&pid) {
                continuity.forget();
            }
            self.counters.remove(&pid);
            return;
        }
        if pid == Pid::NULL || !is_described {
            return;
        }
        self.pids.entry(pid).or_default().note(at_s, PID_S);
        let step = self.continuity.entry(pid).or_default().follow(&packet);
        let advances = self.advances_without_payload(&packet);
        self.continuity_errors += u64::from((step.is_error() || advances) && is_chosen);
        if step.is_error() {
            self.lose_in_front_of(number);
        }
        self.is_behind_loss |= packet.adaptation().ok().flatten().is_some_and(|field| field.pcr.is_some());
        let is_scrambled = packet.scrambling() != 0;
        self.scrambled += u64::from(is_scrambled && is_chosen);
        self.pat_errors += u64::from(pid == Pid::PAT && is_scrambled);
        self.pmt_errors += u64::from(self.maps.contains(&pid) && is_scrambled);
        if pid == Pid::PAT || pid.number() == CAT || self.maps.contains(&pid) {
            self.table(pid, at_s, bytes);
        } else if packet.unit_start()
            && is_chosen
            && !step.is_repeat()
            && let Ok(header) = packet.payload().and_then(pes::Repr::parse)
        {
            let clock = self.clock_at(pid, number);
            let (intervals, stamps) = self.stamps.entry(pid).or_default();
            if header.pts.is_some() {
                intervals.note(at_s, STAMPS_S);
            }
            stamps.add(
                &header,
                clock.map(|(ticks, _)| ticks),
                clock.is_some_and(|(_, is_announced)| is_announced),
            );
        }
    }

    /// Begins all intervals again behind a step of the capture's clock.
    fn restart(&mut self, at_s: f64) {
        let timed = self.pmts.values_mut().chain(self.pids.values_mut());
        let stamps = self.stamps.values_mut().map(|(intervals, _)| intervals);
        timed.chain(stamps).chain([&mut self.pat]).for_each(|intervals| intervals.restart(at_s));
    }

    /// Returns `true` if a packet without payload has another counter than the one before.
    fn advances_without_payload(&mut self, packet: &Packet<&[u8; PACKET_LEN]>) -> bool {
        let (pid, counter) = (packet.pid(), packet.continuity());
        if packet.has_payload() {
            self.counters.insert(pid, counter);
            return false;
        }
        let last = self.counters.insert(pid, counter);
        !packet.is_discontinuous() && last.is_some_and(|last| last != counter)
    }

    fn table(&mut self, pid: Pid, at_s: f64, bytes: &[u8; PACKET_LEN]) {
        let mut receiver = self.tables.remove(&pid).unwrap_or_else(|| section::Receiver::new(pid));
        receiver.push(bytes, |section| self.section(pid, at_s, section));
        self.tables.insert(pid, receiver);
    }

    fn section(&mut self, pid: Pid, at_s: f64, section: &[u8]) {
        match (pid, section.first()) {
            (Pid::PAT, Some(0)) => match Pat::parse_part(section) {
                Ok((pat, _)) => {
                    self.pat.note(at_s, TABLES_S);
                    self.maps.extend(pat.programmes.iter().map(|programme| programme.map));
                }
                Err(_) => self.crc_errors += 1,
            },
            (Pid::PAT, _) => self.pat_errors += 1,
            (_, Some(1)) if pid.number() == CAT => self.cats += 1,
            (_, Some(2)) => match Pmt::parse(section) {
                Ok(pmt) => {
                    self.pmts.entry(pid).or_default().note(at_s, TABLES_S);
                    self.named.extend(pmt.streams.iter().map(|stream| stream.pid));
                    self.named.insert(pmt.clock);
                }
                Err(_) => self.crc_errors += 1,
            },
            _ => {}
        }
    }

    /// Returns the indicators after both passes. `skipped` is the number of bytes outside packets.
    pub(super) fn indicators(&mut self, skipped: u64, faults: SyncFaults) -> Vec<Indicator> {
        let end_s = self.last_s;
        let is_timed = self.steps.has_times() || self.line.len() > 1;
        let timed = |errors: u64| is_timed.then_some(errors);
        let worst =
            |longest_s: f64, limit_s: f64| format!("longest {} s, limit {limit_s} s", number(longest_s));
        self.pat.end(end_s, TABLES_S);
        let mut maps = Intervals::default();
        for pid in self.maps.clone() {
            let of = self.pmts.entry(pid).or_default();
            of.end(end_s, TABLES_S);
            (maps.errors, maps.longest_s) = (maps.errors + of.errors, maps.longest_s.max(of.longest_s));
        }
        let null = Pid::NULL;
        let named = || self.named.iter().filter(|pid| self.is_chosen(**pid));
        let missing = named().filter(|pid| **pid != null && !self.pids.contains_key(pid)).count() as u64;
        let rare = |pid: &Pid| self.pids.get(pid).map(|of| of.errors);
        let rare: u64 = named().filter_map(rare).sum();
        let (repetition, jumps, longest_s) = self.reference_errors();
        let clocks = self.clocks();
        let accuracy_s = clocks.iter().filter_map(|clock| clock.accuracy_s).reduce(f64::max);
        let inaccurate: usize = clocks.iter().map(|clock| clock.inaccurate).sum();
        let change = clocks.iter().map(|clock| clock.change).fold(0.0, f64::max);
        let stamps = self.stamps.values().fold((0, 0.0_f64), |(errors, longest_s), (of, _)| {
            (errors + of.errors, longest_s.max(of.longest_s))
        });
        let of = |item, name, errors, remark: String| Indicator { item, name, errors, remark };
        let plain = String::new;
        let steps = self.steps.lines().into_iter().map(|line| of("", "times of the capture", None, line));
        let mut all = vec![
            of("1.1", "TS_sync_loss", Some(faults.losses), format!("{skipped} bytes outside packets")),
            of("1.2", "Sync_byte_error", Some(self.sync_errors + faults.sync_bytes), plain()),
            of(
                "1.3.a",
                "PAT_error_2",
                timed(self.pat.errors + self.pat_errors),
                worst(self.pat.longest_s, TABLES_S),
            ),
            of("1.4", "Continuity_count_error", Some(self.continuity_errors), plain()),
            of("1.5.a", "PMT_error_2", timed(maps.errors + self.pmt_errors), worst(maps.longest_s, TABLES_S)),
            of("1.6", "PID_error", timed(missing + rare), format!("{missing} never came, limit {PID_S} s")),
            of("2.1", "Transport_error", Some(self.transport_errors), plain()),
            of("2.2", "CRC_error", Some(self.crc_errors), "PAT and PMT".to_owned()),
            of("2.3a", "PCR_repetition_error", timed(repetition), worst(longest_s, REFERENCES_S)),
            of("2.3b", "PCR_discontinuity_indicator_error", timed(jumps), plain()),
            of(
                "2.4",
                "PCR_accuracy_error",
                accuracy_s.map(|_| inaccurate as u64),
                accuracy(accuracy_s, change),
            ),
            of("2.5", "PTS_error", timed(stamps.0), worst(stamps.1, STAMPS_S)),
            of("2.6", "CAT_error", Some(u64::from(self.scrambled > 0 && self.cats == 0)), plain()),
            of("", "duration", None, format!("{} s", number(end_s))),
        ];
        all.extend(steps);
        all
    }

    /// Returns intervals that are too long, differences that are not announced, and the longest interval.
    ///
    /// Two values in a row are 0 to 100 ms apart (2.3b), and so are their times (2.3a): those of the capture, or of a file those that the rate
    /// before gives.
    fn reference_errors(&self) -> (u64, u64, f64) {
        let (mut repetition, mut jumps, mut longest_s) = (0, 0, 0.0_f64);
        for (_, all) in self.references.iter().filter(|(pid, _)| self.is_chosen(**pid)) {
            let mut step_s = None;
            for pair in all.windows(2).filter(|pair| !pair[1].is_announced) {
                let gap_s = forwards_s(pair[0].pcr, pair[1].pcr);
                let between_s = between_s(pair, step_s).or(gap_s).unwrap_or_default();
                jumps += u64::from(gap_s.is_none_or(|gap_s| gap_s > REFERENCES_S));
                let is_late_by_rate = arrived_s(pair).is_none() && !pair[1].is_jump;
                let gap_s = gap_s.filter(|_| is_late_by_rate).unwrap_or(between_s);
                longest_s = longest_s.max(gap_s);
                repetition += u64::from(gap_s > REFERENCES_S);
                step_s = if pair[1].is_jump { step_s } else { Some(gap_s / packets_of(pair)) };
            }
        }
        (repetition, jumps, longest_s)
    }

    /// Returns the time stamps by PID, with the longest interval between their arrivals in seconds.
    pub(super) fn stamps(&self) -> impl Iterator<Item = (Pid, &Stamps, f64)> {
        let all = self.stamps.iter().filter(|(_, (_, stamps))| stamps.stamped > 0);
        all.map(|(pid, (intervals, stamps))| (*pid, stamps, intervals.longest_s))
    }

    /// Returns the clocks of all PIDs with two references or more.
    pub(super) fn clocks(&self) -> Vec<Clock> {
        let clocks = self.references.iter().filter(|(pid, all)| all.len() > 1 && self.is_chosen(**pid));
        clocks.map(|(pid, all)| clock(*pid, all, &self.losses)).collect()
    }
}

/// Marks the references in front of which the clock has jumped.
///
/// Such a one is behind the one before or more than a second ahead of it, or by its value further away than by its arrival.
fn mark_jumps(all: &mut [Reference]) {
    let mut step_s = None;
    for at in 1..all.len() {
        let pair = &all[at - 1..=at];
        let gap_s = forwards_s(pair[0].pcr, pair[1].pcr);
        let between_s = between_s(pair, step_s).or(gap_s).unwrap_or_default();
        let is_jump = pair[1].is_announced
            || gap_s.is_none_or(|gap_s| gap_s > REFERENCES_S && gap_s - between_s > REFERENCES_S / 2.0);
        if let (false, Some(gap_s)) = (is_jump, gap_s) {
            step_s = Some(gap_s / packets_of(pair));
        }
        all[at].is_jump = is_jump;
    }
}

/// Returns the number of packets between two references.
fn packets_of(pair: &[Reference]) -> f64 {
    (pair[1].packet - pair[0].packet) as f64
}

/// Returns the seconds between the arrivals of two references in a capture.
///
/// Returns `None` over a step of its clock.
fn arrived_s(pair: &[Reference]) -> Option<f64> {
    Some(pair[1].time_s? - pair[0].time_s?).filter(|_| !pair[1].is_behind_step)
}

/// Returns the seconds between two references by arrival.
///
/// Without times it is by the seconds of a packet.
fn between_s(pair: &[Reference], step_s: Option<f64>) -> Option<f64> {
    arrived_s(pair).or_else(|| Some(step_s? * packets_of(pair)))
}

/// Returns the seconds from one reference to the next.
///
/// Returns `None` for a jump back or of more than a second.
fn forwards_s(from: Pcr, to: Pcr) -> Option<f64> {
    let ticks = to.since(from);
    (ticks <= Pcr::TICKS_PER_S).then_some(ticks as f64 / Pcr::TICKS_PER_S as f64)
}

/// Returns the seconds between two references without a jump.
fn steps_s(from: &Reference, to: &Reference) -> Option<f64> {
    forwards_s(from.pcr, to.pcr).filter(|_| !to.is_jump)
}

/// Lines of a clock between its steps.
#[derive(Debug, Default)]
struct Lines {
    /// References of each line.
    ranges: Vec<Range<usize>>,
    /// Seconds of a packet between references, without jumps and losses.
    slopes: Vec<f64>,
    /// Steps that neither a jump nor a loss explains, in seconds.
    steps_s: Vec<f64>,
}

/// Most references in a row that may be off a line that goes on.
const MAX_OFF: usize = 4;
/// Intervals to either side that give the rate at an interval.
const NEAR: usize = 8;

/// Divides references into the lines between steps of the clock.
///
/// At a step the references go on along another line. A few off the line do not, if those behind them are on it again.
/// `losses` are the packets in front of which others were lost.
fn lines(all: &[Reference], losses: &[u64]) -> Lines {
    let lost_before = |at: &Reference| losses.partition_point(|lost| *lost <= at.packet);
    // Across a jump or a loss there is none.
    let slope = |pair: &[Reference]| {
        let is_whole = lost_before(&pair[0]) == lost_before(&pair[1]);
        steps_s(&pair[0], &pair[1]).filter(|_| is_whole).map(|gap_s| gap_s / packets_of(pair))
    };
    let slopes: Vec<Option<f64>> = all.windows(2).map(slope).collect();
    // Seconds by which an interval differs from its neighbours.
    let off = |(at, pair): (usize, &[Reference])| {
        let near = &slopes[at.saturating_sub(NEAR)..(at + NEAR + 1).min(slopes.len())];
        let usual = median(near.iter().flatten().copied().collect())?;
        Some((slopes[at]? - usual) * packets_of(pair))
    };
    let off_s: Vec<Option<f64>> = all.windows(2).enumerate().map(off).collect();
    let usual_s = median(off_s.iter().flatten().map(|off_s| off_s.abs()).collect()).unwrap_or(0.0);
    let limit_s = ACCURACY_S.max(8.0 * usual_s);
    let (mut found, mut start, mut at) = (Lines::default(), 0, 0);
    while let Some(off) = off_s.get(at) {
        if off.is_some_and(|off_s| off_s.abs() <= limit_s) {
            at += 1;
            continue;
        }
        if let Some(back) = off.and_then(|_| comes_back(&off_s[at..], limit_s)) {
            at += back;
            continue;
        }
        found.steps_s.extend(off);
        found.ranges.push(start..at + 1);
        (start, at) = (at + 1, at + 1);
    }
    found.ranges.push(start..all.len());
    found.slopes = slopes.into_iter().flatten().collect();
    found
}

/// Returns the number of intervals after which references are on the line again.
fn comes_back(off_s: &[Option<f64>], limit_s: f64) -> Option<usize> {
    let mut sum_s = 0.0;
    for (at, off) in off_s.iter().take(MAX_OFF + 1).enumerate() {
        sum_s += (*off)?;
        if at > 0 && sum_s.abs() <= limit_s {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the places and seconds of references since the first one of a line.
fn points(line: &[Reference]) -> Vec<(f64, f64)> {
    let Some(first) = line.first() else { return Vec::new() };
    let mut seconds = 0.0;
    let since = |at: &Reference| (at.packet - first.packet) as f64;
    let mut all = vec![(0.0, 0.0)];
    for pair in line.windows(2) {
        seconds += forwards_s(pair[0].pcr, pair[1].pcr).unwrap_or_default();
        all.push((since(&pair[1]), seconds));
    }
    all
}

/// Describes the accuracy of clock references, and the `change` of the rate between them.
fn accuracy(largest_s: Option<f64>, change: f64) -> String {
    let Some(error_s) = largest_s else {
        return "not measured: two references or fewer in a row".to_owned();
    };
    let largest = format!("largest {} ns of 500 ns", nanoseconds(error_s));
    match change > RATE_CHANGE {
        true => format!("{largest}, at a constant rate alone: it varies by {:.0} %", change * 100.0),
        false => largest,
    }
}

fn clock(pid: Pid, all: &[Reference], losses: &[u64]) -> Clock {
    let gaps: Vec<f64> = all.windows(2).filter_map(|pair| steps_s(&pair[0], &pair[1])).collect();
    let mean_s = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let longest_s = gaps.iter().fold(0.0_f64, |most, gap| most.max(*gap));
    let lines = lines(all, losses);
    let long = lines.ranges.into_iter().filter(|range| range.len() > 2);
    let off_line = long.filter_map(|range| distances(&points(&all[range]))).flatten();
    let errors_s: Vec<f64> = off_line.chain(lines.steps_s).collect();
    let inaccurate = errors_s.iter().filter(|error_s| error_s.abs() > ACCURACY_S).count();
    let accuracy_s = errors_s.iter().map(|error_s| error_s.abs()).reduce(f64::max);
    let count = lines.slopes.len() as f64;
    let (low, high, sum) = lines
        .slopes
        .into_iter()
        .fold((f64::MAX, 0.0_f64, 0.0), |(low, high, sum), step| (low.min(step), high.max(step), sum + step));
    let change = if sum > 0.0 { (high - low) * count / sum } else { 0.0 };
    Clock {
        pid: pid.number(),
        references: all.len(),
        interval_s: [mean_s, longest_s],
        accuracy_s,
        inaccurate,
        change,
        jitter_s: jitter_s(all),
    }
}

/// Returns standard deviation and range of arrival less reference.
///
/// Between jumps of the clock they are without drift.
fn jitter_s(all: &[Reference]) -> Option<[f64; 2]> {
    let pieces = all.chunk_by(|_, to| !to.is_jump && !to.is_behind_step).filter(|piece| piece.len() > 2);
    let late = pieces.filter_map(|piece| {
        let times: Option<Vec<f64>> = piece.iter().map(|at| at.time_s).collect();
        let seconds = points(piece).into_iter().map(|(_, seconds)| seconds);
        let points: Vec<(f64, f64)> = seconds.zip(times?).collect();
        residuals_of(&points, &points)
    });
    let late: Vec<f64> = late.flatten().collect();
    let square = late.iter().map(|late| late * late).sum::<f64>() / late.len() as f64;
    let (low, high) = late.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    (!late.is_empty()).then(|| [square.sqrt(), high - low])
}

/// Returns the distances of points from the line of most of them.
///
/// A few that are far off have no part in it. Returns `None` without two different abscissas.
fn distances(points: &[(f64, f64)]) -> Option<Vec<f64>> {
    let half = points.len() / 2;
    let slopes = points.iter().zip(&points[half..]).filter(|(from, to)| to.0 > from.0);
    let slope = median(slopes.map(|(from, to)| (to.1 - from.1) / (to.0 - from.0)).collect())?;
    let offset = median(points.iter().map(|point| point.1 - slope * point.0).collect())?;
    let far = |point: &(f64, f64)| (point.1 - slope * point.0 - offset).abs();
    let usual = median(points.iter().map(far).collect())?;
    let limit = ACCURACY_S.max(8.0 * usual);
    let near: Vec<(f64, f64)> = points.iter().copied().filter(|point| far(point) <= limit).collect();
    residuals_of(&near, points).or_else(|| residuals_of(points, points))
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    let half = all.len() / 2;
    (half < all.len()).then(|| *all.select_nth_unstable_by(half, f64::total_cmp).1)
}

/// Returns the distances of points from the least-squares line of others.
///
/// Returns `None` without two different abscissas.
fn residuals_of(line: &[(f64, f64)], points: &[(f64, f64)]) -> Option<Vec<f64>> {
    let n = line.len() as f64;
    let (x, y) = line.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let (up, square) = line.iter().fold((0.0, 0.0), |(up, square), point| {
        (up + (point.0 - x) * (point.1 - y), square + (point.0 - x).powi(2))
    });
    let slope = (square > 0.0).then_some(up / square)?;
    Some(points.iter().map(|point| point.1 - y - slope * (point.0 - x)).collect())
}

/// Returns the tables of indicators and clocks.
pub(super) fn tables(indicators: &[Indicator], clocks: &[Clock]) -> [Table; 2] {
    let errors = |errors: Option<u64>| match errors {
        None => Cell::Number(String::new()),
        Some(0) => Cell::Number("0".to_owned()),
        Some(errors) => Cell::Bad(errors.to_string()),
    };
    let row = |of: &Indicator| -> Vec<Cell> {
        let texts = [of.item, of.name].map(|text| Cell::Text(text.to_owned()));
        [&texts[..], &[errors(of.errors), Cell::Text(of.remark.clone())]].concat()
    };
    let head = ["TR 101 290", "indicator", "errors", ""].map(str::to_owned).to_vec();
    let first = Table { caption: String::new(), head, rows: indicators.iter().map(row).collect() };
    let optional =
        |value: Option<f64>, scale: f64| value.map_or_else(String::new, |value| number(value * scale));
    let row = |of: &Clock| -> Vec<Cell> {
        let [mean_s, longest_s] = of.interval_s;
        let numbers = [
            of.references.to_string(),
            number(mean_s * 1e3),
            number(longest_s * 1e3),
            of.accuracy_s.map_or_else(String::new, nanoseconds),
            optional(of.jitter_s.map(|jitter| jitter[0]), 1e6),
            optional(of.jitter_s.map(|jitter| jitter[1]), 1e6),
        ];
        std::iter::once(Cell::Text(format!("{:#06x}", of.pid))).chain(numbers.map(Cell::Number)).collect()
    };
    let head = [
        "PCR PID",
        "references",
        "interval (ms)",
        "longest (ms)",
        "accuracy (ns)",
        "jitter (µs)",
        "peak to peak (µs)",
    ];
    let head = head.map(str::to_owned).to_vec();
    [first, Table { caption: String::new(), head, rows: clocks.iter().map(row).collect() }]
}

/// Returns nanoseconds to a thousandth. What a constant rate differs from itself in floating point is below.
fn nanoseconds(seconds: f64) -> String {
    number((seconds * 1e12).round() / 1e3)
}

/// Returns the measurement as JSON.
pub(super) fn json(indicators: &[Indicator], clocks: &[Clock], measurement: &Measurement) -> Value {
    let of = |of: &Indicator| json!({ "item": of.item, "name": of.name, "errors": of.errors, "remark": of.remark });
    let clock = |of: &Clock| {
        json!({
            "pid": of.pid, "references": of.references, "interval_s": of.interval_s[0], "longest_s": of.interval_s[1],
            "accuracy_s": of.accuracy_s, "jitter_s": of.jitter_s.map(|jitter| jitter[0]),
            "peak_to_peak_s": of.jitter_s.map(|jitter| jitter[1]),
        })
    };
    let time_stamps: Vec<Value> =
        measurement.stamps().map(|(pid, of, longest_s)| stamps::json(pid, of, longest_s)).collect();
    let all: Vec<Value> = indicators.iter().map(of).collect();
    let steps = measurement.steps.json();
    let clocks: Vec<Value> = clocks.iter().map(clock).collect();
    json!({ "indicators": all, "clocks": clocks, "time_stamps": time_stamps, "clock_steps": steps })
}

#[cfg(test)]
mod tests;
