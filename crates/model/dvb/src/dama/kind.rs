//! Terminals of carriers that are shared by demand assignment.

mod capture;
mod plan;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::{Config, Contract, ControlCentre, Frame, Frames, Receiver, Terminal, TerminalConfig};
use bentpipe_net::Port;
use bentpipe_net::quick_start;
use bentpipe_units::{Bytes, Rate, Span};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use bentpipe_site::{
    Artefact, Assembly, At, CapturePoint, Changes, Changing, Cost, Facts, LineUnits, MediumKind, Member,
    Named, Order, Part, Passed, Problem, Review, ShareBudget, SharedParts, Site, Slot, Wired,
};

/// A terminal: its carriers, and what it may get of them. The sum of constant, asked and free capacity is what it sends
/// with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
pub struct Kind {
    /// The carriers that it shares.
    pub carrier: String,
    /// Capacity contract.
    #[serde(flatten)]
    pub contract: Contract,
}

impl MediumKind for Kind {
    type Shared = Named<Config>;

    fn check(all: &[Member<'_, Self>], carriers: &Named<Config>, review: &mut Review<'_>) {
        for member in all {
            let (place, kind) = (member.place, member.medium);
            review.ensure_named(carriers, "carrier", &place.key("medium.carrier"), &kind.carrier);
            review.ensure(
                !(place.is_own("rate") && place.is_own("medium")),
                &place.key("medium"),
                "conflicts with the medium: a terminal sends at its assigned rate",
            );
        }
    }

    fn facts(all: &[Member<'_, Self>], carriers: &Named<Config>) -> Result<Vec<Facts>, Problem> {
        let mut frames = FramesOf::new(all, carriers);
        let facts = |member: &Member<'_, Self>| {
            let is_there = carriers.contains_key(&member.medium.carrier);
            let rate = is_there.then(|| frames.of(&member.medium.carrier)).transpose()?;
            Ok(Facts {
                rate: rate.map_or_else(Rate::default, |frame| frame.rate()),
                delay: member.common.delay,
            })
        };
        all.iter().map(facts).collect()
    }

    fn costs(all: &[Member<'_, Self>], carriers: &Named<Config>) -> Result<Vec<Box<dyn Cost>>, Problem> {
        let mut frames = FramesOf::new(all, carriers);
        let mut means: HashMap<String, Rc<Means>> = HashMap::new();
        let cost = |member: &Member<'_, Self>| -> Result<Box<dyn Cost>, Problem> {
            let frame = frames.of(&member.medium.carrier)?;
            let rate = frame.rate_of(member.medium.contract.most_units(&frame));
            let means = Rc::clone(means.entry(member.medium.carrier.clone()).or_default());
            let carrier = Passed {
                name: format!("carrier {}", member.medium.carrier),
                rate: frame.rate_of(frame.units()),
                between: [member.to, member.to].map(str::to_owned),
            };
            let [_, volume] = member.medium.contract.units_on_demand(&frame);
            Ok(Box::new(TerminalCost { rate, frame, carrier: [carrier], is_by_volume: volume > 0, means }))
        };
        all.iter().map(cost).collect()
    }

    fn shares(all: &[Member<'_, Self>], carriers: &Named<Config>) -> Result<Vec<ShareBudget>, Problem> {
        let mut budgets = Vec::new();
        for carrier in carriers.keys() {
            budgets.extend(shares_of(all, carriers, carrier)?);
        }
        Ok(budgets)
    }

    fn assembly<'s>(
        row: usize,
        all: Vec<Member<'s, Self>>,
        carriers: &'s Named<Config>,
    ) -> Box<dyn Assembly + 's> {
        let wired = vec![None; all.len()];
        Box::new(Terminals { row, all, carriers, centres: IndexMap::new(), wired })
    }

    fn change(at: &Changing<'_, Self>, to: &mut Changes) -> Result<(), Problem> {
        let (before, after) = (at.before.common, at.after.common);
        // Carriers and the times of their slots stay as they are.
        let expected = "a terminal keeps what it started with, apart from its channel";
        at.refuse(&[
            ("medium", at.before.medium == at.after.medium, expected),
            ("delay", before.delay == after.delay, expected),
            ("queue", before.queue == after.queue, expected),
        ])?;
        at.faults(to)
    }

    /// Changes the frame plan at the control centre, the first part, and at all terminals.
    fn change_shared(
        before: &Named<Config>,
        after: &Named<Config>,
        parts: &SharedParts<bentpipe_sim::ElementId>,
        to: &mut Changes,
    ) -> Result<(), Problem> {
        for (name, config) in after.iter().filter(|(name, config)| before.get(*name) != Some(*config)) {
            let key = format!("carrier.{name}");
            let had = before.get(name).ok_or_else(|| Problem::new(&key, "no such carrier"))?;
            if had.with_plan_of(config) != *config {
                return Err(Problem::new(&key, FIXED));
            }
            let mut parts = parts.get(&key).into_iter().flatten();
            let Some(centre) = parts.next() else { continue };
            to.set(*centre, &key, config.clone(), |centre: &mut ControlCentre, now, config: Config| {
                centre.set_frame(now, &config)
            });
            for terminal in parts {
                to.set(*terminal, &key, config.clone(), |terminal: &mut Terminal, now, config: Config| {
                    terminal.set_frame(now, &config)
                });
            }
        }
        Ok(())
    }
}

/// Message about what is not of the frame plan.
const FIXED: &str = "cannot be changed while it runs: expected `carriers`, `rate`, `slots`, `cells`, `frames` or `multiframes`, \
                     which are the frame plan";

/// Returns the structure of a carrier, of which all members of that name are terminals.
///
/// # Errors
/// Returns an error if there is no such carrier, or a value of it is impossible.
pub fn frame(all: &[Member<'_, Kind>], carriers: &Named<Config>, name: &str) -> Result<Frame, Problem> {
    let key = format!("carrier.{name}");
    let config = carriers.get(name).ok_or_else(|| Problem::new(&key, "no such carrier"))?;
    let count = terminals(all, name).map(|member| member.copies).sum();
    Frame::new(config, count).map_err(|error| Problem::impossible(&key, &error))
}

/// Structures of carriers, each of which is found once.
struct FramesOf<'a, 's> {
    all: &'a [Member<'s, Kind>],
    carriers: &'a Named<Config>,
    found: HashMap<String, Arc<Frame>>,
}

impl<'a, 's> FramesOf<'a, 's> {
    fn new(all: &'a [Member<'s, Kind>], carriers: &'a Named<Config>) -> FramesOf<'a, 's> {
        FramesOf { all, carriers, found: HashMap::new() }
    }

    /// Returns the structure of a carrier.
    ///
    /// # Errors
    /// As [`frame`].
    fn of(&mut self, name: &str) -> Result<Arc<Frame>, Problem> {
        if let Some(frame) = self.found.get(name) {
            return Ok(Arc::clone(frame));
        }
        let frame = Arc::new(frame(self.all, self.carriers, name)?);
        self.found.insert(name.to_owned(), Arc::clone(&frame));
        Ok(frame)
    }
}

/// Returns the terminals of a carrier in the order of the file.
fn terminals<'a, 's>(
    all: &'a [Member<'s, Kind>],
    carrier: &'a str,
) -> impl Iterator<Item = &'a Member<'s, Kind>> {
    all.iter().filter(move |member| member.medium.carrier == carrier)
}

fn shares_of(
    all: &[Member<'_, Kind>],
    carriers: &Named<Config>,
    carrier: &str,
) -> Result<Vec<ShareBudget>, Problem> {
    let frame = frame(all, carriers, carrier)?;
    let of_it: Vec<_> = terminals(all, carrier).collect();
    let count: u32 = of_it.iter().map(|member| member.copies).sum();
    let constant = of_it.iter().map(|member| member.medium.contract.constant_units(&frame) * member.copies);
    let left = frame.rate_of(frame.units().saturating_sub(constant.sum()));
    let (mut budgets, mut number) = (Vec::new(), 0);
    for member in of_it {
        let contract = member.medium.contract;
        let least = frame.rate_of(contract.constant_units(&frame));
        let most = frame.rate_of(contract.most_units(&frame));
        let share = Rate::from_bps(least.as_bps() + left.as_bps() / u64::from(count.max(1)));
        budgets.push(ShareBudget {
            name: member.name.to_owned(),
            direction: member.way.name(),
            copies: member.copies,
            carrier: carrier.to_owned(),
            granularity: frame.granularity(),
            least,
            most,
            share: share.min(most),
            request_to_grant: frame.request_to_grant(number),
        });
        number += member.copies;
    }
    Ok(budgets)
}

/// Mean bytes of a carrier for packets of some lengths.
///
/// Of packets in whole bursts they are not computed by a formula, and many terminals ask for the same.
type Means = RefCell<HashMap<usize, f64>>;

/// The most that a terminal may get of its carriers, and their structure.
struct TerminalCost {
    rate: Rate,
    frame: Arc<Frame>,
    /// The carriers, from which each terminal may get a part.
    carrier: [Passed; 1],
    /// Set if it requests volumes.
    is_by_volume: bool,
    /// Means of all terminals of the carrier.
    means: Rc<Means>,
}

impl Cost for TerminalCost {
    fn rate(&self) -> Rate {
        self.rate
    }

    fn passed(&self) -> &[Passed] {
        &self.carrier
    }

    fn wire_len(&self, len: usize) -> Bytes {
        self.frame.carrier_len(len)
    }

    fn mean_len(&self, len: usize) -> f64 {
        *self.means.borrow_mut().entry(len).or_insert_with(|| self.frame.mean_carrier_bytes(len))
    }

    fn notes(&self, _len: usize) -> Vec<String> {
        let note = "volumes (`vbdc`) are requested as packets come: flows get less than a rate that they need all of";
        self.is_by_volume.then(|| note.to_owned()).into_iter().collect()
    }

    fn line_units(&self, _nulls: bool) -> Option<LineUnits> {
        let line_len = self.frame.burst().get();
        let record_len = capture::record_len(self.frame.encapsulation(), line_len as usize) as u64;
        Some(LineUnits { suffix: capture::SUFFIX, line_len, record_len, is_filled: false, is_whole: false })
    }

    /// Returns the time of whole bursts back to back, given enough slots.
    fn time(&self, len: usize) -> Span {
        self.frame.slot() * self.wire_len(len).get().div_ceil(self.frame.burst().get())
    }
}

/// Control centre of a carrier.
struct Centre {
    part: Part,
    frame: Arc<Frame>,
    frames: Frames,
    /// Numbers of the members that are its terminals, by their numbers there.
    terminals: Vec<usize>,
}

struct Terminals<'s> {
    row: usize,
    all: Vec<Member<'s, Kind>>,
    carriers: &'s Named<Config>,
    centres: IndexMap<&'s str, Centre>,
    wired: Vec<Option<Wired>>,
}

impl Assembly for Terminals<'_> {
    fn begin(&mut self, site: &mut Site<'_>) -> Result<(), Problem> {
        for (n, name) in self.carriers.keys().enumerate() {
            let frame = Arc::new(frame(&self.all, self.carriers, name)?);
            let is_of_it = |n: &usize| self.all[*n].medium.carrier == *name;
            let terminals: Vec<usize> = (0..self.all.len()).filter(is_of_it).collect();
            let key = format!("carrier.{name}");
            let count = u16::try_from(terminals.len());
            count.map_err(|_| Problem::new(&key, "more than 65535 terminals"))?;
            let contracts: Vec<Contract> = terminals.iter().map(|n| self.all[*n].medium.contract).collect();
            let centre = ControlCentre::new(&frame, &contracts);
            let centre = centre.map_err(|error| Problem::impossible(&key, &error))?;
            let frames = centre.frames();
            let part = site.add(Order::Shared(self.row, n), format!("carrier/{name}"), centre);
            self.centres.insert(name, Centre { part, frame, frames, terminals });
        }
        Ok(())
    }

    fn wire(&mut self, number: usize, site: &mut Site<'_>) -> Result<Wired, Problem> {
        let member = self.all[number];
        let none = || Problem::new(member.place.key("medium.carrier"), "no such carrier");
        let centre = self.centres.get(&member.medium.carrier[..]).ok_or_else(none)?;
        let at = centre.terminals.iter().position(|terminal| *terminal == number).ok_or_else(none)?;
        let port = Port(at as u16);
        let path = member.path();
        let terminal = terminal(&member, port, &centre.frame)?;
        let terminal = site.add(Order::Link(member.link, member.way, Slot::Line), &path, terminal);
        site.connect((centre.part, port), (terminal, Port(1)));
        let line = (terminal, Port(0));
        let channels = site.faults((member.link, member.way, &path), member.common, member.place, line)?;
        let last = channels.last().map_or(line, |last| (*last, Port(0)));
        // The far end passes requests on to the control centre.
        let receiver = Receiver::new(centre.frame.encapsulation());
        let order = Order::Link(member.link, member.way, Slot::Receiver);
        let receiver = site.add(order, format!("{path}/receiver"), receiver);
        site.connect(last, (receiver, Port(0)));
        site.connect((receiver, Port(1)), (centre.part, Port(0)));
        let (output, receiver) = ((receiver, Port(0)), Some(receiver));
        let wired = Wired { output, channels, receiver, ..Wired::new(line, centre.frame.rate()) };
        self.wired[number] = Some(wired.clone());
        Ok(wired)
    }

    fn on_line(&self, member: usize, _: bool) -> Option<CapturePoint<At>> {
        let wired = self.wired[member].as_ref()?;
        let centre = self.centres.get(&self.all[member].medium.carrier[..])?;
        let first = wired.channels.first().copied().or(wired.receiver)?;
        let format = Box::new(capture::Bursts::new(centre.frame.encapsulation()));
        Some(CapturePoint { suffix: capture::SUFFIX, inputs: vec![(first, Port(0))], format })
    }

    fn shared_parts(&self) -> SharedParts<Part> {
        let parts = |(name, centre): (&&str, &Centre)| {
            let terminals = centre.terminals.iter().filter_map(|n| Some(self.wired[*n].as_ref()?.line.0));
            (format!("carrier.{name}"), [centre.part].into_iter().chain(terminals).collect())
        };
        self.centres.iter().map(parts).collect()
    }

    fn artefacts(&self) -> Vec<Artefact<At>> {
        self.centres.iter().map(|(name, centre)| self.plan(name, centre)).collect()
    }
}

impl Terminals<'_> {
    /// Returns the burst time plan of a carrier.
    fn plan(&self, name: &str, centre: &Centre) -> Artefact<At> {
        let log = plan::PlanLog::new(centre.frames.clone());
        let mut of_link: HashMap<&str, usize> = HashMap::new();
        for terminal in &centre.terminals {
            *of_link.entry(self.all[*terminal].name).or_default() += 1;
        }
        let tap = |terminal: &usize| {
            let (member, wired) = (&self.all[*terminal], self.wired[*terminal].as_ref()?);
            let twice = of_link[member.name] > 1;
            let shown =
                if twice { format!("{} {}", member.name, member.way.name()) } else { member.name.to_owned() };
            Some(((wired.line.0, Port(1)), log.tap(&shown)))
        };
        let taps = centre.terminals.iter().filter_map(tap).collect();
        Artefact { file: format!("plan-{name}.csv"), taps, write: Box::new(move |out| log.write(out)) }
    }
}

fn terminal(member: &Member<'_, Kind>, number: Port, frame: &Arc<Frame>) -> Result<Terminal, Problem> {
    let config = TerminalConfig {
        number: number.0,
        contract: member.medium.contract,
        delay: member.common.delay,
        mtu: Some(member.common.mtu),
        queue: member.common.queue.clone().unwrap_or_default(),
    };
    let terminal = Terminal::new(&config, frame).map_err(|error| match error.key {
        "dama.cra" => Problem::new(member.place.key("medium.cra"), format!("expected {}", error.expected)),
        _ => Problem::impossible(&member.place.key("queue"), &error),
    })?;
    // It asks for what it approves for Quick-Start.
    Ok(match member.common.quick_start {
        Some(config) if config.capacity => terminal.with_announcement(quick_start::announced),
        _ => terminal,
    })
}
