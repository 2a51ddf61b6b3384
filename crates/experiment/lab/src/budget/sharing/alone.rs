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
        let uses = resources.uses((FOR_LONG, &|_, _| f64::INFINITY), 0, flow, path);
        Alone { uses, links: path.hops_there().len() }
    }

    /// Returns the seconds that a bit of payload takes in a state.
    ///
    /// First those where data passes, then those where its answers pass alone.
    pub(in super::super) fn of(&self, media: &Media<'_>, states: &States, state: usize) -> [f64; 2] {
        longest(&self.uses, self.links, |one| one.own(states, media, state, &Vec::new()))
    }

    /// Returns the greatest rates of payload on each link there, as in the file.
    pub(in super::super) fn in_file(&self, media: &Media<'_>) -> Vec<f64> {
        by_link(&self.uses, self.links, |one| one.in_file(media))
    }

    /// Returns the greatest rates of payload on each link there in a state.
    pub(in super::super) fn by_link(&self, media: &Media<'_>, states: &States, state: usize) -> Vec<f64> {
        by_link(&self.uses, self.links, |one| one.own(states, media, state, &Vec::new()))
    }
}

/// Time that a bit of payload takes of a resource.
struct Load {
    resource: usize,
    seconds: f64,
    /// Link there on which data takes it. `None` if only answers do.
    link: Option<usize>,
    /// Set if data takes it on several links.
    is_shared: bool,
}

fn loads(uses: &[Use], links: usize, own: impl Fn(&Use) -> f64) -> Vec<Load> {
    let mut all: Vec<Load> = Vec::new();
    for one in uses {
        let (seconds, link) = (own(one), Some(one.hop).filter(|hop| *hop < links));
        match all.iter_mut().find(|load| load.resource == one.resource) {
            Some(load) => {
                load.seconds += seconds;
                load.is_shared |= load.link.is_some() && link.is_some() && load.link != link;
                load.link = load.link.or(link);
            }
            None => all.push(Load { resource: one.resource, seconds, link, is_shared: false }),
        }
    }
    all
}

/// Returns the longest times of resources that data passes, and of those of answers alone.
pub(super) fn longest(uses: &[Use], links: usize, own: impl Fn(&Use) -> f64) -> [f64; 2] {
    let all = loads(uses, links, own);
    [true, false].map(|of_data| {
        let some = all.iter().filter(|load| load.link.is_some() == of_data);
        some.map(|load| load.seconds).fold(0.0, f64::max)
    })
}

/// The greatest rate that is counted with.
const MOST_RATE: f64 = 1e15;

/// Returns the greatest rates of payload on each link there.
///
/// Where links have a resource in common, it is that of all of them.
pub(super) fn by_link(uses: &[Use], links: usize, own: impl Fn(&Use) -> f64) -> Vec<f64> {
    let (mut rates, all) = (vec![MOST_RATE; links], loads(uses, links, own));
    let common = all.iter().filter(|load| load.is_shared).map(|load| load.seconds).fold(0.0, f64::max);
    for Load { seconds, link, .. } in all {
        let Some(link) = link else { continue };
        rates[link] = rates[link].min(seconds.max(common).recip());
    }
    // A state in which nothing passes has a rate near zero.
    rates.iter_mut().for_each(|rate| *rate = if *rate < NOTHING { 0.0 } else { *rate });
    rates
}

/// Rate that is none, in bits a second.
const NOTHING: f64 = 1.0;
