//! DVB-S2 over DVB-S at the same signal and symbol rate.

use bentpipe_dvb::{CodeRate, FrameSize, Line, Modcod, RollOff};
use bentpipe_wire::bbframe::MODCODS;

/// Symbols per second of both carriers; the ratio does not depend on it.
const SYMBOL_RATE: u64 = 27_500_000;

/// Code rates of DVB-S and their Eb/N0 in dB (EN 300 421, table 3).
///
/// For quasi error-free reception. Measured in a loop with a modem's margin for its implementation.
const DVB_S: [(CodeRate, f64); 5] = [
    (CodeRate::Half, 4.5),
    (CodeRate::TwoThirds, 5.0),
    (CodeRate::ThreeQuarters, 5.5),
    (CodeRate::FiveSixths, 6.0),
    (CodeRate::SevenEighths, 6.4),
];

/// Margin in the values of DVB-S in dB (EN 300 421, section 5). Those of DVB-S2 have none.
const IMPLEMENTATION_DB: f64 = 0.8;

/// Returns the mean gain of DVB-S2 over the code rates of DVB-S in per cent.
///
/// DVB-S2 has the most efficient MODCOD that the Es/N0 of DVB-S suffices for.
pub(super) fn gain() -> f64 {
    DVB_S.map(|(code_rate, eb_n0_db)| gain_over(code_rate, eb_n0_db)).iter().sum::<f64>() / DVB_S.len() as f64
}

/// Returns the gain in per cent over one code rate, received at this Eb/N0.
fn gain_over(code_rate: CodeRate, eb_n0_db: f64) -> f64 {
    let first = Line::DvbS { symbol_rate: SYMBOL_RATE, code_rate, tables: None };
    let first = first.rate().as_bps() as f64;
    let es_n0_db = eb_n0_db + 10.0 * (first / SYMBOL_RATE as f64).log10() - IMPLEMENTATION_DB;
    let is_received = |modcod: &bentpipe_wire::bbframe::Modcod| modcod.es_n0_db() <= es_n0_db;
    let rate = |modcod| second(Modcod(modcod)).rate().as_bps() as f64;
    let most = MODCODS.into_iter().filter(is_received).map(rate).fold(0.0, f64::max);
    100.0 * (most / first - 1.0)
}

/// Returns the carrier of DVB-S2 with normal frames, without pilots.
fn second(modcod: Modcod) -> Line {
    Line::DvbS2 {
        symbol_rate: SYMBOL_RATE,
        modcod,
        frame: FrameSize::Normal,
        pilots: false,
        roll_off: RollOff::R035,
        steps: Vec::new(),
        es_n0_db: None,
        margin_db: 0.0,
        reaction: bentpipe_units::Span::ZERO,
        input_streams: bentpipe_dvb::InputStreams::default(),
        tables: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand for 3/4: 2 * 3/4 * 188/204 bit a symbol, 6.1 dB, where 8PSK 3/5 (5.50 dB, 1.779991 bit a symbol) is received.
    #[test]
    fn gain_is_that_of_the_tables() {
        let gain = gain_over(CodeRate::ThreeQuarters, 5.5);
        let expected = 100.0 * (1.779_991 / (1.5 * 188.0 / 204.0) - 1.0);
        assert!((gain - expected).abs() < 0.01, "{gain} for {expected}");
    }
}
