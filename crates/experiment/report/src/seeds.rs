//! Results over the seeds: spread over time, convergence of means, and paired differences between points.

use bentpipe_record::compare::{Difference, differences_of};
use bentpipe_record::stats::{Estimate, quantile, running_means, samples_needed};
use bentpipe_record::{
    Averaged, Cell, Measure, MeasureName, Outcome, Point, PointSummary, ResultSet, Series, Table,
    subject_and_metric,
};
use indexmap::IndexMap;

use super::axis::Axis;
use super::numbers::quantity;
use super::page::Block;
use super::plot::{Curve, Mark, Plot};
use super::points::short;
use super::swept::SWEPT;
use super::tables::{compared, text};
use super::timed;

/// Fewest seeds whose quantiles are drawn.
const FEWEST: usize = 3;

/// Most seeds whose series are read, of all points together.
const MAX_READ: usize = 60;

/// Most curves of a diagram.
const MAX_CURVES: usize = 4;

/// Most measures whose convergence is drawn.
const MAX_DRAWN: usize = 4;

/// Most points that are compared with the first one.
const MAX_COMPARED: usize = 12;

/// Most rows of the table of differences.
const MAX_ROWS: usize = 200;

/// Quantiles of the spread over the seeds.
const SPREAD: [f64; 3] = [0.05, 0.5, 0.95];

/// Half-widths in relation to the mean for which the table has the number of seeds.
const WANTED: [f64; 2] = [0.05, 0.01];

/// Returns the median and the spread over the seeds of a point's diagrams. `points` are read in all.
pub(super) fn spread(point: &Point<'_>, points: usize) -> Vec<Plot> {
    let most = (MAX_READ / points.max(1)).max(FEWEST).min(point.seeds.len());
    if most < FEWEST {
        return Vec::new();
    }
    let all: Vec<Vec<Plot>> =
        point.all_series(most, timed::is_drawn).map(|series| timed::plots(&series)).collect();
    let Some((first, others)) = all.split_first() else { return Vec::new() };
    let plots = first.iter().map(|plot| {
        let alike = |plots: &'_ Vec<Plot>| plots.iter().find(|other| other.title == plot.title).cloned();
        let others: Vec<Plot> = others.iter().filter_map(alike).collect();
        over_seeds(plot, &others)
    });
    plots.filter(|plot| !plot.is_empty()).collect()
}

/// Returns the median and the 5 % to 95 % band of each curve.
fn over_seeds(first: &Plot, others: &[Plot]) -> Plot {
    let mut plot = Plot::new(first.title.clone(), first.x.clone(), first.y.clone());
    plot.note = format!("median and 5 % to 95 % over {} seeds", others.len() + 1);
    let lines = first.curves.iter().filter(|curve| curve.mark == Mark::Line).take(MAX_CURVES);
    for (colour, curve) in lines.enumerate() {
        let same = |plot: &'_ Plot| plot.curves.iter().find(|other| other.name == curve.name).cloned();
        let copies: Vec<Curve> = others.iter().filter_map(same).chain([curve.clone()]).collect();
        let (mut middle, mut centre, mut halves) = (Vec::new(), Vec::new(), Vec::new());
        for (row, (at, _)) in curve.points.iter().enumerate() {
            let here = copies.iter().filter_map(|copy| copy.points.get(row));
            let mut values: Vec<f64> =
                here.filter(|(x, y)| x == at && y.is_finite()).map(|point| point.1).collect();
            values.sort_by(f64::total_cmp);
            if values.len() < FEWEST {
                continue;
            }
            let [low, median, high] = SPREAD.map(|share| quantile(&values, share).unwrap_or(f64::NAN));
            middle.push((*at, median));
            centre.push((*at, f64::midpoint(low, high)));
            halves.push((high - low) / 2.0);
        }
        let name = format!("{}, 5 % to 95 %", curve.name);
        plot.curves.push(Curve {
            name: curve.name.clone(),
            points: middle,
            errors: Vec::new(),
            mark: Mark::Line,
            colour,
        });
        plot.curves.push(Curve { name, points: centre, errors: halves, mark: Mark::Band, colour });
    }
    plot
}

/// Returns Jain's index over time of flows that share a path, of the first seed.
///
/// Flows of one kind are compared, as the measure `flows.fairness` does; of several kinds copies are.
pub(super) fn fairness(point: &PointSummary, series: &Series) -> Option<Plot> {
    let shares = timed::shares(series);
    let mut groups: IndexMap<String, Vec<&[(f64, f64)]>> = IndexMap::new();
    let is_one = point.measures.contains_key("flows.fairness");
    for (flow, points) in &shares {
        let group = if is_one { "all flows".to_owned() } else { bentpipe_record::pattern(flow) };
        groups.entry(group).or_default().push(points);
    }
    let mut plot = Plot::new("Jain's index", Axis::time(), Axis::share("Jain's index"));
    plot.note = "of goodput, over flows that have begun and not ended; 1 is an even share".into();
    plot.y.covers = Some((0.0, 1.0));
    let several = groups.into_iter().filter(|(_, flows)| flows.len() > 1).take(MAX_CURVES);
    plot.curves = several
        .enumerate()
        .map(|(colour, (name, flows))| Curve { name, points: index(&flows), colour, ..Curve::default() })
        .collect();
    Some(plot).filter(|plot| !plot.is_empty())
}

/// Returns Jain's index at each instant. Flows that have not begun have no value, and those that get nothing have zero.
fn index(flows: &[&[(f64, f64)]]) -> Vec<(f64, f64)> {
    let Some(longest) = flows.iter().max_by_key(|flow| flow.len()) else { return Vec::new() };
    let at = |row: usize| {
        let shares = flows.iter().filter_map(|flow| flow.get(row).map(|point| point.1));
        let shares: Vec<f64> = shares.filter(|share| !share.is_nan()).collect();
        if shares.len() < 2 {
            return None;
        }
        bentpipe_record::stats::jain(shares.into_iter())
    };
    longest.iter().enumerate().map(|(row, (time, _))| (*time, at(row).unwrap_or(f64::NAN))).collect()
}

/// Returns the convergence of a point's means, folded.
///
/// It has diagrams, and the number of seeds for an interval.
pub(super) fn convergence(point: &PointSummary, runs: &[&Outcome]) -> Option<Block> {
    // First, as the samples of each measure are searched among all of them.
    if runs.len() < 2 {
        return None;
    }
    let is_moving = |averaged: &Averaged| averaged.estimate.ci95.is_some_and(|half| half > 0.0);
    let moving: Vec<(&String, &Averaged, Vec<f64>)> = chosen(point)
        .filter(|(_, averaged)| is_moving(averaged))
        .map(|(name, averaged)| (name, averaged, samples(runs, name)))
        .collect();
    if moving.is_empty() {
        return None;
    }
    let mut plots: IndexMap<&str, Plot> = IndexMap::new();
    for (name, averaged, samples) in &moving {
        let (title, measure) = kind(name);
        if plots.len() >= MAX_DRAWN && !plots.contains_key(title) {
            continue;
        }
        let plot = plots.entry(title).or_insert_with(|| {
            let axis = match &averaged.unit[..] {
                "ratio" => Axis::share(measure),
                unit => Axis::new(measure, unit),
            };
            let mut plot = Plot::new(format!("{title} over the seeds"), Axis::new("seeds", ""), axis);
            plot.note = "mean of the first seeds, with its 95 % interval".into();
            (plot.x.ends_with_values, plot.y.from_zero) = (true, false);
            plot
        });
        if plot.curves.len() < MAX_CURVES {
            plot.curves.push(running(short(name), plot.curves.len(), samples));
        }
    }
    let rows = moving.iter().map(|(name, averaged, samples)| needed(name, averaged, samples)).collect();
    let head = ["measure", "mean", "seeds", "seeds for \u{b1} 5 %", "seeds for \u{b1} 1 %"]
        .map(String::from)
        .to_vec();
    let caption =
        "Number of seeds for a 95 % interval of this half-width, by the variance of the present ones".into();
    let table = Block::Table(Table { caption, head, rows });
    let plots = Block::Plots(plots.into_values().collect());
    Some(Block::Folded("Convergence over the seeds".into(), vec![plots, table]))
}

/// Returns the measures that sweeps plot, of groups in place of their copies.
fn chosen(point: &PointSummary) -> impl Iterator<Item = (&String, &Averaged)> {
    let names: Vec<&str> = point.measures.keys().map(String::as_str).collect();
    let shown = super::points::shown(&names);
    point.measures.iter().filter(move |(name, _)| shown.iter().any(|one| one == name))
}

/// Returns the values of a measure in the order of the seeds.
fn samples(runs: &[&Outcome], name: &str) -> Vec<f64> {
    let value =
        |run: &&Outcome| run.measures.iter().find(|Measure { name: own, .. }| own == name).map(|it| it.value);
    runs.iter().filter_map(value).collect()
}

/// Returns title and name of a measure without its subject.
fn kind(name: &str) -> (&'static str, &'static str) {
    let last = MeasureName::of_mean(name).or_else(|| subject_and_metric(name)).map_or(name, |(_, last)| last);
    SWEPT
        .iter()
        .find(|(measure, _)| *measure == last)
        .map_or(("Measure", "value"), |(name, title)| (title, name))
}

fn running(name: String, colour: usize, samples: &[f64]) -> Curve {
    let means = running_means(samples);
    Curve {
        name,
        points: means.iter().map(|it| (it.n as f64, it.mean)).collect(),
        // The interval of two seeds is so wide that it would flatten all others.
        errors: means.iter().map(|it| it.ci95.filter(|_| it.n > 2).unwrap_or(f64::NAN)).collect(),
        mark: Mark::Points,
        colour,
    }
}

fn needed(name: &str, averaged: &Averaged, samples: &[f64]) -> Vec<Cell> {
    let seeds = |share: f64| match samples_needed(samples, share * averaged.estimate.mean.abs()) {
        Some(seeds) => seeds.to_string(),
        None => "\u{2013}".to_owned(),
    };
    let front =
        [Cell::Text(name.to_owned()), Cell::Number(text(averaged)), Cell::Number(samples.len().to_string())];
    front.into_iter().chain(WANTED.map(|share| Cell::Number(seeds(share)))).collect()
}

/// Returns the differences of all points from the first one, seed by seed, folded.
pub(super) fn differences(results: &ResultSet<'_>) -> Option<Block> {
    let runs =
        |point: usize| results.runs.iter().filter(move |run| run.point == point).map(|run| &run.outcome);
    let names: Vec<&str> =
        results.summaries().iter().flat_map(|point| point.measures.keys().map(String::as_str)).collect();
    let names = super::points::shown(&names);
    let mut rows = Vec::new();
    for number in 1..results.points.len().min(MAX_COMPARED + 1) {
        let all = differences_of(runs(0), runs(number));
        let kept = all.iter().filter(|it| names.contains(&&*it.name) && it.paired.is_some_and(|it| it.n > 1));
        rows.extend(kept.map(|it| difference(&results.points[number].label, it)));
    }
    rows.truncate(MAX_ROWS);
    let head = ["point", "measure", "first point", "this point", "difference", "of first", ""]
        .map(String::from)
        .to_vec();
    let caption = format!(
        "Differences from the first point ({}) in pairs of the same seed, with 95 % intervals; clear where one leaves out zero",
        results.points.first().map_or("", |point| &point.label)
    );
    let table = Block::Table(Table { caption, head, rows: rows.clone() });
    (!rows.is_empty()).then(|| Block::Folded("Differences, seed by seed".into(), vec![table]))
}

fn difference(label: &str, of: &Difference) -> Vec<Cell> {
    let shown = |estimate: &Estimate, runs: usize| Cell::Number(compared(estimate, &of.unit, runs));
    let share = of.paired.filter(|_| of.first.mean != 0.0).map(|paired| paired.mean / of.first.mean);
    vec![
        Cell::Text(label.to_owned()),
        Cell::Text(of.name.clone()),
        shown(&of.first, of.runs[0]),
        shown(&of.second, of.runs[1]),
        of.paired.as_ref().map_or_else(|| Cell::Number(String::new()), |it| shown(it, of.runs[0])),
        Cell::Number(share.map(|share| quantity(share, None, "ratio")).unwrap_or_default()),
        Cell::Text(if of.is_clear() { "clear".to_owned() } else { String::new() }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: &[(f64, f64)]) -> Plot {
        let mut plot = Plot::new("Window", Axis::time(), Axis::new("cwnd", "B"));
        plot.curves = vec![Curve { name: "a".into(), points: values.to_vec(), ..Curve::default() }];
        plot
    }

    #[test]
    fn the_spread_is_over_seeds_that_have_the_instant() {
        let others: Vec<Plot> = [2.0, 3.0, 4.0].map(|y| plot(&[(0.0, y), (1.0, y * 10.0)])).to_vec();
        let shown = over_seeds(&plot(&[(0.0, 1.0), (1.0, 50.0), (2.0, 9.0)]), &others);
        let [median, band] = &shown.curves[..] else { panic!("two curves") };
        // Quantiles of 1, 2, 3, 4 and of 20, 30, 40, 50; one seed alone has the third instant.
        assert_eq!(median.points, [(0.0, 2.5), (1.0, 35.0)]);
        let ends: Vec<f64> = band.points.iter().zip(&band.errors).map(|((_, y), half)| y - half).collect();
        assert!((ends[0] - 1.15).abs() < 1e-12 && (ends[1] - 21.5).abs() < 1e-12, "{ends:?}");
        assert_eq!(shown.note, "median and 5 % to 95 % over 4 seeds");
    }

    #[test]
    fn the_index_is_over_flows_that_have_begun_and_not_ended() {
        let first = [(1.0, 4.0), (2.0, 4.0), (3.0, 4.0), (4.0, 4.0)];
        let second = [(1.0, f64::NAN), (2.0, 4.0), (3.0, 0.0)];
        let index = index(&[&first, &second]);
        assert!(index[0].1.is_nan() && index[3].1.is_nan(), "one flow alone has no index: {index:?}");
        // A share of zero after the start is starvation, and counts.
        assert_eq!((index[1].1, index[2].1), (1.0, 0.5));
        assert_eq!(super::index(&[&first, &[(1.0, 0.0)]])[0].1, 0.5, "one that gets nothing from the first");
    }

    #[test]
    fn the_mean_of_a_group_has_the_title_of_its_measure() {
        assert_eq!(kind("group.web.goodput.mean"), ("Goodput", "goodput"));
        assert_eq!(kind("flow.a.delay-mean"), ("Mean one-way delay", "delay-mean"));
    }
}
