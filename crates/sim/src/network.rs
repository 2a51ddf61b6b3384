//! The network of wired elements, and the loop that runs it.

use std::any::Any;

use bentpipe_net::{Cx, Element, Observer, Outbox, Packet, Port, Wire};
use bentpipe_units::{Stream, Time};

use crate::islands::{Island, Islands};
use crate::{Agenda, Fingerprint, loops};

/// An element's number in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(u32);

impl ElementId {
    /// The number, from zero in the order of [`Builder::add`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why elements do not make a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A packet could go round for ever at one instant.
    #[error("a loop without delay: {}", .0.join(" -> "))]
    ZeroDelayLoop(Vec<String>),
    /// Two elements have the same path, so they would draw the same random numbers.
    #[error("two elements are called \"{0}\"")]
    SameName(String),
}

/// What runs when packets pass an input.
type Tap = Box<dyn FnMut(Time, &Packet) + Send>;

struct Slot {
    element: Box<dyn Element>,
    stream: Stream,
    wires: Vec<Wire>,
    /// What the element asked for last.
    deadline: Time,
    /// What the agenda has for it, which may be earlier.
    entered: Time,
    /// Whether any of the taps is on this element.
    tapped: bool,
    /// Whether its island is run ahead, and the agenda hears of it when that is over.
    is_ahead: bool,
}

/// Collects elements and wires.
pub struct Builder {
    seed: u64,
    slots: Vec<Slot>,
    paths: Vec<String>,
}

impl Builder {
    /// An empty network; `seed` seeds every element's random stream.
    pub fn new(seed: u64) -> Builder {
        Builder { seed, slots: Vec::new(), paths: Vec::new() }
    }

    /// Adds an element. `path` is its place in the scenario ("link/uplink/queue"); it seeds its random stream.
    pub fn add(&mut self, path: impl Into<String>, element: impl Element + 'static) -> ElementId {
        self.add_boxed(path, Box::new(element))
    }

    /// As [`Builder::add`], for an element that is already behind a box.
    pub fn add_boxed(&mut self, path: impl Into<String>, element: Box<dyn Element>) -> ElementId {
        let path = path.into();
        let stream = Stream::new(self.seed, &path);
        let id = ElementId(self.slots.len() as u32);
        self.slots.push(Slot {
            element,
            stream,
            wires: Vec::new(),
            deadline: Time::NEVER,
            entered: Time::NEVER,
            tapped: false,
            is_ahead: false,
        });
        self.paths.push(path);
        id
    }

    /// Leads output `out` of `from` to input `into` of `to`. A second wire from the same output replaces the first.
    pub fn connect(&mut self, (from, out): (ElementId, Port), (to, into): (ElementId, Port)) {
        let wires = &mut self.slots[from.index()].wires;
        let needed = usize::from(out.0) + 1;
        if wires.len() < needed {
            wires.resize(needed, Wire::UNCONNECTED);
        }
        wires[usize::from(out.0)] = Wire::new(to.0, into);
    }

    /// Checks the wiring.
    ///
    /// # Errors
    /// A loop of elements without any delay, or two elements of one path.
    pub fn build(self) -> Result<Network, BuildError> {
        let mut sorted: Vec<&String> = self.paths.iter().collect();
        sorted.sort();
        if let Some(twins) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BuildError::SameName(twins[0].clone()));
        }
        let elements: Vec<&dyn Element> = self.slots.iter().map(|slot| &*slot.element).collect();
        let wires: Vec<&[Wire]> = self.slots.iter().map(|slot| &slot.wires[..]).collect();
        if let Some(around) = loops::find(&elements, &wires) {
            let names = around.iter().map(|&element| self.paths[element as usize].clone()).collect();
            return Err(BuildError::ZeroDelayLoop(names));
        }
        let islands = Islands::find(&elements, &wires);
        Ok(Network::new(self.slots, self.paths, islands))
    }
}

/// How much the engine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Packets handed to elements.
    pub deliveries: u64,
    /// Wake-ups of elements.
    pub wakeups: u64,
}

/// Wired elements and the instant they are at.
pub struct Network {
    slots: Vec<Slot>,
    paths: Vec<String>,
    agenda: Agenda,
    outbox: Outbox,
    now: Time,
    fingerprint: Fingerprint,
    work: Work,
    taps: Vec<(Wire, Tap)>,
    islands: Islands,
}

impl Network {
    fn new(slots: Vec<Slot>, paths: Vec<String>, islands: Islands) -> Network {
        let mut agenda = Agenda::new(slots.len());
        for element in 0..slots.len() {
            agenda.set(element, Time::ZERO);
        }
        let mut slots = slots;
        slots.iter_mut().for_each(|slot| (slot.deadline, slot.entered) = (Time::ZERO, Time::ZERO));
        let (fingerprint, work) = (Fingerprint::EMPTY, Work::default());
        let outbox = Outbox::default();
        Network {
            slots,
            paths,
            agenda,
            outbox,
            now: Time::ZERO,
            fingerprint,
            work,
            taps: Vec::new(),
            islands,
        }
    }

    /// The instant the network is at.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When the next wake-up is due; [`Time::NEVER`] when nothing will happen any more.
    pub fn next_deadline(&self) -> Time {
        self.agenda.first().0
    }

    /// Runs everything that is due up to and including `end`, each thing at its own instant, and leaves the network
    /// at `end`.
    pub fn run_until(&mut self, end: Time) {
        self.deliver_all();
        let mut ahead = None;
        while let Some((time, element)) = self.next(&mut ahead, end) {
            self.now = time;
            self.wake(element);
            self.deliver_all();
        }
        self.now = self.now.max(end);
    }

    /// Who is to be woken next, and when, up to `end`: of the island that is run `ahead` whoever is first, as long as it is before
    /// the instant up to which it may be; of all, when that is over.
    #[inline]
    fn next(&mut self, ahead: &mut Option<(usize, Time)>, end: Time) -> Option<(Time, usize)> {
        if let Some((island, until)) = *ahead {
            let next = self.first_of(island);
            if next.is_some_and(|(time, _)| time < until && time <= end) {
                return next;
            }
            self.come_back(island);
            *ahead = None;
        }
        loop {
            let (time, element) = self.agenda.first();
            if time > end || time.is_never() {
                return None;
            }
            let slot = &mut self.slots[element];
            if slot.deadline > time {
                // The deadline moved later since it was entered; only now does that cost anything.
                slot.entered = slot.deadline;
                self.agenda.set(element, slot.deadline);
                continue;
            }
            if let Some(island) = self.islands.of(element) {
                *ahead = self.set_out(island, time);
            }
            return Some((time, element));
        }
    }

    /// Begins to run an island ahead, where none is behind `now`: up to the instant before which nothing that happens elsewhere
    /// can reach it, as none of the patient elements is woken, neither for what it has nor for what comes to it from now on.
    fn set_out(&mut self, island: usize, now: Time) -> Option<(usize, Time)> {
        // Whoever listens hears everything in the order of time.
        if !self.taps.is_empty() {
            return None;
        }
        let Island { elements, straits } = &self.islands[island];
        elements.iter().for_each(|&element| self.slots[element as usize].is_ahead = true);
        let known = straits.iter().map(|&strait| self.slots[strait as usize].deadline).min();
        Some((island, known.unwrap_or(Time::NEVER).min(now + self.islands.patience())))
    }

    /// Tells the agenda how far an island has come that was run ahead.
    fn come_back(&mut self, island: usize) {
        for &element in &self.islands[island].elements {
            let slot = &mut self.slots[element as usize];
            slot.is_ahead = false;
            slot.enter(self.now, element as usize, &mut self.agenda);
        }
    }

    /// Who of an island is to be woken first, and when.
    #[inline]
    fn first_of(&self, island: usize) -> Option<(Time, usize)> {
        let elements = self.islands[island].elements.iter();
        elements.map(|&element| (self.slots[element as usize].deadline, element as usize)).min()
    }

    /// Gives a packet to an input from outside, at the present instant. It and all that follows from it at this
    /// instant happens at the next [`Network::run_until`].
    pub fn inject(&mut self, to: ElementId, port: Port, packet: Packet) {
        self.outbox.push(Wire::new(to.0, port), packet);
    }

    /// Calls `tap` with every packet that arrives at an input. Taps see, and change nothing.
    pub fn tap(&mut self, to: ElementId, port: Port, tap: impl FnMut(Time, &Packet) + Send + 'static) {
        self.slots[to.index()].tapped = true;
        self.taps.push((Wire::new(to.0, port), Box::new(tap)));
    }

    /// Lets an element report its counters and gauges.
    pub fn observe(&mut self, id: ElementId, observer: &mut dyn Observer) {
        self.slots[id.index()].element.observe(self.now, observer);
    }

    /// An element, for whoever knows its type; wake it afterwards if its deadline may have changed.
    pub fn element<E: Any>(&mut self, id: ElementId) -> Option<&mut E> {
        self.slots[id.index()].element.as_any().downcast_mut()
    }

    /// Wakes an element now, as after a change from outside.
    pub fn poke(&mut self, id: ElementId) {
        self.wake(id.index());
    }

    /// All elements, in their order.
    pub fn ids(&self) -> impl Iterator<Item = ElementId> + use<> {
        (0..self.slots.len() as u32).map(ElementId)
    }

    /// The path that an element was added under.
    pub fn path(&self, id: ElementId) -> &str {
        &self.paths[id.index()]
    }

    /// The hash over all that happened so far.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// How much was done so far.
    pub fn work(&self) -> Work {
        self.work
    }

    #[cfg(test)]
    pub(crate) fn islands(&self) -> &Islands {
        &self.islands
    }

    /// Packets sent to outputs that lead nowhere.
    pub fn stray(&self) -> u64 {
        self.outbox.stray()
    }

    #[inline]
    fn wake(&mut self, element: usize) {
        self.work.wakeups += 1;
        let slot = &mut self.slots[element];
        let mut cx = Cx::new(self.now, &slot.wires, &mut self.outbox, &mut slot.stream);
        let deadline = slot.element.wake(&mut cx);
        slot.arm(deadline, self.now, element, &mut self.agenda);
    }

    #[inline]
    fn deliver_all(&mut self) {
        while let Some((wire, packet)) = self.outbox.pop() {
            self.deliver(wire, packet);
        }
    }

    #[inline]
    fn deliver(&mut self, wire: Wire, packet: Packet) {
        self.work.deliveries += 1;
        self.fingerprint.add(self.now, wire.number(), packet.digest());
        let element = wire.to() as usize;
        let slot = &mut self.slots[element];
        if slot.tapped {
            let taps = self.taps.iter_mut().filter(|(at, _)| *at == wire);
            taps.for_each(|(_, tap)| tap(self.now, &packet));
        }
        let mut cx = Cx::new(self.now, &slot.wires, &mut self.outbox, &mut slot.stream);
        let deadline = slot.element.receive(wire.port(), packet, &mut cx);
        slot.arm(deadline, self.now, element, &mut self.agenda);
    }
}

impl Slot {
    /// Notes what the element asked for.
    #[inline]
    fn arm(&mut self, deadline: Time, now: Time, element: usize, agenda: &mut Agenda) {
        debug_assert!(deadline >= now, "element {element} asked for the past");
        if deadline == self.deadline {
            return;
        }
        self.deadline = deadline.max(now);
        if !self.is_ahead {
            self.enter(now, element, agenda);
        }
    }

    /// Tells the agenda. It is touched only if that is earlier than what it holds, or if what it holds is over: a timer that only
    /// moves later costs nothing until it fires.
    #[inline]
    fn enter(&mut self, now: Time, element: usize, agenda: &mut Agenda) {
        if self.deadline < self.entered || self.entered <= now {
            self.entered = self.deadline;
            agenda.set(element, self.deadline);
        }
    }
}

#[cfg(test)]
mod tests;
