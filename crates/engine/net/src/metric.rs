//! Declarations of metrics that elements report.
//!
//! Models: a metric is a `static` next to its element, made by [`metrics!`](crate::metrics!). It has the
//! name, unit and label of the quantity, its kind of plot, and the measures of a run that are made of it.
//! Recorder, measures, columns, plots, live view and exporters read the declaration; none of them repeats a
//! name. A metric is identified by its address. Does not model: values. Elements keep plain integers and
//! report them when they are asked ([`Observer`](crate::Observer)).

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Unit of a metric's values; files have its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Bytes.
    #[serde(rename = "B")]
    Bytes,
    /// Packets, segments or frames, according to the name.
    #[serde(rename = "packets")]
    Packets,
    /// ATM cells.
    #[serde(rename = "cells")]
    Cells,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Number of events.
    #[serde(rename = "count")]
    Count,
    /// Ratio; one is the whole.
    #[serde(rename = "ratio")]
    Ratio,
    /// Decibels.
    #[serde(rename = "dB")]
    Decibels,
    /// Joules.
    #[serde(rename = "J")]
    Joules,
}

impl Unit {
    /// Every unit.
    pub const ALL: [Unit; 9] = [
        Unit::Bytes,
        Unit::Packets,
        Unit::Cells,
        Unit::Seconds,
        Unit::BitsPerSecond,
        Unit::Count,
        Unit::Ratio,
        Unit::Decibels,
        Unit::Joules,
    ];

    /// Returns the symbol used in plots and column names.
    pub const fn symbol(self) -> &'static str {
        match self {
            Unit::Bytes => "B",
            Unit::Packets => "packets",
            Unit::Cells => "cells",
            Unit::Seconds => "s",
            Unit::BitsPerSecond => "bit/s",
            Unit::Count => "count",
            Unit::Ratio => "ratio",
            Unit::Decibels => "dB",
            Unit::Joules => "J",
        }
    }

    /// Returns the unit of a growth per second. That of bytes is bits per second, of seconds a ratio.
    pub const fn per_second(self) -> Unit {
        match self {
            Unit::Bytes => Unit::BitsPerSecond,
            Unit::Seconds => Unit::Ratio,
            other => other,
        }
    }

    /// Returns the factor by which a growth per second is multiplied to be in [`Unit::per_second`].
    pub const fn per_second_factor(self) -> f64 {
        match self {
            Unit::Bytes => 8.0,
            _ => 1.0,
        }
    }
}

/// Kind of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Running total since the start, which never falls.
    Counter,
    /// Value at an instant.
    Gauge,
    /// Distribution since the start.
    Histogram,
}

/// Hint how a metric is drawn over time. Metrics of the same title share a diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Not drawn unless asked for.
    No,
    /// Values, in the diagram of this title.
    Line(&'static str),
    /// Growth per second, in the diagram of this title.
    Rate(&'static str),
    /// Thin line of a limit, in the diagram of this title.
    Limit(&'static str),
}

/// Style of a curve, apart from the diagram that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Values.
    Line,
    /// Growth per second.
    Rate,
    /// Thin line of a limit.
    Limit,
}

impl Draw {
    /// Returns the style and the diagram's title, if it is drawn.
    pub const fn drawing(self) -> Option<(Style, &'static str)> {
        match self {
            Draw::No => None,
            Draw::Line(diagram) => Some((Style::Line, diagram)),
            Draw::Rate(diagram) => Some((Style::Rate, diagram)),
            Draw::Limit(diagram) => Some((Style::Limit, diagram)),
        }
    }
}

/// End of a flow that a measure or a diagram is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Sending end.
    Sender,
    /// Receiving end.
    Receiver,
}

/// Reduction of a metric's values over a run, the warm-up left out.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// Value at the end.
    Last,
    /// Value at the end less the time at which the subject started.
    SinceStart,
    /// Growth.
    Grown,
    /// Growth over the time that the subject was active, in [`Unit::per_second`].
    PerSecond,
    /// Quantile of a distribution, in percent.
    Quantile(u8),
    /// Mean of a distribution.
    DistributionMean,
    /// Time average of the samples while the subject was active.
    Mean,
    /// Median of the samples while the subject was active.
    Median,
    /// Median of the growth per second between some of these samples, in [`Unit::per_second`].
    MedianPerSecond,
    /// Growth divided by the growth of another metric of the same subject.
    Over(&'static Of<Counter>),
    /// Ratio of packets that did not arrive, those that may be in flight left out.
    ///
    /// They are of the account of the flow's packets. Of a flow without one the metric counts missing numbers up to the latest
    /// received.
    Loss {
        /// Packets sent up to the latest received, at the receiver.
        expected: &'static Of<Counter>,
        /// Packets sent, at the sender.
        sent: &'static Of<Counter>,
        /// Packets of no use as they were late, which count as lost.
        late: Option<&'static Of<Gauge>>,
    },
    /// Growth over its sum with that of another metric of the part.
    OfAllWith(&'static Of<Counter>),
    /// Growth of all drops of the same part, added to that of the metric.
    Dropped,
    /// Drops divided by the sum of drops and packets not dropped.
    DropRatio,
}

/// Measure that is made of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// Last part of the measure's name: "goodput".
    pub name: &'static str,
    /// Title of its diagrams and columns.
    pub label: &'static str,
    /// Reduction over the run.
    pub how: How,
    /// End of a flow at which it is measured; `None`: both ends.
    pub end: Option<End>,
    /// Metric of the same part that must have grown for the measure to exist.
    pub given: Option<&'static Of<Counter>>,
    /// Version of the definitions with which its present meaning began.
    pub since: u32,
    /// Set if it is of a whole flow, and not of one direction.
    pub is_of_whole: bool,
    /// Set if it is a setting, of which copies have no spread.
    pub is_setting: bool,
}

impl Sum {
    /// Creates a measure of this name and label.
    pub const fn new(name: &'static str, label: &'static str, how: How) -> Sum {
        let (is_of_whole, is_setting) = (false, false);
        Sum { name, label, how, end: None, given: None, since: 1, is_of_whole, is_setting }
    }

    /// Restricts the measure to one end of a flow.
    pub const fn at(mut self, end: End) -> Sum {
        self.end = Some(end);
        self
    }

    /// Declares the version of the definitions with which its present meaning began.
    pub const fn since(mut self, version: u32) -> Sum {
        self.since = version;
        self
    }

    /// Declares that it is of a flow as a whole, and has no second direction.
    pub const fn of_whole(mut self) -> Sum {
        self.is_of_whole = true;
        self
    }

    /// Declares that it is a setting. Copies of a flow have no mean and no quantiles of it.
    pub const fn setting(mut self) -> Sum {
        self.is_setting = true;
        self
    }

    /// Leaves the measure out where `metric` of the same part did not grow.
    pub const fn given(mut self, metric: &'static Of<Counter>) -> Sum {
        self.given = Some(metric);
        self
    }
}

/// Column of the account of a flow's units: bytes, calls, requests, bundles or packets.
///
/// Units offered and copied are refused, delivered, duplicates, dropped or remaining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnitColumn {
    /// Units that the application has, sent or not.
    Offered,
    /// Further copies made on the way.
    Copied,
    /// Units that were not taken on.
    Refused,
    /// Units that the other end has, each once.
    ///
    /// They are bytes in order, calls set up, requests answered.
    Delivered,
    /// Further arrivals of delivered units.
    Duplicates,
    /// Units that ended on the way, or before they began.
    Dropped,
    /// Units that were not at their end when the run ended.
    Remaining,
}

impl UnitColumn {
    /// Columns, in their order.
    pub const ALL: [UnitColumn; 7] = [
        UnitColumn::Offered,
        UnitColumn::Copied,
        UnitColumn::Refused,
        UnitColumn::Delivered,
        UnitColumn::Duplicates,
        UnitColumn::Dropped,
        UnitColumn::Remaining,
    ];

    /// Returns the name in results.
    pub const fn name(self) -> &'static str {
        match self {
            UnitColumn::Offered => "offered",
            UnitColumn::Copied => "copied",
            UnitColumn::Refused => "refused",
            UnitColumn::Delivered => "delivered",
            UnitColumn::Duplicates => "duplicates",
            UnitColumn::Dropped => "dropped",
            UnitColumn::Remaining => "remaining",
        }
    }
}

/// Share of a metric in the account of its flow's units.
#[derive(Clone, Copy, Debug)]
pub struct UnitEntry {
    /// Column that it is added to.
    pub column: UnitColumn,
    /// Reason of refused, dropped and remaining units; empty of others.
    pub reason: &'static str,
    /// End of the flow at which it counts.
    pub end: End,
}

impl UnitEntry {
    /// Creates the entry of a metric of the sender.
    pub const fn sender(column: UnitColumn, reason: &'static str) -> UnitEntry {
        UnitEntry { column, reason, end: End::Sender }
    }

    /// Creates the entry of a metric of the receiver.
    pub const fn receiver(column: UnitColumn, reason: &'static str) -> UnitEntry {
        UnitEntry { column, reason, end: End::Receiver }
    }
}

/// Other source of an account of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitRest {
    /// Metrics alone.
    None,
    /// Flight between the ends, of all units in no column.
    InFlight,
    /// Loss of all units in no column, for this reason, as an end is over. Only if the metric is above zero; its value is in no column.
    Lost(&'static str),
    /// The account of the packets of the flow's sender.
    Packets,
    /// The accounts of the packets of both ends: the receiver answers each.
    RoundTrips,
}

/// Share of a metric in the account of units of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Units {
    /// Unit: "B", "calls".
    pub unit: &'static str,
    /// Columns that the metric is added to.
    pub entries: &'static [UnitEntry],
    /// Source of what no metric counts.
    pub rest: UnitRest,
}

/// Declaration of a metric.
#[derive(Debug)]
pub struct Metric {
    /// Name of its columns, in kebab case: "cwnd".
    pub name: &'static str,
    /// Unit of its values.
    pub unit: Unit,
    /// Kind of its values.
    pub kind: Kind,
    /// Noun phrase for readers: "Congestion window".
    pub label: &'static str,
    /// Hint how it is drawn.
    pub draw: Draw,
    /// End of a flow that it is drawn of; `None`: both.
    pub drawn_at: Option<End>,
    /// Measures that are made of it.
    pub sums: &'static [Sum],
    /// Set if it counts drops that no other metric of the same part counts. Drops are of packets, frames or
    /// cells.
    pub is_drop: bool,
    /// Set if it counts what a receiver of a medium loses to errors.
    pub is_loss: bool,
    /// Set if its flow carries the same in both directions, as a call does.
    ///
    /// Both ends report it.
    pub is_both_ways: bool,
    /// Share in the account of its flow's units, if it has one.
    pub units: Option<Units>,
    /// Names that it had in earlier releases.
    pub once: &'static [&'static str],
}

impl Metric {
    /// Returns `true` if both are the same declaration.
    pub fn is(&self, other: &Metric) -> bool {
        std::ptr::eq(self, other)
    }
}

/// Marks running totals.
#[derive(Debug)]
pub enum Counter {}

/// Marks values at an instant.
#[derive(Debug)]
pub enum Gauge {}

/// Marks distributions.
#[derive(Debug)]
pub enum Histogram {}

/// Declaration of a metric of kind `K`: a gauge cannot be reported as a counter.
#[derive(Debug)]
pub struct Of<K> {
    /// Declaration.
    pub metric: Metric,
    kind: PhantomData<K>,
}

impl Of<Counter> {
    /// Declares a running total.
    pub const fn new(name: &'static str, unit: Unit, label: &'static str) -> Of<Counter> {
        Of::of_kind(Kind::Counter, name, unit, label)
    }

    /// Declares that it counts drops that no other drop of the same part counts.
    pub const fn drops(mut self) -> Of<Counter> {
        self.metric.is_drop = true;
        self
    }

    /// Declares that it counts what a receiver of a medium loses to errors.
    pub const fn losses(mut self) -> Of<Counter> {
        self.metric.is_loss = true;
        self
    }
}

impl Of<Gauge> {
    /// Declares a value at an instant.
    pub const fn new(name: &'static str, unit: Unit, label: &'static str) -> Of<Gauge> {
        Of::of_kind(Kind::Gauge, name, unit, label)
    }
}

impl Of<Histogram> {
    /// Declares a distribution.
    pub const fn new(name: &'static str, unit: Unit, label: &'static str) -> Of<Histogram> {
        Of::of_kind(Kind::Histogram, name, unit, label)
    }
}

impl<K> Of<K> {
    const fn of_kind(kind: Kind, name: &'static str, unit: Unit, label: &'static str) -> Of<K> {
        let (draw, drawn_at, sums) = (Draw::No, None, &[]);
        let (is_drop, is_loss, is_both_ways, units, once) = (false, false, false, None, &[]);
        let metric = Metric {
            name,
            unit,
            kind,
            label,
            draw,
            drawn_at,
            sums,
            is_drop,
            is_loss,
            is_both_ways,
            units,
            once,
        };
        Of { metric, kind: PhantomData }
    }

    /// Declares how it is drawn.
    pub const fn drawn(mut self, draw: Draw) -> Of<K> {
        self.metric.draw = draw;
        self
    }

    /// Declares how it is drawn, of one end of a flow only.
    pub const fn drawn_at(mut self, end: End, draw: Draw) -> Of<K> {
        self.metric.draw = draw;
        self.metric.drawn_at = Some(end);
        self
    }

    /// Declares the measures that are made of it.
    pub const fn summed(mut self, sums: &'static [Sum]) -> Of<K> {
        self.metric.sums = sums;
        self
    }

    /// Declares that a flow whose sender reports it carries the same in both directions.
    pub const fn both_ways(mut self) -> Of<K> {
        self.metric.is_both_ways = true;
        self
    }

    /// Declares its share in the account of its flow's units.
    pub const fn units(mut self, unit: &'static str, entries: &'static [UnitEntry], rest: UnitRest) -> Of<K> {
        self.metric.units = Some(Units { unit, entries, rest });
        self
    }

    /// Declares names that it had in earlier releases.
    pub const fn once(mut self, names: &'static [&'static str]) -> Of<K> {
        self.metric.once = names;
        self
    }
}

impl<K> std::ops::Deref for Of<K> {
    type Target = Metric;

    fn deref(&self) -> &Metric {
        &self.metric
    }
}

/// Declares metrics as public statics, and `ALL`, the list of them.
///
/// ```
/// use bentpipe_net::metric::Draw;
/// bentpipe_net::metrics! {
///     Counter SENT = "sent", Packets, "Packets sent";
///     Gauge CWND = "cwnd", Bytes, "Congestion window" => .drawn(Draw::Line("Congestion window"));
/// }
/// assert_eq!((SENT.metric.name, ALL.len()), ("sent", 2));
/// ```
#[macro_export]
macro_rules! metrics {
    ($($kind:ident $id:ident = $name:literal, $unit:ident, $label:literal $(=> $(. $method:ident ($($argument:expr),* $(,)?))+)?;)*) => {
        $(
            #[doc = concat!($label, ".")]
            pub static $id: $crate::metric::Of<$crate::metric::$kind> =
                $crate::metric::Of::<$crate::metric::$kind>::new($name, $crate::metric::Unit::$unit, $label)
                    $($(. $method ($($argument),*))+)?;
        )*
        /// Every metric declared here.
        pub static ALL: &[&$crate::metric::Metric] = &[$(&$id.metric),*];
    };
}

#[cfg(test)]
mod tests;
