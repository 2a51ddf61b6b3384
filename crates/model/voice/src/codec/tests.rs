//! Lengths and rates of RFC 3551, 3951, 4749, 4867 and of the codecs' own texts.

use super::*;

fn len(codec: Codec, bps: Option<u64>, frames: u32) -> Option<usize> {
    let format = codec.format(bps.map(Rate::from_bps)).ok()?;
    format.interval(frames).ok().map(|_| format.payload_len(frames))
}

#[test]
fn payloads_have_the_lengths_of_their_formats() {
    for (codec, bps, frames, expected) in [
        (Codec::G711U, None, 2, 160),
        (Codec::G711A, Some(64_000), 3, 240),
        (Codec::G722, None, 2, 160),
        (Codec::G7231, None, 1, 24),
        (Codec::G7231, Some(5300), 2, 40),
        (Codec::G726, Some(40_000), 2, 100),
        (Codec::G726, None, 2, 80),
        (Codec::G726, Some(24_000), 2, 60),
        (Codec::G726, Some(16_000), 2, 40),
        (Codec::G728, None, 2, 40),
        (Codec::G729, None, 2, 20),
        (Codec::G7291, Some(8000), 1, 21),
        (Codec::G7291, None, 1, 41),
        (Codec::G7291, Some(32_000), 2, 161),
        (Codec::Gsm, None, 1, 33),
        (Codec::GsmEfr, None, 1, 31),
        (Codec::Ilbc, None, 1, 38),
        (Codec::Ilbc, Some(13_330), 1, 50),
        (Codec::Speex, Some(2150), 1, 6),
        (Codec::Speex, Some(3950), 1, 10),
        (Codec::Speex, Some(5950), 1, 15),
        (Codec::Speex, Some(8000), 1, 20),
        (Codec::Speex, Some(11_000), 1, 28),
        (Codec::Speex, None, 1, 38),
        (Codec::Speex, Some(18_200), 1, 46),
        (Codec::Speex, Some(24_600), 1, 62),
        // RFC 4867, section 4.3.5.1: 7.4 kbit/s fills 158 bits.
        (Codec::Amr, Some(7400), 1, 20),
        (Codec::Amr, None, 1, 32),
        (Codec::AmrWb, Some(6600), 2, 35),
        (Codec::AmrWb, None, 1, 33),
        (Codec::AmrWb, Some(23_850), 1, 61),
        (Codec::Opus, None, 1, 60),
        (Codec::Opus, Some(510_000), 1, 1275),
        (Codec::Opus, None, 2, 119),
        (Codec::Opus, None, 3, 179),
    ] {
        assert_eq!(len(codec, bps, frames), Some(expected), "{codec:?} {bps:?} {frames}");
    }
}

#[test]
fn rates_and_clocks_fit_the_frames() {
    for codec in Codec::ALL {
        let format = codec.format(None).expect("the default rate");
        let frames = format.usual_frames();
        let interval = format.interval(frames).expect("the usual number");
        assert!([20, 30].map(Span::from_millis).contains(&interval), "{codec:?}: {interval}");
        assert_eq!(format.ticks(interval) * 1_000_000_000, u64::from(format.clock_hz) * interval.as_nanos());
        assert!(format.payload_type < 128 && format.noise.len > 0);
    }
}

#[test]
fn ip_rates_are_those_of_the_literature() {
    for (codec, bps, frames, kbps) in [
        (Codec::G711U, None, 2, 80.0),
        (Codec::Gsm, None, 1, 29.2),
        (Codec::Ilbc, Some(13_330), 1, 24.0),
        (Codec::Ilbc, None, 1, 31.2),
        (Codec::G729, None, 2, 24.0),
        (Codec::G7231, None, 1, 17.07),
    ] {
        let format = codec.format(bps.map(Rate::from_bps)).expect("a rate");
        let interval = format.interval(frames).expect("frames").as_secs_f64();
        let found = (format.payload_len(frames) + 40) as f64 * 8.0 / interval / 1e3;
        assert!((found - kbps).abs() < 0.01, "{codec:?}: {found}");
    }
}

#[test]
fn impairments_are_missing_where_none_is_published() {
    let impairment =
        |codec: Codec, bps: Option<u64>| codec.format(bps.map(Rate::from_bps)).expect("a rate").impairment();
    assert_eq!(impairment(Codec::G711U, None), Some(Impairment { ie: 0.0, bpl: 25.1 }));
    assert_eq!(impairment(Codec::G729, None), Some(Impairment { ie: 11.0, bpl: 19.0 }));
    assert_eq!(impairment(Codec::AmrWb, Some(23_050)), Some(Impairment { ie: 1.0, bpl: 4.3 }));
    for codec in [Codec::Opus, Codec::Speex, Codec::G7291, Codec::Gsm, Codec::G726] {
        assert_eq!(impairment(codec, None), None, "{codec:?}");
    }
    assert_eq!(Codec::Gsm.format(None).expect("a rate").rated.map(|rated| rated.ie), Some(20.0));
}

#[test]
fn impossible_combinations_are_refused_with_the_possible_ones() {
    for (codec, bps, frames) in [
        (Codec::Gsm, Some(8000), 1),
        (Codec::G7291, Some(10_000), 1),
        (Codec::G722, Some(48_000), 2),
        (Codec::G729, None, 0),
        (Codec::G729, None, 21),
        (Codec::G7231, None, 7),
        (Codec::Opus, None, 7),
        (Codec::Opus, Some(5999), 1),
        (Codec::Amr, Some(9000), 1),
    ] {
        assert_eq!(len(codec, bps, frames), None, "{codec:?} {bps:?} {frames}");
    }
    let error = Codec::Amr.format(Some(Rate::from_bps(9000))).expect_err("no such mode");
    assert_eq!((error.key, error.expected.starts_with("4.75, 5.15")), ("rate", true));
}
