//! Runs of a scenario file: the points of its sweep times the seeds.
//!
//! Every point is known by a hash of what its result depends on, so that a finished one is recognised and not run
//! again: the scenario with all defaults written out, the contents of the files that it names, the seed, and the version of
//! this crate. Comments, the order of a table's keys where it means nothing, and the file's name do not enter it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

use bentpipe_record::{Setting, VERSION};
use bentpipe_scenario::files::is_file_key;
use bentpipe_scenario::{Access, Document, MAX_POINTS, Scenario, ScenarioError};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Maximum number of elements of all points of a plan together.
const MAX_ELEMENTS: usize = 20_000_000;

/// Changes of a plan to the file's own seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// The first seed, instead of `seed` in the file.
    pub first: Option<u64>,
    /// Number of seeds, in place of `seeds` in the file.
    pub count: Option<u32>,
}

/// Plan: all points with their seeds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The names of the sweep's axes; empty if nothing is swept.
    pub axes: Vec<String>,
    /// The points, the last axis varying fastest; one if nothing is swept.
    pub points: Vec<Point>,
    /// Access to the files that the scenario names.
    pub access: Access,
    /// SHA-256 of the scenario file and of every file that it names, by path.
    pub inputs: BTreeMap<PathBuf, Hash>,
}

/// Point of a sweep.
#[derive(Clone, Debug)]
pub struct Point {
    /// Number of the point, from zero.
    pub index: usize,
    /// Dotted keys and values set by the sweep, in the order of the axes.
    pub settings: Vec<Setting>,
    /// The scenario at this point, without a sweep.
    pub scenario: Scenario,
    /// The seeds to run it with.
    pub seeds: Vec<u64>,
    /// Hash of the point without its seeds. The same point has the same one in any plan.
    pub hash: Hash,
}

/// SHA-256 of everything that a result depends on. Shown by its first 16 hexadecimal digits.
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

    /// Returns the hash of a file's contents: zeros if it cannot be read.
    pub fn of_file(access: &Access, name: &Path) -> Hash {
        let mut hasher = Sha256::new();
        // A device or a pipe has no contents to speak of, and perhaps no end.
        let copied = access.open(name).is_ok_and(|mut file| {
            file.metadata().is_ok_and(|data| data.is_file()) && std::io::copy(&mut file, &mut hasher).is_ok()
        });
        if copied { Hash(hasher.finalize().into()) } else { Hash([0; 32]) }
    }

    /// Returns all 64 hexadecimal digits.
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
    /// Returns the plan of a file. Every point is read and checked; [`crate::run::Assembled`] assembles them.
    ///
    /// # Errors
    /// Returns the errors of the first invalid point, or of the number of runs.
    pub fn new(document: &Document, seeds: Seeds) -> Result<Plan, ScenarioError> {
        let mut all = Points::new(document, seeds);
        let count = all.len();
        if count > MAX_POINTS {
            let problem = format!(
                "{count} points: expected at most {MAX_POINTS}, or a campaign, which has room for more (`bentpipe campaign`)"
            );
            return Err(document.refusal("sweep", problem));
        }
        let elements = elements(&document.scenario()?);
        if elements.saturating_mul(count) > MAX_ELEMENTS {
            let problem =
                format!("{count} points of {elements} nodes, links and flows each: more than is sensible");
            return Err(document.refusal("sweep", problem));
        }
        let points = (0..count).map(|index| all.at(index)).collect::<Result<Vec<_>, _>>()?;
        let runs: usize = points.iter().map(|point| point.seeds.len()).sum();
        if runs > MAX_POINTS {
            let problem = format!("{runs} runs of points times seeds: expected at most {MAX_POINTS}");
            return Err(document.refusal("seeds", problem));
        }
        let axes = document.axes().map(|(name, _)| name.to_owned()).collect();
        let mut inputs = all.into_inputs();
        inputs.insert(document.name().into(), Hash(Sha256::digest(document.text()).into()));
        Ok(Plan { axes, points, access: document.access().clone(), inputs })
    }

    /// Returns a plan of the points of a sweep that were read, without points yet.
    ///
    /// A search adds those that it tries.
    pub fn partial(document: &Document) -> Plan {
        let axes = document.axes().map(|(name, _)| name.to_owned()).collect();
        let own = (document.name().into(), Hash(Sha256::digest(document.text()).into()));
        Plan { axes, points: Vec::new(), access: document.access().clone(), inputs: BTreeMap::from([own]) }
    }

    /// Returns all runs: points with each of their seeds.
    pub fn runs(&self) -> impl Iterator<Item = (&Point, u64)> {
        self.points.iter().flat_map(|point| point.seeds.iter().map(move |&seed| (point, seed)))
    }

    /// Returns the hash of the whole plan, which names its folder of results.
    pub fn hash(&self) -> Hash {
        let runs: Vec<Hash> = self.runs().map(|(point, seed)| point.run_hash(seed)).collect();
        let parts: Vec<&[u8]> = runs.iter().map(|hash| &hash.0[..]).collect();
        Hash::of(&parts)
    }
}

/// Points of a sweep, read one at a time.
///
/// There may be more than fit into memory.
#[derive(Debug)]
pub struct Points<'a> {
    document: &'a Document,
    /// Number of values on each axis.
    lengths: Vec<usize>,
    seeds: Seeds,
    files: Contents<'a>,
}

impl<'a> Points<'a> {
    /// Returns the points of a file.
    pub fn new(document: &'a Document, seeds: Seeds) -> Points<'a> {
        let lengths = document.axes().map(|(_, values)| values).collect();
        let files = Contents { access: document.access(), known: BTreeMap::new() };
        Points { document, lengths, seeds, files }
    }

    /// Returns the number of points; one if nothing is swept.
    pub fn len(&self) -> usize {
        self.lengths.iter().product()
    }

    /// Returns `true` if there are none, which cannot be: an axis has a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads and checks a point. The last axis varies fastest.
    ///
    /// # Errors
    /// Returns the errors of the point.
    pub fn at(&mut self, index: usize) -> Result<Point, ScenarioError> {
        let at = coordinates(index, &self.lengths);
        Point::new(self.document, index, &at, self.seeds, &mut self.files)
    }

    /// Returns the SHA-256 of every file that a point which was read names, by path.
    pub fn inputs(&self) -> &BTreeMap<PathBuf, Hash> {
        &self.files.known
    }

    /// Returns the SHA-256 of every file that a point which was read names, by path.
    pub fn into_inputs(self) -> BTreeMap<PathBuf, Hash> {
        self.files.known
    }
}

/// Returns the number of nodes, links and flows, and of those that events change.
///
/// Copies of flows are counted.
pub(crate) fn elements(scenario: &Scenario) -> usize {
    let flows: usize = scenario.flow.values().map(|flow| flow.count as usize).sum();
    scenario.node.len() + scenario.link.len() + flows + changed(scenario)
}

/// Returns the number of nodes, links and flows that events change.
pub(crate) fn changed(scenario: &Scenario) -> usize {
    scenario.timeline.iter().map(|moment| moment.difference.len()).sum()
}

/// Contents of the files that a scenario names, each read once.
#[derive(Debug)]
struct Contents<'a> {
    access: &'a Access,
    known: BTreeMap<PathBuf, Hash>,
}

impl Contents<'_> {
    /// Appends the hash of each file that a value names. `key` is that of the value.
    fn collect(&mut self, key: &str, value: &Value, into: &mut Vec<u8>) {
        match value {
            Value::String(file) if is_file_key(key) => into.extend(self.hash(file).0),
            Value::Object(table) => table.iter().for_each(|(key, value)| self.collect(key, value, into)),
            Value::Array(list) => list.iter().for_each(|value| self.collect(key, value, into)),
            _ => {}
        }
    }

    /// Returns the hash of a file's contents. An unreadable file counts as empty: the run reports the error.
    fn hash(&mut self, file: &str) -> Hash {
        let name = Path::new(file);
        *self.known.entry(self.access.path(name)).or_insert_with(|| Hash::of_file(self.access, name))
    }
}

/// Returns the number on each axis of point `index`; the last axis varies fastest.
pub(crate) fn coordinates(index: usize, lengths: &[usize]) -> Vec<usize> {
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
    /// Returns the hash of a search over a range that begins with this point.
    pub fn search_hash(&self, over: &str) -> Hash {
        let seeds: Vec<u8> = self.seeds.iter().flat_map(|seed| seed.to_le_bytes()).collect();
        Hash::of(&[b"search", &self.hash.0, &seeds, over.as_bytes()])
    }

    fn new(
        document: &Document,
        index: usize,
        at: &[usize],
        seeds: Seeds,
        files: &mut Contents<'_>,
    ) -> Result<Point, ScenarioError> {
        let scenario = document.scenario_at(at)?;
        let settings = document.settings_at(at);
        let settings = settings.map(|(axis, key, value)| Setting { axis, key: key.to_owned(), value });
        let first = seeds.first.unwrap_or(scenario.seed);
        let count = u64::from(seeds.count.unwrap_or(scenario.seeds).max(1));
        // The plan has the seeds, so a point's hash is independent of them.
        let canonical = Scenario { seed: 0, seeds: 1, ..scenario.clone() };
        let canonical = canonical.to_json().map_err(|error| document.refusal("", error.to_string()))?;
        let mut contents = Vec::new();
        files.collect("", &canonical, &mut contents);
        let hash = Hash::of(&[VERSION.as_bytes(), canonical.to_string().as_bytes(), &contents]);
        let seeds = (0..count).map(|n| first.wrapping_add(n)).collect();
        Ok(Point { index, settings: settings.collect(), scenario, seeds, hash })
    }

    /// Returns the hash of one run.
    pub fn run_hash(&self, seed: u64) -> Hash {
        Hash::of(&[&self.hash.0, &seed.to_le_bytes()])
    }

    /// Returns the settings in one line; empty if nothing is swept.
    pub fn label(&self) -> String {
        let settings =
            self.settings.iter().map(|setting| format!("{} = {}", setting.short_key(), setting.value));
        settings.collect::<Vec<_>>().join(", ")
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

    /// One for every key of a scenario that names a file.
    #[test]
    fn a_hash_is_of_the_files_named_too() {
        let link =
            |more: &str| SWEPT.replace("rate = \"1 Mbit/s\"\n", &format!("rate = \"1 Mbit/s\"\n{more}\n"));
        let with = |more: &str| SWEPT.replace("node.b = {}\n", &format!("node.b = {{}}\n{more}\n"));
        let flow = |traffic: &str| {
            with(&format!("flow.f = {{ from = \"a\", to = \"b\", traffic = {{ {traffic} }} }}"))
        };
        let field = "node.g = { role = { kind = \"sensor-gateway\", field = \"f\" } }\n\
             field.f = { layout = { kind = \"grid\", columns = 2, rows = 2, spacing = 30.0 }, samples = \"named\" }";
        let contacts = "contacts = { file = \"named\", from = \"a\", to = \"b\" }";
        for text in [
            link("channel = { kind = \"trace\", file = \"named\" }"),
            link("delay_changes = { file = \"named\" }"),
            link(&format!("channel = {{ kind = \"outages\", {contacts} }}")),
            flow("kind = \"replay\", file = \"named\""),
            flow("kind = \"stream\", file = \"named\""),
            flow("kind = \"stream\", model = { sizes = \"named\" }"),
            with(field),
        ] {
            ensure_hash_is_of(&text, ["0001\n", "0011\n"]);
        }
        let event = format!("{SWEPT}[[event]]\nat = \"0 s\"\nfile = \"named\"\n");
        let values = |rate: u8| format!("time_s,link.l.rate\n0.5,{rate} Mbit/s\n");
        ensure_hash_is_of(&event, [&values(3), &values(4)]);
    }

    fn ensure_hash_is_of(text: &str, contents: [&str; 2]) {
        let folder = tempfile::tempdir().expect("a folder");
        let (scenario, named) = (folder.path().join("file.toml"), folder.path().join("named"));
        std::fs::write(&scenario, text).expect("written");
        let hash = |content: &str| {
            std::fs::write(&named, content).expect("written");
            let document = bentpipe_paths::document(&scenario).expect("readable");
            let plan = Plan::new(&document, Seeds::default());
            let plan = plan.unwrap_or_else(|refusal| panic!("{text}\n{refusal}"));
            assert!(plan.inputs.contains_key(&named), "{text}\n{:?}", plan.inputs);
            plan.hash()
        };
        assert_eq!(hash(contents[0]), hash(contents[0]), "{text}");
        assert_ne!(hash(contents[0]), hash(contents[1]), "{text}");
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
