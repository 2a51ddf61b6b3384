//! DVB carriers: rates, MODCODs, and the times of slots and frames.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::bbframe;
use bentpipe_wire::ts::PACKET_LEN;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const TS_BITS: u128 = 8 * PACKET_LEN as u128;
/// Bits of a TS packet with Reed-Solomon code (EN 300 421, section 4.4.2).
const RS_BITS: u128 = 8 * 204;
/// Symbols of a dummy PLFRAME: header and 36 slots (EN 302 307-1, section 5.5.1).
const DUMMY_SYMBOLS: u64 = 90 + 36 * 90;
const NANOS: u128 = 1_000_000_000;

/// Rate of DVB-S's convolutional code (EN 300 421, section 4.4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum CodeRate {
    /// 1/2.
    #[serde(rename = "1/2")]
    Half,
    /// 2/3.
    #[serde(rename = "2/3")]
    TwoThirds,
    /// 3/4.
    #[default]
    #[serde(rename = "3/4")]
    ThreeQuarters,
    /// 5/6.
    #[serde(rename = "5/6")]
    FiveSixths,
    /// 7/8.
    #[serde(rename = "7/8")]
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

/// MODCOD: modulation and code rate of DVB-S2.
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

/// Size of DVB-S2 FECFRAMEs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum RollOff {
    /// 0.35.
    #[default]
    #[serde(rename = "0.35")]
    R035,
    /// 0.25.
    #[serde(rename = "0.25")]
    R025,
    /// 0.20.
    #[serde(rename = "0.20")]
    R020,
}

impl RollOff {
    /// Returns the factor in hundredths.
    const fn hundredths(self) -> u64 {
        match self {
            RollOff::R035 => 35,
            RollOff::R025 => 25,
            RollOff::R020 => 20,
        }
    }
}

/// Input streams of a DVB-S2 modulator (EN 302 307-1, section 5.1.6: SIS and MIS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InputStreams {
    /// A single input stream. Frames are shared, and receivers select PDUs by their labels.
    #[default]
    Single,
    /// An input stream for each stream of packets, with separate frames.
    Multiple,
}

/// Change of MODCOD or signal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Time of the change.
    pub at: Span,
    /// MODCOD. Expected: one of `modcod` and `es_n0_db`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modcod: Option<Modcod>,
    /// Es/N0 of the receivers in dB.
    ///
    /// The most efficient MODCOD that it suffices for is used. A frame received below the threshold of its MODCOD is lost.
    #[schemars(range(min = -30.0, max = 50.0))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub es_n0_db: Option<f64>,
}

/// DVB carrier of a multiplex.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Line {
    /// Transport stream of constant rate over any physical layer.
    TransportStream {
        /// Rate, TS headers included. No default.
        rate: Rate,
        /// TS packets sent at a time, completed with NULL packets. Default: 1.
        ///
        /// Models a card with buffers of this size.
        #[serde(default = "one")]
        #[schemars(range(min = 1, max = 1000))]
        group: u32,
        /// Number of buffers of `group` TS packets in the card, even. Default: 2.
        ///
        /// The card sends once half of them are full.
        #[serde(default = "two", skip_serializing_if = "is_two")]
        #[schemars(range(min = 2, max = 100))]
        buffers: u32,
        /// Interval of PAT and PMT, which describe the streams. Default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tables: Option<Span>,
    },
    /// DVB-S (EN 300 421): QPSK with convolutional and Reed-Solomon code.
    DvbS {
        /// Symbols per second. No default.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        symbol_rate: u64,
        /// Rate of the convolutional code. Default: "3/4".
        #[serde(default)]
        code_rate: CodeRate,
        /// Interval of PAT and PMT, which describe the streams. Default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tables: Option<Span>,
    },
    /// DVB-S2 (EN 302 307-1): BBFRAMEs with GSE or with a transport stream.
    DvbS2 {
        /// Symbols per second. No default.
        #[schemars(range(min = 1, max = 1_000_000_000))]
        symbol_rate: u64,
        /// MODCOD, of all frames without `steps`. Default: "QPSK 3/4".
        #[serde(default)]
        modcod: Modcod,
        /// Size of FECFRAMEs. Default: normal.
        #[serde(default)]
        frame: FrameSize,
        /// Enables pilots. Default: false.
        #[serde(default)]
        pilots: bool,
        /// Roll-off, for the bandwidth. Default: "0.35".
        #[serde(default)]
        roll_off: RollOff,
        /// Changes of MODCOD or signal in time (ACM), in the order of their time. Default: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<Step>,
        /// Margin above the threshold of a MODCOD that is chosen, in dB. Default: 0.
        #[serde(default)]
        #[schemars(range(min = 0, max = 20))]
        margin_db: f64,
        /// Delay after which the sender knows the Es/N0. Default: 0 s.
        #[serde(default)]
        reaction: Span,
        /// Input streams of GSE. Default: "single".
        ///
        /// In a single one all streams of a MODCOD share frames, each PDU under the label of its stream. Of multiple ones each stream
        /// has frames of its own.
        #[serde(default)]
        input_streams: InputStreams,
        /// Interval of PAT and PMT, which describe the streams. Default: never. Not with GSE.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tables: Option<Span>,
    },
}

const fn one() -> u32 {
    1
}

const fn two() -> u32 {
    2
}

const fn is_two(buffers: &u32) -> bool {
    *buffers == 2
}

impl Line {
    /// Checks the carrier. `in_frames`: it carries GSE; `varies`: a stream has its own MODCOD.
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn check(&self, in_frames: bool, varies: bool) -> Result<(), InvalidConfig> {
        let is_real = self.tables().is_none_or(|interval| TABLES.contains(&interval) && !in_frames);
        InvalidConfig::ensure(is_real, "tables", "1 ms to 100 s, and none with GSE, which has no PAT")?;
        if let Line::DvbS2 { .. } = self {
            return self.check_s2(in_frames, varies);
        }
        InvalidConfig::ensure(!in_frames, "kind", "\"dvb-s2\": GSE is in baseband frames")?;
        InvalidConfig::ensure(!varies, "kind", "\"dvb-s2\": no other line has MODCODs")?;
        match self {
            Line::TransportStream { rate, group, buffers, .. } => {
                let is_real = (1..=MAX_RATE).contains(&rate.as_bps());
                InvalidConfig::ensure(is_real, "rate", "more than zero, and at most 100 Gbit/s")?;
                InvalidConfig::ensure((1..=1000).contains(group), "group", "1 to 1000 TS packets")?;
                let has_halves = (2..=100).contains(buffers) && buffers.is_multiple_of(2);
                InvalidConfig::ensure(has_halves, "buffers", "an even number from 2 to 100")
            }
            Line::DvbS { symbol_rate, .. } | Line::DvbS2 { symbol_rate, .. } => check_symbols(*symbol_rate),
        }
    }

    fn check_s2(&self, in_frames: bool, varies: bool) -> Result<(), InvalidConfig> {
        let Line::DvbS2 { symbol_rate, modcod, frame, steps, margin_db, reaction, .. } = self else {
            return Ok(());
        };
        check_symbols(*symbol_rate)?;
        let has_frame = |modcod: &Modcod| modcod.0.data_field_len(frame.of_wire()).is_some();
        let expected = "\"normal\": a MODCOD of rate 9/10 has no short FECFRAME";
        let all = [modcod].into_iter().chain(steps.iter().filter_map(|step| step.modcod.as_ref()));
        InvalidConfig::ensure(all.into_iter().all(has_frame), "frame", expected)?;
        let in_order = steps.is_sorted_by_key(|step| step.at);
        InvalidConfig::ensure(in_order, "steps", "steps in the order of their time")?;
        let one_of_two = steps.iter().all(|step| step.modcod.is_some() != step.es_n0_db.is_some());
        InvalidConfig::ensure(one_of_two, "steps", "one of `modcod` and `es_n0_db` in each step")?;
        let is_signal = |es_n0_db| ES_N0_DB.contains(&es_n0_db);
        let is_real = steps.iter().all(|step| step.es_n0_db.is_none_or(is_signal));
        InvalidConfig::ensure(is_real, "es_n0_db", "-30 to 50 dB")?;
        InvalidConfig::ensure(*reaction <= MAX_REACTION, "reaction", "100 s or less")?;
        InvalidConfig::ensure((0.0..=20.0).contains(margin_db), "margin_db", "0 to 20 dB")?;
        let constant = in_frames || (steps.is_empty() && !varies);
        InvalidConfig::ensure(
            constant,
            "steps",
            "none: a transport stream has one MODCOD, GSE may have others",
        )
    }

    /// Returns the interval of PAT and PMT; `None` without them.
    pub const fn tables(&self) -> Option<Span> {
        match self {
            Line::TransportStream { tables, .. } | Line::DvbS { tables, .. } | Line::DvbS2 { tables, .. } => {
                *tables
            }
        }
    }

    /// Returns the rate of TS packets, or of data fields with the first MODCOD.
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

    /// Returns the bandwidth in Hz, roll-off included; `None` if unknown.
    ///
    /// DVB-S has a roll-off of 0.35.
    pub fn bandwidth_hz(&self) -> Option<u64> {
        match self {
            Line::TransportStream { .. } => None,
            Line::DvbS { symbol_rate, .. } => Some(symbol_rate * (100 + RollOff::R035.hundredths()) / 100),
            Line::DvbS2 { symbol_rate, roll_off, .. } => {
                Some(symbol_rate * (100 + roll_off.hundredths()) / 100)
            }
        }
    }

    /// Returns bits of a data field and symbols of a PLFRAME of the first MODCOD.
    fn frame(&self) -> (u128, u128) {
        let Line::DvbS2 { modcod, frame, pilots, .. } = self else { return (0, 1) };
        let bits = modcod.0.data_field_len(frame.of_wire()).unwrap_or(0) * 8;
        (bits as u128, modcod.0.frame_symbols(frame.of_wire(), *pilots).into())
    }

    /// Returns the duration of a TS packet; `None` in frames.
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
            slot: slot.unwrap_or(Ratio { num: 1, den: 1 }),
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
            margin_db,
            reaction,
            input_streams,
            ..
        } = self
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
            input_streams: *input_streams,
        })
    }
}

/// Range of the interval of tables.
const TABLES: RangeInclusive<Span> = Span::from_millis(1)..=Span::from_secs(100);
/// Valid Es/N0 in dB, far beyond the most robust and the most efficient MODCOD.
const ES_N0_DB: RangeInclusive<f64> = -30.0..=50.0;
/// Maximum delay of a sender that learns of the Es/N0.
const MAX_REACTION: Span = Span::from_secs(100);
const MAX_RATE: u64 = 100_000_000_000;

fn check_symbols(symbol_rate: u64) -> Result<(), InvalidConfig> {
    let is_real = (1..=1_000_000_000).contains(&symbol_rate);
    InvalidConfig::ensure(is_real, "symbol_rate", "1 to 1,000,000,000 symbols per second")
}

/// Duration in nanoseconds as a fraction, which does not drift.
///
/// The n-th piece begins after whole nanoseconds, rounded up.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    num: u128,
    den: u128,
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

/// Slots of a transport stream of constant rate.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    slot: Ratio,
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

    /// Returns the number of slots that have begun.
    fn begun(&self, now: Time) -> u64 {
        self.slot.first_from(now + Span::from_nanos(1))
    }
}

/// BBFRAMEs of any MODCODs.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    symbol: Ratio,
    /// First symbol of the next frame at the earliest.
    next: u64,
    modcod: bbframe::Modcod,
    size: bbframe::FrameSize,
    pilots: bool,
    pub(super) roll_off: bbframe::RollOff,
    steps: Vec<Step>,
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
        let frames_per_s = 1e9 * self.symbol.den as f64 / (self.symbol.num as f64 * sending.symbols as f64);
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

    /// Occupies the next slot or frame and returns its end and duration.
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
