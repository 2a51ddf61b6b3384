//! An ATM switch with queues at its outputs.
//!
//! Modelled: virtual channels from input to output with translation; at each output a queue for each service category,
//! finite or not, the categories served in strict order; early and partial packet discard for UBR; EFCI; ERICA and
//! ERICA+. Not modelled: delay or blocking inside the fabric, which takes no time; policing. VS/VD is a box of its own
//! ([`vsvd`](super::vsvd)).
//!
//! Cells of all inputs are taken in the order of their arrival, those of one instant in the order of the ports. The switch
//! wakes only to hand trains over: once in the delay of the shortest of its lines, those of all outputs that would be due before
//! it can be woken again. Then the cells that have come are put down at their
//! outputs, input by input, and each output brings its own into order. Only where a cell has to do with a second output are
//! outputs gone through in step.

use bentpipe_units::{Span, Time};
use std::any::Any;

use super::cell::{Cell, Inbox, Vc, Word, unload};
use super::erica::{Measurement, QueueControl, Target};
use super::line;
use super::service::Class;
use crate::{Cx, Element, Impossible, Observer, Packet, Port, Unit};

mod output;
mod waiting;

use output::Output;

/// When a cell comes: of those that come in one instant the one by the lowest input is first.
type Moment = (Time, u16);

/// What a switch does at each of its outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Config {
    /// What ABR sources are told. Default: nothing but `efci`.
    pub abr: Algorithm,
    /// Cells in the ABR queue from which on cells of data are marked (EFCI). Default: none are marked.
    pub efci: Option<u32>,
    /// Cells in the ABR queue from which on the switch makes backward RM cells (BECN) that say so, for each channel whose
    /// cells come, ten a second at most. Default: none are made.
    pub becn: Option<u32>,
    /// How many cells of each category may wait. Default: no limit.
    pub limit: Limits,
    /// UBR cells that wait from which on no new AAL5 PDU is let in (early packet discard). Default: all are let in.
    pub epd: Option<u32>,
    /// Whether the rest of an AAL5 PDU of UBR is dropped, but for its last cell, once one of its cells was (partial packet
    /// discard). Default: false.
    pub ppd: bool,
}

/// How many cells of each category may wait at an output; without a value there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
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

/// How a switch reckons what ABR sources may send.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)
)]
pub enum Algorithm {
    /// It does not.
    #[default]
    None,
    /// ERICA: explicit rates for a share of the capacity.
    Erica {
        /// The share. Default: 0.9.
        #[cfg_attr(feature = "serde", serde(default = "most"))]
        utilisation: f64,
        /// How load and capacity are measured.
        #[cfg_attr(feature = "serde", serde(default))]
        measure: Measurement,
    },
    /// ERICA+: explicit rates for all of the capacity and a queueing delay.
    EricaPlus {
        /// What is made of the queue.
        #[cfg_attr(feature = "serde", serde(default))]
        queue: QueueControl,
        /// How load and capacity are measured.
        #[cfg_attr(feature = "serde", serde(default))]
        measure: Measurement,
    },
}

#[cfg(feature = "serde")]
fn most() -> f64 {
    0.9
}

impl Algorithm {
    fn target(&self) -> Option<(Measurement, Target)> {
        match *self {
            Algorithm::None => None,
            Algorithm::Erica { utilisation, measure } => Some((measure, Target::Utilisation(utilisation))),
            Algorithm::EricaPlus { queue, measure } => Some((measure, Target::Queue(queue))),
        }
    }
}

/// A switch: input and output n are of port n.
#[derive(Debug)]
pub struct Switch {
    config: Config,
    inboxes: Vec<Inbox>,
    outputs: Vec<Output>,
    /// Of the cells that were put down last.
    crossings: Vec<Crossing>,
    /// For each port and VCI where its cells go.
    routes: Vec<Box<[Option<Route>; Vc::COUNT]>>,
    unroutable: u64,
    /// From the start of a transmission to the arrival of its cell, on the shortest of the lines.
    shortest: Span,
    /// Before this nothing can go out.
    deadline: Time,
}

/// Where cells of a channel go.
#[derive(Clone, Copy, Debug)]
struct Route {
    output: u16,
    /// Its number on the line from there.
    vc: Vc,
    class: Class,
    /// Its number at that output.
    number: u16,
    /// And at the output of the port that its cells come in by, which backward RM cells among them ask.
    back: u16,
    /// Whether its sources may have to be told that too many wait, so that each cell that comes has to be looked at.
    is_watched: bool,
}

/// What a cell has to do with the output of the port that it came in by.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    moment: Moment,
    route: Route,
    does: Does,
}

#[derive(Clone, Copy, Debug)]
enum Does {
    /// A backward RM cell asks there what it may say.
    Ask(Word),
    /// A cell of ABR, which came on this channel: its source may have to be told there that too many wait here.
    Tell(Vc),
}

impl Switch {
    /// A switch without ports.
    pub fn new(config: &Config) -> Switch {
        Switch {
            config: *config,
            inboxes: Vec::new(),
            outputs: Vec::new(),
            crossings: Vec::new(),
            routes: Vec::new(),
            unroutable: 0,
            shortest: Span::MAX,
            deadline: Time::ZERO,
        }
    }

    /// Adds a port, whose outgoing line is reported under `path`: "link/trunk/forward".
    ///
    /// # Errors
    /// The key whose value is impossible.
    pub fn add_port(&mut self, path: impl Into<String>, line: &line::Config) -> Result<Port, Impossible> {
        let output = Output::new(path.into(), &self.config, line)?;
        self.shortest = self.shortest.min(output.line.shortest());
        self.outputs.push(output);
        self.inboxes.push(Inbox::default());
        self.routes.push(Box::new([None; Vc::COUNT]));
        Ok(Port(self.outputs.len() as u16 - 1))
    }

    /// Leads a channel through, in both directions.
    ///
    /// # Panics
    /// If there is no such port, or it has a channel of this number already.
    pub fn connect(&mut self, (a, vc_a): (Port, Vc), (b, vc_b): (Port, Vc), class: Class) {
        let to_a = self.outputs[usize::from(a.0)].add_channel(vc_a, class, b.0);
        let to_b = self.outputs[usize::from(b.0)].add_channel(vc_b, class, a.0);
        for (input, came, output, vc, number, back) in
            [(a, vc_a, b, vc_b, to_b, to_a), (b, vc_b, a, vc_a, to_a, to_b)]
        {
            let is_watched = class == Class::Abr && self.config.becn.is_some();
            let route = Route { output: output.0, vc, class, number, back, is_watched };
            let before = self.routes[usize::from(input.0)][came.index()].replace(route);
            assert!(before.is_none(), "two channels of one number");
        }
    }

    /// Hands each cell over by itself from now on. Nothing else differs; this is for showing that.
    pub fn cell_by_cell(&mut self) {
        self.outputs.iter_mut().for_each(Output::cell_by_cell);
    }

    /// A hash over all cells sent at a port, and when each arrives: after [`Element::observe`] all up to its instant.
    pub fn digest(&self, port: Port) -> u64 {
        self.outputs[usize::from(port.0)].line.digest()
    }

    /// Puts down all cells that arrive before `until`.
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

    /// Puts down the cells of an input that come before `until`, those of one train.
    fn take(&mut self, input: usize, until: Time) {
        let is_asked = self.outputs[input].is_asked();
        let (cells, cargo) = self.inboxes[input].ahead();
        let cells = sooner(cells, until);
        let (routes, outputs) = (&*self.routes[input], &mut self.outputs[..]);
        let mut rest = cells;
        while let [cell, behind @ ..] = rest {
            rest = behind;
            let Some(route) = &routes[cell.word.vc().index()] else {
                self.unroutable += 1;
                unload(cargo, cell.word);
                continue;
            };
            let output = &mut outputs[usize::from(route.output)];
            let waiting = output.of_class(route.class);
            waiting.put_down(Cell { at: cell.at, word: cell.word.on(route.vc) });
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
                waiting.put_down(Cell { at: next.at, word: next.word.on(route.vc) });
            }
        }
        let count = cells.len();
        self.inboxes[input].pass(count);
    }

    /// Goes through what cells have to do with two outputs, each as of its own moment.
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
                Does::Tell(vc) => {
                    let behind = (at, input + 1);
                    if self.outputs[goes].is_to_be_told(behind, route.number) {
                        self.outputs[came].tell(behind, vc);
                    }
                }
            }
        }
        self.crossings = crossings;
    }

    fn hand_over(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        // What is due before the next time would wake the switch once more.
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

/// Those of the cells that come before `until`: looked for from the first on in steps that double, as a train may be much longer
/// than what is wanted of it, and far from the processor.
#[inline]
fn sooner(cells: &[Cell], until: Time) -> &[Cell] {
    let mut reach = 64;
    while cells.get(reach).is_some_and(|cell| cell.at < until) {
        reach *= 2;
    }
    let near = &cells[..cells.len().min(reach)];
    &near[..near.partition_point(|cell| cell.at < until)]
}

/// Notes what a cell has to do with the output of the port that it came in by, if anything.
#[inline]
fn note(cell: Cell, input: u16, route: &Route, is_asked: bool, crossings: &mut Vec<Crossing>) {
    let Cell { at, word } = cell;
    let crossing = |does| Crossing { moment: (at, input), route: *route, does };
    if is_asked && word.is_backward_rm() {
        crossings.push(crossing(Does::Ask(word)));
    }
    if route.is_watched {
        crossings.push(crossing(Does::Tell(word.vc())));
    }
}

impl Element for Switch {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let input = usize::from(port.0);
        if let Some(inbox) = self.inboxes.get_mut(input) {
            inbox.announce(packet);
            self.deadline = self.deadline.min(inbox.head() + self.shortest);
        }
        // What comes is not looked at before something may have to go out: later there is more of it at once.
        if self.deadline > cx.now() { self.deadline } else { self.wake(cx) }
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.take_before(cx.now());
        self.deadline = self.hand_over(cx);
        self.deadline
    }

    fn patience(&self) -> Span {
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
        observer.counter("unroutable", Unit::Cells, self.unroutable);
        self.outputs.iter().for_each(|output| output.observe(now, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
