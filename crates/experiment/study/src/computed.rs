//! Values and curves from the crate's functions: each computed once, several in parallel.

use std::collections::BTreeSet;
use std::io;

use bentpipe_lab::run::{Failure, Monitor};
use rayon::prelude::*;

use crate::runs::{Computed, Points, StudyRuns};
use crate::studies;
use crate::study::{Statistic, Study};

/// Result of one function.
enum Output {
    Value(Result<Vec<f64>, String>),
    Curve(Result<Points, String>),
}

/// Computes the values and curves that `study` names by `code`.
///
/// `jobs` is the number of threads, 0 for one per CPU.
///
/// # Errors
/// Returns an error if the monitor wants to stop.
pub(crate) fn compute(
    study: &Study,
    runs: &StudyRuns,
    jobs: usize,
    monitor: &dyn Monitor,
) -> Result<Computed, Failure> {
    let names = names(study);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build().map_err(io::Error::other)?;
    monitor.begin(names.len(), 0);
    let compute_one = |(name, is_curve): &(String, bool)| {
        let output = (!monitor.wants_stop()).then(|| output(runs, name, *is_curve))?;
        monitor.advance(1.0);
        monitor.done(name);
        Some((name.clone(), output))
    };
    let outputs: Vec<Option<(String, Output)>> = pool.install(|| names.par_iter().map(compute_one).collect());
    let finished = outputs.iter().flatten().count();
    if finished < outputs.len() {
        return Err(Failure::Interrupted { finished, runs: outputs.len() });
    }
    Ok(collected(outputs.into_iter().flatten()))
}

fn collected(outputs: impl Iterator<Item = (String, Output)>) -> Computed {
    let mut computed = Computed::default();
    for (name, output) in outputs {
        match output {
            Output::Value(value) => drop(computed.values.insert(name, value)),
            Output::Curve(curve) => drop(computed.curves.insert(name, curve)),
        }
    }
    computed
}

fn output(runs: &StudyRuns, name: &str, is_curve: bool) -> Output {
    if is_curve { Output::Curve(curve(runs, name)) } else { Output::Value(value(runs, name)) }
}

/// Returns what a function computes from each seed.
fn value(runs: &StudyRuns, name: &str) -> Result<Vec<f64>, String> {
    if let Some(constant) = studies::constant(name) {
        return Ok(vec![constant(runs)?]);
    }
    let code = studies::code(name).ok_or_else(|| format!("unknown code \"{name}\""))?;
    runs.all_views().iter().map(code).collect()
}

fn curve(runs: &StudyRuns, name: &str) -> Result<Points, String> {
    studies::curve(name).ok_or_else(|| format!("unknown curve \"{name}\"")).and_then(|curve| curve(runs))
}

/// Returns the functions that a study names, each with `true` if it computes a curve.
fn names(study: &Study) -> BTreeSet<(String, bool)> {
    let of_rows = study.rows.iter().filter_map(|row| match &row.statistic {
        Statistic::Code(name) => Some((name.clone(), false)),
        _ => None,
    });
    let curves = study.figures.iter().flat_map(|figure| &figure.curve);
    let columns = study.tables.iter().flat_map(|table| &table.column);
    let names = curves.map(|curve| &curve.code).chain(columns.map(|column| &column.code));
    of_rows.chain(names.filter_map(|code| Some((code.clone()?, true)))).collect()
}
