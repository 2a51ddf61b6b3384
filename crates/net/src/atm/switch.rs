//! An ATM switch with queues at its outputs.
//!
//! Modelled: virtual channels from input to output with translation; at each output a queue for each service category,
//! finite or not, the categories served in strict order; early and partial packet discard for UBR; EFCI; ERICA and
//! ERICA+. Not modelled: delay or blocking inside the fabric, which takes no time; policing; VS/VD.
//!
//! Cells of all inputs are taken in the order of their arrival, those of one instant in the order of the ports. The switch
//! wakes only to hand a train over: once in the delay of each of its lines.

use std::any::Any;

use bentpipe_units::{Span, Time};

use super::cell::{Cell, Inbox, Vc, unload};
use super::erica::{Measurement, QueueControl, Target};
use super::line;
use super::order::Order;
use super::service::Class;
use crate::{Cx, Element, Impossible, Observer, Packet, Port, Unit};

mod output;

use output::{Arrival, Output};

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
    /// Which input has the next cell.
    order: Order,
    outputs: Vec<Output>,
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
    vc: Vc,
    class: Class,
    /// Its number at the output.
    channel: u16,
    /// Its number at the output of the port that its cells come in by, which backward RM cells among them ask.
    back: u16,
}

impl Switch {
    /// A switch without ports.
    pub fn new(config: &Config) -> Switch {
        Switch {
            config: *config,
            inboxes: Vec::new(),
            order: Order::new(0),
            outputs: Vec::new(),
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
        self.order = Order::new(self.inboxes.len());
        Ok(Port(self.outputs.len() as u16 - 1))
    }

    /// Leads a channel through, in both directions.
    ///
    /// # Panics
    /// If there is no such port, or it has a channel of this number already.
    pub fn connect(&mut self, (a, vc_a): (Port, Vc), (b, vc_b): (Port, Vc), class: Class) {
        let [to_a, to_b] = [a, b].map(|port| self.outputs[usize::from(port.0)].add_channel());
        let route = |output: Port, vc, channel, back| Route { output: output.0, vc, class, channel, back };
        let before = [
            self.routes[usize::from(a.0)][vc_a.index()].replace(route(b, vc_b, to_b, to_a)),
            self.routes[usize::from(b.0)][vc_b.index()].replace(route(a, vc_a, to_a, to_b)),
        ];
        assert!(before.iter().all(Option::is_none), "two channels of one number");
    }

    /// Hands each cell over by itself from now on. Nothing else differs; this is for showing that.
    pub fn cell_by_cell(&mut self) {
        self.outputs.iter_mut().for_each(Output::cell_by_cell);
    }

    /// A hash over all cells sent at a port, and when each arrives.
    pub fn digest(&self, port: Port) -> u64 {
        self.outputs[usize::from(port.0)].line.digest()
    }

    /// Takes all cells that arrive before `until`, and starts all transmissions due before it.
    fn advance(&mut self, until: Time) {
        let mut before = usize::MAX;
        loop {
            let (at, input) = self.order.first();
            if at >= until {
                break;
            }
            // The line that had the cell before, too, is likely to have several before another one has any.
            let (rival, other) = if input == before { self.order.second() } else { (at, input) };
            let tie = Span::from_nanos(u64::from(input <= other));
            self.take(input, until.min(rival + tie));
            self.order.set(input, self.inboxes[input].head());
            before = input;
        }
        self.outputs.iter_mut().for_each(|output| output.advance(until));
    }

    /// Takes the cells of an input that come before `until`.
    fn take(&mut self, input: usize, until: Time) {
        let (inbox, routes) = (&mut self.inboxes[input], &self.routes[input]);
        let (cells, cargo) = inbox.take_before(until);
        for &Cell { at, mut word } in cells {
            let Some(route) = &routes[word.vc().index()] else {
                self.unroutable += 1;
                unload(cargo, word);
                continue;
            };
            if word.is_backward_rm() {
                word = self.outputs[input].feedback(at, route.back, word);
            }
            let Route { vc, class, channel, .. } = *route;
            let output = &mut self.outputs[usize::from(route.output)];
            output.arrive(Arrival { at, word: word.on(vc), channel, class }, cargo);
            if output.tells() && class == Class::Abr && output.is_to_be_told(at, channel) {
                self.outputs[input].tell(at, word.vc());
            }
        }
    }

    fn hand_over(&mut self, cx: &mut Cx<'_>) -> Time {
        let now = cx.now();
        let next_arrival = self.order.first().0;
        let mut deadline = Time::NEVER;
        for (n, output) in self.outputs.iter_mut().enumerate() {
            while let Some(train) = output.line.take(now) {
                cx.emit(Port(n as u16), train);
            }
            deadline = deadline.min(output.deadline(now, next_arrival));
        }
        deadline
    }
}

impl Element for Switch {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        let input = usize::from(port.0);
        if let Some(inbox) = self.inboxes.get_mut(input) {
            inbox.announce(packet);
            self.order.set(input, inbox.head());
            self.deadline = self.deadline.min(inbox.head() + self.shortest);
        }
        // What comes is not looked at before something may have to go out: later there is more of it at once.
        if self.deadline > cx.now() { self.deadline } else { self.wake(cx) }
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        self.advance(cx.now());
        self.deadline = self.hand_over(cx);
        self.deadline
    }

    fn forwards(&self, _from: Port, _to: Port) -> bool {
        // A cell takes its own time to the other end of the line.
        false
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        self.advance(now);
        observer.counter("unroutable", Unit::Cells, self.unroutable);
        self.outputs.iter().for_each(|output| output.observe(now, observer));
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
