//! Expected sizes of captures.
//!
//! *Models* the packets of all flows at both directions of a captured link, as the budget forecasts them, each with the header
//! of its record. *Does not model* retransmissions behind full queues, handshakes, and messages of signalling.

use std::collections::{BTreeMap, HashMap, HashSet};

use bentpipe_scenario::{Scenario, Traffic, Way, copies};
use bentpipe_site::LineUnits;

use super::capture::CaptureBudget;
use super::medium::Media;
use super::path::Path;
use super::sharing::Crossing;
use super::states::States;
use super::{FlowBudget, flows_on, size};

/// Returns the captures of a scenario.
pub(super) fn all(
    (scenario, media, states): (&Scenario, &Media<'_>, &States),
    (paths, crossings): (&[(usize, Path)], &[Vec<Crossing>]),
    flows: &[FlowBudget],
) -> Vec<CaptureBudget> {
    if scenario.probe.capture.is_empty() {
        return Vec::new();
    }
    let network = Network { scenario, media, states, paths, crossings, flows };
    scenario.probe.capture.iter().flat_map(|point| network.at(point)).collect()
}

/// Forecast of a network's packets.
struct Network<'a> {
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    states: &'a States,
    paths: &'a [(usize, Path)],
    crossings: &'a [Vec<Crossing>],
    /// Budgets of the paths.
    flows: &'a [FlowBudget],
}

/// End of a link at which packets are counted.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Sent,
    Received,
}

impl Network<'_> {
    /// Returns the captures of a point: that of packets, and that of the line's units.
    fn at(&self, point: &str) -> Vec<CaptureBudget> {
        let scenario = self.scenario;
        let Some((node, link)) = point.split_once(':') else { return Vec::new() };
        let number = scenario.link.get_index_of(link);
        // A copy is as what it is a copy of.
        let number = number.or_else(|| scenario.link.get_index_of(copies::link_of(scenario, link)?));
        let Some(number) = number else { return Vec::new() };
        let between = &scenario.link[number].between;
        let is_from = |way: &Way| {
            let from = between[way.index()].as_str();
            from == node || copies::original(scenario, node) == Some(from)
        };
        let Some(sends) = Way::BOTH.into_iter().find(is_from) else { return Vec::new() };
        let receives = Way::BOTH[1 - sends.index()];
        let mut records = BTreeMap::new();
        for (way, end) in [(sends, End::Sent), (receives, End::Received)] {
            for (len, count) in self.packets((number, way), end) {
                let len = self.media.cost(number, way).record_len(len as usize) as u64;
                *records.entry(len).or_insert(0.0) += count;
            }
        }
        let name = point.replace(':', "-");
        let lasts = scenario.duration;
        let packets = CaptureBudget {
            not_forecast: self.not_forecast(number),
            is_most: self.slows_down(number),
            ..CaptureBudget::new(format!("{name}.pcap"), records, lasts)
        };
        let units = self.media.cost(number, sends).line_units(scenario.probe.nulls);
        let units = units.map(|units| CaptureBudget {
            is_most: true,
            ..CaptureBudget::new(
                format!("{name}-{}.pcap", units.suffix),
                BTreeMap::from([(units.record_len, self.units((number, sends), units))]),
                lasts,
            )
        });
        [Some(packets), units].into_iter().flatten().collect()
    }

    /// Returns the packets of each length at an end of a direction of a link.
    fn packets(&self, at: (usize, Way), end: End) -> Vec<(u64, f64)> {
        let mut of_groups: HashMap<usize, (u64, f64)> = HashMap::new();
        let mut all = Vec::new();
        for (((flow, path), crossings), budget) in self.paths.iter().zip(self.crossings).zip(self.flows) {
            let here = crossings.iter().filter(|crossing| crossing.at == at);
            let link = &self.scenario.link[at.0];
            let copies = flows_on(self.scenario, link, *flow) as f64;
            let part = self.part((*flow, path), crossings, budget);
            for crossing in here {
                let count = copies * part * if end == End::Sent { crossing.enter } else { crossing.leave };
                // A packet to a group passes once, however many of its members are behind.
                if self.scenario.group.contains_key(&self.scenario.flow[*flow].to) {
                    let most = of_groups.entry(*flow).or_insert((crossing.len, 0.0));
                    most.1 = most.1.max(count);
                } else {
                    all.push((crossing.len, count));
                }
            }
        }
        all.extend(of_groups.into_values());
        all
    }

    /// Returns the part of a flow's packets that slow start and its size leave.
    fn part(&self, (flow, path): (usize, &Path), crossings: &[Crossing], budget: &FlowBudget) -> f64 {
        let links = path.hops_there().len();
        let Some(last) = crossings.get(links.wrapping_sub(1)) else { return 1.0 };
        let [per_bit, _] = path.per_bit();
        let bits = last.leave / per_bit;
        let seconds: f64 = (0..self.states.len()).map(|state| self.states.seconds_of_copy(state, flow)).sum();
        let of_size = size(&self.scenario.flow[flow]).map(|size| {
            // Copies that never begin have none of it.
            8.0 * size.get() as f64 * self.states.activities.begin(flow)
        });
        let slow = budget.tcp.as_ref().and_then(|tcp| tcp.with_slow_start);
        let slow = slow.map(|rate| rate.as_bps() as f64 * seconds);
        let most = [of_size, slow].into_iter().flatten().fold(bits, f64::min);
        if bits > 0.0 { most / bits } else { 1.0 }
    }

    /// Returns `true` if a flow on a link slows down at losses of its channels.
    fn slows_down(&self, link: usize) -> bool {
        let losses = &self.states.losses;
        self.paths.iter().zip(self.flows).any(|((flow, path), budget)| {
            let ways = path.directions();
            let adapts =
                budget.tcp.is_some() || matches!(self.scenario.flow[*flow].traffic, Traffic::Tfrc(_));
            let is_lossy = |at: &(usize, Way)| losses.unknown.contains_key(at);
            ways.iter().any(|(on, _)| *on == link)
                && adapts
                && (budget.lost > 0.0 || ways.iter().any(is_lossy))
        })
    }

    /// Returns the flows on a link whose packets are not forecast.
    fn not_forecast(&self, link: usize) -> Vec<String> {
        let is_unknown = |(flow, path): &&(usize, Path)| {
            let is_here = path.directions().iter().any(|(on, _)| *on == link);
            is_here && (path.unknown.is_some() || path.is_unsized) && *flow < self.scenario.flow.len()
        };
        let mut seen = HashSet::new();
        let unknown = self.paths.iter().filter(is_unknown).map(|(flow, _)| *flow);
        let unknown = unknown.filter(|flow| seen.insert(*flow));
        unknown.filter_map(|flow| Some(self.scenario.flow.get_index(flow)?.0.clone())).collect()
    }

    /// Returns the greatest number of units of a line.
    fn units(&self, at: (usize, Way), units: LineUnits) -> f64 {
        let cost = self.media.cost(at.0, at.1);
        let rates = self.states.rates(at);
        let mean: f64 = match rates {
            [] => cost.rate().as_bps() as f64,
            rates => rates.iter().map(|held| held.rate.as_bps() as f64 * held.share).sum(),
        };
        let slots = mean * self.scenario.duration.as_secs_f64() / (8 * units.line_len) as f64;
        let shares = |other: (usize, Way)| {
            let other = self.media.cost(other.0, other.1);
            units.is_whole && cost.shared().is_some() && other.shared() == cost.shared()
        };
        let links = (0..self.scenario.link.len()).flat_map(|link| Way::BOTH.map(|way| (link, way)));
        let all = links.filter(|other| *other == at || shares(*other));
        let of_packets = all.flat_map(|at| {
            let cost = self.media.cost(at.0, at.1);
            // A packet alone fills its last unit.
            let units = move |len: u64| cost.wire_len(len as usize).get().div_ceil(units.line_len);
            self.packets(at, End::Sent).into_iter().map(move |(len, count)| count * units(len) as f64)
        });
        let of_packets: f64 = of_packets.sum();
        if units.is_filled && of_packets > 0.0 { slots } else { of_packets.min(slots) }
    }
}
