//! Delays that packets of a flow may have if none arrived.

use std::collections::HashMap;

use bentpipe_net::Histogram;
use bentpipe_net::metric::Metric;
use bentpipe_record::Totals;
use bentpipe_scenario::Scenario;
use bentpipe_transport::app::metrics::DELAYS;
use bentpipe_transport::ping::metrics::RTTS;
use bentpipe_units::Span;

use super::subjects::find;
use crate::budget;

/// Delays of empty paths and of other flows.
pub(super) struct Unloaded {
    /// Delays of empty paths by flow.
    of_flows: HashMap<String, Span>,
    /// Longest delay of any packet.
    longest: Span,
}

impl Unloaded {
    /// Returns the delays of a scenario whose run ended with these totals.
    pub(super) fn of(scenario: &Scenario, end: &Totals) -> Unloaded {
        let longest = longest(&end.histograms).unwrap_or_default();
        Unloaded { of_flows: empty_paths(scenario), longest }
    }

    /// Returns the delay of the flow's empty path, or any packet's longest delay.
    pub(super) fn delay(&self, scenario: &Scenario, path: &str) -> Span {
        let empty = find(scenario, path).and_then(|(name, ..)| self.of_flows.get(name)).copied();
        empty.unwrap_or_default().max(self.longest)
    }
}

/// Returns the longest one-way delay in distributions.
pub(super) fn longest(histograms: &[(u32, &'static Metric, Histogram)]) -> Option<Span> {
    longest_of(histograms, &DELAYS)
}

/// Returns the longest round trip of echo requests in distributions.
pub(super) fn longest_round_trip(histograms: &[(u32, &'static Metric, Histogram)]) -> Option<Span> {
    longest_of(histograms, &RTTS)
}

fn longest_of(histograms: &[(u32, &'static Metric, Histogram)], of: &Metric) -> Option<Span> {
    let found = histograms.iter().filter(|(_, metric, _)| metric.name == of.name);
    found.filter_map(|(.., values)| Some(values.range()?.1)).max()
}

/// Returns the delays of empty paths by flow, the longest of each.
pub(crate) fn empty_paths(scenario: &Scenario) -> HashMap<String, Span> {
    let mut delays: HashMap<String, Span> = HashMap::new();
    for (flow, one_way) in budget::one_ways(scenario).unwrap_or_default() {
        let delay = delays.entry(flow.to_owned()).or_default();
        *delay = one_way.max(*delay);
    }
    delays
}
