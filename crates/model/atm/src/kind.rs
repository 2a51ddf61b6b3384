//! Virtual channels through a network of ATM switches.
//!
//! A link that is a virtual channel is to its nodes as any other: packets go in at one end and come out at the other. Cells
//! pass the lines of least delay, then the fewest. Links with a `multicast` name are leaves of one point-to-multipoint
//! channel, a tree of such paths.

mod bottleneck;
mod capture;
mod config;
mod network;
mod no_return;
mod paths;
mod tree;

use std::collections::HashMap;

use crate::fault::Config as CellFault;
use crate::{Class, Encapsulation, Faults, Interface, Service};
use bentpipe_net::{Framing, InvalidConfig, Port};
use bentpipe_sim::ElementId;
use bentpipe_units::{Bytes, Rate};
use bentpipe_wire::{aal5, llc};

use bentpipe_site::{
    Assembly, At, CaptureFormat, Changes, Changing, Cost, Facts, Form, MediumKind, Member, NativeChannel,
    NativeEnds, Order, Part, Passage, Passed, Problem, Review, Scope, SharedParts, Site, Slot, Takes, Way,
    Wired, set_all,
};
use bottleneck::{Bottleneck, Streams};
pub use config::{Atm, AtmLine, AtmStream, CellChannel, CellSource, Kind, Receivers};
use network::Network;
use no_return::NoReturn;
use paths::{Graph, Tree};

const OTHER: &str = "a virtual channel has none of its own: expected none";

/// Queues without a limit would grow with what real hosts send: maximum length in cells.
const MAX_CELLS: u32 = 1_200_000;

impl MediumKind for Kind {
    type Shared = Atm;
    const SCOPE: Scope = Scope::Link;
    const TAKES: Takes = Takes {
        queue: Some(
            "a virtual channel has none of its own: expected `medium.limit`, or `atm.switch.NAME.limit`",
        ),
        channel: Some("a virtual channel has none of its own: expected `atm.line.NAME.channel`"),
        stages: Some(OTHER),
        real_ends: Some("a virtual channel"),
    };

    fn check(all: &[Member<'_, Self>], _: &Atm, review: &mut Review<'_>) {
        for member in all {
            let place = member.place;
            review.ensure(!place.is_own("rate"), &place.own_key("rate"), OTHER);
            review.ensure(!place.is_own("delay"), &place.own_key("delay"), OTHER);
            // A scenario as an older version ran it has that of AAL5.
            if member.line.framing() != (Framing::Aal5LlcSnap { sdh: false }) {
                const FRAMING: &str = "a virtual channel has its own: expected `medium.encapsulation`";
                bentpipe_site::line::refuse_framing(member, FRAMING, review);
            }
        }
        tree::check(all, review);
    }

    fn mtu(&self) -> Bytes {
        // RFC 2225.
        Bytes::new(9180)
    }

    fn facts(all: &[Member<'_, Self>], atm: &Atm) -> Result<Vec<Facts>, Problem> {
        let graph = Graph::new(atm);
        let mut ways = Ways::new(&graph);
        all.iter().map(|member| facts(member, atm, &mut ways)).collect()
    }

    fn costs(all: &[Member<'_, Self>], atm: &Atm) -> Result<Vec<Box<dyn Cost>>, Problem> {
        let graph = Graph::new(atm);
        let (mut ways, streams) = (Ways::new(&graph), Streams::new(atm, &graph));
        let mut notes = tree::notes(all, atm, &mut ways);
        let cost = |(n, member): (usize, &Member<'_, Self>)| -> Result<Box<dyn Cost>, Problem> {
            let lines = facts(member, atm, &mut ways)?.rate;
            let vc = member.medium.clone();
            let rate = peak(vc.service).map_or(lines, |peak| peak.min(lines));
            let yields = matches!(vc.service.class(), Class::Abr | Class::Ubr);
            let path = ways.of(member, [member.from, member.to]).unwrap_or_default();
            let left = yields.then_some(&streams);
            let bottleneck = left.and_then(|streams| Bottleneck::of(&path, atm, streams));
            let is_abr = vc.service.class() == Class::Abr;
            let passed = path.iter().map(|at| passed(*at, atm, (left, is_abr))).collect();
            let mut notes = notes.remove(&n).unwrap_or_default();
            let faults = faults(&path, atm);
            notes.extend(not_forecast(&path, atm));
            Ok(Box::new(ChannelCost { rate, vc, bottleneck, passed, faults, notes }))
        };
        all.iter().enumerate().map(cost).collect()
    }

    fn assembly<'s>(row: usize, all: Vec<Member<'s, Self>>, atm: &'s Atm) -> Box<dyn Assembly + 's> {
        let natives = Vec::new();
        let forward = all.iter().enumerate().filter(|(_, member)| member.way == Way::Forward);
        let forward = forward.map(|(n, member)| (member.link, n)).collect();
        Box::new(Channels {
            row,
            all,
            forward,
            rates: Vec::new(),
            atm,
            ends: Vec::new(),
            natives,
            native_ends: Vec::new(),
            faults: SharedParts::new(),
        })
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        let Kind { multicast, service, encapsulation, limit, receive } = at.after.medium;
        let (before, expected) = (at.before.medium, "expected what the scenario started with");
        at.refuse(&[
            ("medium.multicast", *multicast == before.multicast, expected),
            ("medium.service", *service == before.service, expected),
            ("medium.encapsulation", *encapsulation == before.encapsulation, expected),
            ("medium.limit", *limit == before.limit, expected),
        ])?;
        match (before.receive, *receive) {
            (had, wanted) if had == wanted => {}
            // The root of a point-to-multipoint channel receives nothing.
            (Some(_), Some(_)) if multicast.is_some() && at.after.way == Way::Forward => {}
            (Some(_), Some(config)) => {
                let path = format!("vc/{}/{}", at.handle.name, at.handle.from);
                to.set(
                    at.handle.line,
                    at.key("medium.receive"),
                    config,
                    move |end: &mut Interface, now, config| {
                        let is_there = end.set_receive(now, &path, &config)?;
                        InvalidConfig::ensure(is_there, "receive", "an end with a receive buffer")
                    },
                );
            }
            (had, _) => {
                let there = if had.is_some() { "cannot be removed" } else { "cannot be added" };
                let problem = format!("{there} while it runs: expected what the scenario started with");
                return Err(Problem::new(at.after.place.key("medium.receive"), problem));
            }
        }
        Ok(())
    }

    fn change_shared(
        before: &Atm,
        after: &Atm,
        parts: &SharedParts<ElementId>,
        to: &mut Changes,
    ) -> Result<(), Problem> {
        if before.without_channels() != after.without_channels() {
            return Err(Problem::new("", bentpipe_site::UNCHANGEABLE));
        }
        for (name, line) in &after.line {
            if line.channel != before.line[name].channel {
                change_line(name, line, parts, to)?;
            }
        }
        Ok(())
    }

    fn multicast(&self) -> Option<String> {
        self.multicast.as_ref().map(|name| format!("vc {name}"))
    }

    fn passage(&self, way: Way) -> Passage {
        match (&self.multicast, way) {
            (None, _) => Passage::Own,
            (Some(_), Way::Forward) => Passage::Groups,
            (Some(_), Way::Return) => Passage::Closed,
        }
    }

    fn bound(&mut self, link: &str, notices: &mut Vec<String>) {
        self.limit.get_or_insert_with(|| {
            notices.push(format!("link \"{link}\": ends without a limit get one of {MAX_CELLS} cells"));
            MAX_CELLS
        });
    }
}

/// Adds changes of the faults of a line, in both directions.
fn change_line(
    name: &str,
    line: &AtmLine,
    parts: &SharedParts<ElementId>,
    to: &mut Changes,
) -> Result<(), Problem> {
    let faults = line.channel.as_ref().map_or(&[][..], |channel| channel.faults());
    for way in Way::BOTH {
        let elements = parts.get(&format!("line/{name}/{}", way.name())).map_or(&[][..], Vec::as_slice);
        let key = format!("atm.line.{name}.channel");
        set_all(key, elements, faults.to_vec(), to, |element: &mut Faults, _, config| element.set(&config))?;
    }
    Ok(())
}

/// Paths of channels over lines.
struct Ways<'g> {
    graph: &'g Graph<'g>,
    /// Trees of point-to-multipoint channels, by their roots.
    trees: HashMap<String, Tree<'g>>,
}

impl<'g> Ways<'g> {
    fn new(graph: &'g Graph<'g>) -> Ways<'g> {
        Ways { graph, trees: HashMap::new() }
    }

    /// Returns the lines of a member's channel between two ends.
    fn of(&mut self, member: &Member<'_, Kind>, [from, to]: [&str; 2]) -> Result<Vec<(usize, Way)>, String> {
        match member.medium.multicast {
            Some(_) => self.branch(from, to),
            None => self.graph.path(from, to),
        }
    }

    /// Returns the lines from the root of a point-to-multipoint channel to a leaf.
    fn branch(&mut self, root: &str, to: &str) -> Result<Vec<(usize, Way)>, String> {
        if !self.trees.contains_key(root) {
            self.trees.insert(root.to_owned(), self.graph.tree(root));
        }
        self.trees[root].path(to)
    }
}

/// Returns the sending and the receiving node of a link.
fn ends<'s>(member: &Member<'s, Kind>) -> [&'s str; 2] {
    if member.way == Way::Forward { [member.from, member.to] } else { [member.to, member.from] }
}

/// Returns the rate and delay of the lines that a channel passes.
fn facts(member: &Member<'_, Kind>, atm: &Atm, ways: &mut Ways<'_>) -> Result<Facts, Problem> {
    let path = ways
        .of(member, ends(member))
        .map_err(|problem| Problem::new(format!("{}.between", member.place.link_key()), problem))?;
    let lines = || path.iter().map(|(line, _)| &atm.line[*line]);
    let rate = lines().map(AtmLine::cell_rate).min().unwrap_or_default();
    let facts = Facts { rate, delay: lines().map(|line| line.delay).sum() };
    // A scenario as an older version ran it has them.
    let said = [
        ("rate", member.line.rate.is_some_and(|rate| rate != facts.rate)),
        ("delay", member.place.is_shared("delay") && member.common.delay != facts.delay),
    ];
    match said.iter().find(|(_, differs)| *differs) {
        Some((key, _)) => Err(Problem::new(
            format!("{}.{key}", member.place.link_key()),
            "of a virtual channel is that of the lines that it passes: expected none",
        )),
        None => Ok(facts),
    }
}

/// Returns the peak cell rate of a service, if it has one.
fn peak(service: Service) -> Option<Rate> {
    match service {
        Service::Cbr { pcr } | Service::Vbr { pcr } | Service::Ubr { pcr } => pcr,
        Service::Abr(abr) => abr.pcr,
    }
}

/// Returns a line with what streams leave on it, for channels that yield to them.
///
/// A switch gives ABR a part of that by its rates.
fn passed((line, way): (usize, Way), atm: &Atm, (streams, is_abr): (Option<&Streams>, bool)) -> Passed {
    let (name, config) = atm.line.get_index(line).expect("a path is of lines");
    let taken = streams.map_or(0, |streams| streams.on(line, way).as_bps());
    let sender = &config.between[way.index()];
    let part =
        if is_abr { atm.switch.get(sender).map_or(1.0, |switch| switch.abr.utilisation()) } else { 1.0 };
    Passed {
        name: format!("line {name} {} of ATM", way.name()),
        rate: Rate::from_bps(config.cell_rate().as_bps().saturating_sub(taken)).mul_f64(part),
        between: config.between.clone(),
    }
}

/// Returns the faults of the lines of a path in their order.
fn faults(path: &[(usize, Way)], atm: &Atm) -> Vec<CellFault> {
    let channels = path.iter().filter_map(|(line, _)| atm.line[*line].channel.as_ref());
    channels.flat_map(CellChannel::faults).copied().collect()
}

/// Returns notes on the faults of the lines of a path that are not forecast.
fn not_forecast(path: &[(usize, Way)], atm: &Atm) -> Vec<String> {
    let of = |(line, _): &(usize, Way)| -> Vec<String> {
        let (name, config) = atm.line.get_index(*line).expect("a path is of lines");
        let faults = config.channel.as_ref().map_or(&[][..], CellChannel::faults);
        let is_unknown = faults.iter().any(|fault| fault.mean_loss(1, 1).is_none());
        let losses = is_unknown.then(|| {
            format!("losses of ATM line {name} are not forecast: cells are inserted, or its decoder is near its threshold")
        });
        let delays = faults.iter().any(CellFault::is_random_delay).then(|| {
            format!("ATM line {name} delays cells at random: delays are those without that, and are longer in a run")
        });
        losses.into_iter().chain(delays).collect()
    };
    path.iter().flat_map(of).collect()
}

/// Cost of packets on a virtual channel.
struct ChannelCost {
    /// Maximum rate of the channel on its lines.
    rate: Rate,
    vc: Kind,
    /// Line with the least capacity left, for ABR and UBR.
    bottleneck: Option<Bottleneck>,
    /// Lines on its way.
    passed: Vec<Passed>,
    /// Faults of these lines, in their order.
    faults: Vec<CellFault>,
    /// Tree of a point-to-multipoint channel, at its first leaf.
    notes: Vec<String>,
}

impl ChannelCost {
    /// Returns the length of a CPCS-PDU's payload with a packet of `len` bytes (RFC 2684).
    fn pdu_len(&self, len: usize) -> usize {
        match self.vc.encapsulation {
            Encapsulation::LlcSnap => len + llc::HEADER_LEN,
            Encapsulation::VcMux => len,
        }
    }
}

impl Cost for ChannelCost {
    fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns the usable rate: what streams of other categories leave. That of ABR excludes one RM cell in each
    /// `nrm`.
    fn usable(&self) -> Rate {
        let left = self.bottleneck.as_ref().map_or(self.rate, |bottleneck| bottleneck.left.min(self.rate));
        let left = self.vc.receive.as_ref().map_or(left, |receive| receive.rate.min(left));
        match self.vc.service {
            Service::Abr(abr) => {
                let nrm = u128::from(abr.nrm.max(1));
                Rate::from_bps((u128::from(left.as_bps()) * (nrm - 1) / nrm) as u64)
            }
            _ => left,
        }
    }

    fn passed(&self) -> &[Passed] {
        &self.passed
    }

    fn notes(&self, _len: usize) -> Vec<String> {
        let is_abr = matches!(self.vc.service, Service::Abr(_));
        let of_line = self.bottleneck.as_ref().map(|bottleneck| bottleneck.notes(is_abr));
        self.notes.iter().cloned().chain(of_line.into_iter().flatten()).collect()
    }

    /// Returns the loss of packets with each of their cells.
    ///
    /// The last cell of a packet that is lost takes the next one with it.
    fn mean_loss(&self, len: usize, count: u64) -> f64 {
        let cells = aal5::cells(self.pdu_len(len)) as u64;
        let losses = self.faults.iter().filter_map(|fault| fault.mean_loss(cells, count));
        1.0 - losses.map(|loss| 1.0 - loss).product::<f64>()
    }

    fn cells(&self, len: usize) -> Option<(u64, Bytes)> {
        let len = self.pdu_len(len);
        Some((aal5::cells(len) as u64, Bytes::new(aal5::pad_len(len) as u64)))
    }

    fn wire_len(&self, len: usize) -> Bytes {
        Bytes::new(aal5::wire_len(self.pdu_len(len)) as u64)
    }

    fn record_len(&self, len: usize) -> usize {
        capture::record_len(self.pdu_len(len))
    }
}

struct Channels<'s> {
    row: usize,
    all: Vec<Member<'s, Kind>>,
    /// Numbers of the forward members, by link.
    forward: HashMap<usize, usize>,
    /// Rate of each member.
    rates: Vec<Rate>,
    atm: &'s Atm,
    /// Ends of each member's channel, that of the sending node first, and the channel.
    ends: Vec<([At; 2], capture::Pdus)>,
    /// Channels of flows, each with the member that offers it.
    natives: Vec<(usize, NativeChannel)>,
    native_ends: Vec<NativeEnds>,
    faults: SharedParts<Part>,
}

impl Assembly for Channels<'_> {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), Problem> {
        self.rates = Kind::facts(&self.all, self.atm)?.into_iter().map(|facts| facts.rate).collect();
        let network = Network::new(self.atm)?;
        let led = network.with_channels(self.row, &self.all, &self.natives, site)?;
        (self.ends, self.native_ends, self.faults) = (led.members, led.natives, led.faults);
        Ok(())
    }

    fn wire(&mut self, member: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let ([line, output], _) = self.ends[member];
        let (member, rate) = (self.all[member], self.rates[member]);
        if member.medium.passage(member.way) == Passage::Closed {
            let order = Order::Link(member.link, member.way, Slot::Line);
            let end = (site.add(order, member.path(), NoReturn), Port(0));
            return Ok(Wired { line, is_observed: false, ..Wired::new(end, rate) });
        }
        Ok(Wired { output, is_observed: false, ..Wired::new(line, rate) })
    }

    fn add_native(&mut self, member: usize, channel: &NativeChannel) -> Option<usize> {
        let first = &self.all[member];
        let is_leaf = |link: &usize| {
            let leaf = self.all.get(self.forward.get(link).copied()?)?;
            (leaf.medium.multicast.is_some() && tree::channel(leaf) == tree::channel(first)).then_some(())
        };
        let is_tree = channel.others.iter().all(|link| is_leaf(link).is_some());
        let is_offered = channel.form == Form::CellPayloads && is_tree;
        is_offered.then(|| self.natives.push((member, channel.clone())));
        is_offered.then(|| self.natives.len() - 1)
    }

    fn native(&self, number: usize) -> Option<NativeEnds> {
        self.native_ends.get(number).cloned()
    }

    fn packets(&self, member: usize) -> Box<dyn CaptureFormat> {
        Box::new(self.ends[member].1)
    }

    fn shared_parts(&self) -> SharedParts<Part> {
        self.faults.clone()
    }
}
