//! Thresholds, valleys and gains (figures 7 to 15) of an overloaded link.

use bentpipe_record::PointSummary;

use super::equations;
use super::traffic::Ip;
use crate::runs::{Points, StudyRuns, measure};
use crate::study::At;

/// Swept keys, by their last parts.
const PAYLOAD: &str = "payload";
const PACKING: &str = "packing";

/// Returns the value of a swept key at a point, in its base unit.
fn setting(point: &PointSummary, name: &str) -> Result<f64, String> {
    let mut settings = point.settings.iter();
    let found = settings.find(|(key, _)| key.rsplit('.').next() == Some(name)).map(|(_, value)| value);
    let found = found.ok_or_else(|| format!("no swept key \"{name}\""))?;
    bentpipe_report::amount::number(found).map(|(number, _)| number).ok_or_else(|| format!("\"{found}\"?"))
}

/// Returns a measure of a run against a swept key, in rising order.
pub(super) fn against(runs: &StudyRuns, run: &str, key: &str, name: &str) -> Result<Points, String> {
    let point = |point: &&PointSummary| Ok((setting(point, key)?, measure(point, name)?.estimate.mean));
    let mut points =
        runs.points(run, &At::default())?.iter().map(point).collect::<Result<Points, String>>()?;
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(points)
}

/// Returns the goodput of a run in bit/s against the payload in bytes.
pub(super) fn goodput(runs: &StudyRuns, run: &str) -> Result<Points, String> {
    against(runs, run, PAYLOAD, "flow.stream.goodput")
}

/// Returns the gain of compression over uncompressed packets, in per cent, against the payload.
pub(super) fn gains(runs: &StudyRuns, compressed: &str, plain: &str) -> Result<Points, String> {
    let (compressed, plain) = (goodput(runs, compressed)?, goodput(runs, plain)?);
    Ok(compressed.iter().zip(&plain).map(|(a, b)| (a.0, (a.1 / b.1 - 1.0) * 100.0)).collect())
}

/// Returns the gain at the smallest payload, in per cent.
pub(super) fn first_gain(runs: &StudyRuns, compressed: &str, plain: &str) -> Result<f64, String> {
    gains(runs, compressed, plain)?.first().map(|first| first.1).ok_or_else(|| "no payload".to_owned())
}

/// Profiles and IP versions of figures 12 to 15: compressed and uncompressed runs.
const CASES: [(&str, &str); 4] =
    [("udp-v4-ip", "udp-v4"), ("udp-v4-udp", "udp-v4"), ("udp-v6-ip", "udp-v6"), ("udp-v6-udp", "udp-v6")];

/// Returns the greatest gain at any payload in any case, in per cent.
pub(super) fn greatest_gain(runs: &StudyRuns) -> Result<f64, String> {
    let gains = CASES.iter().map(|(compressed, plain)| gains(runs, compressed, plain));
    let gains = gains.collect::<Result<Vec<Points>, String>>()?;
    Ok(gains.iter().flatten().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max))
}

/// Returns the payload at which compression gains most bits per second, in bytes.
pub(super) fn widest_gap(runs: &StudyRuns, compressed: &str, plain: &str) -> Result<f64, String> {
    let (compressed, plain) = (goodput(runs, compressed)?, goodput(runs, plain)?);
    let gaps = compressed.iter().zip(&plain).map(|(a, b)| (a.0, a.1 - b.1));
    gaps.max_by(|a, b| a.1.total_cmp(&b.1)).map(|widest| widest.0).ok_or_else(|| "no payload".to_owned())
}

/// Returns the payload of the `n`-th valley in bytes. One byte more loses most within the `n`-th 184 bytes.
pub(super) fn valley(runs: &StudyRuns, run: &str, n: u32) -> Result<f64, String> {
    Ok(deepest_fall(runs, run, n)?.0)
}

/// Returns the largest loss by one payload byte in the first valleys, in per cent.
pub(super) fn fall(runs: &StudyRuns, run: &str) -> Result<f64, String> {
    Ok(deepest_fall(runs, run, 1)?.1 * 100.0)
}

/// Returns the payload with the largest fall of goodput, and that fall. The fall is against one byte less.
fn deepest_fall(runs: &StudyRuns, run: &str, n: u32) -> Result<(f64, f64), String> {
    let first = 12.0 + 184.0 * (f64::from(n) - 1.0);
    let goodput = goodput(runs, run)?;
    let within = goodput.windows(2).filter(|pair| pair[0].0 >= first && pair[1].0 < first + 184.0);
    let falls = within
        .filter(|pair| pair[1].0 - pair[0].0 < 1.5)
        .map(|pair| (pair[1].0, 1.0 - pair[1].1 / pair[0].1));
    falls.max_by(|a, b| a.1.total_cmp(&b.1)).ok_or_else(|| format!("run \"{run}\" has no tooth {n}"))
}

/// Returns the maximum distance of the first three valleys from equation 12, in bytes. Covers IPv4 and IPv6.
pub(super) fn valleys_off(runs: &StudyRuns) -> Result<f64, String> {
    let mut most = 0.0;
    for (run, ip, n) in [("pad-v4", super::V4), ("pad-v6", Ip::V6)]
        .into_iter()
        .flat_map(|(run, ip)| [1, 2, 3].map(|n| (run, ip, n)))
    {
        let predicted = equations::valley(n, ip.header_len() as f64);
        most = f64::max(most, (valley(runs, run, n)? - predicted).abs());
    }
    Ok(most)
}

/// Returns the distance, in bytes, of the first valley after compressed headers from equation 13.
pub(super) fn valley_off(runs: &StudyRuns, run: &str, average: f64) -> Result<f64, String> {
    Ok(valley(runs, run, 1)? - equations::valley_compressed(1, average))
}

/// Propagation of both directions of the pings' scenario, in seconds.
const PROPAGATION: f64 = 0.5;

/// Returns the mean round trip in seconds, without propagation, against the threshold in milliseconds.
pub(super) fn round_trips(runs: &StudyRuns, run: &str) -> Result<Points, String> {
    let there = against(runs, run, PACKING, "flow.there.delay-mean")?;
    let back = against(runs, run, PACKING, "flow.back.delay-mean")?;
    let sum = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 * 1e3, a.1 + b.1 - PROPAGATION);
    Ok(there.iter().zip(&back).map(sum).collect())
}

/// Returns the maximum distance of figure 8 from its chord, in milliseconds.
pub(super) fn bend(runs: &StudyRuns) -> Result<f64, String> {
    let points = round_trips(runs, "pings")?;
    let [first, .., last] = points[..] else { return Err("no line".to_owned()) };
    let slope = (last.1 - first.1) / (last.0 - first.0);
    let off = points.iter().map(|(x, y)| (y - first.1 - slope * (x - first.0)).abs());
    Ok(off.fold(0.0, f64::max) * 1e3)
}

/// Returns the growth of the round trip with the threshold.
pub(super) fn slope(runs: &StudyRuns) -> Result<f64, String> {
    let points = round_trips(runs, "pings")?;
    let [first, .., last] = points[..] else { return Err("no line".to_owned()) };
    Ok((last.1 - first.1) * 1e3 / (last.0 - first.0))
}

/// Returns what compression adds to the mean round trip at the least threshold, in milliseconds.
pub(super) fn added_by_compression(runs: &StudyRuns) -> Result<f64, String> {
    let least = |run: &str| -> Result<f64, String> {
        round_trips(runs, run)?.first().map(|first| first.1).ok_or_else(|| "no threshold".to_owned())
    };
    Ok((least("pings-rohc")? - least("pings")?) * 1e3)
}
