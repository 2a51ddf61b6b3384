//! Assembly of a wired network from a scenario.
//!
//! A node is one element; a link is in each direction a shaper if there is one, a line (queue, serialiser,
//! pipe) and a channel if there is one, in this order; a flow is an element at each of its ends. Elements are
//! named after their key in the scenario ("link/satellite/forward", "flow/bulk/sender"), and the name seeds
//! their random stream, so adding a flow does not change the losses of the others.

mod cards;
mod change;
mod cut;
mod delays;
pub mod ffmpeg;
mod flows;
mod groups;
mod links;
mod multicast;
mod real;
pub mod scratch;
mod settings;
mod shape;
mod timeline;
pub mod traces;
mod tunnels;

use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bentpipe_net::channel::{ContactFile, Outage, Trace, TraceConfig};
use bentpipe_net::link::DelayChange;
use bentpipe_scenario::{
    Access, DelayChanges, Document, Layout, Medium, Problem, Scenario, ScenarioError, copies,
};
use bentpipe_sim::{BuildError, ElementId, Network};
use bentpipe_site::{
    Artefact, CallReader, CaptureFormat, CapturePoint, Facts, FileContent, Input, Installed, Judge, Member,
    Nodes, Opened, Part, RoleHandle, RolePlans, Router, SharedParts, Site, Switch, Topology, numbered_parts,
};
use bentpipe_units::Span;

pub use bentpipe_site::{Change, LinkHandle};
pub use cards::test_card;
pub use change::Changer;
pub use cut::{NetworkCut, ScenarioPart};
pub use delays::{DelayTables, parse as delay_changes};
pub use real::{Emulated, Interface, RealHost};
pub use settings::{Refused, Settings, set_all};

/// A network, and which of its elements is what.
pub struct Built {
    /// The network, at the start of its run.
    pub network: Network,
    /// Nodes in the order of the file.
    pub nodes: Vec<NodeHandle>,
    /// Both directions of each link with counters, in the order of the file.
    pub links: Vec<LinkHandle>,
    /// Flows in the order of the file. There is one entry per copy with separate elements.
    pub flows: Vec<FlowHandle>,
    /// Capture points.
    pub captures: Vec<Capture>,
    /// Files that a run leaves of its links, such as burst time plans.
    pub artefacts: Vec<Artefact<Input>>,
    /// Both directions of all links, including those without counters.
    sides: Vec<LinkHandle>,
    /// Roles in the order of their nodes.
    pub roles: Vec<RoleHandle>,
    /// Elements of shared objects that may change.
    shared: SharedParts<ElementId>,
    /// Steps after the run, by the names of their flows.
    pub judges: Vec<(String, Box<dyn Judge>)>,
}

/// A node and its element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHandle {
    /// Name.
    pub name: String,
    /// A `bentpipe_net::Node`.
    pub element: ElementId,
    /// IPv4 and IPv6 address.
    pub addresses: [IpAddr; 2],
}

/// A flow, or a copy of one, and its elements; `E` numbers them.
#[derive(Clone, Debug)]
pub struct FlowHandle<E = ElementId> {
    /// The name in the file, for copies with their number: "bulk", or "bulk.1", "bulk.2", ...
    pub name: String,
    /// The name in the file.
    pub flow: String,
    /// Word of its traffic's kind.
    pub traffic: &'static str,
    /// The node that sends.
    pub from: String,
    /// The node or group that receives.
    pub to: String,
    /// The sending end.
    pub sender: E,
    /// The receiving ends: one, or one for each member of a group.
    pub receivers: Vec<E>,
    /// Number of equal flows these elements represent: UDP copies that start together share them.
    pub copies: u32,
    /// Start.
    pub start: Span,
    /// Ends with calls: the node, the element and the reader.
    pub calls: Vec<(String, E, CallReader)>,
    /// Switch of the sending end, if it has one.
    pub switch: Option<Switch>,
}

impl FlowHandle<Part> {
    /// Returns the flow with the numbers of its elements.
    fn numbered(self, installed: &Installed) -> FlowHandle {
        let FlowHandle { name, flow, traffic, from, to, sender, receivers, copies, start, calls, switch } =
            self;
        let receivers = receivers.into_iter().map(|receiver| installed.element(receiver)).collect();
        let sender = installed.element(sender);
        let calls = calls.into_iter().map(|(node, end, read)| (node, installed.element(end), read)).collect();
        FlowHandle { name, flow, traffic, from, to, sender, receivers, copies, start, calls, switch }
    }
}

/// Capture point: the inputs to be tapped for packets.
pub struct Capture {
    /// Name in the scenario: "node:link".
    pub name: String,
    /// First input of packets that the node sends into the link.
    pub sent: Input,
    /// Input of packets that the node receives from the link.
    pub received: Input,
    /// Format of the packets.
    pub format: Box<dyn CaptureFormat>,
    /// Capture of the node's line, if that does not carry packets.
    pub on_line: Option<CapturePoint<Input>>,
}

/// Loader of what a scenario names, through its access to files.
#[derive(Clone)]
struct Loader {
    access: Access,
    /// Set if programs make what is ordered: a check orders nothing.
    makes: bool,
    traces: traces::Traces,
    delays: DelayTables,
    /// Latest content that flows have in common, with its key.
    latest: Arc<Mutex<Option<(String, FileContent)>>>,
}

impl Loader {
    fn new(access: &Access) -> Loader {
        Loader {
            access: access.clone(),
            makes: true,
            traces: traces::Traces::default(),
            delays: DelayTables::default(),
            latest: Arc::default(),
        }
    }
}

impl bentpipe_site::Files for Loader {
    fn trace(
        &self,
        config: &TraceConfig,
        seed: u64,
        path: &str,
    ) -> Result<Arc<Trace>, (&'static str, String)> {
        traces::load(config, (&self.access, &self.traces), self.makes.then_some((seed, path)))
    }

    fn outages(&self, contacts: &ContactFile) -> Result<Vec<Outage>, (&'static str, String)> {
        bentpipe_scenario::files::outages(contacts, &self.access)
    }

    fn open(&self, path: &Path) -> Result<Opened, String> {
        let shown = self.access.shown(path);
        let file = self.access.open(path).map_err(|error| format!("{shown}: {error}"))?;
        Ok(Opened { shown, bytes: Box::new(file) })
    }

    fn common(
        &self,
        key: &str,
        make: &mut dyn FnMut() -> Result<FileContent, String>,
    ) -> Result<FileContent, String> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, made)) = latest.as_ref().filter(|(known, _)| known == key) {
            return Ok(Arc::clone(made));
        }
        // The former one may be large, and is not needed while the next is made.
        *latest = None;
        let made = make()?;
        *latest = Some((key.to_owned(), Arc::clone(&made)));
        Ok(made)
    }

    fn make(&self, what: &str, order: &serde_json::Value) -> Result<Vec<Vec<u8>>, String> {
        if self.makes { cards::make(what, order) } else { Ok(Vec::new()) }
    }

    fn delay_changes(
        &self,
        changes: &DelayChanges,
        delay: Span,
    ) -> Result<Arc<[DelayChange]>, (&'static str, String)> {
        self.delays.of(changes, delay, &self.access)
    }
}

impl Built {
    /// Builds a scenario that is valid, with access to the files that it names.
    ///
    /// # Errors
    /// What cannot be built: nodes that do not reach each other, values that an element refuses, a loop without delay, a
    /// capture file that cannot be read.
    pub fn new(scenario: &Scenario, seed: u64, access: &Access) -> Result<Built, Problem> {
        let loader = Loader::new(access);
        rehearse(scenario, seed, &Loader { makes: false, ..loader.clone() })?;
        Built::with_gates(scenario, (seed, Flows::Whole), &loader, |_, _| Gates::default())
            .map(|(built, _)| built)
    }

    /// Returns the nominal delay of all directions of links together, which no path exceeds.
    pub fn longest_delay(&self) -> Span {
        self.sides.iter().map(|side| side.delay).sum()
    }

    /// Creates a network as [`Built::new`] does, with gates in place of real hosts.
    ///
    /// `real` is called with all nodes, and returns the gates.
    fn with_gates(
        scenario: &Scenario,
        (seed, flows): (u64, Flows),
        loader: &Loader,
        real: impl FnOnce(&mut Nodes<'_>, &mut Site<'_>) -> Gates<Part>,
    ) -> Result<(Built, Gates<ElementId>), Problem> {
        let spread = timeline::prepared(scenario);
        Plan::new(&spread, flows)
            .and_then(|plan| plan.install(&mut Site::new(seed, loader), real))
            .and_then(|(mut built, gates)| {
                change::turn_off(&mut built, &spread)?;
                timeline::schedule(&mut built, scenario, &spread)?;
                Ok((built, gates))
            })
            .map_err(|problem| copies::in_file(scenario, problem))
    }
}

/// Places where a network is open to the outside; `E` numbers elements.
struct Gates<E> {
    /// Gates in the places of real hosts.
    hosts: Vec<real::GateAt<E>>,
    /// Cut, and the part of the scenario on this side.
    cut: Option<(ScenarioPart, E)>,
}

impl<E> Default for Gates<E> {
    fn default() -> Gates<E> {
        Gates { hosts: Vec::new(), cut: None }
    }
}

impl Gates<Part> {
    /// Connects them with the links that they are at.
    fn connect(&self, links: &[links::Joined], site: &mut Site<'_>) {
        self.hosts.iter().for_each(|gate| gate.connect(links, site));
        if let Some((part, cut)) = &self.cut {
            let gate = |host: &str, link: &str| self.hosts.iter().find_map(|gate| gate.input(host, link));
            part.connect(*cut, links, gate, site);
        }
    }

    /// Returns them with the numbers of their elements.
    fn numbered(self, installed: &Installed) -> Gates<ElementId> {
        let number = |part: Part| installed.element(part);
        Gates {
            hosts: self.hosts.into_iter().map(|gate| gate.map(number)).collect(),
            cut: self.cut.map(|(part, cut)| (part, number(cut))),
        }
    }
}

/// Checks that a network takes the changes of its scenario's events.
fn rehearse(scenario: &Scenario, seed: u64, loader: &Loader) -> Result<(), Problem> {
    if scenario.timeline.is_empty() {
        return Ok(());
    }
    let (mut built, _) = Built::with_gates(scenario, (seed, Flows::Shapes), loader, |_, _| Gates::default())?;
    timeline::rehearse(&mut built, scenario, &timeline::prepared(scenario))
}

/// Elements of flows in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flows {
    /// Elements themselves, for a run.
    Whole,
    /// Shapes alone, for a check. Flows that are turned off or on have their elements.
    Shapes,
}

/// Scenario without copies of nodes, with the directions of its links and its graph.
struct Plan<'a> {
    scenario: &'a Scenario,
    flows: Flows,
    layout: Layout<'a>,
    facts: Vec<Facts>,
    topology: Topology,
}

impl<'a> Plan<'a> {
    fn new(scenario: &'a Scenario, flows: Flows) -> Result<Plan<'a>, Problem> {
        let layout = Layout::new(scenario);
        let facts = layout.facts()?;
        let topology = layout.topology(&facts);
        Ok(Plan { scenario, flows, layout, facts, topology })
    }

    fn install(
        &self,
        site: &mut Site<'_>,
        real: impl FnOnce(&mut Nodes<'_>, &mut Site<'_>) -> Gates<Part>,
    ) -> Result<(Built, Gates<ElementId>), Problem> {
        let members = self.layout.members();
        let mut router = Router::new(&self.topology)?;
        let mut nodes = Nodes::new(&self.topology);
        nodes.add_tunnels(&mut router)?;
        let mut roles = self.roles(site.files(), &mut nodes, &mut router)?;
        let mut natives = Vec::new();
        let mut of_groups = Router::of_groups(&self.topology)?;
        let plans = flows::plan(
            self.scenario,
            &self.topology,
            &mut nodes,
            [&mut router, &mut of_groups],
            (site.files(), site.seed(), self.flows),
            &mut natives,
            &mut roles,
        )?;
        groups::route(self.scenario, &self.layout, &self.topology, &mut nodes, &mut of_groups)?;
        let tunnels = tunnels::plan(&members, &self.topology, &mut nodes)?;
        let gates = real(&mut nodes, site);
        let interfaces = links::Interfaces::new(&self.topology, &nodes);
        let nodes = nodes.install(site, &mut router);
        // Its trees are large where many nodes are.
        drop(router);
        let left = roles.take_artefacts();
        let roles = roles.install(&nodes, site);
        let mut assemblies = Medium::assemblies(&members, &self.scenario.shared);
        let natives = flows::natives(&natives, self.scenario, &members, &mut assemblies)?;
        tunnels::announce(&tunnels, &mut assemblies);
        let joined = links::add(&self.layout, &mut assemblies, &nodes, &interfaces, site)?;
        tunnels::connect(&tunnels, &nodes, &joined, site);
        gates.connect(&joined, site);
        let natives: Vec<_> = natives.into_iter().filter_map(|native| assemblies.native(native)).collect();
        let (flows, judges) = flows::add(self.scenario, plans, (&nodes, &natives, &roles), site);
        let site = std::mem::replace(site, Site::new(site.seed(), site.files()));
        let installed = site.finish().map_err(|error| loop_problem(self.scenario, &error))?;
        let handles = joined.iter().zip(&members).zip(&self.facts);
        let sides: Vec<LinkHandle> =
            handles.map(|((joined, member), facts)| joined.handle(member, *facts, &installed)).collect();
        let nodes: Vec<NodeHandle> =
            nodes.into_iter().map(|node| NodeHandle::new(node, &installed)).collect();
        let gates = gates.numbered(&installed);
        let number = |artefact: Artefact<_>| artefact.map(|at| installed.at(at));
        // A check reads no counters.
        let is_run = self.flows == Flows::Whole;
        let built = Built {
            judges,
            captures: self.captures((&members, &interfaces), (&assemblies, &sides, &nodes), &installed),
            artefacts: assemblies.artefacts().into_iter().chain(left).map(number).collect(),
            flows: flows.into_iter().map(|flow| flow.numbered(&installed)).collect(),
            shared: numbered_parts(assemblies.shared_parts(), &installed),
            roles: roles.numbered(&installed),
            links: sides.iter().filter(|side| is_run && side.is_observed).cloned().collect(),
            nodes,
            sides,
            network: installed.network,
        };
        Ok((built, gates))
    }

    /// Sets up the nodes of all roles.
    fn roles<'p>(
        &'p self,
        files: &'p dyn bentpipe_site::Files,
        nodes: &mut Nodes<'p>,
        router: &mut Router<'p>,
    ) -> Result<RolePlans, Problem> {
        let (mut plans, tables) = (RolePlans::default(), &self.scenario.role_tables);
        for (at, role) in self.scenario.roles() {
            let plan = |ground: &mut bentpipe_site::Ground<'_, '_>| role.plan(tables, ground);
            plans.add((&at, role.word()), (&self.topology, files), nodes, router, plan)?;
            plans.keep_calls(role.calls());
        }
        Ok(plans)
    }

    fn captures(
        &self,
        (members, interfaces): (&[Member<'_, Medium>], &links::Interfaces),
        (assemblies, sides, nodes): (&bentpipe_site::Assemblies<'_>, &[LinkHandle], &[NodeHandle]),
        installed: &Installed,
    ) -> Vec<Capture> {
        let probe = &self.scenario.probe;
        let point = |name: &String| {
            let (node, link) = self.scenario.capture_point(name).ok()?;
            let is_meant = |member: &Member<'_, Medium>| member.name == link && member.from == node;
            let member = members.iter().position(is_meant)?;
            let (number, interface) = interfaces.ends(&members[member])[0];
            let on_line = assemblies.on_line(member, probe.nulls);
            Some(Capture {
                name: name.clone(),
                sent: sides[member].input,
                received: (nodes[number].element, interface),
                format: assemblies.packets(member),
                on_line: on_line.map(|point| point.map(|at| installed.at(at))),
            })
        };
        probe.capture.iter().filter_map(point).collect()
    }
}

impl NodeHandle {
    fn new(node: bentpipe_site::NodeHandle, installed: &Installed) -> NodeHandle {
        let bentpipe_site::NodeHandle { name, part, addresses } = node;
        NodeHandle { name, element: installed.element(part), addresses }
    }
}

/// Returns a document's scenario, or its first point, if a network can be assembled.
///
/// # Errors
/// Returns the errors of [`Document::scenario`] and of [`Built::new`], at their places in the file.
pub fn checked(document: &Document) -> Result<Scenario, ScenarioError> {
    let scenario = document.scenario()?;
    check(document, &scenario)?;
    Ok(scenario)
}

/// Returns `Ok` if a network can be assembled of a scenario that `document` gave.
///
/// # Errors
/// Returns the errors of [`Built::new`], at their places in the file.
pub fn check(document: &Document, scenario: &Scenario) -> Result<(), ScenarioError> {
    let loader = Loader { makes: false, ..Loader::new(document.access()) };
    let built = if scenario.timeline.is_empty() {
        let how = (scenario.seed, Flows::Shapes);
        Built::with_gates(scenario, how, &loader, |_, _| Gates::default()).map(drop)
    } else {
        rehearse(scenario, scenario.seed, &loader)
    };
    built.map_err(|Problem { key, problem }| document.refusal(&key, problem))
}

/// Returns a zero-delay loop as a problem of the first link in it.
fn loop_problem(scenario: &Scenario, error: &BuildError) -> Problem {
    let BuildError::ZeroDelayLoop(around) = error else { return Problem::new("", error.to_string()) };
    let names = around.iter().filter_map(|path| path.strip_prefix("link/")?.split('/').next());
    let link = names.into_iter().find(|name| scenario.link.contains_key(*name));
    let key = link.map_or_else(String::new, |name| format!("link.{name}.delay"));
    Problem::new(key, format!("{error}: expected a delay above zero"))
}

/// Returns the structure of a carrier that terminals share.
///
/// # Errors
/// Returns an error if the carrier does not exist, or has an invalid value.
pub fn frame(scenario: &Scenario, carrier: &str) -> Result<bentpipe_dvb::dama::Frame, Problem> {
    let layout = Layout::new(scenario);
    let members = layout.members();
    let terminals = members.iter().filter_map(|member| match member.medium {
        Medium::Dama(kind) => Some(member.with(kind)),
        _ => None,
    });
    let terminals: Vec<_> = terminals.collect();
    bentpipe_dvb::dama::kind::frame(&terminals, &scenario.shared.carrier, carrier)
}

#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod tests;
