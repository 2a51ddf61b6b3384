//! Directions of all links with the cost of packets on them.

use bentpipe_net::channel::Config;
use bentpipe_scenario::{Layout, Medium, Problem, Scenario, Side, Way};
use bentpipe_site::{Channel, Cost, Facts};
use bentpipe_units::Span;

/// Directions of all links of a scenario.
pub(super) struct Media<'a> {
    /// Settings.
    pub(super) layout: Layout<'a>,
    /// Rate and delay.
    pub(super) facts: Vec<Facts>,
    costs: Vec<Box<dyn Cost>>,
}

impl<'a> Media<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Result<Media<'a>, Problem> {
        let layout = Layout::new(scenario);
        let facts = layout.facts()?;
        let costs = Medium::costs(&layout.members(), &scenario.shared)?;
        Ok(Media { layout, facts, costs })
    }

    /// Returns the cost of packets on a direction of a link.
    pub(super) fn cost(&self, link: usize, way: Way) -> &dyn Cost {
        &*self.costs[2 * link + way.index()]
    }

    /// Returns the delay of a direction, with the mean that its channel adds.
    pub(super) fn delay(&self, link: usize, way: Way) -> Span {
        self.facts[2 * link + way.index()].delay + self.channel_delay(link, way)
    }

    /// Returns the mean delay that the channel of a direction adds.
    pub(super) fn channel_delay(&self, link: usize, way: Way) -> Span {
        let channel = self.side(link, way).common.channel.as_ref();
        channel.map_or(&[][..], Channel::faults).iter().map(Config::mean_delay).sum()
    }

    /// Returns the settings of a direction of a link.
    pub(super) fn side(&self, link: usize, way: Way) -> &Side {
        self.layout.side(link, way)
    }
}
