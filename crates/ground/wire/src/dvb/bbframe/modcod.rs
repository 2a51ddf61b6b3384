//! Modulation and code rate of DVB-S2. ETSI EN 302 307-1, tables 5a, 5b, 12 and 13.

use std::fmt;
use std::str::FromStr;

use super::HEADER_LEN;

/// Symbols per slot and of the PLHEADER. A PLFRAME has a whole number of slots.
const SLOT_SYMBOLS: u32 = 90;
/// Symbols of a pilot block, and after how many slots there is one.
const PILOT_SYMBOLS: u32 = 36;
const PILOT_SLOTS: u32 = 16;

/// The constellation of a MODCOD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the standard's")]
pub enum Modulation {
    Qpsk,
    Psk8,
    Apsk16,
    Apsk32,
}

impl Modulation {
    /// Bits a symbol carries.
    pub const fn bits_per_symbol(self) -> u32 {
        match self {
            Modulation::Qpsk => 2,
            Modulation::Psk8 => 3,
            Modulation::Apsk16 => 4,
            Modulation::Apsk32 => 5,
        }
    }
}

/// The length of a FECFRAME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FrameSize {
    /// 64,800 bits.
    #[default]
    Normal,
    /// 16,200 bits.
    Short,
}

impl FrameSize {
    /// Coded bits of a FECFRAME.
    pub const fn coded_bits(self) -> u32 {
        match self {
            FrameSize::Normal => 64_800,
            FrameSize::Short => 16_200,
        }
    }
}

/// Code rate with the BCH code lengths of normal and short FECFRAMEs. The BCH code's length is what the LDPC
/// code protects; also the number of errors that the BCH code of a normal one corrects.
struct Rate {
    name: &'static str,
    normal_bch_bits: u32,
    /// BCH length of the short code, whose rate differs from its name; 9/10 has none.
    short_bch_bits: Option<u32>,
    corrected: u32,
}

const fn rate(name: &'static str, normal_bch_bits: u32, short_bch_bits: u32, corrected: u32) -> Rate {
    let short_bch_bits = if short_bch_bits == 0 { None } else { Some(short_bch_bits) };
    Rate { name, normal_bch_bits, short_bch_bits, corrected }
}

const RATES: [Rate; 11] = [
    rate("1/4", 16_200, 3240, 12),
    rate("1/3", 21_600, 5400, 12),
    rate("2/5", 25_920, 6480, 12),
    rate("1/2", 32_400, 7200, 12),
    rate("3/5", 38_880, 9720, 12),
    rate("2/3", 43_200, 10_800, 10),
    rate("3/4", 48_600, 11_880, 12),
    rate("4/5", 51_840, 12_600, 12),
    rate("5/6", 54_000, 13_320, 10),
    rate("8/9", 57_600, 14_400, 8),
    rate("9/10", 58_320, 0, 8),
];

use Modulation::{Apsk16, Apsk32, Psk8, Qpsk};

/// Modulation, index into [`RATES`] and required Es/N0 of MODCODs 1 to 28. In hundredths of a dB, for
/// quasi-error-free reception by table 13 (packet error rate 1e-7, normal FECFRAME).
const TABLE: [(Modulation, usize, i32); 28] = [
    (Qpsk, 0, -235),
    (Qpsk, 1, -124),
    (Qpsk, 2, -30),
    (Qpsk, 3, 100),
    (Qpsk, 4, 223),
    (Qpsk, 5, 310),
    (Qpsk, 6, 403),
    (Qpsk, 7, 468),
    (Qpsk, 8, 518),
    (Qpsk, 9, 620),
    (Qpsk, 10, 642),
    (Psk8, 4, 550),
    (Psk8, 5, 662),
    (Psk8, 6, 791),
    (Psk8, 8, 935),
    (Psk8, 9, 1069),
    (Psk8, 10, 1098),
    (Apsk16, 5, 897),
    (Apsk16, 6, 1021),
    (Apsk16, 7, 1103),
    (Apsk16, 8, 1161),
    (Apsk16, 9, 1289),
    (Apsk16, 10, 1313),
    (Apsk32, 6, 1273),
    (Apsk32, 7, 1364),
    (Apsk32, 8, 1428),
    (Apsk32, 9, 1569),
    (Apsk32, 10, 1605),
];

/// Every MODCOD, in the order of their numbers, which is not that of their efficiency.
pub const MODCODS: [Modcod; 28] = modcods();

const fn modcods() -> [Modcod; 28] {
    let mut all = [Modcod(1); 28];
    let mut index = 0;
    while index < 28 {
        all[index] = Modcod(index as u8 + 1);
        index += 1;
    }
    all
}

/// A modulation and code rate, by its number in the physical layer header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modcod(u8);

impl Modcod {
    /// Creates a MODCOD by its number; `None` but for 1 to 28.
    pub const fn new(number: u8) -> Option<Modcod> {
        if matches!(number, 1..=28) { Some(Modcod(number)) } else { None }
    }

    /// Returns the number of the MODCOD.
    pub const fn number(self) -> u8 {
        self.0
    }

    const fn row(self) -> &'static (Modulation, usize, i32) {
        &TABLE[self.0 as usize - 1]
    }

    const fn rate(self) -> &'static Rate {
        &RATES[self.row().1]
    }

    /// Returns the constellation.
    pub const fn modulation(self) -> Modulation {
        self.row().0
    }

    /// Returns the code rate as text.
    pub const fn code_rate(self) -> &'static str {
        self.rate().name
    }

    /// Returns the Es/N0 in dB for quasi-error-free reception of normal FECFRAMEs (table 13). For an ideal
    /// demodulator, without pilots.
    pub fn es_n0_db(self) -> f64 {
        f64::from(self.row().2) / 100.0
    }

    /// Returns the bits of the BBFRAME, BBHEADER and padding included (Kbch). `None` if there is no short
    /// FECFRAME.
    pub const fn bbframe_bits(self, size: FrameSize) -> Option<u32> {
        let rate = self.rate();
        match (size, rate.short_bch_bits) {
            (FrameSize::Normal, _) => Some(rate.normal_bch_bits - 16 * rate.corrected),
            // The short BCH code works in GF(2^14) and corrects 12 errors at every rate.
            (FrameSize::Short, Some(bits)) => Some(bits - 14 * 12),
            (FrameSize::Short, None) => None,
        }
    }

    /// Returns the longest data field in bytes, or `None` without a short FECFRAME.
    pub fn data_field_len(self, size: FrameSize) -> Option<usize> {
        self.bbframe_bits(size).map(|bits| bits as usize / 8 - HEADER_LEN)
    }

    /// Returns the symbols of a PLFRAME: PLHEADER, slots of 90 symbols, pilot blocks. A pilot block follows
    /// each 16 slots but the last ones.
    pub const fn frame_symbols(self, size: FrameSize, has_pilots: bool) -> u32 {
        let slots = size.coded_bits() / self.modulation().bits_per_symbol() / SLOT_SYMBOLS;
        let pilots = if has_pilots { (slots - 1) / PILOT_SLOTS * PILOT_SYMBOLS } else { 0 };
        SLOT_SYMBOLS * (slots + 1) + pilots
    }

    /// Returns the data field bits per symbol, or `None` without a short FECFRAME.
    pub fn efficiency(self, size: FrameSize, has_pilots: bool) -> Option<f64> {
        let bits = self.data_field_len(size)? * 8;
        Some(bits as f64 / f64::from(self.frame_symbols(size, has_pilots)))
    }
}

impl fmt::Display for Modcod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modulation = match self.modulation() {
            Qpsk => "QPSK",
            Psk8 => "8PSK",
            Apsk16 => "16APSK",
            Apsk32 => "32APSK",
        };
        write!(f, "{modulation} {}", self.code_rate())
    }
}

impl fmt::Debug for Modcod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that names no MODCOD.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no MODCOD of DVB-S2 is called \"{0}\"; one is \"QPSK 3/4\"")]
pub struct NoModcod(String);

impl FromStr for Modcod {
    type Err = NoModcod;

    /// Reads "QPSK 3/4", in capitals or not.
    fn from_str(text: &str) -> Result<Modcod, NoModcod> {
        let is_named = |modcod: &Modcod| modcod.to_string().eq_ignore_ascii_case(text.trim());
        MODCODS.into_iter().find(is_named).ok_or_else(|| NoModcod(text.to_owned()))
    }
}
