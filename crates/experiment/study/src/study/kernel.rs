//! Transfers of a study file by the Linux kernel's TCP.

use std::path::PathBuf;

use bentpipe_units::{Bytes, Span};
use indexmap::IndexMap;
use serde::Deserialize;

/// Transfers that a study asks of the kernel's TCP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelTests {
    /// Flow that the kernel's TCP replaces.
    pub flow: String,
    /// Window offered by both receivers: 65,535 B times a power of two. A kernel can offer such a window exactly.
    pub window: Bytes,
    /// Length of each transfer.
    pub duration: Span,
    /// Length of each transfer with `--quick`.
    pub quick: Span,
    /// Share of the kernel's goodput by which the simulated goodput may differ.
    pub tolerance: f64,
    /// Keys to set for the simulation, so that its TCP is the kernel's.
    #[serde(default)]
    pub set: Vec<String>,
    /// Controllers by their names in the kernel, as scenarios write them.
    pub controller: IndexMap<String, String>,
    /// Paths.
    pub path: Vec<KernelPath>,
}

/// Path over which the kernel's TCP sends.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelPath {
    /// Name in the study ("K2").
    pub id: String,
    /// Description.
    pub what: String,
    /// Scenario file in the study's folder.
    pub scenario: PathBuf,
    /// Keys to set for both.
    #[serde(default)]
    pub set: Vec<String>,
    /// Cause of a known miss, by controller.
    #[serde(default)]
    pub missed: IndexMap<String, String>,
}
