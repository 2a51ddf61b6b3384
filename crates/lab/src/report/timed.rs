//! What a run's series look like over time.

use super::axis::Axis;
use super::plot::{Curve, Mark, Plot};
use crate::record::{Column, Series};

/// More curves than this are shown as their mean and extremes.
const MAX_CURVES: usize = 8;

/// A rate is taken over no less than this share of the run, so that single packets do not make it jump.
const RATE_WINDOWS: usize = 90;

/// The diagrams of one run, those with something to show.
pub(super) fn plots(series: &Series) -> Vec<Plot> {
    let of = |role, names: &'static [&'static str]| columns(series, "flow.", role, names);
    let lines = |names: &'static [&'static str]| columns(series, "link.", "", names);
    let cells = |names: &'static [&'static str]| columns(series, "line.", "", names);
    let busy = || [lines(&["busy"]), cells(&["busy"])].concat();
    let windows = |mut plot: Plot, thresholds: Vec<(String, Curve)>| {
        let own = |name: &str| plot.curves.iter().find(|curve| curve.name == name).map(|curve| curve.colour);
        let dashed = thresholds.into_iter().filter_map(|(name, curve)| {
            Some(Curve {
                name: format!("{name}: ssthresh"),
                mark: Mark::Dashed,
                colour: own(&name)?,
                ..curve
            })
        });
        let dashed: Vec<Curve> =
            dashed.filter(|curve| curve.points.iter().any(|p| p.1.is_finite())).collect();
        plot.curves.extend(dashed);
        plot
    };
    let as_is = |columns: Vec<(String, &Column)>| values(series, columns);
    let plots = [
        plot(
            "Goodput",
            "goodput",
            "bit/s",
            rates(series, of(".receiver", &["bytes_delivered", "bytes"]), 8.0),
        ),
        windows(
            plot("Congestion window", "cwnd", "B", as_is(of(".sender", &["cwnd"]))),
            as_is(of(".sender", &["ssthresh"])),
        ),
        plot("Allowed rate", "rate", "bit/s", as_is(of(".sender", &["allowed-rate"]))),
        plot("Round-trip time", "smoothed RTT", "s", as_is(of(".sender", &["srtt"]))),
        plot("One-way delay", "delay", "s", as_is(of(".receiver", &["one_way_delay"]))),
        plot("Segments sent", "segments", "", as_is(of(".sender", &["data_segments_sent"]))),
        plot("Retransmissions", "segments", "", busiest(as_is(of(".sender", &["retransmits"])))),
        plot("Queue", "waiting", "B", busiest(as_is(lines(&["queue-bytes"])))),
        plot("Cells waiting at switches", "waiting", "cells", busiest(as_is(queues(series)))),
        plot(
            "Cells waiting at hosts and virtual sources",
            "waiting",
            "cells",
            busiest(as_is(columns(series, "vc.", "", &["queue"]))),
        ),
        plot(
            "Cells that hosts have not taken",
            "waiting",
            "cells",
            busiest(as_is(columns(series, "vc.", "", &["receive-queue"]))),
        ),
        plot("Allowed cell rate", "ACR", "bit/s", as_is(senders(series))),
        plot("Link utilisation", "share of the line rate", "", busiest(rates(series, busy(), 1.0))),
    ];
    plots.into_iter().filter(|plot| !plot.is_empty()).collect()
}

fn plot(title: &str, label: &str, unit: &str, curves: Vec<(String, Curve)>) -> Plot {
    let mut plot = Plot::new(title, Axis::time(), Axis::new(label, unit));
    plot.curves = coloured(few(curves));
    plot
}

fn coloured(curves: Vec<(String, Curve)>) -> Vec<Curve> {
    let numbered = curves.into_iter().enumerate();
    numbered.map(|(colour, (name, curve))| Curve { name, colour, ..curve }).collect()
}

/// The first of `names` in each element whose path begins with `prefix` and ends with `role`, and what the element is
/// called between the two.
fn columns<'a>(series: &'a Series, prefix: &str, role: &str, names: &[&str]) -> Vec<(String, &'a Column)> {
    let wanted = |column: &&Column| names.contains(&&column.name[..]);
    let named = |column: &'a Column| {
        let name = column.element.strip_prefix(prefix)?.strip_suffix(role)?;
        Some((name.to_owned(), column))
    };
    let mut found: Vec<_> = series.columns.iter().filter(wanted).filter_map(named).collect();
    found.dedup_by(|b, a| a.0 == b.0);
    found
}

/// The queues of all categories at all outputs of switches.
fn queues(series: &Series) -> Vec<(String, &Column)> {
    let of = |(name, category): (&'static str, &str)| {
        let named = columns(series, "line.", "", &[name]).into_iter();
        named.map(|(line, column)| (format!("{line} {category}"), column)).collect::<Vec<_>>()
    };
    [("cbr-queue", "CBR"), ("vbr-queue", "VBR"), ("abr-queue", "ABR"), ("ubr-queue", "UBR")]
        .into_iter()
        .flat_map(of)
        .collect()
}

/// The ACR of those ends of channels that send most, not of those that only acknowledge.
fn senders(series: &Series) -> Vec<(String, &Column)> {
    let sent = |end: &str| {
        let column = series.column(&format!("vc.{end}"), "cells-sent");
        column.and_then(|column| column.data.to_f64().last().copied()).unwrap_or(0.0)
    };
    let ends = columns(series, "vc.", "", &["acr"]);
    let most = ends.iter().map(|(end, _)| sent(end)).fold(0.0, f64::max);
    ends.into_iter().filter(|(end, _)| sent(end) > most / 4.0).collect()
}

fn values(series: &Series, columns: Vec<(String, &Column)>) -> Vec<(String, Curve)> {
    let seconds = series.seconds();
    let curve = |(name, column): (String, &Column)| {
        let points = seconds.iter().copied().zip(column.data.to_f64()).collect();
        (name, Curve { points, ..Curve::default() })
    };
    columns.into_iter().map(curve).collect()
}

/// By how much totals grow in a second, times `factor`.
fn rates(series: &Series, columns: Vec<(String, &Column)>, factor: f64) -> Vec<(String, Curve)> {
    let seconds = series.seconds();
    let step = seconds.len().div_ceil(RATE_WINDOWS).max(1);
    let curve = |(name, column): (String, &Column)| {
        let totals = column.data.to_f64();
        let rows: Vec<usize> = (0..seconds.len()).step_by(step).collect();
        let rate = |pair: &[usize]| {
            let (from, to) = (pair[0], pair[1]);
            let length = seconds[to] - seconds[from];
            (seconds[to], (totals[to] - totals[from]) * factor / length)
        };
        (name, Curve { points: rows.windows(2).map(rate).collect(), ..Curve::default() })
    };
    columns.into_iter().map(curve).collect()
}

/// Of several curves those that reach highest; none that stays at zero.
fn busiest(curves: Vec<(String, Curve)>) -> Vec<(String, Curve)> {
    let peak = |curve: &Curve| curve.points.iter().map(|p| p.1).filter(|y| y.is_finite()).fold(0.0, f64::max);
    let mut kept: Vec<(String, Curve)> = curves.into_iter().filter(|(_, curve)| peak(curve) > 0.0).collect();
    if kept.len() > MAX_CURVES {
        kept.sort_by(|a, b| peak(&b.1).total_cmp(&peak(&a.1)));
        kept.truncate(MAX_CURVES);
    }
    kept
}

/// The curves themselves if they are few, otherwise their mean, lowest and highest at each instant.
fn few(curves: Vec<(String, Curve)>) -> Vec<(String, Curve)> {
    if curves.len() <= MAX_CURVES {
        return curves;
    }
    let count = curves.len();
    let at = |row: usize| {
        curves.iter().filter_map(move |(_, c)| c.points.get(row)).map(|p| p.1).filter(|y| !y.is_nan())
    };
    let seconds: Vec<f64> = curves[0].1.points.iter().map(|p| p.0).collect();
    let over = |f: &dyn Fn(usize) -> f64| seconds.iter().enumerate().map(|(row, t)| (*t, f(row))).collect();
    let mean = over(&|row| at(row).sum::<f64>() / at(row).count() as f64);
    let lowest = over(&|row| at(row).fold(f64::NAN, f64::min));
    let highest = over(&|row| at(row).fold(f64::NAN, f64::max));
    let curve = |name: &str, points, mark| (name.to_owned(), Curve { points, mark, ..Curve::default() });
    vec![
        curve(&format!("mean of {count}"), mean, Mark::Line),
        curve("lowest", lowest, Mark::Dashed),
        curve("highest", highest, Mark::Dashed),
    ]
}
