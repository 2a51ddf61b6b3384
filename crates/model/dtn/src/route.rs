//! Contact graph routing by schedule-aware bundle routing (SABR, CCSDS 734.3-B-1).
//!
//! Routes of a plan come in order of best-case arrival (Yen's algorithm), without loops of nodes. Of these a bundle
//! gets the one with the earliest projected arrival, then fewest contacts, then latest end, then lowest entry node.
//! What the standard leaves open is in [`Options`]. The standard's text was not available: rules are from published
//! clause-by-clause notes.
//!
//! Not here: critical bundles, which take a copy by each neighbour, and extension-block routing.

mod choose;
mod parts;
mod search;

pub use choose::{Choice, Demand, Ledger, PRIORITIES};
pub use parts::Part;

use std::collections::HashMap;

use bentpipe_units::{Span, Time};

use crate::plan::Plan;

/// Points that the standard leaves open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Maximum number of candidate routes of a destination. Default: 10.
    pub candidates: usize,
    /// Share of the light time that each hop takes longer. Default: 0; ION has 6.7e-4.
    pub margin: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { candidates: 10, margin: 0.0 }
    }
}

/// Route to a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Numbers of its contacts in the plan.
    pub contacts: Vec<usize>,
    /// Best-case arrival of a bundle without length.
    pub arrival: Time,
    /// Earliest end of its contacts.
    pub end: Time,
}

/// Contact graph of a plan.
#[derive(Clone, Debug)]
pub struct Graph {
    plan: Plan,
    options: Options,
    /// Contacts by the node that sends, in the order of their starts.
    outgoing: HashMap<u64, Vec<usize>>,
    /// Contacts of each pair of nodes, in the order of their starts.
    pairs: HashMap<(u64, u64), Vec<usize>>,
}

impl Graph {
    /// Creates the graph of a plan.
    pub fn new(plan: Plan, options: Options) -> Graph {
        let mut outgoing: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut pairs: HashMap<(u64, u64), Vec<usize>> = HashMap::new();
        for (n, contact) in plan.contacts.iter().enumerate() {
            if contact.light_time.is_some() {
                outgoing.entry(contact.from).or_default().push(n);
                pairs.entry((contact.from, contact.to)).or_default().push(n);
            }
        }
        pairs.values_mut().for_each(|pair| pair.sort_by_key(|n| plan.contacts[*n].start));
        Graph { plan, options, outgoing, pairs }
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the contacts of the same nodes that start before a contact.
    ///
    /// Most of those that are over are left out.
    fn prior(&self, contact: usize, now: Time) -> impl Iterator<Item = usize> {
        let of = &self.plan.contacts[contact];
        let pair = self.pairs.get(&(of.from, of.to)).map_or(&[][..], Vec::as_slice);
        let over = pair.iter().take_while(|n| self.plan.contacts[**n].end <= now).count();
        pair[over..].iter().copied().take_while(|n| self.plan.contacts[*n].start < of.start)
    }

    /// Returns the time that a bit travels in a contact.
    fn light_time(&self, contact: usize) -> Span {
        let light_time = self.plan.contacts[contact].light_time.unwrap_or(Span::ZERO);
        light_time + light_time.mul_f64(self.options.margin)
    }

    /// Returns the arrival through a contact of data ready at `ready`.
    ///
    /// `None` if the contact is over. The closing instant is within the contact (clause 3.2.4.1.1).
    fn arrival(&self, contact: usize, ready: Time) -> Option<Time> {
        let of = &self.plan.contacts[contact];
        let sent = ready.max(of.start);
        (sent <= of.end).then(|| sent + self.light_time(contact))
    }

    /// Returns the routes from a node to another from `now` on, earliest arrival first.
    ///
    /// `is_excluded` returns `true` for neighbours that are not to be used.
    pub fn routes(&self, from: u64, to: u64, now: Time, is_excluded: &dyn Fn(u64) -> bool) -> Vec<Route> {
        search::yen(self, (from, to), now, is_excluded)
    }

    /// Returns the route of contacts, which must be passable one after the other.
    fn route(&self, contacts: Vec<usize>, now: Time) -> Option<Route> {
        let mut arrival = now;
        for contact in &contacts {
            arrival = self.arrival(*contact, arrival)?;
        }
        let end = contacts.iter().map(|contact| self.plan.contacts[*contact].end).min()?;
        Some(Route { contacts, arrival, end })
    }
}

#[cfg(test)]
mod tests;
