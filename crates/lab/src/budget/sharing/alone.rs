//! Uses of a path without others.

use std::collections::HashMap;

use bentpipe_scenario::Scenario;

use super::super::medium::Media;
use super::super::path::Path;
use super::super::states::States;
use super::{Resources, Use};

/// Seconds of which what a bucket passes at first is a small part.
///
/// That is counted apart.
const FOR_LONG: f64 = 1e15;

/// Resources that a path takes.
pub(in super::super) struct Alone {
    uses: Vec<Use>,
    /// Number of links there.
    links: usize,
}

impl Alone {
    pub(in super::super) fn new(
        scenario: &Scenario,
        media: &Media<'_>,
        (flow, path): (usize, &Path),
    ) -> Alone {
        let mut resources = Resources { scenario, media, numbers: HashMap::new() };
        Alone { uses: resources.uses(FOR_LONG, 0, flow, path), links: path.hops_there().len() }
    }

    /// Returns the seconds that a bit of payload takes in a state.
    ///
    /// First those where data passes, then those where its answers pass alone.
    pub(in super::super) fn of(&self, media: &Media<'_>, states: &States, state: usize) -> [f64; 2] {
        longest(&self.uses, self.links, |one| one.own(states, media, state, &Vec::new()))
    }
}

/// Returns the longest times of resources that data passes, and of those of answers alone.
pub(super) fn longest(uses: &[Use], links: usize, own: impl Fn(&Use) -> f64) -> [f64; 2] {
    let mut taken: Vec<(usize, f64, bool)> = Vec::new();
    for one in uses {
        let (time, is_data) = (own(one), one.hop < links);
        match taken.iter_mut().find(|(resource, ..)| *resource == one.resource) {
            Some((_, sum, has_data)) => (*sum, *has_data) = (*sum + time, *has_data || is_data),
            None => taken.push((one.resource, time, is_data)),
        }
    }
    [true, false].map(|of_data| {
        let all = taken.iter().filter(|(_, _, has_data)| *has_data == of_data);
        all.map(|(_, time, _)| *time).fold(0.0, f64::max)
    })
}
