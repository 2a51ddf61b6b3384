//! Comparison of two points of results, seed by seed.
//!
//! Runs of both with the same seed have the same random numbers wherever the variants use them alike, so differences are taken
//! in pairs: their interval leaves out what the seed does to both (A. M. Law, *Simulation Modeling and Analysis*, section 11.2).

use std::path::{Path, PathBuf};

use indexmap::IndexMap;

use super::results_folder::{Run, manifest, read_json};
use super::stats::Estimate;
use super::{Declaration, Frame, FrameColumn, Measure, Outcome, Series, SeriesError, read_series};

/// Runs of one point.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Title of the scenario.
    pub title: String,
    /// Settings of the sweep; empty if nothing was swept.
    pub label: String,
    /// Outcomes, by seed.
    pub runs: IndexMap<u64, Outcome>,
    /// Command that made them.
    pub command: String,
    /// Commit of the program that made them, if it knew it.
    pub commit: Option<String>,
    /// Folder of the run with the first seed.
    folder: PathBuf,
}

/// A measure of two variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Name of the measure.
    pub name: String,
    /// Unit.
    pub unit: String,
    /// Mean of the first variant.
    pub first: Estimate,
    /// Mean of the second variant.
    pub second: Estimate,
    /// Mean of second less first over the seeds that both have.
    pub paired: Option<Estimate>,
}

impl Variant {
    /// Reads the runs of one point of a folder of results. The path is "runs/geo-1234", or "runs/sweep-1234#2" for
    /// point 2.
    ///
    /// # Errors
    /// Returns what cannot be read, or which points there are, in words.
    pub fn read(path: &str) -> Result<Variant, String> {
        let (folder, point) = match path.rsplit_once('#') {
            Some((folder, number)) => {
                let wrong = || format!("{path}: expected the number of a point after #, got \"{number}\"");
                (Path::new(folder), Some(number.parse::<usize>().map_err(|_| wrong())?))
            }
            None => (Path::new(path), None),
        };
        let manifest = manifest(folder)?;
        let mut points: Vec<(&IndexMap<String, String>, Vec<&Run>)> = Vec::new();
        for run in &manifest.runs {
            match points.iter_mut().find(|(settings, _)| **settings == run.settings) {
                Some((_, runs)) => runs.push(run),
                None => points.push((&run.settings, vec![run])),
            }
        }
        let last = points.len().saturating_sub(1);
        let (settings, runs) = match (point, &points[..]) {
            (None, [only]) => only,
            (Some(number), points) if number < points.len() => &points[number],
            _ => return Err(format!("{path}: expected {0}#0 to {0}#{last}", folder.display())),
        };
        let outcomes = runs.iter().map(|run| {
            let outcome: Outcome = read_json(&folder.join(&run.folder).join("outcome.json"))?;
            Ok((outcome.seed, outcome))
        });
        let label =
            settings.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ");
        Ok(Variant {
            label,
            runs: outcomes.collect::<Result<_, String>>()?,
            folder: runs.first().map(|run| folder.join(&run.folder)).unwrap_or_default(),
            title: manifest.title,
            command: manifest.command.join(" "),
            commit: manifest.commit,
        })
    }

    /// Returns the name for readers: title and settings.
    pub fn name(&self) -> String {
        if self.label.is_empty() { self.title.clone() } else { format!("{}, {}", self.title, self.label) }
    }

    /// Reads the series of the run with the first seed that `wanted` returns `true` for.
    ///
    /// # Errors
    /// Returns an error if they are missing or unreadable.
    pub fn series(&self, wanted: impl Fn(&str, &Declaration) -> bool) -> Result<Series, SeriesError> {
        read_series(&self.folder, wanted)
    }
}

/// Unit of each measure, and its values by seed.
type Values<'a> = IndexMap<&'a str, (&'a str, IndexMap<u64, f64>)>;

fn values<'a>(runs: impl Iterator<Item = &'a Outcome>) -> Values<'a> {
    let mut values: Values<'a> = IndexMap::new();
    for outcome in runs {
        for Measure { name, unit, value } in &outcome.measures {
            values.entry(name).or_insert_with(|| (unit, IndexMap::new())).1.insert(outcome.seed, *value);
        }
    }
    values
}

impl Difference {
    /// Returns `true` if the interval of the paired difference leaves out zero.
    pub fn is_clear(&self) -> bool {
        self.paired.as_ref().is_some_and(|paired| paired.ci95.is_some_and(|half| half < paired.mean.abs()))
    }
}

/// Returns the differences of all measures that both have.
pub fn differences(first: &Variant, second: &Variant) -> Vec<Difference> {
    differences_of(first.runs.values(), second.runs.values())
}

/// Returns the differences of all measures that runs of two points have.
pub fn differences_of<'a>(
    first: impl Iterator<Item = &'a Outcome>,
    second: impl Iterator<Item = &'a Outcome>,
) -> Vec<Difference> {
    let others = values(second);
    let estimate = |values: &IndexMap<u64, f64>| Estimate::of(&values.values().copied().collect::<Vec<_>>());
    let difference = |(name, (unit, values)): (&str, (&str, IndexMap<u64, f64>))| {
        let (_, other) = others.get(name)?;
        let pairs = values.iter().filter_map(|(seed, value)| Some(other.get(seed)? - value));
        Some(Difference {
            name: name.to_owned(),
            unit: unit.to_owned(),
            first: estimate(&values)?,
            second: estimate(other)?,
            paired: Estimate::of(&pairs.collect::<Vec<_>>()),
        })
    };
    values(first).into_iter().filter_map(difference).collect()
}

/// Returns a row for each difference. An interval leaves out zero where `clear` is 1.
pub fn difference_frame(differences: &[Difference]) -> Frame {
    let of = |value: fn(&Difference) -> f64| differences.iter().map(value);
    let numbers = |title, value: fn(&Difference) -> f64| FrameColumn::numbers(title, "", of(value));
    Frame {
        columns: vec![
            FrameColumn::texts("measure", differences.iter().map(|difference| &difference.name)),
            FrameColumn::texts("unit", differences.iter().map(|difference| &difference.unit)),
            numbers("first", |difference| difference.first.mean),
            numbers("second", |difference| difference.second.mean),
            FrameColumn::integers("n", differences.iter().map(|it| it.paired.map_or(0, |paired| paired.n))),
            numbers("difference", |it| it.paired.map_or(f64::NAN, |paired| paired.mean)),
            numbers("ci95", |it| it.paired.and_then(|paired| paired.ci95).unwrap_or(f64::NAN)),
            FrameColumn::integers("clear", differences.iter().map(|it| u64::from(it.is_clear()))),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(values: &[(u64, f64)]) -> Variant {
        let outcome = |&(seed, value): &(u64, f64)| {
            let json = format!(
                "{{\"hash\":\"\",\"seed\":{seed},\"fingerprint\":\"\",\"deliveries\":0,\"wakeups\":0,\"stray\":0,\
                 \"interval_asked\":\"1 s\",\"interval\":\"1 s\",\"captures\":[],\"totals\":{{}},\
                 \"measures\":[{{\"name\":\"flow.a.goodput\",\"unit\":\"bit/s\",\"value\":{value:?}}}]}}"
            );
            (seed, serde_json::from_str(&json).expect("an outcome"))
        };
        let runs = values.iter().map(outcome).collect();
        let (title, label, command) = (String::new(), String::new(), String::new());
        Variant { title, label, runs, command, commit: None, folder: PathBuf::new() }
    }

    #[test]
    fn differences_are_taken_seed_by_seed() {
        let first = variant(&[(1, 10.0), (2, 20.0), (3, 30.0)]);
        let second = variant(&[(2, 21.0), (1, 11.0), (9, 500.0)]);
        let [only] = &differences(&first, &second)[..] else { panic!("one measure") };
        assert_eq!((only.first.mean, only.second.n), (20.0, 3));
        // What the seeds do to both is left out: each pair differs by one.
        assert_eq!(only.paired, Some(Estimate { n: 2, mean: 1.0, ci95: Some(0.0) }));
    }
}
