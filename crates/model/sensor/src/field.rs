//! Fields of motes that gateways share: layout, radio, tables and conditions.

use std::path::PathBuf;

use bentpipe_site::{Named, Review, SharedTable};
use bentpipe_units::{RandomStream, Span};
use bentpipe_wireless::wpan::{Links, Mac, Radio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::query::{Column, Query, QueryError};
use crate::world::Conditions;

/// Maximum number of motes.
pub const MAX_MOTES: usize = 2500;
/// Maximum number of frames of a capture.
const MAX_CAPTURE: u32 = 10_000_000;

/// Fields by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Fields(pub Named<Field>);

/// Field of motes around a base station, which is mote 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SensorField")]
pub struct Field {
    /// Places of the motes.
    pub layout: Layout,
    /// Medium access of all motes.
    #[serde(default)]
    pub mac: Mac,
    /// Radio of all motes.
    #[serde(default)]
    pub radio: Radio,
    /// Phenomena.
    #[serde(default)]
    pub world: Conditions,
    /// CSV file of samples in place of phenomena: columns `time` in s, `node`, and sensors. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<PathBuf>,
    /// Enables sleep: radios are on only to send, and while children send. Default: false.
    #[serde(default)]
    pub sleep: bool,
    /// Time in which a level of the tree sends in each epoch. Default: the epoch divided by the depth of the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<Span>,
    /// Beacons of each mote from which the tree is made, one per second. Default: 20.
    #[serde(default = "beacons")]
    #[schemars(range(min = 5, max = 200))]
    pub beacons: u8,
    /// Energy of a mote's battery in joules. Default: 20000, about two AA cells.
    #[serde(default = "battery")]
    #[schemars(range(min = 1, max = 1000000000))]
    pub battery: f64,
    /// Number of frames of the radio that the run's `field-NAME.pcap` has. Default: 0, no file.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10000000))]
    pub capture: u32,
    /// Tables stored at the motes, for joins.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub table: Named<Table>,
}

const fn beacons() -> u8 {
    20
}

const fn battery() -> f64 {
    20_000.0
}

/// Places of motes. Distances are in metres.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[schemars(rename = "SensorLayout")]
pub enum Layout {
    /// Single radio cell without bit errors. All motes receive each other, and the base station is one hop away.
    Cell {
        /// Number of motes.
        motes: u16,
    },
    /// Rows and columns, with the base station in the middle of the first row's side.
    Grid {
        /// Number of columns.
        columns: u16,
        /// Number of rows.
        rows: u16,
        /// Distance between neighbours.
        #[schemars(range(min = 0.1, max = 10000))]
        spacing: f64,
    },
    /// Random places in a square, with the base station in its middle.
    Random {
        /// Number of motes.
        motes: u16,
        /// Side of the square.
        #[schemars(range(min = 0.1, max = 1000000))]
        side: f64,
    },
    /// Given tree in one radio cell without bit errors.
    Tree {
        /// Parent of each mote, from mote 1; 0 is the base station. A parent stands before its children.
        parents: Vec<u16>,
    },
}

impl Layout {
    /// Returns the number of motes.
    pub fn motes(&self) -> usize {
        match self {
            Layout::Cell { motes } | Layout::Random { motes, .. } => usize::from(*motes),
            Layout::Grid { columns, rows, .. } => usize::from(*columns) * usize::from(*rows),
            Layout::Tree { parents } => parents.len(),
        }
    }

    /// Returns the places of the base station and the motes.
    pub(crate) fn places(&self, stream: &mut RandomStream) -> Vec<[f64; 2]> {
        let mut places = vec![[0.0, 0.0]];
        match *self {
            Layout::Cell { motes } => {
                places.extend((1..=motes).map(|n| [10.0 * f64::from(n), 0.0]));
            }
            Layout::Grid { columns, rows, spacing } => {
                let left = -f64::from(columns - 1) / 2.0;
                let place = |row: u16, column: u16| {
                    [(left + f64::from(column)) * spacing, f64::from(row + 1) * spacing]
                };
                places.extend((0..rows).flat_map(|row| (0..columns).map(move |column| place(row, column))));
            }
            Layout::Random { motes, side } => {
                let mut along = || (stream.unit() - 0.5) * side;
                places.extend((0..motes).map(|_| [along(), along()]));
            }
            Layout::Tree { ref parents } => {
                places.extend((1..=parents.len()).map(|n| [10.0 * n as f64, 0.0]));
            }
        }
        places
    }

    /// Returns the links between base station and motes.
    pub(crate) fn links(&self, places: &[[f64; 2]], radio: &Radio, stream: &mut RandomStream) -> Links {
        match self {
            Layout::Cell { .. } | Layout::Tree { .. } => Links::complete(places.len()),
            Layout::Grid { .. } | Layout::Random { .. } => Links::between(places, radio, stream),
        }
    }

    /// Returns the first error.
    fn problem(&self) -> Option<String> {
        let count = self.motes();
        if count == 0 || count > MAX_MOTES {
            return Some(format!("expected 1 to {MAX_MOTES} motes, got {count}"));
        }
        let is_length = |length: f64| length.is_finite() && length > 0.0;
        match self {
            Layout::Grid { spacing: length, .. } | Layout::Random { side: length, .. }
                if !is_length(*length) =>
            {
                Some(format!("expected a distance above zero, got {length}"))
            }
            Layout::Tree { parents } => {
                let wrong = (0..parents.len()).find(|n| usize::from(parents[*n]) > *n)?;
                let (mote, parent) = (wrong + 1, parents[wrong]);
                Some(format!("mote {mote} has the parent {parent}: expected one of 0 to {wrong}"))
            }
            _ => None,
        }
    }
}

/// Table stored at the motes: each has the row of its own number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SensorTable")]
pub struct Table {
    /// Names of the columns, without `node`.
    pub columns: Vec<String>,
    /// Rows: the number of a mote, then the value of each column.
    pub rows: Vec<Vec<f32>>,
}

impl Table {
    /// Returns a mote's values.
    pub(crate) fn row(&self, mote: u16) -> Option<&[f32]> {
        self.rows.iter().find(|row| row.first() == Some(&f32::from(mote))).map(|row| &row[1..])
    }

    fn problem(&self) -> Option<String> {
        let is_name = |name: &String| {
            name.starts_with(|first: char| first.is_ascii_lowercase())
                && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_')
        };
        if let Some(name) = self.columns.iter().find(|name| !is_name(name)) {
            return Some(format!("column {name:?}: expected lower-case letters, digits and \"_\""));
        }
        if self.columns.is_empty() || self.columns.len() > 8 {
            return Some(format!("expected 1 to 8 columns, got {}", self.columns.len()));
        }
        let width = self.columns.len() + 1;
        let row = self.rows.iter().position(|row| row.len() != width)?;
        Some(format!("row {}: expected {width} numbers, got {}", row + 1, self.rows[row].len()))
    }
}

impl Field {
    /// Returns `true` if the radios of motes are not on all the time.
    pub(crate) fn saves(&self) -> bool {
        self.sleep || self.mac.listen.is_some()
    }

    /// Parses a query with the tables of the field.
    ///
    /// # Errors
    /// Returns an error with its place if the text is not a query, or its result does not fit a frame.
    pub fn parse(&self, text: &str) -> Result<Query, QueryError> {
        let columns = |name: &str| self.table.get(name).map(|table| table.columns.clone());
        let query = Query::parse(text, &columns)?;
        let functions = crate::aggregate::functions(&query.items);
        let len = crate::aggregate::group_len(&functions);
        let most = crate::message::MAX_MOTE_MESSAGE - crate::message::RESULT_HEADER;
        if len > most {
            let problem = format!("a partial aggregate of {len} B: expected at most {most} B");
            return Err(QueryError { column: 8, problem });
        }
        Ok(query)
    }

    /// Returns the value of a joined column at a mote.
    pub(crate) fn joined(&self, query: &Query, mote: u16, column: u8) -> Option<f32> {
        let table = self.table.get(query.table.as_ref()?)?;
        table.row(mote)?.get(usize::from(column)).copied()
    }

    /// Returns `true` if a mote has a row in the table, if one is joined.
    pub(crate) fn is_joined(&self, query: &Query, mote: u16) -> bool {
        !query.inputs().iter().any(|column| matches!(column, Column::Joined(_))) && query.table.is_none()
            || self.joined(query, mote, 0).is_some()
    }
}

impl SharedTable for Fields {
    fn check(&self, review: &mut Review<'_>) {
        for (name, field) in &self.0 {
            let key = format!("field.{name}");
            if let Some(problem) = field.layout.problem() {
                review.refuse(&format!("{key}.layout"), problem);
            }
            if let Err(error) = field.mac.check() {
                review.refuse(&format!("{key}.mac.{}", error.path()), format!("expected {}", error.expected));
            }
            if field.sleep && field.mac.listen.is_some() {
                let problem =
                    "expected either `sleep` or `mac.listen`: radios that look at the channel need no slots";
                review.refuse(&format!("{key}.sleep"), problem);
            }
            if field.capture > MAX_CAPTURE {
                let problem = format!("expected at most {MAX_CAPTURE} frames, got {}", field.capture);
                review.refuse(&format!("{key}.capture"), problem);
            }
            for (table, content) in &field.table {
                if let Some(problem) = content.problem() {
                    review.refuse(&format!("{key}.table.{table}"), problem);
                }
            }
        }
    }
}
