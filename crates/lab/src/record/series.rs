//! The data that a recording consists of.

use bentpipe_net::Unit;
use bentpipe_sim::{Fingerprint, Work};
use bentpipe_units::{Span, Time};

/// Whether a column holds running totals or values at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A running total since the start.
    Counter,
    /// A value at an instant.
    Gauge,
}

/// What an element reported under one name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A running total.
    Counter(u64),
    /// A value at an instant; NaN where there was none.
    Gauge(f64),
}

impl Value {
    /// As a number.
    pub fn as_f64(self) -> f64 {
        match self {
            Value::Counter(total) => total as f64,
            Value::Gauge(value) => value,
        }
    }

    /// Counter or gauge.
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
    /// No samples yet.
    pub fn new(kind: Kind) -> Data {
        match kind {
            Kind::Counter => Data::Counter(Vec::new()),
            Kind::Gauge => Data::Gauge(Vec::new()),
        }
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        match self {
            Data::Counter(values) => values.len(),
            Data::Gauge(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sample number `row`.
    ///
    /// # Panics
    /// If there is no such sample.
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

    /// All samples as numbers.
    pub fn to_f64(&self) -> Vec<f64> {
        (0..self.len()).map(|row| self.at(row).as_f64()).collect()
    }
}

/// One name of one element over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The element's path in the scenario, such as "flow/cubic/sender".
    pub element: String,
    /// The name that the element reports, such as "cwnd".
    pub name: String,
    /// What it is measured in.
    pub unit: Unit,
    /// The samples.
    pub data: Data,
}

impl Column {
    /// The column's title in files: "flow.cubic.sender.cwnd [B]".
    pub fn title(&self) -> String {
        format!("{}.{} [{}]", self.element.replace('/', "."), self.name, self.unit.symbol())
    }
}

/// Samples of several columns at common instants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// When the samples were taken, rising.
    pub times: Vec<Time>,
    /// The columns, in the order of the elements in their network.
    pub columns: Vec<Column>,
}

impl Series {
    /// The column of an element and name.
    pub fn column(&self, element: &str, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.element == element && column.name == name)
    }

    /// Keeps every second instant, the first among them.
    pub(super) fn thin(&mut self) {
        let mut keep = every_second();
        self.times.retain(|_| keep());
        self.columns.iter_mut().for_each(|column| column.data.thin());
    }

    /// The instants in seconds.
    pub fn seconds(&self) -> Vec<f64> {
        self.times.iter().map(|time| time.as_secs_f64()).collect()
    }
}

/// True, false, true, ...
fn every_second() -> impl FnMut() -> bool {
    let mut odd = false;
    move || {
        odd = !odd;
        odd
    }
}

/// What all elements reported at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// The instant.
    pub at: Time,
    /// Element, name, unit and value, in the order of the elements in their network.
    pub entries: Vec<(String, String, Unit, Value)>,
}

impl Totals {
    /// What `element` reported under `name`.
    pub fn value(&self, element: &str, name: &str) -> Option<f64> {
        let mut entries = self.entries.iter();
        entries.find(|(e, n, ..)| e == element && n == name).map(|(.., value)| value.as_f64())
    }
}

/// How often samples were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// The interval asked for.
    pub asked: Span,
    /// The interval used: a multiple of the one asked for if memory would not have held its samples.
    pub used: Span,
}

/// All that was taken down of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The sampled columns.
    pub series: Series,
    /// How they were sampled.
    pub sampling: Sampling,
    /// What all elements reported at the end of the warm-up.
    pub warm: Totals,
    /// What all elements reported at the end of the run.
    pub end: Totals,
    /// The hash over all that happened.
    pub fingerprint: Fingerprint,
    /// What the engine did.
    pub work: Work,
    /// Packets sent to outputs that lead nowhere.
    pub stray: u64,
}
