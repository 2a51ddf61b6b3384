//! Choice of a route for a bundle, and the booked volume of contacts.

use std::borrow::Borrow;

use bentpipe_units::{Bytes, Span, Time};

use super::{Graph, Route};

/// Number of priorities: bulk, normal, expedited.
pub const PRIORITIES: usize = 3;

/// Bundle that needs a route.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Encoded length in bytes.
    pub size: u64,
    /// Priority, 0 to 2.
    pub priority: usize,
    /// Set if it may be fragmented.
    pub may_fragment: bool,
    /// End of its lifetime.
    pub expiry: Time,
}

impl Demand {
    /// Returns the estimated volume consumption, with 3 % or 100 bytes of overhead.
    pub fn volume(&self) -> u64 {
        self.size + (self.size * 3).div_ceil(100).max(100)
    }
}

/// Route that a bundle is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Number of the route among the candidates.
    pub route: usize,
    /// Projected arrival of the last byte.
    pub arrival: Time,
    /// Node to forward to.
    pub neighbour: u64,
    /// Number of the first contact.
    pub contact: usize,
}

/// Remaining volume of contacts in bytes, by priority.
#[derive(Clone, Debug)]
pub struct Ledger(Vec<[i64; PRIORITIES]>);

impl Ledger {
    /// Creates the ledger of a plan whose contacts are not booked yet.
    pub fn new(graph: &Graph) -> Ledger {
        let volume = |contact: &crate::plan::Contact| {
            (contact.rate.as_bytes_per_sec() * (contact.end - contact.start).as_secs_f64()) as i64
        };
        Ledger(graph.plan.contacts.iter().map(|contact| [volume(contact); PRIORITIES]).collect())
    }

    /// Books a bundle at all contacts of a route, for its and lower priorities.
    pub fn book(&mut self, route: &Route, demand: &Demand) {
        self.change(route, demand, -(demand.volume() as i64));
    }

    /// Releases the booking of a bundle that will not go that way.
    pub fn release(&mut self, route: &Route, demand: &Demand) {
        self.change(route, demand, demand.volume() as i64);
    }

    fn change(&mut self, route: &Route, demand: &Demand, by: i64) {
        for contact in &route.contacts {
            self.0[*contact][..=demand.priority].iter_mut().for_each(|left| *left += by);
        }
    }

    /// Returns the remaining volume of a contact for a priority.
    pub fn left(&self, contact: usize, priority: usize) -> i64 {
        self.0[contact][priority]
    }
}

/// Returns what routes are compared by, least first.
fn keys<'r>(
    routes: &'r [impl Borrow<Route>],
    choice: &Choice,
) -> (Time, usize, std::cmp::Reverse<Time>, u64, &'r [usize]) {
    let route: &Route = routes[choice.route].borrow();
    (choice.arrival, route.contacts.len(), std::cmp::Reverse(route.end), choice.neighbour, &route.contacts)
}

impl Graph {
    /// Returns the best route for a bundle, if one of them takes it in time.
    ///
    /// `routes` are those of an instant up to `now`. `backlog` returns the bytes that wait for a neighbour with the
    /// bundle's priority or a higher one.
    pub fn choose(
        &self,
        routes: &[impl Borrow<Route>],
        demand: &Demand,
        ledger: &Ledger,
        now: Time,
        backlog: &dyn Fn(u64) -> u64,
    ) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        for (n, route) in routes.iter().enumerate() {
            let route: &Route = route.borrow();
            // A bundle never arrives before the best case of its route.
            if best.as_ref().is_some_and(|best| best.arrival < route.arrival) {
                continue;
            }
            let Some((arrival, volume)) = self.project(route, demand, ledger, now, backlog) else { continue };
            let fits = if demand.may_fragment { volume > 0 } else { volume >= demand.volume() as i64 };
            let contact = route.contacts[0];
            let choice = Choice { route: n, arrival, neighbour: self.plan.contacts[contact].to, contact };
            let is_better = |best: &Choice| keys(routes, &choice) < keys(routes, best);
            if fits && arrival <= demand.expiry && best.as_ref().is_none_or(is_better) {
                best = Some(choice);
            }
        }
        best
    }

    /// Returns the projected arrival and the volume of a route.
    ///
    /// `None` if the bundle misses a contact.
    fn project(
        &self,
        route: &Route,
        demand: &Demand,
        ledger: &Ledger,
        now: Time,
        backlog: &dyn Fn(u64) -> u64,
    ) -> Option<(Time, i64)> {
        let bytes = demand.volume();
        let mut ready = self.opportunity(route.contacts[0], now, backlog)?;
        let mut volume = i64::MAX;
        let mut end = route.end;
        for (n, contact) in route.contacts.iter().enumerate() {
            let of = &self.plan.contacts[*contact];
            let first = ready.max(of.start);
            // Later contacts bound what this one can carry on: the earliest end from here on.
            let later = route.contacts[n..].iter().map(|contact| self.plan.contacts[*contact].end).min();
            end = later.unwrap_or(end);
            let duration = if end > first { end - first } else { Span::ZERO };
            let limit = (of.rate.as_bytes_per_sec() * duration.as_secs_f64()) as i64;
            volume = volume.min(ledger.left(*contact, demand.priority)).min(limit);
            if first > of.end {
                return None;
            }
            ready = first + of.rate.span_of(Bytes::new(bytes)) + self.light_time(*contact);
        }
        Some((ready, volume))
    }

    /// Returns the earliest instant at which a contact has sent what waits for its neighbour.
    fn opportunity(&self, contact: usize, now: Time, backlog: &dyn Fn(u64) -> u64) -> Option<Time> {
        let of = &self.plan.contacts[contact];
        let mut waiting = backlog(of.to) as f64;
        for prior in self.prior(contact, now) {
            if waiting <= 0.0 {
                break;
            }
            let prior = &self.plan.contacts[prior];
            if prior.end > now {
                let open = (prior.end - prior.start.max(now)).as_secs_f64();
                waiting -= open * prior.rate.as_bytes_per_sec();
            }
        }
        let wait = Span::from_secs_f64((waiting.max(0.0) / of.rate.as_bytes_per_sec().max(1.0)).min(9e9));
        let start = of.start.max(now);
        (start <= of.end && wait < Span::from_secs(8_000_000_000)).then(|| start + wait)
    }
}
