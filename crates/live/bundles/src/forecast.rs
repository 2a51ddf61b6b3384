//! Tables of a contact plan: capacity of pairs, routes, and arrival of a bundle.

use std::collections::BTreeSet;
use std::fmt::Write;

use bentpipe_dtn::plan::Plan;
use bentpipe_dtn::route::{Demand, Graph, Ledger, Options, Route};
use bentpipe_units::{Bytes, Span, Time};

/// Bundle whose routes are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Node that sends.
    pub from: u64,
    /// Node that receives.
    pub to: u64,
    /// Length of the bundle.
    pub size: Bytes,
    /// Time at which it is ready, from the plan's start.
    pub at: Span,
    /// Number of candidate routes.
    pub routes: usize,
}

/// Answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forecast {
    /// No route is left.
    NoRoute,
    /// Table of routes, none of which the bundle fits.
    NoFit(String),
    /// Table of routes, and the arrival of the bundle.
    Arrival(String),
}

/// Returns a table of all pairs.
pub fn pairs(plan: &Plan) -> String {
    let pairs: BTreeSet<(u64, u64)> =
        plan.contacts.iter().map(|contact| (contact.from, contact.to)).collect();
    let mut text = format!(
        "{:>6} {:>6} {:>9} {:>12} {:>14} {:>12}\n",
        "from", "to", "contacts", "open (s)", "capacity (B)", "light (s)"
    );
    for (from, to) in pairs {
        let open: f64 =
            plan.between(from, to).map(|contact| (contact.end - contact.start).as_secs_f64()).sum();
        let light = plan.between(from, to).find_map(|contact| contact.light_time);
        let light = light.map_or("-".to_owned(), |light| format!("{:.3}", light.as_secs_f64()));
        let (count, capacity) = (plan.between(from, to).count(), plan.capacity(from, to));
        let _ = writeln!(text, "{from:>6} {to:>6} {count:>9} {open:>12.1} {capacity:>14} {light:>12}");
    }
    let silent = plan.contacts.iter().filter(|contact| contact.light_time.is_none()).count();
    if silent > 0 {
        let _ = writeln!(text, "{silent} contacts have no range: no route uses them");
    }
    text
}

/// Returns the routes of a bundle and its arrival.
pub fn routes(plan: Plan, question: &Question) -> Forecast {
    let graph = Graph::new(plan, Options { candidates: question.routes, margin: 0.0 });
    let now = Time::ZERO + question.at;
    let routes = graph.routes(question.from, question.to, now, &|_| false);
    if routes.is_empty() {
        return Forecast::NoRoute;
    }
    let mut text = format!("{:>12} {:>12} {:>9}  {}\n", "arrival (s)", "ends (s)", "contacts", "route");
    for route in &routes {
        let (arrival, end, count) =
            (route.arrival.as_secs_f64(), route.end.as_secs_f64(), route.contacts.len());
        let _ = writeln!(text, "{arrival:>12.3} {end:>12.3} {count:>9}  {}", path(&graph, route));
    }
    let size = question.size;
    let demand = Demand { size: size.get(), priority: 1, may_fragment: false, expiry: Time::NEVER };
    let Some(choice) = graph.choose(&routes, &demand, &Ledger::new(&graph), now, &|_| 0) else {
        let _ = writeln!(text, "a bundle of {size} fits no route");
        return Forecast::NoFit(text);
    };
    let (arrival, path) = (choice.arrival.as_secs_f64(), path(&graph, &routes[choice.route]));
    let _ = writeln!(text, "a bundle of {size} arrives at {arrival:.3} s by {path}");
    Forecast::Arrival(text)
}

/// Returns the nodes of a route: "1-3-5".
fn path(graph: &Graph, route: &Route) -> String {
    let contacts = &graph.plan().contacts;
    let first = contacts[route.contacts[0]].from;
    let nodes = route.contacts.iter().map(|contact| contacts[*contact].to);
    std::iter::once(first).chain(nodes).map(|node| node.to_string()).collect::<Vec<_>>().join("-")
}
