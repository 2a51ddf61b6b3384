//! Monitors of live transport streams, with alarms of ETSI TR 101 290.
//!
//! Datagrams are taken in as those of files are: the streams of several senders each have a [`Monitor`]. It reads no clock and opens no socket: a caller hands it datagrams with their times of arrival, and the time. Memory is bounded by
//! the number of PIDs. A timer runs by the arrivals of the whole stream, so a stream that stops is one alarm and not one for each PID.
//!
//! *Does not measure*: the accuracy of clock references, which arrivals hide; decoder delays; see [`super::Inspect`].

mod alarm;
mod streams;

use std::collections::{BTreeMap, BTreeSet};

use bentpipe_intake::StreamEntry;
use bentpipe_report::{Cell, Table, number};
use bentpipe_units::Span;
use bentpipe_wire::psi::{Pat, Pmt};
use bentpipe_wire::ts::{Continuity, PACKET_LEN, Packet, Pcr, Pid};
use bentpipe_wire::{pes, section};
use serde_json::{Value, json};

use super::rates::{RateFile, RateLog};
use super::survey::Survey;
use crate::Error;
pub use alarm::{Alarm, Indicator, Limits};
use alarm::{Timer, event, noted};
pub use streams::{MAX_MONITORS, Monitors};

/// Figures of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Time of its end in nanoseconds since 1970.
    pub at_ns: u64,
    /// TS packets.
    pub packets: u64,
    /// PIDs with packets.
    pub pids: usize,
    /// Gaps of continuity counters.
    pub gaps: u64,
    /// Range of arrival less reference in seconds, the largest of all clocks. `None` without two references.
    pub jitter_s: Option<f64>,
    /// Alarms raised.
    pub alarms: u64,
}

impl Second {
    /// Returns the rate of all packets in bit/s.
    pub fn bit_per_s(&self) -> u64 {
        self.packets * 8 * PACKET_LEN as u64
    }
}

/// State of a PID.
#[derive(Debug, Default)]
struct PidState {
    continuity: Continuity,
    /// Packets of the current second.
    packets: u64,
    /// Gaps of the current second.
    gaps: u64,
    any: Timer,
    reference: Timer,
    stamp: Timer,
    table: Timer,
    clock: Option<Pcr>,
    /// First reference of the current second, and the range of arrival less reference since.
    base: Option<(u64, Pcr)>,
    range_s: [f64; 2],
    sections: Option<Box<section::Receiver>>,
}

/// Maximum number of programme maps that are followed.
const MAX_MAPS: usize = 1 << 13;
/// Maximum number of alarms a second that are passed on; more are counted.
pub const MAX_ALARMS: u64 = 100;

/// Monitor of a stream of TS packets.
pub struct Monitor {
    limits: Limits,
    survey: Survey,
    pids: BTreeMap<Pid, PidState>,
    /// Programme maps by PID and programme: version, and the PIDs that they name.
    maps: BTreeMap<(Pid, u16), (u8, Vec<Pid>)>,
    /// PIDs of programme maps by the PAT.
    map_pids: BTreeSet<Pid>,
    /// Number of maps that name a PID.
    named: BTreeMap<Pid, u32>,
    /// Any packet; the whole stream's silence.
    any: Timer,
    pat: Timer,
    /// Time of the last packet.
    packet_ns: u64,
    /// Latest time seen. The machine's clock may be set back; the stream's time does not go back.
    now_ns: u64,
    first_ns: Option<u64>,
    raised: BTreeMap<Indicator, u64>,
    is_rate_raised: bool,
    second: Second,
    second_end_ns: u64,
    seconds: u64,
    log: Option<RateLog>,
    file: Option<RateFile>,
    failure: Option<Error>,
    remark: Option<String>,
    /// PIDs whose alarms are raised. Empty: all.
    chosen: Vec<Pid>,
}

/// Callback invoked with each alarm.
pub type Sink<'a> = &'a mut dyn FnMut(&Alarm);

impl Monitor {
    /// Creates a monitor that starts at a time in nanoseconds since 1970.
    pub fn new(limits: Limits, now_ns: u64) -> Monitor {
        Monitor {
            limits,
            survey: Survey::new(),
            pids: BTreeMap::new(),
            maps: BTreeMap::new(),
            map_pids: BTreeSet::new(),
            named: BTreeMap::new(),
            any: Timer::default(),
            pat: Timer::default(),
            packet_ns: now_ns,
            now_ns,
            first_ns: None,
            raised: BTreeMap::new(),
            is_rate_raised: false,
            second: Second::default(),
            second_end_ns: now_ns + 1_000_000_000,
            seconds: 0,
            log: None,
            file: None,
            failure: None,
            remark: None,
            chosen: Vec::new(),
        }
    }

    /// Raises alarms of these PIDs, the tables and the whole stream alone.
    #[must_use]
    pub fn only(mut self, pids: &[Pid]) -> Monitor {
        self.chosen = pids.to_vec();
        self
    }

    fn is_chosen(&self, pid: Pid) -> bool {
        self.chosen.is_empty() || self.chosen.contains(&pid)
    }

    /// Logs rates over time to a file, by times of arrival.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written, or the interval is shorter than a microsecond.
    pub fn log_rates(&mut self, path: &std::path::Path, interval: Span) -> Result<(), Error> {
        if interval < Span::from_micros(1) {
            return Err(Error::Usage("--interval: expected at least 1 us".to_owned()));
        }
        self.file = Some(RateFile::create(path)?);
        self.log = Some(RateLog::new("capture", interval));
        Ok(())
    }

    fn advance(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    fn raise(&mut self, alarm: Alarm, sink: Sink<'_>) {
        let is_of_tables = matches!(alarm.indicator, Indicator::Pat | Indicator::Pmt | Indicator::Crc);
        if !is_of_tables && alarm.pid.is_some_and(|pid| !self.is_chosen(pid)) {
            return;
        }
        if !alarm.is_over {
            *self.raised.entry(alarm.indicator).or_default() += 1;
            self.second.alarms += 1;
        }
        if self.second.alarms <= MAX_ALARMS {
            sink(&alarm);
        }
    }

    /// Raises alarms of what the intake of the stream has found since.
    fn faults(&mut self, at_ns: u64, [before, after]: [StreamEntry; 2], sink: Sink<'_>) {
        let at_ns = self.advance(at_ns);
        let missing = after.missing.saturating_sub(before.missing);
        if missing > 0 {
            let text = format!("{missing} datagrams missing");
            self.raise(event(at_ns, Indicator::Rtp, None, text), sink);
        }
        if after.missing < before.missing {
            self.raise(event(at_ns, Indicator::Rtp, None, "a datagram out of order".to_owned()), sink);
        }
        let outside = after.outside - before.outside;
        // A stream that is joined begins within a packet.
        if self.first_ns.is_none() {
            return;
        }
        let sync_bytes = after.faults.sync_bytes.saturating_sub(before.faults.sync_bytes);
        if sync_bytes > 0 {
            let text = format!("{sync_bytes} packets without a sync byte");
            self.raise(event(at_ns, Indicator::SyncByte, None, text), sink);
        }
        // As TR 101 290 has it, and files are measured: packets in other places are a loss of synchronisation.
        if after.faults.losses > before.faults.losses || outside > 0 && sync_bytes == 0 {
            let text = format!("{outside} bytes outside packets");
            self.raise(event(at_ns, Indicator::SyncLoss, None, text), sink);
        }
    }

    /// Handles a TS packet.
    fn packet(&mut self, at_ns: u64, bytes: &[u8; PACKET_LEN], sink: Sink<'_>) {
        let at_ns = self.advance(at_ns);
        self.begin(at_ns, sink);
        self.second.packets += 1;
        let Ok(packet) = Packet::new_checked(bytes) else {
            let text = "a packet that cannot be read".to_owned();
            return self.raise(event(at_ns, Indicator::SyncByte, None, text), sink);
        };
        let pid = packet.pid();
        self.log(at_ns, pid);
        if packet.has_error() {
            self.pids.entry(pid).or_default().continuity.forget();
            let text = "transport error indicated".to_owned();
            return self.raise(event(at_ns, Indicator::Transport, Some(pid), text), sink);
        }
        let (limits, is_chosen) = (self.limits, self.is_chosen(pid));
        let state = self.pids.entry(pid).or_default();
        state.packets += 1;
        if pid == Pid::NULL {
            return;
        }
        let mut alarms = Vec::new();
        alarms.extend(noted(state.any.note(at_ns, limits.pid), at_ns, Indicator::Pid, Some(pid)));
        let step = state.continuity.follow(&packet);
        if step.is_error() {
            state.gaps += 1;
            self.second.gaps += u64::from(is_chosen);
            // One alarm a second of each PID; the second's line has their number.
            if state.gaps == 1 {
                let text = if step.is_repeat() { "a packet three times" } else { "packets lost" };
                alarms.push(event(at_ns, Indicator::Continuity, Some(pid), text.to_owned()));
            }
        }
        if let Ok(Some(pcr)) = packet.adaptation().map(|adaptation| adaptation.and_then(|field| field.pcr)) {
            state.note_clock(at_ns, pid, pcr, packet.is_discontinuous(), limits, &mut alarms);
        }
        let is_start = packet.unit_start() && !step.is_repeat();
        let starts = is_start.then(|| packet.payload().and_then(pes::Repr::parse).ok()).flatten();
        if starts.is_some_and(|header| header.pts.is_some()) {
            alarms.extend(noted(state.stamp.note(at_ns, limits.stamps), at_ns, Indicator::Pts, Some(pid)));
        }
        alarms.into_iter().for_each(|alarm| self.raise(alarm, sink));
        if pid == Pid::PAT || pid == Pid::SDT || self.map_pids.contains(&pid) {
            self.table(at_ns, pid, bytes, sink);
        }
    }

    /// Notes a packet of any PID, at the start or after a silence.
    fn begin(&mut self, at_ns: u64, sink: Sink<'_>) {
        self.packet_ns = at_ns;
        if self.first_ns.is_none() {
            (self.first_ns, self.second_end_ns) = (Some(at_ns), at_ns + 1_000_000_000);
            self.pat.expect(at_ns);
        }
        if let Some(gap) = self.any.note(at_ns, self.limits.silence) {
            let alarm = noted(Some(gap), at_ns, Indicator::SyncLoss, None);
            alarm.into_iter().for_each(|alarm| self.raise(alarm, sink));
            self.pat.restart(at_ns);
            for state in self.pids.values_mut() {
                for timer in [&mut state.any, &mut state.reference, &mut state.stamp, &mut state.table] {
                    timer.restart(at_ns);
                }
            }
        }
    }

    fn log(&mut self, at_ns: u64, pid: Pid) {
        let Some(log) = &mut self.log else { return };
        let at = Span::from_nanos(at_ns.saturating_sub(self.first_ns.unwrap_or(at_ns)));
        if let Err(error) = log.add(at, pid, self.file.as_mut()) {
            self.failure.get_or_insert(error);
            self.log = None;
        }
    }

    fn table(&mut self, at_ns: u64, pid: Pid, bytes: &[u8; PACKET_LEN], sink: Sink<'_>) {
        let state = self.pids.entry(pid).or_default();
        let mut receiver = state.sections.take().unwrap_or_else(|| Box::new(section::Receiver::new(pid)));
        let mut sections = Vec::new();
        receiver.push(bytes, |section| sections.push(section.to_vec()));
        state.sections = Some(receiver);
        for section in sections {
            self.section(at_ns, pid, &section, sink);
        }
    }

    fn section(&mut self, at_ns: u64, pid: Pid, section: &[u8], sink: Sink<'_>) {
        let wrong = |text: &str| event(at_ns, Indicator::Crc, Some(pid), text.to_owned());
        match (pid, section.first()) {
            (Pid::PAT, Some(0)) if Pat::parse_part(section).is_ok() => {
                let alarm = noted(self.pat.note(at_ns, self.limits.tables), at_ns, Indicator::Pat, Some(pid));
                alarm.into_iter().for_each(|alarm| self.raise(alarm, sink));
                self.pat_section(at_ns, section);
            }
            (Pid::PAT, Some(0)) => self.raise(wrong("PAT that cannot be read"), sink),
            (Pid::PAT, _) => {
                let text = "another table on the PID of the PAT".to_owned();
                self.raise(event(at_ns, Indicator::Pat, Some(pid), text), sink);
            }
            (Pid::SDT, _) => self.survey.section(pid, section),
            (_, Some(2)) => match Pmt::parse(section) {
                Ok(pmt) => {
                    let timer = &mut self.pids.entry(pid).or_default().table;
                    let alarm =
                        noted(timer.note(at_ns, self.limits.tables), at_ns, Indicator::Pmt, Some(pid));
                    alarm.into_iter().for_each(|alarm| self.raise(alarm, sink));
                    self.survey.section(pid, section);
                    self.map(at_ns, pid, &pmt);
                }
                Err(_) => self.raise(wrong("PMT that cannot be read"), sink),
            },
            _ => {}
        }
    }

    /// Follows the PAT: waits for the maps that it names, and for no others.
    fn pat_section(&mut self, at_ns: u64, section: &[u8]) {
        self.survey.section(Pid::PAT, section);
        let map_pids: BTreeSet<Pid> = self.survey.programmes().map(|programme| programme.map).collect();
        if map_pids == self.map_pids {
            return;
        }
        for pid in &map_pids {
            self.pids.entry(*pid).or_default().table.expect(at_ns);
        }
        for pid in self.map_pids.difference(&map_pids) {
            self.pids.entry(*pid).or_default().table = Timer::default();
        }
        let gone: Vec<(Pid, u16)> =
            self.maps.keys().filter(|(pid, _)| !map_pids.contains(pid)).copied().collect();
        self.map_pids = map_pids;
        gone.into_iter().for_each(|key| self.forget(key));
    }

    /// Follows a programme map, and waits for the PIDs that it names.
    fn map(&mut self, at_ns: u64, pid: Pid, pmt: &Pmt) {
        let key = (pid, pmt.number);
        let known = self.maps.get(&key);
        if known.is_some_and(|(version, _)| *version == pmt.version)
            || known.is_none() && self.maps.len() >= MAX_MAPS
        {
            return;
        }
        self.forget(key);
        let mut pids: Vec<Pid> = pmt.streams.iter().map(|stream| stream.pid).collect();
        pids.extend(Some(pmt.clock).filter(|clock| *clock != Pid::NULL));
        for &pid in &pids {
            *self.named.entry(pid).or_default() += 1;
            self.pids.entry(pid).or_default().any.expect(at_ns);
        }
        for stream in pmt.streams.iter().filter(|stream| has_stamps(stream.kind)) {
            self.pids.entry(stream.pid).or_default().stamp.expect(at_ns);
        }
        if pmt.clock != Pid::NULL {
            self.pids.entry(pmt.clock).or_default().reference.expect(at_ns);
        }
        self.maps.insert(key, (pmt.version, pids));
    }

    /// Waits for the PIDs of a map no longer, unless another one names them.
    fn forget(&mut self, key: (Pid, u16)) {
        let Some((_, pids)) = self.maps.remove(&key) else { return };
        for pid in pids {
            let Some(count) = self.named.get_mut(&pid) else { continue };
            *count -= 1;
            if *count == 0 {
                self.named.remove(&pid);
                let state = self.pids.entry(pid).or_default();
                (state.any, state.reference, state.stamp) = Default::default();
            }
        }
    }

    /// Checks the timers, and returns the figures of a second that has ended.
    pub fn tick(&mut self, now_ns: u64, sink: Sink<'_>) -> Option<Second> {
        // Alarms of the last packet's time are before one of now.
        self.check_timers(sink);
        let now_ns = self.advance(now_ns);
        if let Some(gap_s) = self.any.check(now_ns, self.limits.silence) {
            let text = format!("no packets for {} s", number(gap_s));
            self.raise(event(now_ns, Indicator::SyncLoss, None, text), sink);
        }
        (now_ns >= self.second_end_ns).then(|| self.end_second(now_ns, sink))
    }

    /// Checks timers by the time of the last packet. So a silent stream raises one alarm.
    fn check_timers(&mut self, sink: Sink<'_>) {
        let (now_ns, limits, mut alarms) = (self.packet_ns, self.limits, Vec::new());
        let mut late = |indicator: Indicator, pid: Pid, gap_s: f64, what: &str| {
            let text = format!("no {what} for {} s", number(gap_s));
            alarms.push(event(now_ns, indicator, Some(pid), text));
        };
        if let Some(gap_s) = self.pat.check(now_ns, limits.tables) {
            late(Indicator::Pat, Pid::PAT, gap_s, "PAT");
        }
        for (pid, state) in &mut self.pids {
            let timers = [
                (&mut state.table, Indicator::Pmt, limits.tables, "PMT"),
                (&mut state.any, Indicator::Pid, limits.pid, "packets"),
                (&mut state.reference, Indicator::PcrRepetition, limits.clock_silence, "PCR"),
                (&mut state.stamp, Indicator::Pts, limits.stamps, "PTS"),
            ];
            for (timer, indicator, limit, what) in timers {
                // A PID that no table names may stop.
                if indicator == Indicator::Pid && !self.named.contains_key(pid) {
                    continue;
                }
                if let Some(gap_s) = timer.check(now_ns, limit) {
                    late(indicator, *pid, gap_s, what);
                }
            }
        }
        alarms.into_iter().for_each(|alarm| self.raise(alarm, sink));
    }

    fn end_second(&mut self, now_ns: u64, sink: Sink<'_>) -> Second {
        let lasts_s = (now_ns + 1_000_000_000 - self.second_end_ns) as f64 / 1e9;
        let rate = self.second.bit_per_s() as f64 / lasts_s;
        let [low, high] = self.limits.rate;
        let is_out = low.is_some_and(|low| rate < low.as_bps() as f64)
            || high.is_some_and(|high| rate > high.as_bps() as f64);
        if is_out != self.is_rate_raised && self.first_ns.is_some() {
            let text = format!("{} Mbit/s", number(rate / 1e6));
            let alarm = Alarm { is_over: !is_out, ..event(now_ns, Indicator::Rate, None, text) };
            self.raise(alarm, sink);
            self.is_rate_raised = is_out;
        }
        let mut jitter_s = None;
        for state in self.pids.values_mut() {
            self.second.pids += usize::from(state.packets > 0);
            if state.range_s[1] > state.range_s[0] {
                jitter_s = Some(f64::max(jitter_s.unwrap_or(0.0), state.range_s[1] - state.range_s[0]));
            }
            (state.packets, state.gaps, state.base, state.range_s) = (0, 0, None, [0.0; 2]);
        }
        self.seconds += 1;
        self.second_end_ns = now_ns + 1_000_000_000;
        Second { at_ns: now_ns, jitter_s, ..std::mem::take(&mut self.second) }
    }

    /// Returns `true` once an alarm was raised.
    pub fn has_alarms(&self) -> bool {
        !self.raised.is_empty()
    }

    /// Returns the error that ended the log of rates, if one did.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Ends the log of rates. A stream of which nothing came is an alarm.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn finish(&mut self, now_ns: u64, sink: Sink<'_>) -> Result<(), Error> {
        if self.first_ns.is_none() {
            self.raise(event(now_ns, Indicator::SyncLoss, None, "no packets came".to_owned()), sink);
        }
        let (Some(mut log), Some(mut file)) = (self.log.take(), self.file.take()) else {
            return self.failure.take().map_or(Ok(()), Err);
        };
        let first_ns = self.first_ns.unwrap_or(self.packet_ns);
        log.advance(Span::from_nanos(self.packet_ns - first_ns), Some(&mut file))?;
        file.finish().map(|remark| self.remark = remark)
    }

    /// Returns a remark on the log of rates, once it has ended.
    pub fn remark(&self) -> Option<&str> {
        self.remark.as_deref()
    }

    /// Returns the number of alarms by indicator, and the programmes with their services, as text.
    pub fn summary(&self, colours: bool) -> String {
        let count = |indicator: Indicator| self.raised.get(&indicator).copied().unwrap_or(0);
        let row = |indicator: Indicator| {
            let (item, name) = indicator.names();
            let cell = match count(indicator) {
                0 => Cell::Number("0".to_owned()),
                alarms => Cell::Bad(alarms.to_string()),
            };
            vec![Cell::Text(item.to_owned()), Cell::Text(name.to_owned()), cell]
        };
        let head = ["TR 101 290", "indicator", "alarms"].map(str::to_owned).to_vec();
        let rows = Indicator::ALL.into_iter().map(row).collect();
        let table = Table { caption: String::new(), head, rows };
        super::inspect::programmes(&self.survey) + "\n" + &table.to_text(colours)
    }

    /// Returns the summary as JSON.
    pub fn json(&self) -> Value {
        let alarm = |indicator: Indicator| {
            let (item, name) = indicator.names();
            json!({ "item": item, "name": name, "alarms": self.raised.get(&indicator).copied().unwrap_or(0) })
        };
        json!({
            "seconds": self.seconds,
            "indicators": Indicator::ALL.map(alarm),
            "services": super::inspect::services_json(&self.survey),
        })
    }
}

impl PidState {
    fn note_clock(
        &mut self,
        at_ns: u64,
        pid: Pid,
        pcr: Pcr,
        is_announced: bool,
        limits: Limits,
        alarms: &mut Vec<Alarm>,
    ) {
        let arrived_s = self.reference.last_ns.map(|last_ns| at_ns.saturating_sub(last_ns) as f64 / 1e9);
        let late = self.reference.note(at_ns, limits.clock_silence);
        alarms.extend(noted(late, at_ns, Indicator::PcrRepetition, Some(pid)));
        let (limit_s, last) = (limits.references.as_secs_f64(), self.clock.filter(|_| !is_announced));
        let gap = last.map(|last| Some(pcr.since(last)).filter(|ticks| *ticks <= Pcr::TICKS_PER_S));
        let gap = gap.map(|ticks| ticks.map(|ticks| ticks as f64 / Pcr::TICKS_PER_S as f64));
        // As in a file: both the values and the arrivals are 0 to 100 ms apart (2.3b, 2.3a).
        if let Some(gap_s) = gap.filter(|gap_s| gap_s.is_none_or(|gap_s| gap_s > limit_s)) {
            let between_s = arrived_s.or(gap_s).unwrap_or_default();
            let is_jump = gap_s.is_none_or(|gap_s| gap_s - between_s > limit_s / 2.0);
            let text = match gap_s {
                Some(gap_s) if !is_jump => format!("PCR {} s apart", number(gap_s)),
                _ => "the clock jumps".to_owned(),
            };
            alarms.push(event(at_ns, Indicator::PcrDiscontinuity, Some(pid), text));
            if late.is_none() && between_s > limit_s {
                let text = format!("PCR {} s apart", number(between_s));
                alarms.push(event(at_ns, Indicator::PcrRepetition, Some(pid), text));
            }
            if is_jump {
                self.base = None;
            }
        }
        self.clock = Some(pcr);
        let (base_ns, base) = *self.base.get_or_insert((at_ns, pcr));
        let due_s = pcr.since(base) as f64 / Pcr::TICKS_PER_S as f64;
        if due_s < 10.0 {
            let late_s = at_ns.saturating_sub(base_ns) as f64 / 1e9 - due_s;
            self.range_s = [self.range_s[0].min(late_s), self.range_s[1].max(late_s)];
        }
    }
}

/// Returns `true` if streams of a type have time stamps all the time.
fn has_stamps(kind: u8) -> bool {
    matches!(kind, 0x01..=0x04 | 0x0f..=0x11 | 0x1b | 0x24)
}

#[cfg(test)]
mod tests;
