//! Links of a connection's path, and the least times of packets on them.
//!
//! A link takes packets in order. It sends each at the rate, and with the delay, that it has when the transmission starts.

use bentpipe_units::{Span, Time};

/// Packet of a connection, by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// SYN, and the answer to it.
    Handshake,
    /// Full segment, or an ACK without data.
    Full,
    /// Segment with what is left of the data.
    Last,
}

/// Link from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HopState {
    /// Time from the SYN on.
    pub from: Span,
    /// Distances of packets that wait behind each other, by their lengths. `None` while it is down.
    pub takes: Option<[Span; 3]>,
    /// Transmissions of packets that none waits in front of, by their lengths.
    pub alone: [Span; 3],
    /// Delay behind the transmission.
    pub delay: Span,
}

impl HopState {
    /// Returns a state that is as good as either.
    fn best(self, other: &HopState) -> HopState {
        let least = |one: [Span; 3], other: [Span; 3]| [0, 1, 2].map(|n| one[n].min(other[n]));
        let takes = match (self.takes, other.takes) {
            (Some(one), Some(other)) => Some(least(one, other)),
            (one, other) => one.or(other),
        };
        let from = self.from.min(other.from);
        HopState { from, takes, alone: least(self.alone, other.alone), delay: self.delay.min(other.delay) }
    }
}

/// Link of a path, in the order of its states. There is at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hop {
    /// States in the order of time.
    pub states: Vec<HopState>,
}

/// Path of a connection on which no other packets are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Links of the data.
    pub there: Vec<Hop>,
    /// Links of ACKs.
    pub back: Vec<Hop>,
    /// Set if ACKs wait for each other. Otherwise some may be lost, and others acknowledge more.
    pub acks_wait: bool,
    /// Set if the packets of the handshake cannot be later than on an idle path.
    pub is_exact: bool,
    /// Set if the receiver of the data opens the connection.
    pub is_opened_by_receiver: bool,
    /// Payload of the last segment in bytes. Zero: it is full.
    pub last: u64,
}

/// Times by which a packet may differ from a computed one in any case.
///
/// Serialisers round to nanoseconds, and what comes with a change may be in front of it.
const NEAR: Span = Span::from_micros(1);

impl Hop {
    /// Adds a state that is not before the others, unless it is the same.
    pub fn enter(&mut self, state: HopState) {
        let is_new = |last: &HopState| HopState { from: last.from, ..state } != *last;
        if self.states.last().is_none_or(is_new) {
            self.states.push(state);
        }
    }

    /// Adds the best of some states, from the first of them on.
    pub fn enter_best(&mut self, states: &[HopState]) {
        let best = states.iter().copied().reduce(|one, other| one.best(&other));
        best.into_iter().for_each(|best| self.enter(best));
    }

    /// Returns the least end of a transmission, and the least arrival of its packet.
    ///
    /// It is not sent before a time.
    ///
    /// What comes later in a run may arrive earlier, when a rate or a delay has changed. So any later start counts, up to `slack`.
    fn least(&self, from: Time, (length, waits): (Length, bool), slack: Span) -> (Time, Time) {
        let since = from.since(Time::ZERO).saturating_sub(NEAR);
        let first = self.states.partition_point(|state| state.from <= since).max(1) - 1;
        let (mut free, mut arrives) = (Time::NEVER, Time::NEVER);
        for state in &self.states[first..] {
            let start = from.max(Time::ZERO + state.from);
            let is_late = start > from + slack && !arrives.is_never();
            if is_late || start >= arrives.max(free) {
                break;
            }
            let Some(takes) = state.takes else { continue };
            let (takes, alone) = (takes[length as usize], state.alone[length as usize]);
            free = free.min(start + takes);
            // A frame has room for packets that wait.
            let sending = if waits { alone.min(takes) } else { alone };
            arrives = arrives.min(start + sending + state.delay);
        }
        (free, arrives)
    }

    /// Returns `true` if a change comes with a time.
    ///
    /// Packets may be in front of it or behind it.
    fn changes_near(&self, time: Time) -> bool {
        let since = time.since(Time::ZERO);
        let next = self.states.partition_point(|state| state.from <= since.saturating_sub(NEAR)).max(1);
        self.states.get(next).is_some_and(|state| state.from <= since + NEAR)
    }

    /// Returns the least time at which some full packets have been sent.
    fn sent(&self, from: Time, count: u64) -> Time {
        let (mut at, mut left) = (from, count);
        loop {
            let (state, until) = self.at(at);
            let takes = state.takes.map_or(u64::MAX, |takes| takes[Length::Full as usize].as_nanos());
            let end = at + Span::from_nanos(takes.saturating_mul(left));
            if left == 0 || end <= until || until.is_never() {
                return if left == 0 { at } else { end };
            }
            // One more may start before the change.
            let started = until.since(at).as_nanos().checked_div(takes).unwrap_or(left) + 1;
            left -= if state.takes.is_some() { started.min(left) } else { 0 };
            at = until;
        }
    }

    /// Returns the time that the last segment gains, in the last state.
    pub fn longer_than_last(&self) -> Span {
        let alone = self.states.last().map_or([Span::ZERO; 3], |state| state.alone);
        alone[Length::Full as usize].saturating_sub(alone[Length::Last as usize])
    }

    /// Returns the state at a time, and the time of the next one.
    fn at(&self, time: Time) -> (&HopState, Time) {
        let next = self.states.partition_point(|state| state.from <= time.since(Time::ZERO)).max(1);
        let until = self.states.get(next).map_or(Time::NEVER, |state| Time::ZERO + state.from);
        (&self.states[next - 1], until)
    }
}

/// Time without queueing from a time on.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    /// Time from the SYN on.
    pub from: Time,
    /// Time of a full segment.
    pub there: Span,
    /// Time of an ACK.
    pub back: Span,
}

impl Route {
    /// Returns the times of full segments and ACKs in each state.
    pub fn trips(&self) -> Vec<Trip> {
        let hops = || self.there.iter().chain(&self.back);
        let mut times: Vec<Span> = hops().flat_map(|hop| &hop.states).map(|state| state.from).collect();
        times.sort_unstable();
        times.dedup();
        let takes = |hops: &[Hop], from: Time| {
            let of = |hop: &Hop| {
                let state = hop.at(from).0;
                state.alone[Length::Full as usize] + state.delay
            };
            hops.iter().map(of).sum()
        };
        let at = |from: Span| {
            let from = Time::ZERO + from;
            Trip { from, there: takes(&self.there, from), back: takes(&self.back, from) }
        };
        times.into_iter().map(at).collect()
    }

    /// Returns the longest round trip of a full segment without queueing.
    pub fn longest_trip(&self) -> Span {
        self.trips().iter().map(|trip| trip.there + trip.back).max().unwrap_or_default()
    }

    /// Returns the least arrival of data sent at the rates of the links.
    ///
    /// Segments have `smss` bytes. The connection is opened before, unless a node on the way answers for the receiver.
    pub fn least(&self, data: u64, smss: u64, is_opened: bool) -> Option<Span> {
        let (lanes, opened) = Lanes::opened(self);
        let from = if is_opened { opened.at } else { Time::ZERO };
        let end = lanes.rest(from, data, smss);
        (!end.is_never()).then(|| end.since(Time::ZERO))
    }

    /// Returns `true` if no link changes up to a time.
    pub fn is_still(&self, until: Span) -> bool {
        let changes = |hop: &Hop| hop.states.get(1).is_some_and(|state| state.from <= until);
        !self.there.iter().chain(&self.back).any(changes)
    }

    /// Returns the first time from which on a link is down, if one ever is.
    pub fn first_down(&self) -> Option<Span> {
        let states = self.there.iter().chain(&self.back).flat_map(|hop| &hop.states);
        states.filter(|state| state.takes.is_none()).map(|state| state.from).min()
    }

    /// Returns the route whose links have the best of all their states.
    #[must_use]
    pub fn best(&self) -> Route {
        let hop = |hop: &Hop| {
            let mut best = Hop::default();
            best.enter_best(&hop.states);
            best
        };
        let hops = |hops: &[Hop]| hops.iter().map(hop).collect();
        Route { there: hops(&self.there), back: hops(&self.back), ..*self }
    }

    /// Returns the route from a later start of its flow on.
    #[must_use]
    pub fn later(&self, start: Span) -> Route {
        let hop = |hop: &Hop| {
            // What changes with the start may do so in front of it or behind it.
            let first = hop.states.partition_point(|state| state.from < start).max(1) - 1;
            let since = |(n, state): (usize, &HopState)| {
                let from = state.from.saturating_sub(start).max(Span::from_nanos(u64::from(n > 0)));
                HopState { from, ..*state }
            };
            Hop { states: hop.states[first..].iter().enumerate().map(since).collect() }
        };
        let hops = |hops: &[Hop]| hops.iter().map(hop).collect();
        Route { there: hops(&self.there), back: hops(&self.back), ..*self }
    }
}

/// Opening of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Time from which on data is sent.
    pub at: Time,
    /// Round trip that the sender of the data has measured.
    pub rtt: [Time; 2],
}

/// Links of one direction with the packets that are on them.
struct Lane<'a> {
    hops: &'a [Hop],
    /// Times at which the links have sent what came.
    free: Vec<Time>,
    /// Last arrivals behind them.
    last: Vec<Time>,
    /// Both as they were in front of the last packet.
    before: Vec<[Time; 2]>,
    /// Set if packets wait for each other.
    queues: bool,
}

impl<'a> Lane<'a> {
    fn new(hops: &'a [Hop], queues: bool) -> Lane<'a> {
        let idle = vec![Time::ZERO; hops.len()];
        Lane { hops, free: idle.clone(), last: idle, before: vec![[Time::ZERO; 2]; hops.len()], queues }
    }

    /// Passes a packet through the links and returns its arrival.
    ///
    /// `slack` is that of its time. It has none behind a change that comes with it.
    fn pass(&mut self, mut at: Time, length: Length, slack: &mut Span) -> Time {
        let links = self.hops.iter().zip(&mut self.free).zip(&mut self.last).zip(&mut self.before);
        for (((hop, free), last), before) in links {
            *before = [*free, *last];
            let waits = self.queues && *free > at;
            let start = if waits { *free } else { at };
            let (sent, arrives) = hop.least(start, (length, waits), *slack);
            if *slack < Span::MAX && hop.changes_near(start) {
                *slack = Span::MAX;
            }
            *free = sent.max(*free);
            // Packets stay in order.
            *last = arrives.max(*last);
            at = *last;
        }
        at
    }
}

/// Both directions of a route.
pub struct Lanes<'a> {
    there: Lane<'a>,
    back: Lane<'a>,
    last: u64,
}

impl<'a> Lanes<'a> {
    /// Opens a connection, from time zero on.
    pub fn opened(route: &'a Route) -> (Lanes<'a>, Opened) {
        let mut lanes = Lanes {
            there: Lane::new(&route.there, true),
            back: Lane::new(&route.back, route.acks_wait),
            last: route.last,
        };
        let slack = &mut if route.is_exact { NEAR } else { Span::MAX };
        let opened = if route.is_opened_by_receiver {
            let comes = lanes.back.pass(Time::ZERO, Length::Handshake, slack);
            let answered = lanes.there.pass(comes, Length::Handshake, slack);
            let at = lanes.back.pass(answered, Length::Full, slack);
            Opened { at, rtt: [comes, at] }
        } else {
            let comes = lanes.there.pass(Time::ZERO, Length::Handshake, slack);
            let at = lanes.back.pass(comes, Length::Handshake, slack);
            Opened { at, rtt: [Time::ZERO, at] }
        };
        (lanes, opened)
    }

    /// Sends a segment and returns its arrival.
    pub fn send(&mut self, at: Time, bytes: u64) -> Time {
        let length = if bytes == self.last { Length::Last } else { Length::Full };
        self.there.pass(at, length, &mut { Span::MAX })
    }

    /// Removes the last segment from the links.
    pub fn take_back(&mut self) {
        let Lane { free, last, before, .. } = &mut self.there;
        for ((free, last), before) in free.iter_mut().zip(last).zip(before) {
            [*free, *last] = *before;
        }
    }

    /// Sends an ACK and returns its arrival.
    pub fn acknowledge(&mut self, at: Time) -> Time {
        self.back.pass(at, Length::Full, &mut { Span::MAX })
    }

    /// Returns the least arrival of the last of some bytes.
    ///
    /// Each link sends them behind what it has, and the last segment passes those that follow.
    pub fn rest(&self, from: Time, bytes: u64, smss: u64) -> Time {
        let full = bytes.div_ceil(smss.max(1)).saturating_sub(1);
        let length = match bytes - full * smss {
            left if left == self.last => Length::Last,
            _ => Length::Full,
        };
        let (mut first, mut last) = (from, from);
        for ((hop, free), before) in self.there.hops.iter().zip(&self.there.free).zip(&self.there.last) {
            let start = hop.sent(first.max(*free), full).max(last);
            // Where none is in front of it, it is the first.
            let waits = full > 0 || *free > first;
            first = hop.least(first.max(*free), (Length::Full, waits), Span::MAX).1.max(*before);
            last = hop.least(start, (length, waits), Span::MAX).1.max(*before);
            first = first.min(last);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn link(rates: &[(u64, Option<u64>, u64)]) -> Hop {
        let state = |&(from, takes, delay): &(u64, Option<u64>, u64)| {
            let takes = takes.map(|takes| [MS, MS * takes, MS * (takes / 2)]);
            HopState { from: MS * from, takes, alone: takes.unwrap_or_default(), delay: MS * delay }
        };
        Hop { states: rates.iter().map(state).collect() }
    }

    fn route(there: Vec<Hop>) -> Route {
        let back = vec![link(&[(0, Some(1), 9)])];
        Route { there, back, acks_wait: false, is_exact: true, is_opened_by_receiver: false, last: 500 }
    }

    /// A SYN comes to the second link when that has its new delay, however long the first one is.
    #[test]
    fn each_link_has_the_delay_of_the_time_at_which_a_packet_comes() {
        let second = link(&[(0, Some(10), 200), (30, Some(10), 20)]);
        let opened = |first: u64| {
            let route = route(vec![link(&[(0, Some(10), first)]), second.clone()]);
            Lanes::opened(&route).1.at.since(Time::ZERO)
        };
        // 1 ms on each link, and 10 ms back.
        assert_eq!(opened(20), MS * (21 + 201 + 10));
        assert_eq!(opened(40), MS * (41 + 21 + 10));
        // One that comes with the change may be behind it.
        assert_eq!(opened(29), MS * (30 + 21 + 10));
    }

    /// What a run sends later than computed may have the shorter delay.
    #[test]
    fn data_may_wait_for_a_shorter_delay() {
        let route = route(vec![link(&[(0, Some(10), 200), (300, Some(10), 20)])]);
        let (mut lanes, opened) = Lanes::opened(&route);
        assert_eq!(opened.at, Time::ZERO + MS * 211);
        // Sent at 211 ms it would come at 421 ms.
        assert_eq!(lanes.send(opened.at, 1000), Time::ZERO + MS * 330);
    }

    /// A transmission keeps the rate with which it has begun, and a link that is down sends later.
    #[test]
    fn transmissions_have_the_rate_of_their_start() {
        let route =
            route(vec![link(&[(0, Some(10), 0), (25, Some(100), 0), (500, None, 0), (900, Some(1), 0)])]);
        let (mut lanes, opened) = Lanes::opened(&route);
        assert_eq!(opened.at, Time::ZERO + MS * 11);
        let all: Vec<Span> = (0..6).map(|_| lanes.send(opened.at, 1000).since(Time::ZERO)).collect();
        assert_eq!(all, [21, 31, 131, 231, 331, 431].map(|ms| MS * ms));
        // Those behind wait for the link.
        let rest = |bytes| lanes.rest(opened.at, bytes, 1000).since(Time::ZERO);
        assert_eq!(rest(1000), MS * 531);
        assert!(rest(4000) >= MS * 901);
    }

    /// A short last segment takes its own time on each link.
    #[test]
    fn a_last_segment_has_its_own_length_on_each_link() {
        let all =
            route(vec![link(&[(0, Some(40), 0)]), link(&[(0, Some(20), 0)]), link(&[(0, Some(10), 0)])]);
        let opened = 3 + 10;
        // 40 ms for the full one, and 20 + 10 + 5 ms of the other.
        assert_eq!(all.least(1500, 1000, true), Some(MS * (opened + 40 + 35)));
        assert_eq!(all.least(500, 1000, true), Some(MS * (opened + 35)));
        let (mut lanes, opened) = Lanes::opened(&all);
        lanes.send(opened.at, 1000);
        assert_eq!(lanes.send(opened.at, 500).since(opened.at), MS * 75);
        assert_eq!(all.later(MS * 5).longest_trip(), MS * 80);
    }
}
