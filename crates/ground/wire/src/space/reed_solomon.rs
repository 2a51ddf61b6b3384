//! Reed-Solomon code (255, 223) of CCSDS 131.0-B, with interleaving and virtual fill.
//!
//! Field of 256 elements by x^8 + x^7 + x^2 + x + 1; generator with the roots α^(11 j), j = 112 to 143; symbols in the dual basis of Berlekamp.
//! *Against memory*: the basis is computed from its definition by traces and compared with the table that is remembered; PyPI's `reedsolo`
//! makes the same parity.

/// Data symbols of a codeword.
pub const DATA: usize = 223;
/// Parity symbols of a codeword.
pub const PARITY: usize = 32;
/// Symbols of a codeword.
pub const CODEWORD: usize = 255;
/// Errors of a codeword that can be corrected.
pub const CORRECTABLE: usize = PARITY / 2;
/// Maximum interleaving depth.
pub const MAX_DEPTH: usize = 8;

/// Logarithm of the ratio of two roots that follow one another.
const STEP: usize = 11;
/// Number of the first root.
const FIRST: usize = 112;
const ORDER: usize = 255;

struct Field {
    /// Powers of α, twice, so that sums of two logarithms need no modulus.
    power: [u8; 2 * ORDER],
    log: [u8; 256],
}

static FIELD: Field = field();
static GENERATOR: [u8; PARITY + 1] = generator();
/// Symbols in the dual basis, by symbols in the usual one; and back.
static TO_DUAL: [u8; 256] = to_dual();
static FROM_DUAL: [u8; 256] = from_dual();

const fn field() -> Field {
    let (mut power, mut log) = ([0; 2 * ORDER], [0; 256]);
    let (mut value, mut n) = (1u16, 0);
    while n < ORDER {
        power[n] = value as u8;
        power[n + ORDER] = value as u8;
        log[value as usize] = n as u8;
        value <<= 1;
        if value > 255 {
            value ^= 0x187;
        }
        n += 1;
    }
    Field { power, log }
}

const fn times(field: &Field, one: u8, other: u8) -> u8 {
    if one == 0 || other == 0 {
        return 0;
    }
    field.power[field.log[one as usize] as usize + field.log[other as usize] as usize]
}

const fn generator() -> [u8; PARITY + 1] {
    let field = field();
    let mut out = [0; PARITY + 1];
    out[0] = 1;
    let mut degree = 0;
    while degree < PARITY {
        let root = field.power[STEP * (FIRST + degree) % ORDER];
        // Multiplies by x + root; out[n] is the coefficient of x^n.
        let mut n = degree + 1;
        while n > 0 {
            out[n] = out[n - 1] ^ times(&field, out[n], root);
            n -= 1;
        }
        out[0] = times(&field, out[0], root);
        degree += 1;
    }
    out
}

/// Returns the change of basis. Bit `7 - i` is the trace of the symbol times β^i, where β = α^117.
const fn to_dual() -> [u8; 256] {
    let field = field();
    let mut out = [0; 256];
    let mut symbol = 0;
    while symbol < 256 {
        let mut i = 0;
        while i < 8 {
            let product = times(&field, symbol as u8, field.power[117 * i % ORDER]);
            let (mut trace, mut term, mut k) = (0u8, product, 0);
            while k < 8 {
                trace ^= term;
                term = times(&field, term, term);
                k += 1;
            }
            out[symbol] |= trace << (7 - i);
            i += 1;
        }
        symbol += 1;
    }
    out
}

const fn from_dual() -> [u8; 256] {
    let to = to_dual();
    let mut out = [0; 256];
    let mut symbol = 0;
    while symbol < 256 {
        out[to[symbol] as usize] = symbol as u8;
        symbol += 1;
    }
    out
}

/// Returns the product of two elements.
fn product(one: u8, other: u8) -> u8 {
    times(&FIELD, one, other)
}

/// Returns α to a power.
fn power(exponent: usize) -> u8 {
    FIELD.power[exponent % ORDER]
}

/// Returns the quotient of two elements; `other` is not 0.
fn quotient(one: u8, other: u8) -> u8 {
    if one == 0 {
        return 0;
    }
    let (one, other) = (usize::from(FIELD.log[usize::from(one)]), usize::from(FIELD.log[usize::from(other)]));
    FIELD.power[one + ORDER - other]
}

/// Error returned when a codeblock cannot be decoded: a codeword has more than 16 errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncorrectable;

/// Checks the length of a frame for an interleaving depth.
///
/// Codewords of fewer than 223 data symbols are those of the whole code with zeros in front, which are not sent (virtual fill).
///
/// # Errors
/// Returns what would be right if the frame does not fill codewords of one length.
pub fn check_len(frame: usize, depth: usize) -> Result<(), String> {
    if !(1..=MAX_DEPTH).contains(&depth) {
        return Err(format!("interleaving depth {depth}: expected 1 to 8"));
    }
    let most = DATA * depth;
    if frame == 0 || frame > most || !frame.is_multiple_of(depth) {
        return Err(format!("{frame} B: expected a multiple of {depth} B up to {most} B"));
    }
    Ok(())
}

/// Appends the parity of a frame, interleaved to `depth`.
///
/// # Panics
/// Panics if [`check_len`] refuses the length.
pub fn encode(block: &mut Vec<u8>, depth: usize) {
    let frame = block.len();
    assert!(check_len(frame, depth).is_ok(), "a frame of {frame} bytes at depth {depth}");
    block.resize(frame + PARITY * depth, 0);
    for n in 0..depth {
        let mut register = [0u8; PARITY];
        for at in (n..frame).step_by(depth) {
            // register[0] has the highest power.
            let feedback = FROM_DUAL[usize::from(block[at])] ^ register[0];
            register.copy_within(1.., 0);
            register[PARITY - 1] = 0;
            if feedback != 0 {
                for (k, symbol) in register.iter_mut().enumerate() {
                    *symbol ^= product(feedback, GENERATOR[PARITY - 1 - k]);
                }
            }
        }
        for (k, symbol) in register.iter().enumerate() {
            block[frame + k * depth + n] = TO_DUAL[usize::from(*symbol)];
        }
    }
}

/// Corrects a codeblock, and returns the number of corrected symbols. The frame is what precedes the parity.
///
/// # Errors
/// Returns an error if a codeword has more errors than can be corrected; the block is then as before.
///
/// # Panics
/// Panics if [`check_len`] refuses the length of its frame.
pub fn decode(block: &mut [u8], depth: usize) -> Result<usize, Uncorrectable> {
    let frame = block.len().saturating_sub(PARITY * depth);
    assert!(check_len(frame, depth).is_ok(), "a codeblock of {} bytes at depth {depth}", block.len());
    let len = block.len() / depth;
    let mut errors: Vec<(usize, u8)> = Vec::new();
    let mut word = Vec::with_capacity(CODEWORD);
    for n in 0..depth {
        word.clear();
        word.extend(block[n..].iter().step_by(depth).map(|symbol| FROM_DUAL[usize::from(*symbol)]));
        let found = locate(&word).ok_or(Uncorrectable)?;
        errors.extend(found.into_iter().map(|(power, value)| ((len - 1 - power) * depth + n, value)));
    }
    for (at, value) in &errors {
        block[*at] = TO_DUAL[usize::from(FROM_DUAL[usize::from(block[*at])] ^ value)];
    }
    Ok(errors.len())
}

/// Returns powers and values of a codeword's errors. `None` if there are too many.
fn locate(word: &[u8]) -> Option<Vec<(usize, u8)>> {
    let syndromes = syndromes(word);
    if syndromes == [0; PARITY] {
        return Some(Vec::new());
    }
    let locator = berlekamp_massey(&syndromes)?;
    let degree = locator.len() - 1;
    let mut evaluator = [0u8; PARITY];
    for (n, value) in evaluator.iter_mut().enumerate() {
        *value = (0..=n.min(degree)).fold(0, |sum, k| sum ^ product(locator[k], syndromes[n - k]));
    }
    let mut errors = Vec::with_capacity(degree);
    for at in 0..word.len() {
        // The inverse of the error's locator β^at.
        let inverse = (ORDER - STEP * at % ORDER) % ORDER;
        if evaluate(&locator, inverse) != 0 {
            continue;
        }
        // The formal derivative has the odd coefficients.
        let odd = locator.iter().enumerate().skip(1).step_by(2);
        let derivative =
            odd.fold(0, |sum, (k, coefficient)| sum ^ product(*coefficient, power(inverse * (k - 1))));
        if derivative == 0 {
            return None;
        }
        let scale = power(inverse * (FIRST - 1) % ORDER);
        let value = product(scale, quotient(evaluate(&evaluator, inverse), derivative));
        errors.push((at, value));
    }
    (errors.len() == degree && errors.iter().all(|(_, value)| *value != 0)).then_some(errors)
}

fn syndromes(word: &[u8]) -> [u8; PARITY] {
    let mut syndromes = [0; PARITY];
    for (n, syndrome) in syndromes.iter_mut().enumerate() {
        let root = STEP * (FIRST + n) % ORDER;
        *syndrome = word.iter().fold(0, |sum: u8, symbol| match sum {
            0 => *symbol,
            sum => FIELD.power[usize::from(FIELD.log[usize::from(sum)]) + root] ^ symbol,
        });
    }
    syndromes
}

/// Returns a polynomial's value at α to a power. The coefficient of x^n is at n.
fn evaluate(polynomial: &[u8], exponent: usize) -> u8 {
    polynomial.iter().rev().fold(0, |sum, coefficient| product(sum, power(exponent)) ^ coefficient)
}

/// Returns the error locator of syndromes. `None` if it has more than 16 roots.
fn berlekamp_massey(syndromes: &[u8; PARITY]) -> Option<Vec<u8>> {
    let (mut locator, mut previous) = (vec![1u8], vec![1u8]);
    let (mut degree, mut shift, mut last) = (0, 1, 1u8);
    for n in 0..PARITY {
        let terms = locator.iter().enumerate().skip(1).take(degree.min(n));
        let discrepancy = terms.fold(syndromes[n], |sum, (k, value)| sum ^ product(*value, syndromes[n - k]));
        if discrepancy == 0 {
            shift += 1;
            continue;
        }
        let factor = quotient(discrepancy, last);
        let before = locator.clone();
        locator.resize(locator.len().max(previous.len() + shift), 0);
        previous.iter().enumerate().for_each(|(k, value)| locator[k + shift] ^= product(factor, *value));
        if 2 * degree <= n {
            (degree, previous, last, shift) = (n + 1 - degree, before, discrepancy, 1);
        } else {
            shift += 1;
        }
    }
    while locator.last() == Some(&0) {
        locator.pop();
    }
    (degree <= CORRECTABLE && locator.len() == degree + 1).then_some(locator)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows of the change of basis as remembered from the standard's annex.
    const REMEMBERED: [u8; 8] = [0x8d, 0xef, 0xec, 0x86, 0xfa, 0x99, 0xaf, 0x7b];

    #[test]
    fn the_basis_by_traces_is_the_one_remembered() {
        for symbol in 0..=255u8 {
            let by_rows = (0..8).filter(|k| symbol >> k & 1 == 1).fold(0, |sum, k| sum ^ REMEMBERED[7 - k]);
            assert_eq!(TO_DUAL[usize::from(symbol)], by_rows, "{symbol}");
            assert_eq!(FROM_DUAL[usize::from(TO_DUAL[usize::from(symbol)])], symbol);
        }
    }

    #[test]
    fn the_generator_reads_the_same_in_both_directions() {
        assert!(GENERATOR.iter().eq(GENERATOR.iter().rev()), "{GENERATOR:?}");
        assert_eq!((GENERATOR[0], GENERATOR[PARITY]), (1, 1));
    }

    #[test]
    fn the_parity_is_that_of_reedsolo() {
        // PyPI's reedsolo 1.7 with prim 0x187, generator α^11, fcr 112, its symbols changed to the dual basis.
        let counted = "4ffb92dd557ec67f27fb8982cf58f8fd028ad117fcef6b2793d0418826578651";
        let mixed = "1d618364f99c5a7a9eb7319b65c656714291667d08c5ef693f6340d59bc1a08d";
        for (mut block, expected) in [((0..DATA as u8).collect(), counted), (frame(DATA), mixed)] {
            encode(&mut block, 1);
            let parity: String = block[DATA..].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(parity, expected);
        }
    }

    fn frame(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n * n / 3 + n) as u8).collect()
    }

    proptest! {
        #[test]
        fn sixteen_errors_of_each_codeword_are_corrected(
            depth in 1usize..=8,
            fill in 0usize..200,
            seed in any::<[u8; 32]>(),
            count in 0usize..=CORRECTABLE,
        ) {
            let mut block = frame((DATA - fill) * depth);
            encode(&mut block, depth);
            let sent = block.clone();
            let len = block.len() / depth;
            for n in 0..depth {
                for k in 0..count {
                    // Different positions of one codeword.
                    let at = (k * len / CORRECTABLE + usize::from(seed[k]) % (len / CORRECTABLE)) * depth + n;
                    block[at] ^= seed[16 + k] | 1;
                }
            }
            prop_assert_eq!(decode(&mut block, depth), Ok(count * depth));
            prop_assert_eq!(block, sent);
        }
    }

    #[test]
    fn seventeen_errors_are_found_and_nothing_is_changed() {
        let mut block = frame(DATA);
        encode(&mut block, 1);
        (0..17).for_each(|n| block[n * 13] ^= 0x5a);
        let received = block.clone();
        assert_eq!(decode(&mut block, 1), Err(Uncorrectable));
        assert_eq!(block, received);
    }

    #[test]
    fn lengths_are_explained() {
        assert_eq!(check_len(1115, 5), Ok(()));
        assert!(check_len(1116, 5).expect_err("uneven").contains("a multiple of 5 B up to 1115 B"));
        assert!(check_len(100, 9).expect_err("deep").contains("expected 1 to 8"));
    }
}
