//! Axes: ranges, tick marks, numbers and prefixes.

use std::cmp::Ordering;

/// Maximum number of decimals of a linear axis. Smaller marks are in powers of ten.
const MAX_DECIMALS: usize = 5;

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Decades evenly; for positive values.
    Logarithmic,
}

/// An axis, before anything is known of its length on the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Quantity shown ("goodput").
    pub label: String,
    /// The unit of the values ("bit/s"); empty for none.
    pub unit: String,
    /// Scale.
    pub scale: Scale,
    /// Set if a linear axis starts at zero when all values are positive.
    pub from_zero: bool,
    /// Set if a linear axis ends at its last value, as for time. Otherwise it ends at the next mark.
    pub ends_with_values: bool,
    /// Words in place of numbers: value 0 is the first, and so on.
    pub words: Vec<String>,
    /// Set if values are parts of a whole.
    ///
    /// The axis has nothing beyond zero and one, as intervals of a mean may.
    pub is_share: bool,
    /// Values that the axis covers at least, as those of another plot next to it.
    pub covers: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis from zero.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        let (label, unit) = (label.into(), unit.into());
        Axis {
            label,
            unit,
            scale: Scale::Linear,
            from_zero: true,
            ends_with_values: false,
            words: Vec::new(),
            is_share: false,
            covers: None,
        }
    }

    /// A linear axis of parts of a whole.
    pub fn share(label: impl Into<String>) -> Axis {
        Axis { is_share: true, ..Axis::new(label, "") }
    }

    /// The axis of time, in seconds.
    pub fn time() -> Axis {
        Axis { ends_with_values: true, ..Axis::new("time", "s") }
    }

    /// The axis as it is drawn for values from `low` to `high`.
    pub(super) fn laid_out(&self, low: f64, high: f64) -> Ruler {
        if !self.words.is_empty() {
            return self.of_words();
        }
        let prefix = Prefix::of(&self.unit, low.abs().max(high.abs()));
        let (mut low, mut high) = (low / prefix.factor, high / prefix.factor);
        if self.is_share {
            (low, high) = (low.clamp(0.0, 1.0), high.clamp(0.0, 1.0));
        }
        let logarithmic = self.scale == Scale::Logarithmic && low > 0.0;
        if self.from_zero && low > 0.0 && !logarithmic {
            low = 0.0;
        }
        if high <= low {
            (low, high) = widened(low, logarithmic);
        }
        let mut ticks = if logarithmic { decades(low, high) } else { even(low, high) };
        if self.ends_with_values {
            ticks.retain(|(value, _)| *value >= low && *value <= high * (1.0 + 1e-9));
        } else if !logarithmic {
            high = ticks.last().map_or(high, |last| last.0.max(high));
            low = low.min(ticks[0].0);
        }
        if self.is_share {
            ticks.retain(|(value, _)| *value <= 1.0 + 1e-9);
            high = high.min(1.0);
        }
        let unit = format!("{}{}", prefix.symbol, self.unit);
        Ruler {
            low,
            high,
            logarithmic,
            factor: prefix.factor,
            title: titled(&self.label, &unit),
            ticks,
            has_words: false,
        }
    }

    fn of_words(&self) -> Ruler {
        let ticks = self.words.iter().enumerate().map(|(i, word)| (i as f64, word.clone())).collect();
        let high = self.words.len() as f64 - 0.5;
        Ruler {
            low: -0.5,
            high,
            logarithmic: false,
            factor: 1.0,
            title: titled(&self.label, &self.unit),
            ticks,
            has_words: true,
        }
    }
}

fn titled(label: &str, unit: &str) -> String {
    if unit.is_empty() || unit == "count" { label.to_owned() } else { format!("{label} ({unit})") }
}

/// A range around a single value.
fn widened(value: f64, logarithmic: bool) -> (f64, f64) {
    match value {
        v if logarithmic => (v / 2.0, v * 2.0),
        v if v > 0.0 => (0.0, v * 1.2),
        0.0 => (0.0, 1.0),
        v => (v * 1.2, 0.0),
    }
}

/// An axis with its range and tick marks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ruler {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) logarithmic: bool,
    /// Values are divided by this to be in the axis's prefixed unit.
    pub(super) factor: f64,
    pub(super) title: String,
    /// Position of each tick in the prefixed unit, and its label.
    pub(super) ticks: Vec<(f64, String)>,
    /// Set if the ticks are categories, each of which has its label.
    pub(super) has_words: bool,
}

impl Ruler {
    /// Returns the position of a value, 0 to 1; NaN if it cannot be shown.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.place_scaled(value / self.factor)
    }

    /// Returns [`Ruler::place`] of a value in the prefixed unit.
    pub(super) fn place_scaled(&self, value: f64) -> f64 {
        if !self.logarithmic {
            return (value - self.low) / (self.high - self.low);
        }
        if value <= 0.0 { f64::NAN } else { (value / self.low).ln() / (self.high / self.low).ln() }
    }
}

/// A power of ten and its letter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prefix {
    pub(crate) factor: f64,
    pub(crate) symbol: &'static str,
}

impl Prefix {
    /// The prefix with which `value` of `unit` has one to three digits before the point. Only units of data, rate and
    /// time take one.
    pub(crate) fn of(unit: &str, value: f64) -> Prefix {
        let table: &[(f64, &str)] = match unit {
            "bit/s" | "B" | "Hz" => &[(1e9, "G"), (1e6, "M"), (1e3, "k")],
            "s" => &[(1.0, ""), (1e-3, "m"), (1e-6, "\u{b5}"), (1e-9, "n")],
            _ => &[],
        };
        let last = table.last().filter(|_| unit == "s" && value > 0.0);
        let found = table.iter().find(|(factor, _)| value >= *factor * 0.999_999).or(last);
        found.map_or(Prefix { factor: 1.0, symbol: "" }, |&(factor, symbol)| Prefix { factor, symbol })
    }
}

/// About six marks at round numbers that cover the range.
fn even(low: f64, high: f64) -> Vec<(f64, String)> {
    let raw = (high - low) / 5.0;
    let magnitude = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * magnitude).find(|s| *s >= raw * 0.999_999);
    let step = step.unwrap_or(magnitude * 10.0);
    let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - 1e-9).ceil() as i64);
    let decimals = decimals_of(step);
    let label = |value: f64| match (decimals > MAX_DECIMALS, value.total_cmp(&0.0)) {
        (false, _) => grouped(value, decimals),
        (true, Ordering::Equal) => "0".to_owned(),
        (true, Ordering::Greater) => short(value),
        (true, Ordering::Less) => format!("\u{2212}{}", short(-value)),
    };
    (first..=last).map(|i| i as f64 * step).map(|value| (value, label(value))).collect()
}

/// Powers of ten, with twos and fives between them where there are few.
fn decades(low: f64, high: f64) -> Vec<(f64, String)> {
    let span = (high / low).log10();
    let between: &[f64] = match span {
        s if s < 1.0 => &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        s if s < 3.5 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = exponents.flat_map(|e| between.iter().map(move |m| m * 10_f64.powi(e)));
    let inside = all.filter(|v| *v >= low * 0.999 && *v <= high * 1.001);
    inside.map(|value| (value, short(value))).collect()
}

fn decimals_of(step: f64) -> usize {
    let is_whole = |scaled: f64| scaled.round() >= 1.0 && (scaled.round() - scaled).abs() < 1e-6 * scaled;
    (0..=12).find(|&d| is_whole(step * 10_f64.powi(d))).unwrap_or(12) as usize
}

/// Formats a number with the given decimals. Groups of three digits have narrow spaces between from five digits on.
pub(crate) fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = text.split_once('.').map_or((&text[..], ""), |(w, f)| (w, f));
    let mut out = String::new();
    if value < 0.0 && text.contains(|c: char| c.is_ascii_digit() && c != '0') {
        out.push('\u{2212}');
    }
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && whole.len() > 4 && (whole.len() - i).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Formats a number as briefly as distinguishes it from its neighbours on a logarithmic axis.
fn short(value: f64) -> String {
    let exponent = value.log10().floor() as i32;
    if !(-3..6).contains(&exponent) {
        let mantissa = value / 10_f64.powi(exponent);
        let power: String = exponent.to_string().chars().map(superscript).collect();
        let rounded = (mantissa * 10.0).round() / 10.0;
        return if rounded == 1.0 { format!("10{power}") } else { format!("{rounded}\u{b7}10{power}") };
    }
    let text = grouped(value, usize::try_from(1 - exponent).unwrap_or(0));
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn superscript(c: char) -> char {
    match c {
        '-' => '\u{207b}',
        '1' => '\u{b9}',
        '2' => '\u{b2}',
        '3' => '\u{b3}',
        digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64) -> Vec<String> {
        Axis::new("error ratio", "").laid_out(low, high).ticks.into_iter().map(|(_, label)| label).collect()
    }

    /// An interval of a mean over two seeds may reach beyond the whole.
    #[test]
    fn an_axis_of_shares_ends_at_the_whole() {
        for (low, high) in [(-4.0, 5.0), (0.2, 1.8), (1.0, 1.0), (0.0, 1.0)] {
            let ruler = Axis::share("share").laid_out(low, high);
            assert_eq!((ruler.low, ruler.high), (0.0, 1.0), "{low} {high}");
            assert_eq!(ruler.ticks.last().map(|(_, label)| &label[..]), Some("1.0"));
        }
        let small = Axis::share("share").laid_out(0.0, 0.013);
        assert!(small.high < 0.02, "{small:?}");
    }

    #[test]
    fn marks_of_small_values_differ() {
        let small = labels(0.0, 1e-6);
        assert_eq!(small[..3], ["0", "2\u{b7}10\u{207b}\u{2077}", "4\u{b7}10\u{207b}\u{2077}"]);
        assert_eq!(labels(0.0, 1.0)[..2], ["0.0", "0.2"]);
        assert_eq!(labels(0.0, 1e-3)[..2], ["0.0000", "0.0002"]);
        assert_eq!(labels(0.0, 1000.0)[..2], ["0", "200"]);
    }
}
