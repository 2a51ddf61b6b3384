//! What TS packets and baseband frames are sent on, and when.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::bbframe;
use bentpipe_wire::ts::PACKET_LEN;

use crate::Impossible;

const TS_BITS: u128 = 8 * PACKET_LEN as u128;
/// Bits of a TS packet behind the Reed-Solomon coder of DVB-S (EN 300 421, section 4.4.2).
const RS_BITS: u128 = 8 * 204;
/// Symbols of a dummy PLFRAME: the PLHEADER and 36 slots of 90 symbols (EN 302 307-1, section 5.5.1).
const DUMMY_SYMBOLS: u64 = 90 + 36 * 90;
const NANOS: u128 = 1_000_000_000;

/// The rate of DVB-S's convolutional code (EN 300 421, section 4.4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
pub enum CodeRate {
    /// 1/2.
    #[cfg_attr(feature = "serde", serde(rename = "1/2"))]
    Half,
    /// 2/3.
    #[cfg_attr(feature = "serde", serde(rename = "2/3"))]
    TwoThirds,
    /// 3/4.
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "3/4"))]
    ThreeQuarters,
    /// 5/6.
    #[cfg_attr(feature = "serde", serde(rename = "5/6"))]
    FiveSixths,
    /// 7/8.
    #[cfg_attr(feature = "serde", serde(rename = "7/8"))]
    SevenEighths,
}

impl CodeRate {
    const fn fraction(self) -> (u128, u128) {
        match self {
            CodeRate::Half => (1, 2),
            CodeRate::TwoThirds => (2, 3),
            CodeRate::ThreeQuarters => (3, 4),
            CodeRate::FiveSixths => (5, 6),
            CodeRate::SevenEighths => (7, 8),
        }
    }
}

/// A modulation and code rate of DVB-S2 by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modcod(pub bbframe::Modcod);

impl Default for Modcod {
    /// QPSK 3/4.
    fn default() -> Modcod {
        Modcod(bbframe::Modcod::new(7).expect("a MODCOD"))
    }
}

impl FromStr for Modcod {
    type Err = bbframe::NoModcod;

    fn from_str(text: &str) -> Result<Modcod, bbframe::NoModcod> {
        text.parse().map(Modcod)
    }
}

impl fmt::Display for Modcod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The length of DVB-S2's FECFRAMEs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum FrameSize {
    /// 64,800 bits.
    #[default]
    Normal,
    /// 16,200 bits.
    Short,
}

impl FrameSize {
    const fn of_wire(self) -> bbframe::FrameSize {
        match self {
            FrameSize::Normal => bbframe::FrameSize::Normal,
            FrameSize::Short => bbframe::FrameSize::Short,
        }
    }
}

/// Spectral roll-off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
pub enum RollOff {
    /// 0.35.
    #[default]
    #[cfg_attr(feature = "serde", serde(rename = "0.35"))]
    R035,
    /// 0.25.
    #[cfg_attr(feature = "serde", serde(rename = "0.25"))]
    R025,
    /// 0.20.
    #[cfg_attr(feature = "serde", serde(rename = "0.20"))]
    R020,
}

impl RollOff {
    /// The factor, in hundredths.
    const fn hundredths(self) -> u64 {
        match self {
            RollOff::R035 => 35,
            RollOff::R025 => 25,
            RollOff::R020 => 20,
        }
    }
}

/// From when on frames are sent with another MODCOD, or received with another signal.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(deny_unknown_fields)
)]
pub struct Step {
    /// From when on.
    pub at: Span,
    /// The MODCOD. One of `modcod` and `es_n0_db`.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub modcod: Option<Modcod>,
    /// Es/N0 of the receivers in dB, from which the MODCOD follows: the most efficient one that it suffices for. A frame that
    /// comes with less than its MODCOD needs is lost.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub es_n0_db: Option<f64>,
}

/// What a multiplex is sent on.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Line {
    /// A transport stream of constant rate, whatever it goes over.
    TransportStream {
        /// Its rate, TS headers included. No default.
        rate: Rate,
        /// How many TS packets are handed over at a time, the missing ones as NULL packets: a card that sends from
        /// buffers of so many. Default: 1.
        #[cfg_attr(feature = "serde", serde(default = "one"), schemars(range(min = 1, max = 1000)))]
        group: u32,
        /// How often PAT and PMT are sent, which name the streams. Default: never.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        tables: Option<Span>,
    },
    /// DVB-S (EN 300 421): QPSK, a convolutional code, and a Reed-Solomon code of 188 bytes in 204.
    DvbS {
        /// Symbols per second. No default.
        #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 1_000_000_000)))]
        symbol_rate: u64,
        /// The convolutional code's rate. Default: "3/4".
        #[cfg_attr(feature = "serde", serde(default))]
        code_rate: CodeRate,
        /// How often PAT and PMT are sent, which name the streams. Default: never.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        tables: Option<Span>,
    },
    /// DVB-S2 (EN 302 307-1): baseband frames with GSE in them, or with a transport stream.
    DvbS2 {
        /// Symbols per second. No default.
        #[cfg_attr(feature = "serde", schemars(range(min = 1, max = 1_000_000_000)))]
        symbol_rate: u64,
        /// The MODCOD, of all frames if there are no `steps`. Default: "QPSK 3/4".
        #[cfg_attr(feature = "serde", serde(default))]
        modcod: Modcod,
        /// The length of FECFRAMEs. Default: normal.
        #[cfg_attr(feature = "serde", serde(default))]
        frame: FrameSize,
        /// Whether there are pilots. Default: false.
        #[cfg_attr(feature = "serde", serde(default))]
        pilots: bool,
        /// Roll-off, for the bandwidth. Default: "0.35".
        #[cfg_attr(feature = "serde", serde(default))]
        roll_off: RollOff,
        /// Changes of MODCOD or signal in time (ACM), in the order of their time. Default: none.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
        steps: Vec<Step>,
        /// How much more Es/N0 than a MODCOD needs there has to be for it to be chosen, in dB. Default: 0.
        #[cfg_attr(feature = "serde", serde(default), schemars(range(min = 0, max = 20)))]
        margin_db: f64,
        /// How late the sender learns of the receivers' Es/N0. Default: "0 s".
        #[cfg_attr(feature = "serde", serde(default))]
        reaction: Span,
        /// How often PAT and PMT are sent, which name the streams. Default: never. Not with GSE.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        tables: Option<Span>,
    },
}

#[cfg(feature = "serde")]
const fn one() -> u32 {
    1
}

impl Line {
    /// Checks what its form does not. `in_frames`: whether it carries GSE, not a transport stream; `varies`: whether a
    /// stream has a MODCOD of its own.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn check(&self, in_frames: bool, varies: bool) -> Result<(), Impossible> {
        let is_real = self.tables().is_none_or(|interval| TABLES.contains(&interval) && !in_frames);
        Impossible::unless(is_real, "tables", "1 ms to 100 s, and none with GSE, which has no PAT")?;
        if let Line::DvbS2 { .. } = self {
            return self.check_s2(in_frames, varies);
        }
        Impossible::unless(!in_frames, "kind", "\"dvb-s2\": GSE is in baseband frames")?;
        Impossible::unless(!varies, "kind", "\"dvb-s2\": no other line has MODCODs")?;
        match self {
            Line::TransportStream { rate, group, .. } => {
                let is_real = (1..=MAX_RATE).contains(&rate.as_bps());
                Impossible::unless(is_real, "rate", "more than zero, and at most 100 Gbit/s")?;
                Impossible::unless((1..=1000).contains(group), "group", "1 to 1000 TS packets")
            }
            Line::DvbS { symbol_rate, .. } | Line::DvbS2 { symbol_rate, .. } => check_symbols(*symbol_rate),
        }
    }

    fn check_s2(&self, in_frames: bool, varies: bool) -> Result<(), Impossible> {
        let Line::DvbS2 { symbol_rate, modcod, frame, steps, margin_db, .. } = self else { return Ok(()) };
        check_symbols(*symbol_rate)?;
        let has_frame = |modcod: &Modcod| modcod.0.data_field_len(frame.of_wire()).is_some();
        let expected = "\"normal\": a MODCOD of rate 9/10 has no short FECFRAME";
        let all = [modcod].into_iter().chain(steps.iter().filter_map(|step| step.modcod.as_ref()));
        Impossible::unless(all.into_iter().all(has_frame), "frame", expected)?;
        let in_order = steps.is_sorted_by_key(|step| step.at);
        Impossible::unless(in_order, "steps", "steps in the order of their time")?;
        let one_of_two = steps.iter().all(|step| step.modcod.is_some() != step.es_n0_db.is_some());
        Impossible::unless(one_of_two, "steps", "one of `modcod` and `es_n0_db` in each step")?;
        let finite = steps.iter().all(|step| step.es_n0_db.is_none_or(f64::is_finite));
        Impossible::unless(finite, "es_n0_db", "a number of dB")?;
        Impossible::unless((0.0..=20.0).contains(margin_db), "margin_db", "0 to 20 dB")?;
        let constant = in_frames || (steps.is_empty() && !varies);
        Impossible::unless(constant, "steps", "none: a transport stream has one MODCOD, GSE may have others")
    }

    /// How often PAT and PMT are sent; `None` if they are not.
    pub const fn tables(&self) -> Option<Span> {
        match self {
            Line::TransportStream { tables, .. } | Line::DvbS { tables, .. } | Line::DvbS2 { tables, .. } => {
                *tables
            }
        }
    }

    /// The rate of TS packets at the receiver, or of data fields with the first MODCOD.
    pub fn rate(&self) -> Rate {
        let bits = match self {
            Line::TransportStream { rate, .. } => return *rate,
            Line::DvbS { .. } => self.slot().map_or(0, |slot| TS_BITS * NANOS * slot.den / slot.num.max(1)),
            Line::DvbS2 { symbol_rate, .. } => {
                let (bits, symbols) = self.frame();
                u128::from(*symbol_rate) * bits / symbols
            }
        };
        Rate::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// The bandwidth in Hz, roll-off included; `None` where that is not known. DVB-S has a roll-off of 0.35.
    pub fn bandwidth_hz(&self) -> Option<u64> {
        match self {
            Line::TransportStream { .. } => None,
            Line::DvbS { symbol_rate, .. } => Some(symbol_rate * (100 + RollOff::R035.hundredths()) / 100),
            Line::DvbS2 { symbol_rate, roll_off, .. } => {
                Some(symbol_rate * (100 + roll_off.hundredths()) / 100)
            }
        }
    }

    /// Bits of a data field and symbols of a PLFRAME of the first MODCOD.
    fn frame(&self) -> (u128, u128) {
        let Line::DvbS2 { modcod, frame, pilots, .. } = self else { return (0, 1) };
        let bits = modcod.0.data_field_len(frame.of_wire()).unwrap_or(0) * 8;
        (bits as u128, modcod.0.frame_symbols(frame.of_wire(), *pilots).into())
    }

    /// How long a TS packet takes; `None` in frames.
    fn slot(&self) -> Option<Ratio> {
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

    /// When TS packets are sent on a line that was checked.
    pub(super) fn grid(&self) -> Grid {
        let group = if let Line::TransportStream { group, .. } = self { u64::from(*group) } else { 1 };
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
        Grid { slot: slot.unwrap_or(Ratio { num: 1, den: 1 }), group, frames, next: 0 }
    }

    /// When baseband frames are sent on a line that was checked; `varies`: whether a stream has a MODCOD of its
    /// own. `None` if it is another line.
    pub(super) fn frames(&self, varies: bool) -> Option<Frames> {
        let Line::DvbS2 { symbol_rate, modcod, frame, pilots, roll_off, steps, margin_db, reaction, .. } =
            self
        else {
            return None;
        };
        Some(Frames {
            symbol: Ratio { num: NANOS, den: (*symbol_rate).into() },
            next: 0,
            modcod: modcod.0,
            size: frame.of_wire(),
            pilots: *pilots,
            roll_off: match roll_off {
                RollOff::R035 => bbframe::RollOff::R035,
                RollOff::R025 => bbframe::RollOff::R025,
                RollOff::R020 => bbframe::RollOff::R020,
            },
            steps: steps.clone(),
            margin_db: *margin_db,
            reaction: *reaction,
            is_constant: steps.is_empty() && !varies,
        })
    }
}

/// How often tables may be sent.
const TABLES: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(100);
const MAX_RATE: u64 = 100_000_000_000;

fn check_symbols(symbol_rate: u64) -> Result<(), Impossible> {
    let is_real = (1..=1_000_000_000).contains(&symbol_rate);
    Impossible::unless(is_real, "symbol_rate", "1 to 1,000,000,000 symbols per second")
}

/// So many nanoseconds a piece, as a fraction: the n-th begins after whole nanoseconds, rounded up, and nothing drifts.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    num: u128,
    den: u128,
}

impl Ratio {
    /// When the n-th begins.
    fn at(self, n: u64) -> Time {
        let nanos = (u128::from(n) * self.num).div_ceil(self.den);
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The first that begins at `time` or later.
    fn first_from(self, time: Time) -> u64 {
        match time.as_nanos().checked_sub(1) {
            None => 0,
            Some(before) => u64::try_from(u128::from(before) * self.den / self.num + 1).unwrap_or(u64::MAX),
        }
    }
}

/// The slots of a transport stream of constant rate.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    slot: Ratio,
    /// What is in this many slots is fixed when the first of them begins.
    group: u64,
    /// How long a baseband frame takes, and the bits of its data field, if the stream is in such.
    frames: Option<(Ratio, u128)>,
    /// The first slot that is not taken.
    next: u64,
}

impl Grid {
    /// When it is fixed what is in a slot: when its group begins, or the frame that its first bit is in.
    fn opens(&self, slot: u64) -> Time {
        let first = slot / self.group * self.group;
        match self.frames {
            Some((frame, bits)) => frame.at((u128::from(first) * TS_BITS / bits) as u64),
            None => self.slot.at(first),
        }
    }

    /// When the first part of a slot has been received: when it ends, or the frame that its first bit is in.
    fn begins_to_arrive(&self, slot: u64) -> Time {
        match self.frames {
            Some((frame, bits)) => frame.at((u128::from(slot) * TS_BITS / bits) as u64 + 1),
            None => self.slot.at(slot + 1),
        }
    }

    /// When a frame ends, if the stream is in such.
    pub(super) fn frame_end(&self, frame: u64) -> Option<Time> {
        self.frames.map(|(duration, _)| duration.at(frame + 1))
    }

    /// When a slot has been received: when it ends, or the frame that its last bit is in.
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
        first.next_multiple_of(self.group)
    }

    /// How many slots have begun.
    fn begun(&self, now: Time) -> u64 {
        self.slot.first_from(now + Span::from_nanos(1))
    }
}

/// The baseband frames of a stream, of whatever MODCOD.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    symbol: Ratio,
    /// The symbol with which the next frame can begin.
    next: u64,
    modcod: bbframe::Modcod,
    size: bbframe::FrameSize,
    pilots: bool,
    pub(super) roll_off: bbframe::RollOff,
    steps: Vec<Step>,
    margin_db: f64,
    reaction: Span,
    /// Whether all frames have the same MODCOD: what is not used goes as frames of padding. Otherwise as dummy PLFRAMEs.
    pub(super) is_constant: bool,
}

/// With what a frame is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub(super) modcod: bbframe::Modcod,
    /// Bytes of its data field.
    pub(super) capacity: usize,
    symbols: u64,
    /// Whether the receivers have the signal that it needs.
    pub(super) is_received: bool,
}

impl Frames {
    /// The mode adaptation header of the `number`-th frame.
    pub(super) fn adaptation(&self, modcod: bbframe::Modcod, number: u64) -> bbframe::Adaptation {
        let (modcod, size, has_pilots) = (Some(modcod), self.size, self.pilots);
        bbframe::Adaptation { modcod, size, has_pilots, carrier_to_noise: 0, number: number as u8 }
    }

    /// The same where all frames have one MODCOD.
    pub(super) fn adaptation_of_all(&self, number: u64) -> bbframe::Adaptation {
        self.adaptation(self.modcod, number)
    }

    /// Bytes of a data field where all frames have one MODCOD.
    pub(super) fn field_len(&self) -> usize {
        self.modcod.data_field_len(self.size).unwrap_or(0)
    }

    fn symbols(&self, modcod: bbframe::Modcod) -> u64 {
        modcod.frame_symbols(self.size, self.pilots).into()
    }

    /// The symbol with which the first frame at `time` or later can begin, if nothing is sent before.
    fn first_from(&self, time: Time) -> u64 {
        let idle = if self.is_constant { self.symbols(self.modcod) } else { DUMMY_SYMBOLS };
        let wanted = self.symbol.first_from(time);
        self.next + wanted.saturating_sub(self.next).div_ceil(idle) * idle
    }

    /// The step that holds at a time.
    fn step(&self, time: Time) -> Option<&Step> {
        let held = self.steps.partition_point(|step| Time::ZERO + step.at <= time);
        self.steps[..held].last()
    }

    /// How a frame of a stream that begins at `time` is sent.
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

    /// The most efficient MODCOD for this Es/N0; the most robust one if it suffices for none.
    fn most_efficient(&self, es_n0_db: f64) -> bbframe::Modcod {
        let efficiency = |modcod: &bbframe::Modcod| modcod.efficiency(self.size, self.pilots).unwrap_or(0.0);
        let possible = bbframe::MODCODS.into_iter().filter(|modcod| modcod.es_n0_db() <= es_n0_db);
        let best = possible.max_by(|a, b| efficiency(a).total_cmp(&efficiency(b)));
        best.unwrap_or(bbframe::MODCODS[0])
    }
}

/// When what is sent.
#[derive(Clone, Debug)]
pub(super) enum Timing {
    Grid(Grid),
    Frames(Frames),
}

impl Timing {
    /// Nothing that comes at `now` is in a slot or frame that had begun.
    pub(super) fn seek(&mut self, now: Time) {
        match self {
            Timing::Grid(grid) => grid.next = grid.next.max(grid.first_from(now)),
            Timing::Frames(frames) => frames.next = frames.first_from(now),
        }
    }

    /// When it is fixed what the first slot or frame from `time` on has in it.
    pub(super) fn opens(&self, time: Time) -> Time {
        match self {
            Timing::Grid(grid) => grid.opens(grid.next.max(grid.first_from(time))),
            Timing::Frames(frames) => frames.symbol.at(frames.first_from(time)),
        }
    }

    /// When the first of it has been received at the earliest, without propagation.
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

    /// The number of the next slot, or that of its first symbol of a frame.
    pub(super) fn next(&self) -> u64 {
        match self {
            Timing::Grid(grid) => grid.next,
            Timing::Frames(frames) => frames.next,
        }
    }

    /// When the frame of this number has been received, where TS packets are in frames; without propagation.
    pub(super) fn frame_end(&self, frame: u64) -> Time {
        match self {
            Timing::Grid(grid) => grid.frame_end(frame).unwrap_or(Time::NEVER),
            Timing::Frames(_) => Time::NEVER,
        }
    }

    /// The frame that is under way, where TS packets are in frames.
    pub(super) fn frame_at(&self, now: Time) -> u64 {
        match self {
            Timing::Grid(Grid { frames: Some((duration, _)), .. }) => {
                duration.first_from(now + Span::from_nanos(1)).saturating_sub(1)
            }
            _ => 0,
        }
    }

    /// Takes the next slot, or a frame that begins at once and is sent so: when it has been received, without propagation,
    /// and for how long the line is taken.
    pub(super) fn take(&mut self, sending: Option<&Sending>) -> (Time, Span) {
        match self {
            Timing::Grid(grid) => {
                let slot = grid.next;
                grid.next += 1;
                (grid.closes(slot), grid.slot.at(slot + 1).since(grid.slot.at(slot)))
            }
            Timing::Frames(frames) => {
                let begin = frames.next;
                frames.next += sending.map_or(DUMMY_SYMBOLS, |sending| sending.symbols);
                let end = frames.symbol.at(frames.next);
                (end, end.since(frames.symbol.at(begin)))
            }
        }
    }

    /// How many slots have begun; nothing where there are none.
    pub(super) fn slots(&self, now: Time) -> u64 {
        match self {
            Timing::Grid(grid) => grid.begun(now),
            Timing::Frames(_) => 0,
        }
    }

    /// The least time from what comes in to what is received, without propagation.
    pub(super) fn shortest(&self) -> Span {
        match self {
            Timing::Grid(grid) => grid.slot.at(1).since(Time::from_nanos(1)),
            Timing::Frames(frames) => frames.symbol.at(DUMMY_SYMBOLS).since(Time::from_nanos(1)),
        }
    }
}
