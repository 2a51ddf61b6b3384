//! What links carried.

use bentpipe_units::Span;

use super::Measure;
use super::parts::Parts;

/// Each direction of each link or ATM line: a part below `link/` or `line/` that knows how long it was busy.
pub(super) fn measures(parts: &Parts<'_>) -> Vec<Measure> {
    let is_line = |element: &&&str| element.starts_with("link/") || element.starts_with("line/");
    let links = parts.elements.iter().filter(is_line);
    let ends = parts.elements.iter().filter(|element| element.starts_with("vc/"));
    links.flat_map(|element| of(element, parts)).chain(ends.flat_map(|end| of_end(end, parts))).collect()
}

fn of(element: &str, parts: &Parts<'_>) -> Vec<Measure> {
    let Some(busy) = parts.grown(element, &["busy"]) else { return Vec::new() };
    let on_s = parts.on_s(Span::ZERO, None);
    let delivered = parts.grown(element, &["delivered"]).unwrap_or(0.0);
    let dropped = parts.grown_all(element, "dropped-");
    let pieces = if element.starts_with("line/") { "cells" } else { "packets" };
    let values = [
        ("utilisation", "ratio", Some(busy / on_s)),
        ("rate", "bit/s", parts.grown(element, &["delivered-bytes"]).map(|bytes| bytes * 8.0 / on_s)),
        ("queue-mean", "packets", parts.average(element, &["queue"])),
        ("queue-max", "packets", parts.at_end(element, &["queue-max"])),
        ("queue-mean-bytes", "B", parts.average(element, &["queue-bytes"])),
        ("queue-max-bytes", "B", parts.at_end(element, &["queue-max-bytes"])),
        ("dropped", pieces, Some(dropped)),
        ("drop-ratio", "ratio", Some(dropped / (dropped + delivered))),
    ];
    let path = element.replace('/', ".");
    let measure =
        |(what, unit, value): (&str, &str, Option<f64>)| Measure::new(format!("{path}.{what}"), unit, value?);
    let others = of_dvb(element, parts).into_iter().chain(of_cells(element, parts));
    values.into_iter().chain(others).filter_map(measure).collect()
}

/// The queues of the categories that an ATM line carried, and what its faults did to cells.
fn of_cells(element: &str, parts: &Parts<'_>) -> Vec<(&'static str, &'static str, Option<f64>)> {
    const QUEUES: [[&str; 4]; 4] = [
        ["cbr-cells", "cbr-queue", "cbr-queue-mean", "cbr-queue-max"],
        ["vbr-cells", "vbr-queue", "vbr-queue-mean", "vbr-queue-max"],
        ["abr-cells", "abr-queue", "abr-queue-mean", "abr-queue-max"],
        ["ubr-cells", "ubr-queue", "ubr-queue-mean", "ubr-queue-max"],
    ];
    let mut values = Vec::new();
    for [cells, queue, mean, longest] in QUEUES {
        if parts.at_end(element, &[cells]).is_some_and(|cells| cells > 0.0) {
            values.push((mean, "cells", parts.average(element, &[queue])));
            values.push((longest, "cells", parts.at_end(element, &[longest])));
        }
    }
    let channel = format!("{element}/channel");
    let is_fault = |other: &&&str| {
        other.strip_prefix(&channel).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let faults: Vec<&&str> = parts.elements.iter().filter(is_fault).collect();
    let of_faults = |name: &str| faults.iter().filter_map(|fault| parts.grown(fault, &[name])).sum::<f64>();
    if !faults.is_empty() {
        let lost = of_faults("lost");
        values.extend([
            ("cells-lost", "cells", Some(lost)),
            ("cells-damaged", "cells", Some(of_faults("damaged"))),
            ("cells-misinserted", "cells", Some(of_faults("misinserted"))),
            ("cell-loss-ratio", "ratio", parts.grown(element, &["delivered"]).map(|sent| lost / sent)),
        ]);
    }
    values
}

/// What an end of a virtual channel sent and received, and its allowed rate.
fn of_end(element: &str, parts: &Parts<'_>) -> Vec<Measure> {
    let names = [
        "cells-sent",
        "cells-received",
        "pdus-sent",
        "pdus-received",
        "wrong-length",
        "wrong-crc",
        "refused",
        "receive-lost",
        "rm-destination-sent",
        "lost",
    ];
    let path = element.replace('/', ".");
    let is_of_cells =
        |name: &str| ["cells", "receive", "rm", "lost"].iter().any(|what| name.starts_with(what));
    let unit = |name: &str| if is_of_cells(name) { "cells" } else { "packets" };
    let measure = |name: &str| {
        let value = parts.grown(element, &[name])?;
        Measure::new(format!("{path}.{name}"), unit(name), value)
    };
    let acr = parts
        .average(element, &["acr"])
        .and_then(|acr| Measure::new(format!("{path}.acr-mean"), "bit/s", acr));
    // What a box between two loops keeps; of hosts the queue is how much they were given to send.
    let is_box = parts.grown(element, &["lost"]).is_some();
    let queues = [
        ("queue-mean", parts.average(element, &["queue"]).filter(|_| is_box)),
        ("queue-max", parts.at_end(element, &["queue-max"]).filter(|_| is_box)),
        ("receive-queue-mean", parts.average(element, &["receive-queue"])),
        ("receive-queue-max", parts.at_end(element, &["receive-queue-max"])),
    ];
    let queues = queues
        .into_iter()
        .filter_map(|(name, value)| Measure::new(format!("{path}.{name}"), "cells", value?));
    names.into_iter().filter_map(measure).chain(acr).chain(queues).collect()
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
