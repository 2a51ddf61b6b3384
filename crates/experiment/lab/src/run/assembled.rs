//! Networks of a plan's points, assembled before anything runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bentpipe_assemble::Built;
use bentpipe_scenario::{Document, Problem, ScenarioError};

use super::Request;
use crate::plan::{Plan, Point};
use crate::prepared::Prepared;

/// Maximum number of elements of networks that are kept for their run.
const MAX_KEPT_ELEMENTS: usize = 20_000;

/// Networks of a plan's points, assembled to be checked and then run.
///
/// Every point is assembled, so a value that is impossible at the last one is reported before the first one runs.
pub struct Assembled<'a> {
    document: &'a Document,
    plan: &'a Plan,
    /// Networks by number of the point, with the seed that they were made with.
    kept: Mutex<BTreeMap<usize, (u64, Built)>>,
}

impl<'a> Assembled<'a> {
    /// Assembles the network of each point.
    ///
    /// # Errors
    /// What cannot be assembled at the first such point, at its place in the file.
    pub fn new(document: &'a Document, plan: &'a Plan) -> Result<Assembled<'a>, ScenarioError> {
        Assembled::of(document, plan, |_| true)
    }

    /// Assembles the network of each point that has a run to do.
    ///
    /// # Errors
    /// What cannot be assembled at the first such point, at its place in the file.
    pub fn unfinished(request: &Request<'a>) -> Result<Assembled<'a>, ScenarioError> {
        let to_do = |point: &Point| {
            // Its files are hashed once, by [`super::execute`]. It assembles the network of a damaged run itself.
            request.unfinished(point) > 0
        };
        Assembled::of(request.document, request.plan, to_do)
    }

    fn of(
        document: &'a Document,
        plan: &'a Plan,
        is_wanted: impl Fn(&Point) -> bool,
    ) -> Result<Assembled<'a>, ScenarioError> {
        let (mut kept, mut elements) = (BTreeMap::new(), 0);
        for point in plan.points.iter().filter(|point| is_wanted(point)) {
            let seed = point.seeds.first().copied().unwrap_or(point.scenario.seed);
            let built = Built::new(&point.scenario, seed, &plan.access);
            let built = built.map_err(|Problem { key, problem }| document.refusal(&key, problem))?;
            elements += built.network.ids().count();
            if elements <= MAX_KEPT_ELEMENTS {
                kept.insert(point.index, (seed, built));
            }
        }
        Ok(Assembled { document, plan, kept: Mutex::new(kept) })
    }

    /// Returns the network of a point and seed, for [`super::execute`].
    ///
    /// # Errors
    /// What cannot be assembled, as a text.
    pub fn prepare(&self, point: &Point, seed: u64) -> Result<Prepared, String> {
        let refused = |Problem { key, problem }| self.document.refusal(&key, problem).to_string();
        let access = &self.plan.access;
        let is_alone = point.settings.is_empty() && point.seeds.len() == 1;
        let built = self.take(point, seed).map_or_else(|| Built::new(&point.scenario, seed, access), Ok);
        built.map(|built| Prepared::new(built, is_alone, &point.scenario)).map_err(refused)
    }

    /// Removes and returns the kept network of a point, if it has this seed.
    fn take(&self, point: &Point, seed: u64) -> Option<Built> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (of_seed, _) = kept.get(&point.index)?;
        if *of_seed != seed {
            return None;
        }
        kept.remove(&point.index).map(|(_, built)| built)
    }
}
