//! Bundles without a route (RFC 9171, section 5.4.2).
//!
//! A bundle waits for a route until [`Config::no_route`](super::Config::no_route) is over. Then forwarding has failed, and it is deleted with a reason.

use std::collections::{BTreeSet, HashSet, VecDeque};

use bentpipe_units::{Span, Time};
use bentpipe_wire::dtn::admin::reason;
use bentpipe_wire::dtn::eid::Eid;

use super::store::Place;
use super::{Node, number};

/// Time after a restart in which neighbours connect again, and forwarding does not fail.
const RESTART: Span = Span::from_secs(120);
/// Maximum number of problems that wait to be taken.
const MAX_PROBLEMS: usize = 64;
/// Maximum number of neighbours that are remembered while they are away.
const MAX_MET: usize = 10_000;

/// Bundle that cannot be forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Destination.
    pub destination: Eid,
    /// Reason code (RFC 9171, section 9.5).
    pub reason: u64,
    /// Set if the bundle is deleted; otherwise it waits.
    pub is_deleted: bool,
}

/// Bundles without a route.
#[derive(Debug, Default)]
pub(super) struct Stranded {
    by_deadline: BTreeSet<(Time, u64)>,
    listed: HashSet<u64>,
    problems: VecDeque<Problem>,
    /// Neighbours that have been there.
    met: HashSet<u64>,
    not_before: Time,
}

impl Stranded {
    pub(super) fn note_restart(&mut self, now: Time) {
        self.not_before = now + RESTART;
    }

    pub(super) fn meet(&mut self, neighbour: u64) {
        if self.met.len() < MAX_MET {
            self.met.insert(neighbour);
        }
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.by_deadline.first().map_or(Time::NEVER, |(deadline, _)| *deadline)
    }

    /// Returns `true` if the bundle was not listed yet.
    fn list(&mut self, id: u64, deadline: Time) -> bool {
        let is_new = self.listed.insert(id);
        if is_new {
            self.by_deadline.insert((deadline.max(self.not_before), id));
        }
        is_new
    }

    fn pop(&mut self, now: Time) -> Option<u64> {
        let (deadline, id) = *self.by_deadline.first()?;
        if deadline > now {
            return None;
        }
        self.by_deadline.pop_first();
        self.listed.remove(&id);
        Some(id)
    }

    fn note(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push_back(problem);
        }
    }
}

impl Node {
    /// Removes and returns the next bundle that cannot be forwarded, for the log. Of many some are left out.
    pub fn poll_problem(&mut self) -> Option<Problem> {
        self.stranded.problems.pop_front()
    }

    /// Returns the reason for which a stored bundle will get no route.
    ///
    /// `None` if it may.
    fn obstacle(&mut self, id: u64, now: Time) -> Option<u64> {
        let entry = self.store.get(id).filter(|entry| entry.place == Place::Limbo)?;
        let destination = &entry.bundle.primary.destination;
        if destination.is_null() {
            return Some(reason::UNAVAILABLE);
        }
        let to = number(&self.names, destination);
        if to.is_some_and(|to| self.stranded.met.contains(&to)) {
            return None;
        }
        self.routing.obstacle(to, now)
    }

    /// Lists a bundle that has no route.
    pub(super) fn strand(&mut self, id: u64, now: Time) {
        let Some(hold) = self.config.no_route else { return };
        let Some(reason) = self.obstacle(id, now) else { return };
        if self.stranded.list(id, now + hold) {
            self.note_problem(id, reason, false);
        }
    }

    fn note_problem(&mut self, id: u64, reason: u64, is_deleted: bool) {
        if let Some(entry) = self.store.get(id) {
            let destination = entry.bundle.primary.destination.clone();
            self.stranded.note(Problem { destination, reason, is_deleted });
        }
    }

    /// Deletes bundles that have had no route for too long.
    pub(super) fn fail_stranded(&mut self, now: Time) {
        while let Some(id) = self.stranded.pop(now) {
            let Some(reason) = self.obstacle(id, now) else { continue };
            self.note_problem(id, reason, true);
            if let Some(entry) = self.unstore(id, now) {
                self.counts.no_route += 1;
                self.report_deletion((&entry.bundle, entry.share), reason, now);
            }
        }
    }
}
