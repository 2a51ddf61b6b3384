//! Changing a network while it runs, in the words of its scenario.

use std::collections::HashSet;

use bentpipe_scenario::{Difference, Link, Medium, NodeRoles, Problem, Scenario, Way};
use bentpipe_sim::ElementId;
use bentpipe_site::{
    Change, Changes, Changing, LinkHandle, RoleHandle, SharedParts, Switch, UNCHANGEABLE, stage,
};

use super::cut::ScenarioPart;
use super::real::adapted;
use super::{Built, Emulated, FlowHandle};

/// Sending end of a flow or copy.
#[derive(Clone, Debug)]
struct Sender {
    flow: String,
    traffic: &'static str,
    element: ElementId,
    switch: Option<Switch>,
}

impl Sender {
    fn of(flow: &FlowHandle) -> Sender {
        let FlowHandle { flow, traffic, sender, switch, .. } = flow;
        Sender { flow: flow.clone(), traffic, element: *sender, switch: *switch }
    }

    /// Adds the change that turns it on or off as in `new`.
    fn change(&self, new: &Scenario, to: &mut Changes) -> Result<(), Problem> {
        let key = format!("flow.{}.active", self.flow);
        let active = new.flow.get(&self.flow).is_none_or(|flow| flow.active);
        let Some(switch) = self.switch else {
            let problem =
                format!("cannot turn traffic of kind \"{}\" off: expected \"udp\" or \"tcp\"", self.traffic);
            return Err(Problem::new(key, problem));
        };
        switch.change(self.element, key, active, to);
        Ok(())
    }
}

/// Turns off the flows that do not send from the start.
pub(super) fn turn_off(built: &mut Built, scenario: &Scenario) -> Result<(), Problem> {
    let mut changes = Changes::default();
    let is_off = |sender: &Sender| scenario.flow.get(&sender.flow).is_some_and(|flow| !flow.active);
    let senders = built.flows.iter().map(Sender::of).filter(is_off);
    senders.into_iter().try_for_each(|sender| sender.change(scenario, &mut changes))?;
    changes.into_vec().into_iter().try_for_each(|change| change.apply(&mut built.network))
}

/// Returns a scenario whose links have no settings of directions, and no empty `channel`.
///
/// What a direction says itself has its effect, unless it is so already.
fn of_links(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for link in scenario.link.values_mut() {
        (link.forward, link.reverse) = Default::default();
        link.channel = link.channel.take().filter(|channel| !channel.faults().is_empty());
    }
    scenario
}

/// Builder of changes to a running network, from the scenario it was built from.
#[derive(Clone, Debug)]
pub struct Changer {
    scenario: Scenario,
    /// The same as the user has it.
    asked: Scenario,
    /// Both directions of all links.
    sides: Vec<LinkHandle>,
    /// Roles of nodes.
    roles: Vec<RoleHandle>,
    /// Senders of flows.
    flows: Vec<Sender>,
    /// Elements of what links share.
    shared: SharedParts<ElementId>,
    /// Part of the scenario that the network is of.
    part: Option<ScenarioPart>,
}

impl Changer {
    /// Creates a changer of an emulated network that does not run yet.
    ///
    /// `asked` is the scenario that the network was made from.
    pub fn new(emulated: &Emulated, asked: &Scenario) -> Changer {
        let part = emulated.cut.as_ref().map(|cut| cut.part.clone());
        Changer { asked: asked.clone(), part, ..Changer::of(&emulated.built, &emulated.scenario) }
    }

    /// Creates a changer of a network made from `scenario`, which has no copies.
    pub(super) fn of(built: &Built, scenario: &Scenario) -> Changer {
        let Built { sides, roles, shared, flows, .. } = built;
        let (sides, roles, shared) = (sides.clone(), roles.clone(), shared.clone());
        let flows = flows.iter().map(Sender::of).collect();
        let (asked, part) = (scenario.clone(), None);
        Changer { scenario: scenario.clone(), asked, sides, roles, flows, shared, part }
    }

    /// Applies a difference of the scenario without copies, and returns the changes of elements.
    ///
    /// # Errors
    /// Returns an error if a running network cannot make them. The scenario is then as before.
    pub(super) fn turn(&mut self, mut difference: Difference) -> Result<Vec<Change>, Problem> {
        difference.swap(&mut self.scenario);
        let changes = self.changes_since(&difference);
        if changes.is_err() {
            difference.swap(&mut self.scenario);
        }
        changes
    }

    /// Records an event's changes, which the network applies by itself. `after` is the scenario from then on.
    ///
    /// # Errors
    /// Returns an error if `after` cannot be emulated.
    pub fn pass(&mut self, after: &Scenario) -> Result<(), Problem> {
        (self.scenario, self.asked) = (self.adapted(after)?, after.clone());
        Ok(())
    }

    /// Returns the changes that turn the network into that of `new`.
    ///
    /// # Errors
    /// If more differs than what media and stages can change while they run, or if both directions
    /// override what differs; then nothing is to be changed.
    pub fn change(&mut self, new: &Scenario) -> Result<Vec<Change>, Problem> {
        let difference = Difference::between(&self.scenario, &self.adapted(new)?);
        let mut after = self.clone();
        let changes = after.turn(difference)?;
        if changes.is_empty() && of_links(&self.asked) != of_links(new) {
            return Err(self.without_effect(new));
        }
        after.asked.clone_from(new);
        *self = after;
        Ok(changes)
    }

    /// Returns a scenario as it is emulated here.
    fn adapted(&self, scenario: &Scenario) -> Result<Scenario, Problem> {
        let (mut scenario, _) = adapted(scenario)?;
        self.part.as_ref().map_or(Ok(()), |part| part.adapt(&mut scenario))?;
        Ok(scenario)
    }

    /// Returns the changes that make the present state. `before` has the entries of the one before it.
    fn changes_since(&self, before: &Difference) -> Result<Vec<Change>, Problem> {
        let (mut of_shared, mut changes) = (Changes::default(), Changes::default());
        if let Some(shared) = &before.shared {
            Medium::change_shared(shared, &self.scenario.shared, &self.shared, &mut of_shared)?;
        }
        if before.is_more {
            return Err(Problem::new("", UNCHANGEABLE));
        }
        self.flows(before, &mut changes)?;
        self.links(before, &mut changes)?;
        self.roles(before, &mut changes)?;
        Ok(changes.into_vec().into_iter().chain(of_shared.into_vec()).collect())
    }

    /// Returns the reason why `asked`, another scenario than before, changes nothing.
    fn without_effect(&self, asked: &Scenario) -> Problem {
        let difference = Difference::between(&self.asked, asked);
        if let Some((name, _)) = difference.flow.first() {
            let problem = "has no effect: programs at real hosts send this flow, and no model does. End or start the program; of a flow \
                           between simulated nodes, `active` can be set";
            return Problem::new(format!("flow.{name}"), problem);
        }
        Problem::new(
            "",
            if difference.is_more {
                "has no effect: the emulation leaves out what a real host has an end of"
            } else {
                "has no effect: each direction of the link says its own"
            },
        )
    }

    /// Lists the changes of links, in the order of the file.
    fn links(&self, before: &Difference, to: &mut Changes) -> Result<(), Problem> {
        let number = |name: &String| self.scenario.link.get_index_of(name);
        let mut links: Vec<(usize, &Link)> =
            before.link.iter().filter_map(|(name, link)| Some((number(name)?, link))).collect();
        links.sort_by_key(|(n, _)| *n);
        links.into_iter().try_for_each(|(n, had)| self.link(n, had, to))
    }

    /// Lists the changes of both directions of a link.
    fn link(&self, n: usize, had: &Link, to: &mut Changes) -> Result<(), Problem> {
        let (name, wanted) = self.scenario.link.get_index(n).expect("it was found by its name");
        for way in Way::BOTH {
            let [had, wanted] = [had, wanted].map(|link| link.side(name, way));
            let [before, after] = [&had, &wanted].map(|side| self.scenario.member(n, way, side));
            let at = Changing { handle: &self.sides[2 * n + way.index()], before, after };
            let same = had.stages.same(&wanted.stages);
            let key = |key: &str| at.key(key);
            stage::change(&wanted.stages.by_row(), &same, &at.handle.stages, &key, to)?;
            Medium::change(&at, to)?;
        }
        Ok(())
    }

    /// Lists the flows that are turned on or off.
    fn flows(&self, before: &Difference, to: &mut Changes) -> Result<(), Problem> {
        let is_active = |name: &str| self.scenario.flow.get(name).is_none_or(|flow| flow.active);
        let changed = before.flow.iter().filter(|(name, flow)| flow.active != is_active(name));
        let changed: HashSet<&str> = changed.map(|(name, _)| name.as_str()).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let senders = self.flows.iter().filter(|sender| changed.contains(sender.flow.as_str()));
        senders.into_iter().try_for_each(|sender| sender.change(&self.scenario, to))
    }

    /// Lists the changes of roles.
    fn roles(&self, before: &Difference, to: &mut Changes) -> Result<(), Problem> {
        for (name, node) in &before.node {
            let had = node.role.as_ref().map_or(&[][..], NodeRoles::all);
            let wanted = self.scenario.roles_of(name);
            if had.len() != wanted.len() {
                let problem = "cannot be added or removed while it runs";
                return Err(Problem::new(format!("node.{name}.role"), problem));
            }
            let handles = self.roles.iter().filter(|handle| handle.node == *name);
            handles.into_iter().try_for_each(|handle| had[handle.n].change(&wanted[handle.n], handle, to))?;
        }
        Ok(())
    }
}
