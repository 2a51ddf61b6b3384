//! Numbers as people read them.

use super::axis::{Prefix, grouped};

/// Least time that is shown, in seconds.
const LEAST_S: f64 = 1e-12;

/// A number with four significant digits.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { "\u{2013}".into() };
    }
    let exponent = value.abs().log10().floor() as i32;
    if exponent < -4 {
        format!("{value:.3e}")
    } else {
        grouped(value, usize::try_from(3 - exponent).unwrap_or(0))
    }
}

/// Formats a value and half its confidence interval.
///
/// The interval has two digits, and the value ends at the same place. No interval, or one of zero, leaves [`number`].
pub fn with_interval(value: f64, half: Option<f64>) -> String {
    let half = half.filter(|half| *half != 0.0);
    let Some(half) = half else { return number(value) };
    if !(half.is_finite() && value.is_finite()) || half < 1e-4 || half < value.abs() * 1e-6 {
        return format!("{} \u{b1} {}", number(value), number(half));
    }
    let decimals = usize::try_from(1 - half.log10().floor() as i32).unwrap_or(0);
    format!("{} \u{b1} {}", grouped(value, decimals), grouped(half, decimals))
}

/// Formats a value with a suitable prefix and half its interval. An example is "1.234 ± 0.012 Mbit/s".
/// Ratios are in per cent.
pub fn quantity(value: f64, ci95: Option<f64>, unit: &str) -> String {
    // The clock counts nanoseconds: an average that has faded below their thousandth is zero.
    let value = if unit == "s" && value.abs() < LEAST_S { 0.0 } else { value };
    let (factor, unit) = match unit {
        "ratio" => (0.01, "%".to_owned()),
        "count" => (1.0, String::new()),
        unit => {
            let prefix = Prefix::of(unit, value.abs());
            (prefix.factor, format!("{}{unit}", prefix.symbol))
        }
    };
    // What is counted is whole, unless it is a mean of several runs.
    if factor == 1.0 && ci95.is_none_or(|half| half == 0.0) && value.fract() == 0.0 && value.abs() < 1e15 {
        let space = if unit.is_empty() { "" } else { "\u{a0}" };
        return format!("{}{space}{unit}", grouped(value, 0));
    }
    let space = if unit.is_empty() { "" } else { "\u{a0}" };
    format!("{}{space}{unit}", with_interval(value / factor, ci95.map(|half| half / factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1.000"),
            (123.456, "123.5"),
            (-0.012_345, "\u{2212}0.01235"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
            (1.5e-7, "1.500e-7"),
            (f64::NAN, "\u{2013}"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_value_ends_where_its_interval_does() {
        for (value, half, text) in [
            (356.6, 0.095_82, "356.600 \u{b1} 0.096"),
            (376.1, 370.6, "376 \u{b1} 371"),
            (0.065_01, 0.042_86, "0.065 \u{b1} 0.043"),
            (1_234_567.0, 2_345.6, "1\u{202f}234\u{202f}567 \u{b1} 2346"),
            (5.0, 0.0, "5.000"),
            (5.0, 1e-9, "5.000 \u{b1} 1.000e-9"),
            (5.0, f64::NAN, "5.000 \u{b1} \u{2013}"),
        ] {
            assert_eq!(with_interval(value, Some(half)), text);
        }
    }

    #[test]
    fn quantities_take_prefixes() {
        assert_eq!(quantity(1_234_000.0, Some(12_000.0), "bit/s"), "1.234 \u{b1} 0.012\u{a0}Mbit/s");
        assert_eq!(quantity(0.54, None, "s"), "540.0\u{a0}ms");
        assert_eq!(quantity(7.561e-62, None, "s"), quantity(0.0, None, "s"));
        assert_eq!(quantity(0.123, None, "ratio"), "12.30\u{a0}%");
        assert_eq!(quantity(3.0, None, "count"), "3");
        assert_eq!(quantity(3.0, Some(1.0), "count"), "3.0 \u{b1} 1.0");
    }
}
