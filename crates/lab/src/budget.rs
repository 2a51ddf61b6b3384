//! Budget of a scenario before its run: `bentpipe check`.
//!
//! Arithmetic only: capacities after framing, round trips without queueing, and the windows and buffers they
//! require. Formulas are next to the fields of their results. Not considered: interactions of flows other
//! than fair sharing, loss, and needs of random traffic beyond its mean. Of calls with signalling the voice is counted, on each
//! leg of its way by exchanges.

mod contacts;
mod medium;
mod path;
pub(crate) mod show;
mod voice;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bentpipe_net::queue::DEFAULT_PACKETS;
use bentpipe_record::ContactPlan;
use bentpipe_scenario::copies::copies as copies_between;
use bentpipe_scenario::{Flow, Link, Medium, Problem, Queue, Role, Scenario, Way};
pub use bentpipe_site::{Airtime, Compressed, ShareBudget};
use bentpipe_site::{Passage, Router, SharingCopies, Window};
use bentpipe_units::{Bytes, Rate, Span};
use indexmap::IndexMap;
use serde::Serialize;

use contacts::Contacts;
pub use contacts::{Arrival, BundleForecast, ContactBudget};
use medium::Media;
use path::{Load, Path};
pub use voice::{CallBudget, VoiceLoad};

/// Budget of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// Both directions of each link.
    pub links: Vec<LinkBudget>,
    /// Terminals of shared carriers.
    pub terminals: Vec<ShareBudget>,
    /// Each flow, towards each of its receivers.
    pub flows: Vec<FlowBudget>,
    /// Contacts of networks of bundles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contacts: Vec<ContactBudget>,
    /// Contact plans of networks of bundles, to be drawn.
    #[serde(skip)]
    pub plans: Vec<ContactPlan>,
    /// Lines of the dial plans of exchanges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dial: Vec<DialBudget>,
    /// Forecasts of flows of bundles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<BundleForecast>,
}

/// Line of an exchange's dial plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DialBudget {
    /// Exchange.
    pub exchange: String,
    /// Pattern of numbers.
    pub numbers: String,
    /// Way of calls to them: "local", "conference", or protocol and exchange of a trunk.
    pub way: String,
    /// Pattern of the numbers there.
    pub there: String,
}

/// Returns the lines of all dial plans.
fn dial_plans(scenario: &Scenario) -> Vec<DialBudget> {
    let exchanges = &scenario.role_tables.pabx;
    let is_conference = |exchange: &str, number: &str| {
        let own = exchanges.0.get(exchange);
        own.is_some_and(|own| own.conferences.iter().any(|conference| conference.number == number))
    };
    let budget = exchanges.lines().into_iter().map(|line| DialBudget {
        way: match &line.trunk {
            Some((to, protocol)) => format!("{protocol} trunk to {to}"),
            None if is_conference(&line.exchange, &line.numbers) => "conference".to_owned(),
            None => "local".to_owned(),
        },
        exchange: line.exchange,
        numbers: line.numbers,
        there: line.there,
    });
    budget.collect()
}

/// Budget of one direction of a link, with the cost of a full-sized packet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkBudget {
    /// The link.
    pub name: String,
    /// `forward` or `return`.
    pub direction: &'static str,
    /// Line rate.
    pub rate: Rate,
    /// Part of the rate available to frames or cells.
    pub usable: Rate,
    /// Propagation delay.
    pub delay: Span,
    /// Longest IP packet.
    pub mtu: Bytes,
    /// The longest IP packet that a flow sends here; the MTU if none does.
    pub packet: Bytes,
    /// The bytes that it takes on the line.
    pub on_line: Bytes,
    /// The cells among them, where there are cells.
    pub cells: Option<u64>,
    /// The padding among them, where there are cells (RFC 2684: PAD of the CPCS-PDU).
    pub padding: Option<Bytes>,
    /// Rate of IP packets of this length: usable * packet / on_line.
    pub capacity: Rate,
    /// Capacity of its queue, if it is bounded.
    pub queue: Option<String>,
    /// Number of flows that use it, with copies and ACKs.
    pub flows: u64,
    /// Time that packet takes on a medium which both directions share.
    pub wifi: Option<Airtime>,
    /// Voice on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceLoad>,
    /// Composition of the capacity, a line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Budget of a flow: its path and its needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowBudget {
    /// The flow; copies share one.
    pub name: String,
    /// Number of copies.
    pub copies: u32,
    /// The nodes on the way.
    pub path: Vec<String>,
    /// Longest IP packet on the way.
    pub mtu: Bytes,
    /// Payload of a full packet: a TCP segment's data without options, a datagram's payload.
    pub payload: Bytes,
    /// That packet's length with IP and transport headers.
    pub packet: Bytes,
    /// Propagation and transmission one way.
    pub one_way: Span,
    /// Propagation and transmission of a packet there and an ACK back; TCP only.
    pub min_rtt: Option<Span>,
    /// Links that compress its headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compressed: Vec<CompressedFlow>,
    /// The link that limits it.
    pub bottleneck: String,
    /// Most goodput: of payload, at the bottleneck, alone.
    pub ceiling: Rate,
    /// Most goodput of each if all flows there share it evenly.
    pub fair_share: Rate,
    /// The rate it offers, where its source has one. For calls with signalling, that of all of their speech.
    pub offered: Option<Rate>,
    /// Calls with signalling on this part of their way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<CallBudget>,
    /// Window needs of TCP.
    pub tcp: Option<TcpBudget>,
    /// Warnings about its limits, in sentences.
    pub warnings: Vec<String>,
}

/// Header compression of a flow on a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompressedFlow {
    /// The link and its direction.
    pub link: String,
    /// Mean lengths of its packets.
    #[serde(flatten)]
    pub lengths: Compressed,
    /// Number of such flows that the link has room for.
    ///
    /// Usable rate / (packets per second * bytes on the line).
    pub room: Option<u64>,
}

/// Window that a flow needs to fill its path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TcpBudget {
    /// Bandwidth-delay product in payload bytes, ceiling * min_rtt: the window needed.
    pub window_needed: Bytes,
    /// Window allowed by its buffers: the least of send and receive buffer. Without scaling at most 65535 B.
    pub window_allowed: Bytes,
    /// Queue that a halved window needs to stay busy: one bandwidth-delay product. In IP bytes.
    pub buffer_needed: Bytes,
    /// Goodput that the window allows: window_allowed / min_rtt, at most the ceiling.
    pub window_limit: Rate,
    /// Time until slow start has opened the window needed: min_rtt * log2(window / initial window).
    pub slow_start: Span,
}

impl Budget {
    /// Computes the budget of a valid scenario.
    ///
    /// # Errors
    /// Returns an error if a flow has no path.
    pub fn new(scenario: &Scenario) -> Result<Budget, Problem> {
        let media = Media::new(scenario)?;
        let topology = media.layout.topology(&media.facts);
        let mut routers = [Router::new(&topology)?, Router::of_groups(&topology)?];
        let (mut paths, legs) = (Vec::new(), voice::legs(scenario));
        for (n, (name, flow)) in scenario.flow.iter().enumerate() {
            let router = &mut routers[usize::from(scenario.group.contains_key(&flow.to))];
            let voice = legs[n].iter().filter(|leg| leg.ends[0] != leg.ends[1]);
            let voice = voice.map(|leg| Load::of_leg(leg, flow.ip));
            // Voice takes the place of messages, which are few.
            let own = receivers(scenario, flow).into_iter().flat_map(|to| Load::of_flow(flow, to));
            let loads: Vec<Load<'_>> = if legs[n].is_empty() { own.collect() } else { voice.collect() };
            for load in loads {
                let mut path = Path::new(&topology, router, name, load)?;
                path.compress(&media, flow, |link| flows_on(scenario, &scenario.link[link], flow));
                paths.push((n, path));
            }
        }
        let users = Users::new(&paths);
        let links = link_budgets(scenario, &media, &users);
        let mut sharings = Sharings::new(scenario, &media);
        let flow = |(n, path): &(usize, Path)| {
            let sharing = sharings.of(&users, path.bottleneck(&media).0);
            FlowBudget::new(scenario, &media, *n, path, &sharing)
        };
        let mut flows: Vec<FlowBudget> = paths.iter().map(flow).collect();
        let terminals = Medium::shares(&media.layout.members(), &scenario.shared)?;
        contend(&mut flows, &terminals);
        let plans = Contacts::new(scenario, topology.node.keys().map(String::as_str).collect());
        let (contacts, bundles) = (plans.pairs()?, plans.forecasts()?);
        let plans = plans.named()?;
        Ok(Budget { links, terminals, flows, contacts, plans, dial: dial_plans(scenario), bundles })
    }
}

/// Returns the nodes that a flow goes to.
fn receivers<'a>(scenario: &'a Scenario, flow: &'a Flow) -> Vec<&'a str> {
    match scenario.group.get(&flow.to) {
        Some(group) => {
            group.members.iter().map(String::as_str).filter(|member| *member != flow.from).collect()
        }
        None => vec![&flow.to],
    }
}

/// Paths by the directions of links that they use.
///
/// No link looks through all paths.
struct Users<'a> {
    /// Flow and path, in the order of the paths.
    of: HashMap<(usize, Way), Vec<(usize, &'a Path)>>,
}

impl<'a> Users<'a> {
    fn new(paths: &'a [(usize, Path)]) -> Users<'a> {
        let mut of: HashMap<_, Vec<(usize, &Path)>> = HashMap::new();
        for (flow, path) in paths {
            for at in path.directions() {
                of.entry(at).or_default().push((*flow, path));
            }
        }
        Users { of }
    }

    /// Returns flow and path of each that uses a direction of a link.
    fn on(&self, link: usize, way: Way) -> &[(usize, &'a Path)] {
        self.of.get(&(link, way)).map_or(&[], Vec::as_slice)
    }
}

fn link_budgets(scenario: &Scenario, media: &Media<'_>, all: &Users<'_>) -> Vec<LinkBudget> {
    let both = |(n, (name, link)): (usize, (&String, &Link))| {
        let is_own =
            |way: &Way| matches!(media.side(n, *way).medium.passage(*way), Passage::Own | Passage::Groups);
        let own = Way::BOTH.into_iter().filter(is_own);
        let budgets = own.map(|way| {
            let users = all.on(n, way).iter();
            let users = users.filter_map(|(flow, path)| Some((*flow, path.packet_on(n, way)?)));
            let users: Vec<(usize, u64)> = users.collect();
            let longest = users.iter().map(|(_, len)| *len).max().unwrap_or(media.layout.mtu(n).get());
            let flows = users.iter().map(|(flow, _)| flows_on(scenario, link, &scenario.flow[*flow])).sum();
            let voice = VoiceLoad::new(scenario, media, all, (n, way));
            LinkBudget { voice, ..LinkBudget::new(media, (n, name), way, longest, flows) }
        });
        budgets.collect::<Vec<_>>()
    };
    scenario.link.iter().enumerate().flat_map(both).collect()
}

/// Returns the number of copies of a flow on one copy of a link.
fn flows_on(scenario: &Scenario, link: &Link, flow: &Flow) -> u64 {
    flows_on_copies(scenario, link, flow, 1)
}

/// Returns the number of copies of a flow on some copies of a link.
fn flows_on_copies(scenario: &Scenario, link: &Link, flow: &Flow, some: u32) -> u64 {
    let copies = u64::from(copies_between(scenario, [&link.between[0], &link.between[1]]));
    let all = u64::from(flow.count) * u64::from(copies_between(scenario, [&flow.from, &flow.to]));
    (all * u64::from(some)).div_ceil(copies)
}

/// Returns the number of copies of a link that share the resource of one.
fn sharing_copies(scenario: &Scenario, media: &Media<'_>, (link, way): (usize, Way)) -> u32 {
    let cost = media.cost(link, way);
    let between = &scenario.link[link].between;
    let [from, to] = [&between[way.index()], &between[1 - way.index()]].map(String::as_str);
    let all = copies_between(scenario, [from, to]);
    match cost.shared().map(|_| cost.sharing_copies()) {
        None | Some(SharingCopies::One) => 1,
        Some(SharingCopies::All) => all,
        Some(SharingCopies::OfNode) => all / copies_between(scenario, [from; 2]),
    }
}

/// Flows that share the rate of a direction of a link, or of its multiplex.
struct Sharing {
    /// Link and direction, or the multiplex.
    name: String,
    /// Flows with the number of their copies; the most numerous first.
    flows: Vec<(String, u64)>,
}

/// Shares of links and multiplexes, computed once for all flows of each.
struct Sharings<'a> {
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    /// Directions of links by the name of what they share.
    members: HashMap<&'a str, Vec<(usize, Way)>>,
    known: HashMap<(usize, Way), Rc<Sharing>>,
}

impl<'a> Sharings<'a> {
    fn new(scenario: &'a Scenario, media: &'a Media<'a>) -> Sharings<'a> {
        let mut members: HashMap<&str, Vec<(usize, Way)>> = HashMap::new();
        for at in (0..scenario.link.len()).flat_map(|n| [(n, Way::Forward), (n, Way::Return)]) {
            if let Some(shared) = media.cost(at.0, at.1).shared() {
                members.entry(shared).or_default().push(at);
            }
        }
        Sharings { scenario, media, members, known: HashMap::new() }
    }

    /// Returns the flows that share the rate of a direction of a link.
    fn of(&mut self, users: &Users<'_>, at: (usize, Way)) -> Rc<Sharing> {
        let shared = self.media.cost(at.0, at.1).shared();
        let all = shared
            .and_then(|shared| self.members.get(shared))
            .map_or(std::slice::from_ref(&at), Vec::as_slice);
        // Of those that share, the first stands for all.
        if let Some(known) = self.known.get(&all[0]) {
            return Rc::clone(known);
        }
        let (link_name, _) = self.scenario.link.get_index(at.0).expect("a path is of links");
        let name = shared.map_or_else(|| format!("{link_name} {}", at.1.name()), str::to_owned);
        let sharing = Rc::new(Sharing::new(self.scenario, self.media, users, name, all));
        self.known.insert(all[0], Rc::clone(&sharing));
        sharing
    }
}

impl Sharing {
    fn new(
        scenario: &Scenario,
        media: &Media<'_>,
        users: &Users<'_>,
        name: String,
        all: &[(usize, Way)],
    ) -> Sharing {
        let mut flows: IndexMap<usize, u64> = IndexMap::new();
        let (mut counted, mut streams) = (HashSet::new(), HashSet::new());
        for &(n, way) in all {
            let link = &scenario.link[n];
            let copies = sharing_copies(scenario, media, (n, way));
            for &(flow, _) in users.on(n, way) {
                // Where both directions are one medium, a flow shares it once, with its ACKs.
                if !counted.insert((n, flow)) && way == Way::Return {
                    continue;
                }
                // A stream that links have in common carries packets to a group once.
                let side = media.side(n, way);
                let group = scenario.group.get(&scenario.flow[flow].to);
                if let Some(stream) = group.and_then(|_| side.medium.multicast())
                    && !streams.insert((flow, &link.between[way.index()], stream))
                {
                    continue;
                }
                *flows.entry(flow).or_default() +=
                    flows_on_copies(scenario, link, &scenario.flow[flow], copies);
            }
        }
        let named =
            |(flow, count)| (scenario.flow.get_index(flow).map_or("", |(name, _)| name).to_owned(), count);
        let mut flows: Vec<(String, u64)> = flows.into_iter().map(named).collect();
        flows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Sharing { name, flows }
    }

    /// Returns the number of flows, at least 1.
    fn count(&self) -> u64 {
        self.flows.iter().map(|(_, count)| count).sum::<u64>().max(1)
    }

    /// Describes the flows: their number, the shared resource, and the names of the most numerous.
    fn describe(&self) -> String {
        const SHOWN: usize = 5;
        let name = |(name, count): &(String, u64)| match count {
            1 => name.clone(),
            count => format!("{name} ({count})"),
        };
        let mut names: Vec<String> = self.flows.iter().take(SHOWN).map(name).collect();
        names.extend((self.flows.len() > SHOWN).then(|| format!("{} others", self.flows.len() - SHOWN)));
        format!("{} flows share {}: {}", self.count(), self.name, names.join(", "))
    }
}

impl LinkBudget {
    fn new(
        media: &Media<'_>,
        (link, name): (usize, &str),
        way: Way,
        packet_len: u64,
        flows: u64,
    ) -> LinkBudget {
        let cost = media.cost(link, way);
        let on_line = cost.wire_len(packet_len as usize);
        let cells = cost.cells(packet_len as usize);
        LinkBudget {
            name: name.to_owned(),
            direction: way.name(),
            rate: cost.rate(),
            usable: cost.usable(),
            delay: media.delay(link, way),
            mtu: media.layout.mtu(link),
            packet: Bytes::new(packet_len),
            on_line,
            cells: cells.map(|(cells, _)| cells),
            padding: cells.map(|(_, padding)| padding),
            capacity: cost.capacity(packet_len as usize),
            queue: queue_of(media, link, way).map(|queue| queue_text(&queue)),
            flows,
            wifi: cost.airtime(packet_len as usize),
            voice: None,
            notes: cost.notes(packet_len as usize),
        }
    }
}

/// Delay in a queue that is worth a note.
///
/// The queue also holds [`BDPS_OF_QUEUE`].
const LONGEST_WAIT: Span = Span::from_secs(1);

/// Number of bandwidth-delay products of a queue that is too long.
const BDPS_OF_QUEUE: u64 = 2;

/// Returns the queue in front of a transmitter; `None` for a medium that has others.
fn queue_of(media: &Media<'_>, link: usize, way: Way) -> Option<Queue> {
    let side = media.side(link, way);
    side.medium.takes().queue.is_none().then(|| side.common.queue.unwrap_or_default())
}

/// Returns the capacity of a queue in words.
fn queue_text(queue: &Queue) -> String {
    let fields = serde_json::to_value(queue).expect("a queue is a table");
    let text = |key: &str| fields.get(key).filter(|value| !value.is_null()).cloned();
    let bytes = ["bytes", "limit", "limit_bytes"].into_iter().find_map(text);
    let packets = ["packets", "limit_packets"].into_iter().find_map(text);
    match (bytes, packets) {
        (Some(bytes), _) => bytes.as_str().map_or_else(|| bytes.to_string(), str::to_owned),
        (None, Some(packets)) => format!("{packets} packets"),
        (None, None) => format!("{DEFAULT_PACKETS} packets"),
    }
}

impl FlowBudget {
    fn new(scenario: &Scenario, media: &Media<'_>, n: usize, path: &Path, sharing: &Sharing) -> FlowBudget {
        let (name, flow) = scenario.flow.get_index(n).expect("a path is of a flow");
        let kind = flow.traffic.kind();
        let (bottleneck, ceiling) = path.bottleneck(media);
        let voice = path.voice.as_ref();
        let of_calls = voice.and_then(|voice| voice.offered());
        let offered = of_calls.or_else(|| kind.offered(Bytes::new(path.packet)));
        let mut budget = FlowBudget {
            name: name.clone(),
            copies: flow.count * copies_between(scenario, [&flow.from, &flow.to]),
            path: path.nodes.clone(),
            mtu: Bytes::new(path.mtu),
            payload: Bytes::new(path.payload),
            packet: Bytes::new(path.packet),
            one_way: path.one_way(media),
            min_rtt: path.min_rtt(media),
            compressed: compressed(scenario, media, path, offered),
            bottleneck: direction(scenario, bottleneck),
            ceiling,
            fair_share: ceiling.mul_f64(1.0 / sharing.count() as f64),
            offered,
            voice: voice.and_then(|voice| voice.budget()),
            tcp: None,
            warnings: Vec::new(),
        };
        budget.tcp = path.window.map(|window| TcpBudget::new(window, &budget));
        budget.warnings = match budget.tcp.as_ref().and_then(|_| splitter(scenario, path)) {
            Some((node, link)) => vec![format!(
                "the proxy of {node} splits it in front of {link}: window, round trip and slow start are those without it"
            )],
            None => tcp_warnings(scenario, media, flow, &budget, bottleneck),
        };
        budget.warnings.extend(warnings(flow, &budget, sharing));
        budget
    }
}

/// Returns the name of a direction of a link.
fn direction(scenario: &Scenario, (link, way): (usize, Way)) -> String {
    format!("{} {}", scenario.link.get_index(link).map_or("", |(name, _)| name), way.name())
}

/// Returns header compression on the links of a path, for flows of `offered` payload.
fn compressed(
    scenario: &Scenario,
    media: &Media<'_>,
    path: &Path,
    offered: Option<Rate>,
) -> Vec<CompressedFlow> {
    let of_link = |((link, way), lengths): ((usize, Way), Compressed)| {
        let rate = media.cost(link, way).usable().as_bps() as f64;
        let room = |offered: Rate| {
            let per_s = offered.as_bps() as f64 / (8.0 * path.payload.max(1) as f64);
            (rate / (8.0 * lengths.on_line_bytes * per_s)) as u64
        };
        CompressedFlow { link: direction(scenario, (link, way)), lengths, room: offered.map(room) }
    };
    path.compressed().map(of_link).collect()
}

/// Limits the fair share of flows to that under contention for a carrier.
///
/// Notes the contenders.
fn contend(flows: &mut [FlowBudget], terminals: &[ShareBudget]) {
    let by_name: HashMap<String, &ShareBudget> = terminals
        .iter()
        .map(|terminal| (format!("{} {}", terminal.name, terminal.direction), terminal))
        .collect();
    let mut counts: HashMap<&str, u32> = HashMap::new();
    terminals.iter().for_each(|terminal| *counts.entry(&terminal.carrier).or_default() += terminal.copies);
    for flow in flows {
        let Some(terminal) = by_name.get(&flow.bottleneck) else { continue };
        let count = counts[&*terminal.carrier];
        if count < 2 || terminal.share >= terminal.most {
            continue;
        }
        let part = terminal.share.as_bps() as f64 / terminal.most.as_bps().max(1) as f64;
        flow.fair_share = flow.fair_share.mul_f64(part);
        flow.warnings.push(format!(
            "{count} terminals share carrier {}; if all request, {} has {} of {}",
            terminal.carrier, flow.bottleneck, terminal.share, terminal.most
        ));
    }
}

impl TcpBudget {
    fn new(window: Window, flow: &FlowBudget) -> TcpBudget {
        let rtt = flow.min_rtt.unwrap_or_default();
        let window_needed = flow.ceiling.bdp(rtt);
        let initial = u64::from(window.initial) * flow.payload.get();
        let doublings = (window_needed.get().max(1) as f64 / initial.max(1) as f64).log2().max(0.0);
        let in_packets = flow.packet.get() as f64 / flow.payload.get().max(1) as f64;
        TcpBudget {
            window_needed,
            window_allowed: window.most,
            buffer_needed: Bytes::new((window_needed.get() as f64 * in_packets) as u64),
            window_limit: Rate::of(window.most, rtt).min(flow.ceiling),
            slow_start: rtt.mul_f64(doublings),
        }
    }
}

/// Returns the first node on a path that splits connections, and the link behind it.
fn splitter<'s>(scenario: &'s Scenario, path: &Path) -> Option<(&'s str, &'s str)> {
    let [_, inner @ .., _] = &path.nodes[..] else { return None };
    inner.iter().find_map(|node| {
        let (node, _) = scenario.node.get_key_value(node)?;
        let mut links = scenario.roles_of(node).iter().filter_map(Role::splits_at);
        let is_on = |link: &&str| {
            let number = scenario.link.get_index_of(*link);
            path.directions().iter().any(|(on, _)| Some(*on) == number)
        };
        Some((node.as_str(), links.find(is_on)?))
    })
}

fn tcp_warnings(
    scenario: &Scenario,
    media: &Media<'_>,
    flow: &Flow,
    budget: &FlowBudget,
    bottleneck: (usize, Way),
) -> Vec<String> {
    let mut warnings = Vec::new();
    let at = &budget.bottleneck;
    if let Some(tcp) = &budget.tcp {
        let (allowed, needed) = (tcp.window_allowed, tcp.window_needed);
        if allowed < needed && u64::from(flow.count) * allowed.get() < needed.get() {
            warnings.push(format!(
                "the window of {allowed} limits it to {} ({needed} would fill the path)",
                tcp.window_limit
            ));
        }
        let queue = queue_of(media, bottleneck.0, bottleneck.1);
        if let Some(held) = queue
            .as_ref()
            .and_then(|queue| queue_bytes(queue, budget.packet))
            .filter(|held| *held < tcp.buffer_needed)
        {
            warnings.push(format!(
                "the queue of {at} holds {held}; the path's bandwidth-delay product is {}",
                tcp.buffer_needed
            ));
        }
        let all = Bytes::new(allowed.get().saturating_mul(u64::from(flow.count)));
        let fits = queue.as_ref().and_then(|queue| queue_bytes(queue, budget.packet)).unwrap_or_default();
        let waits = fits.min(Bytes::new(all.get().saturating_sub(needed.get())));
        let delay = budget.ceiling.span_of(waits);
        if delay > LONGEST_WAIT && waits.get() > BDPS_OF_QUEUE * tcp.buffer_needed.get() {
            warnings.push(format!(
                "windows of {all} let {waits} wait in the queue of {at}, {} of delay; set `queue` to about {}",
                show::time(delay),
                tcp.buffer_needed
            ));
        }
        let lasts = scenario.duration.saturating_sub(flow.start);
        if tcp.slow_start > lasts {
            warnings.push(format!("slow start alone takes {}; the flow lasts {lasts}", tcp.slow_start));
        }
    }
    warnings
}

fn warnings(flow: &Flow, budget: &FlowBudget, sharing: &Sharing) -> Vec<String> {
    let (mut warnings, at) = (Vec::new(), &budget.bottleneck);
    let all = budget.offered.map_or(0.0, |offered| offered.as_bps() as f64 * f64::from(flow.count));
    if all > budget.ceiling.as_bps() as f64 {
        let (all, ceiling) = (Rate::from_bps(all as u64), budget.ceiling);
        warnings.push(format!("it offers {all}, but {at} carries only {ceiling} of such packets"));
    }
    if sharing.count() > u64::from(flow.count) {
        warnings.push(sharing.describe());
    }
    warnings
}

/// Returns the capacity of a queue in bytes, if it is bounded.
fn queue_bytes(queue: &Queue, packet: Bytes) -> Option<Bytes> {
    let text = queue_text(queue);
    match text.strip_suffix(" packets") {
        Some(packets) => {
            packets.parse::<u64>().ok().map(|packets| Bytes::new(packets.saturating_mul(packet.get())))
        }
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
