//! Expected size of a request's captures.

use std::fmt;

use bentpipe_units::{Bytes, Span};

use super::Request;
use crate::budget::{Budget, show};

/// Maximum number of points whose budgets are computed. The others count as these.
const MAX_POINTS: usize = 8;

/// Expected captures of the runs of a request that are to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedCaptures {
    /// Number of these runs.
    pub runs: usize,
    /// Names of the files of a run.
    pub files: Vec<String>,
    /// Mean size of the captures of a run.
    pub of_run: Bytes,
    /// Duration of a run.
    pub lasts: Span,
    /// Size of the captures of all these runs.
    pub of_all: Bytes,
}

impl ExpectedCaptures {
    /// Computes the sizes. `None` if nothing is captured, or nothing is to be done.
    pub fn new(request: &Request<'_>) -> Option<ExpectedCaptures> {
        let points = &request.plan.points;
        if points.iter().all(|point| point.scenario.probe.capture.is_empty()) {
            return None;
        }
        let runs: usize = points.iter().map(|point| request.unfinished(point)).sum();
        let access = request.document.access();
        let captures = |n: usize| {
            let budget = Budget::with_files(&points[n].scenario, Some(access)).ok()?;
            Some(budget.captures.into_iter().map(|file| file.within(request.captures)).collect::<Vec<_>>())
        };
        let some = (0..points.len()).step_by(points.len().div_ceil(MAX_POINTS));
        let some: Vec<_> = some.filter_map(captures).collect();
        let first = some.first().filter(|first| !first.is_empty() && runs > 0)?;
        let total: u64 = some.iter().flatten().map(|file| file.on_disk.get()).sum();
        let of_run = total / some.len() as u64;
        Some(ExpectedCaptures {
            runs,
            files: first.iter().map(|file| file.file.clone()).collect(),
            of_run: Bytes::new(of_run),
            lasts: points[0].scenario.duration,
            of_all: Bytes::new(of_run.saturating_mul(runs as u64)),
        })
    }
}

impl fmt::Display for ExpectedCaptures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = show::size(self.of_run);
        match &self.files[..] {
            [file] => write!(f, "captures: {file} of {size} expected in {}", self.lasts)?,
            files => {
                write!(f, "captures: {} files of {size} in all expected in {}", files.len(), self.lasts)?
            }
        }
        match self.runs {
            1 => Ok(()),
            runs => write!(f, "; of {runs} runs {}", show::size(self.of_all)),
        }
    }
}
