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
    /// Flow whose goodput is compared.
    pub flow: String,
    /// Real time of a run.
    pub duration: Span,
    /// The same for `--quick`.
    pub quick: Span,
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
