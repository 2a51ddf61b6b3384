//! Capacity of contact plans, and forecast of the bundles that flows send.
//!
//! A forecast is the best case of a network's routing: the bundle alone, with all contacts of the plan at their rates. Static routes
//! leave one way. Copies of spray and wait pass at most as many nodes as can give some away.

mod hops;
mod limits;

use std::collections::{BTreeSet, HashMap};

use bentpipe_dtn::kind::Bundles;
use bentpipe_dtn::network::{Layer, LtpConfig, Way};
use bentpipe_dtn::plan::{Contact, Plan};
use bentpipe_dtn::route::{Demand, Graph, Ledger, Options};
use bentpipe_record::{ContactPlan, PlannedContact};
use bentpipe_scenario::{Flow, Problem, Role, Scenario, Traffic};
use bentpipe_site::Topology;
use bentpipe_units::{Bytes, Span, Time};
use serde::Serialize;

use super::path::Path;

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

/// Part of a plan that routing leaves.
struct Leeway {
    graph: Graph,
    /// Maximum number of contacts on the way, if there is one.
    hops: Option<usize>,
    /// Time after which TCP gives up opening a connection, if the layer is TCPCL.
    give_up: Option<Span>,
    /// Settings of LTP.
    ltp: Option<LtpConfig>,
    /// Whole plan.
    plan: Plan,
}

/// Bytes of a report of LTP, with headers of UDP and IPv4.
const REPORT_LEN: f64 = 53.0;

/// Bundles of a flow.
struct Offer {
    /// Length of one.
    len: u64,
    /// Number of them, of all copies of the flow.
    count: f64,
    /// Bundles per second.
    rate: f64,
}

impl Offer {
    /// Returns the number of bundles in a block of LTP. While all blocks are in use, bundles wait until one is full.
    fn of_block(&self, ltp: &LtpConfig) -> f64 {
        ltp.aggregate.map_or(1, |aggregate| aggregate.bytes.get().div_ceil(self.len.max(1)).max(1)) as f64
    }
}

/// Returns the time from the first SYN to the end of the last one's timeout.
fn syn_time(initial: Span, most: Span, retries: u32) -> Span {
    let (mut sum, mut wait) = (Span::ZERO, initial);
    for _ in 0..=retries.min(1000) {
        sum += wait;
        wait = (wait * 2).min(most);
    }
    sum
}

/// Contacts of networks, for losses of what is sent in them.
pub(super) struct Open<'s> {
    contacts: Contacts<'s>,
    plans: HashMap<&'s str, Option<Plan>>,
}

impl<'s> Open<'s> {
    pub(super) fn new(scenario: &'s Scenario, topology: &'s Topology) -> Open<'s> {
        let names = topology.node.keys().map(String::as_str).collect();
        Open { contacts: Contacts::new(scenario, names), plans: HashMap::new() }
    }

    /// Returns `true` if contacts are open on all of a way while its flow sends.
    pub(super) fn is_open(&mut self, (flow, path): (&Flow, &Path)) -> bool {
        let Traffic::Bundles(bundles) = &flow.traffic else { return true };
        let Some(network) = self.contacts.network_of(bundles.origin(&flow.from)) else { return false };
        let contacts = &self.contacts;
        let plan = self.plans.entry(network).or_insert_with(|| contacts.plan(network).ok().flatten());
        let Some(plan) = plan else { return false };
        let stops = path.stops.iter().filter_map(|at| path.nodes.get(*at));
        let nodes: Vec<&String> =
            path.nodes.first().into_iter().chain(stops).chain(path.nodes.last()).collect();
        let end = Time::ZERO + flow.stop.unwrap_or(Span::MAX).min(contacts.scenario.duration);
        let is_covered =
            |pair: &[&String]| {
                let Some((from, to)) = contacts.number(pair[0]).zip(contacts.number(pair[1])) else {
                    return false;
                };
                let mut all: Vec<&Contact> = plan.between(from, to).collect();
                all.sort_by_key(|contact| contact.start);
                let begin = Time::ZERO + flow.start;
                let until = all.iter().fold(begin, |until, contact| {
                    if contact.start <= until { until.max(contact.end) } else { until }
                });
                until >= end
            };
        nodes.windows(2).all(is_covered)
    }
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
                && let Some(network) = self.network_of(bundles.origin(&flow.from))
                && let Some(plan) = self.plan(network)?
            {
                let way = self.way(network, flow, bundles, plan);
                forecasts.push(self.forecast(name, flow, bundles, &way));
            }
        }
        Ok(forecasts)
    }

    /// Returns what a network's routing leaves of its plan for a flow.
    fn way(&self, network: &str, flow: &Flow, bundles: &Bundles, plan: Plan) -> Leeway {
        let graph = |plan| Graph::new(plan, Options::default());
        let network = self.scenario.role_tables.dtn.0.get(network);
        let give_up = network.filter(|network| network.layer == Layer::Tcpcl).map(|network| {
            let tcp = network.tcp();
            syn_time(tcp.rto.initial, tcp.rto.max, tcp.syn_retries)
        });
        let ltp = network.filter(|network| network.layer == Layer::Ltp).map(|network| network.ltp);
        let whole = plan.clone();
        match network.map(|network| &network.routing) {
            Some(Way::Static { routes }) => {
                let mut hops = Vec::new();
                let mut at = bundles.origin(&flow.from);
                // A loop ends where it closes; then no contact leads to the destination.
                while at != flow.to && !hops.iter().any(|(from, _)| *from == at) {
                    let table = routes.get(at);
                    let via = table.and_then(|table| table.get(&flow.to).or_else(|| table.get("default")));
                    let Some(via) = via else { break };
                    hops.push((at, via.as_str()));
                    at = via;
                }
                let pairs: Vec<_> =
                    hops.iter().map(|(from, to)| (self.number(from), self.number(to))).collect();
                let is_on = |contact: &Contact| pairs.contains(&(Some(contact.from), Some(contact.to)));
                let contacts = plan.contacts.iter().filter(|contact| is_on(contact)).copied().collect();
                Leeway { graph: graph(Plan { contacts, ..plan }), hops: None, give_up, ltp, plan: whole }
            }
            Some(Way::SprayAndWait { copies, binary }) => {
                let sprayed = if *binary { copies.max(&1).ilog2() } else { (*copies - 1).min(1) };
                Leeway { graph: graph(plan), hops: Some(sprayed as usize + 1), give_up, ltp, plan: whole }
            }
            Some(Way::ContactGraph | Way::Epidemic) | None => {
                Leeway { graph: graph(plan), hops: None, give_up, ltp, plan: whole }
            }
        }
    }

    fn network_of(&self, node: &str) -> Option<&'s str> {
        self.scenario.roles_of(node).iter().find_map(|role| match role {
            Role::Dtn(dtn) => Some(dtn.network.as_str()),
            _ => None,
        })
    }

    fn forecast(&self, name: &str, flow: &Flow, bundles: &Bundles, way: &Leeway) -> BundleForecast {
        let stop = flow.stop.unwrap_or(self.scenario.duration).min(self.scenario.duration);
        let lasts = stop.saturating_sub(flow.start).as_nanos();
        let fit = lasts.div_ceil(bundles.interval.as_nanos().max(1));
        let count = fit.min(bundles.bundles.unwrap_or(u64::MAX));
        let last = flow.start + bundles.interval * count.saturating_sub(1);
        let arrival = |ready| self.arrival(flow, bundles, way, ready);
        let (first, last) = match count {
            0 => (None, None),
            _ => (arrival(flow.start), arrival(last)),
        };
        let offered =
            Bytes::new(bundles.bundle_len().get().saturating_mul(count).saturating_mul(flow.count.into()));
        let mut forecast =
            BundleForecast { flow: name.to_owned(), bundles: count, offered, first, last, warnings: vec![] };
        let copies = f64::from(flow.count);
        let offer = Offer {
            len: bundles.bundle_len().get(),
            count: copies * count as f64,
            rate: copies / bundles.interval.as_secs_f64().max(1e-9),
        };
        forecast.warnings = self.warnings(&forecast, way, &offer);
        forecast
    }

    /// Returns the best case of a bundle that is ready at a time.
    fn arrival(&self, flow: &Flow, bundles: &Bundles, way: &Leeway, ready: Span) -> Option<Arrival> {
        let origin = bundles.origin(&flow.from);
        let (from, to) = (self.number(origin)?, self.number(&flow.to)?);
        let (graph, now) = (&way.graph, Time::ZERO + ready);
        let expiry = now + bundles.lifetime;
        let size = bundles.bundle_len().get();
        let (contacts, at) = match way.hops {
            Some(most) => hops::earliest(&graph.plan().contacts, (from, to), (now, Bytes::new(size)), most)
                .filter(|(_, at)| *at <= expiry)?,
            None => {
                let routes = graph.routes(from, to, now, &|_| false);
                let mut ledger = Ledger::new(graph);
                let demand = Demand { size, priority: bundles.priority.into(), may_fragment: false, expiry };
                let (first, arrival) = match graph.choose(&routes, &demand, &ledger, now, &|_| 0) {
                    Some(choice) => (choice.route, choice.arrival),
                    None => {
                        let whole = (&Demand { may_fragment: true, ..demand }, size - bundles.payload.get());
                        let parts = graph.parts(&routes, whole, &mut ledger, now, &|_| 0)?;
                        let last = parts.iter().map(|part| part.choice.arrival).max()?;
                        (parts[0].choice.route, last)
                    }
                };
                (routes[first].contacts.clone(), arrival)
            }
        };
        let nodes = contacts.iter().map(|contact| self.name(graph.plan().contacts[*contact].to));
        let path = std::iter::once(origin.to_owned()).chain(nodes).collect();
        Some(Arrival { ready, at: at.since(Time::ZERO), path })
    }

    /// Returns what is wrong with a forecast.
    fn warnings(&self, forecast: &BundleForecast, way: &Leeway, offer: &Offer) -> Vec<String> {
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
            let plan = way.graph.plan();
            let capacity = ends.map_or(0, |(from, to)| plan.capacity(from, to));
            let light =
                ends.and_then(|(from, to)| plan.between(from, to).find_map(|contact| contact.light_time));
            if let (Some(give_up), Some(light)) = (way.give_up, light)
                && light * 2 >= give_up
            {
                let to = &hop[1];
                warnings.push(format!(
                    "TCP gives up after {give_up}, and an answer from {to} takes {}: expected more `syn_retries` or \
                     a longer `rto` in the network's `tcp`",
                    light * 2
                ));
            }
            if let (Some(ltp), Some(light)) = (&way.ltp, light)
                && let Some(sessions) = ltp.sessions
                && let least = offer.rate / offer.of_block(ltp) * (light * 2 + ltp.margin).as_secs_f64()
                && f64::from(sessions) < least
            {
                let (to, least) = (&hop[1], least.ceil());
                warnings.push(format!(
                    "{sessions} blocks of LTP at a time are fewer than a round trip to {to} has: expected \
                     `ltp.sessions` of {least} or more in the network"
                ));
            }
            if let (Some(ltp), Some((from, to))) = (&way.ltp, ends)
                && let (reports, back) =
                    (offer.count / offer.of_block(ltp) * REPORT_LEN, way.plan.capacity(to, from))
                && reports > back as f64
            {
                let (reports, back) = (Bytes::new(reports as u64), Bytes::new(back));
                warnings.push(format!(
                    "reports of LTP take {reports}, and contacts from {} to {} carry {back}: expected blocks of more \
                     bundles, by `ltp.aggregate` in the network",
                    hop[1], hop[0]
                ));
            }
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
