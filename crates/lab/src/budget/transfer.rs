//! Transfers over TCP on an idle path: slow start and completion.

use std::collections::HashMap;

use bentpipe_scenario::{Flow, Scenario};
use bentpipe_site::{Ascent, Climbed, TrafficKind};
use bentpipe_units::{Bytes, Rate, Span};

use super::active::{ends_early, is_bulk, rest_of, time};
use super::medium::Media;
use super::path::{Path, splitter};
use super::sharing::{Forecast, of_bucket};
use super::size;
use super::states::States;

/// The most ACKs of a slow start.
const MOST_ACKS_EACH: u64 = 200_000;

/// The most ACKs of all slow starts of a budget together.
const MOST_ACKS: u64 = 2_000_000;

/// Greatest ratio of paths that have a slow start in common beyond those ACKs.
const LIKE: f64 = 1.05;

/// Slow starts of flows, those of equal flows once.
pub(super) struct Climbs {
    /// Number of ACKs that they may still take.
    acks: u64,
    /// Slow starts of each kind of traffic, by their paths.
    known: HashMap<String, HashMap<Ascent, Climbed>>,
}

impl Default for Climbs {
    fn default() -> Climbs {
        Climbs { acks: MOST_ACKS, known: HashMap::new() }
    }
}

impl Climbs {
    /// Returns the slow start of a flow, if it is forecast.
    fn of(&mut self, kind: &dyn TrafficKind, path: &Ascent) -> Option<Climbed> {
        let known = self.known.entry(format!("{kind:?}")).or_default();
        if let Some(climbed) = known.get(path) {
            return Some(*climbed);
        }
        if self.acks == 0 {
            return known.iter().find_map(|(other, climbed)| scaled(other, climbed, path));
        }
        let climbed = kind.ascend(&Ascent { most_acks: path.most_acks.min(self.acks), ..*path })?;
        self.acks -= climbed.acks.min(self.acks);
        known.insert(*path, climbed);
        Some(climbed)
    }
}

/// Returns a slow start of another path, for one that is nearly the same.
fn scaled(of: &Ascent, climbed: &Climbed, path: &Ascent) -> Option<Climbed> {
    let ratio = |this: f64, other: f64| this.max(other) / this.min(other).max(f64::MIN_POSITIVE);
    let [this, other] = [path.rtt, of.rtt].map(Span::as_secs_f64);
    let is_like = ratio(this, other) < LIKE
        && ratio(path.window.get() as f64, of.window.get() as f64) < LIKE
        && (path.payload, path.data) == (of.payload, of.data);
    let time = |span: Span| span.mul_f64(this / other);
    is_like.then(|| Climbed { time: climbed.time.map(time), end: climbed.end.map(time), ..*climbed })
}

/// Transfer over TCP without other flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    /// Time from the SYN until the window is open.
    pub(super) slow_start: Option<Span>,
    /// Goodput over its time, or until its data have arrived.
    pub(super) goodput: Option<Rate>,
    /// Least time until the data of a transfer of a size have arrived.
    pub(super) takes: Option<Span>,
    /// Set if it has a size.
    pub(super) is_of_size: bool,
}

impl Transfer {
    /// Computes the transfer of a flow. `None` if it has no window, or its path carries nothing at its start.
    pub(super) fn new(
        scenario: &Scenario,
        (media, states): (&Media<'_>, &States),
        (n, path): (usize, &Path),
        forecast: &Forecast,
        climbs: &mut Climbs,
    ) -> Option<Transfer> {
        let (flow, window) = (&scenario.flow[n], path.window?);
        let [_, rtt, _] = path.round_trips(media, states, &[(states.first_of(n), 1.0)])?;
        let rate = forecast.first;
        if rate.as_bps() == 0 || path.blocked.is_some() {
            return None;
        }
        let is_switched = states.activities.is_switched(n);
        let back = rtt.saturating_sub(path.one_way(media));
        let (opens, less) = (path.opening(media, flow), path.handshake_less(media));
        // The walk has a handshake of full packets.
        let until = |time: Span| (time + back + less).saturating_sub(opens);
        let mut ascent = Ascent {
            rtt,
            rate,
            payload: Bytes::new(path.payload),
            window: rate.bdp(rtt).min(window.most),
            most_acks: MOST_ACKS_EACH,
            data: size(flow),
            lasts: time(scenario, flow).filter(|_| !is_switched).map_or(Span::MAX, until),
        };
        let mut climbed = climbs.of(flow.traffic.kind(), &ascent)?;
        // What is in the buffer when the application stops is sent after that.
        if is_bulk(flow) && ends_early(scenario, flow) {
            let left = rate.bdp(ascent.lasts.saturating_sub(climbed.end?));
            let written = climbed.acked.get() + left.get() + window.ends[0].get();
            let all = Bytes::new(size(flow).map_or(u64::MAX, Bytes::get).min(written));
            (ascent.data, ascent.lasts) = (Some(all), until(rest_of(scenario, flow)));
            climbed = climbs.of(flow.traffic.kind(), &ascent)?;
        }
        climbed = from_handshake(climbed, less, opens);
        // Rates that change, parts of the time and windows of proxies have other means.
        let is_even = !is_switched && !differ(rate, forecast.sent) && splitter(scenario, path).is_none();
        // What passes a bucket is faster first.
        let seconds = states.seconds(n, &states.of_flow(n));
        let is_even =
            is_even && path.hops_there().iter().all(|hop| of_bucket(media, (hop.0, hop.1), seconds) > 0.98);
        let limit = Rate::of(window.most, rtt).min(rate);
        let measured =
            if is_even { measured(scenario, flow, (&climbed, &ascent), (limit, back)) } else { None };
        let shorter = size(flow).map_or(Span::ZERO, |size| path.shorter(media, size, rate));
        Some(Transfer {
            slow_start: climbed.time,
            goodput: measured.map(|(goodput, _)| goodput),
            takes: measured.and_then(|(_, takes)| takes).map(|takes| takes.saturating_sub(shorter)),
            is_of_size: size(flow).is_some(),
        })
    }
}

/// Returns a slow start behind a handshake with short packets.
///
/// `opens` is the time by which it is later that a receiver opens.
fn from_handshake(climbed: Climbed, less: Span, opens: Span) -> Climbed {
    let [time, end] = [climbed.time, climbed.end].map(|at| at.map(|at| at + opens));
    Climbed { time, end: end.map(|end| end.saturating_sub(less)), ..climbed }
}

/// Returns `true` if two rates differ by more than a hundredth.
fn differ(one: Rate, other: Rate) -> bool {
    let [one, other] = [one, other].map(|rate| rate.as_bps() as f64);
    (one - other).abs() > 0.01 * one.max(other)
}

/// Returns goodput, and the completion of a transfer of a size.
///
/// `back` is the time of ACKs: data have arrived that earlier.
fn measured(
    scenario: &Scenario,
    flow: &Flow,
    (climbed, ascent): (&Climbed, &Ascent),
    (limit, back): (Rate, Span),
) -> Option<(Rate, Option<Span>)> {
    let lasts = time(scenario, flow)?;
    let lasts = if is_bulk(flow) { rest_of(scenario, flow) } else { lasts };
    let end = climbed.end?;
    let arrived = |acked: u64, at: Span| Rate::of(Bytes::new(acked), at.saturating_sub(back));
    let acked = climbed.acked.get();
    let left = |of: u64| limit.span_of(Bytes::new(of.saturating_sub(acked)));
    if let Some(size) = ascent.data
        && let whole = end + left(size.get())
        && whole.saturating_sub(back) <= lasts
    {
        let is_measured = flow.start >= scenario.probe.warm_up;
        let takes = whole.saturating_sub(back);
        let rate = if is_measured { arrived(size.get(), whole) } else { limit };
        return Some((rate, Some(takes)));
    }
    if flow.start < scenario.probe.warm_up {
        return None;
    }
    let all = lasts + back;
    let rest = limit.bdp(all.saturating_sub(end)).get();
    Some((arrived(acked + rest, all), None))
}
