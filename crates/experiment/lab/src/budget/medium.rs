//! Directions of all links with the cost of packets on them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use bentpipe_net::channel::{Config, JitterTable};
use bentpipe_net::queue::ClassesConfig;
use bentpipe_scenario::{Access, Layout, Medium, NodeRoles, Problem, Queue, Role, Scenario, Side, Way};
use bentpipe_site::{Channel, Cost, Facts, Limit, jitter_table, stage};
use bentpipe_units::Span;

use super::ceilings::Ceilings;
use super::moments;

/// Directions of all links of a scenario.
pub(super) struct Media<'a> {
    /// Settings.
    pub(super) layout: Layout<'a>,
    /// Rate and delay.
    pub(super) facts: Vec<Facts>,
    costs: Costs,
    /// Tables of delays that channels have in files.
    tables: Rc<Tables>,
    /// Mean delay that the channel of each direction adds. A table's is a sum over all its numbers.
    channel_delays: Vec<Span>,
    /// Ceilings of classes over the run. None where an event changes the DSCPs that a node writes.
    pub(super) ceilings: Rc<Ceilings>,
    /// Set if a node writes DSCPs.
    marks: bool,
}

/// Tables of delays by the names of their files.
type Tables = HashMap<PathBuf, Vec<i16>>;

/// Costs of all directions, forward and return of each link.
pub(super) type Costs = Vec<Box<dyn Cost>>;

impl<'a> Media<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Result<Media<'a>, Problem> {
        let has_marker = |role: &NodeRoles| role.all().iter().any(|role| matches!(role, Role::Marker(_)));
        let later = moments(scenario).flat_map(|moment| &moment.difference.node).map(|(_, node)| node);
        let is_changed = later.filter_map(|node| node.role.as_ref()).any(has_marker);
        let marks =
            is_changed || scenario.node.values().filter_map(|node| node.role.as_ref()).any(has_marker);
        let mut media = Media::of(scenario, (Rc::default(), marks))?;
        if !is_changed {
            media.ceilings = Rc::new(Ceilings::new(scenario, &media.layout));
        }
        Ok(media)
    }

    fn of(scenario: &'a Scenario, (ceilings, marks): (Rc<Ceilings>, bool)) -> Result<Media<'a>, Problem> {
        let layout = Layout::new(scenario);
        let facts = layout.facts()?;
        let costs = Medium::costs(&layout.members(), &scenario.shared)?;
        let (tables, channel_delays) = (Rc::default(), Vec::new());
        let mut media = Media { layout, facts, costs, tables, channel_delays, ceilings, marks };
        media.channel_delays = media.sides().map(|at| media.mean_delay(at)).collect();
        Ok(media)
    }

    /// Reads the tables of delays that channels have in files. Those that cannot be read are left out.
    pub(super) fn read_tables(&mut self, access: &Access) {
        let mut tables = Tables::new();
        for at in self.sides() {
            let files = self.faults(at).iter().filter_map(table_file);
            let new: Vec<&PathBuf> = files.filter(|file| !tables.contains_key(*file)).collect();
            let read = |file: &PathBuf| access.open(file).ok().and_then(|file| jitter_table(file).ok());
            tables.extend(new.into_iter().map(|file| (file.clone(), read(file).unwrap_or_default())));
        }
        if !tables.is_empty() {
            self.tables = Rc::new(tables);
            self.channel_delays = self.sides().map(|at| self.mean_delay(at)).collect();
        }
    }

    /// Returns the directions of another state of the scenario, whose files are the same.
    pub(super) fn in_state<'s>(&self, state: &'s Scenario) -> Result<Media<'s>, Problem> {
        let of = Media::of(state, (Rc::clone(&self.ceilings), self.marks))?;
        let mut media = Media { tables: Rc::clone(&self.tables), ..of };
        if !media.tables.is_empty() {
            media.channel_delays = media.sides().map(|at| media.mean_delay(at)).collect();
        }
        Ok(media)
    }

    /// Returns all directions in the order of lists.
    fn sides(&self) -> impl Iterator<Item = (usize, Way)> + use<> {
        (0..self.facts.len() / 2).flat_map(|link| Way::BOTH.map(|way| (link, way)))
    }

    /// Returns the mean delay that the channel of a direction adds, from its settings.
    fn mean_delay(&self, at: (usize, Way)) -> Span {
        self.faults(at).iter().map(|fault| self.mean_of(fault)).sum()
    }

    fn mean_of(&self, fault: &Config) -> Span {
        match fault {
            Config::JitterTable(law @ JitterTable { file: Some(_), .. }) => {
                law.mean_delay(self.numbers(fault))
            }
            _ => fault.mean_delay(),
        }
    }

    /// Returns the numbers of a fault's file, if they are known.
    fn numbers(&self, fault: &Config) -> &[i16] {
        table_file(fault).and_then(|file| self.tables.get(file)).map_or(&[], Vec::as_slice)
    }

    /// Returns the most by which the delays that some faults add are below their means.
    pub(super) fn below_mean<'f>(&self, faults: impl Iterator<Item = &'f Config>) -> Span {
        let below =
            |fault: &Config| self.mean_of(fault).saturating_sub(fault.least_delay(self.numbers(fault)));
        faults.map(below).sum()
    }

    fn faults(&self, (link, way): (usize, Way)) -> &[Config] {
        self.side(link, way).common.channel.as_ref().map_or(&[], Channel::faults)
    }

    /// Returns the costs after an event at a time, before which others held.
    pub(super) fn into_costs<'c>(
        mut self,
        before: &dyn Fn(usize) -> Option<&'c dyn Cost>,
        at: Span,
    ) -> Costs {
        for (n, cost) in self.costs.iter_mut().enumerate() {
            before(n).into_iter().for_each(|before| cost.follow(before, at));
        }
        self.costs
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
        self.channel_delays[2 * link + way.index()]
    }

    /// Returns the limit of the stages in front of a direction.
    pub(super) fn limit(&self, link: usize, way: Way) -> Option<Limit> {
        stage::limit(&self.side(link, way).stages.by_row())
    }

    /// Returns `true` if the channel of a direction delays packets at random.
    pub(super) fn is_random(&self, link: usize, way: Way) -> bool {
        self.faults((link, way)).iter().any(Config::is_random_delay)
    }

    /// Returns the key of a stage that makes other packets of those that come.
    pub(super) fn remaking(&self, link: usize, way: Way) -> Option<&'static str> {
        stage::remaking(&self.side(link, way).stages.by_row()).first().copied()
    }

    /// Returns `true` if the queue of a direction serves packets of some DSCPs first.
    pub(super) fn serves_first(&self, link: usize, way: Way) -> bool {
        let classes = self.classes((link, way));
        let is_unknown = classes.is_some_and(|classes| classes.class.len() > 1 || self.marks);
        is_unknown || matches!(self.side(link, way).common.queue, Some(Queue::Priority(_)))
    }

    /// Returns the classes of a direction's queue, if it has any.
    pub(super) fn classes(&self, (link, way): (usize, Way)) -> Option<&ClassesConfig> {
        match &self.side(link, way).common.queue {
            Some(Queue::Classes(classes)) => Some(classes),
            _ => None,
        }
    }

    /// Returns the settings of a direction of a link.
    pub(super) fn side(&self, link: usize, way: Way) -> &Side {
        self.layout.side(link, way)
    }
}

/// Returns the file of a table of delays.
fn table_file(fault: &Config) -> Option<&PathBuf> {
    match fault {
        Config::JitterTable(law) => law.file.as_ref(),
        _ => None,
    }
}
