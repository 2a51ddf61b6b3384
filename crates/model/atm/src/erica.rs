//! ERICA and ERICA+: rate feedback of a switch to ABR sources.
//!
//! Source: Kalyanaraman, thesis, Ohio State 1997, chapters 6 and 7 and the code in its appendix; ATM Forum
//! 96-1172. At each output port the load of ABR cells, the capacity left for them and the number of active
//! channels are measured over an interval. A backward RM cell allows at most the larger of the fair share and
//! the channel's own rate divided by the load; in the interval after under-load, at least the highest
//! allocation of the interval before. The target of ERICA is a share of the capacity below one; ERICA+
//! targets all of it, reduced to keep the queueing delay at `t0`.
//!
//! Minimum cell rates enter by [`Fairness`]: load and fair share are then those of the rates above the
//! minima (Vandalore et al., ICNP 1998). Not modelled: per-channel queues.

use bentpipe_net::InvalidConfig;
use bentpipe_units::{Span, Time};
use bentpipe_wire::atm::rm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Measurement parameters of ERICA.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Measurement {
    /// Number of ABR cells that ends an interval. Default: 500.
    pub cells: u32,
    /// Or after this time, if that is earlier, 5 us at least. Default: "5 ms".
    pub time: Span,
    /// Overload up to which channels still get the previous interval's highest allocation. Default: 0.1.
    #[schemars(range(min = 0.0))]
    pub delta: f64,
    /// Decay factor of a silent channel's activity, per interval.
    ///
    /// Default: a channel counts if it sent in the last interval.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub activity_decay: Option<f64>,
    /// Enables counting a newly active channel immediately, not only from the next interval. Default: false.
    pub immediate: bool,
    /// Enables measured channel rates in place of those in forward RM cells. Default: false.
    pub count_rates: bool,
    /// Weight of a new interval in the average of the load, up to 1. Default: no averaging.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub load_weight: Option<f64>,
    /// Weight of a new interval in the averages of capacity, cells and interval length. Default: no
    /// averaging.
    ///
    /// The load then follows from these averages.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub parts_weight: Option<f64>,
}

impl Default for Measurement {
    fn default() -> Measurement {
        Measurement {
            cells: 500,
            time: Span::from_millis(5),
            delta: 0.1,
            activity_decay: None,
            immediate: false,
            count_rates: false,
            load_weight: None,
            parts_weight: None,
        }
    }
}

/// Least time of an interval, about that of two cells at 155 Mbit/s. Idle ports measure in it too.
const SHORTEST: Span = Span::from_micros(5);

/// Queue control of ERICA+: the target share as a hyperbolic function of the queue.
///
/// The target is the full capacity at an empty queue and at a delay of `t0`, and less above.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QueueControl {
    /// The queueing delay aimed at. Default: "500 us".
    pub t0: Span,
    /// Parameter of the hyperbola above `t0`; at least 1. Default: 1.15.
    #[schemars(range(min = 1.0))]
    pub a: f64,
    /// Parameter of the hyperbola below `t0`, the share at an empty queue; at least 1. Default: 1.
    #[schemars(range(min = 1.0))]
    pub b: f64,
    /// Queue drain limit factor: the share that is always given. Default: 0.5.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub qdlf: f64,
}

impl Default for QueueControl {
    fn default() -> QueueControl {
        QueueControl { t0: Span::from_micros(500), a: 1.15, b: 1.0, qdlf: 0.5 }
    }
}

impl QueueControl {
    /// Returns the target share of the capacity. The queue drains in `x` times `t0`.
    pub fn share(&self, x: f64) -> f64 {
        let factor = if x <= 1.0 { self.b } else { self.a };
        (factor / ((factor - 1.0) * x + 1.0)).max(self.qdlf)
    }

    pub(super) fn check(&self) -> Result<(), InvalidConfig> {
        InvalidConfig::ensure(!self.t0.is_zero(), "queue.t0", "more than no time")?;
        InvalidConfig::ensure(self.a >= 1.0, "queue.a", "at least 1")?;
        InvalidConfig::ensure(self.b >= 1.0, "queue.b", "at least 1")?;
        InvalidConfig::ensure(self.qdlf > 0.0 && self.qdlf <= 1.0, "queue.qdlf", "above 0 and at most 1")
    }
}

/// Fairness of the shares of channels with minimum cell rates (TM 4.0, appendix I.3).
///
/// Without minimum rates all but the weighted one are max-min fair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fairness {
    /// Minimum rate, and an equal share of the capacity above all minima.
    #[default]
    McrPlusEqualShare,
    /// The larger of minimum rate and max-min share.
    MaxOfMcrAndShare,
    /// Minimum rate, and a share of the capacity above all minima in proportion to it.
    ///
    /// Channels with a minimum of zero get none.
    McrProportional,
    /// Minimum rate, and a share of the capacity above all minima in proportion to `service.weight`.
    McrPlusWeightedShare,
}

/// Contract of a channel with its switches: minimum cell rate and weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    /// Minimum cell rate, in cells per second.
    pub mcr: f64,
    /// Weight of the share above the minimum.
    pub weight: f64,
}

impl Guarantee {
    /// No minimum, and a weight of one.
    pub const NONE: Guarantee = Guarantee { mcr: 0.0, weight: 1.0 };
}

/// Target of the allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// ERICA: a share of the capacity.
    Utilisation(f64),
    /// ERICA+: a queueing delay.
    Queue(QueueControl),
}

/// Channel at a port.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// Minimum cell rate, in cells per second.
    mcr: f64,
    /// Rate given before the shares, in cells per second, and weight of the share.
    floor: f64,
    weight: f64,
    /// Rate of the channel, as reported or measured, in cells per second.
    ccr: f64,
    cells: u32,
    seen: bool,
    seen_before: bool,
    /// Activity, from 0 to 1.
    activity: f64,
    /// Allocation in this interval, if any.
    given: Option<f64>,
}

impl Channel {
    fn new(mcr: f64, floor: f64, weight: f64) -> Channel {
        Channel {
            mcr,
            floor,
            weight,
            ccr: 0.0,
            cells: 0,
            seen: false,
            seen_before: false,
            activity: 0.0,
            given: None,
        }
    }

    /// Returns how active the channel is in this interval, from 0 to 1.
    fn presence(&self, decay: Option<f64>) -> f64 {
        if decay.is_some() { self.activity } else { f64::from(u8::from(self.seen)) }
    }
}

/// ERICA at one output port.
#[derive(Clone, Debug)]
pub(crate) struct Erica {
    measurement: Measurement,
    target: Target,
    fairness: Fairness,
    /// Set if all channels share alike, without minima.
    is_even: bool,
    /// Cells per second.
    line: f64,
    channels: Vec<Channel>,
    started: Time,
    abr_cells: u32,
    other_cells: u32,
    /// The load: cells that came in for cells to be given.
    load: f64,
    /// The load above the minima.
    excess_load: f64,
    /// Share of a weight of one, above the minimum.
    fair_share: f64,
    max_before: f64,
    max_now: f64,
    active: f64,
    /// Sum of activities of this interval, if activities decay.
    activities: f64,
    /// Sum and maximum of the weights of active channels.
    weights: f64,
    heaviest: f64,
    /// Target capacity in cells per second, and the part of it above the minima.
    capacity: f64,
    shared: f64,
    averages: Option<[f64; 5]>,
    intervals: u64,
}

impl Erica {
    pub(crate) fn new(
        measurement: Measurement,
        target: Target,
        cells_per_second: f64,
    ) -> Result<Erica, InvalidConfig> {
        let weight = |value: Option<f64>| value.is_none_or(|value| value > 0.0 && value <= 1.0);
        InvalidConfig::ensure(measurement.cells > 0, "measure.cells", "at least 1")?;
        InvalidConfig::ensure(measurement.time >= SHORTEST, "measure.time", "at least \"5 us\"")?;
        InvalidConfig::ensure(measurement.delta >= 0.0, "measure.delta", "at least 0")?;
        let decay = measurement.activity_decay;
        let decays = decay.is_none_or(|decay| (0.0..1.0).contains(&decay));
        InvalidConfig::ensure(decays, "measure.activity_decay", "from 0 to below 1")?;
        InvalidConfig::ensure(
            weight(measurement.load_weight),
            "measure.load_weight",
            "above 0 and at most 1",
        )?;
        InvalidConfig::ensure(
            weight(measurement.parts_weight),
            "measure.parts_weight",
            "above 0 and at most 1",
        )?;
        match target {
            Target::Utilisation(share) => {
                InvalidConfig::ensure(share > 0.0 && share <= 1.0, "utilisation", "above 0 and at most 1")?;
            }
            Target::Queue(control) => control.check()?,
        }
        Ok(Erica {
            measurement,
            target,
            fairness: Fairness::default(),
            is_even: true,
            line: cells_per_second,
            channels: Vec::new(),
            started: Time::ZERO,
            abr_cells: 0,
            other_cells: 0,
            load: 1.0,
            excess_load: 1.0,
            fair_share: cells_per_second,
            max_before: 0.0,
            max_now: 0.0,
            active: 1.0,
            activities: 0.0,
            weights: 1.0,
            heaviest: 1.0,
            capacity: cells_per_second,
            shared: cells_per_second,
            averages: None,
            intervals: 0,
        })
    }

    /// Sets the fairness of the shares.
    pub(crate) fn with_fairness(self, fairness: Fairness) -> Erica {
        Erica { fairness, ..self }
    }

    /// Adds a channel; gives its number.
    pub(crate) fn add(&mut self, Guarantee { mcr, weight }: Guarantee) -> usize {
        self.channels.push(match self.fairness {
            Fairness::McrPlusEqualShare => Channel::new(mcr, mcr, 1.0),
            Fairness::MaxOfMcrAndShare => Channel::new(mcr, 0.0, 1.0),
            Fairness::McrProportional => Channel::new(mcr, mcr, mcr),
            Fairness::McrPlusWeightedShare => Channel::new(mcr, mcr, weight),
        });
        self.is_even = self.channels.iter().all(|channel| channel.mcr == 0.0 && channel.weight == 1.0);
        self.channels.len() - 1
    }

    /// Returns the end of the interval if too few cells arrive.
    #[inline]
    pub(crate) fn ends_at(&self) -> Time {
        self.started + self.measurement.time
    }

    /// Returns the number of ABR cells missing until the interval ends.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.measurement.cells.saturating_sub(self.abr_cells) as usize
    }

    /// Counts ABR cells of a channel that arrive at the port.
    #[inline]
    pub(crate) fn on_abr(&mut self, channel: usize, cells: u32) {
        if self.channels[channel].cells == 0 && cells > 0 {
            self.touch(channel);
        }
        self.abr_cells += cells;
        self.channels[channel].cells += cells;
    }

    /// Records the rate of a channel from a forward RM cell, in cells per second.
    pub(crate) fn on_rate(&mut self, channel: usize, ccr: f64) {
        if !self.measurement.count_rates {
            self.channels[channel].ccr = ccr;
        }
    }

    /// Cells of a class that is served before ABR come to the port.
    #[inline]
    pub(crate) fn on_other(&mut self, cells: u32) {
        self.other_cells += cells;
    }

    /// Notes that a channel is active.
    #[inline]
    fn touch(&mut self, channel: usize) {
        let state = &mut self.channels[channel];
        let Some(decay) = self.measurement.activity_decay else {
            state.seen = true;
            if self.measurement.immediate && !state.seen_before {
                state.seen_before = true;
                self.enter(channel, 1.0);
            }
            return;
        };
        if state.activity < 1.0 {
            let before = state.activity;
            state.activity = 1.0;
            self.activities += 1.0 - before;
            if self.measurement.immediate && before < decay {
                self.enter(channel, 1.0 - before / decay);
            }
        }
    }

    /// Counts a channel that becomes active within the interval. `more` is the share that was not active.
    fn enter(&mut self, channel: usize, more: f64) {
        self.active += more;
        if self.is_even {
            self.weights = self.active;
        } else {
            let Channel { floor, weight, .. } = self.channels[channel];
            self.weights += weight * more;
            self.heaviest = self.heaviest.max(weight);
            self.shared = (self.shared - floor * more).max(0.0);
        }
        self.fair_share = share_of(self.shared, self.weights);
    }

    /// Ends the interval at `now`, with `queue` ABR cells waiting.
    pub(crate) fn end_interval(&mut self, now: Time, queue: usize) {
        let seconds = now.since(self.started).as_secs_f64();
        let present = self.present();
        self.count_active();
        let left = (self.line - f64::from(self.other_cells) / seconds).max(0.0);
        // The queue's share is of what is above the minima: of all, it would take several times as much from them.
        let (mut capacity, share) = match self.target {
            Target::Utilisation(share) => {
                ((share * self.line - f64::from(self.other_cells) / seconds).max(0.0), 1.0)
            }
            Target::Queue(control) => {
                let share = control.share(drain_time(queue, left, control.t0));
                (left * share, share)
            }
        };
        let guaranteed = self.guarantee(&present, capacity, seconds);
        let cells = f64::from(self.abr_cells);
        let mut input = cells / seconds;
        let mut shared = (capacity - share * guaranteed).max(0.0);
        let mut excess = (input - guaranteed).max(0.0);
        if let Some(weight) = self.measurement.parts_weight {
            let above = (cells - guaranteed * seconds).max(0.0);
            let parts = [capacity * seconds, shared * seconds, cells, above, seconds];
            [capacity, shared, input, excess] = self.average(parts, weight);
        }
        self.shared = shared;
        self.excess_load = self.new_load(self.excess_load, shared, excess);
        self.load = self.new_load(self.load, capacity, input);
        self.capacity = capacity;
        self.fair_share = share_of(self.shared, self.weights);
        (self.max_before, self.max_now) = (self.max_now, self.fair_share);
        for channel in &mut self.channels {
            channel.given = None;
            if self.measurement.count_rates {
                channel.ccr = f64::from(channel.cells) / seconds;
            }
            channel.cells = 0;
        }
        (self.started, self.abr_cells, self.other_cells) = (now, 0, 0);
        self.intervals += 1;
    }

    fn count_active(&mut self) {
        match self.measurement.activity_decay {
            None => {
                let count = self.channels.iter().filter(|channel| channel.seen).count();
                self.active = count.max(1) as f64;
                for channel in &mut self.channels {
                    channel.seen_before = std::mem::take(&mut channel.seen);
                }
            }
            Some(decay) => {
                self.active = self.activities.max(1.0);
                self.channels.iter_mut().for_each(|channel| channel.activity *= decay);
                self.activities = self.channels.iter().map(|channel| channel.activity).sum();
            }
        }
    }

    /// Returns how active each channel was in this interval, unless all share alike.
    fn present(&self) -> Vec<f64> {
        let decay = self.measurement.activity_decay;
        let all = self.channels.iter().filter(|_| !self.is_even);
        all.map(|channel| channel.presence(decay)).collect()
    }

    /// Adds up the weights of active channels, and returns what they sent within their minima.
    ///
    /// A channel that sends less than its minimum leaves the rest of it to the others.
    fn guarantee(&mut self, present: &[f64], capacity: f64, seconds: f64) -> f64 {
        if self.is_even {
            self.weights = self.active;
            return 0.0;
        }
        if self.fairness == Fairness::MaxOfMcrAndShare {
            self.raise_to_minima(present, capacity);
        }
        let all = || self.channels.iter().zip(present);
        self.weights = all().map(|(channel, present)| channel.weight * present).sum();
        self.heaviest =
            all().filter(|(_, present)| **present > 0.0).fold(0.0, |most, (c, _)| c.weight.max(most));
        let sent = |channel: &Channel| f64::from(channel.cells) / seconds;
        all().map(|(channel, _)| channel.floor.min(sent(channel))).sum()
    }

    /// Raises channels to their minimum where it exceeds the share of the others.
    ///
    /// The largest minima come first.
    fn raise_to_minima(&mut self, present: &[f64], capacity: f64) {
        let mut order: Vec<usize> = (0..self.channels.len()).filter(|n| present[*n] > 0.0).collect();
        order.sort_by(|a, b| self.channels[*b].mcr.total_cmp(&self.channels[*a].mcr));
        let (mut left, mut count) = (capacity, present.iter().sum::<f64>());
        let raised = order.iter().take_while(|n| {
            let mcr = self.channels[**n].mcr;
            let is_raised = mcr * count > left;
            if is_raised {
                left = (left - mcr * present[**n]).max(0.0);
                count -= present[**n];
            }
            is_raised
        });
        let raised = raised.count();
        self.channels.iter_mut().for_each(|channel| (channel.floor, channel.weight) = (0.0, 1.0));
        for n in &order[..raised] {
            (self.channels[*n].floor, self.channels[*n].weight) = (self.channels[*n].mcr, 0.0);
        }
    }

    /// Averages target cells and arrived cells, each in all and above the minima, and time.
    ///
    /// Returns all but the last per unit of time.
    fn average(&mut self, parts: [f64; 5], weight: f64) -> [f64; 4] {
        let mut averages = self.averages.unwrap_or(parts);
        averages.iter_mut().zip(parts).for_each(|(average, part)| *average += weight * (part - *average));
        self.averages = Some(averages);
        let [rest @ .., seconds] = averages;
        rest.map(|part| part / seconds)
    }

    fn new_load(&self, before: f64, capacity: f64, input: f64) -> f64 {
        if capacity <= 0.0 {
            return f64::INFINITY;
        }
        match self.measurement.load_weight.filter(|_| before.is_finite() && self.intervals > 0) {
            Some(weight) => (1.0 - weight) * before + weight * input / capacity,
            None => input / capacity,
        }
    }

    /// Returns the maximum rate for a channel's backward RM cell, in cells per second.
    ///
    /// The rate is computed once per interval.
    pub(crate) fn feedback(&mut self, channel: usize) -> f64 {
        self.touch(channel);
        if let Some(given) = self.channels[channel].given {
            return given;
        }
        let Channel { ccr, mcr, floor, weight, .. } = self.channels[channel];
        let share = if weight > 0.0 { self.share(ccr, floor, weight) } else { 0.0 };
        let rate = (floor + weight * share).min(self.capacity).max(mcr);
        self.channels[channel].given = Some(rate);
        rate
    }

    /// Returns a channel's share for each unit of its weight, above its minimum.
    fn share(&mut self, ccr: f64, floor: f64, weight: f64) -> f64 {
        let excess = (ccr - floor).max(0.0) / weight;
        let own = if self.excess_load > 0.0 { excess / self.excess_load } else { f64::INFINITY };
        let mut share = self.fair_share.max(own);
        if self.load <= 1.0 + self.measurement.delta {
            share = share.max(self.max_before);
        }
        // What the heaviest can have bounds what all are raised to.
        let for_all = self.shared / self.heaviest.max(weight);
        self.max_now = self.max_now.max(share.min(for_all));
        // A channel below the fair share first comes up to it, so that no queue grows by jumps.
        if ccr < as_written(floor + weight * self.fair_share) && share >= self.fair_share {
            share = self.fair_share;
        }
        share.min(self.shared / weight)
    }

    /// Returns load, fair share, capacity and active channels. Fair share and capacity are in cells per
    /// second.
    pub(crate) fn state(&self) -> [f64; 4] {
        [self.load, self.fair_share, self.capacity, self.active]
    }
}

/// Returns the share of a weight of one.
fn share_of(shared: f64, weights: f64) -> f64 {
    if weights > 0.0 { shared / weights } else { 0.0 }
}

/// Returns a rate as RM cells encode it, slightly reduced.
///
/// A channel that got this rate then reaches it after rounding.
fn as_written(cells_per_second: f64) -> f64 {
    rm::Rate::from_cells_per_second(cells_per_second).cells_per_second()
}

/// Returns the drain time of a queue in units of `t0`. The capacity is in cells per second.
fn drain_time(queue: usize, capacity: f64, t0: Span) -> f64 {
    match queue {
        0 => 0.0,
        _ => queue as f64 / (capacity * t0.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plus() -> QueueControl {
        QueueControl::default()
    }

    #[test]
    fn the_hyperbolas_go_through_known_points() {
        let curve = plus();
        for (x, share) in [
            (0.0, 1.0),
            (0.7, 1.0),
            (1.0, 1.0),
            (1.5, 0.9302),
            (2.0, 0.8846),
            (3.0, 0.7931),
            (4.0, 0.7187),
            (5.0, 0.6571),
            (6.0, 0.6053),
            (8.0, 0.5227),
            (8.67, 0.5),
            (1e9, 0.5),
            (f64::INFINITY, 0.5),
        ] {
            let expected = if x == 1.5 { 1.15 / 1.225 } else { share };
            let expected = if x == 1.0 { 1.0 } else { expected };
            assert!((curve.share(x) - expected).abs() < 1e-3, "{x}: {} for {expected}", curve.share(x));
        }
        let steep = QueueControl { b: 1.05, ..plus() };
        assert_eq!((steep.share(0.0), steep.share(1.0)), (1.05, 1.0));
    }

    /// Returns ERICA with three channels that sent 100 cells each in 5 ms. The line has 100,000 cells/s.
    fn loaded(target: Target) -> Erica {
        let mut erica = Erica::new(Measurement::default(), target, 100_000.0).unwrap();
        for channel in 0..3 {
            erica.add(Guarantee::NONE);
            erica.on_abr(channel, 100);
            erica.on_rate(channel, 20_000.0);
        }
        erica.on_other(100);
        erica.end_interval(Time::from_nanos(5_000_000), 0);
        erica
    }

    #[test]
    fn load_capacity_and_share_of_an_interval() {
        // 300 cells in 5 ms are 60,000/s; the others take 20,000/s of 90,000 or 100,000.
        let mut erica = loaded(Target::Utilisation(0.9));
        assert_eq!(erica.state(), [60.0 / 70.0, 70_000.0 / 3.0, 70_000.0, 3.0]);
        // 20,000/s divided by the load is the fair share here: the channels are even.
        assert!((erica.feedback(0) - 70_000.0 / 3.0).abs() < 1e-6);
        let mut plus = loaded(Target::Queue(plus()));
        assert_eq!(plus.state(), [0.75, 80_000.0 / 3.0, 80_000.0, 3.0]);
        assert!((plus.feedback(1) - 80_000.0 / 3.0).abs() < 1e-6);
    }

    /// Feedback to channels with these minima, in units of 1000 cells/s.
    fn with_minima(fairness: Fairness, minima: &[f64]) -> Vec<f64> {
        let erica = Erica::new(Measurement::default(), Target::Utilisation(1.0), 100_000.0);
        let mut erica = erica.unwrap().with_fairness(fairness);
        for (n, mcr) in minima.iter().enumerate() {
            erica.add(Guarantee { mcr: mcr * 1000.0, weight: 1.0 + n as f64 });
            erica.on_abr(n, 10 + (mcr * 7.5) as u32);
        }
        erica.end_interval(Time::from_nanos(5_000_000), 0);
        (0..minima.len()).map(|n| (erica.feedback(n) / 100.0).round() / 10.0).collect()
    }

    #[test]
    fn minima_are_shared_as_the_forum_defines() {
        use Fairness::*;
        // B(i) = MCR(i) + (B - M) / n.
        assert_eq!(with_minima(McrPlusEqualShare, &[70.0, 0.0, 0.0]), [80.0, 10.0, 10.0]);
        // B(i) = max(MCR(i), max-min share): one is above the share of 33, or one and then two.
        assert_eq!(with_minima(MaxOfMcrAndShare, &[70.0, 0.0, 0.0]), [70.0, 15.0, 15.0]);
        assert_eq!(with_minima(MaxOfMcrAndShare, &[10.0, 60.0, 25.0]), [15.0, 60.0, 25.0]);
        // B(i) = B * MCR(i) / M.
        assert_eq!(with_minima(McrProportional, &[10.0, 30.0, 40.0]), [12.5, 37.5, 50.0]);
        // Weights are 1, 2 and 3 here.
        assert_eq!(with_minima(McrPlusWeightedShare, &[10.0, 30.0, 0.0]), [20.0, 50.0, 30.0]);
    }

    /// Ports without cells end their intervals by the time alone.
    #[test]
    fn an_interval_has_a_least_time() {
        let key = |nanos| {
            let measurement = Measurement { time: Span::from_nanos(nanos), ..Measurement::default() };
            Erica::new(measurement, Target::Utilisation(0.9), 100_000.0).err().map(|error| error.key)
        };
        assert_eq!(key(0), Some("measure.time"));
        assert_eq!((key(4_999), key(5_000)), (Some("measure.time"), None));
    }

    #[test]
    fn activity_decays_and_new_channels_count_immediately_if_configured() {
        let active = |measurement: Measurement| {
            let mut erica = Erica::new(measurement, Target::Utilisation(0.9), 100_000.0).unwrap();
            for _ in 0..3 {
                erica.add(Guarantee::NONE);
            }
            (0..2).for_each(|channel| erica.on_abr(channel, 100));
            erica.end_interval(Time::from_nanos(5_000_000), 0);
            erica.on_abr(0, 100);
            erica.end_interval(Time::from_nanos(10_000_000), 0);
            let before = erica.state()[3];
            erica.on_abr(2, 1);
            [before, erica.state()[3]]
        };
        let plain = Measurement::default();
        assert_eq!(active(plain), [1.0, 1.0]);
        assert_eq!(active(Measurement { immediate: true, ..plain }), [1.0, 2.0]);
        let [decayed, _] = active(Measurement { activity_decay: Some(0.9), ..plain });
        assert!((decayed - 1.9).abs() < 1e-12, "{decayed}");
    }

    #[test]
    fn nothing_left_means_nothing_given() {
        let mut erica = loaded(Target::Queue(plus()));
        erica.on_other(2000);
        erica.end_interval(Time::from_nanos(10_000_000), 10);
        assert_eq!(erica.state()[..3], [f64::INFINITY, 0.0, 0.0]);
        assert_eq!(erica.feedback(0), 0.0);
    }

    #[test]
    fn a_queue_takes_its_share() {
        let mut erica = loaded(Target::Queue(plus()));
        // 100 cells at 100,000/s drain in twice t0.
        erica.on_abr(0, 100);
        erica.end_interval(Time::from_nanos(10_000_000), 100);
        assert!((erica.state()[2] - 88_461.5).abs() < 0.1, "{:?}", erica.state());
        assert_eq!(erica.state()[3], 1.0);
    }
}
