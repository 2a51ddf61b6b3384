//! Running a network and taking down what its elements report.

use std::ops::ControlFlow;

use bentpipe_net::{Observer, Unit};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Span, Time};

use super::series::{Column, Data, Recording, Sampling, Series, Totals, Value};

/// Samples times columns that are kept at most: 64 MB.
pub(super) const MAX_CELLS: usize = 8_000_000;

/// A run is looked in on at least this often, for progress and interruption.
const MIN_STEPS: u64 = 200;

/// Why a recording ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The caller asked for it.
    #[error("interrupted at {0}")]
    Interrupted(Time),
    /// There would be too many columns to keep even two samples of each.
    #[error("{columns} values to record, at most {max} fit: probe fewer elements")]
    TooManyColumns {
        /// How many values the probed elements report.
        columns: usize,
        /// How many there may be.
        max: usize,
    },
}

/// What to take down of a run, and how often.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// The elements to sample; final totals are kept of all.
    pub elements: Vec<ElementId>,
    /// The time between samples; zero takes none but the first and the last.
    pub interval: Span,
    /// Totals are also taken at this instant, so that rates can leave out what came before.
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
        let mut series = Series::default();
        self.sample(network, &mut series);
        let interval = self.interval_for(series.columns.len(), MAX_CELLS)?;
        let (end, warm_up) = (Time::ZERO + self.duration, Time::ZERO + self.warm_up.min(self.duration));
        let step = self.step(interval);
        let mut warm = (warm_up == Time::ZERO).then(|| totals(network));
        let (mut next_sample, mut next_look) = (Time::ZERO + interval, Time::ZERO + step);
        while network.now() < end {
            let until = next_sample.min(next_look).min(end);
            if warm.is_none() && warm_up <= until {
                network.run_until(warm_up);
                warm = Some(totals(network));
            }
            network.run_until(until);
            if until == next_look {
                next_look = until + step;
                if progress(until).is_break() {
                    return Err(Stopped::Interrupted(until));
                }
            }
            if until == next_sample || until == end {
                next_sample = until + interval;
                self.sample(network, &mut series);
            }
        }
        Ok(Recording {
            series,
            sampling: Sampling { asked: self.interval, used: interval },
            warm: warm.unwrap_or_default(),
            end: totals(network),
            fingerprint: network.fingerprint(),
            work: network.work(),
            stray: network.stray(),
        })
    }

    /// The time between two looks in.
    fn step(&self, interval: Span) -> Span {
        interval.min(self.duration / MIN_STEPS).max(Span::from_nanos(1))
    }

    /// The interval asked for, or the smallest multiple of it with which `columns` fit into `max_cells`.
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

    pub(super) fn sample(&self, network: &mut Network, series: &mut Series) {
        let first = series.times.is_empty();
        series.times.push(network.now());
        let mut next_column = 0;
        for &id in &self.elements {
            if first {
                let element = network.path(id).to_owned();
                network.observe(id, &mut NewColumns { element, columns: &mut series.columns });
            } else {
                let mut row = Row { columns: &mut series.columns, next: next_column };
                network.observe(id, &mut row);
                next_column = row.next;
            }
        }
    }
}

/// Makes a column for each name that an element reports.
struct NewColumns<'a> {
    element: String,
    columns: &'a mut Vec<Column>,
}

impl NewColumns<'_> {
    fn add(&mut self, name: &str, unit: Unit, value: Value) {
        let mut data = Data::new(value.kind());
        data.push(value);
        self.columns.push(Column { element: self.element.clone(), name: name.to_owned(), unit, data });
    }
}

impl Observer for NewColumns<'_> {
    fn counter(&mut self, name: &'static str, unit: Unit, total: u64) {
        self.add(name, unit, Value::Counter(total));
    }
    fn gauge(&mut self, name: &'static str, unit: Unit, value: f64) {
        self.add(name, unit, Value::Gauge(value));
    }
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.element);
    }
}

/// Appends to the columns in their order: elements report the same names in the same order each time.
struct Row<'a> {
    columns: &'a mut [Column],
    next: usize,
}

impl Row<'_> {
    fn add(&mut self, name: &str, value: Value) {
        let column = &mut self.columns[self.next];
        debug_assert_eq!(column.name, name, "{} reports other names than before", column.element);
        column.data.push(value);
        self.next += 1;
    }
}

impl Observer for Row<'_> {
    fn counter(&mut self, name: &'static str, _: Unit, total: u64) {
        self.add(name, Value::Counter(total));
    }
    fn gauge(&mut self, name: &'static str, _: Unit, value: f64) {
        self.add(name, Value::Gauge(value));
    }
}

/// What all elements report now.
pub(super) fn totals(network: &mut Network) -> Totals {
    let mut totals = Totals { at: network.now(), entries: Vec::new() };
    for id in network.ids() {
        let element = network.path(id).to_owned();
        network.observe(id, &mut All { element, totals: &mut totals });
    }
    totals
}

struct All<'a> {
    element: String,
    totals: &'a mut Totals,
}

impl Observer for All<'_> {
    fn part(&mut self, path: &str) {
        path.clone_into(&mut self.element);
    }
    fn counter(&mut self, name: &'static str, unit: Unit, total: u64) {
        self.totals.entries.push((self.element.clone(), name.to_owned(), unit, Value::Counter(total)));
    }
    fn gauge(&mut self, name: &'static str, unit: Unit, value: f64) {
        self.totals.entries.push((self.element.clone(), name.to_owned(), unit, Value::Gauge(value)));
    }
}
