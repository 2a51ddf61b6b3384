//! What links carried.

use bentpipe_units::Span;

use super::Measure;
use super::parts::Parts;

/// Each direction of each link or ATM line: a part below `link/` or `line/` that knows how long it was busy.
pub(super) fn measures(parts: &Parts<'_>) -> Vec<Measure> {
    let is_line = |element: &&&str| element.starts_with("link/") || element.starts_with("line/");
    let links = parts.elements.iter().filter(is_line);
    links.flat_map(|element| of(element, parts)).collect()
}

fn of(element: &str, parts: &Parts<'_>) -> Vec<Measure> {
    let Some(busy) = parts.grown(element, &["busy"]) else { return Vec::new() };
    let on_s = parts.on_s(Span::ZERO, None);
    let delivered = parts.grown(element, &["delivered"]).unwrap_or(0.0);
    let dropped = parts.grown_all(element, "dropped-");
    let values = [
        ("utilisation", "ratio", Some(busy / on_s)),
        ("rate", "bit/s", parts.grown(element, &["delivered-bytes"]).map(|bytes| bytes * 8.0 / on_s)),
        ("queue-mean", "packets", parts.average(element, &["queue"])),
        ("queue-max", "packets", parts.at_end(element, &["queue-max"])),
        ("queue-mean-bytes", "B", parts.average(element, &["queue-bytes"])),
        ("queue-max-bytes", "B", parts.at_end(element, &["queue-max-bytes"])),
        ("dropped", "packets", Some(dropped)),
        ("drop-ratio", "ratio", Some(dropped / (dropped + delivered))),
    ];
    let path = element.replace('/', ".");
    let measure =
        |(what, unit, value): (&str, &str, Option<f64>)| Measure::new(format!("{path}.{what}"), unit, value?);
    values.into_iter().filter_map(measure).collect()
}
