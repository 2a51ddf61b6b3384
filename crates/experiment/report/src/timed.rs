//! Diagrams of a run's series over time, as the metrics' declarations hint.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use bentpipe_net::metric::{End, Kind, Style};
use bentpipe_record::{Column, Declaration, Series, SeriesError, Subject, SubjectKind, pattern};
use bentpipe_units::Span;
use indexmap::IndexMap;

use super::axis::Axis;
use super::plot::{Curve, Mark, Plot};

/// Most curves of a diagram. Of more, copies are shown by their mean and their spread.
const MAX_CURVES: usize = 8;

/// Maximum number of windows of a rate. Longer windows keep single packets from causing jumps.
const RATE_WINDOWS: usize = 90;

/// Part by which windows of equal length may differ.
const SAME: f64 = 1e-9;

/// Diagrams whose components are stacked, from below. Their other metrics are lines.
const STACKED: [(&str, &[&str]); 2] = [
    ("Delay of voice", &["end-delay", "network-delay", "playout-delay"]),
    (
        "Runs of lost or late packets",
        &["loss-runs-1", "loss-runs-2", "loss-runs-3", "loss-runs-6", "loss-runs-11"],
    ),
];

/// Maximum number of diagrams of a stack, each of one subject.
const MAX_STACKS: usize = 4;

/// Measure of what a flow delivered.
const GOODPUT: &str = "goodput";

/// Measure of a flow that ended, made of the instant at which it did.
const COMPLETION: &str = "completion";

/// Metric that says whether a flow has ended, at its sender. Flows without it end when their data have arrived.
const ENDED: &str = "ended";

/// Metrics whose first growth starts a flow where results lack the starts.
const BEGUN: [&str; 3] = ["sent", "segments-sent", "requests"];

/// Returns `true` if a metric is in a diagram, or begins or ends a curve.
pub(super) fn is_drawn(subject: &str, metric: &Declaration) -> bool {
    let begins = || BEGUN.contains(&&*metric.name) && sender_of(subject).is_some();
    metric.is_drawn_of(subject) || metric.makes(COMPLETION) || metric.name == ENDED || begins()
}

/// Returns the flow that an element is the sender of.
fn sender_of(element: &str) -> Option<&str> {
    Subject::end_of_flow(element).filter(|(_, end)| *end == End::Sender).map(|(flow, _)| flow)
}

/// Returns the flow that an element is an end of, or the element.
fn flow_of(element: &str) -> &str {
    Subject::end_of_flow(element).map_or(element, |(flow, _)| flow)
}

/// Samples, and when flows began and ended.
struct Times<'a> {
    seconds: Vec<f64>,
    /// Start of a flow; infinite if it never begins. Absent of flows that begin with the run.
    begins: HashMap<&'a str, f64>,
    ends: HashMap<&'a str, f64>,
}

impl<'a> Times<'a> {
    fn of(series: &'a Series) -> Times<'a> {
        let ending = series.columns.iter().filter(|column| column.metric.makes(COMPLETION));
        let last = |column: &'a Column| column.data.to_f64().last().copied();
        let senders = series.columns.iter().filter(|column| column.metric.name() == ENDED);
        let unended: HashSet<&str> = senders
            .filter(|column| last(column) == Some(0.0))
            .filter_map(|column| sender_of(&column.element))
            .collect();
        let end = |column: &'a Column| {
            let last = last(column).filter(|end| end.is_finite())?;
            let (flow, _) = Subject::end_of_flow(&column.element).filter(|(_, end)| *end == End::Receiver)?;
            (!unended.contains(flow)).then_some((flow, last))
        };
        let seconds = series.seconds();
        let begins = series.starts.as_ref().map(|starts| {
            starts.iter().map(|(flow, start)| (&flow[..], start.unwrap_or(f64::INFINITY))).collect()
        });
        Times {
            begins: begins.unwrap_or_else(|| begins_of(series, &seconds)),
            ends: ending.filter_map(end).collect(),
            seconds,
        }
    }

    /// Returns the instant at which an element's flow began.
    fn begin(&self, element: &str) -> f64 {
        let flow = flow_of(element);
        self.begins.get(flow).copied().unwrap_or(f64::NEG_INFINITY)
    }

    /// Returns the length of the windows that rates are means of.
    fn window(&self) -> Option<Span> {
        let step = window_of(self.seconds.len());
        let (from, to) = (self.seconds.first()?, self.seconds.get(step)?);
        Some(Span::from_secs_f64(to - from))
    }

    /// Returns when a flow's curves end.
    fn end(&self, element: &str) -> f64 {
        let flow = flow_of(element);
        self.ends.get(flow).copied().unwrap_or(f64::INFINITY)
    }
}

/// Returns the last sample before each flow sent anything.
///
/// Flows that begin with the run have none.
fn begins_of<'a>(series: &'a Series, seconds: &[f64]) -> HashMap<&'a str, f64> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    let columns = series.columns.iter().filter(|column| BEGUN.contains(&column.metric.name()));
    for column in columns {
        let Some(flow) = sender_of(&column.element) else { continue };
        let grown = column.data.to_f64().iter().position(|sent| *sent > 0.0).unwrap_or(usize::MAX);
        first.entry(flow).and_modify(|known| *known = grown.min(*known)).or_insert(grown);
    }
    let late = first.into_iter().filter(|(_, first)| *first > 1);
    late.map(|(flow, first)| (flow, seconds.get(first - 1).copied().unwrap_or(f64::INFINITY))).collect()
}

/// Reads the series of the run in a folder, and returns its diagrams.
///
/// # Errors
/// Returns an error if they are missing or unreadable.
pub fn run_plots(folder: &Path) -> Result<Vec<Plot>, SeriesError> {
    bentpipe_record::read_series(folder, is_drawn).map(|series| plots(&series))
}

/// Returns the diagrams of one run, those with something to show.
pub(super) fn plots(series: &Series) -> Vec<Plot> {
    let mut diagrams: IndexMap<&str, Vec<Drawn<'_>>> = IndexMap::new();
    for column in &series.columns {
        if let Some((style, diagram)) = column.metric.drawing() {
            diagrams.entry(diagram).or_default().push(Drawn { column, style });
        }
    }
    let mut diagrams: Vec<(&str, Vec<Drawn<'_>>)> = diagrams.into_iter().collect();
    diagrams.sort_by_key(|(_, drawn)| drawn.first().map(Drawn::order));
    let times = Times::of(series);
    let plots = diagrams.into_iter().flat_map(|(title, drawn)| {
        match STACKED.iter().find(|(stacked, _)| *stacked == title) {
            Some((_, components)) => stacks(&times, (title, *components), &drawn),
            None => vec![plot(&times, title, &drawn)],
        }
    });
    plots.filter(|plot| !plot.is_empty()).collect()
}

/// Returns the goodput over time of each flow, up to its end.
pub(super) fn shares(series: &Series) -> Vec<(String, Vec<(f64, f64)>)> {
    let times = Times::of(series);
    let is_goodput = |column: &&Column| {
        column.metric.makes(GOODPUT) && column.metric.drawing().is_some_and(|(style, _)| style == Style::Rate)
    };
    let of_flows = series
        .columns
        .iter()
        .filter(|column| Subject::part_of_flow(&column.element).is_some())
        .filter(is_goodput);
    let drawn = of_flows.map(|column| Drawn { column, style: Style::Rate });
    drawn.map(|drawn| (drawn.subject().to_owned(), drawn.points(&times))).collect()
}

/// A column in a diagram.
#[derive(Clone, Copy)]
struct Drawn<'a> {
    column: &'a Column,
    style: Style,
}

impl<'a> Drawn<'a> {
    /// Returns the place of the diagram: by kind of subject, rates first, counted events last.
    fn order(&self) -> (SubjectKind, u8) {
        let kind = kind_and_name(&self.column.element).map_or(SubjectKind::Node, |(kind, _)| kind);
        let style = match (self.style, self.column.metric.kind()) {
            (Style::Rate, _) => 0,
            (_, Kind::Gauge | Kind::Histogram) => 1,
            (_, Kind::Counter) => 2,
        };
        (kind, style)
    }

    /// Returns the subject's name for a legend: "satellite.forward" of "link.satellite.forward".
    fn subject(&self) -> &'a str {
        legend(&self.column.element)
    }

    /// Returns the end of a flow that has it, for a legend with both.
    fn end(&self) -> &'static str {
        end(&self.column.element)
    }

    /// Returns the curve from the start of its flow as far as that lasted. In front of the start it has no values.
    fn points(&self, times: &Times<'_>) -> Vec<(f64, f64)> {
        let (values, end) = (self.column.data.to_f64(), times.end(&self.column.element));
        let samples = times.seconds.iter().copied().zip(values);
        let mut points = match self.style {
            Style::Rate => growth(samples.collect(), end, self.column.unit().per_second_factor()),
            Style::Line | Style::Limit => samples.take_while(|(at, _)| *at <= end).collect(),
        };
        let begin = times.begin(&self.column.element);
        points.iter_mut().filter(|(at, _)| *at <= begin).for_each(|(_, value)| *value = f64::NAN);
        points
    }
}

/// Returns the name of an element without kind and end of a flow.
fn legend(element: &str) -> &str {
    Subject::end_of_flow(element).map_or_else(|| without_kind(element), |(flow, _)| flow)
}

/// Returns a name without its kind, for titles and legends. Nodes and groups keep theirs.
pub(super) fn without_kind(name: &str) -> &str {
    kind_and_name(name).map_or(name, |(_, thing)| thing)
}

fn kind_and_name(name: &str) -> Option<(SubjectKind, &str)> {
    SubjectKind::of_name(name).filter(|(kind, _)| !matches!(kind, SubjectKind::Group | SubjectKind::Node))
}

/// Returns the end of a flow that an element is.
fn end(path: &str) -> &'static str {
    match Subject::end_of_flow(path) {
        Some((_, End::Sender)) => ", at the sender",
        Some((_, End::Receiver)) => ", at the receiver",
        None => "",
    }
}

fn plot(times: &Times<'_>, title: &str, drawn: &[Drawn<'_>]) -> Plot {
    let (limits, own): (Vec<Drawn<'_>>, Vec<Drawn<'_>>) =
        drawn.iter().partition(|drawn| drawn.style == Style::Limit);
    let unit = own.first().map_or("", |first| match first.style {
        Style::Rate => first.column.unit().per_second().symbol(),
        Style::Line | Style::Limit => first.column.unit().symbol(),
    });
    let axis = match unit {
        "ratio" => Axis::share("share"),
        "count" | "packets" => Axis::new(label(title), ""),
        unit => Axis::new(label(title), unit),
    };
    let mut plot = Plot::new(title, Axis::time(), axis);
    if own.iter().any(|drawn| drawn.style == Style::Rate) {
        plot.note = times
            .window()
            .map(|window| {
                format!("Each value is the mean of {window}, in which packets count whole when they arrive.")
            })
            .unwrap_or_default();
    }
    let (shown, part) = few(curves(&own, times));
    plot.curves = shown;
    let is_late = |drawn: &Drawn<'_>| times.begin(&drawn.column.element).is_finite();
    let is_band = plot.curves.iter().any(|curve| curve.mark == Mark::Band);
    let of_begun = match own.iter().any(is_late) && is_band {
        true => "Means are of the copies that have begun.".to_owned(),
        false => String::new(),
    };
    let notes = [plot.note, of_begun, part];
    plot.note = notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join(" ");
    for (colour, curve) in plot.curves.iter_mut().filter(|curve| curve.mark == Mark::Line).enumerate() {
        curve.colour = colour;
    }
    bands(&mut plot.curves);
    let limits: Vec<Curve> = limits.iter().filter_map(|limit| limit_of(limit, &plot.curves, times)).collect();
    plot.curves.extend(limits);
    plot
}

/// Returns a stacked diagram for each subject, ends of flows apart.
///
/// Of copies it has the mean.
fn stacks(times: &Times<'_>, (title, components): (&str, &[&str]), drawn: &[Drawn<'_>]) -> Vec<Plot> {
    let mut subjects: IndexMap<String, Vec<Drawn<'_>>> = IndexMap::new();
    for one in drawn {
        subjects.entry(pattern(&one.column.element)).or_default().push(*one);
    }
    let shown =
        subjects.into_iter().map(|(subject, drawn)| stack(times, (title, &subject, components), &drawn));
    shown.filter(|plot| !plot.is_empty()).take(MAX_STACKS).collect()
}

fn stack(
    times: &Times<'_>,
    (title, subject, components): (&str, &str, &[&str]),
    drawn: &[Drawn<'_>],
) -> Plot {
    let of_metrics = drawn.first().map_or("", |first| first.column.unit().symbol());
    let unit = if matches!(of_metrics, "count" | "packets") { "" } else { of_metrics };
    let title = format!("{title}: {}{}", legend(subject), end(subject));
    let mut plot =
        Plot::new(title, Axis::time(), Axis::new(if unit.is_empty() { "number" } else { "delay" }, unit));
    plot.note = "Areas are stacked.".into();
    let mut below: Vec<f64> = Vec::new();
    for (colour, component) in components.iter().enumerate() {
        let Some((label, points)) = mean(times, component, drawn) else { continue };
        // A length of loss that none has had makes no area.
        if !points.iter().any(|point| point.1 > 0.0) {
            continue;
        }
        below.resize(points.len(), 0.0);
        let (mut middle, mut halves) = (Vec::new(), Vec::new());
        for ((at, value), below) in points.into_iter().zip(&mut below) {
            middle.push((at, *below + value / 2.0));
            halves.push(value / 2.0);
            *below += if value.is_finite() { value } else { 0.0 };
        }
        plot.curves.push(Curve { name: label, points: middle, errors: halves, mark: Mark::Band, colour });
    }
    let mut rest: Vec<&str> = drawn.iter().map(|one| one.column.metric.name()).collect();
    rest.retain(|name| !components.contains(name));
    rest.dedup();
    for (n, metric) in rest.into_iter().enumerate() {
        let Some((name, points)) = mean(times, metric, drawn) else { continue };
        let colour = components.len() + n;
        plot.curves.push(Curve { name, points, mark: Mark::Dashed, colour, ..Curve::default() });
    }
    plot
}

/// Returns the label of a metric, and the mean over its columns at each instant.
fn mean(times: &Times<'_>, metric: &str, drawn: &[Drawn<'_>]) -> Option<(String, Vec<(f64, f64)>)> {
    let of_metric = drawn.iter().filter(|one| one.column.metric.name() == metric);
    let columns: Vec<Vec<(f64, f64)>> = of_metric.clone().map(|one| one.points(times)).collect();
    let longest = columns.iter().max_by_key(|points| points.len())?;
    let at_instant = |(n, (at, _)): (usize, &(f64, f64))| {
        let values = columns.iter().filter_map(|points| points.get(n)).map(|point| point.1);
        let known: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        (*at, known.iter().sum::<f64>() / known.len() as f64)
    };
    let label = of_metric.map(|one| one.column.metric.label().to_owned()).next()?;
    Some((label, longest.iter().enumerate().map(at_instant).collect()))
}

/// Returns the label of a diagram's axis. It is the title without a capital, unless that is an abbreviation.
pub(super) fn label(title: &str) -> String {
    let is_abbreviation = title.chars().skip(1).any(char::is_uppercase);
    if is_abbreviation { title.to_owned() } else { title.to_lowercase() }
}

/// A curve with the pattern of its subject, and its metric.
struct Named {
    copies: String,
    /// Instant at which its flow began.
    begin: f64,
    curve: Curve,
}

/// Returns a curve for each column. Of several metrics of one subject the legend has their labels, of both ends of a flow their ends.
fn curves<'a>(drawn: &[Drawn<'a>], times: &Times<'_>) -> Vec<Named> {
    let mut of_part: HashMap<u32, usize> = HashMap::new();
    drawn.iter().for_each(|drawn| *of_part.entry(drawn.column.part).or_default() += 1);
    let mut of_name: HashMap<(&str, &str), usize> = HashMap::new();
    let name = |drawn: &Drawn<'a>| (drawn.subject(), drawn.column.metric.name());
    drawn.iter().for_each(|drawn| *of_name.entry(name(drawn)).or_default() += 1);
    let named = |drawn: &Drawn<'a>| {
        let end = if of_name[&name(drawn)] > 1 { drawn.end() } else { "" };
        let several = of_part[&drawn.column.part] > 1;
        let label = if several { format!(": {}", drawn.column.metric.label()) } else { String::new() };
        let name = format!("{}{end}{label}", drawn.subject());
        let copies = format!("{}{end}{label}", pattern(drawn.subject()));
        let begin = times.begin(&drawn.column.element);
        Named { copies, begin, curve: Curve { name, points: drawn.points(times), ..Curve::default() } }
    };
    drawn.iter().map(named).collect()
}

/// Returns the dashed line of a limit, if its curve is shown.
fn limit_of(limit: &Drawn<'_>, shown: &[Curve], times: &Times<'_>) -> Option<Curve> {
    let owner = shown.iter().find(|curve| curve.name == limit.subject())?;
    let points = limit.points(times);
    let name = format!("{}: {}", limit.subject(), limit.column.metric.label().to_lowercase());
    let has_points = points.iter().any(|point| point.1.is_finite());
    has_points.then_some(Curve { name, points, mark: Mark::Dashed, colour: owner.colour, ..Curve::default() })
}

/// Returns the number of sampling intervals of a rate's window.
fn window_of(samples: usize) -> usize {
    samples.div_ceil(RATE_WINDOWS).max(1)
}

/// Returns the growth per second up to `end`, times `factor`.
///
/// It reaches to the last sample. In a last window that is shorter than the others, packets would count for more: it is one with the
/// window before.
fn growth(samples: Vec<(f64, f64)>, end: f64, factor: f64) -> Vec<(f64, f64)> {
    let step = window_of(samples.len());
    let last = samples.last().copied();
    let mut windows: Vec<(f64, f64)> = samples.into_iter().step_by(step).collect();
    windows.extend(last.filter(|last| windows.last().is_some_and(|other| other.0 < last.0)));
    let length = windows.windows(2).map(|pair| pair[1].0 - pair[0].0).next().unwrap_or(0.0);
    let after = windows.partition_point(|window| window.0 < end);
    if let Some(last) = windows.get_mut(after) {
        last.0 = end;
        windows.truncate(after + 1);
    }
    if let [.., _, (from, _), (to, _)] = windows[..]
        && to - from < length * (1.0 - SAME)
    {
        windows.remove(windows.len() - 2);
    }
    let rate = |pair: &[(f64, f64)]| {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        (to > from).then(|| (to, (after - before) * factor / (to - from)))
    };
    windows.windows(2).filter_map(rate).collect()
}

fn peak(curve: &Curve) -> f64 {
    curve.points.iter().map(|point| point.1).filter(|y| y.is_finite()).fold(0.0, f64::max)
}

/// Returns the curves themselves if they are few. Otherwise copies become their mean and spread, and of the rest those that reach
/// highest remain.
///
/// Curves that stay at zero are left out, unless they are of copies: one that gets nothing is part of the mean, from the start of its
/// flow on. With them a note on those that do not remain; may be empty.
fn few(curves: Vec<Named>) -> (Vec<Curve>, String) {
    let has_any = |curve: &Curve| peak(curve) > 0.0;
    if curves.iter().filter(|named| has_any(&named.curve)).count() <= MAX_CURVES {
        return (curves.into_iter().map(|named| named.curve).filter(has_any).collect(), String::new());
    }
    let mut groups: IndexMap<String, Vec<Curve>> = IndexMap::new();
    let mut all: HashMap<String, usize> = HashMap::new();
    for Named { copies, begin, curve } in curves {
        *all.entry(copies.clone()).or_default() += 1;
        let of_copies = groups.entry(copies).or_default();
        if begin < f64::INFINITY {
            of_copies.push(curve);
        }
    }
    groups.retain(|_, curves| curves.iter().any(has_any));
    let mut groups: Vec<Vec<Curve>> = groups
        .into_iter()
        .map(|(name, curves)| if all[&name] == 1 { curves } else { spread((&name, all[&name]), &curves) })
        .collect();
    let (all, mut part) = (groups.len(), String::new());
    if all > MAX_CURVES {
        part = format!("Shown: the {MAX_CURVES} highest of {all}; bentpipe series has all.");
        let highest = |group: &Vec<Curve>| group.iter().map(peak).fold(0.0, f64::max);
        groups.sort_by(|a, b| highest(b).total_cmp(&highest(a)));
        groups.truncate(MAX_CURVES);
    }
    (groups.into_iter().flatten().collect(), part)
}

/// Returns the mean of copies, and the band that nine of ten are in. `all` is their number with those that never began.
fn spread((name, all): (&str, usize), copies: &[Curve]) -> Vec<Curve> {
    let rows = copies.iter().map(|copy| copy.points.len()).max().unwrap_or(0);
    let (mut mean, mut middle, mut halves) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let points = copies.iter().filter_map(|copy| copy.points.get(row));
        // One that ended has a longer last window.
        let longest = copies.iter().filter(|copy| copy.points.len() == rows);
        let Some(at) = longest.filter_map(|copy| copy.points.get(row)).map(|point| point.0).reduce(f64::max)
        else {
            continue;
        };
        // A copy that ended within the interval has no mean over it with those that went on.
        let points = points.filter(|point| point.0 == at);
        let mut values: Vec<f64> = points.map(|point| point.1).filter(|y| y.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let place = (q * values.len().saturating_sub(1) as f64).round() as usize;
            values.get(place).copied().unwrap_or(f64::NAN)
        };
        let (low, high) = (quantile(0.05), quantile(0.95));
        mean.push((at, values.iter().sum::<f64>() / values.len() as f64));
        middle.push((at, f64::midpoint(low, high)));
        halves.push((high - low) / 2.0);
    }
    let curve = |name: String, points, errors, mark| Curve { name, points, errors, mark, ..Curve::default() };
    let of = if copies.len() < all { format!("{} of {all}", copies.len()) } else { all.to_string() };
    vec![
        curve(format!("{name}, mean of {of}"), mean, Vec::new(), Mark::Line),
        curve(format!("{name}, 5 % to 95 %"), middle, halves, Mark::Band),
    ]
}

/// Colours the band of a spread as the mean that precedes it.
fn bands(curves: &mut [Curve]) {
    let mut colour = 0;
    for curve in curves {
        match curve.mark {
            Mark::Band => curve.colour = colour,
            _ => colour = curve.colour,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bentpipe_net::Unit;
    use bentpipe_record::{Data, Declared, DeclaredMeasure, Drawing};
    use bentpipe_units::Time;

    use super::*;

    fn declaration(name: &str, unit: Unit, draw: Option<Style>, makes: &str) -> Arc<Declaration> {
        let draw = draw.map(|style| Drawing { style, diagram: "Goodput".into(), at: None });
        let measures = vec![DeclaredMeasure { name: makes.into(), label: makes.into(), since: 1 }];
        let (name, label) = (name.to_owned(), name.to_owned());
        let (kind, once, of) = (Kind::Gauge, Vec::new(), Vec::new());
        Arc::new(Declaration { name, unit, kind, label, draw, measures, once, of })
    }

    /// A sample each second for ten seconds of copies that deliver 1000 bytes a second until their ends.
    fn series(ends: &[f64]) -> Series {
        let delivered = declaration("delivered-bytes", Unit::Bytes, Some(Style::Rate), "goodput");
        let completed = declaration("completed", Unit::Seconds, None, "completion");
        let mut columns = Vec::new();
        for (part, end) in ends.iter().enumerate() {
            let element: Arc<str> = format!("flow.a.{}.receiver", part + 1).into();
            let bytes = (0..=10).map(|second| 1000.0 * end.min(f64::from(second))).collect();
            let ended =
                (0..=10).map(|second| if f64::from(second) < *end { f64::NAN } else { *end }).collect();
            for (metric, data) in [(&delivered, bytes), (&completed, ended)] {
                let metric = Declared::Read(Arc::clone(metric));
                let (part, element) = (part as u32, Arc::clone(&element));
                columns.push(Column { part, element, metric, data: Data::Gauge(data) });
            }
        }
        Series {
            times: (0..=10).map(|second| Time::from_nanos(second * 1_000_000_000)).collect(),
            columns,
            starts: None,
        }
    }

    #[test]
    fn abbreviations_keep_their_capitals() {
        assert_eq!(["Goodput", "MODCOD", "Es/N0"].map(label), ["goodput", "MODCOD", "Es/N0"]);
    }

    #[test]
    fn a_metric_of_both_ends_of_a_flow_has_their_names() {
        let mut series = series(&[20.0, 20.0]);
        for (column, element) in series.columns.iter_mut().zip(["sender", "sender", "receiver", "receiver"]) {
            column.element = format!("flow.a.{element}").into();
        }
        let names = |series: &Series| -> Vec<String> {
            plots(series).remove(0).curves.into_iter().map(|curve| curve.name).collect()
        };
        assert_eq!(names(&series), ["a, at the sender", "a, at the receiver"]);
        series.columns.truncate(2);
        assert_eq!(names(&series), ["a"]);
    }

    #[test]
    fn curves_end_where_their_flow_ended() {
        let series = series(&[2.5, 20.0]);
        let plots = plots(&series);
        assert_eq!(plots.iter().map(|plot| plot.title.as_str()).collect::<Vec<_>>(), ["Goodput"]);
        let [short, long] = &plots[0].curves[..] else { panic!("two curves") };
        assert_eq!((&short.name[..], short.points.last()), ("a.1", Some(&(2.5, 8000.0))));
        assert_eq!((&long.name[..], long.points.last()), ("a.2", Some(&(10.0, 8000.0))));
    }

    /// Packets of 1000 bytes each 0.4 s; the last arrives 0.02 s after a sample.
    #[test]
    fn the_end_of_a_flow_is_no_peak() {
        let samples = (0..=10).map(|second| (f64::from(second), 2500.0 * f64::from(second).min(4.02)));
        let rates = growth(samples.collect(), 4.02, 8.0);
        let [.., before, last] = rates[..] else { panic!("rates") };
        assert_eq!((rates.len(), before.0, last.0), (4, 2.0 + 1.0, 4.02));
        assert!((last.1 - 20_000.0).abs() < 1e-6, "{last:?}");
    }

    /// Packets of 1250 bytes fill a line of 10 kbit/s, and the last arrives 0.2 s behind a window's begin.
    #[test]
    fn no_window_exceeds_the_line_by_more_than_a_packet() {
        let arrived = |at: f64| 1250.0 * ((at + 0.2).floor().min(46.0));
        for end in [45.8, f64::INFINITY] {
            let samples = (0..=50).map(|second| (f64::from(second), arrived(f64::from(second)))).collect();
            let rates = growth(samples, end, 8.0);
            let mut from = 0.0;
            for (to, rate) in rates {
                let carried = 10_000.0 * (to - from);
                assert!(
                    rate * (to - from) <= carried + 1250.0 * 8.0 && to - from >= 1.0,
                    "{from} {to} {rate}"
                );
                from = to;
            }
        }
    }

    /// A flow of datagrams has an instant of its last arrival whether it has ended or not.
    #[test]
    fn curves_of_a_flow_that_is_held_up_go_on() {
        let mut series = series(&[2.5]);
        let ended = declaration("ended", Unit::Count, None, "");
        let metric = Declared::Read(Arc::clone(&ended));
        let element = Arc::from("flow.a.1.sender");
        series.columns.push(Column { part: 9, element, metric, data: Data::Gauge(vec![0.0; 11]) });
        assert_eq!(plots(&series)[0].curves[0].points.last(), Some(&(10.0, 0.0)));
        assert!(is_drawn("flow.a.1.sender", &ended));
    }

    #[test]
    fn a_copy_that_gets_nothing_is_part_of_the_mean() {
        let ends = [[20.0; 9].as_slice(), &[0.0]].concat();
        let plots = plots(&series(&ends));
        assert_eq!(plots[0].curves[0].name, "a.*, mean of 10");
    }

    /// Its last window ends behind that of the others, and is not theirs.
    #[test]
    fn a_copy_that_ends_does_not_stand_for_those_that_go_on() {
        for end in [2.3, 2.7] {
            let plots = plots(&series(&[[20.0; 9].as_slice(), &[end]].concat()));
            let mean = &plots[0].curves[0];
            assert_eq!(
                mean.points.iter().map(|point| point.0).collect::<Vec<_>>(),
                (1..=10).map(f64::from).collect::<Vec<_>>()
            );
            assert!(mean.points.iter().all(|point| point.1 == 8000.0), "{end}: {:?}", mean.points);
        }
    }

    #[test]
    fn components_of_delay_are_stacked_by_end_and_over_copies() {
        let mut series = series(&[]);
        for (copy, network) in [(1, 0.2), (2, 0.4)] {
            for (metric, value) in [("network-delay", network), ("end-delay", 0.03), ("mouth-to-ear", 0.5)] {
                let mut metric = (*declaration(metric, Unit::Seconds, Some(Style::Line), "none")).clone();
                if let Some(drawing) = &mut metric.draw {
                    drawing.diagram = "Delay of voice".into();
                }
                let element: Arc<str> = format!("flow.calls.{copy}.receiver").into();
                let (part, metric) = (copy, Declared::Read(Arc::new(metric)));
                series.columns.push(Column { part, element, metric, data: Data::Gauge(vec![value; 11]) });
            }
        }
        let plots = plots(&series);
        let [plot] = &plots[..] else { panic!("one diagram") };
        assert_eq!(plot.title, "Delay of voice: calls.*, at the receiver");
        let [held, network, all] = &plot.curves[..] else { panic!("three curves") };
        let edges = |curve: &Curve| {
            let (middle, half) = (curve.points[5].1, curve.errors[5]);
            [middle - half, middle + half].map(|edge| (edge * 1e6).round() / 1e6)
        };
        assert_eq!((edges(held), edges(network)), ([0.0, 0.03], [0.03, 0.33]));
        assert_eq!((held.mark, all.mark, all.points[5].1), (Mark::Band, Mark::Dashed, 0.5));
    }

    #[test]
    fn lengths_of_loss_that_none_has_had_make_no_area() {
        let runs = |counts: [f64; 2]| {
            let mut series = series(&[]);
            for (n, count) in [(1, counts[0]), (2, counts[1])] {
                let name = format!("loss-runs-{n}");
                let mut metric = (*declaration(&name, Unit::Count, Some(Style::Line), "none")).clone();
                if let Some(drawing) = &mut metric.draw {
                    drawing.diagram = "Runs of lost or late packets".into();
                }
                let (element, metric) = ("flow.a.receiver".into(), Declared::Read(Arc::new(metric)));
                series.columns.push(Column { part: 1, element, metric, data: Data::Gauge(vec![count; 11]) });
            }
            plots(&series)
                .into_iter()
                .map(|plot| plot.curves.iter().map(|curve| curve.colour).collect())
                .collect()
        };
        let (none, some): (Vec<Vec<usize>>, Vec<Vec<usize>>) = (runs([0.0, 0.0]), runs([0.0, 3.0]));
        assert_eq!((none.len(), some), (0, vec![vec![1]]));
    }

    #[test]
    fn curves_that_are_left_out_are_counted() {
        let mut several = series(&[20.0; 11]);
        for (number, column) in several.columns.iter_mut().enumerate() {
            column.element = format!("flow.{}.receiver", char::from(b'a' + number as u8 / 2)).into();
        }
        let plot = plots(&several).remove(0);
        assert!(
            plot.note.ends_with(" Shown: the 8 highest of 11; bentpipe series has all."),
            "{}",
            plot.note
        );
        assert!(!plots(&series(&[20.0; 3]))[0].note.contains("Shown"));
    }

    #[test]
    fn rates_reach_to_the_end_of_the_run() {
        let of = |samples: u32| {
            let samples = (0..=samples).map(|n| (f64::from(n), 500.0 * f64::from(n)));
            growth(samples.collect(), f64::INFINITY, 8.0)
        };
        // Windows of three samples: one is left over at 181, two at 182, none at 183.
        for (samples, before_last) in [(181, 177.0), (182, 177.0), (183, 180.0)] {
            let rates = of(samples);
            assert!(rates.iter().all(|(_, rate)| *rate == 4000.0), "{rates:?}");
            let ends = [rates.len() - 2, rates.len() - 1].map(|n| rates[n].0);
            assert_eq!(ends, [before_last, f64::from(samples)]);
        }
    }

    #[test]
    fn starts_are_the_scenarios_whatever_was_sent() {
        let mut series = series(&[20.0; 12]);
        // Copies 11 and 12 get nothing: one has begun, one never does. Copy 1 begins at 5 s.
        for place in [20, 22] {
            series.columns[place].data = Data::Gauge(vec![0.0; 11]);
        }
        series.columns[0].data =
            Data::Gauge((0..=10).map(|second| 1000.0 * f64::from((second - 5).max(0))).collect());
        series.starts = Some([("a.1".to_owned(), Some(5.0)), ("a.12".to_owned(), None)].into());
        let mean = plots(&series).remove(0).curves.remove(0);
        assert_eq!(mean.name, "a.*, mean of 11 of 12");
        let at = |second: f64| mean.points.iter().find(|point| point.0 == second).map(|point| point.1);
        assert_eq!(at(4.0), Some(8000.0 * 9.0 / 10.0), "nothing that has begun is left out");
        assert_eq!(at(8.0), Some(8000.0 * 10.0 / 11.0));
        // A single curve begins with its flow.
        let (_, points) = shares(&series).remove(0);
        assert!(points.iter().all(|(at, rate)| (*at <= 5.0) == rate.is_nan()), "{points:?}");
    }

    #[test]
    fn copies_count_from_their_start_on_and_those_that_never_begin_do_not() {
        let mut series = series(&[20.0; 19]);
        let sent = declaration("sent", Unit::Packets, None, "none");
        // The first ten begin with the run, six at 5 s, three never.
        for part in 0..19 {
            let begin = match part {
                ..10 => 0,
                10..16 => 5,
                _ => 20,
            };
            let data = (0..=10).map(|second: i32| f64::from((second - begin).max(0))).collect();
            let element = format!("flow.a.{}.sender", part + 1).into();
            let metric = Declared::Read(Arc::clone(&sent));
            series.columns.push(Column { part: 100 + part, element, metric, data: Data::Gauge(data) });
            if let Data::Gauge(bytes) = &mut series.columns[2 * part as usize].data {
                *bytes = (0..=10).map(|second| 1000.0 * f64::from((second - begin).max(0))).collect();
            }
        }
        let plots = plots(&series);
        let mean = &plots[0].curves[0];
        assert_eq!(mean.name, "a.*, mean of 16 of 19");
        assert!(mean.points.iter().all(|(_, rate)| *rate == 8000.0), "{:?}", mean.points);
        assert!(plots[0].note.contains("copies that have begun"), "{}", plots[0].note);
    }

    #[test]
    fn many_copies_are_a_mean_and_a_spread() {
        let series = series(&[20.0; 19]);
        let plots = plots(&series);
        let [mean, band] = &plots[0].curves[..] else { panic!("a mean and a band") };
        assert_eq!((&mean.name[..], &band.name[..]), ("a.*, mean of 19", "a.*, 5 % to 95 %"));
        assert_eq!((band.mark, band.colour, band.errors.len()), (Mark::Band, mean.colour, mean.points.len()));
        let drawn = plots[0].to_svg();
        assert!(
            drawn.contains("class=\"band m0\" d=\"M") && drawn.contains("a.*, 5 % to 95 %, low"),
            "{drawn}"
        );
    }
}
