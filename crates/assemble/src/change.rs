//! Changing a network while it runs, in the words of its scenario.

use bentpipe_scenario::{Flow, Framing, Layout, Link, Medium, Moment, Problem, Scenario, Shared, Stages};
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

    /// Returns the changes of an event, and takes them as made.
    ///
    /// # Errors
    /// Returns an error if a running network cannot make them.
    pub(super) fn advance(&mut self, moment: &Moment) -> Result<Vec<Change>, Problem> {
        let after = self.as_built(moment);
        let changes = self.turn_into(&after)?;
        self.scenario = after;
        Ok(changes)
    }

    /// Returns the state after an event. What it does not name is as the network was built.
    ///
    /// Traffic is planned once, so shorter paths do not change it; a run may have another duration or seed than the file.
    fn as_built(&self, moment: &Moment) -> Scenario {
        let mut after = moment.scenario.clone();
        let names = |section: &str| {
            let of_section = |key: &str| key.split('.').next() == Some(section);
            moment.changes.iter().any(|(key, _)| of_section(key))
        };
        let built = &self.scenario;
        let is_of_flow = |key: &str| key.starts_with("flow.") && !key.ends_with(".active");
        if !moment.changes.iter().any(|(key, _)| is_of_flow(key)) {
            let active = |name: &String| after.flow.get(name).is_none_or(|flow| flow.active);
            let with = |(name, flow): (&String, &Flow)| {
                (name.clone(), Flow { active: active(name), ..flow.clone() })
            };
            let flows = built.flow.iter().map(with).collect();
            after.flow = flows;
        }
        if !names("probe") {
            after.probe.clone_from(&built.probe);
        }
        if !names("duration") {
            after.duration = built.duration;
        }
        if !names("seed") && !names("seeds") {
            (after.seed, after.seeds) = (built.seed, built.seeds);
        }
        after
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
        let asked = new;
        let new = self.adapted(new)?;
        let changes = self.turn_into(&new)?;
        if changes.is_empty() && self.asked != *asked {
            return Err(Problem::new("", self.without_effect(asked)));
        }
        (self.scenario, self.asked) = (new, asked.clone());
        Ok(changes)
    }

    /// Returns a scenario as it is emulated here.
    fn adapted(&self, scenario: &Scenario) -> Result<Scenario, Problem> {
        let (mut scenario, _) = adapted(scenario)?;
        self.part.as_ref().map_or(Ok(()), |part| part.adapt(&mut scenario))?;
        Ok(scenario)
    }

    /// Returns the changes that turn the network into that of `new`, which has no copies.
    pub(super) fn turn_into(&self, new: &Scenario) -> Result<Vec<Change>, Problem> {
        let mut of_shared = Changes::default();
        Medium::change_shared(&self.scenario.shared, &new.shared, &self.shared, &mut of_shared)?;
        if without_changeable(&self.scenario) != without_changeable(new) {
            return Err(Problem::new("", UNCHANGEABLE));
        }
        let mut changes = Changes::default();
        self.flows(new, &mut changes)?;
        self.links(new, &mut changes)?;
        self.roles(new, &mut changes)?;
        Ok(changes.into_vec().into_iter().chain(of_shared.into_vec()).collect())
    }

    /// Returns the reason why `asked`, another scenario than before, changes nothing.
    fn without_effect(&self, asked: &Scenario) -> &'static str {
        if without_changeable(&self.asked) == without_changeable(asked) {
            "has no effect: each direction of the link says its own"
        } else {
            "has no effect: the emulation leaves out what a real host has an end of"
        }
    }

    /// Lists the changes of all directions of links.
    fn links(&self, new: &Scenario, to: &mut Changes) -> Result<(), Problem> {
        let (before, after) = (Layout::new(&self.scenario), Layout::new(new));
        let both = before.members().into_iter().zip(after.members());
        let sides = before.sides().zip(after.sides());
        for ((handle, (before, after)), (had, wanted)) in self.sides.iter().zip(both).zip(sides) {
            let at = Changing { handle, before, after };
            let same = had.stages.same(&wanted.stages);
            let key = |key: &str| at.key(key);
            stage::change(&wanted.stages.by_row(), &same, &handle.stages, &key, to)?;
            Medium::change(&at, to)?;
        }
        Ok(())
    }

    /// Lists the flows that are turned on or off.
    fn flows(&self, new: &Scenario, to: &mut Changes) -> Result<(), Problem> {
        let differs = |sender: &&Sender| {
            let active = |of: &Scenario| of.flow.get(&sender.flow).is_none_or(|flow| flow.active);
            active(&self.scenario) != active(new)
        };
        self.flows.iter().filter(differs).try_for_each(|sender| sender.change(new, to))
    }

    /// Lists the changes of all roles.
    fn roles(&self, new: &Scenario, to: &mut Changes) -> Result<(), Problem> {
        number_of_roles(&self.scenario, new)?;
        let change = |handle: &RoleHandle| {
            let [before, after] = [&self.scenario, new].map(|of| &of.roles_of(&handle.node)[handle.n]);
            before.change(after, handle, to)
        };
        self.roles.iter().try_for_each(change)
    }
}

/// Refuses another number of roles than at the start.
fn number_of_roles(before: &Scenario, after: &Scenario) -> Result<(), Problem> {
    let differs = |name: &&String| before.roles_of(name).len() != after.roles_of(name).len();
    match before.node.keys().find(differs) {
        Some(name) => {
            Err(Problem::new(format!("node.{name}.role"), "cannot be added or removed while it runs"))
        }
        None => Ok(()),
    }
}

/// Returns a scenario without what media, stages and shared objects decide about.
fn without_changeable(scenario: &Scenario) -> Scenario {
    let (event, timeline) = (Vec::new(), Vec::new());
    let mut rest = Scenario { shared: Shared::default(), event, timeline, ..scenario.clone() };
    rest.link.values_mut().for_each(clear);
    rest.node.values_mut().for_each(|node| node.role = None);
    rest.flow.values_mut().for_each(|flow| flow.active = true);
    rest
}

fn clear(link: &mut Link) {
    let Link { rate, delay, delay_changes, framing, queue, channel, stages, medium, .. } = link;
    (*rate, *delay, *delay_changes, *framing) = (None, None, None, Framing::None);
    (*queue, *channel, *stages, *medium) = (None, None, Stages::default(), None);
    for own in [&mut link.forward, &mut link.reverse] {
        (own.rate, own.delay, own.delay_changes) = (None, None, None);
        (own.queue, own.channel, own.stages, own.medium) = (None, None, Stages::default(), None);
    }
}
