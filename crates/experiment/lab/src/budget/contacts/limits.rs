//! Most goodput of a flow of bundles that the contacts of its plan allow.
//!
//! All bundles pass the contacts from their origin, those to their destination, and those from a node to another that every way passes. Models the
//! rates of contacts, by which datagrams and segments of LTP leave. TCPCL and DCCP leave as their lines allow: their flows have no such limit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bentpipe_dtn::kind::Bundles;
use bentpipe_dtn::network::Layer;
use bentpipe_dtn::plan::{Contact, Plan};
use bentpipe_scenario::{Flow, Problem, Traffic};
use bentpipe_units::{Rate, Span, Time};

use super::super::FlowBudget;
use super::Contacts;

/// Pairs of nodes with contacts from the first to the second.
type Pairs = BTreeSet<(u64, u64)>;

/// Contacts that all bundles of a flow pass.
struct Cut<'p> {
    contacts: Vec<&'p Contact>,
    /// Set if they are the last ones on the way. Bundles do not wait behind them.
    is_last: bool,
    /// Ends, for readers.
    name: String,
}

impl Contacts<'_> {
    /// Lowers the most goodput of flows to what contacts carry.
    ///
    /// # Errors
    /// Returns an error if a plan cannot be read.
    pub(in crate::budget) fn limit(&self, flows: &mut [FlowBudget]) -> Result<(), Problem> {
        let mut limits: BTreeMap<String, Option<(Rate, String)>> = BTreeMap::new();
        for budget in flows.iter_mut().filter(|budget| budget.blocked.is_none()) {
            let limit = match limits.get(&budget.name) {
                Some(known) => known.clone(),
                None => {
                    let flow = self.scenario.flow.get(&budget.name);
                    let limit = flow.map_or(Ok(None), |flow| self.limit_of(flow))?;
                    limits.insert(budget.name.clone(), limit.clone());
                    limit
                }
            };
            if let Some((rate, ends)) = limit.filter(|(rate, _)| *rate < budget.ceiling) {
                (budget.ceiling, budget.bottleneck) = (rate, ends);
                budget.fair_share = budget.fair_share.min(rate);
            }
        }
        Ok(())
    }

    /// Returns the most goodput of a flow, and the contacts that limit it.
    fn limit_of(&self, flow: &Flow) -> Result<Option<(Rate, String)>, Problem> {
        let Traffic::Bundles(bundles) = &flow.traffic else { return Ok(None) };
        let origin = bundles.origin(&flow.from);
        let Some(network) = self.network_of(origin) else { return Ok(None) };
        let layer = self.scenario.role_tables.dtn.0.get(network).map(|network| network.layer);
        let is_paced = matches!(layer, Some(Layer::Udp | Layer::Ltp | Layer::LtpGreen));
        let Some(plan) = self.plan(network)?.filter(|_| is_paced && is_one_start(flow)) else {
            return Ok(None);
        };
        let Some(ends) = self.number(origin).zip(self.number(&flow.to)) else { return Ok(None) };
        let way = self.way(network, flow, bundles, plan);
        let cuts = self.cuts(way.graph.plan(), ends);
        let limits = cuts.iter().map(|cut| (self.most(flow, bundles, cut), &cut.name));
        let least = limits.min_by_key(|(rate, _)| *rate);
        Ok(least.map(|(rate, name)| (rate, name.clone())))
    }

    /// Returns the contacts that all bundles from a node to another pass.
    fn cuts<'p>(&self, plan: &'p Plan, (from, to): (u64, u64)) -> Vec<Cut<'p>> {
        // One without a light time is never used.
        let usable: Vec<&Contact> =
            plan.contacts.iter().filter(|contact| contact.light_time.is_some()).collect();
        let pairs: Pairs = usable.iter().map(|contact| (contact.from, contact.to)).collect();
        let of = |is_meant: &dyn Fn(&Contact) -> bool| -> Vec<&'p Contact> {
            usable.iter().copied().filter(|contact| is_meant(contact)).collect()
        };
        let mut cuts = vec![
            Cut {
                contacts: of(&|contact| contact.from == from),
                is_last: false,
                name: format!("contacts from {}", self.name(from)),
            },
            Cut {
                contacts: of(&|contact| contact.to == to),
                is_last: true,
                name: format!("contacts to {}", self.name(to)),
            },
        ];
        for (one, other) in bridges(&pairs, (from, to)) {
            cuts.push(Cut {
                contacts: of(&|contact| (contact.from, contact.to) == (one, other)),
                is_last: other == to,
                name: format!("contacts from {} to {}", self.name(one), self.name(other)),
            });
        }
        // Of two names for the same contacts, that with both ends comes first.
        cuts.reverse();
        cuts
    }

    /// Returns the most goodput that contacts leave a flow, over its time.
    ///
    /// A flow that ends has its time up to the last arrival, at any instant behind its stop.
    fn most(&self, flow: &Flow, bundles: &Bundles, cut: &Cut<'_>) -> Rate {
        let (end, warm_up) = (self.scenario.duration, self.scenario.probe.warm_up);
        let begin = flow.start.max(warm_up);
        let last = bundles.bundles.map(|count| flow.start + bundles.interval * count.saturating_sub(1));
        let stop = flow.stop.into_iter().chain(last).min().filter(|stop| *stop < end);
        let mut ends = BTreeSet::from([end]);
        if let Some(stop) = stop {
            let over = cut.contacts.iter().map(|contact| contact.end.since(Time::ZERO));
            ends.extend(over.chain([stop]).filter(|at| (stop.max(begin)..end).contains(at)));
        }
        let rate = |until: Span| {
            let bits = 8.0 * bundles.payload.get() as f64 * self.carried(flow, bundles, cut, until);
            bits / until.saturating_sub(begin).as_secs_f64().max(1e-9)
        };
        Rate::from_bps(ends.into_iter().map(rate).fold(0.0, f64::max).ceil() as u64)
    }

    /// Returns the most bundles that contacts carry for a flow until an instant.
    fn carried(&self, flow: &Flow, bundles: &Bundles, cut: &Cut<'_>, until: Span) -> f64 {
        let begin = flow.start.max(self.scenario.probe.warm_up);
        let len = bundles.bundle_len().get().max(1) as f64;
        let of = |contact: &&Contact| {
            let light_time = contact.light_time.unwrap_or_default();
            // What the warm-up has brought to a node on the way may arrive behind it.
            let first = if cut.is_last { begin.saturating_sub(light_time) } else { flow.start };
            let [from, to] = [contact.start, contact.end].map(|at| at.since(Time::ZERO));
            let open = to.min(until).saturating_sub(from.max(first));
            // The last one that begins in it goes on behind its end.
            let more = if open.is_zero() { 0.0 } else { 1.0 };
            open.as_secs_f64() * contact.rate.as_bytes_per_sec() / len + more
        };
        cut.contacts.iter().map(of).sum()
    }
}

/// Returns `true` if all copies of a flow start at one instant, on every node.
fn is_one_start(flow: &Flow) -> bool {
    flow.starts_together() && flow.node_stagger.is_zero()
}

/// Returns the pairs of nodes without which no way leads from a node to another.
fn bridges(pairs: &Pairs, (from, to): (u64, u64)) -> Vec<(u64, u64)> {
    let way = way(pairs, (from, to), None).unwrap_or_default();
    let is_needed = |pair: &(u64, u64)| self::way(pairs, (from, to), Some(*pair)).is_none();
    way.into_iter().filter(is_needed).collect()
}

/// Returns the pairs on a shortest way, but for one.
fn way(pairs: &Pairs, (from, to): (u64, u64), without: Option<(u64, u64)>) -> Option<Vec<(u64, u64)>> {
    let (mut before, mut next) = (BTreeMap::from([(from, from)]), VecDeque::from([from]));
    while let Some(at) = next.pop_front().filter(|at| *at != to) {
        for (_, other) in pairs.range((at, 0)..=(at, u64::MAX)) {
            if Some((at, *other)) != without && !before.contains_key(other) {
                before.insert(*other, at);
                next.push_back(*other);
            }
        }
    }
    before.get(&to)?;
    let (mut hops, mut at) = (Vec::new(), to);
    while at != from {
        hops.push((before[&at], at));
        at = before[&at];
    }
    Some(hops)
}
