//! A trace and the models fitted to it, as figures, as a table and as a page.

use bentpipe_net::channel::{Fit, Trace};
use serde::Serialize;

use super::counts::{Counts, Lengths};
use super::fit::{fit_all, name, parameters};
use super::model::Model;
use crate::report::{Axis, Block, Cell, Curve, Mark, Page, Plot, Scale, Table, number};

/// Lengths of runs that models are held against: longer ones count as of this length.
const MAX_LENGTH: u64 = 1 << 20;
/// Points of a curve.
const POINTS: usize = 160;
/// Parts that the trace is divided into to show how its rate of loss moves.
const WINDOWS: u64 = 200;

/// What a trace and models of it say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// How many frames.
    pub frames: u64,
    /// How many of them were lost.
    pub losses: u64,
    /// The share that was lost.
    pub loss: f64,
    /// The mean number of lost frames in a row; none without any.
    pub burst: Option<f64>,
    /// The mean number of received frames in a row; none without any.
    pub gap: Option<f64>,
    /// The most lost frames in a row, and the most received ones.
    pub longest: [u64; 2],
    /// How often a packet may be sent.
    pub attempts: u32,
    /// The share of packets that are lost all the same, if each transmission takes the next frame.
    pub residual: f64,
    /// How many runs of lost frames have a length up to 1, 2, 4, 8, ...: the class's last length, and the runs.
    pub burst_histogram: Vec<(u64, u64)>,
    /// The same of received frames.
    pub gap_histogram: Vec<(u64, u64)>,
    /// The models.
    pub models: Vec<Row>,
}

/// A model and how well it fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which fit, as a scenario writes it.
    pub fit: Fit,
    /// The model, or why there is none.
    pub model: Option<Model>,
    /// Why there is none.
    pub problem: Option<String>,
    /// How it fits.
    pub goodness: Option<Goodness>,
}

/// How well a model fits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goodness {
    /// The model's share of lost frames.
    pub loss: f64,
    /// Its mean number of lost frames in a row.
    pub burst: f64,
    /// Its mean number of received frames in a row.
    pub gap: f64,
    /// Its share of packets that are lost all the same.
    pub residual: f64,
    /// The largest distance between the distributions of lengths of runs of lost frames (Kolmogorov and Smirnov).
    pub burst_distance: f64,
    /// The same of received frames.
    pub gap_distance: f64,
    /// The logarithm of the probability that the model gives the trace; none where that is zero.
    pub log_likelihood: Option<f64>,
    /// Akaike's criterion: twice the number of parameters, less twice that logarithm. The least is best.
    pub aic: Option<f64>,
}

/// Fits every model to a trace and compares, for a link layer that sends each packet up to `attempts` times.
pub fn comparison(trace: &Trace, attempts: u32) -> Comparison {
    let counts = Counts::of(trace);
    let row = |(fit, fitted): (Fit, Result<super::Fitted, String>)| {
        let model = fitted.as_ref().ok().map(|fitted| fitted.model);
        let goodness = model.map(|model| goodness(fit, &model, trace, &counts, attempts));
        Row { fit, model, problem: fitted.err(), goodness }
    };
    Comparison {
        frames: counts.frames,
        losses: counts.losses,
        loss: counts.loss(),
        burst: counts.bursts.mean(),
        gap: counts.gaps.mean(),
        longest: [counts.bursts.longest(), counts.gaps.longest()],
        attempts,
        residual: Counts::residual(trace, attempts),
        burst_histogram: counts.bursts.classes(),
        gap_histogram: counts.gaps.classes(),
        models: fit_all(trace, &counts).into_iter().map(row).collect(),
    }
}

fn goodness(fit: Fit, model: &Model, trace: &Trace, counts: &Counts, attempts: u32) -> Goodness {
    let log_likelihood = Some(model.log_likelihood(trace)).filter(|log| log.is_finite());
    Goodness {
        loss: model.loss(),
        burst: model.mean_run(true),
        gap: model.mean_run(false),
        residual: model.residual(attempts),
        burst_distance: distance(&counts.bursts, model, true),
        gap_distance: distance(&counts.gaps, model, false),
        log_likelihood,
        aic: log_likelihood.map(|log| 2.0 * f64::from(parameters(fit)) - 2.0 * log),
    }
}

/// The largest distance between two distributions, of which the trace's changes only at lengths that occur.
fn distance(lengths: &Lengths, model: &Model, lost: bool) -> f64 {
    let expected = model.beyond(lost, lengths.longest().clamp(1, MAX_LENGTH));
    let at = |len: u64| match usize::try_from(len).unwrap_or(usize::MAX) {
        0 => 1.0,
        len => expected.get(len - 1).or(expected.last()).copied().unwrap_or(0.0),
    };
    let mut before = 1.0;
    let step = |(len, share): (u64, f64)| {
        // Just before a length that occurs, the trace's share is still that of the last one.
        let far = (before - at(len - 1)).abs().max((share - at(len)).abs());
        before = share;
        far
    };
    lengths.beyond().into_iter().map(step).fold(0.0, f64::max)
}

impl Comparison {
    /// The fits, a line each.
    pub fn table(&self) -> Table {
        let again = format!("lost after {}", self.attempts);
        let head =
            ["", "p", "r", "loss good", "loss bad", "loss", "burst", "gap", &again, "bursts off", "gaps off"];
        let mut head: Vec<String> = head.map(str::to_owned).to_vec();
        head.push("AIC above least".into());
        let least = self.models.iter().filter_map(|row| row.goodness?.aic).min_by(f64::total_cmp);
        let mut rows = vec![self.own_row()];
        rows.extend(self.models.iter().map(|row| row.cells(least)));
        Table { caption: "The trace and models fitted to it; lengths in frames".into(), head, rows }
    }

    fn own_row(&self) -> Vec<Cell> {
        let mean = |mean: Option<f64>| Cell::Number(mean.map_or_else(String::new, number));
        let mut cells = vec![Cell::Text(name(Fit::Itself).into())];
        cells.extend((0..4).map(|_| Cell::Number(String::new())));
        cells.extend([Cell::Number(number(self.loss)), mean(self.burst), mean(self.gap)]);
        cells.push(Cell::Number(number(self.residual)));
        cells.extend((0..3).map(|_| Cell::Number(String::new())));
        cells
    }
}

impl Row {
    fn cells(&self, least: Option<f64>) -> Vec<Cell> {
        let mut cells = vec![Cell::Text(name(self.fit).into())];
        let (Some(model), Some(good)) = (self.model, self.goodness) else {
            cells[0] = Cell::Text(format!(
                "{}: none, {}",
                name(self.fit),
                self.problem.as_deref().unwrap_or("no fit")
            ));
            cells.extend((0..11).map(|_| Cell::Number(String::new())));
            return cells;
        };
        let states = [model.p, model.r, model.loss_good, model.loss_bad];
        let is_one = parameters(self.fit) == 1;
        cells.extend(states.map(|value| Cell::Number(if is_one { String::new() } else { number(value) })));
        let rest = [good.loss, good.burst, good.gap, good.residual, good.burst_distance, good.gap_distance];
        cells.extend(rest.map(|value| Cell::Number(number(value))));
        let above = good.aic.zip(least).map(|(aic, least)| format!("{:.0}", aic - least));
        cells.push(Cell::Number(above.unwrap_or_else(|| "impossible".into())));
        cells
    }
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
        lengths_plot("Runs of lost frames", &counts.bursts, true, comparison),
        lengths_plot("Runs of received frames", &counts.gaps, false, comparison),
        histogram_plot(comparison),
        rate_plot(trace),
    ];
    let blocks = vec![
        Block::Table(comparison.table()),
        Block::Paragraph(HOW_TO_READ.split_whitespace().collect::<Vec<_>>().join(" ")),
        Block::Plots(plots),
    ];
    Page { title: title.to_owned(), lead: source.to_owned(), facts, blocks }
}

const HOW_TO_READ: &str = "
    A chain goes from good to bad with probability p after a frame and back with r, and loses frames with a probability in each
    state. \"Off\" is the largest distance between the distributions of lengths (Kolmogorov and Smirnov): 0 is a perfect fit.
    Akaike's criterion (AIC) weighs the likelihood of the whole trace against the number of parameters: the least is best.";

/// The share of runs of lost frames at least so long, of the trace and of its models.
pub fn bursts_plot(trace: &Trace, comparison: &Comparison) -> Plot {
    lengths_plot("Runs of lost frames", &Counts::of(trace).bursts, true, comparison)
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

/// Leaves out points that are less than a twelfth of an octave behind the one before.
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

/// How many runs are in each class of lengths.
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
    let mut plot = Plot::new("Rate of loss", Axis::new("frame", ""), Axis::new("lost", ""));
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
