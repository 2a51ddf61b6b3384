//! What functions of the crate compute for a study: each once, several at a time, while somebody watches.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rayon::prelude::*;

use super::StudyRuns;
use super::study::{Ours, Study};
use crate::run::{Failure, Monitor};
use crate::studies;

type Points = Vec<(f64, f64)>;

/// A value, and half the width of its confidence interval if it has one.
type Amount = (f64, Option<f64>);

/// Values and curves by the names of their functions.
#[derive(Clone, Debug, Default)]
pub(super) struct Computed {
    values: BTreeMap<String, Result<Amount, String>>,
    curves: BTreeMap<String, Result<Points, String>>,
}

/// What one function gave.
enum One {
    Value(Result<Amount, String>),
    Curve(Result<Points, String>),
}

impl StudyRuns {
    /// Computes all that rows and figures of `study` refer to by `code`, so many at a time; zero for one on each processor.
    ///
    /// # Errors
    /// If the monitor wants to stop.
    pub(super) fn compute(
        &mut self,
        study: &Study,
        jobs: usize,
        monitor: &dyn Monitor,
    ) -> Result<(), Failure> {
        let names = names(study);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().map_err(io::Error::other)?;
        monitor.begin(names.len(), 0);
        let one = |(name, is_curve): &(String, bool)| {
            let found = (!monitor.wants_stop()).then(|| self.one(name, *is_curve))?;
            monitor.advance(1.0);
            monitor.done(name);
            Some((name.clone(), found))
        };
        let found: Vec<Option<(String, One)>> = pool.install(|| names.par_iter().map(one).collect());
        let finished = found.iter().flatten().count();
        if finished < found.len() {
            return Err(Failure::Interrupted { finished, runs: found.len() });
        }
        for (name, one) in found.into_iter().flatten() {
            match one {
                One::Value(value) => drop(self.2.values.insert(name, value)),
                One::Curve(curve) => drop(self.2.curves.insert(name, curve)),
            }
        }
        Ok(())
    }

    fn one(&self, name: &str, is_curve: bool) -> One {
        if is_curve { One::Curve(self.computed_curve(name)) } else { One::Value(self.computed(name)) }
    }

    /// A value in its row's unit, by the name of the function that computes it.
    pub(super) fn computed(&self, name: &str) -> Result<Amount, String> {
        if let Some(known) = self.2.values.get(name) {
            return known.clone();
        }
        if let Some(code) = studies::estimate(name) {
            return code(self).map(|estimate| (estimate.mean, estimate.ci95));
        }
        let code = studies::code(name).ok_or_else(|| format!("no code \"{name}\""))?;
        code(self).map(|value| (value, None))
    }

    /// A curve's points, by the name of the function that computes them.
    pub(super) fn computed_curve(&self, name: &str) -> Result<Points, String> {
        if let Some(known) = self.2.curves.get(name) {
            return known.clone();
        }
        studies::curve(name).ok_or_else(|| format!("no curve \"{name}\"")).and_then(|code| code(self))
    }
}

/// Every function that is referred to, and whether it computes a curve.
fn names(study: &Study) -> BTreeSet<(String, bool)> {
    let of_rows = study.rows.iter().filter_map(|row| match &row.ours {
        Ours::Code(name) => Some((name.clone(), false)),
        _ => None,
    });
    let curves = study.figures.iter().flat_map(|figure| &figure.curve);
    of_rows.chain(curves.filter_map(|curve| Some((curve.code.clone()?, true)))).collect()
}
