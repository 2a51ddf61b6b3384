//! Changing a network while it runs, in the words of its scenario.

use std::mem::discriminant;

use bentpipe_net::atm::{self, Faults, Interface};
use bentpipe_net::dvb::Modcod;
use bentpipe_net::{Link as Line, Port, Shaper, Wifi, channel, dvb, shaper};
use bentpipe_sim::{ElementId, Network};
use bentpipe_units::{Rate, Span};

use super::real::adapted;
use super::{Emulated, LinkHandle, Problem, Way, direction};
use crate::scenario::{Direction, Link, Queue, Scenario};

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
    /// Limits and parameters of a line's queue.
    Queue(Queue),
    /// A shaper's rates, buckets and limit.
    Shaper(shaper::Config),
    /// A channel's fault.
    Fault(channel::Config),
    /// What a stream of DVB may change, and the MODCOD of its frames.
    Stream(Port, Box<dvb::Config>, Option<Modcod>),
    /// Limits and parameters of the queue of a stream of DVB.
    StreamQueue(Port, Queue),
    /// A fault of an ATM line.
    CellFault(atm::fault::Config),
    /// How fast the host at an end of a virtual channel takes what it receives; the end by its path, "vc/bulk/server".
    Receive(String, atm::receive::Config),
    /// What loses frames in a direction of a Wi-Fi cell.
    FrameErrors(Port, channel::Config),
}

impl Change {
    /// Makes the change at the network's present instant.
    pub fn apply(&self, network: &mut Network) {
        let now = network.now();
        // Whether a value is possible was checked when the scenario was built with it.
        if let Some(line) = network.element::<Line>(self.element) {
            match &self.setting {
                Setting::Rate(rate) => line.set_rate(now, *rate),
                Setting::Delay(delay) => line.set_delay(now, *delay),
                Setting::Queue(queue) => drop(line.set_queue(now, queue)),
                _ => {}
            }
        } else if let Some(sender) = network.element::<dvb::Sender>(self.element) {
            match &self.setting {
                Setting::Stream(port, stream, modcod) => {
                    drop(sender.set_stream(now, port.0.into(), stream, *modcod));
                }
                Setting::StreamQueue(port, queue) => drop(sender.set_queue(now, port.0.into(), queue)),
                _ => {}
            }
        } else if let (Setting::Shaper(config), Some(shaper)) =
            (&self.setting, network.element::<Shaper>(self.element))
        {
            let _ = shaper.set(now, config);
        } else if let (Setting::FrameErrors(port, config), Some(cell)) =
            (&self.setting, network.element::<Wifi>(self.element))
        {
            let _ = cell.set_errors(usize::from(port.0), Some(config));
        } else if let (Setting::Fault(config), Some(channel)) =
            (&self.setting, network.element::<channel::Channel>(self.element))
        {
            let _ = channel.set(config);
        } else if let (Setting::CellFault(config), Some(faults)) =
            (&self.setting, network.element::<Faults>(self.element))
        {
            let _ = faults.set(config);
        } else if let (Setting::Receive(path, config), Some(interface)) =
            (&self.setting, network.element::<Interface>(self.element))
        {
            let _ = interface.set_receive(now, path, config);
        }
        network.poke(self.element);
    }
}

/// Knows what a running network was built from, and makes changes of it.
#[derive(Clone, Debug)]
pub struct Changer {
    scenario: Scenario,
    /// The same as the user has it.
    asked: Scenario,
    /// Each link with the elements of its channel's faults.
    links: Vec<(LinkHandle, Vec<ElementId>)>,
    /// The elements of the faults of each direction of each ATM line, by the line's name.
    lines: Vec<(String, Vec<ElementId>)>,
    /// The ends of each virtual channel: the link's name, the end's path, and its interface.
    ends: Vec<(String, String, ElementId)>,
}

impl Changer {
    /// For an emulated network, before it runs; `asked` is the scenario that it was made from.
    pub fn new(emulated: &Emulated, asked: &Scenario) -> Changer {
        let network = &emulated.built.network;
        let faults = |of: String| {
            let channel = format!("{of}/channel");
            let is_fault = |path: &str| {
                path.strip_prefix(&channel).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            network.ids().filter(|id| is_fault(network.path(*id))).collect()
        };
        let of_link = |link: &LinkHandle| faults(format!("link/{}/{}", link.name, link.way.name()));
        let links = emulated.built.links.iter().map(|link| (link.clone(), of_link(link))).collect();
        let of_line = |name: &String| {
            let both = [Way::Forward, Way::Return].map(|way| faults(format!("line/{name}/{}", way.name())));
            both.map(|elements| (name.clone(), elements))
        };
        let lines = emulated.scenario.atm.line.keys().flat_map(of_line).collect();
        let of_node = |node: &String| {
            let interfaces = format!("atm/{node}/");
            network.ids().filter(move |id| network.path(*id).starts_with(&interfaces)).collect::<Vec<_>>()
        };
        let channels = emulated.scenario.link.iter().filter(|(_, link)| link.vc.is_some());
        // Which of its interfaces a channel passes a node does not say; the others know nothing of it.
        let ends = channels
            .flat_map(|(name, link)| link.between.iter().map(move |node| (name, node)))
            .flat_map(|(name, node)| {
                of_node(node).into_iter().map(move |id| (name.clone(), format!("vc/{name}/{node}"), id))
            })
            .collect();
        Changer { scenario: emulated.scenario.clone(), asked: asked.clone(), links, lines, ends }
    }

    /// What makes the network that of `new`, as a scenario file has it.
    ///
    /// # Errors
    /// If more differs than rates, delays, the parameters of queues, shapers and channels, what hosts take of virtual channels,
    /// and what the sending end of a stream of DVB does alone, or if what differs is
    /// said otherwise by both directions; then nothing is to be changed.
    pub fn change(&mut self, new: &Scenario) -> Result<Vec<Change>, Problem> {
        let asked = new;
        let (new, _) = adapted(new)?;
        if let Some(name) = new.dvb.keys().find(|name| self.scenario.dvb.get(*name) != new.dvb.get(*name)) {
            return Err(Problem::new(format!("dvb.{name}"), LINE));
        }
        if without_changeable(&self.scenario) != without_changeable(&new) {
            return Err(Problem::new("", UNCHANGEABLE));
        }
        let mut changes = Vec::new();
        for (handle, elements) in &self.links {
            let settings = |scenario: &Scenario| direction(&scenario.link[&handle.name], handle.way);
            let (before, after) = (settings(&self.scenario), settings(&new));
            changes.extend(shaped(handle, &before, &after)?);
            let is_wifi = new.link[&handle.name].wifi.is_some();
            changes.extend(if is_wifi {
                in_cell(handle, &before, &after)?
            } else if before.dvb.is_some() || after.dvb.is_some() {
                stream(handle, &before, &after)?
            } else {
                line(handle, &before, &after)?
            });
            if before.channel != after.channel {
                changes.extend(faults(handle, elements, &before, &after)?);
            }
        }
        for (name, elements) in &self.lines {
            let of = |scenario: &Scenario| {
                scenario.atm.line[name]
                    .channel
                    .as_ref()
                    .map_or_else(Vec::new, |channel| channel.faults().to_vec())
            };
            let (had, wanted) = (of(&self.scenario), of(&new));
            if had != wanted {
                changes.extend(cell_faults(name, elements, wanted)?);
            }
        }
        for (name, path, element) in &self.ends {
            changes.extend(received(name, path, *element, &self.scenario, &new)?);
        }
        if changes.is_empty() && self.asked != *asked {
            return Err(Problem::new("", "has no effect: each direction of the link says its own"));
        }
        (self.scenario, self.asked) = (new, asked.clone());
        Ok(changes)
    }
}

const UNCHANGEABLE: &str = "cannot be changed while it runs: expected a link's rate, delay, queue, shaper or channel, \
                            a virtual channel's receive, or an ATM line's channel";
const LINE: &str = "a line cannot be changed while it runs: its slots and frames are counted from the start. Expected a stream's \
                    packing, filter, to, llc or modcod, or the link's queue or channel";

/// What changes at a direction of a Wi-Fi link, the channel apart: nothing may.
fn in_cell(handle: &LinkHandle, before: &Direction, after: &Direction) -> Result<Vec<Change>, Problem> {
    let same = [
        ("rate", before.rate == after.rate),
        ("delay", before.delay == after.delay),
        ("queue", before.queue == after.queue),
    ];
    match same.iter().find(|(_, same)| !same) {
        Some((what, _)) => {
            let key = format!("link.{}.{}.{what}", handle.name, handle.way.name());
            Err(Problem::new(key, "of a Wi-Fi link cannot be changed while it runs: expected its channel"))
        }
        None => Ok(Vec::new()),
    }
}

/// What changes at a direction's line.
fn line(handle: &LinkHandle, before: &Direction, after: &Direction) -> Result<Vec<Change>, Problem> {
    let mut settings = Vec::new();
    // Carriers and the times of their slots stay as they are.
    let is_same = (before.delay, before.queue) == (after.delay, after.queue);
    if handle.receiver.is_some() && !is_same {
        return Err(Problem::new(
            format!("link.{}", handle.name),
            "a terminal cannot be changed while it runs",
        ));
    }
    if before.rate != after.rate {
        settings.push(Setting::Rate(after.rate));
    }
    if before.delay != after.delay {
        settings.push(Setting::Delay(after.delay.unwrap_or_default()));
    }
    settings.extend(queue(handle, before, after)?.map(Setting::Queue));
    Ok(settings.into_iter().map(|setting| Change { element: handle.line, setting }).collect())
}

/// The queue of a direction, if it is another one.
fn queue(handle: &LinkHandle, before: &Direction, after: &Direction) -> Result<Option<Queue>, Problem> {
    let [had, wanted] = [before, after].map(|direction| direction.queue.unwrap_or_default());
    if discriminant(&had) != discriminant(&wanted) {
        let key = format!("link.{}.{}.queue.kind", handle.name, handle.way.name());
        return Err(Problem::new(key, "cannot be changed while it runs: expected the queue's own kind"));
    }
    Ok((had != wanted).then_some(wanted))
}

/// What changes at a direction that is a stream of DVB: what its sending end does alone.
fn stream(handle: &LinkHandle, before: &Direction, after: &Direction) -> Result<Vec<Change>, Problem> {
    let problem = |key: &str, why: &str| {
        let key = format!("link.{}.{}.{key}", handle.name, handle.way.name());
        Problem::new(key, format!("cannot be changed while it runs: {why}"))
    };
    let (Some(had), Some(wanted)) = (&before.dvb, &after.dvb) else {
        return Err(problem("dvb", "expected what the scenario started with"));
    };
    let (old, new) = (&had.stream, &wanted.stream);
    let fixed = [
        ("dvb.line", had.line == wanted.line, "it stays in the multiplex that it started in"),
        ("dvb.pid", old.pid == new.pid, "the receiver listens to the one it started with"),
        (
            "dvb.encapsulation",
            old.encapsulation == new.encapsulation,
            "the receiver expects what it started with",
        ),
        ("dvb.rohc", old.rohc == new.rohc, "contexts at both ends go by it"),
        (
            "dvb.modcod",
            had.modcod.is_some() == wanted.modcod.is_some(),
            "expected another one where there is one",
        ),
        ("delay", before.delay == after.delay, "slots arrive in their order"),
    ];
    if let Some((key, _, why)) = fixed.iter().find(|(_, same, _)| !same) {
        return Err(problem(key, why));
    }
    let changed = (had != wanted).then(|| Setting::Stream(handle.port, Box::new(new.clone()), wanted.modcod));
    let queue = queue(handle, before, after)?.map(|queue| Setting::StreamQueue(handle.port, queue));
    Ok(changed.into_iter().chain(queue).map(|setting| Change { element: handle.line, setting }).collect())
}

/// What changes at a direction's token bucket.
fn shaped(handle: &LinkHandle, before: &Direction, after: &Direction) -> Result<Option<Change>, Problem> {
    if before.shaper == after.shaper {
        return Ok(None);
    }
    match (handle.shaper, after.shaper) {
        (Some(element), Some(config)) => Ok(Some(Change { element, setting: Setting::Shaper(config) })),
        (had, _) => {
            let key = format!("link.{}.{}.shaper", handle.name, handle.way.name());
            let there = if had.is_some() { "cannot be removed" } else { "cannot be added" };
            Err(Problem::new(key, format!("{there} while it runs: expected what the scenario started with")))
        }
    }
}

/// The faults of a direction's channel, all of them: to set one again changes nothing.
fn faults(
    handle: &LinkHandle,
    elements: &[ElementId],
    before: &Direction,
    after: &Direction,
) -> Result<Vec<Change>, Problem> {
    let of = |direction: &Direction| {
        direction.channel.as_ref().map_or_else(Vec::new, |channel| channel.faults().to_vec())
    };
    let (had, faults) = (of(before), of(after));
    let key = format!("link.{}.{}.channel", handle.name, handle.way.name());
    if had.iter().chain(&faults).any(|fault| matches!(fault, channel::Config::Trace(_))) {
        return Err(Problem::new(key, "a trace cannot be changed while it runs"));
    }
    // The channel of a Wi-Fi link is a part of its cell, not an element.
    if let ([_], [fault], []) = (&had[..], &faults[..], elements) {
        let setting = Setting::FrameErrors(handle.port, fault.clone());
        return Ok(vec![Change { element: handle.line, setting }]);
    }
    as_many(key, elements, faults, Setting::Fault)
}

/// What changes at an end of a virtual channel: how fast its host takes what it receives.
fn received(
    name: &str,
    path: &str,
    element: ElementId,
    before: &Scenario,
    after: &Scenario,
) -> Result<Option<Change>, Problem> {
    let of = |scenario: &Scenario| scenario.link[name].vc.as_ref().and_then(|vc| vc.receive);
    match (of(before), of(after)) {
        (had, wanted) if had == wanted => Ok(None),
        (Some(_), Some(config)) => {
            Ok(Some(Change { element, setting: Setting::Receive(path.to_owned(), config) }))
        }
        (had, _) => {
            let there = if had.is_some() { "cannot be removed" } else { "cannot be added" };
            let problem = format!("{there} while it runs: expected what the scenario started with");
            Err(Problem::new(format!("link.{name}.vc.receive"), problem))
        }
    }
}

/// The faults of a direction of an ATM line.
fn cell_faults(
    name: &str,
    elements: &[ElementId],
    faults: Vec<atm::fault::Config>,
) -> Result<Vec<Change>, Problem> {
    as_many(format!("atm.line.{name}.channel"), elements, faults, Setting::CellFault)
}

/// A fault for each of the elements.
fn as_many<T>(
    key: String,
    elements: &[ElementId],
    faults: Vec<T>,
    setting: impl Fn(T) -> Setting,
) -> Result<Vec<Change>, Problem> {
    if faults.len() != elements.len() {
        let problem = format!("has {} faults: expected as many while it runs", elements.len());
        return Err(Problem::new(key, problem));
    }
    let change = |(element, fault): (&ElementId, T)| Change { element: *element, setting: setting(fault) };
    Ok(elements.iter().zip(faults).map(change).collect())
}

/// A scenario without what may change.
fn without_changeable(scenario: &Scenario) -> Scenario {
    let mut rest = scenario.clone();
    for link in rest.link.values_mut() {
        clear(link);
    }
    rest.atm.line.values_mut().for_each(|line| line.channel = None);
    rest
}

fn clear(link: &mut Link) {
    (link.rate, link.delay, link.queue, link.shaper, link.channel) = (None, None, None, None, None);
    link.dvb = None;
    if let Some(vc) = &mut link.vc {
        vc.receive = None;
    }
    for own in [&mut link.forward, &mut link.reverse] {
        (own.rate, own.delay, own.queue, own.shaper, own.channel) = (None, None, None, None, None);
        own.dvb = None;
    }
}
