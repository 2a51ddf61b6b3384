//! Contacts of a node, and its routes.

use std::collections::BTreeMap;

use bentpipe_dtn::node::Routing;
use bentpipe_dtn::plan::{Contact, Plan};
use bentpipe_dtn::route::{Graph, Options};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::dtn::bundle::UNIX_OFFSET;

use super::file::NodeFile;
use super::radio::Opening;

/// Contacts of this node by neighbour, in the order of their starts.
pub(super) struct Schedule {
    pub(super) contacts: BTreeMap<u64, Vec<Contact>>,
    /// Instants at which contacts begin or end.
    pub(super) changes: Vec<Time>,
    pub(super) done: usize,
}

/// Returns the contact with a neighbour at an instant. Neighbours without any in the plan are always open.
pub(super) fn opening(
    schedule: &Option<Schedule>,
    file: &NodeFile,
    number: u64,
    now: Time,
) -> Option<Opening> {
    let contacts = schedule.as_ref().and_then(|schedule| schedule.contacts.get(&number));
    let Some(contacts) = contacts else {
        let neighbour = file.neighbour.iter().find(|neighbour| neighbour.node == number);
        let rate = neighbour.map_or(Rate::from_bps(10_000_000), |neighbour| neighbour.rate);
        let light_time = neighbour.map_or(Span::ZERO, |neighbour| neighbour.light_time);
        return Some(Opening { end: Time::NEVER, rate, light_time });
    };
    let next = contacts.partition_point(|contact| contact.start <= now);
    let contact = contacts[..next].last().filter(|contact| now < contact.end)?;
    Some(Opening { end: contact.end, rate: contact.rate, light_time: contact.light_time.unwrap_or_default() })
}

/// Reads the contact plan, or the static routes.
pub(super) fn routing(file: &NodeFile, own: u64, epoch: u64) -> Result<(Routing, Option<Schedule>), String> {
    let Some(path) = &file.plan else {
        if let Some(copies) = file.routing {
            return Ok((copies.into(), None));
        }
        let routes = file.routes.iter().filter_map(|(to, via)| Some((to.parse().ok()?, *via))).collect();
        return Ok((Routing::Static { routes, default: file.routes.get("default").copied() }, None));
    };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let start = (epoch / 1000 + UNIX_OFFSET) as f64;
    let plan = Plan::parse(&text, start)
        .map_err(|error| format!("{}:{}: {}", path.display(), error.line, error.problem))?;
    let mut contacts: BTreeMap<u64, Vec<Contact>> = BTreeMap::new();
    let mut changes = Vec::new();
    for contact in &plan.contacts {
        if contact.from == own {
            contacts.entry(contact.to).or_default().push(*contact);
            changes.extend([contact.start, contact.end]);
        }
    }
    changes.sort_unstable();
    let routing = match file.routing {
        Some(copies) => copies.into(),
        None => Routing::contacts(own, Graph::new(plan, Options::default())),
    };
    Ok((routing, Some(Schedule { contacts, changes, done: 0 })))
}
