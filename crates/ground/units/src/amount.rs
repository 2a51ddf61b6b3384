//! Amounts of data in bytes.

use std::fmt;

use crate::parse::{self, ParseError, Scale};

/// Amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

const SCALES: &[Scale] = &[
    Scale::new("B", 1.0),
    Scale::new("kB", 1e3),
    Scale::new("MB", 1e6),
    Scale::new("GB", 1e9),
    Scale::new("KiB", 1024.0),
    Scale::new("kiB", 1024.0),
    Scale::new("MiB", 1_048_576.0),
    Scale::new("GiB", 1_073_741_824.0),
];

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// Creates an amount of `bytes` bytes.
    pub const fn new(bytes: u64) -> Bytes {
        Bytes(bytes)
    }

    /// Returns the number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the number of bits.
    pub const fn bits(self) -> u64 {
        self.0.saturating_mul(8)
    }
}

impl std::str::FromStr for Bytes {
    type Err = ParseError;
    /// Reads "6 MB" (10^6), "64 KiB" (2^10), "1500 B".
    fn from_str(text: &str) -> Result<Bytes, ParseError> {
        parse::quantity(text, SCALES, "a size such as \"1500 B\", \"6 MB\" or \"64 KiB\"").map(Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            n if n >= 1_000_000_000 => (1e9, "GB"),
            n if n >= 1_000_000 => (1e6, "MB"),
            n if n >= 10_000 => (1e3, "kB"),
            _ => (1.0, "B"),
        };
        parse::write_scaled(f, self.0, scale, unit)
    }
}
