//! ATM switch with output queues.
//!
//! Modelled: virtual channels from input to output with translation; at each output a queue for each service
//! category, finite or not, the categories served in strict order; early and partial packet discard for each
//! category; point-to-multipoint channels, whose cells are copied to several outputs; EFCI; ERICA and ERICA+. Not modelled: delay or blocking inside the fabric, which takes no time; policing.
//! VS/VD is a separate node ([`vsvd`](super::vsvd)).
//!
//! Cells of all inputs are processed in the order of their arrival, those of one instant in the order of the
//! ports. The switch wakes only to deliver trains: once per delay of its shortest line, those of all outputs
//! that would be due before the next wake-up. Then the arrived cells are enqueued at their outputs, input by
//! input, and each output sorts its own. Only cells that concern a second output make the outputs advance in
//! step.

use std::any::Any;
use std::collections::VecDeque;

use bentpipe_net::{Cx, Element, InvalidConfig, Observer, Packet, Port, Why};
use bentpipe_units::{Span, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::{Cell, Inbox, Kind, Vc, Word, unload, unload_copied};
use super::erica::{Erica, Fairness, Guarantee, Measurement, QueueControl, Target};
use super::line;
use super::service::Class;
use crate::metrics;

mod output;
mod waiting;

use output::Output;

/// Arrival of a cell. Among cells of one instant the lowest input is first.
type Moment = (Time, u16);

/// Configuration of a switch, for each of its outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Rate feedback to ABR sources. Default: only `efci`.
    pub abr: Algorithm,
    /// Cells in the ABR queue from which on cells of data are marked (EFCI). Default: none are marked.
    pub efci: Option<u32>,
    /// Number of waiting ABR cells from which on the switch sends backward RM cells (BECN).
    ///
    /// They go to the sources of arriving cells, at most ten per second and channel. Default: none.
    pub becn: Option<u32>,
    /// Maximum number of waiting cells of each category. Default: no limit.
    pub limit: Limits,
    /// Early packet discard: number of waiting cells at which new AAL5 PDUs are dropped.
    ///
    /// Each category has its own. A number alone holds for ABR and UBR. Default: none are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epd: Option<Discard<u32>>,
    /// Enables partial packet discard: a lost cell dooms the rest of its PDU.
    ///
    /// Each category has its own value. The last cell of the PDU is kept. `true` alone holds for ABR and UBR. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ppd: Option<Discard<bool>>,
}

/// Discard of whole AAL5 PDUs, of ABR and UBR or of each category.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Discard<T> {
    /// ABR and UBR alike.
    Data(T),
    /// Each category by itself.
    Each(ByCategory<T>),
}

impl<T: Copy> Discard<T> {
    /// Returns the values of the categories, in the order in which they are served.
    fn each(discard: Option<Discard<T>>) -> [Option<T>; 4] {
        match discard {
            None => [None; 4],
            Some(Discard::Data(value)) => [None, None, Some(value), Some(value)],
            Some(Discard::Each(ByCategory { cbr, vbr, abr, ubr })) => [cbr, vbr, abr, ubr],
        }
    }
}

/// Values for each service category. Default: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByCategory<T> {
    /// Constant bit rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cbr: Option<T>,
    /// Variable bit rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vbr: Option<T>,
    /// Available bit rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abr: Option<T>,
    /// Unspecified bit rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ubr: Option<T>,
}

/// Maximum number of waiting cells of each category at an output. Default: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Constant bit rate.
    pub cbr: Option<u32>,
    /// Variable bit rate.
    pub vbr: Option<u32>,
    /// Available bit rate.
    pub abr: Option<u32>,
    /// Unspecified bit rate.
    pub ubr: Option<u32>,
}

/// Algorithm for the allowed rates of ABR sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Algorithm {
    /// No rate feedback.
    #[default]
    None,
    /// ERICA: explicit rates for a share of the capacity.
    Erica {
        /// The share. Default: 0.9.
        #[schemars(range(min = 0.0, max = 1.0))]
        #[serde(default = "most")]
        utilisation: f64,
        /// Fairness of shares with minimum rates. Default: "mcr-plus-equal-share".
        #[serde(default)]
        fairness: Fairness,
        /// Measurement of load and capacity.
        #[serde(default)]
        measure: Measurement,
    },
    /// ERICA+: explicit rates for all of the capacity and a queueing delay.
    EricaPlus {
        /// Control of the queue.
        #[serde(default)]
        queue: QueueControl,
        /// Fairness of shares with minimum rates. Default: "mcr-plus-equal-share".
        #[serde(default)]
        fairness: Fairness,
        /// Measurement of load and capacity.
        #[serde(default)]
        measure: Measurement,
    },
}

fn most() -> f64 {
    0.9
}

impl Algorithm {
    /// Returns the part of the capacity that sources of ABR are given.
    pub(crate) fn utilisation(&self) -> f64 {
        match *self {
            Algorithm::Erica { utilisation, .. } => utilisation,
            _ => 1.0,
        }
    }

    fn target(&self) -> Option<(Measurement, Target)> {
        match *self {
            Algorithm::None => None,
            Algorithm::Erica { utilisation, measure, .. } => {
                Some((measure, Target::Utilisation(utilisation)))
            }
            Algorithm::EricaPlus { queue, measure, .. } => Some((measure, Target::Queue(queue))),
        }
    }

    /// Returns the feedback of an output whose line has this rate.
    fn at(&self, cells_per_second: f64) -> Result<Option<Erica>, InvalidConfig> {
        let fairness = match *self {
            Algorithm::None => return Ok(None),
            Algorithm::Erica { fairness, .. } | Algorithm::EricaPlus { fairness, .. } => fairness,
        };
        let erica = self.target().map(|(measure, target)| Erica::new(measure, target, cells_per_second));
        Ok(erica.transpose()?.map(|erica| erica.with_fairness(fairness)))
    }
}

/// Contract of a channel with a switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contract {
    /// Service category.
    pub class: Class,
    /// Set if its cells are those of AAL5 PDUs. If not, a first mark of a PDU's end sets it.
    pub has_pdus: bool,
    /// Minimum cell rate and weight.
    pub guarantee: Guarantee,
}

impl From<Class> for Contract {
    /// Returns the contract of packets in AAL5 without a minimum rate.
    fn from(class: Class) -> Contract {
        Contract { class, has_pdus: true, guarantee: Guarantee::NONE }
    }
}

/// A switch: input and output n are of port n.
#[derive(Debug)]
pub struct Switch {
    config: Config,
    inboxes: Vec<Inbox>,
    outputs: Vec<Output>,
    /// Cells that concern two outputs, among those enqueued last.
    crossings: Vec<Crossing>,
    /// Route of cells, for each port and VCI up to the port's highest.
    routes: Vec<Vec<Option<Route>>>,
    /// Branches of point-to-multipoint channels, by number.
    trees: Vec<Box<[Branch]>>,
    unroutable: u64,
    /// Minimum time from the start of a transmission to the arrival, over all lines.
    shortest: Span,
    /// Time before which no output is due.
    deadline: Time,
}

/// Route of a channel's cells.
#[derive(Clone, Copy, Debug)]
struct Route {
    output: u16,
    /// VCI on the outgoing line.
    vc: Vc,
    class: Class,
    /// Index of the channel at that output.
    number: u16,
    /// Index of the channel at its input port's output, which supplies feedback.
    back: u16,
    /// Set if each arriving cell is examined, as its sources may need a congestion signal.
    is_watched: bool,
    /// Number of the channel's branches plus one, if it is point-to-multipoint. `output` has no meaning then.
    tree: u16,
}

/// Output of a point-to-multipoint channel.
#[derive(Clone, Copy, Debug)]
struct Branch {
    output: u16,
    /// VCI on the outgoing line.
    vc: Vc,
    /// Index of the channel at that output.
    number: u16,
}

/// Effect of a cell at the output of the port that it arrived by.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    moment: Moment,
    route: Route,
    does: Does,
}

#[derive(Clone, Copy, Debug)]
enum Does {
    /// Feedback request of a backward RM cell.
    Ask(Word),
    /// ABR cell of this channel, whose source may need a congestion signal from this output.
    Signal(Vc),
}

impl Config {
    /// Rejects keys that have no effect with the others.
    ///
    /// # Errors
    /// Returns an error that names the key.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let Limits { cbr, vbr, abr, ubr } = self.limit;
        let limits = [cbr, vbr, abr, ubr];
        let (early, partial) = (Discard::each(self.epd), Discard::each(self.ppd));
        let filled = limits.iter().zip(partial).any(|(limit, ppd)| limit.is_some() && ppd == Some(true));
        let is_idle = partial.contains(&Some(true)) && !filled;
        InvalidConfig::ensure(
            !is_idle,
            "ppd",
            "a category with a `limit`, or none: cells are lost at full queues",
        )?;
        let pairs = || limits.iter().zip(early).filter_map(|(limit, epd)| epd.map(|epd| (*limit, epd)));
        let is_reached = pairs().any(|(limit, epd)| limit.is_none_or(|limit| epd < limit));
        InvalidConfig::ensure(is_reached || pairs().count() == 0, "epd", "fewer cells than the `limit`")
    }
}

impl Switch {
    /// Creates a switch without ports.
    pub fn new(config: &Config) -> Switch {
        Switch {
            config: *config,
            inboxes: Vec::new(),
            outputs: Vec::new(),
            crossings: Vec::new(),
            routes: Vec::new(),
            trees: Vec::new(),
            unroutable: 0,
            shortest: Span::MAX,
            deadline: Time::ZERO,
        }
    }

    /// Adds a port, whose outgoing line is reported under `path`: "link/trunk/forward".
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn add_port(&mut self, path: impl Into<String>, line: &line::Config) -> Result<Port, InvalidConfig> {
        let output = Output::new(path.into(), &self.config, line)?;
        self.shortest = self.shortest.min(output.line.shortest());
        self.outputs.push(output);
        self.inboxes.push(Inbox::default());
        self.routes.push(Vec::new());
        Ok(Port(self.outputs.len() as u16 - 1))
    }

    /// Connects a channel, in both directions.
    ///
    /// # Panics
    /// Panics if a port does not exist, or already has a channel of this number.
    pub fn connect(&mut self, (a, vc_a): (Port, Vc), (b, vc_b): (Port, Vc), contract: impl Into<Contract>) {
        let contract = contract.into();
        let class = contract.class;
        let to_a = self.outputs[usize::from(a.0)].add_channel(vc_a, contract, b.0);
        let to_b = self.outputs[usize::from(b.0)].add_channel(vc_b, contract, a.0);
        for (input, came, output, vc, number, back) in
            [(a, vc_a, b, vc_b, to_b, to_a), (b, vc_b, a, vc_a, to_a, to_b)]
        {
            let is_watched = class == Class::Abr && self.config.becn.is_some();
            let route = Route { output: output.0, vc, class, number, back, is_watched, tree: 0 };
            let before = self.route_of(input, came).replace(route);
            assert!(before.is_none(), "two channels of one number");
        }
    }

    fn route_of(&mut self, input: Port, came: Vc) -> &mut Option<Route> {
        let routes = &mut self.routes[usize::from(input.0)];
        if routes.len() <= came.index() {
            routes.resize(came.index() + 1, None);
        }
        &mut routes[came.index()]
    }

    /// Connects a point-to-multipoint channel: each cell of `from` is copied to all outputs of `to`.
    ///
    /// Leaves send nothing, and hence not ABR: RM cells have no route.
    ///
    /// # Panics
    /// Panics if a port does not exist, or already has a channel of this number.
    pub fn connect_tree(
        &mut self,
        (input, came): (Port, Vc),
        to: &[(Port, Vc)],
        contract: impl Into<Contract>,
    ) {
        let contract = contract.into();
        let branch = |&(output, vc): &(Port, Vc)| {
            let number = self.outputs[usize::from(output.0)].add_channel(vc, contract, input.0);
            Branch { output: output.0, vc, number }
        };
        self.trees.push(to.iter().map(branch).collect());
        let tree = self.trees.len() as u16;
        let (number, back) = (0, 0);
        let route =
            Route { output: 0, vc: came, class: contract.class, number, back, is_watched: false, tree };
        let before = self.route_of(input, came).replace(route);
        assert!(before.is_none(), "two channels of one number");
    }

    /// Delivers each cell in its own event: the oracle for trains.
    #[cfg(any(test, feature = "testing"))]
    pub fn disable_batching(&mut self) {
        self.outputs.iter_mut().for_each(Output::disable_batching);
    }

    /// Returns a hash over all cells sent at a port and their arrival times.
    ///
    /// After [`Element::observe`] it covers all cells up to that instant.
    pub fn digest(&self, port: Port) -> u64 {
        self.outputs[usize::from(port.0)].line.digest()
    }

    /// Enqueues all cells that arrive before `until`.
    fn take_before(&mut self, until: Time) {
        for input in 0..self.inboxes.len() {
            while self.inboxes[input].head() < until {
                self.take(input, until);
            }
        }
        if !self.crossings.is_empty() {
            self.cross();
        }
    }

    /// Enqueues the cells of an input that arrive before `until`, those of one train.
    fn take(&mut self, input: usize, until: Time) {
        let is_asked = self.outputs[input].is_asked();
        let (cells, cargo) = self.inboxes[input].ahead();
        let cells = sooner(cells, until);
        let (routes, trees, outputs) = (&*self.routes[input], &self.trees[..], &mut self.outputs[..]);
        let mut rest = cells;
        while let [cell, behind @ ..] = rest {
            rest = behind;
            let Some(Some(route)) = routes.get(cell.word.vc().index()) else {
                self.unroutable += 1;
                unload(cargo, cell.word, Why::NoRoute);
                continue;
            };
            if route.tree > 0 {
                let is_routed = cell.word.kind() != Kind::Rm;
                self.unroutable += u64::from(!is_routed);
                let branches = &trees[usize::from(route.tree) - 1];
                branches.iter().filter(|_| is_routed).for_each(|branch| {
                    copy(*cell, route.class, branch, &mut outputs[usize::from(branch.output)], cargo);
                });
                unload_copied(cargo, cell.word);
                continue;
            }
            let output = &mut outputs[usize::from(route.output)];
            let waiting = output.of_class(route.class);
            waiting.enqueue(Cell { at: cell.at, word: cell.word.on(route.vc) });
            if route.is_watched || !cell.word.is_middle() {
                output.load(route.number, cell.word, cargo);
                note(*cell, input as u16, route, is_asked, &mut self.crossings);
                continue;
            }
            // What follows on the channel goes the same way.
            while let [next, behind @ ..] = rest
                && next.word.is_alike(cell.word)
            {
                rest = behind;
                waiting.enqueue(Cell { at: next.at, word: next.word.on(route.vc) });
            }
        }
        let count = cells.len();
        self.inboxes[input].pass(count);
    }

    /// Processes the effects of cells on second outputs, each at its own instant.
    fn cross(&mut self) {
        let mut crossings = std::mem::take(&mut self.crossings);
        crossings.sort_by_key(|crossing| crossing.moment);
        for Crossing { moment, route, does } in crossings.drain(..) {
            let (at, input) = moment;
            let (came, goes) = (usize::from(input), usize::from(route.output));
            match does {
                Does::Ask(word) => {
                    let answer = self.outputs[came].feedback(moment, route.back, word);
                    self.outputs[goes].answer(route.class, answer.on(route.vc));
                }
                Does::Signal(vc) => {
                    let behind = (at, input + 1);
                    if self.outputs[goes].needs_signal(behind, route.number) {
                        self.outputs[came].send_signal(behind, vc);
                    }
                }
            }
        }
        self.crossings = crossings;
    }

    fn flush_due(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        // Cells due before the next wake-up would cause one more.
        let soon = now + self.shortest;
        let next_arrival = self.inboxes.iter().map(Inbox::head).min().unwrap_or(Time::NEVER);
        let mut deadline = Time::NEVER;
        for (n, output) in self.outputs.iter_mut().enumerate() {
            if output.is_due(soon) {
                output.advance_all(now);
                while let Some(train) = output.line.take(soon) {
                    cx.emit(Port(n as u16), train);
                }
            }
            deadline = deadline.min(output.deadline(now, next_arrival));
        }
        deadline
    }
}

/// Returns the cells that arrive before `until`.
///
/// Searches from the first one on in steps that double: a train may be much longer than the result, and not
/// in the cache.
#[inline]
fn sooner(cells: &[Cell], until: Time) -> &[Cell] {
    let mut reach = 64;
    while cells.get(reach).is_some_and(|cell| cell.at < until) {
        reach *= 2;
    }
    let near = &cells[..cells.len().min(reach)];
    &near[..near.partition_point(|cell| cell.at < until)]
}

/// Enqueues a copy of a cell at a branch.
///
/// Its packets, which are next in `cargo`, are copied too.
#[inline]
fn copy(cell: Cell, class: Class, branch: &Branch, output: &mut Output, cargo: &VecDeque<Packet>) {
    output.of_class(class).enqueue(Cell { at: cell.at, word: cell.word.on(branch.vc) });
    if !cell.word.is_middle() {
        output.load_copies(branch.number, cell.word, cargo);
    }
}

/// Records the effect of a cell at its input port's output, if any.
#[inline]
fn note(cell: Cell, input: u16, route: &Route, is_asked: bool, crossings: &mut Vec<Crossing>) {
    let Cell { at, word } = cell;
    let crossing = |does| Crossing { moment: (at, input), route: *route, does };
    if is_asked && word.is_backward_rm() {
        crossings.push(crossing(Does::Ask(word)));
    }
    if route.is_watched {
        crossings.push(crossing(Does::Signal(word.vc())));
    }
}

impl Element for Switch {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let input = usize::from(port.0);
        if let Some(inbox) = self.inboxes.get_mut(input) {
            // Cells that came before are accounted for: of a busy output the deadline may be later than they and the shortest
            // line are. A wake-up for them would be sooner than `min_reaction_delay` promises hosts that are executed ahead.
            self.deadline = self.deadline.min(inbox.announce(packet) + self.shortest);
        }
        // Arrivals are not examined before some output may be due: later there are more of them together.
        if self.deadline > cx.now() { self.deadline } else { self.wake(cx) }
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.take_before(cx.now());
        self.deadline = self.flush_due(cx);
        self.deadline
    }

    fn min_reaction_delay(&self) -> Span {
        // Cells lie in their inbox until one of them may go out.
        self.shortest
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        // A cell takes its own time to the other end of the line.
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.take_before(now);
        self.outputs.iter_mut().for_each(|output| output.advance_all(now));
        observer.counter(&metrics::UNROUTABLE, self.unroutable);
        self.outputs.iter().for_each(|output| output.observe(now, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
