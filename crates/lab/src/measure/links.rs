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
    values.into_iter().chain(of_dvb(element, parts)).filter_map(measure).collect()
}

/// What became of a stream of DVB: how much of its TS packets or frames are packets, what compression made of headers, and
/// what was lost at its receiver and why.
fn of_dvb(element: &str, parts: &Parts<'_>) -> Vec<(&'static str, &'static str, Option<f64>)> {
    let Some(bytes) = parts.grown(element, &["units-sent-bytes"]) else { return Vec::new() };
    let receiver = format!("{element}/receiver");
    let sent = |name: &str| parts.grown(element, &[name]);
    let received = |name: &str| parts.grown(&receiver, &[name]);
    let ratio = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|whole| *whole > 0.0)?);
    let mut values = vec![
        ("efficiency", "ratio", ratio(sent("packets-in-bytes"), Some(bytes))),
        ("units-sent", "count", sent("units-sent")),
        ("units-faded", "count", sent("units-faded")),
        ("sndus", "count", sent("sndus")),
        ("damaged-units", "count", received("damaged-units")),
        ("continuity-breaks", "count", received("continuity-breaks")),
        ("crc-errors", "count", received("crc-errors")),
        ("format-errors", "count", received("format-errors")),
        ("altered", "packets", received("altered")),
    ];
    if sent("compressed").is_some_and(|compressed| compressed > 0.0) {
        values.extend([
            ("compressed", "packets", sent("compressed")),
            ("header-before", "B", ratio(sent("headers-in-bytes"), sent("compressed"))),
            ("header-after", "B", ratio(sent("headers-out-bytes"), sent("compressed"))),
            ("rohc-irs", "count", sent("rohc-irs")),
            ("rohc-refused", "packets", received("rohc-refused")),
        ]);
    }
    values
}
