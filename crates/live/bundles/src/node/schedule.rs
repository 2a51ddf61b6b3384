//! Contacts of a node, and its routes.

use std::collections::BTreeMap;

use bentpipe_dtn::node::Routing;
use bentpipe_dtn::plan::{Contact, Plan};
use bentpipe_dtn::route::{Graph, Options};
use bentpipe_units::{Rate, Span, Time};
use bentpipe_wire::dtn::bundle::UNIX_OFFSET;

use super::file::{NodeFile, NodeId};
use super::radio::Opening;

/// Contacts of this node by neighbour, in the order of their starts.
pub(super) struct Schedule {
    pub(super) plan: Plan,
    pub(super) contacts: BTreeMap<u64, Vec<Contact>>,
    /// Instants at which contacts begin or end.
    pub(super) changes: Vec<Time>,
    pub(super) done: usize,
    /// Unix time of instant 0.
    start: f64,
}

impl Schedule {
    fn new(plan: Plan, own: u64, start: f64) -> Schedule {
        let mut contacts: BTreeMap<u64, Vec<Contact>> = BTreeMap::new();
        let mut changes = Vec::new();
        for contact in plan.contacts.iter().filter(|contact| contact.from == own) {
            contacts.entry(contact.to).or_default().push(*contact);
            changes.extend([contact.start, contact.end]);
        }
        changes.sort_unstable();
        Schedule { plan, contacts, changes, done: 0, start }
    }

    /// Returns the schedule in place of an older one. A neighbour that has lost its last contact is not reached.
    fn after(mut self, old: &Schedule) -> Schedule {
        old.contacts.keys().for_each(|neighbour| _ = self.contacts.entry(*neighbour).or_default());
        self
    }

    /// Returns the schedule with more lines of a plan, in ION's form.
    ///
    /// # Errors
    /// Returns an error if a line has a mistake or a contact overlaps another one.
    pub(super) fn with_lines(&self, lines: &str, own: u64) -> Result<Schedule, String> {
        let (known, before) = (Plan::parse(lines, self.start), self.plan.to_ion());
        known.map_err(|error| error.to_string())?;
        let plan = Plan::parse(&format!("{before}{lines}"), self.start).map_err(|error| error.problem)?;
        Ok(Schedule::new(plan, own, self.start).after(self))
    }

    /// Returns the schedule without the contacts of a pair at an instant.
    ///
    /// Without an instant all of them go.
    pub(super) fn without(&self, (from, to): (u64, u64), at: Option<Time>, own: u64) -> Schedule {
        let mut plan = self.plan.clone();
        plan.contacts.retain(|contact| {
            let is_then = at.is_none_or(|at| contact.start <= at && at < contact.end);
            (contact.from, contact.to) != (from, to) || !is_then
        });
        Schedule::new(plan, own, self.start).after(self)
    }
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
        let neighbour = file.neighbour(number);
        let rate = neighbour.map_or(Rate::from_bps(10_000_000), |neighbour| neighbour.rate);
        let light_time = neighbour.map_or(Span::ZERO, |neighbour| neighbour.light_time);
        return Some(Opening { end: Time::NEVER, rate, light_time });
    };
    let next = contacts.partition_point(|contact| contact.start <= now);
    let contact = contacts[..next].last().filter(|contact| now < contact.end)?;
    Some(Opening { end: contact.end, rate: contact.rate, light_time: contact.light_time.unwrap_or_default() })
}

/// Reads the contact plan, if there is one.
pub(super) fn schedule(file: &NodeFile, own: u64, epoch: u64) -> Result<Option<Schedule>, String> {
    let Some(path) = &file.plan else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let start = (epoch / 1000 + UNIX_OFFSET) as f64;
    let plan = Plan::parse(&text, start)
        .map_err(|error| format!("{}:{}: {}", path.display(), error.line, error.problem))?;
    Ok(Some(Schedule::new(plan, own, start)))
}

/// Returns the routing by copies, by the contact plan, or by static routes.
pub(super) fn routing(file: &NodeFile, schedule: Option<&Schedule>, own: u64) -> Routing {
    match (file.routing, schedule) {
        (Some(copies), _) => copies.into(),
        (None, Some(schedule)) => {
            Routing::contacts(own, Graph::new(schedule.plan.clone(), Options::default()))
        }
        (None, None) => {
            let number = |to: &str| to.parse().ok().map(|node: NodeId| node.number);
            let routes = file.routes.iter().filter_map(|(to, via)| Some((number(to)?, via.number)));
            let default = file.routes.get("default").map(|via| via.number);
            Routing::Static { routes: routes.collect(), default }
        }
    }
}
