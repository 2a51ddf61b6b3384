//! Networks of a study that a test controller emulates.

use std::path::PathBuf;

use bentpipe_units::Span;
use indexmap::IndexMap;
use serde::Deserialize;

/// Network that is simulated and emulated, in its variants and with each controller.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmulatedNetwork {
    /// Scenario file in the study's folder. Its sweep is left out.
    pub scenario: PathBuf,
    /// Flow whose measures are compared.
    pub flow: String,
    /// Real time of a run.
    pub duration: Span,
    /// The same for `--quick`. Default: left out there.
    pub quick: Option<Span>,
    /// Measures of the flow, or of another element by its whole name. Default: the goodput.
    #[serde(default = "goodput")]
    pub measures: Vec<String>,
    /// Words of a publication for runs. The first whose rule holds is the word.
    #[serde(default)]
    pub words: Vec<Word>,
    /// Deviation of the real programs that each measure may have. It is a share of the simulated value. Default: not judged.
    pub tolerance: Option<f64>,
    /// Causes of known misses, by variant.
    #[serde(default)]
    pub missed: IndexMap<String, String>,
    /// Keys to set for both.
    #[serde(default)]
    pub set: Vec<String>,
    /// Keys to set for the emulation, such as its real hosts.
    #[serde(default)]
    pub real: Vec<String>,
    /// Controllers: the simulator's name by the kernel's. Default: the scenario's own sender, of bundles for example.
    #[serde(default)]
    pub controller: IndexMap<String, String>,
    /// Keys to set by the name of a variant of the network.
    pub way: IndexMap<String, Vec<String>>,
}

/// Word of a publication for a run, and its rule.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// Word, such as "X".
    pub word: String,
    /// Measure of the flow.
    pub measure: String,
    /// Most that the measure has in such runs, in its base unit.
    pub at_most: Option<f64>,
    /// Least that the measure has in such runs, in its base unit.
    pub at_least: Option<f64>,
}

impl Word {
    /// Returns `true` if the rule holds for a value.
    pub fn is_for(&self, value: f64) -> bool {
        let is_low = self.at_most.is_none_or(|most| value <= most);
        is_low && self.at_least.is_none_or(|least| value >= least)
    }
}

fn goodput() -> Vec<String> {
    vec!["goodput".to_owned()]
}

impl EmulatedNetwork {
    /// Checks that there is something to compare, and that each word has a rule.
    ///
    /// # Errors
    /// Returns an error that names the key.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.measures.is_empty() || self.way.is_empty() {
            return Err("measures, way: expected at least one each".to_owned());
        }
        if self.tolerance.is_some_and(|share| !(share > 0.0 && share < 1.0)) {
            return Err("tolerance: expected more than 0 and less than 1".to_owned());
        }
        if let Some(way) = self.missed.keys().find(|way| !self.way.contains_key(*way)) {
            return Err(format!("missed: \"{way}\": expected a name of `way`"));
        }
        let is_ruled = |word: &&Word| word.at_most.is_none() && word.at_least.is_none();
        match self.words.iter().find(is_ruled) {
            Some(word) => Err(format!("words: \"{}\": expected at_most or at_least", word.word)),
            None => Ok(()),
        }
    }
}
