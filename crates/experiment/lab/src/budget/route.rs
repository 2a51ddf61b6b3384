//! Links of a transfer's path with their states, for the least time that it takes.

use bentpipe_net::queue::Discipline;
use bentpipe_scenario::{Medium, Scenario, Traffic, Way};
use bentpipe_site::Opener;
use bentpipe_site::route::{Hop, HopState, Route};
use bentpipe_units::Span;

use super::along::MOST_STATES;
use super::medium::Media;
use super::path::Path;
use super::queues::queue_of;
use super::sharing::Alone;
use super::states::States;
use super::{copies_of, size};

/// Flow whose path is followed link by link.
pub(super) struct Routed<'a> {
    scenario: &'a Scenario,
    media: &'a Media<'a>,
    states: &'a States,
    n: usize,
    path: &'a Path,
    alone: &'a Alone,
    /// Set if times that are drawn count by their mean, not by their least.
    is_mean: bool,
}

impl<'a> Routed<'a> {
    /// Creates it for a path of a flow.
    pub(super) fn new(
        (scenario, media, states): (&'a Scenario, &'a Media<'a>, &'a States),
        (n, path, alone): (usize, &'a Path, &'a Alone),
    ) -> Routed<'a> {
        Routed { scenario, media, states, n, path, alone, is_mean: false }
    }

    /// Returns it with means of what is drawn, and with waits for media. `None` if there are none.
    pub(super) fn in_means(&self) -> Option<Routed<'a>> {
        let (there, back) = (self.path.hops_there().iter(), self.path.hops_back().iter());
        let there = there.map(|hop| (hop, self.path.packet));
        let mut all = there.chain(back.map(|hop| (hop, self.path.answer_len())));
        let is_drawn = |(hop, len): (&(usize, Way, u64), u64)| {
            let below = self.media.below_mean(self.states.losses.all((hop.0, hop.1)));
            let waits = self.media.cost(hop.0, hop.1).waits((len + hop.2) as usize);
            !below.is_zero() || !waits.is_zero() || self.drawn(hop, len) > 0.0
        };
        all.any(is_drawn).then_some(Routed { is_mean: true, ..*self })
    }

    /// Returns the links of the path by the time of the run.
    ///
    /// ACKs do not wait. States before `from` do not count. `is_alone` is set if no other packets are in the network.
    pub(super) fn route(&self, from: Span, is_alone: bool) -> Route {
        let states = self.states.fine();
        // An event at the start may come in front of the first packet or behind it.
        let before = Span::from_nanos(from.as_nanos().saturating_sub(1));
        let (first, all) = (states.at(before), states.len());
        let is_changed = from.is_zero() && self.scenario.timeline.iter().any(|moment| moment.at.is_zero());
        let last = all.min(first + MOST_STATES);
        let [mut there, mut back] =
            [self.path.hops_there(), self.path.hops_back()].map(|hops| vec![Hop::default(); hops.len()]);
        let is_new = |state: &usize| {
            let changed = [self.path.changes_there(states, *state), self.path.changes_back(states, *state)];
            changed.iter().any(Option::is_some)
        };
        let in_file = is_changed.then_some(None);
        let all_states = std::iter::once(first).chain((first + 1..last).filter(is_new)).map(Some);
        for state in in_file.into_iter().chain(all_states) {
            let [data, acks] = self.state(states, state);
            there.iter_mut().zip(data).for_each(|(hop, state)| hop.enter(state));
            back.iter_mut().zip(acks).for_each(|(hop, state)| hop.enter(state));
        }
        if last < all {
            // Of those behind the last some are looked at.
            let rest: Vec<_> = (last..all)
                .step_by((all / MOST_STATES).max(1))
                .map(|state| self.state(states, Some(state)))
                .collect();
            for (way, hops) in [&mut there, &mut back].into_iter().enumerate() {
                for (n, hop) in hops.iter_mut().enumerate() {
                    let some: Vec<HopState> = rest.iter().map(|of| of[way][n]).collect();
                    hop.enter_best(&some);
                }
            }
        }
        let flow = &self.scenario.flow[self.n];
        Route {
            there,
            back,
            acks_wait: false,
            is_exact: is_alone && self.is_exact(),
            is_opened_by_receiver: matches!(&flow.traffic, Traffic::Tcp(tcp) if tcp.opened_by == Opener::Receiver),
            last: size(flow).map_or(0, |size| size.get() % self.path.payload.max(1)),
        }
    }

    /// Returns the links there and back in a state, or those of the file.
    fn state(&self, states: &States, state: Option<usize>) -> [Vec<HopState>; 2] {
        let rates = match state {
            Some(state) => self.alone.by_link(self.media, states, state),
            None => self.alone.in_file(self.media),
        };
        let payload = self.path.payload.max(1);
        let last = size(&self.scenario.flow[self.n]).map_or(0, |size| size.get() % payload);
        let less = if last == 0 { 0 } else { payload - last };
        let [syn, answered] = self.path.handshake_len(&self.scenario.flow[self.n]);
        let lengths = [syn, self.path.packet, self.path.packet - less];
        let data = |(hop, rate): (&(usize, Way, u64), f64)| {
            let full = Some(8.0 * payload as f64 / rate).filter(|_| rate > 0.0);
            // What is drawn may be nothing, for its answers too.
            let drawn = self.drawn(hop, lengths[1]) * (1.0 + self.path.answers_per_packet());
            self.hop((states, state), *hop, (lengths, full.map(|full| (full - drawn).max(0.0))))
        };
        let answer = self.path.answer_len();
        let ack = |hop: &(usize, Way, u64)| {
            let full = self.path.distance(hop, answer, (self.media, states, state));
            let full = full.map(|full| (full - self.drawn(hop, answer)).max(0.0));
            self.hop((states, state), *hop, ([answered, answer, answer], full))
        };
        let hops = [self.path.hops_there(), self.path.hops_back()];
        [hops[0].iter().zip(rates).map(data).collect(), hops[1].iter().map(ack).collect()]
    }

    /// Returns the seconds of a packet on a link that are drawn, in the mean. None of them if means count.
    fn drawn(&self, hop: &(usize, Way, u64), len: u64) -> f64 {
        if self.is_mean {
            return 0.0;
        }
        self.media.cost(hop.0, hop.1).drawn((len + hop.2) as usize).as_secs_f64()
    }

    /// Returns a link in a state. `full` are the seconds between full packets that wait, unless it is down.
    fn hop(
        &self,
        (states, state): (&States, Option<usize>),
        hop: (usize, Way, u64),
        (lengths, full): ([u64; 3], Option<f64>),
    ) -> HopState {
        let at = (hop.0, hop.1);
        let alone = lengths.map(|len| self.path.sending(&hop, len, (self.media, states, state)));
        // Headers of the line count with each, at the most.
        let part = |n: usize| {
            let by_len = (lengths[n] + hop.2) as f64 / (lengths[1] + hop.2).max(1) as f64;
            if alone[1] > 0.0 { by_len.min(alone[n] / alone[1]) } else { by_len }
        };
        let in_file = || self.media.delay(hop.0, hop.1);
        let delay = match state {
            _ if self.states.is_sample => self.states.delays(at).map_or_else(in_file, |delays| delays.least),
            Some(state) => states.delay(state, self.media, at),
            None => in_file(),
        };
        HopState {
            from: state.map_or(Span::ZERO, |state| states.start(state).max(Span::from_nanos(1))),
            takes: full.map(|full| [0, 1, 2].map(|n| Span::from_secs_f64(full * part(n)))),
            alone: alone.map(Span::from_secs_f64),
            delay: self.drawn_delay((states, state), &hop, (delay, lengths[1])),
        }
    }

    /// Returns the delay of packets of a length on a link.
    ///
    /// It is the least, or what one has in the mean.
    fn drawn_delay(
        &self,
        (states, state): (&States, Option<usize>),
        hop: &(usize, Way, u64),
        (mean, len): (Span, u64),
    ) -> Span {
        let at = (hop.0, hop.1);
        if self.is_mean {
            let cost =
                state.map_or_else(|| self.media.cost(at.0, at.1), |state| states.cost(state, self.media, at));
            return mean + cost.waits((len + hop.2) as usize);
        }
        let of_state = state.filter(|_| !self.states.is_sample);
        let below = match of_state {
            Some(state) => self.media.below_mean(states.losses.at(at, states.start(state)).iter()),
            None => self.media.below_mean(states.losses.all(at)),
        };
        mean.saturating_sub(below)
    }

    /// Returns `true` if each packet of a handshake takes what is computed.
    fn is_exact(&self) -> bool {
        let is_bare = |&(link, way, _): &(usize, Way, u64)| {
            let side = self.media.side(link, way);
            let is_line = matches!(side.medium, Medium::Line(_)) && side.common.channel.is_none();
            let is_plain = side.stages.by_row().iter().all(|(_, stage)| stage.is_none());
            let queue = queue_of(self.media, link, way);
            is_line && is_plain && matches!(queue, Some(Discipline::DropTail(_)))
        };
        let mut hops = self.path.hops_there().iter().chain(self.path.hops_back());
        !self.states.is_sample && copies_of(self.scenario, self.n) == 1 && hops.all(is_bare)
    }
}
