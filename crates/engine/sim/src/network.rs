//! The network of wired elements, and the loop that runs it.

use std::any::Any;
use std::collections::{HashMap, HashSet, VecDeque};

use bentpipe_net::ledger::{AccountNumber, Accounts, Entry, Ledger, set_place};
use bentpipe_net::metric::{Counter, Gauge, Of};
use bentpipe_net::{Cx, Element, Observer, Outbox, Packet, Port, Wire};
use bentpipe_units::{RandomStream, Span, Time};

use crate::clusters::{Cluster, Clusters};
use crate::components::{Components, Place};
use crate::statement::{Statement, statements};
use crate::{Fingerprint, loops};

/// An element's number in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(u32);

impl ElementId {
    /// Returns the number, from zero in the order of [`Builder::add`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Error returned when elements cannot be wired into a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The wiring contains a zero-delay loop.
    #[error("a loop without delay: {}", .0.join(" -> "))]
    ZeroDelayLoop(Vec<String>),
    /// Two elements have the same path, so they would draw the same random numbers.
    #[error("two elements are called \"{0}\"")]
    SameName(String),
}

/// Callback invoked for each packet at a tapped input.
type Tap = Box<dyn FnMut(Time, &Packet) + Send>;

/// Action on the network at a scheduled time.
type Action = Box<dyn FnOnce(&mut Network) + Send>;

/// Callback invoked with the ends of packets that were followed.
type Conclusion = Box<dyn FnOnce(Vec<PacketEnd>) + Send>;

/// End of a packet that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketEnd {
    /// Time at which it, or the first of its copies, was delivered.
    pub arrived: Option<Time>,
    /// Other end, and the element where it was.
    pub end: Option<(Entry, ElementId)>,
}

/// Callback invoked for each packet at any input.
///
/// It gets the packet's place among those that are followed, if the packet enters there.
type Watch = Box<dyn FnMut(Time, (ElementId, Port), &Packet, Option<usize>) + Send>;

struct Slot {
    element: Box<dyn Element>,
    stream: RandomStream,
    wires: Vec<Wire>,
    /// Place in the agenda.
    place: Place,
    /// Time that the element requested last.
    deadline: Time,
    /// Time in the agenda, which may be earlier.
    entered: Time,
    /// Set if one of the taps is on this element, or all packets are watched.
    tapped: bool,
    /// Set while its cluster is executed ahead. The agenda is updated when that ends.
    is_ahead: bool,
}

/// Collects elements and wires.
pub struct Builder {
    seed: u64,
    slots: Vec<Slot>,
    paths: Vec<String>,
}

impl Builder {
    /// Creates an empty network; `seed` seeds every element's random stream.
    pub fn new(seed: u64) -> Builder {
        Builder { seed, slots: Vec::new(), paths: Vec::new() }
    }

    /// Adds an element. `path` is its place in the scenario ("link/uplink/queue"); it seeds its random stream.
    pub fn add(&mut self, path: impl Into<String>, element: impl Element + 'static) -> ElementId {
        self.add_boxed(path, Box::new(element))
    }

    /// Adds an element that is already boxed, as [`Builder::add`] does.
    pub fn add_boxed(&mut self, path: impl Into<String>, element: Box<dyn Element>) -> ElementId {
        let path = path.into();
        let stream = RandomStream::new(self.seed, &path);
        let id = ElementId(self.slots.len() as u32);
        self.slots.push(Slot {
            element,
            stream,
            wires: Vec::new(),
            place: Place::default(),
            deadline: Time::NEVER,
            entered: Time::NEVER,
            tapped: false,
            is_ahead: false,
        });
        self.paths.push(path);
        id
    }

    /// Connects output `out` of `from` to input `into` of `to`, replacing any previous connection.
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
        let clusters = Clusters::find(&elements, &wires);
        let components = Components::find(&wires);
        Ok(Network::new(self.slots, self.paths, clusters, components))
    }
}

/// Event counts of the engine since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Packets handed to elements.
    pub deliveries: u64,
    /// Wake-ups of elements.
    pub wakeups: u64,
}

/// Wired elements and the instant they are at.
pub struct Network {
    slots: Vec<Slot>,
    paths: Vec<String>,
    agenda: Components,
    outbox: Outbox,
    ledger: Ledger,
    /// Senders of the accounts, by number from 1.
    senders: Vec<Sender>,
    now: Time,
    fingerprint: Fingerprint,
    work: EngineCounters,
    taps: Vec<(Wire, Tap)>,
    watch: Option<Watch>,
    conclusion: Option<Conclusion>,
    /// Inputs at which packets are followed, by the numbers of their wires.
    followed: HashSet<u64>,
    clusters: Clusters,
    /// Scheduled actions, in the order of their times.
    scheduled: VecDeque<(Time, Action)>,
}

impl Network {
    fn new(
        mut slots: Vec<Slot>,
        paths: Vec<String>,
        clusters: Clusters,
        components: (Components, Vec<Place>),
    ) -> Network {
        slots.iter_mut().for_each(|slot| slot.deadline = Time::ZERO);
        let (fingerprint, work) = (Fingerprint::EMPTY, EngineCounters::default());
        let agenda = enter_all(&mut slots, components);
        let senders = open_accounts(&mut slots);
        let mut accounts = Accounts::up_to(senders.len() as u32);
        accounts.set_outside(outside(&slots, &senders));
        let outbox = Outbox::new(accounts);
        Network {
            slots,
            paths,
            agenda,
            outbox,
            ledger: Ledger::default(),
            senders,
            now: Time::ZERO,
            fingerprint,
            work,
            taps: Vec::new(),
            watch: None,
            conclusion: None,
            followed: HashSet::new(),
            clusters,
            scheduled: VecDeque::new(),
        }
    }

    /// Returns the present instant of the network.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time of the next wake-up or action; [`Time::NEVER`] when none is left.
    pub fn next_deadline(&self) -> Time {
        let scheduled = self.scheduled.front().map_or(Time::NEVER, |(at, _)| *at);
        self.agenda.deadline().min(scheduled)
    }

    /// Schedules an action on the network for a time. It follows all else that happens at that instant, and actions of one
    /// time run in the order in which they were scheduled. A time that has passed counts as the present.
    pub fn schedule(&mut self, at: Time, action: impl FnOnce(&mut Network) + Send + 'static) {
        let at = at.max(self.now);
        let place = self.scheduled.partition_point(|(other, _)| *other <= at);
        self.scheduled.insert(place, (at, Box::new(action)));
    }

    /// Runs all events up to and including `end`, each at its own instant.
    ///
    /// The network is then at `end`.
    pub fn run_until(&mut self, end: Time) {
        let outer = self.ledger.open(0);
        self.run_all_until(end);
        self.ledger.close(outer);
    }

    fn run_all_until(&mut self, end: Time) {
        while self.scheduled.front().is_some_and(|(at, _)| *at <= end) {
            let Some((at, action)) = self.scheduled.pop_front() else { break };
            self.run_elements_until(at);
            action(self);
        }
        self.run_elements_until(end);
    }

    fn run_elements_until(&mut self, end: Time) {
        self.deliver_all();
        let now = self.now;
        while self.agenda.begin(end) {
            let mut ahead = None;
            while let Some((time, element)) = self.next(&mut ahead, end) {
                self.now = time;
                self.wake(element);
                self.deliver_all();
            }
            self.agenda.end();
        }
        self.now = now.max(end);
    }

    /// Returns the next element to wake up to `end`, and its time.
    ///
    /// It is of the component that is executed. While a cluster is executed `ahead`, that is its first element before the cluster's limit, and then
    /// the first of all.
    #[inline]
    fn next(&mut self, ahead: &mut Option<(usize, Time)>, end: Time) -> Option<(Time, usize)> {
        if let Some((cluster, until)) = *ahead {
            let next = self.first_of(cluster);
            if next.is_some_and(|(time, _)| time < until && time <= end) {
                return next;
            }
            self.end_ahead(cluster);
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
                self.agenda.set(slot.place, slot.deadline);
                continue;
            }
            if let Some(cluster) = self.clusters.of(element) {
                *ahead = self.begin_ahead(cluster, time);
            }
            return Some((time, element));
        }
    }

    /// Begins to execute a cluster ahead, if none of its elements is later than `now`.
    ///
    /// Returns the instant before which no event elsewhere can reach it: no deferring element is woken by
    /// then, for present or future arrivals.
    fn begin_ahead(&mut self, cluster: usize, now: Time) -> Option<(usize, Time)> {
        // Taps observe all packets in the order of time.
        if !self.taps.is_empty() || self.watch.is_some() {
            return None;
        }
        let Cluster { elements, upstream } = &self.clusters[cluster];
        elements.iter().for_each(|&element| self.slots[element as usize].is_ahead = true);
        let known = upstream.iter().map(|&element| self.slots[element as usize].deadline).min();
        Some((cluster, known.unwrap_or(Time::NEVER).min(now + self.clusters.min_reaction_delay())))
    }

    /// Enters a cluster that was executed ahead into the agenda.
    fn end_ahead(&mut self, cluster: usize) {
        for &element in &self.clusters[cluster].elements {
            let slot = &mut self.slots[element as usize];
            slot.is_ahead = false;
            slot.enter(self.now, &mut self.agenda);
        }
    }

    /// Returns the first element of a cluster to wake, and its time.
    #[inline]
    fn first_of(&self, cluster: usize) -> Option<(Time, usize)> {
        let elements = self.clusters[cluster].elements.iter();
        elements.map(|&element| (self.slots[element as usize].deadline, element as usize)).min()
    }

    /// Passes an external packet to an input, at the present instant. The packet and its effects at this
    /// instant are processed by the next [`Network::run_until`].
    pub fn inject(&mut self, to: ElementId, port: Port, packet: Packet) {
        self.outbox.push(Wire::new(to.0, port), packet);
    }

    /// Calls `tap` with every packet that arrives at an input. Taps see, and change nothing.
    pub fn tap(&mut self, to: ElementId, port: Port, tap: impl FnMut(Time, &Packet) + Send + 'static) {
        self.keep_order();
        self.slots[to.index()].tapped = true;
        self.taps.push((Wire::new(to.0, port), Box::new(tap)));
    }

    /// Calls `watch` with every packet that arrives at any input. It sees, and changes nothing. It replaces an earlier one.
    ///
    /// At an input where packets are followed ([`Network::follow`]), it has the packet's place among them.
    pub fn watch(
        &mut self,
        watch: impl FnMut(Time, (ElementId, Port), &Packet, Option<usize>) + Send + 'static,
    ) {
        self.keep_order();
        self.slots.iter_mut().for_each(|slot| slot.tapped = true);
        self.watch = Some(Box::new(watch));
    }

    /// Follows the packets that are sent at these inputs, each to its end.
    ///
    /// [`Network::close`] calls `conclude` with them, in the order in which they were sent. They are at most
    /// [`MAX_FOLLOWED`](bentpipe_net::ledger::MAX_FOLLOWED).
    pub fn follow(
        &mut self,
        inputs: &[(ElementId, Port)],
        conclude: impl FnOnce(Vec<PacketEnd>) + Send + 'static,
    ) {
        let input = |id: &ElementId, port: &Port| Wire::new(id.0, *port).number();
        let wanted: HashSet<u64> = inputs.iter().map(|(id, port)| input(id, port)).collect();
        let leads_there =
            |id: &ElementId| self.slots[id.index()].wires.iter().any(|wire| wanted.contains(&wire.number()));
        // What an element has an account of its own for is sent there too.
        let is_meant = |sender: &Sender| match sender {
            Sender::Input(id, port) => wanted.contains(&input(id, port)),
            Sender::Own(id, _) => leads_there(id),
            Sender::Answers(..) => false,
        };
        let numbers = self.senders.iter().zip(1..).filter(|(sender, _)| is_meant(sender));
        self.outbox.accounts_mut().follow(numbers.map(|(_, number)| number).collect());
        let begins = |sender: &Sender| match sender {
            Sender::Input(id, port) => Some(input(id, port)).filter(|number| wanted.contains(number)),
            Sender::Own(..) | Sender::Answers(..) => None,
        };
        self.followed = self.senders.iter().filter_map(begins).collect();
        self.conclusion = Some(Box::new(conclude));
    }

    /// Returns the ends of the packets that were followed.
    fn ends(&self) -> Vec<PacketEnd> {
        let accounts = self.outbox.accounts();
        let mut ends = Vec::new();
        for packet in accounts.followed() {
            ends.push(PacketEnd { arrived: (packet.delivered > 0).then_some(packet.at), end: None });
        }
        for (number, element, entry, count) in self.ledger.entries() {
            let place = accounts.place_of_followed(number);
            let Some(known) = place.and_then(|place| ends.get_mut(place)) else { continue };
            // Of several copies one that arrived at a proxy counts, then one that may still arrive.
            if count > 0 && entry.is_end() && known.arrived.is_none() {
                let rank = |(entry, at)| (entry == Entry::TakenOver, entry, at);
                known.end =
                    std::cmp::max_by_key(known.end, Some((entry, ElementId(element))), |end| end.map(rank));
            }
        }
        ends
    }

    /// Starts the window of measures: packets that are sent from now on have accounts apart.
    pub fn start_window(&mut self) {
        self.outbox.accounts_mut().start_window();
    }

    /// Executes all components in the order of time from now on.
    fn keep_order(&mut self) {
        let one = Components::one(self.slots.len());
        self.agenda = enter_all(&mut self.slots, one);
    }

    /// Returns the input that an output of an element leads to.
    pub fn leads_to(&self, from: ElementId, out: Port) -> Option<(ElementId, Port)> {
        let wire = self.slots[from.index()].wires.get(usize::from(out.0))?;
        wire.is_connected().then(|| (ElementId(wire.to()), wire.port()))
    }

    /// Reports the counters and gauges of an element.
    pub fn observe(&mut self, id: ElementId, observer: &mut dyn Observer) {
        let outer = self.ledger.open(id.0);
        self.outbox.accounts_mut().settle();
        let Slot { element, stream, .. } = &mut self.slots[id.index()];
        element.settle(self.outbox.accounts());
        element.bring_up_to(self.now, stream);
        element.observe(self.now, observer);
        self.ledger.close(outer);
    }

    /// Changes an element of a known type. Wake it afterwards if its deadline may have changed.
    ///
    /// What it does with packets meanwhile is in their accounts, as in its calls.
    pub fn change<E: Any, R>(&mut self, id: ElementId, change: impl FnOnce(&mut E) -> R) -> Option<R> {
        let element = self.slots[id.index()].element.as_any().downcast_mut()?;
        let outer = self.ledger.open(id.0);
        let result = change(element);
        self.ledger.close(outer);
        Some(result)
    }

    /// Returns an element of a known type, to be read. A change that may end packets is for [`Network::change`].
    pub fn element<E: Any>(&mut self, id: ElementId) -> Option<&mut E> {
        self.slots[id.index()].element.as_any().downcast_mut()
    }

    /// Sets the wall-clock time of instant 0, since 1970, at all elements: [`Element::set_date`].
    pub fn set_date(&mut self, start: Span) {
        self.slots.iter_mut().for_each(|slot| slot.element.set_date(start));
    }

    /// Wakes an element now, as after a change from outside.
    pub fn poke(&mut self, id: ElementId) {
        let outer = self.ledger.open(id.0);
        self.wake(id.index());
        self.ledger.close(outer);
    }

    /// Returns the accounts of packets up to now, in the order of their senders. Where packets are that are still on
    /// their way is not known before [`Network::close`].
    pub fn statements(&self) -> Vec<Statement> {
        self.state(self.sender_paths())
    }

    /// Ends the run, and returns the accounts of packets.
    ///
    /// They have the places of packets that are on their way.
    pub fn close(mut self) -> Vec<Statement> {
        // Lines are served when they are looked at.
        self.ids().for_each(|id| self.observe(id, &mut Unheeded));
        let senders = self.sender_paths();
        let mut slots = std::mem::take(&mut self.slots).into_iter();
        self.ledger.take_stock(self.paths.len() as u32, |_| drop(slots.next()));
        if let Some(conclude) = self.conclusion.take() {
            conclude(self.ends());
        }
        self.state(senders)
    }

    fn state(&self, senders: Vec<String>) -> Vec<Statement> {
        statements(senders.into_iter().zip(1..), self.outbox.accounts(), &self.ledger, &self.paths)
    }

    /// Returns the path of each account's sender.
    ///
    /// That is the element that leads to the input, or the element itself.
    fn sender_paths(&self) -> Vec<String> {
        let wires = self.slots.iter().enumerate();
        let wires = wires.flat_map(|(from, slot)| slot.wires.iter().map(move |wire| (wire.number(), from)));
        let leading: HashMap<u64, usize> = wires.collect();
        let of = |id: ElementId, input: Option<Port>| {
            let from = input.and_then(|input| leading.get(&Wire::new(id.0, input).number()));
            self.paths[from.copied().unwrap_or(id.index())].clone()
        };
        let asking = |number: &AccountNumber| match self.senders.get(number.get()?.checked_sub(1)? as usize)?
        {
            Sender::Input(id, input) => Some(of(*id, Some(*input))),
            Sender::Own(..) | Sender::Answers(..) => None,
        };
        let path = |sender: &Sender| match sender {
            Sender::Own(id, None) => of(*id, None),
            Sender::Own(id, Some(name)) => format!("{}/{name}", of(*id, None)),
            Sender::Input(id, input) => of(*id, Some(*input)),
            // The other end of a flow.
            Sender::Answers(id, to) => asking(to)
                .and_then(|asking| Some(format!("{}/receiver", asking.strip_suffix("/sender")?)))
                .unwrap_or_else(|| of(*id, None)),
        };
        self.senders.iter().map(path).collect()
    }

    /// Returns all elements, in their order.
    pub fn ids(&self) -> impl Iterator<Item = ElementId> + use<> {
        (0..self.slots.len() as u32).map(ElementId)
    }

    /// Returns the path that an element was added under.
    pub fn path(&self, id: ElementId) -> &str {
        &self.paths[id.index()]
    }

    /// Returns the hash over all deliveries up to now.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the event counts up to now.
    pub fn work(&self) -> EngineCounters {
        self.work
    }

    #[cfg(test)]
    pub(crate) fn components(&self) -> &Components {
        &self.agenda
    }

    #[cfg(test)]
    pub(crate) fn clusters(&self) -> &Clusters {
        &self.clusters
    }

    /// Returns the number of packets sent to unconnected outputs.
    pub fn unrouted_packets(&self) -> u64 {
        self.outbox.unrouted_packets()
    }

    #[inline]
    fn wake(&mut self, element: usize) {
        self.work.wakeups += 1;
        set_place(element as u32);
        let slot = &mut self.slots[element];
        let mut cx = Cx::new(self.now, &slot.wires, &mut self.outbox, &mut slot.stream);
        let deadline = slot.element.wake(&mut cx);
        slot.arm(deadline, self.now, &mut self.agenda);
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
        set_place(wire.to());
        let slot = &mut self.slots[element];
        if slot.tapped {
            let taps = self.taps.iter_mut().filter(|(at, _)| *at == wire);
            taps.for_each(|(_, tap)| tap(self.now, &packet));
            if let Some(watch) = &mut self.watch {
                let is_entry = self.followed.contains(&wire.number());
                let entry = is_entry.then(|| self.outbox.accounts().place_at_entry(packet.entered()));
                let place = entry.flatten();
                watch(self.now, (ElementId(wire.to()), wire.port()), &packet, place);
            }
        }
        let mut cx = Cx::new(self.now, &slot.wires, &mut self.outbox, &mut slot.stream);
        let deadline = slot.element.receive(wire.port(), packet, &mut cx);
        slot.arm(deadline, self.now, &mut self.agenda);
    }
}

impl Slot {
    /// Records the time that the element requested.
    #[inline]
    fn arm(&mut self, deadline: Time, now: Time, agenda: &mut Components) {
        debug_assert!(deadline >= now, "an element asked for the past");
        if deadline == self.deadline {
            return;
        }
        self.deadline = deadline.max(now);
        if !self.is_ahead {
            self.enter(now, agenda);
        }
    }

    /// Updates the agenda if the time precedes its entry, or if the entry has passed.
    ///
    /// A timer that only moves later costs nothing until it fires.
    #[inline]
    fn enter(&mut self, now: Time, agenda: &mut Components) {
        if self.deadline < self.entered || self.entered <= now {
            self.entered = self.deadline;
            agenda.set(self.place, self.deadline);
        }
    }
}

/// Observer of nothing.
struct Unheeded;

impl Observer for Unheeded {
    fn counter(&mut self, _: &'static Of<Counter>, _: u64) {}
    fn gauge(&mut self, _: &'static Of<Gauge>, _: f64) {}
}

/// Sender of the packets of an account.
#[derive(Clone, Debug)]
enum Sender {
    /// Element with packets of its own, and the name of their account.
    Own(ElementId, Option<&'static str>),
    /// Element that leads to an input.
    Input(ElementId, Port),
    /// Element that answers the packets of an account.
    Answers(ElementId, AccountNumber),
}

/// Opens the accounts of all elements, and returns their senders.
fn open_accounts(slots: &mut [Slot]) -> Vec<Sender> {
    let mut senders = Vec::new();
    for (n, slot) in slots.iter_mut().enumerate() {
        if let Some(inputs) = slot.element.open_accounts(senders.len() as u32 + 1) {
            let id = ElementId(n as u32);
            senders.push(Sender::Own(id, slot.element.own_account()));
            senders.extend(inputs.map(|input| Sender::Input(id, Port(input))));
            let answered = slot.element.answered().iter().cloned();
            senders.extend(answered.map(|account| Sender::Answers(id, account)));
        }
    }
    senders
}

/// Returns the accounts of packets that come from outside.
fn outside(slots: &[Slot], senders: &[Sender]) -> Vec<u32> {
    let is_outside = |sender: &Sender| match sender {
        Sender::Own(id, _) => slots[id.0 as usize].element.leads_outside(),
        Sender::Input(..) | Sender::Answers(..) => false,
    };
    (1..).zip(senders).filter(|(_, sender)| is_outside(sender)).map(|(number, _)| number).collect()
}

/// Enters the deadlines of all elements into these components.
fn enter_all(slots: &mut [Slot], (mut components, places): (Components, Vec<Place>)) -> Components {
    for (slot, place) in slots.iter_mut().zip(places) {
        (slot.place, slot.entered) = (place, slot.deadline);
        components.set(place, slot.deadline);
    }
    components
}

#[cfg(test)]
mod tests;
