//! Query language of sensor fields, with errors by place and reason.
//!
//! ```text
//! SELECT item {, item} FROM sensors [JOIN table ON node] [WHERE column op number {AND column op number}]
//! [GROUP BY column [/ number]] SAMPLE PERIOD time [FOR time]
//!
//! SELECT column {, column} FROM sensors a JOIN sensors b (ON epoch | WITHIN time) [WHERE column op (number | column) {AND ..}]
//! SAMPLE PERIOD time [FOR time]
//! ```
//!
//! An item is a column, or `avg`, `min`, `max`, `sum` or `count` of one, or `histogram(column, low, high, buckets)`. Columns are
//! `node`, `epoch`, the sensors, and those of the joined table; in a join of motes `a.light` and `b.light`.

mod lexer;
mod parser;
#[cfg(test)]
mod tests;

use bentpipe_units::Span;

/// Maximum length of a query in bytes.
pub const MAX_TEXT: usize = 400;
/// Maximum number of items, and of conditions.
pub const MAX_ITEMS: usize = 8;
/// Maximum number of epochs between the rows of a pair.
pub const MAX_WINDOW: u32 = 16;
/// Maximum number of buckets of a histogram.
pub const MAX_BUCKETS: u8 = 32;

/// Transducer of a mote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sensor {
    /// Light in lux.
    Light,
    /// Temperature in degrees Celsius.
    Temperature,
    /// Sound level in dB.
    Sound,
    /// Acceleration in mg.
    Acceleration,
    /// Magnetic field in µT.
    Magnetism,
}

impl Sensor {
    /// Sensors in the order of their names in messages.
    pub const ALL: [Sensor; 5] =
        [Sensor::Light, Sensor::Temperature, Sensor::Sound, Sensor::Acceleration, Sensor::Magnetism];

    /// Returns the name in queries.
    pub const fn name(self) -> &'static str {
        match self {
            Sensor::Light => "light",
            Sensor::Temperature => "temperature",
            Sensor::Sound => "sound",
            Sensor::Acceleration => "acceleration",
            Sensor::Magnetism => "magnetism",
        }
    }

    /// Returns the range of usual values, from which selectivities are estimated.
    pub const fn range(self) -> (f32, f32) {
        match self {
            Sensor::Light => (0.0, 1000.0),
            Sensor::Temperature => (-100.0, 30.0),
            Sensor::Sound => (20.0, 90.0),
            Sensor::Acceleration => (-200.0, 200.0),
            Sensor::Magnetism => (0.0, 60.0),
        }
    }

    /// Returns the energy of a sample in microjoules, a value chosen here.
    ///
    /// The order is that of the literature: a magnetometer costs most, a thermistor least.
    pub const fn microjoules(self) -> f64 {
        match self {
            Sensor::Temperature => 0.1,
            Sensor::Light => 0.5,
            Sensor::Sound => 2.0,
            Sensor::Acceleration => 5.0,
            Sensor::Magnetism => 270.0,
        }
    }
}

/// Column of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// Number of the mote.
    Node,
    /// Number of the epoch.
    Epoch,
    /// Sample.
    Sensor(Sensor),
    /// Column of the joined table, by its number there.
    Joined(u8),
    /// Column of one mote of a pair.
    Of(Side, Input),
}

impl Column {
    /// Returns the column of a mote by itself.
    pub fn alone(self) -> Column {
        match self {
            Column::Of(_, Input::Node) => Column::Node,
            Column::Of(_, Input::Epoch) => Column::Epoch,
            Column::Of(_, Input::Sensor(sensor)) => Column::Sensor(sensor),
            column => column,
        }
    }
}

/// Mote of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// First in FROM.
    Left,
    /// Second in FROM.
    Right,
}

/// Column that each mote of a pair has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Number of the mote.
    Node,
    /// Number of the epoch.
    Epoch,
    /// Sample.
    Sensor(Sensor),
}

/// Join of the streams of two motes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// Samples of two motes in one epoch: a synchronous join.
    Epoch,
    /// Samples at most that time apart: an asynchronous join.
    ///
    /// Two samples of one mote are a pair too: a join of a local stream with its past.
    Within(Span),
}

impl Pairing {
    /// Returns the largest number of epochs between the rows of a pair.
    pub fn window(self, period: Span) -> u32 {
        match self {
            Pairing::Epoch => 0,
            Pairing::Within(window) => (window.as_nanos() / period.as_nanos()) as u32,
        }
    }
}

/// Condition between the motes of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// Column on the left.
    pub left: Column,
    /// Comparison.
    pub comparison: Comparison,
    /// Column on the right.
    pub right: Column,
}

/// Comparison of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Below.
    Below,
    /// Below or equal.
    AtMost,
    /// Above.
    Above,
    /// Above or equal.
    AtLeast,
    /// Equal.
    Equal,
    /// Not equal.
    Unequal,
}

impl Comparison {
    /// Returns `true` if it holds between two values.
    pub fn holds(self, left: f32, right: f32) -> bool {
        match self {
            Comparison::Below => left < right,
            Comparison::AtMost => left <= right,
            Comparison::Above => left > right,
            Comparison::AtLeast => left >= right,
            Comparison::Equal => left == right,
            Comparison::Unequal => left != right,
        }
    }
}

/// Condition of a row: one of a conjunction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// Column on the left.
    pub column: Column,
    /// Comparison.
    pub comparison: Comparison,
    /// Number on the right.
    pub number: f32,
}

impl Condition {
    /// Returns `true` if a value meets it.
    pub fn holds(&self, value: f32) -> bool {
        self.comparison.holds(value, self.number)
    }

    /// Returns the share of samples that pass it, of a uniform distribution over the range.
    pub fn selectivity(&self) -> f64 {
        let Column::Sensor(sensor) = self.column.alone() else { return 0.5 };
        let (low, high) = sensor.range();
        let below = f64::from(((self.number - low) / (high - low)).clamp(0.0, 1.0));
        match self.comparison {
            Comparison::Below | Comparison::AtMost => below,
            Comparison::Above | Comparison::AtLeast => 1.0 - below,
            Comparison::Equal => 0.01,
            Comparison::Unequal => 0.99,
        }
    }
}

/// Aggregate function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// Mean.
    Avg,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
    /// Sum.
    Sum,
    /// Number of rows.
    Count,
    /// Number of rows in buckets of equal width. Values outside count in the first and last.
    Histogram {
        /// Lower end of the first bucket.
        low: f32,
        /// Upper end of the last bucket.
        high: f32,
        /// Number of buckets.
        buckets: u8,
    },
}

/// Item of a selection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// Column as it is.
    Column(Column),
    /// Aggregate of a column over all rows of an epoch, or of a group.
    Aggregate(Function, Column),
}

/// Grouping of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Column of the key.
    pub column: Column,
    /// Width of a group of numbers; rows are grouped by the quotient rounded down.
    pub width: Option<f32>,
}

impl Group {
    /// Returns the key of a value.
    pub fn key(&self, value: f32) -> f32 {
        self.width.map_or(value, |width| libm::floorf(value / width))
    }
}

/// Query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Items of a result row.
    pub items: Vec<Item>,
    /// Joined table.
    pub table: Option<String>,
    /// Columns of the joined table.
    pub joined: Vec<String>,
    /// Pairs that rows are, if they are.
    pub pairing: Option<Pairing>,
    /// Conditions between the motes of a pair.
    pub matches: Vec<Match>,
    /// Conditions that all hold, in the order of the text.
    pub conditions: Vec<Condition>,
    /// Grouping of an aggregate.
    pub group: Option<Group>,
    /// Time from epoch to epoch.
    pub period: Span,
    /// Duration; `None` for no end.
    pub duration: Option<Span>,
}

impl Query {
    /// Parses a query. `columns` returns the columns of a table by its name.
    ///
    /// # Errors
    /// Returns an error with its place if the text is not a query.
    pub fn parse(text: &str, columns: &dyn Fn(&str) -> Option<Vec<String>>) -> Result<Query, QueryError> {
        parser::parse(text, columns)
    }

    /// Parses a query without the tables of a field. Any other word is a column of the joined one.
    ///
    /// # Errors
    /// Returns an error with its place if the text is not a query.
    pub fn parse_anywhere(text: &str) -> Result<Query, QueryError> {
        parser::parse(text, &|_| Some(vec![parser::ANY.to_owned()]))
    }

    /// Returns the titles of the values of a result row.
    pub fn titles(text: &str, items: &[Item]) -> Vec<String> {
        let lower = text.to_lowercase();
        let start = word(&lower, "select").map_or(0, |at| at + 6);
        let end = word(&lower, "from").unwrap_or(lower.len()).max(start);
        let (mut written, mut depth) = (vec![String::new()], 0);
        for char in lower[start..end].chars().filter(|char| !char.is_whitespace()) {
            depth += i32::from(char == '(') - i32::from(char == ')');
            match char {
                ',' if depth == 0 => written.push(String::new()),
                ',' => written.last_mut().expect("one").push(' '),
                _ => written.last_mut().expect("one").push(char),
            }
        }
        let of = |(item, title): (&Item, String)| match item {
            Item::Aggregate(Function::Histogram { buckets, .. }, _) => {
                (1..=*buckets).map(|n| format!("{title} {n}")).collect()
            }
            _ => vec![title],
        };
        items.iter().zip(written).flat_map(of).collect()
    }

    /// Returns `true` if rows are pairs.
    pub fn is_pair(&self) -> bool {
        self.pairing.is_some()
    }

    /// Returns `true` if rows are aggregated.
    pub fn is_aggregate(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Aggregate(..)))
    }

    /// Returns the number of epochs; `u32::MAX` for no end.
    pub fn epochs(&self) -> u32 {
        let of = |span: Span| (span.as_nanos() / self.period.as_nanos()).min(u64::from(u32::MAX)) as u32;
        self.duration.map_or(u32::MAX, of)
    }

    /// Returns the conditions in the order in which samples are taken for them.
    ///
    /// A condition comes early if its sample costs little, or few rows pass it. Its rank is cost over the share of rows that
    /// it stops; a sensor that was sampled costs nothing more (acquisitional ordering).
    pub fn plan(&self) -> Vec<Condition> {
        let mut left = self.conditions.clone();
        let (mut planned, mut sampled) = (Vec::new(), Vec::new());
        while !left.is_empty() {
            let rank = |condition: &Condition| {
                let cost = match condition.column.alone() {
                    Column::Sensor(sensor) if !sampled.contains(&sensor) => sensor.microjoules(),
                    _ => 0.0,
                };
                cost / (1.0 - condition.selectivity()).max(1e-6)
            };
            let best = (0..left.len()).min_by(|one, other| rank(&left[*one]).total_cmp(&rank(&left[*other])));
            let next = left.remove(best.expect("not empty"));
            if let Column::Sensor(sensor) = next.column.alone() {
                sampled.push(sensor);
            }
            planned.push(next);
        }
        planned
    }

    /// Returns the sensors and columns of the table that the query uses, each once.
    pub fn inputs(&self) -> Vec<Column> {
        let items = self.items.iter().map(|item| match item {
            Item::Column(column) | Item::Aggregate(_, column) => *column,
        });
        let conditions = self.conditions.iter().map(|condition| condition.column);
        let group = self.group.iter().map(|group| group.column);
        let matches = self.matches.iter().flat_map(|pair| [pair.left, pair.right]);
        let mut inputs = Vec::new();
        for column in items.chain(conditions).chain(group).chain(matches) {
            let column = column.alone();
            if !matches!(column, Column::Node | Column::Epoch) && !inputs.contains(&column) {
                inputs.push(column);
            }
        }
        inputs
    }
}

/// Returns the place of a keyword in a query, apart from names that contain it.
fn word(text: &str, keyword: &str) -> Option<usize> {
    let is_name =
        |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || "_-.".contains(char));
    let is_whole = |&(at, _): &(usize, &str)| {
        !is_name(text[..at].chars().next_back()) && !is_name(text[at + keyword.len()..].chars().next())
    };
    text.match_indices(keyword).find(is_whole).map(|(at, _)| at)
}

/// Error returned when a text is not a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: {problem}")]
pub struct QueryError {
    /// Place of the error: characters from 1.
    pub column: usize,
    /// Description of the error and of the expected text.
    pub problem: String,
}
