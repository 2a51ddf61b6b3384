//! Capacity of contact plans, and forecast of the bundles that flows send.
//!
//! A forecast is the best case of contact graph routing: the bundle alone, with all contacts of the plan at their rates.

use std::collections::BTreeSet;

use bentpipe_dtn::kind::Bundles;
use bentpipe_dtn::network::Way;
use bentpipe_dtn::plan::{Contact, Plan};
use bentpipe_dtn::route::{Demand, Graph, Ledger, Options};
use bentpipe_record::{ContactPlan, PlannedContact};
use bentpipe_scenario::{Flow, Problem, Role, Scenario, Traffic};
use bentpipe_units::{Bytes, Span, Time};
use serde::Serialize;

/// Contacts from a node to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ContactBudget {
    /// Network of bundles.
    pub network: String,
    /// Node that sends.
    pub from: String,
    /// Node that receives.
    pub to: String,
    /// Number of contacts.
    pub contacts: usize,
    /// Sum of their lengths.
    pub open: Span,
    /// Bytes that they carry in all.
    pub capacity: Bytes,
    /// Light time of the first contact that has one. A contact without it is never used.
    pub light_time: Option<Span>,
}

/// Forecast of a flow of bundles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BundleForecast {
    /// The flow; copies share one.
    pub flow: String,
    /// Number of bundles.
    pub bundles: u64,
    /// Length of all of them with headers.
    pub offered: Bytes,
    /// First bundle.
    pub first: Option<Arrival>,
    /// Last bundle.
    pub last: Option<Arrival>,
    /// Warnings, in sentences.
    pub warnings: Vec<String>,
}

/// Best-case way of a bundle.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrival {
    /// Time at which it is ready, from the start of the run.
    pub ready: Span,
    /// Arrival of its last byte, from the start of the run.
    pub at: Span,
    /// Nodes on the way.
    pub path: Vec<String>,
}

/// Plans of a scenario's networks.
///
/// Nodes are numbered from 1 in the order of `names`.
pub(super) struct Contacts<'s> {
    scenario: &'s Scenario,
    names: Vec<&'s str>,
}

impl<'s> Contacts<'s> {
    pub(super) fn new(scenario: &'s Scenario, names: Vec<&'s str>) -> Contacts<'s> {
        Contacts { scenario, names }
    }

    fn number(&self, node: &str) -> Option<u64> {
        self.names.iter().position(|name| *name == node).map(|n| n as u64 + 1)
    }

    fn name(&self, number: u64) -> String {
        let name = usize::try_from(number).ok().and_then(|n| self.names.get(n.checked_sub(1)?));
        name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
    }

    fn plan(&self, network: &str) -> Result<Option<Plan>, Problem> {
        let found = self.scenario.role_tables.dtn.0.get(network);
        found.map(|found| found.plan(network, &|node| self.number(node))).transpose()
    }

    /// Returns the contacts of all pairs of nodes, by network.
    ///
    /// # Errors
    /// Returns an error if a plan cannot be read.
    pub(super) fn pairs(&self) -> Result<Vec<ContactBudget>, Problem> {
        let mut rows = Vec::new();
        for network in self.scenario.role_tables.dtn.0.keys() {
            let Some(plan) = self.plan(network)? else { continue };
            let pairs: BTreeSet<(u64, u64)> =
                plan.contacts.iter().map(|contact| (contact.from, contact.to)).collect();
            rows.extend(pairs.into_iter().map(|pair| self.pair(network, &plan, pair)));
        }
        Ok(rows)
    }

    /// Returns the plans of all networks with names of nodes.
    ///
    /// # Errors
    /// Returns an error if a plan cannot be read.
    pub(super) fn named(&self) -> Result<Vec<ContactPlan>, Problem> {
        let mut plans = Vec::new();
        for network in self.scenario.role_tables.dtn.0.keys() {
            let Some(plan) = self.plan(network)? else { continue };
            let contacts = plan.contacts.iter().map(|contact| self.named_contact(contact)).collect();
            plans.push(ContactPlan { name: network.clone(), contacts });
        }
        Ok(plans)
    }

    fn named_contact(&self, contact: &Contact) -> PlannedContact {
        PlannedContact {
            from: self.name(contact.from),
            to: self.name(contact.to),
            start_s: contact.start.as_secs_f64(),
            end_s: contact.end.as_secs_f64(),
            bps: contact.rate.as_bps() as f64,
            light_s: contact.light_time.map(Span::as_secs_f64),
        }
    }

    fn pair(&self, network: &str, plan: &Plan, (from, to): (u64, u64)) -> ContactBudget {
        ContactBudget {
            network: network.to_owned(),
            from: self.name(from),
            to: self.name(to),
            contacts: plan.between(from, to).count(),
            open: plan.between(from, to).map(|contact| contact.end - contact.start).sum(),
            capacity: Bytes::new(plan.capacity(from, to)),
            light_time: plan.between(from, to).find_map(|contact| contact.light_time),
        }
    }

    /// Returns the forecasts of all flows of bundles.
    ///
    /// # Errors
    /// Returns an error if a plan cannot be read.
    pub(super) fn forecasts(&self) -> Result<Vec<BundleForecast>, Problem> {
        let mut forecasts = Vec::new();
        for (name, flow) in &self.scenario.flow {
            if let Traffic::Bundles(bundles) = &flow.traffic
                && let Some(network) = self.network_of(&flow.from)
                && self.has_forecast(network)
                && let Some(plan) = self.plan(network)?
            {
                let graph = Graph::new(plan, Options::default());
                forecasts.push(self.forecast(name, flow, bundles, &graph));
            }
        }
        Ok(forecasts)
    }

    /// Returns `true` if bundles may go by the best contacts.
    ///
    /// Static routes and few copies do not.
    fn has_forecast(&self, network: &str) -> bool {
        let network = self.scenario.role_tables.dtn.0.get(network);
        network.is_some_and(|network| matches!(network.routing, Way::ContactGraph | Way::Epidemic))
    }

    fn network_of(&self, node: &str) -> Option<&'s str> {
        self.scenario.roles_of(node).iter().find_map(|role| match role {
            Role::Dtn(dtn) => Some(dtn.network.as_str()),
            _ => None,
        })
    }

    fn forecast(&self, name: &str, flow: &Flow, bundles: &Bundles, graph: &Graph) -> BundleForecast {
        let stop = flow.stop.unwrap_or(self.scenario.duration).min(self.scenario.duration);
        let lasts = stop.saturating_sub(flow.start).as_nanos();
        let fit = lasts.div_ceil(bundles.interval.as_nanos().max(1));
        let count = fit.min(bundles.bundles.unwrap_or(u64::MAX));
        let last = flow.start + bundles.interval * count.saturating_sub(1);
        let arrival = |ready| self.arrival(flow, bundles, graph, ready);
        let (first, last) = match count {
            0 => (None, None),
            _ => (arrival(flow.start), arrival(last)),
        };
        let offered =
            Bytes::new(bundles.bundle_len().get().saturating_mul(count).saturating_mul(flow.count.into()));
        let mut forecast =
            BundleForecast { flow: name.to_owned(), bundles: count, offered, first, last, warnings: vec![] };
        forecast.warnings = self.warnings(&forecast, graph);
        forecast
    }

    /// Returns the best case of a bundle that is ready at a time.
    fn arrival(&self, flow: &Flow, bundles: &Bundles, graph: &Graph, ready: Span) -> Option<Arrival> {
        let (from, to) = (self.number(&flow.from)?, self.number(&flow.to)?);
        let now = Time::ZERO + ready;
        let routes = graph.routes(from, to, now, &|_| false);
        let expiry = now + bundles.lifetime;
        let size = bundles.bundle_len().get();
        let demand = Demand { size, priority: bundles.priority.into(), may_fragment: false, expiry };
        let choice = graph.choose(&routes, &demand, &Ledger::new(graph), now, &|_| 0)?;
        let contacts = &routes[choice.route].contacts;
        let nodes = contacts.iter().map(|contact| self.name(graph.plan().contacts[*contact].to));
        let path = std::iter::once(flow.from.clone()).chain(nodes).collect();
        Some(Arrival { ready, at: choice.arrival.since(Time::ZERO), path })
    }

    fn warnings(&self, forecast: &BundleForecast, graph: &Graph) -> Vec<String> {
        let mut warnings = Vec::new();
        let duration = self.scenario.duration;
        for (which, arrival) in [("first", &forecast.first), ("last", &forecast.last)] {
            match arrival {
                None if forecast.bundles > 0 => {
                    warnings.push(format!("no route takes the {which} bundle within its lifetime"));
                }
                Some(arrival) if arrival.at > duration => {
                    warnings.push(format!("the run ends before the {which} bundle arrives"));
                }
                _ => {}
            }
        }
        let hops = forecast.first.iter().flat_map(|arrival| arrival.path.windows(2));
        for hop in hops {
            let ends = self.number(&hop[0]).zip(self.number(&hop[1]));
            let capacity = ends.map_or(0, |(from, to)| graph.plan().capacity(from, to));
            if forecast.offered.get() > capacity {
                let [from, to] = [&hop[0], &hop[1]];
                let capacity = Bytes::new(capacity);
                warnings.push(format!(
                    "offers {}, contacts from {from} to {to} carry {capacity}",
                    forecast.offered
                ));
            }
        }
        warnings
    }
}
