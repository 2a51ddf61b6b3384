//! DVB carriers: rates, MODCODs, and the times of slots and frames.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use bentpipe_net::InvalidConfig;
pub use bentpipe_net::channel::CodeRate;
use bentpipe_units::{Rate, Span};
use bentpipe_wire::bbframe;
use bentpipe_wire::ts::PACKET_LEN;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bits of a TS packet.
pub(super) const TS_BITS: u128 = 8 * PACKET_LEN as u128;
/// Bits of a TS packet with Reed-Solomon code (EN 300 421, section 4.4.2).
pub(super) const RS_BITS: u128 = 8 * 204;
/// Nanoseconds in a second.
pub(super) const NANOS: u128 = 1_000_000_000;

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
    pub(super) const fn of_wire(self) -> bbframe::FrameSize {
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
        #[schemars(extend("x-change" = true))]
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
        #[schemars(range(min = 1, max = 1_000_000_000), extend("x-change" = true))]
        symbol_rate: u64,
        /// Rate of the convolutional code. Default: "3/4".
        #[serde(default)]
        #[schemars(extend("x-change" = true))]
        code_rate: CodeRate,
        /// Interval of PAT and PMT, which describe the streams. Default: never.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tables: Option<Span>,
    },
    /// DVB-S2 (EN 302 307-1): BBFRAMEs with GSE or with a transport stream.
    DvbS2 {
        /// Symbols per second. No default.
        #[schemars(range(min = 1, max = 1_000_000_000), extend("x-change" = true))]
        symbol_rate: u64,
        /// MODCOD, of all frames without `es_n0_db` and `steps`. Default: "QPSK 3/4".
        #[serde(default)]
        #[schemars(extend("x-change" = true))]
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
        /// Es/N0 of the receivers in dB, for adaptive coding and modulation (ACM). Default: none, the MODCOD stays.
        ///
        /// The most efficient MODCOD that it suffices for is used, and a frame below the threshold of its MODCOD is lost. An event
        /// changes it; a change cancels the `steps` to come. Only with GSE.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = -30.0, max = 50.0), extend("x-change" = true))]
        es_n0_db: Option<f64>,
        /// Changes of MODCOD or signal in time (ACM), in the order of their time. Default: none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<Step>,
        /// Margin above the threshold of a MODCOD that is chosen, in dB. Default: 0.
        #[serde(default)]
        #[schemars(range(min = 0, max = 20), extend("x-change" = true))]
        margin_db: f64,
        /// Delay after which the sender knows the Es/N0. Default: 0 s.
        #[serde(default)]
        #[schemars(extend("x-change" = true))]
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
        let Line::DvbS2 { symbol_rate, modcod, frame, steps, es_n0_db, margin_db, reaction, .. } = self
        else {
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
        let signals = steps.iter().map(|step| step.es_n0_db).chain([*es_n0_db]);
        let is_real = signals.flatten().all(is_signal);
        InvalidConfig::ensure(is_real, "es_n0_db", "-30 to 50 dB")?;
        InvalidConfig::ensure(*reaction <= MAX_REACTION, "reaction", "100 s or less")?;
        InvalidConfig::ensure((0.0..=20.0).contains(margin_db), "margin_db", "0 to 20 dB")?;
        let constant = in_frames || (!self.is_adaptive() && !varies);
        InvalidConfig::ensure(
            constant,
            "steps",
            "none: a transport stream has one MODCOD, GSE may have others",
        )
    }

    /// Returns `true` if its frames have other MODCODs in time.
    pub(super) fn is_adaptive(&self) -> bool {
        matches!(self, Line::DvbS2 { steps, es_n0_db, .. } if !steps.is_empty() || es_n0_db.is_some())
    }

    /// Returns the key that keeps a running line from becoming `after`; `None` if it may.
    ///
    /// `in_frames`: it carries GSE.
    pub fn fixed_key(&self, after: &Line, in_frames: bool) -> Option<&'static str> {
        let same = self.with_rates_of(after) == *after;
        match (self, after) {
            (
                Line::DvbS2 { symbol_rate, modcod, .. },
                Line::DvbS2 { symbol_rate: symbols, modcod: other, .. },
            ) if !in_frames && (symbol_rate, modcod) != (symbols, other) => {
                Some(if symbol_rate == symbols { "modcod" } else { "symbol_rate" })
            }
            (Line::DvbS2 { es_n0_db: None, .. }, Line::DvbS2 { es_n0_db: Some(_), .. })
            | (Line::DvbS2 { es_n0_db: Some(_), .. }, Line::DvbS2 { es_n0_db: None, .. }) => Some("es_n0_db"),
            _ if same => None,
            _ => Some(""),
        }
    }

    /// Returns the line with what of another one may change while it runs.
    fn with_rates_of(&self, other: &Line) -> Line {
        let mut line = self.clone();
        match (&mut line, other) {
            (Line::TransportStream { rate, .. }, Line::TransportStream { rate: new, .. }) => *rate = *new,
            (
                Line::DvbS { symbol_rate, code_rate, .. },
                Line::DvbS { symbol_rate: symbols, code_rate: code, .. },
            ) => (*symbol_rate, *code_rate) = (*symbols, *code),
            (
                Line::DvbS2 { symbol_rate, modcod, es_n0_db, margin_db, reaction, .. },
                Line::DvbS2 {
                    symbol_rate: symbols,
                    modcod: new,
                    es_n0_db: signal,
                    margin_db: margin,
                    reaction: delay,
                    ..
                },
            ) => {
                (*symbol_rate, *modcod, *es_n0_db, *margin_db, *reaction) =
                    (*symbols, *new, *signal, *margin, *delay)
            }
            _ => {}
        }
        line
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
