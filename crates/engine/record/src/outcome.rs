//! Outcome of one run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bentpipe_units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::definitions::{DEFINITIONS, first};
use super::ring::CaptureLimits;
use super::{Distribution, FinalValues, FlowNote, LedgerRow, Measure, UnitRow, account};

/// Outcome of one run, apart from its series. The same scenario and seed give the same to the byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Hash of everything that the result depends on.
    pub hash: String,
    /// The seed.
    pub seed: u64,
    /// The hash over all that happened, in 16 hexadecimal digits.
    pub fingerprint: String,
    /// Version of the definitions of its measures; 1 if it is absent.
    #[serde(default = "first")]
    pub definitions: u32,
    /// Packets handed to elements.
    pub deliveries: u64,
    /// Wake-ups of elements.
    pub wakeups: u64,
    /// Packets sent to outputs that lead nowhere.
    pub stray: u64,
    /// The time between samples that was asked for.
    pub interval_asked: Span,
    /// The time between samples that was used: longer if there were too many columns.
    pub interval: Span,
    /// Initial time that measures leave out. The ledger is of the whole run.
    #[serde(default, skip_serializing_if = "is_none")]
    pub warm_up: Span,
    /// Captures that were made.
    pub captures: Vec<CaptureFile>,
    /// Measures of flows and links.
    pub measures: Vec<Measure>,
    /// Accounts of packets, by sender.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ledger: Vec<LedgerRow>,
    /// Accounts of units, by flow: bytes, calls, requests, bundles, packets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<UnitRow>,
    /// Causes of no goodput, and flows without an account of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flow_notes: Vec<FlowNote>,
    /// Distributions of delays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub distributions: Vec<Distribution>,
    /// Final values of all counters and gauges.
    #[schemars(with = "BTreeMap<String, BTreeMap<String, f64>>")]
    pub totals: FinalValues,
}

/// Returns `true` for no warm-up, which is not written out.
fn is_none(warm_up: &Span) -> bool {
    warm_up.is_zero()
}

/// A capture file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureFile {
    /// Name in the run's folder.
    pub file: String,
    /// Number of packets.
    pub packets: u64,
}

impl Outcome {
    /// Events that the engine handled.
    pub fn events(&self) -> u64 {
        self.deliveries + self.wakeups
    }

    /// Returns the measures, then those of the accounts of flows.
    ///
    /// The latter are sums of rows of the ledger.
    pub fn figures(&self) -> impl Iterator<Item = Cow<'_, Measure>> {
        let accounts = account::measures(&self.ledger).into_iter().map(Cow::Owned);
        self.measures.iter().map(Cow::Borrowed).chain(accounts)
    }
}

/// Circumstances of a run, on which its result does not depend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Identifier of the program's build. Another build may give another result.
    pub build: String,
    /// The time it took, in seconds.
    pub wall_s: f64,
    /// Timing of an emulation in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealTime>,
    /// Limits of its captures. Absent without captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captures: Option<CaptureLimits>,
}

/// Real-time behaviour of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RealTime {
    /// Number of packets that left the network.
    pub packets: u64,
    /// Half of them left no later than this after their time, in seconds.
    pub late_p50_s: f64,
    /// 99 % of them left no later than this after their time, in seconds.
    pub late_p99_s: f64,
    /// Maximum lateness of a packet, in seconds.
    pub late_max_s: f64,
    /// Limit of the 99 % lateness for a reliable run, in seconds.
    pub threshold_s: f64,
    /// The share of one processor that the emulator took.
    pub cpu: f64,
    /// Notices for the reader: lost devices, failed captures, omitted flows.
    pub notices: Vec<String>,
}

impl fmt::Display for RealTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let late = [self.late_p50_s, self.late_p99_s, self.late_max_s].map(Span::from_secs_f64);
        if self.packets == 0 {
            writeln!(f, "no packet left; CPU {:.0} %", self.cpu * 100.0)?;
            return self.notices.iter().try_for_each(|notice| writeln!(f, "{notice}"));
        }
        writeln!(
            f,
            "{} packets left, half of them within {} of their time, 99 % within {}, all within {}; CPU {:.0} %",
            self.packets,
            late[0],
            late[1],
            late[2],
            self.cpu * 100.0
        )?;
        if self.was_late() {
            let threshold = Span::from_secs_f64(self.threshold_s);
            writeln!(
                f,
                "LATE: more than 1 % of the packets left more than {threshold} after their time; do not trust this run"
            )?;
        }
        self.notices.iter().try_for_each(|notice| writeln!(f, "{notice}"))
    }
}

impl RealTime {
    /// Returns `true` if packets were later than the threshold.
    pub fn was_late(&self) -> bool {
        self.late_p99_s > self.threshold_s
    }
}

/// Result of one run.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The number of its point.
    pub point: usize,
    /// Outcome of the run.
    pub outcome: Outcome,
    /// Circumstances of the run.
    pub timing: Timing,
    /// Set if the run had been finished before.
    pub reused: bool,
}

/// Returns the lowest version of outcomes; that of the program without any.
pub(super) fn lowest<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> u32 {
    outcomes.map(|outcome| outcome.definitions).min().unwrap_or(DEFINITIONS)
}

/// Returns the measures of outcomes whose meaning is newer than `version`.
pub(super) fn changed_since<'a>(version: u32, outcomes: impl Iterator<Item = &'a Outcome>) -> Vec<&'a str> {
    let measures = outcomes.flat_map(|outcome| &outcome.measures);
    let changed = measures.filter(|measure| measure.since > version).map(|measure| &measure.name[..]);
    changed.collect::<indexmap::IndexSet<_>>().into_iter().collect()
}
