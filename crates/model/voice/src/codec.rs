//! Voice codecs as data: frames, RTP payloads, look-ahead, silence compression, equipment impairment.
//!
//! *Models*: lengths and intervals of RTP payloads (RFC 3551, 3389, 3952, 4749, 4867, 5574, 7587), algorithmic delay,
//! comfort noise, and the impairments of G.113 with their source.
//! *Does not model*: the signal itself; G.722 below 64 kbit/s, which RTP carries at 64 kbit/s; octet-aligned AMR; Opus at
//! a variable rate.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::emodel::Impairment;

mod table;

/// First dynamic payload type (RFC 3551, section 3).
const DYNAMIC: u8 = 96;
/// Payload type of comfort noise at 8 kHz (RFC 3389, section 5).
pub const COMFORT_NOISE_TYPE: u8 = 13;
/// Voice codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Codec {
    /// G.711 A-law, 64 kbit/s.
    #[serde(rename = "g711a")]
    G711A,
    /// G.711 mu-law, 64 kbit/s.
    #[serde(rename = "g711u")]
    G711U,
    /// G.722 wide band, 64 kbit/s.
    #[serde(rename = "g722")]
    G722,
    /// G.723.1, 5.3 or 6.3 kbit/s.
    #[serde(rename = "g723.1")]
    G7231,
    /// G.726, 16, 24, 32 or 40 kbit/s.
    #[serde(rename = "g726")]
    G726,
    /// G.728, 16 kbit/s.
    #[serde(rename = "g728")]
    G728,
    /// G.729 or G.729A, 8 kbit/s.
    #[serde(rename = "g729")]
    G729,
    /// G.729.1, 8 kbit/s or 12 to 32 kbit/s in steps of 2.
    #[serde(rename = "g729.1")]
    G7291,
    /// GSM full rate, 13 kbit/s.
    #[serde(rename = "gsm")]
    Gsm,
    /// GSM enhanced full rate, 12.2 kbit/s.
    #[serde(rename = "gsm-efr")]
    GsmEfr,
    /// iLBC, 15.2 kbit/s (frames of 20 ms) or 13.33 kbit/s (30 ms).
    #[serde(rename = "ilbc")]
    Ilbc,
    /// Speex narrow band, 2.15 to 24.6 kbit/s.
    #[serde(rename = "speex")]
    Speex,
    /// AMR, 4.75 to 12.2 kbit/s, bandwidth-efficient.
    #[serde(rename = "amr")]
    Amr,
    /// AMR-WB, 6.6 to 23.85 kbit/s, bandwidth-efficient.
    #[serde(rename = "amr-wb")]
    AmrWb,
    /// Opus at a constant 6 to 510 kbit/s, in frames of 20 ms.
    #[serde(rename = "opus")]
    Opus,
}

/// Scale on which a codec is rated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// 300 to 3400 Hz (G.107).
    Narrow,
    /// 50 to 7000 Hz (G.107.1).
    Wide,
}

/// Packing of frames into an RTP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    /// Whole bytes for each frame.
    Bytes,
    /// A first byte for all frames (RFC 4749).
    HeaderByte,
    /// Bits one after the other, padded at the end (RFC 5574).
    Bits,
    /// Four bits of mode request, and six bits for each frame (RFC 4867, bandwidth-efficient).
    Amr,
    /// TOC byte, and a count of frames from three on (RFC 6716, section 3.2).
    Opus,
}

/// Packets of a codec during silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noise {
    /// RTP payload type; `None`: that of speech.
    pub payload_type: Option<u8>,
    /// Length of the payload in bytes.
    pub len: usize,
    /// Time from the first noise packet of a pause to the second one.
    pub second_after: Option<Span>,
    /// Time between further ones; `None`: they follow changes of the noise only.
    pub interval: Option<Span>,
}

/// Impairments of a codec with their source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rated {
    /// Equipment impairment factor, on the scale of the codec's band.
    pub ie: f64,
    /// Packet loss robustness factor, where one is published.
    pub bpl: Option<f64>,
    /// Source.
    pub source: &'static str,
}

/// Codec at one rate: its frames and packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Codec.
    pub codec: Codec,
    /// RTP payload type.
    pub payload_type: u8,
    /// Rate of RTP's timestamps in hertz.
    pub clock_hz: u32,
    /// Duration of a frame.
    pub frame: Span,
    /// Bits of a frame.
    pub frame_bits: usize,
    /// Speech after a frame that its encoder waits for.
    pub look_ahead: Span,
    /// Scale of the rating.
    pub band: Band,
    /// Impairments, where they are published.
    pub rated: Option<Rated>,
    /// Packets during silence.
    pub noise: Noise,
    packing: Packing,
}

impl Codec {
    /// Every codec.
    pub const ALL: [Codec; 15] = [
        Codec::G711A,
        Codec::G711U,
        Codec::G722,
        Codec::G7231,
        Codec::G726,
        Codec::G728,
        Codec::G729,
        Codec::G7291,
        Codec::Gsm,
        Codec::GsmEfr,
        Codec::Ilbc,
        Codec::Speex,
        Codec::Amr,
        Codec::AmrWb,
        Codec::Opus,
    ];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::G711A => "G.711 A-law",
            Codec::G711U => "G.711 mu-law",
            Codec::G722 => "G.722",
            Codec::G7231 => "G.723.1",
            Codec::G726 => "G.726",
            Codec::G728 => "G.728",
            Codec::G729 => "G.729",
            Codec::G7291 => "G.729.1",
            Codec::Gsm => "GSM full rate",
            Codec::GsmEfr => "GSM enhanced full rate",
            Codec::Ilbc => "iLBC",
            Codec::Speex => "Speex",
            Codec::Amr => "AMR",
            Codec::AmrWb => "AMR-WB",
            Codec::Opus => "Opus",
        }
    }

    /// Returns the format at a rate, or at the codec's default rate.
    ///
    /// # Errors
    /// Returns an error that lists the codec's rates if it does not have this one.
    pub fn format(self, rate: Option<Rate>) -> Result<Format, InvalidConfig> {
        table::format(self, rate.map(Rate::as_bps))
    }
}

impl Format {
    /// Returns the RTP payload of `frames` frames in bytes.
    pub fn payload_len(&self, frames: u32) -> usize {
        let (frames, bits) = (frames as usize, self.frame_bits);
        match self.packing {
            Packing::Bytes => frames * bits.div_ceil(8),
            Packing::HeaderByte => 1 + frames * bits.div_ceil(8),
            Packing::Bits => (frames * bits).div_ceil(8),
            Packing::Amr => (4 + frames * (6 + bits)).div_ceil(8),
            Packing::Opus => (1 + usize::from(frames > 2)) + frames * (bits / 8 - 1),
        }
    }

    /// Returns the number of frames in a packet of about 20 ms.
    pub fn usual_frames(&self) -> u32 {
        (Span::from_millis(20).as_nanos() / self.frame.as_nanos()).max(1) as u32
    }

    /// Returns the time of a packet of `frames` frames.
    ///
    /// # Errors
    /// Returns an error unless that is more than none and at most 200 ms (RFC 3551, section 4.2).
    pub fn interval(&self, frames: u32) -> Result<Span, InvalidConfig> {
        let (most, expected) = self.most_frames();
        InvalidConfig::ensure((1..=most).contains(&frames), "frames", expected)?;
        Ok(self.frame * u64::from(frames))
    }

    /// Returns the maximum number of frames of a packet, and the refusal of others.
    fn most_frames(&self) -> (u32, &'static str) {
        match (self.packing, self.frame.as_nanos() / 1_000_000) {
            (Packing::Opus, _) => (6, "1 to 6 frames of 20 ms (RFC 6716, section 3.2.5)"),
            (_, 10) => (20, "1 to 20 frames of 10 ms (RFC 3551, section 4.2)"),
            (_, 30) => (6, "1 to 6 frames of 30 ms (RFC 3551, section 4.2)"),
            _ => (10, "1 to 10 frames of 20 ms (RFC 3551, section 4.2)"),
        }
    }

    /// Returns the number of RTP clock ticks in a span.
    pub fn ticks(&self, span: Span) -> u64 {
        (u128::from(span.as_nanos()) * u128::from(self.clock_hz) / 1_000_000_000) as u64
    }

    /// Returns the published impairment, if both factors are.
    pub fn impairment(&self) -> Option<Impairment> {
        let rated = self.rated?;
        Some(Impairment { ie: rated.ie, bpl: rated.bpl? })
    }
}

#[cfg(test)]
mod tests;
