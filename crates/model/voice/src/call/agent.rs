//! End of calls: an element that speaks and listens for one party of each.

use std::any::Any;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use bentpipe_net::ledger::{AccountNumber, Accounts, SubAccount};
use bentpipe_net::{Cx, Element, Histogram, Observer, Packet, Port, Why};
use bentpipe_transport::app::metrics as app;
use bentpipe_units::{RandomStream, Span, Time};
use bentpipe_wire::rtp;
use rand::RngCore;

use super::config::{Rtcp, Settings};
use super::exchange::Sound;
use super::metrics;
use super::packets::{Datagram, Refusal, Route};
use super::rate::{Mode, RateControl};
use super::rating::Delays;
use super::receiver::{Counts, Received, Receiver};
use super::reception::Reception;
use super::recording::{Arrived, Log, Recording};
use super::reports::Reports;
use super::sender::{Emission, Origin, Sender, Talk};
use super::waiting::Waiting;
use super::waits::Waits;
use crate::conversation::{Conversation, Party};
use crate::losses::{Losses, RUN_CLASSES};
use crate::turns::Member;

pub use super::packets::Ends;

/// Packets from and to the node.
const NODE: Port = Port(0);
/// Messages from and to the bridge, at its end of a conference.
pub(super) const BRIDGE: Port = Port(1);

/// Speech at one end of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Party of calls between two.
    Party(Party),
    /// Members of a conference.
    Members {
        /// Number of the first of them.
        first: u32,
        /// Number of all members of the conference.
        all: u32,
    },
    /// Bridge of a conference.
    Bridge,
}

/// Calls of one end.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Settings, the same at both ends.
    pub settings: Settings,
    /// Addresses of the first call.
    pub ends: Ends,
    /// Speech at this end.
    pub side: Side,
    /// Number of calls.
    pub count: u32,
    /// Start of the calls.
    pub start: Time,
    /// End of the calls; [`Time::NEVER`]: none.
    pub stop: Time,
    /// Seed and path of the conversations, the same at both ends.
    pub conversations: (u64, String),
}

/// Calls by their parts. A packet accesses one part of a call; those of many calls are dense, for the caches.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) senders: Vec<Sender>,
    pub(super) receivers: Vec<Receiver>,
    reports: Vec<Reports>,
    /// Rates, where they are adapted.
    rates: Vec<RateControl>,
}

/// Packet that is decided on, and its time.
#[derive(Clone, Copy, Debug)]
struct Pending {
    at: Time,
    call: u32,
    emission: Emission,
}

/// Interval of a call.
///
/// With the end of its pause here, intervals in pauses do not access the call, which is seldom in a cache when there are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    at: Time,
    call: u32,
    /// Time of speech before which nothing is sent.
    quiet_until: Time,
}

/// End of one or many calls.
#[derive(Debug)]
pub struct Agent {
    pub(super) plan: Plan,
    pub(super) route: Route,
    pub(super) calls: Calls,
    /// Rates of the codec, where they are adapted.
    modes: Vec<Mode>,
    rate_changes: u64,
    /// Sound of mixes by the member that receives them; empty without a conference.
    pub(super) receptions: Vec<Reception>,
    /// Waits of the bridge's packets, at both ends of a conference.
    pub(super) waits: Option<Waits>,
    /// Accounts of what each end sends in each call, this one first.
    legs: [Vec<SubAccount>; 2],
    /// Account of all that it sends but RTCP.
    account: AccountNumber,
    /// Number of the account of RTCP.
    rtcp_account: u32,
    /// Mixes that wait for their encoder.
    pub(super) mixes: Waiting,
    /// Next interval of each call, in the order of time.
    intervals: VecDeque<Interval>,
    pending: Option<Pending>,
    reports: BinaryHeap<Reverse<(Time, u32)>>,
    has_ended: bool,
    pub(super) speech_sent: u64,
    pub(super) noise_sent: u64,
    pub(super) bytes_sent: u64,
    delays: Histogram,
    last_delay: Option<Span>,
    /// Arrival of the last new packet.
    last: Option<Time>,
    bad_checksum: u64,
    unexpected: u64,
    malformed: u64,
    /// Recording that the first call sends.
    pub(super) recording: Option<Recording>,
    /// Packets that arrived in the first call, if they are kept.
    pub(super) log: Option<Log>,
}

impl Agent {
    /// Creates the end of calls.
    pub fn new(plan: Plan) -> Agent {
        Agent {
            route: Route::new(plan.ends, plan.settings.config.dscp),
            calls: Calls::default(),
            modes: Vec::new(),
            rate_changes: 0,
            receptions: Vec::new(),
            waits: None,
            legs: [Vec::new(), Vec::new()],
            account: AccountNumber::default(),
            rtcp_account: 0,
            mixes: Waiting::default(),
            intervals: VecDeque::new(),
            pending: None,
            reports: BinaryHeap::new(),
            has_ended: false,
            speech_sent: 0,
            noise_sent: 0,
            bytes_sent: 0,
            delays: Histogram::default(),
            last_delay: None,
            last: None,
            bad_checksum: 0,
            unexpected: 0,
            malformed: 0,
            recording: None,
            log: None,
            plan,
        }
    }

    /// Shares the waits of the bridge's packets with the other end of the conference.
    pub fn share_waits(&mut self, waits: Waits) {
        self.waits = Some(waits);
    }

    /// Sets the accounts of what both ends send.
    ///
    /// `account` is that of all that this end sends; `legs` are those within it for each call, and the other end's.
    ///
    /// The other end has the same, the other way round.
    pub fn set_accounts(&mut self, account: AccountNumber, legs: [Vec<SubAccount>; 2]) {
        (self.account, self.legs) = (account, legs);
    }

    /// Returns the time that a packet waited at the bridge.
    fn wait_of(&self, member: usize, seq: u16) -> Span {
        let waits = self.waits.as_ref().filter(|_| self.plan.side != Side::Bridge);
        waits.map_or(Span::ZERO, |waits| Span::from_nanos(waits.of(member, seq)))
    }

    /// Returns the plan.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the receiving sides of all calls.
    pub(super) fn receivers(&self) -> impl Iterator<Item = &Receiver> {
        self.calls.receivers.iter()
    }

    /// Sends a recording in the first call, from its start on.
    ///
    /// A recording is an RTP payload for each packet, none in pauses.
    ///
    /// Must be called before the run. Pauses need silence suppression; after the recording there is a pause.
    pub fn speak(&mut self, packets: Vec<Option<Vec<u8>>>) {
        self.recording = Some(Recording { packets });
    }

    /// Keeps the packets that arrive in the first call. Must be called before the run.
    pub fn listen(&mut self) {
        self.log = Some(Log::default());
    }

    /// Returns the log of what arrived in the first call, and begins another one.
    pub fn take_log(&mut self) -> Log {
        self.log.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the packets in the other end's log, in the order of arrival.
    pub fn arrived(&self, log: Log) -> Vec<Arrived> {
        self.origin().map(|origin| log.arrived(origin)).unwrap_or_default()
    }

    /// Returns the mean mouth-to-ear delay of the first call up to now.
    pub fn mouth_to_ear(&self) -> Option<Span> {
        self.receivers().next()?.figures().delays.mouth_to_ear()
    }

    /// Returns the first time stamp of the first call, and the ticks of a packet.
    fn origin(&self) -> Option<(u32, u32)> {
        let first = self.calls.senders.first()?.first_timestamp();
        Some((first, self.plan.settings.step_ticks))
    }

    /// Sets up all calls with random origins of RTP, each at a random phase.
    fn begin(&mut self, stream: &mut RandomStream) {
        let settings = self.plan.settings;
        if matches!(self.plan.side, Side::Members { .. }) {
            self.receptions = vec![Reception::default(); self.plan.count as usize];
        }
        if let Some(adapt) = &settings.config.adapt {
            self.modes = Mode::all(&settings.config.usual(), adapt).unwrap_or_default();
            self.calls.rates = vec![RateControl::default(); self.plan.count as usize];
        }
        let mut slots = Vec::new();
        for number in 0..self.plan.count {
            let phase = settings.interval.mul_f64(stream.unit());
            // A bridge mixes from the start on, for all at once.
            let is_bridge = self.plan.side == Side::Bridge;
            let epoch = if is_bridge { self.plan.start } else { self.plan.start + phase };
            let sender = self.sender(number, epoch, stream);
            let [own, other] = [0, 1].map(|end: usize| self.legs[end].get(number as usize));
            own.into_iter().for_each(|leg| leg.set_first(sender.next_seq()));
            let mut receiver = Receiver::new(&settings, self.plan.start);
            other.into_iter().for_each(|leg| receiver.set_account(leg.clone()));
            self.calls.senders.push(sender);
            self.calls.receivers.push(receiver);
            self.calls.reports.push(Reports::new());
            if self.plan.side != Side::Bridge {
                slots.push(Interval { at: epoch + settings.held, call: number, quiet_until: Time::ZERO });
            }
            if settings.config.rtcp != Rtcp::None {
                let first = self.plan.start + self.next_report(number, stream);
                self.reports.push(Reverse((first, number)));
            }
        }
        slots.sort_unstable();
        self.intervals = slots.into();
    }

    fn sender(&self, number: u32, epoch: Time, stream: &mut RandomStream) -> Sender {
        let (seed, path) = &self.plan.conversations;
        let (speech, start) = (self.plan.settings.config.speech, self.plan.start);
        let talk = match self.plan.side {
            Side::Party(party) => {
                let talk = RandomStream::new(*seed, &format!("{path}/{number}"));
                Talk::Pair(Conversation::new(speech, talk, start), party)
            }
            Side::Members { first, all } => {
                Talk::Several(Member::new(speech, (*seed, path), (first + number, all)))
            }
            Side::Bridge => Talk::Mix,
        };
        // The lower half, so that an hour of a call does not wrap (RFC 3550, appendix A.1, allows it).
        let origin = Origin {
            ssrc: stream.next_u32(),
            seq: stream.next_u32() as u16 >> 1,
            timestamp: stream.next_u32(),
        };
        Sender::new(talk, origin, epoch)
    }

    fn next_report(&mut self, call: u32, stream: &mut RandomStream) -> Span {
        let rate = self.plan.settings.session_bytes_per_s(self.route.ip_header_len());
        self.calls.reports[call as usize].interval(rate, stream)
    }

    /// Decides on intervals until one of them has a packet. Pauses cost no wake-up.
    fn decide(&mut self) {
        while let (None, Some(Interval { at, call, mut quiet_until })) =
            (self.pending, self.intervals.front().copied())
        {
            self.intervals.pop_front();
            if at >= self.plan.stop {
                continue;
            }
            let (settings, begin) = (&self.plan.settings, self.begin_of(at));
            if begin >= quiet_until {
                let sender = &mut self.calls.senders[call as usize];
                let emission = match &self.recording {
                    Some(recording) if call == 0 => {
                        match sender.replay(settings, &recording.packets, begin) {
                            Some(emission) => emission,
                            // The recording is over, and with it the intervals of the call.
                            None => continue,
                        }
                    }
                    _ => {
                        let emission = sender.decide(settings, begin);
                        quiet_until = sender.quiet_until();
                        emission
                    }
                };
                self.pending = emission.map(|emission| Pending { at, call, emission });
            }
            self.intervals.push_back(Interval { at: at + settings.interval, call, quiet_until });
        }
    }

    /// Returns the instant of the first sample in a packet that is sent at `at`.
    fn begin_of(&self, at: Time) -> Time {
        Time::from_nanos(at.as_nanos().saturating_sub(self.plan.settings.held.as_nanos()))
    }

    fn send_due(&mut self, cx: &mut Cx<'_>) {
        self.decide();
        while let Some(pending) = self.pending.filter(|pending| pending.at <= cx.now()) {
            self.pending = None;
            let packet = self.packet(pending);
            self.emit_rtp(pending.call, packet, cx);
            self.decide();
        }
    }

    /// Sends an RTP packet of a call, in the call's account.
    pub(super) fn emit_rtp(&self, call: u32, mut packet: Packet, cx: &mut Cx<'_>) {
        if let Some(leg) = self.legs[0].get(call as usize) {
            cx.offer_apart(&mut packet, &self.account, leg);
        }
        cx.emit(NODE, packet);
    }

    fn packet(&mut self, Pending { at, call, emission }: Pending) -> Packet {
        let (settings, begin) = (&self.plan.settings, self.begin_of(at));
        let sender = &mut self.calls.senders[call as usize];
        let (header, payload_len) = sender.header(settings, emission, (begin, at));
        match emission {
            Emission::Speech { .. } => self.speech_sent += 1,
            Emission::Noise => self.noise_sent += 1,
        }
        if let (Some(level), Emission::Speech { .. }) = (sender.level(begin), emission) {
            let mut payload = vec![0; payload_len as usize];
            payload[0] = level;
            let packet = self.route.rtp_with(call as usize, &header, &payload, at);
            self.bytes_sent += packet.len() as u64;
            return packet;
        }
        let recorded = self.recording.as_ref().filter(|_| call == 0 && emission != Emission::Noise);
        let recorded = recorded.and_then(|recording| sender.recorded(settings, &recording.packets, begin));
        let packet = match recorded {
            Some(payload) => self.route.rtp_with(call as usize, &header, payload, at),
            None => self.route.rtp(call as usize, &header, payload_len, at),
        };
        self.bytes_sent += packet.len() as u64;
        packet
    }

    fn report_due(&mut self, cx: &mut Cx<'_>) {
        while let Some(Reverse((at, call))) = self.reports.peek().copied() {
            if at > cx.now() || at >= self.plan.stop {
                break;
            }
            self.reports.pop();
            self.report(call, false, cx);
            let next = cx.now() + self.next_report(call, cx.stream());
            self.reports.push(Reverse((next, call)));
        }
    }

    fn report(&mut self, call: u32, is_last: bool, cx: &mut Cx<'_>) {
        let (number, Calls { senders, receivers, reports, .. }) = (call as usize, &mut self.calls);
        let ends = (&senders[number], &receivers[number]);
        let payload = reports[number].compose(&self.plan.settings, ends, cx.now(), is_last);
        let mut packet = self.route.rtcp(number, &payload, cx.now());
        if self.rtcp_account > 0 {
            cx.offer(&mut packet, self.rtcp_account);
        }
        cx.emit(NODE, packet);
    }

    /// Says goodbye in all calls.
    fn end(&mut self, cx: &mut Cx<'_>) {
        self.has_ended = true;
        self.reports.clear();
        if self.plan.settings.config.rtcp != Rtcp::None {
            (0..self.plan.count).for_each(|call| self.report(call, true, cx));
        }
    }

    fn deadline(&self) -> Time {
        if self.has_ended {
            return Time::NEVER;
        }
        let packet = self.pending.map_or(Time::NEVER, |pending| pending.at);
        let report = self.reports.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        packet.min(report).min(self.plan.stop).min(self.mixes.deadline())
    }

    fn take(&mut self, packet: &Packet, cx: &mut Cx<'_>) -> Result<(), Refusal> {
        let route = self.route;
        let count = self.calls.senders.len();
        let created_at = packet.created_at();
        route.read(packet, count, |datagram| match datagram.is_rtcp {
            true => self.take_rtcp(&datagram, cx.now()),
            false => self.take_rtp(&datagram, (packet, created_at), cx),
        })
    }

    fn take_rtcp(&mut self, datagram: &Datagram<'_>, now: Time) -> Result<(), Refusal> {
        let ssrc = self.calls.senders[datagram.call].ssrc();
        if self.calls.reports[datagram.call].receive(datagram.payload, ssrc, now).is_err() {
            self.malformed += 1;
        }
        self.adapt(datagram.call);
        Ok(())
    }

    /// Adapts the rate of a call to a report that came.
    fn adapt(&mut self, call: usize) {
        let (Some(adapt), Calls { senders, reports, rates, .. }) =
            (self.plan.settings.config.adapt, &mut self.calls)
        else {
            return;
        };
        let (reports, control) = (&mut reports[call], &mut rates[call]);
        let Some(loss) = reports.loss.take() else { return };
        if control.report(&adapt, (loss, reports.round_trip), self.modes.len().max(1))
            && let Some(mode) = self.modes.get(control.mode)
        {
            senders[call].adapt(mode.payload_len);
            self.rate_changes += 1;
        }
    }

    fn take_rtp(
        &mut self,
        datagram: &Datagram<'_>,
        (whole, created_at): (&Packet, Time),
        cx: &mut Cx<'_>,
    ) -> Result<(), Refusal> {
        let now = cx.now();
        let Ok(rtp) = rtp::Packet::new_elided(datagram.payload, datagram.elided) else {
            self.malformed += 1;
            return Ok(());
        };
        let settings = &self.plan.settings;
        let len = rtp.payload_len();
        let mode = self.modes.iter().find(|mode| mode.payload_len as usize == len);
        let packet = Received {
            seq: rtp.seq(),
            timestamp: rtp.timestamp(),
            ssrc: rtp.ssrc(),
            marker: rtp.marker(),
            // The length distinguishes a noise frame in the codec's own format.
            is_speech: rtp.payload_type() == settings.format.payload_type
                && (len == settings.payload_len as usize || mode.is_some()),
            ie: mode.map_or(0.0, |mode| mode.ie),
            created_at,
            wait: self.wait_of(datagram.call, rtp.seq()),
            now,
        };
        let receiver = &mut self.calls.receivers[datagram.call];
        let duplicates = receiver.counts.duplicates;
        let received = receiver.receive(settings, &packet, len, &mut self.delays);
        self.last_delay = receiver.last_delay;
        if receiver.counts.duplicates > duplicates {
            cx.note_duplicate(whole);
            return Ok(());
        }
        if received.is_ok() {
            self.last = Some(now);
        }
        if let (Ok(Some(played)), Some(log), 0) = (received, &mut self.log, datagram.call) {
            log.push(packet.timestamp, rtp.payload(), (now, played));
        }
        let played = received.map_err(|()| Refusal::Unexpected)?;
        if self.plan.side == Side::Bridge {
            self.pass_on(datagram.call as u32, &packet, (played, rtp.payload().first().copied()), cx);
        } else if let (Some(reception), Some(at)) = (self.receptions.get_mut(datagram.call), played)
            && at >= now
        {
            reception.push(&Sound::parse(rtp.payload()));
        }
        Ok(())
    }

    /// Returns the rating of a call at its delays and losses.
    pub(super) fn r(&self, call: usize, delays: &Delays, losses: &crate::Losses) -> f64 {
        let Some(rating) = self.plan.settings.rating_of(delays) else { return f64::NAN };
        let delay = delays.mouth_to_ear();
        match self.receptions.get(call) {
            Some(reception) => rating.r_of_mix(delay, losses, reception),
            None => rating.r(delay, losses),
        }
    }

    /// Reports on receptions: losses, delays, jitter.
    fn observe_reception(&self, observer: &mut dyn Observer) {
        let settings = &self.plan.settings;
        let mut delays = Delays::default();
        let (mut expected, mut losses, mut jitter, mut measured) = (0, [0_u64; 3], 0.0, 0.0);
        let mut runs = [0_u64; RUN_CLASSES.len()];
        for receiver in &self.calls.receivers {
            let figures = receiver.figures();
            let of_window = receiver.measured();
            delays.add(&of_window.delays);
            expected += figures.losses.expected();
            let Losses { lost, late, .. } = of_window.losses;
            let of_call = [lost, late, of_window.losses.expected()];
            losses.iter_mut().zip(of_call).for_each(|(sum, packets)| *sum += packets);
            let of_length = figures.losses.runs_by_length();
            runs.iter_mut().zip(of_length).for_each(|(sum, runs)| *sum += u64::from(runs));
            let of_call = receiver.jitter_s(settings);
            if !of_call.is_nan() {
                (jitter, measured) = (jitter + of_call, measured + 1.0);
            }
        }
        let [lost, late, of_window] = losses;
        let share = |packets: u64| packets as f64 / of_window as f64;
        observer.counter(&app::EXPECTED, expected);
        observer.gauge(&app::LOST, lost as f64);
        observer.gauge(&metrics::LOST_OR_LATE, (lost + late) as f64);
        observer.gauge(&app::LOSS_RATIO, share(lost));
        observer.gauge(&metrics::LATE, late as f64);
        observer.gauge(&metrics::LATE_RATIO, share(late));
        observer.gauge(&metrics::VOICE_LOSS, share(lost + late));
        let by_length = [
            &metrics::RUNS_OF_1,
            &metrics::RUNS_OF_2,
            &metrics::RUNS_OF_3,
            &metrics::RUNS_OF_6,
            &metrics::RUNS_OF_11,
        ];
        by_length.into_iter().zip(runs).for_each(|(metric, runs)| observer.gauge(metric, runs as f64));
        observer.gauge(&app::JITTER, jitter / measured);
        self.observe_delays(&delays, observer);
    }

    fn observe_delays(&self, delays: &Delays, observer: &mut dyn Observer) {
        let seconds = |span: Option<Span>| span.map_or(f64::NAN, Span::as_secs_f64);
        observer.gauge(&app::DELAY, seconds(self.last_delay));
        observer.gauge(&app::DELAY_MEAN, seconds(delays.network()));
        observer.gauge(&app::DELAY_P95, self.delays.quantile(0.95).unwrap_or(f64::NAN));
        observer.gauge(&metrics::HELD, self.plan.settings.held.as_secs_f64());
        observer.gauge(&metrics::NETWORK, seconds(delays.network()));
        observer.gauge(&metrics::BUFFERED, seconds(delays.buffered()));
        observer.gauge(&metrics::MOUTH_TO_EAR, seconds(delays.mouth_to_ear()));
        observer.histogram(&app::DELAYS, &self.delays);
        let round_trips = self.calls.reports.iter().filter_map(|reports| reports.round_trip);
        observer.gauge(&metrics::ROUND_TRIP, mean(round_trips.map(Span::as_secs_f64)));
    }

    /// Reports on the quality of the calls, of which each has its own rating.
    ///
    /// Means and the worst rating are those of calls that received packets; the others are counted.
    fn observe_quality(&mut self, now: Time, observer: &mut dyn Observer) {
        let settings = self.plan.settings;
        let (mut all, mut recent, mut good, mut counted) = (Vec::new(), Vec::new(), 0_u32, 0_u32);
        let (mut bursts, mut losses_now, mut silent) = (Vec::new(), Vec::new(), 0_u32);
        let limits = settings.config.good;
        for call in 0..self.calls.receivers.len() {
            let receiver = &mut self.calls.receivers[call];
            receiver.turn_windows(&settings, now);
            let (figures, window) = (receiver.measured(), receiver.window());
            let (has_window, is_silent) = (receiver.has_window(), receiver.is_silent());
            let ear = figures.delays.mouth_to_ear();
            let r = self.r(call, &figures.delays, &figures.losses);
            let r_now = self.r(call, &window.delays, &window.losses);
            let Losses { lost, late, .. } = figures.losses;
            // The E-model rates speech (G.107). Where comfort noise alone was sent, there is nothing to rate.
            // Without an account it is unknown whether a call of which nothing arrived has spoken.
            let is_mute = figures.delays.played == 0;
            let has_speech = !is_mute || lost + late > 0 || has_window.is_none() && is_silent;
            let (is_counted, is_silent) = (has_window.unwrap_or(true) && has_speech, is_silent || is_mute);
            let is_good = figures.losses.ratio() <= limits.loss
                && ear.is_some_and(|ear| ear <= limits.delay)
                && limits.r.is_none_or(|least| r >= least);
            counted += u32::from(is_counted);
            good += u32::from(is_counted && is_good);
            silent += u32::from(is_counted && is_silent);
            all.push(r);
            recent.push(r_now);
            // Independent losses of all packets have one run without an end.
            if figures.losses.played > 0 {
                bursts.push(figures.losses.burst_ratio());
            }
            losses_now.push(window.losses.ratio());
        }
        let known =
            |values: &[f64]| values.iter().copied().filter(|value| !value.is_nan()).collect::<Vec<f64>>();
        let scores = known(&all);
        let mos = settings.rating.map_or(f64::NAN, |rating| mean(scores.iter().map(|r| rating.mos(*r))));
        observer.gauge(&metrics::BURST_RATIO, mean(bursts.into_iter()));
        observer.gauge(&metrics::R, mean(scores.iter().copied()));
        observer.gauge(&metrics::R_MIN, scores.iter().copied().reduce(f64::min).unwrap_or(f64::NAN));
        observer.gauge(&metrics::R_NOW, mean(known(&recent).into_iter()));
        observer.gauge(&metrics::MOS, mos);
        observer.gauge(&metrics::LOSS_NOW, mean(known(&losses_now).into_iter()));
        observer.gauge(&metrics::CALLS, f64::from(self.plan.count));
        // A call of which nothing was sent in the window, or all is on its way, is in none of these.
        let of_counted = |calls: u32| if counted > 0 { f64::from(calls) } else { f64::NAN };
        let left_out = self.plan.count - counted.min(self.plan.count);
        let left_out = Some(left_out).filter(|calls| *calls > 0 && !self.calls.receivers.is_empty());
        observer.gauge(&metrics::SILENT_CALLS, of_counted(silent));
        observer.gauge(&metrics::GOOD_CALLS, of_counted(good));
        observer.gauge(&metrics::CALLS_LEFT_OUT, left_out.map_or(f64::NAN, f64::from));
        observer.gauge(&metrics::GOOD_LOSS, limits.loss);
        observer.gauge(&metrics::GOOD_DELAY, limits.delay.as_secs_f64());
        observer.gauge(&metrics::GOOD_R, limits.r.unwrap_or(f64::NAN));
        observer.gauge(&metrics::GOOD_RATIO, f64::from(good) / f64::from(counted));
    }

    fn received(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.calls.receivers.iter().map(|receiver| of(&receiver.counts)).sum()
    }

    fn reported(&self, of: impl Fn(&Reports) -> u64) -> u64 {
        self.calls.reports.iter().map(of).sum()
    }
}

/// Returns the mean of values; NaN without any.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

impl Element for Agent {
    fn receive(&mut self, port: Port, packet: Packet, cx: &mut Cx<'_>) -> Time {
        if port == BRIDGE {
            self.take_mix(packet, cx);
            return self.deadline();
        }
        match self.take(&packet, cx) {
            Ok(()) => packet.recycle(),
            Err(Refusal::BadChecksum) => {
                self.bad_checksum += 1;
                cx.refuse(packet, Why::Checksum);
            }
            Err(Refusal::Unexpected) => {
                self.unexpected += 1;
                cx.refuse(packet, Why::NoListener);
            }
        }
        self.deadline()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) -> Time {
        if self.calls.senders.is_empty() {
            self.begin(cx.stream());
            self.join(cx);
            self.decide();
        }
        self.send_due(cx);
        self.send_mixes(cx);
        self.report_due(cx);
        if cx.now() >= self.plan.stop && !self.has_ended {
            self.end(cx);
        }
        self.deadline()
    }

    // At a bridge, frames wait for the next mix, which the bridge causes.
    fn forwards(&self, from: Port, to: Port) -> bool {
        self.plan.side != Side::Bridge || from != to
    }

    fn alike(&self, from: Port) -> Port {
        from
    }

    fn open_accounts(&mut self, first: u32) -> Option<Range<u16>> {
        self.rtcp_account = first;
        Some(0..0)
    }

    fn own_account(&self) -> Option<&'static str> {
        Some("rtcp")
    }

    fn settle(&mut self, accounts: &Accounts) {
        for receiver in &mut self.calls.receivers {
            let known = receiver.account().filter(|account| account.has_begun());
            if let Some(tallies) = known.map(|account| accounts.tallies(account)) {
                receiver.settle(tallies);
            }
        }
    }

    fn observe(&mut self, now: Time, observer: &mut dyn Observer) {
        if observer.starts_window() {
            self.calls.receivers.iter_mut().for_each(|receiver| receiver.end_warm_up(0));
            self.receptions.fill(Reception::default());
        }
        observer.counter(&app::SENT, self.speech_sent + self.noise_sent);
        observer.counter(&app::SENT_BYTES, self.bytes_sent);
        observer.counter(&metrics::NOISE_SENT, self.noise_sent);
        observer.counter(&app::PACKETS, self.received(|counts| counts.packets));
        observer.counter(&app::DELIVERED_BYTES, self.received(|counts| counts.bytes));
        observer.counter(&app::ARRIVED_BYTES, self.received(|counts| counts.arrived_bytes));
        observer.last_arrival(self.last);
        observer.counter(&app::DUPLICATES, self.received(|counts| counts.duplicates));
        observer.counter(&app::REORDERED, self.received(|counts| counts.reordered));
        observer.counter(&metrics::REPORTS_SENT, self.reported(|reports| reports.sent));
        observer.counter(&metrics::REPORTS_RECEIVED, self.reported(|reports| reports.received));
        observer.counter(&metrics::MALFORMED, self.malformed);
        observer.counter(&app::DROPPED_BAD_CHECKSUM, self.bad_checksum);
        observer.counter(&app::DROPPED_UNEXPECTED, self.unexpected);
        self.observe_reception(observer);
        self.observe_quality(now, observer);
        if self.plan.settings.config.adapt.is_some() {
            let rate =
                |control: &RateControl| self.modes.get(control.mode).map_or(f64::NAN, |mode| mode.bps as f64);
            observer.gauge(&metrics::RATE, mean(self.calls.rates.iter().map(rate)));
            observer.counter(&metrics::RATE_CHANGES, self.rate_changes);
        }
        if matches!(self.plan.side, Side::Members { .. }) {
            observer.gauge(&metrics::TALKER_LOSS, mean(self.receptions.iter().map(Reception::loss)));
            observer.gauge(&metrics::ROOMS, mean(self.receptions.iter().map(Reception::rooms)));
        }
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests;
