//! Packets of codecs: payload bytes, interval, clock, payload type.

use bentpipe_units::{Rate, Span};

/// A voice codec by its RTP payload format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// GSM full rate (RFC 3551, section 4.5.8): 33 bytes for 20 ms.
    Gsm,
    /// G.711 mu-law (RFC 3551, section 4.5.14): 8 bytes for 1 ms.
    Pcmu,
    /// G.711 A-law.
    Pcma,
    /// G.729 (RFC 3551, section 4.5.6): 10 bytes for 10 ms.
    G729,
    /// G.729.1 (RFC 4749): 8 kbit/s, or 12 to 32 in steps of 2. Frames are 20 ms after a header of one byte.
    G7291,
    /// AMR (RFC 4867), eight modes in frames of 20 ms, bandwidth-efficient.
    Amr,
    /// AMR (RFC 4867), octet-aligned.
    AmrOctetAligned,
    /// Opus (RFC 6716, 7587) at a constant 6 to 510 kbit/s, one frame per packet.
    Opus,
}

/// Format and interval of the packets of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// RTP's payload type, 0 to 127.
    pub payload_type: u8,
    /// The rate of RTP's timestamps.
    pub clock_hz: u32,
    /// Bytes of RTP payload.
    pub payload_len: usize,
    /// The time from one packet to the next.
    pub interval: Span,
}

/// Error returned for settings that a codec does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Rate that the codec does not have.
    #[error("{codec} has no rate of {rate}: expected {expected}")]
    Rate {
        /// The codec's name.
        codec: &'static str,
        /// Rate given.
        rate: Rate,
        /// Rates of the codec.
        expected: &'static str,
    },
    /// Interval that frames do not fill.
    #[error("{codec} has no packets of {interval}: expected {expected}")]
    Interval {
        /// The codec's name.
        codec: &'static str,
        /// Interval given.
        interval: Span,
        /// Intervals of the codec.
        expected: &'static str,
    },
}

/// The first payload type without a fixed meaning (RFC 3551, section 3).
const DYNAMIC: u8 = 96;

/// AMR modes: bit/s, and bits of speech in 20 ms (RFC 4867, table 1).
const AMR_MODES: [(u64, usize); 8] = [
    (4750, 95),
    (5150, 103),
    (5900, 118),
    (6700, 134),
    (7400, 148),
    (7950, 159),
    (10_200, 204),
    (12_200, 244),
];

/// Opus's frames (RFC 6716, section 2.1.4), in microseconds.
const OPUS_FRAMES_US: [u64; 6] = [2500, 5000, 10_000, 20_000, 40_000, 60_000];

/// Maximum length of an Opus frame with its TOC byte (RFC 6716, section 3.4).
const OPUS_MAX_LEN: u64 = 1276;

impl Codec {
    /// Every codec.
    pub const ALL: [Codec; 8] = [
        Codec::Gsm,
        Codec::Pcmu,
        Codec::Pcma,
        Codec::G729,
        Codec::G7291,
        Codec::Amr,
        Codec::AmrOctetAligned,
        Codec::Opus,
    ];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::Gsm => "GSM",
            Codec::Pcmu => "PCMU",
            Codec::Pcma => "PCMA",
            Codec::G729 => "G.729",
            Codec::G7291 => "G.729.1",
            Codec::Amr | Codec::AmrOctetAligned => "AMR",
            Codec::Opus => "Opus",
        }
    }

    /// Returns the format of its packets. `rate` chooses among the rates of G.729.1 (16 kbit/s if not given), AMR
    /// (12.2) and Opus (20); packets come each 20 ms if no `interval` is given.
    ///
    /// # Errors
    /// If it has no such rate, or no packets of that interval.
    pub fn format(self, rate: Option<Rate>, interval: Option<Span>) -> Result<Format, FormatError> {
        let interval = interval.unwrap_or(Span::from_millis(20));
        let fixed = |payload_type, bytes_a_frame| (payload_type, 8000, bytes_a_frame);
        let (payload_type, clock_hz, payload_len) = match self {
            Codec::Gsm => fixed(3, self.frames(20, interval)? * self.only(rate, 13_000, 33)?),
            Codec::Pcmu => fixed(0, self.frames(1, interval)? * self.only(rate, 64_000, 8)?),
            Codec::Pcma => fixed(8, self.frames(1, interval)? * self.only(rate, 64_000, 8)?),
            Codec::G729 => fixed(18, self.frames(10, interval)? * self.only(rate, 8000, 10)?),
            Codec::G7291 => (DYNAMIC, 16_000, 1 + self.frames(20, interval)? * self.g7291_frame(rate)?),
            Codec::Amr => {
                let (frames, bits) = (self.frames(20, interval)?, self.amr_bits(rate)?);
                fixed(DYNAMIC, (4 + frames * (6 + bits)).div_ceil(8))
            }
            Codec::AmrOctetAligned => {
                let (frames, bits) = (self.frames(20, interval)?, self.amr_bits(rate)?);
                fixed(DYNAMIC, 1 + frames * (1 + bits.div_ceil(8)))
            }
            Codec::Opus => (DYNAMIC, 48_000, self.opus_len(rate, interval)?),
        };
        Ok(Format { payload_type, clock_hz, payload_len, interval })
    }

    /// The only rate that it has, `bps`, at which a frame has `len` bytes.
    fn only(self, rate: Option<Rate>, bps: u64, len: usize) -> Result<usize, FormatError> {
        match rate {
            Some(rate) if rate.as_bps() != bps => Err(self.no_rate(rate, "none, as it has only one")),
            _ => Ok(len),
        }
    }

    /// Returns the number of frames of `frame_ms` in the interval. That is up to 200 ms (RFC 3551, 4.2).
    fn frames(self, frame_ms: u64, interval: Span) -> Result<usize, FormatError> {
        let frame = Span::from_millis(frame_ms).as_nanos();
        let frames = interval.as_nanos() / frame;
        if interval.as_nanos().is_multiple_of(frame) && frames > 0 && interval <= Span::from_millis(200) {
            return Ok(frames as usize);
        }
        let expected = match frame_ms {
            1 => "whole milliseconds up to 200 ms",
            10 => "a multiple of 10 ms up to 200 ms",
            _ => "a multiple of 20 ms up to 200 ms",
        };
        Err(FormatError::Interval { codec: self.name(), interval, expected })
    }

    fn g7291_frame(self, rate: Option<Rate>) -> Result<usize, FormatError> {
        let rate = rate.unwrap_or(Rate::from_bps(16_000));
        match rate.as_bps() {
            bps @ (8000 | 12_000..=32_000) if bps.is_multiple_of(2000) => Ok(bps as usize / 400),
            _ => Err(self.no_rate(rate, "8 kbit/s, or 12 to 32 kbit/s in steps of 2")),
        }
    }

    fn amr_bits(self, rate: Option<Rate>) -> Result<usize, FormatError> {
        let rate = rate.unwrap_or(Rate::from_bps(12_200));
        let mode = AMR_MODES.iter().find(|(bps, _)| *bps == rate.as_bps());
        let expected = "4.75, 5.15, 5.9, 6.7, 7.4, 7.95, 10.2 or 12.2 kbit/s";
        mode.map(|(_, bits)| *bits).ok_or_else(|| self.no_rate(rate, expected))
    }

    fn opus_len(self, rate: Option<Rate>, interval: Span) -> Result<usize, FormatError> {
        let rate = rate.unwrap_or(Rate::from_bps(20_000));
        if !OPUS_FRAMES_US.map(Span::from_micros).contains(&interval) {
            let expected = "2.5, 5, 10, 20, 40 or 60 ms";
            return Err(FormatError::Interval { codec: self.name(), interval, expected });
        }
        let bits = u128::from(rate.as_bps()) * u128::from(interval.as_nanos()) / 1_000_000_000;
        let len = (bits / 8) as u64;
        if !(6000..=510_000).contains(&rate.as_bps()) || len > OPUS_MAX_LEN {
            let expected = "6 to 510 kbit/s, and no packet over 1276 bytes";
            return Err(self.no_rate(rate, expected));
        }
        Ok(len as usize)
    }

    fn no_rate(self, rate: Rate, expected: &'static str) -> FormatError {
        FormatError::Rate { codec: self.name(), rate, expected }
    }
}

impl Format {
    /// Packets of a given payload length and interval, of no codec in particular.
    pub const fn sized(payload_len: usize, interval: Span, clock_hz: u32) -> Format {
        Format { payload_type: DYNAMIC, clock_hz, payload_len, interval }
    }
}

/// Returns the clock rate of a static payload type (RFC 3551, tables 4 and 5).
pub const fn clock_of_static(payload_type: u8) -> Option<u32> {
    match payload_type {
        0 | 3 | 4 | 5 | 7 | 8 | 9 | 12 | 13 | 15 | 18 => Some(8000),
        6 => Some(16_000),
        10 | 11 => Some(44_100),
        16 => Some(11_025),
        17 => Some(22_050),
        14 | 25 | 26 | 28 | 31..=34 => Some(90_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn len(codec: Codec, bps: Option<u64>, interval_ms: u64) -> Option<usize> {
        let format = codec.format(bps.map(Rate::from_bps), Some(Span::from_millis(interval_ms)));
        format.ok().map(|format| format.payload_len)
    }

    #[test]
    fn payloads_are_as_long_as_their_formats_say() {
        assert_eq!(len(Codec::Gsm, None, 20), Some(33));
        assert_eq!(len(Codec::Gsm, None, 40), Some(66));
        assert_eq!(len(Codec::Pcmu, None, 20), Some(160));
        assert_eq!(len(Codec::Pcma, Some(64_000), 30), Some(240));
        assert_eq!(len(Codec::G729, None, 20), Some(20));
        assert_eq!(len(Codec::G729, None, 30), Some(30));
        assert_eq!(len(Codec::G7291, None, 20), Some(41));
        assert_eq!(len(Codec::G7291, Some(8000), 20), Some(21));
        assert_eq!(len(Codec::G7291, Some(32_000), 40), Some(161));
        // RFC 4867, section 4.3.5.1, has 7.4 kbit/s: 4 + 6 + 148 bits and 2 of padding; section 4.4.5.1 5.9 kbit/s.
        assert_eq!(len(Codec::Amr, Some(7400), 20), Some(20));
        assert_eq!(len(Codec::AmrOctetAligned, Some(5900), 20), Some(17));
        assert_eq!((len(Codec::Amr, None, 20), len(Codec::AmrOctetAligned, None, 20)), (Some(32), Some(33)));
        assert_eq!(len(Codec::Opus, Some(24_000), 20), Some(60));
        assert_eq!(len(Codec::Opus, Some(510_000), 20), Some(1275));
    }

    #[test]
    fn rates_of_speech_are_the_codecs() {
        for (bps, bits) in AMR_MODES {
            assert_eq!(bps * 20, bits as u64 * 1000);
        }
        for codec in Codec::ALL {
            let format = codec.format(None, None).expect("defaults fit");
            assert_eq!(format.interval, Span::from_millis(20));
            let is_static = format.payload_type < DYNAMIC;
            assert_eq!(clock_of_static(format.payload_type), is_static.then_some(8000));
        }
    }

    #[test]
    fn what_a_codec_cannot_do_is_refused_with_what_it_can() {
        assert_eq!(len(Codec::Gsm, None, 30), None);
        assert_eq!(len(Codec::Gsm, Some(8000), 20), None);
        assert_eq!(len(Codec::G729, None, 0), None);
        assert_eq!(len(Codec::Pcmu, None, 201), None);
        assert_eq!(len(Codec::G7291, Some(10_000), 20), None);
        assert_eq!(len(Codec::Opus, Some(510_000), 60), None);
        let error = Codec::Amr.format(Some(Rate::from_bps(9000)), None).expect_err("no such mode");
        assert!(error.to_string().starts_with("AMR has no rate of 9 kbit/s: expected 4.75"), "{error}");
    }
}
