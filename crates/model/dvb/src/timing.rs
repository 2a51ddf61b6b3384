//! Times of slots and frames of a carrier, which may change while it runs.

use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_site::OwnRate;
use bentpipe_units::{Bytes, Rate, Span, Time};
use bentpipe_wire::bbframe;

use super::line::{InputStreams, Line, Modcod, NANOS, RS_BITS, RollOff, Step, TS_BITS};

/// Symbols of a dummy PLFRAME: header and 36 slots (EN 302 307-1, section 5.5.1).
const DUMMY_SYMBOLS: u64 = 90 + 36 * 90;

impl Line {
    /// Returns bits of a data field and symbols of a PLFRAME of the first MODCOD.
    pub(super) fn frame(&self) -> (u128, u128) {
        let Line::DvbS2 { modcod, frame, pilots, .. } = self else { return (0, 1) };
        let bits = modcod.0.data_field_len(frame.of_wire()).unwrap_or(0) * 8;
        (bits as u128, modcod.0.frame_symbols(frame.of_wire(), *pilots).into())
    }

    /// Returns the duration of a TS packet; `None` in frames.
    pub(super) fn slot(&self) -> Option<Ratio> {
        match self {
            Line::TransportStream { rate, .. } => {
                Some(Ratio { num: TS_BITS * NANOS, den: rate.as_bps().into() })
            }
            Line::DvbS { symbol_rate, code_rate, .. } => {
                let (k, n) = code_rate.fraction();
                Some(Ratio { num: RS_BITS * n * NANOS, den: 2 * k * u128::from(*symbol_rate) })
            }
            Line::DvbS2 { .. } => None,
        }
    }

    /// Returns the slots of TS packets of a carrier that was checked.
    pub(super) fn grid(&self) -> Grid {
        let (group, halves) = match self {
            Line::TransportStream { group, buffers, .. } => (u64::from(*group), u64::from(buffers / 2)),
            _ => (1, 1),
        };
        let frames = match self {
            Line::DvbS2 { symbol_rate, .. } => {
                let (bits, symbols) = self.frame();
                Some((Ratio { num: symbols * NANOS, den: u128::from(*symbol_rate) }, bits))
            }
            _ => None,
        };
        let of_frames =
            |(frame, bits): (Ratio, u128)| Ratio { num: frame.num * TS_BITS, den: frame.den * bits };
        let slot = self.slot().or_else(|| frames.map(of_frames));
        Grid {
            slot: Pieces::new(slot.unwrap_or(Ratio { num: 1, den: 1 })),
            group,
            ahead: halves.saturating_sub(1) * group,
            frames,
            next: 0,
        }
    }

    /// Returns the frames of a carrier that was checked; `None` without frames.
    ///
    /// `varies`: a stream has its own MODCOD.
    pub(super) fn frames(&self, varies: bool) -> Option<Frames> {
        let Line::DvbS2 {
            symbol_rate,
            modcod,
            frame,
            pilots,
            roll_off,
            steps,
            es_n0_db,
            margin_db,
            reaction,
            input_streams,
            ..
        } = self
        else {
            return None;
        };
        let first = es_n0_db.map(|_| Step { at: Span::ZERO, modcod: None, es_n0_db: *es_n0_db });
        Some(Frames {
            symbol: Pieces::new(symbol_duration(*symbol_rate)),
            next: 0,
            modcod: modcod.0,
            size: frame.of_wire(),
            pilots: *pilots,
            roll_off: match roll_off {
                RollOff::R035 => bbframe::RollOff::R035,
                RollOff::R025 => bbframe::RollOff::R025,
                RollOff::R020 => bbframe::RollOff::R020,
            },
            steps: first.into_iter().chain(steps.iter().copied()).collect(),
            es_n0_db: *es_n0_db,
            margin_db: *margin_db,
            reaction: *reaction,
            is_constant: !self.is_adaptive() && !varies,
            input_streams: *input_streams,
        })
    }
}

/// Data fields of a stream over time, at its sender and at its receivers.
#[derive(Clone, Debug)]
pub(super) struct Forecast {
    frames: Frames,
    own: Option<Modcod>,
}

impl Forecast {
    /// Creates the forecast of a line. `own` is the MODCOD of a stream that has its own. `None` without frames.
    pub(super) fn new(line: &Line, own: Option<Modcod>) -> Option<Forecast> {
        Some(Forecast { frames: line.frames(own.is_some())?, own })
    }

    /// Returns the forecast after a change of the line and of the stream's MODCOD.
    pub(super) fn changed(&self, at: Span, line: &Line, own: Option<Modcod>) -> Forecast {
        let mut changed = Forecast { own, ..self.clone() };
        changed.frames.set(Time::ZERO + at, line);
        changed
    }

    /// Returns the rate that the sender has at a time.
    pub(super) fn rate(&self, at: Span) -> Rate {
        let (sending, Ratio { num, den }) = (self.sending(at), self.frames.symbol.rate);
        let bits = 8 * sending.capacity as u128 * NANOS * den;
        Rate::from_bps(u64::try_from(bits / (num * u128::from(sending.symbols.max(1)))).unwrap_or(u64::MAX))
    }

    /// Returns the time of whole frames with some bytes.
    pub(super) fn time(&self, at: Span, bytes: Bytes) -> Span {
        let (sending, Ratio { num, den }) = (self.sending(at), self.frames.symbol.rate);
        let frames = bytes.get().div_ceil((sending.capacity as u64).max(1)).max(1);
        let nanos = u128::from(frames) * u128::from(sending.symbols) * num / den;
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the rates from a time on. Nothing is received below the threshold of a MODCOD.
    ///
    /// Empty if it stays.
    pub(super) fn rates(&self, from: Span) -> Vec<OwnRate> {
        let Frames { steps, reaction, .. } = &self.frames;
        let times = steps.iter().flat_map(|step| [step.at, step.at + *reaction]);
        let mut times: Vec<Span> = times.filter(|at| *at > from).chain([from]).collect();
        times.sort_unstable();
        times.dedup();
        let own = |from| OwnRate { from, rate: self.rate(from), is_received: self.sending(from).is_received };
        times.into_iter().map(own).collect()
    }

    fn sending(&self, at: Span) -> Sending {
        self.frames.sending(Time::ZERO + at, self.own)
    }
}

/// Returns the duration of a symbol.
fn symbol_duration(symbol_rate: u64) -> Ratio {
    Ratio { num: NANOS, den: symbol_rate.into() }
}

/// Duration in nanoseconds as a fraction, which does not drift.
///
/// The n-th piece begins after whole nanoseconds, rounded up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    pub(super) num: u128,
    pub(super) den: u128,
}

impl Ratio {
    /// Returns the begin of the n-th piece.
    fn at(self, n: u64) -> Time {
        let nanos = (u128::from(n) * self.num).div_ceil(self.den);
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the first piece that begins at `time` or later.
    fn first_from(self, time: Time) -> u64 {
        match time.as_nanos().checked_sub(1) {
            None => 0,
            Some(before) => u64::try_from(u128::from(before) * self.den / self.num + 1).unwrap_or(u64::MAX),
        }
    }
}

/// Maximum number of past rates that a line remembers, for what is in flight.
const MAX_PAST_RATES: usize = 1024;

/// Pieces of a line whose rate may change: slots, frames or symbols.
///
/// Pieces have the duration `rate` from piece `first` on, which begins at `begin`.
#[derive(Clone, Debug)]
struct Pieces {
    first: u64,
    begin: Time,
    rate: Ratio,
    /// The same of earlier rates.
    past: Vec<(u64, Time, Ratio)>,
}

impl Pieces {
    fn new(rate: Ratio) -> Pieces {
        Pieces { first: 0, begin: Time::ZERO, rate, past: Vec::new() }
    }

    /// Changes the rate from piece `first` on, which must not lie before an earlier change.
    fn change(&mut self, first: u64, rate: Ratio) {
        let begin = self.at(first);
        if first > self.first {
            if self.past.len() == MAX_PAST_RATES {
                self.past.remove(0);
            }
            self.past.push((self.first, self.begin, self.rate));
        }
        (self.first, self.begin, self.rate) = (first, begin, rate);
    }

    /// Returns the rate of piece `n`, and the first piece with it and its begin.
    fn of(&self, n: u64) -> (u64, Time, Ratio) {
        if n >= self.first {
            return (self.first, self.begin, self.rate);
        }
        let later = self.past.partition_point(|(first, ..)| *first <= n);
        self.past[later.saturating_sub(1)]
    }

    /// Returns the begin of the n-th piece.
    fn at(&self, n: u64) -> Time {
        let (first, begin, rate) = self.of(n);
        begin + rate.at(n.saturating_sub(first)).since(Time::ZERO)
    }

    /// Returns the first piece that begins at `time` or later.
    fn first_from(&self, time: Time) -> u64 {
        if time >= self.begin {
            return self.first + self.rate.first_from(Time::from_nanos((time - self.begin).as_nanos()));
        }
        let later = self.past.partition_point(|(_, begin, _)| *begin <= time);
        let (first, begin, rate) = self.past[later.saturating_sub(1)];
        let next = self.past.get(later).map_or(self.first, |(first, ..)| *first);
        (first + rate.first_from(Time::from_nanos(time.since(begin).as_nanos()))).min(next)
    }
}

/// Slots of a transport stream.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    slot: Pieces,
    /// Number of slots that are fixed when the first of them begins.
    group: u64,
    /// Number of slots between the time at which a group is fixed and its begin.
    ahead: u64,
    /// Duration of a BBFRAME and bits of its data field.
    frames: Option<(Ratio, u128)>,
    /// First slot that is not taken.
    next: u64,
}

impl Grid {
    /// Returns the time at which the content of a slot is fixed.
    ///
    /// It is the begin of its group or of one before it, or of the frame with its first bit.
    fn opens(&self, slot: u64) -> Time {
        let first = slot / self.group * self.group;
        match self.frames {
            Some((frame, bits)) => frame.at((u128::from(first) * TS_BITS / bits) as u64),
            None => self.slot.at(first.saturating_sub(self.ahead)),
        }
    }

    /// Returns the end of the buffer of `packets` slots with this slot.
    pub(super) fn fills(&self, slot: u64, packets: u64) -> Time {
        self.closes((slot / packets + 1).saturating_mul(packets) - 1)
    }

    /// Returns the time at which the first part of a slot is received.
    ///
    /// It is its end, or that of the frame with its first bit.
    fn begins_to_arrive(&self, slot: u64) -> Time {
        match self.frames {
            Some((frame, bits)) => frame.at((u128::from(slot) * TS_BITS / bits) as u64 + 1),
            None => self.slot.at(slot + 1),
        }
    }

    /// Returns the end of a frame, if the stream is in frames.
    pub(super) fn frame_end(&self, frame: u64) -> Option<Time> {
        self.frames.map(|(duration, _)| duration.at(frame + 1))
    }

    /// Returns the time at which a slot is received.
    ///
    /// It is its end, or that of the frame with its last bit.
    pub(super) fn closes(&self, slot: u64) -> Time {
        match self.frames {
            Some((frame, bits)) => frame.at(((u128::from(slot + 1) * TS_BITS).div_ceil(bits)) as u64),
            None => self.slot.at(slot + 1),
        }
    }

    fn first_from(&self, time: Time) -> u64 {
        let first = match self.frames {
            Some((frame, bits)) => (u128::from(frame.first_from(time)) * bits).div_ceil(TS_BITS) as u64,
            None => self.slot.first_from(time),
        };
        first.next_multiple_of(self.group) + self.ahead
    }

    /// Adopts the rate of another line from the first open group on.
    ///
    /// It depends on the time alone, so that copies which change together stay alike. Frames keep their rate.
    fn set_rate(&mut self, now: Time, line: &Line) {
        let Some(rate) = line.slot().filter(|_| self.frames.is_none()) else { return };
        self.slot.change(self.first_from(now + Span::from_nanos(1)), rate);
    }

    /// Returns the number of slots that have begun.
    fn begun(&self, now: Time) -> u64 {
        self.slot.first_from(now + Span::from_nanos(1))
    }
}

/// Slots of a carrier that may change, shared by all that go by them.
#[derive(Clone, Debug)]
pub struct Slots(Arc<Mutex<Grid>>);

impl Slots {
    /// Creates the slots of a carrier that was checked.
    pub fn new(line: &Line) -> Slots {
        Slots(Arc::new(Mutex::new(line.grid())))
    }

    /// Follows a change of the carrier.
    pub(super) fn set(&self, now: Time, line: &Line) {
        self.with(|grid| grid.set_rate(now, line));
    }

    /// Reads the slots.
    pub(super) fn with<T>(&self, read: impl FnOnce(&mut Grid) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// BBFRAMEs of any MODCODs.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    symbol: Pieces,
    /// First symbol of the next frame at the earliest.
    next: u64,
    modcod: bbframe::Modcod,
    size: bbframe::FrameSize,
    pilots: bool,
    pub(super) roll_off: bbframe::RollOff,
    steps: Vec<Step>,
    es_n0_db: Option<f64>,
    margin_db: f64,
    reaction: Span,
    /// Set if all frames have the same MODCOD.
    ///
    /// Unused time is then frames of padding, else dummy PLFRAMEs.
    is_constant: bool,
    pub(super) input_streams: InputStreams,
}

/// Modulation of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) modcod: bbframe::Modcod,
    /// Length of its data field in bytes.
    pub(super) capacity: usize,
    symbols: u64,
    /// Set if the receivers have the signal that it needs.
    pub(super) is_received: bool,
}

/// Modulation of a stream whose line has steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Modulation {
    /// Number of the MODCOD.
    pub(super) modcod: u8,
    /// Signal of the receivers in dB; NaN if it is not given.
    pub(super) es_n0_db: f64,
    /// Rate of data fields.
    pub(super) rate_bps: f64,
}

impl Frames {
    /// Returns the mode adaptation header of the `number`-th frame.
    pub(super) fn adaptation(&self, modcod: bbframe::Modcod, number: u64) -> bbframe::Adaptation {
        let (modcod, size, has_pilots) = (Some(modcod), self.size, self.pilots);
        bbframe::Adaptation { modcod, size, has_pilots, carrier_to_noise: 0, number: number as u8 }
    }

    /// Returns the same where all frames have one MODCOD.
    pub(super) fn adaptation_of_all(&self, number: u64) -> bbframe::Adaptation {
        self.adaptation(self.modcod, number)
    }

    /// Returns the header of a frame with `len` bytes of GSE packets.
    ///
    /// `number` is that of its first stream.
    pub(super) fn header(&self, number: usize, len: usize) -> bbframe::Repr {
        let has_number = self.input_streams == InputStreams::Multiple && (!self.is_constant || number > 0);
        let input = u8::try_from(number).ok().filter(|_| has_number);
        let (is_constant, roll_off) = (self.is_constant, self.roll_off);
        bbframe::Repr { input, is_constant, roll_off, ..bbframe::Repr::gse(len) }
    }

    /// Returns the length of a data field where all frames have one MODCOD.
    pub(super) fn field_len(&self) -> usize {
        self.modcod.data_field_len(self.size).unwrap_or(0)
    }

    fn symbols(&self, modcod: bbframe::Modcod) -> u64 {
        modcod.frame_symbols(self.size, self.pilots).into()
    }

    /// Returns the first symbol of the first frame at `time` or later.
    fn first_from(&self, time: Time) -> u64 {
        let idle = if self.is_constant { self.symbols(self.modcod) } else { DUMMY_SYMBOLS };
        let wanted = self.symbol.first_from(time);
        self.next + wanted.saturating_sub(self.next).div_ceil(idle) * idle
    }

    /// Adopts the changeable settings of another line, from the first frame after `now` on.
    fn set(&mut self, now: Time, line: &Line) {
        let Line::DvbS2 { symbol_rate, modcod, es_n0_db, margin_db, reaction, .. } = line else { return };
        self.next = self.first_from(now);
        let rate = symbol_duration(*symbol_rate);
        if self.symbol.rate != rate {
            self.symbol.change(self.next, rate);
        }
        self.modcod = modcod.0;
        (self.margin_db, self.reaction) = (*margin_db, *reaction);
        if self.es_n0_db != *es_n0_db {
            self.es_n0_db = *es_n0_db;
            self.set_signal(now, *es_n0_db);
        }
    }

    /// Sets the signal from `now` on, in place of the steps to come.
    fn set_signal(&mut self, now: Time, es_n0_db: Option<f64>) {
        let at = now.since(Time::ZERO);
        self.steps.retain(|step| step.at < at);
        // The sender may still go by one that is older than its reaction time.
        let known = self.steps.partition_point(|step| step.at + self.reaction <= at);
        self.steps.drain(..known.saturating_sub(1).min(self.steps.len()));
        self.steps.push(Step { at, modcod: None, es_n0_db });
    }

    /// The step that holds at a time.
    fn step(&self, time: Time) -> Option<&Step> {
        let held = self.steps.partition_point(|step| Time::ZERO + step.at <= time);
        self.steps[..held].last()
    }

    /// Returns the transmission of a frame that begins at `time`.
    pub(super) fn sending(&self, time: Time, own: Option<Modcod>) -> Sending {
        let known = Time::from_nanos(time.as_nanos().saturating_sub(self.reaction.as_nanos()));
        let by_step = |step: &Step| match step.es_n0_db {
            Some(es_n0_db) => self.most_efficient(es_n0_db - self.margin_db),
            None => step.modcod.map_or(self.modcod, |modcod| modcod.0),
        };
        let modcod = own.map(|own| own.0).or_else(|| self.step(known).map(by_step)).unwrap_or(self.modcod);
        let es_n0_db = self.step(time).and_then(|step| step.es_n0_db);
        Sending {
            modcod,
            capacity: modcod.data_field_len(self.size).unwrap_or(0),
            symbols: self.symbols(modcod),
            is_received: es_n0_db.is_none_or(|es_n0_db| es_n0_db >= modcod.es_n0_db()),
        }
    }

    /// Returns the modulation of a stream at a time, for its metrics. `None` if it never changes.
    pub(super) fn modulation(&self, time: Time, own: Option<Modcod>) -> Option<Modulation> {
        if self.steps.is_empty() {
            return None;
        }
        let sending = self.sending(time, own);
        let Ratio { num, den } = self.symbol.rate;
        let frames_per_s = 1e9 * den as f64 / (num as f64 * sending.symbols as f64);
        Some(Modulation {
            modcod: sending.modcod.number(),
            es_n0_db: self.step(time).and_then(|step| step.es_n0_db).unwrap_or(f64::NAN),
            rate_bps: 8.0 * sending.capacity as f64 * frames_per_s,
        })
    }

    /// Returns the most efficient MODCOD for this Es/N0, else the most robust one.
    fn most_efficient(&self, es_n0_db: f64) -> bbframe::Modcod {
        let efficiency = |modcod: &bbframe::Modcod| modcod.efficiency(self.size, self.pilots).unwrap_or(0.0);
        let possible = bbframe::MODCODS.into_iter().filter(|modcod| modcod.es_n0_db() <= es_n0_db);
        let best = possible.max_by(|a, b| efficiency(a).total_cmp(&efficiency(b)));
        best.unwrap_or(bbframe::MODCODS[0])
    }
}

/// Times of slots or frames.
#[derive(Clone, Debug)]
pub(super) enum Timing {
    Grid(Grid),
    Frames(Frames),
}

impl Timing {
    /// Returns the modulation of a stream that may change. `None` if it never does.
    pub(super) fn modulation(&self, now: Time, own: Option<Modcod>) -> Option<Modulation> {
        let Timing::Frames(frames) = self else { return None };
        frames.modulation(now, own)
    }

    /// Adopts the changeable settings of another line from the first open slot or frame on.
    pub(super) fn set(&mut self, now: Time, line: &Line) {
        match self {
            Timing::Grid(grid) => grid.set_rate(now, line),
            Timing::Frames(frames) => frames.set(now, line),
        }
    }

    /// Skips slots and frames that have begun before `now`.
    pub(super) fn seek(&mut self, now: Time) {
        match self {
            Timing::Grid(grid) => grid.next = grid.next.max(grid.first_from(now)),
            Timing::Frames(frames) => frames.next = frames.first_from(now),
        }
    }

    /// Returns the time at which the first slot or frame from `time` on is fixed.
    pub(super) fn opens(&self, time: Time) -> Time {
        match self {
            Timing::Grid(grid) => grid.opens(grid.next.max(grid.first_from(time))),
            Timing::Frames(frames) => frames.symbol.at(frames.first_from(time)),
        }
    }

    /// Returns the earliest time at which it is received, without propagation.
    pub(super) fn arrives(&self, time: Time) -> Time {
        match self {
            Timing::Grid(grid) => grid.begins_to_arrive(grid.next.max(grid.first_from(time))),
            Timing::Frames(frames) => {
                let sending = frames.sending(time, None);
                // A stream's own MODCOD can only be as fast as the fastest: 32APSK.
                let shortest = if frames.is_constant { sending.symbols } else { DUMMY_SYMBOLS };
                frames.symbol.at(frames.first_from(time) + shortest)
            }
        }
    }

    /// Returns the number of the next slot, or of the first symbol of a frame.
    pub(super) fn next(&self) -> u64 {
        match self {
            Timing::Grid(grid) => grid.next,
            Timing::Frames(frames) => frames.next,
        }
    }

    /// Returns the end of a frame with TS packets, without propagation.
    pub(super) fn frame_end(&self, frame: u64) -> Time {
        match self {
            Timing::Grid(grid) => grid.frame_end(frame).unwrap_or(Time::NEVER),
            Timing::Frames(_) => Time::NEVER,
        }
    }

    /// Returns the frame in transmission, where TS packets are in frames.
    pub(super) fn frame_at(&self, now: Time) -> u64 {
        match self {
            Timing::Grid(Grid { frames: Some((duration, _)), .. }) => {
                duration.first_from(now + Span::from_nanos(1)).saturating_sub(1)
            }
            _ => 0,
        }
    }

    /// Occupies the next slot or frame.
    ///
    /// Returns when its content is complete at the receiver, without propagation, and the beginning and end on the line.
    pub(super) fn take(&mut self, sending: Option<&Sending>) -> (Time, [Time; 2]) {
        match self {
            Timing::Grid(grid) => {
                let slot = grid.next;
                grid.next += 1;
                (grid.closes(slot), [slot, slot + 1].map(|slot| grid.slot.at(slot)))
            }
            Timing::Frames(frames) => {
                let begin = frames.next;
                frames.next += sending.map_or(DUMMY_SYMBOLS, |sending| sending.symbols);
                let end = frames.symbol.at(frames.next);
                (end, [frames.symbol.at(begin), end])
            }
        }
    }

    /// Returns the number of slots that have begun; 0 of frames.
    pub(super) fn slots(&self, now: Time) -> u64 {
        match self {
            Timing::Grid(grid) => grid.begun(now),
            Timing::Frames(_) => 0,
        }
    }

    /// Returns the minimum time from an arrival to reception, without propagation.
    pub(super) fn shortest(&self) -> Span {
        match self {
            Timing::Grid(grid) => grid.slot.at(1).since(Time::from_nanos(1)),
            Timing::Frames(frames) => frames.symbol.at(DUMMY_SYMBOLS).since(Time::from_nanos(1)),
        }
    }
}
