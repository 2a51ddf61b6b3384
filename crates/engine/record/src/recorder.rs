//! Running a network and taking down what its elements report.

use std::ops::ControlFlow;
use std::sync::Arc;

use bentpipe_net::metric::{Counter, Gauge, Histogram as Distribution, Metric, Of};
use bentpipe_net::{Histogram, Observer};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Span, Time};

use super::declared::Declared;
use super::series::{Column, Data, Recording, Sampling, Series, Total, Totals, Value};

/// Samples times columns that are kept at most: 64 MB.
pub(super) const MAX_CELLS: usize = 8_000_000;

/// A run is looked in on at least this often, for progress and interruption.
const MIN_STEPS: u64 = 200;

/// Reason for which a recording ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The caller asked for it.
    #[error("interrupted at {0}")]
    Interrupted(Time),
    /// There would be too many columns to keep even two samples of each.
    #[error("{columns} values to record, at most {max} fit: probe fewer elements")]
    TooManyColumns {
        /// Number of values that the probed elements report.
        columns: usize,
        /// Maximum number.
        max: usize,
    },
}

/// Selection of recorded values, and their sampling interval.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Elements to sample, in the order of the network. Final totals are kept of all.
    pub elements: Vec<ElementId>,
    /// The time between samples; zero takes none but the first and the last.
    pub interval: Span,
    /// End of the warm-up, at which totals are taken too. Rates then exclude it.
    pub warm_up: Span,
    /// The length of the run.
    pub duration: Span,
}

impl Recorder {
    /// Runs `network` to the end. `progress` is called now and then with the instant reached, and may end the run.
    ///
    /// # Errors
    /// If `progress` ends the run, or there are far too many values to record.
    pub fn run(
        &self,
        network: &mut Network,
        mut progress: impl FnMut(Time) -> ControlFlow<()>,
    ) -> Result<Recording, Stopped> {
        self.run_watched(network, |now, _| progress(now))
    }

    /// Runs `network` to the end, and shows `progress` the samples as well.
    ///
    /// # Errors
    /// If `progress` ends the run, or there are far too many values to record.
    pub fn run_watched(
        &self,
        network: &mut Network,
        mut progress: impl FnMut(Time, &Series) -> ControlFlow<()>,
    ) -> Result<Recording, Stopped> {
        let (parts, mut series) = (Parts::of(network), Series::default());
        self.sample(network, &parts, &mut series);
        let interval = self.interval_for(series.columns.len(), MAX_CELLS)?;
        series.reserve((self.duration.as_nanos() / interval.as_nanos()) as usize + 1);
        let (end, warm_up) = (Time::ZERO + self.duration, Time::ZERO + self.warm_up.min(self.duration));
        let step = self.step(interval);
        let mut warm = (warm_up == Time::ZERO).then(|| totals(network, &parts));
        let (mut next_sample, mut next_look) = (Time::ZERO + interval, Time::ZERO + step);
        while network.now() < end {
            let until = next_sample.min(next_look).min(end);
            if warm.is_none() && warm_up <= until {
                network.run_until(warm_up);
                network.start_window();
                warm = Some(start_window(network, &parts));
            }
            network.run_until(until);
            if until == next_look {
                next_look = until + step;
                if progress(until, &series).is_break() {
                    return Err(Stopped::Interrupted(until));
                }
            }
            if until == next_sample || until == end {
                next_sample = until + interval;
                self.sample(network, &parts, &mut series);
            }
        }
        Ok(Recording {
            series,
            sampling: Sampling { asked: self.interval, used: interval },
            warm: warm.unwrap_or_default(),
            end: totals(network, &parts),
            fingerprint: network.fingerprint(),
            work: network.work(),
            stray: network.unrouted_packets(),
        })
    }

    /// Returns the time between two samples or checks.
    fn step(&self, interval: Span) -> Span {
        interval.min(self.duration / MIN_STEPS).max(Span::from_nanos(1))
    }

    /// Returns the smallest multiple of the given interval with which the samples fit.
    ///
    /// There are `columns` columns and room for `max_cells` values.
    pub(super) fn interval_for(&self, columns: usize, max_cells: usize) -> Result<Span, Stopped> {
        let rows = (max_cells / columns.max(1)) as u64;
        if rows < 3 {
            return Err(Stopped::TooManyColumns { columns, max: max_cells / 3 });
        }
        if self.interval.is_zero() {
            return Ok(self.duration.max(Span::from_nanos(1)));
        }
        let samples = self.duration.as_nanos() / self.interval.as_nanos();
        Ok(self.interval * samples.div_ceil(rows - 2).max(1))
    }

    pub(super) fn sample(&self, network: &mut Network, parts: &Parts, series: &mut Series) {
        let first = series.times.is_empty();
        series.times.push(network.now());
        let mut next_column = 0;
        for &id in &self.elements {
            if first {
                let part = parts.first[id.index()];
                network.observe(id, &mut NewColumns { part, parts, columns: &mut series.columns });
            } else {
                let mut row = Row { columns: &mut series.columns, next: next_column };
                network.observe(id, &mut row);
                next_column = row.next;
            }
        }
    }
}

/// Numbers of the parts of a network.
///
/// An element has one for itself and one for each part that it announces.
#[derive(Debug)]
pub(super) struct Parts {
    paths: Arc<[Arc<str>]>,
    /// The same with dots.
    dotted: Vec<Arc<str>>,
    /// The first part of each element, in the order of the network.
    first: Vec<u32>,
}

impl Parts {
    pub(super) fn of(network: &mut Network) -> Parts {
        let (mut paths, mut first) = (Vec::new(), Vec::new());
        for id in network.ids() {
            first.push(paths.len() as u32);
            paths.push(Arc::from(network.path(id)));
            let whole = paths.len() - 1;
            network.observe(id, &mut Paths { paths: &mut paths, whole });
        }
        let dotted = paths.iter().map(|path: &Arc<str>| path.replace('/', ".").into()).collect();
        Parts { paths: paths.into(), dotted, first }
    }
}

/// Visitor that collects the paths of parts.
struct Paths<'a> {
    paths: &'a mut Vec<Arc<str>>,
    /// Number of the path that classes are within.
    whole: usize,
}

impl Observer for Paths<'_> {
    fn part(&mut self, path: &str) {
        self.whole = self.paths.len();
        self.paths.push(Arc::from(path));
    }
    fn class(&mut self, name: &str) {
        self.paths.push(format!("{}/class.{name}", self.paths[self.whole]).into());
    }
    fn counter(&mut self, _: &'static Of<Counter>, _: u64) {}
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
}

/// Visitor that creates a column for each metric.
struct NewColumns<'a> {
    part: u32,
    parts: &'a Parts,
    columns: &'a mut Vec<Column>,
}

impl NewColumns<'_> {
    fn add(&mut self, metric: &'static Metric, value: Value) {
        let mut data = Data::new(metric.kind);
        data.push(value);
        let element = Arc::clone(&self.parts.dotted[self.part as usize]);
        self.columns.push(Column { part: self.part, element, metric: Declared::Own(metric), data });
    }
}

impl Observer for NewColumns<'_> {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.add(metric, Value::Counter(total));
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.add(metric, Value::Gauge(value));
    }
    fn part(&mut self, _: &str) {
        self.part += 1;
    }
    fn class(&mut self, _: &str) {
        self.part += 1;
    }
}

/// Visitor that appends values to the columns. Elements report the same metrics in the same order each time.
struct Row<'a> {
    columns: &'a mut [Column],
    next: usize,
}

impl Row<'_> {
    fn add(&mut self, metric: &Metric, value: Value) {
        let column = &mut self.columns[self.next];
        debug_assert!(column.metric.is(metric), "{} reports other metrics than before", column.element);
        column.data.push(value);
        self.next += 1;
    }
}

impl Observer for Row<'_> {
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.add(metric, Value::Counter(total));
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.add(metric, Value::Gauge(value));
    }
}

/// Returns the present values of all elements.
pub(super) fn totals(network: &mut Network, parts: &Parts) -> Totals {
    observe_all(network, parts, false)
}

/// Returns the values of all elements where the window of measures starts.
pub(super) fn start_window(network: &mut Network, parts: &Parts) -> Totals {
    observe_all(network, parts, true)
}

fn observe_all(network: &mut Network, parts: &Parts, starts_window: bool) -> Totals {
    let parts_of = Arc::clone(&parts.paths);
    let mut totals = Totals { at: network.now(), parts: parts_of, ..Totals::default() };
    for (id, &part) in network.ids().zip(&parts.first) {
        network.observe(id, &mut All { part, starts_window, totals: &mut totals });
    }
    totals
}

struct All<'a> {
    part: u32,
    starts_window: bool,
    totals: &'a mut Totals,
}

impl All<'_> {
    fn add(&mut self, metric: &'static Metric, value: Value) {
        self.totals.entries.push(Total::new(self.part, metric, value));
    }
}

impl Observer for All<'_> {
    fn starts_window(&self) -> bool {
        self.starts_window
    }
    fn part(&mut self, _: &str) {
        self.part += 1;
    }
    fn class(&mut self, _: &str) {
        self.part += 1;
    }
    fn last_arrival(&mut self, at: Option<Time>) {
        self.totals.arrivals.extend(at.map(|at| (self.part, at)));
    }
    fn histogram(&mut self, metric: &'static Of<Distribution>, values: &Histogram) {
        if !values.is_empty() {
            self.totals.histograms.push((self.part, &metric.metric, values.clone()));
        }
    }
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64) {
        self.add(metric, Value::Counter(total));
    }
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64) {
        self.add(metric, Value::Gauge(value));
    }
}
