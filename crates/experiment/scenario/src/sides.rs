//! Directions of links, with the values that both directions share.

use bentpipe_site::{Common, Facts, LinkAt, Member, NodeAt, Place, Problem, Topology, Way, line};
use bentpipe_units::Bytes;

use super::copies;
use super::elements::Framing;
use super::media::Medium;
use super::schema::{Direction, Link, NodeKind, Scenario};
use super::stages::Stages;

/// Direction of a link with the values of the link filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// Medium; a line where the file gives none.
    pub medium: Medium,
    /// Settings of a line.
    pub line: line::Kind,
    /// Settings that do not depend on the medium.
    pub common: Common,
    /// Stages in front of the medium.
    pub stages: Stages,
    /// Keys as written.
    pub place: Place,
}

impl Link {
    /// Returns the settings of a direction itself.
    pub fn own(&self, way: Way) -> &Direction {
        match way {
            Way::Forward => &self.forward,
            Way::Return => &self.reverse,
        }
    }

    /// Returns the settings of a direction itself, to be changed.
    pub fn own_mut(&mut self, way: Way) -> &mut Direction {
        match way {
            Way::Forward => &mut self.forward,
            Way::Return => &mut self.reverse,
        }
    }

    /// Returns the media that the file gives: of the link and of its directions.
    pub fn media_mut(&mut self) -> impl Iterator<Item = &mut Medium> {
        let Link { medium, forward, reverse, .. } = self;
        [medium, &mut forward.medium, &mut reverse.medium].into_iter().flatten()
    }

    /// Returns a direction with the values of the link filled in.
    pub fn side(&self, name: &str, way: Way) -> Side {
        let own = self.own(way);
        let line = self.line(own);
        let medium = own.medium.as_ref().or(self.medium.as_ref());
        let medium = match medium {
            Some(Medium::Line(kind)) => Medium::Line(or_else(kind, &line)),
            Some(medium) => medium.clone(),
            None => Medium::Line(line.clone()),
        };
        let stages = own.stages.or(&self.stages);
        let common = Common {
            delay: own.delay.or(self.delay).unwrap_or_default(),
            queue: own.queue.as_ref().or(self.queue.as_ref()).cloned(),
            channel: own.channel.clone().or_else(|| self.channel.clone()),
            quick_start: stages.quick_start,
            mtu: self.mtu.unwrap_or_else(|| medium.mtu()),
        };
        let place = Place::new(name, way, own.keys(), self.shared().keys());
        Side { medium, line, common, stages, place }
    }

    fn line(&self, own: &Direction) -> line::Kind {
        line::Kind {
            rate: own.rate.or(self.rate),
            framing: Some(self.framing).filter(|framing| *framing != Framing::None),
            delay_changes: own.delay_changes.clone().or_else(|| self.delay_changes.clone()),
        }
    }

    /// Returns the settings of the link for both directions.
    fn shared(&self) -> Direction {
        Direction {
            rate: self.rate,
            delay: self.delay,
            delay_changes: self.delay_changes.clone(),
            queue: self.queue.clone(),
            channel: self.channel.clone(),
            stages: self.stages.clone(),
            medium: self.medium.clone(),
        }
    }
}

/// Returns a line with the keys that it does not say itself from the link.
fn or_else(kind: &line::Kind, link: &line::Kind) -> line::Kind {
    line::Kind {
        rate: kind.rate.or(link.rate),
        framing: kind.framing.or(link.framing),
        delay_changes: kind.delay_changes.clone().or_else(|| link.delay_changes.clone()),
    }
}

impl Scenario {
    /// Returns a direction of a link by the link's number, with its settings.
    pub fn member<'s>(&'s self, link: usize, way: Way, side: &'s Side) -> Member<'s, Medium> {
        let (name, Link { between, .. }) = self.link.get_index(link).expect("a link of the scenario");
        let (from, to) = (&between[way.index()], &between[way.back().index()]);
        let node = self.node.get(from);
        Member {
            link,
            name,
            way,
            from,
            to,
            from_router: node.is_some_and(|node| node.kind != NodeKind::Host),
            copies: copies::copies(self, [from, to]),
            common: &side.common,
            line: &side.line,
            place: &side.place,
            medium: &side.medium,
        }
    }
}

impl Direction {
    /// Returns the keys that are given.
    fn keys(&self) -> Vec<&'static str> {
        let Direction { rate, delay, delay_changes, queue, channel, stages, medium } = self;
        let given = [
            ("rate", rate.is_some()),
            ("delay", delay.is_some()),
            ("delay_changes", delay_changes.is_some()),
            ("queue", queue.is_some()),
            ("channel", channel.is_some()),
            ("medium", medium.is_some()),
        ];
        let of_stages = stages.by_row().into_iter().map(|(row, stage)| (row.key, stage.is_some()));
        given.into_iter().chain(of_stages).filter(|(_, is_given)| *is_given).map(|(key, _)| key).collect()
    }
}

/// Directions of all links of a scenario, with the values of their links filled in.
#[derive(Debug)]
pub struct Layout<'a> {
    scenario: &'a Scenario,
    sides: Vec<[Side; 2]>,
}

impl<'a> Layout<'a> {
    /// Creates the layout of a scenario.
    pub fn new(scenario: &'a Scenario) -> Layout<'a> {
        let sides = scenario.link.iter().map(|(name, link)| Way::BOTH.map(|way| link.side(name, way)));
        Layout { scenario, sides: sides.collect() }
    }

    /// Creates the layout of a scenario from the directions of its links.
    pub(crate) fn of(scenario: &'a Scenario, sides: Vec<[Side; 2]>) -> Layout<'a> {
        Layout { scenario, sides }
    }

    /// Returns the directions of all links.
    pub(crate) fn into_sides(self) -> Vec<[Side; 2]> {
        self.sides
    }

    /// Returns the scenario.
    pub(crate) fn scenario(&self) -> &'a Scenario {
        self.scenario
    }

    /// Returns both directions of a link.
    pub(crate) fn pair(&self, link: usize) -> &[Side; 2] {
        &self.sides[link]
    }

    /// Returns a direction of a link.
    pub fn side(&self, link: usize, way: Way) -> &Side {
        &self.sides[link][way.index()]
    }

    /// Returns all directions: of each link forward and return, in the order of the file.
    pub fn sides(&self) -> impl Iterator<Item = &Side> {
        self.sides.iter().flatten()
    }

    /// Returns the longest IP packet on a link.
    pub fn mtu(&self, link: usize) -> Bytes {
        let [forward, back] = &self.sides[link];
        forward.common.mtu.max(back.common.mtu)
    }

    /// Returns all directions: of each link forward and return, in the order of the file.
    pub fn members(&self) -> Vec<Member<'_, Medium>> {
        self.members_of(0..self.sides.len())
    }

    /// Returns the directions of some links, by their numbers.
    pub(crate) fn members_of(&self, links: impl IntoIterator<Item = usize>) -> Vec<Member<'_, Medium>> {
        let both = |n: usize| Way::BOTH.map(|way| self.scenario.member(n, way, &self.sides[n][way.index()]));
        links.into_iter().flat_map(both).collect()
    }

    /// Returns rate and delay of all directions, in the order of [`Layout::members`].
    ///
    /// # Errors
    /// Returns an error if a medium has none.
    pub fn facts(&self) -> Result<Vec<Facts>, Problem> {
        Medium::facts(&self.members(), &self.scenario.shared)
    }

    /// Returns the graph of nodes, links and tunnels.
    pub fn topology(&self, facts: &[Facts]) -> Topology {
        let node = self.scenario.node.iter().map(|(name, node)| {
            let forwards = node.kind != NodeKind::Host;
            (name.clone(), NodeAt { forwards, addresses: node.address.clone() })
        });
        let link = self.scenario.link.iter().enumerate().map(|(n, (name, link))| {
            // Routes are those of the other copies, if one of them has settings of its own.
            let original = copies::link_of(self.scenario, name);
            let n_of_delay = original.and_then(|link| self.scenario.link.get_index_of(link)).unwrap_or(n);
            let delay = [facts[2 * n_of_delay].delay, facts[2 * n_of_delay + 1].delay];
            let original = |end: &String| copies::original(self.scenario, end).unwrap_or(end).to_owned();
            let (between, ip_versions) = (link.between.each_ref().map(original), link.ip_versions);
            let passage = Way::BOTH.map(|way| self.sides[n][way.index()].medium.passage(way));
            (name.clone(), LinkAt { between, ip_versions, mtu: self.mtu(n), delay, passage })
        });
        let tunnel = self.scenario.tunnel.iter().map(|(name, tunnel)| (name.clone(), tunnel.between.clone()));
        Topology { node: node.collect(), link: link.collect(), tunnel: tunnel.collect() }
    }
}
