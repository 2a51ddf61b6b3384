//! Contract between elements and their engine.

use std::collections::VecDeque;
use std::ops::Range;

use bentpipe_units::{RandomStream, Span, Time};

use crate::ledger::{AccountNumber, Accounts, SubAccount, Tallies};
use crate::metric::{self, Counter, Gauge, Of};
use crate::{Histogram, Packet, Why};

/// An input or output of an element. Inputs and outputs are numbered separately, each from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

/// Part of a node or link: a queue, a channel, a TCP endpoint.
pub trait Element: Send {
    /// Handles a packet at an input and returns the next wake-up time. It replaces the previous one.
    /// [`Time::NEVER`]: no wake-up.
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time;

    /// Handles a wake-up and returns the next wake-up time. Called at each requested time, and once at the start of the
    /// run.
    fn wake(&mut self, cx: &mut Cx<'_>) -> Time;

    /// Returns the minimum delay from an input to any output it causes. A loop of elements with zero delay is rejected
    /// when the network is built.
    fn lookahead(&self) -> Span {
        Span::ZERO
    }

    /// Returns the time after an arrival within which the element does not react.
    ///
    /// It holds for any order of arrivals at the inputs. Within that time the element is not woken and sends
    /// nothing because of the arrival, so the elements that lead to it may be executed ahead, one after the
    /// other. [`Span::ZERO`]: the element may react immediately.
    fn min_reaction_delay(&self) -> Span {
        Span::ZERO
    }

    /// Returns `true` if a packet at input `from` can cause an instantaneous one at `to`. Narrows zero-delay
    /// loops for elements whose inputs and outputs are not all connected internally.
    fn forwards(&self, _from: Port, _to: Port) -> bool {
        true
    }

    /// Returns the input that stands for all with the same outputs.
    ///
    /// The element forwards from each of these inputs to the same outputs. The search for loops visits it alone: if each of thousands of inputs were followed to
    /// each output, it would take minutes. Default: all inputs are alike, as they are in the default of [`Element::forwards`]. An element for
    /// which they are not has both.
    fn alike(&self, _from: Port) -> Port {
        Port(0)
    }

    /// Sets the numbers of its accounts of packets.
    ///
    /// The first is of packets of its own. One follows for each input of the range that is returned, in order, and one for
    /// each of [`Element::answered`]. Default: none.
    fn open_accounts(&mut self, _first: u32) -> Option<Range<u16>> {
        None
    }

    /// Returns `true` if its own packets come from outside the network. Default: they do not.
    fn leads_outside(&self) -> bool {
        false
    }

    /// Returns the name of the account of its own packets, behind its path. Default: none, its path alone.
    fn own_account(&self) -> Option<&'static str> {
        None
    }

    /// Notes what is known of accounts within accounts. It is called before each [`Element::observe`].
    fn settle(&mut self, _accounts: &Accounts) {}

    /// Returns the accounts whose packets it answers. The answers have an account for each. Default: none.
    fn answered(&self) -> &[AccountNumber] {
        &[]
    }

    /// Does what is due by `now`, for elements that would do it later. Called before each [`Element::observe`].
    ///
    /// What they draw is drawn in the same order as without the call, and what happens later is the same.
    fn bring_up_to(&mut self, _now: Time, _stream: &mut RandomStream) {}

    /// Reports counters and gauges as they are at `now`. May bring lazily kept state up to `now`, but never changes
    /// what happens later.
    fn observe(&mut self, now: Time, observer: &mut dyn Observer);

    /// Sets the wall-clock time of instant 0, since 1970. Default: the element has no clock.
    ///
    /// An emulation calls it before its run, as real programs compare its times with theirs. A simulation does not,
    /// so that its results do not depend on the day.
    fn set_date(&mut self, _start: Span) {}

    /// Returns the element for downcasting: a running emulation changes a link's rate in this way.
    fn as_any(&mut self) -> &mut dyn std::any::Any;
}

/// Receiver of the metrics that elements report. An element reports the same metrics at every call, in the same order.
pub trait Observer {
    /// Reports a total since the start of the run, which never falls.
    fn counter(&mut self, metric: &'static Of<Counter>, total: u64);

    /// Reports a value at this instant; NaN before the first value.
    fn gauge(&mut self, metric: &'static Of<Gauge>, value: f64);

    /// Reports the distribution of all values since the start of the run.
    fn histogram(&mut self, _metric: &'static Of<metric::Histogram>, _values: &Histogram) {}

    /// Reports the delay of what is sent at this instant.
    fn delay(&mut self, _delay: Span) {}

    /// Announces the part that what follows is of, such as "link/trunk/forward" of a switch. Without it, that is the
    /// element as a whole.
    fn part(&mut self, _path: &str) {}

    /// Announces the class that what follows is of, within the part announced last.
    ///
    /// Nothing but classes and other parts follows.
    fn class(&mut self, _name: &str) {}

    /// Returns `true` if accounts of units are made, at the end of a run.
    ///
    /// An element then reports what is for them alone, too.
    fn counts_units(&self) -> bool {
        false
    }

    /// Reports when payload last arrived for the first time, if any did.
    ///
    /// It is of the present part. Totals have it, series do not: no figure depends on the interval of samples.
    fn last_arrival(&mut self, _at: Option<Time>) {}

    /// Reports units of an account at a place. The metric declares their column.
    fn units_at(&mut self, _metric: &'static Of<Gauge>, _place: &str, _units: u64) {}

    /// Returns `true` at the end of the warm-up, where the window of all measures starts.
    ///
    /// Means, extremes and ratings that an element reports from then on are those of the window. Totals and distributions go on:
    /// the recorder subtracts them.
    fn starts_window(&self) -> bool {
        false
    }
}

/// Connection of an output to an input of an element.
///
/// One word: written in two parts and read whole a few instructions later it would wait for its own store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Wire(u64);

impl Wire {
    /// An output that leads nowhere: packets sent there are gone, and counted.
    pub const UNCONNECTED: Wire = Wire(u64::MAX);

    /// Creates a wire to input `port` of the element with number `to` in the network.
    #[inline]
    pub const fn new(to: u32, port: Port) -> Wire {
        Wire((to as u64) << 16 | port.0 as u64)
    }

    /// Returns the element's number in the network.
    #[inline]
    pub const fn to(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// Returns the input of the element.
    #[inline]
    pub const fn port(self) -> Port {
        Port(self.0 as u16)
    }

    /// Returns element and input as one number, different for each input of the network.
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns `true` if the output is connected.
    #[inline]
    pub const fn is_connected(self) -> bool {
        self.0 != u64::MAX
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Wire({}, {})", self.to(), self.port().0)
    }
}

/// The packets of this instant, in the order they were sent.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The first of them. Most calls send one packet, which then never sees the queue.
    first: Option<(Wire, Packet)>,
    /// Packets after the first; empty without a first one.
    rest: VecDeque<(Wire, Packet)>,
    unrouted: u64,
    /// Accounts of the network.
    accounts: Accounts,
}

impl Outbox {
    /// Creates an empty one for a network of these accounts.
    pub fn new(accounts: Accounts) -> Outbox {
        Outbox { accounts, ..Outbox::default() }
    }

    /// Returns the accounts of packets.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Returns the accounts of packets, to change how they are kept.
    pub fn accounts_mut(&mut self) -> &mut Accounts {
        &mut self.accounts
    }

    /// Removes and returns the next packet to deliver, with its wire.
    #[inline]
    pub fn pop(&mut self) -> Option<(Wire, Packet)> {
        let first = self.first.take();
        if !self.rest.is_empty() {
            self.first = self.rest.pop_front();
        }
        first
    }

    /// Sends `packet` along `wire`.
    #[inline(always)]
    pub fn push(&mut self, wire: Wire, packet: Packet) {
        if !wire.is_connected() {
            self.unrouted += 1;
            packet.lose(Why::NoRoute);
        } else if self.first.is_none() {
            self.first = Some((wire, packet));
        } else {
            self.rest.push_back((wire, packet));
        }
    }

    /// Returns the number of packets sent to unconnected outputs.
    pub fn unrouted_packets(&self) -> u64 {
        self.unrouted
    }
}

/// Context of an element while it handles a packet or a wake-up.
pub struct Cx<'a> {
    now: Time,
    wires: &'a [Wire],
    outbox: &'a mut Outbox,
    stream: &'a mut RandomStream,
}

impl<'a> Cx<'a> {
    /// Creates the context of one call to one element, for the engine.
    #[inline]
    pub fn new(now: Time, wires: &'a [Wire], outbox: &'a mut Outbox, stream: &'a mut RandomStream) -> Cx<'a> {
        Cx { now, wires, outbox, stream }
    }

    /// Returns the instant of this call.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Sends a packet at output `port`. It is received at this instant, after this call.
    #[inline]
    pub fn emit(&mut self, port: Port, packet: Packet) {
        let wire = self.wires.get(usize::from(port.0)).copied().unwrap_or(Wire::UNCONNECTED);
        self.outbox.push(wire, packet);
    }

    /// Enters a packet into an account. A packet that is in one stays there.
    ///
    /// So does one that was delivered to an endpoint which passes it on, as a translator does.
    #[inline]
    pub fn offer(&mut self, packet: &mut Packet, account: u32) {
        let len = packet.len();
        let tag = packet.tag_mut();
        if tag.is_set() {
            return;
        }
        if tag.is_delivered() {
            self.take_back(packet);
        } else {
            tag.set(self.outbox.accounts.send(account, len));
        }
    }

    /// Enters a packet into an account, and into one within it.
    ///
    /// It is for elements whose node would enter it into the same account. Without a number yet, the node does.
    #[inline]
    pub fn offer_apart(&mut self, packet: &mut Packet, account: &AccountNumber, within: &SubAccount) {
        let len = packet.len();
        if let (Some(number), true) = (account.get(), packet.tag_mut().is_empty()) {
            packet.tag_mut().set(self.outbox.accounts.send_apart(number, within, len));
        }
    }

    /// Enters a packet into an account, in the book of another one.
    ///
    /// An answer is of the window if what it answers was sent in it. Answers to copies of it are copies of one answer.
    pub fn offer_with(&mut self, packet: &mut Packet, account: u32, other: &Packet) {
        let len = packet.len();
        packet.tag_mut().set(self.outbox.accounts.send_with(account, other.known_account(), len));
        packet.tag_mut().answers(other.tag());
    }

    /// Notes that a packet that was delivered here is a duplicate.
    ///
    /// Its account distinguishes lost packets from lost copies by that.
    pub fn note_duplicate(&mut self, packet: &Packet) {
        self.outbox.accounts.repeat(packet.known_account());
    }

    /// Returns the account within its account that a packet is or was in.
    pub fn sub_account_of(&self, packet: &Packet) -> Option<SubAccount> {
        self.outbox.accounts.sub_account_of(packet.known_account())
    }

    /// Returns what is known now of an account within an account.
    pub fn tallies(&mut self, of: &SubAccount) -> Tallies {
        self.outbox.accounts.settle();
        self.outbox.accounts.tallies(of)
    }

    /// Returns a packet that was delivered to its account.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, packet: &mut Packet) {
        let account = packet.tag_mut().take_back();
        if account != 0 {
            self.outbox.accounts.take_back(account, packet.len());
        }
    }

    /// Counts a packet as delivered, and returns the number of its account.
    ///
    /// That ends the packet. Without an account the number is zero.
    #[inline]
    pub fn accept(&mut self, packet: &mut Packet) -> u32 {
        let number = packet.tag_mut().deliver();
        if number == 0 {
            return 0;
        }
        self.outbox.accounts.deliver(number, packet.len(), self.now);
        self.outbox.accounts.account_of(number)
    }

    /// Returns the number of a packet's account; zero without one.
    pub(crate) fn account_of(&self, packet: &Packet) -> u32 {
        self.outbox.accounts.account_of(packet.account())
    }

    /// Returns `true` if a packet comes from outside the network.
    ///
    /// Another machine may have the other half of it.
    pub(crate) fn is_from_outside(&self, packet: &Packet) -> bool {
        self.outbox.accounts.is_outside(self.account_of(packet))
    }

    /// Drops a packet that was delivered to this endpoint, which does not take it.
    ///
    /// In its account it is dropped here, and not delivered.
    #[cold]
    pub fn refuse(&mut self, mut packet: Packet, why: Why) {
        self.take_back(&mut packet);
        packet.lose(why);
    }

    /// Returns the element's own random stream.
    #[inline]
    pub fn stream(&mut self) -> &mut RandomStream {
        self.stream
    }
}
