//! Growth of a window on an idle path without loss.

use std::collections::VecDeque;

use bentpipe_cc::{Ack, Controller, RttEstimator, Sent, rtt};
use bentpipe_site::route::{Lanes, Opened, Route, Trip};
use bentpipe_units::{Bytes, Span, Time};

/// Path of a ramp, and the windows that it leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ramp<'a> {
    /// The path by the time from the SYN on.
    pub(super) path: &'a Route,
    /// Payload of a full segment in bytes.
    pub(super) smss: u32,
    /// Number of segments per ACK.
    pub(super) ack_every: u32,
    /// Longest time that an ACK waits for more segments.
    pub(super) ack_delay: Span,
    /// Number of segments at the start with an ACK each.
    pub(super) alone: u64,
    /// Tick of the clock that measures round trips. Zero: they are exact.
    pub(super) tick: Span,
    /// Time since a tick at the SYN.
    pub(super) phase: Span,
    /// Set if one segment at a time shows the round trip, as without timestamps.
    pub(super) times_one: bool,
    /// Most segments that are sent for one ACK.
    pub(super) burst: u32,
    /// Most segments that are sent at first.
    pub(super) first_burst: u32,
    /// Window in bytes that fills the path at the start.
    pub(super) target: u64,
    /// Window in bytes that fills it at any time. The ramp ends a round trip behind it.
    pub(super) full: u64,
    /// The most bytes in flight, by the buffers of both ends.
    pub(super) most: u64,
    /// Number of ACKs after which it is given up.
    pub(super) most_acks: u64,
    /// Bytes that the sender has. All of them acknowledged end the ramp.
    pub(super) data: u64,
    /// Time from the SYN after which the ramp ends, at the receiver.
    pub(super) lasts: Span,
}

impl Ramp<'_> {
    /// Returns the round trip that the clock shows: at least a tick.
    fn measured(&self, sent: Time, at: Time) -> Span {
        let tick = self.tick.as_nanos();
        if tick == 0 {
            return at.since(sent);
        }
        let ticks = |time: Time| (time.as_nanos() + self.phase.as_nanos()) / tick;
        Span::from_nanos(tick * (ticks(at) - ticks(sent)).max(1))
    }
}

/// Result of a ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Climb {
    /// Time from the SYN until the window has the target. `None` if it does not get there.
    pub(super) time: Option<Span>,
    /// Number of ACKs that it took.
    pub(super) acks: u64,
    /// Time from the SYN to its end at the receiver. `None` if it was given up.
    ///
    /// It ends with a full path, or with the data or the time.
    pub(super) end: Option<Span>,
    /// Bytes that have arrived by then.
    pub(super) arrived: u64,
    /// Least time from the SYN until all data has arrived. `None` if it never does.
    pub(super) whole: Option<Span>,
}

/// The most segments that are sent for each ACK that may be taken.
const SEGMENTS_PER_ACK: u64 = 16;

/// Feeds a controller with the ACKs of a path, from the SYN on.
///
/// Segments queue at each link, ACKs where they fill the way back. None is lost.
pub(super) fn ramp(controller: &mut dyn Controller, path: &Ramp<'_>) -> Climb {
    let (lanes, opened) = Lanes::opened(path.path);
    if opened.at.is_never() {
        return Climb { time: None, acks: 0, end: Some(path.lasts), arrived: 0, whole: None };
    }
    let (mut walk, mut open, mut filled) = (Walk::new(controller, path, (lanes, opened)), None, None);
    loop {
        let (window, now) = (walk.controller.window(), walk.now.since(Time::ZERO));
        if open.is_none() && window >= path.target {
            open = Some(now);
        }
        if filled.is_none() && window >= path.full {
            filled = Some(walk.now + walk.rtt());
        }
        // A window that has opened fills the path in the next round trip. Behind ACKs that wait it never does.
        let is_full = filled.is_some_and(|filled| walk.now >= filled && !walk.waits_for_acks());
        let is_full = is_full && !walk.is_held_by_windows();
        if is_full || walk.acked >= path.data || walk.at_receiver() >= path.lasts {
            return walk.end(open);
        }
        // Those on their way count, so that a flight of tiny segments is bounded too.
        let acks = walk.acks + walk.on_way.len() as u64;
        let sent_most = walk.segments >= SEGMENTS_PER_ACK * path.most_acks;
        if acks >= path.most_acks || sent_most || !walk.step() {
            let acks = acks.max(walk.segments / SEGMENTS_PER_ACK);
            return Climb { time: open, acks, end: None, arrived: walk.acked, whole: walk.whole() };
        }
    }
}

struct Walk<'a> {
    controller: &'a mut dyn Controller,
    path: &'a Ramp<'a>,
    now: Time,
    estimator: RttEstimator,
    /// Links with what is on them.
    lanes: Lanes<'a>,
    /// Times without queueing in the path's states, and the present one.
    trips: Vec<Trip>,
    trip: usize,
    /// Time of the next segment of a sender that paces.
    paced_from: Time,
    flight: u64,
    /// The most bytes in flight.
    most: u64,
    /// Number of segments sent.
    segments: u64,
    /// Segments without an ACK.
    pending: Pending,
    /// Arrival of ACKs, with what they acknowledge.
    on_way: VecDeque<(Time, Pending)>,
    /// Number of segments that may be sent before the next ACK.
    burst: u32,
    /// Position behind the segment that is timed alone, and its sending.
    timed: Option<(u64, Time)>,
    /// Arrival of the last segment.
    last: Time,
    /// Arrivals of the last window, with the bytes sent up to each.
    arrivals: VecDeque<(Time, u64)>,
    acks: u64,
    acked: u64,
}

/// Segments that one ACK acknowledges.
#[derive(Clone, Copy)]
struct Pending {
    segments: u32,
    bytes: u64,
    /// Sending of the first.
    sent: Time,
    /// Arrival of the first, with which the receiver begins to wait for more.
    first: Time,
    /// Arrival of the last one.
    arrival: Time,
}

impl<'a> Walk<'a> {
    fn new(
        controller: &'a mut dyn Controller,
        path: &'a Ramp<'a>,
        (lanes, opened): (Lanes<'a>, Opened),
    ) -> Walk<'a> {
        let now = opened.at;
        let mut estimator = RttEstimator::new(rtt::Params::RFC6298);
        let [asked, answered] = opened.rtt;
        estimator.sample(path.measured(asked, answered));
        controller.on_established(now, Some(answered.since(asked)));
        Walk {
            controller,
            path,
            now,
            estimator,
            lanes,
            trips: path.path.trips(),
            trip: 0,
            paced_from: now,
            flight: 0,
            most: most(path),
            burst: path.first_burst,
            segments: 0,
            pending: Pending { segments: 0, bytes: 0, sent: now, first: now, arrival: now },
            on_way: VecDeque::new(),
            timed: None,
            last: now,
            arrivals: VecDeque::new(),
            acks: 0,
            acked: 0,
        }
    }

    /// Returns the times without queueing at the walk's time, which never decreases.
    fn trip(&mut self) -> Trip {
        while self.trips.get(self.trip + 1).is_some_and(|next| next.from <= self.now) {
            self.trip += 1;
        }
        self.trips[self.trip]
    }

    fn rtt(&mut self) -> Span {
        let Trip { there, back, .. } = self.trip();
        there + back
    }

    /// Returns `true` if ACKs wait for each other.
    fn waits_for_acks(&self) -> bool {
        self.path.path.acks_wait
    }

    /// Returns the time of what the sender has seen of the receiver.
    ///
    /// Where ACKs wait, that is its own time: arrivals are counted.
    fn at_receiver(&mut self) -> Span {
        let now = self.now.since(Time::ZERO);
        if self.waits_for_acks() { now } else { now.saturating_sub(self.trip().back) }
    }

    /// Returns `true` if windows smaller than the path pass while it changes.
    fn is_held_by_windows(&self) -> bool {
        let changes = self.trips.last().is_some_and(|trip| trip.from > self.now);
        changes && self.path.data < u64::MAX && self.path.most <= self.path.full
    }

    /// Ends the ramp, which may have got to its target at a time.
    fn end(&mut self, time: Option<Span>) -> Climb {
        let last = self.last.since(Time::ZERO);
        let is_all_sent = self.flight + self.acked >= self.path.data;
        let at_receiver = self.at_receiver();
        // Data has arrived at its own time, whenever the receiver acknowledges it.
        let (end, arrived) = if is_all_sent && last <= self.path.lasts {
            (last, self.path.data)
        } else if self.waits_for_acks() {
            let end = at_receiver.min(self.path.lasts);
            (end, self.arrived_by(Time::ZERO + end))
        } else {
            (at_receiver, self.acked)
        };
        Climb { time, acks: self.acks, end: Some(end), arrived, whole: self.whole() }
    }

    /// Returns the bytes that have arrived by a time. Those before the last window are known to have.
    fn arrived_by(&self, at: Time) -> u64 {
        let arrived = self.arrivals.partition_point(|(arrival, _)| *arrival <= at);
        arrived.checked_sub(1).map_or(self.acked, |last| self.arrivals[last].1.max(self.acked))
    }

    /// Returns the least time until all data has arrived.
    ///
    /// What is not sent yet goes as fast as the links carry it, and a window of it in a round trip.
    fn whole(&self) -> Option<Span> {
        let sent = self.flight + self.acked;
        let left = self.path.data.saturating_sub(sent);
        if self.path.data == u64::MAX {
            return None;
        }
        let last = match left {
            0 => self.last,
            _ => {
                let by_links = self.lanes.rest(self.now, left, self.path.smss.into());
                by_links.max(self.by_windows(left).unwrap_or(self.now))
            }
        };
        (!last.is_never()).then(|| last.since(Time::ZERO))
    }

    /// Returns the arrival of the last byte by the greatest window.
    ///
    /// A byte is sent when the one a window before it is acknowledged. `None` where the path changes later.
    fn by_windows(&self, left: u64) -> Option<Time> {
        let most = self.path.most.max(1);
        let trip = self.trips.last().filter(|trip| trip.from <= self.now)?;
        let rounds = left.div_ceil(most);
        let sent = self.flight + self.acked;
        let before = (sent + left).checked_sub(rounds * most)?;
        let arrival = self.arrivals.iter().find(|(_, end)| *end >= before)?.0;
        let full = self.path.path.there.iter().map(|hop| hop.longer_than_last()).sum::<Span>();
        let at = arrival + (trip.there + trip.back) * rounds;
        Some(Time::ZERO + at.since(Time::ZERO).saturating_sub(full))
    }

    /// Returns `true` if it sent a segment or took an ACK.
    fn step(&mut self) -> bool {
        let bytes = self.path.data.saturating_sub(self.flight + self.acked).min(self.path.smss.into());
        // More than twice of what fills the path waits at the bottleneck, and changes nothing.
        let window = self.controller.window().min(self.most);
        let may_send = bytes > 0 && self.burst > 0 && self.flight + bytes <= window;
        let send_at = self.now.max(self.paced_from);
        match self.on_way.front() {
            Some((Time::NEVER, _)) if !may_send => return false,
            Some((at, _)) if !may_send || *at < send_at => self.take_ack(),
            _ if may_send => self.send(send_at, bytes),
            _ => return self.end_wait(),
        }
        true
    }

    fn send(&mut self, at: Time, bytes: u64) {
        let last = self.lanes.send(at, bytes);
        if self.pending.segments > 0 && self.waits_until() < last {
            self.acknowledge(self.waits_until());
            // That ACK may come before, and the segment is sent later.
            if self.on_way.front().is_some_and(|(arrives, _)| *arrives < at) {
                return self.lanes.take_back();
            }
        }
        self.now = at;
        self.controller.on_sent(&Sent { now: at, bytes, flight: self.flight });
        if let Some(rate) = self.controller.pacing_rate() {
            self.paced_from = at + rate.span_of(Bytes::new(bytes));
        }
        self.last = last;
        // A sender that paces sends with its own timer.
        self.burst -= u32::from(self.controller.pacing_rate().is_none());
        (self.flight, self.segments) = (self.flight + bytes, self.segments + 1);
        if self.path.times_one {
            self.timed.get_or_insert((self.acked + self.flight, at));
        }
        let end = self.acked + self.flight;
        self.arrivals.push_back((last, end));
        while self.arrivals.front().is_some_and(|(_, first)| *first < end.saturating_sub(self.path.most)) {
            self.arrivals.pop_front();
        }
        let Pending { segments, bytes: before, sent, first, .. } = self.pending;
        let (sent, first) = if segments == 0 { (at, last) } else { (sent, first) };
        self.pending = Pending { segments: segments + 1, bytes: before + bytes, sent, first, arrival: last };
        if self.pending.segments >= self.path.ack_every.max(1) || self.segments <= self.path.alone {
            self.acknowledge(last);
        }
    }

    /// Returns the time until which the receiver waits for more segments.
    fn waits_until(&self) -> Time {
        self.pending.arrival.max(self.pending.first + self.path.ack_delay)
    }

    /// Sends an ACK for segments without one.
    fn acknowledge(&mut self, at: Time) {
        let arrives = self.lanes.acknowledge(at);
        self.on_way.push_back((arrives, self.pending));
        (self.pending.segments, self.pending.bytes) = (0, 0);
    }

    /// Returns `true` if the receiver waited for more segments, and ends that.
    fn end_wait(&mut self) -> bool {
        let waits = self.pending.segments > 0;
        if waits {
            self.acknowledge(self.waits_until());
        }
        waits
    }

    /// Returns the round trip that an ACK shows. The first of its segments was sent at a time.
    fn measured(&mut self, sent: Time, at: Time) -> Option<Span> {
        if !self.path.times_one {
            return Some(self.path.measured(sent, at));
        }
        let (_, sent) = self.timed.take_if(|(end, _)| *end <= self.acked)?;
        Some(self.path.measured(sent, at))
    }

    fn take_ack(&mut self) {
        let Some((at, Pending { bytes, sent, .. })) = self.on_way.pop_front() else { return };
        (self.now, self.flight, self.acks) = (at, self.flight.saturating_sub(bytes), self.acks + 1);
        self.burst = self.path.burst;
        self.acked += bytes;
        let rtt = self.measured(sent, at);
        rtt.into_iter().for_each(|rtt| self.estimator.sample(rtt));
        self.controller.on_ack(&Ack {
            now: at,
            acked: bytes,
            delivered: bytes,
            flight: self.flight,
            pipe: self.flight,
            rtt,
            srtt: self.estimator.srtt(),
            min_rtt: self.estimator.min_rtt(),
            cwnd_limited: true,
            in_recovery: false,
        });
    }
}

/// Returns the most bytes in flight that make a difference.
///
/// More than twice of what fills the path waits at the bottleneck. ACKs that wait have segments of their own.
fn most(path: &Ramp<'_>) -> u64 {
    if path.path.acks_wait {
        return path.most;
    }
    path.most.min(2 * path.full + u64::from(path.smss) * u64::from(path.ack_every.max(1)))
}

#[cfg(test)]
mod tests {
    use bentpipe_cc::{Connection, ControllerConfig};
    use bentpipe_site::route::{Hop, HopState};
    use bentpipe_units::Rate;

    use super::*;

    /// State of a path of one link in each direction.
    #[derive(Clone, Copy)]
    struct PathState {
        from: Span,
        rate: Rate,
        there: Span,
        back: Span,
        ack: Span,
    }

    impl PathState {
        fn of_round_trip(rtt: Span, rate: Rate) -> PathState {
            PathState { from: Span::ZERO, rate, there: rtt, back: Span::ZERO, ack: Span::ZERO }
        }
    }

    /// Returns the links of a path for segments of some bytes, the last of which may have half of them.
    fn route(smss: u64, states: &[PathState]) -> Route {
        let there = |state: &PathState| {
            let full = state.rate.span_of(Bytes::new(smss));
            let alone = if state.rate.as_bps() > 0 { [full, full, full / 2] } else { [Span::ZERO; 3] };
            let takes = (state.rate.as_bps() > 0).then_some(alone);
            HopState { from: state.from, takes, alone, delay: state.there.saturating_sub(alone[1]) }
        };
        let back = |state: &PathState| HopState {
            from: state.from,
            takes: Some([state.ack; 3]),
            alone: [Span::ZERO; 3],
            delay: state.back,
        };
        Route {
            there: vec![Hop { states: states.iter().map(there).collect() }],
            back: vec![Hop { states: states.iter().map(back).collect() }],
            acks_wait: states.iter().any(|state| !state.ack.is_zero()),
            is_exact: true,
            is_opened_by_receiver: false,
            last: smss / 2,
        }
    }

    /// Segments of 1000 B with an ACK for two, and nothing but the target to limit them.
    fn bare(path: &Route) -> Ramp<'_> {
        Ramp {
            path,
            smss: 1000,
            ack_every: 2,
            ack_delay: Span::ZERO,
            alone: 0,
            tick: Span::ZERO,
            phase: Span::ZERO,
            times_one: false,
            burst: u32::MAX,
            first_burst: u32::MAX,
            target: 1_000_000,
            full: 1_000_000,
            most: 16_000_000,
            most_acks: 100_000,
            data: u64::MAX,
            lasts: Span::MAX,
        }
    }

    /// Returns a controller whose window begins with ten segments.
    fn controller(name: &str, smss: u32) -> Box<dyn Controller> {
        let config: ControllerConfig = name.parse().expect("a controller");
        config.build(&Connection {
            smss,
            initial_window_segments: 10,
            initial_ssthresh: u64::MAX,
            max_window: 16_000_000,
        })
    }

    fn time(name: &str, ack_every: u32) -> f64 {
        let path =
            route(1448, &[PathState::of_round_trip(Span::from_millis(541), Rate::from_bps(9_653_000))]);
        let path = Ramp {
            smss: 1448,
            ack_every,
            ack_delay: Span::from_millis(200),
            target: 653_000,
            full: 653_000,
            most_acks: 1_000_000,
            ..bare(&path)
        };
        let climb = ramp(&mut *controller(name, 1448), &path);
        climb.time.expect("it grows").as_secs_f64()
    }

    /// A window far beyond its data opens with the first ACK, behind which the rest is sent: a round trip more.
    #[test]
    fn a_window_that_opens_at_once_still_has_to_fill_the_path() {
        let path =
            route(1000, &[PathState::of_round_trip(Span::from_millis(500), Rate::from_bps(8_000_000))]);
        let path = Ramp { target: 500_000, full: 500_000, data: 20_000, ..bare(&path) };
        let climb = ramp(&mut *controller("hybla", 1000), &path);
        let (open, end) =
            (climb.time.expect("it opens").as_secs_f64(), climb.end.expect("an end").as_secs_f64());
        // Handshake and a round trip; eighteen segments more from then on, and what an ACK of two takes.
        assert!((open - 1.0).abs() < 0.01, "{open}");
        assert!((1.5..1.53).contains(&end), "{end}");
        assert_eq!(climb.arrived, 20_000);
    }

    /// RFC 5681 3.1: a segment more for each ACK, so that one for two segments makes it 1.5 windows a round trip.
    #[test]
    fn delayed_acks_slow_the_growth() {
        let rounds = |factor: f64| 1.0 + (653.0_f64 / 14.48).ln() / factor.ln();
        for (ack_every, factor) in [(1, 2.0), (2, 1.5)] {
            let measured = time("newreno", ack_every) / 0.541;
            assert!((measured - rounds(factor)).abs() < 1.0, "{ack_every}: {measured}, {}", rounds(factor));
        }
    }

    /// The ACK of a first segment leaves an odd one behind, whose delayed ACK opens the window too.
    #[test]
    fn a_first_segment_with_an_ack_of_its_own_opens_the_window_earlier() {
        let climb = |alone| {
            let path =
                route(1000, &[PathState::of_round_trip(Span::from_millis(500), Rate::from_bps(8_000_000))]);
            let path = Ramp {
                ack_delay: Span::from_millis(200),
                alone,
                target: 500_000,
                full: 500_000,
                data: 26_000,
                ..bare(&path)
            };
            ramp(&mut *controller("newreno", 1000), &path).end.expect("an end").as_secs_f64()
        };
        // Ten segments, and then fifteen. The last one leaves with the ACK that waited, or a round trip later.
        let [pairs, odd] = [0, 1].map(climb);
        assert!((2.0..2.05).contains(&pairs) && (1.7..1.75).contains(&odd), "{pairs} {odd}");
    }

    /// A tick in two hundred is a segment of two hundred: Vegas takes it for a queue.
    #[test]
    fn ticks_end_a_slow_start_that_goes_by_delays() {
        let end = |tick| {
            let path = route(
                1448,
                &[PathState::of_round_trip(Span::from_micros(200_480), Rate::from_bps(48_000_000))],
            );
            let path = Ramp {
                smss: 1448,
                ack_delay: Span::from_millis(200),
                alone: 1,
                tick,
                target: 1_200_000,
                full: 1_200_000,
                lasts: Span::from_secs(5),
                ..bare(&path)
            };
            ramp(&mut *controller("vegas", 1448), &path).arrived
        };
        let [exact, ticks] = [Span::ZERO, Span::from_millis(1)].map(end);
        assert!(ticks < exact * 2 / 3, "{ticks} {exact}");
    }

    /// A receiver waits from the first segment on: ACKs for 16 of them come each 200 ms on a line that takes 400 ms for so many.
    #[test]
    fn a_timer_acknowledges_before_the_number_of_segments() {
        let rtt = Span::from_millis(800);
        let path = route(1000, &[PathState::of_round_trip(rtt, Rate::from_bps(320_000))]);
        let end = |ack_every, ack_delay| {
            let ack_delay = Span::from_millis(ack_delay);
            let path = Ramp { ack_every, ack_delay, alone: 1, data: 200_000, ..bare(&path) };
            let climb = ramp(&mut *controller("newreno", 1000), &path);
            climb.end.expect("an end").as_secs_f64()
        };
        let [timer, number] = [end(16, 200), end(16, 400)];
        assert!(timer < 0.9 * number && timer > 5.8, "{timer} {number}");
    }

    /// The answer to a SYN goes by the path at its own time.
    #[test]
    fn a_handshake_goes_through_states_of_its_path() {
        let long = PathState {
            there: Span::from_millis(200),
            back: Span::from_millis(200),
            ..PathState::of_round_trip(Span::ZERO, Rate::from_bps(8_000_000))
        };
        let short = PathState {
            from: Span::from_millis(100),
            there: Span::from_millis(20),
            back: Span::from_millis(20),
            ..long
        };
        let path = route(1000, &[long, short]);
        let climb = ramp(&mut *controller("newreno", 1000), &Ramp { data: 1000, ..bare(&path) });
        assert_eq!(climb.end, Some(Span::from_millis(240)));
    }

    #[test]
    fn a_law_that_does_not_reach_the_target_is_given_up() {
        let config: ControllerConfig = "newreno".parse().expect("a controller");
        let connection = Connection {
            smss: 1000,
            initial_window_segments: 2,
            initial_ssthresh: u64::MAX,
            max_window: 10_000,
        };
        let path = route(1000, &[PathState::of_round_trip(Span::from_millis(10), Rate::from_bps(1_000_000))]);
        let path = Ramp { target: 100_000, full: 100_000, most_acks: 1000, ..bare(&path) };
        let climb = ramp(&mut *config.build(&connection), &path);
        assert_eq!((climb.time, climb.acks, climb.end), (None, 1000, None));
        // Ten segments take the handshake and rounds of 2, 3 and 5, by an ACK for two segments.
        let few = ramp(&mut *config.build(&connection), &Ramp { data: 10_000, ..path });
        assert_eq!(few.arrived, 10_000);
        // A segment and a half: the handshake, a round trip, and the half behind the whole. Its ACK waits, the data does not.
        let waits = Ramp { data: 1500, ack_every: 3, ack_delay: Span::from_millis(200), ..path };
        let odd = ramp(&mut *config.build(&connection), &waits);
        assert_eq!((odd.end, odd.arrived), (Some(Span::from_millis(24)), 1500));
        let rounds = few.end.expect("it has no more").as_secs_f64() / 0.010;
        assert!((4.0..10.0).contains(&rounds), "{rounds}");
        let early = ramp(&mut *config.build(&connection), &Ramp { lasts: Span::from_millis(25), ..path });
        assert!(early.time.is_none() && early.arrived < 10_000, "{early:?}");
    }

    /// Path of 1 s and 8 Mbit/s, for 200 kB.
    fn on(states: &[PathState], burst: u32) -> Climb {
        let ack_delay = Span::from_millis(200);
        let path = route(1000, states);
        let path = Ramp { ack_delay, burst, first_burst: burst, data: 200_000, ..bare(&path) };
        ramp(&mut *controller("newreno", 1000), &path)
    }

    #[test]
    fn a_slow_start_goes_through_states_of_its_path() {
        let long = PathState {
            there: Span::from_millis(500),
            back: Span::from_millis(500),
            ..PathState::of_round_trip(Span::ZERO, Rate::from_bps(8_000_000))
        };
        let from = |secs, state: PathState| PathState { from: Span::from_secs(secs), ..state };
        let short = PathState { there: Span::from_millis(10), back: Span::from_millis(10), ..long };
        let down = PathState { rate: Rate::from_bps(0), ..long };
        let end = |states: &[PathState]| on(states, u32::MAX).end.map(|end| end.as_secs_f64());
        // Nine round trips; most of them are short behind the change; a line that is down delays the rest.
        let whole = end(&[long]).expect("an end");
        assert!((6.0..9.0).contains(&whole), "{whole}");
        let shorter = end(&[long, from(2, short)]).expect("an end");
        assert!((2.0..3.2).contains(&shorter), "{shorter}");
        let later = end(&[long, from(2, down), from(12, long)]).expect("an end");
        assert!((later - whole - 9.5).abs() < 1.0, "{later}");
        assert_eq!(end(&[long, from(2, down)]), None);
        // One segment an ACK of two is a flight that gets shorter.
        let few = on(&[long], 1).end.expect("an end").as_secs_f64();
        assert!(few > 10.0 * whole, "{few}");
    }

    /// ACKs at a distance of 100 ms, each for two segments, that opens the window by a third: 30 segments a second.
    #[test]
    fn acks_that_wait_space_what_they_release() {
        let state = PathState::of_round_trip(Span::from_millis(50), Rate::from_bps(80_000_000));
        let waits = PathState { ack: Span::from_millis(100), ..state };
        let [free, spaced] =
            [state, waits].map(|state| on(&[state], u32::MAX).end.expect("an end").as_secs_f64());
        assert!(free < 1.0 && (5.5..8.0).contains(&spaced), "{free} {spaced}");
    }
}
