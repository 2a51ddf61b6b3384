//! Measurements of a transport stream by ETSI TR 101 290.
//!
//! They are the indicators of first and second priority, and clock references.
//!
//! Time is that of the capture, or without one that of the PID with the most clock references: its rate is constant between two.
//! The accuracy of a reference is its distance from a line through all of its PID over the packets, which has a meaning in streams of
//! constant rate alone; the overall jitter is that from the times of a capture.
//!
//! *Does not measure*: the loss of synchronisation in bits, CRCs of tables other than PAT, CAT and PMT, buffers (third priority).

use std::collections::{BTreeMap, BTreeSet};

use bentpipe_intake::SyncFaults;
use bentpipe_report::{Cell, Table, number};
use bentpipe_units::Span;
use bentpipe_wire::psi::{Pat, Pmt};
use bentpipe_wire::ts::{Continuity, PACKET_LEN, Packet, Pcr, Pid};
use bentpipe_wire::{pes, section};
use serde_json::{Value, json};

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
    is_jump: bool,
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
    /// Time of the first packet in the capture.
    first_ns: Option<u64>,
}

impl Measurement {
    /// Notes a packet's clock reference in the first pass.
    ///
    /// It returns `true` if it keeps one, for which there has to be room. `time_ns` is the time of its capture.
    pub(super) fn survey(&mut self, time_ns: Option<u64>, bytes: &[u8; PACKET_LEN], has_room: bool) -> bool {
        let number = self.packets;
        self.packets += 1;
        self.first_ns = self.first_ns.or(time_ns);
        let reference = Packet::new_checked(bytes).ok().and_then(|packet| {
            let pcr = packet.adaptation().ok()??.pcr?;
            Some((packet.pid(), pcr, packet.is_discontinuous()))
        });
        let Some((pid, pcr, is_jump)) = reference.filter(|_| has_room) else { return false };
        let time_s = time_ns.map(|time_ns| self.since_first(time_ns).as_secs_f64());
        self.references.entry(pid).or_default().push(Reference { packet: number, time_s, pcr, is_jump });
        true
    }

    /// Ends the first pass: chooses the clock that packets are timed by. `clock_of` has the clocks of elementary streams.
    pub(super) fn choose_clock(&mut self, clock_of: BTreeMap<Pid, Pid>) {
        (self.packets, self.clock_of) = (0, clock_of);
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

    /// Returns the time of a capture's packet, from the first one on.
    pub(super) fn since_first(&self, time_ns: u64) -> Span {
        Span::from_nanos(time_ns.saturating_sub(self.first_ns.unwrap_or(time_ns)))
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
        Some((ticks, from.is_jump))
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
        let at_s = time_ns
            .map_or_else(|| self.time_s(self.packets), |time_ns| self.since_first(time_ns).as_secs_f64());
        let number = self.packets;
        self.packets += 1;
        self.last_s = self.last_s.max(at_s);
        let Ok(packet) = Packet::new_checked(bytes) else {
            self.sync_errors += 1;
            return;
        };
        let pid = packet.pid();
        self.transport_errors += u64::from(packet.has_error());
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
        self.continuity_errors += u64::from(step.is_error() || advances);
        let is_scrambled = packet.scrambling() != 0;
        self.scrambled += u64::from(is_scrambled);
        self.pat_errors += u64::from(pid == Pid::PAT && is_scrambled);
        self.pmt_errors += u64::from(self.maps.contains(&pid) && is_scrambled);
        if pid == Pid::PAT || pid.number() == CAT || self.maps.contains(&pid) {
            self.table(pid, at_s, bytes);
        } else if packet.unit_start()
            && !step.is_repeat()
            && let Ok(header) = packet.payload().and_then(pes::Repr::parse)
        {
            let clock = self.clock_at(pid, number);
            let (intervals, stamps) = self.stamps.entry(pid).or_default();
            if header.pts.is_some() {
                intervals.note(at_s, STAMPS_S);
            }
            stamps.add(&header, clock.map(|(ticks, _)| ticks), clock.is_some_and(|(_, is_jump)| is_jump));
        }
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
        let is_timed = self.first_ns.is_some() || self.line.len() > 1;
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
        let missing =
            self.named.iter().filter(|pid| **pid != null && !self.pids.contains_key(pid)).count() as u64;
        let rare = |(pid, of): (&Pid, &Intervals)| self.named.contains(pid).then_some(of.errors);
        let rare: u64 = self.pids.iter().filter_map(rare).sum();
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
        vec![
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
        ]
    }

    /// Returns intervals that are too long, differences that are not announced, and the longest interval.
    ///
    /// Two values in a row are 0 to 100 ms apart (2.3b), and so are their times (2.3a): those of the capture, or of a file those that the rate
    /// before gives.
    fn reference_errors(&self) -> (u64, u64, f64) {
        let (mut repetition, mut jumps, mut longest_s) = (0, 0, 0.0_f64);
        for all in self.references.values() {
            let mut step_s = None;
            for pair in all.windows(2).filter(|pair| !pair[1].is_jump) {
                let gap_s = forwards_s(pair[0].pcr, pair[1].pcr);
                let packets = (pair[1].packet - pair[0].packet) as f64;
                let arrived_s = pair[1].time_s.zip(pair[0].time_s).map(|(to, from)| to - from);
                let by_rate_s = step_s.map(|step_s: f64| step_s * packets);
                let between_s = arrived_s.or(by_rate_s).or(gap_s).unwrap_or_default();
                // By their values they are further apart than by their arrival.
                let is_jump =
                    gap_s.is_none_or(|gap_s| gap_s > REFERENCES_S && gap_s - between_s > REFERENCES_S / 2.0);
                jumps += u64::from(gap_s.is_none_or(|gap_s| gap_s > REFERENCES_S));
                let is_late_by_rate = arrived_s.is_none() && !is_jump;
                let gap_s = gap_s.filter(|_| is_late_by_rate).unwrap_or(between_s);
                longest_s = longest_s.max(gap_s);
                repetition += u64::from(gap_s > REFERENCES_S);
                step_s = if is_jump { step_s } else { Some(gap_s / packets) };
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
        self.references.iter().filter(|(_, all)| all.len() > 1).map(|(pid, all)| clock(*pid, all)).collect()
    }
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

/// Returns the seconds of references after the first, without the jumps that are announced.
///
/// Across one the rate is that before. Returns `None` if there is another jump.
fn seconds_of(all: &[Reference]) -> Option<Vec<f64>> {
    let mut step_s = all
        .windows(2)
        .find_map(|pair| Some(steps_s(&pair[0], &pair[1])? / (pair[1].packet - pair[0].packet) as f64))?;
    let mut seconds = vec![0.0];
    let mut base = all.first()?;
    let mut base_s = 0.0;
    for pair in all.windows(2) {
        let packets = (pair[1].packet - pair[0].packet) as f64;
        let before_s = *seconds.last()?;
        if pair[1].is_jump {
            (base, base_s) = (&pair[1], before_s + step_s * packets);
            seconds.push(base_s);
            continue;
        }
        step_s = forwards_s(pair[0].pcr, pair[1].pcr)? / packets;
        seconds.push(base_s + pair[1].pcr.since(base.pcr) as f64 / Pcr::TICKS_PER_S as f64);
    }
    Some(seconds)
}

/// Describes the accuracy of clock references, and the `change` of the rate between them.
fn accuracy(largest_s: Option<f64>, change: f64) -> String {
    let Some(error_s) = largest_s else {
        return "not measured: two references or fewer, or a jump".to_owned();
    };
    let largest = format!("largest {} ns of 500 ns", nanoseconds(error_s));
    match change > RATE_CHANGE {
        true => format!("{largest}, at a constant rate alone: it varies by {:.0} %", change * 100.0),
        false => largest,
    }
}

fn clock(pid: Pid, all: &[Reference]) -> Clock {
    let gaps: Vec<f64> = all.windows(2).filter_map(|pair| steps_s(&pair[0], &pair[1])).collect();
    let mean_s = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    let longest_s = gaps.iter().fold(0.0_f64, |most, gap| most.max(*gap));
    let first = all[0];
    let seconds = seconds_of(all).filter(|_| all.len() > 2);
    let by_packet = seconds.as_ref().map(|seconds| {
        let of = |(at, seconds): (&Reference, &f64)| ((at.packet - first.packet) as f64, *seconds);
        all.iter().zip(seconds).map(of).collect::<Vec<_>>()
    });
    let residuals = by_packet.and_then(|points| distances(&points));
    let inaccurate = residuals.iter().flatten().filter(|error_s| error_s.abs() > ACCURACY_S).count();
    let steps = all
        .windows(2)
        .filter_map(|pair| Some(steps_s(&pair[0], &pair[1])? / (pair[1].packet - pair[0].packet) as f64));
    let (low, high, sum) = steps
        .fold((f64::MAX, 0.0_f64, 0.0), |(low, high, sum), step| (low.min(step), high.max(step), sum + step));
    let change = if sum > 0.0 { (high - low) * gaps.len() as f64 / sum } else { 0.0 };
    let accuracy_s = residuals.map(|all| all.iter().fold(0.0_f64, |most, error| most.max(error.abs())));
    let by_time: Option<Vec<(f64, f64)>> = seconds.and_then(|seconds| {
        all.iter().zip(seconds).map(|(at, seconds)| at.time_s.map(|time_s| (seconds, time_s))).collect()
    });
    let late = by_time.and_then(|points| residuals_of(&points, &points));
    let jitter_s = late.map(|late| {
        let square = late.iter().map(|late| late * late).sum::<f64>() / late.len() as f64;
        let (low, high) =
            late.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
        [square.sqrt(), high - low]
    });
    Clock {
        pid: pid.number(),
        references: all.len(),
        interval_s: [mean_s, longest_s],
        accuracy_s,
        inaccurate,
        change,
        jitter_s,
    }
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
    json!({ "indicators": all, "clocks": clocks.iter().map(clock).collect::<Vec<_>>(), "time_stamps": time_stamps })
}

#[cfg(test)]
mod tests;
