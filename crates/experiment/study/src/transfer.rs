//! Transfers by a kernel's own TCP.

use std::path::Path;

use bentpipe_lab::plan::Plan;
use bentpipe_lab::run::Folder;
use bentpipe_scenario::Document;
use bentpipe_units::{Bytes, Span};

use crate::study::LiveStreams;

/// Transfer that the kernel makes over an emulated scenario.
pub struct Transfer<'a> {
    /// Scenario.
    pub document: &'a Document,
    /// Plan of the scenario, with one point.
    pub plan: &'a Plan,
    /// Name of the run.
    pub name: &'a str,
    /// Folder for its results.
    pub folder: Folder,
    /// Flow whose ends send and receive.
    pub flow: &'a str,
    /// Controller, by its name in the kernel.
    pub controller: &'a str,
    /// Window that the receiver offers.
    pub window: Bytes,
    /// Sending time.
    pub duration: Span,
}

/// Voice streams that real programs send and receive.
pub struct Streams<'a> {
    /// Name in the study.
    pub name: &'a str,
    /// Streams.
    pub live: &'a LiveStreams,
    /// Folder of the study.
    pub study: &'a Path,
    /// Duration.
    pub duration: Span,
    /// Folder for the figures.
    pub folder: &'a Path,
}

/// Kernel that can send over an emulation.
pub trait Kernel {
    /// Runs the transfer in real time and returns the output of iperf3.
    ///
    /// # Errors
    /// Returns an error if the transfer cannot be made.
    fn transfer(&self, transfer: &Transfer<'_>) -> Result<String, String>;

    /// Runs voice streams in real time and returns the figures of their ends.
    ///
    /// The keys are `sent`, `received` and `gateways`.
    ///
    /// # Errors
    /// Returns an error if a program does not run.
    fn streams(&self, streams: &Streams<'_>) -> Result<serde_json::Value, String>;
}
