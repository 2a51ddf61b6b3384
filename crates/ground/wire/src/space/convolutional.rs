//! Convolutional code of rate 1/2 and constraint length 7 (CCSDS 131.0-B), with Viterbi decoder.
//!
//! Connection vectors 1111001 and 1011011; the second symbol of each bit is inverted.
//! *Against memory*: distance 10 of the code, found by search, and its error events against the union bound.

/// Number of states.
const STATES: usize = 64;
/// Connection vectors with the newest bit last.
const VECTORS: [u8; 2] = [0b100_1111, 0b110_1101];
/// Bits after which the encoder has forgotten the first.
pub const MEMORY: usize = 6;

/// Returns both symbols of a register of seven bits, the newest last, without inversion.
pub const fn symbols(register: u8) -> [bool; 2] {
    [(register & VECTORS[0]).count_ones() & 1 == 1, (register & VECTORS[1]).count_ones() & 1 == 1]
}

/// Signs of both symbols on the way to a state. The predecessor is the one whose oldest bit is 0.
static SIGNS: [[f32; 2]; STATES] = signs();

const fn signs() -> [[f32; 2]; STATES] {
    let (mut out, mut state) = ([[1.0; 2]; STATES], 0);
    while state < STATES {
        let [first, second] = symbols(state as u8);
        out[state] = [if first { -1.0 } else { 1.0 }, if second { -1.0 } else { 1.0 }];
        state += 1;
    }
    out
}

/// Encoder, whose state goes on from frame to frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoder {
    state: u8,
}

impl Encoder {
    /// Encodes bytes, most significant bit first. Each becomes two.
    pub fn encode(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 * bytes.len());
        for byte in bytes {
            let mut coded = 0u16;
            for bit in (0..8).rev() {
                let register = self.state << 1 | byte >> bit & 1;
                let [first, second] = symbols(register);
                coded = coded << 2 | u16::from(first) << 1 | u16::from(!second);
                self.state = register & (STATES as u8 - 1);
            }
            out.extend(coded.to_be_bytes());
        }
        out
    }
}

/// Decoder of soft symbols.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Survivors: the oldest bit of the predecessor, for each state and step.
    decisions: Vec<u64>,
}

impl Decoder {
    /// Decodes symbols and returns a bit for each two.
    ///
    /// A symbol is positive for 0 and negative for 1, after the inversion of each second one is undone; its size is its reliability. The
    /// state at the start is unknown. The last bits are as uncertain as the first ones, so that a caller gives some more at both ends.
    pub fn decode(&mut self, received: &[f32]) -> Vec<bool> {
        self.decisions.clear();
        let mut metrics = [0f32; STATES];
        for pair in received.chunks_exact(2) {
            let (mut next, mut highs) = ([0f32; STATES], [0u8; STATES]);
            let gains = SIGNS.map(|[first, second]| first * pair[0] + second * pair[1]);
            for half in 0..STATES / 2 {
                let (low, high) = (metrics[half], metrics[half + STATES / 2]);
                for state in [2 * half, 2 * half + 1] {
                    // Both vectors have the oldest bit and the newest: predecessors that differ in it have opposite symbols.
                    let (from_low, from_high) = (low + gains[state], high - gains[state]);
                    highs[state] = u8::from(from_high > from_low);
                    next[state] = if from_high > from_low { from_high } else { from_low };
                }
            }
            let decision = highs.iter().rev().fold(0u64, |bits, high| bits << 1 | u64::from(*high));
            // Only differences count; sums that grow lose digits.
            let least = next[0];
            metrics = next.map(|metric| metric - least);
            self.decisions.push(decision);
        }
        let best = |best: usize, state: usize| if metrics[state] > metrics[best] { state } else { best };
        let mut state = (0..STATES).fold(0, best);
        let mut bits = vec![false; self.decisions.len()];
        for (bit, decision) in bits.iter_mut().zip(&self.decisions).rev() {
            *bit = state & 1 == 1;
            state = state >> 1 | ((decision >> state & 1) as usize) << 5;
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soft(coded: &[u8]) -> Vec<f32> {
        let bits = coded.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
        // Undoes the inversion of each second symbol.
        bits.enumerate().map(|(n, bit)| if bit ^ (n % 2 == 1) { -1.0 } else { 1.0 }).collect()
    }

    fn bytes(bits: &[bool]) -> Vec<u8> {
        bits.chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
    }

    #[test]
    fn zeros_have_changes_of_symbols_and_one_has_the_vectors() {
        assert_eq!(Encoder::default().encode(&[0; 3]), [0x55; 6]);
        // A single 1: the symbols read 1111001 and 1011011, the second inverted.
        let coded = Encoder::default().encode(&[0x80]);
        let pairs: Vec<u8> =
            coded.iter().flat_map(|byte| (0..4).rev().map(move |k| byte >> (2 * k) & 3)).collect();
        let column = |bit: u8| pairs.iter().take(7).fold(0, |sum: u8, pair| sum << 1 | pair >> bit & 1);
        assert_eq!((column(1), column(0) ^ 0x7f), (0b111_1001, 0b101_1011));
    }

    #[test]
    fn the_free_distance_is_ten() {
        // Shortest way from state 0 back to it, by weight.
        let mut weights = [u32::MAX; STATES];
        weights[1] = 2;
        for _ in 0..200 {
            for state in 1..STATES {
                for bit in 0..2 {
                    let register = (state << 1 | bit) as u8;
                    let weight = symbols(register).iter().filter(|symbol| **symbol).count() as u32;
                    let next = usize::from(register) & (STATES - 1);
                    weights[next] = weights[next].min(weights[state].saturating_add(weight));
                }
            }
        }
        assert_eq!(weights[0], 10);
    }

    #[test]
    fn four_errors_anywhere_are_corrected() {
        let data: Vec<u8> = (0..60u8).map(|n| n.wrapping_mul(37)).collect();
        let sent = soft(&Encoder::default().encode(&data));
        for at in (0..sent.len() - 40).step_by(7) {
            let mut received = sent.clone();
            [0, 1, 5, 11].iter().for_each(|more| received[at + more] = -received[at + more]);
            let decoded = bytes(&Decoder::default().decode(&received));
            assert_eq!(decoded[2..57], data[2..57], "{at}");
        }
    }
}
