//! TCP over ABR with video background: cell arithmetic and efficiency.

use bentpipe_lab::plan::Point;
use bentpipe_record::{Column, Series};
use bentpipe_wire::{aal5, atm};

use crate::runs::{Finished, StudyRuns};
use crate::study::At;

/// The line, as the publication has it: all of it is the cells', in Mbit/s.
const LINE_MBIT_S: f64 = 155.52;

/// The segment, in bytes.
const MSS: usize = 512;

/// Share of an ATM line that is TCP payload.
///
/// A segment has TCP, IP and LLC/SNAP headers; one cell in 32 is an RM cell.
fn share() -> f64 {
    let cells = aal5::cells(MSS + 20 + 20 + 8);
    MSS as f64 / (cells * atm::CELL_LEN) as f64 * 31.0 / 32.0
}

/// Returns the wire size of a segment in bytes.
pub(super) fn on_wire(_: &StudyRuns) -> Result<f64, String> {
    Ok(MSS as f64 / share())
}

/// Returns TCP's ceiling on the line in Mbit/s.
pub(super) fn ceiling(_: &StudyRuns) -> Result<f64, String> {
    Ok(share() * LINE_MBIT_S)
}

/// Returns TCP's share of the capacity that video of this mean left, in per cent.
///
/// It is measured from `from_s` to the end of the run.
pub(super) fn efficiency(runs: &StudyRuns, run: &str, mean: &str, from_s: f64) -> Result<f64, String> {
    let finished = runs.run(run)?;
    let point = point(runs, finished, run, mean)?;
    let seen = Seen::of(&finished.series(point)?)?;
    let since = |totals: &[f64]| {
        let first = seen.seconds.iter().position(|at| *at >= from_s).filter(|_| from_s > 0.0);
        let from = first.map_or(0.0, |first| totals[first]);
        totals.last().map_or(f64::NAN, |last| last - from)
    };
    let duration_s = point.scenario.duration.as_secs_f64() - from_s;
    Ok(percent(since(&seen.delivered), since(&seen.video), duration_s))
}

/// Returns the efficiency of each second, with the first setting of the video.
pub(super) fn efficiency_over_time(runs: &StudyRuns, run: &str) -> Result<Vec<(f64, f64)>, String> {
    let seen = Seen::of_run(runs, run)?;
    let each = |from: usize, to: usize, span_s: f64| {
        percent(seen.delivered[to] - seen.delivered[from], seen.video[to] - seen.video[from], span_s)
    };
    Ok(seen.each_second(each))
}

/// Returns the utilisation of the trunk per second in per cent, first video setting.
pub(super) fn use_over_time(runs: &StudyRuns, run: &str) -> Result<Vec<(f64, f64)>, String> {
    let seen = Seen::of_run(runs, run)?;
    Ok(seen.each_second(|from, to, span_s| 100.0 * (seen.busy[to] - seen.busy[from]) / span_s))
}

/// Returns the efficiency in per cent for delivered bytes and video cells in a time.
fn percent(delivered: f64, video_cells: f64, span_s: f64) -> f64 {
    let cell_bits = 8.0 * atm::CELL_LEN as f64;
    let capacity = LINE_MBIT_S * 1e6 * span_s - video_cells * cell_bits;
    100.0 * 8.0 * delivered / (share() * capacity)
}

/// Returns the point of a run whose video has this mean.
fn point<'a>(runs: &StudyRuns, finished: &'a Finished, run: &str, mean: &str) -> Result<&'a Point, String> {
    let at = At::from_iter([("mean".to_owned(), mean.to_owned())]);
    match runs.points(run, &at)?[..] {
        [chosen] => finished.point(chosen),
        ref several => Err(format!("run \"{run}\" has {} points with {at:?}", several.len())),
    }
}

/// Totals at the instants of a run's samples.
///
/// They are bytes delivered to all receivers, cells of video, and busy time of the trunk.
struct Seen {
    seconds: Vec<f64>,
    delivered: Vec<f64>,
    video: Vec<f64>,
    busy: Vec<f64>,
}

impl Seen {
    fn of(series: &Series) -> Result<Seen, String> {
        let seconds = series.seconds();
        let of_trunk = |name: &str| {
            let column = series.column("line.trunk.forward", name);
            column
                .map(|column| column.data.to_f64())
                .ok_or_else(|| format!("no series of the trunk's {name}"))
        };
        let is_delivered =
            |column: &&Column| column.element.ends_with(".receiver") && column.name() == "delivered-bytes";
        let mut delivered = vec![0.0; seconds.len()];
        for column in series.columns.iter().filter(is_delivered) {
            delivered.iter_mut().zip(column.data.to_f64()).for_each(|(sum, own)| *sum += own);
        }
        Ok(Seen { video: of_trunk("vbr-cells")?, busy: of_trunk("busy")?, seconds, delivered })
    }

    /// Reads the totals of a run with the first setting of the video.
    fn of_run(runs: &StudyRuns, run: &str) -> Result<Seen, String> {
        let finished = runs.run(run)?;
        Seen::of(&finished.series(point(runs, finished, run, "5 Mbit/s")?)?)
    }

    /// Returns `value` for the samples at both ends of each second, and their distance.
    fn each_second(&self, value: impl Fn(usize, usize, f64) -> f64) -> Vec<(f64, f64)> {
        let (mut points, mut from) = (Vec::new(), 0);
        for (to, end) in self.seconds.iter().enumerate() {
            let span_s = end - self.seconds[from];
            if span_s >= 1.0 - 1e-9 {
                points.push((*end, value(from, to, span_s)));
                from = to;
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_full_of_tcp_is_fully_used_and_video_is_not_held_against_it() {
        // 10 s at the ceiling; then 40 Mbit/s of video, and TCP with its share of the rest.
        assert!((percent(121.3e6 / 8.0 * 10.0, 0.0, 10.0) - 100.0).abs() < 0.1);
        let rest = share() * (155.52e6 - 40e6) / 8.0 * 10.0;
        assert!((percent(rest, 40e6 / 424.0 * 10.0, 10.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn seconds_are_taken_as_they_were_sampled() {
        let seconds: Vec<f64> = (0..=60).map(|n| f64::from(n) * 0.05).collect();
        let busy: Vec<f64> = seconds.iter().map(|t| t * t / 10.0).collect();
        let seen = Seen { delivered: busy.clone(), video: busy.clone(), busy, seconds };
        let points = seen.each_second(|from, to, span_s| (seen.busy[to] - seen.busy[from]) / span_s);
        let expected = [(1.0, 0.1), (2.0, 0.3), (3.0, 0.5)];
        assert_eq!(points.len(), 3);
        for ((t, y), (at, value)) in points.into_iter().zip(expected) {
            assert!((t - at).abs() < 1e-9 && (y - value).abs() < 1e-9, "{t} {y}");
        }
    }
}
