//! Loss trace with fitted models, as statistics, table and page.

use bentpipe_net::channel::loss::{Comparison, Counts, Lengths, MAX_LENGTH, Row, name, parameters};
use bentpipe_net::channel::{Fit, Trace};

use super::{Axis, Block, Cell, Curve, Mark, Page, Plot, Scale, Table, number};

/// Points of a curve.
const POINTS: usize = 160;
/// Parts that the trace is divided into to show how its rate of loss moves.
const WINDOWS: u64 = 200;

/// Returns the table of a comparison: the trace and each fit in a row.
pub fn table(comparison: &Comparison) -> Table {
    let again = format!("lost after {}", comparison.attempts);
    let head =
        ["", "p", "r", "loss good", "loss bad", "loss", "burst", "gap", &again, "bursts off", "gaps off"];
    let mut head: Vec<String> = head.map(str::to_owned).to_vec();
    head.push("AIC above least".into());
    let least = comparison.models.iter().filter_map(|row| row.goodness?.aic).min_by(f64::total_cmp);
    let mut rows = vec![trace_row(comparison)];
    rows.extend(comparison.models.iter().map(|row| model_row(row, least)));
    Table { caption: "The trace and models fitted to it; lengths in frames".into(), head, rows }
}

fn trace_row(comparison: &Comparison) -> Vec<Cell> {
    let mean = |mean: Option<f64>| Cell::Number(mean.map_or_else(String::new, number));
    let mut cells = vec![Cell::Text(name(Fit::Itself).into())];
    cells.extend((0..4).map(|_| Cell::Number(String::new())));
    cells.extend([Cell::Number(number(comparison.loss)), mean(comparison.burst), mean(comparison.gap)]);
    cells.push(Cell::Number(number(comparison.residual)));
    cells.extend((0..3).map(|_| Cell::Number(String::new())));
    cells
}

fn model_row(row: &Row, least: Option<f64>) -> Vec<Cell> {
    let mut cells = vec![Cell::Text(name(row.fit).into())];
    let (Some(model), Some(good)) = (row.model, row.goodness) else {
        let problem = row.problem.as_deref().unwrap_or("no fit");
        cells[0] = Cell::Text(format!("{}: none, {problem}", name(row.fit)));
        cells.extend((0..11).map(|_| Cell::Number(String::new())));
        return cells;
    };
    let states = [model.p, model.r, model.loss_good, model.loss_bad];
    let is_one = parameters(row.fit) == 1;
    cells.extend(states.map(|value| Cell::Number(if is_one { String::new() } else { number(value) })));
    let rest = [good.loss, good.burst, good.gap, good.residual, good.burst_distance, good.gap_distance];
    cells.extend(rest.map(|value| Cell::Number(number(value))));
    let above = good.aic.zip(least).map(|(aic, least)| format!("{:.0}", aic - least));
    cells.push(Cell::Number(above.unwrap_or_else(|| "impossible".into())));
    cells
}

/// The page: the table, and how lengths of runs and the rate of loss look.
pub fn page(title: &str, source: &str, trace: &Trace, comparison: &Comparison) -> Page {
    let counts = Counts::of(trace);
    let facts = vec![
        ("frames".to_owned(), comparison.frames.to_string()),
        ("lost".to_owned(), format!("{} ({} %)", comparison.losses, number(comparison.loss * 100.0))),
        ("longest burst".to_owned(), format!("{} frames", comparison.longest[0])),
        ("longest gap".to_owned(), format!("{} frames", comparison.longest[1])),
    ];
    let plots = vec![
        lengths_plot("Loss bursts", &counts.bursts, true, comparison),
        lengths_plot("Loss-free gaps", &counts.gaps, false, comparison),
        histogram_plot(comparison),
        rate_plot(trace),
    ];
    let blocks = vec![
        Block::Table(table(comparison)),
        Block::Paragraph(HOW_TO_READ.split_whitespace().collect::<Vec<_>>().join(" ")),
        Block::Plots(plots),
    ];
    Page { title: title.to_owned(), lead: source.to_owned(), facts, blocks }
}

const HOW_TO_READ: &str = "
    A chain goes from good to bad with probability p after a frame and back with r, and loses frames with a probability in each
    state. \"Off\" is the largest distance between the distributions of lengths (Kolmogorov and Smirnov): 0 is a perfect fit.
    Akaike's criterion (AIC) weighs the likelihood of the whole trace against the number of parameters: the least is best.";

/// Returns the distribution of loss burst lengths of the trace and its models.
pub fn bursts_plot(trace: &Trace, comparison: &Comparison) -> Plot {
    lengths_plot("Loss bursts", &Counts::of(trace).bursts, true, comparison)
}

/// The share of runs at least so long, of the trace and of its models.
fn lengths_plot(title: &str, lengths: &Lengths, lost: bool, comparison: &Comparison) -> Plot {
    let logarithmic = |label: &str, unit: &str| Axis { scale: Scale::Logarithmic, ..Axis::new(label, unit) };
    let mut plot =
        Plot::new(title, logarithmic("length", "frames"), logarithmic("share at least so long", ""));
    let runs = lengths.runs().max(1) as f64;
    let mut own = vec![(1.0, 1.0)];
    own.extend(lengths.beyond().into_iter().map(|(len, share)| (len as f64 + 1.0, share)));
    own.retain(|(_, share)| *share > 0.5 / runs);
    thin(&mut own);
    plot.curves.push(Curve {
        name: name(Fit::Itself).into(),
        points: own,
        mark: Mark::Dots,
        ..Curve::default()
    });
    let longest = lengths.longest().clamp(2, MAX_LENGTH);
    for (n, row) in comparison.models.iter().enumerate() {
        let Some(model) = row.model else { continue };
        let beyond = model.beyond(lost, longest);
        let place = |k: usize| ((longest as f64).powf(k as f64 / POINTS as f64)).round() as usize;
        let mut at: Vec<usize> = (0..=POINTS).map(place).collect();
        at.dedup();
        let share = |len: usize| if len < 2 { 1.0 } else { beyond[len - 2] };
        let points = at.into_iter().map(|len| (len as f64, share(len)));
        // Below what the trace could show a curve only takes room.
        let points = points.filter(|(_, share)| *share > 0.5 / runs).collect();
        plot.curves.push(Curve { name: name(row.fit).into(), points, colour: n + 1, ..Curve::default() });
    }
    plot
}

/// Drops points less than a twelfth of an octave after the previous one.
fn thin(points: &mut Vec<(f64, f64)>) {
    let mut last = 0.0;
    points.retain(|(length, _)| {
        let is_apart = *length >= last * 1.06;
        if is_apart {
            last = *length;
        }
        is_apart
    });
}

/// Plots the number of runs per class of lengths.
fn histogram_plot(comparison: &Comparison) -> Plot {
    let logarithmic = |label: &str, unit: &str| Axis { scale: Scale::Logarithmic, ..Axis::new(label, unit) };
    let mut plot =
        Plot::new("Histogram of lengths", logarithmic("length up to", "frames"), logarithmic("runs", ""));
    plot.note = "Classes 1, 2, 3 to 4, 5 to 8, ...".into();
    let histograms = [("lost", &comparison.burst_histogram), ("received", &comparison.gap_histogram)];
    for (colour, (name, classes)) in histograms.into_iter().enumerate() {
        let points = classes.iter().map(|(len, runs)| (*len as f64, *runs as f64)).collect();
        let mark = Mark::Points;
        plot.curves.push(Curve { name: name.into(), points, colour, mark, ..Curve::default() });
    }
    plot
}

/// The rate of loss along the trace.
fn rate_plot(trace: &Trace) -> Plot {
    let mut plot = Plot::new("Loss ratio", Axis::new("frame", ""), Axis::new("lost", ""));
    let window = trace.frames().div_ceil(WINDOWS);
    plot.note = format!("over {window} frames each");
    let mut points = Vec::new();
    let mut from = 0;
    while from < trace.frames() {
        let to = trace.frames().min(from + window);
        let lost = (from..to).filter(|n| trace.is_lost(*n)).count();
        points.push(((from + to) as f64 / 2.0, lost as f64 / (to - from) as f64));
        from = to;
    }
    plot.curves.push(Curve { points, ..Curve::default() });
    plot
}
