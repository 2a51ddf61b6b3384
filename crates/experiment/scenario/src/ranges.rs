//! Ranges of a sweep: "1 to 20 by 1", "1 to 64 kbit/s times 2".

use super::error::Origin;
use super::tree::{Node, Value};

/// Form that errors state as the expected one.
const FORM: &str = "expected a range such as \"1 to 20 by 1\" or \"1 to 64 kbit/s times 2\"";

/// Number of significant digits that a value of a geometric range is rounded to.
const DIGITS: usize = 12;

/// Returns the values of a range, at most `most`.
///
/// Both ends are included if a step meets the last one. The first number may leave out the unit of the second, and so may a
/// step. A range whose second number is the smaller one falls by the step.
///
/// # Errors
/// Returns what is wrong with the text, and what is expected.
pub(crate) fn expand(text: &str, origin: &Origin, most: usize) -> Result<Vec<Node>, String> {
    let range = Range::parse(text).ok_or_else(|| format!("\"{text}\": {FORM} or a list of values"))?;
    let values = range.values(most).map_err(|problem| format!("\"{text}\": {problem}"))?;
    Ok(values.into_iter().map(|value| Node { value, origin: origin.clone() }).collect())
}

struct Range<'a> {
    first: Amount<'a>,
    last: Amount<'a>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    By(Amount<'a>),
    Times(Amount<'a>),
}

/// A number as written, and its unit.
#[derive(Clone, Copy)]
struct Amount<'a> {
    value: f64,
    decimals: usize,
    unit: &'a str,
}

impl<'a> Amount<'a> {
    fn parse(text: &'a str) -> Option<Amount<'a>> {
        let (number, unit) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let digits = mantissa.strip_prefix('-').unwrap_or(mantissa);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let exponent: i64 = exponent.parse().ok().filter(|exponent| (-12..=12).contains(exponent))?;
        if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) || digits.len() > DIGITS + 1 {
            return None;
        }
        let decimals = usize::try_from(fraction.len() as i64 - exponent).unwrap_or(0);
        Some(Amount { value: number.parse().ok()?, decimals, unit: unit.trim() })
    }
}

impl<'a> Range<'a> {
    fn parse(text: &'a str) -> Option<Range<'a>> {
        let (first, rest) = text.split_once(" to ")?;
        let by = rest.split_once(" by ").map(|(last, step)| (last, step, Step::By as fn(Amount<'a>) -> _));
        let times = || rest.split_once(" times ").map(|(last, step)| (last, step, Step::Times as fn(_) -> _));
        let (last, step, kind) = by.or_else(times)?;
        let amount = |text: &'a str| Amount::parse(text.trim());
        Some(Range { first: amount(first)?, last: amount(last)?, step: kind(amount(step)?) })
    }

    fn values(&self, most: usize) -> Result<Vec<Value>, String> {
        let (first, last, unit) = (self.first.value, self.last.value, self.last.unit);
        let rising = last >= first;
        let (step, ratio) = match self.step {
            Step::By(step) | Step::Times(step) if !step.unit.is_empty() && step.unit != unit => {
                return Err(format!("the step is in {}: expected the unit of the last value", step.unit));
            }
            Step::By(step) => (step.value, (last - first).abs() / step.value),
            Step::Times(step) if !step.unit.is_empty() => {
                return Err("a factor has no unit".to_owned());
            }
            Step::Times(step) => (step.value, (last / first).ln().abs() / step.value.ln()),
        };
        if !self.first.unit.is_empty() && self.first.unit != unit {
            return Err(format!(
                "from {} to {}: expected one unit",
                self.first.unit,
                if unit.is_empty() { "a bare number" } else { unit }
            ));
        }
        match self.step {
            Step::By(_) if step <= 0.0 => return Err("expected a step above zero".to_owned()),
            Step::Times(_) if step <= 1.0 => return Err("expected a factor above 1".to_owned()),
            Step::Times(_) if first <= 0.0 || last <= 0.0 => {
                return Err("a factor needs both ends above zero".to_owned());
            }
            _ => {}
        }
        // A last value that steps meet but for rounding is met.
        let count = (ratio + 1e-9).floor() + 1.0;
        if count > most as f64 {
            return Err(format!("more than {most} values"));
        }
        Ok((0..count as usize).map(|n| value(self.nth(n, rising), unit)).collect())
    }

    /// Returns value number `n` with the decimal places of the ends and the step.
    fn nth(&self, n: usize, rising: bool) -> String {
        match self.step {
            Step::By(step) => {
                let decimals = self.first.decimals.max(step.decimals);
                let away = n as f64 * step.value;
                let value = if rising { self.first.value + away } else { self.first.value - away };
                format!("{value:.decimals$}")
            }
            Step::Times(factor) => {
                let factor = factor.value.powi(i32::try_from(n).unwrap_or(i32::MAX));
                let value = if rising { self.first.value * factor } else { self.first.value / factor };
                rounded(value).to_string()
            }
        }
    }
}

/// Returns `value` with [`DIGITS`] significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().unwrap_or(value)
}

/// Returns a bare number, or a text with its unit.
fn value(number: String, unit: &str) -> Value {
    if !unit.is_empty() {
        return Value::String(format!("{number} {unit}"));
    }
    match (number.parse::<i64>(), number.parse::<f64>()) {
        (Ok(whole), _) => Value::Integer(whole),
        (_, Ok(float)) => Value::Float(float),
        _ => Value::String(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match expand(text, &Origin::File(0..0), 100_000) {
            Ok(nodes) => nodes.iter().map(Node::shown).collect::<Vec<_>>().join(", "),
            Err(problem) => problem,
        }
    }

    #[test]
    fn ranges_rise_and_fall_by_steps_and_by_factors() {
        assert_eq!(shown("1 to 5 by 1"), "1, 2, 3, 4, 5");
        assert_eq!(shown("5 to 1 by 2"), "5, 3, 1");
        assert_eq!(shown("1 to 6 by 2"), "1, 3, 5");
        assert_eq!(shown("0.1 to 0.4 by 0.1"), "0.1, 0.2, 0.3, 0.4");
        assert_eq!(shown("-2 to 2 by 2"), "-2, 0, 2");
        assert_eq!(shown("1 to 64 kbit/s times 4"), "1 kbit/s, 4 kbit/s, 16 kbit/s, 64 kbit/s");
        assert_eq!(shown("100 ms to 250 ms by 50 ms"), "100 ms, 150 ms, 200 ms, 250 ms");
        assert_eq!(shown("0.001 to 1 times 10"), "0.001, 0.01, 0.1, 1");
        assert_eq!(shown("8 to 1 times 2"), "8, 4, 2, 1");
        assert_eq!(shown("7 to 7 by 1"), "7");
        assert_eq!(shown("1e-5 to 1e-3 times 10"), "0.00001, 0.0001, 0.001");
        assert_eq!(shown("1e3 to 2e3 by 500"), "1000, 1500, 2000");
        assert_eq!(shown("0 to 4e-6 by 2e-6"), "0.0, 0.000002, 0.000004");
    }

    #[test]
    fn a_wrong_range_says_what_is_expected() {
        assert!(shown("fast").contains("expected a range such as"), "{}", shown("fast"));
        assert!(shown("1 to 5").contains("expected a range such as"), "{}", shown("1 to 5"));
        assert!(shown("1 to 1e99 by 1").contains("expected a range such as"));
        assert!(shown("1 to -e by 1").contains("expected a range such as"));
        assert_eq!(shown("1 to 5 by 0"), "\"1 to 5 by 0\": expected a step above zero");
        assert_eq!(shown("1 to 5 times 1"), "\"1 to 5 times 1\": expected a factor above 1");
        assert_eq!(shown("0 to 5 times 2"), "\"0 to 5 times 2\": a factor needs both ends above zero");
        assert_eq!(shown("0 to 1000000 by 1"), "\"0 to 1000000 by 1\": more than 100000 values");
        assert!(shown("1 ms to 5 s by 1").contains("expected one unit"));
        assert!(shown("1 to 5 s by 1 ms").contains("expected the unit of the last value"));
        assert_eq!(shown("1 to 4 s times 2 s"), "\"1 to 4 s times 2 s\": a factor has no unit");
    }
}
