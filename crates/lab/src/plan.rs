//! The points of a sweep, times the seeds: everything that a scenario file asks to run.
//!
//! Every point is known by a hash of what its result depends on, so that a finished one is recognised and not run
//! again: the scenario with all defaults written out, the contents of the files that it names, the seed, and the version of
//! this crate. Comments, the order of a table's keys where it means nothing, and the file's name do not enter it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::scenario::{Document, Refusal, Scenario};

/// The most elements that all points of a plan may have together: each point is built once to be checked.
const MAX_ELEMENTS: usize = 20_000_000;

/// The version that results are of.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a plan changes of the file's own seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// The first seed, instead of `seed` in the file.
    pub first: Option<u64>,
    /// How many, instead of `seeds` in the file.
    pub count: Option<u32>,
}

/// Everything to run: points and their seeds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The names of the sweep's axes; empty if nothing is swept.
    pub axes: Vec<String>,
    /// The points, the last axis varying fastest; one if nothing is swept.
    pub points: Vec<Point>,
    /// The folder that relative paths in the scenario start at.
    pub folder: PathBuf,
}

/// One point of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its number, from zero.
    pub index: usize,
    /// What was set: dotted keys and values, in the order of the axes.
    pub settings: Vec<Setting>,
    /// The scenario at this point, without a sweep.
    pub scenario: Scenario,
    /// The seeds to run it with.
    pub seeds: Vec<u64>,
    /// What it is, without its seeds: the same for the same point in any plan.
    pub hash: Hash,
}

/// A key that a sweep set, and the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Which axis, by number.
    pub axis: usize,
    /// The dotted key.
    pub key: String,
    /// The value as the file writes it, texts without quotes.
    pub value: String,
}

/// SHA-256 of what a result depends on; shown by its first 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    fn of(parts: &[&[u8]]) -> Hash {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Hash(hasher.finalize().into())
    }

    /// All 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex()[..16])
    }
}

impl Plan {
    /// The plan of a file. Every point is checked before any is run.
    ///
    /// # Errors
    /// What is wrong at the first point that has something wrong, or with the number of runs.
    pub fn new(document: &Document, seeds: Seeds) -> Result<Plan, Refusal> {
        let axes = document.axes();
        let lengths: Vec<usize> = axes.iter().map(|axis| axis.len()).collect();
        let count: usize = lengths.iter().product();
        let first = document.scenario()?;
        let flows: usize = first.flow.values().map(|flow| flow.count as usize).sum();
        let elements = first.node.len() + first.link.len() + flows;
        if elements.saturating_mul(count) > MAX_ELEMENTS {
            let problem =
                format!("{count} points of {elements} nodes, links and flows each: more than is sensible");
            return Err(document.refusal("sweep", problem));
        }
        let mut files = Files { folder: document.folder(), known: BTreeMap::new() };
        let points = (0..count)
            .map(|index| Point::new(document, index, &coordinates(index, &lengths), seeds, &mut files));
        let points = points.collect::<Result<Vec<_>, _>>()?;
        let runs: usize = points.iter().map(|point| point.seeds.len()).sum();
        if runs > crate::scenario::MAX_POINTS {
            let problem = format!(
                "{runs} runs of points times seeds: expected at most {}",
                crate::scenario::MAX_POINTS
            );
            return Err(document.refusal("seeds", problem));
        }
        let axes = axes.iter().map(|axis| axis.name.clone()).collect();
        Ok(Plan { axes, points, folder: document.folder().to_owned() })
    }

    /// All runs: points with each of their seeds.
    pub fn runs(&self) -> impl Iterator<Item = (&Point, u64)> {
        self.points.iter().flat_map(|point| point.seeds.iter().map(move |&seed| (point, seed)))
    }

    /// What the plan as a whole is: the name of its folder of results.
    pub fn hash(&self) -> Hash {
        let runs: Vec<Hash> = self.runs().map(|(point, seed)| point.run_hash(seed)).collect();
        let parts: Vec<&[u8]> = runs.iter().map(|hash| &hash.0[..]).collect();
        Hash::of(&parts)
    }
}

/// What is in the files that a scenario names, each read once.
struct Files<'a> {
    folder: &'a Path,
    known: BTreeMap<PathBuf, Hash>,
}

impl Files<'_> {
    /// Puts the hash of each file that `value` names into `into`: a file is what a key called `file` says.
    fn collect(&mut self, value: &Value, into: &mut Vec<u8>) {
        match value {
            Value::Object(table) => {
                if let Some(Value::String(file)) = table.get("file") {
                    into.extend(self.hash(file).0);
                }
                table.values().for_each(|value| self.collect(value, into));
            }
            Value::Array(list) => list.iter().for_each(|value| self.collect(value, into)),
            _ => {}
        }
    }

    /// The hash of a file's contents. One that cannot be read counts as nothing: the run says what is wrong with it.
    fn hash(&mut self, file: &str) -> Hash {
        let path = self.folder.join(file);
        *self.known.entry(path).or_insert_with_key(|path| {
            let mut hasher = Sha256::new();
            // A device or a pipe has no contents to speak of, and perhaps no end.
            let copied = path.is_file()
                && std::fs::File::open(path)
                    .and_then(|mut file| std::io::copy(&mut file, &mut hasher))
                    .is_ok();
            if copied { Hash(hasher.finalize().into()) } else { Hash([0; 32]) }
        })
    }
}

/// The number on each axis of point `index`; the last axis varies fastest.
fn coordinates(index: usize, lengths: &[usize]) -> Vec<usize> {
    let mut rest = index;
    let mut numbers: Vec<usize> = lengths
        .iter()
        .rev()
        .map(|&length| {
            let number = rest % length;
            rest /= length;
            number
        })
        .collect();
    numbers.reverse();
    numbers
}

impl Point {
    fn new(
        document: &Document,
        index: usize,
        at: &[usize],
        seeds: Seeds,
        files: &mut Files<'_>,
    ) -> Result<Point, Refusal> {
        let scenario = document.scenario_at(at)?;
        let axes = document.axes().iter().zip(at).enumerate();
        let settings = axes.flat_map(|(axis, (values, &n))| {
            let set = values.values(n);
            set.map(move |(key, _, node)| Setting {
                axis,
                key: key.to_owned(),
                value: node.to_toml().shown(),
            })
        });
        let first = seeds.first.unwrap_or(scenario.seed);
        let count = u64::from(seeds.count.unwrap_or(scenario.seeds).max(1));
        // Which seeds there are says the plan, so a point's hash is the same whatever they are.
        let canonical = Scenario { seed: 0, seeds: 1, ..scenario.clone() };
        let canonical =
            serde_json::to_value(&canonical).map_err(|error| document.refusal("", error.to_string()))?;
        let mut contents = Vec::new();
        files.collect(&canonical, &mut contents);
        let hash = Hash::of(&[VERSION.as_bytes(), canonical.to_string().as_bytes(), &contents]);
        let seeds = (0..count).map(|n| first.wrapping_add(n)).collect();
        Ok(Point { index, settings: settings.collect(), scenario, seeds, hash })
    }

    /// What one run of it is.
    pub fn run_hash(&self, seed: u64) -> Hash {
        Hash::of(&[&self.hash.0, &seed.to_le_bytes()])
    }

    /// Its settings in a line: "rate = 10 Mbit/s, delay = 270 ms"; empty if nothing is swept.
    pub fn label(&self) -> String {
        let settings =
            self.settings.iter().map(|setting| format!("{} = {}", setting.short_key(), setting.value));
        settings.collect::<Vec<_>>().join(", ")
    }
}

impl Setting {
    /// The last part of the key: "receive_buffer".
    pub fn short_key(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }
}

/// A value as a person writes it.
trait Shown {
    fn shown(&self) -> String;
}

impl Shown for toml::Value {
    fn shown(&self) -> String {
        match self {
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWEPT: &str = r#"
title = "a sweep"
duration = "1 s"
seed = 7
seeds = 3
node.a = {}
node.b = {}
[link.l]
between = ["a", "b"]
rate = "1 Mbit/s"
[sweep]
link.l.rate = ["1 Mbit/s", "2 Mbit/s"]
[sweep.ends]
"link.l.forward.delay" = ["1 ms", "2 ms", "3 ms"]
"link.l.return.delay" = ["4 ms", "5 ms", "6 ms"]
"#;

    fn plan(text: &str, seeds: Seeds) -> Plan {
        let document = Document::parse("file.toml", text.as_bytes()).expect("TOML");
        Plan::new(&document, seeds).unwrap_or_else(|refusal| panic!("{refusal}"))
    }

    #[test]
    fn axes_multiply_and_keys_of_one_axis_vary_in_step() {
        let plan = plan(SWEPT, Seeds::default());
        assert_eq!(plan.axes, ["link.l.rate", "ends"]);
        let labels: Vec<String> = plan.points.iter().map(Point::label).collect();
        assert_eq!(labels[0], "rate = 1 Mbit/s, delay = 1 ms, delay = 4 ms");
        assert_eq!(labels[5], "rate = 2 Mbit/s, delay = 3 ms, delay = 6 ms");
        assert_eq!((plan.points.len(), plan.runs().count()), (6, 18));
        assert_eq!(plan.points[5].seeds, [7, 8, 9]);
        let delay = plan.points[4].scenario.link["l"].reverse.delay.expect("set");
        assert_eq!(delay.to_string(), "5 ms");
    }

    #[test]
    fn a_hash_is_of_what_a_result_depends_on() {
        let hash = |text: &str, n: usize| plan(text, Seeds::default()).points[n].hash;
        assert_eq!(hash(SWEPT, 2), hash(&SWEPT.replace("seed = 7", "seed = 8 # another"), 2));
        let one_less = SWEPT.replace("[\"1 Mbit/s\", ", "[");
        assert_eq!(hash(SWEPT, 4), hash(&one_less, 1));
        assert_ne!(hash(SWEPT, 1), hash(SWEPT, 2));
        assert_ne!(hash(SWEPT, 1), hash(&SWEPT.replace("duration = \"1 s\"", "duration = \"2 s\""), 1));
        let point = &plan(SWEPT, Seeds { first: Some(1), count: Some(2) }).points[0];
        assert_eq!(point.seeds, [1, 2]);
        assert_ne!(point.run_hash(1), point.run_hash(2));
        assert_eq!(point.hash.to_string().len(), 16);
    }

    #[test]
    fn a_hash_is_of_the_files_named_too() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = SWEPT.replace(
            "rate = \"1 Mbit/s\"\n",
            "rate = \"1 Mbit/s\"\nchannel = { kind = \"trace\", file = \"losses\" }\n",
        );
        let (scenario, losses) = (folder.path().join("file.toml"), folder.path().join("losses"));
        std::fs::write(&scenario, text).expect("written");
        let hash = |trace: &str| {
            std::fs::write(&losses, trace).expect("written");
            let document = Document::read(&scenario).expect("readable");
            Plan::new(&document, Seeds::default()).unwrap_or_else(|refusal| panic!("{refusal}")).hash()
        };
        assert_eq!(hash("0001\n"), hash("0001\n"));
        assert_ne!(hash("0001\n"), hash("0011\n"));
    }

    #[test]
    fn a_swept_key_that_is_set_is_swept_no_more() {
        let mut document = Document::parse("file.toml", SWEPT.as_bytes()).expect("TOML");
        document.set("link.l.rate=64 kbit/s").expect("a link");
        let plan = Plan::new(&document, Seeds::default()).expect("fine");
        assert_eq!((plan.points.len(), plan.axes.len()), (3, 1));
        assert_eq!(plan.points[0].scenario.link["l"].rate.map(|rate| rate.as_bps()), Some(64_000));
    }
}
