//! Making the declared measures of a subject from what its parts reported.

use std::cell::OnceCell;
use std::collections::HashMap;

use bentpipe_net::Histogram;
use bentpipe_net::metric::{Counter, End, How, Metric, Of, Sum, Unit};
use bentpipe_scenario::Scenario;
use bentpipe_transport::app::metrics::DELAYS;
use bentpipe_transport::{app, tcp};
use bentpipe_units::{Span, Time};

use super::sent::{Loss, Sent};
use super::subjects::{Kind, Subject};
use super::unloaded::Unloaded;
use bentpipe_record::{Column, LedgerRow, Measure, Recording, Series, Total, Totals, stats};

/// Bytes of application data that reached a receiver.
static DELIVERED: [&Metric; 2] = [&tcp::metrics::ARRIVED_BYTES.metric, &app::metrics::ARRIVED_BYTES.metric];

/// Mean number of packets in the parts of time of a median rate, at least.
///
/// A packet counts whole when it arrives, and is a fiftieth of a part.
const PACKETS_OF_PART: f64 = 50.0;

/// Recording of a run, with the end of its warm-up.
pub(super) struct Run<'a> {
    pub(super) end: &'a Totals,
    pub(super) warm: &'a Totals,
    pub(super) series: &'a Series,
    pub(super) seconds: Vec<f64>,
    warm_up_s: f64,
    pub(super) duration_s: f64,
    /// Scenario, for the delays of empty paths.
    pub(super) scenario: &'a Scenario,
    /// Seed of the run.
    pub(super) seed: u64,
    /// Delays for flows from which nothing arrived, once they are needed.
    pub(super) unloaded: OnceCell<Unloaded>,
    /// Accounts of packets by sender.
    pub(super) accounts: HashMap<&'a str, Sent>,
}

/// A measure of a subject in the making: values of several parts are added up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summed<'a> {
    /// Subject's path.
    pub(super) path: &'a str,
    /// Word for the opposite direction of a call, or nothing.
    pub(super) way: &'static str,
    /// Declaration of the measure.
    pub(super) sum: &'static Sum,
    /// Metric that it is made of.
    pub(super) metric: &'static Metric,
    /// Sum of the parts' values.
    total: f64,
    /// Divisor: the number of parts, or the growth of another metric.
    over: f64,
    /// Active period of the subject.
    active: Active,
}

/// Active period of a subject, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Active {
    /// Start of it, from the beginning of the run.
    pub(super) start_s: f64,
    /// End of it.
    end_s: f64,
    /// Length of it after the warm-up; NaN if there is nothing left.
    length_s: f64,
}

impl Active {
    /// Returns `true` if nothing of it is left after the warm-up.
    pub(super) fn is_empty(&self) -> bool {
        self.length_s.is_nan()
    }
}

impl<'a> Summed<'a> {
    /// Returns the mean of the parts before it is divided by a time.
    pub(super) fn mean(&self) -> f64 {
        self.total / self.over
    }

    /// Returns the growth over `seconds`, in [`Unit::per_second`].
    ///
    /// Values over one common window add up. Those over different active times do not: their flows never had the sum at once.
    pub(super) fn over(&self, seconds: f64) -> f64 {
        self.mean() * self.metric.unit.per_second_factor() / seconds
    }

    /// Returns the value.
    pub(super) fn value(&self) -> f64 {
        match self.sum.how {
            How::PerSecond => self.over(self.active.length_s),
            How::SinceStart => self.mean() - self.active.start_s,
            How::MedianPerSecond => self.mean() * self.metric.unit.per_second_factor(),
            How::Grown | How::Dropped => self.total,
            How::Last
            | How::Quantile(_)
            | How::DistributionMean
            | How::Mean
            | How::Median
            | How::Over(_)
            | How::Loss { .. }
            | How::OfAllWith(_)
            | How::DropRatio => self.mean(),
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self.sum.how {
            How::PerSecond | How::MedianPerSecond => self.metric.unit.per_second(),
            How::Over(other) if other.unit == self.metric.unit => Unit::Ratio,
            How::DropRatio | How::Loss { .. } | How::OfAllWith(_) => Unit::Ratio,
            _ => self.metric.unit,
        }
    }

    /// Returns the measure if it has a value.
    pub(super) fn measure(self) -> Option<Measure> {
        let way = if self.way.is_empty() { String::new() } else { format!(".{}", self.way) };
        let name = format!("{}{way}.{}", self.path.replace('/', "."), self.sum.name);
        Measure::new(name, self.unit().symbol(), self.value()).map(|measure| measure.since(self.sum.since))
    }
}

impl<'a> Run<'a> {
    pub(super) fn of(
        scenario: &'a Scenario,
        seed: u64,
        recording: &'a Recording,
        ledger: &'a [LedgerRow],
    ) -> Run<'a> {
        Run {
            scenario,
            seed,
            unloaded: OnceCell::new(),
            accounts: Sent::by_sender(ledger),
            end: &recording.end,
            warm: &recording.warm,
            series: &recording.series,
            seconds: recording.series.seconds(),
            warm_up_s: recording.warm.at.as_secs_f64(),
            duration_s: recording.end.at.as_secs_f64(),
        }
    }

    /// Returns the seconds of the run after the warm-up.
    pub(super) fn whole_s(&self) -> f64 {
        self.duration_s - self.warm_up_s
    }

    /// Returns the whole run, at both ends.
    pub(super) fn whole(&self) -> [Active; 2] {
        [self.active(Span::ZERO, None); 2]
    }

    /// Returns the time from `start` to `stop`, or to the end of the run.
    pub(super) fn active(&self, start: Span, stop: Option<Span>) -> Active {
        let start_s = start.as_secs_f64();
        let to = stop.map_or(self.duration_s, |stop| stop.as_secs_f64().min(self.duration_s));
        let length_s = to - start_s.max(self.warm_up_s);
        Active { start_s, end_s: to, length_s: if length_s > 0.0 { length_s } else { f64::NAN } }
    }

    /// Returns the time of a flow's receivers from `start` to `until`.
    ///
    /// Of a packet that began to arrive in the warm-up, all counts behind it. So a time that begins with the window, and ends in it,
    /// begins with the last arrival in front of it.
    pub(super) fn receiving(&self, flow: &Subject<'a>, start: Span, until: Option<f64>) -> Active {
        let active = self.active(start, until.map(Span::from_secs_f64));
        if until.is_none() || start.as_secs_f64() >= self.warm_up_s {
            return active;
        }
        // One that lasts to the end has the window, as the sum of all flows.
        let most_s = self.whole_s().max(active.length_s);
        let length_s = (active.length_s + self.behind_last_arrival(flow, active)).min(most_s);
        Active { length_s: if active.is_empty() { f64::NAN } else { length_s }, ..active }
    }

    /// Returns the time from a flow's last arrival to the window, in seconds.
    ///
    /// It is at most the mean distance of packets in the window: a flow that was held up has no packet on its way all the time.
    fn behind_last_arrival(&self, flow: &Subject<'a>, active: Active) -> f64 {
        let receivers = flow.parts.iter().filter(|(_, end)| *end == Some(End::Receiver));
        let arrivals = receivers.filter_map(|(part, _)| self.warm.last_arrival(*part));
        let last_s = arrivals.map(Time::as_secs_f64).fold(active.start_s, f64::max);
        let waited_s = self.warm_up_s - last_s;
        match self.packets(flow) {
            packets if packets < 1.0 => 0.0,
            packets if packets < 2.0 => waited_s,
            packets => waited_s.min(active.length_s / (packets - 1.0)),
        }
    }

    /// Returns the mean number of packets that arrived at a flow's receivers.
    ///
    /// Those of the window that have delays count.
    fn packets(&self, flow: &Subject<'_>) -> f64 {
        let receivers = flow.parts.iter().filter(|(_, end)| *end == Some(End::Receiver));
        let count = |totals: &Totals, part: u32| -> u64 {
            let delays =
                totals.histograms_of(part).iter().filter(|(_, metric, _)| metric.name == DELAYS.name);
            delays.map(|(.., values)| values.len()).sum()
        };
        let (sum, parts) = receivers.fold((0, 0_u32), |(sum, parts), (part, _)| {
            (sum + count(self.end, *part).saturating_sub(count(self.warm, *part)), parts + 1)
        });
        sum as f64 / f64::from(parts.max(1))
    }

    /// Returns `true` if a receiver of a flow reports goodput.
    pub(super) fn has_goodput(&self, flow: &Subject<'a>) -> bool {
        let receivers = flow.parts.iter().filter(|(_, end)| *end == Some(End::Receiver));
        let mut totals = receivers.flat_map(|(part, _)| self.end.of(*part));
        totals.any(|total| is_delivered(total.metric))
    }

    /// Returns the instant of a flow's last arrival, in seconds, and no instant before `stop`.
    pub(super) fn last_arrival(&self, flow: &Subject<'a>, stop: Span) -> f64 {
        let receivers = flow.parts.iter().filter(|(_, end)| *end == Some(End::Receiver));
        let arrivals = receivers.filter_map(|(part, _)| self.end.last_arrival(*part));
        arrivals.map(Time::as_secs_f64).fold(stop.as_secs_f64(), f64::max)
    }

    /// Returns the instants at which a flow's sources had sent all or stopped, in seconds.
    fn source_end(&self, flow: &Subject<'a>) -> impl Iterator<Item = f64> {
        let senders = flow.parts.iter().filter(|(_, end)| *end == Some(End::Sender));
        let totals = senders.flat_map(|(part, _)| self.end.of(*part));
        totals.filter(|total| total.metric.is(&app::metrics::ENDED_AT)).map(|total| total.value().as_f64())
    }

    /// Returns the instant at which all data of a flow had been delivered, in seconds.
    pub(super) fn completed(&self, flow: &Subject<'a>) -> Option<f64> {
        let since_start = |summed: &Summed<'_>| matches!(summed.sum.how, How::SinceStart);
        let completion = self.sums(flow, self.whole()).into_iter().find(since_start)?;
        Some(completion.mean()).filter(|at| at.is_finite())
    }

    /// Returns all measures that the metrics of a subject's parts declare.
    ///
    /// `active` are its times at the sender and at receivers.
    pub(super) fn sums(&self, subject: &Subject<'a>, active: [Active; 2]) -> Vec<Summed<'a>> {
        let mut found: Vec<Summed<'a>> = Vec::new();
        let mut known = Known::default();
        for (part, end) in &subject.parts {
            let active = active[usize::from(*end == Some(End::Receiver))];
            for reported in self.end.of(*part) {
                let declared = reported.metric.sums.iter();
                let here = declared.filter(|sum| is_taken_at(sum, subject.kind, *end));
                for sum in here {
                    if !self.is_given(subject, sum, &mut known) {
                        continue;
                    }
                    let values = self.values((subject, active), reported, sum, &mut known);
                    let Some((total, over)) = values else { continue };
                    let (path, way) = (subject.path, subject.way);
                    add(&mut found, Summed { path, way, sum, metric: reported.metric, total, over, active });
                }
            }
            self.quantiles(subject, (*part, *end), active, &mut found);
        }
        found
    }

    /// Adds the measures that are made of a part's distributions.
    fn quantiles(
        &self,
        subject: &Subject<'a>,
        (part, end): (u32, Option<End>),
        active: Active,
        found: &mut Vec<Summed<'a>>,
    ) {
        for (_, metric, values) in self.end.histograms_of(part) {
            let before = self.warm.histograms_of(part).iter().find(|(_, known, _)| known.is(metric));
            let grown = before.map_or_else(|| values.clone(), |(.., before)| values.since(before));
            let (path, way) = (subject.path, subject.way);
            for sum in metric.sums.iter().filter(|sum| is_taken_at(sum, subject.kind, end)) {
                let Some(total) = of_distribution(&grown, sum.how) else { continue };
                add(found, Summed { path, way, sum, metric, total, over: 1.0, active });
            }
        }
    }

    /// Returns `true` if the metric that the measure depends on is above zero.
    fn is_given(&self, subject: &Subject<'_>, sum: &Sum, known: &mut Known) -> bool {
        let Some(given) = sum.given else { return true };
        if let Some((_, is_given)) = known.given.iter().find(|(of, _)| std::ptr::eq(*of, given)) {
            return *is_given;
        }
        let mut totals = subject.parts.iter().flat_map(|(part, _)| self.end.of(*part));
        let is_given = totals.any(|total| total.metric.is(given) && total.value().as_f64() > 0.0);
        known.given.push((given, is_given));
        is_given
    }

    /// Returns a part's contribution to a measure: numerator and denominator.
    fn values(
        &self,
        (subject, active): (&Subject<'_>, Active),
        reported: &Total,
        sum: &'static Sum,
        known: &mut Known,
    ) -> Option<(f64, f64)> {
        let samples = || self.column(reported).map(|column| self.during(active, column.data.to_f64()));
        let one = |value: f64| (value, 1.0);
        match sum.how {
            // The last arrival is known once nothing is on its way.
            How::SinceStart if sum.given.is_some() && self.is_under_way(subject) => None,
            How::SinceStart if sum.given.is_some() => {
                let last = reported.value().as_f64();
                // Of a flow from which nothing arrived, nothing was completed.
                let ends = self.source_end(subject).filter(|_| last.is_finite());
                Some(one(ends.fold(last, f64::max)))
            }
            How::Last | How::SinceStart => Some(one(reported.value().as_f64())),
            How::Grown | How::PerSecond => Some(one(self.grown(reported))),
            How::Quantile(_) | How::DistributionMean => None,
            How::Mean => stats::time_average(&samples()?).map(one),
            How::Median => stats::median(samples()?.into_iter().map(|(_, value)| value).collect()).map(one),
            How::MedianPerSecond => match self.packets(subject) {
                // Two parts would have too few: the whole time is one.
                packets if packets > 0.0 && packets < 2.0 * PACKETS_OF_PART => {
                    Some(one(self.grown(reported) / active.length_s))
                }
                packets => median_growth(&samples()?, active.end_s, packets).map(one),
            },
            How::Over(other) => {
                let found = known.over.iter().find(|(of, _)| std::ptr::eq(*of, sum)).map(|(_, over)| *over);
                let over = found.unwrap_or_else(|| {
                    let over = self.grown_of(subject, sum, other);
                    known.over.push((sum, over));
                    over
                });
                Some((self.grown(reported), over))
            }
            How::Loss { expected, sent, late } => {
                Some(self.lost(subject, reported, Loss { expected, sent, late }))
            }
            How::OfAllWith(other) => {
                let grown = self.grown(reported).max(0.0);
                let others = self.end.of(reported.part).iter().filter(|total| total.metric.is(other));
                Some((grown, grown + others.map(|total| self.grown(total)).sum::<f64>()))
            }
            How::Dropped => Some(one(self.dropped(reported.part))),
            How::DropRatio => {
                let dropped = self.dropped(reported.part);
                Some((dropped, dropped + self.grown(reported)))
            }
        }
    }

    fn column(&self, reported: &Total) -> Option<&Column> {
        self.series.of(reported.part).iter().find(|column| column.metric.is(reported.metric))
    }

    /// Returns how much a total grew after the warm-up.
    pub(super) fn grown(&self, reported: &Total) -> f64 {
        let mut before = self.warm.of(reported.part).iter();
        let before = before.find(|total| total.metric.is(reported.metric));
        let before = before.map_or(0.0, |total| total.value().as_f64());
        reported.value().as_f64() - if before.is_nan() { 0.0 } else { before }
    }

    /// Returns how much a metric grew in all parts that the measure is taken at.
    fn grown_of(&self, subject: &Subject<'_>, sum: &Sum, metric: &Metric) -> f64 {
        let parts = subject.parts.iter().filter(|(_, end)| is_taken_at(sum, subject.kind, *end));
        let totals = parts.flat_map(|(part, _)| self.end.of(*part));
        totals.filter(|total| total.metric.is(metric)).map(|total| self.grown(total)).sum()
    }

    /// Returns how many packets or cells a part dropped.
    fn dropped(&self, part: u32) -> f64 {
        let drops = self.end.of(part).iter().filter(|total| total.metric.is_drop);
        drops.map(|total| self.grown(total)).sum::<f64>() + 0.0
    }

    /// Returns the samples of a subject's active time after the warm-up.
    ///
    /// The first one at or after its end is the last.
    fn during(&self, active: Active, values: Vec<f64>) -> Vec<(f64, f64)> {
        let from = self.seconds.partition_point(|at| *at < active.start_s.max(self.warm_up_s));
        let until = self.seconds.partition_point(|at| *at < active.end_s) + 1;
        let samples = self.seconds.iter().copied().zip(values);
        samples.take(until).skip(from).collect()
    }
}

/// Values that all parts of a subject share.
///
/// A flow to a group has thousands of parts.
#[derive(Default)]
struct Known {
    /// Denominators of measures.
    over: Vec<(&'static Sum, f64)>,
    /// Counters that measures depend on, with `true` for those above zero.
    given: Vec<(&'static Of<Counter>, bool)>,
}

/// Returns `true` for what goodput is made of.
pub(super) fn is_delivered(metric: &Metric) -> bool {
    DELIVERED.iter().any(|delivered| metric.is(delivered))
}

/// Returns the median growth per second over parts of a time in which packets arrived.
///
/// Parts begin and end with samples, up to `end`. Each has [`PACKETS_OF_PART`] in the mean, if as many arrived.
fn median_growth(samples: &[(f64, f64)], end: f64, packets: f64) -> Option<f64> {
    let count = samples.partition_point(|sample| sample.0 <= end);
    let steps = count.checked_sub(1).filter(|steps| *steps > 0)?;
    let parts = if packets > 0.0 { ((packets / PACKETS_OF_PART) as usize).clamp(1, steps) } else { steps };
    let bounds: Vec<(f64, f64)> = (0..=parts).map(|part| samples[part * steps / parts]).collect();
    let grown = bounds.windows(2).filter(|part| part[1].0 > part[0].0);
    stats::median(grown.map(|part| (part[1].1 - part[0].1) / (part[1].0 - part[0].0)).collect())
}

/// Returns the measure of a distribution.
fn of_distribution(values: &Histogram, how: How) -> Option<f64> {
    match how {
        How::Quantile(percent) => values.quantile(f64::from(percent) / 100.0),
        How::DistributionMean => values.mean().map(Span::as_secs_f64),
        _ => None,
    }
}

/// Returns `true` if a measure is taken at this part of its subject.
///
/// Flows have ends; other elements of a flow have no measures.
fn is_taken_at(sum: &Sum, kind: Kind, end: Option<End>) -> bool {
    sum.end == end && end.is_some() == (kind == Kind::Flow)
}

/// Adds a part's value to the measure of the same name, or begins one.
fn add<'a>(found: &mut Vec<Summed<'a>>, new: Summed<'a>) {
    let Some(known) = found.iter_mut().find(|known| known.sum.name == new.sum.name) else {
        found.push(new);
        return;
    };
    known.total += new.total;
    match new.sum.how {
        How::Over(_) => {}
        // Channels of one line follow each other: what entered the first is what was sent.
        How::DropRatio => known.over = known.over.max(new.over),
        _ => known.over += new.over,
    }
}
