//! The file of a study.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use serde::Deserialize;

use super::{Expected, KernelTests, Kind, Tabulated};
use crate::input::read_at_most;
use crate::report::Mark;

/// A study: what to run, and what to hold it against.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// Its folder's name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What it is called.
    pub title: String,
    /// The publication.
    pub source: String,
    /// What was done there, and what is assumed here that it does not say; paragraphs.
    pub description: String,
    /// What to run, by name.
    pub runs: IndexMap<String, Run>,
    /// Published values.
    pub rows: Vec<Row>,
    /// Figures to draw.
    pub figures: Vec<Figure>,
    /// What to send over its paths with the kernel's TCP.
    pub kernel: Option<KernelTests>,
    /// Pictures that runs made.
    pub pictures: Vec<Shown>,
    /// Tables of what was published beside ours.
    pub tables: Vec<Tabulated>,
}

/// A picture that a run left in its folder.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// What it shows.
    pub title: String,
    /// What to look at in it.
    #[serde(default)]
    pub note: String,
    /// The run, of one point and seed.
    pub run: String,
    /// The file in its folder, PNG.
    pub file: PathBuf,
}

/// A scenario to run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The scenario file, in the study's folder.
    pub scenario: PathBuf,
    /// Keys to set, as `--set` does.
    #[serde(default)]
    pub set: Vec<String>,
    /// How many seeds, instead of the scenario's.
    pub seeds: Option<u32>,
    /// Keys to set besides for `--quick`, which also runs only one seed.
    #[serde(default)]
    pub quick: Vec<String>,
}

/// A published value and where ours comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name in the study ("K2").
    pub id: String,
    /// What it is, in words.
    pub what: String,
    /// What the comparison is worth.
    pub kind: Kind,
    /// What was published.
    pub expected: Expected,
    /// The unit of the published value; ours is converted.
    pub unit: String,
    /// Where in the publication.
    pub source: String,
    /// Anything to know about it; may be empty.
    pub note: String,
    /// Where ours comes from.
    pub ours: Ours,
    /// Whether a `--quick` run is long enough to judge it.
    pub quick: bool,
    /// Why it is missed, if it is known to be; a miss all the same. Empty otherwise.
    pub missed: String,
}

/// Where our value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Ours {
    /// A measure of a run.
    Measure(Value),
    /// One measure divided by another.
    Ratio(Value, Value),
    /// The value of a swept key at which a measure is largest.
    BestAt(Value, String),
    /// What a function of the crate computes from the runs.
    Code(String),
}

/// A measure of one point of a run.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Which run.
    pub run: String,
    /// Which measure: "flow.bulk.goodput".
    pub measure: String,
    /// Which point of its sweep: keys and their values, as the scenario writes them.
    #[serde(default)]
    pub at: At,
}

/// Keys of a sweep and their values at a point.
pub type At = IndexMap<String, String>;

/// A diagram of a study.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// What to look at in it.
    #[serde(default)]
    pub note: String,
    /// The swept key to the right; without it, time.
    pub x: Option<String>,
    /// What to call that axis.
    #[serde(default)]
    pub x_label: String,
    /// What to call the axis upwards.
    #[serde(default)]
    pub y_label: String,
    /// The curves.
    pub curve: Vec<Curves>,
    /// Whether the axis upwards is logarithmic; not if anything reaches zero.
    #[serde(default)]
    pub logarithmic: bool,
    /// The end of the time shown, in seconds.
    pub until: Option<f64>,
    /// For computed curves, words in place of 0, 1, 2 and so on to the right.
    #[serde(default)]
    pub x_words: Vec<String>,
    /// The flow from whose start time counts; without it, from the run's.
    pub since: Option<String>,
}

/// A curve of a figure.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curves {
    /// What the legend calls it.
    pub name: String,
    /// The run; none for published points.
    pub run: Option<String>,
    /// The measure, or over time the series: "flow.bulk.sender.cwnd".
    #[serde(default)]
    pub measure: String,
    /// Which points of the sweep; the key on the x axis is left out.
    #[serde(default)]
    pub at: At,
    /// Over time, what of the points of the sweep that `at` leaves.
    #[serde(default)]
    pub draw: Draw,
    /// Points read from the publication instead: value on the x axis with its unit, and y in `unit`.
    #[serde(default)]
    pub points: Vec<(String, f64)>,
    /// The unit of `points`, and of what `code` gives.
    #[serde(default)]
    pub unit: String,
    /// A function of the crate that computes the points from the runs.
    pub code: Option<String>,
    /// How such points are drawn: "points" if not given; "line" or "dashed" for a model.
    pub mark: Option<Mark>,
}

/// What a curve over time shows of several points of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Draw {
    /// The first.
    #[default]
    First,
    /// Each, in one colour.
    Each,
    /// The median at each time and, dashed, the least and the greatest.
    Median,
}

/// What is wrong with a study.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct Mistake {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and what would be right.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StudyFile {
    title: String,
    source: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    run: IndexMap<String, Run>,
    row: Vec<RowFile>,
    #[serde(default)]
    figure: Vec<Figure>,
    kernel: Option<KernelTests>,
    #[serde(default)]
    picture: Vec<Shown>,
    #[serde(default)]
    table: Vec<Tabulated>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    id: String,
    what: String,
    kind: Kind,
    published: Option<f64>,
    between: Option<[f64; 2]>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    tolerance: Option<f64>,
    #[serde(default)]
    unit: String,
    source: String,
    #[serde(default)]
    note: String,
    run: Option<String>,
    measure: Option<String>,
    #[serde(default)]
    at: At,
    over: Option<Value>,
    best: Option<String>,
    code: Option<String>,
    #[serde(default = "yes")]
    quick: bool,
    #[serde(default)]
    missed: String,
}

const fn yes() -> bool {
    true
}

/// The longest study file.
const MAX_BYTES: u64 = 1 << 20;

impl Study {
    /// Reads the study in a folder.
    ///
    /// # Errors
    /// If there is none, or it says something that makes no sense.
    pub fn read(folder: &Path) -> Result<Study, Mistake> {
        let path = folder.join("study.toml");
        let mistake = |problem: String| Mistake { path: path.clone(), problem };
        let bytes = read_at_most(&path, MAX_BYTES).map_err(|error| mistake(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| mistake(format!("not UTF-8: {error}")))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Study::parse(&name, folder, &text).map_err(mistake)
    }

    fn parse(name: &str, folder: &Path, text: &str) -> Result<Study, String> {
        let file: StudyFile =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        let rows = file.row.into_iter().map(|row| {
            let id = row.id.clone();
            row.check().map_err(|problem| format!("row {id}: {problem}"))
        });
        let study = Study {
            name: name.to_owned(),
            folder: folder.to_owned(),
            title: file.title,
            source: file.source,
            description: file.description,
            runs: file.run,
            rows: rows.collect::<Result<_, _>>()?,
            figures: file.figure,
            kernel: file.kernel,
            pictures: file.picture,
            tables: file.table,
        };
        study.check_runs()?;
        study.tables.iter().try_for_each(Tabulated::check)?;
        Ok(study)
    }

    /// Every run that is named exists.
    fn check_runs(&self) -> Result<(), String> {
        let of_rows = self.rows.iter().flat_map(|row| row.ours.runs().into_iter().map(|run| (&row.id, run)));
        let of_figures = self.figures.iter().flat_map(|figure| {
            figure.curve.iter().filter_map(|c| Some((&figure.title, &c.run.as_ref()?[..])))
        });
        let of_pictures = self.pictures.iter().map(|picture| (&picture.title, &picture.run[..]));
        let of_tables =
            self.tables.iter().flat_map(|table| table.row.iter().map(|row| (&table.title, &row.run[..])));
        let mut all = of_rows.chain(of_figures).chain(of_pictures).chain(of_tables);
        let unknown = all.find(|(_, run)| !self.runs.contains_key(*run));
        let names = || self.runs.keys().cloned().collect::<Vec<_>>().join(", ");
        unknown.map_or(Ok(()), |(what, run)| {
            Err(format!("{what}: no run \"{run}\": expected one of {}", names()))
        })
    }
}

impl Ours {
    fn runs(&self) -> Vec<&str> {
        match self {
            Ours::Measure(value) | Ours::BestAt(value, _) => vec![&value.run],
            Ours::Ratio(value, over) => vec![&value.run, &over.run],
            Ours::Code(_) => Vec::new(),
        }
    }
}

impl RowFile {
    fn check(self) -> Result<Row, String> {
        let expected = self.expected()?;
        let ours = self.ours()?;
        let RowFile { id, what, kind, unit, source, note, quick, missed, .. } = self;
        Ok(Row { id, what, kind, expected, unit, source, note, ours, quick, missed })
    }

    fn expected(&self) -> Result<Expected, String> {
        let tolerance = self.tolerance.unwrap_or(0.0);
        let needs_tolerance = self.published.is_some() && self.tolerance.is_none();
        if needs_tolerance || !(0.0..=10.0).contains(&tolerance) {
            return Err(
                "expected `tolerance`, the share of the published value that ours may differ by".into()
            );
        }
        match (self.published, self.between, self.at_least, self.at_most) {
            (Some(value), None, None, None) => Ok(Expected::Value { value, tolerance }),
            (None, Some([low, high]), None, None) if low <= high => {
                Ok(Expected::Between { low, high, tolerance })
            }
            (None, None, Some(least), None) => Ok(Expected::AtLeast(least)),
            (None, None, None, Some(most)) => Ok(Expected::AtMost(most)),
            _ => Err("expected one of `published`, `between = [low, high]`, `at_least` and `at_most`".into()),
        }
    }

    fn ours(&self) -> Result<Ours, String> {
        let value = self.run.clone().zip(self.measure.clone());
        let value = value.map(|(run, measure)| Value { run, measure, at: self.at.clone() });
        match (value, &self.over, &self.best, &self.code) {
            (Some(value), None, None, None) => Ok(Ours::Measure(value)),
            (Some(value), Some(over), None, None) => Ok(Ours::Ratio(value, over.clone())),
            (Some(value), None, Some(key), None) => Ok(Ours::BestAt(value, key.clone())),
            (None, None, None, Some(code)) => Ok(Ours::Code(code.clone())),
            _ => Err("expected `run` and `measure`, with `over` or `best` if need be; or `code`".into()),
        }
    }
}

#[cfg(test)]
pub(super) fn parsed(text: &str) -> Result<Study, String> {
    Study::parse("test", Path::new("."), text)
}
