//! Rows of a study file: published values, and the simulated values compared with them.

use indexmap::IndexMap;
use serde::Deserialize;

use crate::expected::{Expected, Kind};
use crate::reduce::{Across, Reduce};

/// Published value, and the source of the simulated one.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name in the study ("K2").
    pub id: String,
    /// Description.
    pub what: String,
    /// Worth of the comparison.
    pub kind: Kind,
    /// Choice that was made, and on which row; empty unless the row is calibrated.
    pub fitted: String,
    /// Published value, or that of the study itself in a row of its own.
    pub expected: Expected,
    /// Unit of the published value, to which the simulated one is converted.
    pub unit: String,
    /// Size of the published unit, as "1500 B" of segments. It is empty where `unit` is one that converts.
    pub per: String,
    /// Greatest value that the quantity can have, in `unit`: its intervals stay below.
    pub most: Option<f64>,
    /// Place in the publication.
    pub source: String,
    /// Remark; may be empty.
    pub note: String,
    /// Source of the simulated value.
    pub statistic: Statistic,
    /// Number that is above 0 if anything happened.
    pub witness: Option<Witness>,
    /// Set if a `--quick` run is long enough to judge it.
    pub quick: bool,
    /// Name by which other rows refer to it; may be empty.
    pub key: String,
    /// Reason for the tolerance; empty only where there is none.
    pub basis: String,
    /// Cause of a known miss, which still counts as missed. Empty if none is known.
    pub missed: String,
    /// Keys of the rows whose runs show the cause of a known miss.
    pub cause: Vec<String>,
}

impl Row {
    /// Returns the names of the runs that it reads, that of its witness included.
    pub fn runs(&self) -> Vec<&str> {
        let mut runs = self.statistic.runs();
        if let Some(Witness::Number(value)) = &self.witness {
            runs.push(&value.run);
        }
        runs
    }
}

/// Source of a simulated value.
#[derive(Clone, Debug, PartialEq)]
pub enum Statistic {
    /// Number of a run.
    Measure(Value),
    /// Quotient of two numbers.
    Ratio(Box<Value>, Box<Value>),
    /// Value of a swept key at which a measure is (nearly) largest.
    BestAt(Value, String, f64),
    /// Result of a function of the crate.
    Code(String),
    /// Number of live streams: their name, and the place in the programs' figures.
    Live(String, String),
}

impl Statistic {
    /// Returns the names of the runs that it reads; empty for code of the crate.
    pub fn runs(&self) -> Vec<&str> {
        match self {
            Statistic::Measure(value) | Statistic::BestAt(value, ..) => vec![&value.run],
            Statistic::Ratio(value, over) => vec![&value.run, &over.run],
            Statistic::Code(_) | Statistic::Live(..) => Vec::new(),
        }
    }
}

/// Number that is 0 in a run in which nothing happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Witness {
    /// Number of a run.
    Number(Box<Value>),
    /// Place in the figures of the row's live streams.
    Live(String),
}

/// Witness as a study file writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum WitnessFile {
    /// Measure of the row's run at the row's points.
    OfRow(String),
    /// Number of a run: what rows of code need, which name no run.
    OfRun(Box<Value>),
}

/// Number of a run: a measure, or a series over time that is reduced.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// Name of the run.
    pub run: String,
    /// Measure: "flow.bulk.goodput". A `*` stands for any part of a name; `across` then reduces all that match.
    #[serde(default)]
    pub measure: String,
    /// Measure to subtract.
    pub less: Option<String>,
    /// Series in place of a measure: "flow.bulk.sender.cwnd".
    pub series: Option<String>,
    /// Reduction of the series.
    pub reduce: Option<Reduce>,
    /// Flow from whose start the time of the series counts. Default: from the start of the run.
    pub since: Option<String>,
    /// Reduction of the values of all points that `at` selects.
    pub across: Option<Across>,
    /// Points of the sweep: keys and their values, as the scenario writes them.
    #[serde(default)]
    pub at: At,
}

/// Keys of a sweep and their values at a point.
pub type At = IndexMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowFile {
    pub(super) id: String,
    what: String,
    kind: Kind,
    #[serde(default)]
    fitted: String,
    published: Option<f64>,
    expected: Option<f64>,
    between: Option<[f64; 2]>,
    at_least: Option<f64>,
    at_most: Option<f64>,
    tolerance: Option<Tolerance>,
    #[serde(default)]
    basis: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    per: String,
    most: Option<f64>,
    source: String,
    #[serde(default)]
    note: String,
    run: Option<String>,
    #[serde(default)]
    measure: String,
    less: Option<String>,
    series: Option<String>,
    reduce: Option<Reduce>,
    since: Option<String>,
    across: Option<Across>,
    #[serde(default)]
    at: At,
    over: Option<Value>,
    best: Option<String>,
    #[serde(default)]
    within: f64,
    code: Option<String>,
    live: Option<String>,
    witness: Option<WitnessFile>,
    #[serde(default = "yes")]
    quick: bool,
    #[serde(default)]
    key: String,
    #[serde(default)]
    missed: String,
    #[serde(default)]
    cause: Vec<String>,
}

/// Allowed deviation from a published value.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Tolerance {
    /// Share of the published value.
    Share(f64),
    /// Spread of a named kind.
    Spread(Spread),
}

/// Spread that stands for a tolerance.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Spread {
    /// Spread of single runs, for a published value of one run.
    OneRun,
}

const fn yes() -> bool {
    true
}

/// Text of `missed` where no run shows the cause yet.
const UNKNOWN: &str = "unknown";

impl RowFile {
    /// Returns the row.
    ///
    /// # Errors
    /// Returns an error if keys are missing or contradict each other.
    pub(super) fn check(self) -> Result<Row, String> {
        let expected = self.expected()?;
        let statistic = self.statistic()?;
        self.check_kind()?;
        self.check_witness(&expected, &statistic)?;
        let witness = self.witness(&statistic)?;
        self.check_reasons(&expected)?;
        let RowFile {
            id,
            what,
            kind,
            fitted,
            unit,
            per,
            most,
            source,
            note,
            quick,
            key,
            basis,
            missed,
            cause,
            ..
        } = self;
        Ok(Row {
            id,
            what,
            kind,
            fitted,
            expected,
            unit,
            per,
            most,
            source,
            note,
            statistic,
            witness,
            quick,
            key,
            basis,
            missed,
            cause,
        })
    }

    /// Checks that the row has what its kind promises.
    fn check_kind(&self) -> Result<(), String> {
        match self.kind {
            Kind::Own if self.published.is_some() => {
                Err("kind \"own\": expected `expected` in place of `published`: no publication has the value"
                    .into())
            }
            Kind::Own => Ok(()),
            _ if self.expected.is_some() => {
                Err(format!("kind \"{}\": expected `published` in place of `expected`", self.kind))
            }
            Kind::Calibrated if self.fitted.is_empty() => {
                Err("kind \"calibrated\": expected `fitted`, what was chosen and on which row".into())
            }
            Kind::Claim if self.source.is_empty() => {
                Err("kind \"claim\": expected `source`, the place of the sentence".into())
            }
            kind if kind != Kind::Calibrated && !self.fitted.is_empty() => {
                Err(format!("kind \"{kind}\": `fitted` is of calibrated rows"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a run in which nothing happened does not meet the row.
    ///
    /// There the measures are 0, so a quotient is 0 or NaN, and no point is best. Rows of code are checked by
    /// [`lacks_witness`](crate::lacks_witness).
    fn check_witness(&self, expected: &Expected, statistic: &Statistic) -> Result<(), String> {
        let is_met_by_nothing = match statistic {
            Statistic::Measure(value) => value.can_be_nothing() && expected.holds(0.0),
            Statistic::Ratio(value, _) => value.can_be_nothing() && expected.holds(0.0),
            Statistic::Live(..) => expected.holds(0.0),
            Statistic::BestAt(..) | Statistic::Code(_) => false,
        };
        match is_met_by_nothing && self.witness.is_none() {
            true => Err("expected `witness`, a measure of the run that is above 0 if anything was sent: 0 meets the row".into()),
            false => Ok(()),
        }
    }

    /// Returns the witness: the least number at the row's points, or at its own.
    ///
    /// # Errors
    /// Returns an error if it names a measure alone and the row no run.
    fn witness(&self, statistic: &Statistic) -> Result<Option<Witness>, String> {
        let least = |value: Value| Value { across: Some(value.across.unwrap_or(Across::Least)), ..value };
        let of_row = |run: &Value, measure: &str| {
            let (run, at) = (run.run.clone(), run.at.clone());
            Witness::Number(Box::new(least(Value {
                run,
                at,
                measure: measure.to_owned(),
                ..Value::default()
            })))
        };
        match (&self.witness, statistic) {
            (None, _) => Ok(None),
            (Some(WitnessFile::OfRun(value)), _) => {
                value.check()?;
                Ok(Some(Witness::Number(Box::new(least(Value::clone(value))))))
            }
            (Some(WitnessFile::OfRow(place)), Statistic::Live(..)) => Ok(Some(Witness::Live(place.clone()))),
            (Some(WitnessFile::OfRow(_)), Statistic::Code(_)) => {
                Err("expected `witness = { run = \"...\", measure = \"...\" }`: a row of `code` names no run"
                    .into())
            }
            (Some(WitnessFile::OfRow(measure)), Statistic::Measure(value) | Statistic::BestAt(value, ..)) => {
                Ok(Some(of_row(value, measure)))
            }
            (Some(WitnessFile::OfRow(measure)), Statistic::Ratio(value, _)) => {
                Ok(Some(of_row(value, measure)))
            }
        }
    }

    /// Checks that a tolerance has its reason, and a known miss its cause.
    fn check_reasons(&self, expected: &Expected) -> Result<(), String> {
        let is_exact = match expected {
            Expected::Value { tolerance, .. } | Expected::Between { tolerance, .. } => *tolerance == 0.0,
            Expected::OneRun(_) => false,
            Expected::AtLeast(_) | Expected::AtMost(_) => true,
        };
        if !is_exact && self.basis.is_empty() {
            return Err("expected `basis`, the reason for the tolerance".into());
        }
        let has_cause = !self.missed.is_empty() && self.missed != UNKNOWN;
        match has_cause != self.cause.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "expected `missed` together with `cause`, the keys of rows that show the cause, or `missed = \"{UNKNOWN}\"`"
            )),
        }
    }

    fn expected(&self) -> Result<Expected, String> {
        let share = match self.tolerance {
            Some(Tolerance::Share(share)) => share,
            _ => 0.0,
        };
        let value = self.published.or(self.expected);
        let needs_tolerance = value.is_some() && self.tolerance.is_none();
        if needs_tolerance || !(0.0..=1.0).contains(&share) {
            return Err("expected `tolerance`, a share of the value, at most 1, or \"one-run\"".into());
        }
        match (value, self.between, self.at_least, self.at_most) {
            (Some(value), None, None, None) => match self.tolerance {
                Some(Tolerance::Spread(Spread::OneRun)) => Ok(Expected::OneRun(value)),
                _ => Ok(Expected::Value { value, tolerance: share }),
            },
            (None, Some([low, high]), None, None) if low <= high => {
                Ok(Expected::Between { low, high, tolerance: share })
            }
            (None, None, Some(least), None) => Ok(Expected::AtLeast(least)),
            (None, None, None, Some(most)) => Ok(Expected::AtMost(most)),
            _ => Err("expected one of `published` (or `expected`), `between = [low, high]`, `at_least` and `at_most`".into()),
        }
    }

    fn statistic(&self) -> Result<Statistic, String> {
        if let Some(live) = &self.live {
            let is_alone =
                self.run.is_none() && self.code.is_none() && self.over.is_none() && self.best.is_none();
            return match is_alone && !self.measure.is_empty() {
                true => Ok(Statistic::Live(live.clone(), self.measure.clone())),
                false => Err("expected `live` with `measure` alone".into()),
            };
        }
        let value = self.run.clone().map(|run| self.value(run));
        for value in value.iter().chain(&self.over) {
            value.check()?;
        }
        match (value, &self.over, &self.best, &self.code) {
            (Some(value), None, None, None) => Ok(Statistic::Measure(value)),
            (Some(value), Some(over), None, None) => {
                Ok(Statistic::Ratio(Box::new(value), Box::new(over.clone())))
            }
            (Some(value), None, Some(key), None) if (0.0..1.0).contains(&self.within) => {
                Ok(Statistic::BestAt(value, key.clone(), self.within))
            }
            (None, None, None, Some(code)) => Ok(Statistic::Code(code.clone())),
            _ => Err("expected `run` and `measure`, optionally with `over` or `best`; or `code`; or `live` and `measure`".into()),
        }
    }

    fn value(&self, run: String) -> Value {
        Value {
            run,
            measure: self.measure.clone(),
            less: self.less.clone(),
            series: self.series.clone(),
            reduce: self.reduce.clone(),
            since: self.since.clone(),
            across: self.across,
            at: self.at.clone(),
        }
    }
}

impl Value {
    /// Returns `true` if a run in which nothing happened gives 0, rather than an error.
    fn can_be_nothing(&self) -> bool {
        !self.reduce.as_ref().is_some_and(Reduce::fails_of_nothing)
    }

    /// Checks that either a measure or a series with its reduction is given.
    fn check(&self) -> Result<(), String> {
        let is_measure = !self.measure.is_empty();
        match (&self.series, &self.reduce) {
            (None, None) if is_measure && self.since.is_none() => Ok(()),
            (Some(_), Some(_)) if !is_measure && self.less.is_none() => Ok(()),
            _ => Err("expected `measure`, optionally with `less`; or `series` and `reduce`".into()),
        }
    }
}
