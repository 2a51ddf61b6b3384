//! Changing a network while it runs, in the words of its scenario.

use bentpipe_net::{Link as Line, channel};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Rate, Span};

use super::real::adapted;
use super::{Emulated, LinkHandle, Problem, direction};
use crate::scenario::{Direction, Link, Scenario};

/// A change of one element. It holds for what is sent from then on: what is under way is not touched.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The element.
    pub element: ElementId,
    /// The new value.
    pub setting: Setting,
}

/// What is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A line's rate.
    Rate(Option<Rate>),
    /// A line's delay.
    Delay(Span),
    /// A channel's fault.
    Fault(channel::Config),
}

impl Change {
    /// Makes the change at the network's present instant.
    pub fn apply(&self, network: &mut Network) {
        let now = network.now();
        match &self.setting {
            Setting::Rate(rate) => {
                if let Some(line) = network.element::<Line>(self.element) {
                    line.set_rate(now, *rate);
                }
            }
            Setting::Delay(delay) => {
                if let Some(line) = network.element::<Line>(self.element) {
                    line.set_delay(now, *delay);
                }
            }
            Setting::Fault(config) => {
                if let Some(channel) = network.element::<channel::Channel>(self.element) {
                    // Whether it is possible was checked when the scenario was built with it.
                    let _ = channel.set(config);
                }
            }
        }
        network.poke(self.element);
    }
}

/// Knows what a running network was built from, and makes changes of it.
#[derive(Clone, Debug)]
pub struct Changer {
    scenario: Scenario,
    /// Each link with the elements of its channel's faults.
    links: Vec<(LinkHandle, Vec<ElementId>)>,
}

impl Changer {
    /// For an emulated network, before it runs.
    pub fn new(emulated: &Emulated) -> Changer {
        let network = &emulated.built.network;
        let faults = |link: &LinkHandle| {
            let channel = format!("link/{}/{}/channel", link.name, link.way.name());
            let is_fault = |path: &str| {
                path.strip_prefix(&channel).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            network.ids().filter(|id| is_fault(network.path(*id))).collect()
        };
        let links = emulated.built.links.iter().map(|link| (link.clone(), faults(link))).collect();
        Changer { scenario: emulated.scenario.clone(), links }
    }

    /// What makes the network that of `new`, as a scenario file has it.
    ///
    /// # Errors
    /// If more differs than rates, delays and the parameters of channels; then nothing is to be changed.
    pub fn change(&mut self, new: &Scenario) -> Result<Vec<Change>, Problem> {
        let (new, _) = adapted(new)?;
        if without_changeable(&self.scenario) != without_changeable(&new) {
            let problem = "only a link's rate, delay and channel can be changed while it runs";
            return Err(Problem::new("", problem));
        }
        let mut changes = Vec::new();
        for (handle, elements) in &self.links {
            let settings = |scenario: &Scenario| direction(&scenario.link[&handle.name], handle.way);
            let (before, after) = (settings(&self.scenario), settings(&new));
            if before.rate != after.rate {
                changes.push(Change { element: handle.line, setting: Setting::Rate(after.rate) });
            }
            if before.delay != after.delay {
                let setting = Setting::Delay(after.delay.unwrap_or_default());
                changes.push(Change { element: handle.line, setting });
            }
            changes.extend(faults(handle, elements, &after)?);
        }
        self.scenario = new;
        Ok(changes)
    }
}

/// The faults of a direction's channel, all of them: to set one again changes nothing.
fn faults(handle: &LinkHandle, elements: &[ElementId], after: &Direction) -> Result<Vec<Change>, Problem> {
    let faults = after.channel.as_ref().map_or(&[][..], |channel| channel.faults());
    if faults.len() != elements.len() {
        let key = format!("link.{}.{}.channel", handle.name, handle.way.name());
        let problem = format!("has {} faults: expected as many while it runs", elements.len());
        return Err(Problem::new(key, problem));
    }
    let change = |(element, fault): (&ElementId, &channel::Config)| Change {
        element: *element,
        setting: Setting::Fault(*fault),
    };
    Ok(elements.iter().zip(faults).map(change).collect())
}

/// A scenario without what may change.
fn without_changeable(scenario: &Scenario) -> Scenario {
    let mut rest = scenario.clone();
    for link in rest.link.values_mut() {
        clear(link);
    }
    rest
}

fn clear(link: &mut Link) {
    (link.rate, link.delay, link.channel) = (None, None, None);
    for direction in [&mut link.forward, &mut link.reverse] {
        (direction.rate, direction.delay, direction.channel) = (None, None, None);
    }
}
