//! Budget of a scenario before its run: `bentpipe check`.
//!
//! Arithmetic only: capacities after framing, round trips without queueing, and the windows and buffers they
//! require. Formulas are next to the fields of their results. Rates and delays are those of the run's states: after each event,
//! of files of values in time, of signals and outages, with what channels lose on average. Not considered: interactions of flows
//! other than max-min fair shares, what a sender does about losses, and needs of random traffic beyond its mean. Of calls with
//! signalling the voice is counted, on each leg of its way by exchanges.

mod active;
mod along;
mod barrier;
mod bundles;
mod capture;
mod captured;
mod ceilings;
mod chance;
mod conference;
mod contacts;
mod fragments;
mod group;
mod kept;
mod loss;
mod marks;
mod medium;
mod notes;
mod path;
mod queues;
mod route;
mod sent;
mod share;
mod sharing;
pub(crate) mod show;
mod states;
mod takes;
mod tcp;
mod transfer;
mod voice;
mod windows;

use std::collections::{HashMap, HashSet};

use bentpipe_dtn::network::Layer;
use bentpipe_record::ContactPlan;
use bentpipe_scenario::copies::{self, copies as copies_between};
use bentpipe_scenario::{Access, Flow, Link, Medium, Moment, Problem, Scenario, Traffic, Way};
pub use bentpipe_site::{Airtime, Compressed, ShareBudget};
use bentpipe_site::{Opened, Passage, Recorded, Router, Topology};
use bentpipe_units::{Bytes, Rate, Span};
use serde::Serialize;

use active::Activities;
use bundles::{is_whole, layer, network, pieces, stops};
pub use capture::CaptureBudget;
use contacts::Contacts;
pub use contacts::{Arrival, BundleForecast, ContactBudget};
use medium::Media;
use path::{Load, Path};
use queues::{queue_of, queue_text};
use sent::at_least_one;
use sharing::{Crossing, Forecast, Sharing, Sharings};
use states::States;
pub use states::{DelayRange, RateShare};
pub use tcp::TcpBudget;
use transfer::{Climbs, Transfer};
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
    /// Expected sizes of captures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<CaptureBudget>,
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
    /// Number of flows that use it, with copies that begin and ACKs.
    pub flows: u64,
    /// Time that packet takes on a medium which both directions share.
    pub wifi: Option<Airtime>,
    /// Voice on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice: Option<VoiceLoad>,
    /// Line rates over the run, the least first. Empty if it stays.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateShare>,
    /// Delays over the run, with its channel's. `None` if it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<DelayRange>,
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
    /// Number of fragments of a datagram longer than the path's MTU.
    ///
    /// Payload and packet are means over them.
    #[serde(skip_serializing_if = "is_one")]
    pub fragments: u64,
    /// Propagation and transmission one way. `None` if nothing gets through at the start.
    pub one_way: Option<Span>,
    /// Least propagation and transmission of a packet there and an ACK back.
    ///
    /// Random delays count by their mean.
    pub min_rtt: Option<Span>,
    /// Least, mean and greatest of that over the run, if it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<[Span; 3]>,
    /// Links that compress its headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compressed: Vec<CompressedFlow>,
    /// The link that limits it.
    pub bottleneck: String,
    /// Most goodput: of payload, without other flows, the mean over its time. ACKs back count too.
    pub ceiling: Rate,
    /// Goodput that answers allow where they fill their way.
    ///
    /// It holds if none is lost and the window stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_answers: Option<Rate>,
    /// Max-min fair share of each copy. Flows that send at a time share, each up to what it offers or its window allows.
    pub fair_share: Rate,
    /// Reason why nothing of it arrives, if it is known before the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<String>,
    /// Mean part of its packets, or of its datagrams in fragments, that channels lose.
    #[serde(skip_serializing_if = "is_nothing")]
    pub lost: f64,
    /// Set if lengths and rate of its packets are not known before the run.
    ///
    /// So it is with messages of calls. Payload, packet and goodput are those of the longest packets of its path then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unsized: bool,
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

fn is_one(count: &u64) -> bool {
    *count == 1
}

fn is_nothing(part: &f64) -> bool {
    *part == 0.0
}

impl FlowBudget {
    /// Returns `true` if it gets less than its window and its answers allow.
    fn is_squeezed(&self) -> bool {
        let window = self.tcp.as_ref().map_or(Rate::from_bps(u64::MAX), |tcp| tcp.window_limit);
        let most = self.by_answers.map_or(window, |by_answers| by_answers.min(window));
        (self.fair_share.as_bps() as f64) < 0.999 * most.as_bps() as f64
    }
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
    /// Usable rate / (packets per second * bytes on the line). `None` if they offer nothing, or it is not known what.
    pub room: Option<u64>,
}

impl Budget {
    /// Computes the budget of a valid scenario.
    ///
    /// # Errors
    /// Returns an error if a flow has no path.
    pub fn new(scenario: &Scenario) -> Result<Budget, Problem> {
        Budget::with_files(scenario, None)
    }

    /// Computes the budget of a valid scenario with access to its files.
    ///
    /// # Errors
    /// Returns an error if a flow has no path.
    pub fn with_files(scenario: &Scenario, access: Option<&Access>) -> Result<Budget, Problem> {
        let mut media = Media::new(scenario)?;
        access.into_iter().for_each(|access| media.read_tables(access));
        let recorded = recorded(scenario, access);
        let topology = media.layout.topology(&media.facts);
        let paths = paths(scenario, &media, &topology, &recorded)?;
        let terminals = Medium::shares(&media.layout.members(), &scenario.shared)?;
        let mut climbs = Climbs::new(scenario, &paths);
        let outlook = outlook(scenario, access, (&media, &paths), &recorded, &mut climbs)?;
        let Outlook { states, forecasts, crossings } = outlook;
        let users = Users::new(scenario, &paths);
        let links = link_budgets(scenario, &media, &users, &states);
        let mut sharings = Sharings::new(scenario, &media, &states);
        let recorded = &recorded;
        let apart = apart(scenario);
        let changed = moments(scenario).flat_map(|moment| &moment.difference.node);
        let changed = changed.map(|(node, _)| node.as_str()).collect();
        let mut ground =
            Ground { apart, changed, scenario, media: &media, states: &states, recorded, climbs };
        let flow = |((n, path), forecast): (&(usize, Path), &Forecast)| {
            let sharing = sharings.of(&users, forecast.limit);
            FlowBudget::new(&mut ground, *n, path, forecast, &sharing)
        };
        let mut flows: Vec<FlowBudget> = paths.iter().zip(&forecasts).map(flow).collect();
        barrier::few_ports(scenario, &states.activities, &paths, &mut flows);
        notes::contend(scenario, &paths, &mut flows, &terminals);
        let activities: &Activities = &states.activities;
        notes::overload((scenario, activities), (&paths, &forecasts), &mut flows, &links);
        notes::groups(scenario, &mut flows);
        notes::unlike(scenario, activities, &paths, &mut flows);
        let captures = captured::all((scenario, &media, &states), (&paths, &crossings), &flows);
        let plans = Contacts::new(scenario, topology.node.keys().map(String::as_str).collect());
        let (contacts, bundles) = (plans.pairs()?, plans.forecasts()?);
        plans.limit(&mut flows)?;
        let plans = plans.named()?;
        let dial = dial_plans(scenario);
        Ok(Budget { links, terminals, flows, contacts, plans, dial, bundles, captures })
    }
}

/// States of a run, and what its paths carry in them.
struct Outlook {
    states: States,
    forecasts: Vec<Forecast>,
    /// Packets on the links of each path, if links are captured.
    crossings: Vec<Vec<Crossing>>,
}

/// The most rounds in which ends of transfers are computed, by the shares before.
const MOST_ROUNDS: usize = 4;

/// The most paths of which this is done more than once.
const MOST_PATHS: usize = 2_000;

/// Computes the states of a run. Transfers of a size end by the shares that they have.
fn outlook(
    scenario: &Scenario,
    access: Option<&Access>,
    (media, paths): (&Media<'_>, &[(usize, Path)]),
    recorded: &HashMap<usize, Recorded>,
    climbs: &mut Climbs,
) -> Result<Outlook, Problem> {
    let mut lasting = lasting(scenario, recorded);
    let rounds = if paths.len() > MOST_PATHS { 1 } else { MOST_ROUNDS };
    for round in 0.. {
        let states = States::new(scenario, media, access, Activities::new(scenario, &lasting))?;
        let forecasts = sharing::forecasts(scenario, media, &states, paths);
        let (forecasts, crossings): (Vec<Forecast>, Vec<_>) = forecasts.into_iter().unzip();
        let mut has_changed = false;
        for ((n, path), forecast) in paths.iter().zip(&forecasts) {
            let flow = &scenario.flow[*n];
            let drains = active::drains(scenario, flow);
            if size(flow).is_none() && drains.is_none() {
                continue;
            }
            let Some(window) = path.window else { continue };
            let fluid =
                |bytes: Bytes| Span::from_secs_f64((8 * bytes.get()) as f64 / at_least_one(forecast.fair));
            let drained = drains.map_or(Span::MAX, |time| time + fluid(window.ends[0]));
            let takes = size(flow).map_or(drained, |size| {
                let transfer = Transfer::new(scenario, (media, &states), (*n, path), climbs);
                let least = transfer.and_then(|transfer| transfer.takes).unwrap_or_default();
                fluid(size).max(least).min(drained)
            });
            let before = lasting.insert(*n, takes);
            has_changed |= before.is_none_or(|before| differs(before, takes));
        }
        if !has_changed || round >= rounds {
            return Ok(Outlook { states, forecasts, crossings });
        }
    }
    unreachable!("the number of rounds is bounded")
}

/// Returns `true` if two times differ by more than a hundredth.
fn differs(one: Span, other: Span) -> bool {
    let [one, other] = [one, other].map(Span::as_secs_f64);
    (one - other).abs() > 0.01 * one.max(other)
}

/// Returns the events that fall into the run.
fn moments(scenario: &Scenario) -> impl Iterator<Item = &Moment> {
    scenario.timeline.iter().filter(|moment| moment.at < scenario.duration)
}

/// Returns the size of a transfer that ends with its data.
fn size(flow: &Flow) -> Option<Bytes> {
    flow.traffic.kind().takes().application.then(|| flow.application.size()).flatten()
}

/// Returns the times that flows send for which end by themselves, by their numbers.
fn lasting(scenario: &Scenario, recorded: &HashMap<usize, Recorded>) -> HashMap<usize, Span> {
    let of = |(n, flow): (usize, &Flow)| {
        let kind = flow.traffic.kind();
        let file = recorded.get(&n).map(|file| file.lasts);
        let written = kind.takes().application.then(|| flow.application.lasts()).flatten();
        Some((n, [file, kind.lasts(), written].into_iter().flatten().min()?))
    };
    scenario.flow.values().enumerate().filter_map(of).collect()
}

/// Returns the propagation and transmission one way of each flow, towards each of its receivers.
///
/// # Errors
/// Returns an error if a flow has no path.
pub(crate) fn one_ways(scenario: &Scenario) -> Result<Vec<(&str, Span)>, Problem> {
    let media = Media::new(scenario)?;
    let topology = media.layout.topology(&media.facts);
    let paths = paths(scenario, &media, &topology, &HashMap::new())?;
    let name = |flow: usize| scenario.flow.get_index(flow).map_or("", |(name, _)| name);
    Ok(paths.iter().map(|(flow, path)| (name(*flow), path.one_way(&media))).collect())
}

/// Returns the ways of each flow, with the number of the flow.
fn paths(
    scenario: &Scenario,
    media: &Media<'_>,
    topology: &Topology,
    recorded: &HashMap<usize, Recorded>,
) -> Result<Vec<(usize, Path)>, Problem> {
    let mut routers = [Router::new(topology)?, Router::of_groups(topology)?];
    let (mut paths, legs) = (Vec::new(), voice::legs(scenario));
    let mixes = conference::mixes(scenario);
    let mut contacts = contacts::Open::new(scenario, topology);
    for (n, (name, flow)) in scenario.flow.iter().enumerate() {
        let router = &mut routers[usize::from(scenario.group.contains_key(&flow.to))];
        let voice = legs[n].iter().filter(|leg| leg.ends[0] != leg.ends[1]);
        let voice = voice.map(|leg| Load::of_leg(leg, flow.ip));
        // Voice takes the place of messages, which are few.
        let file = recorded.get(&n);
        let mix = mixes.get(&n).copied();
        let own =
            receivers(scenario, flow).into_iter().flat_map(|to| Load::of_flow(flow, to, file.cloned(), mix));
        let loads: Vec<Load<'_>> = if legs[n].is_empty() { own.collect() } else { voice.collect() };
        let is_whole = is_whole(scenario, flow);
        let mtu = group::mtu(scenario, topology, (name, flow), router)?;
        for load in loads {
            let load = Load { cuts: load.cuts && !(is_whole && load.window.is_none()), mtu, ..load };
            let mut path = Path::new(topology, router, name, load)?;
            path.compress(media, flow, |link| flows_on(scenario, &scenario.link[link], n));
            path.dscps = marks::of(scenario, flow, &path);
            path.filter(media, flow);
            path.blocked = barrier::find(scenario, flow, &path);
            path.stops = stops(scenario, flow, &path.nodes);
            let layer = layer(scenario, flow);
            path.repeats = matches!(layer, Some(Layer::Ltp | Layer::Tcpcl));
            path.waits = matches!(flow.traffic, Traffic::Tfrc(_)) || path.window.is_some() || path.repeats;
            path.waits |= layer.is_some() && !contacts.is_open((flow, &path));
            path.pieces = pieces(scenario, flow, &path).max(path.fragments);
            paths.push((n, path));
        }
    }
    Ok(paths)
}

/// Returns the packets of files that flows send, by the numbers of the flows. Files that cannot be read are left out.
fn recorded(scenario: &Scenario, access: Option<&Access>) -> HashMap<usize, Recorded> {
    let open = |name: &std::path::Path| {
        let access = access.ok_or("no access to files")?;
        let file = access.open(name).map_err(|error| error.to_string())?;
        Ok(Opened { shown: access.shown(name), bytes: Box::new(file) })
    };
    // Flows with the same settings have their file in common.
    let mut known: HashMap<(String, Span), Option<Recorded>> = HashMap::new();
    let mut of = |(n, flow): (usize, &Flow)| {
        let until = flow.stop.unwrap_or(Span::MAX).min(scenario.duration).saturating_sub(flow.start);
        let kind = flow.traffic.kind();
        // A kind without a file reads none.
        let _ = kind.recorded(&mut |_| Err(String::new()), until)?;
        let read = || kind.recorded(&mut { open }, until).and_then(Result::ok);
        let recorded = known.entry((format!("{kind:?}"), until)).or_insert_with(read);
        Some((n, recorded.clone()?))
    };
    scenario.flow.values().enumerate().filter_map(&mut of).collect()
}

/// Returns a note on each flow that sends another part of its file than all.
pub fn file_notes(scenario: &Scenario, access: &Access) -> Vec<String> {
    let recorded = recorded(scenario, Some(access));
    let note = |(n, (name, flow)): (usize, (&String, &Flow))| {
        let file = recorded.get(&n)?;
        let (sent, (all, ..)) = (file.packets, file.of);
        let is_stopped = flow.stop.is_some_and(|stop| stop < scenario.duration);
        let end = if is_stopped { "its stop comes" } else { "the run ends" };
        let is_longer = (sent < all).then(|| format!("{sent} of its {all} packets are sent: {end} before"));
        let note: Vec<&str> = file.note.iter().chain(&is_longer).map(String::as_str).collect();
        (!note.is_empty()).then(|| format!("flow.{name}: its file: {}", note.join("; ")))
    };
    scenario.flow.iter().enumerate().filter_map(note).collect()
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
    fn new(scenario: &Scenario, paths: &'a [(usize, Path)]) -> Users<'a> {
        let mut of: HashMap<_, Vec<(usize, &Path)>> = HashMap::new();
        for (flow, path) in paths {
            let to_group = scenario.group.contains_key(&scenario.flow[*flow].to);
            for at in path.directions() {
                let users = of.entry(at).or_default();
                // A packet to a group passes once, however many of its members are behind.
                if !(to_group && users.last().is_some_and(|(last, _)| last == flow)) {
                    users.push((*flow, path));
                }
            }
        }
        Users { of }
    }

    /// Returns flow and path of each that uses a direction of a link.
    fn on(&self, link: usize, way: Way) -> &[(usize, &'a Path)] {
        self.of.get(&(link, way)).map_or(&[], Vec::as_slice)
    }
}

fn link_budgets(scenario: &Scenario, media: &Media<'_>, all: &Users<'_>, states: &States) -> Vec<LinkBudget> {
    let times = voice::CallTimes::new(scenario, &states.activities);
    let both = |(n, (name, link)): (usize, (&String, &Link))| {
        let is_own =
            |way: &Way| matches!(media.side(n, *way).medium.passage(*way), Passage::Own | Passage::Groups);
        let own = Way::BOTH.into_iter().filter(is_own);
        let budgets = own.map(|way| {
            let users = all.on(n, way).iter();
            // Of some flows no length is known.
            let len = |path: &Path| path.packet_on(n, way).filter(|_| !path.is_unsized);
            let users: Vec<(usize, Option<u64>)> = users.map(|(flow, path)| (*flow, len(path))).collect();
            let longest = users.iter().filter_map(|(_, len)| *len).max().unwrap_or(media.layout.mtu(n).get());
            let begin = |flow: usize| {
                (flows_on(scenario, link, flow) as f64 * states.activities.begin(flow)).ceil() as u64
            };
            let flows = users.iter().map(|(flow, _)| begin(*flow)).sum();
            let voice = VoiceLoad::new((scenario, &times), media, all, (n, way));
            let (rates, delays) = (states.rates((n, way)).to_vec(), states.delays((n, way)));
            let mut budget =
                LinkBudget { voice, rates, delays, ..LinkBudget::new(media, (n, name), way, longest, flows) };
            budget.notes.extend(notes::of_link(media, states, (n, way), longest));
            let both = Way::BOTH
                .into_iter()
                .flat_map(|way| all.on(n, way).iter().filter_map(move |(_, path)| path.data_on(n, way)));
            budget.notes.extend(notes::in_turn(media.cost(n, way), both));
            budget
        });
        budgets.collect::<Vec<_>>()
    };
    scenario.link.iter().enumerate().flat_map(both).collect()
}

/// Returns the number of copies of a flow on one copy of a link.
fn flows_on(scenario: &Scenario, link: &Link, flow: usize) -> u64 {
    flows_on_copies(scenario, link, flow, 1)
}

/// Returns the number of copies of a flow on some copies of a link.
fn flows_on_copies(scenario: &Scenario, link: &Link, flow: usize, some: u32) -> u64 {
    let copies = u64::from(copies_between(scenario, [&link.between[0], &link.between[1]]));
    (copies_of(scenario, flow) * u64::from(some)).div_ceil(copies)
}

/// Returns the number of copies of a flow that have its settings.
fn copies_of(scenario: &Scenario, flow: usize) -> u64 {
    scenario.flow.get_index(flow).map_or(1, |(name, flow)| copies::of(scenario, (name, flow)).len() as u64)
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
            delay: media.facts[2 * link + way.index()].delay,
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
            rates: Vec::new(),
            delays: None,
            notes: cost.notes(packet_len as usize),
        }
    }
}

/// Network of a budget.
struct Ground<'a> {
    /// Links with copies that have settings of their own, and the number of those.
    apart: HashMap<&'a str, u32>,
    /// Nodes that events change.
    changed: HashSet<&'a str>,
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    states: &'a States,
    /// Packets of files, by the numbers of their flows.
    recorded: &'a HashMap<usize, Recorded>,
    climbs: Climbs,
}

impl FlowBudget {
    fn new(
        ground: &mut Ground<'_>,
        n: usize,
        path: &Path,
        forecast: &Forecast,
        sharing: &Sharing,
    ) -> FlowBudget {
        let (scenario, media, states) = (ground.scenario, ground.media, ground.states);
        let (name, flow) = scenario.flow.get_index(n).expect("a path is of a flow");
        let of_flow = states.of_flow(n);
        let round_trips = path.round_trips(media, states, &of_flow);
        let voice = path.voice.as_ref();
        let offered = sharing::offered(flow, path);
        let transfer = Transfer::new(scenario, (media, states), (n, path), &mut ground.climbs);
        let transfer =
            transfer.map(|all| Transfer { takes: all.takes.map(|takes| takes.mul_f64(LEAST)), ..all });
        let acks_wait = transfer.is_some_and(|transfer| transfer.acks_wait);
        let window = path.window.map(|window| path.window_rate(window.most, media, states, &of_flow));
        let mut budget = FlowBudget {
            name: name.clone(),
            copies: u32::try_from(copies_of(scenario, n)).unwrap_or(u32::MAX),
            path: path.nodes.clone(),
            mtu: Bytes::new(path.mtu),
            payload: Bytes::new(path.payload),
            packet: Bytes::new(path.packet),
            fragments: path.fragments,
            one_way: bounded(path.one_way(media)),
            min_rtt: round_trips.and_then(|[least, ..]| bounded(least)),
            round_trips: round_trips.filter(|[least, _, most]| least < most && bounded(*most).is_some()),
            compressed: compressed(scenario, media, path, offered),
            bottleneck: direction(scenario, forecast.limit),
            ceiling: most_goodput(path, forecast, acks_wait.then(|| states.seconds(n, &of_flow))),
            by_answers: (path.window.is_some() && forecast.is_by_answers()).then_some(forecast.alone),
            fair_share: forecast.fair.min(forecast.alone),
            blocked: path.blocked.as_ref().map(|barrier| barrier.why.clone()),
            lost: if path.blocked.is_none() && forecast.arrives < MOST_WHOLE {
                1.0 - forecast.arrives
            } else {
                0.0
            },
            is_unsized: path.is_unsized,
            offered,
            voice: voice.and_then(|voice| voice.budget()),
            tcp: None,
            warnings: Vec::new(),
        };
        if budget.one_way.is_none() && budget.ceiling.as_bps() <= 1 {
            let why = format!("nothing gets through {}: nothing arrives", budget.bottleneck);
            budget.blocked = budget.blocked.take().or(Some(why));
            budget.lost = 0.0;
            budget.warnings = notes::of_flow(ground, (n, path), (forecast, sharing), &budget);
            return budget;
        }
        // A transfer that ends in better times has a mean of its own.
        if let Some((size, takes)) =
            transfer.filter(|all| all.changes).and_then(|all| size(flow).zip(all.takes))
        {
            budget.ceiling = budget.ceiling.max(Rate::of(size, takes));
        }
        let rtt = round_trips.map(|[_, mean, _]| mean).unwrap_or_default();
        budget.tcp = path.window.zip(window).map(|of| {
            let trip = (rtt, path.waits(media));
            TcpBudget::new(of, (forecast.sent, trip), &budget, transfer)
        });
        budget.warnings = notes::of_flow(ground, (n, path), (forecast, sharing), &budget);
        budget.warnings.extend(windows::of_transfer(ground, flow, (&budget, transfer.as_ref())));
        budget
    }
}

/// Returns the most goodput of a path without others.
///
/// Behind ACKs that fill their way a window may be sent more than they let through. Where they are lost, others acknowledge more.
/// `seconds` are those in which it sends, if its ACKs wait and none is lost.
fn most_goodput(path: &Path, forecast: &Forecast, seconds: Option<f64>) -> Rate {
    let Some(window) = path.window.filter(|_| forecast.is_by_answers()) else { return forecast.alone };
    let Some(seconds) = seconds else { return forecast.of_data };
    let more = 8.0 * window.most.get() as f64 / seconds.max(1e-9);
    forecast.of_data.min(Rate::from_bps((forecast.alone.as_bps() as f64 + more).min(1e18) as u64))
}

/// Returns the number of copies with settings of their own by their links.
fn apart(scenario: &Scenario) -> HashMap<&str, u32> {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for link in scenario.link.keys().filter_map(|name| copies::link_of(scenario, name)) {
        *counts.entry(link).or_default() += 1;
    }
    counts
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
        CompressedFlow {
            link: direction(scenario, (link, way)),
            lengths,
            room: offered.filter(|offered| offered.as_bps() > 0).map(room),
        }
    };
    path.compressed().map(of_link).collect()
}

/// Time that no path takes. What is longer is of a line that carries nothing.
const NEVER: Span = Span::from_nanos(1 << 62);

/// Returns a time, unless it is without bound.
fn bounded(time: Span) -> Option<Span> {
    (time < NEVER).then_some(time)
}

/// Part that arrives where nothing is lost, with the roundings of its sum.
const MOST_WHOLE: f64 = 1.0 - 1e-9;

/// Part of a computed completion that none falls short of.
///
/// Packets of a run are not a fluid.
const LEAST: f64 = 0.98;

#[cfg(test)]
mod tests;
