//! Comparison of two points of results, seed by seed.
//!
//! Runs of both with the same seed have the same random numbers wherever the variants use them alike, so differences are taken
//! in pairs: their interval leaves out what the seed does to both (A. M. Law, *Simulation Modeling and Analysis*, section 11.2).

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use bentpipe_units::Span;
use indexmap::{IndexMap, IndexSet};

use super::outcome;
use super::results_folder::{Run, manifest, read_json};
use super::stats::Estimate;
use super::{
    Declaration, Frame, FrameColumn, Measure, Outcome, Series, SeriesError, Subject, account_total,
    counted_with, read_series,
};

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
    /// Mean of the first variant, over the seeds that both have if there are any.
    pub first: Estimate,
    /// Mean of the second variant, over the same seeds.
    pub second: Estimate,
    /// Mean of second less first over them.
    pub paired: Option<Estimate>,
    /// Numbers of runs that could have a value: the common seeds, or those of each.
    pub runs: [usize; 2],
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
type Values = IndexMap<String, (String, IndexMap<u64, f64>)>;

fn values<'a>(runs: impl Iterator<Item = &'a Outcome>) -> Values {
    let mut values = Values::new();
    for outcome in runs {
        for measure in outcome.figures() {
            let Measure { name, unit, value, .. } = measure.into_owned();
            values.entry(name).or_insert_with(|| (unit, IndexMap::new())).1.insert(outcome.seed, value);
        }
    }
    values
}

/// Adds the zeros of counts.
///
/// A reason for which no packet of a run was dropped has no measure there.
fn add_zeros(values: &mut Values, others: &Values) {
    let names: IndexSet<String> = values.keys().chain(others.keys()).cloned().collect();
    for name in names {
        let total = counted_with(&name).and_then(|with| values.get(&with));
        let Some((unit, totals)) = total.cloned() else { continue };
        let unit = if account_total(&name).is_some() { unit } else { "count".to_owned() };
        let (_, found) = values.entry(name).or_insert_with(|| (unit, IndexMap::new()));
        totals.keys().for_each(|seed| {
            found.entry(*seed).or_insert(0.0);
        });
    }
}

impl Difference {
    /// Returns `true` for the same number of packets of an account in both.
    fn is_same_account(&self) -> bool {
        let is_zero = |paired: Estimate| paired.mean == 0.0 && paired.ci95.is_none_or(|half| half == 0.0);
        self.first.mean == self.second.mean
            && self.paired.is_none_or(is_zero)
            && account_total(&self.name).is_some()
    }

    /// Returns `true` if the interval of the paired difference leaves out zero.
    pub fn is_clear(&self) -> bool {
        self.paired.as_ref().is_some_and(|paired| paired.ci95.is_some_and(|half| half < paired.mean.abs()))
    }
}

/// Comparison of two variants.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Differences of the measures that both have with the same meaning.
    pub differences: Vec<Difference>,
    /// Versions of the definitions of both.
    pub definitions: [u32; 2],
    /// Measures that both have, with another meaning.
    pub changed: Vec<String>,
    /// Initial times that the measures of both leave out.
    pub warm_up: [Span; 2],
    /// Numbers of seeds: of the first, of the second, and common to both.
    pub seeds: [usize; 3],
    /// Names that only the first or only the second has.
    ///
    /// They are of flows and other things, or of measures of common ones.
    pub alone: [Vec<String>; 2],
}

/// Most names of a note.
const MAX_NAMES: usize = 20;

impl Comparison {
    /// Returns the differences between two variants, without measures that mean something else in each.
    pub fn of(first: &Variant, second: &Variant) -> Comparison {
        let definitions = [first, second].map(|variant| outcome::lowest(variant.runs.values()));
        let outcomes = first.runs.values().chain(second.runs.values());
        let newer: HashSet<&str> = match definitions {
            [one, other] if one == other => HashSet::new(),
            [one, other] => outcome::changed_since(one.min(other), outcomes).into_iter().collect(),
        };
        let (left_out, differences): (Vec<_>, Vec<_>) =
            differences(first, second).into_iter().partition(|difference| newer.contains(&*difference.name));
        let changed = left_out.into_iter().map(|difference| difference.name).collect();
        let warm_up = [first, second]
            .map(|variant| variant.runs.values().map(|outcome| outcome.warm_up).max().unwrap_or_default());
        let common = first.runs.keys().filter(|seed| second.runs.contains_key(*seed)).count();
        let seeds = [first.runs.len(), second.runs.len(), common];
        let alone = alone(first, second);
        Comparison { differences, definitions, changed, warm_up, seeds, alone }
    }

    /// Keeps the measures whose names contain `text`. An empty text leaves out accounts that are equal.
    ///
    /// # Errors
    /// Returns an error, in words, if there are none, or if all of them mean something else in each.
    pub fn about(mut self, text: &str) -> Result<Comparison, String> {
        self.differences.retain(|difference| match text {
            "" => !difference.is_same_account(),
            text => difference.name.contains(text),
        });
        self.changed.retain(|name| name.contains(text));
        self.alone.iter_mut().for_each(|names| names.retain(|name| name.contains(text)));
        match (self.differences.is_empty(), self.note()) {
            (true, Some(note)) => Err(format!("{note}; run both with this version")),
            (true, None) => Err(format!("no common measure has \"{text}\" in its name")),
            (false, _) => Ok(self),
        }
    }

    /// Returns a note on the common seeds, if they are not all.
    pub fn common_seeds(&self) -> Option<String> {
        let [first, second, common] = self.seeds;
        match common {
            _ if first == common && second == common => None,
            0 => Some("no seed is common to both: means are over the seeds of each".to_owned()),
            _ => Some(format!(
                "means are over the common seeds: {common} of {first} of the first, and of {second} of the second"
            )),
        }
    }

    /// Returns a note on the intervals of the measures, if they are not all alike.
    pub fn intervals(&self) -> Option<String> {
        let left_out = match self.warm_up {
            [first, second] if first == second => format!("the warm-up of {first}"),
            [first, second] => format!("the warm-up: {first} of the first, {second} of the second"),
        };
        let is_none = self.warm_up.iter().all(|warm_up| warm_up.is_zero());
        (!is_none).then(|| format!("measures leave out {left_out}; accounts of packets are of the whole run"))
    }

    /// Returns a note on what only one of both has.
    pub fn alone(&self) -> Option<String> {
        let part = |(which, names): (&str, &Vec<String>)| {
            let shown = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = names.len().saturating_sub(MAX_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (!names.is_empty()).then(|| format!("only the {which} has {shown}{more}"))
        };
        let parts: Vec<String> = ["first", "second"].into_iter().zip(&self.alone).filter_map(part).collect();
        (!parts.is_empty()).then(|| format!("not compared: {}", parts.join("; ")))
    }

    /// Returns a note on measures that are left out.
    pub fn note(&self) -> Option<String> {
        let [first, second] = self.definitions;
        let names = self.changed.join(", ");
        let note = || {
            format!("not compared, as definitions {first} and {second} give them another meaning: {names}")
        };
        (!self.changed.is_empty()).then(note)
    }
}

/// Returns what only one of two variants has.
///
/// That is its things, and its measures of things that both have.
fn alone(first: &Variant, second: &Variant) -> [Vec<String>; 2] {
    let [mut own, mut others] = [first, second].map(|variant| values(variant.runs.values()));
    add_zeros(&mut own, &others);
    add_zeros(&mut others, &own);
    let thing = |name: &str| Subject::of_name(name).map(|(subject, _)| subject.to_string());
    let only = |of: &Values, other: &Values| {
        let known: HashSet<String> = other.keys().filter_map(|name| thing(name)).collect();
        let names = of.keys().filter(|name| !other.contains_key(*name));
        let named =
            names.map(|name| thing(name).filter(|thing| !known.contains(thing)).unwrap_or(name.clone()));
        named.collect::<IndexSet<String>>().into_iter().collect()
    };
    [only(&own, &others), only(&others, &own)]
}

/// Returns the differences of all measures that both have.
fn differences(first: &Variant, second: &Variant) -> Vec<Difference> {
    differences_of(first.runs.values(), second.runs.values())
}

/// Returns the differences of all measures that runs of two points have.
pub fn differences_of<'a>(
    first: impl Iterator<Item = &'a Outcome>,
    second: impl Iterator<Item = &'a Outcome>,
) -> Vec<Difference> {
    let (first, second): (Vec<&Outcome>, Vec<&Outcome>) = (first.collect(), second.collect());
    let seeds: HashSet<u64> = second.iter().map(|outcome| outcome.seed).collect();
    let common = first.iter().filter(|outcome| seeds.contains(&outcome.seed)).count();
    let all = [first.len(), second.len()];
    let (mut own, mut others) = (values(first.into_iter()), values(second.into_iter()));
    add_zeros(&mut own, &others);
    add_zeros(&mut others, &own);
    let estimate = |values: &IndexMap<u64, f64>| Estimate::of(&values.values().copied().collect::<Vec<_>>());
    let difference = |(name, (unit, values)): (String, (String, IndexMap<u64, f64>))| {
        let (_, other) = others.get(&name)?;
        let pairs: Vec<[f64; 2]> =
            values.iter().filter_map(|(seed, value)| Some([*value, *other.get(seed)?])).collect();
        let of_pairs = |of: fn(&[f64; 2]) -> f64| Estimate::of(&pairs.iter().map(of).collect::<Vec<_>>());
        Some(Difference {
            first: of_pairs(|pair| pair[0]).or_else(|| estimate(&values))?,
            second: of_pairs(|pair| pair[1]).or_else(|| estimate(other))?,
            paired: of_pairs(|pair| pair[1] - pair[0]),
            runs: if pairs.is_empty() { all } else { [common; 2] },
            name,
            unit,
        })
    };
    own.into_iter().filter_map(difference).collect()
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
        variant_with(("", ""), values)
    }

    /// Returns a variant whose outcomes, and measures of goodput, have more keys.
    fn variant_with((more, since): (&str, &str), values: &[(u64, f64)]) -> Variant {
        let outcome = |&(seed, value): &(u64, f64)| {
            let json = format!(
                "{{\"hash\":\"\",\"seed\":{seed},\"fingerprint\":\"\",\"deliveries\":0,\"wakeups\":0,\"stray\":0,\
                 {more}\"interval_asked\":\"1 s\",\"interval\":\"1 s\",\"captures\":[],\"totals\":{{}},\
                 \"measures\":[{{\"name\":\"flow.a.goodput\",\"unit\":\"bit/s\",\"value\":{value:?}{since}}},\
                 {{\"name\":\"flow.a.timeouts\",\"unit\":\"count\",\"value\":1.0}}]}}"
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
        let [only, _] = &differences(&first, &second)[..] else { panic!("two measures") };
        // All columns are of the common seeds, so that they cannot contradict each other.
        assert_eq!((only.first.mean, only.second.mean, only.second.n), (15.0, 16.0, 2));
        assert_eq!(only.runs, [2, 2]);
        let alone = &differences(&first, &variant(&[(9, 500.0)]))[0];
        assert_eq!((alone.first.n, alone.second.n, alone.runs), (3, 1, [3, 1]));
        // What the seeds do to both is left out: each pair differs by one.
        assert_eq!(only.paired, Some(Estimate { n: 2, mean: 1.0, ci95: Some(0.0) }));
    }

    #[test]
    fn accounts_that_differ_are_compared_and_what_was_not_dropped_is_zero() {
        let ledger = |delivered: u64, more: &str| {
            format!(
                "\"ledger\":[{{\"sender\":\"flow.a.sender\",\"column\":\"sent\",\"packets\":9}},\
                 {{\"sender\":\"flow.a.sender\",\"column\":\"delivered\",\"packets\":{delivered}}}{more}],"
            )
        };
        let dropped = ",{\"sender\":\"flow.a.sender\",\"column\":\"dropped\",\"place\":\"link.l.forward\",\
                       \"reason\":\"queue\",\"packets\":2}";
        let whole = variant_with((&ledger(9, ""), ""), &[(1, 10.0), (2, 20.0)]);
        let lossy = variant_with((&ledger(7, dropped), ""), &[(1, 10.0), (2, 20.0)]);
        for (first, second, more) in [(&whole, &lossy, 2.0), (&lossy, &whole, -2.0)] {
            let comparison = Comparison::of(first, second).about("").expect("measures");
            let paired = |name: &str| {
                let of = comparison.differences.iter().find(|it| it.name == name)?;
                of.paired.map(|paired| (paired.n, paired.mean))
            };
            assert_eq!(paired("flow.a.dropped-queue"), Some((2, more)));
            assert_eq!(paired("flow.a.delivered-packets"), Some((2, -more)));
            assert_eq!(paired("flow.a.sent-packets"), None, "as many in both");
        }
        let asked = Comparison::of(&whole, &lossy).about("sent-packets").expect("it is there");
        assert_eq!((asked.differences.len(), asked.intervals()), (1, None));
    }

    #[test]
    fn what_only_one_has_is_named() {
        let mut first = variant(&[(1, 10.0)]);
        let second = variant(&[(1, 20.0)]);
        let more = ["flow.a.completion", "flow.a.3.goodput", "flow.b.goodput", "flow.b.rtt", "fairness"];
        let measures = &mut first.runs.values_mut().next().expect("a run").measures;
        measures.extend(more.into_iter().filter_map(|name| Measure::new(name, "s", 1.0)));
        let named = "flow.a.completion, flow.a.3, flow.b, fairness";
        let note = |comparison: Comparison| comparison.alone();
        assert_eq!(
            note(Comparison::of(&first, &second)),
            Some(format!("not compared: only the first has {named}"))
        );
        assert_eq!(
            note(Comparison::of(&second, &first)),
            Some(format!("not compared: only the second has {named}"))
        );
        assert_eq!(note(Comparison::of(&first, &first)), None);
        let about = Comparison::of(&first, &second).about("flow.a").expect("measures");
        assert_eq!(
            note(about),
            Some("not compared: only the first has flow.a.completion, flow.a.3".to_owned())
        );
    }

    #[test]
    fn intervals_that_are_not_alike_are_stated() {
        let [none, one, five] = ["", "\"warm_up\":\"1 s\",", "\"warm_up\":\"5 s\","]
            .map(|more| variant_with((more, ""), &[(1, 1.0)]));
        let note = |first, second| Comparison::of(first, second).intervals();
        let of_all = "accounts of packets are of the whole run";
        assert_eq!(note(&none, &none), None);
        assert_eq!(note(&five, &five), Some(format!("measures leave out the warm-up of 5 s; {of_all}")));
        let differ = format!("measures leave out the warm-up: 1 s of the first, 5 s of the second; {of_all}");
        assert_eq!(note(&one, &five), Some(differ));
    }

    #[test]
    fn measures_that_changed_their_meaning_are_listed_and_not_compared() {
        let older = variant(&[(1, 10.0), (2, 20.0)]);
        let newer = variant_with(("\"definitions\":2,", ",\"since\":2"), &[(1, 11.0), (2, 21.0)]);
        let alike = Comparison::of(&newer, &newer);
        assert_eq!((alike.differences.len(), alike.note()), (2, None));
        for (first, second) in [(&older, &newer), (&newer, &older)] {
            let comparison = Comparison::of(first, second);
            let names: Vec<&str> = comparison.differences.iter().map(|it| &it.name[..]).collect();
            assert_eq!(
                (names, &comparison.changed.join(" ")[..]),
                (vec!["flow.a.timeouts"], "flow.a.goodput")
            );
            assert!(comparison.clone().about("timeouts").is_ok_and(|about| about.note().is_none()));
            let refused = comparison.about("goodput").expect_err("another meaning");
            assert!(refused.starts_with("not compared") && refused.contains("flow.a.goodput"), "{refused}");
        }
    }
}
