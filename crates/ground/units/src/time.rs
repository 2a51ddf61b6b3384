//! Instants and durations in whole nanoseconds.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub};

use crate::parse::{self, ParseError, Scale};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// An instant: nanoseconds from the start of the run. 2^64 ns are 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than every event: "not at all".
    pub const NEVER: Time = Time(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Returns the time passed since `earlier`, or zero if `earlier` is later than `self`.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// Returns `true` if this is [`Time::NEVER`].
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}

impl Add<Span> for Time {
    type Output = Time;
    /// Saturates at [`Time::NEVER`].
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    /// Saturates at zero, as [`Time::since`].
    #[inline]
    fn sub(self, earlier: Time) -> Span {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_never() { f.write_str("never") } else { Span(self.0).fmt(f) }
    }
}

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

const SPAN_SCALES: &[Scale] = &[
    Scale::new("s", NANOS_PER_SEC as f64),
    Scale::new("ms", 1e6),
    Scale::new("us", 1e3),
    Scale::new("µs", 1e3),
    Scale::new("ns", 1.0),
    Scale::new("min", 60e9),
    Scale::new("h", 3600e9),
    Scale::new("d", 86_400e9),
];

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The longest span.
    pub const MAX: Span = Span(u64::MAX);

    /// Creates a span of whole nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// Creates a span of whole microseconds.
    pub const fn from_micros(micros: u64) -> Span {
        Span(micros * 1_000)
    }

    /// Creates a span of whole milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis * 1_000_000)
    }

    /// Creates a span of whole seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs * NANOS_PER_SEC)
    }

    /// Creates a span of `secs` seconds, to the nearest nanosecond. Negative and NaN give zero, too large
    /// gives [`Span::MAX`].
    pub fn from_secs_f64(secs: f64) -> Span {
        Span((secs * NANOS_PER_SEC as f64).round() as u64)
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Returns `true` if the span is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Returns `self - other`, or zero if `other` is longer.
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// Multiplies the span by a factor, to the nearest nanosecond. Negative and NaN give zero.
    pub fn mul_f64(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor).round() as u64)
    }
}

impl Add for Span {
    type Output = Span;
    /// Saturates at [`Span::MAX`].
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    /// Saturates at zero.
    #[inline]
    fn sub(self, other: Span) -> Span {
        self.saturating_sub(other)
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl Div<u64> for Span {
    type Output = Span;
    /// # Panics
    /// If `divisor` is zero.
    fn div(self, divisor: u64) -> Span {
        Span(self.0 / divisor)
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

impl std::str::FromStr for Span {
    type Err = ParseError;
    /// Reads "270 ms", "1.5 s", "200 us", "3 min". Zero needs a unit too.
    fn from_str(text: &str) -> Result<Span, ParseError> {
        parse::quantity(text, SPAN_SCALES, "a time such as \"270 ms\" or \"1.5 s\"").map(Span)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scale, unit) = match self.0 {
            0 => return f.write_str("0 s"),
            n if n >= NANOS_PER_SEC => (1e9, "s"),
            n if n >= 1_000_000 => (1e6, "ms"),
            n if n >= 1_000 => (1e3, "us"),
            _ => (1.0, "ns"),
        };
        parse::write_scaled(f, self.0, scale, unit)
    }
}
