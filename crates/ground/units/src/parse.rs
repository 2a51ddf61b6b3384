//! Numbers with units, read and written.

use std::fmt;

/// Error returned when a text is not the expected quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} in \"{text}\": expected {expected}")]
pub struct ParseError {
    problem: Problem,
    text: String,
    expected: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("no number")]
    Number,
    #[error("no unit")]
    NoUnit,
    #[error("unknown unit \"{0}\"")]
    Unit(String),
    #[error("negative value")]
    Negative,
    #[error("value too large")]
    TooLarge,
    #[error("value too small for a whole number of the smallest unit")]
    TooSmall,
}

/// A unit's name and how many of the base unit it is.
pub(crate) struct Scale {
    name: &'static str,
    factor: f64,
}

impl Scale {
    pub(crate) const fn new(name: &'static str, factor: f64) -> Scale {
        Scale { name, factor }
    }
}

/// Parses a number and one of `scales`, in base units, rounded to the nearest.
pub(crate) fn quantity(text: &str, scales: &[Scale], expected: &'static str) -> Result<u64, ParseError> {
    // The text may be hostile: an error shows at most a line of it.
    let fail = |problem| ParseError { problem, text: text.chars().take(60).collect(), expected };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !number_part(c)).unwrap_or(trimmed.len());
    let (number, unit) = split_exponent(trimmed, split);
    let value: f64 = number.replace('_', "").parse().map_err(|_| fail(Problem::Number))?;
    let unit = unit.trim();
    if unit.is_empty() {
        return Err(fail(Problem::NoUnit));
    }
    let scale = scales.iter().find(|s| s.name == unit);
    let scale = scale.ok_or_else(|| fail(Problem::Unit(unit.chars().take(20).collect())))?;
    in_range(value, value * scale.factor).map_err(fail)
}

fn number_part(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '.' | '+' | '-' | '_')
}

/// Moves an exponent ("1e6", "2.5E-3") from the unit's side to the number's.
fn split_exponent(text: &str, split: usize) -> (&str, &str) {
    let rest = &text[split..];
    let mut end = 0;
    if rest.starts_with(['e', 'E'])
        && rest[1..].starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
    {
        end = 2 + rest[2..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 2);
    }
    text.split_at(split + end)
}

fn in_range(value: f64, base: f64) -> Result<u64, Problem> {
    match base.round() {
        _ if value < 0.0 => Err(Problem::Negative),
        rounded if rounded >= 9.0e18 => Err(Problem::TooLarge),
        0.0 if value > 0.0 => Err(Problem::TooSmall),
        rounded => Ok(rounded as u64),
    }
}

/// Writes `value / scale` and the unit, with at most nine decimals.
pub(crate) fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, scale: f64, unit: &str) -> fmt::Result {
    let text = format!("{:.9}", value as f64 / scale);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    f.pad(&format!("{text} {unit}"))
}
