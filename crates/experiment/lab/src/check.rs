//! Checks of a scenario file without running it.
//!
//! They cover every point of its sweep, and the values that the sweep hides.

use std::collections::BTreeSet;
use std::fmt;

use bentpipe_assemble as assemble;
use bentpipe_scenario::{Document, Flow, Scenario, ScenarioError, copies};

use crate::plan;

/// The most points that are checked; a longer sweep is sampled.
const MAX_CHECKED: usize = 100;

/// The most nodes, links and flows of all checked points together. At least two points are checked.
const MAX_ELEMENTS: usize = 60_000;

/// Nodes, links and flows that take as long to check as what an event changes.
const OF_CHANGE: usize = 10;

/// A file without errors.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The scenario of the first point.
    pub first: Scenario,
    /// Number of points checked.
    pub points: usize,
    /// Number of points of the sweep; one without a sweep.
    pub of: usize,
}

impl Checked {
    /// Returns what was checked and what the first point stands for; `None` without a sweep.
    pub fn coverage(&self) -> Option<String> {
        let Checked { points, of, .. } = self;
        match of {
            1 => None,
            _ if points == of => {
                Some(format!("all {of} points of the sweep were checked; the budget is of the first"))
            }
            _ => {
                Some(format!("{points} of {of} points of the sweep were checked; the budget is of the first"))
            }
        }
    }
}

/// An error, and the point of the sweep that has it.
#[derive(Debug)]
pub struct PointError {
    /// The errors, with their places in the file.
    pub error: ScenarioError,
    /// Settings of the point. Empty for the first one, and for the file outside its sweep.
    pub settings: String,
}

impl fmt::Display for PointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        if !self.settings.is_empty() {
            write!(f, "\nat the point of the sweep with {}", self.settings)?;
        }
        Ok(())
    }
}

impl std::error::Error for PointError {}

impl From<ScenarioError> for PointError {
    fn from(error: ScenarioError) -> PointError {
        PointError { error, settings: String::new() }
    }
}

/// Checks the points of a file and the values that its sweep overrides.
///
/// Of a long sweep it takes a sample, with the ends of each axis.
///
/// # Errors
/// Returns the errors of the first invalid point.
pub fn check(document: &Document) -> Result<Checked, PointError> {
    let first = assemble::checked(document)?;
    let lengths: Vec<usize> = document.axes().map(|(_, values)| values).collect();
    let of = lengths.iter().product();
    let size = elements(&first) + (1 + OF_CHANGE) * plan::changed(&first);
    let most = MAX_ELEMENTS / size.max(1);
    let sample = sample(&lengths, most.clamp(2, MAX_CHECKED));
    // Values that the sweep overrides are read and compared in any case, and assembled where that costs no more than the points do.
    let is_assembled = sample.len() + lengths.len() <= most;
    (0..lengths.len()).filter_map(|axis| document.scenario_without(axis)).try_for_each(|scenario| {
        let check = |scenario| if is_assembled { assemble::check(document, &scenario) } else { Ok(()) };
        scenario.and_then(check).map_err(PointError::from)
    })?;
    // The first point is checked already.
    for point in sample.iter().filter(|point| point.iter().any(|number| *number > 0)) {
        let scenario = document.scenario_at(point);
        scenario.and_then(|scenario| assemble::check(document, &scenario)).map_err(|error| {
            let settings = document.settings_at(point).map(|(_, key, value)| format!("{key} = {value}"));
            PointError { error, settings: settings.collect::<Vec<_>>().join(", ") }
        })?;
    }
    Ok(Checked { first, points: sample.len(), of })
}

/// Returns the number of nodes, links and flows, copies counted.
fn elements(scenario: &Scenario) -> usize {
    let copies = |ends: [&str; 2]| copies::copies(scenario, ends) as usize;
    let of_flow = |flow: &Flow| flow.count as usize * copies([&flow.from, &flow.to]);
    let nodes: usize = scenario.node.values().map(|node| node.count as usize).sum();
    let links: usize = scenario.link.values().map(|link| copies([&link.between[0], &link.between[1]])).sum();
    nodes + links + scenario.flow.values().map(of_flow).sum::<usize>()
}

/// Returns at most `most` points.
///
/// They are all, or some along each axis from the first point, and others spread evenly.
fn sample(lengths: &[usize], most: usize) -> Vec<Vec<usize>> {
    let of: usize = lengths.iter().product();
    if of <= most {
        return (0..of).map(|index| plan::coordinates(index, lengths)).collect();
    }
    let each = (most / 2 / lengths.len().max(1)).max(1);
    let along = lengths.iter().enumerate().flat_map(|(axis, &length)| {
        let last_first = (0..each.min(length)).map(move |n| length - 1 - n * length / each.min(length));
        last_first
            .map(move |value| (0..lengths.len()).map(|other| if other == axis { value } else { 0 }).collect())
    });
    let mut points: BTreeSet<Vec<usize>> = along.take(most.saturating_sub(1)).collect();
    let spread = (0..most).map(|n| plan::coordinates(n * (of - 1) / (most - 1), lengths));
    for point in spread {
        if points.len() >= most {
            break;
        }
        points.insert(point);
    }
    points.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_ends_of_every_axis_and_never_more_than_asked() {
        assert_eq!(sample(&[], 100), [Vec::<usize>::new()]);
        assert_eq!(sample(&[2, 2], 100), [[0, 0], [0, 1], [1, 0], [1, 1]]);
        for lengths in [&[1000][..], &[30, 40], &[101, 1, 2], &[100, 100, 10]] {
            for most in [2, 7, 100] {
                let points = sample(lengths, most);
                assert!(points.len() <= most, "{lengths:?} {most}: {}", points.len());
                assert!(points.iter().all(|point| point.iter().zip(lengths).all(|(n, of)| n < of)));
            }
            let points = sample(lengths, 100);
            for (axis, of) in lengths.iter().enumerate() {
                assert!(points.iter().any(|point| point[axis] == of - 1), "{lengths:?}: end of axis {axis}");
                assert!(points.iter().any(|point| point[axis] == 0), "{lengths:?}: start of axis {axis}");
            }
        }
    }
}
