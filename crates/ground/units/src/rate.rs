//! Bit rates, and the exact time that bits take at one.

use std::fmt;

use crate::parse::{self, ParseError, Scale};
use crate::{Bytes, Span};

/// A bit rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

const SCALES: &[Scale] = &[
    Scale::new("bit/s", 1.0),
    Scale::new("kbit/s", 1e3),
    Scale::new("Mbit/s", 1e6),
    Scale::new("Gbit/s", 1e9),
];

impl Rate {
    /// Creates a rate of `bits` bits per second.
    pub const fn from_bps(bits: u64) -> Rate {
        Rate(bits)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Bytes per second.
    pub fn as_bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Returns the rate that moves `bytes` in `span`; zero if the span is zero.
    pub fn of(bytes: Bytes, span: Span) -> Rate {
        if span.is_zero() {
            return Rate(0);
        }
        let bits = u128::from(bytes.bits()) * 1_000_000_000 / u128::from(span.as_nanos());
        Rate(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// Returns the time that `bytes` take, to the next whole nanosecond. Forever at rate zero.
    pub fn span_of(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let nanos = (u128::from(bytes.bits()) * 1_000_000_000).div_ceil(u128::from(self.0));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the bandwidth-delay product: what fits into a pipe of this rate and this length.
    pub fn bdp(self, span: Span) -> Bytes {
        let bits = u128::from(self.0) * u128::from(span.as_nanos()) / 1_000_000_000;
        Bytes::new(u64::try_from(bits / 8).unwrap_or(u64::MAX))
    }

    /// Returns the rate multiplied by a factor; negative and NaN give zero.
    pub fn mul_f64(self, factor: f64) -> Rate {
        Rate((self.0 as f64 * factor).round() as u64)
    }
}

impl std::str::FromStr for Rate {
    type Err = ParseError;
    /// Reads "155.52 Mbit/s". Bits, never bytes: "MB/s" is refused.
    fn from_str(text: &str) -> Result<Rate, ParseError> {
        parse::quantity(text, SCALES, "a rate such as \"155.52 Mbit/s\" or \"64 kbit/s\"").map(Rate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            n if n >= 1_000_000_000 => (1e9, "Gbit/s"),
            n if n >= 1_000_000 => (1e6, "Mbit/s"),
            n if n >= 1_000 => (1e3, "kbit/s"),
            _ => (1.0, "bit/s"),
        };
        parse::write_scaled(f, self.0, scale, unit)
    }
}

/// Serialiser that turns amounts of data into transmission times at a rate. It carries the fraction of a
/// nanosecond from one to the next, so rounding errors do not accumulate.
#[derive(Clone, Copy, Debug)]
pub struct Serialiser {
    rate: Rate,
    /// Remainder in units of 1/rate ns, below `rate`.
    remainder: u64,
}

/// The longest amount whose bits times 10^9 fit an u64.
const FAST_BITS: u64 = u64::MAX / 1_000_000_000 / 2;

impl Serialiser {
    /// Creates a serialiser at `rate`. Rate zero never finishes.
    pub const fn new(rate: Rate) -> Serialiser {
        Serialiser { rate, remainder: 0 }
    }

    /// Returns the rate.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Changes the rate from the next transmission on.
    pub fn set_rate(&mut self, rate: Rate) {
        *self = Serialiser::new(rate);
    }

    /// Returns the time that the next `bytes` take.
    #[inline]
    pub fn transmit(&mut self, bytes: Bytes) -> Span {
        let (bits, rate) = (bytes.bits(), self.rate.as_bps());
        if rate == 0 {
            return Span::MAX;
        }
        if bits > FAST_BITS || self.remainder > u64::MAX / 2 {
            return self.transmit_wide(bits);
        }
        let scaled = bits * 1_000_000_000 + self.remainder;
        self.remainder = scaled % rate;
        Span::from_nanos(scaled / rate)
    }

    fn transmit_wide(&mut self, bits: u64) -> Span {
        let rate = u128::from(self.rate.as_bps());
        let scaled = u128::from(bits) * 1_000_000_000 + u128::from(self.remainder);
        self.remainder = (scaled % rate) as u64;
        Span::from_nanos(u64::try_from(scaled / rate).unwrap_or(u64::MAX))
    }
}
