//! Closed forms of errors: union bound, binomial tail, tables.

use bentpipe_wire::space::reed_solomon::{CODEWORD, CORRECTABLE, PARITY};

use crate::config::{Coding, Config, Frame, Layout};

/// Weight spectrum of the convolutional code: distance, error events, wrong bits in all of them. From the literature.
const SPECTRUM: [(i32, f64, f64); 5] = [
    (10, 11.0, 36.0),
    (12, 38.0, 211.0),
    (14, 193.0, 1404.0),
    (16, 1331.0, 11_633.0),
    (18, 7275.0, 77_433.0),
];

/// Loss of frames: Eb/N0 in dB at a loss of 0.1 and of 1e-5. **From memory** of CCSDS 130.1-G, to 0.2 dB at best.
const TABLE: [(Coding, usize, f64, f64); 14] = [
    (Coding::Turbo12, 1115, 0.75, 1.15),
    (Coding::Turbo13, 1115, 0.15, 0.55),
    (Coding::Turbo14, 1115, -0.10, 0.30),
    (Coding::Turbo16, 1115, -0.35, 0.05),
    (Coding::Ldpc12, 128, 1.15, 2.10),
    (Coding::Ldpc12, 512, 0.95, 1.45),
    (Coding::Ldpc12, 2048, 0.80, 1.10),
    (Coding::Ldpc23, 128, 1.95, 3.00),
    (Coding::Ldpc23, 512, 1.70, 2.25),
    (Coding::Ldpc23, 2048, 1.55, 1.85),
    (Coding::Ldpc45, 128, 2.85, 3.95),
    (Coding::Ldpc45, 512, 2.55, 3.15),
    (Coding::Ldpc45, 2048, 2.40, 2.70),
    (Coding::Ldpc78, 892, 3.55, 4.00),
];

/// Returns a ratio of a value in dB.
fn ratio(db: f64) -> f64 {
    libm::pow(10.0, db / 10.0)
}

/// Returns the probability that a normal number exceeds `x`.
fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x / std::f64::consts::SQRT_2)
}

/// Returns the probability of a wrong channel symbol with a hard decision.
pub fn symbol_error(config: &Config) -> f64 {
    let by_noise = config.es_n0_db.map(|es_n0| tail(libm::sqrt(2.0 * ratio(es_n0))));
    config.ber.or(by_noise).unwrap_or(0.0)
}

/// Returns the probability that a path at a distance wins over the right one.
fn event(config: &Config, distance: i32) -> f64 {
    match config.es_n0_db {
        Some(es_n0) => tail(libm::sqrt(2.0 * f64::from(distance) * ratio(es_n0))),
        // Hard decisions: more than half of the symbols are wrong, or half of them and the tie is lost.
        None => {
            let p = symbol_error(config);
            let half = distance / 2;
            let more: f64 = (half + 1..=distance).map(|k| binomial(distance, k, p)).sum();
            more + 0.5 * binomial(distance, half, p)
        }
    }
}

/// Returns the probability of `k` successes of `n`.
fn binomial(n: i32, k: i32, p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return f64::from(u8::from((p <= 0.0 && k == 0) || (p >= 1.0 && k == n)));
    }
    let log = |n: i32| libm::lgamma(f64::from(n) + 1.0);
    let ways = log(n) - log(k) - log(n - k);
    libm::exp(ways + f64::from(k) * libm::log(p) + f64::from(n - k) * libm::log1p(-p))
}

/// Returns the bit error ratio behind the Viterbi decoder by the union bound. It is close above 3 dB of Eb/N0.
pub fn decoded_ber(config: &Config) -> f64 {
    SPECTRUM.iter().map(|(distance, _, bits)| bits * event(config, *distance)).sum::<f64>().min(0.5)
}

/// Returns the probability by the union bound that an error event begins at a bit.
pub(crate) fn event_probability(config: &Config) -> f64 {
    SPECTRUM.iter().map(|(distance, events, _)| events * event(config, *distance)).sum::<f64>().min(1.0)
}

/// Returns the expected ratio of lost frames.
///
/// `None` for errors of the concatenated code, whose inner decoder makes bursts.
pub fn frame_loss(config: &Config) -> Option<f64> {
    let layout = config.layout().ok()?;
    if config.ber.is_none() && config.es_n0_db.is_none() {
        return Some(0.0);
    }
    let p = symbol_error(config);
    let none_wrong = |bits: f64, p: f64| -libm::expm1(bits * libm::log1p(-p));
    match config.coding {
        Coding::None => Some(none_wrong(layout.bits(config), p)),
        Coding::Convolutional => Some(none_wrong(layout.bits(config), event_probability(config))),
        Coding::ReedSolomon => {
            let symbol = none_wrong(8.0, p);
            let len = layout.frame / config.depth() + PARITY;
            let len = len.min(CODEWORD) as i32;
            let word: f64 = (CORRECTABLE as i32 + 1..=len).map(|k| binomial(len, k, symbol)).sum();
            Some(none_wrong(config.depth() as f64, word.min(1.0)))
        }
        Coding::Concatenated => (event_probability(config) * layout.bits(config) < 1e-9).then_some(0.0),
        _ => table_loss(config, &layout),
    }
}

/// Returns the loss of frames by table.
pub(crate) fn table_loss(config: &Config, layout: &Layout) -> Option<f64> {
    let es_n0 = match (config.es_n0_db, config.ber) {
        (Some(es_n0), _) => es_n0,
        (None, Some(ber)) if ber > 0.0 => 10.0 * libm::log10(es_n0_of(ber)),
        _ => return Some(0.0),
    };
    let row = TABLE.iter().find(|(coding, len, _, _)| *coding == config.coding && *len == layout.frame);
    let (_, _, high, low) = row?;
    let eb_n0 = es_n0 + 10.0 * libm::log10(layout.symbols as f64 / (8.0 * layout.frame as f64));
    // Four decades between both points, on a straight line of the logarithm.
    let decades = 1.0 + 4.0 * (eb_n0 - high) / (low - high);
    Some(libm::pow(10.0, -decades).min(1.0))
}

/// Returns the Es/N0 as a ratio at which hard decisions have an error ratio.
fn es_n0_of(ber: f64) -> f64 {
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if tail(libm::sqrt(2.0 * middle)) > ber { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

impl Layout {
    /// Returns the bits of a frame that errors can hit.
    fn bits(&self, config: &Config) -> f64 {
        let crc = if config.frame == Frame::Proximity1 { 4 } else { 0 };
        8.0 * (self.frame + crc) as f64
    }
}
