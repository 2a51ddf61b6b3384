//! Settings of a space data link, and the lengths that follow.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::space::tm::Trailer;
use bentpipe_wire::space::{
    MAX_FRAME_LEN, PROXIMITY_MARKER, SYNC_MARKER, aos, crc, proximity, reed_solomon, tm,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fastest channel, in symbols per second.
const MAX_RATE: Rate = Rate::from_bps(10_000_000_000);
/// Length of frames without a code that has its own, in bytes.
const USUAL_LEN: usize = 1115;
/// Shortest data field in bytes.
const MIN_FIELD: usize = 8;

/// Transfer frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SpaceFrame")]
pub enum Frame {
    /// Telemetry frame of constant length (CCSDS 132.0-B).
    #[default]
    Tm,
    /// Frame of advanced orbiting systems, of constant length (CCSDS 732.0-B).
    Aos,
    /// Proximity-1 frame, as long as its packets (CCSDS 211.0-B).
    #[serde(rename = "proximity-1")]
    Proximity1,
}

/// Code of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "SpaceCoding")]
pub enum Coding {
    /// No code.
    #[default]
    None,
    /// Convolutional code of rate 1/2, with a Viterbi decoder.
    Convolutional,
    /// Reed-Solomon code (255, 223), interleaved.
    ReedSolomon,
    /// Reed-Solomon code inside the convolutional code.
    Concatenated,
    /// Turbo code of rate 1/2 for frames of 1115 B, by table.
    #[serde(rename = "turbo-1/2")]
    Turbo12,
    /// Turbo code of rate 1/3 for frames of 1115 B, by table.
    #[serde(rename = "turbo-1/3")]
    Turbo13,
    /// Turbo code of rate 1/4 for frames of 1115 B, by table.
    #[serde(rename = "turbo-1/4")]
    Turbo14,
    /// Turbo code of rate 1/6 for frames of 1115 B, by table.
    #[serde(rename = "turbo-1/6")]
    Turbo16,
    /// LDPC code (AR4JA) of rate 1/2, by table. Frames have 128 B, 512 B or 2048 B.
    #[serde(rename = "ldpc-1/2")]
    Ldpc12,
    /// LDPC code (AR4JA) of rate 2/3, by table. Frames have 128 B, 512 B or 2048 B.
    #[serde(rename = "ldpc-2/3")]
    Ldpc23,
    /// LDPC code (AR4JA) of rate 4/5, by table. Frames have 128 B, 512 B or 2048 B.
    #[serde(rename = "ldpc-4/5")]
    Ldpc45,
    /// LDPC code (C2) of rate 7/8 for frames of 892 B, by table.
    #[serde(rename = "ldpc-7/8")]
    Ldpc78,
}

impl Coding {
    /// Returns `true` if the convolutional code is part of it.
    pub(crate) fn is_convolutional(self) -> bool {
        matches!(self, Coding::Convolutional | Coding::Concatenated)
    }

    /// Returns the rate of a turbo code as one over a number.
    fn turbo(self) -> Option<usize> {
        match self {
            Coding::Turbo12 => Some(2),
            Coding::Turbo13 => Some(3),
            Coding::Turbo14 => Some(4),
            Coding::Turbo16 => Some(6),
            _ => None,
        }
    }

    /// Returns the rate of an LDPC code as a fraction.
    fn ldpc(self) -> Option<(usize, usize)> {
        match self {
            Coding::Ldpc12 => Some((1, 2)),
            Coding::Ldpc23 => Some((2, 3)),
            Coding::Ldpc45 => Some((4, 5)),
            Coding::Ldpc78 => Some((7, 8)),
            _ => None,
        }
    }

    /// Returns `true` if its losses come from a table.
    pub(crate) fn is_by_table(self) -> bool {
        self.turbo().is_some() || self.ldpc().is_some()
    }
}

/// Packets in transfer frames of a space data link, instead of a line.
///
/// The rate is that of channel symbols, and errors are those of the channel: what a decoder leaves of them is found by decoding.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Rate of symbols on the channel, coding and sync markers included.
    #[schemars(extend("x-change" = true))]
    pub rate: Rate,
    /// Transfer frame. Default: "tm".
    #[serde(default)]
    #[schemars(extend("x-change" = true))]
    pub frame: Frame,
    /// Length of a frame before coding; of Proximity-1 the longest. Default: what the code needs, or else 1115 B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-change" = true))]
    pub frame_length: Option<Bytes>,
    /// Code. Default: "none".
    #[serde(default)]
    #[schemars(extend("x-change" = true))]
    pub coding: Coding,
    /// Interleaving depth of the Reed-Solomon code: codewords of a frame. Default: 5.
    #[serde(default = "interleaving")]
    #[schemars(range(min = 1, max = 8), extend("x-change" = true))]
    pub interleaving: u8,
    /// Probability of a wrong symbol on the channel, before decoding. Decisions are hard. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 0.5), extend("x-change" = true))]
    pub ber: Option<f64>,
    /// Es/N0 of channel symbols in dB, BPSK with white noise. The Viterbi decoder gets soft symbols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -30.0, max = 60.0), extend("x-change" = true))]
    pub es_n0_db: Option<f64>,
    /// Enables the frame error control field of TM and AOS, a CRC-16. Default: true.
    #[serde(default = "yes")]
    #[schemars(extend("x-change" = true))]
    pub frame_check: bool,
    /// Enables the operational control field of TM and AOS, four bytes. Default: false.
    #[serde(default)]
    #[schemars(extend("x-change" = true))]
    pub control_field: bool,
    /// Enables LTP segments and bundles straight in encapsulation packets, without their IP and UDP headers. Default: false.
    #[serde(default)]
    #[schemars(extend("x-change" = true))]
    pub native: bool,
}

fn interleaving() -> u8 {
    5
}

fn yes() -> bool {
    true
}

/// Lengths of a link's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Length of a frame; of Proximity-1 the longest, without its CRC.
    pub(crate) frame: usize,
    /// Bytes of packets in a frame.
    pub(crate) field: usize,
    /// Channel symbols of a frame, with marker and code.
    pub(crate) symbols: u64,
}

impl Config {
    /// Creates settings of TM frames at a rate, without code and errors.
    pub fn new(rate: Rate) -> Config {
        Config {
            rate,
            frame: Frame::Tm,
            frame_length: None,
            coding: Coding::None,
            interleaving: interleaving(),
            ber: None,
            es_n0_db: None,
            frame_check: true,
            control_field: false,
            native: false,
        }
    }

    /// Returns the trailer of TM and AOS frames.
    pub(crate) fn trailer(&self) -> Trailer {
        Trailer { has_control: self.control_field, has_crc: self.frame_check }
    }

    /// Returns the interleaving depth.
    pub(crate) fn depth(&self) -> usize {
        usize::from(self.interleaving)
    }

    fn frame_len(&self) -> usize {
        let needed = match self.coding {
            Coding::ReedSolomon | Coding::Concatenated => reed_solomon::DATA * self.depth(),
            Coding::Ldpc12 | Coding::Ldpc23 | Coding::Ldpc45 => 2048,
            Coding::Ldpc78 => 892,
            _ => USUAL_LEN,
        };
        self.frame_length.map_or(needed, |len| usize::try_from(len.get()).unwrap_or(usize::MAX))
    }

    /// Returns the lengths of frames.
    ///
    /// # Errors
    /// Returns the key whose value is impossible.
    pub(crate) fn layout(&self) -> Result<Layout, InvalidConfig> {
        let is_possible = self.rate.as_bps() > 0 && self.rate <= MAX_RATE;
        InvalidConfig::ensure(is_possible, "rate", "above zero, up to 10 Gbit/s")?;
        let is_ber = self.ber.is_none_or(|ber| (0.0..=0.5).contains(&ber));
        InvalidConfig::ensure(is_ber, "ber", "0 to 0.5")?;
        let is_es_n0 = self.es_n0_db.is_none_or(|es_n0| (-30.0..=60.0).contains(&es_n0));
        InvalidConfig::ensure(is_es_n0, "es_n0_db", "-30 to 60 dB")?;
        let is_one = self.ber.is_none() || self.es_n0_db.is_none();
        InvalidConfig::ensure(
            is_one,
            "ber",
            "one of `ber` and `es_n0_db`; set all of `medium` to change to the other",
        )?;
        let is_deep = (1..=reed_solomon::MAX_DEPTH).contains(&self.depth());
        InvalidConfig::ensure(is_deep, "interleaving", "1 to 8")?;
        let frame = self.frame_len();
        self.check_coding(frame)?;
        let headers = match self.frame {
            Frame::Tm => tm::Repr::buffer_len(0, self.trailer()),
            Frame::Aos => aos::Repr::buffer_len(0, self.trailer()),
            Frame::Proximity1 => proximity::HEADER_LEN,
        };
        let field = frame.checked_sub(headers).filter(|field| *field >= MIN_FIELD && frame <= MAX_FRAME_LEN);
        let field = field.ok_or(InvalidConfig::new("frame_length", "24 B to 2048 B"))?;
        Ok(Layout { frame, field, symbols: self.symbols(frame) })
    }

    fn check_coding(&self, frame: usize) -> Result<(), InvalidConfig> {
        if self.frame == Frame::Proximity1 {
            let is_possible = matches!(self.coding, Coding::None | Coding::Convolutional);
            return InvalidConfig::ensure(
                is_possible,
                "coding",
                "\"none\" or \"convolutional\", with frames of Proximity-1",
            );
        }
        let (key, expected, holds) = match self.coding {
            Coding::ReedSolomon | Coding::Concatenated => (
                "frame_length",
                "a multiple of `interleaving` up to 223 B times it",
                reed_solomon::check_len(frame, self.depth()).is_ok(),
            ),
            Coding::Turbo12 | Coding::Turbo13 | Coding::Turbo14 | Coding::Turbo16 => {
                ("frame_length", "1115 B, as the table of turbo codes has", frame == USUAL_LEN)
            }
            Coding::Ldpc12 | Coding::Ldpc23 | Coding::Ldpc45 => {
                ("frame_length", "128 B, 512 B or 2048 B, as the code has", [128, 512, 2048].contains(&frame))
            }
            Coding::Ldpc78 => ("frame_length", "892 B, as the code has", frame == 892),
            Coding::None | Coding::Convolutional => return Ok(()),
        };
        InvalidConfig::ensure(holds, key, expected)
    }

    /// Returns the channel symbols of a frame. Of Proximity-1 `frame` is without the CRC.
    pub(crate) fn symbols(&self, frame: usize) -> u64 {
        let marker = SYNC_MARKER.len();
        let symbols = match (self.frame, self.coding) {
            (Frame::Proximity1, coding) => {
                let bits = 8 * (PROXIMITY_MARKER.len() + frame + crc::PROXIMITY_LEN);
                if coding == Coding::Convolutional { 2 * bits } else { bits }
            }
            (_, Coding::None) => 8 * (marker + frame),
            (_, Coding::Convolutional) => 16 * (marker + frame),
            (_, Coding::ReedSolomon) => 8 * (marker + frame + reed_solomon::PARITY * self.depth()),
            (_, Coding::Concatenated) => 16 * (marker + frame + reed_solomon::PARITY * self.depth()),
            (_, coding) => match (coding.turbo(), coding.ldpc()) {
                // The marker grows with the code; the trellis ends with four bits.
                (Some(n), _) => n * (8 * frame + 4) + 32 * n,
                (_, Some((k, n))) => 8 * frame * n / k + if n == 8 { 32 } else { 64 },
                _ => 8 * (marker + frame),
            },
        };
        symbols as u64
    }
}
