//! Convolutional code of DVB-S: puncturing, its error events, and the decoder in noise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_units::RandomStream;
use bentpipe_wire::space::convolutional::{Decoder, MEMORY, symbols};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// States of the encoder.
const STATES: usize = 1 << MEMORY;

/// Bits that the decoder sees before and behind those that count.
const EDGE: usize = 140;

/// Bits that are decoded at once.
const STRETCH: usize = 8 * 1050;

/// Right bits in succession between two events. Fewer belong to one event, whose parts have one cause.
const APART: usize = 48;

/// Events after which a simulation of the decoder ends.
const ENOUGH: usize = 1000;

/// Bits after which a simulation of the decoder ends, with however many events.
const LONGEST: usize = 4_000_000;

/// Longest event in bits; a longer one, at noise that nothing decodes, is cut.
const LONGEST_EVENT: usize = 2048;

/// Events a bit by the union bound. Above it they are found by simulation, as the bound is not close.
pub(super) const CLOSE: f64 = 1e-4;

// Events, wrong bits and wrong bytes by distance, from the free distance on. `tests` finds them by search.
const HALF: &[[f64; 3]] = &[
    [11.0, 36.0, 16.5],
    [0.0, 0.0, 0.0],
    [38.0, 211.0, 77.375],
    [0.0, 0.0, 0.0],
    [193.0, 1404.0, 456.375],
    [0.0, 0.0, 0.0],
    [1331.0, 11_633.0, 3697.875],
    [0.0, 0.0, 0.0],
    [7275.0, 77_433.0, 23_415.625],
];
const TWO_THIRDS: &[[f64; 3]] = &[
    [1.0, 3.0, 1.25],
    [16.0, 70.0, 27.125],
    [48.0, 285.0, 101.0],
    [158.0, 1276.0, 403.625],
    [642.0, 6160.0, 1875.5],
    [2435.0, 27_128.0, 8094.75],
];
const THREE_QUARTERS: &[[f64; 3]] = &[
    [8.0, 42.0, 14.75],
    [31.0, 201.0, 68.625],
    [160.0, 1492.0, 457.375],
    [892.0, 10_469.0, 3056.75],
    [4512.0, 62_935.0, 17_911.625],
];
const FIVE_SIXTHS: &[[f64; 3]] = &[
    [14.0, 92.0, 31.0],
    [69.0, 528.0, 178.25],
    [654.0, 8694.0, 2575.5],
    [4996.0, 79_453.0, 22_987.25],
    [39_677.0, 791_795.0, 222_343.0],
];
const SEVEN_EIGHTHS: &[[f64; 3]] = &[
    [2.0, 9.0, 3.5],
    [46.0, 500.0, 152.125],
    [499.0, 7437.0, 2123.5],
    [5291.0, 105_707.0, 29_221.25],
    [56_137.0, 1_402_089.0, 378_683.625],
];

/// Code rate of the inner code, by puncturing (EN 300 421, table 2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub enum CodeRate {
    /// 1/2, unpunctured.
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
    /// Code rates from the strongest code on.
    pub const ALL: [CodeRate; 5] = [
        CodeRate::Half,
        CodeRate::TwoThirds,
        CodeRate::ThreeQuarters,
        CodeRate::FiveSixths,
        CodeRate::SevenEighths,
    ];

    /// Returns which of both symbols of each bit are sent, over a period.
    const fn sent(self) -> &'static [[bool; 2]] {
        const BOTH: [bool; 2] = [true, true];
        const X: [bool; 2] = [true, false];
        const Y: [bool; 2] = [false, true];
        match self {
            CodeRate::Half => &[BOTH],
            CodeRate::TwoThirds => &[BOTH, Y],
            CodeRate::ThreeQuarters => &[BOTH, Y, X],
            CodeRate::FiveSixths => &[BOTH, Y, X, Y, X],
            CodeRate::SevenEighths => &[BOTH, Y, Y, Y, X, Y, X],
        }
    }

    /// Returns the bits of data and the coded bits of a period.
    pub const fn fraction(self) -> (u128, u128) {
        let bits = self.sent().len() as u128;
        (bits, bits + 1)
    }

    /// Returns the bits of data per coded bit.
    pub fn ratio(self) -> f64 {
        let (bits, coded) = self.fraction();
        bits as f64 / coded as f64
    }

    /// Returns the free distance and the weight spectrum from it on.
    ///
    /// A row has the events that begin in a period, their wrong bits and their wrong bytes.
    const fn spectrum(self) -> (usize, &'static [[f64; 3]]) {
        match self {
            CodeRate::Half => (10, HALF),
            CodeRate::TwoThirds => (6, TWO_THIRDS),
            CodeRate::ThreeQuarters => (5, THREE_QUARTERS),
            CodeRate::FiveSixths => (4, FIVE_SIXTHS),
            CodeRate::SevenEighths => (3, SEVEN_EIGHTHS),
        }
    }

    /// Returns events, wrong bits and wrong bytes for a bit of data.
    ///
    /// They are those behind the decoder by the union bound. `es_n0` is the ratio for a coded bit.
    pub(super) fn bound(self, es_n0: f64) -> [f64; 3] {
        let (free, rows) = self.spectrum();
        let period = self.sent().len() as f64;
        let mut sums = [0.0; 3];
        for (distance, row) in (free..).zip(rows) {
            let probability = loses_to(distance, es_n0) / period;
            sums.iter_mut().zip(row).for_each(|(sum, count)| *sum += count * probability);
        }
        sums
    }
}

/// Returns the probability that a path at a distance wins over the right one.
fn loses_to(distance: usize, es_n0: f64) -> f64 {
    0.5 * libm::erfc(libm::sqrt(distance as f64 * es_n0))
}

/// An error event: the wrong bits, counted from its first.
pub(super) type Event = Vec<u16>;

/// Error events behind the decoder, and how often they begin.
#[derive(Clone, Debug)]
pub(super) struct Events {
    /// Events with the sum of the probabilities up to each.
    by_weight: Vec<(f64, Event)>,
    /// Probability that an event begins at a bit outside events.
    pub(super) begins: f64,
}

/// Most codes and ratios whose events are kept.
const MOST_KEPT: usize = 64;

/// Events that were found before: links of one kind share them. A kept value is what would be found again, so results do not depend on it.
static KEPT: Mutex<BTreeMap<(CodeRate, u64), Arc<Events>>> = Mutex::new(BTreeMap::new());

impl Events {
    /// Returns the events of a code at an Es/N0 of a coded bit.
    pub(super) fn of(rate: CodeRate, es_n0: f64) -> Arc<Events> {
        let key = (rate, es_n0.to_bits());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(events) = kept.get(&key) {
            return Arc::clone(events);
        }
        let events = Arc::new(Events::new(rate, es_n0));
        if kept.len() == MOST_KEPT {
            kept.pop_first();
        }
        kept.insert(key, Arc::clone(&events));
        events
    }

    /// Finds the events of a code at an Es/N0 of a coded bit.
    ///
    /// Where the union bound is close they are all paths of small distance, each as probable as it wins over the right one; above it the
    /// decoder runs in noise, with random numbers of its own: events belong to the code, not to the run.
    fn new(rate: CodeRate, es_n0: f64) -> Events {
        if rate.bound(es_n0)[0] < CLOSE {
            Events::of_paths(rate, es_n0)
        } else {
            Events::of_noise(rate, es_n0, ENOUGH)
        }
    }

    /// Finds events among the paths of the code.
    fn of_paths(rate: CodeRate, es_n0: f64) -> Events {
        let mut sum = 0.0;
        let weigh = |(distance, event)| {
            sum += loses_to(distance, es_n0);
            (sum, event)
        };
        let by_weight = paths(rate, rate.spectrum().0 + 2).into_iter().map(weigh).collect();
        Events { by_weight, begins: rate.bound(es_n0)[0] }
    }

    /// Finds events by running the decoder in noise until there are `enough`.
    fn of_noise(rate: CodeRate, es_n0: f64, enough: usize) -> Events {
        let mut stream = RandomStream::new(0, "convolutional code");
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        let (mut bits, mut inside) = (0, 0);
        while events.len() < enough && bits < LONGEST {
            let found = events_of(&wrong_bits(rate, es_n0, &mut decoder, &mut stream));
            inside += found.iter().map(|event| 1 + usize::from(*event.last().unwrap_or(&0))).sum::<usize>();
            bits += STRETCH;
            events.extend(found);
        }
        let begins = events.len() as f64 / (bits - inside).max(1) as f64;
        let by_weight = events.into_iter().enumerate().map(|(n, event)| ((n + 1) as f64, event)).collect();
        Events { by_weight, begins: begins.min(1.0) }
    }

    /// Draws an event.
    pub(super) fn draw(&self, stream: &mut RandomStream) -> &[u16] {
        let sum = self.by_weight.last().map_or(0.0, |(sum, _)| *sum);
        let place = sum * stream.unit();
        let at = self.by_weight.partition_point(|(sum, _)| *sum <= place);
        self.by_weight.get(at).map_or(&[], |(_, event)| event)
    }
}

/// Returns the wrong bits of a decoder over many stretches.
#[cfg(test)]
pub(super) fn wrong_of(rate: CodeRate, es_n0: f64, bits: usize, stream: &mut RandomStream) -> Vec<usize> {
    let mut decoder = Decoder::default();
    let stretch = |n| (n * STRETCH, wrong_bits(rate, es_n0, &mut decoder, stream));
    let stretches: Vec<_> = (0..bits.div_ceil(STRETCH)).map(stretch).collect();
    let all = stretches.iter().flat_map(|(first, wrong)| wrong.iter().map(move |bit| first + bit));
    all.filter(|bit| *bit < bits).collect()
}

/// Returns the places of wrong bits in a stretch behind the decoder.
///
/// The code is linear and the noise symmetric, so errors are those of a stretch of zeros.
fn wrong_bits(rate: CodeRate, es_n0: f64, decoder: &mut Decoder, stream: &mut RandomStream) -> Vec<usize> {
    let sigma = libm::sqrt(0.5 / es_n0);
    let mut received = Vec::with_capacity(2 * (STRETCH + 2 * EDGE));
    for sent in rate.sent().iter().cycle().take(STRETCH + 2 * EDGE) {
        let (one, other) = stream.normal_pair();
        let noisy = |is_sent, noise| if is_sent { (1.0 + sigma * noise) as f32 } else { 0.0 };
        received.extend([noisy(sent[0], one), noisy(sent[1], other)]);
    }
    let decoded = decoder.decode(&received);
    let counted = decoded[EDGE..EDGE + STRETCH].iter().enumerate();
    counted.filter(|(_, is_wrong)| **is_wrong).map(|(at, _)| at).collect()
}

/// Cuts wrong bits, in order, into events.
fn events_of(wrong: &[usize]) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let (mut first, mut last) = (0, None);
    for bit in wrong {
        let is_next = last.is_none_or(|last| bit - last > APART) || bit - first >= LONGEST_EVENT;
        if is_next {
            first = *bit;
            events.push(Vec::new());
        }
        if let Some(event) = events.last_mut() {
            event.push((bit - first) as u16);
        }
        last = Some(*bit);
    }
    events
}

/// Returns the weight of a register's symbols that are sent in a phase.
fn weight(rate: CodeRate, phase: usize, register: u8) -> usize {
    let sent = rate.sent()[phase];
    symbols(register).iter().zip(sent).filter(|(symbol, sent)| **symbol && *sent).count()
}

/// Returns the paths that leave the right one and come back, up to a distance.
///
/// Each has its distance, and its wrong bits from the first on.
fn paths(rate: CodeRate, longest: usize) -> Vec<(usize, Event)> {
    let period = rate.sent().len();
    let back = ways_back(rate);
    let mut found = Vec::new();
    for phase in 0..period {
        // Registers of paths that have not come back: the next bit's phase, state, distance, bits behind it, wrong ones.
        let mut open = vec![(phase + 1, 1u8, weight(rate, phase, 1), 1u16, vec![0u16])];
        while let Some((at, state, distance, len, wrong)) = open.pop() {
            for bit in 0..2u8 {
                let register = state << 1 | bit;
                let next = register & (STATES as u8 - 1);
                let distance = distance + weight(rate, at % period, register);
                if distance + back[(at + 1) % period][usize::from(next)] > longest {
                    continue;
                }
                let mut wrong = wrong.clone();
                if bit == 1 {
                    wrong.push(len);
                }
                if next == 0 {
                    found.push((distance, wrong));
                } else {
                    open.push((at + 1, next, distance, len + 1, wrong));
                }
            }
        }
    }
    found
}

/// Returns the least weight on the way back to state 0.
///
/// It is that from each phase and state.
fn ways_back(rate: CodeRate) -> Vec<[usize; STATES]> {
    let period = rate.sent().len();
    let mut least = vec![[usize::MAX / 2; STATES]; period];
    least.iter_mut().for_each(|states| states[0] = 0);
    loop {
        let before = least.clone();
        for (phase, states) in least.iter_mut().enumerate() {
            let after = &before[(phase + 1) % period];
            for (state, least) in states.iter_mut().enumerate().skip(1) {
                for bit in 0..2 {
                    let register = (state << 1 | bit) as u8;
                    let rest = after[usize::from(register) & (STATES - 1)];
                    *least = (*least).min(weight(rate, phase, register) + rest);
                }
            }
        }
        if least == before {
            return least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the spectrum by search, as far as the table goes.
    fn search(rate: CodeRate, rows: usize) -> Vec<[f64; 3]> {
        let free = rate.spectrum().0;
        let mut spectrum = vec![[0.0; 3]; rows];
        for (distance, event) in paths(rate, free + rows - 1) {
            // Bytes that it touches, by each of the eight places where it can begin in a byte.
            let bytes = |offset: u16| {
                let mut bytes: Vec<u16> = event.iter().map(|bit| (bit + offset) / 8).collect();
                bytes.dedup();
                bytes.len() as f64
            };
            let bytes = (0..8).map(bytes).sum::<f64>() / 8.0;
            let row = [1.0, event.len() as f64, bytes];
            spectrum[distance - free].iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
        }
        spectrum
    }

    #[test]
    fn the_spectra_are_those_that_a_search_finds() {
        for rate in CodeRate::ALL {
            let (_, rows) = rate.spectrum();
            assert_eq!(search(rate, rows.len()), rows, "{rate:?}");
        }
    }

    /// Returns the bit error ratio of events.
    fn bit_errors(events: &Events, weight: impl Fn(&Event) -> f64) -> f64 {
        let mut before = 0.0;
        let (mut bits, mut sum) = (0.0, 0.0);
        for (until, event) in &events.by_weight {
            let probability = until - before;
            before = *until;
            bits += probability * weight(event);
            sum += probability;
        }
        let mean = bits / sum;
        let len = |event: &Event| 1.0 + f64::from(*event.last().unwrap_or(&0));
        let lens: f64 = events.by_weight.iter().map(|(_, event)| len(event)).sum();
        // Time passes in events too: what matters where they are frequent, all of one weight.
        let inside = lens / events.by_weight.len() as f64;
        mean / (1.0 / events.begins + inside)
    }

    #[test]
    fn thresholds_are_those_of_the_standard() {
        // EN 300 421, table 3: Eb/N0 at 2e-4 behind the Viterbi decoder, with 0.8 dB of the modem and the outer code's rate.
        let published = [4.5, 5.0, 5.5, 6.0, 6.4];
        for (rate, eb_n0) in CodeRate::ALL.into_iter().zip(published) {
            let at = |db: f64| {
                let es_n0 = libm::pow(10.0, (db - 0.8) / 10.0) * rate.ratio() * 188.0 / 204.0;
                bit_errors(&Events::of_noise(rate, es_n0, 100), |event| event.len() as f64)
            };
            let (below, above) = (at(eb_n0 - 0.25), at(eb_n0 + 0.25));
            assert!(below > 2e-4 && above < 2e-4, "{rate:?}: {below} {above}");
        }
    }

    #[test]
    fn paths_and_noise_agree_where_both_are_right() {
        for rate in [CodeRate::Half, CodeRate::SevenEighths] {
            let db = (0..200)
                .map(|n| 0.05 * f64::from(n))
                .find(|db| rate.bound(libm::pow(10.0, db / 10.0))[0] < CLOSE);
            let es_n0 = libm::pow(10.0, db.expect("a close bound") / 10.0);
            let [paths, noise] = [Events::of_paths(rate, es_n0), Events::of_noise(rate, es_n0, 300)];
            let begin = noise.begins / paths.begins;
            assert!((0.6..1.15).contains(&begin), "{rate:?}: events {begin}");
            let bits = |events| bit_errors(events, |event| event.len() as f64);
            let ratio = bits(&noise) / bits(&paths);
            assert!((0.6..1.5).contains(&ratio), "{rate:?}: bits {ratio}");
        }
    }
}
