//! Reed-Solomon RS(128, 124) over GF(256), with erasures.
//!
//! A code word is a polynomial whose highest coefficient is sent first; it is a multiple of the generator, so it vanishes
//! at the generator's four roots. Errors and erasures are found by the key equation: Berlekamp and Massey's algorithm
//! started with the erasures' locator (Blahut 1983), then Chien's search and Forney's values.

/// Length in bytes of a code word.
pub const CODE_LEN: usize = 128;
/// Number of data symbols in a code word.
pub const DATA_LEN: usize = 124;
/// Number of check symbols in a code word.
pub const CHECKS: usize = CODE_LEN - DATA_LEN;

/// Field polynomial x^8 + x^7 + x^2 + x + 1 (I.363.1, section 2.5.2.4.1).
const FIELD: u16 = 0x187;
/// The exponent of the generator's first root; the roots are alpha^120 to alpha^123.
const FIRST_ROOT: usize = 120;

/// Logarithms, and powers of alpha stored twice so that sums of logarithms are indices.
const TABLES: ([u8; 510], [u8; 256]) = tables();

const fn tables() -> ([u8; 510], [u8; 256]) {
    let (mut powers, mut logarithms) = ([0; 510], [0; 256]);
    let (mut value, mut i) = (1_u16, 0);
    while i < 255 {
        powers[i] = value as u8;
        powers[i + 255] = value as u8;
        logarithms[value as usize] = i as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= FIELD;
        }
        i += 1;
    }
    (powers, logarithms)
}

const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    TABLES.0[TABLES.1[a as usize] as usize + TABLES.1[b as usize] as usize]
}

/// Returns alpha to the power `exponent`.
const fn alpha(exponent: usize) -> u8 {
    TABLES.0[exponent % 255]
}

fn inverse(a: u8) -> u8 {
    alpha(255 - usize::from(TABLES.1[usize::from(a)]))
}

/// The generator without its highest coefficient, 1; the constant one last.
const GENERATOR: [u8; CHECKS] = generator();

const fn generator() -> [u8; CHECKS] {
    let mut g = [0; CHECKS + 1];
    g[CHECKS] = 1;
    let mut i = 0;
    while i < CHECKS {
        // Times (x - root), coefficients from the highest: g[0] is that of x^4.
        let mut k = 0;
        while k < CHECKS {
            g[k] = g[k + 1] ^ multiply(g[k], alpha(FIRST_ROOT + i));
            k += 1;
        }
        g[CHECKS] = multiply(g[CHECKS], alpha(FIRST_ROOT + i));
        i += 1;
    }
    [g[1], g[2], g[3], g[4]]
}

/// Returns the check octets of 124 octets of data.
pub fn checks(data: &[u8; DATA_LEN]) -> [u8; CHECKS] {
    let mut remainder = [0; CHECKS];
    for octet in data {
        let factor = octet ^ remainder[0];
        remainder.rotate_left(1);
        remainder[CHECKS - 1] = 0;
        for (r, g) in remainder.iter_mut().zip(GENERATOR) {
            *r ^= multiply(factor, g);
        }
    }
    remainder
}

/// A polynomial of at most four degrees, the constant coefficient first.
type Short = [u8; CHECKS + 1];

fn evaluate(polynomial: &[u8], x: u8) -> u8 {
    polynomial.iter().rev().fold(0, |sum, coefficient| multiply(sum, x) ^ coefficient)
}

/// Corrects a code word in place and returns the number of wrong octets. `None`, without a change, if there
/// are more errors than the code can locate. `erased` are the places known to be unreliable: e of them and v
/// others are corrected if e + 2v is at most 4.
///
/// # Panics
/// If a place is beyond the code word.
pub fn correct(word: &mut [u8; CODE_LEN], erased: &[usize]) -> Option<usize> {
    let syndromes = syndromes(word);
    if syndromes == [0; CHECKS] {
        return Some(0);
    }
    if erased.len() > CHECKS {
        return None;
    }
    let locator = locator(&syndromes, erased)?;
    let evaluator = product(&syndromes, &locator);
    let degree = locator.iter().rposition(|coefficient| *coefficient != 0)?;
    let mut repaired = *word;
    let mut found = 0;
    for (place, octet) in repaired.iter_mut().enumerate() {
        let exponent = CODE_LEN - 1 - place;
        let root = alpha(255 - exponent);
        if evaluate(&locator, root) == 0 {
            *octet ^= value(&locator, &evaluator, exponent)?;
            found += 1;
        }
    }
    if found != degree || self::syndromes(&repaired) != [0; CHECKS] {
        return None;
    }
    let wrong = word.iter().zip(&repaired).filter(|(before, after)| before != after).count();
    *word = repaired;
    Some(wrong)
}

/// Returns the code word at the generator's roots: all zero if it is correct.
fn syndromes(word: &[u8; CODE_LEN]) -> [u8; CHECKS] {
    std::array::from_fn(|i| {
        let root = alpha(FIRST_ROOT + i);
        word.iter().fold(0, |sum, octet| multiply(sum, root) ^ octet)
    })
}

/// Returns the polynomial whose roots are the inverse places of all errors and erasures. `None` if there are
/// too many.
fn locator(syndromes: &[u8; CHECKS], erased: &[usize]) -> Option<Short> {
    let mut locator: Short = [1, 0, 0, 0, 0];
    for place in erased {
        assert!(*place < CODE_LEN, "place {place} of a code word of {CODE_LEN}");
        times_linear(&mut locator, alpha(CODE_LEN - 1 - place));
    }
    let known = erased.len();
    let (mut previous, mut length) = (locator, known);
    for step in known..CHECKS {
        let discrepancy = (0..=step).fold(0, |sum, i| sum ^ multiply(locator[i], syndromes[step - i]));
        previous.rotate_right(1);
        previous[0] = 0;
        if discrepancy == 0 {
            continue;
        }
        let before = locator;
        for (coefficient, other) in locator.iter_mut().zip(previous) {
            *coefficient ^= multiply(discrepancy, other);
        }
        if 2 * length <= step + known {
            length = step + known + 1 - length;
            previous = before.map(|coefficient| multiply(coefficient, inverse(discrepancy)));
        }
    }
    (2 * (length - known) + known <= CHECKS).then_some(locator)
}

/// Times (1 - x a).
fn times_linear(polynomial: &mut Short, a: u8) {
    for i in (1..=CHECKS).rev() {
        polynomial[i] ^= multiply(polynomial[i - 1], a);
    }
}

/// Returns the product modulo x^4.
fn product(syndromes: &[u8; CHECKS], locator: &Short) -> [u8; CHECKS] {
    std::array::from_fn(|i| (0..=i).fold(0, |sum, k| sum ^ multiply(locator[k], syndromes[i - k])))
}

/// Returns the correction at a place by Forney's formula. X^(1 - first root) evaluator(1/X) / locator'(1/X).
fn value(locator: &Short, evaluator: &[u8; CHECKS], exponent: usize) -> Option<u8> {
    let root = alpha(255 - exponent);
    // The derivative has the odd coefficients only: 1 + 1 = 0.
    let derivative = [locator[1], 0, locator[3], 0];
    let below = evaluate(&derivative, root);
    let scale = alpha(exponent * (256 - FIRST_ROOT));
    (below != 0).then(|| multiply(scale, multiply(evaluate(evaluator, root), inverse(below))))
}
