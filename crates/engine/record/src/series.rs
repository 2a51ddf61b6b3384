//! The data that a recording consists of.

use std::collections::BTreeMap;
use std::sync::Arc;

use bentpipe_net::metric::{Kind, Metric};
use bentpipe_net::{Histogram, Unit};
use bentpipe_sim::{EngineCounters, Fingerprint};
use bentpipe_units::{Span, Time};

use super::declared::{Catalogue, Declared};
use super::subject_and_metric;

/// Value reported by an element under one name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A running total.
    Counter(u64),
    /// A value at an instant; NaN where there was none.
    Gauge(f64),
}

impl Value {
    /// Returns the value as a number.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Counter(total) => total as f64,
            Value::Gauge(value) => value,
        }
    }

    /// Returns the kind: counter or gauge.
    pub fn kind(self) -> Kind {
        match self {
            Value::Counter(_) => Kind::Counter,
            Value::Gauge(_) => Kind::Gauge,
        }
    }
}

/// The samples of a column, one for each instant of its series.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Running totals.
    Counter(Vec<u64>),
    /// Values at instants.
    Gauge(Vec<f64>),
}

impl Data {
    /// Creates an empty list of samples.
    pub fn new(kind: Kind) -> Data {
        match kind {
            Kind::Counter => Data::Counter(Vec::new()),
            Kind::Gauge | Kind::Histogram => Data::Gauge(Vec::new()),
        }
    }

    /// Reserves room for exactly `rows` more samples.
    fn reserve(&mut self, rows: usize) {
        match self {
            Data::Counter(values) => values.reserve_exact(rows),
            Data::Gauge(values) => values.reserve_exact(rows),
        }
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        match self {
            Data::Counter(values) => values.len(),
            Data::Gauge(values) => values.len(),
        }
    }

    /// Returns `true` if it has no samples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns sample number `row`.
    ///
    /// # Panics
    /// Panics if the sample does not exist.
    pub fn at(&self, row: usize) -> Value {
        match self {
            Data::Counter(values) => Value::Counter(values[row]),
            Data::Gauge(values) => Value::Gauge(values[row]),
        }
    }

    /// Appends a sample. A value of the other kind is converted: what an element calls a value is up to it.
    pub fn push(&mut self, value: Value) {
        match (self, value) {
            (Data::Counter(values), Value::Counter(total)) => values.push(total),
            (Data::Counter(values), Value::Gauge(value)) => values.push(value as u64),
            (Data::Gauge(values), value) => values.push(value.as_f64()),
        }
    }

    /// Keeps every second sample, the first among them.
    fn thin(&mut self) {
        let mut keep = every_second();
        match self {
            Data::Counter(values) => values.retain(|_| keep()),
            Data::Gauge(values) => values.retain(|_| keep()),
        }
    }

    /// Returns `true` if all samples are the same; there is at least one.
    pub fn is_constant(&self) -> bool {
        match self {
            Data::Counter(values) => is_constant(values.iter().copied()),
            Data::Gauge(values) => is_constant(values.iter().map(|value| value.to_bits())),
        }
    }

    /// Returns all samples as numbers.
    pub fn to_f64(&self) -> Vec<f64> {
        (0..self.len()).map(|row| self.at(row).as_f64()).collect()
    }
}

/// Time series of one metric of one part.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Number of the part; columns of a part follow each other.
    pub part: u32,
    /// The part's path in the scenario with dots: "flow.cubic.sender".
    pub element: Arc<str>,
    /// Declaration of the metric.
    pub metric: Declared,
    /// The samples.
    pub data: Data,
}

impl Column {
    /// Returns the column's title in files: "flow.cubic.sender.cwnd [B]".
    pub fn title(&self) -> String {
        format!("{}.{} [{}]", self.element, self.name(), self.unit().symbol())
    }

    /// Returns `true` if the column is in a diagram over time.
    pub fn is_drawn(&self) -> bool {
        self.metric.drawing().is_some() && self.metric.is_drawn_at(&self.element)
    }

    /// Returns the metric's name, such as "cwnd".
    pub fn name(&self) -> &str {
        self.metric.name()
    }

    /// Returns the metric's unit.
    pub fn unit(&self) -> Unit {
        self.metric.unit()
    }
}

/// Samples of several columns at common instants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Sample times, rising.
    pub times: Vec<Time>,
    /// The columns, in the order of the elements in their network.
    pub columns: Vec<Column>,
    /// Starts of flows that begin behind the start of the run, in seconds.
    ///
    /// `None` of those that never begin. Results of versions that did not write them have none at all.
    pub starts: Option<BTreeMap<String, Option<f64>>>,
}

impl Series {
    /// Returns the column of an element and name.
    pub fn column(&self, element: &str, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| &*column.element == element && column.name() == name)
    }

    /// Returns the column of this measure: "flow.cubic.sender.cwnd".
    pub fn column_of(&self, measure: &str) -> Option<&Column> {
        let (element, name) = subject_and_metric(measure)?;
        self.column(element, name)
    }

    /// Returns the columns of a part.
    pub fn of(&self, part: u32) -> &[Column] {
        let start = self.columns.partition_point(|column| column.part < part);
        let count = self.columns[start..].partition_point(|column| column.part == part);
        &self.columns[start..start + count]
    }

    /// Reserves room for `rows` more instants.
    pub(super) fn reserve(&mut self, rows: usize) {
        self.times.reserve_exact(rows);
        self.columns.iter_mut().for_each(|column| column.data.reserve(rows));
    }

    /// Keeps every second instant, the first among them.
    pub(super) fn thin(&mut self) {
        let mut keep = every_second();
        self.times.retain(|_| keep());
        self.columns.iter_mut().for_each(|column| column.data.thin());
    }

    /// Returns the declarations of the columns that the running program recorded.
    pub fn catalogue(&self) -> Catalogue {
        let own = |column: &'_ Column| match column.metric {
            Declared::Own(metric) => Some(metric),
            Declared::Read(_) => None,
        };
        let reported = self.columns.iter().filter_map(|column| Some((&*column.element, own(column)?)));
        Catalogue { starts: self.starts.clone(), ..Catalogue::of(reported) }
    }

    /// The instants in seconds.
    pub fn seconds(&self) -> Vec<f64> {
        self.times.iter().map(|time| time.as_secs_f64()).collect()
    }
}

fn is_constant(mut bits: impl Iterator<Item = u64>) -> bool {
    bits.next().is_some_and(|first| bits.all(|bits| bits == first))
}

/// Returns `true` at every second call of the function created, from the first.
fn every_second() -> impl FnMut() -> bool {
    let mut odd = false;
    move || {
        odd = !odd;
        odd
    }
}

/// Value of a metric reported by a part. Its kind is the metric's.
#[derive(Clone, Copy, Debug)]
pub struct Total {
    /// Number of the part.
    pub part: u32,
    /// Declaration of the metric.
    pub metric: &'static Metric,
    bits: u64,
}

impl Total {
    /// Creates a reported value.
    pub fn new(part: u32, metric: &'static Metric, value: Value) -> Total {
        let bits = match (metric.kind, value) {
            (Kind::Counter, Value::Counter(total)) => total,
            (Kind::Counter, Value::Gauge(value)) => value as u64,
            (Kind::Gauge | Kind::Histogram, value) => value.as_f64().to_bits(),
        };
        Total { part, metric, bits }
    }

    /// Returns the value.
    pub fn value(&self) -> Value {
        match self.metric.kind {
            Kind::Counter => Value::Counter(self.bits),
            Kind::Gauge | Kind::Histogram => Value::Gauge(f64::from_bits(self.bits)),
        }
    }
}

/// Values of all elements at one instant.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// The instant.
    pub at: Time,
    /// Paths of the parts, by their numbers.
    pub parts: Arc<[Arc<str>]>,
    /// Reported values, in the order of the parts.
    pub entries: Vec<Total>,
    /// Distributions that they reported, in the order of the parts.
    pub histograms: Vec<(u32, &'static Metric, Histogram)>,
    /// Last arrivals of payload that receivers reported, in the order of the parts.
    pub arrivals: Vec<(u32, Time)>,
}

impl Totals {
    /// Returns the value reported by `element` under `name`.
    pub fn value(&self, element: &str, name: &str) -> Option<f64> {
        let is_it =
            |total: &&Total| &*self.parts[total.part as usize] == element && total.metric.name == name;
        self.entries.iter().find(is_it).map(|total| total.value().as_f64())
    }

    /// Returns the distributions that a part reported.
    pub fn histograms_of(&self, part: u32) -> &[(u32, &'static Metric, Histogram)] {
        let start = self.histograms.partition_point(|entry| entry.0 < part);
        let count = self.histograms[start..].partition_point(|entry| entry.0 == part);
        &self.histograms[start..start + count]
    }

    /// Returns the last arrival of payload at a part.
    pub fn last_arrival(&self, part: u32) -> Option<Time> {
        let place = self.arrivals.binary_search_by_key(&part, |arrival| arrival.0).ok()?;
        Some(self.arrivals[place].1)
    }

    /// Returns what a part reported.
    pub fn of(&self, part: u32) -> &[Total] {
        let start = self.entries.partition_point(|total| total.part < part);
        let count = self.entries[start..].partition_point(|total| total.part == part);
        &self.entries[start..start + count]
    }
}

/// Sampling intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// The interval asked for.
    pub asked: Span,
    /// Interval used: the given one, or a multiple if memory could not hold its samples.
    pub used: Span,
}

/// Recording of one run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The sampled columns.
    pub series: Series,
    /// Sampling of the series.
    pub sampling: Sampling,
    /// Values of all elements at the end of the warm-up.
    pub warm: Totals,
    /// Values of all elements at the end of the run.
    pub end: Totals,
    /// The hash over all that happened.
    pub fingerprint: Fingerprint,
    /// Event counts of the engine.
    pub work: EngineCounters,
    /// Packets sent to outputs that lead nowhere.
    pub stray: u64,
}
