//! Next hops of bundles.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bentpipe_units::Time;
use bentpipe_wire::dtn::admin::reason;
use bentpipe_wire::dtn::bundle::BundleFlags;

use super::hop::Hop;
use super::store::Entry;
use crate::route::{Demand, Graph, Ledger, Part, Route};

/// Rule by which a node finds the next hop.
#[derive(Debug)]
pub enum Routing {
    /// Neighbours by destination node, and a default.
    Static {
        /// Neighbours by destination.
        routes: HashMap<u64, u64>,
        /// Neighbour of all other destinations.
        default: Option<u64>,
    },
    /// Contact graph routing.
    Contacts(Box<Contacts>),
    /// Copies to each neighbour that is met (Vahdat and Becker, 2000).
    Epidemic,
    /// Copies to the first neighbours that are met.
    ///
    /// Then each copy waits for the destination (Spyropoulos et al., 2005).
    Spray {
        /// Maximum number of copies of a bundle.
        copies: u32,
        /// Set if half of a node's copies go to a neighbour. Otherwise the source gives one.
        is_binary: bool,
    },
}

/// State of contact graph routing at a node.
#[derive(Debug)]
pub struct Contacts {
    node: u64,
    graph: Arc<Graph>,
    ledger: Ledger,
    /// Candidate routes by destination.
    candidates: HashMap<u64, Vec<Arc<Route>>>,
}

impl Routing {
    /// Creates contact graph routing at a node. Nodes may share the graph.
    pub fn contacts(node: u64, graph: impl Into<Arc<Graph>>) -> Routing {
        let graph = graph.into();
        let ledger = Ledger::new(&graph);
        Routing::Contacts(Box::new(Contacts { node, graph, ledger, candidates: HashMap::new() }))
    }

    /// Returns the number of copies that a node may make, if it makes copies.
    ///
    /// `received` is the number in the block of a bundle that came from a neighbour, and `None` at the source.
    pub(crate) fn copies(&self, received: Option<Option<u64>>) -> Option<u32> {
        match self {
            Routing::Static { .. } | Routing::Contacts(_) => None,
            Routing::Epidemic => Some(u32::MAX),
            Routing::Spray { copies, is_binary } => Some(match received {
                None => (*copies).max(1),
                Some(Some(given)) if *is_binary => given.clamp(1, u64::from(*copies).max(1)) as u32,
                Some(_) => 1,
            }),
        }
    }

    /// Returns the copies that a node gives to a neighbour on the way.
    pub(crate) fn gift(&self, copies: u32) -> u32 {
        match self {
            Routing::Spray { is_binary: true, .. } => copies / 2,
            Routing::Spray { .. } => 1,
            _ => 0,
        }
    }

    /// Returns the next hop of a bundle. `to` is the number of the destination's node, if it has one.
    pub(crate) fn choose(
        &mut self,
        (entry, to): (&Entry, Option<u64>),
        now: Time,
        backlog: &dyn Fn(u64) -> u64,
    ) -> Option<Hop> {
        match self {
            Routing::Static { .. } if entry.bundle.primary.destination.is_null() => None,
            Routing::Static { routes, default } => {
                let neighbour = to.and_then(|to| routes.get(&to).copied()).or(*default)?;
                (Some(neighbour) != entry.from).then_some(Hop { neighbour, route: None })
            }
            Routing::Contacts(contacts) => contacts.choose(entry, to?, now, backlog),
            Routing::Epidemic | Routing::Spray { .. } => None,
        }
    }

    /// Returns the lengths of the parts of a bundle that no route takes whole.
    ///
    /// Each has `overhead` bytes beyond its payload.
    pub(crate) fn parts(
        &mut self,
        (entry, overhead): (&Entry, u64),
        to: Option<u64>,
        now: Time,
        backlog: &dyn Fn(u64) -> u64,
    ) -> Option<Vec<u64>> {
        let (Routing::Contacts(contacts), Some(to)) = (self, to) else { return None };
        let parts = contacts.parts((entry, overhead), to, now, backlog)?;
        Some(parts.iter().map(|part| part.size).collect())
    }

    /// Returns the reason for which a bundle will get no route.
    ///
    /// `None` if it may.
    /// Static routes do not change. A plan may have other contacts, or its volume may be taken for the present.
    pub(crate) fn obstacle(&mut self, to: Option<u64>, now: Time) -> Option<u64> {
        match self {
            Routing::Static { .. } => Some(reason::NO_ROUTE),
            Routing::Contacts(contacts) => contacts.obstacle(to, now),
            Routing::Epidemic | Routing::Spray { .. } => None,
        }
    }

    /// Releases the volume of a bundle that will not go that way.
    pub(crate) fn release(&mut self, entry: &Entry, hop: &Hop) {
        if let (Routing::Contacts(contacts), Some(route)) = (self, &hop.route) {
            contacts.ledger.release(route, &demand(entry));
        }
    }

    /// Returns `true` if hops are over with their contacts.
    pub(crate) fn has_contacts(&self) -> bool {
        matches!(self, Routing::Contacts(_))
    }

    /// Returns `true` if the contact of a hop is over.
    pub(crate) fn is_over(&self, hop: &Hop, now: Time) -> bool {
        match (self, &hop.route) {
            (Routing::Contacts(contacts), Some(route)) => {
                contacts.graph.plan().contacts[route.contacts[0]].end <= now
            }
            _ => false,
        }
    }
}

fn demand(entry: &Entry) -> Demand {
    let may_fragment = !entry.bundle.primary.flags.has(BundleFlags::WHOLE);
    Demand { size: entry.size, priority: entry.level(), may_fragment, expiry: entry.expiry }
}

impl Contacts {
    fn choose(&mut self, entry: &Entry, to: u64, now: Time, backlog: &dyn Fn(u64) -> u64) -> Option<Hop> {
        self.refresh(to, now);
        let (routes, demand) = (self.routes(entry, to, now), demand(entry));
        let choice = self.graph.choose(&routes, &demand, &self.ledger, now, backlog)?;
        let route = Arc::clone(&routes[choice.route]);
        self.ledger.book(&route, &demand);
        Some(Hop { neighbour: choice.neighbour, route: Some(route) })
    }

    fn parts(
        &mut self,
        (entry, overhead): (&Entry, u64),
        to: u64,
        now: Time,
        backlog: &dyn Fn(u64) -> u64,
    ) -> Option<Vec<Part>> {
        self.refresh(to, now);
        let routes = self.routes(entry, to, now).into_owned();
        let demand = Demand { size: entry.bundle.payload.len() + overhead, ..demand(entry) };
        self.graph.parts(&routes, (&demand, overhead), &mut self.ledger, now, backlog)
    }

    fn obstacle(&mut self, to: Option<u64>, now: Time) -> Option<u64> {
        let Some(to) = to.filter(|to| self.graph.plan().contacts.iter().any(|contact| contact.to == *to))
        else {
            return Some(reason::NO_ROUTE);
        };
        self.refresh(to, now);
        self.candidates[&to].is_empty().then_some(reason::NO_CONTACT)
    }

    /// Finds the candidates of a destination again if one of them is over.
    fn refresh(&mut self, to: u64, now: Time) {
        let is_stale =
            self.candidates.get(&to).is_none_or(|routes| routes.iter().any(|route| route.end <= now));
        if is_stale {
            let routes = self.graph.routes(self.node, to, now, &|_| false);
            // Contacts that end now would make the list stale again and again.
            let open = |route: &Route| route.end > now;
            self.candidates.insert(to, routes.into_iter().filter(open).map(Arc::new).collect());
        }
    }

    /// Returns the candidates for a bundle: not by the neighbour that it came from.
    fn routes(&self, entry: &Entry, to: u64, now: Time) -> Cow<'_, [Arc<Route>]> {
        let routes = &self.candidates[&to];
        let back = entry.from;
        let is_back = |route: &Arc<Route>| Some(self.graph.plan().contacts[route.contacts[0]].to) == back;
        if routes.iter().any(is_back) {
            let routes = self.graph.routes(self.node, to, now, &|neighbour| Some(neighbour) == back);
            return routes.into_iter().map(Arc::new).collect();
        }
        Cow::Borrowed(routes)
    }
}
