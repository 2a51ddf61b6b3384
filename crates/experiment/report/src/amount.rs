//! Values with units in texts: settings of a sweep, units of published tables.

use bentpipe_units::{Bytes, Rate, Span};

/// Returns the number and base unit of a text such as "6 MB" or "12".
pub fn number(text: &str) -> Option<(f64, &'static str)> {
    let plain = || text.trim().parse::<f64>().ok().map(|number| (number, ""));
    let bytes = || text.parse::<Bytes>().ok().map(|bytes| (bytes.get() as f64, "B"));
    let rate = || text.parse::<Rate>().ok().map(|rate| (rate.as_bps() as f64, "bit/s"));
    let span = || text.parse::<Span>().ok().map(|span| (span.as_secs_f64(), "s"));
    plain().or_else(bytes).or_else(rate).or_else(span)
}

/// Returns the ratio of `unit` to `base`: a million for "Mbit/s" and "bit/s".
///
/// # Errors
/// If they do not measure the same, in words.
pub fn factor(base: &str, unit: &str) -> Result<f64, String> {
    let prefix = unit.strip_suffix(base).filter(|_| ["bit/s", "B", "s"].contains(&base));
    match (base, unit, prefix) {
        _ if base == unit || unit.is_empty() => Ok(1.0),
        ("ratio", "%", _) => Ok(0.01),
        (_, _, Some("k")) => Ok(1e3),
        (_, _, Some("M")) => Ok(1e6),
        (_, _, Some("G")) => Ok(1e9),
        ("s", _, Some("m")) => Ok(1e-3),
        ("s", _, Some("u" | "\u{b5}")) => Ok(1e-6),
        _ => Err(format!("the simulated value is in {base}, not in {unit}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_apart() {
        assert_eq!(number("6 MB"), Some((6e6, "B")));
        assert_eq!(number("64 KiB"), Some((65_536.0, "B")));
        assert_eq!(number("270 ms"), Some((0.27, "s")));
        assert_eq!(number("8 Mbit/s"), Some((8e6, "bit/s")));
        assert_eq!(number(" 0.001"), Some((0.001, "")));
        assert_eq!(number("cubic"), None);
        assert_eq!(factor("bit/s", "Mbit/s"), Ok(1e6));
        assert_eq!(factor("s", "ms"), Ok(1e-3));
        assert_eq!(factor("ratio", "%"), Ok(0.01));
        assert_eq!(factor("packets", "packets"), Ok(1.0));
        assert!(factor("s", "MB").is_err() && factor("packets", "kpackets").is_err());
    }
}
