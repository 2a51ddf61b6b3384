//! Table of codecs and their rates.

use bentpipe_net::InvalidConfig;
use bentpipe_units::Span;

use super::{Band, COMFORT_NOISE_TYPE, Codec, DYNAMIC, Format, Noise, Packing, Rated};

/// Source of most narrow-band factors.
const G113: &str = "ITU-T G.113, appendix I";
/// Source of the wide-band factors.
const G113_WIDE: &str = "ITU-T G.113, appendix IV";
/// Robustness of wide-band codecs, which is uncertain.
const WIDE_BPL: f64 = 4.3;

/// Comfort noise with one level byte, sent once a pause begins (RFC 3389).
const COMFORT_NOISE: Noise =
    Noise { payload_type: Some(COMFORT_NOISE_TYPE), len: 1, second_after: None, interval: None };

/// Rate in bit/s, bits of a frame, Ie, Bpl.
type Mode = (u64, usize, Option<f64>, Option<f64>);

/// AMR (RFC 4867, table 1). G.113 has no Bpl below 12.2 kbit/s.
const AMR: [Mode; 8] = [
    (12_200, 244, Some(5.0), Some(10.0)),
    (10_200, 204, Some(6.0), None),
    (7950, 159, Some(10.0), None),
    (7400, 148, Some(12.0), None),
    (6700, 134, Some(14.0), None),
    (5900, 118, Some(16.5), None),
    (5150, 103, Some(19.5), None),
    (4750, 95, Some(21.0), None),
];

/// AMR-WB (RFC 4867, table 1; 3GPP TS 26.201).
const AMR_WB: [Mode; 9] = [
    (12_650, 253, Some(13.0), Some(WIDE_BPL)),
    (6600, 132, Some(41.0), Some(WIDE_BPL)),
    (8850, 177, Some(26.0), Some(WIDE_BPL)),
    (14_250, 285, Some(10.0), Some(WIDE_BPL)),
    (15_850, 317, Some(7.0), Some(WIDE_BPL)),
    (18_250, 365, Some(5.0), Some(WIDE_BPL)),
    (19_850, 397, Some(4.0), Some(WIDE_BPL)),
    (23_050, 461, Some(1.0), Some(WIDE_BPL)),
    (23_850, 477, Some(8.0), Some(WIDE_BPL)),
];

/// Speex narrow band (RFC 5574, section 4.1.1; bits of the Speex manual).
const SPEEX: [Mode; 8] = [
    (15_000, 300, None, None),
    (2150, 43, None, None),
    (3950, 79, None, None),
    (5950, 119, None, None),
    (8000, 160, None, None),
    (11_000, 220, None, None),
    (18_200, 364, None, None),
    (24_600, 492, None, None),
];

/// G.726 in blocks of 10 ms (RFC 3551, section 4.5.4).
const G726: [Mode; 4] = [
    (32_000, 320, Some(7.0), None),
    (40_000, 400, Some(2.0), None),
    (24_000, 240, Some(25.0), None),
    (16_000, 160, Some(50.0), None),
];

/// Returns the mode of a rate; without a rate the first one.
fn mode(modes: &[Mode], bps: Option<u64>, expected: &'static str) -> Result<Mode, InvalidConfig> {
    let found = modes.iter().find(|mode| bps.is_none_or(|bps| mode.0 == bps));
    found.copied().ok_or(InvalidConfig::new("rate", expected))
}

/// Returns a format at 8 kHz with whole bytes for each frame. Its noise is that of RFC 3389.
fn narrow(codec: Codec, payload_type: u8, frame_ms: u64, mode: Mode) -> Format {
    let (_, frame_bits, ie, bpl) = mode;
    Format {
        codec,
        payload_type,
        clock_hz: 8000,
        frame: Span::from_millis(frame_ms),
        frame_bits,
        look_ahead: Span::ZERO,
        band: Band::Narrow,
        rated: ie.map(|ie| Rated { ie, bpl, source: G113 }),
        noise: COMFORT_NOISE,
        packing: Packing::Bytes,
    }
}

/// Returns noise frames in the codec's own format.
const fn own_noise(len: usize, second_after_ms: Option<u64>, interval_ms: Option<u64>) -> Noise {
    let second_after = match second_after_ms {
        Some(ms) => Some(Span::from_millis(ms)),
        None => None,
    };
    let interval = match interval_ms {
        Some(ms) => Some(Span::from_millis(ms)),
        None => None,
    };
    Noise { payload_type: None, len, second_after, interval }
}

/// Returns the format of a codec at a rate.
pub(super) fn format(codec: Codec, bps: Option<u64>) -> Result<Format, InvalidConfig> {
    let only = |mode_of: Mode, expected| mode(&[mode_of], bps, expected);
    Ok(match codec {
        Codec::G711A | Codec::G711U => {
            let payload_type = if codec == Codec::G711A { 8 } else { 0 };
            // Bpl is that of concealment by G.711's appendix I.
            let mode = only((64_000, 640, Some(0.0), Some(25.1)), "\"64 kbit/s\", the only rate of G.711")?;
            narrow(codec, payload_type, 10, mode)
        }
        Codec::G722 => {
            let mode = only(
                (64_000, 640, Some(13.0), Some(WIDE_BPL)),
                "\"64 kbit/s\": RTP carries G.722 at no other",
            )?;
            let format = narrow(codec, 9, 10, mode);
            wide(Format { look_ahead: Span::from_micros(1500), ..format })
        }
        Codec::G7231 => {
            let modes = [(6300, 192, Some(15.0), Some(16.1)), (5300, 160, Some(19.0), None)];
            let format = narrow(codec, 4, 30, mode(&modes, bps, "\"6.3 kbit/s\" or \"5.3 kbit/s\"")?);
            Format { look_ahead: Span::from_micros(7500), noise: own_noise(4, None, None), ..format }
        }
        Codec::G726 => {
            let mode = mode(&G726, bps, "\"16 kbit/s\", \"24 kbit/s\", \"32 kbit/s\" or \"40 kbit/s\"")?;
            narrow(codec, DYNAMIC, 10, mode)
        }
        Codec::G728 => {
            let mode = only((16_000, 160, Some(7.0), None), "\"16 kbit/s\", the only rate of G.728")?;
            narrow(codec, 15, 10, mode)
        }
        Codec::G729 => {
            let mode = only((8000, 80, Some(11.0), Some(19.0)), "\"8 kbit/s\", the only rate of G.729")?;
            let format = narrow(codec, 18, 10, mode);
            Format { look_ahead: Span::from_millis(5), noise: own_noise(2, None, None), ..format }
        }
        Codec::G7291 => g7291(bps)?,
        Codec::Gsm => {
            let mode = only((13_000, 264, Some(20.0), None), "\"13 kbit/s\", the only rate of GSM")?;
            narrow(codec, 3, 20, mode)
        }
        Codec::GsmEfr => {
            let mode =
                only((12_200, 248, Some(5.0), Some(10.0)), "\"12.2 kbit/s\", the only rate of GSM EFR")?;
            Format { look_ahead: Span::from_millis(5), ..narrow(codec, DYNAMIC, 20, mode) }
        }
        Codec::Ilbc => ilbc(bps)?,
        Codec::Speex => {
            let expected = "2.15, 3.95, 5.95, 8, 11, 15, 18.2 or 24.6 kbit/s";
            let format = narrow(codec, DYNAMIC, 20, mode(&SPEEX, bps, expected)?);
            Format { look_ahead: Span::from_millis(10), packing: Packing::Bits, ..format }
        }
        Codec::Amr => amr(bps)?,
        Codec::AmrWb => amr_wb(bps)?,
        Codec::Opus => opus(bps)?,
    })
}

/// Returns a format that is rated on the wide-band scale.
fn wide(format: Format) -> Format {
    let rated = format.rated.map(|rated| Rated { source: G113_WIDE, ..rated });
    Format { band: Band::Wide, rated, ..format }
}

/// Returns G.729.1, which G.113 does not rate on either scale.
fn g7291(bps: Option<u64>) -> Result<Format, InvalidConfig> {
    let bps = bps.unwrap_or(16_000);
    let is_rate = bps == 8000 || (12_000..=32_000).contains(&bps) && bps.is_multiple_of(2000);
    InvalidConfig::ensure(is_rate, "rate", "\"8 kbit/s\", or 12 to 32 kbit/s in steps of 2")?;
    let format = narrow(Codec::G7291, DYNAMIC, 20, (bps, bps as usize / 50, None, None));
    Ok(Format { clock_hz: 16_000, look_ahead: Span::from_millis(25), packing: Packing::HeaderByte, ..format })
}

/// Returns iLBC (RFC 3951, 3952). Its Ie of 11 and Bpl of 32 circulate without a Recommendation.
fn ilbc(bps: Option<u64>) -> Result<Format, InvalidConfig> {
    let expected = "\"15.2 kbit/s\" (20 ms) or \"13.33 kbit/s\" (30 ms)";
    let modes = [(15_200, 304, Some(11.0), Some(32.0)), (13_330, 400, Some(11.0), Some(32.0))];
    let mode = mode(&modes, bps, expected)?;
    let frame_ms = if mode.0 == 15_200 { 20 } else { 30 };
    let format = narrow(Codec::Ilbc, DYNAMIC, frame_ms, mode);
    let source = "values in circulation; not in G.113";
    Ok(Format { rated: format.rated.map(|rated| Rated { source, ..rated }), ..format })
}

fn amr(bps: Option<u64>) -> Result<Format, InvalidConfig> {
    let expected = "4.75, 5.15, 5.9, 6.7, 7.4, 7.95, 10.2 or 12.2 kbit/s";
    let format = narrow(Codec::Amr, DYNAMIC, 20, mode(&AMR, bps, expected)?);
    // SID: 4 + 6 + 39 bits; the first update follows SID_FIRST by 3 frames, others by 8 (3GPP TS 26.093).
    let noise = own_noise(7, Some(60), Some(160));
    Ok(Format { look_ahead: Span::from_millis(5), noise, packing: Packing::Amr, ..format })
}

fn amr_wb(bps: Option<u64>) -> Result<Format, InvalidConfig> {
    let expected = "6.6, 8.85, 12.65, 14.25, 15.85, 18.25, 19.85, 23.05 or 23.85 kbit/s";
    let format = narrow(Codec::AmrWb, DYNAMIC, 20, mode(&AMR_WB, bps, expected)?);
    // SID: 4 + 6 + 40 bits (3GPP TS 26.193).
    let noise = own_noise(7, Some(60), Some(160));
    let format = Format { clock_hz: 16_000, look_ahead: Span::from_millis(5), noise, ..format };
    Ok(wide(Format { packing: Packing::Amr, ..format }))
}

/// Returns Opus (RFC 6716, 7587), which G.113 does not rate. The length of a frame counts its TOC byte.
fn opus(bps: Option<u64>) -> Result<Format, InvalidConfig> {
    let bps = bps.unwrap_or(24_000);
    InvalidConfig::ensure((6000..=510_000).contains(&bps), "rate", "6 to 510 kbit/s")?;
    let format = narrow(Codec::Opus, DYNAMIC, 20, (bps, (bps / 400) as usize * 8, None, None));
    let format = Format { clock_hz: 48_000, look_ahead: Span::from_micros(6500), band: Band::Wide, ..format };
    // A frame every 400 ms in silence; SILK's shortest useful one.
    Ok(Format { noise: own_noise(8, Some(400), Some(400)), packing: Packing::Opus, ..format })
}
